//! From an optimised graph function to scheduled kernels, a program and a memory plan.
//!
//! `docs/lowering.md` is the design. [`lower`] does it all for one function and one binding of its
//! symbols:
//!
//! - `specialise`: symbols become numbers;
//! - [`groups`]: which nodes share a kernel, where values live;
//! - `definitions`: what each primitive is to grouping, and its loops;
//! - [`naive`]: what each kernel computes;
//! - `kernels`: how, as crate `strategies` says; equal ones are shared;
//! - `emit` and `control`: the steps of the program, whose slots crate `memory-plan` places;
//! - `apart`: fusion that is taken back, where kernels turn out poor;
//! - [`budget`]: what a run of it may take.
//!
//! This crate does not know machine code.

mod apart;
pub mod budget;
mod combination;
mod control;
mod definitions;
mod emit;
mod extents;
pub mod groups;
mod iteration;
mod kernels;
mod movement;
pub mod naive;
mod scope;
mod specialise;
mod store;
mod updates;

use std::collections::BTreeMap;
use std::sync::Arc;

use backend::Target;
use base::timing::Phases;
use base::{Arena, Diagnostic, Diagnostics, FunctionId, Id, KernelId, ProgramId, Remark, codes};
use graph::{Function, NodeId, RegionId, ValueId};
use loops::{Kernel, bytes_touched, operations, scratch_layout};
use memory_plan::{Footprint, TurnOrder};
use module::Module;
use program::{Program, Step};

use schedule::{Schedule, Trace};
use strategies::{Cost, Naive, StrategyOptions, WholeRun};
use sym::{Expr, SymbolId};
use tensor::DType;

use apart::Apart;
use emit::Emitted;
use extents::Extents;

pub use scope::{ExtentScope, scope};
pub use specialise::{bind, extent_checks, specialise};
pub use store::{Hold, KernelStore, StoredKernel};

/// How to lower.
#[derive(Clone, Debug)]
pub struct LowerOptions {
    /// What the function is.
    pub role: Role,
    /// Whether nodes may share a kernel; else each has one of its own: for tests, and to find
    /// faults.
    pub fusion: bool,
    /// Whether all kernels of several nodes are tried apart, not only those that turn out poor: for
    /// tests.
    pub doubts_fusion: bool,
    /// What is asked of strategies.
    pub strategies: StrategyOptions,
    /// Where kernels are looked for before they are scheduled, and kept for other lowerings with
    /// the same options and for the same target.
    pub store: Option<Arc<KernelStore>>,
    /// Whether symbols without values stay free: then the program has those of the function, in
    /// its order, and its caller tells their values.
    pub free_extents: bool,
    /// Whether what is free must leave no order of a sum open, so that the code computes the bits
    /// of code for the extents at hand.
    pub one_order: bool,
    /// Threads that schedule kernels; what comes out does not depend on it.
    pub threads: usize,
    /// Results whose memory is that of a parameter, which a run may change there: the number of
    /// the result, and that of the parameter. See [`Lowered::updates`].
    pub donated: Vec<(usize, usize)>,
    /// Where it reports how long its phases took.
    pub phases: Phases,
}

impl LowerOptions {
    /// All optimisations, on one thread, sharing nothing with other lowerings.
    #[must_use]
    pub fn new(role: Role) -> LowerOptions {
        LowerOptions {
            role,
            fusion: true,
            doubts_fusion: false,
            store: None,
            strategies: StrategyOptions::default(),
            free_extents: false,
            one_order: false,
            threads: 1,
            donated: Vec::new(),
            phases: Phases::default(),
        }
    }
}

/// What a function is to the executable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Role {
    /// Fills the block of constants: result `k` lies at offset `Lowered::constants.offsets[k]`.
    Setup,
    /// Runs each time. Parameters behind the user's inputs are constants at these byte offsets.
    Main {
        /// How many of the parameters are the user's.
        inputs: usize,
        /// Where each of the other parameters lies in the block of constants.
        constants: Vec<u64>,
    },
}

/// A lowered function.
#[derive(Clone, Debug)]
pub struct Lowered {
    /// The program, in the module.
    pub program: ProgramId,
    /// The function as it was lowered: specialised, with the copies that its layout needs.
    pub function: Arc<Function>,
    /// One entry a run of a kernel, in the order of the program.
    pub kernels: Vec<KernelInfo>,
    /// The branches and bodies of loops, each behind the one around it.
    pub regions: Vec<RegionFunction>,
    /// What the caller passes.
    pub inputs: Vec<ProgramPort>,
    /// What the caller gets; of `setup`, what lies in the block of constants.
    pub outputs: Vec<ProgramPort>,
    /// Of `setup`: the layout of the block of constants.
    pub constants: ConstantBlock,
    /// Of [`LowerOptions::donated`], what the program does: it changes the parameter in the memory
    /// of the result, which must be that of the parameter, and does not read the parameter
    /// elsewhere.
    /// Other results are written as ever, to memory of their own.
    pub updates: Vec<(usize, usize)>,
    /// Bytes of the arena.
    pub arena_bytes: u64,
    /// The most bytes that slots of the arena hold at one step.
    pub largest_live_set: u64,
    /// Whether steps run in another order than the model's, which takes less memory at once.
    pub is_reordered: bool,
    /// Every decision worth explaining, with its place in the function.
    pub remarks: Vec<Remark>,
}

/// Cycles to begin a run of a kernel.
const RUN: f64 = 400.0;

impl Lowered {
    /// Nanoseconds that a run should take on one thread.
    #[must_use]
    pub fn predicted_ns(&self, target: &Target) -> f64 {
        let results: usize = self.outputs.iter().map(|port| port.bytes).sum();
        let written = self.arena_bytes + results as u64;
        let run = run_of(self.kernels.iter().map(|info| (info, 1)), written, target, 1);
        let begun = RUN / target.machine.cycles_per_ns;
        let of_kernel =
            |info: &KernelInfo| begun + info.cost_in(&run, target).nanoseconds(target, 1);
        self.kernels.iter().map(of_kernel).sum()
    }
}

/// What a run of kernels, each with how often it is run, should be like with so many workers, where
/// the arena and the results are of so many bytes together.
#[must_use]
pub fn run_of<'a>(
    kernels: impl Iterator<Item = (&'a KernelInfo, u64)>,
    written_bytes: u64,
    target: &Target,
    workers: usize,
) -> WholeRun {
    let mut run = WholeRun { bytes: written_bytes, nanoseconds: 0.0 };
    for (info, turns) in kernels {
        run.bytes += info.prior_bytes;
        run.nanoseconds += turns as f64 * info.cost.nanoseconds(target, workers);
    }
    run
}

/// What a kernel's run computes, for `explain`.
#[derive(Clone, Debug)]
pub struct KernelInfo {
    /// The kernel; equal ones are shared.
    pub kernel: KernelId,
    /// Its name.
    pub name: String,
    /// The nodes of the user's model that it computes.
    pub nodes: Vec<String>,
    /// The nodes that it computes, and its arguments, in the order of its parameters.
    pub source: KernelSource,
    /// Its parallel extent.
    pub extent: i64,
    /// Scratch memory that one worker needs, in bytes.
    pub scratch_bytes: i64,
    /// What was fused, and how.
    pub fused: Vec<String>,
    /// What was not, and why.
    pub not_fused: Vec<String>,
    /// Which strategy scheduled it, and why not another.
    pub scheduled: Arc<[String]>,
    /// Floating-point and integer operations.
    pub flops: u64,
    /// Bytes of parameters that it touches.
    pub bytes: u64,
    /// How many of them are of parameters, weights and literals, which were there before the run
    /// and which no kernel before this one has read.
    pub prior_bytes: u64,
    /// What it should take, its parameters being where the last kernel left them.
    pub cost: Cost,
    /// The kernel before scheduling.
    pub naive: Arc<Naive>,
    /// The steps that scheduled it.
    pub trace: Trace,
    /// What it shares with other lowerings, where there is a store of kernels.
    pub stored: Option<Arc<StoredKernel>>,
}

impl KernelInfo {
    /// What it should take in such a run.
    #[must_use]
    pub fn cost_in(&self, run: &WholeRun, target: &Target) -> Cost {
        self.cost.after(target, self.prior_bytes, run)
    }

    /// How many times as many operations as multiply-adds of f32 the target does in its time, by an
    /// instruction that takes what the kernel sums.
    #[must_use]
    pub fn at_once(&self, target: &Target) -> f64 {
        strategies::at_once(&self.naive.kernel, target)
    }

    /// The kernel as its definitions say it, then after each step of its schedule, with the step.
    ///
    /// # Errors
    /// A step that does not fit, which is a broken invariant: the same steps made the kernel.
    pub fn scheduling(&self) -> base::Result<Vec<(Option<String>, Kernel)>> {
        let mut schedule = Schedule::new(self.naive.kernel.clone());
        let mut stages = vec![(None, schedule.kernel().clone())];
        for step in self.trace.iter() {
            let applied = schedule.apply(step.clone());
            applied.map_err(|error| Diagnostics::internal(error.to_string()))?;
            stages.push((Some(step.to_string()), schedule.kernel().clone()));
        }
        Ok(stages)
    }

    /// The same of a kernel with free dimensions for these values of the function's symbols.
    #[must_use]
    pub fn with_values(
        &self,
        kernel: &Kernel,
        values: &BTreeMap<SymbolId, i64>,
        target: &Target,
    ) -> KernelInfo {
        let value = |position: u32| values.get(&Id::new(position as usize)).copied();
        let (kernel, naive) =
            (kernel.with_dimensions(&value), self.naive.kernel.with_dimensions(&value));
        let bytes = bytes_touched(&naive).values().map(|it| naive.weight(it)).sum::<i64>() as u64;
        KernelInfo {
            extent: kernel.weight(&kernel.parallel_extent()),
            scratch_bytes: kernel.weight(&scratch_layout(&kernel).bytes),
            flops: naive.weight(&operations(&naive)) as u64,
            bytes,
            prior_bytes: self.prior_bytes.min(bytes),
            cost: Cost::of(&kernel, target),
            ..self.clone()
        }
    }
}

/// What a kernel is in the function that was lowered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelSource {
    /// The function that has them: one of `Lowered::regions`, or `Lowered::function`.
    pub region: Option<usize>,
    /// The nodes that it computes.
    pub nodes: Vec<NodeId>,
    /// The value behind each parameter.
    pub arguments: Vec<ValueId>,
}

/// A region, as the function of its own that is lowered in its place: its parameters are the
/// region's, then what it captures.
#[derive(Clone, Debug)]
pub struct RegionFunction {
    /// The function.
    pub function: Arc<Function>,
    /// The region around it, a place in `Lowered::regions`; none in `Lowered::function`.
    pub parent: Option<usize>,
    /// The node of the parent that it belongs to.
    pub node: NodeId,
    /// The region of the parent that it stands for.
    pub region: RegionId,
    /// The values of the parent that it captures.
    pub captured: Vec<ValueId>,
}

/// An input or output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProgramPort {
    /// What the caller calls it.
    pub name: String,
    /// Element type.
    pub dtype: DType,
    /// Shape; an extent that is free counts as 0.
    pub shape: Vec<usize>,
    /// Size, 0 where it is free.
    pub bytes: usize,
}

/// Where the results of `setup` lie.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConstantBlock {
    /// One a result, multiples of 64.
    pub offsets: Vec<u64>,
    /// Size of the block.
    pub bytes: u64,
}

/// Lowers a function of the module for the values of its symbols. Kernels, the program and literals
/// of several values are added to the module.
///
/// # Errors
/// Diagnostics for dimensions without a value and for what cannot be compiled; internal errors for
/// broken invariants.
pub fn lower(
    module: &mut Module,
    function: FunctionId,
    symbols: &BTreeMap<SymbolId, i64>,
    target: &Target,
    options: &LowerOptions,
) -> base::Result<Lowered> {
    let phases = &options.phases;
    let specialised = phases.time("specialise", || {
        let specialised = match options.free_extents {
            true => bind(&module.functions[function], symbols)?,
            false => specialise(&module.functions[function], symbols)?,
        };
        legalised(specialised, options.one_order)
    })?;
    refuse_unsupported(&specialised)?;
    let ports = |values: &[ValueId], names: &[String]| -> Vec<ProgramPort> {
        values.iter().zip(names).map(|(&value, name)| port(&specialised, value, name)).collect()
    };
    let all_inputs = ports(specialised.parameters(), &specialised.parameter_names);
    let outputs = ports(specialised.results(), &specialised.result_names);
    let constants = match &options.role {
        Role::Setup => block(&outputs),
        Role::Main { .. } => ConstantBlock::default(),
    };
    let emit = |module: &mut Module, apart: &Apart, options: &LowerOptions| {
        Emitted::of(&specialised, module, target, options, (apart, &constants))
    };
    let emitted = apart::emit(module, &specialised, target, options, &emit)?;
    let Emitted { mut program, mut kernels, regions, updates, remarks } = emitted;
    let turns = turn_order(target);
    let (footprint, is_reordered) =
        phases.time("memory plan", || placed(&mut program, &mut kernels, &module.kernels, turns));
    if cfg!(debug_assertions) && !base::fault::is_unchecked() {
        memory_plan::check(&program, &module.kernels, turns)?;
    }
    let inputs = match &options.role {
        Role::Setup => all_inputs,
        Role::Main { inputs, .. } => all_inputs[..*inputs].to_vec(),
    };
    let program = module.programs.push(program);
    Ok(Lowered {
        program,
        function: specialised,
        kernels,
        regions,
        inputs,
        outputs,
        constants,
        updates,
        arena_bytes: footprint.arena as u64,
        largest_live_set: footprint.largest_live_set as u64,
        is_reordered,
        remarks,
    })
}

/// A function with the copies that its layout needs.
///
/// # Errors
/// An internal error if a copy is ill-typed, or if extents leave an order open that must be known.
fn legalised(function: Arc<Function>, one_order: bool) -> base::Result<Arc<Function>> {
    let asked = Extents::of(&function);
    let legal = groups::legalise(function.clone(), &asked).map_err(Diagnostics::internal)?;
    let asked = asked.within(&legal);
    if one_order {
        naive::partials::all(&legal, &asked);
        if asked.is_open() {
            return Err(Diagnostics::internal("extents leave open in which order sums are taken"));
        }
    }
    Ok(legal)
}

/// Makes the memory plan; where memory is dear, of the better of two orders of the steps, and says
/// whether that is another than before. `infos` are of the runs, in their order.
fn placed(
    program: &mut Program,
    infos: &mut Vec<KernelInfo>,
    kernels: &Arena<KernelId, Kernel>,
    turns: TurnOrder,
) -> (Footprint, bool) {
    let order = match turns {
        TurnOrder::Sequential => memory_plan::frugal_order(program),
        TurnOrder::Free => None,
    };
    let Some(order) = order else { return (memory_plan::place(program, kernels, turns), false) };
    let mut other = program.clone();
    other.steps = order.iter().map(|&step| program.steps[step].clone()).collect();
    let runs: Vec<Option<usize>> = program
        .steps
        .iter()
        .scan(0, |runs, step| {
            let is_run = matches!(step, Step::Run(_));
            let number = is_run.then_some(*runs);
            *runs += usize::from(is_run);
            Some(number)
        })
        .collect();
    let given = memory_plan::place(program, kernels, turns);
    let found = memory_plan::place(&mut other, kernels, turns);
    if found.arena >= given.arena {
        return (given, false);
    }
    *program = other;
    *infos = order.iter().filter_map(|&step| Some(infos[runs[step]?].clone())).collect();
    (found, true)
}

/// How the turns of kernels run on a target: microcontrollers have one core, and memory is dear.
#[must_use]
pub fn turn_order(target: &Target) -> TurnOrder {
    if target.is_microcontroller() { TurnOrder::Sequential } else { TurnOrder::Free }
}

fn port(function: &Function, value: ValueId, name: &str) -> ProgramPort {
    let known = |expr: &Expr| expr.as_constant().map_or(0, |value| value.max(0) as usize);
    let shape = naive::index::extents(function, value);
    let dtype = function.ty(value).as_tensor().map_or(DType::U8, |ty| ty.dtype);
    ProgramPort {
        name: name.to_owned(),
        dtype,
        shape: shape.iter().map(known).collect(),
        bytes: known(&emit::byte_count(function, value)),
    }
}

/// Lays out the results of `setup`.
fn block(outputs: &[ProgramPort]) -> ConstantBlock {
    let mut block = ConstantBlock::default();
    for output in outputs {
        block.offsets.push(block.bytes);
        block.bytes += memory_plan::aligned(output.bytes as i64) as u64;
    }
    block
}

/// The least size of the block of constants that a function with these results fills, if it is
/// lowered as it is and no extent is free: known before it is lowered.
#[must_use]
pub fn constant_block_bytes(function: &Function) -> Option<usize> {
    let ports = function.results().iter().map(|&result| port(function, result, ""));
    let ports: Vec<ProgramPort> = ports.collect();
    let (offsets, last) = (block(&ports).offsets, ports.last()?.bytes);
    usize::try_from(*offsets.last()?).ok()?.checked_add(last)
}

/// Refuses what is no dense tensor, all of it at once.
fn refuse_unsupported(function: &Function) -> base::Result<()> {
    let mut found = Diagnostics::new();
    for node in function.nodes_in_order() {
        let data = &function.nodes[node];
        let dense = |&value: &ValueId| {
            function.ty(value).as_tensor().is_some_and(|ty| ty.dtype != DType::String)
        };
        if !data.results.iter().chain(&data.operands).all(dense) {
            let message = format!("`{}` of a value that is no numeric tensor", data.op.name());
            found.push(
                Diagnostic::error(codes::UNSUPPORTED_TYPE, message)
                    .at(function.locations.describe(data.location))
                    .because("only dense tensors of numbers and booleans are compiled")
                    .remedy("export the model without such values"),
            );
        }
    }
    found.or_ok(())
}
