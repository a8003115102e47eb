//! The loop IR: kernels as loop nests over buffers.
//!
//! A kernel enters this level naive (one nest a definition, buffers between them) and leaves it
//! scheduled (split, reordered, fused, vectorised, its buffers in registers and caches). Both are
//! the same data, so the same evaluator, printer, parser and verifier serve every stage.
//!
//! This crate does not know what a graph is, nor any target.

mod kernel;

pub use kernel::{
    Access, Buffer, BufferId, Comparison, Condition, Kernel, Loop, LoopKind, Scope, Stmt, Symbol,
    SymbolKind, Value,
};
