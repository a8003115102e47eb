//! What extents decide of bits: the one place that is asked where the order of a sum follows from
//! how large an extent is.
//!
//! ```text
//! reaches(4*h*w, 16)     whether sums over them keep partial results
//! is_one(w)              whether what lies behind an axis is one element
//! is_same(n, m)          whether all of an axis is walked
//! ```
//!
//! Code for extents at hand knows the answers. Code for many gives the same bits only if all
//! extents that it serves have the answers of those at hand. So [`crate::scope`] asks everything
//! that lowering will ask, of the extents at hand, and narrows the ranges of symbols until the
//! answers are the same within them: a [`Condition`] each. Lowering reads the answers from the
//! ranges; what is open there is no code for many (`lower` refuses it).

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

use graph::Function;
use sym::{Expr, Range, SymbolId};

use crate::naive::index::range_of;

/// What must hold of all extents that share an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Condition {
    /// The extent is as it is.
    Fixed(Expr),
    /// It is at least, and at most, so large. Where it must be known while lowering on which side
    /// of the step it is, `is_read` says so: elsewhere lowering takes it for granted.
    Within { extent: Expr, range: Range, is_read: bool },
}

/// Answers about the extents of a function.
pub(crate) struct Extents<'a> {
    function: &'a Function,
    at_hand: Option<AtHand<'a>>,
    is_open: Cell<bool>,
}

/// Values of symbols that have none in the function, and what was asked of them.
struct AtHand<'a> {
    values: &'a BTreeMap<SymbolId, i64>,
    asked: RefCell<Vec<Condition>>,
}

impl<'a> Extents<'a> {
    /// As the function has them: constants, and ranges.
    pub(crate) fn of(function: &'a Function) -> Extents<'a> {
        Extents { function, at_hand: None, is_open: Cell::new(false) }
    }

    /// With these values of symbols; what is asked is written down.
    pub(crate) fn at_hand(
        function: &'a Function,
        values: &'a BTreeMap<SymbolId, i64>,
    ) -> Extents<'a> {
        let at_hand = Some(AtHand { values, asked: RefCell::default() });
        Extents { function, at_hand, is_open: Cell::new(false) }
    }

    /// The same about another function with the same symbols.
    pub(crate) fn within<'b>(self, function: &'b Function) -> Extents<'b>
    where
        'a: 'b,
    {
        Extents { function, at_hand: self.at_hand, is_open: self.is_open }
    }

    /// What must hold for the answers to be these.
    pub(crate) fn conditions(self) -> Vec<Condition> {
        self.at_hand.map_or_else(Vec::new, |at_hand| at_hand.asked.into_inner())
    }

    /// Whether something could not be answered.
    pub(crate) fn is_open(&self) -> bool {
        self.is_open.get()
    }

    /// Whether an extent is 1.
    pub(crate) fn is_one(&self, extent: &Expr) -> bool {
        if let Some(known) = extent.as_constant() {
            return known == 1;
        }
        match self.value(extent) {
            Some(2..) => {
                self.ask(extent.clone(), Range::at_least(2), false);
                false
            }
            Some(value) => {
                self.fix(extent);
                value == 1
            }
            None => false,
        }
    }

    /// Whether two extents are the same.
    pub(crate) fn is_same(&self, one: &Expr, other: &Expr) -> bool {
        if one == other {
            return true;
        }
        let more = one.clone() - other;
        match self.value(&more) {
            Some(1..) => self.ask(more, Range::at_least(1), false),
            Some(..0) => self.ask(Expr::ZERO - &more, Range::at_least(1), false),
            Some(0) => {
                self.fix(one);
                self.fix(other);
                return true;
            }
            None => {}
        }
        false
    }

    /// Whether an extent is at least so large; `otherwise` where that is open.
    pub(crate) fn reaches(&self, extent: &Expr, step: i64, otherwise: bool) -> bool {
        if let Some(known) = extent.as_constant() {
            return known >= step;
        }
        if let Some(value) = self.value(extent) {
            let range = match value >= step {
                true => Range::at_least(step),
                false => Range::new(i64::MIN, step - 1),
            };
            self.ask(extent.clone(), range, true);
            return value >= step;
        }
        let range = extent.bounds(&|symbol| range_of(self.function, symbol));
        if range.min >= step || range.max < step {
            return range.min >= step;
        }
        self.is_open.set(true);
        otherwise
    }

    /// Whether extents are at least so large each, for what is done of known `extents` alone: where
    /// the function leaves one free it is not done.
    pub(crate) fn are_known_and_reach(&self, extents: &[Expr], steps: &[(Expr, i64)]) -> bool {
        let known = |expr: &Expr| expr.as_constant().or_else(|| self.value(expr));
        let mut short = steps.iter();
        match short.find(|(extent, step)| known(extent).is_none_or(|known| known < *step)) {
            Some((extent, step)) => {
                if extent.as_constant().is_none() {
                    self.ask(extent.clone(), Range::new(i64::MIN, step - 1), false);
                }
                false
            }
            None => {
                extents.iter().for_each(|extent| self.fix(extent));
                true
            }
        }
    }

    /// Has extents be as they are: what is done where they are so is done for them alone.
    pub(crate) fn fix(&self, extent: &Expr) {
        if extent.as_constant().is_none()
            && let Some(AtHand { asked, .. }) = &self.at_hand
        {
            asked.borrow_mut().push(Condition::Fixed(extent.clone()));
        }
    }

    /// The value at hand of an extent that the function leaves free.
    fn value(&self, extent: &Expr) -> Option<i64> {
        let AtHand { values, .. } = self.at_hand.as_ref()?;
        extent.evaluate(&|symbol| values.get(&symbol).copied())
    }

    fn ask(&self, extent: Expr, range: Range, is_read: bool) {
        let Some(AtHand { asked, .. }) = &self.at_hand else { return };
        let condition = Condition::Within { extent, range, is_read };
        let mut asked = asked.borrow_mut();
        if !asked.contains(&condition) {
            asked.push(condition);
        }
    }
}
