//! Runs a model on recorded inputs, one case after the other, and measures what shapes cost.
//!
//! ```text
//! cargo run --release -p examples --example replay -- MODEL FOLDER \
//!     [--threads N] [--target NAME] [--feed OUTPUT=INPUT]... [--seconds S] \
//!     [--symbolic [--beside]]
//! ```
//!
//! `FOLDER/0/in0.npy` is the first input of the first case; its outputs are left beside it as
//! `out0.npy` and so on. `--feed 1=2` gives output 1 of a case to the next as input 2: a state that
//! is carried. After a first pass over the cases, which compiles, they are repeated for some time.
//! `--beside` compiles each case for its extents alone, too, runs both in turns and tells the least
//! time of either on the processor and whether all bits are equal.
//!
//! Prints one JSON object: for each case of the first pass what preparing for its shapes took,
//! what preparing again took, and its first and second run; the median of the later runs; resident
//! memory after the first pass.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use tilewright::{Executable, Options, TargetChoice, Tensor};

/// What the command line asks.
#[derive(Default)]
struct Asked {
    model: PathBuf,
    folder: PathBuf,
    options: Options,
    /// Output and input numbers.
    feeds: Vec<(usize, usize)>,
    seconds: f64,
    beside: bool,
}

fn main() -> ExitCode {
    let Some(asked) = parse(std::env::args().skip(1)) else {
        eprintln!(
            "replay MODEL FOLDER [--threads N] [--target NAME] [--feed O=I] [--seconds S] \
             [--symbolic [--beside]]"
        );
        return ExitCode::from(2);
    };
    match run(&asked) {
        Ok(()) => ExitCode::SUCCESS,
        Err(diagnostics) => {
            eprintln!("{diagnostics}");
            ExitCode::FAILURE
        }
    }
}

fn parse(words: impl Iterator<Item = String>) -> Option<Asked> {
    let mut asked = Asked { seconds: 1.0, ..Asked::default() };
    let mut places = Vec::new();
    let mut words = words;
    while let Some(word) = words.next() {
        match word.as_str() {
            "--threads" => asked.options.threads = Some(words.next()?.parse().ok()?),
            "--target" => asked.options.target = TargetChoice::Named(words.next()?),
            "--symbolic" => asked.options.symbolic = true,
            "--beside" => asked.beside = true,
            "--seconds" => asked.seconds = words.next()?.parse().ok()?,
            "--feed" => {
                let text = words.next()?;
                let (output, input) = text.split_once('=')?;
                asked.feeds.push((output.parse().ok()?, input.parse().ok()?));
            }
            _ => places.push(PathBuf::from(word)),
        }
    }
    let [model, folder] = <[PathBuf; 2]>::try_from(places).ok()?;
    Some(Asked { model, folder, ..asked })
}

fn run(asked: &Asked) -> tilewright::Result<()> {
    let executable = tilewright::compile(&asked.model, &asked.options)?;
    let mut cases = read_cases(&asked.folder, executable.inputs().len())?;
    let alone = Options { symbolic: false, ..asked.options.clone() };
    let alone = asked.beside.then(|| tilewright::compile(&asked.model, &alone)).transpose()?;
    let mut first = First::default();
    let mut outputs = Vec::new();
    for (number, inputs) in cases.iter_mut().enumerate() {
        feed(&asked.feeds, inputs, &outputs);
        outputs = first.case(&executable, inputs)?;
        for (position, output) in outputs.iter().enumerate() {
            let path = asked.folder.join(number.to_string()).join(format!("out{position}.npy"));
            tensor::npy::write(path, output)?;
        }
        if let Some(alone) = &alone {
            first.beside(&executable, alone, inputs)?;
        }
    }
    let (resident, peak) = memory();
    let again = repeat(asked, &executable, &mut cases)?;
    let statistics = executable.statistics();
    println!(
        "{{\"prepare_ms\": {:?}, \"prepare_cpu_ms\": {:?}, \"seen_us\": {:?}, \"first_ms\": {:?}, \
         \"second_ms\": {:?}, \"own_ms\": {:?}, \"alone_ms\": {:?}, \"same_bits\": {:?}, \
         \"compiles\": {}, \"median_ms\": {again}, \"resident_bytes\": {resident}, \
         \"peak_bytes\": {peak}, \"constant_bytes\": {}, \"code_bytes\": {}, \"target\": {:?}}}",
        first.prepare_ms,
        first.prepare_cpu_ms,
        first.seen_us,
        first.first_ms,
        first.second_ms,
        first.own_ms,
        first.alone_ms,
        first.same_bits,
        statistics.compiles,
        statistics.constant_bytes,
        statistics.code_bytes,
        executable.target().name,
    );
    Ok(())
}

/// Times of the first pass, an entry a case.
#[derive(Default)]
struct First {
    prepare_ms: Vec<f64>,
    prepare_cpu_ms: Vec<f64>,
    seen_us: Vec<f64>,
    first_ms: Vec<f64>,
    second_ms: Vec<f64>,
    /// Where code for the case alone runs beside: the least times of both on the
    /// processor of the first thread, and whether they agree.
    own_ms: Vec<f64>,
    alone_ms: Vec<f64>,
    same_bits: Vec<bool>,
}

/// Turns of two that run beside each other.
const TURNS: usize = 5;

/// What short cases are repeated for in each turn, in ms.
const TURN_MS: f64 = 20.0;

impl First {
    fn case(
        &mut self,
        executable: &Executable,
        inputs: &[Tensor],
    ) -> tilewright::Result<Vec<Tensor>> {
        let cpu = processor_ms();
        let start = Instant::now();
        executable.prepare(inputs)?;
        self.prepare_ms.push(milliseconds(start));
        self.prepare_cpu_ms.push(processor_ms() - cpu);
        let start = Instant::now();
        executable.prepare(inputs)?;
        self.seen_us.push(milliseconds(start) * 1e3);
        let start = Instant::now();
        let mut outputs = executable.run(inputs)?;
        self.first_ms.push(milliseconds(start));
        let start = Instant::now();
        executable.run_into(inputs, &mut outputs)?;
        self.second_ms.push(milliseconds(start));
        Ok(outputs)
    }

    /// Runs a case with code for its extents alone, in turns with code for many.
    fn beside(
        &mut self,
        executable: &Executable,
        alone: &Executable,
        inputs: &[Tensor],
    ) -> tilewright::Result<()> {
        let (mut own, mut other) = (executable.run(inputs)?, alone.run(inputs)?);
        let bytes = |outputs: &[Tensor]| -> Vec<Vec<u8>> {
            outputs.iter().map(|output| output.bytes().to_vec()).collect()
        };
        self.same_bits.push(bytes(&own) == bytes(&other));
        let mut least = [f64::INFINITY; 2];
        for turn in 0..TURNS * 2 {
            let which = (turn + turn / 2) % 2;
            let (begin, on_processor) = (Instant::now(), processor_ms());
            let mut runs = 0.0;
            while runs == 0.0 || milliseconds(begin) < TURN_MS {
                match which {
                    0 => executable.run_into(inputs, &mut own)?,
                    _ => alone.run_into(inputs, &mut other)?,
                }
                runs += 1.0;
            }
            let taken = match processor_ms() - on_processor {
                // Nobody says.
                0.0 => milliseconds(begin),
                taken => taken,
            };
            least[which] = least[which].min(taken / runs);
        }
        self.own_ms.push(least[0]);
        self.alone_ms.push(least[1]);
        Ok(())
    }
}

/// The median time in ms of runs over the cases again and again.
fn repeat(
    asked: &Asked,
    executable: &Executable,
    cases: &mut [Vec<Tensor>],
) -> tilewright::Result<f64> {
    let mut times = Vec::new();
    let begin = Instant::now();
    let mut outputs = Vec::new();
    while begin.elapsed().as_secs_f64() < asked.seconds {
        for inputs in &mut *cases {
            feed(&asked.feeds, inputs, &outputs);
            if outputs.is_empty() {
                outputs = executable.run(inputs)?;
            }
            let start = Instant::now();
            match executable.run_into(inputs, &mut outputs) {
                Ok(()) => times.push(milliseconds(start)),
                // Other shapes than those of the case before.
                Err(_) => outputs = executable.run(inputs)?,
            }
        }
    }
    times.sort_by(f64::total_cmp);
    Ok(times.get(times.len() / 2).copied().unwrap_or(0.0))
}

/// Copies outputs of the case before to inputs.
fn feed(feeds: &[(usize, usize)], inputs: &mut [Tensor], outputs: &[Tensor]) {
    for &(output, input) in feeds {
        if let Some(output) = outputs.get(output) {
            inputs[input].bytes_mut().copy_from_slice(output.bytes());
        }
    }
}

fn read_cases(folder: &Path, inputs: usize) -> tilewright::Result<Vec<Vec<Tensor>>> {
    let mut cases = Vec::new();
    while folder.join(cases.len().to_string()).is_dir() {
        let case = folder.join(cases.len().to_string());
        let read = |number| tilewright::read_npy(case.join(format!("in{number}.npy")));
        cases.push((0..inputs).map(read).collect::<tilewright::Result<Vec<Tensor>>>()?);
    }
    Ok(cases)
}

fn milliseconds(start: Instant) -> f64 {
    start.elapsed().as_secs_f64() * 1e3
}

/// Time of this thread on the processor, where the system says.
fn processor_ms() -> f64 {
    // The system counts it up whenever another thread may run.
    std::thread::yield_now();
    let statistics = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let known = statistics.split(' ').next().and_then(|word| word.parse::<f64>().ok());
    if let Some(nanoseconds) = known.filter(|&nanoseconds| nanoseconds > 0.0) {
        return nanoseconds / 1e6;
    }
    let scheduled = std::fs::read_to_string("/proc/thread-self/sched").unwrap_or_default();
    let line = scheduled.lines().find(|line| line.starts_with("se.sum_exec_runtime"));
    let word = line.and_then(|line| line.split_whitespace().last());
    word.and_then(|word| word.parse().ok()).unwrap_or(0.0)
}

/// Resident memory and the most there was, in bytes, where the system says.
fn memory() -> (u64, u64) {
    let text = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let field = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name))?;
        line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()
    };
    (field("VmRSS:").unwrap_or(0) * 1024, field("VmHWM:").unwrap_or(0) * 1024)
}
