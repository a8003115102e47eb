//! Nodes whose extents only a run knows: sizes counted in data, loops that grow what they carry,
//! branches of other shapes. Each is followed by a reduction, so that no other node meets the size.

use graph::{Op, TensorType, Type, ValueId};
use sym::{Expr, Range};
use tensor::{DType, Reduction, Scalar, ScalarFunction};

use super::{Grown, Growth, LARGEST};

/// Turns of a loop that doubles what it carries.
const TURNS: i64 = 3;

impl Growth {
    /// One of the above.
    pub(super) fn sized(&mut self) -> Grown {
        match self.below(3) {
            0 => self.counted(),
            1 => self.growing(),
            _ => self.uneven(),
        }
    }

    /// The sum of the indices of what is not zero.
    fn counted(&mut self) -> Grown {
        let value = self.any_where(|growth, it| it.stable && growth.is_small(it.value))?.value;
        let flag = self.builder.cast(value, DType::Bool).ok()?;
        let (indices, count) = self.builder.non_zero(flag).ok()?;
        let rank = self.ty(value).shape.len() as i64;
        let name = format!("count{}", self.builder.function().symbols.len());
        let symbol = self.builder.bind(count, &name, Range::new(0, LARGEST)).ok()?;
        let shape = [Expr::symbol(symbol), Expr::from(rank)];
        let rows = Op::Slice {
            starts: vec![Expr::ZERO; 2],
            steps: vec![1; 2],
            shape: shape.to_vec().into(),
        };
        let rows = self.builder.add(rows, &[indices]).ok()?[0];
        Some((self.reduced(rows)?, true))
    }

    /// What a loop carries is twice as long after each turn; what it is reduced to is stacked.
    fn growing(&mut self) -> Grown {
        let value = self.any_number()?.value;
        let TensorType { dtype, shape } = self.ty(value);
        if dtype != DType::F32 || !self.is_small(value) {
            return None;
        }
        let flat = self.builder.reshape(value, [graph::element_count(&shape)].to_vec()).ok()?;
        let tensor =
            |dtype, shape: Vec<Expr>| Type::Tensor(TensorType { dtype, shape: shape.into() });
        let most = Range::new(0, LARGEST << TURNS);
        let extent = Expr::symbol(self.builder.new_symbol("grown", most));
        let turns = self.builder.new_symbol("turns", Range::new(0, TURNS));
        let start = self.builder.scalar(DType::I64, 0.0);
        let types = [tensor(DType::I64, Vec::new()), tensor(dtype, vec![extent])];
        let parameters = self.builder.begin_region(&types);
        let limit = self.builder.scalar(DType::I64, TURNS as f64);
        let goes_on = self.builder.map(ScalarFunction::Lt, &[parameters[0], limit]).ok();
        let condition = self.builder.end_region(&[goes_on?]);
        let parameters = self.builder.begin_region(&types);
        let one = self.builder.literal(tensor::Tensor::scalar(Scalar::i64(1)));
        let next = self.builder.map(ScalarFunction::Add, &[parameters[0], one]).ok();
        let longer = self.builder.concat(0, &[parameters[1], parameters[1]]).ok();
        let row = self.reduced(parameters[1]);
        let body = self.builder.end_region(&[next?, longer?, row?]);
        let op = Op::While { turns: Some(turns) };
        let results = self.builder.add_with_regions(op, &[start, flat], &[condition, body]).ok()?;
        let (carried, stack) = (self.reduced(results[1])?, self.reduced(results[2])?);
        let all = self.builder.map(ScalarFunction::Add, &[carried, stack]).ok()?;
        Some((self.tame(all)?, false))
    }

    /// A branch with a part of an axis, and one with all of it.
    fn uneven(&mut self) -> Grown {
        let value = self.any_number()?.value;
        let (axis, extent) = self.constant_axis(value)?;
        if extent < 2 {
            return None;
        }
        let flag = self.builder.literal(tensor::Tensor::scalar(Scalar::i64(extent % 2)));
        let flag = self.builder.cast(flag, DType::Bool).ok()?;
        let shape = self.ty(value).shape.to_vec();
        let mut part = shape.clone();
        part[axis] = Expr::from(extent - 1);
        self.builder.begin_region(&[]);
        let starts = vec![Expr::ZERO; shape.len()];
        let op = Op::Slice { starts, steps: vec![1; shape.len()], shape: part.into() };
        let sliced = self.builder.add(op, &[value]).ok();
        let first = self.builder.end_region(&[sliced?[0]]);
        self.builder.begin_region(&[]);
        let second = self.builder.end_region(&[value]);
        let chosen = self.builder.branch(flag, &[first, second]).ok()?[0];
        Some((self.reduced(chosen)?, false))
    }

    /// All axes reduced: integers to their sum, floats to their greatest, whose bits are sure.
    pub(super) fn reduced(&mut self, value: ValueId) -> Option<ValueId> {
        let TensorType { dtype, shape } = self.ty(value);
        let axes: Vec<usize> = (0..shape.len()).collect();
        let reduction = if dtype.is_float() { Reduction::Max } else { Reduction::Sum };
        let accumulator = graph::accumulator_of(dtype);
        let reduced = self.builder.reduce_axes(value, &axes, reduction, accumulator, false);
        let reduced = reduced.ok()?;
        if dtype.is_float() { self.tame(reduced) } else { Some(reduced) }
    }
}
