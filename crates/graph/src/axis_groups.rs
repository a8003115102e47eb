//! What a reshape does to axes: neighbouring axes of one shape become neighbouring axes of another.

use sym::Expr;

/// Axes of the first shape, and the axes of the second that they become.
pub type AxisGroup = (Vec<usize>, Vec<usize>);

/// The smallest groups of axes with equal products, in order; axes of extent 1 are in none. None if
/// the products never agree, or an axis is empty.
pub fn axis_groups(from: &[Expr], to: &[Expr]) -> Option<Vec<AxisGroup>> {
    let long = |shape: &[Expr]| -> Vec<usize> {
        (0..shape.len()).filter(|&axis| !shape[axis].is_one()).collect()
    };
    if from.iter().chain(to).any(Expr::is_zero) {
        return None;
    }
    let (from_long, to_long) = (long(from), long(to));
    let mut groups = Vec::new();
    let (mut i, mut j) = (0, 0);
    while i < from_long.len() {
        let (end, other) = group_end(from, &from_long[i..], to, &to_long[j..])?;
        groups.push((from_long[i..i + end].to_vec(), to_long[j..j + other].to_vec()));
        (i, j) = (i + end, j + other);
    }
    (j == to_long.len()).then_some(groups)
}

/// How many axes make up the first group on either side: the fewest with equal products.
fn group_end(
    from: &[Expr],
    from_axes: &[usize],
    to: &[Expr],
    to_axes: &[usize],
) -> Option<(usize, usize)> {
    let mut product = Expr::ONE;
    for (i, &axis) in from_axes.iter().enumerate() {
        product = product * &from[axis];
        let mut other = Expr::ONE;
        for (j, &axis) in to_axes.iter().enumerate() {
            other = other * &to[axis];
            if other == product {
                return Some((i + 1, j + 1));
            }
        }
    }
    None
}
