//! Values that are there later, and who waits for them.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use crate::failure::Outcome;

/// A value that is computed elsewhere: there is none yet, or it is there and stays, or there is
/// what went wrong. Of an event the value is `()`.
pub(crate) struct Promise<T> {
    state: Mutex<State<T>>,
    kept: Condvar,
}

enum State<T> {
    Open {
        waiters: Vec<Waiter<T>>,
        /// Threads that wait. A wake calls the system, who sleeps or not.
        sleepers: usize,
    },
    Kept(Outcome<T>),
}

/// What is done when the value is there.
type Waiter<T> = Box<dyn FnOnce(&Outcome<T>) + Send>;

impl<T: Clone> Promise<T> {
    /// Nothing yet.
    pub(crate) fn open() -> Promise<T> {
        let state = State::Open { waiters: Vec::new(), sleepers: 0 };
        Promise { state: Mutex::new(state), kept: Condvar::new() }
    }

    /// A value that is there.
    pub(crate) fn of(outcome: Outcome<T>) -> Promise<T> {
        Promise { state: Mutex::new(State::Kept(outcome)), kept: Condvar::new() }
    }

    /// Has the value be there, once; who waits for it is told, on this thread.
    pub(crate) fn keep(&self, outcome: Outcome<T>) {
        let mut state = self.lock();
        let State::Open { waiters, sleepers } = &mut *state else { return };
        let (waiters, has_sleepers) = (std::mem::take(waiters), *sleepers > 0);
        *state = State::Kept(outcome.clone());
        drop(state);
        if has_sleepers {
            self.kept.notify_all();
        }
        waiters.into_iter().for_each(|waiter| waiter(&outcome));
    }

    /// Replaces a value that is there.
    pub(crate) fn replace(&self, outcome: Outcome<T>) -> Option<Outcome<T>> {
        match &mut *self.lock() {
            State::Open { .. } => None,
            State::Kept(own) => Some(std::mem::replace(own, outcome)),
        }
    }

    pub(crate) fn is_kept(&self) -> bool {
        matches!(*self.lock(), State::Kept(_))
    }

    /// Whether the value is there, and nothing went wrong.
    pub(crate) fn is_kept_well(&self) -> bool {
        matches!(*self.lock(), State::Kept(Ok(_)))
    }

    /// The value, if it is there and nobody else can ask for it any more.
    pub(crate) fn take(&mut self) -> Option<T> {
        let open = State::Open { waiters: Vec::new(), sleepers: 0 };
        let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        match std::mem::replace(state, open) {
            State::Kept(outcome) => outcome.ok(),
            State::Open { .. } => None,
        }
    }

    /// What is there now, if anything.
    pub(crate) fn now(&self) -> Option<Outcome<T>> {
        match &*self.lock() {
            State::Open { .. } => None,
            State::Kept(outcome) => Some(outcome.clone()),
        }
    }

    /// Waits until the value is there.
    pub(crate) fn wait(&self) -> Outcome<T> {
        let mut state = self.lock();
        loop {
            match &mut *state {
                State::Kept(outcome) => return outcome.clone(),
                State::Open { sleepers, .. } => {
                    *sleepers += 1;
                    state = self.kept.wait(state).unwrap_or_else(PoisonError::into_inner);
                }
            }
        }
    }

    /// Does something when the value is there: now, if it is.
    pub(crate) fn when_kept(&self, waiter: impl FnOnce(&Outcome<T>) + Send + 'static) {
        let mut state = self.lock();
        let outcome = match &mut *state {
            State::Open { waiters, .. } => return waiters.push(Box::new(waiter)),
            State::Kept(outcome) => outcome.clone(),
        };
        drop(state);
        waiter(&outcome);
    }

    // A poisoned lock only means that another caller panicked: values are put in whole.
    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
