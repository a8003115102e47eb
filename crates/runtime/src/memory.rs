//! Blocks of zeroed memory: arenas, constants, scratch.
//!
//! Every block begins at a multiple of 64 bytes. Large blocks come straight from the system, which
//! makes each page when it is first touched: by the thread that uses it, and not at all if none
//! does; or ahead of that, by a thread of its own, where that is asked for ([`Block::populate`]).
//! Huge pages are not asked for at first: where memory is given back to a hypervisor when it is
//! free, whole huge pages are what has been given back, and to have one again takes five times as
//! long as making its small pages (`docs/perf-log.md`). What turns out to be read again and again
//! is moved to them ([`Block::collapse`]).
//!
//! In builds with debug assertions, pages that may not be touched follow every block, so that code
//! which reads or writes behind its operands is found out wherever tests run it.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ops::Range;
use std::ptr::NonNull;
#[cfg(target_os = "linux")]
use std::sync::Arc;
#[cfg(target_os = "linux")]
use std::sync::atomic::{AtomicBool, Ordering};
#[cfg(target_os = "linux")]
use std::thread::JoinHandle;

use base::Diagnostic;
use base::codes::OUT_OF_MEMORY;

/// Blocks begin at multiples of this many bytes.
pub(crate) const ALIGNMENT: usize = 64;

/// Whether a page that may not be touched follows the last bytes of a block.
const IS_GUARDED: bool = cfg!(debug_assertions);

/// Smaller blocks come from the allocator, which clears what it gives.
const LARGE: usize = if IS_GUARDED { 1 } else { 1 << 18 };

/// Pages of so many bytes are made by one call: a fraction of a millisecond.
#[cfg(target_os = "linux")]
const POPULATED_PART: usize = 1 << 18;

/// Bytes of a huge page.
#[cfg(target_os = "linux")]
const HUGE_PAGE: usize = 2 << 20;

/// `MADV_COLLAPSE` of Linux, which not every C library's bindings name.
#[cfg(target_os = "linux")]
const MADV_COLLAPSE: libc::c_int = 25;

/// Memory that is zero at first.
#[derive(Debug)]
pub struct Block {
    pointer: NonNull<u8>,
    bytes: usize,
    /// What to give back.
    origin: Origin,
    #[cfg(target_os = "linux")]
    populating: Option<Populating>,
}

/// A thread that has the system make the pages of a block; it ends before the block does.
#[cfg(target_os = "linux")]
#[derive(Debug)]
struct Populating {
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
enum Origin {
    /// There is nothing to give back.
    Nothing,
    Allocator(Layout),
    /// A mapping of the system, so many bytes of which lie in front of the block.
    #[cfg(target_os = "linux")]
    System {
        before: usize,
        mapped: usize,
    },
}

// SAFETY: a block owns its memory and gives access to it by the rules of references.
unsafe impl Send for Block {}
// SAFETY: as above.
unsafe impl Sync for Block {}

/// Gives the pages that lie within bytes back to the system, which makes new ones when they are
/// touched. Few bytes stay as they are: a call of the system takes longer than they are worth.
///
/// # Safety
/// The bytes are valid for writes, and whoever reads them next expects any of them to have changed.
pub(crate) unsafe fn give_back(start: *mut u8, bytes: usize) {
    /// Some microseconds of reading.
    const FEW: usize = 1 << 16;
    #[cfg(target_os = "linux")]
    if bytes > FEW {
        let page = page_bytes();
        let before = start.addr().next_multiple_of(page) - start.addr();
        if let Some(whole) = bytes.checked_sub(before).map(|rest| rest / page * page) {
            // SAFETY: whole pages within the bytes, which become those of the mapping's origin,
            // zeros as a rule. It is advice, and may be refused.
            let _ = unsafe { libc::madvise(start.add(before).cast(), whole, libc::MADV_DONTNEED) };
        }
    }
    #[cfg(not(target_os = "linux"))]
    let _ = (start, bytes, FEW);
}

/// The system's unit of memory.
#[cfg(target_os = "linux")]
fn page_bytes() -> usize {
    // SAFETY: it only asks.
    usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(1 << 16)
}

/// The refusal of a run for which the system does not give so many bytes.
#[must_use]
pub fn out_of_memory(bytes: usize) -> Diagnostic {
    Diagnostic::error(OUT_OF_MEMORY, format!("no memory of {bytes} bytes to be had"))
        .at("a run of the model")
        .because("the system refused to give that much")
        .remedy("use a smaller batch or fewer callers at a time")
}

impl Block {
    /// So many bytes, all zero.
    ///
    /// # Errors
    /// A diagnostic if the system does not have them.
    pub fn zeroed(bytes: usize) -> base::Result<Block> {
        let block = match bytes {
            0 => Some(Block {
                pointer: NonNull::<Aligned>::dangling().cast(),
                bytes,
                origin: Origin::Nothing,
                #[cfg(target_os = "linux")]
                populating: None,
            }),
            #[cfg(target_os = "linux")]
            _ if bytes >= LARGE => Block::of_system(bytes),
            _ => Block::of_allocator(bytes),
        };
        block.ok_or_else(|| out_of_memory(bytes).into())
    }

    fn of_allocator(bytes: usize) -> Option<Block> {
        let layout = Layout::from_size_align(bytes, ALIGNMENT).ok()?;
        // SAFETY: the size is not zero.
        let pointer = NonNull::new(unsafe { alloc_zeroed(layout) })?;
        Some(Block {
            pointer,
            bytes,
            origin: Origin::Allocator(layout),
            #[cfg(target_os = "linux")]
            populating: None,
        })
    }

    #[cfg(target_os = "linux")]
    fn of_system(bytes: usize) -> Option<Block> {
        let (access, kind) =
            (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        let (before, mapped) = match IS_GUARDED {
            true => {
                let whole = bytes.checked_next_multiple_of(page_bytes())?;
                // The block's end is as near to the guard as its alignment lets it be.
                let before = (whole - bytes) / ALIGNMENT * ALIGNMENT;
                (before, whole.checked_add(page_bytes())?)
            }
            false => (0, bytes),
        };
        // SAFETY: a new anonymous mapping touches no memory in use.
        let mapping = unsafe { libc::mmap(std::ptr::null_mut(), mapped, access, kind, -1, 0) };
        if mapping == libc::MAP_FAILED {
            return None;
        }
        if IS_GUARDED {
            // SAFETY: the last page of the new mapping.
            let done = unsafe {
                let guard = mapping.add(mapped - page_bytes());
                libc::mprotect(guard, page_bytes(), libc::PROT_NONE)
            };
            if done != 0 {
                // The system counts mappings, and has no more of them.
                // SAFETY: mapped with this size just now, and known to nobody else.
                unsafe { libc::munmap(mapping, mapped) };
                return None;
            }
        }
        // SAFETY: within the mapping.
        let pointer = NonNull::new(unsafe { mapping.cast::<u8>().add(before) })?;
        let origin = Origin::System { before, mapped };
        Some(Block { pointer, bytes, origin, populating: None })
    }

    /// Has the system make the pages of a large block, by a thread of its own, while others use the
    /// block: the pages of these ranges of bytes first, in their order, then all others. Whoever
    /// is there before that thread makes the page that he meets. Advice, no promise.
    pub fn populate(&mut self, first: impl IntoIterator<Item = Range<usize>>) {
        #[cfg(target_os = "linux")]
        if let Origin::System { before, .. } = self.origin
            && self.populating.is_none()
        {
            let parts = populated_parts(self.bytes, first);
            // Where pages begin: what lies in front of the block is less than one.
            let begin = self.pointer.as_ptr().expose_provenance() - before;
            let is_over = Arc::new(AtomicBool::new(false));
            let over = is_over.clone();
            let bytes = self.bytes;
            let populate = move || {
                for part in parts {
                    let start = part * POPULATED_PART;
                    let length = POPULATED_PART.min(bytes - start);
                    let page = std::ptr::with_exposed_provenance_mut(begin + start);
                    // SAFETY: the mapping is the block's, which waits for this thread before it
                    // gives the mapping back; pages keep what they hold.
                    let done = unsafe { libc::madvise(page, length, libc::MADV_POPULATE_WRITE) };
                    if done != 0 || over.load(Ordering::Relaxed) {
                        return;
                    }
                }
            };
            let thread = std::thread::Builder::new().name("tilewright pages".to_owned());
            if let Ok(thread) = thread.spawn(populate) {
                self.populating = Some(Populating { is_over, thread: Some(thread) });
            }
        }
        #[cfg(not(target_os = "linux"))]
        let _ = first;
    }

    /// Moves a large block to huge pages, from which memory is read faster, while others read it;
    /// how many bytes lie in such. It takes a millisecond for each, so it is for memory that many
    /// runs read from end to end. The bytes stay what they are.
    pub fn collapse(&self) -> usize {
        let mut moved = 0;
        #[cfg(target_os = "linux")]
        if matches!(self.origin, Origin::System { .. }) {
            let begin = self.pointer.as_ptr() as usize;
            let mut at = begin.next_multiple_of(HUGE_PAGE);
            while at + HUGE_PAGE <= begin + self.bytes {
                // SAFETY: the range is within this block's mapping; its pages keep what they hold,
                // and those who read it meanwhile wait.
                let done =
                    unsafe { libc::madvise(at as *mut libc::c_void, HUGE_PAGE, MADV_COLLAPSE) };
                // Where the system has none to give, it will have none for the rest either.
                if done != 0 {
                    break;
                }
                moved += HUGE_PAGE;
                at += HUGE_PAGE;
            }
        }
        moved
    }

    /// Its size in bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.bytes
    }

    /// Whether it has no bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// Where it begins. Valid as long as the block lives; the bytes may be written through it by
    /// whoever has the block to himself.
    #[must_use]
    pub fn as_ptr(&self) -> *mut u8 {
        self.pointer.as_ptr()
    }

    /// Its bytes.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: the memory is initialised, owned, and shared like the block.
        unsafe { std::slice::from_raw_parts(self.pointer.as_ptr(), self.bytes) }
    }

    /// Its bytes, to change them.
    #[must_use]
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: the memory is initialised, owned, and borrowed exclusively like the block.
        unsafe { std::slice::from_raw_parts_mut(self.pointer.as_ptr(), self.bytes) }
    }
}

/// Has the alignment of blocks.
#[repr(align(64))]
struct Aligned;

/// Parts of a block by their numbers, each once: those that these ranges meet first.
#[cfg(target_os = "linux")]
fn populated_parts(bytes: usize, first: impl IntoIterator<Item = Range<usize>>) -> Vec<usize> {
    let count = bytes.div_ceil(POPULATED_PART);
    let mut is_met = vec![false; count];
    let first = first.into_iter().filter(|range| !range.is_empty()).flat_map(|range| {
        range.start / POPULATED_PART..range.end.div_ceil(POPULATED_PART).min(count)
    });
    first.chain(0..count).filter(|&part| !std::mem::replace(&mut is_met[part], true)).collect()
}

#[cfg(target_os = "linux")]
impl Drop for Populating {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // It cannot panic, and there is nothing to tell.
            let _ = thread.join();
        }
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        #[cfg(target_os = "linux")]
        drop(self.populating.take());
        match self.origin {
            Origin::Nothing => {}
            // SAFETY: allocated with this layout, and not given back before.
            Origin::Allocator(layout) => unsafe { dealloc(self.pointer.as_ptr(), layout) },
            #[cfg(target_os = "linux")]
            // SAFETY: mapped with this size, at these bytes before, and not given back yet.
            Origin::System { before, mapped } => unsafe {
                libc::munmap(self.pointer.as_ptr().sub(before).cast(), mapped);
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_aligned_and_zero() {
        for bytes in [0, 1, 63, 64, 5000, LARGE - 1, LARGE, 3 * LARGE + 7] {
            let mut block = Block::zeroed(bytes).expect("memory");
            block.populate([bytes / 2..bytes, 0..bytes / 3]);
            assert_eq!((block.len(), block.is_empty()), (bytes, bytes == 0));
            assert_eq!(block.as_ptr().align_offset(ALIGNMENT), 0);
            assert!(block.bytes().iter().all(|byte| *byte == 0));
            block.bytes_mut().fill(7);
            assert!(block.bytes().iter().all(|byte| *byte == 7));
        }
    }

    #[test]
    fn blocks_in_huge_pages_hold_what_they_held() {
        let mut block = Block::zeroed(7 << 20).expect("memory");
        let number = |at: usize| (at * 7 + (at >> 12)) as u8;
        block.bytes_mut().iter_mut().enumerate().for_each(|(at, byte)| *byte = number(at));
        let moved = block.collapse();
        assert!(moved <= block.len());
        assert!(block.bytes().iter().enumerate().all(|(at, byte)| *byte == number(at)));
        assert_eq!(Block::zeroed(LARGE - 1).expect("memory").collapse(), 0);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn parts_that_are_met_first_are_made_first() {
        let at = |part: usize| part * POPULATED_PART;
        let parts = populated_parts(at(5) + 1, [at(3) + 5..at(4), at(4)..at(4), 0..at(1) + 1]);
        assert_eq!(parts, [3, 0, 1, 2, 4, 5]);
        assert_eq!(populated_parts(at(2), []), [0, 1]);
    }

    #[test]
    fn a_block_may_end_while_its_pages_are_made() {
        for _ in 0..10 {
            let mut block = Block::zeroed(24 << 20).expect("memory");
            block.populate([]);
            block.bytes_mut()[7] = 1;
        }
    }

    #[test]
    fn too_much_is_a_diagnostic() {
        for bytes in [usize::MAX, usize::MAX / 2, 1 << 60] {
            let text = Block::zeroed(bytes).expect_err("too much").to_string();
            assert!(text.starts_with("error[TW0504]: no memory of"), "{text}");
        }
    }
}
