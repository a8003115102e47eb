//! Cases whose models are compiled for deployment: many become one program of C, or one shared
//! library.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::Duration;

use base::Result;
use tensor::Value;
use tilewright::compiled::{CModel, CRun, DeployedModel, Source};
use tilewright::{Options, catch_internal_errors};

use super::{Case, Verdict, verdict};
use crate::library::LibraryChoice;
use crate::{c_program, library};

/// How long a model may run on one set of data.
const LIMIT: Duration = Duration::from_secs(60);

/// How models are deployed.
pub(super) trait DeploymentChoice {
    /// A compiled model.
    type Model;

    /// Compiles a model for these inputs, to be one of several: its number among them names it.
    fn compile_for(
        &self,
        source: &Source,
        options: &Options,
        number: usize,
        inputs: &[Value],
    ) -> Result<Self::Model>;

    /// Whether the code is for inputs with these components.
    fn is_for(model: &Self::Model, components: &[Value]) -> bool;

    /// Whether a model draws random numbers.
    fn draws(model: &Self::Model) -> bool;

    /// Does runs of models; gives the outputs of each run, or why it was not done.
    fn run_all(&self, models: &[Self::Model], runs: &[CRun]) -> Result<Vec<Result<Vec<Value>>>>;
}

/// As C sources.
pub(super) struct SourceDeployment;

impl DeploymentChoice for SourceDeployment {
    type Model = CModel;

    fn compile_for(
        &self,
        source: &Source,
        options: &Options,
        number: usize,
        inputs: &[Value],
    ) -> Result<CModel> {
        c_program::compile_for(source, options, number, inputs)
    }

    fn is_for(model: &CModel, components: &[Value]) -> bool {
        model.is_for(components)
    }

    fn draws(model: &CModel) -> bool {
        model.draws()
    }

    fn run_all(&self, models: &[CModel], runs: &[CRun]) -> Result<Vec<Result<Vec<Value>>>> {
        c_program::run_all(models, runs, Some(LIMIT))
    }
}

/// As shared libraries.
pub(super) struct LibraryDeployment {
    /// How many threads run each.
    pub(super) workers: usize,
}

impl DeploymentChoice for LibraryDeployment {
    type Model = DeployedModel;

    fn compile_for(
        &self,
        source: &Source,
        options: &Options,
        number: usize,
        inputs: &[Value],
    ) -> Result<DeployedModel> {
        library::compile_for(source, options, number, inputs, LibraryChoice::default())
    }

    fn is_for(model: &DeployedModel, components: &[Value]) -> bool {
        model.is_for(components)
    }

    fn draws(model: &DeployedModel) -> bool {
        model.draws()
    }

    fn run_all(&self, models: &[DeployedModel], runs: &[CRun]) -> Result<Vec<Result<Vec<Value>>>> {
        library::run_all(models, runs, self.workers)
    }
}

/// A case whose models have been compiled.
struct Compiled {
    case: Case,
    /// Numbers of the runs, one a set.
    runs: Range<usize>,
    is_random: bool,
}

/// Runs cases; the verdict of each.
pub(super) fn run_cases<D: DeploymentChoice>(
    choice: &D,
    cases: &[PathBuf],
    options: &Options,
) -> Vec<Verdict> {
    let (mut models, mut runs) = (Vec::new(), Vec::new());
    let mut compiled: Vec<Result<Compiled>> = Vec::new();
    for path in cases {
        let first = models.len();
        let outcome = catch_internal_errors(|| compile(choice, path, options, first));
        compiled.push(outcome.map(|(case, own_models, own_runs)| {
            let is_random = own_models.iter().any(D::draws);
            let numbers = runs.len()..runs.len() + own_runs.len();
            models.extend(own_models);
            runs.extend(own_runs);
            Compiled { case, runs: numbers, is_random }
        }));
    }
    let outcome = if runs.is_empty() { Ok(Vec::new()) } else { choice.run_all(&models, &runs) };
    let results = match outcome {
        Ok(results) => results,
        // The code of one does not fit together: each by itself, to find which.
        Err(_) if cases.len() > 1 => {
            let alone = |case| run_cases(choice, std::slice::from_ref(case), options);
            return cases.iter().flat_map(alone).collect();
        }
        Err(found) => return vec![verdict(Err(found))],
    };
    compiled.into_iter().map(|compiled| verdict(compiled.map(|it| judge(it, &results)))).collect()
}

/// Compiles the model of a case for each set of data that it has no code for yet. The number of the
/// first model is given.
fn compile<D: DeploymentChoice>(
    choice: &D,
    path: &Path,
    options: &Options,
    first: usize,
) -> Result<(Case, Vec<D::Model>, Vec<CRun>)> {
    let case = Case::read(path, options)?;
    let source = case.source()?;
    let (mut models, mut runs): (Vec<D::Model>, Vec<CRun>) = (Vec::new(), Vec::new());
    for set in &case.sets {
        let inputs = Value::components_of(&set.inputs);
        let number = match models.iter().position(|model| D::is_for(model, &inputs)) {
            Some(number) => number,
            None => {
                let number = first + models.len();
                models.push(choice.compile_for(&source, &case.options, number, &set.inputs)?);
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
