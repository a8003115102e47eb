//! Symbols become numbers: a function for one binding of its symbols.
//!
//! Afterwards every extent is constant, and dimensions that were read as values are literals.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use base::{Diagnostic, Diagnostics, codes};
use graph::{Function, Op, ValueId, rebuild};
use sym::{Expr, SymbolId};
use tensor::{Scalar, Tensor};

/// Puts values in the place of symbols.
///
/// # Errors
/// A diagnostic for each symbol that an extent needs and that has no value: one that was not given,
/// or one that the model computes while running.
pub fn specialise(
    function: &Arc<Function>,
    symbols: &BTreeMap<SymbolId, i64>,
) -> base::Result<Arc<Function>> {
    let bound = bind(function, symbols)?;
    check(&bound)?;
    Ok(bound)
}

/// As [`specialise`], symbols without values staying free.
///
/// # Errors
/// A diagnostic for extents that do not fit the function.
pub fn bind(
    function: &Arc<Function>,
    symbols: &BTreeMap<SymbolId, i64>,
) -> base::Result<Arc<Function>> {
    if is_concrete(function) {
        return Ok(function.clone());
    }
    let mut bound = Function::clone(function);
    let values = symbols.iter().map(|(&symbol, &value)| (symbol, Expr::constant(value))).collect();
    bound.substitute(&values);
    for (_, value) in bound.values.iter_mut() {
        for expr in value.ty.exprs_mut() {
            *expr = expr.simplify(&|_| sym::Range::ALL);
        }
    }
    check_extents(&bound)?;
    let folded = rebuild(&bound, |rewriter, node| match &rewriter.source.nodes[node].op {
        Op::Dimension(expr) => {
            let value = expr.as_constant().map(Scalar::i64);
            Ok(value.map(|value| vec![rewriter.builder.literal(Tensor::scalar(value))]))
        }
        _ => Ok(None),
    });
    folded.map(Arc::new).map_err(Diagnostics::internal)
}

/// What must hold of free symbols so that extents fit a function, as [`bind`] checks it of those
/// that are known: in each pair the first is at most the second.
pub fn extent_checks(function: &Function) -> Vec<(Expr, Expr)> {
    let mut checks: Vec<(Expr, Expr)> = Vec::new();
    for node in function.nodes_in_order() {
        let data = &function.nodes[node];
        let extents = |value: ValueId| function.ty(value).exprs();
        let results = data.results.iter().flat_map(|&value| extents(value));
        checks.extend(results.map(|extent| (Expr::ZERO, extent.clone())));
        match &data.op {
            Op::Reshape { .. } => {
                let [from, to] = [data.operands[0], data.results[0]];
                let [from, to]: [Expr; 2] = [from, to].map(|it| extents(it).iter().product());
                checks.extend([(from.clone(), to.clone()), (to, from)]);
            }
            Op::Slice { starts, steps, shape } => {
                let axes =
                    starts.iter().zip(steps).zip(extents(data.operands[0]).iter().zip(shape));
                for ((start, &step), (extent, count)) in axes {
                    // Of nothing nothing leaves the operand.
                    let some = count.min(&Expr::ONE);
                    let last = start + &((count.clone() - 1) * step);
                    let (low, high) = if step < 0 { (&last, start) } else { (start, &last) };
                    checks.push((Expr::ZERO, low.clone() * &some));
                    checks.push(((high.clone() + 1 - extent) * &some, Expr::ZERO));
                }
            }
            _ => {}
        }
    }
    let ranges = |symbol| function.symbols[symbol].range;
    let mut kept: Vec<(Expr, Expr)> = Vec::new();
    for check in checks {
        if !sym::proves_less_equal(&check.0, &check.1, &ranges) && !kept.contains(&check) {
            kept.push(check);
        }
    }
    kept
}

/// Whether there is nothing to do.
fn is_concrete(function: &Function) -> bool {
    let constant = |expr: &Expr| expr.as_constant().is_some();
    let value_free =
        |op: &Op| !matches!(op, Op::Dimension(_) | Op::Bind { .. }) && op.has_constant_exprs();
    function.values.values().all(|value| value.ty.exprs().iter().all(constant))
        && function.nodes.values().all(|node| value_free(&node.op))
}

/// Refuses what only the extents at hand make wrong: an axis of negative extent, a reshape to
/// another number of elements, a slice that leaves its operand.
fn check_extents(function: &Function) -> base::Result<()> {
    let mut found = Diagnostics::new();
    let extents = |value: ValueId| -> Vec<i64> {
        function.ty(value).exprs().iter().filter_map(Expr::as_constant).collect()
    };
    let count = |value: ValueId| extents(value).iter().map(|&it| i128::from(it)).product::<i128>();
    for node in function.nodes_in_order() {
        let data = &function.nodes[node];
        let constant = |expr: &Expr| expr.as_constant().is_some();
        let mut read = data.operands.iter().chain(&data.results);
        let is_known = read.all(|&value| function.ty(value).exprs().iter().all(constant));
        if !is_known || !data.op.has_constant_exprs() {
            continue;
        }
        let negative = data.results.iter().flat_map(|&value| extents(value)).find(|&it| it < 0);
        let reason = match (negative, &data.op) {
            (Some(extent), _) => format!("an axis would have extent {extent}"),
            (None, Op::Reshape { .. }) if count(data.operands[0]) != count(data.results[0]) => {
                let (from, to) = (extents(data.operands[0]), extents(data.results[0]));
                format!("{from:?} has another number of elements than {to:?}")
            }
            (None, Op::Slice { starts, steps, .. }) => {
                let (from, to) = (extents(data.operands[0]), extents(data.results[0]));
                let starts = starts.iter().map(|start| start.as_constant().unwrap_or(0));
                let mut axes = starts.zip(steps).zip(from.iter().zip(&to));
                let leaves = |((start, step), (&extent, &count)): ((i64, &i64), (&i64, &i64))| {
                    let last = start.saturating_add(step.saturating_mul(count - 1));
                    count > 0 && (start.min(last) < 0 || start.max(last) >= extent)
                };
                match axes.any(leaves) {
                    true => format!("a slice of shape {to:?} does not lie in {from:?}"),
                    false => continue,
                }
            }
            _ => continue,
        };
        found.push(
            Diagnostic::error(codes::INCONSISTENT_SHAPES, "the extents do not fit the model")
                .at(function.locations.describe(data.location))
                .because(reason)
                .remedy("give inputs of other shapes, or other values to the named dimensions"),
        );
        // What follows is wrong because of it.
        break;
    }
    found.or_ok(())
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
        for symbol in function.ty(parameter).exprs().iter().flat_map(Expr::symbols) {
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
            let remedy = base::remedies::give_dimension(&name);
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
