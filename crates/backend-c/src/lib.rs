//! The C back end: scheduled kernels and programs as C99 that needs nothing.
//!
//! [`emit`] writes four files. `model.c` includes only `<stdint.h>` and `<stddef.h>`, allocates
//! nothing and calls nothing outside of itself; `model.h` declares its functions; `weights.bin` is
//! what its `setup` reads; `main.c` is a program that runs it on `.npy` files.
//!
//! - `kernel`, `value`, `index`: a kernel as a function, loop by loop;
//! - `scalar`, `helpers`: scalar functions; those that C lacks are functions of their own, written
//!   only where they are used;
//! - `program`, `layout`, `overlap`: the steps of programs, and where memory lies;
//! - `text`: what stands around it all.
//!
//! Kernels compute the same bits as everywhere else, but for sums of products: these round twice
//! where the C compiler has no fused multiply-add of the machine's own, unless
//! [`COptions::exact_sums`] asks for one in software.
//!
//! This crate knows neither graph operations nor how kernels were scheduled.

mod code;
mod dtype;
mod helpers;
mod index;
mod kernel;
mod layout;
mod names;
mod overlap;
mod program;
mod scalar;
mod text;
mod value;

use std::collections::BTreeMap;

use ::program::{Program, Step};
use base::text::Printer;
use base::{KernelId, Limits, Locations, ProgramId};
use module::Module;
use tensor::{DType, Tensor};

pub use layout::Weights;
pub use text::declarations;

use helpers::Helpers;
use kernel::KernelCode;
use layout::Layout;
use names::Names;
use program::{Bases, ProgramWriter};

/// A program of a module.
#[derive(Clone, Copy, Debug)]
pub struct CProgram<'a> {
    /// Holds its kernels and constants.
    pub module: &'a Module,
    /// The program.
    pub program: ProgramId,
    /// What the kernels' origins refer to.
    pub locations: &'a Locations,
}

/// An input or output.
#[derive(Clone, Debug, PartialEq)]
pub struct CPort {
    /// The user's name for it.
    pub name: String,
    /// Element type.
    pub dtype: DType,
    /// Shape.
    pub shape: Vec<usize>,
    /// Of an input: the elements that the code is for, where other elements would need other code.
    /// The code refuses all others.
    pub value: Option<Tensor>,
    /// Of an output: strings in which its elements are numbers, from 0; empty where they are none.
    pub strings: Vec<String>,
}

impl CPort {
    /// One of any value, whose elements are what they are.
    #[must_use]
    pub fn new(name: impl Into<String>, dtype: DType, shape: Vec<usize>) -> CPort {
        CPort { name: name.into(), dtype, shape, value: None, strings: Vec::new() }
    }
}

/// The model as the caller of the C code sees it.
#[derive(Clone, Debug, PartialEq)]
pub struct Interface {
    /// The model's name, from which those of the functions are made.
    pub name: String,
    /// In the order of the program's inputs.
    pub inputs: Vec<CPort>,
    /// In the order of the program's outputs.
    pub outputs: Vec<CPort>,
}

/// How to write C.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct COptions {
    /// Sums of products round once everywhere, as on targets with a fused multiply-add, at the cost
    /// of speed where there is none.
    pub exact_sums: bool,
    /// How often the loops that data end turn in one run, all together, before it stops.
    pub most_turns: u64,
}

impl Default for COptions {
    fn default() -> COptions {
        COptions { exact_sums: false, most_turns: Limits::default().turns }
    }
}

/// The files.
#[derive(Clone, Debug)]
pub struct CSources {
    /// The code.
    pub model_c: String,
    /// Its declarations.
    pub model_h: String,
    /// A program that runs it.
    pub main_c: String,
    /// `weights.bin`.
    pub weights: Weights,
}

/// Writes the programs `setup` and `main`, of one module or of two, and the kernels that they run.
/// Kernels are in the scheduled form (`loops::verify_scheduled`).
///
/// # Errors
/// `TW0205` for every dimension that has no value;
/// internal errors where a program is not what its verifier accepts.
pub fn emit(
    setup: CProgram<'_>,
    main: CProgram<'_>,
    interface: &Interface,
    options: COptions,
) -> base::Result<CSources> {
    let programs = [setup, main].map(|part| &part.module.programs[part.program]);
    let mut found = base::Diagnostics::new();
    for checked in programs.map(program::check) {
        if let Err(diagnostics) = checked {
            found.append(diagnostics);
        }
    }
    found.or_ok(())?;
    program::check_setup(programs[0])?;
    let name = names::identifier(&interface.name);
    let mut global = Names::default();
    for suffix in ["constants_size", "arena_size", "setup", "run"] {
        global.fresh(&format!("{name}_{suffix}"));
    }
    let mut helpers = Helpers::new(options.exact_sums);
    let shared = std::ptr::eq(setup.module, main.module);
    let mut codes: [BTreeMap<KernelId, KernelCode>; 2] = [BTreeMap::new(), BTreeMap::new()];
    let groups: Vec<(usize, CProgram<'_>, Vec<&Program>)> = match shared {
        true => vec![(0, main, programs.to_vec())],
        false => vec![(0, setup, vec![programs[0]]), (1, main, vec![programs[1]])],
    };
    for (group, part, programs) in &groups {
        let unshared = overlap::unshared_parameters(part.module, programs);
        for (id, unshared) in &unshared {
            let kernel = &part.module.kernels[*id];
            let name = global.fresh(&format!("kernel_{}", kernel.name));
            let code = kernel::write(kernel, part.locations, name, unshared, &mut helpers);
            codes[*group].insert(*id, code);
        }
    }
    let codes_of = [&codes[0], if shared { &codes[0] } else { &codes[1] }];
    let scratch = [0, 1].map(|at| scratch_bytes(programs[at], codes_of[at]));
    let mut weights = Weights::default();
    let layout = Layout::new(programs[0], programs[1], main.module, scratch, &mut weights)?;
    let setup_body =
        setup_body(setup, codes_of[0], &layout, &mut weights, &mut helpers, options.most_turns)?;
    let checks = text::value_checks(&interface.inputs, &mut helpers);
    let main_body =
        checks + &main_body(main, codes_of[1], &layout, &mut helpers, options.most_turns)?;
    let kernels: Vec<&KernelCode> = codes.iter().flat_map(|codes| codes.values()).collect();
    let sizes = [layout.constants_bytes, layout.arena_bytes];
    Ok(CSources {
        model_c: text::model_c(&name, interface, &kernels, helpers, sizes, &setup_body, &main_body),
        model_h: text::model_h(&name, interface, &weights, sizes),
        main_c: text::main_c(&name, interface, &weights),
        weights,
    })
}

/// The scratch memory that the kernels of a program need.
fn scratch_bytes(program: &Program, codes: &BTreeMap<KernelId, KernelCode>) -> u64 {
    let mut most = 0;
    ::program::walk(&program.steps, &mut |step| {
        if let Step::Run(run) = step
            && let Some(code) = codes.get(&run.kernel)
        {
            most = most.max(code.scratch_bytes.unsigned_abs());
        }
    });
    most
}

/// Copies of weights that `main` reads, then the steps of `setup`.
fn setup_body(
    part: CProgram<'_>,
    codes: &BTreeMap<KernelId, KernelCode>,
    layout: &Layout,
    weights: &mut Weights,
    helpers: &mut Helpers,
    most_turns: u64,
) -> base::Result<String> {
    let mut printer = Printer::new();
    printer.indent();
    printer.line("const unsigned char *const file = (const unsigned char *)weights;");
    printer.line("unsigned char *const block = (unsigned char *)constants;");
    let program = &part.module.programs[part.program];
    let mut offsets = BTreeMap::new();
    for slot in program.slots.values() {
        if let ::program::Place::Weight(id) = slot.place {
            offsets.insert(id, weights.offset(&part.module.constants[id].tensor));
        }
    }
    let bases = Bases {
        weight: &|id| ("file", offsets.get(&id).copied().unwrap_or(0)),
        constants: ("block", 0),
        arena: ("block", layout.setup_arena),
        scratch: ("block", layout.setup_scratch),
    };
    let kernels = |id| &codes[&id];
    let mut writer = ProgramWriter::new(part.module, program, &kernels, bases, helpers, most_turns);
    writer.body(&mut printer)?;
    printer.line("(void)file;");
    printer.line("(void)block;");
    for copy in &layout.weight_copies {
        let (to, from, bytes) = (copy.destination, copy.source, copy.bytes);
        let function = writer.helpers.copy();
        printer.line(format_args!("{function}(block + {to}, file + {from}, {bytes});"));
    }
    Ok(printer.finish())
}

/// The steps of `main`.
fn main_body(
    part: CProgram<'_>,
    codes: &BTreeMap<KernelId, KernelCode>,
    layout: &Layout,
    helpers: &mut Helpers,
    most_turns: u64,
) -> base::Result<String> {
    let mut printer = Printer::new();
    printer.indent();
    printer.line("const unsigned char *const block = (const unsigned char *)constants;");
    printer.line("unsigned char *const memory = (unsigned char *)arena;");
    let copies: BTreeMap<_, _> =
        layout.weight_copies.iter().map(|copy| (copy.constant, copy.destination)).collect();
    let bases = Bases {
        weight: &|id| ("block", copies.get(&id).copied().unwrap_or(0)),
        constants: ("block", 0),
        arena: ("memory", 0),
        scratch: ("memory", layout.scratch),
    };
    let kernels = |id| &codes[&id];
    let program = &part.module.programs[part.program];
    let mut writer = ProgramWriter::new(part.module, program, &kernels, bases, helpers, most_turns);
    writer.body(&mut printer)?;
    for unused in ["block", "memory", "in", "out"] {
        printer.line(format_args!("(void){unused};"));
    }
    Ok(printer.finish())
}
