//! The strategy for statements along lines: running reductions, the greatest element's index.
//!
//! What a line leaves for its next element is kept in a buffer with an element a line, so lines
//! that lie side by side can go along together, in vectors. The nests' loops are joined from the
//! outermost on, as far as they agree; a loop along which all nests write side by side stays inside
//! of each nest, which then runs in vectors along it, if that is legal. Order along a line stays.

use backend::Target;
use schedule::Schedule;

use crate::given::{Given, Refused};
use crate::hand::{Hand, SHARED};
use crate::point::Point;
use crate::rows::{is_contiguous, registers, vectorise_nest};
use crate::structure::{LoopInfo, Nest};

/// See the head of this file.
pub(super) fn apply(
    schedule: &mut Schedule,
    given: &Given<'_>,
    _point: &Point,
    target: &Target,
) -> Result<String, Refused> {
    let nests = given.nests()?;
    let mut hand = Hand::new(schedule);
    let outer = join(&mut hand, nests, is_contiguous);
    hand.simplify()?;
    let around = hand.present(&outer).last().cloned();
    if let Some(around) = &around {
        hand.shrink(around);
    }
    let inner: Vec<Nest> = hand.block(around.as_deref()).into_iter().flatten().collect();
    inner.iter().try_for_each(|nest| vectorise_nest(&mut hand, nest, 0, target))?;
    registers(&mut hand)?;
    let present = hand.present(&outer);
    let remark = format!("lines side by side, {} loops around", present.len());
    Ok(hand.share_if_independent(&present, SHARED, remark))
}

/// Joins the outermost loops of the nests as far as they agree, up to one that shall stay in all of
/// them; the names of the joined ones.
pub(super) fn join(
    hand: &mut Hand<'_>,
    nests: &[Nest],
    stays: fn(&Nest, &LoopInfo) -> bool,
) -> Vec<String> {
    let mut joined = Vec::new();
    let Some((first, others)) = nests.split_first() else { return joined };
    for (depth, found) in first.loops.iter().enumerate() {
        let own: Option<Vec<_>> = others.iter().map(|other| other.loops.get(depth)).collect();
        let Some(own) = own.filter(|own| own.iter().all(|own| own.extent == found.extent)) else {
            break;
        };
        let inside = others.iter().zip(&own).all(|(nest, own)| stays(nest, own));
        if inside && stays(first, found) {
            break;
        }
        let merge =
            |hand: &mut Hand<'_>| own.iter().try_for_each(|own| hand.merge(&found.name, &own.name));
        if hand.attempt(merge).is_err() {
            break;
        }
        joined.push(found.name.clone());
    }
    joined
}
