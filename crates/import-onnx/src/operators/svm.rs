//! Support vector machines of `ai.onnx.ml`, as products with their support vectors.

use std::collections::BTreeMap;

use front::{Accepted, Graph, Operand, Turn, constant_value, shape_error};
use tensor::{DType, Reduction, ScalarFunction as F, Tensor};

use graph::Op;
use sym::Expr;

use super::Lowered;
use super::labels::Labels;
use super::learning::{post_transform, post_transform_name};
use crate::node::{Node, attribute_error};

/// A constant of an operator.
fn weight(node: &Node<'_>, what: &str, shape: &[usize], values: Vec<f32>) -> Operand {
    let output = node.proto.output.first().map_or("", String::as_str);
    constant_value(&format!("{output}.{what}"), Tensor::from_vec(shape, values), true)
}

/// Rows of numbers in f32, and how many features a row has.
fn rows(node: &Node<'_>, graph: &mut Graph) -> Accepted<(Operand, usize)> {
    let x = graph.cast(node.input(0)?, DType::F32)?;
    let x = match x.rank() {
        1 => graph.reshape(&x, &[Expr::ONE, x.shape()[0].clone()])?,
        2 => x,
        rank => return Err(shape_error(format!("an input of rank {rank}, not 2"))),
    };
    let features = x.shape()[1].as_constant().and_then(|extent| usize::try_from(extent).ok());
    let features = features.filter(|&features| features > 0);
    features.map(|features| (x, features)).ok_or_else(|| node.not_fixed(0, "number of features"))
}

fn list(node: &Node<'_>, name: &str) -> Accepted<Vec<f32>> {
    Ok(node.floats(name)?.unwrap_or_default())
}

/// The kernel of each row with each of `count` vectors: `[n, count]`.
fn kernel(
    node: &Node<'_>,
    graph: &mut Graph,
    x: &Operand,
    features: usize,
    count: usize,
    vectors: Vec<f32>,
) -> Accepted<Operand> {
    if vectors.len() != count * features {
        let given = vectors.len();
        let reason = format!("{given} numbers are not {count} vectors of {features} features");
        return Err(attribute_error("support_vectors", reason));
    }
    let (gamma, offset, degree) = match list(node, "kernel_params")?[..] {
        [gamma, offset, degree, ..] => (f64::from(gamma), f64::from(offset), f64::from(degree)),
        _ => (0.0, 0.0, 0.0),
    };
    let vectors = weight(node, "support_vectors", &[count, features], vectors);
    let kind = node.word("kernel_type", &["LINEAR", "POLY", "RBF", "SIGMOID"])?;
    if kind == "RBF" {
        let row = graph.reshape(x, &[x.shape()[0].clone(), Expr::ONE, x.shape()[1].clone()])?;
        let distance = graph.sub(&row, &vectors)?;
        let square = graph.square(&distance)?;
        let sum = graph.reduce_axes(&square, &[2], Reduction::Sum, false)?;
        let scaled = graph.mul_number(&sum, -gamma)?;
        return graph.exp(&scaled);
    }
    let turned = graph.transpose(&vectors, &[1, 0])?;
    let product = graph.matmul(x, &turned)?;
    if kind == "LINEAR" {
        return Ok(product);
    }
    let scaled = graph.mul_number(&product, gamma)?;
    let moved = graph.add_number(&scaled, offset)?;
    match kind {
        "SIGMOID" => graph.tanh(&moved),
        _ => {
            let degree = graph.number(DType::F32, degree);
            graph.map(F::Pow, &[&moved, &degree])
        }
    }
}

/// `SVMRegressor`.
pub(super) fn regressor(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let (x, features) = rows(node, graph)?;
    let supports = usize::try_from(node.int("n_supports", 0)?).unwrap_or(0);
    let (coefficients, rho) = (list(node, "coefficients")?, list(node, "rho")?);
    let Some(&rho) = rho.first() else { return Err(attribute_error("rho", "it is missing")) };
    let sum = if supports > 0 {
        if coefficients.len() != supports {
            return Err(attribute_error("coefficients", "there must be one a support vector"));
        }
        let kernel = kernel(node, graph, &x, features, supports, list(node, "support_vectors")?)?;
        let column = weight(node, "coefficients", &[supports, 1], coefficients);
        graph.matmul(&kernel, &column)?
    } else {
        if coefficients.len() != features {
            return Err(attribute_error("coefficients", "there must be one a feature"));
        }
        let column = weight(node, "coefficients", &[features, 1], coefficients);
        graph.matmul(&x, &column)?
    };
    let sum = graph.add_number(&sum, rho.into())?;
    if node.flag("one_class", false)? {
        let zero = graph.number(DType::F32, 0.0);
        let above = graph.greater(&sum, &zero)?;
        let (yes, no) = (graph.number(DType::F32, 1.0), graph.number(DType::F32, -1.0));
        return Ok(vec![graph.select(&above, &yes, &no)?]);
    }
    Ok(vec![post_transform(graph, &sum, post_transform_name(node)?)?])
}

/// `SVMClassifier`: labels and scores. A machine decides between each two classes; the class with
/// the most decisions wins.
pub(super) fn classifier(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let (x, features) = rows(node, graph)?;
    let labels = Labels::of(node, "classlabels_ints", "classlabels_strings")?;
    let classes = labels.len();
    let (coefficients, rho) = (list(node, "coefficients")?, list(node, "rho")?);
    let post = post_transform_name(node)?;
    let per_class: Option<Vec<usize>> = node
        .ints("vectors_per_class")?
        .unwrap_or_default()
        .iter()
        .map(|&count| usize::try_from(count).ok())
        .collect();
    let per_class =
        per_class.ok_or_else(|| attribute_error("vectors_per_class", "a number is negative"))?;
    let vectors: usize = per_class.iter().sum();
    if vectors == 0 {
        let &[rho, ..] = &rho[..] else { return Err(attribute_error("rho", "it is missing")) };
        if coefficients.len() != classes * features {
            return Err(attribute_error("coefficients", "there must be one a class and feature"));
        }
        let table = weight(node, "coefficients", &[classes, features], coefficients);
        let table = graph.transpose(&table, &[1, 0])?;
        let product = graph.matmul(&x, &table)?;
        let scores = graph.add_number(&product, rho.into())?;
        let label = labels.best(node, graph, &scores)?;
        return Ok(vec![label, post_transform(graph, &scores, post)?]);
    }
    let pairs: Vec<(usize, usize)> =
        (0..classes).flat_map(|i| (i + 1..classes).map(move |j| (i, j))).collect();
    if per_class.len() != classes || rho.len() < pairs.len() || pairs.is_empty() {
        return Err(attribute_error("rho", "there must be one for each two of the classes"));
    }
    if coefficients.len() != (classes - 1) * vectors {
        return Err(attribute_error("coefficients", "there must be classes - 1 a support vector"));
    }
    let kernel = kernel(node, graph, &x, features, vectors, list(node, "support_vectors")?)?;
    // What a machine makes of each support vector: those of its two classes count.
    let starts: Vec<usize> =
        per_class.iter().scan(0, |sum, count| Some(std::mem::replace(sum, *sum + count))).collect();
    let mut table = vec![0.0; vectors * pairs.len()];
    for (number, &(i, j)) in pairs.iter().enumerate() {
        for (own, row) in [(i, j - 1), (j, i)] {
            for vector in starts[own]..starts[own] + per_class[own] {
                table[vector * pairs.len() + number] = coefficients[row * vectors + vector];
            }
        }
    }
    let table = weight(node, "machines", &[vectors, pairs.len()], table);
    let product = graph.matmul(&kernel, &table)?;
    let offsets = weight(node, "rho", &[pairs.len()], rho[..pairs.len()].to_vec());
    let machines = graph.add(&product, &offsets)?;
    let votes = votes(node, graph, &machines, &pairs, classes)?;
    let op = Op::ArgReduce { axis: 1, greatest: true, last: false };
    let mut best = graph.primitive(op, &[&votes])?;
    let (a, b) = (list(node, "prob_a")?, list(node, "prob_b")?);
    if !a.is_empty() {
        if a.len() < pairs.len() || b.len() < pairs.len() {
            return Err(attribute_error("prob_a", "there must be one for each two of the classes"));
        }
        let a = weight(node, "prob_a", &[pairs.len()], a[..pairs.len()].to_vec());
        let b = weight(node, "prob_b", &[pairs.len()], b[..pairs.len()].to_vec());
        let scaled = graph.mul(&machines, &a)?;
        let moved = graph.add(&scaled, &b)?;
        let turned = graph.neg(&moved)?;
        let odds = graph.sigmoid(&turned)?;
        let chances = probabilities(graph, &odds, classes)?;
        let label = labels.at(node, graph, best)?;
        return Ok(vec![label, post_transform(graph, &chances, post)?]);
    }
    let mut scores = machines;
    if classes == 2 {
        let negated = graph.neg(&scores)?;
        scores = graph.concat(1, &[negated, scores])?;
        if coefficients.iter().all(|&coefficient| coefficient >= 0.0) {
            best = graph.full(best.shape(), tensor::Scalar::i64(1))?;
        }
    }
    let label = labels.at(node, graph, best)?;
    Ok(vec![label, post_transform(graph, &scores, post)?])
}

/// How many machines decide for each class.
fn votes(
    node: &Node<'_>,
    graph: &mut Graph,
    machines: &Operand,
    pairs: &[(usize, usize)],
    classes: usize,
) -> Accepted<Operand> {
    let zero = graph.number(DType::F32, 0.0);
    let first = graph.greater(machines, &zero)?;
    let first = graph.cast(&first, DType::F32)?;
    let negated = graph.neg(&first)?;
    let second = graph.add_number(&negated, 1.0)?;
    let mut tables = [vec![0.0; pairs.len() * classes], vec![0.0; pairs.len() * classes]];
    for (number, &(i, j)) in pairs.iter().enumerate() {
        tables[0][number * classes + i] = 1.0;
        tables[1][number * classes + j] = 1.0;
    }
    let [of_first, of_second] =
        tables.map(|table| weight(node, "votes", &[pairs.len(), classes], table));
    let (a, b) = (graph.matmul(&first, &of_first)?, graph.matmul(&second, &of_second)?);
    graph.add(&a, &b)
}

/// Chances of classes from those of each two of them: Wu, Lin and Weng, "Probability estimates for
/// multi-class classification by pairwise coupling" (2004), algorithm 2. `odds` is `[n, pairs]`.
fn probabilities(graph: &mut Graph, odds: &Operand, classes: usize) -> Accepted<Operand> {
    let low = graph.number(DType::F32, 1e-7);
    let high = graph.number(DType::F32, 1.0 - 1e-7);
    let odds = graph.max(odds, &low)?;
    let odds = graph.min(&odds, &high)?;
    let column = |graph: &mut Graph, value: &Operand, number: usize| {
        graph.slice_axis(value, 1, Expr::from(number), 1, Expr::ONE)
    };
    // Of class `t` against `u`, columns `[n, 1]`.
    let mut chance: BTreeMap<(usize, usize), Operand> = BTreeMap::new();
    let pairs = (0..classes).flat_map(|t| (t + 1..classes).map(move |u| (t, u)));
    for (number, (t, u)) in pairs.enumerate() {
        let own = column(graph, &odds, number)?;
        let negated = graph.neg(&own)?;
        chance.insert((u, t), graph.add_number(&negated, 1.0)?);
        chance.insert((t, u), own);
    }
    // Rows of Q as `[n, classes]`: squares of the others' chances, products with the sign turned.
    let mut rows = Vec::new();
    for t in 0..classes {
        let mut row = Vec::new();
        for u in 0..classes {
            let entry = if t == u {
                let mut sum: Option<Operand> = None;
                for other in (0..classes).filter(|&other| other != t) {
                    let Some(chance) = chance.get(&(other, t)) else { continue };
                    let square = graph.square(chance)?;
                    sum = Some(match sum {
                        Some(sum) => graph.add(&sum, &square)?,
                        None => square,
                    });
                }
                sum
            } else if let (Some(a), Some(b)) = (chance.get(&(u, t)), chance.get(&(t, u))) {
                let product = graph.mul(a, b)?;
                Some(graph.neg(&product)?)
            } else {
                None
            };
            row.extend(entry);
        }
        rows.push(graph.concat(1, &row)?);
    }
    let n = odds.shape()[0].clone();
    let start = graph.full(&[n, Expr::from(classes)], tensor::Scalar::f32(1.0 / classes as f32))?;
    let outer: Vec<&Operand> = rows.iter().collect();
    let turns = Expr::from(classes.max(100));
    let results = graph.scan((&turns, false), &[start], &[], &outer, |graph, _, carried, _| {
        let next = refined(graph, &carried[0], &rows)?;
        Ok(Turn { carried: vec![next], stacked: Vec::new() })
    })?;
    results.into_iter().next().ok_or_else(|| shape_error("a loop without results"))
}

/// One round over all classes; rows that have converged stay as they are.
fn refined(graph: &mut Graph, p: &Operand, rows: &[Operand]) -> Accepted<Operand> {
    let classes = rows.len();
    let column = |graph: &mut Graph, value: &Operand, number: usize| {
        graph.slice_axis(value, 1, Expr::from(number), 1, Expr::ONE)
    };
    let mut products = Vec::new();
    for row in rows {
        let product = graph.mul(row, p)?;
        products.push(graph.reduce_axes(&product, &[1], Reduction::Sum, true)?);
    }
    let mut qp = graph.concat(1, &products)?;
    let weighted = graph.mul(p, &qp)?;
    let mut pqp = graph.reduce_axes(&weighted, &[1], Reduction::Sum, true)?;
    let error = graph.sub(&qp, &pqp)?;
    let error = graph.abs(&error)?;
    let error = graph.reduce_axes(&error, &[1], Reduction::Max, true)?;
    let least = graph.number(DType::F32, 0.005 / classes as f64);
    let is_done = graph.less(&error, &least)?;
    let mut next = p.clone();
    for (t, row) in rows.iter().enumerate() {
        let (own, diagonal) = (column(graph, &qp, t)?, column(graph, row, t)?);
        let missing = graph.sub(&pqp, &own)?;
        let step = graph.div(&missing, &diagonal)?;
        let mask: Vec<f32> = (0..classes).map(|u| if u == t { 1.0 } else { 0.0 }).collect();
        let mask = constant_value("", Tensor::from_vec(&[classes], mask), true);
        let at = graph.mul(&step, &mask)?;
        next = graph.add(&next, &at)?;
        let scale = graph.add_number(&step, 1.0)?;
        let inner = graph.mul(&step, &diagonal)?;
        let twice = graph.mul_number(&own, 2.0)?;
        let inner = graph.add(&inner, &twice)?;
        let more = graph.mul(&step, &inner)?;
        let sum = graph.add(&pqp, &more)?;
        let square = graph.square(&scale)?;
        pqp = graph.div(&sum, &square)?;
        next = graph.div(&next, &scale)?;
        let moved = graph.mul(&step, row)?;
        let moved = graph.add(&qp, &moved)?;
        qp = graph.div(&moved, &scale)?;
    }
    graph.select(&is_done, p, &next)
}
