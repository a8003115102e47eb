//! Random graph functions through the whole compile, for each target that this machine runs, beside
//! the evaluator. A function that fails shrinks to fewer nodes.

use base::{ConstantId, Id};
use eval::Precision;
use proptest::prelude::*;
use tensor::{Tensor, compare};
use testkit::{GraphOptions, GraphSample, graph_samples};
use tilewright::{Options, TargetChoice};

const OPTIONS: GraphOptions = GraphOptions { nodes: 16, symbolic: true, control_flow: true };

/// What a target makes of a sample; none where it lacks a function of the sample, or the machine
/// lacks the target.
fn run(sample: &GraphSample, target: &str) -> Option<Vec<Tensor>> {
    let target = TargetChoice::Named(target.to_owned());
    let options = Options { target, threads: Some(2), ..Options::default() };
    let results = tilewright::compile_module(sample.module(), &options)
        .and_then(|executable| executable.run(&sample.inputs));
    match results {
        Ok(results) => Some(results),
        Err(found) if found.to_string().contains("TW0402") => None,
        Err(found) if found.to_string().contains("has no expansion") => None,
        Err(found) => panic!("{found}\n{}", sample.function),
    }
}

fn cases() -> u32 {
    match std::env::var("PROPTEST_CASES") {
        Ok(text) => text.parse().expect("a number of cases"),
        Err(_) => 40,
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: cases(),
        failure_persistence: None,
        ..Default::default()
    })]

    #[test]
    fn random_functions(sample in graph_samples(OPTIONS)) {
        if !std::arch::is_x86_feature_detected!("avx2") {
            eprintln!("skipped: this machine cannot run the JIT's code");
            return Ok(());
        }
        let constants = |id: ConstantId| sample.constants[id.index()].clone();
        let expected = eval::graph::evaluate(
            &sample.function,
            &constants,
            &sample.inputs,
            Precision::Declared,
        );
        let expected = match expected {
            Ok(expected) => expected,
            Err(fault) => panic!("{fault}\n{}", sample.function),
        };
        let of_targets = ["x86-64-v3", "x86-64-v4"].map(|target| run(&sample, target));
        for results in of_targets.iter().flatten() {
            for (number, (result, expected)) in results.iter().zip(&expected).enumerate() {
                let comparison = compare(result, expected, 1e-5, 1e-5);
                prop_assert!(
                    comparison.passed(),
                    "result {number}: {comparison}\n{}",
                    sample.function
                );
            }
        }
        if let [Some(first), Some(second)] = &of_targets {
            for (first, second) in first.iter().zip(second) {
                prop_assert!(first.bytes() == second.bytes(), "{}", sample.function);
            }
        }
    }
}
