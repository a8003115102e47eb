//! Other engines, in one process of Python that lives as long as there are models.
//!
//! A request and its answer are a line of JSON each; values go there and back as files. A process
//! that stops, or takes too long, is replaced, and what it was asked is an error.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use serde_json::{Value, json};
use tensor::{DType, Tensor};

const SCRIPT: &str = include_str!("peers.py");
/// How long a model may take a peer to load, or to be timed.
const LIMIT: Duration = Duration::from_secs(60);

/// The engines that a Python has.
pub(crate) struct Peers {
    python: PathBuf,
    /// Where the script and all values lie.
    folder: PathBuf,
    process: Option<Process>,
    /// Their names and versions.
    pub versions: Vec<(String, String)>,
}

struct Process {
    child: Child,
    requests: ChildStdin,
    answers: Receiver<String>,
}

impl Drop for Process {
    fn drop(&mut self) {
        // It has ended, or is ended here.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What a peer made of a model: its output, where that can be read, or why it has none.
pub(crate) type Loaded = Result<Option<Tensor>, String>;

impl Peers {
    /// Those of a Python; none of one that is not there, or lacks their packages.
    #[must_use]
    pub(crate) fn of(python: &Path, folder: &Path) -> Peers {
        let (python, folder) = (python.to_path_buf(), folder.to_path_buf());
        let mut peers = Peers { python, folder, process: None, versions: Vec::new() };
        if let Ok(Value::Object(found)) = peers.ask(&json!({})) {
            let text = |version: Value| version.as_str().unwrap_or_default().to_owned();
            peers.versions = found.into_iter().map(|(name, it)| (name, text(it))).collect();
        }
        peers
    }

    /// Loads a model of one input, and runs it once.
    pub(crate) fn load(&mut self, model: &Path, input: &Tensor) -> Vec<(String, Loaded)> {
        if self.versions.is_empty() {
            return Vec::new();
        }
        let file = self.folder.join("input");
        let dtype = input.dtype().to_string();
        let request = json!({
            "load": model,
            "input": {"name": "x", "dtype": dtype, "shape": input.shape(), "file": file},
            "outputs": self.folder,
        });
        let answer = match std::fs::write(&file, input.bytes()) {
            Ok(()) => self.ask(&request),
            Err(error) => Err(error.to_string()),
        };
        let loaded = |name: &String| match &answer {
            Err(reason) => Err(reason.clone()),
            Ok(answer) => output(&answer[name.as_str()]),
        };
        self.versions.iter().map(|(name, _)| (name.clone(), loaded(name))).collect()
    }

    /// Microseconds of the fastest call within so many seconds; of an identity model, if it is
    /// given, otherwise of the model that was loaded last.
    ///
    /// # Errors
    /// A peer that stops.
    pub(crate) fn time(
        &mut self,
        peer: &str,
        seconds: f64,
        identity: Option<&Path>,
    ) -> Result<f64, String> {
        let mut request = json!({"time": seconds, "peer": peer});
        if let Some(path) = identity {
            request["identity"] = json!(path);
        }
        let answer = self.ask(&request)?;
        answer["us"].as_f64().ok_or_else(|| "it gives no time".to_owned())
    }

    fn ask(&mut self, request: &Value) -> Result<Value, String> {
        let answer = self.try_ask(request);
        if answer.is_err() {
            self.process = None;
        }
        answer
    }

    fn try_ask(&mut self, request: &Value) -> Result<Value, String> {
        let process = match &mut self.process {
            Some(process) => process,
            none => none.insert(start(&self.python, &self.folder)?),
        };
        writeln!(process.requests, "{request}").map_err(|error| error.to_string())?;
        let line = process.answers.recv_timeout(LIMIT);
        let line = line.map_err(|_| "it stopped, or took too long".to_owned())?;
        serde_json::from_str(&line).map_err(|error| error.to_string())
    }
}

fn output(answer: &Value) -> Loaded {
    if let Some(error) = answer["error"].as_str() {
        return Err(error.to_owned());
    }
    let Some(dtype) = answer["dtype"].as_str().and_then(DType::parse) else { return Ok(None) };
    let shape: Vec<usize> = answer["shape"]
        .as_array()
        .map(|shape| shape.iter().filter_map(Value::as_u64).map(|it| it as usize).collect())
        .unwrap_or_default();
    let path = answer["file"].as_str().unwrap_or_default();
    let bytes = std::fs::read(path).map_err(|error| error.to_string())?;
    let mut tensor = Tensor::zeros(dtype, &shape);
    if tensor.bytes().len() != bytes.len() {
        return Err("its output has another size than its shape".to_owned());
    }
    tensor.bytes_mut().copy_from_slice(&bytes);
    Ok(Some(tensor))
}

fn start(python: &Path, folder: &Path) -> Result<Process, String> {
    let script = folder.join("peers.py");
    std::fs::write(&script, SCRIPT).map_err(|error| error.to_string())?;
    let mut command = Command::new(python);
    command.arg(&script).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().map_err(|error| error.to_string())?;
    let (Some(requests), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
        return Err("it has no pipes".to_owned());
    };
    let (sender, answers) = channel();
    std::thread::spawn(move || {
        let lines = BufReader::new(output).lines().map_while(Result::ok);
        // Who asked has gone where nobody receives.
        lines.for_each(|line| _ = sender.send(line));
    });
    Ok(Process { child, requests, answers })
}
