//! A block of constants that a program fills part by part, in one piece of memory that the
//! processor's caches keep: each part is handed over before the next one takes its place.

use std::ops::Range;

use crate::memory::Block;
use crate::resolve::{Instruction, Owner, Resolved};

/// Instructions, and bytes of the block that no others touch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) instructions: Range<usize>,
    pub(crate) bytes: Range<usize>,
}

impl Resolved {
    /// Parts of about so many bytes at most that make up the block. What instructions touch that
    /// cannot be told apart is one part, all of the block where there are loops or branches.
    pub(crate) fn constant_parts(&self, most: usize) -> Vec<Part> {
        let (count, total) = (self.instructions.len(), self.port_bytes(Owner::Constants));
        let mut parts = Vec::new();
        let (mut first, mut start) = (0, 0);
        let mut last = None;
        for (cut, place) in self.cuts(total).into_iter().chain([(count, total)]) {
            if place - start > most
                && let Some((cut, place)) = last.take_if(|(_, place)| *place > start)
            {
                parts.push(Part { instructions: first..cut, bytes: start..place });
                (first, start) = (cut, place);
            }
            last = Some((cut, place));
        }
        parts.push(Part { instructions: first..count, bytes: start..total });
        parts
    }

    /// Instructions, each with the byte of the block that divides what instructions ahead of it
    /// touch from what it and those behind it touch.
    fn cuts(&self, total: usize) -> Vec<(usize, usize)> {
        let count = self.instructions.len();
        if !self.instructions.iter().all(Instruction::goes_on) {
            return Vec::new();
        }
        let (mut ends, mut starts) = (vec![0; count + 1], vec![total; count + 1]);
        for &(instruction, slot) in &self.constant_uses {
            let (start, bytes) = (self.slots[slot].offset, self.slots[slot].bytes);
            ends[instruction + 1] = ends[instruction + 1].max(start + bytes);
            starts[instruction] = starts[instruction].min(start);
        }
        for number in 1..=count {
            ends[number] = ends[number].max(ends[number - 1]);
            let behind = count - number;
            starts[behind] = starts[behind].min(starts[behind + 1]);
        }
        let is_cut =
            |&cut: &usize| ends[cut] <= starts[cut] && self.beside.binary_search(&cut).is_err();
        (1..count).filter(is_cut).map(|cut| (cut, starts[cut])).collect()
    }
}

/// Memory for the largest of some parts, zeros so far.
pub(crate) fn memory_for(parts: &[Part]) -> base::Result<Block> {
    let mut memory = Block::zeroed(parts.iter().map(|part| part.bytes.len()).max().unwrap_or(0))?;
    // A part is filled from its beginning to its end, and would wait for page after page.
    memory.populate([]);
    Ok(memory)
}
