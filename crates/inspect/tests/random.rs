//! Random graph functions through the whole compile, for each target that this machine runs and as
//! C, beside the evaluator. A function that fails is reduced to what it takes to fail.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use base::Diagnostics;
use inspect::LibraryChoice;
use proptest::prelude::*;
use tensor::{DType, Tensor, compare};
use testkit::{
    GraphOptions, GraphSample, blocked_samples, counted, graph_samples, has_c_compiler,
    quantised_samples, reduce,
};
use tilewright::compiled::Source;
use tilewright::{ArtifactOptions, Options, TargetChoice, Value};

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
    for target in ["x86-64-v3", "x86-64-v4", "x86-64-v4-bf16"] {
        let Some(results) = on_target(sample, target, disabled)? else { continue };
        if let Some(found) = difference(&results, &expected) {
            return Err(format!("{target}: {found}"));
        }
        of_targets.push(results);
    }
    let same = |first: &[Tensor], second: &[Tensor]| {
        first.iter().zip(second).all(|(first, second)| first.bytes() == second.bytes())
    };
    if of_targets.windows(2).any(|pair| !same(&pair[0], &pair[1])) {
        return Err("the targets' bits differ".to_owned());
    }
    let exact = expected.iter().all(|tensor| tensor.dtype().is_integer());
    if exact && of_targets.first().is_some_and(|first| !same(first, &expected)) {
        return Err("the integers differ".to_owned());
    }
    Ok(!of_targets.is_empty())
}

/// A sample with weights in blocks: targets that multiply bytes take floats as three each, and what
/// a product is off by the next may make more of, where its terms cancel: one of 768 results of a
/// hyperbolic tangent, beside others that are 1, was 0.8 % off, all together 1.1e-4.
fn wrong_in_blocks(sample: &GraphSample) -> Said {
    let expected = evaluated(sample)?;
    let mut says = false;
    for target in ["x86-64-v3", "x86-64-v4", "x86-64-v4-bf16"] {
        let Some(results) = on_target(sample, target, &[])? else { continue };
        for (result, expected) in results.iter().zip(&expected) {
            let comparison = compare(result, expected, 0.0, 0.0);
            if comparison.relative_l2 > 3e-4 {
                return Err(format!("{target}: {comparison}"));
            }
        }
        says = true;
    }
    Ok(says)
}

/// What results say that are there.
fn compared(sample: &GraphSample, results: Option<Vec<Tensor>>) -> Said {
    let Some(results) = results else { return Ok(false) };
    difference(&results, &evaluated(sample)?).map_or(Ok(true), Err)
}

/// A sample in code for many extents, which computes what code for those at hand does, bit by bit.
fn wrong_with_free_extents(sample: &GraphSample) -> Said {
    let expected = evaluated(sample)?;
    let mut says = false;
    for target in ["x86-64-v3", "x86-64-v4"] {
        let options = rounded_as_written().with_symbolic_extents();
        let Some(results) = with_options(sample, target, options)? else { continue };
        if let Some(found) = difference(&results, &expected) {
            return Err(format!("{target}: {found}"));
        }
        let fixed = with_options(sample, target, rounded_as_written())?.unwrap_or_default();
        let is_same = |(a, b): (&Tensor, &Tensor)| a.bytes() == b.bytes();
        if !results.iter().zip(&fixed).all(is_same) {
            return Err(format!("{target}: the bits are not those of code for these extents"));
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

/// A sample as a shared library, its extents known, then free: it computes what machine code in
/// process does, bit by bit where extents are known.
fn wrong_in_a_library(sample: &GraphSample) -> Said {
    let options = || Options {
        target: TargetChoice::Named("x86-64-v3".to_owned()),
        threads: Some(1),
        ..rounded_as_written()
    };
    let inputs: Vec<Value> = sample.inputs.iter().cloned().map(Value::from).collect();
    let source = Source::Module(Arc::new(sample.module()));
    let mut says = false;
    for number in 0..4 {
        let choice = LibraryChoice {
            artifact: ArtifactOptions {
                has_weights: number % 2 == 1,
                fold_setup: number == 1,
                ..ArtifactOptions::default()
            },
            has_free_extents: number > 1,
            workers: 1 + number % 3,
        };
        let run = || {
            let values = inspect::run_as_library(&source, &options(), &inputs, choice)?;
            Ok(Value::tensors_of(&values))
        };
        let results = outcome(run).map_err(|reason| format!("{choice:?}: {reason}"))?;
        let Some(results) = results else { continue };
        if !choice.has_free_extents
            && let Some(expected) = on_target(sample, "x86-64-v3", &[])?
        {
            let is_same = |(a, b): (&Tensor, &Tensor)| a.bytes() == b.bytes();
            if !results.iter().zip(&expected).all(is_same) {
                return Err(format!("{choice:?}: the bits are not those of code in process"));
            }
        }
        says |= compared(sample, Some(results)).map_err(|it| format!("{choice:?}: {it}"))?;
    }
    Ok(says)
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

/// What a convolution multiplies.
#[derive(Clone, Copy, Debug)]
enum Elements {
    Floats,
    /// Integers of 8 bits less a zero point: the image's, then the filter's.
    Bytes([(DType, i64); 2]),
}

impl Elements {
    /// The type of an operand, and of sums.
    fn dtypes(self, operand: usize) -> [DType; 2] {
        match self {
            Elements::Floats => [DType::F32; 2],
            Elements::Bytes(operands) => [operands[operand].0, DType::I32],
        }
    }

    /// The elements of an operand of this shape as what is multiplied.
    fn centred(self, operand: usize, [from, to]: [&str; 2], shape: &str) -> String {
        let Elements::Bytes(operands) = self else {
            return format!("%{to}: f32[{shape}] = map neg %{from}");
        };
        let (_, zero) = operands[operand];
        format!(
            "%{to}c: i32[{shape}] = map cast %{from} %{to}z: i32[] = literal {{{zero}}}
             %{to}b: i32[{shape}] = broadcast axes [] %{to}z
             %{to}: i32[{shape}] = map sub %{to}c, %{to}b"
        )
    }
}

/// A convolution alone: a channel of the result for each of the image or of all of them, windows,
/// steps, frames and sizes as they come.
fn convolution(
    elements: Elements,
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
    let image = format!("1, {channels}, {height}, {width}");
    let [image_type, sum] = elements.dtypes(0);
    let [filter_type, _] = elements.dtypes(1);
    let centred = elements.centred(0, ["q", "x"], &image);
    let weights = elements.centred(1, ["u", "w"], &filter);
    let text = format!(
        "function @convolution {{
           parameter %q: {image_type}[{image}] as \"q\"
           {centred}
           %u: {filter_type}[{filter}] = weight @c0 %b: {sum}[{results}] = weight @c1
           {weights}
           %f: {sum}[] = literal {{0}}
           %p: {sum}[1, {channels}, {}, {}] = pad low [0, 0, {}, {}] high [0, 0, {}, {}]
             interior [0, 0, 0, 0] %x, %f
           %y: {sum}[1, {results}, {y}, {x}] =
             contract [a0: 1, a1: {results}, a2: {y}, a3: {x} | r0: {taps}, r1: {taps}{depth}]
             %p[a0, {read}, {step}*a2 + {dilation}*r0, {step}*a3 + {dilation}*r1], %w[{weight}]
             accumulate {sum}
           %c: {sum}[1, {results}, {y}, {x}] = broadcast axes [1] %b
           %z: {sum}[1, {results}, {y}, {x}] = map add %y, %c
           return %z as \"z\" }}",
        padded[0], padded[1], frame[0], frame[2], frame[1], frame[3]
    );
    let function = graph::parse(&text).unwrap_or_else(|error| panic!("{text}\n{error}"));
    let random = |dtype: DType, shape: &[i64], seed| {
        let shape: Vec<usize> = shape.iter().map(|extent| *extent as usize).collect();
        tensor::random::random(dtype, &shape, seed)
    };
    let filter = match is_depthwise {
        true => vec![channels, taps, taps],
        false => vec![columns, channels, taps, taps],
    };
    let constants = vec![random(filter_type, &filter, 1), random(sum, &[results], 2)];
    let inputs = vec![random(image_type, &[1, channels, height, width], 3)];
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
fn shared_libraries() {
    if runs_here() {
        let samples = graph_samples(OPTIONS);
        counted(config(40), LEAST_SHARE, samples, |it| check(&it, wrong_in_a_library));
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
        match convolution(Elements::Floats, is_depthwise, extents, windows, frame, columns) {
            Some(sample) => check(&sample, wrong_in_direct_sums),
            None => Ok(false),
        }
    });
}

#[test]
fn convolutions_of_bytes_in_machine_code() {
    if !runs_here() {
        return;
    }
    let operand = || (any::<bool>(), any::<bool>(), 0i64..128);
    let elements = (operand(), operand()).prop_map(|(image, filter)| {
        Elements::Bytes([image, filter].map(|(is_signed, is_centred, zero)| {
            let dtype = if is_signed { DType::I8 } else { DType::U8 };
            (dtype, if is_centred { 0 } else { zero })
        }))
    });
    let extents = [1i64..70, 1i64..20, 1i64..40];
    let windows = [1i64..4, 1i64..3, 1i64..3];
    let frame = [0i64..3, 0i64..3, 0i64..4, 0i64..4];
    let cases = (elements, 0u32..8, extents, windows, frame, 1i64..80);
    counted(config(40), 0.6, cases, |(elements, kind, extents, windows, frame, columns)| {
        match convolution(elements, kind == 0, extents, windows, frame, columns) {
            Some(sample) => check(&sample, wrong_in_machine_code),
            None => Ok(false),
        }
    });
}

#[test]
fn quantised_models_in_machine_code() {
    if runs_here() {
        let samples = quantised_samples(12);
        counted(config(40), LEAST_SHARE, samples, |it| check(&it, wrong_in_direct_sums));
    }
}

#[test]
fn weights_in_blocks_in_machine_code() {
    if runs_here() {
        let samples = blocked_samples(3);
        counted(config(40), LEAST_SHARE, samples, |it| check(&it, wrong_in_blocks));
    }
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

#[test]
fn quantised_models_in_c() {
    if has_c_compiler() {
        counted(config(8), LEAST_SHARE, quantised_samples(8), |it| check(&it, wrong_in_c));
    }
}
