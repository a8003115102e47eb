//! Finding loops and statements in a kernel, and what is known where they stand.
//!
//! A statement is found by its [`Site`]: the blocks on the way to it. Sites are positions, so any
//! change of the blocks on the way makes them stale.

use std::collections::BTreeSet;

use base::IntoTree;
use loops::visit::walk;
use loops::{BufferId, Condition, Kernel, Loop, LoopKind, Ranges, Stmt, is_name};
use sym::{Expr, Range, SymbolId};

use crate::error::{Outcome, Refusal};

/// Into a statement of a block, and there into one of its blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Descent {
    /// Position of the statement in the block above.
    pub(crate) stmt: usize,
    /// Which of the statement's blocks: an `If` and a `While` have two.
    pub(crate) block: usize,
}

/// Where a statement stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Site {
    /// The way to the block that holds it.
    pub(crate) block: Vec<Descent>,
    /// Its position in that block.
    pub(crate) index: usize,
}

impl Site {
    /// The way to the statement's first block: a loop's body.
    pub(crate) fn body(&self) -> Vec<Descent> {
        let mut way = self.block.clone();
        way.push(Descent { stmt: self.index, block: 0 });
        way
    }
}

/// The block at the end of a way.
pub(crate) fn block<'a>(kernel: &'a Kernel, way: &[Descent]) -> &'a Vec<Stmt> {
    let step = |block: &'a Vec<Stmt>, descent: &Descent| {
        block[descent.stmt].blocks().nth(descent.block).expect("a way leads through blocks")
    };
    way.iter().fold(&kernel.body, step)
}

/// The block at the end of a way, to change it.
pub(crate) fn block_mut<'a>(kernel: &'a mut Kernel, way: &[Descent]) -> &'a mut Vec<Stmt> {
    let step = |block: &'a mut Vec<Stmt>, descent: &Descent| {
        let stmt = &mut block[descent.stmt];
        stmt.blocks_mut().nth(descent.block).expect("a way leads through blocks")
    };
    way.iter().fold(&mut kernel.body, step)
}

/// The loop at a site that [`find_loop`] returned.
pub(crate) fn loop_at<'a>(kernel: &'a Kernel, site: &Site) -> &'a Loop {
    match &block(kernel, &site.block)[site.index] {
        Stmt::For(found) => found,
        _ => unreachable!("the site of a loop"),
    }
}

/// The loop at a site that [`find_loop`] returned, to change it.
pub(crate) fn loop_at_mut<'a>(kernel: &'a mut Kernel, site: &Site) -> &'a mut Loop {
    match &mut block_mut(kernel, &site.block)[site.index] {
        Stmt::For(found) => found,
        _ => unreachable!("the site of a loop"),
    }
}

/// The loop with this name.
pub(crate) fn find_loop(kernel: &Kernel, name: &str) -> Outcome<Site> {
    let mut way = Vec::new();
    let found = find_in(&kernel.body, &mut way, &|stmt| match stmt {
        Stmt::For(inner) => kernel.symbols[inner.variable].name == name,
        _ => false,
    });
    found.ok_or_else(|| {
        let names: Vec<&str> = loop_variables(&kernel.body)
            .iter()
            .map(|variable| kernel.symbols[*variable].name.as_str())
            .collect();
        Refusal::in_kernel(format!("there is no loop `{name}`; loops: {}", names.join(", ")))
    })
}

fn find_in(block: &[Stmt], way: &mut Vec<Descent>, wanted: &dyn Fn(&Stmt) -> bool) -> Option<Site> {
    for (index, stmt) in block.iter().enumerate() {
        if wanted(stmt) {
            return Some(Site { block: way.clone(), index });
        }
        for (position, inner) in stmt.blocks().enumerate() {
            way.push(Descent { stmt: index, block: position });
            if let Some(site) = find_in(inner, way, wanted) {
                return Some(site);
            }
            way.pop();
        }
    }
    None
}

/// The variables of all loops in a block, outermost first.
pub(crate) fn loop_variables(block: &[Stmt]) -> Vec<SymbolId> {
    let mut variables = Vec::new();
    walk(block, &mut |stmt| {
        if let Stmt::For(inner) = stmt {
            variables.push(inner.variable);
        }
    });
    variables
}

/// The buffer with this name.
pub(crate) fn find_buffer(kernel: &Kernel, name: &str) -> Outcome<BufferId> {
    let found = kernel.buffers.iter().find(|(_, buffer)| buffer.name == name);
    found.map(|(id, _)| id).ok_or_else(|| {
        let names: Vec<&str> = kernel.buffers.values().map(|buffer| buffer.name.as_str()).collect();
        Refusal::in_kernel(format!("there is no buffer `{name}`; buffers: {}", names.join(", ")))
    })
}

/// Fails unless `name` can become the name of a new loop.
pub(crate) fn check_new_symbol(kernel: &Kernel, name: &str) -> Outcome {
    let taken = kernel.symbols.values().any(|symbol| symbol.name == name);
    check_new_name(name, taken)
}

/// Fails unless `name` can become the name of a new buffer.
pub(crate) fn check_new_buffer(kernel: &Kernel, name: &str) -> Outcome {
    let taken = kernel.buffers.values().any(|buffer| buffer.name == name);
    check_new_name(name, taken)
}

fn check_new_name(name: &str, taken: bool) -> Outcome {
    match (is_name(name), taken) {
        (true, false) => Ok(()),
        (true, true) => Err(Refusal::in_kernel(format!("the name `{name}` is taken"))),
        (false, _) => Err(Refusal::in_kernel(format!("`{name}` cannot be a name"))),
    }
}

/// Fails unless the loop is still serial.
pub(crate) fn check_serial(kernel: &Kernel, found: &Loop) -> Outcome {
    if found.kind == LoopKind::Serial {
        return Ok(());
    }
    let name = &kernel.symbols[found.variable].name;
    let message = format!("the loop is already {:?}; mark loops last", found.kind).to_lowercase();
    Err(Refusal::at_loop(name, message))
}

/// Fails if the loop runs in vectors, alone or as part of a loop around it: then nothing may be put
/// into it.
pub(crate) fn check_not_vector(kernel: &Kernel, site: &Site) -> Outcome {
    let is_vector = |stmt: &Stmt| matches!(stmt, Stmt::For(l) if l.kind == LoopKind::Vector);
    let way = site.body();
    for (depth, descent) in way.iter().enumerate() {
        if is_vector(&block(kernel, &way[..depth])[descent.stmt]) {
            let name = &kernel.symbols[loop_at(kernel, site).variable].name;
            let message = "a vector loop holds no loops but unrolled ones";
            return Err(Refusal::at_loop(name, message));
        }
    }
    Ok(())
}

/// The range of every symbol, as far as what binds it says, wherever it is in scope. Conditions are
/// not looked at; for those see [`SymbolRanges::within`].
#[derive(Clone, Debug)]
pub(crate) struct SymbolRanges {
    /// Of loop variables too.
    inside: Ranges,
    /// Outside of all loops.
    outside: Ranges,
    /// Every loop without its body, outer ones before inner ones.
    loops: Vec<Loop>,
}

impl SymbolRanges {
    /// The ranges of a kernel's symbols; a loop's variable ranges over the loop's largest extent.
    pub(crate) fn of(kernel: &Kernel) -> SymbolRanges {
        let outside = Ranges::new(kernel);
        let mut inside = outside.clone();
        let mut loops = Vec::new();
        walk(&kernel.body, &mut |stmt| {
            if let Stmt::For(inner) = stmt {
                let largest = inside.bounds(&inner.extent).max;
                inside.set(inner.variable, Range::new(0, largest.saturating_sub(1)));
                let (variable, kind) = (inner.variable, inner.kind.clone());
                loops.push(Loop { variable, extent: inner.extent.clone(), kind, body: Vec::new() });
            }
        });
        SymbolRanges { inside, outside, loops }
    }

    pub(crate) fn get(&self, symbol: SymbolId) -> Range {
        self.inside.of(symbol)
    }

    /// The number of iterations of the loop that binds a variable.
    pub(crate) fn iterations(&self, variable: SymbolId) -> Option<&Expr> {
        let found = self.loops.iter().find(|found| found.variable == variable);
        found.map(|found| &found.extent)
    }

    pub(crate) fn bounds(&self, expr: &Expr) -> Range {
        self.inside.bounds(expr)
    }

    pub(crate) fn simplify(&self, expr: &Expr) -> Expr {
        expr.simplify(&|symbol| self.get(symbol))
    }

    pub(crate) fn less_equal(&self, a: &Expr, b: &Expr) -> bool {
        sym::proves_less_equal(a, b, &|symbol| self.get(symbol))
    }

    /// What is known in a place where the conditions hold and all of these symbols are in scope.
    pub(crate) fn within(&self, conditions: &[Condition], symbols: &[SymbolId]) -> Ranges {
        let mut needed: BTreeSet<SymbolId> = symbols.iter().copied().into_set();
        needed.extend(conditions.iter().flat_map(condition_symbols));
        for outer in self.loops.iter().rev() {
            // Loops come before those that use their variables, so one pass backwards finds all.
            if needed.contains(&outer.variable) {
                needed.extend(outer.extent.symbols());
            }
        }
        let mut ranges = self.outside.clone();
        self.loops.iter().filter(|l| needed.contains(&l.variable)).for_each(|l| ranges.enter(l));
        ranges.assume(conditions);
        ranges
    }
}

/// `conditions` around a block; just the block where there are none.
pub(crate) fn guarded(conditions: Vec<Condition>, block: Vec<Stmt>) -> Vec<Stmt> {
    if conditions.is_empty() {
        return block;
    }
    vec![Stmt::If { conditions, then: block, otherwise: Vec::new() }]
}

/// The symbols that occur in a condition.
pub(crate) fn condition_symbols(condition: &Condition) -> BTreeSet<SymbolId> {
    condition.left.symbols().into_iter().chain(condition.right.symbols()).collect()
}
