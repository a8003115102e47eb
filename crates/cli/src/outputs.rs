//! Where the outputs of a run go: printed, or to files; and the best of their scores.

use std::fmt::Write as _;
use std::path::PathBuf;

use base::{Diagnostic, Limits, Result, codes};
use clap::Args;
use data::{Destination, Labels, OutputPlace, Scored};
use tensor::{Keys, Tensor};
use tilewright::{Port, Value};

use crate::help::OUTPUTS;
use crate::standard_output::{say, write_bytes};

/// Rows of scores that are printed.
const MOST_ROWS: usize = 64;
/// How many scores a row prints if labels are given alone.
const USUAL: usize = 5;

/// Where outputs go.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = OUTPUTS)]
pub(crate) struct OutputArguments {
    /// Writes each output to `<name>.npy` in this folder instead of printing it
    #[arg(long, value_name = "DIR")]
    output_dir: Option<PathBuf>,

    /// Writes outputs to a file instead of printing them
    ///
    /// All of them go to FILE.npz or FILE.json, one to FILE.npy; `-` is JSON to standard output.
    #[arg(long = "output", value_name = "[NAME=]FILE", allow_hyphen_values = true)]
    files: Vec<String>,

    /// Prints the K largest scores of each row
    #[arg(long, value_name = "K", value_parser = clap::value_parser!(u32).range(1..))]
    top: Option<u32>,

    /// The labels of the scores: a line each, or JSON
    #[arg(long, value_name = "FILE")]
    labels: Option<PathBuf>,

    /// Makes probabilities of scores that are logits
    #[arg(long)]
    softmax: bool,
}

/// Outputs with their names.
type Outputs = [(String, Value)];

impl OutputArguments {
    /// What is to be done with outputs of these ports: before a run, so that what is wrong with it
    /// shows at once.
    ///
    /// # Errors
    /// A file of another format; labels that cannot be read.
    pub(crate) fn plan(&self, ports: &[Port], limits: &Limits) -> Result<Plan> {
        let files = self.files.iter().map(|text| Destination::parse(text, ports));
        let mut destinations = files.collect::<Result<Vec<Destination>>>()?;
        destinations.extend(self.output_dir.as_deref().map(Destination::folder));
        let labels = self.labels.as_ref().map(|path| Labels::read(path, limits)).transpose()?;
        let top = self.top.map(|top| top as usize);
        let top = top.or((labels.is_some() || self.softmax).then_some(USUAL));
        Ok(Plan { destinations, top, labels, softmax: self.softmax })
    }
}

/// What is to be done with outputs.
pub(crate) struct Plan {
    destinations: Vec<Destination>,
    top: Option<usize>,
    labels: Option<Labels>,
    softmax: bool,
}

impl Plan {
    /// Writes and prints.
    ///
    /// # Errors
    /// Those of [`data::write`]; no output with scores, where they are asked for.
    pub(crate) fn carry_out(&self, outputs: &Outputs) -> Result<()> {
        let printed = match (self.top, self.destinations.as_slice()) {
            (Some(count), _) => self.scores(outputs, count)?,
            (None, []) => {
                let lines = outputs.iter().map(|(name, value)| data::summary(name, value) + "\n");
                lines.collect()
            }
            _ => String::new(),
        };
        let is_standard = |it: &&Destination| it.place == OutputPlace::StandardOutput;
        let mut standard = Vec::new();
        for destination in self.destinations.iter().filter(is_standard) {
            standard.push((data::select(outputs, destination)?, destination.format));
        }
        data::write(outputs, &self.destinations)?;
        if standard.is_empty() {
            say!("{printed}");
            return Ok(());
        }
        // Standard output is the data's alone.
        eprint!("{printed}");
        for (chosen, format) in standard {
            write_bytes(|file| data::encode(&chosen, format, file));
        }
        Ok(())
    }

    /// The best scores of each output that has any; the others as ever.
    fn scores(&self, outputs: &Outputs, count: usize) -> Result<String> {
        let (mut text, mut is_any) = (String::new(), false);
        for (name, value) in outputs {
            let scores = self.scores_of(name, value, count);
            is_any |= scores.is_some();
            text += &scores.unwrap_or_else(|| data::summary(name, value) + "\n");
        }
        if is_any {
            return Ok(text);
        }
        let shape = |value: &Value| match value.as_tensor() {
            Some(tensor) => format!("{}{:?}", tensor.dtype(), tensor.shape()),
            None => "no tensor".to_owned(),
        };
        let found: Vec<String> =
            outputs.iter().map(|(name, value)| format!("{name}: {}", shape(value))).collect();
        let (reason, remedy) = match &self.labels {
            Some(labels) => (
                format!("there are {} labels; the outputs are {}", labels.len(), found.join(", ")),
                "give as many labels as the last axis of an output has scores",
            ),
            None => (
                format!("the outputs are {}", found.join(", ")),
                "give `--labels FILE` to say what the scores are, or leave out `--top`",
            ),
        };
        Err(Diagnostic::error(codes::UNSUITABLE_OUTPUT, "no output has such scores")
            .at("--top")
            .because(reason)
            .remedy(remedy)
            .into())
    }

    fn scores_of(&self, name: &str, value: &Value, count: usize) -> Option<String> {
        let (tensor, keys) = match value {
            Value::Tensor(tensor) => (tensor, None),
            Value::Map(keys, tensor) | Value::Maps(keys, tensor) => (tensor, Some(keys)),
            Value::Sequence(_) | Value::Optional(_) => return None,
        };
        // Of integers the quantised ones: others count, or are classes themselves.
        let dtype = tensor.dtype();
        let are_scores = dtype.class() == tensor::Class::Float || dtype.bits() == 8;
        let is_suitable = match (&self.labels, keys) {
            (_, Some(_)) => true,
            (Some(labels), None) => are_scores && tensor.shape().last() == Some(&labels.len()),
            (None, None) => are_scores && tensor.shape().len() <= 2,
        };
        let rows = data::top(tensor, count, self.softmax).filter(|_| is_suitable)?;
        let mut text = String::new();
        for (number, row) in rows.iter().take(MOST_ROWS).enumerate() {
            let of = if rows.len() > 1 { format!(", row {number}") } else { String::new() };
            let _ = writeln!(text, "{name}{of}:");
            for scored in row {
                let _ = writeln!(text, "  {}", self.line(scored, tensor, keys));
            }
        }
        if rows.len() > MOST_ROWS {
            let _ = writeln!(text, "{name}: {} more rows", rows.len() - MOST_ROWS);
        }
        Some(text)
    }

    /// `0.9731  tabby cat (281)`
    fn line(&self, scored: &Scored, tensor: &Tensor, keys: Option<&Keys>) -> String {
        let Scored { index, score } = *scored;
        let score = match self.softmax {
            true => format!("{score:.6}"),
            false => tensor::Scalar::from_f64(tensor.dtype(), score).to_string(),
        };
        let label = match keys {
            Some(Keys::Strings(texts)) => Some(texts[index].as_str()),
            Some(Keys::Integers(numbers)) => return format!("{score}  {}", numbers[index]),
            None => self.labels.as_ref().and_then(|labels| labels.get(index)),
        };
        match label {
            Some(label) => format!("{score}  {label} ({index})"),
            None => format!("{score}  {index}"),
        }
    }
}
