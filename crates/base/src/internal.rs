//! The edge of a program that compiles: broken invariants become diagnostics here, and only here.

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
        Err(panics::Caught { message, place }) => {
            let message = message.unwrap_or_else(|| "an invariant is broken".to_owned());
            let diagnostic = Diagnostic::error(codes::INTERNAL_ERROR, message)
                .because("the compiler broke one of its own invariants")
                .remedy(REMEDY);
            Err(place.into_iter().fold(diagnostic, Diagnostic::at).into())
        }
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
    fn results_pass_through() {
        assert_eq!(catch_internal_errors(|| Ok(3)), Ok(3));
    }
}
