//! The strategy for statements that what they find leads through: the loops inside of them that are
//! not so led, in vectors.
//!
//! Such statements cannot go side by side for several rows. What they look at first may: a loop
//! whose turns are independent of each other runs in vectors, and what it stores for the statements
//! around it stays in registers.

use backend::Target;
use loops::{Loop, Scope, Stmt};
use schedule::Schedule;

use crate::given::{Given, Refused};
use crate::hand::Hand;
use crate::plain;
use crate::point::Point;

/// The sketch's name.
pub(super) const NAME: &str = "inner";

/// See the head of this file.
pub(super) fn apply(
    schedule: &mut Schedule,
    given: &Given<'_>,
    _point: &Point,
    target: &Target,
) -> Result<String, Refused> {
    if target.is_microcontroller() {
        return Err("it has no vectors to speak of".into());
    }
    let mut has_while = false;
    loops::visit::walk(&given.naive.kernel.body, &mut |stmt| {
        has_while |= matches!(stmt, Stmt::While { .. });
    });
    if !has_while {
        return Err("no statement is led by what it finds".into());
    }
    let mut hand = Hand::new(schedule);
    let inner = inner_loops(&hand);
    let mut vectors = Vec::new();
    for (name, buffer) in inner {
        let in_registers = hand.attempt(|hand| {
            hand.vectorise(&name)?;
            hand.registers(&buffer)
        });
        if in_registers.is_ok() {
            vectors.push(name);
        }
    }
    if vectors.is_empty() {
        return Err("no loop inside of them can run in vectors".into());
    }
    let shared = plain::apply(schedule, &given.naive, target);
    Ok(format!("vectors along {}, {shared}", vectors.join(", ")))
}

/// The loops inside of others that do nothing but to store to local memory, and what they store to.
fn inner_loops(hand: &Hand<'_>) -> Vec<(String, String)> {
    let kernel = hand.kernel();
    let mut found = Vec::new();
    let mut look = |inner: &Loop| {
        let [Stmt::Store { buffer, .. }] = &inner.body[..] else { return };
        if matches!(kernel.buffers[*buffer].scope, Scope::Scratch) {
            let name = kernel.symbols[inner.variable].name.clone();
            found.push((name, kernel.buffers[*buffer].name.clone()));
        }
    };
    loops::visit::walk(&kernel.body, &mut |stmt| {
        if let Stmt::For(around) = stmt {
            for stmt in &around.body {
                if let Stmt::For(inner) = stmt {
                    look(inner);
                }
            }
        }
    });
    found
}
