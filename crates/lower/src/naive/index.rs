//! Index arithmetic of the definitions: shapes, row-major positions, indices under another shape.
//! Shapes are constant here (the function has been specialised).

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
    extents_of(function, value).collect()
}

/// As [`shape_of`], one after the other.
pub(crate) fn extents_of(
    function: &Function,
    value: ValueId,
) -> impl DoubleEndedIterator<Item = i64> + ExactSizeIterator {
    let without = move || -> ! {
        panic!("{value} of function {} has no constant shape", function.name);
    };
    let Some(ty) = function.ty(value).as_tensor() else { without() };
    ty.shape.iter().map(move |extent| extent.as_constant().unwrap_or_else(|| without()))
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

/// Where the elements of a `Concat`'s operand begin along its axis.
///
/// # Panics
/// If the node is no `Concat`.
pub(crate) fn concat_offset(function: &Function, node: NodeId, operand: usize) -> i64 {
    let data = &function.nodes[node];
    let Op::Concat { axis } = data.op else { panic!("{node} is no concat") };
    data.operands[..operand].iter().map(|&value| shape_of(function, value)[axis]).sum()
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
        if run.len() == 1 && target == first_target + 1 && from[run.start] == to[first_target] {
            made.push(index[run.start].simplify(ranges));
            continue;
        }
        let linear = linear_index(&from[run.clone()], &index[run], ranges);
        split_index(&linear, &to[first_target..target], ranges, &mut made);
    }
    made
}

/// The row-major position of an element.
pub(crate) fn linear_index(shape: &[i64], index: &[Expr], ranges: Ranges<'_>) -> Expr {
    let mut linear = Expr::ZERO;
    for (expr, stride) in index.iter().zip(dense_strides(shape)) {
        linear.add_scaled(expr, stride);
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
