//! Calls of what is no operation of the dialect, as JAX writes them: greatest and least elements.

mod evaluated;

use evaluated::{evaluated, import};
use tensor::{DType, Scalar, Tensor};

/// The call for elements along an axis of a 3 by 2 tensor, chosen by a comparison.
fn program(direction: &str, axis: i64, result: &str) -> String {
    format!(
        "module {{\n  func.func @order(%a: tensor<f32>, %b: tensor<f32>, %i: tensor<i32>, \
         %j: tensor<i32>) -> tensor<i1> {{\n    %0 = stablehlo.compare {direction}, %a, %b : \
         (tensor<f32>, tensor<f32>) -> tensor<i1>\n    stablehlo.return %0 : tensor<i1>\n  }}\n  \
         func.func public @main(%x: tensor<3x2xf32>) -> (tensor<{result}xf32>, \
         tensor<{result}xi32>) {{\n    %0 = stablehlo.iota dim = {axis} : tensor<3x2xi32>\n    \
         %c = stablehlo.constant dense<-1> : tensor<i32>\n    \
         %s = stablehlo.constant dense<0xFF800000> : tensor<f32>\n    \
         %1:2 = stablehlo.custom_call @ApproxTopK(%x, %0, %s, %c) {{backend_config = \"\", \
         called_computations = [@order], mhlo.backend_config = {{aggregate_to_topk = true, \
         is_fallback = true, recall_target = 0.95 : f32, reduction_dim = {axis} : i64, \
         reduction_input_size_override = -1 : i64, top_k = 2 : i64}}}} : (tensor<3x2xf32>, \
         tensor<3x2xi32>, tensor<f32>, tensor<i32>) -> (tensor<{result}xf32>, \
         tensor<{result}xi32>)\n    \
         return %1#0, %1#1 : tensor<{result}xf32>, tensor<{result}xi32>\n  }}\n}}\n"
    )
}

#[test]
fn the_first_by_an_order() {
    let numbers = [0.0, -0.0, -0.0, 5.0, -1.0, f64::INFINITY];
    let x: Vec<Scalar> = numbers.iter().map(|&it| Scalar::from_f64(DType::F32, it)).collect();
    let x = Tensor::from_scalars(DType::F32, &[3, 2], &x);
    // Zeros of both signs are equal, and keep their order.
    type Case<'a> = (&'a str, i64, &'a str, &'a [f64], &'a [f64]);
    let cases: [Case<'_>; 4] = [
        ("GT", 0, "2x2", &[0.0, f64::INFINITY, -0.0, 5.0], &[0.0, 2.0, 1.0, 1.0]),
        ("LT", 0, "2x2", &[-1.0, -0.0, 0.0, 5.0], &[2.0, 0.0, 0.0, 1.0]),
        ("GT", 1, "3x1", &[0.0, 5.0, f64::INFINITY], &[0.0, 1.0, 1.0]),
        ("LT", 1, "3x1", &[0.0, -0.0, -1.0], &[0.0, 0.0, 0.0]),
    ];
    for (direction, axis, result, values, places) in cases {
        let imported = import(program(direction, axis, result).as_bytes()).expect("a program");
        let found = evaluated(&imported, std::slice::from_ref(&x)).expect("it runs");
        let numbers = |tensor: &Tensor| -> Vec<u64> {
            tensor.scalars().map(|it| it.as_f64().to_bits()).collect()
        };
        let bits = |wanted: &[f64]| -> Vec<u64> { wanted.iter().map(|it| it.to_bits()).collect() };
        assert_eq!(numbers(&found[0]), bits(values), "{direction} along {axis}");
        assert_eq!(numbers(&found[1]), bits(places), "{direction} along {axis}");
    }
}

#[test]
fn what_is_no_order_is_refused() {
    let refused = |text: &str| import(text.as_bytes()).map(|_| ()).expect_err("a refusal");
    let found = refused(&program("LE", 0, "2x2"));
    assert!(found.contains("a comparison of two"), "{found}");
    let found = refused(&program("GT", 0, "4x2"));
    assert!(found.contains("the first 4 of 3"), "{found}");
    let found = refused(&program("GT", 0, "2x2").replace("[@order]", "[@other]"));
    assert!(found.contains("a comparison of two"), "{found}");
    let found = refused(&program("GT", 2, "2x2"));
    assert!(!found.is_empty());
}
