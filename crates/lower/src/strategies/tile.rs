//! The strategy for sums of products and windows: a register tile of accumulators.
//!
//! ```text
//! for i, j { acc[i, j] = 0 }
//! for i, j, k { acc[i, j] += a[i, k] * b[j div P, k, j mod P] }
//! for i, j { out[i, j] = f(acc[i, j], ..) }
//! ```
//!
//! becomes
//!
//! ```text
//! for i_o, j_o parallel {
//!   for i < R unroll { for j < P vector { acc[i, j] = 0 } }
//!   for k { for i < R unroll { for j < P vector { acc[i, j] += .. } } }
//!   for i < R unroll { for j < P vector { out[..] = f(acc[i, j], ..) } }
//! }
//! ```
//!
//! with `acc` in registers. The vector axis is one along which an operand moves by one element and
//! none moves otherwise; the row axis one along which an operand of the sum stands still, so that
//! it is loaded once for all rows. How large the tile is and in which order tiles are run follows
//! from the cost model. Matrix products, convolutions, depthwise convolutions, pooling and sums
//! over leading axes are all this. A large operand that is met once is read otherwise: `stream`;
//! sums of very many terms are taken in parts: `deep`.

use backend::Target;
use loops::visit::Effect;
use loops::{BufferId, Kernel, Scope};
use schedule::{LocalScope, Schedule, Step, Tail};
use sym::Expr;

use super::cost::{Area, Tile, best_tile, div_ceil};
use super::hand::Hand;
use super::order::{self, Order, Reuse};
use super::panels::Panels;
use super::structure::{Access, LoopInfo, Motion, Nest, axis_loops};
use super::{Given, Refused};
use super::{deep, stream};

/// Iterations of the parallel loop beyond which no more loops are fused into it.
const SHARED: i64 = 64;

/// Vectors that one turn of a copying loop moves.
const COPIED: i64 = 4;

/// Bytes between two rows from which on they count as elsewhere.
const SAME_PAGE: i64 = 2048;

/// Bytes of a cache line.
pub(super) const LINE: i64 = 64;

/// Cycles to store one element of a vector whose elements lie apart.
const SCATTERED: f64 = 4.0;

/// Multiply-adds of vectors that the body of the innermost loop may hold: more make no tile faster,
/// fewer leave large tiles a single term a turn, and each costs a microsecond when it is compiled.
const UNROLLED: i64 = 64;

/// Bytes from one load of an instruction to its next one from which on prefetchers that watch
/// instructions lose a stream: half a page.
const TOO_FAR: i64 = 2048;

/// A kernel of three nests, with what is known of its axes.
pub(super) struct Problem {
    /// Name of the accumulators.
    pub(super) acc: String,
    /// Of one of them.
    pub(super) bytes: i64,
    /// The nest that sums.
    pub(super) update: Nest,
    pub(super) last: Nest,
    /// Loops of the last nest with their counterparts.
    pub(super) axes: Vec<Axis>,
    /// Names of the update's reduced loops, outermost first.
    pub(super) reduced: Vec<LoopInfo>,
    /// Names of the loops that initialise, by the axis of the accumulators.
    pub(super) init: Vec<Option<String>>,
}

/// A loop of the last nest, and the loops over the axis of the accumulators that it walks.
#[derive(Clone)]
pub(super) struct Axis {
    pub(super) last: LoopInfo,
    /// None where the loop does not walk an axis by ones.
    pub(super) update: Option<LoopInfo>,
    /// The axis of the accumulators it moves along, by ones or not.
    pub(super) place: Option<usize>,
}

/// What was chosen.
pub(super) struct Choice {
    pub(super) vector: usize,
    pub(super) row: Option<usize>,
    tile: Tile,
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
    staged: Vec<BufferId>,
}

/// See the head of this file.
pub(super) fn apply(
    schedule: &mut Schedule,
    given: &Given<'_>,
    target: &Target,
) -> Result<String, Refused> {
    let mut hand = Hand::new(schedule);
    let nests = match join_last_nests(&mut hand, given.nests()?)? {
        true => Nest::all(hand.kernel()).ok_or("its loops are no perfect nests")?,
        false => given.nests()?.to_vec(),
    };
    let problem = Problem::find(hand.kernel(), nests)?;
    if let Some(vector) = stream::streamed_axis(&problem, hand.kernel(), target) {
        let streamed = hand.attempt(|hand| stream::apply(hand, &problem, vector, target));
        if streamed.is_ok() {
            return streamed;
        }
    }
    let choice = choose(&problem, hand.kernel(), target)?;
    let cut = hand.attempt(|hand| deep::apply(hand, &problem, &choice, target));
    if cut.is_ok() {
        return cut;
    }
    let remark = describe(&problem, &choice);
    let shared = emit(&mut hand, &problem, &choice)?;
    prefetch(&mut hand, &problem, &choice, target)?;
    hand.share(&shared, SHARED)?;
    Ok(remark)
}

/// Does the same for nests that are a part of a kernel, all in one block: a nest that initialises,
/// one that sums, one that ends. Nothing is shared among workers.
pub(super) fn inside(
    hand: &mut Hand<'_>,
    nests: Vec<Nest>,
    target: &Target,
) -> Result<String, Refused> {
    let problem = Problem::find(hand.kernel(), nests)?;
    let mut choice = choose(&problem, hand.kernel(), target)?;
    choice.staged.clear();
    emit(hand, &problem, &choice)?;
    Ok(describe(&problem, &choice))
}

/// Makes one nest of those behind the accumulation; whether there were several.
fn join_last_nests(hand: &mut Hand<'_>, nests: &[Nest]) -> Result<bool, Refused> {
    let reduces = |nest: &Nest| nest.writes().any(|w| matches!(w.effect, Effect::Reduce(_)));
    let Some(update) = nests.iter().rposition(reduces) else {
        return Err("nothing is accumulated".into());
    };
    let Some((first, others)) = nests[update + 1..].split_first() else {
        return Err("nothing reads what is accumulated".into());
    };
    for other in others {
        if other.loops.len() != first.loops.len() {
            return Err("the nests behind the sum run over different axes".into());
        }
        for (one, two) in first.loops.iter().zip(&other.loops) {
            hand.merge(&one.name, &two.name)?;
        }
    }
    Ok(!others.is_empty())
}

impl Problem {
    /// Finds the three nests and their axes, or says what is missing.
    pub(super) fn find(kernel: &Kernel, nests: Vec<Nest>) -> Result<Problem, Refused> {
        let [init, update, last] = nests.try_into().map_err(|nests: Vec<Nest>| {
            format!(
                "it has {} nests, not one that initialises, one that sums, one that ends",
                nests.len()
            )
        })?;
        let folds = |access: &Access| matches!(access.effect, Effect::Fold(_));
        if last.accesses.iter().any(folds) {
            return Err("its sums are interleaved".into());
        }
        let writes: Vec<&Access> = update.writes().collect();
        let [write] = writes[..] else {
            return Err("the sum writes several buffers".into());
        };
        let buffer = &kernel.buffers[write.buffer];
        if matches!(buffer.scope, Scope::Parameter(_))
            || !init.writes().all(|w| w.buffer == write.buffer)
        {
            return Err("its accumulators are not its own".into());
        }
        let read = only_read(&last, write.buffer)?;
        let update_loops = axis_loops(&update, write);
        let moves = |index: &Expr| index.as_constant().is_none();
        if write.index.iter().zip(&update_loops).any(|(at, by)| moves(at) && by.is_none()) {
            return Err("the accumulators are not walked axis by axis".into());
        }
        let axes: Vec<Axis> =
            last.loops.iter().map(|found| axis(found, &read, &update_loops)).collect();
        if let Some(apart) = axes.iter().find(|axis| axis.place.is_none()) {
            return Err(format!("the sum would be computed again along `{}`", apart.last.name));
        }
        let is_parallel =
            |found: &LoopInfo| update_loops.iter().flatten().any(|own| own.name == found.name);
        let reduced = update.loops.iter().filter(|found| !is_parallel(found)).cloned().collect();
        let init_loops = init.writes().next().map(|write| axis_loops(&init, write));
        let name = |found: Option<&LoopInfo>| found.map(|found| found.name.clone());
        let init = init_loops.into_iter().flatten().map(name).collect();
        let (acc, bytes) = (buffer.name.clone(), i64::from(buffer.dtype.bits()).max(8) / 8);
        Ok(Problem { acc, bytes, axes, reduced, init, update, last })
    }

    /// The most bytes by which an operand moves on from term to term, of those that stay near.
    fn bytes_a_term(&self, kernel: &Kernel) -> i64 {
        let pair = pair(self, kernel);
        let mut terms = self.reduced.iter().rev();
        let Some(innermost) = terms.find(|found| Some(&found.name) != pair.as_ref()) else {
            return 1;
        };
        let moves = self.update.loads().filter_map(|access| match access.motion(innermost) {
            Motion::Steady { stride, .. } => {
                let bits = i64::from(kernel.buffers[access.buffer].dtype.bits()).max(8);
                Some(stride.abs() * bits / 8)
            }
            Motion::Still | Motion::Irregular => None,
        });
        moves.filter(|bytes| *bytes < TOO_FAR).max().unwrap_or(1).max(1)
    }

    /// Terms of each sum.
    pub(super) fn depth(&self) -> i64 {
        self.reduced.iter().map(|found| found.extent).product()
    }
}

/// The place where a nest reads the accumulators.
fn only_read(nest: &Nest, buffer: BufferId) -> Result<Vec<Expr>, Refused> {
    let mut reads = nest.loads().filter(|access| access.buffer == buffer);
    let first = reads.next().ok_or("the last nest does not read the sum")?;
    match reads.all(|read| read.index == first.index) {
        true => Ok(first.index.clone()),
        false => Err("the last nest reads several sums at once".into()),
    }
}

fn axis(found: &LoopInfo, read: &[Expr], update: &[Option<&LoopInfo>]) -> Axis {
    let place = read.iter().position(|index| index.contains(found.variable));
    let by_ones = place.filter(|&at| read[at].linear_coefficient(found.variable) == Some(1));
    Axis { last: found.clone(), update: by_ones.and_then(|at| update[at].cloned()), place }
}

fn choose(problem: &Problem, kernel: &Kernel, target: &Target) -> Result<Choice, Refused> {
    let mut best: Option<(f64, Choice)> = None;
    for vector in (0..problem.axes.len()).rev() {
        let Some(along) = vector_motions(problem, kernel, vector) else { continue };
        let storing = cost_of_stores(problem, vector);
        for row in rows_for(problem, vector) {
            let (cost, choice) = candidate(problem, kernel, target, vector, row, &along);
            let cost = cost + storing;
            if best.as_ref().is_none_or(|(least, _)| cost < least * 0.99) {
                best = Some((cost, choice));
            }
        }
    }
    let found = best.map(|(_, choice)| choice);
    found.ok_or_else(|| "no axis is contiguous in an operand".into())
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
) -> Option<Vec<Motion>> {
    let axis = &problem.axes[vector];
    // Registers hold vectors along the accumulators' last axis.
    let last = problem.axes.iter().filter_map(|axis| axis.place).max();
    let update = axis.update.as_ref().filter(|_| axis.place == last)?;
    let motions = problem.update.loads().map(|access| access.motion(update));
    // Where both elements of a pair are used together a pair is what is contiguous.
    let motions: Vec<Motion> = match pair(problem, kernel) {
        Some(_) => motions.map(Motion::in_pairs).collect(),
        None => motions.collect(),
    };
    let packed = motions.iter().any(|motion| motion.block().is_some());
    // A panel is met whole only if the loop walks the whole axis.
    let whole = !packed || axis.last.extent == update.extent;
    let fits = motions.iter().all(|motion| motion.is_vector());
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

/// The cost in cycles of a pair of axes, with the best tile for it.
fn candidate(
    problem: &Problem,
    kernel: &Kernel,
    target: &Target,
    vector: usize,
    row: Option<usize>,
    along: &[Motion],
) -> (f64, Choice) {
    let lanes = (i64::from(target.vector_bytes) / problem.bytes).max(1);
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
    let shared = others * div_ceil(columns, lanes * vectors.unwrap_or(2));
    let depth = problem.depth();
    let scattered_rows = scattered_rows(problem, kernel, target, along);
    let row_update = row.and_then(|row| problem.axes[row].update.as_ref());
    // An operand that moves with rows and vectors is loaded for each accumulator.
    let moves = |access: &Access| row_update.is_some_and(|row| access.motion(row) != Motion::Still);
    let mut both = problem.update.loads().zip(along);
    let both = both.any(|(access, motion)| *motion != Motion::Still && moves(access));
    let elementwise = along.len() > 1 && (both || along.iter().all(|motion| motion.is_unit()));
    let lines_between_rows = row_update
        .filter(|_| !elementwise)
        .and_then(|row| lines_between_rows(problem, kernel, target, row, along));
    let area = Area {
        rows,
        columns,
        lanes,
        depth,
        shared,
        elementwise,
        scattered_rows,
        lines_between_rows,
    };
    let staged = match row_update {
        Some(update) => conflicting(problem, kernel, update, along),
        None => Vec::new(),
    };
    let reuse = reuse(problem, kernel, vector, row, along);
    let outermost = elementwise
        && order::overlaps_beyond(problem, kernel, [Some(vector), row], target.l1_bytes / 2);
    let mut best: Option<(f64, Choice)> = None;
    for blocks in order::block_counts(&reuse, rows, target, !staged.is_empty()) {
        let block = Area { rows: div_ceil(rows, blocks), ..area };
        let tile = best_tile(target, &block, vectors);
        let arithmetic = tile.cycles(target, &block) * (blocks * others) as f64;
        let tiles = order::Tiles {
            rows: blocks * div_ceil(block.rows, tile.rows),
            columns: div_ceil(columns, tile.vectors * lanes),
            blocks,
        };
        let (mut order, memory) = order::best(&reuse, &tiles, target);
        order.columns_outermost = outermost;
        let cost = arithmetic + memory;
        if best.as_ref().is_none_or(|(least, _)| cost < *least) {
            let width = panel.unwrap_or(tile.vectors * lanes);
            let tail = if panel.is_some() { Tail::Guard } else { Tail::Shift };
            let staged = staged.clone();
            best = Some((
                cost,
                Choice { vector, row, tile, lanes, width, tail, blocks, order, staged },
            ));
        }
    }
    best.expect("there is always one block")
}

/// Whether a large operand that carries the vector axis is met row by row as the sum goes on, a row
/// elsewhere each time.
fn scattered_rows(problem: &Problem, kernel: &Kernel, target: &Target, along: &[Motion]) -> bool {
    let Some(innermost) = problem.reduced.last() else { return false };
    problem.update.loads().zip(along).any(|(access, motion)| {
        let buffer = &kernel.buffers[access.buffer];
        let width = i64::from(buffer.dtype.bits()) / 8;
        let elements: i64 = buffer.shape.iter().filter_map(Expr::as_constant).product();
        let apart = match access.motion(innermost) {
            Motion::Steady { stride, .. } => stride.abs() * width,
            Motion::Still | Motion::Irregular => 0,
        };
        *motion != Motion::Still
            && apart >= SAME_PAGE
            && (elements * width) as u64 > target.l2_bytes
    })
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
    let keeps = (problem.depth() * LINE) as u64 <= target.l1_bytes / 2;
    let of = |(access, motion): (&Access, &Motion)| {
        let width = i64::from(kernel.buffers[access.buffer].dtype.bits()) / 8;
        let apart = |found: &LoopInfo| match access.motion(found) {
            Motion::Steady { stride, block: None } => stride.abs() * width,
            _ => 0,
        };
        let meets_others = *motion == Motion::Still && apart(innermost) >= LINE;
        meets_others.then(|| apart(row).min(LINE) as f64 / LINE as f64)
    };
    if keeps {
        return None;
    }
    problem.update.loads().zip(along).find_map(of)
}

/// The row operands whose rows fall on so few cache sets that a tile of them does not stay there.
fn conflicting(
    problem: &Problem,
    kernel: &Kernel,
    row: &LoopInfo,
    along: &[Motion],
) -> Vec<BufferId> {
    let mut found = Vec::new();
    for (access, motion) in problem.update.loads().zip(along) {
        let Motion::Steady { stride, .. } = access.motion(row) else { continue };
        let bytes = stride.abs() * i64::from(kernel.buffers[access.buffer].dtype.bits()) / 8;
        if *motion == Motion::Still && bytes > 0 && bytes % 4096 == 0 && row.extent >= 8 {
            found.push(access.buffer);
        }
    }
    found
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

fn describe(problem: &Problem, choice: &Choice) -> String {
    let vector = &problem.axes[choice.vector].last.name;
    let row = match choice.row {
        Some(row) => format!("{} rows along {}", choice.tile.rows, problem.axes[row].last.name),
        None => "one row".to_owned(),
    };
    let mut text = format!("{row} by {} elements along {vector}", choice.width);
    if choice.blocks > 1 {
        text += &format!(", in {} blocks of rows", choice.blocks);
    }
    if choice.blocks > 1 && !choice.staged.is_empty() {
        text += ", rows copied because they fall on the same cache sets";
    }
    text
}

/// The loops of the last nest once they are split.
struct Parts {
    /// Around the tile, outermost first.
    outer: Vec<String>,
    /// The loop over blocks of rows, if there are several.
    block: Option<String>,
    row: Option<String>,
    vector: String,
}

/// Lets the sums run over whole panels, so that only the last nest has a tail. Where that is not
/// legal they have one, too.
pub(super) fn whole_panels(hand: &mut Hand<'_>, problem: &Problem, choice: &Choice) {
    let axis = &problem.axes[choice.vector];
    let (Some(update), Some(place)) = (&axis.update, axis.place) else { return };
    let whole = div_ceil(axis.last.extent, choice.width) * choice.width;
    if choice.tail != Tail::Guard || whole == axis.last.extent {
        return;
    }
    let Some(init) = problem.init.get(place).cloned().flatten() else { return };
    let steps = [
        Step::Pad { buffer: problem.acc.clone(), axis: place, extent: whole },
        Step::Extend { target: init, extent: whole },
        Step::Extend { target: update.name.clone(), extent: whole },
    ];
    // Where one is refused, none is taken.
    _ = hand.attempt(|hand| steps.into_iter().try_for_each(|step| hand.take(step)));
}

/// Takes the steps; the loops around the tile that may be shared among workers.
fn emit(hand: &mut Hand<'_>, problem: &Problem, choice: &Choice) -> Result<Vec<String>, Refused> {
    whole_panels(hand, problem, choice);
    let staged: Vec<String> =
        choice.staged.iter().map(|id| hand.kernel().buffers[*id].name.clone()).collect();
    let parts = split(hand, problem, choice)?;
    let inner: Vec<String> = parts.row.iter().cloned().chain([parts.vector.clone()]).collect();
    hand.reorder(&[parts.outer.clone(), inner.clone()].concat())?;
    if let Some(tile) = parts.outer.last() {
        hand.compute_at(&problem.acc, tile)?;
    }
    hand.simplify()?;
    let names = |at: usize| problem.axes[at].update.as_ref().map(|found| found.name.clone());
    let update_inner: Vec<String> =
        choice.row.into_iter().chain([choice.vector]).filter_map(names).collect();
    let mut reduced: Vec<String> = problem.reduced.iter().map(|found| found.name.clone()).collect();
    let mut update_inner = hand.present(&update_inner);
    if let Some(pair) = pair(problem, hand.kernel()) {
        // Both elements of a pair are met while it is in a register: inside the rows.
        reduced.retain(|name| *name != pair);
        update_inner.insert(update_inner.len() - 1, pair);
    }
    hand.reorder(&[hand.present(&reduced), update_inner.clone()].concat())?;
    let init: Vec<String> = problem.init.iter().flatten().cloned().collect();
    for nest in [hand.present(&init), update_inner, hand.present(&inner)] {
        let Some((vector, rows)) = nest.split_last() else { continue };
        hand.vectorise(vector)?;
        rows.iter().try_for_each(|row| hand.unroll(row))?;
    }
    let accumulators = choice.tile.rows * choice.tile.vectors;
    unroll_sum(hand, problem, &hand.present(&reduced), accumulators)?;
    hand.registers(&problem.acc)?;
    let shared = hand.present(&parts.outer);
    Ok(match &parts.block {
        Some(block) if !staged.is_empty() => {
            stage(hand, &staged, block, choice.lanes)?;
            let upto = shared.iter().position(|name| name == block).unwrap_or(0);
            shared[..=upto].to_vec()
        }
        _ => shared,
    })
}

/// Has the next panel come while one is met by several tiles, if both fit the second-level cache
/// beside the rows. Panels that are met once are one stream, which hardware follows.
fn prefetch(
    hand: &mut Hand<'_>,
    problem: &Problem,
    choice: &Choice,
    target: &Target,
) -> Result<(), Refused> {
    let Some(update) = &problem.axes[choice.vector].update else { return Ok(()) };
    let tiles =
        choice.row.map_or(1, |row| div_ceil(problem.axes[row].last.extent, choice.tile.rows));
    let others = choice.order.others.iter().filter(|(_, side)| *side == order::Side::Rows);
    let others: i64 = others.map(|(at, _)| problem.axes[*at].last.extent).product();
    if tiles * others == 1 {
        return Ok(());
    }
    let panels = Panels::of(hand, problem, update, choice.width);
    let most = target.l2_bytes as i64 / 5;
    panels.iter().filter(|panels| panels.bytes <= most).try_for_each(|own| own.prefetch(hand))
}

fn split(hand: &mut Hand<'_>, problem: &Problem, choice: &Choice) -> Result<Parts, Refused> {
    let name = |at: usize| problem.axes[at].last.name.clone();
    let vector = name(choice.vector);
    let (columns, vector) = match choice.tail {
        Tail::Guard => hand.split(&vector, choice.width, Tail::Guard)?,
        Tail::Exact | Tail::Shift => hand.split_whole(&vector, choice.width)?,
    };
    let (mut block, mut rows, mut row) = (None, None, None);
    if let Some(at) = choice.row {
        let mut target = name(at);
        if choice.blocks > 1 {
            let extent = problem.axes[at].last.extent;
            (block, target) = hand.split_whole(&target, div_ceil(extent, choice.blocks))?;
        }
        let (outer, inner) = hand.split_whole(&target, choice.tile.rows)?;
        (rows, row) = (outer, Some(inner));
    }
    let others = |side| {
        let of_side = choice.order.others.iter().filter(move |(_, own)| *own == side);
        of_side.map(|(at, _)| name(*at)).collect::<Vec<String>>()
    };
    let overlapping = rows.as_ref().is_some_and(|rows| hand.overlaps(rows));
    let outer = choice.order.arrange(
        overlapping,
        order::Loops {
            shared: others(order::Side::Both),
            rows: others(order::Side::Rows),
            columns: others(order::Side::Columns),
            block: block.clone(),
            row_tiles: rows,
            column_tiles: columns,
        },
    );
    Ok(Parts { outer, block, row, vector })
}

/// The innermost reduced loop, where it goes over pairs of elements shorter than the sums.
pub(super) fn pair(problem: &Problem, kernel: &Kernel) -> Option<String> {
    let innermost = problem.reduced.last().filter(|found| found.extent == 2)?;
    let short = problem.update.loads().all(|access| {
        let bytes = i64::from(kernel.buffers[access.buffer].dtype.bits()) / 8;
        let motion = access.motion(innermost);
        bytes < problem.bytes && matches!(motion, Motion::Steady { stride: -1 | 1, .. })
    });
    short.then(|| innermost.name.clone())
}

/// Writes out the innermost reduced loops as far as the code stays small and its loads do not move
/// too far at a time, given the vectors that each term is added to.
pub(super) fn unroll_sum(
    hand: &mut Hand<'_>,
    problem: &Problem,
    reduced: &[String],
    accumulators: i64,
) -> Result<(), Refused> {
    let near = (TOO_FAR - 1) / problem.bytes_a_term(hand.kernel());
    let mut budget = (UNROLLED / accumulators.max(1)).min(near);
    for (position, name) in reduced.iter().enumerate().rev() {
        let extent = hand.extent(name).unwrap_or(1);
        if extent <= budget && (position > 0 || extent <= 9) {
            hand.unroll(name)?;
            budget /= extent;
            continue;
        }
        let most = budget.min(8);
        let mut factor = (2..=most).rev().find(|factor| extent % factor == 0).unwrap_or(1);
        if factor < 4 && most >= 4 && extent >= 2 * most {
            factor = most;
            let rest = hand.cut(name, extent / most * most)?;
            hand.unroll(&rest)?;
        }
        if factor > 1 {
            let (_, inner) = hand.split(name, factor, Tail::Exact)?;
            hand.unroll(&inner)?;
        }
        break;
    }
    Ok(())
}

/// Copies the rows of a block into scratch memory, where they are apart by a few lines more than
/// before so that neighbouring rows do not collide.
fn stage(hand: &mut Hand<'_>, buffers: &[String], block: &str, lanes: i64) -> Result<(), Refused> {
    for buffer in buffers {
        let into = hand.fresh(buffer, "rows");
        hand.take(Step::StageRead {
            buffer: buffer.clone(),
            target: block.to_owned(),
            into: into.clone(),
            scope: LocalScope::Scratch,
            order: Vec::new(),
        })?;
        let copy = hand.kernel().buffers.values().find(|copy| copy.name == into);
        let shape = copy.map(|copy| copy.shape.clone()).unwrap_or_default();
        let Some((axis, extent)) = shape.iter().enumerate().next_back() else { continue };
        let Some(extent) = extent.as_constant() else { continue };
        hand.take(Step::Pad { buffer: into.clone(), axis, extent: extent + lanes })?;
        let (_, vector) = hand.split_whole(&format!("{into}_{axis}"), COPIED * lanes)?;
        hand.vectorise(&vector)?;
    }
    Ok(())
}
