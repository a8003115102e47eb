//! Every stage prints, and what is text of an IR parses and prints the same again: of the digits
//! classifier always, of the trained models where the shared data is there, and of each `*.onnx`
//! file in the folder that `TILEWRIGHT_MODELS` names (all of whose dimensions are fixed).

mod support;

use support::{DIGITS, succeed, trained_models};

/// Parses one item of a stage and prints it again.
type Reprint = fn(&str) -> Result<String, String>;

const STAGES: &[(&str, &str, Reprint)] = &[
    ("imported", "function @", reprint_function),
    ("optimized", "function @", reprint_function),
    ("kernels", "kernel @", reprint_kernel),
    ("scheduled", "kernel @", reprint_scheduled),
    ("program", "program @", reprint_program),
    ("vcode", "vcode @", reprint_vcode),
];

/// The trained models without quantisation, and how to fix their free dimensions.
const MODELS: &[(&str, &[&str])] = &[
    ("mnist_burn", &[]),
    ("mnist_cntk", &[]),
    ("mnist_rten", &[]),
    ("ultraface_version-slim-320", &[]),
    ("mlperf_vww_96_float", &["--dim", "unk__337=1"]),
    ("mlperf_ad01_fp32", &["--dim", "unk__63=2"]),
];

fn reprint_function(text: &str) -> Result<String, String> {
    let function = graph::parse(text).map_err(|found| found.to_string())?;
    graph::verify(&function).map_err(|found| found.to_string())?;
    Ok(function.to_string())
}

fn reprint_kernel(text: &str) -> Result<String, String> {
    let kernel = loops::parse(text).map_err(|found| found.to_string())?;
    loops::verify(&kernel).map_err(|found| found.to_string())?;
    Ok(kernel.to_string())
}

/// A kernel behind its trace; both are text that parses.
fn reprint_scheduled(text: &str) -> Result<String, String> {
    let lines = text.lines().filter_map(|line| line.strip_prefix("// "));
    let trace: String = lines.map(|line| format!("{line}\n")).collect();
    let steps = schedule::parse_trace(&trace).map_err(|error| error.to_string())?;
    let again: String = steps.iter().map(|step| format!("// {step}\n")).collect();
    Ok(again + &reprint_kernel(text)?)
}

fn reprint_program(text: &str) -> Result<String, String> {
    let program = program::parse(text).map_err(|found| found.to_string())?;
    Ok(program.to_string())
}

fn reprint_vcode(text: &str) -> Result<String, String> {
    let function = backend_x64::vcode::parse(text).map_err(|error| error.to_string())?;
    Ok(backend_x64::vcode::print(&function))
}

/// The parts of a dump: each begins where a line does so, with the comments above it.
fn items<'a>(text: &'a str, begin: &str) -> Vec<&'a str> {
    let mut starts = Vec::new();
    let (mut at, mut comment) = (0, None);
    for line in text.split_inclusive('\n') {
        if line.starts_with("//") {
            comment.get_or_insert(at);
        } else if line.starts_with(begin) {
            starts.push(comment.take().unwrap_or(at));
        } else {
            comment = None;
        }
        at += line.len();
    }
    let ends = starts.iter().skip(1).copied().chain([text.len()]);
    starts.iter().zip(ends).map(|(&start, end)| &text[start..end]).collect()
}

/// Dumps every stage of a model; checks each item of each.
fn check(model: &str, options: &[&str]) {
    let dump = |stage| succeed(&[&["dump", model, "--stage", stage], options].concat());
    for &(stage, begin, reprint) in STAGES {
        let text = dump(stage);
        let items = items(&text, begin);
        assert!(!items.is_empty(), "{model}, {stage}: nothing is printed");
        for item in items {
            let again = reprint(item).unwrap_or_else(|error| {
                panic!("{model}, {stage}: does not parse again: {error}\n{item}")
            });
            assert_eq!(item.trim_end(), again.trim_end(), "{model}, {stage}");
        }
    }
    assert!(dump("asm").lines().count() > 1, "{model}: no machine code is printed");
}

#[test]
fn stages_of_digits_parse_again() {
    check(DIGITS, &["--dim", "batch=3"]);
}

#[test]
fn stages_of_trained_models_parse_again() {
    let Some(folder) = trained_models() else { return };
    for (model, options) in MODELS {
        check(&folder.file(&format!("{model}/model.onnx")), options);
    }
}

#[test]
fn stages_of_the_models_of_a_folder_parse_again() {
    let Some(folder) = std::env::var_os("TILEWRIGHT_MODELS") else {
        eprintln!("skipped: TILEWRIGHT_MODELS names no folder");
        return;
    };
    let entries = std::fs::read_dir(&folder).expect("a folder").flatten();
    let paths = entries.map(|entry| entry.path());
    let models: Vec<_> = paths.filter(|path| path.extension() == Some("onnx".as_ref())).collect();
    assert!(!models.is_empty(), "no model in {}", folder.display());
    for model in models {
        check(&model.display().to_string(), &[]);
    }
}

#[test]
fn one_kernel_is_dumped_alone() {
    let all = succeed(&["dump", DIGITS, "--dim", "batch=3", "--stage", "kernels"]);
    let first = items(&all, "kernel @")[0];
    let name = first["kernel @".len()..].split('(').next().unwrap_or_default();
    let options = ["--dim", "batch=3", "--stage", "kernels", "--kernel", name];
    let one = succeed(&[&["dump", DIGITS][..], &options].concat());
    assert_eq!(one.trim_end(), first.trim_end());
}
