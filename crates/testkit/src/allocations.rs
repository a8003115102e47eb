//! The system's allocator, watched: counting, for tests that nothing is allocated or kept, and
//! bounded, for tests that nothing asks for memory out of proportion.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

/// The system's allocator; a test makes a static of it its `#[global_allocator]`.
#[derive(Debug, Default)]
pub struct CountingAllocator {
    allocations: AtomicUsize,
    bytes: AtomicUsize,
}

impl CountingAllocator {
    /// None counted so far.
    #[must_use]
    pub const fn new() -> CountingAllocator {
        CountingAllocator { allocations: AtomicUsize::new(0), bytes: AtomicUsize::new(0) }
    }

    /// How often memory was asked for, by any thread.
    pub fn allocations(&self) -> usize {
        self.allocations.load(Ordering::Relaxed)
    }

    /// How many bytes are in use, by all threads.
    pub fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }
}

// SAFETY: everything is passed on to the system's allocator.
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        self.allocations.fetch_add(1, Ordering::Relaxed);
        self.bytes.fetch_add(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller keeps the contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        self.bytes.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller keeps the contract.
        unsafe { System.dealloc(pointer, layout) }
    }
}

/// The system's allocator, which ends the process when more bytes are asked for at once than it was
/// made for: a fuzzer sees that as a crash, and keeps the input.
#[derive(Debug)]
pub struct BoundedAllocator {
    largest: usize,
}

impl BoundedAllocator {
    /// No single allocation may have more than `largest` bytes.
    #[must_use]
    pub const fn new(largest: usize) -> BoundedAllocator {
        BoundedAllocator { largest }
    }

    fn check(&self, bytes: usize) {
        if bytes > self.largest {
            // Where it is asked for: the message may allocate, but little.
            let trace = std::backtrace::Backtrace::force_capture();
            eprintln!("an allocation of {bytes} bytes, with {} allowed\n{trace}", self.largest);
            std::process::abort();
        }
    }
}

// SAFETY: everything is passed on to the system's allocator.
unsafe impl GlobalAlloc for BoundedAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        self.check(layout.size());
        // SAFETY: the caller keeps the contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        self.check(layout.size());
        // SAFETY: the caller keeps the contract.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        self.check(bytes);
        // SAFETY: the caller keeps the contract.
        unsafe { System.realloc(pointer, layout, bytes) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps the contract.
        unsafe { System.dealloc(pointer, layout) }
    }
}
