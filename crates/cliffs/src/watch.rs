//! A limit on how long a model may take: a compile that has no end cannot be ended from within its
//! process, so the process ends, and the model is one that stopped it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// Longer than any model takes, peers included, on a machine that is busy.
const LIMIT: Duration = Duration::from_secs(120);
/// How often a thread looks.
const BETWEEN: Duration = Duration::from_millis(500);

/// When the present model was begun, in milliseconds of this process, and 0 between models.
pub(crate) struct Watch(Arc<AtomicU64>);

impl Watch {
    /// A watch, which is looked at from now on.
    pub(crate) fn start() -> Watch {
        now();
        let begun = Arc::new(AtomicU64::new(0));
        let seen = Arc::downgrade(&begun);
        std::thread::spawn(move || {
            // Who measured has gone where nobody holds it.
            while let Some(begun) = seen.upgrade() {
                let begun = begun.load(Ordering::SeqCst);
                if begun > 0 && now() > begun + LIMIT.as_millis() as u64 {
                    eprintln!("cliffs: a model is not done after {} s", LIMIT.as_secs());
                    std::process::abort();
                }
                std::thread::sleep(BETWEEN);
            }
        });
        Watch(begun)
    }

    /// A model is begun.
    pub(crate) fn begin(&self) {
        self.0.store(now(), Ordering::SeqCst);
    }

    /// It is done.
    pub(crate) fn end(&self) {
        self.0.store(0, Ordering::SeqCst);
    }
}

/// Milliseconds since the first call, and one.
fn now() -> u64 {
    static START: OnceLock<Instant> = OnceLock::new();
    START.get_or_init(Instant::now).elapsed().as_millis() as u64 + 1
}
