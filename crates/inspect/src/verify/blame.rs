//! Where a model becomes wrong whose kernels are right one by one.
//!
//! The evaluator goes through the levels between the model and the run, in their order, and each is
//! compared with the imported function by the names of the model's values, which passes leave to
//! what is equal: `setup` and `main` after the passes over graphs, then both as they were lowered,
//! then what `setup` computed and what the kernels of a run read. The first value that differs, in
//! the order of the model, is to blame, and where leaving a pass or a rule out mends the outputs,
//! so is that.

use std::collections::{BTreeMap, BTreeSet};

use base::Result;
use eval::EvaluationPrecision;
use graph::{Function, ValueId};
use module::Module;
use tensor::{Tensor, Value};
use tilewright::compiled::{FrontHalf, front};
use tilewright::{Executable, Options, optimisations, rules};

use super::kernels::{Values, operands, settings};
use super::memory;
use super::outputs::Reference;

/// Says what is to blame for wrong outputs.
///
/// # Errors
/// Faults of the evaluator.
pub(super) fn blame(
    executable: &Executable,
    inputs: &[Value],
    reference: &Reference,
) -> Result<String> {
    let (variant, runs) = executable.met(inputs)?;
    let inputs = &*Value::components_of(inputs);
    let front = variant.front();
    let halves = Halves::evaluate(executable, front, inputs)?;
    if let Some(found) = halves.first_difference(front, reference) {
        let culprit = culprit(executable, inputs, reference)?;
        return Ok(format!("{culprit}: {found}"));
    }
    let declared = settings(executable, EvaluationPrecision::Declared);
    let segments =
        runs.iter().map(|run| (&*run.specialisation, operands(run, &halves.setup.results)));
    let lowered: Vec<_> = std::iter::once((variant.setup(), Vec::new())).chain(segments).collect();
    let mut values = Vec::new();
    for (half, inputs) in &lowered {
        let function = &half.lowered().function;
        let computed = Values::compute(function, half.module(), inputs, declared)?;
        let named = named(function, &computed);
        if let Some(found) = differing(reference, &named, false) {
            return Ok(format!("what binds and lowers graphs: {found}"));
        }
        values.push(computed);
    }
    if let Some(found) = memory::constants(&variant, &values[0]) {
        return Ok(format!("what `setup` computed: {found}"));
    }
    for (run, values) in runs.iter().zip(&values[1..]) {
        if let Some(found) = memory::first_difference(executable, &variant, run, values)? {
            return Ok(found);
        }
    }
    Ok("graphs and kernels are right, and so is what each kernel reads: what is left is how the \
        outputs are copied or kept between runs"
        .to_owned())
}

/// A value by its name, and the place in the model of the node that makes it.
type Named<'a> = BTreeMap<&'a str, (&'a Tensor, String)>;

/// The values of a function that have names of the model.
fn named<'a>(function: &'a Function, values: &'a Values) -> Named<'a> {
    let mut found = Named::new();
    for (&value, tensor) in &values.of {
        if let Some(name) = &function.values[value].name {
            found.entry(name).or_insert_with(|| (tensor, place(function, value)));
        }
    }
    found
}

/// Where in the model a value comes from.
fn place(function: &Function, value: ValueId) -> String {
    function.place_of(value).unwrap_or_else(|| "the inputs".to_owned())
}

/// The first value, in the order of the model, that a level has and that differs. Behind the
/// passes over graphs a value may have another form, such as codes of short floats, and is then
/// taken for one that is gone.
fn differing(reference: &Reference, level: &Named<'_>, keeps_types: bool) -> Option<String> {
    let function = &*reference.function;
    let found = |value: ValueId| {
        let (actual, place) = level.get(function.values[value].name.as_deref()?)?;
        let expected = reference.declared.of.get(&value)?;
        let is_alike = (actual.dtype(), actual.shape()) == (expected.dtype(), expected.shape());
        (is_alike || keeps_types).then_some((*actual, place))
    };
    reference.declared.of.keys().find_map(|&value| {
        let (actual, place) = found(value)?;
        let wrong = reference.wrong(value, actual)?;
        let name = function.values[value].name.as_deref().unwrap_or_default();
        let behind = gone(function, value, &|value| found(value).is_some());
        Some(format!("{place}: value `{name}`: {wrong}{behind}"))
    })
}

/// The nodes of the model that make what a value reads and a level has no more.
fn gone(function: &Function, value: ValueId, is_there: &dyn Fn(ValueId) -> bool) -> String {
    let (own, mut places, mut work) = (place(function, value), Vec::new(), vec![value]);
    let mut seen = BTreeSet::new();
    while let Some(value) = work.pop() {
        let Some((node, _)) = function.producer(value) else { continue };
        let found = place(function, value);
        if found != own && !places.contains(&found) {
            places.push(found);
        }
        let operands = function.nodes[node].operands.iter();
        work.extend(operands.filter(|&&operand| !is_there(operand) && seen.insert(operand)));
    }
    match places.is_empty() {
        true => String::new(),
        false => format!("; it took the place of {}, too", places.join(", ")),
    }
}

/// Both halves of a model, as the evaluator computes them.
struct Halves {
    setup: Values,
    main: Values,
}

impl Halves {
    fn evaluate(executable: &Executable, front: &FrontHalf, inputs: &[Value]) -> Result<Halves> {
        let module: &Module = &front.module;
        let declared = settings(executable, EvaluationPrecision::Declared);
        let none: [Tensor; 0] = [];
        let setup = Values::compute(&module.functions[front.setup], module, &none, declared)?;
        let constants = setup.results.iter().cloned().map(Value::from);
        let inputs: Vec<Value> = inputs.iter().cloned().chain(constants).collect();
        let main = Values::compute(&front.main, module, &inputs, declared)?;
        Ok(Halves { setup, main })
    }

    /// The first value that differs; else, the first output.
    fn first_difference(&self, front: &FrontHalf, reference: &Reference) -> Option<String> {
        let main = &*front.main;
        let mut level = named(main, &self.main);
        level.extend(named(&front.module.functions[front.setup], &self.setup));
        let output = |number: usize| {
            let wrong = self.wrong_output(reference, number)?;
            let result = self.main.result_of[number];
            let imported = &*reference.function;
            let named = |value: ValueId| imported.values[value].name.as_deref();
            let is_there = |value| named(value).is_some_and(|name| level.contains_key(name));
            let value = *imported.results().get(result)?;
            let (place, behind) =
                (place(main, main.results()[result]), gone(imported, value, &is_there));
            Some(format!("{place}: output `{}`: {wrong}{behind}", main.result_names[result]))
        };
        differing(reference, &level, true).or_else(|| (0..self.main.results.len()).find_map(output))
    }

    fn wrong_output(&self, reference: &Reference, number: usize) -> Option<String> {
        reference.result(number, self.main.results.get(number)?).2
    }
}

/// The pass, and the rule, without which the outputs are right; or that a new compile is right.
fn culprit(executable: &Executable, inputs: &[Value], reference: &Reference) -> Result<String> {
    let facts = reference.facts.clone();
    let is_right = |left_out: &[&str]| -> Result<bool> {
        let mut options: Options = executable.options().clone();
        options.disabled.extend(left_out.iter().map(|&name| name.to_owned()));
        let front = front(&reference.source, &options, executable.target(), &facts)?;
        let Ok(halves) = Halves::evaluate(executable, &front, inputs) else { return Ok(false) };
        let count = halves.main.results.len();
        Ok(count == reference.declared.results.len()
            && (0..count).all(|number| halves.wrong_output(reference, number).is_none()))
    };
    if is_right(&[])? {
        return Ok("what is kept from an earlier compile".to_owned());
    }
    let mut said = Vec::new();
    for (kind, names) in [("pass", optimisations()), ("rule", rules())] {
        if !is_right(&names)? {
            continue;
        }
        // With so many of them left out the outputs are right, with so many they are not.
        let (mut right, mut wrong) = (names.len(), 0);
        while wrong + 1 < right {
            let middle = wrong.midpoint(right);
            match is_right(&names[..middle])? {
                true => right = middle,
                false => wrong = middle,
            }
        }
        said.push(format!("{kind} `{}`", names[right - 1]));
    }
    let said = if said.is_empty() { String::new() } else { format!(" ({})", said.join(", ")) };
    Ok(format!("the passes over graphs{said}"))
}
