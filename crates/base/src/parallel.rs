//! Work on several threads whose outcome does not show it: results come in the order of the items.

use crate::InOrder;
use std::sync::{Arc, Mutex, PoisonError};

/// Fewer items than this for each thread are not worth starting it, which takes as long as some of
/// them, or far longer where other processes have the cores.
const LEAST_ITEMS: usize = 4;

/// The results of `work` on each item, in the order of the items, on at most so many threads, the
/// caller's included. Items are taken one by one, so that threads end at about the same time.
///
/// # Panics
/// If `work` does, on any thread.
pub fn map<T: Send, R: Send>(
    threads: usize,
    items: Vec<T>,
    work: impl Fn(T) -> R + Sync,
) -> Vec<R> {
    map_long(threads.min(items.len() / LEAST_ITEMS), items, work)
}

/// As [`map`], of items each of which takes far longer than to start a thread.
///
/// # Panics
/// If `work` does, on any thread.
pub fn map_long<T: Send, R: Send>(
    threads: usize,
    items: Vec<T>,
    work: impl Fn(T) -> R + Sync,
) -> Vec<R> {
    let helpers = threads.min(items.len()).saturating_sub(1);
    if helpers == 0 {
        return items.into_iter().map(work).collect();
    }
    let queue = Mutex::new(items.into_iter().enumerate());
    let keeper = crate::panics::keeper();
    let share = || {
        let mut done = Vec::new();
        loop {
            // The guard ends with the statement, before the work.
            let next = queue.lock().unwrap_or_else(PoisonError::into_inner).next();
            let Some((number, item)) = next else { return done };
            done.push((number, work(item)));
        }
    };
    let helped = || crate::panics::with(keeper.clone(), share);
    let mut done = std::thread::scope(|scope| {
        let started: Vec<_> = (0..helpers)
            .filter_map(|_| std::thread::Builder::new().spawn_scoped(scope, helped).ok())
            .collect();
        let mut done = share();
        for helper in started {
            match helper.join() {
                Ok(others) => done.extend(others),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        done
    });
    done.put_in_order_by_key(|(number, _)| *number);
    done.into_iter().map(|(_, result)| result).collect()
}

/// Work that goes on beside whoever began it.
#[derive(Debug)]
pub struct Beside<T>(Begun<T>);

#[derive(Debug)]
enum Begun<T> {
    Thread(std::thread::JoinHandle<T>),
    /// There was no thread to be had.
    Done(T),
}

/// Begins a piece of work on a thread of its own, of this name; does it now where there can be
/// none. Panics in it are kept as those of the thread that begins it.
///
/// # Panics
/// If the work does, where it is done now.
pub fn beside<T: Send + 'static>(
    name: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> Beside<T> {
    let keeper = crate::panics::keeper();
    // A thread that cannot be started drops what it was given: the work is taken from a place.
    let place = Arc::new(Mutex::new(Some(work)));
    let take =
        |place: &Mutex<Option<_>>| place.lock().unwrap_or_else(PoisonError::into_inner).take();
    let own = place.clone();
    let started = std::thread::Builder::new().name(name.to_owned()).spawn(move || {
        let work = take(&own).unwrap_or_else(|| unreachable!("the work is taken once"));
        crate::panics::with(keeper, work)
    });
    match started {
        Ok(thread) => Beside(Begun::Thread(thread)),
        Err(_) => {
            let work = take(&place).unwrap_or_else(|| unreachable!("no thread has taken it"));
            Beside(Begun::Done(work()))
        }
    }
}

impl<T> Beside<T> {
    /// Waits for what it gives.
    ///
    /// # Panics
    /// If the work did.
    pub fn join(self) -> T {
        match self.0 {
            Begun::Done(done) => done,
            Begun::Thread(thread) => {
                thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_in_order() {
        for threads in [0, 1, 2, 3, 9] {
            for count in [0, 1, 2, 5, 100] {
                let items: Vec<usize> = (0..count).collect();
                let wanted: Vec<usize> = (0..count).map(|item| item * item).collect();
                assert_eq!(map(threads, items.clone(), |item| item * item), wanted);
                assert_eq!(map_long(threads, items, |item| item * item), wanted);
            }
        }
    }

    #[test]
    #[should_panic(expected = "item 7")]
    fn panics_reach_the_caller() {
        map(3, (0..20).collect(), |item: usize| assert!(item != 7, "item {item}"));
    }

    #[test]
    fn what_goes_on_beside_gives_what_it_found() {
        let (begin, begun) = std::sync::mpsc::channel();
        let beside = beside("adds", move || begun.recv().unwrap_or(0) + 1);
        begin.send(41).expect("it waits");
        assert_eq!(beside.join(), 42);
    }

    #[test]
    fn panics_beside_are_kept_and_go_on() {
        let caught = crate::panics::catch(|| super::beside("ends", || panic!("no {}", 7)).join());
        assert_eq!(
            caught.err().and_then(|caught: crate::panics::Caught| caught.message).as_deref(),
            Some("no 7")
        );
    }
}
