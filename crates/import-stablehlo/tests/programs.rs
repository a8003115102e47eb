//! Programs that JAX wrote, as text and as bytecode, with inputs and what XLA computed of them, by
//! `bench/stablehlo.py --record`: each evaluates to these. Cut off at any byte, or with bytes
//! changed, they end in diagnostics or are programs still.

mod changes;
mod evaluated;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use base::Limits;
use changes::Changes;
use evaluated::{evaluated, import};
use front::ImportOptions;
use import_stablehlo::{StablehloProgram, parts};
use tensor::{Tensor, npz};

/// How many changed texts are read, for each of the programs.
const MUTATIONS: usize = 300;

/// What is put in the place of a letter.
const SIGNS: &[u8] = b"%#{}()[]<>\"-x?0123:=,@!^ \\";

/// The most cuts that are read of a program's text.
const MOST_CUTS: usize = 3000;

fn folder() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/programs"))
}

/// The programs that are kept in a form, by name.
fn programs(form: &str) -> BTreeMap<String, Vec<u8>> {
    let entries = std::fs::read_dir(folder()).expect("programs");
    let paths = entries.map(|entry| entry.expect("an entry").path());
    let programs = paths.filter(|path| path.extension().is_some_and(|it| it == form));
    let read = |path: PathBuf| {
        let name = path.file_stem().expect("a name").to_string_lossy().into_owned();
        (name, std::fs::read(path).expect("a program"))
    };
    programs.map(read).collect()
}

#[test]
fn programs_compute_what_xla_does() {
    let values: BTreeMap<String, Tensor> =
        npz::read(folder().join("values.npz")).expect("values").into_iter().collect();
    let side = |name: &str, side: &str| -> Vec<Tensor> {
        (0..).map_while(|at| values.get(&format!("{name}.{side}{at}")).cloned()).collect()
    };
    let forms = ["mlir", "bc", "jaxexport"].map(programs);
    assert_eq!(forms.each_ref().map(BTreeMap::len), [20, 20, 1]);
    for (name, program) in forms.into_iter().flatten() {
        let imported = import(&program).unwrap_or_else(|found| panic!("{name}: {found}"));
        let results = evaluated(&imported, &side(&name, "in"));
        let results = results.unwrap_or_else(|found| panic!("{name}: {found}"));
        let wanted = side(&name, "out");
        assert_eq!(results.len(), wanted.len(), "outputs of {name}");
        for (at, (found, wanted)) in results.iter().zip(&wanted).enumerate() {
            assert_eq!((found.dtype(), found.shape()), (wanted.dtype(), wanted.shape()), "{name}");
            let tolerance = if wanted.dtype().is_float() { 2e-5 } else { 0.0 };
            let deviation = tensor::compare(found, wanted, tolerance, tolerance);
            assert!(deviation.first_mismatch.is_none(), "output {at} of {name}: {deviation:?}");
        }
    }
}

/// The counts of cases in a folder of the official suite: right, wrong and refused ones.
fn run_cases(folder: &Path) -> (usize, Vec<String>, Vec<String>) {
    let (mut right, mut wrong, mut refused) = (0, Vec::new(), Vec::new());
    let mut paths: Vec<PathBuf> = std::fs::read_dir(folder)
        .expect("cases")
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.extension().is_some_and(|it| it == "mlir"))
        .collect();
    paths.sort();
    let options = ImportOptions::default();
    for path in paths {
        let name = path.file_name().expect("a name").to_string_lossy().into_owned();
        let text = std::fs::read(&path).expect("a text").into();
        for part in parts(&text).expect("UTF-8") {
            let program = match StablehloProgram::read(&part, &options.limits) {
                Ok(program) => program,
                Err(found) => {
                    refused.push(format!("{name}: {found}"));
                    continue;
                }
            };
            for (function, checked) in program.checked_functions(&options) {
                let checked = match checked {
                    Ok(checked) => checked,
                    Err(found) => {
                        refused.push(format!("{name} {function}: {found}"));
                        continue;
                    }
                };
                let outputs = evaluated(&checked.imported, &[]);
                let compared = outputs.and_then(|outputs| {
                    checked.checks.iter().try_for_each(|check| check.compare(&outputs))
                });
                match compared {
                    Ok(()) => right += 1,
                    Err(reason) => wrong.push(format!("{name} {function}: {reason}")),
                }
            }
        }
    }
    (right, wrong, refused)
}

#[test]
fn texts_that_check_themselves_are_right() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases");
    let (right, wrong, refused) = run_cases(&folder);
    assert!(wrong.is_empty() && refused.is_empty(), "{wrong:#?} {refused:#?}");
    assert_eq!(right, 5);
}

#[test]
fn official_cases_are_right() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let near = root.join("../shared/data/stablehlo-cases-1.17.tar.xz");
    if !near.is_file() {
        println!("skipped: the official cases are not beside the repository");
        return;
    }
    let folder = std::env::temp_dir().join(format!("stablehlo-cases-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let unpacked =
        std::process::Command::new("tar").arg("xJf").arg(&near).arg("-C").arg(&folder).status();
    if !unpacked.is_ok_and(|status| status.success()) {
        println!("skipped: the official cases cannot be unpacked");
        return;
    }
    let cases = folder.join("stablehlo");
    let found = [
        ("testdata", 2298, 27, 0),
        ("testdata/quantized", 211, 0, 0),
        ("tests/interpret", 466, 0, 47),
    ]
    .map(|(name, right, wrong, refused)| {
        (name, run_cases(&cases.join(name)), (right, wrong, refused))
    });
    std::fs::remove_dir_all(&folder).expect("the folder goes");
    for (name, (right, wrong, refused), least) in found {
        println!("{name}: {right} right, {} wrong, {} refused", wrong.len(), refused.len());
        assert!(right >= least.0, "{name}: {right} right; {wrong:#?} {refused:#?}");
        assert!(wrong.len() <= least.1, "{name}: {wrong:#?}");
        assert!(refused.len() <= least.2, "{name}: {refused:#?}");
    }
}

/// Of a hundred texts that the dialect's verifier refuses so many are refused: half of those left
/// are about scales of quantised types.
const LEAST_REFUSED: usize = 88;

/// `STABLEHLO_TESTS=FOLDER` names `stablehlo/tests` of the dialect's own repository: its texts that
/// the verifier refuses.
#[test]
fn what_the_verifier_refuses_is_refused() {
    let Some(folder) = std::env::var_os("STABLEHLO_TESTS").map(PathBuf::from) else {
        println!("skipped: STABLEHLO_TESTS does not name the dialect's tests");
        return;
    };
    let entries = std::fs::read_dir(folder).expect("tests");
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
    paths.retain(|path| path.extension().is_some_and(|it| it == "mlir"));
    paths.sort();
    let (mut refused, mut taken) = (0, Vec::new());
    for path in paths {
        let text = std::fs::read_to_string(&path).expect("a text");
        let (mut here, mut all) = (0, 0);
        let mut line = 1;
        for part in text.split("// -----") {
            if part.contains("expected-error") {
                all += 1;
                match import(part.as_bytes()) {
                    Err(found) => {
                        assert!(!found.contains("TW09"), "{}:{line}: {found}", path.display());
                        here += 1;
                    }
                    Ok(_) => taken.push(format!("{}:{line}", path.display())),
                }
            }
            line += part.matches('\n').count();
        }
        if all > 0 {
            println!("{}: {here} of {all} refused", path.display());
        }
        refused += here;
    }
    let all = refused + taken.len();
    println!("{refused} of {all} refused; taken: {taken:#?}");
    assert!(100 * refused >= LEAST_REFUSED * all, "{refused} of {all}");
}

#[test]
fn changed_texts_end_in_diagnostics() {
    let mut changes = Changes::new();
    for (name, bytes) in programs("mlir") {
        let step = (bytes.len() / MOST_CUTS).max(1);
        for end in (0..bytes.len()).step_by(step) {
            if let Err(found) = import(&bytes[..end]) {
                assert!(!found.contains("TW09"), "{name} cut at {end}: {found}");
            }
        }
        for _ in 0..Changes::count(MUTATIONS) {
            let sign = |changes: &mut Changes| SIGNS[changes.below(SIGNS.len())];
            if let Err(found) = import(&changes.changed(&bytes, sign)) {
                assert!(!found.contains("TW09"), "{name}: {found}");
            }
        }
    }
}

#[test]
fn deep_texts_are_refused() {
    let limits = Limits::default();
    let nested = |open: &str, before: &str| {
        let text = format!("{before}{}", open.repeat(100_000));
        let refused = StablehloProgram::read(&text.into_bytes().into(), &limits);
        let refused = refused.expect_err("a refusal").to_string();
        assert!(refused.contains("TW0701") && refused.contains("line"), "{refused}");
    };
    nested("module {\n", "");
    let function = "func.func @main() {\n %0 = ";
    nested("[", &format!("{function}stablehlo.constant dense<"));
    nested("(", &format!("{function}\"a.b\"() : "));
    nested("{a = [", &format!("{function}\"a.b\"() "));
    nested("\"a.b\"() ({\n", function);
    nested("tuple<", &format!("{function}\"a.b\"() : () -> "));
    nested("#a.b<", &format!("{function}\"a.b\"() {{c = "));
    nested("loc(", "#loc = ");
}

#[test]
fn the_depth_of_calls_and_regions_is_limited() {
    let call = "func.func @main(%x: tensor<i32>) -> tensor<i32> {\n  %y = call @main(%x) : \
        (tensor<i32>) -> tensor<i32>\n  return %y : tensor<i32>\n}\n";
    let refused = import(call.as_bytes()).expect_err("a refusal");
    assert!(refused.contains("TW0112") && refused.contains("nesting"), "{refused}");
    let open = "%y = \"stablehlo.if\"(%x) ({\n";
    let close = "stablehlo.return %y : tensor<i1>\n}, {\nstablehlo.return %x : tensor<i1>\n}) : \
        (tensor<i1>) -> tensor<i1>\n";
    let text = format!(
        "func.func @main(%x: tensor<i1>) -> tensor<i1> {{\n{}%y = stablehlo.not %x : tensor<i1>\n\
         {}return %y : tensor<i1>\n}}\n",
        open.repeat(90),
        close.repeat(90)
    );
    let refused = import(text.as_bytes()).expect_err("a refusal");
    assert!(refused.contains("TW0112") && refused.contains("nesting"), "{refused}");
}

#[test]
fn a_constant_of_one_number_takes_the_memory_of_one() {
    let text = "func.func @main() -> tensor<i8> {\n  %x = stablehlo.constant dense<1> : \
        tensor<4000000000xi8>\n  %y = stablehlo.slice %x [7:8] : (tensor<4000000000xi8>) -> \
        tensor<1xi8>\n  %z = stablehlo.reshape %y : (tensor<1xi8>) -> tensor<i8>\n  \
        return %z : tensor<i8>\n}\n";
    import(text.as_bytes()).expect("a program");
}

#[test]
fn a_refusal_names_operation_line_and_column() {
    let text = b"module {\n  func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {\n    \
        %y = \"mystery.dance\"(%x) : (tensor<2xf32>) -> tensor<2xf32>\n    \
        return %y : tensor<2xf32>\n  }\n}\n";
    let refused = import(text).expect_err("a refusal");
    assert!(refused.contains("TW0103") && refused.contains("mystery.dance"), "{refused}");
    assert!(refused.contains("line 3, column 10"), "{refused}");
}
