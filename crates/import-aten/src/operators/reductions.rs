//! Reductions along axes, running ones, and the greatest elements.

use front::{Accepted, Graph, Known, Operand, gather_axis, unsupported, without_axes};
use graph::Op;
use sym::Expr;
use tensor::{DType, Reduction, Scalar, ScalarFunction as F};

use crate::node::{Lowered, Node};

/// A reduction along axes; sums and products of short floats are formed wide and rounded once.
fn reduced(
    graph: &mut Graph,
    x: &Operand,
    axes: &[usize],
    reduction: Reduction,
    keep: bool,
) -> Accepted<Operand> {
    let reduction = of_elements(reduction, x.dtype());
    let orders = matches!(reduction, Reduction::Max | Reduction::Min);
    let wide = if orders { x.clone() } else { graph.widen(x)? };
    let result = graph.reduce_axes(&wide, axes, reduction, keep)?;
    graph.cast(&result, x.dtype())
}

/// What a reduction is of elements of a type: a sum of booleans is whether any holds, their product
/// whether all do.
pub(super) fn of_elements(reduction: Reduction, dtype: DType) -> Reduction {
    match reduction {
        Reduction::Sum | Reduction::Max if dtype == DType::Bool => Reduction::Or,
        Reduction::Product | Reduction::Min if dtype == DType::Bool => Reduction::And,
        other => other,
    }
}

/// A reduction in the result's type. The axes are the argument at place 1, all if none are given.
pub(super) fn reduce(node: &Node<'_>, graph: &mut Graph, reduction: Reduction) -> Lowered {
    let x = node.operand_as(graph, (0, "self"), node.dtype()?)?;
    let axes = node.axes(1, "dim", x.rank())?;
    Ok(vec![reduced(graph, &x, &axes, reduction, node.flag(2, "keepdim", false)?)?])
}

/// A reduction over everything, in the result's type.
pub(super) fn reduce_all(node: &Node<'_>, graph: &mut Graph, reduction: Reduction) -> Lowered {
    let x = node.operand_as(graph, (0, "self"), node.dtype()?)?;
    let axes: Vec<usize> = (0..x.rank()).collect();
    Ok(vec![reduced(graph, &x, &axes, reduction, false)?])
}

/// The mean.
pub(super) fn mean(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let x = node.operand_as(graph, (0, "self"), node.dtype()?)?;
    let axes = node.axes(1, "dim", x.rank())?;
    Ok(vec![graph.mean(&x, &axes, node.flag(2, "keepdim", false)?)?])
}

/// The mean of everything.
pub(super) fn mean_all(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let x = node.operand_as(graph, (0, "self"), node.dtype()?)?;
    let axes: Vec<usize> = (0..x.rank()).collect();
    Ok(vec![graph.mean(&x, &axes, false)?])
}

/// Whether any, or all, elements are true; `place` of the axes, none for all of them.
pub(super) fn truth(
    node: &Node<'_>,
    graph: &mut Graph,
    reduction: Reduction,
    by_axes: bool,
) -> Lowered {
    let dtype = node.dtype()?;
    let x = node.operand_as(graph, (0, "self"), DType::Bool)?;
    let (axes, keep) = match by_axes {
        true => (node.axes(1, "dim", x.rank())?, node.flag(2, "keepdim", false)?),
        false => ((0..x.rank()).collect(), false),
    };
    let result = graph.reduce_axes(&x, &axes, reduction, keep)?;
    Ok(vec![graph.cast(&result, dtype)?])
}

/// The greatest or least along an axis, and where it is.
pub(super) fn extreme(node: &Node<'_>, graph: &mut Graph, greatest: bool) -> Lowered {
    let x = node.tensor(0, "self")?;
    let reduction = if greatest { Reduction::Max } else { Reduction::Min };
    if x.rank() == 0 {
        let zero = graph.number(DType::I64, 0.0);
        return Ok(vec![x, zero]);
    }
    let axis = node.axis((1, "dim"), 0, x.rank())?;
    let keep = node.flag(2, "keepdim", false)?;
    let value = graph.reduce_axes(&x, &[axis], reduction, keep)?;
    let index = place_of(graph, &x, axis, greatest)?;
    let index = graph.reshape(&index, value.shape())?;
    Ok(vec![value, index])
}

fn place_of(graph: &mut Graph, x: &Operand, axis: usize, greatest: bool) -> Accepted<Operand> {
    graph.primitive(Op::ArgReduce { axis, greatest, last: false }, &[x])
}

/// Where the greatest or least is along an axis, or of all elements in order.
pub(super) fn place(node: &Node<'_>, graph: &mut Graph, greatest: bool) -> Lowered {
    let mut x = node.tensor(0, "self")?;
    let axis = match node.argument(1, "dim") {
        Some(_) if x.rank() > 0 => node.axis((1, "dim"), 0, x.rank())?,
        _ => {
            x = graph.reshape(&x, &[x.shape().iter().product::<Expr>()])?;
            0
        }
    };
    let index = place_of(graph, &x, axis, greatest)?;
    Ok(vec![graph.reshape(&index, node.shape()?)?])
}

/// Variances about the mean, with `correction` taken off the count; before them the means, if
/// wanted.
pub(super) fn variance(node: &Node<'_>, graph: &mut Graph, with_mean: bool) -> Lowered {
    let x = node.tensor(0, "self")?;
    let dtype = x.dtype();
    let axes = node.axes(1, "dim", x.rank())?;
    let correction = node.number(9, "correction")?.unwrap_or(1.0);
    let keep = node.flag(9, "keepdim", false)?;
    let (variance, mean) = spread(graph, &x, &axes, correction)?;
    let finish = |graph: &mut Graph, value: Operand| -> Accepted<Operand> {
        let value = if keep { value } else { without_axes(graph, &value, &axes)? };
        graph.cast(&value, dtype)
    };
    let variance = finish(graph, variance)?;
    match with_mean {
        true => Ok(vec![variance, finish(graph, mean)?]),
        false => Ok(vec![variance]),
    }
}

/// The variance and the mean along axes, which stay with extent 1, in a wide type.
pub(super) fn spread(
    graph: &mut Graph,
    x: &Operand,
    axes: &[usize],
    correction: f64,
) -> Accepted<(Operand, Operand)> {
    let wide = graph.widen(x)?;
    let (mean, variance) = front::statistics(graph, &wide, axes)?;
    if correction == 0.0 {
        return Ok((variance, mean));
    }
    let count = axes.iter().map(|&axis| &x.shape()[axis]).product::<Expr>();
    let count = graph.dimension(count);
    let count = graph.cast(&count, wide.dtype())?;
    let fewer = graph.add_number(&count, -correction)?;
    let zero = graph.number(wide.dtype(), 0.0);
    let fewer = graph.max(&fewer, &zero)?;
    let sum = graph.mul(&variance, &count)?;
    Ok((graph.div(&sum, &fewer)?, mean))
}

/// Running sums or products along an axis.
pub(super) fn cumulate(node: &Node<'_>, graph: &mut Graph, reduction: Reduction) -> Lowered {
    let x = node.operand_as(graph, (0, "self"), node.dtype()?)?;
    if x.rank() == 0 {
        return Ok(vec![x]);
    }
    let axis = node.axis((1, "dim"), 0, x.rank())?;
    let op = Op::Cumulate { axis, reduction, exclusive: false, reverse: false };
    let wide = graph.widen(&x)?;
    let result = graph.primitive(op, &[&wide])?;
    Ok(vec![graph.cast(&result, x.dtype())?])
}

/// Elements along an axis in order, and where they were.
pub(super) fn sort(node: &Node<'_>, graph: &mut Graph, first: usize) -> Lowered {
    let x = node.tensor(0, "self")?;
    let descending = node.flag(first + 1, "descending", false)?;
    let axis = node.int(first, "dim", -1)?;
    sorted(graph, &x, axis, descending, None)
}

/// The greatest or least elements along an axis, in order, and where they were.
pub(super) fn top(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let x = node.tensor(0, "self")?;
    let count = node.int(1, "k", 0)?;
    let kept = usize::try_from(count).ok().filter(|kept| *kept > 0);
    let kept = kept.ok_or_else(|| unsupported(format!("the first {count} elements")))?;
    sorted(graph, &x, node.int(2, "dim", -1)?, node.flag(3, "largest", true)?, Some(kept))
}

fn sorted(
    graph: &mut Graph,
    x: &Operand,
    axis: i64,
    descending: bool,
    kept: Option<usize>,
) -> Lowered {
    if x.rank() == 0 {
        let zero = graph.number(DType::I64, 0.0);
        return Ok(vec![x.clone(), zero]);
    }
    let axis = front::normalize_axis(axis, x.rank())?;
    let (values, indices) = graph.primitive_pair(Op::Sort { axis, descending, kept }, &[x])?;
    Ok(vec![values, indices])
}

/// The logarithm of the sum of exponentials.
pub(super) fn log_sum_exp(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let x = node.operand_as(graph, (0, "self"), node.dtype()?)?;
    let axes = node.axes(1, "dim", x.rank())?;
    let wide = graph.widen(&x)?;
    let greatest = graph.reduce_axes(&wide, &axes, Reduction::Max, true)?;
    let infinite = graph.map(F::IsInf, &[&greatest])?;
    let zero = graph.number(wide.dtype(), 0.0);
    let shift = graph.select(&infinite, &zero, &greatest)?;
    let shifted = graph.sub(&wide, &shift)?;
    let exp = graph.exp(&shifted)?;
    let sum = graph.reduce_axes(&exp, &axes, Reduction::Sum, true)?;
    let log = graph.log(&sum)?;
    let result = graph.add(&log, &shift)?;
    let result = match node.flag(2, "keepdim", false)? {
        true => result,
        false => without_axes(graph, &result, &axes)?,
    };
    Ok(vec![graph.cast(&result, x.dtype())?])
}

/// `_cdist_forward(x1, x2, p, compute_mode)`: how far the rows of one value are from those of
/// another, `[.., p, m]` and `[.., r, m]` to `[.., p, r]`.
pub(super) fn distances(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let (a, b) = (node.tensor(0, "x1")?, node.tensor(1, "x2")?);
    let power = node.number(2, "p")?.unwrap_or(2.0);
    let (first, second) = (a.rank() - 1, b.rank() - 2);
    let a =
        graph.reshape(&a, &[&a.shape()[..first], &[Expr::ONE], &a.shape()[first..]].concat())?;
    let b =
        graph.reshape(&b, &[&b.shape()[..second], &[Expr::ONE], &b.shape()[second..]].concat())?;
    let difference = graph.sub(&a, &b)?;
    Ok(vec![norm(graph, &difference, power)?])
}

/// `_pdist_forward(x, p)`: how far each row is from each behind it, as a vector.
pub(super) fn own_distances(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let x = node.tensor(0, "self")?;
    let power = node.number(1, "p")?.unwrap_or(2.0);
    let count = x.shape()[0].as_constant();
    let count = count.ok_or_else(|| unsupported("rows whose number is not fixed"))?;
    graph.check_size(node.shape()?)?;
    let pairs = (0..count).flat_map(|row| (row + 1..count).map(move |other| (row, other)));
    let (rows, others): (Vec<i64>, Vec<i64>) = pairs.unzip();
    let taken = |graph: &mut Graph, rows: Vec<i64>| -> Accepted<Operand> {
        let shape = [rows.len()];
        let known = rows.into_iter().map(|row| Known::of(DType::I64, Expr::from(row)));
        let index = Operand::of_known(DType::I64, &shape, known.collect());
        gather_axis(graph, &x, 0, &index)
    };
    let (rows, others) = (taken(graph, rows)?, taken(graph, others)?);
    let difference = graph.sub(&rows, &others)?;
    Ok(vec![norm(graph, &difference, power)?])
}

/// The norm of a power along the last axis, which disappears: of 0 how many elements are not zero.
fn norm(graph: &mut Graph, x: &Operand, power: f64) -> Accepted<Operand> {
    let (dtype, axes) = (x.dtype(), [x.rank() - 1]);
    let absolute = graph.map(F::Abs, &[x])?;
    if power.is_infinite() {
        return reduced(graph, &absolute, &axes, Reduction::Max, false);
    }
    let exponent = |graph: &Graph, number: f64| graph.number(dtype, number);
    let raised = match power {
        0.0 => {
            let zero = graph.number(dtype, 0.0);
            let counts = graph.map(F::Ne, &[&absolute, &zero])?;
            graph.cast(&counts, dtype)?
        }
        1.0 => absolute,
        2.0 => graph.square(&absolute)?,
        _ => {
            let exponent = exponent(graph, power);
            graph.map(F::Pow, &[&absolute, &exponent])?
        }
    };
    let sum = reduced(graph, &raised, &axes, Reduction::Sum, false)?;
    match power {
        0.0 | 1.0 => Ok(sum),
        2.0 => graph.map(F::Sqrt, &[&sum]),
        _ => {
            let exponent = exponent(graph, 1.0 / power);
            graph.map(F::Pow, &[&sum, &exponent])
        }
    }
}

/// `histc(self, bins, min, max)`: how many elements lie in each of so many parts of a range, both
/// ends included.
pub(super) fn histogram(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let (x, count) = (node.tensor(0, "self")?, node.int(1, "bins", 100)?);
    let (low, high) = (node.number(2, "min")?, node.number(3, "max")?);
    let (low, high) = (low.unwrap_or(0.0), high.unwrap_or(0.0));
    if low >= high || count < 1 {
        return Err(unsupported("a histogram whose range data decide"));
    }
    let flat = graph.reshape(&x, &[x.shape().iter().product::<Expr>()])?;
    // As eager code does, in the elements' own type.
    let wide = if x.dtype().is_float() { x.dtype() } else { DType::F64 };
    let value = graph.cast(&flat, wide)?;
    let (least, greatest) = (graph.number(wide, low), graph.number(wide, high));
    let (above, below) = (graph.less_equal(&least, &value)?, graph.less_equal(&value, &greatest)?);
    let is_counted = graph.and(&above, &below)?;
    let distance = graph.sub(&value, &least)?;
    let place = graph.mul_number(&distance, count as f64)?;
    let range = graph.sub(&greatest, &least)?;
    let place = graph.div(&place, &range)?;
    let place = graph.map(F::Floor, &[&place])?;
    // The upper end belongs to the last part; what lies outside counts for none.
    let last = graph.number(wide, (count - 1) as f64);
    let (place, zero) = (graph.min(&place, &last)?, graph.number(wide, 0.0));
    let place = graph.select(&is_counted, &place, &zero)?;
    let place = graph.cast(&place, DType::I64)?;
    let counts = graph.cast(&is_counted, node.dtype()?)?;
    let zeros = graph.full(node.shape()?, Scalar::zero(node.dtype()?))?;
    let op = Op::Scatter { axes: vec![0], batch: 0, position: 0, reduction: Some(Reduction::Sum) };
    Ok(vec![graph.scatter(&zeros, &counts, &[place], op)?])
}
