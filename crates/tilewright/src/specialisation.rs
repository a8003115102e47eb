//! The back half of a compile: a graph function with known extents to code that can be run.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use backend::Target;
use base::{ConstantId, Diagnostic, Diagnostics, FunctionId, IntoTree, KernelId, Result};
use graph::{Function, TensorType};
use lower::budget::RunBytes;
use lower::{KernelInfo, KernelStore, LowerOptions, Lowered, Role, budget};
use memory_plan::TurnOrder;
use module::Module;
use program::{Program, Slot, SlotId};
use runtime::{Code, LoadedProgram, StatePool};
use sym::{Expr, Range, SymbolId};
use tensor::{DType, Tensor};

use crate::jit;
use crate::late::LateValue;
use crate::options::Options;
use crate::pipeline::{Choices, optimise, optimise_bound};
use crate::sharing::Sharing;

/// About how much memory a node or a kernel takes while its code is kept.
const BYTES_OF_A_NODE: usize = 2 << 10;

/// A program for other extents takes about as much memory as this part of its code.
const BYTES_OF_CODE_A_SHAPE: usize = 8;

/// A function for one binding of its symbols, as code.
#[derive(Debug)]
pub struct Specialisation {
    /// How it was made. That of an engine is made again where it is asked for.
    pub(crate) made: Arc<LateValue<LoweredFunction>>,
    /// The program.
    pub(crate) program: Arc<Program>,
    /// The weights that the program reads where they are.
    pub(crate) weights: BTreeMap<ConstantId, Tensor>,
    /// Types of the results.
    pub outputs: Vec<(DType, Vec<usize>)>,
    /// The program, ready to run.
    pub states: StatePool,
    /// Where the program has free symbols, what they are in it: its code is for other values, too.
    pub(crate) values: BTreeMap<SymbolId, i64>,
    /// The values of the function's symbols that it was made for.
    pub(crate) symbols: BTreeMap<SymbolId, i64>,
    /// Bytes of the weights and inputs of the model, as in [`Request::given`].
    pub(crate) given: Option<u64>,
    /// Why its code is for these extents alone, where code for many was asked for.
    pub(crate) why_alone: Option<String>,
    /// Which outputs may lie where inputs lie, once that was asked.
    pub(crate) sharing: OnceLock<Sharing>,
}

/// A slot of the arena in a run of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArenaSlot {
    /// Which.
    pub slot: SlotId,
    /// Bytes from the arena's start.
    pub offset: i64,
    /// Its size.
    pub bytes: i64,
    /// The first step that touches it, counted as `program::walk` counts, from 0.
    pub first: usize,
    /// The last.
    pub last: usize,
}

/// Values of symbols: those within these ranges.
pub(crate) type Ranges = BTreeMap<SymbolId, Range>;

/// Code of a function for all values of its symbols within ranges.
#[derive(Clone, Debug)]
pub(crate) struct ScopedFunction {
    pub(crate) made: Arc<LateValue<LoweredFunction>>,
    pub(crate) program: Arc<Program>,
    pub(crate) weights: BTreeMap<ConstantId, Tensor>,
    pub(crate) code: Arc<Code>,
    /// What symbols were expected to be.
    pub(crate) usual: BTreeMap<SymbolId, i64>,
    /// What must hold of the values besides: in each pair the first is at most the second.
    pub(crate) checks: Vec<(Expr, Expr)>,
    /// Operations of a run.
    pub(crate) operations: Expr,
    /// Types of the results.
    pub(crate) outputs: Vec<TensorType>,
}

/// For how many ranges of values code is kept.
const MOST_SCOPES: usize = 16;

/// What there is of a function for many values of its symbols, or why there is none for them.
#[derive(Debug, Default)]
pub(crate) struct Scopes(Vec<(Ranges, std::result::Result<Arc<ScopedFunction>, String>)>);

impl FromIterator<(Ranges, Arc<ScopedFunction>)> for Scopes {
    fn from_iter<I: IntoIterator<Item = (Ranges, Arc<ScopedFunction>)>>(made: I) -> Scopes {
        Scopes(made.into_iter().map(|(ranges, made)| (ranges, Ok(made))).collect())
    }
}

/// Everything that is known when a function is specialised.
pub struct Request<'a> {
    /// Constants of the model.
    pub module: &'a Module,
    /// The function, symbols free.
    pub function: &'a Arc<Function>,
    /// Values of its symbols.
    pub symbols: &'a BTreeMap<SymbolId, i64>,
    /// What the function is to the executable.
    pub role: Role,
    pub target: &'a Target,
    pub options: &'a Options,
    /// Which results lie in the memory of which parameters (`lower::LowerOptions::donated`).
    pub donated: Vec<(usize, usize)>,
    /// Bytes of the weights and inputs of the model; none where they are those of the function.
    pub given: Option<u64>,
    /// Kernels of the same model.
    pub store: Option<&'a Arc<KernelStore>>,
    /// Whether its own stay there for as long as it lives, as others may be made of the model.
    pub keeps_kernels: bool,
}

impl<'a> Request<'a> {
    /// A function of a module for these values of its symbols, all by itself.
    #[must_use]
    pub fn new(
        (module, function): (&'a Module, &'a Arc<Function>),
        symbols: &'a BTreeMap<SymbolId, i64>,
        role: Role,
        (target, options): (&'a Target, &'a Options),
    ) -> Request<'a> {
        Request {
            module,
            function,
            symbols,
            role,
            target,
            options,
            donated: Vec::new(),
            given: None,
            store: None,
            keeps_kernels: false,
        }
    }

    /// The constants of the module, and no functions yet.
    fn module_of_constants(&self) -> Module {
        Module { constants: self.module.constants.clone(), ..Module::default() }
    }

    /// Has elements of few bits be computed with as others.
    fn widen(&self, function: &mut Arc<Function>, module: &mut Module) -> Result<()> {
        if formats::has_narrow_elements(function) {
            let widen = || formats::widen(function, &mut module.constants);
            *function = Arc::new(self.options.phases.time("specialise", widen)?);
            optimise(function, self.options)?;
        }
        Ok(())
    }
}

/// A function in which the values of symbols are within ranges, and what is decided for all of them
/// is: it has been optimised, and has its constants.
struct Scoped {
    module: Module,
    function: Arc<Function>,
}

impl Scoped {
    /// For the values of symbols around those of a request, with the scope that they are in.
    ///
    /// # Errors
    /// Diagnostics of passes.
    fn around(request: &Request<'_>) -> Result<(lower::ExtentScope, Scoped)> {
        let scope = |function: &Arc<Function>| -> Result<lower::ExtentScope> {
            let mut found =
                lower::scope(function, request.symbols).map_err(Diagnostics::internal)?;
            for (&symbol, &value) in request.symbols {
                let name = &request.function.symbols[symbol].name;
                if request.options.specialised.contains(name) {
                    found.ranges.insert(symbol, Range::constant(value));
                }
            }
            Ok(found)
        };
        let mut found = scope(request.function)?;
        let mut scoped = Scoped::within(request, &found.ranges)?;
        // What is optimised may ask for more.
        let again = scope(&scoped.function)?;
        let ranges: Ranges = found
            .ranges
            .iter()
            .map(|(symbol, range)| (*symbol, range.intersect(again.ranges[symbol])))
            .into_map();
        found.checks.extend(again.checks);
        if ranges != found.ranges {
            found.ranges = ranges;
            scoped = Scoped::within(request, &found.ranges)?;
        }
        Ok((found, scoped))
    }

    /// For values of symbols within ranges.
    ///
    /// # Errors
    /// Diagnostics of passes.
    fn within(request: &Request<'_>, ranges: &Ranges) -> Result<Scoped> {
        let constant = |(&symbol, range): (&SymbolId, &Range)| Some((symbol, range.as_constant()?));
        let known: BTreeMap<SymbolId, i64> = ranges.iter().filter_map(constant).into_map();
        let mut function = Function::clone(request.function);
        let usual = usual(request.symbols, ranges);
        for (&symbol, &range) in ranges {
            let known = &mut function.symbols[symbol];
            (known.range, known.usual) = (range, usual.get(&symbol).copied());
        }
        let mut function = lower::bind(&Arc::new(function), &known)?;
        budget::check_elements(&function, &request.options.limits)?;
        let mut module = request.module_of_constants();
        request.widen(&mut function, &mut module)?;
        optimise(&mut function, request.options)?;
        Ok(Scoped { module, function })
    }
}

/// What extents code is for that a function leaves open.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Free {
    Nothing,
    /// All that there may be.
    #[cfg(feature = "c")]
    Anything,
    /// Those of a scope, for which it computes the bits of code for one of them.
    WithinScope,
}

/// A function for one binding of its symbols, before it becomes code.
#[derive(Clone, Debug)]
pub(crate) struct LoweredFunction {
    /// The function, its kernels and its program.
    pub(crate) module: Module,
    /// The function, with constant extents.
    pub(crate) function: FunctionId,
    /// Its program, and how each kernel was made.
    pub lowered: Lowered,
    /// Types of the results.
    pub outputs: Vec<(DType, Vec<usize>)>,
}

impl LoweredFunction {
    /// The program.
    pub(crate) fn program(&self) -> &Program {
        &self.module.programs[self.lowered.program]
    }

    /// Binds the symbols and lowers the function. What decides bits is decided as for all values of
    /// a scope, before the symbols are bound, so that code for all of them computes the same.
    ///
    /// # Errors
    /// Diagnostics of `lower`.
    pub(crate) fn new(request: Request<'_>) -> Result<LoweredFunction> {
        let Request { options, .. } = request;
        let specialise = || lower::specialise(request.function, request.symbols);
        let mut bound = options.phases.time("specialise", specialise)?;
        budget::check_elements(&bound, &options.limits)?;
        let outputs = constant_types(&bound);
        let mut module = request.module_of_constants();
        if request.symbols.is_empty() {
            request.widen(&mut bound, &mut module)?;
        } else {
            let (_, scoped) = Scoped::around(&request)?;
            module = scoped.module;
            let specialise = || lower::specialise(&scoped.function, request.symbols);
            bound = options.phases.time("specialise", specialise)?;
            optimise_bound(&mut bound, options)?;
        }
        LoweredFunction::of(request, (module, bound), outputs, Free::Nothing)
    }

    /// As [`Self::new`], symbols without values staying free.
    ///
    /// # Errors
    /// As [`Self::new`].
    #[cfg(feature = "c")]
    pub(crate) fn with_free_extents(request: Request<'_>) -> Result<LoweredFunction> {
        let mut function = lower::bind(request.function, request.symbols)?;
        budget::check_elements(&function, &request.options.limits)?;
        let outputs = constant_types(&function);
        let mut module = request.module_of_constants();
        request.widen(&mut function, &mut module)?;
        if !request.symbols.is_empty() {
            optimise(&mut function, request.options)?;
        }
        LoweredFunction::of(request, (module, function), outputs, Free::Anything)
    }

    /// Lowers the function for values of its symbols within ranges.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub(crate) fn within(request: Request<'_>, ranges: &Ranges) -> Result<LoweredFunction> {
        let scoped = Scoped::within(&request, ranges)?;
        LoweredFunction::of_scoped(request, scoped)
    }

    /// Lowers what is decided for a scope, for all values in it.
    fn of_scoped(request: Request<'_>, scoped: Scoped) -> Result<LoweredFunction> {
        let Scoped { module, function } = scoped;
        let types = constant_types(&function);
        LoweredFunction::of(request, (module, function), types, Free::WithinScope)
    }

    fn of(
        request: Request<'_>,
        (mut module, function): (Module, Arc<Function>),
        outputs: Vec<(DType, Vec<usize>)>,
        free: Free,
    ) -> Result<LoweredFunction> {
        let Request { options, target, .. } = request;
        let function = module.functions.push(function);
        let Choices { fusion, strategies, .. } = Choices::of(options);
        let lower_options = LowerOptions {
            fusion,
            strategies,
            store: request.store.cloned(),
            free_extents: free != Free::Nothing,
            one_order: free == Free::WithinScope,
            donated: request.donated,
            threads: options.thread_count(),
            phases: options.phases.clone(),
            ..LowerOptions::new(request.role)
        };
        let unbound = BTreeMap::new();
        let lowered = lower::lower(&mut module, function, &unbound, target, &lower_options)?;
        if (options.verify_passes || cfg!(debug_assertions)) && !base::fault::is_unchecked() {
            let turns = lower::turn_order(target);
            memory_plan::check(&module.programs[lowered.program], &module.kernels, turns)?;
        }
        let own = (&module, &*module.functions[function]);
        // What a run takes of memory that its caller gives is its caller's to limit.
        if free == Free::Nothing {
            let limits = (&options.limits, options.thread_count());
            budget::check_program(own, &lowered, request.given, limits)?;
        }
        Ok(LoweredFunction { module, function, lowered, outputs })
    }
}

impl Scopes {
    /// The code that there is, with the values that it is for.
    pub(crate) fn made(&self) -> impl Iterator<Item = (&Ranges, &Arc<ScopedFunction>)> {
        self.0.iter().filter_map(|(ranges, made)| Some((ranges, made.as_ref().ok()?)))
    }

    /// The code that is for the values of a request, made now if there is none.
    ///
    /// # Errors
    /// Why there is none: no other values share code with these, or what is known of all of them
    /// does not show that it is safe.
    pub(crate) fn find(
        &mut self,
        request: Request<'_>,
    ) -> std::result::Result<Arc<ScopedFunction>, String> {
        let values = request.symbols;
        let is_for = |(ranges, _): &&(Ranges, _)| {
            let within = |(symbol, value): (&SymbolId, &i64)| {
                ranges.get(symbol).is_some_and(|range| range.contains(*value))
            };
            values.len() == ranges.len() && values.iter().all(within)
        };
        // The first line says it; what follows is for who mends it.
        let first = |found: Diagnostics| {
            found.to_string().lines().next().map(str::to_owned).unwrap_or_default()
        };
        if let Some((_, known)) = self.0.iter().find(is_for) {
            return known.clone();
        }
        let (scope, scoped) = Scoped::around(&request).map_err(first)?;
        let lower::ExtentScope { ranges, checks } = scope;
        if ranges.values().all(|range| range.as_constant().is_some()) {
            return Err("sums over other extents are taken in another order".to_owned());
        }
        let made = ScopedFunction::new(request, scoped, &ranges, checks).map(Arc::new);
        let made = made.map_err(first);
        if self.0.len() == MOST_SCOPES {
            _ = self.0.remove(0);
        }
        self.0.push((ranges, made.clone()));
        made
    }
}

/// Of the values of symbols those to which code for their ranges is made: smaller extents than are
/// usual tell little of those to come.
fn usual(values: &BTreeMap<SymbolId, i64>, ranges: &Ranges) -> BTreeMap<SymbolId, i64> {
    let of = |(&symbol, range): (&SymbolId, &Range)| {
        let value = values.get(&symbol).copied();
        Some((symbol, value.filter(|&value| value > range.usual())?))
    };
    ranges.iter().filter_map(of).collect()
}

impl ScopedFunction {
    /// Lowers the function for values of its symbols within ranges, and compiles its kernels.
    ///
    /// # Errors
    /// As [`Specialisation::new`]; a kernel that may leave its memory, for all that is known.
    fn new(
        request: Request<'_>,
        scoped: Scoped,
        ranges: &Ranges,
        mut checks: Vec<(Expr, Expr)>,
    ) -> Result<ScopedFunction> {
        let (target, options) = (request.target, request.options);
        let usual = usual(request.symbols, ranges);
        let outputs = request.function.results().iter();
        let outputs =
            outputs.filter_map(|&it| request.function.ty(it).as_tensor().cloned()).collect();
        let made = LoweredFunction::of_scoped(request, scoped)?;
        let (module, lowered) = (&made.module, &made.lowered);
        for id in made.program().kernels() {
            loops::verify(&module.kernels[id])?;
        }
        let code =
            jit::compile_kernels(module, lowered.program, &lowered.kernels, target, options)?;
        checks.extend(lower::extent_checks(&lowered.function));
        checks.extend(budget::element_checks(&lowered.function, &options.limits));
        let operations = budget::free_operations(module, lowered);
        let weights = weights_of(&made.module, made.program());
        let program = Arc::new(made.program().clone());
        let made = Arc::new(LateValue::of(made));
        Ok(ScopedFunction { made, program, weights, code, usual, checks, operations, outputs })
    }
}

impl Specialisation {
    /// Lowers the function and compiles its kernels.
    ///
    /// # Errors
    /// Diagnostics of `lower` and of the back end.
    pub fn new(request: Request<'_>) -> Result<Specialisation> {
        let (target, options) = (request.target, request.options);
        let (symbols, given) = (request.symbols.clone(), request.given);
        let keeps_kernels = request.keeps_kernels;
        let mut made = LoweredFunction::new(request)?;
        let (module, lowered) = (&made.module, &made.lowered);
        let loaded =
            jit::compile_program(module, lowered.program, &lowered.kernels, target, options)?;
        if !keeps_kernels {
            made.lowered.kernels.iter_mut().for_each(|info| info.stored = None);
        }
        let weights = weights_of(&made.module, made.program());
        let (program, outputs) = (Arc::new(made.program().clone()), made.outputs.clone());
        let (states, values) = (StatePool::new(loaded), BTreeMap::new());
        let (made, why_alone) = (Arc::new(LateValue::of(made)), None);
        Ok(Specialisation {
            made,
            program,
            weights,
            outputs,
            states,
            values,
            symbols,
            given,
            why_alone,
            sharing: OnceLock::new(),
        })
    }

    /// What code for many values is for these; nothing where they do not fit the function, or a
    /// run would take too many elements or operations.
    ///
    /// # Errors
    /// What a run would take of memory, beyond the limits.
    pub(crate) fn of(
        scoped: &ScopedFunction,
        values: &BTreeMap<SymbolId, i64>,
        given: u64,
        options: &Options,
    ) -> Result<Option<Specialisation>> {
        let symbols = values.clone();
        let value = |symbol: SymbolId| values.get(&symbol).copied();
        let holds = |(least, most): &(Expr, Expr)| {
            let both = least.evaluate(&value).zip(most.evaluate(&value));
            both.is_some_and(|(least, most)| least <= most)
        };
        let shape = |ty: &TensorType| {
            let extent = |extent: &Expr| usize::try_from(extent.evaluate(&value)?).ok();
            Some((ty.dtype, ty.shape.iter().map(extent).collect::<Option<Vec<usize>>>()?))
        };
        let outputs: Option<Vec<(DType, Vec<usize>)>> = scoped.outputs.iter().map(shape).collect();
        // What is refused for these values is said where code is made for them alone.
        let most = budget::most_operations(given, &options.limits);
        let operations = scoped.operations.evaluate(&value);
        let is_little = operations.is_some_and(|count| count.max(0) as u64 <= most);
        let Some(outputs) = outputs.filter(|_| is_little && scoped.checks.iter().all(holds)) else {
            return Ok(None);
        };
        let (program, code) = (&scoped.program, scoped.code.clone());
        // The function may have symbols that none of its extents needs.
        let any = |(id, symbol): (SymbolId, &sym::Symbol)| {
            (id, values.get(&id).copied().unwrap_or(symbol.range.usual()))
        };
        let set = program.set_symbols();
        let free = program.symbols.iter().filter(|(id, _)| !set.contains(id));
        let values = free.map(any).collect();
        let checks =
            (options.verify_passes || cfg!(debug_assertions)) && !base::fault::is_unchecked();
        if let Some(made) = scoped.made.made().filter(|_| checks) {
            let program = program.with_values(&values);
            memory_plan::check(&program, &made.module.kernels, TurnOrder::Free)?;
        }
        let loaded = match scoped.made.made() {
            Some(made) => jit::load_program(&made.module, program, code, &values, options)?,
            None => jit::load_trusted(program, code, &values, options)?,
        };
        let total = |sizes: &[usize]| sizes.iter().map(|&bytes| bytes as u64).sum();
        let run = RunBytes {
            inputs: total(loaded.input_bytes()),
            arena: loaded.arena_bytes() as u64,
            scratch: (loaded.scratch_bytes() * options.thread_count()) as u64,
            outputs: total(loaded.output_bytes()),
        };
        run.check(&program.name, given, &options.limits)?;
        let (made, program) = (scoped.made.clone(), program.clone());
        let (weights, states) = (scoped.weights.clone(), StatePool::new(loaded));
        let (given, why_alone) = (Some(given), None);
        Ok(Some(Specialisation {
            made,
            program,
            weights,
            outputs,
            states,
            values,
            symbols,
            given,
            why_alone,
            sharing: OnceLock::new(),
        }))
    }

    /// The function, its kernels and its program; the constants of the model are shared.
    pub fn module(&self) -> &Module {
        &self.made.module
    }

    /// Which outputs may lie where inputs lie.
    pub(crate) fn sharing(&self) -> &Sharing {
        self.sharing.get_or_init(|| Sharing::of(self.module(), &self.program))
    }

    /// How each kernel was made, in the order of the program.
    pub fn lowered(&self) -> &Lowered {
        &self.made.lowered
    }

    /// The program.
    pub fn program(&self) -> &Program {
        &self.program
    }

    /// The program, ready to run.
    pub fn executable(&self) -> &Arc<LoadedProgram> {
        self.states.executable()
    }

    /// Tensors for its results.
    ///
    /// # Errors
    /// Lack of memory.
    pub fn new_outputs(&self) -> Result<Vec<Tensor>> {
        (0..self.outputs.len()).map(|number| self.new_output(number)).collect()
    }

    /// A tensor for the result of this number.
    ///
    /// # Errors
    /// As [`Self::new_outputs`].
    pub(crate) fn new_output(&self, number: usize) -> Result<Tensor> {
        let (dtype, shape) = &self.outputs[number];
        let bytes = || tensor::tensor::byte_size(*dtype, shape).unwrap_or(usize::MAX);
        Tensor::try_zeros(*dtype, shape).ok_or_else(|| runtime::out_of_memory(bytes()).into())
    }

    /// About how many bytes it keeps: its code, what it was made of, and memory for callers.
    pub(crate) fn bytes(&self) -> usize {
        let own = match self.is_scoped() {
            true => self.executable().code().bytes() / BYTES_OF_CODE_A_SHAPE,
            false => {
                let of = |made: &LoweredFunction| {
                    made.module.kernels.len() + made.lowered.function.nodes.len()
                };
                let made_of = self.made.made().map_or(0, of);
                self.executable().code().bytes() + made_of * BYTES_OF_A_NODE
            }
        };
        own + self.states.bytes()
    }

    /// Whether its code is for other values of symbols, too.
    pub fn is_scoped(&self) -> bool {
        !self.values.is_empty()
    }

    /// Why its code is for these extents alone, where code for many was asked for.
    pub fn why_alone(&self) -> Option<&str> {
        self.why_alone.as_deref()
    }

    /// How each kernel was made, and what it takes in this program, in the order of the program.
    pub fn infos(&self, target: &Target) -> Cow<'_, [KernelInfo]> {
        if !self.is_scoped() {
            return Cow::Borrowed(&self.lowered().kernels);
        }
        let kernels = &self.module().kernels;
        let info =
            |info: &KernelInfo| info.with_values(&kernels[info.kernel], &self.values, target);
        self.lowered().kernels.iter().map(info).collect()
    }

    /// The most bytes of intermediate results that there must be at one step.
    pub fn largest_live_set(&self) -> u64 {
        if !self.is_scoped() {
            return self.lowered().largest_live_set;
        }
        let mut program = self.program.with_values(&self.values);
        let kernels = &self.module().kernels;
        memory_plan::place(&mut program, kernels, TurnOrder::Free).largest_live_set as u64
    }

    /// Where values lie in the arena, and from which step to which, in the order of the program's
    /// slots; those that no step touches are left out.
    pub fn arena_slots(&self) -> Vec<ArenaSlot> {
        let own = self.program();
        let bound = self.is_scoped().then(|| own.with_values(&self.values));
        let program = bound.as_ref().unwrap_or(own);
        let lives = memory_plan::lifetimes(program);
        let slot = |(id, slot): (SlotId, &Slot)| {
            let program::Place::Arena(offset) = &slot.place else { return None };
            let life = lives.get(&id)?;
            Some(ArenaSlot {
                slot: id,
                offset: offset.as_constant()?,
                bytes: slot.bytes.as_constant()?,
                first: life.first - 1,
                last: life.last - 1,
            })
        };
        program.slots.iter().filter_map(slot).collect()
    }

    /// The bytes of the arena as a formula over the dimensions of the model, where its code is for
    /// other extents, too.
    pub fn arena_formula(&self) -> Option<String> {
        let program = self.program();
        self.is_scoped().then(|| program::print_expression(program, &program.arena_bytes))
    }

    /// What is said of a kernel, said of the nodes of the model that it computes.
    pub(crate) fn blame(&self, fault: Diagnostic) -> Diagnostic {
        let is_meant = |info: &&lower::KernelInfo| {
            fault.place.as_deref() == Some(&format!("kernel `{}`", info.name))
        };
        let infos = self.lowered().kernels.iter().filter(is_meant);
        let nodes: Vec<&str> = infos.flat_map(|info| &info.nodes).map(String::as_str).collect();
        match &fault.place {
            Some(place) if !nodes.is_empty() => {
                let place = format!("node {} ({place})", nodes.join(", "));
                fault.at(place)
            }
            _ => fault,
        }
    }

    /// The weights that the program reads where they are.
    pub(crate) fn weight(&self, id: ConstantId) -> &Tensor {
        &self.weights[&id]
    }

    /// The kernels that the program runs, each once, in order of first use.
    pub fn kernels(&self) -> Vec<KernelId> {
        self.program.kernels()
    }
}

/// The weights that a program reads where they are.
fn weights_of(module: &Module, program: &Program) -> BTreeMap<ConstantId, Tensor> {
    let weight = |slot: &Slot| match slot.place {
        program::Place::Weight(id) => Some((id, module.constants[id].tensor.clone())),
        _ => None,
    };
    program.slots.values().filter_map(weight).collect()
}

/// Element types and extents of a function's results; free ones count as 0.
fn constant_types(function: &Function) -> Vec<(DType, Vec<usize>)> {
    let extent = |expr: &sym::Expr| expr.as_constant().map_or(0, |extent| extent as usize);
    function
        .results()
        .iter()
        .filter_map(|&value| match function.ty(value) {
            graph::Type::Tensor(ty) => Some((ty.dtype, ty.shape.iter().map(extent).collect())),
            _ => None,
        })
        .collect()
}
