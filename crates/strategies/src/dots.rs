//! The strategy for products of vectors: sums that run along contiguous operands, several at once.
//!
//! A vector times the rows of a matrix as they lie: lanes run along the sum, and every element of
//! the matrix is read once. A block of rows shares what is read of the vector, keeps all its
//! partial sums in registers, and reads as many streams as it has rows, which hides more of the
//! memory's latency than one. A few vectors that meet the same rows (queries that share keys) share
//! what is read of these; the loops outside go through the matrix in the order in which it lies.

use backend::Target;
use loops::BufferId;

use crate::given::{Given, Refused};
use crate::hand::{Hand, SHARED};
use crate::naive::{Producer, ProducerKind};
use crate::point::Point;
use crate::rows::{local_buffers, part_guarded, registers};
use crate::structure::{Access, LoopInfo, Motion, Nest, Rows};
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
    let (innermost, others) = last.loops.split_last().ok_or("it has a single sum")?;
    let streamed = StreamedOperand::of(nests, &locals, sum).ok_or("it has no operands")?;
    let vectors = vectors_of_sum(&hand, sum, target).ok_or("its loops are symbolic")?;
    let most = i64::from(target.vector_registers / 2) / vectors;
    let (mut shared, mut met) = (Vec::new(), 1);
    for (at, found) in others.iter().enumerate().rev() {
        let fits = !found.is_free() && met * found.extent <= most;
        if fits && streamed.stride(at) == Some(0) {
            shared.insert(0, found.name.clone());
            met *= found.extent;
        }
    }
    let extent = hand.extent(&innermost.name).ok_or("its loops are symbolic")?;
    let counts = (1..=(most / met).clamp(1, MOST_ROWS)).rev();
    let mut counts = counts.filter(|count| extent % count == 0);
    let count = counts.find(|count| point.allows("rows", *count));
    let count = count.ok_or("its rows cannot be cut so")?;
    let (blocks, inside) = hand.split(&innermost.name, count, Tail::Exact)?;
    // The largest steps through the matrix outermost.
    let step = |at: usize| streamed.stride(at).map_or(i64::MAX, i64::abs);
    let own = step(last.loops.len() - 1).saturating_mul(count);
    let mut outer: Vec<(i64, String)> =
        others.iter().enumerate().map(|(at, found)| (step(at), found.name.clone())).collect();
    outer.retain(|(_, name)| !shared.contains(name));
    outer.extend(blocks.map(|name| (own, name)));
    outer.sort_by_key(|(step, _)| std::cmp::Reverse(*step));
    let outer: Vec<String> = outer.into_iter().map(|(_, name)| name).collect();
    hand.reorder(&[&outer[..], &shared, &[inside]].concat())?;
    let around = outer.last().ok_or("a block holds all of its sums")?.clone();
    for id in locals.iter().rev() {
        let name = hand.kernel().buffers[*id].name.clone();
        hand.compute_at(&name, &around)?;
    }
    hand.simplify()?;
    let inside: Vec<Nest> = hand.block(Some(&around)).into_iter().flatten().collect();
    inside.iter().try_for_each(|nest| run_together(&mut hand, nest, sum))?;
    registers(&mut hand)?;
    let along = &innermost.name;
    let remark = match met {
        1 => format!("{count} sums at once along {along}"),
        _ => format!("{count} sums at once along {along}, {met} of each row"),
    };
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

/// How an operand that moves with the innermost loop moves with the other loops.
struct StreamedOperand<'a> {
    access: &'a Access,
    /// The loops of the sum that stand for those of the last nest.
    loops: Vec<Option<&'a LoopInfo>>,
}

impl<'a> StreamedOperand<'a> {
    fn of(nests: &'a [Nest], locals: &[BufferId], sum: &Producer) -> Option<StreamedOperand<'a>> {
        let reduces = |nest: &Nest| {
            nest.loops
                .iter()
                .any(|found| sum.nests.iter().any(|nest| nest.reduced.contains(&found.name)))
        };
        let at = nests.iter().position(reduces)?;
        let rows = Rows::of(nests, locals);
        let count = nests.last()?.loops.len();
        let variable = |place: usize| {
            rows.counterparts[at].iter().find(|(_, own)| **own == place).map(|(symbol, _)| *symbol)
        };
        let own = |place: usize| {
            let variable = variable(place)?;
            nests[at].loops.iter().find(|found| found.variable == variable)
        };
        let loops: Vec<Option<&LoopInfo>> = (0..count).map(own).collect();
        let innermost = (*loops.last()?)?;
        let moves = |access: &&Access| {
            !locals.contains(&access.buffer) && access.motion(innermost) != Motion::Still
        };
        Some(StreamedOperand { access: nests[at].loads().find(moves)?, loops })
    }

    /// Elements that it moves by with a loop of the last nest; none where it moves otherwise.
    fn stride(&self, at: usize) -> Option<i64> {
        match self.access.motion(self.loops[at]?) {
            Motion::Still => Some(0),
            Motion::Steady { stride, block: None } => Some(stride),
            Motion::Steady { .. } | Motion::Irregular => None,
        }
    }
}

/// How many vectors hold the partial results of a sum.
fn vectors_of_sum(hand: &Hand<'_>, sum: &Producer, target: &Target) -> Option<i64> {
    let lanes = sum.nests.iter().find_map(|nest| nest.lanes.as_deref())?;
    let buffer = hand.kernel().buffers.values().find(|buffer| buffer.name == sum.buffer)?;
    let bytes = hand.extent(lanes)? * i64::from(buffer.dtype.bits().div_ceil(8));
    Some((bytes / i64::from(target.vector_bytes)).max(1))
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
