//! The cost of register tiles, from the target row alone.
//!
//! A tile of `rows` x `vectors` accumulators does, for each step of the sum, one fused multiply-add
//! (or an [instruction](crate::Instruction) that takes several terms) an accumulator, one load a
//! vector of the operand that carries the vector axis, and one broadcast a row. Whichever of
//! arithmetic, loads and the latency of the accumulators takes longest is what a step costs;
//! vectors of a panel that does not stay in the first-level cache come from the second, and rows of
//! a large operand that lie apart cost a start each. Where one instruction starts after the other,
//! a step takes arithmetic and loads together. Source: the usual model of a GotoBLAS
//! micro-kernel (Low et al., "Analytical Modeling Is Enough for High-Performance BLIS", 2016),
//! reduced to what our fixed order of sums leaves open.

use crate::instruction::InstructionCost;
use crate::target::Target;

/// Cycles to bring a line that each step needs anew from the second-level cache.
const LINE_OF_ROWS: f64 = 1.0;

/// How much dearer a multiply-add is where a row's broadcast serves no other.
const SINGLE_VECTOR: f64 = 1.25;

/// What a tile costs besides its sums: filling and storing accumulators, loop overhead, in cycles.
const TILE_OVERHEAD: f64 = 12.0;

/// A register tile.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tile {
    /// Rows: each is a broadcast, or a vector of its own where both operands carry the vector axis.
    pub rows: i64,
    /// Vectors along the vector axis.
    pub vectors: i64,
}

/// What is to be covered with tiles.
#[derive(Clone, Copy, Debug, Default)]
pub struct Area {
    /// Extent of the row axis.
    pub rows: i64,
    /// Extent of the vector axis, in elements.
    pub columns: i64,
    /// Elements in a vector.
    pub lanes: i64,
    /// Steps of each sum: terms, or what an instruction takes of them at once.
    pub depth: i64,
    /// The instruction that takes a step, if it is not a multiply-add.
    pub instruction: Option<InstructionCost>,
    /// The largest tile that all extents allow which there may be, where they are free.
    pub most: Option<Tile>,
    /// How many tiles there are along axes other than the rows, for workers to share.
    pub shared: i64,
    /// Whether an operand moves along rows and vectors, so that every accumulator has a load.
    pub elementwise: bool,
    /// Whether vectors of the operand that carries the vector axis begin anywhere in a line.
    pub unaligned: bool,
    /// Whether each step reads a row elsewhere in an operand larger than the second-level cache.
    pub scattered_rows: bool,
    /// Lines from one row to the next, of an operand of the rows of which each step meets other
    /// lines and that does not stay in the first-level cache.
    pub lines_between_rows: Option<f64>,
    /// Rows of which the first-level cache keeps a line each, where they fall on few of its sets.
    pub rows_kept: Option<i64>,
    /// Bytes of the result, all of which tiles store.
    pub stored_bytes: f64,
    /// Windows whose elements are converted as they are loaded, once for all that meets them in a
    /// tile.
    pub window: Option<Window>,
}

/// Neighbouring terms of a sum that meet again what other rows of a tile meet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// How many terms.
    pub taps: i64,
    /// By how many elements of the window the next row is farther on.
    pub step: i64,
}

impl Window {
    /// The elements that so many rows meet, each once.
    #[must_use]
    pub fn elements(self, rows: i64) -> i64 {
        self.step * (rows - 1) + self.taps
    }
}

impl Tile {
    /// Whether the accumulators, the vectors and a broadcast fit the target's registers. The
    /// vectors of a single row are needed one after the other.
    #[must_use]
    pub fn fits(self, target: &Target) -> bool {
        let loaded = if self.rows == 1 { 1 } else { self.vectors };
        self.rows * self.vectors + loaded < i64::from(target.vector_registers)
    }

    /// As [`Self::fits`]; of a window, the elements and the factors of a row's terms besides.
    #[must_use]
    pub fn fits_area(self, target: &Target, area: &Area) -> bool {
        let held = area.window.map_or(0, |window| 2 * window.taps * self.vectors);
        let registers = i64::from(target.vector_registers);
        self.fits(target) && self.rows * self.vectors + held < registers
    }

    /// Cycles for one step of the sum.
    fn step(self, target: &Target, area: &Area) -> f64 {
        let accumulators = (self.rows * self.vectors) as f64;
        // Each element of a window is loaded once for all its terms.
        let loaded = area
            .window
            .map(|window| (window.elements(self.rows) * self.vectors) as f64 / window.taps as f64);
        let each = if area.elementwise { accumulators } else { 0.0 };
        let vectors = self.vectors as f64 + loaded.unwrap_or(each);
        let broadcasts = if area.elementwise { 0.0 } else { self.rows as f64 };
        let cost = area.instruction.unwrap_or_else(|| target.machine.multiply_add());
        let loads = broadcasts / target.machine.loads_per_cycle
            + vectors * self.cycles_of_load(target, area)
            + (broadcasts + vectors) * cost.prepared;
        let single = area.lanes > 1 && self.vectors == 1 && broadcasts > 1.0;
        let converted = loaded.unwrap_or(0.0) / f64::from(target.machine.fma_per_cycle);
        let sums = accumulators * cost.cycles * if single { SINGLE_VECTOR } else { 1.0 };
        let arithmetic = sums + converted;
        // An accumulator takes part once a latency.
        let cycles = match target.machine.is_serial() {
            true => arithmetic + loads,
            false => arithmetic.max(loads),
        };
        let cycles = cycles.max(f64::from(cost.latency));
        let rows = self.rows as f64;
        let mut lines = area.lines_between_rows.map_or(0.0, |apart| 1.0 + (rows - 1.0) * apart);
        if area.rows_kept.is_some_and(|kept| self.rows > kept) {
            lines = lines.max(rows);
        }
        let start = if area.scattered_rows { target.machine.start_elsewhere } else { 0.0 };
        cycles + lines * LINE_OF_ROWS + start
    }

    /// Cycles to load a vector of the operand that carries the vector axis.
    fn cycles_of_load(self, target: &Target, area: &Area) -> f64 {
        let panel = self.vectors * i64::from(target.vector_bytes) * area.depth;
        let parts = if area.unaligned { target.machine.unaligned_load } else { 1.0 };
        match target.machine.l1.keeps(panel as f64) {
            true => parts / target.machine.loads_per_cycle,
            false => f64::from(target.vector_bytes) / target.machine.l2.reads,
        }
    }

    /// Cycles to cover an area, edges included.
    #[must_use]
    pub fn cycles(self, target: &Target, area: &Area) -> f64 {
        let tiles =
            div_ceil(area.rows, self.rows) * div_ceil(area.columns, self.vectors * area.lanes);
        let stored = self.overhead() + self.cycles_held_up(target, area);
        tiles as f64 * (self.step(target, area) * area.depth as f64 + stored)
    }

    /// Cycles for which the stores of a tile hold up loads.
    fn cycles_held_up(self, target: &Target, area: &Area) -> f64 {
        let machine = &target.machine;
        if machine.l2.keeps(area.stored_bytes) {
            return 0.0;
        }
        let bytes = self.rows * self.vectors * i64::from(target.vector_bytes);
        let more = (bytes / machine.line_bytes - machine.lines_stored).max(0) as f64;
        let line = machine.line_bytes as f64 / machine.home(area.stored_bytes).writes;
        more * machine.line_held_up * line
    }

    fn overhead(self) -> f64 {
        TILE_OVERHEAD + 2.0 * (self.rows * self.vectors) as f64
    }
}

/// The cheapest tile for an area. `vectors` fixes the width where the format has chosen it.
#[must_use]
pub fn best_tile(target: &Target, area: &Area, vectors: Option<i64>) -> Tile {
    let most = area.most.unwrap_or(Tile { rows: i64::MAX, vectors: i64::MAX });
    let widest = div_ceil(area.columns, area.lanes);
    let widths: Vec<i64> = match vectors {
        Some(fixed) => vec![fixed],
        None => (1..=widest.min(most.vectors).min(i64::from(target.vector_registers))).collect(),
    };
    let mut best = (f64::INFINITY, Tile { rows: 1, vectors: 1 });
    for vectors in widths {
        let most_rows = area.rows.min(most.rows).min(i64::from(target.vector_registers));
        for rows in 1..=most_rows {
            let tile = Tile { rows, vectors };
            if rows * vectors > 1 && !tile.fits_area(target, area) {
                break;
            }
            let whole = area.rows % rows == 0 && most.rows == i64::MAX;
            let overlap = rows < area.rows && !whole;
            let cycles = tile.cycles(target, area) * overlap_penalty(area, overlap);
            // At equal cost the larger tile reads its operands less often.
            let larger = rows * vectors > best.1.rows * best.1.vectors;
            if cycles < best.0 * 0.999 || (cycles <= best.0 * 1.001 && larger) {
                best = (cycles.min(best.0), tile);
            }
        }
    }
    best.1
}

/// Tiles of rows that overlap are run by one worker, so they are worse the less there is besides
/// them to share.
fn overlap_penalty(area: &Area, overlap: bool) -> f64 {
    match overlap {
        true if area.shared < 16 => 1.2,
        true => 1.01,
        false => 1.0,
    }
}

/// Reads of each element from which on a product copies the panels of an operand that does not lie
/// as its tiles read it: each copy serves several tiles of rows.
pub const READS_PER_PANEL: i64 = 48;

/// Bytes from which on an operand's panels are copied in the product: a copy of all of it would go
/// through memory, and be read from there again.
pub const COPIED_IN_PANELS: i64 = 1 << 20;

/// Whether a product that meets each element of an operand so often, one of so many bytes, copies
/// it panel by panel into a cache, rather than have all of it copied ahead.
#[must_use]
pub fn copies_panels(reads: i64, bytes: i64) -> bool {
    reads >= READS_PER_PANEL && bytes >= COPIED_IN_PANELS
}

/// How many pieces of `b` cover `a`, for an `a` that is not negative.
#[must_use]
pub fn div_ceil(a: i64, b: i64) -> i64 {
    (a - 1).div_euclid(b) + 1
}
