//! What has been compiled and may be asked for again, by what was known of it: one budget in bytes.
//! What was asked for longest ago leaves first.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use base::{FunctionId, Id};
use tensor::Tensor;

use crate::specialisation::Specialisation;

/// What a segment is compiled for: facts that decide its shapes.
#[derive(Clone, Debug)]
pub(crate) struct SegmentFacts<'a> {
    /// The variant whose plan calls it.
    pub(crate) variant: u64,
    /// The function of the variant's module.
    pub(crate) function: FunctionId,
    /// Sizes that its operands' shapes do not tell.
    pub(crate) sizes: Cow<'a, [i64]>,
    /// Shapes of its operands.
    pub(crate) shapes: Shapes<'a>,
}

/// Shapes of the operands of a segment.
#[derive(Clone, Debug)]
pub(crate) enum Shapes<'a> {
    /// Those of operands at hand.
    Of(&'a [Tensor]),
    /// These.
    These(Vec<Vec<usize>>),
}

impl Shapes<'_> {
    /// Each of them.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &[usize]> {
        let (tensors, shapes) = match self {
            Shapes::Of(tensors) => (*tensors, &[][..]),
            Shapes::These(shapes) => (&[][..], &shapes[..]),
        };
        tensors.iter().map(Tensor::shape).chain(shapes.iter().map(Vec::as_slice))
    }
}

impl SegmentFacts<'_> {
    fn are(&self, other: &SegmentFacts<'_>) -> bool {
        self.variant == other.variant
            && self.function == other.function
            && self.sizes == other.sizes
            && self.shapes.iter().eq(other.shapes.iter())
    }

    /// A number that tells most of them apart.
    fn fingerprint(&self) -> u64 {
        // The odd number nearest to 2^64 over the golden ratio, as of Fibonacci hashing.
        const FACTOR: u64 = 0x9E37_79B9_7F4A_7C15;
        let mix = |all: u64, one: u64| (all ^ one).wrapping_mul(FACTOR).rotate_left(29);
        let sizes = self.sizes.iter().map(|&size| size as u64);
        let extents = self.shapes.iter().flatten().map(|&extent| extent as u64);
        let function = self.function.index() as u64;
        [self.variant, function].into_iter().chain(sizes).chain(extents).fold(0, mix)
    }

    /// The same without what they are borrowed from.
    fn to_keep(&self) -> SegmentFacts<'static> {
        let shapes = self.shapes.iter().map(<[usize]>::to_vec).collect();
        let (sizes, shapes) = (Cow::Owned(self.sizes.to_vec()), Shapes::These(shapes));
        SegmentFacts { variant: self.variant, function: self.function, sizes, shapes }
    }
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

/// Each with the bytes that it takes.
type Variants<V> = Vec<(usize, Entry<V>)>;

/// By the fingerprints of their facts, so that others need not be looked at.
type Segments = BTreeMap<u64, Vec<(SegmentFacts<'static>, Entry<Specialisation>)>>;

struct Entry<T> {
    made: Arc<T>,
    last_use: AtomicU64,
}

impl<V> Cache<V> {
    /// Nothing yet.
    pub(crate) fn new(most_bytes: usize) -> Cache<V> {
        let (variants, segments) = (RwLock::default(), RwLock::default());
        Cache { variants, segments, clock: AtomicU64::new(0), most_bytes }
    }

    /// A variant for which something holds, which may ask for segments.
    pub(crate) fn variant(&self, is_it: impl Fn(&V) -> bool) -> Option<Arc<V>> {
        let variants = read(&self.variants);
        let (_, found) = variants.iter().find(|(_, entry)| is_it(&entry.made))?;
        Some(self.used(found))
    }

    /// Changes all variants, as long as `change` does not fail; none where somebody holds one.
    pub(crate) fn change_variants<E>(
        &mut self,
        mut change: impl FnMut(&mut V) -> Result<(), E>,
    ) -> Option<Result<(), E>> {
        let variants = self.variants.get_mut().unwrap_or_else(PoisonError::into_inner);
        for (_, entry) in variants {
            if let Err(failed) = change(Arc::get_mut(&mut entry.made)?) {
                return Some(Err(failed));
            }
        }
        Some(Ok(()))
    }

    /// Changes all segments; none where somebody holds one.
    pub(crate) fn change_segments(
        &mut self,
        mut change: impl FnMut(&mut Specialisation),
    ) -> Option<()> {
        let segments = self.segments.get_mut().unwrap_or_else(PoisonError::into_inner);
        for (_, entry) in segments.values_mut().flatten() {
            change(Arc::get_mut(&mut entry.made)?);
        }
        Some(())
    }

    /// All variants.
    pub(crate) fn variants(&self) -> Vec<Arc<V>> {
        read(&self.variants).iter().map(|(_, entry)| entry.made.clone()).collect()
    }

    /// The segment compiled for these facts.
    pub(crate) fn segment(&self, facts: &SegmentFacts<'_>) -> Option<Arc<Specialisation>> {
        let segments = read(&self.segments);
        let alike = segments.get(&facts.fingerprint())?;
        let (_, entry) = alike.iter().find(|(its, _)| facts.are(its))?;
        Some(self.used(entry))
    }

    /// All segments of a variant.
    pub(crate) fn segments(&self, variant: u64) -> Vec<Arc<Specialisation>> {
        let segments = read(&self.segments);
        let own = segments.values().flatten().filter(|(facts, _)| facts.variant == variant);
        own.map(|(_, entry)| entry.made.clone()).collect()
    }

    /// As [`Self::segments`], each with what it was compiled for.
    pub(crate) fn segments_with_facts(
        &self,
        variant: u64,
    ) -> Vec<(SegmentFacts<'static>, Arc<Specialisation>)> {
        let segments = read(&self.segments);
        let own = segments.values().flatten().filter(|(facts, _)| facts.variant == variant);
        own.map(|(facts, entry)| (facts.clone(), entry.made.clone())).collect()
    }

    /// Keeps a variant that takes so many bytes.
    pub(crate) fn keep_variant(&self, variant: V, bytes: usize) -> Arc<V> {
        let entry = self.entry(variant);
        let made = entry.made.clone();
        write(&self.variants).push((bytes, entry));
        self.make_room();
        made
    }

    /// Keeps a segment.
    pub(crate) fn keep_segment(
        &self,
        facts: &SegmentFacts<'_>,
        segment: Specialisation,
    ) -> Arc<Specialisation> {
        let entry = self.entry(segment);
        let made = entry.made.clone();
        let mut segments = write(&self.segments);
        segments.entry(facts.fingerprint()).or_default().push((facts.to_keep(), entry));
        drop(segments);
        self.make_room();
        made
    }

    /// Gives back what was asked for longest ago until the budget is kept: first the memory of runs
    /// that have ended, then code and constants. What was asked for last stays, and the constants
    /// of one variant cost nothing.
    pub(crate) fn make_room(&self) {
        let bytes = |variants: &Variants<V>, segments: &Segments| {
            let code = segments.values().flatten().map(|(_, entry)| entry.made.bytes());
            let constants = variants.iter().map(|(bytes, _)| bytes);
            let largest = constants.clone().max().unwrap_or(&0);
            code.sum::<usize>() + constants.sum::<usize>() - largest
        };
        if bytes(&read(&self.variants), &read(&self.segments)) <= self.most_bytes {
            return;
        }
        let (mut variants, mut segments) = (write(&self.variants), write(&self.segments));
        let mut ages: Vec<(u64, u64)> = Vec::new();
        for (&fingerprint, alike) in &*segments {
            ages.extend(alike.iter().map(|(_, entry)| (entry.age(), fingerprint)));
        }
        ages.sort_unstable();
        // The last one is about to run.
        ages.pop();
        for &(age, fingerprint) in &ages {
            if bytes(&variants, &segments) <= self.most_bytes {
                return;
            }
            let alike = segments.get(&fingerprint).into_iter().flatten().map(|(_, entry)| entry);
            alike.filter(|entry| entry.age() == age).for_each(|entry| entry.made.states.release());
        }
        for (age, fingerprint) in ages {
            if bytes(&variants, &segments) <= self.most_bytes {
                return;
            }
            if let Some(alike) = segments.get_mut(&fingerprint) {
                alike.retain(|(_, entry)| entry.age() != age);
            }
        }
        segments.retain(|_, alike| !alike.is_empty());
        while variants.len() > 1 && bytes(&variants, &segments) > self.most_bytes {
            let oldest = (0..variants.len()).min_by_key(|&at| variants[at].1.age());
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
