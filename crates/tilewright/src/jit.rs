//! Kernels of a program to machine code in this process.

use std::collections::BTreeMap;
use std::sync::Arc;

use backend::{KernelCompiler, MachineCode, Target};
use backend_x64::X64;
use base::{Diagnostic, KernelId, ProgramId, Result, codes};
use loops::Kernel;
use lower::{KernelInfo, StoredKernel};
use module::Module;
use program::Step;

use crate::options::Options;

/// A program with its code.
pub struct LinkedProgram {
    pub executable: runtime::LoadedProgram,
    /// Machine code and the constants behind it.
    pub(crate) code_bytes: usize,
}

/// Compiles the kernels that a program runs and loads them. The code of a kernel that lowerings
/// share is made once.
///
/// # Errors
/// Diagnostics of the back end; of the system, if it gives no executable memory.
pub fn compile_program(
    module: &Module,
    program: ProgramId,
    infos: &[KernelInfo],
    target: &Target,
    options: &Options,
) -> Result<LinkedProgram> {
    let program = &module.programs[program];
    let shared = |info: &KernelInfo| Some((info.kernel, info.stored.clone()?));
    let shared: BTreeMap<KernelId, Arc<StoredKernel>> = infos.iter().filter_map(shared).collect();
    let phases = &options.phases;
    let compile = |id: KernelId| {
        let compiled = || {
            let options = backend_x64::X64Options { phases: phases.clone(), ..Default::default() };
            backend_x64::compile_with(&module.kernels[id], target, options)
        };
        let Some(stored) = shared.get(&id) else { return Ok((id, compiled()?)) };
        if let Some(code) = stored.code.get() {
            return Ok((id, code.clone()));
        }
        let code = compiled()?;
        Ok((id, stored.code.get_or_init(|| code).clone()))
    };
    let kernels = base::parallel::map(options.thread_count(), kernels_of(&program.steps), compile)
        .into_iter()
        .collect::<Result<Vec<(KernelId, MachineCode)>>>()?;
    let code = phases.time("load", || backend_x64::load(&module.kernels, &kernels))?;
    let code = Arc::new(code);
    if options.perf_map {
        append_perf_map(&code.perf_map())?;
    }
    let executable = backend_x64::executable(&module.kernels, program, code)?
        .with_most_turns(options.limits.turns);
    let code_bytes = kernels.iter().map(|(_, code)| code.bytes.len()).sum();
    Ok(LinkedProgram { executable, code_bytes })
}

/// A kernel between selection and register allocation, as text.
///
/// # Errors
/// Diagnostics of the back end.
pub fn vcode(kernel: &Kernel, target: &Target) -> Result<String> {
    let options = backend_x64::X64Options { want_vcode_text: true, ..Default::default() };
    let code = backend_x64::compile_with(kernel, target, options)?;
    Ok(code.vcode.unwrap_or_default())
}

/// A kernel's machine code as text.
///
/// # Errors
/// Diagnostics of the back end.
pub fn disassembly(kernel: &Kernel, target: &Target) -> Result<String> {
    Ok(backend_x64::disassemble(&X64.compile(kernel, target)?))
}

/// Adds lines to the file in which `perf` looks for the names of generated code.
fn append_perf_map(lines: &str) -> Result<()> {
    use std::io::Write as _;
    let path = std::env::temp_dir().join(format!("perf-{}.map", std::process::id()));
    let mut options = std::fs::OpenOptions::new();
    let written = options
        .create(true)
        .append(true)
        .open(&path)
        .and_then(|mut file| file.write_all(lines.as_bytes()));
    written.map_err(|error| {
        Diagnostic::error(codes::CANNOT_WRITE_FILE, "cannot write the map of kernel names")
            .at(path.display().to_string())
            .because(error.to_string())
            .remedy("leave `--perf-map` out")
            .into()
    })
}

/// The kernels that steps run, each once, in order of first use.
pub fn kernels_of(steps: &[Step]) -> Vec<KernelId> {
    let mut seen = base::SecondaryMap::<KernelId, bool>::new();
    let mut kernels = Vec::new();
    program::walk(steps, &mut |step| {
        if let Step::Run(run) = step
            && !std::mem::replace(&mut seen[run.kernel], true)
        {
            kernels.push(run.kernel);
        }
    });
    kernels
}
