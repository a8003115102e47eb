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
//! or, where it multiplies signed bytes, by signed ones without turning any. A machine that extends
//! bytes as it loads them does so for sums of any kind, those of depthwise filters included.
//!
//! Where only weights stand for integers, they stay what they are (file `weights`). Scales may vary
//! along axes of the result. Differences of such integers fit 16 bits, and machines multiply and
//! add pairs of those at once, or quads of bytes (file `tuples`). The data are the unsigned bytes,
//! signed ones with their highest bit turned, which makes zero points greater by 128; what zero
//! points add to a sum is the other operand's sum times them, of a constant known before a run. The
//! sums are exact; the result differs from that of the numbers by the rounding of their products
//! and sums. Operands change in front of the movements that lead to the contraction, so that
//! whoever makes them stores them short.

use std::collections::BTreeMap;

use backend::Target;
use backend::tile::Window;
use base::{Diagnostics, Id, IdSet, InOrder, Remark};
use graph::{Built, Function, IterationSpace, Node, Op, Rewriter, ValueId, rebuild};
use sym::{Expr, SymbolId};
use tensor::{DType, Scalar, ScalarFunction, Tensor};

use crate::precision::{self, can_be_divisible, few_terms, make_divisible, window};
use crate::quantised::{Quantised, Scale, Whole, as_type, moved, shift};
use crate::weights::Weights;

/// The most terms of a sum: products are below 2^16.
const MOST_TERMS: i64 = 1 << 15;

/// How often an element of data that stay bytes is converted at most, unless each conversion serves
/// so many terms.
const MOST_CONVERTED: f64 = 3.5;
const SELDOM: f64 = 4.0;

/// Fewest terms of a sum of integers: its operands are short before it.
const LEAST_TERMS: i64 = 8;

/// The longest odd axis of which zeros would be much of the pairs.
const SHORT_ODD: i64 = 3;

/// The most terms of which floats of 32 bits hold the sum exactly: products of a byte with a
/// difference of two are below 2^17.
const MOST_EXACT: i64 = 1 << 7;

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
        Product::of(&function, node, &constants, target).is_some()
            || why_not(&function, node, &constants).is_some()
    };
    if !function.nodes.values().any(says) {
        return Ok(function);
    }
    let (bytes, registers) = (Bytes::of(target), target.vector_registers);
    // Products with scales that have been made, as their factors.
    let mut products: BTreeMap<ValueId, [ValueId; 2]> = BTreeMap::new();
    let result = rebuild(&function, |rewriter, id| {
        let node = &rewriter.source.nodes[id];
        if let Op::Map { function: ScalarFunction::Add, .. } = node.op {
            return added(rewriter, &products, node);
        }
        let location = node.location;
        let Some(product) = Product::of(rewriter.source, node, &constants, target) else {
            if let Some(reason) = why_not(rewriter.source, node, &constants) {
                let message = format!("operands of 8 bits are multiplied in f32: {reason}");
                remarks.push(Remark { location, message });
            }
            return Ok(None);
        };
        rewriter.builder.set_location(location);
        let (sum, message) = match &product.found {
            Found::Both(found) => {
                let sum = match bytes {
                    Some(bytes) => product.bytes(rewriter, found, bytes)?,
                    None => None,
                };
                match (sum, product.floats_for_pairs(rewriter.source, found)) {
                    (Some(sum), _) => (sum, "operands of 8 bits multiplied as bytes"),
                    (None, Some(data)) => {
                        let sum = product.few(rewriter, found, data, registers)?;
                        (
                            sum,
                            "operands of 8 bits multiplied as whole floats: pairs would have gaps",
                        )
                    }
                    (None, None) => {
                        let sum = product.short(rewriter, found)?;
                        (sum, "operands of 8 bits multiplied as integers of 16 bits")
                    }
                }
            }
            Found::Few(found, data) => {
                let sum = product.few(rewriter, found, *data, registers)?;
                (sum, "operands of 8 bits multiplied as whole floats: its sums have few terms")
            }
            Found::One(weights) => {
                let sum = weights.sum(rewriter, product.space, product.operands)?;
                (sum, "weights of 8 bits stay as they are, their scales follow the sum")
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

/// How a target multiplies bytes.
#[derive(Clone, Copy)]
struct Bytes {
    /// How many it takes at once.
    count: i64,
    /// Whether both operands are signed, rather than one.
    are_signed: bool,
    /// Whether it multiplies them one by one, too, where its instruction does not fit.
    are_single: bool,
}

impl Bytes {
    fn of(target: &Target) -> Option<Bytes> {
        let are_single = target.is_microcontroller();
        if let Some(count) = target.signed_bytes_at_once() {
            return Some(Bytes { count, are_signed: true, are_single });
        }
        let has_quads = target.prefers_bytes();
        has_quads.then_some(Bytes { count: 4, are_signed: false, are_single })
    }
}

/// A contraction of which operands stand for integers.
struct Product<'a> {
    space: &'a IterationSpace,
    operands: [ValueId; 2],
    /// Which of them are known before a run.
    constant: [bool; 2],
    found: Found,
    dtype: DType,
    /// The scales of the result, along its axes.
    scales: Vec<Scale>,
}

/// Which operands stand for integers.
enum Found {
    Both([Quantised; 2]),
    /// Both, in sums of so few terms that floats hold them exactly; the number of the data.
    Few([Quantised; 2], usize),
    /// Constant ones alone.
    One(Weights),
}

impl<'a> Product<'a> {
    /// What a contraction multiplies. All targets of an architecture have to agree, for which one
    /// decides.
    fn of(
        function: &Function,
        node: &'a Node,
        constants: &IdSet<ValueId>,
        target: &Target,
    ) -> Option<Product<'a>> {
        let Op::Contract { space, accumulator: DType::F32 | DType::I32, dtype } = &node.op else {
            return None;
        };
        let registers = target.deciding().vector_registers;
        let operands = [node.operands[0], node.operands[1]];
        let scales_of = |(own, index): (&Quantised, &Vec<Expr>)| {
            let along = |scale: &Scale| {
                Some(Scale { axes: axes_of_result(space, index, scale)?, ..scale.clone() })
            };
            own.scales.iter().map(along).collect::<Option<Vec<Scale>>>()
        };
        let constant = operands.map(|operand| constants.contains(operand));
        let found = operands.map(|operand| Quantised::of(function, operand));
        let (found, scales) = match found {
            [Some(lhs), Some(rhs)] => {
                let found = [lhs, rhs];
                let scales = found.iter().zip(&space.operands).map(scales_of);
                let scales = scales.collect::<Option<Vec<_>>>()?.concat();
                match (unsuited(space, 2, constant), constant) {
                    (None, _)
                        if lie_together(function, operands, space)
                            && !too_long(space, MOST_TERMS) =>
                    {
                        (Found::Both(found), scales)
                    }
                    _ if target.is_microcontroller()
                        && has_bytes(function, &found)
                        && !too_long(space, MOST_TERMS) =>
                    {
                        (Found::Both(found), scales)
                    }
                    (Some(_), [false, true] | [true, false]) if has_bytes(function, &found) => {
                        let data = usize::from(constant[0]);
                        let shape = &function.ty(operands[data]).as_tensor()?.shape;
                        let fits = !too_long(space, MOST_EXACT) && *dtype == DType::F32;
                        if !fits || !meets_few(space, &space.operands[data], shape, registers) {
                            return None;
                        }
                        (Found::Few(found, data), scales)
                    }
                    _ => return None,
                }
            }
            [lhs, rhs] => {
                let (number, found) = lhs.map(|it| (0, it)).or(rhs.map(|it| (1, it)))?;
                if !constant[number] || *dtype != DType::F32 {
                    return None;
                }
                let weights = Weights::of(function, space, number, found)?;
                let scales = scales_of((&weights.found, &space.operands[number]))?;
                (Found::One(weights), scales)
            }
        };
        let whole = matches!(dtype, DType::F32 | DType::I32);
        let fits = whole && (*dtype == DType::F32 || scales.is_empty());
        let dtype = *dtype;
        fits.then_some(Product { space, operands, constant, found, dtype, scales })
    }

    /// The number of the data, where whole floats give the same sums and much of the pairs of
    /// integers would be zeros: without an instruction for bytes those gain nothing then.
    fn floats_for_pairs(&self, function: &Function, found: &[Quantised; 2]) -> Option<usize> {
        let one = self.constant[0] != self.constant[1];
        let innermost = self.space.extents.last()?.as_constant()?;
        let fits = one
            && self.dtype == DType::F32
            && has_bytes(function, found)
            && !too_long(self.space, MOST_EXACT)
            && innermost <= SHORT_ODD
            && can_be_divisible(self.space, 2, self.constant);
        fits.then_some(usize::from(self.constant[0]))
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
        make_divisible(&mut rewriter.builder, &mut space, &mut short, 2, self.constant)?;
        rewriter.builder.contract(space, short[0], short[1], DType::I32, DType::I32)
    }

    /// The sum of products of bytes of the types that a target multiplies, if the operands can be
    /// such.
    fn bytes(
        &self,
        rewriter: &mut Rewriter<'_>,
        found: &[Quantised; 2],
        bytes: Bytes,
    ) -> Built<Option<ValueId>> {
        let space =
            if bytes.are_single { without_unit_terms(self.space) } else { self.space.clone() };
        let fits = unsuited(&space, bytes.count, self.constant).is_none();
        if !fits && !bytes.are_single {
            return Ok(None);
        }
        // What the other's zero point adds depends on the signed operand: it is the one that is
        // known before a run, or has no zero point of its own.
        let source = rewriter.source;
        let is_plain = |operand: usize| found[operand].whole.zero_as(source, DType::I8) == Some(0);
        let signed = match self.constant[0] == self.constant[1] {
            true => usize::from(is_plain(1) || !is_plain(0)),
            false => usize::from(self.constant[1]),
        };
        let dtype_of = |number| match bytes.are_signed || number == signed {
            true => DType::I8,
            false => DType::U8,
        };
        let dtypes = [0, 1].map(dtype_of);
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
        let mut space = space;
        if fits {
            make_divisible(
                &mut rewriter.builder,
                &mut space,
                &mut operands,
                bytes.count,
                self.constant,
            )?;
        }
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

    /// The sum of products of bytes with weights that are whole floats: kernels convert the bytes
    /// where they load them. With so few registers that they would convert them too often the bytes
    /// are stored as whole floats, too, which gives the same sums.
    fn few(
        &self,
        rewriter: &mut Rewriter<'_>,
        found: &[Quantised; 2],
        data: usize,
        registers: u32,
    ) -> Built {
        let source = rewriter.source;
        let [bytes, weights] = [data, 1 - data].map(|number| &found[number].whole);
        let (Some(dtype), Some(zero)) = (bytes.dtype(source), bytes.known_zero(source)) else {
            return Err("data that are no bytes".to_owned());
        };
        let number = |dtype: DType| Tensor::scalar(Scalar::from_i64(dtype, zero));
        let (index, shape) = (&self.space.operands[data], rewriter.source.ty(self.operands[data]));
        let shape = shape.as_tensor().map(|ty| ty.shape.to_vec()).unwrap_or_default();
        let stored = match meets_few(self.space, index, &shape, registers) {
            true => dtype,
            false => DType::F32,
        };
        let outside = rewriter.builder.literal(number(stored));
        let own = as_type(rewriter, bytes.integer, dtype)?;
        let own = rewriter.builder.cast(own, stored)?;
        let whole = as_type(rewriter, weights.value, DType::F32)?;
        let none = rewriter.builder.scalar(DType::F32, 0.0);
        let mut operands = [own, whole];
        operands[data] = moved(rewriter, self.operands[data], bytes, (own, outside))?;
        operands[1 - data] = moved(rewriter, self.operands[1 - data], weights, (whole, none))?;
        let ([lhs, rhs], space) = (operands, self.space.clone());
        let sum = rewriter.builder.contract(space, lhs, rhs, DType::F32, DType::F32)?;
        if zero == 0 {
            return Ok(sum);
        }
        let zero = rewriter.builder.literal(number(DType::F32));
        let other = (1 - data, operands[1 - data]);
        let share = zero_times_sums(rewriter, self.space, other, zero)?;
        rewriter.builder.map(ScalarFunction::Sub, &[sum, share])
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
        let mut value = match rewriter.builder.dtype(sum)? {
            DType::F32 => sum,
            _ => rewriter.builder.cast(sum, DType::F32)?,
        };
        let shape = &self.space.extents[..self.space.parallel];
        // Scales along the same axes are multiplied among themselves first: most are constants.
        let mut scales: Vec<(Vec<usize>, ValueId)> = Vec::new();
        let mut sorted: Vec<&Scale> = self.scales.iter().collect();
        sorted
            .put_in_order_by_key(|scale| (scale.axes.len(), scale.function == ScalarFunction::Div));
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

/// A space without those reduced axes that have one term.
fn without_unit_terms(space: &IterationSpace) -> IterationSpace {
    let is_kept = |axis: &usize| *axis < space.parallel || !space.extents[*axis].is_one();
    let kept: Vec<usize> = (0..space.extents.len()).filter(is_kept).collect();
    let renamed = |symbol: SymbolId| {
        let place = kept.iter().position(|&axis| axis == symbol.index());
        Some(place.map_or(Expr::ZERO, IterationSpace::axis))
    };
    let operand = |index: &Vec<Expr>| -> Vec<Expr> {
        index.iter().map(|index| index.substitute(&mut { renamed })).collect()
    };
    IterationSpace {
        extents: kept.iter().map(|&axis| space.extents[axis].clone()).collect(),
        parallel: space.parallel,
        operands: space.operands.iter().map(operand).collect(),
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
    let dtype = rewriter.builder.dtype(zero)?;
    let (sums, axes) = sums_along(rewriter, space, (operand, value), dtype)?;
    let builder = &mut rewriter.builder;
    let own = builder.shape(sums)?;
    let zero = builder.broadcast(zero, own, &[])?;
    let product = builder.map(ScalarFunction::Mul, &[zero, sums])?;
    builder.broadcast(product, &space.extents[..space.parallel], &axes)
}

/// The sums of the elements of one operand that a product meets for each element of its result, and
/// the axes of the result along which they go.
pub(crate) fn sums_along(
    rewriter: &mut Rewriter<'_>,
    space: &IterationSpace,
    (operand, value): (usize, ValueId),
    dtype: DType,
) -> Built<(ValueId, Vec<usize>)> {
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
    let one = rewriter.builder.scalar(dtype, 1.0);
    let sums = rewriter.builder.contract(sums, one, value, dtype, dtype)?;
    Ok((sums, axes))
}

/// Why a contraction whose operands stand for integers is none of integers.
fn why_not(function: &Function, node: &Node, constants: &IdSet<ValueId>) -> Option<&'static str> {
    let Op::Contract { space, .. } = &node.op else { return None };
    let constant = [0, 1].map(|at| constants.contains(node.operands[at]));
    if !node.operands.iter().all(|&operand| Quantised::of(function, operand).is_some()) {
        return None;
    }
    Some(match unsuited(space, 2, constant) {
        Some(reason) => reason,
        None if !lie_together(function, [node.operands[0], node.operands[1]], space) => {
            "the terms of its sums lie apart"
        }
        None if too_long(space, MOST_TERMS) => "its sums are too long",
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
pub(crate) fn in_order(
    rewriter: &mut Rewriter<'_>,
    value: ValueId,
    axes: &[usize],
) -> Built<(ValueId, Vec<usize>)> {
    let mut order: Vec<usize> = (0..axes.len()).collect();
    order.put_in_order_by_key(|&place| axes[place]);
    let sorted = order.iter().map(|&place| axes[place]).collect();
    Ok((rewriter.builder.transpose(value, &order)?, sorted))
}

/// Bytes of one signedness as those of the other, 128 less or more: the highest bit turned.
pub(crate) fn turned(rewriter: &mut Rewriter<'_>, value: ValueId, dtype: DType) -> Built {
    if rewriter.builder.dtype(value)? == dtype {
        return Ok(value);
    }
    let value = rewriter.builder.bitcast(value, DType::U8)?;
    let highest = rewriter.builder.literal(Tensor::scalar(Scalar::from_i64(DType::U8, 128)));
    let value = rewriter.builder.map_broadcast(ScalarFunction::Xor, &[value, highest])?;
    rewriter.builder.bitcast(value, dtype)
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

/// Whether neighbours along the innermost reduced axis are neighbours in both operands: the axis
/// moves alone in them, or in a window behind which nothing moves.
fn lie_together(function: &Function, operands: [ValueId; 2], space: &IterationSpace) -> bool {
    let axis = space.extents.len() - 1;
    let innermost = IterationSpace::axis(axis);
    operands.iter().zip(&space.operands).all(|(&operand, index)| {
        let place = index.iter().position(|expr| expr.contains(SymbolId::new(axis)));
        let (Some(place), Some(ty)) = (place, function.ty(operand).as_tensor()) else {
            return false;
        };
        let by_ones = index[place].linear_coefficient(SymbolId::new(axis)) == Some(1);
        let is_last = || ty.shape[place + 1..].iter().all(Expr::is_one);
        index.contains(&innermost) || by_ones && is_last()
    })
}

/// Why a contraction gains nothing from integers, so many of which go side by side.
fn unsuited(space: &IterationSpace, count: i64, constant: [bool; 2]) -> Option<&'static str> {
    few_terms(space, LEAST_TERMS).or_else(|| precision::unsuited(space, count, constant))
}

fn too_long(space: &IterationSpace, most: i64) -> bool {
    let terms: Expr = space.extents[space.parallel..].iter().product();
    terms.as_constant().is_none_or(|terms| terms > most)
}

/// Whether elements of data of a shape are sooner converted where they are met than stored and read
/// as floats, on a machine with so many registers. Terms along the innermost axis of a window share
/// what they meet, for as many rows as registers hold besides.
fn meets_few(space: &IterationSpace, index: &[Expr], shape: &[Expr], registers: u32) -> bool {
    let met: Expr = space.extents.iter().product();
    let elements: Expr = shape.iter().product();
    let (Some(met), Some(elements)) = (met.as_constant(), elements.as_constant()) else {
        return false;
    };
    let share = taps(space, index).map_or(1.0, |window| {
        let rows = (i64::from(registers) - 2 * window.taps - 1).max(1);
        (rows * window.taps) as f64 / window.elements(rows) as f64
    });
    met as f64 <= share * MOST_CONVERTED * elements as f64 || share >= SELDOM
}

/// The terms of a window along its innermost axis, and what results are apart in it.
fn taps(space: &IterationSpace, index: &[Expr]) -> Option<Window> {
    let is_long = |axis: &usize| !space.extents[*axis].is_one();
    let innermost = (space.parallel..space.extents.len()).rev().find(is_long)?;
    window(space, index, innermost).filter(|window| window.step < window.taps)
}

/// Whether both are bytes with one zero point that is known.
fn has_bytes(function: &Function, found: &[Quantised; 2]) -> bool {
    let is_byte = |own: &Quantised| {
        own.whole.dtype(function).is_some() && own.whole.known_zero(function).is_some()
    };
    found.iter().all(is_byte)
}
