//! The front half of a compile: file to `setup` and `main`, symbols free.

use std::sync::Arc;

use backend::Target;
use base::nearest::nearest;
use base::timing::Phases;
use base::{
    Diagnostic, Diagnostics, FunctionId, PassContext, PassHooks, Remark, Result, codes, run_passes,
};
use formats::{Draft, FORMATS, FormatOptions, PRECISION, Winograd};
use front::{Facts, Imported, Need, Port};
use graph::Function;
use lower::KernelStore;
use module::Module;
use strategies::StrategyOptions;
use tensor::DType;

use crate::options::{Options, Precision};
use crate::source::Source;
use crate::weigh::Weigher;

/// What passes and lowering have to choose from, where no part of them is left out.
pub(crate) struct Choices {
    /// Of format choice.
    pub(crate) formats: FormatOptions,
    /// Whether nodes may share a kernel.
    pub(crate) fusion: bool,
    /// Of schedules.
    pub(crate) strategies: StrategyOptions,
}

/// A part of a pass, or of lowering, that has a name of its own.
struct PartRow {
    name: &'static str,
    /// What it is a part of: the name of a pass, which leaves it out, too.
    pass: Option<&'static str>,
    leave_out: fn(&mut Choices),
}

/// Minimal filtering, kernels of several nodes, schedules beyond what a back end needs.
const PARTS: [PartRow; 3] = [
    PartRow {
        name: "winograd",
        pass: Some(FORMATS),
        leave_out: |choices| choices.formats.winograd = Winograd::Never,
    },
    PartRow { name: "fusion", pass: None, leave_out: |choices| choices.fusion = false },
    PartRow { name: "schedules", pass: None, leave_out: |choices| choices.strategies.plain = true },
];

impl Choices {
    /// Those that the caller's options leave.
    pub(crate) fn of(options: &Options) -> Choices {
        let winograd = Winograd::WherePredicted;
        let formats = FormatOptions { winograd, activations: options.activations };
        let strategies = StrategyOptions { plain: false };
        let mut choices = Choices { formats, fusion: true, strategies };
        for row in &PARTS {
            let is_left_out = |name| options.disabled.contains(name);
            if is_left_out(row.name) || row.pass.is_some_and(is_left_out) {
                (row.leave_out)(&mut choices);
            }
        }
        choices
    }
}

/// What may be left out of a compile, by name; single rules of graph passes may be, too.
#[must_use]
pub fn optimisations() -> Vec<&'static str> {
    graph_passes().into_iter().chain(PARTS.iter().map(|row| row.name)).collect()
}

/// The passes over graphs that may be left out, by name.
#[must_use]
pub fn graph_passes() -> Vec<&'static str> {
    // What is asked for is not left out.
    let rows = formats::passes().into_iter().chain(formats::last_passes());
    let own = rows.map(|row| row.name);
    let own = own.filter(|name| *name != PRECISION);
    graph_opt::passes().iter().map(|row| row.name).chain(own).collect()
}

/// The rules of graph passes, by name.
#[must_use]
pub fn rules() -> Vec<&'static str> {
    graph_opt::laws().map(|(rule, _law)| rule).collect()
}

/// A model after the graph passes.
#[derive(Clone, Debug)]
pub struct FrontHalf {
    /// Constants, and the functions below.
    pub module: Module,
    /// As imported; its parameters and results are the user's.
    pub imported: Arc<Function>,
    /// What depends on weights alone.
    pub setup: FunctionId,
    /// The rest.
    pub main: Arc<Function>,
    /// The same in plan form: it calls the functions between.
    pub plan: FunctionId,
    /// The model's inputs; none where something must be known besides.
    pub inputs: Vec<Port>,
    /// Its outputs; none where something must be known besides.
    pub outputs: Vec<Port>,
    /// What must be known of a run besides: then the results are values that needs name.
    pub needs: Vec<Need>,
    /// What format choice did, and why not more.
    pub remarks: Vec<Remark>,
}

/// Imports a model, with what is known of a run, and runs the graph passes: optimisation, format
/// choice, optimisation, the cut, the division into segments.
///
/// # Errors
/// Those of the importer; internal errors of passes.
pub fn front(
    source: &Source,
    options: &Options,
    target: &Target,
    facts: &Facts,
) -> Result<FrontHalf> {
    front_seen(source, options, target, (facts, &Arc::default()), &mut |_, _| {})
}

/// What is shown functions on their way, each after the pass of this name.
pub type SeeFunction<'a> = dyn FnMut(&'static str, &Function) + 'a;

/// As [`front()`]; the store has kernels of the model for the target; `see` is shown the function
/// after the import and after each pass.
///
/// # Errors
/// As [`front()`].
pub fn front_seen(
    source: &Source,
    options: &Options,
    target: &Target,
    (facts, store): (&Facts, &Arc<KernelStore>),
    see: &mut SeeFunction<'_>,
) -> Result<FrontHalf> {
    check_disabled(options)?;
    let imported = options.phases.time("import", || source.import(options, facts))?;
    see("import", imported.function());
    front_of(imported, options, target, store, see)
}

/// As [`front_seen`], of an imported model.
///
/// # Errors
/// Internal errors of passes.
pub(crate) fn front_of(
    imported: Imported,
    options: &Options,
    target: &Target,
    store: &Arc<KernelStore>,
    see: &mut SeeFunction<'_>,
) -> Result<FrontHalf> {
    let ((inputs, outputs), function) = (imported.ports(), imported.function().clone());
    let Imported { mut module, needs, .. } = imported;
    let imported = function;
    let precision = match options.precision {
        Precision::F32 => None,
        Precision::Bf16 => Some(DType::BF16),
    };
    let choices = Choices::of(options).formats;
    let of_formats = target.for_formats();
    let weigher = Weigher::new(&module, options, target, store);
    let weigh = |function| weigher.nanoseconds(function);
    let mut draft = Draft {
        function: imported.clone(),
        target: &of_formats,
        options: choices,
        precision,
        weigh: Some(&weigh),
    };
    let mut context = context(options);
    optimise_seen(&mut draft.function, options, see)?;
    run_passes(&formats::passes(), &mut draft, &mut context, &mut Hooks::of(options, see))?;
    if !context.is_disabled(FORMATS) {
        optimise_seen(&mut draft.function, options, see)?;
    }
    run_passes(&formats::last_passes(), &mut draft, &mut context, &mut Hooks::of(options, see))?;
    let (function, remarks) = (Arc::unwrap_or_clone(draft.function), context.remarks);
    module.functions = base::Arena::default();
    let (setup, main, plan) = options.phases.time("cut", || {
        let graph_opt::Cut { setup, main } = graph_opt::cut(function);
        let setup = module.functions.push(Arc::new(setup));
        let add = &mut |segment| module.functions.push(segment);
        let main = Arc::new(main);
        let plan = graph_opt::segments(&main, imported.parameters().len(), add);
        let plan = plan.map_err(|reason| Diagnostic::error(codes::INTERNAL_ERROR, reason))?;
        Ok::<_, Diagnostics>((setup, main, module.functions.push(Arc::new(plan))))
    })?;
    if options.verify_passes || cfg!(debug_assertions) {
        module::verify(&module)?;
    }
    Ok(FrontHalf { module, imported, setup, main, plan, inputs, outputs, needs, remarks })
}

/// Refuses names that no pass and no rule has.
fn check_disabled(options: &Options) -> Result<()> {
    let passes = optimisations();
    let known = [passes.clone(), rules()].concat();
    let is_unknown = |name: &&String| !known.contains(&name.as_str());
    let unknown = options.disabled.iter().filter(is_unknown).map(|name| {
        Diagnostic::error(codes::UNKNOWN_PASS, format!("no pass or rule is called `{name}`"))
            .at(format!("--disable {name}"))
            .because(format!("the passes are {}", passes.join(", ")))
            .remedy(match nearest(name, known.iter().copied()) {
                Some(near) => format!("use `--disable {near}`, or another of these names"),
                None => "use one of these names, or that of a rule of one of them".to_owned(),
            })
    });
    unknown.collect::<Diagnostics>().or_ok(())
}

/// Runs the table of graph passes.
///
/// # Errors
/// Internal errors of passes and, where passes are verified, of the verifier.
pub(crate) fn optimise(function: &mut Arc<Function>, options: &Options) -> Result<()> {
    optimise_seen(function, options, &mut |_, _| {})
}

/// As [`optimise`], of a function whose symbols have been bound: what follows from values alone,
/// and changes no bits.
///
/// # Errors
/// As [`optimise`].
pub(crate) fn optimise_bound(function: &mut Arc<Function>, options: &Options) -> Result<()> {
    let mut context = context(options);
    context.disabled.extend(graph_opt::DECIDING.iter().map(|&name| name.to_owned()));
    let see: &mut SeeFunction<'_> = &mut |_, _| {};
    run_passes(graph_opt::passes(), function, &mut context, &mut Hooks::of(options, see))
}

fn optimise_seen(
    function: &mut Arc<Function>,
    options: &Options,
    see: &mut SeeFunction<'_>,
) -> Result<()> {
    let hooks = &mut Hooks::of(options, see);
    run_passes(graph_opt::passes(), function, &mut context(options), hooks)
}

fn context(options: &Options) -> PassContext {
    PassContext { disabled: options.disabled.iter().cloned().collect(), ..PassContext::default() }
}

/// What the driver does around each graph pass.
struct Hooks<'a, 'see> {
    verify: bool,
    phases: &'a Phases,
    see: &'a mut SeeFunction<'see>,
}

impl<'a, 'see> Hooks<'a, 'see> {
    fn of(options: &'a Options, see: &'a mut SeeFunction<'see>) -> Hooks<'a, 'see> {
        let verify = options.verify_passes || cfg!(debug_assertions);
        Hooks { verify, phases: &options.phases, see }
    }
}

impl<Ir: AsRef<Function>> PassHooks<Ir> for Hooks<'_, '_> {
    fn around(&mut self, name: &'static str, pass: &mut dyn FnMut() -> Result<()>) -> Result<()> {
        self.phases.time(name, pass)
    }

    fn after(&mut self, name: &'static str, ir: &Ir) -> Result<()> {
        if self.verify {
            graph::verify(ir.as_ref())?;
        }
        (self.see)(name, ir.as_ref());
        Ok(())
    }
}
