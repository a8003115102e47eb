//! Properties of random graph functions: they verify, print and parse, and run.

use base::Id;
use eval::EvaluationPrecision;
use proptest::prelude::*;
use testkit::{GraphOptions, GraphSample, counted, graph_samples};

const OPTIONS: GraphOptions = GraphOptions {
    nodes: 24,
    symbolic: true,
    control_flow: true,
    few_bits: false,
    sizes: true,
    lists: false,
};

fn evaluate(sample: &GraphSample, precision: EvaluationPrecision) -> Vec<tensor::Tensor> {
    let constant = |id: base::ConstantId| sample.constants[id.index()].clone();
    match eval::graph::evaluate(&sample.function, &constant, &sample.inputs, precision) {
        Ok(results) => results,
        Err(fault) => panic!("{fault}\n{}", sample.function),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn verify_and_print(sample in graph_samples(OPTIONS)) {
        if let Err(found) = graph::verify(&sample.function) {
            panic!("{found}");
        }
        let text = sample.function.to_string();
        let again = graph::parse(&text).map_err(|error| TestCaseError::fail(error.to_string()))?;
        prop_assert_eq!(&again.to_string(), &text);
        prop_assert!(graph::verify(&again).is_ok());
    }

    #[test]
    fn reconstruction_keeps_the_function(sample in graph_samples(OPTIONS)) {
        let rebuilt = graph::rebuild(&sample.function, |_, _| Ok(None)).expect("well-typed");
        prop_assert_eq!(rebuilt.to_string(), sample.function.to_string());
    }
}

/// So many functions give in their own types what they give in f64. Others have a step where a
/// rounding decides: a floor, a comparison, a difference of two numbers of bf16.
const LEAST_SHARE: f64 = 0.95;

#[test]
fn run() {
    let config = ProptestConfig::with_cases(200);
    counted(config, LEAST_SHARE, graph_samples(OPTIONS), |sample| {
        let declared = evaluate(&sample, EvaluationPrecision::Declared);
        let exact = evaluate(&sample, EvaluationPrecision::F64);
        let mut is_close = true;
        for (declared, exact) in declared.iter().zip(&exact) {
            prop_assert!(!exact.to_f64_vec().iter().any(|it| it.is_nan()), "{:?}", sample);
            // What a short float cannot hold is infinite there.
            let exact = exact.cast(declared.dtype()).to_f64_vec();
            is_close &= declared
                .to_f64_vec()
                .iter()
                .zip(exact)
                .all(|(a, b)| *a == b || (a - b).abs() <= 0.1 * b.abs().max(1.0));
        }
        Ok(is_close)
    });
}
