//! Triangular systems and Cholesky factors.

use front::{Accepted, Graph, Operand, Turn, shape_error};
use sym::Expr;
use tensor::{DType, Reduction};

use super::algebra::{
    adjoint, conjugate, dtype_of, joined, known_extents, matrices, minus, of_real, only, over,
    part_of, parts_of, places, plus, product, put_slice, real_part, shaped, summed, times,
    transposed, units,
};
use crate::importer::{Frame, Importer};
use crate::node::{Lowered, Node, Value, one};

/// The least rows of a block: fewer are computed one by one.
const LEAST_BLOCK: usize = 32;

/// The most blocks along the diagonal of a matrix.
const MOST_BLOCKS: usize = 16;

/// The most rows of a block of matrices with so many; where that is not known, they are one block.
fn block_of(n: &Expr) -> usize {
    let n = n.as_constant().and_then(|n| usize::try_from(n).ok()).unwrap_or(0);
    LEAST_BLOCK.max((n / MOST_BLOCKS).next_multiple_of(LEAST_BLOCK))
}

/// Where matrices of several blocks are cut in two, and the rows behind the cut.
fn cut_of(n: &Expr, block: usize) -> Option<(usize, usize)> {
    let n = n.as_constant().and_then(|n| usize::try_from(n).ok()).filter(|&n| n > block)?;
    let cut = (n / 2).next_multiple_of(block).min(n - 1);
    Some((cut, n - cut))
}

/// Square matrices cut in two, each as rows and columns: what is above, below, and the corner.
fn quarters(
    graph: &mut Graph,
    value: &Value,
    (cut, rest): (usize, usize),
) -> Accepted<(Value, Value, Value)> {
    let (first, second) = ((0, cut), (cut, rest));
    let upper = part_of(graph, value, 1, first)?;
    let lower = part_of(graph, value, 1, second)?;
    Ok((
        part_of(graph, &upper, 2, first)?,
        part_of(graph, &lower, 2, first)?,
        part_of(graph, &lower, 2, second)?,
    ))
}

/// The lower factor, or the upper one, of Hermitian matrices. A matrix of several blocks is cut in
/// two: the factor of the upper half, what stands below by a triangular system, and the factor of
/// the rest (Golub and Van Loan, section 4.2.9), so that most of the work is products.
pub(crate) fn factored(graph: &mut Graph, value: &Value, is_lower: bool) -> Accepted<Value> {
    let shape = value.shape().to_vec();
    let mut a = value.each(|part| matrices(graph, part))?;
    if !is_lower {
        a = adjoint(graph, &a)?;
    }
    let n = a.shape()[1].clone();
    if a.shape()[2] != n {
        return Err(shape_error("the matrices are not square"));
    }
    let (mut factor, _) = lower_factor(graph, &a, block_of(&n))?;
    if !is_lower {
        factor = adjoint(graph, &factor)?;
    }
    shaped(graph, &factor, &shape)
}

/// The lower factors of matrices `[batch, n, n]`, in blocks of at most so many rows, with the
/// inverses of the blocks on their diagonals, which who wants the factors alone does not need.
fn lower_factor(graph: &mut Graph, a: &Value, block: usize) -> Accepted<(Value, Vec<Value>)> {
    let n = a.shape()[1].clone();
    let Some(cut) = cut_of(&n, block) else {
        let factor = factor_by_columns(graph, a)?;
        let inverses = match known_extents(a) {
            Ok(_) => vec![inverse(graph, &factor, false)?],
            // There is one block alone.
            Err(_) => Vec::new(),
        };
        return Ok((factor, inverses));
    };
    let (upper, below, corner) = quarters(graph, a, cut)?;
    let (upper, mut inverses) = lower_factor(graph, &upper, block)?;
    let across = adjoint(graph, &below)?;
    let across = solve_in_blocks(graph, &upper, &across, &inverses)?;
    let below = adjoint(graph, &across)?;
    let square = product(graph, &below, &across)?;
    let corner = minus(graph, &corner, &square)?;
    let (corner, others) = lower_factor(graph, &corner, block)?;
    inverses.extend(others);
    let shape = [a.shape()[0].clone(), Expr::from(cut.0), Expr::from(cut.1)];
    let zeros = a.each(|part| graph.full(&shape, tensor::Scalar::zero(part.dtype())))?;
    let first = joined(graph, 2, &[upper, zeros])?;
    let second = joined(graph, 2, &[below, corner])?;
    Ok((joined(graph, 1, &[first, second])?, inverses))
}

/// The lower factor, a column a turn: a column less the product of the columns before, divided by
/// the root of its diagonal element, which is real (Golub and Van Loan, section 4.2.5).
fn factor_by_columns(graph: &mut Graph, a: &Value) -> Accepted<Value> {
    let (n, dtype) = (a.shape()[1].clone(), dtype_of(a)?);
    // Column j of each matrix is slice j.
    let columns = a.each(|part| graph.transpose(part, &[2, 0, 1]))?;
    let zeros = a.each(|part| {
        let shape = part.shape().to_vec();
        graph.full(&shape, tensor::Scalar::zero(dtype))
    })?;
    let (carried, scanned) = (parts_of(&zeros), parts_of(&columns));
    let found = graph.scan((&n, false), &carried, &scanned, &[], |graph, j, carried, slices| {
        let factor = zeros.with_parts(&mut carried.iter().cloned())?;
        let column = columns.with_parts(&mut slices.iter().cloned())?;
        let own = places(graph, &n)?;
        let is_here = graph.equal(&own, j)?;
        // Row j of the factor, its product with all rows.
        let standing = graph.reshape(&is_here, &[Expr::ONE, n.clone(), Expr::ONE])?;
        let row = only(graph, &standing, &factor)?;
        let row = summed(graph, &row, &[1], true)?;
        let row = conjugate(graph, &row)?;
        let products = times(graph, &factor, &row)?;
        let products = summed(graph, &products, &[2], false)?;
        let rest = minus(graph, &column, &products)?;
        let zero = graph.number(dtype, 0.0);
        let diagonal = graph.select(&is_here, real_part(&rest)?, &zero)?;
        let diagonal = graph.reduce_axes(&diagonal, &[1], Reduction::Sum, true)?;
        let root = graph.sqrt(&diagonal)?;
        let rest = rest.each(|part| graph.div(part, &root))?;
        let is_below = graph.greater(&own, j)?;
        let below = only(graph, &is_below, &rest)?;
        let real = graph.select(&is_here, real_part(&rest)?, &zero)?;
        let real = of_real(graph, &below, real)?;
        let own = plus(graph, &below, &real)?;
        let next = put_slice(graph, &factor, &own, 2, j)?;
        Ok(Turn { carried: parts_of(&next), stacked: Vec::new() })
    })?;
    zeros.with_parts(&mut found.into_iter())
}

pub(crate) fn cholesky<'p>(importer: &mut Importer<'p>, node: &Node<'p>, _: &mut Frame) -> Lowered {
    one(factored(&mut importer.graph, node.value(0)?, node.flag("lower"))?)
}

/// What a triangular matrix is multiplied with, and how.
#[derive(Clone, Copy)]
pub(crate) struct TriangularForm {
    pub(crate) is_left: bool,
    pub(crate) is_lower: bool,
    pub(crate) is_transposed: bool,
    pub(crate) is_conjugated: bool,
    pub(crate) is_unit: bool,
}

pub(crate) fn triangular_solve<'p>(
    importer: &mut Importer<'p>,
    node: &Node<'p>,
    _: &mut Frame,
) -> Lowered {
    let transposition = node.word("transpose_a").unwrap_or("NO_TRANSPOSE");
    let form = TriangularForm {
        is_left: node.flag("left_side"),
        is_lower: node.flag("lower"),
        is_transposed: transposition != "NO_TRANSPOSE",
        is_conjugated: transposition == "ADJOINT",
        is_unit: node.flag("unit_diagonal"),
    };
    let (a, b) = (node.value(0)?, node.value(1)?);
    Ok(vec![solved(&mut importer.graph, a, b, form)?])
}

/// Solves `op(a) x = b`, or `x op(a) = b`. Other cases become that of a lower matrix
/// on the left by transposition, and by reading rows and columns from the end.
pub(crate) fn solved(
    graph: &mut Graph,
    a: &Value,
    b: &Value,
    form: TriangularForm,
) -> Accepted<Value> {
    let shape = b.shape().to_vec();
    let mut is_lower = form.is_lower;
    let mut a = a.each(|part| matrices(graph, part))?;
    let mut b = b.each(|part| matrices(graph, part))?;
    if form.is_conjugated {
        a = conjugate(graph, &a)?;
    }
    if !form.is_left {
        b = transposed(graph, &b)?;
    }
    if form.is_transposed == form.is_left {
        a = transposed(graph, &a)?;
        is_lower = !is_lower;
    }
    let n = a.shape()[1].clone();
    if a.shape()[2] != n || b.shape()[1] != n || a.shape()[0] != b.shape()[0] {
        return Err(shape_error("the matrices do not fit each other"));
    }
    if !is_lower {
        a = a.each(|part| graph.reversed(part, &[1, 2]))?;
        b = b.each(|part| graph.reversed(part, &[1]))?;
    }
    let block = block_of(&n);
    let found = match cut_of(&n, block) {
        None => solve_by_rows(graph, &a, &b, form.is_unit)?,
        Some(_) => {
            let inverses = inverses(graph, &a, form.is_unit, block)?;
            solve_in_blocks(graph, &a, &b, &inverses)?
        }
    };
    found.each(|part| {
        let mut part = part.clone();
        if !is_lower {
            part = graph.reversed(&part, &[1])?;
        }
        if !form.is_left {
            part = graph.transpose(&part, &[0, 2, 1])?;
        }
        graph.reshape(&part, &shape)
    })
}

/// The inverses of the blocks of so many rows on the diagonal of lower matrices `[batch, n, n]`,
/// all but a shorter last one beside each other: of a whole system, which has many blocks behind
/// one another, that is what takes turns.
fn inverses(graph: &mut Graph, a: &Value, is_unit: bool, block: usize) -> Accepted<Vec<Value>> {
    let (batch, n, _) = known_extents(a)?;
    let mut blocks = Vec::new();
    for first in (0..n).step_by(block) {
        let own = (first, block.min(n - first));
        let rows = part_of(graph, a, 1, own)?;
        blocks.push(part_of(graph, &rows, 2, own)?);
    }
    let last = if n % block == 0 { None } else { blocks.pop() };
    let all = joined(graph, 0, &blocks)?;
    let all = inverse(graph, &all, is_unit)?;
    let [count, rows] = [blocks.len(), block].map(Expr::from);
    let all = shaped(graph, &all, &[count, batch.clone(), rows.clone(), rows.clone()])?;
    let mut found = Vec::new();
    for number in 0..blocks.len() {
        let own = part_of(graph, &all, 0, (number, 1))?;
        found.push(shaped(graph, &own, &[batch.clone(), rows.clone(), rows.clone()])?);
    }
    if let Some(last) = last {
        found.push(inverse(graph, &last, is_unit)?);
    }
    Ok(found)
}

/// The inverses of lower matrices, row by row.
fn inverse(graph: &mut Graph, a: &Value, is_unit: bool) -> Accepted<Value> {
    let (batch, rows, columns) = known_extents(a)?;
    let ones = units(graph, a, (&batch, rows, columns))?;
    solve_by_rows(graph, a, &ones, is_unit)
}

/// As [`solved`], of lower matrices `[batch, n, n]` on the left of `[batch, n, m]`, by the inverses
/// of the blocks on the diagonal: the first half, then the rest less what the first half makes of
/// it.
fn solve_in_blocks(graph: &mut Graph, a: &Value, b: &Value, inverses: &[Value]) -> Accepted<Value> {
    if let [inverse] = inverses {
        return product(graph, inverse, b);
    }
    let rows = inverses.first().and_then(|inverse| inverse.shape()[1].as_constant());
    let block = rows.and_then(|rows| usize::try_from(rows).ok());
    let cut = block.and_then(|block| cut_of(&a.shape()[1], block));
    let (Some(block), Some(cut)) = (block, cut) else {
        return Err(shape_error("the blocks do not fit the matrices"));
    };
    let (upper, below, corner) = quarters(graph, a, cut)?;
    let right = part_of(graph, b, 1, (0, cut.0))?;
    let other = part_of(graph, b, 1, cut)?;
    let (first, second) = inverses.split_at(cut.0 / block);
    let found = solve_in_blocks(graph, &upper, &right, first)?;
    let change = product(graph, &below, &found)?;
    let other = minus(graph, &other, &change)?;
    let other = solve_in_blocks(graph, &corner, &other, second)?;
    joined(graph, 1, &[found, other])
}

/// As [`solved`], of lower matrices on the left, a row a turn.
fn solve_by_rows(graph: &mut Graph, a: &Value, b: &Value, is_unit: bool) -> Accepted<Value> {
    let n = a.shape()[1].clone();
    let rows_of_a = a.each(|part| graph.transpose(part, &[1, 0, 2]))?;
    let rows_of_b = b.each(|part| graph.transpose(part, &[1, 0, 2]))?;
    let zeros = b.each(|part| {
        let shape = part.shape().to_vec();
        graph.full(&shape, tensor::Scalar::zero(part.dtype()))
    })?;
    let (carried, scanned) =
        (parts_of(&zeros), [parts_of(&rows_of_a), parts_of(&rows_of_b)].concat());
    let found = graph.scan((&n, false), &carried, &scanned, &[], |graph, i, carried, slices| {
        let mut slices = slices.iter().cloned();
        let found = zeros.with_parts(&mut carried.iter().cloned())?;
        let row = rows_of_a.with_parts(&mut slices)?;
        let right = rows_of_b.with_parts(&mut slices)?;
        let own = places(graph, &n)?;
        let (is_before, is_here) = (graph.less(&own, i)?, graph.equal(&own, i)?);
        let before = only(graph, &is_before, &row)?;
        let shape = [before.shape(), &[Expr::ONE]].concat();
        let before = shaped(graph, &before, &shape)?;
        let products = times(graph, &found, &before)?;
        let products = summed(graph, &products, &[1], false)?;
        let mut next = minus(graph, &right, &products)?;
        if !is_unit {
            let diagonal = only(graph, &is_here, &row)?;
            let diagonal = summed(graph, &diagonal, &[1], true)?;
            next = over(graph, &next, &diagonal)?;
        }
        let next = put_slice(graph, &found, &next, 1, i)?;
        Ok(Turn { carried: parts_of(&next), stacked: Vec::new() })
    })?;
    zeros.with_parts(&mut found.into_iter())
}

/// Which leading minor of each matrix is not positive, from 1 on, by its factor; 0 for none.
pub(crate) fn failed_minor(graph: &mut Graph, factor: &Value, dtype: DType) -> Accepted<Operand> {
    let factor = real_part(factor)?;
    let lead = factor.shape()[..factor.rank().saturating_sub(2)].to_vec();
    let factor = matrices(graph, factor)?;
    let n = factor.shape()[1].clone();
    let square = [n.clone(), n.clone()];
    let (rows, columns) =
        (graph.iota(DType::I64, &square, 0)?, graph.iota(DType::I64, &square, 1)?);
    let is_diagonal = graph.equal(&rows, &columns)?;
    let is_nan = graph.map(tensor::ScalarFunction::IsNan, &[&factor])?;
    let fails = graph.and(&is_nan, &is_diagonal)?;
    let number = graph.add_number(&rows, 1.0)?;
    let none = graph.number(DType::I64, i64::MAX as f64);
    let number = graph.select(&fails, &number, &none)?;
    let first = graph.reduce_axes(&number, &[1, 2], Reduction::Min, false)?;
    let zero = graph.number(DType::I64, 0.0);
    let is_none = graph.equal(&first, &none)?;
    let first = graph.select(&is_none, &zero, &first)?;
    let first = graph.cast(&first, dtype)?;
    graph.reshape(&first, &lead)
}
