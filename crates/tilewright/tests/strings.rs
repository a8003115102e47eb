//! Models that read strings, maps or encoded images run on new ones without a new compile.

mod common;

use common::{compiled, executable};
use import_onnx::proto::{MapTypeProto, TypeProto, TypeValue};
use tensor::{Keys, Value};
use tilewright::{DType, Executable, Options, Tensor};

fn texts(texts: &[&str]) -> Tensor {
    let texts = texts.iter().map(|&text| text.to_owned()).collect();
    Tensor::from_strings(&[2], texts)
}

/// Runs with inputs of the same shapes: right each time, nothing compiled after the first.
fn check(executable: &Executable, runs: &[(Vec<Tensor>, Vec<Tensor>)]) {
    let mut first = None;
    for (number, (inputs, expected)) in runs.iter().enumerate() {
        let outputs = executable.run(inputs).expect("it runs");
        for (output, expected) in outputs.iter().zip(expected) {
            let comparison = tensor::compare(output, expected, 1e-6, 1e-6);
            assert!(comparison.passed(), "run {number}: {comparison}");
        }
        let compiled = executable.statistics();
        assert!(compiled.kernels > 0, "something is left to compile");
        assert_eq!(*first.get_or_insert(compiled), compiled, "run {number} compiled again");
    }
}

const CLASSIFIER: &str = r#"
    opset 18
    opset "ai.onnx.ml" 3
    input words: string[n]
    input x: f32[1, 3]
    constant w: f32[3, 2] {1.0, 2.0, 3.0, 4.0, 5.0, 6.0}
    constant other: string[1] {"other"}
    lower = StringNormalizer(words) {case_change_action = "LOWER"}
    counts = TfIdfVectorizer(lower) {mode = "TF", min_gram_length = 1, max_gram_length = 2,
      max_skip_count = 0, ngram_counts = [0, 3], ngram_indexes = [0, 1, 2, 3],
      pool_strings = ["cat", "dog", "other", "cat", "dog"]}
    isother = Equal(lower, other)
    flags = Cast(isother) {to = 1}
    total = ReduceSum(flags) {keepdims = 0}
    scores = MatMul(x, w)
    shifted = Add(scores, total)
    output counts: f32[4]
    output shifted: f32[1, 2]
    output lower: string[n]
"#;

#[test]
fn words_are_no_part_of_what_is_compiled() {
    let Some(executable) = executable(CLASSIFIER) else { return };
    let x = Tensor::from_slice(&[1, 3], &[1.0_f32, 0.0, -1.0]);
    let run = |words: [&str; 2], counts: [f32; 4], total: f32| {
        let lower: Vec<String> = words.iter().map(|word| word.to_lowercase()).collect();
        let lower: Vec<&str> = lower.iter().map(String::as_str).collect();
        let outputs = vec![
            Tensor::from_slice(&[4], &counts),
            Tensor::from_slice(&[1, 2], &[total - 4.0, total - 4.0]),
            texts(&lower),
        ];
        (vec![texts(&words), x.clone()], outputs)
    };
    check(
        &executable,
        &[
            run(["Cat", "dog"], [1.0, 1.0, 0.0, 1.0], 0.0),
            run(["other", "OTHER"], [0.0, 0.0, 2.0, 0.0], 2.0),
            run(["dog", "cat"], [1.0, 1.0, 0.0, 0.0], 0.0),
            run(["bird", "Dog"], [0.0, 1.0, 0.0, 0.0], 0.0),
        ],
    );
}

#[test]
fn outputs_may_be_of_strings_alone() {
    let text = r#"
        input words: string[n]
        lower = StringNormalizer(words) {case_change_action = "LOWER"}
        output lower: string[n]
    "#;
    let Some(executable) = executable(text) else { return };
    for (given, expected) in [(["A", "b"], ["a", "b"]), (["C", "D"], ["c", "d"])] {
        let outputs = executable.run(&[texts(&given)]).expect("it runs");
        assert_eq!(outputs[0].strings(), texts(&expected).strings());
    }
}

#[test]
#[cfg(feature = "images")]
fn pixels_are_no_part_of_what_is_compiled() {
    let text = r#"
        opset 20
        input data: u8[n]
        pixels = ImageDecoder(data) {pixel_format = "Grayscale"}
        x = Cast(pixels) {to = 1}
        half = Mul(x, two)
        constant two: f32[] {0.5}
        output half: f32[h, w, 1]
        output pixels: u8[h, w, 1]
    "#;
    let Some(executable) = executable(text) else { return };
    let run = |pixel: u8| {
        let bytes = [b"P5 1 2 255 ".as_slice(), &[pixel, 7]].concat();
        let pixels = [f32::from(pixel) / 2.0, 3.5];
        let data = Tensor::from_slice(&[bytes.len()], &bytes);
        let half = Tensor::from_slice(&[2, 1, 1], &pixels);
        (vec![data], vec![half, Tensor::from_slice(&[2, 1, 1], &[pixel, 7])])
    };
    check(&executable, &[run(1), run(200), run(40)]);
}

#[test]
fn what_cannot_be_divided_still_runs() {
    // The strings meet an index that data give.
    let text = r#"
        input words: string[2]
        input place: i64[1]
        word = Gather(words, place)
        constant cat: string[1] {"cat"}
        same = Equal(word, cat)
        output same: bool[1]
    "#;
    let Some(executable) = executable(text) else { return };
    for (place, expected) in [(0_i64, true), (1, false)] {
        let place = Tensor::from_slice(&[1], &[place]);
        let outputs = executable.run(&[texts(&["cat", "dog"]), place]).expect("it runs");
        assert_eq!(outputs[0].dtype(), DType::Bool);
        assert_eq!(outputs[0].bytes(), [u8::from(expected)]);
    }
}

/// A model with the input `x` declared as a map to floats.
fn of_map(text: &str, key_type: i32) -> Option<Executable> {
    executable("input x: f32[1] output x: f32[1]")?;
    let mut model = common::model(text);
    let ty = &mut model.graph.as_mut().expect("a graph").input[0].r#type;
    let value_type = ty.take();
    let map = MapTypeProto { key_type, value_type };
    *ty = Some(TypeProto { value: Some(TypeValue::Map(Box::new(map))) });
    Some(compiled(&model, Options::default()))
}

/// Runs with maps: right each time, nothing compiled after the first.
fn check_maps(executable: &Executable, runs: &[(Keys, &[f32], &[f32])]) {
    let mut first = None;
    for (keys, values, expected) in runs {
        let map = Value::Map(keys.clone(), Tensor::from_slice(&[values.len()], values));
        let outputs = executable.run_values(&[map]).expect("it runs");
        let output = outputs[0].as_tensor().expect("a tensor");
        assert_eq!(output.shape(), [1, expected.len()]);
        let expected: Vec<f64> = expected.iter().map(|&value| value.into()).collect();
        assert_eq!(output.to_f64_vec(), expected, "{keys:?}");
        let compiled = executable.statistics();
        assert_eq!(*first.get_or_insert(compiled), compiled, "compiled again");
    }
}

#[test]
fn keys_of_maps_are_no_part_of_what_is_compiled() {
    let text = r#"
        opset 18
        opset "ai.onnx.ml" 3
        input x: f32
        row = "ai.onnx.ml" DictVectorizer(x) {string_vocabulary = ["a", "b", "c"]}
        twice = Add(row, row)
        output twice: f32[1, 3]
    "#;
    let Some(executable) = of_map(text, 8) else { return };
    let keys = |keys: &[&str]| Keys::Strings(keys.iter().map(|&key| key.to_owned()).collect());
    check_maps(
        &executable,
        &[
            (keys(&["b", "a"]), &[1.0, 2.0], &[4.0, 2.0, 0.0]),
            (keys(&["c"]), &[3.0], &[0.0, 0.0, 6.0]),
            (keys(&["d", "e", "f", "b"]), &[3.0, 4.0, 5.0, 6.0], &[0.0, 12.0, 0.0]),
            (keys(&[]), &[], &[0.0, 0.0, 0.0]),
        ],
    );
    let wrong = Value::Map(keys(&["a"]), Tensor::from_slice(&[2], &[1.0_f32, 2.0]));
    let found = executable.run_values(&[wrong]).expect_err("two values of one key");
    assert!(found.to_string().contains("TW0203"), "{found}");
}

#[test]
fn maps_become_rows() {
    let keys = |keys: &[i64]| Keys::Integers(keys.to_vec());
    let text = |attributes: &str| {
        format!(
            r#"opset 18 opset "ai.onnx.ml" 3 input x: f32
            row = "ai.onnx.ml" CastMap(x) {attributes}
            twice = Add(row, row) output twice: f32[1, n]"#
        )
    };
    let sparse = text(r#"{map_form = "SPARSE", max_map = 4}"#);
    let Some(executable) = of_map(&sparse, 7) else { return };
    check_maps(
        &executable,
        &[
            (keys(&[3, 0]), &[1.0, 2.0], &[4.0, 0.0, 0.0, 2.0]),
            (keys(&[1]), &[5.0], &[0.0, 10.0, 0.0, 0.0]),
        ],
    );
    let Some(executable) = of_map(&text(r#"{map_form = "DENSE"}"#), 7) else { return };
    check_maps(&executable, &[(keys(&[30, -1]), &[1.0, 2.0], &[4.0, 2.0])]);
}

/// Strings that data choose, changed and read again, with numbers before and behind.
const BETWEEN: &str = r#"
    opset 20
    opset "ai.onnx.ml" 3
    input x: i64[2]
    constant tail: string[1] {"_q"}
    doubled = Add(x, x)
    named = "ai.onnx.ml" LabelEncoder(doubled) {keys_int64s = [2, 4, 6],
      values_strings = ["a", "b", "c"], default_string = "other"}
    longer = StringConcat(named, tail)
    found = "ai.onnx.ml" LabelEncoder(longer) {keys_strings = ["a_q", "c_q"],
      values_int64s = [10, 30], default_int64 = -1}
    real = Cast(found) {to = 1}
    quarter = Constant() {value = f32[] {0.25}}
    part = Mul(real, quarter)
    text = Cast(part) {to = 8}
    again = Cast(text) {to = 1}
    output longer: string[2]
    output text: string[2]
    output again: f32[2]
"#;

#[test]
fn strings_between_numbers() {
    let Some(executable) = executable(BETWEEN) else { return };
    let runs = [
        ([1_i64, 2], ["a_q", "b_q"], ["2.5", "-0.25"], [2.5_f32, -0.25]),
        ([3, 9], ["c_q", "other_q"], ["7.5", "-0.25"], [7.5, -0.25]),
    ];
    for (x, longer, text, again) in runs {
        let outputs = executable.run(&[Tensor::from_slice(&[2], &x)]).expect("it runs");
        assert_eq!(outputs[0].strings().expect("strings"), longer);
        assert_eq!(outputs[1].strings().expect("strings"), text);
        assert_eq!(outputs[2].to_f64_vec(), again.map(f64::from));
    }
}

/// Each string of one input with each of another: refused before they are made.
#[test]
fn strings_beyond_the_memory_are_refused() {
    let text = "opset 20 input a: string[n, 1] input b: string[1, m] y = StringConcat(a, b)
        output y: string[n, m]";
    let mut options = Options::default();
    options.limits.memory_bytes = 1 << 20;
    if executable("input x: f32[1] output x: f32[1]").is_none() {
        return;
    }
    let executable = compiled(&common::model(text), options);
    let row = |shape: &[usize]| Tensor::from_strings(shape, vec!["ab".to_owned(); 600]);
    let said = common::refusal(&executable, &[row(&[600, 1]), row(&[1, 600])]);
    assert!(said.contains("TW0112") && said.contains("--limit memory-bytes="), "{said}");
    let few = |shape: &[usize]| Tensor::from_strings(shape, vec!["ab".to_owned(); 2]);
    let outputs = executable.run(&[few(&[2, 1]), few(&[1, 2])]).expect("four strings");
    assert_eq!(outputs[0].strings(), Some(&vec!["abab".to_owned(); 4][..]));
}
