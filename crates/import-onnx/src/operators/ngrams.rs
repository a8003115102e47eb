//! `TfIdfVectorizer`: how often each sequence of a pool occurs in the rows of the input.

use front::{Accepted, Graph, Operand, constant_value, shape_error};
use graph::Op;
use sym::Expr;
use tensor::{DType, Reduction, Scalar, ScalarFunction as F, Tensor};

use super::Lowered;
use crate::node::{Node, attribute_error};

/// The sequences of one length.
struct Grams {
    length: usize,
    /// Behind each other.
    items: Vec<i64>,
    /// The result's column of each.
    columns: Vec<i64>,
}

fn pool(node: &Node<'_>, items: &[i64]) -> Accepted<Vec<Grams>> {
    let starts = node.ints("ngram_counts")?.unwrap_or_default();
    let columns = node.ints("ngram_indexes")?.unwrap_or_default();
    if columns.iter().any(|column| !(0..1 << 31).contains(column)) {
        return Err(attribute_error("ngram_indexes", "a column is negative or too large"));
    }
    let mut grams = Vec::new();
    let mut used = 0;
    for (number, &start) in starts.iter().enumerate() {
        let length = number + 1;
        let end = starts.get(number + 1).copied().unwrap_or(items.len() as i64);
        let range = usize::try_from(start).ok().zip(usize::try_from(end).ok());
        let own = range.and_then(|(start, end)| items.get(start..end));
        let Some(own) = own.filter(|own| own.len() % length == 0) else {
            return Err(attribute_error("ngram_counts", "it does not divide the pool"));
        };
        let count = own.len() / length;
        let Some(own_columns) = columns.get(used..used + count) else {
            return Err(attribute_error("ngram_indexes", "there are fewer than sequences"));
        };
        used += count;
        grams.push(Grams { length, items: own.to_vec(), columns: own_columns.to_vec() });
    }
    Ok(grams)
}

/// Each sequence is compared with all places of a row at once; with skips, items stand apart.
pub(super) fn tf_idf(node: &Node<'_>, graph: &mut Graph, x: &Operand, items: &[i64]) -> Lowered {
    let rows = match x.rank() {
        1 => graph.reshape(x, &[Expr::ONE, x.shape()[0].clone()])?,
        2 => x.clone(),
        rank => return Err(shape_error(format!("an input of rank {rank}"))),
    };
    let rows = graph.cast(&rows, DType::I64)?;
    let (least, most) = (node.int("min_gram_length", 1)?, node.int("max_gram_length", 1)?);
    let skips = node.int("max_skip_count", 0)?;
    if !(0..1 << 16).contains(&skips) {
        return Err(attribute_error("max_skip_count", "it is negative or too large"));
    }
    let pool = pool(node, items)?;
    let columns = pool.iter().flat_map(|grams| &grams.columns);
    let width = columns.max().map_or(0, |column| column + 1);
    let shape = [rows.shape()[0].clone(), Expr::from(width)];
    let mut counts = graph.full(&shape, Scalar::f32(0.0))?;
    // What stands behind a row's end occurs in no sequence.
    let outside = (i64::MIN..).find(|item| !pool.iter().any(|grams| grams.items.contains(item)));
    let outside = Operand::of_scalar(Scalar::i64(outside.unwrap_or(i64::MIN)));
    for grams in &pool {
        let length = grams.length as i64;
        if !(least..=most).contains(&length) || grams.columns.is_empty() {
            continue;
        }
        // One item alone is the same for any skip.
        let distances = if length == 1 { 1 } else { skips + 1 };
        for distance in 1..=distances {
            let found = occurrences(node, graph, &rows, grams, distance, &outside)?;
            let column = Tensor::from_slice(&[grams.columns.len()], &grams.columns);
            let column = constant_value(&name(node, "columns", grams.length), column, true);
            let op = Op::Scatter {
                axes: vec![1],
                batch: 0,
                position: 1,
                reduction: Some(Reduction::Sum),
            };
            counts = graph.scatter(&counts, &found, &[column], op)?;
        }
    }
    let mode = node.word("mode", &["TF", "IDF", "TFIDF"])?;
    if mode == "IDF" {
        let zero = graph.number(DType::F32, 0.0);
        let occurs = graph.greater(&counts, &zero)?;
        counts = graph.cast(&occurs, DType::F32)?;
    }
    if let Some(weights) = node.floats("weights")?.filter(|_| mode != "TF") {
        let weights = Tensor::from_slice(&[weights.len()], &weights);
        let weights = constant_value(&name(node, "weights", 0), weights, true);
        let weights = graph.broadcast_to(&weights, counts.shape())?;
        counts = graph.mul(&counts, &weights)?;
    }
    if x.rank() == 1 {
        counts = graph.reshape(&counts, &shape[1..])?;
    }
    Ok(vec![counts])
}

fn name(node: &Node<'_>, what: &str, length: usize) -> String {
    let output = node.proto.output.first().map_or("", String::as_str);
    format!("{output}.{what}.{length}")
}

/// How often each sequence occurs in each row, `[rows, sequences]`.
fn occurrences(
    node: &Node<'_>,
    graph: &mut Graph,
    rows: &Operand,
    grams: &Grams,
    distance: i64,
    outside: &Operand,
) -> Accepted<Operand> {
    let (length, count) = (grams.length, grams.columns.len());
    let extent = rows.shape()[1].clone();
    let behind = Expr::from(distance * (length as i64 - 1));
    let padded =
        graph.pad(rows, outside, &[Expr::ZERO, Expr::ZERO], &[Expr::ZERO, behind], &[0, 0])?;
    let items = Tensor::from_slice(&[count, length], &grams.items);
    let items = constant_value(&name(node, "pool", length), items, true);
    let shape = [rows.shape()[0].clone(), extent.clone(), Expr::from(count)];
    graph.check_size(&shape)?;
    let mut matches: Option<Operand> = None;
    for place in 0..length {
        let start = Expr::from(distance * place as i64);
        let window = graph.slice_axis(&padded, 1, start, 1, extent.clone())?;
        let window = graph.broadcast(&window, &shape, &[0, 1])?;
        let item = graph.slice_axis(&items, 1, Expr::from(place), 1, Expr::ONE)?;
        let item = graph.reshape(&item, &shape[2..])?;
        let item = graph.broadcast(&item, &shape, &[2])?;
        let same = graph.map(F::Eq, &[&window, &item])?;
        matches = Some(match matches {
            Some(before) => graph.and(&before, &same)?,
            None => same,
        });
    }
    let Some(matches) = matches else { return Err(shape_error("a sequence without items")) };
    let ones = graph.cast(&matches, DType::F32)?;
    graph.reduce_axes(&ones, &[1], Reduction::Sum, false)
}
