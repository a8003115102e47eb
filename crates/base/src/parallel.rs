//! Work on several threads whose outcome does not show it: results come in the order of the items.

use crate::InOrder;
use std::sync::{Mutex, PoisonError};

/// Fewer items than this for each thread are not worth starting it.
const LEAST_ITEMS: usize = 2;

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
    let helpers = threads.min(items.len() / LEAST_ITEMS).saturating_sub(1);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_in_order() {
        for threads in [0, 1, 2, 3, 9] {
            for count in [0, 1, 2, 5, 100] {
                let items: Vec<usize> = (0..count).collect();
                let wanted: Vec<usize> = (0..count).map(|item| item * item).collect();
                assert_eq!(map(threads, items, |item| item * item), wanted);
            }
        }
    }

    #[test]
    #[should_panic(expected = "item 7")]
    fn panics_reach_the_caller() {
        map(3, (0..20).collect(), |item: usize| assert!(item != 7, "item {item}"));
    }
}
