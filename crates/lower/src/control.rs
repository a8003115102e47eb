//! Control flow: regions become functions of their own, whose parameters are the region's and the
//! values it takes from around it; the program's steps run them.

use std::sync::Arc;

use base::{Diagnostics, Id};
use graph::{Function, NodeId, Op, ValueId};
use loops::build::store;
use loops::{Access, Kernel, ScalarExpr, SymbolKind};
use program::{Address, Argument, Run, Step};
use sym::{Expr, Range, Symbol, SymbolId};
use tensor::DType;

use crate::RegionFunction;
use crate::emit::{Emitter, Frame, FunctionSteps, byte_count};
use crate::extents::Extents;
use crate::groups::legalise;
use crate::updates::Update;

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
            Op::If { .. } => {
                let then = self.region(frame, (node, 0), &[], &results, &[])?.steps;
                let otherwise = self.region(frame, (node, 1), &[], &results, &[])?.steps;
                let (then, otherwise) = match base::fault::is_seeded("lower.branch") {
                    true => (otherwise, then),
                    false => (then, otherwise),
                };
                steps.push(Step::Branch { condition: operands[0].clone(), then, otherwise });
            }
            Op::While { .. } => {
                let sizes = sizes(frame.function, &data.results);
                copy_all(steps, &operands, &results, &sizes);
                let condition = self.temporary(&Expr::ONE);
                let flag = [condition.clone()];
                let setup = self.region(frame, (node, 0), &results, &flag, &[])?.steps;
                let donated: Vec<Update> = (0..sizes.len()).map(|it| (it, it)).collect();
                let made = self.region(frame, (node, 1), &results, &results, &donated)?;
                let mut body = made.steps;
                copy_all(&mut body, &made.results, &results, &sizes);
                steps.push(Step::While { setup, condition, body });
            }
            Op::Scan { trip_count, carried, reverse } => {
                self.scan(frame, node, (trip_count, *carried, *reverse), steps)?;
            }
            _ => unreachable!("{node} is no control flow"),
        }
        Ok(())
    }

    fn scan(
        &mut self,
        frame: &mut Frame<'_>,
        node: NodeId,
        (trips, carried, reverse): (&Expr, usize, bool),
        steps: &mut Vec<Step>,
    ) -> base::Result<()> {
        let data = &frame.function.nodes[node];
        let all = sizes(frame.function, &data.results);
        let state: Vec<Address> =
            data.results[..carried].iter().map(|&value| self.address(frame, value)).collect();
        let initial: Vec<Address> =
            data.operands[..carried].iter().map(|&value| self.address(frame, value)).collect();
        copy_all(steps, &initial, &state, &all[..carried]);
        if trips.is_zero() {
            return Ok(());
        }
        let most = trips.bounds(&|symbol| self.program.symbols[symbol].range).max;
        let range = Range::extent(most);
        let name = format!("trip{}", self.program.symbols.len());
        let symbol = self.program.symbols.push(Symbol::new(name, range));
        let now = match reverse != base::fault::is_seeded("lower.scan") {
            false => Expr::symbol(symbol),
            true => trips.clone() - 1 - &Expr::symbol(symbol),
        };
        let counter = self.temporary(&Expr::constant(8));
        let mut body = vec![self.count(&counter, symbol, range)];
        let slice = |emitter: &mut Self, frame: &mut Frame<'_>, value: ValueId| {
            let size = row_bytes(frame.function, value);
            let mut address = emitter.address(frame, value);
            address.offset += &(now.clone() * &size);
            address
        };
        let mut parameters = vec![counter];
        parameters.extend(state.iter().cloned());
        for &value in &data.operands[carried..] {
            parameters.push(slice(self, frame, value));
        }
        let mut results = state.clone();
        for &value in &data.results[carried..] {
            results.push(slice(self, frame, value));
        }
        // The number of the iteration comes first.
        let donated: Vec<Update> = (0..carried).map(|it| (it, it + 1)).collect();
        let made = self.region(frame, (node, 0), &parameters, &results, &donated)?;
        body.extend(made.steps);
        let kept = carried - usize::from(base::fault::is_seeded("lower.carry"));
        copy_all(&mut body, &made.results, &state, &all[..kept]);
        steps.push(Step::Repeat { symbol, count: trips.clone(), body });
        Ok(())
    }

    /// Writes the number of an iteration to memory.
    fn count(&mut self, counter: &Address, symbol: SymbolId, range: Range) -> Step {
        let position = symbol.index() as u32;
        let mut kernel = Kernel::new(format!("count_{}", self.module.kernels.len()));
        let out = kernel.add_parameter("out", DType::I64, Vec::new(), Access::Write);
        let trip = kernel.add_shape("trip", position, range);
        debug_assert!(matches!(kernel.symbols[trip].kind, SymbolKind::Shape { .. }));
        kernel.body = vec![store(out, Vec::<Expr>::new(), ScalarExpr::Index(Expr::symbol(trip)))];
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
        (node, number): (NodeId, usize),
        parameters: &[Address],
        results: &[Address],
        donated: &[Update],
    ) -> base::Result<FunctionSteps> {
        let region = frame.function.nodes[node].regions[number];
        let (function, captured) = frame.function.region_function(region);
        let mut all = parameters.to_vec();
        for &value in &captured {
            all.push(self.address(frame, value));
        }
        let function = Arc::new(function);
        let legal = legalise(function.clone(), &Extents::of(&function));
        let function = legal.map_err(Diagnostics::internal)?;
        let parent = self.region.replace(self.regions.len());
        let made = function.clone();
        self.regions.push(RegionFunction { function: made, parent, node, region, captured });
        let steps = self.function(&function, &all, results, donated);
        self.region = parent;
        steps
    }

    pub(crate) fn temporary(&mut self, bytes: &Expr) -> Address {
        Address { slot: self.arena_slot(bytes.clone()), offset: Expr::ZERO }
    }
}

/// Bytes of one row of a value, which it has along its first axis.
fn row_bytes(function: &Function, value: ValueId) -> Expr {
    let Some(ty) = function.ty(value).as_tensor() else { return Expr::ZERO };
    loops::byte_size(ty.dtype, ty.shape.get(1..).unwrap_or_default())
}

fn sizes(function: &Function, values: &[ValueId]) -> Vec<Expr> {
    values.iter().map(|&value| byte_count(function, value)).collect()
}

/// Copies what lies elsewhere.
fn copy_all(steps: &mut Vec<Step>, from: &[Address], to: &[Address], sizes: &[Expr]) {
    for ((source, destination), size) in from.iter().zip(to).zip(sizes) {
        let (source, destination) = (source.clone(), destination.clone());
        if !size.is_zero() && source != destination {
            steps.push(Step::Copy { source, destination, bytes: size.clone() });
        }
    }
}
