//! What steps rewrite: a kernel, with what is known of its form.

use std::collections::BTreeMap;

use loops::{Kernel, substitute};
use sym::{Expr, SymbolId};

use crate::nest::{Descent, Site, block_mut};

/// What steps rewrite.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct State {
    pub(crate) kernel: Kernel,
    /// The minima that splits with shifted tails put into indices. Iterations that these make equal
    /// were shown to compute equal things, see [`crate::dependence`].
    pub(crate) shifted: Vec<Expr>,
    /// Whether index expressions are in simplest form.
    pub(crate) form: Form,
}

/// What is known of the form of a kernel's index expressions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// Nothing: the kernel is as it was given.
    Given,
    /// A step has written some since they were in simplest form.
    Written,
    /// A step has written some of the statement at this site alone.
    WrittenAt(Site),
    /// All are in simplest form.
    Simplest,
}

impl State {
    /// Replaces symbols in the block at the end of a way. What binds them goes away in the same
    /// step, so they occur nowhere else. The caller says where it has written.
    pub(crate) fn substitute(&mut self, way: &[Descent], replacements: &BTreeMap<SymbolId, Expr>) {
        substitute::substitute(block_mut(&mut self.kernel, way), replacements);
        for minimum in &mut self.shifted {
            substitute::substitute_expression(minimum, replacements);
        }
    }

    /// Notes that a step has written index expressions of the statement at a site, and no others.
    pub(crate) fn has_written(&mut self, site: Site) {
        self.form = match self.form {
            Form::Simplest => Form::WrittenAt(site),
            _ => Form::Written,
        };
    }
}
