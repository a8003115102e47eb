//! Parts that compute element by element, or along an axis.

use tensor::{DType, Tensor};

use super::{is_float, is_number, some_axis};
use crate::draw::Draw;
use crate::model::{ModelBuilder, Written, demand, int};
use crate::outline::Part;

/// Maps of floats, those that any number may go into, with about so many operations.
const MAPS: [(&str, f64); 22] = [
    ("Relu", 1.0),
    ("LeakyRelu", 2.0),
    ("Sigmoid", 20.0),
    ("Tanh", 20.0),
    ("Gelu", 30.0),
    ("Erf", 20.0),
    ("Softplus", 30.0),
    ("Elu", 20.0),
    ("Selu", 20.0),
    ("HardSigmoid", 3.0),
    ("HardSwish", 4.0),
    ("Mish", 40.0),
    ("Softsign", 3.0),
    ("Exp", 20.0),
    ("Sin", 20.0),
    ("Cos", 20.0),
    ("Atan", 20.0),
    ("Abs", 1.0),
    ("Neg", 1.0),
    ("Floor", 1.0),
    ("Round", 1.0),
    ("Sign", 1.0),
];

pub(super) fn draw_map(draw: &mut Draw, model: &ModelBuilder) -> Option<Part> {
    let name = match model.dtype {
        DType::Bool => "Not",
        DType::I32 | DType::I64 | DType::I8 => *draw.pick(&["Abs", "Neg", "Sign"]),
        dtype if is_float(dtype) && draw.chance(40) => *draw.pick(&["Relu", "Sigmoid", "Gelu"]),
        dtype if is_float(dtype) => draw.pick(&MAPS).0,
        _ => return None,
    };
    Some(Part::new("map").word("f", name))
}

pub(super) fn map(model: &mut ModelBuilder, part: &Part) -> Written {
    let name = part.text("f")?;
    let cost = MAPS.iter().find(|row| row.0 == name).map_or(1.0, |row| row.1);
    model.then(name, &[], Vec::new());
    model.operations += cost * model.count();
    Ok(())
}

pub(super) fn draw_binary(draw: &mut Draw, model: &ModelBuilder) -> Option<Part> {
    let name = match model.dtype {
        DType::Bool => *draw.pick(&["And", "Or", "Xor"]),
        dtype if is_float(dtype) => *draw.pick(&["Add", "Mul", "Sub", "Div", "Max", "Min", "Pow"]),
        DType::I8 | DType::U8 => return None,
        _ => *draw.pick(&["Add", "Mul", "Sub", "Max"]),
    };
    let with = *draw.pick(&["scalar", "channel", "last", "all", "itself"]);
    Some(Part::new("binary").word("f", name).word("with", with))
}

/// The value and another: a number, one a channel, one along the last axis, one an element, itself.
pub(super) fn binary(model: &mut ModelBuilder, part: &Part) -> Written {
    let (name, dtype, shape) = (part.text("f")?, model.dtype, model.shape.clone());
    let rank = shape.len();
    let other = match part.text("with")? {
        _ if name == "Pow" => model.scalar(dtype, 2.0),
        "scalar" => model.weight(dtype, &[], 1.0),
        "channel" => {
            demand(rank > 1, "it has no channels")?;
            let axes = (1..rank).map(|axis| if axis == 1 { shape[1] } else { 1 });
            model.weight(dtype, &axes.collect::<Vec<_>>(), 1.0)
        }
        "last" => {
            demand(rank > 0, "it has no axis")?;
            model.weight(dtype, &shape[rank - 1..], 1.0)
        }
        "all" => model.weight(dtype, &shape, 1.0),
        "itself" => model.value.clone(),
        other => return Err(format!("there is nothing `{other}`")),
    };
    // Nothing is divided by what may be near 0.
    let other = match name == "Div" {
        true => {
            let (square, one) = (model.node("Mul", &[other.clone(), other], Vec::new()), 1.0);
            let one = model.scalar(dtype, one);
            model.node("Add", &[square, one], Vec::new())
        }
        false => other,
    };
    model.then(name, &[other], Vec::new());
    model.operations += model.count();
    Ok(())
}

pub(super) fn draw_softmax(draw: &mut Draw, model: &ModelBuilder) -> Option<Part> {
    let last = model.shape.len().checked_sub(1)? as i64;
    let axis = if draw.chance(70) { last } else { some_axis(draw, model)? as i64 };
    let name = if draw.chance(80) { "Softmax" } else { "LogSoftmax" };
    is_float(model.dtype).then(|| Part::new("softmax").word("f", name).with("axis", &[axis]))
}

pub(super) fn softmax(model: &mut ModelBuilder, part: &Part) -> Written {
    let axis = model.axis(part.number("axis")?)?;
    model.then(part.text("f")?, &[], vec![int("axis", axis as i64)]);
    model.operations += 25.0 * model.count();
    Ok(())
}

pub(super) fn draw_layernorm(_: &mut Draw, model: &ModelBuilder) -> Option<Part> {
    (is_float(model.dtype) && !model.shape.is_empty()).then(|| Part::new("layernorm"))
}

pub(super) fn layernorm(model: &mut ModelBuilder, _: &Part) -> Written {
    let last = *model.shape.last().ok_or("it has no axis")?;
    let parameters = [1, 2].map(|_| model.weight(model.dtype, &[last], 1.0));
    model.then("LayerNormalization", &parameters, vec![int("axis", -1)]);
    model.operations += 8.0 * model.count();
    Ok(())
}

pub(super) fn draw_rmsnorm(_: &mut Draw, model: &ModelBuilder) -> Option<Part> {
    (is_float(model.dtype) && !model.shape.is_empty()).then(|| Part::new("rmsnorm"))
}

/// Divided by the root of the mean square along the last axis, as exporters write it.
pub(super) fn rmsnorm(model: &mut ModelBuilder, _: &Part) -> Written {
    let last = *model.shape.last().ok_or("it has no axis")?;
    let value = model.value.clone();
    let square = model.node("Mul", &[value.clone(), value.clone()], Vec::new());
    let axis = model.integers(&[-1]);
    let mean = model.node("ReduceMean", &[square, axis], vec![int("keepdims", 1)]);
    let epsilon = model.scalar(model.dtype, 1e-3);
    let sum = model.node("Add", &[mean, epsilon], Vec::new());
    let root = model.node("Sqrt", &[sum], Vec::new());
    let quotient = model.node("Div", &[value, root], Vec::new());
    let weight = model.weight(model.dtype, &[last], 1.0);
    model.value = model.node("Mul", &[quotient, weight], Vec::new());
    model.operations += 5.0 * model.count();
    Ok(())
}

fn draw_channelwise(model: &ModelBuilder, name: &str) -> Option<Part> {
    ((3..=5).contains(&model.shape.len()) && is_float(model.dtype)).then(|| Part::new(name))
}

pub(super) fn draw_instance(_: &mut Draw, model: &ModelBuilder) -> Option<Part> {
    draw_channelwise(model, "instancenorm")
}

pub(super) fn draw_batch(_: &mut Draw, model: &ModelBuilder) -> Option<Part> {
    draw_channelwise(model, "batchnorm")
}

pub(super) fn instancenorm(model: &mut ModelBuilder, _: &Part) -> Written {
    demand(model.shape.len() >= 3, "it has too few axes")?;
    let channels = [model.shape[1]];
    let parameters = [1, 2].map(|_| model.weight(model.dtype, &channels, 1.0));
    model.then("InstanceNormalization", &parameters, Vec::new());
    model.operations += 8.0 * model.count();
    Ok(())
}

pub(super) fn batchnorm(model: &mut ModelBuilder, _: &Part) -> Written {
    demand(model.shape.len() >= 2, "it has too few axes")?;
    let (dtype, channels) = (model.dtype, model.shape[1]);
    let [scale, shift, mean] = [0, 1, 2].map(|_| model.weight(dtype, &[channels], 0.5));
    let one = Tensor::splat(&[channels as usize], tensor::Scalar::from_f64(dtype, 1.5));
    let variance = model.constant(&one);
    model.then("BatchNormalization", &[scale, shift, mean, variance], Vec::new());
    model.operations += 2.0 * model.count();
    Ok(())
}

pub(super) fn draw_reduce(draw: &mut Draw, model: &ModelBuilder) -> Option<Part> {
    let axis = some_axis(draw, model)?;
    let name = match model.dtype {
        dtype if is_float(dtype) => *draw.pick(&[
            "ReduceSum",
            "ReduceMean",
            "ReduceMax",
            "ReduceMin",
            "ReduceL2",
            "ReduceLogSumExp",
            "ReduceSumSquare",
        ]),
        DType::I32 | DType::I64 => *draw.pick(&["ReduceSum", "ReduceMax", "ReduceMin"]),
        DType::I8 | DType::U8 => *draw.pick(&["ReduceMax", "ReduceMin"]),
        _ => return None,
    };
    let mut axes = vec![axis as i64];
    if axis + 1 < model.shape.len() && draw.chance(30) {
        axes.push(axis as i64 + 1);
    }
    let keep = i64::from(draw.chance(60) || model.shape.len() <= axes.len());
    Some(Part::new("reduce").word("f", name).with("axes", &axes).with("keep", &[keep]))
}

pub(super) fn reduce(model: &mut ModelBuilder, part: &Part) -> Written {
    let (axes, keep) = (part.numbers("axes")?, part.number("keep")?);
    let places = axes.iter().map(|&axis| model.axis(axis)).collect::<Result<Vec<_>, _>>()?;
    demand(places.windows(2).all(|pair| pair[0] < pair[1]) && (0..=1).contains(&keep), "no axes")?;
    model.operations += model.count();
    let inputs = [model.integers(axes)];
    model.then(part.text("f")?, &inputs, vec![int("keepdims", keep)]);
    for &axis in places.iter().rev() {
        match keep {
            1 => model.shape[axis] = 1,
            _ => _ = model.shape.remove(axis),
        }
    }
    Ok(())
}

pub(super) fn draw_argmax(draw: &mut Draw, model: &ModelBuilder) -> Option<Part> {
    let axis = some_axis(draw, model)?;
    let name = *draw.pick(&["ArgMax", "ArgMin"]);
    is_number(model.dtype).then(|| Part::new("argmax").word("f", name).with("axis", &[axis as i64]))
}

pub(super) fn argmax(model: &mut ModelBuilder, part: &Part) -> Written {
    let axis = model.axis(part.number("axis")?)?;
    model.operations += model.count();
    let attributes = vec![int("axis", axis as i64), int("keepdims", 1)];
    model.then(part.text("f")?, &[], attributes);
    model.shape[axis] = 1;
    model.dtype = DType::I64;
    Ok(())
}

pub(super) fn draw_cumsum(draw: &mut Draw, model: &ModelBuilder) -> Option<Part> {
    let axis = some_axis(draw, model)?;
    let fits = matches!(model.dtype, DType::F32 | DType::F64 | DType::I32 | DType::I64);
    fits.then(|| Part::new("cumsum").with("axis", &[axis as i64]))
}

pub(super) fn cumsum(model: &mut ModelBuilder, part: &Part) -> Written {
    let axis = model.axis(part.number("axis")?)? as i64;
    let axis = model.constant(&Tensor::from_slice(&[], &[axis]));
    model.then("CumSum", &[axis], Vec::new());
    model.operations += model.count();
    Ok(())
}

pub(super) fn draw_topk(draw: &mut Draw, model: &ModelBuilder) -> Option<Part> {
    let axis = model.shape.len().checked_sub(1)?;
    let k = draw.between(1, model.shape[axis].min(16));
    let fits = matches!(model.dtype, DType::F32 | DType::F64 | DType::I32 | DType::I64);
    fits.then(|| Part::new("topk").with("k", &[k]))
}

/// The largest along the last axis, in order.
pub(super) fn topk(model: &mut ModelBuilder, part: &Part) -> Written {
    let (k, last) = (part.number("k")?, model.shape.len().checked_sub(1).ok_or("it has no axis")?);
    demand(1 <= k && k <= model.shape[last], "there are not so many")?;
    model.operations += 4.0 * model.count();
    let inputs = [model.integers(&[k])];
    model.then("TopK", &inputs, vec![int("axis", -1)]);
    // Of the two results the places are not read.
    model.second_result();
    model.shape[last] = k;
    Ok(())
}

pub(super) fn draw_where(draw: &mut Draw, model: &ModelBuilder) -> Option<Part> {
    let with = *draw.pick(&["scalar", "all"]);
    (is_float(model.dtype) || matches!(model.dtype, DType::I32 | DType::I64))
        .then(|| Part::new("where").word("with", with))
}

/// The value where it is above a bound, and a weight elsewhere.
pub(super) fn choose(model: &mut ModelBuilder, part: &Part) -> Written {
    let (dtype, value, shape) = (model.dtype, model.value.clone(), model.shape.clone());
    let other = match part.text("with")? {
        "scalar" => model.weight(dtype, &[], 1.0),
        "all" => model.weight(dtype, &shape, 1.0),
        other => return Err(format!("there is nothing `{other}`")),
    };
    let bound = model.scalar(dtype, 0.0);
    let above = model.node("Greater", &[value.clone(), bound], Vec::new());
    model.value = model.node("Where", &[above, value, other], Vec::new());
    model.operations += 2.0 * model.count();
    Ok(())
}

pub(super) fn draw_cast(draw: &mut Draw, model: &ModelBuilder) -> Option<Part> {
    let to = match model.dtype {
        DType::F32 => *draw.pick(&["f16", "f64", "i32", "bool"]),
        _ => "f32",
    };
    Some(Part::new("cast").word("to", to))
}

pub(super) fn cast(model: &mut ModelBuilder, part: &Part) -> Written {
    let to = DType::parse(part.text("to")?).ok_or("there is no such element type")?;
    let number = import_onnx::data_type::number_of(to);
    model.then("Cast", &[], vec![int("to", i64::from(number))]);
    model.dtype = to;
    model.operations += model.count();
    Ok(())
}
