//! Models of one operator each, with inputs and the outputs of LiteRT's or TensorFlow Lite Micro's
//! kernels (`bench/tflite.py --record` wrote them): each evaluates to these, integers to the bit.
//! Cut off at any byte, or with bytes changed, they end in diagnostics or are models still.

use std::collections::BTreeMap;
use std::path::PathBuf;

use base::Limits;
use front::{ImportOptions, Imported};
use import_tflite::TfliteModel;
use tensor::{Tensor, npz};

/// How many changed files are read, for each of the models.
const MUTATIONS: usize = 24;

/// The recorded models and values, by name.
fn recorded() -> BTreeMap<String, Tensor> {
    let path = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/operators.npz"));
    npz::read(path).expect("recorded models").into_iter().collect()
}

/// The names of models, and their bytes.
fn models(recorded: &BTreeMap<String, Tensor>) -> impl Iterator<Item = (&str, Vec<u8>)> {
    let is_model = |(name, _): &(&String, &Tensor)| !name.contains('.');
    recorded.iter().filter(is_model).map(|(name, it)| (name.as_str(), it.bytes().to_vec()))
}

fn import(bytes: Vec<u8>, options: &ImportOptions) -> Result<Imported, String> {
    let model = TfliteModel::read(bytes.into(), &options.limits);
    let imported = model.and_then(|model| {
        // What is told of a file is told of any.
        let told = (model.operators(), model.unsupported(), model.metadata(), model.dimensions());
        assert!(told.0.values().all(|count| *count > 0), "{told:?} {:?}", model.parameters());
        model.import(options)
    });
    imported.map_err(|found| found.to_string())
}

/// The values of a model under names that end in numbers.
fn numbered<'r>(recorded: &'r BTreeMap<String, Tensor>, name: &str, kind: &str) -> Vec<&'r Tensor> {
    (0..).map_while(|number| recorded.get(&format!("{name}.{kind}{number}"))).collect()
}

#[test]
fn operators_compute_what_the_kernels_do() {
    let recorded = recorded();
    let mut count = 0;
    for (name, bytes) in models(&recorded) {
        let imported = import(bytes, &ImportOptions::default());
        let imported = imported.unwrap_or_else(|found| panic!("{name}: {found}"));
        let function = imported.function();
        graph::verify(function).expect("a graph that verifies");
        let inputs: Vec<Tensor> = numbered(&recorded, name, "in").into_iter().cloned().collect();
        let constant = |id| imported.module.constants[id].tensor.clone();
        let precision = eval::EvaluationPrecision::Declared;
        let results = eval::graph::evaluate(function, &constant, &inputs, precision);
        let results = results.unwrap_or_else(|found| panic!("{name}: {found:?}"));
        let wanted = numbered(&recorded, name, "out");
        assert_eq!(results.len(), wanted.len(), "outputs of {name}");
        for (found, wanted) in results.iter().zip(wanted) {
            assert_eq!((found.dtype(), found.shape()), (wanted.dtype(), wanted.shape()), "{name}");
            let (relative, absolute) =
                if wanted.dtype().is_float() { (1e-5, 1e-5) } else { (0.0, 0.0) };
            let deviation = tensor::compare(found, wanted, relative, absolute);
            assert!(deviation.first_mismatch.is_none(), "{name}: {deviation:?}");
        }
        count += 1;
    }
    assert!(count > 150, "{count} models");
}

#[test]
fn every_operator_has_a_recorded_model() {
    let recorded = recorded();
    let names: Vec<&str> = models(&recorded).map(|(name, _)| name).collect();
    for (operator, _) in import_tflite::supported_operators() {
        let has_one = names
            .iter()
            .any(|name| name.strip_prefix(operator).is_some_and(|rest| rest.starts_with('_')));
        assert!(has_one, "{operator}");
    }
}

/// The recorded models, and those of the folder that the variable `TFLITE_MODELS` names.
fn all_models() -> Vec<(String, Vec<u8>)> {
    let recorded = recorded();
    let mut all: Vec<(String, Vec<u8>)> =
        models(&recorded).map(|(name, bytes)| (name.to_owned(), bytes)).collect();
    if let Some(folder) = std::env::var_os("TFLITE_MODELS") {
        let entries = std::fs::read_dir(folder).expect("a folder of models");
        let mut paths: Vec<PathBuf> =
            entries.map(|entry| entry.expect("an entry").path()).collect();
        paths.retain(|path| path.extension().is_some_and(|extension| extension == "tflite"));
        paths.sort();
        let read = |path: &PathBuf| std::fs::read(path).expect("a model");
        all.extend(paths.iter().map(|path| (path.display().to_string(), read(path))));
    }
    all
}

/// Of every ninth model: of all of them, at every byte, where `TFLITE_MUTATIONS` says something.
#[test]
fn files_that_are_cut_off_are_refused() {
    let step = if std::env::var_os("TFLITE_MUTATIONS").is_some() { 1 } else { 9 };
    for (name, bytes) in all_models().into_iter().step_by(step) {
        for length in 0..bytes.len() {
            // Vectors at the end may be whole all the same.
            let found = import(bytes[..length].to_vec(), &ImportOptions::default());
            assert!(length > bytes.len() / 2 || found.is_err(), "{name} of {length} bytes");
        }
    }
}

/// A file of random changes is read for each number.
fn changed(bytes: &[u8], number: u64) -> Vec<u8> {
    let mut state = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 16) as usize % below
    };
    let mut changed = bytes.to_vec();
    for _ in 0..=next(4) {
        let at = next(changed.len());
        match next(4) {
            0 => changed[at] = next(256) as u8,
            1 => changed[at] ^= 1 << next(8),
            // Numbers that lead far, or are negative.
            2 => changed[at..].iter_mut().take(4).for_each(|byte| *byte = 0xff),
            _ => {
                let from = next(bytes.len());
                let other: Vec<u8> = bytes[from..].iter().copied().take(4).collect();
                let own = changed[at..].iter_mut().zip(other);
                own.for_each(|(own, other)| *own = other);
            }
        }
    }
    changed
}

/// As many changed files for each model as the environment variable `TFLITE_MUTATIONS` says.
#[test]
fn changed_files_end_in_diagnostics_or_are_models() {
    let count = std::env::var("TFLITE_MUTATIONS").ok().and_then(|text| text.parse().ok());
    let count: usize = count.unwrap_or(MUTATIONS);
    let limits = Limits { elements: 1 << 20, computed_elements: 1 << 16, ..Limits::default() };
    let options = ImportOptions { limits, ..ImportOptions::default() };
    for (name, bytes) in all_models() {
        for number in 0..count {
            let changed = changed(&bytes, number as u64);
            let outcome = std::panic::catch_unwind(|| {
                if let Ok(imported) = import(changed, &options) {
                    graph::verify(imported.function()).expect("a graph that verifies");
                }
            });
            assert!(outcome.is_ok(), "{name}, change {number}");
        }
    }
}
