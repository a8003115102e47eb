//! Dead code: nodes that no result needs are removed, and ids numbered anew.
//!
//! before: `a = relu x, b = neg x, return a`
//! after:  `a = relu x, return a`

use std::sync::Arc;

use base::{PassContext, Result};
use graph::Function;

/// Removes what is dead.
pub(crate) fn run(function: &mut Arc<Function>, _: &mut PassContext) -> Result<()> {
    Arc::make_mut(function).compact();
    Ok(())
}
