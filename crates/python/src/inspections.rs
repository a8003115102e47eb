//! What looks at models: explain, verify, measure, diff, compare, each as text and numbers.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use inspect::{
    Counterpart, KernelVerdict, ListingOptions, Peer, PeerRow, PeerVerdict, VERIFY_OPERATIONS,
};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use tilewright::Value;

use crate::errors::unlocked;
use crate::model::Model;
use crate::options::options;

/// Extents for the dimensions that neither options nor inputs bind, the smallest that work.
#[pyfunction]
pub(crate) fn smallest_extents(
    py: Python<'_>,
    path: PathBuf,
    given: &Bound<'_, PyDict>,
) -> PyResult<BTreeMap<String, i64>> {
    let options = options(given)?;
    unlocked(py, || inspect::smallest_extents(&path, &options, &BTreeMap::new()))
}

/// The explanation as JSON and as text.
#[pyfunction]
pub(crate) fn explain(
    py: Python<'_>,
    model: &Bound<'_, Model>,
    given: &Bound<'_, PyAny>,
    reasons: bool,
    top: Option<usize>,
) -> PyResult<(String, String)> {
    let model = model.get();
    let inputs = model.inputs(given)?;
    let explanation = unlocked(py, || inspect::explain(&model.executable, &inputs))?;
    let text = explanation.text(ListingOptions { reasons, top });
    Ok((explanation.json().to_string(), text))
}

/// The explorer's page, whole, under this title; with another model beside it, if one is given.
#[pyfunction]
pub(crate) fn explore(
    py: Python<'_>,
    title: String,
    model: &Bound<'_, Model>,
    given: &Bound<'_, PyAny>,
    label: String,
    other: Option<(Bound<'_, Model>, Bound<'_, PyAny>, String)>,
) -> PyResult<String> {
    let own = model.get();
    let inputs = own.inputs(given)?;
    let mut builds = vec![unlocked(py, || inspect::explore(&own.executable, &inputs, label))?];
    if let Some((other, given, label)) = other {
        let other = other.get();
        let inputs = other.inputs(&given)?;
        builds.push(unlocked(py, || inspect::explore(&other.executable, &inputs, label))?);
    }
    Ok(inspect::page(&title, &builds))
}

/// Of an output its name, its error, the most that is allowed, and what is wrong.
type OutputRow = (String, f64, f64, Option<String>);

/// Of a kernel its name, the nodes that it computes, whether it was compared, and what is wrong, or
/// why it was not.
type KernelRow = (String, Vec<String>, bool, Option<String>);

/// What `verify` found: whether all is right, the text, outputs, kernels, where outputs become
/// wrong, and, of a sample, what it is of.
type Verified = (bool, String, Vec<OutputRow>, Vec<KernelRow>, Vec<String>, Option<String>);

/// Compares every kernel and output with the reference.
#[pyfunction]
pub(crate) fn verify(
    py: Python<'_>,
    model: &Bound<'_, Model>,
    given: &Bound<'_, PyAny>,
    all: bool,
) -> PyResult<Verified> {
    let model = model.get();
    let inputs = model.inputs(given)?;
    let most = if all { u64::MAX } else { VERIFY_OPERATIONS };
    let verify = || inspect::verify(&model.executable, &inputs, most, &mut |_, _, _| {});
    let report = unlocked(py, verify)?;
    let (passed, text) = (report.passed(), report.to_string());
    let sample = report.sample.as_ref().map(ToString::to_string);
    let outputs = report.outputs.into_iter().map(|it| (it.name, it.error, it.most, it.failure));
    let of = |rows: Vec<KernelVerdict>, is_compared: bool| {
        rows.into_iter().map(move |it| (it.kernel, it.nodes, is_compared, it.failure))
    };
    let kernels = of(report.kernels, true).chain(of(report.not_compared, false));
    Ok((passed, text, outputs.collect(), kernels.collect(), report.blame, sample))
}

/// Compiles and times a model on these inputs: what was measured, as JSON.
#[pyfunction]
pub(crate) fn bench(
    py: Python<'_>,
    path: PathBuf,
    given: &Bound<'_, PyDict>,
    model: &Bound<'_, Model>,
    inputs: &Bound<'_, PyAny>,
    seconds: f64,
) -> PyResult<String> {
    let options = options(given)?;
    let inputs = model.get().inputs(inputs)?;
    let found = unlocked(py, || inspect::measure(&path, &options, seconds, |_| Ok(inputs)))?;
    Ok(found.measurement.json().to_string())
}

/// A node, a value's name, how it differs, the nodes that it takes, and the text.
type DifferenceParts = (String, String, String, Vec<String>, String);

/// The first node whose value differs between two configurations, the value's name, how, the nodes
/// that it takes, and the text; `other` holds the options of the other configuration, or is nothing
/// for the evaluator.
#[pyfunction]
pub(crate) fn diff(
    py: Python<'_>,
    path: PathBuf,
    given: &Bound<'_, PyDict>,
    other: Option<&Bound<'_, PyDict>>,
    model: &Bound<'_, Model>,
    inputs: &Bound<'_, PyAny>,
) -> PyResult<Option<DifferenceParts>> {
    let own = options(given)?;
    let other = match other {
        None => Counterpart::Evaluator,
        Some(other) => Counterpart::Compiled(Box::new(options(other)?)),
    };
    let inputs: Vec<Value> = model.get().inputs(inputs)?;
    let tolerance = Default::default();
    let found =
        unlocked(py, || inspect::diff(&path, &own, &other, &inputs, tolerance, &mut |_| {}))?;
    Ok(found.map(|it| {
        let text = it.to_string();
        (it.node, it.value, it.comparison, it.nodes, text)
    }))
}

/// A tensor that both gave: the node, its name, its type; the largest differences of elements,
/// absolute and relative; the verdict in a word and whether it is good; the errors of this and of
/// the peer against the model in f64, and the most that rounding explains.
type PeerRowParts = (
    (Option<String>, String, String),
    Option<(f64, f64)>,
    (&'static str, bool),
    Option<(f64, f64, f64)>,
);

/// Whether ONNX Runtime gives the same, the text, the peer's name and a row a tensor; `peer` is the
/// Python that has it, whether node by node, and after how many seconds it is ended.
#[pyfunction]
pub(crate) fn compare(
    model: &Bound<'_, Model>,
    path: PathBuf,
    given: &Bound<'_, PyDict>,
    inputs: &Bound<'_, PyAny>,
    peer: (PathBuf, bool, u64),
) -> PyResult<(bool, String, String, Vec<PeerRowParts>)> {
    let (py, own, (python, by_nodes, seconds)) = (model.py(), options(given)?, peer);
    let inputs: Vec<Value> = model.get().inputs(inputs)?;
    let peer = Peer { python, limit: Duration::from_secs(seconds) };
    let found =
        unlocked(py, || inspect::compare(&path, &own, &inputs, &peer, by_nodes, &mut |_| {}))?;
    let (passed, text) = (found.passed(), found.text(true));
    let row = |row: PeerRow| {
        let deviation = row.deviation.filter(|it| it.type_error.is_none());
        let errors = match &row.verdict {
            PeerVerdict::Rounded(errors)
            | PeerVerdict::PeerOff { errors, .. }
            | PeerVerdict::OwnOff(errors)
            | PeerVerdict::BothOff(errors) => Some((errors.own, errors.peer, errors.most)),
            _ => None,
        };
        let verdict = (row.verdict.word(), row.verdict.is_good());
        let place = (row.node, row.name, row.ty);
        (place, deviation.map(|it| (it.max_abs, it.max_rel)), verdict, errors)
    };
    Ok((passed, text, found.peer, found.rows.into_iter().map(row).collect()))
}
