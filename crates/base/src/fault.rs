//! Faults that are made on purpose, so that tests can show that each is found.
//!
//! A site asks [`is_seeded`] for its name and, if so, does what is wrong; the names, what is wrong
//! with each and who finds it are the table of `crates/tilewright/tests/faults.rs`. One fault at a
//! time is switched on, for all threads of the process.
//!
//! Builds without debug assertions, which releases are, contain no fault and no switch: there
//! [`is_seeded`] is the constant `false`.

#[cfg(debug_assertions)]
mod switch {
    use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

    /// The digest of the name of the fault that is switched on; 0 is none.
    static SEEDED: AtomicU64 = AtomicU64::new(0);

    /// Whether memory plans go unchecked, as in a release.
    static UNCHECKED: AtomicBool = AtomicBool::new(false);

    /// A digest of a name that is not 0: FNV-1a.
    const fn digest(name: &str) -> u64 {
        let (bytes, mut all, mut index) = (name.as_bytes(), 0xcbf2_9ce4_8422_2325_u64, 0);
        while index < bytes.len() {
            all = (all ^ bytes[index] as u64).wrapping_mul(0x0100_0000_01b3);
            index += 1;
        }
        all | 1
    }

    /// Whether the fault of this name is switched on.
    #[must_use]
    pub fn is_seeded(name: &str) -> bool {
        let seeded = SEEDED.load(Ordering::Relaxed);
        seeded != 0 && seeded == digest(name)
    }

    /// Whether the checker of memory plans is left out, as in a release.
    #[must_use]
    pub fn is_unchecked() -> bool {
        UNCHECKED.load(Ordering::Relaxed)
    }

    /// A fault that is switched on for as long as this lives.
    #[derive(Debug)]
    pub struct Seeded(());

    impl Seeded {
        /// Switches a fault on, with or without the checker of memory plans.
        ///
        /// # Panics
        /// If another one is on.
        #[must_use]
        pub fn new(name: &str, is_checked: bool) -> Seeded {
            let before = SEEDED.swap(digest(name), Ordering::SeqCst);
            assert_eq!(before, 0, "one fault at a time");
            UNCHECKED.store(!is_checked, Ordering::SeqCst);
            Seeded(())
        }
    }

    impl Drop for Seeded {
        fn drop(&mut self) {
            SEEDED.store(0, Ordering::SeqCst);
            UNCHECKED.store(false, Ordering::SeqCst);
        }
    }
}

#[cfg(debug_assertions)]
pub use switch::{Seeded, is_seeded, is_unchecked};

/// Whether the fault of this name is switched on: never.
#[cfg(not(debug_assertions))]
#[must_use]
pub const fn is_seeded(_: &str) -> bool {
    false
}

/// Whether debug builds leave out the checker of memory plans: there is nothing to leave out.
#[cfg(not(debug_assertions))]
#[must_use]
pub const fn is_unchecked() -> bool {
    false
}
