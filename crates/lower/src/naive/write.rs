//! The kernel under construction: loops, parameters, internal buffers, shared values.
//!
//! Axes of extent 1 have no loop and no axis in buffers. A parameter is an array as this kernel
//! reads or writes it: where an index would take a row-major position apart only for the buffer to
//! put it together again, the buffer is seen under the merged shape, so that reshapes cost nothing.
//! Hence one value may stand behind two parameters.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::rc::Rc;

use base::{Id, SecondaryMap};
use graph::{Function, NodeId, Op, Users, ValueId};
use loops::build::{for_loop, let_value};
use loops::{
    Access, Buffer, BufferId, Kernel, KernelSymbol, LoopKind, ScalarExpr, Scope, Stmt, SymbolKind,
    substitute,
};
use rustc_hash::FxHashMap;
use sym::{Expr, Range, SymbolId, Term};
use tensor::DType;

use super::index::{extents, strides};
use crate::combination::{Combination, Expansion};
use crate::groups::{Grouping, View};
use strategies::{Naive, Nest, Producer, ProducerKind};

/// A kernel being written.
pub(crate) struct Writer<'a> {
    pub(crate) function: &'a Function,
    pub(crate) grouping: &'a Grouping,
    pub(crate) users: &'a Users,
    pub(crate) kernel: Kernel,
    pub(crate) producers: Vec<Producer>,
    parameters: Vec<Parameter>,
    /// For values read without quotients, so under their own shape: the parameter, and which of
    /// their axes it has.
    whole: BTreeMap<ValueId, (BufferId, Vec<bool>)>,
    /// Values that live inside the kernel, with their buffers (without the axes of extent 1).
    pub(crate) internals: BTreeMap<ValueId, BufferId>,
    ranges: SecondaryMap<SymbolId, Range>,
    /// The `Let`s of the nest at hand, and what they hold.
    lets: Vec<Stmt>,
    pub(crate) known: FxHashMap<ValueId, FxHashMap<Vec<Expr>, ScalarExpr>>,
    /// Whether the nest at hand has a statement for each of several points, which may read the same
    /// elements.
    pub(crate) written_out: bool,
    /// The combinations met so far.
    expansions: FxHashMap<NodeId, Rc<Expansion<'a>>>,
    /// How many shared values have been given each name.
    names: BTreeMap<&'static str, usize>,
    /// How many guards surround the value at hand; inside of them nothing is shared.
    pub(crate) guards: usize,
}

struct Parameter {
    value: ValueId,
    shape: Vec<Expr>,
    strides: Vec<Expr>,
    buffer: BufferId,
}

/// Loops over some axes, and the index of the element at hand.
#[derive(Clone, Debug, Default)]
pub(crate) struct Axes {
    /// Variable and extent, outermost first.
    pub(crate) loops: Vec<(SymbolId, Expr)>,
    /// One expression an axis.
    pub(crate) index: Vec<Expr>,
}

impl Axes {
    /// These loops with others inside.
    pub(crate) fn around(&self, inner: &[(SymbolId, Expr)]) -> Vec<(SymbolId, Expr)> {
        [&self.loops[..], inner].concat()
    }

    /// The variables alone: the index into a buffer that has no axes of extent 1.
    pub(crate) fn variables(&self) -> Vec<Expr> {
        self.loops.iter().map(|(variable, _)| Expr::symbol(*variable)).collect()
    }

    /// The extents of the loops.
    pub(crate) fn extents(&self) -> Vec<Expr> {
        self.loops.iter().map(|(_, extent)| extent.clone()).collect()
    }
}

impl<'a> Writer<'a> {
    /// An empty kernel. Where extents of the function are free, its first symbols are those of the
    /// function, so that expressions over the latter may stand in it as they are.
    pub(crate) fn new(
        function: &'a Function,
        grouping: &'a Grouping,
        users: &'a Users,
        name: &str,
    ) -> Writer<'a> {
        let (mut kernel, mut ranges) = (Kernel::new(name), SecondaryMap::with_default(Range::ALL));
        for (id, symbol) in function.symbols.iter().filter(|_| grouping.free_extents) {
            let (position, usual) = (id.index() as u32, symbol.usual());
            let own = kernel.add_usual_shape(&symbol.name, position, symbol.range, usual);
            ranges.insert(own, symbol.range);
        }
        Writer {
            function,
            grouping,
            users,
            kernel,
            producers: Vec::new(),
            parameters: Vec::new(),
            whole: BTreeMap::new(),
            internals: BTreeMap::new(),
            ranges,
            lets: Vec::new(),
            known: FxHashMap::default(),
            written_out: false,
            expansions: FxHashMap::default(),
            names: BTreeMap::new(),
            guards: 0,
        }
    }

    /// The finished kernel, and the graph value behind each of its parameters.
    pub(crate) fn finish(mut self) -> (Naive, Vec<ValueId>) {
        let mut arguments: Vec<ValueId> =
            self.parameters.iter().map(|parameter| parameter.value).collect();
        let is_weight = |value: ValueId| {
            let view = self.grouping.view(value).filter(|view| view.offset.is_zero());
            let made = view.and_then(|view| self.function.producer(view.root));
            made.is_some_and(|(node, _)| matches!(self.function.nodes[node].op, Op::Weight { .. }))
        };
        let weights = self.parameters.iter().filter(|parameter| is_weight(parameter.value));
        let weights: Vec<BufferId> = weights.map(|parameter| parameter.buffer).collect();
        for (_, buffer) in super::joined::see_as_stored(&mut self.kernel, &weights) {
            let at = self.parameters.iter().position(|parameter| parameter.buffer == buffer);
            arguments.extend(at.map(|at| self.parameters[at].value));
        }
        (Naive { kernel: self.kernel, producers: self.producers, once: false }, arguments)
    }

    // --- loops ---

    /// New loops over axes of these extents, called `name0`, `name1`, ...
    pub(crate) fn axes(&mut self, name: &str, extents: &[Expr]) -> Axes {
        let mut axes = Axes::default();
        for extent in extents {
            if extent.is_one() {
                axes.index.push(Expr::ZERO);
                continue;
            }
            let variable = self.variable(&numbered(name, "", axes.loops.len()), extent);
            axes.loops.push((variable, extent.clone()));
            axes.index.push(Expr::symbol(variable));
        }
        axes
    }

    /// A new loop variable.
    pub(crate) fn variable(&mut self, name: &str, extent: &Expr) -> SymbolId {
        let variable = self.kernel.add_loop_variable(name);
        self.ranges.insert(variable, self.range_within(extent));
        variable
    }

    /// The values that an index within an extent can have.
    pub(super) fn range_within(&self, extent: &Expr) -> Range {
        Range::extent(extent.bounds(&|symbol| self.range(symbol)).max)
    }

    /// The values that a symbol can have.
    pub(crate) fn range(&self, symbol: SymbolId) -> Range {
        self.ranges[symbol]
    }

    /// Sets the values that a symbol can have; those that it could have.
    pub(super) fn set_range(&mut self, symbol: SymbolId, range: Range) -> Range {
        let before = self.range(symbol);
        self.ranges.insert(symbol, range);
        before
    }

    /// Replaces symbols in the shared values found so far, which are known as what they were no
    /// more.
    pub(super) fn substitute_in_lets(&mut self, replacements: &BTreeMap<SymbolId, Expr>) {
        substitute::substitute(&mut self.lets, replacements);
        self.known.clear();
    }

    /// The expression in its simplest form.
    pub(crate) fn simplify(&self, expr: &Expr) -> Expr {
        expr.simplify(&|symbol| self.range(symbol))
    }

    /// Puts the expression in its simplest form.
    pub(crate) fn simplify_in_place(&self, expr: &mut Expr) {
        let ranges = |symbol| self.range(symbol);
        if !expr.is_simple(&ranges) {
            *expr = expr.simplify(&ranges);
        }
    }

    /// A node as a combination to be written out, if it is one.
    pub(crate) fn expansion(&mut self, node: NodeId) -> Option<Rc<Expansion<'a>>> {
        if let Some(known) = self.expansions.get(&node) {
            return Some(known.clone());
        }
        let found = Rc::new(Expansion::of(Combination::of(self.function, node)?));
        self.expansions.insert(node, found.clone());
        Some(found)
    }

    /// Adds a nest to the body: the shared values of its statements, then the statements, inside
    /// serial loops.
    pub(crate) fn nest(&mut self, loops: &[(SymbolId, Expr)], statements: Vec<Stmt>) {
        let mut body = self.with_lets(statements);
        for (variable, extent) in loops.iter().rev() {
            body = vec![for_loop(*variable, extent, LoopKind::Serial, body)];
        }
        self.kernel.body.extend(body);
    }

    /// The shared values found so far, then the statements.
    pub(crate) fn with_lets(&mut self, statements: Vec<Stmt>) -> Vec<Stmt> {
        self.known.clear();
        let mut body = std::mem::take(&mut self.lets);
        body.extend(statements);
        super::tidy::inline_single_uses(&mut body, &self.kernel);
        super::bits::put_together(&mut body, &self.kernel);
        body
    }

    /// Names of loops, for a [`Nest`].
    pub(crate) fn names(&self, loops: &[(SymbolId, Expr)]) -> Vec<String> {
        loops.iter().map(|(variable, _)| self.kernel.symbols[*variable].name.clone()).collect()
    }

    /// Records the nests that define a buffer.
    pub(crate) fn producer(&mut self, buffer: BufferId, kind: ProducerKind, nests: Vec<Nest>) {
        let buffer = self.kernel.buffers[buffer].name.clone();
        self.producers.push(Producer { buffer, kind, nests });
    }

    // --- values ---

    /// Computes a value once for the statements of this nest.
    pub(crate) fn share(
        &mut self,
        name: &'static str,
        value: ScalarExpr,
        dtype: DType,
    ) -> ScalarExpr {
        let count = self.names.entry(name).or_insert(0);
        let name = match *count {
            0 => name.to_owned(),
            count => numbered(name, "_", count),
        };
        let kind = SymbolKind::Value { dtype, range: None };
        let symbol = self.kernel.symbols.push(KernelSymbol { name, kind });
        *count += 1;
        self.lets.push(let_value(symbol, value));
        ScalarExpr::Symbol(symbol)
    }

    /// An i64 as an index within an extent: running it with any other value is a fault.
    pub(crate) fn checked_index(&mut self, value: ScalarExpr, extent: &Expr) -> Expr {
        let Some(constant) = extent.as_constant() else {
            return self.free_index(value, extent);
        };
        let range = Range::extent(constant);
        match &value {
            ScalarExpr::Constant(scalar) if range.contains(scalar.as_i64()) => {
                return Expr::constant(scalar.as_i64());
            }
            ScalarExpr::Index(expr) if range.includes(expr.bounds(&|s| self.range(s))) => {
                return expr.clone();
            }
            _ => {}
        }
        let symbol = self.kernel.add_value("at", DType::I64, Some(range));
        self.ranges.insert(symbol, range);
        self.lets.push(let_value(symbol, value));
        Expr::symbol(symbol)
    }

    /// As [`Writer::checked_index`], within an extent that is free: the number of whole extents in
    /// which the value lies is checked to be none.
    fn free_index(&mut self, value: ScalarExpr, extent: &Expr) -> Expr {
        let range = self.range_within(extent);
        let at = self.kernel.add_value("at", DType::I64, Some(range));
        self.ranges.insert(at, range);
        self.lets.push(let_value(at, value));
        let over = (Expr::symbol(at) - extent).max(&Expr::constant(-1));
        let below = Range::new(-1, -1);
        let checked = self.kernel.add_value("below", DType::I64, Some(below));
        self.ranges.insert(checked, below);
        self.lets.push(let_value(checked, ScalarExpr::Index(over)));
        Expr::symbol(at)
    }

    // --- buffers ---

    /// Where the element of a value at `index` lies: a parameter's element, or one of an internal
    /// buffer's; none if the value has no memory here.
    pub(crate) fn place(
        &mut self,
        value: ValueId,
        index: &[Expr],
        access: Access,
    ) -> Option<(BufferId, Vec<Expr>)> {
        let index: Vec<Expr> = index.iter().map(|expr| self.simplify(expr)).collect();
        self.simple_place(value, &index, access)
    }

    /// As [`Writer::place`], at an index in simplest form.
    pub(crate) fn simple_place(
        &mut self,
        value: ValueId,
        index: &[Expr],
        access: Access,
    ) -> Option<(BufferId, Vec<Expr>)> {
        if let Some(&buffer) = self.internals.get(&value) {
            let shape = extents(self.function, value);
            let kept = index.iter().zip(shape).filter(|&(_, extent)| !extent.is_one());
            return Some((buffer, some_of(kept.map(|(expr, _)| expr), index.len())));
        }
        let grouping = self.grouping;
        let view = grouping.view(value)?;
        let is_whole = index.iter().all(|expr| expr.quotients() == 0);
        if let Some((buffer, kept)) = self.whole.get(&value).filter(|_| is_whole) {
            let shape = extents(self.function, value);
            let all = index.iter().zip(shape).zip(kept).filter(|(_, kept)| **kept);
            let within = all.map(|((expr, extent), _)| self.within(expr.clone(), extent));
            return Some((*buffer, within.collect()));
        }
        let shape = extents(self.function, value);
        let kept: Vec<bool> = shape.iter().map(|extent| !extent.is_one()).collect();
        let axes = self.merged_axes(shape, view, index);
        let shape: Vec<Expr> = axes.iter().map(|axis| axis.extent.clone()).collect();
        let strides: Vec<Expr> = axes.iter().map(|axis| axis.stride.clone()).collect();
        let index = axes.into_iter().map(|axis| self.within(axis.index, &axis.extent)).collect();
        let buffer = self.parameter(value, shape, strides, access);
        if is_whole {
            self.whole.insert(value, (buffer, kept));
        }
        Some((buffer, index))
    }

    /// An index of an axis. Where free extents decide it, nothing tells that it lies within a known
    /// extent but the checks of those extents; then it is brought there, where it lies already.
    fn within(&self, index: Expr, extent: &Expr) -> Expr {
        let Some(extent) = extent.as_constant().filter(|_| self.grouping.free_extents) else {
            return index;
        };
        match Range::extent(extent).includes(index.bounds(&|symbol| self.range(symbol))) {
            true => index,
            false => index.max(&Expr::ZERO).min(&Expr::constant(extent - 1)),
        }
    }

    fn parameter(
        &mut self,
        value: ValueId,
        shape: Vec<Expr>,
        strides: Vec<Expr>,
        access: Access,
    ) -> BufferId {
        let known = self.parameters.iter().find(|parameter| {
            (parameter.value, &parameter.shape, &parameter.strides) == (value, &shape, &strides)
        });
        if let Some(parameter) = known {
            return parameter.buffer;
        }
        let ty = self.function.ty(value).as_tensor();
        let dtype = ty.map_or(DType::U8, |ty| ty.dtype);
        let name = if access == Access::Read { "in" } else { "out" };
        let buffer = self.kernel.add_parameter(name, dtype, shape.clone(), access);
        if strides != self::strides(&shape) {
            self.kernel.buffers[buffer].strides = Some(strides.clone());
        }
        self.parameters.push(Parameter { value, shape, strides, buffer });
        buffer
    }

    fn merged_axes(&self, shape: &[Expr], view: &View, index: &[Expr]) -> Vec<Axis> {
        let mut axes: Vec<Axis> = Vec::new();
        for (axis, extent) in shape.iter().enumerate() {
            if extent.is_one() {
                continue;
            }
            let index = index[axis].clone();
            let (extent, stride) = (extent.clone(), view.strides[axis].clone());
            let mut inner = Axis { extent, stride, index };
            let mut is_merged = false;
            while let Some(merged) = axes.last().and_then(|outer| self.merge(outer, &inner)) {
                axes.pop();
                (inner, is_merged) = (merged, true);
            }
            while let Some((outer, rest)) = self.split(&inner).filter(|_| is_merged) {
                axes.push(outer);
                inner = rest;
            }
            axes.push(inner);
        }
        axes
    }

    /// An axis as two, if its index has two digits: accesses are told apart along each by itself.
    fn split(&self, axis: &Axis) -> Option<(Axis, Axis)> {
        let coefficients = axis.index.terms().iter().map(Term::coefficient);
        let radix = coefficients.filter(|radix| *radix > 1).max()?;
        let rows = axis.extent.as_constant().filter(|extent| extent % radix == 0)? / radix;
        let columns = Expr::constant(radix);
        let row = self.simplify(&axis.index.floor_div(&columns));
        let column = self.simplify(&axis.index.modulo(&columns));
        (row.quotients() + column.quotients() <= axis.index.quotients()).then(|| {
            let stride = axis.stride.clone() * &columns;
            let outer = Axis { extent: Expr::constant(rows), stride, index: row };
            (outer, Axis { extent: columns, stride: axis.stride.clone(), index: column })
        })
    }

    /// Two neighbouring axes as one, if the index gets simpler by that.
    fn merge(&self, outer: &Axis, inner: &Axis) -> Option<Axis> {
        let before = outer.index.quotients() + inner.index.quotients();
        if before == 0 || outer.stride != inner.stride.clone() * &inner.extent {
            return None;
        }
        let whole = self.simplify(&(outer.index.clone() * &inner.extent + &inner.index));
        (whole.quotients() < before).then(|| Axis {
            extent: outer.extent.clone() * &inner.extent,
            stride: inner.stride.clone(),
            index: whole,
        })
    }

    /// A new buffer inside the kernel.
    pub(crate) fn scratch(&mut self, name: &str, dtype: DType, shape: Vec<Expr>) -> BufferId {
        let name = self.kernel.fresh_buffer_name(name);
        let scope = Scope::Scratch;
        self.kernel.buffers.push(Buffer { name, dtype, shape, strides: None, scope })
    }
}

struct Axis {
    extent: Expr,
    stride: Expr,
    index: Expr,
}

/// Copies of expressions, of which there are so many at most.
fn some_of<'e>(exprs: impl Iterator<Item = &'e Expr>, most: usize) -> Vec<Expr> {
    let mut copies = Vec::with_capacity(most);
    copies.extend(exprs.cloned());
    copies
}

/// A name with a number behind it.
fn numbered(name: &str, between: &str, number: usize) -> String {
    let mut text = String::with_capacity(name.len() + 8);
    text.extend([name, between]);
    write!(text, "{number}").expect("a string takes all that is written");
    text
}
