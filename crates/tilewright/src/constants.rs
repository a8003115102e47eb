//! The block of constants of a variant: what `setup` computes of the weights, or computed before
//! and mapped.
//!
//! `setup` runs on a thread of its own, beside what is compiled meanwhile; whoever reads the
//! constants waits for it. It holds its own code until then.

use std::sync::{Mutex, OnceLock, PoisonError};

use base::parallel::Beside;
use base::{Diagnostics, Result};
use bytes::Bytes;
use runtime::{Block, SettlingBlock};

/// Fewer bytes are computed sooner than a thread is started.
const FEW_CONSTANTS: usize = 1 << 20;

/// A block of constants.
pub(crate) enum Constants {
    /// Computed here.
    Computed(ComputedConstants),
    /// Computed before, and mapped.
    Mapped(Bytes),
}

/// Constants that are being computed, or have been.
pub(crate) struct ComputedConstants {
    /// The size of the block.
    bytes: usize,
    /// Where they are computed; none once it has been waited for.
    computing: Mutex<Option<Beside<Result<Block>>>>,
    /// The block, or why there is none.
    block: OnceLock<Result<SettlingBlock>>,
}

impl Constants {
    /// Those of a block.
    pub(crate) fn of(block: Block) -> Constants {
        let (bytes, block) = (block.len(), OnceLock::from(Ok(SettlingBlock::new(block))));
        Constants::Computed(ComputedConstants { bytes, computing: Mutex::default(), block })
    }

    /// Those of a block that `fill` fills, on a thread of its own where they are many.
    ///
    /// # Errors
    /// Those of `fill`, where it has been done.
    pub(crate) fn filled_by(
        mut block: Block,
        fill: impl FnOnce(&mut [u8]) -> Result<()> + Send + 'static,
    ) -> Result<Constants> {
        let bytes = block.len();
        if bytes < FEW_CONSTANTS {
            fill(block.bytes_mut())?;
            return Ok(Constants::of(block));
        }
        let computing = base::parallel::beside("tilewright setup", move || {
            fill(block.bytes_mut())?;
            Ok(block)
        });
        let computing = Mutex::new(Some(computing));
        Ok(Constants::Computed(ComputedConstants { bytes, computing, block: OnceLock::new() }))
    }

    /// How many bytes there are, or will be.
    pub(crate) fn len(&self) -> usize {
        match self {
            Constants::Computed(computed) => computed.bytes,
            Constants::Mapped(bytes) => bytes.len(),
        }
    }

    /// The constants, which are waited for.
    ///
    /// # Errors
    /// Faults of `setup`.
    pub(crate) fn bytes(&self) -> Result<&[u8]> {
        match self {
            Constants::Computed(computed) => {
                computed.block().map(|settling| settling.block().bytes())
            }
            Constants::Mapped(bytes) => Ok(bytes),
        }
    }

    /// The block, if its bytes have been computed.
    pub(crate) fn computed(&self) -> Option<&SettlingBlock> {
        let Constants::Computed(computed) = self else { return None };
        computed.block.get()?.as_ref().ok()
    }

    /// The block, if it has been computed here and nobody else has it.
    pub(crate) fn into_block(self) -> Option<Block> {
        let Constants::Computed(computed) = self else { return None };
        _ = computed.block();
        computed.block.into_inner()?.ok()?.into_block()
    }
}

impl ComputedConstants {
    fn block(&self) -> Result<&SettlingBlock> {
        let made = self.block.get_or_init(|| {
            let computing = self.computing.lock().unwrap_or_else(PoisonError::into_inner).take();
            let computing = computing
                .ok_or_else(|| Diagnostics::internal("the constants have been abandoned"))?;
            computing.join().map(SettlingBlock::new)
        });
        made.as_ref().map_err(Clone::clone)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn constants_are_waited_for() {
        for bytes in [64, FEW_CONSTANTS, 4 * FEW_CONSTANTS] {
            let fill = |memory: &mut [u8]| {
                std::thread::sleep(std::time::Duration::from_millis(5));
                memory.fill(7);
                Ok(())
            };
            let block = Block::zeroed(bytes).expect("memory");
            let constants = Constants::filled_by(block, fill).expect("it fills them");
            assert_eq!(constants.len(), bytes);
            let all = constants.bytes().expect("it fills them");
            assert!(all.len() == bytes && all.iter().all(|byte| *byte == 7));
            assert!(constants.computed().is_some());
            let block = constants.into_block().expect("nobody else has it");
            assert_eq!(block.bytes().last(), Some(&7));
        }
    }

    #[test]
    fn whoever_reads_constants_that_cannot_be_computed_has_the_reason() {
        let refused = |_: &mut [u8]| Err(Diagnostics::internal("no setup"));
        let block = |bytes| Block::zeroed(bytes).expect("memory");
        assert!(Constants::filled_by(block(64), refused).is_err());
        let constants = Constants::filled_by(block(FEW_CONSTANTS), refused).expect("it has begun");
        for _ in 0..2 {
            let found = constants.bytes().expect_err("it fails").to_string();
            assert!(found.contains("no setup"), "{found}");
        }
        assert!(constants.computed().is_none() && constants.into_block().is_none());
    }
}
