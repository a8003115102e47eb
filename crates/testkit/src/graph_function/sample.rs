//! What random functions may hold, and what comes of them.

use std::sync::Arc;

use base::{ConstantId, Id};
use eval::graph::evaluate_observed;
use eval::{EvaluationFault, EvaluationPrecision};
use graph::{Function, ValueId};
use module::{Constant, Module};
use tensor::{Tensor, Value};

/// What may occur.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GraphOptions {
    /// The number of nodes aimed at.
    pub nodes: usize,
    /// Whether extents may be symbolic.
    pub symbolic: bool,
    /// Whether there may be regions.
    pub control_flow: bool,
    /// Whether elements may be of few bits: floats of 8 and 4, integers of 4 and 2.
    pub few_bits: bool,
    /// Whether extents may be known only while running.
    pub sizes: bool,
    /// Whether there may be sequences and optional values, which may be results.
    pub lists: bool,
}

/// A function, and what it takes to run it.
#[derive(Clone, Debug)]
pub struct GraphSample {
    /// Well-formed.
    pub function: Function,
    /// The weights, by constant.
    pub constants: Vec<Tensor>,
    /// One an input; the symbol `n`, where there is one, is 3.
    pub inputs: Vec<Tensor>,
}

impl GraphSample {
    /// What the evaluator computes: the tensors that the results are made of.
    ///
    /// # Errors
    /// What the function meets.
    pub fn evaluated(&self) -> Result<Vec<Tensor>, EvaluationFault> {
        let constants = |id: ConstantId| self.constants[id.index()].clone();
        let precision = EvaluationPrecision::Declared;
        let observe = &mut |_: ValueId, _: &Tensor| {};
        let (function, inputs) = (&self.function, &self.inputs);
        let values = evaluate_observed(function, &constants, inputs, precision, observe)?;
        Ok(values.into_iter().flat_map(Value::into_tensors).collect())
    }

    /// A module of the function and its constants.
    #[must_use]
    pub fn module(&self) -> Module {
        let mut module = Module::default();
        module.functions.push(Arc::new(self.function.clone()));
        for (number, tensor) in self.constants.iter().enumerate() {
            let name = format!("weight{number}");
            module.constants.push(Constant { name, tensor: tensor.clone() });
        }
        module
    }
}
