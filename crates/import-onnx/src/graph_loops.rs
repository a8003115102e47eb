//! Loops with a known number of iterations, written by operators that compute step by step.

use graph::{Op, TensorType, Type};
use sym::Expr;
use tensor::DType;

use crate::graph_writer::{Graph, Result, shape_error};
use crate::value::Value;

/// What one step of a loop gives.
pub(crate) struct Step {
    /// Carried to the next step; types as before.
    pub(crate) carried: Vec<Value>,
    /// Stacked along a new first axis.
    pub(crate) stacked: Vec<Value>,
}

impl Graph {
    /// Runs `step` on the number of the iteration, what is carried, and slices of `scanned` along
    /// their first axes. Gives what is carried at the end, then the stacks. `outer` are the values
    /// that the step reads from around it.
    pub(crate) fn scan(
        &mut self,
        trip_count: &Expr,
        carried: &[Value],
        scanned: &[Value],
        outer: &[&Value],
        step: impl FnOnce(&mut Graph, &Value, &[Value], &[Value]) -> Result<Step>,
    ) -> Result<Vec<Value>> {
        // A node made inside of the region must not be used outside of it.
        self.all_data(outer)?;
        let mut operands = Vec::new();
        for value in carried.iter().chain(scanned) {
            operands.push(self.data(value)?);
        }
        let tensor =
            |dtype, shape: &[Expr]| Type::Tensor(TensorType { dtype, shape: shape.into() });
        let mut types = vec![tensor(DType::I64, &[])];
        types.extend(carried.iter().map(|value| tensor(value.dtype(), value.shape())));
        types.extend(scanned.iter().map(|value| tensor(value.dtype(), &value.shape()[1..])));
        let parameters = self.builder.begin_region(&types);
        let results = self.step_results(&parameters, carried.len(), step);
        let ids = results.as_deref().unwrap_or_default().to_vec();
        let region = self.builder.end_region(&ids);
        results?;
        let op =
            Op::Scan { trip_count: trip_count.clone(), carried: carried.len(), reverse: false };
        let results =
            self.builder.add_with_regions(op, &operands, &[region]).map_err(shape_error)?;
        results.into_iter().map(|id| self.built(Ok(id))).collect()
    }

    fn step_results(
        &mut self,
        parameters: &[graph::ValueId],
        carried: usize,
        step: impl FnOnce(&mut Graph, &Value, &[Value], &[Value]) -> Result<Step>,
    ) -> Result<Vec<graph::ValueId>> {
        let values = parameters.iter().map(|&id| self.built(Ok(id)));
        let values = values.collect::<Result<Vec<Value>>>()?;
        let (states, slices) = values[1..].split_at(carried);
        let Step { carried, stacked } = step(self, &values[0], states, slices)?;
        carried.iter().chain(&stacked).map(|value| self.data(value)).collect()
    }
}
