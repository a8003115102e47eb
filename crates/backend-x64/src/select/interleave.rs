//! The instructions of neighbouring vectors in turn.
//!
//! Each statement of a `Vector` loop's body is selected for one vector after the other. What a long
//! expression takes for one vector is a chain in which each instruction waits for the one before; a
//! processor looks ahead, but not as far as several such chains. So the chains of a few vectors are
//! put side by side: the first instruction of each, then the second of each.
//!
//! Relies on what a `Vector` loop promises: a statement's loads for all vectors may come before its
//! stores. The turns of a loop that is written out, each of which computes a vector, are put side
//! by side in the same way where they do not load what they store.

use std::collections::VecDeque;

use base::SecondaryMap;
use loops::Stmt;

use super::build::Builder;
use crate::vcode::{Base, BlockId, Inst, VRegId};

/// Instructions of a vector from which on its chain is worth it.
const LONG: usize = 12;

/// Vectors side by side.
pub(super) const VECTORS: usize = 4;

/// Whether a body computes one value and stores it, so that nothing but operands gives its
/// instructions an order.
pub(super) fn is_one_store(body: &[Stmt]) -> bool {
    let Some((Stmt::Store { .. }, before)) = body.split_last() else { return false };
    before.iter().all(|stmt| matches!(stmt, Stmt::Let { .. } | Stmt::Prefetch { .. }))
}

impl Builder {
    /// Where the next instruction goes.
    pub(super) fn position(&self) -> (BlockId, usize) {
        let block = self.current();
        (block, self.function.blocks[block].insts.len())
    }

    /// Puts the instructions that begin at these positions, the last part reaching to the end of
    /// the current block, side by side; not where a branch lies in between.
    pub(super) fn interleave(&mut self, positions: &[(BlockId, usize)]) {
        let block = self.current();
        if positions.iter().any(|(own, _)| *own != block) {
            return;
        }
        let starts: Vec<usize> = positions.iter().map(|(_, start)| *start).collect();
        let insts = &mut self.function.blocks[block].insts;
        let Some(&first) = starts.first() else { return };
        let ends = starts.iter().skip(1).copied().chain([insts.len()]);
        let long = |(start, end): (&usize, usize)| *start + LONG <= end;
        // The frame's area is shared.
        let through_frame =
            |inst: &Inst| inst.address.is_some_and(|address| matches!(address.base, Base::Frame));
        if starts.len() < 2
            || !starts.iter().zip(ends).all(long)
            || insts[first..].iter().any(through_frame)
        {
            return;
        }
        let mut parts: Vec<VecDeque<Inst>> = Vec::new();
        for start in starts.iter().rev() {
            parts.insert(0, insts.drain(start..).collect());
        }
        let mut waiting: SecondaryMap<VRegId, bool> = SecondaryMap::new();
        for inst in parts.iter().flatten() {
            inst.result.iter().chain(&inst.lost).for_each(|value| waiting[*value] = true);
        }
        while parts.iter().any(|part| !part.is_empty()) {
            for part in &mut parts {
                let ready = part.front().is_some_and(|inst| {
                    let mut ready = true;
                    inst.each_use(|value| ready &= !waiting[value]);
                    ready
                });
                if let Some(inst) = part.pop_front_if(|_| ready) {
                    inst.result.iter().chain(&inst.lost).for_each(|value| waiting[*value] = false);
                    insts.push(inst);
                }
            }
        }
    }
}
