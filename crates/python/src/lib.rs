//! The module `tilewright._native`: what the Python package has of the compiler.
//!
//! It is thin. A model is a [`model::Model`], one of language a [`language::Language`]; values of
//! Python become values of the compiler and back in `values`, memory that both share in `memory`,
//! diagnostics become exceptions in `errors`. All that is shaped after another package, and every
//! conversion that takes more than sharing memory, is Python (`python/tilewright`). `forks` makes
//! forks safe, `endings` the end of the interpreter.
//!
//! Invariants: the interpreter lock is held while Python's objects are touched, and released while
//! a model is compiled, run or looked at; no panic crosses into Python.

mod endings;
mod errors;
mod forks;
mod inspections;
mod language;
mod memory;
mod model;
mod options;
mod quantising;
mod traced;
mod values;

use pyo3::prelude::*;

#[pymodule]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_function(wrap_pyfunction!(endings::before_end, module)?)?;
    module.add_function(wrap_pyfunction!(forks::before_fork, module)?)?;
    module.add_function(wrap_pyfunction!(forks::after_fork, module)?)?;
    module.add_class::<model::Model>()?;
    module.add_class::<model::Binding>()?;
    module.add_class::<memory::Memory>()?;
    module.add_function(wrap_pyfunction!(model::compile, module)?)?;
    module.add_function(wrap_pyfunction!(inspections::smallest_extents, module)?)?;
    module.add_function(wrap_pyfunction!(inspections::explain, module)?)?;
    module.add_function(wrap_pyfunction!(inspections::explore, module)?)?;
    module.add_function(wrap_pyfunction!(inspections::verify, module)?)?;
    module.add_function(wrap_pyfunction!(inspections::bench, module)?)?;
    module.add_function(wrap_pyfunction!(inspections::diff, module)?)?;
    module.add_function(wrap_pyfunction!(inspections::compare, module)?)?;
    module.add_function(wrap_pyfunction!(quantising::quantise, module)?)?;
    module.add_class::<language::Language>()?;
    module.add_class::<language::Text>()?;
    module.add_function(wrap_pyfunction!(language::read_language, module)?)?;
    module.add_class::<traced::Traced>()?;
    module.add_function(wrap_pyfunction!(traced::aten_operators, module)?)?;
    module.add_function(wrap_pyfunction!(traced::refused_nodes, module)?)?;
    module.add_function(wrap_pyfunction!(traced::compile_trace, module)?)?;
    module.add_function(wrap_pyfunction!(model::runs_here, module)?)
}
