//! Models of which values decide what is to be compiled: plans of several segments, each shape
//! known when its kernels are made.

mod common;

use common::{BRANCHES, DECODER, SEQUENCES};
use common::{executable, floats, integers, model, number, refusal, runs_code, with_options};
use prost::Message;
use tilewright::{Executable, Options, Tensor};

/// Runs with each inputs: right each time, and nothing is compiled the third time.
fn check(executable: &Executable, runs: &[(Vec<Tensor>, Vec<Tensor>)]) {
    for (number, (inputs, expected)) in runs.iter().enumerate() {
        let mut before = None;
        for turn in 0..3 {
            let outputs = executable.run(inputs).unwrap_or_else(|found| panic!("{found}"));
            assert_eq!(outputs.len(), expected.len());
            for (output, expected) in outputs.iter().zip(expected) {
                assert_eq!((output.dtype(), output.shape()), (expected.dtype(), expected.shape()));
                let comparison = tensor::compare(output, expected, 1e-5, 1e-5);
                assert!(comparison.passed(), "run {number}: {comparison}");
            }
            let compiled = executable.statistics();
            assert!(turn < 2 || before == Some(compiled), "run {number} compiled again");
            before = Some(compiled);
        }
    }
}

fn decoded(prompt: &[i64], last: i64) -> (Vec<Tensor>, Vec<Tensor>) {
    let best = [(1, 1.0_f32), (2, 3.0), (3, 4.0), (0, 5.0)];
    let (mut tokens, mut scores) = (prompt.to_vec(), Vec::new());
    while scores.len() < 10 {
        let (next, score) = best[tokens[tokens.len() - 1] as usize];
        tokens.push(next);
        scores.push(score);
        if next == last {
            break;
        }
    }
    let doubled: Vec<i64> = tokens.iter().map(|token| 2 * token).collect();
    (vec![integers(prompt), number(last)], vec![integers(&doubled), floats(&scores)])
}

#[test]
fn tokens_grow_until_data_say_stop() {
    let Some(executable) = executable(DECODER) else { return };
    let runs = [decoded(&[0], 3), decoded(&[1, 2, 3], 3), decoded(&[2], 7), decoded(&[3, 0], 0)];
    check(&executable, &runs);
}

/// A cache of keys grows by a row each turn; attention over it.
const CACHE: &str = "
    input query: f32[1, 2]
    input cache: f32[k, 2]
    input limit: f32[]
    constant w: f32[2, 2] {0.5, -1.0, 1.0, 0.25}
    constant most: i64[] {6}
    holds = Constant() {value = bool[] {true}}
    h, all, norms = Loop(most, holds, query, cache) {body = {
        input turn: i64[] input goeson: bool[] input q: f32[1, 2] input keys: f32[l, 2]
        key = MatMul(q, w)
        grown = Concat(keys, key) {axis = 0}
        turned = Transpose(grown)
        scores = MatMul(q, turned)
        weights = Softmax(scores) {axis = -1}
        next = MatMul(weights, grown)
        norm = ReduceL2(next) {keepdims = 0}
        more = Greater(norm, limit)
        output more: bool[] output next: f32[1, 2] output grown: f32[m, 2] output norm: f32[]
    }}
    output h: f32[1, 2]
    output all: f32[m, 2]
    output norms: f32[t]
";

fn attended(query: [f32; 2], cache: &[[f32; 2]], limit: f32) -> (Vec<Tensor>, Vec<Tensor>) {
    let rows = |rows: &[[f32; 2]]| Tensor::from_slice(&[rows.len(), 2], rows.as_flattened());
    let (mut q, mut keys, mut norms) = (query, cache.to_vec(), Vec::new());
    loop {
        keys.push([q[0] * 0.5 + q[1], q[1] * 0.25 - q[0]]);
        let exps: Vec<f32> = keys.iter().map(|k| (q[0] * k[0] + q[1] * k[1]).exp()).collect();
        let sum: f32 = exps.iter().sum();
        let mean = |axis: usize| keys.iter().zip(&exps).map(|(k, e)| k[axis] * e / sum).sum();
        q = [mean(0), mean(1)];
        norms.push((q[0] * q[0] + q[1] * q[1]).sqrt());
        if norms[norms.len() - 1] <= limit || norms.len() == 6 {
            break;
        }
    }
    let inputs = vec![rows(&[query]), rows(cache), Tensor::from_slice(&[], &[limit])];
    (inputs, vec![rows(&[q]), rows(&keys), floats(&norms)])
}

#[test]
fn a_cache_grows() {
    let Some(executable) = executable(CACHE) else { return };
    let runs = [
        attended([1.0, 2.0], &[[0.5, 1.0], [1.0, -1.0]], 0.4),
        attended([1.0, 2.0], &[], 0.6),
        attended([0.5, -2.0], &[[0.5, 1.0]], 10.0),
    ];
    check(&executable, &runs);
}

/// Boxes of each image that overlap no better one, as many as there are, behind each other.
const DETECTOR: &str = "
    input boxes: f32[n, 3, 4]
    input scores: f32[n, 3]
    constant none: f32[0, 4] {}
    constant first: i64[1] {0}
    constant both: i64[2] {0, 1}
    constant most: i64[] {3}
    constant overlap: f32[] {0.5}
    constant two: i64[] {2}
    constant zero: i64[] {0}
    holds = Constant() {value = bool[] {true}}
    shape = Shape(boxes)
    count = Gather(shape, zero)
    kept = Loop(count, holds, none) {body = {
        input image: i64[] input goeson: bool[] input before: f32[k, 4]
        here = Gather(boxes, image)
        score = Gather(scores, image)
        batch = Unsqueeze(here, first)
        classes = Unsqueeze(score, both)
        chosen = NonMaxSuppression(batch, classes, most, overlap)
        places = Gather(chosen, two) {axis = 1}
        found = Gather(here, places)
        after = Concat(before, found) {axis = 0}
        more = Identity(goeson)
        output more: bool[] output after: f32[l, 4]
    }}
    output kept: f32[m, 4]
";

#[test]
fn boxes_are_chosen_image_by_image() {
    let Some(executable) = executable(DETECTOR) else { return };
    let (a, near, far) = ([0.0, 0.0, 1.0, 1.0], [0.0, 0.1, 1.0, 1.1], [0.0, 5.0, 1.0, 6.0]);
    let run = |images: &[([[f32; 4]; 3], [f32; 3])], kept: &[[f32; 4]]| {
        let boxes = images.iter().flat_map(|(boxes, _)| boxes.as_flattened().to_vec()).collect();
        let scores: Vec<f32> = images.iter().flat_map(|(_, scores)| *scores).collect();
        let count = images.len();
        let inputs =
            vec![Tensor::from_vec(&[count, 3, 4], boxes), Tensor::from_vec(&[count, 3], scores)];
        (inputs, vec![Tensor::from_slice(&[kept.len(), 4], kept.as_flattened())])
    };
    let one = ([a, near, far], [0.9, 0.8, 0.7]);
    let two = ([a, near, far], [0.1, 0.8, 0.9]);
    let three = ([a, a, near], [0.1, 0.2, 0.3]);
    let runs = [
        run(&[one], &[a, far]),
        run(&[one, two, three], &[a, far, far, near, near]),
        run(&[three, three], &[near, near]),
    ];
    check(&executable, &runs);
}

#[test]
fn sequences_grow_by_pieces_of_any_size() {
    let Some(executable) = executable(SEQUENCES) else { return };
    let run = |x: &[f32]| {
        let count = x.iter().filter(|value| **value > 0.0).count();
        let mut y = x.to_vec();
        for turn in 0..count {
            y.extend(x.iter().filter(|value| **value > turn as f32));
        }
        (vec![floats(x)], vec![floats(&y), number(count as i64 + 1)])
    };
    check(&executable, &[run(&[0.5, -1.0, 3.5, 1.5]), run(&[-1.0, -2.0]), run(&[9.0, 8.0, 7.0])]);
}

#[test]
fn branches_give_other_shapes() {
    let Some(executable) = executable(BRANCHES) else { return };
    let run = |x: [f32; 4], count: i64| {
        let mut y = x.to_vec();
        match x.iter().sum::<f32>() > 0.0 {
            true => (0..count.abs()).for_each(|_| y = [&y[..2], &y[..]].concat()),
            false => y.truncate(2),
        }
        let z: Vec<f32> = y.iter().map(|value| -value).collect();
        (vec![floats(&x), number(count)], vec![floats(&z)])
    };
    let up = [1.0, 2.0, 3.0, 4.0];
    check(&executable, &[run(up, 2), run([-1.0, -2.0, 0.5, 0.0], 2), run(up, 0), run(up, -3)]);
}

/// Extents that fit one of two branches alone are no fault where that one is taken, if they are
/// known to compile.
#[test]
fn a_branch_that_is_not_taken_need_not_fit() {
    if !runs_code() {
        return;
    }
    let text = "
        input which: i64[]
        input x: f32[n]
        constant one: i64[] {1}
        constant pair: f32[2] {10.0, 20.0}
        constant triple: f32[3] {1.0, 2.0, 3.0}
        is_one = Equal(which, one)
        y = If(is_one) {
            then_branch = {a = Add(x, pair) output a: f32[p]},
            else_branch = {b = Add(x, triple) output b: f32[q]}
        }
        output y: f32[m]
    ";
    let of = |extent: i64| {
        let options = Options::default().with_input_shape("x", &[extent]);
        with_options(text, options).expect("this machine runs the code")
    };
    let (pair, triple) = (floats(&[1.0, 2.0]), floats(&[1.0, 2.0, 3.0]));
    check(&of(2), &[(vec![number(1), pair.clone()], vec![floats(&[11.0, 22.0])])]);
    check(&of(3), &[(vec![number(0), triple], vec![floats(&[2.0, 4.0, 6.0])])]);
    let said = refusal(&of(2), &[number(0), pair]);
    assert!(said.contains("TW0105"), "{said}");
}

/// Rows from the last to the first; how many of each are positive, and their sum so far.
const SCANNED: &str = "
    input x: f32[3, n]
    constant zero: f32[] {0.0}
    total, counts, kept = Scan(zero, x) {num_scan_inputs = 1, scan_input_axes = [1],
      scan_input_directions = [1], scan_output_axes = [0, 1], scan_output_directions = [1, 0],
      body = {
        input before: f32[] input column: f32[3]
        positive = Greater(column, zero)
        chosen = Compress(column, positive) {axis = 0}
        sum = ReduceSum(chosen) {keepdims = 0}
        after = Add(before, sum)
        many = Size(chosen)
        twice = Add(column, column)
        output after: f32[] output many: i64[] output twice: f32[3]
    }}
    output total: f32[]
    output counts: i64[n]
    output kept: f32[3, n]
";

#[test]
fn scans_compute_sizes() {
    let Some(executable) = executable(SCANNED) else { return };
    let run = |columns: &[[f32; 3]]| {
        let n = columns.len();
        let by_row = |columns: &[[f32; 3]]| {
            let rows = (0..3).flat_map(|row| columns.iter().map(move |column| column[row]));
            Tensor::from_vec(&[3, n], rows.collect())
        };
        let positive = |column: &[f32; 3]| column.iter().filter(|it| **it > 0.0).count() as i64;
        let total: f32 = columns.iter().flatten().filter(|it| **it > 0.0).sum();
        let counts: Vec<i64> = columns.iter().map(positive).collect();
        let twice: Vec<[f32; 3]> =
            columns.iter().rev().map(|column| column.map(|it| 2.0 * it)).collect();
        let outputs = vec![Tensor::from_slice(&[], &[total]), integers(&counts), by_row(&twice)];
        (vec![by_row(columns)], outputs)
    };
    let runs =
        [run(&[[1.0, -1.0, 2.0], [-1.0, -2.0, -3.0], [3.0, 4.0, 5.0]]), run(&[[-1.0, 0.5, 0.0]])];
    check(&executable, &runs);
}

/// A function with a loop in it; sums of counts up to a bound that data give.
const CALLED: &str = r#"
    opset 18
    opset "own" 1
    input limit: f32[]
    y = "own" Sums(limit)
    output y: f32[]
    function "own" Sums(bound) -> (sum) {
        holds = Constant() {value = bool[] {true}}
        one = Constant() {value = i64[] {1}}
        zero = Constant() {value = i64[] {0}}
        start = Constant() {value = f32[] {0.0}}
        sum = Loop(_, holds, start) {body = {
            input turn: i64[] input goeson: bool[] input before: f32[]
            end = Add(turn, one)
            counts = Range(zero, end, one)
            reals = Cast(counts) {to = 1}
            part = ReduceSum(reals) {keepdims = 0}
            after = Add(before, part)
            more = Less(after, bound)
            output more: bool[] output after: f32[]
        }}
    }
"#;

#[test]
fn functions_are_opened() {
    let Some(executable) = executable(CALLED) else { return };
    let run = |limit: f32| {
        let (mut sum, mut turn) = (0.0, 0.0);
        loop {
            sum += turn * (turn + 1.0) / 2.0;
            turn += 1.0;
            if sum >= limit {
                break;
            }
        }
        (vec![Tensor::from_slice(&[], &[limit])], vec![Tensor::from_slice(&[], &[sum])])
    };
    for limit in [0.0, 3.0, 40.0] {
        let (inputs, outputs) = run(limit);
        let found = executable.run(&inputs).unwrap_or_else(|found| panic!("{found}"));
        assert_eq!(found[0].scalars().next(), outputs[0].scalars().next(), "{limit}");
    }
}

/// Rows of a stack, the longer the later.
const RAGGED: &str = "
    input x: f32[n]
    constant one: i64[] {1}
    constant none: i64[] {0}
    constant zero: f32[] {0.0}
    holds = Constant() {value = bool[] {true}}
    positive = Greater(x, zero)
    flags = Cast(positive) {to = 7}
    count = ReduceSum(flags) {keepdims = 0}
    y = Loop(count, holds) {body = {
        input turn: i64[] input goeson: bool[]
        end = Add(turn, one)
        row = Range(none, end, one)
        more = Identity(goeson)
        output more: bool[] output row: i64[k]
    }}
    output y: i64[m, k]
";

#[test]
fn rows_of_other_shapes_are_refused() {
    let Some(executable) = executable(RAGGED) else { return };
    let outputs = executable.run(&[floats(&[1.0, -1.0])]).expect("one row is a stack");
    assert_eq!(outputs[0].shape(), [1, 1]);
    let said = refusal(&executable, &[floats(&[1.0, 2.0])]);
    assert!(said.contains("TW0105") && said.contains("Loop"), "{said}");
    assert!(said.contains("i64[1] and i64[2] are put together"), "{said}");
}

#[test]
fn loops_without_an_end_are_refused() {
    let text = "
        input x: f32[n]
        input forever: bool[]
        holds = Constant() {value = bool[] {true}}
        y = Loop(_, holds, x) {body = {
            input turn: i64[] input goeson: bool[] input before: f32[k]
            places = NonZero(before)
            row = Transpose(places)
            after = GatherND(before, row)
            more = Identity(forever)
            output more: bool[] output after: f32[l]
        }}
        output y: f32[m]
    ";
    let mut options = Options::default();
    options.limits.iterations = 5;
    let Some(executable) = with_options(text, options) else { return };
    let said = refusal(&executable, &[floats(&[1.0, 2.0]), Tensor::from_slice(&[], &[true])]);
    assert!(said.contains("TW0112") && said.contains("--limit iterations="), "{said}");
}

#[test]
fn stacks_beyond_the_memory_are_refused() {
    let text = "
        input count: i64[]
        input x: f32[n]
        before, row = Loop(count, _, x) {body = {
            input turn: i64[] input goeson: bool[] input before: f32[n]
            places = NonZero(before)
            found = Shape(places)
            row = Identity(before)
            after = Identity(before)
            more = Identity(goeson)
            output more: bool[] output after: f32[n] output row: f32[n]
        }}
        output before: f32[n]
        output row: f32[m, n]
    ";
    let mut options = Options::default();
    options.limits.memory_bytes = 96 << 10;
    let Some(executable) = with_options(text, options) else { return };
    let row = floats(&[1.0; 256]);
    let outputs = executable
        .run(&[number(40), row.clone()])
        .expect("40 KB, put together, and what is carried");
    assert_eq!(outputs[1].shape(), [40, 256]);
    let said = refusal(&executable, &[number(1 << 40), row]);
    assert!(said.contains("TW0112") && said.contains("--limit memory-bytes="), "{said}");
}

/// Ten tokens are ten shapes.
#[test]
fn compiles_for_new_shapes_count_as_turns() {
    let mut options = Options::default();
    options.limits.iterations = 200;
    let Some(executable) = with_options(DECODER, options) else { return };
    let said = refusal(&executable, &[integers(&[0]), number(9)]);
    assert!(said.contains("--limit iterations=") && said.contains("compile"), "{said}");
}

#[test]
fn conditions_that_are_strings_are_refused() {
    let text = "
        input x: i64[2]
        constant most: i64[] {3}
        constant line: i64[1] {-1}
        holds = Constant() {value = bool[] {true}}
        text = Constant() {value_string = \"no\"}
        y = Loop(most, holds, x) {body = {
            input turn: i64[] input goeson: bool[] input now: i64[k]
            places = NonZero(now)
            found = Reshape(places, line)
            grown = Concat(now, found) {axis = 0}
            more = Identity(text)
            output more: string[] output grown: i64[l]
        }}
        output y: i64[m]
    ";
    if !runs_code() {
        return;
    }
    let compiled = tilewright::compile_bytes(model(text).encode_to_vec(), &Options::default());
    let said = compiled.expect_err("strings decide nothing").to_string();
    assert!(said.contains("its condition is string, not a boolean"), "{said}");
}

/// The positive numbers decide how much is taken, from where, and how it is arranged.
const SIZES: &str = "
    input x: f32[2000]
    constant zero: f32[] {0.0}
    constant two: i64[1] {2}
    constant step: i64[1] {-2}
    constant first: i64[1] {0}
    constant one: i64[] {1}
    constant none: i64[] {0}
    positive = Greater(x, zero)
    flags = Cast(positive) {to = 7}
    count = ReduceSum(flags) {keepdims = 0}
    ends = Unsqueeze(count, first)
    twice = Mul(ends, two)
    head = Slice(x, first, twice)
    shape = Concat(two, ends) {axis = 0}
    rows = Reshape(head, shape)
    back = Slice(x, ends, first, first, step)
    steps = Range(none, count, one)
    best, places = TopK(x, ends)
    output rows: f32[2, n]
    output back: f32[m]
    output steps: i64[n]
    output best: f32[n]
";

#[test]
fn data_give_sizes_and_shapes() {
    let Some(executable) = executable(SIZES) else { return };
    let run = |count: usize| {
        let x: Vec<f32> = (0..2000)
            .map(|at| if at % 7 == 3 && at / 7 < count { at as f32 + 1.0 } else { -(at as f32) })
            .collect();
        let back: Vec<f32> = (1..=count).rev().step_by(2).map(|at| x[at]).collect();
        let steps: Vec<i64> = (0..count as i64).collect();
        let best: Vec<f32> = (0..count).rev().map(|at| (7 * at + 4) as f32).collect();
        let rows = Tensor::from_slice(&[2, count], &x[..2 * count]);
        (vec![floats(&x)], vec![rows, floats(&back), integers(&steps), floats(&best)])
    };
    check(&executable, &[run(5), run(200), run(1)]);
}

/// How long a row is, each turn of a loop computes; behind the loop a shape is made of it alone.
#[test]
fn sizes_of_turns_are_known_behind_a_loop() {
    let text = "
        input x: f32[4]
        input most: i64[]
        constant line: i64[1] {-1}
        constant second: i64[1] {1}
        holds = Constant() {value = bool[] {true}}
        rows = Loop(most, holds) {body = {
            input turn: i64[] input goeson: bool[]
            places = NonZero(x)
            row = Reshape(places, line)
            more = Identity(goeson)
            output more: bool[] output row: i64[k]
        }}
        shape = Shape(rows)
        width = Gather(shape, second)
        blank = ConstantOfShape(width)
        output rows: i64[m, n]
        output blank: f32[n]
    ";
    let Some(executable) = executable(text) else { return };
    let rows = |shape: &[usize], places: &[i64]| Tensor::from_slice(shape, places);
    check(
        &executable,
        &[
            (
                vec![floats(&[1.0, 0.0, 2.0, 3.0]), number(2)],
                vec![rows(&[2, 3], &[0, 2, 3, 0, 2, 3]), floats(&[0.0; 3])],
            ),
            (
                vec![floats(&[0.0, 0.0, 2.0, 0.0]), number(1)],
                vec![rows(&[1, 1], &[2]), floats(&[0.0])],
            ),
            (vec![floats(&[1.0; 4]), number(0)], vec![rows(&[0, 0], &[]), floats(&[])]),
        ],
    );
}

/// Values go by name, in any order.
#[test]
fn inputs_go_by_name() {
    let text = "input x: f32[2] input y: f32[2] z = Sub(x, y) output z: f32[2]";
    let Some(executable) = executable(text) else { return };
    let named = |names: &[&str]| {
        let values = names.iter().zip([[1.0_f32, 2.0], [5.0, 7.0]]);
        values.map(|(name, row)| ((*name).to_owned(), floats(&row))).collect::<Vec<_>>()
    };
    let outputs = executable.run_named(named(&["y", "x"])).expect("it runs");
    let (name, value) = &outputs[0];
    assert_eq!((name.as_str(), value.as_tensor()), ("z", Some(&floats(&[4.0, 5.0]))));
    assert_eq!(outputs.tensor("z").expect("a tensor"), &floats(&[4.0, 5.0]));
    let said = outputs.tensor("w").expect_err("no such output").to_string();
    assert!(said.contains("`w`") && said.contains("`z`"), "{said}");
    let said = executable.run_named(named(&["y", "w"])).expect_err("no such input").to_string();
    assert!(said.contains("`w`") && said.contains("input `x` is not given"), "{said}");
    let said = executable.run_named(named(&["y", "y"])).expect_err("one twice").to_string();
    assert!(said.contains("`y` is given twice"), "{said}");
}

/// What is taken out of a list has any extents: one of 1 is repeated where it stands for more, and
/// a product wants to know how many channels there are.
#[test]
fn extents_of_what_a_list_holds_may_be_facts() {
    let text = "
        input x: f32[6]
        input last: i64[]
        constant two: i64[1] {2}
        constant first: i64[1] {0}
        constant one: i64[] {1}
        constant w: f32[3] {10.0, 20.0, 30.0}
        holds = Constant() {value = bool[] {true}}
        none = SequenceEmpty()
        all = Loop(_, holds, none) {body = {
            input turn: i64[] input goeson: bool[] input before: sequence f32[k]
            next = Add(turn, one)
            end = Unsqueeze(next, first)
            head = Slice(x, first, end)
            after = SequenceInsert(before, head)
            more = Less(turn, last)
            output more: bool[] output after: sequence f32[l]
        }}
        taken = SequenceAt(all, last)
        sum = Add(taken, w)
        output sum: f32[3]
    ";
    let Some(executable) = executable(text) else { return };
    let x = floats(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    check(
        &executable,
        &[
            (vec![x.clone(), number(0)], vec![floats(&[11.0, 21.0, 31.0])]),
            (vec![x.clone(), number(2)], vec![floats(&[11.0, 22.0, 33.0])]),
        ],
    );
    let said = refusal(&executable, &[x, number(4)]);
    assert!(said.contains("TW0204"), "{said}");
}

/// What two needs name is told apart: a value of the model may be called as another need is.
#[test]
fn values_of_all_names_may_be_facts() {
    let text = "
        input x: f32[2, 3]
        input a: i64[1]
        m = Abs(a)
        odd = Neg(m)
        size = Identity(x)
        y = ReduceSum(x, m)
        z = ReduceMax(size, odd)
        output y: f32[p, q]
        output z: f32[r, s]
    ";
    if !runs_code() {
        return;
    }
    let mut model = model(text);
    for node in &mut model.graph.as_mut().expect("a graph").node {
        for name in node.input.iter_mut().chain(&mut node.output) {
            *name = match name.as_str() {
                "odd" => ":m".to_owned(),
                "size" => "0#1".to_owned(),
                _ => continue,
            };
        }
    }
    let executable = common::compiled(&model, Options::default());
    let x = Tensor::from_slice(&[2, 3], &[1.0_f32, 2.0, 3.0, 4.0, 5.0, 6.0]);
    let column = |values: &[f32]| Tensor::from_slice(&[2, 1], values);
    let row = |values: &[f32]| Tensor::from_slice(&[1, 3], values);
    check(
        &executable,
        &[
            (vec![x.clone(), integers(&[1])], vec![column(&[6.0, 15.0]), column(&[3.0, 6.0])]),
            (vec![x.clone(), integers(&[0])], vec![row(&[5.0, 7.0, 9.0]), row(&[4.0, 5.0, 6.0])]),
        ],
    );
}

/// A segment reads a constant that an earlier one gives as an output among others that none gives.
#[test]
fn constants_are_outputs_too() {
    let text = "
        input x: f32[4]
        constant v: f32[4] {1.0, -2.0, 3.0, -4.0}
        constant w: f32[4] {-0.5, 0.25, -0.125, 8.0}
        large = Abs(v)
        small = Abs(w)
        places = NonZero(x)
        turned = Transpose(places)
        one = GatherND(large, turned)
        other = GatherND(small, turned)
        sum = Sub(one, other)
        output small: f32[4]
        output sum: f32[k]
    ";
    let Some(executable) = executable(text) else { return };
    let small = floats(&[0.5, 0.25, 0.125, 8.0]);
    check(
        &executable,
        &[
            (vec![floats(&[0.0, 1.0, 1.0, 0.0])], vec![small.clone(), floats(&[1.75, 2.875])]),
            (vec![floats(&[0.0, 0.0, 0.0, 2.0])], vec![small, floats(&[-4.0])]),
        ],
    );
}
