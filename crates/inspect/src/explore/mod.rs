//! The explorer: one page that shows a build of a model at all levels, and ties them together.
//!
//! It is another view of what `explain` and `dump` have. A [`Build`] is their data as JSON, in
//! sections that the page unpacks when they are asked for:
//!
//! - `summary`: the explanation, with what ties its rows to the rest; the model's nodes; where
//!   values lie in memory;
//! - `loops`: kernels as defined, and after each step of their schedules;
//! - `code`: their instructions, with the statements that these were made for;
//! - `passes`: the function after the import and each pass, with the model's nodes that lines are
//!   of.
//!
//! Invariants: all but times is the same for the same model, options and inputs; numbers that tie
//! things together are places in the lists of the same build.

mod graph;
mod kernels;
mod memory;
mod page;

use base::Result;
use serde_json::{Value, json};
use tilewright::Executable;

use crate::explain::explain;

pub use page::page;

/// A model, compiled and run, with all that the page shows of it.
#[derive(Clone, Debug)]
pub struct Build {
    /// What tells it from the build beside it.
    pub label: String,
    /// Names of the sections, and their content.
    pub sections: Vec<(&'static str, Value)>,
}

/// Runs the model with a clock around every step, and gathers what was made of it on the way.
/// `label` is what the page calls this build.
///
/// # Errors
/// Those of running it.
pub fn explore(
    executable: &Executable,
    inputs: &[tensor::Value],
    label: impl Into<String>,
) -> Result<Build> {
    let explanation = explain(executable, inputs)?;
    let (variant, met) = executable.met(inputs)?;
    let mut nodes = graph::ModelNodes::of(&variant.front().imported);
    let passes = graph::passes(executable, &variant, &mut nodes)?;
    let kernels = kernels::Kernels::of(&explanation, &met, &mut nodes);
    let memory: Vec<Value> = met.iter().map(|run| memory::plan(&run.specialisation)).collect();
    let summary = json!({
        "explanation": explanation.json(),
        "rows": kernels.rows(&explanation, &met),
        "nodes": nodes.json(),
        "memory": memory,
    });
    let (loops, code) = (kernels.loops()?, kernels.code(executable)?);
    let sections = vec![("summary", summary), ("loops", loops), ("code", code), ("passes", passes)];
    Ok(Build { label: label.into(), sections })
}
