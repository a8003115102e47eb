//! Which values are kept in which frame.
//!
//! Values tied by primitives that treat axes alike form components. A component changes its frames
//! together, if that leaves less to transpose at run time: the cost of a choice is the number of
//! elements moved by transposes in and around the component, each distinct transpose of a value
//! counted once, constants and movements of axes of extent 1 free. Candidates are the frames in
//! which a transpose at the component's edge disappears.
//!
//! A contraction that meets many terms of each row far apart, each on a page of its own, may read
//! so, but takes as much longer as a copy does: it counts as a transpose of what it reads.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use base::{Id, IdSet, IntoTree, SecondaryMap};
use graph::{Function, IterationSpace, Node, NodeId, Op, User, Users, ValueId, element_count};
use sym::{Expr, SymbolId};

use super::transfer::{self, Frame};
use crate::permutation;
use crate::rules::spaces::harms_format;

/// What a symbolic extent counts as, if it may.
const USUAL_EXTENT: i64 = 16;

/// Candidates tried for a component.
const CANDIDATES: usize = 8;

/// Bytes from one term of a row to the next, bytes of an operand and reads of each of its elements
/// from which on a contraction that meets it so takes as much longer as a copy does: each term on a
/// page of its own, as much as second-level caches hold, tile after tile.
const FAR: u128 = 1 << 11;
const FAR_FROM: u128 = 1 << 20;
const READS: u128 = 48;

/// The frames chosen for a function's values.
pub(super) struct Frames<'a> {
    function: &'a Function,
    /// Found when frames are chosen, as are the components.
    users: Users,
    /// Values whose transposes fold into `setup`.
    constants: IdSet<ValueId>,
    /// Nodes of the body; what stands in a region inside is left alone.
    in_body: SecondaryMap<NodeId, bool>,
    /// The component of each value that can be kept in another frame.
    component: SecondaryMap<ValueId, Option<u32>>,
    components: Vec<Vec<ValueId>>,
    frames: SecondaryMap<ValueId, Option<Frame>>,
}

/// New frames of some values.
type Choice = BTreeMap<ValueId, Frame>;

impl<'a> Frames<'a> {
    /// A function as it is.
    pub(super) fn new(function: &'a Function) -> Frames<'a> {
        let mut in_body = SecondaryMap::new();
        for &node in &function.regions[function.body].nodes {
            in_body[node] = true;
        }
        Frames {
            function,
            users: Users::new(),
            constants: function.constant_values(),
            in_body,
            component: SecondaryMap::new(),
            components: Vec::new(),
            frames: SecondaryMap::new(),
        }
    }

    /// Chooses frames for all values.
    pub(super) fn choose(&mut self) {
        self.users = self.function.users();
        self.find_components();
        // Every step lowers the cost, a sum of integers, so this ends.
        let mut improved = true;
        while improved {
            improved = false;
            for number in 0..self.components.len() {
                improved |= self.improve(number);
            }
        }
    }

    /// The elements that are transposed at run time before any frame is chosen: readers take every
    /// value as it is.
    pub(super) fn total(&self) -> u128 {
        self.function.nodes.ids().map(|id| self.node_cost(id)).sum()
    }

    /// Whether any value is kept in a frame of its own.
    pub(super) fn is_empty(&self) -> bool {
        self.components.iter().flatten().all(|&value| self.frames[value].is_none())
    }

    /// The frame of a value.
    pub(super) fn of(&self, value: ValueId) -> Frame {
        self.frames[value].clone().unwrap_or_else(|| permutation::identity(self.rank(value)))
    }

    fn shape(&self, value: ValueId) -> &'a [Expr] {
        self.function.ty(value).as_tensor().map_or(&[], |ty| &ty.shape)
    }

    fn rank(&self, value: ValueId) -> usize {
        self.shape(value).len()
    }

    /// The axis of a value that is last in a frame but for those of extent 1.
    fn last_long(&self, frame: &[usize], value: ValueId) -> Option<usize> {
        let shape = self.shape(value);
        frame.iter().rev().copied().find(|&axis| !shape[axis].is_one())
    }

    /// The node of the body that defines a value by a primitive that may be moved or a transpose.
    fn definition(&self, value: ValueId) -> Option<&'a Node> {
        let (id, _) = self.function.producer(value)?;
        self.in_body[id].then(|| &self.function.nodes[id])
    }

    /// Whether a node treats axes alike.
    fn is_uniform(&self, node: &Node) -> bool {
        // A gather whose indices are no list makes other axes of the one that they index.
        let keeps_rank = || match (&node.results[..], &node.operands[..]) {
            (&[result], &[data, ..]) => self.rank(result) == self.rank(data),
            _ => false,
        };
        transfer::is_uniform(&node.op) && (!matches!(node.op, Op::Gather { .. }) || keeps_rank())
    }

    /// Whether a node's result may be made in another frame.
    fn is_movable(&self, node: &Node) -> bool {
        let is_gather = matches!(node.op, Op::Gather { .. });
        transfer::is_movable(&node.op) && (!is_gather || self.is_uniform(node))
    }

    // --- components ---

    fn find_components(&mut self) {
        let function = self.function;
        for &id in &function.regions[function.body].nodes {
            let node = &function.nodes[id];
            let movable = self.is_movable(node) || matches!(node.op, Op::Transpose { .. });
            let has_frames = |result: &&ValueId| {
                movable && self.rank(**result) > 1 && !self.constants.contains(**result)
            };
            let Some(&result) = node.results.first().filter(has_frames) else { continue };
            let number = self.components.len() as u32;
            self.components.push(vec![result]);
            self.component[result] = Some(number);
            // Contractions read and transposes make values in any frame.
            if !matches!(node.op, Op::Contract { .. } | Op::Transpose { .. }) {
                for &operand in &node.operands {
                    self.join(operand, result);
                }
            }
        }
    }

    /// Makes one component of two values', the smaller joining the larger.
    fn join(&mut self, a: ValueId, b: ValueId) {
        let (Some(a), Some(b)) = (self.component[a], self.component[b]) else { return };
        if a == b {
            return;
        }
        let length = |number: u32| self.components[number as usize].len();
        let (small, large) = if length(a) < length(b) { (a, b) } else { (b, a) };
        let members = std::mem::take(&mut self.components[small as usize]);
        for &value in &members {
            self.component[value] = Some(large);
        }
        self.components[large as usize].extend(members);
    }

    // --- search ---

    /// Gives a component other frames if that is cheaper.
    fn improve(&mut self, number: usize) -> bool {
        let candidates = self.candidates(number);
        if candidates.is_empty() {
            return false;
        }
        let (nodes, values) = self.surroundings(number);
        let now = self.cost(&nodes, &values);
        let mut best: Option<(u128, Choice)> = None;
        let mut tried: Vec<Choice> = Vec::new();
        for (value, frame) in candidates {
            let known = |choice: &Choice| choice.get(&value) == Some(&frame);
            if tried.len() == CANDIDATES || tried.iter().any(known) {
                continue;
            }
            let choice = self.spread(value, frame);
            let before = self.apply(&choice);
            let cost = self.cost(&nodes, &values);
            for (value, frame) in before {
                self.frames[value] = frame;
            }
            if cost < best.as_ref().map_or(now, |best| best.0) {
                best = Some((cost, choice.clone()));
            }
            tried.push(choice);
        }
        if let Some((_, choice)) = &best {
            self.apply(choice);
        }
        best.is_some()
    }

    /// Sets frames and returns those before.
    fn apply(&mut self, choice: &Choice) -> Vec<(ValueId, Option<Frame>)> {
        let set = |(&value, frame): (&ValueId, &Frame)| {
            let frame = (!frame.is_sorted()).then(|| frame.clone());
            (value, std::mem::replace(&mut self.frames[value], frame))
        };
        choice.iter().map(set).collect()
    }

    /// Values at the edge of a component, each with a frame in which a transpose disappears.
    fn candidates(&self, number: usize) -> Vec<(ValueId, Frame)> {
        let mut found = Vec::new();
        for &value in &self.components[number] {
            if let Some(Node { op: Op::Transpose { permutation }, operands, .. }) =
                self.definition(value)
            {
                let undone = permutation::inverse(permutation);
                found.push((value, permutation::compose(&undone, &self.of(operands[0]))));
            }
            for user in &self.users[value] {
                let User::Operand(id, number) = *user else { continue };
                let node = &self.function.nodes[id];
                match &node.op {
                    Op::Transpose { permutation } => {
                        let frame = permutation::compose(permutation, &self.of(node.results[0]));
                        found.push((value, frame));
                    }
                    Op::Contract { space, .. } if self.is_far(id, space, number) => {
                        found.push((value, transfer::terms_last(space, number)));
                    }
                    _ => {}
                }
            }
        }
        found.retain(|(value, frame)| *frame != self.of(*value));
        found.dedup();
        found
    }

    /// The frames that follow in a component from that of one value.
    fn spread(&self, value: ValueId, frame: Frame) -> Choice {
        let mut choice = Choice::new();
        let mut work = VecDeque::from([(value, frame)]);
        while let Some((value, frame)) = work.pop_front() {
            let free = self.component[value].is_some() && !choice.contains_key(&value);
            if free && self.is_allowed(value, &frame) {
                self.push_sources(value, &frame, &mut work);
                self.push_users(value, &frame, &mut work);
                choice.insert(value, frame);
            }
        }
        choice
    }

    /// Whether a value can be made in a frame. A contraction has an axis last that serves vectors:
    /// that which it has, or another along which an operand lies in one piece.
    fn is_allowed(&self, value: ValueId, frame: &[usize]) -> bool {
        let Some(Node { op: Op::Contract { space, .. }, operands, .. }) = self.definition(value)
        else {
            return true;
        };
        let shape = self.shape(value);
        let last = self.last_long(frame, value);
        let lies_along = |axis: usize| {
            let mut operands = operands.iter().enumerate();
            operands.any(|(number, &it)| space.is_contiguous(number, self.shape(it), axis))
        };
        last == permutation::last_long(shape) || last.is_some_and(lies_along)
    }

    /// The frames that a value in a frame asks of the operands of its node.
    fn push_sources(&self, value: ValueId, frame: &[usize], work: &mut VecDeque<(ValueId, Frame)>) {
        let Some(node) = self.definition(value) else { return };
        let first = node.operands.first().copied();
        let source = match (&node.op, first) {
            _ if self.is_uniform(node) => {
                let alike = node.operands.iter().filter(|&&v| self.rank(v) == frame.len());
                return work.extend(alike.map(|&operand| (operand, frame.to_vec())));
            }
            (Op::Broadcast { axes, .. }, Some(x)) => {
                Some((x, transfer::through_broadcast(axes, frame)))
            }
            (Op::Reshape { .. }, Some(x)) => {
                let source = transfer::through_reshape(self.shape(value), self.shape(x), frame);
                source.map(|source| (x, source))
            }
            (Op::Reduce { space, .. }, Some(x)) => {
                transfer::back_through_reduce(space, frame).map(|source| (x, source))
            }
            _ => None,
        };
        work.extend(source);
    }

    /// The frames that a value in a frame gives the results of its users.
    fn push_users(&self, value: ValueId, frame: &[usize], work: &mut VecDeque<(ValueId, Frame)>) {
        for user in &self.users[value] {
            let User::Operand(id, _) = *user else { continue };
            let node = &self.function.nodes[id];
            let Some(&result) = node.results.first().filter(|_| self.in_body[id]) else { continue };
            let given = match &node.op {
                _ if self.is_uniform(node) && self.rank(result) == frame.len() => {
                    Some(frame.to_vec())
                }
                Op::Reshape { shape } => transfer::through_reshape(self.shape(value), shape, frame),
                Op::Reduce { space, .. } => Some(transfer::through_reduce(space, frame)),
                _ => None,
            };
            work.extend(given.map(|frame| (result, frame)));
        }
    }

    // --- cost ---

    /// The nodes that define or read a component's values, and all values that they read.
    fn surroundings(&self, number: usize) -> (Vec<NodeId>, Vec<ValueId>) {
        let mut nodes = Vec::new();
        let mut values = Vec::new();
        for &value in &self.components[number] {
            values.push(value);
            nodes.extend(self.function.producer(value).map(|(id, _)| id));
            nodes.extend(self.users[value].iter().filter_map(|user| match user {
                User::Operand(id, _) => Some(*id),
                User::Result(..) => None,
            }));
        }
        distinct(&mut nodes);
        for &id in &nodes {
            values.extend(&self.function.nodes[id].operands);
        }
        distinct(&mut values);
        (nodes, values)
    }

    fn cost(&self, nodes: &[NodeId], values: &[ValueId]) -> u128 {
        let nodes: u128 = nodes.iter().map(|&id| self.node_cost(id)).sum();
        nodes + values.iter().map(|&value| self.value_cost(value)).sum::<u128>()
    }

    /// The number of elements of a value; nothing for constants.
    fn elements(&self, value: ValueId) -> u128 {
        if self.constants.contains(value) {
            return 0;
        }
        self.count(self.shape(value))
    }

    /// The product of extents.
    fn count(&self, extents: &[Expr]) -> u128 {
        let usual = |symbol| {
            let range = self.function.symbols.get(symbol)?.range;
            Some(USUAL_EXTENT.clamp(range.min, range.max))
        };
        let count = element_count(extents).evaluate(&usual).unwrap_or(i64::MAX);
        u128::from(count.max(1).unsigned_abs())
    }

    /// The long axes that move between two frames of a value, in their new order; none if nothing
    /// moves.
    fn motion(&self, value: ValueId, from: &[usize], to: &[usize]) -> Option<Frame> {
        let shape = permutation::apply(from, self.shape(value));
        let between = permutation::compose(&permutation::inverse(from), to);
        let moves = !permutation::moves_nothing(&between, &shape);
        moves.then(|| between.into_iter().filter(|&axis| !shape[axis].is_one()).collect())
    }

    /// What transposing a value for its users costs.
    fn value_cost(&self, value: ValueId) -> u128 {
        let framed = |user: &User| match *user {
            User::Operand(id, _) => {
                let first = self.function.nodes[id].results.first();
                first.is_some_and(|&result| self.frames[result].is_some())
            }
            User::Result(..) => false,
        };
        // As it is, and read as it is.
        if self.frames[value].is_none() && !self.users[value].iter().any(framed) {
            return 0;
        }
        let elements = self.elements(value);
        if elements == 0 || self.rank(value) < 2 {
            return 0;
        }
        let own = self.of(value);
        let motions: BTreeSet<Frame> = self.users[value]
            .iter()
            .filter_map(|user| self.needed(value, *user))
            .filter_map(|needed| self.motion(value, &own, &needed))
            .into_set();
        elements * motions.len() as u128
    }

    /// The frame in which a user reads a value; none if any will do.
    fn needed(&self, value: ValueId, user: User) -> Option<Frame> {
        let identity = permutation::identity(self.rank(value));
        let User::Operand(id, _) = user else { return Some(identity) };
        let node = &self.function.nodes[id];
        let Some(&result) = node.results.first().filter(|_| self.in_body[id]) else {
            return Some(identity);
        };
        Some(match &node.op {
            Op::Transpose { .. } | Op::Contract { .. } | Op::Reduce { .. } => return None,
            _ if self.is_uniform(node) => match self.rank(value) == self.rank(result) {
                true => self.of(result),
                false => return None,
            },
            Op::Broadcast { axes, .. } => transfer::through_broadcast(axes, &self.of(result)),
            Op::Reshape { shape } => {
                transfer::through_reshape(shape, self.shape(value), &self.of(result))
                    .unwrap_or(identity)
            }
            _ => identity,
        })
    }

    /// What a node costs beyond what its operands' transposes do.
    fn node_cost(&self, id: NodeId) -> u128 {
        let node = &self.function.nodes[id];
        let (Some(&result), true) = (node.results.first(), self.in_body[id]) else { return 0 };
        match (&node.op, &node.operands[..]) {
            (Op::Transpose { permutation }, &[x]) => {
                let made = permutation::compose(permutation, &self.of(result));
                self.motion(x, &self.of(x), &made).map_or(0, |_| self.elements(x))
            }
            (Op::Reduce { space, .. }, &[x]) => {
                let (natural, own) =
                    (transfer::through_reduce(space, &self.of(x)), self.of(result));
                let moved = self.motion(result, &natural, &own);
                // Vectors run along the operand's last axis, if it is not reduced.
                let in_vectors = self.last_long(&self.of(x), x).is_some_and(|axis| {
                    let symbols = space.operands[0][axis].symbols();
                    symbols.iter().any(|symbol| symbol.index() < space.parallel)
                });
                let last = |frame: &Frame| self.last_long(frame, result);
                let harmed = in_vectors && last(&natural) != last(&own);
                moved.map_or(0, |_| self.elements(if harmed { x } else { result }))
            }
            (Op::Reshape { shape }, &[x]) => {
                let Some(frame) = &self.frames[result] else { return 0 };
                let follows = transfer::through_reshape(shape, self.shape(x), frame).is_some();
                if follows { 0 } else { self.elements(result) }
            }
            // Along the axis that is last each element is looked up by itself.
            (Op::Gather { axes, .. }, _) if self.is_uniform(node) => {
                let last = self.last_long(&self.of(result), result);
                if axes.first() == last.as_ref() { self.elements(result) } else { 0 }
            }
            (Op::Contract { space, .. }, operands) => {
                let harmed = |&(number, x): &(usize, &ValueId)| {
                    if self.is_far(id, space, number) {
                        return true;
                    }
                    let Some(frame) = &self.frames[*x] else { return false };
                    let index = &space.operands[number];
                    let undone = permutation::inverse(frame);
                    let shape = permutation::apply(frame, self.shape(*x));
                    let moved = permutation::apply(frame, index);
                    harms_format(self.function, space, index, &moved, &undone, &shape)
                };
                let operands = operands.iter().enumerate().filter(harmed);
                operands.map(|(_, &x)| self.elements(x)).sum()
            }
            _ => 0,
        }
    }

    /// Whether a contraction meets the terms of a row of an operand far apart, and many of them for
    /// one tile of its result after the other.
    fn is_far(&self, id: NodeId, space: &IterationSpace, number: usize) -> bool {
        let node = &self.function.nodes[id];
        let (Some(&x), Some(&result)) = (node.operands.get(number), node.results.first()) else {
            return false;
        };
        let Some(ty) = self.function.ty(x).as_tensor() else { return false };
        let shape = permutation::apply(&self.of(x), &ty.shape);
        let index = permutation::apply(&self.of(x), &space.operands[number]);
        let is_row = self.last_long(&self.of(result), result).is_some_and(|axis| {
            let axis = SymbolId::new(axis);
            !index.iter().any(|index| index.contains(axis))
        });
        let Some(last) = permutation::last_long(&shape).filter(|_| is_row) else { return false };
        let is_term = |index: &Expr| index.as_symbol().map(|it| it.index() >= space.parallel);
        let bytes = u128::from(ty.dtype.bits().div_ceil(8));
        let apart = |axis: usize| bytes * self.count(&shape[axis + 1..]);
        is_term(&index[last]) == Some(false)
            && (0..last).any(|axis| is_term(&index[axis]) == Some(true) && apart(axis) >= FAR)
            && bytes * self.elements(x) >= FAR_FROM
            && self.count(&[space.reads(number)]) >= READS
    }
}

/// Leaves one of each.
fn distinct<T: Ord>(list: &mut Vec<T>) {
    list.sort_unstable();
    list.dedup();
}
