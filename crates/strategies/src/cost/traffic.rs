//! What accesses bring from beyond a core's first-level cache.
//!
//! For each access and each loop around it the *footprint* is known: the bytes, in whole lines,
//! that it touches while the loop runs once through. Of a level of the memory that keeps all
//! footprints of one turn of a loop, neighbouring turns share what they have in common, so the loop
//! brings there what it touches, once; of one that does not, each turn brings its own again. What
//! a whole kernel touches is still where the last run, or whoever made it, left it.

use backend::{Level, Machine, Target};
use loops::BufferId;
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;

/// Bytes side by side from which on the processor reads ahead as well as it can.
const STREAM: f64 = 512.0;

/// Lines that may lie between runs which the processor reads ahead as one.
const BETWEEN: f64 = 2.0;

/// An access, with the loops around it.
#[derive(Clone, Debug)]
struct Record {
    buffer: BufferId,
    writes: bool,
    /// Bytes of the buffer.
    whole: f64,
    /// Numbers of the loops around it, outermost first.
    path: Vec<usize>,
    /// Turns of each of them.
    turns: Vec<f64>,
    /// Bytes touched by everything inside of the first so many loops: the first entry is that of
    /// the kernel, the last one that of a single element.
    footprint: Vec<f64>,
    /// The most lines of these that share a set of the first-level cache, and of the second-level
    /// one.
    crowd: [Vec<f64>; 2],
    /// Bytes side by side.
    run: f64,
}

/// How an access moves with a loop.
#[derive(Clone, Copy, Debug)]
pub(super) struct Step {
    /// The loop's number.
    pub(super) number: usize,
    pub(super) turns: i64,
    /// Elements from one turn to the next; none if that is not regular.
    pub(super) stride: Option<i64>,
    /// Turns after which it jumps.
    pub(super) block: Option<i64>,
}

/// What an access meets while some loops run.
#[derive(Clone, Copy, Debug)]
struct Met {
    /// Elements.
    count: f64,
    /// Elements side by side.
    run: f64,
    /// Elements from the beginning of one such run to that of the next; none if there is no other,
    /// or they lie anywhere.
    apart: Option<f64>,
}

impl Met {
    /// Of loops around each other: those of the smallest strides walk side by side, and others
    /// repeat what they walk.
    fn by(steps: &[Step]) -> Met {
        let mut strides: SmallVec<[(f64, f64); 8]> = SmallVec::new();
        let mut met = Met { count: 1.0, run: 1.0, apart: None };
        for step in steps {
            let turns = step.block.unwrap_or(step.turns) as f64;
            match step.stride {
                Some(0) => {}
                Some(stride) => strides.push((stride.unsigned_abs() as f64, turns)),
                None => met.count *= turns,
            }
            // Where it jumps nothing is known to be met again.
            met.count *= step.turns as f64 / turns;
        }
        strides.sort_by(|(one, _), (two, _)| one.total_cmp(two));
        let mut span = 1.0;
        for (stride, turns) in strides {
            let dense = met.run >= span;
            match stride <= span {
                true => met.count += (turns - 1.0) * met.count * stride / span,
                false => met.count *= turns,
            }
            span += stride * (turns - 1.0);
            if dense && stride <= met.run {
                met.run = span;
            } else if turns > 1.0 && met.apart.is_none() {
                met.apart = Some(stride);
            }
        }
        met
    }

    /// Lines that share a set of a cache: those of loops whose steps are whole lines, each of which
    /// comes back to a set after so many turns.
    fn crowd(steps: &[Step], element: f64, level: &Level, line: i64) -> f64 {
        let of = |step: &Step| {
            let bytes = (step.stride.unwrap_or(0).unsigned_abs() as f64 * element) as i64;
            match level.sets_of(bytes, line).filter(|_| bytes >= line) {
                Some(sets) => (step.block.unwrap_or(step.turns) as f64 / sets as f64).max(1.0),
                None => 1.0,
            }
        };
        steps.iter().map(of).product()
    }

    /// Bytes side by side, of elements of so many bytes: of runs with little between them nearly
    /// every line is met.
    fn streamed(&self, element: f64, line: f64) -> f64 {
        match self.apart {
            Some(apart) if (apart - self.run) * element < line * BETWEEN => {
                self.count / self.run * apart * element
            }
            _ => self.run * element,
        }
    }

    /// Bytes of the lines that hold the elements, of so many bytes each. Where runs begin in lines
    /// is not known unless all begin as the first does.
    fn bytes(&self, element: f64, line: f64) -> f64 {
        let run = self.run * element;
        let whole = (run / line).ceil() * line;
        let lines = match self.apart.map(|apart| apart * element) {
            None => run.max(line),
            Some(apart) if apart % line == 0.0 => whole,
            Some(apart) => (run - element + line).min(run.max(apart)),
        };
        self.count / self.run * lines
    }
}

/// What an access brings to a level.
#[derive(Clone, Copy, Debug, Default)]
struct Brought {
    bytes: f64,
    /// Whether all accesses that meet the same buffer in the same turns cover it.
    covers: bool,
    /// Whether lines come again that others have driven out of the set that they share.
    again: bool,
}

/// All accesses of a kernel to memory.
#[derive(Clone, Debug, Default)]
pub(super) struct Traffic {
    records: Vec<Record>,
    /// For each loop what one turn touches.
    turns: Vec<Touched>,
    /// What the kernel touches.
    kernel: Touched,
    /// Digests of what has been added.
    known: FxHashSet<(BufferId, bool, u64)>,
}

impl Traffic {
    /// Adds an access to elements of so many bytes, of a buffer of so many bytes in all.
    pub(super) fn add(
        &mut self,
        machine: &Machine,
        (buffer, writes, digest): (BufferId, bool, u64),
        [element, whole]: [f64; 2],
        steps: &[Step],
    ) {
        // What is asked for again at once is there.
        if !self.known.insert((buffer, writes, digest)) {
            return;
        }
        let line = machine.line_bytes as f64;
        let bytes = |met: &Met| met.bytes(element, line).min(whole.max(line));
        let met: Vec<Met> = (0..=steps.len()).map(|depth| Met::by(&steps[depth..])).collect();
        let footprint: Vec<f64> = met.iter().map(bytes).collect();
        let crowd = [&machine.l1, &machine.l2].map(|level| {
            let inside = |depth: usize| &steps[depth..];
            let of = |steps: &[Step]| Met::crowd(steps, element, level, machine.line_bytes);
            (0..=steps.len()).map(inside).map(of).collect()
        });
        self.kernel.add((buffer, writes), footprint[0], whole);
        for (depth, step) in steps.iter().enumerate() {
            if self.turns.len() <= step.number {
                self.turns.resize(step.number + 1, Touched::default());
            }
            self.turns[step.number].add((buffer, writes), footprint[depth + 1], whole);
        }
        self.records.push(Record {
            buffer,
            writes,
            whole,
            path: steps.iter().map(|step| step.number).collect(),
            turns: steps.iter().map(|step| step.turns as f64).collect(),
            footprint,
            crowd,
            run: met[0].streamed(element, line),
        });
    }

    /// Cycles that the accesses take besides those of the instructions: where each level waits for
    /// the next; and where what lies side by side is read ahead, so that all move it at once.
    pub(super) fn cycles(&self, target: &Target) -> [f64; 2] {
        let machine = &target.machine;
        let streamed = machine.stream_bytes_per_ns / machine.cycles_per_ns;
        let touched = self.touched();
        let levels = [
            (Keeping::of(self, &machine.l1, &touched), &machine.l2),
            (Keeping::of(self, &machine.l2, &touched), &machine.l3),
            (Keeping::of(self, &machine.l3, &touched), &machine.memory),
        ];
        let [mut total, mut ahead] = [0.0; 2];
        let line = machine.line_bytes as f64;
        for (at, record) in self.records.iter().enumerate() {
            let mut streams = record.run >= STREAM;
            let (mut sum, mut most) = (0.0, 0.0f64);
            let mut brought = [(0.0, false); 3];
            for (number, (keeping, _)) in levels.iter().enumerate() {
                let crowd = record.crowd.get(number).map(|crowd| &crowd[..]);
                let Brought { bytes, covers, again } = self.brought(at, keeping, crowd);
                streams |= covers && record.whole >= STREAM;
                brought[number] = (bytes, again);
            }
            for (number, ((bytes, again), (_, from))) in
                brought.into_iter().zip(&levels).enumerate()
            {
                let reads = if number == 2 && streams { streamed } else { from.reads };
                let own = bytes
                    / match record.writes {
                        true if again => line / machine.line_driven_out,
                        true => from.writes.min(reads),
                        false => reads,
                    };
                sum += own;
                most = most.max(own);
            }
            total += sum;
            ahead += if streams { most } else { sum };
        }
        [total, ahead]
    }

    /// Bytes that the kernel touches, and one turn of each loop.
    fn touched(&self) -> (f64, Vec<f64>) {
        (self.kernel.bytes(), self.turns.iter().map(Touched::bytes).collect())
    }

    /// Bytes of all buffers that are written, or read.
    pub(super) fn of_kernel(&self, written: bool) -> f64 {
        let of = self.kernel.0.iter().filter(|((_, writes), _)| *writes == written);
        of.map(|(_, bytes)| *bytes).sum()
    }

    /// What an access brings to a level, on whose sets so many lines fall, in a run of the kernel:
    /// its share of what all accesses bring that meet the same buffer in the same turns.
    fn brought(&self, at: usize, keeping: &Keeping<'_>, crowd: Option<&[f64]>) -> Brought {
        let (record, level) = (&self.records[at], keeping.level);
        let fits = |depth: usize| crowd.is_none_or(|crowd| crowd[depth] <= level.ways());
        if keeping.kernel && fits(0) {
            return Brought::default();
        }
        let mut bytes = record.footprint[record.path.len()];
        let mut again = false;
        for (depth, number) in record.path.iter().enumerate().rev() {
            let each = bytes * record.turns[depth];
            let keeps = keeping.turns[*number];
            let crowded = keeps && !fits(depth + 1) && each > record.footprint[depth];
            again |= crowded;
            bytes = if keeps && !crowded { record.footprint[depth] } else { each };
        }
        let all = keeping.beside[at].filter(|_| !again);
        let Some(all) = all else { return Brought { bytes, covers: false, again } };
        let share = (record.whole / all).min(1.0);
        Brought { bytes: bytes * share, covers: all >= record.whole, again }
    }
}

/// What a level keeps of the accesses of a kernel.
struct Keeping<'a> {
    level: &'a Level,
    /// Whether it keeps what the kernel touches.
    kernel: bool,
    /// Whether it keeps what a turn touches, of each loop.
    turns: Vec<bool>,
    /// Of each access in a loop of which it keeps what a turn touches: the bytes of all accesses
    /// that meet the same buffer in the turns of the outermost such loop.
    beside: Vec<Option<f64>>,
}

impl<'a> Keeping<'a> {
    fn of(traffic: &Traffic, level: &'a Level, (kernel, turns): &(f64, Vec<f64>)) -> Keeping<'a> {
        let turns: Vec<bool> = turns.iter().map(|bytes| level.keeps(*bytes)).collect();
        let shared = |record: &Record| {
            let turn = record.path.iter().copied().find(|number| turns[*number])?;
            Some((record.buffer, record.writes, turn))
        };
        let shared: Vec<_> = traffic.records.iter().map(shared).collect();
        let mut all: FxHashMap<_, f64> = FxHashMap::default();
        for (record, key) in traffic.records.iter().zip(&shared) {
            if let Some(key) = *key {
                *all.entry(key).or_default() += record.footprint[0];
            }
        }
        let beside = shared.iter().map(|key| Some(all[key.as_ref()?])).collect();
        Keeping { level, kernel: level.keeps(*kernel), turns, beside }
    }
}

/// What one turn of a loop touches: bytes of each buffer, read or written.
#[derive(Clone, Debug, Default)]
struct Touched(Vec<((BufferId, bool), f64)>);

impl Touched {
    /// Adds what an access touches of a buffer of so many bytes.
    fn add(&mut self, key: (BufferId, bool), bytes: f64, whole: f64) {
        match self.0.iter_mut().find(|(other, _)| *other == key) {
            Some((_, known)) => *known = (*known + bytes).min(whole),
            None => self.0.push((key, bytes)),
        }
    }

    /// All bytes; what is both read and written counts once.
    fn bytes(&self) -> f64 {
        let of = |&((buffer, writes), bytes): &((BufferId, bool), f64)| {
            let other = self.0.iter().find(|(other, _)| *other == (buffer, !writes));
            match other.map(|(_, bytes)| *bytes) {
                Some(other) if other > bytes || (other == bytes && writes) => 0.0,
                _ => bytes,
            }
        };
        self.0.iter().map(of).sum()
    }
}

#[cfg(test)]
mod tests {
    use base::Id as _;

    use super::*;

    /// What rows of 72 numbers cost, each met in parts: where a part begins among the loops, and
    /// its columns.
    fn of_rows(parts: &[(usize, i64)]) -> [f64; 2] {
        let target = Target::named("x86-64-v4").expect("a row of the table");
        let mut traffic = Traffic::default();
        for (at, &(first, columns)) in parts.iter().enumerate() {
            let step =
                |number, turns, stride| Step { number, turns, stride: Some(stride), block: None };
            let steps = [step(first, 100_000, 72), step(2 + at, columns, 1)];
            let (key, whole) = ((BufferId::new(0), false, at as u64), 28_800_000.0);
            traffic.add(&target.machine, key, [4.0, whole], &steps);
        }
        traffic.cycles(&target)
    }

    /// Cycles of pieces of 24 numbers, one in each of 1,024 rows, met four times.
    fn of_strips(apart: i64) -> f64 {
        let target = Target::named("x86-64-v3").expect("a row of the table");
        let mut traffic = Traffic::default();
        let step =
            |number, turns, stride| Step { number, turns, stride: Some(stride), block: None };
        let steps = [step(0, 4, 0), step(1, 1024, apart), step(2, 24, 1)];
        let whole = (1024 * apart * 4) as f64;
        traffic.add(&target.machine, (BufferId::new(0), false, 0), [4.0, whole], &steps);
        traffic.cycles(&target)[0]
    }

    #[test]
    fn pieces_on_few_sets_of_the_second_level_cache_come_again() {
        // 16 KiB apart they fall on four of its sets, two lines further on all of them.
        assert!(of_strips(4096) > 2.0 * of_strips(4096 + 32));
    }

    #[test]
    fn what_is_met_in_the_same_turn_comes_once() {
        let once = of_rows(&[(0, 72)]);
        for parts in [&[(0, 64), (0, 8)][..], &[(0, 72), (0, 72)], &[(0, 72), (0, 64), (0, 8)]] {
            let together = of_rows(parts);
            for (one, other) in once.into_iter().zip(together) {
                assert!((other / one - 1.0).abs() < 0.02, "{parts:?}: {together:?}, not {once:?}");
            }
        }
        // In other loops it is brought again.
        let [again, _] = of_rows(&[(0, 72), (1, 72)]);
        assert!((again / once[0] - 2.0).abs() < 0.02, "{again}, not twice {}", once[0]);
    }
}
