//! The nodes of a trace one after the other.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use base::{Diagnostic, Id, Limits, codes};
use front::{Accepted, Graph, Operand, shape_error, type_error};
use graph::{TensorType, Type};
use module::Module;
use sym::{Expr, Range};
use tensor::Tensor;

use crate::node::Node;
use crate::operators;
use crate::trace::{AtenTrace, Declared, TraceArgument, TraceNode};

/// The values of names: of a node with several results all of them, of others the only one.
#[derive(Default)]
pub(crate) struct Values {
    values: HashMap<String, Vec<Option<Operand>>>,
    /// How their elements lie in memory for PyTorch, where that is not row-major.
    strides: HashMap<String, Vec<i64>>,
}

impl Values {
    fn insert(&mut self, name: &str, values: Vec<Option<Operand>>, declared: Option<&Declared>) {
        if let Some(strides) = declared.and_then(|declared| declared.strides.clone()) {
            self.strides.insert(name.to_owned(), strides);
        }
        self.values.insert(name.to_owned(), values);
    }

    /// All results under a name.
    pub(crate) fn get(&self, name: &str) -> Option<&Vec<Option<Operand>>> {
        self.values.get(name)
    }

    /// See [`Declared::strides`].
    pub(crate) fn strides(&self, name: &str) -> Option<&[i64]> {
        self.strides.get(name).map(Vec::as_slice)
    }
}

/// A trace being lowered.
struct Importer {
    graph: Graph,
    values: Values,
    /// What the symbols of the trace are here; none of those that no node has defined yet.
    sizes: Vec<Option<Expr>>,
    /// The ranges of the symbols of the trace, within the limits.
    ranges: Vec<Range>,
    /// Whether nodes define sizes, so that the trace's symbols are not those of the graph.
    has_data_sizes: bool,
}

impl Importer {
    /// The symbols and the inputs of a trace.
    fn begin(trace: &AtenTrace, limits: &Limits) -> Accepted<Importer> {
        let mut graph = Graph::new("main", limits.clone());
        let (mut sizes, mut ranges) = (Vec::new(), Vec::new());
        for symbol in &trace.symbols {
            let range = symbol.range.intersect(Range::new(0, limits.dimension));
            ranges.push(range);
            sizes.push((!symbol.is_data).then(|| {
                let symbol = graph.builder.symbol(&symbol.name, range);
                Expr::symbol(symbol)
            }));
        }
        let has_data_sizes = trace.symbols.iter().any(|symbol| symbol.is_data);
        let values = Values::default();
        let mut importer = Importer { graph, values, sizes, ranges, has_data_sizes };
        for (name, declared) in &trace.inputs {
            let place = |found: Diagnostic| found.at(format!("input \"{name}\""));
            let declared = &declared.map(&mut |extent| importer.here(extent));
            let value = importer.parameter(name, declared).map_err(place)?;
            importer.values.insert(name, vec![Some(value)], Some(declared));
        }
        Ok(importer)
    }

    /// A value that a run is given.
    fn parameter(&mut self, name: &str, declared: &Declared) -> Accepted<Operand> {
        let ty = TensorType { dtype: declared.dtype, shape: declared.shape.as_slice().into() };
        self.graph.check_size(&declared.shape)?;
        let id = self.graph.builder.parameter(name, Type::Tensor(ty.clone()));
        self.graph.builder.set_name(id, name);
        Ok(Operand::of_node(id, ty))
    }

    /// An expression over the trace's symbols as one over the graph's.
    fn here(&self, expr: &Expr) -> Expr {
        expr.substitute(&mut |symbol| self.sizes.get(symbol.index())?.clone())
    }

    /// The symbol of the trace that an extent is, if no node has defined it yet.
    fn undefined(&self, extent: &Expr) -> Option<usize> {
        let symbol = extent.as_symbol()?.index();
        self.sizes.get(symbol)?.is_none().then_some(symbol)
    }

    /// Lowers a node.
    fn call(&mut self, call: &TraceNode) -> Accepted<()> {
        let place = || format!("node \"{}\" ({})", call.name, call.operator);
        let lowered = self.lower(call).map_err(|found| found.or_at(place))?;
        let declared = call.types.first().and_then(Option::as_ref);
        self.values.insert(&call.name, lowered, declared);
        Ok(())
    }

    /// A node over the graph's symbols.
    fn call_here<'a>(&self, call: &'a TraceNode) -> Cow<'a, TraceNode> {
        if !self.has_data_sizes {
            return Cow::Borrowed(call);
        }
        let here = &mut |expr: &Expr| self.here(expr);
        let mut own = call.clone();
        own.types.iter_mut().flatten().for_each(|declared| *declared = declared.map(here));
        own.arguments.iter_mut().for_each(|argument| *argument = argument.map(here));
        own.named.iter_mut().for_each(|(_, argument)| *argument = argument.map(here));
        Cow::Owned(own)
    }

    /// The results of a node, each of the type that the node declares.
    fn lower(&mut self, call: &TraceNode) -> Accepted<Vec<Option<Operand>>> {
        let graph = &mut self.graph;
        let location = graph.builder.locations().node(call.name.clone(), call.operator.clone());
        graph.builder.set_location(location);
        if call.operator == "getitem" {
            let value = item(call, &self.values)?;
            return Ok(vec![Some(value)]);
        }
        let Some(function) = operators::find(&call.operator) else {
            return Err(operators::unsupported_operator(&call.operator));
        };
        let mut extents = call.types.iter().flatten().flat_map(|declared| &declared.shape);
        let undefined = extents.find_map(|extent| self.undefined(extent));
        let defined = undefined.map(|symbol| self.ranges[symbol]);
        let own = self.call_here(call);
        let node = Node { call: &own, values: &self.values, defined };
        let results = function(&node, &mut self.graph)?;
        self.define_sizes(call, &results);
        let own = if defined.is_some() { self.call_here(call) } else { own };
        checked(&mut self.graph, &own, results)
    }

    /// Lets the sizes that a node would define be given.
    fn declare_sizes(&mut self, trace: &AtenTrace, call: &TraceNode) {
        for extent in call.types.iter().flatten().flat_map(|declared| &declared.shape) {
            if let Some(number) = self.undefined(extent) {
                let symbol = &trace.symbols[number];
                let own = self.graph.builder.symbol(&symbol.name, symbol.range);
                self.sizes[number] = Some(Expr::symbol(own));
            }
        }
    }

    /// Takes note of the sizes that the results of a node have first.
    fn define_sizes(&mut self, call: &TraceNode, results: &[Operand]) {
        for (declared, result) in call.types.iter().zip(results) {
            let extents = declared.iter().flat_map(|declared| &declared.shape);
            for (extent, own) in extents.zip(result.shape()) {
                if let Some(symbol) = self.undefined(extent) {
                    self.sizes[symbol] = Some(own.clone());
                }
            }
        }
    }
}

/// Lowers a trace, whose weights have these values. What they hold no pass reads, so that others
/// of the same types may take their place.
///
/// # Errors
/// The first node that is not supported, or not right; its name is the place.
pub fn import(trace: &AtenTrace, weights: &[Tensor], limits: &Limits) -> base::Result<Module> {
    let mut importer = Importer::begin(trace, limits)?;
    if weights.len() != trace.weights.len() {
        let (given, wanted) = (weights.len(), trace.weights.len());
        return Err(shape_error(format!("{given} weights for {wanted}")).into());
    }
    for ((name, declared), tensor) in trace.weights.iter().zip(weights) {
        check_weight(declared, tensor).map_err(|found| found.at(format!("weight \"{name}\"")))?;
        let value = Operand::of_weight(name.clone(), tensor.clone());
        importer.values.insert(name, vec![Some(value)], Some(declared));
    }
    trace.calls.iter().try_for_each(|call| importer.call(call))?;
    let mut results = Vec::new();
    for (place, result) in trace.results.iter().enumerate() {
        let value = value_of(&importer.values, &result.value)?;
        results.push((trace.result_name(place), importer.graph.data(&value)?));
    }
    let mut module = Module::default();
    module.functions.push(Arc::new(importer.graph.builder.finish(results)));
    module.constants = importer.graph.constants;
    Ok(module)
}

/// The nodes that are not supported, by name, and why. What such a node computes counts as given,
/// so that those that read it are judged by themselves.
pub fn refused(trace: &AtenTrace, limits: &Limits) -> Vec<(String, Diagnostic)> {
    // Of weights the types decide, so that they may be inputs.
    let inputs = trace.inputs.iter().chain(&trace.weights).cloned().collect();
    let trace = AtenTrace { inputs, weights: Vec::new(), ..trace.clone() };
    let mut importer = match Importer::begin(&trace, limits) {
        Ok(importer) => importer,
        Err(found) => return vec![(String::new(), found)],
    };
    let mut refused = Vec::new();
    for call in &trace.calls {
        let Err(found) = importer.call(call) else { continue };
        refused.push((call.name.clone(), found));
        importer.declare_sizes(&trace, call);
        let own = importer.call_here(call);
        let given = |ty: &Option<Declared>| {
            ty.as_ref().and_then(|ty| importer.parameter(&call.name, ty).ok())
        };
        let results = own.types.iter().map(given).collect();
        let declared = call.types.first().and_then(Option::as_ref);
        importer.values.insert(&call.name, results, declared);
    }
    refused
}

fn check_weight(declared: &Declared, tensor: &Tensor) -> Accepted<()> {
    let shape: Vec<Expr> = tensor.shape().iter().map(|&extent| Expr::from(extent)).collect();
    match declared.dtype == tensor.dtype() && declared.shape == shape {
        true => Ok(()),
        false => {
            let (dtype, shape) = (tensor.dtype(), tensor.shape());
            Err(shape_error(format!("the tensor given is {dtype}{shape:?}")))
        }
    }
}

/// The value of a name that has one result.
pub(crate) fn value_of(values: &Values, name: &str) -> Accepted<Operand> {
    match values.get(name).map(Vec::as_slice) {
        Some([Some(value)]) => Ok(value.clone()),
        Some(_) => Err(shape_error(format!("`{name}` is a list of values"))),
        None => {
            Err(Diagnostic::error(codes::UNDEFINED_NAME, format!("no value is named `{name}`"))
                .because("a node reads what stands before it")
                .remedy("write the trace anew"))
        }
    }
}

/// The results of a node, if they are as many and of the types as the node declares.
fn checked(
    graph: &mut Graph,
    call: &TraceNode,
    results: Vec<Operand>,
) -> Accepted<Vec<Option<Operand>>> {
    if results.len() < call.types.iter().rposition(Option::is_some).map_or(0, |last| last + 1) {
        return Err(front::unsupported(format!("it gives {} results here", results.len())));
    }
    let mut checked = Vec::new();
    for (declared, value) in call.types.iter().zip(results) {
        checked.push(match declared {
            Some(declared) => Some(as_declared(graph, declared, &value)?),
            None => None,
        });
    }
    if let Some(id) = checked.first().and_then(Option::as_ref).and_then(Operand::node)
        && graph.builder.function().values[id].name.is_none()
    {
        graph.builder.set_name(id, call.name.as_str());
    }
    Ok(checked)
}

/// A value with the extents that a node declares for it, which its own equal.
fn as_declared(graph: &mut Graph, declared: &Declared, value: &Operand) -> Accepted<Operand> {
    if value.dtype() != declared.dtype {
        let (own, wanted) = (value.dtype(), declared.dtype);
        return Err(type_error(format!("the result is {own}, where the trace says {wanted}")));
    }
    graph.refine(value, &declared.shape)
}

/// One of the results of a node.
fn item(call: &TraceNode, values: &Values) -> Accepted<Operand> {
    let [TraceArgument::Value(name), TraceArgument::Integer(number)] = &call.arguments[..] else {
        return Err(shape_error("it takes a value and a number"));
    };
    let place = number.as_constant().and_then(|number| usize::try_from(number).ok());
    let found = place.and_then(|place| values.get(name)?.get(place)?.clone());
    found.ok_or_else(|| shape_error(format!("`{name}` has no such result")))
}
