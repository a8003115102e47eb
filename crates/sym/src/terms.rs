//! The terms of an expression: a list that copies share.
//!
//! A compile holds and copies expressions by the hundred thousand, most of them constants. So a
//! list without terms is no more than a null pointer, and copying any other counts one more reader.
//! Invariant: a list that is there has a term.

use std::ops::Deref;
use std::sync::Arc;

use smallvec::SmallVec;

use crate::expr::Term;

/// Terms, shared with the copies until it is edited.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(crate) struct Terms(Option<Arc<List>>);

/// Most expressions have no more than two terms.
type List = SmallVec<[Term; 2]>;

impl Terms {
    pub(crate) const EMPTY: Terms = Terms(None);

    pub(crate) fn one(term: Term) -> Terms {
        let mut list = List::new_const();
        list.push(term);
        Terms(Some(Arc::new(list)))
    }

    /// Whether both are one list.
    pub(crate) fn is(&self, other: &Terms) -> bool {
        match (&self.0, &other.0) {
            (Some(list), Some(other)) => Arc::ptr_eq(list, other),
            (None, None) => true,
            _ => false,
        }
    }

    pub(crate) fn push(&mut self, term: Term) {
        self.insert(self.len(), term);
    }

    pub(crate) fn insert(&mut self, index: usize, term: Term) {
        match &mut self.0 {
            Some(list) => Arc::make_mut(list).insert(index, term),
            None => *self = Terms::one(term),
        }
    }

    pub(crate) fn remove(&mut self, index: usize) {
        match &mut self.0 {
            Some(list) if list.len() > 1 => _ = Arc::make_mut(list).remove(index),
            _ => self.clear(),
        }
    }

    pub(crate) fn retain(&mut self, mut keep: impl FnMut(&Term) -> bool) {
        if let Some(list) = &mut self.0 {
            let list = Arc::make_mut(list);
            list.retain(|term| keep(term));
            if list.is_empty() {
                self.clear();
            }
        }
    }

    pub(crate) fn clear(&mut self) {
        self.0 = None;
    }

    /// The terms, to change but not to add to.
    pub(crate) fn edit(&mut self) -> &mut [Term] {
        match &mut self.0 {
            Some(list) => Arc::make_mut(list).as_mut_slice(),
            None => &mut [],
        }
    }
}

impl Deref for Terms {
    type Target = [Term];

    fn deref(&self) -> &[Term] {
        match &self.0 {
            Some(list) => list,
            None => &[],
        }
    }
}
