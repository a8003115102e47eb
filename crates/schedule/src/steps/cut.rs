//! Cut: one loop becomes two, one after the other.
//!
//! ```text
//! for k < 27 { body(k) }
//! ```
//!
//! `cut k at 24 into rest`
//!
//! ```text
//! for k < 24 { body(k) }
//! for rest < 3 { body(rest + 24) }
//! ```
//!
//! or, of a loop over the parts of a length that need not come out even,
//!
//! ```text
//! for k < (n + 7) div 8 { body(k) }
//! ```
//!
//! `cut k at tail into rest`
//!
//! ```text
//! for k < n div 8 { body(k) }
//! for rest < (n + 7) div 8 - n div 8 { body(rest + n div 8) }
//! ```
//!
//! so that conditions which hold throughout the whole parts go there.
//!
//! Legal: the loop is serial or a vector loop, as the second one is then; it provably has at least
//! `at` iterations, and `at` is positive; of a tail, its extent is a quotient by a constant. The
//! order of iterations stays. Symbols that the body binds get new names in the second loop, derived
//! from the old ones: `j` becomes `j_1`.

use std::collections::BTreeMap;

use loops::{Loop, LoopKind, Stmt, SymbolKind, substitute};
use sym::{Atom, Expr};

use crate::error::{Outcome, Refusal};
use crate::nest::{
    SymbolRanges, block_mut, check_new_symbol, check_serial, find_loop, loop_at, loop_at_mut,
};
use crate::state::State;
use crate::step::CutAt;

pub(crate) fn apply(state: &mut State, target: &str, at: CutAt, into: &str) -> Outcome {
    let kernel = &mut state.kernel;
    let site = find_loop(kernel, target)?;
    if loop_at(kernel, &site).kind != LoopKind::Vector {
        check_serial(kernel, loop_at(kernel, &site))?;
    }
    check_new_symbol(kernel, into)?;
    let Loop { variable, extent, body, kind } = loop_at(kernel, &site).clone();
    let cut = match at {
        CutAt::Turn(at) => {
            let cut = Expr::constant(at);
            if at < 1 || !SymbolRanges::of(kernel).less_equal(&cut, &extent) {
                let message = format!("it is not known to have {at} iterations");
                return Err(Refusal::at_loop(target, message));
            }
            cut
        }
        CutAt::Tail => whole_parts(&extent).ok_or_else(|| {
            Refusal::at_loop(target, "it is no loop over parts that need not come out even")
        })?,
    };
    let fresh = loops::KernelSymbol { name: into.into(), kind: SymbolKind::Loop };
    let rest = kernel.symbols.push(fresh);
    let mut copy = substitute::fresh_copy(kernel, &body);
    substitute::substitute(&mut copy, &BTreeMap::from([(variable, Expr::symbol(rest) + &cut)]));
    loop_at_mut(kernel, &site).extent = cut.clone();
    let extent = extent - &cut;
    let second = Loop { variable: rest, extent, kind, body: copy };
    block_mut(kernel, &site.block).insert(site.index + 1, Stmt::For(Box::new(second)));
    Ok(())
}

/// How many whole parts a length has, given how many parts it has if the last may be shorter.
fn whole_parts(parts: &Expr) -> Option<Expr> {
    match parts.as_atom()? {
        Atom::FloorDiv(above, part) => {
            let part = part.as_constant().filter(|part| *part > 1)?;
            Some(((**above).clone() - (part - 1)).floor_div(&part.into()))
        }
        _ => None,
    }
}
