//! `cargo xtask peak`: what this machine can do, measured now.
//!
//! Arithmetic: loops of independent fused multiply-adds (or dot products) on registers alone, with
//! enough accumulators to hide any latency: 24 of 32 registers with AVX-512, 12 of 16 with AVX2.
//! Memory: loops of vector loads over a buffer that fits half of a cache level, or is eight times
//! the last one, in the faster of two orders. The loops are inline assembly, so the figures do not
//! depend on the build profile.
//!
//! Each figure is the best of many short windows, because neighbours, clocks and interrupts only
//! ever take away. With several threads a window begins when all are ready and ends when the last
//! has finished, so the sum is what the cores do at the same time.

mod assembly;
mod machine;
mod report;

use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// One measured figure.
struct Row {
    /// A stable key: `f32_fma_avx512`, `dram_read`.
    key: &'static str,
    /// What was run, for people.
    what: &'static str,
    unit: &'static str,
    one_thread: f64,
    all_threads: f64,
}

/// Measures and prints.
pub(crate) fn main(json: bool) -> ExitCode {
    let machine = machine::Machine::read();
    let rows = measure(&machine);
    let text = if json { report::json(&machine, &rows) } else { report::table(&machine, &rows) };
    print!("{text}");
    ExitCode::SUCCESS
}

fn measure(machine: &machine::Machine) -> Vec<Row> {
    use assembly::{ARITHMETIC, Buffer, Order, clock, read};
    let mut rows = Vec::new();
    let threads = vec![(); machine.threads];

    let (one_thread, all_threads) = both(&threads, |()| clock(ROUNDS) / 1e9);
    let all_threads = all_threads / threads.len() as f64;
    rows.push(Row { key: "clock", what: "clock of a core", unit: "GHz", one_thread, all_threads });
    for kernel in ARITHMETIC.iter().filter(|kernel| (kernel.available)()) {
        let (one_thread, all_threads) = both(&threads, |()| kernel.run(ROUNDS) / 1e9);
        let (key, what, unit) = (kernel.key, kernel.what, kernel.unit);
        rows.push(Row { key, what, unit, one_thread, all_threads });
    }
    for level in machine.memory_levels() {
        let buffers: Vec<Buffer> = threads.iter().map(|()| Buffer::new(level.bytes)).collect();
        let repeats = (MOVED / level.bytes).max(1);
        let figures = [Order::OneRun, Order::FourRuns]
            .map(|order| both(&buffers, |buffer| read(buffer, repeats, order) / 1e9));
        let one_thread = figures[0].0.max(figures[1].0);
        let all_threads = figures[0].1.max(figures[1].1);
        rows.push(Row { key: level.key, what: level.what, unit: "GB/s", one_thread, all_threads });
    }
    rows
}

/// Rounds of an arithmetic loop in one window: about half a millisecond.
const ROUNDS: u64 = 50_000;
/// Bytes that one window reads, unless the buffer is larger.
const MOVED: usize = 64 << 20;
/// How long to search for the best window of one figure.
const SEARCH: Duration = Duration::from_millis(400);

/// [`best`] with the first of `inputs` alone, and with all.
fn both<T: Sync>(inputs: &[T], work: impl Fn(&T) -> f64 + Sync) -> (f64, f64) {
    (best(&inputs[..1], &work), best(inputs, &work))
}

/// The best rate per second of `work`, which returns the amount that it did, with a thread for each
/// of `inputs`, over many windows.
fn best<T: Sync>(inputs: &[T], work: &(impl Fn(&T) -> f64 + Sync)) -> f64 {
    let once = {
        let start = Instant::now();
        work(&inputs[0]);
        start.elapsed()
    };
    let windows = (SEARCH.as_nanos() / once.as_nanos().max(1)).clamp(5, 1000) as usize;
    let arrived = AtomicUsize::new(0);
    let run = |input: &T| -> Vec<(Instant, Instant, f64)> {
        let window = |index: usize| {
            // All threads wait here, spinning, so that none starts late.
            arrived.fetch_add(1, Ordering::SeqCst);
            while arrived.load(Ordering::SeqCst) < (index + 1) * inputs.len() {
                std::hint::spin_loop();
            }
            let start = Instant::now();
            let amount = work(input);
            (start, Instant::now(), amount)
        };
        (0..windows).map(window).collect()
    };
    let records: Vec<Vec<(Instant, Instant, f64)>> = std::thread::scope(|scope| {
        let run = &run;
        let handles: Vec<_> = inputs.iter().map(|input| scope.spawn(move || run(input))).collect();
        handles.into_iter().filter_map(|handle| handle.join().ok()).collect()
    });
    let rate = |window: usize| {
        let threads = records.iter().map(|record| record[window]);
        let amount: f64 = threads.clone().map(|(_, _, amount)| amount).sum();
        let start = threads.clone().map(|(start, _, _)| start).min()?;
        let end = threads.map(|(_, end, _)| end).max()?;
        Some(amount / (end - start).as_secs_f64())
    };
    (0..windows).filter_map(rate).fold(0.0, f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_is_amount_over_time_summed_over_threads() {
        let nap = |()| {
            std::thread::sleep(Duration::from_millis(20));
            1.0
        };
        let (one, two) = both(&[(), ()], |&()| nap(()));
        assert!((20.0..=50.0).contains(&one), "{one}");
        assert!((40.0..=100.0).contains(&two), "{two}");
    }

    #[test]
    fn every_loop_runs() {
        for kernel in assembly::ARITHMETIC.iter().filter(|kernel| (kernel.available)()) {
            assert!(kernel.run(10) > 0.0, "{}", kernel.key);
        }
        assert!(assembly::clock(10) > 0.0);
        if std::arch::is_x86_feature_detected!("avx2") {
            let buffer = assembly::Buffer::new(5000);
            for order in [assembly::Order::OneRun, assembly::Order::FourRuns] {
                assert_eq!(assembly::read(&buffer, 3, order), 3.0 * 8192.0);
            }
        }
    }
}
