//! Products of bytes whose scales are found when they run: `DynamicQuantizeLinear` of what is
//! multiplied, an integer product by a weight of bytes with a scale a result, and the product of
//! both scales behind it. A value that several layers read is quantised once.
//!
//! What follows a product stays float, a bias too: nothing is known of it before the run.

use std::collections::{BTreeMap, BTreeSet};

use base::Result;
use tensor::{DType, Tensor};
use tilewright::compiled::proto::NodeProto;

use crate::draft::{Draft, integer, integer_of, node};
use crate::operators::{Role, role};
use crate::plan::{Layer, name_of};
use crate::weights::{Grid, scale_for};

/// The bytes of a value, their scale and their zero point, by name.
type Parts = [String; 3];

/// An integer product that stands for one of floats.
struct Form {
    operator: &'static str,
    /// The axis of the weight that has a scale an element.
    axis: usize,
    /// Whether the weight must be turned, since the operator cannot.
    is_turned: bool,
    /// How many axes of a result are behind that of scales.
    inner: usize,
}

/// Writes all products by constants that are not to stay float; gives the layers.
///
/// # Errors
/// Constants that cannot be read.
pub(crate) fn rewrite(draft: &mut Draft, keep_float: &BTreeSet<String>) -> Result<Vec<Layer>> {
    let (mut layers, mut nodes) = (Vec::new(), Vec::new());
    let mut quantised: BTreeMap<String, Parts> = BTreeMap::new();
    let mut weights: BTreeMap<(String, bool), (String, Tensor)> = BTreeMap::new();
    for of in draft.nodes().to_vec() {
        let form = match keep_float.contains(&name_of(&of)) {
            true => None,
            false => form_of(draft, &of)?,
        };
        let Some(form) = form else {
            nodes.push(of);
            continue;
        };
        let (data, weight) = (of.input[0].clone(), of.input[1].clone());
        let parts = quantised.entry(data.clone()).or_insert_with(|| {
            let parts = ["quantised", "scale", "zero_point"].map(|it| draft.fresh(&data, it));
            let mut quantise = node("DynamicQuantizeLinear", &[&data], &parts[0]);
            quantise.output = parts.to_vec();
            nodes.push(quantise);
            parts
        });
        let key = (weight.clone(), form.is_turned);
        if !weights.contains_key(&key) {
            let Some(made) = weigh(draft, &weight, &form)? else { continue };
            weights.insert(key.clone(), made);
        }
        let (bytes, scales) = &weights[&key];
        nodes.extend(product(draft, &of, &form, (parts, bytes, scales))?);
        let (operator, result) = (of.op_type.clone(), of.output[0].clone());
        layers.push(Layer { name: name_of(&of), operator, result });
    }
    draft.proto.body_mut().node = nodes;
    draft.drop_unread();
    Ok(layers)
}

/// The form of a node that multiplies floats by a constant, if there is one in integers.
fn form_of(draft: &Draft, of: &NodeProto) -> Result<Option<Form>> {
    let Some(Role::Product { axis, has_bias }) = role(of) else { return Ok(None) };
    let [data, weight, ..] = &of.input[..] else { return Ok(None) };
    let (operator, is_turned) = match of.op_type.as_str() {
        "Conv" => ("ConvInteger", false),
        "MatMul" => ("MatMulInteger", false),
        // Without a factor, and with its first operand as it is.
        "Gemm" if has_bias && integer_of(of, "transA", 0) == 0 => ("MatMulInteger", axis == 0),
        _ => return Ok(None),
    };
    let Some(weight) = draft.floats(weight)? else { return Ok(None) };
    let (rank, is_convolution) = (weight.shape().len(), of.op_type == "Conv");
    let fits = if is_convolution { rank > 2 } else { rank == 2 };
    if !fits || weight.is_empty() || draft.constant(data)?.is_some() || draft.is_dequantised(data) {
        return Ok(None);
    }
    // The bias of a convolution goes along an axis that is not the last.
    let bias = of.input.get(2).filter(|name| is_convolution && !name.is_empty());
    if let Some(bias) = bias
        && draft.floats(bias)?.is_none()
    {
        return Ok(None);
    }
    let axis = (if axis < 0 { axis + rank as i64 } else { axis }) as usize;
    Ok(Some(Form { operator, axis, is_turned, inner: rank - 2 }))
}

/// Makes bytes of a weight; gives their name, and the scales.
fn weigh(draft: &mut Draft, name: &str, form: &Form) -> Result<Option<(String, Tensor)>> {
    let Some(weight) = draft.floats(name)? else { return Ok(None) };
    let (mut elements, mut shape) = (weight.to_vec::<f32>()?, weight.shape().to_vec());
    let mut axis = form.axis;
    if form.is_turned {
        let [rows, columns] = [shape[0], shape[1]];
        let turned = (0..rows * columns).map(|at| elements[at % rows * columns + at / rows]);
        elements = turned.collect();
        shape.swap(0, 1);
        axis = 1 - axis;
    }
    let grid = Grid::along(&shape, axis);
    let magnitudes = grid.magnitudes(&elements).into_iter();
    let scales: Vec<f32> = magnitudes.map(|it| scale_for(it, DType::I8)).collect();
    let along: Vec<usize> = [scales.len()].into_iter().chain(vec![1; form.inner]).collect();
    let rounded = grid.round(&elements, scales, (DType::I8, &along));
    Ok(Some((draft.add_constant(name, "quantised", &rounded.integers), rounded.scales)))
}

/// The nodes of an integer product, up to the result of the float one.
///
/// # Errors
/// A bias that cannot be read.
fn product(
    draft: &mut Draft,
    of: &NodeProto,
    form: &Form,
    ([bytes, scale, zero_point], weight, scales): (&Parts, &str, &Tensor),
) -> Result<Vec<NodeProto>> {
    let result = &of.output[0];
    let scale_of_weight = draft.add_constant(&of.input[1], "scale", scales);
    let [both, sums, floats] =
        ["scale", "sums", "floats"].map(|suffix| draft.fresh(result, suffix));
    let mut integers = of.clone();
    integers.op_type = form.operator.to_owned();
    integers.input = vec![bytes.clone(), weight.to_owned(), zero_point.clone()];
    integers.output = vec![sums.clone()];
    if of.op_type == "Gemm" {
        integers.attribute.clear();
    }
    let mut cast = node("Cast", &[&sums], &floats);
    cast.attribute.push(integer("to", 1));
    let mut nodes = vec![node("Mul", &[scale, &scale_of_weight], &both), integers, cast];
    let Some(bias) = of.input.get(2).filter(|name| !name.is_empty()) else {
        nodes.push(node("Mul", &[&floats, &both], result));
        return Ok(nodes);
    };
    let bias = match draft.floats(bias)?.filter(|_| form.inner > 0) {
        Some(vector) => draft.add_constant(bias, "along", &vector.reshape(scales.shape())),
        None => bias.clone(),
    };
    let plain = draft.fresh(result, "product");
    nodes.push(node("Mul", &[&floats, &both], &plain));
    nodes.push(node("Add", &[&plain, &bias], result));
    Ok(nodes)
}
