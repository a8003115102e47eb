//! What a front end is told, and what it gives.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use base::{Diagnostics, Limits};
use graph::{ElementType, Function, ValueId};
use module::Module;
use tensor::{DType, Kind};

use crate::facts::Need;
use crate::port::{Port, ports};

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
    /// In which numbers a language model keeps keys and values.
    pub key_values: KeyValues,
    /// What is refused as too large.
    pub limits: Limits,
}

/// In which numbers a language model keeps keys and values of the tokens of a text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum KeyValues {
    /// As they are computed.
    #[default]
    F32,
    /// Rounded to bf16.
    Bf16,
    /// Rounded to f16.
    F16,
    /// Rounded to 8 bits, with a scale for what a head has of a token.
    Int8,
}

impl KeyValues {
    /// All of them, by name.
    pub const ALL: [(&str, KeyValues); 4] = [
        ("f32", KeyValues::F32),
        ("bf16", KeyValues::Bf16),
        ("f16", KeyValues::F16),
        ("int8", KeyValues::Int8),
    ];

    /// Those of a name, if there are such.
    #[must_use]
    pub fn of_name(name: &str) -> Option<KeyValues> {
        KeyValues::ALL.into_iter().find(|row| row.0 == name).map(|row| row.1)
    }

    /// Their name.
    #[must_use]
    pub fn name(self) -> &'static str {
        KeyValues::ALL.into_iter().find(|row| row.1 == self).map_or("f32", |row| row.0)
    }

    /// The element type.
    #[must_use]
    pub fn dtype(self) -> DType {
        match self {
            KeyValues::F32 => DType::F32,
            KeyValues::Bf16 => DType::BF16,
            KeyValues::F16 => DType::F16,
            KeyValues::Int8 => DType::I8,
        }
    }
}

/// A model as a module, or what computes the facts that it needs.
#[derive(Clone, Debug)]
pub struct Imported {
    /// It holds one function: the model, whose parameters and results are the components of its
    /// inputs and outputs ([`tensor::Value::into_components`]), or, where there are needs, what
    /// computes the values that they name.
    pub module: Module,
    /// What the model's inputs are; empty where there are needs.
    pub inputs: Vec<Kind>,
    /// What the model's outputs are; empty where there are needs.
    pub outputs: Vec<Kind>,
    /// Facts without which the model cannot be imported; none of a whole model.
    pub needs: Vec<Need>,
}

impl Imported {
    /// A module with one graph function, whose parameters and results are values of their own.
    #[must_use]
    pub fn of_module(module: Module) -> Imported {
        let kinds = |values: fn(&Function) -> &[ValueId]| {
            let of = |function: &Arc<Function>| {
                let kind = |&value: &ValueId| ElementType::of(function.ty(value)).kind().0;
                values(function).iter().map(kind).collect::<Vec<Kind>>()
            };
            module.functions.values().flat_map(of).collect()
        };
        let (inputs, outputs) = (kinds(Function::parameters), kinds(Function::results));
        Imported { module, inputs, outputs, needs: Vec::new() }
    }

    /// The function.
    #[must_use]
    pub fn function(&self) -> &Arc<Function> {
        let Some(function) = self.module.functions.values().next() else {
            unreachable!("an imported module has a function")
        };
        function
    }

    /// The model's inputs and outputs, where there are no needs.
    #[must_use]
    pub fn ports(&self) -> (Vec<Port>, Vec<Port>) {
        let function = &**self.function();
        let inputs = (function.parameters(), &function.parameter_names[..]);
        let outputs = (function.results(), &function.result_names[..]);
        (ports(function, inputs, &self.inputs), ports(function, outputs, &self.outputs))
    }

    /// The whole model.
    ///
    /// # Errors
    /// Why it needs more facts.
    pub fn whole(self) -> base::Result<Module> {
        self.needs.into_iter().map(|need| need.reason).collect::<Diagnostics>().or_ok(self.module)
    }
}
