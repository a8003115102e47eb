//! The nodes of a graph one after the other, in an order in which they can run.
//!
//! Functions that the model defines, and graphs chosen by a known condition, are lowered in place.
//! Names live in scopes: a graph inside a node sees the names around it, a function sees only its
//! own. What an operator becomes is for the table of operators to say, which is given.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::rc::Rc;
use std::sync::Arc;

use base::limits::{exceeded, more_than};
use base::{Diagnostic, Diagnostics, codes};
use front::{Accepted, Graph, ImportOptions, Operand, Weight, constant_value};
use tensor::{DType, Tensor};

use crate::external::ExternalData;
use crate::names::{self, Functions, defined_twice, undefined};
use crate::node::Lowered;
use crate::order::{names_read, order};
use crate::proto::{AttributeProto, FunctionProto, GraphProto, NodeProto, ValueInfoProto};
use crate::tensors;

/// Names and their values.
pub(crate) type Scope = HashMap<Arc<str>, Operand>;

/// How a node of an operator set in a version is lowered, from the values of its inputs.
pub(crate) type LowerNode = fn(&mut Importer<'_>, &NodeProto, Vec<Option<Operand>>, i64) -> Lowered;

/// An import under way.
pub(crate) struct Importer<'m> {
    pub(crate) graph: Graph,
    pub(crate) external: Rc<ExternalData>,
    /// Channels of a block where filters lie in blocks.
    pub(crate) filter_block: i64,
    /// Names of constants that become literals.
    literals: BTreeSet<String>,
    functions: &'m Functions<'m>,
    operator: LowerNode,
    /// Scopes around the current one, outermost first, and the current one.
    pub(crate) scopes: Vec<Scope>,
    /// The operator sets of the current graph or function.
    pub(crate) opsets: BTreeMap<String, i64>,
    /// The names of the functions that are being lowered, for locations.
    path: Vec<String>,
    /// The nodes of the graphs that are being lowered, where one of them asks for a gradient.
    pub(crate) differentiated: Vec<Rc<[NodeProto]>>,
    depth: usize,
    nodes: usize,
}

impl<'m> Importer<'m> {
    /// Nothing imported yet.
    pub(crate) fn new(
        functions: &'m Functions<'m>,
        opsets: BTreeMap<String, i64>,
        external: ExternalData,
        options: &ImportOptions,
        operator: LowerNode,
    ) -> Importer<'m> {
        Importer {
            graph: Graph::new("main", options.limits.clone()),
            external: Rc::new(external),
            filter_block: 1,
            literals: options.literals.clone(),
            functions,
            operator,
            scopes: vec![Scope::new()],
            opsets,
            path: Vec::new(),
            differentiated: Vec::new(),
            depth: 0,
            nodes: 0,
        }
    }
}

impl Importer<'_> {
    /// Lowers a graph in the current scope and returns its outputs.
    pub(crate) fn graph_here(&mut self, graph: &GraphProto) -> base::Result<Vec<Operand>> {
        if let Some(scope) = self.scopes.last_mut() {
            scope.reserve(graph.initializer.len() + graph.node.len());
        }
        if self.depth == 0 {
            self.filter_block = crate::operators::filter_block(graph);
        }
        for tensor in &graph.initializer {
            let value = tensors::decode(tensor, &self.external, &self.graph.limits)?;
            let value = self.constant(&tensor.name, value);
            self.define(tensor.name.as_str().into(), value)?;
        }
        for sparse in &graph.sparse_initializer {
            let name = sparse.values.as_ref().map_or("", |values| values.name.as_str());
            let value = tensors::decode_sparse(sparse, &self.external, &mut self.graph)?;
            let value = self.constant(name, value);
            self.define(name.into(), value)?;
        }
        let known = |name: &str| self.lookup(name).is_some();
        let order = order(&graph.node, &known)?;
        let asks_gradient = graph.node.iter().any(|node| node.op_type == "Gradient");
        if asks_gradient {
            self.differentiated.push(graph.node.clone().into());
        }
        let nodes = order.into_iter().map(|index| (index, &graph.node[index]));
        let lowered = self.nodes_that_can(nodes);
        if asks_gradient {
            self.differentiated.pop();
        }
        match lowered? {
            Some(_) if self.depth == 0 => return Ok(Vec::new()),
            Some(refusal) => return Err(refusal),
            None => {}
        }
        let output = |output: &ValueInfoProto| self.value_of(&output.name);
        graph.output.iter().map(output).collect::<Accepted<_>>().map_err(Diagnostics::from)
    }

    /// An initializer: a weight, unless it is small or the user wants a literal.
    fn constant(&self, name: &str, tensor: Tensor) -> Operand {
        if self.literals.contains(name) && tensor.dtype() != DType::String {
            return Operand::of_constant(Weight {
                name: name.to_owned(),
                tensor,
                is_literal: true,
            });
        }
        constant_value(name, tensor, false)
    }

    /// Lowers a graph without inputs that sees the names around it, in place.
    pub(crate) fn inline(&mut self, graph: &GraphProto) -> Lowered {
        self.inline_with(graph, &[])
    }

    /// Lowers a graph that sees the names around it, in place, with these inputs.
    pub(crate) fn inline_with(&mut self, graph: &GraphProto, inputs: &[Operand]) -> Lowered {
        let names = graph.input.iter().map(|input| input.name.as_str().into());
        let scope = names.zip(inputs.iter().cloned()).collect();
        self.nested(scope, |importer| importer.graph_here(graph))
    }

    /// Lowers something with a scope inside of the others.
    pub(crate) fn nested<T>(
        &mut self,
        scope: Scope,
        lower: impl FnOnce(&mut Self) -> base::Result<T>,
    ) -> Accepted<T> {
        let most = self.graph.limits.nesting;
        if self.depth >= most {
            let message = format!("graphs and functions are nested more than {most} deep");
            return Err(exceeded("nesting", more_than(most as u64), message)
                .because("their depth is limited, so that no file exhausts the stack"));
        }
        self.depth += 1;
        self.scopes.push(scope);
        let inside = self.graph.here.inside();
        let around = std::mem::replace(&mut self.graph.here, inside);
        let lowered = lower(self);
        self.graph.here = around;
        self.graph.here.graphs += 1;
        self.scopes.pop();
        self.depth -= 1;
        lowered.map_err(first)
    }

    // --- names ---

    /// The value of a name in the current scope or one around it.
    pub(crate) fn lookup(&self, name: &str) -> Option<&Operand> {
        self.scopes.iter().rev().find_map(|scope| scope.get(name))
    }

    pub(crate) fn value_of(&self, name: &str) -> Accepted<Operand> {
        self.lookup(name).cloned().ok_or_else(|| undefined(name))
    }

    pub(crate) fn define(&mut self, name: Arc<str>, value: Operand) -> Accepted<()> {
        let scope = self.scopes.len() - 1;
        match self.scopes[scope].entry(name) {
            Entry::Vacant(place) => _ = place.insert(value),
            Entry::Occupied(place) => return Err(defined_twice(place.key())),
        }
        Ok(())
    }

    // --- nodes ---

    /// Lowers nodes with their numbers. Of one that needs a fact, the nodes that read what it
    /// computes wait, while others are lowered: so all needs are met that can be. The refusal of
    /// the first of those that need one.
    fn nodes_that_can<'n>(
        &mut self,
        nodes: impl Iterator<Item = (usize, &'n NodeProto)>,
    ) -> base::Result<Option<Diagnostics>> {
        let (mut waiting, mut refusal) = (BTreeSet::new(), None);
        for (index, node) in nodes {
            if waiting.is_empty() || !names_read(node).iter().any(|name| waiting.contains(name)) {
                let before = (self.graph.count_needs(), self.graph.builder.assumed());
                let Err(found) = self.node(node, index) else { continue };
                if self.graph.count_needs() == before.0 || self.graph.is_in_region() {
                    return Err(found);
                }
                let place = found.iter().find_map(|found| found.place.as_deref());
                self.graph.place_needs(before.0, place.unwrap_or_default());
                self.graph.builder.forget_since(before.1);
                refusal.get_or_insert(found);
            }
            waiting.extend(node.output.iter().map(String::as_str));
        }
        Ok(refusal)
    }

    pub(crate) fn node(&mut self, proto: &NodeProto, index: usize) -> base::Result<()> {
        let place = || names::place(proto, index);
        self.graph.here = self.graph.here.at(index);
        self.count_node().map_err(|found| found.at(place()))?;
        let values = self.lower(proto).map_err(|found| found.or_at(place))?;
        for (number, name) in proto.output.iter().enumerate() {
            if name.is_empty() {
                continue;
            }
            let Some(value) = values.get(number) else {
                return Err(Diagnostic::error(
                    codes::UNSUPPORTED_OPERATOR,
                    format!("output {number} of `{}` is not supported", proto.op_type),
                )
                .at(place())
                .because(format!("the importer computes {} of its outputs", values.len()))
                .remedy("export the model without it")
                .into());
            };
            let value = self.graph.named(name, value.clone());
            let name: Arc<str> = name.as_str().into();
            if let Some(id) = value.node()
                && self.graph.builder.function().values[id].name.is_none()
            {
                self.graph.builder.set_name(id, name.clone());
            }
            self.define(name, value).map_err(|found| found.at(place()))?;
        }
        Ok(())
    }

    fn count_node(&mut self) -> Accepted<()> {
        self.nodes += 1;
        let most = self.graph.limits.nodes;
        if self.nodes <= most {
            return Ok(());
        }
        Err(too_many_nodes(most))
    }

    fn lower(&mut self, proto: &NodeProto) -> Lowered {
        let mut inputs = Vec::with_capacity(proto.input.len());
        for name in &proto.input {
            inputs.push(match name.as_str() {
                "" => None,
                name => Some(self.value_of(name)?),
            });
        }
        let domain = names::domain(&proto.domain);
        let Some(&version) = self.opsets.get(domain) else {
            return Err(names::no_opset(domain));
        };
        if let Some(function) = self.functions.get(&names::function_name(proto)) {
            return self.call(function, proto, inputs);
        }
        let name = names::node_name(proto);
        let name = match self.path.is_empty() {
            true => name.to_owned(),
            false => format!("{}/{name}", self.path.join("/")),
        };
        let location = self.graph.builder.locations().node(name, proto.op_type.clone());
        self.graph.builder.set_location(location);
        (self.operator)(self, proto, inputs, version)
    }

    /// Lowers the body of a function in place of its call.
    fn call(
        &mut self,
        function: &FunctionProto,
        caller: &NodeProto,
        inputs: Vec<Option<Operand>>,
    ) -> Lowered {
        if inputs.len() > function.input.len() {
            return Err(Diagnostic::error(
                codes::WRONG_ARITY,
                format!("function `{}` does not take {} inputs", function.name, inputs.len()),
            )
            .because(format!("it is defined with {}", function.input.len()))
            .remedy("check the model with the tool that exported it, or export it again"));
        }
        let given = function.input.iter().zip(inputs);
        let scope =
            given.filter_map(|(name, value)| Some((name.as_str().into(), value?))).collect();
        let scopes = std::mem::take(&mut self.scopes);
        let opsets = names::opsets(&function.opset_import);
        let opsets = std::mem::replace(&mut self.opsets, opsets);
        self.path.push(names::node_name(caller).to_owned());
        let results = self.nested(scope, |importer| importer.function_body(function, caller));
        self.path.pop();
        (self.opsets, self.scopes) = (opsets, scopes);
        results
    }

    fn function_body(
        &mut self,
        function: &FunctionProto,
        caller: &NodeProto,
    ) -> base::Result<Vec<Operand>> {
        let attributes = function.attribute_proto.iter().chain(&caller.attribute);
        let attributes = attributes.map(|it| (it.name.as_str(), it)).collect();
        let mut nodes = function.node.clone();
        substitute(&mut nodes, &attributes);
        let known =
            |name: &str| self.lookup(name).is_some() || function.input.iter().any(|i| i == name);
        let order = order(&nodes, &known)?;
        for input in nodes.iter_mut().flat_map(|node| &mut node.input) {
            // An input that the caller leaves out is left out inside, too.
            if self.lookup(input).is_none() && function.input.contains(input) {
                input.clear();
            }
        }
        let nodes = order.into_iter().map(|index| (index, &nodes[index]));
        if let Some(refusal) = self.nodes_that_can(nodes)? {
            return Err(refusal);
        }
        let outputs = function.output.iter().map(|name| self.value_of(name));
        outputs.collect::<Accepted<_>>().map_err(Diagnostics::from)
    }
}

pub(crate) fn too_many_nodes(most: usize) -> Diagnostic {
    exceeded("nodes", more_than(most as u64), format!("the model has more than {most} nodes"))
        .because("nodes of functions count at each call")
}

/// Puts the attributes of a function's caller in their places.
fn substitute(nodes: &mut [NodeProto], attributes: &BTreeMap<&str, &AttributeProto>) {
    for node in nodes {
        node.attribute.retain_mut(|attribute| {
            if !attribute.ref_attr_name.is_empty() {
                let given = attributes.get(attribute.ref_attr_name.as_str());
                let Some(&given) = given else { return false };
                let name = std::mem::take(&mut attribute.name);
                *attribute = AttributeProto { name, ..given.clone() };
            }
            for graph in attribute.g.as_deref_mut().into_iter().chain(&mut attribute.graphs) {
                substitute(&mut graph.node, attributes);
            }
            true
        });
    }
}

fn first(found: Diagnostics) -> Diagnostic {
    let fallback = || Diagnostic::error(codes::INTERNAL_ERROR, "a refusal without a reason");
    found.into_iter().next().unwrap_or_else(fallback)
}
