//! The table of operators: a row each, by name, with the greatest version and the number of the
//! table of its options.

use tensor::{Reduction, ScalarFunction as F};

use super::Lower::{Plain, WithGraphs};
use super::{
    Lower, Operator, activations, control, convolution, elementwise, movement, pooling, quantise,
    reductions, resize,
};
use crate::node::Activation;

const fn row(name: &'static str, version: i32, options: u8, lower: Lower) -> Operator {
    Operator { name, version, options, lower }
}

/// All rows.
#[rustfmt::skip]
pub(super) const TABLE: &[Operator] = &[
    // --- sums of products ---
    row("CONV_2D", 8, 1, Plain(convolution::convolution)),
    row("DEPTHWISE_CONV_2D", 7, 2, Plain(convolution::depthwise)),
    row("TRANSPOSE_CONV", 5, 49, Plain(convolution::transposed)),
    row("FULLY_CONNECTED", 14, 8, Plain(convolution::fully_connected)),
    row("BATCH_MATMUL", 4, 101, Plain(convolution::batch_matmul)),

    // --- windows ---
    row("AVERAGE_POOL_2D", 3, 5, Plain(pooling::average)),
    row("MAX_POOL_2D", 3, 5, Plain(pooling::max)),
    row("L2_POOL_2D", 1, 5, Plain(pooling::root_mean_square)),

    // --- elements: one operand ---
    row("ABS", 5, 0, Plain(elementwise::absolute)),
    row("CAST", 9, 0, Plain(elementwise::cast)),
    row("CEIL", 1, 0, Plain(|node, graph| elementwise::unary(node, graph, F::Ceil))),
    row("COS", 2, 0, Plain(|node, graph| elementwise::unary(node, graph, F::Cos))),
    row("DEQUANTIZE", 9, 0, Plain(quantise::dequantise)),
    row("ELU", 1, 0, Plain(activations::elu)),
    row("EXP", 2, 0, Plain(activations::exp)),
    row("FLOOR", 1, 0, Plain(|node, graph| elementwise::unary(node, graph, F::Floor))),
    row("GELU", 3, 116, Plain(activations::gelu)),
    row("HARD_SWISH", 1, 0, Plain(activations::hard_swish)),
    row("LEAKY_RELU", 2, 75, Plain(elementwise::leaky_relu)),
    row("LOG", 2, 0, Plain(|node, graph| elementwise::unary(node, graph, F::Log))),
    row("LOGICAL_NOT", 1, 0, Plain(elementwise::not)),
    row("LOGISTIC", 3, 0, Plain(activations::logistic)),
    row("NEG", 1, 0, Plain(|node, graph| elementwise::unary(node, graph, F::Neg))),
    row("QUANTIZE", 6, 0, Plain(quantise::quantise)),
    row("RELU", 3, 0, Plain(|node, graph| elementwise::activation(node, graph, Activation::Relu))),
    row("RELU6", 3, 0, Plain(|it, graph| elementwise::activation(it, graph, Activation::Relu6))),
    row("RELU_0_TO_1", 1, 0, Plain(elementwise::unit_clamp)),
    row("RELU_N1_TO_1", 1, 0, Plain(elementwise::relu_n1_to_1)),
    row("ROUND", 1, 0, Plain(|node, graph| elementwise::unary(node, graph, F::Round))),
    row("RSQRT", 3, 0, Plain(activations::inverse_root)),
    row("SIGN", 2, 0, Plain(|node, graph| elementwise::unary(node, graph, F::Sign))),
    row("SIN", 2, 0, Plain(|node, graph| elementwise::unary(node, graph, F::Sin))),
    row("SQRT", 2, 0, Plain(|node, graph| elementwise::unary(node, graph, F::Sqrt))),
    row("SQUARE", 1, 0, Plain(elementwise::square)),
    row("TANH", 3, 0, Plain(activations::tanh)),
    row("ZEROS_LIKE", 1, 0, Plain(movement::zeros)),

    // --- elements: several operands ---
    row("ADD", 6, 11, Plain(|node, graph| elementwise::sum(node, graph, F::Add))),
    row("ADD_N", 1, 0, Plain(elementwise::sum_of_all)),
    row("ATAN2", 1, 0, Plain(|node, graph| elementwise::plain(node, graph, F::Atan2))),
    row("DIV", 2, 29, Plain(elementwise::quotient)),
    row("EQUAL", 5, 0, Plain(|node, graph| elementwise::comparison(node, graph, F::Eq))),
    row("FLOOR_DIV", 3, 0, Plain(elementwise::floored_quotient)),
    row("FLOOR_MOD", 2, 0, Plain(|node, graph| elementwise::plain(node, graph, F::Mod))),
    row("GREATER", 2, 0, Plain(|node, graph| elementwise::comparison(node, graph, F::Gt))),
    row("GREATER_EQUAL", 3, 0, Plain(|node, graph| elementwise::comparison(node, graph, F::Ge))),
    row("LESS", 3, 0, Plain(|node, graph| elementwise::comparison(node, graph, F::Lt))),
    row("LESS_EQUAL", 2, 0, Plain(|node, graph| elementwise::comparison(node, graph, F::Le))),
    row("LOGICAL_AND", 1, 0, Plain(|node, graph| elementwise::binary(node, graph, F::And))),
    row("LOGICAL_OR", 1, 0, Plain(|node, graph| elementwise::binary(node, graph, F::Or))),
    row("MAXIMUM", 4, 0, Plain(|node, graph| movement::extreme(node, graph, F::Max))),
    row("MINIMUM", 4, 0, Plain(|node, graph| movement::extreme(node, graph, F::Min))),
    row("MUL", 8, 21, Plain(elementwise::product)),
    row("NOT_EQUAL", 4, 0, Plain(|node, graph| elementwise::comparison(node, graph, F::Ne))),
    row("POW", 1, 0, Plain(|node, graph| elementwise::plain(node, graph, F::Pow))),
    row("PRELU", 1, 0, Plain(elementwise::prelu)),
    row("SELECT", 4, 0, Plain(|node, graph| elementwise::select(node, graph, true))),
    row("SELECT_V2", 2, 0, Plain(|node, graph| elementwise::select(node, graph, false))),
    row("SQUARED_DIFFERENCE", 2, 0, Plain(elementwise::squared_difference)),
    row("SUB", 5, 28, Plain(|node, graph| elementwise::sum(node, graph, F::Sub))),

    // --- along axes ---
    row("ARG_MAX", 3, 0, Plain(|node, graph| reductions::place(node, graph, true))),
    row("ARG_MIN", 3, 0, Plain(|node, graph| reductions::place(node, graph, false))),
    row("CUMSUM", 1, 102, Plain(activations::running_sum)),
    row("L2_NORMALIZATION", 2, 12, Plain(activations::normalised)),
    row("LOG_SOFTMAX", 2, 0, Plain(activations::log_softmax)),
    row("MEAN", 3, 27, Plain(|node, graph| reductions::total(node, graph, true))),
    row("REDUCE_ALL", 1, 27, Plain(|node, graph| reductions::reduce(node, graph, Reduction::And))),
    row("REDUCE_ANY", 1, 27, Plain(|node, graph| reductions::reduce(node, graph, Reduction::Or))),
    row("REDUCE_MAX", 3, 27, Plain(|node, graph| reductions::reduce(node, graph, Reduction::Max))),
    row("REDUCE_MIN", 3, 27, Plain(|node, graph| reductions::reduce(node, graph, Reduction::Min))),
    row("REDUCE_PROD", 2, 27, Plain(|it, graph| reductions::reduce(it, graph, Reduction::Product))),
    row("SOFTMAX", 4, 9, Plain(activations::softmax)),
    row("SUM", 2, 27, Plain(|node, graph| reductions::total(node, graph, false))),
    row("TOPK_V2", 3, 0, Plain(reductions::greatest)),

    // --- movement ---
    row("BATCH_TO_SPACE_ND", 4, 0, Plain(movement::batch_to_space)),
    row("BROADCAST_TO", 4, 0, Plain(movement::broadcast)),
    row("CONCATENATION", 7, 10, Plain(movement::concat)),
    row("DEPTH_TO_SPACE", 2, 94, Plain(movement::depth_to_space)),
    row("EXPAND_DIMS", 1, 0, Plain(movement::expand)),
    row("FILL", 5, 0, Plain(movement::fill)),
    row("GATHER", 8, 23, Plain(reductions::gather)),
    row("GATHER_ND", 6, 0, Plain(reductions::gather_tuples)),
    row("MIRROR_PAD", 3, 77, Plain(movement::mirror_pad)),
    row("ONE_HOT", 1, 61, Plain(reductions::one_hot)),
    row("PACK", 5, 59, Plain(movement::pack)),
    row("PAD", 6, 0, Plain(movement::pad)),
    row("PADV2", 6, 0, Plain(movement::pad)),
    row("RANGE", 2, 0, Plain(movement::range)),
    row("RANK", 1, 0, Plain(movement::rank)),
    row("RESHAPE", 1, 17, Plain(movement::reshape)),
    row("RESIZE_BILINEAR", 4, 15, Plain(resize::linear)),
    row("RESIZE_NEAREST_NEIGHBOR", 4, 74, Plain(resize::nearest)),
    row("REVERSE_V2", 4, 0, Plain(reductions::reversed)),
    row("SCATTER_ND", 1, 0, Plain(reductions::scatter_tuples)),
    row("SHAPE", 1, 0, Plain(movement::shape)),
    row("SLICE", 8, 0, Plain(movement::slice)),
    row("SPACE_TO_BATCH_ND", 4, 0, Plain(movement::space_to_batch)),
    row("SPACE_TO_DEPTH", 2, 19, Plain(movement::space_to_depth)),
    row("SPLIT", 5, 35, Plain(movement::split)),
    row("SPLIT_V", 3, 79, Plain(movement::split_at)),
    row("SQUEEZE", 2, 30, Plain(movement::squeeze)),
    row("STRIDED_SLICE", 8, 32, Plain(movement::strided_slice)),
    row("TILE", 3, 0, Plain(movement::tile)),
    row("TRANSPOSE", 9, 0, Plain(movement::transpose)),
    row("UNPACK", 6, 64, Plain(movement::unpack)),
    row("WHERE", 2, 0, Plain(reductions::true_places)),

    // --- graphs within operators ---
    row("IF", 1, 92, WithGraphs(control::branch)),
    row("WHILE", 1, 93, WithGraphs(control::repeat)),
];
