//! Transposes move through what does not care, to where they cancel.
//!
//! before: `y = transpose (contract a), z = relu y, contract (transpose z)`
//! after:  `y = contract a, z = relu y, contract z`
//!
//! Instead of moving transposes one by one, the pass chooses in which order of axes, its *frame*,
//! each value is kept (`frames`), makes every node anew in the frame of its result (`transfer`),
//! and leaves it to the rules to join what transposes are left. Reductions and contractions read
//! any frame, though one in which terms lie far apart costs a contraction as much; the result of a
//! reduction follows its operand, that of a contraction keeps its last axis last, which formats
//! have chosen, or has another last along which an operand lies in one piece.
//!
//! The result is kept only if that costs fewer elements at run time than before, and then the
//! pass starts again, so it never adds work, ends, and does nothing the second time. Run after
//! simplification and CSE.

mod frames;
mod transfer;

use std::sync::Arc;

use base::{PassContext, Result};
use graph::{Built, Function, NodeId, Op, Rewriter, ValueId, rebuild};

use crate::maker::{Made, Maker, Session};
use crate::{cse, ill_typed, permutation, rules};
use frames::Frames;

/// Moves transposes; see the head of the file.
pub(crate) fn run(function: &mut Arc<Function>, context: &mut PassContext) -> Result<()> {
    // What moved may tie values in another way, so there may be more to gain.
    loop {
        let mut frames = Frames::new(function);
        let before = frames.total();
        if before == 0 {
            return Ok(());
        }
        frames.choose();
        if frames.is_empty() {
            return Ok(());
        }
        let mut moved = in_frames(function, &frames, context)?;
        cse::merge(&mut moved);
        if Frames::new(&moved).total() >= before {
            return Ok(());
        }
        *function = Arc::new(moved);
    }
}

/// The function with every value in its frame.
fn in_frames(function: &Function, frames: &Frames<'_>, context: &PassContext) -> Result<Function> {
    let rules = rules::enabled(context);
    let mut session = Session::new(&rules, true);
    let moved = rebuild(function, |rewriter, id| {
        if !rewriter.source.nodes[id].regions.is_empty() {
            return Ok(None);
        }
        let made = make_in_frame(frames, &mut session, rewriter, id)?;
        Ok(made.map(|value| vec![value]))
    });
    moved.map_err(|reason| ill_typed("transpose_motion", reason))
}

/// Makes a node in the frame of its result; none if it stays as it is. Outside, every value stands
/// in its original order, behind a transpose that meets its opposite where the reader has the same
/// frame.
fn make_in_frame(
    frames: &Frames<'_>,
    session: &mut Session<'_>,
    rewriter: &mut Rewriter<'_>,
    id: NodeId,
) -> Built<Option<ValueId>> {
    let node = &rewriter.source.nodes[id];
    let operands = rewriter.operands(id);
    let mut maker = session.maker(rewriter, node.location);
    let (&[result], true) = (&node.results[..], transfer::is_movable(&node.op)) else {
        return maker.simpler(&node.op, &operands);
    };
    let frame = frames.of(result);
    let made = match &node.op {
        // A reduction is written anew in its operand's frame even if its result stays.
        Op::Reduce { .. } => {
            let source = frames.of(node.operands[0]);
            let op = transfer::read_in_frame(&transfer::in_frame(&node.op, &frame), &source);
            let operand = maker.transpose(operands[0], &source)?;
            maker.one(&op, &[operand])?
        }
        _ if frame.is_sorted() => return maker.simpler(&node.op, &operands),
        op => uniform_or_reshaped(&mut maker, op, &operands, &frame)?,
    };
    maker.transpose(made, &permutation::inverse(&frame)).map(Some)
}

/// The result, in a frame, of any movable primitive but a reduction.
fn uniform_or_reshaped(
    maker: &mut Maker<'_, '_>,
    op: &Op,
    operands: &[ValueId],
    frame: &[usize],
) -> Made {
    match op {
        Op::Contract { .. } => maker.one(&transfer::in_frame(op, frame), operands),
        Op::Reshape { shape } => {
            let source = transfer::through_reshape(shape, &maker.shape(operands[0])?, frame);
            let Some(source) = source else {
                let made = maker.one(op, operands)?;
                return maker.transpose(made, frame);
            };
            let operand = maker.transpose(operands[0], &source)?;
            maker.reshape(operand, permutation::apply(frame, shape))
        }
        Op::Broadcast { shape, axes } => {
            let source = transfer::through_broadcast(axes, frame);
            let operand = maker.transpose(operands[0], &source)?;
            let position = permutation::inverse(frame);
            let axes: Vec<usize> = source.iter().map(|&axis| position[axes[axis]]).collect();
            maker.broadcast(operand, permutation::apply(frame, shape), &axes)
        }
        _ => {
            let mut moved = Vec::new();
            for &operand in operands {
                let alike = maker.shape(operand)?.len() == frame.len();
                moved.push(if alike { maker.transpose(operand, frame)? } else { operand });
            }
            maker.one(&transfer::in_frame(op, frame), &moved)
        }
    }
}
