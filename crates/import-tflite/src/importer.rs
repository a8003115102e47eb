//! The operators of a graph one after the other.

use std::sync::Arc;

use base::limits::{exceeded, more_than};
use base::{Diagnostic, Limits, codes};
use front::{Accepted, Graph, Operand, PortExtent, constant_value, shape_error, type_error};
use module::Module;
use sym::Expr;
use tensor::{DType, Tensor};

use crate::model::Names;
use crate::node::Node;
use crate::operators::{self, Lower};
use crate::schema::damaged;
use crate::schema::{CUSTOM, OperatorEntry, Schema, SubGraph, TensorEntry};

/// A model being lowered.
pub(crate) struct Importer<'m> {
    pub(crate) schema: &'m Schema,
    pub(crate) graph: Graph,
    /// How many graphs are being lowered inside each other.
    depth: usize,
    /// Operators that were lowered so far.
    nodes: usize,
}

impl AsMut<Graph> for Importer<'_> {
    fn as_mut(&mut self) -> &mut Graph {
        &mut self.graph
    }
}

/// Lowers the first graph of a file, with inputs of these shapes.
pub(crate) fn import(
    schema: &Schema,
    names: &Names,
    shapes: &[Vec<PortExtent>],
    limits: &Limits,
) -> Accepted<Module> {
    let graph = Graph::new("main", limits.clone());
    let mut importer = Importer { schema, graph, depth: 0, nodes: 0 };
    let own = &schema.graphs[0];
    let mut inputs = Vec::new();
    for ((&number, name), shape) in own.inputs.iter().zip(&names.inputs).zip(shapes) {
        let dtype = own.tensors[number].dtype();
        let input = dtype.and_then(|dtype| importer.graph.parameter(name, dtype, shape));
        inputs.push(input.map_err(|found| found.or_at(|| format!("input \"{name}\"")))?);
    }
    let outputs = importer.graph_of(own, &inputs)?;
    let mut results = Vec::new();
    for (name, value) in names.outputs.iter().zip(&outputs) {
        results.push((name.clone(), importer.graph.data(value)?));
    }
    let mut module = Module::default();
    module.functions.push(Arc::new(importer.graph.builder.finish(results)));
    module.constants = importer.graph.constants;
    Ok(module)
}

impl Importer<'_> {
    /// Lowers a graph with these inputs; its outputs.
    pub(crate) fn graph_of(
        &mut self,
        graph: &SubGraph,
        inputs: &[Operand],
    ) -> Accepted<Vec<Operand>> {
        let most = self.graph.limits.nesting;
        if self.depth >= most {
            let message = format!("graphs are nested more than {most} deep");
            return Err(exceeded("nesting", more_than(most as u64), message)
                .because("their depth is limited, so that no file exhausts the stack"));
        }
        self.depth += 1;
        let outputs = self.graph_here(graph, inputs);
        self.depth -= 1;
        outputs
    }

    fn graph_here(&mut self, graph: &SubGraph, inputs: &[Operand]) -> Accepted<Vec<Operand>> {
        let mut values: Vec<Option<Operand>> = vec![None; graph.tensors.len()];
        if inputs.len() != graph.inputs.len() {
            let (given, wanted) = (inputs.len(), graph.inputs.len());
            return Err(shape_error(format!("{given} values for a graph with {wanted} inputs")));
        }
        for (&number, value) in graph.inputs.iter().zip(inputs) {
            values[number] = Some(value.clone());
        }
        for (place, entry) in graph.operators.iter().enumerate() {
            let at = || self.schema.place(graph, place);
            self.nodes += 1;
            let most = self.graph.limits.nodes;
            if self.nodes > most {
                let message = format!("the model has more than {most} operators");
                return Err(exceeded("nodes", more_than(most as u64), message)
                    .because("operators of graphs within operators count at each use"));
            }
            for &number in entry.inputs.iter().flatten() {
                if values[number].is_none() {
                    let constant = self.constant(graph, number);
                    values[number] = constant.map_err(|found| found.or_at(at))?;
                }
            }
            let results = self.operator(graph, entry, &values, place);
            let results =
                results.map_err(|found| found.or_at(|| self.schema.place(graph, place)))?;
            for (&number, value) in entry.outputs.iter().zip(results) {
                let name = &graph.tensors[number].name;
                if let Some(id) = value.node()
                    && !name.is_empty()
                    && self.graph.builder.function().values[id].name.is_none()
                {
                    self.graph.builder.set_name(id, name.as_str());
                }
                values[number] = Some(value);
            }
        }
        let mut outputs = Vec::new();
        for &number in &graph.outputs {
            if values[number].is_none() {
                values[number] = self.constant(graph, number)?;
            }
            let name = &graph.tensors[number].name;
            outputs.push(values[number].clone().ok_or_else(|| {
                let message = format!("output \"{name}\" has no value");
                Diagnostic::error(codes::UNDEFINED_NAME, message)
                    .because("no operator computes it, and it has no data")
                    .remedy("convert the model anew")
            })?);
        }
        Ok(outputs)
    }

    /// The value of a tensor that has data of its own.
    fn constant(&self, graph: &SubGraph, number: usize) -> Accepted<Option<Operand>> {
        let entry = &graph.tensors[number];
        let place = |found: Diagnostic| found.or_at(|| format!("tensor \"{}\"", entry.name));
        if self.schema.buffers[entry.buffer].is_empty() {
            // A tensor without elements has an empty buffer.
            if !entry.shape.contains(&0) || entry.is_variable || !entry.signature.is_empty() {
                return Ok(None);
            }
            let shape = self.constant_shape(&entry.shape).map_err(place)?;
            let tensor = Tensor::try_zeros(entry.dtype().map_err(place)?, &shape);
            return Ok(tensor.map(|tensor| constant_value(&entry.name, tensor, false)));
        }
        let shape = self.constant_shape(&entry.shape).map_err(place)?;
        let tensor = constant_tensor(self.schema, entry, &shape);
        Ok(Some(constant_value(&entry.name, tensor.map_err(place)?, false)))
    }

    /// The extents of a constant, which are not negative, and not too large.
    fn constant_shape(&self, shape: &[i32]) -> Accepted<Vec<usize>> {
        let extents: Vec<Expr> =
            shape.iter().map(|extent| Expr::from(i64::from(*extent))).collect();
        self.graph.check_size(&extents)?;
        let extent = |extent: &i32| usize::try_from(*extent).ok();
        let shape = shape.iter().map(extent).collect::<Option<Vec<usize>>>();
        shape.ok_or_else(|| damaged("a constant has a negative extent"))
    }

    /// The results of an operator, each of the type that the file says of it.
    fn operator(
        &mut self,
        graph: &SubGraph,
        entry: &OperatorEntry,
        values: &[Option<Operand>],
        place: usize,
    ) -> Accepted<Vec<Operand>> {
        let (name, version) = self.schema.operator(entry);
        let own = entry.outputs.first().map(|&number| graph.tensors[number].name.clone());
        let own = own.filter(|name| !name.is_empty()).unwrap_or_else(|| place.to_string());
        let location = self.graph.builder.locations().node(own, name.clone());
        self.graph.builder.set_location(location);
        let code = &self.schema.codes[entry.code];
        let row = if code.builtin == CUSTOM { None } else { operators::find(code.builtin) };
        let row = row.ok_or_else(|| unsupported_operator(&name, version))?;
        if !(1..=row.version).contains(&version) {
            return Err(unsupported_operator(&name, version)
                .because(format!("versions from 1 to {} are supported", row.version)));
        }
        if entry.options_type != 0 && row.options != 0 && entry.options_type != row.options {
            let (given, wanted) = (entry.options_type, row.options);
            return Err(damaged(format!("its options are of kind {given}, not {wanted}")));
        }
        let node = Node { schema: self.schema, graph, entry, values };
        let results = match row.lower {
            Lower::Plain(lower) => lower(&node, &mut self.graph),
            Lower::WithGraphs(lower) => lower(&node, self),
        }?;
        if results.len() < entry.outputs.len() {
            let (given, wanted) = (results.len(), entry.outputs.len());
            return Err(shape_error(format!("it has {given} results, where {wanted} are named")));
        }
        for (&number, value) in entry.outputs.iter().zip(&results) {
            let (declared, found) = (graph.tensors[number].dtype()?, value.dtype());
            if found != declared {
                let reason = format!("the result is {found}, where the file says {declared}");
                return Err(type_error(reason));
            }
        }
        Ok(results)
    }
}

/// The data of a tensor of a shape.
fn constant_tensor(schema: &Schema, entry: &TensorEntry, shape: &[usize]) -> Accepted<Tensor> {
    let dtype = entry.dtype()?;
    let bytes = &schema.buffers[entry.buffer];
    if entry.is_sparse {
        return Err(front::unsupported("constants that leave zeros out")
            .remedy("convert the model without sparse tensors"));
    }
    if dtype == DType::String {
        return Err(type_error("constants that are texts"));
    }
    Tensor::from_bytes(dtype, shape, bytes.clone()).map_err(damaged)
}

/// The refusal of an operator that is not in the table.
pub(crate) fn unsupported_operator(name: &str, version: i32) -> Diagnostic {
    let message = format!("operator {name}, version {version}, is not supported");
    Diagnostic::error(codes::UNSUPPORTED_OPERATOR, message)
        .because("it is not in the table of operators")
        .remedy("convert the model without it; `docs/tflite.md` has the operators that there are")
}

impl Schema {
    /// The name and the version of the operator that an entry calls.
    pub(crate) fn operator(&self, entry: &OperatorEntry) -> (String, i32) {
        let code = &self.codes[entry.code];
        let name = match code.builtin {
            CUSTOM => format!("CUSTOM {}", code.custom),
            builtin => operators::name_of(builtin),
        };
        (name, code.version)
    }

    /// Where an operator stands.
    pub(crate) fn place(&self, graph: &SubGraph, place: usize) -> String {
        let entry = &graph.operators[place];
        let (name, version) = self.operator(entry);
        let own = entry.outputs.first().map(|&number| &graph.tensors[number].name);
        let own = own.filter(|name| !name.is_empty());
        let own = own.map_or(String::new(), |name| format!(" of \"{name}\""));
        let within = match (&self.graphs[..], graph.name.as_str()) {
            ([_], _) => String::new(),
            (_, name) => format!(" in graph \"{name}\""),
        };
        format!("operator {place} ({name} version {version}){own}{within}")
    }
}
