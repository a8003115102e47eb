//! Naive kernels of fusion groups: their definitions as loops. [`strategies::Naive`] says what a
//! naive kernel is.
//!
//! Files: `write` (the kernel under construction), `index` and `element` (index expressions),
//! `reductions`, `statements`, `selection` and `border` (nests), `partials` (the order of sums),
//! `build` (a definition a primitive), `tidy`, `bits` and `joined` (elements as they are stored);
//! `outline` (which groups have equal kernels).

mod bits;
mod border;
mod build;
pub(crate) mod element;
pub(crate) mod index;
mod joined;
pub(crate) mod outline;
pub(crate) mod partials;
pub(crate) mod reductions;
mod selection;
mod statements;
mod tidy;
pub(crate) mod write;

pub use build::build;
