//! Derivatives of contractions, reductions and running sums.
//!
//! All rest on one operation, [`Reverse::adjoint`]: of `result[p] = sum over r of a[A(p, r)] *
//! b[B(p, r)]` the cotangent of `a` is the sum of `g[p] * b[B(p, r)]` over the points where `A` has
//! the place of the element. Where `A` can be solved for an axis, that is a contraction again, over
//! a cotangent with gaps between its elements if the axis is stepped over (a convolution's gradient
//! is a convolution). Else the products are formed and scattered.

use base::InOrder;
use graph::{IterationSpace, Node, Op, TensorType, Type, ValueId};
use sym::Expr;
use tensor::{DType, Reduction, ScalarFunction as F};

use crate::regions::counter;
use crate::{Pulled, Reverse, gradients, inside};

/// A value and where a point of the space reads it.
#[derive(Clone)]
struct Read {
    value: ValueId,
    index: Vec<Expr>,
}

/// How the axes of an operand determine those of the space.
struct Solved {
    /// Axes of the space that are another way of saying an axis of the operand.
    same: Vec<Option<usize>>,
    /// Axes of the space that follow from an axis of the operand: that axis, and the factor.
    stepped: Vec<Option<(usize, i64)>>,
}

impl Reverse<'_> {
    pub(crate) fn contract(
        &mut self,
        space: &IterationSpace,
        accumulator: DType,
        operands: &[ValueId],
        g: ValueId,
    ) -> Pulled {
        let mut pulled = Vec::new();
        for own in 0..2 {
            if !self.is_active(operands[own]) {
                pulled.push(None);
                continue;
            }
            let dtype = self.dtype(operands[own])?;
            let other = self.builder.cast(operands[1 - own], dtype)?;
            let other = Read { value: other, index: space.operands[1 - own].clone() };
            let g = self.builder.cast(g, dtype)?;
            let shape = self.shape(operands[own])?;
            let index = &space.operands[own];
            pulled.push(Some(self.adjoint(space, index, &shape, g, Some(&other), accumulator)?));
        }
        Ok(pulled)
    }

    pub(crate) fn reduce(
        &mut self,
        space: &IterationSpace,
        reduction: Reduction,
        node: &Node,
        g: ValueId,
    ) -> Pulled {
        let operand = node.operands[0];
        let dtype = self.dtype(operand)?;
        let wide = self.dtype(g)?;
        let (shape, index) = (self.shape(operand)?, &space.operands[0]);
        if reduction == Reduction::Sum {
            let g = self.builder.cast(g, dtype)?;
            return Ok(vec![Some(self.adjoint(space, index, &shape, g, None, wide)?)]);
        }
        // Each point of the space on its own; then back to the elements that the points read.
        let points = IterationSpace { parallel: space.extents.len(), ..space.clone() };
        let value = self.builder.cast(operand, wide)?;
        let view = self.view(&points, index, &shape, value)?;
        let spread = |reverse: &mut Self, value: ValueId| {
            let axes: Vec<usize> = (0..space.parallel).collect();
            reverse.builder.broadcast(value, &space.extents, &axes)
        };
        let all = spread(self, g)?;
        let each = match reduction {
            Reduction::Min | Reduction::Max => {
                let best = spread(self, node.results[0])?;
                let is_best = self.apply(F::Eq, &[view, best])?;
                let one = self.builder.cast(is_best, wide)?;
                let reduced: Vec<usize> = (space.parallel..space.extents.len()).collect();
                let count = self.builder.reduce_axes(one, &reduced, Reduction::Sum, wide, false)?;
                let count = spread(self, count)?;
                let share = self.div(all, count)?;
                let zero = self.number(share, 0.0)?;
                self.apply(F::Select, &[is_best, share, zero])?
            }
            Reduction::Product => {
                let rest = self.products_of_others(space, view)?;
                self.mul(all, rest)?
            }
            Reduction::Sum | Reduction::And | Reduction::Or => {
                return Err(format!("a {reduction} has no derivative"));
            }
        };
        let each = self.builder.cast(each, dtype)?;
        Ok(vec![Some(self.adjoint(&points, index, &shape, each, None, wide)?)])
    }

    /// For each point the product of the others that are reduced with it, right for zeros, too.
    fn products_of_others(&mut self, space: &IterationSpace, view: ValueId) -> graph::Built {
        let (parallel, reduced) = space.extents.split_at(space.parallel);
        let flat = [parallel, &[reduced.iter().product()]].concat();
        let row = self.builder.reshape(view, &flat)?;
        let axis = space.parallel;
        let before = self.builder.cumulate(row, axis, Reduction::Product, true, false)?;
        let behind = self.builder.cumulate(row, axis, Reduction::Product, true, true)?;
        let rest = self.mul(before, behind)?;
        self.builder.reshape(rest, &space.extents)
    }

    pub(crate) fn cumulate(&mut self, op: &Op, operand: ValueId, g: ValueId) -> Pulled {
        let Op::Cumulate { axis, reduction, exclusive, reverse } = *op else {
            return Err(format!("`{}` is no running reduction", op.name()));
        };
        if reduction == Reduction::Sum {
            return Ok(vec![Some(self.builder.cumulate(g, axis, reduction, exclusive, !reverse)?)]);
        }
        // Any other one is a loop, and goes back through that.
        let first = self.builder.open_region_nodes().len();
        let shape = self.shape(operand)?;
        let mut order: Vec<usize> = (0..shape.len()).filter(|&other| other != axis).collect();
        order.insert(0, axis);
        let rows = self.builder.transpose(operand, &order)?;
        let row = TensorType { dtype: self.dtype(operand)?, shape: self.shape(rows)?[1..].into() };
        let start = self.builder.full(&row.shape, reduction.identity(row.dtype))?;
        let types = [counter(), Type::Tensor(row.clone()), Type::Tensor(row)];
        let parameters = self.builder.begin_region(&types);
        let next = self.apply(reduction.as_function(), &parameters[1..])?;
        let given = if exclusive { parameters[1] } else { next };
        let body = self.builder.end_region(&[next, given]);
        let op = Op::Scan { trip_count: shape[axis].clone(), carried: 1, reverse };
        let rows = self.builder.add_with_regions(op, &[start, rows], &[body])?[1];
        let mut back: Vec<usize> = (1..=axis).collect();
        back.push(0);
        back.extend(axis + 1..shape.len());
        let result = self.builder.transpose(rows, &back)?;
        let gradient = gradients(self.builder, first, result, g, &[operand]).map_err(inside)?;
        Ok(vec![Some(gradient[0])])
    }

    /// What each point of a space reads.
    fn view(
        &mut self,
        points: &IterationSpace,
        index: &[Expr],
        shape: &[Expr],
        value: ValueId,
    ) -> graph::Built {
        if let Some(axes) = plain(points, index, shape) {
            let mut order: Vec<usize> = (0..axes.len()).collect();
            order.put_in_order_by_key(|&axis| axes[axis]);
            let turned = self.builder.transpose(value, &order)?;
            let mut axes = axes;
            axes.sort_unstable();
            return self.builder.broadcast(turned, &points.extents, &axes);
        }
        let indices = self.places(&points.extents, index)?;
        let axes: Vec<usize> = (0..shape.len()).collect();
        if axes.is_empty() {
            return self.builder.broadcast(value, &points.extents, &[]);
        }
        self.builder.gather(value, &axes, &indices, 0, 0)
    }

    /// The index expressions at each point, as values.
    fn places(&mut self, extents: &[Expr], index: &[Expr]) -> graph::Built<Vec<ValueId>> {
        let mut places = Vec::new();
        for expr in index {
            let constant = self.builder.dimension(Expr::from(expr.constant_part()))?;
            let mut place = self.builder.broadcast(constant, extents, &[])?;
            for term in expr.terms() {
                let Some(axis) = term.as_symbol() else {
                    return Err("an index is not affine".to_owned());
                };
                let along = self.builder.iota(DType::I64, extents, base::Id::index(axis))?;
                let factor = self.builder.dimension(Expr::from(term.coefficient()))?;
                let factor = self.builder.broadcast(factor, extents, &[])?;
                let product = self.mul(along, factor)?;
                place = self.apply(F::Add, &[place, product])?;
            }
            places.push(place);
        }
        Ok(places)
    }

    /// The cotangent of an operand of this shape that the space reads at `index`; see above.
    fn adjoint(
        &mut self,
        space: &IterationSpace,
        index: &[Expr],
        shape: &[Expr],
        g: ValueId,
        other: Option<&Read>,
        accumulator: DType,
    ) -> graph::Built {
        if let Some(solved) = solve(space, index, shape, other) {
            return self.solved(space, index, shape, g, other, &solved, accumulator);
        }
        // The products over the axes that the operand is read along, scattered to their places.
        let is_used = |axis: usize| index.iter().any(|expr| expr.contains(symbol(axis)));
        let used: Vec<usize> = (0..space.extents.len()).filter(|&axis| is_used(axis)).collect();
        let extents: Vec<Expr> = used.iter().map(|&axis| space.extents[axis].clone()).collect();
        let rename = |expr: &Expr| {
            expr.substitute(&mut |id| {
                let own = used.iter().position(|&axis| symbol(axis) == id);
                own.map(IterationSpace::axis)
            })
        };
        let view: Vec<Expr> = used.iter().map(|&axis| IterationSpace::axis(axis)).collect();
        let Some(solved) = solve(space, &view, &extents, None) else {
            return Err("an index cannot be solved".to_owned());
        };
        let each = self.solved(space, &view, &extents, g, other, &solved, accumulator)?;
        let index: Vec<Expr> = index.iter().map(rename).collect();
        let places = self.places(&extents, &index)?;
        let dtype = self.dtype(each)?;
        let zeros = self.zeros(dtype, shape)?;
        let axes: Vec<usize> = (0..shape.len()).collect();
        self.builder.scatter(zeros, each, &axes, &places, 0, 0, Some(Reduction::Sum))
    }

    #[expect(clippy::too_many_arguments, reason = "the parts of one sum")]
    fn solved(
        &mut self,
        space: &IterationSpace,
        index: &[Expr],
        shape: &[Expr],
        g: ValueId,
        other: Option<&Read>,
        solved: &Solved,
        accumulator: DType,
    ) -> graph::Built {
        // The operand's axes, then those of the space that do not follow from them.
        let mut extents = shape.to_vec();
        let mut place: Vec<Option<Expr>> =
            solved.same.iter().map(|own| own.map(IterationSpace::axis)).collect();
        for (axis, place) in place.iter_mut().enumerate() {
            if place.is_none() && solved.stepped[axis].is_none() {
                *place = Some(IterationSpace::axis(extents.len()));
                extents.push(space.extents[axis].clone());
            }
        }
        let rename = |expr: &Expr| {
            expr.substitute(&mut |id| place.get(base::Id::index(id)).cloned().flatten())
        };
        // The cotangent with gaps where an axis is stepped over.
        let none = vec![Expr::ZERO; space.parallel];
        let (mut low, mut high, mut gaps) = (none.clone(), none, vec![0; space.parallel]);
        let mut read_g = Vec::new();
        for axis in 0..space.parallel {
            let Some((own, factor)) = solved.stepped[axis] else {
                read_g.push(place[axis].clone().unwrap_or(Expr::ZERO));
                continue;
            };
            let rest = index[own].without(symbol(axis));
            let (least, greatest) = reach(&rest, &space.extents);
            let span = (&space.extents[axis] - 1) * factor + 1;
            // The place `own - rest` runs from `-greatest` to `shape - 1 - least`.
            low[axis] = greatest.clone();
            high[axis] = &shape[own] - least - span;
            gaps[axis] = factor - 1;
            read_g.push(IterationSpace::axis(own) - rename(&rest) + greatest);
        }
        let dtype = self.dtype(g)?;
        let zero = self.builder.scalar(dtype, 0.0);
        let g = self.builder.pad(g, zero, &low, &high, &gaps)?;
        let parallel = shape.len();
        if let Some(other) = other {
            let read = other.index.iter().map(rename).collect();
            let space = IterationSpace { extents, parallel, operands: vec![read_g, read] };
            return self.builder.contract(space, g, other.value, accumulator, dtype);
        }
        let space = IterationSpace { extents, parallel, operands: vec![read_g] };
        if space.extents.len() == parallel {
            let read_shape = self.shape(g)?;
            return self.view(&space, &space.operands[0], &read_shape, g);
        }
        let sum = self.builder.reduce(space, g, Reduction::Sum, accumulator)?;
        self.builder.cast(sum, dtype)
    }
}

fn symbol(axis: usize) -> sym::SymbolId {
    base::Id::new(axis)
}

/// The axes of the points that the axes of an operand are, where each is a different one.
fn plain(points: &IterationSpace, index: &[Expr], shape: &[Expr]) -> Option<Vec<usize>> {
    let mut axes = Vec::new();
    for (expr, extent) in index.iter().zip(shape) {
        let axis = base::Id::index(expr.as_symbol()?);
        if axes.contains(&axis) || points.extents[axis] != *extent {
            return None;
        }
        axes.push(axis);
    }
    Some(axes)
}

/// The least and the greatest value of an affine index over the axes' extents.
fn reach(expr: &Expr, extents: &[Expr]) -> (Expr, Expr) {
    let constant = Expr::from(expr.constant_part());
    let (mut least, mut greatest) = (constant.clone(), constant);
    for term in expr.terms() {
        let Some(axis) = term.as_symbol() else { continue };
        let last = (&extents[base::Id::index(axis)] - 1) * term.coefficient();
        if term.coefficient() > 0 {
            greatest = greatest + last;
        } else {
            least = least + last;
        }
    }
    (least, greatest)
}

/// Solves the index of an operand for axes of the space; none if an axis of the operand neither is
/// an axis of the space nor is stepped over by one that nothing but the result is read along.
fn solve(
    space: &IterationSpace,
    index: &[Expr],
    shape: &[Expr],
    other: Option<&Read>,
) -> Option<Solved> {
    let count = space.extents.len();
    let mut solved = Solved { same: vec![None; count], stepped: vec![None; count] };
    let affine = |expr: &Expr| expr.terms().iter().all(|term| term.as_symbol().is_some());
    for (own, (expr, extent)) in index.iter().zip(shape).enumerate() {
        if let Some(axis) = expr.as_symbol().map(base::Id::index)
            && solved.same[axis].is_none()
            && solved.stepped[axis].is_none()
            && space.extents[axis] == *extent
        {
            solved.same[axis] = Some(own);
        }
    }
    for (own, (expr, extent)) in index.iter().zip(shape).enumerate() {
        if solved.same.contains(&Some(own)) || expr.is_zero() && extent.is_one() {
            continue;
        }
        if !affine(expr) {
            return None;
        }
        let is_free = |axis: usize| {
            let elsewhere = index
                .iter()
                .enumerate()
                .any(|(number, expr)| number != own && expr.contains(symbol(axis)));
            let beside = other
                .is_some_and(|other| other.index.iter().any(|expr| expr.contains(symbol(axis))));
            axis < space.parallel
                && !elsewhere
                && !beside
                && solved.same[axis].is_none()
                && solved.stepped[axis].is_none()
                && expr.linear_coefficient(symbol(axis)).is_some_and(|factor| factor > 0)
        };
        let axis = (0..count).find(|&axis| is_free(axis))?;
        // Other axes that are stepped over would have to be known first.
        if (0..count).any(|axis| solved.stepped[axis].is_some() && expr.contains(symbol(axis))) {
            return None;
        }
        solved.stepped[axis] = Some((own, expr.linear_coefficient(symbol(axis))?));
    }
    Some(solved)
}
