//! Kernels of a program to machine code in this process.

use std::collections::BTreeMap;
use std::sync::Arc;

use backend::{MachineCode, Target};
use base::{IntoTree, KernelId, ProgramId, Result};
use lower::{KernelInfo, StoredKernel};
use module::Module;
use program::Program;
use runtime::{Code, LoadedProgram};
use sym::SymbolId;

use crate::options::Options;

/// Compiles the kernels that a program without free symbols runs and loads it.
///
/// # Errors
/// Diagnostics of the back end; of the system, if it gives no executable memory.
pub fn compile_program(
    module: &Module,
    program: ProgramId,
    infos: &[KernelInfo],
    target: &Target,
    options: &Options,
) -> Result<LoadedProgram> {
    let code = compile_kernels(module, program, infos, target, options)?;
    load_program(module, &module.programs[program], code, &BTreeMap::new(), options)
}

/// The code of the kernels that a program runs, loaded.
///
/// # Errors
/// Diagnostics of the back end; of the system, if it gives no executable memory.
pub(crate) fn compile_kernels(
    module: &Module,
    program: ProgramId,
    infos: &[KernelInfo],
    target: &Target,
    options: &Options,
) -> Result<Arc<Code>> {
    let kernels = kernel_code(module, program, infos, target, options)?;
    let phases = &options.phases;
    let code = phases.time("load", || backend_x64::load(&module.kernels, &kernels))?;
    if options.perf_map {
        code.append_perf_map().map_err(|found| found.remedy("leave `--perf-map` out"))?;
    }
    Ok(Arc::new(code))
}

/// The code of the kernels that a program runs. That of a kernel that lowerings share is made once.
///
/// # Errors
/// Diagnostics of the back end.
pub(crate) fn kernel_code(
    module: &Module,
    program: ProgramId,
    infos: &[KernelInfo],
    target: &Target,
    options: &Options,
) -> Result<Vec<(KernelId, MachineCode)>> {
    let program = &module.programs[program];
    let shared = |info: &KernelInfo| Some((info.kernel, info.stored.clone()?));
    let shared: BTreeMap<KernelId, Arc<StoredKernel>> = infos.iter().filter_map(shared).into_map();
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
    base::parallel::map(options.thread_count(), program.kernels(), compile).into_iter().collect()
}

/// A program with its code, for these values of its symbols.
///
/// # Errors
/// Values outside of the ranges that the program was compiled for.
pub(crate) fn load_program(
    module: &Module,
    program: &Program,
    code: Arc<Code>,
    values: &BTreeMap<SymbolId, i64>,
    options: &Options,
) -> Result<LoadedProgram> {
    let loaded = backend_x64::executable(&module.kernels, program, code, values)?;
    Ok(loaded.with_most_turns(options.limits.turns))
}

/// As [`load_program`], of code whose kernels are not at hand.
///
/// # Errors
/// As there.
pub(crate) fn load_trusted(
    program: &Program,
    code: Arc<Code>,
    values: &BTreeMap<SymbolId, i64>,
    options: &Options,
) -> Result<LoadedProgram> {
    let loaded = backend_x64::trusted(program, code, values)?;
    Ok(loaded.with_most_turns(options.limits.turns))
}
