//! Machine code of kernels to a program that can be run.
//!
//! Here the back end vouches for its code: what it compiled from a kernel touches its parameters'
//! elements and its scratch memory, nothing else, as `loops::verify` proves of the kernel; and
//! every argument is checked to be as large as the parameter.

use std::collections::BTreeMap;
use std::sync::Arc;

use backend::MachineCode;
use base::{Arena, Diagnostic, KernelId, Result, codes};
use loops::{Access, Kernel, Scope};
use program::{Program, Run, Step};
use runtime::{Code, KernelCode, LoadedProgram};

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
/// them.
///
/// # Errors
/// A diagnostic if an argument is smaller than the kernel's parameter or may not be written, or if
/// the program is not well formed.
pub fn executable(
    kernels: &Arena<KernelId, Kernel>,
    program: &Program,
    code: Arc<Code>,
) -> Result<LoadedProgram> {
    let mut wrong = None;
    program::walk(&program.steps, &mut |step| {
        if let Step::Run(run) = step {
            wrong = wrong.take().or(misfit(&kernels[run.kernel], run));
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
    unsafe { LoadedProgram::new(program, code, &BTreeMap::new()) }
}

/// Why a run does not fit its kernel, if it does not.
fn misfit(kernel: &Kernel, run: &Run) -> Option<String> {
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
        let fits = match (buffer.span_bytes(), argument.bytes.as_constant()) {
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
