//! A graph divided where what is to be compiled depends on values that only a run knows.
//!
//! Some nodes are *driven*: a loop that computes sizes or changes what it carries from one turn to
//! the next, a branch of which one side gives other shapes than the other, a node that puts
//! sequences together. Whoever runs the pieces does what they say, with values in hand. All other
//! nodes stand in *parts*, each as large as the driven nodes allow: models like any other, whose
//! inputs are known when they are first run. So every shape is known when kernels are made, in the
//! bodies of loops too, which are parts of their own.
//!
//! Constants, and the nodes that compute them, are in each part that reads them.

use std::collections::{BTreeMap, BTreeSet};

use tensor::{DType, Kind, Tensor, Value};

use crate::data_type::{data_type, number_of};
use crate::excerpt;
use crate::inputs::{self, Extent, kind_of};
use crate::model::called;
use crate::operators::is_random;
use crate::order::{names_captured, names_read, order};
use crate::proto::{
    AttributeProto, FunctionProto, GraphProto, ModelProto, NodeProto, TypeProto, ValueInfoProto,
    type_proto,
};
use crate::survey;

/// A graph as pieces that run one after another.
#[derive(Clone, Debug)]
pub struct Pieces {
    /// The pieces. Each reads inputs of the graph and what earlier ones give, by name.
    pub pieces: Vec<Piece>,
    /// The names of the graph's outputs.
    pub outputs: Vec<String>,
}

/// A piece of a graph.
#[derive(Clone, Debug)]
pub enum Piece {
    /// Nodes that are compiled.
    Part(Part),
    /// A node that is driven.
    Driven(Driven),
}

/// A model whose inputs are declared when their types are known.
#[derive(Clone, Debug)]
pub struct Part {
    /// The names of its inputs.
    pub inputs: Vec<String>,
    /// The names of its outputs, each once.
    pub outputs: Vec<String>,
    model: ModelProto,
}

/// The type of an input of a part.
#[derive(Clone, Debug, PartialEq)]
pub enum InputType {
    /// A tensor; extents that are not given are free.
    Tensor(DType, Vec<Option<usize>>),
    /// A sequence or an optional value; none for what cannot be declared.
    List(Option<TypeProto>),
}

/// A node that is driven: operands and results by name, a name left out empty.
#[derive(Clone, Debug)]
pub struct Driven {
    /// How a diagnostic names the node.
    pub place: String,
    /// What it reads.
    pub operands: Vec<String>,
    /// What it gives.
    pub results: Vec<String>,
    /// What it does.
    pub work: Work,
    /// The graphs inside of it.
    pub bodies: Vec<Body>,
}

/// What a driven node does.
#[derive(Clone, Debug)]
pub enum Work {
    /// ONNX's Loop: operands are the number of iterations, the condition and what is carried.
    Loop {
        /// What is stacked.
        stacked: Vec<Stacked>,
    },
    /// ONNX's Scan: operands are what is carried, then what is scanned.
    Scan {
        /// How each operand that is scanned is.
        scanned: Vec<Along>,
        /// What is stacked.
        stacked: Vec<Stacked>,
    },
    /// ONNX's If: the operand is the condition, which chooses one of two graphs.
    If,
    /// A call of a function that the model defines.
    Call,
    /// An operator on sequences and optional values.
    List(ListWork),
}

/// An axis along which something is taken apart or put together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Along {
    /// The axis, which may count from the end.
    pub axis: i64,
    /// Whether from the end to the front.
    pub is_reversed: bool,
}

/// What a loop stacks: how, and what is declared of a row.
#[derive(Clone, Debug, Default)]
pub struct Stacked {
    /// Where rows go.
    pub along: Along,
    /// The element type.
    pub dtype: Option<DType>,
    /// The extents that are fixed.
    pub shape: Vec<Option<usize>>,
}

/// A graph inside of a node. The part's inputs are those of the graph, then names around it.
#[derive(Clone, Debug)]
pub struct Body {
    /// The graph as a model.
    pub part: Part,
    /// The names of its outputs, of which some may be the same.
    pub outputs: Vec<String>,
}

/// Operators on sequences and optional values that compute nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListWork {
    /// An empty sequence, or one of the operands.
    Sequence,
    /// The sequence with a value inserted at a place.
    Insert,
    /// The sequence without the value at a place.
    Erase,
    /// The value at a place.
    At,
    /// How many values there are.
    Length,
    /// The tensors put together along an axis, which may be a new one.
    Concat {
        /// The axis, which may count from the end.
        axis: i64,
        /// Whether it is new.
        is_new: bool,
    },
    /// An optional value.
    Optional,
    /// What an optional value holds.
    Element,
    /// Whether an optional value holds something.
    HasElement,
    /// The operand.
    Same,
}

impl Part {
    /// The model with inputs of these types.
    #[must_use]
    pub fn model(&self, inputs: &[InputType]) -> ModelProto {
        let mut model = self.model.clone();
        if let Some(graph) = &mut model.graph {
            let declared = self.inputs.iter().zip(inputs);
            graph.input = declared.map(|(name, ty)| ty.declaration(name)).collect();
        }
        model
    }

    /// The part in pieces, where it works with sequences: none of it depends on how many values
    /// they have.
    #[must_use]
    pub fn lists_apart(&self) -> Option<Pieces> {
        let graph = self.model.graph.as_ref()?;
        let division = Division::of(&self.model, &self.inputs)?;
        let has_lists = (0..graph.node.len()).any(|number| division.driven[number].is_some());
        (has_lists && division.gives(&self.outputs)).then(|| division.pieces(&self.outputs))
    }
}

/// The pieces of a model that cannot be compiled as a whole for what one of its nodes needs to be
/// known. None where the node is not one to drive, and already has everything it reads in hand.
#[must_use]
pub fn pieces_at(model: &ModelProto, node: usize) -> Option<Pieces> {
    let graph = model.graph.as_ref()?;
    let is_default = |name: &str| graph.initializer.iter().any(|tensor| tensor.name == name);
    let inputs: Vec<String> =
        graph.input.iter().map(|input| input.name.clone()).filter(|it| !is_default(it)).collect();
    let mut division = Division::of(model, &inputs)?;
    let at = graph.node.get(node)?;
    if division.driven[node].is_none() {
        division.driven[node] = division.control(at);
        division.waits = Some(node);
    }
    division.place();
    if division.levels.values().all(|level| *level == 0) && division.driven[node].is_none() {
        return None;
    }
    let outputs: Vec<String> = graph.output.iter().map(|output| output.name.clone()).collect();
    division.gives(&outputs).then(|| division.pieces(&outputs))
}

/// A division under way.
struct Division<'m> {
    model: &'m ModelProto,
    graph: &'m GraphProto,
    inputs: &'m [String],
    /// The nodes in an order in which they can run.
    order: Vec<usize>,
    /// The node that makes a constant, by name.
    constants: BTreeMap<&'m str, usize>,
    /// Which nodes are driven, how, and the graphs inside of them.
    driven: Vec<Option<(Work, Vec<Body>)>>,
    /// A node that runs when everything that it reads is in hand.
    waits: Option<usize>,
    /// After how many driven nodes each node that is no constant can run.
    levels: BTreeMap<usize, usize>,
}

impl<'m> Division<'m> {
    fn of(model: &'m ModelProto, inputs: &'m [String]) -> Option<Division<'m>> {
        let graph = model.graph.as_ref()?;
        let outer: BTreeSet<&str> = inputs
            .iter()
            .map(String::as_str)
            .chain(graph.initializer.iter().map(|tensor| tensor.name.as_str()))
            .chain(sparse_names(graph))
            .collect();
        let order = order(&graph.node, &|name| outer.contains(name)).ok()?;
        let mut division = Division {
            model,
            graph,
            inputs,
            order,
            constants: BTreeMap::new(),
            driven: vec![None; graph.node.len()],
            waits: None,
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
        let functions = survey::functions(self.model);
        for &number in &self.order {
            let node = &self.graph.node[number];
            let outputs = node.output.iter().map(String::as_str).filter(|name| !name.is_empty());
            let reads = names_read(node);
            let is_own = !functions.contains_key(&survey::function_name(node));
            if let Some((work, gives_list)) = list_work(node, &lists).filter(|_| is_own) {
                if gives_list {
                    lists.extend(outputs.clone());
                }
                self.driven[number] = Some((Work::List(work), Vec::new()));
                data.extend(outputs);
                continue;
            }
            let is_plain = is_own && !is_random(node) && graphs(node).next().is_none();
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
            let waits = self.waits == Some(number) && self.driven[number].is_none();
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

    /// How a node of control flow is driven.
    fn control(&self, node: &NodeProto) -> Option<(Work, Vec<Body>)> {
        let function = survey::function_name(node);
        if let Some(&function) = survey::functions(self.model).get(&function) {
            return Some((Work::Call, vec![self.call(function, node)?]));
        }
        if !survey::domain(&node.domain).is_empty() {
            return None;
        }
        let graph = |name: &str| {
            let found = node.attribute.iter().find(|attribute| attribute.name == name)?;
            found.g.as_deref()
        };
        let ints = |name: &str, number: usize| {
            let found = node.attribute.iter().find(|attribute| attribute.name == name);
            found.and_then(|it| it.ints.get(number).copied()).unwrap_or(0)
        };
        match node.op_type.as_str() {
            "Scan" if survey::opsets(&self.model.opset_import).get("") >= Some(&9) => {
                let body = graph("body")?;
                let scanned = node.attribute.iter().find(|it| it.name == "num_scan_inputs")?.i;
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
            || self.graph.initializer.iter().any(|tensor| tensor.name == name)
            || sparse_names(self.graph).any(|other| other == name)
    }

    /// The nodes of a graph as a model, with the constants around it that it reads.
    fn part(
        &self,
        mut graph: GraphProto,
        inputs: Vec<String>,
        outputs: Vec<ValueInfoProto>,
    ) -> Part {
        for node in &mut graph.node {
            node.name = survey::node_name(node).to_owned();
        }
        let mut wanted: BTreeSet<String> = names_captured(&graph)
            .into_iter()
            .map(str::to_owned)
            .chain(outputs.iter().map(|output| output.name.clone()))
            .collect();
        let mut around: BTreeSet<usize> = BTreeSet::new();
        let mut work: Vec<String> = wanted.iter().cloned().collect();
        while let Some(name) = work.pop() {
            if inputs.contains(&name) {
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
        let is_wanted = |name: &str| {
            wanted.contains(name) && !made.contains(name) && !inputs.iter().any(|it| it == name)
        };
        let initializer: Vec<_> =
            self.graph.initializer.iter().filter(|it| is_wanted(&it.name)).cloned().collect();
        let sparse = self.graph.sparse_initializer.iter();
        let sparse: Vec<_> = sparse
            .filter(|it| it.values.as_ref().is_some_and(|values| is_wanted(&values.name)))
            .cloned()
            .collect();
        let behind = around.into_iter().map(|number| self.graph.node[number].clone());
        graph.node = behind.chain(std::mem::take(&mut graph.node)).collect();
        graph.initializer.extend(initializer);
        graph.sparse_initializer.extend(sparse);
        let names = outputs.iter().map(|output| output.name.clone()).collect();
        let graph = GraphProto { output: outputs, ..graph };
        let model = ModelProto {
            ir_version: self.model.ir_version,
            opset_import: self.model.opset_import.clone(),
            functions: self.model.functions.clone(),
            graph: Some(graph),
            ..ModelProto::default()
        };
        Part { inputs, outputs: names, model }
    }

    fn pieces(&self, outputs: &[String]) -> Pieces {
        let last = self.levels.values().max().copied().unwrap_or(0);
        let mut given: BTreeSet<&str> = BTreeSet::new();
        let mut pieces = Vec::new();
        for level in 0..=last {
            let here: Vec<usize> = self
                .order
                .iter()
                .copied()
                .filter(|it| self.levels.get(it) == Some(&level))
                .collect();
            let (driven, computed): (Vec<usize>, Vec<usize>) =
                here.into_iter().partition(|&number| self.driven[number].is_some());
            // What driven nodes read, and what later parts and the caller do.
            let readers = self.levels.iter().filter(|(number, other)| {
                **other > level || **other == level && self.driven[**number].is_some()
            });
            let mut wanted: BTreeSet<&str> =
                readers.flat_map(|(&number, _)| self.reads_data(number)).collect();
            wanted.extend(outputs.iter().map(String::as_str));
            let made: BTreeSet<&str> = computed
                .iter()
                .flat_map(|&number| &self.graph.node[number].output)
                .map(String::as_str)
                .collect();
            let mut names: Vec<&str> =
                made.into_iter().filter(|name| wanted.contains(name)).collect();
            // Constants are given by the first part after which something wants them.
            let of_driven = driven.iter().flat_map(|&number| &self.graph.node[number].input);
            let outer = outputs.iter().filter(|_| level == 0);
            for name in of_driven.chain(outer).map(String::as_str) {
                if self.is_constant(name) && !given.contains(name) && !names.contains(&name) {
                    names.push(name);
                }
            }
            if !names.is_empty() {
                pieces.push(Piece::Part(self.computed(&computed, &names)));
                given.extend(names);
            }
            for number in driven {
                let node = &self.graph.node[number];
                let Some((work, bodies)) = self.driven[number].clone() else { continue };
                pieces.push(Piece::Driven(Driven {
                    place: survey::place(node, number),
                    operands: node.input.clone(),
                    results: node.output.clone(),
                    work,
                    bodies,
                }));
            }
        }
        Pieces { pieces, outputs: outputs.to_vec() }
    }

    /// Whether all these names stand for something.
    fn gives(&self, names: &[String]) -> bool {
        let is_made = |name: &str| {
            let made = self.graph.node.iter().flat_map(|node| &node.output);
            made.map(String::as_str)
                .chain(self.inputs.iter().map(String::as_str))
                .any(|it| it == name)
        };
        names.iter().all(|name| self.is_constant(name) || is_made(name))
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
        let outputs = names.iter().map(|name| untyped(name)).collect();
        self.part(GraphProto { node, ..GraphProto::default() }, inputs, outputs)
    }
}

fn untyped(name: &str) -> ValueInfoProto {
    ValueInfoProto { name: name.to_owned(), r#type: None }
}

fn graphs(node: &NodeProto) -> impl Iterator<Item = &GraphProto> {
    node.attribute.iter().flat_map(|it| it.g.as_deref().into_iter().chain(&it.graphs))
}

fn sparse_names(graph: &GraphProto) -> impl Iterator<Item = &str> {
    graph.sparse_initializer.iter().filter_map(|it| Some(it.values.as_ref()?.name.as_str()))
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
    if !survey::domain(&node.domain).is_empty() {
        return None;
    }
    let int = |name: &str| {
        let found =
            node.attribute.iter().find(|attribute: &&AttributeProto| attribute.name == name);
        found.map_or(0, |attribute| attribute.i)
    };
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

impl InputType {
    /// The type of a value, with its extents.
    #[must_use]
    pub fn of(value: &Value) -> InputType {
        match value {
            Value::Tensor(tensor) => {
                let extents = tensor.shape().iter().map(|&extent| Some(extent));
                InputType::Tensor(tensor.dtype(), extents.collect())
            }
            _ => InputType::List(declared_type(value)),
        }
    }

    /// Whether a value is of the type.
    #[must_use]
    pub fn holds_for(&self, value: &Value) -> bool {
        match (self, value) {
            (InputType::Tensor(dtype, extents), Value::Tensor(tensor)) => {
                let fits = |(extent, given): (&Option<usize>, &usize)| {
                    extent.is_none_or(|extent| extent == *given)
                };
                *dtype == tensor.dtype()
                    && extents.len() == tensor.shape().len()
                    && extents.iter().zip(tensor.shape()).all(fits)
            }
            (InputType::List(ty), Value::Sequence(_) | Value::Optional(_)) => {
                *ty == declared_type(value)
            }
            _ => false,
        }
    }

    /// The type with those extents free that a value has others of; none where the value differs
    /// in more.
    #[must_use]
    pub fn widened(&self, value: &Value) -> Option<InputType> {
        let mut wide = self.clone();
        if let (InputType::Tensor(_, extents), Value::Tensor(tensor)) = (&mut wide, value)
            && extents.len() == tensor.shape().len()
        {
            for (extent, &given) in extents.iter_mut().zip(tensor.shape()) {
                *extent = extent.filter(|extent| *extent == given);
            }
        }
        wide.holds_for(value).then_some(wide)
    }

    fn declaration(&self, name: &str) -> ValueInfoProto {
        match self {
            InputType::Tensor(dtype, extents) => {
                let extents = extents.iter().map(|extent| extent.map(|extent| extent as i64));
                excerpt::declared(name, *dtype, extents)
            }
            InputType::List(ty) => ValueInfoProto { name: name.to_owned(), r#type: ty.clone() },
        }
    }
}

fn declared_type(value: &Value) -> Option<TypeProto> {
    let element = |value: Option<&Value>| {
        // Of an empty list any type will do: nothing is of it.
        let empty = Value::Tensor(Tensor::zeros(DType::F32, &[]));
        let elem_type = declared_type(value.unwrap_or(&empty));
        Box::new(type_proto::Element { elem_type })
    };
    let value = match value {
        Value::Tensor(tensor) => type_proto::Value::Tensor(type_proto::Tensor {
            elem_type: number_of(tensor.dtype()),
            shape: None,
        }),
        Value::Sequence(values) => type_proto::Value::Sequence(element(values.first())),
        Value::Optional(inner) => type_proto::Value::Optional(element(inner.as_deref())),
        Value::Maps(..) | Value::Map(..) => return None,
    };
    Some(TypeProto { value: Some(value) })
}
