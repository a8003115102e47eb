//! From a decoded model to a module.
//!
//! Nodes are put in an order in which they can run, looked up in the table of operators and lowered
//! one by one. Functions that the model defines, and graphs chosen by a known condition, are
//! lowered in place. Names live in scopes: a graph inside a node sees the names around it, a
//! function sees only its own.

use std::cell::Cell;
use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::rc::Rc;
use std::sync::Arc;

use base::limits::exceeded;
use base::{Diagnostic, Diagnostics, codes};
use front::{Coded, Graph, Result, Value, Weight, type_error};
use graph::{Definition, TensorType};
use module::Module;
use sym::Expr;
use tensor::{DType, Kind, Structure, Tensor};

use crate::external::ExternalData;
use crate::inputs::{self, Declared};
use crate::node::Node;
use crate::operators::generator::constant_value;
use crate::operators::{Lower, Lowered, find, moved_strings};
use crate::options::{ImportOptions, Imported, Strings, Wanted};
use crate::order::{names_read, order};
use crate::proto::{
    AttributeProto, FunctionProto, GraphProto, ModelProto, NodeProto, ValueInfoProto,
};
use crate::survey;
use crate::tensors;

/// Names and their values.
pub(crate) type Scope = HashMap<Arc<str>, Value>;

/// The results of the function with their names.
type NamedResults = Vec<(String, graph::ValueId)>;

/// An import under way.
pub(crate) struct Importer<'m> {
    pub(crate) graph: Graph,
    external: Rc<ExternalData>,
    /// Names of constants that become literals.
    literals: BTreeSet<String>,
    functions: &'m BTreeMap<survey::FunctionName<'m>, &'m FunctionProto>,
    /// Scopes around the current one, outermost first, and the current one.
    scopes: Vec<Scope>,
    /// The operator sets of the current graph or function.
    opsets: BTreeMap<String, i64>,
    /// The names of the functions that are being lowered, for locations.
    path: Vec<String>,
    /// The nodes of the graphs that are being lowered, where one of them asks for a gradient.
    differentiated: Vec<Rc<[NodeProto]>>,
    depth: usize,
    nodes: usize,
    /// The node of the model's own graph that is being lowered.
    node_here: Option<usize>,
    /// Strings that the model gives.
    strings: Strings,
    /// What must be known of inputs before the model can be imported.
    pub(crate) asked: BTreeMap<String, Wanted>,
}

/// When so many values of inputs have been told and more are asked for, those of all alike are: an
/// import for each would take time that grows with the square of their number.
const MANY_VALUES: usize = 16;

/// Elements of an input that is asked for with others alike.
const SMALL_INPUT: i64 = 1024;

/// Imports a decoded model, or tells what must be known of its inputs first.
pub(crate) fn import(
    model: &ModelProto,
    external: ExternalData,
    options: &ImportOptions,
) -> base::Result<Imported> {
    let functions = survey::functions(model);
    let (body, mut importer) = Importer::new(model, &functions, external, options)?;
    let imported = importer.body(body, options);
    if let Err(found) = &imported {
        // Answers given before were not enough where nothing new is asked.
        importer.asked.retain(|name, wanted| !options.tells(name, *wanted));
        if options.input_values.len() >= MANY_VALUES {
            importer.ask_alike(options);
        }
        let is_unknown = |found: &Diagnostic| found.code == codes::UNKNOWN_CONTENTS;
        let node = importer.node_here.filter(|_| found.iter().all(is_unknown));
        if !importer.asked.is_empty() || node.is_some() {
            let (inputs, reason) = (importer.asked, found.clone());
            return Ok(Imported::Asks { inputs, node, reason });
        }
    }
    let (results, outputs) = imported.map_err(|found| {
        // An operator met inside a branch is reported with all others of the model.
        let is_unsupported = |found: &Diagnostic| found.code == codes::UNSUPPORTED_OPERATOR;
        if found.iter().any(is_unsupported) {
            let all = survey::unsupported(body, &functions, &importer.opsets);
            if !all.is_empty() {
                return all;
            }
        }
        found
    })?;
    let mut module = Module::default();
    module.functions.push(Arc::new(importer.graph.builder.finish(results)));
    module.constants = importer.graph.constants;
    Ok(Imported::Module { module, outputs, strings: importer.strings })
}

/// What the names of a model's own graph stand for.
///
/// # Errors
/// As [`import`], also where more must be known of inputs.
pub(crate) fn values(
    model: &ModelProto,
    external: ExternalData,
    options: &ImportOptions,
) -> base::Result<Scope> {
    let functions = survey::functions(model);
    let (body, mut importer) = Importer::new(model, &functions, external, options)?;
    importer.body(body, options)?;
    Ok(importer.scopes.swap_remove(0))
}

/// A number that tells the parts of a model apart, by the names of their outputs.
fn number_of_part(part: &GraphProto) -> u64 {
    let names = part.output.iter().flat_map(|output| output.name.bytes());
    // FNV-1a, of 32 bits.
    let add = |all: u32, byte: u8| (all ^ u32::from(byte)).wrapping_mul(16_777_619);
    names.fold(2_166_136_261, add).into()
}

/// Refuses names of literals that no constant of the model has.
fn check_literals(body: &GraphProto, options: &ImportOptions) -> base::Result<()> {
    if options.literals.is_empty() {
        return Ok(());
    }
    let mut names = BTreeSet::new();
    add_constant_names(body, &mut names);
    let unknown = options.literals.iter().filter(|name| !names.contains(name.as_str()));
    let unknown = unknown.map(|name| {
        Diagnostic::error(codes::UNDEFINED_NAME, format!("no constant is named `{name}`"))
            .at(format!("--literal {name}"))
            .because("only constants that the file stores by name can be made literals")
            .remedy("use the name of one of the model's initializers")
    });
    unknown.collect::<Diagnostics>().or_ok(())
}

/// The names of the constants of a graph and of the graphs inside its nodes.
fn add_constant_names<'m>(graph: &'m GraphProto, names: &mut BTreeSet<&'m str>) {
    names.extend(graph.initializer.iter().map(|tensor| tensor.name.as_str()));
    let sparse = graph.sparse_initializer.iter().filter_map(|sparse| sparse.values.as_ref());
    names.extend(sparse.map(|values| values.name.as_str()));
    for attribute in graph.node.iter().flat_map(|node| &node.attribute) {
        for inner in attribute.g.as_deref().into_iter().chain(&attribute.graphs) {
            add_constant_names(inner, names);
        }
    }
}

impl<'m> Importer<'m> {
    /// Nothing imported yet; also the model's graph.
    fn new(
        model: &'m ModelProto,
        functions: &'m BTreeMap<survey::FunctionName<'m>, &'m FunctionProto>,
        external: ExternalData,
        options: &ImportOptions,
    ) -> base::Result<(&'m GraphProto, Importer<'m>)> {
        let opsets = survey::check_form(model)?;
        let Some(body) = &model.graph else {
            return Err(Diagnostic::error(codes::NOT_ONNX, "the file is not an ONNX model")
                .because("it holds no graph")
                .remedy("check that it is the model itself, and copy it again")
                .into());
        };
        if body.node.len() > options.limits.nodes {
            return Err(too_many_nodes(options.limits.nodes).into());
        }
        survey::check_top(body, functions, &opsets)?;
        check_literals(body, options)?;
        let mut graph = Graph::new("main", options.limits.clone());
        if options.is_part {
            (graph.binds, graph.random_nodes) = (true, number_of_part(body));
        }
        let importer = Importer {
            graph,
            external: Rc::new(external),
            literals: options.literals.clone(),
            functions,
            scopes: vec![Scope::new()],
            opsets,
            path: Vec::new(),
            differentiated: Vec::new(),
            depth: 0,
            nodes: 0,
            node_here: None,
            strings: Strings::default(),
            asked: BTreeMap::new(),
        };
        Ok((body, importer))
    }
}

impl Importer<'_> {
    /// Lowers the model's graph and returns its results.
    fn body(
        &mut self,
        body: &GraphProto,
        options: &ImportOptions,
    ) -> base::Result<(NamedResults, Vec<Structure>)> {
        let mut found = Diagnostics::new();
        let mut declared: Vec<Declared> = Vec::new();
        let wanted: Vec<_> = inputs::without_default(body).into_iter().cloned().collect();
        let (parts, structures) = self.parts(&wanted, options)?;
        for input in inputs::declared(&parts) {
            match input {
                Ok(input) => declared.push(input),
                Err(diagnostic) => found.push(diagnostic),
            }
        }
        let declared = found.or_ok(declared)?;
        let unknown_rank = |input: &&Declared| {
            input.shape.is_none() && !options.input_shapes.contains_key(&input.name)
        };
        let unknown = declared.iter().filter(unknown_rank);
        self.asked.extend(unknown.map(|input| (input.name.clone(), Wanted::Shape)));
        let parameters = inputs::add_parameters(&declared, options, &mut self.graph)?;
        let mut tensors = parameters.into_iter().map(|(_, value)| value);
        for (input, structure) in wanted.iter().zip(&structures) {
            if let Some(value) = Value::from_tensors(structure, &mut tensors) {
                self.define(input.name.as_str().into(), value)?;
            }
        }
        if body.output.is_empty() {
            return Err(Diagnostic::error(codes::NOT_ONNX, "the model has no outputs")
                .because("without outputs there is nothing to compute")
                .remedy("export the model with the outputs that are wanted")
                .into());
        }
        let mut names = BTreeSet::new();
        if let Some(again) = body.output.iter().find(|output| !names.insert(&output.name)) {
            return Err(defined_twice(&again.name).into());
        }
        let outputs = self.graph_here(body)?;
        self.node_here = None;
        let mut results = Vec::new();
        for (value, output) in outputs.iter().zip(&body.output) {
            self.check_output(output, value)?;
            let names = value.structure().names(&output.name);
            for (name, tensor) in names.into_iter().zip(value.tensors()) {
                let number = results.len() + self.strings.known.len();
                match tensor.weight().filter(|weight| weight.tensor.dtype() == DType::String) {
                    Some(weight) => {
                        self.strings.known.insert(number, weight.tensor.clone());
                    }
                    None if tensor.coded().is_some() => {
                        let Some(Coded { codes, texts }) = tensor.coded() else { continue };
                        self.strings.coded.insert(number, texts.to_vec());
                        results.push((name, self.graph.data(codes)?));
                    }
                    None if tensor.dtype() == DType::String => {
                        self.ask_behind(&tensor, Wanted::Value);
                        return Err(unknown_strings(&name).into());
                    }
                    None => results.push((name, self.graph.data(&tensor)?)),
                }
            }
        }
        Ok((results, outputs.iter().map(Value::structure).collect()))
    }

    /// The tensors that the inputs are made of, and how; asks where that is not told.
    fn parts(
        &mut self,
        inputs: &[ValueInfoProto],
        options: &ImportOptions,
    ) -> base::Result<(Vec<ValueInfoProto>, Vec<Structure>)> {
        let (mut parts, mut structures) = (Vec::new(), Vec::new());
        let mut found = Diagnostics::new();
        for input in inputs {
            let structure = match inputs::kind_of(input) {
                Some(Kind::Tensor) | None => Structure::Tensor,
                Some(_) => match options.input_structures.get(&input.name) {
                    Some(structure) => structure.clone(),
                    None => {
                        self.asked.insert(input.name.clone(), Wanted::Structure);
                        found.push(
                            Diagnostic::error(
                                codes::UNKNOWN_CONTENTS,
                                "what the input is made of must be known to compile",
                            )
                            .at(format!("input \"{}\"", input.name))
                            .because("it is a sequence or an optional value")
                            .remedy("run the model with the input given"),
                        );
                        continue;
                    }
                },
            };
            match (&structure, inputs::parts(input, &structure)) {
                (_, Some(tensors)) => parts.extend(tensors),
                // Said of the declared type when it is read.
                (Structure::Tensor, None) => parts.push(input.clone()),
                (_, None) => found.push(
                    Diagnostic::error(codes::UNSUPPORTED_TYPE, "the input is not so declared")
                        .at(format!("input \"{}\"", input.name))
                        .because("it is made of other kinds of values")
                        .remedy("give a value of the kind that `info` shows"),
                ),
            }
            structures.push(structure);
        }
        found.or_ok((parts, structures))
    }

    /// Refuses an output whose type is not the declared one.
    fn check_output(&self, output: &crate::proto::ValueInfoProto, value: &Value) -> Result<()> {
        // An output without a type is what it is.
        if value.list().is_some() || output.r#type.is_none() {
            return Ok(());
        }
        let declared = inputs::declared(std::slice::from_ref(output)).remove(0)?;
        let dtype = crate::data_type::data_type(declared.data_type.into())?;
        if dtype == value.dtype() {
            return Ok(());
        }
        Err(Diagnostic::error(codes::UNSUPPORTED_TYPE, "an output is not of the declared type")
            .at(format!("output \"{}\"", output.name))
            .because(format!("it is declared as {dtype} and computed as {}", value.dtype()))
            .remedy("check the model with the tool that exported it, or export it again"))
    }

    /// Lowers a graph in the current scope and returns its outputs.
    fn graph_here(&mut self, graph: &GraphProto) -> base::Result<Vec<Value>> {
        if let Some(scope) = self.scopes.last_mut() {
            scope.reserve(graph.initializer.len() + graph.node.len());
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
        let lowered = order.into_iter().try_for_each(|index| self.node(&graph.node[index], index));
        if asks_gradient {
            self.differentiated.pop();
        }
        lowered?;
        let output = |output: &crate::proto::ValueInfoProto| {
            self.lookup(&output.name).cloned().ok_or_else(|| undefined(&output.name))
        };
        graph.output.iter().map(output).collect::<Result<_>>().map_err(Diagnostics::from)
    }

    /// An initializer: a weight, unless it is small or the user wants a literal.
    fn constant(&self, name: &str, tensor: Tensor) -> Value {
        if self.literals.contains(name) && tensor.dtype() != DType::String {
            return Value::of_constant(Weight { name: name.to_owned(), tensor, is_literal: true });
        }
        constant_value(name, tensor, false)
    }

    /// Lowers a graph without inputs that sees the names around it, in place.
    pub(crate) fn inline(&mut self, graph: &GraphProto) -> Lowered {
        self.inline_with(graph, &[])
    }

    /// Lowers a graph that sees the names around it, in place, with these inputs.
    pub(crate) fn inline_with(&mut self, graph: &GraphProto, inputs: &[Value]) -> Lowered {
        self.enter()?;
        let names = graph.input.iter().map(|input| input.name.as_str().into());
        self.scopes.push(names.zip(inputs.iter().cloned()).collect());
        let outputs = self.graph_here(graph);
        self.scopes.pop();
        self.depth -= 1;
        outputs.map_err(first)
    }

    /// Lowers what a name of the current graph is computed from once more, with these values for
    /// some of the names on the way.
    pub(crate) fn lower_again(&mut self, name: &str, given: Vec<(String, Value)>) -> Result<Value> {
        let nodes = self.differentiated.last().cloned().unwrap_or_default();
        let mut producers: BTreeMap<&str, usize> = BTreeMap::new();
        for (index, node) in nodes.iter().enumerate() {
            producers.extend(node.output.iter().map(|output| (output.as_str(), index)));
        }
        let given: Scope = given.into_iter().map(|(name, value)| (name.into(), value)).collect();
        let mut needed = BTreeSet::new();
        let mut work = vec![name];
        while let Some(name) = work.pop() {
            if let Some(&index) = producers.get(name).filter(|_| !given.contains_key(name))
                && needed.insert(index)
            {
                work.extend(names_read(&nodes[index]));
            }
        }
        let needed: Vec<NodeProto> = needed.into_iter().map(|index| nodes[index].clone()).collect();
        let outputs: BTreeSet<&str> =
            needed.iter().flat_map(|node| &node.output).map(String::as_str).collect();
        self.enter()?;
        self.scopes.push(given);
        // A given name may be one of several that a node defines.
        let here = self.scopes.len() - 1;
        let known = |name: &str| {
            self.lookup(name).is_some() && !outputs.contains(name)
                || self.scopes[here].contains_key(name)
        };
        let lowered = order(&needed, &known).and_then(|order| {
            order.into_iter().try_for_each(|index| self.node(&needed[index], index))
        });
        let value = self.lookup(name).cloned();
        self.scopes.pop();
        self.depth -= 1;
        lowered.map_err(first)?;
        value.ok_or_else(|| undefined(name))
    }

    fn enter(&mut self) -> Result<()> {
        self.depth += 1;
        let most = self.graph.limits.nesting;
        if self.depth <= most {
            return Ok(());
        }
        let message = format!("graphs and functions are nested more than {most} deep");
        Err(exceeded("nesting", message)
            .because("their depth is limited, so that no file exhausts the stack"))
    }

    // --- names ---

    /// The value of a name in the current scope or one around it.
    pub(crate) fn lookup(&self, name: &str) -> Option<&Value> {
        self.scopes.iter().rev().find_map(|scope| scope.get(name))
    }

    fn define(&mut self, name: Arc<str>, value: Value) -> Result<()> {
        let scope = self.scopes.len() - 1;
        match self.scopes[scope].entry(name) {
            Entry::Vacant(place) => _ = place.insert(value),
            Entry::Occupied(place) => return Err(defined_twice(place.key())),
        }
        Ok(())
    }

    // --- nodes ---

    fn node(&mut self, proto: &NodeProto, index: usize) -> base::Result<()> {
        let place = || survey::place(proto, index);
        if self.scopes.len() == 1 && self.path.is_empty() {
            self.node_here = Some(index);
        }
        self.count_node().map_err(|found| found.at(place()))?;
        let values = self.lower(proto).map_err(|found| match found.place {
            Some(_) => found,
            None => found.at(place()),
        })?;
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
            let name: Arc<str> = name.as_str().into();
            if let Some(id) = value.node()
                && self.graph.builder.function().values[id].name.is_none()
            {
                self.graph.builder.set_name(id, name.clone());
            }
            self.define(name, value.clone()).map_err(|found| found.at(place()))?;
        }
        Ok(())
    }

    fn count_node(&mut self) -> Result<()> {
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
                name => Some(self.lookup(name).cloned().ok_or_else(|| undefined(name))?),
            });
        }
        let domain = survey::domain(&proto.domain);
        let Some(&version) = self.opsets.get(domain) else {
            return Err(survey::no_opset(domain));
        };
        if let Some(function) = self.functions.get(&survey::function_name(proto)) {
            return self.call(function, proto, inputs);
        }
        let Some(operator) = find(domain, &proto.op_type, version) else {
            return Err(survey::unsupported_operator(proto, Some(version)));
        };
        operator.check(proto)?;
        let takes_lists = matches!(operator.lower, Lower::Lists(_) | Lower::Graphs(_));
        let takes_strings = takes_lists || matches!(operator.lower, Lower::Strings(_));
        let has_strings = inputs.iter().flatten().any(|input| input.dtype() == DType::String);
        if has_strings && !takes_strings && !operator.moves_elements() {
            return Err(type_error("it does not take strings"));
        }
        if !takes_lists && inputs.iter().flatten().any(|input| input.list().is_some()) {
            return Err(type_error("it takes tensors, no sequences or optional values"));
        }
        let name = survey::node_name(proto);
        let name = match self.path.is_empty() {
            true => name.to_owned(),
            false => format!("{}/{name}", self.path.join("/")),
        };
        let location = self.graph.builder.locations().node(name, proto.op_type.clone());
        self.graph.builder.set_location(location);
        let (external, asked) = (self.external.clone(), Cell::new(None));
        let node = Node { proto, inputs, external, version, asked };
        let lowered = match operator.lower {
            Lower::Plain(lower) if has_strings => moved_strings(&node, &mut self.graph, lower),
            Lower::Plain(lower) | Lower::Lists(lower) | Lower::Strings(lower) => {
                lower(&node, &mut self.graph)
            }
            Lower::Graphs(lower) => lower(&node, self),
        };
        if let (Err(found), Some((index, wanted))) = (&lowered, node.asked.get())
            && found.code == codes::UNKNOWN_CONTENTS
            && let Some(value) = node.optional(index)
        {
            self.ask_behind(value, wanted);
        }
        lowered
    }

    /// Asks for what must be known of the inputs that a value is computed from.
    fn ask_behind(&mut self, value: &Value, wanted: Wanted) {
        let Some(id) = value.node() else { return };
        let function = self.graph.builder.function();
        let mut seen = BTreeSet::from([id]);
        let mut work = vec![id];
        while let Some(id) = work.pop() {
            match function.values[id].definition {
                Definition::Parameter(region, number) if region == function.body => {
                    let name = &function.parameter_names[number as usize];
                    self.asked.insert(name.clone(), wanted);
                }
                Definition::Parameter(..) => {}
                Definition::Result(node, _) => {
                    work.extend(
                        function.nodes[node].operands.iter().filter(|id| seen.insert(**id)),
                    );
                }
            }
        }
    }

    /// Asks for all small inputs of the types of which one is asked for.
    fn ask_alike(&mut self, options: &ImportOptions) {
        let function = self.graph.builder.function();
        let named = function.parameter_names.iter().zip(function.parameters());
        let typed = named.filter_map(|(name, &id)| Some((name, function.ty(id).as_tensor()?)));
        let typed: Vec<(&String, &TensorType)> = typed.collect();
        let is_asked = |name: &str| self.asked.get(name) == Some(&Wanted::Value);
        let asked: BTreeSet<DType> =
            typed.iter().filter(|(name, _)| is_asked(name)).map(|(_, ty)| ty.dtype).collect();
        let is_small = |ty: &TensorType| {
            let extents = ty.shape.iter().filter_map(Expr::as_constant);
            extents.fold(1, i64::saturating_mul) <= SMALL_INPUT
        };
        for (name, ty) in typed {
            let is_told = options.tells(name, Wanted::Value);
            if asked.contains(&ty.dtype) && is_small(ty) && !is_told {
                self.asked.entry(name.clone()).or_insert(Wanted::Value);
            }
        }
    }

    /// Lowers the body of a function in place of its call.
    fn call(
        &mut self,
        function: &FunctionProto,
        caller: &NodeProto,
        inputs: Vec<Option<Value>>,
    ) -> Lowered {
        if inputs.len() > function.input.len() {
            return Err(Diagnostic::error(
                codes::WRONG_ARITY,
                format!("function `{}` does not take {} inputs", function.name, inputs.len()),
            )
            .because(format!("it is defined with {}", function.input.len()))
            .remedy("check the model with the tool that exported it, or export it again"));
        }
        self.enter()?;
        let mut scope = Scope::new();
        for (name, value) in function.input.iter().zip(inputs) {
            if let Some(value) = value {
                scope.insert(name.as_str().into(), value);
            }
        }
        let scopes = std::mem::replace(&mut self.scopes, vec![scope]);
        let opsets = survey::opsets(&function.opset_import);
        let opsets = std::mem::replace(&mut self.opsets, opsets);
        self.path.push(survey::node_name(caller).to_owned());
        let results = self.function_body(function, caller);
        self.path.pop();
        self.opsets = opsets;
        self.scopes = scopes;
        self.depth -= 1;
        results.map_err(first)
    }

    fn function_body(
        &mut self,
        function: &FunctionProto,
        caller: &NodeProto,
    ) -> base::Result<Vec<Value>> {
        let nodes = called_nodes(function, caller);
        let known =
            |name: &str| self.lookup(name).is_some() || function.input.iter().any(|i| i == name);
        for index in order(&nodes, &known)? {
            // An input that the caller leaves out is left out inside, too.
            let mut node = nodes[index].clone();
            for input in &mut node.input {
                if self.lookup(input).is_none() && function.input.contains(input) {
                    input.clear();
                }
            }
            self.node(&node, index)?;
        }
        let output = |name: &String| self.lookup(name).cloned().ok_or_else(|| undefined(name));
        function.output.iter().map(output).collect::<Result<_>>().map_err(Diagnostics::from)
    }
}

fn unknown_strings(name: &str) -> Diagnostic {
    Diagnostic::error(codes::UNKNOWN_CONTENTS, "strings must be known to compile")
        .at(format!("output \"{name}\""))
        .because("they are those of an input")
        .remedy("run the model with its inputs given")
}

/// The nodes of a function with the attributes of a call in their places.
fn called_nodes(function: &FunctionProto, caller: &NodeProto) -> Vec<NodeProto> {
    let mut attributes: BTreeMap<&str, &AttributeProto> = BTreeMap::new();
    for attribute in function.attribute_proto.iter().chain(&caller.attribute) {
        attributes.insert(&attribute.name, attribute);
    }
    function.node.iter().map(|node| substitute(node, &attributes)).collect()
}

fn too_many_nodes(most: usize) -> Diagnostic {
    exceeded("nodes", format!("the model has more than {most} nodes"))
        .because("nodes of functions count at each call")
}

/// The body of a function as a graph, for one call of it; none where the call leaves inputs out.
pub(crate) fn called(function: &FunctionProto, caller: &NodeProto) -> Option<GraphProto> {
    let is_whole = caller.input.len() == function.input.len()
        && caller.input.iter().all(|name| !name.is_empty());
    let untyped = |name: &String| ValueInfoProto { name: name.clone(), r#type: None };
    is_whole.then(|| GraphProto {
        node: called_nodes(function, caller),
        input: function.input.iter().map(untyped).collect(),
        output: function.output.iter().map(untyped).collect(),
        ..GraphProto::default()
    })
}

/// A node of a function with the attributes of the caller in their places.
fn substitute(node: &NodeProto, attributes: &BTreeMap<&str, &AttributeProto>) -> NodeProto {
    let mut result = node.clone();
    result.attribute.clear();
    for attribute in &node.attribute {
        let mut attribute = attribute.clone();
        if !attribute.ref_attr_name.is_empty() {
            let Some(given) = attributes.get(attribute.ref_attr_name.as_str()) else { continue };
            let name = attribute.name;
            attribute = (*given).clone();
            attribute.name = name;
        }
        for graph in attribute.g.as_deref_mut().into_iter().chain(&mut attribute.graphs) {
            for node in &mut graph.node {
                *node = substitute(node, attributes);
            }
        }
        result.attribute.push(attribute);
    }
    result
}

fn first(found: Diagnostics) -> Diagnostic {
    let fallback = || Diagnostic::error(codes::INTERNAL_ERROR, "a refusal without a reason");
    found.into_iter().next().unwrap_or_else(fallback)
}

/// The refusal of a name that stands where names must be distinct.
pub(crate) fn defined_twice(name: &str) -> Diagnostic {
    Diagnostic::error(codes::DUPLICATE_NAME, format!("`{name}` is defined twice"))
        .because("a name stands for one value")
        .remedy("export the model again")
}

/// The refusal of a name that stands for nothing.
pub(crate) fn undefined(name: &str) -> Diagnostic {
    Diagnostic::error(codes::UNDEFINED_NAME, format!("nothing defines `{name}`"))
        .because("no input, constant or node of the graph has this name")
        .remedy("check the model with the tool that exported it, or export it again")
}
