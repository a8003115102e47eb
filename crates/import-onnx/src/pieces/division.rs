//! Which nodes are driven, and what is in each part.

use std::collections::{BTreeMap, BTreeSet};

use tensor::Kind;

use super::{Along, Body, Driven, ListWork, Part, Piece, Pieces, Stacked, Work};
use crate::data_type::data_type;
use crate::importer::called;
use crate::inputs::{self, Extent, kind_of};
use crate::names::{self, Functions};
use crate::operators::is_random;
use crate::order::{names_captured, names_read, order};
use crate::proto::{FunctionProto, GraphProto, ModelProto, NodeProto, ValueInfoProto};

/// A division under way.
pub(super) struct Division<'m> {
    model: &'m ModelProto,
    functions: Functions<'m>,
    graph: &'m GraphProto,
    inputs: &'m [String],
    /// The nodes in an order in which they can run.
    order: Vec<usize>,
    /// The graph's own constants, by name.
    initial: BTreeMap<&'m str, usize>,
    initial_sparse: BTreeMap<&'m str, usize>,
    /// The node that makes a constant, by name.
    constants: BTreeMap<&'m str, usize>,
    /// Which nodes are driven, how, and the graphs inside of them.
    driven: Vec<Option<(Work, Vec<Body>)>>,
    /// Nodes that run when everything that they read is in hand.
    waits: BTreeSet<usize>,
    /// After how many driven nodes each node that is no constant can run.
    levels: BTreeMap<usize, usize>,
}

impl<'m> Division<'m> {
    /// The division with nodes driven that work on sequences and optional values; none where the
    /// graph has no order.
    pub(super) fn of(model: &'m ModelProto, inputs: &'m [String]) -> Option<Division<'m>> {
        let graph = model.graph.as_ref()?;
        let initial = graph.initializer.iter().map(|tensor| tensor.name.as_str());
        let initial: BTreeMap<&str, usize> = initial.zip(0..).collect();
        let sparse = graph.sparse_initializer.iter().zip(0..);
        let sparse = sparse.filter_map(|(it, number)| Some((&*it.values.as_ref()?.name, number)));
        let initial_sparse: BTreeMap<&str, usize> = sparse.collect();
        let given: BTreeSet<&str> = inputs.iter().map(String::as_str).collect();
        let is_outer = |name: &str| {
            given.contains(name) || initial.contains_key(name) || initial_sparse.contains_key(name)
        };
        let order = order(&graph.node, &is_outer).ok()?;
        let mut division = Division {
            model,
            functions: names::functions(model),
            graph,
            inputs,
            order,
            initial,
            initial_sparse,
            constants: BTreeMap::new(),
            driven: vec![None; graph.node.len()],
            waits: BTreeSet::new(),
            levels: BTreeMap::new(),
        };
        division.find_constants_and_lists();
        division.place();
        Some(division)
    }

    /// Finds the constants, and the nodes that work on sequences and optional values.
    fn find_constants_and_lists(&mut self) {
        let mut data: BTreeSet<&str> = self.inputs.iter().map(String::as_str).collect();
        let mut lists: BTreeSet<&str> = self
            .graph
            .input
            .iter()
            .filter(|input| matches!(kind_of(input), Some(Kind::Sequence(_) | Kind::Optional(_))))
            .map(|input| input.name.as_str())
            .collect();
        for &number in &self.order {
            let node = &self.graph.node[number];
            let outputs = node.output.iter().map(String::as_str).filter(|name| !name.is_empty());
            let reads = names_read(node);
            let is_own = !self.functions.contains_key(&names::function_name(node));
            if let Some((work, gives_list)) = list_work(node, &lists).filter(|_| is_own) {
                if gives_list {
                    lists.extend(outputs.clone());
                }
                self.driven[number] = Some((Work::List(work), Vec::new()));
                data.extend(outputs);
                continue;
            }
            let is_plain = is_own && !is_random(node) && node.inner_graphs().next().is_none();
            match is_plain && !reads.iter().any(|name| data.contains(name)) {
                true => self.constants.extend(outputs.map(|name| (name, number))),
                false => data.extend(outputs),
            }
        }
    }

    /// Finds after how many driven nodes each node can run.
    fn place(&mut self) {
        self.levels.clear();
        // What is read of each level's parts is in hand one level later.
        let mut names: BTreeMap<&str, (usize, bool)> = BTreeMap::new();
        for &number in &self.order {
            let node = &self.graph.node[number];
            if node.output.iter().any(|name| self.constants.contains_key(name.as_str())) {
                continue;
            }
            let read = names_read(node);
            let behind = read.iter().filter_map(|name| names.get(name));
            let waits = self.waits.contains(&number);
            let level = behind
                .map(|&(level, is_computed)| level + usize::from(waits && is_computed))
                .max()
                .unwrap_or(0);
            self.levels.insert(number, level);
            let is_driven = self.driven[number].is_some();
            let given = (level + usize::from(is_driven), !is_driven);
            names.extend(node.output.iter().map(|name| (name.as_str(), given)));
        }
    }

    /// Whether there is a node to drive.
    pub(super) fn has_driven(&self) -> bool {
        self.driven.iter().any(Option::is_some)
    }

    /// Drives a node, or has it wait, and others behind it, so many in all; none where that changes
    /// nothing.
    pub(super) fn drive(&mut self, node: usize, most: usize) -> Option<()> {
        let at = self.graph.node.get(node)?;
        if self.driven[node].is_none() {
            self.driven[node] = self.control(at);
            self.waits.extend(self.driven[node].is_none().then_some(node));
        }
        let behind: Vec<usize> = self.order.iter().copied().skip_while(|&it| it != node).collect();
        let mut count = 1;
        for number in behind.into_iter().skip(1) {
            if count >= most {
                break;
            }
            let other = &self.graph.node[number];
            if self.driven[number].is_some() {
                continue;
            }
            if other.inner_graphs().next().is_some() {
                self.driven[number] = self.control(other);
            } else if self.waits.contains(&node) && other.op_type == at.op_type {
                self.waits.insert(number);
            }
            let is_apart = self.driven[number].is_some() || self.waits.contains(&number);
            count += usize::from(is_apart);
        }
        self.place();
        let is_whole = self.driven[node].is_none() && self.levels.values().all(|it| *it == 0);
        (!is_whole).then_some(())
    }

    /// How a node of control flow is driven.
    fn control(&self, node: &NodeProto) -> Option<(Work, Vec<Body>)> {
        let function = names::function_name(node);
        if let Some(&function) = self.functions.get(&function) {
            return Some((Work::Call, vec![self.call(function, node)?]));
        }
        if !names::domain(&node.domain).is_empty() {
            return None;
        }
        let graph = |name: &str| node.attribute_of(name)?.g.as_deref();
        let ints = |name: &str, number: usize| {
            node.attribute_of(name).and_then(|it| it.ints.get(number).copied()).unwrap_or(0)
        };
        match node.op_type.as_str() {
            "Scan" if names::opsets(&self.model.opset_import).get("") >= Some(&9) => {
                let body = graph("body")?;
                let scanned = node.attribute_of("num_scan_inputs")?.i;
                let scanned = usize::try_from(scanned).ok().filter(|count| *count > 0)?;
                let carried = node.input.len().checked_sub(scanned)?;
                let fits = body.input.len() == node.input.len()
                    && body.output.len() >= node.output.len().max(carried);
                let along = |kind: &str, number: usize| Along {
                    axis: ints(&format!("scan_{kind}_axes"), number),
                    is_reversed: ints(&format!("scan_{kind}_directions"), number) != 0,
                };
                let stacked = body.output.get(carried..)?.iter().enumerate();
                let stacked = stacked.map(|(number, output)| Stacked {
                    along: along("output", number),
                    ..stacked_type(output)
                });
                let scanned = (0..scanned).map(|number| along("input", number)).collect();
                let work = Work::Scan { scanned, stacked: stacked.collect() };
                fits.then(|| (work, vec![self.body(body)]))
            }
            "Loop" => {
                let body = graph("body")?;
                let carried = node.input.len().saturating_sub(2);
                let fits = body.input.len() == carried + 2
                    && body.output.len() > node.output.len().max(carried);
                let stacked = body.output.get(1 + carried..)?.iter().map(stacked_type).collect();
                fits.then(|| (Work::Loop { stacked }, vec![self.body(body)]))
            }
            "If" => {
                let (then, otherwise) = (graph("then_branch")?, graph("else_branch")?);
                let fits = then.output.len() == otherwise.output.len()
                    && then.output.len() >= node.output.len();
                // Nothing is given to a branch.
                let body = |graph: &GraphProto| {
                    self.body(&GraphProto { input: Vec::new(), ..graph.clone() })
                };
                fits.then(|| (Work::If, vec![body(then), body(otherwise)]))
            }
            _ => None,
        }
    }

    /// The body of a function as a model, for one call of it.
    fn call(&self, function: &FunctionProto, node: &NodeProto) -> Option<Body> {
        let graph = called(function, node)?;
        let inputs = graph.input.iter().map(|input| input.name.clone()).collect();
        let outputs = graph.output.clone();
        let mut part = self.part(graph, inputs, outputs);
        part.model.opset_import = function.opset_import.clone();
        Some(Body { part, outputs: function.output.clone() })
    }

    /// A graph inside of a node as a model.
    fn body(&self, graph: &GraphProto) -> Body {
        let own = graph.input.iter().map(|input| input.name.clone());
        let around = names_captured(graph);
        let is_data = |name: &&str| !self.is_constant(name);
        let around = around.into_iter().filter(is_data).map(str::to_owned);
        let inputs: Vec<String> = own.chain(around).collect();
        let mut outputs: Vec<ValueInfoProto> = Vec::new();
        for output in &graph.output {
            if outputs.iter().all(|other| other.name != output.name) {
                outputs.push(output.clone());
            }
        }
        let names = graph.output.iter().map(|output| output.name.clone()).collect();
        Body { part: self.part(graph.clone(), inputs, outputs), outputs: names }
    }

    fn is_constant(&self, name: &str) -> bool {
        self.constants.contains_key(name)
            || self.initial.contains_key(name)
            || self.initial_sparse.contains_key(name)
    }

    /// The nodes of a graph as a model, with the constants around it that it reads.
    fn part(
        &self,
        mut graph: GraphProto,
        inputs: Vec<String>,
        outputs: Vec<ValueInfoProto>,
    ) -> Part {
        for node in &mut graph.node {
            node.name = names::node_name(node).to_owned();
        }
        let mut wanted: BTreeSet<String> = names_captured(&graph)
            .into_iter()
            .map(str::to_owned)
            .chain(outputs.iter().map(|output| output.name.clone()))
            .collect();
        let own: BTreeSet<&str> = inputs.iter().map(String::as_str).collect();
        let mut around: BTreeSet<usize> = BTreeSet::new();
        let mut work: Vec<String> = wanted.iter().cloned().collect();
        while let Some(name) = work.pop() {
            if own.contains(name.as_str()) {
                continue;
            }
            if let Some(&number) = self.constants.get(name.as_str())
                && around.insert(number)
            {
                let read = names_read(&self.graph.node[number]);
                work.extend(read.iter().map(|name| (*name).to_owned()));
                wanted.extend(read.into_iter().map(str::to_owned));
            }
        }
        let made: BTreeSet<&str> = graph.initializer.iter().map(|it| it.name.as_str()).collect();
        let behind = wanted.iter().map(String::as_str);
        let behind: Vec<&str> =
            behind.filter(|name| !made.contains(name) && !own.contains(name)).collect();
        let numbers = |of: &BTreeMap<&str, usize>| -> BTreeSet<usize> {
            behind.iter().filter_map(|name| of.get(name).copied()).collect()
        };
        let initializer = numbers(&self.initial).into_iter();
        let initializer: Vec<_> =
            initializer.map(|number| self.graph.initializer[number].clone()).collect();
        let sparse = numbers(&self.initial_sparse).into_iter();
        let sparse: Vec<_> =
            sparse.map(|number| self.graph.sparse_initializer[number].clone()).collect();
        let behind = around.into_iter().map(|number| self.graph.node[number].clone());
        graph.node = behind.chain(std::mem::take(&mut graph.node)).collect();
        graph.initializer.extend(initializer);
        graph.sparse_initializer.extend(sparse);
        let names = outputs.iter().map(|output| output.name.clone()).collect();
        let graph = GraphProto { output: outputs, ..graph };
        let functions = self.functions_of(&graph);
        let model = ModelProto {
            ir_version: self.model.ir_version,
            opset_import: self.model.opset_import.clone(),
            functions,
            graph: Some(graph),
            ..ModelProto::default()
        };
        Part { inputs, outputs: names, model }
    }

    /// The pieces, for these outputs.
    pub(super) fn pieces(&self, outputs: &[String]) -> Pieces {
        let last = self.levels.values().max().copied().unwrap_or(0);
        // Of each level the nodes, in order, and the last level at whose end a name is wanted: by
        // driven nodes of it, by later parts, or by the caller.
        let mut nodes = vec![(Vec::new(), Vec::new()); last + 1];
        let mut wanted_until: BTreeMap<&str, usize> = BTreeMap::new();
        for &number in &self.order {
            let Some(&level) = self.levels.get(&number) else { continue };
            let (driven, computed) = &mut nodes[level];
            let ends = match self.driven[number].is_some() {
                true => {
                    driven.push(number);
                    level + 1
                }
                false => {
                    computed.push(number);
                    level
                }
            };
            for name in self.reads_data(number) {
                let until = wanted_until.entry(name).or_default();
                *until = ends.max(*until);
            }
        }
        wanted_until.extend(outputs.iter().map(|name| (name.as_str(), last + 1)));
        let mut given: BTreeSet<&str> = BTreeSet::new();
        let mut pieces = Vec::new();
        for (level, (driven, computed)) in nodes.into_iter().enumerate() {
            let made: BTreeSet<&str> = computed
                .iter()
                .flat_map(|&number| &self.graph.node[number].output)
                .map(String::as_str)
                .collect();
            let is_wanted = |name: &&str| wanted_until.get(name).is_some_and(|end| *end > level);
            let mut names: Vec<&str> = made.iter().copied().filter(is_wanted).collect();
            // Constants are given by the first part after which something wants them.
            let of_driven = driven.iter().flat_map(|&number| &self.graph.node[number].input);
            let outer = outputs.iter().filter(|_| level == 0);
            for name in of_driven.chain(outer).map(String::as_str) {
                if self.is_constant(name) && given.insert(name) {
                    names.push(name);
                }
            }
            if !names.is_empty() {
                pieces.push(Piece::Part(self.computed(&computed, &names)));
            }
            for number in driven {
                let node = &self.graph.node[number];
                let Some((work, bodies)) = self.driven[number].clone() else { continue };
                pieces.push(Piece::Driven(Driven {
                    place: names::place(node, number),
                    operands: node.input.clone(),
                    results: node.output.clone(),
                    work,
                    bodies,
                }));
            }
        }
        Pieces { pieces, outputs: outputs.to_vec() }
    }

    /// The functions that a graph calls, and those that they call.
    fn functions_of(&self, graph: &GraphProto) -> Vec<FunctionProto> {
        let mut found = Functions::new();
        let mut work: Vec<&NodeProto> = graph.node.iter().collect();
        while let Some(node) = work.pop() {
            work.extend(node.inner_graphs().flat_map(|graph| &graph.node));
            if let Some((&name, &function)) =
                self.functions.get_key_value(&names::function_name(node))
                && found.insert(name, function).is_none()
            {
                work.extend(&function.node);
            }
        }
        found.into_values().cloned().collect()
    }

    /// Whether all these names stand for something.
    pub(super) fn gives(&self, names: &[String]) -> bool {
        let made = self.graph.node.iter().flat_map(|node| &node.output).chain(self.inputs);
        let made: BTreeSet<&str> = made.map(String::as_str).collect();
        names.iter().all(|name| self.is_constant(name) || made.contains(name.as_str()))
    }

    /// The names that a node reads of what is computed, or of the inputs.
    fn reads_data(&self, number: usize) -> impl Iterator<Item = &'m str> {
        let read = names_read(&self.graph.node[number]).into_iter();
        read.filter(|name| !self.is_constant(name)).collect::<Vec<_>>().into_iter()
    }

    /// The part of these nodes that gives values of these names.
    fn computed(&self, nodes: &[usize], names: &[&str]) -> Part {
        let node: Vec<NodeProto> =
            nodes.iter().map(|&number| self.graph.node[number].clone()).collect();
        let made: BTreeSet<&str> =
            node.iter().flat_map(|node| &node.output).map(String::as_str).collect();
        let read: BTreeSet<&str> =
            nodes.iter().flat_map(|&number| self.reads_data(number)).collect();
        let inputs = read.into_iter().filter(|name| !made.contains(name)).map(str::to_owned);
        let inputs = inputs.collect();
        let outputs = names.iter().map(|&name| ValueInfoProto::untyped(name)).collect();
        self.part(GraphProto { node, ..GraphProto::default() }, inputs, outputs)
    }
}

/// What is declared of a stacked output.
fn stacked_type(output: &ValueInfoProto) -> Stacked {
    let Some(Ok(declared)) = inputs::declared(std::slice::from_ref(output)).pop() else {
        return Stacked::default();
    };
    let extent = |extent: Extent| match extent {
        Extent::Fixed(extent) => usize::try_from(extent).ok(),
        Extent::Named(_) => None,
    };
    Stacked {
        along: Along::default(),
        dtype: data_type(declared.data_type.into()).ok(),
        shape: declared.shape.unwrap_or_default().into_iter().map(extent).collect(),
    }
}

/// What a node does with sequences and optional values, and whether it gives one.
fn list_work(node: &NodeProto, lists: &BTreeSet<&str>) -> Option<(ListWork, bool)> {
    if !names::domain(&node.domain).is_empty() {
        return None;
    }
    let int = |name: &str| node.attribute_of(name).map_or(0, |attribute| attribute.i);
    let reads_list = node.input.iter().any(|name| lists.contains(name.as_str()));
    Some(match node.op_type.as_str() {
        "SequenceEmpty" | "SequenceConstruct" => (ListWork::Sequence, true),
        "SequenceInsert" => (ListWork::Insert, true),
        "SequenceErase" => (ListWork::Erase, true),
        "SequenceAt" => (ListWork::At, false),
        "SequenceLength" => (ListWork::Length, false),
        "ConcatFromSequence" => {
            (ListWork::Concat { axis: int("axis"), is_new: int("new_axis") != 0 }, false)
        }
        "Optional" => (ListWork::Optional, true),
        "OptionalGetElement" if reads_list => (ListWork::Element, false),
        "OptionalHasElement" => (ListWork::HasElement, false),
        "Identity" if reads_list => (ListWork::Same, true),
        _ => return None,
    })
}
