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

/// A number as files hold it, of at most 28 bits.
fn number(value: usize) -> Vec<u8> {
    let bits = value as u64;
    match value {
        0..0x80 => vec![(bits << 1 | 1) as u8],
        0x80..0x4000 => (bits << 2 | 2).to_le_bytes()[..2].to_vec(),
        _ => (bits << 4 | 8).to_le_bytes()[..4].to_vec(),
    }
}

fn section(id: u8, bytes: &[u8]) -> Vec<u8> {
    [vec![id], number(bytes.len()), bytes.to_vec()].concat()
}

/// A file of these attributes of MLIR's own and operations; operation 0 is a module.
fn file(attributes: &[Vec<u8>], operations: &[u8]) -> Vec<u8> {
    let texts = ["builtin", "module", "a"];
    let lengths = texts.iter().rev().flat_map(|text| number(text.len() + 1));
    let letters = texts.iter().flat_map(|text| [text.as_bytes(), b"\0"].concat());
    let strings: Vec<u8> = number(texts.len()).into_iter().chain(lengths).chain(letters).collect();
    // One dialect without a version; one operation, of this dialect, with a name.
    let dialects = [1, 0, 1, 0, 1, 1 << 1].map(number).concat();
    let mut sizes = [attributes.len(), 0, 0, attributes.len()].map(number).concat();
    sizes.extend(attributes.iter().flat_map(|bytes| number(bytes.len() << 1 | 1)));
    [
        b"ML\xefR".to_vec(),
        number(6),
        b"StableHLO_v1.0.0\0".to_vec(),
        section(0, &strings),
        section(1, &dialects),
        section(2, &attributes.concat()),
        section(3, &sizes),
        section(4, operations),
    ]
    .concat()
}

/// A list of two attributes by their numbers.
fn pair(attribute: usize) -> Vec<u8> {
    [0, 2, attribute, attribute].map(number).concat()
}

/// A block of a module whose attributes are the record of attribute 1.
fn module_with_attributes() -> Vec<u8> {
    [vec![number(1 << 1)[0], number(0)[0], 1], number(0), number(1)].concat()
}

/// An unknown location; a record of the text "a" and attribute 3; the text.
fn first_attributes() -> Vec<Vec<u8>> {
    let record = [1, 1, 2, 3].map(number).concat();
    vec![number(15), record, [2, 2].map(number).concat()]
}

#[test]
fn attributes_that_hold_themselves_are_refused() {
    let attributes = [first_attributes(), vec![pair(3)]].concat();
    let refused = read(&file(&attributes, &module_with_attributes())).expect_err("a refusal");
    assert!(refused.contains("TW0121") && refused.contains("nested"), "{refused}");
}

#[test]
fn attributes_that_hold_others_twice_take_no_more_memory_than_allowed() {
    let mut attributes = first_attributes();
    attributes.extend((0..60).map(|level| pair(level + 4)));
    attributes.push(number(7));
    let refused = read(&file(&attributes, &module_with_attributes())).expect_err("a refusal");
    assert!(refused.contains("TW0112") && refused.contains("decoded-bytes"), "{refused}");
}

#[test]
fn regions_a_hundred_thousand_deep_are_refused() {
    const REGIONS: u8 = 1 << 4;
    // A module with one region of one block, which has no values and one operation.
    let level = [number(0), vec![REGIONS], number(0), [1 << 1, 1, 0, 1 << 1].map(number).concat()];
    let operations = [number(1 << 1), level.concat().repeat(100_000)].concat();
    let refused = read(&file(&first_attributes(), &operations)).expect_err("a refusal");
    assert!(refused.contains("TW0121") && refused.contains("nested"), "{refused}");
}
