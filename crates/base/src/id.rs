//! Typed ids and the tables they index.
//!
//! An id is a 32-bit number with a type of its own, so that a value is never mistaken for a block.
//! [`Arena`] owns the things; [`SecondaryMap`] hangs more data on ids owned elsewhere.
//!
//! Invariants: ids are handed out in order from zero and never reused; iteration is in id order.

use std::fmt;
use std::hash::Hash;
use std::marker::PhantomData;
use std::ops::{Index, IndexMut};

/// A 32-bit typed index, made by [`define_id!`](crate::define_id).
pub trait Id: Copy + Eq + Ord + Hash + fmt::Debug + fmt::Display {
    /// The letters that print before the number, `v` in `v12`.
    const PREFIX: &'static str;

    /// The id of this index. Panics above `u32::MAX`: no model comes near.
    fn new(index: usize) -> Self;

    /// The position in the arena.
    fn index(self) -> usize;

    /// Reads what `Display` prints, `v12`; `None` for anything else.
    fn parse(text: &str) -> Option<Self> {
        let digits = text.strip_prefix(Self::PREFIX)?;
        if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        digits.parse::<u32>().ok().map(|number| Self::new(number as usize))
    }
}

/// Defines a typed id: `define_id!(/** A value. */ pub ValueId, "v");` makes a `Copy` newtype of
/// `u32` that prints as `v12` and implements [`Id`].
#[macro_export]
macro_rules! define_id {
    ($(#[$meta:meta])* $vis:vis $name:ident, $prefix:literal) => {
        $(#[$meta])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        $vis struct $name(u32);

        impl $crate::id::Id for $name {
            const PREFIX: &'static str = $prefix;

            #[inline]
            fn new(index: usize) -> Self {
                $name(u32::try_from(index).expect("an arena holds at most 2^32 things"))
            }

            #[inline]
            fn index(self) -> usize {
                self.0 as usize
            }
        }

        impl ::std::fmt::Display for $name {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                write!(f, concat!($prefix, "{}"), self.0)
            }
        }

        impl ::std::fmt::Debug for $name {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                ::std::fmt::Display::fmt(self, f)
            }
        }
    };
}

/// A growing table of things named by ids of one type.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Arena<I, T> {
    items: Vec<T>,
    ids: PhantomData<I>,
}

impl<I: Id, T> Arena<I, T> {
    /// An empty arena.
    pub const fn new() -> Self {
        Arena { items: Vec::new(), ids: PhantomData }
    }

    /// Makes room for as many more things at once.
    pub fn reserve(&mut self, more: usize) {
        self.items.reserve(more);
    }

    /// Adds a thing and returns its id.
    pub fn push(&mut self, item: T) -> I {
        let id = self.next_id();
        self.items.push(item);
        id
    }

    /// The id that the next [`push`](Self::push) will return.
    pub fn next_id(&self) -> I {
        I::new(self.items.len())
    }

    /// The number of things held.
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// Whether nothing is held.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Whether `id` names a thing of this arena.
    pub fn contains(&self, id: I) -> bool {
        id.index() < self.items.len()
    }

    /// Numbers things anew: what stays, each once, in the order of its new ids.
    pub fn renumber(&mut self, order: &[I]) {
        if order.is_sorted() {
            // No place is read after something else was put there.
            for (new, old) in order.iter().enumerate().filter(|(new, old)| *new != old.index()) {
                self.items.swap(new, old.index());
            }
            self.items.truncate(order.len());
            return;
        }
        let mut old: Vec<Option<T>> = self.items.drain(..).map(Some).collect();
        self.items.extend(order.iter().filter_map(|id| old[id.index()].take()));
    }

    /// The thing named `id`, or `None` where the id is from elsewhere (verifiers ask this).
    pub fn get(&self, id: I) -> Option<&T> {
        self.items.get(id.index())
    }

    /// The same, to change it.
    pub fn get_mut(&mut self, id: I) -> Option<&mut T> {
        self.items.get_mut(id.index())
    }

    /// All ids in order. Borrows nothing, so the arena may be changed while walking.
    pub fn ids(&self) -> impl DoubleEndedIterator<Item = I> + ExactSizeIterator + use<I, T> {
        (0..self.items.len()).map(I::new)
    }

    /// All things in id order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (I, &T)> + ExactSizeIterator {
        self.items.iter().enumerate().map(|(index, item)| (I::new(index), item))
    }

    /// All things in id order, to change them.
    pub fn iter_mut(&mut self) -> impl DoubleEndedIterator<Item = (I, &mut T)> + ExactSizeIterator {
        self.items.iter_mut().enumerate().map(|(index, item)| (I::new(index), item))
    }

    /// All things in id order, without their ids.
    pub fn values(&self) -> std::slice::Iter<'_, T> {
        self.items.iter()
    }
}

impl<I: Id, T> Default for Arena<I, T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<I: Id, T> Index<I> for Arena<I, T> {
    type Output = T;
    fn index(&self, id: I) -> &T {
        &self.items[id.index()]
    }
}

impl<I: Id, T> IndexMut<I> for Arena<I, T> {
    fn index_mut(&mut self, id: I) -> &mut T {
        &mut self.items[id.index()]
    }
}

impl<I: Id, T: fmt::Debug> fmt::Debug for Arena<I, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

impl<I: Id, T> FromIterator<T> for Arena<I, T> {
    fn from_iter<S: IntoIterator<Item = T>>(items: S) -> Self {
        Arena { items: items.into_iter().collect(), ids: PhantomData }
    }
}

/// A dense side table: every id has a value, the default one until it is written.
///
/// Two tables are equal when they agree on every id, however far each has grown.
#[derive(Clone)]
pub struct SecondaryMap<I, T> {
    items: Vec<T>,
    default: T,
    ids: PhantomData<I>,
}

impl<I: Id, T: Clone> SecondaryMap<I, T> {
    /// A table in which every id has the value `default`.
    pub const fn with_default(default: T) -> Self {
        SecondaryMap { items: Vec::new(), default, ids: PhantomData }
    }

    /// A table in which every id has `T::default()`.
    pub fn new() -> Self
    where
        T: Default,
    {
        Self::with_default(T::default())
    }

    /// Makes room for the values of so many ids at once.
    pub fn reserve(&mut self, ids: usize) {
        self.items.reserve(ids);
    }

    /// Sets the value of `id` and returns the one before.
    pub fn insert(&mut self, id: I, value: T) -> T {
        std::mem::replace(&mut self[id], value)
    }

    /// The ids up to the largest one written, with their values, in order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (I, &T)> + ExactSizeIterator {
        self.items.iter().enumerate().map(|(index, item)| (I::new(index), item))
    }

    /// Gives every id the default value again.
    pub fn clear(&mut self) {
        self.items.clear();
    }
}

impl<I: Id, T: Clone + Default> Default for SecondaryMap<I, T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<I: Id, T> Index<I> for SecondaryMap<I, T> {
    type Output = T;
    fn index(&self, id: I) -> &T {
        self.items.get(id.index()).unwrap_or(&self.default)
    }
}

impl<I: Id, T: Clone> IndexMut<I> for SecondaryMap<I, T> {
    fn index_mut(&mut self, id: I) -> &mut T {
        let index = id.index();
        if index >= self.items.len() {
            self.items.resize(index + 1, self.default.clone());
        }
        &mut self.items[index]
    }
}

impl<I: Id, T: PartialEq> PartialEq for SecondaryMap<I, T> {
    fn eq(&self, other: &Self) -> bool {
        let length = self.items.len().max(other.items.len());
        self.default == other.default
            && (0..length).map(I::new).all(|id| Index::index(self, id) == Index::index(other, id))
    }
}

impl<I: Id, T: Eq> Eq for SecondaryMap<I, T> {}

impl<I: Id, T: fmt::Debug> fmt::Debug for SecondaryMap<I, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let entries = self.items.iter().enumerate().map(|(index, item)| (I::new(index), item));
        f.debug_map().entries(entries).finish()
    }
}

/// A dense set of ids: a bit for each up to the largest one in it.
#[derive(Clone)]
pub struct IdSet<I> {
    words: Vec<u64>,
    ids: PhantomData<I>,
}

impl<I: Id> IdSet<I> {
    /// The empty set.
    pub const fn new() -> Self {
        IdSet { words: Vec::new(), ids: PhantomData }
    }

    /// Whether an id is in the set.
    pub fn contains(&self, id: I) -> bool {
        let word = self.words.get(id.index() / 64).copied().unwrap_or(0);
        word >> (id.index() % 64) & 1 == 1
    }

    /// Adds an id; whether it is new.
    pub fn insert(&mut self, id: I) -> bool {
        let (word, bit) = (id.index() / 64, 1 << (id.index() % 64));
        if word >= self.words.len() {
            self.words.resize(word + 1, 0);
        }
        let is_new = self.words[word] & bit == 0;
        self.words[word] |= bit;
        is_new
    }
}

impl<I: Id> Default for IdSet<I> {
    fn default() -> Self {
        Self::new()
    }
}

impl<'a, I: Id + 'a> Extend<&'a I> for IdSet<I> {
    fn extend<T: IntoIterator<Item = &'a I>>(&mut self, ids: T) {
        ids.into_iter().for_each(|&id| _ = self.insert(id));
    }
}

impl<I: Id + fmt::Debug> fmt::Debug for IdSet<I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ids = (0..self.words.len() * 64).map(I::new).filter(|&id| self.contains(id));
        f.debug_set().entries(ids).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    crate::define_id!(
        /// An id for the tests.
        ThingId,
        "t"
    );

    #[test]
    fn ids_print_and_parse() {
        let id = ThingId::new(12);
        assert_eq!(format!("{id} {id:?}"), "t12 t12");
        assert_eq!(ThingId::parse("t12"), Some(id));
        for bad in ["t", "12", "t-1", "t+1", "u12", "t99999999999"] {
            assert_eq!(ThingId::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn sets_hold_what_was_inserted() {
        let mut set = IdSet::<ThingId>::new();
        assert!(!set.contains(ThingId::new(500)));
        for index in [3, 64, 63, 500] {
            assert!(set.insert(ThingId::new(index)));
            assert!(!set.insert(ThingId::new(index)));
        }
        let inside: Vec<usize> =
            (0..1000).filter(|&index| set.contains(ThingId::new(index))).collect();
        assert_eq!(inside, [3, 63, 64, 500]);
        set.extend(&[ThingId::new(7)]);
        assert_eq!(format!("{set:?}"), "{t3, t7, t63, t64, t500}");
    }

    #[test]
    fn arena_hands_out_ids_in_order() {
        let mut arena: Arena<ThingId, &str> = Arena::default();
        assert!(arena.is_empty());
        let first = arena.push("a");
        let second = arena.push("b");
        arena[second] = "c";
        assert_eq!(arena.iter().collect::<Vec<_>>(), [(first, &"a"), (second, &"c")]);
        assert_eq!(arena.next_id(), ThingId::new(2));
        assert_eq!(arena.get(arena.next_id()), None);
        assert_eq!(format!("{arena:?}"), r#"{t0: "a", t1: "c"}"#);
    }

    #[test]
    fn arena_is_renumbered() {
        let mut arena: Arena<ThingId, char> = "abcde".chars().collect();
        arena.renumber(&[3, 4, 0, 2].map(ThingId::new));
        assert_eq!(arena.values().collect::<String>(), "deac");
        arena.renumber(&[0, 2, 3].map(ThingId::new));
        assert_eq!(arena.values().collect::<String>(), "dac");
    }

    #[test]
    fn secondary_map_reads_its_default() {
        let mut map: SecondaryMap<ThingId, i32> = SecondaryMap::with_default(7);
        assert_eq!(map[ThingId::new(5)], 7);
        let mut grown = map.clone();
        grown[ThingId::new(9)] = 7;
        assert_eq!(map, grown);
        assert_eq!(map.insert(ThingId::new(1), 3), 7);
        assert_ne!(map, grown);
    }
}
