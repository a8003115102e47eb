//! Traces of ATen operators through the whole compile: a free number of rows, a refit, what is
//! refused.

mod common;

use base::Limits;
use common::runs_code;
use tilewright::{Options, Tensor, compile_trace, refused_nodes};

/// A layer of a perceptron of a free number of rows.
const LAYER: &str = "trace {
  symbol s0: 2..=64
  input %x: f32[s0, 2]
  weight %w: f32[3, 2]
  weight %b: f32[3]
  %t: f32[2, 3] = aten.t.default(%w)
  %y: f32[s0, 3] = aten.addmm.default(%b, %x, %t)
  return %y
}";

/// What `LAYER` computes, summed in the order of the columns.
fn expected(x: &[f32], w: &[f32], b: &[f32]) -> Vec<f32> {
    let row = |x: &[f32]| {
        let one = |at: usize| x[0] * w[2 * at] + x[1] * w[2 * at + 1] + b[at];
        (0..3).map(one).collect::<Vec<f32>>()
    };
    x.chunks(2).flat_map(row).collect()
}

#[test]
fn a_refit_of_the_same_weights_changes_nothing() {
    if !runs_code() {
        return;
    }
    let fixed = Options::default().with_threads(1);
    for options in [fixed.clone(), fixed.with_symbolic_extents()] {
        let compiled = |w: &[f32], b: &[f32]| {
            let weights = [Tensor::from_slice(&[3, 2], w), Tensor::from_slice(&[3], b)];
            compile_trace(LAYER, &weights, &options).unwrap_or_else(|found| panic!("{found}"))
        };
        let (w, b) = ([1.0, 2.0, 3.0, 4.0, 5.0, 6.0], [0.5, 0.25, 0.0]);
        let x = [1.0, -1.0, 2.0, 0.5];
        let mut executable = compiled(&w, &b);
        let inputs = [Tensor::from_slice(&[2, 2], &x)];
        let run = |executable: &tilewright::Executable| -> Vec<f32> {
            let outputs = executable.run(&inputs).unwrap_or_else(|found| panic!("{found}"));
            outputs[0].to_vec().unwrap_or_else(|found| panic!("{found}"))
        };
        assert_eq!(run(&executable), expected(&x, &w, &b));
        // Nothing has changed, so nothing may.
        executable.refit().unwrap_or_else(|found| panic!("{found}"));
        assert_eq!(run(&executable), expected(&x, &w, &b));
    }
}

#[test]
fn nodes_that_are_not_supported_are_named() {
    let text = LAYER.replace("aten.t.default", "aten.no_such.default");
    let refused = refused_nodes(&text, &Limits::default()).unwrap_or_else(|it| panic!("{it}"));
    let names: Vec<&str> = refused.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["t"]);
    assert!(compile_trace(&text, &[], &Options::default()).is_err());
}
