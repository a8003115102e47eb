//! A compiled trace of PyTorch's operators: what `tilewright.torch` runs.
//!
//! Arrays stand for tensors here, of the same bits: those of types that NumPy lacks are unsigned
//! integers as wide. Weights are shared; when their elements have changed, [`Traced::refit`] is to
//! be called before the next run.

use std::sync::{PoisonError, RwLock};

use numpy::{PyArrayDescrMethods, PyUntypedArray, PyUntypedArrayMethods};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use tilewright::{DType, Executable, Limits, Port, Tensor, Value};

use crate::endings::detached;
use crate::errors::{exception, unlocked};
use crate::forks::Stay;
use crate::model::interruptible;
use crate::options::options;
use crate::{memory, values};

/// A compiled trace.
#[pyclass(frozen, module = "tilewright._native")]
pub(crate) struct Traced {
    /// Locked without the interpreter's lock held, which who holds it may wait for.
    executable: RwLock<Executable>,
    inputs: Vec<Port>,
}

/// The names of the operators that traces may have.
#[pyfunction]
pub(crate) fn aten_operators() -> Vec<String> {
    tilewright::aten_operators()
}

/// The nodes of a trace that are not supported: their names, with what is said of each.
#[pyfunction]
pub(crate) fn refused_nodes(py: Python<'_>, trace: &str) -> PyResult<Vec<(String, String)>> {
    let refused = unlocked(py, || tilewright::refused_nodes(trace, &Limits::default()))?;
    Ok(refused.into_iter().map(|(node, found)| (node, found.to_string())).collect())
}

/// Compiles a trace whose weights are these arrays.
#[pyfunction]
pub(crate) fn compile_trace(
    py: Python<'_>,
    trace: String,
    weights: Vec<(Bound<'_, PyUntypedArray>, String)>,
    given: &Bound<'_, PyDict>,
) -> PyResult<Traced> {
    let options = options(given)?;
    let tensor = |(array, name): &(Bound<'_, PyUntypedArray>, String)| {
        shared(array, values::dtype_of(name)?, "a weight")
    };
    let weights = weights.iter().map(tensor).collect::<PyResult<Vec<Tensor>>>()?;
    let compile = move || tilewright::compile_trace(&trace, &weights, &options);
    let executable = interruptible(py, compile)?;
    let inputs = executable.inputs().to_vec();
    Ok(Traced { executable: RwLock::new(executable), inputs })
}

/// The tensor that shares an array's elements, which are of this type.
fn shared(array: &Bound<'_, PyUntypedArray>, dtype: DType, what: &str) -> PyResult<Tensor> {
    let width = u32::try_from(8 * array.dtype().itemsize());
    if !array.is_c_contiguous() || width != Ok(dtype.bits()) {
        let message = format!("{what} is no row-major array of {dtype} without gaps");
        return Err(PyTypeError::new_err(message));
    }
    values::shared(array, dtype, array.shape())
}

impl Traced {
    /// The tensors that share the elements of arrays, one an input.
    fn tensors(&self, given: &[Bound<'_, PyUntypedArray>]) -> PyResult<Vec<Tensor>> {
        if given.len() != self.inputs.len() {
            let message = format!("{} inputs are given, not {}", given.len(), self.inputs.len());
            return Err(PyTypeError::new_err(message));
        }
        let tensor = |(array, port): (&Bound<'_, PyUntypedArray>, &Port)| {
            shared(array, port.dtype.unwrap_or(DType::F32), &format!("input `{}`", port.name))
        };
        given.iter().zip(&self.inputs).map(tensor).collect()
    }
}

#[pymethods]
impl Traced {
    /// Runs it on arrays, one an input; an array an output.
    fn run<'py>(
        &self,
        py: Python<'py>,
        given: Vec<Bound<'py, PyUntypedArray>>,
    ) -> PyResult<Bound<'py, PyList>> {
        let inputs = self.tensors(&given)?;
        let run = || self.executable.read().unwrap_or_else(PoisonError::into_inner).run(&inputs);
        let outputs = unlocked(py, run)?;
        let arrays = outputs.into_iter().map(|tensor| {
            let shape = tensor.shape().to_vec();
            memory::array_over(py, tensor, &shape)
        });
        PyList::new(py, arrays.collect::<PyResult<Vec<_>>>()?)
    }

    /// As `run`; outputs take the place of inputs, each pair an input's number and an output's, or
    /// none where the input's memory goes back to the system as soon as it has been read. In the
    /// place of such an output is nothing, or an array that is still to be copied, because the
    /// input's array cannot be written to or shares memory with another.
    fn run_updating<'py>(
        &self,
        py: Python<'py>,
        given: Vec<Bound<'py, PyUntypedArray>>,
        pairs: Vec<(usize, Option<usize>)>,
    ) -> PyResult<Vec<Option<Bound<'py, PyAny>>>> {
        let inputs = self.tensors(&given)?;
        let mut updates = memory::updates(&given, pairs);
        let run = || {
            let executable = self.executable.read().unwrap_or_else(PoisonError::into_inner);
            executable.run_updating(&inputs, &mut updates)
        };
        let outputs = unlocked(py, run)?.into_iter().map(|output| {
            let array = |tensor: Tensor| {
                let shape = tensor.shape().to_vec();
                memory::array_over(py, tensor, &shape)
            };
            output.map(array).transpose()
        });
        outputs.collect()
    }

    /// Where the time of a run on these arrays goes, as JSON and as text.
    fn explain(
        &self,
        py: Python<'_>,
        given: Vec<Bound<'_, PyUntypedArray>>,
    ) -> PyResult<(String, String)> {
        let inputs = self.tensors(&given)?;
        let inputs: Vec<Value> = inputs.into_iter().map(Value::from).collect();
        let explain = || {
            let executable = self.executable.read().unwrap_or_else(PoisonError::into_inner);
            inspect::explain(&executable, &inputs)
        };
        let found = unlocked(py, explain)?;
        let text = found.text(inspect::ListingOptions { reasons: false, top: None });
        Ok((found.json().to_string(), text))
    }

    /// Bytes of the memory for values between kernels, of what has been compiled so far.
    fn arena_bytes(&self, py: Python<'_>) -> usize {
        let arena = || {
            let executable = self.executable.read().unwrap_or_else(PoisonError::into_inner);
            executable.statistics().arena_bytes
        };
        detached(py, arena)
    }

    /// Computes anew what is made of the weights ahead of runs.
    fn refit(&self, py: Python<'_>) -> PyResult<()> {
        let refit = || {
            let _stay = Stay::begin();
            let mut executable = self.executable.write().unwrap_or_else(PoisonError::into_inner);
            tilewright::catch_internal_errors(|| executable.refit())
        };
        detached(py, refit).map_err(|refused| exception(py, &refused))
    }
}
