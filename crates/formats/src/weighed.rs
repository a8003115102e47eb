//! Layouts of sums that stand nearly alone, by what a run should take with each.
//!
//! Where few sums stand between parameters and results, copies into another order are not shared
//! by many, and which layouts are best depends on everything around. So those that are possible are
//! tried in place: the sums, with what leads to them and what follows, are compiled as far as a
//! cost can be told, and the cheapest stay. How values lie decides what sums that read them walk as
//! one, and so their order: the cost is that of the machine which decides for all targets of an
//! architecture. First all sums have one layout; of a few each is then
//! changed by itself. Where channels last is about as fast as the machine multiplies nothing else
//! is tried.

use std::collections::{BTreeMap, BTreeSet};

use base::{Diagnostics, IdSet, IntoTree, Remark};
use graph::{Built, Function, FunctionBuilder, NodeId, Op, ValueId};

use crate::contraction::Contraction;
use crate::layouts::Layout;

/// What a run of a function should take, in nanoseconds, with the formats that it has, by the
/// machine that decides for all targets of the architecture; none where that cannot be said.
pub type Weigh<'a> = &'a dyn Fn(Function) -> Option<f64>;

/// The layouts of contractions.
pub(crate) type Layouts = BTreeMap<NodeId, Layout>;

/// The most sums that are weighed together, and the most of which each is weighed by itself, too.
const MOST_SUMS: usize = 16;
const MOST_APART: usize = 4;

/// The most nodes around them, and with those of constants.
const MOST_NODES: [usize; 2] = [96, 1024];

/// How many times what its sums need a part may take before other layouts are tried.
const POOR: f64 = 1.2;

/// The layouts that were weighed, and what is to be said of them.
#[derive(Clone)]
struct Weighed {
    layouts: Vec<Layout>,
    message: String,
}

/// How the formats of the contractions of a function are chosen.
pub(crate) struct Chooser<'a> {
    /// With these layouts, as the machine that decides has them.
    pub(crate) choose: &'a dyn Fn(&Function, &Layouts) -> base::Result<Function>,
    /// What that machine can do.
    pub(crate) flops_per_ns: f64,
}

/// The layouts of those contractions of a function for which they were weighed.
///
/// # Errors
/// Those of the chooser.
pub(crate) fn find(
    function: &Function,
    constants: &IdSet<ValueId>,
    weigh: Weigh<'_>,
    chooser: &Chooser<'_>,
    remarks: &mut Vec<Remark>,
) -> base::Result<Layouts> {
    let mut found = Layouts::new();
    let mut alike: BTreeMap<String, Option<Weighed>> = BTreeMap::new();
    for part in parts(function, constants) {
        let text = part.function.to_string();
        let weighed = match alike.get(&text) {
            Some(weighed) => weighed.clone(),
            None => {
                let weighed = part.cheapest(weigh, chooser)?;
                alike.insert(text, weighed.clone());
                weighed
            }
        };
        let Some(Weighed { layouts, message }) = weighed else { continue };
        let location = function.nodes[part.sums[0].0].location;
        remarks.push(Remark { location, message });
        let nodes = part.sums.iter().map(|(node, _)| *node);
        found.extend(nodes.zip(layouts));
    }
    Ok(found)
}

/// Contractions one of which leads to another or to what another leads to, and what is around them,
/// as a function.
struct Part {
    function: Function,
    /// The contractions, in the whole and here.
    sums: Vec<(NodeId, NodeId)>,
}

impl Part {
    /// The cheapest layouts of all contractions of a part; none where nothing can be chosen, or its
    /// cost cannot be said.
    fn cheapest(
        &self,
        weigh: Weigh<'_>,
        Chooser { choose, flops_per_ns }: &Chooser<'_>,
    ) -> base::Result<Option<Weighed>> {
        let constants = self.function.constant_values();
        let builder = FunctionBuilder::extend(self.function.clone());
        let contraction =
            |&(_, node): &(NodeId, NodeId)| Contraction::of(&self.function, node, &constants);
        let contractions: Vec<Contraction> = self.sums.iter().filter_map(contraction).collect();
        let possible = |contraction: &Contraction| Layout::all(contraction, &builder);
        let possible = contractions.iter().map(possible).collect::<Built<Vec<_>>>();
        let possible = possible.map_err(Diagnostics::internal)?;
        if possible.iter().all(|layouts| layouts.len() == 1) {
            return Ok(None);
        }
        let nanoseconds = |layouts: &[Layout]| -> base::Result<Option<f64>> {
            let nodes = self.sums.iter().map(|(_, node)| *node);
            let layouts = nodes.zip(layouts.iter().copied()).collect();
            Ok(weigh(choose(&self.function, &layouts)?))
        };
        // What all have that can have it, the others channels last if they can.
        let alike = |layout: Layout| -> Vec<Layout> {
            let own = |possible: &Vec<Layout>| {
                let mut wanted = [layout, Layout::CHANNELS_LAST].into_iter();
                wanted.find(|it| possible.contains(it)).unwrap_or(Layout::AS_GIVEN)
            };
            possible.iter().map(own).collect()
        };
        let channels_last = alike(Layout::CHANNELS_LAST);
        let Some(together) = nanoseconds(&channels_last)? else { return Ok(None) };
        let operations: f64 = contractions.iter().map(Contraction::operations).sum();
        let is_poor = together > POOR * operations / flops_per_ns;
        let mut best = (together, channels_last);
        let mut tried = BTreeSet::from([best.1.clone()]);
        let mut attempt = |best: &mut (f64, Vec<Layout>), layouts: Vec<Layout>| {
            if tried.insert(layouts.clone()) {
                let taken = nanoseconds(&layouts)?.unwrap_or(f64::INFINITY);
                if taken < best.0 {
                    *best = (taken, layouts);
                }
            }
            Ok::<_, Diagnostics>(())
        };
        // Gaps are looked at with the best order alone.
        let orders = possible.iter().flatten().filter(|it| is_poor && !it.without_gaps);
        for layout in orders.into_set() {
            attempt(&mut best, alike(*layout))?;
        }
        if is_poor && possible.len() <= MOST_APART {
            for (at, layouts) in possible.iter().enumerate() {
                let order = best.1[at].order;
                let near = |it: &&Layout| it.order == order || !it.without_gaps;
                for layout in layouts.iter().filter(near) {
                    let mut changed = best.1.clone();
                    changed[at] = *layout;
                    attempt(&mut best, changed)?;
                }
            }
        }
        let (least, layouts) = best;
        let message = format!(
            "layouts: predicted {:.1} us, channels last throughout {:.1} us, {} tried",
            least / 1e3,
            together / 1e3,
            tried.len(),
        );
        Ok(Some(Weighed { layouts, message }))
    }
}

/// The parts of a function that are small enough to be weighed.
fn parts(function: &Function, constants: &IdSet<ValueId>) -> Vec<Part> {
    let nodes = &function.regions[function.body].nodes;
    let mut classes = Classes::default();
    let mut class_of: BTreeMap<ValueId, usize> = BTreeMap::new();
    let mut members: BTreeMap<NodeId, usize> = BTreeMap::new();
    for &id in nodes {
        let node = &function.nodes[id];
        if node.results.iter().all(|value| constants.contains(*value)) {
            continue;
        }
        let read = function.reads(id);
        let mut own = read.iter().filter_map(|value| class_of.get(value)).copied();
        let is_sum = matches!(node.op, Op::Contract { .. });
        let Some(first) = own.next().or_else(|| is_sum.then(|| classes.add())) else { continue };
        own.collect::<Vec<_>>().into_iter().for_each(|other| classes.join(first, other));
        members.insert(id, first);
        class_of.extend(node.results.iter().map(|value| (*value, first)));
    }
    let mut by_class: BTreeMap<usize, Vec<NodeId>> = BTreeMap::new();
    for id in nodes {
        if let Some(class) = members.get(id) {
            by_class.entry(classes.root(*class)).or_default().push(*id);
        }
    }
    by_class.values().filter_map(|members| part(function, constants, members)).collect()
}

/// The part of these nodes and of what leads to them, if it is small enough and runs once.
fn part(function: &Function, constants: &IdSet<ValueId>, members: &[NodeId]) -> Option<Part> {
    let [most, most_with_constants] = MOST_NODES;
    if members.len() > most {
        return None;
    }
    let producer = |value: ValueId| function.producer(value).map(|(node, _)| node);
    let mut taken: BTreeSet<NodeId> = members.iter().copied().into_set();
    let mut work = members.to_vec();
    let mut counted = 0;
    while let Some(node) = work.pop() {
        let data = &function.nodes[node];
        let is_plain = data.regions.is_empty() && !function.is_interpreted(node);
        counted += usize::from(!data.results.iter().all(|value| constants.contains(*value)));
        if !is_plain || counted > most || taken.len() > most_with_constants {
            return None;
        }
        let read = function.reads(node).into_iter().filter_map(producer);
        work.extend(read.filter(|&node| taken.insert(node)));
    }
    let read = taken.iter().flat_map(|&node| function.reads(node));
    let parameters: BTreeSet<ValueId> = read.filter(|value| producer(*value).is_none()).into_set();
    let own = |value: &&ValueId| producer(**value).is_some_and(|node| members.contains(&node));
    let results: BTreeSet<ValueId> = function.results().iter().filter(own).copied().into_set();
    let (parameters, results) = (Vec::from_iter(parameters), Vec::from_iter(results));
    let is_taken = |node: NodeId| taken.contains(&node);
    let names = |count: usize, of: &str| (0..count).map(|at| format!("{of}{at}")).collect();
    let parameter_names = names(parameters.len(), "x");
    let result_names = names(results.len(), "y");
    let part = function.part_of(&[function.body], parameters, results, &is_taken);
    let part = Function { parameter_names, result_names, ..part };
    let before = function.regions[function.body].nodes.iter().filter(|&&node| is_taken(node));
    let here = &part.regions[part.body].nodes;
    // What no result needs is no longer there.
    if before.clone().count() != here.len() {
        return None;
    }
    let is_sum = |(node, _): &(NodeId, NodeId)| {
        let node = &function.nodes[*node];
        matches!(node.op, Op::Contract { .. }) && !constants.contains(node.results[0])
    };
    let sums: Vec<_> = before.copied().zip(here.iter().copied()).filter(is_sum).collect();
    (sums.len() <= MOST_SUMS).then_some(Part { function: part, sums })
}

/// Numbers that are joined into classes.
#[derive(Default)]
struct Classes(Vec<usize>);

impl Classes {
    fn add(&mut self) -> usize {
        self.0.push(self.0.len());
        self.0.len() - 1
    }

    /// The number that stands for the class of another.
    fn root(&mut self, mut number: usize) -> usize {
        while self.0[number] != number {
            self.0[number] = self.0[self.0[number]];
            number = self.0[number];
        }
        number
    }

    fn join(&mut self, one: usize, other: usize) {
        let (one, other) = (self.root(one), self.root(other));
        self.0[other] = one;
    }
}
