//! Products of floats with weights that stand for integers of 8 bits or fewer: they stay bytes, as
//! few as the model has, and kernels convert them where they load them.
//!
//! before: `contract x[.., k], mul(cast<f32>(w), t)[k, ..] accumulate f32`
//! after:  `mul(contract x[.., k], w[k, ..] accumulate f32, t)`
//!
//! A scale for each block of terms scales the sum of the block:
//!
//! after:  `sum over b of mul(contract x[.., b, k], w[b, k, ..] accumulate f32, t[b, ..])`
//!
//! The numbers are those of the products before but for the rounding of products and sums.

use std::slice::from_ref;

use base::Id;
use graph::{Built, Function, IterationSpace, Rewriter, ValueId};
use sym::{Expr, SymbolId};
use tensor::{DType, Reduction};

use crate::integers::{by, in_order, turned};
use crate::quantised::{Quantised, Scale, as_type, moved};

/// The operand of a product that stands for integers, a matrix.
pub(crate) struct Weights {
    operand: usize,
    /// With those of its scales that are one for all terms.
    pub(crate) found: Quantised,
    /// The scale that is one for each block of terms.
    blocks: Option<Scale>,
}

impl Weights {
    /// What an operand of a contraction stands for, if products can have it as bytes.
    pub(crate) fn of(
        function: &Function,
        space: &IterationSpace,
        operand: usize,
        mut found: Quantised,
    ) -> Option<Weights> {
        let index = &space.operands[operand];
        let is_matrix = index.iter().all(|index| index.as_symbol().is_some());
        found.whole.plain(function).filter(|_| is_matrix)?;
        let blocked = |scale: &Scale| is_in_blocks(space, index, scale);
        let blocks = found.scales.iter().position(blocked);
        let blocks = blocks.map(|place| found.scales.remove(place));
        let fits = blocks.is_none() || walks_terms_alone(space);
        fits.then_some(Weights { operand, found, blocks })
    }

    /// What is done with them.
    pub(crate) fn remark(&self) -> &'static str {
        match self.blocks {
            None => "weights of 8 bits stay as they are, their scales follow the sum",
            Some(_) => "weights of 8 bits stay as they are, summed block by block",
        }
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
        match &self.blocks {
            Some(scale) => self.block_by_block(rewriter, space, operands, scale),
            None => {
                let ([lhs, rhs], space) = (operands, space.clone());
                rewriter.builder.contract(space, lhs, rhs, DType::F32, DType::F32)
            }
        }
    }

    /// The sum of products of terms that have a scale for each block of them: the sums of the
    /// blocks, times their scales, added up.
    fn block_by_block(
        &self,
        rewriter: &mut Rewriter<'_>,
        whole: &IterationSpace,
        mut operands: [ValueId; 2],
        scale: &Scale,
    ) -> Built {
        let terms = whole.parallel;
        let symbol = IterationSpace::axis(terms);
        let read = &whole.operands[self.operand];
        let along = |axis: &usize| read[*axis] == symbol;
        let place = scale.axes.iter().position(along).ok_or("blocks of no terms")?;
        let count = scale.shape[place].clone();
        let size = whole.extents[terms].floor_div(&count);
        // The blocks are the first axis of the result.
        let mut space = IterationSpace {
            extents: [from_ref(&count), &whole.extents[..terms], from_ref(&size)].concat(),
            parallel: terms + 1,
            operands: Vec::new(),
        };
        for (operand, index) in operands.iter_mut().zip(&whole.operands) {
            let mut shape = Vec::new();
            let mut own = Vec::new();
            for (extent, index) in rewriter.builder.shape(*operand)?.iter().zip(index) {
                if *index == symbol {
                    shape.extend([count.clone(), size.clone()]);
                    own.extend([IterationSpace::axis(0), IterationSpace::axis(terms + 1)]);
                } else {
                    let next = |symbol: SymbolId| Some(IterationSpace::axis(symbol.index() + 1));
                    shape.push(extent.clone());
                    own.push(index.substitute(&mut { next }));
                }
            }
            *operand = rewriter.builder.reshape(*operand, &shape)?;
            space.operands.push(own);
        }
        let shape = space.extents[..=terms].to_vec();
        let [lhs, rhs] = operands;
        let sums = rewriter.builder.contract(space, lhs, rhs, DType::F32, DType::F32)?;
        let of_result = |axis: &usize| {
            let found = (0..terms).find(|&own| read[*axis] == IterationSpace::axis(own));
            found.map_or(0, |axis| axis + 1)
        };
        let axes: Vec<usize> = scale.axes.iter().map(of_result).collect();
        let value = rewriter.get(scale.value);
        let value = rewriter.builder.reshape(value, &scale.shape)?;
        let (value, axes) = in_order(rewriter, value, &axes)?;
        let value = rewriter.builder.broadcast(value, &shape, &axes)?;
        let scaled = by(rewriter, scale.function, [sums, value])?;
        rewriter.builder.reduce_axes(scaled, &[0], Reduction::Sum, DType::F32, false)
    }
}

/// Whether an operand's scale goes along the terms of the sums block by block, and along the result
/// element by element; and the sums of the blocks are no more bytes to write and read again than
/// the blocks have themselves.
fn is_in_blocks(space: &IterationSpace, index: &[Expr], scale: &Scale) -> bool {
    let terms = IterationSpace::axis(space.parallel);
    let reads = |axis: &usize| index.iter().any(|own| own.contains(SymbolId::new(*axis)));
    let rows: Expr =
        (0..space.parallel).filter(|axis| !reads(axis)).map(|axis| &space.extents[axis]).product();
    let mut blocks = 0;
    let fits = |(&axis, extent): (&usize, &Expr)| {
        if index[axis] != terms {
            let found = (0..space.parallel).find(|&own| index[axis] == IterationSpace::axis(own));
            return found.is_some_and(|own| space.extents[own] == *extent);
        }
        blocks += 1;
        let all = space.extents[space.parallel].as_constant();
        match (all, extent.as_constant(), rows.as_constant()) {
            (Some(all), Some(count), Some(rows)) => {
                count > 0 && all % count == 0 && 2 * 4 * rows <= all / count
            }
            _ => false,
        }
    };
    scale.axes.iter().zip(&scale.shape).all(fits) && blocks == 1
}

/// Whether sums go over one axis, which each operand walks by itself.
fn walks_terms_alone(space: &IterationSpace) -> bool {
    let (terms, symbol) = (IterationSpace::axis(space.parallel), SymbolId::new(space.parallel));
    let walks = |index: &Vec<Expr>| {
        let having: Vec<&Expr> = index.iter().filter(|own| own.contains(symbol)).collect();
        having == [&terms]
    };
    space.extents.len() == space.parallel + 1 && space.operands.iter().all(walks)
}
