//! Which values are stored, and which are inlined into their readers.
//!
//! Stored are parameters, weights, literals of several values, results, and what is made by
//! statements or sums. The rest (maps, movements, gathers) is inlined unless that
//!
//! - puts computation into the operand of a contraction or of overlapping windows, which read it
//!   many times, or makes a contraction's access strided along its innermost axis;
//! - computes a value again for every repetition of a broadcast, in several kernels or at several
//!   places of one, more work than a load;
//! - shares nothing because it happens inside a guard.
//!
//! A combination (a sum with a literal, written out) is inlined into the one that alone reads it.
//!
//! Nodes are visited readers first, so what becomes of the readers is known. A `Reshape` never has
//! memory of its own: where it needs some, its operand gets it.

use std::collections::BTreeSet;

use backend::Target;
use base::{Id, IdSet, IntoTree, SecondaryMap};
use graph::{Function, IterationSpace, Node, NodeId, Op, User, Users, ValueId};
use sym::{Atom, Expr};
use tensor::ScalarFunction;

use super::Fusion;
use super::bound::MOST_NODES;
use crate::combination::{Combination, MOST_WRITTEN};
use crate::definitions::{Class, class, class_of, class_of_node, cost, operand_index, space};
use crate::naive::index::{AxisSymbols, dense_strides, extents, extents_of, shape_of, weight};

/// A computation of at most this cost may be done again rather than stored, once for each of
/// several readers.
const CHEAP_TO_REPEAT: u32 = 4;

/// The same for each repetition of a broadcast.
const CHEAP_TO_BROADCAST: u32 = 2;

/// Bytes from which on rows count as far apart: each then begins another page, or soon will.
const FAR_APART: i64 = 2048;

/// The same where the pieces of all rows do not stay in the first-level cache, so that they come
/// from the second one time and again: prefetchers that follow streams see none.
const APART: i64 = 512;

/// What reading a value asks of it, seen through the movements in between.
#[derive(Clone, Copy, Debug, Default)]
struct Demand {
    /// It needs memory in any case.
    memory: bool,
    /// Read inside a guard.
    guarded: bool,
    /// Each element is read many times by a broadcast.
    repeated: bool,
    /// A contraction, or a reduction over overlapping windows, reads it.
    windowed: bool,
}

/// The nodes with nests of their own into which the readers of a value are inlined.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
enum Roots {
    #[default]
    None,
    One(NodeId),
    Several,
}

impl Roots {
    fn and(self, other: Roots) -> Roots {
        match (self, other) {
            (Roots::None, roots) | (roots, Roots::None) => roots,
            (one, other) if one == other => one,
            _ => Roots::Several,
        }
    }
}

struct Chooser<'a> {
    function: &'a Function,
    users: &'a Users,
    fusion: bool,
    /// Whether the function runs once: then its kernels are not worth good code.
    once: bool,
    target: &'a Target,
    /// What is stored in any case.
    apart: &'a IdSet<ValueId>,
    stored: SecondaryMap<ValueId, bool>,
    demands: SecondaryMap<ValueId, Demand>,
    /// Where a value's readers are inlined.
    roots: SecondaryMap<ValueId, Roots>,
    /// The statements of the nest into which a combination is inlined, so far.
    written: SecondaryMap<ValueId, i64>,
}

/// Chooses; true is stored. A `Reshape` or `Bind` is never marked: it lies where its operand does.
pub(super) fn choose(
    function: &Function,
    users: &Users,
    wanted: Fusion<'_>,
) -> SecondaryMap<ValueId, bool> {
    let Fusion { wanted: fusion, once, target, apart } = wanted;
    let (stored, demands) = (SecondaryMap::new(), SecondaryMap::new());
    let (roots, written) = (SecondaryMap::new(), SecondaryMap::new());
    let mut chooser =
        Chooser { function, users, fusion, once, target, apart, stored, demands, roots, written };
    for &parameter in function.parameters() {
        chooser.stored[parameter] = true;
    }
    for &node in function.regions[function.body].nodes.iter().rev() {
        for &result in &function.nodes[node].results {
            chooser.visit(node, result);
        }
        chooser.ask_operands(node);
    }
    chooser.stored
}

impl Chooser<'_> {
    fn visit(&mut self, node: NodeId, value: ValueId) {
        let users = &self.users[value];
        // What is read inside a node's regions counts as an operand behind the others.
        let is_index = class_of_node(self.function, node) == Class::Index;
        let as_a_whole = |user: &User| match *user {
            User::Result(..) => true,
            User::Operand(node, number) => {
                let inside = number >= self.function.nodes[node].operands.len();
                inside && !(is_index && class_of_node(self.function, node) == Class::Iteration)
            }
        };
        self.demands[value].memory |= users.iter().any(as_a_whole);
        let readers = users.iter().filter_map(|user| match *user {
            User::Operand(reader, _) => Some(self.roots_of_reader(reader)),
            User::Result(..) => None,
        });
        let roots = readers.fold(Roots::None, Roots::and);
        let several = roots == Roots::Several || self.is_read_at_several_places(value);
        self.roots[value] = roots;
        self.stored[value] = self.is_stored(node, value, several);
    }

    /// Whether readers look for a value's elements at different places, which computes each as
    /// often even within one nest.
    fn is_read_at_several_places(&self, value: ValueId) -> bool {
        let moves = |user: &User| {
            let &User::Operand(reader, number) = user else { return false };
            let op = &self.function.nodes[reader].op;
            match class(op) {
                Class::Indexed => number == 0,
                Class::Movement => !matches!(op, Op::Broadcast { .. }),
                _ => false,
            }
        };
        self.users[value].len() > 1 && self.users[value].iter().any(moves)
    }

    fn roots_of_reader(&self, reader: NodeId) -> Roots {
        let results = &self.function.nodes[reader].results;
        match results.iter().any(|&result| self.stored[result]) {
            true => Roots::One(reader),
            false => results.iter().map(|&result| self.roots[result]).fold(Roots::None, Roots::and),
        }
    }

    /// Whether a combination has to be stored; how many statements it takes is noted.
    fn is_stored_combination(&mut self, node: NodeId, value: ValueId) -> bool {
        let Some(own) = Combination::of(self.function, node) else { return true };
        let reader = match self.users[value][..] {
            [User::Operand(reader, number)] => Combination::of(self.function, reader)
                .filter(|combination| combination.operand == number)
                .map(|combination| (reader, combination)),
            _ => None,
        };
        let written = reader.and_then(|(reader, combination)| {
            let around = self.written[self.function.nodes[reader].results[0]];
            // Axes that the reader sums are constant there, the others become so.
            let known = |axis: &usize| {
                combination.sums_axis(*axis) || combination.axis_read_at(*axis).is_some()
            };
            let free = own.written_axes().filter(|axis| !combination.sums_axis(*axis));
            let shape = shape_of(self.function, value);
            let count = around * free.map(|axis| shape[axis]).product::<i64>();
            (own.written_axes().all(|axis| known(&axis)) && count <= MOST_WRITTEN).then_some(count)
        });
        self.written[value] = written.unwrap_or(own.written());
        written.is_none()
    }

    fn is_stored(&mut self, node: NodeId, value: ValueId, several_roots: bool) -> bool {
        let demand = self.demands[value];
        match class_of_node(self.function, node) {
            Class::Index => demand.memory,
            Class::View => false,
            _ if !self.fusion || self.apart.contains(value) => true,
            class @ (Class::Elementwise | Class::Indexed) => {
                let shared = self.users[value].len() > 1;
                demand.memory
                    || demand.windowed && !self.is_made_of_less(value)
                    || demand.guarded && (class == Class::Indexed || shared)
                    || demand.repeated && !self.may_repeat(value, CHEAP_TO_BROADCAST)
                    || several_roots && !self.may_repeat(value, CHEAP_TO_REPEAT)
                    || self.is_short_beside_another_sum(node, value)
            }
            Class::Guarded => {
                let fits = match self.users[value][..] {
                    [User::Operand(reader, _)] => match class_of_node(self.function, reader) {
                        Class::Elementwise => true,
                        // A transpose under conditions is slower than two copies, but one thing to
                        // do.
                        Class::Movement | Class::View => {
                            self.moves_linearly(value) && (self.once || !self.is_turned(value))
                        }
                        _ => false,
                    },
                    _ => false,
                };
                demand.memory || demand.windowed || demand.guarded || !fits
            }
            Class::Movement => demand.memory || self.sum_prefers_copy(value),
            Class::Combination => self.is_stored_combination(node, value),
            Class::Constant
            | Class::OwnNest
            | Class::Assembled
            | Class::Contraction
            | Class::Reduction
            | Class::Iteration
            | Class::Statements
            | Class::Step => true,
        }
    }

    /// Whether a value is made, element by element, of at most half its memory, or of less as
    /// fields of bytes, and met by contractions alone, which meet each element a few times.
    fn is_made_of_less(&self, value: ValueId) -> bool {
        let made = self.function.producer(value);
        let is_field = made.is_some_and(|(id, _)| self.function.nodes[id].op.is_field());
        let seldom = |user: &User| {
            let &User::Operand(reader, _) = user else { return false };
            let Op::Contract { space, accumulator, .. } = &self.function.nodes[reader].op else {
                return false;
            };
            is_field && accumulator.is_integer()
                || space.meets_seldom(extents(self.function, value))
        };
        let bits = |value: ValueId| {
            let bits = self.function.ty(value).as_tensor().map_or(0, |ty| ty.dtype.bits());
            extents_of(self.function, value).product::<i64>().saturating_mul(i64::from(bits))
        };
        let (mut work, mut seen, mut behind) = (vec![value], IdSet::new(), 0i64);
        while let Some(next) = work.pop() {
            if !seen.insert(next) {
                continue;
            }
            let Some((node, _)) = self.function.producer(next) else {
                behind = behind.saturating_add(bits(next));
                continue;
            };
            match class_of_node(self.function, node) {
                Class::Elementwise | Class::View | Class::Movement => {
                    work.extend(&self.function.nodes[node].operands);
                }
                Class::Index | Class::Constant => {}
                _ => return false,
            }
        }
        let is_less = match is_field {
            true => behind < bits(value),
            false => behind.saturating_mul(2) <= bits(value),
        };
        self.users[value].iter().all(seldom) && is_less
    }

    /// Whether a value is shorter than the sum that it is made of, in a nest that reads a later sum
    /// as well: one of the two has to be stored, and this is the least of it.
    fn is_short_beside_another_sum(&self, node: NodeId, value: ValueId) -> bool {
        let bits = |value| self.function.ty(value).as_tensor().map(|ty| ty.dtype.bits());
        let data = &self.function.nodes[node];
        let Roots::One(root) = self.roots[value] else { return false };
        let narrows = match data.op {
            Op::Map { function: ScalarFunction::Cast, .. } => bits(value) < bits(data.operands[0]),
            // What is looked up element by element is made of the index.
            Op::Gather { .. } => true,
            _ => false,
        };
        if !narrows {
            return false;
        }
        let own = self.sums_below(&[value], None);
        let (Some(&sum), true) =
            (own.iter().max(), bits(value) < own.iter().filter_map(|&it| bits(it)).min())
        else {
            return false;
        };
        // A reduction reads each element of a sum where it is the shorter one, too.
        if self.target.is_microcontroller()
            && class_of_node(self.function, root) == Class::Reduction
        {
            return true;
        }
        let others = self.sums_below(&self.function.nodes[root].operands, Some(value));
        others.into_iter().any(|other| other > sum)
    }

    /// The sums that values are made of element by element, other than through one value.
    fn sums_below(&self, values: &[ValueId], except: Option<ValueId>) -> Vec<ValueId> {
        let (mut work, mut seen, mut sums) = (values.to_vec(), IdSet::new(), Vec::new());
        // What is farther away is in another kernel.
        let mut left = MOST_NODES;
        while let Some(value) = work.pop().filter(|_| left > 0) {
            if except == Some(value) || !seen.insert(value) {
                continue;
            }
            left -= 1;
            let Some((node, _)) = self.function.producer(value) else { continue };
            match class_of_node(self.function, node) {
                Class::Contraction => sums.push(value),
                Class::Elementwise | Class::View | Class::Indexed if !self.stored[value] => {
                    work.extend(&self.function.nodes[node].operands);
                }
                _ => {}
            }
        }
        sums
    }

    /// Whether the nest of which a value is to be a part finds its elements at sums of multiples of
    /// the nest's axes: conditions on quotients prove nothing of where a load reads.
    fn moves_linearly(&self, value: ValueId) -> bool {
        let &[User::Operand(reader, _)] = &self.users[value][..] else { return false };
        let node = &self.function.nodes[reader];
        let result = node.results[0];
        let is_linear = match (&node.op, class_of_node(self.function, reader)) {
            (Op::Reshape { .. }, _) => {
                splits(&shape_of(self.function, value), &shape_of(self.function, result))
            }
            (_, class) => matches!(class, Class::Movement | Class::Elementwise),
        };
        is_linear && (self.stored[result] || self.moves_linearly(result))
    }

    /// Whether a value that is moved until it is stored is transposed on the way.
    fn is_turned(&self, value: ValueId) -> bool {
        let &[User::Operand(reader, _)] = &self.users[value][..] else { return false };
        let result = self.function.nodes[reader].results[0];
        self.is_transposed(result) || !self.stored[result] && self.is_turned(result)
    }

    /// Passes on what a node's reads ask of its operands.
    fn ask_operands(&mut self, node: NodeId) {
        let data = &self.function.nodes[node];
        let own = match data.results.first() {
            Some(&result) if !self.stored[result] => self.demands[result],
            _ => Demand::default(),
        };
        for (number, &operand) in data.operands.iter().enumerate() {
            let mut asked = own;
            match class_of_node(self.function, node) {
                Class::Elementwise => {
                    asked.windowed = false;
                    asked.memory = false;
                }
                Class::Movement => {
                    asked.memory = false;
                    asked.repeated |= self.fusion && self.repeats(data);
                }
                Class::View => asked.memory |= asked.windowed,
                Class::Guarded => {
                    asked = Demand { guarded: true, repeated: number > 0, ..own };
                    let stored = data.results.first().is_some_and(|&result| self.stored[result]);
                    asked.memory = number == 0
                        && self.fusion
                        && (self.is_computed(operand) || stored && self.is_moved_far(operand));
                }
                Class::Indexed => {
                    let guarded = class_of(self.function, operand) == Some(Class::Guarded);
                    asked.memory = number == 0 && guarded;
                    asked.windowed = false;
                    asked.repeated |= number > 0 && self.repeats_operand(data, number);
                }
                Class::Contraction | Class::Combination => asked.windowed = true,
                Class::Reduction => asked.windowed = space(&data.op).is_some_and(reads_twice),
                Class::Assembled | Class::Step => asked.memory = true,
                Class::Iteration => {}
                Class::Statements | Class::OwnNest | Class::Constant | Class::Index => {}
            }
            let demand = &mut self.demands[operand];
            demand.memory |= asked.memory;
            demand.guarded |= asked.guarded;
            demand.repeated |= asked.repeated;
            demand.windowed |= asked.windowed;
        }
    }

    /// Whether a movement makes more elements than it reads.
    fn repeats(&self, node: &Node) -> bool {
        self.repeats_operand(node, 0)
    }

    /// Whether a node makes more elements than an operand has, as far as their numbers are known.
    fn repeats_operand(&self, node: &Node, number: usize) -> bool {
        let count = |value| extents(self.function, value).iter().product::<Expr>();
        let (read, made) = (count(node.operands[number]), count(node.results[0]));
        read != made && weight(self.function, &read) < weight(self.function, &made)
    }

    fn is_computed(&self, value: ValueId) -> bool {
        let class = class_of(self.function, value);
        matches!(class, Some(Class::Elementwise | Class::Indexed | Class::Guarded))
    }

    /// Whether a value is a movement that conditions would hinder: a transpose, or one that is read
    /// through a reshape, which takes its places apart.
    fn is_moved_far(&self, value: ValueId) -> bool {
        let producer = self.function.producer(value).map(|(node, _)| &self.function.nodes[node]);
        match producer {
            Some(node) if class(&node.op) == Class::View => {
                let moved = self.function.producer(node.operands[0]);
                moved.is_some_and(|(inner, _)| {
                    let inner = &self.function.nodes[inner];
                    class(&inner.op) == Class::Movement && !self.repeats(inner)
                })
            }
            _ => self.is_transposed(value),
        }
    }

    /// Whether a value is a movement along whose innermost axis its source is not contiguous: it is
    /// copied in tiles, which conditions would hinder.
    fn is_transposed(&self, value: ValueId) -> bool {
        let extents: Vec<Expr> = match self.function.ty(value).as_tensor() {
            Some(ty) => ty.shape.to_vec(),
            None => return false,
        };
        let Some(axis) = (0..extents.len()).rev().find(|&axis| !extents[axis].is_one()) else {
            return false;
        };
        let index: Vec<Expr> = (0..extents.len()).map(IterationSpace::axis).collect();
        let parallel = extents.len();
        let space = IterationSpace { extents, parallel, operands: vec![index.clone()] };
        // Every second element comes by two loads, under any conditions.
        let close = |stride: Option<i64>| matches!(stride, Some(-1..=2));
        class_of(self.function, value) == Some(Class::Movement)
            && match self.strides_without_copy(value, &space, &index, axis) {
                (Some(0), _) => false,
                (before, Some(after)) => after != before && !close(after),
                (_, None) => true,
            }
    }

    /// Whether computing a value again costs little more than loading it: few operations, at most
    /// one operand of the same size, and no operand that would be stored for this alone.
    fn may_repeat(&self, value: ValueId, limit: u32) -> bool {
        let mut tree = Tree { cost: 0, leaves: Vec::new() };
        self.walk_tree(value, true, &mut tree);
        let count = |value| extents_of(self.function, value).product::<i64>();
        let size = count(value);
        let large = tree.leaves.iter().filter(|&&leaf| 2 * count(leaf) > size && size > 1);
        let only_for_this = |&leaf: &ValueId| {
            let class = class_of(self.function, leaf);
            class.is_some_and(|class| class != Class::Constant) && self.users[leaf].len() == 1
        };
        tree.cost <= limit && large.count() <= 1 && !tree.leaves.iter().any(only_for_this)
    }

    fn walk_tree(&self, value: ValueId, is_root: bool, tree: &mut Tree) {
        let producer = self.function.producer(value).map(|(node, _)| &self.function.nodes[node]);
        let inner = match producer {
            // Small, and stored if it is work.
            Some(data @ Node { op: Op::Broadcast { .. }, .. }) if self.repeats(data) => return,
            Some(data) if is_root || self.users[value].len() == 1 => match class(&data.op) {
                Class::Index => return,
                Class::Elementwise | Class::Indexed | Class::Movement => Some(data),
                Class::View => Some(data),
                _ => None,
            },
            Some(data) => match &data.op {
                Op::Literal(_) if class(&data.op) == Class::Index => return,
                Op::Broadcast { .. } | Op::Reshape { .. } => Some(data),
                _ => None,
            },
            None => None,
        };
        match inner {
            Some(data) => {
                tree.cost += cost(&data.op);
                data.operands.iter().for_each(|&operand| self.walk_tree(operand, false, tree));
            }
            None if !tree.leaves.contains(&value) => tree.leaves.push(value),
            None => {}
        }
    }

    /// Whether a contraction, or a reduction over windows, reads this movement with unit stride
    /// along the innermost axis of its result, or by tuples of short elements along the innermost
    /// axis that it sums, and would read the operand of the movement with another stride; or reads
    /// it in panels, which are no streams in that operand.
    fn sum_prefers_copy(&self, value: ValueId) -> bool {
        self.users[value].iter().any(|user| {
            let &User::Operand(reader, number) = user else { return false };
            let space = match &self.function.nodes[reader].op {
                Op::Contract { space, .. } => space,
                Op::Reduce { space, .. } if reads_twice(space) => space,
                _ => return false,
            };
            let index = &space.operands[number];
            let extent = |axis: usize| weight(self.function, &space.extents[axis]);
            let innermost = (0..space.parallel).rev().find(|&axis| extent(axis) != 1);
            let tuples = super::legal::tuple_axis(self.function, space, value);
            let mut axes = innermost.into_iter().chain(tuples);
            axes.any(|axis| self.is_strided_without_copy(value, space, index, axis))
                || self.is_scattered_without_copy(value, space, index)
        })
    }

    /// Whether a contraction reads this movement in panels in which what it sums lies close
    /// together, and rows of the operand of the movement are far apart.
    fn is_scattered_without_copy(
        &self,
        value: ValueId,
        space: &IterationSpace,
        index: &[Expr],
    ) -> bool {
        let in_panels = index.iter().any(|expr| matches!(expr.as_atom(), Some(Atom::Mod(..))));
        let read = |axis: &usize| {
            let axis = Id::new(*axis);
            index.iter().any(|expr| expr.contains(axis))
        };
        let summed = (space.parallel..space.extents.len()).rev().find(read);
        let Some(axis) = summed.filter(|_| in_panels) else { return false };
        let bits = self.function.ty(value).as_tensor().map_or(0, |ty| ty.dtype.bits() as i64);
        let bytes = |stride: i64| stride.abs() * bits / 8;
        match self.strides_without_copy(value, space, index, axis) {
            (Some(before), Some(Some(after))) => {
                let pieces = bytes(before) * weight(self.function, &space.extents[axis]);
                let stay = pieces <= self.target.machine.l1.bytes as i64;
                let far = if stay { FAR_APART } else { APART };
                bytes(before) < far && bytes(after) >= far
            }
            _ => false,
        }
    }

    fn is_strided_without_copy(
        &self,
        value: ValueId,
        space: &IterationSpace,
        index: &[Expr],
        axis: usize,
    ) -> bool {
        match self.strides_without_copy(value, space, index, axis) {
            (Some(0), _) => false,
            (before, Some(after)) => after != before && !matches!(after, Some(-1..=1)),
            (_, None) => true,
        }
    }

    /// By how many elements a movement's value is read along an axis, within a panel, and by how
    /// many its operand would be; the latter is missing where that cannot be read instead.
    fn strides_without_copy(
        &self,
        value: ValueId,
        space: &IterationSpace,
        index: &[Expr],
        axis: usize,
    ) -> (Option<i64>, Option<Option<i64>>) {
        // Axes are symbols behind those of the function from here on.
        let axes = AxisSymbols::of(self.function);
        let ranges = |symbol| axes.range(self.function, &space.extents, symbol);
        let moved = |symbol| Some(Expr::symbol(axes.symbol(Id::index(symbol))));
        let index = index.iter().map(|expr| expr.substitute(&mut { moved }));
        let (index, axis) = (index.collect::<Vec<Expr>>(), axes.symbol(axis));
        let stride = |value: ValueId, index: &[Expr]| {
            let strides = dense_strides(&shape_of(self.function, value));
            let mut parts = index.iter().zip(strides);
            parts.try_fold(0, |sum, (expr, stride)| {
                Some(sum + coefficient_in_panel(expr, axis)? * stride)
            })
        };
        let before = stride(value, &index);
        let (mut leaf, mut place) = (value, index);
        while let Some((node, _)) = self.function.producer(leaf) {
            if class_of_node(self.function, node) != Class::Movement {
                break;
            }
            match operand_index(self.function, node, 0, &place, &ranges) {
                Some(next) => place = next,
                None => return (before, None),
            }
            leaf = self.function.nodes[node].operands[0];
        }
        (before, Some(stride(leaf, &place)))
    }
}

/// By how much an index moves with an axis, in blocked operands within a panel.
fn coefficient_in_panel(index: &Expr, axis: sym::SymbolId) -> Option<i64> {
    let whole = Expr::symbol(axis);
    match index.as_atom() {
        Some(Atom::FloorDiv(x, _)) if **x == whole => Some(0),
        Some(Atom::Mod(x, _)) if **x == whole => Some(1),
        _ => index.linear_coefficient(axis),
    }
}

struct Tree {
    cost: u32,
    /// Where it ends: each value once.
    leaves: Vec<ValueId>,
}

/// Whether a reduction's windows overlap or its index is not one axis each: some element is read
/// more than once.
pub(super) fn reads_twice(space: &IterationSpace) -> bool {
    let symbols: Vec<_> = space.operands[0].iter().filter_map(Expr::as_symbol).collect();
    let distinct: BTreeSet<_> = symbols.iter().into_set();
    let all = space.extents.iter().filter(|extent| !extent.is_one()).count();
    distinct.len() != symbols.len() || symbols.len() < all
}

/// Whether each axis of a shape is one or several of another, in order.
fn splits(from: &[i64], to: &[i64]) -> bool {
    let mut to = to.iter();
    from.iter().filter(|&&extent| extent != 1).all(|&extent| {
        let mut product = 1;
        while product < extent
            && let Some(part) = to.next()
        {
            product *= part;
        }
        product == extent
    })
}
