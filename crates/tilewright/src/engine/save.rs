//! From an executable to an engine file.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::{Arc, PoisonError};

use base::{ConstantId, Diagnostic, Id, InOrder, IntoTree, Result, codes};
use engine::{Encoder, EngineDraft};
use front::{Facts, ModelInfo};
use graph::{Function, Op};
use program::Program;
use runtime::Code;
use sym::{Expr, SymbolId};
use tensor::{DType, StagedFiles, Tensor};

use super::constants::{CHECKED_BYTES, SavedConstants};
use super::describe::{Manifest, port};
use super::refit::of_same_model;
use super::section;
use crate::cache::SegmentFacts;
use crate::executable::Executable;
use crate::pipeline::FrontHalf;
use crate::specialisation::{Ranges, ScopedFunction, Specialisation};
use crate::variant::Variant;

/// What is saved of a variant, held while it is written.
struct Saved {
    variant: Arc<Variant>,
    segments: Vec<(SegmentFacts<'static>, Arc<Specialisation>)>,
    scopes: Vec<(base::FunctionId, Ranges, Arc<ScopedFunction>)>,
}

impl Executable {
    /// Saves what has been compiled as an engine file: [`Executable::load`] makes an executable of
    /// it without the model, and without compiling. The code that there is for shapes met so far
    /// goes along, as [`Executable::prepare`] or a run has made it; for others it is made when they
    /// are met. The file is written whole or not at all.
    ///
    /// # Errors
    /// `TW0301` for a file that cannot be written; `TW0305` for what would have to be imported anew
    /// and is no file of ONNX.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<()> {
        self.saved_with(path.as_ref(), None)
    }

    /// As [`Self::save`], with bytes of the caller's beside what is saved, which
    /// `EngineSource::beside` gives back: what it takes to use the model, and is no part of it.
    ///
    /// # Errors
    /// As [`Self::save`].
    pub fn save_with(&self, path: impl AsRef<Path>, beside: Vec<u8>) -> Result<()> {
        self.saved_with(path.as_ref(), Some(beside))
    }

    fn saved_with(&self, path: &Path, mut beside: Option<Vec<u8>>) -> Result<()> {
        let mut files = StagedFiles::new();
        self.with_draft(&mut |draft| {
            if let Some(beside) = beside.take() {
                draft.section(section::BESIDE, beside);
            }
            files.write(path, |file| draft.write(file))
        })?;
        files.commit()
    }

    /// Does something with what the engine file holds.
    pub(crate) fn with_draft(
        &self,
        what: &mut dyn FnMut(&mut EngineDraft<'_>) -> Result<()>,
    ) -> Result<()> {
        base::catch_abandoned(|| {
            let manifest = self.manifest();
            let saved = self.saved();
            let mut draft = match &saved {
                Some(saved) => draft(&manifest, saved)?,
                None => self.draft_of_model(&manifest)?,
            };
            what(&mut draft)
        })
    }

    /// Whether an engine of it has code, rather than a model to compile.
    pub(crate) fn has_code_to_save(&self) -> bool {
        self.saved().is_some()
    }

    fn manifest(&self) -> Manifest {
        let source = self.source();
        let empty = || {
            let (inputs, outputs) = (self.inputs.clone(), self.outputs.clone());
            ModelInfo { name: "module".to_owned(), inputs, outputs, ..ModelInfo::default() }
        };
        let manifest = Manifest {
            target: self.target().clone(),
            options: self.options().clone(),
            inputs: self.inputs.clone(),
            outputs: self.outputs.clone(),
            info: ModelInfo::default(),
        };
        manifest.of_model(source.info().unwrap_or_else(empty))
    }

    /// The only variant, if the model needs no others.
    fn saved(&self) -> Option<Saved> {
        let variants = self.model.cache.variants();
        let [variant] = &variants[..] else { return None };
        if !variant.needs().is_empty() || variant.facts != Facts::default() {
            return None;
        }
        let mut segments = self.model.cache.segments_with_facts(variant.id);
        segments.put_in_order_by_key(|(facts, _)| (facts.function, facts.sizes.to_vec()));
        let compiling = variant.compiling.lock().unwrap_or_else(PoisonError::into_inner);
        let scopes = compiling.iter().flat_map(|(&function, scopes)| {
            scopes.made().map(move |(ranges, made)| (function, ranges.clone(), made.clone()))
        });
        let scopes = scopes.collect();
        Some(Saved { variant: variant.clone(), segments, scopes })
    }

    fn draft_of_model(&self, manifest: &Manifest) -> Result<EngineDraft<'static>> {
        let bytes = self.source().self_contained()?.ok_or_else(|| {
            Diagnostic::error(codes::NOT_IN_ENGINE, "the model cannot become an engine file")
                .because(
                    "it is compiled anew for what its inputs hold, of something that is no file of \
                 ONNX",
                )
                .remedy("run the model itself, or export it as an ONNX file")
        })?;
        let mut draft = EngineDraft::new();
        draft.section(section::MANIFEST, manifest.encode());
        draft.section(section::MODEL, bytes);
        Ok(draft)
    }
}

fn draft<'a>(manifest: &Manifest, saved: &'a Saved) -> Result<EngineDraft<'a>> {
    let Saved { variant, segments, scopes } = saved;
    let front = variant.front();
    let mut constants = SavedConstants::default();
    let mut encoder = Encoder::new();
    encoder.option(variant.only_segment, |encoder, id| encoder.number(id.index() as u64));
    constants.bytes(&mut encoder, variant.constants.bytes()?);
    let absent = absent(variant);
    encoder.list(&absent, |encoder, id| encoder.number(id.index() as u64));
    encoder.list(&variant.setup().lowered().constants.offsets, |encoder, &at| encoder.number(at));
    encoder.list(scopes, |encoder, (function, ranges, made)| {
        encoder.number(function.index() as u64);
        encoder.list(ranges, |encoder, (symbol, range)| {
            encoder.number(symbol.index() as u64);
            encoder.integer(range.min);
            encoder.integer(range.max);
        });
        symbols(encoder, &made.usual);
        let (program, weights) = (&made.program, &made.weights);
        unit(encoder, &mut constants, (program, &made.code), (weights, &BTreeSet::new()));
        encoder.list(&made.checks, |encoder, (least, most)| {
            encoder.text(&expression(program, least));
            encoder.text(&expression(program, most));
        });
        encoder.text(&expression(program, &made.operations));
        encoder.list(&made.outputs, |encoder, ty| {
            encoder.text(ty.dtype.name());
            encoder.list(&ty.shape[..], |encoder, extent| {
                encoder.text(&expression(program, extent));
            });
        });
    });
    encoder.list(segments, |encoder, (facts, segment)| {
        encoder.number(facts.function.index() as u64);
        encoder.list(&facts.sizes[..], |encoder, &size| encoder.integer(size));
        let shapes: Vec<&[usize]> = facts.shapes.iter().collect();
        encoder.list(shapes, |encoder, shape| {
            encoder.list(shape, |encoder, &extent| encoder.number(extent as u64));
        });
        let is_its = |(_, _, made): &(_, _, Arc<ScopedFunction>)| {
            Arc::ptr_eq(&made.program, &segment.program)
        };
        encoder.option(scopes.iter().position(is_its), |encoder, at| encoder.number(at as u64));
        symbols(encoder, &segment.symbols);
        encoder.option(segment.given, Encoder::number);
        encoder.option(segment.why_alone.as_deref(), Encoder::text);
        segment.sharing().encode(encoder);
        if !segment.is_scoped() {
            specialisation(encoder, &mut constants, (segment, &BTreeSet::new()));
        }
    });
    let mut setup = Encoder::new();
    specialisation(&mut setup, &mut constants, (variant.setup(), &absent));
    let front = front_section(front, &mut constants, &absent);
    let mut draft = constants.finish();
    draft.section(section::MANIFEST, manifest.encode());
    draft.section(section::VARIANT, encoder.finish());
    draft.section(section::SETUP, setup.finish());
    draft.section(section::FRONT, front);
    let FrontHalf { module, imported, .. } = variant.front();
    if !module.functions.values().any(|function| formats::has_narrow_elements(function)) {
        let same = of_same_model(imported, module);
        draft.section(section::SAME_MODEL, same.to_le_bytes().to_vec());
    }
    Ok(draft)
}

fn symbols(encoder: &mut Encoder, symbols: &BTreeMap<SymbolId, i64>) {
    encoder.list(symbols, |encoder, (symbol, &value)| {
        encoder.number(symbol.index() as u64);
        encoder.integer(value);
    });
}

fn expression(program: &Program, expr: &Expr) -> String {
    program::print_expression(program, expr)
}

fn specialisation<'a>(
    encoder: &mut Encoder,
    constants: &mut SavedConstants<'a>,
    (made, absent): (&'a Specialisation, &BTreeSet<ConstantId>),
) {
    let code = made.executable().code();
    unit(encoder, constants, (&made.program, code), (&made.weights, absent));
    encoder.list(&made.outputs, |encoder, (dtype, shape): &(DType, Vec<usize>)| {
        encoder.text(dtype.name());
        encoder.list(shape, |encoder, &extent| encoder.number(extent as u64));
    });
}

/// A program, its code, and the weights that it reads.
fn unit<'a>(
    encoder: &mut Encoder,
    constants: &mut SavedConstants<'a>,
    (program, code): (&Program, &Code),
    (weights, absent): (&'a BTreeMap<ConstantId, Tensor>, &BTreeSet<ConstantId>),
) {
    encoder.text(&program.to_string());
    encoder.list(code.kernels(), |encoder, (id, kernel)| {
        encoder.number(id.index() as u64);
        encoder.text(kernel.name);
        encoder.number(kernel.scratch_bytes);
        encoder.bytes(kernel.bytes);
    });
    encoder.list(weights, |encoder, (id, weight)| {
        encoder.number(id.index() as u64);
        constants.tensor(encoder, weight, absent.contains(id));
    });
}

/// The weights that `setup` reads and nothing else: what it makes of them is kept instead.
fn absent(variant: &Variant) -> BTreeSet<ConstantId> {
    let front = variant.front();
    let functions = front.module.functions.iter();
    let others = functions.filter(|&(id, _)| id != front.setup);
    let kept: BTreeSet<ConstantId> = others.flat_map(|(_, function)| weights(function)).into_set();
    let of_model = front.module.constants.ids().into_set();
    let of_setup = variant.setup().weights.iter();
    // Literals that lowering has written down are small, and no weights.
    let is_small = |tensor: &Tensor| tensor.bytes().len() <= CHECKED_BYTES;
    let of_setup = of_setup.filter(|(id, tensor)| of_model.contains(id) || !is_small(tensor));
    let needed = of_setup.map(|(&id, _)| id).chain(weights(&front.module.functions[front.setup]));
    needed.chain(variant.absent.iter().copied()).filter(|id| !kept.contains(id)).collect()
}

fn front_section<'a>(
    front: &'a FrontHalf,
    constants: &mut SavedConstants<'a>,
    absent: &BTreeSet<ConstantId>,
) -> Vec<u8> {
    let functions = &front.module.functions;
    // What no function reads is not missed either.
    let read: BTreeSet<ConstantId> =
        functions.values().flat_map(|function| weights(function)).into_set();
    let mut encoder = Encoder::new();
    encoder.list(front.module.constants.iter(), |encoder, (id, constant)| {
        encoder.text(&constant.name);
        let is_absent = !read.contains(&id) || absent.contains(&id);
        constants.tensor(encoder, &constant.tensor, is_absent);
    });
    encoder.number(functions.len() as u64);
    let apart = [&front.imported, &front.main];
    let text: Vec<String> =
        functions.values().chain(apart).map(|function| function.to_string()).collect();
    encoder.text(&text.join("\n"));
    encoder.number(front.setup.index() as u64);
    encoder.number(front.plan.index() as u64);
    encoder.list(&front.inputs, port);
    encoder.list(&front.outputs, port);
    let locations = &functions[front.plan].locations;
    encoder.list(&front.remarks, |encoder, remark| {
        encoder.text(&locations.display(remark.location).to_string());
        encoder.text(&remark.message);
    });
    encoder.finish()
}

/// The weights that a function reads.
fn weights(function: &Function) -> impl Iterator<Item = ConstantId> {
    function.nodes.values().filter_map(|node| match node.op {
        Op::Weight { constant, .. } => Some(constant),
        _ => None,
    })
}
