//! Contractions that join the kernel of a contraction behind them, row by row.
//!
//! A *chain* is contractions, the row group or elementwise nest that alone reads them, and a
//! contraction that alone reads that: scores, softmax and weighted sum of attention, or the layers
//! of a small perceptron. If all of it agrees on rows it is one kernel over blocks of rows, and
//! what lies between the contractions never reaches memory. It pays where that is much beside what
//! is read and written anyway, and where the operands that all rows share stay in a cache.

use std::collections::{BTreeMap, BTreeSet};

use base::IntoTree;
use graph::{NodeId, ValueId};
use sym::Expr;

use super::{FEW_ROWS, MOST_NODES, Merger, ROW_BYTES, Stage};
use crate::definitions::Class;
use crate::naive::index::{shape_of, weight};

/// Rows that a block has at least, for the operands that all rows share to be read rarely.
const BLOCK_ROWS: i64 = 8;

/// What all rows of a kernel share should stay in the second or a near third level of cache.
const SHARED_BYTES: i64 = 1 << 20;

/// What is saved counts so many times: it would be written and read, and the kernels between would
/// have to wait for each other.
const SAVED: i64 = 3;

/// Output nodes of the groups of a chain.
struct Chain {
    /// Of the contractions in front.
    first: Vec<NodeId>,
    /// Of the nests between, if they are no epilogue of the first contraction.
    between: Option<NodeId>,
    /// Of the contraction behind.
    last: NodeId,
}

/// What the rows of some nests have in common.
struct RowShape {
    /// How many rows there are.
    count: i64,
    /// For each nest, by axis of its generic index, the axis of the last nest it stands for.
    axes: Vec<BTreeMap<usize, usize>>,
}

impl Merger<'_> {
    /// Makes one kernel of the chain that a contraction ends, if there is one.
    pub(super) fn chain(&mut self, node: NodeId) {
        let last = self.group_of[&node];
        if self.members[&last].nodes[0] != node {
            return;
        }
        let operands: BTreeSet<ValueId> =
            self.stages[&node].reads.iter().map(|(value, _)| *value).into_set();
        for value in operands {
            let Some(chain) = self.find_chain(node, last, value) else { continue };
            match self.check_chain(&chain) {
                Ok(text) => return self.join_chain(&chain, &text),
                Err(reason) => self.refuse(chain.first[0], reason),
            }
        }
    }

    /// The chain whose last contraction reads this value.
    fn find_chain(&self, node: NodeId, last: NodeId, value: ValueId) -> Option<Chain> {
        let (producer, _) = self.function.producer(value)?;
        let output = *self.group_of.get(&producer)?;
        let alone = output == producer && !self.must_be_stored(value);
        if !alone || self.readers(value) != [node] || output == last {
            return None;
        }
        if self.is_contraction(output) {
            return Some(Chain { first: vec![output], between: None, last });
        }
        let between = &self.members[&output].nodes;
        if !between.iter().all(|&node| self.joins_rows(node)) {
            return None;
        }
        let reads = between.iter().flat_map(|node| &self.stages[node].reads);
        let producers = reads.filter_map(|(read, _)| {
            let (producer, _) = self.function.producer(*read)?;
            let own = *self.group_of.get(&producer)?;
            let alone = own == producer && own != output && !self.must_be_stored(*read);
            let readers = self.readers(*read);
            let inside = readers.iter().all(|reader| self.group_of[reader] == output);
            (alone && inside && self.is_contraction(own)).then_some(own)
        });
        let first: BTreeSet<NodeId> = producers.into_set();
        let chain = Chain { first: first.into_iter().collect(), between: Some(output), last };
        (!chain.first.is_empty()).then_some(chain)
    }

    /// Whether a group is a contraction, perhaps with an epilogue.
    fn is_contraction(&self, output: NodeId) -> bool {
        let is_sum = |node: &NodeId| self.class(*node) == Class::Contraction;
        let members = &self.members[&output].nodes;
        is_sum(&members[0]) && members.iter().filter(|node| is_sum(node)).count() == 1
    }

    /// What the rows of a chain are, or why it should not be one kernel.
    fn check_chain(&self, chain: &Chain) -> Result<String, String> {
        let outputs = chain.first.iter().chain(&chain.between).chain([&chain.last]);
        let nodes = outputs.flat_map(|output| &self.members[output].nodes);
        let stages: Vec<&Stage> = nodes.map(|node| &self.stages[node]).collect();
        let Some((_, before)) = stages.split_last() else { return Err("it is empty".into()) };
        let size: usize = stages.iter().map(|stage| stage.tree.len().max(1)).sum();
        if size > MOST_NODES {
            return Err(format!("stored: with it the kernel would have over {MOST_NODES} nodes"));
        }
        let result = |stage: &&Stage| self.function.nodes[stage.node].results[0];
        let inside: BTreeSet<ValueId> = before.iter().map(result).into_set();
        let rows = self.row_shape(&stages, &inside);
        if rows.count < FEW_ROWS {
            return Err(format!("stored: only {} row(s) would be independent", rows.count));
        }
        let kept: i64 = inside.iter().map(|&value| self.bytes_behind(value, 0)).sum();
        let row = kept / rows.count;
        if row * BLOCK_ROWS > ROW_BYTES {
            return Err(format!("stored: {BLOCK_ROWS} rows of {row} bytes are too much to keep"));
        }
        let shared = self.shared_bytes(&stages, &inside, &rows);
        if shared > SHARED_BYTES {
            return Err(format!(
                "stored: all rows would read {shared} bytes, too much for a cache"
            ));
        }
        let joined = chain.first.iter().chain(&chain.between);
        let saved: i64 = joined.map(|&output| self.bytes_of_result(output)).sum();
        let outside: BTreeSet<ValueId> = stages
            .iter()
            .filter(|stage| self.class(stage.node) == Class::Contraction)
            .flat_map(|stage| self.memory_read(stage, &inside))
            .into_set();
        let others: i64 = outside.iter().map(|&value| self.bytes_behind(value, 0)).sum();
        let others = others + self.bytes_of_result(chain.last);
        if saved * SAVED <= others {
            return Err(format!(
                "stored: one kernel would save {saved} bytes, little beside {others} bytes"
            ));
        }
        Ok(format!("{} row(s)", rows.count))
    }

    fn bytes_of_result(&self, node: NodeId) -> i64 {
        self.bytes_behind(self.function.nodes[node].results[0], 0)
    }

    /// The values outside of a chain whose memory a nest reads.
    fn memory_read(&self, stage: &Stage, inside: &BTreeSet<ValueId>) -> BTreeSet<ValueId> {
        let values = stage.reads.iter().map(|(value, _)| *value);
        let own = values.filter(|&value| {
            let producer = self.function.producer(value).map(|(node, _)| node);
            // What a view shows is read, too, and counts there.
            let counts = producer.is_none_or(|node| self.class(node) != Class::View);
            let view = self.grouping.view(value);
            counts && view.is_some_and(|view| !inside.contains(&view.root))
        });
        own.filter(|value| !inside.contains(value)).collect()
    }

    /// Follows the axes of the last nest back through the values inside.
    fn row_shape(&self, stages: &[&Stage], inside: &BTreeSet<ValueId>) -> RowShape {
        let mut known: BTreeMap<ValueId, Vec<Option<usize>>> = BTreeMap::new();
        let mut axes = Vec::new();
        for (number, stage) in stages.iter().enumerate().rev() {
            let own: BTreeMap<usize, usize> = match number + 1 == stages.len() {
                true => (0..stage.parallel).map(|axis| (axis, axis)).collect(),
                false => {
                    let result = self.function.nodes[stage.node].results[0];
                    let places = known.get(&result).into_iter().flatten();
                    let walked = stage.writes.iter().zip(places);
                    walked.filter_map(|(index, at)| Some((self.axis_of(index)?, (*at)?))).collect()
                }
            };
            for (value, index) in stage.reads.iter().filter(|(value, _)| inside.contains(value)) {
                let rank = shape_of(self.function, *value).len();
                let found = match index {
                    Some(index) => {
                        let place = |index: &Expr| own.get(&self.axis_of(index)?).copied();
                        index.iter().map(place).collect()
                    }
                    None => vec![None; rank],
                };
                match known.get_mut(value) {
                    Some(known) => known.iter_mut().zip(found).for_each(|(known, found)| {
                        *known = known.filter(|_| *known == found);
                    }),
                    None => _ = known.insert(*value, found),
                }
            }
            axes.push(own);
        }
        axes.reverse();
        let moves = |axis: &usize| {
            inside.iter().all(|v| known.get(v).is_some_and(|own| own.contains(&Some(*axis))))
        };
        let last = stages[stages.len() - 1];
        let rows: BTreeSet<usize> = (0..last.parallel).filter(moves).into_set();
        axes.iter_mut().for_each(|own| own.retain(|_, axis| rows.contains(axis)));
        let count = rows.iter().map(|&axis| weight(self.function, &last.extents[axis])).product();
        RowShape { count, axes }
    }

    /// Bytes of what contractions read for one row from outside, if it is not the row's own.
    fn shared_bytes(&self, stages: &[&Stage], inside: &BTreeSet<ValueId>, rows: &RowShape) -> i64 {
        let mut bytes = 0;
        for (stage, own) in stages.iter().zip(&rows.axes) {
            if self.class(stage.node) != Class::Contraction {
                continue;
            }
            let outside = self.memory_read(stage, inside);
            for (value, index) in stage.reads.iter().filter(|(value, _)| outside.contains(value)) {
                let symbols: BTreeSet<usize> = index
                    .iter()
                    .flatten()
                    .flat_map(Expr::symbols)
                    .filter_map(|symbol| self.axes.axis(symbol))
                    .into_set();
                let still = own.keys().any(|axis| !symbols.contains(axis));
                let moving = symbols.iter().filter(|axis| !own.contains_key(axis));
                if still {
                    let ty = self.function.ty(*value).as_tensor();
                    let bits = ty.map_or(8, |ty| i64::from(ty.dtype.bits()).max(8));
                    let extent = |&axis: &usize| weight(self.function, &stage.extents[axis]);
                    bytes += moving.map(extent).product::<i64>() * bits / 8;
                }
            }
        }
        bytes
    }

    fn join_chain(&mut self, chain: &Chain, rows: &str) {
        for &output in chain.between.iter().chain(chain.first.iter().rev()) {
            let text = format!("{} joins blocks of {rows}", self.name(output));
            self.join(output, chain.last, None, text);
        }
    }

    /// The axis that an index is.
    fn axis_of(&self, index: &Expr) -> Option<usize> {
        self.axes.axis(index.as_symbol()?)
    }
}
