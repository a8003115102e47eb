//! Flatten: two adjacent axes of a buffer become one.
//!
//! ```text
//! %a: scratch f32[8, 4]
//! %a[f div 4, f mod 4] = ...
//! ```
//!
//! `flatten a axis 0`
//!
//! ```text
//! %a: scratch f32[32]
//! %a[f] = ...
//! ```
//!
//! Legal: the two axes are dense (a step along the first is as many elements as the second has),
//! and the second is not the axis that a fold reads as a whole. Elements stay where they are.

use loops::visit::{Effect, references};
use loops::{BufferId, Kernel, substitute};

use crate::error::{Outcome, Refusal};
use crate::nest::find_buffer;
use crate::state::State;

pub(crate) fn apply(state: &mut State, buffer: &str, axis: usize) -> Outcome {
    let kernel = &mut state.kernel;
    let id = find_buffer(kernel, buffer)?;
    check(kernel, id, buffer, axis)?;
    let columns = kernel.buffers[id].shape[axis + 1].clone();
    let merge = |index: &[sym::Expr]| {
        let mut index = index.to_vec();
        if axis + 1 < index.len() {
            let column = index.remove(axis + 1);
            index[axis] = &index[axis] * &columns + &column;
        }
        index
    };
    substitute::redirect(&mut kernel.body, id, id, merge);
    let flat = &mut kernel.buffers[id];
    flat.shape[axis] = &flat.shape[axis] * &columns;
    flat.shape.remove(axis + 1);
    if let Some(strides) = &mut flat.strides {
        strides.remove(axis);
    }
    Ok(())
}

fn check(kernel: &Kernel, id: BufferId, name: &str, axis: usize) -> Outcome {
    let buffer = &kernel.buffers[id];
    if axis + 1 >= buffer.shape.len() {
        let message = format!("there are no axes {axis} and {} to merge", axis + 1);
        return Err(Refusal::at_buffer(name, message));
    }
    if let Some(strides) = &buffer.strides
        && strides[axis] != &strides[axis + 1] * &buffer.shape[axis + 1]
    {
        let message = format!("axes {axis} and {} are not dense", axis + 1);
        return Err(Refusal::at_buffer(name, message));
    }
    let folds = |effect| matches!(effect, Effect::Fold(_));
    let folded = references(&kernel.body).iter().any(|r| r.buffer == id && folds(r.effect));
    if folded && axis + 2 == buffer.shape.len() {
        return Err(Refusal::at_buffer(name, "a fold reads its last axis as a whole"));
    }
    Ok(())
}
