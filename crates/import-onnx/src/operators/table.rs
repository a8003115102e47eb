//! The table of operators: one row each.
//!
//! Versions, numbers of inputs and outputs, and attributes are those of the ONNX specification from
//! the version that was in force at operator set 6 on. A node is checked against its row before it
//! is lowered, so lowerings meet no attribute and no input that the operator does not have.

use front::Graph;
use tensor::{Reduction, ScalarFunction as F};

use super::{
    Lower, Lowered, Operator, activations, attention, control, convolution, detection, elementwise,
    fourier, gather_scatter, generator, images, labels, learning, linear_algebra, linear_attention,
    losses, maps, matmul, movement, normalization, pooling, quantization, random, recurrent,
    reductions, resize, sampling, scan, sequences, shape, strings, svm, training, trees, unique,
};
use crate::importer::Importer;
use crate::node::Node;

/// Any number of inputs or outputs.
pub(super) const MANY: usize = usize::MAX;

/// The attributes of sliding windows.
pub(super) const WINDOWS: &str = "auto_pad dilations group kernel_shape pads strides";

/// The attributes of window functions.
const WAVE: &str = "output_datatype periodic";

/// The attributes of reductions.
const REDUCED: &str = "axes keepdims noop_with_empty_axes";

/// The attributes of recurrent networks, whichever has them.
pub(super) const RECURRENT: &str = "activation_alpha activation_beta activations clip direction \
                                    hidden_size input_forget layout linear_before_reset \
                                    output_sequence";

/// What the first versions of operators tell of their inputs: where results may be written to.
const CONSUMED: &str = "consumed_inputs";

macro_rules! recurrent {
    ($kind:ident) => {
        |node, graph| recurrent::recurrent(node, graph, recurrent::Kind::$kind)
    };
}

macro_rules! unary {
    ($function:ident) => {
        |node, graph| elementwise::unary(node, graph, F::$function)
    };
}

macro_rules! binary {
    ($function:ident) => {
        |node, graph| elementwise::binary(node, graph, F::$function)
    };
}

macro_rules! variadic {
    ($function:ident) => {
        |node, graph| elementwise::variadic(node, graph, F::$function)
    };
}

macro_rules! reduce {
    ($reduction:ident) => {
        |node, graph| reductions::reduce(node, graph, Reduction::$reduction)
    };
}

/// A row: name, versions, least and most inputs, most outputs, attributes, lowering.
pub(super) const fn op(
    name: &'static str,
    versions: &'static [i64],
    inputs: (usize, usize),
    outputs: usize,
    attributes: &'static str,
    lower: fn(&Node<'_>, &mut Graph) -> Lowered,
) -> Operator {
    Operator { domain: "", name, versions, inputs, outputs, attributes, lower: Lower::Plain(lower) }
}

/// A row of an operator that takes or gives strings.
pub(super) const fn text(
    name: &'static str,
    versions: &'static [i64],
    inputs: (usize, usize),
    outputs: usize,
    attributes: &'static str,
    lower: fn(&Node<'_>, &mut Graph) -> Lowered,
) -> Operator {
    let lower = Lower::Strings(lower);
    Operator { domain: "", name, versions, inputs, outputs, attributes, lower }
}

/// A row of an operator on sequences or optional values.
const fn list(
    name: &'static str,
    versions: &'static [i64],
    inputs: (usize, usize),
    attributes: &'static str,
    lower: fn(&Node<'_>, &mut Graph) -> Lowered,
) -> Operator {
    let lower = Lower::Lists(lower);
    Operator { domain: "", name, versions, inputs, outputs: 1, attributes, lower }
}

/// A row of an operator with graphs among its attributes.
const fn control(
    name: &'static str,
    versions: &'static [i64],
    inputs: (usize, usize),
    attributes: &'static str,
    lower: fn(&Node<'_>, &mut Importer<'_>) -> Lowered,
) -> Operator {
    let lower = Lower::Graphs(lower);
    Operator { domain: "", name, versions, inputs, outputs: MANY, attributes, lower }
}

impl Operator {
    /// The row in another domain.
    pub(super) const fn of(mut self, domain: &'static str) -> Operator {
        self.domain = domain;
        self
    }
}

/// The domain of classical machine learning.
const ML: &str = "ai.onnx.ml";

/// The domain of optimisers.
const TRAINING: &str = "ai.onnx.preview.training";

/// The attributes of tables of trees that the operators with them share.
const TREES: &str = "base_values base_values_as_tensor nodes_falsenodeids nodes_featureids \
                     nodes_hitrates nodes_hitrates_as_tensor nodes_missing_value_tracks_true \
                     nodes_modes nodes_nodeids nodes_treeids nodes_truenodeids nodes_values \
                     nodes_values_as_tensor post_transform aggregate_function n_targets target_ids \
                     target_nodeids target_treeids target_weights target_weights_as_tensor \
                     class_ids class_nodeids class_treeids class_weights class_weights_as_tensor \
                     classlabels_int64s classlabels_strings";

/// All operators but those of ONNX Runtime.
#[rustfmt::skip]
pub(crate) const TABLE: &[Operator] = &[
    // Arithmetic, element by element
    op("Abs", &[1, 6, 13], (1, 1), 1, CONSUMED, unary!(Abs)),
    op("Neg", &[1, 6, 13], (1, 1), 1, CONSUMED, unary!(Neg)),
    op("Sign", &[9, 13], (1, 1), 1, "", unary!(Sign)),
    op("Sqrt", &[1, 6, 13], (1, 1), 1, CONSUMED, unary!(Sqrt)),
    op("Reciprocal", &[1, 6, 13], (1, 1), 1, CONSUMED, unary!(Reciprocal)),
    op("Exp", &[1, 6, 13], (1, 1), 1, CONSUMED, unary!(Exp)),
    op("Log", &[1, 6, 13], (1, 1), 1, CONSUMED, unary!(Log)),
    op("Floor", &[1, 6, 13], (1, 1), 1, CONSUMED, unary!(Floor)),
    op("Ceil", &[1, 6, 13], (1, 1), 1, CONSUMED, unary!(Ceil)),
    op("Round", &[11, 22], (1, 1), 1, "", unary!(Round)),
    op("Erf", &[9, 13], (1, 1), 1, "", unary!(Erf)),
    op("Sin", &[7, 22], (1, 1), 1, "", unary!(Sin)),
    op("Cos", &[7, 22], (1, 1), 1, "", unary!(Cos)),
    op("Tan", &[7, 22], (1, 1), 1, "", unary!(Tan)),
    op("Asin", &[7, 22], (1, 1), 1, "", unary!(Asin)),
    op("Acos", &[7, 22], (1, 1), 1, "", unary!(Acos)),
    op("Atan", &[7, 22], (1, 1), 1, "", unary!(Atan)),
    op("Sinh", &[9, 22], (1, 1), 1, "", unary!(Sinh)),
    op("Cosh", &[9, 22], (1, 1), 1, "", unary!(Cosh)),
    op("Tanh", &[1, 6, 13], (1, 1), 1, CONSUMED, unary!(Tanh)),
    op("Asinh", &[9, 22], (1, 1), 1, "", unary!(Asinh)),
    op("Acosh", &[9, 22], (1, 1), 1, "", unary!(Acosh)),
    op("Atanh", &[9, 22], (1, 1), 1, "", unary!(Atanh)),
    op("Add", &[1, 6, 7, 13, 14], (2, 2), 1, "axis broadcast consumed_inputs", binary!(Add)),
    op("Sub", &[1, 6, 7, 13, 14], (2, 2), 1, "axis broadcast consumed_inputs", binary!(Sub)),
    op("Mul", &[1, 6, 7, 13, 14], (2, 2), 1, "axis broadcast consumed_inputs", binary!(Mul)),
    op("Div", &[1, 6, 7, 13, 14], (2, 2), 1, "axis broadcast consumed_inputs", binary!(Div)),
    op("Mod", &[10, 13, 28], (2, 2), 1, "fmod", elementwise::modulo),
    op("Pow", &[1, 7, 12, 13, 15], (2, 2), 1, "axis broadcast", elementwise::power),
    op("Min", &[1, 6, 8, 12, 13], (1, MANY), 1, CONSUMED, variadic!(Min)),
    op("Max", &[1, 6, 8, 12, 13], (1, MANY), 1, CONSUMED, variadic!(Max)),
    op("Sum", &[1, 6, 8, 13], (1, MANY), 1, CONSUMED, variadic!(Add)),
    op("Mean", &[1, 6, 8, 13], (1, MANY), 1, CONSUMED, elementwise::mean),
    op("Clip", &[1, 6, 11, 12, 13], (1, 3), 1, "consumed_inputs max min", elementwise::clip),
    // Comparisons, logic, bits, conversions
    text("Equal", &[1, 7, 11, 13, 19], (2, 2), 1, "axis broadcast", strings::equal),
    op("Less", &[1, 7, 9, 13], (2, 2), 1, "axis broadcast", binary!(Lt)),
    op("LessOrEqual", &[12, 16], (2, 2), 1, "", binary!(Le)),
    op("Greater", &[1, 7, 9, 13], (2, 2), 1, "axis broadcast", binary!(Gt)),
    op("GreaterOrEqual", &[12, 16], (2, 2), 1, "", binary!(Ge)),
    op("And", &[1, 7], (2, 2), 1, "axis broadcast", binary!(And)),
    op("Or", &[1, 7], (2, 2), 1, "axis broadcast", binary!(Or)),
    op("Xor", &[1, 7], (2, 2), 1, "axis broadcast", binary!(Xor)),
    op("Not", &[1], (1, 1), 1, "", unary!(Not)),
    op("BitwiseAnd", &[18], (2, 2), 1, "", binary!(And)),
    op("BitwiseOr", &[18], (2, 2), 1, "", binary!(Or)),
    op("BitwiseXor", &[18], (2, 2), 1, "", binary!(Xor)),
    op("BitwiseNot", &[18], (1, 1), 1, "", unary!(Not)),
    op("BitShift", &[11, 28], (2, 2), 1, "direction", elementwise::bit_shift),
    op("BitCast", &[26], (1, 1), 1, "to", elementwise::bit_cast),
    op("IsNaN", &[9, 13, 20], (1, 1), 1, "", unary!(IsNan)),
    op("IsInf", &[10, 20], (1, 1), 1, "detect_negative detect_positive", elementwise::is_inf),
    op("Where", &[9, 16], (3, 3), 1, "", elementwise::select),
    text("Cast", &[1, 6, 9, 13, 19, 21, 23, 24, 25, 28], (1, 1), 1,
         "round_mode saturate to", strings::cast),
    op("CastLike", &[15, 19, 21, 23, 24, 25], (2, 2), 1,
       "round_mode saturate", elementwise::cast_like),
    // Activations
    op("Relu", &[1, 6, 13, 14], (1, 1), 1, CONSUMED, activations::relu),
    op("LeakyRelu", &[1, 6, 16], (1, 1), 1, "alpha consumed_inputs", activations::leaky_relu),
    op("PRelu", &[1, 6, 7, 9, 16], (2, 2), 1, CONSUMED, activations::prelu),
    op("Elu", &[1, 6, 22], (1, 1), 1, "alpha consumed_inputs", activations::elu),
    op("Selu", &[1, 6, 22], (1, 1), 1, "alpha consumed_inputs gamma", activations::selu),
    op("Celu", &[12, 28], (1, 1), 1, "alpha", activations::celu),
    op("Gelu", &[20], (1, 1), 1, "approximate", activations::gelu),
    op("Sigmoid", &[1, 6, 13], (1, 1), 1, CONSUMED, activations::sigmoid),
    op("HardSigmoid", &[1, 6, 22], (1, 1), 1, "alpha beta consumed_inputs",
       activations::hard_sigmoid),
    op("HardSwish", &[14, 22], (1, 1), 1, "", activations::hard_swish),
    op("Softplus", &[1, 22], (1, 1), 1, "", activations::softplus),
    op("Softsign", &[1, 22], (1, 1), 1, "", activations::softsign),
    op("Mish", &[18, 22], (1, 1), 1, "", activations::mish),
    op("Swish", &[24], (1, 1), 1, "alpha", activations::swish),
    op("ThresholdedRelu", &[10, 22], (1, 1), 1, "alpha", activations::thresholded_relu),
    op("Shrink", &[9], (1, 1), 1, "bias lambd", activations::shrink),
    op("Softmax", &[1, 11, 13], (1, 1), 1, "axis", activations::softmax),
    op("LogSoftmax", &[1, 11, 13], (1, 1), 1, "axis", activations::log_softmax),
    op("Hardmax", &[1, 11, 13], (1, 1), 1, "axis", activations::hardmax),
    op("SwiGLU", &[28], (2, 2), 1, "alpha", activations::swiglu),
    // Reductions
    op("ReduceSum", &[1, 11, 13], (1, 2), 1, REDUCED, reduce!(Sum)),
    op("ReduceProd", &[1, 11, 13, 18], (1, 2), 1, REDUCED, reduce!(Product)),
    op("ReduceMax", &[1, 11, 12, 13, 18, 20], (1, 2), 1, REDUCED, reduce!(Max)),
    op("ReduceMin", &[1, 11, 12, 13, 18, 20], (1, 2), 1, REDUCED, reduce!(Min)),
    op("ReduceMean", &[1, 11, 13, 18], (1, 2), 1, REDUCED, reductions::mean),
    op("ReduceL1", &[1, 11, 13, 18], (1, 2), 1, REDUCED, reductions::l1),
    op("ReduceL2", &[1, 11, 13, 18], (1, 2), 1, REDUCED, reductions::l2),
    op("ReduceSumSquare", &[1, 11, 13, 18], (1, 2), 1, REDUCED, reductions::sum_square),
    op("ReduceLogSum", &[1, 11, 13, 18, 28], (1, 2), 1, REDUCED, reductions::log_sum),
    op("ReduceLogSumExp", &[1, 11, 13, 18, 28], (1, 2), 1, REDUCED, reductions::log_sum_exp),
    op("ArgMax", &[1, 11, 12, 13], (1, 1), 1,
       "axis keepdims select_last_index", |n, g| reductions::arg_reduce(n, g, true)),
    op("ArgMin", &[1, 11, 12, 13], (1, 1), 1,
       "axis keepdims select_last_index", |n, g| reductions::arg_reduce(n, g, false)),
    op("CumSum", &[11, 14], (2, 2), 1,
       "exclusive reverse", |n, g| reductions::cumulate(n, g, Reduction::Sum)),
    op("CumProd", &[26], (2, 2), 1,
       "exclusive reverse", |n, g| reductions::cumulate(n, g, Reduction::Product)),
    op("TopK", &[1, 10, 11, 24], (1, 2), 2, "axis k largest sorted", reductions::top_k),
    // Normalisations
    op("BatchNormalization", &[1, 6, 7, 9, 14, 15], (5, 5), 5,
       "consumed_inputs epsilon is_test momentum spatial training_mode", normalization::batch),
    op("InstanceNormalization", &[1, 6, 22], (3, 3), 1, "consumed_inputs epsilon",
       normalization::instance),
    op("GroupNormalization", &[18, 21], (3, 3), 1,
       "epsilon num_groups stash_type", normalization::group),
    op("LayerNormalization", &[17], (2, 3), 3, "axis epsilon stash_type", normalization::layer),
    op("RMSNormalization", &[23], (2, 2), 1,
       "axis epsilon stash_type", normalization::root_mean_square),
    op("LRN", &[1, 13], (1, 1), 1, "alpha beta bias size", normalization::local_response),
    op("LpNormalization", &[1, 22], (1, 1), 1, "axis p", normalization::lp),
    op("MeanVarianceNormalization", &[9, 13], (1, 1), 1, "axes", normalization::mean_variance),
    // Products and convolutions
    op("MatMul", &[1, 9, 13], (2, 2), 1, "", matmul::matmul),
    op("Gemm", &[1, 6, 7, 9, 11, 13], (2, 3), 1, "alpha beta broadcast transA transB",
       matmul::gemm),
    op("Det", &[11, 22], (1, 1), 1, "", linear_algebra::determinant),
    op("Einsum", &[12, 28], (1, MANY), 1, "equation", matmul::einsum),
    op("Conv", &[1, 11, 22], (2, 3), 1, WINDOWS, convolution::conv),
    op("ConvTranspose", &[1, 11, 22], (2, 3), 1,
       "auto_pad dilations group kernel_shape output_padding output_shape pads strides \
        ", convolution::conv_transpose),
    // Attention
    op("Attention", &[23, 24, 25], (3, 7), 4,
       "is_causal kv_num_heads left_window_size q_num_heads qk_matmul_output_mode \
        right_window_size scale softcap softmax_precision", attention::attention),
    op("RotaryEmbedding", &[23], (3, 4), 1,
       "interleaved num_heads rotary_embedding_dim", attention::rotary_embedding),
    op("LinearAttention", &[27], (3, 6), 2,
       "chunk_size kv_num_heads q_num_heads scale update_rule", linear_attention::linear_attention),
    op("CausalConvWithState", &[27], (2, 4), 2,
       "activation", linear_attention::causal_convolution),
    control("FlexAttention", &[1], (3, 3),
            "prob_mod scale score_mod softmax_precision", attention::flex).of("ai.onnx.preview"),
    // Losses
    op("NegativeLogLikelihoodLoss", &[12, 13, 22], (2, 3), 1,
       "ignore_index reduction", losses::negative_log_likelihood),
    op("SoftmaxCrossEntropyLoss", &[12, 13], (2, 3), 2,
       "ignore_index reduction", losses::softmax_cross_entropy),
    // Pooling
    op("MaxPool", &[1, 8, 10, 11, 12, 22], (1, 1), 2,
       "auto_pad ceil_mode dilations kernel_shape pads storage_order strides", pooling::max),
    op("AveragePool", &[1, 7, 10, 11, 19, 22], (1, 1), 1,
       "auto_pad ceil_mode count_include_pad dilations kernel_shape pads strides \
        ", pooling::average),
    op("LpPool", &[1, 2, 11, 18, 22], (1, 1), 1,
       "auto_pad ceil_mode dilations kernel_shape p pads strides", pooling::lp),
    op("GlobalAveragePool", &[1, 22], (1, 1), 1, "", |n, g| pooling::global(n, g, false)),
    op("GlobalMaxPool", &[1, 22], (1, 1), 1, "", |n, g| pooling::global(n, g, true)),
    op("GlobalLpPool", &[1, 2, 22], (1, 1), 1, "p", pooling::global_lp),
    op("MaxUnpool", &[9, 11, 22], (2, 3), 1, "kernel_shape pads strides", pooling::max_unpool),
    // Shapes
    text("Shape", &[1, 13, 15, 19, 21, 23, 24, 25], (1, 1), 1, "end start", shape::shape),
    text("Size", &[1, 13, 19, 21, 23, 24, 25], (1, 1), 1, "", shape::size),
    op("Reshape", &[1, 5, 13, 14, 19, 21, 23, 24, 25], (1, 2), 1,
       "allowzero consumed_inputs shape", shape::reshape),
    op("Flatten", &[1, 9, 11, 13, 21, 23, 24, 25], (1, 1), 1, "axis", shape::flatten),
    op("Squeeze", &[1, 11, 13, 21, 23, 24, 25], (1, 2), 1, "axes", shape::squeeze),
    op("Unsqueeze", &[1, 11, 13, 21, 23, 24, 25], (1, 2), 1, "axes", shape::unsqueeze),
    op("Expand", &[8, 13], (2, 2), 1, "", shape::expand),
    list("Identity", &[1, 13, 14, 16, 19, 21, 23, 24, 25], (1, 1), "", shape::identity),
    op("Dropout", &[1, 6, 7, 10, 12, 13, 22], (1, 3), 2, "consumed_inputs is_test ratio seed",
       shape::dropout),
    // Movement
    op("Transpose", &[1, 13, 21, 23, 24, 25], (1, 1), 1, "perm", movement::transpose),
    op("Concat", &[1, 4, 11, 13], (1, MANY), 1, "axis", movement::concat),
    op("Split", &[1, 2, 11, 13, 18], (1, 2), MANY, "axis num_outputs split", movement::split),
    op("Slice", &[1, 10, 11, 13], (1, 5), 1, "axes ends starts", movement::slice),
    op("Pad", &[1, 2, 11, 13, 18, 19, 21, 23, 24, 25], (1, 4), 1, "mode paddings pads value",
       movement::pad),
    op("Tile", &[1, 6, 13], (2, 3), 1, "", movement::tile),
    op("DepthToSpace", &[1, 11, 13, 28], (1, 1), 1, "blocksize mode", movement::depth_to_space),
    op("SpaceToDepth", &[1, 13, 28], (1, 1), 1, "blocksize mode", movement::space_to_depth),
    op("ReverseSequence", &[10, 28], (2, 2), 1, "batch_axis time_axis", movement::reverse_sequence),
    op("Trilu", &[14], (1, 2), 1, "upper", movement::triangle),
    op("CenterCropPad", &[18], (2, 2), 1, "axes", movement::center_crop_pad),
    // Indexing
    op("Gather", &[1, 11, 13], (2, 2), 1, "axis", gather_scatter::gather),
    op("GatherElements", &[11, 13], (2, 2), 1, "axis", gather_scatter::gather_elements),
    op("GatherND", &[11, 12, 13], (2, 2), 1, "batch_dims", gather_scatter::gather_nd),
    op("Scatter", &[9], (3, 3), 1, "axis", gather_scatter::scatter_elements),
    op("ScatterElements", &[11, 13, 16, 18], (3, 3), 1,
       "axis reduction", gather_scatter::scatter_elements),
    op("ScatterND", &[11, 13, 16, 18], (3, 3), 1, "reduction", gather_scatter::scatter_nd),
    op("Compress", &[9, 11, 28], (2, 2), 1, "axis", gather_scatter::compress),
    op("NonZero", &[9, 13], (1, 1), 1, "", gather_scatter::non_zero),
    op("Unique", &[11, 28], (1, 1), 4, "axis sorted", unique::unique),
    op("TensorScatter", &[24], (2, 3), 1, "axis mode", gather_scatter::tensor_scatter),
    op("Col2Im", &[18], (3, 3), 1, "dilations pads strides", gather_scatter::col2im),
    // Resizing
    op("Resize", &[10, 11, 13, 18, 19], (1, 4), 1,
       "antialias axes coordinate_transformation_mode cubic_coeff_a exclude_outside \
        extrapolation_value keep_aspect_ratio_policy mode nearest_mode", resize::resize),
    op("Upsample", &[1, 7, 9], (1, 2), 1, "height_scale mode scales width_scale", resize::upsample),
    op("GridSample", &[16, 20, 22], (2, 2), 1,
       "align_corners mode padding_mode", sampling::grid_sample),
    op("AffineGrid", &[20], (2, 2), 1, "align_corners", sampling::affine_grid),
    op("MaxRoiPool", &[1, 22], (2, 2), 1, "pooled_shape spatial_scale", detection::max_roi_pool),
    op("RoiAlign", &[10, 16, 22], (3, 3), 1,
       "coordinate_transformation_mode mode output_height output_width sampling_ratio \
        spatial_scale", detection::roi_align),
    op("DeformConv", &[19, 22], (3, 5), 1,
       "dilations group kernel_shape offset_group pads strides", detection::deformable_convolution),
    op("NonMaxSuppression", &[10, 11], (2, 5), 1,
       "center_point_box", detection::non_max_suppression),
    // Signals
    op("DFT", &[17, 20], (1, 3), 1, "axis inverse onesided", fourier::transform),
    op("STFT", &[17], (2, 4), 1, "onesided", fourier::short_time),
    op("MelWeightMatrix", &[17], (5, 5), 1, "output_datatype", fourier::mel_weights),
    // Random numbers
    op("RandomUniform", &[1, 22], (0, 0), 1,
       "dtype high low seed shape", random::random_uniform),
    op("RandomUniformLike", &[1, 22], (1, 1), 1, "dtype high low seed", random::random_uniform),
    op("RandomNormal", &[1, 22], (0, 0), 1, "dtype mean scale seed shape", random::random_normal),
    op("RandomNormalLike", &[1, 22], (1, 1), 1, "dtype mean scale seed", random::random_normal),
    op("Bernoulli", &[15, 22], (1, 1), 1, "dtype seed", random::bernoulli),
    op("Multinomial", &[7, 22], (1, 1), 1, "dtype sample_size seed", random::multinomial),
    // Generators
    op("HannWindow", &[17], (1, 1), 1, WAVE, |n, g| generator::window(n, g, [0.5, -0.5, 0.0])),
    op("HammingWindow", &[17], (1, 1), 1, WAVE,
       |n, g| generator::window(n, g, [25.0 / 46.0, -21.0 / 46.0, 0.0])),
    op("BlackmanWindow", &[17], (1, 1), 1, WAVE,
       |n, g| generator::window(n, g, [0.42, -0.5, 0.08])),
    op("Constant", &[1, 9, 11, 12, 13, 19, 21, 23, 24, 25], (0, 0), 1,
       "sparse_value value value_float value_floats value_int value_ints value_string \
        value_strings", generator::constant),
    op("ConstantOfShape", &[9, 20, 21, 23, 24, 25], (1, 1), 1,
       "value", generator::constant_of_shape),
    op("Range", &[11, 27], (3, 3), 1, "stash_type", generator::range),
    op("EyeLike", &[9, 22], (1, 1), 1, "dtype k", generator::eye_like),
    op("OneHot", &[9, 11, 28], (3, 3), 1, "axis", generator::one_hot),
    // Control flow
    control("If", &[1, 11, 13, 16, 19, 21, 23, 24, 25], (1, 1),
            "then_branch else_branch", control::branch),
    control("Loop", &[1, 11, 13, 16, 19, 21, 23, 24, 25], (2, MANY), "body", control::repeat),
    control("Scan", &[8, 9, 11, 16, 19, 21, 23, 24, 25], (1, MANY),
            "body num_scan_inputs scan_input_axes scan_input_directions scan_output_axes \
             scan_output_directions directions", scan::scan),
    // Sequences and optional values
    list("SequenceEmpty", &[11], (0, 0), "dtype", sequences::empty),
    list("SequenceConstruct", &[11], (1, MANY), "", sequences::construct),
    list("SequenceAt", &[11], (2, 2), "", sequences::at),
    list("SequenceInsert", &[11], (2, 3), "", sequences::insert),
    list("SequenceErase", &[11], (1, 2), "", sequences::erase),
    list("SequenceLength", &[11], (1, 1), "", sequences::length),
    list("SplitToSequence", &[11, 24], (1, 2), "axis keepdims", sequences::split),
    list("ConcatFromSequence", &[11], (1, 1), "axis new_axis", sequences::concat),
    control("SequenceMap", &[17], (1, MANY), "body", sequences::map),
    list("Optional", &[15, 28], (0, 1), "type", sequences::optional),
    list("OptionalGetElement", &[15, 18, 28], (1, 1), "", sequences::element),
    list("OptionalHasElement", &[15, 18, 28], (0, 1), "", sequences::has_element),
    // Recurrent networks
    op("RNN", &[1, 7, 14, 22], (3, 6), 2, RECURRENT, recurrent!(Rnn)),
    op("GRU", &[1, 3, 7, 14, 22], (3, 6), 2, RECURRENT, recurrent!(Gru)),
    op("LSTM", &[1, 7, 14, 22], (3, 8), 3, RECURRENT, recurrent!(Lstm)),
    // Quantisation
    op("QuantizeLinear", &[10, 13, 19, 21, 23, 24, 25, 28], (2, 3), 1,
       "axis block_size output_dtype precision saturate", quantization::quantize),
    op("DequantizeLinear", &[10, 13, 19, 21, 23, 24, 25, 28], (2, 3), 1,
       "axis block_size output_dtype", quantization::dequantize),
    op("DynamicQuantizeLinear", &[11], (1, 1), 3, "", quantization::dynamic_quantize),
    op("MatMulInteger", &[10], (2, 4), 1, "", quantization::matmul_integer),
    op("ConvInteger", &[10], (2, 4), 1, WINDOWS, quantization::conv_integer),
    op("QLinearMatMul", &[10, 21], (8, 8), 1, "", quantization::qlinear_matmul),
    op("QLinearConv", &[10], (8, 9), 1, WINDOWS, quantization::qlinear_conv),
    // Text as numbers
    text("StringConcat", &[20], (2, 2), 1, "", strings::concat),
    text("StringSplit", &[20], (1, 1), 2, "delimiter maxsplit", strings::split),
    text("StringNormalizer", &[10], (1, 1), 1,
         "case_change_action is_case_sensitive locale stopwords", strings::normalize),
    text("RegexFullMatch", &[20], (1, 1), 1, "pattern", strings::full_match),
    text("TfIdfVectorizer", &[9], (1, 1), 1,
       "max_gram_length max_skip_count min_gram_length mode ngram_counts ngram_indexes \
        pool_int64s pool_strings weights", strings::tf_idf),
    // Images
    op("ImageDecoder", &[20], (1, 1), 1, "pixel_format", images::decode),
    // Classical machine learning
    op("ArrayFeatureExtractor", &[1], (2, 2), 1, "", learning::array_feature_extractor).of(ML),
    op("Binarizer", &[1], (1, 1), 1, "threshold", learning::binarizer).of(ML),
    op("Scaler", &[1], (1, 1), 1, "offset scale", learning::scaler).of(ML),
    op("Normalizer", &[1], (1, 1), 1, "norm", learning::normalizer).of(ML),
    op("Imputer", &[1], (1, 1), 1,
       "imputed_value_floats imputed_value_int64s replaced_value_float replaced_value_int64",
       learning::imputer).of(ML),
    op("FeatureVectorizer", &[1], (1, MANY), 1,
       "inputdimensions", learning::feature_vectorizer).of(ML),
    text("OneHotEncoder", &[1], (1, 1), 1,
         "cats_int64s cats_strings zeros", labels::one_hot_encoder).of(ML),
    text("CategoryMapper", &[1], (1, 1), 1,
         "cats_int64s cats_strings default_int64 default_string",
         labels::category_mapper).of(ML),
    text("LabelEncoder", &[1, 2, 4], (1, 1), 1,
       "classes_strings default_float default_int64 default_string default_tensor keys_floats \
        keys_int64s keys_strings keys_tensor values_floats values_int64s values_strings \
        values_tensor",
       labels::encoder).of(ML),
    list("DictVectorizer", &[1], (1, 1), "int64_vocabulary string_vocabulary",
         maps::dict_vectorizer).of(ML),
    list("CastMap", &[1], (1, 1), "cast_to map_form max_map", maps::cast_map).of(ML),
    list("ZipMap", &[1], (1, 1), "classlabels_int64s classlabels_strings",
         labels::zip_map).of(ML),
    op("LinearRegressor", &[1], (1, 1), 1,
       "coefficients intercepts post_transform targets", learning::linear_regressor).of(ML),
    op("LinearClassifier", &[1], (1, 1), 2,
       "classlabels_ints classlabels_strings coefficients intercepts multi_class post_transform",
       learning::linear_classifier).of(ML),
    op("SVMRegressor", &[1], (1, 1), 1,
       "coefficients kernel_params kernel_type n_supports one_class post_transform rho \
        support_vectors", svm::regressor).of(ML),
    op("SVMClassifier", &[1], (1, 1), 2,
       "classlabels_ints classlabels_strings coefficients kernel_params kernel_type \
        post_transform prob_a prob_b rho support_vectors vectors_per_class",
       svm::classifier).of(ML),
    op("TreeEnsemble", &[5], (1, 1), 1,
       "aggregate_function leaf_targetids leaf_weights membership_values n_targets \
        nodes_falseleafs nodes_falsenodeids nodes_featureids nodes_hitrates \
        nodes_missing_value_tracks_true nodes_modes nodes_splits nodes_trueleafs \
        nodes_truenodeids post_transform tree_roots", trees::ensemble).of(ML),
    op("TreeEnsembleRegressor", &[1, 3, 5], (1, 1), 1, TREES, trees::regressor).of(ML),
    op("TreeEnsembleClassifier", &[1, 3, 5], (1, 1), 2, TREES, trees::classifier).of(ML),
    // Training
    control("Gradient", &[1], (1, MANY), "xs y zs", training::gradient).of(TRAINING),
    op("Adagrad", &[1], (3, MANY), MANY,
       "decay_factor epsilon norm_coefficient", training::adagrad).of(TRAINING),
    op("Adam", &[1], (3, MANY), MANY,
       "alpha beta epsilon norm_coefficient norm_coefficient_post", training::adam).of(TRAINING),
    op("Momentum", &[1], (3, MANY), MANY,
       "alpha beta mode norm_coefficient", training::momentum).of(TRAINING),
];
