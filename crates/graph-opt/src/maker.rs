//! Makes nodes, each the simplest that the rules lead to.
//!
//! [`Maker::make`] stands in front of the builder: where a rule of the tables fires, what it makes
//! instead is returned, itself made through `make`; otherwise the node is added. Operands are
//! therefore in simplest form when a rule looks at them, and one pass over a function reaches the
//! end. The places of what a rule has looked at are merged into those of what it makes.
//!
//! Termination: every rule either makes fewer nodes than it matched, or moves one kind of node
//! towards the sources of the function past another in a fixed direction (casts and constants
//! right, reshapes and transposes in front of broadcasts, slices in front of concatenations); none
//! has an opposite.

use base::{Id, LocationId, SecondaryMap};
use graph::{Built, Function, FunctionBuilder, NodeId, Op, Rewriter, Shape, ValueId};
use sym::Expr;
use tensor::{DType, Scalar, ScalarFunction, Tensor};

use crate::fold;
use crate::rules::{No, Rules};

/// What stays from node to node while a function is made anew.
pub(crate) struct Session<'a> {
    rules: &'a Rules,
    folds: bool,
    /// Whether each value of the new function depends on constants alone.
    constant: SecondaryMap<ValueId, bool>,
    /// The number of nodes that `constant` knows.
    known: usize,
    /// Rules that matched a node but did not fire, and why.
    pub(crate) reasons: Vec<(&'static str, &'static str)>,
}

impl<'a> Session<'a> {
    /// A session with these rules; `folds` says whether nodes of literals become literals.
    pub(crate) fn new(rules: &'a Rules, folds: bool) -> Session<'a> {
        Session { rules, folds, constant: SecondaryMap::new(), known: 0, reasons: Vec::new() }
    }

    /// Makes the nodes that stand for one of this place.
    pub(crate) fn maker<'m>(
        &'m mut self,
        rewriter: &'m mut Rewriter<'_>,
        location: LocationId,
    ) -> Maker<'m, 'a> {
        Maker { session: self, builder: &mut rewriter.builder, location, seen: Vec::new() }
    }
}

/// Makes nodes; see the head of the file.
pub(crate) struct Maker<'m, 'a> {
    session: &'m mut Session<'a>,
    builder: &'m mut FunctionBuilder,
    /// The place of the node at hand.
    location: LocationId,
    /// The places of what rules at work have looked at.
    seen: Vec<LocationId>,
}

/// The element of a value of a function that is the same literal throughout.
pub(crate) fn splat(function: &Function, value: ValueId) -> Option<Scalar> {
    let (id, _) = function.producer(value)?;
    let node = &function.nodes[id];
    match &node.op {
        Op::Literal(tensor) if tensor.dtype() != DType::String => {
            let small = !tensor.is_empty() && tensor.len() <= fold::LARGEST;
            let first = small.then(|| tensor.get_scalar(0))?;
            tensor.scalars().all(|scalar| scalar == first).then_some(first)
        }
        Op::Broadcast { .. } | Op::Reshape { .. } => {
            let literal = function.literal(node.operands[0])?;
            let single = literal.len() == 1 && literal.dtype() != DType::String;
            single.then(|| literal.get_scalar(0))
        }
        _ => None,
    }
}

/// The only result of a node, or why there is none.
pub(crate) type Made = Built<ValueId>;

impl Maker<'_, '_> {
    /// The results of a node without regions, in their simplest form.
    pub(crate) fn make(&mut self, op: &Op, operands: &[ValueId]) -> Built<Vec<ValueId>> {
        if let Some(value) = self.simpler(op, operands)? {
            return Ok(vec![value]);
        }
        self.place();
        self.builder.add(op.clone(), operands)
    }

    /// What stands for the result of a node without regions; none if it is in its simplest form.
    pub(crate) fn simpler(&mut self, op: &Op, operands: &[ValueId]) -> Built<Option<ValueId>> {
        if self.session.folds
            && let Some(value) = fold::value(self.builder, op, operands)
        {
            return Ok(Some(self.literal(value)));
        }
        // Rules look at operands.
        let rules = if operands.is_empty() { &[] } else { self.session.rules.of(op) };
        for rule in rules {
            let mark = self.seen.len();
            let outcome = rule.apply(self, op, operands);
            self.seen.truncate(mark);
            match outcome {
                Ok(value) => return Ok(Some(value)),
                Err(No::Match) => {}
                Err(No::Because(reason)) => self.session.reasons.push((rule.name, reason)),
                Err(No::Fault(reason)) => return Err(format!("rule `{}`: {reason}", rule.name)),
            }
        }
        Ok(None)
    }

    /// As [`Self::make`], of a node with one result.
    pub(crate) fn one(&mut self, op: &Op, operands: &[ValueId]) -> Made {
        Ok(self.make(op, operands)?[0])
    }

    /// Lets the nodes that follow carry the place at hand and those looked at.
    fn place(&mut self) {
        let places = std::iter::once(self.location).chain(self.seen.iter().copied());
        let fused = match self.seen.is_empty() {
            true => self.location,
            false => self.builder.locations().fuse(places),
        };
        self.builder.set_location(fused);
    }

    // --- what is known of values ---

    pub(crate) fn function(&self) -> &Function {
        self.builder.function()
    }

    pub(crate) fn shape(&self, value: ValueId) -> Built<Shape> {
        self.builder.shape(value)
    }

    pub(crate) fn dtype(&self, value: ValueId) -> Built<DType> {
        self.builder.dtype(value)
    }

    /// The primitive that defines a value, and its operands; the node's place counts as looked at.
    pub(crate) fn definition(&mut self, value: ValueId) -> Option<(Op, Vec<ValueId>)> {
        let (id, _) = self.function().producer(value)?;
        let node = &self.function().nodes[id];
        let (found, location) = ((node.op.clone(), node.operands.to_vec()), node.location);
        self.seen.push(location);
        Some(found)
    }

    /// As [`Self::definition`], of a primitive that is wanted: most of what rules look at is not.
    pub(crate) fn definition_by(
        &mut self,
        value: ValueId,
        is_wanted: impl FnOnce(&Op) -> bool,
    ) -> Option<(Op, Vec<ValueId>)> {
        self.function().op(value).is_some_and(is_wanted).then(|| self.definition(value))?
    }

    /// How much has been looked at, for [`Self::forget`].
    pub(crate) fn mark(&self) -> usize {
        self.seen.len()
    }

    /// What was looked at since a mark does not count.
    pub(crate) fn forget(&mut self, mark: usize) {
        self.seen.truncate(mark);
    }

    /// The element of a value that is the same literal throughout.
    pub(crate) fn splat(&self, value: ValueId) -> Option<Scalar> {
        splat(self.function(), value)
    }

    /// Whether a value depends on constants alone.
    pub(crate) fn is_constant(&mut self, value: ValueId) -> bool {
        let nodes = &self.builder.function().nodes;
        for number in self.session.known..nodes.len() {
            let node = &nodes[NodeId::new(number)];
            let constant = &mut self.session.constant;
            let pure = node.operands.iter().all(|&operand| constant[operand])
                && node.op.is_pure()
                && node.op.has_constant_exprs();
            for &result in &node.results {
                constant[result] = pure;
            }
        }
        self.session.known = nodes.len();
        self.session.constant[value]
    }

    /// Whether a value is a constant, or repeats one as often as symbols say.
    pub(crate) fn is_fixed(&mut self, value: ValueId) -> bool {
        let function = self.builder.function();
        let source = match (function.op(value), function.producer(value)) {
            (Some(Op::Broadcast { .. }), Some((id, _))) => function.nodes[id].operands[0],
            _ => value,
        };
        self.is_constant(source)
    }

    // --- nodes by kind; movements that move nothing return their operand ---

    pub(crate) fn literal(&mut self, tensor: Tensor) -> ValueId {
        self.place();
        self.builder.literal(tensor)
    }

    /// One element throughout a shape.
    pub(crate) fn full(&mut self, shape: impl Into<Shape>, value: Scalar) -> Made {
        let scalar = self.literal(Tensor::scalar(value));
        self.broadcast(scalar, shape, &[])
    }

    pub(crate) fn map(&mut self, function: ScalarFunction, operands: &[ValueId]) -> Made {
        let types = operands.iter().map(|&value| self.dtype(value)).collect::<Built<Vec<_>>>()?;
        let dtype = function.result_dtype(&types, None)?;
        self.one(&Op::Map { function, dtype }, operands)
    }

    pub(crate) fn cast(&mut self, value: ValueId, dtype: DType) -> Made {
        if self.dtype(value)? == dtype {
            return Ok(value);
        }
        self.one(&Op::Map { function: ScalarFunction::Cast, dtype }, &[value])
    }

    pub(crate) fn broadcast(
        &mut self,
        value: ValueId,
        shape: impl Into<Shape>,
        axes: &[usize],
    ) -> Made {
        let shape = shape.into();
        if self.shape(value)? == shape && axes.len() == shape.len() {
            return Ok(value);
        }
        self.one(&Op::Broadcast { shape, axes: axes.to_vec() }, &[value])
    }

    pub(crate) fn reshape(&mut self, value: ValueId, shape: impl Into<Shape>) -> Made {
        let shape = shape.into();
        if self.shape(value)? == shape {
            return Ok(value);
        }
        self.one(&Op::Reshape { shape }, &[value])
    }

    pub(crate) fn transpose(&mut self, value: ValueId, permutation: &[usize]) -> Made {
        if permutation.is_sorted() {
            return Ok(value);
        }
        self.one(&Op::Transpose { permutation: permutation.to_vec() }, &[value])
    }

    pub(crate) fn slice(
        &mut self,
        value: ValueId,
        starts: &[Expr],
        steps: &[i64],
        shape: &[Expr],
    ) -> Made {
        let whole = starts.iter().all(Expr::is_zero) && steps.iter().all(|&step| step == 1);
        if whole && self.shape(value)? == shape {
            return Ok(value);
        }
        let (starts, steps, shape) = (starts.to_vec(), steps.to_vec(), shape.into());
        self.one(&Op::Slice { starts, steps, shape }, &[value])
    }
}
