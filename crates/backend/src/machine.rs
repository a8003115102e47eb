//! What code costs on a processor: the one place where numbers about it stand. Choices of
//! schedules and formats read them, and predictions.
//!
//! Rates are those of one core, in vectors of the target's full width or in bytes, a cycle.

use crate::instruction::InstructionCost;

/// A processor, as schedules and predictions see it.
#[derive(Clone, Debug, PartialEq)]
pub struct Machine {
    /// Cycles a nanosecond under load.
    pub cycles_per_ns: f64,
    /// Passes that arithmetic, a load or a store of a full vector takes through the data paths: the
    /// rates below are those of one. Two where the paths are half as wide.
    pub passes: f64,
    /// Fused multiply-adds of full vectors that can be started each cycle; products and
    /// comparisons go the same ways, sums others, of which there are as many.
    pub fma_per_cycle: u32,
    /// Arithmetic of full vectors that can be started each cycle, all kinds together.
    pub arithmetic_per_cycle: f64,
    /// Cycles until a fused multiply-add's result can be used.
    pub fma_latency: u32,
    /// Vector loads that can be started each cycle.
    pub loads_per_cycle: f64,
    /// Vector stores that can be started each cycle.
    pub stores_per_cycle: f64,
    /// How many times as long loads take that begin anywhere in a line.
    pub unaligned_load: f64,
    /// How many times as long stores take that do.
    pub unaligned_store: f64,
    /// Rearrangements of a vector's lanes that can be started each cycle.
    pub permutes_per_cycle: f64,
    /// Whether comparisons go the way of rearrangements alone.
    pub compares_as_permutes: bool,
    /// Scalar loads that can be started each cycle; half as many stores.
    pub scalar_loads_per_cycle: f64,
    /// Instructions of any kind that can be started each cycle.
    pub instructions_per_cycle: f64,
    /// Instructions that can be under way at once.
    pub looks_ahead: f64,
    /// Cycles for a division or square root of a full vector.
    pub cycles_of_division: f64,
    /// How many products of floats a product of integers of 32 bits takes as long as.
    pub product_of_integers: f64,
    /// The same of integers of 64 bits, where an instruction computes it.
    pub product_of_long_integers: f64,
    /// Cycles for each element that a gather brings, which nothing else is started in.
    pub cycles_of_gather: f64,
    /// What rounding a vector of f32 to bfloat16 and back takes, in instructions of which
    /// `arithmetic_per_cycle` are started: the bit that is rounded to, the sum, what keeps NaN.
    pub rounding_to_bf16: f64,
    /// What instructions of the table take, by their names, where that is not what they take on
    /// other processors of their instruction set.
    pub costs: &'static [(&'static str, InstructionCost)],
    /// Cycles from a store until a load of what was stored has it.
    pub store_to_load: f64,
    /// Cycles before the first byte is there of what lies elsewhere in a large operand: what is
    /// left of the latency of a page's address and its first line.
    pub start_elsewhere: f64,
    /// Lines that may be stored one after the other to memory beyond the second-level cache without
    /// loads being held up: those and the ones that loads bring share what can be on its way at
    /// once.
    pub lines_stored: i64,
    /// How many times as long as its bytes take each line more holds up: it is fetched first, and
    /// the line that it displaces is written back.
    pub line_held_up: f64,
    /// Cycles that a store waits whose line others have driven out of the set that they share.
    pub line_driven_out: f64,
    /// Bytes of a line of the caches.
    pub line_bytes: i64,
    /// Bytes from which on two accesses count as elsewhere: half a page, which prefetchers that
    /// follow streams do not leave and those that watch an instruction do not look across.
    pub near_bytes: i64,
    /// First-level data cache, of a core.
    pub l1: Level,
    /// Second-level cache, of a core.
    pub l2: Level,
    /// Last-level cache, shared.
    pub l3: Level,
    /// Nanoseconds after which, of what nobody asked for meanwhile, a share of 1/e is left in the
    /// last-level cache: other processors that share it take the place.
    pub l3_stays_ns: f64,
    /// Memory, where what is asked for lies in pieces.
    pub memory: Level,
    /// Bytes a nanosecond that one core reads from memory in one stream.
    pub stream_bytes_per_ns: f64,
}

/// A level of the memory.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Level {
    /// What it holds.
    pub bytes: u64,
    /// Of that the share which stays while other data pass by.
    pub usable: f64,
    /// Bytes that come from it each cycle.
    pub reads: f64,
    /// Bytes that go to it each cycle.
    pub writes: f64,
    /// Bytes apart at which lines fall on one of its sets; none where any line may lie anywhere, or
    /// sets are not told by addresses in a simple way.
    pub set_bytes: Option<i64>,
}

impl Level {
    /// Whether so many bytes stay there while other data pass by.
    #[must_use]
    pub fn keeps(&self, bytes: f64) -> bool {
        bytes <= self.bytes as f64 * self.usable
    }

    /// Lines that a set keeps.
    #[must_use]
    pub fn ways(&self) -> f64 {
        self.set_bytes.map_or(f64::INFINITY, |set| self.bytes as f64 / set as f64)
    }

    /// Whether rows so many bytes apart, which are not negative, fall on one of its sets.
    #[must_use]
    pub fn collide(&self, apart: i64) -> bool {
        self.set_bytes.is_some_and(|set| apart > 0 && apart % set == 0)
    }

    /// On how many of its sets lines fall that are so many bytes apart, each of `line` bytes.
    #[must_use]
    pub fn sets_of(&self, apart: i64, line: i64) -> Option<i64> {
        let set = self.set_bytes?;
        let (mut common, mut rest) = (set, apart.abs());
        while rest > 0 {
            (common, rest) = (rest, common % rest);
        }
        Some(set / common.max(line))
    }
}

impl Machine {
    /// Whether it starts one instruction after the other, so that loads and arithmetic do not hide
    /// each other.
    #[must_use]
    pub fn is_serial(&self) -> bool {
        self.instructions_per_cycle <= 1.0
    }

    /// What a fused multiply-add takes.
    #[must_use]
    pub fn multiply_add(&self) -> InstructionCost {
        let cycles = 1.0 / f64::from(self.fma_per_cycle);
        InstructionCost { cycles, latency: self.fma_latency, prepared: 0.0 }
    }

    /// The smallest level that keeps so many bytes.
    #[must_use]
    pub fn home(&self, bytes: f64) -> &Level {
        let levels = [&self.l1, &self.l2, &self.l3];
        levels.into_iter().find(|level| level.keeps(bytes)).unwrap_or(&self.memory)
    }

    /// Cycles to read a byte again from the smallest level that keeps so many bytes. From the first
    /// one that takes no longer than the load itself.
    #[must_use]
    pub fn cycles_to_read_again(&self, bytes: f64) -> f64 {
        if self.l1.keeps(bytes) { 0.0 } else { 1.0 / self.home(bytes).reads }
    }

    /// Cycles to hand a byte on, written by one kernel and read by the next, of so many bytes; the
    /// least is by way of the second-level cache.
    #[must_use]
    pub fn cycles_to_hand_on(&self, bytes: f64) -> f64 {
        let level = if self.l2.keeps(bytes) { &self.l2 } else { self.home(bytes) };
        1.0 / level.writes + 1.0 / level.reads
    }

    /// Cycles to read so many bytes once, from the level that keeps them; from the second at best,
    /// from memory in one stream.
    #[must_use]
    pub fn cycles_to_move(&self, bytes: f64) -> f64 {
        let level = [&self.l2, &self.l3].into_iter().find(|level| level.keeps(bytes));
        bytes / level.map_or(self.stream_bytes_per_ns / self.cycles_per_ns, |level| level.reads)
    }

    /// The machine with the caches that a processor has, as far as it tells, from the first level
    /// to the third; without room for anything else in between.
    #[must_use]
    pub fn with_caches(mut self, caches: [Option<u64>; 3]) -> Machine {
        for (level, bytes) in [&mut self.l1, &mut self.l2, &mut self.l3].into_iter().zip(caches) {
            level.bytes = bytes.filter(|bytes| *bytes > 0).unwrap_or(level.bytes);
        }
        self
    }

    /// The same where the widest vectors pass in two halves, as in servers of the generation
    /// before.
    #[must_use]
    pub fn at_half_width(self) -> Machine {
        Machine { passes: 2.0, cycles_per_ns: 3.7, stream_bytes_per_ns: 26.0, ..self }
    }

    /// The row of the table for a core of a server that has AVX-512 with full-width data paths.
    #[must_use]
    pub(crate) fn server() -> Machine {
        Machine {
            cycles_per_ns: 4.218_75,
            passes: 1.0,
            fma_per_cycle: 2,
            arithmetic_per_cycle: 4.0,
            fma_latency: 4,
            loads_per_cycle: 2.0,
            stores_per_cycle: 1.0,
            unaligned_load: 1.6,
            unaligned_store: 1.3,
            permutes_per_cycle: 1.0,
            compares_as_permutes: false,
            scalar_loads_per_cycle: 3.0,
            instructions_per_cycle: 6.0,
            looks_ahead: 320.0,
            cycles_of_division: 6.0,
            product_of_integers: 1.0,
            product_of_long_integers: 1.0,
            cycles_of_gather: 1.4,
            rounding_to_bf16: 8.0,
            costs: &[],
            store_to_load: 8.0,
            start_elsewhere: 12.0,
            lines_stored: 14,
            line_held_up: 3.0,
            line_driven_out: 11.0,
            line_bytes: 64,
            near_bytes: 2048,
            l1: Level {
                bytes: 32 << 10,
                usable: 0.5,
                reads: 128.0,
                writes: 64.0,
                set_bytes: Some(4096),
            },
            l2: Level {
                bytes: 1 << 20,
                usable: 0.6,
                reads: 48.0,
                writes: 24.0,
                set_bytes: Some(64 << 10),
            },
            l3: Level { bytes: 32 << 20, usable: 0.5, reads: 24.0, writes: 24.0, set_bytes: None },
            l3_stays_ns: f64::INFINITY,
            memory: Level {
                bytes: u64::MAX,
                usable: 1.0,
                reads: 5.0,
                writes: 5.0,
                set_bytes: None,
            },
            stream_bytes_per_ns: 40.0,
        }
    }

    /// The row for a core of a server whose last-level cache lies in slices on a mesh of many
    /// cores, far from each of them, behind a second level that is large. Arithmetic goes the same
    /// two ways as multiply-adds.
    #[must_use]
    pub(crate) fn mesh_server() -> Machine {
        let near = Machine::server();
        Machine {
            cycles_per_ns: 2.8,
            arithmetic_per_cycle: 2.0,
            unaligned_load: 2.0,
            unaligned_store: 2.2,
            compares_as_permutes: true,
            looks_ahead: 512.0,
            cycles_of_division: 10.0,
            product_of_integers: 2.0,
            product_of_long_integers: 3.0,
            cycles_of_gather: 0.6,
            costs: &[("dot_bf16_2", InstructionCost { cycles: 2.0, latency: 10, prepared: 0.0 })],
            l1: Level { bytes: 48 << 10, ..near.l1 },
            l2: Level { bytes: 2 << 20, writes: 16.0, set_bytes: Some(128 << 10), ..near.l2 },
            l3: Level { bytes: 256 << 20, usable: 0.25, reads: 9.3, writes: 8.7, ..near.l3 },
            l3_stays_ns: 3e7,
            memory: Level { reads: 3.0, writes: 2.7, ..near.memory },
            stream_bytes_per_ns: 15.0,
            lines_stored: 16,
            ..near
        }
    }

    /// The row for a core whose widest vectors are of 256 bits, as servers had before AVX-512 came
    /// to all of them.
    #[must_use]
    pub(crate) fn narrow_server() -> Machine {
        let wide = Machine::server();
        Machine {
            cycles_per_ns: 3.0,
            unaligned_load: 1.2,
            unaligned_store: 1.4,
            looks_ahead: 256.0,
            cycles_of_division: 4.0,
            cycles_of_gather: 1.7,
            rounding_to_bf16: 14.0,
            l1: Level { reads: 64.0, writes: 32.0, ..wide.l1 },
            l2: Level { bytes: 512 << 10, reads: 30.0, writes: 20.0, ..wide.l2 },
            l3: Level { usable: 0.25, reads: 18.0, writes: 16.0, ..wide.l3 },
            l3_stays_ns: 2.3e6,
            memory: Level { reads: 2.5, writes: 2.5, ..wide.memory },
            stream_bytes_per_ns: 14.0,
            ..wide
        }
    }

    /// The row for a small core that starts one instruction after the other, without caches that
    /// data stay in: all memory is as near. A cycle is an instruction.
    #[must_use]
    pub(crate) fn microcontroller() -> Machine {
        let level =
            Level { bytes: 16 << 10, usable: 1.0, reads: 4.0, writes: 4.0, set_bytes: None };
        let everything = Level { bytes: u64::MAX, ..level };
        Machine {
            cycles_per_ns: 0.2,
            passes: 1.0,
            fma_per_cycle: 1,
            arithmetic_per_cycle: 1.0,
            fma_latency: 1,
            loads_per_cycle: 1.0,
            stores_per_cycle: 1.0,
            unaligned_load: 1.0,
            unaligned_store: 1.0,
            permutes_per_cycle: 1.0,
            compares_as_permutes: false,
            scalar_loads_per_cycle: 1.0,
            instructions_per_cycle: 1.0,
            looks_ahead: 1.0,
            cycles_of_division: 14.0,
            product_of_integers: 1.0,
            product_of_long_integers: 1.0,
            cycles_of_gather: 2.0,
            rounding_to_bf16: 8.0,
            costs: &[],
            store_to_load: 1.0,
            start_elsewhere: 1.0,
            lines_stored: 1,
            line_held_up: 1.0,
            line_driven_out: 1.0,
            line_bytes: 32,
            near_bytes: 1 << 20,
            l1: everything,
            l2: everything,
            l3: everything,
            l3_stays_ns: f64::INFINITY,
            memory: everything,
            stream_bytes_per_ns: 0.8,
        }
    }
}
