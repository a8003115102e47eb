//! Simplification: folding of literals and all rules of the tables, in one pass forwards.
//!
//! before: `reshape (reshape (x + -0.0))`
//! after:  `reshape x`

use std::sync::Arc;

use base::{PassContext, Result};
use graph::{Function, rebuild};

use crate::ill_typed;
use crate::maker::Session;
use crate::rules::{self, Rules};

/// Makes every node anew through the rules. `--disable fold` leaves nodes of literals as they are;
/// the names of rules work likewise.
pub(crate) fn run(function: &mut Arc<Function>, context: &mut PassContext) -> Result<()> {
    let rules = rules::enabled(context);
    let mut session = Session::new(&rules, !context.is_disabled("fold"));
    let simple = simplify(function, &mut session);
    *function = simple.map(Arc::new).map_err(|reason| ill_typed("simplify", reason))?;
    Ok(())
}

/// The function, made anew.
fn simplify(
    function: &Function,
    session: &mut Session<'_>,
) -> std::result::Result<Function, String> {
    rebuild(function, |rewriter, id| {
        let node = &rewriter.source.nodes[id];
        if !node.regions.is_empty() {
            return Ok(None);
        }
        let operands = rewriter.operands(id);
        let simpler = session.maker(rewriter, node.location).simpler(&node.op, &operands)?;
        Ok(simpler.map(|value| vec![value]))
    })
}

/// The function after a single rule, and why the rule did not fire where it might have.
///
/// # Errors
/// When there is no such rule, or it made an ill-typed node.
pub fn apply_rule(
    function: &Function,
    name: &str,
) -> std::result::Result<(Function, Vec<&'static str>), String> {
    let rule = rules::all().find(|rule| rule.name == name);
    let rules = Rules::new([rule.ok_or_else(|| format!("there is no rule `{name}`"))?]);
    let mut session = Session::new(&rules, false);
    let after = simplify(function, &mut session)?;
    Ok((after, session.reasons.into_iter().map(|(_, reason)| reason).collect()))
}
