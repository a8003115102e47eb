//! What follows from the terms of an expression, found once for all that have the same.
//!
//! The index expressions of a kernel are few, but stand in many places, alike or with another
//! constant; a rewrite of a kernel asks the same of them again and again. Those met last are kept,
//! so that a search costs less than an answer, and what a rewrite gives is shared by all places.

use crate::expr::{Expr, Terms};

/// How many lists of terms are kept.
const KEPT: usize = 16;

/// Answers by terms.
#[derive(Clone, Debug)]
pub struct Memo<T> {
    known: Vec<(Terms, T)>,
    /// The place of the one that goes next.
    oldest: usize,
}

impl<T> Memo<T> {
    /// Nothing known yet.
    pub const fn new() -> Memo<T> {
        Memo { known: Vec::new(), oldest: 0 }
    }

    /// The answer for the terms of an expression; `find` is given the expression without its
    /// constant.
    pub fn of(&mut self, expr: &Expr, find: impl FnOnce(&Expr) -> T) -> &T {
        let shared = self.known.iter().position(|(terms, _)| terms.is(&expr.terms));
        let alike = || self.known.iter().position(|(terms, _)| *terms == expr.terms);
        let position = shared.or_else(alike).unwrap_or_else(|| {
            let terms = Expr { constant: 0, terms: expr.terms.clone() };
            let found = (expr.terms.clone(), find(&terms));
            if self.known.len() < KEPT {
                self.known.reserve_exact(KEPT - self.known.len());
                self.known.push(found);
                return self.known.len() - 1;
            }
            let position = self.oldest;
            self.oldest = (position + 1) % KEPT;
            self.known[position] = found;
            position
        });
        &self.known[position].1
    }
}

impl<T> Default for Memo<T> {
    fn default() -> Memo<T> {
        Memo::new()
    }
}

impl Memo<Option<Expr>> {
    /// Rewrites an expression whose constant stays as it is: `find` gives what becomes of its
    /// terms, nothing where they stay, too. What is a constant has no terms and stays.
    pub fn rewrite(&mut self, expr: &mut Expr, find: impl FnOnce(&Expr) -> Option<Expr>) {
        if expr.terms.is_empty() {
            return;
        }
        if let Some(rewritten) = self.of(expr, find) {
            let constant = rewritten.constant.saturating_add(expr.constant);
            *expr = Expr { constant, terms: rewritten.terms.clone() };
        }
    }
}
