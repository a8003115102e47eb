//! Products of matrices and what belongs to them.

use front::{Accepted, Graph, Operand, Turn, shape_error};
use graph::Op;
use sym::Expr;
use tensor::{DType, Reduction, Scalar, ScalarFunction as F};

use super::Lowered;
use crate::node::{Node, attribute_error};
use front::product;

/// An operand of `FusedMatMul`: its first axis moved behind the other axes of the batch, and the
/// last two exchanged, as attributes say.
fn turned(graph: &mut Graph, x: &Operand, moves_batch: bool, is_turned: bool) -> Accepted<Operand> {
    let rank = x.rank();
    let mut order: Vec<usize> = (0..rank).collect();
    if moves_batch && rank > 2 {
        order[..rank - 1].rotate_left(1);
    }
    if is_turned && rank > 1 {
        order.swap(rank - 2, rank - 1);
    }
    graph.transpose(x, &order)
}

/// `FusedMatMul`: `alpha` times the product of operands that may be read transposed.
pub(super) fn fused_product(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let (batch_a, batch_b) = (node.flag("transBatchA", false)?, node.flag("transBatchB", false)?);
    let a = turned(graph, node.input(0)?, batch_a, node.flag("transA", false)?)?;
    let b = turned(graph, node.input(1)?, batch_b, node.flag("transB", false)?)?;
    let result = product(graph, &a, &b)?;
    match node.float("alpha", 1.0)? {
        1.0 => Ok(vec![result]),
        alpha => Ok(vec![graph.mul_number(&result, alpha)?]),
    }
}

/// `Inverse`: elimination beside the unit matrix, a column at a time, with the greatest pivot.
pub(super) fn inverse(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let x = node.input(0)?;
    let [lead @ .., rows, columns] = x.shape() else {
        return Err(shape_error(format!("a matrix of rank {}", x.rank())));
    };
    graph.assume_equal(rows, columns)?;
    let (batch, size): (Expr, Expr) = (lead.iter().product(), rows.clone());
    let wide = graph.widen(x)?;
    let dtype = wide.dtype();
    let square = [batch.clone(), size.clone(), size.clone()];
    let matrix = graph.reshape(&wide, &square)?;
    let (row, column) = (graph.iota(DType::I64, &square, 1)?, graph.iota(DType::I64, &square, 2)?);
    let is_diagonal = graph.equal(&row, &column)?;
    let unit = graph.cast(&is_diagonal, dtype)?;
    let both = graph.concat(2, &[matrix, unit])?;
    let line = [batch.clone(), size.clone()];
    let results = graph.scan((&size, false), &[both], &[], &[], |graph, step, state, _| {
        let matrix = &state[0];
        let number = graph.iota(DType::I64, &line, 1)?;
        let index = graph.broadcast(step, std::slice::from_ref(&batch), &[])?;
        let column = graph.gather(matrix, &[2], std::slice::from_ref(&index), 1, 0)?;
        let is_open = graph.greater_equal(&number, step)?;
        let magnitude = graph.abs(&column)?;
        let none = graph.number(dtype, -1.0);
        let candidates = graph.select(&is_open, &magnitude, &none)?;
        let op = Op::ArgReduce { axis: 1, greatest: true, last: false };
        let pivot_row = graph.primitive(op, &[&candidates])?;
        // Rows are exchanged by reading them in another order.
        let tall = graph.reshape(&pivot_row, &[batch.clone(), Expr::ONE])?;
        let (is_step, is_pivot) = (graph.equal(&number, step)?, graph.equal(&number, &tall)?);
        let order = graph.select(&is_pivot, step, &number)?;
        let order = graph.select(&is_step, &tall, &order)?;
        let matrix = graph.gather(matrix, &[1], std::slice::from_ref(&order), 1, 0)?;
        let top = graph.gather(&matrix, &[1], std::slice::from_ref(&index), 1, 0)?;
        let column = graph.gather(&matrix, &[2], std::slice::from_ref(&index), 1, 0)?;
        let pivot = graph.gather(&column, &[1], std::slice::from_ref(&index), 1, 0)?;
        let pivot = graph.reshape(&pivot, &[batch.clone(), Expr::ONE])?;
        let top = graph.div(&top, &pivot)?;
        let top = graph.reshape(&top, &[batch.clone(), Expr::ONE, &size * 2])?;
        let factor = graph.reshape(&column, &[batch.clone(), size.clone(), Expr::ONE])?;
        let change = graph.mul(&factor, &top)?;
        let rest = graph.sub(&matrix, &change)?;
        let is_step = graph.reshape(&is_step, &[batch.clone(), size.clone(), Expr::ONE])?;
        Ok(Turn { carried: vec![graph.select(&is_step, &top, &rest)?], stacked: Vec::new() })
    })?;
    let whole = results.into_iter().next();
    let whole = whole.ok_or_else(|| shape_error("a loop without results"))?;
    let right = graph.slice_axis(&whole, 2, size.clone(), 1, size)?;
    let right = graph.reshape(&right, x.shape())?;
    Ok(vec![graph.cast(&right, x.dtype())?])
}

/// `CDist`: the distance of each row of one matrix to each of another. Squared, it is
/// `a . a - 2 a . b + b . b`, so that a product does the work.
pub(super) fn distances(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let (a, b) = (node.input(0)?, node.input(1)?);
    if a.rank() != 2 || b.rank() != 2 {
        return Err(shape_error("both operands must be matrices"));
    }
    let takes_root = match node.string("metric", "sqeuclidean")? {
        "euclidean" => true,
        "sqeuclidean" => false,
        metric => {
            return Err(attribute_error("metric", format!("`{metric}` is no distance known here")));
        }
    };
    let mut norm = |x: &Operand| {
        let square = graph.square(x)?;
        graph.reduce_axes(&square, &[1], Reduction::Sum, true)
    };
    let (own, other) = (norm(a)?, norm(b)?);
    let other = graph.transpose(&other, &[1, 0])?;
    let turned = graph.transpose(b, &[1, 0])?;
    let products = product(graph, a, &turned)?;
    let twice = graph.mul_number(&products, -2.0)?;
    let sum = graph.add(&own, &twice)?;
    let sum = graph.add(&sum, &other)?;
    let zero = graph.number(sum.dtype(), 0.0);
    let square = graph.max(&sum, &zero)?;
    Ok(vec![if takes_root { graph.sqrt(&square)? } else { square }])
}

/// `NGramRepeatBlock`: scores of tokens that would end a run of tokens that has been there before
/// become -inf.
pub(super) fn block_repeats(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let (ids, scores) = (node.input(0)?, node.input(1)?);
    let size = match node.int("ngram_size", 0)? {
        size if (1..1 << 16).contains(&size) => size,
        size => return Err(attribute_error("ngram_size", format!("{size} tokens"))),
    };
    let ([batch, length], [_, words]) = (ids.shape(), scores.shape()) else {
        return Err(shape_error("tokens and scores must have two axes"));
    };
    let count = length - (size - 1);
    if graph.builder.bounds(&count).1 < 1 {
        return Ok(vec![scores.clone()]);
    }
    // Each run that begins at a place, against the last tokens.
    let shape = [batch.clone(), count.clone()];
    let mut repeats = graph.full(&shape, Scalar::bool(true))?;
    for place in 0..size - 1 {
        let here = graph.slice_axis(ids, 1, Expr::from(place), 1, count.clone())?;
        let last = graph.slice_axis(ids, 1, length - (size - 1) + place, 1, Expr::ONE)?;
        let same = graph.equal(&here, &last)?;
        repeats = graph.and(&repeats, &same)?;
    }
    let next = graph.slice_axis(ids, 1, Expr::from(size - 1), 1, count.clone())?;
    let next = graph.reshape(&next, &[batch.clone(), count.clone(), Expr::ONE])?;
    let word = graph.iota(DType::I64, std::slice::from_ref(words), 0)?;
    let is_word = graph.equal(&next, &word)?;
    let repeats = graph.reshape(&repeats, &[batch.clone(), count, Expr::ONE])?;
    let is_hit = graph.and(&is_word, &repeats)?;
    let is_hit = graph.reduce_axes(&is_hit, &[1], Reduction::Or, false)?;
    let never = graph.number(scores.dtype(), f64::NEG_INFINITY);
    Ok(vec![graph.select(&is_hit, &never, scores)?])
}

/// `WordConvEmbedding`: characters of words as vectors, a convolution over each word, and of each
/// filter the greatest of its bent results over windows that begin within the word.
pub(super) fn word_embedding(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let (words, w) = (node.input(0)?, node.input(1)?);
    let (bias, table) = (node.input(2)?, node.input(3)?);
    let [filters, one, window, size] = w.shape() else {
        return Err(shape_error(format!("filters of rank {}, not 4", w.rank())));
    };
    let [count, letters] = words.shape() else {
        return Err(shape_error(format!("words of rank {}, not 2", words.rank())));
    };
    graph.assume_equal(one, &Expr::ONE)?;
    if table.rank() != 2 {
        return Err(shape_error(format!("vectors of characters of rank {}", table.rank())));
    }
    let window = window.as_constant().ok_or_else(|| node.not_fixed(1, "size of the window"))?;
    let (count, letters) = (count.clone(), letters.clone());
    let outputs = &letters - (window - 1);
    if graph.builder.bounds(&outputs).1 < 1 {
        return Err(shape_error(format!("a window of {window} does not fit words")));
    }
    let index = graph.cast(words, DType::I64)?;
    let index = graph.reshape(&index, &[count.clone(), letters])?;
    let vectors = graph.gather(table, &[0], std::slice::from_ref(&index), 0, 0)?;
    let axis = graph::IterationSpace::axis;
    let space = graph::IterationSpace {
        extents: vec![
            count.clone(),
            outputs.clone(),
            filters.clone(),
            Expr::from(window),
            size.clone(),
        ],
        parallel: 3,
        operands: vec![vec![axis(0), axis(1) + axis(3), axis(4)], vec![axis(2), axis(3), axis(4)]],
    };
    let flat = graph.reshape(w, &[filters.clone(), Expr::from(window), size.clone()])?;
    let dtype = w.dtype();
    let sums = graph.contract(space, &vectors, &flat, graph::accumulator_of(dtype), dtype)?;
    let bias = graph.broadcast_axis(bias, sums.shape(), 2)?;
    let sums = graph.add(&sums, &bias)?;
    let bent = graph.tanh(&sums)?;
    // A window counts that begins before the first blank, or is the first of a word that has one.
    let zero = graph.number(DType::I64, 0.0);
    let is_letter = graph.greater(&index, &zero)?;
    let is_letter = graph.cast(&is_letter, DType::I64)?;
    let length = graph.reduce_axes(&is_letter, &[1], Reduction::Sum, true)?;
    let wide = graph.number(DType::I64, window as f64);
    let padded = graph.max(&length, &wide)?;
    let start = graph.iota(DType::I64, &[count.clone(), outputs], 1)?;
    let end = graph.add(&start, &wide)?;
    let fits = graph.less_equal(&end, &padded)?;
    let column = graph.reshape(&fits, &[fits.shape(), &[Expr::ONE]].concat())?;
    let lowest = Operand::of_scalar(Reduction::Max.identity(dtype));
    let kept = graph.select(&column, &bent, &lowest)?;
    let best = graph.reduce_axes(&kept, &[1], Reduction::Max, false)?;
    let has_letters = graph.map(F::Gt, &[&length, &zero])?;
    let none = graph.number(dtype, 0.0);
    Ok(vec![graph.select(&has_letters, &best, &none)?])
}
