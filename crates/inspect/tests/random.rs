//! Random graph functions through the whole compile, for each target that this machine runs and as
//! C, beside the evaluator. A function that fails is reduced to what it takes to fail.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use base::Diagnostics;
use proptest::prelude::*;
use tensor::{DType, Tensor, compare};
use testkit::{GraphOptions, GraphSample, counted, graph_samples, has_c_compiler, reduce};
use tilewright::compiled::Source;
use tilewright::{Options, TargetChoice, Value};

const OPTIONS: GraphOptions = GraphOptions {
    nodes: 16,
    symbolic: true,
    control_flow: true,
    few_bits: true,
    sizes: true,
    lists: true,
};

/// What one way of computing gives: the tensors that results are made of. None where it lacks a
/// function of the sample, or the machine lacks the target.
type Outcome = Result<Option<Vec<Tensor>>, String>;

fn outcome(run: impl FnOnce() -> Result<Vec<Tensor>, Diagnostics>) -> Outcome {
    match catch_unwind(AssertUnwindSafe(run)) {
        Ok(Ok(results)) => Ok(Some(results)),
        Ok(Err(found)) if found.to_string().contains("TW0402") => Ok(None),
        Ok(Err(found)) if found.to_string().contains("has no expansion") => Ok(None),
        Ok(Err(found)) => Err(found.to_string()),
        Err(_) => Err("it panics".to_owned()),
    }
}

/// Every result is rounded to its type, as the evaluator does; otherwise what lies between maps of
/// short floats may be more precise.
fn rounded_as_written() -> Options {
    let mut options = Options::default();
    options.disabled.insert("excess_precision".to_owned());
    options
}

fn on_target(sample: &GraphSample, target: &str, disabled: &[&str]) -> Outcome {
    let mut options = rounded_as_written();
    options.disabled.extend(disabled.iter().map(|&name| name.to_owned()));
    with_options(sample, target, options)
}

fn with_options(sample: &GraphSample, target: &str, options: Options) -> Outcome {
    let target = TargetChoice::Named(target.to_owned());
    let options = Options { target, threads: Some(2), ..options };
    let inputs: Vec<Value> = sample.inputs.iter().cloned().map(Value::from).collect();
    outcome(|| {
        let values = tilewright::compile_module(sample.module(), &options)?.run_values(&inputs)?;
        Ok(values.into_iter().flat_map(Value::into_tensors).collect())
    })
}

fn evaluated(sample: &GraphSample) -> Result<Vec<Tensor>, String> {
    sample.evaluated().map_err(|fault| fault.to_string())
}

/// What is wrong with results, if something is.
fn difference(results: &[Tensor], expected: &[Tensor]) -> Option<String> {
    if results.len() != expected.len() {
        return Some(format!("{} tensors, not {}", results.len(), expected.len()));
    }
    results.iter().zip(expected).enumerate().find_map(|(number, (result, expected))| {
        let comparison = compare(result, expected, 1e-5, 1e-5);
        (!comparison.passed()).then(|| format!("result {number}: {comparison}"))
    })
}

/// Whether a sample says something, or what is wrong with it.
type Said = Result<bool, String>;

/// A sample in machine code.
fn wrong_in_machine_code(sample: &GraphSample) -> Said {
    wrong_without(sample, &[])
}

/// The same for sums taken as they are written.
fn wrong_in_direct_sums(sample: &GraphSample) -> Said {
    wrong_without(sample, &["winograd"])
}

fn wrong_without(sample: &GraphSample, disabled: &[&str]) -> Said {
    let expected = evaluated(sample)?;
    let mut of_targets = Vec::new();
    for target in ["x86-64-v3", "x86-64-v4"] {
        let Some(results) = on_target(sample, target, disabled)? else { continue };
        if let Some(found) = difference(&results, &expected) {
            return Err(format!("{target}: {found}"));
        }
        of_targets.push(results);
    }
    if let [first, second] = &of_targets[..] {
        let same = first.iter().zip(second).all(|(first, second)| first.bytes() == second.bytes());
        return if same { Ok(true) } else { Err("the targets' bits differ".to_owned()) };
    }
    Ok(!of_targets.is_empty())
}

/// What results say that are there.
fn compared(sample: &GraphSample, results: Option<Vec<Tensor>>) -> Said {
    let Some(results) = results else { return Ok(false) };
    difference(&results, &evaluated(sample)?).map_or(Ok(true), Err)
}

/// A sample in code for many extents, beside code for those at hand.
fn wrong_with_free_extents(sample: &GraphSample) -> Said {
    let expected = evaluated(sample)?;
    let mut says = false;
    for target in ["x86-64-v3", "x86-64-v4"] {
        let options = rounded_as_written().with_symbolic_extents();
        let Some(results) = with_options(sample, target, options)? else { continue };
        if let Some(found) = difference(&results, &expected) {
            return Err(format!("{target}: {found}"));
        }
        says = true;
    }
    Ok(says)
}

fn wrong_without_optimisation(sample: &GraphSample) -> Said {
    compared(sample, on_target(sample, "x86-64-v3", &tilewright::optimisations())?)
}

fn wrong_in_c(sample: &GraphSample) -> Said {
    let options = Options {
        target: TargetChoice::Named("c99".to_owned()),
        threads: Some(1),
        ..rounded_as_written()
    };
    let inputs: Vec<Value> = sample.inputs.iter().cloned().map(Value::from).collect();
    let source = Source::Module(Arc::new(sample.module()));
    let run = || Ok(Value::tensors_of(&inspect::run_as_c(&source, &options, &inputs)?));
    compared(sample, outcome(run)?)
}

/// Fails with the smallest sample for which a check does.
fn check(sample: &GraphSample, wrong: fn(&GraphSample) -> Said) -> Result<bool, TestCaseError> {
    if let Ok(has_said) = wrong(sample) {
        return Ok(has_said);
    }
    let reduced = reduce(sample, &mut |sample| wrong(sample).is_err());
    let reason = wrong(&reduced).err().unwrap_or_default();
    Err(TestCaseError::fail(format!("{reason}\n{}\n{:?}", reduced.function, reduced.inputs)))
}

/// A convolution alone: a channel of the result for each of the image or of all of them, windows,
/// steps, frames and sizes as they come.
fn convolution(
    is_depthwise: bool,
    [channels, height, width]: [i64; 3],
    [taps, step, dilation]: [i64; 3],
    frame: [i64; 4],
    columns: i64,
) -> Option<GraphSample> {
    let span = dilation * (taps - 1) + 1;
    let padded = [height + frame[0] + frame[1], width + frame[2] + frame[3]];
    if padded.iter().any(|extent| *extent < span) {
        return None;
    }
    let [y, x] = padded.map(|extent| (extent - span) / step + 1);
    let results = if is_depthwise { channels } else { columns };
    let (filter, depth, read, weight) = match is_depthwise {
        true => (format!("{channels}, {taps}, {taps}"), String::new(), "a1", "a1, r0, r1"),
        false => {
            let filter = format!("{columns}, {channels}, {taps}, {taps}");
            (filter, format!(", r2: {channels}"), "r2", "a1, r2, r0, r1")
        }
    };
    let text = format!(
        "function @convolution {{
           parameter %x: f32[1, {channels}, {height}, {width}] as \"x\"
           %w: f32[{filter}] = weight @c0 %b: f32[{results}] = weight @c1
           %f: f32[] = literal {{0}}
           %p: f32[1, {channels}, {}, {}] = pad low [0, 0, {}, {}] high [0, 0, {}, {}]
             interior [0, 0, 0, 0] %x, %f
           %y: f32[1, {results}, {y}, {x}] =
             contract [a0: 1, a1: {results}, a2: {y}, a3: {x} | r0: {taps}, r1: {taps}{depth}]
             %p[a0, {read}, {step}*a2 + {dilation}*r0, {step}*a3 + {dilation}*r1], %w[{weight}]
             accumulate f32
           %c: f32[1, {results}, {y}, {x}] = broadcast axes [1] %b
           %z: f32[1, {results}, {y}, {x}] = map add %y, %c
           return %z as \"z\" }}",
        padded[0], padded[1], frame[0], frame[2], frame[1], frame[3]
    );
    let function = graph::parse(&text).unwrap_or_else(|error| panic!("{text}\n{error}"));
    let random = |shape: &[i64], seed| {
        let shape: Vec<usize> = shape.iter().map(|extent| *extent as usize).collect();
        tensor::random::random(DType::F32, &shape, seed)
    };
    let filter = match is_depthwise {
        true => vec![channels, taps, taps],
        false => vec![columns, channels, taps, taps],
    };
    let constants = vec![random(&filter, 1), random(&[results], 2)];
    let inputs = vec![random(&[1, channels, height, width], 3)];
    Some(GraphSample { function, constants, inputs })
}

fn runs_here() -> bool {
    let runs = std::arch::is_x86_feature_detected!("avx2");
    if !runs {
        eprintln!("skipped: this machine cannot run the JIT's code");
    }
    runs
}

/// Of each test; `reduce` makes samples small, so that they do not shrink besides.
fn config(cases: u32) -> ProptestConfig {
    let cases = match std::env::var("PROPTEST_CASES") {
        Ok(text) => text.parse().expect("a number of cases"),
        Err(_) => cases,
    };
    ProptestConfig { cases, max_shrink_iters: 0, ..ProptestConfig::default() }
}

/// So many of the samples are compared: those whose scalar functions are there for their types.
const LEAST_SHARE: f64 = 0.8;

#[test]
fn machine_code() {
    if runs_here() {
        let samples = graph_samples(OPTIONS);
        counted(config(40), LEAST_SHARE, samples, |it| check(&it, wrong_in_machine_code));
    }
}

#[test]
fn free_extents_in_machine_code() {
    if runs_here() {
        let samples = graph_samples(OPTIONS);
        counted(config(40), LEAST_SHARE, samples, |it| check(&it, wrong_with_free_extents));
    }
}

#[test]
fn convolutions_in_machine_code() {
    if !runs_here() {
        return;
    }
    let extents = [1i64..40, 1i64..40, 1i64..80];
    let windows = [1i64..6, 1i64..4, 1i64..3];
    let frame = [0i64..3, 0i64..3, 0i64..4, 0i64..4];
    let cases = (any::<bool>(), extents, windows, frame, 1i64..80);
    // Some images are smaller than the window.
    counted(config(40), 0.6, cases, |(is_depthwise, extents, windows, frame, columns)| {
        match convolution(is_depthwise, extents, windows, frame, columns) {
            Some(sample) => check(&sample, wrong_in_direct_sums),
            None => Ok(false),
        }
    });
}

#[test]
fn machine_code_without_optimisation() {
    if runs_here() {
        let samples = graph_samples(OPTIONS);
        counted(config(16), LEAST_SHARE, samples, |it| check(&it, wrong_without_optimisation));
    }
}

#[test]
fn sources_in_c() {
    let samples = graph_samples(OPTIONS);
    if has_c_compiler() {
        counted(config(8), LEAST_SHARE, samples, |it| check(&it, wrong_in_c));
    }
}
