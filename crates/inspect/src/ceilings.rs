//! What this machine can do at this moment: the ceilings that times are held against.
//!
//! Measured by kernels compiled like any other, in some tens of milliseconds: fused multiply-adds
//! of f32 in registers, and a pass over more memory than the caches hold. The numbers of a target
//! row steer choices and predictions and are the same everywhere; these are not, and steer nothing.

use std::sync::Arc;
use std::time::Instant;

use backend::Target;
use base::Result;
use runtime::{Profile, State};
use tilewright::compiled::compile_program;
use tilewright::{Executable, Options};

/// Rounds, of which the best counts.
const ROUNDS: usize = 4;
/// Chunks of work that threads share.
const CHUNKS: u64 = 512;
/// Independent accumulators, in vectors: more than a multiply-add's latency needs.
const ACCUMULATORS: u64 = 12;
/// Multiply-adds of each accumulator and chunk.
const DEPTH: u64 = 500;
/// Elements of f32 that a chunk reads.
const READ: u64 = 1 << 15;

/// The ceilings of some threads together.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ceilings {
    /// Operations of f32 a nanosecond; a fused multiply-add is two.
    pub flops_per_ns: f64,
    /// Bytes read from memory a nanosecond.
    pub bytes_per_ns: f64,
}

impl Ceilings {
    /// Measures those of as many threads as an executable runs with.
    ///
    /// # Errors
    /// Of the system, if it gives no memory.
    pub fn of(executable: &Executable) -> Result<Ceilings> {
        Ceilings::measure(executable.target(), executable.options(), executable.threads())
    }

    /// Measures them with code for a target.
    ///
    /// # Errors
    /// Of the system, if it gives no memory.
    fn measure(target: &Target, options: &Options, threads: usize) -> Result<Ceilings> {
        let lanes = u64::from(target.vector_bytes / 4);
        let module = module::parse(&source(lanes), &Default::default())?;
        let Some(program) = module.program("ceilings") else { unreachable!("it stands there") };
        let executable = Arc::new(compile_program(&module, program, &[], target, options)?);
        let mut state = State::new(executable.clone(), threads)?;
        let begin = Instant::now();
        let clock = move || begin.elapsed().as_nanos() as u64;
        let mut least = [u64::MAX; 3];
        for _ in 0..ROUNDS {
            let mut profile = Profile::new(&executable, &clock);
            state.call().run_profiled(&mut profile)?;
            for (least, row) in least.iter_mut().zip(profile.rows()) {
                *least = row.nanoseconds.clamp(1, *least);
            }
        }
        let [arithmetic, _fill, read] = least.map(|nanoseconds| nanoseconds as f64);
        Ok(Ceilings {
            flops_per_ns: (CHUNKS * ACCUMULATORS * DEPTH * lanes * 2) as f64 / arithmetic,
            bytes_per_ns: (CHUNKS * READ * 4) as f64 / read,
        })
    }

    /// Nanoseconds that so many operations of f32 and bytes take at least.
    #[must_use]
    pub fn nanoseconds(&self, flops: f64, bytes: f64) -> f64 {
        (flops / self.flops_per_ns).max(bytes / self.bytes_per_ns)
    }
}

/// The kernels, and a program that runs them one after the other.
fn source(lanes: u64) -> String {
    let turns = READ / 64;
    let (sums, data) = (CHUNKS * ACCUMULATORS * lanes * 4, CHUNKS * READ * 4);
    let (totals, arena) = (CHUNKS * 64 * 4, CHUNKS * (ACCUMULATORS * lanes + READ + 64) * 4);
    let behind = sums + data;
    format!(
        "kernel @arithmetic(%sums: write f32[{CHUNKS}, {ACCUMULATORS}, {lanes}]) {{
           %acc: register f32[{ACCUMULATORS}, {lanes}]
           for t < {CHUNKS} parallel {{
             for r < {ACCUMULATORS} unroll {{ for c < {lanes} vector {{ %acc[r, c] = 1.0 }} }}
             for k < {DEPTH} {{
               for r1 < {ACCUMULATORS} unroll {{
                 for c1 < {lanes} vector {{ %acc[r1, c1] += 0.5 * 0.25 }}
               }}
             }}
             for r2 < {ACCUMULATORS} unroll {{
               for c2 < {lanes} vector {{ %sums[t, r2, c2] = %acc[r2, c2] }}
             }}
           }}
         }}
         kernel @fill(%data: write f32[{CHUNKS}, {turns}, 64]) {{
           for t < {CHUNKS} parallel {{
             for i < {turns} {{ for j < 64 vector {{ %data[t, i, j] = 1.0 }} }}
           }}
         }}
         kernel @read(%data: read f32[{CHUNKS}, {turns}, 64], %totals: write f32[{CHUNKS}, 64]) {{
           %acc: register f32[64]
           for t < {CHUNKS} parallel {{
             for j < 64 vector {{ %acc[j] = 0.0 }}
             for i < {turns} {{ for j1 < 64 vector {{ %acc[j1] += %data[t, i, j1] }} }}
             for j2 < 64 vector {{ %totals[t, j2] = %acc[j2] }}
           }}
         }}
         program @ceilings() arena {arena} {{
           %sums: {sums} at arena 0
           %data: {data} at arena {sums}
           %totals: {totals} at arena {behind}
           run k0(write {sums} at %sums) extent {CHUNKS}
           run k1(write {data} at %data) extent {CHUNKS}
           barrier
           run k2(read {data} at %data, write {totals} at %totals) extent {CHUNKS}
         }}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use tilewright::TargetChoice;

    #[test]
    fn ceilings_are_those_of_a_processor() {
        let Ok(target) = TargetChoice::Native.resolve() else {
            eprintln!("skipped: this machine cannot run the JIT's code");
            return;
        };
        let found = Ceilings::measure(&target, &Options::default(), 1).expect("it runs");
        assert!(found.flops_per_ns > 1.0 && found.flops_per_ns < 1e4, "{found:?}");
        assert!(found.bytes_per_ns > 0.1 && found.bytes_per_ns < 1e4, "{found:?}");
        assert_eq!(found.nanoseconds(0.0, 0.0), 0.0);
    }
}
