//! Chains of maps on short floats are computed in f32 and rounded where they end.
//!
//! before: `a = div(x, c)`, `b = erf(a)`, `y = mul(x, b)`, all of f16
//! after:  `a = div(f32(x), f32(c))`, `b = erf(a)`, `y = f16(mul(f32(x), b))`
//!
//! A map on short floats means: compute in f32, then round. The rounding between two maps is left
//! out where nothing but maps of the same type reads the value. So a function that an exporter has
//! spelled out is rounded once, as PyTorch rounds the function itself and as ONNX Runtime computes
//! the chain. Conversions that the model asks for stay, and what has steps (`floor`, comparisons)
//! sees rounded values: there the last bit decides. This changes bits, so it follows from the graph
//! alone, not from what is fused.

use std::sync::Arc;

use base::{PassContext, Result, SecondaryMap};
use graph::{Built, Function, Node, NodeId, Op, Rewriter, User, ValueId, rebuild};
use tensor::{DType, ScalarFunction};

use crate::ill_typed;

/// Leaves out roundings between maps.
pub(crate) fn run(function: &mut Arc<Function>, _: &mut PassContext) -> Result<()> {
    if !function.nodes.values().any(|node| short_map(node).is_some()) {
        return Ok(());
    }
    let wide = wide_values(function);
    let widened = rebuild(function, |rewriter, id| {
        let node = &rewriter.source.nodes[id];
        let touches = |values: &[ValueId]| values.iter().any(|&value| wide[value]);
        match node.op {
            Op::Map { function, dtype } if touches(&node.operands) || touches(&node.results) => {
                let ends = !touches(&node.results);
                widened(rewriter, id, function, ends.then_some(dtype)).map(Some)
            }
            _ => Ok(None),
        }
    });
    *function = Arc::new(widened.map_err(|reason| ill_typed("excess_precision", reason))?);
    Ok(())
}

/// The short type that a node computes in as a map of numbers without steps.
fn short_map(node: &Node) -> Option<DType> {
    use ScalarFunction::{Bitcast, Cast, Ceil, Floor, Mod, Rem, Round, Sign, Trunc};
    let Op::Map { function, dtype } = node.op else { return None };
    let converts = matches!(function, Cast | Bitcast);
    let has_steps = matches!(function, Floor | Ceil | Round | Trunc | Sign | Rem | Mod);
    let is_short = matches!(dtype, DType::F16 | DType::BF16);
    (is_short && !converts && !has_steps).then_some(dtype)
}

/// The results of maps of short floats that only such maps read.
fn wide_values(function: &Function) -> SecondaryMap<ValueId, bool> {
    let users = function.users();
    let mut wide = SecondaryMap::new();
    for node in function.nodes.values() {
        let (Some(dtype), &[result]) = (short_map(node), &node.results[..]) else { continue };
        let in_chain = |user: &User| match *user {
            User::Result(..) => false,
            User::Operand(reader, _) => short_map(&function.nodes[reader]) == Some(dtype),
        };
        wide[result] = !users[result].is_empty() && users[result].iter().all(in_chain);
    }
    wide
}

/// A map in f32, rounded to a type where the chain ends.
fn widened(
    rewriter: &mut Rewriter<'_>,
    id: NodeId,
    function: ScalarFunction,
    rounded: Option<DType>,
) -> Built<Vec<ValueId>> {
    let mut operands = rewriter.operands(id);
    let builder = &mut rewriter.builder;
    for operand in &mut operands {
        if builder.dtype(*operand)?.is_float() {
            *operand = builder.cast(*operand, DType::F32)?;
        }
    }
    let result = builder.map(function, &operands)?;
    Ok(vec![match rounded {
        Some(dtype) => builder.cast(result, dtype)?,
        None => result,
    }])
}
