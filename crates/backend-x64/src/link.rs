//! Machine code of kernels to a program that can be run.
//!
//! Here the back end vouches for its code: what it compiled from a kernel touches its parameters'
//! elements and its scratch memory, nothing else, as `loops::verify` proves of the kernel along
//! axes of constant extent, and `loops::verify_bounds` along free ones of schedules; and every
//! argument is checked to be as large as the parameter.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use backend::{KernelCompiler as _, MachineCode, Target};
use base::{Arena, Diagnostic, Id, KernelId, Result, codes};
use loops::{Access, Buffer, BufferId, Kernel, Scope, SymbolKind};
use program::{Address, Argument, Place, Program, Run, Slot, Step};
use runtime::{Code, KernelCode, LoadedProgram};
use sym::{Expr, SymbolId};

use crate::X64;

/// Loads compiled kernels into executable memory.
///
/// # Errors
/// A diagnostic if this platform or the system gives no executable memory.
pub fn load(kernels: &Arena<KernelId, Kernel>, code: &[(KernelId, MachineCode)]) -> Result<Code> {
    Code::load(code.iter().map(|(id, code)| {
        let name = &kernels[*id].name[..];
        (*id, KernelCode { name, bytes: &code.bytes, scratch_bytes: code.scratch_bytes })
    }))
}

/// Makes a program runnable whose kernels are among the `kernels` and whose code [`load`] made of
/// them, for these `values` of the symbols that no step sets.
///
/// # Errors
/// A diagnostic if an argument is smaller than the kernel's parameter or may not be written, or if
/// the program is not well formed.
pub fn executable(
    kernels: &Arena<KernelId, Kernel>,
    program: &Program,
    code: Arc<Code>,
    values: &BTreeMap<SymbolId, i64>,
) -> Result<LoadedProgram> {
    let mut wrong = None;
    program::walk(&program.steps, &mut |step| {
        if let Step::Run(run) = step {
            wrong = wrong.take().or_else(|| misfit(&kernels[run.kernel], run, values));
        }
    });
    if let Some(message) = wrong {
        return Err(Diagnostic::error(codes::INTERNAL_ERROR, message)
            .at(format!("program `{}`", program.name))
            .into());
    }
    // SAFETY: the code was compiled from these kernels, which the loop verifier accepts: they stay
    // within their parameters and their scratch memory, write only parameters that are not
    // read-only, and iterations of a parallel loop are independent. The arguments have just been
    // checked to be as large as the parameters.
    unsafe { LoadedProgram::new(program, code, values) }
}

/// Makes a program runnable whose code was compiled, linked by [`executable`] and saved with the
/// program, and has not changed since: the kernels need not be at hand. Code that comes from
/// elsewhere does whatever it does; who loads it answers for where it comes from.
///
/// # Errors
/// A diagnostic if the program is not well formed or runs a kernel whose code is not there.
pub fn trusted(
    program: &Program,
    code: Arc<Code>,
    values: &BTreeMap<SymbolId, i64>,
) -> Result<LoadedProgram> {
    // SAFETY: `executable` has checked that the code keeps to its arguments when both were made,
    // and the caller that both are what was made then.
    unsafe { LoadedProgram::new(program, code, values) }
}

/// Loads a shared library that this process has just written, of code that this back end made.
///
/// # Errors
/// `TW0302` where the system does not load it.
#[cfg(target_os = "linux")]
pub fn open_artifact(path: &Path) -> Result<runtime::LoadedArtifact> {
    // SAFETY: by the contract of this function the code is the compiler's own.
    unsafe { runtime::LoadedArtifact::open(path) }
}

/// Makes a program of one kernel among the `kernels`, whose code [`load`] made of them: it runs the
/// kernel once, in memory of the caller's. The memory of parameter `k` is output `k`, which the
/// kernel finds as the caller left it, of as many bytes as [`loops::Buffer::span_bytes`] says.
///
/// # Errors
/// A diagnostic if the kernel is not of fixed sizes.
pub fn alone(
    kernels: &Arena<KernelId, Kernel>,
    id: KernelId,
    code: Arc<Code>,
) -> Result<LoadedProgram> {
    let kernel = &kernels[id];
    let mut slots = Arena::new();
    let argument = |(number, &parameter): (u32, &BufferId)| {
        let buffer = &kernel.buffers[parameter];
        let bytes = Expr::constant(buffer.span_bytes().unwrap_or(0));
        let (name, place) = (buffer.name.clone(), Place::Output(number));
        let slot = slots.push(Slot { name, bytes: bytes.clone(), place });
        let access = |access| buffer.scope == Scope::Parameter(access);
        let (reads, writes) = (!access(Access::Write), !access(Access::Read));
        Argument { address: Address { slot, offset: Expr::ZERO }, bytes, writes, reads }
    };
    let run = Step::Run(Run {
        kernel: id,
        arguments: (0..).zip(&kernel.parameters).map(argument).collect(),
        extent: kernel.parallel_extent(),
        scratch_bytes: Expr::ZERO,
        grain: Expr::ONE,
    });
    let program = Program {
        name: kernel.name.clone(),
        symbols: Arena::new(),
        updated: BTreeSet::new(),
        slots,
        arena_bytes: Expr::ZERO,
        steps: vec![run],
    };
    executable(kernels, &program, code, &BTreeMap::new())
}

/// Compiles a scheduled kernel to a program of its own, as [`alone`] makes it.
///
/// # Errors
/// Those of compiling and loading it; a diagnostic if the kernel is not of fixed sizes.
pub fn compile_alone(kernel: &Kernel, target: &Target) -> Result<LoadedProgram> {
    let mut kernels = Arena::new();
    let id = kernels.push(kernel.clone());
    let code = load(&kernels, &[(id, X64.compile(kernel, target)?)])?;
    alone(&kernels, id, Arc::new(code))
}

/// Why a run does not fit its kernel, if it does not.
fn misfit(kernel: &Kernel, run: &Run, values: &BTreeMap<SymbolId, i64>) -> Option<String> {
    if run.arguments.len() != kernel.parameters.len() {
        let (given, wanted) = (run.arguments.len(), kernel.parameters.len());
        return Some(format!("kernel `{}` is run on {given} of {wanted} arguments", kernel.name));
    }
    for (argument, &parameter) in run.arguments.iter().zip(&kernel.parameters) {
        let buffer = &kernel.buffers[parameter];
        let writes = !matches!(buffer.scope, Scope::Parameter(Access::Read));
        if writes && !argument.writes {
            return Some(format!("kernel `{}` writes argument `{}`", kernel.name, buffer.name));
        }
        let given = argument.bytes.evaluate(&|symbol| values.get(&symbol).copied());
        let fits = match (span_bytes(kernel, buffer, values), given) {
            (Some(needed), Some(given)) => given >= needed,
            _ => false,
        };
        if !fits {
            let reason = format!("argument `{}` of kernel `{}`", buffer.name, kernel.name);
            return Some(format!("{reason} is not known to be large enough"));
        }
    }
    None
}

/// Bytes from a parameter's first element to behind its last, for these values of the symbols of
/// the program, which are where a kernel's dimensions say.
fn span_bytes(kernel: &Kernel, buffer: &Buffer, values: &BTreeMap<SymbolId, i64>) -> Option<i64> {
    let of_dimension = |symbol: SymbolId| match kernel.symbols[symbol].kind {
        SymbolKind::Shape { position, .. } => {
            values.get(&SymbolId::new(position as usize)).copied()
        }
        SymbolKind::Loop | SymbolKind::Value { .. } => None,
    };
    let known = |exprs: &Vec<Expr>| -> Option<Vec<Expr>> {
        let value = |expr: &Expr| Some(Expr::constant(expr.evaluate(&of_dimension)?));
        exprs.iter().map(value).collect()
    };
    let is_constant = |exprs: &Vec<Expr>| exprs.iter().all(|it| it.as_constant().is_some());
    if is_constant(&buffer.shape) && buffer.strides.as_ref().is_none_or(is_constant) {
        return buffer.span_bytes();
    }
    let strides = match &buffer.strides {
        Some(strides) => Some(known(strides)?),
        None => None,
    };
    Buffer { shape: known(&buffer.shape)?, strides, ..buffer.clone() }.span_bytes()
}
