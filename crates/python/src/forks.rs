//! Forks. The child of a fork has its parent's memory and one thread: a lock that another thread
//! held at that moment is never given back there.
//!
//! So a fork waits until no other thread is in the compiler, and none enters it meanwhile. Python
//! calls what is here around each `os.fork` (`os.register_at_fork`), with the interpreter lock
//! held, so that threads that come back from the compiler stay outside of it. Work that takes
//! longer than [`MOST_PATIENCE`] is not waited for: locks are held for a small part of it.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use pyo3::prelude::*;

/// How long a fork waits.
const MOST_PATIENCE: Duration = Duration::from_secs(2);

/// Between two looks of one who waits.
const BETWEEN_LOOKS: Duration = Duration::from_micros(100);

/// Threads that are in the compiler.
static INSIDE: AtomicUsize = AtomicUsize::new(0);

/// Whether a fork is about to happen.
static FORKING: AtomicBool = AtomicBool::new(false);

/// A thread's stay in the compiler, which ends when it is dropped.
pub(crate) struct Stay;

impl Stay {
    /// Enters; waits while a fork is about to happen.
    pub(crate) fn begin() -> Stay {
        loop {
            // Either the fork sees that somebody is inside, or he sees the fork.
            INSIDE.fetch_add(1, Ordering::SeqCst);
            if !FORKING.load(Ordering::SeqCst) {
                return Stay;
            }
            INSIDE.fetch_sub(1, Ordering::SeqCst);
            while FORKING.load(Ordering::Relaxed) {
                std::thread::sleep(BETWEEN_LOOKS);
            }
        }
    }
}

impl Drop for Stay {
    fn drop(&mut self) {
        INSIDE.fetch_sub(1, Ordering::Release);
    }
}

/// Waits until no thread is in the compiler, and lets none in.
#[pyfunction]
pub(crate) fn before_fork() {
    FORKING.store(true, Ordering::SeqCst);
    let end = Instant::now() + MOST_PATIENCE;
    while INSIDE.load(Ordering::SeqCst) > 0 && Instant::now() < end {
        std::thread::sleep(BETWEEN_LOOKS);
    }
}

/// Lets threads in again; in the child there are no others.
#[pyfunction]
pub(crate) fn after_fork(is_child: bool) {
    if is_child {
        INSIDE.store(0, Ordering::SeqCst);
    }
    FORKING.store(false, Ordering::SeqCst);
}
