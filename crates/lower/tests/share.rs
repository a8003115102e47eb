//! Kernels that are given one piece of memory for two parameters, against the evaluator.
//!
//! `loops::may_share` says where that changes nothing. Here the two buffers become one in the
//! kernel itself, and the turns of its parallel loop run forwards and backwards.

use backend::Target;
use loops::visit::{walk_expressions_mut, walk_values_mut};
use loops::{Access, BufferId, Kernel, LoopKind, ScalarExpr, Scope, Stmt, may_share};
use lower::{LowerOptions, Role};
use module::Module;
use proptest::prelude::*;
use sym::Expr;
use tensor::Tensor;
use testkit::{GraphOptions, GraphSample, counted, graph_samples};

/// The kernel with what it reads from `read` read from `written`.
fn as_one(kernel: &Kernel, read: BufferId, written: BufferId) -> Kernel {
    let mut kernel = kernel.clone();
    kernel.buffers[written].scope = Scope::Parameter(Access::Update);
    walk_values_mut(&mut kernel.body, &mut |value| {
        if let ScalarExpr::Load { buffer, .. } = value
            && *buffer == read
        {
            *buffer = written;
        }
    });
    kernel
}

/// The kernel with the turns of its parallel loop in the opposite order.
fn backwards(kernel: &Kernel) -> Kernel {
    let mut kernel = kernel.clone();
    if let [Stmt::For(inner)] = &mut kernel.body[..]
        && inner.kind == LoopKind::Parallel
    {
        let (variable, last) = (inner.variable, inner.extent.clone() - 1);
        walk_expressions_mut(&mut inner.body, &mut |expr| {
            let turned = |symbol| (symbol == variable).then(|| &last - &Expr::symbol(variable));
            *expr = expr.substitute(&mut { turned });
        });
    }
    kernel
}

fn arguments(kernel: &Kernel) -> Vec<Tensor> {
    let parameters = kernel.parameters.iter().enumerate();
    let tensor = |(seed, id): (usize, &BufferId)| {
        let buffer = &kernel.buffers[*id];
        let constant = |expr: &Expr| expr.as_constant().unwrap_or(0).max(0) as usize;
        let shape: Vec<usize> = buffer.shape.iter().map(constant).collect();
        let count = match &buffer.strides {
            None => shape.iter().product(),
            Some(_) if shape.contains(&0) => 0,
            Some(strides) => {
                let last = shape.iter().zip(strides).map(|(n, step)| (n - 1) * constant(step));
                last.sum::<usize>() + 1
            }
        };
        tensor::random::random(buffer.dtype, &[count], seed as u64)
    };
    parameters.map(tensor).collect()
}

/// Runs a kernel on its random arguments, `from` in the place of `to` if both are one.
fn run(kernel: &Kernel, one: Option<(usize, usize)>) -> Option<Vec<Tensor>> {
    let mut tensors = arguments(kernel);
    if let Some((from, to)) = one {
        tensors[to] = tensors[from].clone();
    }
    let options = eval::loops::KernelOptions::default();
    eval::evaluate_kernel(kernel, &mut tensors, &[], options).ok()?;
    Some(tensors)
}

/// How many pairs of parameters a kernel shares; checks each.
fn check(kernel: &Kernel) -> usize {
    let mut shared = 0;
    for (to, &written) in kernel.parameters.iter().enumerate() {
        for (from, &read) in kernel.parameters.iter().enumerate() {
            let (one, other) = (&kernel.buffers[read], &kernel.buffers[written]);
            // The evaluator knows no two types of one memory, nor what lies between elements.
            let alike = one.shape == other.shape && one.strides.is_none();
            let alike = alike && other.strides.is_none() && one.dtype == other.dtype;
            if !alike || !may_share(kernel, read, written) {
                continue;
            }
            let Some(expected) = run(kernel, None) else { continue };
            shared += 1;
            for kernel in [kernel.clone(), backwards(kernel)] {
                let merged = as_one(&kernel, read, written);
                let results = run(&merged, Some((from, to))).expect("it ran before");
                for (at, id) in kernel.parameters.iter().enumerate() {
                    let is_result = kernel.buffers[*id].scope != Scope::Parameter(Access::Read);
                    let same = results[at].bytes() == expected[at].bytes();
                    assert!(!is_result || same, "{read} as {written} in\n{kernel}");
                }
            }
        }
    }
    shared
}

fn lowered(sample: &GraphSample) -> Option<Module> {
    let mut module = sample.module();
    let role = Role::Main { inputs: sample.inputs.len(), constants: Vec::new() };
    let options = LowerOptions::new(role);
    let target = Target::named("x86-64-v4").expect("a target");
    let function = base::Id::new(0);
    lower::lower(&mut module, function, &std::collections::BTreeMap::new(), &target, &options)
        .ok()?;
    Some(module)
}

const OPTIONS: GraphOptions = GraphOptions {
    nodes: 12,
    symbolic: false,
    control_flow: false,
    few_bits: false,
    sizes: false,
    lists: false,
};

/// Of random functions so many have kernels that share a pair of parameters.
const LEAST_SHARE: f64 = 0.6;

/// Whatever is fused, however it is scheduled.
#[test]
fn kernels_of_random_functions() {
    counted(ProptestConfig::with_cases(150), LEAST_SHARE, graph_samples(OPTIONS), |sample| {
        let lowered = lowered(&sample);
        let kernels = lowered.iter().flat_map(|module| module.kernels.values());
        Ok(kernels.map(check).sum::<usize>() > 0)
    });
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 150,
        ..Default::default()
    })]

    /// Odd places, conditions, data as indices.
    #[test]
    fn random_kernels(seed in any::<u64>()) {
        check(&testkit::random_kernel(seed, 2));
    }
}
