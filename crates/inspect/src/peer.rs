//! Another engine that runs the same model on the same inputs: onnxruntime, by its package for
//! Python.
//!
//! A child process runs `run_onnxruntime.py`; values go there and back as files of a folder
//! (`values`). What it says on its standard error is the reason where it fails.

mod values;

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use base::{Diagnostic, Result, codes};
use tensor::{TemporaryFolder, Value};
pub(crate) use values::not_written;

const SCRIPT: &str = include_str!("peer/run_onnxruntime.py");

/// The status with which the script ends where a package is missing.
const NOT_THERE: i32 = 69;

/// How long a process is waited for before it is asked again whether it has ended.
const BETWEEN: Duration = Duration::from_millis(5);

/// Of what it says, so many characters at the end are kept.
const MOST_SAID: usize = 4000;

/// The package onnxruntime of a Python.
#[derive(Clone, Debug)]
pub struct Peer {
    /// The program: a path, or a name that is looked for as a shell does.
    pub python: PathBuf,
    /// How long a run may take before it is ended.
    pub limit: Duration,
}

/// What a peer gives.
pub(crate) struct PeerRun {
    /// `onnxruntime 1.20.1`
    pub(crate) name: String,
    pub(crate) outputs: Vec<Value>,
}

impl Peer {
    /// Runs a model on values, one an input; its outputs, of which there should be `count`. What
    /// does not run `optimised` gives the values of all nodes as the model has them.
    ///
    /// # PeerDifference
    /// `TW0406` where there is no Python or no package; `TW0407` if it refuses the model, stops or
    /// takes too long; files that cannot be written.
    pub(crate) fn run(
        &self,
        model: &Path,
        inputs: &[Value],
        count: usize,
        optimised: bool,
    ) -> Result<PeerRun> {
        let folder = TemporaryFolder::new()?;
        let (script, said) = (folder.path().join("run_onnxruntime.py"), folder.path().join("said"));
        fs::write(&script, SCRIPT).map_err(|error| not_written(&script, &error))?;
        for (number, value) in inputs.iter().enumerate() {
            values::write(folder.path(), &format!("input_{number}"), value)?;
        }
        let errors = File::create(&said).map_err(|error| not_written(&said, &error))?;
        let mut command = Command::new(&self.python);
        command.arg(&script).arg(folder.path()).arg(model);
        command.arg(if optimised { "optimised" } else { "plain" });
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(errors);
        let child = command.spawn().map_err(|error| self.not_there(error.to_string()))?;
        self.ended(child, &said)?;
        let version = fs::read_to_string(folder.path().join("version")).unwrap_or_default();
        let name = format!("onnxruntime {}", version.trim()).trim_end().to_owned();
        let output = |number| {
            let value = values::read(folder.path(), &format!("output_{number}"))?;
            let reason = format!("there is no output {number} of {count}");
            Ok(value.ok_or_else(|| failed(reason))?)
        };
        Ok(PeerRun { name, outputs: (0..count).map(output).collect::<Result<_>>()? })
    }

    /// Waits for the end of a run, which must be a good one.
    fn ended(&self, mut child: Child, said: &Path) -> Result<()> {
        let Some(status) = self.wait(&mut child) else {
            let seconds = self.limit.as_secs();
            let remedy = format!("use `--time-limit {}`, or smaller inputs", 2 * seconds);
            let reason = format!("it was not done after {seconds} s, and was ended");
            return Err(failed(reason).remedy(remedy).into());
        };
        if status.success() {
            return Ok(());
        }
        let text = fs::read(said).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let text = text.trim();
        let start = text.char_indices().rev().nth(MOST_SAID - 1).map_or(0, |(start, _)| start);
        let text = &text[start..];
        match status.code() {
            Some(NOT_THERE) => Err(self.not_there(text.to_owned()).into()),
            Some(1) if !text.is_empty() => Err(failed(text.to_owned()).into()),
            _ if text.is_empty() => Err(failed(status.to_string()).into()),
            _ => Err(failed(format!("{status}: {text}")).into()),
        }
    }

    /// How a process ended; none if it did not in time, and was ended.
    fn wait(&self, child: &mut Child) -> Option<ExitStatus> {
        let started = Instant::now();
        loop {
            match child.try_wait() {
                Ok(Some(status)) => return Some(status),
                Ok(None) if started.elapsed() < self.limit => std::thread::sleep(BETWEEN),
                Ok(None) | Err(_) => {
                    // One of the two succeeds: it has ended, or can be ended.
                    let _ = child.kill();
                    let _ = child.wait();
                    return None;
                }
            }
        }
    }

    fn not_there(&self, reason: String) -> Diagnostic {
        let python = self.python.display();
        Diagnostic::error(codes::PEER_NOT_THERE, "onnxruntime cannot be run here")
            .at(format!("`{python}`"))
            .because(reason)
            .remedy(format!(
                "install it: `{python} -m pip install onnxruntime`; or use a Python that has it: \
                 `--python FILE`"
            ))
    }
}

fn failed(reason: String) -> Diagnostic {
    Diagnostic::error(codes::PEER_FAILED, "onnxruntime does not run the model")
        .at("onnxruntime")
        .because(reason)
        .remedy("use `tilewright verify MODEL`, which needs no other engine, or other inputs")
}
