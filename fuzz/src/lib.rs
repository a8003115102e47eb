//! What the fuzz targets do with bytes, and how these change. See `fuzz/README.md`.

use testkit::BoundedAllocator;

pub mod attempt;
pub mod mutator;

/// What no execution within the limits of [`attempt::limits`] asks for at once.
const LARGEST_ALLOCATION: usize = 1 << 26;

#[global_allocator]
static ALLOCATOR: BoundedAllocator = BoundedAllocator::new(LARGEST_ALLOCATION);
