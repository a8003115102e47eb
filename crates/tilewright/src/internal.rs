//! The driver's edge: broken invariants become diagnostics here, and only here.

use std::cell::RefCell;
use std::panic::{self, AssertUnwindSafe};

use base::{Diagnostic, Diagnostics, Result, codes};

thread_local! {
    static PLACE: RefCell<Option<String>> = const { RefCell::new(None) };
}

const REMEDY: &str = "report it with the model; it is a bug of the compiler, not of the model";

/// Runs a piece of the driver; a panic in it becomes an internal error, `TW0901`, instead of a
/// message on standard error.
///
/// # Errors
/// Those of the piece, and the internal error.
pub fn catch_internal_errors<T>(piece: impl FnOnce() -> Result<T>) -> Result<T> {
    let former = panic::take_hook();
    panic::set_hook(Box::new(|information| {
        let place = information.location().map(ToString::to_string);
        PLACE.with(|cell| *cell.borrow_mut() = place);
    }));
    let outcome = panic::catch_unwind(AssertUnwindSafe(piece));
    panic::set_hook(former);
    let outcome = outcome.map(|result| result.map_err(with_remedies));
    outcome.unwrap_or_else(|payload| {
        let message = payload
            .downcast_ref::<String>()
            .cloned()
            .or_else(|| payload.downcast_ref::<&str>().map(|text| (*text).to_owned()))
            .unwrap_or_else(|| "an invariant is broken".to_owned());
        let place = PLACE.with(|cell| cell.borrow_mut().take());
        let mut diagnostic = Diagnostic::error(codes::INTERNAL_ERROR, message)
            .because("the compiler broke one of its own invariants")
            .remedy(REMEDY);
        if let Some(place) = place {
            diagnostic = diagnostic.at(place);
        }
        Err(diagnostic.into())
    })
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
