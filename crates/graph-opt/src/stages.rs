//! Stages: a function that computes sizes from data becomes functions that run one after another,
//! each with every size that it uses known when it begins.
//!
//! before: `main(x) = transpose(slice(i, n))`, where `i, c = non_zero(x)` and `bind n = c`
//! after:  stage 0 `(x) = i, c`; `n` is read from `c`; stage 1 `(i, c) = transpose(slice(i, n))`
//!
//! So everything behind the front half of a compile knows constant shapes only, and a stage is made
//! once for each size that is met. Values cross between stages as they are; nodes without operands
//! are computed again. A function that binds no symbols is one stage. Sizes bound inside of regions
//! stay where they are.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use graph::{Definition, Function, NodeId, Op, ValueId};
use sym::{Expr, SymbolId};

/// A function that runs when the sizes it uses are known.
#[derive(Clone, Debug, PartialEq)]
pub struct Stage {
    /// What it computes. Its results are the values to be kept; those of the last stage are the
    /// whole function's results.
    pub function: Arc<Function>,
    /// What each of its parameters is.
    pub parameters: Vec<Origin>,
    /// Symbols that are known once it has run, and the i64 of rank 0 that each is the value of.
    pub binds: Vec<(SymbolId, Origin)>,
}

/// A value that was there before a stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Origin {
    /// A parameter of the whole function.
    Parameter(usize),
    /// The result of a stage: results are numbered across all stages but the last.
    Kept(usize),
}

/// Divides a function, which has no dead nodes, into stages. Its first `inputs` parameters are the
/// caller's, the others constants, which come last among the parameters of each stage.
#[must_use]
pub fn stages(function: &Arc<Function>, inputs: usize) -> Vec<Stage> {
    let whole = |function: Arc<Function>| {
        let parameters = (0..function.parameters().len()).map(Origin::Parameter).collect();
        vec![Stage { function, parameters, binds: Vec::new() }]
    };
    if !function.nodes.values().any(|node| matches!(node.op, Op::Bind { .. })) {
        return whole(function.clone());
    }
    let function = &Arc::new(without_bound_values(function));
    let levels = Levels::of(function);
    if levels.count == 1 {
        return whole(function.clone());
    }
    // From the last stage back: what each needs, earlier ones must keep.
    let mut kept: Vec<BTreeSet<ValueId>> = vec![BTreeSet::new(); levels.count];
    for (level, operand) in levels.binds.values() {
        if let Some(made) = levels.made(*operand) {
            debug_assert!(made <= *level, "a size is bound after it is computed");
            kept[made].insert(*operand);
        }
    }
    let mut needs = vec![BTreeSet::new(); levels.count];
    for level in (0..levels.count).rev() {
        let results: Vec<ValueId> = match level + 1 == levels.count {
            true => function.results().to_vec(),
            false => kept[level].iter().copied().collect(),
        };
        needs[level] = levels.needs(function, level, &results);
        for &value in &needs[level] {
            if let Some(made) = levels.made(value) {
                kept[made].insert(value);
            }
        }
    }
    let numbers: BTreeMap<ValueId, usize> =
        kept.iter().flatten().enumerate().map(|(number, &value)| (value, number)).collect();
    let origin = |value: ValueId| match function.values[value].definition {
        Definition::Parameter(_, number) => Origin::Parameter(number as usize),
        Definition::Result(..) => Origin::Kept(numbers[&value]),
    };
    (0..levels.count)
        .map(|level| {
            let results: Vec<ValueId> = kept[level].iter().copied().collect();
            let is_last = level + 1 == levels.count;
            let mut parameters: Vec<ValueId> = needs[level].iter().copied().collect();
            parameters.sort_by_key(|&value| {
                let origin = origin(value);
                (matches!(origin, Origin::Parameter(number) if number >= inputs), origin)
            });
            let binds = levels.binds.iter().filter(|(_, (bound, _))| *bound == level);
            Stage {
                parameters: parameters.iter().map(|&value| origin(value)).collect(),
                binds: binds.map(|(&symbol, &(_, value))| (symbol, origin(value))).collect(),
                function: Arc::new(part(
                    function,
                    level,
                    &parameters,
                    (!is_last).then_some(results),
                )),
            }
        })
        .collect()
}

/// The function with the operands of binds read in the place of their results.
fn without_bound_values(function: &Function) -> Function {
    let mut changed = function.clone();
    for id in &function.regions[function.body].nodes {
        let node = &function.nodes[*id];
        if matches!(node.op, Op::Bind { .. }) {
            changed.replace_all_uses(node.results[0], node.operands[0]);
        }
    }
    changed
}

/// The function of one stage; without results, those of the whole.
fn part(
    function: &Function,
    level: usize,
    parameters: &[ValueId],
    results: Option<Vec<ValueId>>,
) -> Function {
    let own = results.clone().unwrap_or_else(|| function.results().to_vec());
    let mut part = function.part(parameters.to_vec(), own);
    part.name = format!("{}_{level}", function.name);
    let mut kept = 0;
    let name = |&value: &ValueId| match function.values[value].definition {
        Definition::Parameter(_, number) => function.parameter_names[number as usize].clone(),
        Definition::Result(..) => {
            kept += 1;
            format!("kept{}", kept - 1)
        }
    };
    part.parameter_names = parameters.iter().map(name).collect();
    part.result_names = match results {
        Some(results) => (0..results.len()).map(|number| format!("kept{number}")).collect(),
        None => function.result_names.clone(),
    };
    part
}

/// In which stage each node can run first.
struct Levels {
    nodes: BTreeMap<NodeId, usize>,
    values: BTreeMap<ValueId, usize>,
    /// For each symbol that the body binds: the stage after which it is known, and its value.
    binds: BTreeMap<SymbolId, (usize, ValueId)>,
    count: usize,
}

impl Levels {
    fn of(function: &Function) -> Levels {
        let mut levels = Levels {
            nodes: BTreeMap::new(),
            values: BTreeMap::new(),
            binds: BTreeMap::new(),
            count: 1,
        };
        for &id in &function.regions[function.body].nodes {
            let level = levels.level_of(function, id);
            levels.nodes.insert(id, level);
            levels.count = levels.count.max(level + 1);
            let node = &function.nodes[id];
            if let Op::Bind { symbol, .. } = &node.op {
                levels.binds.insert(*symbol, (level, node.operands[0]));
                levels.count = levels.count.max(level + 2);
            }
            levels.values.extend(node.results.iter().map(|&value| (value, level)));
        }
        levels
    }

    fn level_of(&self, function: &Function, id: NodeId) -> usize {
        let node = &function.nodes[id];
        let known = |symbol: SymbolId| self.binds.get(&symbol).map_or(0, |(level, _)| level + 1);
        let of_expr = |expr: &Expr| expr.symbols().into_iter().map(known).max().unwrap_or(0);
        let types = node.results.iter().flat_map(|&value| function.ty(value).exprs());
        let mut level = types.chain(node.op.exprs()).map(of_expr).max().unwrap_or(0);
        for operand in &node.operands {
            level = level.max(self.made(*operand).unwrap_or(0));
        }
        for &region in &node.regions {
            for &result in &function.regions[region].results {
                level = level.max(self.made(result).unwrap_or(0));
            }
            for &inner in &function.regions[region].nodes {
                level = level.max(self.level_of(function, inner));
            }
        }
        level
    }

    /// The stage that makes a value of the body; none for a parameter, or inside of a region.
    fn made(&self, value: ValueId) -> Option<usize> {
        self.values.get(&value).copied()
    }

    /// The values from before a stage which it reads to compute some of its results.
    fn needs(&self, function: &Function, level: usize, results: &[ValueId]) -> BTreeSet<ValueId> {
        let mut found = BTreeSet::new();
        let mut seen = BTreeSet::new();
        let mut work: Vec<ValueId> = results.to_vec();
        // Symbols that are known by now are bound again where they are used.
        let bound = self.binds.values().filter(|(bound, _)| *bound < level);
        work.extend(bound.map(|(_, value)| *value));
        while let Some(value) = work.pop() {
            if !seen.insert(value) {
                continue;
            }
            match function.values[value].definition {
                Definition::Parameter(region, _) if region == function.body => {
                    found.insert(value);
                }
                Definition::Parameter(..) => {}
                Definition::Result(id, _) => {
                    let is_source = function.nodes[id].operands.is_empty()
                        && function.nodes[id].regions.is_empty();
                    if !is_source && self.nodes.get(&id).is_some_and(|&made| made < level) {
                        found.insert(value);
                    } else {
                        work.extend(function.reads(id));
                    }
                }
            }
        }
        found
    }
}
