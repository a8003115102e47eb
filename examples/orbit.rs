//! Integrates a differential equation, and finds its parameters from what was seen of it.
//!
//!     cargo run --profile quick -p examples --example orbit
//!
//! Hares and lynxes (Lotka and Volterra): `h' = a h - b h l`, `l' = c h l - d l`. The integration,
//! its gradient and the whole descent to the parameters are one program.

use std::process::ExitCode;

use tilewright::trace::{TracedValue, grad, repeat, trace};
use tilewright::{DType, Options, Tensor};

/// Steps of the integration between two sightings.
const STEPS: usize = 10;
const SIGHTINGS: usize = 30;
const WIDTH: f64 = 0.05;
/// Steps of the descent.
const DESCENT: usize = 600;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(diagnostics) => {
            eprintln!("{diagnostics}");
            ExitCode::FAILURE
        }
    }
}

/// How both change: parameters `[a, b, c, d]`, hares and lynxes `[h, l]`.
fn change(parameters: &TracedValue, both: &TracedValue) -> TracedValue {
    let [a, b, c, d] = [0, 1, 2, 3].map(|number| parameters.at(0, number));
    let (hares, lynxes) = (both.at(0, 0), both.at(0, 1));
    let eaten = &hares * &lynxes;
    let hares = a * hares - b * &eaten;
    let lynxes = c * eaten - d * lynxes;
    hares.reshape(&[1]).concat(0, &[lynxes.reshape(&[1])])
}

/// A step of the classical method of Runge and Kutta.
fn step(parameters: &TracedValue, both: &TracedValue) -> TracedValue {
    let first = change(parameters, both);
    let second = change(parameters, &(both + &first * (WIDTH / 2.0)));
    let third = change(parameters, &(both + &second * (WIDTH / 2.0)));
    let fourth = change(parameters, &(both + &third * WIDTH));
    both + (first + second * 2.0 + third * 2.0 + fourth) * (WIDTH / 6.0)
}

/// What is seen: `[sightings, 2]`.
fn seen(parameters: &TracedValue, start: &TracedValue) -> TracedValue {
    let rows = start.full(&[SIGHTINGS, 2], 0.0);
    let turn = |number: &TracedValue, (both, rows): &(TracedValue, TracedValue)| {
        let both = repeat(STEPS, both, |_, both| step(parameters, both));
        let rows = rows.with_rows(number, &both);
        (both, rows)
    };
    repeat(SIGHTINGS, &(start.clone(), rows), turn).1
}

fn run() -> tilewright::Result<()> {
    let truth = Tensor::from_vec(&[4], vec![1.1_f64, 0.4, 0.1, 0.4]);
    let start = Tensor::from_vec(&[2], vec![10.0_f64, 5.0]);
    let inputs: [(&str, DType, &[usize]); 2] =
        [("parameters", DType::F64, &[4]), ("start", DType::F64, &[2])];
    let function = trace("seen", &inputs, |inputs| seen(&inputs[0], &inputs[1]))?;
    let executable = tilewright::compile_module(function.into_module(), &Options::default())?;
    let sightings = executable.run(&[truth, start.clone()])?.remove(0);

    let inputs: [(&str, DType, &[usize]); 3] = [
        ("guess", DType::F64, &[4]),
        ("start", DType::F64, &[2]),
        ("sightings", DType::F64, &[SIGHTINGS, 2]),
    ];
    let function = trace("fit", &inputs, |inputs| {
        let [guess, start, sightings] = inputs else { return Vec::new() };
        // Parameters are positive: what is sought are their logarithms.
        let loss = |logs: &TracedValue| (seen(&logs.exp(), start) - sightings).powf(2.0).mean();
        let descend = |turn: &TracedValue, state: &[TracedValue; 3]| {
            let [logs, means, squares] = state;
            let slope = grad(loss)(logs);
            let means = means * 0.9 + &slope * 0.1;
            let squares = squares * 0.99 + &slope * &slope * 0.01;
            let turn = turn.cast(DType::F64) + 1.0;
            let bias = |base: f64| 1.0 - (&turn * base.ln()).exp();
            let by = (&means / bias(0.9)) / ((&squares / bias(0.99)).sqrt() + 1e-8);
            [logs - by * 0.02, means, squares]
        };
        let zeros = guess.full(&[4], 0.0);
        let [logs, ..] = repeat(DESCENT, &[guess.log(), zeros.clone(), zeros], descend);
        vec![logs.exp().named("parameters"), loss(&guess.log()), loss(&logs)]
    })?;
    let executable = tilewright::compile_module(function.into_module(), &Options::default())?;
    let guess = Tensor::from_vec(&[4], vec![0.9_f64, 0.5, 0.08, 0.5]);
    let found = executable.run(&[guess, start, sightings])?;
    let numbers: Vec<String> = found[0].to_f64_vec().iter().map(|it| format!("{it:.4}")).collect();
    println!("parameters {} (1.1, 0.4, 0.1, 0.4 made the sightings)", numbers.join(", "));
    println!("mean square {:.3} before, {:.6} after", found[1].get_f64(0), found[2].get_f64(0));
    Ok(())
}
