//! No file makes the importer panic: damaged models end in diagnostics, or import.

use base::text::Parser;
use import_onnx::proto::ModelProto;
use import_onnx::{DecodedModel, Facts, ImportOptions, import_bytes};
use proptest::prelude::*;
use prost::Message;
use testkit::onnx_text;

/// A model with some of everything: subgraphs, functions, convolution, shape arithmetic.
const MODEL: &str = r#"
opset 18
opset "my" 1
function "my" Twice(a) -> (b) {b = Add(a, a)}
input x: f32[n, 2, 5, 6]
constant w: f32[4, 1, 3, 3] {0.25}
constant rest: i64[1] {-1}
c = Conv(x, w) {group = 2, strides = [2, 1], pads = [1, 1, 1, 1], dilations = [1, 2]}
p, i = MaxPool(c) {kernel_shape = [2, 2], ceil_mode = 1, strides = [1, 2]}
s = Shape(p) {end = 1}
t = Concat(s, rest) {axis = 0}
r = Reshape(p, t)
k = Constant() {value = i64[1] {3}}
v, j = TopK(r, k)
q = "my" Twice(v)
e = Einsum(q, q) {equation = "ij,kj->ik"}
one = Constant() {value = i64[] {1}}
size = Size(t)
known = Greater(size, one)
z = If(known) {then_branch = {a = Relu(e) output a: f32}, else_branch = {b = Abs(e) output b: f32}}
scales = Constant() {value_floats = [1.5, 2.0]}
y = Resize(z, _, scales) {mode = "cubic"}
output y: f32[a, b]
"#;

fn parsed(text: &str) -> ModelProto {
    onnx_text::parse_model(&mut Parser::new(text)).expect("the model parses")
}

fn model() -> Vec<u8> {
    parsed(MODEL).encode_to_vec()
}

fn attempt(bytes: Vec<u8>) {
    let decoded = DecodedModel::of(bytes.clone().into(), &base::Limits::default());
    let _ = decoded.map(|model| model.info());
    let Ok(module) = import_bytes(bytes.into(), &ImportOptions::default()) else { return };
    for (_, function) in module.functions.iter() {
        graph::verify(function).expect("what imports is well-formed");
    }
}

#[test]
fn the_model_itself_imports() {
    let module = import_bytes(model().into(), &ImportOptions::default());
    assert!(module.is_ok(), "{}", module.expect_err("an error"));
}

/// What is said of the model after a change.
fn refusal(change: impl Fn(&mut ModelProto)) -> String {
    let mut model = ModelProto::decode(&model()[..]).expect("the model decodes");
    change(&mut model);
    let bytes = model.encode_to_vec().into();
    match import_bytes(bytes, &ImportOptions::default()) {
        Ok(_) => panic!("it imports"),
        Err(found) => found.to_string(),
    }
}

#[test]
fn functions_of_one_name_are_refused() {
    let said = refusal(|model| model.functions.push(model.functions[0].clone()));
    assert!(said.contains("TW0111") && said.contains("`Twice` is defined twice"), "{said}");
}

#[test]
fn versions_that_differ_in_a_function_are_refused() {
    let said = refusal(|model| {
        let mut other = model.functions[0].opset_import[0].clone();
        other.version -= 1;
        model.functions[0].opset_import.push(other);
    });
    assert!(said.contains("TW0111") && said.contains("function \"Twice\""), "{said}");
    assert!(said.contains("`ai.onnx` is imported in two versions"), "{said}");
}

#[test]
fn data_in_two_fields_is_refused() {
    let said = refusal(|model| {
        let tensor = &mut model.graph.as_mut().expect("a graph").initializer[0];
        tensor.float_data = vec![0.25; 36];
        tensor.raw_data = Some(vec![0; 144].into());
    });
    assert!(said.contains("TW0105") && said.contains("tensor \"w\""), "{said}");
    assert!(said.contains("given more than once"), "{said}");
}

/// Each function calls the next: neither a survey nor an import follows them all.
#[test]
fn long_chains_of_functions_are_refused() {
    let functions: String = (0..100_000)
        .map(|number| {
            format!("function \"my\" F{number}(a) -> (b) {{b = \"my\" F{}(a)}}\n", number + 1)
        })
        .collect();
    let text = format!(
        "opset 18\nopset \"my\" 1\n{functions}function \"my\" F100000(a) -> (b) {{b = Relu(a)}}\n\
         input x: f32[2]\ny = \"my\" F0(x)\noutput y: f32[2]\n"
    );
    let bytes = parsed(&text).encode_to_vec();
    let decoded = DecodedModel::of(bytes.clone().into(), &base::Limits::default());
    let _ = decoded.expect("what it holds is known").info();
    let found = import_bytes(bytes.into(), &ImportOptions::default());
    let said = found.expect_err("calls inside of calls").to_string();
    assert!(said.contains("--limit nesting=48"), "{said}");
}

/// The formula of a size has a division for each node: it is computed at the run from some on.
#[test]
fn long_chains_of_divisions_import() {
    let lines: String = (0..20_000)
        .map(|number| {
            format!("a{number} = Add(s{number}, one)\ns{} = Div(a{number}, three)\n", number + 1)
        })
        .collect();
    let text = format!(
        "opset 18\ninput x: f32[n]\nconstant one: i64[1] {{1}}\nconstant three: i64[1] {{3}}\n\
         s0 = Shape(x)\n{lines}output s20000: i64[1]\n"
    );
    let bytes = parsed(&text).encode_to_vec().into();
    let imported = import_bytes(bytes, &ImportOptions::default());
    assert!(imported.is_ok(), "{}", imported.expect_err("an error"));
}

/// All needs come at once, those of other inputs and inside of functions, too, and what computes
/// the others.
#[test]
fn all_needs_come_at_once() {
    let each = |line: &dyn Fn(usize) -> String| (0..100).map(line).collect::<String>();
    let nodes = each(&|number| {
        format!(
            "m{number} = Abs(n{number})\ny{number} = ReduceSum(x, m{number})\n\
             z{number} = Relu(y{number})\n"
        )
    });
    let names = |letter: &str| (0..100).map(|it| format!("{letter}{it}")).collect::<Vec<_>>();
    let (read, given) = (format!("x, {}", names("n").join(", ")), names("z").join(", "));
    let function =
        format!("opset \"my\" 1\nfunction \"my\" Whole({read}) -> ({given}) {{{nodes}}}\n");
    let call = format!("{given} = \"my\" Whole({read})\n");
    for (function, nodes, path) in [("", &nodes, ""), (function.as_str(), &call, "0.0/")] {
        let model = parsed(&format!(
            "opset 18\n{function}input x: f32[2, 3]\n{}{nodes}{}",
            each(&|number| format!("input n{number}: i64[1]\n")),
            each(&|number| format!("output z{number}: f32[a, b]\n")),
        ));
        let bytes = model.encode_to_vec().into();
        let model = DecodedModel::of(bytes, &base::Limits::default()).expect("a model");
        let needed_with = |told: usize| {
            let one = tensor::Tensor::from_slice(&[1], &[0_i64]);
            let computed = (0..told).map(|it| (format!("{path}:m{it}"), one.clone())).collect();
            let facts = Facts { computed, ..Facts::default() };
            let options = ImportOptions::default();
            let imported = model.import(&options, &facts);
            let imported = imported.expect("a module");
            let function = imported.module.functions.values().next().expect("a function");
            graph::verify(function).expect("what imports is well-formed");
            let results = imported.needs.iter().filter_map(|need| need.result).collect::<Vec<_>>();
            assert_eq!(results, (0..100 - told).collect::<Vec<_>>());
            imported.needs.len()
        };
        assert_eq!([0, 15, 99, 100].map(needed_with), [100, 85, 1, 0]);
    }
}

#[test]
fn every_truncation_is_refused_or_imports() {
    let whole = model();
    for length in 0..whole.len() {
        attempt(whole[..length].to_vec());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn damaged_bytes_never_panic(
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
    ) {
        let mut bytes = model();
        for (index, byte) in damage {
            let place = index.index(bytes.len());
            bytes[place] = byte;
        }
        attempt(bytes);
    }

    #[test]
    fn flipped_bits_never_panic(index in any::<prop::sample::Index>(), bit in 0u32..8) {
        let mut bytes = model();
        let place = index.index(bytes.len());
        bytes[place] ^= 1 << bit;
        attempt(bytes);
    }

    #[test]
    fn large_numbers_never_panic(index in any::<prop::sample::Index>(), which in 0usize..4) {
        // One number of the text, not of a constant's shape, becomes a large one.
        let numbers: [i64; 4] = [i64::MIN, i64::MAX, -1, 1 << 40];
        let mut text = MODEL.to_owned();
        let is_number = |place: usize, c: char| {
            let line = text[..place].lines().last().unwrap_or_default();
            let starts = line.ends_with([' ', '[', '{']) && !line.ends_with("i64[");
            c.is_ascii_digit() && starts && !line.starts_with("constant")
        };
        let places = text.char_indices().filter(|&(place, c)| is_number(place, c));
        let digits: Vec<usize> = places.map(|(place, _)| place).collect();
        let place = digits[index.index(digits.len())];
        text.replace_range(place..place + 1, &numbers[which].to_string());
        if let Ok(model) = onnx_text::parse_model(&mut Parser::new(&text)) {
            attempt(model.encode_to_vec());
        }
    }
}
