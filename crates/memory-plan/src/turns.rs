//! For the checker: a kernel's turns one after the other, element by element, to see whether what
//! it writes falls on what it has still to read.

use std::collections::BTreeMap;

use loops::visit::{own_references, touched};
use loops::{
    BufferId, Comparison, Condition, Kernel, LoopKind, ScalarExpr, Stmt, constant_strides,
};
use sym::{Expr, SymbolId};

/// Whether each element of `read` is read for the last time before `written` is written over it,
/// where `read` begins so many bytes behind `written`; not if that depends on data.
pub(crate) fn reads_before_writes(
    kernel: &Kernel,
    read: BufferId,
    written: BufferId,
    distance: i64,
) -> bool {
    let side = |buffer: BufferId| {
        let element = i64::from(kernel.buffers[buffer].dtype.bits() / 8);
        Some(Side { buffer, strides: constant_strides(kernel, buffer)?, element })
    };
    let (Some(read), Some(written)) = (side(read), side(written)) else { return false };
    let bytes = kernel.buffers[written.buffer].shape.iter().map(Expr::as_constant);
    let count: Option<i64> = bytes.product();
    let room = count.map_or(0, |count| count * written.element).max(0) as usize;
    let mut turns = Turns {
        read,
        written,
        distance,
        pass: Pass::Both,
        values: BTreeMap::new(),
        over: vec![false; room],
        holds: true,
    };
    turns.block(&kernel.body);
    turns.holds
}

struct Side {
    buffer: BufferId,
    strides: Vec<i64>,
    element: i64,
}

/// What is looked at.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Pass {
    Both,
    Stores,
    Loads,
}

struct Turns {
    read: Side,
    written: Side,
    distance: i64,
    pass: Pass,
    values: BTreeMap<SymbolId, i64>,
    /// Which bytes of what is written have been, from its start.
    over: Vec<bool>,
    holds: bool,
}

impl Turns {
    fn block(&mut self, block: &[Stmt]) {
        for stmt in block {
            if !self.holds {
                return;
            }
            self.statement(stmt);
        }
    }

    fn statement(&mut self, stmt: &Stmt) {
        match stmt {
            Stmt::For(inner) => {
                let (reads, writes) = touched(&inner.body);
                if !reads.contains(&self.read.buffer) && !writes.contains(&self.written.buffer) {
                    return;
                }
                let Some(extent) = self.value(&inner.extent) else { return self.fail() };
                // Lanes are in no order: all stores come first, then all loads.
                let passes: &[Pass] = match (inner.kind == LoopKind::Vector, self.pass) {
                    (true, Pass::Both) => &[Pass::Stores, Pass::Loads],
                    _ => &[self.pass],
                };
                let outside = self.pass;
                for &pass in passes {
                    self.pass = pass;
                    for turn in 0..extent {
                        self.values.insert(inner.variable, turn);
                        self.block(&inner.body);
                    }
                }
                self.pass = outside;
                self.values.remove(&inner.variable);
            }
            Stmt::If { conditions, then, otherwise } => match self.holds_here(conditions) {
                Some(true) => self.block(then),
                Some(false) => self.block(otherwise),
                None => self.fail(),
            },
            Stmt::While { .. } => self.fail(),
            Stmt::Prefetch { .. } => {}
            Stmt::Let { value, .. } => self.reads(value),
            Stmt::Store { value, .. } | Stmt::Reduce { value, .. } => {
                self.reads(value);
                let stores = self.pass != Pass::Loads;
                own_references(stmt, &mut |reference| {
                    if stores
                        && reference.effect.writes()
                        && reference.buffer == self.written.buffer
                    {
                        self.write(reference.index);
                    }
                });
            }
        }
    }

    /// What a value reads, where its guards hold.
    fn reads(&mut self, value: &ScalarExpr) {
        if self.pass == Pass::Stores {
            return;
        }
        match value {
            ScalarExpr::Load { buffer, index } if *buffer == self.read.buffer => {
                let Some(place) = self.place(&self.read, index) else { return self.fail() };
                for byte in place..place + self.read.element {
                    let over = usize::try_from(byte + self.distance);
                    let is_over = over.ok().and_then(|byte| self.over.get(byte));
                    self.holds &= is_over != Some(&true);
                }
            }
            ScalarExpr::Fold { buffer, .. } if *buffer == self.read.buffer => self.fail(),
            ScalarExpr::Guard { conditions, value, otherwise } => {
                match self.holds_here(conditions) {
                    Some(true) => self.reads(value),
                    Some(false) => self.reads(otherwise),
                    None => {
                        self.reads(value);
                        self.reads(otherwise);
                    }
                }
            }
            _ => value.operands().for_each(|operand| self.reads(operand)),
        }
    }

    fn write(&mut self, index: &[Expr]) {
        let Some(place) = self.place(&self.written, index) else { return self.fail() };
        for byte in place..place + self.written.element {
            let over = usize::try_from(byte).ok().and_then(|byte| self.over.get_mut(byte));
            match over {
                Some(over) => *over = true,
                // A view: its rows lie apart.
                None => self.grow(byte),
            }
        }
    }

    fn grow(&mut self, byte: i64) {
        let Ok(byte) = usize::try_from(byte) else { return self.fail() };
        self.over.resize(byte + 1, false);
        self.over[byte] = true;
    }

    /// The first byte of an element.
    fn place(&self, side: &Side, index: &[Expr]) -> Option<i64> {
        let mut place = 0;
        for (index, by) in index.iter().zip(&side.strides) {
            place += self.value(index)? * by;
        }
        (index.len() == side.strides.len()).then_some(place * side.element)
    }

    fn value(&self, expr: &Expr) -> Option<i64> {
        expr.evaluate(&|symbol| self.values.get(&symbol).copied())
    }

    fn holds_here(&self, conditions: &[Condition]) -> Option<bool> {
        let mut all = true;
        for Condition { left, comparison, right } in conditions {
            let (left, right) = (self.value(left)?, self.value(right)?);
            all &= match comparison {
                Comparison::Less => left < right,
                Comparison::LessEqual => left <= right,
                Comparison::Equal => left == right,
                Comparison::NotEqual => left != right,
            };
        }
        Some(all)
    }

    fn fail(&mut self) {
        self.holds = false;
    }
}
