//! What transformed filters may add to a function's constants, all contractions together.
//!
//! Each byte that a filter grows by has a price in nanoseconds a run: a form is chosen where it
//! saves more than that. The least price is what a byte costs anyway, because `setup` has to make
//! it; where the filters would then take more than the budget the price rises until they do not, so
//! that the bytes there are go where they save most (Everett, "Generalized Lagrange Multiplier
//! Method", 1963). The price follows from the function's structure and the target row alone, so
//! targets that should agree in every bit have the same one.

use backend::Target;
use base::Id;
use graph::{Function, Op, ValueId};

use super::cost::{Forms, PriceOfGrowth};
use super::numbers::Elements;
use super::problem::Problem;
use crate::contraction::Contraction;

/// Nanoseconds that a byte has to save in every run where there is room enough.
const LEAST_PRICE: f64 = 0.025;

/// The share of a function's weights that its filters may grow by.
const SHARE: f64 = 0.15;

/// Bytes that they may grow by besides, so that small models need not count.
const BESIDES: f64 = 8e6;

/// Steps of the search for a price. Each halves the ratio between one that is too low and one that
/// is not.
const STEPS: usize = 12;

/// The least price at which the filters of a function, transformed where that pays, stay within the
/// budget.
#[must_use]
pub(crate) fn price_of_growth(function: &Function, target: &Target) -> PriceOfGrowth {
    let forms = forms(function, target);
    let budget = SHARE * weight_bytes(function) + BESIDES;
    let at = |of_byte: f64| PriceOfGrowth { of_byte, most: budget };
    let fits = |price: f64| {
        let growth: f64 = forms.iter().map(|own| own.growth_at(at(price))).sum();
        growth <= budget
    };
    if fits(LEAST_PRICE) {
        return at(LEAST_PRICE);
    }
    let (mut low, mut high) = (LEAST_PRICE, LEAST_PRICE * 2.0);
    while !fits(high) {
        (low, high) = (high, high * 2.0);
    }
    for _ in 0..STEPS {
        let middle = (low * high).sqrt();
        match fits(middle) {
            true => high = middle,
            false => low = middle,
        }
    }
    at(high)
}

/// The forms of all contractions that minimal filtering could rewrite.
fn forms(function: &Function, target: &Target) -> Vec<Forms> {
    let constants = function.constant_values();
    let elements = |value: ValueId| Elements::of(function, value);
    let mut found = Vec::new();
    for id in function.nodes_in_order() {
        let node = &function.nodes[id];
        let Op::Contract { space, accumulator, dtype: result } = &node.op else { continue };
        let operands = [node.operands[0], node.operands[1]];
        let [Some(lhs), Some(rhs)] = operands.map(elements) else { continue };
        let operands = operands.map(|value| (value, constants.contains(value)));
        let contraction = Contraction::new(space, operands, *accumulator, *result);
        if let Ok(problem) = Problem::find(&contraction, [lhs, rhs]) {
            found.push(Forms::of(&contraction, &problem, target));
        }
    }
    found
}

/// Bytes of the weights that a function reads, each counted once.
fn weight_bytes(function: &Function) -> f64 {
    let mut bytes = std::collections::BTreeMap::new();
    for id in function.nodes_in_order() {
        let Op::Weight { constant, result } = &function.nodes[id].op else { continue };
        let extents = result.shape.iter().filter_map(sym::Expr::as_constant);
        let elements: f64 = extents.map(|extent| extent as f64).product();
        bytes.insert(constant.index(), elements * f64::from(result.dtype.bits()) / 8.0);
    }
    bytes.values().sum()
}
