//! Whether a kernel may be given the same memory for a parameter that it reads and one that it
//! writes: each element is read for the last time before it is written.
//!
//! A place is one number an axis where both buffers have the same axes, else one, the elements from
//! the start of the buffer; each is a sum over the loops around. Places of different turns differ
//! if in each number the loops are distinct digits: a loop's step is larger than all that those of
//! smaller steps move together. So the answer is sound and incomplete; where blocks overlap, or
//! places depend on data, it is no.

use sym::{Atom, Expr, SymbolId};

use crate::kernel::{Access, BufferId, Kernel, ScalarExpr, Scope, Stmt};

/// The most turns of a loop whose quotients and remainders are looked at.
const TRIED: i64 = 1 << 14;

/// Whether `written` may begin where `read` begins: both are parameters of elements of one size,
/// and whatever the kernel computes stays the same, in any order of the parallel loop's turns.
pub fn may_share(kernel: &Kernel, read: BufferId, written: BufferId) -> bool {
    let (from, to) = (&kernel.buffers[read], &kernel.buffers[written]);
    let fits = from.scope == Scope::Parameter(Access::Read)
        && to.scope == Scope::Parameter(Access::Write)
        && from.dtype.bits() == to.dtype.bits()
        && from.dtype.bits() >= 8;
    let (Some(one), Some(other)) =
        (constant_strides(kernel, read), constant_strides(kernel, written))
    else {
        return false;
    };
    let dense = from.strides.is_none() && to.strides.is_none();
    let alike = dense && from.shape == to.shape;
    let (path, loads, stores) = (Vec::new(), Vec::new(), Vec::new());
    let strides = [one, other];
    let mut found = Found { read, written, strides, path, loads, stores, fits };
    found.block(&kernel.body);
    let [store] = &found.stores[..] else { return false };
    let before =
        |load: &Place| alike && is_before(load, store) || is_before(&load.flat(), &store.flat());
    found.fits && found.loads.iter().all(before)
}

/// One level of the statements around an access.
#[derive(Clone, Debug, PartialEq)]
struct Level {
    /// Position in the block.
    position: usize,
    /// The loop's variable and extent, if the statement at the position is a loop.
    turns: Option<(SymbolId, i64)>,
}

/// A load or store.
#[derive(Clone, Debug)]
struct Place {
    index: Vec<Expr>,
    /// Elements from one index to the next along each axis.
    strides: Vec<i64>,
    /// From the kernel's body to the statement itself.
    path: Vec<Level>,
}

impl Place {
    /// The place as a single number.
    fn flat(&self) -> Place {
        let parts = self.index.iter().zip(&self.strides).map(|(index, step)| index * *step);
        Place { index: vec![parts.sum()], strides: vec![1], path: self.path.clone() }
    }

    fn loops(&self) -> Vec<(SymbolId, i64)> {
        self.path.iter().filter_map(|level| level.turns).collect()
    }
}

/// The accesses of both buffers.
struct Found {
    /// Those of the buffer that is read, then of the one that is written.
    strides: [Vec<i64>; 2],
    read: BufferId,
    written: BufferId,
    path: Vec<Level>,
    loads: Vec<Place>,
    stores: Vec<Place>,
    /// Whether nothing else is done with them.
    fits: bool,
}

/// Whether the element that is loaded is written by the store only later.
fn is_before(load: &Place, store: &Place) -> bool {
    let same = load.path.iter().zip(&store.path).take_while(|(one, other)| one == other).count();
    let (Some(first), Some(second)) = (load.path.get(same), store.path.get(same)) else {
        // Within one statement: the value is computed before it is stored, and no other turn
        // stores there.
        let parts: Vec<(Expr, i64)> = store.index.iter().map(|index| (index.clone(), 1)).collect();
        return load.path == store.path
            && load.index == store.index
            && are_apart(&parts, &store.loops());
    };
    if first.position >= second.position {
        return false;
    }
    let around: Vec<(SymbolId, i64)> =
        load.path[..same].iter().filter_map(|level| level.turns).collect();
    let inside = |place: &Place| place.loops()[around.len()..].to_vec();
    let (in_load, in_store) = (inside(load), inside(store));
    // Other turns of the loops around both touch other elements, or this one in the same turn.
    let parts = load.index.iter().zip(&store.index).map(|(load, store)| {
        let (load_low, load_high, shared) = extent_inside(load, &around, &in_load)?;
        let (low, high, stored) = extent_inside(store, &around, &in_store)?;
        (shared == stored).then(|| (shared, high.max(load_high) - low.min(load_low) + 1))
    });
    let parts: Option<Vec<(Expr, i64)>> = parts.collect();
    parts.is_some_and(|parts| are_apart(&parts, &around))
}

/// The least and the most that the terms of a number which depend on `inside` add to its constant
/// part, and the terms that depend on `around`; none if a term depends on both or on other symbols.
fn extent_inside(
    number: &Expr,
    around: &[(SymbolId, i64)],
    inside: &[(SymbolId, i64)],
) -> Option<(i64, i64, Expr)> {
    let constant = number.constant_part();
    let (mut low, mut high, mut shared) = (constant, constant, Expr::ZERO);
    for term in number.terms() {
        let expr = Expr::from(term.clone());
        let symbols = expr.symbols();
        let is_in = |loops: &[(SymbolId, i64)]| {
            symbols.iter().all(|symbol| loops.iter().any(|(variable, _)| variable == symbol))
        };
        if is_in(around) {
            shared += &expr;
            continue;
        }
        let &[symbol] = &symbols[..] else { return None };
        let (_, extent) = inside.iter().find(|(variable, _)| *variable == symbol)?;
        let (least, most) = range(&expr, symbol, *extent)?;
        (low, high) = (low.checked_add(least)?, high.checked_add(most)?);
    }
    Some((low, high, shared))
}

/// The least and the largest value of a term while its symbol runs from 0 to below the extent.
fn range(term: &Expr, symbol: SymbolId, extent: i64) -> Option<(i64, i64)> {
    if let Some(step) = term.linear_coefficient(symbol) {
        let last = step.checked_mul((extent - 1).max(0))?;
        return Some((last.min(0), last.max(0)));
    }
    if extent > TRIED {
        return None;
    }
    if let [only] = term.terms()
        && let Some(digits) = Digits::of(only).filter(|_| extent > 0)
    {
        let last = digits.of_turn(digits.until.map_or(extent, |until| until.min(extent)) - 1);
        let last = last.checked_mul(only.coefficient())?;
        return Some((last.min(0), last.max(0)));
    }
    let at = |turn: i64| term.evaluate(&|_| Some(turn));
    let values: Option<Vec<i64>> = (0..extent).map(at).collect();
    let values = values?;
    Some((*values.iter().min()?, *values.iter().max()?))
}

/// Whether different turns of these loops lead to different places: `parts` are the numbers of a
/// place, each with how many neighbouring values one turn may take.
fn are_apart(parts: &[(Expr, i64)], loops: &[(SymbolId, i64)]) -> bool {
    let mut own: Vec<Vec<&sym::Term>> = vec![Vec::new(); loops.len()];
    for (number, width) in parts {
        let mut digits = Vec::new();
        for term in number.terms() {
            let expr = Expr::from(term.clone());
            let symbols = expr.symbols();
            let at = loops.iter().position(|(variable, _)| symbols == [*variable]);
            // Steps are multiples of the coefficient only where nothing else is multiplied.
            let (Some(at), [_]) = (at, term.factors()) else { return false };
            let Some((least, most)) = range(&expr, loops[at].0, loops[at].1) else { return false };
            digits.push((term.coefficient().saturating_abs(), most - least));
            own[at].push(term);
        }
        digits.sort_unstable();
        let mut reach = width - 1;
        for (step, most) in digits {
            if most > 0 && step <= reach {
                return false;
            }
            reach = reach.saturating_add(most);
        }
    }
    let mut all = loops.iter().zip(&own);
    all.all(|(&(variable, extent), terms)| extent <= 1 || are_told_apart(terms, variable, extent))
}

/// Whether no two turns of a loop agree in all of these terms.
fn are_told_apart(terms: &[&sym::Term], variable: SymbolId, extent: i64) -> bool {
    let is_variable = |term: &&sym::Term| matches!(term.factors(), [Atom::Symbol(_)]);
    if terms.iter().any(is_variable) {
        return true;
    }
    if extent > TRIED {
        return false;
    }
    // The turn is known up to a power of its radix, and further by the digits that begin there.
    let digits: Vec<Digits> = terms.iter().filter_map(|term| Digits::of(term)).collect();
    let mut known = 1;
    while let Some(next) = digits.iter().find(|digits| digits.from == known) {
        match next.until.filter(|until| *until < extent) {
            None => return true,
            Some(until) if until > known && until % known == 0 => known = until,
            Some(_) => break,
        }
    }
    let all: Vec<Expr> = terms.iter().map(|term| Expr::from((*term).clone())).collect();
    let at = |turn: i64| -> Option<Vec<i64>> {
        let value = |symbol: SymbolId| (symbol == variable).then_some(turn);
        all.iter().map(|term| term.evaluate(&value)).collect()
    };
    let turns: Option<std::collections::BTreeSet<Vec<i64>>> = (0..extent).map(at).collect();
    turns.is_some_and(|turns| turns.len() as i64 == extent)
}

/// Some digits of a loop's variable `v`, in mixed radix: `(v mod until) div from`.
#[derive(Clone, Copy, Debug)]
struct Digits {
    from: i64,
    /// None where nothing is cut off.
    until: Option<i64>,
}

impl Digits {
    /// Of a term that is nothing but these, times its coefficient.
    fn of(term: &sym::Term) -> Option<Digits> {
        match term.factors() {
            [atom] => Digits::of_atom(atom),
            _ => None,
        }
    }

    fn of_atom(atom: &Atom) -> Option<Digits> {
        let (inner, n) = match atom {
            Atom::Symbol(_) => return Some(Digits { from: 1, until: None }),
            Atom::FloorDiv(inner, n) | Atom::Mod(inner, n) => (inner, n),
            Atom::Min(..) | Atom::Max(..) => return None,
        };
        let Digits { from, until } = Digits::of_atom(inner.as_atom()?)?;
        let next = from.checked_mul(n.as_constant().filter(|n| *n > 0)?)?;
        match atom {
            Atom::FloorDiv(..) => Some(Digits { from: next, until }),
            _ => until
                .is_none_or(|until| until % next == 0)
                .then_some(Digits { from, until: Some(next) }),
        }
    }

    fn of_turn(self, turn: i64) -> i64 {
        self.until.map_or(turn, |until| turn % until) / self.from
    }
}

/// Elements from one index to the next along each axis of a buffer, if they are constant.
#[must_use]
pub fn constant_strides(kernel: &Kernel, id: BufferId) -> Option<Vec<i64>> {
    let buffer = &kernel.buffers[id];
    if let Some(strides) = &buffer.strides {
        return strides.iter().map(Expr::as_constant).collect();
    }
    let mut strides = vec![1; buffer.shape.len()];
    for axis in (1..buffer.shape.len()).rev() {
        let extent = buffer.shape[axis].as_constant()?;
        strides[axis - 1] = extent.checked_mul(strides[axis])?;
    }
    Some(strides)
}

impl Found {
    fn block(&mut self, block: &[Stmt]) {
        for (position, stmt) in block.iter().enumerate() {
            self.path.push(Level { position, turns: None });
            self.statement(stmt);
            self.path.pop();
        }
    }

    fn statement(&mut self, stmt: &Stmt) {
        if let Some(value) = stmt.value() {
            value.walk(&mut |value| self.value(value));
        }
        match stmt {
            Stmt::Let { .. } | Stmt::Prefetch { .. } => {}
            Stmt::Store { buffer, index, .. } => {
                self.fits &= *buffer != self.read;
                if *buffer == self.written {
                    let place = self.place(index, 1);
                    self.stores.push(place);
                }
            }
            Stmt::Reduce { buffer, .. } => {
                self.fits &= *buffer != self.read && *buffer != self.written;
            }
            Stmt::For(inner) => {
                let extent = inner.extent.as_constant();
                // What moves with an extent that is not known is refused as an unknown symbol.
                let turns = extent.map(|extent| (inner.variable, extent));
                if let Some(level) = self.path.last_mut() {
                    level.turns = turns;
                }
                self.block(&inner.body);
            }
            Stmt::If { then, otherwise, .. } => {
                for (branch, block) in [then, otherwise].into_iter().enumerate() {
                    self.path.push(Level { position: branch, turns: None });
                    self.block(block);
                    self.path.pop();
                }
            }
            Stmt::While { .. } => {
                let before = self.loads.len() + self.stores.len();
                stmt.blocks().for_each(|block| self.block(block));
                // How often it turns is not known.
                self.fits &= self.loads.len() + self.stores.len() == before;
            }
        }
    }

    fn value(&mut self, value: &ScalarExpr) {
        match value {
            ScalarExpr::Load { buffer, index } if *buffer == self.read => {
                let place = self.place(index, 0);
                self.loads.push(place);
            }
            ScalarExpr::Load { buffer, .. } => self.fits &= *buffer != self.written,
            ScalarExpr::Fold { buffer, .. } => {
                self.fits &= *buffer != self.read && *buffer != self.written;
            }
            _ => {}
        }
    }

    fn place(&self, index: &[Expr], buffer: usize) -> Place {
        let (index, strides) = (index.to_vec(), self.strides[buffer].clone());
        Place { index, strides, path: self.path.clone() }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use base::Id;

    use super::*;

    /// Quotients and remainders of quotients and remainders, by small numbers.
    fn exprs(variable: SymbolId) -> Vec<Expr> {
        let (v, mut made) = (Expr::symbol(variable), Vec::new());
        for (a, b) in [2, 3, 4, 6].iter().flat_map(|a| [2, 3, 4].map(|b| (*a, b))) {
            let (a, b) = (Expr::constant(a), Expr::constant(b));
            let (quotient, remainder) = (v.floor_div(&a), v.modulo(&a));
            made.extend([quotient.modulo(&b), remainder.floor_div(&b), quotient, remainder]);
        }
        made.retain(|expr| expr.terms().len() == 1);
        made
    }

    #[test]
    fn digits_say_what_trying_does() {
        let variable = SymbolId::new(0);
        let exprs = exprs(variable);
        let at = |expr: &Expr, turn: i64| expr.evaluate(&|_| Some(turn));
        for expr in &exprs {
            let term = &expr.terms()[0];
            let digits = Digits::of(term).expect("there are no other expressions");
            for turn in 0..40 {
                assert_eq!(Some(digits.of_turn(turn) * term.coefficient()), at(expr, turn));
            }
            for extent in 1..20 {
                let values: Vec<i64> = (0..extent).filter_map(|turn| at(expr, turn)).collect();
                let ends = values.iter().min().copied().zip(values.iter().max().copied());
                assert_eq!(range(expr, variable, extent), ends, "{expr:?} below {extent}");
            }
        }
        for (one, other) in exprs.iter().flat_map(|one| exprs.iter().map(move |it| (one, it))) {
            for extent in [5, 8, 9, 24] {
                let turns: BTreeSet<_> =
                    (0..extent).map(|turn| (at(one, turn), at(other, turn))).collect();
                let apart = are_told_apart(&[&one.terms()[0], &other.terms()[0]], variable, extent);
                assert_eq!(
                    apart,
                    turns.len() as i64 == extent,
                    "{one:?}, {other:?} below {extent}"
                );
            }
        }
    }
}
