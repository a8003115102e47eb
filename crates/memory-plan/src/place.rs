//! Where in the arena each slot lies.
//!
//! Slots whose lifetimes meet lie apart, but for one exception: where a kernel reads a slot for
//! the last time and is the first to write another of the same size, and may be given one piece
//! of memory for both (`loops::may_share`) without waiting for its own stores (`wait`), the
//! second takes the place of the first. Slots are placed one after the other, each in the smallest
//! gap that holds it (best fit), in several orders; the best result is kept, and while it is more
//! than a twentieth above the largest live set, the slot that ends highest is placed earlier.
//! Sizes are rounded up to 64 bytes.
//!
//! Of a program whose steps and turns run one after the other a kernel may also write over what it
//! reads for the last time, as long as it stays behind (`trail`), or in its slot leaves free what
//! the other takes: then the two slots begin so far apart. Such a program is small and its memory
//! dear, so more orders are tried.
//!
//! Slots whose sizes are free lie behind those, in places one behind the other. A place has the
//! size of its first slot; others whose lifetimes do not meet share it if they are provably no
//! larger.
//!
//! That compares every slot with every other. Of programs too large for it, slots are placed in
//! the order of the steps, in the gaps that earlier slots have left.

use std::collections::{BTreeMap, BTreeSet};

use base::{Arena, InOrder, IntoTree, KernelId};
use loops::{Kernel, may_share};
use program::{Argument, Place, Program, Run, SlotId, Step};
use sym::{Expr, SymbolId};

use crate::barriers::add_barriers;
use crate::lifetime::{Lifetime, lifetimes};
use crate::trail::{Distances, distances};
use crate::wait::waits_for_stores;

/// Slots begin at multiples of this many bytes.
const ALIGNMENT: i64 = 64;

/// How often the worst slot is moved forward before the layout is taken as it is.
const ATTEMPTS: usize = 200;

/// The same where a program runs in turns.
const ATTEMPTS_IN_TURNS: usize = 4000;

/// How many pairs of slots are compared before the layout is taken as it is.
const PAIRS: usize = 30_000_000;

/// Slots of one place.
#[derive(Clone, Debug)]
struct Item {
    slots: Vec<SlotId>,
    bytes: i64,
    life: Lifetime,
}

/// What a memory plan came to, in bytes, slots of free sizes left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Footprint {
    /// All of the arena.
    pub arena: i64,
    /// The most that must be in the arena at once.
    pub largest_live_set: i64,
}

/// A placement: the offset of each item, and how much memory that takes.
#[derive(Clone, Debug)]
struct Layout {
    offsets: Vec<i64>,
    bytes: i64,
}

/// Rounds up to the alignment of slots.
#[must_use]
pub fn aligned(bytes: i64) -> i64 {
    (bytes + ALIGNMENT - 1).div_euclid(ALIGNMENT) * ALIGNMENT
}

/// How the turns of kernels run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TurnOrder {
    /// In any order, several at once.
    Free,
    /// One after the other, as steps do.
    Sequential,
}

/// Where slots may begin that a kernel reads and writes at the same time: how many bytes the first,
/// which it reads for the last time, may begin behind the second.
type Trails = BTreeMap<(usize, usize), Distances>;

/// Gives every slot of the arena its offset, and the program its barriers.
pub fn place(
    program: &mut Program,
    kernels: &Arena<KernelId, Kernel>,
    turns: TurnOrder,
) -> Footprint {
    let is_free = |item: &Item| program.slots[item.slots[0]].bytes.as_constant().is_none();
    let (free, items): (Vec<Item>, Vec<Item>) =
        items(program, kernels).into_iter().partition(is_free);
    let trails = match turns {
        TurnOrder::Free => Trails::new(),
        TurnOrder::Sequential => trails(program, kernels, &items),
    };
    let mut layout = best_layout(&items, &trails);
    if !trails.is_empty() {
        // Compilers know more of what lies apart, so nothing overlaps for nothing.
        let apart = best_layout(&items, &Trails::new());
        layout = if apart.bytes <= layout.bytes { apart } else { layout };
    }
    for (item, &offset) in items.iter().zip(&layout.offsets) {
        for slot in &item.slots {
            program.slots[*slot].place = Place::Arena(Expr::constant(offset));
        }
    }
    program.arena_bytes = Expr::constant(layout.bytes);
    place_free(program, free);
    let mut steps = std::mem::take(&mut program.steps);
    add_barriers(program, &mut steps);
    program.steps = steps;
    Footprint { arena: layout.bytes, largest_live_set: largest_live_set(&items) }
}

/// Memory for slots of free sizes that are not needed at the same time.
struct FreePlace {
    bytes: Expr,
    offset: Expr,
    lives: Vec<Lifetime>,
}

/// Places slots of free sizes behind the arena so far, those that usually are larger first.
fn place_free(program: &mut Program, mut items: Vec<Item>) {
    let symbols = program.symbols.clone();
    let ranges = |symbol: SymbolId| symbols[symbol].range;
    let usual = |symbol: SymbolId| symbols[symbol].usual();
    let bytes_of = |program: &Program, item: &Item| program.slots[item.slots[0]].bytes.clone();
    items.put_in_order_by_key(|item| {
        (std::cmp::Reverse(bytes_of(program, item).usual(&usual)), item.life.first)
    });
    let mut places: Vec<FreePlace> = Vec::new();
    for item in items {
        let bytes = bytes_of(program, &item);
        let fits = |place: &FreePlace| {
            let apart = |life: &Lifetime| !life.meets(item.life);
            place.lives.iter().all(apart) && sym::proves_less_equal(&bytes, &place.bytes, &ranges)
        };
        let at = match places.iter().position(fits) {
            Some(at) => at,
            None => {
                let offset = program.arena_bytes.clone();
                let whole = bytes.ceil_div(&ALIGNMENT.into()) * ALIGNMENT;
                program.arena_bytes += &whole;
                places.push(FreePlace { bytes, offset, lives: Vec::new() });
                places.len() - 1
            }
        };
        places[at].lives.push(item.life);
        for slot in &item.slots {
            program.slots[*slot].place = Place::Arena(places[at].offset.clone());
        }
    }
}

/// The slots of the arena that the program touches, those of one place together.
fn items(program: &Program, kernels: &Arena<KernelId, Kernel>) -> Vec<Item> {
    let lives = lifetimes(program);
    let successors = successors(program, kernels, &lives);
    let taken: BTreeSet<SlotId> = successors.values().copied().into_set();
    let mut items = Vec::new();
    for (slot, data) in program.slots.iter() {
        let (Place::Arena(_), Some(&life)) = (&data.place, lives.get(&slot)) else { continue };
        if taken.contains(&slot) {
            continue;
        }
        let bytes = aligned(data.bytes.as_constant().unwrap_or(0));
        let mut item = Item { slots: vec![slot], bytes, life };
        let mut last = slot;
        while let Some(&next) = successors.get(&last) {
            item.slots.push(next);
            item.life.last = item.life.last.max(lives[&next].last);
            last = next;
        }
        if base::fault::is_seeded("lower.plan") {
            item.life.last = item.life.last.min(item.life.first + 1);
        }
        items.push(item);
    }
    items
}

/// For slots that die in a step which makes another in their place: the other.
fn successors(
    program: &Program,
    kernels: &Arena<KernelId, Kernel>,
    lives: &BTreeMap<SlotId, Lifetime>,
) -> BTreeMap<SlotId, SlotId> {
    let mut found = BTreeMap::new();
    let mut sharing = BTreeMap::new();
    // Steps are numbered as lifetimes number them.
    let mut now = 0;
    program::walk(&program.steps, &mut |step| {
        now += 1;
        let Step::Run(run) = step else { return };
        let whole = |argument: &Argument| {
            let slot = &program.slots[argument.address.slot];
            let same = |other: &&Argument| other.address.slot == argument.address.slot;
            matches!(slot.place, Place::Arena(_))
                && argument.address.offset.is_zero()
                && argument.bytes == slot.bytes
                && run.arguments.iter().filter(same).count() == 1
        };
        let life = |argument: &Argument| lives[&argument.address.slot];
        for (to, written) in run.arguments.iter().enumerate() {
            let is_new = written.writes && !written.reads && life(written).first == now;
            if !is_new || !whole(written) {
                continue;
            }
            let dies = |(from, read): &(usize, &Argument)| {
                read.reads
                    && !read.writes
                    && life(read).last == now
                    && read.bytes == written.bytes
                    && whole(read)
                    && !found.contains_key(&read.address.slot)
                    && *sharing
                        .entry((run.kernel, *from, to))
                        .or_insert_with(|| parameters_may_share(kernels, run, *from, to))
            };
            if let Some((_, read)) = run.arguments.iter().enumerate().find(dies) {
                found.insert(read.address.slot, written.address.slot);
            }
        }
    });
    found
}

fn parameters_may_share(
    kernels: &Arena<KernelId, Kernel>,
    run: &Run,
    from: usize,
    to: usize,
) -> bool {
    let kernel = &kernels[run.kernel];
    let [from, to] = [from, to].map(|number| kernel.parameters[number]);
    may_share(kernel, from, to) && !waits_for_stores(kernel, to)
}

/// Which items a kernel may write over others, and how far behind.
fn trails(program: &Program, kernels: &Arena<KernelId, Kernel>, items: &[Item]) -> Trails {
    let lives = lifetimes(program);
    let ends = |slot: SlotId| items.iter().position(|item| item.slots.last() == Some(&slot));
    let begins = |slot: SlotId| items.iter().position(|item| item.slots.first() == Some(&slot));
    let mut found = Trails::new();
    let mut now = 0;
    program::walk(&program.steps, &mut |step| {
        now += 1;
        let Step::Run(run) = step else { return };
        let alone = |argument: &&Argument| {
            let same = |other: &&Argument| other.address.slot == argument.address.slot;
            run.arguments.iter().filter(same).count() == 1
        };
        let parameters = &kernels[run.kernel].parameters;
        for (to, written) in run.arguments.iter().enumerate() {
            let slot = written.address.slot;
            let is_new = written.writes && !written.reads;
            if !is_new || lives[&slot].first != now || !alone(&written) {
                continue;
            }
            let Some(second) = begins(slot) else { continue };
            for (from, read) in run.arguments.iter().enumerate() {
                let slot = read.address.slot;
                let is_last = read.reads && !read.writes && lives[&slot].last == now;
                let Some(first) = ends(slot).filter(|_| is_last && alone(&read)) else { continue };
                let offset = |argument: &Argument| argument.address.offset.as_constant();
                let (Some(read_at), Some(written_at)) = (offset(read), offset(written)) else {
                    continue;
                };
                let [from, to] = [from, to].map(|number| parameters[number]);
                if let Some(Distances { least, most }) = distances(&kernels[run.kernel], from, to) {
                    let apart = written_at - read_at;
                    // Slots begin at multiples of their alignment.
                    let least = aligned(least + apart);
                    let most = -aligned(-(most + apart));
                    found.insert((first, second), Distances { least, most });
                }
            }
        }
    });
    found
}

/// The bytes of the arena that a run takes in any memory plan, at least: its slots, less what of
/// them can lie in one piece of memory.
#[must_use]
pub fn least_bytes(
    program: &Program,
    kernels: &Arena<KernelId, Kernel>,
    run: &Run,
    turns: TurnOrder,
) -> i64 {
    let bytes = |argument: &Argument| program.slots[argument.address.slot].bytes.as_constant();
    let in_arena = |argument: &Argument| {
        let place = &program.slots[argument.address.slot].place;
        matches!(place, Place::Arena(_)).then(|| bytes(argument)).flatten()
    };
    let slots: BTreeMap<SlotId, i64> = (run.arguments.iter())
        .filter_map(|argument| Some((argument.address.slot, in_arena(argument)?)))
        .into_map();
    let kernel = &kernels[run.kernel];
    let mut saved: BTreeMap<(SlotId, SlotId), i64> = BTreeMap::new();
    for (to, written) in run.arguments.iter().enumerate().filter(|(_, one)| one.writes) {
        for (from, read) in run.arguments.iter().enumerate().filter(|(_, one)| one.reads) {
            let both = (read.address.slot, written.address.slot);
            let (Some(&own), Some(&other)) = (slots.get(&both.0), slots.get(&both.1)) else {
                continue;
            };
            if both.0 == both.1 {
                continue;
            }
            let parameters = [from, to].map(|number| kernel.parameters[number]);
            let shares = may_share(kernel, parameters[0], parameters[1]);
            let found = (turns == TurnOrder::Sequential)
                .then(|| distances(kernel, parameters[0], parameters[1]))
                .flatten();
            let offset = |argument: &Argument| argument.address.offset.as_constant().unwrap_or(0);
            // What both have in common where the one begins so far behind the other.
            let common = |behind: i64| (own + behind).min(other) - behind.max(0);
            let trailing = found.map_or(0, |Distances { least, most }| {
                let apart = offset(written) - offset(read);
                let least = if least + apart <= 0 { own.min(other) } else { common(least + apart) };
                let most = if most + apart >= 0 { own.min(other) } else { common(most + apart) };
                least.max(most)
            });
            let most = if shares { own.min(other) } else { trailing.max(0) };
            let known = saved.entry(both).or_insert(0);
            *known = (*known).max(most);
        }
    }
    let largest = slots.values().copied().max().unwrap_or(0);
    largest.max(slots.values().sum::<i64>() - saved.values().sum::<i64>())
}

/// The most bytes that are live at one step.
fn largest_live_set(items: &[Item]) -> i64 {
    let begins = items.iter().map(|item| (item.life.first, item.bytes));
    let ends = items.iter().map(|item| (item.life.last + 1, -item.bytes));
    let mut changes: Vec<(usize, i64)> = begins.chain(ends).collect();
    // At equal times ends, which are negative, come first.
    changes.sort_unstable();
    let (mut live, mut most) = (0, 0);
    for (_, change) in changes {
        live += change;
        most = most.max(live);
    }
    most
}

fn best_layout(items: &[Item], trails: &Trails) -> Layout {
    let least = largest_live_set(items);
    let rounds = PAIRS / (items.len() * items.len()).max(1);
    if rounds < 4 {
        return in_order_of_steps(items);
    }
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
        order.put_in_order_by_key(|&index| (keys(&items[index])[number], index));
        let layout = best_fit(items, &order, trails);
        if best.as_ref().is_none_or(|(best, _)| layout.bytes < best.bytes) {
            best = Some((layout, order));
        }
    }
    let Some((mut layout, mut order)) = best else {
        return Layout { offsets: Vec::new(), bytes: 0 };
    };
    let mut best_order = order.clone();
    let mut current = layout.clone();
    let attempts = if trails.is_empty() { ATTEMPTS } else { ATTEMPTS_IN_TURNS };
    let mut draws = 1u64;
    for attempt in 0..attempts.min(rounds) {
        // Where items may overlap there can be less than the largest live set.
        if trails.is_empty() && layout.bytes * 20 <= least * 21 {
            break;
        }
        if attempt >= ATTEMPTS {
            // An item goes anywhere, from the best order so far.
            order.clone_from(&best_order);
            let mut draw = || {
                draws = draws.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                (draws >> 33) as usize % order.len()
            };
            let (from, to) = (draw(), draw());
            let item = order.remove(from);
            order.insert(to, item);
            let tried = best_fit(items, &order, trails);
            if tried.bytes <= layout.bytes {
                (layout, best_order) = (tried, order.clone());
            }
            continue;
        }
        let end = |&index: &usize| current.offsets[index] + items[index].bytes;
        let Some(position) = (1..order.len()).max_by_key(|&place| (end(&order[place]), place))
        else {
            break;
        };
        let highest = order.remove(position);
        order.insert(position / 2, highest);
        current = best_fit(items, &order, trails);
        if current.bytes < layout.bytes {
            (layout, best_order) = (current.clone(), order.clone());
        }
    }
    layout
}

/// Places items as the steps come to them, each in the smallest gap of what lies free then; gaps
/// are joined as items die.
fn in_order_of_steps(items: &[Item]) -> Layout {
    let mut starting: Vec<usize> = (0..items.len()).collect();
    starting.put_in_order_by_key(|&index| (items[index].life.first, -items[index].bytes, index));
    let mut ending: Vec<usize> = (0..items.len()).collect();
    ending.put_in_order_by_key(|&index| (items[index].life.last, index));
    let mut ending = ending.into_iter().peekable();
    let (mut offsets, mut bytes) = (vec![0; items.len()], 0);
    let mut gaps = Gaps::default();
    for index in starting {
        let item = &items[index];
        while let Some(dead) = ending.next_if(|&dead| items[dead].life.last < item.life.first) {
            gaps.free(offsets[dead], items[dead].bytes);
        }
        offsets[index] = gaps.take(item.bytes).unwrap_or_else(|| {
            // The last gap grows if it ends where the arena does.
            let start = gaps.take_last(bytes);
            bytes = start + item.bytes;
            start
        });
    }
    Layout { offsets, bytes }
}

/// The free pieces of an arena, by place and by size.
#[derive(Default)]
struct Gaps {
    ends: BTreeMap<i64, i64>,
    sizes: BTreeSet<(i64, i64)>,
}

impl Gaps {
    fn add(&mut self, start: i64, end: i64) {
        if start < end {
            self.ends.insert(start, end);
            self.sizes.insert((end - start, start));
        }
    }

    fn remove(&mut self, start: i64, end: i64) {
        self.ends.remove(&start);
        self.sizes.remove(&(end - start, start));
    }

    /// Takes bytes from the smallest gap that has as many.
    fn take(&mut self, bytes: i64) -> Option<i64> {
        if bytes == 0 {
            return Some(0);
        }
        let &(size, start) = self.sizes.range((bytes, 0)..).next()?;
        self.remove(start, start + size);
        self.add(start + bytes, start + size);
        Some(start)
    }

    /// Takes the gap that ends where the arena does, if there is one; where it begins, or the end.
    fn take_last(&mut self, arena: i64) -> i64 {
        match self.ends.last_key_value() {
            Some((&start, &end)) if end == arena => {
                self.remove(start, end);
                start
            }
            _ => arena,
        }
    }

    /// Gives bytes back, and joins them with the gaps around.
    fn free(&mut self, mut start: i64, bytes: i64) {
        let mut end = start + bytes;
        if bytes == 0 {
            return;
        }
        if let Some((&first, &last)) = self.ends.range(..start).next_back()
            && last == start
        {
            self.remove(first, last);
            start = first;
        }
        if let Some(&last) = self.ends.get(&end) {
            self.remove(end, last);
            end = last;
        }
        self.add(start, end);
    }
}

/// Places items in this order, each in the smallest gap between those that live at the same time:
/// the smallest number of places where it could begin.
fn best_fit(items: &[Item], order: &[usize], trails: &Trails) -> Layout {
    let mut offsets = vec![0; items.len()];
    let mut placed: Vec<usize> = Vec::new();
    for &index in order {
        let item = &items[index];
        // Where it cannot begin, both ends left out.
        let barred = |&other: &usize| {
            let (start, end) = (offsets[other], offsets[other] + items[other].bytes);
            let (mut first, mut last) = (start - item.bytes, end);
            if let Some(behind) = trails.get(&(index, other)) {
                last = last.min(start + behind.least);
                first = first.max(start + behind.most);
            }
            if let Some(behind) = trails.get(&(other, index)) {
                first = first.max(start - behind.least);
                last = last.min(start - behind.most);
            }
            (first, last)
        };
        let meeting = placed.iter().filter(|&&other| items[other].life.meets(item.life));
        let mut taken: Vec<(i64, i64)> =
            meeting.map(barred).filter(|(first, last)| first < last).collect();
        taken.sort_unstable();
        let (mut best, mut end) = (None, 0);
        for (first, last) in taken {
            let gap = first - end;
            if gap >= 0 && best.is_none_or(|(smallest, _)| gap < smallest) {
                best = Some((gap, end));
            }
            end = end.max(last);
        }
        offsets[index] = best.map_or(end, |(_, offset)| offset);
        placed.push(index);
    }
    let ends = (0..items.len()).map(|index| offsets[index] + items[index].bytes);
    let bytes = ends.max().unwrap_or(0);
    Layout { offsets, bytes }
}

#[cfg(test)]
mod tests {
    use base::Id;

    use super::*;

    /// Whether two items that live at the same time share a byte.
    fn overlaps(items: &[Item], layout: &Layout) -> bool {
        let end = |index: usize| layout.offsets[index] + items[index].bytes;
        let apart = |a: usize, b: usize| {
            let disjoint = end(a) <= layout.offsets[b] || end(b) <= layout.offsets[a];
            disjoint || !items[a].life.meets(items[b].life)
        };
        let all = 0..items.len();
        all.clone().any(|a| end(a) > layout.bytes || (0..a).any(|b| !apart(a, b)))
    }

    #[test]
    fn both_ways_keep_live_items_apart() {
        let mut random = 7u64;
        let mut draw = |most: u64| {
            random = random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (random >> 33) % most
        };
        for round in 0..40 {
            let item = |number: usize| {
                let first = draw(60) as usize;
                let life = Lifetime { first, last: first + draw(12) as usize };
                Item { slots: vec![SlotId::new(number)], bytes: 64 * draw(9) as i64, life }
            };
            let items: Vec<Item> = (0..round * 2).map(item).collect();
            let (best, quick) = (best_layout(&items, &Trails::new()), in_order_of_steps(&items));
            assert!(!overlaps(&items, &best) && !overlaps(&items, &quick));
            let least = largest_live_set(&items);
            assert!(least <= best.bytes && best.bytes <= quick.bytes.max(least * 21 / 20));
            assert!(quick.bytes <= 2 * least, "{} for {least}", quick.bytes);
        }
    }
}
