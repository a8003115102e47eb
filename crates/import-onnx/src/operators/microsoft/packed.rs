//! Weights of few bits, several in a byte, with a scale a block.

use front::{Accepted, Graph, Operand, block_values, repeat_blocks, rows_product, shape_error};
use sym::Expr;
use tensor::{DType, Scalar, ScalarFunction as F, Tensor};

use super::Lowered;
use super::elementwise::add_vector;
use crate::node::{Node, attribute_error, unsupported};

/// The last axis of bytes as the numbers of `bits` that they hold, the lowest bits first. Constants
/// are the same bytes under another type.
pub(super) fn unpacked(graph: &mut Graph, bytes: &Operand, bits: i64) -> Accepted<Operand> {
    let Some((last, lead)) = bytes.shape().split_last() else {
        return Err(shape_error("packed weights without axes"));
    };
    let each = 8 / bits;
    let shape = [lead, &[last * each]].concat();
    if let (Some(weight), Some(sizes)) = (bytes.weight(), front::constant_shape(&shape)) {
        let dtype = match bits {
            2 => DType::U2,
            4 => DType::U4,
            _ => return Ok(bytes.clone()),
        };
        let tensor = Tensor::from_bytes(dtype, &sizes, weight.tensor.bytes().to_vec().into());
        let tensor = tensor.map_err(shape_error)?;
        return Ok(Operand::of_weight(weight.name.clone(), tensor));
    }
    if each == 1 {
        return Ok(bytes.clone());
    }
    let column = graph.reshape(bytes, &[bytes.shape(), &[Expr::ONE]].concat())?;
    let places: Vec<u8> = (0..each).map(|place| (place * bits) as u8).collect();
    let places = Operand::of_tensor(&Tensor::from_slice(&[places.len()], &places));
    let shifted = graph.map(F::Shr, &[&column, &places])?;
    let mask = graph.number(DType::U8, ((1 << bits) - 1) as f64);
    let low = graph.and(&shifted, &mask)?;
    graph.reshape(&low, &shape)
}

/// The attribute `bits`, one of those that fill bytes.
fn bits(node: &Node<'_>) -> Accepted<i64> {
    match node.int("bits", 4)? {
        bits @ (2 | 4 | 8) => Ok(bits),
        bits => Err(attribute_error("bits", format!("{bits} is none of 2, 4, 8"))),
    }
}

/// A block of numbers that share a scale: a power of two, 16 or more.
pub(super) fn block_size(node: &Node<'_>, default: i64) -> Accepted<i64> {
    match node.int("block_size", default)? {
        size if (16..1 << 30).contains(&size) && size & (size - 1) == 0 => Ok(size),
        size => {
            Err(attribute_error("block_size", format!("{size} is no power of two of 16 or more")))
        }
    }
}

/// A positive attribute that says an extent.
fn extent(node: &Node<'_>, name: &str) -> Accepted<i64> {
    match node.int(name, 0)? {
        extent if (1..1 << 31).contains(&extent) => Ok(extent),
        extent => Err(attribute_error(name, format!("an extent of {extent}"))),
    }
}

/// The `accuracy_level` that allows data of 8 bits, each block of the weights' with a scale.
const BYTES_ALLOWED: i64 = 4;

/// Numbers `[.., k]` rounded to 127ths of the largest of their block along `k`, which divides `k`.
fn rounded_in_blocks(graph: &mut Graph, a: &Operand, block: i64) -> Accepted<Operand> {
    let wide = graph.widen(a)?;
    let (last, lead) = wide.shape().split_last().ok_or_else(|| shape_error("no axes"))?;
    let (whole, axis) = (wide.shape().to_vec(), lead.len());
    let blocks = [lead, &[last.floor_div(&Expr::from(block)), Expr::from(block)]].concat();
    let parts = graph.reshape(&wide, &blocks)?;
    let size = graph.map(F::Abs, &[&parts])?;
    let most = graph.reduce_axes(&size, &[axis + 1], tensor::Reduction::Max, false)?;
    // A block of zeros has a scale, too.
    let (largest, least) = (graph.number(DType::F32, 127.0), graph.number(DType::F32, 1e-37));
    let scale = graph.div(&most, &largest)?;
    let scale = graph.map(F::Max, &[&scale, &least])?;
    let scale = repeat_blocks(graph, &scale, axis, block, &whole)?;
    let number = graph.div(&wide, &scale)?;
    let number = graph.map(F::Round, &[&number])?;
    let byte = graph.cast(&number, DType::I8)?;
    let number = graph.cast(&byte, DType::F32)?;
    let rounded = graph.mul(&number, &scale)?;
    graph.cast(&rounded, a.dtype())
}

/// `MatMulNBits`: a product with weights `[n, k]` of few bits, in blocks along `k`. Where the
/// attribute `accuracy_level` allows it, data are rounded to 8 bits.
pub(super) fn product(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let (a, bytes, scales) = (node.input(0)?, node.input(1)?, node.input(2)?);
    let (n, k) = (extent(node, "N")?, extent(node, "K")?);
    let (bits, block) = (bits(node)?, block_size(node, 0)?);
    if node.int("weight_prepacked", 0)? != 0 {
        return Err(unsupported("weights packed for another processor"));
    }
    if bytes.dtype() != DType::U8 {
        return Err(front::type_error(format!("packed weights of type {}", bytes.dtype())));
    }
    let blocks = (k + block - 1) / block;
    let matrix = [n, blocks * block].map(Expr::from);
    let rows = graph.reshape(bytes, &[Expr::from(n), Expr::from(blocks * block * bits / 8)])?;
    let numbers = unpacked(graph, &rows, bits)?;
    let numbers = graph.refine(&numbers, &matrix)?;
    let whole = [n, blocks].map(Expr::from);
    let scales = graph.reshape(scales, &whole)?;
    let points = match node.optional(3) {
        None => graph.number(DType::U8, f64::from(1u32 << (bits - 1))),
        Some(points) if points.dtype() == DType::U8 => {
            let width = (blocks * bits + 7) / 8;
            let points = graph.reshape(points, &[n, width].map(Expr::from))?;
            let points = unpacked(graph, &points, bits)?;
            graph.slice_axis(&points, 1, Expr::ZERO, 1, Expr::from(blocks))?
        }
        Some(points) => graph.reshape(points, &whole)?,
    };
    let weights = block_values(graph, &numbers, &scales, &points, block)?;
    let weights = graph.cast(&weights, a.dtype())?;
    let weights = graph.slice_axis(&weights, 1, Expr::ZERO, 1, Expr::from(k))?;
    let is_rounded = node.int("accuracy_level", 0)? == BYTES_ALLOWED && k % block == 0;
    let a = if is_rounded { rounded_in_blocks(graph, a, block)? } else { a.clone() };
    let result = rows_product(graph, &a, &weights)?;
    Ok(vec![add_vector(graph, &result, node.optional(5))?])
}

/// `GatherBlockQuantized`: slices of blockwise quantised data, as floats. Indices beyond the axis
/// give zeros.
pub(super) fn gather(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let (data, scales) = (node.input(0)?, node.input(2)?);
    if data.dtype().is_float() {
        return Err(unsupported("a table of short floats"));
    }
    let rank = data.rank();
    let along = node.axis("gather_axis", 0, rank)?;
    let axis = node.axis("quantize_axis", 1, rank)?;
    let block = block_size(node, 128)?;
    if axis == along || scales.rank() != rank {
        return Err(unsupported("blocks along the axis that indices choose from"));
    }
    let is_packed = data.dtype() == DType::U8;
    let bits = if is_packed { bits(node)? } else { 8 };
    let index = graph.cast(node.input(1)?, DType::I64)?;
    let places = index.rank();
    let count = graph.dimension(data.shape()[along].clone());
    let wrapped = graph.add(&index, &count)?;
    let zero = graph.number(DType::I64, 0.0);
    let is_negative = graph.less(&index, &zero)?;
    let index = graph.select(&is_negative, &wrapped, &index)?;
    let (above, below) = (graph.greater_equal(&index, &zero)?, graph.less(&index, &count)?);
    let is_inside = graph.and(&above, &below)?;
    let index = graph.select(&is_inside, &index, &zero)?;
    let slices = |value: &Operand, graph: &mut Graph| {
        graph.gather(value, &[along], std::slice::from_ref(&index), 0, along)
    };
    let mut numbers = slices(data, graph)?;
    let scales = slices(scales, graph)?;
    let points = node.optional(3).map(|points| slices(points, graph)).transpose()?;
    let shifted = |axis: usize| if axis > along { axis + places - 1 } else { axis };
    let last = numbers.rank() - 1;
    let own = shifted(axis);
    let mut points = match points {
        Some(points) => points,
        None if is_packed => graph.number(DType::U8, f64::from(1u32 << (bits - 1))),
        None => graph.number(DType::I8, 0.0),
    };
    if is_packed && bits < 8 {
        numbers = unpacked(graph, &numbers, bits)?;
        if points.rank() > 0 {
            points = unpacked(graph, &points, bits)?;
            points =
                graph.slice_axis(&points, last, Expr::ZERO, 1, scales.shape()[last].clone())?;
        }
    }
    // Blocks along another axis than the last are turned there.
    let mut order: Vec<usize> = (0..=last).collect();
    order.swap(own, last);
    let turned = graph.transpose(&numbers, &order)?;
    let scales = graph.transpose(&scales, &order)?;
    let points = if points.rank() > 0 { graph.transpose(&points, &order)? } else { points };
    let value = block_values(graph, &turned, &scales, &points, block)?;
    let value = graph.cast(&value, node.input(2)?.dtype())?;
    let value = graph.transpose(&value, &order)?;
    let mut shape = vec![Expr::ONE; value.rank()];
    shape[along..along + places].clone_from_slice(is_inside.shape());
    let is_inside = graph.reshape(&is_inside, &shape)?;
    let none = Operand::of_scalar(Scalar::zero(value.dtype()));
    Ok(vec![graph.select(&is_inside, &value, &none)?])
}

/// The numbers of the type FP4 of bitsandbytes, by their four bits.
const FOUR_BIT_FLOATS: [f32; 16] = [
    0.0,
    0.005_208_333_5,
    0.666_666_7,
    1.0,
    0.333_333_34,
    0.5,
    0.166_666_67,
    0.25,
    -0.0,
    -0.005_208_333_5,
    -0.666_666_7,
    -1.0,
    -0.333_333_34,
    -0.5,
    -0.166_666_67,
    -0.25,
];

/// The numbers of the type NF4: quantiles of the normal distribution, from -1 to 1. Source: QLoRA,
/// Dettmers et al. 2023, appendix E.
const NORMAL_FLOATS: [f32; 16] = [
    -1.0,
    -0.696_192_8,
    -0.525_073_05,
    -0.394_917_5,
    -0.284_441_38,
    -0.184_773_43,
    -0.091_050_04,
    0.0,
    0.079_580_3,
    0.160_930_2,
    0.246_112_3,
    0.337_915_24,
    0.440_709_83,
    0.562_617,
    0.722_956_84,
    1.0,
];

/// `MatMulBnb4`: weights `[n, k]` as places in a table of 16, the high bits of a byte first, in
/// blocks that run on over rows.
pub(super) fn table_product(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let (a, bytes, scales) = (node.input(0)?, node.input(1)?, node.input(2)?);
    let (n, k, block) = (extent(node, "N")?, extent(node, "K")?, block_size(node, 0)?);
    if !node.flag("transB", true)? {
        return Err(unsupported("the gradient of the product"));
    }
    let table = match node.int("quant_type", 0)? {
        0 => FOUR_BIT_FLOATS,
        1 => NORMAL_FLOATS,
        other => return Err(attribute_error("quant_type", format!("{other} is neither 0 nor 1"))),
    };
    let count = n.checked_mul(k).ok_or_else(|| attribute_error("K", "it is too large"))?;
    let bytes = graph.reshape(bytes, &[Expr::from((count + 1) / 2), Expr::ONE])?;
    let places = Operand::of_tensor(&Tensor::from_slice(&[2], &[4u8, 0]));
    let shifted = graph.map(F::Shr, &[&bytes, &places])?;
    let mask = graph.number(DType::U8, 15.0);
    let index = graph.and(&shifted, &mask)?;
    let index = graph.reshape(&index, &[Expr::from((count + 1) / 2 * 2)])?;
    let index = graph.slice_axis(&index, 0, Expr::ZERO, 1, Expr::from(count))?;
    let index = graph.cast(&index, DType::I64)?;
    let table = Operand::of_tensor(&Tensor::from_slice(&[16], &table));
    let value = graph.gather(&table, &[0], &[index], 0, 0)?;
    let blocks = (count + block - 1) / block;
    let scales = graph.widen(scales)?;
    let scales = graph.reshape(&scales, &[Expr::from(blocks)])?;
    let scales = repeat_blocks(graph, &scales, 0, block, value.shape())?;
    let weights = graph.mul(&value, &scales)?;
    let weights = graph.reshape(&weights, &[n, k].map(Expr::from))?;
    let weights = graph.cast(&weights, a.dtype())?;
    Ok(vec![rows_product(graph, a, &weights)?])
}

/// Numbers of a block of `MatMulFpQ4`, and bytes of its scale.
const BLOB_TERMS: i64 = 32;
const BLOB_SCALE: i64 = 4;

/// `MatMulFpQ4`: weights `[n, k]` in blobs of 32 along `k`: a scale as four bytes, the lowest
/// first, a zero point in a byte (8 where there is none), and 16 bytes, of which the low halves are
/// the first 16 numbers and the high halves the others.
pub(super) fn blob_product(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let (a, bytes) = (node.input(0)?, node.input(1)?);
    let shape = node.exprs(2, "the shape of the weights")?;
    let numbers: Option<Vec<i64>> = shape.iter().map(Expr::as_constant).collect();
    let is_extent = |number: &&i64| (1..1 << 31).contains(*number);
    let (k, n) = match numbers.as_deref() {
        Some([k, n]) if [k, n].iter().all(is_extent) => (*k, *n),
        _ => return Err(shape_error("weights whose shape is not two extents that are known")),
    };
    let point = match node.int("blk_quant_type", 1)? {
        0 => 0,
        1 => 1,
        other => {
            return Err(attribute_error("blk_quant_type", format!("{other} is neither 0 nor 1")));
        }
    };
    let blocks = (k + BLOB_TERMS - 1) / BLOB_TERMS;
    let front = BLOB_SCALE + point;
    let blobs = [n, blocks, front + BLOB_TERMS / 2].map(Expr::from);
    let blobs = graph.reshape(bytes, &blobs)?;
    let part = |graph: &mut Graph, from: i64, count: i64| {
        graph.slice_axis(&blobs, 2, Expr::from(from), 1, Expr::from(count))
    };
    let matrix = [n, blocks].map(Expr::from);
    let scales = part(graph, 0, BLOB_SCALE)?;
    let points = match point {
        0 => graph.number(DType::U8, 8.0),
        _ => {
            let points = part(graph, BLOB_SCALE, 1)?;
            graph.reshape(&points, &matrix)?
        }
    };
    let pairs = part(graph, front, BLOB_TERMS / 2)?;
    let scales = float_of_bytes(graph, &scales, &matrix)?;
    let (mask, half) = (graph.number(DType::U8, 15.0), graph.number(DType::U8, 4.0));
    let (low, high) = (graph.and(&pairs, &mask)?, graph.map(F::Shr, &[&pairs, &half])?);
    let numbers = graph.concat(2, &[low, high])?;
    let numbers = graph.reshape(&numbers, &[n, blocks * BLOB_TERMS].map(Expr::from))?;
    let weights = block_values(graph, &numbers, &scales, &points, BLOB_TERMS)?;
    let weights = graph.slice_axis(&weights, 1, Expr::ZERO, 1, Expr::from(k))?;
    Ok(vec![rows_product(graph, a, &weights)?])
}

/// The floats of 32 bits of which the last axis has the four bytes, the lowest first.
fn float_of_bytes(graph: &mut Graph, bytes: &Operand, shape: &[Expr]) -> Accepted<Operand> {
    let wide = graph.cast(bytes, DType::U32)?;
    let places = Operand::of_tensor(&Tensor::from_slice(&[4], &[0u32, 8, 16, 24]));
    let placed = graph.map(F::Shl, &[&wide, &places])?;
    let mut bits = None;
    for number in 0..4 {
        let one = graph.slice_axis(&placed, 2, Expr::from(number), 1, Expr::ONE)?;
        bits = Some(match bits {
            None => one,
            Some(bits) => graph.map(F::Or, &[&bits, &one])?,
        });
    }
    let bits = bits.ok_or_else(|| shape_error("floats of no bytes"))?;
    let bits = graph.reshape(&bits, shape)?;
    graph.primitive(graph::Op::Bitcast { dtype: DType::F32 }, &[&bits])
}
