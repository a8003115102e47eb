//! Accumulated times by name.
//!
//! Only the driver reads a clock: the table takes durations, and what times itself as a phase of a
//! compile is handed the driver's clock with [`Phases`]. Rows stand in the order first added.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Named durations, each summed over all its occurrences.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Timings {
    rows: Vec<TimingRow>,
}

/// One name's share.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TimingRow {
    /// A pass's or stage's name.
    pub name: String,
    /// The sum of its durations.
    pub total: Duration,
    /// How often it was added.
    pub count: u32,
}

impl Timings {
    /// No times yet.
    pub const fn new() -> Self {
        Timings { rows: Vec::new() }
    }

    /// Adds one duration to the row of `name`.
    pub fn add(&mut self, name: &str, duration: Duration) {
        match self.rows.iter_mut().find(|row| row.name == name) {
            Some(row) => {
                row.total += duration;
                row.count += 1;
            }
            None => {
                self.rows.push(TimingRow { name: name.to_owned(), total: duration, count: 1 });
            }
        }
    }

    /// The rows, in the order first added.
    pub fn rows(&self) -> &[TimingRow] {
        &self.rows
    }

    /// The sum over all rows.
    pub fn total(&self) -> Duration {
        self.rows.iter().map(|row| row.total).sum()
    }
}

/// A table: milliseconds, share of the whole, count, name.
impl fmt::Display for Timings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let whole = self.total().as_secs_f64().max(f64::MIN_POSITIVE);
        for row in &self.rows {
            let seconds = row.total.as_secs_f64();
            let (milliseconds, share) = (seconds * 1e3, seconds / whole * 100.0);
            writeln!(f, "{milliseconds:10.3} ms {share:5.1} % {:6} x  {}", row.count, row.name)?;
        }
        writeln!(f, "{:10.3} ms         total", whole * 1e3)
    }
}

/// Where the phases of a compile report how long they took; by default nowhere. Clones report to
/// the same table, from any thread: phases that run on several threads at once count for each.
///
/// Phases do not lie within each other, so that their times add up.
#[derive(Clone, Debug, Default)]
pub struct Phases(Option<Arc<Recorder>>);

#[derive(Debug)]
struct Recorder {
    clock: fn() -> Duration,
    timings: Mutex<Timings>,
}

impl Phases {
    /// An empty table, to be filled by this clock: the time since a moment that stays the same.
    #[must_use]
    pub fn recorded(clock: fn() -> Duration) -> Phases {
        Phases(Some(Arc::new(Recorder { clock, timings: Mutex::default() })))
    }

    /// Does a piece of work, which is one occurrence of the phase `name`.
    pub fn time<T>(&self, name: &str, work: impl FnOnce() -> T) -> T {
        let Some(recorder) = &self.0 else { return work() };
        let start = (recorder.clock)();
        let result = work();
        let duration = (recorder.clock)().saturating_sub(start);
        let mut timings = recorder.timings.lock().unwrap_or_else(PoisonError::into_inner);
        timings.add(name, duration);
        result
    }

    /// What has been reported so far.
    #[must_use]
    pub fn timings(&self) -> Timings {
        match &self.0 {
            Some(recorder) => {
                recorder.timings.lock().unwrap_or_else(PoisonError::into_inner).clone()
            }
            None => Timings::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn phases_report_to_one_table() {
        use std::sync::atomic::{AtomicU64, Ordering};
        static NOW: AtomicU64 = AtomicU64::new(0);
        let clock = || Duration::from_secs(NOW.load(Ordering::Relaxed));
        let phases = Phases::recorded(clock);
        let spend = |seconds: u64| NOW.fetch_add(seconds, Ordering::Relaxed);
        phases.time("read", || spend(2));
        phases.clone().time("write", || spend(3));
        phases.time("read", || spend(1));
        let timings = phases.timings();
        let totals = timings.rows().iter().map(|row| (&row.name[..], row.total.as_secs()));
        assert_eq!(totals.collect::<Vec<_>>(), [("read", 3), ("write", 3)]);
        Phases::default().time("read", || spend(1));
        assert_eq!(phases.timings(), timings);
    }

    #[test]
    fn sums_by_name() {
        let mut timings = Timings::new();
        timings.add("fold", Duration::from_millis(1));
        timings.add("fuse", Duration::from_millis(2));
        timings.add("fold", Duration::from_millis(3));
        assert_eq!(timings.rows()[0].total, Duration::from_millis(4));
        assert_eq!(timings.rows()[0].count, 2);
        assert_eq!(timings.total(), Duration::from_millis(6));
        assert!(timings.to_string().contains("66.7 %      2 x  fold"), "{timings}");
    }
}
