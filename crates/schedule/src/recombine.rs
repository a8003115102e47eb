//! Quotient and remainder along two axes of an index, put together again for dependence tests.
//!
//! Where an index holds `e div c` along one axis and `e mod c` along another, two instances touch
//! the same element only if `e` is equal in both: `c` times the one axis plus the other is `e`,
//! since `c * (e div c) + e mod c = e`. What is a digit nowhere by itself, such as `8 * o + i` cut
//! at 201, is linear again that way. Sums of axes that are equal are equal, so an axis made like
//! this may be tested beside the others, whatever the accesses look like.

use smallvec::SmallVec;
use sym::{Atom, Expr};

/// An axis made of two: `factor` times the one of quotients plus that of remainders.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Combination {
    quotient: usize,
    remainder: usize,
    factor: i64,
}

/// The axes that can be made of those of accesses to one buffer, each behind the axes of the index
/// and those made before it. None where indices have different numbers of axes.
pub(crate) fn combinations(indices: &[&[Expr]]) -> Vec<Combination> {
    let mut found: Vec<Combination> = Vec::new();
    let rank = indices.first().map_or(0, |index| index.len());
    if indices.iter().any(|index| index.len() != rank) {
        return found;
    }
    for index in indices {
        if !index.iter().any(|axis| remainders(axis).next().is_some()) {
            continue;
        }
        let mut index = with_combinations(index, &found);
        // What was made of two axes may be the remainder or the quotient of another one.
        while let Some(next) = next(&index, &found).filter(|_| found.len() < MOST_A_AXIS * rank) {
            index.push(combined(&index, next));
            found.push(next);
        }
    }
    found
}

/// An index with the axes that combinations make.
pub(crate) fn with_combinations(index: &[Expr], combinations: &[Combination]) -> Vec<Expr> {
    let mut index = index.to_vec();
    for &combination in combinations {
        index.push(combined(&index, combination));
    }
    index
}

/// Combinations for each axis of an index, at most: so many digits no index has.
const MOST_A_AXIS: usize = 4;

/// A combination that makes a remainder of an index whole, and was not found before.
fn next(index: &[Expr], found: &[Combination]) -> Option<Combination> {
    let count = |axis: &Expr| remainders(axis).count();
    index.iter().enumerate().find_map(|(remainder, axis)| {
        remainders(axis).find_map(|part| {
            index.iter().enumerate().find_map(|(quotient, other)| {
                let factor = factor(&part, other)?;
                let combination = Combination { quotient, remainder, factor };
                let is_new = quotient != remainder && !found.contains(&combination);
                let is_whole = || count(&combined(index, combination)) < count(axis);
                (is_new && is_whole()).then_some(combination)
            })
        })
    })
}

/// A term `k * (e mod c)` of an axis.
struct Remainder<'e> {
    coefficient: i64,
    dividend: &'e Expr,
    divisor: i64,
    quotient: Expr,
}

fn remainders(axis: &Expr) -> impl Iterator<Item = Remainder<'_>> {
    axis.terms().iter().filter_map(|term| {
        let [Atom::Mod(dividend, divisor)] = term.factors() else { return None };
        let divisor = divisor.as_constant().filter(|divisor| *divisor > 1)?;
        let quotient = dividend.floor_div(&Expr::constant(divisor));
        Some(Remainder { coefficient: term.coefficient(), dividend, divisor, quotient })
    })
}

/// No factor is larger: sums of products with indices stay far from the ends of 64 bits.
const MOST: i64 = 1 << 31;

/// What another axis is to be multiplied by so that it holds `k * c` times the quotient.
fn factor(part: &Remainder<'_>, axis: &Expr) -> Option<i64> {
    let first = part.quotient.terms().first()?;
    let alike = axis.terms().iter().find(|term| term.factors() == first.factors())?;
    let wanted = part.coefficient.checked_mul(part.divisor)?.checked_mul(first.coefficient())?;
    let divides = wanted % alike.coefficient() == 0 && wanted.abs() <= MOST;
    divides.then(|| wanted / alike.coefficient())
}

fn combined(index: &[Expr], combination: Combination) -> Expr {
    let mut sum = index[combination.remainder].clone();
    sum.add_scaled(&index[combination.quotient], combination.factor);
    let parts: SmallVec<[Remainder<'_>; 2]> = remainders(&index[combination.remainder]).collect();
    for part in parts {
        if factor(&part, &index[combination.quotient]) != Some(combination.factor) {
            continue;
        }
        // `k * (e mod c)` and `k * c * (e div c)` are `k * e`.
        sum.add_scaled(&part.dividend.modulo(&Expr::constant(part.divisor)), -part.coefficient);
        sum.add_scaled(&part.quotient, -part.coefficient * part.divisor);
        sum.add_scaled(part.dividend, part.coefficient);
    }
    sum
}

#[cfg(test)]
mod tests {
    use base::Id;
    use sym::SymbolId;

    use super::*;

    fn symbol(number: usize) -> Expr {
        Expr::symbol(SymbolId::new(number))
    }

    #[test]
    fn digits_become_what_they_are_digits_of() {
        let whole = symbol(0) * 8 + &symbol(1);
        let of = |divisor: i64| Expr::constant(divisor);
        let index = [
            whole.floor_div(&of(60)),
            symbol(2),
            whole.floor_div(&of(5)).modulo(&of(12)),
            whole.modulo(&of(5)),
        ];
        let found = combinations(&[&index]);
        assert_eq!(found.len(), 2);
        assert_eq!(with_combinations(&index, &found).last(), Some(&whole));
        assert_eq!(combinations(&[&index[1..2], &index]), []);
        assert_eq!(combinations(&[&index[..2]]), []);
    }

    #[test]
    fn digits_that_come_back_in_every_sum_end() {
        let whole = symbol(0) * 7 + &symbol(1);
        let divisor = Expr::constant(10);
        let quotient = whole.floor_div(&divisor);
        let index = [quotient.clone(), whole.modulo(&divisor) + &quotient];
        let found = combinations(&[&index]);
        assert!((1..=MOST_A_AXIS * index.len()).contains(&found.len()), "{found:?}");
    }

    #[test]
    fn combinations_are_what_the_axes_sum_to() {
        let whole = symbol(0) * 7 + &symbol(1);
        let divisor = Expr::constant(10);
        let index = [whole.floor_div(&divisor) * 3, whole.modulo(&divisor) * 6 + &symbol(2)];
        let found = combinations(&[&index]);
        let [combination] = found[..] else { panic!("{found:?}") };
        let made = with_combinations(&index, &found);
        for value in 0..300_i64 {
            let of = |id: SymbolId| Some([value % 5, value / 5 % 6, value / 30][id.index()]);
            let [quotient, remainder, sum] =
                [0, 1, 2].map(|at: usize| made[at].evaluate(&of).expect("all are known"));
            assert_eq!(sum, combination.factor * quotient + remainder);
        }
    }
}
