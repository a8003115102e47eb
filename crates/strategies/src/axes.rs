//! Neighbouring axes that all nests of a kernel walk as one become one, whatever strategy follows.
//!
//! ```text
//! for c < 9 { for d < 2 { acc[c, d] = 0 } }
//! for r < 255 { for c < 9 { for d < 2 { acc[c, d] += in[r, c, d] } } }
//! ```
//!
//! becomes
//!
//! ```text
//! for i < 18 { acc[i] = 0 }
//! for r < 255 { for i < 18 { acc[i] += in[r, i] } }
//! ```
//!
//! What a strategy sees is then the same however a model divides its axes, vectors are full where
//! the innermost axis is short, and rows are shared among workers along all of them.

use std::collections::BTreeSet;

use loops::{BufferId, Kernel};
use schedule::Schedule;

use crate::fuse::{as_one, flatten, is_apart};
use crate::hand::Hand;
use crate::structure::{Access, LoopInfo, Nest};

/// Loops that have become one.
pub(super) struct Merged {
    pub(super) outer: String,
    pub(super) inner: String,
    pub(super) into: String,
}

/// Two neighbouring loops that every access of their nest walks as one.
struct Pair {
    nest: usize,
    /// Position of the outer one.
    at: usize,
    /// What must become one axis with them: the outer axis of two of a buffer.
    axes: BTreeSet<(BufferId, usize)>,
}

/// The schedule with all such axes merged, of buffers, too, that loops walk as one already, and the
/// loops that are one in it; none where there are no such axes.
pub(super) fn merge_axes(start: &Schedule, nests: &[Nest]) -> Option<(Schedule, Vec<Merged>)> {
    let mut pairs = pairs(start.kernel(), nests);
    let mut schedule = start.clone();
    let mut hand = Hand::new(&mut schedule);
    let mut merged = Vec::new();
    let mut nests = nests.to_vec();
    // Axes of a buffer that a loop of the model's walks as one already.
    let is_apart = pairs.is_empty() && is_apart(&hand) && hand.attempt(flatten).is_ok();
    while let Some(class) = class(&mut pairs) {
        let before = merged.len();
        // A step that is refused leaves all as it was.
        let taken = hand.attempt(|hand| {
            for pair in &class {
                let own = &nests[pair.nest].loops;
                let (outer, inner) = (own[pair.at].name.clone(), own[pair.at + 1].name.clone());
                let into = hand.fuse(&outer, &inner)?;
                merged.push(Merged { outer, inner, into });
            }
            flatten(hand)
        });
        match taken {
            Ok(()) => {
                nests = Nest::all(hand.kernel())?;
                pairs = self::pairs(hand.kernel(), &nests);
            }
            Err(_) => merged.truncate(before),
        }
    }
    (is_apart || !merged.is_empty()).then_some((schedule, merged))
}

/// All pairs of loops, of all nests, that may become one: where that makes two axes of a buffer
/// one, everything that meets the buffer walks these as one.
fn pairs(kernel: &Kernel, nests: &[Nest]) -> Vec<Pair> {
    let mut found = Vec::new();
    for (number, nest) in nests.iter().enumerate() {
        for (at, two) in nest.loops.windows(2).enumerate() {
            if let Some(axes) = axes_of(kernel, nest, &two[0], &two[1]) {
                found.push(Pair { nest: number, at, axes });
            }
        }
    }
    loop {
        let is_met_so = |&(buffer, axis): &(BufferId, usize)| {
            nests.iter().enumerate().all(|(number, nest)| {
                let own = nest.accesses.iter().filter(|access| access.buffer == buffer);
                let mut pairs = found.iter().filter(|pair| pair.nest == number);
                own.count() == 0 || pairs.any(|pair| pair.axes.contains(&(buffer, axis)))
            })
        };
        let fit: Vec<bool> = found.iter().map(|pair| pair.axes.iter().all(is_met_so)).collect();
        if fit.iter().all(|fits| *fits) {
            return found;
        }
        let mut fit = fit.into_iter();
        found.retain(|_| fit.next() == Some(true));
    }
}

/// The axes of buffers that become one with two loops of a nest; none where they cannot.
fn axes_of(
    kernel: &Kernel,
    nest: &Nest,
    outer: &LoopInfo,
    inner: &LoopInfo,
) -> Option<BTreeSet<(BufferId, usize)>> {
    let is_guard = [outer, inner].iter().any(|own| nest.guards.contains(&own.variable));
    if is_guard || inner.is_free() {
        return None;
    }
    let mut found = BTreeSet::new();
    for access in &nest.accesses {
        found.extend(axis_of(kernel, access, outer, inner)?.map(|axis| (access.buffer, axis)));
    }
    // Each access to a buffer along these axes, or none.
    let along = |&(buffer, axis): &(BufferId, usize)| {
        let mut own = nest.accesses.iter().filter(|access| access.buffer == buffer);
        own.all(|access| axis_of(kernel, access, outer, inner) == Some(Some(axis)))
    };
    found.iter().all(along).then_some(found)
}

/// The outer one of the two axes of its buffer along which an access moves with two loops, which it
/// walks as one; that is none where it moves along one axis, or not at all.
fn axis_of(
    kernel: &Kernel,
    access: &Access,
    outer: &LoopInfo,
    inner: &LoopInfo,
) -> Option<Option<usize>> {
    if !as_one(access.motion(outer), access.motion(inner), inner.extent) {
        return None;
    }
    let axes = |of: &LoopInfo| -> Vec<usize> {
        let indices = access.index.iter().enumerate();
        indices.filter(|(_, index)| index.contains(of.variable)).map(|(axis, _)| axis).collect()
    };
    match (&axes(outer)[..], &axes(inner)[..]) {
        ([], []) => Some(None),
        ([far], [near]) if far == near => Some(None),
        (&[far], &[near]) => {
            let alone =
                |axis: usize, by: &LoopInfo| access.index[axis].as_symbol() == Some(by.variable);
            let extent = kernel.buffers[access.buffer].shape[near].as_constant();
            let fits = far + 1 == near
                && alone(far, outer)
                && alone(near, inner)
                && extent == Some(inner.extent);
            fits.then_some(Some(far))
        }
        _ => None,
    }
}

/// Takes out pairs that become one together: the last, and all that share axes with it.
fn class(pairs: &mut Vec<Pair>) -> Option<Vec<Pair>> {
    let mut found = vec![pairs.pop()?];
    let mut next = 0;
    while let Some(own) = found.get(next) {
        let axes = own.axes.clone();
        found.extend(pairs.extract_if(.., |pair| !pair.axes.is_disjoint(&axes)));
        next += 1;
    }
    // Of three loops in a row two become one first.
    let touches =
        |one: &Pair, other: &Pair| one.nest == other.nest && one.at.abs_diff(other.at) < 2;
    let overlaps = (1..found.len()).any(|at| found[..at].iter().any(|it| touches(it, &found[at])));
    if overlaps { class(pairs) } else { Some(found) }
}
