//! Algebra: tables of rules, a line a rule, `before => after if condition`.
//!
//! Rules are exact: they keep every bit of a result, NaN payloads apart. Each looks at one node and
//! what defines its operands, through a [`Maker`].

mod arithmetic;
mod map;
mod movement;
pub(crate) mod spaces;

use base::PassContext;
use graph::{Op, ValueId};

use crate::maker::Maker;

/// One rule.
pub(crate) struct Rule {
    /// What users disable it by.
    pub(crate) name: &'static str,
    /// `before => after if condition`, for people.
    pub(crate) law: &'static str,
    subject: Subject,
    how: How,
}

/// The primitive that a rule looks at.
#[derive(Clone, Copy)]
enum Subject {
    Map,
    Bitcast,
    Broadcast,
    Reshape,
    Transpose,
    Slice,
    Pad,
    Concat,
    Gather,
    /// A contraction or a reduction.
    Space,
}

impl Subject {
    const COUNT: usize = Subject::Space as usize + 1;

    /// What a primitive is to rules; none if there are no rules for it.
    fn of(op: &Op) -> Option<Subject> {
        Some(match op {
            Op::Map { .. } => Subject::Map,
            Op::Bitcast { .. } => Subject::Bitcast,
            Op::Broadcast { .. } => Subject::Broadcast,
            Op::Reshape { .. } => Subject::Reshape,
            Op::Transpose { .. } => Subject::Transpose,
            Op::Slice { .. } => Subject::Slice,
            Op::Pad { .. } => Subject::Pad,
            Op::Concat { .. } => Subject::Concat,
            Op::Gather { .. } => Subject::Gather,
            Op::Contract { .. } | Op::Reduce { .. } => Subject::Space,
            _ => return None,
        })
    }
}

/// Rules by the primitive that they look at, in order of preference.
#[derive(Default)]
pub(crate) struct Rules {
    by_subject: [Vec<&'static Rule>; Subject::COUNT],
}

impl Rules {
    pub(crate) fn new(rules: impl IntoIterator<Item = &'static Rule>) -> Rules {
        let mut found = Rules::default();
        for rule in rules {
            found.by_subject[rule.subject as usize].push(rule);
        }
        found
    }

    /// The rules that look at a primitive.
    pub(crate) fn of(&self, op: &Op) -> &[&'static Rule] {
        Subject::of(op).map_or(&[], |subject| &self.by_subject[subject as usize])
    }
}

/// How a rule is written.
enum How {
    /// As two expressions and a condition on what they share.
    Expressions(arithmetic::Rewrite),
    /// As a function of a node's primitive and operands.
    Function(fn(&mut Maker<'_, '_>, &Op, &[ValueId]) -> Fired),
}

/// What a rule makes of a node, or why it does not fire.
pub(crate) type Fired = Result<ValueId, No>;

/// Why a rule does not fire.
#[derive(Debug)]
pub(crate) enum No {
    /// The node does not have the form.
    Match,
    /// The form is right, but not the condition.
    Because(&'static str),
    /// It made an ill-typed node, which is an error of the rule.
    Fault(String),
}

impl From<String> for No {
    fn from(reason: String) -> No {
        No::Fault(reason)
    }
}

impl Rule {
    const fn new(
        name: &'static str,
        subject: Subject,
        law: &'static str,
        function: fn(&mut Maker<'_, '_>, &Op, &[ValueId]) -> Fired,
    ) -> Rule {
        Rule { name, law, subject, how: How::Function(function) }
    }

    /// Applies the rule to a node.
    pub(crate) fn apply(&self, maker: &mut Maker<'_, '_>, op: &Op, operands: &[ValueId]) -> Fired {
        match &self.how {
            How::Expressions(rewrite) => rewrite.apply(maker, op, operands),
            How::Function(function) => function(maker, op, operands),
        }
    }
}

/// `Ok` if the condition holds, else the reason.
fn require(condition: bool, reason: &'static str) -> Result<(), No> {
    if condition { Ok(()) } else { Err(No::Because(reason)) }
}

/// All rules, in order of preference.
pub(crate) fn all() -> impl Iterator<Item = &'static Rule> {
    [movement::RULES, spaces::RULES, map::RULES, arithmetic::RULES].into_iter().flatten()
}

/// The rules that the user has not disabled.
pub(crate) fn enabled(context: &PassContext) -> Rules {
    Rules::new(all().filter(|rule| !context.is_disabled(rule.name)))
}

/// Name and law of every rule: `before => after if condition`.
pub fn laws() -> impl Iterator<Item = (&'static str, &'static str)> {
    all().map(|rule| (rule.name, rule.law))
}
