//! Definitions of contractions, reductions and elementwise nests.
//!
//! The order of each sum is fixed here; see `docs/lowering.md`, naive kernels.

use std::collections::BTreeMap;
use std::slice;

use base::Id;
use graph::{IterationSpace, Node, NodeId, Op, ValueId};
use loops::build::{constant, fold, if_then, less, reduce, store};
use loops::{Access, Condition, ScalarExpr, substitute};
use rustc_hash::FxHashMap;
use strategies::{Nest, ProducerKind};
use sym::{Expr, SymbolId};
use tensor::{DType, Reduction, ScalarFunction};

use super::element::convert;
use super::index::{extents, reshape_index};
use super::partials::{self, Run};
use super::write::{Axes, Writer};
use crate::combination::{points, written_axes};
use crate::definitions::{result_index, shown_where};
use crate::extents::Extents;
use crate::groups::AnchorDomain;
use crate::iteration::Iteration;

/// What a contraction or reduction updates with, and how.
struct Update<'a> {
    space: &'a IterationSpace,
    operands: &'a [ValueId],
    reduction: Reduction,
    accumulator: DType,
}

impl Update<'_> {
    /// What a result is before anything is combined with it.
    fn identity(&self) -> ScalarExpr {
        let reduction = match base::fault::is_seeded("lower.identity") {
            true => Reduction::Sum,
            false => self.reduction,
        };
        constant(reduction.identity(self.accumulator))
    }
}

impl Writer<'_> {
    /// `acc[p] = 0`, then `acc[p] += lhs[..] * rhs[..]` over the reduced axes.
    pub(crate) fn contraction(&mut self, node: NodeId, space: &IterationSpace, accumulator: DType) {
        self.sum(node, space, Reduction::Sum, accumulator, ProducerKind::Contraction);
    }

    /// `acc[p] = identity`, then `acc[p] = reduction(acc[p], operand[..])`.
    pub(crate) fn reduction(
        &mut self,
        node: NodeId,
        space: &IterationSpace,
        reduction: Reduction,
        accumulator: DType,
    ) {
        self.sum(node, space, reduction, accumulator, ProducerKind::Reduction);
    }

    /// Reduces in the order of the space, or with interleaved partials along a run of elements that
    /// lie behind each other in all operands.
    fn sum(
        &mut self,
        node: NodeId,
        space: &IterationSpace,
        reduction: Reduction,
        accumulator: DType,
        kind: ProducerKind,
    ) {
        let data = &self.function.nodes[node];
        let (operands, result) = (&data.operands, data.results[0]);
        let update = Update { space, operands, reduction, accumulator };
        let nests = match partials::run(self.function, node, &Extents::of(self.function)) {
            Some(run) => self.interleaved(&update, result, &run),
            None => self.sequential(&update, result),
        };
        self.producer(self.internals[&result], kind, nests);
    }

    /// Initialises and updates in the order of the space.
    fn sequential(&mut self, update: &Update<'_>, result: ValueId) -> Vec<Nest> {
        let (parallel, reduced) = update.space.extents.split_at(update.space.parallel);
        let first = self.axes("a", parallel);
        let acc = self.scratch("acc", update.accumulator, first.extents());
        self.internals.insert(result, acc);
        self.nest(&first.loops, vec![store(acc, first.variables(), update.identity())]);

        let rows = self.axes("a", parallel);
        let depth = self.axes("r", reduced);
        let value = self.term(update, &[&rows.index[..], &depth.index].concat());
        let statement = reduce(acc, rows.variables(), update.reduction, value);
        self.nest(&rows.around(&depth.loops), vec![statement]);
        let reduced = self.names(&depth.loops);
        let update = Nest { parallel: self.names(&rows.loops), reduced, lanes: None };
        vec![self.plain_nest(&first), update]
    }

    /// `partial[p, r mod count]` collects every `count`th element along a run; a fixed tree
    /// combines them.
    fn interleaved(&mut self, update: &Update<'_>, result: ValueId, run: &Run) -> Vec<Nest> {
        let count = run.partials;
        let extents = &update.space.extents;
        let parallel = &extents[..update.space.parallel];
        let first = self.axes("a", parallel);
        let shape = [first.extents(), vec![count.into()]].concat();
        let partial = self.scratch("partial", update.accumulator, shape);
        let identity = update.identity();
        let lane = self.variable("l", &count.into());
        let place = [first.variables(), vec![lane.into()]].concat();
        self.nest(&first.around(&[(lane, count.into())]), vec![store(partial, place, identity)]);
        let initialise = Nest { lanes: self.lane_name(lane), ..self.plain_nest(&first) };

        let rows = self.axes("a", parallel);
        let mut depth = self.axes("r", &extents[update.space.parallel..run.axes.start]);
        let extent = &run.extent;
        let chunks = extent.ceil_div(&count.into());
        let chunk = self.axes("r", &[chunks]);
        let lane = self.variable("l", &count.into());
        let position = chunk.index[0].clone() * count + &Expr::symbol(lane);
        depth.loops.extend(chunk.loops);
        let value = self.along_run(update, run, lane, &position, [&rows, &depth]);
        let place = [rows.variables(), vec![lane.into()]].concat();
        let mut statements = vec![reduce(partial, place, update.reduction, value)];
        if !extent.divisible_by(count) {
            let inside = self.with_lets(statements);
            statements = vec![if_then(vec![less(position, extent.clone())], inside)];
        }
        let lanes = [(lane, count.into())];
        let inner = depth.loops.iter().cloned().chain(lanes).collect::<Vec<_>>();
        self.nest(&rows.around(&inner), statements);
        let reduced = self.names(&depth.loops);
        let lanes = self.lane_name(lane);
        let update_nest = Nest { parallel: self.names(&rows.loops), reduced, lanes };

        let last = self.axes("a", parallel);
        let acc = self.scratch("acc", update.accumulator, last.extents());
        self.internals.insert(result, acc);
        let folded = fold(update.reduction, partial, last.variables());
        self.nest(&last.loops, vec![store(acc, last.variables(), folded)]);
        vec![initialise, update_nest, self.plain_nest(&last)]
    }

    /// What the element at a position of a run adds, with the shared values in front of it. While
    /// it is written the lane's variable stands for the position, of which quotients and remainders
    /// are then put together again as of any one variable.
    fn along_run(
        &mut self,
        update: &Update<'_>,
        run: &Run,
        lane: SymbolId,
        position: &Expr,
        [rows, outside]: [&Axes; 2],
    ) -> ScalarExpr {
        let to = &update.space.extents[run.axes.clone()];
        let is_one = to.iter().filter(|extent| !extent.is_one()).count() < 2;
        let (place, within) = match is_one {
            true => (position.clone(), self.range(lane)),
            false => (Expr::symbol(lane), self.range_within(&run.extent)),
        };
        let lanes = self.set_range(lane, within);
        let from = slice::from_ref(&run.extent);
        let ranges = |symbol| self.range(symbol);
        let mut index = outside.index[..run.axes.start - update.space.parallel].to_vec();
        index.extend(reshape_index(from, to, &[place], &ranges));
        index.resize(update.space.extents.len() - update.space.parallel, Expr::ZERO);
        let mut value = self.term(update, &[&rows.index[..], &index].concat());
        if !is_one {
            let positions = BTreeMap::from([(lane, position.clone())]);
            substitute::substitute_value(&mut value, &positions);
            self.substitute_in_lets(&positions);
        }
        self.set_range(lane, lanes);
        value
    }

    /// `state[p] = start[p]`, then `state[p] = turn(state[p])`, the turns inside of all axes but
    /// the innermost.
    pub(crate) fn iteration(&mut self, node: NodeId) {
        let data = &self.function.nodes[node];
        let (start, result) = (data.operands[0], data.results[0]);
        let Some(iteration) = Iteration::of(self.function, node) else {
            panic!("{node}: a loop over more than single elements is a step");
        };
        let (shape, dtype) = (extents(self.function, result), self.dtype(result));
        let first = self.axes("a", shape);
        let state = self.scratch("state", dtype, first.extents());
        let element = self.element(start, first.index.clone());
        self.nest(&first.loops, vec![store(state, first.variables(), element)]);

        let axes = self.axes("a", shape);
        let lost = i64::from(base::fault::is_seeded("lower.turns"));
        let turns = self.axes("r", &[(iteration.turns - lost).into()]);
        let number = loops::build::index(&turns.index[0]);
        let number = FxHashMap::from_iter([(Vec::new(), number)]);
        self.known.insert(iteration.turn, number);
        self.internals.insert(iteration.before, state);
        let element = self.element(iteration.behind, axes.index.clone());
        self.internals.remove(&iteration.before);
        let mut around = axes.loops.clone();
        let inside = around.len().saturating_sub(1);
        around.splice(inside..inside, turns.loops.clone());
        self.nest(&around, vec![store(state, axes.variables(), element)]);
        self.internals.insert(result, state);
        let (parallel, reduced) = (self.names(&axes.loops), self.names(&turns.loops));
        let update = Nest { parallel, reduced, lanes: None };
        self.producer(state, ProducerKind::Iteration, vec![self.plain_nest(&first), update]);
    }

    /// What one point of the space adds: the operand, or the product of both.
    fn term(&mut self, update: &Update<'_>, axes: &[Expr]) -> ScalarExpr {
        let mut factors = Vec::new();
        for (&operand, index) in update.operands.iter().zip(&update.space.operands) {
            let at = |expr: &Expr| expr.substitute(&mut |axis| Some(axes[axis.index()].clone()));
            let value = self.element(operand, index.iter().map(at).collect());
            factors.push(convert(value, self.dtype(operand), update.accumulator));
        }
        match <[ScalarExpr; 1]>::try_from(factors) {
            Ok([only]) => self.rounded_apart(update, only),
            Err(factors) => self.kernel.apply(ScalarFunction::Mul, factors),
        }
    }

    /// What a sum adds that is no product of its own. A product that another node computes is
    /// rounded before it is added, whether it is stored or computed here. Scales of what a
    /// contraction sums are its own: as parts of a sum they always meet it here.
    fn rounded_apart(&mut self, update: &Update<'_>, value: ScalarExpr) -> ScalarExpr {
        let dtype = update.accumulator;
        let is_rounded = update.reduction == Reduction::Sum && dtype.is_float();
        match is_rounded && value.is_product() && !self.scales_sum(update.operands[0]) {
            true => self.share("product", value, dtype),
            false => value,
        }
    }

    /// Whether a value is the sum of a contraction times something.
    fn scales_sum(&self, value: ValueId) -> bool {
        let function = self.function;
        let behind = |mut value: ValueId| loop {
            match function.producer(value).map(|(node, _)| &function.nodes[node]) {
                Some(Node { op: Op::Contract { .. }, .. }) => return true,
                Some(Node { op: Op::Reshape { .. } | Op::Transpose { .. }, operands, .. }) => {
                    value = operands[0];
                }
                Some(Node { op: Op::Map { function, .. }, operands, .. })
                    if *function == ScalarFunction::Cast =>
                {
                    value = operands[0];
                }
                _ => return false,
            }
        };
        let node = function.producer(value).map(|(node, _)| &function.nodes[node]);
        node.is_some_and(|node| node.operands.iter().any(|&operand| behind(operand)))
    }

    /// One nest that computes every element of a node's result, or converts a sum in this kernel to
    /// the result's type, where it is to be stored. With a `domain` the nest runs over the axes of
    /// a value in this kernel whose elements correspond one to one.
    pub(crate) fn pointwise(&mut self, node: NodeId, domain: Option<&AnchorDomain>) {
        let function = self.function;
        let result = function.nodes[node].results[0];
        let anchor = domain.map_or(result, |domain| domain.anchor);
        let mut extents = extents(function, anchor).to_vec();
        let inlined = |value: ValueId| !self.grouping.is_stored(value);
        let written = written_axes(function, node, domain, &inlined);
        let mut counts = vec![1; extents.len()];
        for axis in (0..extents.len()).filter(|&axis| written[axis]) {
            let extent = std::mem::replace(&mut extents[axis], Expr::ONE);
            counts[axis] = extent.as_constant().expect("extents that are written out are constant");
        }
        let axes = self.axes("a", &extents);
        let dtype = self.dtype(result);
        let sum = self.internals.remove(&result);
        if !self.grouping.is_stored(result) {
            let shape = super::index::extents(function, result);
            let shape = shape.iter().filter(|extent| !extent.is_one()).cloned().collect();
            let buffer = self.scratch("row", dtype, shape);
            self.internals.insert(result, buffer);
        }
        let mut statements = Vec::new();
        let mut stored = None;
        self.written_out = counts.iter().any(|&count| count > 1);
        for point in points(&counts) {
            let at = |axis: usize| match written[axis] {
                true => Expr::constant(point[axis]),
                false => axes.index[axis].clone(),
            };
            let index: Vec<Expr> = (0..extents.len()).map(at).collect();
            let (index, conditions) = self.along_path(anchor, index, domain);
            let value = match sum {
                Some(sum) => {
                    let kept = self.kernel.buffers[sum].dtype;
                    convert(loops::build::load(sum, axes.variables()), kept, dtype)
                }
                None if conditions.is_empty() => self.define(node, &index),
                None => {
                    self.guards += 1;
                    let value = self.define(node, &index);
                    self.guards -= 1;
                    value
                }
            };
            let placed = self.place(result, &index, Access::Write);
            let (buffer, place) = placed.expect("a producer's result has memory");
            stored = Some(buffer);
            let statement = store(buffer, place, value);
            statements.push(match conditions.is_empty() {
                true => statement,
                false => if_then(conditions, vec![statement]),
            });
        }
        self.written_out = false;
        self.nest(&axes.loops, statements);
        let nest = self.plain_nest(&axes);
        let buffer = stored.expect("a box has points");
        self.producer(buffer, ProducerKind::Pointwise, vec![nest]);
    }

    /// From an index of a domain's anchor to that of the result, and under which conditions there
    /// is such an element. What the anchor's element is gets computed in any case.
    fn along_path(
        &mut self,
        anchor: ValueId,
        mut index: Vec<Expr>,
        domain: Option<&AnchorDomain>,
    ) -> (Vec<Expr>, Vec<Condition>) {
        let function = self.function;
        let mut conditions = Vec::new();
        let Some(domain) = domain else { return (index, conditions) };
        let start = index.clone();
        for &(node, operand) in &domain.path {
            let ranges = |symbol| self.range(symbol);
            conditions.extend(shown_where(function, node, &index, &ranges));
            let next = result_index(function, node, operand, &index, &ranges);
            index = next.expect("the grouping has walked this path");
        }
        if !conditions.is_empty() {
            self.element(anchor, start);
        }
        (index, conditions)
    }

    /// A nest over the axes of a result alone.
    pub(crate) fn plain_nest(&self, axes: &Axes) -> Nest {
        Nest { parallel: self.names(&axes.loops), reduced: Vec::new(), lanes: None }
    }

    fn lane_name(&self, lane: SymbolId) -> Option<String> {
        Some(self.kernel.symbols[lane].name.clone())
    }
}
