//! Compile time, latency and memory of a model.

use std::path::Path;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use base::Result;
use base::timing::Phases;
use tensor::{Kind, Tensor, Value};
use tilewright::{Executable, Options, Port, Statistics, compile};

/// Runs are timed one by one; their times are kept up to this many.
const MOST_RUNS: usize = 1_000_000;
/// What part of the time to measure goes by before, in runs that are not counted.
const WARM_UP: u32 = 4;
/// The least number of timed runs, however slow.
const LEAST_RUNS: usize = 3;

/// What was measured. Times in milliseconds.
#[derive(Clone, Debug)]
pub struct Measurement {
    /// The model's path, as given.
    pub model: String,
    /// The target's name.
    pub target: String,
    /// Worker threads.
    pub threads: usize,
    /// From opening the file to a ready executable, `setup` included.
    pub compile_ms: f64,
    /// The first run.
    pub first_run_ms: f64,
    /// The median of the runs behind the warm-up.
    pub median_ms: f64,
    /// The fastest of them.
    pub min_ms: f64,
    /// Their 95th percentile.
    pub p95_ms: f64,
    /// How many they were.
    pub runs: usize,
    /// Sizes and counts.
    pub statistics: Statistics,
    /// The most memory the process had from the compile on, mapped pages included, in bytes; 0
    /// where the system does not say.
    pub peak_rss_bytes: u64,
}

/// What was measured, with what it was measured of.
pub struct MeasuredModel {
    /// Times and sizes.
    pub measurement: Measurement,
    /// The model, compiled.
    pub executable: Executable,
    /// What it was run with.
    pub inputs: Vec<Value>,
}

/// Compiles a model and runs it for some seconds, at least three times, behind the first run and a
/// warm-up of a quarter of that time. `inputs` gives a value for each port.
///
/// # Errors
/// Those of `compile`, of `inputs`, and of running.
pub fn measure(
    model: &Path,
    options: &Options,
    seconds: f64,
    inputs: impl FnOnce(&[Port]) -> Result<Vec<Value>>,
) -> Result<MeasuredModel> {
    warm_page_cache(model);
    // What was tried before, to find extents that do, is not the model's. Where the system does not
    // forget, it counts all the same.
    let _ = std::fs::write("/proc/self/clear_refs", "5");
    let start = Instant::now();
    let executable = compile(model, options)?;
    let compile_ms = milliseconds(start.elapsed());
    let inputs = inputs(executable.inputs())?;
    let given: Option<Vec<Tensor>> =
        inputs.iter().map(|value| value.as_tensor().cloned()).collect();
    let is_tensor = |port: &Port| port.kind == Kind::Tensor;
    // Into the memory of the outputs before, where all are tensors.
    let given = given.filter(|_| executable.outputs().iter().all(is_tensor));
    let start = Instant::now();
    let mut outputs = match &given {
        Some(tensors) => executable.run(tensors)?,
        None => executable.run_values(&inputs).map(|_| Vec::new())?,
    };
    let first_run_ms = milliseconds(start.elapsed());
    executable.settle();
    let mut timed = || -> Result<f64> {
        let start = Instant::now();
        match &given {
            Some(tensors) => executable.run_into(tensors, &mut outputs)?,
            None => drop(executable.run_values(&inputs)?),
        }
        Ok(milliseconds(start.elapsed()))
    };
    let budget = Duration::from_secs_f64(seconds);
    let begin = Instant::now();
    while begin.elapsed() < budget / WARM_UP {
        timed()?;
    }
    let mut times = Vec::new();
    let begin = Instant::now();
    while times.len() < LEAST_RUNS || (begin.elapsed() < budget && times.len() < MOST_RUNS) {
        times.push(timed()?);
    }
    times.sort_by(f64::total_cmp);
    let measurement = Measurement {
        model: model.display().to_string(),
        target: executable.target().name.clone(),
        threads: executable.threads(),
        compile_ms,
        first_run_ms,
        median_ms: times[times.len() / 2],
        min_ms: times[0],
        p95_ms: times[times.len() * 95 / 100],
        runs: times.len(),
        statistics: executable.statistics(),
        peak_rss_bytes: peak_rss_bytes(),
    };
    Ok(MeasuredModel { measurement, executable, inputs })
}

/// A table for `Options::phases` that takes the time of this process's monotonic clock.
#[must_use]
pub fn phases() -> Phases {
    static START: OnceLock<Instant> = OnceLock::new();
    START.get_or_init(Instant::now);
    Phases::recorded(|| START.get().map_or(Duration::ZERO, Instant::elapsed))
}

/// Reads the file once, so that compile time does not measure the disk.
fn warm_page_cache(model: &Path) {
    // A file that cannot be read is reported by the compile; opening a pipe would wait for a
    // writer.
    if model.is_file()
        && let Ok(mut file) = std::fs::File::open(model)
    {
        let _ = std::io::copy(&mut file, &mut std::io::sink());
    }
}

pub(crate) fn milliseconds(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}

/// `VmHWM` of this process.
fn peak_rss_bytes() -> u64 {
    let Ok(status) = std::fs::read_to_string("/proc/self/status") else { return 0 };
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kilobytes = line.and_then(|line| line.trim().strip_suffix("kB")?.trim().parse().ok());
    kilobytes.unwrap_or(0_u64) * 1024
}
