//! The table of operations.

use tensor::ScalarFunction as F;

use super::Lower::{Elementwise, Map, Movement, Whole};
use super::{
    Lower, Row, control, elementwise, indexing, linear, movement, products, quantised, random,
    reductions, special, windows,
};

const fn row(name: &'static str, lower: Lower) -> Row {
    Row { name, lower }
}

#[rustfmt::skip]
const TABLE: &[Row] = &[
    // Elementwise.
    row("stablehlo.abs", Elementwise(elementwise::abs)),
    row("stablehlo.add", Map(F::Add)),
    row("stablehlo.and", Map(F::And)),
    row("stablehlo.atan2", Map(F::Atan2)),
    row("stablehlo.cbrt", Elementwise(elementwise::cube_root)),
    row("stablehlo.ceil", Map(F::Ceil)),
    row("stablehlo.clamp", Elementwise(elementwise::clamp)),
    row("stablehlo.compare", Elementwise(elementwise::compare)),
    row("stablehlo.complex", Elementwise(elementwise::complex)),
    row("stablehlo.constant", Elementwise(elementwise::constant)),
    row("stablehlo.convert", Elementwise(elementwise::convert)),
    row("stablehlo.cosine", Map(F::Cos)),
    row("stablehlo.count_leading_zeros", Map(F::CountLeadingZeros)),
    row("stablehlo.divide", Map(F::Div)),
    row("stablehlo.exponential", Map(F::Exp)),
    row("stablehlo.exponential_minus_one", Map(F::Expm1)),
    row("stablehlo.floor", Map(F::Floor)),
    row("stablehlo.imag", Elementwise(elementwise::imag)),
    row("stablehlo.is_finite", Elementwise(elementwise::is_finite)),
    row("stablehlo.log", Map(F::Log)),
    row("stablehlo.log_plus_one", Map(F::Log1p)),
    row("stablehlo.logistic", Elementwise(elementwise::logistic)),
    row("stablehlo.maximum", Map(F::Max)),
    row("stablehlo.minimum", Map(F::Min)),
    row("stablehlo.multiply", Map(F::Mul)),
    row("stablehlo.negate", Map(F::Neg)),
    row("stablehlo.not", Map(F::Not)),
    row("stablehlo.or", Map(F::Or)),
    row("stablehlo.popcnt", Map(F::Popcount)),
    row("stablehlo.power", Map(F::Pow)),
    row("stablehlo.real", Elementwise(elementwise::real)),
    row("stablehlo.reduce_precision", Elementwise(elementwise::reduce_precision)),
    row("stablehlo.remainder", Map(F::Rem)),
    row("stablehlo.round_nearest_afz", Elementwise(elementwise::round_away)),
    row("stablehlo.round_nearest_even", Map(F::Round)),
    row("stablehlo.rsqrt", Elementwise(elementwise::reciprocal_root)),
    row("stablehlo.select", Elementwise(elementwise::select)),
    row("stablehlo.shift_left", Map(F::Shl)),
    row("stablehlo.shift_right_arithmetic", Elementwise(elementwise::shift_right_arithmetic)),
    row("stablehlo.shift_right_logical", Elementwise(elementwise::shift_right_logical)),
    row("stablehlo.sign", Map(F::Sign)),
    row("stablehlo.sine", Map(F::Sin)),
    row("stablehlo.sqrt", Map(F::Sqrt)),
    row("stablehlo.subtract", Map(F::Sub)),
    row("stablehlo.tan", Map(F::Tan)),
    row("stablehlo.tanh", Map(F::Tanh)),
    row("stablehlo.xor", Map(F::Xor)),
    row("stablehlo.bitcast_convert", Elementwise(elementwise::bitcast)),
    row("stablehlo.optimization_barrier", Elementwise(control::unchanged)),
    row("stablehlo.map", Elementwise(reductions::map)),
    row("stablehlo.uniform_quantize", Elementwise(quantised::quantise)),
    row("stablehlo.uniform_dequantize", Elementwise(quantised::dequantise)),
    // Movements.
    row("stablehlo.broadcast", Movement(movement::broadcast)),
    row("stablehlo.broadcast_in_dim", Movement(movement::broadcast_in_dim)),
    row("stablehlo.reshape", Movement(movement::reshape)),
    row("stablehlo.reverse", Movement(movement::reverse)),
    row("stablehlo.slice", Movement(movement::slice)),
    row("stablehlo.transpose", Movement(movement::transpose)),
    row("stablehlo.concatenate", Whole(movement::concatenate)),
    row("stablehlo.dynamic_broadcast_in_dim", Whole(movement::dynamic_broadcast_in_dim)),
    row("stablehlo.dynamic_iota", Whole(movement::dynamic_iota)),
    row("stablehlo.dynamic_pad", Whole(movement::dynamic_pad)),
    row("stablehlo.dynamic_reshape", Whole(movement::dynamic_reshape)),
    row("stablehlo.get_dimension_size", Whole(movement::get_dimension_size)),
    row("stablehlo.iota", Whole(movement::iota)),
    row("stablehlo.pad", Whole(movement::pad)),
    row("stablehlo.real_dynamic_slice", Whole(movement::real_dynamic_slice)),
    // Indices that are data.
    row("stablehlo.dynamic_gather", Whole(indexing::dynamic_gather)),
    row("stablehlo.dynamic_slice", Whole(indexing::dynamic_slice)),
    row("stablehlo.dynamic_update_slice", Whole(indexing::dynamic_update_slice)),
    row("stablehlo.gather", Whole(indexing::gather)),
    row("stablehlo.scatter", Whole(indexing::scatter)),
    // Along axes.
    row("stablehlo.reduce", Whole(reductions::reduce)),
    row("stablehlo.reduce_window", Whole(windows::reduce_window)),
    row("stablehlo.select_and_scatter", Whole(windows::select_and_scatter)),
    row("stablehlo.sort", Whole(reductions::sort)),
    row("chlo.top_k", Whole(reductions::top_k)),
    // Products and linear algebra.
    row("stablehlo.convolution", Whole(products::convolution)),
    row("stablehlo.dynamic_conv", Whole(products::convolution)),
    row("stablehlo.dot", Whole(products::dot)),
    row("stablehlo.dot_general", Whole(products::dot_general)),
    row("stablehlo.cholesky", Whole(linear::cholesky)),
    row("stablehlo.fft", Whole(linear::fft)),
    row("stablehlo.triangular_solve", Whole(linear::triangular_solve)),
    row("stablehlo.rng_bit_generator", Whole(random::rng_bit_generator)),
    // Control flow.
    row("func.call", Elementwise(control::call)),
    row("stablehlo.after_all", Elementwise(control::token)),
    row("stablehlo.case", Whole(control::case)),
    row("stablehlo.composite", Elementwise(control::composite)),
    row("stablehlo.create_token", Elementwise(control::token)),
    row("stablehlo.custom_call", Whole(control::custom_call)),
    row("stablehlo.get_tuple_element", Elementwise(control::get_tuple_element)),
    row("stablehlo.if", Whole(control::branch)),
    row("stablehlo.partition_id", Whole(control::number_of_device)),
    row("stablehlo.replica_id", Whole(control::number_of_device)),
    row("stablehlo.tuple", Elementwise(control::tuple)),
    row("stablehlo.while", Whole(control::repeat)),
    row("check.expect_almost_eq", Whole(control::check_almost)),
    row("check.expect_almost_eq_const", Whole(control::check_almost)),
    row("check.expect_close", Whole(control::check_close)),
    row("check.expect_eq", Whole(control::check_equal)),
    row("check.expect_eq_const", Whole(control::check_equal)),
    // CHLO.
    row("chlo.acos", Map(F::Acos)),
    row("chlo.acosh", Map(F::Acosh)),
    row("chlo.asin", Map(F::Asin)),
    row("chlo.asinh", Map(F::Asinh)),
    row("chlo.atan", Map(F::Atan)),
    row("chlo.atanh", Map(F::Atanh)),
    row("chlo.bessel_i1e", Elementwise(special::bessel_i1e)),
    row("chlo.conj", Elementwise(elementwise::conjugate)),
    row("chlo.constant", Elementwise(elementwise::constant)),
    row("chlo.cosh", Map(F::Cosh)),
    row("chlo.digamma", Elementwise(special::digamma)),
    row("chlo.erf", Map(F::Erf)),
    row("chlo.erf_inv", Elementwise(special::erf_inv)),
    row("chlo.erfc", Elementwise(special::erfc)),
    row("chlo.is_inf", Elementwise(special::is_inf)),
    row("chlo.is_neg_inf", Elementwise(special::is_neg_inf)),
    row("chlo.is_pos_inf", Elementwise(special::is_pos_inf)),
    row("chlo.lgamma", Elementwise(special::lgamma)),
    row("chlo.mulhi", Elementwise(special::mulhi)),
    row("chlo.next_after", Elementwise(special::next_after)),
    row("chlo.ragged_dot", Whole(products::ragged_dot)),
    row("chlo.scan", Whole(control::scan)),
    row("chlo.sinh", Map(F::Sinh)),
    row("chlo.square", Elementwise(special::square)),
    row("chlo.tan", Map(F::Tan)),
];

/// The row of an operation.
pub(crate) fn find(name: &str) -> Option<&'static Row> {
    TABLE.iter().find(|row| row.name == name)
}

/// The names of all operations.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    TABLE.iter().map(|row| row.name)
}
