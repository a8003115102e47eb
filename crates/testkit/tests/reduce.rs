//! Random functions that fail lose all that they fail without.

use graph::Op;
use tensor::ScalarFunction;
use testkit::{GraphOptions, GraphSample, random_graph, reduce};

fn has(sample: &GraphSample, wanted: fn(&Op) -> bool) -> bool {
    let function = &sample.function;
    let nodes = &function.regions[function.body].nodes;
    nodes.iter().any(|&node| wanted(&function.nodes[node].op))
}

/// Reduces the samples of some seeds that hold a primitive; the number of nodes left of each.
fn left(wanted: fn(&Op) -> bool) -> Vec<usize> {
    let options = GraphOptions {
        nodes: 24,
        symbolic: true,
        control_flow: true,
        few_bits: false,
        sizes: false,
        lists: false,
    };
    let samples = (0..40).map(|seed| random_graph(seed, options));
    let failing: Vec<GraphSample> = samples.filter(|sample| has(sample, wanted)).collect();
    assert!(failing.len() > 3, "{} samples", failing.len());
    let count = |sample: &GraphSample| {
        let reduced = reduce(sample, &mut |sample| has(sample, wanted));
        assert!(has(&reduced, wanted));
        assert_eq!(reduced.inputs.len(), reduced.function.parameters().len());
        reduced.function.regions[reduced.function.body].nodes.len()
    };
    failing.iter().map(count).collect()
}

#[test]
fn one_node_that_fails_is_left_alone() {
    let counts = left(|op| matches!(op, Op::Map { function: ScalarFunction::Erf, .. }));
    assert!(counts.iter().all(|&count| count == 1), "{counts:?}");
}

#[test]
fn a_node_with_regions_is_left_alone() {
    let counts = left(|op| matches!(op, Op::Scan { .. }));
    // The value that the loop begins with may be a literal.
    assert!(counts.iter().all(|&count| count <= 3), "{counts:?}");
}
