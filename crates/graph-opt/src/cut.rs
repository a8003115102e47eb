//! The cut: what depends on weights alone becomes the function `setup`, the rest `main`.
//!
//! before: `main(x) = x + broadcast(w * s)`, `w` and `s` weights
//! after:  `setup() = w * s` and `main(x, c) = x + broadcast(c)`
//!
//! Values cross at their smallest: nodes that only repeat, count or rename (`Broadcast`, `Reshape`,
//! `Iota`, literals) are computed again in `main`, indices are converted there, and a weight that
//! `main` reads as it is stays a `Weight`. Where `main` only looks up elements of what is larger
//! than the constants it is made of, element by element (a quantised table of embeddings), or
//! multiplies each a few times (weights of few bits), or has them follow sums (scales of 16 bits
//! and of bytes, and products of such), it makes those elements of the constants that take the
//! least memory. Run after dead nodes are gone and equal nodes are one.

use base::{Arena, IdSet, SecondaryMap};
use graph::{Definition, Function, Node, NodeId, Op, User, Users, ValueId, element_count};
use tensor::{DType, ScalarFunction};

/// The two halves of a function.
#[derive(Clone, Debug, PartialEq)]
pub struct Cut {
    /// No parameters; its results are the constants that `main` needs.
    pub setup: Function,
    /// Its parameters: those of the whole, then one for each result of `setup`.
    pub main: Function,
}

/// Cuts a function in two.
#[must_use]
pub fn cut(function: Function) -> Cut {
    let crossing = crossing_values(&function);
    Cut { setup: setup_of(&function, &crossing), main: main_of(function, &crossing) }
}

/// The constant values that `main` reads, in order of definition; all results of their nodes.
fn crossing_values(function: &Function) -> Vec<ValueId> {
    let constants = function.constant_values();
    let mut crossing: IdSet<NodeId> = IdSet::new();
    let mut work: Vec<ValueId> = function.results().to_vec();
    for id in function.nodes_in_order() {
        let node = &function.nodes[id];
        if node.results.iter().any(|&result| !constants.contains(result)) {
            work.extend(&node.operands);
            work.extend(node.regions.iter().flat_map(|&region| &function.regions[region].results));
        }
    }
    let users = function.users();
    let mut least = Least { function, found: SecondaryMap::new() };
    let met_seldom = |value: ValueId| {
        let made = function.producer(value);
        let is_field = made.is_some_and(|(id, _)| function.nodes[id].op.is_field());
        let is_of_short = made.is_some() && is_of_short(function, value);
        let is_read = |user: &User| match *user {
            User::Operand(node, number) => {
                let made = function.nodes[node].results.first();
                let seldom = match &function.nodes[node].op {
                    Op::Gather { .. } => number == 0,
                    Op::Contract { accumulator, .. } if accumulator.is_integer() && is_field => {
                        true
                    }
                    Op::Contract { space, .. } => {
                        let shape = function.ty(value).as_tensor().map(|ty| &ty.shape);
                        shape.is_some_and(|shape| space.meets_seldom(shape))
                    }
                    // What follows a sum is met once for all of its terms.
                    _ if is_of_short => scales_sum(function, &users, (node, number)),
                    _ => false,
                };
                seldom || made.is_some_and(|&made| constants.contains(made))
            }
            User::Result(..) => false,
        };
        users[value].iter().all(is_read)
    };
    // Indices are converted as they are read.
    let is_index = |value: ValueId, op: &Op| {
        let converts = matches!(op, Op::Map { function: ScalarFunction::Cast, .. });
        let as_index = |user: &User| match *user {
            User::Operand(node, number) => {
                let indexed = function.nodes[node].op.indexed_axes();
                indexed.is_some_and(|(_, first)| number >= first)
            }
            User::Result(..) => false,
        };
        converts && users[value].iter().all(as_index)
    };
    let (mut seen, mut looked_through) = (IdSet::new(), IdSet::new());
    while let Some(value) = work.pop() {
        if !constants.contains(value) || !seen.insert(value) {
            continue;
        }
        let Definition::Result(id, _) = function.values[value].definition else { continue };
        let op = &function.nodes[id].op;
        let through = is_elementwise(op)
            && (looked_through.contains(value)
                || met_seldom(value) && (op.is_field() || least.is_outgrown(value)));
        if through && least.is_less_behind(value) {
            function.nodes[id].operands.iter().for_each(|it| _ = looked_through.insert(*it));
            work.extend(&function.nodes[id].operands);
        } else if is_recomputed(op) || is_index(value, op) && least.widens(id) {
            work.extend(&function.nodes[id].operands);
        } else {
            crossing.insert(id);
        }
    }
    let order = function.nodes_in_order().into_iter().filter(|&id| crossing.contains(id));
    order.flat_map(|id| function.nodes[id].results.clone()).collect()
}

/// Whether a value is floats of 16 bits, or bytes, that are converted, or products of such: kernels
/// make these where they load what they are made of.
fn is_of_short(function: &Function, value: ValueId) -> bool {
    let bits = |value: ValueId| function.ty(value).as_tensor().map(|ty| ty.dtype.bits());
    let (mut work, mut converts) = (vec![value], false);
    // Scales are products of few numbers.
    for _ in 0..16 {
        let Some(value) = work.pop() else { return converts };
        let Some((id, _)) = function.producer(value) else { return false };
        let Node { op, operands, .. } = &function.nodes[id];
        match op {
            Op::Map { function: ScalarFunction::Cast, dtype: DType::F32 }
                if bits(operands[0]).is_some_and(|bits| bits <= 16) =>
            {
                converts = true;
            }
            Op::Map { function: ScalarFunction::Mul | ScalarFunction::Neg, dtype: DType::F32 }
            | Op::Broadcast { .. }
            | Op::Reshape { .. } => work.extend(operands),
            _ => return false,
        }
    }
    false
}

/// Whether an operand of a node only ever meets what is made of a sum, element by element.
fn scales_sum(function: &Function, users: &Users, first: (NodeId, usize)) -> bool {
    let mut work = vec![first];
    while let Some((node, number)) = work.pop() {
        let Node { op, operands, results, .. } = &function.nodes[node];
        match op {
            Op::Map { .. } => {
                let mut others = operands.iter().enumerate().filter(|(at, _)| *at != number);
                if !others.any(|(_, &value)| is_of_sum(function, value)) {
                    return false;
                }
            }
            Op::Broadcast { .. } | Op::Reshape { .. } | Op::Transpose { .. } => {
                for user in results.iter().flat_map(|&result| &users[result]) {
                    let User::Operand(node, number) = *user else { return false };
                    work.push((node, number));
                }
            }
            _ => return false,
        }
    }
    true
}

/// Whether a value is made of a sum, element by element.
fn is_of_sum(function: &Function, value: ValueId) -> bool {
    let mut work = vec![value];
    // Sums with scales are no long chains of maps.
    for _ in 0..16 {
        let Some((id, _)) = work.pop().and_then(|value| function.producer(value)) else { continue };
        match &function.nodes[id].op {
            Op::Contract { .. } | Op::Reduce { .. } => return true,
            op if is_elementwise(op) || matches!(op, Op::Transpose { .. }) => {
                work.extend(&function.nodes[id].operands);
            }
            _ => {}
        }
    }
    false
}

/// Whether an element of what a node makes follows from an element of each operand.
fn is_elementwise(op: &Op) -> bool {
    matches!(op, Op::Map { .. } | Op::Bitcast { .. } | Op::Broadcast { .. } | Op::Reshape { .. })
}

/// The least memory of constants that values can be made of, element by element, in bits.
struct Least<'a> {
    function: &'a Function,
    found: SecondaryMap<ValueId, Option<Bits>>,
}

/// The bits of a value.
#[derive(Clone, Copy)]
struct Bits {
    /// What it would take by itself.
    own: i64,
    /// The least that it can be made of; numbers that are computed anyway take nothing.
    behind: i64,
    /// The same, where they count as well.
    counted: i64,
}

impl Least<'_> {
    /// Whether a value takes at least twice the memory of what it can be made of, but for numbers
    /// that take a small part of it.
    fn is_outgrown(&mut self, value: ValueId) -> bool {
        let Bits { own, counted, .. } = self.of(value);
        (own.saturating_add(2)).saturating_mul(32) >= counted.saturating_mul(63)
    }

    /// Whether what a value is made of takes less memory than the value.
    fn is_less_behind(&mut self, value: ValueId) -> bool {
        let Bits { own, behind, .. } = self.of(value);
        behind < own
    }

    /// Whether the result of a conversion takes more memory than what is converted.
    fn widens(&self, id: NodeId) -> bool {
        let node = &self.function.nodes[id];
        self.bits(node.results[0]) > self.bits(node.operands[0])
    }

    /// The bits that a value would take by itself, and the least that it can be made of. Weights
    /// are there already, so they win a tie.
    fn of(&mut self, value: ValueId) -> Bits {
        let mut work = vec![(value, false)];
        while let Some((value, are_known)) = work.pop() {
            if self.found[value].is_some() {
                continue;
            }
            let producer = self.function.producer(value).map(|(id, _)| &self.function.nodes[id]);
            let own = self.bits(value).saturating_add(1);
            self.found[value] = Some(match producer {
                Some(node) if matches!(node.op, Op::Literal(_) | Op::Iota { .. }) => {
                    Bits { own: 0, behind: 0, counted: own }
                }
                Some(node) if matches!(node.op, Op::Weight { .. }) => {
                    Bits { own: own - 1, behind: own - 1, counted: own - 1 }
                }
                Some(node) if is_elementwise(&node.op) => {
                    if !are_known {
                        work.push((value, true));
                        work.extend(node.operands.iter().map(|&operand| (operand, false)));
                        continue;
                    }
                    let mut operands = node.operands.clone();
                    operands.sort_unstable();
                    operands.dedup();
                    let mut bits = Bits { own, behind: 0, counted: 0 };
                    for found in operands.iter().filter_map(|&operand| self.found[operand]) {
                        let least = found.own.min(found.behind);
                        let counted = if least == 0 { found.counted } else { least };
                        bits.behind = bits.behind.saturating_add(least);
                        bits.counted = bits.counted.saturating_add(counted);
                    }
                    bits
                }
                _ => Bits { own, behind: own, counted: own },
            });
        }
        self.found[value].unwrap_or(Bits { own: 0, behind: i64::MAX, counted: i64::MAX })
    }

    fn bits(&self, value: ValueId) -> i64 {
        let ty = self.function.ty(value).as_tensor();
        let bits = ty.and_then(|ty| {
            Some(element_count(&ty.shape).as_constant()? * i64::from(ty.dtype.bits()))
        });
        bits.unwrap_or(i64::MAX - 1)
    }
}

/// Whether a constant node is cheaper to compute again than to keep.
fn is_recomputed(op: &Op) -> bool {
    matches!(
        op,
        Op::Literal(_)
            | Op::Weight { .. }
            | Op::Iota { .. }
            | Op::Broadcast { .. }
            | Op::Reshape { .. }
    )
}

fn setup_of(function: &Function, crossing: &[ValueId]) -> Function {
    let mut setup = function.part(Vec::new(), crossing.to_vec());
    setup.name = "setup".to_owned();
    setup.symbols = Arena::new();
    setup.result_names = (0..crossing.len()).map(constant_name).collect();
    setup
}

fn main_of(function: Function, crossing: &[ValueId]) -> Function {
    let mut parameters = [function.parameters(), crossing].concat();
    if base::fault::is_seeded("graph-opt.cut") {
        parameters[function.parameters().len()..].reverse();
    }
    let results = function.results().to_vec();
    let mut main = function.into_part(parameters, results);
    main.name = "main".to_owned();
    main.parameter_names.extend((0..crossing.len()).map(constant_name));
    main
}

fn constant_name(number: usize) -> String {
    format!("constant{number}")
}
