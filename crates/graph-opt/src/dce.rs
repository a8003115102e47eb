//! Dead code: nodes that no result needs are removed, and ids numbered anew.
//!
//! before: `a = relu x, b = neg x, return a`
//! after:  `a = relu x, return a`

use base::{PassContext, Result};
use graph::Function;

/// Removes what is dead.
pub(crate) fn run(function: &mut Function, _: &mut PassContext) -> Result<()> {
    function.compact();
    Ok(())
}
