//! Products of floats with weights that stand for integers of 8 bits or fewer: they stay bytes, as
//! few as the model has, and kernels convert them where they load them.
//!
//! before: `contract x[.., k], mul(cast<f32>(w), t)[k, ..] accumulate f32`
//! after:  `mul(contract x[.., k], w[k, ..] accumulate f32, t)`
//!
//! The numbers are those of the products before but for the rounding of products and sums.

use graph::{Built, Function, IterationSpace, Rewriter, ValueId};
use tensor::DType;

use crate::integers::turned;
use crate::quantised::{Quantised, as_type, moved};

/// The operand of a product that stands for integers, a matrix.
pub(crate) struct Weights {
    operand: usize,
    /// With those of its scales that are one for all terms.
    pub(crate) found: Quantised,
}

impl Weights {
    /// What an operand of a contraction stands for, if products can have it as bytes.
    pub(crate) fn of(
        function: &Function,
        space: &IterationSpace,
        operand: usize,
        found: Quantised,
    ) -> Option<Weights> {
        let index = &space.operands[operand];
        let is_matrix = index.iter().all(|index| index.as_symbol().is_some());
        found.whole.plain(function).filter(|_| is_matrix)?;
        Some(Weights { operand, found })
    }

    /// The sum of products of floats with the weights as bytes.
    pub(crate) fn sum(
        &self,
        rewriter: &mut Rewriter<'_>,
        space: &IterationSpace,
        of: [ValueId; 2],
    ) -> Built {
        let (source, whole) = (rewriter.source, &self.found.whole);
        let (Some((integer, dtype)), Some(own)) = (whole.plain(source), whole.dtype(source)) else {
            return Err("weights that stand for no bytes".to_owned());
        };
        // Less their zero point they are of the wanted type, as they are of their own.
        let is_difference = integer == whole.value;
        let integer = as_type(rewriter, integer, if is_difference { dtype } else { own })?;
        let integer = turned(rewriter, integer, dtype)?;
        let zero = rewriter.builder.scalar(dtype, 0.0);
        let mut operands = of.map(|operand| rewriter.get(operand));
        let number = self.operand;
        operands[number] = moved(rewriter, of[number], whole, (integer, zero))?;
        let ([lhs, rhs], space) = (operands, space.clone());
        rewriter.builder.contract(space, lhs, rhs, DType::F32, DType::F32)
    }
}
