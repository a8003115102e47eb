//! What has been compiled and may be asked for again, by what was known of it: one budget in bytes.
//! What was asked for longest ago leaves first.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use crate::specialisation::{For, Specialisation, Wanted};

/// What a model's constants take.
pub(crate) trait Kept {
    /// In bytes.
    fn bytes(&self) -> usize;
}

/// Compiled models (`V`: variants) and segments of one executable.
pub(crate) struct Cache<V> {
    /// Locked before `segments`, where both are.
    variants: RwLock<Variants<V>>,
    segments: RwLock<Segments>,
    /// Counts what is asked for.
    clock: AtomicU64,
    most_bytes: usize,
}

type Variants<V> = Vec<Entry<V>>;

/// By a number that tells most of them apart, so that others need not be looked at.
type Segments = BTreeMap<u64, Vec<Entry<Specialisation>>>;

struct Entry<T> {
    made: Arc<T>,
    last_use: AtomicU64,
}

impl<V: Kept> Cache<V> {
    /// Nothing yet.
    pub(crate) fn new(most_bytes: usize) -> Cache<V> {
        let (variants, segments) = (RwLock::default(), RwLock::default());
        Cache { variants, segments, clock: AtomicU64::new(0), most_bytes }
    }

    /// A variant for which something holds, which may ask for segments.
    pub(crate) fn variant(&self, is_it: impl Fn(&V) -> bool) -> Option<Arc<V>> {
        let variants = read(&self.variants);
        let found = variants.iter().find(|entry| is_it(&entry.made))?;
        Some(self.used(found))
    }

    /// All variants.
    pub(crate) fn variants(&self) -> Vec<Arc<V>> {
        read(&self.variants).iter().map(|entry| entry.made.clone()).collect()
    }

    /// A segment compiled for this.
    pub(crate) fn segment(&self, wanted: &Wanted<'_>) -> Option<Arc<Specialisation>> {
        let segments = read(&self.segments);
        let alike = segments.get(&wanted.fingerprint())?;
        let is_it = |made: &Specialisation| made.made_for.as_ref().is_some_and(|it| wanted.is(it));
        let found = alike.iter().find(|entry| is_it(&entry.made))?;
        Some(self.used(found))
    }

    /// As [`Self::segment`], without operands at hand.
    pub(crate) fn segment_for(&self, wanted: &For) -> Option<Arc<Specialisation>> {
        let segments = read(&self.segments);
        let alike = segments.get(&wanted.fingerprint())?;
        let found = alike.iter().find(|entry| entry.made.made_for.as_ref() == Some(wanted))?;
        Some(self.used(found))
    }

    /// All segments of a variant.
    pub(crate) fn segments(&self, variant: u64) -> Vec<Arc<Specialisation>> {
        let segments = read(&self.segments);
        let all = segments.values().flatten().map(|entry| &entry.made);
        let is_of = |made: &Specialisation| {
            made.made_for.as_ref().is_some_and(|made_for| made_for.variant == variant)
        };
        all.filter(|segment| is_of(segment)).cloned().collect()
    }

    /// Keeps a variant.
    pub(crate) fn keep_variant(&self, variant: V) -> Arc<V> {
        let entry = self.entry(variant);
        let made = entry.made.clone();
        write(&self.variants).push(entry);
        self.make_room();
        made
    }

    /// Keeps a segment.
    pub(crate) fn keep_segment(&self, segment: Specialisation) -> Arc<Specialisation> {
        let fingerprint = segment.made_for.as_ref().map_or(0, For::fingerprint);
        let entry = self.entry(segment);
        let made = entry.made.clone();
        write(&self.segments).entry(fingerprint).or_default().push(entry);
        self.make_room();
        made
    }

    /// Gives back what was asked for longest ago until the budget is kept: first the memory of runs
    /// that have ended, then code and constants. What was asked for last stays, and the constants
    /// of one variant cost nothing.
    pub(crate) fn make_room(&self) {
        let bytes = |variants: &Variants<V>, segments: &Segments| {
            let code = segments.values().flatten().map(|entry| entry.made.bytes());
            let constants = variants.iter().map(|entry| entry.made.bytes());
            let largest = constants.clone().max().unwrap_or(0);
            code.sum::<usize>() + constants.sum::<usize>() - largest
        };
        if bytes(&read(&self.variants), &read(&self.segments)) <= self.most_bytes {
            return;
        }
        let (mut variants, mut segments) = (write(&self.variants), write(&self.segments));
        let mut ages: Vec<(u64, u64)> = Vec::new();
        for (&fingerprint, alike) in &*segments {
            ages.extend(alike.iter().map(|entry| (entry.age(), fingerprint)));
        }
        ages.sort_unstable();
        // The last one is about to run.
        ages.pop();
        for &(age, fingerprint) in &ages {
            if bytes(&variants, &segments) <= self.most_bytes {
                return;
            }
            let alike = segments.get(&fingerprint).into_iter().flatten();
            alike.filter(|entry| entry.age() == age).for_each(|entry| entry.made.release());
        }
        for (age, fingerprint) in ages {
            if bytes(&variants, &segments) <= self.most_bytes {
                return;
            }
            if let Some(alike) = segments.get_mut(&fingerprint) {
                alike.retain(|entry| entry.age() != age);
            }
        }
        segments.retain(|_, alike| !alike.is_empty());
        while variants.len() > 1 && bytes(&variants, &segments) > self.most_bytes {
            let oldest = (0..variants.len()).min_by_key(|&at| variants[at].age());
            variants.remove(oldest.unwrap_or(0));
        }
    }

    fn entry<T>(&self, made: T) -> Entry<T> {
        Entry { made: Arc::new(made), last_use: AtomicU64::new(self.now()) }
    }

    fn used<T>(&self, entry: &Entry<T>) -> Arc<T> {
        entry.last_use.store(self.now(), Ordering::Relaxed);
        entry.made.clone()
    }

    fn now(&self) -> u64 {
        self.clock.fetch_add(1, Ordering::Relaxed)
    }
}

impl<T> Entry<T> {
    /// When it was last asked for, by the cache's count.
    fn age(&self) -> u64 {
        self.last_use.load(Ordering::Relaxed)
    }
}

// A poisoned lock only means that another caller panicked: entries are put in whole.
fn read<T>(entries: &RwLock<T>) -> RwLockReadGuard<'_, T> {
    entries.read().unwrap_or_else(PoisonError::into_inner)
}

fn write<T>(entries: &RwLock<T>) -> RwLockWriteGuard<'_, T> {
    entries.write().unwrap_or_else(PoisonError::into_inner)
}
