//! The system's allocator, counting: for tests that nothing is allocated.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

/// The system's allocator; a test makes a static of it its `#[global_allocator]`.
#[derive(Debug, Default)]
pub struct CountingAllocator {
    allocations: AtomicUsize,
}

impl CountingAllocator {
    /// None counted so far.
    #[must_use]
    pub const fn new() -> CountingAllocator {
        CountingAllocator { allocations: AtomicUsize::new(0) }
    }

    /// How often memory was asked for, by any thread.
    pub fn allocations(&self) -> usize {
        self.allocations.load(Ordering::Relaxed)
    }
}

// SAFETY: everything is passed on to the system's allocator.
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        self.allocations.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller keeps the contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps the contract.
        unsafe { System.dealloc(pointer, layout) }
    }
}
