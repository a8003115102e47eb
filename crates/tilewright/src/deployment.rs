//! A model lowered for its deployment: what it is made of before it becomes C or machine code.
//!
//! Inputs that are given fix their shapes, and values on which shapes in the model depend. Where
//! all sizes are known and the plan is one segment there is one program; else a plan, whose
//! segments have free extents.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use backend::Target;
use backend_c::{CPort, CTexts, Interface, refuse_strings};
use base::{Diagnostic, Diagnostics, FunctionId, Result};
use front::{Facts, Imported, Port, in_order};
use graph::{Function, ValueId};
use lower::Role;
use sym::{Expr, SymbolId};
use tensor::{Kind, Tensor, Value};

use crate::executable::draws;
use crate::facts::Inputs;
use crate::options::Options;
use crate::pipeline::{FrontHalf, front_of};
use crate::plan::Plan;
use crate::reference::evaluated;
use crate::source::Source;
use crate::specialisation::{self, LoweredFunction};
use crate::variant::bound;

/// What to compile for deployment.
pub struct DeploymentRequest<'a> {
    pub source: &'a Source,
    pub options: &'a Options,
    /// Of the model, from which those of functions are made.
    pub name: &'a str,
    /// Of the model's inputs, in order, those that are known; what follows is not.
    pub inputs: &'a [Option<Value>],
}

/// A model, lowered.
pub(crate) struct LoweredModel {
    pub(crate) setup: LoweredFunction,
    pub(crate) main: LoweredMain,
    /// Inputs and outputs of the program: the components of the model's, but for known strings.
    pub(crate) interface: Interface,
    pub(crate) contract: OutputContract,
}

/// What runs.
pub(crate) enum LoweredMain {
    /// A program of known sizes.
    Program(LoweredFunction),
    /// A plan, and its segments: how many of their operands are values, their programs, and what
    /// must hold of sizes.
    Plan(Function, Vec<(FunctionId, usize, LoweredFunction)>),
}

/// How the model's outputs are made of the program's.
#[derive(Clone, Debug)]
pub(crate) struct OutputContract {
    /// What the model's outputs are.
    kinds: Vec<Kind>,
    texts: CTexts,
    /// Whether it draws random numbers.
    pub(crate) draws: bool,
}

impl OutputContract {
    /// The model's outputs, of what the program gives.
    pub(crate) fn outputs(&self, mut results: Vec<Value>) -> Vec<Value> {
        self.texts.put_into(&mut results);
        Value::all_from_components(&self.kinds, results)
    }
}

/// Whether code with this interface is for inputs with these components.
pub(crate) fn is_for(interface: &Interface, components: &[Value]) -> bool {
    let ports = &interface.inputs;
    ports.len() == components.len()
        && ports.iter().zip(components).all(|(port, it)| port.is_for(it))
}

/// The source of a model file, the name that its code has, and what is known of its inputs, in
/// order.
///
/// # Errors
/// What is wrong with the file or with the inputs.
pub(crate) fn deployed_source(
    model: &Path,
    options: &Options,
    inputs: &BTreeMap<String, Value>,
) -> Result<(Source, String, Vec<Option<Value>>)> {
    let name = model.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let source = Source::read(model, &options.limits)?;
    let given = inputs.iter().map(|(name, value)| (name.clone(), Some(value.clone())));
    let inputs = in_order(&source.declared(options)?.0, given.collect(), &mut |_, _| Ok(None))?;
    Ok((source, name, inputs))
}

/// Lowers a model for a target.
///
/// # Errors
/// What is wrong with the model, its inputs or the options.
pub(crate) fn lowered(request: &DeploymentRequest<'_>, target: &Target) -> Result<LoweredModel> {
    let &DeploymentRequest { source, options, name, inputs: known } = request;
    let known = Known::of(&source.declared(options)?.0, known)?;
    let (DeployedFront { front, kinds, texts }, facts) = known.front_and_facts(request, target)?;
    let inputs = &front.inputs;
    refuse_strings(&front.main)?;
    let symbols = known.symbols(&front)?;
    let plan = Plan::new(&front.module, front.plan, inputs.len());
    let mut function = Function::clone(&plan.function);
    function.substitute(&symbols.iter().map(|(&id, &value)| (id, value.into())).collect());
    let request = |function, role, symbols| {
        let own = (&front.module, &front.module.functions[function]);
        specialisation::Request::new(own, symbols, role, (target, options))
    };
    let no_symbols = BTreeMap::new();
    let setup = LoweredFunction::new(request(front.setup, Role::Setup, &no_symbols))?;
    let constants = setup.lowered.constants.offsets.clone();
    let input = |(named, &value): (&Port, &ValueId)| CPort {
        value: facts.values.get(&named.name).cloned(),
        ..CPort::of(&named.name, function.ty(value))
    };
    let output = |(number, (&value, name)): (usize, (&ValueId, &String))| CPort {
        strings: texts.list(number).to_vec(),
        ..CPort::of(name, function.ty(value))
    };
    let results = function.results().iter().zip(&front.imported.result_names).enumerate();
    let interface = Interface {
        name: name.to_owned(),
        inputs: inputs.iter().zip(function.parameters()).map(input).collect(),
        outputs: results.map(output).collect(),
    };
    let is_free = |extent: &Expr| extent.as_constant().is_none();
    let free = function.values.values().any(|value| value.ty.exprs().iter().any(is_free));
    let main = match plan.only_segment().filter(|_| !free) {
        Some(segment) => {
            let role = plan.segment(segment).role(&constants);
            LoweredMain::Program(LoweredFunction::new(request(segment, role, &symbols))?)
        }
        None => {
            let segments = plan.segments().map(|(id, segment)| {
                let role = segment.role(&constants);
                let lowered = LoweredFunction::with_free_extents(request(id, role, &symbols))?;
                Ok((id, segment.inputs, lowered))
            });
            let segments = segments.collect::<Result<_>>()?;
            LoweredMain::Plan(function, segments)
        }
    };
    let contract = OutputContract { kinds, texts, draws: draws(&front.imported) };
    Ok(LoweredModel { setup, main, interface, contract })
}

/// A model whose results hold no strings; what its outputs are, and the strings among them.
fn without_strings(imported: Imported) -> (Imported, Vec<Kind>, CTexts) {
    let Imported { mut module, outputs: kinds, needs, .. } = imported;
    let mut texts = CTexts::default();
    if needs.is_empty() {
        for (_, function) in module.functions.iter_mut() {
            let without = CTexts::take_out_of(function);
            (*function, texts) = (Arc::new(without.0), without.1);
        }
    }
    (Imported { needs, ..Imported::of_module(module) }, kinds, texts)
}

/// A front half for deployment, and what its results leave out.
struct DeployedFront {
    front: FrontHalf,
    kinds: Vec<Kind>,
    texts: CTexts,
}

/// What is known of a model's inputs.
struct Known {
    /// Those that are known.
    ports: Vec<Port>,
    /// All components, in the order of the model.
    all: Vec<Option<Value>>,
}

impl Known {
    /// These values; what follows is not known.
    fn of(declared: &[Port], inputs: &[Option<Value>]) -> Result<Known> {
        let mut known = Known { ports: Vec::new(), all: Vec::new() };
        let values = inputs.iter().map(Option::as_ref).chain(std::iter::repeat(None));
        for (port, value) in declared.iter().zip(values) {
            let Some(value) = value else {
                known.all.extend(port.kind.component_names(&port.name).iter().map(|_| None));
                continue;
            };
            port.check(value)?;
            known.ports.push(port.clone());
            known.all.extend(value.clone().into_components().into_iter().map(Some));
        }
        Ok(known)
    }

    /// The front half for what is known: the most specific that is one segment, else the plan for
    /// all values.
    fn front_and_facts(
        &self,
        request: &DeploymentRequest<'_>,
        target: &Target,
    ) -> Result<(DeployedFront, Facts)> {
        // Of known inputs sizes are known.
        let sizes = Facts { sizes: true, ..Facts::default() };
        if !self.ports.is_empty()
            && let Ok(made) = self.front_for(request, target, sizes)
            && let FrontHalf { module, imported, plan, .. } = &made.0.front
            && Plan::new(module, *plan, imported.parameters().len()).only_segment().is_some()
        {
            return Ok(made);
        }
        self.front_for(request, target, Facts::default())
    }

    /// The front half, and what is known of the inputs: their shapes, and values where the model
    /// needs some.
    fn front_for(
        &self,
        request: &DeploymentRequest<'_>,
        target: &Target,
        mut facts: Facts,
    ) -> Result<(DeployedFront, Facts)> {
        let DeploymentRequest { source, options, .. } = *request;
        let components: Vec<Value> = self.all.iter().flatten().cloned().collect();
        let known = Inputs { ports: &self.ports, components: &components };
        let names = self.ports.iter().flat_map(|port| port.kind.component_names(&port.name));
        for (name, tensor) in names.zip(components.iter().map(Value::as_tensor)) {
            let Some(tensor) = tensor else { continue };
            let shape = tensor.shape().iter().map(|&extent| extent as i64).collect();
            facts.shapes.insert(name, shape);
        }
        // What is computed is known for the inputs that it is computed from.
        let mut values = BTreeMap::new();
        let compute = |DeployedFront { front, .. }: &DeployedFront| {
            let needed = front.imported.without_unused_parameters();
            let tensor = |name: &String| {
                let unknown = || Diagnostics::from(front.needs[0].reason.clone());
                known.component(name).and_then(Value::as_tensor).cloned().ok_or_else(unknown)
            };
            let names = &needed.parameter_names;
            let inputs = names.iter().map(tensor).collect::<Result<Vec<Tensor>>>()?;
            values.extend(names.iter().cloned().zip(inputs.iter().cloned()));
            let precision = eval::EvaluationPrecision::Declared;
            evaluated(&front.module, &needed, options, &inputs, precision)
        };
        let make = |facts: &Facts| {
            let imported = options.phases.time("import", || source.import(options, facts))?;
            let (imported, kinds, texts) = without_strings(imported);
            Ok(DeployedFront {
                front: front_of(imported, options, target, &Arc::default(), &mut |_, _| {})?,
                kinds,
                texts,
            })
        };
        let (made, facts) =
            known.settle(&options.limits, facts, make, |made| &made.front.needs, compute)?;
        values.extend(facts.values);
        Ok((made, Facts { values, ..facts }))
    }

    /// The values of symbols that the shapes of the known inputs give.
    fn symbols(&self, front: &FrontHalf) -> Result<BTreeMap<SymbolId, i64>> {
        let function = &front.imported;
        if let Some(all) = self.all.iter().cloned().collect::<Option<Vec<Value>>>() {
            let values = eval::graph::bind_symbols(function, &all);
            return Ok(bound(&values.map_err(|fault| Diagnostics::from(Diagnostic::from(fault)))?));
        }
        let mut symbols = BTreeMap::new();
        for (&value, component) in function.parameters().iter().zip(&self.all) {
            let Some(tensor) = component.as_ref().and_then(Value::as_tensor) else { continue };
            for (extent, &found) in function.ty(value).exprs().iter().zip(tensor.shape()) {
                symbols.extend(extent.as_symbol().map(|symbol| (symbol, found as i64)));
            }
        }
        Ok(symbols)
    }
}
