//! Control flow: regions become functions of their own, whose parameters are the region's and the
//! values it takes from around it; the program's steps run them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use base::Id;
use graph::{Definition, Function, FunctionBuilder, NodeId, Op, RegionId, ValueId};
use loops::build::store;
use loops::{Access, Kernel, SymbolKind, Value};
use program::{Address, Argument, Run, Step, Symbol};
use sym::{Expr, Range, SymbolId};
use tensor::DType;

use crate::RegionFunction;
use crate::emit::{Emitter, Frame, byte_count};
use crate::groups::legalise;
use crate::specialise::internal;

/// A region as a function: first the region's parameters, then these values from around it.
struct Extracted {
    function: Function,
    captured: Vec<ValueId>,
}

impl Emitter<'_> {
    /// The steps of an `If`, `While` or `Scan`.
    pub(crate) fn control_flow(
        &mut self,
        frame: &mut Frame<'_>,
        node: NodeId,
        steps: &mut Vec<Step>,
    ) -> base::Result<()> {
        let data = &frame.function.nodes[node];
        let addresses = |emitter: &mut Self, frame: &mut Frame<'_>, values: &[ValueId]| {
            values.iter().map(|&value| emitter.address(frame, value)).collect::<Vec<_>>()
        };
        let operands = addresses(self, frame, &data.operands);
        let results = addresses(self, frame, &data.results);
        match &data.op {
            Op::If => {
                let then = self.region(frame, node, 0, &[], &results)?;
                let otherwise = self.region(frame, node, 1, &[], &results)?;
                let (then, otherwise) = match base::fault::is_seeded("lower.branch") {
                    true => (otherwise, then),
                    false => (then, otherwise),
                };
                steps.push(Step::Branch { condition: operands[0].clone(), then, otherwise });
            }
            Op::While => {
                let sizes = sizes(frame.function, &data.results);
                copy_all(steps, &operands, &results, &sizes);
                let condition = self.temporary(1);
                let flag = [condition.clone()];
                let setup = self.region(frame, node, 0, &results, &flag)?;
                let next: Vec<Address> = sizes.iter().map(|&size| self.temporary(size)).collect();
                let mut body = self.region(frame, node, 1, &results, &next)?;
                copy_all(&mut body, &next, &results, &sizes);
                steps.push(Step::While { setup, condition, body });
            }
            Op::Scan { trip_count, carried, reverse } => {
                let trips = trip_count.as_constant().unwrap_or(0);
                self.scan(frame, node, (trips, *carried, *reverse), steps)?;
            }
            _ => unreachable!("{node} is no control flow"),
        }
        Ok(())
    }

    fn scan(
        &mut self,
        frame: &mut Frame<'_>,
        node: NodeId,
        (trips, carried, reverse): (i64, usize, bool),
        steps: &mut Vec<Step>,
    ) -> base::Result<()> {
        let data = &frame.function.nodes[node];
        let all = sizes(frame.function, &data.results);
        let state: Vec<Address> =
            data.results[..carried].iter().map(|&value| self.address(frame, value)).collect();
        let initial: Vec<Address> =
            data.operands[..carried].iter().map(|&value| self.address(frame, value)).collect();
        copy_all(steps, &initial, &state, &all[..carried]);
        if trips == 0 {
            return Ok(());
        }
        let symbol = self.program.symbols.push(Symbol {
            name: format!("trip{}", self.program.symbols.len()),
            range: Range::extent(trips),
        });
        let now = match reverse != base::fault::is_seeded("lower.scan") {
            false => Expr::symbol(symbol),
            true => Expr::constant(trips - 1) - &Expr::symbol(symbol),
        };
        let counter = self.temporary(8);
        let mut body = vec![self.count(&counter, symbol, trips)];
        let slice = |emitter: &mut Self, frame: &mut Frame<'_>, value: ValueId| {
            let size = byte_count(frame.function, value) / trips;
            let mut address = emitter.address(frame, value);
            address.offset += &(now.clone() * size);
            address
        };
        let mut parameters = vec![counter];
        parameters.extend(state.iter().cloned());
        for &value in &data.operands[carried..] {
            parameters.push(slice(self, frame, value));
        }
        let next: Vec<Address> = all[..carried].iter().map(|&size| self.temporary(size)).collect();
        let mut results = next.clone();
        for &value in &data.results[carried..] {
            results.push(slice(self, frame, value));
        }
        body.extend(self.region(frame, node, 0, &parameters, &results)?);
        let kept = carried - usize::from(base::fault::is_seeded("lower.carry"));
        copy_all(&mut body, &next, &state, &all[..kept]);
        steps.push(Step::Repeat { symbol, count: Expr::constant(trips), body });
        Ok(())
    }

    /// Writes the number of an iteration to memory.
    fn count(&mut self, counter: &Address, symbol: SymbolId, trips: i64) -> Step {
        let position = symbol.index() as u32;
        let mut kernel = Kernel::new(format!("count_{}", self.module.kernels.len()));
        let out = kernel.add_parameter("out", DType::I64, Vec::new(), Access::Write);
        let trip = kernel.add_shape("trip", position, Range::extent(trips));
        debug_assert!(matches!(kernel.symbols[trip].kind, SymbolKind::Shape { .. }));
        kernel.body = vec![store(out, Vec::<Expr>::new(), Value::Index(Expr::symbol(trip)))];
        let kernel = self.module.kernels.push(kernel);
        let argument = Argument {
            address: counter.clone(),
            bytes: Expr::constant(8),
            writes: true,
            reads: false,
        };
        let (arguments, one) = (vec![argument], Expr::ONE);
        Step::Run(Run {
            kernel,
            arguments,
            extent: one.clone(),
            scratch_bytes: Expr::ZERO,
            grain: one,
        })
    }

    /// The steps of a node's region of this number.
    fn region(
        &mut self,
        frame: &mut Frame<'_>,
        node: NodeId,
        number: usize,
        parameters: &[Address],
        results: &[Address],
    ) -> base::Result<Vec<Step>> {
        let region = frame.function.nodes[node].regions[number];
        let extracted = extract(frame.function, region).map_err(internal)?;
        let mut all = parameters.to_vec();
        for &value in &extracted.captured {
            all.push(self.address(frame, value));
        }
        let function = legalise(Arc::new(extracted.function)).map_err(internal)?;
        let parent = self.region.replace(self.regions.len());
        let (made, captured) = (function.clone(), extracted.captured);
        self.regions.push(RegionFunction { function: made, parent, node, region, captured });
        let steps = self.function(&function, &all, results);
        self.region = parent;
        steps
    }

    fn temporary(&mut self, bytes: i64) -> Address {
        Address { slot: self.arena_slot(bytes), offset: Expr::ZERO }
    }
}

fn sizes(function: &Function, values: &[ValueId]) -> Vec<i64> {
    values.iter().map(|&value| byte_count(function, value)).collect()
}

fn copy_all(steps: &mut Vec<Step>, from: &[Address], to: &[Address], sizes: &[i64]) {
    for ((source, destination), &size) in from.iter().zip(to).zip(sizes) {
        let (source, destination) = (source.clone(), destination.clone());
        if size > 0 {
            steps.push(Step::Copy { source, destination, bytes: Expr::constant(size) });
        }
    }
}

fn extract(function: &Function, region: RegionId) -> Result<Extracted, String> {
    let mut inside = BTreeSet::new();
    let mut captured = Vec::new();
    capture(function, region, &mut inside, &mut captured);
    let mut made = Function::new(format!("{}_{region}", function.name));
    made.symbols = function.symbols.clone();
    made.locations = function.locations.clone();
    let mut builder = FunctionBuilder::extend(made);
    let mut values: BTreeMap<ValueId, ValueId> = BTreeMap::new();
    let parameters = function.regions[region].parameters.iter().chain(&captured);
    for (number, &value) in parameters.enumerate() {
        let new = builder.parameter(format!("p{number}"), function.ty(value).clone());
        values.insert(value, new);
    }
    copy_nodes(function, region, &mut builder, &mut values)?;
    let results = &function.regions[region].results;
    let results =
        results.iter().enumerate().map(|(number, value)| (format!("r{number}"), values[value]));
    let function = builder.finish(results.collect());
    Ok(Extracted { function, captured })
}

/// Finds the values that a region reads but does not define.
fn capture(
    function: &Function,
    region: RegionId,
    inside: &mut BTreeSet<RegionId>,
    captured: &mut Vec<ValueId>,
) {
    inside.insert(region);
    let data = &function.regions[region];
    let mut defined: BTreeSet<ValueId> = data.parameters.iter().copied().collect();
    let mut read: Vec<ValueId> = Vec::new();
    for &node in &data.nodes {
        read.extend(&function.nodes[node].operands);
        defined.extend(&function.nodes[node].results);
        for &inner in &function.nodes[node].regions {
            capture(function, inner, inside, captured);
        }
    }
    read.extend(&data.results);
    captured.extend(read);
    let outside = |value: &ValueId| match function.values[*value].definition {
        Definition::Parameter(owner, _) => !inside.contains(&owner),
        Definition::Result(..) => !defined.contains(value),
    };
    captured.retain(outside);
    captured.sort_unstable();
    captured.dedup();
}

fn copy_nodes(
    function: &Function,
    region: RegionId,
    builder: &mut FunctionBuilder,
    values: &mut BTreeMap<ValueId, ValueId>,
) -> Result<(), String> {
    for &node in &function.regions[region].nodes {
        let data = &function.nodes[node];
        let mut regions = Vec::new();
        for &inner in &data.regions {
            let types: Vec<_> = function.regions[inner]
                .parameters
                .iter()
                .map(|&value| function.ty(value).clone())
                .collect();
            let parameters = builder.begin_region(&types);
            values.extend(function.regions[inner].parameters.iter().copied().zip(parameters));
            copy_nodes(function, inner, builder, values)?;
            let results = &function.regions[inner].results;
            let results: Vec<ValueId> = results.iter().map(|value| values[value]).collect();
            regions.push(builder.end_region(&results));
        }
        builder.set_location(data.location);
        let operands: Vec<ValueId> = data.operands.iter().map(|value| values[value]).collect();
        let results = builder.add_with_regions(data.op.clone(), &operands, &regions)?;
        values.extend(data.results.iter().copied().zip(results));
    }
    Ok(())
}
