//! Programs as `torch.export.save` writes them (`.pt2`): read without Python.
//!
//! An archive holds the graph as JSON, of PyTorch's own schema, and the tensors. What is made of it
//! is a trace like any other, with the tensors as weights, so that operators are lowered in one
//! place. Buffers that nodes write to are weights with their saved values; the new values are
//! outputs behind those of the module, called as the buffers are.
//!
//! Invariants: nothing of Python is run, and nothing that the file does not hold is asked for; no
//! file makes this crate panic, or take more memory than the limits allow for its size.

mod archive;
mod graph;
mod memory;
mod schema;
mod sizes;
mod structure;
mod torch_save;

use std::collections::{BTreeMap, HashMap};

use base::{Diagnostic, Limits, codes};
use bytes::Bytes;
use front::{Accepted, ImportOptions, Imported, Port, PortExtent, with_shapes};
use sym::{Expr, SymbolId};
use tensor::{Kind, Tensor};

use self::archive::Archive;
use self::schema::{Reader, refused};
use crate::importer;
use crate::trace::{AtenTrace, Declared};

/// The version of PyTorch's schema that is read.
const SCHEMA: i64 = 8;

/// A program of `torch.export`, as a file holds it.
#[derive(Clone, Debug)]
pub struct ExportedProgram {
    trace: AtenTrace,
    weights: Vec<Tensor>,
    /// The version of PyTorch that wrote it.
    torch_version: String,
    /// The version of the schema.
    schema: (i64, i64),
    /// Operator sets with their versions.
    opsets: Vec<(String, i64)>,
}

impl ExportedProgram {
    /// Whether a file begins as one that holds a program.
    #[must_use]
    pub fn is_one(bytes: &[u8]) -> bool {
        tensor::zip::is_archive(bytes)
    }

    /// Reads the bytes of a file.
    ///
    /// # Errors
    /// `TW0118` for what `torch.export.save` does not write, with the member or the value that is
    /// wrong; the node that cannot be part of a trace; limits that are exceeded.
    pub fn read(bytes: Bytes, limits: &Limits) -> base::Result<ExportedProgram> {
        Ok(read(bytes, limits)?)
    }

    /// Imports it in the shapes that the options give.
    ///
    /// # Errors
    /// Options that do not fit; the first node that is not supported.
    pub fn import(&self, options: &ImportOptions) -> base::Result<Imported> {
        let bound = self.bound(options)?;
        let trace = if bound.is_empty() { None } else { Some(self.trace.with_values(&bound)) };
        let trace = trace.as_ref().unwrap_or(&self.trace);
        let limits = &options.limits;
        importer::import(trace, &self.weights, limits).map(Imported::of_module).map_err(|found| {
            found.map(|found| match found.code == codes::UNSUPPORTED_OPERATOR {
                true => found.remedy(
                    "call `run_decompositions()` on the program before it is saved, or compile it \
                     in Python, where PyTorch runs what is not supported",
                ),
                false => found,
            })
        })
    }

    /// Inputs and outputs, in the shapes that the options give.
    ///
    /// # Errors
    /// Options that do not fit.
    pub fn ports(&self, options: &ImportOptions) -> base::Result<(Vec<Port>, Vec<Port>)> {
        let bound = self.bound(options)?;
        let trace = self.trace.with_values(&bound);
        let types = trace.types();
        let outputs = trace.results.iter().enumerate().map(|(place, result)| {
            let name = trace.result_name(place);
            types.get(&result.value[..]).map(|declared| port(&trace, &name, declared))
        });
        let inputs = trace.inputs.iter().map(|(name, declared)| port(&trace, name, declared));
        Ok((inputs.collect(), outputs.flatten().collect()))
    }

    /// The values of symbols that the options bind, by their names.
    fn bound(&self, options: &ImportOptions) -> base::Result<BTreeMap<String, i64>> {
        let inputs = self.trace.inputs.iter();
        let ports: Vec<Port> =
            inputs.map(|(name, declared)| port(&self.trace, name, declared)).collect();
        let shaped = with_shapes(ports.clone(), options, &BTreeMap::new())?;
        let mut bound = BTreeMap::new();
        for (port, shaped) in ports.iter().zip(&shaped) {
            for extents in port.shape.iter().zip(&shaped.shape) {
                if let (PortExtent::Symbolic(name), PortExtent::Fixed(extent)) = extents {
                    bound.insert(name.clone(), i64::try_from(*extent).unwrap_or(i64::MAX));
                }
            }
        }
        for symbol in &self.trace.symbols {
            if let Some(&value) = bound.get(&symbol.name)
                && !symbol.range.contains(value)
            {
                let (name, range) = (&symbol.name, symbol.range);
                let message = format!("dimension `{name}` cannot be {value}");
                return Err(Diagnostic::error(codes::WRONG_SHAPE, message)
                    .at(format!("--dim {name}={value}"))
                    .because(format!("the program is for {range}"))
                    .remedy("give a number of this range, or export the program for others")
                    .into());
            }
        }
        Ok(bound)
    }

    /// The version of PyTorch that wrote it.
    #[must_use]
    pub fn torch_version(&self) -> &str {
        &self.torch_version
    }

    /// The version of the schema: its major and its minor number.
    #[must_use]
    pub fn schema(&self) -> (i64, i64) {
        self.schema
    }

    /// Operator sets with their versions.
    #[must_use]
    pub fn opsets(&self) -> &[(String, i64)] {
        &self.opsets
    }

    /// Parameters, buffers and constants.
    #[must_use]
    pub fn weights(&self) -> &[Tensor] {
        &self.weights
    }

    /// How often each operator is called.
    #[must_use]
    pub fn operators(&self) -> BTreeMap<String, usize> {
        let mut counts = BTreeMap::new();
        for call in self.trace.calls.iter().filter(|call| call.operator != "getitem") {
            *counts.entry(call.operator.clone()).or_default() += 1;
        }
        counts
    }

    /// Operators that are not supported, with the nodes that call them.
    #[must_use]
    pub fn unsupported(&self) -> BTreeMap<String, Vec<String>> {
        let mut nodes: BTreeMap<String, Vec<String>> = BTreeMap::new();
        let known: std::collections::BTreeSet<String> = crate::operators().into_iter().collect();
        for call in &self.trace.calls {
            if call.operator != "getitem" && !known.contains(&call.operator) {
                nodes.entry(call.operator.clone()).or_default().push(call.name.clone());
            }
        }
        nodes
    }

    /// The names of symbols.
    #[must_use]
    pub fn dimensions(&self) -> Vec<String> {
        self.trace.symbols.iter().map(|symbol| symbol.name.clone()).collect()
    }
}

fn read(bytes: Bytes, limits: &Limits) -> Accepted<ExportedProgram> {
    let archive = Archive::open(bytes, limits)?;
    let json = archive.program()?;
    let program = Reader::new(&json, "the program");
    let version = program.field("schema_version")?;
    let schema = (version.field("major")?.integer()?, version.field("minor")?.integer()?);
    if schema.0 != SCHEMA {
        return Err(refused(format!("its schema has version {}, not {SCHEMA}", schema.0))
            .remedy("write it anew with a version of PyTorch from 2.5 to 2.15"));
    }
    let mut opsets = Vec::new();
    if let Some(versions) = program.optional("opset_version")? {
        for (name, version) in versions.entries()? {
            opsets.push((name.to_owned(), version.integer()?));
        }
    }
    let torch_version = program.optional("torch_version")?.map(|it| it.text()).transpose()?;
    let torch_version = torch_version.unwrap_or_default().to_owned();
    let tensors = archive.tensors()?;
    let (trace, weights) = graph::Writer::write(&json, tensors, limits.nodes)?;
    Ok(ExportedProgram { trace, weights, torch_version, schema, opsets })
}

fn port(trace: &AtenTrace, name: &str, declared: &Declared) -> Port {
    let symbol = |id: SymbolId| trace.symbols[base::Id::index(id)].name.clone();
    let extent = |extent: &Expr| match extent.as_constant() {
        Some(extent) => PortExtent::Fixed(usize::try_from(extent).unwrap_or(0)),
        None => PortExtent::Symbolic(extent.display(&symbol).to_string()),
    };
    Port {
        name: name.to_owned(),
        dtype: Some(declared.dtype),
        shape: declared.shape.iter().map(extent).collect(),
        kind: Kind::Tensor,
    }
}

impl AtenTrace {
    /// The types of inputs, weights and of nodes with one result, by name.
    fn types(&self) -> HashMap<&str, &Declared> {
        let given = self.inputs.iter().chain(&self.weights);
        let given = given.map(|(name, declared)| (&name[..], declared));
        let calls = self
            .calls
            .iter()
            .filter_map(|call| Some((&call.name[..], call.types.first()?.as_ref()?)));
        given.chain(calls).collect()
    }
}
