//! Derivatives of graph functions, and functions of many at once, as nodes of the same primitives.
//!
//! Reverse mode: from the *cotangent* of a value (the derivative of what is differentiated by that
//! value, of its shape and type) each node's rule makes the cotangents of its operands. A rule is a
//! line of `scalar` for a scalar function, or a function of `movement`, `sums` and `regions` for a
//! primitive; all of them are linear in the cotangent. Integers and booleans have none.
//!
//! Forward mode (`forward`) has no rules of its own but for regions: it comes of those twice.
//! Vectorisation (`vectorise`) gives values a new first axis.
//!
//! Where a function is not differentiable, the derivative is that of one side or a mean of both
//! (`abs` at 0 has 0, equal operands of `max` share). Source: Griewank and Walther, "Evaluating
//! Derivatives", 2nd edition, chapters 3 and 6.
//!
//! What is made may hold much that nothing reads; `graph-opt` tidies it like any other nodes.

mod forward;
mod movement;
mod regions;
mod scalar;
mod sums;
mod vectorise;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use base::IntoTree;
use graph::{Function, FunctionBuilder, Node, NodeId, Op, RegionId, Type, ValueId};
use sym::Expr;
use tensor::{DType, Scalar, ScalarFunction};

pub use forward::tangents;
use vectorise::stacked;
pub use vectorise::vectorised;

/// Why a function has no derivative, or cannot be vectorised.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TransformRefusal {
    /// The place of the node in the user's model.
    pub place: String,
    /// What is in the way.
    pub reason: String,
}

impl fmt::Display for TransformRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.reason)
    }
}

impl std::error::Error for TransformRefusal {}

/// Appends the gradients of `value`, with a cotangent of its type, by each of `sources`, all of
/// them of the innermost open region; a source on which the value does not depend gets zeros. Nodes
/// of the region before the one of number `first` are taken as constant.
///
/// # Errors
/// The first node on the way that has no derivative.
pub fn gradients(
    builder: &mut FunctionBuilder,
    first: usize,
    value: ValueId,
    cotangent: ValueId,
    sources: &[ValueId],
) -> Result<Vec<ValueId>, TransformRefusal> {
    let last = builder.open_region_nodes().len();
    let mut reverse = Reverse::new(builder, sources);
    reverse.seed(value, cotangent)?;
    reverse.sweep(first..last)?;
    sources.iter().map(|&source| reverse.result(source)).collect()
}

/// A function whose results are those of `function`, then the gradients of the sum of its float
/// result of number `result` by the parameters of these numbers.
///
/// # Errors
/// The first node on the way that has no derivative.
pub fn gradient(
    function: &Function,
    result: usize,
    parameters: &[usize],
) -> Result<Function, TransformRefusal> {
    let value = function.results()[result];
    let sources: Vec<ValueId> =
        parameters.iter().map(|&number| function.parameters()[number]).collect();
    let mut results: Vec<(String, ValueId)> =
        function.result_names.iter().cloned().zip(function.results().iter().copied()).collect();
    let mut builder = FunctionBuilder::extend(function.clone());
    let one = constant(&mut builder, value, 1.0).map_err(nowhere)?;
    let gradients = gradients(&mut builder, 0, value, one, &sources)?;
    let by = parameters.iter().map(|&number| &function.parameter_names[number]);
    let of = &function.result_names[result];
    results.extend(by.map(|by| format!("d {of} / d {by}")).zip(gradients));
    Ok(builder.finish(results))
}

/// A function whose parameters are those of `function`, then the tangents of those of these
/// numbers, and whose results are those of `function`, then the tangents of its float results.
///
/// # Errors
/// The first node on the way that has no derivative.
pub fn tangent(function: &Function, parameters: &[usize]) -> Result<Function, TransformRefusal> {
    let mut builder = FunctionBuilder::extend(function.clone());
    let mut sources = Vec::new();
    for &number in parameters {
        let value = function.parameters()[number];
        let name = format!("tangent of {}", function.parameter_names[number]);
        sources.push((value, builder.parameter(name, function.ty(value).clone())));
    }
    let found = tangents(&mut builder, 0, function.results(), &sources)?;
    let named = function.result_names.iter().zip(&found);
    let mut results: Vec<(String, ValueId)> =
        named.clone().map(|(name, (value, _))| (name.clone(), *value)).collect();
    let tangents = named.filter(|(_, (value, _))| is_float(&builder, *value));
    results.extend(tangents.map(|(name, (_, tangent))| (format!("tangent of {name}"), *tangent)));
    Ok(builder.finish(results))
}

/// A function of many at once: its parameters of these numbers, and all of its results, have a new
/// first axis of this extent.
///
/// # Errors
/// The first node on the way that cannot be vectorised.
pub fn vectorise(
    function: &Function,
    extent: &Expr,
    parameters: &[usize],
) -> Result<Function, TransformRefusal> {
    let mut builder = FunctionBuilder::extend(function.clone());
    let mut sources = Vec::new();
    let mut own = Vec::new();
    for (number, &value) in function.parameters().iter().enumerate() {
        if !parameters.contains(&number) {
            own.push(value);
            continue;
        }
        let name = function.parameter_names[number].clone();
        let ty = stacked(function.ty(value), extent).map_err(nowhere)?;
        let many = builder.parameter(name, ty);
        sources.push((value, many));
        own.push(many);
    }
    let results = vectorised(&mut builder, 0, extent, function.results(), &sources)?;
    let whole =
        builder.finish(function.result_names.iter().cloned().zip(results.clone()).collect());
    let mut part = whole.part(own, results);
    part.parameter_names.clone_from(&function.parameter_names);
    part.result_names.clone_from(&function.result_names);
    part.assumptions.clone_from(&function.assumptions);
    Ok(part)
}

fn nowhere(reason: String) -> TransformRefusal {
    TransformRefusal { place: "the function".to_owned(), reason }
}

/// What a node of a region says, for the node that has the region.
fn inside(found: TransformRefusal) -> String {
    format!("at {}: {}", found.place, found.reason)
}

/// The nodes of the innermost open region, from the one of number `first` on, that these values
/// need.
fn needed(builder: &FunctionBuilder, first: usize, values: &[ValueId]) -> Vec<NodeId> {
    let function = builder.function();
    let mut wanted: BTreeSet<ValueId> = values.iter().copied().into_set();
    let mut nodes = Vec::new();
    for &id in builder.open_region_nodes()[first..].iter().rev() {
        if function.nodes[id].results.iter().any(|result| wanted.contains(result)) {
            wanted.extend(function.reads(id));
            nodes.push(id);
        }
    }
    nodes.reverse();
    nodes
}

/// Whether each result of a region depends on marked values, where `can` says that results do; what
/// depends on them in it is marked, too. Of a node with regions all results depend on all it reads.
fn spread(
    builder: &FunctionBuilder,
    region: RegionId,
    marked: &mut BTreeSet<ValueId>,
    can: fn(&FunctionBuilder, ValueId) -> bool,
) -> Vec<bool> {
    let region = &builder.function().regions[region];
    for &node in &region.nodes {
        mark(builder, node, marked, can);
    }
    region.results.iter().map(|result| marked.contains(result)).collect()
}

/// Marks the results of a node that depend on marked values.
fn mark(
    builder: &FunctionBuilder,
    node: NodeId,
    marked: &mut BTreeSet<ValueId>,
    can: fn(&FunctionBuilder, ValueId) -> bool,
) {
    let function = builder.function();
    if function.reads(node).iter().any(|value| marked.contains(value)) {
        let results = function.nodes[node].results.iter().copied();
        marked.extend(results.filter(|&value| can(builder, value)));
    }
}

/// Whether a copy of a node with regions would define symbols once more.
fn changes_extents(function: &Function, id: NodeId) -> bool {
    let mut regions = function.nodes[id].regions.iter();
    !function.symbols_defined_by(id).is_empty()
        || regions.any(|&region| function.has_interpreted(region))
}

/// The number throughout a value of the type and shape of another.
fn constant(builder: &mut FunctionBuilder, like: ValueId, number: f64) -> graph::Built {
    let ty = builder.tensor_type(like)?.clone();
    builder.full(&ty.shape, Scalar::from_f64(ty.dtype, number))
}

/// What a rule gives: a cotangent for each operand that needs one.
type Pulled = graph::Built<Vec<Option<ValueId>>>;

/// A reverse sweep over nodes of the innermost open region.
pub(crate) struct Reverse<'b> {
    pub(crate) builder: &'b mut FunctionBuilder,
    /// Values that depend on a source.
    active: BTreeSet<ValueId>,
    /// Sums of the cotangents found so far.
    pub(crate) cotangents: BTreeMap<ValueId, ValueId>,
}

impl<'b> Reverse<'b> {
    pub(crate) fn new(builder: &'b mut FunctionBuilder, sources: &[ValueId]) -> Reverse<'b> {
        let mut active: BTreeSet<ValueId> = sources.iter().copied().into_set();
        active.retain(|&source| is_float(builder, source));
        Reverse { builder, active, cotangents: BTreeMap::new() }
    }

    /// Whether the value depends on a source and can have a cotangent.
    pub(crate) fn is_active(&self, value: ValueId) -> bool {
        self.active.contains(&value)
    }

    fn seed(&mut self, value: ValueId, cotangent: ValueId) -> Result<(), TransformRefusal> {
        self.add(value, cotangent).map_err(nowhere)
    }

    /// Adds to a value's cotangent.
    pub(crate) fn add(&mut self, value: ValueId, more: ValueId) -> graph::Built<()> {
        let sum = match self.cotangents.get(&value) {
            Some(&so_far) => self.builder.map(ScalarFunction::Add, &[so_far, more])?,
            None => more,
        };
        self.cotangents.insert(value, sum);
        Ok(())
    }

    /// A source's cotangent; zeros if nothing depends on it.
    fn result(&mut self, source: ValueId) -> Result<ValueId, TransformRefusal> {
        match self.cotangents.get(&source) {
            Some(&cotangent) => Ok(cotangent),
            None => constant(self.builder, source, 0.0).map_err(nowhere),
        }
    }

    /// Goes through nodes of the open region, backwards.
    pub(crate) fn sweep(&mut self, nodes: std::ops::Range<usize>) -> Result<(), TransformRefusal> {
        let nodes: Vec<NodeId> = self.builder.open_region_nodes()[nodes].to_vec();
        for &node in &nodes {
            mark(self.builder, node, &mut self.active, is_float);
        }
        for &node in nodes.iter().rev() {
            self.node(node)?;
        }
        Ok(())
    }

    fn node(&mut self, id: NodeId) -> Result<(), TransformRefusal> {
        let node = self.builder.function().nodes[id].clone();
        let cotangents: Vec<Option<ValueId>> =
            node.results.iter().map(|result| self.cotangents.get(result).copied()).collect();
        let is_reached = |(result, cotangent): (&ValueId, &Option<ValueId>)| {
            cotangent.is_some() && self.active.contains(result)
        };
        if !node.results.iter().zip(&cotangents).any(is_reached) {
            return Ok(());
        }
        self.builder.set_location(node.location);
        let pulled = match node.regions.is_empty() {
            true => self.pull(&node, &cotangents).and_then(|pulled| {
                for (&operand, cotangent) in node.operands.iter().zip(pulled) {
                    if let Some(cotangent) = cotangent.filter(|_| self.active.contains(&operand)) {
                        self.add(operand, cotangent)?;
                    }
                }
                Ok(())
            }),
            false if changes_extents(self.builder.function(), id) => {
                let name = node.op.name();
                Err(format!("`{name}` cannot be differentiated: it computes extents"))
            }
            false => self.regions(&node, &cotangents),
        };
        pulled.map_err(|reason| TransformRefusal {
            place: self.builder.function().locations.describe(node.location),
            reason,
        })
    }

    /// The rule of a primitive without regions, one result of which has a cotangent.
    pub(crate) fn pull(&mut self, node: &Node, cotangents: &[Option<ValueId>]) -> Pulled {
        let cotangent = cotangents[0];
        let own = |what: &str| Err(format!("`{what}` cannot be differentiated"));
        let Some(g) = cotangent else { return own(node.op.name()) };
        match &node.op {
            Op::Map { function, .. } => self.map(*function, node, g),
            Op::Broadcast { axes, .. } => self.broadcast(axes, node.operands[0], g),
            Op::Reshape { .. } => {
                let shape = self.builder.shape(node.operands[0])?;
                Ok(vec![Some(self.builder.reshape(g, &shape)?)])
            }
            Op::Transpose { permutation } => self.transpose(permutation, g),
            Op::Slice { starts, steps, .. } => self.slice(starts, steps, node.operands[0], g),
            Op::Pad { low, high, interior } => self.pad(low, high, interior, &node.operands, g),
            Op::Concat { axis } => self.concat(*axis, &node.operands, g),
            Op::Gather { .. } => self.gather(&node.op, &node.operands, g),
            Op::Scatter { .. } => self.scatter(node, g),
            Op::Contract { space, accumulator, .. } => {
                self.contract(space, *accumulator, &node.operands, g)
            }
            Op::Reduce { space, reduction, .. } => self.reduce(space, *reduction, node, g),
            Op::Cumulate { .. } => self.cumulate(&node.op, node.operands[0], g),
            Op::Sort { axis, .. } => self.sort(*axis, node, g),
            // Without float operands, or with integer results alone: never reached.
            Op::Literal(_)
            | Op::Weight { .. }
            | Op::Iota { .. }
            | Op::Dimension(_)
            | Op::Bind { .. }
            | Op::ArgReduce { .. }
            | Op::NonZero
            | Op::RandomBits { .. } => Ok(vec![None; node.operands.len()]),
            Op::Bitcast { .. }
            | Op::If { .. }
            | Op::While { .. }
            | Op::Scan { .. }
            | Op::Call { .. }
            | Op::List { .. }
            | Op::Host { .. } => own(node.op.name()),
        }
    }

    // --- what rules are written with ---

    pub(crate) fn dtype(&self, value: ValueId) -> graph::Built<DType> {
        Ok(self.builder.tensor_type(value)?.dtype)
    }

    pub(crate) fn shape(&self, value: ValueId) -> graph::Built<graph::Shape> {
        self.builder.shape(value)
    }

    pub(crate) fn number(&mut self, like: ValueId, number: f64) -> graph::Built {
        constant(self.builder, like, number)
    }

    pub(crate) fn zeros(&mut self, dtype: DType, shape: &[Expr]) -> graph::Built {
        self.builder.full(shape, Scalar::zero(dtype))
    }

    pub(crate) fn apply(&mut self, function: ScalarFunction, of: &[ValueId]) -> graph::Built {
        self.builder.map(function, of)
    }
}

fn is_float(builder: &FunctionBuilder, value: ValueId) -> bool {
    matches!(&builder.function().values[value].ty, Type::Tensor(ty) if ty.dtype.is_float())
}
