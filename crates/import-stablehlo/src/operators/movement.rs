//! Movements: results whose elements are those of operands.

use base::InOrder;
use front::{Accepted, Graph, Operand, shape_error, unsupported};
use graph::Known;
use sym::Expr;
use tensor::DType;

use crate::importer::{Frame, Importer};
use crate::node::{Lowered, Node, axes_within, one};
use crate::syntax::TensorType;

/// Extents that an operand has for elements: known ones, or symbols for what data decide.
pub(crate) fn extents(graph: &mut Graph, value: &Operand) -> Accepted<Vec<Expr>> {
    if value.rank() != 1 {
        return Err(shape_error(format!("a shape of rank {}", value.rank())));
    }
    if let Some(known) = value.known() {
        let known: Vec<Option<Expr>> = known.iter().map(Known::expr).collect();
        if let Some(extents) = known.into_iter().collect::<Option<Vec<Expr>>>() {
            return Ok(extents);
        }
    }
    let Some(count) = value.shape()[0].as_constant() else {
        return Err(unsupported("a shape of which the rank is not known"));
    };
    let most = Expr::from(graph.limits.dimension);
    let value = graph.cast(value, DType::I64)?;
    let mut extents = Vec::new();
    for number in 0..count {
        let extent = graph.slice_axis(&value, 0, Expr::from(number), 1, Expr::ONE)?;
        let extent = graph.reshape(&extent, &[])?;
        extents.push(graph.bind(&extent, &most)?);
    }
    Ok(extents)
}

/// A shape in which the text's extents stand for what it tells, and others for what it does not.
fn shape_of(ty: &TensorType, extents: Vec<Expr>) -> Accepted<Vec<Expr>> {
    if ty.shape.len() != extents.len() {
        let (declared, found) = (ty.shape.len(), extents.len());
        return Err(shape_error(format!("a shape of {found} extents for rank {declared}")));
    }
    let both = ty.shape.iter().zip(extents);
    Ok(both.map(|(declared, found)| declared.map_or(found, Expr::from)).collect())
}

pub(crate) fn broadcast<'p>(
    importer: &mut Importer<'p>,
    node: &Node<'p>,
    _: &mut Frame,
) -> Lowered {
    let shape = node.fixed_shape(0)?;
    one(node.value(0)?.each(|part| importer.graph.broadcast_to(part, &shape[..]))?)
}

fn broadcast_to(importer: &mut Importer<'_>, node: &Node<'_>, shape: &[Expr]) -> Lowered {
    let axes = axes_within(&node.required("broadcast_dimensions")?, shape.len())?;
    let value = node.value(0)?;
    if axes.len() != value.rank() {
        let (axes, rank) = (axes.len(), value.rank());
        return Err(shape_error(format!("{axes} axes for an operand of rank {rank}")));
    }
    // The graph's axes increase.
    let mut order: Vec<usize> = (0..axes.len()).collect();
    order.put_in_order_by_key(|&axis| axes[axis]);
    let sorted: Vec<usize> = order.iter().map(|&axis| axes[axis]).collect();
    one(value.each(|part| {
        let part = importer.graph.transpose(part, &order)?;
        importer.graph.broadcast(&part, shape, &sorted)
    })?)
}

pub(crate) fn broadcast_in_dim<'p>(
    importer: &mut Importer<'p>,
    node: &Node<'p>,
    _: &mut Frame,
) -> Lowered {
    let shape = node.fixed_shape(0)?;
    broadcast_to(importer, node, &shape)
}

pub(crate) fn dynamic_broadcast_in_dim<'p>(
    importer: &mut Importer<'p>,
    node: &Node<'p>,
    _: &mut Frame,
) -> Lowered {
    let found = extents(&mut importer.graph, node.real(1)?)?;
    let shape = shape_of(node.result_type(0)?, found)?;
    broadcast_to(importer, node, &shape)
}

pub(crate) fn reshape<'p>(importer: &mut Importer<'p>, node: &Node<'p>, _: &mut Frame) -> Lowered {
    let shape = node.fixed_shape(0)?;
    one(node.value(0)?.each(|part| importer.graph.reshape(part, &shape))?)
}

pub(crate) fn dynamic_reshape<'p>(
    importer: &mut Importer<'p>,
    node: &Node<'p>,
    _: &mut Frame,
) -> Lowered {
    let found = extents(&mut importer.graph, node.real(1)?)?;
    let shape = shape_of(node.result_type(0)?, found)?;
    one(node.value(0)?.each(|part| importer.graph.reshape(part, &shape))?)
}

pub(crate) fn transpose<'p>(
    importer: &mut Importer<'p>,
    node: &Node<'p>,
    _: &mut Frame,
) -> Lowered {
    let permutation = node.axes("permutation", node.value(0)?.rank())?;
    one(node.value(0)?.each(|part| importer.graph.transpose(part, &permutation))?)
}

pub(crate) fn reverse<'p>(importer: &mut Importer<'p>, node: &Node<'p>, _: &mut Frame) -> Lowered {
    let axes = node.axes("dimensions", node.value(0)?.rank())?;
    one(node.value(0)?.each(|part| importer.graph.reversed(part, &axes))?)
}

pub(crate) fn slice<'p>(importer: &mut Importer<'p>, node: &Node<'p>, _: &mut Frame) -> Lowered {
    let value = node.value(0)?;
    let rank = value.rank();
    let starts = node.each_axis("start_indices", rank, 0)?;
    let limits = node.required("limit_indices")?;
    let strides = node.each_axis("strides", rank, 1)?;
    if limits.len() != rank {
        return Err(shape_error(format!("{} limits for {rank} axes", limits.len())));
    }
    let mut shape = Vec::new();
    for axis in 0..rank {
        let (start, limit, stride) = (starts[axis], limits[axis], strides[axis]);
        let extent = value.shape()[axis].as_constant().unwrap_or(i64::MAX);
        if start < 0 || limit < start || limit > extent || stride < 1 {
            let reason = format!("the slice {start}:{limit}:{stride} of an axis of {extent}");
            return Err(shape_error(reason));
        }
        shape.push(Expr::from((limit - start + stride - 1) / stride));
    }
    let starts: Vec<Expr> = starts.into_iter().map(Expr::from).collect();
    one(value.each(|part| importer.graph.slice(part, &starts, &strides, &shape))?)
}

pub(crate) fn real_dynamic_slice<'p>(
    importer: &mut Importer<'p>,
    node: &Node<'p>,
    _: &mut Frame,
) -> Lowered {
    let graph = &mut importer.graph;
    let value = node.value(0)?;
    let starts = extents(graph, node.real(1)?)?;
    let limits = extents(graph, node.real(2)?)?;
    let strides = extents(graph, node.real(3)?)?;
    let strides = strides.iter().map(Expr::as_constant).collect::<Option<Vec<i64>>>();
    let Some(strides) = strides.filter(|strides| strides.iter().all(|it| *it > 0)) else {
        return Err(unsupported("strides that data decide, or that are not positive"));
    };
    if [starts.len(), limits.len(), strides.len()] != [value.rank(); 3] {
        return Err(shape_error("a slice has not as many bounds as axes"));
    }
    let counts = (0..value.rank())
        .map(|axis| (&limits[axis] - &starts[axis]).ceil_div(&Expr::from(strides[axis])));
    let shape = shape_of(node.result_type(0)?, counts.collect())?;
    one(value.each(|part| graph.slice(part, &starts, &strides, &shape))?)
}

pub(crate) fn concatenate<'p>(
    importer: &mut Importer<'p>,
    node: &Node<'p>,
    _: &mut Frame,
) -> Lowered {
    let first = node.value(0)?.clone();
    let axis = node.axis("dimension", first.rank())?;
    let mut columns: Vec<Vec<Operand>> = vec![Vec::new(); first.parts().len()];
    for value in &node.operands {
        let parts = value.parts();
        if parts.len() != columns.len() {
            return Err(shape_error("complex and real numbers in one tensor"));
        }
        for (column, part) in columns.iter_mut().zip(parts) {
            column.push(part.clone());
        }
    }
    let graph = &mut importer.graph;
    let parts = columns.iter().map(|column| graph.concat(axis, column));
    let parts = parts.collect::<Accepted<Vec<_>>>()?;
    one(first.with_parts(&mut parts.into_iter())?)
}

pub(crate) fn pad<'p>(importer: &mut Importer<'p>, node: &Node<'p>, _: &mut Frame) -> Lowered {
    let rank = node.value(0)?.rank();
    let exprs = |numbers: Vec<i64>| numbers.into_iter().map(Expr::from).collect::<Vec<_>>();
    let low = exprs(node.each_axis("edge_padding_low", rank, 0)?);
    let high = exprs(node.each_axis("edge_padding_high", rank, 0)?);
    let interior = node.each_axis("interior_padding", rank, 0)?;
    padded(importer, node, &low, &high, &interior)
}

pub(crate) fn dynamic_pad<'p>(
    importer: &mut Importer<'p>,
    node: &Node<'p>,
    _: &mut Frame,
) -> Lowered {
    let graph = &mut importer.graph;
    let low = extents(graph, node.real(2)?)?;
    let high = extents(graph, node.real(3)?)?;
    let interior = extents(graph, node.real(4)?)?;
    let interior = interior.iter().map(Expr::as_constant).collect::<Option<Vec<i64>>>();
    let interior = interior.ok_or_else(|| unsupported("padding within that data decide"))?;
    padded(importer, node, &low, &high, &interior)
}

fn padded(
    importer: &mut Importer<'_>,
    node: &Node<'_>,
    low: &[Expr],
    high: &[Expr],
    interior: &[i64],
) -> Lowered {
    let fill = node.value(1)?.clone();
    let mut fills = fill.parts().into_iter();
    let rank = node.value(0)?.rank();
    if [low.len(), high.len(), interior.len()] != [rank; 3] {
        return Err(shape_error("not as many paddings as axes"));
    }
    if interior.iter().any(|number| *number < 0) {
        return Err(shape_error("a negative number of elements between neighbours"));
    }
    one(node.value(0)?.each(|part| {
        let fill = fills.next().ok_or_else(|| shape_error("complex and real numbers are mixed"))?;
        pad_value(&mut importer.graph, part, fill, low, high, interior)
    })?)
}

/// A padded value. An axis without elements has nothing between its neighbours, and one that is
/// cut to nothing is made of what is added alone.
pub(crate) fn pad_value(
    graph: &mut Graph,
    value: &Operand,
    fill: &Operand,
    low: &[Expr],
    high: &[Expr],
    interior: &[i64],
) -> Accepted<Operand> {
    let is_empty = value.shape().iter().any(Expr::is_zero);
    if !is_empty {
        return graph.pad(value, fill, low, high, interior);
    }
    let shape: Vec<Expr> = (0..value.rank())
        .map(|axis| {
            let own = &value.shape()[axis];
            let spread = if own.is_zero() { Expr::ZERO } else { (own - 1) * interior[axis] + own };
            spread + &low[axis] + &high[axis]
        })
        .collect();
    graph.broadcast_to(fill, shape)
}

pub(crate) fn iota<'p>(importer: &mut Importer<'p>, node: &Node<'p>, _: &mut Frame) -> Lowered {
    let shape = node.fixed_shape(0)?;
    counted(importer, node, &shape)
}

pub(crate) fn dynamic_iota<'p>(
    importer: &mut Importer<'p>,
    node: &Node<'p>,
    _: &mut Frame,
) -> Lowered {
    let found = extents(&mut importer.graph, node.real(0)?)?;
    let shape = shape_of(node.result_type(0)?, found)?;
    counted(importer, node, &shape)
}

fn counted(importer: &mut Importer<'_>, node: &Node<'_>, shape: &[Expr]) -> Lowered {
    let graph = &mut importer.graph;
    let axis = node.axis("iota_dimension", shape.len())?;
    let dtype = node.dtype()?;
    // Types of few bits count in a longer one and wrap.
    let counts =
        match dtype.is_integer() && dtype.bits() >= 8 || dtype.is_float() && dtype.bits() >= 32 {
            true => graph.iota(dtype, shape, axis)?,
            false => {
                let counts = graph.iota(DType::I64, shape, axis)?;
                graph.cast(&counts, dtype)?
            }
        };
    match node.result_type(0)?.element {
        crate::syntax::ElementType::Complex(_) => {
            one(crate::node::Value::Tensor(counts).complex(graph)?)
        }
        _ => one(counts),
    }
}

pub(crate) fn get_dimension_size<'p>(
    importer: &mut Importer<'p>,
    node: &Node<'p>,
    _: &mut Frame,
) -> Lowered {
    let value = node.value(0)?;
    let axis = node.axis("dimension", value.rank())?;
    let extent = importer.graph.dimension(value.shape()[axis].clone());
    one(importer.graph.cast(&extent, node.dtype()?)?)
}
