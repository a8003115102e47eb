//! Properties of random graph functions: they verify, print and parse, and run.

use base::Id;
use eval::EvaluationPrecision;
use proptest::prelude::*;
use testkit::{GraphOptions, GraphSample, graph_samples};

const OPTIONS: GraphOptions =
    GraphOptions { nodes: 24, symbolic: true, control_flow: true, few_bits: false, sizes: true };

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

    #[test]
    fn run(sample in graph_samples(OPTIONS)) {
        let declared = evaluate(&sample, EvaluationPrecision::Declared);
        let exact = evaluate(&sample, EvaluationPrecision::F64);
        for (declared, exact) in declared.iter().zip(&exact) {
            let close = declared.to_f64_vec().iter().zip(exact.to_f64_vec()).all(|(a, b)| {
                !b.is_nan() && (a - b).abs() <= 0.1 * b.abs().max(1.0)
            });
            prop_assert!(close, "{:?} {:?}\n{}", declared, exact, sample.function);
        }
    }
}
