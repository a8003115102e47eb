//! Sums of products in index notation.

use std::collections::{BTreeMap, BTreeSet};

use base::{Diagnostic, IntoTree};
use graph::IterationSpace;
use sym::Expr;
use tensor::Reduction;

use crate::value::Operand;
use crate::writer::{Accepted, Graph};

/// A label of a sum of products: a letter, or an axis under the ellipsis counted from the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Label {
    Ellipsis(usize),
    Letter(char),
}

/// A sum of products in index notation, of any number of operands, taken in pairs from the left;
/// `refused` says what is wrong with an equation that does not fit them.
pub fn einsum(
    graph: &mut Graph,
    equation: &str,
    inputs: &[Operand],
    refused: impl Fn(String) -> Diagnostic,
) -> Accepted<Operand> {
    let (terms, output) = parse_equation(equation, inputs)
        .map_err(|reason| refused(format!("`{equation}`: {reason}")))?;
    let (Some(first), Some(first_labels)) = (inputs.first(), terms.first()) else {
        return Err(refused("there are no operands".to_owned()));
    };
    let (mut value, mut labels) = (first.clone(), first_labels.clone());
    let mut last: BTreeMap<Label, usize> = BTreeMap::new();
    for (number, term) in terms.iter().enumerate() {
        last.extend(term.iter().map(|label| (*label, number)));
    }
    last.extend(output.iter().map(|label| (*label, inputs.len())));
    for number in 1..inputs.len() {
        // What neither the output nor a later operand has is summed now.
        let wanted: Vec<Label> = if number + 1 == inputs.len() {
            output.clone()
        } else {
            let here = labels.iter().chain(&terms[number]).copied();
            let wanted: BTreeSet<Label> = here.filter(|label| last[label] > number).into_set();
            wanted.into_iter().collect()
        };
        let operands = [(&value, &labels[..]), (&inputs[number], &terms[number][..])];
        value = sum_of_products(graph, &operands, &wanted)?;
        labels = wanted;
    }
    if inputs.len() == 1 {
        value = sum_of_products(graph, &[(&value, &labels)], &output)?;
    }
    Ok(value)
}

/// Labels of the operands' axes and of the result's.
fn parse_equation(
    equation: &str,
    inputs: &[Operand],
) -> std::result::Result<(Vec<Vec<Label>>, Vec<Label>), String> {
    let equation: String = equation.chars().filter(|c| !c.is_whitespace()).collect();
    let (left, right) = match equation.split_once("->") {
        Some((left, right)) => (left, Some(right)),
        None => (equation.as_str(), None),
    };
    let texts: Vec<&str> = left.split(',').collect();
    if texts.len() != inputs.len() {
        return Err(format!("{} operands, but {} inputs", texts.len(), inputs.len()));
    }
    let mut terms = Vec::new();
    let mut widest = 0;
    for (text, input) in texts.iter().zip(inputs) {
        let letters = text.replacen("...", "", 1).chars().count();
        let under = input.rank().checked_sub(letters).ok_or("more letters than axes")?;
        if under > 0 && !text.contains("...") {
            return Err(format!("{letters} letters for {} axes", input.rank()));
        }
        widest = widest.max(under);
        terms.push(parse_term(text, under)?);
    }
    let output = match right {
        Some(text) => parse_term(text, if text.contains("...") { widest } else { 0 })?,
        None => {
            // The ellipsis, then the letters that stand once, in their order.
            let mut count: BTreeMap<Label, usize> = BTreeMap::new();
            terms.iter().flatten().for_each(|label| *count.entry(*label).or_default() += 1);
            let ellipsis = (0..widest).rev().map(Label::Ellipsis);
            let once = count
                .iter()
                .filter(|(label, count)| **count == 1 && matches!(label, Label::Letter(_)));
            ellipsis.chain(once.map(|(label, _)| *label)).collect()
        }
    };
    for (index, label) in output.iter().enumerate() {
        if output[..index].contains(label) {
            return Err("an index stands twice in the result".to_owned());
        }
        if !terms.iter().any(|term| term.contains(label)) {
            return Err("an index of the result stands in no operand".to_owned());
        }
    }
    Ok((terms, output))
}

fn parse_term(text: &str, under: usize) -> std::result::Result<Vec<Label>, String> {
    let (before, after) = text.split_once("...").unwrap_or((text, ""));
    let letter = |c: char| match c.is_ascii_alphabetic() {
        true => Ok(Label::Letter(c)),
        false => Err(format!("`{c}` is not an index")),
    };
    let mut labels = before.chars().map(letter).collect::<std::result::Result<Vec<_>, _>>()?;
    if text.contains("...") {
        labels.extend((0..under).rev().map(Label::Ellipsis));
    }
    for c in after.chars() {
        labels.push(letter(c)?);
    }
    Ok(labels)
}

/// One or two operands multiplied and summed over all labels but those wanted.
fn sum_of_products(
    graph: &mut Graph,
    operands: &[(&Operand, &[Label])],
    wanted: &[Label],
) -> Accepted<Operand> {
    let mut extents: BTreeMap<Label, Expr> = BTreeMap::new();
    for (value, labels) in operands {
        for (label, extent) in labels.iter().zip(value.shape()) {
            let known = extents.entry(*label).or_insert(Expr::ONE);
            let common =
                graph.common_shape(&[std::slice::from_ref(known), std::slice::from_ref(extent)])?;
            *known = common[0].clone();
        }
    }
    let summed = extents.keys().filter(|label| !wanted.contains(label));
    let order: Vec<Label> = wanted.iter().chain(summed).copied().collect();
    let position = |label: &Label| order.iter().position(|other| other == label).unwrap_or(0);
    let mut refined = Vec::new();
    let mut indices = Vec::new();
    for (value, labels) in operands {
        let mut shape = Vec::new();
        let mut index = Vec::new();
        for (label, extent) in labels.iter().zip(value.shape()) {
            let is_one = extent.is_one();
            shape.push(if is_one { Expr::ONE } else { extents[label].clone() });
            index.push(if is_one { Expr::ZERO } else { IterationSpace::axis(position(label)) });
        }
        refined.push(graph.refine(value, &shape)?);
        indices.push(index);
    }
    let space = IterationSpace {
        extents: order.iter().map(|label| extents[label].clone()).collect(),
        parallel: wanted.len(),
        operands: indices,
    };
    let dtype = refined[0].dtype();
    let accumulator = graph::accumulator_of(dtype);
    let result = match &refined[..] {
        [a, b] => graph.contract(space, a, b, accumulator, dtype)?,
        _ => graph.reduce(space, &refined[0], Reduction::Sum, accumulator)?,
    };
    graph.cast(&result, dtype)
}
