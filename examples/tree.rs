//! A network along trees: formulas of `and`, `or`, true and false, read by a tree-structured LSTM
//! (Tai, Socher and Manning, 2015), which learns what they come to.
//!
//!     cargo run --profile quick -p examples --example tree
//!
//! A formula is a list of words, each operation behind what it joins. Recursion is a loop with a
//! stack of its own: a leaf pushes a state, an operation takes two and pushes one.

use std::process::ExitCode;

use tilewright::trace::{TracedValue, if_else, trace, value_and_grad, vmap, while_loop};
use tilewright::{DType, Executable, Options, Tensor};

/// Most words of a formula.
const WORDS: usize = 15;
/// Words there are: false, true, and, or.
const KINDS: usize = 4;
/// How far the stack goes.
const DEPTH: usize = WORDS / 2 + 2;
const WIDTH: usize = 8;
const BATCH: usize = 16;
const STEPS: usize = 300;
const UNSEEN: usize = 200;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(diagnostics) => {
            eprintln!("{diagnostics}");
            ExitCode::FAILURE
        }
    }
}

/// The parameters: gates' weights and bias, the last product's weights and bias.
const PARAMETERS: [(&str, &[usize]); 4] = [
    ("gates", &[KINDS + 2 * WIDTH, 5 * WIDTH]),
    ("gates' bias", &[5 * WIDTH]),
    ("weights", &[WIDTH]),
    ("bias", &[]),
];

/// A node of the tree: its word, and output and memory of both children.
fn node(
    parameters: &[TracedValue],
    word: &TracedValue,
    [left, right]: &[(TracedValue, TracedValue); 2],
) -> (TracedValue, TracedValue) {
    let read = word.one_hot(KINDS, DType::F32).concat(0, &[left.0.clone(), right.0.clone()]);
    let gates = read.matmul(&parameters[0]) + &parameters[1];
    let gate = |number: usize| gates.slice(0, number * WIDTH..(number + 1) * WIDTH);
    let kept = (gate(1) + 1.0).sigmoid() * &left.1 + (gate(2) + 1.0).sigmoid() * &right.1;
    let memory = gate(0).sigmoid() * gate(3).tanh() + kept;
    (gate(4).sigmoid() * memory.tanh(), memory)
}

/// How sure it is that a formula is true.
fn score(parameters: &[TracedValue], words: &TracedValue, count: &TracedValue) -> TracedValue {
    let empty = parameters[0].full(&[DEPTH, WIDTH], 0.0);
    let zero = count.number(0.0);
    let state = (zero.clone(), zero, empty.clone(), empty);
    type State = (TracedValue, TracedValue, TracedValue, TracedValue);
    let body = |(place, top, outputs, memories): &State| {
        let word = words.take(place);
        let nothing = parameters[0].full(&[WIDTH], 0.0);
        let child = |below: f64| {
            let place = top - below;
            (outputs.take(&place), memories.take(&place))
        };
        let is_leaf = word.less(&word.number(2.0));
        let nothing = (nothing.clone(), nothing);
        let (left, right, place_of) = if_else(
            &is_leaf,
            || (nothing.clone(), nothing.clone(), top.clone()),
            || (child(2.0), child(1.0), top - 2.0),
        );
        let (output, memory) = node(parameters, &word, &[left, right]);
        let (outputs, memories) =
            (outputs.with_rows(&place_of, &output), memories.with_rows(&place_of, &memory));
        (place + 1.0, place_of + 1.0, outputs, memories)
    };
    let goes_on = |(place, ..): &State| place.less(count);
    let (_, _, outputs, _) = while_loop(&state, Some(WORDS), goes_on, body);
    (outputs.at(0, 0) * &parameters[2]).sum() + &parameters[3]
}

/// Scores of many formulas.
fn scores(parameters: &[TracedValue], words: &TracedValue, counts: &TracedValue) -> TracedValue {
    let one = |(words, count): &(TracedValue, TracedValue)| score(parameters, words, count);
    vmap(one)(&(words.clone(), counts.clone()))
}

type Inputs<'a> = Vec<(&'a str, DType, &'a [usize])>;

/// A step of training: parameters, their speeds, words, their counts and what is right (1 or -1)
/// in; parameters, speeds and the loss out.
fn step() -> tilewright::Result<Executable> {
    let speeds = PARAMETERS.map(|(name, _)| format!("speed of {name}"));
    let mut inputs: Inputs<'_> =
        PARAMETERS.iter().map(|(name, shape)| (*name, DType::F32, *shape)).collect();
    let moving = speeds.iter().zip(&PARAMETERS);
    inputs.extend(moving.map(|(name, (_, shape))| (&name[..], DType::F32, *shape)));
    inputs.push(("words", DType::I64, &[BATCH, WORDS]));
    inputs.push(("counts", DType::I64, &[BATCH]));
    inputs.push(("truth", DType::F32, &[BATCH]));
    let function = trace("step", &inputs, |inputs| {
        let (parameters, rest) = inputs.split_at(PARAMETERS.len());
        let (speeds, rest) = rest.split_at(PARAMETERS.len());
        let loss = |parameters: &Vec<TracedValue>| {
            let scores = scores(parameters, &rest[0], &rest[1]);
            (-(scores * &rest[2])).exp().log1p().mean()
        };
        let (loss, slopes) = value_and_grad(loss)(&parameters.to_vec());
        let faster = |(speed, slope): (&TracedValue, TracedValue)| speed * 0.9 - slope * 0.1;
        let speeds: Vec<TracedValue> = speeds.iter().zip(slopes).map(faster).collect();
        let moved = parameters.iter().zip(&speeds).map(|(parameter, speed)| parameter + speed);
        [moved.collect(), speeds.clone(), vec![loss.named("loss")]].concat()
    })?;
    tilewright::compile_module(function.into_module(), &Options::default())
}

/// Numbers that look random (splitmix64).
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    }

    /// A formula of so many leaves, words to the end of a list; what it comes to.
    fn formula(&mut self, leaves: usize, words: &mut Vec<i64>) -> bool {
        if leaves == 1 {
            let word = (self.next() % 2) as i64;
            words.push(word);
            return word == 1;
        }
        let left = 1 + (self.next() as usize) % (leaves - 1);
        let (first, second) = (self.formula(left, words), self.formula(leaves - left, words));
        let word = 2 + (self.next() % 2) as i64;
        words.push(word);
        if word == 2 { first && second } else { first || second }
    }

    /// So many formulas: words, counts, and what is right.
    fn formulas(&mut self, count: usize) -> [Tensor; 3] {
        let (mut all, mut counts, mut truth) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..count {
            let mut words = Vec::new();
            let leaves = 1 + (self.next() as usize) % WORDS.div_ceil(2);
            truth.push(if self.formula(leaves, &mut words) { 1.0_f32 } else { -1.0 });
            counts.push(words.len() as i64);
            words.resize(WORDS, 0);
            all.extend(words);
        }
        [
            Tensor::from_vec(&[count, WORDS], all),
            Tensor::from_vec(&[count], counts),
            Tensor::from_vec(&[count], truth),
        ]
    }
}

fn run() -> tilewright::Result<()> {
    let step = step()?;
    let mut dice = Dice(7);
    let mut start = |shape: &[usize], most: f64| {
        let element = |bits: u64| ((bits >> 11) as f64 / (1_u64 << 52) as f64 - 1.0) * most;
        let count = shape.iter().product();
        Tensor::from_vec(
            shape,
            (0..count).map(|_| element(dice.next()) as f32).collect::<Vec<f32>>(),
        )
    };
    let mut state: Vec<Tensor> = PARAMETERS.iter().map(|(_, shape)| start(shape, 0.3)).collect();
    state.extend(PARAMETERS.iter().map(|(_, shape)| start(shape, 0.0)));
    let mut sum = 0.0;
    for number in 1..=STEPS {
        let mut inputs = state;
        inputs.extend(dice.formulas(BATCH));
        state = step.run(&inputs)?;
        sum += state.pop().map_or(0.0, |loss| loss.to_f64_vec()[0]);
        if number % 100 == 0 {
            println!("step {number}: loss {:.4}", sum / 100.0);
            sum = 0.0;
        }
    }
    let mut inputs: Inputs<'_> =
        PARAMETERS.iter().map(|(name, shape)| (*name, DType::F32, *shape)).collect();
    inputs.push(("words", DType::I64, &[UNSEEN, WORDS]));
    inputs.push(("counts", DType::I64, &[UNSEEN]));
    let function = trace("scores", &inputs, |inputs| scores(&inputs[..4], &inputs[4], &inputs[5]))?;
    let executable = tilewright::compile_module(function.into_module(), &Options::default())?;
    let [words, counts, truth] = dice.formulas(UNSEEN);
    state.truncate(PARAMETERS.len());
    state.extend([words, counts]);
    let found = executable.run(&state)?[0].to_f64_vec();
    let right = found.iter().zip(truth.to_f64_vec()).filter(|(score, truth)| *score * truth > 0.0);
    println!("{UNSEEN} formulas, {} right", right.count());
    Ok(())
}
