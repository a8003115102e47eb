//! What the user can say about an import.

use std::collections::{BTreeMap, BTreeSet};

use base::{Diagnostics, Limits};
use front::Need;
use module::Module;
use tensor::{Scalar, Structure, Tensor, Value};

/// How to import a model.
#[derive(Clone, Debug, Default)]
pub struct ImportOptions {
    /// Values of named dimensions (`--dim NAME=N`).
    pub dims: BTreeMap<String, i64>,
    /// Concrete shapes of inputs by name; they bind the symbols of those inputs' dimensions.
    pub input_shapes: BTreeMap<String, Vec<i64>>,
    /// Names of constants of the model that become literals: passes may read their values, and they
    /// cannot be replaced by other weights.
    pub literals: BTreeSet<String>,
    /// What is refused as too large.
    pub limits: Limits,
}

/// A model as a module, or what computes the facts that it needs.
#[derive(Clone, Debug)]
pub struct Imported {
    /// It holds one function on tensors: the model, or, where there are needs, what computes the
    /// values that they name.
    pub module: Module,
    /// How the model's inputs are made of tensors, its parameters.
    pub inputs: Vec<Structure>,
    /// How the model's outputs are made of tensors: its results, and strings.
    pub outputs: Vec<Structure>,
    /// Where strings stand among those.
    pub strings: Strings,
    /// Facts without which the model cannot be imported; none of a whole model.
    pub needs: Vec<Need>,
}

impl Imported {
    /// The whole model.
    ///
    /// # Errors
    /// Why it needs more facts.
    pub fn whole(self) -> base::Result<Module> {
        self.needs.into_iter().map(|need| need.reason).collect::<Diagnostics>().or_ok(self.module)
    }
}

/// Tensors of strings among what a model's outputs are made of, by number.
#[derive(Clone, Debug, Default)]
pub struct Strings {
    /// Those that are known: the function does not give them.
    pub known: BTreeMap<usize, Tensor>,
    /// Those that data choose: the function gives i64 numbers of strings in these lists.
    pub coded: BTreeMap<usize, Vec<String>>,
}

impl Strings {
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.known.is_empty() && self.coded.is_empty()
    }

    /// As [`Self::put_into`], among tensors.
    pub fn put_into_tensors(&self, results: &mut Vec<Tensor>) {
        let mut values = std::mem::take(results).into_iter().map(Value::from).collect();
        self.put_into(&mut values);
        results.extend(values.into_iter().flat_map(Value::into_tensors));
    }

    /// Puts them among what the function gives.
    pub fn put_into(&self, results: &mut Vec<Value>) {
        for (&number, strings) in &self.known {
            results.insert(number, strings.clone().into());
        }
        for (&number, list) in &self.coded {
            let Value::Tensor(codes) = &results[number] else { continue };
            let text = |code: Scalar| {
                usize::try_from(code.as_i64()).ok().and_then(|code| list.get(code).cloned())
            };
            let texts = codes.scalars().map(|code| text(code).unwrap_or_default()).collect();
            results[number] = Tensor::from_strings(codes.shape(), texts).into();
        }
    }
}
