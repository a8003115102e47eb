//! A model as C sources in a folder.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;
use std::path::Path;

use backend::Target;
use backend_c::{CPort, CProgram, CSources, Interface};
use base::{Diagnostic, Diagnostics, FunctionId, Result, codes};
use graph::{Function, Op, ValueId};
use import_onnx::{Facts, Strings};
use lower::Role;
use sym::{Expr, SymbolId};
use tensor::{DType, Kind, StagedFiles, Structure, Tensor, Value};

use crate::executable::draws;
use crate::facts::Inputs;
use crate::options::Options;
use crate::options::TargetChoice;
use crate::pipeline::{FrontHalf, front};
use crate::plan::Plan;
use crate::port::{self, Port, declared_ports, ports};
use crate::reference::evaluated;
use crate::source::Source;
use crate::specialisation::{self, LoweredFunction};
use crate::target;
use crate::variant::bound;

/// Compiles a model to `model.c`, `model.h`, `weights.bin` and `main.c` in a folder, which is made
/// if it is not there: all of them or none. Kernels are scheduled for the row `c99` of the target
/// table unless the options name another.
///
/// Inputs that are given, by name, fix the shapes of these inputs; where shapes in the model depend
/// on the value of one of them, the code is for this value alone, and refuses any other. Dimensions
/// that stay free are arguments of the C function. Where there are some, or where the model
/// computes sizes, the code divides memory that its caller gives; all other code knows how much it
/// needs.
///
/// # Errors
/// What is wrong with the model, with the inputs or with the options; `TW0205` for a free dimension
/// that is no extent of an input by itself; `TW0301` if a file cannot be written.
pub fn emit_c(
    model: impl AsRef<Path>,
    options: &Options,
    inputs: &BTreeMap<String, Value>,
    folder: impl AsRef<Path>,
) -> Result<()> {
    let (model, folder) = (model.as_ref(), folder.as_ref());
    let name = model.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let source = Source::File(model.to_owned());
    let inputs = in_order(&source, options, inputs)?;
    let sources =
        compile_to_c(CModelRequest { source: &source, options, name: &name, inputs: &inputs })?;
    write_all(&sources.code, folder)
}

/// What to compile to C.
pub struct CModelRequest<'a> {
    pub source: &'a Source,
    pub options: &'a Options,
    /// Of the model, from which those of functions are made.
    pub name: &'a str,
    /// Of the model's inputs, in order, those that are known; what follows is not.
    pub inputs: &'a [Option<Value>],
}

/// A model as C, and how its outputs are made of the program's.
pub struct CModel {
    pub code: CSources,
    /// Inputs and outputs of the program.
    pub interface: Interface,
    pub outputs: Vec<Structure>,
    pub strings: Strings,
    /// Whether it draws random numbers.
    pub draws: bool,
    /// Whether it is a plan, which divides the memory that its caller gives.
    pub is_plan: bool,
}

impl CModel {
    /// Whether the code is for such inputs.
    pub fn is_for(&self, inputs: &[Tensor]) -> bool {
        let ports = &self.interface.inputs;
        let fits = |(port, tensor): (&CPort, &Tensor)| {
            port.dtype == tensor.dtype()
                && port.shape == tensor.shape()
                && port.value.as_ref().is_none_or(|value| value.bytes() == tensor.bytes())
        };
        ports.len() == inputs.len() && ports.iter().zip(inputs).all(fits)
    }
}

/// Compiles a model to C.
///
/// # Errors
/// What is wrong with the model, its inputs or the options; see [`emit_c`].
pub fn compile_to_c(request: CModelRequest<'_>) -> Result<CModel> {
    let CModelRequest { options, name, inputs: known, .. } = request;
    let target = row(&options.target)?;
    let (front, facts) = front_and_facts(&request, &target)?;
    refuse_host_functions(&front.main)?;
    let inputs = ports(&front.imported, true);
    let strings = inputs.iter().filter(|port| port.dtype == DType::String);
    strings.map(is_strings).collect::<Diagnostics>().or_ok(())?;
    let symbols = symbols_of(&front, known)?;
    let plan = Plan::new(&front.module, front.plan, inputs.len());
    let mut function = Function::clone(&plan.function);
    function.substitute(&symbols.iter().map(|(&id, &value)| (id, value.into())).collect());
    let request = |function, role, symbols| specialisation::Request {
        module: &front.module,
        function: &front.module.functions[function],
        symbols,
        role,
        target: &target,
        options,
        given: None,
        store: None,
    };
    let no_symbols = BTreeMap::new();
    let setup = LoweredFunction::new(request(front.setup, Role::Setup, &no_symbols))?;
    let constants = setup.lowered.constants.offsets.clone();
    let extent = |extent: &Expr| extent.as_constant().map_or(0, |extent| extent.max(0) as usize);
    let port = |name: &String, value| {
        let (kind, dtype, rank) = port::kind_of(function.ty(value));
        let shape = match function.ty(value).as_tensor() {
            Some(ty) => ty.shape.iter().map(extent).collect(),
            None => vec![0; rank.unwrap_or(0)],
        };
        CPort { kind, ..CPort::new(name, dtype, shape) }
    };
    let input = |(named, &value): (&Port, &ValueId)| CPort {
        value: facts.values.get(&named.name).cloned(),
        ..port(&named.name, value)
    };
    let output = |(number, (&value, name)): (usize, (&ValueId, &String))| CPort {
        strings: coded(&front.strings, number),
        ..port(name, value)
    };
    let results = function.results().iter().zip(&front.imported.result_names).enumerate();
    let interface = Interface {
        name: name.to_owned(),
        inputs: inputs.iter().zip(function.parameters()).map(input).collect(),
        outputs: results.map(output).collect(),
    };
    let c_options = backend_c::COptions { most_turns: options.limits.turns, ..Default::default() };
    let is_free = |extent: &Expr| extent.as_constant().is_none();
    let free = function.values.values().any(|value| value.ty.exprs().iter().any(is_free));
    let code = match plan.only_segment().filter(|_| !free) {
        Some(segment) => {
            let role = plan.segment(segment).role(&constants);
            let main = LoweredFunction::new(request(segment, role, &symbols))?;
            backend_c::emit(part(&setup), part(&main), &interface, c_options)?
        }
        None => {
            let lowered = plan.segments().map(|(id, segment)| {
                let role = segment.role(&constants);
                let lowered = LoweredFunction::with_free_extents(request(id, role, &symbols))?;
                Ok((id, segment.inputs, lowered))
            });
            let lowered: Vec<(FunctionId, usize, LoweredFunction)> =
                lowered.collect::<Result<_>>()?;
            let mut segments = BTreeMap::new();
            for (id, inputs, lowered) in &lowered {
                let checks = lower::extent_checks(&lowered.module.functions[lowered.function]);
                let code = part(lowered);
                segments.insert(*id, backend_c::CSegment { code, inputs: *inputs, checks });
            }
            let plan = backend_c::CPlan { function: &function, segments };
            backend_c::emit_plan(part(&setup), &plan, &interface, c_options)?
        }
    };
    let is_plan = free || plan.only_segment().is_none();
    let draws = draws(&front.imported);
    let (outputs, strings) = (front.outputs, front.strings);
    Ok(CModel { code, interface, outputs, strings, draws, is_plan })
}

/// The front half for what is known of the inputs: the most specific that is one segment, else the
/// plan for all values.
fn front_and_facts(request: &CModelRequest<'_>, target: &Target) -> Result<(FrontHalf, Facts)> {
    let general = front_for(request, target, Facts::default());
    let is_one_segment = |(front, _): &(FrontHalf, Facts)| {
        let inputs = front.imported.parameters().len();
        Plan::new(&front.module, front.plan, inputs).only_segment().is_some()
    };
    let is_known = request.inputs.iter().any(Option::is_some);
    if !is_known || general.as_ref().is_ok_and(is_one_segment) {
        return general;
    }
    // Of known inputs sizes are known.
    let sizes = Facts { sizes: true, ..Facts::default() };
    match front_for(request, target, sizes) {
        Ok(made) if is_one_segment(&made) => Ok(made),
        _ => general,
    }
}

/// The strings in which the elements of a result are numbers, if they are. Strings are counted
/// among all that the outputs are made of, results without those that are known.
fn coded(strings: &Strings, result: usize) -> Vec<String> {
    let number = |all: usize| all - strings.known.range(..all).count();
    let list = strings.coded.iter().find(|(all, _)| number(**all) == result);
    list.map(|(_, list)| list.clone()).unwrap_or_default()
}

/// The front half for the known inputs, and what is known of them: their shapes, and values where
/// the model needs some.
fn front_for(
    request: &CModelRequest<'_>,
    target: &Target,
    mut facts: Facts,
) -> Result<(FrontHalf, Facts)> {
    let CModelRequest { source, options, inputs, .. } = *request;
    let (mut ports, mut structures, mut tensors) = (Vec::new(), Vec::new(), Vec::new());
    let declared = source.declared_inputs(options)?;
    refuse_strings(&declared, inputs)?;
    let known = inputs.iter().map(Option::as_ref).chain(std::iter::repeat(None));
    for (port, value) in declared.into_iter().zip(known) {
        let Some(value) = value else {
            if is_list(&port.kind) {
                facts.structures.insert(port.name, Structure::Tensor);
            }
            continue;
        };
        port.check_value(value)?;
        let structure = value.structure();
        let parts = value.clone().into_tensors();
        for (name, tensor) in structure.names(&port.name).into_iter().zip(&parts) {
            let shape = tensor.shape().iter().map(|&extent| extent as i64).collect();
            facts.shapes.insert(name, shape);
        }
        if structure != Structure::Tensor {
            facts.structures.insert(port.name.clone(), structure.clone());
        }
        tensors.extend(parts);
        structures.push(structure);
        ports.push(port);
    }
    let known = Inputs { ports: &ports, structures: &structures, tensors: &tensors };
    // What is computed is known for the inputs that it is computed from.
    let mut values = BTreeMap::new();
    let compute = |front: &FrontHalf| {
        let part = behind_results(&front.imported);
        let tensor = |name: &String| {
            let unknown = || Diagnostics::from(front.needs[0].reason.clone());
            known.tensor(name).cloned().ok_or_else(unknown)
        };
        let names = &part.parameter_names;
        let inputs = names.iter().map(tensor).collect::<Result<Vec<Tensor>>>()?;
        values.extend(names.iter().cloned().zip(inputs.iter().cloned()));
        let precision = eval::EvaluationPrecision::Declared;
        evaluated(&front.module, &part, options, &inputs, precision)
    };
    let make = |facts: &Facts| front(source, options, target, facts);
    let (made, facts) =
        known.settle(&options.limits, facts, make, |front| &front.needs, compute)?;
    values.extend(facts.values);
    Ok((made, Facts { values, ..facts }))
}

/// Whether values of a kind are lists of tensors, or of such lists.
fn is_list(kind: &Kind) -> bool {
    match kind {
        Kind::Sequence(held) | Kind::Optional(held) => **held == Kind::Tensor || is_list(held),
        Kind::Tensor | Kind::Maps | Kind::Map => false,
    }
}

/// A function with those of its parameters alone that its results depend on: by their elements, or
/// by symbols that no other such parameter tells.
fn behind_results(function: &Function) -> Function {
    let whole = function.part(function.parameters().to_vec(), function.results().to_vec());
    let users = whole.users();
    let is_used = |id: &ValueId| !users[*id].is_empty() || whole.results().contains(id);
    let told = |id: &ValueId| whole.ty(*id).exprs().iter().filter_map(Expr::as_symbol);
    let exprs = whole.nodes.values().flat_map(|node| node.op.exprs());
    let mut missing: BTreeSet<SymbolId> = exprs.flat_map(Expr::symbols).collect();
    for symbol in whole.parameters().iter().filter(|id| is_used(id)).flat_map(told) {
        missing.remove(&symbol);
    }
    let named = whole.parameters().iter().zip(&function.parameter_names);
    let tells = |id: &ValueId| told(id).any(|symbol| missing.contains(&symbol));
    let (parameters, names) = named
        .filter(|(id, _)| is_used(id) || tells(id))
        .map(|(&id, name)| (id, name.clone()))
        .unzip();
    let mut part = whole.part(parameters, whole.results().to_vec());
    part.parameter_names = names;
    part.result_names.clone_from(&function.result_names);
    part
}

/// Inputs that are known by name, in the order of the model.
fn in_order(
    source: &Source,
    options: &Options,
    inputs: &BTreeMap<String, Value>,
) -> Result<Vec<Option<Value>>> {
    let ports = declared_ports(&source.inspect(&options.limits)?.inputs, options);
    let given = inputs.iter().map(|(name, value)| (name.clone(), Some(value.clone())));
    port::in_order(&ports, given.collect(), &mut |_, _| Ok(None))
}

/// Refuses a model that calls host functions.
fn refuse_host_functions(function: &Function) -> Result<()> {
    let called = function.nodes.values().filter_map(|node| match &node.op {
        Op::Host { name, .. } => Some((name, node.location)),
        _ => None,
    });
    let refusal = |(name, location)| {
        let message = format!("the host function `{name}` does not exist in C");
        Diagnostic::error(codes::UNSUPPORTED_OPERATOR, message)
            .at(function.locations.describe(location))
            .because("strings and encoded images are read by functions of the host, not by kernels")
            .remedy("leave that part out of the model, or `run` it")
    };
    called.map(refusal).collect::<Diagnostics>().or_ok(())
}

/// Refuses inputs that are strings: by their declaration or, where that says no more than that they
/// are made of something, by the values.
fn refuse_strings(declared: &[Port], known: &[Option<Value>]) -> Result<()> {
    let holds_strings = |(number, port): &(usize, &Port)| match known.get(*number) {
        Some(Some(value)) => {
            value.clone().into_tensors().iter().any(|tensor| tensor.dtype() == DType::String)
        }
        _ => port.kind == Kind::Tensor && port.dtype == DType::String,
    };
    let strings = declared.iter().enumerate().filter(holds_strings);
    strings.map(|(_, port)| is_strings(port)).collect::<Diagnostics>().or_ok(())
}

/// The refusal of an input that is strings.
fn is_strings(port: &Port) -> Diagnostic {
    Diagnostic::error(codes::UNSUPPORTED_TYPE, format!("input `{}` is strings", port.name))
        .at(port.to_string())
        .because("what is computed from strings is no C code")
        .remedy("export the model without its work on strings, or `run` it")
}

/// The values of symbols that the shapes of the known inputs give.
fn symbols_of(front: &FrontHalf, known: &[Option<Value>]) -> Result<BTreeMap<SymbolId, i64>> {
    let mut tensors: Vec<Option<Tensor>> = Vec::new();
    for input in known {
        match input {
            Some(value) => tensors.extend(value.clone().into_tensors().into_iter().map(Some)),
            None => tensors.push(None),
        }
    }
    let all: Option<Vec<Tensor>> = tensors.iter().cloned().collect();
    if let Some(all) = all.filter(|all| all.len() == front.imported.parameters().len()) {
        let values = eval::graph::bind_symbols(&front.imported, &all);
        return Ok(bound(&values.map_err(|fault| Diagnostics::from(Diagnostic::from(fault)))?));
    }
    let mut symbols = BTreeMap::new();
    for (&value, tensor) in front.imported.parameters().iter().zip(&tensors) {
        let Some(tensor) = tensor else { continue };
        for (extent, &found) in front.imported.ty(value).exprs().iter().zip(tensor.shape()) {
            symbols.extend(extent.as_symbol().map(|symbol| (symbol, found as i64)));
        }
    }
    Ok(symbols)
}

/// The row that kernels are scheduled for: C code runs anywhere, so the machine has no say.
pub(crate) fn row(choice: &TargetChoice) -> Result<Target> {
    match choice {
        TargetChoice::Native => target::resolve(&TargetChoice::Named("c99".to_owned())),
        TargetChoice::Named(_) => target::resolve(choice),
    }
}

fn part(half: &LoweredFunction) -> CProgram<'_> {
    CProgram {
        module: &half.module,
        program: half.lowered.program,
        locations: &half.module.functions[half.function].locations,
    }
}

/// Writes all files, or none.
///
/// # Errors
/// `TW0301` if one cannot be written.
pub(crate) fn write_all(sources: &CSources, folder: &Path) -> Result<()> {
    let mut files = StagedFiles::in_folder(folder)?;
    files.write(folder.join("model.c"), |file| file.write_all(sources.model_c.as_bytes()))?;
    files.write(folder.join("model.h"), |file| file.write_all(sources.model_h.as_bytes()))?;
    files.write(folder.join("main.c"), |file| file.write_all(sources.main_c.as_bytes()))?;
    files.write(folder.join("weights.bin"), |file| sources.weights.write(file))?;
    files.commit()
}
