//! Operators of ONNX Runtime's own domains against what ONNX Runtime computes. Each recorded case
//! is evaluated twice: with all values as inputs, and with all but the first as constants. What is
//! compiled of them is compared in `tilewright/tests/microsoft.rs`.

mod recorded;

use std::collections::BTreeMap;

use recorded::{Prepared, cases, name, run};

#[test]
fn operators_are_as_in_onnx_runtime() {
    let (mut counts, mut wrong) = (BTreeMap::<String, usize>::new(), Vec::new());
    let only = std::env::var("TILEWRIGHT_CASES").unwrap_or_default();
    for case in cases().iter().filter(|case| name(case).contains(&only)) {
        let operator = name(case).split(' ').next().unwrap_or("");
        *counts.entry(operator.to_owned()).or_default() += 1;
        for (way, fed) in [("inputs", true), ("constants", false)] {
            let prepared = Prepared::of(case, |at| fed || at == 0);
            let results = run(&prepared.model, &prepared.inputs);
            if let Err(reason) = results.and_then(|results| prepared.compare(&results)) {
                wrong.push(format!("{}, as {way}: {reason}", name(case)));
            }
        }
    }
    assert!(wrong.is_empty(), "{} cases are wrong:\n{}", wrong.len(), wrong.join("\n"));
    let few: Vec<&str> =
        counts.iter().filter(|(_, count)| **count < 10).map(|(name, _)| name.as_str()).collect();
    assert!(!only.is_empty() || few.is_empty(), "operators with few cases: {few:?}");
}
