//! Random functions before and after each pass.

mod common;

use base::{Id, PassContext};
use common::Keeps;
use proptest::prelude::*;
use testkit::{GraphOptions, graph_samples};
use tilewright_graph_opt::{apply_rule, cut, laws, passes};

const OPTIONS: GraphOptions = GraphOptions {
    nodes: 24,
    symbolic: true,
    control_flow: true,
    few_bits: false,
    sizes: true,
    lists: false,
};

fn data(sample: &testkit::GraphSample) -> common::Data {
    let constants = sample.constants.iter().cloned().enumerate();
    let constants = constants.map(|(number, tensor)| (base::ConstantId::new(number), tensor));
    common::Data { inputs: sample.inputs.clone(), constants: constants.collect() }
}

fn failed(reason: String) -> TestCaseError {
    TestCaseError::fail(reason)
}

proptest! {
    #![proptest_config(ProptestConfig {
        ..ProptestConfig::with_cases(150)
    })]

    /// Passes keep what they say they keep; the text prints and parses; what
    /// has been done is not done again.
    #[test]
    fn passes_keep_the_function(sample in graph_samples(OPTIONS)) {
        let data = data(&sample);
        let mut function = std::sync::Arc::new(sample.function.clone());
        for row in passes() {
            let before = function.clone();
            (row.run)(&mut function, &mut PassContext::default())
                .map_err(|error| failed(error.to_string()))?;
            graph::verify(&function).map_err(|found| failed(found.to_string()))?;
            Keeps::of(row.name)
                .check_on(&data, &before, &function)
                .map_err(|reason| failed(format!("{}:\n{before}\n{reason}", row.name)))?;
            let text = function.to_string();
            let again = graph::parse(&text).map_err(|error| failed(error.to_string()))?;
            prop_assert_eq!(again.to_string(), text.clone());
            let mut twice = function.clone();
            (row.run)(&mut twice, &mut PassContext::default())
                .map_err(|error| failed(error.to_string()))?;
            prop_assert_eq!(twice.to_string(), text, "{} twice", row.name);
        }
    }

    #[test]
    fn rules_keep_the_function(sample in graph_samples(OPTIONS)) {
        let data = data(&sample);
        let expected = data.run(&sample.function, &[]).map_err(failed)?;
        for (name, _) in laws() {
            let (after, _) = apply_rule(&sample.function, name).map_err(failed)?;
            graph::verify(&after).map_err(|found| failed(found.to_string()))?;
            let found = data.run(&after, &[]).map_err(failed)?;
            prop_assert!(common::same_bits(&expected, &found), "{name}:\n{after}");
        }
    }

    #[test]
    fn halves_make_the_whole(sample in graph_samples(OPTIONS)) {
        let data = data(&sample);
        let halves = cut(sample.function.clone());
        let setup = common::Data { inputs: Vec::new(), constants: data.constants.clone() };
        let constants = setup.run(&halves.setup, &[]).map_err(failed)?;
        let expected = data.run(&sample.function, &[]).map_err(failed)?;
        let found = data.run(&halves.main, &constants).map_err(failed)?;
        prop_assert!(common::same_bits(&expected, &found));
    }

    #[test]
    fn plans_compute_what_functions_do(sample in graph_samples(OPTIONS)) {
        let data = data(&sample);
        let function = std::sync::Arc::new(sample.function.clone());
        let (plan, called) = common::plan(&function, &data.constants).map_err(failed)?;
        let expected = data.run(&function, &[]).map_err(failed)?;
        let found = data.run_plan(&plan, &called).map_err(failed)?;
        prop_assert!(common::same_bits(&expected, &found), "{function}\n{plan}");
    }
}
