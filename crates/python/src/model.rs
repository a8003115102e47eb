//! A compiled model, and inputs and outputs that stay bound to it from run to run.

use std::path::PathBuf;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use numpy::PyUntypedArray;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::{PyBytes, PyDict, PyList};
use tilewright::{
    Diagnostics, Executable, Kind, Port, PortExtent, Tensor, Value, catch_internal_errors,
};

use crate::endings::detached;
use crate::errors::{exception, unlocked};
use crate::forks::Stay;
use crate::options::options;
use crate::{memory, values};

/// How often a compile is left to see whether the user wants to end it.
const BETWEEN_SIGNALS: Duration = Duration::from_millis(50);

/// A compiled model.
#[pyclass(frozen, module = "tilewright._native")]
pub(crate) struct Model {
    pub(crate) executable: Arc<Executable>,
}

/// An extent as Python has it: an integer, a name, or nothing where any axes are meant.
#[derive(IntoPyObject)]
enum Extent {
    Fixed(usize),
    Named(String),
}

/// The name, the element type, the extents and the kind of a port.
type PortRow = (String, Option<&'static str>, Option<Vec<Extent>>, String);

fn kind_name(kind: &Kind) -> String {
    match kind {
        Kind::Tensor => "tensor".to_owned(),
        Kind::Sequence(held) => format!("sequence {}", kind_name(held)),
        Kind::Optional(held) => format!("optional {}", kind_name(held)),
        Kind::Maps => "maps".to_owned(),
        Kind::Map => "map".to_owned(),
    }
}

fn port_row(port: &Port) -> PortRow {
    let extents = port.shape.iter().map(|extent| match extent {
        PortExtent::Fixed(extent) => Some(Extent::Fixed(*extent)),
        PortExtent::Symbolic(name) => Some(Extent::Named(name.clone())),
        PortExtent::Any => None,
    });
    let dtype = port.dtype.map(|dtype| dtype.name());
    (port.name.clone(), dtype, extents.collect(), kind_name(&port.kind))
}

/// Whether this machine can run what is compiled for it.
#[pyfunction]
pub(crate) fn runs_here() -> bool {
    tilewright::runs_here()
}

/// Compiles a model from a path or from bytes, on a thread of its own: who interrupts it has the
/// prompt back at once, while that thread ends what it had begun and drops it.
#[pyfunction]
pub(crate) fn compile(
    py: Python<'_>,
    model: &Bound<'_, PyAny>,
    given: &Bound<'_, PyDict>,
) -> PyResult<Model> {
    let options = options(given)?;
    let executable = match model.cast::<PyBytes>() {
        Ok(bytes) => {
            let bytes = Bytes::from_owner(PyBackedBytes::from(bytes.clone()));
            interruptible(py, move || tilewright::compile_bytes(bytes, &options))?
        }
        Err(_) => {
            let path: PathBuf = model.extract()?;
            interruptible(py, move || tilewright::compile(path, &options))?
        }
    };
    Ok(Model { executable: Arc::new(executable) })
}

/// What `work` gives; signals are seen to meanwhile.
pub(crate) fn interruptible<T: Send + 'static>(
    py: Python<'_>,
    work: impl FnOnce() -> tilewright::Result<T> + Send + 'static,
) -> PyResult<T> {
    let (sender, receiver) = channel();
    let receiver = Mutex::new(receiver);
    std::thread::Builder::new()
        .name("tilewright compile".to_owned())
        // As deep as the main thread's: graphs within graphs are walked by recursion.
        .stack_size(8 << 20)
        .spawn(move || {
            let made = {
                let _stay = Stay::begin();
                catch_internal_errors(work)
            };
            // Nobody waits for what was interrupted.
            let _ = sender.send(made);
        })?;
    loop {
        let wait = || {
            let receiver = receiver.lock().unwrap_or_else(PoisonError::into_inner);
            receiver.recv_timeout(BETWEEN_SIGNALS)
        };
        match detached(py, wait) {
            Ok(outcome) => return outcome.map_err(|refused| exception(py, &refused)),
            Err(RecvTimeoutError::Timeout) => py.check_signals()?,
            Err(RecvTimeoutError::Disconnected) => {
                return Err(PyRuntimeError::new_err("the thread of a compile ended early"));
            }
        }
    }
}

/// The values given for ports, a dictionary by name or a list in the order of the ports.
pub(crate) fn values_for(ports: &[Port], given: &Bound<'_, PyAny>) -> PyResult<Vec<Value>> {
    if let Ok(feed) = given.cast::<PyDict>() {
        return named_values(ports, feed);
    }
    let py = given.py();
    let given: Vec<Bound<'_, PyAny>> = given.extract()?;
    if given.len() > ports.len() {
        let message = format!("{} inputs are given, the model has {}", given.len(), ports.len());
        return Err(pyo3::exceptions::PyTypeError::new_err(message));
    }
    if let Some(port) = ports.get(given.len()) {
        return Err(exception(py, &port.missing().into()));
    }
    ports.iter().zip(&given).map(|(port, it)| values::value(it, port, &port.kind)).collect()
}

fn named_values(ports: &[Port], feed: &Bound<'_, PyDict>) -> PyResult<Vec<Value>> {
    let py = feed.py();
    let mut inputs = Vec::with_capacity(ports.len());
    let mut refused = Diagnostics::new();
    for port in ports {
        match feed.get_item(&port.name)? {
            Some(given) => inputs.push(values::value(&given, port, &port.kind)?),
            None if matches!(port.kind, Kind::Optional(_)) => inputs.push(Value::Optional(None)),
            None => refused.push(port.missing()),
        }
    }
    if feed.len() > ports.len() || !refused.is_empty() {
        for name in feed.keys() {
            let name: String = name.extract()?;
            if !ports.iter().any(|port| port.name == name) {
                refused.push(tilewright::unknown_input(&name, ports));
            }
        }
    }
    if refused.is_empty() { Ok(inputs) } else { Err(exception(py, &refused)) }
}

impl Model {
    /// The values given for its inputs.
    pub(crate) fn inputs(&self, given: &Bound<'_, PyAny>) -> PyResult<Vec<Value>> {
        values_for(self.executable.inputs(), given)
    }

    fn outputs_are_tensors(&self) -> bool {
        self.executable.outputs().iter().all(|port| port.kind == Kind::Tensor)
    }

    fn run_values(&self, py: Python<'_>, inputs: Vec<Value>) -> PyResult<Vec<Value>> {
        let executable = &self.executable;
        if self.outputs_are_tensors() && inputs.iter().all(|it| it.as_tensor().is_some()) {
            let tensors: Vec<Tensor> = inputs.into_iter().filter_map(Value::into_tensor).collect();
            let outputs = unlocked(py, || executable.run(&tensors))?;
            return Ok(outputs.into_iter().map(Value::from).collect());
        }
        unlocked(py, || executable.run_values(&inputs))
    }
}

#[pymethods]
impl Model {
    /// Rows of inputs: name, element type, extents, kind.
    #[getter]
    fn input_rows(&self) -> Vec<PortRow> {
        self.executable.inputs().iter().map(port_row).collect()
    }

    /// Rows of outputs.
    #[getter]
    fn output_rows(&self) -> Vec<PortRow> {
        self.executable.outputs().iter().map(port_row).collect()
    }

    #[getter]
    fn target(&self) -> String {
        self.executable.target().name.clone()
    }

    #[getter]
    fn threads(&self) -> usize {
        self.executable.threads()
    }

    /// Numbers and bytes of what has been compiled so far.
    fn statistics<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let statistics = self.executable.statistics();
        let rows = PyDict::new(py);
        rows.set_item("kernels", statistics.kernels)?;
        rows.set_item("code_bytes", statistics.code_bytes)?;
        rows.set_item("constant_bytes", statistics.constant_bytes)?;
        rows.set_item("arena_bytes", statistics.arena_bytes)?;
        Ok(rows)
    }

    /// What the model's file says of it.
    fn metadata<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let rows = PyDict::new(py);
        if let Some(info) = self.executable.source().info() {
            rows.set_item("producer_name", info.producer_name)?;
            rows.set_item("graph_name", info.name)?;
            rows.set_item("graph_description", info.graph_description)?;
            rows.set_item("domain", info.domain)?;
            rows.set_item("description", info.description)?;
            rows.set_item("version", info.version)?;
            rows.set_item("custom_metadata_map", info.metadata)?;
        }
        Ok(rows)
    }

    /// One value an input, random where the model says enough of it.
    fn random_inputs<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let ports = self.executable.inputs().iter().enumerate();
        let arrays = ports.map(|(number, port)| {
            let made = port.random(number as u64);
            values::array(py, made.map_err(|refused| exception(py, &refused))?)
        });
        PyList::new(py, arrays.collect::<PyResult<Vec<_>>>()?)
    }

    /// Runs the model; the outputs of these numbers, or all.
    #[pyo3(signature = (given, wanted=None))]
    fn run<'py>(
        &self,
        py: Python<'py>,
        given: &Bound<'py, PyAny>,
        wanted: Option<Vec<usize>>,
    ) -> PyResult<Bound<'py, PyList>> {
        let inputs = self.inputs(given)?;
        let outputs = self.run_values(py, inputs)?;
        let chosen: Vec<Value> = match wanted {
            None => outputs,
            Some(wanted) => {
                wanted.iter().filter_map(|&number| outputs.get(number).cloned()).collect()
            }
        };
        let objects = chosen.into_iter().map(|it| values::object(py, it));
        PyList::new(py, objects.collect::<PyResult<Vec<_>>>()?)
    }

    /// Saves what has been compiled as an engine file.
    fn save(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        unlocked(py, || self.executable.save(path))
    }

    /// Makes the code for these inputs now.
    fn prepare(&self, py: Python<'_>, given: &Bound<'_, PyAny>) -> PyResult<()> {
        let inputs = self.inputs(given)?;
        let tensors: Vec<Tensor> = inputs.into_iter().filter_map(Value::into_tensor).collect();
        unlocked(py, || self.executable.prepare(&tensors))
    }
}

/// Inputs that are converted once and outputs whose memory is used again, for a model that has
/// tensors alone.
#[pyclass(frozen, module = "tilewright._native")]
pub(crate) struct Binding {
    executable: Arc<Executable>,
    state: Mutex<BoundValues>,
}

#[derive(Default)]
struct BoundValues {
    inputs: Vec<Tensor>,
    outputs: Vec<Tensor>,
    /// Outputs by number whose elements are copied into an array after each run.
    targets: Vec<(usize, Py<PyUntypedArray>)>,
    /// Whether arrays over the outputs' memory have been given away, which later runs leave alone.
    given_away: bool,
}

#[pymethods]
impl Binding {
    #[new]
    fn new(model: &Bound<'_, Model>) -> Binding {
        Binding { executable: model.get().executable.clone(), state: Mutex::default() }
    }

    /// Binds a value for each input.
    fn bind(&self, given: &Bound<'_, PyAny>) -> PyResult<()> {
        let model = Model { executable: self.executable.clone() };
        let inputs = model.inputs(given)?;
        let inputs = inputs.into_iter().filter_map(Value::into_tensor).collect();
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let before = std::mem::replace(&mut state.inputs, inputs);
        // Arrays that go may run code of anybody's, which may ask for the lock.
        drop(state);
        drop(before);
        Ok(())
    }

    /// Binds arrays for outputs of these numbers, and for no others.
    fn bind_targets(&self, targets: Vec<(usize, Py<PyUntypedArray>)>) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let before = std::mem::replace(&mut state.targets, targets);
        drop(state);
        drop(before);
    }

    /// Runs the model on what is bound; the numbers of outputs that do not fit the arrays bound for
    /// them.
    fn run(&self, py: Python<'_>) -> PyResult<Vec<usize>> {
        self.compute(py)?;
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let unfit = state.targets.iter().filter(|(number, array)| {
            let output = state.outputs.get(*number);
            !output.is_some_and(|output| memory::fill(array.bind(py), output))
        });
        Ok(unfit.map(|(number, _)| *number).collect())
    }

    /// The outputs of the last run.
    fn outputs<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let outputs = {
            let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            state.given_away = true;
            std::mem::take(&mut state.outputs)
        };
        PyList::new(
            py,
            outputs.into_iter().map(|it| values::array(py, it)).collect::<PyResult<Vec<_>>>()?,
        )
    }
}

impl Binding {
    /// Runs the model into the memory of the run before, if nobody else holds it.
    fn compute(&self, py: Python<'_>) -> PyResult<()> {
        let executable = &self.executable;
        unlocked(py, || {
            let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            let state = &mut *state;
            if state.given_away || state.outputs.is_empty() {
                state.outputs = executable.run(&state.inputs)?;
                state.given_away = false;
                return Ok(());
            }
            let done = executable.run_into(&state.inputs, &mut state.outputs);
            if done.is_err() {
                // Outputs of other shapes than before: memory of their own.
                state.outputs = executable.run(&state.inputs)?;
            }
            Ok(())
        })
    }
}
