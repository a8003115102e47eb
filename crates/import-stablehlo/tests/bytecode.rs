//! Bytecode that is damaged ends in diagnostics, and the official files of all versions are read.

mod changes;

use std::path::{Path, PathBuf};

use base::Limits;
use changes::Changes;
use front::ImportOptions;
use import_stablehlo::StablehloProgram;

/// How many changed files are read, for each of the programs.
const MUTATIONS: usize = 400;

fn read(bytes: &[u8]) -> Result<StablehloProgram, String> {
    let read = StablehloProgram::read(&bytes.to_vec().into(), &Limits::default());
    read.map_err(|found| found.to_string())
}

/// Reads a file, and imports what it holds.
fn import(bytes: &[u8]) -> Result<(), String> {
    let program = read(bytes)?;
    let imported = program.import(&ImportOptions::default());
    imported.map(|_| ()).map_err(|found| found.to_string())
}

/// The bytecode files of a folder.
fn files(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let entries = std::fs::read_dir(folder).expect("files");
    let paths = entries.map(|entry| entry.expect("an entry").path());
    let mut paths: Vec<PathBuf> =
        paths.filter(|path| path.extension().is_some_and(|it| it == "bc")).collect();
    paths.sort();
    let name = |path: &Path| path.file_name().expect("a name").to_string_lossy().into_owned();
    paths.iter().map(|path| (name(path), std::fs::read(path).expect("a file"))).collect()
}

fn programs() -> Vec<(String, Vec<u8>)> {
    files(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs"))
}

#[test]
fn files_that_are_cut_off_are_refused() {
    for (name, bytes) in programs().into_iter().take(10) {
        for end in 0..bytes.len() {
            let refused = read(&bytes[..end]).expect_err("a refusal");
            assert!(!refused.contains("TW09"), "{name} cut at {end}: {refused}");
        }
    }
}

#[test]
fn changed_files_end_in_diagnostics() {
    let mut changes = Changes::new();
    for (name, bytes) in programs() {
        for _ in 0..Changes::count(MUTATIONS) {
            let changed = changes.changed(&bytes, |changes| changes.below(256) as u8);
            if let Err(found) = import(&changed) {
                assert!(!found.contains("TW09"), "{name}: {found}");
            }
        }
    }
}

#[test]
fn official_files_of_all_versions_are_read() {
    let near = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../../shared/data/stablehlo-cases-1.17.tar.xz");
    if !near.is_file() {
        println!("skipped: the official cases are not beside the repository");
        return;
    }
    let folder = std::env::temp_dir().join(format!("stablehlo-bytecode-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let unpacked = std::process::Command::new("tar")
        .arg("xJf")
        .arg(&near)
        .arg("-C")
        .arg(&folder)
        .arg("stablehlo/tests/vhlo")
        .status();
    if !unpacked.is_ok_and(|status| status.success()) {
        println!("skipped: the official cases cannot be unpacked");
        return;
    }
    let files = files(&folder.join("stablehlo/tests/vhlo"));
    std::fs::remove_dir_all(&folder).expect("the folder goes");
    assert_eq!(files.len(), 34);
    for (name, bytes) in files {
        match read(&bytes) {
            Ok(program) => {
                assert!(program.producer().starts_with("StableHLO_v"), "{name}");
                let count: usize = program.operations().values().sum();
                assert!(count > 400 || name.starts_with("vhlo_emit"), "{name}: {count}");
            }
            Err(refused) => {
                // The one file of a version to come names it.
                assert_eq!(name, "invalid_vhlo_future.mlir.bc", "{refused}");
                assert!(refused.contains("TW0121"), "{refused}");
                assert!(refused.contains("StableHLO_v2.0.0"), "{refused}");
                assert!(refused.contains("vhlo.constant_v99"), "{refused}");
            }
        }
    }
}
