//! The fuzzer's binary, which `cargo xtask cliffs` builds, pins to a core and runs.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use cliffs::{Outline, Request};

const USAGE: &str = "\
usage: cliffs --seed S --count N [--fresh] [--reduce N] [--tries N]
              [--results FILE] [--kept FOLDER] [--python FILE]
       cliffs measure OUTLINE             measures an outline of a file
       cliffs write OUTLINE MODEL.onnx    writes its model
       cliffs draw S N                    prints model N of seed S
       cliffs predict RESULTS             times of a file beside what is predicted now

The Python of the other engines is TILEWRIGHT_PYTHON, or python3.";

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let done = match words[..] {
        ["measure", outline] => measure(outline),
        ["write", outline, model] => write(outline, model),
        ["draw", seed, number] => draw(seed, number),
        ["predict", results] => cliffs::predict(Path::new(results)).map(|text| print!("{text}")),
        _ => match request(&words) {
            Some(request) => cliffs::run(&request),
            None => {
                eprintln!("{USAGE}");
                return ExitCode::from(2);
            }
        },
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(reason) => {
            eprintln!("cliffs: {reason}");
            ExitCode::FAILURE
        }
    }
}

fn python() -> PathBuf {
    std::env::var_os("TILEWRIGHT_PYTHON").map_or_else(|| "python3".into(), PathBuf::from)
}

/// What the command line asks for.
fn request(words: &[&str]) -> Option<Request> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let target = std::env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
    let folder = target.unwrap_or_else(|| root.join("target")).join("cliffs");
    let mut request = Request {
        seed: 0,
        count: 0,
        is_fresh: false,
        reduced: usize::MAX,
        tries: 60,
        results: PathBuf::new(),
        kept: root.join("bench/cliffs"),
        folder: folder.clone(),
        python: python(),
    };
    let mut words = words.iter();
    while let Some(&word) = words.next() {
        if word == "--fresh" {
            request.is_fresh = true;
            continue;
        }
        let value = words.next()?;
        match word {
            "--seed" => request.seed = value.parse().ok()?,
            "--count" => request.count = value.parse().ok()?,
            "--reduce" => request.reduced = value.parse().ok()?,
            "--tries" => request.tries = value.parse().ok()?,
            "--results" => request.results = value.into(),
            "--kept" => request.kept = value.into(),
            "--python" => request.python = value.into(),
            _ => return None,
        }
    }
    if request.results.as_os_str().is_empty() {
        request.results = folder.join(format!("{}.jsonl", request.seed));
    }
    (request.count > 0).then_some(request)
}

fn read(path: &str) -> Result<Outline, String> {
    let text = std::fs::read_to_string(path).map_err(|error| format!("{path}: {error}"))?;
    Outline::parse(&text).map_err(|reason| format!("{path}: {reason}"))
}

fn measure(path: &str) -> Result<(), String> {
    let folder = std::env::temp_dir().join(format!("cliffs-{}", std::process::id()));
    let measured = cliffs::measure(&read(path)?, &python(), &folder);
    // What cannot be removed stays in the system's folder for such files.
    let _ = std::fs::remove_dir_all(&folder);
    println!("{}", measured?.line());
    Ok(())
}

fn write(path: &str, model: &str) -> Result<(), String> {
    let bytes = cliffs::bytes(&read(path)?)?;
    std::fs::write(model, bytes).map_err(|error| format!("{model}: {error}"))
}

fn draw(seed: &str, number: &str) -> Result<(), String> {
    let number_of = |text: &str| text.parse().map_err(|_| format!("`{text}` is no number"));
    print!("{}", cliffs::outline(number_of(seed)?, number_of(number)?));
    Ok(())
}
