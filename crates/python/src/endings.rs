//! The end of the interpreter. A thread that asks for the interpreter lock while the interpreter
//! ends is ended by Python where it stands (up to 3.13), which unwinds the stack of other languages
//! in its way; what unwinds it there need not be what unwound it here, and the process would crash.
//!
//! So before the interpreter ends (`atexit`) those that are about to come back are let in, and
//! whoever comes back later waits for the process to end.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::ThreadId;
use std::time::{Duration, Instant};

use pyo3::prelude::*;

/// How long the end waits for threads that come back.
const MOST_PATIENCE: Duration = Duration::from_secs(1);

/// Between two looks of one who waits.
const BETWEEN_LOOKS: Duration = Duration::from_micros(100);

/// Threads that ask for the interpreter lock.
static RETURNING: AtomicUsize = AtomicUsize::new(0);

/// Whether the interpreter is about to end, and the thread that ends it.
static ENDING: AtomicBool = AtomicBool::new(false);
static ENDS: OnceLock<ThreadId> = OnceLock::new();

/// What `work` gives, done without the interpreter lock.
pub(crate) fn detached<T: Send>(py: Python<'_>, work: impl FnOnce() -> T + Send) -> T {
    let outcome = py.detach(|| {
        let outcome = work();
        // Either the end sees that somebody comes back, or he sees the end.
        RETURNING.fetch_add(1, Ordering::SeqCst);
        if ENDING.load(Ordering::SeqCst) && ENDS.get() != Some(&std::thread::current().id()) {
            RETURNING.fetch_sub(1, Ordering::SeqCst);
            loop {
                std::thread::park();
            }
        }
        outcome
    });
    RETURNING.fetch_sub(1, Ordering::SeqCst);
    outcome
}

/// Lets those in who come back, and from then on nobody.
#[pyfunction]
pub(crate) fn before_end(py: Python<'_>) {
    let _ = ENDS.set(std::thread::current().id());
    ENDING.store(true, Ordering::SeqCst);
    let end = Instant::now() + MOST_PATIENCE;
    while RETURNING.load(Ordering::SeqCst) > 0 && Instant::now() < end {
        py.detach(|| std::thread::sleep(BETWEEN_LOOKS));
    }
}
