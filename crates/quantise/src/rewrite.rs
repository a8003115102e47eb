//! A plan carried out: `QuantizeLinear` and `DequantizeLinear` around what becomes bytes.
//!
//! The float value keeps its name; all nodes that read it read what is left of it after rounding.
//! Values are unsigned bytes with a zero point, a scale for the whole; weights are signed ones, a
//! scale for each result; biases are integers of 32 bits at the product of both scales.

use std::collections::BTreeMap;

use base::Result;
use tensor::{DType, Scalar, Tensor};
use tilewright::compiled::proto::NodeProto;

use crate::draft::{Draft, integer, node};
use crate::plan::{Plan, Product};
use crate::ranges::Range;
use crate::weights::{Grid, scale_for};

/// The names of a scale and a zero point, and the scale.
#[derive(Clone, Debug)]
struct Parameters {
    scale: f32,
    scale_name: String,
    zero_name: String,
}

/// Carries out a plan, by the ranges of the values that it makes bytes; gives what stands for each
/// of these behind its rounding.
///
/// # Errors
/// Constants that cannot be read.
pub(crate) fn rewrite(
    draft: &mut Draft,
    plan: &Plan,
    ranges: &BTreeMap<String, Range>,
) -> Result<BTreeMap<String, String>> {
    let dropped = drop_clamps(draft, plan, ranges)?;
    let mut parameters = BTreeMap::new();
    for root in plan.bytes.values() {
        if !parameters.contains_key(root) {
            let range = ranges.get(root).copied().unwrap_or_default();
            let made = activation_parameters(draft, root, range);
            parameters.insert(root.clone(), made);
        }
    }
    let mut front = Vec::new();
    let mut shared = BTreeMap::new();
    for product in &plan.products {
        let of_data = plan.bytes.get(&draft.nodes()[product.node].input[0]);
        let scale = of_data.and_then(|root| parameters.get(root)).map(|it| it.scale);
        if let (true, Some(scale)) = (product.has_weight, scale) {
            weigh(draft, product, scale, (&mut shared, &mut front))?;
        }
    }
    let rounded = insert(draft, plan, &parameters, (front, &dropped));
    draft.drop_unread();
    Ok(rounded)
}

/// A scale and zero point for a range, which holds zero.
fn activation_parameters(draft: &mut Draft, name: &str, range: Range) -> Parameters {
    let width = f64::from(range.high) - f64::from(range.low);
    let scale = (width / 255.0) as f32;
    let scale = if scale >= f32::MIN_POSITIVE { scale } else { 1.0 };
    let zero = (-range.low / scale).round_ties_even().clamp(0.0, 255.0) as u8;
    let scale_name = draft.add_constant(name, "scale", &Tensor::scalar(Scalar::f32(scale)));
    let zero_tensor = Tensor::scalar(Scalar::from_i64(DType::U8, zero.into()));
    let zero_name = draft.add_constant(name, "zero_point", &zero_tensor);
    Parameters { scale, scale_name, zero_name }
}

/// Leaves out clamps that rounding to bytes does, too: its range ends no later. Gives the nodes
/// that are left out.
fn drop_clamps(
    draft: &mut Draft,
    plan: &Plan,
    ranges: &BTreeMap<String, Range>,
) -> Result<Vec<usize>> {
    let (readers, mut dropped) = (draft.readers(), Vec::new());
    for &clamp in &plan.clamps {
        let node = &draft.nodes()[clamp];
        let (from, to) = (node.input[0].clone(), node.output[0].clone());
        let Some(range) = ranges.get(&to).filter(|_| plan.bytes.contains_key(&to)) else {
            continue;
        };
        let bound = |number: usize, name: &str| -> Result<Option<f64>> {
            match node.input.get(number).filter(|name| !name.is_empty()) {
                Some(name) => Ok(draft.floats(name)?.map(|bound| bound.get_f64(0))),
                None => Ok(node.attribute_of(name).map(|attribute| f64::from(attribute.f))),
            }
        };
        let is_relu = node.op_type == "Relu";
        let (low, high) =
            if is_relu { (Some(0.0), None) } else { (bound(1, "min")?, bound(2, "max")?) };
        // A graph inside of a node would see the value before it is rounded.
        let is_seen = readers
            .get(&to)
            .into_iter()
            .flatten()
            .any(|&reader| draft.nodes()[reader].inner_graphs().next().is_some());
        let does_low = low.is_none_or(|low| low <= 0.0 && range.low == 0.0);
        let does_high = high.is_none_or(|high| f64::from(range.high) <= high);
        if is_seen || !does_low || !does_high {
            continue;
        }
        let nodes = &mut draft.proto.body_mut().node;
        let producer = nodes.iter_mut().find(|node| node.output.first() == Some(&from));
        if let Some(producer) = producer {
            producer.output[0] = to;
            dropped.push(clamp);
        }
    }
    Ok(dropped)
}

/// Makes bytes of the weight of a product, and integers of its bias.
fn weigh(
    draft: &mut Draft,
    product: &Product,
    data_scale: f32,
    (shared, front): (&mut BTreeMap<(String, usize), String>, &mut Vec<NodeProto>),
) -> Result<()> {
    let of = draft.nodes()[product.node].clone();
    let name = of.input[1].clone();
    let Some(weight) = draft.floats(&name)? else { return Ok(()) };
    let rank = weight.shape().len() as i64;
    let axis = (if product.axis < 0 { product.axis + rank } else { product.axis }) as usize;
    let count = weight.shape()[axis];
    let bias_name = of.input.get(2).filter(|name| product.has_bias && !name.is_empty());
    let bias = match bias_name {
        Some(name) => draft.floats(name)?.filter(|bias| bias.shape() == [count]),
        None => None,
    };
    let earlier = shared.get(&(name.clone(), axis)).filter(|_| bias.is_none()).cloned();
    let known = match earlier {
        Some(known) => known,
        None => {
            let elements = weight.to_vec::<f32>()?;
            let grid = Grid::along(weight.shape(), axis);
            let magnitudes = grid.magnitudes(&elements);
            let mut scales: Vec<f32> =
                magnitudes.into_iter().map(|it| scale_for(it, DType::I8)).collect();
            if let Some(bias) = &bias {
                // Where weights are all but zero beside their bias, it is the bias that must fit.
                for (scale, bias) in scales.iter_mut().zip(bias.to_vec::<f32>()?) {
                    *scale = scale.max(bias.abs() / data_scale / (1 << 30) as f32);
                }
            }
            let rounded = grid.round(&elements, scales.clone(), (DType::I8, &[count]));
            let integers = draft.add_constant(&name, "quantised", &rounded.integers);
            let scale_name = draft.add_constant(&name, "scale", &rounded.scales);
            let back = draft.fresh(&name, "dequantised");
            let mut dequantise = node("DequantizeLinear", &[&integers, &scale_name], &back);
            dequantise.attribute.push(integer("axis", axis as i64));
            front.push(dequantise);
            if let Some(bias) = bias {
                let back = round_bias(draft, &of, (&bias, &scales, data_scale), front)?;
                draft.proto.body_mut().node[product.node].input[2] = back;
            } else {
                shared.insert((name, axis), back.clone());
            }
            back
        }
    };
    draft.proto.body_mut().node[product.node].input[1] = known;
    Ok(())
}

/// Makes integers of a bias; gives the name of what stands for it.
fn round_bias(
    draft: &mut Draft,
    of: &NodeProto,
    (bias, scales, data_scale): (&Tensor, &[f32], f32),
    front: &mut Vec<NodeProto>,
) -> Result<String> {
    let scales: Vec<f32> = scales.iter().map(|scale| scale * data_scale).collect();
    let elements = bias.to_vec::<f32>()?;
    let whole = |(element, scale): (&f32, &f32)| {
        (f64::from(*element) / f64::from(*scale)).round_ties_even() as i32
    };
    let integers: Vec<i32> = elements.iter().zip(&scales).map(whole).collect();
    let base = format!("{}/bias", of.output[0]);
    let shape = [scales.len()];
    let integers = draft.add_constant(&base, "quantised", &Tensor::from_vec(&shape, integers));
    let scale_name = draft.add_constant(&base, "scale", &Tensor::from_vec(&shape, scales));
    let back = draft.fresh(&base, "dequantised");
    let mut dequantise = node("DequantizeLinear", &[&integers, &scale_name], &back);
    dequantise.attribute.push(integer("axis", 0));
    front.push(dequantise);
    Ok(back)
}

/// Puts the nodes that round behind those that give what is rounded, and has all others read what
/// they leave. Gives the names of that.
fn insert(
    draft: &mut Draft,
    plan: &Plan,
    parameters: &BTreeMap<String, Parameters>,
    (mut front, dropped): (Vec<NodeProto>, &[usize]),
) -> BTreeMap<String, String> {
    let mut rounded = BTreeMap::new();
    let mut pairs: BTreeMap<String, [NodeProto; 2]> = BTreeMap::new();
    for (name, root) in &plan.bytes {
        let Some(by) = parameters.get(root) else { continue };
        let (bytes, back) = (draft.fresh(name, "quantised"), draft.fresh(name, "dequantised"));
        let names = [by.scale_name.as_str(), by.zero_name.as_str()];
        let quantise = node("QuantizeLinear", &[name, names[0], names[1]], &bytes);
        let dequantise = node("DequantizeLinear", &[&bytes, names[0], names[1]], &back);
        pairs.insert(name.clone(), [quantise, dequantise]);
        rounded.insert(name.clone(), back);
    }
    for input in draft.inputs() {
        front.extend(pairs.remove(&input).into_iter().flatten());
    }
    let mut nodes = front;
    let graph = draft.proto.body_mut();
    for (number, mut node) in std::mem::take(&mut graph.node).into_iter().enumerate() {
        if dropped.contains(&number) {
            continue;
        }
        for name in &mut node.input {
            if let Some(back) = rounded.get(name) {
                name.clone_from(back);
            }
        }
        let outputs = node.output.clone();
        nodes.push(node);
        for output in outputs {
            nodes.extend(pairs.remove(&output).into_iter().flatten());
        }
    }
    graph.node = nodes;
    rounded
}
