//! Text tests of lowering, each compared with the graph's evaluator, and random functions.

mod common;

use std::collections::BTreeMap;
use std::sync::Arc;

use backend::Target;
use base::Id;
use filetest::Command;
use graph::{Function, FunctionBuilder, TensorType, Type};
use lower::{LowerOptions, Lowered, Role};
use module::Module;
use proptest::prelude::*;
use strategies::StrategyOptions;
use sym::SymbolId;
use tensor::{DType, Reduction, ScalarFunction, Tensor, compare};
use testkit::{GraphOptions, GraphSample, counted, graph_samples};

const COMMANDS: &[(&str, Command)] = &[
    ("groups", groups),
    ("kernels", kernels),
    ("program", program),
    ("setup", setup),
    ("refuse", refuse),
];

#[test]
fn texts() {
    filetest::run(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/texts"), COMMANDS);
}

/// A function with its weights and inputs, lowered, run and compared with the evaluator.
struct Case {
    module: Module,
    lowered: Lowered,
}

fn lower_as(
    module: &mut Module,
    role: Role,
    symbols: &BTreeMap<SymbolId, i64>,
) -> base::Result<Lowered> {
    let function = base::FunctionId::new(0);
    let target = Target::named("x86-64-v4").expect("a target");
    let options =
        LowerOptions { strategies: StrategyOptions { plain: true }, ..LowerOptions::new(role) };
    lower::lower(module, function, symbols, &target, &options)
}

fn case(text: &str) -> Result<Case, String> {
    let function = graph::parse(text).map_err(|error| error.to_string())?;
    graph::verify(&function).map_err(|error| error.to_string())?;
    let sample = GraphSample { inputs: inputs(&function), constants: weights(&function), function };
    check(&sample, Way::Plain)
}

/// Random inputs; integers are 0 or 1.
fn inputs(function: &Function) -> Vec<Tensor> {
    let types = function.parameters().iter().map(|&value| function.ty(value).as_tensor());
    types.enumerate().map(|(seed, ty)| random(ty.expect("a tensor"), seed)).collect()
}

fn random(ty: &graph::TensorType, seed: usize) -> Tensor {
    let shape: Vec<usize> =
        ty.shape.iter().map(|extent| extent.as_constant().expect("constant") as usize).collect();
    tensor::random::random(ty.dtype, &shape, seed as u64)
}

fn weights(function: &Function) -> Vec<Tensor> {
    let mut weights = BTreeMap::new();
    for (_, node) in function.nodes.iter() {
        if let graph::Op::Weight { constant, result } = &node.op {
            weights.insert(constant.index(), random(result, 100 + constant.index()));
        }
    }
    let count = weights.keys().last().map_or(0, |last| last + 1);
    let none = || Tensor::zeros(DType::F32, &[0]);
    (0..count).map(|index| weights.get(&index).cloned().unwrap_or_else(none)).collect()
}

/// How a function is lowered.
#[derive(Clone, Copy, Debug)]
enum Way {
    Plain,
    Scheduled,
    /// All kernels of several nodes are tried apart, too.
    Doubting,
}

fn check(sample: &GraphSample, way: Way) -> Result<Case, String> {
    let (case, results) = run(sample, way)?;
    let constants = |id: base::ConstantId| sample.constants[id.index()].clone();
    let precision = eval::EvaluationPrecision::Declared;
    let expected = eval::graph::evaluate(&sample.function, &constants, &sample.inputs, precision);
    let expected = expected.map_err(|fault| fault.to_string())?;
    for (number, (result, expected)) in results.iter().zip(&expected).enumerate() {
        let comparison = compare(result, expected, 1e-5, 1e-5);
        if !comparison.passed() {
            return Err(format!("result {number} differs: {comparison:?}"));
        }
    }
    Ok(case)
}

/// The function lowered for two threads, and its results.
fn run(sample: &GraphSample, way: Way) -> Result<(Case, Vec<Tensor>), String> {
    let mut module = sample.module();
    let role = Role::Main { inputs: sample.inputs.len(), constants: Vec::new() };
    let symbols = common::symbols(&sample.function, &sample.inputs);
    let target = Target::named("x86-64-v4").expect("a target");
    let options = LowerOptions {
        strategies: StrategyOptions { plain: matches!(way, Way::Plain) },
        doubts_fusion: matches!(way, Way::Doubting),
        threads: 2,
        ..LowerOptions::new(role)
    };
    let function = base::FunctionId::new(0);
    let lowered = lower::lower(&mut module, function, &symbols, &target, &options)
        .map_err(|error| error.to_string())?;
    let (arena, live) = (lowered.arena_bytes, lowered.largest_live_set);
    // Of small arenas a single unit, to which slots are aligned, is more than a twentieth.
    if arena * 20 > live * 21 && arena > live + 64 {
        return Err(format!("the arena is {arena} bytes, the largest live set {live}"));
    }
    for info in &lowered.kernels {
        // Steps that are replayed make the kernel that runs, but for what it is called.
        let stages = info.scheduling().map_err(|error| error.to_string())?;
        let (_, last) = stages.into_iter().next_back().ok_or("a kernel without a beginning")?;
        let kernel = &module.kernels[info.kernel];
        let (name, origin) = (kernel.name.clone(), kernel.origin.clone());
        if (loops::Kernel { name, origin, ..last }) != *kernel {
            return Err(format!("`{}` is not what its steps make", info.name));
        }
    }
    let results = common::run(&module, &lowered, &sample.inputs, &mut Vec::new())?;
    Ok((Case { module, lowered }, results))
}

/// `groups`: what was fused and what not, by kernel.
fn groups(text: &str, _: &[&str]) -> Result<String, String> {
    let case = case(text)?;
    let mut lines = Vec::new();
    for kernel in &case.lowered.kernels {
        lines.push(format!("{}: {}", kernel.name, kernel.nodes.join(", ")));
        lines.extend(kernel.fused.iter().map(|reason| format!("  + {reason}")));
        lines.extend(kernel.not_fused.iter().map(|reason| format!("  - {reason}")));
    }
    Ok(lines.join("\n"))
}

/// `kernels`: the naive kernels.
fn kernels(text: &str, _: &[&str]) -> Result<String, String> {
    let case = case(text)?;
    let kernels = case.lowered.kernels.iter().map(|kernel| kernel.naive.kernel.to_string());
    Ok(kernels.collect::<Vec<_>>().join(""))
}

/// `program`: the program with its memory plan.
fn program(text: &str, _: &[&str]) -> Result<String, String> {
    let case = case(text)?;
    let Lowered { program, arena_bytes, largest_live_set, .. } = case.lowered;
    let text = case.module.programs[program].to_string();
    Ok(format!("{text}// arena {arena_bytes}, largest live set {largest_live_set}\n"))
}

/// `setup`: the program of a function that fills the block of constants.
fn setup(text: &str, _: &[&str]) -> Result<String, String> {
    let function = graph::parse(text).map_err(|error| error.to_string())?;
    graph::verify(&function).map_err(|error| error.to_string())?;
    let sample = GraphSample { inputs: Vec::new(), constants: weights(&function), function };
    let mut module = sample.module();
    let lowered =
        lower_as(&mut module, Role::Setup, &BTreeMap::new()).map_err(|error| error.to_string())?;
    let mut block = Vec::new();
    common::run(&module, &lowered, &[], &mut block)?;
    let constants = |id: base::ConstantId| sample.constants[id.index()].clone();
    let precision = eval::EvaluationPrecision::Declared;
    let expected = eval::graph::evaluate(&sample.function, &constants, &[], precision);
    for (expected, offset) in
        expected.map_err(|fault| fault.to_string())?.iter().zip(&lowered.constants.offsets)
    {
        let expected = expected.bytes();
        if block[*offset as usize..][..expected.len()] != *expected {
            return Err(format!("the constant at {offset} differs"));
        }
    }
    Ok(module.programs[lowered.program].to_string())
}

/// `refuse NAME=N...`: the diagnostics of what cannot be lowered for these values of symbols.
fn refuse(text: &str, arguments: &[&str]) -> Result<String, String> {
    let function = graph::parse(text).map_err(|error| error.to_string())?;
    let mut symbols = BTreeMap::new();
    for (name, value) in arguments.iter().filter_map(|argument| argument.split_once('=')) {
        let symbol = function.symbol(name).ok_or_else(|| format!("no symbol `{name}`"))?;
        symbols.insert(symbol, value.parse().map_err(|_| format!("no number: {value}"))?);
    }
    let mut module = Module::default();
    let inputs = function.parameters().len();
    module.functions.push(Arc::new(function));
    match lower_as(&mut module, Role::Main { inputs, constants: Vec::new() }, &symbols) {
        Ok(_) => Err("lowered".to_owned()),
        Err(error) => Ok(error.to_string()),
    }
}

const OPTIONS: GraphOptions = GraphOptions {
    nodes: 12,
    symbolic: true,
    control_flow: true,
    few_bits: false,
    sizes: false,
    lists: false,
};

/// Of random functions so many have only scalar functions that are there for their types.
const LEAST_SHARE: f64 = 0.95;

/// Random functions compute what the evaluator says, with a plan that its checker accepts.
#[test]
fn random_functions() {
    let config = ProptestConfig { cases: cases(), ..Default::default() };
    counted(config, LEAST_SHARE, graph_samples(OPTIONS), |sample| {
        for way in [Way::Plain, Way::Scheduled] {
            match check(&sample, way) {
                // Not every function is there for every type.
                Err(message) if message.contains("has no expansion") => return Ok(false),
                Err(message) => panic!("{message}\n{}", sample.function),
                Ok(_) => {}
            }
        }
        // Where values live changes no bits.
        let [together, apart] = [Way::Scheduled, Way::Doubting].map(|way| {
            let (_, results) = run(&sample, way).unwrap_or_else(|error| panic!("{error}"));
            results.iter().map(|result| result.bytes().to_vec()).collect::<Vec<_>>()
        });
        assert_eq!(together, apart, "{}", sample.function);
        Ok(true)
    });
}

/// A matrix as it lies in a file times vectors, and what follows.
fn products_of_vectors(dtype: &str, vectors: i64, rows: i64, terms: i64) -> Function {
    let text = format!(
        "function @main {{ parameter %x: {dtype}[{vectors}, {terms}] as \"x\"
           %w: {dtype}[{rows}, {terms}] = weight @c0  %b: {dtype}[{rows}] = weight @c1
           %p: {dtype}[{vectors}, {rows}] =
             contract [i: {vectors}, j: {rows} | k: {terms}] %x[i, k], %w[j, k] accumulate {dtype}
           %added: {dtype}[{vectors}, {rows}] = broadcast axes [1] %b
           %s: {dtype}[{vectors}, {rows}] = map add %p, %added
           %y: {dtype}[{vectors}, {rows}] = map abs %s
           return %y as \"y\" }}"
    );
    graph::parse(&text).unwrap_or_else(|error| panic!("{text}\n{error}"))
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 40, ..Default::default()
    })]

    /// Sums along memory are taken several at once, wherever they end; those of 16 terms are one
    /// block.
    #[test]
    fn several_sums_at_once(
        dtype in prop::sample::select(vec!["f32", "f64"]),
        (vectors, rows, terms) in (1i64..4, 5i64..40, 17i64..600)
    ) {
        let function = products_of_vectors(dtype, vectors, rows, terms);
        let sample = GraphSample {
            inputs: inputs(&function), constants: weights(&function), function
        };
        let [(_, plain), (case, results)] = [Way::Plain, Way::Scheduled]
            .map(|way| run(&sample, way).unwrap_or_else(|error| panic!("{error}")));
        let mut elements = results[0].scalars().zip(plain[0].scalars());
        prop_assert!(elements.all(|(a, b)| a.bits() == b.bits()), "{:?}\n{:?}", results, plain);
        let remarks = case.lowered.kernels.iter().flat_map(|kernel| kernel.scheduled.iter());
        let taken = remarks.clone().any(|remark| remark.starts_with("dots:"));
        // One at a time is no better than row by row.
        let come_several = (2..=4).any(|count| rows % count == 0);
        prop_assert!(taken || !come_several, "{:?}", remarks.collect::<Vec<_>>());
    }
}

/// A few hundred nodes over matrices of 6 x 6, each reading what came shortly before.
fn large_function(seed: u64) -> Result<Function, String> {
    let mut builder = FunctionBuilder::new("large");
    let ty = TensorType { dtype: DType::F32, shape: vec![6.into(), 6.into()].into() };
    let mut values = vec![builder.parameter("x", Type::Tensor(ty))];
    let mut state = seed;
    let mut draw = |most: usize| {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 33) as usize % most
    };
    for _ in 0..150 {
        let a = values[values.len() - 1];
        let b = values[values.len() - 1 - draw(values.len().min(8))];
        values.push(match draw(7) {
            0 | 1 => {
                let sum = builder.map(ScalarFunction::Add, &[a, b])?;
                builder.map(ScalarFunction::Tanh, &[sum])?
            }
            2 => builder.map(ScalarFunction::Mul, &[a, b])?,
            3 => builder.map(ScalarFunction::Max, &[a, b])?,
            4 => builder.transpose(a, &[1, 0])?,
            5 => {
                let other = builder.reshape(a, &[4.into(), 9.into()])?;
                let other = builder.map(ScalarFunction::Neg, &[other])?;
                builder.reshape(other, &[6.into(), 6.into()])?
            }
            _ => {
                let most = builder.reduce_axes(a, &[1], Reduction::Max, DType::F32, true)?;
                builder.map_broadcast(ScalarFunction::Sub, &[b, most])?
            }
        });
    }
    let last = values[values.len() - 1];
    Ok(builder.finish(vec![("y".to_owned(), last)]))
}

/// Functions too large for one kernel become several, and compute the same.
#[test]
fn large_functions() -> Result<(), String> {
    for seed in 0..4 {
        let function = large_function(seed)?;
        let inputs = inputs(&function);
        for way in [Way::Plain, Way::Scheduled] {
            let sample = GraphSample {
                function: function.clone(),
                inputs: inputs.clone(),
                constants: vec![],
            };
            let case = check(&sample, way)?;
            assert!(case.lowered.kernels.len() > 2, "{} kernels", case.lowered.kernels.len());
        }
    }
    Ok(())
}

/// About a second's worth; more with `LOWER_CASES`.
fn cases() -> u32 {
    std::env::var("LOWER_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(150)
}

/// What a short value is made of is looked at once, however many ways lead there.
#[test]
fn a_short_value_behind_many_ways() -> Result<(), String> {
    let sum = "contract [a0: 8, a1: 8 | r0: 8] %x[a0, r0], %y[r0, a1] accumulate f32";
    let mut text = format!(
        "function @f {{ parameter %x: f32[8, 8] as \"x\" parameter %y: f32[8, 8] as \"y\"
         %c: f32[8, 8] = {sum} %v0: f32[8, 8] = map exp %c"
    );
    for step in 0..40 {
        text += &format!("\n%v{}: f32[8, 8] = map add %v{step}, %v{step}", step + 1);
    }
    text += "\n%q: u8[8, 8] = map cast %v40 %d: f32[8, 8] = map cast %q
         %e: f32[8, 8] = contract [a0: 8, a1: 8 | r0: 8] %y[a0, r0], %x[r0, a1] accumulate f32
         %r: f32[8, 8] = map add %d, %e return %r as \"r\" }";
    let found = groups(&text, &[])?;
    // The earlier of the two sums is stored as the bytes that it becomes.
    assert!(found.contains("map v44 follows the sum in its kernel"), "{found}");
    Ok(())
}
