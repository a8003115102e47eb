//! The panels of an operand: what a tile's columns need of it, and asking for the next one in time.
//!
//! A packed operand lies panel by panel. Of one that is contiguous along the columns, but not
//! packed, a panel is a strip: a short piece of each row.
//!
//! A panel is met for one tile of rows after the other before the next one is met at all. Hardware
//! that follows streams of addresses sees a panel that is read again and again, so the first tile
//! of the next one would wait for each line. Weights come from memory in a model larger than the
//! caches, run by run. So the second-level cache is asked for the next panel: the tiles that meet
//! one share its lines among them.

use backend::Target;
use loops::{Access as Use, Scope};
use schedule::{LocalScope, ScheduleStep};
use sym::Expr;

use crate::copied::Copied;
use crate::given::Refused;
use crate::hand::Hand;
use crate::map;
use crate::problem::Problem;
use crate::structure::{Access, LoopInfo, Motion};

/// An operand of a sum that is met in panels.
pub(super) struct Panels {
    /// The buffer's name.
    buffer: String,
    /// Whether it lies panel by panel.
    pub(super) packed: bool,
    /// Bytes of a panel.
    pub(super) bytes: i64,
    /// Bytes of an element.
    pub(super) element: i64,
    /// Bytes of all panels; none where that is not known.
    all: Option<i64>,
    /// How panels are copied, if they are to be wherever rows are many.
    pub(super) copied: Option<Copied>,
}

impl Panels {
    /// The operands that are met in panels of `width` elements along a loop which walks more than
    /// one of them.
    pub(super) fn of(hand: &Hand<'_>, problem: &Problem, by: &LoopInfo, width: i64) -> Vec<Panels> {
        if by.extent <= width {
            return Vec::new();
        }
        let of = |access: &Access| {
            let buffer = &hand.kernel().buffers[access.buffer];
            let element = i64::from(buffer.dtype.bits()).max(8) / 8;
            let (packed, elements) = match access.motion(by) {
                Motion::Steady { block: Some(block), .. } if block == width => {
                    (true, access.distance(by, width)?)
                }
                Motion::Steady { stride: 1, block: None } if has_no_window(access) => {
                    let moves = |found: &&LoopInfo| access.motion(found) != Motion::Still;
                    let rows = problem.reduced.iter().filter(moves).map(|found| found.extent);
                    (false, rows.product::<i64>() * width)
                }
                _ => return None,
            };
            let (buffer_name, bytes) = (buffer.name.clone(), elements * element);
            let extents = buffer.shape.iter().map(Expr::as_constant);
            let all = extents.product::<Option<i64>>().map(|elements| elements * element);
            let is_read = buffer.scope == Scope::Parameter(Use::Read);
            let copied = problem.copied.iter().find(|copied| copied.buffer == access.buffer);
            let copied = copied.cloned();
            is_read.then_some(Panels { buffer: buffer_name, packed, bytes, element, all, copied })
        };
        problem.update.loads().filter_map(of).collect()
    }

    /// Copies what a turn of a loop meets of a panel that is a strip into scratch memory, where its
    /// pieces lie one behind the other.
    pub(super) fn pack(
        &self,
        hand: &mut Hand<'_>,
        around: &str,
        tiles: &[String],
        target: &Target,
    ) -> Result<(), Refused> {
        if self.packed {
            return self.prefetch(hand, tiles, target);
        }
        let into = hand.fresh(&self.buffer, "panel");
        hand.take(ScheduleStep::StageRead {
            buffer: self.buffer.clone(),
            target: around.to_owned(),
            into: into.clone(),
            scope: LocalScope::Scratch,
            order: self.copied.as_ref().map_or(Vec::new(), |copied| copied.order.clone()),
        })?;
        let copy = hand.kernel().buffers.values().find(|copy| copy.name == into);
        let Some(lanes) = copy.and_then(|copy| copy.shape.len().checked_sub(1)) else {
            return Ok(());
        };
        let name = |axis: usize| format!("{into}_{axis}");
        match self.copied.as_ref().and_then(|copied| copied.terms) {
            None => hand.vectorise(&name(lanes)),
            Some(terms) => {
                let rest: Vec<String> =
                    (0..lanes).filter(|axis| *axis != terms).map(name).collect();
                map::transposing_tiles(hand, &rest, &name(terms), &name(lanes))
            }
        }
    }

    /// Has the tiles that meet a panel, turns of these loops, ask for the next one. Strips are left
    /// alone: their pieces are too short to repay the requests.
    pub(super) fn prefetch(
        &self,
        hand: &mut Hand<'_>,
        tiles: &[String],
        target: &Target,
    ) -> Result<(), Refused> {
        let Ok(bytes @ 1..) = u32::try_from(self.bytes) else { return Ok(()) };
        if !self.packed {
            return Ok(());
        }
        let mut ask = |shared: &[String]| {
            let (buffer, shared) = (self.buffer.clone(), shared.to_vec());
            hand.attempt(|hand| {
                hand.take(ScheduleStep::Prefetch { buffer, bytes, walk: None, shared })
            })
        };
        if !tiles.is_empty() && ask(tiles).is_ok() {
            return Ok(());
        }
        // Where they cannot share its lines, each asks for all of them, but of what stays in the
        // first-level cache.
        match self.all.is_some_and(|all| target.machine.l1.keeps(all as f64)) {
            true => Ok(()),
            false => ask(&[]),
        }
    }
}

/// Whether each axis of an operand moves with one loop at most, so that no element is met twice.
fn has_no_window(access: &Access) -> bool {
    access.index.iter().all(|index| index.symbols().len() <= 1)
}
