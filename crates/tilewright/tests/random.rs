//! Random graph functions through the whole compile, for each target that this machine runs and as
//! C, beside the evaluator. A function that fails is reduced to what it takes to fail.

use std::panic::{AssertUnwindSafe, catch_unwind};

use base::{ConstantId, Diagnostics, Id};
use eval::Precision;
use proptest::prelude::*;
use tensor::{Tensor, compare};
use testkit::{GraphOptions, GraphSample, graph_samples, has_c_compiler, reduce};
use tilewright::{Options, TargetChoice};

const OPTIONS: GraphOptions =
    GraphOptions { nodes: 16, symbolic: true, control_flow: true, few_bits: true };

/// What one way of computing gives; none where it lacks a function of the sample, or the machine
/// lacks the target.
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

fn on_target(sample: &GraphSample, target: &str, is_optimised: bool) -> Outcome {
    let target = TargetChoice::Named(target.to_owned());
    let mut options = Options { target, threads: Some(2), ..Options::default() };
    if !is_optimised {
        options.disabled.extend(tilewright::optimisations().into_iter().map(str::to_owned));
    }
    outcome(|| tilewright::compile_module(sample.module(), &options)?.run(&sample.inputs))
}

fn evaluated(sample: &GraphSample) -> Result<Vec<Tensor>, String> {
    let constants = |id: ConstantId| sample.constants[id.index()].clone();
    let inputs = &sample.inputs;
    eval::graph::evaluate(&sample.function, &constants, inputs, Precision::Declared)
        .map_err(|fault| fault.to_string())
}

/// What is wrong with results, if something is.
fn difference(results: &[Tensor], expected: &[Tensor]) -> Option<String> {
    results.iter().zip(expected).enumerate().find_map(|(number, (result, expected))| {
        let comparison = compare(result, expected, 1e-5, 1e-5);
        (!comparison.passed()).then(|| format!("result {number}: {comparison}"))
    })
}

/// What is wrong with a sample in machine code, if something is.
fn wrong_in_machine_code(sample: &GraphSample) -> Result<(), String> {
    let expected = evaluated(sample)?;
    let mut of_targets = Vec::new();
    for target in ["x86-64-v3", "x86-64-v4"] {
        let Some(results) = on_target(sample, target, true)? else { continue };
        if let Some(found) = difference(&results, &expected) {
            return Err(format!("{target}: {found}"));
        }
        of_targets.push(results);
    }
    if let [first, second] = &of_targets[..] {
        let same = first.iter().zip(second).all(|(first, second)| first.bytes() == second.bytes());
        return if same { Ok(()) } else { Err("the targets' bits differ".to_owned()) };
    }
    Ok(())
}

fn wrong_without_optimisation(sample: &GraphSample) -> Result<(), String> {
    match on_target(sample, "x86-64-v3", false)? {
        Some(results) => difference(&results, &evaluated(sample)?).map_or(Ok(()), Err),
        None => Ok(()),
    }
}

fn wrong_in_c(sample: &GraphSample) -> Result<(), String> {
    let options = Options {
        target: TargetChoice::Named("c99".to_owned()),
        threads: Some(1),
        ..Options::default()
    };
    let run = || tilewright::run_module_as_c(sample.module(), &options, &sample.inputs);
    match outcome(run)? {
        Some(results) => difference(&results, &evaluated(sample)?).map_or(Ok(()), Err),
        None => Ok(()),
    }
}

/// Fails with the smallest sample for which a check does.
fn check(
    sample: &GraphSample,
    wrong: fn(&GraphSample) -> Result<(), String>,
) -> Result<(), TestCaseError> {
    if wrong(sample).is_ok() {
        return Ok(());
    }
    let reduced = reduce(sample, &mut |sample| wrong(sample).is_err());
    let reason = wrong(&reduced).err().unwrap_or_default();
    Err(TestCaseError::fail(format!("{reason}\n{}\n{:?}", reduced.function, reduced.inputs)))
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
    ProptestConfig {
        cases,
        failure_persistence: None,
        max_shrink_iters: 0,
        ..ProptestConfig::default()
    }
}

proptest! {
    #![proptest_config(config(40))]

    #[test]
    fn machine_code(sample in graph_samples(OPTIONS)) {
        if runs_here() {
            check(&sample, wrong_in_machine_code)?;
        }
    }
}

proptest! {
    #![proptest_config(config(16))]

    #[test]
    fn machine_code_without_optimisation(sample in graph_samples(OPTIONS)) {
        if runs_here() {
            check(&sample, wrong_without_optimisation)?;
        }
    }
}

proptest! {
    #![proptest_config(config(8))]

    #[test]
    fn sources_in_c(sample in graph_samples(OPTIONS)) {
        if has_c_compiler() {
            check(&sample, wrong_in_c)?;
        }
    }
}
