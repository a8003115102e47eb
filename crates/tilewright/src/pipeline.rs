//! The front half of a compile: file to `setup` and `main`, symbols free.

use std::sync::Arc;

use backend::Target;
use base::timing::Phases;
use base::{
    ConstantId, Diagnostic, Diagnostics, FunctionId, PassContext, PassHooks, Remark, Result, codes,
    run_passes,
};
use formats::{FormatOptions, Winograd};
use graph::Function;
use import_onnx::{Facts, Imported, Need};
use module::Module;
use tensor::{DType, Structure, Tensor};

use crate::options::{Options, Precision};
use crate::source::Source;

/// The name of format choice among those of passes.
const FORMATS: &str = "formats";

/// The name of products of integers among those of passes.
const INTEGERS: &str = "integers";

/// The name of minimal filtering, a part of format choice, among those of passes.
const WINOGRAD: &str = "winograd";

/// The name of kernels of several nodes among those of passes.
pub(crate) const FUSION: &str = "fusion";

/// The name of schedules beyond what a back end needs among those of passes.
pub(crate) const SCHEDULES: &str = "schedules";

/// What may be left out of a compile, by name; single rules of graph passes may be, too.
#[must_use]
pub fn optimisations() -> Vec<&'static str> {
    let own = [FORMATS, INTEGERS, WINOGRAD, FUSION, SCHEDULES];
    graph_opt::passes().iter().map(|row| row.name).chain(own).collect()
}

/// A model after the graph passes.
#[derive(Debug)]
pub(crate) struct Front {
    /// Constants, and the functions below.
    pub(crate) module: Module,
    /// As imported; its parameters and results are the user's.
    pub(crate) imported: Arc<Function>,
    /// What depends on weights alone.
    pub(crate) setup: FunctionId,
    /// The rest.
    pub(crate) main: Arc<Function>,
    /// The same in plan form: it calls the functions between.
    pub(crate) plan: FunctionId,
    /// How the model's inputs are made of the parameters.
    pub(crate) inputs: Vec<Structure>,
    /// How the model's outputs are made of the results and the strings.
    pub(crate) outputs: Vec<Structure>,
    /// Strings among what the outputs are made of.
    pub(crate) strings: import_onnx::Strings,
    /// What must be known of a run besides: then the results are values that needs name.
    pub(crate) needs: Vec<Need>,
    /// What format choice did, and why not more.
    pub(crate) remarks: Vec<Remark>,
}

/// Imports a model, with what is known of a run, and runs the graph passes: optimisation, format
/// choice, optimisation, the cut, the division into segments.
///
/// # Errors
/// Those of the importer; internal errors of passes.
pub(crate) fn front(
    source: &Source,
    options: &Options,
    target: &Target,
    facts: &Facts,
) -> Result<Front> {
    check_disabled(options)?;
    let Imported { mut module, inputs, outputs, strings, needs } =
        options.phases.time("import", || source.import(options, facts))?;
    let Some(imported) = module.functions.values().next().cloned() else {
        unreachable!("an imported module has a function")
    };
    let mut function = imported.clone();
    optimise(&mut function, options)?;
    let mut function = Arc::unwrap_or_clone(function);
    let mut remarks = Vec::new();
    let phases = &options.phases;
    let formats = !options.disabled.contains(FORMATS);
    let winograd = match options.disabled.contains(WINOGRAD) || !formats {
        true => Winograd::Never,
        false => Winograd::WherePredicted,
    };
    let chosen = FormatOptions { winograd };
    if formats && !options.disabled.contains(INTEGERS) {
        function =
            phases.time(INTEGERS, || formats::integers(function, target, &chosen, &mut remarks))?;
    }
    match options.precision {
        Precision::F32 => {}
        Precision::Bf16 => {
            let (dtype, remarks) = (DType::BF16, &mut remarks);
            function = phases.time("precision", || {
                formats::shorten(&function, dtype, target, &chosen, remarks)
            })?;
        }
    }
    if formats {
        let mut chosen = phases
            .time(FORMATS, || formats::choose(function, target, &chosen, &mut remarks))
            .map(Arc::new)?;
        optimise(&mut chosen, options)?;
        function = Arc::unwrap_or_clone(chosen);
    }
    module.functions = base::Arena::default();
    let (setup, main, plan) = phases.time("cut", || {
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
    Ok(Front { module, imported, setup, main, plan, inputs, outputs, strings, needs, remarks })
}

/// Refuses names that no pass and no rule has.
fn check_disabled(options: &Options) -> Result<()> {
    let passes = optimisations();
    let known =
        |name: &str| passes.contains(&name) || graph_opt::laws().any(|(rule, _law)| rule == name);
    let unknown = options.disabled.iter().filter(|name| !known(name)).map(|name| {
        Diagnostic::error(codes::UNKNOWN_PASS, format!("no pass or rule is called `{name}`"))
            .at(format!("--disable {name}"))
            .because(format!("the passes are {}", passes.join(", ")))
            .remedy("use one of these names, or that of a rule of one of them")
    });
    unknown.collect::<Diagnostics>().or_ok(())
}

/// Runs the table of graph passes.
///
/// # Errors
/// Internal errors of passes and, where passes are verified, of the verifier.
pub(crate) fn optimise(function: &mut Arc<Function>, options: &Options) -> Result<()> {
    let mut context = PassContext {
        disabled: options.disabled.iter().cloned().collect(),
        ..PassContext::default()
    };
    let verify = options.verify_passes || cfg!(debug_assertions);
    let mut hooks = Hooks { verify, phases: &options.phases };
    run_passes(graph_opt::passes(), function, &mut context, &mut hooks)
}

/// What the driver does around each graph pass.
struct Hooks<'a> {
    verify: bool,
    phases: &'a Phases,
}

impl PassHooks<Arc<Function>> for Hooks<'_> {
    fn around(&mut self, name: &'static str, pass: &mut dyn FnMut() -> Result<()>) -> Result<()> {
        self.phases.time(name, pass)
    }

    fn after(&mut self, _name: &'static str, function: &Arc<Function>) -> Result<()> {
        if self.verify { graph::verify(function) } else { Ok(()) }
    }
}

/// The value of a constant of a module.
pub(crate) fn constant(module: &Module, id: ConstantId) -> Tensor {
    module.constants[id].tensor.clone()
}
