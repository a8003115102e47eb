//! Sorting in little room. The standard library's stable sort is some five kilobytes of code for
//! each type and each way to compare, so a compiler with a hundred sorts of a few elements is half
//! a megabyte of them. Here one function, which sees neither, finds the order; what is written for
//! a type puts its elements there.
//!
//! Sets and maps that are collected sort what they are given in the same way, once for each type in
//! each crate; one by one it goes in by code that is there anyway.
//!
//! For what is hot, or may be as long as a model's data, the standard library's ways stand.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

/// Sorts of slices: stable, and with `count · log2(count)` comparisons at most.
pub trait InOrder {
    /// What is sorted.
    type Item;

    /// Puts the least element first; what is equal stays in its order.
    fn put_in_order(&mut self)
    where
        Self::Item: Ord,
    {
        self.put_in_order_by(Ord::cmp);
    }

    /// Puts what compares as the least first; what is equal stays in its order.
    fn put_in_order_by(&mut self, compare: impl FnMut(&Self::Item, &Self::Item) -> Ordering);

    /// Puts what has the least key first; what has equal keys stays in its order.
    fn put_in_order_by_key<Key: Ord>(&mut self, mut key: impl FnMut(&Self::Item) -> Key) {
        self.put_in_order_by(|one, other| key(one).cmp(&key(other)));
    }
}

impl<T> InOrder for [T] {
    type Item = T;

    fn put_in_order_by(&mut self, mut compare: impl FnMut(&T, &T) -> Ordering) {
        if self.len() < 2 {
            return;
        }
        let mut order = order(self.len(), &mut |one, other| {
            compare(&self[other as usize], &self[one as usize]).is_lt()
        });
        // Each cycle of places is walked once: what belongs at a place comes there by one swap.
        for first in 0..order.len() {
            let mut place = first;
            loop {
                let from = std::mem::replace(&mut order[place], place as u32) as usize;
                if from == first {
                    break;
                }
                self.swap(place, from);
                place = from;
            }
        }
    }
}

/// Ordered sets and maps of what an iterator gives.
pub trait IntoTree: Iterator + Sized {
    /// The set of all elements.
    fn into_set(self) -> BTreeSet<Self::Item>
    where
        Self::Item: Ord,
    {
        let mut set = BTreeSet::new();
        for item in self {
            set.insert(item);
        }
        set
    }

    /// The map of all pairs; of those with equal keys the last.
    fn into_map<Key: Ord, Value>(self) -> BTreeMap<Key, Value>
    where
        Self: Iterator<Item = (Key, Value)>,
    {
        let mut map = BTreeMap::new();
        for (key, value) in self {
            map.insert(key, value);
        }
        map
    }
}

impl<Items: Iterator> IntoTree for Items {}

/// Which of `count` elements comes first, second and so on, by merging runs of twice the length
/// each time. `is_behind` says whether the second of two elements must come before the first.
fn order(count: usize, is_behind: &mut dyn FnMut(u32, u32) -> bool) -> Vec<u32> {
    let count = u32::try_from(count).expect("what is sorted here is short");
    let mut order: Vec<u32> = (0..count).collect();
    let mut merged = Vec::with_capacity(order.len());
    let mut length = 1;
    while length < order.len() {
        merged.clear();
        for runs in order.chunks(2 * length) {
            let (mut left, mut right) = runs.split_at(length.min(runs.len()));
            while let ([one, ..], [other, ..]) = (left, right) {
                let run = if is_behind(*one, *other) { &mut right } else { &mut left };
                merged.push(run[0]);
                *run = &run[1..];
            }
            merged.extend_from_slice(left);
            merged.extend_from_slice(right);
        }
        std::mem::swap(&mut order, &mut merged);
        length *= 2;
    }
    order
}

#[cfg(test)]
mod tests {
    use std::cmp::Reverse;

    use super::*;

    #[test]
    fn as_the_standard_library_sorts() {
        let mut seed = 0x9E37_79B9_7F4A_7C15u64;
        let mut draw = |below: u64| {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            seed % below
        };
        for count in (0..40).chain([64, 65, 127, 1000]) {
            for below in [1, 2, 7, 1 << 40] {
                // The second of each pair tells elements apart whose keys are equal.
                let items: Vec<_> = (0..count).map(|number| (draw(below), number)).collect();
                let (mut ours, mut theirs) = (items.clone(), items.clone());
                ours.put_in_order_by_key(|item| item.0);
                theirs.sort_by_key(|item| item.0);
                assert_eq!(ours, theirs);
                let (mut ours, mut theirs) = (items.clone(), items);
                ours.put_in_order_by(|one, other| other.0.cmp(&one.0));
                theirs.sort_by_key(|item| Reverse(item.0));
                assert_eq!(ours, theirs);
                ours.put_in_order();
                theirs.sort();
                assert_eq!(ours, theirs);
            }
        }
    }

    #[test]
    fn comparisons_are_as_few_as_promised() {
        let mut comparisons = 0;
        let mut items: Vec<u32> = (0..64).map(|number| number * 37 % 64).collect();
        items.put_in_order_by(|one, other| {
            comparisons += 1;
            one.cmp(other)
        });
        assert_eq!(items, Vec::from_iter(0..64));
        assert!(comparisons <= 64 * 6, "{comparisons}");
    }

    #[test]
    fn as_the_standard_library_collects() {
        let pairs = (0..200).map(|number| (number * 37 % 50, number));
        assert_eq!(pairs.clone().into_set(), pairs.clone().collect());
        assert_eq!(pairs.clone().into_map(), pairs.collect());
    }
}
