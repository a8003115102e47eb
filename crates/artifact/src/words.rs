//! Symbolic expressions as words, and procedures as they are being written.

use backend::procedure::{Action, Callee, LocalId, MemoryWidth, Procedure, Word, WordOperator};
use program::Fault;
use sym::{Atom, Expr, SymbolId};

/// An expression as a word, its symbols as the words that they are.
pub(crate) fn word_of(expr: &Expr, symbol: &dyn Fn(SymbolId) -> Word) -> Word {
    let mut sum = Word::Number(0);
    for term in expr.terms() {
        let factors = term.factors().iter().map(|atom| atom_of(atom, symbol));
        let product =
            factors.fold(Word::Number(term.coefficient()), |product, factor| product * factor);
        sum = sum + product;
    }
    sum + expr.constant_part()
}

/// About how large an expression is at most, computed so that nothing overflows: what is taken away
/// does not count.
pub(crate) fn estimate_of(expr: &Expr, symbol: &dyn Fn(SymbolId) -> Word) -> Word {
    let mut sum = Word::Number(expr.constant_part().max(0));
    for term in expr.terms().iter().filter(|term| term.coefficient() > 0) {
        let factors = term.factors().iter().map(|atom| match atom {
            Atom::Symbol(id) => symbol(*id),
            Atom::FloorDiv(a, b) => match b.as_constant() {
                Some(divisor) if divisor > 0 => {
                    Word::binary(WordOperator::Quotient, estimate_of(a, symbol), divisor.into())
                }
                _ => estimate_of(a, symbol),
            },
            Atom::Mod(_, b) => estimate_of(b, symbol),
            Atom::Min(a, _) => estimate_of(a, symbol),
            Atom::Max(a, b) => Word::binary(
                WordOperator::SaturatingAdd,
                estimate_of(a, symbol),
                estimate_of(b, symbol),
            ),
        });
        let product = factors.fold(Word::Number(term.coefficient()), |product, factor| {
            Word::binary(WordOperator::SaturatingMultiply, product, factor)
        });
        sum = Word::binary(WordOperator::SaturatingAdd, sum, product);
    }
    sum
}

fn atom_of(atom: &Atom, symbol: &dyn Fn(SymbolId) -> Word) -> Word {
    let operator = match atom {
        Atom::Symbol(id) => return symbol(*id),
        Atom::FloorDiv(..) => WordOperator::Quotient,
        Atom::Mod(..) => WordOperator::Remainder,
        Atom::Min(..) => WordOperator::Minimum,
        Atom::Max(..) => WordOperator::Maximum,
    };
    let (a, b) = match atom.operands() {
        Some((a, b)) => (word_of(a, symbol), word_of(b, symbol)),
        None => (Word::Number(0), Word::Number(0)),
    };
    Word::binary(operator, a, b)
}

/// A procedure that is being written: actions go to the innermost block.
pub(crate) struct ProcedureWriter {
    pub(crate) procedure: Procedure,
    blocks: Vec<Vec<Action>>,
    /// Holds the faults of calls.
    fault: Option<LocalId>,
}

impl ProcedureWriter {
    pub(crate) fn new(name: impl Into<String>, parameters: &[&str]) -> ProcedureWriter {
        ProcedureWriter {
            procedure: Procedure::new(name, parameters),
            blocks: vec![Vec::new()],
            fault: None,
        }
    }

    /// The parameter of this number.
    pub(crate) fn parameter(&self, number: usize) -> Word {
        self.procedure.parameter(number).into()
    }

    pub(crate) fn push(&mut self, action: Action) {
        if let Some(block) = self.blocks.last_mut() {
            block.push(action);
        }
    }

    /// A new local with this value.
    pub(crate) fn local(&mut self, name: &str, value: impl Into<Word>) -> LocalId {
        let local = self.procedure.local(name);
        self.push(Action::Set(local, value.into()));
        local
    }

    pub(crate) fn set(&mut self, local: LocalId, value: impl Into<Word>) {
        self.push(Action::Set(local, value.into()));
    }

    /// Stores a word.
    pub(crate) fn store(&mut self, address: Word, value: impl Into<Word>) {
        self.push(Action::Store(MemoryWidth::Eight, address, value.into()));
    }

    /// Begins a block: what is written next goes there.
    pub(crate) fn open(&mut self) {
        self.blocks.push(Vec::new());
    }

    /// Ends the innermost block; its actions.
    pub(crate) fn close(&mut self) -> Vec<Action> {
        self.blocks.pop().unwrap_or_default()
    }

    /// Counts a turn of a loop that data end, where an address says, and leaves with a fault beyond
    /// the most.
    pub(crate) fn count_turn(&mut self, turns: Word, most: u64) {
        let most = i64::try_from(most).unwrap_or(i64::MAX);
        let is_more = Word::binary(WordOperator::GreaterEqual, turns.clone().load(), most.into());
        self.fault_if(is_more, Fault::TooManyTurns);
        self.store(turns.clone(), turns.load() + 1);
    }

    /// Leaves with a fault where a word is not 0.
    pub(crate) fn fault_if(&mut self, condition: Word, fault: Fault) {
        match condition {
            Word::Number(0) => {}
            _ => {
                let leave = Action::Return(i64::from(fault.code()).into());
                self.push(Action::If(condition, vec![leave], Vec::new()));
            }
        }
    }

    /// Calls what gives a fault, and leaves with it unless it is 0.
    pub(crate) fn checked_call(&mut self, callee: Callee, arguments: Vec<Word>) {
        let procedure = &mut self.procedure;
        let fault = *self.fault.get_or_insert_with(|| procedure.local("fault"));
        self.push(Action::Call(Some(fault), callee, arguments));
        self.push(Action::If(fault.into(), vec![Action::Return(fault.into())], Vec::new()));
    }

    /// Calls something for its result.
    pub(crate) fn call(&mut self, callee: Callee, arguments: Vec<Word>) -> LocalId {
        let result = self.procedure.local("result");
        self.push(Action::Call(Some(result), callee, arguments));
        result
    }

    pub(crate) fn finish(mut self) -> Procedure {
        self.procedure.body = self.blocks.pop().unwrap_or_default();
        self.procedure
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_become_words() {
        use base::Id;
        let symbol = |id: SymbolId| Word::Number([7, -3][id.index()]);
        let (a, b) = (Expr::symbol(SymbolId::new(0)), Expr::symbol(SymbolId::new(1)));
        let expr = (a.clone() * 3 + b.clone()).floor_div(&Expr::constant(4)) * a.clone()
            + b.modulo(&Expr::constant(5))
            - a.max(&b) * 2;
        let value = expr.evaluate(&|id| match symbol(id) {
            Word::Number(number) => Some(number),
            _ => None,
        });
        assert_eq!(word_of(&expr, &symbol), Word::Number(value.expect("no division by 0")));
        let large = a.clone() * a.clone() * i64::MAX;
        assert_eq!(estimate_of(&large, &symbol), Word::Number(i64::MAX));
    }
}
