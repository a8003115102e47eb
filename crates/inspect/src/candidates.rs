//! What a kernel could have been: the points of the sketches' spaces, with what each should take
//! and, where it is asked for, what it takes.

use std::fmt;
use std::sync::Arc;
use std::time::Instant;

use base::remedies::use_instead;
use base::{Diagnostic, InOrder, Result, codes};
use loops::Kernel;
use runtime::{Block, State};
use tensor::Value;
use tilewright::Executable;
use tilewright::compiled::{Candidate, KernelInfo, candidates as of_kernel, compile_alone};

/// Runs of a kernel of which the shortest counts.
const RUNS: u32 = 200;
/// The same where all caches are filled with something else before each of them.
const RUNS_FROM_MEMORY: u32 = 5;
/// What they are filled with, in last-level caches.
const CACHES: usize = 2;
/// Nanoseconds after which no more runs begin.
const ENOUGH_NS: u128 = 80_000_000;
/// In nanoseconds.
const MICROSECOND: f64 = 1e3;

/// The candidates of one kernel.
#[derive(Clone, Debug)]
pub struct Candidates {
    /// The kernel's name.
    pub kernel: String,
    /// Those that fit by what they should take, then those that do not.
    pub rows: Vec<CandidateRow>,
}

/// A point of a sketch's space.
#[derive(Clone, Debug)]
pub struct CandidateRow {
    /// The point as text.
    pub point: String,
    /// Whether it made the kernel that is run.
    pub chosen: bool,
    /// What the cost model expects of one thread, in microseconds, or why the point does not fit.
    pub predicted_us: std::result::Result<f64, String>,
    /// What one thread took.
    pub measured: Option<MeasuredRun>,
}

/// Microseconds of the shortest of some runs on one thread.
#[derive(Clone, Copy, Debug)]
pub struct MeasuredRun {
    /// The data being in the caches that hold them.
    pub from_caches_us: f64,
    /// The data being in memory alone, where other kernels and other processes have driven them.
    pub from_memory_us: f64,
}

/// Tries all points that may be worth it for the kernel of a name, among those that a run on these
/// inputs uses.
///
/// # Errors
/// `TW0208` if no kernel has this name; those of running the model.
pub fn candidates(
    executable: &Executable,
    inputs: &[Value],
    kernel: &str,
    measured: bool,
) -> Result<Candidates> {
    let (_, met) = executable.met(inputs)?;
    let infos = met.iter().flat_map(|segment| &segment.specialisation.lowered().kernels);
    let infos: Vec<&KernelInfo> = infos.collect();
    let Some(info) = infos.iter().find(|info| info.name == kernel) else {
        let names: Vec<&str> = infos.iter().map(|info| info.name.as_str()).collect();
        return Err(unknown(kernel, &names).into());
    };
    let target = executable.target();
    let mut rows: Vec<CandidateRow> = Vec::new();
    for Candidate { point, scheduled } in of_kernel(&info.naive, target) {
        let row = match scheduled {
            Ok(scheduled) => CandidateRow {
                point: point.to_string(),
                chosen: scheduled.trace == info.trace,
                predicted_us: Ok(scheduled.cost.nanoseconds(target, 1) / MICROSECOND),
                measured: match measured {
                    true => Some(measure(executable, &scheduled.kernel)?),
                    false => None,
                },
            },
            Err(reason) => CandidateRow {
                point: point.to_string(),
                chosen: false,
                predicted_us: Err(reason),
                measured: None,
            },
        };
        rows.push(row);
    }
    let key = |row: &CandidateRow| row.predicted_us.clone().unwrap_or(f64::INFINITY);
    rows.put_in_order_by(|one, two| key(one).total_cmp(&key(two)));
    Ok(Candidates { kernel: kernel.to_owned(), rows })
}

fn unknown(kernel: &str, names: &[&str]) -> Diagnostic {
    let remedy = use_instead(kernel, names.iter().copied(), |near| format!("--candidates {near}"));
    Diagnostic::error(codes::UNKNOWN_KERNEL, format!("no kernel is called `{kernel}`"))
        .at(format!("--candidates {kernel}"))
        .because(format!("the kernels of a run are {}", names.join(", ")))
        .remedy(remedy)
}

/// What a kernel takes. Integers are zeros, so that they are indices into anything.
fn measure(executable: &Executable, kernel: &Kernel) -> Result<MeasuredRun> {
    let mut memory = Vec::new();
    for id in &kernel.parameters {
        let buffer = &kernel.buffers[*id];
        let bytes = buffer.span_bytes().unwrap_or(0) as usize;
        let mut block = Block::zeroed(bytes)?;
        if buffer.dtype == tensor::DType::F32 {
            for (number, element) in block.bytes_mut().chunks_exact_mut(4).enumerate() {
                let value = (number * 7919 % 13) as f32 * 0.125 - 0.75;
                element.copy_from_slice(&value.to_le_bytes());
            }
        }
        memory.push(block);
    }
    let program = compile_alone(kernel, executable.target())?;
    let mut state = State::new(Arc::new(program), 1)?;
    let mut run = || -> Result<f64> {
        let mut call = state.call();
        for (number, block) in memory.iter_mut().enumerate() {
            call.output(number, block.bytes_mut())?;
        }
        let start = Instant::now();
        call.run()?;
        Ok(start.elapsed().as_nanos() as f64 / MICROSECOND)
    };
    let from_caches_us = least(RUNS, &mut run)?;
    // Zeroed pages of a block may be one page that is read again and again.
    let mut other = Block::zeroed(CACHES * executable.target().machine.l3.bytes as usize)?;
    let from_memory_us = least(RUNS_FROM_MEMORY, || {
        other.bytes_mut().fill(1);
        run()
    })?;
    Ok(MeasuredRun { from_caches_us, from_memory_us })
}

/// The least of at most so many figures.
fn least(most: u32, mut figure: impl FnMut() -> Result<f64>) -> Result<f64> {
    let (mut least, begin) = (f64::INFINITY, Instant::now());
    for _ in 0..most {
        least = least.min(figure()?);
        if begin.elapsed().as_nanos() > ENOUGH_NS {
            break;
        }
    }
    Ok(least)
}

impl fmt::Display for Candidates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fits = self.rows.iter().filter(|row| row.predicted_us.is_ok()).count();
        let all = self.rows.len();
        writeln!(f, "{}: {all} points tried, {fits} fit; `*` is what runs", self.kernel)?;
        writeln!(f, "  predicted us  from caches  from memory  point")?;
        for row in &self.rows {
            let mark = if row.chosen { '*' } else { ' ' };
            let measured = row.measured.map_or(format!("{:25}", ""), |found| {
                format!("{:12.2} {:12.2}", found.from_caches_us, found.from_memory_us)
            });
            match &row.predicted_us {
                Ok(predicted) => {
                    writeln!(f, "{mark} {predicted:12.2} {measured}  {}", row.point)?;
                }
                Err(reason) => {
                    writeln!(f, "{mark} {:>12} {measured}  {}: {reason}", "-", row.point)?;
                }
            }
        }
        Ok(())
    }
}
