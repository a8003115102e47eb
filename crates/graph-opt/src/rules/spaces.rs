//! Rules of iteration spaces: contractions and reductions.

use base::{Id, InOrder};
use graph::{Function, IterationSpace, Op, READS_PER_COPY, ValueId};
use sym::{Atom, Expr, Range, SymbolId};
use tensor::{DType, Reduction, Scalar, ScalarFunction, Tensor};

use super::movement::corresponding;
use super::{Fired, No, Rule, Subject, require};
use crate::maker::Maker;
use crate::permutation;

pub(super) const RULES: &[Rule] = &[
    Rule::new(
        "unit_axes",
        Subject::Space,
        "an axis of extent 1 is not summed over, nor part of a window",
        unit_axes,
    ),
    Rule::new(
        "read_through_broadcast",
        Subject::Space,
        "sum (broadcast x)[i] => sum x[j]",
        read_through_broadcast,
    ),
    Rule::new(
        "read_through_reshape",
        Subject::Space,
        "sum (reshape x)[i] => sum x[j] if only axes of extent 1 come or go",
        read_through_reshape,
    ),
    Rule::new(
        "read_through_transpose",
        Subject::Space,
        "sum (transpose x)[i] => sum x[j] if the vector axis stays contiguous",
        read_through_transpose,
    ),
    Rule::new("product_with_ones", Subject::Space, "sum x[i] * 1 => sum x[i]", product_with_ones),
    Rule::new(
        "extreme_of_integers",
        Subject::Space,
        "max ((cast x - c) * s)[i] => (cast (max x[i]) - c) * s if x is an integer and s positive",
        extreme_of_integers,
    ),
    Rule::new(
        "product_without_sum",
        Subject::Space,
        "contract x[i] * y[j] => x * y if no axis is reduced",
        product_without_sum,
    ),
    Rule::new(
        "reduce_nothing",
        Subject::Space,
        "reduce x[i] => x if no axis is reduced",
        reduce_nothing,
    ),
];

/// The space of a contraction or reduction.
fn space_of(op: &Op) -> Result<&IterationSpace, No> {
    match op {
        Op::Contract { space, .. } | Op::Reduce { space, .. } => Ok(space),
        _ => Err(No::Match),
    }
}

/// The same contraction or reduction over another space.
pub(crate) fn with_space(op: &Op, space: IterationSpace) -> Op {
    match op {
        Op::Contract { accumulator, dtype, .. } => {
            Op::Contract { space, accumulator: *accumulator, dtype: *dtype }
        }
        Op::Reduce { reduction, accumulator, .. } => {
            Op::Reduce { space, reduction: *reduction, accumulator: *accumulator }
        }
        _ => op.clone(),
    }
}

fn unit_axes(maker: &mut Maker<'_, '_>, op: &Op, operands: &[ValueId]) -> Fired {
    let old = space_of(op)?;
    let is_unit = |axis: usize| old.extents[axis].is_one();
    if !(0..old.extents.len()).any(is_unit) {
        return Err(No::Match);
    }
    // An index that is the axis alone stays, if the axis is one of the result.
    let windows = || old.operands.iter().flatten().filter(|index| index.as_symbol().is_none());
    let in_window = |axis| windows().any(|index| index.contains(SymbolId::new(axis)));
    let goes = |axis| is_unit(axis) && (axis >= old.parallel || in_window(axis));
    require((0..old.extents.len()).any(goes), "no axis of extent 1 is reduced or in a window")?;
    // The new number of each axis that stays.
    let kept: Vec<usize> =
        (0..old.extents.len()).filter(|&axis| axis < old.parallel || !is_unit(axis)).collect();
    let renamed = |index: &Expr| {
        let compound = index.as_symbol().is_none();
        index.substitute(&mut |symbol| {
            let axis = symbol.index();
            let zero = is_unit(axis) && (compound || axis >= old.parallel);
            let new = kept.iter().position(|&other| other == axis).filter(|_| !zero);
            Some(new.map_or(Expr::ZERO, IterationSpace::axis))
        })
    };
    let operands_of = |index: &Vec<Expr>| index.iter().map(renamed).collect();
    let space = IterationSpace {
        extents: permutation::apply(&kept, &old.extents),
        parallel: old.parallel,
        operands: old.operands.iter().map(operands_of).collect(),
    };
    Ok(maker.one(&with_space(op, space), operands)?)
}

/// Replaces the first operand that `read` sees through: it gets the operand's definition and its
/// index, and returns what to read instead, and where.
fn read_through(
    maker: &mut Maker<'_, '_>,
    op: &Op,
    operands: &[ValueId],
    read: impl Fn(&mut Maker<'_, '_>, usize) -> Result<(ValueId, Vec<Expr>), No>,
) -> Fired {
    let space = space_of(op)?;
    let mut why = No::Match;
    for number in 0..operands.len() {
        match read(maker, number) {
            Ok((value, index)) => {
                let mut space = space.clone();
                space.operands[number] = index;
                let mut operands = operands.to_vec();
                operands[number] = value;
                return Ok(maker.one(&with_space(op, space), &operands)?);
            }
            Err(No::Match) => {}
            Err(No::Because(reason)) => why = No::Because(reason),
            Err(fault) => return Err(fault),
        }
    }
    Err(why)
}

fn read_through_broadcast(maker: &mut Maker<'_, '_>, op: &Op, operands: &[ValueId]) -> Fired {
    let space = space_of(op)?;
    read_through(maker, op, operands, |maker, number| {
        let Some((Op::Broadcast { axes, .. }, x)) =
            maker.definition_by(operands[number], |op| matches!(op, Op::Broadcast { .. }))
        else {
            return Err(No::Match);
        };
        let all_equal = maker.splat(operands[number]).is_some();
        require(!all_equal, "it is one number throughout")?;
        let small = maker.shape(x[0])?;
        let index = |(&axis, extent): (&usize, &Expr)| match extent.is_one() {
            true => Expr::ZERO,
            false => space.operands[number][axis].clone(),
        };
        Ok((x[0], axes.iter().zip(&small).map(index).collect()))
    })
}

fn read_through_reshape(maker: &mut Maker<'_, '_>, op: &Op, operands: &[ValueId]) -> Fired {
    let space = space_of(op)?;
    read_through(maker, op, operands, |maker, number| {
        let Some((Op::Reshape { shape }, x)) =
            maker.definition_by(operands[number], |op| matches!(op, Op::Reshape { .. }))
        else {
            return Err(No::Match);
        };
        let old = maker.shape(x[0])?;
        let pairs = corresponding(&old, &shape).ok_or(No::Because("longer axes change"))?;
        let mut index = vec![Expr::ZERO; old.len()];
        for (from, to) in pairs {
            index[from] = space.operands[number][to].clone();
        }
        Ok((x[0], index))
    })
}

/// A transpose in front disappears into the index, unless it is what makes a format: constants
/// are stored as they are read, blocked operands stay blocked, and the vector axis stays last.
fn read_through_transpose(maker: &mut Maker<'_, '_>, op: &Op, operands: &[ValueId]) -> Fired {
    let space = space_of(op)?;
    read_through(maker, op, operands, |maker, number| {
        let Some((Op::Transpose { permutation }, x)) =
            maker.definition_by(operands[number], |op| matches!(op, Op::Transpose { .. }))
        else {
            return Err(No::Match);
        };
        require(!maker.is_constant(x[0]), "constants are stored as they are read")?;
        let old = space.operands[number].as_slice();
        let index = permutation::apply(&permutation::inverse(&permutation), old);
        let shape = maker.shape(x[0])?;
        match op {
            Op::Contract { .. } => {
                let harmed =
                    harms_format(maker.function(), space, old, &index, &permutation, &shape);
                require(!harmed, "it makes the vector axis contiguous, or panels")?;
            }
            _ => {
                let order = natural_order(space, &index);
                let result = &space.extents[..space.parallel];
                let follows = permutation::moves_nothing(&order, result);
                require(follows, "the result's axes would not follow the operand's")?;
            }
        }
        Ok((x[0], index))
    })
}

/// Whether a contraction of a function that reads `index` from an operand of a shape lost by that:
/// the operand transposed by `permutation`, read at `transposed`, has a format.
pub(crate) fn harms_format(
    function: &Function,
    space: &IterationSpace,
    transposed: &[Expr],
    index: &[Expr],
    permutation: &[usize],
    shape: &[Expr],
) -> bool {
    let blocked = |index: &Expr| {
        let terms = index.terms().iter();
        terms.flat_map(|term| term.factors()).any(|atom| !matches!(atom, Atom::Symbol(_)))
    };
    if transposed.iter().any(blocked) {
        return true;
    }
    // A copy of what is read a few times takes longer than sums along it.
    let reads = (0..space.parallel).filter(|&axis| {
        let axis = SymbolId::new(axis);
        !index.iter().any(|index| index.contains(axis))
    });
    let reads: Expr = reads.map(|axis| &space.extents[axis]).product();
    let ranges = |symbol| function.symbols.get(symbol).map_or(Range::ALL, |known| known.range);
    let is_window = |index: &Expr| index.as_symbol().is_none() && index.as_constant().is_none();
    if reads.bounds(&ranges).max < READS_PER_COPY && !index.iter().any(is_window) {
        return false;
    }
    let Some(vector) = permutation::last_long(&space.extents[..space.parallel]) else {
        return false;
    };
    let vector = SymbolId::new(vector);
    let new_shape = permutation::apply(permutation, shape);
    let carries = |index: &[Expr], shape: &[Expr]| {
        permutation::last_long(shape).is_some_and(|last| index[last].contains(vector))
    };
    carries(transposed, &new_shape) && !carries(index, shape)
}

/// The order of the result's axes that follows the operand's: those that its first axis reads come
/// first, those that it does not read last.
pub(crate) fn natural_order(space: &IterationSpace, index: &[Expr]) -> Vec<usize> {
    let place = |axis: usize| {
        let symbol = SymbolId::new(axis);
        index.iter().position(|index| index.contains(symbol)).unwrap_or(index.len())
    };
    let mut order = permutation::identity(space.parallel);
    order.put_in_order_by_key(|&axis| place(axis));
    order
}

fn product_with_ones(maker: &mut Maker<'_, '_>, op: &Op, operands: &[ValueId]) -> Fired {
    let Op::Contract { space, accumulator, dtype } = op else { return Err(No::Match) };
    let number = |value: ValueId| maker.splat(value);
    let other = match [number(operands[0]), number(operands[1])] {
        [_, Some(one)] if one == Scalar::one(one.dtype()) => 0,
        [Some(one), _] if one == Scalar::one(one.dtype()) => 1,
        [None, None] => return Err(No::Match),
        _ => return Err(No::Because("the number is not 1")),
    };
    let mut space = space.clone();
    space.operands = vec![space.operands[other].clone()];
    let (reduction, accumulator) = (Reduction::Sum, *accumulator);
    let sum = maker.one(&Op::Reduce { space, reduction, accumulator }, &[operands[other]])?;
    Ok(maker.cast(sum, *dtype)?)
}

/// A step from integers to floats that keeps their order: a function with a number beside.
type Step = (ScalarFunction, Option<Scalar>);

/// The greatest or least of numbers that integers stand for stands where the integers' does. What
/// frames them may be less than all, as long as each window meets one of them.
fn extreme_of_integers(maker: &mut Maker<'_, '_>, op: &Op, operands: &[ValueId]) -> Fired {
    let Op::Reduce { space, reduction, accumulator } = op else { return Err(No::Match) };
    let (Reduction::Max | Reduction::Min, true) = (reduction, accumulator.is_float()) else {
        return Err(No::Match);
    };
    let framed = maker.definition_by(operands[0], |op| matches!(op, Op::Pad { .. }));
    let inside = framed.as_ref().map_or(operands[0], |(_, of)| of[0]);
    let (mut value, steps) = steps_from_integers(maker, inside)?;
    if let Some((Op::Pad { low, high, interior }, of)) = framed {
        let identity = reduction.identity(*accumulator);
        require(maker.splat(of[1]) == Some(identity), "the frame is a number among others")?;
        let shape = maker.shape(inside)?;
        let solid = interior.iter().all(|gap| *gap == 0);
        let frame = (0..shape.len()).map(|axis| (&low[axis], &high[axis], &shape[axis]));
        let meets = frame.zip(&space.operands[0]).all(|((low, high, extent), index)| {
            low.is_zero() && high.is_zero() || meets_data(space, index, [low, extent])
        });
        require(solid && meets, "a window may meet the frame alone")?;
        let dtype = maker.dtype(value)?;
        let identity = maker.literal(Tensor::scalar(reduction.identity(dtype)));
        value = maker.one(&Op::Pad { low, high, interior }, &[value, identity])?;
    }
    let accumulator = maker.dtype(value)?;
    let op = Op::Reduce { space: space.clone(), reduction: *reduction, accumulator };
    let mut result = maker.one(&op, &[value])?;
    for (function, number) in steps.into_iter().rev() {
        result = match number {
            None => maker.cast(result, DType::F32)?,
            Some(number) => {
                let shape = maker.shape(result)?;
                let number = maker.full(&shape, number)?;
                maker.map(function, &[result, number])?
            }
        };
    }
    Ok(result)
}

/// The integers of at most 16 bits that stand for a value, and the steps that lead there, the last
/// one first.
fn steps_from_integers(
    maker: &mut Maker<'_, '_>,
    mut value: ValueId,
) -> Result<(ValueId, Vec<Step>), No> {
    use ScalarFunction::{Add, Cast, Mul, Sub};
    let mut steps = Vec::new();
    loop {
        let Some((Op::Map { function, dtype: DType::F32 }, of)) =
            maker.definition_by(value, |op| matches!(op, Op::Map { .. }))
        else {
            return Err(No::Match);
        };
        value = of[0];
        if function == Cast {
            let dtype = maker.dtype(value)?;
            steps.push((Cast, None));
            let short = dtype.is_integer() && dtype.bits() <= 16;
            return if short { Ok((value, steps)) } else { Err(No::Match) };
        }
        let (Add | Sub | Mul, [_, number]) = (function, &of[..]) else { return Err(No::Match) };
        let number = maker.splat(*number).ok_or(No::Match)?;
        let keeps_order = function != Mul || number.as_f64() > 0.0;
        require(keeps_order && number.as_f64().is_finite(), "a factor may turn the order")?;
        steps.push((function, Some(number)));
    }
}

/// Whether each window along an axis meets one of so many elements behind so many of a frame.
fn meets_data(space: &IterationSpace, index: &Expr, [low, extent]: [&Expr; 2]) -> bool {
    let (mut step, mut first_of_last, mut last_of_first) = (0, 0, 0);
    for symbol in index.symbols() {
        let axis = symbol.index();
        let (Some(by), Some(count)) =
            (index.linear_coefficient(symbol), space.extents[axis].as_constant())
        else {
            return false;
        };
        if axis < space.parallel {
            first_of_last += by * (count - 1);
        } else {
            last_of_first += by * (count - 1);
            step = by.max(step);
        }
    }
    let known = |expr: &Expr| expr.as_constant();
    let (Some(low), Some(extent)) = (known(low), known(extent)) else { return false };
    // Taps are at most as far apart as there are data.
    low <= last_of_first && first_of_last < low + extent && step.max(1) <= extent
}

fn product_without_sum(maker: &mut Maker<'_, '_>, op: &Op, operands: &[ValueId]) -> Fired {
    let Op::Contract { space, accumulator, dtype } = op else { return Err(No::Match) };
    require(space.parallel == space.extents.len(), "axes are reduced")?;
    let mut factors = Vec::new();
    for (&operand, index) in operands.iter().zip(&space.operands) {
        let factor = read_whole(maker, space, operand, index)?;
        factors.push(maker.cast(factor, *accumulator)?);
    }
    let product = maker.map(ScalarFunction::Mul, &factors)?;
    let sum = sum_of_one(maker, space, product, *accumulator)?;
    Ok(maker.cast(sum, *dtype)?)
}

fn reduce_nothing(maker: &mut Maker<'_, '_>, op: &Op, operands: &[ValueId]) -> Fired {
    let Op::Reduce { space, reduction, accumulator } = op else { return Err(No::Match) };
    require(space.parallel == space.extents.len(), "axes are reduced")?;
    let value = read_whole(maker, space, operands[0], &space.operands[0])?;
    let value = maker.cast(value, *accumulator)?;
    match reduction {
        Reduction::Sum => sum_of_one(maker, space, value, *accumulator),
        _ => Ok(value),
    }
}

/// A sum of one term: sums of floats start at 0.0, which makes 0.0 of -0.0.
fn sum_of_one(
    maker: &mut Maker<'_, '_>,
    space: &IterationSpace,
    term: ValueId,
    accumulator: DType,
) -> Fired {
    if !accumulator.is_float() {
        return Ok(term);
    }
    let zero = maker.full(&space.extents, Scalar::zero(accumulator))?;
    Ok(maker.map(ScalarFunction::Add, &[term, zero])?)
}

/// What an operand of a space without reduced axes has for each element of the result.
fn read_whole(
    maker: &mut Maker<'_, '_>,
    space: &IterationSpace,
    operand: ValueId,
    index: &[Expr],
) -> Fired {
    // The operand's axes that the result has, by the result's axis, and what is read along each.
    let mut read: Vec<(usize, usize)> = Vec::new();
    let (mut starts, mut steps, mut shape) = (Vec::new(), Vec::new(), Vec::new());
    for (axis, index) in index.iter().enumerate() {
        let mut symbols = index.symbols().into_iter();
        let (step, extent) = match (symbols.next(), symbols.next()) {
            (None, _) => (1, Expr::ONE),
            (Some(symbol), None) => {
                let step = index.linear_coefficient(symbol).ok_or(No::Because("it is no slice"))?;
                read.push((symbol.index(), axis));
                (step, space.extents[symbol.index()].clone())
            }
            _ => return Err(No::Because("it reads along two axes at once")),
        };
        starts.push(index.substitute(&mut |_| Some(Expr::ZERO)));
        steps.push(step);
        shape.push(extent);
    }
    let distinct = (0..space.parallel).all(|a| read.iter().filter(|pair| pair.0 == a).count() <= 1);
    require(distinct, "it reads a diagonal")?;
    let axes: Vec<usize> = read.iter().map(|&(_, axis)| axis).collect();
    let slice = maker.slice(operand, &starts, &steps, &shape)?;
    let mut value = maker.reshape(slice, permutation::apply(&axes, &shape))?;
    let mut order = permutation::identity(read.len());
    order.put_in_order_by_key(|&position| read[position].0);
    value = maker.transpose(value, &order)?;
    read.sort_unstable();
    let axes: Vec<usize> = read.iter().map(|&(axis, _)| axis).collect();
    Ok(maker.broadcast(value, &space.extents, &axes)?)
}
