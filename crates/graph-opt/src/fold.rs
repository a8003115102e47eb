//! Folding: nodes whose operands are all literals become literals.
//!
//! before: `neg {1, 2}`
//! after:  `{-1, -2}`
//!
//! Values are those of the evaluator, so folding has no arithmetic of its own. Only results of at
//! most [`LARGEST`] elements are folded: anything larger is cheaper as the node that makes it, and
//! a `Broadcast` stays one unless its result has a single element. So do integers that are kept
//! short, of which there are more than [`FEW`].

use base::ConstantId;
use eval::EvaluationPrecision;
use graph::{FunctionBuilder, Op, TensorType, Type, ValueId, element_count};
use tensor::{DType, ScalarFunction, Tensor};

/// The most elements of a folded result, and of the literals it comes from.
pub(crate) const LARGEST: usize = 64;

/// The most integers of 32 bits that are folded to ones of 64 bits: indices are of so many, and
/// vectors hold twice as many of the short ones (file `short_indices`).
pub(crate) const FEW: usize = 8;

/// The value of a node, if it has one result that folds.
pub(crate) fn value(builder: &FunctionBuilder, op: &Op, operands: &[ValueId]) -> Option<Tensor> {
    let function = builder.function();
    let literal = |&value: &ValueId| function.literal(value).filter(|value| is_small(value));
    if operands.is_empty() || literal(&operands[0]).is_none() || !is_foldable(op) {
        return None;
    }
    let literals: Vec<&Tensor> = operands.iter().map(literal).collect::<Option<_>>()?;
    let types: Vec<&Type> = operands.iter().map(|&value| function.ty(value)).collect();
    let results = graph::infer(op, &types).ok()?;
    let [Type::Tensor(result)] = &results[..] else { return None };
    let largest = match op {
        Op::Broadcast { .. } => 1,
        Op::Map { function: ScalarFunction::Cast, dtype: DType::I64 }
            if literals[0].dtype() == DType::I32 =>
        {
            FEW
        }
        _ => LARGEST,
    };
    if !result_is_small(result, largest) {
        return None;
    }
    let mut node = FunctionBuilder::new("fold");
    let operands: Vec<ValueId> =
        literals.into_iter().map(|literal| node.literal(literal.clone())).collect();
    let value = node.add(op.clone(), &operands).ok()?[0];
    let node = node.finish(vec![("value".to_owned(), value)]);
    let no_weights = |_: ConstantId| Tensor::zeros(result.dtype, &[0]);
    // What faults (an index out of range) is left to do so at run time.
    let values =
        eval::graph::evaluate(&node, &no_weights, &[], EvaluationPrecision::Declared).ok()?;
    let mut value = values.into_iter().next()?;
    if base::fault::is_seeded("graph-opt.fold") && value.dtype().is_float() {
        value.set_scalar(0, tensor::Scalar::from_f64(value.dtype(), 7.0));
    }
    Some(value)
}

/// Whether the value of a node follows from its operands' alone, and it has some.
fn is_foldable(op: &Op) -> bool {
    op.is_pure() && op.operand_count() != Some(0) && op.has_constant_exprs()
}

fn is_small(literal: &Tensor) -> bool {
    literal.len() <= LARGEST
}

fn result_is_small(result: &TensorType, largest: usize) -> bool {
    element_count(&result.shape).as_constant().is_some_and(|count| count <= largest as i64)
}
