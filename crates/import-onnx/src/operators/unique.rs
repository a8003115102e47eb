//! `Unique`: elements, or slices, each once.

use front::{Accepted, Graph, Operand, Turn, shape_error, true_indices};
use graph::Op;
use sym::Expr;
use tensor::{DType, Reduction, Scalar, ScalarFunction as F};

use super::Lowered;
use crate::node::Node;
use front::gather_axis;

/// Rows are sorted, each is compared with the one before, and the first of each run is kept.
pub(super) fn unique(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let sorted = node.flag("sorted", true)?;
    distinct(node, graph, sorted)
}

/// As [`unique`], where the attribute that asks for sorted results is given.
pub(super) fn distinct(node: &Node<'_>, graph: &mut Graph, sorted: bool) -> Lowered {
    let x = node.input(0)?;
    let axis = match node.has("axis") {
        true => Some(node.axis("axis", 0, x.rank())?),
        false => None,
    };
    // Rows [n, width], and what they are rows of, with the axis in front.
    let (slices, rows) = match axis {
        None => {
            let flat = graph.reshape(x, &[x.shape().iter().product()])?;
            let rows = graph.reshape(&flat, &[flat.shape()[0].clone(), Expr::ONE])?;
            (flat, rows)
        }
        Some(axis) => {
            let mut order: Vec<usize> = (0..x.rank()).filter(|&other| other != axis).collect();
            order.insert(0, axis);
            let front = graph.transpose(x, &order)?;
            let width = front.shape()[1..].iter().product();
            let rows = graph.reshape(&front, &[front.shape()[0].clone(), width])?;
            (front, rows)
        }
    };
    let count = rows.shape()[0].clone();
    if count.is_zero() {
        return Err(shape_error("there is nothing to choose from"));
    }
    let order = sorted_order(graph, &rows)?;
    let begins = run_starts(graph, &rows, &order)?;
    // The number of each sorted row's run, and the row that is the run's first.
    let number = graph.cast(&begins, DType::I64)?;
    let op = Op::Cumulate { axis: 0, reduction: Reduction::Sum, exclusive: false, reverse: false };
    let number = graph.primitive(op, &[&number])?;
    let number = graph.add_number(&number, -1.0)?;
    let line = [count.clone()];
    let to_rows = |graph: &mut Graph, sorted: &Operand| -> Accepted<Operand> {
        let blank = graph.full(&line, Scalar::zero(sorted.dtype()))?;
        let op = Op::Scatter { axes: vec![0], batch: 0, position: 0, reduction: None };
        graph.scatter(&blank, sorted, std::slice::from_ref(&order), op)
    };
    let (firsts, inverse) = if sorted {
        let places = true_indices(graph, &begins)?;
        let places = graph.reshape(&places, &places.shape()[..1])?;
        (gather_axis(graph, &order, 0, &places)?, to_rows(graph, &number)?)
    } else {
        let is_first = to_rows(graph, &begins)?;
        let firsts = true_indices(graph, &is_first)?;
        let firsts = graph.reshape(&firsts, &firsts.shape()[..1])?;
        // The rank of each first among the firsts, read where the row's run begins.
        let rank = graph.cast(&is_first, DType::I64)?;
        let op =
            Op::Cumulate { axis: 0, reduction: Reduction::Sum, exclusive: true, reverse: false };
        let rank = graph.primitive(op, &[&rank])?;
        let place = graph.iota(DType::I64, &line, 0)?;
        let zero = Operand::of_scalar(Scalar::i64(0));
        let start = graph.select(&begins, &place, &zero)?;
        let op =
            Op::Cumulate { axis: 0, reduction: Reduction::Max, exclusive: false, reverse: false };
        let start = graph.primitive(op, &[&start])?;
        let first = gather_axis(graph, &order, 0, &start)?;
        let rank = gather_axis(graph, &rank, 0, &first)?;
        (firsts, to_rows(graph, &rank)?)
    };
    let mut kept = gather_axis(graph, &slices, 0, &firsts)?;
    if let Some(axis) = axis {
        let mut order: Vec<usize> = (1..kept.rank()).collect();
        order.insert(axis, 0);
        kept = graph.transpose(&kept, &order)?;
    }
    let ones = graph.full(&line, Scalar::i64(1))?;
    let zeros = graph.full(&line, Scalar::i64(0))?;
    let op = Op::Scatter { axes: vec![0], batch: 0, position: 0, reduction: Some(Reduction::Sum) };
    let counts = graph.scatter(&zeros, &ones, std::slice::from_ref(&inverse), op)?;
    let counts = graph.slice_axis(&counts, 0, Expr::ZERO, 1, firsts.shape()[0].clone())?;
    Ok(vec![kept, firsts, inverse, counts])
}

/// The rows' numbers in the order of their elements, the first of equal ones first: a stable sort
/// by each column, the last one first.
fn sorted_order(graph: &mut Graph, rows: &Operand) -> Accepted<Operand> {
    let (count, width) = (rows.shape()[0].clone(), rows.shape()[1].clone());
    let op = Op::Sort { axis: 0, descending: false, kept: None };
    let line = [count];
    if width.is_one() {
        let column = graph.reshape(rows, &line)?;
        return Ok(graph.primitive_pair(op, &[&column])?.1);
    }
    let columns = graph.transpose(rows, &[1, 0])?;
    let columns = graph.slice_axis(&columns, 0, &width - 1, -1, width.clone())?;
    let start = graph.iota(DType::I64, &line, 0)?;
    let results =
        graph.scan((&width, false), &[start], &[columns], &[], |graph, _, order, column| {
            let read = gather_axis(graph, &column[0], 0, &order[0])?;
            let places = graph.primitive_pair(op, &[&read])?.1;
            let order = gather_axis(graph, &order[0], 0, &places)?;
            Ok(Turn { carried: vec![order], stacked: Vec::new() })
        })?;
    results.into_iter().next().ok_or_else(|| shape_error("a loop without results"))
}

/// Whether each sorted row differs from the one before. NaN are equal to each other.
fn run_starts(graph: &mut Graph, rows: &Operand, order: &Operand) -> Accepted<Operand> {
    let sorted = gather_axis(graph, rows, 0, order)?;
    let rest = &rows.shape()[0] - 1;
    let before = graph.slice_axis(&sorted, 0, Expr::ZERO, 1, rest.clone())?;
    let after = graph.slice_axis(&sorted, 0, Expr::ONE, 1, rest)?;
    let mut differs = graph.map(F::Ne, &[&before, &after])?;
    if rows.dtype().is_float() {
        let (a, b) = (graph.map(F::IsNan, &[&before])?, graph.map(F::IsNan, &[&after])?);
        let both = graph.and(&a, &b)?;
        let not_both = graph.map(F::Not, &[&both])?;
        differs = graph.and(&differs, &not_both)?;
    }
    let differs = graph.reduce_axes(&differs, &[1], Reduction::Or, false)?;
    let first = graph.full(&[Expr::ONE], Scalar::bool(true))?;
    graph.concat(0, &[first, differs])
}
