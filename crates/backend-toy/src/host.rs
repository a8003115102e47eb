//! Programs: their steps run as they stand, each kernel by its code.

use std::collections::BTreeMap;

use base::{Id, KernelId};
use module::Module;
use program::{Address, Move, Place, Program, Step};
use sym::{Expr, SymbolId};
use tensor::Tensor;

use crate::code::compile_kernel;
use crate::machine::{BufferPlace, ToyCode, run_code};

/// Turns of loops that data end, in one run.
const MOST_TURNS: u64 = 1 << 20;

/// A program with its kernels as code.
pub struct ToyProgram<'m> {
    module: &'m Module,
    program: &'m Program,
    kernels: BTreeMap<KernelId, ToyCode>,
}

/// Memory of a run.
struct Memory {
    /// Inputs, outputs, the block of constants, the arena, weights; then what a kernel owns.
    pieces: Vec<Vec<u8>>,
    /// The piece and the start of each slot.
    slots: Vec<(usize, Expr)>,
    symbols: Vec<i64>,
    turns: u64,
}

impl<'m> ToyProgram<'m> {
    /// Compiles the kernels that a program runs.
    ///
    /// # Errors
    /// What the machine cannot do.
    pub fn new(module: &'m Module, program: &'m Program) -> Result<ToyProgram<'m>, String> {
        let symbols = program.symbols.ids().count();
        let code = |id| Ok((id, compile_kernel(&module.kernels[id], symbols)?));
        let kernels = program.kernels().into_iter().map(code).collect::<Result<_, String>>()?;
        Ok(ToyProgram { module, program, kernels })
    }

    /// Runs the program: inputs in order, outputs that are written, the block of constants, which
    /// `setup` fills and `main` reads.
    ///
    /// # Errors
    /// A fault as a sentence.
    pub fn run(
        &self,
        inputs: &[Tensor],
        outputs: &mut [Tensor],
        constants: &mut Vec<u8>,
    ) -> Result<(), String> {
        let arena = self.program.arena_bytes.as_constant().ok_or("the arena's size is free")?;
        let mut memory = Memory {
            pieces: inputs.iter().chain(&*outputs).map(|tensor| tensor.bytes().to_vec()).collect(),
            slots: Vec::new(),
            symbols: vec![0; self.program.symbols.ids().count()],
            turns: 0,
        };
        let behind = memory.pieces.len();
        memory.pieces.extend([std::mem::take(constants), vec![0; arena.max(0) as usize]]);
        for slot in self.program.slots.values() {
            memory.slots.push(match &slot.place {
                Place::Input(number) => (*number as usize, Expr::ZERO),
                Place::Output(number) => (inputs.len() + *number as usize, Expr::ZERO),
                Place::Constants(offset) => (behind, offset.clone()),
                Place::Arena(offset) => (behind + 1, offset.clone()),
                Place::Weight(id) => {
                    memory.pieces.push(self.module.constants[*id].tensor.bytes().to_vec());
                    (memory.pieces.len() - 1, Expr::ZERO)
                }
            });
        }
        let done = self.block(&self.program.steps, &mut memory);
        *constants = std::mem::take(&mut memory.pieces[behind]);
        done?;
        for (output, bytes) in outputs.iter_mut().zip(&memory.pieces[inputs.len()..]) {
            output.bytes_mut().copy_from_slice(bytes);
        }
        Ok(())
    }

    fn block(&self, steps: &[Step], memory: &mut Memory) -> Result<(), String> {
        steps.iter().try_for_each(|step| self.step(step, memory))
    }

    fn step(&self, step: &Step, memory: &mut Memory) -> Result<(), String> {
        match step {
            Step::Run(run) => {
                let code = &self.kernels[&run.kernel];
                let arguments = run.arguments.iter();
                let places = arguments.map(|argument| place(&argument.address, memory));
                let mut places: Vec<BufferPlace> = places.collect();
                let shared = memory.pieces.len();
                for bytes in &code.own_bytes {
                    places.push((memory.pieces.len(), 0));
                    memory.pieces.push(vec![0; *bytes]);
                }
                let done = run_code(code, &memory.symbols, &places, &mut memory.pieces);
                memory.pieces.truncate(shared);
                let name = &self.module.kernels[run.kernel].name;
                done.map_err(|code| format!("`{name}` stopped with {code}"))?;
            }
            Step::Barrier => {}
            Step::Bind { symbol, source } => {
                let bytes = bytes(source, 8, memory);
                let value = i64::from_le_bytes(bytes.try_into().unwrap_or_default());
                let range = self.program.symbols[*symbol].range;
                if value < range.min || value > range.max {
                    return Err(format!("{value} is no size"));
                }
                memory.symbols[symbol.index()] = value;
            }
            Step::Copy { source, destination, bytes: count } => {
                let bytes = bytes(source, value(count, memory), memory);
                put(memory, place(destination, memory), &bytes);
            }
            Step::Move(moved) => run_move(moved, memory),
            Step::Branch { condition, then, otherwise } => {
                let is_true = bytes(condition, 1, memory) != [0];
                self.block(if is_true { then } else { otherwise }, memory)?;
            }
            Step::While { setup, condition, body } => loop {
                self.block(setup, memory)?;
                memory.turns += 1;
                if bytes(condition, 1, memory) == [0] {
                    break;
                }
                if memory.turns > MOST_TURNS {
                    return Err("loops that data end turn too often".to_owned());
                }
                self.block(body, memory)?;
            },
            Step::Repeat { symbol, count, body } => {
                for turn in 0..value(count, memory) {
                    memory.symbols[symbol.index()] = turn as i64;
                    self.block(body, memory)?;
                }
            }
        }
        Ok(())
    }
}

fn run_move(moved: &Move, memory: &mut Memory) {
    let [from, to] = [&moved.source, &moved.destination].map(|end| place(end, memory));
    let element = moved.element as usize;
    let mut places = vec![(0, 0)];
    for axis in &moved.axes {
        let along = |&(from, to): &(usize, usize)| {
            let (by_from, by_to) = (axis.from as usize, axis.to as usize);
            (0..axis.extent as usize).map(move |at| (from + at * by_from, to + at * by_to))
        };
        places = places.iter().flat_map(along).collect();
    }
    for (source, destination) in places {
        let first = from.1 + source * element;
        let bytes = memory.pieces[from.0][first..first + element].to_vec();
        put(memory, (to.0, to.1 + destination * element), &bytes);
    }
}

/// Where an address lies.
fn place(address: &Address, memory: &Memory) -> BufferPlace {
    let (piece, start) = &memory.slots[address.slot.index()];
    (*piece, value(&(start + &address.offset), memory))
}

fn bytes(from: &Address, count: usize, memory: &Memory) -> Vec<u8> {
    let (piece, first) = place(from, memory);
    memory.pieces[piece][first..first + count].to_vec()
}

/// The value of a size or offset, which verifies.
fn value(expr: &Expr, memory: &Memory) -> usize {
    let symbol = |symbol: SymbolId| memory.symbols.get(symbol.index()).copied();
    expr.evaluate(&symbol).map_or(0, |value| value.max(0) as usize)
}

fn put(memory: &mut Memory, (piece, first): BufferPlace, bytes: &[u8]) {
    memory.pieces[piece][first..first + bytes.len()].copy_from_slice(bytes);
}
