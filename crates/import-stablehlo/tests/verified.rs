//! What the dialect's verifier refuses is refused, with the reason; what differs from it in that
//! one point is a program.

use front::ImportOptions;
use import_stablehlo::StablehloProgram;

/// A quantised type of 8 bits: its shape, axis, scales.
fn quantised(shape: &str, scales: &str) -> String {
    format!("tensor<{shape}!quant.uniform<i8:f32{scales}>>")
}

/// A program of one operation in the generic form.
fn program(operands: &[&str], operation: &str, result: &str) -> String {
    let names: Vec<String> = (0..operands.len()).map(|number| format!("%x{number}")).collect();
    let parameters: Vec<String> =
        names.iter().zip(operands).map(|(name, ty)| format!("{name}: {ty}")).collect();
    let (name, attributes) = operation.split_once(' ').unwrap_or((operation, "{}"));
    format!(
        "func.func @main({}) -> {result} {{\n  %y = \"stablehlo.{name}\"({}) {attributes} : ({}) \
         -> {result}\n  return %y : {result}\n}}\n",
        parameters.join(", "),
        names.join(", "),
        operands.join(", "),
    )
}

fn import(text: &str) -> Result<(), String> {
    let options = ImportOptions::default();
    let program = StablehloProgram::read(&text.as_bytes().to_vec().into(), &options.limits);
    let imported = program.and_then(|program| program.import(&options));
    imported.map(|_| ()).map_err(|found| found.to_string())
}

/// Imports a text, which is refused for a reason; for none it is a program.
fn check(text: &str, reason: &str) {
    match import(text) {
        Ok(()) => assert!(reason.is_empty(), "`{reason}` is accepted: {text}"),
        Err(found) => {
            assert!(!reason.is_empty() && found.contains(reason), "{found} of {text}");
        }
    }
}

#[test]
fn scales_stay_with_what_is_moved() {
    let (one, other) = (quantised("2x3x", ", 0.5:3"), quantised("3x2x", ", 0.5:4"));
    let turned = quantised("3x2x", ", 0.5:3");
    let transpose = "transpose {permutation = array<i64: 1, 0>}";
    check(&program(&[&one], transpose, &turned), "");
    check(&program(&[&one], transpose, &other), "changes scales");
    check(&program(&[&one], "reshape", &turned), "");
    check(&program(&[&one], "reshape", &other), "changes scales");
    let columns = quantised("2x3x", ":1, {0.5, 0.25, 1.0}");
    let rows = quantised("3x2x", ":0, {0.5, 0.25, 1.0}");
    check(&program(&[&columns], transpose, &rows), "");
    check(&program(&[&columns], "reshape", &rows), "another axis");
    let reverse = "reverse {dimensions = array<i64: 0>}";
    check(&program(&[&one], reverse, &one), "");
    check(&program(&[&columns], reverse, &columns), "a scale for each index");
}

#[test]
fn one_scale_is_repeated_with_its_axis() {
    let spread = "broadcast_in_dim {broadcast_dimensions = array<i64: 1>}";
    let one = quantised("1x", ":0, {0.5:3}");
    let both = quantised("2x2x", ":1, {0.5:3, 0.5:3}");
    check(&program(&[&one], spread, &both), "");
    check(&program(&[&one], spread, &quantised("2x2x", ":0, {0.5:3, 0.5:3}")), "another axis");
    let differs = quantised("2x2x", ":1, {0.5:3, 0.5:4}");
    check(&program(&[&one], spread, &differs), "changes scales");
}

#[test]
fn elements_that_are_combined_are_quantised_alike() {
    let one = quantised("2x", ", 0.5:3");
    check(&program(&[&one, &one], "add", &quantised("2x", ", 0.25")), "");
    let shorter = "tensor<2x!quant.uniform<i4:f32, 0.5:3>>";
    check(&program(&[&one, &one], "add", shorter), "differ in what they store");
    check(&program(&[&one, &one], "multiply", "tensor<2xf32>"), "differ in what they store");
    let several = quantised("2x", ":0, {0.5, 0.25}");
    check(&program(&[&several, &one], "add", &several), "");
    check(&program(&[&several, &one], "add", &one), "a sum's scales");
    check(&program(&["tensor<2xf32>"], "uniform_quantize", &one), "");
    check(&program(&["tensor<2xf64>"], "uniform_quantize", &one), "integers stand for f32");
}

#[test]
fn products_take_one_kind_of_integers() {
    let dot = "dot_general {dot_dimension_numbers = #stablehlo.dot<lhs_contracting_dimensions = \
        [1], rhs_contracting_dimensions = [0]>}";
    let (a, b, c) =
        (quantised("2x3x", ", 0.5:3"), quantised("3x2x", ", 0.5"), quantised("2x2x", ", 1.0"));
    check(&program(&[&a, &b], dot, &c), "");
    check(&program(&["tensor<2x3xf32>", &b], dot, "tensor<2x2xf32>"), "");
    check(&program(&["tensor<2x3xf32>", &b], dot, &c), "the first as the result is");
    check(&program(&[&a, &quantised("3x2x", ", 0.5:1")], dot, &c), "zero points");
    let columns = quantised("3x2x", ":1, {0.5, 0.25}");
    check(&program(&[&a, &columns], dot, &quantised("2x2x", ":1, {0.5, 0.25}")), "");
    let summed = quantised("3x2x", ":0, {0.5, 0.25, 1.0}");
    check(&program(&[&a, &summed], dot, &c), "summed over");
    let wider = "tensor<3x2x!quant.uniform<i16:f32, 0.5>>";
    check(&program(&[&a, wider], dot, &c), "stored otherwise");
}

#[test]
fn scales_and_zero_points_are_within_their_types() {
    let add = |ty: &str| program(&[ty, ty], "add", ty);
    check(&add("tensor<2x!quant.uniform<i8<-9:9>:f16, 0.5:9>>"), "");
    check(&add("tensor<2x!quant.uniform<i8<-9:9>:f16, 0.5:10>>"), "zero point 10");
    check(&add("tensor<2x!quant.uniform<i8:f16, 1.0e+5>>"), "no scale of f16");
    check(&add("tensor<2x!quant.uniform<i8:f16, 1.0e-9>>"), "no scale of f16");
    check(&add("tensor<2x!quant.uniform<si8:f16, 0.5>>"), "stored as si8");
    check(&add("tensor<2x!quant.uniform<i8:f16:0, {0.5, 0.5, 0.5}>>"), "3 scales for axis 0");
}

#[test]
fn algorithms_of_products_are_those_that_there_are() {
    let dot = |types: &str, products: usize| {
        let operation = format!(
            "dot_general {{dot_dimension_numbers = #stablehlo.dot<lhs_contracting_dimensions = \
             [1], rhs_contracting_dimensions = [0]>, algorithm = #stablehlo.dot_algorithm<\
             {types}, lhs_component_count = 1, rhs_component_count = 1, \
             num_primitive_operations = {products}, allow_imprecise_accumulation = false>}}"
        );
        program(&["tensor<2x3xf32>", "tensor<3x2xf32>"], &operation, "tensor<2x2xf32>")
    };
    let of = |operand: &str, sum: &str| {
        format!(
            "lhs_precision_type = {operand}, rhs_precision_type = {operand}, accumulation_type = \
             {sum}"
        )
    };
    check(&dot(&of("bf16", "f32"), 6), "");
    check(&dot(&of("f8E5M2", "f32"), 1), "");
    check(&dot(&of("bf16", "f32"), 5), "algorithm");
    check(&dot(&of("i8", "f32"), 1), "algorithm");
}

#[test]
fn printed_forms_have_the_types_of_their_operands() {
    let text = |operation: &str| {
        format!(
            "func.func @main(%x: tensor<2xf32>, %p: tensor<2xi1>) -> tensor<2xf32> {{\n  %y = \
             stablehlo.{operation}\n  return %y : tensor<2xf32>\n}}\n"
        )
    };
    check(&text("abs %x : tensor<2xf32>"), "");
    check(&text("abs %x : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>"), "1 operands");
    check(&text("abs %x : (tensor<2xf64>) -> tensor<2xf32>"), "another type");
    check(&text("select %p, %x, %x : tensor<2xi1>, tensor<2xf32>"), "");
    check(&text("select %p, %x, %x : tensor<2xi1>, tensor<2xf32>, tensor<2xf32>"), "3 types");
    check(&text("reduce_precision %x, format = e5m2 : tensor<2xf32>"), "");
    check(&text("reduce_precision %x, format = \"e5m2\" : tensor<2xf32>"), "e5m10");
    check(&text("reverse %x, dims = [0] : tensor<2xf32>"), "");
    check(&text("reverse %x dims = [0] : tensor<2xf32>"), "`,` is expected");
    check(&text("add %x, %x {a = 1, a = 2} : tensor<2xf32>"), "given twice");
}

#[test]
fn bounds_are_of_free_extents() {
    let text = |ty: &str| format!("func.func @main(%x: {ty}) -> {ty} {{\n  return %x : {ty}\n}}\n");
    check(&text("tensor<?x2xf32, #stablehlo.bounds<4, ?>>"), "");
    check(&text("tensor<?x2xf32, #stablehlo.type_extensions<bounds = [4, ?]>>"), "");
    check(&text("tensor<?x2xf32, #stablehlo.bounds<4>>"), "1 bounds are told of 2");
    check(&text("tensor<?x2xf32, #stablehlo.bounds<4, 2>>"), "extent that is known");
}
