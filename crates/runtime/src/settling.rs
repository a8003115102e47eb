//! Blocks that many runs come by: constants, arenas.
//!
//! Behind some runs a large block is moved to huge pages ([`Block::collapse`]), beside the runs
//! that follow: who runs a program once does not wait for it, and who runs it often has the
//! addresses of its pages at hand.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::memory::Block;

/// Fewer bytes stay in caches from run to run.
const LARGE: usize = 4 << 20;

/// Runs behind which a block is worth moving.
const RUNS_BEFORE_MOVE: u32 = 8;

/// A block that moves to huge pages behind some runs.
#[derive(Debug)]
pub struct SettlingBlock {
    /// A thread that moves it has it, too.
    block: Arc<Block>,
    /// Runs that came by, as far as they are counted.
    runs: AtomicU32,
}

impl SettlingBlock {
    /// A block that no run has come by.
    #[must_use]
    pub fn new(block: Block) -> SettlingBlock {
        SettlingBlock { block: Arc::new(block), runs: AtomicU32::new(0) }
    }

    /// The block.
    #[must_use]
    pub fn block(&self) -> &Block {
        &self.block
    }

    /// The block by itself, if no thread is moving it.
    #[must_use]
    pub fn into_block(self) -> Option<Block> {
        Arc::try_unwrap(self.block).ok()
    }

    /// Counts a run; behind the last of those that are counted the block begins to move.
    pub fn count_run(&self) {
        let is_due = self.block.len() >= LARGE
            && self.runs.load(Ordering::Relaxed) <= RUNS_BEFORE_MOVE
            && self.runs.fetch_add(1, Ordering::Relaxed) == RUNS_BEFORE_MOVE;
        if is_due {
            let block = self.block.clone();
            let thread = std::thread::Builder::new().name("huge pages".to_owned());
            // Without a thread, or without huge pages, everything is as it was.
            _ = thread.spawn(move || block.collapse());
        }
    }

    /// Moves it now, unless that is done or begun.
    pub fn settle(&self) {
        let is_large = self.block.len() >= LARGE;
        if is_large && self.runs.swap(RUNS_BEFORE_MOVE + 1, Ordering::Relaxed) <= RUNS_BEFORE_MOVE {
            self.block.collapse();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_and_settling_leave_what_is_there() {
        for bytes in [5, LARGE, 2 * LARGE + 7] {
            let mut block = Block::zeroed(bytes).expect("memory");
            block.bytes_mut().fill(7);
            let block = SettlingBlock::new(block);
            for run in 0..2 * RUNS_BEFORE_MOVE {
                block.count_run();
                if run == RUNS_BEFORE_MOVE {
                    block.settle();
                }
                assert!(block.block().bytes().iter().all(|byte| *byte == 7));
            }
            block.settle();
            assert_eq!(block.block().len(), bytes);
        }
    }
}
