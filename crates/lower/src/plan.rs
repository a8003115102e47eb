//! The memory plan: where in the arena each slot lies, and where the program needs barriers.
//!
//! Slots whose lifetimes meet lie apart. Slots are placed one after the other, each in the smallest
//! gap that holds it (best fit), in several orders; the best result is kept, and while it is more
//! than a twentieth above the largest live set, the slot that ends highest is placed earlier. Sizes
//! are rounded up to 64 bytes.

use std::collections::BTreeMap;

use base::Id;
use program::{Place, Program, SlotId, Step};
use sym::Expr;

use crate::lifetime::{Lifetime, lifetimes};

/// Slots begin at multiples of this many bytes.
pub(crate) const ALIGNMENT: i64 = 64;

/// How often the worst slot is moved forward before the plan is taken as it is.
const ATTEMPTS: usize = 200;

/// A slot to place.
#[derive(Clone, Copy, Debug)]
struct Item {
    slot: SlotId,
    bytes: i64,
    life: Lifetime,
}

/// A placement: the offset of each item, and how much memory that takes.
#[derive(Clone, Debug)]
struct Layout {
    offsets: Vec<i64>,
    bytes: i64,
}

/// Rounds up to the alignment of slots.
pub(crate) fn aligned(bytes: i64) -> i64 {
    (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT
}

/// Gives every slot of the arena its offset, and the program its barriers.
pub(crate) fn plan(program: &mut Program) {
    let lives = lifetimes(program);
    let mut items = Vec::new();
    for (slot, data) in program.slots.iter() {
        if let (Place::Arena(_), Some(&life)) = (&data.place, lives.get(&slot)) {
            let bytes = aligned(data.bytes.as_constant().unwrap_or(0));
            items.push(Item { slot, bytes, life });
        }
    }
    let layout = best_layout(&items);
    for (item, &offset) in items.iter().zip(&layout.offsets) {
        program.slots[item.slot].place = Place::Arena(Expr::constant(offset));
    }
    program.arena_bytes = Expr::constant(layout.bytes);
    let mut steps = std::mem::take(&mut program.steps);
    add_barriers(program, &mut steps);
    program.steps = steps;
}

/// The most bytes that are live at one step.
fn largest_live_set(items: &[Item]) -> i64 {
    let live = |at: usize| -> i64 {
        items.iter().filter(|item| item.life.contains(at)).map(|item| item.bytes).sum()
    };
    items.iter().map(|item| live(item.life.first)).max().unwrap_or(0)
}

fn best_layout(items: &[Item]) -> Layout {
    let least = largest_live_set(items);
    let length = |item: &Item| (item.life.last - item.life.first + 1) as i64;
    let keys = |item: &Item| {
        let first = item.life.first as i64;
        [
            (-item.bytes, first),
            (-item.bytes, -length(item)),
            (-item.bytes.saturating_mul(length(item)), 0),
            (first, -item.bytes),
        ]
    };
    let mut best: Option<(Layout, Vec<usize>)> = None;
    for number in 0..4 {
        let mut order: Vec<usize> = (0..items.len()).collect();
        order.sort_by_key(|&index| (keys(&items[index])[number], index));
        let layout = best_fit(items, &order);
        if best.as_ref().is_none_or(|(best, _)| layout.bytes < best.bytes) {
            best = Some((layout, order));
        }
    }
    let Some((mut layout, mut order)) = best else {
        return Layout { offsets: Vec::new(), bytes: 0 };
    };
    let mut current = layout.clone();
    for _ in 0..ATTEMPTS {
        if layout.bytes * 20 <= least * 21 {
            break;
        }
        let end = |&index: &usize| current.offsets[index] + items[index].bytes;
        let Some(position) = (1..order.len()).max_by_key(|&place| (end(&order[place]), place))
        else {
            break;
        };
        let highest = order.remove(position);
        order.insert(position / 2, highest);
        current = best_fit(items, &order);
        if current.bytes < layout.bytes {
            layout = current.clone();
        }
    }
    layout
}

/// Places items in this order, each in the smallest gap between those that live at the same time.
fn best_fit(items: &[Item], order: &[usize]) -> Layout {
    let mut offsets = vec![0; items.len()];
    let mut placed: Vec<usize> = Vec::new();
    for &index in order {
        let item = &items[index];
        let mut taken: Vec<(i64, i64)> = placed
            .iter()
            .filter(|&&other| items[other].life.meets(item.life))
            .map(|&other| (offsets[other], offsets[other] + items[other].bytes))
            .collect();
        taken.sort_unstable();
        let (mut best, mut end) = (None, 0);
        for (start, stop) in taken {
            let gap = start - end;
            if gap >= item.bytes && best.is_none_or(|(smallest, _)| gap < smallest) {
                best = Some((gap, end));
            }
            end = end.max(stop);
        }
        offsets[index] = best.map_or(end, |(_, offset)| offset);
        placed.push(index);
    }
    let ends = (0..items.len()).map(|index| offsets[index] + items[index].bytes);
    let bytes = ends.max().unwrap_or(0);
    Layout { offsets, bytes }
}

/// Puts a barrier before each step that touches memory which a step since the last one writes, or
/// writes what one touches. Steps with blocks inside stand between barriers.
fn add_barriers(program: &Program, steps: &mut Vec<Step>) {
    let mut made: Vec<Step> = Vec::new();
    let mut since: Vec<Access> = Vec::new();
    for mut step in std::mem::take(steps) {
        let own = match &mut step {
            Step::Run(_) | Step::Copy { .. } | Step::Host { .. } => accesses(program, &step),
            _ => Vec::new(),
        };
        let apart = matches!(
            step,
            Step::Branch { .. } | Step::While { .. } | Step::Repeat { .. } | Step::Bind { .. }
        );
        let conflict = own.iter().any(|access| since.iter().any(|other| access.conflicts(other)));
        if (conflict || apart) && !made.is_empty() && made.last() != Some(&Step::Barrier) {
            made.push(Step::Barrier);
            since.clear();
        }
        match &mut step {
            Step::Branch { then, otherwise, .. } => {
                add_barriers(program, then);
                add_barriers(program, otherwise);
            }
            Step::While { setup, body, .. } => {
                add_barriers(program, setup);
                add_barriers(program, body);
            }
            Step::Repeat { body, .. } => add_barriers(program, body),
            _ => {}
        }
        since.extend(own);
        made.push(step);
        if apart {
            made.push(Step::Barrier);
            since.clear();
        }
    }
    if made.last() == Some(&Step::Barrier) {
        made.pop();
    }
    *steps = made;
}

/// Memory that a step touches: a region, first byte and the byte behind the last.
struct Access {
    region: (u8, u64),
    start: i64,
    end: i64,
    writes: bool,
}

impl Access {
    fn conflicts(&self, other: &Access) -> bool {
        (self.writes || other.writes)
            && self.region == other.region
            && self.start < other.end
            && other.start < self.end
    }
}

fn accesses(program: &Program, step: &Step) -> Vec<Access> {
    let access = |address: &program::Address, bytes: &Expr, writes: bool| {
        let slot = &program.slots[address.slot];
        let (region, base) = match &slot.place {
            Place::Input(number) => ((0, u64::from(*number)), 0),
            Place::Output(number) => ((1, u64::from(*number)), 0),
            Place::Weight(constant) => ((2, constant.index() as u64), 0),
            Place::Constants(offset) => ((3, 0), offset.as_constant().unwrap_or(0)),
            Place::Arena(offset) => ((4, 0), offset.as_constant().unwrap_or(0)),
        };
        // An offset that moves with a loop stands for the whole slot.
        let (start, bytes) = match (address.offset.as_constant(), bytes.as_constant()) {
            (Some(offset), Some(bytes)) => (offset, bytes),
            _ => (0, slot.bytes.as_constant().unwrap_or(i64::MAX / 2)),
        };
        Access { region, start: base + start, end: base + start + bytes, writes }
    };
    match step {
        Step::Run(run) => {
            let of = |argument: &program::Argument| {
                access(&argument.address, &argument.bytes, argument.writes)
            };
            run.arguments.iter().map(of).collect()
        }
        Step::Copy { source, destination, bytes } => {
            vec![access(source, bytes, false), access(destination, bytes, true)]
        }
        Step::Host { arguments, .. } => arguments
            .iter()
            .map(|address| access(address, &program.slots[address.slot].bytes, true))
            .collect(),
        _ => Vec::new(),
    }
}

/// The arena and the most that must be in it at once, in bytes.
pub(crate) fn figures(program: &Program) -> (i64, i64) {
    let lives: BTreeMap<SlotId, Lifetime> = lifetimes(program);
    let items: Vec<Item> = program
        .slots
        .iter()
        .filter_map(|(slot, data)| {
            let Place::Arena(_) = data.place else { return None };
            let bytes = aligned(data.bytes.as_constant().unwrap_or(0));
            lives.get(&slot).map(|&life| Item { slot, bytes, life })
        })
        .collect();
    (program.arena_bytes.as_constant().unwrap_or(0), largest_live_set(&items))
}
