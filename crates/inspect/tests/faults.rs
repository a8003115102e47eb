//! Faults of all levels, switched on one at a time: each is found by `verify` or `diff`, which
//! blame the right node of the model, with the checker of memory plans off, as in a release; one
//! also by that checker, before anything runs.
//!
//! The table below says what is wrong, and who finds it; the switch is `base::fault`.
#![cfg(debug_assertions)]

#[path = "../../tilewright/tests/common/mod.rs"]
mod common;

use std::collections::BTreeMap;

use base::fault::Seeded;
use common::{compiled, model, runs_code};
use inspect::{Counterpart, VerifyReport};
use prost::Message;
use tensor::Tolerance;
use tensor::random::random;
use testkit::Folder;
use tilewright::{DType, Executable, Options, PortExtent, TargetChoice, Tensor, Value};

/// A fault.
struct Fault {
    /// What it is called at its site.
    name: &'static str,
    /// What is wrong there.
    wrong: &'static str,
    /// Who finds it.
    by: By,
    /// The node of the model that is blamed.
    node: &'static str,
    /// A model that shows it: with inputs `name = values` in place of random ones, and first run
    /// with others.
    model: &'static str,
    given: &'static [(&'static str, &'static [i64])],
    before: &'static [(&'static str, &'static [i64])],
}

/// Who finds a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum By {
    /// `verify`, comparing a kernel with the evaluator.
    Kernel,
    /// `verify`, judging the outputs and comparing levels.
    Outputs,
    /// The same; besides, the checker of memory plans before anything runs.
    OutputsAndPlan,
    /// `diff` with values recorded elsewhere: what the importer makes wrong is wrong in the
    /// reference, too.
    Recorded,
}

/// Sums and their hyperbolic tangents, one from the other; too many to be written out.
const SCAN: &str = "input x: f32[40, 3] constant zero: f32[3] {0.0, 0.0, 0.0}
    t, s = Scan(zero, x) {num_scan_inputs = 1, body = {
      input a: f32[3] input e: f32[3] d = Add(a, e) b = Tanh(d)
      output b: f32[3] output d: f32[3]}}
    y = Exp(s) output y: f32[40, 3]";

/// A row times weights of 4 bits in blocks of 32.
const FEW_BITS: &str = "opset 21 input x: f32[1, 64] constant u: f32[2, 96] ~
    constant v: f32[64, 96] ~ constant t: f32[] {30.0} constant m: u8[] {15} s = Abs(u) b = Abs(v)
    c = Mul(b, t) d = Cast(c) {to = 2} q = BitwiseAnd(d, m) a = Sin(x)
    w = DequantizeLinear(q, s) {axis = 0, block_size = 32} y = MatMul(a, w)
    output y: f32[1, 96]";

/// What a row leaves out.
const PLAIN: Fault =
    Fault { name: "", wrong: "", by: By::Kernel, node: "y", model: "", given: &[], before: &[] };

/// Constants with `~` hold random values.
const FAULTS: &[Fault] = &[
    Fault {
        name: "import.gemm",
        wrong: "`transB` is taken for its opposite",
        by: By::Recorded,
        node: "b",
        model: "input x: f32[4, 4] constant w: f32[4, 4] ~ a = Exp(x) b = Gemm(a, w) {transB = 1}
            y = Tanh(b) output a: f32[4, 4] output b: f32[4, 4] output y: f32[4, 4]",
        ..PLAIN
    },
    Fault {
        name: "import.leaky_relu",
        wrong: "the slope is always its default",
        by: By::Recorded,
        node: "b",
        model: "input x: f32[9] a = Sin(x) b = LeakyRelu(a) {alpha = 0.5} y = Exp(b)
            output a: f32[9] output b: f32[9] output y: f32[9]",
        ..PLAIN
    },
    Fault {
        name: "import.clip",
        wrong: "the lower bound is left out",
        by: By::Recorded,
        node: "a",
        model: "input x: f32[9] constant l: f32[] {-0.1} constant h: f32[] {0.5} a = Clip(x, l, h)
            y = Exp(a) output a: f32[9] output y: f32[9]",
        ..PLAIN
    },
    Fault {
        name: "graph-opt.rule",
        wrong: "operands of what a rule makes are swapped",
        by: By::Outputs,
        node: "s",
        model: "input x: f32[9] input z: f32[9] a = Neg(z) s = Add(x, a) y = Exp(s)
            output y: f32[9]",
        ..PLAIN
    },
    Fault {
        name: "graph-opt.fold",
        wrong: "the first element of a folded constant is another",
        by: By::Outputs,
        node: "b",
        model: "input x: f32[1] a = Exp(x) b = HardSigmoid(a) {alpha = 0.3} y = Sin(b)
            output y: f32[1]",
        ..PLAIN
    },
    Fault {
        name: "graph-opt.batch_norm",
        wrong: "a factor behind a convolution is not applied to its bias",
        by: By::Outputs,
        node: "b",
        model: "input x: f32[1, 3, 6, 6] constant w: f32[4, 3, 3, 3] ~ constant v: f32[4] ~
            constant s: f32[4, 1, 1] ~ a = Conv(x, w, v) b = Mul(a, s) y = Tanh(b)
            output y: f32[1, 4, 4, 4]",
        ..PLAIN
    },
    Fault {
        name: "graph-opt.cse",
        wrong: "scalar functions of the same operands are taken for the same",
        by: By::Outputs,
        node: "b",
        model: "input x: f32[9] a = Sin(x) b = Cos(x) y = Add(a, b) output y: f32[9]",
        ..PLAIN
    },
    Fault {
        name: "graph-opt.control",
        wrong: "turns that are written out take the rows in the opposite order",
        by: By::Outputs,
        node: "d",
        model: "input x: f32[3, 9] input i: f32[9] t = Scan(i, x) {num_scan_inputs = 1, body = {
              input a: f32[9] input e: f32[9] d = Sub(e, a) b = Tanh(d) output b: f32[9]}}
            y = Exp(t) output y: f32[9]",
        ..PLAIN
    },
    Fault {
        name: "graph-opt.frame",
        wrong: "the starts of a slice stay in the order that its axes had",
        by: By::Outputs,
        node: "s",
        model: "input x: f32[9, 8] constant from: i64[2] {3, 1} constant to: i64[2] {7, 6}
            t = Transpose(x) {perm = [1, 0]} s = Slice(t, from, to)
            u = Transpose(s) {perm = [1, 0]} y = Exp(u) output y: f32[5, 4]",
        ..PLAIN
    },
    Fault {
        name: "graph-opt.cut",
        wrong: "`main` takes the results of `setup` in the opposite order",
        by: By::Outputs,
        node: "m",
        model: "input x: f32[9] constant v: f32[9] ~ constant w: f32[9] ~ a = Exp(v) b = Sin(w)
            m = Mul(x, a) y = Add(m, b) output y: f32[9]",
        ..PLAIN
    },
    Fault {
        name: "formats.panels",
        wrong: "the lane in a panel is that of the next column",
        by: By::Outputs,
        node: "y",
        model: "input x: f32[5, 70] constant w: f32[70, 150] ~ a = Sin(x) y = MatMul(a, w)
            output y: f32[5, 150]",
        ..PLAIN
    },
    Fault {
        name: "formats.winograd",
        wrong: "an entry of a transform is off by a half",
        by: By::Outputs,
        node: "y",
        model: "input x: f32[1, 64, 28, 28] constant w: f32[64, 64, 3, 3] ~ a = Relu(x)
            y = Conv(a, w) {pads = [1, 1, 1, 1]} output y: f32[1, 64, 28, 28]",
        ..PLAIN
    },
    Fault {
        name: "formats.integers",
        wrong: "the scales of quantised operands are added",
        by: By::Outputs,
        node: "m",
        model: "input x: f32[32, 32] constant s: f32[] {0.02} constant z: i8[] {3}
            constant t: f32[] {0.05} constant v: f32[32, 32] ~ constant n: i8[] {0}
            q = QuantizeLinear(x, s, z) a = DequantizeLinear(q, s, z)
            p = QuantizeLinear(v, t, n) b = DequantizeLinear(p, t, n)
            m = MatMul(a, b) y = Tanh(m) output y: f32[32, 32]",
        ..PLAIN
    },
    Fault {
        name: "formats.tables",
        wrong: "a table of bytes begins with the last of them",
        by: By::Outputs,
        node: "p",
        model: "input x: f32[32, 64] constant s: f32[] {0.04} constant z: u8[] {120}
            constant t: f32[] {0.004} constant n: u8[] {0}
            q = QuantizeLinear(x, s, z) a = DequantizeLinear(q, s, z) b = Sigmoid(a)
            p = QuantizeLinear(b, t, n) output p: u8[32, 64]",
        ..PLAIN
    },
    Fault {
        name: "formats.stored",
        wrong: "the lowest bit of weights of few bits is lost",
        by: By::Outputs,
        node: "y",
        model: FEW_BITS,
        ..PLAIN
    },
    Fault {
        name: "lower.narrow",
        wrong: "codes of 8 bits have an exponent that is one too small",
        by: By::Outputs,
        node: "b",
        model: "opset 19 input x: f32[9] a = Exp(x) b = Cast(a) {to = 17} c = Cast(b) {to = 1}
            y = Sin(c) output y: f32[9]",
        ..PLAIN
    },
    Fault {
        name: "lower.pad",
        wrong: "the last element is taken for padding",
        by: By::Kernel,
        node: "b",
        model: "input x: f32[9] constant p: i64[2] {2, 3} a = Exp(x) b = Pad(a, p) y = Sin(b)
            output y: f32[14]",
        ..PLAIN
    },
    Fault {
        name: "lower.gather",
        wrong: "indices count from the end",
        by: By::Kernel,
        node: "b",
        model: "input x: f32[5, 3] input i: i64[4] a = Exp(x) b = Gather(a, i) y = Sin(b)
            output y: f32[4, 3]",
        ..PLAIN
    },
    Fault {
        name: "lower.identity",
        wrong: "a maximum begins with 0",
        by: By::Kernel,
        node: "b",
        model: "input x: f32[5, 7] constant k: f32[] {-100.0} a = Add(x, k)
            b = ReduceMax(a) {axes = [1]} y = Exp(b) output y: f32[5, 1]",
        ..PLAIN
    },
    Fault {
        name: "lower.branch",
        wrong: "the branches of an `If` are swapped",
        by: By::Outputs,
        node: "b",
        model: "input c: bool[] input x: f32[2000] b = If(c) {
              then_branch = {t = Exp(x) output t: f32[2000]},
              else_branch = {e = Tanh(x) output e: f32[2000]}}
            y = Sin(b) output y: f32[2000]",
        ..PLAIN
    },
    Fault {
        name: "lower.scan",
        wrong: "a scan goes the other way",
        by: By::Outputs,
        node: "t",
        model: SCAN,
        ..PLAIN
    },
    Fault {
        name: "lower.carry",
        wrong: "the last value that a loop carries stays as it was",
        by: By::Outputs,
        node: "t",
        model: SCAN,
        ..PLAIN
    },
    Fault {
        name: "lower.turns",
        wrong: "a loop over single elements takes a turn too few",
        by: By::Kernel,
        node: "t",
        model: "input x: f32[40] constant n: i64[] {41}
            t = Loop(n, _, x) {body = {
              input i: i64[] input c: bool[] input e: f32[40] k = Identity(c) d = Neg(e)
              output k: bool[] output d: f32[40]}}
            y = Exp(t) output y: f32[40]",
        ..PLAIN
    },
    Fault {
        name: "lower.concat",
        wrong: "all operands of a `Concat` lie where the first does",
        by: By::Outputs,
        node: "c",
        model: "input x: f32[3, 40] constant w: f32[40, 40] ~ a = MatMul(x, w) b = Softmax(x)
            c = Concat(a, b) {axis = 0} y = Softmax(c) output y: f32[6, 40]",
        ..PLAIN
    },
    Fault {
        name: "lower.plan",
        wrong: "a slot is given away before its last reader",
        by: By::OutputsAndPlan,
        node: "a",
        model: "input x: f32[8, 40] constant w: f32[40, 40] ~ constant v: f32[40, 40] ~
            a = MatMul(x, w) b = Softmax(a) c = MatMul(b, v) d = Softmax(c) e = MatMul(d, w)
            y = Add(e, a) output y: f32[8, 40]",
        ..PLAIN
    },
    Fault {
        name: "lower.literals",
        wrong: "literals of one shape are taken for the same",
        by: By::Outputs,
        node: "y",
        model: "input x: i64[3] input z: i64[4] constant j: i64[3] {5, 1, 3}
            constant k: i64[3] {1, 2, 9} a = Mul(x, j) c = ReduceSum(a) b = Add(z, c)
            d = ReduceSum(b) y = Mul(d, k) output y: i64[3]",
        ..PLAIN
    },
    Fault {
        name: "lower.store",
        wrong: "the store of kernels looks at the shapes of arguments alone",
        by: By::Kernel,
        node: "d",
        model: "input x: f32[n, 24] constant v: f32[24, 24] ~ constant w: f32[24, 24] ~
            a = MatMul(x, v) b = Relu(a) c = MatMul(b, w) d = Sin(c) output d: f32[n, 24]",
        ..PLAIN
    },
    Fault {
        name: "schedule.split",
        wrong: "a loop that was split leaves out the last turn",
        node: "a",
        model: "input x: f32[7, 33] constant w: f32[33, 45] ~ a = Sin(x) y = MatMul(a, w)
            output y: f32[7, 45]",
        ..PLAIN
    },
    Fault {
        name: "schedule.tanh",
        wrong: "a number in the expansion of tanh is off by a thousandth",
        node: "b",
        model: "input x: f32[9] a = ReduceSum(x) b = Tanh(x) y = Add(a, b) output y: f32[9]",
        ..PLAIN
    },
    Fault {
        name: "x64.mask",
        wrong: "the mask of the last vector has a lane too few",
        model: "input x: f32[13] y = Exp(x) output y: f32[13]",
        ..PLAIN
    },
    Fault {
        name: "x64.operands",
        wrong: "the operands of a subtraction are swapped",
        node: "b",
        model: "input x: f32[40] input z: f32[40] b = Sub(x, z) a = ReduceSum(b) y = Sin(a)
            output y: f32[1]",
        ..PLAIN
    },
    Fault {
        name: "x64.clamp",
        wrong: "floats below the least integer of 8 bits are not clamped",
        model: "input x: f32[40] constant k: f32[] {-300.0} a = Add(x, k) y = Cast(a) {to = 3}
            output y: i8[40]",
        ..PLAIN
    },
    Fault {
        name: "x64.bf16",
        wrong: "roundings to bf16 lose four bits more",
        model: "input x: f32[40] y = Cast(x) {to = 16} output y: bf16[40]",
        ..PLAIN
    },
    Fault {
        name: "x64.tuple",
        wrong: "instructions multiply the last operand by itself",
        node: "m",
        model: "input x: f32[32, 32] constant s: f32[] {0.02} constant z: i8[] {3}
            constant t: f32[] {0.05} constant v: f32[32, 32] ~ constant n: i8[] {0}
            q = QuantizeLinear(x, s, z) a = DequantizeLinear(q, s, z)
            p = QuantizeLinear(v, t, n) b = DequantizeLinear(p, t, n)
            m = MatMul(a, b) y = Tanh(m) output y: f32[32, 32]",
        ..PLAIN
    },
    Fault {
        name: "x64.joined",
        wrong: "sums of pairs that join others are added to those once more",
        by: By::Kernel,
        node: "y",
        model: FEW_BITS,
        ..PLAIN
    },
    Fault {
        name: "runtime.chunk",
        wrong: "workers leave out the last turn of each piece",
        by: By::Outputs,
        node: "y",
        model: "input x: f32[512, 512] y = Softmax(x) output y: f32[512, 512]",
        ..PLAIN
    },
    Fault {
        name: "runtime.move",
        wrong: "the source of a move is read as if it were dense",
        by: By::Outputs,
        node: "y",
        model: "input x: f32[5, 70] constant w: f32[150, 70] ~ t = Transpose(w) {perm = [1, 0]}
            y = MatMul(x, t) output y: f32[5, 150]",
        ..PLAIN
    },
    Fault {
        name: "runtime.copy",
        wrong: "only the first half of what is copied arrives",
        by: By::Outputs,
        node: "t",
        model:
            "input x: f32[40, 8] input i: f32[8] t, s = Scan(i, x) {num_scan_inputs = 1, body = {
              input a: f32[8] input e: f32[8] d = Add(a, e) b = Tanh(d)
              output b: f32[8] output d: f32[8]}}
            y = Exp(t) output y: f32[8] output s: f32[40, 8]",
        ..PLAIN
    },
    Fault {
        name: "driver.variant",
        wrong: "what was compiled for one value of an input is used for all",
        by: By::Outputs,
        node: "r",
        model: "input x: f32[3, 3] input s: i64[1] a = Exp(x) r = ReduceSum(a, s) y = Neg(r)
            output y: f32[n, m]",
        given: &[("s", &[1])],
        before: &[("s", &[0])],
    },
    Fault {
        name: "driver.constants",
        wrong: "`main` reads the results of `setup` in the opposite order",
        by: By::Outputs,
        node: "m",
        model: "input x: f32[9] constant v: f32[9] ~ constant w: f32[9] ~ a = Exp(v) b = Sin(w)
            m = Mul(x, a) y = Add(m, b) output y: f32[9]",
        ..PLAIN
    },
];

/// A text with random values in the place of each `~`.
fn with_values(text: &str) -> String {
    let mut parts = text.split('~');
    let mut whole = parts.next().unwrap_or_default().to_owned();
    for (seed, part) in parts.enumerate() {
        let shape = &whole[whole.rfind('[').expect("a shape") + 1..];
        let extents = shape.trim_end().trim_end_matches(']').split(", ");
        let extents: Vec<usize> = extents.map(|it| it.parse().expect("an extent")).collect();
        let values = random(DType::F32, &extents, 100 + seed as u64).to_f64_vec();
        let scale = 1.0 / (extents.iter().rev().skip(1).product::<usize>() as f64).sqrt();
        let values: Vec<String> = values.iter().map(|it| format!("{:?}", it * scale)).collect();
        whole += &format!("{{{}}}{part}", values.join(", "));
    }
    whole
}

/// Inputs of a model: those given, and random ones; free extents are 3.
fn inputs(executable: &Executable, given: &[(&str, &[i64])]) -> Vec<Tensor> {
    let ports = executable.inputs().iter().enumerate();
    let input = |(seed, port): (usize, &tilewright::Port)| {
        let values = given.iter().find(|(name, _)| *name == port.name);
        if let Some((_, values)) = values {
            return Tensor::from_slice(&[values.len()], values);
        }
        let extent = |extent: &PortExtent| match extent {
            PortExtent::Fixed(extent) => *extent,
            _ => 3,
        };
        let dtype = port.dtype.expect("a tensor");
        random(dtype, &port.shape.iter().map(extent).collect::<Vec<_>>(), seed as u64)
    };
    ports.map(input).collect()
}

impl Fault {
    /// The model, compiled for a target that is the same everywhere.
    fn compiled(&self) -> tilewright::Result<Executable> {
        let target = TargetChoice::Named("x86-64-v3".to_owned());
        let options = Options { threads: Some(2), target, ..Options::default() };
        tilewright::compile_bytes(model(&with_values(self.model)).encode_to_vec(), &options)
    }

    fn verified(&self) -> VerifyReport {
        let executable = self.compiled().unwrap_or_else(|found| panic!("{found}"));
        if !self.before.is_empty() {
            let inputs = inputs(&executable, self.before);
            executable.run(&inputs).unwrap_or_else(|found| panic!("{found}"));
        }
        let inputs = inputs(&executable, self.given);
        let inputs: Vec<Value> = inputs.into_iter().map(Value::from).collect();
        let report = inspect::verify(&executable, &inputs, u64::MAX, &mut |_, _, _| ());
        report.unwrap_or_else(|found| panic!("{found}"))
    }

    /// What is wrong with how the fault is found, if something is.
    fn missed(&self) -> Option<String> {
        if self.by == By::Recorded {
            return self.missed_by_diff();
        }
        let right = self.verified();
        if !right.passed() {
            return Some(format!("without it:\n{right}"));
        }
        let report = {
            let _seeded = Seeded::new(self.name, false);
            self.verified()
        };
        // Of a kernel the nodes stand behind its name.
        let reads_in = |text: &str| {
            let nodes = text.split_once("kernel ").and_then(|(_, rest)| rest.split_once('('));
            let nodes = nodes.and_then(|(_, rest)| rest.split_once(')')).unwrap_or_default().0;
            nodes.split(", ").any(|node| node == self.node)
        };
        let names_node = |text: &str| text.contains(&format!("node \"{}\"", self.node));
        let is_found = match self.by {
            By::Kernel => report.kernels.iter().any(|verdict| {
                verdict.failure.is_some() && verdict.nodes.iter().any(|node| node == self.node)
            }),
            _ => {
                let kernels = report.kernels.iter();
                kernels.filter(|verdict| verdict.failure.is_some()).count() == 0
                    && report.blame.iter().any(|blame| names_node(blame) || reads_in(blame))
            }
        };
        if report.passed() || !is_found {
            return Some(format!("not found by {:?} in {}:\n{report}", self.by, self.node));
        }
        if self.by == By::OutputsAndPlan {
            let _seeded = Seeded::new(self.name, true);
            let caught = self.compiled().map(|_| ());
            return match caught {
                Err(found) if found.to_string().contains("error[TW09") => None,
                other => Some(format!("no checker finds it: {other:?}")),
            };
        }
        None
    }

    fn missed_by_diff(&self) -> Option<String> {
        let folder = Folder::new();
        let path = folder.path().join("model.onnx");
        let right = compiled(&model(&with_values(self.model)), Options::default());
        std::fs::write(&path, model(&with_values(self.model)).encode_to_vec()).expect("a file");
        let inputs = inputs(&right, self.given);
        let outputs = right.run(&inputs).unwrap_or_else(|found| panic!("{found}"));
        let names = right.outputs().iter().map(|port| port.name.clone());
        let outputs = outputs.into_iter().map(Value::from);
        let recorded = Counterpart::Recorded(names.zip(outputs).collect::<BTreeMap<_, _>>());
        let values: Vec<Value> = inputs.iter().cloned().map(Value::from).collect();
        let diff = || {
            let (options, tolerance) = (Options::default(), Tolerance::default());
            inspect::diff(&path, &options, &recorded, &values, tolerance, &mut |_| ())
                .unwrap_or_else(|found| panic!("{found}"))
        };
        if let Some(difference) = diff() {
            return Some(format!("without it: {difference}"));
        }
        let _seeded = Seeded::new(self.name, false);
        match diff() {
            Some(found) if found.value == self.node => None,
            other => Some(format!("{other:?}")),
        }
    }
}

#[test]
fn each_is_found_and_the_right_node_is_blamed() {
    if !runs_code() {
        return;
    }
    let chosen = std::env::var("FAULT").unwrap_or_default();
    let faults = FAULTS.iter().filter(|fault| fault.name.contains(&chosen));
    let mut missed = Vec::new();
    for fault in faults.clone() {
        let found = base::panics::catch(|| fault.missed());
        if let Some(reason) = found.unwrap_or_else(|caught| Some(format!("{caught:?}"))) {
            missed.push(format!("{} ({}): {reason}", fault.name, fault.wrong));
        }
    }
    assert!(missed.is_empty(), "{} missed:\n{}", missed.len(), missed.join("\n\n"));
    assert!(!chosen.is_empty() || FAULTS.len() >= 25, "{} faults", FAULTS.len());
}
