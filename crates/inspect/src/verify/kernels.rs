//! Every kernel, fed what the evaluator computed for its operands, against the evaluator.
//!
//! So errors do not add up and a wrong kernel is named. The nodes of a kernel that differs are then
//! compiled one by one, which names the node, or, if each is right alone, their fusion. Kernels of
//! loops and branches are fed the values of the first turn, and what the branch captures.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use base::{ConstantId, Diagnostics, KernelId, Result};
use eval::{EvaluationPrecision, Settings};
use graph::{Function, NodeId, Op, Type, ValueId};
use loops::{Access, Buffer, Scope};
use module::Module;
use program::{AloneArgument, Program};
use runtime::Code;
use sym::Expr;
use tensor::{Given, Tensor, Tolerance, Value, dense_strides, offsets};
use tilewright::Executable;
use tilewright::compiled::{
    KernelInfo, KernelSource, RegionFunction, Request, Role, SegmentRun, Specialisation, constant,
    link,
};

use super::{KernelVerdict, VerifyReport};

/// The byte that fills memory before a kernel writes it: of floats, not a number.
const POISON: u8 = 0xFF;

/// How the evaluator computes what an executable is compared with.
pub(super) fn settings(executable: &Executable, precision: EvaluationPrecision) -> Settings {
    Settings { precision, most_turns: executable.options().limits.turns }
}

/// What the evaluator computes for the values of a function; of those in a loop, in its first turn.
pub(super) struct Values {
    pub(super) of: BTreeMap<ValueId, Tensor>,
    /// The tensors that its results are made of.
    pub(super) results: Vec<Tensor>,
    /// For each of these the number of the result.
    pub(super) result_of: Vec<usize>,
}

impl Values {
    /// Evaluates a function that reads the constants of a module.
    pub(super) fn compute<G: Given>(
        function: &Function,
        module: &Module,
        inputs: &[G],
        settings: Settings,
    ) -> Result<Values> {
        let weights = |id: ConstantId| constant(module, id);
        // What the function reads as bytes is elements of few bits to the caller.
        let stored = |(&parameter, input): (&ValueId, &G)| -> Value {
            match (function.ty(parameter), input.as_tensor()) {
                (Type::Tensor(ty), Some(input)) if ty.dtype != input.dtype() => {
                    let extent = |extent: &Expr| extent.as_constant().unwrap_or(0) as usize;
                    let shape: Vec<usize> = ty.shape.iter().map(extent).collect();
                    input.packed_bytes().reshape(&shape).into()
                }
                _ => input.clone().into(),
            }
        };
        let inputs: Vec<Value> = function.parameters().iter().zip(inputs).map(stored).collect();
        let mut of = BTreeMap::new();
        let mut keep = |value, tensor: &Tensor| {
            of.entry(value).or_insert_with(|| tensor.clone());
        };
        let results =
            eval::graph::evaluate_observed(function, &weights, &inputs, settings, &mut keep)
                .map_err(|fault| Diagnostics::from(base::Diagnostic::from(fault)))?;
        let made_of = results.into_iter().map(Value::into_tensors).enumerate();
        let numbered = made_of.flat_map(|(number, it)| it.into_iter().map(move |it| (number, it)));
        let (result_of, results) = numbered.unzip();
        Ok(Values { of, results, result_of })
    }
}

/// Compares kernels with the evaluator.
pub(super) struct Verifier<'a> {
    pub(super) executable: &'a Executable,
    /// Where the machine code of a half's kernels is.
    pub(super) code: &'a dyn Fn(&Specialisation) -> Result<Arc<Code>>,
}

/// A function of a half with the evaluator's values, or why it has none.
type Evaluated<'a> = (&'a Function, std::result::Result<Values, String>);

impl Verifier<'_> {
    /// A verdict for each kernel of `setup`, then of `main`.
    pub(super) fn kernels(
        &self,
        inputs: &[Value],
        progress: &mut dyn FnMut(usize, usize, &str),
    ) -> Result<VerifyReport> {
        let (variant, runs) = self.executable.met(inputs)?;
        let setup = &variant.setup;
        let kernels = |run: &SegmentRun| run.specialisation.lowered.kernels.len();
        let total = setup.lowered.kernels.len() + runs.iter().map(kernels).sum::<usize>();
        let mut report = VerifyReport::default();
        let constants = self.half(setup, &[], &mut report, &mut |done, name| {
            progress(done, total, name);
        })?;
        for run in &runs {
            let all = operands(run, &constants);
            self.half(&run.specialisation, &all, &mut report, &mut |done, name| {
                progress(done, total, name);
            })?;
        }
        progress(total, total, "the whole model in f64");
        Ok(report)
    }

    /// Adds the verdicts of one half; its results, as the evaluator computes them.
    fn half(
        &self,
        half: &Specialisation,
        inputs: &[Tensor],
        report: &mut VerifyReport,
        progress: &mut dyn FnMut(usize, &str),
    ) -> Result<Vec<Tensor>> {
        let settings = settings(self.executable, EvaluationPrecision::Declared);
        let function = &*half.lowered.function;
        let values = Values::compute(function, &half.module, inputs, settings)?;
        let mut evaluated: Vec<Evaluated<'_>> = Vec::new();
        for region in &half.lowered.regions {
            let around = match region.parent {
                Some(parent) => (evaluated[parent].0, evaluated[parent].1.as_ref()),
                None => (function, Ok(&values)),
            };
            let inner = match around {
                (_, Err(reason)) => Err(reason.clone()),
                (parent, Ok(values)) => first_turn(region, parent, values).and_then(|inputs| {
                    Values::compute(&region.function, &half.module, &inputs, settings)
                        .map_err(|found| format!("the evaluator has no values: {found}"))
                }),
            };
            evaluated.push((&region.function, inner));
        }
        let code = (self.code)(half)?;
        let mut named = BTreeSet::new();
        for info in &half.lowered.kernels {
            progress(report.kernels.len() + report.not_compared.len(), &info.name);
            named.insert(info.kernel);
            let source = &info.source;
            let (function, values) = match source.region {
                Some(region) => (evaluated[region].0, evaluated[region].1.as_ref()),
                None => (function, Ok(&values)),
            };
            let (kernel, nodes) = (info.name.clone(), info.nodes.clone());
            let failure = match values {
                Err(reason) => {
                    let failure = Some(reason.clone());
                    report.not_compared.push(KernelVerdict { kernel, nodes, failure });
                    continue;
                }
                Ok(values) => match difference(half, function, &code, info, values) {
                    Ok(None) => None,
                    found => {
                        let found = found.unwrap_or_else(|fault| Some(fault.to_string()));
                        let blame = self.blame(half, function, source, values)?;
                        found.map(|found| format!("{found}; {blame}"))
                    }
                },
            };
            report.kernels.push(KernelVerdict { kernel, nodes, failure });
        }
        report.not_compared.extend(without_nodes(half, &named));
        Ok(values.results)
    }

    /// Which node of a kernel that differs is to blame.
    fn blame(
        &self,
        half: &Specialisation,
        function: &Function,
        source: &KernelSource,
        values: &Values,
    ) -> Result<String> {
        for &node in &source.nodes {
            if self.differs_alone(half, function, node, values)? {
                let data = &function.nodes[node];
                let place = function.locations.describe(data.location);
                return Ok(format!("node {} of {place} differs alone, too", data.op.name()));
            }
        }
        Ok("each of its nodes is right alone: their fusion or its schedule is wrong".to_owned())
    }

    fn differs_alone(
        &self,
        half: &Specialisation,
        function: &Function,
        node: NodeId,
        values: &Values,
    ) -> Result<bool> {
        let isolated = Arc::new(function.isolate(node));
        let alone = Specialisation::new(Request {
            module: &half.module,
            function: &isolated,
            symbols: &BTreeMap::new(),
            role: Role::Main { inputs: isolated.parameters().len(), constants: Vec::new() },
            target: self.executable.target(),
            options: self.executable.options(),
            given: None,
            store: None,
        })?;
        let mut operands = function.nodes[node].operands.clone();
        operands.sort();
        operands.dedup();
        let inputs: Vec<Tensor> = operands.iter().map(|value| values.of[value].clone()).collect();
        let settings = settings(self.executable, EvaluationPrecision::Declared);
        let function = &alone.lowered.function;
        let values = Values::compute(function, &alone.module, &inputs, settings)?;
        let code = (self.code)(&alone)?;
        let own = alone.lowered.kernels.iter().filter(|info| info.source.region.is_none());
        for info in own {
            if !matches!(difference(&alone, function, &code, info, &values), Ok(None)) {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// What a segment is given: its operands, then what it reads of the results of `setup`.
pub(super) fn operands(run: &SegmentRun, constants: &[Tensor]) -> Vec<Tensor> {
    let constants = run.constants.iter().map(|&number| constants[number].clone());
    run.operands.iter().cloned().chain(constants).collect()
}

/// What the function of a region is given in its first turn, or why it has none.
fn first_turn(
    region: &RegionFunction,
    parent: &Function,
    values: &Values,
) -> std::result::Result<Vec<Tensor>, String> {
    let node = &parent.nodes[region.node];
    let parameters = parent.regions[region.region].parameters.iter().enumerate();
    let of = |value: &ValueId| values.of.get(value).cloned();
    let parameters = parameters.map(|(number, parameter)| match node.op {
        // A loop that does not turn would begin with its operands.
        Op::While { .. } => of(parameter).or_else(|| of(&node.operands[number])),
        _ => of(parameter),
    });
    let all: Option<Vec<Tensor>> = parameters.chain(region.captured.iter().map(of)).collect();
    all.ok_or_else(|| "it is not reached with these inputs".to_owned())
}

/// The kernels of a program that compute no node of a function.
fn without_nodes(half: &Specialisation, named: &BTreeSet<KernelId>) -> Vec<KernelVerdict> {
    let others = half.kernels().into_iter().filter(|kernel| !named.contains(kernel));
    let verdict = |id: KernelId| KernelVerdict {
        kernel: half.module.kernels[id].name.clone(),
        nodes: Vec::new(),
        failure: Some("it computes no node: it counts turns, or is called as it is".to_owned()),
    };
    others.map(verdict).collect()
}

/// Runs one kernel on the evaluator's values; says what differs first, if something does.
fn difference(
    half: &Specialisation,
    function: &Function,
    code: &Arc<Code>,
    info: &KernelInfo,
    values: &Values,
) -> Result<Option<String>> {
    let (kernel, source) = (&half.module.kernels[info.kernel], &info.source);
    let mut memory = Vec::new();
    for (value, &parameter) in source.arguments.iter().zip(&kernel.parameters) {
        let buffer = &kernel.buffers[parameter];
        let mut argument = ArgumentBuffer::new(buffer, &values.of[value]);
        if argument.writes {
            argument.put_operand(function, source, *value, values);
        }
        memory.push(argument);
    }
    let arguments: Vec<AloneArgument> = memory.iter().map(ArgumentBuffer::alone).collect();
    let extent = (info.extent, info.scratch_bytes as usize);
    let program = Program::of_kernel(info.kernel, &arguments, extent);
    let executable = link(&half.module.kernels, &program, code.clone())?;
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
        let comparison = tolerance(function, source).compare(&actual, expected);
        if !comparison.passed() {
            let name = function.values[*value].name.as_deref().unwrap_or("a value");
            return Ok(Some(format!("{name}: {comparison}")));
        }
    }
    Ok(None)
}

/// How far a kernel's results may be from the evaluator's, which forms sums in another order: by a
/// quarter of the bound on the error of a sum in f32, which grows with the number of its terms.
fn tolerance(function: &Function, source: &KernelSource) -> Tolerance {
    let terms = source.nodes.iter().map(|&node| match &function.nodes[node].op {
        Op::Contract { space, .. } | Op::Reduce { space, .. } => {
            let reduced = &space.extents[space.parallel..];
            reduced.iter().map(|extent| extent.as_constant().unwrap_or(1) as f64).product()
        }
        _ => 1.0,
    });
    let least = Tolerance::default();
    let of_sums = terms.fold(1.0, f64::max) * 0.5_f64.powi(26);
    Tolerance { relative: least.relative.max(of_sums), ..least }
}

/// The memory of one argument, as its buffer lays it out.
pub(super) struct ArgumentBuffer {
    bytes: Vec<u8>,
    /// For each element in row-major order, the byte where it is.
    places: Vec<usize>,
    reads: bool,
    writes: bool,
}

impl ArgumentBuffer {
    /// Holds a tensor's elements where the kernel reads them; all else is poison, so that elements
    /// left unwritten are found.
    pub(super) fn new(buffer: &Buffer, tensor: &Tensor) -> ArgumentBuffer {
        let width = buffer.dtype.bytes().unwrap_or(1);
        let places = buffer.byte_places();
        let bytes = places.iter().max().map_or(0, |last| last + width);
        let access = match buffer.scope {
            Scope::Parameter(access) => access,
            Scope::Scratch | Scope::Register => Access::Update,
        };
        let mut memory = ArgumentBuffer {
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
        let elements = operand.bytes().chunks_exact(width);
        for (bytes, offset) in elements.zip(offsets(operand.shape(), &strides)) {
            let place = self.places[begin + offset];
            self.bytes[place..][..width].copy_from_slice(bytes);
        }
    }

    fn alone(&self) -> AloneArgument {
        AloneArgument { bytes: self.bytes.len(), reads: self.reads, writes: self.writes }
    }

    /// The elements in such memory, as a tensor like another.
    pub(super) fn read(&self, bytes: &[u8], like: &Tensor) -> Tensor {
        let mut tensor = Tensor::zeros(like.dtype(), like.shape());
        let width = like.dtype().bytes().unwrap_or(1);
        for (target, &place) in tensor.bytes_mut().chunks_exact_mut(width).zip(&self.places) {
            target.copy_from_slice(&bytes[place..][..width]);
        }
        tensor
    }
}

#[cfg(test)]
mod tests {
    use loops::ScalarExpr;
    use module::Module;
    use tensor::{DType, ScalarFunction};

    use super::*;
    use tilewright::Options;
    use tilewright::compiled::compile_program;

    /// Verdicts on the digits classifier, these kernels spoiled before they are compared; `None`
    /// where this machine cannot run the code.
    fn verdicts(spoiled: fn(&KernelSource) -> bool) -> Option<Vec<KernelVerdict>> {
        if !std::arch::is_x86_feature_detected!("avx2") {
            eprintln!("skipped: this machine cannot run the JIT's code");
            return None;
        }
        let model = concat!(env!("CARGO_MANIFEST_DIR"), "/../../models/digits/digits.onnx");
        let options = Options { threads: Some(1), ..Options::default() };
        let executable = tilewright::compile(model, &options).expect("the model compiles");
        let code = |half: &Specialisation| {
            let mut module = half.module.clone();
            spoil(&mut module, half, spoiled);
            let target = executable.target();
            let linked = compile_program(&module, half.program, &[], target, &options)?;
            Ok(linked.code().clone())
        };
        let verifier = Verifier { executable: &executable, code: &code };
        let images = [tensor::random::random(DType::F32, &[2, 1, 8, 8], 1)];
        Some(
            verifier
                .kernels(&images.map(Value::from), &mut |_, _, _| ())
                .expect("the evaluator runs")
                .kernels,
        )
    }

    /// Turns maxima of two values into minima, in the kernels of such sources.
    fn spoil(module: &mut Module, half: &Specialisation, meant: fn(&KernelSource) -> bool) {
        for info in &half.lowered.kernels {
            if meant(&info.source) {
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
