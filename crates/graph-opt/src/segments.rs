//! Segments: a function in *plan form*, which calls others for all that is computed.
//!
//! before: `main(x) = transpose(slice(i, n))`, where `i, c = non_zero(x)` and `bind n = c`
//! after:  `main(x) = { i, c = call main_0(x); bind n = c; call main_1(i) }`,
//!         `main_0(x) = non_zero(x)`, `main_1(i) = transpose(slice(i, n))` with `n` given
//!
//! What stands between segments is *interpreted*: it is done by whoever runs the plan, with values
//! in hand. That is each `Bind`, what is done with lists and strings, control flow around these, or
//! what changes extents. So every
//! segment knows all of its sizes when it begins, and everything behind this pass knows constant
//! shapes only. A function without interpreted nodes is one segment.
//!
//! Values cross between segments as they are. Nodes without operands, and what repeats them, are
//! computed again in each segment that reads them.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use base::{FunctionId, IdSet, InOrder, Locations, SecondaryMap};
use graph::{Built, Definition, Function, FunctionBuilder, NodeId, Op, RegionId, Type, ValueId};
use sym::{Expr, SymbolId};

/// The plan of a function, which has no dead nodes. Its first `inputs` parameters are the caller's,
/// the others constants: they come last among the parameters of each segment, and only segments
/// read them. `add` takes a segment in.
///
/// # Errors
/// What the builder refuses, which is an internal error.
pub fn segments(
    function: &Arc<Function>,
    inputs: usize,
    add: &mut dyn FnMut(Arc<Function>) -> FunctionId,
) -> Built<Function> {
    let handed = function.parameters().iter().chain(function.results());
    let is_compiled = handed.into_iter().all(|&value| function.ty(value).is_compiled());
    if is_compiled && !function.has_interpreted(function.body) {
        return one_segment(function, add);
    }
    let function = &without_bound_values(function);
    let mut interpreted = IdSet::new();
    let nodes = function.nodes_in_order();
    interpreted.extend(nodes.iter().filter(|&&id| function.is_interpreted(id)));
    let mut divider = Divider {
        function,
        inputs,
        interpreted,
        add,
        builder: FunctionBuilder::extend(empty(function)),
        values: SecondaryMap::new(),
        constants: SecondaryMap::new(),
        around: Vec::new(),
        placed: SecondaryMap::new(),
        made: SecondaryMap::new(),
        known: SecondaryMap::new(),
        segments: 0,
    };
    for (&old, name) in function.parameters().iter().zip(&function.parameter_names) {
        let new = divider.builder.parameter(name, function.ty(old).clone());
        match divider.is_constant(old) {
            true => divider.constants[old] = Some(new),
            false => divider.define(old, new),
        }
    }
    let results = divider.region(function.body)?;
    let names = function.result_names.iter().cloned();
    Ok(divider.builder.finish(names.zip(results).collect()))
}

/// A function `plan` without nodes that has another's symbols, assumptions and locations.
fn empty(function: &Function) -> Function {
    let mut plan = Function::new("plan");
    plan.symbols = function.symbols.clone();
    plan.assumptions = function.assumptions.clone();
    plan.locations = function.locations.clone();
    plan
}

/// The plan that calls the whole function.
fn one_segment(
    function: &Arc<Function>,
    add: &mut dyn FnMut(Arc<Function>) -> FunctionId,
) -> Built<Function> {
    let mut builder = FunctionBuilder::extend(empty(function));
    let named = function.parameters().iter().zip(&function.parameter_names);
    let operands: Vec<ValueId> =
        named.map(|(&old, name)| builder.parameter(name, function.ty(old).clone())).collect();
    let results = function.results().iter().map(|&value| function.ty(value).clone()).collect();
    let call = Op::Call { function: add(function.clone()), results };
    let results = builder.add(call, &operands)?;
    Ok(builder.finish(function.result_names.iter().cloned().zip(results).collect()))
}

/// The function with the operands of binds read in the place of their results.
fn without_bound_values(function: &Function) -> Function {
    let mut changed = function.clone();
    let mut bound: SecondaryMap<ValueId, Option<ValueId>> = SecondaryMap::new();
    let read = |bound: &SecondaryMap<ValueId, Option<ValueId>>, list: &mut [ValueId]| {
        list.iter_mut().for_each(|value| *value = bound[*value].unwrap_or(*value));
    };
    for id in function.nodes_in_order() {
        let node = &mut changed.nodes[id];
        read(&bound, &mut node.operands);
        if matches!(node.op, Op::Bind { .. }) {
            bound[node.results[0]] = Some(node.operands[0]);
        }
    }
    changed.regions.iter_mut().for_each(|(_, region)| read(&bound, &mut region.results));
    changed
}

/// A division under way.
struct Divider<'a> {
    function: &'a Function,
    inputs: usize,
    interpreted: IdSet<NodeId>,
    add: &'a mut dyn FnMut(Arc<Function>) -> FunctionId,
    /// Makes the plan.
    builder: FunctionBuilder,
    /// What each value that a segment or interpreted node gives is in the plan.
    values: SecondaryMap<ValueId, Option<ValueId>>,
    /// What each constant is there. A segment may give it, too, for all others than segments.
    constants: SecondaryMap<ValueId, Option<ValueId>>,
    /// The region at hand, behind those around it.
    around: Vec<RegionId>,
    /// The segment of each node, counted in its region; that of an interpreted node is the one
    /// in front of it.
    placed: SecondaryMap<NodeId, Option<(RegionId, usize)>>,
    /// The first segment that can read a value, or makes it.
    made: SecondaryMap<ValueId, Option<(RegionId, usize)>>,
    /// The first segment that knows a symbol.
    known: SecondaryMap<SymbolId, Option<(RegionId, usize)>>,
    segments: usize,
}

/// The values that each segment of a region gives.
type Kept = Vec<BTreeSet<ValueId>>;

impl Divider<'_> {
    fn define(&mut self, old: ValueId, new: ValueId) {
        self.values[old] = Some(new);
        if let Some(name) = &self.function.values[old].name {
            self.builder.set_name(new, name.clone());
        }
    }

    /// Divides a region, whose parameters are defined; its results in the plan.
    fn region(&mut self, region: RegionId) -> Built<Vec<ValueId>> {
        let function = self.function;
        self.around.push(region);
        let kept = self.place(region);
        // What is made again here has another place around the region.
        let remade = kept.iter().flatten().filter(|&&value| self.is_remade(value));
        let outside: Vec<(ValueId, Option<ValueId>)> =
            remade.map(|&value| (value, self.values[value])).collect();
        let interpreted =
            function.regions[region].nodes.iter().filter(|&&id| self.interpreted.contains(id));
        let mut interpreted: VecDeque<(NodeId, usize)> =
            interpreted.filter_map(|&id| Some((id, self.placed[id]?.1))).collect();
        interpreted.make_contiguous().put_in_order_by_key(|(_, level)| *level);
        for (level, results) in kept.iter().enumerate() {
            if !results.is_empty() {
                self.segment((region, level), results)?;
            }
            while let Some((node, _)) = interpreted.pop_front_if(|(_, behind)| *behind == level) {
                self.interpreted(node)?;
            }
        }
        self.around.pop();
        let results = &function.regions[region].results;
        let results = results.iter().map(|&value| self.value(value)).collect();
        outside.into_iter().for_each(|(value, place)| self.values[value] = place);
        results
    }

    fn value(&self, old: ValueId) -> Built {
        self.values[old].ok_or_else(|| format!("{old} has no place in the plan"))
    }

    /// Whether each segment computes a value for itself.
    fn is_source(&self, value: ValueId) -> bool {
        let Definition::Result(id, _) = self.function.values[value].definition else {
            return false;
        };
        let node = &self.function.nodes[id];
        let repeats = matches!(node.op, Op::Broadcast { .. } | Op::Reshape { .. });
        node.regions.is_empty()
            && !self.interpreted.contains(id)
            && !matches!(node.op, Op::Call { .. })
            && (repeats || node.operands.is_empty())
            && node.operands.iter().all(|&operand| self.is_source(operand))
    }

    /// Whether a value is a constant, which only segments read.
    fn is_constant(&self, value: ValueId) -> bool {
        let body = self.function.body;
        matches!(self.function.values[value].definition,
            Definition::Parameter(region, number)
                if region == body && number as usize >= self.inputs)
    }

    /// Places the nodes of a region; the values that each of its segments gives.
    fn place(&mut self, region: RegionId) -> Kept {
        let function = self.function;
        let mut count = 1;
        for &id in &function.regions[region].nodes {
            let level = self.level_of(region, id);
            let made = level + usize::from(self.interpreted.contains(id));
            count = count.max(made + 1);
            self.placed[id] = Some((region, level));
            for &value in &function.nodes[id].results {
                self.made[value] = Some((region, made));
            }
            for symbol in function.symbols_known_behind(id) {
                self.known[symbol] = Some((region, made));
            }
        }
        let mut kept = vec![BTreeSet::new(); count];
        for &value in &function.regions[region].results {
            self.keep(region, value, &mut kept);
        }
        for &id in
            function.regions[region].nodes.iter().filter(|&&id| self.interpreted.contains(id))
        {
            function.nodes[id].operands.iter().for_each(|&it| self.keep(region, it, &mut kept));
            for value in function
                .captures(&function.nodes[id].regions)
                .into_iter()
                .filter(|&it| !self.is_remade(it))
            {
                self.keep(region, value, &mut kept);
            }
        }
        // From the last segment back: what each needs, earlier ones must give.
        for level in (0..count).rev() {
            for value in self.needs((region, level), &kept[level]) {
                if !self.is_remade(value) {
                    self.keep(region, value, &mut kept);
                }
            }
        }
        kept
    }

    /// Has a segment give a value, unless it is there without one.
    fn keep(&self, region: RegionId, value: ValueId, kept: &mut Kept) {
        let is_computed = match self.function.values[value].definition {
            Definition::Result(id, _) => {
                let is_here = self.placed[id].is_some_and(|(at, _)| at == region);
                is_here && !self.interpreted.contains(id)
            }
            Definition::Parameter(..) => false,
        };
        if is_computed || self.is_remade(value) {
            kept[level_in(region, self.made[value])].insert(value);
        }
    }

    /// Whether segments read a value without being handed it by another.
    fn is_remade(&self, value: ValueId) -> bool {
        self.is_constant(value) || self.is_source(value)
    }

    /// The first segment behind which all is known that a node reads and its types name.
    fn level_of(&self, region: RegionId, id: NodeId) -> usize {
        let function = self.function;
        let node = &function.nodes[id];
        let of_value = |&value: &ValueId| level_in(region, self.made[value]);
        let of_expr = |expr: &Expr| {
            let known = expr.symbols().into_iter().map(|it| level_in(region, self.known[it]));
            known.max().unwrap_or(0)
        };
        let types = node.results.iter().flat_map(|&value| function.ty(value).exprs());
        let of_symbols = types.chain(node.op.exprs()).map(of_expr);
        let mut level = of_symbols.chain(node.operands.iter().map(of_value)).max().unwrap_or(0);
        for &inner in &node.regions {
            let inner = &function.regions[inner];
            let of_nodes = inner.nodes.iter().map(|&id| self.level_of(region, id));
            let behind = of_nodes.chain(inner.results.iter().map(of_value)).max();
            level = level.max(behind.unwrap_or(0));
        }
        level
    }

    /// The values from before a segment which it reads to give these.
    fn needs(&self, at: (RegionId, usize), results: &BTreeSet<ValueId>) -> BTreeSet<ValueId> {
        let function = self.function;
        let mut found = BTreeSet::new();
        let mut seen = BTreeSet::new();
        let mut work: Vec<ValueId> = results.iter().copied().collect();
        while let Some(value) = work.pop() {
            if !seen.insert(value) {
                continue;
            }
            let is_here = |id| self.placed[id] == Some(at) && !self.interpreted.contains(id);
            match function.values[value].definition {
                Definition::Result(id, _) if self.is_source(value) || is_here(id) => {
                    work.extend(function.reads(id));
                }
                _ => _ = found.insert(value),
            }
        }
        found
    }

    /// Adds a segment and the call of it.
    fn segment(&mut self, at: (RegionId, usize), results: &BTreeSet<ValueId>) -> Built<()> {
        let function = self.function;
        let mut parameters: Vec<ValueId> = self.needs(at, results).into_iter().collect();
        parameters.put_in_order_by_key(|&value| (self.is_constant(value), value));
        let results: Vec<ValueId> = results.iter().copied().collect();
        let is_taken = |id| !self.interpreted.contains(id);
        let mut segment =
            function.part_of(&self.around, parameters.clone(), results.clone(), &is_taken);
        segment.name = format!("{}_{}", function.name, self.segments);
        self.segments += 1;
        segment.parameter_names = (0..parameters.len()).map(|it| format!("p{it}")).collect();
        segment.result_names = (0..results.len()).map(|it| format!("r{it}")).collect();
        mark_given(&mut segment);
        let operand = |&value: &ValueId| match self.constants[value] {
            Some(constant) => Ok(constant),
            None => self.value(value),
        };
        let operands = parameters.iter().map(operand).collect::<Built<Vec<ValueId>>>()?;
        let types = results.iter().map(|&value| function.ty(value).clone()).collect();
        let call = Op::Call { function: (self.add)(Arc::new(segment)), results: types };
        self.builder.set_location(Locations::UNKNOWN);
        let made = self.builder.add(call, &operands)?;
        results.into_iter().zip(made).for_each(|(old, new)| self.define(old, new));
        Ok(())
    }

    /// Adds a interpreted node, its regions divided.
    fn interpreted(&mut self, id: NodeId) -> Built<()> {
        let function = self.function;
        let node = &function.nodes[id];
        let mut regions = Vec::new();
        for &region in &node.regions {
            let old = &function.regions[region].parameters;
            let types: Vec<Type> = old.iter().map(|&value| function.ty(value).clone()).collect();
            let new = self.builder.begin_region(&types);
            old.iter().zip(new).for_each(|(&old, new)| self.define(old, new));
            let results = self.region(region)?;
            regions.push(self.builder.end_region(&results));
        }
        self.builder.set_location(node.location);
        let operands =
            node.operands.iter().map(|&value| self.value(value)).collect::<Built<Vec<_>>>()?;
        let results = self.builder.add_with_regions(node.op.clone(), &operands, &regions)?;
        node.results.iter().zip(results).for_each(|(&old, new)| self.define(old, new));
        Ok(())
    }
}

/// The segment of a region; what is from around it is there before the first.
fn level_in(region: RegionId, placed: Option<(RegionId, usize)>) -> usize {
    placed.filter(|(at, _)| *at == region).map_or(0, |(_, level)| level)
}

/// Marks the symbols that a segment names and its parameters' extents do not tell.
fn mark_given(segment: &mut Function) {
    let mut named: BTreeMap<SymbolId, bool> = BTreeMap::new();
    for value in segment.values.values() {
        named.extend(value.ty.exprs().iter().flat_map(Expr::symbols).map(|it| (it, true)));
    }
    for node in segment.nodes.values() {
        named.extend(node.op.exprs().into_iter().flat_map(Expr::symbols).map(|it| (it, true)));
    }
    for &parameter in segment.parameters() {
        for symbol in segment.ty(parameter).exprs().iter().filter_map(Expr::as_symbol) {
            named.insert(symbol, false);
        }
    }
    let given = named.into_iter().filter(|(_, is_given)| *is_given);
    segment.given = given.map(|(symbol, _)| symbol).collect();
}
