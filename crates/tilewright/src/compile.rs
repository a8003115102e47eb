//! From a source to an executable.

use std::path::Path;
use std::sync::{Arc, Mutex};

use base::Result;
use bytes::Bytes;
use import_onnx::{FactKind, Facts, Imported};
use module::Module;
use tensor::Structure;

use crate::cache::Cache;
use crate::executable::Executable;
use crate::options::Options;
use crate::port::Port;
use crate::port::{declared_ports, ports};
use crate::source::Source;
use crate::target;
use crate::variant::{Model, Variant};

/// Compiles a model: everything that does not depend on free dimensions, and the code itself where
/// none is free.
///
/// # Errors
/// What is wrong with the model, or with the options.
pub fn compile(model: impl AsRef<Path>, options: &Options) -> Result<Executable> {
    compile_source(Source::File(model.as_ref().to_owned()), options)
}

/// The inputs of a model under these options, without compiling it.
///
/// # Errors
/// Those of the importer.
pub fn inputs(model: impl AsRef<Path>, options: &Options) -> Result<Vec<Port>> {
    let source = Source::File(model.as_ref().to_owned());
    let Imported { module, needs, .. } = source.import(options, &Facts::default())?;
    Ok(match needs.is_empty() {
        true => module.functions.values().flat_map(|function| ports(function, true)).collect(),
        false => declared_ports(&source.inspect(&options.limits)?.inputs, options),
    })
}

/// As [`compile`], of the bytes of a model file without external data.
///
/// # Errors
/// As [`compile`].
pub fn compile_bytes(model: impl Into<Bytes>, options: &Options) -> Result<Executable> {
    compile_source(Source::Bytes(model.into()), options)
}

/// As [`compile`], of a module with one graph function on tensors and the constants that it reads.
///
/// # Errors
/// As [`compile`].
pub fn compile_module(model: Module, options: &Options) -> Result<Executable> {
    compile_source(Source::Module(Arc::new(model)), options)
}

/// As [`compile`], of any source.
///
/// # Errors
/// As [`compile`].
pub fn compile_source(source: Source, options: &Options) -> Result<Executable> {
    let target = target::resolve(&options.target)?;
    target::check_runs_here(&target)?;
    let threads = options.thread_count();
    let store = Arc::default();
    let cache = Cache::new(usize::try_from(options.limits.cache_bytes).unwrap_or(usize::MAX));
    let model =
        Model { source: &source, options, target: &target, threads, store: &store, cache: &cache };
    let mut variant = Variant::make(model, Facts::default())?;
    if variant.front.needs.iter().any(|need| need.kind == FactKind::Sizes) {
        variant.keep(&cache);
        variant = Variant::make(model, Facts { sizes: true, ..Facts::default() })?;
    }
    let imported = &variant.front.imported;
    let front = &variant.front;
    let is_tensor = |structure: &Structure| *structure == Structure::Tensor;
    let are_tensors = front.needs.is_empty() && front.inputs.iter().all(is_tensor);
    let declared = || source.inspect(&options.limits);
    let inputs = match are_tensors {
        true => ports(imported, true),
        false => declared_ports(&declared()?.inputs, options),
    };
    let outputs = match are_tensors && front.strings.is_empty() {
        true if front.outputs.iter().all(is_tensor) => ports(imported, false),
        _ => declared_ports(&declared()?.outputs, options),
    };
    let shapes = inputs.iter().map(Port::fixed_shape).collect();
    if let Some(shapes) = Option::filter(shapes, |_| are_tensors) {
        variant.prepare_fixed(model, shapes)?;
    }
    variant.keep(&cache);
    Ok(Executable {
        options: options.clone(),
        threads,
        inputs,
        outputs,
        making: Mutex::new(()),
        cache,
        store,
        target,
        source,
    })
}
