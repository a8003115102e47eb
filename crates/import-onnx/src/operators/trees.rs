//! Ensembles of decision trees: all trees of all rows take one step down at a time.
//!
//! The several forms in which ONNX writes ensembles become one: nodes of all trees in one table, a
//! word each, leaves that lead to themselves, and for each leaf what it adds to which target.

mod walk;

use std::collections::BTreeMap;

use base::IntoTree;
use front::{Accepted, Graph, Operand, constant_value, shape_error};
use sym::Expr;
use tensor::{DType, Reduction, Scalar, ScalarFunction as F, Tensor};

use walk::{Slots, Walk, classes};

use super::Lowered;
use super::labels::Labels;
use super::learning::post_transform;
use crate::node::{Node, attribute_error};

/// How a node compares a feature with its threshold.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Mode {
    LessEqual,
    Less,
    GreaterEqual,
    Greater,
    Equal,
    NotEqual,
}

impl Mode {
    fn function(self) -> F {
        match self {
            Mode::LessEqual => F::Le,
            Mode::Less => F::Lt,
            Mode::GreaterEqual => F::Ge,
            Mode::Greater => F::Gt,
            Mode::Equal => F::Eq,
            Mode::NotEqual => F::Ne,
        }
    }
}

/// A node of a tree, or a leaf, both of whose successors are itself.
#[derive(Clone)]
struct Place {
    mode: Mode,
    feature: i64,
    threshold: f64,
    missing_is_true: bool,
    next: [usize; 2],
    /// What a leaf adds to targets.
    adds: Vec<(usize, f64)>,
}

impl Place {
    fn leaf(number: usize, adds: Vec<(usize, f64)>) -> Place {
        Place {
            mode: Mode::LessEqual,
            feature: 0,
            threshold: 0.0,
            missing_is_true: false,
            next: [number; 2],
            adds,
        }
    }
}

/// All trees.
struct Ensemble {
    places: Vec<Place>,
    roots: Vec<usize>,
    targets: usize,
}

/// How the trees' results are put together.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Aggregate {
    Average,
    Sum,
    Min,
    Max,
}

impl Ensemble {
    /// The results of rows `[n, features]`: `[n, targets]`.
    fn evaluate(
        &self,
        node: &Node<'_>,
        graph: &mut Graph,
        x: &Operand,
        aggregate: Aggregate,
    ) -> Accepted<Operand> {
        let features = x.shape()[1].as_constant().unwrap_or(i64::MAX);
        if self.places.iter().any(|place| !(0..features).contains(&place.feature)) {
            return Err(attribute_error("nodes_featureids", "there are fewer features"));
        }
        let name = node.proto.output.first().map_or("", String::as_str);
        let slots = Slots::of(self);
        let walk = Walk::of(self, &slots, x.dtype(), name);
        let added = format!("{name}.leaves");
        let added = self.additions(graph, &slots, &added, x.dtype(), aggregate)?;
        let (reduction, both) = match aggregate {
            Aggregate::Min => (Reduction::Min, F::Min),
            Aggregate::Max => (Reduction::Max, F::Max),
            Aggregate::Sum | Aggregate::Average => (Reduction::Sum, F::Add),
        };
        let mut result: Option<Operand> = None;
        for (number, class) in classes(slots.depths()?).into_iter().enumerate() {
            let roots: Vec<usize> = class.trees.iter().map(|&it| slots.roots[it]).collect();
            let name = format!("{name}.class{number}");
            let leaves = walk.leaves(graph, x, (&slots, &roots, class.depth), &name)?;
            let own = self.aggregated(graph, &added, &leaves, reduction)?;
            result = Some(match result {
                None => own,
                Some(others) => graph.map(both, &[&others, &own])?,
            });
        }
        let result = result.ok_or_else(|| shape_error("no trees"))?;
        match aggregate {
            Aggregate::Average => graph.mul_number(&result, 1.0 / self.roots.len() as f64),
            Aggregate::Sum | Aggregate::Min | Aggregate::Max => Ok(result),
        }
    }

    /// What the leaves `[n, trees]` at which rows have arrived come to by a table
    /// `[targets, slots]`: `[n, targets]`.
    fn aggregated(
        &self,
        graph: &mut Graph,
        table: &Operand,
        leaves: &Operand,
        reduction: Reduction,
    ) -> Accepted<Operand> {
        match self.targets {
            1 => {
                let table = graph.reshape(table, &table.shape()[1..])?;
                let read = graph.gather(&table, &[0], std::slice::from_ref(leaves), 0, 0)?;
                graph.reduce_axes(&read, &[1], reduction, true)
            }
            // A tree after the other for each target.
            2..FEW_TARGETS => {
                let [rows, trees] = leaves.shape() else {
                    return Err(shape_error("leaves of another rank"));
                };
                let shape = [rows.clone(), self.targets.into(), trees.clone()];
                let target = graph.iota(DType::I64, &shape, 1)?;
                let place = graph.broadcast(leaves, &shape, &[0, 2])?;
                let read = graph.gather(table, &[0, 1], &[target, place], 0, 0)?;
                graph.reduce_axes(&read, &[2], reduction, false)
            }
            // All targets of a tree, then the next tree.
            _ => {
                let table = graph.transpose(table, &[1, 0])?;
                let read = graph.gather(&table, &[0], std::slice::from_ref(leaves), 0, 0)?;
                graph.reduce_axes(&read, &[1], reduction, false)
            }
        }
    }

    /// What each slot adds to each target, `[targets, slots]`.
    fn additions(
        &self,
        graph: &mut Graph,
        slots: &Slots,
        name: &str,
        dtype: DType,
        aggregate: Aggregate,
    ) -> Accepted<Operand> {
        let elements = slots.all.len().saturating_mul(self.targets);
        graph.count_computed(elements, "weights of leaves")?;
        let none = match aggregate {
            Aggregate::Average | Aggregate::Sum => Scalar::zero(dtype),
            Aggregate::Min => Scalar::highest(dtype),
            Aggregate::Max => Scalar::lowest(dtype),
        };
        let mut table = Tensor::splat(&[self.targets, slots.all.len()], none);
        for (number, slot) in slots.all.iter().enumerate() {
            for &(target, weight) in slot.place.iter().flat_map(|&at| &self.places[at].adds) {
                let index = target * slots.all.len() + number;
                let before = match aggregate {
                    Aggregate::Average | Aggregate::Sum => table.get_scalar(index).as_f64(),
                    Aggregate::Min | Aggregate::Max => 0.0,
                };
                table.set_scalar(index, Scalar::from_f64(dtype, before + weight));
            }
        }
        Ok(constant_value(name, table, true))
    }
}

/// Fewer targets than this are looked up one by one for many trees at once.
const FEW_TARGETS: usize = 8;

/// An attribute with an entry a node: integers, of a given number.
fn entries(node: &Node<'_>, name: &str, count: usize) -> Accepted<Vec<i64>> {
    let entries = node.ints(name)?.unwrap_or_else(|| vec![0; count]);
    match entries.len() == count {
        true => Ok(entries),
        false => Err(attribute_error(name, format!("it has {} entries", entries.len()))),
    }
}

/// Numbers of an attribute that is a list of floats, or a tensor under another name.
fn numbers(node: &Node<'_>, graph: &mut Graph, list: &str, tensor: &str) -> Accepted<Vec<f64>> {
    match node.tensor(tensor, graph)? {
        Some(texts) if texts.dtype() == DType::String => {
            return Err(attribute_error(tensor, "it holds strings"));
        }
        Some(numbers) => return Ok(numbers.to_f64_vec()),
        None => {}
    }
    Ok(node.floats(list)?.unwrap_or_default().into_iter().map(f64::from).collect())
}

/// `TreeEnsemble`: nodes and leaves in tables of their own, roots by number.
pub(super) fn ensemble(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let x = node.input(0)?;
    if x.rank() != 2 {
        return Err(shape_error(format!("an input of rank {}, not 2", x.rank())));
    }
    let features = node.ints("nodes_featureids")?.unwrap_or_default();
    let count = features.len();
    let splits = numbers(node, graph, "", "nodes_splits")?;
    let modes = numbers(node, graph, "", "nodes_modes")?;
    if splits.len() != count || modes.len() != count {
        return Err(attribute_error("nodes_splits", "there must be one a node"));
    }
    let yes = entries(node, "nodes_truenodeids", count)?;
    let no = entries(node, "nodes_falsenodeids", count)?;
    let yes_is_leaf = entries(node, "nodes_trueleafs", count)?;
    let no_is_leaf = entries(node, "nodes_falseleafs", count)?;
    let missing = entries(node, "nodes_missing_value_tracks_true", count)?;
    let targets = usize::try_from(node.int("n_targets", 1)?).unwrap_or(0);
    let leaf_targets = node.ints("leaf_targetids")?.unwrap_or_default();
    let leaf_weights = numbers(node, graph, "", "leaf_weights")?;
    let roots = node.ints("tree_roots")?.unwrap_or_default();
    let members = numbers(node, graph, "", "membership_values")?;
    let sets = membership(&modes, &members)?;

    let mut places = vec![Place::leaf(0, Vec::new()); count];
    for (number, (&target, &weight)) in leaf_targets.iter().zip(&leaf_weights).enumerate() {
        let Some(target) = usize::try_from(target).ok().filter(|&target| target < targets) else {
            return Err(attribute_error("leaf_targetids", format!("there is no target {target}")));
        };
        places.push(Place::leaf(count + number, vec![(target, weight)]));
    }
    let (leaves, total) = (leaf_targets.len().min(leaf_weights.len()), places.len());
    let successor = |number: i64, is_leaf: i64| -> Accepted<usize> {
        let (first, size) = if is_leaf != 0 { (count, leaves) } else { (0, count) };
        let number = usize::try_from(number).ok().filter(|&number| number < size);
        let found = number.map(|number| first + number).filter(|&number| number < total);
        found.ok_or_else(|| attribute_error("nodes_truenodeids", "it names no node or leaf"))
    };
    for number in 0..count {
        let next = [
            successor(yes[number], yes_is_leaf[number])?,
            successor(no[number], no_is_leaf[number])?,
        ];
        let mode = match modes[number] as i64 {
            0 => Mode::LessEqual,
            1 => Mode::Less,
            2 => Mode::GreaterEqual,
            3 => Mode::Greater,
            4 | 6 => Mode::Equal,
            5 => Mode::NotEqual,
            other => return Err(attribute_error("nodes_modes", format!("a mode {other}"))),
        };
        let place = Place {
            mode,
            feature: features[number],
            threshold: splits[number],
            missing_is_true: missing[number] != 0,
            next,
            adds: Vec::new(),
        };
        // Membership of a set is equality with one of its members after the other.
        let Some(set) = sets.get(&number) else {
            places[number] = place;
            continue;
        };
        let Some((first, rest)) = set.split_first() else {
            places[number] = Place { mode: Mode::Equal, next: [next[1]; 2], ..place };
            continue;
        };
        let mut at = number;
        places[at] = Place { threshold: *first, ..place.clone() };
        for member in rest {
            let new = places.len();
            places[at].next[1] = new;
            places.push(Place { threshold: *member, ..place.clone() });
            at = new;
        }
    }
    let roots: Option<Vec<usize>> =
        roots.iter().map(|&root| usize::try_from(root).ok().filter(|&root| root < count)).collect();
    let Some(roots) = roots.filter(|roots| !roots.is_empty()) else {
        return Err(attribute_error("tree_roots", "it names no node"));
    };
    let aggregate = match node.int("aggregate_function", 1)? {
        0 => Aggregate::Average,
        1 => Aggregate::Sum,
        2 => Aggregate::Min,
        3 => Aggregate::Max,
        other => return Err(attribute_error("aggregate_function", format!("it is {other}"))),
    };
    let post = match node.int("post_transform", 0)? {
        0 => "NONE",
        1 => "SOFTMAX",
        2 => "LOGISTIC",
        3 => "SOFTMAX_ZERO",
        4 => "PROBIT",
        other => return Err(attribute_error("post_transform", format!("it is {other}"))),
    };
    let ensemble = Ensemble { places, roots, targets };
    let sums = ensemble.evaluate(node, graph, x, aggregate)?;
    Ok(vec![post_transform(graph, &sums, post)?])
}

/// The sets of nodes that test membership, which end with a NaN each.
fn membership(modes: &[f64], members: &[f64]) -> Accepted<BTreeMap<usize, Vec<f64>>> {
    let mut sets = BTreeMap::new();
    let mut rest = members;
    for (number, _) in modes.iter().enumerate().filter(|(_, mode)| **mode == 6.0) {
        let Some(end) = rest.iter().position(|member| member.is_nan()) else {
            return Err(attribute_error("membership_values", "there are fewer sets than nodes"));
        };
        sets.insert(number, rest[..end].to_vec());
        rest = &rest[end + 1..];
    }
    Ok(sets)
}

/// The ensemble of the older operators, whose nodes have numbers within their trees. `kind` is
/// `target` or `class`.
fn by_tree(node: &Node<'_>, graph: &mut Graph, kind: &str, targets: usize) -> Accepted<Ensemble> {
    let ids = node.ints("nodes_nodeids")?.unwrap_or_default();
    let count = ids.len();
    let trees = entries(node, "nodes_treeids", count)?;
    let features = entries(node, "nodes_featureids", count)?;
    let yes = entries(node, "nodes_truenodeids", count)?;
    let no = entries(node, "nodes_falsenodeids", count)?;
    let missing = entries(node, "nodes_missing_value_tracks_true", count)?;
    let splits = numbers(node, graph, "nodes_values", "nodes_values_as_tensor")?;
    let modes = node.strings("nodes_modes")?.unwrap_or_default();
    if splits.len() != count || modes.len() != count {
        return Err(attribute_error("nodes_values", "there must be one a node"));
    }
    let numbers_of: BTreeMap<(i64, i64), usize> =
        trees.iter().copied().zip(ids.iter().copied()).zip(0..).into_map();
    let mut places = Vec::new();
    let mut is_root = vec![true; count];
    for number in 0..count {
        let mode = match modes[number].as_str() {
            "BRANCH_LEQ" => Mode::LessEqual,
            "BRANCH_LT" => Mode::Less,
            "BRANCH_GTE" => Mode::GreaterEqual,
            "BRANCH_GT" => Mode::Greater,
            "BRANCH_EQ" => Mode::Equal,
            "BRANCH_NEQ" => Mode::NotEqual,
            "LEAF" => {
                places.push(Place::leaf(number, Vec::new()));
                continue;
            }
            other => return Err(attribute_error("nodes_modes", format!("a mode `{other}`"))),
        };
        let find = |id: i64| {
            numbers_of.get(&(trees[number], id)).copied().ok_or_else(|| {
                attribute_error("nodes_truenodeids", format!("there is no node {id} in the tree"))
            })
        };
        let next = [find(yes[number])?, find(no[number])?];
        next.iter().for_each(|&next| is_root[next] = false);
        places.push(Place {
            mode,
            feature: features[number],
            threshold: splits[number],
            missing_is_true: missing[number] != 0,
            next,
            adds: Vec::new(),
        });
    }
    let list = |what: &str| -> Accepted<Vec<i64>> {
        Ok(node.ints(&format!("{kind}_{what}"))?.unwrap_or_default())
    };
    let (leaf_trees, leaf_nodes, leaf_targets) = (list("treeids")?, list("nodeids")?, list("ids")?);
    let (plain, tensor) = (format!("{kind}_weights"), format!("{kind}_weights_as_tensor"));
    let weights = numbers(node, graph, &plain, &tensor)?;
    let leaves = leaf_trees.iter().zip(&leaf_nodes).zip(leaf_targets.iter().zip(&weights));
    for ((&tree, &id), (&target, &weight)) in leaves {
        let place = numbers_of.get(&(tree, id)).copied();
        let target = usize::try_from(target).ok().filter(|&target| target < targets);
        let (Some(place), Some(target)) = (place, target) else {
            return Err(attribute_error(&plain, "a leaf or target is not there"));
        };
        places[place].adds.push((target, weight));
    }
    let roots: Vec<usize> = (0..count).filter(|&number| is_root[number]).collect();
    if roots.is_empty() {
        return Err(attribute_error("nodes_nodeids", "there is no root"));
    }
    Ok(Ensemble { places, roots, targets })
}

/// Rows of numbers, in f32 unless they are doubles.
fn rows(node: &Node<'_>, graph: &mut Graph) -> Accepted<Operand> {
    let x = node.input(0)?;
    let dtype = if x.dtype() == DType::F64 { DType::F64 } else { DType::F32 };
    let x = graph.cast(x, dtype)?;
    match x.rank() {
        1 => graph.reshape(&x, &[Expr::ONE, x.shape()[0].clone()]),
        2 => Ok(x),
        rank => Err(shape_error(format!("an input of rank {rank}, not 2"))),
    }
}

fn add_base(node: &Node<'_>, graph: &mut Graph, sums: &Operand) -> Accepted<Operand> {
    let base = numbers(node, graph, "base_values", "base_values_as_tensor")?;
    if base.is_empty() {
        return Ok(sums.clone());
    }
    let elements: Vec<Scalar> =
        base.iter().map(|&base| Scalar::from_f64(sums.dtype(), base)).collect();
    let base = Tensor::from_scalars(sums.dtype(), &[elements.len()], &elements);
    let name = format!("{}.base", node.proto.output.first().map_or("", String::as_str));
    let base = constant_value(&name, base, true);
    graph.add(sums, &base)
}

/// `TreeEnsembleRegressor`.
pub(super) fn regressor(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let x = rows(node, graph)?;
    let targets = usize::try_from(node.int("n_targets", 1)?).unwrap_or(0);
    let ensemble = by_tree(node, graph, "target", targets)?;
    let aggregate = match node.word("aggregate_function", &["SUM", "AVERAGE", "MIN", "MAX"])? {
        "AVERAGE" => Aggregate::Average,
        "MIN" => Aggregate::Min,
        "MAX" => Aggregate::Max,
        _ => Aggregate::Sum,
    };
    let sums = ensemble.evaluate(node, graph, &x, aggregate)?;
    let sums = add_base(node, graph, &sums)?;
    let sums = graph.cast(&sums, DType::F32)?;
    let post = super::learning::post_transform_name(node)?;
    Ok(vec![post_transform(graph, &sums, post)?])
}

/// `TreeEnsembleClassifier`: labels and scores.
pub(super) fn classifier(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let x = rows(node, graph)?;
    let labels = Labels::of(node, "classlabels_int64s", "classlabels_strings")?;
    let classes = labels.len();
    let mut ensemble = by_tree(node, graph, "class", classes)?;
    // Two classes may be told by the score of one.
    let ids = node.ints("class_ids")?.unwrap_or_default();
    let is_binary = classes == 2 && ids.windows(2).all(|pair| pair[0] == pair[1]);
    if is_binary {
        for place in &mut ensemble.places {
            place.adds.iter_mut().for_each(|(target, _)| *target = 0);
        }
        ensemble.targets = 1;
    }
    let sums = ensemble.evaluate(node, graph, &x, Aggregate::Sum)?;
    let sums = add_base(node, graph, &sums)?;
    let mut scores = graph.cast(&sums, DType::F32)?;
    let post = super::learning::post_transform_name(node)?;
    if is_binary {
        let last = &scores.shape()[1] - 1;
        let second = graph.slice_axis(&scores, 1, last, 1, Expr::ONE)?;
        let negated = graph.neg(&second)?;
        let first = match post {
            "NONE" | "PROBIT" => graph.add_number(&negated, 1.0)?,
            _ => negated,
        };
        scores = graph.concat(1, &[first, second])?;
    }
    let scores = post_transform(graph, &scores, post)?;
    Ok(vec![labels.best(node, graph, &scores)?, scores])
}
