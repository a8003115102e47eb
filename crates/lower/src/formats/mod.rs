//! Format choice, graph to graph: how the operands of contractions lie in memory.
//!
//! Every contraction is rewritten so that one axis, the vector axis, is contiguous in its result
//! and in the operand that carries it. What that takes is written as ordinary `Transpose`,
//! `Reshape` and `Pad` nodes around the contraction: those before a weight fold into `setup`, those
//! between contractions are moved and cancelled by `graph-opt`.
//!
//! Where it pays, windowed contractions become transforms and a product of fewer multiplications
//! (`winograd`).
//!
//! Invariants: but for that, each reduced axis stays where it is in the order of its sum, so the
//! function computes the same bits; weights are read by type only; choices depend on structure and
//! the target row, never on what an operator was called. Relies on `graph::rebuild`.

mod channels_last;
mod contraction;
mod merge;
mod pairs;
mod panels;
mod winograd;

use std::collections::BTreeSet;

use backend::Target;
use base::{Diagnostic, Diagnostics, codes};
use graph::{
    Built, Function, FunctionBuilder, IterationSpace, NodeId, Op, Rewriter, ValueId, rebuild,
};
use tensor::DType;

use crate::remark::Remark;
use contraction::Contraction;

/// What may be asked of format choice.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FormatOptions {
    /// When to use minimal filtering.
    pub winograd: Winograd,
}

/// When windowed contractions become transforms and a product.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Winograd {
    /// Where it should be faster.
    #[default]
    WherePredicted,
    /// Never: every bit stays.
    Never,
    /// Wherever it is possible: for tests.
    Always,
}

/// Chooses the formats of all contractions of a function for a target; what was done to each, and
/// why not more, goes to the remarks.
///
/// # Errors
/// An internal error if a rewritten node is ill-typed.
pub fn choose(
    function: Function,
    target: &Target,
    options: &FormatOptions,
    remarks: &mut Vec<Remark>,
) -> base::Result<Function> {
    let constants = function.constant_values();
    let windows = channels_last::has_windows(&function);
    let apart = channels_last::contractions_apart(&function, &constants);
    let result = rebuild(&function, |rewriter, node| {
        let (constants, apart) = (&constants, &apart);
        let chooser = Chooser { target, options, constants, windows, apart, remarks };
        chooser.node(rewriter, node)
    });
    result.map_err(|reason| {
        let message = format!("format choice made an ill-typed node: {reason}");
        Diagnostics::from(Diagnostic::error(codes::INTERNAL_ERROR, message))
    })
}

/// Whether a contraction of f32 should be faster by minimal filtering than directly on operands of
/// half the size, of which a machine multiplies twice as many: both predictions, for a reader.
pub(crate) fn filtering_beats_short(
    space: &IterationSpace,
    operands: [(ValueId, bool); 2],
    builder: &FunctionBuilder,
    target: &Target,
) -> Built<Option<String>> {
    let contraction = Contraction::new(space, operands, DType::F32, DType::F32);
    winograd::beats_short(&contraction, builder, target)
}

/// What the choice for one node reads and reports to.
struct Chooser<'a> {
    target: &'a Target,
    options: &'a FormatOptions,
    constants: &'a BTreeSet<ValueId>,
    /// Whether a contraction of the function reads windows, so that channels last pays.
    windows: bool,
    /// Contractions between which and the function's parameters and results there is no other.
    apart: &'a BTreeSet<NodeId>,
    remarks: &'a mut Vec<Remark>,
}

impl Chooser<'_> {
    fn node(self, rewriter: &mut Rewriter<'_>, id: NodeId) -> Built<Option<Vec<ValueId>>> {
        let source = rewriter.source;
        let node = &source.nodes[id];
        let Op::Contract { space, accumulator, dtype } = &node.op else { return Ok(None) };
        if space.extents.iter().any(|extent| extent.is_zero()) {
            return Ok(None);
        }
        let operand = |number: usize| {
            let old = node.operands[number];
            (rewriter.get(old), self.constants.contains(&old))
        };
        let operands = [operand(0), operand(1)];
        let mut contraction = Contraction::new(space, operands, *accumulator, *dtype);
        let builder = &mut rewriter.builder;
        let mut messages = Vec::new();
        if self.windows && self.apart.contains(&id) && channels_last::is_depthwise(&contraction) {
            messages.push("channels stay: nothing around it would have them last".to_owned());
        } else if self.windows {
            channels_last::apply(&mut contraction, builder, &mut messages)?;
        }
        let filtered = match self.options.winograd {
            Winograd::Never => None,
            _ => winograd::apply(&contraction, builder, &self, &mut messages)?,
        };
        let value = match filtered {
            Some(value) => contraction.restored(builder, value)?,
            None => {
                merge::apply(&mut contraction, builder, &mut messages)?;
                panels::apply(&mut contraction, builder, self.target, &mut messages)?;
                pairs::apply(&mut contraction, builder, &mut messages)?;
                contraction.finish(builder)?
            }
        };
        let location = node.location;
        self.remarks.extend(messages.into_iter().map(|message| Remark { location, message }));
        Ok(Some(vec![value]))
    }
}
