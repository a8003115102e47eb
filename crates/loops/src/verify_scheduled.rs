//! What must hold, beyond `verify`, of a kernel that a back end is given.
//!
//! - Scalar functions are those of
//!   [`ScalarFunction::is_machine`](tensor::ScalarFunction::is_machine).
//! - Register buffers have constant shapes. Their indices are made of constants and variables of
//!   `Unroll` and `Instruction` loops, but for the last axis, which may add the variable of one
//!   `Vector` loop, once.
//! - Within a `Vector` loop, extents are constants. A sum over lanes is a fold: what is reduced
//!   into differs between lanes.

use crate::domain::{Domain, walk_domains};
use crate::kernel::{BufferId, Kernel, LoopKind, ScalarExpr, Scope, Stmt, SymbolKind};
use crate::print::Remarks;
use crate::verify::{report, verify};
use sym::{Expr, SymbolId};

/// Checks that a kernel is well formed and in the scheduled form.
///
/// # Errors
/// One diagnostic with the kernel's listing, in which each broken rule stands below the statement
/// that breaks it.
pub fn verify_scheduled(kernel: &Kernel) -> base::Result<()> {
    verify(kernel)?;
    let mut remarks = Remarks::new();
    for buffer in kernel.buffers.values().filter(|buffer| buffer.scope == Scope::Register) {
        if buffer.shape.iter().any(|extent| extent.as_constant().is_none()) {
            let message = format!("the register buffer %{} has no constant shape", buffer.name);
            remarks.entry(None).or_default().push(message);
        }
    }
    let mut next = 0;
    walk_domains(kernel, &mut |stmt, domain| {
        let mut wrong = Vec::new();
        statement(kernel, stmt, domain, &mut wrong);
        if !wrong.is_empty() {
            remarks.entry(Some(next)).or_default().append(&mut wrong);
        }
        next += 1;
    });
    report(kernel, remarks)
}

fn statement(kernel: &Kernel, stmt: &Stmt, domain: &Domain<'_>, wrong: &mut Vec<String>) {
    let is_register = |buffer: BufferId| kernel.buffers[buffer].scope == Scope::Register;
    if let Some(value) = stmt.value() {
        value.walk(&mut |value| match value {
            ScalarExpr::Apply { function, .. } if !function.is_machine() => {
                wrong.push(format!("`{function}` is to be expanded before"));
            }
            ScalarExpr::Load { buffer, index } | ScalarExpr::Fold { buffer, index, .. }
                if is_register(*buffer) =>
            {
                register(kernel, *buffer, index, domain, wrong);
            }
            _ => {}
        });
    }
    match stmt {
        Stmt::Store { buffer, index, .. } | Stmt::Reduce { buffer, index, .. }
            if is_register(*buffer) =>
        {
            register(kernel, *buffer, index, domain, wrong);
        }
        _ => {}
    }
    if let Stmt::Reduce { buffer, index, .. } = stmt
        && let Some(lane) = domain.loops.iter().find(|inner| inner.kind == LoopKind::Vector)
        && !lane.extent.is_one()
        && !index.iter().any(|expr| may_differ(kernel, expr, lane.variable))
    {
        let name = &kernel.buffers[*buffer].name;
        wrong.push(format!("all lanes reduce into one element of %{name}"));
    }
}

/// Whether an expression may differ between the lanes of a vector loop.
fn may_differ(kernel: &Kernel, expr: &Expr, lane: SymbolId) -> bool {
    let is_value = |symbol| matches!(kernel.symbols[symbol].kind, SymbolKind::Value { .. });
    expr.any_symbol(&mut |symbol| symbol == lane || is_value(symbol))
}

/// The index of a register: constants and variables of `Unroll` loops, and along the last axis a
/// `Vector` variable. Its first lane is an element, even if a guard leaves that lane out.
fn register(
    kernel: &Kernel,
    buffer: BufferId,
    index: &[Expr],
    domain: &Domain<'_>,
    wrong: &mut Vec<String>,
) {
    for (axis, expr) in index.iter().enumerate() {
        let is_last = axis + 1 == kernel.buffers[buffer].shape.len();
        let fits = |symbol| {
            let around = domain.loops.iter().find(|inner| inner.variable == symbol);
            match around.map(|inner| &inner.kind) {
                Some(LoopKind::Unroll | LoopKind::Instruction(_)) => true,
                Some(LoopKind::Vector) => {
                    is_last
                        && expr.linear_coefficient(symbol) == Some(1)
                        && domain.ranges.bounds(&expr.without(symbol)).min >= 0
                }
                Some(LoopKind::Serial | LoopKind::Parallel) | None => false,
            }
        };
        if !expr.any_symbol(&mut |symbol| !fits(symbol)) {
            continue;
        }
        for symbol in expr.symbols().into_iter().filter(|symbol| !fits(*symbol)) {
            let (name, symbol) = (kernel.buffer_name(buffer), kernel.symbol_name(symbol));
            wrong.push(format!("the register buffer {name} is indexed by `{symbol}`"));
        }
    }
}
