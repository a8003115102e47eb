//! The primitives as operators use them: on [`Operand`]s, with known elements folded away.
//!
//! Every method first tries to fold, then adds a node through `graph::FunctionBuilder`, which
//! infers the type. Extents that differ as expressions but may be equal are made equal by an
//! assumption checked at entry. Sizes are checked against the limits before a node is made.

use base::limits::{exceeded, more_than};
use base::{Arena, ConstantId, Diagnostic, Limits, codes};
use graph::{FunctionBuilder, IterationSpace, Known, Op, TensorType, Type, ValueId};
use module::Constant;
use sym::{Expr, Range, SymbolId};
use tensor::{DType, Reduction, Scalar, ScalarFunction, Tensor};

use crate::facts::{Facts, Here, Needs};
use crate::port::PortExtent;
use crate::value::{Coded, Operand, Texts};

/// A bf16 sum of at most this many terms is rounded after each addition, which is what the
/// specification's functions say step by step. In longer ones the roundings would swallow terms, so
/// they are formed in f32.
const TERMS_AS_SPECIFIED: i64 = 16;

/// The result of lowering: what, or why not. The front end adds the place.
pub type Accepted<T> = std::result::Result<T, Diagnostic>;

/// The function under construction and what belongs to it.
pub struct Graph {
    /// Makes its nodes.
    pub builder: FunctionBuilder,
    /// The weights that its nodes read.
    pub constants: Arena<ConstantId, Constant>,
    /// What is refused as too large.
    pub limits: Limits,
    /// What is known of the run that the function is for.
    pub facts: Facts,
    /// What must be known besides.
    pub(crate) needs: Needs,
    /// What is being lowered.
    pub here: Here,
    /// How many values there were when the outermost open region was opened.
    pub(crate) outer_values: Option<usize>,
    /// Nodes so far that draw random numbers without a seed.
    pub random_nodes: u64,
    /// Elements so far of constants that have been computed by now.
    computed_elements: u64,
}

/// A refusal because operands do not fit together.
#[cold]
#[inline(never)]
pub fn shape_error(reason: impl Into<String>) -> Diagnostic {
    Diagnostic::error(codes::INCONSISTENT_SHAPES, "the inputs do not fit the operator")
        .because(reason)
        .remedy("check the model with the tool that exported it, or export it again")
}

/// A refusal because an operator does not take an element type.
#[cold]
#[inline(never)]
pub fn type_error(reason: impl Into<String>) -> Diagnostic {
    Diagnostic::error(codes::UNSUPPORTED_TYPE, "the operator does not take these element types")
        .because(reason)
        .remedy("export the model with other element types")
}

/// A refusal of a use of a known operator.
#[cold]
#[inline(never)]
pub fn unsupported(reason: impl Into<String>) -> Diagnostic {
    Diagnostic::error(codes::UNSUPPORTED_OPERATOR, "this use of the operator is not supported")
        .because(reason)
        .remedy("export the model without it")
}

impl Graph {
    /// An empty function of a name.
    pub fn new(name: &str, limits: Limits) -> Graph {
        Graph {
            builder: FunctionBuilder::new(name),
            constants: Arena::new(),
            limits,
            facts: Facts::default(),
            needs: Needs::default(),
            here: Here::default(),
            outer_values: None,
            random_nodes: 0,
            computed_elements: 0,
        }
    }

    // --- values ---

    /// A value of these extents that a run is given; names of extents become symbols.
    ///
    /// # Errors
    /// A size beyond the limits; a rank that is not known.
    pub fn parameter(
        &mut self,
        name: &str,
        dtype: DType,
        shape: &[PortExtent],
    ) -> Accepted<Operand> {
        let most = self.limits.dimension;
        let mut extents = Vec::new();
        for extent in shape {
            extents.push(match extent {
                PortExtent::Fixed(extent) => Expr::from(*extent),
                PortExtent::Symbolic(name) => {
                    Expr::symbol(self.builder.symbol(name, Range::new(0, most)))
                }
                PortExtent::Any => return Err(shape_error("its rank is not known")),
            });
        }
        self.check_size(&extents)?;
        let ty = TensorType { dtype, shape: extents.into() };
        let id = self.builder.parameter(name, Type::Tensor(ty.clone()));
        self.builder.set_name(id, name);
        Ok(Operand::of_node(id, ty))
    }

    fn adopt(&self, id: ValueId) -> Accepted<Operand> {
        let most = self.limits.primitives;
        if self.builder.function().nodes.len() > most {
            let message = format!("the model comes to more than {most} primitives");
            return Err(exceeded("primitives", more_than(most as u64), message)
                .because("that is how many its nodes are written as until here"));
        }
        let ty = self.builder.function().ty(id);
        if let Type::Tensor(ty) = ty {
            self.check_size(&ty.shape)?;
        }
        Ok(Operand::of_value(id, ty))
    }

    /// What the builder made, with its type.
    pub fn built(&self, built: std::result::Result<ValueId, String>) -> Accepted<Operand> {
        self.adopt(built.map_err(shape_error)?)
    }

    /// All that the builder made, with their types.
    pub fn built_all(
        &self,
        built: std::result::Result<Vec<ValueId>, String>,
    ) -> Accepted<Vec<Operand>> {
        built.map_err(shape_error)?.into_iter().map(|id| self.adopt(id)).collect()
    }

    /// Counts elements of a constant that is about to be computed, `what` it is, and refuses more
    /// of them than the limit.
    pub fn count_computed(&mut self, elements: usize, what: &str) -> Accepted<()> {
        self.computed_elements = self.computed_elements.saturating_add(elements as u64);
        let most = self.limits.computed_elements;
        if self.computed_elements <= most {
            return Ok(());
        }
        let message = format!("{elements} elements more would be computed while importing");
        let needed = more_than(self.computed_elements);
        Err(exceeded("computed-elements", needed, message)
            .because(format!("they are {what}; at most {most} are computed for a model")))
    }

    /// Refuses shapes that no machine holds.
    pub fn check_size(&self, shape: &[Expr]) -> Accepted<()> {
        if shape.len() > self.limits.rank {
            let (rank, most) = (shape.len(), self.limits.rank);
            return Err(exceeded("rank", rank as u64, format!("a value has {rank} axes"))
                .because(format!("at most {most} are accepted")));
        }
        let mut count: u64 = 1;
        for extent in shape {
            let Some(extent) = extent.as_constant() else {
                if extent.is_too_long() {
                    let message = "the formula of an extent is too long";
                    return Err(Diagnostic::error(codes::LIMIT_EXCEEDED, message)
                        .because("it grows with each node that computes with it")
                        .remedy("give the model's named dimensions values"));
                }
                continue;
            };
            let Ok(extent) = u64::try_from(extent) else {
                return Err(shape_error(format!("an axis would have extent {extent}")));
            };
            // An empty tensor may have any other extents, but none beyond the limit alone.
            count = count.saturating_mul(extent.max(1));
        }
        if count > self.limits.elements {
            let most = self.limits.elements;
            let message = format!("a value would have {count} elements or more");
            return Err(exceeded("elements", count, message)
                .because(format!("at most {most} are accepted")));
        }
        Ok(())
    }

    /// The node of a value, made now if there is none.
    pub fn data(&mut self, value: &Operand) -> Accepted<ValueId> {
        if let Some(id) = value.cell().get() {
            return Ok(*id);
        }
        if value.list().is_some() {
            // Not kept: it may be one of a region.
            return self.list_node(value);
        }
        let id = if let Some(Coded { codes, texts }) = value.coded().cloned() {
            let list = match texts {
                Texts::Data(list) => list,
                Texts::Known(texts) => {
                    let strings = Tensor::from_strings(&[texts.len()], texts.to_vec());
                    Operand::of_weight(String::new(), strings)
                }
            };
            let shape = codes.shape().iter().cloned().map(Some).collect();
            let result = (DType::String, shape);
            let taken = self.host(("take", ""), &[], &[&codes, &list], &[result])?;
            self.data(&taken[0])?
        } else if let Some(weight) =
            value.weight().filter(|weight| weight.is_literal || weight.is_strings())
        {
            self.builder.literal(weight.tensor.clone())
        } else if let Some(weight) = value.weight() {
            let (name, tensor) = (weight.name.clone(), weight.tensor.clone());
            let constant = self.constants.push(Constant { name: name.clone(), tensor });
            let id = self.builder.weight(constant, value.ty().clone()).map_err(shape_error)?;
            self.builder.set_name(id, name);
            id
        } else {
            let known = value.known().unwrap_or_default();
            self.builder.known(value.ty(), known).map_err(shape_error)?
        };
        Ok(*value.cell().get_or_init(|| id))
    }

    /// The nodes of values.
    pub fn all_data<'v>(
        &mut self,
        values: impl IntoIterator<Item = &'v Operand>,
    ) -> Accepted<Vec<ValueId>> {
        values.into_iter().map(|value| self.data(value)).collect()
    }

    /// A known number of rank 0.
    pub fn number(&self, dtype: DType, number: f64) -> Operand {
        Operand::of_scalar(Scalar::from_f64(dtype, number))
    }

    /// A tensor of one number throughout.
    pub fn full(&mut self, shape: &[Expr], scalar: Scalar) -> Accepted<Operand> {
        self.broadcast_to(&Operand::of_scalar(scalar), shape)
    }

    /// The value of an expression, an i64 of rank 0.
    pub fn dimension(&self, expr: Expr) -> Operand {
        Operand::of_known(DType::I64, &[], vec![Known::of(DType::I64, expr)])
    }

    /// Counts along an axis.
    pub fn iota(&mut self, dtype: DType, shape: &[Expr], axis: usize) -> Accepted<Operand> {
        self.check_size(shape)?;
        let built = self.builder.iota(dtype, shape, axis);
        self.built(built)
    }

    // --- elementwise ---

    /// A scalar function of operands that are broadcast to one shape as NumPy does.
    pub fn map(&mut self, function: ScalarFunction, operands: &[&Operand]) -> Accepted<Operand> {
        let types: Vec<DType> = operands.iter().map(|operand| operand.dtype()).collect();
        let dtype = function.result_dtype(&types, None).map_err(type_error)?;
        let shapes: Vec<&[Expr]> = operands.iter().map(|operand| operand.shape()).collect();
        let shape = self.common_shape(&shapes)?;
        let own = operands.iter().find(|operand| operand.ty().shape == shape);
        let shape = own.map_or_else(|| shape.into(), |operand| operand.ty().shape.clone());
        let operands: Vec<Operand> = operands
            .iter()
            .map(|operand| self.broadcast_to(operand, &shape))
            .collect::<Accepted<_>>()?;
        if let Some(folded) = self.fold_map(function, dtype, &operands) {
            return Ok(folded);
        }
        let operands = self.all_data(&operands)?;
        let built = self.builder.map(function, &operands);
        self.built(built)
    }

    /// The elements in another type.
    pub fn cast(&mut self, value: &Operand, dtype: DType) -> Accepted<Operand> {
        if value.dtype() == dtype {
            return Ok(value.clone());
        }
        if dtype == DType::String || value.dtype() == DType::String {
            return Err(type_error("conversions from and to strings are not supported"));
        }
        let operands = [value.clone()];
        if let Some(folded) = self.fold_map(ScalarFunction::Cast, dtype, &operands) {
            return Ok(folded);
        }
        let id = self.data(value)?;
        let built = self.builder.cast(id, dtype);
        self.built(built)
    }

    /// Operands of one shape.
    fn fold_map(
        &self,
        function: ScalarFunction,
        dtype: DType,
        operands: &[Operand],
    ) -> Option<Operand> {
        let shape = operands.first()?.constant_shape()?;
        let known: Vec<&[Known]> =
            operands.iter().map(|operand| operand.known()).collect::<Option<_>>()?;
        let ranges = |symbol| self.builder.range(symbol);
        let elements = (0..known[0].len()).map(|index| {
            let arguments: Vec<&Known> = known.iter().map(|operand| &operand[index]).collect();
            Known::apply(function, dtype, &arguments, &ranges)
        });
        let elements = elements.collect::<Option<Vec<Known>>>()?;
        Some(Operand::of_known(dtype, &shape, elements))
    }

    // --- extents ---

    /// Assumes two extents to be equal; refuses if they cannot be.
    pub fn assume_equal(&mut self, a: &Expr, b: &Expr) -> Accepted<()> {
        self.builder.assume_equal(a, b).map_err(shape_error)
    }

    /// As [`Self::assume_equal`]; the refusal says `which` axes they are of.
    pub fn assume_equal_axes(&mut self, a: &Expr, b: &Expr, which: &str) -> Accepted<()> {
        let equal = self.builder.assume_equal(a, b);
        equal.map_err(|reason| shape_error(format!("{which}: {reason}")))
    }

    /// The shape to which shapes broadcast as NumPy does.
    pub fn common_shape(&mut self, shapes: &[&[Expr]]) -> Accepted<Vec<Expr>> {
        self.builder.common_shape(shapes).map_err(shape_error)
    }

    /// The value under a shape whose extents are equal by assumption.
    pub fn refine(&mut self, value: &Operand, shape: &[Expr]) -> Accepted<Operand> {
        if value.shape() == shape {
            return Ok(value.clone());
        }
        if value.rank() != shape.len() {
            return Err(shape_error(format!("rank {} is not {}", value.rank(), shape.len())));
        }
        for (axis, (a, b)) in value.shape().to_vec().iter().zip(shape).enumerate() {
            self.assume_equal_axes(a, b, &format!("axis {axis}"))?;
        }
        self.reshape(value, shape)
    }

    // --- indexing ---

    /// Combines `updates` into `data`; see `graph::Op::Scatter`.
    pub fn scatter(
        &mut self,
        data: &Operand,
        updates: &Operand,
        indices: &[Operand],
        op: Op,
    ) -> Accepted<Operand> {
        let mut operands = vec![self.data(data)?, self.data(updates)?];
        operands.extend(self.all_data(indices)?);
        self.node(op, &operands)
    }

    // --- arithmetic along axes ---

    /// A sum of products over a space.
    pub fn contract(
        &mut self,
        space: IterationSpace,
        lhs: &Operand,
        rhs: &Operand,
        accumulator: DType,
        dtype: DType,
    ) -> Accepted<Operand> {
        self.check_size(&space.extents[..space.parallel])?;
        let (lhs, rhs) = (self.data(lhs)?, self.data(rhs)?);
        let built = self.builder.contract(space, lhs, rhs, accumulator, dtype);
        self.built(built)
    }

    /// The matrix product of values whose extents agree as expressions.
    pub fn matmul(&mut self, lhs: &Operand, rhs: &Operand) -> Accepted<Operand> {
        self.matmul_as(lhs, rhs, lhs.dtype())
    }

    /// As [`Self::matmul`], with a result of this element type.
    pub fn matmul_as(&mut self, lhs: &Operand, rhs: &Operand, dtype: DType) -> Accepted<Operand> {
        let (lhs, rhs) = (self.data(lhs)?, self.data(rhs)?);
        let built = self.builder.matmul_as(lhs, rhs, dtype);
        self.built(built)
    }

    /// A reduction over a space.
    pub fn reduce(
        &mut self,
        space: IterationSpace,
        value: &Operand,
        reduction: Reduction,
        accumulator: DType,
    ) -> Accepted<Operand> {
        self.check_size(&space.extents[..space.parallel])?;
        let id = self.data(value)?;
        let built = self.builder.reduce(space, id, reduction, accumulator);
        self.built(built)
    }

    /// Reduces whole axes; with `keep` they stay with extent 1. Sums and products of short floats
    /// are formed in f32, but for those of few bf16; the result has the operand's type.
    pub fn reduce_axes(
        &mut self,
        value: &Operand,
        axes: &[usize],
        reduction: Reduction,
        keep: bool,
    ) -> Accepted<Operand> {
        let mut axes = axes.to_vec();
        axes.sort_unstable();
        if axes.is_empty() {
            return Ok(value.clone());
        }
        if let Some(axis) = axes.last().filter(|&&axis| axis >= value.rank()) {
            let message = format!("a tensor of rank {} has no axis {axis}", value.rank());
            return Err(shape_error(message));
        }
        if let Some(folded) = self.fold_reduction(value, &axes, reduction, keep) {
            return Ok(folded);
        }
        let dtype = value.dtype();
        let orders = matches!(reduction, Reduction::Min | Reduction::Max);
        let terms = axes.iter().map(|&axis| &value.shape()[axis]).product::<Expr>();
        let is_short = terms.as_constant().is_some_and(|terms| terms <= TERMS_AS_SPECIFIED);
        let accumulator = match orders || dtype == DType::BF16 && is_short {
            true => dtype,
            false => graph::accumulator_of(dtype),
        };
        let id = self.data(value)?;
        let reduced = self.builder.reduce_axes(id, &axes, reduction, accumulator, keep);
        let reduced = self.built(reduced)?;
        self.cast(&reduced, dtype)
    }

    fn fold_reduction(
        &self,
        value: &Operand,
        axes: &[usize],
        reduction: Reduction,
        keep: bool,
    ) -> Option<Operand> {
        let (known, shape) = (value.known()?, value.constant_shape()?);
        if axes.len() != shape.len() || known.is_empty() || !reduction.accepts(value.dtype()) {
            return None;
        }
        let ranges = |symbol| self.builder.range(symbol);
        let function = reduction.as_function();
        let (first, rest) = known.split_first()?;
        let total = rest.iter().try_fold(first.clone(), |total, element| {
            Known::apply(function, value.dtype(), &[&total, element], &ranges)
        })?;
        let shape = if keep { vec![1; shape.len()] } else { Vec::new() };
        Some(Operand::of_known(value.dtype(), &shape, vec![total]))
    }

    /// A symbol for an i64 of rank 0, from 0 to `most`.
    pub(crate) fn bound_symbol(&mut self, id: ValueId, most: &Expr) -> Accepted<SymbolId> {
        let range = Range::new(0, self.builder.bounds(most).1);
        let name = format!("count_{}", self.builder.function().symbols.len());
        self.builder.bind(id, &name, range).map_err(shape_error)
    }

    // --- any node ---

    /// A node with one result.
    pub fn node(&mut self, op: Op, operands: &[ValueId]) -> Accepted<Operand> {
        let results = self.builder.add(op, operands).map_err(shape_error)?;
        self.adopt(results[0])
    }

    /// A primitive with one result.
    pub fn primitive(&mut self, op: Op, operands: &[&Operand]) -> Accepted<Operand> {
        let operands = self.all_data(operands.iter().copied())?;
        self.node(op, &operands)
    }

    /// A primitive with two results.
    pub fn primitive_pair(
        &mut self,
        op: Op,
        operands: &[&Operand],
    ) -> Accepted<(Operand, Operand)> {
        let operands = self.all_data(operands.iter().copied())?;
        let results = self.builder.add(op, &operands).map_err(shape_error)?;
        Ok((self.adopt(results[0])?, self.adopt(results[1])?))
    }
}
