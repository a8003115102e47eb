//! No mutant of a model breaks the compiler: a bounded run of the fuzz target `compile`, from the
//! seed `PROPTEST_RNG_SEED`. The models are those of the importer's text tests, and the small ones
//! in the folder that `TILEWRIGHT_MODELS` names; `TILEWRIGHT_MUTANTS` says how many of each.

#[path = "../../../fuzz/src/attempt.rs"]
#[allow(dead_code, unreachable_pub)]
mod attempt;

use std::path::Path;

use import_onnx::proto::ModelProto;
use prost::Message;
use testkit::mutation::mutate;
use testkit::onnx_text::models_in;
use testkit::{demand_share, first_seed};

/// Mutants of each model.
const MUTANTS: u64 = 3;

/// Of the mutants of models that run so many run, too, and are compared with the evaluator; most
/// others are refused, as a wrong model is. (Many of the importer's tests are models that are to be
/// refused: their mutants say more of diagnostics than of results.)
const LEAST_SHARE: f64 = 0.2;

/// The largest file that is mutated.
const LARGEST: usize = 1 << 16;

/// The models of the importer's text tests and those that the environment names.
fn models() -> Vec<ModelProto> {
    let texts = concat!(env!("CARGO_MANIFEST_DIR"), "/../import-onnx/tests/texts");
    let mut models = models_in(Path::new(texts)).expect("the importer's tests");
    if let Some(folder) = std::env::var_os("TILEWRIGHT_MODELS") {
        collect(Path::new(&folder), &mut models);
    }
    models
}

fn collect(folder: &Path, models: &mut Vec<ModelProto>) {
    let entries = std::fs::read_dir(folder).expect("a folder of models");
    let mut paths: Vec<_> = entries.map(|entry| entry.expect("an entry").path()).collect();
    paths.sort();
    for path in paths {
        if path.is_dir() {
            collect(&path, models);
        } else if path.extension().is_some_and(|extension| extension == "onnx") {
            let bytes = std::fs::read(path).expect("a model");
            models.extend(
                (bytes.len() <= LARGEST).then(|| ModelProto::decode(&bytes[..]).ok()).flatten(),
            );
        }
    }
}

#[test]
fn mutants_end_in_diagnostics_or_run() {
    if !std::arch::is_x86_feature_detected!("avx2") {
        eprintln!("skipped: this machine cannot run the JIT's code");
        return;
    }
    let operators = import_onnx::supported_operators();
    let names: Vec<&str> = operators.iter().map(|row| row.name).collect();
    let models = models();
    assert!(models.len() > 60, "{} models", models.len());
    let mutants: u64 = match std::env::var("TILEWRIGHT_MUTANTS") {
        Ok(text) => text.parse().expect("a number of mutants"),
        Err(_) => MUTANTS,
    };
    let (mut all, mut compared, mut broken) = (0, 0, Vec::new());
    let mut is_compared = |model: &ModelProto, number: usize, seed: u64| {
        attempt(model, number, seed).unwrap_or_else(|reason| {
            broken.push(reason);
            false
        })
    };
    for (number, model) in models.iter().enumerate() {
        let runs = is_compared(model, number, 0);
        for seed in 0..mutants {
            let seed = (first_seed() + seed) * 10_000 + number as u64;
            let mut mutant = model.clone();
            mutate(&mut mutant, &names, seed);
            let runs_too = is_compared(&mutant, number, seed);
            all += usize::from(runs);
            compared += usize::from(runs && runs_too);
        }
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
    demand_share(compared, all, LEAST_SHARE);
}

/// Whether what a mutant gives was compared; what is to be said of one that breaks the compiler,
/// which is kept as a file.
fn attempt(model: &ModelProto, number: usize, seed: u64) -> Result<bool, String> {
    let bytes = model.encode_to_vec();
    let payload = match std::panic::catch_unwind(|| attempt::compile_and_run(&bytes)) {
        Ok(is_compared) => return Ok(is_compared),
        Err(payload) => payload,
    };
    let place = std::env::temp_dir().join(format!("mutant-{number}-{seed}.onnx"));
    std::fs::write(&place, &bytes).expect("a file of the mutant");
    let text = payload.downcast_ref::<String>().cloned().unwrap_or_default();
    Err(format!("model {number}, seed {seed}, kept as {}: {text}", place.display()))
}
