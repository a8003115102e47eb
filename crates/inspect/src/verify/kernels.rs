//! Every kernel, fed what the evaluator computed for its operands, against the evaluator.
//!
//! So errors do not add up and a wrong kernel is named. The nodes of a kernel that differs are then
//! compiled one by one, which names the node, or, if each is right alone, their fusion. Kernels of
//! loops and branches are fed the values of the first turn, and what the branch captures.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use base::{ConstantId, Diagnostics, IntoTree, KernelId, Result};
use eval::graph::rounding_bounds;
use eval::{EvaluationPrecision, Settings};
use graph::{Function, Node, NodeId, Op, Type, ValueId};
use loops::{Access, Buffer, Scope};
use module::Module;
use runtime::Code;
use sym::Expr;
use tensor::{DType, Given, Tensor, Tolerance, Value, dense_strides, offsets};
use tilewright::Executable;
use tilewright::compiled::{
    KernelInfo, KernelSource, RegionFunction, Request, Role, SegmentRun, Specialisation, alone,
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
        let weights = |id: ConstantId| module.constants[id].tensor.clone();
        Values::with_weights(function, &weights, inputs, settings)
    }

    /// Evaluates a function that reads these constants.
    pub(super) fn with_weights<G: Given>(
        function: &Function,
        weights: &dyn Fn(ConstantId) -> Tensor,
        inputs: &[G],
        settings: Settings,
    ) -> Result<Values> {
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
            eval::graph::evaluate_observed(function, weights, &inputs, settings, &mut keep)
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

/// A function of a half, with the evaluator's values for it.
pub(super) struct EvaluatedFunction<'a> {
    pub(super) half: &'a Specialisation,
    pub(super) function: &'a Function,
    pub(super) values: Values,
}

impl Verifier<'_> {
    /// A verdict for each kernel of `setup`, then of `main`.
    pub(super) fn kernels(
        &self,
        inputs: &[Value],
        progress: &mut dyn FnMut(usize, usize, &str),
    ) -> Result<VerifyReport> {
        let (variant, runs) = self.executable.met(inputs)?;
        let setup = variant.setup();
        let kernels = |run: &SegmentRun| run.specialisation.lowered().kernels.len();
        let total = setup.lowered().kernels.len() + runs.iter().map(kernels).sum::<usize>();
        let mut report = VerifyReport::default();
        let mut progress = |done: usize, name: &str| progress(done, total, name);
        let constants = self.half(setup, &[], &mut report, &mut progress)?;
        for run in &runs {
            let all = operands(run, &constants);
            self.half(&run.specialisation, &all, &mut report, &mut progress)?;
        }
        progress(total, "the whole model in f64");
        Ok(report)
    }

    /// What is wrong with a kernel and which node is to blame, if something is.
    pub(super) fn failure(
        &self,
        level: &EvaluatedFunction<'_>,
        code: &Arc<Code>,
        info: &KernelInfo,
    ) -> Result<Option<String>> {
        let found = level.difference(code, info);
        let found = found.unwrap_or_else(|fault| Some(fault.to_string()));
        let blame = found.as_ref().map(|_| self.blame(level, info)).transpose()?;
        Ok(found.zip(blame).map(|(found, blame)| format!("{found}; {blame}")))
    }

    /// Adds the verdicts of one half; its results, as the evaluator computes them.
    pub(super) fn half(
        &self,
        half: &Specialisation,
        inputs: &[Tensor],
        report: &mut VerifyReport,
        progress: &mut dyn FnMut(usize, &str),
    ) -> Result<Vec<Tensor>> {
        // The half's function, then its regions; in place of one, why it has no values.
        let mut levels = vec![Ok(self.evaluated(half, &half.lowered().function, inputs)?)];
        let level_of = |region: Option<usize>| region.map_or(0, |region| region + 1);
        for region in &half.lowered().regions {
            let parent: &std::result::Result<EvaluatedFunction<'_>, String> =
                &levels[level_of(region.parent)];
            let inputs = match parent {
                Ok(parent) => first_turn(region, parent),
                Err(reason) => Err(reason.clone()),
            };
            levels.push(inputs.and_then(|inputs| {
                let found = self.evaluated(half, &region.function, &inputs);
                found.map_err(|found| format!("the evaluator has no values: {found}"))
            }));
        }
        let code = (self.code)(half)?;
        let mut named = BTreeSet::new();
        for info in &half.lowered().kernels {
            progress(report.kernels.len() + report.not_compared.len(), &info.name);
            named.insert(info.kernel);
            let (list, failure) = match &levels[level_of(info.source.region)] {
                Err(reason) => (&mut report.not_compared, Some(reason.clone())),
                Ok(level) => (&mut report.kernels, self.failure(level, &code, info)?),
            };
            list.push(KernelVerdict {
                kernel: info.name.clone(),
                nodes: info.nodes.clone(),
                failure,
            });
        }
        report.not_compared.extend(without_nodes(half, &named));
        levels.swap_remove(0).map(|level| level.values.results).map_err(Diagnostics::internal)
    }

    fn evaluated<'a>(
        &self,
        half: &'a Specialisation,
        function: &'a Function,
        inputs: &[Tensor],
    ) -> Result<EvaluatedFunction<'a>> {
        let settings = settings(self.executable, EvaluationPrecision::Declared);
        let values = Values::compute(function, half.module(), inputs, settings)?;
        Ok(EvaluatedFunction { half, function, values })
    }

    /// Which node of a kernel that differs is to blame.
    fn blame(&self, level: &EvaluatedFunction<'_>, info: &KernelInfo) -> Result<String> {
        for &node in &info.source.nodes {
            if self.differs_alone(level, node)? {
                let data = &level.function.nodes[node];
                let place = level.function.locations.describe(data.location);
                return Ok(format!("node {} of {place} differs alone, too", data.op.name()));
            }
        }
        Ok("each of its nodes is right alone: their fusion or its schedule is wrong".to_owned())
    }

    fn differs_alone(&self, level: &EvaluatedFunction<'_>, node: NodeId) -> Result<bool> {
        let isolated = Arc::new(level.function.isolate(node));
        let role = Role::Main { inputs: isolated.parameters().len(), constants: Vec::new() };
        let no_symbols = BTreeMap::new();
        let alone = Specialisation::new(Request::new(
            (level.half.module(), &isolated),
            &no_symbols,
            role,
            (self.executable.target(), self.executable.options()),
        ))?;
        let operands: BTreeSet<&ValueId> = level.function.nodes[node].operands.iter().into_set();
        let inputs: Vec<Tensor> =
            operands.into_iter().map(|value| level.values.of[value].clone()).collect();
        let level = self.evaluated(&alone, &alone.lowered().function, &inputs)?;
        let code = (self.code)(&alone)?;
        let mut own = alone.lowered().kernels.iter().filter(|info| info.source.region.is_none());
        Ok(own.any(|info| !matches!(level.difference(&code, info), Ok(None))))
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
    parent: &EvaluatedFunction<'_>,
) -> std::result::Result<Vec<Tensor>, String> {
    let EvaluatedFunction { function, values, .. } = parent;
    let node = &function.nodes[region.node];
    let parameters = function.regions[region.region].parameters.iter().enumerate();
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
        kernel: half.module().kernels[id].name.clone(),
        nodes: Vec::new(),
        failure: Some("it computes no node: it counts turns, or is called as it is".to_owned()),
    };
    others.map(verdict).collect()
}

impl EvaluatedFunction<'_> {
    /// Runs one kernel on the evaluator's values; says what differs first, if something does.
    fn difference(&self, code: &Arc<Code>, info: &KernelInfo) -> Result<Option<String>> {
        let (kernels, source) = (&self.half.module().kernels, &info.source);
        let kernel = &kernels[info.kernel];
        let buffers = kernel.parameters.iter().map(|&parameter| &kernel.buffers[parameter]);
        let arguments: Vec<(ValueId, &Buffer)> =
            source.arguments.iter().copied().zip(buffers).collect();
        let memory = arguments.iter().map(|&(value, buffer)| self.memory(source, value, buffer));
        let mut memory: Vec<Vec<u8>> = memory.collect();
        let alone = alone(kernels, info.kernel, code.clone())?;
        let mut state = runtime::State::new(Arc::new(alone), 1)?;
        let mut call = state.call();
        for (number, memory) in memory.iter_mut().enumerate() {
            call.output(number, memory)?;
        }
        call.run()?;
        let mut bounds = None;
        let written = arguments.iter().zip(&memory).filter(|((_, buffer), _)| is_written(buffer));
        for ((value, buffer), memory) in written {
            let expected = &self.values.of[value];
            let actual = read(memory, &buffer.byte_places(), expected);
            let tolerance = self.tolerance(source, expected.dtype());
            let mut comparison = tolerance.compare(&actual, expected);
            if !comparison.passed() {
                // They cost as much as the kernel's values, and are seldom asked for.
                let bounds = bounds.get_or_insert_with(|| {
                    rounding_bounds(self.function, &source.nodes, &self.values.of)
                });
                if let Some(bounds) = bounds.get(value) {
                    comparison = tolerance.compare_or(&actual, expected, bounds);
                }
            }
            if !comparison.passed() {
                let name = self.function.values[*value].name.as_deref().unwrap_or("a value");
                return Ok(Some(format!("{name}: {comparison}")));
            }
        }
        Ok(None)
    }

    /// The memory of an argument before the kernel runs: the elements that it reads; all else is
    /// poison, so that elements left unwritten are found.
    fn memory(&self, source: &KernelSource, value: ValueId, buffer: &Buffer) -> Vec<u8> {
        let (places, whole) = (buffer.byte_places(), &self.values.of[&value]);
        let mut memory = vec![POISON; buffer.span_bytes().unwrap_or(0) as usize];
        let node = self.function.producer(value).map(|(node, _)| &self.function.nodes[node]);
        match (buffer.scope, node) {
            // What is changed where it lies holds what is there before.
            (
                Scope::Parameter(Access::Update),
                Some(Node { op: Op::Scatter { .. }, operands, .. }),
            ) => {
                put(&mut memory, &places, &self.values.of[&operands[0]]);
            }
            (Scope::Parameter(Access::Write), _) => {}
            _ => put(&mut memory, &places, whole),
        }
        // A `Pad` whose operand is no argument has it in its memory already.
        if let Some(Node { op: Op::Pad { low, .. }, operands, .. }) = node
            && is_written(buffer)
            && !source.arguments.contains(&operands[0])
        {
            let (operand, strides) = (&self.values.of[&operands[0]], dense_strides(whole.shape()));
            let low = low.iter().map(|low| low.as_constant().unwrap_or(0) as usize);
            let begin: usize = low.zip(&strides).map(|(low, stride)| low * stride).sum();
            let inside = offsets(operand.shape(), &strides);
            let inside: Vec<usize> = inside.map(|place| places[begin + place]).collect();
            put(&mut memory, &inside, operand);
        }
        memory
    }

    /// How far a kernel's results of a type may be from the evaluator's, which forms sums in
    /// another order: by a quarter of the bound on the error of a sum in f32, which grows with the
    /// number of its terms. Where terms cancel, [`rounding_bounds`] says how much farther; and what
    /// is no float is equal but for that.
    fn tolerance(&self, source: &KernelSource, dtype: DType) -> Tolerance {
        if !dtype.is_float() {
            return Tolerance::NONE;
        }
        let terms = source.nodes.iter().map(|&node| match &self.function.nodes[node].op {
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
}

fn is_written(buffer: &Buffer) -> bool {
    buffer.scope != Scope::Parameter(Access::Read)
}

/// Puts a tensor's elements where they are to begin.
fn put(memory: &mut [u8], places: &[usize], tensor: &Tensor) {
    let width = tensor.dtype().bytes().unwrap_or(1);
    for (element, &place) in tensor.bytes().chunks_exact(width).zip(places) {
        memory[place..][..width].copy_from_slice(element);
    }
}

/// The elements that begin at these places, as a tensor like another.
pub(super) fn read(memory: &[u8], places: &[usize], like: &Tensor) -> Tensor {
    let mut tensor = Tensor::zeros(like.dtype(), like.shape());
    let width = like.dtype().bytes().unwrap_or(1);
    for (element, &place) in tensor.bytes_mut().chunks_exact_mut(width).zip(places) {
        element.copy_from_slice(&memory[place..][..width]);
    }
    tensor
}

#[cfg(test)]
mod tests {
    use loops::ScalarExpr;
    use module::Module;
    use tensor::ScalarFunction;

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
            let mut module = half.module().clone();
            spoil(&mut module, half, spoiled, ScalarFunction::Max, ScalarFunction::Min);
            let target = executable.target();
            let linked = compile_program(&module, half.lowered().program, &[], target, &options)?;
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

    /// Turns a scalar function into another, in the kernels of such sources.
    fn spoil(
        module: &mut Module,
        half: &Specialisation,
        meant: fn(&KernelSource) -> bool,
        from: ScalarFunction,
        to: ScalarFunction,
    ) {
        for info in &half.lowered().kernels {
            if meant(&info.source) {
                let body = &mut module.kernels[info.kernel].body;
                loops::visit::walk_values_mut(body, &mut |value| {
                    if let ScalarExpr::Apply { function, .. } = value
                        && *function == from
                    {
                        *function = to;
                    }
                });
            }
        }
    }

    /// What is less than the mean, as its logarithm: the sums cancel, and one kernel does all.
    const BELOW_MEAN: &str = "function @f {
        parameter %x: f32[4, 1000] as \"x\"
        %n: f32[] = literal {0.001}
        %s: f32[4] = reduce sum [a: 4 | i: 1000] %x[a, i]
        %k: f32[4] = broadcast axes [] %n
        %m: f32[4] = map mul %s, %k
        %b: f32[4, 1000] = broadcast axes [0] %m
        %d: f32[4, 1000] = map sub %x, %b
        %z: f32[4, 1000] = map abs %d
        %l: f32[4, 1000] = map log %z
        return %l as \"l\" }";

    /// What is wrong with the kernels of [`BELOW_MEAN`], of numbers near 1000.
    fn cancelling(spoiled: Option<(ScalarFunction, ScalarFunction)>) -> Option<Vec<String>> {
        if !std::arch::is_x86_feature_detected!("avx2") {
            eprintln!("skipped: this machine cannot run the JIT's code");
            return None;
        }
        let options = Options { threads: Some(1), ..Options::default() };
        let function: Function = graph::parse(BELOW_MEAN).expect("a function");
        let mut functions = base::Arena::default();
        functions.push(Arc::new(function));
        let module = Module { functions, ..Module::default() };
        let executable = tilewright::compile_module(module, &options).expect("it compiles");
        let code = |half: &Specialisation| {
            let mut module = half.module().clone();
            if let Some((from, to)) = spoiled {
                spoil(&mut module, half, |_| true, from, to);
            }
            let target = executable.target();
            let linked = compile_program(&module, half.lowered().program, &[], target, &options)?;
            Ok(linked.code().clone())
        };
        let mut input = tensor::random::random(DType::F32, &[4, 1000], 1);
        let elements = input.as_mut_slice::<f32>().expect("floats");
        elements.iter_mut().for_each(|element| *element += 1000.0);
        let verifier = Verifier { executable: &executable, code: &code };
        let report = verifier.kernels(&[input.into()], &mut |_, _, _| ()).expect("values");
        Some(report.kernels.into_iter().filter_map(|kernel| kernel.failure).collect())
    }

    #[test]
    fn cancelled_sums_are_no_fault() {
        let Some(failures) = cancelling(None) else { return };
        assert!(failures.is_empty(), "{failures:?}");
    }

    #[test]
    fn a_wrong_kernel_is_found_where_sums_cancel() {
        use ScalarFunction::{Abs, Add, Max, Sub};
        for spoiled in [(Sub, Add), (Abs, ScalarFunction::Neg), (Add, Max)] {
            let Some(failures) = cancelling(Some(spoiled)) else { return };
            assert!(!failures.is_empty(), "{spoiled:?}");
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
