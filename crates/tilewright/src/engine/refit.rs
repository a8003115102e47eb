//! Other weights for an engine file, of which nothing but `setup` is decoded: code, programs and
//! graph stay as they lie in it, constants that are made of weights take the places of the old.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use base::{Diagnostics, Id as _, Result};
use engine::{Damage, Decoder, Encoder, EngineDraft, digest};
use front::Facts;
use graph::Function;
use module::Module;
use runtime::Block;
use tensor::StagedFiles;
use tensor::staged::cannot_write;

use super::constants::Place;
use super::load::Loader;
use super::{EngineSource, load, section};
use crate::late::LateValue;
use crate::options::Options;
use crate::setup::{Destination, run_setup};
use crate::source::Source;

/// Gives an engine file the weights of another file of the same model: `setup` is run again,
/// nothing is compiled, and the engine is that of a compile of this model. Of the options those
/// count that are about runs. The file is written anew, whole or not at all.
///
/// # Errors
/// Those of [`crate::Executable::load`] and [`crate::Executable::refit_from`]; `TW0301` for a file
/// that cannot be written.
pub fn refit_engine(
    engine: impl AsRef<Path>,
    model: impl AsRef<Path>,
    options: &Options,
) -> Result<()> {
    let (engine, model) = (engine.as_ref(), model.as_ref());
    let source = Arc::new(EngineSource::open(engine)?);
    let own = source.options_to_run(options)?;
    if !base::catch_abandoned(|| refitted_in_place(&source, engine, model, &own))? {
        // Another model, or one of which more must be looked at: that says what it is.
        let mut whole = load::load(source, options)?;
        whole.refit_from(model)?;
        whole.save(engine)?;
    }
    Ok(())
}

/// What tells whether a model is the same but for its weights: its function, as text, and what its
/// constants are.
pub(super) fn of_same_model(imported: &Function, module: &Module) -> u128 {
    let mut encoder = Encoder::new();
    encoder.text(&imported.to_string());
    encoder.number(module.constants.len() as u64);
    module.constants.values().for_each(|constant| {
        encoder.text(&constant.name);
        encoder.text(constant.tensor.dtype().name());
        encoder.list(constant.tensor.shape(), |encoder, &extent| encoder.number(extent as u64));
    });
    digest(&encoder.finish())
}

/// Writes the engine with the weights of the model; tells whether it is of the same model, so that
/// this can be done.
fn refitted_in_place(
    source: &EngineSource,
    path: &Path,
    model: &Path,
    options: &Options,
) -> Result<bool> {
    let Some(same) = source.file.optional_section(section::SAME_MODEL) else { return Ok(false) };
    let read = Source::read(model, &options.limits)?;
    let imported = read.import(options, &Facts::default())?;
    if of_same_model(imported.function(), &imported.module).to_le_bytes() != same[..] {
        return Ok(false);
    }
    let module = imported.module;
    let loader = Loader::new(source, options.clone())?;
    let front = source.file.section(section::FRONT)?;
    let mut decoder = Decoder::new(&front);
    let mut parts: BTreeMap<Place, &[u8]> = BTreeMap::new();
    let mut is_apart = true;
    let mut put = |place: Place, bytes| {
        let other = parts.insert(place, bytes);
        // Constants that were one in the old model and are two in this one.
        is_apart &= other.is_none_or(|other| std::ptr::eq(other, bytes) || other == bytes);
    };
    let count = decoder.count()?;
    if count != module.constants.len() {
        return Err(Damage::new("it has constants that its model has not").into());
    }
    for constant in module.constants.values() {
        decoder.text()?;
        if let Some(place) = loader.constants.saved(&mut decoder)?.place {
            put(place, constant.tensor.bytes());
        }
    }
    let variant = source.file.section(section::VARIANT)?;
    let mut decoder = Decoder::new(&variant);
    decoder.option(Decoder::number)?;
    let of_block = loader.constants.place(&mut decoder)?;
    let mut setup = loader.setup(&loader.origin()?)?;
    let setup = Arc::get_mut(&mut setup).and_then(LateValue::made_mut);
    let setup = setup.ok_or_else(|| Diagnostics::internal("setup is held during a refit"))?;
    let weights = setup.weights.iter_mut();
    for (&id, weight) in weights.filter(|(id, _)| id.index() < count) {
        *weight = module.constants[id].tensor.clone();
    }
    if setup.executable().constant_bytes() != of_block.bytes {
        return Err(Damage::new("its block of constants is of another size").into());
    }
    // A block of few bytes lies in the head; any other is made when the file is written.
    let mut block = Block::zeroed(if of_block.is_checked { of_block.bytes } else { 0 })?;
    if of_block.is_checked {
        run_setup(setup, Destination::Memory(block.bytes_mut()), options)?;
        put(of_block, block.bytes());
    }
    if !is_apart || (!of_block.is_checked && parts.contains_key(&of_block)) {
        return Ok(false);
    }
    let mut checked = source.file.section(section::CHECKED)?.to_vec();
    let mut draft = EngineDraft::of(&source.file);
    for (place, bytes) in &parts {
        if place.bytes != bytes.len() {
            return Err(Damage::new("a constant is of another size").into());
        }
        match place.is_checked {
            true => checked[place.offset..place.offset + place.bytes].copy_from_slice(bytes),
            false => draft.replace_constant(place.offset, bytes)?,
        }
    }
    let manifest = source.manifest.of_model(read.info().unwrap_or_default());
    draft.section(section::MANIFEST, manifest.encode());
    draft.section(section::CHECKED, checked);
    draft.remove_section(section::KEY);
    let mut files = StagedFiles::new();
    if of_block.is_checked {
        files.write(path, |file| draft.write(file))?;
    } else {
        draft.leave_room(of_block.offset, of_block.bytes)?;
        let mut fill = |take: &mut dyn FnMut(&[u8]) -> Result<()>| {
            run_setup(setup, Destination::Parts(take), options)
        };
        let failed = |error| cannot_write(path, &error).into();
        files.write_checked(path, |file| draft.write_filled(file, &mut fill, &failed))?;
    }
    files.commit()?;
    Ok(true)
}
