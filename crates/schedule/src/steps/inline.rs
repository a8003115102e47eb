//! Inline: a buffer's readers compute its value themselves.
//!
//! ```text
//! for i < 8 { %t[i] = exp(%a[i]) }
//! for j < 8 { %c[j] = %t[j] * 2.0 }
//! ```
//!
//! `inline t`
//!
//! ```text
//! for j < 8 { %c[j] = exp(%a[j]) * 2.0 }
//! ```
//!
//! Legal: the buffer is local, written by one store alone, in a nest of loops and nothing else, at
//! an index that is one of the nest's variables, each a different one, along every axis (or zero
//! along an axis of extent 1); it is only loaded from otherwise, after the nest and in the same
//! block, of the kernel or of a loop; what its value loads is not written after the nest there. A
//! product must not become the operand of a floating-point sum that would then be a fused
//! multiply-add.

use std::collections::{BTreeMap, BTreeSet};

use base::IntoTree;
use loops::visit::{references, touched, value_references, value_symbols, walk};
use loops::{BufferId, Kernel, ScalarExpr, Scope, Stmt, substitute};
use sym::{Expr, SymbolId};
use tensor::Reduction;

use crate::error::{Outcome, Refusal};
use crate::nest::find_buffer;
use crate::state::State;
use crate::steps::simplify::compact;

/// What a buffer holds, as a function of its index.
struct Definition {
    /// The loops, by position, in whose innermost body the nest and all readers are.
    block: Vec<usize>,
    /// Position of the nest in that block.
    position: usize,
    /// The variable along each axis; none where the index is zero.
    variables: Vec<Option<SymbolId>>,
    value: ScalarExpr,
}

pub(crate) fn apply(state: &mut State, buffer: &str) -> Outcome {
    let kernel = &mut state.kernel;
    let id = find_buffer(kernel, buffer)?;
    let definition = definition(kernel, id, buffer)?;
    check_readers(kernel, id, &definition, buffer)?;
    block_mut(kernel, &definition.block).remove(definition.position);
    substitute::replace_loads(&mut kernel.body, id, |index| {
        let pairs = definition.variables.iter().zip(index);
        let replacements: BTreeMap<SymbolId, Expr> =
            pairs.filter_map(|(variable, expr)| Some(((*variable)?, expr.clone()))).into_map();
        let mut value = definition.value.clone();
        substitute::substitute_value(&mut value, &replacements);
        value
    });
    compact(state);
    Ok(())
}

/// The body of the innermost of some loops.
fn block<'k>(kernel: &'k Kernel, path: &[usize]) -> &'k [Stmt] {
    path.iter().fold(&kernel.body[..], |block, &at| match &block[at] {
        Stmt::For(inner) => &inner.body,
        _ => unreachable!("the path leads through loops"),
    })
}

fn block_mut<'k>(kernel: &'k mut Kernel, path: &[usize]) -> &'k mut Vec<Stmt> {
    path.iter().fold(&mut kernel.body, |block, &at| match &mut block[at] {
        Stmt::For(inner) => &mut inner.body,
        _ => unreachable!("the path leads through loops"),
    })
}

/// The innermost block that has several statements which touch a buffer.
fn block_of(kernel: &Kernel, id: BufferId) -> Vec<usize> {
    let mut path = Vec::new();
    loop {
        let statements = block(kernel, &path);
        let touches = |at: &usize| {
            references(std::slice::from_ref(&statements[*at])).iter().any(|r| r.buffer == id)
        };
        let found: Vec<usize> = (0..statements.len()).filter(touches).collect();
        match found[..] {
            [at] if matches!(statements[at], Stmt::For(_)) => path.push(at),
            _ => return path,
        }
    }
}

/// The one store that defines the buffer.
fn definition(kernel: &Kernel, id: BufferId, name: &str) -> Outcome<Definition> {
    let refuse = |message: &str| Err(Refusal::at_buffer(name, message));
    if matches!(kernel.buffers[id].scope, Scope::Parameter(_)) {
        return refuse("a parameter is not inlined");
    }
    let writes = |stmt: &Stmt| touched(std::slice::from_ref(stmt)).1.contains(&id);
    let path = block_of(kernel, id);
    let statements = block(kernel, &path);
    let Some(position) = statements.iter().position(writes) else {
        return refuse("no nest beside its readers defines it");
    };
    let (mut stmt, mut loops) = (&statements[position], BTreeSet::new());
    while let Stmt::For(inner) = stmt {
        loops.insert(inner.variable);
        let [only] = &inner.body[..] else { return refuse("its nest does more than store it") };
        stmt = only;
    }
    let Stmt::Store { buffer, index, value } = stmt else {
        return refuse("its nest is more than loops around a store");
    };
    if *buffer != id
        || references(&kernel.body).iter().filter(|r| r.buffer == id && r.effect.writes()).count()
            != 1
    {
        return refuse("it is written in more than one place");
    }
    let mut variables = Vec::new();
    for expr in index {
        match expr.as_symbol().filter(|symbol| loops.remove(symbol)) {
            Some(symbol) => variables.push(Some(symbol)),
            None if expr.is_zero() => variables.push(None),
            None => return refuse("its index is not made of the nest's variables"),
        }
    }
    if value_symbols(value).iter().any(|symbol| loops.contains(symbol)) {
        return refuse("its value depends on a loop that its index does not name");
    }
    Ok(Definition { block: path, position, variables, value: value.clone() })
}

fn check_readers(kernel: &Kernel, id: BufferId, definition: &Definition, name: &str) -> Outcome {
    let refuse = |message: String| Err(Refusal::at_buffer(name, message));
    let all = references(&kernel.body);
    let mut own = Vec::new();
    value_references(&definition.value, &mut |reference| own.push(reference));
    if own.iter().any(|r| r.buffer == id) {
        return refuse("it is computed from itself".into());
    }
    if all
        .iter()
        .any(|r| r.buffer == id && r.effect.reads() && r.index.len() < definition.variables.len())
    {
        return refuse("a fold reads it as a whole".into());
    }
    let (before, after) = block(kernel, &definition.block).split_at(definition.position);
    if references(before).iter().any(|r| r.buffer == id) {
        return refuse("it is read before it is computed".into());
    }
    let (_, written) = touched(&after[1..]);
    if let Some(source) = own.iter().find(|r| written.contains(&r.buffer)) {
        let source = &kernel.buffers[source.buffer].name;
        return refuse(format!("`{source}`, from which it is computed, is written later"));
    }
    let product = definition.value.is_product();
    let mut contracted = false;
    walk(&kernel.body, &mut |stmt| {
        if let Stmt::Reduce {
            reduction: Reduction::Sum,
            value: ScalarExpr::Load { buffer, .. },
            ..
        } = stmt
        {
            contracted |= *buffer == id;
        }
    });
    if product && contracted && kernel.buffers[id].dtype.is_float() {
        return refuse("its product would be fused with a sum and rounded only once".into());
    }
    Ok(())
}
