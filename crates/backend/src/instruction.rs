//! Instructions that do at once what several turns of a loop do: for each a row that says what it
//! computes, as loops, and on which instruction sets it is had at what cost.
//!
//! A row's loops are those of one lane of a vector: a kernel whose only statement is a loop around
//! one reduction, with a buffer for each operand, which holds the neighbouring elements that the
//! lane takes, and one for what it adds to. A loop of a scheduled kernel [is that
//! instruction](Instruction::find_in) if it does the same to elements of its own. How an
//! instruction is encoded is a row of the back end's.
//!
//! An operand's elements may come out of memory through functions of bits with integers that are
//! the same for all of them (`shr(a[e], 4) & 15`), and through tables of sixteen bytes
//! (`lookup(a[e] & 15, 50462976, ..)`): such fields are had in whole vectors at once. Their bits
//! may come from several places (`a[e] & 15 | (b[e] & 3) << 4`).
//!
//! Invariants: rows have names of their own, which are those of their kernels; their kernels
//! verify.

use std::sync::LazyLock;

use base::SecondaryMap;
use loops::{Access, BufferId, Kernel, Loop, LoopKind, ScalarExpr, Scope, Stmt, print_statement};
use sym::{Expr, SymbolId};
use tensor::{DType, ScalarFunction};

use crate::target::{Isa, Target};

/// What an instruction takes on full vectors, on a machine whose data paths are as wide.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct InstructionCost {
    /// Cycles from one start to the next.
    pub cycles: f64,
    /// Cycles until what it has added to can be added to again.
    pub latency: u32,
    /// Cycles to bring an operand into the form that it takes, once it is loaded: all sums that
    /// meet the operand share it.
    pub prepared: f64,
}

/// An instruction.
#[derive(Clone, Debug)]
pub struct Instruction {
    /// What one lane of it computes. Floats are added in this order; the order of integers is free,
    /// as their sums wrap.
    pub lane: Kernel,
    costs: &'static [(Isa, InstructionCost)],
}

struct Row {
    lane: &'static str,
    costs: &'static [(Isa, InstructionCost)],
}

const fn cost(cycles: f64, latency: u32) -> InstructionCost {
    InstructionCost { cycles, latency, prepared: 0.0 }
}

const ROWS: &[Row] = &[
    // The second of a pair comes first, and each sum is rounded; numbers below the normal ones
    // count as zero.
    Row {
        lane: "kernel @dot_bf16_2(%a: read bf16[2], %b: read bf16[2], %c: update f32[]) {
          for e < 2 { %c[] += cast<f32>(%a[1 - e]) * cast<f32>(%b[1 - e]) }
        }",
        costs: &[(Isa::X86Avx512Bf16, cost(0.5, 6))],
    },
    // Without VNNI a product of pairs and a sum.
    Row {
        lane: "kernel @dot_i16_2(%a: read i16[2], %b: read i16[2], %c: update i32[]) {
          for e < 2 { %c[] += cast<i32>(%a[e]) * cast<i32>(%b[e]) }
        }",
        costs: &[
            (Isa::X86Avx512Bf16, cost(0.5, 4)),
            (Isa::X86Avx512, cost(0.7, 1)),
            (Isa::X86Avx2, cost(0.7, 1)),
        ],
    },
    // Exact: nothing saturates on the way. Without VNNI products of pairs, sums of these, and a
    // sum; each twice for whole bytes, once for fields of at most 7 bits.
    Row {
        lane: "kernel @dot_u8_i8_4(%a: read u8[4], %b: read i8[4], %c: update i32[]) {
          for e < 4 { %c[] += cast<i32>(%a[e]) * cast<i32>(%b[e]) }
        }",
        costs: &[(Isa::X86Avx512Bf16, cost(0.5, 4)), (Isa::X86Avx2, cost(2.0, 1))],
    },
    // Two products of pairs; what is extended to 16 bits serves the whole tile, as loads do.
    Row {
        lane: "kernel @dot_i8_4(%a: read i8[4], %b: read i8[4], %c: update i32[]) {
          for e < 4 { %c[] += cast<i32>(%a[e]) * cast<i32>(%b[e]) }
        }",
        costs: &[(Isa::ArmDsp, InstructionCost { cycles: 2.0, latency: 2, prepared: 2.0 })],
    },
    // All lanes of two vectors, multiplied and added to one number.
    Row {
        lane: "kernel @dot_i8_16(%a: read i8[16], %b: read i8[16], %c: update i32[]) {
          for e < 16 { %c[] += cast<i32>(%a[e]) * cast<i32>(%b[e]) }
        }",
        costs: &[(Isa::ArmHelium, cost(1.0, 1))],
    },
];

static TABLE: LazyLock<Vec<Instruction>> = LazyLock::new(|| {
    let instruction = |row: &Row| {
        let lane = loops::parse(row.lane).unwrap_or_else(|error| panic!("{}\n{error}", row.lane));
        Instruction { lane, costs: row.costs }
    };
    ROWS.iter().map(instruction).collect()
});

/// A loop that is an instruction.
#[derive(Clone, Debug, PartialEq)]
pub struct Found {
    /// What it adds to.
    pub buffer: BufferId,
    /// Which element of that.
    pub index: Vec<Expr>,
    /// Its operands, in the order of the description's parameters.
    pub operands: Vec<Tuple>,
}

/// Neighbouring elements that a lane takes at once.
#[derive(Clone, Debug, PartialEq)]
pub struct Tuple {
    /// Where they lie.
    pub buffer: BufferId,
    /// The first of them.
    pub index: Vec<Expr>,
    /// How many.
    pub count: i64,
    /// Functions of bits, and tables, that each goes through, the first one first, with the
    /// integers that are the other operands of each.
    pub through: Vec<(ScalarFunction, Vec<ScalarExpr>)>,
    /// Other elements, the bits of which are joined with those of these.
    pub joined: Option<Box<Tuple>>,
}

impl Tuple {
    /// Whether the lane takes elements as they lie in memory.
    #[must_use]
    pub fn is_plain(&self) -> bool {
        self.through.is_empty() && self.joined.is_none()
    }

    /// Everything that makes its elements.
    fn parts(&self) -> impl Iterator<Item = &Tuple> {
        std::iter::successors(Some(self), |tuple| tuple.joined.as_deref())
    }
}

/// A load of a loop's body.
#[derive(Clone, PartialEq)]
struct Load<'k> {
    buffer: BufferId,
    index: &'k [Expr],
    through: Vec<(ScalarFunction, &'k [ScalarExpr])>,
    /// What its bits are joined with.
    joined: Option<Box<Load<'k>>>,
}

impl<'k> Load<'k> {
    /// The load that a value is, through functions of bits in the type that is loaded, or the bits
    /// of several such.
    fn of(kernel: &Kernel, value: &'k ScalarExpr) -> Option<Load<'k>> {
        if let ScalarExpr::Apply { function: ScalarFunction::Or, arguments, .. } = value
            && let [one, other] = &arguments[..]
            && !is_number(other)
        {
            let (first, mut last) = (Load::of_one(kernel, one)?, Load::of(kernel, other)?);
            last.joined = match last.joined.take() {
                None => Some(Box::new(first)),
                Some(further) => Some(Box::new(Load { joined: Some(further), ..first })),
            };
            let dtype = |load: &Load<'_>| kernel.buffers[load.buffer].dtype;
            let same = last.joined.as_deref().is_some_and(|other| dtype(other) == dtype(&last));
            return same.then_some(last);
        }
        Load::of_one(kernel, value)
    }

    fn of_one(kernel: &Kernel, mut value: &'k ScalarExpr) -> Option<Load<'k>> {
        let mut through = Vec::new();
        loop {
            match value {
                ScalarExpr::Load { buffer, index } => {
                    through.reverse();
                    return Some(Load { buffer: *buffer, index, through, joined: None });
                }
                ScalarExpr::Apply { function, dtype, arguments } => {
                    let [inner, by @ ..] = &arguments[..] else { return None };
                    let fits = match (function, by) {
                        (ScalarFunction::Shr | ScalarFunction::Shl, _) => {
                            !dtype.is_signed_integer()
                        }
                        (ScalarFunction::Lookup, _) => true,
                        (function, [_]) => function.is_bitwise(),
                        _ => false,
                    };
                    let is_integer = dtype.is_integer() && inner.dtype(kernel) == Some(*dtype);
                    if !fits || !is_integer || !by.iter().all(is_number) {
                        return None;
                    }
                    through.push((*function, by));
                    value = inner;
                }
                _ => return None,
            }
        }
    }
}

impl<'k> Load<'k> {
    /// Everything that makes its elements.
    fn parts(&self) -> impl Iterator<Item = &Load<'k>> {
        std::iter::successors(Some(self), |load| load.joined.as_deref())
    }
}

/// Whether a value is made of constants and positions alone.
fn is_number(value: &ScalarExpr) -> bool {
    match value {
        ScalarExpr::Constant(_) | ScalarExpr::Index(_) => true,
        ScalarExpr::Apply { arguments, .. } => arguments.iter().all(is_number),
        _ => false,
    }
}

/// Whether a position that a number is made of moves with a symbol.
fn moves_with(value: &ScalarExpr, symbol: &mut dyn FnMut(SymbolId) -> bool) -> bool {
    match value {
        ScalarExpr::Index(expr) => expr.any_symbol(symbol),
        ScalarExpr::Apply { arguments, .. } => {
            arguments.iter().any(|argument| moves_with(argument, symbol))
        }
        _ => false,
    }
}

/// Loads by the operand of the description that they stand for.
type Loads<'k> = SecondaryMap<BufferId, Option<Load<'k>>>;

impl Instruction {
    /// All rows.
    #[must_use]
    pub fn all() -> &'static [Instruction] {
        &TABLE
    }

    /// The row of a name.
    #[must_use]
    pub fn named(name: &str) -> Option<&'static Instruction> {
        Instruction::all().iter().find(|row| row.name() == name)
    }

    /// What it is called in schedules and kernels.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.lane.name
    }

    /// What it takes, where an instruction set has it.
    #[must_use]
    pub fn cost(&self, isa: Isa) -> Option<InstructionCost> {
        self.costs.iter().find(|(own, _)| *own == isa).map(|(_, cost)| *cost)
    }

    /// The buffers of its operands, in the order of its parameters.
    fn operands(&self) -> impl Iterator<Item = BufferId> {
        let parameters = self.lane.parameters.iter().copied();
        parameters.filter(|id| self.lane.buffers[*id].scope == Scope::Parameter(Access::Read))
    }

    /// How many turns of a loop it takes at once.
    #[must_use]
    pub fn count(&self) -> i64 {
        self.looped().extent.as_constant().unwrap_or(1)
    }

    /// The bytes that it takes of an operand in a lane.
    #[must_use]
    pub fn tuple_bytes(&self) -> i64 {
        let bits = self.operands().map(|id| i64::from(self.lane.buffers[id].dtype.bits()));
        bits.max().unwrap_or(0) * self.count() / 8
    }

    /// Whether it takes so many elements of these types at once, in any order of its operands. Bits
    /// of unsigned integers may be those of several elements.
    #[must_use]
    pub fn takes(&self, dtypes: &[DType], count: i64) -> bool {
        let own: Vec<DType> = self.operands().map(|id| self.lane.buffers[id].dtype).collect();
        let number = |all: &[DType], one: DType| all.iter().filter(|it| **it == one).count();
        let fits = |&dtype: &DType| {
            let (given, wanted) = (number(dtypes, dtype), number(&own, dtype));
            given == wanted || wanted > 0 && given > wanted && dtype.is_unsigned_integer()
        };
        self.count() == count && dtypes.iter().chain(&own).all(fits)
    }

    /// The loop that it is.
    fn looped(&self) -> &Loop {
        match &self.lane.body[..] {
            [Stmt::For(looped)] => looped,
            _ => unreachable!("an instruction is one loop"),
        }
    }

    /// A loop of a kernel as this instruction, run in the lanes of the vector loop around it.
    ///
    /// # Errors
    /// Why it is not, as a sentence without a full stop.
    pub fn find_in(&self, kernel: &Kernel, found: &Loop, lanes: SymbolId) -> Result<Found, String> {
        let (described, turns) = (self.looped(), self.count());
        if found.extent.as_constant() != Some(turns) {
            return Err(format!("`{}` takes {turns} turns of a loop at once", self.name()));
        }
        let other = || {
            let own = print_statement(&self.lane, &described.body[0]);
            let types = self.lane.parameters.iter().map(|id| self.lane.buffers[*id].dtype);
            let types: Vec<String> = types.map(|dtype| dtype.to_string()).collect();
            let types = types.join(", ");
            format!("`{}` is `{}` of {types} in memory", self.name(), own.trim_end())
        };
        let ([own], [Stmt::Reduce { buffer, index, reduction, value }]) =
            (&described.body[..], &found.body[..])
        else {
            return Err(other());
        };
        let Stmt::Reduce { buffer: sum, reduction: wanted, value: description, .. } = own else {
            unreachable!("an instruction reduces")
        };
        let mut loads: Loads<'_> = SecondaryMap::new();
        let dtypes = [kernel.buffers[*buffer].dtype, self.lane.buffers[*sum].dtype];
        if dtypes[0] != dtypes[1]
            || reduction != wanted
            || !self.unify(kernel, value, description, &mut loads)
        {
            return Err(other());
        }
        let name = |id: BufferId| kernel.buffer_name(id).to_string();
        if index.iter().any(|expr| expr.contains(found.variable)) {
            return Err(format!("{} is not one sum", name(*buffer)));
        }
        let loads: Vec<Load<'_>> = self.operands().filter_map(|id| loads[id].clone()).collect();
        if loads.iter().flat_map(Load::parts).any(|load| load.buffer == *buffer) {
            return Err(format!("it adds to {}, which it reads", name(*buffer)));
        }
        let mut inside = |symbol| symbol == found.variable || symbol == lanes;
        let through = loads.iter().flat_map(Load::parts).flat_map(|load| &load.through);
        let mut numbers = through.flat_map(|(_, by)| *by);
        if numbers.any(|number| moves_with(number, &mut inside)) {
            return Err("its elements go through functions of other bits each".to_owned());
        }
        let exact = dtypes[0].is_integer();
        let operands = self.tuples(kernel, found, &loads, exact)?;
        for tuple in operands.iter().flat_map(Tuple::parts) {
            let step = step(kernel, tuple.buffer, &tuple.index, lanes);
            if !matches!(step, Some(step) if step == 0 || step == tuple.count) {
                return Err(format!(
                    "the {} elements that a lane takes of {} are not beside those of the next lane",
                    tuple.count,
                    name(tuple.buffer)
                ));
            }
        }
        Ok(Found { buffer: *buffer, index: index.clone(), operands })
    }

    /// Whether a value is what the description computes, with loads in place of its operands'.
    fn unify<'k>(
        &self,
        kernel: &'k Kernel,
        value: &'k ScalarExpr,
        description: &ScalarExpr,
        loads: &mut Loads<'k>,
    ) -> bool {
        match (value, description) {
            (value, ScalarExpr::Load { buffer: operand, .. }) => {
                let Some(load) = Load::of(kernel, value) else { return false };
                let wanted = &self.lane.buffers[*operand];
                let fits = |load: &Load<'_>| {
                    let own = &kernel.buffers[load.buffer];
                    own.dtype == wanted.dtype && own.scope != Scope::Register
                };
                load.parts().all(fits)
                    && *loads[*operand].get_or_insert_with(|| load.clone()) == load
            }
            (
                ScalarExpr::Apply { function, dtype, arguments },
                ScalarExpr::Apply { function: wanted, dtype: result, arguments: operands },
            ) if function == wanted && dtype == result && arguments.len() == operands.len() => {
                let before = loads.clone();
                let mut pairs = arguments.iter().zip(operands);
                if pairs.all(|(own, wanted)| self.unify(kernel, own, wanted, loads)) {
                    return true;
                }
                *loads = before;
                let commutes = matches!(function, ScalarFunction::Mul | ScalarFunction::Add);
                let mut pairs = arguments.iter().rev().zip(operands);
                commutes && pairs.all(|(own, wanted)| self.unify(kernel, own, wanted, loads))
            }
            _ => value == description,
        }
    }

    /// The elements that the loads meet, if they are those of the description, met in its order.
    fn tuples(
        &self,
        kernel: &Kernel,
        found: &Loop,
        loads: &[Load<'_>],
        any_order: bool,
    ) -> Result<Vec<Tuple>, String> {
        let turns = self.count();
        let mut met = vec![Vec::new(); turns as usize];
        let mut wanted = met.clone();
        let mut tuples: Vec<Tuple> = Vec::new();
        let parts = |(id, load)| Load::parts(load).enumerate().map(move |part| (id, part));
        for (id, (number, load)) in self.operands().zip(loads).flat_map(parts) {
            let Load { buffer, index, through, .. } = load;
            let places: Option<Vec<i64>> = (0..turns)
                .map(|turn| moved(kernel, *buffer, index, found.variable, turn))
                .collect();
            let own = self.place_of(id);
            let first = |places: &[i64]| (0..turns).min_by_key(|turn| places[*turn as usize]);
            let whole = |places: &Vec<i64>| {
                let mut sorted = places.clone();
                sorted.sort_unstable();
                sorted.windows(2).all(|pair| pair[1] == pair[0] + 1)
            };
            let Some(places) = places.filter(whole) else {
                let name = kernel.buffer_name(*buffer);
                return Err(format!("its elements of {name} do not lie beside each other"));
            };
            let first = first(&places).unwrap_or(0);
            let at_first = |symbol| (symbol == found.variable).then(|| Expr::constant(first));
            let index = index.iter().map(|expr| expr.substitute(&mut { at_first })).collect();
            for (turn, place) in places.iter().enumerate() {
                met[turn].push(place - places[first as usize]);
                wanted[turn].push(own(turn as i64));
            }
            let through = through.iter().map(|(function, by)| (*function, by.to_vec())).collect();
            let mut tuple = Tuple { buffer: *buffer, index, count: turns, through, joined: None };
            if number > 0 {
                tuple.joined = tuples.pop().map(Box::new);
            }
            tuples.push(tuple);
        }
        if any_order {
            met.sort();
            wanted.sort();
        }
        match met == wanted {
            true => Ok(tuples),
            false => Err(format!("`{}` meets its elements in another order", self.name())),
        }
    }

    /// Which element of an operand the description meets in a turn.
    fn place_of(&self, operand: BufferId) -> impl Fn(i64) -> i64 {
        let looped = self.looped();
        let mut at = Expr::ZERO;
        for value in looped.body.iter().filter_map(Stmt::value) {
            value.walk(&mut |value| match value {
                ScalarExpr::Load { buffer, index } if *buffer == operand => at = index[0].clone(),
                _ => {}
            });
        }
        let variable = looped.variable;
        move |turn| at.evaluate(&|symbol| (symbol == variable).then_some(turn)).unwrap_or(0)
    }
}

impl Isa {
    /// The instruction that a loop is marked as, in the lanes of a vector loop around it.
    ///
    /// # Errors
    /// Why the loop cannot be run so, as a sentence without a full stop.
    pub fn instruction_of(
        self,
        kernel: &Kernel,
        found: &Loop,
        name: &str,
        lanes: Option<SymbolId>,
    ) -> Result<Found, String> {
        let row = Instruction::named(name).filter(|row| row.cost(self).is_some());
        let row = row.ok_or_else(|| format!("the target has no instruction `{name}`"))?;
        let lanes = lanes.ok_or_else(|| format!("`{name}` runs in lanes of a vector loop"))?;
        row.find_in(kernel, found, lanes)
    }
}

/// Checks that each loop of a kernel that is marked as an instruction is one that a target has.
///
/// # Errors
/// Why the first that is not cannot be run so, as a sentence without a full stop.
pub fn check_instructions(kernel: &Kernel, target: &Target) -> Result<(), String> {
    check_block(kernel, target, &kernel.body, &mut Around::default())
}

/// What is around a statement.
#[derive(Clone, Default)]
struct Around {
    /// The variable of the vector loop.
    lanes: Option<SymbolId>,
    /// Those of loops that are written out.
    written_out: Vec<SymbolId>,
}

fn check_block(
    kernel: &Kernel,
    target: &Target,
    block: &[Stmt],
    around: &mut Around,
) -> Result<(), String> {
    block.iter().try_for_each(|stmt| {
        let before = around.clone();
        if let Stmt::For(found) = stmt {
            match &found.kind {
                LoopKind::Vector => around.lanes = Some(found.variable),
                LoopKind::Unroll => around.written_out.push(found.variable),
                LoopKind::Instruction(name) => {
                    let own = target.isa.instruction_of(kernel, found, name, around.lanes)?;
                    let mut is_open = |symbol| !around.written_out.contains(&symbol);
                    let parts = own.operands.iter().flat_map(Tuple::parts);
                    let through = parts.flat_map(|tuple| &tuple.through);
                    let mut numbers = through.flat_map(|(_, numbers)| numbers);
                    if numbers.any(|number| moves_with(number, &mut is_open)) {
                        return Err(format!("`{name}` of bits that are no constants of code"));
                    }
                }
                _ => {}
            }
        }
        let inner = stmt.blocks().try_for_each(|inner| check_block(kernel, target, inner, around));
        *around = before;
        inner
    })
}

/// Elements from one index along an axis to the next.
fn stride(kernel: &Kernel, buffer: BufferId, axis: usize) -> Option<i64> {
    let buffer = &kernel.buffers[buffer];
    match &buffer.strides {
        Some(strides) => strides.get(axis)?.as_constant(),
        None => {
            let inner = buffer.shape.get(axis + 1..)?.iter();
            inner.map(Expr::as_constant).product()
        }
    }
}

/// Elements from what an index means where a symbol is zero to what it means in a later turn, if
/// that is known.
fn moved(
    kernel: &Kernel,
    buffer: BufferId,
    index: &[Expr],
    symbol: SymbolId,
    turn: i64,
) -> Option<i64> {
    let mut elements = 0i64;
    for (axis, expr) in index.iter().enumerate().filter(|(_, expr)| expr.contains(symbol)) {
        let at = |turn: i64| {
            expr.substitute(&mut |other| (other == symbol).then(|| Expr::constant(turn)))
        };
        let own = (at(turn) - &at(0)).as_constant()?;
        elements = elements.checked_add(own.checked_mul(stride(kernel, buffer, axis)?)?)?;
    }
    Some(elements)
}

/// Elements by which an index moves on from one lane to the next, if that is steady.
fn step(kernel: &Kernel, buffer: BufferId, index: &[Expr], lanes: SymbolId) -> Option<i64> {
    let mut elements = 0i64;
    for (axis, expr) in index.iter().enumerate().filter(|(_, expr)| expr.contains(lanes)) {
        let own = expr.linear_coefficient(lanes)?;
        elements = elements.checked_add(own.checked_mul(stride(kernel, buffer, axis)?)?)?;
    }
    Some(elements)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_loops_around_a_reduction() {
        for row in Instruction::all() {
            loops::verify(&row.lane).unwrap_or_else(|error| panic!("{error}"));
            let looped = row.looped();
            assert!(looped.extent.as_constant().is_some(), "{}", row.name());
            assert!(matches!(looped.body[..], [Stmt::Reduce { .. }]), "{}", row.name());
            let shape = |id: BufferId| row.lane.buffers[id].shape.clone();
            for operand in row.operands() {
                assert_eq!(shape(operand), std::slice::from_ref(&looped.extent), "{}", row.name());
            }
        }
    }

    #[test]
    fn names_are_their_own() {
        for row in Instruction::all() {
            assert!(std::ptr::eq(row, Instruction::named(row.name()).expect("a row")));
        }
    }
}
