//! The front half of a compile: file to `setup` and `main`, symbols free.

use std::path::Path;

use backend::Target;
use base::{
    ConstantId, Diagnostic, Diagnostics, FunctionId, PassContext, PassHooks, Result, codes,
    run_passes,
};
use graph::Function;
use import_onnx::ImportOptions;
use lower::Remark;
use module::Module;
use tensor::Tensor;

use crate::Options;

/// The name of format choice among those of passes.
const FORMATS: &str = "formats";

/// A model after the graph passes.
#[derive(Debug)]
pub(crate) struct Front {
    /// Constants, and the functions below.
    pub(crate) module: Module,
    /// As imported; its parameters and results are the user's.
    pub(crate) imported: Function,
    /// What depends on weights alone.
    pub(crate) setup: FunctionId,
    /// The rest.
    pub(crate) main: FunctionId,
    /// What format choice did, and why not more.
    pub(crate) remarks: Vec<Remark>,
}

/// Imports a model and runs the graph passes: optimisation, format choice, optimisation, the cut.
///
/// # Errors
/// Those of the importer; internal errors of passes.
pub(crate) fn front(path: &Path, options: &Options, target: &Target) -> Result<Front> {
    let import = ImportOptions {
        dims: options.dims.clone(),
        input_shapes: options.input_shapes.clone(),
        literals: options.literals.clone(),
        ..ImportOptions::default()
    };
    check_disabled(options)?;
    let mut module = import_onnx::import(path, &import)?;
    let Some(imported) = module.functions.values().next().cloned() else {
        unreachable!("an imported module has a function")
    };
    let mut function = imported.clone();
    optimise(&mut function, options)?;
    let mut remarks = Vec::new();
    if !options.disabled.contains(FORMATS) {
        function = lower::formats::choose(function, target, &mut remarks)?;
        optimise(&mut function, options)?;
    }
    let cut = graph_opt::cut(&function)?;
    module.functions = base::Arena::default();
    let setup = module.functions.push(cut.setup);
    let main = module.functions.push(cut.main);
    Ok(Front { module, imported, setup, main, remarks })
}

/// Refuses names that no pass and no rule has.
fn check_disabled(options: &Options) -> Result<()> {
    let passes: Vec<&str> =
        graph_opt::passes().iter().map(|row| row.name).chain([FORMATS]).collect();
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
pub(crate) fn optimise(function: &mut Function, options: &Options) -> Result<()> {
    let mut context = PassContext {
        disabled: options.disabled.iter().cloned().collect(),
        ..PassContext::default()
    };
    let mut hooks = Hooks { verify: options.verify_passes || cfg!(debug_assertions) };
    run_passes(graph_opt::passes(), function, &mut context, &mut hooks)
}

/// What the driver does around each graph pass.
struct Hooks {
    verify: bool,
}

impl PassHooks<Function> for Hooks {
    fn after(&mut self, _name: &'static str, function: &Function) -> Result<()> {
        if self.verify { graph::verify(function) } else { Ok(()) }
    }
}

/// The value of a constant of a module.
pub(crate) fn constant(module: &Module, id: ConstantId) -> Tensor {
    module.constants[id].tensor.clone()
}
