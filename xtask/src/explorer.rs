//! `cargo xtask explorer`: the explorer's page in a headless browser.
//!
//! Pages are written by the command line as it is built for a first look, of the trained models in
//! the repository, of a model whose names are meant to break out, and of those that are named.
//! Where Node.js, a browser or the packages that drive it are missing, this is skipped aloud.

use std::io::Error;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use import_onnx::proto::{
    DimensionProto, DimensionValue, GraphProto, ModelProto, NodeProto, OperatorSetIdProto,
    TensorShapeProto, TensorTypeProto, TypeProto, TypeValue, ValueInfoProto,
};
use prost::Message as _;

/// The script that opens pages and looks at them.
const SCRIPT: &str = "crates/inspect/tests/browser/page_test.mjs";

/// Where browsers are looked for.
const BROWSERS: [&str; 4] = [
    "/usr/bin/chromium",
    "/usr/bin/chromium-browser",
    "/usr/bin/google-chrome",
    "/snap/bin/chromium",
];

const USAGE: &str = "\
usage: cargo xtask explorer [--tools DIR] [--pictures DIR] [MODEL...]

  --tools DIR     a folder where `npm install puppeteer-core axe-core` has been run (.)
  --pictures DIR  where pictures of the first page go";

/// What breaks out of a page that takes it for more than text.
const HOSTILE: &str = "</script><img src=x onerror=alert(1)>\"'><svg onload=alert(2)>";

/// Writes the pages and looks at them.
pub(crate) fn main(words: &[&str]) -> ExitCode {
    let (mut tools, mut pictures, mut models) = (".", "-", Vec::new());
    let mut words = words.iter();
    while let Some(&word) = words.next() {
        match word {
            "--tools" | "--pictures" => {
                let Some(&folder) = words.next() else {
                    eprintln!("{USAGE}");
                    return ExitCode::from(2);
                };
                *(if word == "--tools" { &mut tools } else { &mut pictures }) = folder;
            }
            _ if word.starts_with('-') => {
                eprintln!("{USAGE}");
                return ExitCode::from(2);
            }
            model => models.push(PathBuf::from(model)),
        }
    }
    match run(Path::new(tools), pictures, models) {
        Ok(Some(skipped)) => {
            println!("skipped: {skipped}");
            ExitCode::SUCCESS
        }
        Ok(None) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("explorer: {message}");
            ExitCode::FAILURE
        }
    }
}

/// Nothing if pages are as they must be; why they were not looked at.
fn run(tools: &Path, pictures: &str, given: Vec<PathBuf>) -> Result<Option<String>, String> {
    let Some(browser) = BROWSERS.iter().find(|path| Path::new(path).exists()) else {
        return Ok(Some(format!("no browser is one of {}", BROWSERS.join(", "))));
    };
    if Command::new("node").arg("--version").output().is_err() {
        return Ok(Some("there is no `node`".to_owned()));
    }
    if !tools.join("node_modules/puppeteer-core").exists() {
        let folder = tools.display();
        return Ok(Some(format!(
            "`npm install puppeteer-core axe-core` has not been run in {folder}"
        )));
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let built = Command::new("cargo")
        .args(["build", "--quiet", "--profile", "quick", "--package", "tilewright-cli"])
        .current_dir(&root)
        .status();
    check(built, "cargo build")?;
    let target =
        std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    let folder = target.join("explorer");
    std::fs::create_dir_all(&folder).map_err(|error| cannot(&folder, &error))?;
    let mut pages = Vec::new();
    let trained = ["faces/ultraface.onnx", "digits/digits.onnx", "topics/topics.onnx"];
    let trained = trained.map(|model| root.join("models").join(model));
    let hostile = folder.join("<img src=x onerror=alert(3)>.onnx");
    std::fs::write(&hostile, hostile_model()).map_err(|error| cannot(&hostile, &error))?;
    let models = given.iter().chain(&trained).chain([&hostile]);
    for (number, model) in models.enumerate() {
        let page = folder.join(format!("{number}.html"));
        let mut command = Command::new(target.join("quick/tilewright"));
        command.arg("explore").arg(model).args(["--threads", "1", "--html"]).arg(&page);
        // The second build of each leaves nodes in kernels of their own.
        command.args(["--other-disable", "fusion"]);
        check(command.status(), "tilewright explore")?;
        pages.push(page);
    }
    let mut command = Command::new("node");
    command.arg(root.join(SCRIPT)).arg(tools).args([browser, pictures]).args(&pages);
    check(command.status(), "the pages")?;
    Ok(None)
}

fn cannot(path: &Path, error: &Error) -> String {
    format!("{}: {error}", path.display())
}

/// Products and an exponential, of which all that a model may name has hostile names.
fn hostile_model() -> Vec<u8> {
    let port = |name: &str| {
        let batch = DimensionValue::DimParam(HOSTILE.to_owned());
        let dim = [batch, DimensionValue::DimValue(4)];
        let dim = dim.map(|value| DimensionProto { value: Some(value) }).into();
        // Of the standard, 1 is f32.
        let tensor = TensorTypeProto { elem_type: 1, shape: Some(TensorShapeProto { dim }) };
        let r#type = Some(TypeProto { value: Some(TypeValue::Tensor(tensor)) });
        ValueInfoProto { r#type, ..ValueInfoProto::untyped(name) }
    };
    let [input, output] = ["input", "output"].map(|name| format!("{HOSTILE}{name}"));
    let node = |operator: &str, from: &[&str], to: &str| NodeProto {
        name: format!("{HOSTILE}{operator}"),
        op_type: operator.to_owned(),
        input: from.iter().map(|&name| name.to_owned()).collect(),
        output: vec![to.to_owned()],
        ..NodeProto::default()
    };
    let graph = GraphProto {
        name: HOSTILE.to_owned(),
        node: vec![node("Mul", &[&input, &input], HOSTILE), node("Exp", &[HOSTILE], &output)],
        input: vec![port(&input)],
        output: vec![port(&output)],
        ..GraphProto::default()
    };
    let opset = OperatorSetIdProto { version: 18, ..OperatorSetIdProto::default() };
    let model = ModelProto {
        ir_version: 8,
        opset_import: vec![opset],
        graph: Some(graph),
        ..ModelProto::default()
    };
    model.encode_to_vec()
}

fn check(status: std::io::Result<std::process::ExitStatus>, what: &str) -> Result<(), String> {
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{what}: {status}")),
        Err(error) => Err(format!("{what}: {error}")),
    }
}
