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
        TargetChoice::Named(name) => Target::find(name),
        TargetChoice::Native => Target::native(&runtime::cpu::has_feature).ok_or_else(|| {
            Diagnostic::error(codes::TARGET_NOT_ON_THIS_MACHINE, "no target suits this machine")
                .because("the JIT needs x86-64 with AVX2 and FMA, on Linux")
                .remedy("use `tilewright compile --emit c`")
                .into()
        }),
    }
}
