//! Gradient descent with momentum, compiled as one program: where is Rosenbrock's valley deepest?
//!
//!     cargo run --profile quick -p examples --example descent

use std::process::ExitCode;

use tilewright::trace::{TracedValue, grad, hessian, trace, while_loop};
use tilewright::{DType, Options, Tensor};

const RATE: f64 = 2e-3;
const MOMENTUM: f64 = 0.95;
const MOST_STEPS: usize = 20_000;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(diagnostics) => {
            eprintln!("{diagnostics}");
            ExitCode::FAILURE
        }
    }
}

/// The sum over neighbours of `100 (y - x^2)^2 + (1 - x)^2`.
fn valley(x: &TracedValue) -> TracedValue {
    let last = x.shape()[0] - 1;
    let (here, next) = (x.slice(0, 0..last), x.slice(0, 1..last + 1));
    ((next - here.powf(2.0)).powf(2.0) * 100.0 + (1.0 - here).powf(2.0)).sum()
}

fn run() -> tilewright::Result<()> {
    let inputs: [(&str, DType, &[usize]); 1] = [("start", DType::F64, &[2])];
    let function = trace("descent", &inputs, |inputs| {
        let start = &inputs[0];
        let steep = |slope: &TracedValue| slope.abs().max_axes(&[0]).greater(&slope.number(1e-6));
        let state = [start.clone(), start.full(&[2], 0.0), start.number(0.0)];
        let [place, _, steps] = while_loop(
            &state,
            Some(MOST_STEPS),
            |[place, _, _]| steep(&grad(valley)(place)),
            |[place, speed, steps]| {
                let speed = speed * MOMENTUM - grad(valley)(place) * RATE;
                [place + &speed, speed, steps + 1.0]
            },
        );
        let curvature = hessian(valley)(&place);
        vec![place, steps, curvature]
    })?;
    let executable = tilewright::compile_module(function.into_module(), &Options::default())?;
    let found = executable.run(&[Tensor::from_vec(&[2], vec![-1.2_f64, 1.0])])?;
    let place = found[0].to_f64_vec();
    println!("deepest at ({:.4}, {:.4}), after {} steps", place[0], place[1], found[1].get_f64(0));
    let curvature = found[2].to_f64_vec();
    println!(
        "curvature [[{:.1}, {:.1}], [{:.1}, {:.1}]]",
        curvature[0], curvature[1], curvature[2], curvature[3]
    );
    Ok(())
}
