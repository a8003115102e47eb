//! From a source to an executable.

use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock};

use backend::Target;
#[cfg(feature = "aten")]
use base::Diagnostic;
use base::{Limits, Result};
use bytes::Bytes;
use front::{FactKind, Facts, ModelInfo, Port};
#[cfg(feature = "aten")]
use import_aten::AtenTrace;
use module::Module;
#[cfg(feature = "aten")]
use tensor::Tensor;

use crate::cache::Cache;
use crate::engine::load;
use crate::executable::Executable;
use crate::options::Options;
use crate::setup::runs_here;
use crate::source::Source;
use crate::variant::{Model, Variant};

/// Compiles a model: everything that does not depend on free dimensions, and the code itself where
/// none is free. An engine file is loaded. With [`Options::cache`] what was compiled before is,
/// too.
///
/// # Errors
/// What is wrong with the model, or with the options.
pub fn compile(model: impl AsRef<Path>, options: &Options) -> Result<Executable> {
    if let Some(cache) = &options.cache {
        return cache.compile(model.as_ref(), options);
    }
    compile_source(options.phases.time("import", || Source::read(model, &options.limits))?, options)
}

/// The inputs of a model under these options, without compiling it.
///
/// # Errors
/// Those of the importer.
pub fn inputs(model: impl AsRef<Path>, options: &Options) -> Result<Vec<Port>> {
    let source = Source::read(model, &options.limits)?;
    let imported = source.import(options, &Facts::default())?;
    let (inputs, _) = match imported.needs.is_empty() {
        true => imported.ports(),
        false => source.declared(options)?,
    };
    Ok(inputs)
}

/// Tells what a model file holds.
///
/// # Errors
/// Diagnostics when the file does not decode as a model.
pub fn model_info(model: impl AsRef<Path>, limits: &Limits) -> Result<ModelInfo> {
    let source = Source::read(model, limits)?;
    Ok(source.info().unwrap_or_else(|| unreachable!("a file is no module")))
}

/// As [`compile`], of the bytes of a model file without external data.
///
/// # Errors
/// As [`compile`].
pub fn compile_bytes(model: impl Into<Bytes>, options: &Options) -> Result<Executable> {
    compile_source(Source::of_bytes(model, &options.limits)?, options)
}

/// As [`compile`], of a module with one graph function and the constants that it reads.
///
/// # Errors
/// As [`compile`].
pub fn compile_module(model: Module, options: &Options) -> Result<Executable> {
    compile_source(Source::Module(Arc::new(model)), options)
}

/// As [`compile`], of a trace of ATen operators ([`import_aten::AtenTrace`] has its text), whose
/// weights have these values.
///
/// # Errors
/// As [`compile`].
#[cfg(feature = "aten")]
pub fn compile_trace(trace: &str, weights: &[Tensor], options: &Options) -> Result<Executable> {
    let import = || import_aten::import(&AtenTrace::parse(trace)?, weights, &options.limits);
    compile_module(options.phases.time("import", import)?, options)
}

/// The nodes of a trace that are not supported, by name, with what is said of each. What reads
/// one of them is judged as if it were.
///
/// # Errors
/// A text that is no trace.
#[cfg(feature = "aten")]
pub fn refused_nodes(trace: &str, limits: &Limits) -> Result<Vec<(String, Diagnostic)>> {
    Ok(import_aten::refused(&AtenTrace::parse(trace)?, limits))
}

/// As [`compile`], of any source.
///
/// # Errors
/// As [`compile`].
pub fn compile_source(source: Source, options: &Options) -> Result<Executable> {
    finished(compile_early(source, options)?)
}

/// As [`compile_source`], but what is made of weights may still be computed, by a thread of its
/// own, when the executable is there: code for runs can be made meanwhile. Whatever reads it waits
/// for it, the first run above all, and has its errors.
///
/// # Errors
/// As [`compile`].
pub fn compile_early(source: Source, options: &Options) -> Result<Executable> {
    if let Source::Engine(engine) = source {
        return load(engine, options);
    }
    let target = options.target.resolve()?;
    target.check_machine(&runtime::cpu::has_feature)?;
    compile_for(target, source, options)
}

/// Compiles a model and saves it as an engine file, for any row of machine code: this machine need
/// not have its instructions, and what it would refuse to run it saves. The file is written whole
/// or not at all. With [`Options::cache`] what was compiled before for this machine is not
/// compiled again.
///
/// # Errors
/// As [`compile`] and [`Executable::save`].
pub fn emit_engine(
    model: impl AsRef<Path>,
    options: &Options,
    engine: impl AsRef<Path>,
) -> Result<()> {
    let target = options.target.resolve()?;
    if !target.isa.is_machine_code() || runs_here(&target) {
        return compile(model, options)?.save(engine);
    }
    let read = || Source::read(model, &options.limits);
    match options.phases.time("import", read)? {
        source @ Source::Engine(_) => compile_source(source, options)?,
        source => finished(compile_for(target, source, options)?)?,
    }
    .save(engine)
}

/// An executable, once what is made of weights is there.
fn finished(executable: Executable) -> Result<Executable> {
    for variant in executable.model.cache.variants() {
        variant.constants.bytes()?;
    }
    Ok(executable)
}

/// As [`compile_early`], for this target, whatever the options name and whether or not this machine
/// runs its code.
///
/// # Errors
/// As [`compile`].
pub fn compile_for(target: Target, source: Source, options: &Options) -> Result<Executable> {
    let mut options = Options { threads: Some(options.thread_count()), ..options.clone() };
    if options.symbolic {
        let specialised = &options.specialised;
        options.dims.retain(|name, _| specialised.contains(name));
        options.input_shapes.clear();
    }
    let cache = Cache::new(usize::try_from(options.limits.cache_bytes).unwrap_or(usize::MAX));
    let model = Model { source, options, target, store: Arc::default(), cache };
    // What was made while formats were weighed is what the formats that were chosen are made of.
    let _hold = model.store.hold();
    let mut variant = Variant::make(&model, Facts::default())?;
    if variant.needs().iter().any(|need| need.kind == FactKind::Sizes) {
        variant.keep(&model.cache);
        variant = Variant::make(&model, Facts { sizes: true, ..Facts::default() })?;
    }
    let front = variant.front();
    let (inputs, outputs) = match front.needs.is_empty() {
        true => (front.inputs.clone(), front.outputs.clone()),
        false => model.source.declared(&model.options)?,
    };
    if front.needs.is_empty() {
        variant.prepare_fixed(&model)?;
    }
    variant.keep(&model.cache);
    let (making, fixed) = (Mutex::default(), OnceLock::new());
    Ok(Executable { model, inputs, outputs, making, fixed })
}
