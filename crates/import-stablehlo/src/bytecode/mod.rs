//! Portable bytecode: MLIR's container with operations of VHLO, which is what JAX hands to plugins
//! and what `jax.export` writes.
//!
//! A container has sections: texts, names of operations, attributes and types, and operations that
//! name all of these by numbers (`container.rs`). Attributes and types are read when they are asked
//! for (`attributes.rs`), and become what the text form makes of them; so do operations
//! (`operations.rs`), whose names and attributes VHLO has in versions (`vhlo.rs`). What becomes of
//! a program is the same from both forms.
//!
//! Files of StableHLO 0.9 to 1.20 are read; an operation that is of none of these versions is
//! refused with the version that its file tells.

mod attributes;
mod container;
mod exported;
mod operations;
mod reader;
mod sdy;
mod vhlo;

use base::Limits;
use bytes::Bytes;
use front::Accepted;

use crate::syntax::{Places, Program};
use attributes::Pool;
use container::Container;
use operations::Functions;
use reader::{Reader, damaged};

/// What a file begins with.
const MAGIC: &[u8] = b"ML\xefR";

/// The bytecode that a file is, or holds: one that `jax.export` wrote has it within.
pub(crate) fn found_in(bytes: &Bytes) -> Option<Bytes> {
    match bytes.starts_with(MAGIC) {
        true => Some(bytes.clone()),
        false => exported::program(bytes).filter(|program| program.starts_with(MAGIC)),
    }
}

/// Reads a program.
pub(crate) fn read(bytes: &[u8], limits: &Limits) -> Accepted<Program> {
    let container = Container::read(bytes)?;
    let most = limits.decoded_bytes.saturating_add(4 * bytes.len() as u64);
    let mut functions = Functions::new(&container, Pool::new(&container, most));
    functions.items(&mut Reader::new(container.operations))?;
    let mut program = functions.program;
    if program.functions.is_empty() {
        return Err(damaged("there is no function"));
    }
    program.producer = container.producer.to_owned();
    program.places = Places::Operations;
    Ok(program)
}
