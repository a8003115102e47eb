//! Passes over graph functions: graph in, graph out, each pass a file.
//!
//! - [`passes`]: the table, which the driver runs before and after the choice of formats;
//! - `rules`: algebra, a line a rule; `maker`: makes nodes through the rules;
//! - [`cut()`]: what depends on weights alone becomes the function `setup`;
//! - [`segments()`]: a function in plan form, and the functions that it calls.
//!
//! Values of literals may be read here, of weights only types. This crate does not know loops or
//! targets. A pass that changes nothing leaves a function shared with others as it is.

mod accumulate;
mod batch_norm;
mod control;
mod cse;
mod cut;
mod dce;
mod excess_precision;
mod fold;
mod hoist;
mod invariants;
mod maker;
mod permutation;
mod rules;
mod segments;
mod short_first;
mod short_indices;
mod simplify;
mod sink;
mod transpose_motion;

use std::sync::Arc;

use base::{Diagnostics, PassRow};
use graph::Function;

pub use cut::{Cut, cut};
pub use rules::laws;
pub use segments::segments;
pub use simplify::apply_rule;

/// The passes, in order.
pub fn passes() -> &'static [PassRow<Arc<Function>>] {
    PASSES
}

const PASSES: &[PassRow<Arc<Function>>] = &[
    PassRow { name: "control", run: control::run, after: &[] },
    PassRow { name: "invariants", run: invariants::run, after: &["control"] },
    PassRow { name: "hoist", run: hoist::run, after: &["control", "invariants"] },
    PassRow { name: "simplify", run: simplify::run, after: &["hoist"] },
    PassRow { name: "short_first", run: short_first::run, after: &["simplify"] },
    PassRow { name: "batch_norm", run: batch_norm::run, after: &["simplify", "short_first"] },
    PassRow { name: "accumulate", run: accumulate::run, after: &["simplify"] },
    PassRow { name: "excess_precision", run: excess_precision::run, after: &["batch_norm"] },
    PassRow { name: "cse", run: cse::run, after: &["excess_precision"] },
    PassRow { name: "sink", run: sink::run, after: &["hoist", "cse"] },
    PassRow { name: "short_indices", run: short_indices::run, after: &["simplify", "cse"] },
    PassRow { name: "transpose_motion", run: transpose_motion::run, after: &["simplify", "cse"] },
    PassRow { name: "dce", run: dce::run, after: &["transpose_motion"] },
];

/// The passes and rules that decide bits: how factors are joined, and what lies side by side, from
/// which the order of sums follows. Once a function is decided they are left out.
pub const DECIDING: &[&str] = &[
    "batch_norm",
    "accumulate",
    "short_first",
    "transpose_motion",
    "read_through_reshape",
    "read_through_transpose",
];

/// A pass that made an ill-typed node: an internal error.
fn ill_typed(pass: &str, reason: String) -> Diagnostics {
    Diagnostics::internal(format!("pass `{pass}` made an ill-typed node: {reason}"))
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_table_is_in_order() {
        base::pass::check_table(super::passes()).unwrap();
    }
}
