//! Which row of the target table to compile for.

use backend::Target;
use base::{Diagnostic, Result, codes};

use crate::options::TargetChoice;

/// The row that a choice means.
///
/// # Errors
/// `TW0401` for a name that no row has; `TW0402` if no row suits this machine.
pub fn resolve(choice: &TargetChoice) -> Result<Target> {
    match choice {
        TargetChoice::Named(name) => Target::named(name).ok_or_else(|| unknown(name).into()),
        TargetChoice::Native => Target::native(&runtime::cpu::has_feature).ok_or_else(|| {
            Diagnostic::error(codes::TARGET_NOT_ON_THIS_MACHINE, "no target suits this machine")
                .because("the JIT needs x86-64 with AVX2 and FMA, on Linux")
                .remedy("use `tilewright compile --emit c`")
                .into()
        }),
    }
}

/// Refuses to run code for a target that this machine lacks, or that is not machine code.
///
/// # Errors
/// `TW0402`, with the features that are missing.
pub(crate) fn check_runs_here(target: &Target) -> Result<()> {
    if target.isa.is_machine_code() {
        return target.check_machine(&runtime::cpu::has_feature);
    }
    Err(Diagnostic::error(
        codes::TARGET_NOT_ON_THIS_MACHINE,
        format!("target `{}` cannot be run in process", target.name),
    )
    .at(format!("--target {}", target.name))
    .because("it stands for sources, not for machine code")
    .remedy("leave `--target` out, or use `tilewright compile --emit c`")
    .into())
}

fn unknown(name: &str) -> Diagnostic {
    let names: Vec<String> = Target::table().into_iter().map(|row| row.name).collect();
    Diagnostic::error(codes::UNKNOWN_TARGET, format!("no target is called `{name}`"))
        .at(format!("--target {name}"))
        .because(format!("the targets are native, {}", names.join(", ")))
        .remedy("use one of these names")
}
