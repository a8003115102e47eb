//! Operators that read or change shapes, and move no element relative to its neighbours.

use std::collections::BTreeSet;

use base::IntoTree;
use front::{Accepted, Graph, Known, Operand, normalize_axes, normalize_axis, shape_error};
use graph::Assumption;
use sym::Expr;
use tensor::{DType, Scalar};

use super::{Lowered, random};
use crate::node::{Node, attribute_error};

/// Extents as a value of rank 1.
fn known_extents(extents: &[Expr]) -> Operand {
    let known = extents.iter().map(|extent| Known::of(DType::I64, extent.clone())).collect();
    Operand::of_known(DType::I64, &[extents.len()], known)
}

/// The shape, or since version 15 a part of it.
pub(super) fn shape(node: &Node<'_>, _: &mut Graph) -> Lowered {
    let x = node.input(0)?;
    let rank = x.rank() as i64;
    let clamp = |axis: i64| {
        let axis = if axis < 0 { axis.saturating_add(rank) } else { axis };
        axis.clamp(0, rank) as usize
    };
    let (start, end) = (clamp(node.int("start", 0)?), clamp(node.int("end", rank)?));
    let part = x.shape().get(start..end).unwrap_or_default();
    Ok(vec![known_extents(part)])
}

/// The number of elements.
pub(super) fn size(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let count = node.input(0)?.shape().iter().product();
    Ok(vec![graph.dimension(count)])
}

/// The same elements under a shape in which 0 means "as before" and one -1 "the rest".
pub(super) fn reshape(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let x = node.input(0)?;
    let copies_zero = !node.flag("allowzero", false)?;
    let wanted = match node.version {
        ..5 => node.ints("shape")?.unwrap_or_default().into_iter().map(Expr::from).collect(),
        _ => match node.data_integers(1, "new shape", graph)? {
            Some(numbers) => resolved(graph, x, numbers, copies_zero)?,
            None => node.exprs(1, "new shape")?,
        },
    };
    let mut shape = Vec::with_capacity(wanted.len());
    let mut inferred = None;
    for (axis, extent) in wanted.into_iter().enumerate() {
        match extent.as_constant() {
            Some(0) if copies_zero => match x.shape().get(axis) {
                Some(extent) => shape.push(extent.clone()),
                None => return Err(shape_error(format!("there is no axis {axis} to copy"))),
            },
            Some(-1) if inferred.is_some() => {
                return Err(shape_error("two extents of the new shape are -1"));
            }
            Some(-1) => {
                inferred = Some(axis);
                shape.push(Expr::ONE);
            }
            Some(extent) if extent < 0 => {
                return Err(shape_error(format!("the new shape has an extent of {extent}")));
            }
            _ => shape.push(extent),
        }
    }
    let count: Expr = x.shape().iter().product();
    if let Some(axis) = inferred {
        shape[axis] = rest(graph, x, &count, &shape)?;
    }
    let wanted: Expr = shape.iter().product();
    if inferred.is_none() && !graph.builder.equate(&count, &wanted) {
        let (from, to) = (graph.builder.shape_text(x.shape()), graph.builder.shape_text(&shape));
        let settled = graph.builder.settled_text(&[&count, &wanted]);
        return Err(shape_error(format!("{from} does not become {to}{settled}")));
    }
    Ok(vec![graph.reshape(x, &shape)?])
}

/// The extents of a new shape that data give, in which 0 and -1 mean what they do.
fn resolved(
    graph: &mut Graph,
    x: &Operand,
    mut numbers: Vec<Operand>,
    copies_zero: bool,
) -> Accepted<Vec<Expr>> {
    let integer = |number: i64| Operand::of_scalar(Scalar::i64(number));
    let mut others: Option<Operand> = None;
    for (axis, number) in numbers.iter_mut().enumerate() {
        if let Some(extent) = x.shape().get(axis).filter(|_| copies_zero) {
            let (extent, is_zero) =
                (graph.dimension(extent.clone()), graph.equal(number, &integer(0))?);
            *number = graph.select(&is_zero, &extent, number)?;
        }
        let is_rest = graph.less(number, &integer(0))?;
        let factor = graph.select(&is_rest, &integer(1), number)?;
        others = Some(match others {
            Some(others) => graph.mul(&others, &factor)?,
            None => factor,
        });
    }
    let count = graph.dimension(x.shape().iter().product());
    let divisor = graph.max(&others.unwrap_or_else(|| integer(1)), &integer(1))?;
    let rest = graph.div(&count, &divisor)?;
    let most = Expr::from(graph.limits.dimension);
    let mut shape = Vec::with_capacity(numbers.len());
    for number in &numbers {
        let is_rest = graph.equal(number, &integer(-1))?;
        let extent = graph.select(&is_rest, &rest, number)?;
        shape.push(graph.bind(&extent, &most)?);
    }
    Ok(shape)
}

/// The extent that -1 stands for; `others` has 1 in its place.
fn rest(graph: &mut Graph, x: &Operand, count: &Expr, others: &[Expr]) -> Accepted<Expr> {
    let product: Expr = others.iter().product();
    let ranges = |symbol| graph.builder.range(symbol);
    let product = product.simplify(&ranges);
    let divides = |number: i64| count.as_constant().is_none_or(|count| count % number == 0);
    match product.as_constant() {
        Some(0) => return Err(shape_error("-1 beside an extent of 0 can be anything")),
        Some(number) if !divides(number) => {
            let from = graph.builder.shape_text(x.shape());
            return Err(shape_error(format!("{from} does not fall into parts of {number}")));
        }
        Some(number) if !count.divisible_by(number) => {
            graph.builder.assume(Assumption::Divisible(count.clone(), number));
        }
        Some(_) => {}
        None => {
            let whole = count.floor_div(&product) * &product;
            if whole != *count {
                graph.builder.assume(Assumption::Equal(count.clone(), whole));
            }
        }
    }
    Ok(count.floor_div(&product))
}

/// The axes before one as rows, the others as columns.
pub(super) fn flatten(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let x = node.input(0)?;
    let axis = node.int("axis", 1)?;
    let axis = if axis == x.rank() as i64 { x.rank() } else { normalize_axis(axis, x.rank())? };
    let (rows, columns) = x.shape().split_at(axis);
    Ok(vec![graph.reshape(x, &[rows.iter().product(), columns.iter().product()])?])
}

/// Without axes of extent 1: those given, or all.
pub(super) fn squeeze(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let x = node.input(0)?;
    let axes = match node.axes_since(13, x.rank())? {
        Some(axes) => axes,
        None => {
            if x.shape().iter().any(|extent| extent.as_constant().is_none()) {
                return Err(node.not_fixed(0, "extents of what is squeezed"));
            }
            (0..x.rank()).filter(|&axis| x.shape()[axis].is_one()).collect()
        }
    };
    for &axis in &axes {
        graph.assume_equal(&x.shape()[axis], &Expr::ONE)?;
    }
    let kept = (0..x.rank()).filter(|axis| !axes.contains(axis));
    let shape: Vec<Expr> = kept.map(|axis| x.shape()[axis].clone()).collect();
    Ok(vec![graph.reshape(x, &shape)?])
}

/// With more axes of extent 1.
pub(super) fn unsqueeze(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let x = node.input(0)?;
    let given = match node.version {
        ..13 => node.ints("axes")?.unwrap_or_default(),
        _ => node.integers(1, "axes")?,
    };
    let rank = x.rank() + given.len();
    let axes: BTreeSet<usize> = normalize_axes(&given, rank)?.into_iter().into_set();
    let mut old = x.shape().iter();
    let extent = |axis: usize| match axes.contains(&axis) {
        true => Expr::ONE,
        false => old.next().cloned().unwrap_or(Expr::ONE),
    };
    let shape: Vec<Expr> = (0..rank).map(extent).collect();
    Ok(vec![graph.reshape(x, &shape)?])
}

/// The input itself.
pub(super) fn identity(node: &Node<'_>, _: &mut Graph) -> Lowered {
    Ok(vec![node.input(0)?.clone()])
}

/// The input itself, and a mask of trues: nothing is dropped outside of training.
pub(super) fn dropout(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let x = node.input(0)?;
    if node.optional(2).is_some() && node.single_number(2, "mode of training")?.as_bool() {
        let ratio = match node.optional(1) {
            Some(_) => node.single_number(1, "ratio of dropping")?.as_f64(),
            None => 0.5,
        };
        if !(0.0..1.0).contains(&ratio) {
            return Err(attribute_error("ratio", format!("{ratio} is not in 0 to 1")));
        }
        // Dropping with ratio 0 is the identity in training, too.
        if ratio > 0.0 {
            let (result, stays) = random::drop(node, graph, x, ratio)?;
            return Ok(vec![result, stays]);
        }
    }
    let mut results = vec![x.clone()];
    if node.wants(1) {
        // Before version 10 the mask had the type of the input.
        let dtype = if node.version < 10 { x.dtype() } else { DType::Bool };
        results.push(graph.full(x.shape(), Scalar::one(dtype))?);
    }
    Ok(results)
}

/// The input repeated along axes as broadcasting does.
pub(super) fn expand(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let x = node.input(0)?;
    let wanted = node.sizes(1, "new shape", graph)?;
    graph.check_size(&wanted)?;
    let shape = graph.common_shape(&[x.shape(), &wanted])?;
    Ok(vec![graph.broadcast_to(x, &shape)?])
}
