//! Models of older operator sets, written for a newer one.
//!
//! Rounding with a scale a channel came with version 13, blocks and integers of 4 bits with 21. In
//! between some operators changed their form: what was an attribute became an operand. A row says
//! which, and since when; what changed its meaning, and is not in the table, is refused.

use base::{Diagnostic, Result, codes};
use tensor::{DType, Scalar, Tensor};
use tilewright::compiled::proto::NodeProto;

use crate::draft::{Draft, integer, integer_of, is_own, node};

/// A list attribute that became an operand, or a single number that did.
struct Moved {
    operator: &'static str,
    since: i64,
    attribute: &'static str,
    operand: usize,
}

const MOVED: &[Moved] = &[
    Moved { operator: "Clip", since: 11, attribute: "min", operand: 1 },
    Moved { operator: "Clip", since: 11, attribute: "max", operand: 2 },
    Moved { operator: "Pad", since: 11, attribute: "pads", operand: 1 },
    Moved { operator: "Pad", since: 11, attribute: "value", operand: 2 },
    Moved { operator: "Slice", since: 10, attribute: "starts", operand: 1 },
    Moved { operator: "Slice", since: 10, attribute: "ends", operand: 2 },
    Moved { operator: "Slice", since: 10, attribute: "axes", operand: 3 },
    Moved { operator: "Squeeze", since: 13, attribute: "axes", operand: 1 },
    Moved { operator: "Unsqueeze", since: 13, attribute: "axes", operand: 1 },
    Moved { operator: "Split", since: 13, attribute: "split", operand: 1 },
    Moved { operator: "ReduceSum", since: 13, attribute: "axes", operand: 1 },
    Moved { operator: "ReduceMean", since: 18, attribute: "axes", operand: 1 },
    Moved { operator: "ReduceMax", since: 18, attribute: "axes", operand: 1 },
    Moved { operator: "ReduceMin", since: 18, attribute: "axes", operand: 1 },
    Moved { operator: "ReduceProd", since: 18, attribute: "axes", operand: 1 },
    Moved { operator: "ReduceL1", since: 18, attribute: "axes", operand: 1 },
    Moved { operator: "ReduceL2", since: 18, attribute: "axes", operand: 1 },
    Moved { operator: "ReduceLogSum", since: 18, attribute: "axes", operand: 1 },
    Moved { operator: "ReduceLogSumExp", since: 18, attribute: "axes", operand: 1 },
    Moved { operator: "ReduceSumSquare", since: 18, attribute: "axes", operand: 1 },
];

/// Operators that mean something else from a version on, by what attributes cannot say.
const REFUSED: &[(&str, i64)] = &[
    ("Upsample", 10),
    ("Resize", 11),
    ("TopK", 10),
    ("Scan", 9),
    ("GridSample", 20),
    ("BatchNormalization", 7),
    ("Add", 7),
    ("Sub", 7),
    ("Mul", 7),
    ("Div", 7),
    ("Gemm", 7),
    ("GroupNormalization", 21),
];

/// Writes a draft for at least this version.
///
/// # Errors
/// `TW0108` for operators that mean something else there.
pub(crate) fn raise(draft: &mut Draft, to: i64) -> Result<()> {
    let from = draft.opset();
    // Each version of the set came with a version of the format.
    let ir = if to >= 21 { 10 } else { 7 };
    draft.proto.ir_version = draft.proto.ir_version.max(ir);
    if from >= to {
        return Ok(());
    }
    let mut found = base::Diagnostics::new();
    for number in 0..draft.nodes().len() {
        let node = &draft.nodes()[number];
        if is_own(&node.domain)
            && let Some(refused) = refusal(node, (from, to))
        {
            found.push(refused);
            continue;
        }
        move_attributes(draft, number, (from, to));
    }
    if from < 13 && to >= 13 {
        softmax_over_one_axis(draft);
    }
    for set in draft.proto.opset_import.iter_mut().filter(|set| is_own(&set.domain)) {
        set.version = to;
    }
    found.or_ok(())
}

fn refusal(node: &NodeProto, (from, to): (i64, i64)) -> Option<Diagnostic> {
    let is_between = |since: i64| from < since && since <= to;
    let (name, since) = *REFUSED.iter().find(|row| row.0 == node.op_type && is_between(row.1))?;
    let message = format!("the model's operator set cannot be raised from {from} to {to}");
    let reason = format!("`{name}` means something else since version {since}");
    Some(
        Diagnostic::error(codes::UNKNOWN_OPSET, message)
            .at(crate::plan::name_of(node))
            .because(reason)
            .remedy("export the model for a newer operator set"),
    )
}

fn move_attributes(draft: &mut Draft, number: usize, (from, to): (i64, i64)) {
    let operator = draft.nodes()[number].op_type.clone();
    if !is_own(&draft.nodes()[number].domain) {
        return;
    }
    for moved in MOVED.iter().filter(|it| it.operator == operator) {
        if !(from < moved.since && moved.since <= to) {
            continue;
        }
        let node = &mut draft.proto.body_mut().node[number];
        let place = node.attribute.iter().position(|it| it.name == moved.attribute);
        let Some(attribute) = place.map(|place| node.attribute.remove(place)) else { continue };
        let tensor = match attribute.ints.is_empty() {
            false => Tensor::from_vec(&[attribute.ints.len()], attribute.ints),
            true => Tensor::scalar(Scalar::from_f64(DType::F32, attribute.f.into())),
        };
        let base = node.output.first().cloned().unwrap_or_default();
        let name = draft.add_constant(&base, moved.attribute, &tensor);
        let node = &mut draft.proto.body_mut().node[number];
        while node.input.len() <= moved.operand {
            node.input.push(String::new());
        }
        node.input[moved.operand] = name;
    }
    let node = &mut draft.proto.body_mut().node[number];
    match operator.as_str() {
        // How often it is cut is told by the outputs until version 18.
        "Split" if from < 18 && to >= 18 && node.input.len() < 2 => {
            node.attribute.push(integer("num_outputs", node.output.len() as i64));
        }
        "Dropout" if from < 12 && to >= 12 => node.attribute.clear(),
        "BatchNormalization" => node.attribute.retain(|it| it.name != "spatial"),
        _ => {}
    }
}

/// Before version 13 the sums of `Softmax` and its like go over an axis and all behind it: where
/// that is not the last alone, these become one, and are parted again.
fn softmax_over_one_axis(draft: &mut Draft) {
    let mut nodes = Vec::new();
    for mut softmax in std::mem::take(&mut draft.proto.body_mut().node) {
        let is_meant = matches!(softmax.op_type.as_str(), "Softmax" | "LogSoftmax" | "Hardmax");
        if !is_meant || !is_own(&softmax.domain) {
            nodes.push(softmax);
            continue;
        }
        let axis = integer_of(&softmax, "axis", 1);
        let (from, to) = (softmax.input[0].clone(), softmax.output[0].clone());
        let rank = draft.rank(&to).or_else(|| draft.rank(&from));
        softmax.attribute = vec![integer("axis", -1)];
        if axis == -1 || rank.is_some_and(|rank| axis == rank as i64 - 1) {
            nodes.push(softmax);
            continue;
        }
        let [shape, flat, result] =
            ["shape", "flat", "parts"].map(|suffix| draft.fresh(&to, suffix));
        let mut flatten = node("Flatten", &[&from], &flat);
        flatten.attribute.push(integer("axis", axis));
        softmax.input = vec![flat];
        softmax.output = vec![result.clone()];
        nodes.extend([node("Shape", &[&from], &shape), flatten, softmax]);
        nodes.push(node("Reshape", &[&result, &shape], &to));
    }
    draft.proto.body_mut().node = nodes;
}
