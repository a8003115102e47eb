//! JAX on Tilewright: a plugin with PJRT's C interface.
//!
//! A framework loads this library, asks [`GetPjrtApi`] for the table of functions (`table.rs`),
//! and has programs compiled and run by handles of objects: a client with its devices
//! (`client.rs`), buffers (`buffer.rs`), programs (`program.rs`), events (`event.rs`). What crosses
//! the interface is in `boundary.rs`, how its structures are laid out in `abi.rs`; `entries/` has
//! a function for each that the table has, all others answer UNIMPLEMENTED with their name.
//!
//! Programs are StableHLO, and all else about them is the facade's: this crate knows no operation.
//! They run in order on a thread of the client, short ones on the caller's.
//!
//! Invariants: no panic leaves the library; an error carries the text of the diagnostics.

mod abi;
mod boundary;
mod buffer;
mod client;
mod compile_options;
mod element;
mod entries;
mod event;
mod failure;
mod program;
mod shards;
mod table;

use tilewright::SmallObjects;

pub use table::{Api, GetPjrtApi};

/// What this library allocates nobody else frees, so it has an allocator of its own: a quarter of
/// a compile's time is the system's otherwise.
#[global_allocator]
static ALLOCATOR: SmallObjects = SmallObjects;
