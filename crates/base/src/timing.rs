//! Accumulated times by name.
//!
//! Only the driver reads a clock; this table takes durations. Rows stand in the order first added.

use std::fmt;
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

#[cfg(test)]
mod tests {
    use super::*;

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
