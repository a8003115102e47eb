//! The order in which the tiles of a sum are run.
//!
//! Each tile meets a piece of the row operand and a panel of the column operand. What the inner of
//! the outer loops walks is read again for each turn of the outer one, from the smallest cache that
//! holds all of it. Three orders are weighed: all columns for each tile of rows, all rows for each
//! panel of columns, and blocks of rows that stay in the second-level cache, all columns for each.
//! Arithmetic hides some of this traffic; what counts is which order has least of it.

use backend::Target;
use backend::tile::div_ceil;
use loops::Kernel;
use sym::Expr;

use crate::problem::Problem;
use crate::structure::Motion;

/// Groups of columns at most: rows are read again for each.
const GROUPS: i64 = 4;

/// Tiles of columns that a group has at least: so many pieces of a row are written side by side.
const GROUPED: i64 = 4;

/// A line that no neighbour goes ahead of takes as long as so many that are read in a row.
const LONE_LINE: i64 = 3;

/// Which operands move with a loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    /// Those of the rows alone.
    Rows,
    /// Those of the columns alone.
    Columns,
    /// All, or none.
    Both,
}

/// The side of a loop, given whether row and column operands move with it.
pub(super) fn side((rows, columns): (bool, bool)) -> Side {
    match (rows, columns) {
        (true, false) => Side::Rows,
        (false, true) => Side::Columns,
        _ => Side::Both,
    }
}

/// What the sum reads.
#[derive(Clone, Debug, Default)]
pub(super) struct Reuse {
    /// Bytes of the operands that move with the rows.
    pub(super) row_bytes: i64,
    /// Bytes of those that move with the columns alone.
    pub(super) column_bytes: i64,
    /// Bytes that are written.
    pub(super) result_bytes: i64,
    /// The other loops: axis, side, extent.
    pub(super) others: Vec<(usize, Side, i64)>,
}

/// How many tiles there are along both axes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tiles {
    pub(super) rows: i64,
    pub(super) columns: i64,
    /// Blocks of rows, each a part of the tiles.
    pub(super) blocks: i64,
    /// Whether the last tile of rows overlaps the one before it.
    pub(super) overlap: bool,
    /// Groups of columns that may be walked one after the other, each with all rows.
    pub(super) groups: i64,
}

/// An order of the loops around a tile.
#[derive(Clone, Debug)]
pub(super) struct Order {
    columns_first: bool,
    /// Where tiles of rows overlap: groups of columns, of which all are met tile of rows by tile of
    /// rows before the next group is.
    pub(super) groups: i64,
    /// Everything else is run for a tile of columns before the next one: windows over all columns
    /// would be read again from the second-level cache.
    pub(super) columns_outermost: bool,
    /// Rows outside of what moves both operands: its slices of a row share lines of the cache, so
    /// that a row comes once for all of them.
    pub(super) slices_in_rows: bool,
    /// The other loops by axis.
    pub(super) others: Vec<(usize, Side)>,
}

/// Names of the loops around a tile.
pub(super) struct Loops {
    pub(super) shared: Vec<String>,
    pub(super) rows: Vec<String>,
    pub(super) columns: Vec<String>,
    pub(super) block: Option<String>,
    pub(super) row_tiles: Option<String>,
    pub(super) column_groups: Option<String>,
    pub(super) column_tiles: Option<String>,
}

impl Order {
    /// Has all rows meet a tile of columns before the next one is met.
    pub(super) fn meet_columns_once(&mut self) {
        (self.columns_first, self.groups, self.columns_outermost) = (true, 1, false);
    }

    /// The loops in this order, outermost first. Tiles of rows that overlap cannot be shared among
    /// workers, so they come last.
    pub(super) fn arrange(&self, overlapping: bool, loops: Loops) -> Vec<String> {
        let Loops { shared, mut rows, columns, block, row_tiles, .. } = loops;
        let (column_groups, column_tiles) = (loops.column_groups, loops.column_tiles);
        let outer_rows = if self.slices_in_rows { std::mem::take(&mut rows) } else { Vec::new() };
        let columns: Vec<String> = columns.into_iter().chain(column_tiles).collect();
        let blocked = block.is_some();
        let (before, after): (Vec<String>, Vec<String>) =
            match (blocked, column_groups.is_none() && (self.columns_first || overlapping)) {
                // Blocks of rows, then columns, then the tiles of the block.
                (true, _) => {
                    (rows.into_iter().chain(block).collect(), row_tiles.into_iter().collect())
                }
                (false, true) => (Vec::new(), rows.into_iter().chain(row_tiles).collect()),
                (false, false) => {
                    let rows = column_groups.into_iter().chain(rows).chain(row_tiles);
                    (rows.collect(), Vec::new())
                }
            };
        match self.columns_outermost {
            true => [columns, outer_rows, shared, before, after].concat(),
            false => [outer_rows, shared, before, columns, after].concat(),
        }
    }
}

/// The better order, and the cycles its traffic takes.
pub(super) fn best(reuse: &Reuse, tiles: &Tiles, target: &Target) -> (Order, f64) {
    let extent = |side: Side| {
        let of_side = reuse.others.iter().filter(move |(_, own, _)| *own == side);
        of_side.map(|(_, _, extent)| *extent).product::<i64>() as f64
    };
    let shared = extent(Side::Both);
    let (rows, columns) = (reuse.row_bytes as f64 / shared, reuse.column_bytes as f64 / shared);
    let row_tiles = tiles.rows as f64 * extent(Side::Rows);
    let column_tiles = tiles.columns as f64 * extent(Side::Columns);
    let panel = columns / column_tiles;
    let again = |bytes: f64| target.machine.cycles_to_read_again(bytes);
    // Of a result that no cache keeps a tile of columns is written in pieces that lie apart.
    let [whole, pieces] = written(reuse.result_bytes as f64, target);
    let rows_first = whole
        + row_tiles * columns * again(columns)
        + column_tiles * rows * again(rows / row_tiles);
    let columns_first =
        pieces + column_tiles * rows * again(rows) + row_tiles * columns * again(panel);
    let groups = tiles.groups as f64;
    let grouped = whole
        + row_tiles * columns * again(columns / groups)
        + groups * rows * again(rows)
        + (column_tiles - groups) * rows * again(rows / row_tiles);
    let blocks = tiles.blocks as f64 * extent(Side::Rows);
    let blocked = blocks * columns * again(columns)
        + column_tiles * rows * again(rows / blocks)
        + row_tiles * columns * again(panel);
    let others = reuse.others.iter().map(|(axis, side, _)| (*axis, *side)).collect();
    let is_grouped =
        tiles.blocks == 1 && tiles.overlap && tiles.groups > 1 && grouped < columns_first;
    let (columns_first, cycles) = match tiles.blocks > 1 {
        true => (false, blocked),
        false => (columns_first < rows_first, columns_first.min(rows_first)),
    };
    let groups = if is_grouped { tiles.groups } else { 1 };
    let (columns_outermost, slices_in_rows) = (false, false);
    (Order { columns_first, groups, columns_outermost, slices_in_rows, others }, cycles * shared)
}

/// Cycles to write so many bytes that no cache keeps, from one end to the other and in pieces.
fn written(bytes: f64, target: &Target) -> [f64; 2] {
    let machine = &target.machine;
    match machine.l3.keeps(bytes) {
        true => [0.0; 2],
        false => [machine.stream_bytes_per_ns / machine.cycles_per_ns, machine.memory.writes]
            .map(|rate| bytes / rate),
    }
}

/// Groups of at least [`GROUPED`] tiles of columns that workers share, at most [`GROUPS`].
pub(super) fn column_groups(columns: i64) -> i64 {
    let divides = |groups: &i64| columns % groups == 0 && columns / groups >= GROUPED;
    (1..=GROUPS).rev().find(divides).unwrap_or(1)
}

/// The numbers of blocks to consider for a row axis: one, and those whose rows fit half of the
/// second-level cache but are as large as may be.
pub(super) fn block_counts(reuse: &Reuse, rows: i64, target: &Target, staged: bool) -> Vec<i64> {
    let outside: i64 = reuse
        .others
        .iter()
        .filter(|(_, side, _)| *side != Side::Columns)
        .map(|(_, _, extent)| *extent)
        .product();
    let bytes = reuse.row_bytes / outside.max(1);
    let half = (target.machine.l2.bytes / 2) as i64;
    let least = div_ceil(bytes, half);
    if least <= 1 && !staged {
        return vec![1];
    }
    let counts =
        (least.max(2)..=least.max(2) * 4).filter(|count| rows % count == 0 && rows / count >= 8);
    let mut counts: Vec<i64> = counts.collect();
    if !staged || counts.is_empty() {
        counts.push(1);
    }
    counts
}

/// Whether the rows' operand moves with an axis of both by so little that slices beside each other
/// lie in the same lines, or in two that come together.
pub(super) fn shares_lines(
    problem: &Problem,
    kernel: &Kernel,
    reuse: &Reuse,
    row: Option<usize>,
    target: &Target,
) -> bool {
    let both = reuse.others.iter().filter(|(_, side, _)| *side == Side::Both);
    let Some(row) = row.and_then(|row| problem.axes[row].update.as_ref()) else { return false };
    { both }.filter_map(|(at, _, _)| problem.axes[*at].update.as_ref()).any(|by| {
        problem.update.loads().filter(|access| access.motion(row) != Motion::Still).any(|access| {
            let bits = i64::from(kernel.buffers[access.buffer].dtype.bits());
            let Motion::Steady { stride, block: None } = access.motion(by) else { return false };
            (1..=2 * target.machine.line_bytes).contains(&(stride.abs() * bits / 8))
        })
    })
}

/// Whether all of a tile of columns is to be run before the next one, since neighbours along an
/// axis other than the tile's own share windows of many rows. Of all columns together these rows
/// come from the second-level cache, once for each of them; those of a tile of columns stay in the
/// first-level cache, but come a line at a time, which takes as long as [`LONE_LINE`] that follow
/// each other.
pub(super) fn columns_outermost(
    problem: &Problem,
    kernel: &Kernel,
    of_tile: [Option<usize>; 2],
    target: &Target,
) -> bool {
    let machine = &target.machine;
    let others = (0..problem.axes.len()).filter(|at| !of_tile.contains(&Some(*at)));
    others.filter_map(|at| problem.axes[at].update.as_ref()).any(|by| {
        problem.update.loads().any(|access| {
            let buffer = &kernel.buffers[access.buffer];
            let windowed = |(index, extent): (&Expr, &Expr)| -> Option<(i64, i64)> {
                let taps = problem.reduced.iter().find(|found| index.contains(found.variable))?;
                index.contains(by.variable).then(|| (taps.extent, kernel.weight(extent).max(1)))
            };
            let mut windows = access.index.iter().zip(&buffer.shape);
            let Some((taps, rows)) = windows.find_map(windowed) else { return false };
            let width = i64::from(buffer.dtype.bits()) / 8;
            let count: i64 = buffer.shape.iter().map(|extent| kernel.weight(extent)).product();
            let row = count * width / rows;
            // Points of a row lie so far apart.
            let apart = problem.reduced.iter().filter_map(|found| match access.motion(found) {
                Motion::Steady { stride, .. } => Some(stride.abs() * width),
                Motion::Still | Motion::Irregular => None,
            });
            let Some(apart) = apart.filter(|apart| *apart >= machine.line_bytes).min() else {
                return false;
            };
            let sets = machine.l1.sets_of(apart, machine.line_bytes);
            let kept = sets.map_or(f64::INFINITY, |sets| sets as f64 * machine.l1.ways());
            let lines = (taps * row / apart) as f64;
            taps - 1 > LONE_LINE && !machine.l1.keeps((taps * row) as f64) && lines <= kept
        })
    })
}
