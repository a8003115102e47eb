//! The stages in order, and what drivers call.

use backend::procedure::{Procedure, print_procedure};
use backend::{Isa, KernelCompiler, MachineCode, Target};
use base::timing::Phases;
use base::{Diagnostic, Diagnostics, codes};
use iced_x86::{Decoder, DecoderOptions, Formatter, IntelFormatter};
use loops::Kernel;

use crate::{allocate, emit, select, vcode};

/// The back end.
#[derive(Clone, Copy, Debug, Default)]
pub struct X64;

/// What is wanted besides the code.
#[derive(Clone, Debug, Default)]
pub struct X64Options {
    /// The kernel between selection and register allocation, as text.
    pub want_vcode_text: bool,
    /// The statements that instructions were made for.
    pub want_statements: bool,
    /// Where the stages report how long they took.
    pub phases: Phases,
}

impl KernelCompiler for X64 {
    fn compile(&self, kernel: &Kernel, target: &Target) -> base::Result<MachineCode> {
        compile_with(kernel, target, X64Options::default())
    }
}

/// A kernel between selection and register allocation, as text.
///
/// # Errors
/// As [`compile_with`].
pub fn vcode_text(kernel: &Kernel, target: &Target) -> base::Result<String> {
    let options = X64Options { want_vcode_text: true, ..X64Options::default() };
    Ok(compile_with(kernel, target, options)?.vcode.unwrap_or_default())
}

/// A kernel's machine code as text.
///
/// # Errors
/// As [`compile_with`].
pub fn disassembly(kernel: &Kernel, target: &Target) -> base::Result<String> {
    Ok(disassemble(&compile_with(kernel, target, X64Options::default())?))
}

/// Compiles one scheduled kernel.
///
/// # Errors
/// A diagnostic if the target is none of x86-64's, or the kernel is not in the scheduled form.
pub fn compile_with(
    kernel: &Kernel,
    target: &Target,
    options: X64Options,
) -> base::Result<MachineCode> {
    if !target.isa.is_machine_code() {
        let message = format!("`{}` is no x86-64 target", target.name);
        return Err(Diagnostic::error(codes::UNKNOWN_TARGET, message).into());
    }
    let selected = options
        .phases
        .time("selection", || select::select(kernel, target.isa, options.want_statements))?;
    if cfg!(debug_assertions) {
        vcode::verify(&selected.function).map_err(|error| internal(&selected.function, &error))?;
    }
    let mut code = allocate_and_emit(&selected.function, target.isa, &options.phases)?;
    code.scratch_bytes = selected.scratch_bytes;
    if !options.want_statements {
        code.statements.clear();
    }
    code.vcode = options.want_vcode_text.then(|| vcode::print(&selected.function));
    Ok(code)
}

/// Allocates registers for a function and encodes it.
///
/// # Errors
/// A diagnostic if the function is not well formed.
pub fn compile_vcode(function: &vcode::VCode, isa: Isa) -> base::Result<MachineCode> {
    allocate_and_emit(function, isa, &Phases::default())
}

fn allocate_and_emit(
    function: &vcode::VCode,
    isa: Isa,
    phases: &Phases,
) -> base::Result<MachineCode> {
    let allocation = phases
        .time("registers", || allocate::allocate(function, isa))
        .map_err(|error| internal(function, &error))?;
    let emitted = phases
        .time("encoding", || emit::emit(function, &allocation, isa))
        .map_err(|error| internal(function, &error))?;
    Ok(MachineCode {
        bytes: emitted.bytes,
        alignment: emitted.alignment,
        code_bytes: emitted.code_bytes,
        scratch_bytes: 0,
        vcode: None,
        statements: emitted.statements,
    })
}

fn internal(function: &vcode::VCode, error: &str) -> Diagnostics {
    Diagnostic::error(codes::INTERNAL_ERROR, "machine code could not be made of a kernel")
        .at(format!("kernel `{}`", function.name))
        .because(error.to_string())
        .because(format!("the kernel's vcode is\n{}", vcode::print(function)))
        .into()
}

/// Code of a procedure, or of anything else in an artifact, and what it refers to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkableCode {
    /// Position-independent, its entry at offset 0.
    pub bytes: Vec<u8>,
    /// Where they lie must be a multiple of this many bytes, at most 64.
    pub alignment: usize,
    /// Where distances to symbols belong: four bytes, from behind them to the symbol.
    pub references: Vec<(usize, String)>,
}

impl From<&MachineCode> for LinkableCode {
    fn from(kernel: &MachineCode) -> LinkableCode {
        let (bytes, alignment) = (kernel.bytes.clone(), kernel.alignment);
        LinkableCode { bytes, alignment, references: Vec::new() }
    }
}

/// Where procedures begin: they are run once a run of the model.
const PROCEDURE_ALIGNMENT: usize = 4;

/// Compiles a procedure.
///
/// # Errors
/// Internal errors where it is not well formed.
pub fn compile_procedure(procedure: &Procedure) -> base::Result<LinkableCode> {
    let emitted = emit::emit_procedure(procedure).map_err(|error| {
        Diagnostic::error(codes::INTERNAL_ERROR, "machine code could not be made of a procedure")
            .at(format!("procedure `{}`", procedure.name))
            .because(error)
            .because(format!("the procedure is\n{}", print_procedure(procedure)))
    })?;
    let (bytes, references) = (emitted.bytes, emitted.references);
    Ok(LinkableCode { bytes, alignment: PROCEDURE_ALIGNMENT, references })
}

/// An instruction of a kernel as text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InstructionText {
    /// Bytes from the kernel's entry on.
    pub offset: usize,
    /// The instruction.
    pub text: String,
    /// The statement of the kernel that it was made for, counted as `loops::visit::walk` comes to
    /// them; none where it is the kernel's as a whole: its entry and exit, faults.
    pub statement: Option<u32>,
}

/// A kernel's machine code, instruction by instruction, with the statements that it was made for.
///
/// # Errors
/// As [`compile_with`].
pub fn instructions(kernel: &Kernel, target: &Target) -> base::Result<Vec<InstructionText>> {
    let options = X64Options { want_statements: true, ..X64Options::default() };
    Ok(decode(&compile_with(kernel, target, options)?))
}

/// Machine code as text, one instruction a line with its offset.
#[must_use]
pub fn disassemble(code: &MachineCode) -> String {
    let line = |it: &InstructionText| format!("{:>6x}  {}\n", it.offset, it.text);
    decode(code).iter().map(line).collect()
}

fn decode(code: &MachineCode) -> Vec<InstructionText> {
    let bytes = &code.bytes[..code.code_bytes];
    let mut decoder = Decoder::with_ip(64, bytes, 0, DecoderOptions::NONE);
    let mut formatter = IntelFormatter::new();
    formatter.options_mut().set_rip_relative_addresses(true);
    formatter.options_mut().set_branch_leading_zeros(false);
    let mut found = Vec::new();
    while decoder.can_decode() {
        let instruction = decoder.decode();
        let offset = instruction.ip() as usize;
        let mut text = String::new();
        formatter.format(&instruction, &mut text);
        let known = code.statements.partition_point(|(start, _)| *start <= offset);
        let statement = known.checked_sub(1).and_then(|last| code.statements[last].1);
        found.push(InstructionText { offset, text, statement });
    }
    found
}
