//! Which stored values become internal to the kernel of their readers.
//!
//! *Epilogues*: the elementwise nest that alone reads a contraction, each sum once and where it is
//! computed, joins its kernel and runs over the sum's axes.
//!
//! *Row groups*: a reduction or elementwise nest all of whose readers are in one kernel joins it if
//! everything inside that kernel agrees on some leading axes, the rows: then strategies can do a
//! row at a time. Softmax and the normalisations are row groups; so is a window's sum with its
//! scaling, one element a row.
//!
//! *Chains* (file `chains`): a row group between contractions joins them over blocks of rows.

mod chains;

use std::collections::BTreeSet;
use std::rc::Rc;

use base::{Arena, IdSet, IntoTree, Remark};
use graph::{Function, NodeId, Op, User, Users, ValueId};
use rustc_hash::FxHashMap;
use sym::{Atom, Expr, Range, SymbolId};

use super::bound::MOST_NODES;
use super::{AnchorDomain, Fusion, Group, Grouping, Home, StageNode};
use crate::combination::Combination;
use crate::definitions::{Class, class_of_node, operand_index, result_index, shown_where, space};
use crate::iteration::Iteration;
use crate::naive::index::{AxisSymbols, dense_strides, extents, range_of, shape_of, weight};

/// A row's internal values should stay in the first two levels of cache.
const ROW_BYTES: i64 = 256 << 10;

/// Work that is not worth sharing among workers, in elements.
const SMALL: i64 = 64 << 10;

/// Fewer rows than this keep workers idle.
const FEW_ROWS: i64 = 4;

/// The most terms of a sum of integers that is rather computed again than stored.
const MOST_TERMS_OF_PART: i64 = 256;

/// A read of a stored or internal value by a nest over a generic index; none where the place is not
/// known before running.
type Reads = Vec<(ValueId, Option<Vec<Expr>>)>;

/// What the nests of a node do.
#[derive(Clone, Debug)]
struct Stage {
    node: NodeId,
    domain: Option<AnchorDomain>,
    /// Extents of the axes of its generic index.
    extents: Rc<[Expr]>,
    /// How many of them are axes of the result.
    parallel: usize,
    reads: Reads,
    /// The place in the result that the generic index stands for.
    writes: Vec<Expr>,
    /// The nodes substituted into it.
    tree: Vec<NodeId>,
}

struct Merger<'a> {
    function: &'a Function,
    users: &'a Users,
    /// What is stored in any case.
    apart: &'a IdSet<ValueId>,
    grouping: &'a mut Grouping,
    /// The axes of generic indices.
    axes: AxisSymbols,
    classes: Vec<Class>,
    stages: FxHashMap<NodeId, Stage>,
    /// The nodes whose nests read a value, also through views of it.
    readers: FxHashMap<ValueId, BTreeSet<NodeId>>,
    /// The output node of the group that a node is in.
    group_of: FxHashMap<NodeId, NodeId>,
    /// By output node: the nodes of the group in order, what was fused and what not.
    members: FxHashMap<NodeId, Members>,
}

#[derive(Clone, Debug, Default)]
struct Members {
    nodes: Vec<NodeId>,
    fused: Vec<String>,
    not_fused: Vec<String>,
}

/// Forms the groups; without `fusion`, one a node.
pub(super) fn merge(
    function: &Function,
    users: &Users,
    fusion: Fusion<'_>,
    grouping: &mut Grouping,
) {
    let mut merger = Merger {
        function,
        users,
        apart: fusion.apart,
        grouping,
        axes: AxisSymbols::of(function),
        classes: function.nodes.ids().map(|node| class_of_node(function, node)).collect(),
        stages: FxHashMap::default(),
        readers: FxHashMap::default(),
        group_of: FxHashMap::default(),
        members: FxHashMap::default(),
    };
    let order: Vec<NodeId> = function.regions[function.body].nodes.clone();
    let order: Vec<NodeId> = order.into_iter().filter(|&node| merger.has_nests(node)).collect();
    for &node in &order {
        merger.group_of.insert(node, node);
        merger.members.insert(node, Members { nodes: vec![node], ..Members::default() });
    }
    if fusion.wanted {
        order.iter().for_each(|&node| merger.add(node));
        merger.share(&order);
    }
    merger.finish(&order);
}

impl Merger<'_> {
    /// Puts nodes into the kernels of others.
    fn share(&mut self, order: &[NodeId]) {
        for &node in order {
            if matches!(self.class(node), Class::Contraction | Class::Combination) {
                self.epilogue(node);
            }
        }
        for &node in order.iter().rev() {
            self.row_group(node);
        }
        for &node in order {
            if self.class(node) == Class::Contraction {
                self.chain(node);
                self.part_of_sum(node);
            }
        }
    }

    /// Whether a kernel, or a step of the program, is needed for a node.
    fn has_nests(&self, node: NodeId) -> bool {
        let data = &self.function.nodes[node];
        let made = !matches!(self.class(node), Class::Constant | Class::View | Class::Assembled);
        let stored = data.results.iter().any(|&result| self.grouping.is_stored(result));
        made && (stored || data.results.is_empty())
    }

    /// Takes in what a node's nests read.
    fn add(&mut self, node: NodeId) {
        let stage = self.describe(node, None);
        for (value, _) in &stage.reads {
            self.readers.entry(*value).or_default().insert(node);
        }
        self.stages.insert(node, stage);
    }

    // --- what a node's nests read ---

    fn describe(&self, node: NodeId, domain: Option<AnchorDomain>) -> Stage {
        let data = &self.function.nodes[node];
        let mut stage = Stage {
            node,
            domain,
            extents: Rc::default(),
            parallel: 0,
            reads: Vec::new(),
            writes: Vec::new(),
            tree: Vec::new(),
        };
        match space(&data.op) {
            Some(space) => {
                stage.extents = space.extents.iter().cloned().collect();
                stage.parallel = space.parallel;
                stage.writes = self.axes.index(&stage.extents[..space.parallel]);
                let axes = self.axes.index(&stage.extents);
                for (&operand, index) in data.operands.iter().zip(&space.operands) {
                    let at = |expr: &Expr| {
                        expr.substitute(&mut |axis| axes.get(base::Id::index(axis)).cloned())
                    };
                    let index = index.iter().map(at).collect();
                    self.read(operand, Some(index), &mut stage);
                }
            }
            None if self.class(node) == Class::Iteration => self.describe_turns(node, &mut stage),
            None if data.results.is_empty() || !self.class(node).is_elementwise() => {
                data.operands.iter().for_each(|&operand| self.read(operand, None, &mut stage));
            }
            None => {
                let result = data.results[0];
                let anchor = stage.domain.as_ref().map_or(result, |domain| domain.anchor);
                stage.extents = extents(self.function, anchor).into();
                stage.parallel = stage.extents.len();
                let ranges = self.ranges_of(&stage.extents);
                let mut index = self.axes.index(&stage.extents);
                for &(node, operand) in stage.domain.iter().flat_map(|domain| &domain.path) {
                    match result_index(self.function, node, operand, &index, &ranges) {
                        Some(next) => index = next,
                        None => unreachable!("the path to a domain has been walked"),
                    }
                }
                stage.writes = index.clone();
                self.read_operands(node, Some(index), &mut stage);
            }
        }
        stage
    }

    /// Where a loop over single elements begins is read as it is; of what its turns look up, the
    /// places are not known.
    fn describe_turns(&self, node: NodeId, stage: &mut Stage) {
        let Some(iteration) = Iteration::of(self.function, node) else { return };
        stage.extents = extents(self.function, self.function.nodes[node].results[0]).into();
        stage.parallel = stage.extents.len();
        stage.writes = self.axes.index(&stage.extents);
        stage.tree = self.function.regions[iteration.region].nodes.clone();
        self.read_operands(node, Some(stage.writes.clone()), stage);
        for value in iteration.captured(self.function) {
            self.read(value, None, stage);
        }
        // What is computed counts, not what only says where.
        let computes = |node: &NodeId| {
            !matches!(self.class(*node), Class::Index | Class::Movement | Class::View)
        };
        stage.tree.retain(computes);
    }

    fn read_operands(&self, node: NodeId, index: Option<Vec<Expr>>, stage: &mut Stage) {
        if !stage.tree.contains(&node) {
            stage.tree.push(node);
        }
        let ranges = self.ranges_of(&stage.extents);
        let shows_operand = self.grouping.shows_operand(self.function, node);
        for (number, &operand) in self.function.nodes[node].operands.iter().enumerate() {
            if shows_operand && number == 0 {
                continue;
            }
            let place = index
                .as_ref()
                .and_then(|index| operand_index(self.function, node, number, index, &ranges));
            self.read(operand, place, stage);
        }
    }

    /// Follows a read to what has memory, through the nodes that are substituted.
    fn read(&self, value: ValueId, mut index: Option<Vec<Expr>>, stage: &mut Stage) {
        let ranges = self.ranges_of(&stage.extents);
        let places = index.iter_mut().flatten();
        places
            .filter(|expr| !expr.is_simple(&ranges))
            .for_each(|expr| *expr = expr.simplify(&ranges));
        let producer = self.function.producer(value).map(|(node, _)| node);
        let same_memory = producer.is_some_and(|node| self.class(node) == Class::View);
        match producer {
            Some(node) if same_memory || self.grouping.homes[value] == Home::Inlined => {
                let known = stage.reads.iter().any(|(v, i)| *v == value && *i == index);
                if !known || !stage.tree.contains(&node) {
                    stage.reads.push((value, index.clone()));
                    self.read_operands(node, index, stage);
                }
            }
            _ => {
                if !stage.reads.iter().any(|(v, i)| *v == value && *i == index) {
                    stage.reads.push((value, index));
                }
            }
        }
    }

    // --- readers ---

    fn readers(&self, value: ValueId) -> Vec<NodeId> {
        self.readers.get(&value).into_iter().flatten().copied().collect()
    }

    /// Whether a value must have memory: it is a result, is wanted apart, lies in another value's
    /// memory or is seen by something other than a nest.
    fn must_be_stored(&self, value: ValueId) -> bool {
        let in_other = self.grouping.view(value).is_none_or(|view| view.root != value);
        in_other || self.apart.contains(value) || self.shows_outside(value)
    }

    fn shows_outside(&self, value: ValueId) -> bool {
        self.users[value].iter().any(|user| match *user {
            User::Result(..) => true,
            User::Operand(node, _) => match self.class(node) {
                Class::View => self.shows_outside(self.function.nodes[node].results[0]),
                class => class == Class::Step,
            },
        })
    }

    // --- epilogues ---

    fn epilogue(&mut self, node: NodeId) {
        let value = self.function.nodes[node].results[0];
        match self.find_epilogue(node, value) {
            Ok(stage) => {
                let reader = stage.node;
                let text = format!("{} follows the sum in its kernel", self.name(reader));
                self.join(node, reader, Some(stage), text);
            }
            Err(reason) => self.refuse(node, format!("no epilogue: {reason}")),
        }
    }

    /// What the nest that alone reads a sum does over the sum's axes.
    fn find_epilogue(&self, node: NodeId, value: ValueId) -> Result<Stage, String> {
        if self.must_be_stored(value) {
            return Err("its result is needed as it is".to_owned());
        }
        let readers = self.readers(value);
        let &[reader] = &readers[..] else {
            return Err(format!("{} kernels read its result", readers.len()));
        };
        if !self.class(reader).is_elementwise() {
            return Err(format!("{} is no elementwise nest", self.name(reader)));
        }
        if self.members[&self.group_of[&reader]].nodes.len() > 1 {
            return Err(format!("{} belongs to another contraction", self.name(reader)));
        }
        let stage = self.over_domain(value, reader).ok_or_else(|| {
            format!("{} reads its sums elsewhere than they are computed", self.name(reader))
        })?;
        debug_assert_ne!(node, reader);
        if self.scatters(node, &stage) || self.cuts_last_axis(value, &stage) {
            return Err(format!("{} would be written an element at a time", self.name(reader)));
        }
        Ok(stage)
    }

    /// Whether a nest writes elements along the last axis of a sum to rows of a free length, in
    /// which vectors would have to be cut anywhere.
    fn cuts_last_axis(&self, anchor: ValueId, stage: &Stage) -> bool {
        let Some(last) = extents(self.function, anchor).len().checked_sub(1) else { return false };
        let axis = self.axes.symbol(last);
        stage.writes.iter().any(|index| is_cut(index, axis))
    }

    /// Puts a contraction into the kernel of the reduction that alone reads it, if it does so each
    /// sum once: the sums of parts, which are added up. Where what that gives are parts in turn,
    /// all of it is one kernel.
    fn part_of_sum(&mut self, node: NodeId) {
        let value = self.function.nodes[node].results[0];
        let Some(mut sum) = self.find_whole_sum(node, value) else { return };
        let text = format!("{} is summed in the kernel of its parts", self.name(sum));
        self.join(node, self.group_of[&sum], None, text);
        while let Some(next) = self.sum_of_sums(node, sum) {
            let text = format!("{} is summed in the kernel of its parts", self.name(next));
            self.join(sum, self.group_of[&next], None, text);
            sum = next;
        }
    }

    /// Whether a reduction adds up what a contraction computes, which joins its kernel, or sums of
    /// that.
    fn adds_up_parts(&self, node: NodeId) -> bool {
        self.stages[&node].reads.iter().any(|(value, _)| {
            let made = self.function.producer(*value).map(|(made, _)| made);
            let made = made.filter(|made| self.group_of.contains_key(made));
            made.is_some_and(|made| match self.class(made) {
                Class::Contraction => self.find_whole_sum(made, *value) == Some(node),
                Class::Reduction => self.adds_up_parts(made) && self.adds_up(*value) == Some(node),
                _ => false,
            })
        })
    }

    /// Whether a node of a group adds up what a contraction computes, which joins the group then.
    fn holds_sum_of_parts(&self, output: NodeId) -> bool {
        let mut sums = self.members[&output].nodes.iter();
        sums.any(|&node| self.class(node) == Class::Reduction && self.adds_up_parts(node))
    }

    /// Whether a group reduces.
    fn reduces(&self, output: NodeId) -> bool {
        self.members[&output].nodes.iter().any(|&node| !self.class(node).is_elementwise())
    }

    /// The reduction that alone adds up the elements of a sum, each once, and lanes of which are
    /// lanes of that. Nothing but maps follows it in its kernel, and nothing is in front.
    fn adds_up(&self, value: ValueId) -> Option<NodeId> {
        let readers = self.readers(value);
        let &[reader] = &readers[..] else { return None };
        let members = &self.members[&self.group_of[&reader]].nodes;
        let others = members[1..].iter().all(|&other| self.class(other).is_elementwise());
        let is_sum = self.class(reader) == Class::Reduction && members[0] == reader && others;
        if self.must_be_stored(value) || !is_sum {
            return None;
        }
        let stage = &self.stages[&reader];
        let axes = self.axes_read(reader, value)?;
        let distinct: BTreeSet<SymbolId> = axes.iter().map(|(_, axis)| *axis).into_set();
        let long = stage.extents.iter().filter(|extent| !extent.is_one()).count();
        // Vectors go along the last axis, which is none of those summed.
        let (_, lane) = axes.last()?;
        let in_vectors = (0..stage.parallel).any(|axis| self.axes.symbol(axis) == *lane);
        let fits = distinct.len() == axes.len() && axes.len() == long && in_vectors;
        fits.then_some(reader)
    }

    /// The long axes of a value, and along which axes of a nest that reads it at one place alone
    /// they are walked.
    fn axes_read(&self, reader: NodeId, value: ValueId) -> Option<Vec<(usize, SymbolId)>> {
        let mut reads = self.stages[&reader].reads.iter().filter(|(read, _)| *read == value);
        let (Some((_, Some(index))), None) = (reads.next(), reads.next()) else { return None };
        let own = extents(self.function, value);
        let walked = (0..own.len()).filter(|&axis| !own[axis].is_one());
        walked.map(|axis| Some((axis, index[axis].as_symbol()?))).collect()
    }

    /// The reduction that adds up what a sum of a contraction's parts gives, where no operand of
    /// the contraction is met again for another of its terms.
    fn sum_of_sums(&self, contraction: NodeId, sum: NodeId) -> Option<NodeId> {
        let value = self.function.nodes[sum].results[0];
        let next = self.adds_up(value).filter(|_| self.group_of[&sum] == sum)?;
        let data = &self.function.nodes[contraction];
        let Op::Contract { space, .. } = &data.op else { return None };
        let parts = self.axes_read(sum, data.results[0])?;
        let terms = self.stages[&next].parallel..self.stages[&next].extents.len();
        let is_summed = |symbol: SymbolId| terms.clone().any(|it| self.axes.symbol(it) == symbol);
        let along = self.axes_read(next, value)?.into_iter().filter(|(_, by)| is_summed(*by));
        let moves_all = |(axis, _): (usize, SymbolId)| {
            let place = parts.iter().find(|(_, by)| *by == self.axes.symbol(axis));
            place.is_some_and(|(place, _)| {
                let moves = |own: &Expr| own.contains(<SymbolId as base::Id>::new(*place));
                space.operands.iter().all(|index| index.iter().any(moves))
            })
        };
        { along }.all(moves_all).then_some(next)
    }

    /// The reduction that adds up what a contraction computes, if both had better be one kernel.
    fn find_whole_sum(&self, node: NodeId, value: ValueId) -> Option<NodeId> {
        let reader = self.adds_up(value)?;
        let alone = self.members[&self.group_of[&node]].nodes.len() == 1;
        // Where rows are many, tiles of them are worth more than what is stored in between.
        let data = &self.function.nodes[node];
        let Op::Contract { space, .. } = &data.op else { return None };
        let shapes = data.operands.iter().map(|&operand| extents(self.function, operand));
        let terms: Option<i64> =
            space.extents[space.parallel..].iter().map(Expr::as_constant).product();
        // Short sums of integers take more to store than to compute.
        let is_short = space.extents.len() > space.parallel
            && terms.is_some_and(|terms| terms <= MOST_TERMS_OF_PART)
            && self.function.ty(value).as_tensor().is_some_and(|ty| ty.dtype.is_integer());
        let seldom = shapes.into_iter().any(|shape| space.meets_seldom(shape));
        (alone && (seldom || is_short)).then_some(reader)
    }

    /// Whether a combination's vectors would not lie in one piece in the result of a nest that runs
    /// over its axes.
    fn scatters(&self, node: NodeId, stage: &Stage) -> bool {
        let Some(combination) = Combination::of(self.function, node) else { return false };
        let lane = self.axes.symbol(combination.vector_axis);
        let result = self.function.nodes[stage.node].results[0];
        let strides = dense_strides(&shape_of(self.function, result));
        let mut parts = stage.writes.iter().zip(strides);
        let step = parts.try_fold(0, |sum, (index, stride)| {
            Some(sum + index.linear_coefficient(lane)? * stride)
        });
        step != Some(1)
    }

    /// What a nest that reads a value does over the value's axes, if every element of one
    /// corresponds to the element of the other.
    fn over_domain(&self, anchor: ValueId, reader: NodeId) -> Option<Stage> {
        let tree = &self.stages[&reader].tree;
        let (mut value, mut path) = (anchor, Vec::new());
        let extents = extents(self.function, anchor).into();
        let ranges = self.ranges_of(&extents);
        let mut index = self.axes.index(&extents);
        let (first, _) = self.function.producer(anchor)?;
        while value != self.function.nodes[reader].results[0] {
            let step = self.users[value].iter().find_map(|user| match *user {
                User::Operand(node, number) if tree.contains(&node) => Some((node, number)),
                _ => None,
            });
            let (node, number) = step?;
            // A sum of which a part is not wanted is not computed by tiles of all of it.
            let part = !shown_where(self.function, node, &index, &ranges).is_empty();
            if part && self.class(first) != Class::Combination {
                return None;
            }
            index = result_index(self.function, node, number, &index, &ranges)?;
            path.push((node, number));
            value = self.function.nodes[node].results[0];
        }
        let stage = self.describe(reader, Some(AnchorDomain { anchor, path }));
        let here = self.axes.index(&extents);
        let mut reads = stage.reads.iter().filter(|(read, _)| *read == anchor);
        reads.all(|(_, index)| index.as_ref() == Some(&here)).then_some(stage)
    }

    fn class(&self, node: NodeId) -> Class {
        self.classes[base::Id::index(node)]
    }

    // --- row groups ---

    fn joins_rows(&self, node: NodeId) -> bool {
        let class = self.class(node);
        matches!(class, Class::Reduction | Class::Iteration) || class.is_elementwise()
    }

    fn row_group(&mut self, node: NodeId) {
        if !self.joins_rows(node) || self.members[&self.group_of[&node]].nodes.len() > 1 {
            return;
        }
        let value = self.function.nodes[node].results[0];
        // Sums of parts that are parts in turn join with what makes these.
        let is_part = self.adds_up_parts(node) && self.adds_up(value).is_some();
        if self.must_be_stored(value) || is_part {
            return;
        }
        match self.find_row_group(node, value) {
            // A kernel adds up the parts of one sum as they are computed.
            Ok((reader, ..)) if self.adds_up_parts(node) && self.reduces(reader) => {
                let reason = "stored: parts are added up in a kernel of its own".to_owned();
                self.refuse(node, reason);
            }
            // What comes into such a kernel is the parts; in front of them there is nothing else.
            Ok((reader, ..)) if self.holds_sum_of_parts(reader) => {
                let name = self.name(reader);
                let reason = format!("stored: {name} is summed in the kernel of its parts");
                self.refuse(node, reason);
            }
            Ok((reader, stage, text)) => self.join(node, reader, stage, text),
            Err(reason) => self.refuse(node, reason),
        }
    }

    /// The output node of the group to join, and what its elementwise nest does over the domain
    /// that it gets.
    fn find_row_group(
        &self,
        node: NodeId,
        value: ValueId,
    ) -> Result<(NodeId, Option<Stage>, String), String> {
        let readers = self.readers(value);
        let outputs: BTreeSet<NodeId> =
            readers.iter().map(|reader| self.group_of[reader]).into_set();
        let output = match outputs.first() {
            Some(&output) if outputs.len() == 1 => output,
            _ => return Err(format!("stored: {} kernels read its result", outputs.len())),
        };
        let members = &self.members[&output].nodes;
        let hinders = |&&member: &&NodeId| {
            !self.joins_rows(member) && !self.reads_windows(member, node, value)
        };
        if let Some(&other) = members.iter().find(hinders) {
            let reason = match self.class(other) {
                Class::Contraction => "is a contraction, which reads its operands many times",
                _ => "is defined by statements",
            };
            return Err(format!("stored: {} {reason}", self.name(other)));
        }
        let size = |node: &NodeId| self.stages[node].tree.len().max(1);
        if members.iter().map(size).sum::<usize>() + size(&node) > MOST_NODES {
            return Err(format!("stored: with it the kernel would have over {MOST_NODES} nodes"));
        }
        if members.len() == 1 && self.is_better_apart(node, output) {
            return Err("stored: a copy that transposes goes in tiles of its own".to_owned());
        }
        let is_sum = self.class(node) == Class::Reduction;
        let free = members.len() == 1 && self.class(output).is_elementwise();
        let moved = if is_sum && free { self.over_domain(value, output) } else { None };
        let mut stages = vec![&self.stages[&node]];
        stages.extend(members.iter().map(|member| match &moved {
            Some(moved) if *member == output => moved,
            _ => &self.stages[member],
        }));
        let rows = self.rows(&stages)?;
        Ok((output, moved, format!("{} joins {rows}", self.name(node))))
    }

    /// Whether two nests are copies, large ones, of which one transposes: by itself it is made in
    /// tiles, in rows it would go element by element.
    fn is_better_apart(&self, node: NodeId, reader: NodeId) -> bool {
        let pair = [node, reader].map(|node| &self.stages[&node]);
        let moves = |node: &NodeId| {
            matches!(
                self.class(*node),
                Class::Movement | Class::Guarded | Class::View | Class::Index
            )
        };
        let work: i64 = pair
            .iter()
            .map(|stage| stage.extents.iter().map(|e| weight(self.function, e)).product::<i64>())
            .sum();
        work > SMALL
            && pair.iter().all(|stage| stage.tree.iter().all(moves))
            && pair.iter().any(|stage| self.transposes(stage))
    }

    /// Whether a nest's innermost axis moves what it reads from memory along another axis than the
    /// last.
    fn transposes(&self, stage: &Stage) -> bool {
        let long = |extents: &[Expr]| (0..extents.len()).rev().find(|&at| !extents[at].is_one());
        let Some(axis) = long(&stage.extents[..stage.parallel]) else { return false };
        let symbol = self.axes.symbol(axis);
        let in_memory = |value: ValueId| {
            let producer = self.function.producer(value).map(|(node, _)| self.class(node));
            producer != Some(Class::View) && self.grouping.homes[value] != Home::Inlined
        };
        stage.reads.iter().filter(|(value, _)| in_memory(*value)).any(|(value, index)| {
            let last = long(extents(self.function, *value));
            let (Some(last), Some(index)) = (last, index) else { return false };
            !index[last].contains(symbol) && index.iter().any(|own| own.contains(symbol))
        })
    }

    /// Whether a node is a contraction that reads a value through windows alone: whatever axis of
    /// the result it does not window moves the value, too, so that no element is read for another
    /// channel. What makes the value must not be written by its own operand.
    fn reads_windows(&self, contraction: NodeId, made_by: NodeId, value: ValueId) -> bool {
        if self.class(contraction) != Class::Contraction || !self.class(made_by).is_elementwise() {
            return false;
        }
        let stage = &self.stages[&contraction];
        let mut own = stage.reads.iter().filter(|(read, _)| *read == value).peekable();
        let is_read = own.peek().is_some();
        let moves = |axis: usize| {
            let symbol = self.axes.symbol(axis);
            let mut own = own.clone();
            own.all(|(_, index)| index.iter().flatten().any(|expr| expr.contains(symbol)))
        };
        let long = |axis: &usize| !stage.extents[*axis].is_one();
        is_read
            && (0..stage.parallel).filter(long).all(moves)
            && !self.grouping.shows_operand(self.function, made_by)
    }

    /// Checks that nests can share a kernel row by row; what the rows are, or why not.
    fn rows(&self, stages: &[&Stage]) -> Result<String, String> {
        let inside: BTreeSet<ValueId> = stages[..stages.len() - 1]
            .iter()
            .map(|stage| self.function.nodes[stage.node].results[0])
            .into_set();
        let mut prefix = usize::MAX;
        for stage in stages {
            let own = &stage.extents[..stage.parallel];
            prefix = prefix.min(own.len());
            let result = self.function.nodes[stage.node].results[0];
            if inside.contains(&result) {
                let shape = extents(self.function, result);
                prefix = prefix.min(self.common_prefix(own, &stage.writes, shape));
            }
            for (value, index) in stage.reads.iter().filter(|(value, _)| inside.contains(value)) {
                let shape = extents(self.function, *value);
                let index = index.as_deref().unwrap_or(&[]);
                prefix = prefix.min(self.common_prefix(own, index, shape));
            }
        }
        let count = |extents: &[Expr]| -> i64 {
            extents.iter().map(|extent| weight(self.function, extent)).product()
        };
        let rows = count(&stages[0].extents[..prefix]);
        let work: i64 = stages.iter().map(|stage| count(&stage.extents)).sum();
        let bytes: i64 = inside.iter().map(|&value| self.bytes_behind(value, prefix)).sum();
        if bytes > ROW_BYTES {
            return Err(format!("stored: a row of {bytes} bytes is too long to keep"));
        }
        if rows < FEW_ROWS && work > SMALL {
            return Err(format!("stored: only {rows} row(s) would be independent"));
        }
        Ok(format!("{rows} row(s) over {prefix} axes"))
    }

    /// How many leading axes an index leaves as they are.
    fn common_prefix(&self, extents: &[Expr], index: &[Expr], shape: &[Expr]) -> usize {
        let axes = self.axes.index(extents);
        let same = |axis: usize| index[axis] == axes[axis] && shape[axis] == extents[axis];
        let most = extents.len().min(index.len());
        (0..most).take_while(|&axis| same(axis)).count()
    }

    /// The values of axes of these extents, and of what is free in the function.
    fn ranges_of(&self, extents: &Rc<[Expr]>) -> impl Fn(SymbolId) -> Range + use<> {
        let range = |symbol| range_of(self.function, symbol);
        let own = extents.iter().map(|extent| Range::extent(extent.bounds(&range).max));
        let free = self.function.symbols.values().map(|symbol| symbol.range);
        let all: Rc<[Range]> = free.chain(own).collect();
        move |symbol| all.get(base::Id::index(symbol)).copied().unwrap_or(Range::ALL)
    }

    fn bytes_behind(&self, value: ValueId, prefix: usize) -> i64 {
        let ty = self.function.ty(value).as_tensor();
        let bits = ty.map_or(8, |ty| ty.dtype.bits());
        let count: i64 = shape_of(self.function, value)[prefix..].iter().product();
        count * i64::from(bits).max(8) / 8
    }

    // --- bookkeeping ---

    /// Puts a node in front of the group whose output is `reader`, its result inside; `moved` is
    /// what the output does from now on.
    fn join(&mut self, node: NodeId, reader: NodeId, moved: Option<Stage>, text: String) {
        let value = self.function.nodes[node].results[0];
        self.grouping.homes[value] = Home::Internal;
        self.inline_reshapes(value);
        if let Some(stage) = moved {
            self.stages.insert(reader, stage);
        }
        let joining = self.members.remove(&node).unwrap_or_default();
        for &member in &joining.nodes {
            self.group_of.insert(member, reader);
        }
        let members = self.members.entry(reader).or_default();
        members.nodes.splice(0..0, joining.nodes);
        members.fused.extend(joining.fused);
        members.not_fused.extend(joining.not_fused);
        members.fused.push(text.clone());
        let location = self.function.nodes[node].location;
        self.grouping.remarks.push(Remark { location, message: text });
    }

    fn inline_reshapes(&mut self, value: ValueId) {
        for user in &self.users[value] {
            let User::Operand(node, _) = *user else { continue };
            if self.class(node) == Class::View {
                let result = self.function.nodes[node].results[0];
                self.grouping.homes[result] = Home::Inlined;
                self.inline_reshapes(result);
            }
        }
    }

    fn refuse(&mut self, node: NodeId, text: String) {
        let subject = self.name(node);
        let output = self.group_of[&node];
        if let Some(members) = self.members.get_mut(&output) {
            members.not_fused.push(format!("{subject}: {text}"));
        }
        let location = self.function.nodes[node].location;
        self.grouping.remarks.push(Remark { location, message: format!("{subject}: {text}") });
    }

    /// A node in the user's words.
    fn name(&self, node: NodeId) -> String {
        let data = &self.function.nodes[node];
        let names: Vec<&str> = self.function.locations.names(data.location).collect();
        match names[..] {
            [] => format!("{} {}", data.op.name(), data.results[0]),
            _ => format!("{} {}", data.op.name(), names.join("+")),
        }
    }

    fn finish(mut self, order: &[NodeId]) {
        for &node in order {
            let results = &self.function.nodes[node].results;
            if results.iter().any(|&result| self.apart.contains(result)) {
                self.refuse(node, "stored: one kernel with its readers should take longer".into());
            }
        }
        let mut groups = Arena::new();
        for output in order {
            let Some(members) = self.members.get(output) else { continue };
            let domain = |node| self.stages.get(&node).and_then(|stage| stage.domain.clone());
            let stage = |&node: &NodeId| StageNode { node, domain: domain(node) };
            groups.push(Group {
                stages: members.nodes.iter().map(stage).collect(),
                fused: members.fused.clone(),
                not_fused: members.not_fused.clone(),
            });
        }
        self.grouping.groups = groups;
    }
}

/// Whether a symbol is divided by what is not known.
fn is_cut(expr: &Expr, symbol: SymbolId) -> bool {
    let cuts = |atom: &Atom| match atom {
        Atom::FloorDiv(dividend, by) | Atom::Mod(dividend, by) => {
            dividend.contains(symbol) && by.as_constant().is_none() || is_cut(dividend, symbol)
        }
        Atom::Min(one, other) | Atom::Max(one, other) => {
            is_cut(one, symbol) || is_cut(other, symbol)
        }
        Atom::Symbol(_) => false,
    };
    expr.terms().iter().flat_map(sym::Term::factors).any(cuts)
}
