//! The panels of a packed operand: how far apart they are, and asking for the next one in time.
//!
//! A panel is met for one tile of rows after the other before the next one is met at all. Hardware
//! that follows streams of addresses sees a panel that is read again and again, so the first tile
//! of the next one would wait for each line. Weights come from memory in a model larger than the
//! caches, run by run. So each load asks the second-level cache for the line one panel further on.

use loops::{Access as Use, Scope};
use schedule::Step;

use super::Refused;
use super::hand::Hand;
use super::structure::{Access, LoopInfo, Motion};
use super::tile::Problem;

/// A packed operand of a sum.
pub(super) struct Panels {
    /// The buffer's name.
    buffer: String,
    /// Bytes from one panel to the next.
    pub(super) bytes: i64,
    /// Bytes of an element.
    pub(super) element: i64,
}

impl Panels {
    /// The operands that are packed in panels of `width` elements along a loop which walks more
    /// than one of them.
    pub(super) fn of(hand: &Hand<'_>, problem: &Problem, by: &LoopInfo, width: i64) -> Vec<Panels> {
        if by.extent <= width {
            return Vec::new();
        }
        let packed = problem.update.loads().filter(|access| {
            matches!(access.motion(by), Motion::Steady { block: Some(block), .. } if block == width)
        });
        let of = |access: &Access| {
            let buffer = &hand.kernel().buffers[access.buffer];
            let element = i64::from(buffer.dtype.bits()).max(8) / 8;
            let bytes = access.distance(by, width)? * element;
            let is_read = buffer.scope == Scope::Parameter(Use::Read);
            is_read.then(|| Panels { buffer: buffer.name.clone(), bytes, element })
        };
        packed.filter_map(of).collect()
    }

    /// Has loads ask for the next panel.
    pub(super) fn prefetch(&self, hand: &mut Hand<'_>) -> Result<(), Refused> {
        match u32::try_from(self.bytes) {
            Ok(bytes) if bytes > 0 => {
                hand.take(Step::Prefetch { buffer: self.buffer.clone(), bytes })
            }
            _ => Ok(()),
        }
    }
}
