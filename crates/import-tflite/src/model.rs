//! A TensorFlow Lite file: what it holds, and its graph as a graph function.

use std::collections::{BTreeMap, HashMap, HashSet};

use base::{InOrder, Limits, Result};
use bytes::Bytes;
use front::{ImportOptions, Imported, Port, PortExtent, with_shapes};
use tensor::Kind;

use crate::importer;
use crate::operators;
use crate::schema::damaged;
use crate::schema::{CUSTOM, Schema, SubGraph};

/// What stands behind the offset of the root in a file.
const IDENTIFIER: &[u8] = b"TFL3";

/// A model as a file holds it.
#[derive(Debug)]
pub struct TfliteModel {
    schema: Schema,
    names: Names,
}

/// What inputs and outputs are called.
#[derive(Debug)]
pub(crate) struct Names {
    pub(crate) inputs: Vec<String>,
    pub(crate) outputs: Vec<String>,
}

impl TfliteModel {
    /// Whether a file begins as one of TensorFlow Lite.
    #[must_use]
    pub fn is_one(bytes: &[u8]) -> bool {
        bytes.get(4..8) == Some(IDENTIFIER)
    }

    /// Reads the bytes of a file.
    ///
    /// # Errors
    /// `TW0119` for what is damaged or cut off; limits that are exceeded.
    pub fn read(bytes: Bytes, limits: &Limits) -> Result<TfliteModel> {
        if !TfliteModel::is_one(&bytes) {
            return Err(damaged("it does not begin with the identifier `TFL3`").into());
        }
        let schema = Schema::read(bytes, limits)?;
        let names = Names::of(&schema);
        Ok(TfliteModel { schema, names })
    }

    /// Imports it in the shapes that the options give.
    ///
    /// # Errors
    /// Options that do not fit; the first operator that is not supported, or not right.
    pub fn import(&self, options: &ImportOptions) -> Result<Imported> {
        let (inputs, _) = self.ports(options)?;
        let shapes: Vec<Vec<PortExtent>> = inputs.into_iter().map(|port| port.shape).collect();
        let module = importer::import(&self.schema, &self.names, &shapes, &options.limits)?;
        Ok(Imported::of_module(module))
    }

    /// Inputs and outputs as the file declares them, in the shapes that the options give.
    ///
    /// # Errors
    /// Options that do not fit.
    pub fn ports(&self, options: &ImportOptions) -> Result<(Vec<Port>, Vec<Port>)> {
        let graph = &self.schema.graphs[0];
        let of = |numbers: &[usize], names: &[String]| -> Vec<Port> {
            numbers.iter().zip(names).map(|(&number, name)| port(graph, number, name)).collect()
        };
        let inputs = of(&graph.inputs, &self.names.inputs);
        let inputs = with_shapes(inputs, options, &BTreeMap::new())?;
        Ok((inputs, of(&graph.outputs, &self.names.outputs)))
    }

    /// What its maker says of it.
    #[must_use]
    pub fn description(&self) -> &str {
        &self.schema.description
    }

    /// The version of the schema.
    #[must_use]
    pub fn version(&self) -> u32 {
        self.schema.version
    }

    /// The name of its first graph, or of the signature that is that graph's.
    #[must_use]
    pub fn name(&self) -> &str {
        let own = self.schema.graphs[0].name.as_str();
        let signature = self.schema.signatures.iter().find(|it| it.graph == 0);
        if own.is_empty() { signature.map_or("", |signature| &signature.key) } else { own }
    }

    /// What its maker says of it besides, by key.
    #[must_use]
    pub fn metadata(&self) -> BTreeMap<String, String> {
        self.schema.metadata.iter().cloned().collect()
    }

    /// The elements and the bytes of all constants.
    #[must_use]
    pub fn parameters(&self) -> (u64, u64) {
        let mut total = (0_u64, 0_u64);
        for tensor in self.schema.graphs.iter().flat_map(|graph| &graph.tensors) {
            let bytes = self.schema.buffers[tensor.buffer].len() as u64;
            if bytes > 0 {
                let extents = tensor.shape.iter().map(|extent| u64::try_from(*extent).unwrap_or(0));
                total.0 = total.0.saturating_add(extents.fold(1, u64::saturating_mul));
                total.1 = total.1.saturating_add(bytes);
            }
        }
        total
    }

    /// How often each operator stands in the graphs.
    #[must_use]
    pub fn operators(&self) -> BTreeMap<String, usize> {
        let mut counts = BTreeMap::new();
        for entry in self.schema.graphs.iter().flat_map(|graph| &graph.operators) {
            *counts.entry(self.schema.operator(entry).0).or_default() += 1;
        }
        counts
    }

    /// Operators that are not supported, with their versions, and where they stand.
    #[must_use]
    pub fn unsupported(&self) -> BTreeMap<String, Vec<String>> {
        let mut places: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for graph in &self.schema.graphs {
            for (place, entry) in graph.operators.iter().enumerate() {
                let code = &self.schema.codes[entry.code];
                let row = operators::find(code.builtin).filter(|_| code.builtin != CUSTOM);
                if row.is_none_or(|row| !(1..=row.version).contains(&code.version)) {
                    let name =
                        format!("{} version {}", self.schema.operator(entry).0, code.version);
                    places.entry(name).or_default().push(format!("operator {place}"));
                }
            }
        }
        places
    }

    /// Names of dimensions that are not fixed.
    #[must_use]
    pub fn dimensions(&self) -> Vec<String> {
        let (inputs, _) = self.ports(&ImportOptions::default()).unwrap_or_default();
        let mut names: Vec<String> =
            inputs.iter().flat_map(Port::free_extents).map(str::to_owned).collect();
        names.put_in_order();
        names.dedup();
        names
    }
}

impl Names {
    /// The names of the signature of the first graph, if it is the only one and has them; else
    /// those of its tensors. Each stands once.
    fn of(schema: &Schema) -> Names {
        let graph = &schema.graphs[0];
        let mut own = schema.signatures.iter().filter(|signature| signature.graph == 0);
        let signature = own.next().filter(|_| own.next().is_none());
        let names = |numbers: &[usize], ports: Option<&[(String, usize)]>| {
            let ports = ports.into_iter().flatten().map(|(name, number)| (*number, name));
            let ports: HashMap<usize, &String> = ports.collect();
            let mut counts: HashMap<String, usize> = HashMap::new();
            let mut taken: HashSet<String> = HashSet::new();
            let mut names = Vec::new();
            for &number in numbers {
                let name = ports.get(&number).copied().unwrap_or(&graph.tensors[number].name);
                let name = if name.is_empty() { format!("value_{number}") } else { name.clone() };
                let count = counts.entry(name.clone()).or_default();
                let mut distinct = name.clone();
                while !taken.insert(distinct.clone()) {
                    *count += 1;
                    distinct = format!("{name}_again_{count}");
                }
                names.push(distinct);
            }
            names
        };
        Names {
            inputs: names(&graph.inputs, signature.map(|it| &it.inputs[..])),
            outputs: names(&graph.outputs, signature.map(|it| &it.outputs[..])),
        }
    }
}

/// A tensor as callers see it. An extent that is free has the name of the tensor and its axis.
fn port(graph: &SubGraph, number: usize, name: &str) -> Port {
    let tensor = &graph.tensors[number];
    let is_free = |axis: usize, extent: i32| match tensor.signature.get(axis) {
        Some(free) if tensor.signature.len() == tensor.shape.len() => *free < 0,
        _ => extent < 0,
    };
    let plain: String =
        name.chars().map(|it| if it.is_ascii_alphanumeric() { it } else { '_' }).collect();
    let extent = |(axis, &extent): (usize, &i32)| match is_free(axis, extent) {
        true => PortExtent::Symbolic(format!("{plain}_{axis}")),
        false => PortExtent::Fixed(usize::try_from(extent).unwrap_or(0)),
    };
    Port {
        name: name.to_owned(),
        dtype: tensor.dtype().ok(),
        shape: tensor.shape.iter().enumerate().map(extent).collect(),
        kind: Kind::Tensor,
    }
}

/// The names of all operators that are imported, with the greatest version of each.
#[must_use]
pub fn supported_operators() -> Vec<(&'static str, i32)> {
    operators::rows().map(|row| (row.name, row.version)).collect()
}
