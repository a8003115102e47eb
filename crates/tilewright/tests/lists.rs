//! Inputs that are lists: values like others, of any length and any extents, in one variant.

mod common;

use common::{executable, floats, number};
use tilewright::{DType, Executable, Kind, Options, Tensor, Value};

/// What stands at a place of a list, doubled, how many there are, and all behind each other.
fn taken(list: &str) -> Option<Executable> {
    executable(&format!(
        "
        input all: sequence {list}
        input at: i64[]
        one = SequenceAt(all, at)
        twice = Add(one, one)
        count = SequenceLength(all)
        joined = ConcatFromSequence(all) {{axis = 0}}
        longer = SequenceInsert(all, twice)
        output twice: f32[a]
        output count: i64[]
        output joined: f32[b]
        output longer: sequence f32[c]
    "
    ))
}

fn list(tensors: &[Tensor]) -> Value {
    Value::Sequence(tensors.iter().cloned().map(Value::from).collect())
}

/// Checks runs on lists of these vectors, at each of their places.
fn check(executable: &Executable, vectors: &[&[f32]]) {
    let tensors: Vec<Tensor> = vectors.iter().map(|vector| floats(vector)).collect();
    for (at, vector) in vectors.iter().enumerate() {
        let twice: Vec<f32> = vector.iter().map(|it| it * 2.0).collect();
        let inputs = [list(&tensors), number(at as i64).into()];
        let outputs = executable.run_values(&inputs).unwrap_or_else(|found| panic!("{found}"));
        let mut longer = tensors.clone();
        longer.push(floats(&twice));
        let expected: [Value; 4] = [
            floats(&twice).into(),
            number(vectors.len() as i64).into(),
            floats(&vectors.concat()).into(),
            list(&longer),
        ];
        for (actual, expected) in outputs.iter().zip(&expected) {
            let pairs = actual.pairs(expected, "y").unwrap_or_else(|found| panic!("{found}"));
            assert!(pairs.iter().all(|(_, a, b)| tilewright::compare(a, b, 0.0, 0.0).passed()));
        }
        assert_eq!(outputs.len(), expected.len());
    }
}

/// What a run on these inputs says that is refused.
fn said(executable: &Executable, inputs: &[Value]) -> String {
    match executable.run_values(inputs) {
        Ok(_) => panic!("it runs"),
        Err(found) => found.to_string(),
    }
}

#[test]
fn lists_of_any_length_share_a_variant() {
    let Some(executable) = taken("f32[n]") else { return };
    assert_eq!(executable.inputs()[0].kind, Kind::Sequence(Box::new(Kind::Tensor)));
    assert_eq!(executable.inputs()[0].dtype, Some(DType::F32));
    check(&executable, &[&[1.0, 2.0]]);
    let before = executable.statistics().kernels;
    check(&executable, &[&[3.0, 4.0], &[5.0, 6.0], &[7.0, 8.0]]);
    assert_eq!(executable.statistics().kernels, before, "no new extents, no new kernels");
    check(&executable, &[&[1.0], &[2.0, 3.0, 4.0]]);
}

#[test]
fn the_rank_of_what_a_list_holds_may_be_what_a_run_tells() {
    let Some(executable) = taken("f32?") else { return };
    check(&executable, &[&[1.0, 2.0], &[3.0]]);
    let matrix = Tensor::from_slice(&[1, 2], &[1.0_f32, 2.0]);
    let mixed = said(&executable, &[list(&[matrix, floats(&[1.0])]), number(0).into()]);
    assert!(mixed.contains("error[TW0115]") && mixed.contains("rank"), "{mixed}");
    check(&executable, &[&[4.0]]);
}

#[test]
fn lists_of_other_values_are_refused() {
    let Some(executable) = taken("f32[n]") else { return };
    let (at, one) = (Value::from(number(0)), floats(&[1.0]));
    for other in [list(&[number(1)]), one.clone().into(), Value::Optional(None)] {
        let said = said(&executable, &[other, at.clone()]);
        assert!(said.contains("error[TW0203]") && said.contains("remedy"), "{said}");
    }
    let matrix = Tensor::from_slice(&[1, 2], &[1.0_f32, 2.0]);
    let rank = said(&executable, &[list(&[matrix]), at.clone()]);
    assert!(rank.contains("error[") && !rank.contains("TW09"), "{rank}");
    let empty = said(&executable, &[list(&[]), at.clone()]);
    assert!(empty.contains("there is no place 0 in 0 values"), "{empty}");
    let outside = said(&executable, &[list(&[one]), number(1).into()]);
    assert!(outside.contains("there is no place 1"), "{outside}");
}

#[test]
fn a_list_that_is_declared_as_a_tensor_is_refused() {
    if !common::runs_code() {
        return;
    }
    let text = "input x: f32[2] y = SequenceConstruct(x, x) output y: f32[2]";
    let bytes = prost::Message::encode_to_vec(&common::model(text));
    let found = tilewright::compile_bytes(bytes, &Options::default()).expect_err("no tensor");
    assert!(found.to_string().contains("computed as a sequence"), "{found}");
}

#[test]
fn negative_extents_of_inputs_are_refused() {
    if !common::runs_code() {
        return;
    }
    for declared in ["f32?", "f32[n]"] {
        let text = format!("input x: {declared} y = Neg(x) output y: f32[m]");
        let bytes = prost::Message::encode_to_vec(&common::model(&text));
        let input_shapes = [("x".to_owned(), vec![-1])].into();
        let options = Options { input_shapes, ..Options::default() };
        let found = tilewright::compile_bytes(bytes, &options).expect_err("no extent");
        assert!(found.to_string().contains("error[TW0204]"), "{found}");
    }
}
