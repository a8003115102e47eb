//! How kernels are called, whatever made them: machine code in memory, object files, C.
//!
//! A kernel runs iterations `first..last` of its parallel loop, `0..1` if it has none. It calls
//! nothing, allocates nothing and does not unwind. Buffers may have any alignment: callers' memory
//! is used where it is, so kernels use unaligned loads and stores.

use base::Diagnostic;
use base::codes::{INDEX_OUT_OF_RANGE, INTERNAL_ERROR};
use program::Fault;

/// What a kernel is given besides its range of iterations.
#[derive(Debug)]
#[repr(C)]
pub struct Context {
    /// One pointer a parameter of the kernel.
    pub buffers: *const *mut u8,
    /// The program's symbols, in its order. Kernels only read them.
    pub symbols: *mut i64,
    /// Memory of the worker that runs the kernel, aligned to 64 bytes.
    pub scratch: *mut u8,
}

/// A kernel's entry point. Returns 0, or the code of a [`Fault`].
pub type KernelFn = unsafe extern "C" fn(context: *const Context, first: i64, last: i64) -> i32;

/// What a user is told when the kernel `name` returned `code`.
#[must_use]
pub fn fault_diagnostic(name: &str, code: i32) -> Diagnostic {
    let place = format!("kernel `{name}`");
    match Fault::of_code(code) {
        Some(Fault::IndexOutOfRange) => {
            Diagnostic::error(INDEX_OUT_OF_RANGE, "an index is outside of its axis")
                .at(place)
                .because("an index in the inputs, or computed from them, is negative or too large")
                .remedy("check the inputs that hold indices")
        }
        _ => Diagnostic::error(INTERNAL_ERROR, format!("a kernel returned {code}"))
            .at(place)
            .because("no fault of a kernel has this number")
            .remedy("report it with the model"),
    }
}
