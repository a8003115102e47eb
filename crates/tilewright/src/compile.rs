//! From a source to an executable.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock};

use base::Result;
use bytes::Bytes;
use import_onnx::Imported;
use module::Module;
use tensor::Structure;

use crate::cache::Cache;
use crate::divided::may_be_divided;
use crate::executable::Executable;
use crate::piecewise::Piecewise;
use crate::pipeline::Told;
use crate::port::{declared_ports, ports};
use crate::source::Source;
use crate::variant::{Given, Made, Model, Variant};
use crate::{Options, Port, target};

/// Compiles a model: everything that does not depend on free dimensions, and the code itself where
/// none is free.
///
/// # Errors
/// What is wrong with the model, or with the options.
pub fn compile(model: impl AsRef<Path>, options: &Options) -> Result<Executable> {
    compile_source(Source::file(model.as_ref()), options)
}

/// The inputs of a model under these options, without compiling it.
///
/// # Errors
/// Those of the importer.
pub fn inputs(model: impl AsRef<Path>, options: &Options) -> Result<Vec<Port>> {
    let source = Source::file(model.as_ref());
    Ok(match source.import(&Told::default().import_options(options))? {
        Imported::Module { module, .. } => {
            module.functions.values().flat_map(|function| ports(function, true)).collect()
        }
        Imported::Asks { .. } => declared_ports(&source.inspect(&options.limits)?.inputs, options),
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
pub(crate) fn compile_source(source: Source, options: &Options) -> Result<Executable> {
    let target = target::resolve(&options.target)?;
    target::check_runs_here(&target)?;
    let threads = options.thread_count();
    let store = Arc::default();
    let cache = Cache::new(usize::try_from(options.limits.cache_bytes).unwrap_or(usize::MAX));
    let model =
        Model { source: &source, options, target: &target, threads, store: &store, cache: &cache };
    let mut asked = BTreeMap::new();
    let (divided, pieces) = (OnceLock::new(), OnceLock::new());
    let (inputs, outputs) =
        match Variant::make(model, &asked, &[], Given { structures: &[], tensors: &[] })? {
            Made::Variant(variant) => {
                let imported = &variant.front.imported;
                let (inputs, outputs) = (ports(imported, true), ports(imported, false));
                let shapes = inputs.iter().map(Port::fixed_shape).collect();
                if let Some(shapes) = shapes {
                    variant.prepare_fixed(model, shapes)?;
                }
                let plain = variant.front.outputs.iter().all(|it| *it == Structure::Tensor)
                    && variant.front.strings.is_empty();
                let outputs = match plain {
                    true => outputs,
                    false => declared_ports(&source.inspect(&options.limits)?.outputs, options),
                };
                _ = divided.set(None);
                cache.keep_variant(*variant);
                (inputs, outputs)
            }
            Made::Asks(question) => {
                let info = source.inspect(&options.limits)?;
                let inputs = declared_ports(&info.inputs, options);
                let sizes = |name: &str| {
                    let port = inputs.iter().find(|port| port.name == name)?;
                    port.fixed_shape().map(|shape| shape.iter().product())
                };
                if let Err(found) = question.add_to(&mut asked, &sizes) {
                    let found_pieces =
                        question.node.and_then(|node| Piecewise::at(&source, options, node));
                    _ = pieces.set(found_pieces.ok_or(found)?);
                }
                if !may_be_divided(&info) {
                    _ = divided.set(None);
                }
                (inputs, declared_ports(&info.outputs, options))
            }
        };
    Ok(Executable {
        options: options.clone(),
        threads,
        inputs,
        outputs,
        asked: Mutex::new(asked),
        cache,
        divided,
        pieces,
        store,
        target,
        source,
    })
}
