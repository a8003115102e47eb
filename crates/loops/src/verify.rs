//! What must hold of every kernel, naive or scheduled.
//!
//! - Names are valid and unique; parameters are the buffers of scope `Parameter`, each once.
//! - Every symbol is bound once and used inside the block that binds it; index expressions use
//!   shape symbols, loop variables and i64 values with a range.
//! - Ranks and element types agree; functions and reductions accept the types they are given.
//! - Read parameters are not written to; parameters alone have strides.
//! - `Parallel` is the body's only statement; `Vector`, `Unroll` and `Instruction` have constant
//!   extents; a `Vector` body holds no loops but `Unroll` and `Instruction`.
//! - The iterations of such a loop do not all store to one element (what else they may not do to
//!   each other, the evaluator checks).
//! - Along axes of constant extent every access to a buffer provably lies within it, given the
//!   loops around it and the conditions in force. [`verify_bounds`] demands the same along axes of
//!   free extent. That need not be provable of a naive kernel: what it knows of its symbols does
//!   not say which of two extents is the smaller one, or how data are bounded.
//!
//! What is broken is shown in the kernel's listing, below the statement at fault.

use std::collections::BTreeSet;

use base::codes::VERIFIER_FAILED;
use base::text::Printer;
use base::{Diagnostic, IdSet, SecondaryMap};
use rustc_hash::FxHashSet;
use smallvec::SmallVec;
use sym::{Expr, Memo, Range, SymbolId};
use tensor::{DType, Reduction};

use crate::domain::Ranges;
use crate::kernel::{
    Access, BufferId, Condition, Kernel, Loop, LoopKind, ScalarExpr, Scope, Stmt, SymbolKind,
};
use crate::parse::is_name;
use crate::print::{Remarks, print_with_remarks};
use crate::visit::{touched, walk};

/// Checks everything the head of this file lists.
///
/// # Errors
/// One diagnostic with the kernel's listing, in which each broken invariant stands below the
/// statement that breaks it.
pub fn verify(kernel: &Kernel) -> base::Result<()> {
    verify_along(kernel, Axes::Constant)
}

/// Checks the same, and that every access lies within its buffer along axes of free extent, too.
///
/// # Errors
/// As [`verify`].
pub fn verify_bounds(kernel: &Kernel) -> base::Result<()> {
    verify_along(kernel, Axes::All)
}

/// Axes along which accesses are to lie within their buffers.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Axes {
    Constant,
    All,
}

fn verify_along(kernel: &Kernel, axes: Axes) -> base::Result<()> {
    let mut verifier = Verifier {
        kernel,
        axes,
        remarks: Remarks::new(),
        statement: None,
        in_scope: SecondaryMap::new(),
        bound: IdSet::new(),
    };
    verifier.head();
    let ranges = Ranges::new(kernel);
    let mut number = 0;
    verifier.block(&kernel.body, &ranges, &mut number);
    report(kernel, verifier.remarks)
}

/// `Ok` if there are no remarks, else the diagnostic that shows them in the listing.
pub(crate) fn report(kernel: &Kernel, remarks: Remarks) -> base::Result<()> {
    if remarks.is_empty() {
        return Ok(());
    }
    let count: usize = remarks.values().map(Vec::len).sum();
    let mut printer = Printer::new();
    print_with_remarks(kernel, &mut printer, &remarks);
    let message = format!("kernel `{}` breaks {count} rule(s) of the loop IR", kernel.name);
    Err(Diagnostic::error(VERIFIER_FAILED, message)
        .at(format!("kernel `{}`", kernel.name))
        .because(printer.finish())
        .into())
}

struct Verifier<'a> {
    kernel: &'a Kernel,
    axes: Axes,
    remarks: Remarks,
    /// Number of the statement looked at, counted as the printer counts; `None` in the head.
    statement: Option<usize>,
    in_scope: SecondaryMap<SymbolId, bool>,
    /// Symbols bound so far.
    bound: IdSet<SymbolId>,
}

/// A place in the kernel: what is known there, and the bounds of the index expressions met in it,
/// none of those whose symbols cannot be used.
struct Place<'r> {
    ranges: &'r Ranges,
    bounds: Memo<Option<Range>>,
}

impl Place<'_> {
    fn of(ranges: &Ranges) -> Place<'_> {
        Place { ranges, bounds: Memo::new() }
    }
}

impl Verifier<'_> {
    #[cold]
    #[inline(never)]
    fn wrong(&mut self, message: impl Into<String>) {
        self.remarks.entry(self.statement).or_default().push(message.into());
    }

    fn head(&mut self) {
        let kernel = self.kernel;
        if !is_name(&kernel.name) {
            self.wrong(format!("`{}` cannot be a kernel's name", kernel.name));
        }
        self.names("symbol", kernel.symbols.values().map(|symbol| &symbol.name));
        self.names("buffer", kernel.buffers.values().map(|buffer| &buffer.name));
        for (id, symbol) in kernel.symbols.iter() {
            match &symbol.kind {
                SymbolKind::Shape { .. } => self.in_scope[id] = true,
                SymbolKind::Value { range: Some(_), dtype } if *dtype != DType::I64 => {
                    self.wrong(format!("`{}` has a range, but is no i64", symbol.name));
                }
                SymbolKind::Value { .. } | SymbolKind::Loop => {}
            }
        }
        let (_, written) = touched(&kernel.body);
        let mut listed = BTreeSet::new();
        for &id in &kernel.parameters {
            let scope = kernel.buffers.get(id).map(|buffer| buffer.scope);
            if !matches!(scope, Some(Scope::Parameter(_))) {
                self.wrong(format!("the parameter {} is no such buffer", kernel.buffer_name(id)));
            }
            if !listed.insert(id) {
                self.wrong(format!("the parameter {} is listed twice", kernel.buffer_name(id)));
            }
            let has_elements = |id| {
                let extents = kernel.buffers.get(id).map(|buffer| &buffer.shape);
                extents.is_some_and(|extents| !extents.iter().any(Expr::is_zero))
            };
            let is_result = scope == Some(Scope::Parameter(Access::Write)) && has_elements(id);
            if is_result && !written.contains(&id) {
                self.wrong(format!("nothing writes to {}", kernel.buffer_name(id)));
            }
        }
        for (id, _) in kernel.buffers.iter() {
            self.buffer(id, listed.contains(&id));
        }
    }

    fn names<'n>(&mut self, what: &str, names: impl Iterator<Item = &'n String>) {
        let mut seen = FxHashSet::default();
        for name in names {
            if !is_name(name) {
                self.wrong(format!("`{name}` cannot be the name of a {what}"));
            }
            if !seen.insert(name) {
                self.wrong(format!("two {what}s are called `{name}`"));
            }
        }
    }

    fn buffer(&mut self, id: BufferId, listed: bool) {
        let buffer = &self.kernel.buffers[id];
        let name = self.kernel.buffer_name(id);
        let is_parameter = matches!(buffer.scope, Scope::Parameter(_));
        if is_parameter && !listed {
            self.wrong(format!("{name} has the scope of a parameter, but is not listed as one"));
        }
        if buffer.dtype == DType::String {
            self.wrong(format!("{name} holds strings"));
        }
        if let Some(strides) = &buffer.strides {
            if !is_parameter {
                self.wrong(format!("{name} has strides, but is no parameter"));
            }
            if strides.len() != buffer.shape.len() {
                self.wrong(format!("{name} needs a stride for each axis"));
            }
        }
        for expr in buffer.shape.iter().chain(buffer.strides.iter().flatten()) {
            self.expression(expr);
        }
        if buffer.shape.iter().any(|extent| extent.as_constant().is_some_and(|e| e < 0)) {
            self.wrong(format!("{name} has a negative extent"));
        }
    }

    /// Checks a block; `number` is the number of its first statement and then of the one behind it.
    fn block(&mut self, block: &[Stmt], ranges: &Ranges, number: &mut usize) {
        let mut bound_here = Vec::new();
        let mut place = Place::of(ranges);
        for stmt in block {
            self.statement = Some(*number);
            *number += 1;
            self.statement(stmt, &mut place, number);
            if let Stmt::Let { symbol, .. } = stmt {
                self.in_scope[*symbol] = true;
                bound_here.push(*symbol);
            }
        }
        bound_here.into_iter().for_each(|symbol| self.in_scope[symbol] = false);
    }

    fn statement(&mut self, stmt: &Stmt, place: &mut Place<'_>, number: &mut usize) {
        let ranges = place.ranges;
        match stmt {
            Stmt::For(inner) => self.for_loop(inner, ranges, number),
            Stmt::Let { symbol, value } => {
                let dtype = self.value(value, place);
                match self.kernel.symbols.get(*symbol).map(|symbol| &symbol.kind) {
                    Some(SymbolKind::Value { dtype: declared, .. }) => {
                        self.same_type(dtype, *declared, "the value");
                    }
                    _ => self.wrong("`let` binds something that is no value symbol"),
                }
                self.bind(*symbol);
            }
            Stmt::Store { buffer, index, value } => {
                let dtype = self.value(value, place);
                self.destination(*buffer, index, dtype, place, None);
            }
            Stmt::Reduce { buffer, index, reduction, value } => {
                let dtype = self.value(value, place);
                self.destination(*buffer, index, dtype, place, Some(*reduction));
            }
            Stmt::Prefetch { buffer, index } => self.prefetch(*buffer, index),
            Stmt::If { conditions, then, otherwise } => {
                self.conditions(conditions);
                let mut inside = ranges.clone();
                inside.assume(conditions);
                self.block(then, &inside, number);
                let mut inside = ranges.clone();
                if let [only] = &conditions[..] {
                    inside.assume(&[only.negated()]);
                }
                self.block(otherwise, &inside, number);
            }
            Stmt::While { setup, condition, body } => {
                self.while_loop(setup, condition, body, place, number)
            }
        }
    }

    fn while_loop(
        &mut self,
        setup: &[Stmt],
        condition: &ScalarExpr,
        body: &[Stmt],
        place: &mut Place<'_>,
        number: &mut usize,
    ) {
        let own = self.statement;
        self.block(setup, place.ranges, number);
        self.statement = own;
        let dtype = self.value(condition, place);
        self.same_type(dtype, DType::Bool, "the condition");
        self.block(body, place.ranges, number);
    }

    fn for_loop(&mut self, inner: &Loop, ranges: &Ranges, number: &mut usize) {
        self.expression(&inner.extent);
        let is_loop_symbol = self
            .kernel
            .symbols
            .get(inner.variable)
            .is_some_and(|symbol| symbol.kind == SymbolKind::Loop);
        if !is_loop_symbol {
            self.wrong("`for` binds something that is no loop variable");
        }
        self.bind(inner.variable);
        self.loop_kind(inner);
        let mut inside = ranges.clone();
        inside.enter(inner);
        self.in_scope[inner.variable] = true;
        self.block(&inner.body, &inside, number);
        self.in_scope[inner.variable] = false;
    }

    fn loop_kind(&mut self, inner: &Loop) {
        match &inner.kind {
            LoopKind::Serial => {}
            LoopKind::Parallel => {
                let is_this = |only: &Loop| std::ptr::eq(only, inner);
                let alone = matches!(&self.kernel.body[..], [Stmt::For(only)] if is_this(only));
                if !alone {
                    self.wrong("a parallel loop is the only statement of the kernel's body");
                }
            }
            LoopKind::Vector | LoopKind::Unroll | LoopKind::Instruction(_) => {
                if inner.extent.as_constant().is_none() {
                    self.wrong("the extent of such a loop is a constant");
                }
                if matches!(&inner.kind, LoopKind::Instruction(name) if !is_name(name)) {
                    self.wrong("an instruction cannot be called so");
                }
            }
        }
        let many = inner.extent.as_constant() != Some(1);
        if many && matches!(inner.kind, LoopKind::Parallel | LoopKind::Vector) {
            let mut moving = IdSet::new();
            moving.insert(inner.variable);
            if let Some(buffer) = self.shared_store(inner, &inner.body, &mut moving) {
                let name = self.kernel.buffer_name(buffer);
                self.wrong(format!("all iterations of this loop store to one element of {name}"));
            }
        }
        if inner.kind == LoopKind::Vector {
            let mut inner_loops = false;
            walk(&inner.body, &mut |stmt| {
                inner_loops |= match stmt {
                    Stmt::For(inner) => !inner.kind.is_written_out(),
                    Stmt::While { .. } => true,
                    _ => false,
                };
            });
            if inner_loops {
                self.wrong("a vector loop holds no loop but `unroll`");
            }
        }
    }

    /// A buffer of which every iteration of a loop stores to the same element. `moving` are the
    /// symbols that may differ from iteration to iteration.
    fn shared_store(
        &self,
        inner: &Loop,
        block: &[Stmt],
        moving: &mut IdSet<SymbolId>,
    ) -> Option<BufferId> {
        let moves = |moving: &IdSet<SymbolId>, expr: &Expr| {
            expr.any_symbol(&mut |symbol| moving.contains(symbol))
        };
        for stmt in block {
            match stmt {
                Stmt::Store { buffer, index, .. } | Stmt::Reduce { buffer, index, .. } => {
                    let scope = self.kernel.buffers.get(*buffer)?.scope;
                    // Scratch memory and registers belong to one parallel iteration.
                    let shared =
                        inner.kind == LoopKind::Vector || matches!(scope, Scope::Parameter(_));
                    if shared && !index.iter().any(|expr| moves(moving, expr)) {
                        return Some(*buffer);
                    }
                }
                Stmt::Let { symbol, .. } => {
                    moving.insert(*symbol);
                }
                // Only some iterations get there.
                Stmt::If { conditions, .. }
                    if conditions
                        .iter()
                        .any(|each| moves(moving, &each.left) || moves(moving, &each.right)) => {}
                Stmt::Prefetch { .. } => {}
                Stmt::For(_) | Stmt::If { .. } | Stmt::While { .. } => {
                    for block in stmt.blocks() {
                        if let Some(found) = self.shared_store(inner, block, moving) {
                            return Some(found);
                        }
                    }
                }
            }
        }
        None
    }

    fn bind(&mut self, symbol: SymbolId) {
        if !self.bound.insert(symbol) {
            self.wrong(format!("`{}` is bound twice", self.kernel.symbol_name(symbol)));
        }
    }

    /// A store's or reduction's destination, and the type of what goes there.
    fn destination(
        &mut self,
        buffer: BufferId,
        index: &[Expr],
        dtype: Option<DType>,
        place: &mut Place<'_>,
        reduction: Option<Reduction>,
    ) {
        let Some(data) = self.kernel.buffers.get(buffer) else {
            return self.wrong(format!("there is no buffer {buffer}"));
        };
        if data.scope == Scope::Parameter(Access::Read) {
            self.wrong(format!("{} is only read", self.kernel.buffer_name(buffer)));
        }
        self.same_type(dtype, data.dtype, "the value");
        if let Some(reduction) = reduction.filter(|reduction| !reduction.accepts(data.dtype)) {
            self.wrong(format!("`{reduction}` does not combine {}", data.dtype));
        }
        self.access(buffer, index, &data.shape, place);
    }

    /// What is asked for may lie outside of the buffer.
    fn prefetch(&mut self, buffer: BufferId, index: &[Expr]) {
        let Some(data) = self.kernel.buffers.get(buffer) else {
            return self.wrong(format!("there is no buffer {buffer}"));
        };
        let name = self.kernel.buffer_name(buffer);
        if !matches!(data.scope, Scope::Parameter(_)) {
            self.wrong(format!("{name} is no parameter"));
        }
        if index.len() != data.shape.len() {
            let (given, wanted) = (index.len(), data.shape.len());
            self.wrong(format!("{name} takes {wanted} index(es) here, not {given}"));
        }
        index.iter().for_each(|expr| _ = self.expression(expr));
    }

    fn same_type(&mut self, found: Option<DType>, wanted: DType, what: &str) {
        if let Some(found) = found.filter(|found| *found != wanted) {
            self.wrong(format!("{what} is of type {found}, not {wanted}"));
        }
    }

    /// An access to the first `shape.len()` axes of a buffer.
    fn access(&mut self, buffer: BufferId, index: &[Expr], shape: &[Expr], place: &mut Place<'_>) {
        let (kernel, ranges) = (self.kernel, place.ranges);
        if index.len() != shape.len() {
            let (name, given, wanted) = (kernel.buffer_name(buffer), index.len(), shape.len());
            return self.wrong(format!("{name} takes {wanted} index(es) here, not {given}"));
        }
        for (axis, (expr, extent)) in index.iter().zip(shape).enumerate() {
            if !self.is_within(expr, extent, place)
                && self.expression(expr)
                && (self.axes == Axes::All || extent.as_constant().is_some())
                && !ranges.prove_within(expr, extent)
            {
                let (name, bounds) = (kernel.buffer_name(buffer), ranges.bounds(expr));
                let expr = kernel.expression(expr);
                self.wrong(format!(
                    "{name}: the index {expr} along axis {axis} may leave 0..{}; it is known to \
                     lie in {bounds}",
                    kernel.expression(extent)
                ));
            }
        }
    }

    /// Whether the ranges of an index expression's symbols, which may all be used, keep it within
    /// a constant extent. What is in scope in a place stays so to its end.
    fn is_within(&self, expr: &Expr, extent: &Expr, place: &mut Place<'_>) -> bool {
        let ranges = place.ranges;
        let bounds = match expr.as_constant() {
            Some(_) => Some(Range::constant(0)),
            None => *place
                .bounds
                .of(expr, |terms| self.can_use_all(terms).then(|| ranges.bounds(terms))),
        };
        let of_extent = extent.as_constant().map(Range::extent);
        let bounds = bounds.map(|bounds| bounds.plus(Range::constant(expr.constant_part())));
        of_extent.zip(bounds).is_some_and(|(extent, bounds)| extent.includes(bounds))
    }

    fn can_use_all(&self, expr: &Expr) -> bool {
        !expr.any_symbol(&mut |symbol| !self.is_usable(symbol) || !self.in_scope[symbol])
    }

    /// Whether all symbols of an index expression are in scope and may stand in one.
    fn expression(&mut self, expr: &Expr) -> bool {
        if self.can_use_all(expr) {
            return true;
        }
        for symbol in expr.symbols() {
            let name = self.kernel.symbol_name(symbol);
            if !self.is_usable(symbol) {
                self.wrong(format!("`{name}` cannot stand in an index expression"));
            } else if !self.in_scope[symbol] {
                self.wrong(format!("`{name}` is used outside of the block that binds it"));
            }
        }
        false
    }

    /// Whether a symbol may stand in an index expression.
    fn is_usable(&self, symbol: SymbolId) -> bool {
        match self.kernel.symbols.get(symbol).map(|symbol| &symbol.kind) {
            Some(SymbolKind::Loop | SymbolKind::Shape { .. }) => true,
            Some(SymbolKind::Value { range, .. }) => range.is_some(),
            None => false,
        }
    }

    fn conditions(&mut self, conditions: &[Condition]) {
        if conditions.is_empty() {
            self.wrong("there is no condition");
        }
        for condition in conditions {
            self.expression(&condition.left);
            self.expression(&condition.right);
        }
    }

    /// Checks a value and returns its type, where it has one.
    fn value(&mut self, value: &ScalarExpr, place: &mut Place<'_>) -> Option<DType> {
        match value {
            ScalarExpr::Constant(_) => {}
            ScalarExpr::Symbol(symbol) => {
                if value.dtype(self.kernel).is_none() {
                    let name = self.kernel.symbol_name(*symbol);
                    self.wrong(format!("`{name}` is no value; as an i64 it is `index({name})`"));
                } else if !self.in_scope[*symbol] {
                    let name = self.kernel.symbol_name(*symbol);
                    self.wrong(format!("`{name}` is used outside of the block that binds it"));
                }
            }
            ScalarExpr::Index(expr) => {
                self.expression(expr);
            }
            ScalarExpr::Load { buffer, index } => match self.kernel.buffers.get(*buffer) {
                Some(data) => self.access(*buffer, index, &data.shape, place),
                None => self.wrong(format!("there is no buffer {buffer}")),
            },
            ScalarExpr::Fold { reduction, buffer, index } => {
                self.fold(*reduction, *buffer, index, place);
            }
            ScalarExpr::Apply { function, dtype, arguments } => {
                let mut operands: SmallVec<[DType; 4]> = SmallVec::new();
                for argument in arguments {
                    operands.extend(self.value(argument, place));
                }
                if operands.len() == arguments.len()
                    && let Err(message) = function.result_dtype(&operands, Some(*dtype))
                {
                    self.wrong(message);
                }
            }
            ScalarExpr::Guard { conditions, value, otherwise } => {
                return self.guard(conditions, value, otherwise, place.ranges);
            }
        }
        value.dtype(self.kernel)
    }

    fn guard(
        &mut self,
        conditions: &[Condition],
        value: &ScalarExpr,
        otherwise: &ScalarExpr,
        ranges: &Ranges,
    ) -> Option<DType> {
        self.conditions(conditions);
        let mut inside = ranges.clone();
        inside.assume(conditions);
        let dtype = self.value(value, &mut Place::of(&inside));
        let mut inside = ranges.clone();
        if let [only] = conditions {
            inside.assume(&[only.negated()]);
        }
        let other = self.value(otherwise, &mut Place::of(&inside));
        if let (Some(dtype), Some(other)) = (dtype, other)
            && dtype != other
        {
            self.wrong(format!("a guard chooses between {dtype} and {other}"));
        }
        dtype
    }

    fn fold(
        &mut self,
        reduction: Reduction,
        buffer: BufferId,
        index: &[Expr],
        place: &mut Place<'_>,
    ) {
        let Some(data) = self.kernel.buffers.get(buffer) else {
            return self.wrong(format!("there is no buffer {buffer}"));
        };
        let Some((last, outer)) = data.shape.split_last() else {
            let name = self.kernel.buffer_name(buffer);
            return self.wrong(format!("{name} has no axis to fold"));
        };
        if !last.as_constant().is_some_and(|n| n > 0 && n & (n - 1) == 0) {
            let name = self.kernel.buffer_name(buffer);
            self.wrong(format!("the last axis of {name} is no constant power of two"));
        }
        if !reduction.accepts(data.dtype) {
            self.wrong(format!("`{reduction}` does not combine {}", data.dtype));
        }
        self.access(buffer, index, outer, place);
    }
}
