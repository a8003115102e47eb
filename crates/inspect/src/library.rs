//! Models as shared libraries on the machine at hand: many in one, loaded into this process, and
//! what becomes of the outputs.

use base::{Result, catch_internal_errors};
use tensor::{StagedFiles, TemporaryFolder, Value};
use tilewright::compiled::{
    CRun, DeployedModel, DeploymentRequest, Source, artifact_of, compile_for_artifact,
    open_artifact, run_loaded,
};
use tilewright::{ArtifactOptions, Options};

/// How a model becomes part of a shared library, and is run there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LibraryChoice {
    /// What lies in it.
    pub artifact: ArtifactOptions,
    /// Whether it is compiled without knowing the inputs: extents of theirs stay free.
    pub has_free_extents: bool,
    /// How many threads run it.
    pub workers: usize,
}

/// Runs a model as a shared library, one value an input.
///
/// # Errors
/// What is wrong with the model, its inputs or the options; the fault that the library says.
pub fn run_as_library(
    source: &Source,
    options: &Options,
    inputs: &[Value],
    choice: LibraryChoice,
) -> Result<Vec<Value>> {
    let model = compile_for(source, options, 0, inputs, choice)?;
    let run = CRun { model: 0, inputs: Value::components_of(inputs) };
    let mut results = run_all(&[model], &[run], choice.workers)?;
    results.pop().unwrap_or_else(|| Ok(Vec::new()))
}

/// Compiles a model for these inputs, to be one of several: its number among them names it.
///
/// # Errors
/// What is wrong with the model, its inputs or the options.
pub(crate) fn compile_for(
    source: &Source,
    options: &Options,
    number: usize,
    inputs: &[Value],
    choice: LibraryChoice,
) -> Result<DeployedModel> {
    let known: Vec<Option<Value>> = match choice.has_free_extents {
        true => Vec::new(),
        false => inputs.iter().cloned().map(Some).collect(),
    };
    let name = &format!("model{number}");
    let request = DeploymentRequest { source, options, name, inputs: &known };
    compile_for_artifact(&request, choice.artifact)
}

/// Does runs of models, which lie in one library; gives the outputs of each run, or why it was not
/// done.
///
/// # Errors
/// Why there is no library.
pub(crate) fn run_all(
    models: &[DeployedModel],
    runs: &[CRun],
    workers: usize,
) -> Result<Vec<Result<Vec<Value>>>> {
    let artifact = artifact_of(&models.iter().collect::<Vec<_>>())?;
    let folder = TemporaryFolder::new()?;
    let path = folder.path().join("libmodels.so");
    let mut files = StagedFiles::new();
    files.write(&path, |file| artifact.write_shared_library("libmodels.so", file))?;
    files.commit()?;
    let loaded = open_artifact(&path)?;
    let run = |run: &CRun| {
        let model = &artifact.models[run.model];
        let run_one = || run_loaded(&loaded, model, &run.inputs, workers);
        Ok(models[run.model].outputs(catch_internal_errors(run_one)?))
    };
    Ok(runs.iter().map(run).collect())
}
