//! How far rounding may take the elements of what some nodes compute.
//!
//! A running error analysis (Wilkinson, "Rounding Errors in Algebraic Processes", 1963): beside
//! each element stands a bound on how far two ways to compute it may lie apart, both of which
//! round where the types say, form sums in an order of their own and round products or not. What
//! the nodes are given is exact.
//!
//! - A map's bound is the farthest that its value goes while its operands go through what their
//!   bounds allow, plus [`ROUNDINGS`] of its own, if it rounds. So conditions (a logarithm near
//!   zero, a quotient) and decisions (a comparison, a conversion to integers) need no rule each.
//! - A sum's bound is the sum of its terms' bounds, plus a share of the sum of their sizes.
//! - What moves elements moves their bounds.
//! - An infinite bound says that the element may be anything, no number included.

use std::collections::{BTreeMap, BTreeSet};

use base::{ConstantId, IntoTree};
use graph::{Function, Node, NodeId, Op, ValueId};
use sym::Expr;
use tensor::minifloat::Overflow;
use tensor::{DType, Reduction, Scalar, ScalarFunction, Tensor};

use super::run::Run;
use super::{SymbolValues, axes};
use crate::{EvaluationPrecision, Settings};

/// By how many roundings two values of a scalar function lie apart, of operands that are equal: the
/// worst of the expansions is off by 2.3 units in the last place, the evaluator by half a unit.
const ROUNDINGS: f64 = 6.0;

/// Of the bound on the error of a sum, which grows by a rounding a term, the share that sums reach.
const SHARE_OF_TERMS: f64 = 0.25;

/// What is allowed, relative to the value, of primitives that have no rule here.
const UNKNOWN: f64 = 1e-5;

/// Bounds of the elements of a value, f64 as the value's shape; none where all are exact.
type Bounds = Option<Tensor>;

/// The bounds on rounding of these values, which some nodes of a function compute out of others.
/// `values` has what the evaluator computed for everything that the nodes read and make. A value
/// that is not in the result is exact.
pub fn rounding_bounds(
    function: &Function,
    nodes: &[NodeId],
    values: &BTreeMap<ValueId, Tensor>,
) -> BTreeMap<ValueId, Tensor> {
    let no_constants = |_: ConstantId| Tensor::zeros(DType::Bool, &[0]);
    let observe = &mut |_: ValueId, _: &Tensor| {};
    let settings = Settings::from(EvaluationPrecision::F64);
    let run = Run::new(function, None, &no_constants, settings, SymbolValues::new(), observe);
    let mut part = Part { function, values, run, bounds: BTreeMap::new() };
    let mut rest: BTreeSet<NodeId> = nodes.iter().copied().into_set();
    while let Some(node) = part.next(&rest) {
        rest.remove(&node);
        for (&value, bounds) in function.nodes[node].results.iter().zip(part.node(node)) {
            part.bounds.extend(bounds.map(|bounds| (value, bounds)));
        }
    }
    part.bounds
}

/// The nodes under way.
struct Part<'a> {
    function: &'a Function,
    values: &'a BTreeMap<ValueId, Tensor>,
    /// Evaluates single nodes in f64.
    run: Run<'a>,
    bounds: BTreeMap<ValueId, Tensor>,
}

impl Part<'_> {
    /// A node that reads nothing of the others.
    fn next(&self, rest: &BTreeSet<NodeId>) -> Option<NodeId> {
        let waits = |value: &ValueId| {
            self.function.producer(*value).is_some_and(|(node, _)| rest.contains(&node))
        };
        rest.iter().copied().find(|&node| !self.function.nodes[node].operands.iter().any(waits))
    }

    /// The bounds of a node's results.
    fn node(&self, node: NodeId) -> Vec<Bounds> {
        let node = &self.function.nodes[node];
        let results: Option<Vec<&Tensor>> =
            node.results.iter().map(|value| self.values.get(value)).collect();
        let operands: Option<Vec<&Tensor>> =
            node.operands.iter().map(|value| self.values.get(value)).collect();
        let (Some(results), Some(operands)) = (results, operands) else {
            return vec![None; node.results.len()];
        };
        if results.iter().chain(&operands).any(|it| it.dtype() == DType::String) {
            return vec![None; results.len()];
        }
        let of_operands: Vec<Option<&Tensor>> =
            node.operands.iter().map(|value| self.bounds.get(value)).collect();
        let all = Operands { of: operands, bounds: of_operands };
        match (&node.op, &*results) {
            (Op::Literal(_) | Op::Weight { .. } | Op::Iota { .. } | Op::Dimension(_), _) => {
                vec![None]
            }
            (_, [result]) => match self.single(node, &all, result) {
                Some(bounds) => vec![bounds.map(|bounds| no_number_is_infinite(&bounds))],
                None => all.unknown(&results),
            },
            _ => all.unknown(&results),
        }
    }

    /// The bounds of an only result; none for a primitive without a rule.
    fn single(&self, node: &Node, all: &Operands<'_>, result: &Tensor) -> Option<Bounds> {
        let unbounded = Some(Some(splat(result.shape(), f64::INFINITY)));
        let is_exact = |numbers: &[usize]| numbers.iter().all(|&it| all.bounds[it].is_none());
        match &node.op {
            Op::Map { function: ScalarFunction::Bitcast, .. } => None,
            Op::Map { function, .. } => Some(all.of_map(*function, result)),
            Op::Broadcast { .. }
            | Op::Reshape { .. }
            | Op::Transpose { .. }
            | Op::Slice { .. }
            | Op::Pad { .. }
            | Op::Concat { .. } => self.moved(node, all, all.of.len()),
            Op::Gather { .. } | Op::Scatter { reduction: None, .. } => {
                let data = if matches!(node.op, Op::Gather { .. }) { 1 } else { 2 };
                let indices: Vec<usize> = (data..all.of.len()).collect();
                if is_exact(&indices) { self.moved(node, all, data) } else { unbounded }
            }
            Op::Contract { .. } => self.contraction(node, all, result),
            Op::Reduce { space, reduction, accumulator } => {
                let share = share(*accumulator, terms_of(&space.extents[space.parallel..]));
                let op = |reduction| Op::Reduce {
                    space: space.clone(),
                    reduction,
                    accumulator: DType::F64,
                };
                self.reduction(node, all, *reduction, share, &op)
            }
            &Op::Cumulate { axis, reduction, exclusive, reverse } => {
                let op = |reduction| Op::Cumulate { axis, reduction, exclusive, reverse };
                let terms = result.shape()[axis] as f64;
                self.reduction(node, all, reduction, share(result.dtype(), terms), &op)
            }
            &Op::ArgReduce { axis, greatest, .. } => {
                let bounds = all.bounds[0]?;
                Some(Some(axes::arg_reduce_bounds(all.of[0], bounds, result, axis, greatest)))
            }
            _ => None,
        }
    }

    /// Bounds that move as the first operands do; the others stay as they are.
    fn moved(&self, node: &Node, all: &Operands<'_>, data: usize) -> Option<Bounds> {
        if all.bounds[..data].iter().all(Option::is_none) {
            return Some(None);
        }
        let bounds = (0..data).map(|number| all.bound_or_zero(number));
        let rest = all.of[data..].iter().map(|&it| it.clone());
        let operands: Vec<Tensor> = bounds.chain(rest).collect();
        Some(Some(self.run.single(node, &operands).ok()?))
    }

    /// `(|a| + da) (|b| + db) - |a| |b|`, summed, and a share of the sum of the products' sizes.
    fn contraction(&self, node: &Node, all: &Operands<'_>, result: &Tensor) -> Option<Bounds> {
        let Op::Contract { space, accumulator, dtype } = &node.op else { return None };
        let op = Op::Contract { space: space.clone(), accumulator: DType::F64, dtype: DType::F64 };
        let sum = |a: Tensor, b: Tensor| self.run.single(&with_op(node, op.clone()), &[a, b]).ok();
        let share = share(*accumulator, terms_of(&space.extents[space.parallel..]));
        let most = sum(all.most(0), all.most(1))?;
        let rounded = if dtype == accumulator { 0.0 } else { ROUNDINGS * half_unit(*dtype) };
        let own =
            each(&[&most, &result.cast(DType::F64)], |it| share * it[0] + rounded * it[1].abs());
        if all.bounds.iter().all(Option::is_none) {
            let is_exact = share == 0.0 && rounded == 0.0;
            return Some((!is_exact).then_some(own));
        }
        let sizes = sum(size(all.of[0]), size(all.of[1]))?;
        Some(Some(each(&[&most, &sizes, &own], |it| it[0] - it[1] + it[2])))
    }

    /// Bounds of what combines terms: `op` does it by another reduction, in f64.
    fn reduction(
        &self,
        node: &Node,
        all: &Operands<'_>,
        reduction: Reduction,
        share: f64,
        op: &dyn Fn(Reduction) -> Op,
    ) -> Option<Bounds> {
        let combine = |reduction, operand: Tensor| {
            self.run.single(&with_op(node, op(reduction)), &[operand]).ok()
        };
        if all.bounds[0].is_none() && share == 0.0 {
            return Some(None);
        }
        let bounds = match reduction {
            Reduction::Sum => {
                let (sum, most) =
                    (combine(reduction, all.bound_or_zero(0))?, combine(reduction, all.most(0))?);
                each(&[&sum, &most], |it| it[0] + share * it[1])
            }
            Reduction::Product => {
                let (most, sizes) =
                    (combine(reduction, all.most(0))?, combine(reduction, size(all.of[0]))?);
                each(&[&most, &sizes], |it| it[0] - it[1] + share * it[0])
            }
            // None of them goes farther than the farthest of its terms.
            Reduction::Min | Reduction::Max | Reduction::And | Reduction::Or => {
                if all.bounds[0].is_none() {
                    return Some(None);
                }
                each(&[&combine(Reduction::Max, all.bound_or_zero(0))?], |it| it[0].max(0.0))
            }
        };
        Some(Some(bounds))
    }
}

/// What a node reads, and the bounds of it.
struct Operands<'a> {
    of: Vec<&'a Tensor>,
    bounds: Vec<Option<&'a Tensor>>,
}

impl Operands<'_> {
    fn bound_or_zero(&self, number: usize) -> Tensor {
        let zero = || Tensor::zeros(DType::F64, self.of[number].shape());
        self.bounds[number].cloned().unwrap_or_else(zero)
    }

    /// The largest size that each element may have.
    fn most(&self, number: usize) -> Tensor {
        let size = size(self.of[number]);
        match self.bounds[number] {
            Some(bounds) => each(&[&size, bounds], |it| it[0] + it[1]),
            None => size,
        }
    }

    /// What is said of primitives without a rule: of exact operands a part of the value, of others
    /// nothing.
    fn unknown(&self, results: &[&Tensor]) -> Vec<Bounds> {
        let is_exact = self.bounds.iter().all(Option::is_none);
        let of_result = |result: &&Tensor| match (is_exact, result.dtype().is_float()) {
            (true, true) => Some(each(&[&result.cast(DType::F64)], |it| UNKNOWN * it[0].abs())),
            (true, false) => None,
            (false, _) => Some(splat(result.shape(), f64::INFINITY)),
        };
        results.iter().map(of_result).collect()
    }

    fn of_map(&self, function: ScalarFunction, result: &Tensor) -> Bounds {
        let dtype = result.dtype();
        let own = if rounds(function) { ROUNDINGS * half_unit(dtype) } else { 0.0 };
        if own == 0.0 && self.bounds.iter().all(Option::is_none) {
            return None;
        }
        let mut bounds = vec![0.0; result.len()];
        for (index, into) in bounds.iter_mut().enumerate() {
            let value = result.get_scalar(index).as_f64();
            let rounding = own * value.abs();
            *into = if rounding.is_finite() { rounding } else { 0.0 };
            if self.bounds.iter().flatten().any(|bounds| bounds.get_f64(index) != 0.0) {
                *into += self.farthest(function, dtype, index, value);
            }
        }
        Some(Tensor::from_vec(result.shape(), bounds))
    }

    /// How far from its value a scalar function goes while its operands go as far as they may: at
    /// the ends of their intervals, in the middle, and at zero, where poles and kinks are.
    fn farthest(&self, function: ScalarFunction, dtype: DType, index: usize, value: f64) -> f64 {
        let of_operand = |(operand, bounds): (&&Tensor, &Option<&Tensor>)| {
            points(operand.get_scalar(index), bounds.map_or(0.0, |it| it.get_f64(index)))
        };
        let points: Vec<Vec<Scalar>> = self.of.iter().zip(&self.bounds).map(of_operand).collect();
        if matches!(function, ScalarFunction::Eq | ScalarFunction::Ne) {
            let ends = |points: &[Scalar]| {
                let all = points.iter().map(|it| it.as_f64());
                (all.clone().fold(f64::INFINITY, f64::min), all.fold(f64::NEG_INFINITY, f64::max))
            };
            let ((a, b), (c, d)) = (ends(&points[0]), ends(&points[1]));
            return f64::from(u8::from(a <= d && c <= b));
        }
        let computed = match function {
            ScalarFunction::Cast => dtype,
            _ if dtype.is_float() => DType::F64,
            _ => dtype,
        };
        let count: usize = points.iter().map(Vec::len).product();
        let mut arguments = [Scalar::bool(false); ScalarFunction::MOST_OPERANDS];
        (0..count).fold(0.0, |farthest, mut number| {
            for (argument, points) in arguments.iter_mut().zip(&points) {
                *argument = points[number % points.len()];
                number /= points.len();
            }
            let there = function.evaluate(computed, &arguments[..points.len()]).as_f64();
            // Overflow is that of the declared type.
            let stored = Scalar::from_f64_with(dtype, there, Overflow::Special).as_f64();
            let there = if stored.is_finite() { there } else { stored };
            f64::max(farthest, distance(there, value))
        })
    }
}

/// Where a scalar function is tried for an operand of a value and a bound; floats are f64.
fn points(value: Scalar, bound: f64) -> Vec<Scalar> {
    let dtype = value.dtype();
    if dtype == DType::Bool {
        let other = Scalar::bool(!value.as_bool());
        return if bound > 0.0 { vec![value, other] } else { vec![value] };
    }
    if !dtype.is_float() {
        let (middle, bound) = (value.as_i128(), bound.min(1e30) as i128);
        let (least, most) = dtype.integer_range().unwrap_or((middle, middle));
        let inside = |at: i128| Scalar::from_i128(dtype, at.clamp(least, most));
        return [0, -bound, bound].map(|by| inside(middle + by)).to_vec();
    }
    let middle = value.as_f64();
    let mut points = vec![Scalar::f64(middle)];
    if bound > 0.0 {
        points.extend([middle - bound, middle + bound].map(Scalar::f64));
        if middle.abs() <= bound {
            points.push(Scalar::f64(0.0));
        }
        if bound.is_infinite() {
            points.push(Scalar::f64(f64::NAN));
        }
    }
    points
}

/// How far two values lie apart; infinitely far where one is no number or infinite alone.
fn distance(a: f64, b: f64) -> f64 {
    if a == b || a.is_nan() && b.is_nan() {
        return 0.0;
    }
    let distance = (a - b).abs();
    if distance.is_nan() { f64::INFINITY } else { distance }
}

/// Whether a scalar function of floats rounds; the others give one of their operands, a whole
/// number, or a value that is fixed to the bit.
fn rounds(function: ScalarFunction) -> bool {
    use ScalarFunction::*;
    !matches!(
        function,
        Neg | Abs | Sign | Min | Max | Floor | Ceil | Round | Trunc | Select | Cast | Bitcast
    )
}

/// Half a unit in the last place, relative to the value: what one rounding moves. 0 for integers.
fn half_unit(dtype: DType) -> f64 {
    match dtype {
        DType::F64 => f64::EPSILON / 2.0,
        DType::F32 => f64::from(f32::EPSILON) / 2.0,
        dtype => tensor::compare::last_place(dtype) / 2.0,
    }
}

/// The share of the sizes of terms by which two sums of them may lie apart.
fn share(accumulator: DType, terms: f64) -> f64 {
    half_unit(accumulator) * (ROUNDINGS + SHARE_OF_TERMS * terms)
}

fn terms_of(extents: &[Expr]) -> f64 {
    extents.iter().map(|extent| extent.as_constant().unwrap_or(1) as f64).product()
}

fn with_op(node: &Node, op: Op) -> Node {
    Node { op, ..node.clone() }
}

fn splat(shape: &[usize], value: f64) -> Tensor {
    Tensor::splat(shape, Scalar::f64(value))
}

fn size(tensor: &Tensor) -> Tensor {
    each(&[&tensor.cast(DType::F64)], |it| it[0].abs())
}

fn no_number_is_infinite(bounds: &Tensor) -> Tensor {
    each(&[bounds], |it| if it[0].is_nan() { f64::INFINITY } else { it[0] })
}

/// A function of the elements of f64 tensors of one shape.
fn each(tensors: &[&Tensor], function: impl Fn(&[f64]) -> f64) -> Tensor {
    let shape = tensors[0].shape();
    let mut elements = vec![0.0; tensors.len()];
    let values = (0..tensors[0].len()).map(|index| {
        for (element, tensor) in elements.iter_mut().zip(tensors) {
            *element = tensor.get_f64(index);
        }
        function(&elements)
    });
    let values: Vec<f64> = values.collect();
    Tensor::from_vec(shape, values)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::evaluate_observed;

    /// The bounds of the only result of a function of one f32 parameter, all of whose nodes are
    /// taken together.
    fn bounds(text: &str, input: &[f32]) -> Vec<f64> {
        let function: Function = graph::parse(text).expect("a function");
        let mut values = BTreeMap::new();
        let mut keep = |value, tensor: &Tensor| {
            values.insert(value, tensor.clone());
        };
        let inputs = [Tensor::from_slice(&[input.len()], input)];
        let constants = |_: ConstantId| Tensor::zeros(DType::Bool, &[0]);
        let precision = EvaluationPrecision::Declared;
        evaluate_observed(&function, &constants, &inputs, precision, &mut keep).expect("values");
        let nodes: Vec<NodeId> = function.nodes.ids().collect();
        let result = function.results()[0];
        let bounds = rounding_bounds(&function, &nodes, &values);
        bounds.get(&result).map_or(vec![0.0; values[&result].len()], Tensor::to_f64_vec)
    }

    /// A unit in the last place of 1 in f32.
    const UNIT: f64 = f32::EPSILON as f64;

    #[test]
    fn where_terms_cancel_the_bound_is_of_their_size() {
        let sum = "function @f { parameter %x: f32[4] as \"x\"
            %s: f32[] = reduce sum [ | i: 4] %x[i] return %s as \"s\" }";
        let [like] = *bounds(sum, &[1e4, 1.0, 2.0, 1.0]) else { panic!("one") };
        let [unlike] = *bounds(sum, &[1e4, 1.0, 2.0, -1e4]) else { panic!("one") };
        assert!(like > 1e4 * UNIT && like < 1e4 * 1e-6, "{like}");
        assert!(unlike > 1e4 * UNIT && unlike < 1e4 * 1e-6, "{unlike}");
    }

    #[test]
    fn conditions_carry_it_on() {
        let text = "function @f { parameter %x: f32[3] as \"x\"
            %e: f32[3] = map exp %x
            %s: f32[3] = map sub %e, %x
            %l: f32[3] = map log %s
            return %l as \"l\" }";
        // Of e to the power x, less x, nothing cancels at 9; at 0 the logarithm is of 1, at -9e3
        // of what is exact but for a rounding.
        let found = bounds(text, &[9.0, 0.0, -9e3]);
        assert!(found.iter().all(|&bound| bound > UNIT && bound < 2e-5), "{found:?}");
        let text = text.replace("map exp", "map abs").replace("map sub %e", "map sub %x");
        let found = bounds(&text, &[9.0, 1.0, 2.0]);
        assert_eq!(found, [0.0; 3], "zero is exact, and so is its logarithm");
    }

    #[test]
    fn near_a_pole_anything_may_come() {
        let text = "function @f { parameter %x: f32[2] as \"x\"
            %r: f32[2] = map sqrt %x
            %q: f32[2] = map mul %r, %r
            %d: f32[2] = map sub %q, %x
            %i: f32[2] = map reciprocal %d
            return %i as \"i\" }";
        assert_eq!(bounds(text, &[2.0, 3.0]), [f64::INFINITY; 2]);
    }

    #[test]
    fn decisions_are_open_only_within_the_error() {
        let text = "function @f { parameter %x: f32[3] as \"x\"
            %e: f32[3] = map exp %x
            %l: f32[3] = map log %e
            %f: f32[3] = map floor %l
            %i: i32[3] = map cast %f
            return %i as \"i\" }";
        assert_eq!(bounds(text, &[3.0, 3.5, 2.75]), [1.0, 0.0, 0.0]);
        let text = "function @f { parameter %x: f32[3] as \"x\"
            %e: f32[3] = map exp %x
            %i: i64[] = arg_reduce first greatest axis 0 %e
            return %i as \"i\" }";
        assert_eq!(bounds(text, &[3.0, 3.5, 2.75]), [0.0]);
        assert_eq!(bounds(text, &[3.5, 3.0, 3.5]), [2.0]);
    }

    #[test]
    fn what_is_moved_or_chosen_is_exact() {
        let text = "function @f { parameter %x: f32[4] as \"x\"
            %n: f32[4] = map neg %x
            %m: f32[4] = map max %n, %x
            %r: f32[2, 2] = reshape %m
            %s: f32[2] = reduce max [i: 2 | j: 2] %r[i, j]
            return %s as \"s\" }";
        assert_eq!(bounds(text, &[1.0, -2.0, 3.0, 4.0]), [0.0; 2]);
    }
}
