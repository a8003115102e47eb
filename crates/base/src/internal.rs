//! The edge of a program that compiles: broken invariants become diagnostics here, and only here.

use std::panic::{self, AssertUnwindSafe};

use crate::{Diagnostic, Diagnostics, Result, codes, panics};

const REMEDY: &str = "report it with the model; it is a bug of the compiler, not of the model";

/// Runs a piece of work; a panic in it becomes an internal error, `TW0901`, instead of a
/// message on standard error.
///
/// # Errors
/// Those of the piece, and the internal error.
pub fn catch_internal_errors<T>(piece: impl FnOnce() -> Result<T>) -> Result<T> {
    match panics::catch(piece) {
        Ok(result) => result.map_err(with_remedies),
        Err(panics::Caught { found: Some(found), .. }) => Err(found),
        Err(panics::Caught { message, place, .. }) => {
            let message = message.unwrap_or_else(|| "an invariant is broken".to_owned());
            let diagnostic = Diagnostic::error(codes::INTERNAL_ERROR, message)
                .because("the compiler broke one of its own invariants")
                .remedy(REMEDY);
            Err(place.into_iter().fold(diagnostic, Diagnostic::at).into())
        }
    }
}

/// Leaves a piece of work that has no way to give diagnostics back: [`catch_abandoned`], or
/// [`catch_internal_errors`], around it gives them.
pub fn abandon(found: Diagnostics) -> ! {
    panic::resume_unwind(Box::new(found))
}

/// Runs a piece of work, in which something may be abandoned.
///
/// # Errors
/// Those of the piece, and what it was abandoned with.
pub fn catch_abandoned<T>(piece: impl FnOnce() -> Result<T>) -> Result<T> {
    match panic::catch_unwind(AssertUnwindSafe(piece)) {
        Ok(result) => result,
        Err(payload) => match payload.downcast::<Diagnostics>() {
            Ok(found) => Err(*found),
            Err(other) => panic::resume_unwind(other),
        },
    }
}

/// An invariant that a verifier found broken has a remedy, too.
fn with_remedies(found: Diagnostics) -> Diagnostics {
    let complete = |diagnostic: Diagnostic| match diagnostic.remedy {
        None if diagnostic.code.starts_with("TW09") => diagnostic.remedy(REMEDY),
        _ => diagnostic,
    };
    found.map(complete)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_becomes_an_internal_error_with_its_place() {
        let caught = catch_internal_errors::<()>(|| panic!("loop {} is gone", 7));
        let text = caught.expect_err("a panic is an error").to_string();
        assert!(text.starts_with("error[TW0901]: loop 7 is gone"), "{text}");
        assert!(text.contains("internal.rs:") && text.contains("remedy"), "{text}");
    }

    #[test]
    fn what_is_abandoned_is_given() {
        let found: Diagnostics = Diagnostic::error(codes::CANNOT_READ_FILE, "no such file").into();
        let left = || -> Result<()> { abandon(found.clone()) };
        assert_eq!(catch_internal_errors(left), Err(found.clone()));
        assert_eq!(catch_abandoned(left), Err(found.clone()));
        assert_eq!(catch_abandoned(|| Ok(3)), Ok(3));
        let caught =
            catch_internal_errors::<()>(|| catch_abandoned(|| panic!("loop {} is gone", 7)));
        assert!(caught.expect_err("a panic").to_string().starts_with("error[TW0901]"));
    }

    #[test]
    fn results_pass_through() {
        assert_eq!(catch_internal_errors(|| Ok(3)), Ok(3));
    }
}
