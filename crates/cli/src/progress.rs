//! How far a command is that takes a while: a bar where standard error is a terminal, else a plain
//! line now and then; nothing where `TILEWRIGHT_PROGRESS` is `never`.

use std::io::{IsTerminal, Write as _};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

/// How long nothing is said.
const FIRST: Duration = Duration::from_secs(2);

/// How long each line stands before the next.
const BETWEEN: Duration = Duration::from_secs(8);

/// What is said to whoever waits, until it is dropped. Threads may share it.
pub(crate) struct Progress {
    state: Arc<Mutex<State>>,
    bar: Option<ProgressBar>,
    lines: Option<Lines>,
}

/// How far the command is.
#[derive(Default)]
struct State {
    done: usize,
    /// 0 if that is not known.
    total: usize,
    /// What is at hand.
    what: String,
}

/// The thread that writes lines, and what ends it when it is dropped.
struct Lines {
    end: Sender<()>,
    thread: JoinHandle<()>,
}

impl Progress {
    /// Of a command by its name.
    pub(crate) fn new(command: &'static str) -> Progress {
        let state = Arc::new(Mutex::new(State::default()));
        // What is compared word by word must not depend on how long it took.
        if std::env::var_os("TILEWRIGHT_PROGRESS").is_some_and(|when| when == "never") {
            return Progress { state, bar: None, lines: None };
        }
        if std::io::stderr().is_terminal() {
            return Progress { state, bar: Some(ProgressBar::new(0)), lines: None };
        }
        // Nobody is left to be told if it cannot be written.
        let write = move |line: &str| {
            let _ = writeln!(std::io::stderr(), "{command}: {line}");
        };
        let lines = Lines::start(state.clone(), FIRST, BETWEEN, write);
        Progress { state, bar: None, lines: Some(lines) }
    }

    /// So much is done of a total, which is 0 if it is not known, and this is at hand.
    pub(crate) fn at(&self, done: usize, total: usize, what: &str) {
        let what = what.to_owned();
        *lock(&self.state) = State { done, total, what };
        self.show();
    }

    /// So much more is done of a total.
    pub(crate) fn add(&self, done: usize, total: usize) {
        let mut state = lock(&self.state);
        (state.done, state.total) = (state.done + done, total);
        drop(state);
        self.show();
    }

    fn show(&self) {
        let (Some(bar), state) = (&self.bar, lock(&self.state)) else { return };
        let template =
            if state.total > 0 { "{bar:40} {pos}/{len} {msg}" } else { "{spinner} {msg}" };
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        bar.set_length(state.total as u64);
        bar.set_position(state.done as u64);
        bar.set_message(state.what.clone());
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
        if let Some(Lines { end, thread }) = self.lines.take() {
            drop(end);
            // It says nothing when it ends.
            let _ = thread.join();
        }
    }
}

impl Lines {
    /// Writes a line after a while, and again each time that another while has gone by.
    fn start(
        state: Arc<Mutex<State>>,
        first: Duration,
        between: Duration,
        mut write: impl FnMut(&str) + Send + 'static,
    ) -> Lines {
        let (end, ended) = channel::<()>();
        let thread = std::thread::spawn(move || {
            let mut wait = first;
            while ended.recv_timeout(wait) == Err(RecvTimeoutError::Timeout) {
                let line = lock(&state).to_string();
                write(&line);
                wait = between;
            }
        });
        Lines { end, thread }
    }
}

impl std::fmt::Display for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let State { done, total, what } = self;
        match (total, what.is_empty()) {
            (0, true) => f.write_str("begins"),
            (0, false) => f.write_str(what),
            (_, true) => write!(f, "{done} of {total}"),
            (_, false) => write!(f, "{done} of {total}, now {what}"),
        }
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first lines of what takes so long, in the order in which they are written.
    fn lines(first: Duration) -> Vec<String> {
        let state = Arc::new(Mutex::new(State::default()));
        let (line, said) = channel();
        let write = move |text: &str| {
            let _ = line.send(text.to_owned());
        };
        let lines = Lines::start(state.clone(), first, Duration::from_millis(1), write);
        let progress = Progress { state, bar: None, lines: Some(lines) };
        progress.at(3, 7, "a kernel");
        let wait = Duration::from_millis(if first.is_zero() { 10_000 } else { 50 });
        let found = (0..2).filter_map(|_| said.recv_timeout(wait).ok()).collect();
        drop(progress);
        found
    }

    #[test]
    fn lines_come_after_a_while_and_again() {
        let found = lines(Duration::ZERO);
        assert_eq!(found.len(), 2);
        assert_eq!(found[1], "3 of 7, now a kernel");
    }

    #[test]
    fn what_is_quick_says_nothing() {
        assert!(lines(Duration::from_secs(3600)).is_empty());
    }

    #[test]
    fn what_is_not_known_is_left_out() {
        let state = |done, total, what: &str| State { done, total, what: what.to_owned() };
        assert_eq!(state(0, 0, "").to_string(), "begins");
        assert_eq!(state(0, 0, "node a").to_string(), "node a");
        assert_eq!(state(2, 9, "").to_string(), "2 of 9");
    }
}
