//! What each primitive is to lowering: its class, and its definition as loops.
//!
//! This is the one place of the crate that goes through the primitives. Grouping asks for the
//! [`Class`]; naive kernels are written from [`Writer::define`] (one element as an expression) and
//! [`Writer::define_nests`] (nests of its own); both, and the grouping, ask [`operand_index`] which
//! elements of the operands that takes. Code elsewhere names a primitive only where it does
//! something special for that one.

use graph::{Function, IterationSpace, NodeId, Op, ValueId};
use loops::build::less_equal;
use loops::{Condition, ScalarExpr};
use sym::Expr;
use tensor::{DType, ScalarFunction};

use crate::combination::Combination;
use crate::groups::Grouping;
use crate::iteration::Iteration;
use crate::naive::element::{convert, splat};
use crate::naive::index::{Ranges, concat_offset, extents, reshape_index};
use crate::naive::write::Writer;

/// How a primitive becomes code, and so what grouping may do with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    /// In memory before anything runs.
    Constant,
    /// Every element follows from its index alone. Has memory only where a reader needs it.
    Index,
    /// The elements of its operand at other indices. Has memory only where a reader needs it, or
    /// where a contraction would read with strides.
    Movement,
    /// The memory of its operand under another type.
    View,
    /// Every element is computed from one element of each operand; put into its readers where that
    /// repeats no work.
    Elementwise,
    /// As `Elementwise`, but where it reads is an operand's value, checked while running, which
    /// cannot be done inside guards.
    Indexed,
    /// As `Elementwise`, with a condition on the index: the value is read inside a guard.
    Guarded,
    /// As `Elementwise`, but never put into its readers.
    OwnNest,
    /// Its operands' kernels write its memory.
    Assembled,
    /// A sum of products, in a nest of its own.
    Contraction,
    /// A sum with a few numbers known now, written out; see [`Combination`].
    Combination,
    /// A reduction, in a nest of its own.
    Reduction,
    /// A loop over single elements, in a nest of its own; see [`Iteration`].
    Iteration,
    /// Statements of its own, which write its memory.
    Statements,
    /// No kernel, but a step of the program.
    Step,
}

/// The class of a primitive, its operands and regions left aside: no combinations, no iterations.
pub(crate) fn class(op: &Op) -> Class {
    match op {
        Op::Weight { .. } => Class::Constant,
        Op::Literal(tensor) if splat(tensor).is_none() => Class::Constant,
        Op::Literal(_) | Op::Iota { .. } | Op::Dimension(_) => Class::Index,
        Op::Broadcast { .. } | Op::Transpose { .. } | Op::Slice { .. } => Class::Movement,
        Op::Reshape { .. } | Op::Bind { .. } => Class::View,
        Op::Map { .. } | Op::Bitcast { .. } => Class::Elementwise,
        Op::Gather { .. } => Class::Indexed,
        Op::Pad { .. } => Class::Guarded,
        Op::RandomBits { .. } => Class::OwnNest,
        Op::Concat { .. } => Class::Assembled,
        Op::Contract { .. } => Class::Contraction,
        Op::Reduce { .. } => Class::Reduction,
        Op::Scatter { .. } | Op::ArgReduce { .. } | Op::Cumulate { .. } => Class::Statements,
        Op::Sort { .. } | Op::NonZero => Class::Statements,
        Op::If { .. }
        | Op::While { .. }
        | Op::Scan { .. }
        | Op::List { .. }
        | Op::Call { .. }
        | Op::Host { .. } => Class::Step,
    }
}

impl Class {
    /// Whether one nest over the elements of the result computes it, from known places of its
    /// operands.
    pub(crate) fn is_elementwise(self) -> bool {
        match self {
            Class::Index | Class::Movement | Class::Elementwise => true,
            Class::Indexed | Class::Guarded | Class::OwnNest => true,
            Class::Constant | Class::View | Class::Assembled => false,
            Class::Contraction | Class::Combination | Class::Reduction => false,
            Class::Iteration | Class::Statements | Class::Step => false,
        }
    }

    /// Whether its definition begins with a sum, or what turns leave, in a buffer of its own.
    pub(crate) fn is_sum(self) -> bool {
        matches!(self, Class::Contraction | Class::Reduction | Class::Iteration)
    }

    /// Whether a kernel writes the memory of its results.
    pub(crate) fn is_made_by_kernel(self) -> bool {
        !matches!(self, Class::Constant | Class::Index | Class::View | Class::Step)
    }

    /// Whether it sees its operands as dense memory, not element by element.
    pub(crate) fn needs_dense(self) -> bool {
        matches!(self, Class::View | Class::Step)
    }
}

/// The iteration space of a contraction or reduction.
pub(crate) fn space(op: &Op) -> Option<&IterationSpace> {
    match op {
        Op::Contract { space, .. } | Op::Reduce { space, .. } => Some(space),
        _ => None,
    }
}

/// What one element costs that is computed in its readers, in additions.
pub(crate) fn cost(op: &Op) -> u32 {
    use ScalarFunction as F;
    match op {
        Op::Map { function, .. } => match function {
            F::Div | F::Rem | F::Mod | F::Sqrt | F::Reciprocal => 4,
            F::Pow | F::Exp | F::Exp2 | F::Expm1 | F::Log | F::Log2 | F::Log1p | F::Erf => 16,
            F::Sin | F::Cos | F::Tan | F::Asin | F::Acos | F::Atan | F::Atan2 => 16,
            F::Sinh | F::Cosh | F::Tanh | F::Asinh | F::Acosh | F::Atanh => 16,
            _ => 1,
        },
        op if matches!(class(op), Class::Movement | Class::View) => 0,
        _ => 1,
    }
}

/// The element of operand number `operand` that a node reads for its result's element at `index`;
/// none where that is not one element known before running. Of a `Pad` or `Concat` this is the
/// place which an element has that comes from this operand.
pub(crate) fn operand_index(
    function: &Function,
    node: NodeId,
    operand: usize,
    index: &[Expr],
    ranges: Ranges<'_>,
) -> Option<Vec<Expr>> {
    let data = &function.nodes[node];
    let value = data.operands[operand];
    let of = |axis: usize| index[axis].clone();
    Some(match &data.op {
        Op::Map { .. } | Op::Bitcast { .. } | Op::Bind { .. } => index.to_vec(),
        // Of a loop over single elements, its begin.
        Op::Scan { .. } if class_of_node(function, node) == Class::Iteration => index.to_vec(),
        Op::Broadcast { axes, shape } => {
            let read = |(&axis, extent): (&usize, &Expr)| match extent.as_constant() {
                Some(1) => Expr::ZERO,
                None if *extent != shape[axis] => of(axis) * &(extent.clone() - 1).min(&Expr::ONE),
                _ => of(axis),
            };
            axes.iter().zip(extents(function, value)).map(read).collect()
        }
        Op::Reshape { .. } => {
            let from = extents(function, data.results[0]);
            reshape_index(from, extents(function, value), index, ranges)
        }
        Op::Transpose { permutation } => {
            let mut read = vec![Expr::ZERO; index.len()];
            for (axis, &source) in permutation.iter().enumerate() {
                read[source] = of(axis);
            }
            read
        }
        Op::Slice { starts, steps, .. } => {
            let read = |axis: usize| index[axis].clone() * steps[axis] + &starts[axis];
            (0..index.len()).map(read).collect()
        }
        Op::Pad { low, interior, .. } => match operand {
            0 => (0..index.len())
                .map(|axis| (of(axis) - &low[axis]).floor_div(&(interior[axis] + 1).into()))
                .collect(),
            _ => Vec::new(),
        },
        Op::Concat { axis } => {
            let mut read = index.to_vec();
            read[*axis] -= &concat_offset(function, node, operand);
            read
        }
        Op::RandomBits { .. } => Vec::new(),
        Op::Gather { batch, position, .. } if operand > 0 => {
            let inside =
                batch + position..index.len().min(position + extents(function, value).len());
            [&index[..*batch], &index[inside]].concat()
        }
        _ => return None,
    })
}

/// What holds of the index of an operand's element that a `Slice` shows; what always holds is left
/// out, so of all else it is nothing.
pub(crate) fn shown_where(
    function: &Function,
    node: NodeId,
    index: &[Expr],
    ranges: Ranges<'_>,
) -> Vec<Condition> {
    let Op::Slice { starts, shape, .. } = &function.nodes[node].op else { return Vec::new() };
    let mut conditions = Vec::new();
    for (axis, expr) in index.iter().enumerate() {
        let last = &starts[axis] + &shape[axis] - 1;
        if !sym::proves_less_equal(&starts[axis], expr, ranges) {
            conditions.push(less_equal(starts[axis].clone(), expr.clone()));
        }
        if !sym::proves_less_equal(expr, &last, ranges) {
            conditions.push(less_equal(expr.clone(), last));
        }
    }
    conditions
}

/// The mirror of [`operand_index`] for the primitives that only rename elements: the element of the
/// result that is made from the operand's element at `index`, and from no other. Of a `Slice` by
/// ones, where it shows the element (see [`shown_where`]).
pub(crate) fn result_index(
    function: &Function,
    node: NodeId,
    operand: usize,
    index: &[Expr],
    ranges: Ranges<'_>,
) -> Option<Vec<Expr>> {
    let data = &function.nodes[node];
    match &data.op {
        Op::Map { .. } | Op::Bitcast { .. } | Op::Bind { .. } => Some(index.to_vec()),
        // What is looked up at each element of a single index, and at no other.
        Op::Gather { axes, batch: 0, .. }
            if operand > 0 && extents(function, data.operands[0]).len() == axes.len() =>
        {
            Some(index.to_vec())
        }
        Op::Transpose { permutation } => {
            Some(permutation.iter().map(|&source| index[source].clone()).collect())
        }
        Op::Slice { starts, steps, .. } => {
            let by_ones = steps.iter().all(|&step| step == 1);
            by_ones.then(|| index.iter().zip(starts).map(|(expr, start)| expr - start).collect())
        }
        Op::Reshape { .. } => {
            let from = extents(function, data.operands[operand]);
            Some(reshape_index(from, extents(function, data.results[0]), index, ranges))
        }
        Op::Broadcast { axes, shape } => {
            let count: Expr = extents(function, data.operands[operand]).iter().product();
            if count != shape.iter().product() {
                return None;
            }
            let mut made = vec![Expr::ZERO; shape.len()];
            for (&axis, expr) in axes.iter().zip(index) {
                made[axis] = expr.clone();
            }
            Some(made)
        }
        _ => None,
    }
}

impl Writer<'_> {
    /// The element of a node's result at an index, from the elements of its operands.
    ///
    /// # Panics
    /// If the primitive has no index expression; the grouping gives such values memory.
    pub(crate) fn define(&mut self, node: NodeId, index: &[Expr]) -> ScalarExpr {
        let function = self.function;
        let data = &function.nodes[node];
        match &data.op {
            Op::Literal(tensor) => match splat(tensor) {
                Some(scalar) => ScalarExpr::Constant(scalar),
                None => panic!("{node}: a literal of several values has no memory"),
            },
            Op::Iota { result, axis } => {
                convert(ScalarExpr::Index(index[*axis].clone()), DType::I64, result.dtype)
            }
            Op::Dimension(expr) => ScalarExpr::Index(expr.clone()),
            Op::Map { function, dtype } => self.mapped(node, *function, *dtype, index),
            Op::Bitcast { dtype } => {
                let arguments = vec![self.operand(node, 0, index)];
                ScalarExpr::Apply { function: ScalarFunction::Bitcast, dtype: *dtype, arguments }
            }
            Op::Pad { .. } => self.padded(node, index),
            Op::Gather { axes, batch, position } => {
                self.gathered(node, axes, *batch, *position, index)
            }
            Op::RandomBits { .. } => self.random_bits(node, index),
            Op::Contract { .. } => self.combined(node, index),
            op => match class(op) {
                Class::Movement | Class::View => self.operand(node, 0, index),
                _ => panic!("{node}: `{}` has no index expression and no memory", op.name()),
            },
        }
    }

    /// Writes the nests of a primitive that come before the nest over its result's elements, or in
    /// its place.
    pub(crate) fn define_nests(&mut self, node: NodeId, grouping: &Grouping) {
        let function = self.function;
        match &function.nodes[node].op {
            Op::Contract { .. } if Combination::of(function, node).is_some() => {}
            Op::Contract { space, accumulator, .. } => self.contraction(node, space, *accumulator),
            Op::Reduce { space, reduction, accumulator } => {
                self.reduction(node, space, *reduction, *accumulator);
            }
            Op::ArgReduce { axis, greatest, last } => {
                self.arg_reduce(node, *axis, *greatest, *last);
            }
            Op::Cumulate { axis, reduction, exclusive, reverse } => {
                self.cumulate(node, *axis, *reduction, *exclusive, *reverse);
            }
            Op::Sort { axis, descending, kept } => self.sort(node, *axis, *descending, *kept),
            Op::Scatter { axes, batch, position, reduction } => {
                self.scatter(node, axes, *batch, *position, *reduction);
            }
            Op::NonZero => self.non_zero(node),
            Op::Scan { .. } => self.iteration(node),
            Op::Pad { .. } if grouping.shows_operand(function, node) => self.border(node),
            op => debug_assert!(class(op) != Class::Statements, "{node} has no statements"),
        }
    }
}

/// The class of what defines a value; none for a parameter.
pub(crate) fn class_of(function: &Function, value: ValueId) -> Option<Class> {
    function.producer(value).map(|(node, _)| class_of_node(function, node))
}

/// The class of a node.
pub(crate) fn class_of_node(function: &Function, node: NodeId) -> Class {
    match class(&function.nodes[node].op) {
        Class::Contraction if Combination::of(function, node).is_some() => Class::Combination,
        Class::Step if Iteration::of(function, node).is_some() => Class::Iteration,
        class => class,
    }
}
