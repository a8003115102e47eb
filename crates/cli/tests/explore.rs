//! `explore` and `bench --trace`, as the binary has them: files are written whole or not at all.

mod support;

use std::path::Path;

use serde_json::Value;
use support::{DIGITS, Folder, succeed, tilewright};

/// Names in a folder.
fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).expect("the folder is there").flatten();
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

#[test]
fn a_page_is_written_whole_or_not_at_all() {
    let folder = Folder::new();
    let explore = |more: &[&str]| {
        let arguments = [&["explore", DIGITS, "--dim", "batch=2", "--threads", "1"], more].concat();
        tilewright(folder.path(), &arguments)
    };
    assert!(explore(&[]).status.success());
    assert_eq!(
        names(folder.path()),
        ["digits.html"],
        "named after the model, in the folder at hand"
    );
    let page = std::fs::read_to_string(folder.file("digits.html")).expect("a page");
    assert!(page.starts_with("<!doctype html>") && page.ends_with("</html>\n"));
    let refused = explore(&["--html", "absent/page.html"]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("error[TW0301]"));
    // A model that is refused leaves the page before as it was.
    std::fs::write(folder.file("broken.onnx"), "no model").expect("written");
    let arguments = ["explore", "broken.onnx", "--html", "digits.html"];
    assert_eq!(tilewright(folder.path(), &arguments).status.code(), Some(1));
    assert_eq!(std::fs::read_to_string(folder.file("digits.html")).expect("a page"), page);
}

#[test]
fn two_builds_are_told_apart() {
    let folder = Folder::new();
    let path = folder.file("page.html");
    let explore = |more: &[&str]| {
        let common = ["explore", DIGITS, "--dim", "batch=2", "--threads", "1", "--html", &path];
        succeed(&[&common, more].concat());
        let page = std::fs::read_to_string(&path).expect("a page");
        let labels = page.split("data-label=\"").skip(1);
        let mut labels: Vec<String> =
            labels.map(|rest| rest.split('"').next().unwrap_or_default().to_owned()).collect();
        labels.dedup();
        labels
    };
    assert_eq!(explore(&[]).len(), 1);
    let disabled = explore(&["--other-disable", "fusion"]);
    assert!(disabled.len() == 2 && disabled[1].ends_with(", without fusion"), "{disabled:?}");
    let same = explore(&["--other-model", DIGITS]);
    assert!(same.len() == 2 && same[0] != same[1], "{same:?}");
}

/// Each step of a run lies within it, and those of one run follow each other.
#[test]
fn a_timeline_has_runs_and_their_steps() {
    let folder = Folder::new();
    let path = folder.file("runs.json");
    let common = ["bench", DIGITS, "--dim", "batch=2", "--threads", "1", "--seconds", "0.01"];
    succeed(&[&common[..], &["--trace", &path]].concat());
    let text = std::fs::read_to_string(&path).expect("a timeline");
    let timeline: Value = serde_json::from_str(&text).expect("JSON");
    let events = timeline["traceEvents"].as_array().expect("events");
    let of = |category: &str| -> Vec<(f64, f64)> {
        let events = events.iter().filter(|event| event["cat"] == category);
        let time = |event: &Value, key: &str| event[key].as_f64().expect("a time");
        events.map(|it| (time(it, "ts"), time(it, "ts") + time(it, "dur"))).collect()
    };
    let (runs, steps) = (of("run"), of("kernel"));
    // The first run, and ten that are shown step by step.
    assert_eq!(runs.len(), 11);
    assert_eq!(steps.len() % 10, 0);
    let within =
        |step: &(f64, f64)| runs.iter().any(|run| run.0 <= step.0 + 1e-3 && step.1 <= run.1 + 1e-3);
    assert!(!steps.is_empty() && steps.iter().all(within), "a step outside of all runs");
    assert!(steps.is_sorted_by(|one, two| one.1 <= two.0 + 1e-3), "steps overlap");
    assert!(events.iter().any(|event| event["args"]["nodes"][0] == "node_conv2d"));
}
