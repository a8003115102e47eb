//! What `tile` does instead where sums have so many terms that a panel fills the second-level
//! cache: the terms in parts.
//!
//! ```text
//! for i, j { acc[i, j] = 0 }
//! for i, j, k { acc[i, j] += a[i, k] * b[j div P, k, j mod P] }
//! for i, j { out[i, j] = f(acc[i, j], ..) }
//! ```
//!
//! becomes, for each block of rows and columns,
//!
//! ```text
//! for i, j { acc[i, j] = 0 }
//! for k_o { for j_o { for i_o {
//!   for i < R unroll { for j < P vector { part[i, j] = acc[i_o, i, j_o, j] } }
//!   for k_i { for i < R unroll { for j < P vector { part[i, j] += .. } } }
//!   for i < R unroll { for j < P vector { acc[i_o, i, j_o, j] = part[i, j] } }
//! } } }
//! for i, j { out[i, j] = f(acc[i, j], ..) }
//! ```
//!
//! so that what a part of the terms needs of a block of rows stays in the second-level cache while
//! all panels go by, each part of a panel once. Rows of which a tile has more than the first-level
//! cache keeps, because they fall on the same sets, are copied for each part; so are panels of an
//! operand that is not packed, whose pieces lie pages apart. The order of each sum is as before.
//! Terms that are left over behind whole parts are a nest of their own, and rows that are left over
//! when the block is cut into tiles have a smaller tile: tiles that overlap would add twice.

use std::collections::BTreeSet;

use backend::tile::{Tile, div_ceil};
use backend::{InstructionCost, Target};
use base::IntoTree;
use loops::Stmt;
use schedule::{ScheduleStep, Tail};

use crate::choice::Choice;
use crate::given::Refused;
use crate::hand::Hand;
use crate::order::Side;
use crate::panels::Panels;
use crate::problem::{Problem, instructions, tuple};
use crate::structure::{Access, LoopInfo, Motion};
use crate::sums::{tile_in_vectors, unroll_sum, whole_panels};
use crate::tile::{COPIED_ROWS, stage};

/// Iterations of the parallel loop that are wanted.
const SHARED: i64 = 4;

/// Panels that a block of columns has at least: what is met of the rows is read again for each.
const PANELS: i64 = 3;

/// The least terms of a part: accumulators are loaded and stored once a part.
const TERMS: i64 = 128;

/// Tiles of rows that repay the copy of a panel they meet.
const REPAYING_TILES: i64 = 4;

/// Terms whose number parts are a multiple of where they do not divide the sum evenly.
const WHOLE: i64 = 16;

/// Lines of rows that may fall on one set of a cache: half of its ways, so that panels pass by.
const LINES: i64 = 8;

/// How a problem is cut.
struct Cut {
    /// Terms of a part.
    terms: i64,
    /// Blocks of rows.
    blocks: i64,
    /// Elements of a block of columns.
    columns: i64,
    /// Rows of a tile.
    rows: i64,
    /// Whether rows that fall on the same cache sets are copied: more of them than stay.
    copies: bool,
    /// Whether panels that do not lie packed are copied for each part.
    packs: bool,
}

/// Runs the terms in parts, if there are so many that it pays.
pub(super) fn apply(
    hand: &mut Hand<'_>,
    problem: &Problem,
    choice: &Choice,
    target: &Target,
) -> Result<String, Refused> {
    let cut = cut(hand, problem, choice, target)?;
    whole_panels(hand, problem, choice);
    let (outer, instruction) = emit(hand, problem, choice, &cut, target)?;
    let vector = &problem.axes[choice.vector].last.name;
    let mut remark = format!(
        "{} rows by {} elements along {vector}, the sum in parts of {} terms{instruction}",
        cut.rows, choice.width, cut.terms
    );
    if cut.packs {
        remark += ", panels copied";
    }
    if cut.copies {
        remark += COPIED_ROWS;
    }
    Ok(hand.share_if_independent(&outer, SHARED, remark))
}

/// Where to cut, or why not to.
fn cut(
    hand: &Hand<'_>,
    problem: &Problem,
    choice: &Choice,
    target: &Target,
) -> Result<Cut, Refused> {
    let vector = &problem.axes[choice.vector];
    let (Some(along), Some(row)) = (&vector.update, choice.row) else {
        return Err("no panel is met by several rows".into());
    };
    let depth = problem.depth();
    if depth < 2 * TERMS {
        return Err("its sums have few terms".into());
    }
    let panels = Panels::of(hand, problem, along, choice.width);
    let panel = panels.iter().map(|panels| panels.bytes).max().unwrap_or(0);
    let cache = target.machine.l2.bytes as i64;
    if panel <= cache * 3 / 16 {
        return Err("panels fit the second-level cache".into());
    }
    if choice.order.others.iter().any(|(_, side)| *side == Side::Columns) {
        return Err("panels move along several axes".into());
    }
    let stores = problem.last.writes().all(|access| access.motion(&vector.last).is_unit());
    if !stores {
        return Err("results are not contiguous along the panels".into());
    }
    let mut walked = problem.axes.iter().map(|axis| &axis.last).chain(&problem.reduced);
    if walked.any(LoopInfo::is_free) {
        return Err("how many rows or terms there are is not known".into());
    }
    let extent = problem.axes[row].last.extent;
    let instruction = instructions(problem, hand.kernel(), target).first().map(|(_, cost)| *cost);
    let term = instruction.unwrap_or_else(|| target.machine.multiply_add());
    let rows = best_rows(target, extent, choice, term);
    let other: i64 = others(problem, choice, Side::Rows)
        .iter()
        .map(|at| problem.axes[*at].last.extent)
        .product();
    if extent * other <= 2 * rows {
        return Err("panels are met by few rows".into());
    }
    let strips = panels.iter().any(|panels| !panels.packed);
    let packs = strips && extent * other >= REPAYING_TILES * rows;
    if strips && !packs && choice.blocks == 1 {
        return Err("strips that are not packed are met once".into());
    }
    if problem.is_turned() && !packs {
        return Err("panels that lie along the sum are met by few rows".into());
    }
    let strides = row_strides(hand, problem, row);
    let kept = strides.iter().map(|bytes| rows_kept(target, *bytes)).min();
    let copies = !choice.staged.is_empty() && choice.rows_kept.is_none_or(|kept| rows > kept);
    // Rows that are copied lie one behind the other.
    let kept = kept.filter(|_| !copies).unwrap_or(i64::MAX);
    // Two parts of panels in an eighth of the cache each, and half of it for the rows: a tile of
    // them with all that lies along other axes at least.
    let element = panels.iter().map(|panels| panels.element).max().unwrap_or(1);
    let bytes = element * other;
    let block = |terms: i64| {
        let most = (cache / 2 / (bytes * terms)).min(kept / other).max(rows);
        let least = div_ceil(extent, most);
        (least..=4 * least).find(|blocks| extent % blocks == 0 && (extent / blocks) % rows == 0)
    };
    let tiles_fit = (cache * 4 / 5 / (bytes * rows)).max(TERMS);
    let mut terms = part_of(problem, hand, tiles_fit.min(cache / 8 * depth / panel));
    let blocks = match block(terms) {
        Some(blocks) => blocks,
        // They cannot be cut evenly.
        None => {
            terms = part_of(problem, hand, terms.min(cache / 2 / (bytes * extent)));
            1
        }
    };
    if terms < TERMS || terms >= depth {
        return Err("its terms come in no parts".into());
    }
    let columns = vector.last.extent;
    let count = columns / choice.width;
    let split =
        |parts: &i64| columns % choice.width == 0 && count % parts == 0 && count / parts >= PANELS;
    let parts = (1..=div_ceil(SHARED, blocks)).rev().find(split).unwrap_or(1);
    Ok(Cut { terms, blocks, columns: columns / parts, rows, copies, packs })
}

/// Bytes from row to row of the operands that move with the rows.
fn row_strides(hand: &Hand<'_>, problem: &Problem, row: usize) -> Vec<i64> {
    let Some(update) = &problem.axes[row].update else { return Vec::new() };
    let of = |access: &Access| {
        let Motion::Steady { stride, .. } = access.motion(update) else { return None };
        let bits = i64::from(hand.kernel().buffers[access.buffer].dtype.bits());
        Some(stride.abs() * bits / 8)
    };
    problem.update.loads().filter_map(of).collect()
}

/// How many rows so many bytes apart stay in the second-level cache, were each one line long.
fn rows_kept(target: &Target, stride: i64) -> i64 {
    let period = target.machine.l2.bytes as i64 / (2 * LINES);
    let (mut a, mut b) = (period, stride.max(target.machine.line_bytes));
    while b > 0 {
        (a, b) = (b, a % b);
    }
    LINES * period / a.max(target.machine.line_bytes)
}

/// The rows of a tile that take least time; what is left over needs code of its own.
fn best_rows(target: &Target, extent: i64, choice: &Choice, term: InstructionCost) -> i64 {
    let vectors = div_ceil(choice.width, choice.lanes);
    let fits = |rows: &i64| Tile { rows: *rows, vectors }.fits(target);
    // What a tile costs for each term: its multiply-adds, but no less than a latency.
    let latency = (f64::from(term.latency) / term.cycles) as i64;
    let cycles = |rows: i64| if rows == 0 { 0 } else { (rows * vectors).max(latency) };
    let cost = |rows: &i64| {
        let tiles = (extent / rows) * (cycles(*rows) + 1) + cycles(extent % rows);
        if extent % rows == 0 { tiles } else { tiles + tiles / 16 }
    };
    (1..=extent).take_while(fits).min_by_key(|rows| (cost(rows), -rows)).unwrap_or(1)
}

/// The other axes of a side.
fn others(problem: &Problem, choice: &Choice, side: Side) -> Vec<usize> {
    let of_side = choice.order.others.iter().filter(|(_, own)| *own == side);
    of_side.map(|(at, _)| *at).filter(|at| problem.axes[*at].update.is_some()).collect()
}

/// The most terms, up to a limit, that whole inner loops or an even part of one have; of a single
/// loop whose even parts are much smaller as many as there may be: the last part is shorter then.
fn part_of(problem: &Problem, hand: &Hand<'_>, most: i64) -> i64 {
    let mut terms = 1;
    let tuple = tuple(problem, hand.kernel());
    for found in problem.reduced.iter().rev() {
        if Some(found) == tuple.as_ref() {
            terms *= found.extent;
            continue;
        }
        let fits = |part: &i64| found.extent % part == 0 && terms * part <= most;
        let part = (1..=found.extent).rev().find(fits).unwrap_or(1);
        terms *= part;
        if part < found.extent {
            break;
        }
    }
    match &problem.reduced[..] {
        [found] if tuple.is_none() && 2 * terms < most.min(found.extent) => most / WHOLE * WHOLE,
        _ => terms,
    }
}

/// The loops of the nest that sums, or of what was cut off it.
struct Loops {
    reduced: Vec<String>,
    column: String,
    row: String,
    /// Other axes of the rows.
    others: Vec<String>,
}

impl Loops {
    fn of(problem: &Problem, choice: &Choice) -> Result<Loops, Refused> {
        let update = |at: usize| problem.axes[at].update.as_ref().map(|found| found.name.clone());
        let row = choice.row.ok_or("there is no axis of rows")?;
        Ok(Loops {
            reduced: problem.reduced.iter().map(|found| found.name.clone()).collect(),
            column: update(choice.vector).ok_or("the sums are not walked one by one")?,
            row: update(row).ok_or("the rows are not walked one by one")?,
            others: others(problem, choice, Side::Rows).into_iter().filter_map(update).collect(),
        })
    }

    /// Cuts off the terms behind whole parts, where there are any; they come behind all others.
    fn cut_rest(&self, hand: &mut Hand<'_>, terms: i64) -> Result<Option<Loops>, Refused> {
        let [reduced] = &self.reduced[..] else { return Ok(None) };
        let extent = hand.extent(reduced).ok_or("the number of terms is not known")?;
        if extent % terms == 0 {
            return Ok(None);
        }
        let around = hand.present(&self.others);
        let own = [self.column.clone(), self.row.clone()];
        let inner = [hand.present(&own), around.clone()].concat();
        hand.reorder(&[vec![reduced.clone()], inner.clone()].concat())?;
        let rest = hand.cut(reduced, extent / terms * terms)?;
        let names = hand.band(&rest);
        let named = |name: &String| {
            let at = inner.iter().position(|own| own == name);
            at.and_then(|at| names.get(at)).cloned()
        };
        Ok(Some(Loops {
            reduced: vec![rest],
            column: named(&self.column).ok_or("all columns are one")?,
            row: named(&self.row).ok_or("all rows are one")?,
            others: around.iter().filter_map(named).collect(),
        }))
    }
}

/// Takes the steps; the loops that may be shared among workers, and a remark on instructions.
fn emit(
    hand: &mut Hand<'_>,
    problem: &Problem,
    choice: &Choice,
    cut: &Cut,
    target: &Target,
) -> Result<(Vec<String>, String), Refused> {
    let (outer, ends) = blocks(hand, problem, choice, cut)?;
    if let Some(around) = outer.last() {
        hand.compute_at(&problem.acc, around)?;
    }
    hand.simplify()?;
    let whole = Loops::of(problem, choice)?;
    let rest = whole.cut_rest(hand, cut.terms)?;
    let instruction = parts(hand, problem, choice, cut, &whole, target)?;
    if let Some(rest) = rest {
        parts(hand, problem, choice, cut, &rest, target)?;
    }
    ends_in_vectors(hand, problem, choice, &ends)?;
    hand.simplify()?;
    Ok((hand.present(&outer), instruction))
}

/// Takes a sum in parts, or what is left of it behind whole parts; a remark on instructions.
fn parts(
    hand: &mut Hand<'_>,
    problem: &Problem,
    choice: &Choice,
    cut: &Cut,
    loops: &Loops,
    target: &Target,
) -> Result<String, Refused> {
    let along = problem.axes[choice.vector].update.as_ref();
    let along = along.ok_or("the sums are not walked one by one")?;
    let panels = Panels::of(hand, problem, along, choice.width);
    let staged = choice.staged_names(hand.kernel());
    let (before, after) = parts_of_sum(hand, &loops.reduced, cut.terms)?;
    let (column, lanes) = split_always(hand, &loops.column, choice.width)?;
    let around: Vec<String> =
        before.iter().chain([&column]).chain(&loops.others).cloned().collect();
    let tuple = tuple(problem, hand.kernel()).map(|found| found.name);
    let after: Vec<String> =
        after.into_iter().filter(|name| Some(name) != tuple.as_ref()).collect();
    let inner: Vec<String> = after.iter().cloned().chain(tuple).chain([lanes]).collect();
    let around = hand.present(&around);
    hand.reorder(&[around, vec![loops.row.clone()], inner.clone()].concat())?;
    let tiles = tiles_of_rows(hand, &loops.row, &inner, cut.rows)?;
    let mut instruction = String::new();
    let mut around = hand.present(&loops.others);
    for (number, (rows, inner)) in tiles.into_iter().enumerate() {
        let parts = inner.split_at(after.len());
        let (tiles, remark) = tile(hand, problem, choice, &rows, parts, cut.rows, target)?;
        instruction = remark;
        // Whole tiles come first, and are nearly all.
        if number == 0 {
            around.push(tiles);
        }
    }
    if let Some(part) = before.last().filter(|_| cut.copies) {
        stage(hand, &staged, part, choice.lanes)?;
    }
    for panels in &panels {
        match cut.packs {
            true => panels.pack(hand, &column, &around, target)?,
            false => panels.prefetch(hand, &around, target)?,
        }
    }
    Ok(instruction)
}

/// Cuts the last nest into blocks of rows and of columns: the loops over them, and what is left of
/// the vectors' loop.
fn blocks(
    hand: &mut Hand<'_>,
    problem: &Problem,
    choice: &Choice,
    cut: &Cut,
) -> Result<(Vec<String>, String), Refused> {
    let name = |at: usize| problem.axes[at].last.name.clone();
    let row = choice.row.ok_or("there is no axis of rows")?;
    let both = choice.order.others.iter().filter(|(_, side)| *side == Side::Both);
    let mut outer: Vec<String> = both.map(|(at, _)| name(*at)).collect();
    let mut inner: Vec<String> =
        others(problem, choice, Side::Rows).into_iter().map(name).collect();
    let extent = problem.axes[row].last.extent;
    let (block, rows) = match cut.blocks {
        1 => (None, name(row)),
        blocks => hand.split(&name(row), extent / blocks, Tail::Exact)?,
    };
    let (columns, vectors) = hand.split(&name(choice.vector), cut.columns, Tail::Exact)?;
    outer.extend(block.into_iter().chain(columns));
    inner.extend([rows, vectors.clone()]);
    hand.reorder(&[outer.clone(), inner].concat())?;
    Ok((outer, vectors))
}

/// Cuts the reduced loops: those over parts of the sum, and those of a part.
fn parts_of_sum(
    hand: &mut Hand<'_>,
    reduced: &[String],
    terms: i64,
) -> Result<(Vec<String>, Vec<String>), Refused> {
    let (mut before, mut after) = (Vec::new(), Vec::new());
    let mut left = terms;
    for name in reduced.iter().rev() {
        let extent = hand.extent(name).ok_or("the number of terms is not known")?;
        if left >= extent && reduced.len() > 1 {
            left /= extent;
            after.insert(0, name.clone());
        } else if left > 1 {
            let (outer, inner) = split_always(hand, name, left.min(extent))?;
            after.insert(0, inner);
            before.insert(0, outer);
            left = 1;
        } else {
            before.insert(0, name.clone());
        }
    }
    Ok((before, after))
}

/// Splits a loop, also where there is one block only.
fn split_always(
    hand: &mut Hand<'_>,
    target: &str,
    factor: i64,
) -> Result<(String, String), Refused> {
    let (outer, inner) = (hand.fresh(target, "o"), hand.fresh(target, "i"));
    hand.take(ScheduleStep::Split {
        target: target.to_owned(),
        factor,
        outer: outer.clone(),
        inner: inner.clone(),
        tail: Tail::Exact,
    })?;
    Ok((outer, inner))
}

/// Cuts a loop over rows where whole tiles end: each part with the loops inside of it.
fn tiles_of_rows(
    hand: &mut Hand<'_>,
    rows: &str,
    inner: &[String],
    tile: i64,
) -> Result<Vec<(String, Vec<String>)>, Refused> {
    let extent = hand.extent(rows).ok_or("the number of rows is not known")?;
    let whole = extent / tile * tile;
    let mut tiles = vec![(rows.to_owned(), inner.to_vec())];
    if whole > 0 && whole < extent {
        let rest = hand.cut(rows, whole)?;
        let kernel = hand.kernel();
        let mut names = Vec::new();
        let mut block = hand.find(&rest).map(|found| &found.body[..]);
        while let Some([Stmt::For(found)]) = block {
            names.push(kernel.symbols[found.variable].name.clone());
            block = Some(&found.body);
        }
        tiles.push((rest, names));
    }
    Ok(tiles)
}

/// Makes register tiles of rows, of reduced loops and of those inside of them; the loop over tiles,
/// and a remark on instructions.
fn tile(
    hand: &mut Hand<'_>,
    problem: &Problem,
    choice: &Choice,
    rows: &str,
    (terms, lanes): (&[String], &[String]),
    tile: i64,
    target: &Target,
) -> Result<(String, String), Refused> {
    let extent = hand.extent(rows).ok_or("the number of rows is not known")?;
    let (tiles, row) = split_always(hand, rows, tile.min(extent))?;
    let body: Vec<String> = [vec![row], lanes.to_vec()].concat();
    hand.reorder(&[vec![tiles.clone()], terms.to_vec(), body.clone()].concat())?;
    let remark = tile_in_vectors(hand, problem, &body, target)?;
    let vectors = div_ceil(choice.width, choice.lanes);
    unroll_sum(hand, problem, terms, tile.min(extent) * vectors, target)?;
    hand.keep_in_registers(&problem.acc, &tiles)?;
    Ok((tiles, remark))
}

/// Runs what initialises and what ends in vectors.
fn ends_in_vectors(
    hand: &mut Hand<'_>,
    problem: &Problem,
    choice: &Choice,
    last: &str,
) -> Result<(), Refused> {
    let place = problem.axes[choice.vector].place;
    let init = place.and_then(|place| problem.init.get(place).cloned().flatten());
    let names: BTreeSet<String> = init.into_iter().chain([last.to_owned()]).into_set();
    for name in names.into_iter().filter(|name| hand.find(name).is_some()).collect::<Vec<_>>() {
        let (_, vectors) = hand.split(&name, choice.width, choice.tail)?;
        hand.vectorise(&vectors)?;
    }
    Ok(())
}
