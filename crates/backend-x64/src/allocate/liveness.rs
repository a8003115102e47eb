//! Where values live and where they are used next.
//!
//! Positions are the numbers of instructions; blocks stand in their order, so that a loop, whose
//! body follows its header up to the block that jumps back, is a range of positions.

use std::ops::Range;

use super::{Flat, Operand};

/// Where values are used for the last time, and how many live at once.
pub(super) struct Liveness {
    /// The values live at the start of each block, its parameters apart.
    pub(super) live_in: Vec<Vec<u32>>,
    /// For each operand: the value is not used after this instruction; of a result, not at all.
    pub(super) dies: Vec<bool>,
    /// For each value: whether it is used at all.
    pub(super) is_used: Vec<bool>,
    /// For each value: the block that defines it.
    home: Vec<u32>,
    /// For each block: the most values of each class that live at once.
    most: Vec<[u32; 3]>,
    /// The same for the function.
    pub(super) most_of_all: [u32; 3],
}

impl Liveness {
    /// Follows each use up to its definition, then walks each block backwards.
    pub(super) fn of(flat: &Flat<'_>) -> Liveness {
        let (blocks, values) = (flat.blocks(), flat.values());
        let mut home = vec![u32::MAX; values];
        for block in 0..blocks {
            flat.params[block].iter().for_each(|param| home[param.vreg()] = block as u32);
            for operand in operands_of(flat, block) {
                if operand.is_result() {
                    home[operand.value()] = block as u32;
                }
            }
        }
        let words = values.div_ceil(64);
        let mut seen = vec![0_u64; blocks * words];
        let mut live_in = vec![Vec::new(); blocks];
        let mut is_used = vec![false; values];
        let mut open = Vec::new();
        for block in 0..blocks {
            let own = block as u32;
            let mut from_outside = |seen: &mut [u64], value: usize| {
                open.push(block);
                while let Some(block) = open.pop() {
                    let (word, bit) = (block * words + value / 64, 1 << (value % 64));
                    if home[value] != block as u32 && seen[word] & bit == 0 {
                        seen[word] |= bit;
                        live_in[block].push(value as u32);
                        open.extend(flat.predecessors[block].iter().map(|from| from.index()));
                    }
                }
            };
            let reads = operands_of(flat, block).filter(|it| !it.is_result());
            let passed = flat.arguments[block].iter().map(|value| value.vreg());
            reads.map(|operand| operand.value()).chain(passed).for_each(|value| {
                is_used[value] = true;
                if home[value] != own && seen[block * words + value / 64] >> (value % 64) & 1 == 0 {
                    from_outside(&mut seen, value);
                }
            });
        }
        let dies = vec![false; flat.operands.len()];
        let (most, most_of_all) = (vec![[0; 3]; blocks], [0; 3]);
        let mut liveness = Liveness { live_in, dies, is_used, home, most, most_of_all };
        liveness.walk_backwards(flat);
        liveness
    }

    fn walk_backwards(&mut self, flat: &Flat<'_>) {
        let mut alive = vec![u32::MAX; flat.values()];
        for block in 0..flat.blocks() {
            let mark = block as u32;
            let mut count = [0_u32; 3];
            let mut begin = |alive: &mut [u32], value: usize| {
                if alive[value] != mark {
                    alive[value] = mark;
                    count[flat.class_of(value) as usize] += 1;
                }
            };
            for to in &flat.successors[block] {
                for &value in &self.live_in[to.index()] {
                    begin(&mut alive, value as usize);
                }
            }
            flat.arguments[block].iter().for_each(|value| begin(&mut alive, value.vreg()));
            let mut most = count;
            for inst in flat.insts(block).rev() {
                let operands = flat.operands_of(inst);
                let dies = &mut self.dies[flat.operand_starts[inst]..][..operands.len()];
                // Beside what lives on, results that nothing uses need a register, too.
                let mut beside = count;
                let results = operands.iter().zip(dies.iter_mut()).rev();
                for (operand, dies) in results.take_while(|(operand, _)| operand.is_result()) {
                    let (alive, class) = (&mut alive[operand.value()], operand.class as usize);
                    *dies = *alive != mark;
                    match *dies {
                        true => beside[class] += 1,
                        false => count[class] -= 1,
                    }
                    *alive = u32::MAX;
                }
                let reads = operands.iter().zip(dies);
                for (operand, dies) in reads.take_while(|(operand, _)| !operand.is_result()) {
                    let alive = &mut alive[operand.value()];
                    *dies = *alive != mark;
                    count[operand.class as usize] += u32::from(*dies);
                    *alive = mark;
                }
                raise(&mut most, &beside);
                raise(&mut most, &count);
            }
            raise(&mut self.most_of_all, &most);
            self.most[block] = most;
        }
    }
}

fn raise(most: &mut [u32; 3], count: &[u32; 3]) {
    most.iter_mut().zip(count).for_each(|(most, count)| *most = (*most).max(*count));
}

/// The operands of a block's instructions.
fn operands_of<'a>(flat: &'a Flat<'_>, block: usize) -> impl Iterator<Item = &'a Operand> {
    let insts = flat.insts(block);
    flat.operands[flat.operand_starts[insts.start]..flat.operand_starts[insts.end]].iter()
}

/// A loop: its positions, from the header's first to the last of the block that jumps back.
struct Loop {
    header: usize,
    start: u32,
    end: u32,
    /// The loop around it.
    outer: Option<usize>,
    /// The most values of each class that live at once.
    most: [u32; 3],
}

/// Where values are used next: asked for only where registers do not suffice.
pub(super) struct Uses {
    /// The positions of all uses, value by value in order.
    positions: Vec<u32>,
    /// Where each value's start, and the end of the last.
    starts: Vec<u32>,
    /// Where each value is defined: the first position of its block.
    homes: Vec<u32>,
    loops: Vec<Loop>,
    /// The innermost loop around each block.
    innermost: Vec<Option<usize>>,
}

/// What a use beyond a loop's end counts in addition: it is farther than any inside.
const BEYOND: u64 = 1 << 32;

impl Uses {
    pub(super) fn of(flat: &Flat<'_>, liveness: &Liveness) -> Uses {
        let mut starts = vec![0_u32; flat.values() + 2];
        each_use(flat, |value, _| starts[value + 2] += 1);
        for value in 2..starts.len() {
            starts[value] += starts[value - 1];
        }
        let mut positions = vec![0_u32; starts[starts.len() - 1] as usize];
        each_use(flat, |value, position| {
            positions[starts[value + 1] as usize] = position;
            starts[value + 1] += 1;
        });
        let home = |block: &u32| flat.starts.get(*block as usize).map_or(0, |start| *start as u32);
        let homes = liveness.home.iter().map(home).collect();
        let (loops, innermost) = loops(flat, liveness);
        Uses { positions, starts, homes, loops, innermost }
    }

    /// How far the next use of a live value is from a position in a block, which counts, too; the
    /// next turn of a loop is as far as its end, what is behind a loop farther than all within.
    pub(super) fn distance(&self, value: usize, block: usize, position: usize) -> u64 {
        let uses = self.of_value(value);
        let first = |from: u32| uses.get(uses.partition_point(|use_| *use_ < from)).copied();
        let (mut beyond, mut from) = (0, position as u32);
        let mut around = self.innermost[block];
        while let Some(one) = around.map(|number| &self.loops[number]) {
            if let Some(at) = first(from).filter(|at| *at < one.end) {
                return beyond + u64::from(at - position as u32);
            }
            if self.homes[value] < one.start
                && let Some(at) = first(one.start).filter(|at| *at < from)
            {
                return beyond + u64::from(one.end - position as u32 + at - one.start);
            }
            (beyond, from, around) = (beyond + BEYOND, one.end, one.outer);
        }
        first(from).map_or(u64::MAX, |at| beyond + u64::from(at - position as u32))
    }

    /// The positions of the innermost loop around a block.
    pub(super) fn loop_around(&self, block: usize) -> Option<Range<usize>> {
        let one = &self.loops[self.innermost[block]?];
        Some(one.start as usize..one.end as usize)
    }

    /// If a block is a loop's header: the most values of each class that live at once in it.
    pub(super) fn most_in_loop(&self, block: usize) -> Option<[u32; 3]> {
        let one = &self.loops[self.innermost[block]?];
        (one.header == block).then_some(one.most)
    }

    /// Whether a loop uses a value; its header is the block.
    pub(super) fn is_used_in_loop(&self, value: usize, header: usize) -> bool {
        let Some(one) = self.innermost[header].map(|number| &self.loops[number]) else {
            return false;
        };
        let uses = self.of_value(value);
        uses.get(uses.partition_point(|at| *at < one.start)).is_some_and(|at| *at < one.end)
    }

    /// The position of a value's last use.
    pub(super) fn last(&self, value: usize) -> usize {
        self.of_value(value).last().map_or(0, |at| *at as usize)
    }

    fn of_value(&self, value: usize) -> &[u32] {
        &self.positions[self.starts[value] as usize..self.starts[value + 1] as usize]
    }
}

/// Calls `visit` with the value and position of each use in order.
fn each_use(flat: &Flat<'_>, mut visit: impl FnMut(usize, u32)) {
    for block in 0..flat.blocks() {
        for inst in flat.insts(block) {
            for operand in flat.operands_of(inst) {
                if !operand.is_result() {
                    visit(operand.value(), inst as u32);
                }
            }
        }
        let last = flat.starts[block + 1] as u32 - 1;
        flat.arguments[block].iter().for_each(|value| visit(value.vreg(), last));
    }
}

/// The loops, outer ones first, and the innermost around each block.
fn loops(flat: &Flat<'_>, liveness: &Liveness) -> (Vec<Loop>, Vec<Option<usize>>) {
    let blocks = flat.blocks();
    let mut loops = Vec::new();
    let mut innermost: Vec<Option<usize>> = vec![None; blocks];
    for header in 0..blocks {
        let back = flat.predecessors[header].iter().map(|from| from.index());
        let Some(last) = back.filter(|from| *from >= header).max() else { continue };
        let mut most = [0; 3];
        for block in &liveness.most[header..=last] {
            raise(&mut most, block);
        }
        let (start, end) = (flat.starts[header] as u32, flat.starts[last + 1] as u32);
        let outer = innermost[header];
        innermost[header..=last].fill(Some(loops.len()));
        loops.push(Loop { header, start, end, outer, most });
    }
    (loops, innermost)
}
