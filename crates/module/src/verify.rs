//! The verifier of modules: each part by its own crate's verifier, then what the parts say of each
//! other.
//!
//! - Names of functions are distinct, so are those of kernels and of programs.
//! - A `Weight` has the type of its constant.
//! - A `run` gives a kernel as many arguments as it has parameters, each read and written no less
//!   than the kernel does. Slots of weights have the weight's size.

use std::collections::BTreeSet;

use base::{ConstantId, Diagnostic, Diagnostics, codes};
use graph::{Function, Op, TensorType};
use loops::{Access, Scope};
use program::{Place, Program, Run, Step};
use sym::Expr;

use crate::Module;

/// Checks a module.
///
/// # Errors
/// What the verifiers of its parts find, and one diagnostic for each disagreement between parts.
pub fn verify(module: &Module) -> base::Result<()> {
    let mut found = Diagnostics::new();
    let results = (module.functions.values().map(|function| graph::verify(function)))
        .chain(module.kernels.values().map(loops::verify))
        .chain(module.programs.values().map(program::verify));
    for diagnostics in results.filter_map(Result::err) {
        found.append(diagnostics);
    }
    check_names("functions", module.functions.values().map(|part| &part.name), &mut found);
    check_names("kernels", module.kernels.values().map(|part| &part.name), &mut found);
    check_names("programs", module.programs.values().map(|part| &part.name), &mut found);
    for function in module.functions.values() {
        check_function(module, function, &mut found);
    }
    for program in module.programs.values() {
        check_program(module, program, &mut found);
    }
    found.or_ok(())
}

fn report(found: &mut Diagnostics, place: &str, message: String) {
    found.push(Diagnostic::error(codes::VERIFIER_FAILED, message).at(place));
}

fn check_names<'a>(what: &str, names: impl Iterator<Item = &'a String>, found: &mut Diagnostics) {
    let mut seen = BTreeSet::new();
    for name in names.filter(|name| !seen.insert(*name)) {
        report(found, what, format!("two {what} are called `{name}`"));
    }
}

fn check_function(module: &Module, function: &Function, found: &mut Diagnostics) {
    for id in function.nodes_in_order() {
        let node = &function.nodes[id];
        if let Op::Weight { constant, result } = &node.op
            && let Some(problem) = weight_problem(module, *constant, result)
        {
            let place = function.locations.describe(node.location);
            report(found, &format!("function `{}`, {place}", function.name), problem);
        }
    }
}

fn weight_problem(module: &Module, id: ConstantId, result: &TensorType) -> Option<String> {
    let Some(constant) = module.constants.get(id) else {
        return Some(format!("there is no constant {id}"));
    };
    let tensor = &constant.tensor;
    let extents = tensor.shape().iter().map(|&extent| Expr::from(extent));
    let same = tensor.dtype() == result.dtype && extents.eq(result.shape.iter().cloned());
    (!same).then(|| {
        let (dtype, shape) = (tensor.dtype(), tensor.shape());
        format!("constant {id} has type {dtype}{shape:?}, which is not the weight's")
    })
}

fn check_program(module: &Module, program: &Program, found: &mut Diagnostics) {
    let place = format!("program `{}`", program.name);
    for slot in program.slots.values() {
        let Place::Weight(id) = slot.place else { continue };
        let bytes = module.constants.get(id).map(|constant| constant.tensor.bytes().len() as i64);
        if bytes.is_none() || slot.bytes.as_constant() != bytes {
            report(found, &place, format!("slot `{}` does not fit constant {id}", slot.name));
        }
    }
    program::walk(&program.steps, &mut |step| {
        if let Step::Run(run) = step
            && let Some(problem) = run_problem(module, run)
        {
            report(found, &place, problem);
        }
    });
}

fn run_problem(module: &Module, run: &Run) -> Option<String> {
    let Some(kernel) = module.kernels.get(run.kernel) else {
        return Some(format!("there is no kernel {}", run.kernel));
    };
    let (parameters, given) = (kernel.parameters.len(), run.arguments.len());
    if parameters != given {
        let name = &kernel.name;
        return Some(format!("kernel `{name}` has {parameters} parameters, but {given} are given"));
    }
    for (argument, &buffer) in run.arguments.iter().zip(&kernel.parameters) {
        let buffer = &kernel.buffers[buffer];
        let (reads, writes) = match buffer.scope {
            Scope::Parameter(Access::Read) => (true, false),
            Scope::Parameter(Access::Write) => (false, true),
            Scope::Parameter(Access::Update) => (true, true),
            Scope::Scratch | Scope::Register => (false, false),
        };
        if reads && !argument.reads || writes && !argument.writes {
            let (name, kernel) = (&buffer.name, &kernel.name);
            return Some(format!("the argument for `{name}` of kernel `{kernel}` hides an access"));
        }
    }
    None
}
