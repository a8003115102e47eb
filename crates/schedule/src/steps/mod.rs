//! The primitive steps, one a file: what it does, before → after, and when it is legal.

pub(crate) mod case;
pub(crate) mod compute_at;
pub(crate) mod cut;
pub(crate) mod extend;
pub(crate) mod fission;
pub(crate) mod flatten;
pub(crate) mod fuse;
pub(crate) mod hoist;
pub(crate) mod inline;
pub(crate) mod merge;
pub(crate) mod pad;
pub(crate) mod parallelise;
pub(crate) mod prefetch;
pub(crate) mod privatise;
pub(crate) mod reorder;
pub(crate) mod set_scope;
pub(crate) mod shrink;
pub(crate) mod simplify;
pub(crate) mod split;
pub(crate) mod stage_read;
pub(crate) mod stage_write;
pub(crate) mod tensorise;
pub(crate) mod unroll;
pub(crate) mod vectorise;
