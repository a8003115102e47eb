//! Rules of scalar functions as such: what holds of every commutative, associative, idempotent one.

use graph::{Op, Shape, ValueId};
use tensor::{DType, Scalar, ScalarFunction};

use super::{Fired, No, Rule, Subject, require};
use crate::maker::Maker;

pub(super) const RULES: &[Rule] = &[
    Rule::new(
        "identity_element",
        Subject::Map,
        "f(x, e) => x if e is f's right identity",
        identity_element,
    ),
    Rule::new(
        "constants_right",
        Subject::Map,
        "f(c, x) => f(x, c) if f is commutative and c constant",
        constants_right,
    ),
    Rule::new(
        "associativity",
        Subject::Map,
        "f(f(x, c), d) => f(x, f(c, d)) if f is associative",
        associativity,
    ),
    Rule::new("idempotence", Subject::Map, "f(x, x) => x if f is idempotent", idempotence),
    Rule::new("projection", Subject::Map, "f(f(x)) => f(x) if f is a projection", projection),
    Rule::new("cast_to_itself", Subject::Map, "cast<T>(x: T) => x", cast_to_itself),
    Rule::new(
        "cast_twice",
        Subject::Map,
        "cast<C>(cast<B>(x: A)) => cast<C>(x) if B holds all of A",
        cast_twice,
    ),
    Rule::new(
        "bitcast_twice",
        Subject::Bitcast,
        "bitcast<C> (bitcast<B> x) => bitcast<C> x",
        bitcast_twice,
    ),
    Rule::new(
        "cast_of_bounded",
        Subject::Map,
        "cast<T>(min(x, c)) => cast<T>(x) if x is a float and c is beyond T; max alike",
        cast_of_bounded,
    ),
    Rule::new(
        "cast_of_bounded_before",
        Subject::Map,
        "cast<T>(f(max(x, c))) => cast<T>(f(x)) if f never falls and f(c) is beyond T; min alike",
        cast_of_bounded_before,
    ),
    Rule::new(
        "cast_of_zero_added",
        Subject::Map,
        "cast<T>(x + 0) => cast<T>(x) if T is of integers, which have one zero",
        cast_of_zero_added,
    ),
    Rule::new("division", Subject::Map, "x / c => x * (1 / c) if c is a power of two", division),
    Rule::new(
        "map_of_broadcasts",
        Subject::Map,
        "f(broadcast x, ..) => broadcast f(x, ..)",
        map_of_broadcasts,
    ),
];

/// The scalar function of a node and its result's type.
fn function_of(op: &Op) -> Result<(ScalarFunction, DType), No> {
    match op {
        Op::Map { function, dtype } => Ok((*function, *dtype)),
        _ => Err(No::Match),
    }
}

fn identity_element(maker: &mut Maker<'_, '_>, op: &Op, operands: &[ValueId]) -> Fired {
    let (function, dtype) = function_of(op)?;
    let (identity, &[x, e]) = (function.right_identity(dtype).ok_or(No::Match)?, operands) else {
        return Err(No::Match);
    };
    let found = maker.splat(e).ok_or(No::Match)?;
    require(found == identity, "the literal is not the identity")?;
    Ok(x)
}

fn constants_right(maker: &mut Maker<'_, '_>, op: &Op, operands: &[ValueId]) -> Fired {
    let (function, _) = function_of(op)?;
    let &[c, x] = operands else { return Err(No::Match) };
    if !maker.is_fixed(c) || maker.is_fixed(x) {
        return Err(No::Match);
    }
    require(function.is_commutative(), "the function is not commutative")?;
    Ok(maker.map(function, &[x, c])?)
}

fn associativity(maker: &mut Maker<'_, '_>, op: &Op, operands: &[ValueId]) -> Fired {
    let (outer, dtype) = function_of(op)?;
    let &[value, d] = operands else { return Err(No::Match) };
    let Some((Op::Map { function, .. }, inner)) =
        maker.definition_by(value, |op| matches!(op, Op::Map { .. }))
    else {
        return Err(No::Match);
    };
    if function != outer || maker.splat(inner[1]).is_none() || maker.splat(d).is_none() {
        return Err(No::Match);
    }
    require(outer.is_associative(dtype), "the function is not associative on this type")?;
    let both = maker.map(outer, &[inner[1], d])?;
    Ok(maker.map(outer, &[inner[0], both])?)
}

fn idempotence(_: &mut Maker<'_, '_>, op: &Op, operands: &[ValueId]) -> Fired {
    let (function, _) = function_of(op)?;
    match *operands {
        [x, y] if x == y => {
            require(function.is_idempotent(), "the function is not idempotent")?;
            Ok(x)
        }
        _ => Err(No::Match),
    }
}

fn projection(maker: &mut Maker<'_, '_>, op: &Op, operands: &[ValueId]) -> Fired {
    let (outer, _) = function_of(op)?;
    match maker.function().op(operands[0]) {
        Some(Op::Map { function, .. }) if *function == outer && outer.arity() == 1 => {
            require(outer.is_projection(), "the function is not a projection")?;
            Ok(operands[0])
        }
        _ => Err(No::Match),
    }
}

fn cast_to_itself(maker: &mut Maker<'_, '_>, op: &Op, operands: &[ValueId]) -> Fired {
    match function_of(op)? {
        (ScalarFunction::Cast, dtype) => {
            require(maker.dtype(operands[0])? == dtype, "the types differ")?;
            Ok(operands[0])
        }
        _ => Err(No::Match),
    }
}

fn cast_twice(maker: &mut Maker<'_, '_>, op: &Op, operands: &[ValueId]) -> Fired {
    let (ScalarFunction::Cast, last) = function_of(op)? else { return Err(No::Match) };
    let Some((Op::Map { function: ScalarFunction::Cast, dtype }, inner)) =
        maker.definition(operands[0])
    else {
        return Err(No::Match);
    };
    let first = maker.dtype(inner[0])?;
    require(holds_all(dtype, first), "the first cast may change the value")?;
    // Integers wrap into integers, floats do not.
    let wraps = first.is_integer() && last.is_integer() && !holds_all(last, first);
    require(!(wraps && dtype.is_float()), "the last cast may change the value")?;
    Ok(maker.cast(inner[0], last)?)
}

fn bitcast_twice(maker: &mut Maker<'_, '_>, op: &Op, operands: &[ValueId]) -> Fired {
    let Op::Bitcast { dtype } = op else { return Err(No::Match) };
    let is_bitcast = |op: &Op| matches!(op, Op::Bitcast { .. });
    let (_, inner) = maker.definition_by(operands[0], is_bitcast).ok_or(No::Match)?;
    match maker.dtype(inner[0])? == *dtype {
        true => Ok(inner[0]),
        false => Ok(maker.one(op, &[inner[0]])?),
    }
}

/// Floats outside of a type of integers become its least or greatest; NaN becomes zero, bounded or
/// not.
fn cast_of_bounded(maker: &mut Maker<'_, '_>, op: &Op, operands: &[ValueId]) -> Fired {
    use ScalarFunction::{Max, Min};
    let (ScalarFunction::Cast, last) = function_of(op)? else { return Err(No::Match) };
    let is_bound = |op: &Op| matches!(op, Op::Map { function: Max | Min, .. });
    let Some((Op::Map { function, dtype }, inner)) = maker.definition_by(operands[0], is_bound)
    else {
        return Err(No::Match);
    };
    let saturates = dtype.is_float() && last.is_integer();
    let (low, high) = last.integer_range().filter(|_| saturates).ok_or(No::Match)?;
    let bound = maker.splat(inner[1]).ok_or(No::Match)?.as_f64();
    let beyond = if function == Min { bound >= high as f64 } else { bound <= low as f64 };
    require(beyond, "the bound is within the type")?;
    Ok(maker.cast(inner[0], last)?)
}

fn cast_of_zero_added(maker: &mut Maker<'_, '_>, op: &Op, operands: &[ValueId]) -> Fired {
    let (ScalarFunction::Cast, last) = function_of(op)? else { return Err(No::Match) };
    let is_sum = |op: &Op| matches!(op, Op::Map { function: ScalarFunction::Add, .. });
    let (_, inner) = maker.definition_by(operands[0], is_sum).ok_or(No::Match)?;
    let added = maker.splat(inner[1]).ok_or(No::Match)?;
    require(added.as_f64() == 0.0, "what is added is not zero")?;
    require(last.is_integer(), "the type has two zeros")?;
    Ok(maker.cast(inner[0], last)?)
}

/// The steps between a bound and a cast that are looked through.
const MOST_STEPS: usize = 6;

/// As `cast_of_bounded`, behind steps that keep the order of floats: what is beyond a bound is cast
/// to what the bound is cast to.
fn cast_of_bounded_before(maker: &mut Maker<'_, '_>, op: &Op, operands: &[ValueId]) -> Fired {
    use ScalarFunction::{Add, Div, Max, Min, Mul, Round, Sub};
    let (ScalarFunction::Cast, last) = function_of(op)? else { return Err(No::Match) };
    let (low, high) = last.integer_range().ok_or(No::Match)?;
    let mark = maker.mark();
    let mut steps: Vec<(ScalarFunction, Vec<ValueId>)> = Vec::new();
    let mut value = operands[0];
    let (function, inner) = loop {
        let is_step = |op: &Op| {
            matches!(op, Op::Map { function: Add | Sub | Mul | Div | Round | Max | Min, dtype }
                if dtype.is_float())
        };
        let found = maker.definition_by(value, is_step).filter(|_| steps.len() < MOST_STEPS);
        let Some((Op::Map { function, .. }, inner)) = found else {
            maker.forget(mark);
            return Err(No::Match);
        };
        if matches!(function, Max | Min) {
            break (function, inner);
        }
        value = inner[0];
        steps.push((function, inner));
    };
    let bound = maker.splat(inner[1]).filter(|_| !steps.is_empty()).ok_or(No::Match)?;
    let mut carried = bound;
    for (step, inner) in steps.iter().rev() {
        let mut arguments = vec![carried];
        if let Some(&other) = inner.get(1) {
            let other = maker.splat(other).ok_or(No::Match)?;
            let factor = other.as_f64();
            let keeps_order = match step {
                Mul | Div => factor > 0.0 && factor.is_finite(),
                _ => factor.is_finite(),
            };
            require(keeps_order, "a step may turn the order")?;
            arguments.push(other);
        }
        carried = step.evaluate(bound.dtype(), &arguments);
    }
    let carried = carried.as_f64();
    let beyond = if function == Min { carried >= high as f64 } else { carried <= low as f64 };
    require(beyond, "the bound is within the type")?;
    let mut value = inner[0];
    for (step, inner) in steps.iter().rev() {
        let operands: Vec<ValueId> = std::iter::once(value).chain(inner.get(1).copied()).collect();
        value = maker.map(*step, &operands)?;
    }
    Ok(maker.cast(value, last)?)
}

/// Whether a type has every value of another, NaN and infinities included.
fn holds_all(wide: DType, narrow: DType) -> bool {
    use DType::{BF16, F16, F32, F64};
    if let (Some((low, high)), Some((least, most))) = (wide.integer_range(), narrow.integer_range())
    {
        return wide != DType::Bool && low <= least && most <= high;
    }
    let whole = match wide {
        BF16 => 8,
        F16 => 11,
        F32 => 24,
        F64 => 53,
        _ => 0,
    };
    match narrow {
        _ if narrow.is_integer() => narrow.bits() <= whole,
        F16 | BF16 => matches!(wide, F32 | F64),
        F32 => wide == F64,
        DType::Bool => wide.is_number() && wide.integer_range().is_some_and(|range| range.1 >= 1),
        _ => false,
    }
}

/// Multiplication by a power of two is exact where the division is, and rounds as it does.
fn division(maker: &mut Maker<'_, '_>, op: &Op, operands: &[ValueId]) -> Fired {
    let (ScalarFunction::Div, dtype) = function_of(op)? else { return Err(No::Match) };
    let divisor = maker.splat(operands[1]).ok_or(No::Match)?;
    require(matches!(dtype, DType::F32 | DType::F64), "the type is not f32 or f64")?;
    let inverse = Scalar::from_f64(dtype, 1.0 / divisor.as_f64());
    let is_power = divisor.as_f64().to_bits().trailing_zeros() >= 52;
    let safe = (1e-30..=1e30).contains(&divisor.as_f64().abs());
    require(is_power && safe, "the divisor is not a power of two of moderate size")?;
    let shape = maker.shape(operands[1])?;
    let factor = maker.full(&shape, inverse)?;
    Ok(maker.map(ScalarFunction::Mul, &[operands[0], factor])?)
}

fn map_of_broadcasts(maker: &mut Maker<'_, '_>, op: &Op, operands: &[ValueId]) -> Fired {
    function_of(op)?;
    let broadcast = |value: ValueId| match maker.function().op(value) {
        Some(Op::Broadcast { shape, axes }) => Some((shape, axes)),
        _ => None,
    };
    // The broadcast of most axes sets the shape; others have some of them, or are one number.
    let found = operands.iter().filter_map(|&value| broadcast(value));
    let (shape, axes) = found.max_by_key(|(_, axes)| axes.len()).ok_or(No::Match)?;
    let (shape, axes) = (shape.clone(), axes.clone());
    // Where the axes of an operand's source lie among these.
    let places = |value: ValueId| -> Option<Vec<usize>> {
        let (_, own) = broadcast(value)?;
        own.iter().map(|axis| axes.iter().position(|other| other == axis)).collect()
    };
    let found: Vec<Option<Vec<usize>>> = operands.iter().map(|&value| places(value)).collect();
    let fits = |(&value, places): (&ValueId, &Option<Vec<usize>>)| {
        places.is_some() || maker.splat(value).is_some()
    };
    require(operands.iter().zip(&found).all(fits), "an operand is repeated along other axes")?;
    let small: Shape = axes.iter().map(|&axis| shape[axis].clone()).collect();
    let mut values = Vec::new();
    for (&operand, places) in operands.iter().zip(found) {
        let value = match (places, maker.splat(operand)) {
            (_, Some(number)) => maker.full(&small, number)?,
            (Some(places), None) => {
                let (_, source) = maker.definition(operand).ok_or(No::Match)?;
                let own = places.iter().map(|&place| small[place].clone()).collect::<Shape>();
                require(maker.shape(source[0])? == own, "extents differ")?;
                maker.broadcast(source[0], &small, &places)?
            }
            (None, None) => return Err(No::Match),
        };
        values.push(value);
    }
    let value = maker.one(op, &values)?;
    Ok(maker.broadcast(value, &shape, &axes)?)
}
