//! How much a plan may do, and how many segments it may have.

mod common;

use common::{executable, floats, number, refusal, with_options};
use tilewright::{Options, Tensor};

/// Neither loop turns more often than the limit.
#[test]
fn turns_of_loops_inside_of_loops_count_together() {
    let text = "
        input x: f32[n]
        input last: i64[]
        holds = Constant() {value = bool[] {true}}
        y = Loop(_, holds, x) {body = {
            input turn: i64[] input goeson: bool[] input before: f32[k]
            after = Loop(_, holds, before) {body = {
                input turns: i64[] input goon: bool[] input then: f32[i]
                places = NonZero(then)
                row = Transpose(places)
                next = GatherND(then, row)
                further = Less(turns, last)
                output further: bool[] output next: f32[j]
            }}
            more = Less(turn, last)
            output more: bool[] output after: f32[l]
        }}
        output y: f32[m]
    ";
    let at_most = |iterations: u64| {
        let mut options = Options::default();
        options.limits.iterations = iterations;
        with_options(text, options)
    };
    let row = floats(&[1.0, 2.0]);
    let (Some(enough), Some(few)) = (at_most(4000), at_most(1500)) else { return };
    assert_eq!(enough.run(&[row.clone(), number(39)]).expect("1,640 turns")[0], row);
    let said = refusal(&few, &[row, number(39)]);
    assert!(said.contains("--limit iterations="), "{said}");
}

/// A sequence that grows by a value each turn.
fn appends(kept: &str) -> String {
    format!(
        "
        input x: f32[2]
        input last: i64[]
        constant zero: i64[] {{0}}
        holds = Constant() {{value = bool[] {{true}}}}
        none = SequenceEmpty()
        all = Loop(_, holds, none) {{body = {{
            input turn: i64[] input goeson: bool[] input before: sequence f32[2]
            after = SequenceInsert(before, x)
            count = SequenceLength({kept})
            some = GreaterOrEqual(count, zero)
            low = Less(turn, last)
            more = And(low, some)
            output more: bool[] output after: sequence f32[2]
        }}}}
        y = ConcatFromSequence(all) {{axis = 0}}
        output y: f32[m]
    "
    )
}

/// What grows in its place is not copied each turn, and if it is, that counts as turns.
#[test]
fn copies_of_sequences_count_as_turns() {
    let at_most = |kept: &str| {
        let mut options = Options::default();
        options.limits.iterations = 1000;
        with_options(&appends(kept), options)
    };
    let (Some(moved), Some(copied)) = (at_most("after"), at_most("before")) else { return };
    let inputs = [floats(&[1.0, 2.0]), number(399)];
    assert_eq!(moved.run(&inputs).expect("400 turns")[0], floats(&[1.0, 2.0].repeat(400)));
    let said = refusal(&copied, &inputs);
    assert!(said.contains("--limit iterations=") && said.contains("sequences"), "{said}");
}

/// Sequences inside of optional values and sequences are shared by all that take them out.
#[test]
fn sequences_taken_out_of_others_are_not_copied() {
    let inputs = [floats(&[1.0, 2.0]), number(399)];
    for (held, taken) in [
        ("Optional(all)", "OptionalGetElement(held)"),
        ("SequenceConstruct(all, all)", "SequenceAt(held, one)"),
    ] {
        let times = |count: usize| {
            let takes: String = (0..count)
                .map(|number| {
                    format!(
                        "taken{number} = {taken}\n\
                         count{number} = SequenceLength(taken{number})\n\
                         output count{number}: i64[]\n"
                    )
                })
                .collect();
            let held = format!("constant one: i64[] {{1}}\nheld = {held}\n");
            let mut options = Options::default();
            options.limits.iterations = 1000;
            with_options(&format!("{}{held}{takes}", appends("after")), options)
        };
        let Some(executable) = times(100) else { return };
        let outputs = executable.run(&inputs).unwrap_or_else(|found| panic!("{found}"));
        assert_eq!(outputs[1..], vec![number(400); 100]);
    }
}

/// A loop each takes what it finds positive, all of the same input.
#[test]
fn many_loops_beside_each_other_run() {
    let loops: String = (0..150)
        .map(|number| {
            format!(
                "
                y{number} = Loop(_, holds, x) {{body = {{
                    input turn: i64[] input goeson: bool[] input before: f32[k]
                    places = NonZero(before)
                    rows = Transpose(places)
                    taken = GatherND(before, rows)
                    more = Less(turn, last)
                    output more: bool[] output taken: f32[l]
                }}}}"
            )
        })
        .collect();
    let outputs: String = (0..150).map(|number| format!("output y{number}: f32[m]\n")).collect();
    let text = format!(
        "
        input x: f32[n]
        input last: i64[]
        holds = Constant() {{value = bool[] {{true}}}}
        {loops}
        {outputs}
    "
    );
    let Some(executable) = executable(&text) else { return };
    let outputs = executable.run(&[floats(&[1.0, 0.0, 2.0]), number(1)]);
    let outputs = outputs.unwrap_or_else(|found| panic!("{found}"));
    assert!(outputs.len() == 150 && outputs.iter().all(|output| *output == floats(&[1.0, 2.0])));
}

/// More numbers than are asked for one by one.
#[test]
fn many_inputs_decide_sizes() {
    let each = |line: &dyn Fn(usize) -> String| (0..100).map(line).collect::<String>();
    let text = format!(
        "
        {}
        constant zero: i64[] {{0}}
        constant one: i64[] {{1}}
        {}
        {}
    ",
        each(&|number| format!("input n{number}: i64[]\n")),
        each(&|number| format!("y{number} = Range(zero, n{number}, one)\n")),
        each(&|number| format!("output y{number}: i64[m{number}]\n")),
    );
    let Some(executable) = executable(&text) else { return };
    let inputs: Vec<Tensor> = (0..100).map(number).collect();
    let outputs = executable.run(&inputs).unwrap_or_else(|found| panic!("{found}"));
    for (count, output) in (0..).zip(&outputs) {
        let expected: Vec<i64> = (0..count).collect();
        assert_eq!(*output, Tensor::from_slice(&[expected.len()], &expected));
    }
}

/// A declaration of rows that no machine holds, of which there are none.
#[test]
fn no_rows_of_any_size_take_no_memory() {
    let text = "
        input x: f32[n, 2]
        y, z = Scan(x, x) {num_scan_inputs = 1, body = {
            input before: f32[k, 2] input row: f32[2]
            places = NonZero(before)
            rows = Transpose(places)
            taken = GatherND(before, rows)
            wide = Identity(taken)
            output before: f32[k, 2] output wide: f32[1099511627776, 1048576]
        }}
        output y: f32[n, 2]
        output z: f32[n, m, k]
    ";
    let Some(executable) = executable(text) else { return };
    let none = Tensor::zeros(tensor::DType::F32, &[0, 2]);
    match executable.run(&[none]) {
        Ok(outputs) => assert_eq!(outputs[1].len(), 0),
        Err(found) => panic!("{found}"),
    }
}

/// To import a model again with more facts counts as turns.
#[test]
fn facts_are_told_so_often() {
    let text = "input x: f32[2, 3] input a: i64[1] b = Abs(a) y = ReduceSum(x, b)
        output y: f32[m, n]";
    let at_most = |iterations: u64| {
        let mut options = Options::default();
        options.limits.iterations = iterations;
        with_options(text, options)
    };
    let (Some(enough), Some(few)) = (at_most(1 << 12), at_most(1)) else { return };
    let inputs = [Tensor::zeros(tensor::DType::F32, &[2, 3]), Tensor::from_slice(&[1], &[1_i64])];
    assert_eq!(enough.run(&inputs).expect("two imports")[0].shape(), [2, 1]);
    let said = refusal(&few, &inputs);
    assert!(said.contains("--limit iterations=") && said.contains("facts"), "{said}");
}
