//! The walk from roots to leaves: nodes of all trees as words in one table, and steps down.
//!
//! Every row takes a step down all trees of a class at once; a class is of trees about as deep, and
//! takes as many steps as the deepest. Who has arrived at a leaf stays there. The first levels are
//! not looked up: all words that a level has are at hand.

use std::collections::VecDeque;
use std::ops::Range;

use base::InOrder;
use front::{Accepted, Graph, Operand, Turn, constant_value, shape_error};
use graph::Op;
use sym::Expr;
use tensor::{DType, Scalar, ScalarFunction as F, Tensor};

use super::{Ensemble, Mode};
use crate::node::attribute_error;

/// A place in the table of all trees.
#[derive(Clone, Copy)]
pub(super) struct Slot {
    /// The place that it holds; none if it only leads on.
    pub(super) place: Option<usize>,
    /// The slot that a step leads to; of a node the one that it leads to where its comparison
    /// holds, behind which lies the other one.
    next: usize,
    is_node: bool,
}

/// All trees, tree by tree and level by level, so that the two successors of a node are neighbours.
/// A node that several others lead to has one slot; the others lead to slots that lead to it.
pub(super) struct Slots {
    pub(super) all: Vec<Slot>,
    pub(super) roots: Vec<usize>,
}

impl Slots {
    pub(super) fn of(ensemble: &Ensemble) -> Slots {
        let mut slots = Slots { all: Vec::new(), roots: Vec::new() };
        let mut nodes: Vec<Option<usize>> = vec![None; ensemble.places.len()];
        let mut work = VecDeque::new();
        for &root in &ensemble.roots {
            let root = slots.add(ensemble, root, &mut nodes, &mut work);
            slots.roots.push(root);
            while let Some(from) = work.pop_front() {
                slots.all[from].next = slots.all.len();
                let place = slots.all[from].place.unwrap_or_default();
                for next in ensemble.places[place].next {
                    slots.add(ensemble, next, &mut nodes, &mut work);
                }
            }
        }
        slots
    }

    /// A new slot for a place; its successors are still to come if it is a node's.
    fn add(
        &mut self,
        ensemble: &Ensemble,
        place: usize,
        nodes: &mut [Option<usize>],
        work: &mut VecDeque<usize>,
    ) -> usize {
        let own = self.all.len();
        let is_node = ensemble.places[place].next != [place; 2];
        self.all.push(match nodes[place] {
            Some(known) => Slot { place: None, next: known, is_node: false },
            None => Slot { place: Some(place), next: own, is_node },
        });
        if is_node && nodes[place].is_none() {
            nodes[place] = Some(own);
            work.push_back(own);
        }
        own
    }

    /// Where a step may lead from a slot that is no leaf.
    fn successors(&self, number: usize) -> Range<usize> {
        let slot = self.all[number];
        match (slot.is_node, slot.place) {
            (true, _) => slot.next..slot.next + 2,
            (false, None) => slot.next..slot.next + 1,
            (false, Some(_)) => 0..0,
        }
    }

    /// Where a step leads to from a slot, whose comparison holds or not.
    fn step(&self, number: usize, holds: bool) -> usize {
        let slot = self.all[number];
        slot.next + usize::from(slot.is_node && !holds)
    }

    /// The most steps from each root to a leaf; refuses circles.
    pub(super) fn depths(&self) -> Accepted<Vec<i64>> {
        let mut depths: Vec<Option<i64>> = vec![None; self.all.len()];
        let mut open = vec![false; self.all.len()];
        let mut work: Vec<usize> = self.roots.clone();
        while let Some(&number) = work.last() {
            if depths[number].is_some() {
                work.pop();
                continue;
            }
            let missing: Vec<usize> =
                self.successors(number).filter(|&next| depths[next].is_none()).collect();
            if missing.is_empty() {
                let deepest = self.successors(number).filter_map(|next| depths[next]).max();
                depths[number] = Some(deepest.map_or(0, |deepest| deepest + 1));
                work.pop();
            } else if std::mem::replace(&mut open[number], true) {
                return Err(attribute_error("nodes_truenodeids", "a tree leads in a circle"));
            } else {
                work.extend(missing);
            }
        }
        Ok(self.roots.iter().filter_map(|&root| depths[root]).collect())
    }
}

/// Trees that are walked together, by as many steps as the deepest of them takes.
pub(super) struct DepthClass {
    pub(super) depth: i64,
    pub(super) trees: Vec<usize>,
}

/// The most classes of trees.
const MOST_CLASSES: usize = 2;

/// Levels from the root on whose words are chosen from rather than looked up: each takes twice as
/// many choices as the one above. Fewer where a level takes more to compute, for two classes are to
/// be one kernel, which has a limit.
const TOP: u32 = 3;
const TOP_WITH_MISSING: u32 = 2;

/// Trees that are walked a step down at once, about as many as a vector has lanes.
const TOGETHER: i64 = 8;

/// What a class costs besides, in steps of so many trees.
const CLASS: i64 = 8;

/// Trees by depth, in classes such that all steps together are few.
pub(super) fn classes(depths: Vec<i64>) -> Vec<DepthClass> {
    let mut order: Vec<usize> = (0..depths.len()).collect();
    order.put_in_order_by_key(|&tree| depths[tree]);
    // Where the depth grows: the beginnings that a class may have.
    let deeper = |&at: &usize| at == 0 || depths[order[at]] > depths[order[at - 1]];
    let mut starts: Vec<usize> = (0..order.len()).filter(deeper).collect();
    starts.push(order.len());
    let steps = |from: usize, to: usize| {
        let trees = (to - from) as i64;
        CLASS + (trees + TOGETHER - 1) / TOGETHER * depths[order[to - 1]]
    };
    // By the number of starts in front: the least cost, and where classes begin.
    let mut least: Vec<(i64, Vec<usize>)> = vec![(0, Vec::new())];
    least.extend(starts[1..].iter().map(|&end| (steps(0, end), vec![0])));
    for _ in 1..MOST_CLASSES {
        let before = least.clone();
        for (end, entry) in least.iter_mut().enumerate().skip(2) {
            for middle in 1..end {
                let (cost, begins) = &before[middle];
                let cost = cost + steps(starts[middle], starts[end]);
                if cost < entry.0 {
                    *entry = (cost, [&begins[..], &[starts[middle]]].concat());
                }
            }
        }
    }
    let mut begins = least.pop().map_or_else(Vec::new, |(_, begins)| begins);
    begins.push(order.len());
    let class = |range: &[usize]| DepthClass {
        depth: depths[order[range[1] - 1]],
        trees: order[range[0]..range[1]].to_vec(),
    };
    begins.windows(2).map(class).collect()
}

/// Bits of a word, from `first` on.
#[derive(Clone, Copy)]
struct Field {
    first: u32,
    bits: u32,
}

impl Field {
    /// So many bits as a number up to `most` needs, behind others.
    fn behind(first: u32, most: usize) -> Field {
        Field { first, bits: usize::BITS - most.leading_zeros() }
    }

    fn end(self) -> u32 {
        self.first + self.bits
    }

    fn put(self, value: usize) -> u64 {
        (value as u64) << self.first
    }

    /// The number in this field of words.
    fn of(self, graph: &mut Graph, words: &Operand) -> Accepted<Operand> {
        let first = Operand::of_scalar(Scalar::u64(u64::from(self.first)));
        let mask = Operand::of_scalar(Scalar::u64((1 << self.bits) - 1));
        let moved = match self.first {
            0 => words.clone(),
            _ => graph.map(F::Shr, &[words, &first])?,
        };
        graph.map(F::And, &[&moved, &mask])
    }
}

/// How a step goes down from a slot: a word for each slot, in which lie, from the highest bits on,
/// twice the slot that a step leads to, plus one for a node; the mode, if modes differ; whether a
/// missing value counts as true, if that differs; the feature; and, below, an f32 threshold if
/// there is room. Words have no sign: then a shift is one instruction everywhere.
pub(super) struct Walk {
    words: Operand,
    /// The same, as numbers.
    numbers: Vec<u64>,
    /// Where words have no room for them.
    thresholds: Option<Operand>,
    next: Field,
    mode: Field,
    missing: Field,
    feature: Field,
    /// Modes of nodes.
    modes: Vec<Mode>,
    /// Whether all nodes take a missing value for true.
    all_missing: bool,
}

impl Walk {
    pub(super) fn of(ensemble: &Ensemble, slots: &Slots, dtype: DType, name: &str) -> Walk {
        let node = |slot: &Slot| slot.place.filter(|_| slot.is_node).map(|at| &ensemble.places[at]);
        let nodes = || slots.all.iter().filter_map(node);
        let mut modes: Vec<Mode> = nodes().map(|place| place.mode).collect();
        modes.sort_unstable();
        modes.dedup();
        let missing = nodes().filter(|place| place.missing_is_true).count();
        let all_missing = missing > 0 && missing == nodes().count();
        let most_feature = nodes().map(|place| place.feature as usize).max().unwrap_or(0);
        let fields = |first: u32| {
            let feature = Field::behind(first, most_feature);
            let differs = usize::from(missing > 0 && !all_missing);
            let missing = Field::behind(feature.end(), differs);
            let most_mode = if modes.len() > 1 { Mode::NotEqual as usize } else { 0 };
            let mode = Field::behind(missing.end(), most_mode);
            (feature, missing, mode, Field::behind(mode.end(), 2 * slots.all.len()))
        };
        let is_short = dtype == DType::F32 && fields(u32::BITS).3.end() < u64::BITS;
        let (feature, missing, mode, next) = fields(if is_short { u32::BITS } else { 0 });
        let word = |slot: &Slot| {
            let own = next.put(2 * slot.next + usize::from(slot.is_node));
            let Some(place) = node(slot) else { return own };
            let is_missing = missing.bits > 0 && place.missing_is_true;
            let which = if mode.bits > 0 { place.mode as usize } else { 0 };
            let parts = mode.put(which) | missing.put(usize::from(is_missing));
            let threshold = u64::from((place.threshold as f32).to_bits());
            let threshold = if is_short { threshold } else { 0 };
            own | parts | feature.put(place.feature as usize) | threshold
        };
        let numbers: Vec<u64> = slots.all.iter().map(word).collect();
        let words = Tensor::from_slice(&[numbers.len()], &numbers);
        let thresholds = (!is_short).then(|| {
            let threshold = |slot: &Slot| node(slot).map_or(0.0, |place| place.threshold);
            let all = slots.all.iter().map(|slot| Scalar::from_f64(dtype, threshold(slot)));
            let all: Vec<Scalar> = all.collect();
            let all = Tensor::from_scalars(dtype, &[all.len()], &all);
            constant_value(&format!("{name}.thresholds"), all, true)
        });
        let words = constant_value(&format!("{name}.nodes"), words, true);
        Walk { words, numbers, thresholds, next, mode, missing, feature, modes, all_missing }
    }

    /// The leaves `[n, trees]` to which rows come from roots within so many steps.
    pub(super) fn leaves(
        &self,
        graph: &mut Graph,
        x: &Operand,
        (slots, roots, depth): (&Slots, &[usize], i64),
        name: &str,
    ) -> Accepted<Operand> {
        let top = self.top(depth);
        let shape = [x.shape()[0].clone(), Expr::from(roots.len())];
        let start = match top {
            0 => {
                let numbers: Vec<i64> = roots.iter().map(|&root| root as i64).collect();
                let numbers = Tensor::from_slice(&[roots.len()], &numbers);
                let numbers = constant_value(&format!("{name}.roots"), numbers, true);
                graph.broadcast(&numbers, &shape, &[1])?
            }
            _ => self.behind_top(graph, x, (slots, roots, top), name)?,
        };
        let left = depth - i64::from(top);
        if left == 0 {
            return Ok(start);
        }
        let mut outer = vec![x, &self.words];
        outer.extend(&self.thresholds);
        let turns = (&Expr::from(left), false);
        let results = graph.scan(turns, &[start], &[], &outer, |graph, _, at, _| {
            let next = self.turn(graph, x, &at[0])?;
            Ok(Turn { carried: vec![next], stacked: Vec::new() })
        })?;
        results.into_iter().next().ok_or_else(|| shape_error("a loop without results"))
    }

    /// How many levels are chosen from rather than looked up.
    fn top(&self, depth: i64) -> u32 {
        let most = if self.missing.bits > 0 { TOP_WITH_MISSING } else { TOP };
        let is_plain = self.thresholds.is_none() && self.modes.len() == 1;
        if is_plain { most.min(u32::try_from(depth).unwrap_or(most)) } else { 0 }
    }

    /// The slots `[n, trees]` behind the first levels. The words of a level lie side by side, tree
    /// by tree, and what held above chooses among them: that costs less than to look them up.
    fn behind_top(
        &self,
        graph: &mut Graph,
        x: &Operand,
        (slots, roots, top): (&Slots, &[usize], u32),
        name: &str,
    ) -> Accepted<Operand> {
        let shape = [x.shape()[0].clone(), Expr::from(roots.len())];
        // All slots of a level: those behind a comparison that holds come first.
        let mut level = vec![roots.to_vec()];
        let mut held: Vec<Operand> = Vec::new();
        loop {
            let mut words = Vec::new();
            for (number, own) in level.iter().enumerate() {
                let own: Vec<u64> = own.iter().map(|&slot| self.numbers[slot]).collect();
                let own = Tensor::from_slice(&[own.len()], &own);
                let name = format!("{name}.level{}.{number}", held.len());
                words.push(graph.broadcast(&constant_value(&name, own, true), &shape, &[1])?);
            }
            for holds in held.iter().rev() {
                let pairs: Vec<Operand> = std::mem::take(&mut words);
                for pair in pairs.chunks_exact(2) {
                    words.push(graph.select(holds, &pair[0], &pair[1])?);
                }
            }
            let holds = self.holds(graph, x, &words[0], None)?;
            if held.len() + 1 == top as usize {
                return self.next(graph, &words[0], &holds);
            }
            held.push(holds);
            let below = |own: &Vec<usize>| {
                let step = |holds: bool| own.iter().map(move |&slot| slots.step(slot, holds));
                [step(true).collect(), step(false).collect()]
            };
            level = level.iter().flat_map(below).collect();
        }
    }

    /// From slots `[n, trees]` of rows `[n, features]` one step down.
    fn turn(&self, graph: &mut Graph, x: &Operand, at: &Operand) -> Accepted<Operand> {
        if self.modes.is_empty() {
            return Ok(at.clone());
        }
        let words = graph.gather(&self.words, &[0], std::slice::from_ref(at), 0, 0)?;
        let threshold = match &self.thresholds {
            Some(table) => Some(graph.gather(table, &[0], std::slice::from_ref(at), 0, 0)?),
            None => None,
        };
        let holds = self.holds(graph, x, &words, threshold)?;
        self.next(graph, &words, &holds)
    }

    /// The slot behind words of nodes whose comparison holds or not.
    fn next(&self, graph: &mut Graph, words: &Operand, holds: &Operand) -> Accepted<Operand> {
        let first = Operand::of_scalar(Scalar::u64(u64::from(self.next.first)));
        let one = Operand::of_scalar(Scalar::u64(1));
        let yes = graph.map(F::Shr, &[words, &first])?;
        let no = graph.map(F::Add, &[&yes, &one])?;
        let next = graph.select(holds, &yes, &no)?;
        let next = graph.map(F::Shr, &[&next, &one])?;
        graph.cast(&next, DType::I64)
    }

    /// Whether the comparisons of words of nodes hold, whose thresholds are in them unless given.
    fn holds(
        &self,
        graph: &mut Graph,
        x: &Operand,
        words: &Operand,
        threshold: Option<Operand>,
    ) -> Accepted<Operand> {
        let feature = self.feature.of(graph, words)?;
        let feature = graph.cast(&feature, DType::I64)?;
        let value = graph.gather(x, &[1], &[feature], 1, 0)?;
        let threshold = match threshold {
            Some(threshold) => threshold,
            None => {
                let low = graph.cast(words, DType::I32)?;
                graph.primitive(Op::Bitcast { dtype: DType::F32 }, &[&low])?
            }
        };
        let mut holds: Option<Operand> = None;
        for &one in &self.modes {
            let this = graph.map(one.function(), &[&value, &threshold])?;
            holds = Some(match holds {
                None => this,
                Some(others) => {
                    let own = self.mode.of(graph, words)?;
                    let number = Operand::of_scalar(Scalar::u64(one as u64));
                    let is_this = graph.equal(&own, &number)?;
                    graph.select(&is_this, &this, &others)?
                }
            });
        }
        let mut holds = holds.ok_or_else(|| shape_error("a node without a mode"))?;
        if self.all_missing || self.missing.bits > 0 {
            let mut is_missing = graph.map(F::IsNan, &[&value])?;
            if !self.all_missing {
                let bit = Operand::of_scalar(Scalar::u64(self.missing.put(1)));
                let tracks = graph.map(F::And, &[words, &bit])?;
                let tracks = graph.map(F::Eq, &[&tracks, &bit])?;
                is_missing = graph.and(&is_missing, &tracks)?;
            }
            holds = graph.or(&holds, &is_missing)?;
        }
        Ok(holds)
    }
}
