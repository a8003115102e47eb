//! Measures what a parallel step costs: `cargo run --release --example parallel_step -p
//! tilewright-runtime`. Times are the least and the median over many steps, in nanoseconds.

use std::collections::BTreeMap;
use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use base::{Id, KernelId};
use runtime::{Code, KernelCode, LoadedProgram, State, cpu, pool};

/// About a nanosecond of arithmetic for each iteration.
fn work(iterations: i64) {
    let mut x = 1.0f64;
    for _ in 0..iterations {
        x = black_box(x * 1.000_001);
    }
}

/// The least and the median time of a call, over many.
fn measure(mut step: impl FnMut()) -> (u128, u128) {
    let mut times: Vec<u128> = (0..20_000)
        .map(|_| {
            let start = Instant::now();
            step();
            start.elapsed().as_nanos()
        })
        .collect();
    times.sort_unstable();
    (times[0], times[times.len() / 2])
}

/// A state for a program of so many kernels that do nothing (`xor eax, eax; ret`).
fn empty_program(runs: usize, extent: i64, threads: usize) -> base::Result<State> {
    let run = format!("run k0(write 64 at %t) extent {extent}\n");
    let text = format!("program @empty() arena 64 {{ %t: 64 at arena 0 {} }}", run.repeat(runs));
    let kernel = KernelCode { name: "empty", bytes: &[0x31, 0xc0, 0xc3], scratch_bytes: 0 };
    let code = Arc::new(Code::load([(KernelId::new(0), kernel)])?);
    let program = program::parse(&text)?;
    // SAFETY: the kernel touches nothing.
    let executable = unsafe { LoadedProgram::new(&program, code, &BTreeMap::new()) }?;
    State::new(Arc::new(executable), threads)
}

fn main() -> base::Result<()> {
    let threads = pool::reserve(cpu::available_threads());
    println!("{threads} threads");
    let Some(mut session) = pool::session(threads) else { return Ok(()) };
    let row = |name: String, (least, median): (u128, u128)| {
        println!("{name:40} least {least:8} median {median:8}");
    };
    row("reading the clock".to_owned(), measure(|| {}));
    let empty = |_: usize, _: i64, _: i64| {};
    for extent in [1, 2, 16, 1000] {
        let times = measure(|| session.parallel(extent, 1, &empty));
        row(format!("an empty step, extent {extent}"), times);
    }
    for iterations in [1000, 4000, 16_000, 64_000] {
        let alone = measure(|| work(iterations));
        let shared = measure(|| {
            session.parallel(iterations, 1, &|_, first, last| work(last - first));
        });
        row(format!("{iterations} iterations, one thread"), alone);
        row(format!("{iterations} iterations, {threads} threads"), shared);
    }
    drop(session);
    for (extent, threads) in [(1, 1), (1, threads), (16, threads)] {
        let mut state = empty_program(60, extent, threads)?;
        let mut good = true;
        let times = measure(|| good &= state.call().run().is_ok());
        assert!(good, "the kernels do nothing wrong");
        row(format!("60 empty kernels, extent {extent}, {threads} threads"), times);
    }
    Ok(())
}
