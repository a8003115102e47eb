//! Walks over statements, values and index expressions: what every reader and rewriter of kernels
//! is built from.
//!
//! A walk over a block visits statements outermost first and in program order. Walks over values
//! that only read visit a value before its operands; those that may write visit the operands first,
//! so what a rewrite puts in is not visited again.

use std::collections::BTreeSet;
use std::slice;

use sym::{Expr, SymbolId};
use tensor::Reduction;

use crate::kernel::{BufferId, Condition, ScalarExpr, Stmt};

/// What a statement or value does with elements of a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// `ScalarExpr::Load`.
    Load,
    /// `ScalarExpr::Fold`: loads every element of the last axis.
    Fold(Reduction),
    /// `Stmt::Store`.
    Store,
    /// `Stmt::Reduce`: loads, combines, stores.
    Reduce(Reduction),
}

impl Effect {
    /// Whether elements are read.
    pub fn reads(self) -> bool {
        self != Effect::Store
    }

    /// Whether elements are written.
    pub fn writes(self) -> bool {
        matches!(self, Effect::Store | Effect::Reduce(_))
    }
}

/// One place where a kernel touches a buffer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reference<'a> {
    /// The buffer.
    pub buffer: BufferId,
    /// One expression an axis; for a fold, one an axis but the last.
    pub index: &'a [Expr],
    /// What happens there.
    pub effect: Effect,
}

impl Stmt {
    /// The blocks directly inside the statement.
    pub fn blocks(&self) -> impl Iterator<Item = &Vec<Stmt>> {
        let (first, second) = match self {
            Stmt::For(inner) => (Some(&inner.body), None),
            Stmt::If { then, otherwise, .. } => (Some(then), Some(otherwise)),
            Stmt::While { setup, body, .. } => (Some(setup), Some(body)),
            Stmt::Let { .. } | Stmt::Store { .. } | Stmt::Reduce { .. } | Stmt::Prefetch { .. } => {
                (None, None)
            }
        };
        first.into_iter().chain(second)
    }

    /// The blocks directly inside the statement.
    pub fn blocks_mut(&mut self) -> impl Iterator<Item = &mut Vec<Stmt>> {
        let (first, second) = match self {
            Stmt::For(inner) => (Some(&mut inner.body), None),
            Stmt::If { then, otherwise, .. } => (Some(then), Some(otherwise)),
            Stmt::While { setup, body, .. } => (Some(setup), Some(body)),
            Stmt::Let { .. } | Stmt::Store { .. } | Stmt::Reduce { .. } | Stmt::Prefetch { .. } => {
                (None, None)
            }
        };
        first.into_iter().chain(second)
    }

    /// The value that the statement itself evaluates, if any.
    pub fn value(&self) -> Option<&ScalarExpr> {
        match self {
            Stmt::Let { value, .. } | Stmt::Store { value, .. } | Stmt::Reduce { value, .. } => {
                Some(value)
            }
            Stmt::While { condition, .. } => Some(condition),
            Stmt::For(_) | Stmt::If { .. } | Stmt::Prefetch { .. } => None,
        }
    }

    /// The value that the statement itself evaluates, if any.
    pub fn value_mut(&mut self) -> Option<&mut ScalarExpr> {
        match self {
            Stmt::Let { value, .. } | Stmt::Store { value, .. } | Stmt::Reduce { value, .. } => {
                Some(value)
            }
            Stmt::While { condition, .. } => Some(condition),
            Stmt::For(_) | Stmt::If { .. } | Stmt::Prefetch { .. } => None,
        }
    }

    /// The index expressions of the statement itself: extent, index or conditions; not those in its
    /// value nor in its blocks.
    pub fn expressions(&self) -> impl Iterator<Item = &Expr> {
        let (index, conditions) = match self {
            Stmt::For(inner) => (slice::from_ref(&inner.extent), NO_CONDITIONS),
            Stmt::Store { index, .. }
            | Stmt::Reduce { index, .. }
            | Stmt::Prefetch { index, .. } => (&index[..], NO_CONDITIONS),
            Stmt::If { conditions, .. } => (NO_EXPRESSIONS, &conditions[..]),
            Stmt::Let { .. } | Stmt::While { .. } => (NO_EXPRESSIONS, NO_CONDITIONS),
        };
        index.iter().chain(sides(conditions))
    }

    /// As [`Stmt::expressions`].
    pub fn expressions_mut(&mut self) -> impl Iterator<Item = &mut Expr> {
        let (index, conditions) = match self {
            Stmt::For(inner) => (slice::from_mut(&mut inner.extent), &mut [][..]),
            Stmt::Store { index, .. }
            | Stmt::Reduce { index, .. }
            | Stmt::Prefetch { index, .. } => (&mut index[..], &mut [][..]),
            Stmt::If { conditions, .. } => (&mut [][..], &mut conditions[..]),
            Stmt::Let { .. } | Stmt::While { .. } => (&mut [][..], &mut [][..]),
        };
        index.iter_mut().chain(sides_mut(conditions))
    }

    /// Visits [`Stmt::expressions`].
    pub fn each_expression<'a>(&'a self, visit: &mut impl FnMut(&'a Expr)) {
        match self {
            Stmt::For(inner) => visit(&inner.extent),
            Stmt::Store { index, .. }
            | Stmt::Reduce { index, .. }
            | Stmt::Prefetch { index, .. } => {
                index.iter().for_each(&mut *visit);
            }
            Stmt::If { .. } => self.expressions().for_each(&mut *visit),
            Stmt::Let { .. } | Stmt::While { .. } => {}
        }
    }

    /// Visits [`Stmt::expressions_mut`].
    pub fn each_expression_mut(&mut self, visit: &mut impl FnMut(&mut Expr)) {
        match self {
            Stmt::For(inner) => visit(&mut inner.extent),
            Stmt::Store { index, .. }
            | Stmt::Reduce { index, .. }
            | Stmt::Prefetch { index, .. } => {
                index.iter_mut().for_each(&mut *visit);
            }
            Stmt::If { .. } => self.expressions_mut().for_each(&mut *visit),
            Stmt::Let { .. } | Stmt::While { .. } => {}
        }
    }

    /// The symbol that the statement binds: a loop's variable or a `Let`'s symbol.
    pub fn binds(&self) -> Option<SymbolId> {
        match self {
            Stmt::For(inner) => Some(inner.variable),
            Stmt::Let { symbol, .. } => Some(*symbol),
            _ => None,
        }
    }
}

impl ScalarExpr {
    /// The operands.
    pub fn operands(&self) -> impl Iterator<Item = &ScalarExpr> {
        let (arguments, pair) = match self {
            ScalarExpr::Apply { arguments, .. } => (&arguments[..], None),
            ScalarExpr::Guard { value, otherwise, .. } => (&[][..], Some([&**value, &**otherwise])),
            _ => (&[][..], None),
        };
        arguments.iter().chain(pair.into_iter().flatten())
    }

    /// The operands.
    pub fn operands_mut(&mut self) -> impl Iterator<Item = &mut ScalarExpr> {
        let (arguments, pair) = match self {
            ScalarExpr::Apply { arguments, .. } => (&mut arguments[..], None),
            ScalarExpr::Guard { value, otherwise, .. } => {
                (&mut [][..], Some([&mut **value, &mut **otherwise]))
            }
            _ => (&mut [][..], None),
        };
        arguments.iter_mut().chain(pair.into_iter().flatten())
    }

    /// The index expressions of the value itself, not those of its operands.
    pub fn expressions(&self) -> impl Iterator<Item = &Expr> {
        let (index, conditions) = match self {
            ScalarExpr::Index(expr) => (slice::from_ref(expr), NO_CONDITIONS),
            ScalarExpr::Load { index, .. } | ScalarExpr::Fold { index, .. } => {
                (&index[..], NO_CONDITIONS)
            }
            ScalarExpr::Guard { conditions, .. } => (NO_EXPRESSIONS, &conditions[..]),
            ScalarExpr::Constant(_) | ScalarExpr::Symbol(_) | ScalarExpr::Apply { .. } => {
                (NO_EXPRESSIONS, NO_CONDITIONS)
            }
        };
        index.iter().chain(sides(conditions))
    }

    /// As [`ScalarExpr::expressions`].
    pub fn expressions_mut(&mut self) -> impl Iterator<Item = &mut Expr> {
        let (index, conditions) = match self {
            ScalarExpr::Index(expr) => (slice::from_mut(expr), &mut [][..]),
            ScalarExpr::Load { index, .. } | ScalarExpr::Fold { index, .. } => {
                (&mut index[..], &mut [][..])
            }
            ScalarExpr::Guard { conditions, .. } => (&mut [][..], &mut conditions[..]),
            ScalarExpr::Constant(_) | ScalarExpr::Symbol(_) | ScalarExpr::Apply { .. } => {
                (&mut [][..], &mut [][..])
            }
        };
        index.iter_mut().chain(sides_mut(conditions))
    }

    /// Visits [`ScalarExpr::expressions`].
    pub fn each_expression<'a>(&'a self, visit: &mut impl FnMut(&'a Expr)) {
        match self {
            ScalarExpr::Load { index, .. } | ScalarExpr::Fold { index, .. } => {
                index.iter().for_each(&mut *visit);
            }
            ScalarExpr::Index(expr) => visit(expr),
            ScalarExpr::Guard { .. } => self.expressions().for_each(&mut *visit),
            ScalarExpr::Constant(_) | ScalarExpr::Symbol(_) | ScalarExpr::Apply { .. } => {}
        }
    }

    /// Visits [`ScalarExpr::expressions_mut`].
    pub fn each_expression_mut(&mut self, visit: &mut impl FnMut(&mut Expr)) {
        match self {
            ScalarExpr::Load { index, .. } | ScalarExpr::Fold { index, .. } => {
                index.iter_mut().for_each(&mut *visit);
            }
            ScalarExpr::Index(expr) => visit(expr),
            ScalarExpr::Guard { .. } => self.expressions_mut().for_each(&mut *visit),
            ScalarExpr::Constant(_) | ScalarExpr::Symbol(_) | ScalarExpr::Apply { .. } => {}
        }
    }

    /// Visits the value, then its operands, recursively.
    pub fn walk<'a>(&'a self, visit: &mut impl FnMut(&'a ScalarExpr)) {
        visit(self);
        match self {
            ScalarExpr::Apply { arguments, .. } => {
                arguments.iter().for_each(|argument| argument.walk(visit));
            }
            ScalarExpr::Guard { value, otherwise, .. } => {
                value.walk(visit);
                otherwise.walk(visit);
            }
            _ => {}
        }
    }

    /// Visits the operands, recursively, then the value.
    pub fn walk_mut(&mut self, visit: &mut impl FnMut(&mut ScalarExpr)) {
        match self {
            ScalarExpr::Apply { arguments, .. } => {
                arguments.iter_mut().for_each(|argument| argument.walk_mut(visit));
            }
            ScalarExpr::Guard { value, otherwise, .. } => {
                value.walk_mut(visit);
                otherwise.walk_mut(visit);
            }
            _ => {}
        }
        visit(self);
    }

    /// Visits the index expressions of the value and of its operands.
    pub fn walk_expressions<'a>(&'a self, visit: &mut impl FnMut(&'a Expr)) {
        self.walk(&mut |value| value.each_expression(visit));
    }

    /// Visits the index expressions of the operands, then those of the value.
    pub fn walk_expressions_mut(&mut self, visit: &mut impl FnMut(&mut Expr)) {
        self.walk_mut(&mut |value| value.each_expression_mut(visit));
    }
}

const NO_EXPRESSIONS: &[Expr] = &[];
const NO_CONDITIONS: &[Condition] = &[];

fn sides(conditions: &[Condition]) -> impl Iterator<Item = &Expr> {
    conditions.iter().flat_map(|condition| [&condition.left, &condition.right])
}

fn sides_mut(conditions: &mut [Condition]) -> impl Iterator<Item = &mut Expr> {
    conditions.iter_mut().flat_map(|condition| [&mut condition.left, &mut condition.right])
}

/// Visits every statement of a block and of the blocks inside it.
pub fn walk<'a>(block: &'a [Stmt], visit: &mut impl FnMut(&'a Stmt)) {
    for stmt in block {
        visit(stmt);
        match stmt {
            Stmt::For(inner) => walk(&inner.body, visit),
            Stmt::If { .. } | Stmt::While { .. } => {
                stmt.blocks().for_each(|inner| walk(inner, visit));
            }
            Stmt::Let { .. } | Stmt::Store { .. } | Stmt::Reduce { .. } | Stmt::Prefetch { .. } => {
            }
        }
    }
}

/// Visits every statement of a block; the blocks inside a statement come before the statement, so
/// that what the visitor puts in is not visited again.
pub fn walk_mut(block: &mut [Stmt], visit: &mut impl FnMut(&mut Stmt)) {
    for stmt in block {
        match stmt {
            Stmt::For(inner) => walk_mut(&mut inner.body, visit),
            Stmt::If { .. } | Stmt::While { .. } => {
                stmt.blocks_mut().for_each(|inner| walk_mut(inner, visit));
            }
            Stmt::Let { .. } | Stmt::Store { .. } | Stmt::Reduce { .. } | Stmt::Prefetch { .. } => {
            }
        }
        visit(stmt);
    }
}

/// Visits every value of a block, operands included.
pub fn walk_values<'a>(block: &'a [Stmt], visit: &mut impl FnMut(&'a ScalarExpr)) {
    walk(block, &mut |stmt| {
        if let Some(value) = stmt.value() {
            value.walk(visit);
        }
    });
}

/// Visits every value of a block, operands first.
pub fn walk_values_mut(block: &mut [Stmt], visit: &mut impl FnMut(&mut ScalarExpr)) {
    walk_mut(block, &mut |stmt| {
        if let Some(value) = stmt.value_mut() {
            value.walk_mut(visit);
        }
    });
}

/// Visits every index expression of a block: extents, indices, conditions, `ScalarExpr::Index`.
pub fn walk_expressions<'a>(block: &'a [Stmt], visit: &mut impl FnMut(&'a Expr)) {
    walk(block, &mut |stmt| {
        stmt.each_expression(visit);
        if let Some(value) = stmt.value() {
            value.walk_expressions(visit);
        }
    });
}

/// Visits every index expression of a block.
pub fn walk_expressions_mut(block: &mut [Stmt], visit: &mut impl FnMut(&mut Expr)) {
    walk_mut(block, &mut |stmt| {
        stmt.each_expression_mut(visit);
        if let Some(value) = stmt.value_mut() {
            value.walk_expressions_mut(visit);
        }
    });
}

/// Every place where a block touches a buffer, in program order; a statement's loads come before
/// its own store.
pub fn references(block: &[Stmt]) -> Vec<Reference<'_>> {
    let mut found = Vec::new();
    walk_references(block, &mut |reference| found.push(reference));
    found
}

/// As [`references`], one after the other.
pub fn walk_references<'a>(block: &'a [Stmt], visit: &mut impl FnMut(Reference<'a>)) {
    walk(block, &mut |stmt| own_references(stmt, visit));
}

/// The places where a statement itself touches a buffer, not those in its blocks. What is asked for
/// ahead is not touched.
pub fn own_references<'a>(stmt: &'a Stmt, visit: &mut impl FnMut(Reference<'a>)) {
    if let Some(value) = stmt.value() {
        value_references(value, visit);
    }
    match stmt {
        Stmt::Store { buffer, index, .. } => {
            visit(Reference { buffer: *buffer, index, effect: Effect::Store });
        }
        Stmt::Reduce { buffer, index, reduction, .. } => {
            visit(Reference { buffer: *buffer, index, effect: Effect::Reduce(*reduction) });
        }
        _ => {}
    }
}

/// Every place where a value touches a buffer.
pub fn value_references<'a>(value: &'a ScalarExpr, visit: &mut impl FnMut(Reference<'a>)) {
    value.walk(&mut |value| match value {
        ScalarExpr::Load { buffer, index } => {
            visit(Reference { buffer: *buffer, index, effect: Effect::Load });
        }
        ScalarExpr::Fold { reduction, buffer, index } => {
            visit(Reference { buffer: *buffer, index, effect: Effect::Fold(*reduction) });
        }
        _ => {}
    });
}

/// The buffers a block reads, and those it writes.
pub fn touched(block: &[Stmt]) -> (BTreeSet<BufferId>, BTreeSet<BufferId>) {
    let (mut read, mut written) = (BTreeSet::new(), BTreeSet::new());
    walk_references(block, &mut |reference| {
        if reference.effect.reads() {
            read.insert(reference.buffer);
        }
        if reference.effect.writes() {
            written.insert(reference.buffer);
        }
    });
    (read, written)
}

/// The symbols that loops and lets of the block bind.
pub fn bound_symbols(block: &[Stmt]) -> BTreeSet<SymbolId> {
    let mut bound = BTreeSet::new();
    walk(block, &mut |stmt| bound.extend(stmt.binds()));
    bound
}

/// The symbols that the block uses but does not bind.
pub fn free_symbols(block: &[Stmt]) -> BTreeSet<SymbolId> {
    let mut used = BTreeSet::new();
    walk_expressions(block, &mut |expr| add_symbols(expr, &mut used));
    walk_values(block, &mut |value| {
        if let ScalarExpr::Symbol(symbol) = value {
            used.insert(*symbol);
        }
    });
    used.difference(&bound_symbols(block)).copied().collect()
}

/// The symbols that a statement uses itself, in its expressions and its value, not in its blocks.
pub fn statement_symbols(stmt: &Stmt) -> BTreeSet<SymbolId> {
    let mut used = stmt.value().map(value_symbols).unwrap_or_default();
    stmt.expressions().for_each(|expr| add_symbols(expr, &mut used));
    used
}

/// The symbols that a value uses.
pub fn value_symbols(value: &ScalarExpr) -> BTreeSet<SymbolId> {
    let mut used = BTreeSet::new();
    value.walk_expressions(&mut |expr| add_symbols(expr, &mut used));
    value.walk(&mut |value| {
        if let ScalarExpr::Symbol(symbol) = value {
            used.insert(*symbol);
        }
    });
    used
}

fn add_symbols(expr: &Expr, used: &mut BTreeSet<SymbolId>) {
    expr.any_symbol(&mut |symbol| {
        used.insert(symbol);
        false
    });
}
