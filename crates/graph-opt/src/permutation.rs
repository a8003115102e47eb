//! Permutations of axes: axis `k` of what is transposed by `p` is axis `p[k]` of the operand.

use sym::Expr;

/// The permutation of `rank` axes that moves nothing.
pub(crate) fn identity(rank: usize) -> Vec<usize> {
    (0..rank).collect()
}

/// Transposing by `first`, then by `second`, as one.
pub(crate) fn compose(first: &[usize], second: &[usize]) -> Vec<usize> {
    second.iter().map(|&axis| first[axis]).collect()
}

/// The permutation that undoes another.
pub(crate) fn inverse(permutation: &[usize]) -> Vec<usize> {
    let mut inverse = vec![0; permutation.len()];
    for (new, &old) in permutation.iter().enumerate() {
        inverse[old] = new;
    }
    inverse
}

/// Entries, one an axis, in another order.
pub(crate) fn apply<T: Clone>(permutation: &[usize], entries: &[T]) -> Vec<T> {
    permutation.iter().map(|&axis| entries[axis].clone()).collect()
}

/// Whether only axes of extent 1 move, so that the elements stay where they are in memory.
pub(crate) fn moves_nothing(permutation: &[usize], shape: &[Expr]) -> bool {
    permutation.iter().filter(|&&axis| !shape[axis].is_one()).is_sorted()
}

/// The last axis that is longer than 1.
pub(crate) fn last_long(shape: &[Expr]) -> Option<usize> {
    (0..shape.len()).rev().find(|&axis| !shape[axis].is_one())
}
