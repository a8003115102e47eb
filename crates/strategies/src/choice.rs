//! What `tile` chooses: the axis of vectors and that of rows, the register tile, the order in which
//! tiles are run, from how each operand of the sum lies along the axes.

use backend::Target;
use backend::tile::{Area, Tile, best_tile, copies_panels, div_ceil};
use loops::{BufferId, Kernel};
use schedule::Tail;
use sym::Expr;

use crate::given::Refused;
use crate::order::{self, Order, Reuse, Side};
use crate::point::Point;
use crate::problem::{Axis, Problem, instructions, tuple, window};
use crate::structure::{Access, LoopInfo, Motion};

/// Points of a space that are listed at most.
const MOST_LISTED: usize = 24;

/// Cycles to store one element of a vector whose elements lie apart.
const SCATTERED: f64 = 4.0;

/// What was chosen.
pub(super) struct Choice {
    pub(super) vector: usize,
    pub(super) row: Option<usize>,
    pub(super) tile: Tile,
    /// Elements of a vector.
    pub(super) lanes: i64,
    /// Elements of the vector loop.
    pub(super) width: i64,
    /// The tail of the vector split: packed panels cannot be shifted.
    pub(super) tail: Tail,
    /// The row axis is cut into so many blocks before it is cut into tiles.
    pub(super) blocks: i64,
    pub(super) order: Order,
    /// Buffers to be copied block by block, because their rows fall on the same cache sets.
    pub(super) staged: Vec<BufferId>,
    /// Rows of which the first-level cache keeps a line each, where they are not copied.
    pub(super) rows_kept: Option<i64>,
    /// The loop over a window's terms, which is written out inside of the rows.
    pub(super) taps: Option<String>,
    /// Other axes along which the operand of the columns stands still, all of whose elements are in
    /// the tile: what a tile makes of that operand serves them, too.
    pub(super) inner: Vec<usize>,
}

impl Choice {
    /// Takes other axes of the rows into the tile, as far as registers hold their sums, where the
    /// tile has all rows.
    pub(super) fn take_others(&mut self, problem: &Problem, target: &Target) {
        let whole = self.row.is_some_and(|row| problem.axes[row].last.extent == self.tile.rows);
        let Tile { mut rows, vectors } = self.tile;
        let others = std::mem::take(&mut self.order.others);
        for (at, side) in others {
            let own = &problem.axes[at].last;
            let fits = Tile { rows: rows * own.extent, vectors }.fits(target);
            let is_taken = whole && fits && side == Side::Rows && !own.is_free();
            if is_taken && own.extent > 1 && problem.axes[at].update.is_some() {
                rows *= own.extent;
                self.inner.push(at);
            } else {
                self.order.others.push((at, side));
            }
        }
    }

    /// The names of the buffers that are copied.
    pub(super) fn staged_names(&self, kernel: &Kernel) -> Vec<String> {
        self.staged.iter().map(|id| kernel.buffers[*id].name.clone()).collect()
    }
}

/// The pair of axes, the tile and the order of tiles that should take least time.
pub(super) fn choose(
    problem: &Problem,
    kernel: &Kernel,
    target: &Target,
    point: &Point,
) -> Result<Choice, Refused> {
    let pairs = pairs(problem, kernel, target, point);
    let found = cheapest(&pairs).and_then(|at| pairs.into_iter().nth(at));
    found.map(|(_, choice)| choice).ok_or_else(|| match point.choices.is_empty() {
        true => "no axis is contiguous in an operand".into(),
        false => "its axes cannot be cut so".into(),
    })
}

/// Points of pairs of axes other than the one that is chosen, which should take less than so many
/// cycles, best first.
pub(super) fn rivals(
    problem: &Problem,
    kernel: &Kernel,
    target: &Target,
    (sketch, than): (&str, f64),
) -> Vec<Point> {
    let mut pairs = pairs(problem, kernel, target, &Point::of(sketch));
    if let Some(chosen) = cheapest(&pairs) {
        pairs.remove(chosen);
    }
    pairs.retain(|(cycles, _)| *cycles < than);
    pairs.sort_by(|(one, _), (two, _)| one.total_cmp(two));
    let of = |(_, choice): (f64, Choice)| pair_point(problem, sketch, choice.vector, choice.row);
    pairs.into_iter().map(of).collect()
}

/// Of several pairs of axes the first of those that take least, or hardly more.
fn cheapest(pairs: &[(f64, Choice)]) -> Option<usize> {
    let mut best: Option<(f64, usize)> = None;
    for (at, (cycles, _)) in pairs.iter().enumerate() {
        if best.is_none_or(|(least, _)| *cycles < least * 0.99) {
            best = Some((*cycles, at));
        }
    }
    best.map(|(_, at)| at)
}

/// Each pair of axes that a point allows, with its best tile and the cycles that it should take.
fn pairs(problem: &Problem, kernel: &Kernel, target: &Target, point: &Point) -> Vec<(f64, Choice)> {
    let mut found = Vec::new();
    for vector in (0..problem.axes.len()).rev() {
        if !point.allows_name(ALONG, &problem.axes[vector].last.name) {
            continue;
        }
        let Some(along) = vector_motions(problem, kernel, vector, target) else { continue };
        let storing = cost_of_stores(problem, vector);
        let rows = rows_for(problem, vector);
        for &row in &rows {
            if !point.allows_name(ROWS_ALONG, name_of(problem, row)) {
                continue;
            }
            let axes = Axes { vector, row, along: &along };
            let Some((cost, choice)) = candidate(problem, kernel, target, &axes, point) else {
                continue;
            };
            let short = |axis: usize, size| may_be_short(&problem.axes[axis].last, size);
            let short_rows = match row {
                Some(row) => short(row, choice.tile.rows),
                // One row is no better where none of those that there may be is surely long.
                None => {
                    rows.iter().flatten().map(|&row| short(row, ROWS_OF_MANY)).fold(1.0, f64::max)
                }
            };
            let cycles = (cost + storing) * short_rows * short(vector, choice.width);
            found.push((cycles, choice));
        }
    }
    found
}

/// The point of a pair of axes.
fn pair_point(problem: &Problem, sketch: &str, vector: usize, row: Option<usize>) -> Point {
    Point::of(sketch)
        .with_name(ALONG, &problem.axes[vector].last.name)
        .with_name(ROWS_ALONG, name_of(problem, row))
}

/// Rows of a tile where there are many.
const ROWS_OF_MANY: i64 = 14;

/// How much dearer tiles count that go so far along an axis which may be shorter where it is free:
/// they take as long over the least extent as over a whole tile. The geometric mean of that and of
/// the usual extent, as neither is known to be met more often.
fn may_be_short(axis: &LoopInfo, size: i64) -> f64 {
    match axis.is_free() {
        true => (size as f64 / axis.extents.min.clamp(1, size.max(1)) as f64).sqrt(),
        false => 1.0,
    }
}

/// Choices of a point: the loop that is run in vectors, the loop whose turns are rows of a tile,
/// rows and vectors of a tile, blocks of rows.
pub(super) const ALONG: &str = "along";
pub(super) const ROWS_ALONG: &str = "rows_along";
pub(super) const ROWS: &str = "rows";
pub(super) const VECTORS: &str = "vectors";
pub(super) const BLOCKS: &str = "blocks";

/// What stands for no loop at all.
const NONE: &str = "none";

fn name_of(problem: &Problem, row: Option<usize>) -> &str {
    row.map_or(NONE, |row| &problem.axes[row].last.name)
}

/// Rows of tiles that are listed, as shares of the most that fit the registers.
const SHARES: [i64; 4] = [1, 2, 3, 4];

/// Points of a sketch's space: each pair of axes, with tiles of several sizes.
pub(super) fn points_of(
    problem: &Problem,
    kernel: &Kernel,
    target: &Target,
    sketch: &str,
) -> Vec<Point> {
    let mut found: Vec<(f64, Point)> = Vec::new();
    for vector in (0..problem.axes.len()).rev() {
        let Some(along) = vector_motions(problem, kernel, vector, target) else { continue };
        let storing = cost_of_stores(problem, vector);
        for row in rows_for(problem, vector) {
            let axes = Axes { vector, row, along: &along };
            let pair = pair_point(problem, sketch, vector, row);
            let extent = row.map_or(1, |row| problem.axes[row].last.extent);
            let registers = i64::from(target.vector_registers);
            for vectors in 1..=6 {
                let most = (registers / vectors - 1).clamp(1, extent);
                let mut rows: Vec<i64> = SHARES.map(|share| div_ceil(most, share)).to_vec();
                rows.dedup();
                for rows in rows {
                    let point = pair.clone().with_number(ROWS, rows).with_number(VECTORS, vectors);
                    let tried = candidate(problem, kernel, target, &axes, &point);
                    if let Some((cost, choice)) = tried {
                        let point = point.with_number(BLOCKS, choice.blocks);
                        found.push((cost + storing, point));
                    }
                }
            }
        }
    }
    found.sort_by(|(one, _), (two, _)| one.total_cmp(two));
    found.truncate(MOST_LISTED);
    found.into_iter().map(|(_, point)| point).collect()
}

/// Cycles that storing takes longer along an axis than along one that is contiguous in the result.
fn cost_of_stores(problem: &Problem, vector: usize) -> f64 {
    let along = &problem.axes[vector].last;
    let scattered = problem.last.writes().filter(|access| !access.motion(along).is_unit());
    let elements: i64 = problem.last.loops.iter().map(|found| found.extent).product();
    scattered.count() as f64 * elements as f64 * SCATTERED
}

/// How each load of the sum moves along a candidate for the vector axis, if all of them may.
pub(super) fn vector_motions(
    problem: &Problem,
    kernel: &Kernel,
    vector: usize,
    target: &Target,
) -> Option<Vec<Motion>> {
    let axis = &problem.axes[vector];
    // Registers hold vectors along the accumulators' last axis.
    let update = axis.update.as_ref().filter(|_| axis.place == problem.contiguous)?;
    let motions = problem.update.loads().map(|access| access.motion(update));
    // Where neighbours are used together they are what is contiguous.
    let motions: Vec<Motion> = match tuple(problem, kernel) {
        Some(found) => motions.map(|motion| motion.in_tuples(found.extent)).collect(),
        None => motions.collect(),
    };
    let packed = motions.iter().any(|motion| motion.block().is_some());
    // A panel is met whole only if the loop walks the whole axis.
    let whole = !packed || axis.last.extent == update.extent;
    let lanes = (i64::from(target.vector_bytes) / problem.lane_bytes(kernel)).max(1);
    let fits = problem.update.loads().zip(&motions).all(|(access, motion)| {
        motion.is_vector() || access.is_spread(*motion, update.variable, lanes)
    });
    (whole && fits && motions.iter().any(|motion| motion.is_unit())).then_some(motions)
}

/// The candidates for the row axis, and none. The accumulators' vectors lie along their last axis.
fn rows_for(problem: &Problem, vector: usize) -> Vec<Option<usize>> {
    let place = problem.axes[vector].place;
    let is_row = |row: &usize| {
        let axis = &problem.axes[*row];
        let Some(update) = &axis.update else { return false };
        let motions: Vec<Motion> =
            problem.update.loads().map(|access| access.motion(update)).collect();
        axis.place < place && (motions.len() < 2 || motions.contains(&Motion::Still))
    };
    let rows = (0..problem.axes.len()).rev().filter(is_row).map(Some);
    rows.chain([None]).collect()
}

/// The axes of a tile, and how each load moves with the vectors.
struct Axes<'a> {
    vector: usize,
    row: Option<usize>,
    along: &'a [Motion],
}

/// The cost in cycles of a pair of axes, with the best tile for it that a point allows.
fn candidate(
    problem: &Problem,
    kernel: &Kernel,
    target: &Target,
    &Axes { vector, row, along }: &Axes<'_>,
    point: &Point,
) -> Option<(f64, Choice)> {
    let lanes = (i64::from(target.vector_bytes) / problem.lane_bytes(kernel)).max(1);
    let columns = problem.axes[vector].last.extent;
    let panel = along.iter().find_map(|motion| motion.block());
    let rows = row.map_or(1, |row| problem.axes[row].last.extent);
    let others: i64 = problem
        .axes
        .iter()
        .enumerate()
        .filter(|(at, _)| *at != vector && Some(*at) != row)
        .map(|(_, axis)| axis.last.extent)
        .product();
    let vectors = panel.map(|panel| div_ceil(panel, lanes));
    let wanted = point.number(VECTORS);
    if vectors.is_some_and(|vectors| wanted.is_some_and(|wanted| wanted != vectors)) {
        return None;
    }
    // Tiles that overlap would begin within what serves several lanes.
    let spread = along.iter().any(|motion| !motion.is_vector());
    let even = |vectors: &i64| columns % (vectors * lanes) == 0;
    let vectors = match vectors.or(wanted) {
        None if spread => Some([2, 1].into_iter().find(even)?),
        vectors => vectors.filter(|vectors| !spread || even(vectors)),
    };
    let shared = others * div_ceil(columns, lanes * vectors.unwrap_or(2));
    let instruction = instructions(problem, kernel, target).first().map(|(_, cost)| *cost);
    let at_once = instruction.and_then(|_| tuple(problem, kernel)).map_or(1, |found| found.extent);
    let depth = problem.depth() / at_once;
    let scattered_rows = scattered_rows(problem, kernel, target, along);
    let row_update = row.and_then(|row| problem.axes[row].update.as_ref());
    // An operand that moves with rows and vectors is loaded for each accumulator.
    let moves = |access: &Access| row_update.is_some_and(|row| access.motion(row) != Motion::Still);
    let mut both = problem.update.loads().zip(along);
    let both = both.any(|(access, motion)| *motion != Motion::Still && moves(access));
    let elementwise = along.len() > 1 && (both || along.iter().all(|motion| motion.is_unit()));
    let is_product = along.len() > 1 && !elementwise;
    let lines_between_rows = row_update
        .filter(|_| !elementwise)
        .and_then(|row| lines_between_rows(problem, kernel, target, row, along));
    let free_rows = row.is_some_and(|row| problem.axes[row].last.is_free());
    let most = largest_tile(problem, vector, row, lanes);
    let found = row_update.filter(|_| elementwise).and_then(|row| window(problem, kernel, row));
    let (taps, window) = found.unzip();
    let taps = taps.flatten().map(|taps| taps.name);
    let area = Area {
        rows,
        columns,
        most,
        lanes,
        depth,
        instruction,
        shared,
        elementwise,
        unaligned: is_product && is_unaligned(problem, along, lanes),
        scattered_rows,
        lines_between_rows,
        rows_kept: None,
        stored_bytes: stored_bytes(problem, kernel),
        window,
    };
    let kept = row_update.and_then(|row| rows_kept(problem, kernel, target, row, along));
    let staged = match row_update {
        Some(update) => copied_rows(problem, kernel, target, update, along),
        None => Vec::new(),
    };
    let reuse = reuse(problem, kernel, vector, row, along);
    let outermost =
        elementwise && order::columns_outermost(problem, kernel, [Some(vector), row], target);
    let mut best: Option<(f64, Choice)> = None;
    let block_counts = match free_rows {
        true => vec![1],
        false => order::block_counts(&reuse, rows, target, !staged.is_empty()),
    };
    for blocks in block_counts {
        if !point.allows(BLOCKS, blocks) {
            continue;
        }
        // Rows that are copied do not collide.
        let rows_kept = kept.filter(|_| blocks == 1 || staged.is_empty());
        let block = Area { rows: div_ceil(rows, blocks), rows_kept, ..area };
        let tile = match (point.number(ROWS), vectors) {
            (Some(rows), Some(vectors)) => Tile { rows, vectors },
            _ => best_tile(target, &block, vectors),
        };
        let fits = tile.rows <= block.rows
            && (tile.rows * tile.vectors == 1 || tile.fits_area(target, &block));
        if point.number(ROWS).is_some_and(|rows| rows != tile.rows || !fits) {
            continue;
        }
        let arithmetic = tile.cycles(target, &block) * (blocks * others) as f64;
        let column_tiles = div_ceil(columns, tile.vectors * lanes);
        let is_free = problem.axes[vector].last.is_free();
        let tiles = order::Tiles {
            rows: blocks * div_ceil(block.rows, tile.rows),
            columns: column_tiles,
            blocks,
            overlap: !free_rows && block.rows % tile.rows != 0,
            groups: if is_free { 1 } else { order::column_groups(column_tiles) },
        };
        let (mut order, memory) = order::best(&reuse, &tiles, target);
        order.columns_outermost = outermost;
        order.slices_in_rows = order::shares_lines(problem, kernel, &reuse, row, target);
        let cost = arithmetic + memory;
        if best.as_ref().is_none_or(|(least, _)| cost < *least) {
            let width = panel.unwrap_or(tile.vectors * lanes);
            let along = &problem.axes[vector].last;
            let may_be_short = along.is_free() && along.extents.min < width;
            let guarded = panel.is_some() || may_be_short;
            let tail = if guarded { Tail::Guard } else { Tail::Shift };
            let staged = staged.clone();
            best = Some((
                cost,
                Choice {
                    vector,
                    row,
                    tile,
                    lanes,
                    width,
                    tail,
                    blocks,
                    order,
                    staged,
                    rows_kept: kept,
                    taps: taps.clone(),
                    inner: Vec::new(),
                },
            ));
        }
    }
    best
}

/// Bytes that the last nest stores.
fn stored_bytes(problem: &Problem, kernel: &Kernel) -> f64 {
    let turns: i64 = problem.last.loops.iter().map(|by| by.extent).product();
    let bits = problem.last.writes().map(|access| kernel.buffers[access.buffer].dtype.bits());
    bits.map(|bits| turns as f64 * f64::from(bits) / 8.0).sum()
}

/// Rows of a free extent below which tiles are not cut to what there always are: then the last one
/// has a condition a row.
const FEW_ROWS: i64 = 8;

/// The largest tile of which the last one can overlap the one before it whatever free extents are,
/// unless that is of few rows; none where no extent is free.
fn largest_tile(problem: &Problem, vector: usize, row: Option<usize>, lanes: i64) -> Option<Tile> {
    let least = |at: usize| {
        let axis = &problem.axes[at].last;
        if axis.is_free() { axis.extents.min.max(1) } else { i64::MAX }
    };
    let most_rows = |row: usize| match least(row) {
        // Of a short axis there are to be several tiles still.
        ..FEW_ROWS => div_ceil(problem.axes[row].last.extent, 2),
        least => least,
    };
    let (rows, columns) = (row.map_or(i64::MAX, most_rows), least(vector));
    let is_free = rows < i64::MAX || columns < i64::MAX;
    is_free.then_some(Tile { rows, vectors: (columns / lanes).max(1) })
}

/// Whether an operand that is contiguous along the vectors is met at places that are no whole
/// vectors apart.
fn is_unaligned(problem: &Problem, along: &[Motion], lanes: i64) -> bool {
    let copied = |id: BufferId| problem.copied.iter().any(|copied| copied.buffer == id);
    let apart = |access: &Access| {
        problem.update.loops.iter().any(|by| match access.motion(by) {
            Motion::Steady { stride, .. } => stride != 1 && stride % lanes != 0,
            Motion::Still | Motion::Irregular => false,
        })
    };
    let mut loads = problem.update.loads().zip(along);
    loads.any(|(access, motion)| motion.is_unit() && !copied(access.buffer) && apart(access))
}

/// Whether a large operand that carries the vector axis is met row by row as the sum goes on, a row
/// elsewhere each time.
fn scattered_rows(problem: &Problem, kernel: &Kernel, target: &Target, along: &[Motion]) -> bool {
    let copied = |id: BufferId| problem.copied.iter().any(|copied| copied.buffer == id);
    problem.update.loads().zip(along).any(|(access, motion)| {
        *motion != Motion::Still
            && !copied(access.buffer)
            && bytes_met_far_apart(problem, kernel, target, access)
                .is_some_and(|bytes| bytes as u64 > target.machine.l2.bytes)
    })
}

/// Bytes of an operand whose terms lie far apart.
fn bytes_met_far_apart(
    problem: &Problem,
    kernel: &Kernel,
    target: &Target,
    access: &Access,
) -> Option<i64> {
    let Motion::Steady { stride, .. } = access.motion(problem.reduced.last()?) else { return None };
    let buffer = &kernel.buffers[access.buffer];
    let width = i64::from(buffer.dtype.bits()) / 8;
    let elements: i64 = buffer.shape.iter().map(|extent| kernel.weight(extent)).product();
    (stride.abs() * width >= target.machine.near_bytes).then_some(elements * width)
}

/// Lines from one row to the next of an operand of the rows, where each step of the sum meets other
/// lines and those of a tile are more than the first-level cache keeps beside a panel.
fn lines_between_rows(
    problem: &Problem,
    kernel: &Kernel,
    target: &Target,
    row: &LoopInfo,
    along: &[Motion],
) -> Option<f64> {
    let innermost = problem.reduced.last()?;
    let line = target.machine.line_bytes;
    let keeps = target.machine.l1.keeps((problem.depth() * line) as f64);
    let of = |(access, motion): (&Access, &Motion)| {
        let width = i64::from(kernel.buffers[access.buffer].dtype.bits()) / 8;
        let apart = |found: &LoopInfo| match access.motion(found) {
            Motion::Steady { stride, block: None } => stride.abs() * width,
            _ => 0,
        };
        let meets_others = *motion == Motion::Still && apart(innermost) >= line;
        meets_others.then(|| apart(row).min(line) as f64 / line as f64)
    };
    if keeps {
        return None;
    }
    problem.update.loads().zip(along).find_map(of)
}

/// The row operands that tiles had better meet in a copy: whose rows fall on so few cache sets that
/// a tile of them does not stay there, or whose terms lie each on a page of its own.
fn copied_rows(
    problem: &Problem,
    kernel: &Kernel,
    target: &Target,
    row: &LoopInfo,
    along: &[Motion],
) -> Vec<BufferId> {
    let mut found = Vec::new();
    for (access, motion) in problem.update.loads().zip(along) {
        let Motion::Steady { stride, .. } = access.motion(row) else { continue };
        let bytes = stride.abs() * i64::from(kernel.buffers[access.buffer].dtype.bits()) / 8;
        let is_row = *motion == Motion::Still && row.extent >= 8;
        let meets_pages = || repays_copied_rows(problem, kernel, target, access);
        if is_row && (target.machine.l1.collide(bytes) || stride == 1 && meets_pages()) {
            found.push(access.buffer);
        }
    }
    found
}

/// Whether the terms of a large operand lie far apart, and are met often enough to repay a copy.
fn repays_copied_rows(
    problem: &Problem,
    kernel: &Kernel,
    target: &Target,
    access: &Access,
) -> bool {
    let still = problem.update.loops.iter().filter(|by| access.motion(by) == Motion::Still);
    let reads: i64 = still.map(|by| by.extent).product();
    let in_blocks = problem.reduced.last().and_then(|by| access.motion(by).block()).is_some();
    let bytes = bytes_met_far_apart(problem, kernel, target, access).filter(|_| !in_blocks);
    bytes.is_some_and(|bytes| copies_panels(reads, bytes))
}

/// How many rows of the operands that the vectors do not move have lines side by side in the
/// first-level cache.
fn rows_kept(
    problem: &Problem,
    kernel: &Kernel,
    target: &Target,
    row: &LoopInfo,
    along: &[Motion],
) -> Option<i64> {
    let machine = &target.machine;
    let ways = machine.l1.ways() as i64;
    let of = |(access, motion): (&Access, &Motion)| {
        let Motion::Steady { stride, block: None } = access.motion(row) else { return None };
        let bytes = stride.abs() * i64::from(kernel.buffers[access.buffer].dtype.bits()) / 8;
        let sets = machine.l1.sets_of(bytes, machine.line_bytes)?;
        (*motion == Motion::Still && bytes >= machine.line_bytes).then_some(ways * sets)
    };
    problem.update.loads().zip(along).filter_map(of).min()
}

/// What both sides of the sum read, for the order of tiles.
fn reuse(
    problem: &Problem,
    kernel: &Kernel,
    vector: usize,
    row: Option<usize>,
    along: &[Motion],
) -> Reuse {
    let row_loop = row.and_then(|row| problem.axes[row].update.as_ref());
    let mut reuse = Reuse::default();
    // Where everything moves along the vector axis nothing is read again for another panel.
    let streaming = along.iter().all(|motion| *motion != Motion::Still);
    for (access, motion) in problem.update.loads().zip(along) {
        let buffer = &kernel.buffers[access.buffer];
        let whole: i64 = buffer.shape.iter().filter_map(Expr::as_constant).product();
        let moving = problem.update.loops.iter().filter(|by| access.motion(by) != Motion::Still);
        let count = whole.min(moving.map(|by| by.extent).product());
        let bytes = count * i64::from(buffer.dtype.bits()) / 8;
        let moves_with_rows = row_loop.is_some_and(|row| access.motion(row) != Motion::Still);
        if streaming {
            continue;
        }
        if *motion != Motion::Still && !moves_with_rows {
            reuse.column_bytes += bytes;
        } else {
            reuse.row_bytes += bytes;
        }
    }
    let elements: i64 = problem.last.loops.iter().map(|found| found.extent).product();
    let bytes = |access: &Access| i64::from(kernel.buffers[access.buffer].dtype.bits()) / 8;
    reuse.result_bytes = problem.last.writes().map(|access| elements * bytes(access)).sum();
    for (at, axis) in problem.axes.iter().enumerate() {
        if at == vector || Some(at) == row {
            continue;
        }
        let side = match streaming {
            true => order::Side::Both,
            false => order::side(problem_motions(problem, axis, vector, along)),
        };
        reuse.others.push((at, side, axis.last.extent));
    }
    reuse
}

/// Whether the operands of the rows, and those of the columns, move with an axis.
fn problem_motions(
    problem: &Problem,
    axis: &Axis,
    vector: usize,
    along: &[Motion],
) -> (bool, bool) {
    let Some(update) = &axis.update else {
        // A part of an axis moves what the axis moves.
        return (true, axis.place == problem.axes[vector].place);
    };
    let mut moves = (false, false);
    for (access, motion) in problem.update.loads().zip(along) {
        if access.motion(update) == Motion::Still {
            continue;
        }
        match motion {
            Motion::Still => moves.0 = true,
            _ => moves.1 = true,
        }
    }
    moves
}
