//! Runs compiled kernels: executable memory and the kernel ABI, for tests and measurements.

use backend::MachineCode;
use runtime::abi::{Context, KernelFn};

/// Code in executable memory.
pub struct Loaded {
    memory: *mut u8,
    length: usize,
    scratch_bytes: usize,
}

impl Loaded {
    /// Copies code into pages that are then executable and no longer writable.
    pub fn new(code: &MachineCode) -> Loaded {
        let length = code.bytes.len().next_multiple_of(4096);
        // SAFETY: a fresh private mapping, written while writable and only then made executable.
        unsafe {
            let (read, write) = (libc::PROT_READ, libc::PROT_WRITE);
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
            let memory = libc::mmap(std::ptr::null_mut(), length, read | write, flags, -1, 0);
            assert!(memory != libc::MAP_FAILED, "mmap");
            let memory = memory.cast::<u8>();
            std::ptr::copy_nonoverlapping(code.bytes.as_ptr(), memory, code.bytes.len());
            let result = libc::mprotect(memory.cast(), length, read | libc::PROT_EXEC);
            assert_eq!(result, 0, "mprotect");
            Loaded { memory, length, scratch_bytes: code.scratch_bytes as usize }
        }
    }

    /// Runs iterations `first..last` of the parallel loop.
    ///
    /// # Safety
    /// The buffers must be as large as the kernel's parameters say, and in their order.
    pub unsafe fn run(
        &self,
        buffers: &[*mut u8],
        symbols: &mut [i64],
        first: i64,
        last: i64,
    ) -> i32 {
        let mut scratch = vec![0u8; self.scratch_bytes + 64];
        let offset = scratch.as_ptr().align_offset(64);
        let context = Context {
            buffers: buffers.as_ptr(),
            symbols: symbols.as_mut_ptr(),
            scratch: scratch[offset..].as_mut_ptr(),
        };
        // SAFETY: the memory holds a function of this type; the rest is the caller's promise.
        unsafe {
            let entry = std::mem::transmute::<*mut u8, KernelFn>(self.memory);
            entry(&raw const context, first, last)
        }
    }
}

impl Drop for Loaded {
    fn drop(&mut self) {
        // SAFETY: the mapping made in `new`, which nothing uses any more.
        unsafe { libc::munmap(self.memory.cast(), self.length) };
    }
}

/// Whether this machine has the instructions of a target.
pub fn can_run(target: &backend::Target) -> bool {
    target.check_machine(&runtime::cpu::has_feature).is_ok()
}
