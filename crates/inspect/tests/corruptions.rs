//! Damaged texts: of every level that is printed, parsed and verified, texts with a wrong line are
//! refused, or mean what they meant.
//!
//! A definition is taken out, moved, or written twice, a name is another, or the text ends early,
//! by a seed each. What parser and verifier accept must compute the same as before: what was
//! changed was of no account.

#[path = "../../tilewright/tests/common/mod.rs"]
mod common;

use std::sync::Arc;

use base::{Arena, ConstantId, FunctionId, PassContext, PassHooks};
use common::model;
use eval::{EvaluationPrecision, KernelOptions};
use graph::Function;
use module::Module;
use prost::Message;
use tensor::random::{Generator, random};
use tensor::{Tensor, Value};

/// Damaged texts of each level.
const CORRUPTIONS: u64 = 150;

/// Sizes, a loop that grows, a list: each kind of node that a plan has.
const MODEL: &str = r"
    opset 18
    input x: f32[6]
    input last: i64[]
    constant zero: f32[] {0.0}
    constant w: f32[6, 2] {0.5}
    constant cut: i64[1] {0}
    constant two: i64[1] {2}
    holds = Constant() {value = bool[] {true}}
    positive = Greater(x, zero)
    kept = Compress(x, positive)
    none = SequenceEmpty()
    grown, all = Loop(_, holds, kept, none) {body = {
        input turn: i64[] input goeson: bool[] input before: f32[k] input list: sequence f32[l]
        head = Slice(before, cut, two)
        after = Concat(before, head) {axis = 0}
        longer = SequenceInsert(list, head)
        more = Less(turn, last)
        output more: bool[] output after: f32[m] output longer: sequence f32[n]
    }}
    row = Unsqueeze(x, cut)
    product = MatMul(row, w)
    heads = ConcatFromSequence(all) {axis = 0}
    best = Softmax(grown)
    output product: f32[1, 2]
    output heads: f32[a]
    output best: f32[b]
";

/// A text with damage of one kind at one place; none where that changes nothing.
fn damaged(text: &str, seed: u64) -> Option<String> {
    let mut random = Generator::new(seed);
    let mut next = |count: usize| random.below(count.max(1) as u64) as usize;
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let is_definition = |line: &str| {
        let line = line.trim();
        // Parameters of kernels are what callers rely on.
        let is_parameter = line.ends_with(',');
        let is_store = line.split(' ').next().is_some_and(|word| word.contains('['));
        let names = line.starts_with('%') && !is_store || line.starts_with("let ");
        names && line.contains(": ") && !is_parameter
    };
    let definitions: Vec<usize> =
        (0..lines.len()).filter(|&at| is_definition(&lines[at])).collect();
    let at = definitions.get(next(definitions.len())).copied();
    let (at, kind) = (at.unwrap_or(0), if at.is_some() { next(5) } else { 4 });
    match kind {
        0 => _ = lines.remove(at),
        1 => {
            let line = lines.remove(at);
            let to = next(lines.len());
            lines.insert(to, line);
        }
        2 => lines.insert(at, lines[at].clone()),
        3 => {
            let names: Vec<usize> = lines[at].match_indices('%').map(|(place, _)| place).collect();
            let place = *names.get(next(names.len()))?;
            lines[at].insert_str(place + 1, "not_");
        }
        _ => {
            let text: String = text.chars().take(next(text.len())).collect();
            return Some(text);
        }
    }
    Some(lines.join("\n") + "\n")
}

/// Damages texts of a level; `again` says of what is accepted whether it means the same.
fn check(level: &str, texts: &[String], again: &dyn Fn(usize, &str) -> Result<bool, String>) {
    let (mut refused, mut harmless) = (0, 0);
    for seed in 0..CORRUPTIONS {
        let number = seed as usize % texts.len();
        let seed = testkit::first_seed().wrapping_mul(1 << 20).wrapping_add(seed);
        let Some(text) = damaged(&texts[number], seed) else { continue };
        match again(number, &text) {
            Err(_) => refused += 1,
            Ok(true) => harmless += 1,
            Ok(false) => {
                panic!("{level}, seed {seed}: accepted, and means something else:\n{text}")
            }
        }
    }
    println!("{level}: {refused} refused, {harmless} of no account");
    assert!(refused > CORRUPTIONS / 2, "{level}: {refused} refused");
}

/// A model: its function, and what that reads.
fn imported() -> (Arc<Function>, Module) {
    let bytes = model(MODEL).encode_to_vec();
    let module = import_onnx::import_bytes(bytes.into(), &Default::default());
    let module = module.unwrap_or_else(|found| panic!("{found}"));
    (module.functions.values().next().expect("a function").clone(), module)
}

fn inputs() -> Vec<Tensor> {
    let x = Tensor::from_slice(&[6], &[1.0_f32, -2.0, 3.0, 0.5, -1.0, 4.0]);
    vec![x, Tensor::from_slice(&[], &[2_i64])]
}

fn same(values: &[Value], others: &[Value]) -> bool {
    let bytes = |values: &[Value]| -> Vec<Vec<u8>> {
        let tensors = values.iter().cloned().flat_map(Value::into_tensors);
        tensors.map(|tensor| tensor.bytes().to_vec()).collect()
    };
    bytes(values) == bytes(others)
}

#[test]
fn graphs() {
    let (function, module) = imported();
    let run = |function: &Function| {
        let constant = |id: ConstantId| module.constants[id].tensor.clone();
        let precision = EvaluationPrecision::Declared;
        let ignored = &mut |_, _: &Tensor| ();
        eval::graph::evaluate_observed(function, &constant, &inputs(), precision, ignored)
    };
    let expected = run(&function).expect("it runs");
    check("graph", &[function.to_string()], &|_, text| {
        let parsed = graph::parse(text).map_err(|found| found.to_string())?;
        graph::verify(&parsed).map_err(|found| found.to_string())?;
        Ok(run(&parsed).is_ok_and(|found| same(&found, &expected)))
    });
}

struct Unobserved;

impl PassHooks<Arc<Function>> for Unobserved {
    fn around(
        &mut self,
        _: &'static str,
        pass: &mut dyn FnMut() -> base::Result<()>,
    ) -> base::Result<()> {
        pass()
    }

    fn after(&mut self, _: &'static str, _: &Arc<Function>) -> base::Result<()> {
        Ok(())
    }
}

#[test]
fn plans() {
    let (mut function, module) = imported();
    let passes = graph_opt::passes();
    base::run_passes(passes, &mut function, &mut PassContext::default(), &mut Unobserved)
        .unwrap_or_else(|found| panic!("{found}"));
    let (mut called, main) = (Arena::<FunctionId, Arc<Function>>::default(), function);
    let count = main.parameters().len();
    let plan = graph_opt::segments(&main, count, &mut |segment| called.push(segment));
    let plan = plan.expect("a plan");
    let constant = |id: ConstantId| module.constants[id].tensor.clone();
    let mut texts = vec![plan.to_string()];
    texts.extend(called.values().map(|segment| segment.to_string()));
    let run = |plan: &Function, called: &Arena<FunctionId, Arc<Function>>| {
        let mut module = Module { functions: called.clone(), ..module.clone() };
        module.functions.push(Arc::new(plan.clone()));
        module::verify(&module).map_err(|found| found.to_string())?;
        let precision = EvaluationPrecision::Declared;
        Ok::<_, String>(eval::graph::evaluate_with(plan, called, &constant, &inputs(), precision))
    };
    let expected = run(&plan, &called).expect("it verifies").expect("it runs");
    check("plan", &texts, &|number, text| {
        let parsed: Function = graph::parse(text).map_err(|found| found.to_string())?;
        let found = match number.checked_sub(1) {
            None => run(&parsed, &called)?,
            Some(number) => {
                let mut called = called.clone();
                called[base::Id::new(number)] = Arc::new(parsed);
                run(&plan, &called)?
            }
        };
        Ok(found.is_ok_and(|found| found == expected))
    });
}

/// What is dumped of the model of digits at a stage: one text a kernel or program.
fn dumped(stage: inspect::Stage, word: &str) -> Vec<String> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../models/digits/digits.onnx");
    let options = tilewright::Options {
        dims: [("batch".to_owned(), 2)].into(),
        target: tilewright::TargetChoice::Named("x86-64-v3".to_owned()),
        ..Default::default()
    };
    let text = inspect::dump(path.as_ref(), &options, stage, None, None);
    let text = text.unwrap_or_else(|found| panic!("{found}"));
    let starts: Vec<usize> = text.match_indices(word).map(|(place, _)| place).collect();
    let ends = starts.iter().skip(1).copied().chain([text.len()]);
    let part = |(start, end): (&usize, usize)| {
        let lines = text[*start..end].lines().filter(|line| !line.starts_with("//"));
        lines.map(|line| format!("{line}\n")).collect()
    };
    starts.iter().zip(ends).map(part).collect()
}

/// A scheduled kernel with a loop that is an instruction.
const INSTRUCTION: &str = "\
kernel @pairs(%a: read i16[4, 8], %b: read i16[4, 20, 2], %c: write i32[4, 20]) {
  %acc: register i32[20]
  for i < 4 parallel {
    for z < 20 vector {
      %acc[z] = 0i32
    }
    for k < 4 {
      for j < 20 vector {
        for e < 2 as dot_i16_2 {
          %acc[j] += cast<i32>(%a[i, 2*k - e + 1]) * cast<i32>(%b[k, j, -e + 1])
        }
      }
    }
    for s < 20 vector {
      %c[i, s] = %acc[s]
    }
  }
}
";

fn check_kernels(stage: inspect::Stage) {
    if !common::runs_code() {
        return;
    }
    let mut texts = dumped(stage, "kernel @");
    texts.extend((stage == inspect::Stage::Scheduled).then(|| INSTRUCTION.to_owned()));
    let run = |kernel: &loops::Kernel| {
        let buffer = |(number, &id): (usize, &loops::BufferId)| {
            let buffer = &kernel.buffers[id];
            let extent = |extent: &sym::Expr| extent.as_constant().unwrap_or(1) as usize;
            let shape: Vec<usize> = buffer.shape.iter().map(extent).collect();
            // What strides reach is in memory, too.
            let strides = buffer.strides.iter().flatten().map(extent);
            let reach: usize = shape.iter().zip(strides).map(|(count, by)| count * by).sum();
            let elements = shape.iter().product::<usize>().max(reach);
            random(buffer.dtype, &[elements], number as u64)
        };
        let mut buffers: Vec<Tensor> = kernel.parameters.iter().enumerate().map(buffer).collect();
        eval::evaluate_kernel(kernel, &mut buffers, &[], KernelOptions::default())
            .map(|()| buffers)
            .map_err(|fault| fault.message)
    };
    let parse = |text: &str| {
        let kernel = loops::parse(text).map_err(|found| found.to_string())?;
        loops::verify(&kernel).map_err(|found| found.to_string())?;
        Ok::<_, String>(kernel)
    };
    check(&format!("{stage:?}"), &texts, &|number, text| {
        let kernel = parse(text)?;
        let expected = run(&parse(&texts[number]).expect("a kernel")).expect("it runs");
        Ok(run(&kernel).is_ok_and(|found| found == expected))
    });
}

#[test]
fn kernels() {
    check_kernels(inspect::Stage::Kernels);
}

#[test]
fn scheduled_kernels() {
    check_kernels(inspect::Stage::Scheduled);
}

/// Slots are declared in any order; all else has its place.
#[test]
fn programs() {
    if !common::runs_code() {
        return;
    }
    let texts = dumped(inspect::Stage::Program, "program @");
    let sorted = |program: &program::Program| {
        let text = program.to_string();
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    check("program", &texts, &|number, text| {
        let parsed = program::parse(text).map_err(|found| found.to_string())?;
        program::verify(&parsed).map_err(|found| found.to_string())?;
        let expected = program::parse(&texts[number]).expect("a program");
        Ok(sorted(&parsed) == sorted(&expected))
    });
}
