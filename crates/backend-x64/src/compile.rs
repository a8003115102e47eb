//! The stages in order, and what drivers call.

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
    let selected = options.phases.time("selection", || select::select(kernel, target.isa))?;
    if cfg!(debug_assertions) {
        vcode::verify(&selected.function).map_err(|error| internal(&selected.function, &error))?;
    }
    let mut code = allocate_and_emit(&selected.function, target.isa, &options.phases)?;
    code.scratch_bytes = selected.scratch_bytes;
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
        code_bytes: emitted.code_bytes,
        scratch_bytes: 0,
        vcode: None,
    })
}

fn internal(function: &vcode::VCode, error: &str) -> Diagnostics {
    Diagnostic::error(codes::INTERNAL_ERROR, "machine code could not be made of a kernel")
        .at(format!("kernel `{}`", function.name))
        .because(error.to_string())
        .because(format!("the kernel's vcode is\n{}", vcode::print(function)))
        .into()
}

/// Machine code as text, one instruction a line with its offset.
#[must_use]
pub fn disassemble(code: &MachineCode) -> String {
    let bytes = &code.bytes[..code.code_bytes];
    let mut decoder = Decoder::with_ip(64, bytes, 0, DecoderOptions::NONE);
    let mut formatter = IntelFormatter::new();
    formatter.options_mut().set_rip_relative_addresses(true);
    formatter.options_mut().set_branch_leading_zeros(false);
    let mut text = String::new();
    while decoder.can_decode() {
        let instruction = decoder.decode();
        text.push_str(&format!("{:>6x}  ", instruction.ip()));
        formatter.format(&instruction, &mut text);
        text.push('\n');
    }
    text
}
