//! Models of bytes.

use std::path::PathBuf;

use ::quantise::{CalibrationSample, Method, QuantiseOptions, Scheme};
use bytes::Bytes;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::{PyBytes, PyDict};
use tilewright::compiled::DecodedModel;
use tilewright::{DType, Options};

use crate::errors::unlocked;
use crate::model::{interruptible, values_for};
use crate::options::options;

/// The quantised file, the report as JSON and as text.
#[pyfunction]
pub(crate) fn quantise<'py>(
    py: Python<'py>,
    model: &Bound<'py, PyAny>,
    samples: Vec<Bound<'py, PyAny>>,
    given: &Bound<'py, PyDict>,
    how: &Bound<'py, PyDict>,
) -> PyResult<(Bound<'py, PyBytes>, String, String)> {
    let options = options(given)?;
    let limits = options.limits.clone();
    let model = match model.cast::<PyBytes>() {
        Ok(bytes) => {
            let bytes = Bytes::from_owner(PyBackedBytes::from(bytes.clone()));
            unlocked(py, || DecodedModel::of(bytes, &limits))?
        }
        Err(_) => {
            let path: PathBuf = model.extract()?;
            unlocked(py, || DecodedModel::read(&path, &limits))?
        }
    };
    let ports = model.info().inputs;
    let ports: Vec<_> = ports.into_iter().map(|port| port.with_extents(&options.dims)).collect();
    let sample = |given: &Bound<'py, PyAny>| -> PyResult<CalibrationSample> {
        let values = values_for(&ports, given)?;
        let check = || ports.iter().zip(&values).try_for_each(|(port, value)| port.check(value));
        unlocked(py, check)?;
        Ok(values)
    };
    let samples = samples.iter().map(sample).collect::<PyResult<Vec<_>>>()?;
    let settings = settings(how, options)?;
    let made = interruptible(py, move || ::quantise::quantise(&model, &samples, &settings))?;
    let bytes = PyBytes::new(py, &made.model.encode());
    Ok((bytes, made.report.json().to_string(), made.report.to_string()))
}

fn settings(how: &Bound<'_, PyDict>, options: Options) -> PyResult<QuantiseOptions> {
    let mut settings = QuantiseOptions { options, ..QuantiseOptions::default() };
    let (mut percentile, mut block, mut weights) = (99.99, 32, None);
    for (key, value) in how {
        let key: String = key.extract()?;
        match key.as_str() {
            "dynamic" if value.extract()? => settings.scheme = Scheme::Dynamic,
            "dynamic" => {}
            "weights" => weights = Some(weights_of(&value.extract::<String>()?)?),
            "block" => block = value.extract()?,
            "method" => settings.method = method_of(&value.extract::<String>()?)?,
            "percentile" => percentile = value.extract()?,
            "equalise" => settings.equalise = value.extract()?,
            "correct_bias" => settings.correct_bias = value.extract()?,
            "compensate" => settings.compensate = value.extract()?,
            "keep_float" => {
                settings.keep_float = value.extract::<Vec<String>>()?.into_iter().collect();
            }
            "max_loss" => {
                let parsed = value.extract::<String>()?.parse();
                settings.most = Some(parsed.map_err(PyValueError::new_err)?);
            }
            _ => return Err(PyTypeError::new_err(format!("there is no setting {key:?}"))),
        }
    }
    if let Some(dtype) = weights {
        let block = (block > 0).then_some(block);
        settings.scheme = Scheme::Weights { dtype, block };
    }
    if let Method::Percentile(kept) = &mut settings.method {
        *kept = percentile;
    }
    Ok(settings)
}

fn weights_of(name: &str) -> PyResult<DType> {
    match name {
        "int8" => Ok(DType::I8),
        "int4" => Ok(DType::I4),
        _ => Err(PyValueError::new_err(format!("weights: {name:?} is neither int8 nor int4"))),
    }
}

fn method_of(name: &str) -> PyResult<Method> {
    match name {
        "min-max" => Ok(Method::MinMax),
        "percentile" => Ok(Method::Percentile(99.99)),
        "entropy" => Ok(Method::Entropy),
        "mse" => Ok(Method::MeanSquaredError),
        _ => {
            let message = format!("method: {name:?} is none of min-max, percentile, entropy, mse");
            Err(PyValueError::new_err(message))
        }
    }
}
