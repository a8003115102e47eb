//! The work of straight code: how many instructions of each kind, and what they take.

use std::hash::{Hash as _, Hasher as _};

use backend::tile::Window;
use backend::{InstructionCost, Target};
use loops::visit::walk_references;
use loops::{BufferId, Condition, Kernel, ScalarExpr, Scope, Stmt, SymbolKind};
use rustc_hash::FxHasher;
use sym::{Atom, Expr, SymbolId, Term};
use tensor::{DType, ScalarFunction};

use super::traffic::Step;
use super::{Kind, Walk};
use crate::problem::MOST_TAPS;
use crate::structure::{Access, Motion};

/// Columns from which on a block is transposed in registers.
const TRANSPOSED: i64 = 4;

/// Instructions of straight code, by what they keep busy.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Work {
    /// Arithmetic of vectors or scalars, all kinds together.
    arithmetic: f64,
    /// Of that the products, with or without a sum, and comparisons.
    products: f64,
    /// Of that the sums and differences, shifts, and changes of a value in its place.
    sums: f64,
    /// Cycles of divisions and square roots.
    divisions: f64,
    /// Loads of vectors.
    loads: f64,
    /// Loads of scalars, each into all lanes or into one.
    scalar_loads: f64,
    /// Stores of vectors.
    stores: f64,
    /// Stores of scalars.
    scalar_stores: f64,
    /// Rearrangements of lanes.
    permutes: f64,
    /// Cycles of gathers.
    gathers: f64,
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
        let of_a_kind = self.products.max(self.sums) * passes / f64::from(machine.fma_per_cycle);
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
    distinct: f64,
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

/// How an access of straight code meets memory.
enum Meeting {
    /// One element for all lanes.
    One,
    /// Neighbouring elements, in whole vectors.
    Vectors,
    /// The same, beginning anywhere in a line.
    Unaligned,
    /// Neighbouring elements of rows that end anywhere in a vector.
    Wrapped,
    /// Every second element.
    EverySecond,
    /// Elements that each serve several lanes.
    Spread,
    /// So many columns of blocks that are transposed in registers.
    Transposed(i64),
    /// Elements that so many vectors put side by side.
    Tuples(i64),
    /// Elements at places that are values, of a row that so many vectors hold.
    Permuted(i64),
    /// Elements at distances or at values that a gather takes.
    Gathered,
    /// Elements at other places: an address each.
    Apart,
}

impl Walk<'_> {
    /// The straight loops around what is looked at, with the bit that stands for each.
    fn straight(&self) -> impl Iterator<Item = (u64, &super::Around)> {
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

    /// A motion along lanes, counted in what an instruction takes of an operand at once.
    fn in_tuples(&self, motion: Motion, index: &[Expr]) -> Motion {
        match (self.around.last(), self.instruction()) {
            (Some(around), Some((_, count)))
                if index.iter().any(|axis| axis.contains(around.variable)) =>
            {
                motion.in_tuples(count)
            }
            _ => motion,
        }
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
    fn times(&self, depends: Depends) -> f64 {
        self.instances(depends.loops) * depends.distinct
    }

    /// Of the instances of a load the share that are different: a window that is written out inside
    /// of rows meets what the row before has met.
    fn distinct(&self, buffer: BufferId, index: &[Expr]) -> f64 {
        let written_out = |around: &&super::Around| around.kind == Kind::WrittenOut;
        let found: Vec<super::Around> =
            self.straight().map(|(_, around)| around).filter(written_out).copied().collect();
        let access = Access::new(self.kernel, buffer, index);
        let stride =
            |around: &super::Around| match access.motion_along(around.variable, around.extent) {
                Motion::Steady { stride: stride @ 1.., block: None } => Some(stride),
                _ => None,
            };
        let [.., row, taps] = &found[..] else { return 1.0 };
        let (Some(next), Some(tap)) = (stride(row), stride(taps)) else { return 1.0 };
        let window = Window { taps: taps.extent, step: next / tap };
        match next % tap == 0 && window.step < window.taps && window.taps <= MOST_TAPS {
            true => window.elements(row.extent) as f64 / (row.extent * taps.extent) as f64,
            false => 1.0,
        }
    }

    /// Whether vectors lie in half a register, where a whole one takes two passes.
    pub(super) fn in_half_registers(&self) -> bool {
        let half = |vector: super::Around| 2 * vector.extent <= vector.lanes;
        self.target.machine.passes > 1.0 && self.vector().is_some_and(half)
    }

    /// Lanes of the vector loop of the straight code, if there is one.
    fn vector(&self) -> Option<super::Around> {
        self.straight().map(|(_, around)| *around).find(|around| around.kind == Kind::Vector)
    }

    /// The loops of straight code on which an index depends.
    fn depends_of(&self, index: &[Expr]) -> u64 {
        let mut found = 0;
        for (bit, around) in self.straight() {
            if index.iter().any(|axis| axis.contains(around.variable)) {
                found |= bit;
            }
        }
        let lets = index.iter().flat_map(Expr::symbols);
        lets.fold(found, |found, symbol| found | self.depends[symbol])
    }

    /// The work of a value, and on what it depends.
    pub(super) fn value(&mut self, value: &ScalarExpr) -> (Work, Depends) {
        match value {
            ScalarExpr::Constant(_) => (Work::default(), Depends::on(0)),
            ScalarExpr::Symbol(symbol) => (Work::default(), Depends::on(self.depends[*symbol])),
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
                    let arithmetic = ROUNDING * self.times(depends);
                    work.then(&Work { arithmetic, latency: ROUNDING, ..Work::default() });
                    return (work, depends);
                }
                let (mut work, depends) = match argument {
                    ScalarExpr::Load { buffer, index } => self.load(*buffer, index),
                    _ => self.value(argument),
                };
                work.then(&self.cast(argument.dtype(self.kernel), *dtype, self.times(depends)));
                (work, depends)
            }
            ScalarExpr::Apply { function, arguments, .. } => {
                let (mut work, mut depends) = (Work::default(), Depends::on(0));
                for argument in arguments {
                    let own = self.value(argument);
                    work.add(&own.0);
                    depends = depends.and(own.1);
                }
                let bounds = arguments.iter().any(is_number);
                let own = self.function(*function, bounds, self.times(depends));
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
                let masks = |found: &Condition| if self.masks(found) { MASKING } else { 1.0 };
                let each = self.times(depends);
                work.instructions += conditions.iter().map(masks).sum::<f64>() * each;
                (work, depends)
            }
            ScalarExpr::Fold { buffer, index, .. } => {
                let extent = self.kernel.buffers[*buffer].shape.last();
                let extent = extent.map_or(1, |extent| self.kernel.weight(extent)) as f64;
                let (mut work, depends) = self.load(*buffer, index);
                let instances = self.times(depends);
                let steps = extent.log2().ceil();
                work.permutes += instances * steps;
                work.sums += instances * steps;
                work.arithmetic += instances * steps;
                work.latency = 2.0 * steps * f64::from(self.target.machine.fma_latency);
                (work, depends)
            }
        }
    }

    /// Whether lanes for which a condition holds are known only while running.
    fn masks(&self, condition: &Condition) -> bool {
        let contains =
            |symbol: SymbolId| [&condition.left, &condition.right].map(|it| it.contains(symbol));
        let runs = |around: &super::Around| !around.is_straight();
        let mut around = self.around.iter();
        self.vector().is_some_and(|vector| contains(vector.variable).contains(&true))
            && around.any(|around| runs(around) && contains(around.variable).contains(&true))
    }

    /// The work of a scalar function in so many vectors; of an extreme it tells whether one side
    /// is a number.
    fn function(&self, function: ScalarFunction, bounds: bool, instances: f64) -> Work {
        use ScalarFunction::{
            Add, Ceil, Eq, Floor, FusedMultiplyAdd, Ge, Gt, Le, Lt, Mul, Ne, Round, Shl, Shr, Sub,
            Trunc,
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
                }
            }
            Mul | FusedMultiplyAdd | Eq | Ne | Lt | Le | Gt | Ge => {
                (work.products, work.arithmetic) = (instances, instances);
            }
            Add | Sub | Floor | Ceil | Round | Trunc | Shl | Shr => {
                (work.sums, work.arithmetic) = (instances, instances);
            }
            _ => work.arithmetic = instances,
        }
        work
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
        work
    }

    /// The work of adding a product to what is there, in so many vectors.
    pub(super) fn multiply_add(&self, instances: f64) -> Work {
        self.function(ScalarFunction::FusedMultiplyAdd, false, instances)
    }

    /// The work of combining what is there with what comes, in so many vectors.
    pub(super) fn combination(&self, reduction: tensor::Reduction, instances: f64) -> Work {
        self.function(reduction.as_function(), false, instances)
    }

    /// The work of a load.
    pub(super) fn load(&mut self, buffer: BufferId, index: &[Expr]) -> (Work, Depends) {
        let depends =
            Depends { loops: self.depends_of(index), distinct: self.distinct(buffer, index) };
        let mut work = Work::default();
        if self.kernel.buffers[buffer].scope == Scope::Register {
            return (work, depends);
        }
        let meeting = match self.meet(buffer, index, false) {
            // What is between the elements may not be touched.
            Meeting::EverySecond | Meeting::Spread if self.masked => Meeting::Gathered,
            // Turns that differ in what they may touch are not transposed together.
            Meeting::Transposed(_) if self.turns_differ() => Meeting::Gathered,
            meeting => meeting,
        };
        let instances = self.times(depends);
        let lanes = self.vector().map_or(1.0, |vector| vector.lanes.min(vector.extent) as f64);
        let machine = &self.target.machine;
        let narrow = self.kernel.buffers[buffer].dtype.bits() < 32;
        self.packed &= matches!(
            meeting,
            Meeting::One | Meeting::Vectors | Meeting::Unaligned | Meeting::Transposed(_)
        );
        match meeting {
            Meeting::One => work.scalar_loads = instances,
            Meeting::Vectors => work.loads = instances,
            Meeting::Unaligned => work.loads = instances * machine.unaligned_load,
            Meeting::Wrapped => {
                work.loads = 2.0 * instances;
                work.permutes = instances;
                work.instructions = instances * (WRAPPING + QUOTIENT * quotients(index));
            }
            Meeting::EverySecond => (work.loads, work.permutes) = (2.0 * instances, instances),
            Meeting::Spread => (work.loads, work.permutes) = (instances, instances),
            Meeting::Transposed(columns) => {
                // Squares that are copied, and whose rows fill registers, stay as they are in
                // memory. Rows that are shorter take short registers, which is as little.
                let side = SQUARE / i64::from(self.kernel.buffers[buffer].dtype.bits()).max(1);
                let row = lanes as i64;
                let squares = self.copied && columns % side == 0 && row % side == 0;
                self.packed &= squares || row < side;
                let rows = instances * rows_a_column(columns, lanes);
                (work.loads, work.permutes) = (rows, rows * lanes.log2().ceil());
            }
            Meeting::Permuted(vectors) => {
                work.loads = instances * vectors as f64;
                work.permutes = instances * (vectors as f64 + 1.0);
                let bytes = self.kernel.buffers[buffer].dtype.bits() == 8;
                work.arithmetic = if bytes { instances * LOOKED_UP } else { 0.0 };
            }
            Meeting::Gathered | Meeting::Tuples(_) => {
                work.gathers = instances * lanes * machine.cycles_of_gather;
                // Narrow elements are taken out of words.
                work.arithmetic = if narrow { instances * NARROW_GATHER } else { 0.0 };
                work.arithmetic += instances * QUOTIENT_OF_LANES * quotients(index);
            }
            Meeting::Apart => {
                let elements = instances * lanes;
                work.scalar_loads = 2.0 * elements;
                work.scalar_stores = elements;
                work.instructions = elements * (1.0 + QUOTIENT * quotients(index));
            }
        }
        if !matches!(meeting, Meeting::Wrapped | Meeting::Gathered | Meeting::Apart) {
            work.instructions += self.indexing(index);
        }
        (work, depends)
    }

    /// Instructions for the quotients and remainders of an index, beside one address a vector:
    /// each is computed again for each turn of the loops it depends on, unless they are written out
    /// and it goes on by whole steps.
    fn indexing(&self, index: &[Expr]) -> f64 {
        let first = self.around.len() - self.straight().count();
        let of = |term: &Term| {
            let [atom @ (Atom::FloorDiv(dividend, divisor) | Atom::Mod(dividend, divisor))] =
                term.factors()
            else {
                return 0.0;
            };
            let alone = Expr::from(term.clone());
            let mut computed = 0.0;
            for around in self.around.iter().skip(first.saturating_sub(1)) {
                if around.kind == Kind::Vector || !atom.contains(around.variable) {
                    continue;
                }
                let again =
                    around.kind == Kind::WrittenOut && !walks_whole_blocks(&alone, around.variable);
                computed = f64::max(computed, 1.0) * if again { around.extent as f64 } else { 1.0 };
            }
            computed * (1 + dividend.quotients() + divisor.quotients()) as f64
        };
        QUOTIENT_OF_ADDRESS * index.iter().flat_map(Expr::terms).map(of).sum::<f64>()
    }

    /// The work of a store, once for each turn of the straight loops.
    pub(super) fn store(&mut self, buffer: BufferId, index: &[Expr]) -> Work {
        let mut work = Work::default();
        if self.kernel.buffers[buffer].scope == Scope::Register {
            return work;
        }
        let meeting = match (self.meet(buffer, index, true), self.tuples(buffer, index)) {
            (_, Some(elements)) => Meeting::Tuples(elements),
            (meeting, None) => meeting,
        };
        let instances = self.instances(u64::MAX);
        let lanes = self.vector().map_or(1.0, |vector| vector.lanes.min(vector.extent) as f64);
        match meeting {
            Meeting::One => work.scalar_stores = instances,
            Meeting::Vectors => work.stores = instances,
            Meeting::Unaligned => work.stores = instances * self.target.machine.unaligned_store,
            Meeting::Transposed(columns) => {
                let rows = instances * rows_a_column(columns, lanes);
                (work.stores, work.permutes) = (rows, rows * lanes.log2().ceil());
            }
            Meeting::Tuples(elements) => {
                let narrow = self.kernel.buffers[buffer].dtype.bits() < 32;
                work.stores = instances / if narrow { elements as f64 } else { 1.0 };
                work.arithmetic = instances * if narrow { INTO_TUPLE } else { 0.0 };
                work.permutes = instances * if narrow { 0.0 } else { 1.0 };
            }
            Meeting::EverySecond
            | Meeting::Wrapped
            | Meeting::Spread
            | Meeting::Permuted(_)
            | Meeting::Gathered
            | Meeting::Apart => {
                (work.scalar_stores, work.permutes) = (instances * lanes, instances * lanes);
            }
        }
        work.instructions += self.indexing(index);
        work
    }

    /// How many elements a store puts side by side, into a lane or in pairs: those of a loop that
    /// is written out, where vectors lie along another.
    pub(super) fn tuples(&self, buffer: BufferId, index: &[Expr]) -> Option<i64> {
        let bits = i64::from(self.kernel.buffers[buffer].dtype.bits());
        let access = Access::new(self.kernel, buffer, index);
        let vector = self.vector()?;
        let (written_out, _) = self
            .straight()
            .filter(|(_, around)| around.kind == Kind::WrittenOut)
            .map(|(_, around)| (around, access.motion_along(around.variable, around.extent)))
            .find(|(around, motion)| {
                let fills = around.extent * bits == 32 || around.extent == 2 && bits == 32;
                motion.is_unit() && around.extent > 1 && fills
            })?;
        let next = Motion::Steady { stride: written_out.extent, block: None };
        let along = access.motion_along(vector.variable, vector.extent);
        (along == next).then_some(written_out.extent)
    }

    /// How elements at places that are values are met, if some place is one that differs by lane.
    fn at_values(&self, buffer: BufferId, index: &[Expr]) -> Option<Meeting> {
        let differs = |symbol: &SymbolId| self.depends[*symbol] != 0;
        let mut symbols = index.iter().flat_map(Expr::symbols).filter(differs);
        let first = symbols.next()?;
        let alone = symbols.all(|other| other == first);
        let linear =
            |symbol: SymbolId| index.iter().all(|axis| axis.linear_coefficient(symbol).is_some());
        if !index.iter().flat_map(Expr::symbols).filter(differs).all(linear) {
            return Some(Meeting::Apart);
        }
        let range = match &self.kernel.symbols[first].kind {
            SymbolKind::Value { range: Some(range), .. } => *range,
            _ => return Some(Meeting::Gathered),
        };
        let bits = self.kernel.buffers[buffer].dtype.bits();
        let bytes = bits == 8 && self.target.permutes_bytes();
        let [most, lanes] = if bytes { PERMUTED_BYTES } else { PERMUTED };
        let ends = index.last().is_some_and(|last| last.as_symbol() == Some(first));
        let lane = self.vector().map(|vector| vector.variable);
        let row = ends && !lane.is_some_and(|lane| index.iter().any(|axis| axis.contains(lane)));
        let narrow = bits <= 32;
        let wide = i64::from(self.target.vector_bytes) == 4 * PERMUTED[1];
        Some(match alone && row && narrow && wide && range.min == 0 && range.max < most {
            true => Meeting::Permuted(range.max / lanes + 1),
            false => Meeting::Gathered,
        })
    }

    /// Whether guards tell the turns of a loop that is written out apart.
    fn turns_differ(&self) -> bool {
        let mut written_out = self.straight().filter(|(_, it)| it.kind == Kind::WrittenOut);
        written_out.any(|(_, around)| self.guarded.contains(&around.variable))
    }

    /// How an access meets memory; what it brings is noted.
    fn meet(&mut self, buffer: BufferId, index: &[Expr], writes: bool) -> Meeting {
        let index: Vec<Expr> = index.iter().map(unshifted).collect();
        let access = Access::new(self.kernel, buffer, &index);
        let motion = |around: &super::Around| access.motion_along(around.variable, around.extent);
        let motions: Vec<Motion> = self.around.iter().map(motion).collect();
        let steps = self.around.iter().zip(&motions).map(|(around, motion)| Step {
            number: around.number,
            turns: around.extent,
            stride: match *motion {
                Motion::Still => Some(0),
                Motion::Steady { stride, .. } => Some(stride),
                Motion::Irregular => None,
            },
            block: match *motion {
                Motion::Steady { block, .. } => block,
                Motion::Still | Motion::Irregular => None,
            },
        });
        let steps: Vec<Step> = steps.collect();
        let buffer_data = &self.kernel.buffers[buffer];
        let element = f64::from(buffer_data.dtype.bits()) / 8.0;
        let whole = self.kernel.usual_span_bytes(buffer) as f64;
        let mut hasher = FxHasher::default();
        index.hash(&mut hasher);
        let key = (buffer, writes, hasher.finish());
        self.traffic.add(&self.target.machine, key, [element, whole], &steps);
        let straight = self.straight().count();
        let own = self.around.iter().zip(&motions).skip(self.around.len() - straight);
        let values = self.at_values(buffer, &index);
        let (mut along, mut spread) = (None, false);
        let (mut columns, mut wrapped) = (None, false);
        for (around, motion) in own {
            match around.kind {
                Kind::Vector => {
                    let whole = index.iter().all(|axis| walks_whole_blocks(axis, around.variable));
                    let apart = if whole { *motion } else { Motion::Irregular };
                    wrapped = !whole && motion.is_run_of(around.lanes);
                    let motion = apart;
                    spread = access.is_spread(motion, around.variable, around.lanes);
                    along = Some((self.in_tuples(motion, &index), around.lanes));
                }
                Kind::Instruction(_) => {}
                _ => {
                    if let Motion::Steady { stride: 1, block } = *motion {
                        let side_by_side = block.unwrap_or(around.extent).min(around.extent);
                        columns = Some(side_by_side).filter(|it| *it >= TRANSPOSED).or(columns);
                    }
                }
            }
        }
        match along {
            _ if values.is_some() => values.unwrap_or(Meeting::Apart),
            None | Some((Motion::Still, _)) => Meeting::One,
            Some((Motion::Steady { stride: 1, block }, lanes))
                if block.is_none_or(|block| block >= lanes) =>
            {
                let bytes = i64::from(self.target.vector_bytes) / 2;
                let elements = bytes / i64::from(buffer_data.dtype.bits() / 8).max(1);
                let vector = self.vector().map(|vector| vector.variable);
                match vector.is_some_and(|own| !access.begins_at_multiples(own, elements)) {
                    true => Meeting::Unaligned,
                    false => Meeting::Vectors,
                }
            }
            Some(_) if wrapped => Meeting::Wrapped,
            Some((Motion::Steady { stride: 2, block: None }, _)) => Meeting::EverySecond,
            Some(_) if spread => Meeting::Spread,
            Some(other) => match (columns, other) {
                (Some(columns), (Motion::Steady { block: None, .. }, _)) => {
                    Meeting::Transposed(columns)
                }
                (None, (Motion::Steady { block: None, .. }, _)) => Meeting::Gathered,
                _ => Meeting::Apart,
            },
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

/// The most elements of a row that is held in registers, and how many a register holds.
const PERMUTED: [i64; 2] = [128, 16];

/// The same of bytes, where these can be picked from anywhere in a register.
const PERMUTED_BYTES: [i64; 2] = [256, 64];

/// Bits of a row of a square of narrow elements.
const SQUARE: i64 = 128;

/// Shifts and unions that put a vector of narrow elements among others.
const INTO_TUPLE: f64 = 2.0;

/// Instructions that round f32 to bfloat16 and back: the bit that is rounded to, the sum, what
/// keeps NaN.
const ROUNDING: f64 = 8.0;

/// Rearrangements that a conversion between widths takes as long as.
const CONVERSION: f64 = 1.3;

/// Instructions that check the indices of bytes that are looked up, and extend what they find.
const LOOKED_UP: f64 = 5.0;

/// Instructions that take a narrow element out of the word that a gather brings.
const NARROW_GATHER: f64 = 6.0;

/// Instructions for a condition that tells lanes apart and is known only while running: what is the
/// same for all lanes is brought into their range, spread over them, and compared.
const MASKING: f64 = 8.0;

/// Instructions that find where in a vector a row ends, and where the next one begins.
const WRAPPING: f64 = 12.0;

/// Instructions for a quotient or a remainder by a constant, of an index of one lane.
const QUOTIENT: f64 = 4.0;

/// Instructions that take as long as one of the index of a vector, which is multiplied twice.
const QUOTIENT_OF_ADDRESS: f64 = 10.0;

/// The same of the indices of all lanes of a vector, which are twice as wide.
const QUOTIENT_OF_LANES: f64 = 16.0;

/// Quotients and remainders of an index.
fn quotients(index: &[Expr]) -> f64 {
    let is_quotient = |atom: &&Atom| matches!(atom, Atom::FloorDiv(..) | Atom::Mod(..));
    let atoms = index.iter().flat_map(Expr::terms).flat_map(Term::factors);
    atoms.filter(is_quotient).count() as f64
}

/// Rows of the blocks that so many columns are transposed in, a column: a block that is not full
/// has as many rows as one that is.
fn rows_a_column(columns: i64, lanes: f64) -> f64 {
    (columns as f64 / lanes).ceil() * lanes / columns as f64
}

/// Whether quotients and remainders of an index change between lanes at the same places wherever
/// all other loops stand, so that code can tell how the lanes lie.
fn walks_whole_blocks(index: &Expr, variable: SymbolId) -> bool {
    index.terms().iter().flat_map(Term::factors).all(|atom| {
        let (Atom::FloorDiv(dividend, divisor) | Atom::Mod(dividend, divisor)) = atom else {
            return !matches!(atom, Atom::Min(..) | Atom::Max(..)) || !atom.contains(variable);
        };
        let Some(divisor) = divisor.as_constant().filter(|divisor| *divisor > 0) else {
            return !atom.contains(variable);
        };
        let others = dividend.terms().iter().filter(|term| term.as_symbol() != Some(variable));
        let whole = |term: &Term| {
            term.coefficient() % divisor == 0
                && !term.factors().iter().any(|factor| factor.contains(variable))
        };
        !atom.contains(variable)
            || (dividend.constant_part() % divisor == 0 && { others }.all(whole))
    })
}

/// An index without what keeps the last turn of a loop inside: `min(a, c * v)` is `c * v`.
fn unshifted(index: &Expr) -> Expr {
    let is_shifted = |term: &Term| matches!(term.factors(), [Atom::Min(..)]);
    if !index.terms().iter().any(is_shifted) {
        return index.clone();
    }
    let mut sum = Expr::constant(index.constant_part());
    for term in index.terms() {
        match term.factors() {
            [Atom::Min(one, other)] => {
                let moving = if one.as_constant().is_some() { other } else { one };
                sum.add_scaled(moving, term.coefficient());
            }
            _ => sum += &Expr::from(term.clone()),
        }
    }
    sum
}

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
