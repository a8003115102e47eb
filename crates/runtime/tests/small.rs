//! The allocator of small objects: whatever threads do with blocks, each holds what was written to
//! it for as long as it lives, and memory that is freed is used again.

use std::alloc::{GlobalAlloc as _, Layout};
use std::sync::mpsc::channel;

use runtime::SmallObjects;

#[global_allocator]
static ALLOCATOR: SmallObjects = SmallObjects;

/// A block, filled with one byte.
struct Held {
    block: *mut u8,
    layout: Layout,
    mark: u8,
}

// SAFETY: a block belongs to whoever holds it.
unsafe impl Send for Held {}

impl Held {
    fn new(random: u64) -> Held {
        let size = match random % 8 {
            0 => 1 + (random >> 8) % 5000,
            _ => 1 + (random >> 8) % 300,
        };
        let align = 1 << ((random >> 32) % 7);
        let layout = Layout::from_size_align(size as usize, align).unwrap();
        let mark = (random >> 40) as u8;
        // SAFETY: the size is not zero; the block has as many bytes.
        unsafe {
            let block = match random >> 63 {
                0 => ALLOCATOR.alloc(layout),
                _ => ALLOCATOR.alloc_zeroed(layout),
            };
            assert!(!block.is_null() && block.addr().is_multiple_of(align));
            if random >> 63 == 1 {
                assert!((0..layout.size()).all(|at| *block.add(at) == 0));
            }
            block.write_bytes(mark, layout.size());
            Held { block, layout, mark }
        }
    }

    fn check(&self) {
        // SAFETY: the block is ours and filled.
        assert!((0..self.layout.size()).all(|at| unsafe { *self.block.add(at) } == self.mark));
    }

    fn resize(&mut self, size: usize) {
        let kept = self.layout.size().min(size);
        // SAFETY: the block was made with this layout; the new size is not zero.
        unsafe {
            self.block = ALLOCATOR.realloc(self.block, self.layout, size);
            assert!((0..kept).all(|at| *self.block.add(at) == self.mark));
            self.block.write_bytes(self.mark, size);
        }
        self.layout = Layout::from_size_align(size, self.layout.align()).unwrap();
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.check();
        // SAFETY: the block was made with this layout, and is freed once.
        unsafe { ALLOCATOR.dealloc(self.block, self.layout) };
    }
}

/// splitmix64.
fn random(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut bits = *state;
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

#[test]
fn blocks_keep_what_is_written() {
    let (to_main, from_threads) = channel();
    let threads: Vec<_> = (0..4)
        .map(|seed| {
            let to_main = to_main.clone();
            std::thread::spawn(move || {
                let mut state = seed;
                let mut held: Vec<Held> = Vec::new();
                for _ in 0..20_000 {
                    let next = random(&mut state);
                    let at = (next >> 16) as usize % held.len().max(1);
                    match next % 5 {
                        0 | 1 => held.push(Held::new(random(&mut state))),
                        2 if !held.is_empty() => drop(held.swap_remove(at)),
                        3 if !held.is_empty() => held[at].resize(1 + (next >> 48) as usize % 2000),
                        // Freed by another thread, perhaps after this one has ended.
                        4 if !held.is_empty() => to_main.send(held.swap_remove(at)).unwrap(),
                        _ => {}
                    }
                }
            })
        })
        .collect();
    drop(to_main);
    let mut kept = Vec::new();
    for block in from_threads {
        block.check();
        kept.push(block);
        if kept.len() > 100 {
            kept.drain(..50);
        }
    }
    for thread in threads {
        thread.join().unwrap();
    }
}

#[test]
fn what_one_thread_frees_another_uses() {
    let layout = Layout::from_size_align(1000, 8).unwrap();
    let mut seen = std::collections::BTreeSet::new();
    for _ in 0..200 {
        // Made on a thread that ends, freed here: 100 blocks at a time, in all 20 MB.
        let blocks = std::thread::spawn(move || {
            // SAFETY: the layout has a size.
            (0..100).map(|_| unsafe { ALLOCATOR.alloc(layout) }.expose_provenance()).collect()
        });
        let blocks: Vec<usize> = blocks.join().unwrap();
        for address in blocks {
            seen.insert(address);
            // SAFETY: made with this layout, freed once.
            unsafe { ALLOCATOR.dealloc(std::ptr::with_exposed_provenance_mut(address), layout) };
        }
    }
    // A thread's list holds 32 KB before others get it.
    assert!(seen.len() < 500, "{} different blocks", seen.len());
}

#[test]
fn lists_of_all_sizes_hold_little() {
    let mut seen = std::collections::BTreeMap::new();
    for _ in 0..400 {
        // As requests are read on one thread and answered on another: 32 KB of 64 sizes.
        let made = std::thread::spawn(|| {
            let layouts = (1..=64).map(|grains| Layout::from_size_align(16 * grains, 8).unwrap());
            // SAFETY: the layouts have sizes.
            let made =
                layouts.map(|own| (own, unsafe { ALLOCATOR.alloc(own) }.expose_provenance()));
            made.collect::<Vec<_>>()
        });
        for (layout, address) in made.join().unwrap() {
            seen.insert(address, layout.size());
            // SAFETY: made with this layout, freed once.
            unsafe { ALLOCATOR.dealloc(std::ptr::with_exposed_provenance_mut(address), layout) };
        }
    }
    let bytes: usize = seen.values().sum();
    assert!(bytes < 4 << 20, "{bytes} bytes for 32 KB at once");
}
