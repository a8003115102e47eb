//! Derivatives of movements: the cotangent goes back to where the elements came from, and what went
//! nowhere gets zero.

use graph::{Node, Op, ValueId};
use sym::Expr;
use tensor::{DType, Reduction, Scalar, ScalarFunction as F};

use crate::{Pulled, Reverse};

/// Factors of products.
struct Factors {
    /// Ones in the place of zeros.
    rest: ValueId,
    /// Ones where zeros are, else zeros.
    zeros: ValueId,
}

impl Reverse<'_> {
    /// What is repeated collects its copies.
    pub(crate) fn broadcast(&mut self, axes: &[usize], operand: ValueId, g: ValueId) -> Pulled {
        let (own, result) = (self.shape(operand)?, self.shape(g)?);
        let is_copied = |axis: &usize| match axes.iter().position(|other| other == axis) {
            Some(number) => own[number].is_one() && !result[*axis].is_one(),
            None => true,
        };
        let copied: Vec<usize> = (0..result.len()).filter(is_copied).collect();
        let mut sum = g;
        if !copied.is_empty() {
            let dtype = self.dtype(g)?;
            let wide = graph::accumulator_of(dtype);
            sum = self.builder.reduce_axes(g, &copied, Reduction::Sum, wide, false)?;
            sum = self.builder.cast(sum, dtype)?;
        }
        Ok(vec![Some(self.builder.reshape(sum, &own)?)])
    }

    pub(crate) fn transpose(&mut self, permutation: &[usize], g: ValueId) -> Pulled {
        let mut inverse = vec![0; permutation.len()];
        for (axis, &from) in permutation.iter().enumerate() {
            inverse[from] = axis;
        }
        Ok(vec![Some(self.builder.transpose(g, &inverse)?)])
    }

    /// Steps backwards are turned round first, then the gaps are filled with zeros.
    pub(crate) fn slice(
        &mut self,
        starts: &[Expr],
        steps: &[i64],
        operand: ValueId,
        g: ValueId,
    ) -> Pulled {
        let (own, mut shape, mut starts) = (self.shape(operand)?, self.shape(g)?, starts.to_vec());
        let mut g = g;
        if steps.iter().any(|&step| step < 0) {
            let (mut from, mut by) = (vec![Expr::ZERO; shape.len()], vec![1; shape.len()]);
            for (axis, &step) in steps.iter().enumerate().filter(|(_, step)| **step < 0) {
                let last = &shape[axis] - 1;
                starts[axis] = &starts[axis] + &last * step;
                (from[axis], by[axis]) = (last, -1);
            }
            g = self.builder.slice(g, &from, &by, &shape)?;
        }
        let mut high = Vec::new();
        for (axis, extent) in shape.iter_mut().enumerate() {
            let span = (&*extent - 1) * steps[axis].abs() + 1;
            high.push(&own[axis] - &starts[axis] - span);
        }
        let interior: Vec<i64> = steps.iter().map(|step| step.abs() - 1).collect();
        let dtype = self.dtype(g)?;
        let zero = self.builder.scalar(dtype, 0.0);
        Ok(vec![Some(self.builder.pad(g, zero, &starts, &high, &interior)?)])
    }

    /// What was surrounded is cut out again; the filling gets the sum of the rest.
    pub(crate) fn pad(
        &mut self,
        low: &[Expr],
        high: &[Expr],
        interior: &[i64],
        operands: &[ValueId],
        g: ValueId,
    ) -> Pulled {
        let own = self.shape(operands[0])?;
        let dtype = self.dtype(g)?;
        let zero = self.builder.scalar(dtype, 0.0);
        let none = vec![0; own.len()];
        let negated = |pads: &[Expr]| -> Vec<Expr> { pads.iter().map(|pad| -pad).collect() };
        let cropped = self.builder.pad(g, zero, &negated(low), &negated(high), &none)?;
        let steps: Vec<i64> = interior.iter().map(|between| between + 1).collect();
        let starts = vec![Expr::ZERO; own.len()];
        let inner = self.builder.slice(cropped, &starts, &steps, &own)?;
        if !self.is_active(operands[1]) {
            return Ok(vec![Some(inner), None]);
        }
        let one = self.builder.scalar(dtype, 1.0);
        let inside = self.zeros(dtype, &own)?;
        let is_filling = self.builder.pad(inside, one, low, high, interior)?;
        let filling = self.mul(g, is_filling)?;
        let axes: Vec<usize> = (0..own.len()).collect();
        let wide = graph::accumulator_of(dtype);
        let sum = self.builder.reduce_axes(filling, &axes, Reduction::Sum, wide, false)?;
        Ok(vec![Some(inner), Some(self.builder.cast(sum, dtype)?)])
    }

    pub(crate) fn concat(&mut self, axis: usize, operands: &[ValueId], g: ValueId) -> Pulled {
        let mut start = Expr::ZERO;
        let mut pulled = Vec::new();
        for &operand in operands {
            let extent = self.shape(operand)?[axis].clone();
            pulled.push(Some(self.builder.slice_axis(
                g,
                axis,
                start.clone(),
                1,
                extent.clone(),
            )?));
            start = start + extent;
        }
        Ok(pulled)
    }

    /// Elements that are read several times collect all of it.
    pub(crate) fn gather(&mut self, op: &Op, operands: &[ValueId], g: ValueId) -> Pulled {
        let data = operands[0];
        let zeros = self.number(data, 0.0)?;
        let collected = self.scattered(op, zeros, g, &operands[1..], Some(Reduction::Sum))?;
        let mut pulled = vec![None; operands.len()];
        pulled[0] = Some(collected);
        Ok(pulled)
    }

    /// A scatter to where a gather, or another scatter, has its elements.
    fn scattered(
        &mut self,
        like: &Op,
        data: ValueId,
        updates: ValueId,
        indices: &[ValueId],
        reduction: Option<Reduction>,
    ) -> graph::Built {
        let (Op::Gather { axes, batch, position } | Op::Scatter { axes, batch, position, .. }) =
            like
        else {
            return Err(format!("`{}` has no indices", like.name()));
        };
        self.builder.scatter(data, updates, axes, indices, *batch, *position, reduction)
    }

    /// The elements that a scatter writes to.
    fn written(&mut self, like: &Op, data: ValueId, indices: &[ValueId]) -> graph::Built {
        let Op::Scatter { axes, batch, position, .. } = like else {
            return Err(format!("`{}` has no indices", like.name()));
        };
        self.builder.gather(data, axes, indices, *batch, *position)
    }

    pub(crate) fn scatter(&mut self, node: &Node, g: ValueId) -> Pulled {
        let Op::Scatter { reduction, .. } = node.op else { return Err(String::new()) };
        let (data, updates, indices) = (node.operands[0], node.operands[1], &node.operands[2..]);
        let (data, updates) = match reduction {
            Some(Reduction::Sum) => (g, self.written(&node.op, g, indices)?),
            None => {
                let own = self.written(&node.op, g, indices)?;
                // Of several updates of one element the last one counts.
                let zeros = self.number(updates, 0.0)?;
                let kept = self.scattered(&node.op, g, zeros, indices, None)?;
                let shape = self.shape(updates)?;
                let numbers = self.numbered(&shape)?;
                let nobody = self.builder.full(&self.shape(data)?, Scalar::i64(-1))?;
                let winners = self.scattered(&node.op, nobody, numbers, indices, None)?;
                let winners = self.written(&node.op, winners, indices)?;
                let is_last = self.apply(F::Eq, &[winners, numbers])?;
                (kept, self.apply(F::Select, &[is_last, own, zeros])?)
            }
            Some(Reduction::Min | Reduction::Max) => {
                // All that equal the result share.
                let result = node.results[0];
                let dtype = self.dtype(g)?;
                let at = self.written(&node.op, result, indices)?;
                let stays = self.apply(F::Eq, &[data, result])?;
                let comes = self.apply(F::Eq, &[updates, at])?;
                let (ones, more) =
                    (self.builder.cast(stays, dtype)?, self.builder.cast(comes, dtype)?);
                let sum = Some(Reduction::Sum);
                let count = self.scattered(&node.op, ones, more, indices, sum)?;
                let share = self.div(g, count)?;
                let own = self.written(&node.op, share, indices)?;
                let (zero, zeros) = (self.number(data, 0.0)?, self.number(updates, 0.0)?);
                let kept = self.apply(F::Select, &[stays, share, zero])?;
                (kept, self.apply(F::Select, &[comes, own, zeros])?)
            }
            Some(Reduction::Product) => {
                // The product of the other factors: of all that are not zero, if no other is zero.
                let data_rest = self.factors(data)?;
                let update_rest = self.factors(updates)?;
                let sum = Some(Reduction::Sum);
                let product = Some(Reduction::Product);
                let zeros =
                    self.scattered(&node.op, data_rest.zeros, update_rest.zeros, indices, sum)?;
                let others =
                    self.scattered(&node.op, data_rest.rest, update_rest.rest, indices, product)?;
                let own = self.product_of_others(data, others, zeros, g)?;
                let others = self.written(&node.op, others, indices)?;
                let zeros = self.written(&node.op, zeros, indices)?;
                let g = self.written(&node.op, g, indices)?;
                (own, self.product_of_others(updates, others, zeros, g)?)
            }
            Some(reduction) => return Err(format!("a scattered {reduction} has no derivative")),
        };
        let mut pulled = vec![None; node.operands.len()];
        (pulled[0], pulled[1]) = (Some(data), Some(updates));
        Ok(pulled)
    }

    fn factors(&mut self, value: ValueId) -> graph::Built<Factors> {
        let (zero, one) = (self.number(value, 0.0)?, self.number(value, 1.0)?);
        let is_zero = self.apply(F::Eq, &[value, zero])?;
        let rest = self.apply(F::Select, &[is_zero, one, value])?;
        let dtype = self.dtype(value)?;
        Ok(Factors { rest, zeros: self.builder.cast(is_zero, dtype)? })
    }

    /// The cotangent of a factor, given the product of all that are not zero, and the number of
    /// zeros.
    fn product_of_others(
        &mut self,
        factor: ValueId,
        product: ValueId,
        zeros: ValueId,
        g: ValueId,
    ) -> graph::Built {
        let own = self.factors(factor)?;
        let rest = self.div(product, own.rest)?;
        let others = self.apply(F::Sub, &[zeros, own.zeros])?;
        let zero = self.number(g, 0.0)?;
        let is_alone = self.apply(F::Eq, &[others, zero])?;
        let rest = self.apply(F::Select, &[is_alone, rest, zero])?;
        self.mul(g, rest)
    }

    /// The row-major number of each element.
    fn numbered(&mut self, shape: &[Expr]) -> graph::Built {
        let count: Expr = shape.iter().product();
        let row = self.builder.iota(DType::I64, &[count], 0)?;
        self.builder.reshape(row, shape)
    }

    /// Sorted values go back to the places that they came from.
    pub(crate) fn sort(&mut self, axis: usize, node: &Node, g: ValueId) -> Pulled {
        let rank = self.shape(g)?.len();
        let mut order: Vec<usize> = (0..rank).filter(|&other| other != axis).collect();
        order.push(axis);
        let back = {
            let mut back = vec![0; rank];
            for (place, &from) in order.iter().enumerate() {
                back[from] = place;
            }
            back
        };
        let g = self.builder.transpose(g, &order)?;
        let places = self.builder.transpose(node.results[1], &order)?;
        let operand = self.builder.transpose(node.operands[0], &order)?;
        let zeros = self.number(operand, 0.0)?;
        let sum = Some(Reduction::Sum);
        let data = self.builder.scatter(zeros, g, &[rank - 1], &[places], rank - 1, 0, sum)?;
        Ok(vec![Some(self.builder.transpose(data, &back)?)])
    }
}
