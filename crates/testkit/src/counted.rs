//! Random tests that count what they say nothing about: a test that skips what is refused would
//! pass, too, if all were.
//!
//! The seed is `PROPTEST_RNG_SEED`, which `.ci/run` draws from the commit. A case that fails is
//! kept beside the test, in `<test>.proptest-regressions`, and is the first that is run from then
//! on.

use std::cell::Cell;
use std::panic::Location;

use proptest::prelude::{ProptestConfig, Strategy};
use proptest::test_runner::{TestCaseError, TestRunner};

/// The first seed of tests that count seeds instead of drawing values: `PROPTEST_RNG_SEED`, or 0.
///
/// # Panics
/// If that is no number.
#[must_use]
pub fn first_seed() -> u64 {
    match std::env::var("PROPTEST_RNG_SEED") {
        // Room for those that follow.
        Ok(text) => text.parse::<u64>().expect("PROPTEST_RNG_SEED is a number") % (1 << 32),
        Err(_) => 0,
    }
}

/// Runs a property on random values. It tells whether it said anything about a value; it must of at
/// least this share of them.
///
/// # Panics
/// On a value for which the property does not hold, and if too many are skipped.
#[track_caller]
pub fn counted<S: Strategy>(
    config: ProptestConfig,
    least_share: f64,
    strategy: S,
    property: impl Fn(S::Value) -> Result<bool, TestCaseError>,
) {
    let config = ProptestConfig { source_file: Some(Location::caller().file()), ..config };
    let (all, said) = (Cell::new(0_u32), Cell::new(0_u32));
    let outcome = TestRunner::new(config).run(&strategy, |value| {
        let has_said = property(value)?;
        all.set(all.get() + 1);
        said.set(said.get() + u32::from(has_said));
        Ok(())
    });
    outcome.unwrap_or_else(|failure| panic!("{failure}"));
    demand_share(said.get() as usize, all.get() as usize, least_share);
}

/// Prints how many cases of a random test said something, which must be at least this share.
///
/// # Panics
/// If it is less.
#[track_caller]
pub fn demand_share(said: usize, all: usize, least: f64) {
    println!("{said} of {all} cases say something");
    let share = said as f64 / all.max(1) as f64;
    assert!(share >= least, "{said} of {all} cases say something: {share:.2}, not {least}");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn odd_ones(least: f64) {
        let config = ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(64) };
        counted(config, least, 0..1000_u32, |number| Ok(number % 2 == 1));
    }

    #[test]
    fn a_share_that_is_reached_passes() {
        odd_ones(0.2);
    }

    #[test]
    #[should_panic(expected = "cases say something")]
    fn skipping_too_much_fails() {
        odd_ones(0.9);
    }
}
