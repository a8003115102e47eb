//! Cases whose models are compiled to C: the sources of all of them become one program.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::Duration;

use base::Result;
use tensor::Value;
use tilewright::compiled::{CModel, CRun};
use tilewright::{Options, catch_internal_errors};

use super::{Case, Verdict, verdict};
use crate::c_program::{compile_for, run_all};

/// How long a model may run on one set of data.
const LIMIT: Duration = Duration::from_secs(60);

/// A case whose models have been compiled.
struct Compiled {
    case: Case,
    /// Numbers of the runs, one a set.
    runs: Range<usize>,
    is_random: bool,
}

/// Runs cases; the verdict of each.
pub(super) fn run_cases(cases: &[PathBuf], options: &Options) -> Vec<Verdict> {
    let (mut models, mut runs) = (Vec::new(), Vec::new());
    let mut compiled: Vec<Result<Compiled>> = Vec::new();
    for path in cases {
        let first = models.len();
        let outcome = catch_internal_errors(|| compile(path, options, first));
        compiled.push(outcome.map(|(case, own_models, own_runs)| {
            let is_random = own_models.iter().any(|model| model.draws());
            let numbers = runs.len()..runs.len() + own_runs.len();
            models.extend(own_models);
            runs.extend(own_runs);
            Compiled { case, runs: numbers, is_random }
        }));
    }
    let outcome =
        if runs.is_empty() { Ok(Vec::new()) } else { run_all(&models, &runs, Some(LIMIT)) };
    let results = match outcome {
        Ok(results) => results,
        // The sources of one do not compile: each by itself, to find which.
        Err(_) if cases.len() > 1 => {
            let alone = |case| run_cases(std::slice::from_ref(case), options);
            return cases.iter().flat_map(alone).collect();
        }
        Err(found) => return vec![verdict(Err(found))],
    };
    compiled.into_iter().map(|compiled| verdict(compiled.map(|it| judge(it, &results)))).collect()
}

/// Compiles the model of a case for each set of data that it has no code for yet. The number of the
/// first model is given.
fn compile(path: &Path, options: &Options, first: usize) -> Result<(Case, Vec<CModel>, Vec<CRun>)> {
    let case = Case::read(path, options)?;
    let source = case.source()?;
    let (mut models, mut runs): (Vec<CModel>, Vec<CRun>) = (Vec::new(), Vec::new());
    for set in &case.sets {
        let inputs = Value::components_of(&set.inputs);
        let number = match models.iter().position(|model| model.is_for(&inputs)) {
            Some(number) => number,
            None => {
                let number = first + models.len();
                models.push(compile_for(&source, &case.options, number, &set.inputs)?);
                models.len() - 1
            }
        };
        runs.push(CRun { model: first + number, inputs });
    }
    Ok((case, models, runs))
}

fn judge(compiled: Compiled, results: &[Result<Vec<Value>>]) -> Verdict {
    let Compiled { case, runs, is_random } = compiled;
    for (set, result) in case.sets.iter().zip(&results[runs]) {
        let failed = match result {
            Ok(actual) => case.failure(set, actual, is_random),
            Err(found) => Some(verdict(Err(found.clone()))),
        };
        if let Some(failed) = failed {
            return failed;
        }
    }
    if is_random { Verdict::Random } else { Verdict::Passed }
}
