//! Parts of many operators: recurrent layers, attention, squeeze-and-excite, spectrograms,
//! quantised layers.

use tensor::{DType, Scalar, Tensor};

use super::is_float;
use super::windows::{conv_with, draw_conv};
use crate::draw::Draw;
use crate::model::{ModelBuilder, Written, demand, int, ints, product, values, word};
use crate::outline::Part;

pub(super) fn draw_recurrent(draw: &mut Draw, model: &ModelBuilder) -> Option<Part> {
    let name = *draw.pick(&["LSTM", "GRU", "RNN"]);
    let way = *draw.pick(&["forward", "forward", "reverse", "bidirectional"]);
    let part = Part::new("recurrent").word("f", name).word("way", way);
    let fits = matches!(model.dtype, DType::F32 | DType::F16 | DType::F64);
    (fits && model.shape.len() == 3).then(|| part.with("hidden", &[draw.extent()]))
}

/// A recurrent layer over the first axis: all its outputs.
pub(super) fn recurrent(model: &mut ModelBuilder, part: &Part) -> Written {
    let (name, way, hidden) = (part.text("f")?, part.text("way")?, part.number("hidden")?);
    let &[steps, batch, depth] = &model.shape[..] else { return Err("three axes".to_owned()) };
    demand(hidden >= 1 && steps <= 256, "it has no such extent, or too many steps")?;
    let gates = match name {
        "LSTM" => 4,
        "GRU" => 3,
        "RNN" => 1,
        other => return Err(format!("there is nothing `{other}`")),
    };
    let ways = if way == "bidirectional" { 2 } else { 1 };
    let (dtype, rows, scale) = (model.dtype, gates * hidden, 1.0 / (hidden as f64).sqrt());
    let inputs = [[ways, rows, depth], [ways, rows, hidden]];
    let inputs = inputs.map(|shape| model.weight(dtype, &shape, scale));
    let bias = model.weight(dtype, &[ways, 2 * rows], scale);
    let attributes = vec![int("hidden_size", hidden), word("direction", way)];
    model.then(name, &[&inputs[..], &[bias]].concat(), attributes);
    model.shape = vec![steps, ways, batch, hidden];
    model.operations += 2.0 * product(&[steps, ways, batch, rows, depth + hidden]);
    Ok(())
}

pub(super) fn draw_attention(draw: &mut Draw, model: &ModelBuilder) -> Option<Part> {
    let (heads, size) = (draw.between(1, 8), *draw.pick(&[4, 7, 8, 16, 31, 32, 64]));
    let part = Part::new("attention").with("heads", &[heads]).with("size", &[size]);
    let part = part.with("causal", &[i64::from(draw.chance(30))]);
    (is_float(model.dtype) && model.shape.len() == 3).then_some(part)
}

/// Self-attention over the middle axis, as exporters write it.
pub(super) fn attention(model: &mut ModelBuilder, part: &Part) -> Written {
    let (heads, size) = (part.number("heads")?, part.number("size")?);
    let &[batch, steps, width] = &model.shape[..] else { return Err("three axes".to_owned()) };
    demand(heads >= 1 && size >= 1, "it has no such extent")?;
    let (dtype, value, inner) = (model.dtype, model.value.clone(), heads * size);
    let shape = model.integers(&[batch, steps, heads, size]);
    let mut project = |order: &[i64]| {
        let weight = model.weight(dtype, &[width, inner], 1.0 / (width as f64).sqrt());
        let product = model.node("MatMul", &[value.clone(), weight], Vec::new());
        let heads = model.node("Reshape", &[product, shape.clone()], Vec::new());
        model.node("Transpose", &[heads], vec![ints("perm", order)])
    };
    let (query, key) = (project(&[0, 2, 1, 3]), project(&[0, 2, 3, 1]));
    let read = project(&[0, 2, 1, 3]);
    let scores = model.node("MatMul", &[query, key], Vec::new());
    let scale = model.scalar(dtype, 1.0 / (size as f64).sqrt());
    let mut scores = model.node("Mul", &[scores, scale], Vec::new());
    if part.number("causal")? == 1 {
        let mask = causal_mask(dtype, steps);
        let mask = model.constant(&mask);
        scores = model.node("Add", &[scores, mask], Vec::new());
    }
    let shares = model.node("Softmax", &[scores], vec![int("axis", -1)]);
    let taken = model.node("MatMul", &[shares, read], Vec::new());
    let order = vec![ints("perm", &[0, 2, 1, 3])];
    let taken = model.node("Transpose", &[taken], order);
    let shape = model.integers(&[batch, steps, inner]);
    let joined = model.node("Reshape", &[taken, shape], Vec::new());
    let weight = model.weight(dtype, &[inner, width], 1.0 / (inner as f64).sqrt());
    model.value = model.node("MatMul", &[joined, weight], Vec::new());
    model.operations += 8.0 * product(&[batch, steps, width, inner]);
    model.operations += 4.0 * product(&[batch, steps, steps, inner]);
    model.operations += 25.0 * product(&[batch, heads, steps, steps]);
    Ok(())
}

/// 0 up to the diagonal, and far below 0 behind it.
fn causal_mask(dtype: DType, steps: i64) -> Tensor {
    let steps = steps as usize;
    let element = |index: usize| if index % steps > index / steps { -1e4 } else { 0.0 };
    let elements: Vec<Scalar> =
        (0..steps * steps).map(|index| Scalar::from_f64(dtype, element(index))).collect();
    Tensor::from_scalars(dtype, &[1, 1, steps, steps], &elements)
}

pub(super) fn draw_squeeze(draw: &mut Draw, model: &ModelBuilder) -> Option<Part> {
    let part = Part::new("squeeze").with("inner", &[draw.between(1, 24)]);
    (is_float(model.dtype) && model.shape.len() == 4).then_some(part)
}

/// Squeeze-and-excite: channels times what two layers make of their means.
pub(super) fn squeeze(model: &mut ModelBuilder, part: &Part) -> Written {
    let inner = part.number("inner")?;
    demand(model.shape.len() == 4 && inner >= 1, "it has other axes")?;
    let (dtype, value, channels) = (model.dtype, model.value.clone(), model.shape[1]);
    let mean = model.node("GlobalAveragePool", std::slice::from_ref(&value), Vec::new());
    let mut layer = |input: String, from: i64, to: i64, map: &str| {
        let weight = model.weight(dtype, &[to, from, 1, 1], 1.0 / (from as f64).sqrt());
        let bias = model.weight(dtype, &[to], 0.1);
        let sum = model.node("Conv", &[input, weight, bias], vec![ints("kernel_shape", &[1, 1])]);
        model.node(map, &[sum], Vec::new())
    };
    let squeezed = layer(mean, channels, inner, "Relu");
    let gate = layer(squeezed, inner, channels, "Sigmoid");
    model.value = model.node("Mul", &[value, gate], Vec::new());
    model.operations += 2.0 * model.count();
    Ok(())
}

pub(super) fn draw_logmel(draw: &mut Draw, model: &ModelBuilder) -> Option<Part> {
    let samples = *model.shape.get(1)?;
    let frame = *draw.pick(&[32, 64, 100, 127, 128, 200, 256, 400]);
    let step = (frame / draw.between(2, 4)).max(1);
    let bands = *draw.pick(&[10, 13, 40, 64, 80]);
    let part = Part::new("logmel").with("frame", &[frame]).with("step", &[step]);
    let fits = model.dtype == DType::F32 && model.shape.len() == 2 && samples >= frame;
    fits.then(|| part.with("bands", &[bands]))
}

/// The logarithm of bands of a spectrogram of each row.
pub(super) fn logmel(model: &mut ModelBuilder, part: &Part) -> Written {
    let (frame, step) = (part.number("frame")?, part.number("step")?);
    let (bands, dtype) = (part.number("bands")?, model.dtype);
    let &[batch, samples] = &model.shape[..] else { return Err("two axes".to_owned()) };
    demand(2 <= frame && frame <= samples && step >= 1 && bands >= 1, "it does not fit")?;
    let axes = model.integers(&[2]);
    model.then("Unsqueeze", &[axes], Vec::new());
    let length = |length: i64| Tensor::from_slice(&[], &[length]);
    let step_value = model.constant(&length(step));
    let window = values(dtype, &[frame], 7, 0.5);
    let window = model.constant(&window);
    let frame_value = model.constant(&length(frame));
    model.then("STFT", &[step_value, window, frame_value], vec![int("onesided", 1)]);
    let axes = model.integers(&[3]);
    model.then("ReduceSumSquare", &[axes], vec![int("keepdims", 0)]);
    let (frames, bins) = ((samples - frame) / step + 1, frame / 2 + 1);
    let weight = model.weight(dtype, &[bins, bands], 0.1);
    model.then("MatMul", &[weight], Vec::new());
    model.then("Abs", &[], Vec::new());
    let least = model.scalar(dtype, 1e-3);
    model.then("Add", &[least], Vec::new());
    model.then("Log", &[], Vec::new());
    model.shape = vec![batch, frames, bands];
    model.operations += product(&[batch, frames, bins, 4 * frame + 2 * bands]);
    Ok(())
}

/// The value through 8 bits.
fn quantise(model: &mut ModelBuilder, dtype: DType) {
    let scale = model.scalar(DType::F32, 0.03);
    let zero = i64::from(dtype == DType::U8) * 128;
    let zero = model.constant(&Tensor::scalar(Scalar::from_i64(dtype, zero)));
    for operator in ["QuantizeLinear", "DequantizeLinear"] {
        model.then(operator, &[scale.clone(), zero.clone()], Vec::new());
    }
}

/// A weight of 8 bits with a scale for each place of an axis, as a float.
fn quantised_weight(model: &mut ModelBuilder, shape: &[i64], axis: usize, scale: f64) -> String {
    let weight = model.weight(DType::I8, shape, 1.0);
    let scales = Tensor::splat(&[shape[axis] as usize], Scalar::from_f64(DType::F32, scale / 5.0));
    let scales = model.constant(&scales);
    let zeros = model.constant(&Tensor::zeros(DType::I8, &[shape[axis] as usize]));
    let inputs = [weight, scales, zeros];
    model.node("DequantizeLinear", &inputs, vec![int("axis", axis as i64)])
}

fn eight_bits(draw: &mut Draw) -> &'static str {
    if draw.chance(50) { "u8" } else { "i8" }
}

pub(super) fn draw_8_bit_conv(draw: &mut Draw, model: &ModelBuilder) -> Option<Part> {
    let mut part = draw_conv(draw, model)?;
    part.name = "quantised_conv".to_owned();
    (model.dtype == DType::F32).then(|| part.word("type", eight_bits(draw)))
}

/// A convolution with 8 bits before and behind it, as quantisers write it.
pub(super) fn quantised_conv(model: &mut ModelBuilder, part: &Part) -> Written {
    let dtype = DType::parse(part.text("type")?).ok_or("there is no such element type")?;
    demand(model.dtype == DType::F32, "it is not of f32")?;
    quantise(model, dtype);
    conv_with(model, part, |model, shape, scale| quantised_weight(model, shape, 0, scale))?;
    quantise(model, dtype);
    Ok(())
}

pub(super) fn draw_8_bit_matmul(draw: &mut Draw, model: &ModelBuilder) -> Option<Part> {
    let part = Part::new("quantised_matmul").with("out", &[draw.extent()]);
    let fits = model.dtype == DType::F32 && model.shape.len() >= 2;
    fits.then(|| part.word("type", eight_bits(draw)))
}

/// A product with a weight with 8 bits before and behind it.
pub(super) fn quantised_matmul(model: &mut ModelBuilder, part: &Part) -> Written {
    let dtype = DType::parse(part.text("type")?).ok_or("there is no such element type")?;
    let (out, last) = (part.number("out")?, model.shape.len().saturating_sub(1));
    demand(model.dtype == DType::F32 && model.shape.len() >= 2 && out >= 1, "it does not fit")?;
    let depth = model.shape[last];
    quantise(model, dtype);
    let weight = quantised_weight(model, &[depth, out], 1, 1.0 / (depth as f64).sqrt());
    model.then("MatMul", &[weight], Vec::new());
    model.shape[last] = out;
    model.operations += 2.0 * model.count() * depth as f64;
    quantise(model, dtype);
    Ok(())
}
