//! What `tile` does instead where a sum meets each element of a large operand once: a row times a
//! matrix that is given at run time.
//!
//! ```text
//! for j { acc[j] = 0 }
//! for j, k { acc[j] += a[k] * b[k, j] }
//! for j { out[j] = f(acc[j], ..) }
//! ```
//!
//! becomes, for each block of columns,
//!
//! ```text
//! for j < block { acc[j] = 0 }
//! for k_o { for j_o {
//!   for j_i vector { part[j_i] = acc[j_o, j_i] }
//!   for k_i < 8 unroll { for j_i vector { part[j_i] += a[k_o, k_i] * b[k_o, k_i, j_o, j_i] }}
//!   for j_i vector { acc[j_o, j_i] = part[j_i] }
//! } }
//! for j < block { out[j] = f(acc[j], ..) }
//! ```
//!
//! A register tile would walk down the matrix and read a few lines of each row, every row on
//! another page, and wait for memory at each. Here a few rows are read side by side from end to
//! end, as prefetchers like it, while the block of sums stays in the first-level cache. The order
//! of each sum is as before.

use backend::Target;
use backend::tile::div_ceil;
use loops::{Kernel, Scope};
use schedule::Tail;

use crate::choice::vector_motions;
use crate::given::Refused;
use crate::hand::{Hand, SHARED};
use crate::problem::Problem;
use crate::structure::{LoopInfo, Motion};

/// Rows that are read side by side, the first number that comes out even: few, because rows whose
/// distance is a power of two fall on the same cache sets.
const ROWS: [i64; 2] = [8, 4];

/// Vectors of sums that are in registers at once.
const VECTORS: i64 = 8;

/// The most bytes of a row that a block takes.
const SEGMENT: i64 = 4096;

/// Streams along an axis that [`streamed_axis`] has found.
pub(super) fn apply(
    hand: &mut Hand<'_>,
    problem: &Problem,
    vector: usize,
    target: &Target,
) -> Result<String, Refused> {
    let lanes = (i64::from(target.vector_bytes) / problem.bytes).max(1);
    let columns = problem.axes[vector].last.extent;
    let even = block_of(columns, problem.bytes, lanes);
    let (block, step) = even.ok_or("its columns are in no even blocks")?;
    let rows = rows_of(&problem.reduced[0]).ok_or("its rows are in no even groups")?;
    let outer = emit(hand, problem, vector, rows, block, step)?;
    let along = &problem.axes[vector].last.name;
    let remark =
        format!("{rows} rows of an operand at once, blocks of {block} elements along {along}");
    Ok(hand.share_if_independent(&outer, SHARED, remark))
}

/// The axis along which rows of a large operand are contiguous, if each element is met once.
pub(super) fn streamed_axis(problem: &Problem, kernel: &Kernel, target: &Target) -> Option<usize> {
    let [reduced] = &problem.reduced[..] else { return None };
    rows_of(reduced)?;
    let turns: i64 = problem.update.loops.iter().map(|found| found.extent).product();
    let met_once = |vector: &usize| {
        let Some(along) = vector_motions(problem, kernel, *vector, target) else { return false };
        problem.update.loads().zip(&along).any(|(access, motion)| {
            let buffer = &kernel.buffers[access.buffer];
            let counts = buffer.shape.iter().map(|extent| extent.as_constant());
            let elements = counts.product::<Option<i64>>().unwrap_or(0);
            let bytes = elements * i64::from(buffer.dtype.bits()) / 8;
            *motion == Motion::Steady { stride: 1, block: None }
                && matches!(buffer.scope, Scope::Parameter(_))
                && matches!(access.motion(reduced), Motion::Steady { stride, .. } if stride > 1)
                && elements == turns
                && bytes as u64 > target.machine.l2.bytes
        })
    };
    (0..problem.axes.len()).rev().find(met_once)
}

/// How many rows are read side by side.
fn rows_of(reduced: &LoopInfo) -> Option<i64> {
    let even = |rows: &i64| reduced.extent >= 2 * rows && reduced.extent % rows == 0;
    ROWS.into_iter().find(even).filter(|_| !reduced.is_free())
}

/// How many columns a block has, and how many of them are in registers at once, so that both come
/// out even; full vectors if that can be.
fn block_of(columns: i64, bytes: i64, lanes: i64) -> Option<(i64, i64)> {
    let least = div_ceil(columns * bytes, SEGMENT);
    let even = (least..=4 * least).filter(|count| columns % count == 0);
    let blocks: Vec<i64> = even.map(|count| columns / count).collect();
    let step = |block: i64, unit: i64| {
        (2 * lanes..=VECTORS * lanes).rev().find(|step| block % step == 0 && step % unit == 0)
    };
    let found = |unit| blocks.iter().find_map(|&block| Some((block, step(block, unit)?)));
    found(lanes).or_else(|| found(1))
}

/// Takes the steps; the loops that may be shared among workers.
fn emit(
    hand: &mut Hand<'_>,
    problem: &Problem,
    vector: usize,
    rows: i64,
    block: i64,
    step: i64,
) -> Result<Vec<String>, Refused> {
    let axis = &problem.axes[vector];
    let update = axis.update.as_ref().ok_or("the sums are not walked one by one")?;
    let others = problem.axes.iter().filter(|other| other.last.name != axis.last.name);
    let mut outer: Vec<String> = others.map(|other| other.last.name.clone()).collect();
    let (columns, inner) = hand.split(&axis.last.name, block, Tail::Exact)?;
    outer.extend(columns);
    hand.reorder(&[outer.clone(), vec![inner.clone()]].concat())?;
    if let Some(around) = outer.last() {
        hand.compute_at(&problem.acc, around)?;
    }
    hand.simplify()?;
    let (rows, row) = hand.split(&problem.reduced[0].name, rows, Tail::Exact)?;
    let (parts, part) = hand.split(&update.name, step, Tail::Exact)?;
    let around: Vec<String> = rows.into_iter().chain(parts).collect();
    hand.reorder(&[around.clone(), vec![row.clone(), part.clone()]].concat())?;
    hand.vectorise(&part)?;
    hand.unroll(&row)?;
    if let Some(innermost) = around.last() {
        hand.keep_in_registers(&problem.acc, innermost)?;
        hand.simplify()?;
    }
    let init = problem.init.iter().flatten().filter(|name| hand.find(name).is_some());
    let init: Vec<String> = init.cloned().collect();
    for name in init.into_iter().chain([inner]) {
        let (_, vectors) = hand.split(&name, step, Tail::Exact)?;
        hand.vectorise(&vectors)?;
    }
    Ok(hand.present(&outer))
}
