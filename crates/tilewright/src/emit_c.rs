//! A model as C sources in a folder.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::Path;

use backend::Target;
use backend_c::{CProgram, CSources, Interface};
use base::{Diagnostic, Diagnostics, Result, codes};
use import_onnx::Strings;
use lower::Role;
use sym::SymbolId;
use tensor::{DType, StagedFiles, Structure, Tensor, Value};

use crate::options::TargetChoice;
use crate::pipeline::{Front, Given, front, front_told};
use crate::plan::Plan;
use crate::port::ports;
use crate::source::Source;
use crate::specialisation::{self, LoweredFunction};
use crate::variant::bound;
use crate::{Options, Port, target};

/// Compiles a model to `model.c`, `model.h`, `weights.bin` and `main.c` in a folder, which is made
/// if it is not there: all of them or none. Kernels are scheduled for the row `c99` of the target
/// table unless the options name another.
///
/// # Errors
/// What is wrong with the model or with the options; `TW0205` for every free dimension; `TW0301` if
/// a file cannot be written.
pub fn emit_c(model: impl AsRef<Path>, options: &Options, folder: impl AsRef<Path>) -> Result<()> {
    let (model, folder) = (model.as_ref(), folder.as_ref());
    let name = model.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let source = Source::file(model);
    let sources = compile(Request { source: &source, options, name: &name, inputs: None })?;
    write_all(&sources.code, folder)
}

/// What to compile to C.
pub(crate) struct Request<'a> {
    pub(crate) source: &'a Source,
    pub(crate) options: &'a Options,
    /// Of the model, from which those of functions are made.
    pub(crate) name: &'a str,
    /// What it is to be run with, if that is known: it may be told of the inputs then, free
    /// dimensions are those of these tensors, and output `k` is called [`output_name`] `(k)`.
    pub(crate) inputs: Option<&'a [Tensor]>,
}

/// A model as C, and how its outputs are made of the program's.
pub(crate) struct Sources {
    pub(crate) code: CSources,
    /// Element types of the program's outputs.
    pub(crate) dtypes: Vec<DType>,
    pub(crate) outputs: Vec<Structure>,
    pub(crate) strings: Strings,
}

/// The name of an output of a model whose inputs are known.
pub(crate) fn output_name(number: usize) -> String {
    format!("output{number}")
}

/// Compiles a model to C.
///
/// # Errors
/// What is wrong with the model, its inputs or the options; `TW0205` for every free dimension.
pub(crate) fn compile(request: Request<'_>) -> Result<Sources> {
    let Request { source, options, name, inputs: given } = request;
    let target = row(&options.target)?;
    let (front, symbols) = match given {
        None => (front(source, options, &target)?, BTreeMap::new()),
        Some(tensors) => {
            let values: Vec<Value> = tensors.iter().cloned().map(Value::from).collect();
            let given = Given::new(source, options, &values)?;
            let front = front_told(source, options, &target, &given)?;
            let symbols = symbols_of(&front, tensors)?;
            (front, symbols)
        }
    };
    let inputs = ports(&front.imported, true);
    refuse_strings(&inputs)?;
    let shapes = match given {
        Some(tensors) => tensors.iter().map(|tensor| tensor.shape().to_vec()).collect(),
        None => fixed_shapes(&inputs)?,
    };
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
    let plan = Plan::new(&front.module, front.plan, inputs.len());
    let segment = plan.only_segment().ok_or_else(of_several_segments)?;
    let role = plan.segment(segment).role(&constants);
    let main = LoweredFunction::new(request(segment, role, &symbols))?;
    let results = main.outputs.iter().enumerate().zip(&front.imported.result_names);
    let result = |((number, (dtype, shape)), name): ((usize, &(DType, Vec<usize>)), &String)| {
        let name = if given.is_some() { output_name(number) } else { name.clone() };
        backend_c::CPort { name, dtype: *dtype, shape: shape.clone() }
    };
    let input = |(port, shape): (&Port, Vec<usize>)| backend_c::CPort {
        name: port.name.clone(),
        dtype: port.dtype,
        shape,
    };
    let interface = Interface {
        name: name.to_owned(),
        inputs: inputs.iter().zip(shapes).map(input).collect(),
        outputs: results.map(result).collect(),
    };
    let most_turns = options.limits.turns;
    let options = backend_c::COptions { most_turns, ..Default::default() };
    let code = backend_c::emit(part(&setup), part(&main), &interface, options)?;
    let dtypes = main.outputs.iter().map(|(dtype, _)| *dtype).collect();
    Ok(Sources { code, dtypes, outputs: front.outputs, strings: front.strings })
}

/// The refusal of a model that is more than one segment.
fn of_several_segments() -> Diagnostic {
    Diagnostic::error(codes::UNKNOWN_CONTENTS, "sizes are computed from data while the model runs")
        .at("the model")
        .because("the C sources hold one segment, and this model's plan has several")
        .remedy("`run` the model, or export it so that shapes do not depend on values")
}

/// The inputs' shapes, all known.
fn fixed_shapes(inputs: &[Port]) -> Result<Vec<Vec<usize>>> {
    let unbound: Diagnostics =
        inputs.iter().filter_map(|port| port.random(0).err()).flatten().collect();
    unbound.or_ok(inputs.iter().filter_map(Port::fixed_shape).collect())
}

fn refuse_strings(inputs: &[Port]) -> Result<()> {
    let strings = inputs.iter().filter(|port| port.dtype == DType::String).map(|port| {
        Diagnostic::error(codes::UNSUPPORTED_TYPE, format!("input `{}` is strings", port.name))
            .at(port.to_string())
            .because("what is computed from strings is no C code")
            .remedy("export the model without its work on strings, or `run` it")
    });
    strings.collect::<Diagnostics>().or_ok(())
}

fn symbols_of(front: &Front, inputs: &[Tensor]) -> Result<BTreeMap<SymbolId, i64>> {
    let values = eval::graph::bind_symbols(&front.imported, inputs);
    Ok(bound(&values.map_err(|fault| Diagnostics::from(Diagnostic::from(fault)))?))
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
