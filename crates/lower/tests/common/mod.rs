//! A program's meaning, for tests: steps one after the other, kernels by the evaluator, over plain
//! bytes that start as garbage.

use std::collections::BTreeMap;

use base::Id;
use loops::{Access, Scope};
use lower::Lowered;
use module::Module;
use program::{Address, Move, Place, Program, Run, Step};
use sym::SymbolId;
use tensor::Tensor;

/// What memory holds before anything is written.
const GARBAGE: u8 = 0xa5;

/// Memory by region.
struct Machine<'a> {
    module: &'a Module,
    program: &'a Program,
    symbols: Vec<i64>,
    inputs: Vec<Vec<u8>>,
    outputs: Vec<Vec<u8>>,
    constants: Vec<u8>,
    arena: Vec<u8>,
}

/// Runs a lowered function. `constants` is the block that `setup` fills and `main` reads.
pub(crate) fn run(
    module: &Module,
    lowered: &Lowered,
    inputs: &[Tensor],
    constants: &mut Vec<u8>,
) -> Result<Vec<Tensor>, String> {
    let program = &module.programs[lowered.program];
    memory_plan::check(program, &module.kernels, memory_plan::TurnOrder::Free)
        .map_err(|error| error.to_string())?;
    let outputs = lowered.outputs.iter().map(|port| vec![GARBAGE; port.bytes]).collect();
    constants.resize(constants.len().max(lowered.constants.bytes as usize), GARBAGE);
    let mut machine = Machine {
        module,
        program,
        symbols: vec![0; program.symbols.len()],
        inputs: inputs.iter().map(|input| input.bytes().to_vec()).collect(),
        outputs,
        constants: std::mem::take(constants),
        arena: vec![GARBAGE; lowered.arena_bytes as usize],
    };
    machine.block(&program.steps)?;
    *constants = machine.constants;
    let ports = lowered.outputs.iter().zip(machine.outputs);
    ports.map(|(port, bytes)| Tensor::from_bytes(port.dtype, &port.shape, bytes.into())).collect()
}

impl Machine<'_> {
    fn block(&mut self, steps: &[Step]) -> Result<(), String> {
        steps.iter().try_for_each(|step| self.step(step))
    }

    fn step(&mut self, step: &Step) -> Result<(), String> {
        match step {
            Step::Run(run) => self.kernel(run)?,
            Step::Barrier => {}
            Step::Bind { symbol, source } => {
                let bytes = self.read(source, 8);
                let value = i64::from_le_bytes(bytes.try_into().map_err(|_| "8 bytes")?);
                self.symbols[symbol.index()] = value;
            }
            Step::Copy { source, destination, bytes } => {
                let data = self.read(source, self.value(bytes));
                self.write(destination, &data);
            }
            Step::Move(moved) => self.moved(moved),
            Step::Branch { condition, then, otherwise } => {
                let taken = if self.read(condition, 1)[0] != 0 { then } else { otherwise };
                self.block(taken)?;
            }
            Step::While { setup, condition, body } => {
                self.block(setup)?;
                while self.read(condition, 1)[0] != 0 {
                    self.block(body)?;
                    self.block(setup)?;
                }
            }
            Step::Repeat { symbol, count, body } => {
                for turn in 0..self.value(count) {
                    self.symbols[symbol.index()] = turn as i64;
                    self.block(body)?;
                }
            }
        }
        Ok(())
    }

    fn moved(&mut self, moved: &Move) {
        let element = moved.element as usize;
        let count = moved.axes.iter().map(|axis| u64::from(axis.extent)).product();
        for number in 0..count {
            let (mut rest, mut from, mut to) = (number, 0, 0);
            for axis in moved.axes.iter().rev() {
                let at = (rest % u64::from(axis.extent)) as i64;
                rest /= u64::from(axis.extent);
                from += at * i64::from(axis.from);
                to += at * i64::from(axis.to);
            }
            let place = |address: &Address, elements: i64| {
                let offset = address.offset.clone() + elements * element as i64;
                Address { slot: address.slot, offset }
            };
            let data = self.read(&place(&moved.source, from), element);
            self.write(&place(&moved.destination, to), &data);
        }
    }

    fn kernel(&mut self, run: &Run) -> Result<(), String> {
        let kernel = &self.module.kernels[run.kernel];
        let mut tensors = Vec::new();
        for (argument, &parameter) in run.arguments.iter().zip(&kernel.parameters) {
            let dtype = kernel.buffers[parameter].dtype;
            let bytes = self.read(&argument.address, self.value(&argument.bytes));
            let count = bytes.len() * 8 / dtype.bits() as usize;
            tensors.push(Tensor::from_bytes(dtype, &[count], bytes.into())?);
        }
        let options = eval::loops::KernelOptions::default();
        eval::evaluate_kernel(kernel, &mut tensors, &self.symbols, options)
            .map_err(|fault| format!("{fault}\n{kernel}"))?;
        for ((argument, &parameter), tensor) in
            run.arguments.iter().zip(&kernel.parameters).zip(&tensors)
        {
            let scope = kernel.buffers[parameter].scope;
            assert_eq!(argument.writes, scope != Scope::Parameter(Access::Read), "access");
            if argument.writes {
                self.write(&argument.address, tensor.bytes());
            }
        }
        Ok(())
    }

    fn value(&self, expr: &sym::Expr) -> usize {
        let value = expr.evaluate(&|symbol: SymbolId| self.symbols.get(symbol.index()).copied());
        value.expect("a value") as usize
    }

    fn read(&self, address: &Address, bytes: usize) -> Vec<u8> {
        let start = self.value(&address.offset);
        let region: &[u8] = match &self.program.slots[address.slot].place {
            Place::Input(number) => &self.inputs[*number as usize],
            Place::Output(number) => &self.outputs[*number as usize],
            Place::Weight(constant) => self.module.constants[*constant].tensor.bytes(),
            Place::Constants(offset) => &self.constants[self.value(offset)..],
            Place::Arena(offset) => &self.arena[self.value(offset)..],
        };
        region[start..start + bytes].to_vec()
    }

    fn write(&mut self, address: &Address, data: &[u8]) {
        let start = self.value(&address.offset);
        let place = self.program.slots[address.slot].place.clone();
        let base = match &place {
            Place::Constants(offset) | Place::Arena(offset) => self.value(offset),
            _ => 0,
        };
        let region = match place {
            Place::Output(number) => &mut self.outputs[number as usize],
            Place::Constants(_) => &mut self.constants,
            Place::Arena(_) => &mut self.arena,
            Place::Input(_) | Place::Weight(_) => panic!("a step writes what is read only"),
        };
        region[base + start..base + start + data.len()].copy_from_slice(data);
    }
}

/// The symbols' values that follow from the inputs' shapes.
pub(crate) fn symbols(function: &graph::Function, inputs: &[Tensor]) -> BTreeMap<SymbolId, i64> {
    let bound = eval::graph::bind_symbols(function, inputs).expect("inputs fit");
    bound.iter().filter_map(|(symbol, value)| value.map(|value| (symbol, value))).collect()
}
