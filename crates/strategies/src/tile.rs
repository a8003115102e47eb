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
use backend::tile::div_ceil;
use loops::visit::Effect;
use schedule::{LocalScope, Schedule, ScheduleStep, Tail};

use crate::choice::{self, ALONG, BLOCKS, Choice, ROWS, ROWS_ALONG, VECTORS, choose, points_of};
use crate::given::{Given, Refused};
use crate::hand::{Hand, SHARED};
use crate::order;
use crate::panels::Panels;
use crate::point::Point;
use crate::problem::{Problem, tuple};
use crate::structure::Nest;
use crate::sums::{in_vectors, tile_in_vectors, unroll_sum, whole_panels};
use crate::{deep, rows, stream};

/// Vectors that one turn of a copying loop moves.
const COPIED: i64 = 4;

/// What is said where rows are copied.
pub(super) const COPIED_ROWS: &str = ", rows copied to lie side by side";

/// The sketch's name.
pub(super) const NAME: &str = "tile";

/// Its choices.
pub(super) const CHOICES: &[&str] = &["way", ALONG, ROWS_ALONG, ROWS, VECTORS, BLOCKS];

/// Ways to take a sum: from one end of a large operand to the other (`stream`), its terms in parts
/// (`deep`), or whole.
const STREAM: &str = "stream";
const DEEP: &str = "parts";
const WHOLE: &str = "whole";

/// Each pair of axes with the tiles that should take least time.
pub(super) fn points(given: &Given<'_>, target: &Target) -> Vec<Point> {
    let Some((problem, schedule)) = problem_of(given, target) else { return Vec::new() };
    let whole = |point: Point| point.with_name("way", WHOLE);
    let tiles = points_of(&problem, schedule.kernel(), target, NAME).into_iter().map(whole);
    let ways = [STREAM, DEEP].map(|way| Point::of(NAME).with_name("way", way));
    ways.into_iter().chain(tiles).collect()
}

/// Pairs of axes besides the chosen one that should take less than so many cycles, best first.
pub(super) fn rivals(given: &Given<'_>, target: &Target, than: f64) -> Vec<Point> {
    let found = problem_of(given, target);
    found.map_or(Vec::new(), |(problem, schedule)| {
        choice::rivals(&problem, schedule.kernel(), target, (NAME, than))
    })
}

/// The sum of a kernel whose last nests are one, and its schedule.
fn problem_of(given: &Given<'_>, target: &Target) -> Option<(Problem, Schedule)> {
    let mut schedule = given.schedule();
    let mut hand = Hand::new(&mut schedule);
    let mut problem = joined(&mut hand, given).ok()?;
    problem.copy_panels(hand.kernel(), target);
    Some((problem, schedule))
}

/// The sum of a kernel whose last nests have been made one.
fn joined(hand: &mut Hand<'_>, given: &Given<'_>) -> Result<Problem, Refused> {
    let nests = match join_last_nests(hand, given.nests()?)? {
        true => Nest::all(hand.kernel()).ok_or("its loops are no perfect nests")?,
        false => given.nests()?.to_vec(),
    };
    Problem::find(hand.kernel(), nests)
}

/// See the head of this file.
pub(super) fn apply(
    schedule: &mut Schedule,
    given: &Given<'_>,
    point: &Point,
    target: &Target,
) -> Result<String, Refused> {
    let mut hand = Hand::new(schedule);
    let mut problem = joined(&mut hand, given)?;
    let is_wanted = |way: &str| point.allows_name("way", way);
    if let Some(found) = stream::streamed(&problem, hand.kernel(), target)
        && is_wanted(STREAM)
    {
        let streamed = hand.attempt(|hand| stream::apply(hand, &problem, &found));
        if streamed.is_ok() {
            return streamed;
        }
    }
    problem.copy_panels(hand.kernel(), target);
    let mut choice = choose(&problem, hand.kernel(), target, point)?;
    if is_wanted(DEEP) {
        let cut = hand.attempt(|hand| deep::apply(hand, &problem, &choice, target));
        if cut.is_ok() {
            return cut;
        }
    }
    if !is_wanted(WHOLE) {
        return Err("its sums are not taken so".into());
    }
    if !problem.copied.is_empty() {
        choice.order.meet_columns_once();
    }
    let Emitted { shared, around, instruction } = emit(&mut hand, &problem, &choice, target)?;
    let remark = describe(&problem, &choice) + &instruction;
    prefetch(&mut hand, &problem, &choice, &around, target)?;
    // A panel that overlaps the one before it gives the same bits again.
    if !problem.copied.is_empty() && hand.share_blocks(&shared, SHARED).is_ok() {
        return Ok(remark);
    }
    Ok(hand.share_if_independent(&shared, SHARED, remark))
}

/// Does the same for nests that are a part of a kernel, all in one block: a nest that initialises,
/// one that sums, one that ends. Nothing is shared among workers.
pub(super) fn inside(
    hand: &mut Hand<'_>,
    nests: Vec<Nest>,
    target: &Target,
) -> Result<String, Refused> {
    let mut problem = Problem::find(hand.kernel(), nests)?;
    problem.copy_panels(hand.kernel(), target);
    let mut choice = choose(&problem, hand.kernel(), target, &Point::of(NAME))?;
    choice.staged.clear();
    choice.take_others(&problem, target);
    if !problem.copied.is_empty() {
        choice.order.meet_columns_once();
    }
    let emitted = emit(hand, &problem, &choice, target)?;
    Ok(describe(&problem, &choice) + &emitted.instruction)
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
    if !problem.copied.is_empty() {
        text += ", panels copied";
    }
    if choice.blocks > 1 && !choice.staged.is_empty() {
        text += COPIED_ROWS;
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
    /// The loop over tiles of columns, if there are several.
    column: Option<String>,
    /// The loop over tiles of rows, where the last may have fewer: its rows have a condition.
    guarded: Option<String>,
}

/// What was made of a sum.
struct Emitted {
    /// The loops around the tile that may be shared among workers.
    shared: Vec<String>,
    /// The loops around it inside of that over columns.
    around: Vec<String>,
    /// A remark on instructions.
    instruction: String,
}

/// Takes the steps.
fn emit(
    hand: &mut Hand<'_>,
    problem: &Problem,
    choice: &Choice,
    target: &Target,
) -> Result<Emitted, Refused> {
    whole_panels(hand, problem, choice);
    let staged = choice.staged_names(hand.kernel());
    let parts = split(hand, problem, choice)?;
    let others = choice.inner.iter().map(|&at| problem.axes[at].last.name.clone());
    let others: Vec<String> = others.collect();
    let inner: Vec<String> =
        others.into_iter().chain(parts.row.clone()).chain([parts.vector.clone()]).collect();
    hand.reorder(&[parts.outer.clone(), inner.clone()].concat())?;
    if let Some(tile) = parts.outer.last() {
        hand.compute_at(&problem.acc, tile)?;
    }
    hand.simplify()?;
    let names = |at: usize| problem.axes[at].update.as_ref().map(|found| found.name.clone());
    let inner_axes = choice.inner.iter().copied().chain(choice.row).chain([choice.vector]);
    let update_inner: Vec<String> = inner_axes.filter_map(names).collect();
    let mut reduced: Vec<String> = problem.reduced.iter().map(|found| found.name.clone()).collect();
    let mut update_inner = hand.present(&update_inner);
    // Neighbours, and what rows share of a window, are met while they are in a register: inside the
    // rows.
    let taps = choice.taps.as_ref().and_then(|taps| Some((taps.clone(), hand.extent(taps)?)));
    let written_out = taps.as_ref().map_or(1, |(_, extent)| *extent);
    let others: i64 = choice.inner.iter().map(|&at| problem.axes[at].last.extent).product();
    let accumulators = choice.tile.rows * choice.tile.vectors * written_out * others;
    let tuple = tuple(problem, hand.kernel()).map(|tuple| tuple.name);
    if let Some(inside) = tuple.or(taps.map(|(name, _)| name)) {
        reduced.retain(|name| *name != inside);
        let Some(vector) = update_inner.len().checked_sub(1) else {
            return Err("its tile is one element".into());
        };
        update_inner.insert(vector, inside);
    }
    hand.reorder(&[hand.present(&reduced), update_inner.clone()].concat())?;
    let init: Vec<String> = problem.init.iter().flatten().cloned().collect();
    in_vectors(hand, &hand.present(&init))?;
    let remark = tile_in_vectors(hand, problem, &update_inner, target)?;
    in_vectors(hand, &hand.present(&inner))?;
    unroll_sum(hand, problem, &hand.present(&reduced), accumulators, target)?;
    let acc = hand.kernel().buffers.iter().find(|(_, buffer)| buffer.name == problem.acc);
    if acc.is_some_and(|(id, _)| !rows::fits_registers(hand.kernel(), id)) {
        return Err("what reads the sum is not aligned with its vectors".into());
    }
    hand.registers(&problem.acc)?;
    let mut shared = hand.present(&parts.outer);
    let around = inside_columns(&shared, &parts);
    if let Some(tiles) = &parts.guarded
        && hand.attempt(|hand| hand.cut_tail(tiles)).is_ok()
    {
        let upto = shared.iter().position(|name| name == tiles);
        shared.truncate(upto.unwrap_or(shared.len()));
    }
    let shared = match &parts.block {
        Some(block) if !staged.is_empty() => {
            stage(hand, &staged, block, choice.lanes)?;
            let upto = shared.iter().position(|name| name == block).unwrap_or(0);
            shared[..=upto].to_vec()
        }
        _ => shared,
    };
    let shared = copy_panels(hand, problem, choice, (&parts, &around), shared, target)?;
    Ok(Emitted { shared, around, instruction: remark })
}

/// Those of the loops around a tile that stand inside of the one over columns.
fn inside_columns(outer: &[String], parts: &Parts) -> Vec<String> {
    let column = outer.iter().position(|name| Some(name) == parts.column.as_ref());
    column.map_or(Vec::new(), |at| outer[at + 1..].to_vec())
}

/// Copies the panels that are to be copied, each for all tiles of rows that meet it; of the loops
/// that may be shared those that then still may be.
fn copy_panels(
    hand: &mut Hand<'_>,
    problem: &Problem,
    choice: &Choice,
    (parts, around): (&Parts, &[String]),
    mut shared: Vec<String>,
    target: &Target,
) -> Result<Vec<String>, Refused> {
    let along = problem.axes[choice.vector].update.as_ref().filter(|_| !problem.copied.is_empty());
    let (Some(along), Some(column)) = (along, &parts.column) else {
        return match problem.is_turned() {
            true => Err("an operand that lies along the sum is a single panel".into()),
            false => Ok(shared),
        };
    };
    let panels = Panels::of(hand, problem, along, choice.width);
    for own in panels.iter().filter(|panels| panels.copied.is_some()) {
        own.pack(hand, column, around, target)?;
    }
    let upto = shared.iter().position(|name| name == column);
    shared.truncate(upto.map_or(shared.len(), |upto| upto + 1));
    Ok(shared)
}

/// Has the next panel come while one is met by several tiles, if both fit the second-level cache
/// beside the rows. Panels that are met once are one stream, which hardware follows.
fn prefetch(
    hand: &mut Hand<'_>,
    problem: &Problem,
    choice: &Choice,
    around: &[String],
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
    let most = target.machine.l2.bytes as i64 / 5;
    panels
        .iter()
        .filter(|panels| panels.bytes <= most)
        .try_for_each(|own| own.prefetch(hand, around, target))
}

fn split(hand: &mut Hand<'_>, problem: &Problem, choice: &Choice) -> Result<Parts, Refused> {
    let name = |at: usize| problem.axes[at].last.name.clone();
    let vector = name(choice.vector);
    let (columns, vector) = match choice.tail {
        Tail::Guard => hand.split(&vector, choice.width, Tail::Guard)?,
        Tail::Exact | Tail::Shift => hand.split_whole(&vector, choice.width)?,
    };
    let column = columns.clone();
    let (column_groups, columns) = match (choice.order.groups, columns) {
        (2.., Some(tiles)) => {
            let count = hand.extent(&tiles).ok_or("the number of columns is not known")?;
            let (groups, tiles) = hand.split(&tiles, count / choice.order.groups, Tail::Exact)?;
            (groups, Some(tiles))
        }
        (_, columns) => (None, columns),
    };
    let (mut block, mut rows, mut row, mut guarded) = (None, None, None, None);
    if let Some(at) = choice.row {
        let mut target = name(at);
        if choice.blocks > 1 {
            let extent = problem.axes[at].last.extent;
            (block, target) = hand.split_whole(&target, div_ceil(extent, choice.blocks))?;
        }
        let (outer, inner) = hand.split_whole(&target, choice.tile.rows)?;
        let has_condition = |rows: &String| !hand.overlaps(rows);
        if problem.axes[at].last.is_free() {
            guarded = outer.clone().filter(has_condition);
        }
        (rows, row) = (outer, Some(inner));
    }
    let others = |side| {
        let of_side = choice.order.others.iter().filter(move |(_, own)| *own == side);
        of_side.map(|(at, _)| name(*at)).collect::<Vec<String>>()
    };
    // What is cut in two is not to be shared either.
    let overlapping = guarded.is_some() || rows.as_ref().is_some_and(|rows| hand.overlaps(rows));
    let outer = choice.order.arrange(
        overlapping,
        order::Loops {
            shared: others(order::Side::Both),
            rows: others(order::Side::Rows),
            columns: others(order::Side::Columns),
            block: block.clone(),
            row_tiles: rows,
            column_groups,
            column_tiles: columns,
        },
    );
    Ok(Parts { outer, block, row, vector, column, guarded })
}

/// Copies the rows of a block into scratch memory, where they are apart by a few lines more than
/// before so that neighbouring rows do not collide.
pub(super) fn stage(
    hand: &mut Hand<'_>,
    buffers: &[String],
    block: &str,
    lanes: i64,
) -> Result<(), Refused> {
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
