//! Plans of several segments are verified and explained as those of one are.

#[path = "../../tilewright/tests/common/mod.rs"]
mod common;

use tilewright::compiled::{Source, evaluate};
use tilewright::{EvaluationPrecision, Options, TargetChoice, Value};

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
        let report = inspect::verify(&executable, &inputs, u64::MAX, &mut |_, _, _| ());
        let report = report.unwrap_or_else(|found| panic!("{found}"));
        assert!(report.passed() && report.kernels.len() > 2, "{report}");
        let explained = inspect::explain(&executable, &inputs);
        let explained = explained.unwrap_or_else(|found| panic!("{found}"));
        assert!(explained.rows.len() > 2, "{explained:?}");
    }
}

/// Lists that are given, and strings that are known or that data choose, in C as elsewhere.
#[test]
fn lists_and_strings_are_the_same_in_c() {
    if !testkit::has_c_compiler() {
        return;
    }
    let lists = "
        input all: sequence f32? input at: i64[]
        one = SequenceAt(all, at)
        twice = Add(one, one)
        longer = SequenceInsert(all, twice, at)
        joined = ConcatFromSequence(longer) {axis = 0}
        output longer: sequence f32[c] output joined: f32[b]
    ";
    let strings = "
        opset 20 opset \"ai.onnx.ml\" 4
        input x: i64[3]
        constant fixed: string[2] {\"p\", \"q\"}
        named = \"ai.onnx.ml\" LabelEncoder(x) {keys_int64s = [1, 2],
            values_strings = [\"a\", \"b\"], default_string = \"other\"}
        sum = Add(x, x)
        output sum: i64[3] output fixed: string[2] output named: string[3]
    ";
    let vectors = [floats(&[1.0, 2.0]), floats(&[3.0]), floats(&[4.0, 5.0, 6.0])];
    let list = Value::Sequence(vectors.map(Value::from).into());
    for (text, inputs) in
        [(lists, vec![list, number(1).into()]), (strings, vec![integers(&[2, 7, 1]).into()])]
    {
        let bytes = prost::Message::encode_to_vec(&common::model(text));
        let options =
            Options { target: TargetChoice::Named("c99".to_owned()), ..Options::default() };
        let source = Source::of_bytes(bytes, &options.limits);
        let source = source.unwrap_or_else(|found| panic!("{found}"));
        let actual = inspect::run_as_c(&source, &options, &inputs);
        let actual = actual.unwrap_or_else(|found| panic!("{found}"));
        let precision = EvaluationPrecision::Declared;
        let expected = evaluate(&source, &Options::default(), &inputs, precision);
        let (_, expected) = expected.unwrap_or_else(|found| panic!("{found}"));
        assert_eq!(actual.len(), expected.len());
        for (actual, expected) in actual.iter().zip(&expected) {
            let pairs = actual.pairs(expected, "y").unwrap_or_else(|found| panic!("{found}"));
            assert!(!pairs.is_empty());
            for (name, actual, expected) in pairs {
                let comparison = tilewright::compare(&actual, &expected, 0.0, 0.0);
                assert!(comparison.passed(), "{name}: {comparison}");
            }
        }
    }
}
