//! Reading at indices that are data.

use base::InOrder;
use graph::{Known, Op};
use sym::Expr;
use tensor::DType;

use crate::value::Operand;
use crate::writer::{Accepted, Graph, shape_error, type_error, unsupported};

/// Indices as i64, negative ones counted from the end of an axis. Known ones are checked.
pub fn wrapped_indices(graph: &mut Graph, value: &Operand, extent: &Expr) -> Accepted<Operand> {
    if !value.dtype().is_integer() {
        return Err(type_error(format!("indices of type {}", value.dtype())));
    }
    let value = graph.cast(value, DType::I64)?;
    if let (Some(known), Some(shape)) = (value.known(), value.constant_shape()) {
        let mut counted = Vec::with_capacity(known.len());
        for index in known.iter().map(Known::expr) {
            let index = index.ok_or_else(|| shape_error("an index is too large"))?;
            let from_front =
                if graph.builder.bounds(&index).1 < 0 { &index + extent } else { index.clone() };
            let beyond = graph.builder.bounds(&(&from_front - extent)).0 >= 0;
            if graph.builder.bounds(&from_front).1 < 0 || beyond {
                let (index, extent) = (graph.builder.text(&index), graph.builder.text(extent));
                return Err(shape_error(format!("index {index} of an axis of extent {extent}")));
            }
            counted.push(Known::of(DType::I64, from_front));
        }
        return Ok(Operand::of_known(DType::I64, &shape, counted));
    }
    let zero = graph.number(DType::I64, 0.0);
    let extent = graph.dimension(extent.clone());
    let wrapped = graph.add(&value, &extent)?;
    let negative = graph.less(&value, &zero)?;
    graph.select(&negative, &wrapped, &value)
}

/// The indices of true elements: `[n, rank]`, where `n` is a new symbol unless they are known.
pub fn true_indices(graph: &mut Graph, condition: &Operand) -> Accepted<Operand> {
    if let (Some(known), Some(shape)) = (condition.known(), condition.constant_shape())
        && let Some(flags) = known.iter().map(Known::constant).collect::<Option<Vec<_>>>()
    {
        let mut places = Vec::new();
        let mut count = 0;
        for (mut number, _) in flags.iter().enumerate().filter(|(_, flag)| flag.as_bool()) {
            let mut tuple = vec![0; shape.len()];
            for (at, extent) in tuple.iter_mut().zip(&shape).rev() {
                (*at, number) = (number % extent, number / extent);
            }
            places.extend(tuple.into_iter().map(|at| Known::of(DType::I64, Expr::from(at))));
            count += 1;
        }
        return Ok(Operand::of_known(DType::I64, &[count, shape.len()], places));
    }
    if condition.rank() == 0 {
        return Err(unsupported("the indices of a scalar"));
    }
    let (buffer, count) = graph.primitive_pair(Op::NonZero, &[condition])?;
    let count = graph.bind(&count, &buffer.shape()[0].clone())?;
    graph.slice_axis(&buffer, 0, Expr::ZERO, 1, count)
}

/// Slices of the data at indices, not negative, along an axis.
pub fn gather_axis(
    graph: &mut Graph,
    data: &Operand,
    axis: usize,
    index: &Operand,
) -> Accepted<Operand> {
    if axis >= data.rank() {
        return Err(shape_error(format!("axis {axis} of a tensor of rank {}", data.rank())));
    }
    // One index is a slice, and needs no reading of indices.
    if let Some([only]) = index.known()
        && let Some(only) = only.expr()
    {
        let (before, behind) = (&data.shape()[..axis], &data.shape()[axis + 1..]);
        let shape = [before, index.shape(), behind].concat();
        let slice = graph.slice_axis(data, axis, only, 1, Expr::ONE)?;
        return graph.reshape(&slice, &shape);
    }
    graph.gather(data, &[axis], std::slice::from_ref(index), 0, axis)
}

/// Index operands for element-wise indexing: the given one along `axis`, and along every other axis
/// that is not among the leading `batch` ones the element's own place.
pub fn elementwise_indices(
    graph: &mut Graph,
    index: &Operand,
    axis: usize,
    batch: usize,
) -> Accepted<Vec<Operand>> {
    let own = |at: usize, graph: &mut Graph| match at == axis {
        true => Ok(index.clone()),
        false => graph.iota(DType::I64, index.shape(), at),
    };
    (batch..index.rank()).map(|at| own(at, graph)).collect()
}

/// The number of axes before `axis` along which data and indices have the same extent.
pub fn shared_axes(data: &Operand, index: &Operand, axis: usize) -> usize {
    let pairs = data.shape().iter().zip(index.shape()).take(axis);
    pairs.take_while(|(data, index)| data == index).count()
}

/// A value without some axes of extent 1.
pub fn without_axes(graph: &mut Graph, value: &Operand, axes: &[usize]) -> Accepted<Operand> {
    let kept = (0..value.rank()).filter(|axis| !axes.contains(axis));
    let shape: Vec<Expr> = kept.map(|axis| value.shape()[axis].clone()).collect();
    graph.reshape(value, &shape)
}

/// Places of `(axis, factor)` in the order in which they are best resized to lines between
/// elements: what shrinks most first, and of equals the innermost axis, whose neighbours are read
/// by single loads. So the fewest elements are computed. A factor that no one knows counts as 1.
pub fn interpolation_order(axes: &[(usize, Option<f64>)]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..axes.len()).collect();
    order.put_in_order_by(|&a, &b| {
        let growth = |place: usize| axes[place].1.unwrap_or(1.0);
        growth(a).total_cmp(&growth(b)).then(axes[b].0.cmp(&axes[a].0))
    });
    order
}
