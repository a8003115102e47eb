//! Symbols become numbers: a function for one binding of its symbols.
//!
//! Afterwards every extent is constant, and dimensions that were read as values are literals.

use std::collections::{BTreeMap, BTreeSet};

use base::{Diagnostic, Diagnostics, codes};
use graph::{Function, Op, rebuild};
use sym::{Expr, SymbolId};
use tensor::{Scalar, Tensor};

/// Puts values in the place of symbols.
///
/// # Errors
/// A diagnostic for each symbol that an extent needs and that has no value: one that was not given,
/// or one that the model computes while running.
pub fn specialise(
    function: &Function,
    symbols: &BTreeMap<SymbolId, i64>,
) -> base::Result<Function> {
    if is_concrete(function) {
        return Ok(function.clone());
    }
    let mut bound = function.clone();
    drop_binds(&mut bound, symbols);
    let values = symbols.iter().map(|(&symbol, &value)| (symbol, Expr::constant(value))).collect();
    bound.substitute(&values);
    for (_, value) in bound.values.iter_mut() {
        for expr in value.ty.exprs_mut() {
            *expr = expr.simplify(&|_| sym::Range::ALL);
        }
    }
    check(&bound)?;
    let folded = rebuild(&bound, |rewriter, node| match &rewriter.source.nodes[node].op {
        Op::Dimension(expr) => {
            let value = expr.as_constant().map(Scalar::i64);
            Ok(value.map(|value| vec![rewriter.builder.literal(Tensor::scalar(value))]))
        }
        _ => Ok(None),
    });
    folded.map_err(internal)
}

/// A symbol that has its value already need not be bound: readers of the node read its operand.
fn drop_binds(function: &mut Function, symbols: &BTreeMap<SymbolId, i64>) {
    let is_known = |op: &Op| matches!(op, Op::Bind { symbol, .. } if symbols.contains_key(symbol));
    let body = function.body;
    for id in function.regions[body].nodes.clone() {
        if is_known(&function.nodes[id].op) {
            let (old, new) = (function.nodes[id].results[0], function.nodes[id].operands[0]);
            function.replace_all_uses(old, new);
            function.regions[body].nodes.retain(|&other| other != id);
        }
    }
}

/// Whether there is nothing to do.
fn is_concrete(function: &Function) -> bool {
    let constant = |exprs: Vec<&Expr>| exprs.iter().all(|expr| expr.as_constant().is_some());
    let value_free =
        |op: &Op| !matches!(op, Op::Dimension(_) | Op::Bind { .. }) && constant(op.exprs());
    function.values.values().all(|value| constant(value.ty.exprs()))
        && function.nodes.values().all(|node| value_free(&node.op))
}

/// A broken invariant of the function at hand, as a diagnostic.
pub(crate) fn internal(reason: String) -> Diagnostics {
    Diagnostics::from(Diagnostic::error(codes::INTERNAL_ERROR, reason))
}

/// Refuses functions with extents that are not constant.
fn check(function: &Function) -> base::Result<()> {
    let (mut unbound, mut counted) = (BTreeMap::new(), BTreeSet::new());
    for node in function.nodes_in_order() {
        let data = &function.nodes[node];
        if let Op::Bind { symbol, .. } = &data.op {
            counted.insert(*symbol);
        }
        let types = data.results.iter().flat_map(|&result| function.ty(result).exprs());
        for symbol in types.chain(data.op.exprs()).flat_map(Expr::symbols) {
            unbound.entry(symbol).or_insert(data.location);
        }
    }
    for &parameter in function.parameters() {
        for symbol in function.ty(parameter).exprs().into_iter().flat_map(Expr::symbols) {
            unbound.entry(symbol).or_insert(base::Locations::UNKNOWN);
        }
    }
    let mut found = Diagnostics::new();
    for (symbol, location) in unbound {
        let name = function.symbol_name(symbol);
        let (code, message, remedy) = if counted.contains(&symbol) {
            let message = format!("the size `{name}` is known only while running");
            let remedy = "export the model so that shapes do not depend on values".to_owned();
            (codes::UNKNOWN_CONTENTS, message, remedy)
        } else {
            let message = format!("the dimension `{name}` has no value");
            let remedy = format!("bind it with `--dim {name}=N` or through an input's shape");
            (codes::UNBOUND_DIMENSION, message, remedy)
        };
        let diagnostic = Diagnostic::error(code, message)
            .at(function.locations.describe(location))
            .because("kernels are made for constant shapes")
            .remedy(remedy);
        found.push(diagnostic);
    }
    found.or_ok(())
}
