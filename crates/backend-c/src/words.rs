//! Vector loops of cores with the DSP extension: bytes that lie side by side are loaded a word at
//! a time.
//!
//! Two forms are known: an instruction one of whose operands moves on from lane to lane, so that
//! two lanes share a load of two words, which rows that meet them share, too; and sums of products
//! of neighbouring bytes, four of which are two loads. What is neither is written lane by lane.

use std::collections::BTreeMap;

use backend::{Isa, Tuple};
use loops::substitute::substitute;
use loops::{BufferId, Kernel, Loop, LoopKind, ScalarExpr, Stmt};
use sym::{Expr, SymbolId};
use tensor::{DType, Reduction, ScalarFunction};

use crate::helpers::{Helpers, PairHelper};
use crate::value::ValueContext;

/// Bytes of a word.
pub(crate) const WORD: i64 = 4;

/// Two lanes of an instruction, as addresses in C.
struct Pair {
    helper: PairHelper,
    sums: String,
    /// The operand that both share.
    same: String,
    /// The operands of both, side by side.
    next: String,
}

/// The lines of lanes: those with the same second operands behind one load of these.
fn lines_of(pairs: Vec<Pair>) -> Vec<String> {
    let mut loads: Vec<(String, Vec<Pair>)> = Vec::new();
    for pair in pairs {
        match loads.iter_mut().find(|(next, _)| *next == pair.next) {
            Some((_, own)) => own.push(pair),
            None => loads.push((pair.next.clone(), vec![pair])),
        }
    }
    let mut lines = Vec::new();
    for (next, pairs) in loads {
        let PairHelper { ty, load, .. } = pairs[0].helper;
        lines.push("{".to_owned());
        lines.push(format!("  const {ty} tw_pair = {load}({next});"));
        lines.extend(pairs.into_iter().map(|Pair { helper, sums, same, .. }| {
            format!("  {}({sums}, {same}, tw_pair);", helper.add)
        }));
        lines.push("}".to_owned());
    }
    lines
}

/// A place in front of a vector loop.
pub(crate) struct WordContext<'a, 'b> {
    pub(crate) scalar: &'a ValueContext<'b>,
    pub(crate) kernel: &'a Kernel,
    pub(crate) isa: Isa,
    /// Whether a buffer begins at a whole word.
    pub(crate) is_aligned: &'a dyn Fn(BufferId) -> bool,
}

impl WordContext<'_, '_> {
    /// The lines of a vector loop, or of one within loops that are written out; none where it has
    /// no such form.
    pub(crate) fn lines(&self, helpers: &mut Helpers, inner: &Loop) -> Option<Vec<String>> {
        let mut pairs = Vec::new();
        if self.pairs(helpers, inner, &mut pairs).is_some() {
            return Some(lines_of(pairs));
        }
        let lanes = inner.extent.as_constant().filter(|lanes| lanes % WORD == 0)?;
        match &inner.body[..] {
            [Stmt::Reduce { buffer, index, reduction: Reduction::Sum, value }]
                if inner.kind == LoopKind::Vector =>
            {
                let sum = (*buffer, &index[..]);
                let word = |word| self.word(helpers, inner, (sum, value), WORD * word);
                (0..lanes / WORD).map(word).collect()
            }
            _ => None,
        }
    }

    /// Adds what the lanes of instructions in a loop become, two at a time.
    fn pairs(&self, helpers: &mut Helpers, inner: &Loop, found: &mut Vec<Pair>) -> Option<()> {
        let [Stmt::For(within)] = &inner.body[..] else { return None };
        let turns = inner.extent.as_constant()?;
        match (&inner.kind, &within.kind) {
            (LoopKind::Vector, LoopKind::Instruction(name)) if turns % 2 == 0 => {
                let helper = helpers.instruction_pair(name)?;
                (0..turns / 2).try_for_each(|pair| {
                    found.push(self.pair(helpers, inner, (name, helper), 2 * pair)?);
                    Some(())
                })
            }
            (LoopKind::Unroll, LoopKind::Unroll | LoopKind::Vector) => {
                (0..turns).try_for_each(|turn| {
                    let mut within = within.clone();
                    let values = BTreeMap::from([(inner.variable, Expr::constant(turn))]);
                    substitute(&mut within.body, &values);
                    self.pairs(helpers, &within, found)
                })
            }
            _ => None,
        }
    }

    /// Two lanes of an instruction, from `first` on.
    fn pair(
        &self,
        helpers: &mut Helpers,
        inner: &Loop,
        (name, helper): (&str, PairHelper),
        first: i64,
    ) -> Option<Pair> {
        let lane = |lane: i64| {
            let mut body = inner.body.clone();
            substitute(&mut body, &BTreeMap::from([(inner.variable, Expr::constant(lane))]));
            let [Stmt::For(looped)] = &body[..] else { return None };
            let found = self.isa.instruction_of(self.kernel, looped, name, Some(inner.variable));
            found.ok().filter(|found| found.operands.iter().all(Tuple::is_plain))
        };
        let (one, other) = (lane(first)?, lane(first + 1)?);
        let number = |buffer, index: &[Expr]| self.scalar.number(buffer, index);
        let step = |operand: usize| {
            let [one, other] = [&one, &other].map(|found| &found.operands[operand]);
            let own = number(one.buffer, &one.index);
            (&number(other.buffer, &other.index) - &own).as_constant()
        };
        let begins_at_word = |tuple: &Tuple| {
            (self.is_aligned)(tuple.buffer) && number(tuple.buffer, &tuple.index).divisible_by(WORD)
        };
        // The order of the factors is free.
        let (same, next) = [(0, 1), (1, 0)].into_iter().find(|&(same, next)| {
            let moving = &one.operands[next];
            step(same) == Some(0) && step(next) == Some(moving.count) && begins_at_word(moving)
        })?;
        let sums = [&one, &other].map(|found| number(found.buffer, &found.index));
        if (&sums[1] - &sums[0]).as_constant() != Some(1) {
            return None;
        }
        let mut place = |buffer, index: &[Expr]| {
            let (array, number) = self.scalar.element(helpers, buffer, index);
            format!("&{array}[{number}]")
        };
        let operand = |number: usize| (one.operands[number].buffer, &one.operands[number].index);
        let [(same, same_index), (next, next_index)] = [operand(same), operand(next)];
        Some(Pair {
            helper,
            sums: place(one.buffer, &one.index),
            same: place(same, same_index),
            next: place(next, next_index),
        })
    }

    /// Four lanes of sums of products, from `first` on.
    fn word(
        &self,
        helpers: &mut Helpers,
        inner: &Loop,
        ((buffer, index), value): ((BufferId, &[Expr]), &ScalarExpr),
        first: i64,
    ) -> Option<String> {
        let ScalarExpr::Apply { function: ScalarFunction::Mul, dtype: DType::I32, arguments } =
            value
        else {
            return None;
        };
        let factor = |value| self.extended_byte(value);
        let (a, b) = (factor(&arguments[0])?, factor(&arguments[1])?);
        let mut place = |(buffer, index): (BufferId, &[Expr])| {
            let number = self.scalar.number(buffer, index);
            if number.linear_coefficient(inner.variable) != Some(1) {
                return None;
            }
            let number = number.substitute(&mut |symbol: SymbolId| {
                (symbol == inner.variable).then(|| Expr::constant(first))
            });
            let number = self.scalar.element_number(helpers, buffer, &number);
            Some(format!("&{}[{number}]", self.scalar.buffer_name(buffer)))
        };
        let (sum, a, b) = (place((buffer, index))?, place(a)?, place(b)?);
        let helper = helpers.multiply_add_bytes();
        Some(format!("{helper}({sum}, {a}, {b});"))
    }

    /// The signed byte that a value is in 32 bits.
    fn extended_byte<'v>(&self, value: &'v ScalarExpr) -> Option<(BufferId, &'v [Expr])> {
        match value {
            ScalarExpr::Apply { function: ScalarFunction::Cast, dtype: DType::I32, arguments } => {
                match &arguments[..] {
                    [ScalarExpr::Load { buffer, index }]
                        if self.kernel.buffers[*buffer].dtype == DType::I8 =>
                    {
                        Some((*buffer, index))
                    }
                    _ => None,
                }
            }
            _ => None,
        }
    }
}
