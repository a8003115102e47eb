//! Common subexpressions: nodes that compute the same become one.
//!
//! before: `a = relu x, b = relu x, a + b`
//! after:  `a = relu x, a + a`
//!
//! A node is replaced by an earlier one with an equal primitive and equal operands in the same
//! region or one around it; what is left stands for the places of both, constants apart. Literals
//! are equal if their bits are. `Bind`, host functions and nodes with regions stay.

use std::collections::BTreeMap;
use std::hash::{Hash, Hasher};
use std::mem;
use std::sync::Arc;

use base::{IdSet, LocationId, PassContext, Result, SecondaryMap};
use graph::{Function, Node, NodeId, Op, RegionId, ValueId};
use rustc_hash::{FxBuildHasher, FxHashMap, FxHasher};

/// Makes equal nodes one.
pub(crate) fn run(function: &mut Arc<Function>, _: &mut PassContext) -> Result<()> {
    merge(Arc::make_mut(function));
    Ok(())
}

/// As the pass.
pub(crate) fn merge(function: &mut Function) {
    let (body, nodes) = (function.body, function.nodes.len());
    let constants = function.constant_values();
    let mut merger = Merger {
        function,
        constants,
        merged: SecondaryMap::new(),
        known: FxHashMap::with_capacity_and_hasher(nodes, FxBuildHasher),
        before: SecondaryMap::new(),
        opened: Vec::new(),
        places: BTreeMap::new(),
    };
    merger.region(body);
    merger.fuse_places();
    function.compact();
}

struct Merger<'a> {
    function: &'a mut Function,
    /// What depends on constants alone: shared by many, and computed for all at once.
    constants: IdSet<ValueId>,
    /// What replaces a value.
    merged: SecondaryMap<ValueId, Option<ValueId>>,
    /// The last node of each fingerprint that was seen in the regions that are open. Entries are
    /// short: of large functions most look-ups miss the processor's caches.
    known: FxHashMap<u32, NodeId>,
    /// The one seen before a node, of the same fingerprint.
    before: SecondaryMap<NodeId, Option<NodeId>>,
    /// Keys and nodes in the order in which they were added to `known` in regions other than the
    /// body, to leave them.
    opened: Vec<(u32, NodeId)>,
    /// The places of the nodes that a node has taken in.
    places: BTreeMap<NodeId, Vec<LocationId>>,
}

impl Merger<'_> {
    fn region(&mut self, region: RegionId) {
        let outside = self.opened.len();
        for id in self.function.regions[region].nodes.clone() {
            let mut operands = mem::take(&mut self.function.nodes[id].operands);
            self.replace(&mut operands);
            self.function.nodes[id].operands = operands;
            for inner in self.function.nodes[id].regions.clone() {
                self.region(inner);
            }
            self.node(id, region != self.function.body);
        }
        let mut results = mem::take(&mut self.function.regions[region].results);
        self.replace(&mut results);
        self.function.regions[region].results = results;
        while self.opened.len() > outside
            && let Some((key, node)) = self.opened.pop()
        {
            match self.before[node] {
                Some(before) => self.known.insert(key, before),
                None => self.known.remove(&key),
            };
        }
    }

    fn replace(&self, values: &mut [ValueId]) {
        for value in values {
            *value = self.merged[*value].unwrap_or(*value);
        }
    }

    /// Merges a node into an equal one, or remembers it.
    fn node(&mut self, id: NodeId, in_region: bool) {
        let node = &self.function.nodes[id];
        if matches!(node.op, Op::Bind { .. } | Op::List { .. } | Op::Host { .. })
            || !node.regions.is_empty()
        {
            return;
        }
        let key = fingerprint(node);
        let last = self.known.get(&key).copied();
        let mut alike = std::iter::successors(last, |&other| self.before[other]);
        let equal = alike.find(|&other| {
            let other = &self.function.nodes[other];
            let is_wrong = base::fault::is_seeded("graph-opt.cse");
            other.operands == node.operands && (other.op == node.op || is_wrong)
        });
        let Some(kept) = equal else {
            self.known.insert(key, id);
            if last.is_some() {
                self.before[id] = last;
            }
            if in_region {
                self.opened.push((key, id));
            }
            return;
        };
        if !node.results.iter().any(|&result| self.constants.contains(result)) {
            self.places.entry(kept).or_default().push(node.location);
        }
        let (olds, news) = (node.results.clone(), self.function.nodes[kept].results.clone());
        for (old, new) in olds.into_iter().zip(news) {
            self.merged[old] = Some(new);
            if self.function.values[new].name.is_none() {
                self.function.values[new].name = self.function.values[old].name.take();
            }
        }
    }

    fn fuse_places(&mut self) {
        for (&kept, places) in &self.places {
            let own = self.function.nodes[kept].location;
            let all = std::iter::once(own).chain(places.iter().copied());
            let fused = self.function.locations.fuse(all);
            self.function.nodes[kept].location = fused;
        }
    }
}

/// A number that nodes share whose primitives and operands are equal, and others rarely.
fn fingerprint(node: &Node) -> u32 {
    let op = &node.op;
    let mut hasher = FxHasher::default();
    (mem::discriminant(op), &node.operands).hash(&mut hasher);
    op.each_expr(&mut |expr| expr.hash(&mut hasher));
    match op {
        Op::Literal(tensor) => {
            (tensor.dtype(), tensor.shape()).hash(&mut hasher);
            if tensor.strings().is_none() {
                tensor.bytes().hash(&mut hasher);
            }
        }
        Op::Weight { constant, .. } => constant.hash(&mut hasher),
        Op::Map { .. } if base::fault::is_seeded("graph-opt.cse") => {}
        Op::Map { function, dtype } => (function, dtype).hash(&mut hasher),
        Op::Broadcast { axes, .. } => axes.hash(&mut hasher),
        Op::Transpose { permutation } => permutation.hash(&mut hasher),
        _ => {}
    }
    (hasher.finish() >> 32) as u32
}
