//! Where a node reads its operands: index arithmetic of the elementwise and movement primitives.
//!
//! The grouping asks these functions which elements a fused nest would touch, the definitions use
//! them to substitute one index expression into another, so both always agree. Shapes are constant
//! here (the function has been specialised).

use base::Id;
use graph::{Function, NodeId, Op, ValueId};
use sym::{Expr, Range, SymbolId};

/// The values that symbols can have.
pub(crate) type Ranges<'a> = &'a dyn Fn(SymbolId) -> Range;

/// The extents of a tensor of a specialised function.
///
/// # Panics
/// If the value is no tensor or has a symbolic extent; `specialise` has refused such functions.
pub(crate) fn shape_of(function: &Function, value: ValueId) -> Vec<i64> {
    let ty = function.ty(value).as_tensor();
    let shape = ty.and_then(|ty| ty.shape.iter().map(Expr::as_constant).collect());
    match shape {
        Some(shape) => shape,
        None => panic!("{value} of function {} has no constant shape", function.name),
    }
}

/// Elements from one index to the next along each axis of a dense tensor.
pub(crate) fn dense_strides(shape: &[i64]) -> Vec<i64> {
    let mut strides = vec![1; shape.len()];
    for axis in (1..shape.len()).rev() {
        strides[axis - 1] = strides[axis] * shape[axis].max(1);
    }
    strides
}

/// The symbols `0..n`, one an axis: the index of a generic element.
pub(crate) fn generic_index(shape: &[i64]) -> Vec<Expr> {
    let axis = |axis: usize| match shape[axis] {
        1 => Expr::ZERO,
        _ => Expr::symbol(SymbolId::new(axis)),
    };
    (0..shape.len()).map(axis).collect()
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
        Op::Broadcast { axes, .. } => {
            let shape = shape_of(function, value);
            let read = |(&axis, &extent): (&usize, &i64)| match extent {
                1 => Expr::ZERO,
                _ => of(axis),
            };
            axes.iter().zip(&shape).map(read).collect()
        }
        Op::Reshape { .. } => {
            let from = shape_of(function, data.results[0]);
            reshape_index(&from, &shape_of(function, value), index, ranges)
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
            read[*axis] -= &Expr::constant(concat_offset(function, node, operand));
            read
        }
        Op::RandomBits { .. } => Vec::new(),
        _ => return None,
    })
}

/// Where the elements of a `Concat`'s operand begin along its axis.
///
/// # Panics
/// If the node is no `Concat`.
pub(crate) fn concat_offset(function: &Function, node: NodeId, operand: usize) -> i64 {
    let data = &function.nodes[node];
    let Op::Concat { axis } = data.op else { panic!("{node} is no concat") };
    data.operands[..operand].iter().map(|&value| shape_of(function, value)[axis]).sum()
}

/// The mirror of [`operand_index`] for the primitives that only rename elements: the element of the
/// result that is made from the operand's element at `index`, and from no other.
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
        Op::Transpose { permutation } => {
            Some(permutation.iter().map(|&source| index[source].clone()).collect())
        }
        Op::Reshape { .. } => {
            let from = shape_of(function, data.operands[operand]);
            Some(reshape_index(&from, &shape_of(function, data.results[0]), index, ranges))
        }
        Op::Broadcast { axes, shape } => {
            let operand = shape_of(function, data.operands[operand]);
            let count: i64 = operand.iter().product();
            let result = shape.iter().map(Expr::as_constant).try_fold(1, |n, e| Some(n * e?))?;
            if count != result {
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

/// The index under shape `to` of the element that has `index` under shape `from`, both row-major.
/// Runs of axes with equal products are translated on their own, so that axes which both shapes
/// have in common keep their index.
pub(crate) fn reshape_index(
    from: &[i64],
    to: &[i64],
    index: &[Expr],
    ranges: Ranges<'_>,
) -> Vec<Expr> {
    let mut made = Vec::with_capacity(to.len());
    let (mut source, mut target) = (0, 0);
    while target < to.len() {
        let (first_source, first_target) = (source, target);
        let (mut left, mut right) = (1, to[target]);
        target += 1;
        while left != right {
            if left < right && source < from.len() {
                left *= from[source];
                source += 1;
            } else if target < to.len() {
                right *= to[target];
                target += 1;
            } else {
                // Only tensors without elements get here.
                return vec![Expr::ZERO; to.len()];
            }
        }
        let run = first_source..source;
        let linear = linear_index(&from[run.clone()], &index[run], ranges);
        split_index(&linear, &to[first_target..target], ranges, &mut made);
    }
    made
}

/// The row-major position of an element.
pub(crate) fn linear_index(shape: &[i64], index: &[Expr], ranges: Ranges<'_>) -> Expr {
    let mut linear = Expr::ZERO;
    for (expr, stride) in index.iter().zip(dense_strides(shape)) {
        linear += &(expr.clone() * stride);
    }
    linear.simplify(ranges)
}

/// The inverse of [`linear_index`].
fn split_index(linear: &Expr, shape: &[i64], ranges: Ranges<'_>, made: &mut Vec<Expr>) {
    let first = shape.iter().position(|&extent| extent != 1);
    for (axis, stride) in dense_strides(shape).into_iter().enumerate() {
        if shape[axis] == 1 {
            made.push(Expr::ZERO);
            continue;
        }
        let mut expr = linear.floor_div(&stride.into());
        if Some(axis) != first {
            expr = expr.modulo(&shape[axis].into());
        }
        made.push(expr.simplify(ranges));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(from: &[i64], to: &[i64], expected: &str) {
        let ranges = |symbol: SymbolId| Range::extent(from[symbol.index()]);
        let index = generic_index(from);
        let made = reshape_index(from, to, &index, &ranges);
        let texts: Vec<_> = made.iter().map(|expr| format!("{expr:?}")).collect();
        assert_eq!(texts.join(", "), expected);
        let target = |symbol: SymbolId| Range::extent(from[symbol.index()]);
        let back = reshape_index(to, from, &made, &target);
        assert_eq!(back, index, "{from:?} and back from {to:?}");
    }

    #[test]
    fn reshapes_keep_common_axes() {
        check(&[2, 3, 4], &[6, 4], "3*s0 + s1, s2");
        check(&[6, 4], &[2, 3, 4], "(s0) div 3, (s0) mod 3, s1");
        check(&[6, 4], &[6, 1, 4, 1], "s0, 0, s1, 0");
        check(&[1, 6, 4], &[24], "4*s1 + s2");
        check(&[4, 6], &[6, 4], "(6*s0 + s1) div 4, (6*s0 + s1) mod 4");
    }
}
