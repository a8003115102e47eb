//! Softmax of rows that a mask has lowered by so much that their exponentials are no normal
//! numbers.

mod common;

use common::executable;
use tilewright::Tensor;

#[test]
fn what_does_not_count_beside_the_greatest_is_zero() {
    let text = "input x: f32[1, 40] y = Softmax(x) {axis = 1} output y: f32[1, 40]";
    let Some(executable) = executable(text) else { return };
    // From 0 down to -117: some exponentials are normal, some below that, and some nothing.
    let x: Vec<f32> = (0..40).map(|at| -3.0 * at as f32).collect();
    let outputs = executable.run(&[Tensor::from_slice(&[1, 40], &x)]);
    let outputs = outputs.unwrap_or_else(|found| panic!("{found}"));
    for (share, x) in outputs[0].scalars().zip(&x) {
        let share = share.as_f64();
        let expected = if *x < -86.0 { 0.0 } else { f64::from(*x).exp() * (1.0 - (-3f64).exp()) };
        assert!((share - expected).abs() <= 1e-5 * expected, "{x}: {share}, not {expected}");
    }
}
