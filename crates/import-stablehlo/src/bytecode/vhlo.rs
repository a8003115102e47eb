//! The operations of VHLO, the dialect of portable bytecode: what their attributes are called, and
//! what StableHLO has for each.
//!
//! Source: StableHLO's `VhloOps.td` and `VhloEnums.td` for the names, and its "VHLO" document.
//! An operation of VHLO is one of StableHLO with a version behind its name. From version 0.15 of
//! StableHLO on its attributes lie in the order of their names, without these.

use crate::syntax::{Attribute, Attributes};

/// The newest version of StableHLO whose operations are in the table.
pub(super) const NEWEST: &str = "1.20.0";

/// The operations of which there are versions with attributes, and these, in the order of their
/// names.
#[rustfmt::skip]
const ATTRIBUTES: &[(&str, &[&str])] = &[
    ("all_gather_v1", &["all_gather_dim", "channel_id", "replica_groups", "use_global_device_ids"]),
    ("all_gather_v2", &["all_gather_dim", "channel_id", "replica_groups", "use_global_device_ids"]),
    ("all_reduce_v1", &["channel_id", "replica_groups", "use_global_device_ids"]),
    ("all_reduce_v2", &["channel_id", "replica_groups", "use_global_device_ids"]),
    ("all_to_all_v1", &[
        "channel_id", "concat_dimension", "replica_groups", "split_count", "split_dimension",
    ]),
    ("all_to_all_v2", &[
        "channel_id", "concat_dimension", "replica_groups", "split_count", "split_dimension",
    ]),
    ("batch_norm_grad_v1", &["epsilon", "feature_index"]),
    ("batch_norm_inference_v1", &["epsilon", "feature_index"]),
    ("batch_norm_training_v1", &["epsilon", "feature_index"]),
    ("broadcast_in_dim_v1", &["broadcast_dimensions"]),
    ("broadcast_v1", &["broadcast_sizes"]),
    ("call_v1", &["callee"]),
    ("cbrt_v2", &["result_accuracy"]),
    ("cholesky_v1", &["lower"]),
    ("collective_broadcast_v1", &["channel_id", "replica_groups"]),
    ("collective_broadcast_v2", &["channel_id", "has_dynamic_root", "replica_groups"]),
    ("collective_permute_v1", &["channel_id", "source_target_pairs"]),
    ("collective_reduce_v1", &[
        "channel_id", "has_dynamic_root", "replica_groups", "use_global_device_ids",
    ]),
    ("compare_v1", &["compare_type", "comparison_direction"]),
    ("composite_v1", &["composite_attributes", "decomposition", "name", "version"]),
    ("composite_v2", &["composite_attributes", "decomposition", "name", "version"]),
    ("concatenate_v1", &["dimension"]),
    ("constant_v1", &["value"]),
    ("convolution_v1", &[
        "batch_group_count", "feature_group_count", "input_batch_dimension",
        "input_feature_dimension", "input_spatial_dimensions", "kernel_input_feature_dimension",
        "kernel_output_feature_dimension", "kernel_spatial_dimensions", "lhs_dilation",
        "output_batch_dimension", "output_feature_dimension", "output_spatial_dimensions",
        "padding", "precision_config", "rhs_dilation", "window_reversal", "window_strides",
    ]),
    ("cosine_v2", &["result_accuracy"]),
    ("cross-replica-sum_v1", &["replica_groups"]),
    ("custom_call_v1", &[
        "api_version", "backend_config", "call_target_name", "called_computations",
        "has_side_effect", "operand_layouts", "output_operand_aliases", "result_layouts",
    ]),
    ("custom_call_v2", &[
        "api_version", "backend_config", "call_target_name", "called_computations",
        "has_side_effect", "operand_layouts", "output_operand_aliases", "result_layouts",
        "result_tilings",
    ]),
    ("dot_general_v1", &[
        "lhs_batching_dimensions", "lhs_contracting_dimensions", "precision_config",
        "rhs_batching_dimensions", "rhs_contracting_dimensions",
    ]),
    ("dot_general_v2", &[
        "accumulation_type", "allow_imprecise_accumulation", "lhs_batching_dimensions",
        "lhs_component_count", "lhs_contracting_dimensions", "lhs_precision_type",
        "num_primitive_operations", "precision_config", "rhs_batching_dimensions",
        "rhs_component_count", "rhs_contracting_dimensions", "rhs_precision_type",
    ]),
    ("dynamic_broadcast_in_dim_v1", &[
        "broadcast_dimensions", "known_expanding_dimensions", "known_nonexpanding_dimensions",
    ]),
    ("dynamic_conv_v1", &[
        "batch_group_count", "feature_group_count", "input_batch_dimension",
        "input_feature_dimension", "input_spatial_dimensions", "kernel_input_feature_dimension",
        "kernel_output_feature_dimension", "kernel_spatial_dimensions", "lhs_dilation",
        "output_batch_dimension", "output_feature_dimension", "output_spatial_dimensions",
        "padding", "precision_config", "rhs_dilation", "window_reversal", "window_strides",
    ]),
    ("dynamic_conv_v2", &[
        "batch_group_count", "feature_group_count", "input_batch_dimension",
        "input_feature_dimension", "input_spatial_dimensions", "kernel_input_feature_dimension",
        "kernel_output_feature_dimension", "kernel_spatial_dimensions", "lhs_dilation",
        "output_batch_dimension", "output_feature_dimension", "output_spatial_dimensions",
        "precision_config", "rhs_dilation", "window_reversal", "window_strides",
    ]),
    ("dynamic_gather_v1", &[
        "collapsed_slice_dims", "index_vector_dim", "indices_are_sorted", "offset_dims",
        "start_index_map",
    ]),
    ("dynamic_gather_v2", &[
        "collapsed_slice_dims", "index_vector_dim", "indices_are_sorted", "offset_dims",
        "operand_batching_dims", "start_index_map", "start_indices_batching_dims",
    ]),
    ("dynamic_iota_v1", &["iota_dimension"]),
    ("dynamic_slice_v1", &["slice_sizes"]),
    ("einsum_v1", &["einsum_config"]),
    ("exponential_minus_one_v2", &["result_accuracy"]),
    ("exponential_v2", &["result_accuracy"]),
    ("fft_v1", &["fft_length", "fft_type"]),
    ("func_v1", &["arg_attrs", "function_type", "res_attrs", "sym_name", "sym_visibility"]),
    ("gather_v1", &[
        "collapsed_slice_dims", "index_vector_dim", "indices_are_sorted", "offset_dims",
        "slice_sizes", "start_index_map",
    ]),
    ("gather_v2", &[
        "collapsed_slice_dims", "index_vector_dim", "indices_are_sorted", "offset_dims",
        "operand_batching_dims", "slice_sizes", "start_index_map", "start_indices_batching_dims",
    ]),
    ("get_dimension_size_v1", &["dimension"]),
    ("get_tuple_element_v1", &["index"]),
    ("infeed_v1", &["infeed_config", "layout"]),
    ("iota_v1", &["iota_dimension"]),
    ("log_plus_one_v2", &["result_accuracy"]),
    ("log_v2", &["result_accuracy"]),
    ("logistic_v2", &["result_accuracy"]),
    ("map_v1", &["dimensions"]),
    ("outfeed_v1", &["outfeed_config"]),
    ("pad_v1", &["edge_padding_high", "edge_padding_low", "interior_padding"]),
    ("recv_v1", &["channel_id", "channel_type", "is_host_transfer"]),
    ("recv_v2", &["channel_id", "channel_type", "is_host_transfer", "source_target_pairs"]),
    ("reduce_precision_v1", &["exponent_bits", "mantissa_bits"]),
    ("reduce_scatter_v1", &[
        "channel_id", "replica_groups", "scatter_dimension", "use_global_device_ids",
    ]),
    ("reduce_v1", &["dimensions"]),
    ("reduce_window_v1", &[
        "base_dilations", "padding", "window_dilations", "window_dimensions", "window_strides",
    ]),
    ("reverse_v1", &["dimensions"]),
    ("rng_bit_generator_v1", &["rng_algorithm"]),
    ("rng_v1", &["rng_distribution"]),
    ("rsqrt_v2", &["result_accuracy"]),
    ("scatter_v1", &[
        "index_vector_dim", "indices_are_sorted", "inserted_window_dims",
        "scatter_dims_to_operand_dims", "unique_indices", "update_window_dims",
    ]),
    ("scatter_v2", &[
        "index_vector_dim", "indices_are_sorted", "input_batching_dims", "inserted_window_dims",
        "scatter_dims_to_operand_dims", "scatter_indices_batching_dims", "unique_indices",
        "update_window_dims",
    ]),
    ("select_and_scatter_v1", &["padding", "window_dimensions", "window_strides"]),
    ("send_v1", &["channel_id", "channel_type", "is_host_transfer"]),
    ("send_v2", &["channel_id", "channel_type", "is_host_transfer", "source_target_pairs"]),
    ("set_dimension_size_v1", &["dimension"]),
    ("sine_v2", &["result_accuracy"]),
    ("slice_v1", &["limit_indices", "start_indices", "strides"]),
    ("sort_v1", &["dimension", "is_stable"]),
    ("sqrt_v2", &["result_accuracy"]),
    ("tan_v2", &["result_accuracy"]),
    ("tanh_v2", &["result_accuracy"]),
    ("torch_index_select_v1", &["batch_dims", "dim"]),
    ("transpose_v1", &["permutation"]),
    ("triangular_solve_v1", &["left_side", "lower", "transpose_a", "unit_diagonal"]),
    ("unary_einsum_v1", &["einsum_config"]),
];

/// The operations that have no attributes, with the number of the newest version of each.
#[rustfmt::skip]
const WITHOUT_ATTRIBUTES: &[&str] = &[
    "abs_v1", "add_v1", "after_all_v1", "and_v1", "async_done_v1", "async_start_v1", "atan2_v1",
    "bitcast_convert_v1", "case_v1", "cbrt_v1", "ceil_v1", "clamp_v1", "complex_v1", "convert_v1",
    "cosine_v1", "count_leading_zeros_v1", "create_token_v1", "divide_v1", "dot_v1",
    "dynamic_pad_v1", "dynamic_reshape_v1", "dynamic_update_slice_v1", "exponential_minus_one_v1",
    "exponential_v1", "floor_v1", "if_v1", "imag_v1", "is_finite_v1", "log_plus_one_v1", "log_v1",
    "logistic_v1", "maximum_v1", "minimum_v1", "multiply_v1", "negate_v1", "not_v1",
    "optimization_barrier_v1", "or_v1", "partition_id_v1", "popcnt_v1", "power_v1",
    "real_dynamic_slice_v1", "real_v1", "remainder_v1", "replica_id_v1", "reshape_v1", "return_v1",
    "round_nearest_afz_v1", "round_nearest_even_v1", "rsqrt_v1", "select_v1", "shift_left_v1",
    "shift_right_arithmetic_v1", "shift_right_logical_v1", "sign_v1", "sine_v1", "sqrt_v1",
    "subtract_v1", "tan_v1", "tanh_v1", "tuple_v1", "uniform_dequantize_v1", "uniform_quantize_v1",
    "while_v1", "xor_v1",
];

/// The names of the attributes of an operation of VHLO, in the order in which they lie in a file;
/// none of one that is not known.
pub(super) fn attribute_names(operation: &str) -> Option<&'static [&'static str]> {
    let row = ATTRIBUTES.iter().find(|(name, _)| *name == operation);
    row.map(|(_, names)| *names)
        .or_else(|| WITHOUT_ATTRIBUTES.contains(&operation).then_some(&[][..]))
}

/// Records of StableHLO whose entries VHLO has as attributes of the operation: the operations, the
/// name of the record, and its entries.
#[rustfmt::skip]
const RECORDS: &[(&[&str], &str, &[&str])] = &[
    (&["convolution", "dynamic_conv"], "dimension_numbers", &[
        "input_batch_dimension", "input_feature_dimension", "input_spatial_dimensions",
        "kernel_input_feature_dimension", "kernel_output_feature_dimension",
        "kernel_spatial_dimensions", "output_batch_dimension", "output_feature_dimension",
        "output_spatial_dimensions",
    ]),
    (&["dot_general"], "dot_dimension_numbers", &[
        "lhs_batching_dimensions", "rhs_batching_dimensions", "lhs_contracting_dimensions",
        "rhs_contracting_dimensions",
    ]),
    (&["dot_general"], "algorithm", &[
        "lhs_precision_type", "rhs_precision_type", "accumulation_type", "lhs_component_count",
        "rhs_component_count", "num_primitive_operations", "allow_imprecise_accumulation",
    ]),
    (&["gather", "dynamic_gather"], "dimension_numbers", &[
        "offset_dims", "collapsed_slice_dims", "operand_batching_dims",
        "start_indices_batching_dims", "start_index_map", "index_vector_dim",
    ]),
    (&["scatter"], "scatter_dimension_numbers", &[
        "update_window_dims", "inserted_window_dims", "input_batching_dims",
        "scatter_indices_batching_dims", "scatter_dims_to_operand_dims", "index_vector_dim",
    ]),
];

/// What StableHLO calls an operation of VHLO, which has a version behind its name.
pub(super) fn name_of(operation: &str) -> String {
    let plain = match operation.rsplit_once("_v") {
        Some((plain, version)) if version.bytes().all(|it| it.is_ascii_digit()) => plain,
        _ => operation,
    };
    match plain {
        "call" => "func.call".to_owned(),
        plain => format!("stablehlo.{plain}"),
    }
}

/// The attributes of an operation of StableHLO, made of those of VHLO.
pub(super) fn regrouped(operation: &str, attributes: Attributes) -> Attributes {
    let plain = operation.strip_prefix("stablehlo.").unwrap_or(operation);
    let rows = RECORDS.iter().filter(|(operations, _, _)| operations.contains(&plain));
    let mut left = attributes;
    for (_, name, entries) in rows {
        let (inside, outside): (Attributes, Attributes) =
            left.into_iter().partition(|(name, _)| entries.contains(&name.as_str()));
        left = outside;
        // An algorithm that is not given is written as types of nothing.
        if !inside.iter().all(|(_, value)| is_nothing(value)) {
            left.push(((*name).to_owned(), Attribute::Record(inside)));
        }
    }
    left
}

fn is_nothing(value: &Attribute) -> bool {
    use crate::syntax::ValueType;
    matches!(value, Attribute::Type(ValueType::Other(name)) if name == "none")
}

/// Lists of words of which files hold numbers, by the code of the attribute.
pub(super) fn word(code: u64, number: u64) -> Option<&'static str> {
    let words: &[&str] = match code {
        3 => &["EQ", "NE", "GE", "GT", "LE", "LT"],
        4 => &["NOTYPE", "FLOAT", "TOTALORDER", "SIGNED", "UNSIGNED"],
        5 => &[
            "API_VERSION_UNSPECIFIED",
            "API_VERSION_ORIGINAL",
            "API_VERSION_STATUS_RETURNING",
            "API_VERSION_STATUS_RETURNING_UNIFIED",
            "API_VERSION_TYPED_FFI",
        ],
        7 => &["FFT", "IFFT", "RFFT", "IRFFT"],
        11 => &["DEFAULT", "HIGH", "HIGHEST"],
        12 => &["DEFAULT", "THREE_FRY", "PHILOX"],
        13 => &["", "UNIFORM", "NORMAL"],
        16 => &["TRANSPOSE_INVALID", "NO_TRANSPOSE", "TRANSPOSE", "ADJOINT"],
        19 => &["DEFAULT", "HIGHEST", "TOLERANCE"],
        _ => return None,
    };
    words.get(usize::try_from(number).ok()?).copied()
}
