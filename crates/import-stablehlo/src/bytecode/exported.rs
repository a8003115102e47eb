//! What `jax.export` writes: a FlatBuffer that holds the bytecode of a program.
//!
//! Source: `serialization.fbs` of JAX. Of its fields the program alone is read: what it says of
//! types and devices besides stands in the program, too.

use base::Limits;
use bytes::Bytes;
use front::FlatBuffer;

use super::reader::damaged;

/// The field of the bytecode.
const PROGRAM: usize = 13;

/// The bytes of the program, if a file has the form.
pub(super) fn program(bytes: &Bytes) -> Option<Bytes> {
    let file = FlatBuffer::new(bytes.clone(), &Limits::default(), damaged);
    file.root().and_then(|root| root.bytes(PROGRAM)).ok()
}
