//! Every kernel of an executable against the reference evaluator.
//!
//! Each kernel is fed what the evaluator computed for its operands, so that errors do not add up
//! and a wrong kernel is named. The nodes of a kernel that differs are then compiled one by one,
//! which names the node, or, if each is right alone, their fusion.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use base::{Arena, ConstantId, Diagnostics, Result};
use eval::{EvaluationPrecision, Settings};
use graph::{Function, NodeId, Op, Type, ValueId};
use loops::{Access, Buffer, Scope};
use lower::{KernelInfo, KernelSource, Role};
use program::{Address, Argument, Place, Program, Run, Slot, Step};
use runtime::Code;
use sym::Expr;
use tensor::Tensor;

use crate::pipeline::constant;
use crate::specialisation::{Request, Specialisation};
use crate::variant::SegmentMet;
use crate::{Executable, Tolerance};

/// The byte that fills memory before a kernel writes it: of floats, not a number.
const POISON: u8 = 0xFF;

/// What became of each kernel.
#[derive(Clone, Debug, Default)]
pub struct VerifyReport {
    /// In the order of the programs, those of `setup` first.
    pub kernels: Vec<KernelVerdict>,
    /// For each output of the whole model its name and the error against the imported model
    /// evaluated in f64: the norm of the difference over the norm of the reference.
    pub outputs: Vec<(String, f64)>,
}

/// What became of one run of a kernel.
#[derive(Clone, Debug)]
pub struct KernelVerdict {
    /// The kernel's name.
    pub kernel: String,
    /// The nodes of the model which it computes.
    pub nodes: Vec<String>,
    /// What differs, if something does.
    pub failure: Option<String>,
}

impl VerifyReport {
    /// Whether every kernel agrees with the evaluator.
    #[must_use]
    pub fn passed(&self) -> bool {
        self.kernels.iter().all(|verdict| verdict.failure.is_none())
    }
}

impl fmt::Display for VerifyReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for verdict in &self.kernels {
            if let Some(failure) = &verdict.failure {
                writeln!(f, "{} ({}): {failure}", verdict.kernel, verdict.nodes.join(", "))?;
            }
        }
        for (name, error) in &self.outputs {
            writeln!(f, "output {name}: error {error:.1e} against the model in f64")?;
        }
        let wrong = self.kernels.iter().filter(|verdict| verdict.failure.is_some()).count();
        writeln!(f, "{} kernels compared with the evaluator, {wrong} differ", self.kernels.len())
    }
}

/// Compares every kernel of the code for these inputs; `progress` hears how many of how many are
/// done, and the name of the kernel at hand.
///
/// # Errors
/// Inputs that do not fit; faults of the evaluator.
pub fn verify(
    executable: &Executable,
    inputs: &[Tensor],
    progress: &mut dyn FnMut(usize, usize, &str),
) -> Result<VerifyReport> {
    let code = |half: &Specialisation| Ok(half.executable.code().clone());
    let mut report = VerifyReport::default();
    executable.each_whole(inputs, &mut |whole, inputs| {
        let verifier = Verifier { executable: whole, code: &code };
        // What cannot be run need not be evaluated, which takes longer.
        let actual = whole.run(inputs)?;
        report.kernels.extend(verifier.kernels(inputs, progress)?);
        report.outputs.extend(output_errors(whole, inputs, &actual)?);
        Ok(())
    })?;
    Ok(report)
}

/// The error of each output against the imported model in f64.
fn output_errors(
    executable: &Executable,
    inputs: &[Tensor],
    actual: &[Tensor],
) -> Result<Vec<(String, f64)>> {
    let variant = executable.variant(inputs)?;
    let front = &variant.front;
    let weights = |id: ConstantId| constant(&front.module, id);
    let settings = settings(executable, EvaluationPrecision::F64);
    let expected = eval::graph::evaluate(&front.imported, &weights, inputs, settings)
        .map_err(|fault| Diagnostics::from(base::Diagnostic::from(fault)))?;
    let ports = executable.outputs().iter().zip(actual.iter().zip(&expected));
    Ok(ports
        .map(|(port, (actual, expected))| {
            let actual = actual.cast(expected.dtype());
            (port.name.clone(), tensor::compare(&actual, expected, 0.0, 0.0).relative_l2)
        })
        .collect())
}

/// How the evaluator computes what an executable is compared with.
fn settings(executable: &Executable, precision: EvaluationPrecision) -> Settings {
    Settings { precision, most_turns: executable.options.limits.turns }
}

/// What the evaluator computes for every value of a function.
struct Values {
    of: BTreeMap<ValueId, Tensor>,
    results: Vec<Tensor>,
}

impl Values {
    fn compute(half: &Specialisation, inputs: &[Tensor], settings: Settings) -> Result<Values> {
        let function = &half.lowered.function;
        let weights = |id: ConstantId| constant(&half.module, id);
        // What the function reads as bytes is elements of few bits to the caller.
        let stored = |(&parameter, input): (&ValueId, &Tensor)| match function.ty(parameter) {
            Type::Tensor(ty) if ty.dtype != input.dtype() => {
                let extent = |extent: &Expr| extent.as_constant().unwrap_or(0) as usize;
                let shape: Vec<usize> = ty.shape.iter().map(extent).collect();
                input.packed_bytes().reshape(&shape)
            }
            _ => input.clone(),
        };
        let inputs: Vec<Tensor> = function.parameters().iter().zip(inputs).map(stored).collect();
        let mut of = BTreeMap::new();
        let results = eval::graph::evaluate_observed(
            function,
            &weights,
            &inputs,
            settings,
            &mut |value, tensor| _ = of.insert(value, tensor.clone()),
        )
        .map_err(|fault| Diagnostics::from(base::Diagnostic::from(fault)))?;
        Ok(Values { of, results })
    }
}

/// Compares kernels with the evaluator.
struct Verifier<'a> {
    executable: &'a Executable,
    /// Where the machine code of a half's kernels is.
    code: &'a dyn Fn(&Specialisation) -> Result<Arc<Code>>,
}

impl Verifier<'_> {
    /// A verdict for each kernel of `setup`, then of `main`.
    fn kernels(
        &self,
        inputs: &[Tensor],
        progress: &mut dyn FnMut(usize, usize, &str),
    ) -> Result<Vec<KernelVerdict>> {
        let variant = self.executable.variant(inputs)?;
        let setup = &variant.setup;
        let runs = variant.segments_met(self.executable.model(), inputs)?;
        let kernels = |run: &SegmentMet| run.specialisation.lowered.kernels.len();
        let total = setup.lowered.kernels.len() + runs.iter().map(kernels).sum::<usize>();
        let mut verdicts = Vec::new();
        let constants_of_setup = self.half(setup, &[], &mut verdicts, &mut |done, name| {
            progress(done, total, name);
        })?;
        for run in &runs {
            let constants = run.constants.iter();
            let constants = constants.map(|&number| constants_of_setup[number].clone());
            let all: Vec<Tensor> = run.operands.iter().cloned().chain(constants).collect();
            self.half(&run.specialisation, &all, &mut verdicts, &mut |done, name| {
                progress(done, total, name);
            })?;
        }
        progress(total, total, "the whole model in f64");
        Ok(verdicts)
    }

    /// Adds the verdicts of one half; its results, as the evaluator computes them.
    fn half(
        &self,
        half: &Specialisation,
        inputs: &[Tensor],
        verdicts: &mut Vec<KernelVerdict>,
        progress: &mut dyn FnMut(usize, &str),
    ) -> Result<Vec<Tensor>> {
        let values = Values::compute(
            half,
            inputs,
            settings(self.executable, EvaluationPrecision::Declared),
        )?;
        let code = (self.code)(half)?;
        for info in &half.lowered.kernels {
            progress(verdicts.len(), &info.name);
            let Some(source) = &info.source else { continue };
            let failure = match difference(half, &code, info, source, &values)? {
                Some(found) => Some(format!("{found}; {}", self.blame(half, source, &values)?)),
                None => None,
            };
            let (kernel, nodes) = (info.name.clone(), info.nodes.clone());
            verdicts.push(KernelVerdict { kernel, nodes, failure });
        }
        Ok(values.results)
    }

    /// Which node of a kernel that differs is to blame.
    fn blame(
        &self,
        half: &Specialisation,
        source: &KernelSource,
        values: &Values,
    ) -> Result<String> {
        let function = &half.lowered.function;
        for &node in &source.nodes {
            if self.differs_alone(half, node, values)? {
                let data = &function.nodes[node];
                let place = function.locations.describe(data.location);
                return Ok(format!("node {} of {place} differs alone, too", data.op.name()));
            }
        }
        Ok("each of its nodes is right alone: their fusion or its schedule is wrong".to_owned())
    }

    fn differs_alone(&self, half: &Specialisation, node: NodeId, values: &Values) -> Result<bool> {
        let isolated = Arc::new(half.lowered.function.isolate(node));
        let alone = Specialisation::new(Request {
            module: &half.module,
            function: &isolated,
            symbols: &BTreeMap::new(),
            role: Role::Main { inputs: isolated.parameters().len(), constants: Vec::new() },
            target: self.executable.target(),
            options: &self.executable.options,
            given: None,
            store: None,
        })?;
        let mut operands = half.lowered.function.nodes[node].operands.clone();
        operands.sort();
        operands.dedup();
        let inputs: Vec<Tensor> = operands.iter().map(|value| values.of[value].clone()).collect();
        let values = Values::compute(
            &alone,
            &inputs,
            settings(self.executable, EvaluationPrecision::Declared),
        )?;
        let code = (self.code)(&alone)?;
        for info in &alone.lowered.kernels {
            let Some(source) = &info.source else { continue };
            if difference(&alone, &code, info, source, &values)?.is_some() {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// Runs one kernel on the evaluator's values; says what differs first, if something does.
fn difference(
    half: &Specialisation,
    code: &Arc<Code>,
    info: &KernelInfo,
    source: &KernelSource,
    values: &Values,
) -> Result<Option<String>> {
    let kernel = &half.module.kernels[info.kernel];
    let mut memory = Vec::new();
    for (value, &parameter) in source.arguments.iter().zip(&kernel.parameters) {
        let buffer = &kernel.buffers[parameter];
        let mut argument = Memory::new(buffer, &values.of[value]);
        if argument.writes {
            argument.put_operand(&half.lowered.function, source, *value, values);
        }
        memory.push(argument);
    }
    let program = program_of(info, &memory);
    let executable = backend_x64::executable(&half.module.kernels, &program, code.clone())?;
    let mut state = runtime::State::new(Arc::new(executable), 1)?;
    let mut outputs: Vec<Vec<u8>> =
        memory.iter().filter(|memory| memory.writes).map(|memory| memory.bytes.clone()).collect();
    let mut call = state.call();
    for (number, memory) in memory.iter().enumerate() {
        call.input(number, &memory.bytes)?;
    }
    for (number, output) in outputs.iter_mut().enumerate() {
        call.output(number, output)?;
    }
    call.run()?;
    let written = memory.iter().zip(&source.arguments).filter(|(memory, _)| memory.writes);
    for ((memory, value), bytes) in written.zip(&outputs) {
        let expected = &values.of[value];
        let actual = memory.read(bytes, expected);
        let comparison = Tolerance::default().compare(&actual, expected);
        if !comparison.passed() {
            let name = half.lowered.function.values[*value].name.as_deref().unwrap_or("a value");
            return Ok(Some(format!("{name}: {comparison}")));
        }
    }
    Ok(None)
}

/// The memory of one argument, as its buffer lays it out.
struct Memory {
    bytes: Vec<u8>,
    /// For each element in row-major order, the byte where it is.
    places: Vec<usize>,
    reads: bool,
    writes: bool,
}

impl Memory {
    /// Holds a tensor's elements where the kernel reads them; all else is poison, so that elements
    /// left unwritten are found.
    fn new(buffer: &Buffer, tensor: &Tensor) -> Memory {
        let width = buffer.dtype.bytes().unwrap_or(1);
        let extent = |expr: &Expr| expr.as_constant().unwrap_or(0) as usize;
        let shape: Vec<usize> = buffer.shape.iter().map(extent).collect();
        let strides: Vec<usize> = match &buffer.strides {
            Some(strides) => strides.iter().map(extent).collect(),
            None => dense_strides(&shape),
        };
        let places: Vec<usize> = (0..shape.iter().product())
            .map(|element| width * offset(element, &shape, &strides))
            .collect();
        let bytes = places.iter().max().map_or(0, |last| last + width);
        let access = match buffer.scope {
            Scope::Parameter(access) => access,
            Scope::Scratch | Scope::Register => Access::Update,
        };
        let mut memory = Memory {
            bytes: vec![POISON; bytes],
            places,
            reads: access != Access::Write,
            writes: access != Access::Read,
        };
        if memory.reads {
            for (element, &place) in memory.places.iter().enumerate() {
                let source = &tensor.bytes()[element * width..][..width];
                memory.bytes[place..][..width].copy_from_slice(source);
            }
        }
        memory
    }

    /// A `Pad` whose operand is no argument has it in its memory already: puts it there.
    fn put_operand(
        &mut self,
        function: &Function,
        source: &KernelSource,
        value: ValueId,
        values: &Values,
    ) {
        let Some((node, _)) = function.producer(value) else { return };
        let data = &function.nodes[node];
        let Op::Pad { low, .. } = &data.op else { return };
        if source.arguments.contains(&data.operands[0]) {
            return;
        }
        let (operand, whole) = (&values.of[&data.operands[0]], &values.of[&value]);
        let width = operand.dtype().bytes().unwrap_or(1);
        let strides = dense_strides(whole.shape());
        let low = low.iter().map(|low| low.as_constant().unwrap_or(0) as usize);
        let begin: usize = low.zip(&strides).map(|(low, stride)| low * stride).sum();
        for (element, bytes) in operand.bytes().chunks_exact(width).enumerate() {
            let place = self.places[begin + offset(element, operand.shape(), &strides)];
            self.bytes[place..][..width].copy_from_slice(bytes);
        }
    }

    /// The elements in such memory, as a tensor like another.
    fn read(&self, bytes: &[u8], like: &Tensor) -> Tensor {
        let mut tensor = Tensor::zeros(like.dtype(), like.shape());
        let width = like.dtype().bytes().unwrap_or(1);
        for (target, &place) in tensor.bytes_mut().chunks_exact_mut(width).zip(&self.places) {
            target.copy_from_slice(&bytes[place..][..width]);
        }
        tensor
    }
}

fn dense_strides(shape: &[usize]) -> Vec<usize> {
    (0..shape.len()).map(|axis| shape[axis + 1..].iter().product()).collect()
}

/// The offset of an element, counted in row-major order, under strides.
fn offset(mut element: usize, shape: &[usize], strides: &[usize]) -> usize {
    let mut offset = 0;
    for (extent, stride) in shape.iter().zip(strides).rev() {
        offset += element % extent * stride;
        element /= extent;
    }
    offset
}

/// A program that runs the kernel once: argument `k` is input `k`; what it writes is an output,
/// which begins as a copy of the input.
fn program_of(info: &KernelInfo, memory: &[Memory]) -> Program {
    let mut slots = Arena::default();
    let mut steps = Vec::new();
    let mut arguments = Vec::new();
    let mut outputs = 0;
    for (number, memory) in memory.iter().enumerate() {
        let bytes = Expr::from(memory.bytes.len());
        let mut slot = |name: &str, place| {
            let name = format!("{name}{number}");
            slots.push(Slot { name, bytes: bytes.clone(), place })
        };
        let input =
            Address { slot: slot("input", Place::Input(number as u32)), offset: Expr::ZERO };
        let address = if memory.writes {
            let place = Place::Output(outputs);
            outputs += 1;
            let output = Address { slot: slot("output", place), offset: Expr::ZERO };
            let (source, destination) = (input, output.clone());
            steps.push(Step::Copy { source, destination, bytes: bytes.clone() });
            output
        } else {
            input
        };
        let (reads, writes) = (memory.reads, memory.writes);
        arguments.push(Argument { address, bytes, writes, reads });
    }
    let extent = Expr::constant(info.extent);
    steps.push(Step::Run(Run {
        kernel: info.kernel,
        arguments,
        grain: extent.clone(),
        extent,
        scratch_bytes: Expr::from(info.scratch_bytes as usize),
    }));
    Program {
        name: "kernel".to_owned(),
        symbols: Arena::default(),
        slots,
        arena_bytes: Expr::ZERO,
        steps,
    }
}

#[cfg(test)]
mod tests {
    use loops::ScalarExpr;
    use module::Module;
    use tensor::{DType, ScalarFunction};

    use super::*;
    use crate::{Options, jit};

    /// Verdicts on the digits classifier, these kernels spoiled before they are compared; `None`
    /// where this machine cannot run the code.
    fn verdicts(spoiled: fn(&KernelSource) -> bool) -> Option<Vec<KernelVerdict>> {
        if !std::arch::is_x86_feature_detected!("avx2") {
            eprintln!("skipped: this machine cannot run the JIT's code");
            return None;
        }
        let model = concat!(env!("CARGO_MANIFEST_DIR"), "/../../models/digits/digits.onnx");
        let options = Options { threads: Some(1), ..Options::default() };
        let executable = crate::compile(model, &options).expect("the model compiles");
        let code = |half: &Specialisation| {
            let mut module = half.module.clone();
            spoil(&mut module, half, spoiled);
            let target = executable.target();
            let linked = jit::compile(&module, half.program, &[], target, &options)?;
            Ok(linked.executable.code().clone())
        };
        let verifier = Verifier { executable: &executable, code: &code };
        let images = [tensor::random::random(DType::F32, &[2, 1, 8, 8], 1)];
        Some(verifier.kernels(&images, &mut |_, _, _| ()).expect("the evaluator runs"))
    }

    /// Turns maxima of two values into minima, in the kernels of such sources.
    fn spoil(module: &mut Module, half: &Specialisation, meant: fn(&KernelSource) -> bool) {
        for info in &half.lowered.kernels {
            if info.source.as_ref().is_some_and(meant) {
                let body = &mut module.kernels[info.kernel].body;
                loops::visit::walk_values_mut(body, &mut |value| {
                    if let ScalarExpr::Apply { function, .. } = value
                        && *function == ScalarFunction::Max
                    {
                        *function = ScalarFunction::Min;
                    }
                });
            }
        }
    }

    fn failures(verdicts: &[KernelVerdict]) -> Vec<&str> {
        verdicts.iter().filter_map(|verdict| verdict.failure.as_deref()).collect()
    }

    #[test]
    fn right_kernels_pass() {
        let Some(verdicts) = verdicts(|_| false) else { return };
        assert!(verdicts.len() > 4 && failures(&verdicts).is_empty(), "{verdicts:?}");
    }

    #[test]
    fn a_wrong_node_is_named() {
        let Some(verdicts) = verdicts(|_| true) else {
            return;
        };
        let failures = failures(&verdicts);
        assert!(!failures.is_empty() && failures.len() < verdicts.len(), "{verdicts:?}");
        for failure in failures {
            assert!(failure.contains("node map of node \"node_relu"), "{failure}");
        }
    }

    #[test]
    fn a_wrong_fusion_is_told_from_a_wrong_node() {
        let Some(verdicts) = verdicts(|source| source.nodes.len() > 1) else {
            return;
        };
        let failures = failures(&verdicts);
        assert!(!failures.is_empty(), "{verdicts:?}");
        for failure in failures {
            assert!(failure.ends_with("their fusion or its schedule is wrong"), "{failure}");
        }
    }
}
