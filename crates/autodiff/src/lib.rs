//! Derivatives of graph functions, as nodes of the same primitives.
//!
//! Reverse mode: from the *cotangent* of a value (the derivative of what is differentiated by that
//! value, of its shape and type) each node's rule makes the cotangents of its operands. A rule is a
//! line of `scalar` for a scalar function, or a function of `movement`, `sums` and `regions` for a
//! primitive; all of them are linear in the cotangent. Integers and booleans have none.
//!
//! Where a function is not differentiable, the derivative is that of one side or a mean of both
//! (`abs` at 0 has 0, equal operands of `max` share). Source: Griewank and Walther, "Evaluating
//! Derivatives", 2nd edition, chapters 3 and 6.
//!
//! What is made may hold much that nothing reads; `graph-opt` tidies it like any other nodes.

mod movement;
mod regions;
mod scalar;
mod sums;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use graph::{Function, FunctionBuilder, Node, NodeId, Op, Type, ValueId};
use sym::Expr;
use tensor::{DType, Scalar, ScalarFunction};

/// Why there is no derivative.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoDerivative {
    /// The place of the node in the user's model.
    pub place: String,
    /// What is in the way.
    pub reason: String,
}

impl fmt::Display for NoDerivative {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.reason)
    }
}

impl std::error::Error for NoDerivative {}

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
) -> Result<Vec<ValueId>, NoDerivative> {
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
) -> Result<Function, NoDerivative> {
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

fn nowhere(reason: String) -> NoDerivative {
    NoDerivative { place: "gradient".to_owned(), reason }
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
    cotangents: BTreeMap<ValueId, ValueId>,
}

impl<'b> Reverse<'b> {
    fn new(builder: &'b mut FunctionBuilder, sources: &[ValueId]) -> Reverse<'b> {
        let mut active: BTreeSet<ValueId> = sources.iter().copied().collect();
        active.retain(|&source| is_float(builder, source));
        Reverse { builder, active, cotangents: BTreeMap::new() }
    }

    /// Whether the value depends on a source and can have a cotangent.
    pub(crate) fn is_active(&self, value: ValueId) -> bool {
        self.active.contains(&value)
    }

    fn seed(&mut self, value: ValueId, cotangent: ValueId) -> Result<(), NoDerivative> {
        self.add(value, cotangent).map_err(nowhere)
    }

    /// Adds to a value's cotangent.
    fn add(&mut self, value: ValueId, more: ValueId) -> graph::Built<()> {
        let sum = match self.cotangents.get(&value) {
            Some(&so_far) => self.builder.map(ScalarFunction::Add, &[so_far, more])?,
            None => more,
        };
        self.cotangents.insert(value, sum);
        Ok(())
    }

    /// A source's cotangent; zeros if nothing depends on it.
    fn result(&mut self, source: ValueId) -> Result<ValueId, NoDerivative> {
        match self.cotangents.get(&source) {
            Some(&cotangent) => Ok(cotangent),
            None => constant(self.builder, source, 0.0).map_err(nowhere),
        }
    }

    /// Goes through nodes of the open region, backwards.
    fn sweep(&mut self, nodes: std::ops::Range<usize>) -> Result<(), NoDerivative> {
        let nodes: Vec<NodeId> = self.builder.open_region_nodes()[nodes].to_vec();
        for &node in &nodes {
            self.mark(node);
        }
        for &node in nodes.iter().rev() {
            self.node(node)?;
        }
        Ok(())
    }

    /// Marks the results of a node that depend on a source.
    fn mark(&mut self, node: NodeId) {
        let function = self.builder.function();
        let node = &function.nodes[node];
        let reads = node.operands.iter().any(|operand| self.active.contains(operand))
            || function.captures(&node.regions).iter().any(|value| self.active.contains(value));
        if reads {
            let results = node.results.clone();
            self.active.extend(results.into_iter().filter(|&value| is_float(self.builder, value)));
        }
    }

    fn node(&mut self, id: NodeId) -> Result<(), NoDerivative> {
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
            false if self.changes_extents(id) => {
                let name = node.op.name();
                Err(format!("`{name}` cannot be differentiated: it computes extents"))
            }
            false => self.regions(&node, &cotangents),
        };
        pulled.map_err(|reason| NoDerivative {
            place: self.builder.function().locations.describe(node.location),
            reason,
        })
    }

    /// Whether a copy of a node with regions would define symbols once more.
    fn changes_extents(&self, id: NodeId) -> bool {
        let function = self.builder.function();
        let mut regions = function.nodes[id].regions.iter();
        !function.symbols_defined_by(id).is_empty()
            || regions.any(|&region| function.has_interpreted(region))
    }

    /// The rule of a primitive without regions, one result of which has a cotangent.
    fn pull(&mut self, node: &Node, cotangents: &[Option<ValueId>]) -> Pulled {
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
            Op::Cumulate { .. } => self.cumulate(&node.op, g),
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
