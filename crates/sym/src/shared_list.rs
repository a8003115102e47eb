//! A list that copies share: the terms of an expression.
//!
//! A compile holds and copies expressions by the hundred thousand, most of them constants. So a
//! list without terms is no more than a null pointer, and copying any other counts one more reader.
//! Invariant: a list that is there has a term.

use std::ops::Deref;
use std::sync::Arc;

use smallvec::SmallVec;

/// Items, shared with the copies until it is edited. Most expressions have no more than two terms.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct SharedList<T>(Option<Arc<SmallVec<[T; 2]>>>);

impl<T> SharedList<T> {
    pub(crate) const EMPTY: SharedList<T> = SharedList(None);
}

impl<T> Default for SharedList<T> {
    fn default() -> SharedList<T> {
        SharedList::EMPTY
    }
}

impl<T: Clone> SharedList<T> {
    pub(crate) fn one(item: T) -> SharedList<T> {
        let mut list = SmallVec::new();
        list.push(item);
        SharedList(Some(Arc::new(list)))
    }

    /// Whether both are one list.
    pub(crate) fn is(&self, other: &SharedList<T>) -> bool {
        match (&self.0, &other.0) {
            (Some(list), Some(other)) => Arc::ptr_eq(list, other),
            (None, None) => true,
            _ => false,
        }
    }

    pub(crate) fn push(&mut self, item: T) {
        self.insert(self.len(), item);
    }

    pub(crate) fn insert(&mut self, index: usize, item: T) {
        match &mut self.0 {
            Some(list) => Arc::make_mut(list).insert(index, item),
            None => *self = SharedList::one(item),
        }
    }

    pub(crate) fn remove(&mut self, index: usize) {
        match &mut self.0 {
            Some(list) if list.len() > 1 => _ = Arc::make_mut(list).remove(index),
            _ => self.clear(),
        }
    }

    pub(crate) fn retain(&mut self, mut keep: impl FnMut(&T) -> bool) {
        if let Some(list) = &mut self.0 {
            let list = Arc::make_mut(list);
            list.retain(|item| keep(item));
            if list.is_empty() {
                self.clear();
            }
        }
    }

    pub(crate) fn clear(&mut self) {
        self.0 = None;
    }

    /// The items, to change but not to add to.
    pub(crate) fn edit(&mut self) -> &mut [T] {
        match &mut self.0 {
            Some(list) => Arc::make_mut(list).as_mut_slice(),
            None => &mut [],
        }
    }
}

impl<T> Deref for SharedList<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        match &self.0 {
            Some(list) => list,
            None => &[],
        }
    }
}
