//! Crafted bad files, where the shared data is there: each ends as its label says, none in a crash.

mod support;

use std::path::Path;

use support::{shared_data, tilewright};

#[test]
fn bad_files_end_in_diagnostics() {
    let Some(folder) = shared_data("hostile-onnx-67.tar.xz") else { return };
    let folder = folder.path().join("hostile");
    let index = std::fs::read_to_string(folder.join("index.tsv")).expect("the list of files");
    let mut count = 0;
    for line in index.lines() {
        let mut fields = line.split('\t');
        let mut field = || fields.next().unwrap_or_else(|| panic!("a field is missing: {line}"));
        let (class, name, label) = (field(), field(), field());
        check(&folder.join(class).join(name).join("model.onnx"), label);
        count += 1;
    }
    assert!(count > 0, "the list is empty");
}

/// Runs a file: what is to be refused is, with a diagnostic that is not the compiler's own fault.
fn check(model: &Path, label: &str) {
    let place = model.display().to_string();
    let output = tilewright(Path::new("."), &["run", &place, "--random"]);
    let said = String::from_utf8_lossy(&output.stderr);
    match output.status.code() {
        Some(0) => assert_ne!(label, "reject", "{place} was accepted"),
        Some(1) => assert!(said.contains("error[TW"), "{place}: no diagnostic: {said}"),
        other => panic!("{place} ended with {other:?}: {said}"),
    }
    assert!(!said.contains("error[TW09"), "{place}: {said}");
}
