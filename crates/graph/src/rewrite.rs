//! Changing functions: forward reconstruction, uses, removal of what is dead.
//!
//! Invariants kept by everything here: nodes stay in an order in which they can be run, symbols
//! keep their ids, and reconstruction infers types anew, so a node whose operands became more
//! precise becomes more precise itself.

use std::collections::{BTreeMap, BTreeSet};

use base::{Id, IdSet, SecondaryMap};
use smallvec::SmallVec;
use sym::{Expr, SymbolId};

use crate::builder::{Built, FunctionBuilder};
use crate::function::{Definition, Function, NodeId, Region, RegionId, Type, ValueId};
use crate::op::Op;

/// What [`rebuild`] asks of every node: the new values of its results, or `None` to copy it.
type Rule<'a> = dyn FnMut(&mut Rewriter<'_>, NodeId) -> Built<Option<Vec<ValueId>>> + 'a;

/// A reconstruction under way: the old function, and the new one so far.
pub struct Rewriter<'a> {
    /// The function that is read.
    pub source: &'a Function,
    /// Makes the new one. Its location is that of the node at hand.
    pub builder: FunctionBuilder,
    /// The new value of each old one reached so far.
    values: SecondaryMap<ValueId, Option<ValueId>>,
}

/// Makes a function anew, node by node in order, region by region. Symbols, assumptions, names and
/// locations stay; nodes that no result needs are left out at the end.
///
/// # Errors
/// What the rule or the builder says of a node, with the node's place.
pub fn rebuild(
    source: &Function,
    mut rule: impl FnMut(&mut Rewriter<'_>, NodeId) -> Built<Option<Vec<ValueId>>>,
) -> Result<Function, String> {
    let mut function = Function::new(&source.name);
    function.symbols = source.symbols.clone();
    function.assumptions = source.assumptions.clone();
    function.locations = source.locations.clone();
    function.nodes.reserve(source.nodes.len());
    function.values.reserve(source.values.len());
    let mut rewriter = Rewriter {
        source,
        builder: FunctionBuilder::extend(function),
        values: SecondaryMap::new(),
    };
    for (&old, name) in source.parameters().iter().zip(&source.parameter_names) {
        let new = rewriter.builder.parameter(name, source.ty(old).clone());
        rewriter.bind(old, new);
    }
    rewriter.region_nodes(source.body, &mut rule)?;
    let results = rewriter.get_all(source.results());
    let results = source.result_names.iter().cloned().zip(results).collect();
    let mut function = rewriter.builder.finish(results);
    function.compact();
    Ok(function)
}

impl Rewriter<'_> {
    /// The new value of an old one.
    ///
    /// # Panics
    /// When its definition has not been reached, which in an ordered function is no operand of the
    /// node at hand.
    pub fn get(&self, old: ValueId) -> ValueId {
        match self.values[old] {
            Some(new) => new,
            None => panic!("{old} is used before its definition in function {}", self.source.name),
        }
    }

    /// The new values of old ones.
    ///
    /// # Panics
    /// As [`Self::get`].
    pub fn get_all(&self, old: &[ValueId]) -> Vec<ValueId> {
        old.iter().map(|&value| self.get(value)).collect()
    }

    /// The new operands of an old node.
    pub fn operands(&self, node: NodeId) -> Vec<ValueId> {
        self.get_all(&self.source.nodes[node].operands)
    }

    /// Sets the new value of an old one; the old one's name passes over where there is none yet.
    pub fn bind(&mut self, old: ValueId, new: ValueId) {
        self.values[old] = Some(new);
        let named = self.builder.function().values[new].name.is_some();
        if let (false, Some(name)) = (named, &self.source.values[old].name) {
            self.builder.set_name(new, name.clone());
        }
    }

    /// Adds a copy of an old node, its regions rebuilt by the rule, and returns its results.
    fn copy(&mut self, node: NodeId, rule: &mut Rule<'_>) -> Built<Vec<ValueId>> {
        let source = self.source;
        let old = &source.nodes[node];
        let regions = old
            .regions
            .iter()
            .map(|&region| self.region(region, rule))
            .collect::<Built<Vec<RegionId>>>()?;
        self.builder.set_location(old.location);
        self.builder.add_with_regions(old.op.clone(), &self.operands(node), &regions)
    }

    fn region(&mut self, region: RegionId, rule: &mut Rule<'_>) -> Built<RegionId> {
        let source = self.source;
        let old = &source.regions[region];
        let types: Vec<Type> = old.parameters.iter().map(|&id| source.ty(id).clone()).collect();
        let parameters = self.builder.begin_region(&types);
        for (&old, new) in old.parameters.iter().zip(parameters) {
            self.bind(old, new);
        }
        self.region_nodes(region, rule)?;
        let results = self.get_all(&old.results);
        Ok(self.builder.end_region(&results))
    }

    fn region_nodes(&mut self, region: RegionId, rule: &mut Rule<'_>) -> Built<()> {
        let source = self.source;
        for &node in &source.regions[region].nodes {
            let location = source.nodes[node].location;
            let place = |reason| format!("{}: {reason}", source.locations.describe(location));
            self.builder.set_location(location);
            let replaced = rule(self, node).map_err(place)?;
            let results = match replaced {
                Some(results) => results,
                None => self.copy(node, rule).map_err(place)?,
            };
            let old = &source.nodes[node].results;
            assert_eq!(old.len(), results.len(), "results of a rewritten {}", node);
            for (&old, new) in old.iter().zip(results) {
                self.bind(old, new);
            }
        }
        Ok(())
    }
}

/// Where a value is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum User {
    /// Operand of this number of a node.
    Operand(NodeId, usize),
    /// Result of this number of a region.
    Result(RegionId, usize),
}

/// Who reads each value, in order; most values have one reader.
pub type Users = SecondaryMap<ValueId, SmallVec<[User; 1]>>;

impl Function {
    /// All nodes in order, each followed by those in its regions.
    pub fn nodes_in_order(&self) -> Vec<NodeId> {
        let mut order = Vec::with_capacity(self.nodes.len());
        self.push_nodes(self.body, &mut order);
        order
    }

    fn push_nodes(&self, region: RegionId, order: &mut Vec<NodeId>) {
        for &node in &self.regions[region].nodes {
            order.push(node);
            for &inner in &self.nodes[node].regions {
                self.push_nodes(inner, order);
            }
        }
    }

    /// The regions in use: the body, then those of the nodes in order.
    pub fn regions_in_order(&self) -> Vec<RegionId> {
        let inner = self.nodes_in_order().into_iter().flat_map(|node| &self.nodes[node].regions);
        std::iter::once(self.body).chain(inner.copied()).collect()
    }

    /// Who reads each value, in order.
    pub fn users(&self) -> Users {
        let mut users = Users::new();
        for node in self.nodes_in_order() {
            for (number, &operand) in self.nodes[node].operands.iter().enumerate() {
                users[operand].push(User::Operand(node, number));
            }
        }
        for region in self.regions_in_order() {
            for (number, &result) in self.regions[region].results.iter().enumerate() {
                users[result].push(User::Result(region, number));
            }
        }
        users
    }

    /// Makes every reader of one value read another, of the same type and defined before them. It
    /// walks the whole function.
    pub fn replace_all_uses(&mut self, old: ValueId, new: ValueId) {
        let values = |list: &mut [ValueId]| {
            list.iter_mut().filter(|value| **value == old).for_each(|value| *value = new);
        };
        self.nodes.iter_mut().for_each(|(_, node)| values(&mut node.operands));
        self.regions.iter_mut().for_each(|(_, region)| values(&mut region.results));
    }

    /// Removes nodes that no result needs, and numbers nodes, values and regions anew in order of
    /// appearance. Needed are what results read, what defines a symbol that is needed, and host
    /// functions without results. Parameters and symbols stay.
    pub fn compact(&mut self) {
        let needed = self.needed_nodes();
        let mut numbers = Numbers::default();
        numbers.region(self, self.body, &needed);
        let Numbers { values, nodes, regions } = &numbers;
        if nodes.is_identity(self.nodes.len())
            && values.is_identity(self.values.len())
            && regions.is_identity(self.regions.len())
        {
            return;
        }
        self.values.renumber(&values.new);
        self.nodes.renumber(&nodes.new);
        self.regions.renumber(&regions.new);
        self.body = regions.get(self.body);
        for (id, region) in self.regions.iter_mut() {
            region.nodes.retain(|&node| needed[node]);
            values.translate(&mut region.parameters);
            nodes.translate(&mut region.nodes);
            values.translate(&mut region.results);
            for (number, &value) in region.parameters.iter().enumerate() {
                self.values[value].definition = Definition::Parameter(id, number as u32);
            }
        }
        for (id, node) in self.nodes.iter_mut() {
            values.translate(&mut node.operands);
            values.translate(&mut node.results);
            regions.translate(&mut node.regions);
            for (number, &value) in node.results.iter().enumerate() {
                self.values[value].definition = Definition::Result(id, number as u32);
            }
        }
    }

    fn needed_nodes(&self) -> SecondaryMap<NodeId, bool> {
        let mut need = Needed {
            function: self,
            parents: self.parents(),
            nodes: SecondaryMap::new(),
            values: SecondaryMap::new(),
            symbols: BTreeSet::new(),
            work: Vec::new(),
        };
        need.run();
        need.nodes
    }

    /// The node around each region; none for the body.
    fn parents(&self) -> SecondaryMap<RegionId, Option<NodeId>> {
        let mut parents = SecondaryMap::new();
        for node in self.nodes_in_order() {
            for &region in &self.nodes[node].regions {
                parents[region] = Some(node);
            }
        }
        parents
    }

    /// The values that depend on constants alone and whose types name no symbol: what can be
    /// computed before inputs are known.
    pub fn constant_values(&self) -> IdSet<ValueId> {
        let mut constants = IdSet::new();
        for &id in &self.regions[self.body].nodes {
            let node = &self.nodes[id];
            let pure = node.operands.iter().all(|&operand| constants.contains(operand))
                && node.op.is_pure()
                && node.op.has_constant_exprs();
            if pure {
                constants.extend(&node.results);
            }
        }
        constants
    }

    /// The function of one node alone: its parameters are the node's operands, each once, its
    /// results the node's.
    pub fn isolate(&self, node: NodeId) -> Function {
        let mut isolated = self.clone();
        let mut operands = self.nodes[node].operands.to_vec();
        operands.sort_unstable();
        operands.dedup();
        for (number, &operand) in operands.iter().enumerate() {
            isolated.values[operand].definition = Definition::Parameter(self.body, number as u32);
        }
        let results = &self.nodes[node].results;
        let name = |(number, _): (usize, &ValueId)| format!("v{number}");
        isolated.parameter_names = operands.iter().enumerate().map(name).collect();
        isolated.result_names = results.iter().enumerate().map(name).collect();
        isolated.regions[self.body] =
            Region { parameters: operands, nodes: vec![node], results: results.to_vec() };
        isolated.assumptions = Vec::new();
        isolated.compact();
        isolated
    }

    /// Puts expressions in the place of symbols, in types, primitives and assumptions. The symbols
    /// stay in the table; a `Bind` of a replaced symbol must not be there.
    pub fn substitute(&mut self, values: &BTreeMap<SymbolId, Expr>) {
        let replace = |expr: &mut Expr| *expr = expr.substitute(&mut |id| values.get(&id).cloned());
        for (_, value) in self.values.iter_mut() {
            value.ty.exprs_mut().into_iter().for_each(replace);
        }
        for (_, node) in self.nodes.iter_mut() {
            node.op.exprs_mut().into_iter().for_each(replace);
        }
        for assumption in &mut self.assumptions {
            assumption.exprs_mut().into_iter().for_each(replace);
        }
    }
}

/// The search for what results need.
struct Needed<'a> {
    function: &'a Function,
    parents: SecondaryMap<RegionId, Option<NodeId>>,
    nodes: SecondaryMap<NodeId, bool>,
    values: SecondaryMap<ValueId, bool>,
    symbols: BTreeSet<SymbolId>,
    work: Vec<ValueId>,
}

impl Needed<'_> {
    fn run(&mut self) {
        let function = self.function;
        let mut binds = BTreeMap::new();
        for node in function.nodes_in_order() {
            match &function.nodes[node].op {
                Op::Bind { symbol, .. } => _ = binds.insert(*symbol, node),
                Op::Host { .. } if function.nodes[node].results.is_empty() => self.node(node),
                _ => {}
            }
        }
        self.work.extend(function.results());
        for value in function.parameters() {
            self.symbols_of(function.ty(*value).exprs());
        }
        for assumption in &function.assumptions {
            self.symbols_of(assumption.exprs());
        }
        loop {
            self.drain();
            let bound = |symbol| binds.get(symbol).copied().filter(|&node| !self.nodes[node]);
            let new: Vec<NodeId> = self.symbols.iter().filter_map(bound).collect();
            if new.is_empty() {
                return;
            }
            new.into_iter().for_each(|node| self.node(node));
        }
    }

    /// Follows values to what defines them until there are no more.
    fn drain(&mut self) {
        let function = self.function;
        let has_symbols = !function.symbols.is_empty();
        while let Some(value) = self.work.pop() {
            if std::mem::replace(&mut self.values[value], true) {
                continue;
            }
            if has_symbols {
                self.symbols_of(function.ty(value).exprs());
            }
            match function.values[value].definition {
                Definition::Result(node, _) => self.node(node),
                // An iteration's values need the loop they belong to.
                Definition::Parameter(region, _) => {
                    if let Some(node) = self.parents[region] {
                        self.node(node);
                    }
                }
            }
        }
    }

    fn node(&mut self, node: NodeId) {
        if std::mem::replace(&mut self.nodes[node], true) {
            return;
        }
        let data = &self.function.nodes[node];
        if !self.function.symbols.is_empty() {
            self.symbols_of(data.op.exprs());
        }
        self.work.extend(&data.operands);
        self.work.extend(&data.results);
        for &region in &data.regions {
            self.work.extend(&self.function.regions[region].results);
        }
    }

    fn symbols_of(&mut self, exprs: Vec<&Expr>) {
        for expr in exprs {
            self.symbols.extend(expr.symbols());
        }
    }
}

/// The numbers that what is needed gets, in order of appearance.
#[derive(Default)]
struct Numbers {
    values: NewIds<ValueId>,
    nodes: NewIds<NodeId>,
    regions: NewIds<RegionId>,
}

impl Numbers {
    fn region(&mut self, function: &Function, id: RegionId, needed: &SecondaryMap<NodeId, bool>) {
        let region = &function.regions[id];
        self.regions.push(id);
        region.parameters.iter().for_each(|&value| self.values.push(value));
        for &id in region.nodes.iter().filter(|&&id| needed[id]) {
            let node = &function.nodes[id];
            for &inner in &node.regions {
                self.region(function, inner, needed);
            }
            self.nodes.push(id);
            node.results.iter().for_each(|&value| self.values.push(value));
        }
    }
}

/// The new id of each old one that stays.
struct NewIds<I> {
    new: SecondaryMap<I, Option<I>>,
    count: usize,
    /// Whether every id so far stays what it was.
    same: bool,
}

impl<I: Id> Default for NewIds<I> {
    fn default() -> Self {
        NewIds { new: SecondaryMap::new(), count: 0, same: true }
    }
}

impl<I: Id> NewIds<I> {
    /// Gives an id the next number.
    fn push(&mut self, old: I) {
        self.same &= old.index() == self.count;
        self.new[old] = Some(I::new(self.count));
        self.count += 1;
    }

    fn is_identity(&self, length: usize) -> bool {
        self.same && self.count == length
    }

    fn get(&self, old: I) -> I {
        match self.new[old] {
            Some(new) => new,
            None => panic!("{old} is used, but nothing defines it"),
        }
    }

    fn translate(&self, ids: &mut [I]) {
        ids.iter_mut().for_each(|id| *id = self.get(*id));
    }
}
