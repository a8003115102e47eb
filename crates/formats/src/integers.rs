//! Products of numbers that stand for integers of 8 bits run on integers.
//!
//! before: `contract mul(sub(cast<f32>(q), z), s)[..], mul(cast<f32>(w), t)[..] accumulate f32`
//! after:  `mul(cast<f32>(contract sub(cast<i16>(q), z)[..], cast<i16>(w)[..] accumulate i32),
//!          mul(s, t))`
//!
//! or, where the target multiplies unsigned bytes by signed ones:
//!
//! after:  `mul(cast<f32>(sub(contract q[..], w[..] accumulate i32, z * sum(w))), mul(s, t))`
//!
//! Weights of a matrix alone, where the other operand is of floats, stay bytes:
//!
//! before: `contract x[..], mul(cast<f32>(w), t)[..] accumulate f32`
//! after:  `mul(contract x[..], w[..] accumulate f32, t)`
//!
//! Scales may vary along axes of the result. Differences of such integers fit 16 bits, and machines
//! multiply and add pairs of those at once, or quads of bytes (file `tuples`). The data are the
//! unsigned bytes, signed ones with their highest bit turned, which makes zero points greater by
//! 128; what zero points add to a sum depends on its constant operand alone. The sums are exact;
//! the result differs from that of the numbers by the rounding of their products and sums. Operands
//! change in front of the movements that lead to the contraction, so that whoever makes them stores
//! them short.

use std::collections::BTreeMap;
use std::slice::from_ref;

use backend::Target;
use base::{Diagnostics, Id, IdSet, Remark};
use graph::{Built, Function, IterationSpace, Node, Op, Rewriter, ValueId, rebuild};
use sym::{Expr, SymbolId};
use tensor::{DType, Reduction, Scalar, ScalarFunction, Tensor};

use crate::precision::{make_divisible, unsuited};
use crate::quantised::{Quantised, Scale, Whole, as_type, moved, shift};

/// The most terms of a sum: products are below 2^16.
const MOST_TERMS: i64 = 1 << 15;

/// Rewrites the contractions of a function whose operands stand for integers; each is a remark.
///
/// # Errors
/// An internal error if a rewritten node is ill-typed.
pub fn integers(
    function: Function,
    target: &Target,
    remarks: &mut Vec<Remark>,
) -> base::Result<Function> {
    let constants = function.constant_values();
    let says = |node: &Node| {
        Product::of(&function, node, &constants).is_some() || why_not(&function, node).is_some()
    };
    if !function.nodes.values().any(says) {
        return Ok(function);
    }
    let quads = [DType::U8, DType::I8];
    let multiplies_bytes = target.isa.instructions().any(|(row, _)| row.takes(&quads, 4));
    // Products with scales that have been made, as their factors.
    let mut products: BTreeMap<ValueId, [ValueId; 2]> = BTreeMap::new();
    let result = rebuild(&function, |rewriter, id| {
        let node = &rewriter.source.nodes[id];
        if let Op::Map { function: ScalarFunction::Add, .. } = node.op {
            return added(rewriter, &products, node);
        }
        let location = node.location;
        let Some(product) = Product::of(rewriter.source, node, &constants) else {
            if let Some(reason) = why_not(rewriter.source, node) {
                let message = format!("operands of 8 bits are multiplied in f32: {reason}");
                remarks.push(Remark { location, message });
            }
            return Ok(None);
        };
        rewriter.builder.set_location(location);
        let (sum, message) = match &product.found {
            Found::Both(found) => {
                let bytes = match multiplies_bytes {
                    true => product.bytes(rewriter, found, &constants)?,
                    false => None,
                };
                match bytes {
                    Some(sum) => (sum, "operands of 8 bits multiplied as bytes"),
                    None => {
                        let sum = product.short(rewriter, found)?;
                        (sum, "operands of 8 bits multiplied as integers of 16 bits")
                    }
                }
            }
            Found::Weights(operand, found, blocks) => {
                let sum = product.of_weights(rewriter, *operand, found, blocks.as_ref())?;
                let message = match blocks {
                    None => "weights of 8 bits stay as they are, their scales follow the sum",
                    Some(_) => "weights of 8 bits stay as they are, summed block by block",
                };
                (sum, message)
            }
        };
        let (value, factors) = product.scaled(rewriter, sum)?;
        products.extend(factors.map(|factors| (value, factors)));
        remarks.push(Remark { location, message: message.to_owned() });
        Ok(Some(vec![value]))
    });
    result.map_err(|reason| {
        Diagnostics::internal(format!("products of integers made an ill-typed node: {reason}"))
    })
}

/// A contraction of which operands stand for integers.
struct Product<'a> {
    space: &'a IterationSpace,
    operands: [ValueId; 2],
    found: Found,
    dtype: DType,
    /// The scales of the result, along its axes.
    scales: Vec<Scale>,
}

/// Which operands stand for integers.
enum Found {
    Both([Quantised; 2]),
    /// Constant ones of a matrix, and their scale if it is one for each block of terms.
    Weights(usize, Quantised, Option<Scale>),
}

impl<'a> Product<'a> {
    fn of(function: &Function, node: &'a Node, constants: &IdSet<ValueId>) -> Option<Product<'a>> {
        let Op::Contract { space, accumulator: DType::F32 | DType::I32, dtype } = &node.op else {
            return None;
        };
        let operands = [node.operands[0], node.operands[1]];
        let scales_of = |(own, index): (&Quantised, &Vec<Expr>)| {
            let along = |scale: &Scale| {
                Some(Scale { axes: axes_of_result(space, index, scale)?, ..scale.clone() })
            };
            own.scales.iter().map(along).collect::<Option<Vec<Scale>>>()
        };
        let found = operands.map(|operand| Quantised::of(function, operand));
        let (found, scales) = match found {
            [Some(lhs), Some(rhs)] => {
                if unsuited(space, 2).is_some() || !tuples_are_plain(space) || too_long(space) {
                    return None;
                }
                let found = [lhs, rhs];
                let scales = found.iter().zip(&space.operands).map(scales_of);
                let scales = scales.collect::<Option<Vec<_>>>()?.concat();
                (Found::Both(found), scales)
            }
            [lhs, rhs] => {
                let (number, found) = lhs.map(|it| (0, it)).or(rhs.map(|it| (1, it)))?;
                let index = &space.operands[number];
                let is_matrix = index.iter().all(|index| index.as_symbol().is_some());
                if !is_matrix || !constants.contains(operands[number]) || *dtype != DType::F32 {
                    return None;
                }
                found.whole.plain(function)?;
                let mut found = found;
                let blocked = |scale: &Scale| is_in_blocks(space, index, scale);
                let blocks = found.scales.iter().position(blocked);
                let blocks = blocks.map(|place| found.scales.remove(place));
                if blocks.is_some() && !walks_terms_alone(space) {
                    return None;
                }
                let scales = scales_of((&found, index))?;
                (Found::Weights(number, found, blocks), scales)
            }
        };
        let whole = matches!(dtype, DType::F32 | DType::I32);
        let fits = whole && (*dtype == DType::F32 || scales.is_empty());
        fits.then_some(Product { space, operands, found, dtype: *dtype, scales })
    }

    /// The sum of products of floats with weights as bytes.
    fn of_weights(
        &self,
        rewriter: &mut Rewriter<'_>,
        number: usize,
        found: &Quantised,
        blocks: Option<&Scale>,
    ) -> Built {
        let source = rewriter.source;
        let (Some((integer, dtype)), Some(own)) =
            (found.whole.plain(source), found.whole.dtype(source))
        else {
            return Err("weights that stand for no bytes".to_owned());
        };
        // Less their zero point they are of the wanted type, as they are of their own.
        let is_difference = integer == found.whole.value;
        let integer = as_type(rewriter, integer, if is_difference { dtype } else { own })?;
        let integer = turned(rewriter, integer, dtype)?;
        let zero = rewriter.builder.scalar(dtype, 0.0);
        let mut operands = self.operands.map(|operand| rewriter.get(operand));
        operands[number] = moved(rewriter, self.operands[number], &found.whole, (integer, zero))?;
        let Some(blocks) = blocks else {
            let ([lhs, rhs], space) = (operands, self.space.clone());
            return rewriter.builder.contract(space, lhs, rhs, DType::F32, DType::F32);
        };
        self.block_by_block(rewriter, number, operands, blocks)
    }

    /// The sum of products of terms that have a scale for each block of them: the sums of the
    /// blocks, times their scales, added up.
    fn block_by_block(
        &self,
        rewriter: &mut Rewriter<'_>,
        number: usize,
        mut operands: [ValueId; 2],
        scale: &Scale,
    ) -> Built {
        let terms = self.space.parallel;
        let symbol = IterationSpace::axis(terms);
        let read = &self.space.operands[number];
        let along = |axis: &usize| read[*axis] == symbol;
        let place = scale.axes.iter().position(along).ok_or("blocks of no terms")?;
        let count = scale.shape[place].clone();
        let size = self.space.extents[terms].floor_div(&count);
        // The blocks are the first axis of the result.
        let mut space = IterationSpace {
            extents: [from_ref(&count), &self.space.extents[..terms], from_ref(&size)].concat(),
            parallel: terms + 1,
            operands: Vec::new(),
        };
        for (operand, index) in operands.iter_mut().zip(&self.space.operands) {
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
        let (value, axes) = in_order(rewriter, value, &axes)?;
        let value = rewriter.builder.broadcast(value, &shape, &axes)?;
        let scaled = by(rewriter, scale.function, [sums, value])?;
        rewriter.builder.reduce_axes(scaled, &[0], Reduction::Sum, DType::F32, false)
    }

    /// The sum of products in 16 bits.
    fn short(&self, rewriter: &mut Rewriter<'_>, found: &[Quantised; 2]) -> Built {
        let mut short = Vec::new();
        for (operand, found) in self.operands.into_iter().zip(found) {
            let whole = as_type(rewriter, found.whole.value, DType::I16)?;
            let zero = rewriter.builder.scalar(DType::I16, 0.0);
            short.push(moved(rewriter, operand, &found.whole, (whole, zero))?);
        }
        let mut space = self.space.clone();
        make_divisible(rewriter, &mut space, &mut short, 2)?;
        rewriter.builder.contract(space, short[0], short[1], DType::I32, DType::I32)
    }

    /// The sum of products of unsigned bytes with signed ones, if the operands can be such.
    fn bytes(
        &self,
        rewriter: &mut Rewriter<'_>,
        found: &[Quantised; 2],
        constants: &IdSet<ValueId>,
    ) -> Built<Option<ValueId>> {
        if unsuited(self.space, 4).is_some() {
            return Ok(None);
        }
        // What the other's zero point adds depends on the signed operand: it is the one that is
        // known before a run, or has no zero point of its own.
        let source = rewriter.source;
        let is_constant = |operand: usize| constants.contains(self.operands[operand]);
        let is_plain = |operand: usize| found[operand].whole.zero_as(source, DType::I8) == Some(0);
        let signed = match is_constant(0) == is_constant(1) {
            true => usize::from(is_plain(1) || !is_plain(0)),
            false => usize::from(is_constant(1)),
        };
        let dtypes = [0, 1].map(|number| if number == signed { DType::I8 } else { DType::U8 });
        let mut operands = Vec::new();
        let mut zeros = Vec::new();
        for (number, dtype) in dtypes.into_iter().enumerate() {
            let whole = &found[number].whole;
            let (Some(own), Some(zero)) = (whole.dtype(source), zero(rewriter, whole, dtype)?)
            else {
                return Ok(None);
            };
            let outside = rewriter.builder.cast(zero, dtype)?;
            let integer = as_type(rewriter, whole.integer, own)?;
            let integer = turned(rewriter, integer, dtype)?;
            operands.push(moved(rewriter, self.operands[number], whole, (integer, outside))?);
            let is_zero = whole.zero_as(source, dtype) == Some(0);
            zeros.push((!is_zero).then_some(zero));
        }
        let mut space = self.space.clone();
        make_divisible(rewriter, &mut space, &mut operands, 4)?;
        let [lhs, rhs] = [operands[0], operands[1]];
        let (shape, own) = (space.extents[..space.parallel].to_vec(), space.clone());
        let mut sum = rewriter.builder.contract(own, lhs, rhs, DType::I32, DType::I32)?;
        for (number, zero) in zeros.iter().enumerate() {
            let Some(zero) = *zero else { continue };
            let other = (1 - number, operands[1 - number]);
            let share = zero_times_sums(rewriter, &space, other, zero)?;
            sum = rewriter.builder.map(ScalarFunction::Sub, &[sum, share])?;
        }
        if let [Some(one), Some(other)] = zeros[..] {
            let terms: Expr = self.space.extents[space.parallel..].iter().product();
            let terms = rewriter.builder.dimension(terms)?;
            let terms = rewriter.builder.cast(terms, DType::I32)?;
            let both = rewriter.builder.map(ScalarFunction::Mul, &[one, other])?;
            let both = rewriter.builder.map(ScalarFunction::Mul, &[both, terms])?;
            let both = rewriter.builder.broadcast(both, &shape, &[])?;
            sum = rewriter.builder.map(ScalarFunction::Add, &[sum, both])?;
        }
        Ok(Some(sum))
    }

    /// The sum times the scales, and the factors of the last product.
    fn scaled(
        &self,
        rewriter: &mut Rewriter<'_>,
        sum: ValueId,
    ) -> Built<(ValueId, Option<[ValueId; 2]>)> {
        if self.dtype == DType::I32 {
            return Ok((sum, None));
        }
        let mut value = rewriter.builder.cast(sum, DType::F32)?;
        let shape = &self.space.extents[..self.space.parallel];
        // Scales along the same axes are multiplied among themselves first: most are constants.
        let mut scales: Vec<(Vec<usize>, ValueId)> = Vec::new();
        let mut sorted: Vec<&Scale> = self.scales.iter().collect();
        sorted.sort_by_key(|scale| (scale.axes.len(), scale.function == ScalarFunction::Div));
        for scale in sorted {
            let own = rewriter.get(scale.value);
            let own = rewriter.builder.reshape(own, &scale.shape)?;
            let (own, axes) = in_order(rewriter, own, &scale.axes)?;
            let own_shape = rewriter.builder.shape(own)?;
            match scales.iter_mut().find(|(known, _)| *known == axes) {
                Some((_, product)) => {
                    *product = by(rewriter, scale.function, [*product, own])?;
                }
                None if scale.function == ScalarFunction::Div => {
                    let one = rewriter.builder.scalar(DType::F32, 1.0);
                    let one = rewriter.builder.broadcast(one, own_shape, &[])?;
                    let inverse = by(rewriter, ScalarFunction::Div, [one, own])?;
                    scales.push((axes, inverse));
                }
                None => scales.push((axes, own)),
            }
        }
        // One for all joins the first that there is along axes.
        if let [(none, number), (axes, own), ..] = &mut scales[..]
            && none.is_empty()
            && !axes.is_empty()
        {
            let shape = rewriter.builder.shape(*own)?;
            let number = rewriter.builder.broadcast(*number, shape, &[])?;
            *own = by(rewriter, ScalarFunction::Mul, [number, *own])?;
            scales.remove(0);
        }
        let mut factors = None;
        for (axes, scale) in scales {
            let scale = rewriter.builder.broadcast(scale, shape, &axes)?;
            factors = Some([value, scale]);
            value = rewriter.builder.map(ScalarFunction::Mul, &[value, scale])?;
        }
        Ok((value, factors))
    }
}

/// The one zero point of an operand as bytes of a type, an i32.
fn zero(rewriter: &mut Rewriter<'_>, whole: &Whole, dtype: DType) -> Built<Option<ValueId>> {
    let source = rewriter.source;
    let number = |number: i64| Tensor::scalar(Scalar::from_i64(DType::I32, number));
    if let Some(known) = whole.zero_as(source, dtype) {
        return Ok(Some(rewriter.builder.literal(number(known))));
    }
    let (Some(single), Some(own)) = (whole.single_zero(source), whole.dtype(source)) else {
        return Ok(None);
    };
    let zero = as_type(rewriter, single, DType::I32)?;
    let more = rewriter.builder.literal(number(shift(own, dtype)));
    Ok(Some(rewriter.builder.map(ScalarFunction::Add, &[zero, more])?))
}

/// What the zero point of one operand adds to the sums: itself times the sums of the other, which
/// has this number, in the shape of the result.
fn zero_times_sums(
    rewriter: &mut Rewriter<'_>,
    space: &IterationSpace,
    (operand, value): (usize, ValueId),
    zero: ValueId,
) -> Built {
    let index = &space.operands[operand];
    let read = |axis: usize| index.iter().any(|index| index.contains(SymbolId::new(axis)));
    let axes: Vec<usize> = (0..space.parallel).filter(|&axis| read(axis)).collect();
    let kept: Vec<usize> =
        axes.iter().copied().chain(space.parallel..space.extents.len()).collect();
    let renamed = |symbol: SymbolId| {
        let place = kept.iter().position(|&axis| axis == symbol.index());
        place.map(IterationSpace::axis)
    };
    let read = index.iter().map(|index| index.substitute(&mut { renamed })).collect();
    let extents: Vec<Expr> = kept.iter().map(|&axis| space.extents[axis].clone()).collect();
    let sums = IterationSpace { extents, parallel: axes.len(), operands: vec![Vec::new(), read] };
    let builder = &mut rewriter.builder;
    let one = builder.scalar(DType::I32, 1.0);
    let sums = builder.contract(sums, one, value, DType::I32, DType::I32)?;
    let own = builder.shape(sums)?;
    let zero = builder.broadcast(zero, own, &[])?;
    let product = builder.map(ScalarFunction::Mul, &[zero, sums])?;
    builder.broadcast(product, &space.extents[..space.parallel], &axes)
}

/// Why a contraction whose operands stand for integers is none of integers.
fn why_not(function: &Function, node: &Node) -> Option<&'static str> {
    let Op::Contract { space, .. } = &node.op else { return None };
    if !node.operands.iter().all(|&operand| Quantised::of(function, operand).is_some()) {
        return None;
    }
    Some(match unsuited(space, 2) {
        Some(reason) => reason,
        None if !tuples_are_plain(space) => "the terms of its sums lie in windows",
        None if too_long(space) => "its sums are too long",
        None => "a scale varies along its sums",
    })
}

/// What is added to a product with a scale, in one step with it.
fn added(
    rewriter: &mut Rewriter<'_>,
    products: &BTreeMap<ValueId, [ValueId; 2]>,
    node: &Node,
) -> Built<Option<Vec<ValueId>>> {
    let [one, other] = [0, 1].map(|number| rewriter.get(node.operands[number]));
    let found = products.get(&one).map(|factors| (factors, other));
    let found = found.or_else(|| products.get(&other).map(|factors| (factors, one)));
    let Some((&[sum, scale], term)) = found else { return Ok(None) };
    let value = rewriter.builder.map(ScalarFunction::FusedMultiplyAdd, &[sum, scale, term])?;
    Ok(Some(vec![value]))
}

fn by(rewriter: &mut Rewriter<'_>, function: ScalarFunction, operands: [ValueId; 2]) -> Built {
    let is_wrong = base::fault::is_seeded("formats.integers");
    let function = if is_wrong { ScalarFunction::Add } else { function };
    rewriter.builder.map(function, &operands)
}

/// A value with its axes in the order in which they go along others.
fn in_order(
    rewriter: &mut Rewriter<'_>,
    value: ValueId,
    axes: &[usize],
) -> Built<(ValueId, Vec<usize>)> {
    let mut order: Vec<usize> = (0..axes.len()).collect();
    order.sort_by_key(|&place| axes[place]);
    let sorted = order.iter().map(|&place| axes[place]).collect();
    Ok((rewriter.builder.transpose(value, &order)?, sorted))
}

/// Bytes of one signedness as those of the other, 128 less or more: the highest bit turned.
fn turned(rewriter: &mut Rewriter<'_>, value: ValueId, dtype: DType) -> Built {
    if rewriter.builder.dtype(value)? == dtype {
        return Ok(value);
    }
    let value = rewriter.builder.bitcast(value, dtype)?;
    let highest = Scalar::from_i64(DType::U8, 128).bits();
    let highest = Tensor::scalar(Scalar::from_bits(dtype, highest));
    let highest = rewriter.builder.literal(highest);
    rewriter.builder.map_broadcast(ScalarFunction::Xor, &[value, highest])
}

/// The axes of the result that an operand's scale goes along, element by element.
fn axes_of_result(space: &IterationSpace, index: &[Expr], scale: &Scale) -> Option<Vec<usize>> {
    let of = |(axis, extent): (&usize, &Expr)| {
        let own = &index[*axis];
        let found = (0..space.parallel).find(|&axis| *own == IterationSpace::axis(axis));
        found.filter(|&axis| space.extents[axis] == *extent)
    };
    scale.axes.iter().zip(&scale.shape).map(of).collect()
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

/// Whether neighbours along the innermost reduced axis are neighbours in both operands.
fn tuples_are_plain(space: &IterationSpace) -> bool {
    let innermost = IterationSpace::axis(space.extents.len() - 1);
    space.operands.iter().all(|operand| operand.contains(&innermost))
}

fn too_long(space: &IterationSpace) -> bool {
    let terms: Expr = space.extents[space.parallel..].iter().product();
    terms.as_constant().is_none_or(|terms| terms > MOST_TERMS)
}
