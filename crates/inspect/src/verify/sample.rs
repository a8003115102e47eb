//! What is compared of a model that takes the evaluator too long.
//!
//! Of the kernels some are chosen, the same each time: of each kind the one that the evaluator is
//! done with first, then of each kind the next, as long as they fit. A kernel's kind is what its
//! nodes do. A chosen kernel is fed what a run of the executable has in its place, so that nothing
//! else need be evaluated. Outputs are judged against the same model compiled without passes over
//! graphs, whose kernels are others; what both have in common is the importer and the schedules.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use base::{InOrder, IntoTree, Result};
use eval::EvaluationPrecision;
use eval::graph::node_operations;
use graph::{Definition, Function, NodeId, Op, Region, ValueId};
use tensor::{Tensor, Value};
use tilewright::Executable;
use tilewright::compiled::{
    KernelInfo, SegmentRun, Source, Specialisation, Variant, compile_source,
};

use super::kernels::{EvaluatedFunction, Values, Verifier, settings};
use super::{KernelVerdict, VerifyReport, memory};

/// How often a model is evaluated where all is compared: for the kernels, then for the outputs as
/// declared and in f64.
const EVALUATIONS: u64 = 3;

/// The share of the operations that the kernels of `setup` may take, and the kernels chosen.
const SHARE: u64 = 2;

/// How many more operations than the evaluator may do a run without passes over graphs may take,
/// which is machine code.
const FASTER: u64 = 16;

/// What of a model was not compared for its size.
#[derive(Clone, Debug)]
pub struct Sample {
    /// Operations of the evaluator that all would take.
    pub operations: u64,
    /// The most that may be taken.
    pub most: u64,
    /// How many kernels there are that the evaluator could be fed.
    pub kernels: usize,
    /// How many were chosen.
    pub chosen: usize,
    /// Whether the outputs were compared with those of a compile without passes over graphs.
    pub are_outputs_compared: bool,
}

impl fmt::Display for Sample {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Sample { operations, most, kernels, chosen, are_outputs_compared } = self;
        writeln!(
            f,
            "a sample: to compare all takes {operations:.1e} operations of the evaluator, more \
             than {most:.1e}",
            operations = *operations as f64,
            most = *most as f64,
        )?;
        writeln!(
            f,
            "compared: {chosen} of {kernels} kernels, of each kind the smallest first, on the \
             values of a run; not compared: the other {}",
            kernels - chosen,
        )?;
        match are_outputs_compared {
            true => writeln!(
                f,
                "compared: the outputs, with the model compiled without passes over graphs; not \
                 compared: the outputs with the model in f64"
            ),
            false => writeln!(f, "not compared: the outputs"),
        }
    }
}

/// Operations of the evaluator that it takes to compare everything.
///
/// # Errors
/// Inputs that do not fit.
pub(super) fn operations(executable: &Executable, inputs: &[Value]) -> Result<u64> {
    let (variant, runs) = executable.met(inputs)?;
    let of_half = |half: &Specialisation| of_function(&half.lowered().function);
    let main = runs.iter().map(|run| of_half(&run.specialisation)).fold(0, u64::saturating_add);
    Ok(main.saturating_add(of_half(variant.setup())).saturating_mul(EVALUATIONS))
}

fn of_function(function: &Function) -> u64 {
    let nodes = function.nodes.ids().map(|node| node_operations(function, node));
    nodes.fold(0, u64::saturating_add)
}

/// The model of a source, compiled without passes over graphs, on these inputs: the tensors of its
/// outputs.
///
/// # Errors
/// Those of a compile and of a run.
pub(super) fn plain_outputs(
    executable: &Executable,
    source: &Source,
    inputs: &[Value],
) -> Result<Vec<Tensor>> {
    let mut options = executable.options().clone();
    let ports = executable.inputs().iter().zip(inputs);
    options.bind_shapes(&ports.map(|(port, it)| (port.name.clone(), it.clone())).collect());
    options.disabled.extend(tilewright::graph_passes().into_iter().map(str::to_owned));
    let outputs = compile_source(source.clone(), &options)?.run_values(inputs)?;
    Ok(Value::tensors_of(&Value::components_of(&outputs)))
}

/// Where a run has a value: the number of a kernel, and of its argument.
type Place = (usize, usize);

/// A kernel, and what the evaluator is asked for to compare it.
struct Candidate<'a> {
    number: usize,
    info: &'a KernelInfo,
    /// Its nodes as a function, and where the values of its parameters are.
    part: Function,
    reads: Vec<Place>,
    operations: u64,
}

impl Verifier<'_> {
    /// A verdict for each kernel of a sample that takes the evaluator so many operations at most.
    pub(super) fn sample(
        &self,
        inputs: &[Value],
        operations: u64,
        most: u64,
        progress: &mut dyn FnMut(usize, usize, &str),
    ) -> Result<VerifyReport> {
        let (variant, runs) = self.executable.met(inputs)?;
        let mut report = VerifyReport::default();
        let setup = variant.setup();
        if of_function(&setup.lowered().function) <= most / SHARE {
            let done = setup.lowered().kernels.len();
            let mut of_setup = |at: usize, name: &str| progress(at, done, name);
            self.half(setup, &[], &mut report, &mut of_setup)?;
        } else {
            let infos = setup.lowered().kernels.iter();
            report.not_compared.extend(infos.map(|info| left_out(info, "`setup` is too large")));
        }
        let (mut left, mut kernels) = (most / SHARE, report.kernels.len());
        let mut chosen = kernels;
        for run in &runs {
            let half = &*run.specialisation;
            let candidates: Vec<Candidate<'_>> = candidates(half, &mut report.not_compared);
            kernels += candidates.len();
            let picked = pick(&half.lowered().function, candidates, &mut left);
            chosen += picked.len();
            self.picked(&variant, run, picked, &mut report, progress)?;
        }
        let are_outputs_compared = operations / EVALUATIONS <= most.saturating_mul(FASTER);
        report.sample = Some(Sample { operations, most, kernels, chosen, are_outputs_compared });
        Ok(report)
    }

    /// Adds the verdicts of chosen kernels, on what a run has in the place of their operands.
    fn picked(
        &self,
        variant: &Variant,
        run: &SegmentRun,
        picked: Vec<Candidate<'_>>,
        report: &mut VerifyReport,
        progress: &mut dyn FnMut(usize, usize, &str),
    ) -> Result<()> {
        let half = &*run.specialisation;
        let needed: BTreeSet<Place> = picked.iter().flat_map(|it| it.reads.clone()).into_set();
        let is_meant = |kernel: usize, argument: usize| needed.contains(&(kernel, argument));
        let seen = memory::watch(self.executable, variant, run, &is_meant)?.into_iter();
        let read: BTreeMap<Place, Tensor> =
            seen.map(|(seen, value)| ((seen.kernel, seen.argument), value)).into_map();
        let code = (self.code)(half)?;
        let total = picked.len();
        for (done, candidate) in picked.into_iter().enumerate() {
            let Candidate { info, part, reads, .. } = candidate;
            progress(done, total, &info.name);
            let given = part.parameters().iter().zip(&reads).map(|(&value, place)| {
                // One without elements has no place in memory.
                read.get(place).cloned().unwrap_or_else(|| memory::like(&part, value))
            });
            let given: Vec<Tensor> = given.collect();
            let declared = settings(self.executable, EvaluationPrecision::Declared);
            let values = Values::compute(&part, half.module(), &given, declared)?;
            let level = EvaluatedFunction { half, function: &part, values };
            let failure = self.failure(&level, &code, info)?;
            let (kernel, nodes) = (info.name.clone(), info.nodes.clone());
            report.kernels.push(KernelVerdict { kernel, nodes, failure });
        }
        Ok(())
    }
}

fn left_out(info: &KernelInfo, why: &str) -> KernelVerdict {
    let (kernel, nodes) = (info.name.clone(), info.nodes.clone());
    KernelVerdict { kernel, nodes, failure: Some(why.to_owned()) }
}

/// The kernels that can be fed with memory; of the others why not.
fn candidates<'a>(
    half: &'a Specialisation,
    not_compared: &mut Vec<KernelVerdict>,
) -> Vec<Candidate<'a>> {
    let places = places(half);
    let kernels = half.lowered().kernels.iter().enumerate();
    let candidate = |(number, info): (usize, &'a KernelInfo)| {
        let candidate = match info.source.region {
            Some(_) => Err("of a sample, kernels of loops and branches are left out"),
            None => candidate(&half.lowered().function, number, info, &places)
                .ok_or("of a sample, it is left out: it reads what has no place in memory"),
        };
        candidate.map_err(|why| not_compared.push(left_out(info, why))).ok()
    };
    kernels.filter_map(candidate).collect()
}

/// Where a run has the values that kernels read and write.
fn places(half: &Specialisation) -> BTreeMap<ValueId, Place> {
    let kernels = half.lowered().kernels.iter().enumerate();
    let kernels = kernels.filter(|(_, info)| info.source.region.is_none());
    let arguments = kernels.flat_map(|(number, info)| {
        let arguments = info.source.arguments.iter().enumerate();
        arguments.map(move |(argument, &value)| (value, (number, argument)))
    });
    arguments.collect()
}

fn candidate<'a>(
    function: &Function,
    number: usize,
    info: &'a KernelInfo,
    places: &BTreeMap<ValueId, Place>,
) -> Option<Candidate<'a>> {
    let mut nodes: BTreeSet<NodeId> = info.source.nodes.iter().copied().into_set();
    let mut parameters = BTreeSet::new();
    let operands = |node: NodeId| function.nodes[node].operands.iter().copied();
    let mut work: Vec<ValueId> = nodes.iter().flat_map(|&node| operands(node)).collect();
    work.extend(&info.source.arguments);
    while let Some(value) = work.pop() {
        let producer = function.producer(value).map(|(node, _)| node);
        if producer.is_some_and(|node| nodes.contains(&node)) {
            continue;
        }
        if places.contains_key(&value) {
            parameters.insert(value);
            continue;
        }
        // A literal, or a view of what is in memory in another shape.
        let node = producer.filter(|&node| is_source_or_moves(&function.nodes[node].op))?;
        nodes.insert(node);
        work.extend(operands(node));
    }
    let operations = nodes.iter().map(|&node| node_operations(function, node));
    let operations = operations.fold(0, u64::saturating_add);
    let reads = parameters.iter().map(|value| places[value]).collect();
    let part = part(function, &nodes, parameters.into_iter().collect());
    Some(Candidate { number, info, part, reads, operations })
}

fn is_source_or_moves(op: &Op) -> bool {
    matches!(
        op,
        Op::Literal(_)
            | Op::Weight { .. }
            | Op::Iota { .. }
            | Op::Dimension(_)
            | Op::Broadcast { .. }
            | Op::Reshape { .. }
            | Op::Transpose { .. }
            | Op::Slice { .. }
            | Op::Pad { .. }
            | Op::Concat { .. }
            | Op::Bitcast { .. }
    )
}

/// Some nodes of a function as a function of these values, ids as they are.
fn part(function: &Function, nodes: &BTreeSet<NodeId>, parameters: Vec<ValueId>) -> Function {
    let mut part = function.clone();
    let body = part.body;
    for (number, &value) in parameters.iter().enumerate() {
        part.values[value].definition = Definition::Parameter(body, number as u32);
    }
    let in_order = function.regions[body].nodes.iter().copied();
    let nodes: Vec<NodeId> = in_order.filter(|node| nodes.contains(node)).collect();
    let results: Vec<ValueId> =
        nodes.iter().flat_map(|&node| function.nodes[node].results.iter().copied()).collect();
    let names = |count: usize| (0..count).map(|number| format!("v{number}")).collect();
    (part.parameter_names, part.result_names) = (names(parameters.len()), names(results.len()));
    part.regions[body] = Region { parameters, nodes, results };
    part.assumptions = Vec::new();
    part
}

/// The kernels of a sample: round after round the next of each kind, as long as it fits.
fn pick<'a>(
    function: &Function,
    candidates: Vec<Candidate<'a>>,
    left: &mut u64,
) -> Vec<Candidate<'a>> {
    let mut kinds: BTreeMap<BTreeSet<&str>, Vec<Candidate<'a>>> = BTreeMap::new();
    for candidate in candidates {
        let kind = candidate.info.source.nodes.iter().map(|&node| match &function.nodes[node].op {
            Op::Map { function, .. } => function.name(),
            op => op.name(),
        });
        kinds.entry(kind.collect()).or_default().push(candidate);
    }
    // The last of each is the smallest.
    for kind in kinds.values_mut() {
        kind.put_in_order_by_key(|it| std::cmp::Reverse((it.operations, it.number)));
    }
    let mut picked = Vec::new();
    while kinds.values().any(|kind| !kind.is_empty()) {
        for kind in kinds.values_mut() {
            match kind.pop() {
                Some(next) if next.operations <= *left => {
                    *left -= next.operations;
                    picked.push(next);
                }
                // Those behind it are larger.
                _ => kind.clear(),
            }
        }
    }
    picked.put_in_order_by_key(|it| it.number);
    picked
}
