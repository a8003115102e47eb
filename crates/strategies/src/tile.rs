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
//! from the cost model (`choice`). Matrix products, convolutions, depthwise convolutions, pooling
//! and sums over leading axes are all this. A large operand that is met once is read otherwise:
//! `stream`; sums of very many terms are taken in parts: `deep`.

use backend::Target;
use loops::visit::Effect;
use loops::{BufferId, Kernel, Scope};
use schedule::{LocalScope, Schedule, ScheduleStep, Tail};
use sym::Expr;

use crate::choice::{Choice, choose};
use crate::given::{Given, Refused};
use crate::hand::Hand;
use crate::order;
use crate::panels::Panels;
use crate::structure::{Access, LoopInfo, Motion, Nest, axis_loops};
use crate::{deep, stream};
use backend::tile::div_ceil;

/// Iterations of the parallel loop beyond which no more loops are fused into it.
const SHARED: i64 = 64;

/// Vectors that one turn of a copying loop moves.
const COPIED: i64 = 4;

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
        ScheduleStep::Pad { buffer: problem.acc.clone(), axis: place, extent: whole },
        ScheduleStep::Extend { target: init, extent: whole },
        ScheduleStep::Extend { target: update.name.clone(), extent: whole },
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
        hand.take(ScheduleStep::StageRead {
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
        hand.take(ScheduleStep::Pad { buffer: into.clone(), axis, extent: extent + lanes })?;
        let (_, vector) = hand.split_whole(&format!("{into}_{axis}"), COPIED * lanes)?;
        hand.vectorise(&vector)?;
    }
    Ok(())
}
