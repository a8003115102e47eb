//! One case of a conformance suite: a model with inputs and the outputs that are right, or a
//! StableHLO program that checks its own values.
//!
//! A case is a folder with `model.onnx`, perhaps `tol.json`, and data: folders `test_data_set_<i>`
//! with `input_<j>.pb` and `output_<j>.pb`, or `io.npz` with an array a name. An archive may hold
//! some of the outputs only, one of them under an inner name, and comes from whatever the model was
//! made of: extents of 1 and the width of floats are not compared.
//!
//! An output agrees if its name, element type and shape are those recorded, and its elements are
//! within the tolerance: that of `tol.json`, but at least 1e-5 absolute, 1e-4 for Fourier
//! transforms; where products are rounded to bf16, 2^-6 of both kinds. Of a model that draws random
//! numbers the elements are not compared.

mod deployed;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use base::{Diagnostic, Diagnostics, InOrder, IntoTree, Result, codes};
use tensor::{Tensor, Tolerance, Value};
use tilewright::compiled::{Source, checked_functions, compile_source, draws, evaluate};
use tilewright::{
    Activations, Executable, ModelInfo, Options, Port, Precision, catch_internal_errors, compile,
};

use crate::recorded::recorded;
use crate::{Counterpart, Stage, c_program, diff, dump, explore, verify};

/// The least absolute tolerance, and that for Fourier transforms.
const ABSOLUTE: f64 = 1e-5;
const ABSOLUTE_OF_TRANSFORMS: f64 = 1e-4;
/// The relative tolerance of a case that does not state its own.
const RELATIVE: f64 = 1e-3;

/// Both tolerances where operands of products are rounded to bf16, whose step is 2^-8.
const OF_SHORT_PRODUCTS: f64 = 1.0 / 64.0;

/// The most operations of a case that the evaluator runs: some seconds' worth.
const OPERATIONS_OF_EVALUATOR: u64 = 1 << 25;

/// How many models become one program of C, or one shared library: enough that it counts little to
/// start the compiler, and few enough that all processors have some to the end.
const TOGETHER: usize = 40;

/// What runs a case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    /// Compiled code.
    Compiled,
    /// The reference evaluator.
    Evaluator,
    /// Compiled code that goes through engine files in a folder: a case whose engine lies there
    /// runs that and compiles nothing; of any other that passes, one is saved.
    Saved(PathBuf),
    /// Shared libraries, each of many cases.
    Libraries,
    /// Compiled code, and what looks at it: it is verified, explored, dumped at every stage, and
    /// compared with the evaluator by `diff`, on the inputs of the case.
    Inspected,
}

/// What became of a case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// All outputs of all sets agree.
    Passed,
    /// Names, types and shapes agree; the elements are random.
    Random,
    /// Something else came out, or the compiler broke down.
    Failed(String),
    /// The model was refused.
    Refused(String),
}

/// The cases in a folder and the folders in it, in alphabetical order.
#[must_use]
pub fn find_cases(folder: &Path) -> Vec<PathBuf> {
    let mut cases = Vec::new();
    collect(folder, &mut cases);
    cases.put_in_order();
    cases
}

fn collect(folder: &Path, cases: &mut Vec<PathBuf>) {
    if folder.join("model.onnx").is_file() {
        if folder.join("io.npz").is_file() || !data_sets(folder).is_empty() {
            cases.push(folder.to_owned());
        }
        return;
    }
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        match entry.file_type() {
            Ok(ty) if ty.is_dir() => collect(&entry.path(), cases),
            Ok(_) if is_checked_program(&entry.path()) => cases.push(entry.path()),
            _ => {}
        }
    }
}

/// Whether a file is a StableHLO program, which checks its own values: a text or bytecode.
fn is_checked_program(path: &Path) -> bool {
    path.extension().is_some_and(|own| ["mlir", "bc", "mlirbc"].iter().any(|it| own == *it))
}

/// How many cases are best run together: those whose models become C share a program, those that
/// become libraries one of these.
#[must_use]
pub fn cases_together(options: &Options, subject: &Subject) -> usize {
    let is_together = *subject == Subject::Libraries || is_as_c(options, subject);
    if is_together { TOGETHER } else { 1 }
}

/// Runs cases; the verdict of each.
#[must_use]
pub fn run_cases(cases: &[PathBuf], options: &Options, subject: &Subject) -> Vec<Verdict> {
    if is_as_c(options, subject) {
        return deployed::run_cases(&deployed::SourceDeployment, cases, options);
    }
    if *subject == Subject::Libraries {
        let choice = deployed::LibraryDeployment { workers: options.threads.unwrap_or(1) };
        return deployed::run_cases(&choice, cases, options);
    }
    let run = |case| verdict(catch_internal_errors(|| try_case(case, options, subject)));
    cases.iter().map(|case| run(case)).collect()
}

/// Whether cases become C sources, which the system's C compiler compiles.
#[must_use]
pub fn is_as_c(options: &Options, subject: &Subject) -> bool {
    *subject == Subject::Compiled && c_program::is_chosen(options)
}

/// The verdict where there is none: the compiler's own faults, and faults of a run that the data do
/// not justify, are failures, all else is a refusal.
fn verdict(outcome: Result<Verdict>) -> Verdict {
    outcome.unwrap_or_else(|found| {
        let reason = one_line(&found);
        let is_broken = |found: &Diagnostic| {
            let code = found.code;
            code.starts_with("TW09") || code.starts_with("TW05") || code == codes::C_PROGRAM_FAILED
        };
        match found.iter().any(is_broken) {
            true => Verdict::Failed(reason),
            false => Verdict::Refused(reason),
        }
    })
}

fn try_case(path: &Path, options: &Options, subject: &Subject) -> Result<Verdict> {
    if is_checked_program(path) {
        return try_checked_program(path, options, subject);
    }
    let mut case = Case::read(path, options)?;
    if *subject == Subject::Evaluator {
        case.options.limits.operations = OPERATIONS_OF_EVALUATOR;
    }
    let options = &case.options;
    let executable = match subject {
        Subject::Compiled | Subject::Inspected => Some(compile(&case.model, options)?),
        Subject::Saved(folder) => Some(match engine_of(path, folder) {
            engine if engine.is_file() => Executable::load(engine, options)?,
            _ => compile(&case.model, options)?,
        }),
        Subject::Evaluator | Subject::Libraries => None,
    };
    let mut is_random = false;
    for set in &case.sets {
        let actual = match &executable {
            Some(executable) => {
                let actual = executable.run_values(&set.inputs)?;
                is_random |= executable.draws();
                actual
            }
            None => {
                let declared = eval::EvaluationPrecision::Declared;
                let (function, actual) = evaluate(&case.source()?, options, &set.inputs, declared)?;
                is_random |= draws(&function);
                actual
            }
        };
        if let Some(failed) = case.failure(set, &actual, is_random) {
            return Ok(failed);
        }
        if let (Some(executable), Subject::Inspected) = (&executable, subject) {
            let found = inspected(&case, executable, &set.inputs, is_random);
            let found =
                found.unwrap_or_else(|(what, found)| Some(format!("{what}: {}", one_line(&found))));
            if let Some(reason) = found {
                return Ok(Verdict::Failed(format!("{}: {reason}", set.name)));
            }
        }
    }
    if let (Some(executable), Subject::Saved(folder)) = (&executable, subject) {
        let engine = engine_of(path, folder);
        if !engine.is_file() {
            executable.save(engine)?;
        }
    }
    Ok(if is_random { Verdict::Random } else { Verdict::Passed })
}

/// A StableHLO program: each of its functions that takes nothing runs; what it checks must hold.
fn try_checked_program(path: &Path, options: &Options, subject: &Subject) -> Result<Verdict> {
    let refused = |reason: &str| Ok(Verdict::Refused(reason.to_owned()));
    if !matches!(subject, Subject::Compiled | Subject::Evaluator) {
        return refused("a StableHLO program runs as compiled code or through the evaluator");
    }
    let bytes = std::fs::read(path).map_err(|found| {
        Diagnostic::error(codes::CANNOT_READ_FILE, "a case cannot be read")
            .at(path.display().to_string())
            .because(found.to_string())
            .remedy("check its permissions")
    })?;
    let mut count = 0;
    for (name, function) in checked_functions(&bytes.into(), options)? {
        let function = function?;
        let source = Source::Module(Arc::new(function.imported.module.clone()));
        let outputs: Vec<Value> = match subject {
            Subject::Evaluator => {
                let declared = eval::EvaluationPrecision::Declared;
                evaluate(&source, options, &[], declared)?.1
            }
            _ => compile_source(source, options)?.run_values(&[])?,
        };
        let tensors = outputs.into_iter().filter_map(|output| match output {
            Value::Tensor(tensor) => Some(tensor),
            _ => None,
        });
        let tensors: Vec<Tensor> = tensors.collect();
        for check in &function.checks {
            if let Err(reason) = check.compare(&tensors) {
                return Ok(Verdict::Failed(format!("{name}: {reason}")));
            }
            count += 1;
        }
    }
    if count == 0 { refused("it checks nothing") } else { Ok(Verdict::Passed) }
}

/// Where the engine file of a case lies: the last folders of its path are its name.
fn engine_of(case: &Path, folder: &Path) -> PathBuf {
    const MOST_FOLDERS: usize = 4;
    let names: Vec<_> = case.iter().map(|name| name.to_string_lossy()).collect();
    folder.join(names[names.len().saturating_sub(MOST_FOLDERS)..].join("__") + ".tw")
}

/// What is said of a right run by what looks at it: a false alarm, or the refusal of one of them.
fn inspected(
    case: &Case,
    executable: &Executable,
    inputs: &[Value],
    is_random: bool,
) -> std::result::Result<Option<String>, (&'static str, Diagnostics)> {
    let report =
        verify(executable, inputs, u64::MAX, &mut |_, _, _| ()).map_err(|it| ("verify", it))?;
    if !report.passed() && !is_random {
        return Ok(Some(format!("verify: {report}")));
    }
    // Which explains it, too.
    explore(executable, inputs, "a case").map_err(|it| ("explore", it))?;
    for stage in Stage::ALL {
        dump(&case.model, &case.options, stage, Some(inputs), None).map_err(|it| ("dump", it))?;
    }
    let (evaluator, tolerance) = (Counterpart::Evaluator, Tolerance::default());
    match diff(&case.model, &case.options, &evaluator, inputs, tolerance, &mut |_| ()) {
        Ok(Some(difference)) if !is_random => Ok(Some(format!("diff: {difference}"))),
        // An output without elements is equal to another.
        Err(found) if found.iter().all(|it| it.code == codes::NOTHING_COMPARED) => Ok(None),
        done => done.map(|_| None).map_err(|it| ("diff", it)),
    }
}

/// A case, read.
struct Case {
    model: PathBuf,
    /// Those that were given, without dimensions that are another model's.
    options: Options,
    /// Names of the model's outputs.
    outputs: Vec<String>,
    tolerance: Tolerance,
    sets: Vec<DataSet>,
}

impl Case {
    fn read(case: &Path, options: &Options) -> Result<Case> {
        let model = case.join("model.onnx");
        let info = tilewright::model_info(&model, &options.limits)?;
        let tolerance = tolerance_of(case, &info, options);
        let mut options = options.clone();
        options.dims.retain(|name, _| info.dimensions.contains(name));
        let outputs = info.outputs.iter().map(|port| port.name.clone()).collect();
        Ok(Case { model, options, outputs, tolerance, sets: sets(case, &info)? })
    }

    fn source(&self) -> Result<Source> {
        Source::read(&self.model, &self.options.limits)
    }

    /// What is wrong with what came out.
    fn failure(&self, set: &DataSet, actual: &[Value], is_random: bool) -> Option<Verdict> {
        let reason = self.difference(set, actual, is_random)?;
        Some(Verdict::Failed(format!("{}: {reason}", set.name)))
    }

    /// What differs first.
    fn difference(&self, set: &DataSet, actual: &[Value], is_random: bool) -> Option<String> {
        if actual.len() != set.outputs.len() {
            return Some(format!("{} outputs instead of {}", actual.len(), set.outputs.len()));
        }
        let outputs = self.outputs.iter().zip(actual).zip(&set.outputs);
        for ((name, actual), (expected_name, expected)) in outputs {
            let Some(expected) = expected else { continue };
            if !expected_name.is_empty() && expected_name != name {
                return Some(format!("output `{name}` instead of `{expected_name}`"));
            }
            let pairs = match actual.pairs(expected, name) {
                Ok(pairs) => pairs,
                Err(how) => return Some(format!("output `{name}`: {how}")),
            };
            for (name, actual, expected) in pairs {
                let expected = if set.is_loose { as_given(expected, &actual) } else { expected };
                let comparison = self.tolerance.compare(&actual, &expected);
                let is_right = match is_random {
                    true => comparison.type_error.is_none(),
                    false => comparison.passed(),
                };
                if !is_right {
                    return Some(format!("output `{name}`: {comparison}"));
                }
            }
        }
        None
    }
}

/// What is recorded in the shape and float type of what is computed, where only extents of 1 and
/// the width of floats differ.
fn as_given(recorded: Tensor, computed: &Tensor) -> Tensor {
    let without_ones = |tensor: &Tensor| -> Vec<usize> {
        tensor.shape().iter().copied().filter(|&extent| extent != 1).collect()
    };
    let is_float = |tensor: &Tensor| tensor.dtype().is_float();
    let mut recorded = recorded;
    if without_ones(&recorded) == without_ones(computed) {
        recorded = recorded.reshape(computed.shape());
    }
    match is_float(&recorded) && is_float(computed) {
        true => recorded.cast(computed.dtype()),
        false => recorded,
    }
}

/// How far elements may be from those recorded.
fn tolerance_of(case: &Path, info: &ModelInfo, options: &Options) -> Tolerance {
    let text = std::fs::read_to_string(case.join("tol.json")).unwrap_or_default();
    let number = |key: &str| -> Option<f64> {
        let rest = text.split_once(&format!("\"{key}\":"))?.1;
        rest.split([',', '}']).next()?.trim().parse().ok()
    };
    let least = match info.operators.keys().any(|name| name == "DFT" || name == "STFT") {
        true => ABSOLUTE_OF_TRANSFORMS,
        false => ABSOLUTE,
    };
    let is_short = options.precision == Precision::Bf16 || options.activations == Activations::Int8;
    let of_products = if is_short { OF_SHORT_PRODUCTS } else { 0.0 };
    let relative = number("rtol").unwrap_or(RELATIVE).max(of_products);
    let absolute = number("atol").unwrap_or(0.0).max(least).max(of_products);
    Tolerance { relative, absolute, of_largest: 0.0, last_place: false }
}

/// Inputs, and the outputs that are right, with the names recorded.
struct DataSet {
    name: String,
    inputs: Vec<Value>,
    /// None where an output is not recorded.
    outputs: Vec<(String, Option<Value>)>,
    /// Whether extents of 1 and the width of floats count.
    is_loose: bool,
}

/// The data of a case.
fn sets(case: &Path, info: &ModelInfo) -> Result<Vec<DataSet>> {
    let mut sets = Vec::new();
    for folder in data_sets(case) {
        let (inputs, outputs) = recorded(&folder, info)?;
        let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let outputs = outputs.into_iter().map(|(name, value)| (name, Some(value))).collect();
        sets.push(DataSet { name, inputs, outputs, is_loose: false });
    }
    let archive = case.join("io.npz");
    if archive.is_file() {
        let arrays: BTreeMap<String, Tensor> = tensor::npz::read(&archive)?.into_iter().into_map();
        let missing = |name: &str| {
            Diagnostics::from(
                Diagnostic::error(codes::BAD_NPY_FILE, format!("there is no array `{name}`"))
                    .at(archive.display().to_string())
                    .because("the model has an input or output of this name")
                    .remedy("record it, too"),
            )
        };
        let input = |port: &Port| {
            let array = arrays.get(&port.name).cloned();
            array.map(Value::from).ok_or_else(|| missing(&port.name))
        };
        let ports = || info.inputs.iter().chain(&info.outputs);
        let mut inner = arrays.iter().filter(|(name, _)| !ports().any(|port| port.name == **name));
        let inner = inner.next().filter(|_| info.outputs.len() == 1).map(|(_, array)| array);
        let output = |port: &Port| {
            let array = arrays.get(&port.name).or(inner);
            (String::new(), array.cloned().map(Value::from))
        };
        let outputs: Vec<_> = info.outputs.iter().map(output).collect();
        if let (Some(first), true) =
            (info.outputs.first(), outputs.iter().all(|(_, value)| value.is_none()))
        {
            return Err(missing(&first.name));
        }
        sets.push(DataSet {
            name: "io.npz".to_owned(),
            inputs: info.inputs.iter().map(input).collect::<Result<_>>()?,
            outputs,
            is_loose: true,
        });
    }
    Ok(sets)
}

/// The folders with inputs and outputs, in the order of their numbers.
fn data_sets(case: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(case) else { return Vec::new() };
    let numbered = |path: PathBuf| {
        let name = path.file_name()?.to_str()?.strip_prefix("test_data_set_")?;
        Some((name.parse::<u64>().ok()?, path))
    };
    let mut folders: Vec<(u64, PathBuf)> =
        entries.flatten().filter_map(|entry| numbered(entry.path())).collect();
    folders.put_in_order();
    folders.into_iter().map(|(_, path)| path).collect()
}

/// Diagnostics on a line.
fn one_line(found: &Diagnostics) -> String {
    let lines = found.to_string();
    lines.lines().map(str::trim).collect::<Vec<_>>().join("; ")
}
