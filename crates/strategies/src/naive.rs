//! Naive kernels: what is to be computed, before any decision on how.
//!
//! The body holds one perfect nest after another over full-size buffers. A producer is the nests
//! that define one buffer: for a reduction the nest that initialises it, the nest that updates it
//! and, where partials are interleaved, the nest that folds them. The order of every reduction is
//! fixed here and kept by all that follows.
//!
//! Sums always have a buffer of their own, from which an elementwise nest stores the result. Axes
//! of extent 1 have no loops and no axes in buffers.

use loops::Kernel;

use crate::axes::Merged;

/// Elements from which on a kernel that runs once gains more by code that several threads run
/// than it takes to compile that.
pub const WORTH_CODE: i64 = 1 << 20;

/// A kernel as its definitions say it, with what strategies need to know of its structure.
#[derive(Clone, Debug, PartialEq)]
pub struct Naive {
    /// The kernel; its body is the producers' nests, in order.
    pub kernel: Kernel,
    /// In the order of the body. The last one defines a parameter; so may others.
    pub producers: Vec<Producer>,
    /// Whether it is run once, so that what it takes to compile counts as much as its speed.
    pub once: bool,
}

/// The nests that define one buffer.
#[derive(Clone, Debug, PartialEq)]
pub struct Producer {
    /// Name of the buffer.
    pub buffer: String,
    /// What kind of definition it is.
    pub kind: ProducerKind,
    /// The nests, in the order of the body.
    pub nests: Vec<Nest>,
}

/// Kinds of definitions, by structure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProducerKind {
    /// A sum of products of two operands: nests are initialise, update.
    Contraction,
    /// A reduction of one operand: nests are initialise, update, and fold if it has partials.
    Reduction,
    /// Each element from itself, over and over: nests are initialise, and, with turns as a reduced
    /// loop, update.
    Iteration,
    /// Each element from elements at the same place: one nest.
    Pointwise,
    /// Statements of another form (sort, scatter, running reductions): only whole rows are
    /// independent; strategies may parallelise and vectorise the axes that are listed.
    Opaque,
}

/// One perfect loop nest.
#[derive(Clone, Debug, PartialEq)]
pub struct Nest {
    /// Names of the loops over the axes of the result, outermost first, one an axis of extent other
    /// than 1.
    pub parallel: Vec<String>,
    /// Names of the loops over reduced axes, outermost first.
    pub reduced: Vec<String>,
    /// Where partials are interleaved: the loop over lanes, inside of all the others.
    pub lanes: Option<String>,
}

impl Naive {
    /// Takes loops that have become one for one.
    pub(crate) fn rename_loops(&mut self, merged: &[Merged]) {
        let nests = self.producers.iter_mut().flat_map(|producer| &mut producer.nests);
        for names in nests.flat_map(|nest| [&mut nest.parallel, &mut nest.reduced]) {
            for one in merged {
                let is_it = |two: &[String]| two[0] == one.outer && two[1] == one.inner;
                if let Some(at) = names.windows(2).position(is_it) {
                    names.splice(at..at + 2, [one.into.clone()]);
                }
            }
        }
    }
}
