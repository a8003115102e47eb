//! What a run tells of a model: facts that the model needs and that the run's inputs hold, or
//! values that it computes first.

use base::limits::exceeded;
use base::{Diagnostic, Limits, Result, codes};
use import_onnx::{FACT_ELEMENTS, FactKind, Facts, Imported, Need};
use tensor::{Structure, Tensor, Value};

use crate::options::Options;
use crate::port::Port;
use crate::port::declared_ports;
use crate::source::Source;

/// The inputs of a run.
#[derive(Clone, Copy)]
pub(crate) struct Inputs<'a> {
    /// As the model declares them.
    pub(crate) ports: &'a [Port],
    /// How each is made of tensors; empty if they all are tensors.
    pub(crate) structures: &'a [Structure],
    /// The tensors, in order.
    pub(crate) tensors: &'a [Tensor],
}

impl Inputs<'_> {
    fn structure(&self, name: &str) -> Option<Structure> {
        let number = self.ports.iter().position(|port| port.name == name)?;
        Some(self.structures.get(number).cloned().unwrap_or(Structure::Tensor))
    }

    pub(crate) fn tensor(&self, name: &str) -> Option<&Tensor> {
        let names = self.ports.iter().enumerate().flat_map(|(number, port)| {
            let structure = self.structures.get(number);
            structure.map_or_else(|| vec![port.name.clone()], |it| it.names(&port.name))
        });
        names.zip(self.tensors).find(|(other, _)| other == name).map(|(_, tensor)| tensor)
    }

    /// Adds what is needed to the facts; `computed` are the results of the function that computes
    /// what no input tells.
    ///
    /// # Errors
    /// Why a fact is needed that cannot be told.
    pub(crate) fn tell(&self, needs: &[Need], computed: &[Value], facts: &mut Facts) -> Result<()> {
        let shape = |tensor: &Tensor| tensor.shape().iter().map(|&extent| extent as i64).collect();
        let before = facts.clone();
        for Need { name, kind, result, reason } in needs {
            let unknown = || reason.clone();
            let tensor = || {
                let computed = result.and_then(|number| computed.get(number));
                let computed = computed.and_then(Value::as_tensor);
                computed.or_else(|| self.tensor(name)).ok_or_else(unknown)
            };
            match kind {
                FactKind::Sizes => facts.sizes = true,
                FactKind::Structure => {
                    let structure = self.structure(name).ok_or_else(unknown)?;
                    facts.structures.insert(name.clone(), structure);
                }
                FactKind::Shape => _ = facts.shapes.insert(name.clone(), shape(tensor()?)),
                FactKind::Value => {
                    let tensor = tensor()?;
                    if tensor.len() > FACT_ELEMENTS {
                        return Err(unknown().into());
                    }
                    if result.is_some() {
                        facts.computed.insert(name.clone(), tensor.clone());
                        continue;
                    }
                    facts.shapes.insert(name.clone(), shape(tensor));
                    facts.values.insert(name.clone(), tensor.clone());
                }
            }
        }
        // What has been told and is needed all the same does not help.
        if *facts == before {
            Err(needs.iter().map(|need| need.reason.clone()).collect())
        } else {
            Ok(())
        }
    }
}

/// Turns of a loop that take as long as to import a model with more facts.
const TURNS_OF_AN_IMPORT: u64 = 1024;

/// Does something with more and more facts, until it needs no others.
///
/// # Errors
/// Its own; when it needs facts too often.
pub(crate) fn until_told<T>(
    limits: &Limits,
    mut step: impl FnMut() -> Result<Option<T>>,
) -> Result<T> {
    let most = limits.iterations / TURNS_OF_AN_IMPORT;
    for _ in 0..most.max(1) {
        if let Some(done) = step()? {
            return Ok(done);
        }
    }
    Err(exceeded("iterations", format!("facts are needed more than {most} times"))
        .at("the model")
        .because(format!("to import it with others counts as {TURNS_OF_AN_IMPORT} turns of a loop"))
        .into())
}

/// Does something with sizes as symbols; or, where the model is not right for all sizes (an extent
/// of 1 may be repeated where it has a name), with sizes as facts.
///
/// # Errors
/// What is said of the first attempt.
pub fn attempt<T>(attempt: &dyn Fn(Facts) -> Result<T>) -> Result<T> {
    let is_misfit = |found: &Diagnostic| found.code == codes::WRONG_SHAPE;
    match attempt(Facts::default()) {
        Err(found) if found.iter().any(is_misfit) => {
            attempt(Facts { sizes: true, ..Facts::default() }).map_err(|_| found)
        }
        done => done,
    }
}

/// A model, imported with these facts and all others that it needs for a run with such inputs;
/// `compute` gives the results of its function, which are what no input tells.
///
/// # Errors
/// Those of the importer; facts that cannot be told.
pub(crate) fn import_for(
    source: &Source,
    options: &Options,
    mut facts: Facts,
    inputs: &[Value],
    compute: impl Fn(&Imported, &[Tensor]) -> Result<Vec<Value>>,
) -> Result<(Imported, Facts)> {
    let structures: Vec<Structure> = inputs.iter().map(Value::structure).collect();
    let tensors: Vec<Tensor> = inputs.iter().cloned().flat_map(Value::into_tensors).collect();
    until_told(&options.limits, || {
        let imported = source.import(options, &facts)?;
        if imported.needs.is_empty() {
            return Ok(Some((imported, std::mem::take(&mut facts))));
        }
        let ports = declared_ports(&source.inspect(&options.limits)?.inputs, options);
        let inputs = Inputs { ports: &ports, structures: &structures, tensors: &tensors };
        let is_computed = imported.needs.iter().any(|need| need.result.is_some());
        let computed = if is_computed { compute(&imported, &tensors)? } else { Vec::new() };
        inputs.tell(&imported.needs, &computed, &mut facts).map(|()| None)
    })
}
