//! `tilewright conformance`: runs a tree of cases and compares their outputs.
//!
//! Cases run in child processes, each of which takes one batch of cases after another: one case, or
//! several whose models become one program of C. A case that crashes its process, or exceeds the
//! time limit, is one failed case: all of its batch are run again, each by itself, and what comes
//! next gets a new process. Processes are this program itself, with `--worker`; a line in is a
//! batch, a line out its verdicts.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write as _};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use base::{Diagnostic, codes};
use clap::Args;
use inspect::conformance::{Subject, Verdict, cases_together, find_cases, is_as_c, run_cases};
use serde_json::{Value, json};
use tilewright::{Limits, Options, TargetChoice};

use crate::Outcome;
use crate::arguments::{PrecisionArgument, dimension};
use crate::help::{MODEL, OUTPUTS, TARGET, WORK, examples};
use crate::progress::Progress;
use crate::standard_output::{say, say_line};

/// Arguments of `tilewright conformance`.
#[derive(Args)]
#[command(after_long_help = examples(&[
    ("tilewright conformance cases", "all cases below a folder"),
    ("tilewright conformance cases --only resnet --inspect", "some of them, looked at closely"),
    ("tilewright conformance cases --target c99", "as C sources"),
    ("tilewright conformance cases --libraries", "as shared libraries"),
]))]
#[command(next_help_heading = WORK)]
pub(crate) struct Arguments {
    /// The cases: folders with `model.onnx` and `test_data_set_<i>`, and StableHLO programs
    /// (`.mlir`, `.bc`) that check their own values, at whatever depth
    folder: PathBuf,
    /// Runs the cases through the reference evaluator instead of compiled code
    #[arg(long)]
    evaluator: bool,
    /// Verifies, explores, dumps and compares with the evaluator, too, what a case compiles to
    #[arg(long, conflicts_with = "evaluator")]
    inspect: bool,
    /// Runs the engine files of cases that lie in this folder, and saves those of the others
    ///
    /// Run twice, all cases are saved by some processes and loaded by others.
    #[arg(long, value_name = "DIR", conflicts_with_all = ["evaluator", "inspect"])]
    engines: Option<PathBuf>,
    /// Runs the cases as shared libraries of machine code, many cases in each
    #[arg(long, conflicts_with_all = ["evaluator", "inspect", "engines"])]
    libraries: bool,
    /// Prints one JSON object
    #[arg(long, help_heading = OUTPUTS)]
    json: bool,
    /// Runs only the cases whose path contains this
    #[arg(long, value_name = "TEXT", default_value = "")]
    only: String,
    /// What to compile for: `native`, or a row of the target table such as `x86-64-v3`; `c99` runs
    /// the cases as C sources, compiled by the system's C compiler
    #[arg(long, default_value = "native", value_name = "NAME", help_heading = TARGET)]
    target: String,
    /// Worker threads of each case
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = TARGET,
          value_parser = clap::value_parser!(u16).range(1..))]
    threads: u16,
    /// Precision of products and convolutions; bf16 is compared with its own tolerance
    #[arg(long, default_value = "f32", value_name = "PRECISION", help_heading = TARGET)]
    precision: PrecisionArgument,
    /// Fixes a named dimension ahead of time in the models that have it
    #[arg(long = "dim", value_name = "NAME=N", value_parser = dimension, help_heading = MODEL)]
    dims: Vec<(String, i64)>,
    /// Cases at a time [default: the cores available]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    jobs: Option<u16>,
    /// Seconds after which a case has failed
    #[arg(long, value_name = "S", default_value_t = 60)]
    time_limit: u64,
    /// Takes cases from standard input
    #[arg(long, hide = true)]
    worker: bool,
}

/// A case and what became of it.
#[derive(Clone)]
struct Row {
    /// The path of the case below the folder.
    name: String,
    /// `passed`, `random`, `failed` or `refused`.
    status: String,
    reason: String,
}

/// Runs the cases; a failed one fails the check.
pub(crate) fn run(arguments: &Arguments) -> base::Result<Outcome> {
    if arguments.worker {
        work(arguments);
        return Ok(Outcome::Good);
    }
    let mut cases = find_cases(&arguments.folder);
    cases.retain(|case| case.to_string_lossy().contains(&arguments.only));
    if cases.is_empty() {
        return Err(Diagnostic::error(codes::CANNOT_READ_FILE, "there are no cases")
            .at(arguments.folder.display().to_string())
            .because("no folder in it holds `model.onnx` beside recorded data, or a `.mlir` file")
            .remedy("give a folder of cases: `model.onnx` with `test_data_set_0` beside it")
            .into());
    }
    if is_as_c(&arguments.options(), &arguments.subject()) {
        inspect::check_c_compiler()?;
    }
    if let Some(folder) = &arguments.engines {
        tensor::StagedFiles::in_folder(folder)?;
    }
    let rows = run_all(arguments, &cases)?;
    let count = |status: &str| rows.iter().filter(|row| row.status == status).count();
    if arguments.json {
        say_line!("{}", as_json(&rows));
    } else {
        say!("{}", as_text(&rows, &cases));
    }
    Ok(if count("failed") > 0 { Outcome::CheckFailed } else { Outcome::Good })
}

impl Arguments {
    fn options(&self) -> Options {
        Options {
            target: match self.target.as_str() {
                "native" => TargetChoice::Native,
                name => TargetChoice::Named(name.to_owned()),
            },
            threads: Some(self.threads.into()),
            precision: self.precision.into(),
            dims: self.dims.iter().cloned().collect(),
            ..Options::default()
        }
    }

    fn subject(&self) -> Subject {
        match (self.evaluator, self.inspect, &self.engines) {
            (true, ..) => Subject::Evaluator,
            (_, true, _) => Subject::Inspected,
            (.., Some(folder)) => Subject::Saved(folder.clone()),
            _ if self.libraries => Subject::Libraries,
            _ => Subject::Compiled,
        }
    }
}

/// The loop of a child process.
fn work(arguments: &Arguments) {
    let (options, subject) = (arguments.options(), arguments.subject());
    for line in std::io::stdin().lock().lines().map_while(Result::ok) {
        let paths: Vec<PathBuf> = serde_json::from_str(&line).unwrap_or_default();
        let verdicts = run_cases(&paths, &options, &subject).into_iter();
        let verdicts = verdicts.map(|verdict| match verdict {
            Verdict::Passed => ("passed", String::new()),
            Verdict::Random => ("random", String::new()),
            Verdict::Failed(reason) => ("failed", reason),
            Verdict::Refused(reason) => ("refused", reason),
        });
        say_line!("{}", json!(verdicts.collect::<Vec<_>>()));
    }
}

/// Runs all cases, several at a time.
fn run_all(arguments: &Arguments, cases: &[PathBuf]) -> base::Result<Vec<Row>> {
    let jobs = arguments
        .jobs
        .map(usize::from)
        .unwrap_or_else(|| std::thread::available_parallelism().map_or(1, |cores| cores.get()));
    let progress = Progress::new("conformance");
    let together = cases_together(&arguments.options(), &arguments.subject());
    let batches: Vec<&[PathBuf]> = cases.chunks(together).collect();
    let next = AtomicUsize::new(0);
    let verdicts = Mutex::new(vec![Vec::new(); batches.len()]);
    let failure = Mutex::new(None);
    std::thread::scope(|scope| {
        for _ in 0..jobs.min(batches.len()) {
            scope.spawn(|| {
                let mut worker = None;
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    let Some(batch) = batches.get(number) else { return };
                    let found = match one_batch(arguments, &mut worker, batch) {
                        Ok(found) => found,
                        Err(error) => {
                            lock(&failure).get_or_insert(error);
                            return;
                        }
                    };
                    lock(&verdicts)[number] = found;
                    progress.add(batch.len(), cases.len());
                }
            });
        }
    });
    drop(progress);
    if let Some(error) = lock(&failure).take() {
        return Err(Diagnostic::error(codes::CANNOT_READ_FILE, "cannot start a process")
            .at("a worker process")
            .because(error.to_string())
            .remedy("check the limits of processes and memory")
            .into());
    }
    let verdicts = std::mem::take(&mut *lock(&verdicts));
    let rows = cases.iter().zip(verdicts.concat());
    Ok(rows
        .map(|(case, (status, reason))| {
            let name = case.strip_prefix(&arguments.folder).unwrap_or(case);
            Row { name: name.to_string_lossy().into_owned(), status, reason }
        })
        .collect())
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// A child process, and the lines it writes.
struct Worker {
    child: Child,
    cases: ChildStdin,
    verdicts: Receiver<String>,
}

impl Worker {
    fn start(arguments: &Arguments) -> std::io::Result<Worker> {
        let mut command = Command::new(std::env::current_exe()?);
        command.arg("conformance").arg(&arguments.folder).arg("--worker");
        command.args(["--target", &arguments.target]);
        command.args(["--threads", &arguments.threads.to_string()]);
        if let PrecisionArgument::Bf16 = arguments.precision {
            command.args(["--precision", "bf16"]);
        }
        for (name, extent) in &arguments.dims {
            command.arg("--dim").arg(format!("{name}={extent}"));
        }
        if arguments.inspect {
            command.arg("--inspect");
        }
        if arguments.libraries {
            command.arg("--libraries");
        }
        if arguments.evaluator {
            command.arg("--evaluator");
        }
        if let Some(folder) = &arguments.engines {
            command.arg("--engines").arg(folder);
        }
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn()?;
        let missing = || std::io::Error::other("a pipe is missing");
        let cases = child.stdin.take().ok_or_else(missing)?;
        let output = BufReader::new(child.stdout.take().ok_or_else(missing)?);
        let (sender, verdicts) = channel();
        // Ends with the child, whose end of the pipe it reads from.
        std::thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        Ok(Worker { child, cases, verdicts })
    }

    fn stop(mut self) -> String {
        // One of the two succeeds: it has ended, or can be ended.
        let _ = self.child.kill();
        self.child.wait().map_or_else(|error| error.to_string(), |status| status.to_string())
    }
}

/// Status and reason of each case of a batch, from a process that is started if there is none.
fn one_batch(
    arguments: &Arguments,
    worker: &mut Option<Worker>,
    cases: &[PathBuf],
) -> std::io::Result<Vec<(String, String)>> {
    let mut running = match worker.take() {
        Some(running) => running,
        None => Worker::start(arguments)?,
    };
    let limit = arguments.time_limit * cases.len() as u64;
    let reason = match writeln!(running.cases, "{}", json!(cases)) {
        Err(_) => format!("crash: {}", running.stop()),
        Ok(()) => match running.verdicts.recv_timeout(Duration::from_secs(limit)) {
            Ok(line) => {
                *worker = Some(running);
                return Ok(serde_json::from_str(&line)?);
            }
            Err(RecvTimeoutError::Timeout) => {
                running.stop();
                format!("hang: not done after {limit} s")
            }
            Err(RecvTimeoutError::Disconnected) => format!("crash: {}", running.stop()),
        },
    };
    if cases.len() == 1 {
        return Ok(vec![("failed".to_owned(), reason)]);
    }
    let alone = |case| one_batch(arguments, worker, std::slice::from_ref(case));
    Ok(cases.iter().map(alone).collect::<std::io::Result<Vec<_>>>()?.concat())
}

fn as_json(rows: &[Row]) -> Value {
    let count = |status: &str| rows.iter().filter(|row| row.status == status).count();
    let case = |row: &Row| json!({ "name": row.name, "status": row.status, "reason": row.reason });
    json!({
        "total": rows.len(),
        "passed": count("passed"),
        "failed": count("failed"),
        "refused": count("refused"),
        "random": count("random"),
        "cases": rows.iter().map(case).collect::<Vec<_>>(),
    })
}

/// What did not pass and why, then a table: a row a suite and version of ONNX's operator set.
fn as_text(rows: &[Row], cases: &[PathBuf]) -> String {
    let mut text = String::new();
    for row in rows.iter().filter(|row| row.status != "passed") {
        let reason =
            if row.reason.is_empty() { String::new() } else { format!(": {}", row.reason) };
        text.push_str(&format!("{} {}{reason}\n", row.status, row.name));
    }
    let mut table: BTreeMap<(String, i64), [usize; 5]> = BTreeMap::new();
    let mut total = [0; 5];
    for (row, case) in rows.iter().zip(cases) {
        let suite = row.name.split_once('/').map_or("", |(suite, _)| suite).to_owned();
        let column = match row.status.as_str() {
            "passed" => 1,
            "failed" => 2,
            "refused" => 3,
            _ => 4,
        };
        let entry = table.entry((suite, opset(case))).or_default();
        for counts in [entry, &mut total] {
            counts[0] += 1;
            counts[column] += 1;
        }
    }
    let mut line = |suite: &str, opset: &str, counts: [String; 5]| {
        let [cases, passed, failed, refused, random] = counts;
        text.push_str(&format!(
            "{suite:20} {opset:>5} {cases:>7} {passed:>7} {failed:>7} {refused:>7} {random:>7}\n"
        ));
    };
    line("suite", "opset", ["cases", "passed", "failed", "refused", "random"].map(str::to_owned));
    for ((suite, opset), counts) in &table {
        let opset = if *opset > 0 { opset.to_string() } else { "-".to_owned() };
        line(suite, &opset, counts.map(|count| count.to_string()));
    }
    line("all", "", total.map(|count| count.to_string()));
    text
}

/// The version of ONNX's own operator set that a case's model uses; 0 if it says none.
fn opset(case: &std::path::Path) -> i64 {
    let info = tilewright::model_info(case.join("model.onnx"), &Limits::default());
    let versions = info.map(|info| info.opsets).unwrap_or_default();
    versions.iter().find(|(domain, _)| domain == "ai.onnx").map_or(0, |(_, version)| *version)
}
