//! The same bits whatever code is made for: random small networks, run by code for the extents at
//! hand and by code for many, for the processors of the target table and for others that are made
//! up. A network that fails is reduced to the layers that it takes to fail.

mod common;

use std::collections::BTreeMap;
use std::fmt::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};

use common::{model, runs_code};
use prost::Message;
use tensor::random::Generator;
use testkit::{demand_share, first_seed};
use tilewright::compiled::{Source, compile_for};
use tilewright::{DType, Options, Target, Tensor, compare};

/// Random numbers, and what is picked by them.
struct Random(Generator);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0.below(bound as u64) as usize
    }

    fn pick<T: Copy>(&mut self, items: &[T]) -> T {
        items[self.below(items.len())]
    }
}

/// What is done to the value at hand: `[batch, length, channels]` or `[batch, channels, height,
/// width]`.
#[derive(Clone, Copy, Debug)]
enum Layer {
    /// A function of each element.
    Map(&'static str),
    /// Numbers, one a channel, that are multiplied and added.
    Affine,
    /// A product with weights that lie along the sum, or across it.
    Dense { channels: usize, along: bool },
    /// Scores of all places, their softmax, the weighted sum.
    Attention,
    /// Sums over all places, of each channel times each.
    Gram,
    /// Sums over an axis, which are taken off.
    Centre(usize),
    /// Shares along an axis.
    Softmax(usize),
    /// Layers' norm along the last axis.
    Norm,
    /// A window in steps, of all channels or of groups of them.
    Conv { channels: usize, groups: usize, window: [usize; 2], steps: [usize; 2] },
    /// Greatest elements or means of windows.
    Pool { operator: &'static str, window: usize, steps: usize },
    /// Channels, weighed by what their means say.
    Squeeze,
    /// The second half of the axes in front of the first.
    Transpose,
    /// Another value of the same type added.
    Add,
    /// The mean over an axis, which is kept.
    Mean(usize),
    /// A product with a second input: its rows or its columns are the channels.
    Second { columns: Option<usize>, along: bool },
}

/// A network and the extents it runs with.
#[derive(Clone, Debug)]
struct Case {
    /// Whether values are pictures.
    pictures: bool,
    channels: usize,
    layers: Vec<Layer>,
    /// Batch, then length, or height and width, then the columns of a second input.
    extents: Vec<[usize; 4]>,
    targets: Vec<Target>,
    threads: usize,
}

/// Extents among which are those at which something changes, and their neighbours.
const EXTENTS: [usize; 22] =
    [1, 1, 1, 2, 3, 4, 5, 7, 8, 9, 12, 15, 16, 17, 31, 33, 40, 64, 100, 127, 128, 130];
/// How many networks are tried.
const CASES: u64 = 12;

const CHANNELS: [usize; 10] = [1, 3, 4, 8, 16, 17, 24, 32, 40, 48];

impl Case {
    fn random(seed: u64) -> Case {
        let mut random = Random(Generator::new(seed));
        let pictures = random.below(2) == 0;
        let channels = random.pick(&CHANNELS);
        let count = 1 + random.below(6);
        let layers = (0..count).map(|_| layer(&mut random, pictures)).collect();
        let extents = (0..4).map(|_| extents(&mut random, pictures)).collect();
        let targets = (0..2).map(|_| target(&mut random)).collect();
        Case { pictures, channels, layers, extents, targets, threads: 1 + random.below(2) }
    }

    /// The network as text; none where its layers do not fit each other.
    fn text(&self) -> Option<String> {
        let mut writer = Writer::default();
        let (channels, shape) = (self.channels, if self.pictures { ", height, width" } else { "" });
        let mut known = match self.pictures {
            true => vec![None, Some(channels), None, None],
            false => vec![None, None, Some(channels)],
        };
        let front = if self.pictures { "batch" } else { "batch, length" };
        writer.inputs = format!("input x: f32[{front}, {channels}{shape}]\n");
        let mut value = "x".to_owned();
        for layer in &self.layers {
            value = writer.layer(*layer, &value, &mut known)?;
        }
        let Writer { inputs, text, .. } = writer;
        Some(format!("{inputs}{text}out = Identity({value})\noutput out: f32?\n"))
    }

    /// Numbers for all inputs.
    fn inputs(&self, text: &str, extents: [usize; 4]) -> Vec<Tensor> {
        let [batch, one, two, columns] = extents;
        let shape = match self.pictures {
            true => vec![batch, self.channels, one, two],
            false => vec![batch, one, self.channels],
        };
        let mut inputs = vec![tilewright::random(DType::F32, &shape, 1)];
        // The text says what the second input's axes are.
        if let Some((_, declared)) = text.split_once("input second: f32[") {
            let (axes, _) = declared.split_once(']').unwrap_or_default();
            let extent = |axis: &str| match axis.trim() {
                "batch" => batch,
                "columns" => columns,
                number => number.parse().expect("an extent"),
            };
            let shape: Vec<usize> = axes.split(',').map(extent).collect();
            inputs.push(tilewright::random(DType::F32, &shape, 2));
        }
        inputs
    }

    /// Whether it says something, or what is wrong with it: where outputs differ from those of code
    /// for the extents at hand, for a processor of the table.
    fn wrong(&self) -> Result<bool, String> {
        let Some(text) = self.text() else { return Ok(false) };
        let bytes = model(&text).encode_to_vec();
        let row = Target::named("x86-64-v3").expect("a row");
        let mut expected: BTreeMap<[usize; 4], Vec<Tensor>> = BTreeMap::new();
        for (target, symbolic) in
            [&row].into_iter().chain(&self.targets).flat_map(|it| [(it, false), (it, true)])
        {
            let options = Options { threads: Some(self.threads), symbolic, ..Options::default() };
            let code = if symbolic { "many extents" } else { "these extents" };
            let said = |reason: &str| format!("{}, code for {code}: {reason}", target.name);
            let made = caught(|| {
                let source = Source::of_bytes(bytes.clone(), &options.limits)?;
                compile_for(target.clone(), source, &options)
            });
            let executable = made.map_err(|reason| said(&reason))?;
            for &extents in &self.extents {
                let inputs = self.inputs(&text, extents);
                let outputs = caught(|| executable.run(&inputs));
                let outputs = outputs.map_err(|reason| said(&format!("{extents:?}: {reason}")))?;
                let first = expected.entry(extents).or_insert_with(|| outputs.clone());
                if outputs[0].bytes() != first[0].bytes() {
                    let comparison = compare(&outputs[0], &first[0], 0.0, 0.0);
                    return Err(said(&format!("{extents:?}: {comparison}")));
                }
            }
        }
        Ok(true)
    }

    /// The smallest case that is still wrong, and what is.
    fn reduced(mut self, mut reason: String) -> (Case, String) {
        loop {
            let mut smaller = Vec::new();
            for at in 0..self.layers.len() {
                let mut case = self.clone();
                case.layers.remove(at);
                smaller.push(case);
            }
            for at in 0..self.extents.len() {
                let mut case = self.clone();
                case.extents.remove(at);
                smaller.push(case);
            }
            for at in 0..self.targets.len() {
                let mut case = self.clone();
                case.targets.remove(at);
                smaller.push(case);
            }
            if self.threads > 1 {
                smaller.push(Case { threads: 1, ..self.clone() });
            }
            let found = smaller.into_iter().find_map(|case| Some((case.wrong().err()?, case)));
            let Some((why, case)) = found else { return (self, reason) };
            (self, reason) = (case, why);
        }
    }
}

fn extents(random: &mut Random, pictures: bool) -> [usize; 4] {
    let small = [1, 1, 2, 3, 5];
    let batch = random.pick(&small);
    match pictures {
        true => {
            let mut sides = [random.pick(&EXTENTS), random.pick(&EXTENTS)];
            if sides[0] * sides[1] > 2000 {
                sides[0] = random.pick(&small);
            }
            [batch, sides[0], sides[1], random.pick(&EXTENTS)]
        }
        false => [batch, random.pick(&EXTENTS), 1, random.pick(&EXTENTS)],
    }
}

/// A processor: of the table, or one that there is not.
fn target(random: &mut Random) -> Target {
    let name = random.pick(&["x86-64-v4-bf16", "x86-64-v4", "x86-64-v3"]);
    let row = Target::named(name).expect("a row");
    let row = match row.check_machine(&runtime::cpu::has_feature).is_ok() {
        true => row,
        false => Target::named("x86-64-v3").expect("a row"),
    };
    let caches = [
        random.pick(&[None, Some(16 << 10), Some(32 << 10), Some(48 << 10)]),
        random.pick(&[None, Some(256 << 10), Some(1 << 20), Some(2 << 20)]),
        random.pick(&[None, Some(2 << 20), Some(32 << 20), Some(256 << 20)]),
    ];
    let full_width = random.pick(&[None, Some(false), Some(true)]);
    let is_mesh = random.below(2) == 0;
    let mut target = row.tuned(caches, full_width, is_mesh);
    let machine = &mut target.machine;
    let numbers: [&mut f64; 14] = [
        &mut machine.cycles_per_ns,
        &mut machine.arithmetic_per_cycle,
        &mut machine.loads_per_cycle,
        &mut machine.stores_per_cycle,
        &mut machine.unaligned_load,
        &mut machine.unaligned_store,
        &mut machine.permutes_per_cycle,
        &mut machine.instructions_per_cycle,
        &mut machine.cycles_of_division,
        &mut machine.cycles_of_gather,
        &mut machine.store_to_load,
        &mut machine.start_elsewhere,
        &mut machine.memory.reads,
        &mut machine.stream_bytes_per_ns,
    ];
    for number in numbers {
        if random.below(3) == 0 {
            *number *= random.pick(&[0.3, 0.6, 1.7, 4.0]);
        }
    }
    machine.fma_latency = random.pick(&[2, 4, 4, 6]);
    machine.fma_per_cycle = random.pick(&[1, 2, 2]);
    target
}

fn layer(random: &mut Random, pictures: bool) -> Layer {
    let channels = random.pick(&CHANNELS);
    let map = random.pick(&["Relu", "HardSwish", "Tanh", "Sigmoid", "Exp"]);
    let window = [random.pick(&[1, 1, 3]), random.pick(&[1, 1, 3, 5])];
    let steps = [random.pick(&[1, 1, 2]), random.pick(&[1, 1, 2])];
    let conv = Layer::Conv { channels, groups: 1, window, steps };
    let common = [Layer::Map(map), Layer::Affine, Layer::Add, Layer::Transpose];
    let choice = random.below(12);
    match (pictures, choice) {
        (_, 0..=2) => common[random.below(4)],
        (true, 3..=5) => conv,
        (true, 6) => {
            let groups = random.pick(&[0, 0, 2, 4]);
            Layer::Conv { channels, groups, window, steps }
        }
        (true, 7) => Layer::Pool {
            operator: random.pick(&["MaxPool", "AveragePool"]),
            window: random.pick(&[2, 3]),
            steps: random.pick(&[1, 2]),
        },
        (true, 8) => Layer::Squeeze,
        (true, 9) => Layer::Gram,
        (true, 10) => Layer::Centre(random.below(4)),
        (true, _) => {
            random.pick(&[Layer::Softmax(1), Layer::Softmax(3), Layer::Mean(1), Layer::Norm])
        }
        (false, 3..=4) => Layer::Dense { channels, along: random.below(2) == 0 },
        (false, 5) => Layer::Attention,
        (false, 6) => Layer::Gram,
        (false, 7) => Layer::Centre(random.below(3)),
        (false, 8) => Layer::Softmax(1 + random.below(2)),
        (false, 9) => Layer::Norm,
        (false, 10) => {
            let columns = random.pick(&[None, Some(1), Some(16), Some(40)]);
            Layer::Second { columns, along: random.below(2) == 0 }
        }
        (false, _) => Layer::Mean(random.below(3)),
    }
}

/// What a compile or a run gives, or says, a panic included.
fn caught<T>(run: impl FnOnce() -> tilewright::Result<T>) -> Result<T, String> {
    match catch_unwind(AssertUnwindSafe(run)) {
        Ok(Ok(made)) => Ok(made),
        Ok(Err(found)) => Err(found.to_string()),
        Err(_) => Err("it panics".to_owned()),
    }
}

/// The text of a network, as far as it is written.
#[derive(Default)]
struct Writer {
    inputs: String,
    text: String,
    names: usize,
}

/// The extents that are known of a value.
type Known = Vec<Option<usize>>;

impl Writer {
    fn name(&mut self) -> String {
        self.names += 1;
        format!("v{}", self.names)
    }

    /// A node of one result.
    fn node(&mut self, operator: &str, operands: &[&str], attributes: &str) -> String {
        let name = self.name();
        let operands = operands.join(", ");
        let attributes = match attributes {
            "" => String::new(),
            some => format!(" {{{some}}}"),
        };
        _ = writeln!(self.text, "{name} = {operator}({operands}){attributes}");
        name
    }

    fn weight(&mut self, shape: &[usize]) -> String {
        let name = self.name();
        let count: usize = shape.iter().product();
        let mut random = Generator::new(self.names as u64);
        let scale = (shape[1..].iter().product::<usize>() as f64).sqrt();
        _ = write!(self.text, "constant {name}: f32{shape:?} {{");
        for at in 0..count {
            let number = (random.uniform() * 2.0 - 1.0) / scale;
            _ = write!(self.text, "{}{number:.5}", if at == 0 { "" } else { ", " });
        }
        self.text += "}\n";
        name
    }

    fn axes(&mut self, axes: &[usize]) -> String {
        let name = self.name();
        let numbers: Vec<String> = axes.iter().map(usize::to_string).collect();
        _ = writeln!(self.text, "constant {name}: i64[{}] {{{}}}", axes.len(), numbers.join(", "));
        name
    }

    /// The value behind a layer; none where the layer does not fit.
    fn layer(&mut self, layer: Layer, value: &str, known: &mut Known) -> Option<String> {
        let rank = known.len();
        let channels = if rank == 4 { 1 } else { rank - 1 };
        Some(match layer {
            Layer::Map("Exp") => {
                let small = self.node("Tanh", &[value], "");
                self.node("Exp", &[&small], "")
            }
            Layer::Map(operator) => self.node(operator, &[value], ""),
            Layer::Affine => {
                let count = known[channels]?;
                let shape = if rank == 4 { vec![count, 1, 1] } else { vec![count] };
                let (scale, shift) = (self.weight(&shape), self.weight(&shape));
                let scaled = self.node("Mul", &[value, &scale], "");
                self.node("Add", &[&scaled, &shift], "")
            }
            Layer::Dense { channels: to, along } => {
                let from = known[rank - 1]?;
                known[rank - 1] = Some(to);
                let weight = match along {
                    true => {
                        let weight = self.weight(&[to, from]);
                        self.node("Transpose", &[&weight], "perm = [1, 0]")
                    }
                    false => self.weight(&[from, to]),
                };
                self.node("MatMul", &[value, &weight], "")
            }
            Layer::Attention => {
                let turned = self.turned(value, rank);
                let scores = self.node("MatMul", &[value, &turned], "");
                let small = self.node("Tanh", &[&scores], "");
                let shares = self.node("Softmax", &[&small], "axis = -1");
                self.node("MatMul", &[&shares, value], "")
            }
            Layer::Gram => {
                let count = known[channels]?;
                let sums = match rank {
                    4 => {
                        let name = self.name();
                        _ = writeln!(self.text, "constant {name}: i64[3] {{0, {count}, -1}}");
                        let flat = self.node("Reshape", &[value, &name], "");
                        let turned = self.turned(&flat, 3);
                        self.node("MatMul", &[&flat, &turned], "")
                    }
                    _ => {
                        let turned = self.turned(value, 3);
                        self.node("MatMul", &[&turned, value], "")
                    }
                };
                *known = vec![known[0], Some(count), Some(count)];
                let factor = self.weight(&[1, 1]);
                let scaled = self.node("Mul", &[&sums, &factor], "");
                self.node("Tanh", &[&scaled], "")
            }
            Layer::Centre(axis) => {
                let axis = axis.min(rank - 1);
                let axes = match (rank, axis) {
                    (4, 2) => vec![2, 3],
                    _ => vec![axis],
                };
                let axes = self.axes(&axes);
                let mean = self.node("ReduceMean", &[value, &axes], "keepdims = 1");
                let centred = self.node("Sub", &[value, &mean], "");
                let squares = self.node("Mul", &[&centred, &centred], "");
                let spread = self.node("ReduceMean", &[&squares, &axes], "keepdims = 1");
                let root = self.node("Sqrt", &[&spread], "");
                let one = self.node("Exp", &[&root], "");
                self.node("Div", &[&centred, &one], "")
            }
            Layer::Softmax(axis) => {
                let small = self.node("Tanh", &[value], "");
                let axis = axis.min(rank - 1);
                self.node("Softmax", &[&small], &format!("axis = {axis}"))
            }
            Layer::Norm => {
                let count = known[rank - 1]?;
                let (scale, shift) = (self.weight(&[count]), self.weight(&[count]));
                self.node("LayerNormalization", &[value, &scale, &shift], "axis = -1")
            }
            Layer::Conv { channels: to, groups, window, steps } => {
                let from = if rank == 4 { known[1]? } else { return None };
                let groups = if groups == 0 { from } else { groups };
                let to = if groups == from { from } else { to };
                if from % groups != 0 || to % groups != 0 {
                    return None;
                }
                let [high, wide] = window;
                let weight = self.weight(&[to, from / groups, high, wide]);
                let (top, left) = (high / 2, wide / 2);
                let attributes = format!(
                    "kernel_shape = [{high}, {wide}], pads = [{top}, {left}, {top}, {left}], \
                     strides = {steps:?}, group = {groups}"
                );
                *known = vec![known[0], Some(to), None, None];
                self.node("Conv", &[value, &weight], &attributes)
            }
            Layer::Pool { operator, window, steps } => {
                if rank != 4 {
                    return None;
                }
                (known[2], known[3]) = (None, None);
                let attributes = format!(
                    "kernel_shape = [{window}, {window}], pads = [1, 1, 1, 1], \
                     strides = [{steps}, {steps}]"
                );
                self.node(operator, &[value], &attributes)
            }
            Layer::Squeeze => {
                let count = if rank == 4 { known[1]? } else { return None };
                let few = count.div_ceil(2);
                let (down, up) =
                    (self.weight(&[few, count, 1, 1]), self.weight(&[count, few, 1, 1]));
                let mean = self.node("GlobalAveragePool", &[value], "");
                let less = self.node("Conv", &[&mean, &down], "kernel_shape = [1, 1]");
                let less = self.node("Relu", &[&less], "");
                let more = self.node("Conv", &[&less, &up], "kernel_shape = [1, 1]");
                let shares = self.node("Sigmoid", &[&more], "");
                self.node("Mul", &[value, &shares], "")
            }
            Layer::Transpose => {
                known.swap(rank - 2, rank - 1);
                self.turned(value, rank)
            }
            Layer::Add => {
                let other = self.node("Tanh", &[value], "");
                self.node("Add", &[value, &other], "")
            }
            Layer::Mean(axis) => {
                let axis = axis.min(rank - 1);
                let axes = self.axes(&[axis]);
                known[axis] = Some(1);
                self.node("ReduceMean", &[value, &axes], "keepdims = 1")
            }
            Layer::Second { columns, along } => {
                let count = known[rank - 1]?;
                let is_first = !self.inputs.contains("second");
                if !is_first || rank != 3 || known[0].is_some() {
                    return None;
                }
                let text = columns.map_or("columns".to_owned(), |count| count.to_string());
                let shape = match along {
                    true => format!("{text}, {count}"),
                    false => format!("{count}, {text}"),
                };
                _ = writeln!(self.inputs, "input second: f32[batch, {shape}]");
                known[rank - 1] = columns;
                match along {
                    true => {
                        let turned = self.turned("second", 3);
                        self.node("MatMul", &[value, &turned], "")
                    }
                    false => self.node("MatMul", &[value, "second"], ""),
                }
            }
        })
    }

    /// A value with its last two axes exchanged.
    fn turned(&mut self, value: &str, rank: usize) -> String {
        let mut order: Vec<usize> = (0..rank).collect();
        order.swap(rank - 2, rank - 1);
        self.node("Transpose", &[value], &format!("perm = {order:?}"))
    }
}

/// More cases, and others: `PROPTEST_CASES`, `PROPTEST_RNG_SEED`.
#[test]
fn bits_follow_from_the_model_alone() {
    if !runs_code() {
        return;
    }
    let cases = std::env::var("PROPTEST_CASES");
    let count = cases.map_or(CASES, |text| text.parse().expect("a number of cases"));
    let (mut said, first) = (0, first_seed());
    for seed in first..first + count {
        let case = Case::random(seed);
        match case.wrong() {
            Ok(has_said) => said += usize::from(has_said),
            Err(reason) => {
                let (case, reason) = case.reduced(reason);
                panic!("seed {seed}: {reason}\n{case:?}");
            }
        }
    }
    demand_share(said, count as usize, 0.5);
}
