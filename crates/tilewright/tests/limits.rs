//! What a run may take: turns of loops, compiled and evaluated, memory, and operations.

mod common;

use common::{model, refusal, runs_code, with_options};
use prost::Message;
use tilewright::{EvaluationPrecision, Options, Tensor};

fn number(value: f32) -> Tensor {
    Tensor::from_slice(&[], &[value])
}

fn at_most(turns: u64) -> Options {
    let mut options = Options::default();
    options.limits.turns = turns;
    options
}

/// What is said of a model of known shapes that is refused when it is compiled.
fn refused(text: &str, options: &Options) -> Option<String> {
    runs_code().then(|| match tilewright::compile_bytes(model(text).encode_to_vec(), options) {
        Ok(_) => panic!("it compiles"),
        Err(found) => found.to_string(),
    })
}

/// Runs and evaluates: sums are right, and what is refused is refused for its turns.
fn check(text: &str, turns: u64, right: &[(f32, f32)], refused: &[f32]) {
    let Some(executable) = with_options(text, at_most(turns)) else { return };
    let bytes = model(text).encode_to_vec();
    let evaluate = |input: f32| {
        let inputs = [number(input).into()];
        let precision = EvaluationPrecision::Declared;
        tilewright::evaluate_bytes(bytes.clone(), &at_most(turns), &inputs, precision)
    };
    for &(input, expected) in right {
        let outputs = executable.run(&[number(input)]).unwrap_or_else(|found| panic!("{found}"));
        assert_eq!(outputs[0].get_f64(0), f64::from(expected));
        let outputs = evaluate(input).unwrap_or_else(|found| panic!("{found}"));
        assert_eq!(outputs[0].as_tensor().map(|it| it.get_f64(0)), Some(f64::from(expected)));
    }
    for &input in refused {
        let evaluated = evaluate(input).expect_err("it is refused").to_string();
        for said in [refusal(&executable, &[number(input)]), evaluated] {
            assert!(said.contains("TW0112") && said.contains("--limit turns="), "{said}");
        }
    }
}

#[test]
fn loops_that_data_end() {
    let text = "
        input bound: f32[]
        one = Constant() {value = f32[] {1.0}}
        zero = Constant() {value = f32[] {0.0}}
        y = Loop(_, _, zero) {body = {
            input turn: i64[] input goeson: bool[] input before: f32[]
            after = Add(before, one)
            more = Less(after, bound)
            output more: bool[] output after: f32[]
        }}
        output y: f32[]
    ";
    check(text, 100, &[(0.0, 1.0), (7.0, 7.0), (100.0, 100.0)], &[101.0, f32::INFINITY]);
}

#[test]
fn loops_inside_of_loops() {
    let text = "
        input x: f32[]
        hundred = Constant() {value = i64[] {100}}
        large = Constant() {value = f32[] {1e9}}
        y = Loop(hundred, _, x) {body = {
            input turn: i64[] input goeson: bool[] input before: f32[]
            after = Loop(hundred, _, before) {body = {
                input inner: i64[] input goeson: bool[] input v: f32[]
                w = Add(v, x)
                more = Less(w, large)
                output more: bool[] output w: f32[]
            }}
            go = Identity(goeson)
            output go: bool[] output after: f32[]
        }}
        output y: f32[]
    ";
    // What data end is counted turn by turn; a fixed number of turns may be a nest of a kernel.
    check(text, 10_100, &[(2.0, 20_002.0)], &[]);
    check(text, 10_000, &[], &[2.0]);
}

/// Four gigabytes of a number and a shape.
const LARGE: &str = "
    input x: f32[]
    large = Constant() {value = i64[2] {32768, 32768}}
    y = Expand(x, large)
    output y: f32[32768, 32768]
";

#[test]
fn memory_beyond_all_proportion() {
    let Some(said) = refused(LARGE, &Options::default()) else { return };
    assert!(said.contains("TW0112") && said.contains("--limit memory-ratio="), "{said}");
    assert!(said.contains("4294967296 of results"), "{said}");
    let mut options = Options::default();
    options.limits.memory_ratio = 1 << 40;
    options.limits.memory_bytes = 1 << 20;
    let Some(said) = refused(LARGE, &options) else { return };
    assert!(said.contains("TW0112") && said.contains("--limit memory-bytes="), "{said}");
}

#[test]
fn operations_beyond_all_proportion() {
    let text = "
        input x: f32[]
        large = Constant() {value = i64[2] {8192, 8192}}
        a = Expand(x, large)
        b = MatMul(a, a)
        y = ReduceSum(b) {keepdims = 0}
        output y: f32[]
    ";
    let Some(said) = refused(text, &Options::default()) else { return };
    assert!(said.contains("TW0112") && said.contains("--limit operations="), "{said}");
}

/// A pebibyte, which no limit refuses: the system does.
#[test]
fn memory_that_the_system_does_not_have() {
    let text = LARGE.replace("32768", "16777216");
    let mut options = Options::default();
    let limits = &mut options.limits;
    (limits.elements, limits.memory_bytes, limits.memory_ratio) = (1 << 60, u64::MAX, u64::MAX);
    let Some(executable) = with_options(&text, options) else { return };
    let said = refusal(&executable, &[number(1.0)]);
    assert!(said.contains("TW0504"), "{said}");
}

/// A loop of which data tell when it ends, and which keeps 16 MiB a turn.
#[test]
fn memory_of_a_loop_in_pieces() {
    let text = "
        input x: i64[1]
        constant most: i64[] {1000}
        constant row: i64[1] {1048576}
        constant line: i64[1] {-1}
        holds = Constant() {value = bool[] {true}}
        y, z = Loop(most, holds, x) {body = {
            input turn: i64[] input goeson: bool[] input now: i64[k]
            places = NonZero(now)
            found = Reshape(places, line)
            grown = Concat(now, found) {axis = 0}
            wide = Expand(turn, row)
            kept = Cast(wide) {to = 1}
            more = Identity(goeson)
            output more: bool[] output grown: i64[l] output kept: f32[1048576]
        }}
        output y: i64[m]
        output z: f32[1000, 1048576]
    ";
    let Some(executable) = with_options(text, Options::default()) else { return };
    let said = refusal(&executable, &[Tensor::from_slice(&[1], &[1i64])]);
    assert!(said.contains("TW0112") && said.contains("--limit memory-ratio="), "{said}");
}
