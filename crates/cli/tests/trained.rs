//! The trained float models give the outputs that were recorded with them, where the shared data is
//! there.

mod support;

use std::path::Path;

use support::{succeed, trained_models};
use tensor::Tensor;

const MODELS: [&str; 6] = [
    "mnist_burn",
    "mnist_cntk",
    "mnist_rten",
    "ultraface_version-slim-320",
    "mlperf_vww_96_float",
    "mlperf_ad01_fp32",
];

/// No recorded tolerance is held to be stricter than this.
const LEAST_TOLERANCE: f64 = 1e-5;

#[test]
fn trained_models_give_their_recorded_outputs() {
    let Some(folder) = trained_models() else { return };
    for model in MODELS {
        check(&folder.path().join(model));
    }
}

/// Runs a model on each of its recorded inputs.
fn check(folder: &Path) {
    let model = folder.join("model.onnx").display().to_string();
    let info: serde_json::Value =
        serde_json::from_str(&succeed(&["info", &model, "--json"])).expect("JSON");
    let names = |key: &str| -> Vec<String> {
        let ports = info[key].as_array().expect("an array");
        ports.iter().map(|port| port["name"].as_str().expect("a name").to_owned()).collect()
    };
    let (inputs, outputs) = (names("inputs"), names("outputs"));
    let (relative, absolute) = tolerance(folder);
    let mut number = 0;
    while folder.join(format!("test_data_set_{number}")).is_dir() {
        let data = folder.join(format!("test_data_set_{number}"));
        let out = data.join("out").display().to_string();
        let mut arguments = vec!["run".to_owned(), model.clone(), "--output-dir".to_owned(), out];
        for (position, name) in inputs.iter().enumerate() {
            let file = data.join(format!("input_{position}.npy"));
            tensor::npy::write(&file, &recorded(&data, "input", position)).expect("writes");
            arguments.extend(["--input".to_owned(), format!("{name}={}", file.display())]);
        }
        succeed(&arguments.iter().map(String::as_str).collect::<Vec<_>>());
        for (position, name) in outputs.iter().enumerate() {
            let actual = tensor::npy::read(data.join(format!("out/{name}.npy"))).expect("reads");
            let expected = recorded(&data, "output", position);
            let comparison = tensor::compare(&actual, &expected, relative, absolute);
            assert!(comparison.passed(), "{}, {name}: {comparison}", data.display());
        }
        number += 1;
    }
    assert!(number > 0, "{model}: no recorded data");
}

fn recorded(data: &Path, kind: &str, position: usize) -> Tensor {
    let file = data.join(format!("{kind}_{position}.pb"));
    let (_, value) = import_onnx::read_value(&file, &tensor::Kind::Tensor).expect("a tensor");
    value.into_tensor().expect("a tensor")
}

/// Relative and absolute, from `tol.json`.
fn tolerance(folder: &Path) -> (f64, f64) {
    let text = std::fs::read_to_string(folder.join("tol.json")).expect("tolerances");
    let object: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    let of = |key: &str| object[key].as_f64().unwrap_or(0.0).max(LEAST_TOLERANCE);
    (of("rtol"), of("atol"))
}
