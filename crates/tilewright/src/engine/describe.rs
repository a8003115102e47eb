//! The manifest: which version made an engine, for what, and what the model was.

use std::collections::BTreeMap;

use backend::Target;
use base::{Diagnostic, Result, codes};
use engine::{Damage, Decoder, Encoder};
use front::{ModelInfo, Port, PortExtent};
use runtime::cpu::Processor;
use tensor::{DType, Kind};

use crate::options::{Activations, KeyValues, Options, Precision, TargetChoice};

/// The version of the compiler: engines of others are not read.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The deepest kind of value that is read: lists of lists.
const MOST_NESTED: usize = 64;

/// What an engine is.
#[derive(Debug)]
pub(crate) struct Manifest {
    /// The row that its code is for.
    pub(crate) target: Target,
    /// What its code was compiled with.
    pub(crate) options: Options,
    pub(crate) inputs: Vec<Port>,
    pub(crate) outputs: Vec<Port>,
    /// What the model file held.
    pub(crate) info: ModelInfo,
}

impl Manifest {
    /// The same of another file of the model.
    pub(super) fn of_model(&self, info: ModelInfo) -> Manifest {
        // As it was compiled: what options have bound is not free any more.
        let (inputs, outputs) = (self.inputs.clone(), self.outputs.clone());
        let is_free =
            |name: &String| inputs.iter().flat_map(Port::free_extents).any(|free| free == name);
        let mut info = info;
        info.dimensions.retain(is_free);
        let info = ModelInfo { inputs: inputs.clone(), outputs: outputs.clone(), ..info };
        let (target, options) = (self.target.clone(), self.options.clone());
        Manifest { target, options, inputs, outputs, info }
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        let mut encoder = Encoder::new();
        encoder.text(VERSION);
        target(&mut encoder, &self.target);
        options(&mut encoder, &self.options);
        encoder.list(&self.inputs, port);
        encoder.list(&self.outputs, port);
        info(&mut encoder, &self.info);
        encoder.finish()
    }

    /// Reads a manifest; says what is another version's, or for another machine.
    pub(super) fn decode(section: &[u8]) -> Result<Manifest> {
        let mut decoder = Decoder::new(section);
        let version = decoder.text()?;
        if version != VERSION {
            let message = format!("the engine file was made by version {version}, not {VERSION}");
            return Err(Diagnostic::error(codes::FOREIGN_ENGINE, message)
                .because("code, and how it is called, differ from version to version")
                .remedy("compile the model again")
                .into());
        }
        let target = read_target(&mut decoder)?;
        let mut options = read_options(&mut decoder)?;
        let inputs = decoder.list(read_port)?;
        let outputs = decoder.list(read_port)?;
        let info = read_info(&mut decoder)?;
        decoder.end()?;
        if options.target != TargetChoice::Native {
            options.target = TargetChoice::Named(target.name.clone());
        }
        Ok(Manifest { target, options, inputs, outputs, info })
    }
}

/// Whether something is a row as the table has it, or tuned to the processor at hand.
fn row_of(target: &Target) -> (Option<Target>, bool) {
    let row = Target::table().into_iter().find(|row| row.isa == target.isa);
    let is_row = row.as_ref() == Some(target);
    (row, is_row)
}

fn target(encoder: &mut Encoder, target: &Target) {
    let (row, is_row) = row_of(target);
    encoder.text(&row.unwrap_or_else(|| target.clone()).name);
    let here = Processor::here();
    encoder.option((!is_row).then_some(here), |encoder, processor| {
        let Processor { caches, full_width, mesh } = processor;
        caches.into_iter().for_each(|bytes| encoder.option(bytes, Encoder::number));
        encoder.option(full_width, Encoder::flag);
        encoder.flag(mesh);
    });
}

fn read_target(decoder: &mut Decoder<'_>) -> std::result::Result<Target, Damage> {
    let name = decoder.text()?;
    let row = Target::named(name);
    let row = row.ok_or_else(|| Damage::new(format!("there is no target `{name}`")))?;
    let tuned = decoder.option(|decoder| {
        let mut caches = [None; 3];
        for bytes in &mut caches {
            *bytes = decoder.option(Decoder::number)?;
        }
        Ok((caches, decoder.option(Decoder::flag)?, decoder.flag()?))
    })?;
    Ok(match tuned {
        Some((caches, full_width, mesh)) => row.tuned(caches, full_width, mesh),
        None => row,
    })
}

pub(super) fn options(encoder: &mut Encoder, options: &Options) {
    encoder.flag(options.target == TargetChoice::Native);
    encoder.flag(options.precision == Precision::Bf16);
    encoder.flag(options.activations == Activations::Int8);
    encoder.text(options.key_values.name());
    encoder.flag(options.symbolic);
    encoder.list(&options.specialised, |encoder, name| encoder.text(name));
    encoder.list(&options.disabled, |encoder, name| encoder.text(name));
    encoder.list(&options.literals, |encoder, name| encoder.text(name));
    encoder.list(&options.updates, |encoder, (output, input)| {
        encoder.text(output);
        encoder.text(input);
    });
    encoder.list(&options.dims, |encoder, (name, &extent)| {
        encoder.text(name);
        encoder.integer(extent);
    });
    encoder.list(&options.input_shapes, |encoder, (name, shape)| {
        encoder.text(name);
        encoder.list(shape, |encoder, &extent| encoder.integer(extent));
    });
}

fn read_options(decoder: &mut Decoder<'_>) -> std::result::Result<Options, Damage> {
    let is_native = decoder.flag()?;
    let precision = if decoder.flag()? { Precision::Bf16 } else { Precision::F32 };
    let activations = if decoder.flag()? { Activations::Int8 } else { Activations::AsGiven };
    let name = decoder.text()?;
    let key_values = KeyValues::of_name(name)
        .ok_or_else(|| Damage::new(format!("there are no keys and values of `{name}`")))?;
    let symbolic = decoder.flag()?;
    let specialised = decoder.list(read_name)?;
    let disabled = decoder.list(read_name)?;
    let literals = decoder.list(read_name)?;
    let updates = decoder.list(|decoder| Ok((read_name(decoder)?, read_name(decoder)?)))?;
    let dims = decoder.list(|decoder| Ok((read_name(decoder)?, decoder.integer()?)))?;
    let input_shapes =
        decoder.list(|decoder| Ok((read_name(decoder)?, decoder.list(Decoder::integer)?)))?;
    let target = if is_native { TargetChoice::Native } else { TargetChoice::Named(String::new()) };
    Ok(Options {
        target,
        precision,
        activations,
        key_values,
        symbolic,
        specialised,
        disabled,
        literals,
        updates,
        dims,
        input_shapes,
        ..Options::default()
    })
}

fn read_name(decoder: &mut Decoder<'_>) -> std::result::Result<String, Damage> {
    decoder.text().map(str::to_owned)
}

pub(super) fn port(encoder: &mut Encoder, port: &Port) {
    encoder.text(&port.name);
    encoder.option(port.dtype, |encoder, dtype| encoder.text(dtype.name()));
    encoder.list(&port.shape, |encoder, extent| match extent {
        PortExtent::Fixed(extent) => {
            encoder.number(0);
            encoder.number(*extent as u64);
        }
        PortExtent::Symbolic(name) => {
            encoder.number(1);
            encoder.text(name);
        }
        PortExtent::Any => encoder.number(2),
    });
    kind(encoder, &port.kind);
}

pub(super) fn read_port(decoder: &mut Decoder<'_>) -> std::result::Result<Port, Damage> {
    let name = read_name(decoder)?;
    let dtype = decoder.option(|decoder| {
        let name = decoder.text()?;
        DType::parse(name).ok_or_else(|| Damage::new(format!("there is no type `{name}`")))
    })?;
    let shape = decoder.list(|decoder| {
        Ok(match decoder.place(3)? {
            0 => PortExtent::Fixed(decoder.size()?),
            1 => PortExtent::Symbolic(read_name(decoder)?),
            _ => PortExtent::Any,
        })
    })?;
    Ok(Port { name, dtype, shape, kind: read_kind(decoder, 0)? })
}

fn kind(encoder: &mut Encoder, of: &Kind) {
    match of {
        Kind::Tensor => encoder.number(0),
        Kind::Sequence(inner) => {
            encoder.number(1);
            kind(encoder, inner);
        }
        Kind::Optional(inner) => {
            encoder.number(2);
            kind(encoder, inner);
        }
        Kind::Maps => encoder.number(3),
        Kind::Map => encoder.number(4),
    }
}

fn read_kind(decoder: &mut Decoder<'_>, depth: usize) -> std::result::Result<Kind, Damage> {
    if depth > MOST_NESTED {
        return Err(Damage::new("a value is nested too deeply"));
    }
    Ok(match decoder.place(5)? {
        0 => Kind::Tensor,
        1 => Kind::Sequence(Box::new(read_kind(decoder, depth + 1)?)),
        2 => Kind::Optional(Box::new(read_kind(decoder, depth + 1)?)),
        3 => Kind::Maps,
        _ => Kind::Map,
    })
}

fn info(encoder: &mut Encoder, info: &ModelInfo) {
    for text in [
        &info.name,
        &info.graph_description,
        &info.producer,
        &info.producer_name,
        &info.domain,
        &info.description,
    ] {
        encoder.text(text);
    }
    encoder.integer(info.version);
    encoder.list(&info.metadata, |encoder, (key, text)| {
        encoder.text(key);
        encoder.text(text);
    });
    encoder.integer(info.ir_version);
    encoder.list(&info.opsets, |encoder, (domain, version)| {
        encoder.text(domain);
        encoder.integer(*version);
    });
    encoder.list(&info.inputs, port);
    encoder.list(&info.outputs, port);
    encoder.list(&info.dimensions, |encoder, name| encoder.text(name));
    encoder.number(info.parameters);
    encoder.number(info.parameter_bytes);
    encoder.list(&info.operators, |encoder, (name, &count)| {
        encoder.text(name);
        encoder.number(count as u64);
    });
}

fn read_info(decoder: &mut Decoder<'_>) -> std::result::Result<ModelInfo, Damage> {
    Ok(ModelInfo {
        name: read_name(decoder)?,
        graph_description: read_name(decoder)?,
        producer: read_name(decoder)?,
        producer_name: read_name(decoder)?,
        domain: read_name(decoder)?,
        description: read_name(decoder)?,
        version: decoder.integer()?,
        metadata: decoder.list(|decoder| Ok((read_name(decoder)?, read_name(decoder)?)))?,
        ir_version: decoder.integer()?,
        opsets: decoder.list(|decoder| Ok((read_name(decoder)?, decoder.integer()?)))?,
        inputs: decoder.list(read_port)?,
        outputs: decoder.list(read_port)?,
        dimensions: decoder.list(read_name)?,
        parameters: decoder.number()?,
        parameter_bytes: decoder.number()?,
        operators: decoder.list(|decoder| Ok((read_name(decoder)?, decoder.size()?)))?,
        // What is compiled is supported.
        unsupported: BTreeMap::new(),
    })
}
