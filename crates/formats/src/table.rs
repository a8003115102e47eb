//! Integers that stand in a table of at most sixteen, and the places that tell them.
//!
//! `cast<f32>(bitcast<i8>(lookup(p, ..)))`, moved perhaps, is known by the low four bits of `p`,
//! and so is `gather(table, cast<i64>(p))`.

use graph::{Built, Function, Op, Rewriter, ValueId};
use tensor::{DType, Scalar, ScalarFunction};

use crate::quantised::{range, splat};

/// Entries of a table.
const ENTRIES: usize = 16;

/// Conversions and movements behind a table that are looked through.
const MOST_STEPS: usize = 8;

/// What leads to a value, element by element or moved as it is, if it is such.
fn inner(function: &Function, value: ValueId) -> Option<(&Op, ValueId)> {
    let node = &function.nodes[function.producer(value)?.0];
    let moves = matches!(node.op, Op::Reshape { .. } | Op::Transpose { .. });
    let is_bitcast = |by: &ScalarFunction| *by == ScalarFunction::Bitcast;
    let converts = match &node.op {
        Op::Map { function: by, .. } => *by == ScalarFunction::Cast || is_bitcast(by),
        Op::Bitcast { .. } => true,
        _ => false,
    };
    (moves || converts).then_some((&node.op, *node.operands.first()?))
}

/// The integers that a value can be, by their places, if it comes out of a table of sixteen.
pub(crate) fn entries(function: &Function, value: ValueId) -> Option<[i64; ENTRIES]> {
    entries_behind(function, value, MOST_STEPS)
}

fn entries_behind(function: &Function, value: ValueId, steps: usize) -> Option<[i64; ENTRIES]> {
    let dtype = function.ty(value).as_tensor()?.dtype;
    let node = &function.nodes[function.producer(value)?.0];
    if let Op::Map { function: ScalarFunction::Lookup, .. } = node.op {
        let mut words = Vec::new();
        for &word in &node.operands[1..] {
            words.push(function.literal(splat(function, word)?)?.scalars().next()?);
        }
        let at = |place: usize| {
            let operands = [&[Scalar::from_i64(DType::U8, place as i64)][..], &words].concat();
            ScalarFunction::Lookup.evaluate(DType::U8, &operands).as_i64()
        };
        return Some(std::array::from_fn(at));
    }
    if let Op::Gather { axes, batch: 0, position: 0 } = &node.op
        && let ([0], &[of, at]) = (&axes[..], &node.operands[..])
    {
        let table = function.literal(of).filter(|table| table.shape().len() == 1)?;
        let numbers: Vec<f64> = table.scalars().map(|number| number.as_f64()).collect();
        let (low, high) = range(function, at)?;
        let whole = numbers.iter().all(|number| number.fract() == 0.0 && number.abs() <= 255.0);
        if !whole || numbers.len() > ENTRIES || low < 0 || high >= numbers.len() as i64 {
            return None;
        }
        let at = |place: usize| numbers[place.min(numbers.len() - 1)] as i64;
        return Some(std::array::from_fn(at));
    }
    let (op, inner) = inner(function, value)?;
    let entries = entries_behind(function, inner, steps.checked_sub(1)?)?;
    let from = function.ty(inner).as_tensor()?.dtype;
    if matches!(op, Op::Reshape { .. } | Op::Transpose { .. }) {
        return Some(entries);
    }
    if matches!(op, Op::Map { function: ScalarFunction::Cast, .. }) {
        let holds = |entry: i64| Scalar::from_i64(dtype, entry).as_f64() == entry as f64;
        return entries.iter().all(|entry| holds(*entry)).then_some(entries);
    }
    let turned = |entry: i64| Scalar::from_bits(dtype, Scalar::from_i64(from, entry).bits());
    let fits = from.bits() == 8 && dtype.bits() == 8 && dtype.is_integer();
    fits.then(|| entries.map(|entry| turned(entry).as_i64()))
}

/// The places in the table that tell a value that comes out of it.
pub(crate) fn places(rewriter: &mut Rewriter<'_>, value: ValueId) -> Built {
    let source = rewriter.source;
    let (id, _) = source.producer(value).ok_or("numbers of no table")?;
    let node = &source.nodes[id];
    if let Op::Map { function: ScalarFunction::Lookup, .. } = node.op {
        return Ok(rewriter.get(node.operands[0]));
    }
    if let (Op::Gather { .. }, [_, at]) = (&node.op, &node.operands[..]) {
        let at = rewriter.get(*at);
        return rewriter.builder.cast(at, DType::U8);
    }
    let (op, inner) = inner(source, value).ok_or("numbers of no table")?;
    let places = places(rewriter, inner)?;
    match op {
        Op::Reshape { .. } | Op::Transpose { .. } => {
            Ok(rewriter.builder.add(op.clone(), &[places])?[0])
        }
        _ => Ok(places),
    }
}

/// What a table of bytes holds at these places.
pub(crate) fn looked_up(
    builder: &mut graph::FunctionBuilder,
    places: ValueId,
    table: &[u8; ENTRIES],
) -> Built {
    let (words, _) = table.as_chunks::<4>();
    let mut operands = vec![places];
    for word in words {
        let word = f64::from(u32::from_le_bytes(*word));
        operands.push(builder.scalar(DType::U32, word));
    }
    builder.map_broadcast(ScalarFunction::Lookup, &operands)
}
