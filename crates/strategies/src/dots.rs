//! The strategy for products of vectors: sums that run along contiguous operands, several at once.
//!
//! A vector times the rows of a matrix as they lie: lanes run along the sum, and every element of
//! the matrix is read once. A block of rows shares what is read of the vector, keeps all its
//! partial sums in registers, and reads as many streams as it has rows, which hides more of the
//! memory's latency than one.

use backend::Target;

use crate::given::{Given, Refused};
use crate::hand::{Hand, SHARED};
use crate::naive::{Producer, ProducerKind};
use crate::point::Point;
use crate::rows::{local_buffers, part_guarded, registers};
use crate::structure::{LoopInfo, Nest, Rows};
use schedule::{Schedule, Tail};

/// Rows of a block at most.
const MOST_ROWS: i64 = 4;

/// The sketch's name.
pub(super) const NAME: &str = "dots";

/// Its choices: how many rows are taken together.
pub(super) const CHOICES: &[&str] = &["rows"];

/// Numbers of rows that are taken together.
pub(super) fn points(_given: &Given<'_>, _target: &Target) -> Vec<Point> {
    (1..MOST_ROWS).map(|count| Point::of(NAME).with_number("rows", count)).collect()
}

/// See the head of this file.
pub(super) fn apply(
    schedule: &mut Schedule,
    given: &Given<'_>,
    point: &Point,
    target: &Target,
) -> Result<String, Refused> {
    let nests = given.nests()?;
    let (last, before) = nests.split_last().ok_or("it does nothing")?;
    let sum = interleaved_sum(given)?;
    let mut hand = Hand::new(schedule);
    let locals = local_buffers(hand.kernel(), before);
    if Rows::of(nests, &locals).loops.len() < last.loops.len() {
        return Err("its result is more than a row of sums".into());
    }
    let mut outer: Vec<String> = last.loops.iter().map(|found| found.name.clone()).collect();
    let innermost = outer.pop().ok_or("it has a single sum")?;
    let counts = rows_of_block(&hand, sum, &innermost, target).ok_or("its loops are symbolic")?;
    let count = counts.into_iter().find(|count| point.allows("rows", *count));
    let count = count.ok_or("its rows cannot be cut so")?;
    let (blocks, _) = hand.split(&innermost, count, Tail::Exact)?;
    outer.extend(blocks);
    let around = outer.last().ok_or("a block holds all of its sums")?.clone();
    for id in locals.iter().rev() {
        let name = hand.kernel().buffers[*id].name.clone();
        hand.compute_at(&name, &around)?;
    }
    hand.simplify()?;
    let inside: Vec<Nest> = hand.block(Some(&around)).into_iter().flatten().collect();
    inside.iter().try_for_each(|nest| run_together(&mut hand, nest, sum))?;
    registers(&mut hand)?;
    let remark = format!("{count} sums at once along {innermost}");
    Ok(hand.share_if_independent(&outer, SHARED, remark))
}

/// The sum that all else is a map of, if there is one and it is an interleaved sum of products.
fn interleaved_sum<'a>(given: &'a Given<'_>) -> Result<&'a Producer, Refused> {
    match &given.naive.producers[..] {
        [sum, others @ ..]
            if sum.kind == ProducerKind::Contraction
                && sum.nests.iter().any(|nest| nest.lanes.is_some())
                && others.iter().all(|producer| producer.kind == ProducerKind::Pointwise) =>
        {
            Ok(sum)
        }
        _ => Err("it is more than a map of one interleaved sum of products".into()),
    }
}

/// How many rows' partial sums fit half of the registers, and divide the rows; most rows first.
fn rows_of_block(hand: &Hand<'_>, sum: &Producer, rows: &str, target: &Target) -> Option<Vec<i64>> {
    let lanes = sum.nests.iter().find_map(|nest| nest.lanes.as_deref())?;
    let buffer = hand.kernel().buffers.values().find(|buffer| buffer.name == sum.buffer)?;
    let bytes = hand.extent(lanes)? * i64::from(buffer.dtype.bits().div_ceil(8));
    let vectors = (bytes / i64::from(target.vector_bytes)).max(1);
    let most = (i64::from(target.vector_registers / 2) / vectors).clamp(1, MOST_ROWS);
    let extent = hand.extent(rows)?;
    Some((1..=most).rev().filter(|count| extent % count == 0).collect())
}

/// Has all rows of a block take each step of the sum together.
fn run_together(hand: &mut Hand<'_>, nest: &Nest, sum: &Producer) -> Result<(), Refused> {
    let is_lane =
        |found: &&LoopInfo| sum.nests.iter().any(|nest| nest.lanes.as_ref() == Some(&found.name));
    let is_reduced =
        |found: &&LoopInfo| sum.nests.iter().any(|nest| nest.reduced.contains(&found.name));
    let (lanes, others): (Vec<&LoopInfo>, Vec<_>) = nest.loops.iter().partition(is_lane);
    let (reduced, rows): (Vec<&LoopInfo>, Vec<_>) = others.into_iter().partition(is_reduced);
    let order = [&reduced[..], &rows, &lanes].concat();
    hand.reorder(&order.iter().map(|found| found.name.clone()).collect::<Vec<_>>())?;
    rows.iter().try_for_each(|found| hand.unroll(&found.name))?;
    lanes.iter().try_for_each(|found| hand.vectorise(&found.name))?;
    reduced.iter().try_for_each(|found| part_guarded(hand, found))
}
