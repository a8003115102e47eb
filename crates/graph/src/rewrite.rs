//! Changing functions: forward reconstruction, uses, removal of what is dead.
//!
//! Invariants kept by everything here: nodes stay in an order in which they can be run, symbols
//! keep their ids, and reconstruction infers types anew, so a node whose operands became more
//! precise becomes more precise itself.

use std::collections::{BTreeMap, BTreeSet};

use base::{Arena, Id, IdSet, IntoTree, SecondaryMap};
use sym::{Expr, SymbolId};

use crate::builder::{Built, FunctionBuilder};
use crate::function::{
    Assumption, Definition, Function, NodeId, Region, RegionId, Type, ValueId, Values,
};
use crate::op::Op;

/// What [`rebuild`] asks of every node: the new values of its results, or `None` to copy it.
type Rule<'a> = dyn FnMut(&mut Rewriter<'_>, NodeId) -> Built<Option<Vec<ValueId>>> + 'a;

/// A reconstruction under way: the old function, and the new one so far.
#[derive(Clone)]
pub struct Rewriter<'a> {
    /// The function that is read.
    pub source: &'a Function,
    /// Makes the new one. Its location is that of the node at hand.
    pub builder: FunctionBuilder,
    /// The new value of each old one reached so far.
    values: SecondaryMap<ValueId, Option<ValueId>>,
    /// What stands for old symbols.
    symbols: BTreeMap<SymbolId, Expr>,
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
    function.given = source.given.clone();
    function.assumptions = source.assumptions.clone();
    function.locations = source.locations.clone();
    function.nodes.reserve(source.nodes.len());
    function.values.reserve(source.values.len());
    let mut values = SecondaryMap::new();
    values.reserve(source.values.len());
    let builder = FunctionBuilder::extend(function);
    let mut rewriter = Rewriter { source, builder, values, symbols: BTreeMap::new() };
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

    /// Adds a copy of an old node, its regions rebuilt by the rule, and returns its results. What
    /// reads the same types as before has the types that it had.
    fn copy(&mut self, node: NodeId, rule: &mut Rule<'_>) -> Built<Values> {
        let source = self.source;
        let old = &source.nodes[node];
        let regions = old
            .regions
            .iter()
            .map(|&region| self.region(region, rule))
            .collect::<Built<Vec<RegionId>>>()?;
        self.builder.set_location(old.location);
        let operands: Values = old.operands.iter().map(|&value| self.get(value)).collect();
        let function = self.builder.function();
        let mut types = old.operands.iter().zip(&operands);
        let is_as_before = regions.is_empty() && self.symbols.is_empty();
        if is_as_before && types.all(|(&old, &new)| source.ty(old) == function.ty(new)) {
            let results = old.results.iter().map(|&result| source.ty(result).clone());
            return Ok(self.builder.add_typed(old.op.clone(), operands, results));
        }
        let own = source.symbols_defined_by(node).into_iter();
        let own = own.map(|symbol| {
            let mut now = Expr::symbol(symbol);
            self.substitute(&mut now);
            now
        });
        let own: Vec<Expr> = own.collect();
        self.builder.add_alike(self.op(node), &own, &operands, &regions).map(Values::from)
    }

    /// The primitive of an old node, with what stands for the symbols in it.
    pub fn op(&self, node: NodeId) -> Op {
        let mut op = self.source.nodes[node].op.clone();
        op.exprs_mut().into_iter().for_each(|expr| self.substitute(expr));
        let now = |symbol: SymbolId| self.symbols.get(&symbol).and_then(Expr::as_symbol);
        match &mut op {
            Op::Bind { symbol, .. } | Op::While { turns: Some(symbol) } => {
                *symbol = now(*symbol).unwrap_or(*symbol);
            }
            _ => {}
        }
        op
    }

    fn substitute(&self, expr: &mut Expr) {
        if !self.symbols.is_empty() {
            *expr = expr.substitute(&mut |symbol| self.symbols.get(&symbol).cloned());
        }
    }

    /// Lets an expression stand for an old symbol from here on.
    pub fn specialise(&mut self, symbol: SymbolId, now: Expr) {
        self.symbols.insert(symbol, now);
    }

    /// Lets the extents of a new value stand for the symbols that an old type has in their places.
    pub fn specialise_type(&mut self, old: &Type, new: ValueId) {
        let now = self.builder.function().ty(new).exprs().to_vec();
        for (extent, now) in old.exprs().iter().zip(now) {
            if let Some(symbol) = extent.as_symbol().filter(|_| *extent != now) {
                self.specialise(symbol, now);
            }
        }
    }

    /// Adds the nodes of an old region, made by the rule, in which these values stand for its
    /// parameters, and returns its results. It may be asked for several times: symbols that nodes
    /// in it define are new ones each time.
    ///
    /// # Errors
    /// As [`rebuild`].
    pub fn inline(
        &mut self,
        region: RegionId,
        parameters: &[ValueId],
        rule: &mut Rule<'_>,
    ) -> Built<Vec<ValueId>> {
        let source = self.source;
        let old = &source.regions[region];
        for (&old, &new) in old.parameters.iter().zip(parameters) {
            self.specialise_type(source.ty(old), new);
            self.values[old] = Some(new);
        }
        for symbol in old.nodes.iter().flat_map(|&node| source.symbols_known_behind(node)) {
            let data = &source.symbols[symbol];
            let new = self.builder.new_symbol(&data.name, data.range);
            self.specialise(symbol, Expr::symbol(new));
        }
        self.region_nodes(region, rule)?;
        Ok(self.get_all(&old.results))
    }

    fn region(&mut self, region: RegionId, rule: &mut Rule<'_>) -> Built<RegionId> {
        let source = self.source;
        let old = &source.regions[region];
        let mut types: Vec<Type> = old.parameters.iter().map(|&id| source.ty(id).clone()).collect();
        types.iter_mut().flat_map(Type::exprs_mut).for_each(|expr| self.substitute(expr));
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
                Some(results) => Values::from(results),
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

impl Function {
    /// All nodes in order, each followed by those in its regions.
    pub fn nodes_in_order(&self) -> Vec<NodeId> {
        if self.has_one_region() {
            return self.regions[self.body].nodes.clone();
        }
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
        if self.has_one_region() {
            return vec![self.body];
        }
        let inner = self.nodes_in_order().into_iter().flat_map(|node| &self.nodes[node].regions);
        std::iter::once(self.body).chain(inner.copied()).collect()
    }

    /// Whether there is no region but the body, not even a dead one.
    fn has_one_region(&self) -> bool {
        self.regions.len() == 1
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
        let body = &self.regions[self.body];
        let needed = Needed::of(self, body, &self.assumptions);
        if self.is_compact(&needed) {
            return;
        }
        let numbers = Numbers::of(self, body, &needed);
        self.values.renumber(&numbers.values.old);
        self.nodes.renumber(&numbers.nodes.old);
        self.regions.renumber(&numbers.regions.old);
        self.translate(&numbers, &needed);
    }

    /// The part of this function that computes values of the body from others, with the nodes that
    /// it needs, numbered anew. Symbols and locations stay; it assumes nothing, and its parameters
    /// and results have no names yet.
    pub fn part(&self, parameters: Vec<ValueId>, results: Vec<ValueId>) -> Function {
        self.part_of(&[self.body], parameters, results, &|_| true)
    }

    /// The function with those of its parameters alone that its results depend on: by their
    /// elements, or by symbols that no other such parameter tells. It assumes nothing.
    #[must_use]
    pub fn without_unused_parameters(&self) -> Function {
        let whole = self.part(self.parameters().to_vec(), self.results().to_vec());
        let users = whole.users();
        let is_used = |id: &ValueId| !users[*id].is_empty() || whole.results().contains(id);
        let told = |id: &ValueId| whole.ty(*id).exprs().iter().filter_map(Expr::as_symbol);
        let exprs = whole.nodes.values().flat_map(|node| node.op.exprs());
        let mut missing: BTreeSet<SymbolId> = exprs.flat_map(Expr::symbols).into_set();
        for symbol in whole.parameters().iter().filter(|id| is_used(id)).flat_map(told) {
            missing.remove(&symbol);
        }
        let named = whole.parameters().iter().zip(&self.parameter_names);
        let tells = |id: &ValueId| told(id).any(|symbol| missing.contains(&symbol));
        let (parameters, names) = named
            .filter(|(id, _)| is_used(id) || tells(id))
            .map(|(&id, name)| (id, name.clone()))
            .unzip();
        let mut part = whole.part(parameters, whole.results().to_vec());
        part.parameter_names = names;
        part.result_names.clone_from(&self.result_names);
        part
    }

    /// As [`Self::part`], of values of the last of these regions, each of which is inside of the
    /// one before; of their nodes it has those alone for which `is_taken` holds.
    pub fn part_of(
        &self,
        regions: &[RegionId],
        parameters: Vec<ValueId>,
        results: Vec<ValueId>,
        is_taken: &dyn Fn(NodeId) -> bool,
    ) -> Function {
        self.part_with(self.body_of_part(regions, parameters, results, is_taken))
    }

    /// The part with this body.
    pub(crate) fn part_with(&self, body: Region) -> Function {
        let needed = Needed::of(self, &body, &[]);
        let numbers = Numbers::of(self, &body, &needed);
        let mut part = Function {
            name: self.name.clone(),
            symbols: self.symbols.clone(),
            given: self.given.clone(),
            values: numbers.values.of(&self.values),
            nodes: numbers.nodes.of(&self.nodes),
            regions: numbers.regions.of(&self.regions),
            body: self.body,
            parameter_names: Vec::new(),
            result_names: Vec::new(),
            assumptions: Vec::new(),
            locations: self.locations.clone(),
        };
        part.regions[numbers.regions.get(self.body)] = body;
        part.translate(&numbers, &needed);
        part
    }

    /// As [`Self::part`], of a function that is not wanted any more, whose assumptions and names of
    /// parameters and results stay.
    pub fn into_part(mut self, parameters: Vec<ValueId>, results: Vec<ValueId>) -> Function {
        let body = self.body;
        self.regions[body] = self.body_of_part(&[body], parameters, results, &|_| true);
        self.compact();
        self
    }

    fn body_of_part(
        &self,
        regions: &[RegionId],
        parameters: Vec<ValueId>,
        results: Vec<ValueId>,
        is_taken: &dyn Fn(NodeId) -> bool,
    ) -> Region {
        let mut given = IdSet::new();
        given.extend(&parameters);
        let is_computed =
            |id: &NodeId| !self.nodes[*id].results.iter().any(|&result| given.contains(result));
        let nodes = regions.iter().flat_map(|&region| &self.regions[region].nodes).copied();
        let nodes = nodes.filter(is_computed).filter(|&id| is_taken(id)).collect();
        Region { parameters, nodes, results }
    }

    /// Whether all nodes are needed, and ids are in order of appearance.
    fn is_compact(&self, needed: &IdSet<NodeId>) -> bool {
        let mut walk = Walk { function: self, values: 0, nodes: 0, regions: 0 };
        walk.region(self.body, needed)
            && (walk.values, walk.nodes, walk.regions)
                == (self.values.len(), self.nodes.len(), self.regions.len())
    }

    /// Puts new ids in the place of old ones, by which things stand in order already.
    fn translate(&mut self, numbers: &Numbers, needed: &IdSet<NodeId>) {
        let Numbers { values, nodes, regions } = numbers;
        self.body = regions.get(self.body);
        for (id, region) in self.regions.iter_mut() {
            region.nodes.retain(|&node| needed.contains(node));
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

/// The search for what results need: one walk from the end to the front, because what a node reads
/// stands in front of it.
struct Needed<'a> {
    function: &'a Function,
    nodes: IdSet<NodeId>,
    /// Of those whose types name symbols only.
    values: IdSet<ValueId>,
    symbols: BTreeSet<SymbolId>,
}

impl<'a> Needed<'a> {
    /// The nodes that the results of a body need, and that assumptions do.
    fn of(function: &'a Function, body: &Region, assumptions: &[Assumption]) -> IdSet<NodeId> {
        let mut need = Needed {
            function,
            nodes: IdSet::new(),
            values: IdSet::new(),
            symbols: BTreeSet::new(),
        };
        for &value in &body.parameters {
            need.symbols_of(function.ty(value).exprs());
        }
        for assumption in assumptions {
            need.symbols_of(assumption.exprs());
        }
        need.region(body);
        need.nodes
    }

    fn region(&mut self, region: &Region) {
        self.values(&region.results);
        for &id in region.nodes.iter().rev() {
            if self.nodes.contains(id) || self.acts(id) {
                self.node(id);
            }
        }
    }

    /// Whether a node is needed whoever reads it: it defines a symbol that is needed, or is a host
    /// function without results, or one of these is in it.
    fn acts(&self, id: NodeId) -> bool {
        let node = &self.function.nodes[id];
        if let Op::Host { .. } = node.op {
            return node.results.is_empty();
        }
        let mut inner = node.regions.iter().map(|&region| &self.function.regions[region]);
        let defined = self.function.symbols_defined_by(id);
        defined.iter().any(|symbol| self.symbols.contains(symbol))
            || inner.any(|region| region.nodes.iter().any(|&id| self.acts(id)))
    }

    fn node(&mut self, id: NodeId) {
        let function = self.function;
        let node = &function.nodes[id];
        self.nodes.insert(id);
        if !function.symbols.is_empty() {
            node.op.each_expr(&mut |expr| self.symbols_of([expr]));
        }
        self.values(&node.operands);
        self.values(&node.results);
        for &region in &node.regions {
            self.region(&function.regions[region]);
        }
    }

    fn values(&mut self, values: &[ValueId]) {
        let function = self.function;
        for &value in values {
            if !function.symbols.is_empty() && self.values.insert(value) {
                self.symbols_of(function.ty(value).exprs());
            }
            if let Definition::Result(node, _) = function.values[value].definition {
                self.nodes.insert(node);
            }
        }
    }

    fn symbols_of<'e>(&mut self, exprs: impl IntoIterator<Item = &'e Expr>) {
        for expr in exprs {
            expr.any_symbol(&mut |symbol| {
                self.symbols.insert(symbol);
                false
            });
        }
    }
}

/// A walk that counts what it meets as long as ids are in order of appearance.
struct Walk<'a> {
    function: &'a Function,
    values: usize,
    nodes: usize,
    regions: usize,
}

impl Walk<'_> {
    /// Whether all that is met in a region is needed and in order.
    fn region(&mut self, id: RegionId, needed: &IdSet<NodeId>) -> bool {
        let function = self.function;
        let region = &function.regions[id];
        next(&mut self.regions, id)
            && region.parameters.iter().all(|&value| next(&mut self.values, value))
            && region.nodes.iter().all(|&id| {
                let node = &function.nodes[id];
                needed.contains(id)
                    && node.regions.iter().all(|&inner| self.region(inner, needed))
                    && next(&mut self.nodes, id)
                    && node.results.iter().all(|&value| next(&mut self.values, value))
            })
    }
}

/// Whether an id is the next one.
fn next<I: Id>(count: &mut usize, id: I) -> bool {
    *count += 1;
    id.index() + 1 == *count
}

/// The numbers that what is needed gets, in order of appearance.
#[derive(Default)]
struct Numbers {
    values: NewIds<ValueId>,
    nodes: NewIds<NodeId>,
    regions: NewIds<RegionId>,
}

impl Numbers {
    /// Of a function with this body.
    fn of(function: &Function, body: &Region, needed: &IdSet<NodeId>) -> Numbers {
        let mut numbers = Numbers::default();
        numbers.values.reserve(function.values.len());
        numbers.nodes.reserve(function.nodes.len());
        numbers.region(function, function.body, body, needed);
        numbers
    }

    fn region(
        &mut self,
        function: &Function,
        id: RegionId,
        region: &Region,
        needed: &IdSet<NodeId>,
    ) {
        self.regions.push(id);
        region.parameters.iter().for_each(|&value| self.values.push(value));
        for &id in region.nodes.iter().filter(|&&id| needed.contains(id)) {
            let node = &function.nodes[id];
            for &inner in &node.regions {
                self.region(function, inner, &function.regions[inner], needed);
            }
            self.nodes.push(id);
            node.results.iter().for_each(|&value| self.values.push(value));
        }
    }
}

/// The new id of each old one that stays.
struct NewIds<I> {
    new: SecondaryMap<I, Option<I>>,
    /// Those that stay, in their new order.
    old: Vec<I>,
}

impl<I: Id> Default for NewIds<I> {
    fn default() -> Self {
        NewIds { new: SecondaryMap::new(), old: Vec::new() }
    }
}

impl<I: Id> NewIds<I> {
    fn reserve(&mut self, ids: usize) {
        self.new.reserve(ids);
        self.old.reserve(ids);
    }

    /// Gives an id the next number.
    fn push(&mut self, old: I) {
        self.new[old] = Some(I::new(self.old.len()));
        self.old.push(old);
    }

    /// Copies of what stays, in its new order.
    fn of<T: Clone>(&self, things: &Arena<I, T>) -> Arena<I, T> {
        self.old.iter().map(|&id| things[id].clone()).collect()
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
