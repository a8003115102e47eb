//! What quantisation knows of ONNX's operators: a row each. An operator without a row stays float.

use tilewright::compiled::proto::NodeProto;

use crate::draft::{integer_of, is_own};

/// What becomes of an operator whose operands are bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// Sums of products by a second operand: a weight whose axis of results is that one, with
    /// a scale each, and a third operand that is added.
    Product {
        /// The axis of the weight that has a scale an element; counted from the back if negative.
        axis: i64,
        /// Whether the third operand goes along the results, so that it can be integers.
        has_bias: bool,
    },
    /// Bytes in, bytes out, with a scale of its own.
    Map,
    /// As a map; behind another it is part of that, if no other reads what stands between.
    Clamp,
    /// Elements of the first operand at other places: the scale stays.
    Movement,
}

/// The role of a node, if it has one.
pub(crate) fn role(node: &NodeProto) -> Option<Role> {
    if !is_own(&node.domain) || node.output.is_empty() || node.input.is_empty() {
        return None;
    }
    let has_word = |name: &str, word: &str| {
        node.attribute_of(name).is_some_and(|attribute| attribute.s == word.as_bytes())
    };
    Some(match node.op_type.as_str() {
        "Conv" => Role::Product { axis: 0, has_bias: true },
        // The filter's second axis counts results within a group.
        "ConvTranspose" if integer_of(node, "group", 1) == 1 => {
            Role::Product { axis: 1, has_bias: true }
        }
        "Gemm" => {
            let is_plain = node.attribute_of("alpha").is_none_or(|alpha| alpha.f == 1.0)
                && node.attribute_of("beta").is_none_or(|beta| beta.f == 1.0);
            let axis = if integer_of(node, "transB", 0) == 0 { 1 } else { 0 };
            Role::Product { axis, has_bias: is_plain }
        }
        "MatMul" => Role::Product { axis: -1, has_bias: false },
        "Add" | "Mul" | "Concat" | "AveragePool" | "GlobalAveragePool" | "ReduceMean"
        | "Sigmoid" | "HardSigmoid" | "HardSwish" | "LeakyRelu" | "Tanh" => Role::Map,
        "Relu" | "Clip" => Role::Clamp,
        "Resize" | "Upsample" if !has_word("mode", "nearest") => Role::Map,
        "MaxPool" | "Reshape" | "Flatten" | "Squeeze" | "Unsqueeze" | "Transpose" | "Slice"
        | "Resize" | "Upsample" | "DepthToSpace" | "SpaceToDepth" | "Identity" | "Expand"
        | "GlobalMaxPool" => Role::Movement,
        _ => return None,
    })
}
