//! The work of straight code: how many instructions of each kind, and what they take.

use backend::{InstructionCost, Target};
use loops::visit::walk_references;
use loops::{Condition, Kernel, ScalarExpr, Stmt};
use sym::{Expr, SymbolId};
use tensor::{DType, ScalarFunction};

use super::{Kind, Walk};

/// Instructions of straight code, by what they keep busy.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Work {
    /// Arithmetic of vectors or scalars, all kinds together.
    pub(super) arithmetic: f64,
    /// Of that the products, with or without a sum, and comparisons.
    pub(super) products: f64,
    /// Of that the sums and differences, shifts, and changes of a value in its place.
    pub(super) sums: f64,
    /// Cycles of divisions and square roots.
    pub(super) divisions: f64,
    /// Loads of vectors.
    pub(super) loads: f64,
    /// Loads of scalars, each into all lanes or into one.
    pub(super) scalar_loads: f64,
    /// Stores of vectors.
    pub(super) stores: f64,
    /// Stores of scalars.
    pub(super) scalar_stores: f64,
    /// Rearrangements of lanes.
    pub(super) permutes: f64,
    /// Cycles of gathers.
    pub(super) gathers: f64,
    /// What is none of these.
    pub(super) instructions: f64,
    /// Cycles of the longest row of steps that each wait for the one before.
    pub(super) latency: f64,
}

impl Work {
    pub(super) fn add(&mut self, other: &Work) {
        self.arithmetic += other.arithmetic;
        self.products += other.products;
        self.sums += other.sums;
        self.divisions += other.divisions;
        self.loads += other.loads;
        self.scalar_loads += other.scalar_loads;
        self.stores += other.stores;
        self.scalar_stores += other.scalar_stores;
        self.permutes += other.permutes;
        self.gathers += other.gathers;
        self.instructions += other.instructions;
        self.latency = self.latency.max(other.latency);
    }

    /// With work that waits for it.
    pub(super) fn then(&mut self, other: &Work) {
        let latency = self.latency + other.latency;
        self.add(other);
        self.latency = latency;
    }

    /// How many instructions it is.
    pub(super) fn count(&self) -> f64 {
        self.arithmetic
            + self.loads
            + self.scalar_loads
            + self.stores
            + self.scalar_stores
            + self.permutes
            + self.instructions
    }

    /// A share of it.
    pub(super) fn scaled(self, share: f64) -> Work {
        Work {
            arithmetic: self.arithmetic * share,
            products: self.products * share,
            sums: self.sums * share,
            divisions: self.divisions * share,
            loads: self.loads * share,
            scalar_loads: self.scalar_loads * share,
            stores: self.stores * share,
            scalar_stores: self.scalar_stores * share,
            permutes: self.permutes * share,
            gathers: self.gathers * share,
            instructions: self.instructions * share,
            latency: self.latency * share,
        }
    }

    /// Of vectors whose elements take such a share of a lane.
    pub(super) fn narrow(&mut self, share: f64) {
        self.arithmetic *= share;
        self.loads *= share;
        self.stores *= share;
        self.permutes *= share;
    }

    /// Of vectors that half a register holds, where a whole one takes two passes.
    pub(super) fn of_half_registers(&mut self) {
        let before = self.count();
        for part in [
            &mut self.arithmetic,
            &mut self.products,
            &mut self.sums,
            &mut self.divisions,
            &mut self.loads,
            &mut self.stores,
            &mut self.permutes,
        ] {
            *part /= 2.0;
        }
        self.instructions += before - self.count();
    }

    /// Elements of so many vectors made wider or narrower.
    pub(super) fn widen(&mut self, instances: f64) {
        self.permutes += instances;
    }

    /// Cycles until all of it has been started: what the busiest unit takes.
    pub(super) fn cycles(&self, target: &Target) -> f64 {
        let machine = &target.machine;
        let passes = machine.passes;
        let loads = self.loads * passes / machine.loads_per_cycle
            + self.scalar_loads / machine.scalar_loads_per_cycle;
        let stores = self.stores * passes / machine.stores_per_cycle
            + 2.0 * self.scalar_stores / machine.scalar_loads_per_cycle;
        let permutes = self.permutes / machine.permutes_per_cycle;
        // Divisions take one of the ways of products.
        let products = self.products * passes + self.divisions;
        let of_a_kind = products.max(self.sums * passes) / f64::from(machine.fma_per_cycle);
        // Rearrangements take some of the same ways.
        let of_all = (self.arithmetic + self.permutes) * passes / machine.arithmetic_per_cycle;
        let arithmetic = of_all.max(of_a_kind);
        let issued = self.count() / machine.instructions_per_cycle + self.gathers;
        loads.max(stores).max(permutes).max(arithmetic).max(self.divisions).max(issued)
    }
}

/// On what a value depends.
#[derive(Clone, Copy, Debug)]
pub(super) struct Depends {
    /// Loops of straight code, as bits.
    pub(super) loops: u64,
    /// Of their turns, the share in which it is another than before.
    pub(super) distinct: f64,
}

impl Default for Depends {
    fn default() -> Depends {
        Depends::on(0)
    }
}

impl Depends {
    /// On loops, in each turn anew.
    fn on(loops: u64) -> Depends {
        Depends { loops, distinct: 1.0 }
    }

    fn and(self, other: Depends) -> Depends {
        let loops = self.loops | other.loops;
        let share = |own: Depends| (own.loops == loops).then_some(own.distinct);
        let distinct = match (share(self), share(other)) {
            (Some(one), Some(other)) => one.max(other),
            (Some(one), None) | (None, Some(one)) => one,
            (None, None) => 1.0,
        };
        Depends { loops, distinct }
    }
}

impl Walk<'_> {
    /// The straight loops around what is looked at, with the bit that stands for each.
    pub(super) fn straight(&self) -> impl Iterator<Item = (u64, &super::Around)> {
        let first = self.around.iter().rposition(|around| !around.is_straight());
        let first = first.map_or(0, |at| at + 1);
        (first..self.around.len()).map(|at| (1u64 << at.min(63), &self.around[at]))
    }

    /// The instruction that what is looked at is a part of: what it takes, and how many elements
    /// of each operand.
    pub(super) fn instruction(&self) -> Option<(InstructionCost, i64)> {
        self.around.last().and_then(|around| match around.kind {
            Kind::Instruction(cost) => Some((cost, around.extent)),
            _ => None,
        })
    }

    /// The work of an instruction in so many vectors: it, and the loads of its operands.
    pub(super) fn at_once(
        &mut self,
        value: &ScalarExpr,
        cost: InstructionCost,
        instances: f64,
    ) -> Work {
        let rate = f64::from(self.target.machine.fma_per_cycle);
        let products = instances * cost.cycles * rate;
        let mut work = Work { arithmetic: products, products, ..Work::default() };
        value.walk(&mut |part| {
            if let ScalarExpr::Load { buffer, index } = part {
                work.add(&self.load(*buffer, index).0);
            }
        });
        work
    }

    /// How often straight code computes what depends on these loops: once for each turn of what is
    /// written out, once a vector, once an instruction.
    pub(super) fn instances(&self, depends: u64) -> f64 {
        let of = |(bit, around): (u64, &super::Around)| match depends & bit != 0 {
            false => 1.0,
            true => match around.kind {
                Kind::Vector => ((around.extent + around.lanes - 1) / around.lanes) as f64,
                Kind::Instruction(_) => 1.0,
                Kind::WrittenOut | Kind::Turns => around.extent as f64,
            },
        };
        self.straight().map(of).product()
    }

    /// How often straight code computes what depends on loops so.
    pub(super) fn times(&self, depends: Depends) -> f64 {
        self.instances(depends.loops) * depends.distinct
    }

    /// Whether vectors lie in half a register, where a whole one takes two passes.
    pub(super) fn in_half_registers(&self) -> bool {
        let half = |vector: super::Around| 2 * vector.extent <= vector.lanes;
        self.target.machine.passes > 1.0 && self.vector().is_some_and(half)
    }

    /// Lanes of the vector loop of the straight code, if there is one.
    pub(super) fn vector(&self) -> Option<super::Around> {
        self.straight().map(|(_, around)| *around).find(|around| around.kind == Kind::Vector)
    }

    /// The work of a value, and on what it depends.
    pub(super) fn value(&mut self, value: &ScalarExpr) -> (Work, Depends) {
        match value {
            ScalarExpr::Constant(_) => (Work::default(), Depends::on(0)),
            ScalarExpr::Symbol(symbol) => {
                let work = Work { latency: self.known[*symbol], ..Work::default() };
                (work, Depends::on(self.depends[*symbol]))
            }
            ScalarExpr::Index(expr) => {
                let depends = Depends::on(self.depends_of(std::slice::from_ref(expr)));
                let arithmetic = self.times(depends);
                (Work { arithmetic, ..Work::default() }, depends)
            }
            ScalarExpr::Load { buffer, index } => {
                let (mut work, depends) = self.load(*buffer, index);
                if self.kernel.buffers[*buffer].dtype.bits() < 32 && !self.packed {
                    work.widen(self.times(depends));
                }
                (work, depends)
            }
            ScalarExpr::Apply { function: ScalarFunction::Cast, dtype, arguments } => {
                let [argument] = &arguments[..] else { return Default::default() };
                if let Some(rounded) = rounded(self.kernel, argument, *dtype) {
                    let (mut work, depends) = self.value(rounded);
                    work.then(&self.rounding(DType::BF16, self.times(depends)));
                    return (work, depends);
                }
                let (mut work, depends) = match argument {
                    ScalarExpr::Load { buffer, index } => self.load(*buffer, index),
                    _ => self.value(argument),
                };
                work.then(&self.cast(argument.dtype(self.kernel), *dtype, self.times(depends)));
                (work, depends)
            }
            ScalarExpr::Apply { function, arguments, dtype } => {
                let (mut work, mut depends) = (Work::default(), Depends::on(0));
                for argument in arguments {
                    let own = self.value(argument);
                    work.add(&own.0);
                    depends = depends.and(own.1);
                }
                let bounds = arguments.iter().any(is_number);
                let times = self.times(depends);
                let mut own = self.function(*function, bounds, times);
                let is_product = *function == ScalarFunction::Mul && !dtype.is_float();
                if is_product && self.vector().is_some() {
                    self.multiply_integers(&mut own, *dtype, times);
                }
                work.then(&own);
                (work, depends)
            }
            ScalarExpr::Guard { conditions, value, otherwise } => {
                let masked = self.masked;
                self.masked |= conditions.iter().any(|found| self.masks(found));
                let guarded = self.guarded.len();
                let sides = conditions.iter().flat_map(|found| [&found.left, &found.right]);
                self.guarded.extend(sides.flat_map(Expr::symbols));
                let (mut work, mut depends) = self.value(value);
                self.masked = masked;
                self.guarded.truncate(guarded);
                let other = self.value(otherwise);
                work.add(&other.0);
                depends = depends.and(other.1);
                let sides = conditions.iter().flat_map(|found| [&found.left, &found.right]);
                for side in sides {
                    let side = self.depends_of(std::slice::from_ref(side));
                    depends = depends.and(Depends::on(side));
                }
                let masks = |found: &Condition| match (self.masks(found), self.runs(found)) {
                    (true, _) => self.lanes_asked(found),
                    (false, true) => ASKING,
                    (false, false) => 1.0,
                };
                let each = self.times(depends);
                work.instructions += conditions.iter().map(masks).sum::<f64>() * each;
                (work, depends)
            }
            ScalarExpr::Fold { reduction, buffer, index } => {
                let extent = self.kernel.buffers[*buffer].shape.last();
                let extent = extent.map_or(1, |extent| self.kernel.weight(extent)) as f64;
                let (mut work, depends) = self.load(*buffer, index);
                let instances = self.times(depends);
                let steps = extent.log2().ceil();
                let step = self.function(reduction.as_function(), false, instances * steps);
                work.permutes += instances * steps;
                work.add(&Work { latency: 0.0, ..step });
                work.latency += 2.0 * steps * f64::from(self.target.machine.fma_latency);
                let rounding = self.rounding(self.kernel.buffers[*buffer].dtype, instances * steps);
                work.latency += steps * rounding.latency;
                work.add(&Work { latency: 0.0, ..rounding });
                (work, depends)
            }
        }
    }

    /// Whether it is known only while running whether a condition holds.
    fn runs(&self, condition: &Condition) -> bool {
        let contains =
            |symbol: SymbolId| condition.left.contains(symbol) || condition.right.contains(symbol);
        let is_loop = |around: &super::Around| match around.kind {
            Kind::Vector => !around.is_written_out(),
            _ => !around.is_straight(),
        };
        let mut around = self.around.iter();
        around.any(|around| is_loop(around) && contains(around.variable))
    }

    /// Whether lanes for which a condition holds are known only while running.
    fn masks(&self, condition: &Condition) -> bool {
        let sides = [&condition.left, &condition.right];
        let differs =
            |vector: super::Around| sides.iter().any(|side| side.contains(vector.variable));
        self.vector().is_some_and(differs) && self.runs(condition)
    }

    /// Instructions for a condition that tells lanes apart: where remainders of it are known only
    /// while running, each lane is asked.
    fn lanes_asked(&self, condition: &Condition) -> f64 {
        let sides = [&condition.left, &condition.right];
        let known = |vector: &super::Around| {
            sides.iter().all(|side| super::accesses::is_known_by_lane(side, vector))
        };
        match self.vector() {
            Some(vector) if !known(&vector) => ASKING_A_LANE * vector.lanes as f64,
            _ => MASKING,
        }
    }

    /// The work of a scalar function in so many vectors; of an extreme it tells whether one side
    /// is a number.
    fn function(&self, function: ScalarFunction, bounds: bool, instances: f64) -> Work {
        use ScalarFunction::{
            Add, Ceil, Eq, Floor, FusedMultiplyAdd, Ge, Gt, Le, Lt, Mul, Ne, Round, Select, Shl,
            Shr, Sub, Trunc,
        };
        let latency = f64::from(self.target.machine.fma_latency);
        let mut work = Work { latency, ..Work::default() };
        match function {
            ScalarFunction::Bitcast => work.latency = 0.0,
            ScalarFunction::Div | ScalarFunction::Sqrt => {
                let cycles = self.target.machine.cycles_of_division;
                let scalar = self.vector().is_none();
                work.divisions = instances * if scalar { cycles / 2.0 } else { cycles };
                work.latency = 2.0 * cycles;
            }
            // A comparison and a selection beside them give NaN where an operand is one.
            ScalarFunction::Min | ScalarFunction::Max => {
                (work.products, work.arithmetic) = (instances, instances);
                if !bounds {
                    (work.products, work.arithmetic) = (2.0 * instances, 3.0 * instances);
                    self.compare(&mut work, instances);
                }
            }
            Mul | FusedMultiplyAdd | Select => {
                (work.products, work.arithmetic) = (instances, instances);
            }
            Eq | Ne | Lt | Le | Gt | Ge => {
                (work.products, work.arithmetic) = (instances, instances);
                self.compare(&mut work, instances);
            }
            Add | Sub | Floor | Ceil | Round | Trunc | Shl | Shr => {
                (work.sums, work.arithmetic) = (instances, instances);
            }
            _ => work.arithmetic = instances,
        }
        work
    }

    /// So many of the products that are counted as arithmetic are comparisons.
    fn compare(&self, work: &mut Work, instances: f64) {
        if self.target.machine.compares_as_permutes {
            work.products -= instances;
            work.arithmetic -= instances;
            work.permutes += instances;
        }
    }

    /// The work of a product becomes that of one of integers, in so many vectors.
    fn multiply_integers(&self, work: &mut Work, dtype: DType, instances: f64) {
        let machine = &self.target.machine;
        let products = match dtype.bits() {
            64 if !self.target.computes_long() => {
                // Three products of halves; what is shifted and added.
                (work.sums, work.arithmetic) = (4.0 * instances, 7.0 * instances);
                work.products = 3.0 * instances;
                return;
            }
            64 => machine.product_of_long_integers,
            _ => machine.product_of_integers,
        };
        (work.products, work.arithmetic) = (products * instances, products * instances);
        work.latency *= products;
    }

    /// The work of a conversion, in so many vectors: between widths lanes are rearranged, between
    /// integers and floats values are changed.
    fn cast(&self, from: Option<DType>, to: DType, instances: f64) -> Work {
        let latency = f64::from(self.target.machine.fma_latency);
        let mut work = Work { latency, ..Work::default() };
        let from = from.unwrap_or(to);
        if from.bits() != to.bits() {
            work.permutes = CONVERSION * instances;
        }
        // The bits of a bfloat16 are shifted to their place.
        let shifts = [from, to].contains(&DType::BF16);
        if from.is_float() != to.is_float() || from.bits() == to.bits() || shifts {
            (work.sums, work.arithmetic) = (instances, instances);
        }
        let is_long = |dtype: DType| !dtype.is_float() && dtype.bits() == 64;
        if from.is_float() != to.is_float()
            && (is_long(from) || is_long(to))
            && !self.target.computes_long()
        {
            (work.sums, work.arithmetic) = (LONG_SUMS * instances, LONG_CONVERSION * instances);
        }
        work
    }

    /// The work of adding a product to what is there, in so many vectors.
    pub(super) fn multiply_add(&self, instances: f64) -> Work {
        self.function(ScalarFunction::FusedMultiplyAdd, false, instances)
    }

    /// The work of combining what is there with what comes, in so many vectors.
    pub(super) fn combination(
        &self,
        reduction: tensor::Reduction,
        dtype: DType,
        instances: f64,
    ) -> Work {
        let mut work = self.function(reduction.as_function(), false, instances);
        if !matches!(reduction, tensor::Reduction::Max | tensor::Reduction::Min) {
            work.then(&self.rounding(dtype, instances));
        }
        work
    }

    /// The work of rounding so many vectors of results to a short type of floats, and of taking
    /// them back.
    fn rounding(&self, dtype: DType, instances: f64) -> Work {
        match dtype {
            DType::BF16 => {
                let latency = self.target.machine.rounding_to_bf16;
                Work { arithmetic: latency * instances, latency, ..Work::default() }
            }
            dtype if dtype.is_float() && dtype.bits() < 32 => {
                let mut work = self.cast(Some(DType::F32), dtype, instances);
                work.then(&self.cast(Some(dtype), DType::F32, instances));
                work
            }
            _ => Work::default(),
        }
    }
}

/// What is rounded to bfloat16 and computed with further, as `dtype`, if it is not one already.
fn rounded<'v>(kernel: &Kernel, value: &'v ScalarExpr, dtype: DType) -> Option<&'v ScalarExpr> {
    let ScalarExpr::Apply { function: ScalarFunction::Cast, dtype: DType::BF16, arguments } = value
    else {
        return None;
    };
    let [argument] = &arguments[..] else { return None };
    let wide = dtype == DType::F32 && argument.dtype(kernel) == Some(DType::F32);
    (wide && !is_short(kernel, argument)).then_some(argument)
}

/// Whether a number in f32 is one of a shorter type: an extreme, a sign or a selection of such.
fn is_short(kernel: &Kernel, value: &ScalarExpr) -> bool {
    use ScalarFunction::{Abs, Cast, Max, Min, Neg};
    match value {
        ScalarExpr::Constant(_) => true,
        ScalarExpr::Apply { function: Cast, arguments, .. } => {
            let from = arguments.first().and_then(|argument| argument.dtype(kernel));
            from.is_some_and(|from| from.bits() < 32)
        }
        ScalarExpr::Apply { function: Max | Min | Neg | Abs, arguments, .. } => {
            arguments.iter().all(|argument| is_short(kernel, argument))
        }
        _ => false,
    }
}

/// Whether a value is a constant other than NaN.
fn is_number(value: &ScalarExpr) -> bool {
    matches!(value, ScalarExpr::Constant(constant) if !constant.as_f64().is_nan())
}

/// Rearrangements that a conversion between widths takes as long as.
const CONVERSION: f64 = 1.3;

/// Instructions that convert integers of 64 bits to floats or back without one for it, and how many
/// of them add: halves are put together as floats, what is lost leaves a trace.
const LONG_CONVERSION: f64 = 18.0;
const LONG_SUMS: f64 = 6.0;

/// Instructions for a condition that is the same for all lanes and known only while running: it is
/// compared, put together with others, and chooses a mask or an address.
const ASKING: f64 = 5.0;

/// Instructions for a condition that tells lanes apart and is known only while running: what is the
/// same for all lanes is brought into their range, spread over them, and compared.
const MASKING: f64 = 8.0;

/// Instructions for a condition with a remainder that is asked of one lane.
const ASKING_A_LANE: f64 = 10.0;

/// Bytes of the widest element that a block touches: vectors have as many lanes as it allows.
/// Narrow elements are computed with in lanes of 32 bits.
pub(super) fn widest(kernel: &Kernel, block: &[Stmt]) -> i64 {
    let mut bytes = 4;
    walk_references(block, &mut |reference| {
        let bits = i64::from(kernel.buffers[reference.buffer].dtype.bits());
        bytes = bytes.max(bits / 8);
    });
    bytes
}
