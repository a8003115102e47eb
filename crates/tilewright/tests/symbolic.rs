//! Code for many extents at once: which runs share it, and that it computes what code for their
//! extents does, bit for bit.

mod common;

use std::collections::BTreeSet;
use std::sync::Arc;

use common::{compiled, model, refusal, runs_code};
use prost::Message;
use tilewright::compiled::{Source, compile_for};
use tilewright::{DType, Executable, Options, Target, Tensor, Value};

/// Scores over all positions, their softmax, the weighted sum; a product and a mean behind it.
const ATTENTION: &str = "
    input x: f32[batch, length, 16]
    constant w: f32[16, 16] {NUMBERS256}
    constant v: f32[16, 24] {NUMBERS384}
    q = MatMul(x, w)
    t = Transpose(x) {perm = [0, 2, 1]}
    scores = MatMul(q, t)
    shares = Softmax(scores) {axis = -1}
    seen = MatMul(shares, x)
    y = MatMul(seen, v)
    z = Relu(y)
    constant positions: i64[1] {1}
    mean = ReduceMean(z, positions) {keepdims = 0}
    output z: f32[batch, length, 24]
    output mean: f32[batch, 24]
";

/// A text in which `NUMBERSn` stands for so many numbers, with those.
fn numbered(text: &str) -> String {
    let numbers = |count: i32| {
        let number = |at: i32| format!("{:.3}", f64::from(at * 37 % 64 - 32) / 64.0);
        (0..count).map(number).collect::<Vec<String>>().join(", ")
    };
    let text = text.replace("NUMBERS256", &numbers(256)).replace("NUMBERS384", &numbers(384));
    text.replace("NUMBERS192", &numbers(192))
}

/// The code of such a text.
fn executable(text: &str, options: &Options) -> Executable {
    compiled(&model(&numbered(text)), options.clone())
}

/// Where the code of a run's segments lies.
fn code(executable: &Executable, inputs: &[Tensor]) -> BTreeSet<usize> {
    let inputs: Vec<Value> = inputs.iter().cloned().map(Value::from).collect();
    let (_, met) = executable.met(&inputs).unwrap_or_else(|found| panic!("{found}"));
    met.iter().map(|it| Arc::as_ptr(it.specialisation.executable().code()) as usize).collect()
}

#[test]
fn shapes_share_code_that_gives_the_same_bits() {
    if !runs_code() {
        return;
    }
    let options = Options::default().with_threads(2);
    let fixed = executable(ATTENTION, &options);
    let free = executable(ATTENTION, &options.with_symbolic_extents());
    let mut met = BTreeSet::new();
    for (batch, length) in
        [(1, 1), (2, 5), (7, 15), (1, 16), (3, 17), (2, 40), (1, 127), (1, 128), (2, 131), (5, 17)]
    {
        let inputs = [tilewright::random(DType::F32, &[batch, length, 16], length as u64)];
        let expected = fixed.run(&inputs).unwrap_or_else(|found| panic!("{found}"));
        let outputs = free.run(&inputs).unwrap_or_else(|found| panic!("{found}"));
        for (output, expected) in outputs.iter().zip(&expected) {
            assert_eq!(output.shape(), expected.shape());
            assert_eq!(output.bytes(), expected.bytes(), "{batch} x {length}");
        }
        met.extend(code(&free, &inputs));
    }
    // Sums over so many elements are taken in three ways here: below 16, below 128, below 256.
    // Where fewer than 8 rows meet the keys these are read as they lie, and their sums are others.
    assert!((3..=4).contains(&met.len()), "{} pieces of code", met.len());
}

/// An axis that is squeezed or repeated must be 1; else the shapes do not fit, which is said as it
/// is where code is made for the extents at hand.
#[test]
fn shapes_that_do_not_fit_are_refused_alike() {
    if !runs_code() {
        return;
    }
    let text = "
        input x: f32[n, 3] input y: f32[m, 3]
        both = Concat(x, y) {axis = 0}
        constant shape: i64[2] {-1, 6}
        pairs = Reshape(both, shape)
        output pairs: f32[p, 6]
    ";
    let options = Options::default().with_threads(1);
    let inputs =
        [tilewright::random(DType::F32, &[2, 3], 1), tilewright::random(DType::F32, &[3, 3], 2)];
    let said = |options: &Options| refusal(&executable(text, options), &inputs);
    assert_eq!(said(&options.clone().with_symbolic_extents()), said(&options));
}

/// The last vector of a row ends within its row, also where nothing lies behind it: in builds with
/// debug assertions a page that may not be read does.
#[test]
fn windows_over_free_extents_stay_within_their_rows() {
    if !runs_code() {
        return;
    }
    let texts = [
        "input x: f32[batch, 16, height, width]
        constant w: f32[8, 16, 1, 3] {NUMBERS384}
        out = Conv(x, w) {kernel_shape = [1, 3], pads = [0, 1, 0, 1], strides = [2, 1]}
        output out: f32[batch, 8, half, width]",
        "input x: f32[batch, 16, height, width]
        rows = MaxPool(x) {kernel_shape = [2, 2], pads = [1, 1, 1, 1], strides = [2, 2]}
        small = Tanh(rows)
        pooled = AveragePool(small) {kernel_shape = [2, 2], pads = [1, 1, 1, 1], strides = [2, 2]}
        constant axes: i64[1] {3}
        out = ReduceMean(pooled, axes) {keepdims = 1}
        output out: f32[batch, 16, high, 1]",
    ];
    let row = Target::named("x86-64-v3").expect("a row");
    let options = Options::default().with_threads(1).with_symbolic_extents();
    for text in texts {
        let source = Source::of_bytes(model(&numbered(text)).encode_to_vec(), &options.limits);
        let made = source.and_then(|it| compile_for(row.clone(), it, &options));
        let executable = made.unwrap_or_else(|found| panic!("{found}"));
        for (batch, height, width) in [(1, 40, 1), (3, 9, 33), (1, 33, 31), (1, 16, 62)] {
            let inputs = [tilewright::random(DType::F32, &[batch, 16, height, width], 1)];
            executable.run(&inputs).unwrap_or_else(|found| panic!("{found}"));
        }
    }
}

/// Rows and columns of a picture lie behind each other, so a sum over both has the order of one
/// over as many elements, and extents share code while their product stays between two steps.
#[test]
fn sums_over_several_free_axes_share_code() {
    if !runs_code() {
        return;
    }
    let text = "
        input x: f32[batch, 3, height, width]
        constant axes: i64[2] {2, 3}
        mean = ReduceMean(x, axes) {keepdims = 1}
        centred = Sub(x, mean)
        squares = Mul(centred, centred)
        spread = ReduceSum(squares, axes) {keepdims = 0}
        output mean: f32[batch, 3, 1, 1]
        output spread: f32[batch, 3]
    ";
    let options = Options::default().with_threads(1);
    let fixed = executable(text, &options);
    let free = executable(text, &options.with_symbolic_extents());
    let mut met = BTreeSet::new();
    for (batch, height, width) in
        [(1, 4, 5), (2, 5, 4), (1, 9, 5), (2, 20, 33), (1, 40, 33), (1, 20, 80), (3, 33, 41)]
    {
        let inputs = [tilewright::random(DType::F32, &[batch, 3, height, width], width as u64)];
        let expected = fixed.run(&inputs).unwrap_or_else(|found| panic!("{found}"));
        let outputs = free.run(&inputs).unwrap_or_else(|found| panic!("{found}"));
        for (output, expected) in outputs.iter().zip(&expected) {
            assert_eq!(output.bytes(), expected.bytes(), "{batch} x {height} x {width}");
        }
        met.extend(code(&free, &inputs));
    }
    assert!(met.len() <= 3, "{} pieces of code", met.len());
}

/// A window over each of two free axes, with what follows its sums pixel by pixel: one picture has
/// code without a loop over pictures, several share code, and so do extents of one magnitude.
#[test]
fn pictures_share_code_by_how_many_there_are_and_by_magnitude() {
    if !runs_code() {
        return;
    }
    let text = "
        input x: f32[batch, 16, height, width]
        constant w: f32[8, 16, 1, 3] {NUMBERS384}
        constant p: f32[24, 8, 1, 1] {NUMBERS192}
        constant q: f32[16, 24, 1, 1] {NUMBERS384}
        wide = Conv(x, w) {kernel_shape = [1, 3], pads = [0, 1, 0, 1], strides = [1, 2]}
        z = Relu(wide)
        more = Conv(z, p) {kernel_shape = [1, 1]}
        act = HardSwish(more)
        y = Conv(act, q) {kernel_shape = [1, 1]}
        out = Relu(y)
        output out: f32[batch, 16, height, half]
    ";
    let options = Options::default().with_threads(2);
    let fixed = executable(text, &options);
    let free = executable(text, &options.with_symbolic_extents());
    let mut met = BTreeSet::new();
    for (batch, height, width) in
        [(1, 1, 5), (1, 14, 14), (1, 3, 40), (1, 1, 1), (2, 7, 9), (5, 1, 3), (1, 2, 1100)]
    {
        let inputs = [tilewright::random(DType::F32, &[batch, 16, height, width], width as u64)];
        let expected = fixed.run(&inputs).unwrap_or_else(|found| panic!("{found}"));
        let outputs = free.run(&inputs).unwrap_or_else(|found| panic!("{found}"));
        for (output, expected) in outputs.iter().zip(&expected) {
            assert_eq!(output.bytes(), expected.bytes(), "{batch} x {height} x {width}");
        }
        met.extend(code(&free, &inputs));
    }
    assert!((2..=3).contains(&met.len()), "{} pieces of code", met.len());
    // No picture at all has code of its own, too.
    let none = [tilewright::random(DType::F32, &[0, 16, 3, 5], 1)];
    let outputs = free.run(&none).unwrap_or_else(|found| panic!("{found}"));
    assert_eq!(outputs[0].shape(), [0, 16, 3, 3]);
    assert!(code(&free, &none).is_disjoint(&met), "the code for none");
}

/// Sums over an extent of which no range of its symbols keeps the order the same.
#[test]
fn what_has_code_of_its_own_says_why() {
    if !runs_code() {
        return;
    }
    let text = "
        input x: f32[n]
        constant start: i64[1] {0}
        constant end: i64[1] {40}
        short = Slice(x, start, end)
        sum = ReduceSum(short) {keepdims = 0}
        output sum: f32[]
    ";
    let executable = executable(text, &Options::default().with_symbolic_extents());
    let inputs = [Tensor::from_slice(&[60], &[0.5_f32; 60])];
    assert_eq!(executable.run(&inputs).expect("it runs")[0].get_f64(0), 20.0);
    let (_, met) = executable.met(&inputs.map(Value::from)).expect("it runs");
    assert!(met.iter().all(|it| it.specialisation.why_alone().is_some()), "code for many");
}

/// A few bytes of a model cannot ask for more where extents are free than where they are known.
#[test]
fn limits_hold_for_free_extents() {
    if !runs_code() {
        return;
    }
    let inputs = [tilewright::random(DType::F32, &[4, 40, 16], 1)];
    let said = |limit: fn(&mut base::Limits), symbolic: bool| {
        let mut options = Options { symbolic, ..Options::default() };
        limit(&mut options.limits);
        refusal(&executable(ATTENTION, &options), &inputs)
    };
    // The weights have 384 elements, the scores 6400.
    let few_elements = |limits: &mut base::Limits| limits.elements = 5000;
    let refused = said(few_elements, true);
    assert!(refused.contains("TW0112") && refused.contains("--limit elements="), "{refused}");
    assert_eq!(refused, said(few_elements, false));
}
