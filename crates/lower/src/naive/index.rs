//! Index arithmetic of the definitions: shapes, row-major positions, indices under another shape.
//! Definitions and what decides whether grouping is legal take any extents; what grouping weighs
//! are numbers: where an extent is free, its usual one.

use base::Id;
use graph::{Function, NodeId, Op, ValueId};
use sym::{Expr, Range, SymbolId};

/// The values that symbols can have.
pub(crate) type Ranges<'a> = &'a dyn Fn(SymbolId) -> Range;

/// The extents of a tensor as numbers, to weigh choices by: where one is free, its usual value.
///
/// # Panics
/// If the value is no tensor; [`crate::lower`] has refused such functions.
pub(crate) fn shape_of(function: &Function, value: ValueId) -> Vec<i64> {
    extents_of(function, value).collect()
}

/// As [`shape_of`], one after the other.
pub(crate) fn extents_of(
    function: &Function,
    value: ValueId,
) -> impl DoubleEndedIterator<Item = i64> + ExactSizeIterator {
    extents(function, value).iter().map(|extent| weight(function, extent))
}

/// An expression over the symbols of a function as a number to weigh choices by.
pub(crate) fn weight(function: &Function, expr: &Expr) -> i64 {
    let known = expr.as_constant();
    let usual = |symbol| function.symbols.get(symbol).map_or(Range::USUAL, |known| known.usual());
    known.unwrap_or_else(|| expr.usual(&usual))
}

/// The values that a symbol of a function can have.
pub(crate) fn range_of(function: &Function, symbol: SymbolId) -> Range {
    match function.symbols.contains(symbol) {
        true => function.symbols[symbol].range,
        false => Range::ALL,
    }
}

/// The extents of a tensor, whatever they are.
///
/// # Panics
/// If the value is no tensor; [`crate::lower`] has refused such functions.
pub(crate) fn extents(function: &Function, value: ValueId) -> &[Expr] {
    match function.ty(value).as_tensor() {
        Some(ty) => &ty.shape,
        None => panic!("{value} of function {} is no tensor", function.name),
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

/// As [`dense_strides`], of any extents.
pub(crate) fn strides(shape: &[Expr]) -> Vec<Expr> {
    let mut strides = vec![Expr::ONE; shape.len()];
    for axis in (1..shape.len()).rev() {
        strides[axis - 1] = match shape[axis].as_constant() {
            Some(extent) => strides[axis].clone() * extent.max(1),
            None => strides[axis].clone() * &shape[axis],
        };
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

/// Axes of generic elements beside the symbols of a function: an axis is the symbol of its number
/// behind those.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AxisSymbols {
    first: usize,
}

impl AxisSymbols {
    /// Of a function whose extents may be free.
    pub(crate) fn of(function: &Function) -> AxisSymbols {
        AxisSymbols { first: function.symbols.len() }
    }

    /// The symbol of an axis.
    pub(crate) fn symbol(self, axis: usize) -> SymbolId {
        SymbolId::new(self.first + axis)
    }

    /// The axis that a symbol is.
    pub(crate) fn axis(self, symbol: SymbolId) -> Option<usize> {
        symbol.index().checked_sub(self.first)
    }

    /// The index of a generic element.
    pub(crate) fn index(self, shape: &[Expr]) -> Vec<Expr> {
        let axis = |axis: usize| match shape[axis].is_one() {
            true => Expr::ZERO,
            false => Expr::symbol(self.symbol(axis)),
        };
        (0..shape.len()).map(axis).collect()
    }

    /// The values that an axis of these extents, or a symbol of the function, can have.
    pub(crate) fn range(self, function: &Function, shape: &[Expr], symbol: SymbolId) -> Range {
        match self.axis(symbol) {
            None => range_of(function, symbol),
            Some(axis) => shape.get(axis).map_or(Range::ALL, |extent| {
                let most = extent.bounds(&|symbol| range_of(function, symbol)).max;
                Range::extent(most)
            }),
        }
    }
}

/// Where the elements of a `Concat`'s operand begin along its axis.
///
/// # Panics
/// If the node is no `Concat`.
pub(crate) fn concat_offset(function: &Function, node: NodeId, operand: usize) -> Expr {
    let data = &function.nodes[node];
    let Op::Concat { axis } = data.op else { panic!("{node} is no concat") };
    data.operands[..operand].iter().map(|&value| &extents(function, value)[axis]).sum()
}

/// The index under shape `to` of the element that has `index` under shape `from`, both row-major.
/// Runs of axes with equal products are translated on their own, so that axes which both shapes
/// have in common keep their index.
pub(crate) fn reshape_index(
    from: &[Expr],
    to: &[Expr],
    index: &[Expr],
    ranges: Ranges<'_>,
) -> Vec<Expr> {
    let mut made = Vec::with_capacity(to.len());
    let (mut source, mut target) = (0, 0);
    while target < to.len() {
        let Some(end) = common_end(&from[source..], &to[target..]) else {
            // Only tensors without elements get here.
            return vec![Expr::ZERO; to.len()];
        };
        let (run, new) = (source..source + end.0, target..target + end.1);
        (source, target) = (run.end, new.end);
        if run.len() == 1 && new.len() == 1 {
            made.push(index[run.start].simplify(ranges));
            continue;
        }
        let linear = linear_index(&from[run.clone()], &index[run], ranges);
        split_index(&linear, &to[new], ranges, &mut made);
    }
    made
}

/// The fewest leading axes of two shapes that have the same number of elements, at least one axis
/// of the second. Where that is not known of any but all axes, it is all.
fn common_end(from: &[Expr], to: &[Expr]) -> Option<(usize, usize)> {
    let (mut source, mut target) = (0, 1);
    let (mut left, mut right) = (Expr::ONE, to[0].clone());
    while left != right {
        // A product of more symbols is taken for the larger.
        let size = |product: &Expr| {
            let sizes =
                product.terms().iter().map(|term| (term.factors().len(), term.coefficient()));
            sizes.max().unwrap_or((0, product.constant_part()))
        };
        let less = size(&left) < size(&right);
        if less && source < from.len() {
            left = left * &from[source];
            source += 1;
        } else if target < to.len() {
            right = right * &to[target];
            target += 1;
        } else if left.as_constant().is_some() && right.as_constant().is_some() {
            return None;
        } else {
            return Some((from.len(), to.len()));
        }
    }
    Some((source, target))
}

/// The row-major position of an element.
pub(crate) fn linear_index(shape: &[Expr], index: &[Expr], ranges: Ranges<'_>) -> Expr {
    let mut linear = Expr::ZERO;
    for (expr, stride) in index.iter().zip(strides(shape)) {
        match stride.as_constant() {
            Some(stride) => linear.add_scaled(expr, stride),
            None => linear += &(expr * &stride),
        }
    }
    linear.simplify(ranges)
}

/// The inverse of [`linear_index`].
fn split_index(linear: &Expr, shape: &[Expr], ranges: Ranges<'_>, made: &mut Vec<Expr>) {
    let first = shape.iter().position(|extent| !extent.is_one());
    for (axis, stride) in strides(shape).into_iter().enumerate() {
        if shape[axis].is_one() {
            made.push(Expr::ZERO);
            continue;
        }
        let mut expr = linear.floor_div(&stride);
        if Some(axis) != first {
            expr = expr.modulo(&shape[axis]);
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
        let all = |shape: &[i64]| shape.iter().map(|&extent| extent.into()).collect::<Vec<Expr>>();
        let made = reshape_index(&all(from), &all(to), &index, &ranges);
        let texts: Vec<_> = made.iter().map(|expr| format!("{expr:?}")).collect();
        assert_eq!(texts.join(", "), expected);
        let target = |symbol: SymbolId| Range::extent(from[symbol.index()]);
        let back = reshape_index(&all(to), &all(from), &made, &target);
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
