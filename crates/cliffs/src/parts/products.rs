//! Parts that are matrix products.

use tensor::DType;

use super::is_float;
use crate::draw::Draw;
use crate::model::{ModelBuilder, Written, demand, ints};
use crate::outline::Part;

pub(super) fn draw_matmul(draw: &mut Draw, model: &ModelBuilder) -> Option<Part> {
    let fits = is_float(model.dtype) || matches!(model.dtype, DType::I32 | DType::I64);
    let bias = i64::from(draw.chance(50));
    let part = Part::new("matmul").with("out", &[draw.extent()]).with("bias", &[bias]);
    (fits && model.shape.len() >= 2).then_some(part)
}

/// The last axis times a weight, and perhaps a bias.
pub(super) fn matmul(model: &mut ModelBuilder, part: &Part) -> Written {
    let (out, bias) = (part.number("out")?, part.number("bias")?);
    let last = model.shape.len().checked_sub(1).ok_or("it has no axis")?;
    demand(out >= 1 && (0..=1).contains(&bias), "it has no such extent")?;
    let (dtype, depth) = (model.dtype, model.shape[last]);
    let weight = model.weight(dtype, &[depth, out], 1.0 / (depth as f64).sqrt());
    model.then("MatMul", &[weight], Vec::new());
    model.shape[last] = out;
    model.operations += 2.0 * model.count() * depth as f64;
    if bias == 1 {
        let bias = model.weight(dtype, &[out], 1.0);
        model.then("Add", &[bias], Vec::new());
    }
    Ok(())
}

pub(super) fn draw_square(draw: &mut Draw, model: &ModelBuilder) -> Option<Part> {
    let side = *draw.pick(&["rows", "columns"]);
    (is_float(model.dtype) && (2..=4).contains(&model.shape.len()))
        .then(|| Part::new("square").word("of", side))
}

/// Each matrix times itself transposed, or the other way round, scaled by the root of the depth.
pub(super) fn square(model: &mut ModelBuilder, part: &Part) -> Written {
    let rank = model.shape.len();
    demand(rank >= 2, "it has too few axes")?;
    let mut order: Vec<i64> = (0..rank as i64).collect();
    order.swap(rank - 2, rank - 1);
    let value = model.value.clone();
    let other = model.node("Transpose", std::slice::from_ref(&value), vec![ints("perm", &order)]);
    let (rows, columns) = (model.shape[rank - 2], model.shape[rank - 1]);
    let (pair, side, depth) = match part.text("of")? {
        "rows" => ([value, other], rows, columns),
        "columns" => ([other, value], columns, rows),
        other => return Err(format!("there is nothing `{other}`")),
    };
    let product = model.node("MatMul", &pair, Vec::new());
    let scale = model.scalar(model.dtype, 1.0 / (depth as f64).sqrt());
    model.value = model.node("Mul", &[product, scale], Vec::new());
    (model.shape[rank - 2], model.shape[rank - 1]) = (side, side);
    model.operations += 2.0 * model.count() * depth as f64;
    Ok(())
}

pub(super) fn draw_integer(draw: &mut Draw, model: &ModelBuilder) -> Option<Part> {
    let weights = *draw.pick(&["i8", "u8"]);
    let part = Part::new("integer_matmul").word("weights", weights).with("out", &[draw.extent()]);
    (matches!(model.dtype, DType::U8 | DType::I8) && model.shape.len() >= 2).then_some(part)
}

/// The last axis times a weight, 8 bits each, summed in 32 bits.
pub(super) fn integer(model: &mut ModelBuilder, part: &Part) -> Written {
    let out = part.number("out")?;
    let weights = DType::parse(part.text("weights")?).ok_or("there is no such element type")?;
    let last = model.shape.len().checked_sub(1).ok_or("it has no axis")?;
    demand(out >= 1, "it has no such extent")?;
    let depth = model.shape[last];
    let weight = model.weight(weights, &[depth, out], 1.0);
    model.then("MatMulInteger", &[weight], Vec::new());
    model.dtype = DType::I32;
    model.shape[last] = out;
    model.operations += 2.0 * model.count() * depth as f64;
    Ok(())
}
