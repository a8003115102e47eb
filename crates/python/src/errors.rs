//! Diagnostics as exceptions of the Python module `tilewright._errors`, which has the classes.

use pyo3::prelude::*;
use tilewright::{Diagnostics, Result, catch_internal_errors};

use crate::endings::detached;
use crate::forks::Stay;

/// The exception for a refusal: it carries every diagnostic with all its parts.
pub(crate) fn exception(py: Python<'_>, refused: &Diagnostics) -> PyErr {
    let rows: Vec<_> = refused
        .iter()
        .map(|it| {
            let severity = it.severity.to_string();
            (severity, it.code, &it.message, it.place.as_deref(), &it.reasons, it.remedy.as_deref())
        })
        .collect();
    let made = PyModule::import(py, "tilewright._errors")
        .and_then(|module| module.call_method1("exception", (refused.to_string(), rows)));
    made.map_or_else(|error| error, PyErr::from_value)
}

/// What `work` gives, done without the interpreter lock; a refusal is an exception.
pub(crate) fn unlocked<T: Send>(
    py: Python<'_>,
    work: impl FnOnce() -> Result<T> + Send,
) -> PyResult<T> {
    let inside = || {
        let _stay = Stay::begin();
        catch_internal_errors(work)
    };
    detached(py, inside).map_err(|refused| exception(py, &refused))
}
