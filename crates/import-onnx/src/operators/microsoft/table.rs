//! The rows of ONNX Runtime's domains, each of version 1. Numbers of inputs and outputs and
//! attributes are those of its schemas.

use super::super::table::{MANY, RECURRENT, op, text};
use super::super::{Lowered, Operator, gather_scatter, movement, pooling, sampling, strings};
use super::{
    attention, blocked, dense, elementwise, experts, group_attention, normalization, packed,
    quantized, sequences,
};
use crate::node::Node;
use front::Graph;

/// The domain of what ONNX Runtime adds to ONNX's own operators.
const MICROSOFT: &str = "com.microsoft";

/// The domain of what it writes for blocked channels.
pub(super) const BLOCKED: &str = "com.microsoft.nchwc";

/// A row: name, least and most inputs, most outputs, attributes, lowering.
const fn ms(
    name: &'static str,
    inputs: (usize, usize),
    outputs: usize,
    attributes: &'static str,
    lower: fn(&Node<'_>, &mut Graph) -> Lowered,
) -> Operator {
    op(name, &[1], inputs, outputs, attributes, lower).of(MICROSOFT)
}

/// A row of blocked channels.
const fn blocks(
    name: &'static str,
    inputs: (usize, usize),
    attributes: &'static str,
    lower: fn(&Node<'_>, &mut Graph) -> Lowered,
) -> Operator {
    op(name, &[1], inputs, 1, attributes, lower).of(BLOCKED)
}

/// A row of strings.
const fn words(
    name: &'static str,
    attributes: &'static str,
    lower: fn(&Node<'_>, &mut Graph) -> Lowered,
) -> Operator {
    let Operator { versions, inputs, outputs, lower, .. } =
        text(name, &[1], (1, 1), 1, attributes, lower);
    Operator { domain: MICROSOFT, name, versions, inputs, outputs, attributes, lower }
}

/// An operator of ONNX's own, as of the version whose meaning it has here.
macro_rules! of {
    ($version:literal, $lower:expr) => {
        |node, graph| $lower(&node.with(node.inputs.clone(), $version), graph)
    };
}

/// The attributes of convolutions with an activation.
const FUSED: &str =
    "activation activation_params auto_pad dilations group kernel_shape pads strides";

/// The attributes of pooling.
const POOLED: &str = "auto_pad ceil_mode count_include_pad dilations kernel_shape pads \
                      storage_order strides";

/// The attributes of products with turned operands.
const TURNED: &str = "alpha transA transB transBatchA transBatchB";

/// The attributes of attention, whichever has them.
const HEADS: &str = "do_rotary mask_filter_value num_heads past_present_share_buffer \
                     qkv_hidden_sizes rotary_embedding_dim scale unidirectional output_qk";

/// The attributes of mixtures of experts, whichever has them.
const EXPERTS: &str = "accuracy_level activation_alpha activation_beta activation_type block_size \
                       expert_weight_bits fc1_expert_weight_bits fc2_expert_weight_bits \
                       fc3_expert_weight_bits k normalize_routing_weights quant_type \
                       swiglu_fusion swiglu_limit swiglu_limit_after_activation \
                       use_sparse_mixer weights_prepacked";

/// All operators of ONNX Runtime's domains, and the one of its own that stands in ONNX's.
#[rustfmt::skip]
pub(crate) const TABLE: &[Operator] = &[
    op("SimplifiedLayerNormalization", &[1], (2, 2), 2, "axis epsilon stash_type",
       normalization::simplified),
    // Functions of elements
    ms("BiasGelu", (2, 2), 1, "", |n, g| elementwise::gelu(n, g, true)),
    ms("FastGelu", (1, 2), 1, "", |n, g| elementwise::gelu(n, g, false)),
    ms("Gelu", (1, 1), 1, "", |n, g| elementwise::gelu(n, g, true)),
    ms("QuickGelu", (1, 1), 1, "alpha", elementwise::quick_gelu),
    ms("ScaledSiLU", (1, 2), 1, "alpha", elementwise::scaled_silu),
    ms("GatedAdd", (3, 4), 1, "", elementwise::gated_add),
    ms("LinearAttentionGate", (3, 4), 2, "", elementwise::linear_attention_gate),
    ms("HyperConnectionPreMix", (2, 2), 1, "num_branches reduction_scale",
       elementwise::streams_joined),
    ms("HyperConnectionPostMix", (3, 4), 1, "num_branches", elementwise::streams_mixed),
    // Normalisations
    ms("SkipLayerNormalization", (3, 5), 4, "epsilon", normalization::skip),
    ms("SkipSimplifiedLayerNormalization", (3, 4), 4, "epsilon", normalization::skip_simplified),
    ms("EmbedLayerNormalization", (7, 9), 3, "epsilon mask_index_type", normalization::embed),
    ms("GatedRMSNorm", (3, 3), 1, "activation epsilon", normalization::gated),
    ms("BranchwiseRMSNorm", (1, 2), 1, "epsilon num_branches", normalization::branchwise),
    ms("EngramGate", (5, 6), 2, "epsilon", normalization::engram_gate),
    // Products and convolutions
    ms("FusedConv", (2, 4), 1, FUSED, elementwise::fused_conv),
    ms("FusedGemm", (2, 3), 1,
       "activation activation_alpha activation_beta activation_gamma alpha beta transA transB",
       elementwise::fused_gemm),
    ms("FusedMatMul", (2, 2), 1, TURNED, dense::fused_product),
    ms("TransposeMatMul", (2, 2), 1, TURNED, dense::fused_product),
    ms("SparseToDenseMatMul", (2, 2), 1, TURNED, dense::fused_product),
    ms("ConvTransposeWithDynamicPads", (2, 4), 1,
       "auto_pad dilations group kernel_shape output_padding strides",
       sequences::transposed_convolution),
    ms("Inverse", (1, 1), 1, "", dense::inverse),
    ms("CDist", (2, 2), 1, "metric", dense::distances),
    ms("WordConvEmbedding", (4, 4), 1, "char_embedding_size conv_window_size embedding_size",
       dense::word_embedding),
    // Attention
    ms("Attention", (2, 7), 2, HEADS, attention::attention),
    ms("MultiHeadAttention", (1, 10), 4, HEADS, attention::multi_head),
    ms("DecoderMaskedMultiHeadAttention", (1, 11), 4, HEADS, attention::decoder_masked),
    ms("GroupQueryAttention", (7, 17), 4,
       "causal do_rotary k_norm_epsilon k_quant_type kv_cache_bit_width kv_num_heads \
        local_window_size num_heads q_norm_epsilon qk_norm_epsilon qk_output rotary_interleaved \
        scale sliding_window_cache smooth_softmax softcap v_quant_type",
       group_attention::group_query),
    ms("RotaryEmbedding", (4, 4), 1,
       "interleaved is_packed_batching num_heads rotary_embedding_dim scale",
       attention::rotary_embedding),
    ms("MRotaryEmbedding", (4, 4), 1,
       "interleaved is_packed_batching mrope_layout mrope_section num_heads \
        rotary_embedding_dim scale", attention::sectioned_rotary),
    ms("LinearAttention", (3, 6), 2,
       "chunk_size kv_num_heads q_num_heads scale state_window update_rule", sequences::linear),
    ms("CausalConvWithState", (2, 4), 2,
       "activation channels_last dilation input_channel_offset input_channels ndim \
        state_channels_last state_length state_update_capacity state_window", sequences::causal),
    ms("MoEGroupRouter", (2, 3), 3, "group_topk n_group router_sentinel top_k topk_group",
       experts::group_router),
    ms("MoE", (4, 8), 1, EXPERTS, experts::experts),
    ms("QMoE", (4, 21), 1, EXPERTS, experts::quantized_experts),
    // Weights of few bits
    ms("MatMulNBits", (3, 6), 1, "K N accuracy_level bits block_size weight_prepacked",
       packed::product),
    ms("MatMulBnb4", (3, 3), 1, "K N block_size quant_type training_mode transB",
       packed::table_product),
    ms("MatMulFpQ4", (3, 3), 1, "blk_quant_type", packed::blob_product),
    ms("GatherBlockQuantized", (3, 4), 1, "bits block_size gather_axis quantize_axis",
       packed::gather),
    // Quantised numbers
    ms("QuantizeLinear", (2, 3), 1, "axis", of!(13, super::super::quantization::quantize)),
    ms("DequantizeLinear", (2, 3), 1, "axis", of!(13, super::super::quantization::dequantize)),
    ms("MatMulInteger16", (2, 2), 1, "", quantized::product_of_shorts),
    ms("MatMulIntegerToFloat", (4, 7), 1, "", quantized::product_to_float),
    ms("DynamicQuantizeMatMul", (3, 5), 1, "", quantized::dynamic_product),
    ms("DynamicQuantizeLSTM", (12, 12), 3, RECURRENT, quantized::dynamic_lstm),
    ms("QAttention", (5, 9), 2, HEADS, attention::quantized_attention),
    ms("QEmbedLayerNormalization", (18, 18), 2, "epsilon", quantized::embed),
    ms("QGemm", (6, 9), 1, "alpha transA transB", quantized::quantized_gemm),
    ms("QLinearConv", (8, 9), 1,
       "auto_pad channels_last dilations group kernel_shape pads strides", quantized::conv),
    ms("QLinearAdd", (7, 8), 1, "", quantized::add),
    ms("QLinearMul", (7, 8), 1, "", quantized::mul),
    ms("QLinearConcat", (5, MANY), 1, "axis", quantized::concat),
    ms("QLinearWhere", (9, 9), 1, "", quantized::choose),
    ms("QLinearSigmoid", (4, 5), 1, "", |n, g| quantized::unary(n, g, Graph::sigmoid)),
    ms("QLinearLeakyRelu", (4, 5), 1, "alpha", quantized::leaky_relu),
    ms("QLinearSoftmax", (5, 5), 1, "axis opset", quantized::soft),
    ms("QLinearAveragePool", (4, 5), 1,
       "auto_pad ceil_mode channels_last count_include_pad kernel_shape pads strides",
       quantized::average_pool),
    ms("QLinearGlobalAveragePool", (5, 5), 1, "channels_last", quantized::global_average_pool),
    ms("NhwcMaxPool", (1, 1), 1, POOLED, quantized::max_pool),
    ms("MaxpoolWithMask", (2, 2), 1, POOLED, quantized::masked_pool),
    // Movement
    ms("SampleOp", (1, 1), 1, "", sequences::unchanged),
    ms("ExpandDims", (2, 2), 1, "", sequences::expand_dims),
    ms("Range", (2, 3), 1, "", sequences::range),
    ms("Unique", (1, 1), 3, "", sequences::unique),
    ms("UnfoldTensor", (1, 1), 1, "dim size step", sequences::unfold),
    ms("Trilu", (1, 2), 1, "upper", movement::triangle),
    ms("GatherND", (2, 2), 1, "", gather_scatter::gather_nd),
    ms("Pad", (2, 3), 1, "mode", of!(11, movement::pad)),
    ms("GridSample", (2, 2), 1, "align_corners mode padding_mode", of!(16, sampling::grid_sample)),
    ms("CropAndResize", (4, 4), 1, "extrapolation_value mode", sequences::crop),
    // Text as numbers
    ms("NGramRepeatBlock", (2, 2), 1, "ngram_size", dense::block_repeats),
    ms("NGramHashMapping", (3, 7), 2, "max_ngram_size n_head_per_ngram pad_id reset_on_eos",
       sequences::hash_runs),
    ms("VarlenNGramHashMapping", (4, 10), 2,
       "max_ngram_size n_head_per_ngram pad_id reset_on_eos state_update_capacity",
       sequences::hash_packed_runs),
    words("Tokenizer", "mark mincharnum pad_value separators tokenexp", strings::tokenize),
    words("MurmurHash3", "positive seed", strings::hash),
    // Channels in blocks
    blocks("ReorderInput", (1, 1), "channels_last", blocked::reorder_input),
    blocks("ReorderOutput", (1, 1), "channels channels_last", blocked::reorder_output),
    blocks("Conv", (2, 4), FUSED, blocked::conv),
    blocks("MaxPool", (1, 1), POOLED, of!(12, pooling::max)),
    blocks("AveragePool", (1, 1), POOLED, of!(19, pooling::average)),
    blocks("GlobalAveragePool", (1, 1), "", |n, g| pooling::global(n, g, false)),
    blocks("GlobalMaxPool", (1, 1), "", |n, g| pooling::global(n, g, true)),
    blocks("Upsample", (1, 1), "coordinate_transformation_mode mode scales", blocked::upsample),
];

/// Operators of ONNX Runtime that are known and not read, and why.
pub(crate) const REFUSED: &[(&str, &str)] = &[
    ("AttnLSTM", "a recurrent network with attention inside of its cell is not composed here"),
    ("BeamSearch", SEARCH),
    ("BifurcationDetector", "how many tokens it gives depends on which it finds"),
    ("DynamicTimeWarping", "the length of its path depends on data"),
    ("GatedDeltaNet", "sequences of several lengths that lie packed are not taken apart here"),
    ("GatherPacked", "the packed formats of its table are not read"),
    ("GreedySearch", SEARCH),
    ("Sampling", SEARCH),
    ("SparseAttention", "a layout of blocks that data give is not composed here"),
    ("VarlenCausalConvWithState", "sequences of several lengths that lie packed are not read"),
    ("WhisperBeamSearch", SEARCH),
];

/// Why operators that search are not read.
const SEARCH: &str = "it searches with a model of its own, as a program around that model can do";

/// Why an operator of a domain is not read, where that is known.
pub(crate) fn refused(domain: &str, name: &str) -> Option<&'static str> {
    let row = REFUSED.iter().find(|row| row.0 == name).filter(|_| domain == MICROSOFT);
    row.map(|row| row.1)
}
