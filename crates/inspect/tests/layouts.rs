//! The driver weighs the layouts of sums that stand nearly alone, and only of those.

#[path = "../../tilewright/tests/common/mod.rs"]
mod common;

use tilewright::Options;

use common::{compiled, model, runs_code};

/// What is said of the layouts of this many convolutions in a row: both predictions in microseconds
/// and how many were tried.
fn weighed(convolutions: usize) -> Vec<(f64, f64, u32)> {
    let weights: Vec<String> = (0..36).map(|at| format!("{}.25", at % 5 - 2)).collect();
    let weights = weights.join(", ");
    let mut text = String::from("input v0: f32[1, 2, 40, 41]\n");
    for number in 0..convolutions {
        text += &format!(
            "constant w{number}: f32[2, 2, 3, 3] {{{weights}}}\n\
             v{} = Conv(v{number}, w{number}) {{pads = [1, 1, 1, 1]}}\n",
            number + 1
        );
    }
    text += &format!("output v{convolutions}: f32[1, 2, 40, 41]\n");
    let executable = compiled(&model(&text), Options::default());
    let inputs = [tilewright::random(tilewright::DType::F32, &[1, 2, 40, 41], 1).into()];
    let explained =
        inspect::explain(&executable, &inputs).unwrap_or_else(|found| panic!("{found}"));
    let figures = |line: &String| {
        let (_, said) = line.split_once("layouts: predicted ")?;
        let (least, said) = said.split_once(" us, channels last throughout ")?;
        let (together, said) = said.split_once(" us, ")?;
        let tried = said.strip_suffix(" tried")?;
        Some((least.parse().ok()?, together.parse().ok()?, tried.parse().ok()?))
    };
    explained.formats.iter().filter_map(figures).collect()
}

#[test]
fn few_sums_are_weighed() {
    if !runs_code() {
        return;
    }
    let [(least, together, tried)] = weighed(1)[..] else { panic!("it is weighed once") };
    assert!(least <= together && tried > 1, "{least} {together} {tried}");
    assert_eq!(weighed(17), []);
}
