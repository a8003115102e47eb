//! The C back end: scheduled kernels and programs as C99 that needs nothing.
//!
//! [`emit`] writes four files. `model.c` includes only `<stdint.h>` and `<stddef.h>`, allocates
//! nothing and calls nothing outside of itself; `model.h` declares its functions; `weights.bin` is
//! what its `setup` reads; `main.c` is a program that runs it on `.npy` files.
//!
//! - `kernel`, `value`, `index`: a kernel as a function, loop by loop;
//! - `scalar`, `helpers`: scalar functions; those that C lacks are functions of their own, written
//!   only where they are used;
//! - `alike`: kernels that differ in constants alone as one function;
//! - `program`, `layout`, `overlap`: the steps of programs, and where memory lies;
//! - `plan`: what stands between the programs of a plan's segments;
//! - `runner`, `run`: a program that runs many models on files, and its runs;
//! - `strings`: what of a function C sources leave out, or refuse;
//! - `header`: what headers of a model say, those of other back ends too;
//! - `vector`: vector loops by intrinsics, where a target has them;
//! - `text`: what stands around it all.
//!
//! Kernels compute the same bits as everywhere else, but for sums of products: these round twice
//! where the C compiler has no fused multiply-add of the machine's own, unless
//! [`COptions::exact_sums`] asks for one in software.
//!
//! A program of fixed sizes allocates nothing, and its arena has a size that is known. A plan,
//! whose extents may be free, divides memory that its caller gives while it runs.
//!
//! This crate knows of graphs only plans, and nothing of how kernels were scheduled.

mod alike;
mod code;
mod dtype;
mod header;
mod helpers;
mod index;
mod kernel;
mod layout;
mod names;
mod overlap;
mod plan;
mod program;
mod run;
mod runner;
mod scalar;
mod strings;
mod text;
mod value;
mod vector;
mod words;

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;
use std::path::Path;
use std::rc::Rc;

use ::program::{Program, Step};
use backend::Isa;
use base::text::Printer;
use base::{ConstantId, FunctionId, KernelId, Limits, Locations, ProgramId};
use graph::{ElementType, Function, Type};
use module::Module;
use sym::{Expr, SymbolId};
use tensor::{DType, Kind, StagedFiles, Tensor, Value};

pub use dtype::storage_type;
pub use header::{comment_text, port_bytes, port_macros, size_macros, status_function, statuses};
pub use kernel::{can_fault, local_bytes};
pub use layout::Weights;
pub use names::identifier;
pub use run::{CRun, check_c_compiler, run_models};
pub use runner::RunnerModel;
pub use strings::{CTexts, refuse_strings};
pub use text::{list_letters, port_list, type_text};

use alike::code_bytes;
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
    /// Shape; an extent that is free counts as 0.
    pub shape: Vec<usize>,
    /// Of an input: the elements that the code is for, where other elements would need other code.
    /// The code refuses all others.
    pub value: Option<Tensor>,
    /// A tensor, or a list: then element type and shape are those of the tensors in it, whose
    /// extents are free; where their number of axes is not known, there are none.
    pub kind: Kind,
    /// Of an output: strings in which its elements are numbers, from 0; empty where they are none.
    pub strings: Vec<String>,
}

impl CPort {
    /// One of any value, whose elements are what they are.
    #[must_use]
    pub fn new(name: impl Into<String>, dtype: DType, shape: Vec<usize>) -> CPort {
        let (name, kind) = (name.into(), Kind::Tensor);
        CPort { name, dtype, shape, value: None, kind, strings: Vec::new() }
    }

    /// One of a value of this type, whose elements are what they are.
    #[must_use]
    pub fn of(name: &str, ty: &Type) -> CPort {
        let (kind, dtype, rank) = ElementType::of(ty).kind();
        let extent = |it: &Expr| it.as_constant().map_or(0, |extent| extent.max(0) as usize);
        let shape = match ty.as_tensor() {
            Some(ty) => ty.shape.iter().map(extent).collect(),
            None => vec![0; rank.unwrap_or(0)],
        };
        // A list that never holds a tensor has an element type all the same.
        CPort { kind, ..CPort::new(name, dtype.unwrap_or(DType::U8), shape) }
    }

    /// Whether the code is for such an input.
    #[must_use]
    pub fn is_for(&self, value: &Value) -> bool {
        if let Some(tensor) = value.as_tensor() {
            return (self.dtype, &self.shape[..]) == (tensor.dtype(), tensor.shape())
                && self.value.as_ref().is_none_or(|value| value.bytes() == tensor.bytes());
        }
        let Some((kind, dtype, rank)) = ElementType::of_value(value).map(|ty| ty.kind()) else {
            return false;
        };
        kind == self.kind
            && dtype.is_none_or(|dtype| dtype == self.dtype)
            && rank.is_none_or(|rank| rank == self.shape.len())
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
    /// Of the target: which instructions the code names, where the C compiler says that the machine
    /// has them.
    pub isa: Isa,
    /// Whether loops are written out only where elements are in registers for it: less code, which
    /// takes longer.
    pub is_short: bool,
}

impl Default for COptions {
    fn default() -> COptions {
        let most_turns = Limits::default().turns;
        COptions { exact_sums: false, most_turns, isa: Isa::C99, is_short: false }
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
    /// Whether the code holds all that is made of weights, so that there is no such file.
    pub are_weights_inside: bool,
    /// Bytes of the block of constants, and of the arena where they are known.
    pub sizes: (u64, Option<u64>),
    /// About how many bytes of instructions a C compiler makes of the code, for the cores for which
    /// that has been measured.
    pub code_bytes: Option<u64>,
    /// Kernels that are another's function, called with other constants.
    pub shared_kernels: usize,
}

impl CSources {
    /// Writes `model.c`, `model.h`, `main.c` and, unless the weights are in the code, `weights.bin`
    /// into a folder, which is made if it is not there: all of them or none.
    ///
    /// # Errors
    /// `TW0301` if one cannot be written.
    pub fn write(&self, folder: &Path) -> base::Result<()> {
        let mut files = StagedFiles::in_folder(folder)?;
        let texts =
            [("model.c", &self.model_c), ("model.h", &self.model_h), ("main.c", &self.main_c)];
        for (name, text) in texts {
            files.write(folder.join(name), |file| file.write_all(text.as_bytes()))?;
        }
        if self.weights.bytes() > 0 || !self.are_weights_inside {
            files.write(folder.join("weights.bin"), |file| self.weights.write(file))?;
        }
        files.commit()
    }
}

/// What a model computes of its weights.
#[derive(Clone, Debug)]
pub enum CSetup<'a> {
    /// By a program that its caller runs once.
    Run(CProgram<'a>),
    /// It has been computed: tensors, and where each lies in the block of constants, which is part
    /// of the code.
    Folded(Vec<(u64, Tensor)>),
}

/// Writes the programs `setup` and `main`, of one module or of two, and the kernels that they run.
/// Kernels are in the scheduled form (`loops::verify_scheduled`).
///
/// # Errors
/// `TW0205` for every dimension that has no value;
/// internal errors where a program is not what its verifier accepts.
pub fn emit(
    setup: &CSetup<'_>,
    main: CProgram<'_>,
    interface: &Interface,
    options: COptions,
) -> base::Result<CSources> {
    let mut found = base::Diagnostics::new();
    let run = match setup {
        CSetup::Run(program) => Some(*program),
        CSetup::Folded(_) => None,
    };
    for part in run.iter().chain([&main]) {
        if let Err(diagnostics) = program::check(part.program()) {
            found.append(diagnostics);
        }
    }
    found.or_ok(())?;
    let mut writer = Writer::new(interface, options);
    let (run, main) = match run {
        Some(run) => {
            let [run, main] = writer.kernels_of_two(run, main);
            (Some(run), main)
        }
        None => (None, writer.kernels(main)),
    };
    let layout = writer.layout(run.as_ref(), &[&main])?;
    let constants = writer.constants(setup, run.as_ref(), &[&main], &layout)?;
    let checks = text::value_checks(&interface.inputs, &mut writer.helpers);
    let main_body = checks + &writer.main_body(&main, &layout.weights_of(0), "turns")?.1;
    let sizes = [layout.constants_bytes, layout::known(main.program(), &main.arena_bytes())?];
    let kernels: Vec<&KernelCode> = run.iter().chain([&main]).flat_map(|it| it.kernels()).collect();
    let (code_bytes, shared_kernels) = (code_bytes(&kernels, options.isa), shared(&kernels));
    let (name, helpers, weights) = (&writer.name, writer.helpers, writer.weights);
    Ok(CSources {
        model_c: text::model_c(name, interface, &kernels, helpers, sizes, &constants, &main_body),
        model_h: text::model_h(name, interface, &weights, sizes, &constants),
        main_c: text::main_c(name, interface, &weights, &constants),
        weights,
        are_weights_inside: matches!(setup, CSetup::Folded(_)),
        sizes: (sizes[0], Some(sizes[1])),
        code_bytes,
        shared_kernels,
    })
}

/// A plan and the programs of its segments.
#[derive(Clone, Debug)]
pub struct CPlan<'a> {
    /// The plan, whose first parameters are the caller's inputs, the others constants.
    pub function: &'a Function,
    /// The segments that it calls.
    pub segments: BTreeMap<FunctionId, CSegment<'a>>,
}

/// A segment of a plan.
#[derive(Clone, Debug)]
pub struct CSegment<'a> {
    /// Its program, which has the symbols of the plan first among its own, where it has any.
    pub code: CProgram<'a>,
    /// How many of its operands are values; behind them come constants, where the program finds
    /// them.
    pub inputs: usize,
    /// What must hold of the plan's symbols when it begins: the first is at most the second.
    pub checks: Vec<(Expr, Expr)>,
}

/// Writes the program `setup`, a plan, the programs that it calls and the kernels that they run.
///
/// # Errors
/// `TW0205` for a symbol of inputs' shapes that no extent is by itself; `TW0104` for loops over
/// rows of elements that share bytes; internal errors where a plan or a program is not what its
/// verifier accepts.
pub fn emit_plan(
    setup: &CSetup<'_>,
    plan: &CPlan<'_>,
    interface: &Interface,
    options: COptions,
) -> base::Result<CSources> {
    let mut writer = Writer::new(interface, options);
    let run = match setup {
        CSetup::Run(program) => {
            program::check(program.program())?;
            Some(writer.kernels(*program))
        }
        CSetup::Folded(_) => None,
    };
    let parts: Vec<Part<'_>> =
        plan.segments.values().map(|segment| writer.kernels(segment.code)).collect();
    let all: Vec<&Part<'_>> = parts.iter().collect();
    let layout = writer.layout(run.as_ref(), &all)?;
    let constants = writer.constants(setup, run.as_ref(), &all, &layout)?;
    let (mut functions, mut segments) = (String::new(), BTreeMap::new());
    for (number, (part, (&id, segment))) in parts.iter().zip(&plan.segments).enumerate() {
        let name = writer.global.fresh(&format!("segment_{}", part.program().name));
        let (free, body) = writer.main_body(part, &layout.weights_of(number), "(*turns)")?;
        let called = plan::Called::new(name, free, &body, segment, part.arena_bytes());
        functions.push_str(&called.definition(&body));
        segments.insert(id, called);
    }
    let checks = text::value_checks(&interface.inputs, &mut writer.helpers);
    let written = plan::write(plan, &segments, interface, &mut writer.helpers, options)?;
    let kernels: Vec<&KernelCode> = run.iter().chain(&parts).flat_map(|it| it.kernels()).collect();
    let (code_bytes, shared_kernels) = (code_bytes(&kernels, options.isa), shared(&kernels));
    let (name, helpers, weights) = (&writer.name, writer.helpers, writer.weights);
    let texts = text::PlanTexts {
        name,
        interface,
        axes: written.axes,
        arguments: &written.arguments,
        constants: layout.constants_bytes,
        setup: &constants,
    };
    Ok(CSources {
        model_c: texts.model_c(&kernels, helpers, &functions, &(checks + &written.body)),
        model_h: texts.model_h(&weights),
        main_c: texts.main_c(&weights),
        weights,
        are_weights_inside: matches!(setup, CSetup::Folded(_)),
        sizes: (layout.constants_bytes, None),
        code_bytes,
        shared_kernels,
    })
}

fn shared(kernels: &[&KernelCode]) -> usize {
    kernels.iter().filter(|code| code.text.is_empty()).count()
}

/// A program with the kernels that it runs.
struct Part<'a> {
    code: CProgram<'a>,
    kernels: Rc<BTreeMap<KernelId, KernelCode>>,
    /// Whether this part writes the kernels, rather than another that shares them.
    has_kernels: bool,
}

impl CProgram<'_> {
    fn program(&self) -> &Program {
        &self.module.programs[self.program]
    }
}

impl Part<'_> {
    fn program(&self) -> &Program {
        self.code.program()
    }

    fn kernels(&self) -> impl Iterator<Item = &KernelCode> {
        self.kernels.values().filter(|_| self.has_kernels)
    }

    /// The scratch memory that its kernels need.
    fn scratch_bytes(&self) -> Expr {
        let mut most = Expr::ZERO;
        ::program::walk(&self.program().steps, &mut |step| {
            if let Step::Run(run) = step
                && let Some(code) = self.kernels.get(&run.kernel)
            {
                let ranges = |symbol| self.program().symbols[symbol].range;
                if !sym::proves_less_equal(&code.scratch_bytes, &most, &ranges) {
                    let is_more = sym::proves_less_equal(&most, &code.scratch_bytes, &ranges);
                    let more = &code.scratch_bytes;
                    most = if is_more { more.clone() } else { most.max(more) };
                }
            }
        });
        most
    }

    /// What its arena takes, scratch memory included.
    fn arena_bytes(&self) -> Expr {
        &self.program().arena_bytes + &self.scratch_bytes()
    }
}

/// The block of constants as C has it.
#[derive(Clone, Debug)]
pub(crate) enum Constants {
    /// The body of the function that makes it of the weights.
    Setup(String),
    /// What it holds.
    Bytes(Vec<u8>),
}

/// What the functions of the C code have in common.
struct Writer {
    /// Of the model, as an identifier.
    name: String,
    global: Names,
    helpers: Helpers,
    weights: Weights,
    most_turns: u64,
    isa: Isa,
    is_short: bool,
}

impl Writer {
    fn new(interface: &Interface, options: COptions) -> Writer {
        let name = names::identifier(&interface.name);
        let mut global = Names::default();
        for suffix in ["constants_size", "constants", "arena_size", "setup", "run", "tensor"] {
            global.fresh(&format!("{name}_{suffix}"));
        }
        let helpers = Helpers::new(options.exact_sums);
        let COptions { most_turns, isa, is_short, .. } = options;
        Writer { name, global, helpers, weights: Weights::default(), most_turns, isa, is_short }
    }

    fn kernels<'a>(&mut self, code: CProgram<'a>) -> Part<'a> {
        let kernels = Rc::new(self.write_kernels(code, &[code.program()]));
        Part { code, kernels, has_kernels: true }
    }

    fn kernels_of_two<'a>(&mut self, a: CProgram<'a>, b: CProgram<'a>) -> [Part<'a>; 2] {
        if !std::ptr::eq(a.module, b.module) {
            return [self.kernels(a), self.kernels(b)];
        }
        let kernels = Rc::new(self.write_kernels(b, &[a.program(), b.program()]));
        let first = Part { code: a, kernels: kernels.clone(), has_kernels: true };
        [first, Part { code: b, kernels, has_kernels: false }]
    }

    fn write_kernels(
        &mut self,
        part: CProgram<'_>,
        programs: &[&Program],
    ) -> BTreeMap<KernelId, KernelCode> {
        let places = overlap::parameter_places(part.module, programs);
        let mut texts = BTreeMap::new();
        for (id, places) in &places {
            let kernel = &part.module.kernels[*id];
            let name = self.global.fresh(&format!("kernel_{}", kernel.name));
            let how = (self.isa, self.is_short);
            let text = kernel::write(kernel, part.locations, name, places, how, &mut self.helpers);
            texts.insert(*id, text);
        }
        alike::functions(texts, matches!(self.isa, Isa::ArmDsp | Isa::ArmHelium))
    }

    fn layout(&mut self, setup: Option<&Part<'_>>, parts: &[&Part<'_>]) -> base::Result<Layout> {
        let parts: Vec<(&Program, &Module)> =
            parts.iter().map(|part| (part.program(), part.code.module)).collect();
        let Some(setup) = setup else {
            // What is copied lies in the code.
            return Layout::new(None, &parts, &mut Weights::default());
        };
        program::check_setup(setup.program())?;
        Layout::new(Some((setup.program(), &setup.scratch_bytes())), &parts, &mut self.weights)
    }

    /// The block of constants as C: the body of what makes it, or its bytes.
    fn constants(
        &mut self,
        setup: &CSetup<'_>,
        run: Option<&Part<'_>>,
        parts: &[&Part<'_>],
        layout: &Layout,
    ) -> base::Result<Constants> {
        let folded = match (setup, run) {
            (_, Some(run)) => return Ok(Constants::Setup(self.setup_body(run, layout)?)),
            (CSetup::Folded(folded), None) => &folded[..],
            (CSetup::Run(_), None) => &[],
        };
        let mut bytes = vec![0; layout.constants_bytes as usize];
        let mut put = |offset: u64, tensor: &Tensor| {
            // What nothing reads may lie behind the end.
            let own = tensor.bytes();
            if let Some(place) = bytes.get_mut(offset as usize..offset as usize + own.len()) {
                place.copy_from_slice(own);
            }
        };
        folded.iter().for_each(|(offset, tensor)| put(*offset, tensor));
        for copy in &layout.weight_copies {
            put(copy.destination, &parts[copy.part].code.module.constants[copy.constant].tensor);
        }
        Ok(Constants::Bytes(bytes))
    }

    /// The steps of `setup`, then copies of the weights that other programs read.
    fn setup_body(&mut self, part: &Part<'_>, layout: &Layout) -> base::Result<String> {
        let mut printer = Printer::new();
        printer.indent();
        printer.line("const unsigned char *const file = (const unsigned char *)weights;");
        printer.line("unsigned char *const block = (unsigned char *)constants;");
        let (program, module) = (part.program(), part.code.module);
        let mut offsets = BTreeMap::new();
        for slot in program.slots.values() {
            if let ::program::Place::Weight(id) = slot.place {
                offsets.insert(id, self.weights.offset(&module.constants[id].tensor));
            }
        }
        let bases = Bases {
            weight: &|id| ("file", offsets.get(&id).copied().unwrap_or(0)),
            constants: ("block", 0),
            arena: ("block", layout.setup_arena),
            scratch: ("block", Expr::constant(layout.setup_scratch.cast_signed())),
            turns: "turns",
        };
        let kernels = |id| &part.kernels[&id];
        let (helpers, most_turns) = (&mut self.helpers, self.most_turns);
        let mut writer = ProgramWriter::new(module, program, &kernels, bases, helpers, most_turns);
        writer.body(&mut printer)?;
        printer.line("(void)file;");
        printer.line("(void)block;");
        let mut made = BTreeSet::new();
        // What has no bytes lies where something else begins.
        let copies = layout.weight_copies.iter().filter(|copy| copy.bytes > 0);
        for copy in copies.filter(|copy| made.insert(copy.destination)) {
            let (to, from, bytes) = (copy.destination, copy.source, copy.bytes);
            let function = writer.helpers.copy();
            printer.line(format_args!("{function}(block + {to}, file + {from}, {bytes});"));
        }
        Ok(printer.finish())
    }

    /// The steps of another program; with them, the symbols that its caller tells.
    fn main_body(
        &mut self,
        part: &Part<'_>,
        weights: &BTreeMap<ConstantId, u64>,
        turns: &'static str,
    ) -> base::Result<(Vec<(SymbolId, String)>, String)> {
        let mut printer = Printer::new();
        printer.indent();
        printer.line("const unsigned char *const block = (const unsigned char *)constants;");
        printer.line("unsigned char *const memory = (unsigned char *)arena;");
        let (program, module) = (part.program(), part.code.module);
        let bases = Bases {
            weight: &|id| ("block", weights.get(&id).copied().unwrap_or(0)),
            constants: ("block", 0),
            arena: ("memory", 0),
            scratch: ("memory", program.arena_bytes.clone()),
            turns,
        };
        let kernels = |id| &part.kernels[&id];
        let (helpers, most_turns) = (&mut self.helpers, self.most_turns);
        let mut writer = ProgramWriter::new(module, program, &kernels, bases, helpers, most_turns);
        writer.body(&mut printer)?;
        for unused in ["block", "memory", "in", "out"] {
            printer.line(format_args!("(void){unused};"));
        }
        Ok((writer.free_symbols(), printer.finish()))
    }
}
