//! The table of passes: as text over whole functions, and on long and wide functions.

use std::sync::Arc;

use base::{ConstantId, Id, PassContext, run_passes};
use graph::{Function, FunctionBuilder, Op, TensorType, Type, ValueId};
use tensor::{DType, ScalarFunction};
use tilewright_graph_opt::passes;

fn optimised(function: Function) -> Function {
    let mut function = Arc::new(function);
    run_passes(passes(), &mut function, &mut PassContext::default(), &mut ()).expect("well-typed");
    graph::verify(&function).expect("well-formed");
    Arc::unwrap_or_clone(function)
}

fn transposes(function: &Function) -> usize {
    let is_transpose = |op: &Op| matches!(op, Op::Transpose { .. });
    function.nodes.values().filter(|node| is_transpose(&node.op)).count()
}

fn start(name: &str) -> (FunctionBuilder, TensorType, ValueId) {
    let mut builder = FunctionBuilder::new(name);
    let ty = TensorType { dtype: DType::F32, shape: vec![2.into(), 3.into(), 4.into()].into() };
    let x = builder.parameter("x", Type::Tensor(ty.clone()));
    (builder, ty, x)
}

/// Ten thousand steps, every fourth a transpose, weights between: one component, done in one go.
#[test]
fn a_long_chain() -> Result<(), String> {
    let (mut builder, _, mut value) = start("chain");
    for number in 0..10_000 {
        value = match number % 4 {
            0 => builder.map(ScalarFunction::Tanh, &[value])?,
            1 => {
                let shape = builder.shape(value)?;
                let ty = TensorType { dtype: DType::F32, shape };
                let weight = builder.weight(ConstantId::new(number), ty)?;
                builder.map(ScalarFunction::Add, &[value, weight])?
            }
            2 => builder.transpose(value, &[0, 2, 1])?,
            _ => {
                let factor = builder.scalar(DType::F32, 0.75);
                builder.map_broadcast(ScalarFunction::Mul, &[value, factor])?
            }
        };
    }
    let function = builder.finish(vec![("y".to_owned(), value)]);
    let function = optimised(function);
    let constants = function.constant_values();
    let runtime = |node: &graph::Node| {
        matches!(node.op, Op::Transpose { .. }) && !constants.contains(node.results[0])
    };
    assert_eq!(function.nodes.values().filter(|node| runtime(node)).count(), 0);
    Ok(())
}

/// Two thousand readers of one transposed value, their sum transposed back.
#[test]
fn a_wide_fan() -> Result<(), String> {
    let (mut builder, _, x) = start("fan");
    let transposed = builder.transpose(x, &[0, 2, 1])?;
    let mut sum = transposed;
    for number in 0..2_000 {
        let factor = builder.scalar(DType::F32, f64::from(number) * 0.5);
        let part = builder.map_broadcast(ScalarFunction::Mul, &[transposed, factor])?;
        sum = builder.map(ScalarFunction::Add, &[sum, part])?;
    }
    let back = builder.transpose(sum, &[0, 2, 1])?;
    let function = builder.finish(vec![("y".to_owned(), back)]);
    let function = optimised(function);
    assert_eq!(transposes(&function), 0);
    Ok(())
}

/// Behind itself thirty times: flattened it would have a billion operands.
#[test]
fn a_doubling_concatenation() -> Result<(), String> {
    let (mut builder, _, mut value) = start("doubling");
    for _ in 0..30 {
        value = builder.add(Op::Concat { axis: 0 }, &[value, value])?[0];
    }
    let function = builder.finish(vec![("y".to_owned(), value)]);
    let function = optimised(function);
    let operands: usize = function.nodes.values().map(|node| node.operands.len()).sum();
    assert!(operands <= 30 * 1024, "{operands} operands");
    Ok(())
}
