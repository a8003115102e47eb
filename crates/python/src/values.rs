//! Values of Python as values of models, and back.
//!
//! An array of NumPy's own types that lies row-major and without gaps is shared. All else is asked
//! of the module `tilewright._arrays`: it makes such arrays of what callers have, and, of those
//! that NumPy has no type for, what callers expect.

use numpy::{PyUntypedArray, PyUntypedArrayMethods};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyList};
use tilewright::{DType, Keys, Kind, Port, Tensor, Value};

use crate::memory;

/// A function of `tilewright._arrays`, looked up once.
fn helper<'py>(
    py: Python<'py>,
    cell: &'static PyOnceLock<Py<PyAny>>,
    name: &str,
) -> PyResult<Bound<'py, PyAny>> {
    let found = cell.get_or_try_init(py, || {
        PyModule::import(py, "tilewright._arrays")?.getattr(name).map(Bound::unbind)
    })?;
    Ok(found.bind(py).clone())
}

/// The element type of a name, as texts of the compiler have it.
pub(crate) fn dtype_of(name: &str) -> PyResult<DType> {
    let found = DType::all().find(|dtype| dtype.name() == name);
    found.ok_or_else(|| pyo3::exceptions::PyTypeError::new_err(format!("no element type {name}")))
}

/// The tensor that a value given for a port is.
pub(crate) fn tensor(value: &Bound<'_, PyAny>, port: &Port) -> PyResult<Tensor> {
    if let Ok(array) = value.cast_exact::<PyUntypedArray>()
        && array.is_c_contiguous()
        && let Some(dtype) = memory::native_dtype(&array.dtype())
        && port.dtype.is_none_or(|wanted| wanted == dtype)
    {
        return shared(array, dtype, array.shape());
    }
    static PREPARE: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let py = value.py();
    let wanted = port.dtype.map(DType::name);
    let prepared = helper(py, &PREPARE, "prepare")?.call1((value, &port.name, wanted))?;
    let (name, shape, elements): (String, Vec<usize>, Bound<'_, PyAny>) = prepared.extract()?;
    let dtype = dtype_of(&name)?;
    if dtype == DType::String {
        let texts: Vec<String> = elements.extract()?;
        return Ok(Tensor::from_strings(&shape, texts));
    }
    shared(elements.cast::<PyUntypedArray>()?, dtype, &shape)
}

pub(crate) fn shared(
    array: &Bound<'_, PyUntypedArray>,
    dtype: DType,
    shape: &[usize],
) -> PyResult<Tensor> {
    let made = Tensor::from_bytes(dtype, shape, memory::lend(array));
    made.map_err(pyo3::exceptions::PyValueError::new_err)
}

/// The value of this kind that is given for a port.
pub(crate) fn value(given: &Bound<'_, PyAny>, port: &Port, kind: &Kind) -> PyResult<Value> {
    Ok(match kind {
        Kind::Tensor => Value::Tensor(tensor(given, port)?),
        Kind::Optional(_) if given.is_none() => Value::Optional(None),
        Kind::Optional(held) => Value::Optional(Some(Box::new(value(given, port, held)?))),
        Kind::Sequence(held) => {
            let values = given.try_iter()?.map(|it| value(&it?, port, held));
            Value::Sequence(values.collect::<PyResult<_>>()?)
        }
        Kind::Map => {
            let map = given.cast::<PyDict>()?;
            Value::Map(keys(map)?, numbers(&map.values(), port, &[map.len()])?)
        }
        Kind::Maps => {
            let maps: Vec<Bound<'_, PyDict>> = given.extract()?;
            let (rows, first) = (maps.len(), maps.first());
            let (keys, count) = match first {
                Some(first) => (keys(first)?, first.len()),
                None => (Keys::Integers(Vec::new()), 0),
            };
            let all = PyList::empty(given.py());
            for map in &maps {
                let own = first.map_or(Ok(PyList::empty(given.py())), |first| {
                    let values = first.keys().iter().map(|key| map.as_any().get_item(key));
                    PyList::new(given.py(), values.collect::<PyResult<Vec<_>>>()?)
                })?;
                own.iter().try_for_each(|it| all.append(it))?;
            }
            Value::Maps(keys, numbers(&all, port, &[rows, count])?)
        }
    })
}

fn keys(map: &Bound<'_, PyDict>) -> PyResult<Keys> {
    let keys = map.keys();
    match keys.extract::<Vec<i64>>() {
        Ok(numbers) => Ok(Keys::Integers(numbers)),
        Err(_) => keys.extract().map(Keys::Strings),
    }
}

/// The numbers of maps, in the type that the port declares, else f32.
fn numbers(values: &Bound<'_, PyList>, port: &Port, shape: &[usize]) -> PyResult<Tensor> {
    let numbers: Vec<f64> = values.extract()?;
    let dtype = port.dtype.filter(|dtype| *dtype != DType::String).unwrap_or(DType::F32);
    Ok(Tensor::from_vec(shape, numbers).cast(dtype))
}

/// An array of a tensor's elements.
pub(crate) fn array<'py>(py: Python<'py>, tensor: Tensor) -> PyResult<Bound<'py, PyAny>> {
    let (dtype, shape) = (tensor.dtype(), tensor.shape().to_vec());
    static PRESENT: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let present = |elements: Bound<'py, PyAny>| {
        helper(py, &PRESENT, "present")?.call1((elements, dtype.name(), &shape))
    };
    match tensor.strings() {
        Some(texts) => present(PyList::new(py, texts)?.into_any()),
        None if dtype.bits() < 8 => {
            let packed = tensor.packed_bytes();
            let count = packed.len();
            present(memory::array_over(py, packed, &[count])?)
        }
        None => {
            let own = memory::native_dtype(&memory::array_dtype(py, dtype)?) == Some(dtype);
            let made = memory::array_over(py, tensor, &shape)?;
            if own { Ok(made) } else { present(made) }
        }
    }
}

/// What a caller gets for a value: an array, a list, nothing, a dictionary or a list of such.
pub(crate) fn object(py: Python<'_>, value: Value) -> PyResult<Bound<'_, PyAny>> {
    Ok(match value {
        Value::Tensor(tensor) => array(py, tensor)?,
        Value::Optional(None) => py.None().into_bound(py),
        Value::Optional(Some(held)) => object(py, *held)?,
        Value::Sequence(values) => {
            let values = values.into_iter().map(|it| object(py, it)).collect::<PyResult<Vec<_>>>();
            PyList::new(py, values?)?.into_any()
        }
        Value::Map(keys, numbers) => map(py, &keys, &numbers, 0)?.into_any(),
        Value::Maps(keys, numbers) => {
            let rows = numbers.shape().first().copied().unwrap_or(0);
            let maps = (0..rows).map(|row| map(py, &keys, &numbers, row));
            PyList::new(py, maps.collect::<PyResult<Vec<_>>>()?)?.into_any()
        }
    })
}

/// The map of a row of numbers.
fn map<'py>(
    py: Python<'py>,
    keys: &Keys,
    numbers: &Tensor,
    row: usize,
) -> PyResult<Bound<'py, PyDict>> {
    let map = PyDict::new(py);
    let (count, class) = (keys.len(), numbers.dtype());
    for place in 0..count {
        let index = row * count + place;
        let number = match numbers.strings() {
            Some(texts) => texts[index].as_str().into_pyobject(py)?.into_any(),
            None if class.is_float() => numbers.get_f64(index).into_pyobject(py)?.into_any(),
            None => numbers.get_scalar(index).as_i64().into_pyobject(py)?.into_any(),
        };
        match keys {
            Keys::Integers(keys) => map.set_item(keys[place], number)?,
            Keys::Strings(keys) => map.set_item(&keys[place], number)?,
        }
    }
    Ok(map)
}
