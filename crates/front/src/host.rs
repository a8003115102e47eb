//! Host functions: computed now where all of their operands are known, else nodes.

use base::Diagnostic;
use eval::host::{HostCall, call_host};
use graph::{HostAttributes, Op, TensorType};
use sym::Expr;
use tensor::{DType, Tensor};

use crate::value::{Operand, constant_value};
use crate::writer::{Accepted, Graph};

/// The element type of a result, and its extents; none for one that only the function knows.
pub type HostResult = (DType, Vec<Option<Expr>>);

/// Names by which a front end tells a host function more.
pub type Told<'a> = &'a [(&'a str, &'a str)];

impl Graph {
    /// The results of a host function; `output` names those that are computed now.
    ///
    /// # Errors
    /// What the function refuses.
    pub fn host(
        &mut self,
        (name, output): (&str, &str),
        told: Told<'_>,
        operands: &[&Operand],
        results: &[HostResult],
    ) -> Accepted<Vec<Operand>> {
        let told = told.iter().map(|&(name, text)| (name.to_owned(), text.to_owned()));
        let attributes = HostAttributes(told.collect());
        let known = operands.iter().map(|operand| operand.tensor()).collect::<Option<Vec<_>>>();
        if let Some(operands) = known {
            let dtypes: Vec<DType> = results.iter().map(|(dtype, _)| *dtype).collect();
            let mut refusal = None;
            let room = &mut |bytes: u64| {
                let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
                let counted = self.count_computed(bytes, "bytes of strings");
                counted.map_err(|found| {
                    let code = found.code;
                    refusal = Some(found);
                    eval::EvaluationFault::new(code, "too many strings")
                })
            };
            let attributes = &attributes;
            let call = HostCall { name, attributes, dtypes: &dtypes, operands: &operands, room };
            let computed = call_host(call).map_err(|fault| {
                refusal.unwrap_or_else(|| {
                    Diagnostic::error(fault.code, format!("the host function `{name}` fails"))
                        .because(fault.message)
                        .remedy("check the strings and files that the model is given")
                })
            })?;
            for tensor in &computed {
                let shape: Vec<Expr> = tensor.shape().iter().map(|&it| Expr::from(it)).collect();
                self.check_size(&shape)?;
            }
            return Ok(computed.into_iter().map(|it| constant_value(output, it, true)).collect());
        }
        let operands = self.all_data(operands.iter().copied())?;
        let mut types = Vec::new();
        for (dtype, extents) in results {
            let extent = |it: &Option<Expr>| it.clone().unwrap_or_else(|| self.unknown_extent());
            let shape = extents.iter().map(extent).collect();
            types.push(TensorType { dtype: *dtype, shape });
        }
        let op = Op::Host { name: name.to_owned(), attributes, results: types };
        let made = self.builder.add(op, &operands);
        let made = self.built_all(made)?;
        self.need_extents(&made)?;
        Ok(made)
    }
}

impl Operand {
    /// The tensor, where all of it is known.
    fn tensor(&self) -> Option<Tensor> {
        if let Some(weight) = self.weight() {
            return Some(weight.tensor.clone());
        }
        let shape = self.constant_shape()?;
        Some(Tensor::from_scalars(self.dtype(), &shape, &self.numbers()?))
    }
}
