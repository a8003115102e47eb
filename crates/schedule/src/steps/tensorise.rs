//! Tensorise: a loop is to be run as an instruction that is described as loops.
//!
//! ```text
//! for j < 16 vector {
//!   for e < 2 unroll { %acc[j] += cast<f32>(%a[2 * k + 1 - e]) * cast<f32>(%b[k, j, 1 - e]) }
//! }
//! ```
//!
//! `tensorise e with dot_bf16_2`
//!
//! ```text
//! for j < 16 vector {
//!   for e < 2 as dot_bf16_2 {
//!     %acc[j] += cast<f32>(%a[2 * k + 1 - e]) * cast<f32>(%b[k, j, 1 - e])
//!   }
//! }
//! ```
//!
//! Legal: the loop is to be written out, and it does to elements of its own what the loop of the
//! instruction's description does, up to the order of factors and, where the sums are of integers,
//! of terms. A vector loop around it says what a lane is: from each to the next an operand's
//! elements are the same, or those that lie behind them. What one iteration after the other
//! computes stays what is computed.

use backend::Instruction;
use loops::{LoopKind, Stmt};

use crate::error::{Outcome, Refusal};
use crate::nest::{block, find_loop, loop_at, loop_at_mut};
use crate::state::State;

pub(crate) fn apply(state: &mut State, target: &str, instruction: &str) -> Outcome {
    let kernel = &state.kernel;
    let site = find_loop(kernel, target)?;
    let found = loop_at(kernel, &site);
    let refuse = |message: String| Err(Refusal::at_loop(target, message));
    let Some(row) = Instruction::named(instruction) else {
        let names: Vec<&str> = Instruction::all().iter().map(Instruction::name).collect();
        let known = names.join(", ");
        return refuse(format!("no instruction is called `{instruction}`; there are {known}"));
    };
    if found.kind != LoopKind::Unroll {
        return refuse("only a loop that is to be written out can be an instruction".into());
    }
    let around = site.block.iter().enumerate().rev();
    let mut around =
        around.map(|(depth, descent)| &block(kernel, &site.block[..depth])[descent.stmt]);
    let lanes = around.find_map(|stmt| match stmt {
        Stmt::For(outer) if outer.kind == LoopKind::Vector => Some(outer.variable),
        _ => None,
    });
    let Some(lanes) = lanes else {
        return refuse("an instruction runs in lanes, and no vector loop is around".into());
    };
    if let Err(reason) = row.find_in(kernel, found, lanes) {
        return refuse(reason);
    }
    loop_at_mut(&mut state.kernel, &site).kind = LoopKind::Instruction(instruction.into());
    Ok(())
}
