//! The loop IR: kernels as loop nests over buffers.
//!
//! A kernel enters this level naive (one nest a definition, buffers between them) and leaves it
//! scheduled (split, reordered, fused, vectorised, its buffers in registers and caches). Both are
//! the same data, so the same evaluator, printer, parser and verifier serve every stage.
//!
//! - `kernel`: the data;
//! - [`print`](print()) and [`parse`](parse()): the text form, described in `print.rs`;
//! - [`verify`](verify()), [`verify_bounds`], [`verify_scheduled`]: what must hold;
//! - [`build`]: writing kernels in code; [`visit`] and [`substitute`]: reading and rewriting them;
//! - `domain`: what is known about symbols at a statement; `measure`: sizes and counts;
//!   `share`: which parameters may be one piece of memory.
//!
//! This crate does not know what a graph is, nor any target.

pub mod build;
mod domain;
mod kernel;
mod measure;
mod parse;
mod print;
mod share;
pub mod substitute;
mod verify;
mod verify_scheduled;
pub mod visit;

pub use domain::{Domain, Outside, Ranges, walk_domains};
pub use kernel::{
    Access, Buffer, BufferId, Comparison, Condition, Kernel, KernelSymbol, Loop, LoopKind,
    ScalarExpr, Scope, Stmt, SymbolKind,
};
pub use measure::{
    ScratchLayout, byte_size, bytes_touched, element_count, operations, scratch_layout,
};
pub use parse::{is_name, parse, parse_kernel};
pub use print::{print, print_expression, print_lines, print_statement, print_value};
pub use share::{constant_strides, may_share};
pub use verify::{verify, verify_bounds};
pub use verify_scheduled::verify_scheduled;
