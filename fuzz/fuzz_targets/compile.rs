//! The whole compile, and a run, of models.
#![no_main]

use libfuzzer_sys::{fuzz_crossover, fuzz_mutator, fuzz_target};
use tilewright_fuzz::{attempt, mutator};

fuzz_target!(|bytes: &[u8]| {
    attempt::compile_and_run(bytes);
});

fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    mutator::mutate(data, size, max_size, seed, 16)
});

fuzz_crossover!(|first: &[u8], second: &[u8], out: &mut [u8], seed: u32| {
    mutator::cross_over(first, second, out, seed)
});
