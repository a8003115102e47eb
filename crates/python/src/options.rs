//! Options of a compile, as the package gives them: a dictionary whose keys are checked there.

use std::collections::BTreeMap;

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use tilewright::{Activations, Options, Precision};

/// The options that a dictionary holds; what it does not name is as `Options::default` has it.
pub(crate) fn options(given: &Bound<'_, PyDict>) -> PyResult<Options> {
    let mut options = Options::default();
    for (key, value) in given {
        let key: String = key.extract()?;
        match key.as_str() {
            "target" => options = options.with_target(value.extract::<String>()?),
            "threads" => options.threads = Some(value.extract()?),
            "dims" => options.dims = value.extract()?,
            "shapes" => options.input_shapes = value.extract()?,
            "symbolic" => options.symbolic = value.extract()?,
            "without_passes" => options.disabled = value.extract::<Vec<_>>()?.into_iter().collect(),
            "precision" => options.precision = precision(&value.extract::<String>()?)?,
            "activations" => options.activations = activations(&value.extract::<String>()?)?,
            "limits" => {
                for (name, most) in value.extract::<BTreeMap<String, u64>>()? {
                    options.limits.set(&name, most).map_err(|reason| {
                        PyValueError::new_err(format!("limits[{name:?}]: {reason}"))
                    })?;
                }
            }
            _ => return Err(PyTypeError::new_err(format!("there is no option {key:?}"))),
        }
    }
    Ok(options)
}

fn precision(name: &str) -> PyResult<Precision> {
    match name {
        "f32" => Ok(Precision::F32),
        "bf16" => Ok(Precision::Bf16),
        _ => {
            let message = format!("precision: {name:?} is neither \"f32\" nor \"bf16\"");
            Err(PyValueError::new_err(message))
        }
    }
}

fn activations(name: &str) -> PyResult<Activations> {
    match name {
        "as-given" => Ok(Activations::AsGiven),
        "int8" => Ok(Activations::Int8),
        _ => {
            let message = format!("activations: {name:?} is neither \"as-given\" nor \"int8\"");
            Err(PyValueError::new_err(message))
        }
    }
}
