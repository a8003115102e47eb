//! An allocator for a great many small objects: the command line's, and the plugin's for JAX.
//!
//! A compile makes and drops half a million objects of a few dozen bytes. Here each thread keeps a
//! list of free blocks for each size, so that both take a few instructions. Blocks are cut from
//! chunks of the system's allocator, which this one keeps; larger objects are the system's.
//!
//! A block may be freed on another thread than it was made on. Lists that grow too long, and those
//! of a thread that ends, go to a store that all threads take from, so memory that one thread frees
//! is used again by others, and what is kept is bounded by what was in use at once and what the
//! lists of threads hold.
//!
//! Relies on the standard library's promise that an allocator may use `thread_local!`. Invariants:
//! a block in a list of class `c` is `(c + 1) * GRAIN` bytes that nobody else uses; a
//! block's class follows from the layout it was asked for with.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::{Cell, UnsafeCell};
use std::ptr::{self, null_mut};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Sizes and addresses of blocks are multiples of this.
const GRAIN: usize = 16;
/// Number of sizes.
const CLASSES: usize = 64;
/// Bytes asked of the system at once.
const CHUNK: usize = 64 * 1024;
/// A thread's list of one size holds at most so many bytes before it goes to the store: of all
/// sizes 2 MiB. A thread that frees what others have made fills its lists, and nobody takes from
/// them.
const MOST_LISTED: usize = 32 * 1024;

/// The allocator; a program makes a static of it its `#[global_allocator]`.
#[derive(Debug, Default)]
pub struct SmallObjects;

/// What a free block holds.
struct Free {
    /// The next of the list.
    next: *mut Free,
    /// In the store, of the first block of a list: the next list; of the second, if there is one,
    /// how many blocks the list has, as an address.
    next_list: *mut Free,
}

/// Free blocks of one size.
#[derive(Clone, Copy)]
struct List {
    first: *mut Free,
    /// How many more it may hold; none as long as nobody sees to it that they go to the store.
    room: usize,
}

/// What a thread owns.
struct Local {
    lists: [List; CLASSES],
    /// The rest of a chunk.
    rest: *mut u8,
    rest_bytes: usize,
}

/// A part of a chunk that has not been cut into blocks yet: more than the largest block.
struct Rest {
    next: *mut Rest,
    bytes: usize,
}

/// What no thread owns: lists by class, and rests of chunks.
struct Store {
    lists: [*mut Free; CLASSES],
    rests: *mut Rest,
}

// SAFETY: whoever holds the lock is the only one who sees the store's memory.
unsafe impl Send for Store {}

static STORE: Mutex<Store> = Mutex::new(Store { lists: [null_mut(); CLASSES], rests: null_mut() });

/// How many lists the store has; changes under its lock, but is read without.
static STORED: [AtomicUsize; CLASSES] = [const { AtomicUsize::new(0) }; CLASSES];

fn store() -> MutexGuard<'static, Store> {
    STORE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The class of a layout; none if it is the system's.
#[inline(always)]
fn class_of(layout: Layout) -> Option<usize> {
    let small = layout.size() <= CLASSES * GRAIN && layout.align() <= GRAIN;
    // No layout here has size zero; if one had, it would do with the smallest block.
    small.then(|| layout.size().saturating_sub(1) / GRAIN)
}

fn class_bytes(class: usize) -> usize {
    (class + 1) * GRAIN
}

/// How many blocks a list holds at most.
fn most_listed(class: usize) -> usize {
    MOST_LISTED / class_bytes(class)
}

thread_local! {
    // Without a destructor it needs no check whether it is still there.
    static LOCAL: UnsafeCell<Local> = const { UnsafeCell::new(Local::NOTHING) };
    static KEEPER: Keeper = const { Keeper(Cell::new(false)) };
}

/// Gives what a thread owns to the store when the thread ends.
struct Keeper(Cell<bool>);

impl Drop for Keeper {
    fn drop(&mut self) {
        with_local(Local::give_all);
    }
}

impl Local {
    const NOTHING: Local = Local {
        lists: [List { first: null_mut(), room: 0 }; CLASSES],
        rest: null_mut(),
        rest_bytes: 0,
    };

    /// A free block, or null.
    #[inline(always)]
    fn take(&mut self, class: usize) -> *mut u8 {
        let list = &mut self.lists[class];
        if list.first.is_null() {
            return self.take_elsewhere(class);
        }
        let block = list.first;
        // SAFETY: a block in a list is ours and holds a `Free`.
        list.first = unsafe { (*block).next };
        list.room += 1;
        block.cast()
    }

    /// Adds a block, which must be of this class and of no more use to anyone.
    #[inline(always)]
    fn put(&mut self, class: usize, block: *mut u8) {
        if self.lists[class].room == 0 {
            self.make_room(class, block);
        } else {
            self.push(class, block);
        }
    }

    #[inline(always)]
    fn push(&mut self, class: usize, block: *mut u8) {
        let block = block.cast::<Free>();
        let list = &mut self.lists[class];
        // SAFETY: the block is at least as large and as aligned as a `Free`, and ours.
        unsafe { (&raw mut (*block).next).write(list.first) };
        list.first = block;
        list.room -= 1;
    }

    /// Adds a block to a list that has no room, because it is full or nobody keeps it.
    #[cold]
    #[inline(never)]
    fn make_room(&mut self, class: usize, block: *mut u8) {
        let kept = self.is_kept();
        if self.lists[class].room == 0 {
            self.give(class);
        }
        self.push(class, block);
        if !kept {
            self.give_all();
        }
    }

    /// Whether a keeper sees to it that what is in the lists goes to the store: the thread's first
    /// block makes one, a thread that ends has none.
    fn is_kept(&mut self) -> bool {
        let was_there = KEEPER.try_with(|keeper| keeper.0.replace(true));
        if was_there == Ok(false) {
            for (class, list) in self.lists.iter_mut().enumerate() {
                list.room = most_listed(class);
            }
        }
        was_there.is_ok()
    }

    /// A block from the store, else from the chunk, else from a new chunk.
    #[inline(never)]
    fn take_elsewhere(&mut self, class: usize) -> *mut u8 {
        let kept = self.is_kept();
        let block = match STORED[class].load(Ordering::Relaxed) > 0 && self.adopt(class) {
            true => self.take(class),
            false => self.cut(class),
        };
        if !kept {
            self.give_all();
        }
        block
    }

    /// A block from the chunk, else from a new chunk; null if there is no memory.
    fn cut(&mut self, class: usize) -> *mut u8 {
        let bytes = class_bytes(class);
        if self.rest_bytes < bytes && !self.begin_chunk() {
            return null_mut();
        }
        let block = self.rest;
        self.rest_bytes -= bytes;
        // SAFETY: the rest has at least so many bytes.
        self.rest = unsafe { block.add(bytes) };
        block
    }

    /// Takes over a list from the store; whether there is one. There is none of this class here.
    fn adopt(&mut self, class: usize) -> bool {
        let mut store = store();
        let first = store.lists[class];
        if first.is_null() {
            return false;
        }
        // SAFETY: the first block of a list in the store, which we hold.
        store.lists[class] = unsafe { (*first).next_list };
        STORED[class].fetch_sub(1, Ordering::Relaxed);
        drop(store);
        // SAFETY: the list is ours now; its second block says how many there are.
        let length = unsafe {
            let second = (*first).next;
            if second.is_null() { 1 } else { (*second).next_list.addr() }
        };
        // A thread without room for them, which ends, gives them back at once.
        let room = most_listed(class).saturating_sub(length);
        self.lists[class] = List { first, room };
        true
    }

    /// Moves a list to the store.
    #[cold]
    fn give(&mut self, class: usize) {
        let empty = List { first: null_mut(), room: most_listed(class) };
        let list = std::mem::replace(&mut self.lists[class], empty);
        if list.first.is_null() {
            return;
        }
        let length = most_listed(class) - list.room;
        // SAFETY: the blocks are ours; with a second one there are as many as there is less room.
        unsafe {
            let second = (*list.first).next;
            if !second.is_null() {
                (&raw mut (*second).next_list).write(std::ptr::without_provenance_mut(length));
            }
        }
        let mut store = store();
        // SAFETY: the block is ours, and the store's once it is linked there.
        unsafe { (*list.first).next_list = store.lists[class] };
        store.lists[class] = list.first;
        STORED[class].fetch_add(1, Ordering::Relaxed);
    }

    /// Goes on with a rest from the store, else a new chunk; whether there is memory.
    #[cold]
    fn begin_chunk(&mut self) -> bool {
        self.give_rest();
        let mut store = store();
        let rest = store.rests;
        if !rest.is_null() {
            // SAFETY: a rest in the store, which we hold.
            unsafe { (store.rests, self.rest_bytes) = ((*rest).next, (*rest).bytes) };
            self.rest = rest.cast();
            return true;
        }
        drop(store);
        // SAFETY: the layout has a size.
        self.rest = unsafe { System.alloc(chunk_layout()) };
        self.rest_bytes = if self.rest.is_null() { 0 } else { CHUNK };
        !self.rest.is_null()
    }

    /// Gives everything away. The lists are left without room, as before the first block.
    #[cold]
    fn give_all(&mut self) {
        self.give_rest();
        for class in 0..CLASSES {
            self.give(class);
            self.lists[class].room = 0;
        }
    }

    /// Gives away what is left of the chunk: a block to the lists, more to the store.
    fn give_rest(&mut self) {
        let bytes = std::mem::take(&mut self.rest_bytes);
        match bytes / GRAIN {
            0 => {}
            count @ 1..=CLASSES => {
                if self.lists[count - 1].room == 0 {
                    self.give(count - 1);
                }
                self.push(count - 1, self.rest);
            }
            _ => {
                let rest = self.rest.cast::<Rest>();
                let mut store = store();
                // SAFETY: what is left is ours, aligned to the grain and large enough.
                unsafe { rest.write(Rest { next: store.rests, bytes }) };
                store.rests = rest;
            }
        }
    }
}

fn chunk_layout() -> Layout {
    Layout::from_size_align(CHUNK, GRAIN).expect("a power of two")
}

/// Gives `work` what this thread owns.
#[inline(always)]
fn with_local<R>(work: impl FnOnce(&mut Local) -> R) -> R {
    // SAFETY: nothing that `work` does comes back here, so this is the only reference.
    LOCAL.with(|local| work(unsafe { &mut *local.get() }))
}

// SAFETY: blocks are as large and as aligned as their layouts ask, and each is in one list, or in
// use once; what is no small object is passed on to the system's allocator.
unsafe impl GlobalAlloc for SmallObjects {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        match class_of(layout) {
            Some(class) => with_local(|local| local.take(class)),
            // SAFETY: the caller keeps the contract.
            None => unsafe { System.alloc(layout) },
        }
    }

    #[inline]
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        match class_of(layout) {
            Some(class) => with_local(|local| local.put(class, block)),
            // SAFETY: the caller keeps the contract.
            None => unsafe { System.dealloc(block, layout) },
        }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if class_of(layout).is_none() {
            // SAFETY: the caller keeps the contract.
            return unsafe { System.alloc_zeroed(layout) };
        }
        // SAFETY: the caller keeps the contract; what is not null has so many bytes.
        unsafe {
            let block = self.alloc(layout);
            if !block.is_null() {
                block.write_bytes(0, layout.size());
            }
            block
        }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: the caller sees to it that the size, rounded up to the alignment, fits.
        let wanted = unsafe { Layout::from_size_align_unchecked(size, layout.align()) };
        match (class_of(layout), class_of(wanted)) {
            // SAFETY: the caller keeps the contract.
            (None, None) => unsafe { System.realloc(block, layout, size) },
            (old, new) if old == new => block,
            // SAFETY: both blocks have at least the smaller size, and they are different ones.
            _ => unsafe {
                let moved = self.alloc(wanted);
                if !moved.is_null() {
                    ptr::copy_nonoverlapping(block, moved, layout.size().min(size));
                    self.dealloc(block, layout);
                }
                moved
            },
        }
    }
}
