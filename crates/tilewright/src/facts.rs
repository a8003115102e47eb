//! What a run tells of a model: facts that the model needs and that the run's inputs hold, or
//! values that it computes first.

use base::limits::{exceeded, more_than};
use base::{Diagnostic, Limits, Result, codes};
use front::{FACT_ELEMENTS, FactKind, Facts, Need, Port};
use graph::ElementType;
use tensor::{Given, Tensor, Value};

/// Turns of a loop that take as long as to import a model with more facts.
const TURNS_OF_AN_IMPORT: u64 = 1024;

/// The inputs of a run.
#[derive(Clone, Copy)]
pub(crate) struct Inputs<'a, G> {
    /// As the model declares them.
    pub(crate) ports: &'a [Port],
    /// Their components, in order.
    pub(crate) components: &'a [G],
}

impl<G: Given> Inputs<'_, G> {
    /// The component of this name.
    pub(crate) fn component(&self, name: &str) -> Option<&G> {
        let names = self.ports.iter().flat_map(|port| port.kind.component_names(&port.name));
        names.zip(self.components).find(|(other, _)| other == name).map(|(_, component)| component)
    }

    /// What `make` makes of facts that need no others, and the facts: those that are needed are
    /// told of the inputs, or are results of `compute`, round after round.
    ///
    /// # Errors
    /// Those of both; why a fact is needed that cannot be told, or too many rounds.
    pub(crate) fn settle<T>(
        &self,
        limits: &Limits,
        mut facts: Facts,
        make: impl Fn(&Facts) -> Result<T>,
        needs: fn(&T) -> &[Need],
        mut compute: impl FnMut(&T) -> Result<Vec<Value>>,
    ) -> Result<(T, Facts)> {
        let most = limits.iterations / TURNS_OF_AN_IMPORT;
        for _ in 0..most.max(1) {
            let made = make(&facts)?;
            let needs = needs(&made);
            if needs.is_empty() {
                return Ok((made, facts));
            }
            let computed = match needs.iter().any(|need| need.result.is_some()) {
                true => compute(&made)?,
                false => Vec::new(),
            };
            self.tell(needs, &computed, &mut facts)?;
        }
        let message = format!("facts are needed more than {most} times");
        let because =
            format!("to import it with others counts as {TURNS_OF_AN_IMPORT} turns of a loop");
        let needed = more_than(limits.iterations);
        Err(exceeded("iterations", needed, message).at("the model").because(because).into())
    }

    /// Adds what is needed to the facts; `computed` are the results of the function that computes
    /// what no input tells.
    fn tell(&self, needs: &[Need], computed: &[Value], facts: &mut Facts) -> Result<()> {
        let shape = |tensor: &Tensor| tensor.shape().iter().map(|&extent| extent as i64).collect();
        let before = facts.clone();
        for Need { name, kind, result, reason } in needs {
            let unknown =
                || reason.clone().remedy(format!("give the input, `--input {name}=FILE`"));
            let tensor = || {
                let computed = result.and_then(|number| computed.get(number));
                let computed = computed.and_then(Value::as_tensor);
                let given = || self.component(name).and_then(Given::as_tensor);
                computed.or_else(given).ok_or_else(unknown)
            };
            match kind {
                FactKind::Sizes => facts.sizes = true,
                FactKind::Type => {
                    let list = self.component(name).ok_or_else(unknown)?.clone().into();
                    let ty = ElementType::of_value(&list).ok_or_else(unknown)?;
                    facts.types.insert(name.clone(), ty);
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
