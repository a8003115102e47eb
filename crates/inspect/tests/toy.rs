//! The official cases of operators, where the shared data is there, on the register machine of
//! `backend-toy`: bit by bit what compiled code gives. Without the variable `TILEWRIGHT_ALL_CASES`
//! only some of them.
//!
//! Cases that compiled code refuses, or that are no program of fixed sizes, are counted apart.

use std::path::{Path, PathBuf};
use std::process::Command;

use backend_toy::ToyProgram;
use tensor::{Scalar, Tensor, Value};
use tilewright::{Options, compile, model_info};

/// Of so many cases one is run.
const SHARE: usize = 12;

#[test]
fn official_cases_give_the_same_bits() {
    let archive = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../../shared/data/onnx-backend-cases-1.23.2.tar.xz");
    if !archive.is_file() {
        println!("skipped: {} is not there", archive.display());
        return;
    }
    let folder = testkit::Folder::new();
    let unpacked =
        Command::new("tar").arg("-xf").arg(&archive).arg("-C").arg(folder.path()).status();
    assert!(unpacked.is_ok_and(|status| status.success()), "tar unpacks the cases");
    let mut cases = Vec::new();
    find_cases(folder.path(), &mut cases);
    cases.sort();
    let share = if std::env::var_os("TILEWRIGHT_ALL_CASES").is_some() { 1 } else { SHARE };
    let (mut equal, mut apart, mut wrong) = (0, 0, Vec::new());
    for case in cases.iter().step_by(share) {
        match try_case(case) {
            Ok(true) => equal += 1,
            Ok(false) => apart += 1,
            Err(reason) => wrong.push(format!("{}: {reason}", case.display())),
        }
    }
    println!("{equal} equal, {apart} that are no program of fixed sizes, {} wrong", wrong.len());
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(equal > 4 * apart, "{equal} equal, {apart} apart");
}

fn find_cases(folder: &Path, cases: &mut Vec<PathBuf>) {
    if folder.join("model.onnx").is_file() {
        if folder.parent().is_some_and(|parent| parent.ends_with("node")) {
            cases.push(folder.to_owned());
        }
        return;
    }
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    entries.flatten().filter(|entry| entry.path().is_dir()).for_each(|entry| {
        find_cases(&entry.path(), cases);
    });
}

/// Whether the machine runs a case; an error where it gives something else.
fn try_case(case: &Path) -> Result<bool, String> {
    let (model, options) = (case.join("model.onnx"), Options::default());
    let Ok(info) = model_info(&model, &options.limits) else { return Ok(false) };
    let kinds: Vec<_> = info.inputs.iter().map(|port| port.kind.clone()).collect();
    let set = case.join("test_data_set_0");
    let Ok(inputs) = tilewright::read_values(&set, "input", &kinds) else { return Ok(false) };
    let tensor = |(_, value)| match value {
        Value::Tensor(tensor) => Some(tensor),
        _ => None,
    };
    let Some(inputs) = inputs.into_iter().map(tensor).collect::<Option<Vec<Tensor>>>() else {
        return Ok(false);
    };
    let Ok(executable) = compile(&model, &options) else { return Ok(false) };
    let Ok(expected) = executable.run(&inputs) else { return Ok(false) };
    let Some((variant, code, 0)) = executable.fixed_code() else { return Ok(false) };
    let ([main], true) = (&code[..], variant.is_one_segment()) else { return Ok(false) };
    let setup = variant.setup();
    let mut constants = vec![0; setup.lowered().constants.bytes as usize];
    let toy = ToyProgram::new(setup.module(), setup.program())?;
    toy.run(&[], &mut [], &mut constants)?;
    let Ok(mut outputs) = main.new_outputs() else { return Ok(false) };
    ToyProgram::new(main.module(), main.program())?.run(&inputs, &mut outputs, &mut constants)?;
    for (number, (found, wanted)) in outputs.iter().zip(&expected).enumerate() {
        let same = found.scalars().zip(wanted.scalars());
        let differs =
            |(a, b): (Scalar, Scalar)| a.bits() != b.bits() && !(a.is_nan() && b.is_nan());
        if let Some(place) = same.map(differs).position(|differs| differs) {
            let (found, wanted) = (found.get_scalar(place), wanted.get_scalar(place));
            return Err(format!("output {number}[{place}] is {found:?}, not {wanted:?}"));
        }
    }
    Ok(true)
}
