//! Panics that are caught and kept: the thread that catches them, and those that help it, print
//! nothing; all other threads of the process panic as they always did.
//!
//! The process has one panic hook. [`catch`] puts its own in front of the former one the first time
//! it is called and never again, so that any number of threads may catch at once. Whether a panic
//! is kept is said by the thread it happens on. Where none happens nothing is allocated: a caller
//! may catch at every call of a function that takes nanoseconds.

use std::cell::{OnceCell, RefCell};
use std::panic::{self, AssertUnwindSafe};
use std::sync::{Arc, Mutex, Once, PoisonError};

use crate::Diagnostics;

/// Where the place of the last panic under one call of [`catch`] is written.
#[derive(Clone, Default)]
pub(crate) struct Keeper(Arc<Mutex<Option<String>>>);

thread_local! {
    /// Where panics are kept: what keeps them, once somebody has asked for it.
    static KEEPER: RefCell<Option<OnceCell<Keeper>>> = const { RefCell::new(None) };
}

static INSTALLED: Once = Once::new();

/// A panic that was caught.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caught {
    /// What it said, where that is a text.
    pub message: Option<String>,
    /// The place in the source where it happened.
    pub place: Option<String>,
    /// What was abandoned with diagnostics ([`crate::abandon`]).
    pub found: Option<Diagnostics>,
}

/// Does a piece of work; a panic in it, or on a thread of [`crate::parallel::map`] that helps it,
/// is kept instead of printed.
///
/// # Errors
/// The panic.
pub fn catch<T>(work: impl FnOnce() -> T) -> Result<T, Caught> {
    INSTALLED.call_once(|| {
        let former = panic::take_hook();
        panic::set_hook(Box::new(move |information| match keeper() {
            Some(Keeper(place)) => {
                let found = information.location().map(ToString::to_string);
                *place.lock().unwrap_or_else(PoisonError::into_inner) = found;
            }
            None => former(information),
        }));
    });
    let former = KEEPER.with(|cell| cell.replace(Some(OnceCell::new())));
    let outcome = panic::catch_unwind(AssertUnwindSafe(work));
    let own = KEEPER.with(|cell| cell.replace(former));
    outcome.map_err(|payload| {
        let text = payload.downcast_ref::<String>().cloned();
        let message = text.or_else(|| payload.downcast_ref::<&str>().map(ToString::to_string));
        let own = own.and_then(OnceCell::into_inner);
        let place = own
            .and_then(|Keeper(place)| place.lock().unwrap_or_else(PoisonError::into_inner).take());
        let found = payload.downcast::<Diagnostics>().ok().map(|found| *found);
        Caught { message, place, found }
    })
}

/// What keeps this thread's panics, for threads that help it.
pub(crate) fn keeper() -> Option<Keeper> {
    // A thread that is ending has no such state left.
    let own = |cell: &RefCell<Option<OnceCell<Keeper>>>| {
        Some(cell.try_borrow().ok()?.as_ref()?.get_or_init(Keeper::default).clone())
    };
    KEEPER.try_with(own).ok().flatten()
}

/// Does a piece of work that does not unwind, panics in it kept so.
pub(crate) fn with<T>(keeper: Option<Keeper>, work: impl FnOnce() -> T) -> T {
    let former = KEEPER.with(|cell| cell.replace(keeper.map(OnceCell::from)));
    let outcome = panic::catch_unwind(AssertUnwindSafe(work));
    KEEPER.with(|cell| cell.replace(former));
    outcome.unwrap_or_else(|payload| panic::resume_unwind(payload))
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;

    use super::*;

    #[test]
    fn a_panic_is_kept_with_its_place() {
        let caught = catch::<()>(|| panic!("loop {} is gone", 7)).expect_err("it panics");
        assert_eq!(caught.message.as_deref(), Some("loop 7 is gone"));
        assert!(caught.place.is_some_and(|place| place.contains("panics.rs:")));
        assert_eq!(catch(|| 3), Ok(3));
    }

    #[test]
    fn helping_threads_keep_their_panics_too() {
        let work = |item: i32| assert!(item != 11, "item {item}");
        let caught = catch(|| crate::parallel::map(3, (0..20).collect(), work));
        let caught = caught.expect_err("an item panics");
        assert_eq!(caught.message.as_deref(), Some("item 11"));
        assert!(caught.place.is_some_and(|place| place.contains("panics.rs:")));
    }

    /// Two threads are inside at once and leave in the order in which they came, which would leave
    /// a hook that is swapped on every call as the first one set it.
    #[test]
    fn two_callers_at_once_leave_other_threads_loud() {
        let heard = Arc::new(Mutex::new(Vec::new()));
        let said = heard.clone();
        assert_eq!(catch(|| ()), Ok(()));
        let ours = panic::take_hook();
        // Hears what the kept ones do not swallow: the hook that a process has under ours.
        panic::set_hook(Box::new(move |information| match keeper() {
            Some(_) => ours(information),
            None => {
                let text = information.payload_as_str().map(str::to_owned);
                said.lock().unwrap_or_else(PoisonError::into_inner).extend(text);
            }
        }));
        let (both, one_left) = (Barrier::new(2), Barrier::new(2));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let first = catch(|| _ = both.wait());
                one_left.wait();
                assert_eq!(first, Ok(()));
            });
            scope.spawn(|| {
                let second = catch::<()>(|| {
                    both.wait();
                    one_left.wait();
                    panic!("kept {}", 2)
                });
                assert_eq!(second.expect_err("it panics").message.as_deref(), Some("kept 2"));
            });
        });
        let loud = std::thread::spawn(|| panic!("heard {}", 1)).join();
        assert!(loud.is_err());
        let heard = heard.lock().unwrap_or_else(PoisonError::into_inner).clone();
        assert!(heard.iter().any(|text| text == "heard 1"), "{heard:?}");
        assert!(!heard.iter().any(|text| text.starts_with("kept")), "{heard:?}");
    }
}
