//! The table of operators: a row each, by name.

use tensor::{Reduction, ScalarFunction as F};

use super::resize::Between;
use super::{
    Lower, Operator, arithmetic, attention, creation, indexing, movement, normalization, products,
    quantised, reductions, resize, windows,
};
use crate::derivative::by_arguments;

const fn row(name: &'static str, overloads: &'static str, lower: Lower) -> Operator {
    Operator { name, overloads, lower }
}

/// All rows.
pub(super) const TABLE: &[Operator] = &[
    // --- elements: one operand ---
    row("aten.abs", "default", |node, graph| arithmetic::unary(node, graph, F::Abs)),
    row("aten.acos", "default", |node, graph| arithmetic::unary(node, graph, F::Acos)),
    row("aten.acosh", "default", |node, graph| arithmetic::unary(node, graph, F::Acosh)),
    row("aten.angle", "default", arithmetic::angle),
    row("aten.asin", "default", |node, graph| arithmetic::unary(node, graph, F::Asin)),
    row("aten.asinh", "default", |node, graph| arithmetic::unary(node, graph, F::Asinh)),
    row("aten.atan", "default", |node, graph| arithmetic::unary(node, graph, F::Atan)),
    row("aten.atanh", "default", |node, graph| arithmetic::unary(node, graph, F::Atanh)),
    row("aten.bitwise_not", "default", |node, graph| arithmetic::unary(node, graph, F::Not)),
    row("prims.bessel_i0", "default", arithmetic::bessel),
    row("aten.ceil", "default", |node, graph| arithmetic::rounding(node, graph, F::Ceil)),
    row("aten.cos", "default", |node, graph| arithmetic::unary(node, graph, F::Cos)),
    row("aten.cosh", "default", |node, graph| arithmetic::unary(node, graph, F::Cosh)),
    row("aten.elu", "default", arithmetic::elu),
    row("aten.erf", "default", |node, graph| arithmetic::unary(node, graph, F::Erf)),
    row("aten.exp", "default", |node, graph| arithmetic::unary(node, graph, F::Exp)),
    row("aten.exp2", "default", |node, graph| arithmetic::unary(node, graph, F::Exp2)),
    row("aten.expm1", "default", |node, graph| arithmetic::unary(node, graph, F::Expm1)),
    row("aten.floor", "default", |node, graph| arithmetic::rounding(node, graph, F::Floor)),
    row("aten.gelu", "default", arithmetic::gelu),
    row("aten.hardsigmoid", "default", arithmetic::hard_sigmoid),
    row("aten.hardswish", "default", arithmetic::hard_swish),
    row("aten.hardtanh", "default", arithmetic::hard_tanh),
    row("aten.isinf", "default", |node, graph| arithmetic::test(node, graph, F::IsInf)),
    row("aten.isnan", "default", |node, graph| arithmetic::test(node, graph, F::IsNan)),
    row("aten.leaky_relu", "default", arithmetic::leaky_relu),
    row("aten.log", "default", |node, graph| arithmetic::unary(node, graph, F::Log)),
    row("aten.log10", "default", arithmetic::log10),
    row("aten.log1p", "default", |node, graph| arithmetic::unary(node, graph, F::Log1p)),
    row("aten.log2", "default", |node, graph| arithmetic::unary(node, graph, F::Log2)),
    row("aten.logical_not", "default", |node, graph| arithmetic::logical(node, graph, F::Not)),
    row("aten.mish", "default", arithmetic::mish),
    row("aten.neg", "default", |node, graph| arithmetic::unary(node, graph, F::Neg)),
    row("aten.reciprocal", "default", |node, graph| arithmetic::unary(node, graph, F::Reciprocal)),
    row("aten._neg_view", "default", |node, graph| arithmetic::unary(node, graph, F::Neg)),
    row("aten.relu", "default", arithmetic::relu),
    row("aten.relu6", "default", arithmetic::relu6),
    row("aten.round", "default decimals", |node, graph| {
        arithmetic::rounding(node, graph, F::Round)
    }),
    row("aten.rsqrt", "default", arithmetic::inverse_root),
    row("aten.sigmoid", "default", arithmetic::sigmoid),
    row("aten.sgn", "default", arithmetic::sign),
    row("aten.sign", "default", arithmetic::sign),
    row("aten.silu", "default", arithmetic::silu),
    row("aten.sin", "default", |node, graph| arithmetic::unary(node, graph, F::Sin)),
    row("aten.sinh", "default", |node, graph| arithmetic::unary(node, graph, F::Sinh)),
    row("aten.softplus", "default", arithmetic::softplus),
    row("aten.sqrt", "default", |node, graph| arithmetic::unary(node, graph, F::Sqrt)),
    row("aten.square", "default", arithmetic::square),
    row("aten.tan", "default", |node, graph| arithmetic::unary(node, graph, F::Tan)),
    row("aten.tanh", "default", |node, graph| arithmetic::unary(node, graph, F::Tanh)),
    row("aten.trunc", "default", |node, graph| arithmetic::rounding(node, graph, F::Trunc)),
    // --- elements: several operands ---
    row("aten.add", "Tensor Scalar", |node, graph| arithmetic::sum(node, graph, F::Add, false)),
    row("aten.addcdiv", "default", |node, graph| arithmetic::multiply_add(node, graph, F::Div)),
    row("aten.addcmul", "default", |node, graph| arithmetic::multiply_add(node, graph, F::Mul)),
    row("aten.atan2", "default", |node, graph| arithmetic::binary(node, graph, F::Atan2)),
    row("aten.bitwise_and", "Tensor Scalar", |node, graph| arithmetic::binary(node, graph, F::And)),
    row("aten.__and__", "Tensor Scalar", |node, graph| arithmetic::binary(node, graph, F::And)),
    row("aten.bitwise_or", "Tensor Scalar", |node, graph| arithmetic::binary(node, graph, F::Or)),
    row("aten.__or__", "Tensor Scalar", |node, graph| arithmetic::binary(node, graph, F::Or)),
    row("aten.bitwise_xor", "Tensor Scalar", |node, graph| arithmetic::binary(node, graph, F::Xor)),
    row("aten.__xor__", "Tensor Scalar", |node, graph| arithmetic::binary(node, graph, F::Xor)),
    row("aten.clamp", "default Tensor", arithmetic::clamp),
    row("aten.clamp_max", "default Tensor", |node, graph| {
        arithmetic::bounded(node, graph, F::Min, "max")
    }),
    row("aten.clamp_min", "default Tensor", |node, graph| {
        arithmetic::bounded(node, graph, F::Max, "min")
    }),
    row("aten.div", "Tensor Scalar Tensor_mode Scalar_mode", arithmetic::quotient),
    row("aten.eq", "Tensor Scalar", |node, graph| arithmetic::comparison(node, graph, F::Eq)),
    row("aten.floor_divide", "default Scalar", arithmetic::floor_quotient),
    row("aten.fmod", "Tensor Scalar", |node, graph| arithmetic::binary(node, graph, F::Rem)),
    row("prims.fma", "default", arithmetic::fused),
    row("aten.ge", "Tensor Scalar", |node, graph| arithmetic::comparison(node, graph, F::Ge)),
    row("aten.gt", "Tensor Scalar", |node, graph| arithmetic::comparison(node, graph, F::Gt)),
    row("aten.le", "Tensor Scalar", |node, graph| arithmetic::comparison(node, graph, F::Le)),
    row("aten.logical_and", "default", |node, graph| arithmetic::logical(node, graph, F::And)),
    row("aten.logical_or", "default", |node, graph| arithmetic::logical(node, graph, F::Or)),
    row("aten.logical_xor", "default", |node, graph| arithmetic::logical(node, graph, F::Xor)),
    row("aten.lt", "Tensor Scalar", |node, graph| arithmetic::comparison(node, graph, F::Lt)),
    row("aten.masked_fill", "Scalar Tensor", arithmetic::masked_fill),
    row("aten.max", "other", |node, graph| arithmetic::binary(node, graph, F::Max)),
    row("aten.maximum", "default", |node, graph| arithmetic::binary(node, graph, F::Max)),
    row("aten.min", "other", |node, graph| arithmetic::binary(node, graph, F::Min)),
    row("aten.minimum", "default", |node, graph| arithmetic::binary(node, graph, F::Min)),
    row("aten.mul", "Tensor Scalar", arithmetic::product),
    row("aten.ne", "Tensor Scalar", |node, graph| arithmetic::comparison(node, graph, F::Ne)),
    row("aten.pow", "Tensor_Tensor Tensor_Scalar Scalar", arithmetic::power),
    row("aten.remainder", "Tensor Scalar", |node, graph| arithmetic::binary(node, graph, F::Mod)),
    row("aten.rsub", "Tensor Scalar", |node, graph| arithmetic::sum(node, graph, F::Sub, true)),
    row("aten.sub", "Tensor Scalar", |node, graph| arithmetic::sum(node, graph, F::Sub, false)),
    row("aten.threshold_backward", "default", arithmetic::threshold_backward),
    row("aten.where", "self ScalarSelf ScalarOther Scalar", arithmetic::chosen),
    // --- the same elements ---
    row("aten._to_copy", "default", arithmetic::converted),
    row("aten.alias", "default", arithmetic::same),
    row("aten.clone", "default", arithmetic::same),
    row("aten.contiguous", "default", arithmetic::same),
    row("aten.detach", "default", arithmetic::same),
    row("aten.dropout", "default", arithmetic::dropout),
    row("aten.lift", "default", arithmetic::same),
    row("aten.lift_fresh", "default", arithmetic::same),
    row("aten.lift_fresh_copy", "default", arithmetic::same),
    row("aten.native_dropout", "default", arithmetic::dropout),
    row("aten.resolve_conj", "default", arithmetic::same),
    row("aten.resolve_neg", "default", arithmetic::same),
    row("aten.to", "device dtype dtype_layout", arithmetic::converted),
    row("aten.type_as", "default", arithmetic::converted),
    row("prims.convert_element_type", "default", arithmetic::converted),
    // --- movement ---
    row("aten._unsafe_view", "default", movement::reshape),
    row("aten.as_strided", "default", movement::strided),
    row("aten.as_strided_scatter", "default", movement::strided_scatter),
    row("prims.as_strided_scatter", "default", movement::strided_scatter),
    row("aten.cat", "default", movement::concat),
    row("aten.chunk", "default", |node, graph| movement::parts(node, graph, 2, false)),
    row("aten.constant_pad_nd", "default", |node, graph| movement::pad(node, graph, 2)),
    row("aten.pad", "default", movement::pad_by_mode),
    row("aten.copy", "default", movement::copy),
    row("aten.diagonal_scatter", "default", movement::diagonal_scatter),
    row("aten.diff", "default", movement::differences),
    row("aten.fill", "Scalar Tensor", |node, graph| creation::full(node, graph, 1, "value")),
    row("aten.expand", "default", movement::expand),
    row("aten.flatten", "using_ints", movement::reshape),
    row("aten.flip", "default", movement::flip),
    row("aten.permute", "default", movement::permute),
    row("aten.repeat", "default", movement::repeat),
    row("aten.reshape", "default", movement::reshape),
    row("aten.select", "int", movement::select),
    row("aten.select_scatter", "default", movement::select_scatter),
    row("aten.slice", "Tensor", movement::slice),
    row("aten.slice_scatter", "default", movement::slice_scatter),
    row("aten.split", "Tensor", |node, graph| movement::parts(node, graph, 2, false)),
    row("aten.split_with_sizes", "default", |node, graph| movement::parts(node, graph, 2, false)),
    row("aten.squeeze", "default dim dims", movement::reshape),
    row("aten.stack", "default", movement::stack),
    row("aten.t", "default", movement::turned),
    row("aten.transpose", "int", movement::transpose),
    row("aten.swapaxes", "default", movement::transpose),
    row("aten.swapdims", "default", movement::transpose),
    row("aten.roll", "default", movement::roll),
    row("aten.tril", "default", |node, graph| movement::triangle(node, graph, false)),
    row("aten.triu", "default", |node, graph| movement::triangle(node, graph, true)),
    row("aten.unbind", "int", |node, graph| movement::parts(node, graph, 1, true)),
    row("aten.unflatten", "int", movement::reshape),
    row("aten.unsqueeze", "default", movement::reshape),
    row("aten.view", "default", movement::reshape),
    // --- indices ---
    row("aten._unsafe_index", "Tensor", indexing::index),
    row("aten.embedding", "default", indexing::embedding),
    row("aten.embedding_renorm", "default", indexing::embedding_renorm),
    row("aten.gather", "default", indexing::gather),
    row("aten.index", "Tensor", indexing::index),
    row("aten.index_put", "default", indexing::index_put),
    row("aten.index_select", "default", indexing::index_select),
    row("aten._embedding_bag", "default", indexing::embedding_bag),
    row("aten._embedding_bag_backward", "default", indexing::embedding_bag_backward),
    row("aten._embedding_bag_forward_only", "default", indexing::embedding_bag),
    row("aten.masked_scatter", "default", indexing::masked_scatter),
    row("aten.nonzero", "default", indexing::non_zero),
    row("aten._local_scalar_dense", "default", indexing::counted),
    row("aten.scatter", "src", |node, graph| indexing::scatter(node, graph, "src", None)),
    row("aten.scatter", "value", |node, graph| indexing::scatter(node, graph, "value", None)),
    row("aten.scatter", "reduce", |node, graph| indexing::scatter_by_word(node, graph, "src")),
    row("aten.scatter", "value_reduce", |node, graph| {
        indexing::scatter_by_word(node, graph, "value")
    }),
    row("aten.scatter_add", "default", |node, graph| {
        indexing::scatter(node, graph, "src", Some(Reduction::Sum))
    }),
    row("aten.scatter_reduce", "two", indexing::scatter_reduce),
    // --- products ---
    row("aten._trilinear", "default", products::trilinear),
    row("aten.addmm", "default", products::product_and_sum),
    row("aten.addmv", "default", products::product_and_sum),
    row("aten.baddbmm", "default", products::product_and_sum),
    row("aten.bmm", "default", products::matmul),
    row("aten.einsum", "default", products::einsum),
    row("aten.conv1d", "default padding", products::plain),
    row("aten.conv2d", "default padding", products::plain),
    row("aten.conv3d", "default padding", products::plain),
    row("aten.conv_transpose1d", "default", products::transposed),
    row("aten.conv_transpose2d", "input", products::transposed),
    row("aten.conv_transpose3d", "input", products::transposed),
    row("aten.convolution", "default", products::convolution),
    row("aten.convolution_backward", "default", products::convolution_backward),
    row("aten.dot", "default", products::dot),
    row("aten.linear", "default", products::linear),
    row("aten.matmul", "default", products::matmul),
    row("aten.mm", "default", products::matmul),
    row("aten.mv", "default", products::matmul),
    row("aten._scaled_dot_product_flash_attention_for_cpu", "default", attention::flash),
    row(
        "aten._scaled_dot_product_flash_attention_for_cpu_backward",
        "default",
        attention::flash_backward,
    ),
    row("aten._transformer_encoder_layer_fwd", "default", attention::encoder_layer),
    row("aten.scaled_dot_product_attention", "default", attention::attention),
    // --- normalisations ---
    row("aten._log_softmax", "default", |node, graph| normalization::softmax(node, graph, true)),
    row("aten._native_batch_norm_legit_functional", "default", normalization::batch_functional),
    row("aten._native_batch_norm_legit_no_training", "default", normalization::batch_inference),
    row("aten._softmax", "default", |node, graph| normalization::softmax(node, graph, false)),
    row("aten._weight_norm_interface_backward", "default", normalization::weight_backward),
    row("aten.batch_norm", "default", normalization::batch),
    row("aten.group_norm", "default", normalization::group),
    row("aten.layer_norm", "default", normalization::layer),
    row("aten.log_softmax", "int", |node, graph| normalization::softmax(node, graph, true)),
    row("aten.native_group_norm", "default", normalization::native_group),
    row("aten.native_layer_norm", "default", normalization::layer),
    row("aten._fused_rms_norm", "default", normalization::root_mean_square),
    row("aten.rms_norm", "default", normalization::root_mean_square),
    row("aten.softmax", "int", |node, graph| normalization::softmax(node, graph, false)),
    // --- reductions ---
    row("aten.all", "default", |node, graph| reductions::truth(node, graph, Reduction::And, false)),
    row("aten.all", "dim dims", |node, graph| reductions::truth(node, graph, Reduction::And, true)),
    row("aten.amax", "default", |node, graph| reductions::reduce(node, graph, Reduction::Max)),
    row("aten.amin", "default", |node, graph| reductions::reduce(node, graph, Reduction::Min)),
    row("aten.any", "default", |node, graph| reductions::truth(node, graph, Reduction::Or, false)),
    row("aten.any", "dim dims", |node, graph| reductions::truth(node, graph, Reduction::Or, true)),
    row("aten.argmax", "default", |node, graph| reductions::place(node, graph, true)),
    row("aten.argmin", "default", |node, graph| reductions::place(node, graph, false)),
    row("aten.cumprod", "default", |node, graph| {
        reductions::cumulate(node, graph, Reduction::Product)
    }),
    row("aten._cdist_forward", "default", reductions::distances),
    row("aten._pdist_forward", "default", reductions::own_distances),
    row("aten.cumsum", "default", |node, graph| reductions::cumulate(node, graph, Reduction::Sum)),
    row("aten.histc", "default", reductions::histogram),
    row("aten.logsumexp", "default", reductions::log_sum_exp),
    row("aten.max", "default", |node, graph| reductions::reduce_all(node, graph, Reduction::Max)),
    row("aten.max", "dim", |node, graph| reductions::extreme(node, graph, true)),
    row("aten.mean", "default", reductions::mean_all),
    row("aten.mean", "dim", reductions::mean),
    row("aten.min", "default", |node, graph| reductions::reduce_all(node, graph, Reduction::Min)),
    row("aten.min", "dim", |node, graph| reductions::extreme(node, graph, false)),
    row("aten.prod", "default", |node, graph| {
        reductions::reduce_all(node, graph, Reduction::Product)
    }),
    row("aten.prod", "dim_int", |node, graph| reductions::reduce(node, graph, Reduction::Product)),
    row("aten.sort", "default", |node, graph| reductions::sort(node, graph, 1)),
    row("aten.sort", "stable", |node, graph| reductions::sort(node, graph, 9)),
    row("aten.sum", "default", |node, graph| reductions::reduce_all(node, graph, Reduction::Sum)),
    row("aten.sum", "dim_IntList", |node, graph| reductions::reduce(node, graph, Reduction::Sum)),
    row("aten.topk", "default", reductions::top),
    row("aten.var", "correction", |node, graph| reductions::variance(node, graph, false)),
    row("aten.var_mean", "correction", |node, graph| reductions::variance(node, graph, true)),
    // --- windows ---
    row("aten._adaptive_avg_pool2d", "default", |node, graph| {
        windows::adaptive_average(node, graph, 2)
    }),
    row("aten._adaptive_avg_pool3d", "default", |node, graph| {
        windows::adaptive_average(node, graph, 3)
    }),
    row("aten.adaptive_avg_pool1d", "default", |node, graph| {
        windows::adaptive_average(node, graph, 1)
    }),
    row("aten.adaptive_avg_pool2d", "default", |node, graph| {
        windows::adaptive_average(node, graph, 2)
    }),
    row("aten.adaptive_avg_pool3d", "default", |node, graph| {
        windows::adaptive_average(node, graph, 3)
    }),
    row("aten.avg_pool1d", "default", |node, graph| windows::average(node, graph, 1)),
    row("aten.avg_pool2d", "default", |node, graph| windows::average(node, graph, 2)),
    row("aten.avg_pool3d", "default", |node, graph| windows::average(node, graph, 3)),
    row("aten.max_pool1d", "default", |node, graph| windows::max(node, graph, 1)),
    row("aten.max_pool2d", "default", |node, graph| windows::max(node, graph, 2)),
    row("aten.max_pool2d_with_indices", "default", |node, graph| windows::max(node, graph, 2)),
    row("aten.max_pool3d", "default", |node, graph| windows::max(node, graph, 3)),
    row("aten._adaptive_avg_pool2d_backward", "default", |node, graph| {
        by_arguments(node, graph, |node, graph| windows::adaptive_average(node, graph, 2), &[0])
    }),
    row("aten._adaptive_avg_pool3d_backward", "default", |node, graph| {
        by_arguments(node, graph, |node, graph| windows::adaptive_average(node, graph, 3), &[0])
    }),
    row("aten.avg_pool2d_backward", "default", |node, graph| {
        by_arguments(node, graph, |node, graph| windows::average(node, graph, 2), &[0])
    }),
    row("aten.avg_pool3d_backward", "default", |node, graph| {
        by_arguments(node, graph, |node, graph| windows::average(node, graph, 3), &[0])
    }),
    row("aten.max_pool3d_with_indices_backward", "default", |node, graph| {
        windows::max_backward(node, graph, 3)
    }),
    // --- resizing ---
    row("aten.upsample_bilinear2d", "default vec", |node, graph| {
        resize::resize(node, graph, 2, Between::Linear)
    }),
    row("aten.upsample_linear1d", "default vec", |node, graph| {
        resize::resize(node, graph, 1, Between::Linear)
    }),
    row("aten.upsample_nearest1d", "default vec", |node, graph| {
        resize::resize(node, graph, 1, Between::Nearest)
    }),
    row("aten.upsample_nearest2d", "default vec", |node, graph| {
        resize::resize(node, graph, 2, Between::Nearest)
    }),
    row("aten.upsample_nearest3d", "default vec", |node, graph| {
        resize::resize(node, graph, 3, Between::Nearest)
    }),
    row("aten.upsample_trilinear3d", "default vec", |node, graph| {
        resize::resize(node, graph, 3, Between::Linear)
    }),
    row("aten.grid_sampler_3d", "default", resize::sampled),
    row("aten.grid_sampler_2d_backward", "default", |node, graph| {
        by_arguments(node, graph, resize::sampled, &[0, 1])
    }),
    row("aten.grid_sampler_3d_backward", "default", |node, graph| {
        by_arguments(node, graph, resize::sampled, &[0, 1])
    }),
    // --- made of nothing ---
    row("aten.arange", "default", creation::count),
    row("aten.arange", "start start_step", creation::range),
    row("prims.empty_strided", "default", |node, graph| creation::constant(node, graph, false)),
    row("aten.empty_permuted", "default", |node, graph| creation::constant(node, graph, false)),
    row("aten.empty", "memory_format", |node, graph| creation::constant(node, graph, false)),
    row("aten.eye", "default m", creation::identity),
    row("aten.full", "default", |node, graph| creation::full(node, graph, 1, "fill_value")),
    row("aten.full_like", "default", |node, graph| creation::full(node, graph, 1, "fill_value")),
    row("aten.new_full", "default", |node, graph| creation::full(node, graph, 2, "fill_value")),
    row("aten.new_ones", "default", |node, graph| creation::constant(node, graph, true)),
    row("aten.new_zeros", "default", |node, graph| creation::constant(node, graph, false)),
    row("aten.ones", "default", |node, graph| creation::constant(node, graph, true)),
    row("aten.ones_like", "default", |node, graph| creation::constant(node, graph, true)),
    row("aten.scalar_tensor", "default", creation::scalar),
    row("aten.zeros", "default", |node, graph| creation::constant(node, graph, false)),
    row("aten.zeros_like", "default", |node, graph| creation::constant(node, graph, false)),
    // --- quantised numbers ---
    row("quantized_decomposed.quantize_per_tensor", "default tensor tensor2", quantised::quantise),
    row(
        "quantized_decomposed.dequantize_per_tensor",
        "default tensor tensor2",
        quantised::dequantise,
    ),
    row("quantized_decomposed.quantize_per_channel", "default", quantised::quantise_along),
    row("quantized_decomposed.dequantize_per_channel", "default", quantised::dequantise_along),
    row("quantized_decomposed.choose_qparams", "tensor", |node, graph| {
        quantised::choose_range(node, graph, false)
    }),
    row("quantized_decomposed.choose_qparams_symmetric", "tensor", |node, graph| {
        quantised::choose_range(node, graph, true)
    }),
];
