//! The front half of a compile: file to `setup` and `main`, symbols free.

use std::collections::BTreeMap;
use std::sync::Arc;

use backend::Target;
use base::timing::Phases;
use base::{
    ConstantId, Diagnostic, Diagnostics, FunctionId, PassContext, PassHooks, Result, codes,
    run_passes,
};
use graph::Function;
use graph_opt::Stage;
use import_onnx::{ImportOptions, Imported, Wanted};
use lower::Remark;
use lower::formats::{FormatOptions, Winograd};
use module::Module;
use tensor::{DType, Structure, Tensor, Value};

use crate::source::Source;
use crate::{Options, Precision};

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
    pub(crate) main: FunctionId,
    /// `main` in stages, each of which runs when the sizes that it uses are known.
    pub(crate) stages: Vec<Stage>,
    /// How the model's outputs are made of the results and the strings.
    pub(crate) outputs: Vec<Structure>,
    /// Strings among what the outputs are made of.
    pub(crate) strings: import_onnx::Strings,
    /// What format choice did, and why not more.
    pub(crate) remarks: Vec<Remark>,
}

/// What is told of a model's inputs beyond what it declares.
#[derive(Clone, Debug, Default)]
pub(crate) struct Told {
    /// How inputs that are no tensors are made of them.
    pub(crate) structures: BTreeMap<String, Structure>,
    /// Shapes of inputs whose rank is not declared.
    pub(crate) shapes: BTreeMap<String, Vec<i64>>,
    /// Values of inputs on which shapes depend.
    pub(crate) values: BTreeMap<String, Tensor>,
}

impl Told {
    /// Adds what is asked, of what the model is run with; false where that has no more to tell.
    pub(crate) fn answer(&mut self, asked: &BTreeMap<String, Wanted>, given: &Given) -> bool {
        let mut is_new = false;
        for (name, wanted) in asked {
            if *wanted == Wanted::Structure {
                let Some(structure) = given.structures.get(name) else { return false };
                is_new |= self.structures.insert(name.clone(), structure.clone()).is_none();
                continue;
            }
            let Some(tensor) = given.tensors.get(name) else { return false };
            let shape = tensor.shape().iter().map(|&extent| extent as i64).collect();
            is_new |= self.shapes.insert(name.clone(), shape).is_none();
            if matches!(wanted, Wanted::Value | Wanted::Contents) {
                is_new |= self.values.insert(name.clone(), tensor.clone()).is_none();
            }
        }
        is_new
    }

    /// What the importer is told, by options and beyond them.
    pub(crate) fn import_options(&self, options: &Options) -> ImportOptions {
        let mut import = ImportOptions {
            dims: options.dims.clone(),
            input_shapes: options.input_shapes.clone(),
            input_structures: self.structures.clone(),
            input_values: self.values.clone(),
            literals: options.literals.clone(),
            is_part: false,
            limits: options.limits.clone(),
        };
        import.input_shapes.extend(self.shapes.clone());
        import
    }
}

/// What a model is run with, by name.
#[derive(Debug, Default)]
pub(crate) struct Given {
    /// How inputs are made of tensors.
    structures: BTreeMap<String, Structure>,
    /// Those tensors.
    tensors: BTreeMap<String, Tensor>,
}

impl Given {
    /// One value an input of the model.
    ///
    /// # Errors
    /// Those of the importer.
    pub(crate) fn new(source: &Source, options: &Options, inputs: &[Value]) -> Result<Given> {
        let mut given = Given::default();
        if matches!(source, Source::Module(_)) {
            // It asks nothing.
            return Ok(given);
        }
        for (port, value) in source.inspect(&options.limits)?.inputs.iter().zip(inputs) {
            let structure = value.structure();
            let names = structure.names(&port.name);
            given.tensors.extend(names.into_iter().zip(value.clone().into_tensors()));
            given.structures.insert(port.name.clone(), structure);
        }
        Ok(given)
    }
}

/// What became of the front half.
pub(crate) enum Outcome {
    /// All of it.
    Front(Box<Front>),
    /// More must be told first.
    Asks(Question),
}

/// The most elements of an input that a variant is made for, one for each value.
const MOST_ELEMENTS: usize = 1024;

/// What must be told before a model can be compiled.
pub(crate) struct Question {
    /// Of which inputs what.
    pub(crate) wanted: BTreeMap<String, Wanted>,
    /// The node of the model's graph for which it must be known.
    pub(crate) node: Option<usize>,
    /// Why the model is refused where that cannot be told.
    pub(crate) reason: Diagnostics,
}

impl Question {
    /// Adds what is wanted to what has been asked; `sizes` gives the number of a tensor's elements
    /// where it is known.
    ///
    /// # Errors
    /// The reason to ask, where an answer would not help or cannot be given.
    pub(crate) fn add_to(
        &self,
        asked: &mut BTreeMap<String, Wanted>,
        sizes: &dyn Fn(&str) -> Option<usize>,
    ) -> Result<()> {
        let mut is_answered = !self.wanted.is_empty();
        for (name, &wanted) in &self.wanted {
            let is_large =
                wanted == Wanted::Value && sizes(name).is_some_and(|size| size > MOST_ELEMENTS);
            is_answered &= !is_large && asked.insert(name.clone(), wanted) != Some(wanted);
        }
        if is_answered { Ok(()) } else { Err(self.reason.clone()) }
    }
}

/// Imports a model and runs the graph passes: optimisation, format choice, optimisation, the cut,
/// the division into stages.
///
/// # Errors
/// Those of the importer; internal errors of passes.
pub(crate) fn front(source: &Source, options: &Options, target: &Target) -> Result<Front> {
    match front_or_ask(source, options, target, &Told::default())? {
        Outcome::Front(front) => Ok(*front),
        Outcome::Asks(question) => Err(question.reason),
    }
}

/// As [`front`], with more told of inputs; asks for what is missing.
///
/// # Errors
/// As [`front`].
pub(crate) fn front_or_ask(
    source: &Source,
    options: &Options,
    target: &Target,
    told: &Told,
) -> Result<Outcome> {
    check_disabled(options)?;
    let import = || source.import(&told.import_options(options));
    let (mut module, outputs, strings) = match options.phases.time("import", import)? {
        Imported::Module { module, outputs, strings } => (module, outputs, strings),
        Imported::Asks { inputs: wanted, node, reason } => {
            return Ok(Outcome::Asks(Question { wanted, node, reason }));
        }
    };
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
            phases.time(INTEGERS, || lower::integers(function, target, &chosen, &mut remarks))?;
    }
    match options.precision {
        Precision::F32 => {}
        Precision::Bf16 => {
            let (dtype, remarks) = (DType::BF16, &mut remarks);
            function = phases.time("precision", || {
                lower::precision::shorten(&function, dtype, target, &chosen, remarks)
            })?;
        }
    }
    if formats {
        let mut chosen = phases
            .time(FORMATS, || lower::formats::choose(function, target, &chosen, &mut remarks))
            .map(Arc::new)?;
        optimise(&mut chosen, options)?;
        function = Arc::unwrap_or_clone(chosen);
    }
    let (setup, main, stages) = phases.time("cut", || {
        let cut = graph_opt::cut(function);
        let main = Arc::new(cut.main);
        let stages = graph_opt::stages(&main, imported.parameters().len());
        (cut.setup, main, stages)
    });
    module.functions = base::Arena::default();
    let setup = module.functions.push(Arc::new(setup));
    let main = module.functions.push(main);
    Ok(Outcome::Front(Box::new(Front {
        module,
        imported,
        setup,
        main,
        stages,
        outputs,
        strings,
        remarks,
    })))
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
