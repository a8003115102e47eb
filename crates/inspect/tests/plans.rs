//! Plans of several segments are verified and explained as those of one are.

#[path = "../../tilewright/tests/common/mod.rs"]
mod common;

use tilewright::Value;

use common::{BRANCHES, DECODER, SEQUENCES, executable, floats, integers, number};

#[test]
fn each_part_is_verified_and_explained() {
    for (text, inputs) in [
        (DECODER, vec![integers(&[0]), number(3)]),
        (BRANCHES, vec![floats(&[1.0, 2.0, 3.0, 4.0]), number(2)]),
        (SEQUENCES, vec![floats(&[0.5, -1.0, 3.5, 1.5])]),
    ] {
        let Some(executable) = executable(text) else { return };
        let inputs: Vec<Value> = inputs.into_iter().map(Value::from).collect();
        let report = inspect::verify(&executable, &inputs, &mut |_, _, _| ());
        let report = report.unwrap_or_else(|found| panic!("{found}"));
        assert!(report.passed() && report.kernels.len() > 2, "{report}");
        let explained = inspect::explain(&executable, &inputs);
        let explained = explained.unwrap_or_else(|found| panic!("{found}"));
        assert!(explained.rows.len() > 2, "{explained}");
    }
}
