//! Elements as they lie in memory: bytes that are put together, and bits that are stored as those
//! of another type.
//!
//! before: `out[i] = bitcast<f16>(or(cast<u16>(in[i, 0]), shl(cast<u16>(in[i, 1]), 8)))`, `in` of
//!         bytes
//! after:  `out[i] = in[i, 0]`, both of u16
//!
//! A kernel sees a parameter as elements of another type where the bytes are the same. Bytes that
//! are put together are those of a weight, whose memory has an even address wherever addresses
//! matter.

use std::collections::BTreeMap;

use loops::visit::{walk, walk_mut, walk_values};
use loops::{Access, Buffer, BufferId, Kernel, ScalarExpr, Scope, Stmt};
use sym::Expr;
use tensor::{DType, ScalarFunction};

/// Sees parameters as what they hold; those of `weights` may be seen as longer elements. What is
/// seen as elements of several types becomes several parameters: the new ones, with those whose
/// memory they are, in the order of the parameters they become.
pub(super) fn see_as_stored(
    kernel: &mut Kernel,
    weights: &[BufferId],
) -> Vec<(BufferId, BufferId)> {
    see_stores(kernel);
    let found = Found::of(kernel, weights);
    let (mut views, mut added) = (BTreeMap::new(), Vec::new());
    for (&(buffer, dtype), &count) in &found.joined {
        let elements = longer(&kernel.buffers[buffer], dtype);
        let is_all = found.loads[&buffer] == count;
        let view = match is_all {
            true => buffer,
            false => {
                let shape = elements.shape.clone();
                let view = kernel.add_parameter("in", dtype, shape, Access::Read);
                added.push((view, buffer));
                view
            }
        };
        let name = kernel.buffers[view].name.clone();
        views.insert((buffer, dtype), (view, Buffer { name, ..elements }));
    }
    if views.is_empty() {
        return added;
    }
    let mut body = std::mem::take(&mut kernel.body);
    walk_mut(&mut body, &mut |stmt| {
        if let Some(value) = stmt.value_mut() {
            see(value, kernel, &views);
        }
    });
    kernel.body = body;
    for (view, buffer) in views.into_values() {
        kernel.buffers[view] = buffer;
    }
    added
}

/// Has the loads of joined bytes be those of longer elements.
fn see(
    value: &mut ScalarExpr,
    kernel: &Kernel,
    views: &BTreeMap<(BufferId, DType), (BufferId, Buffer)>,
) {
    if let Some((buffer, dtype, index)) = joined(value, kernel)
        && let Some((view, _)) = views.get(&(buffer, dtype))
    {
        *value = ScalarExpr::Load { buffer: *view, index };
        return;
    }
    value.operands_mut().for_each(|operand| see(operand, kernel, views));
}

/// What is read of weights of bytes.
#[derive(Default)]
struct Found {
    /// Loads of each, in parts of them: those of a pair of bytes are one each.
    loads: BTreeMap<BufferId, usize>,
    /// Those of them that are put together to elements of a type.
    joined: BTreeMap<(BufferId, DType), usize>,
}

impl Found {
    fn of(kernel: &Kernel, weights: &[BufferId]) -> Found {
        let mut found = Found::default();
        let of_bytes = |buffer: &BufferId| kernel.buffers[*buffer].dtype == DType::U8;
        let weights: Vec<BufferId> = weights.iter().copied().filter(of_bytes).collect();
        if weights.is_empty() {
            return found;
        }
        walk(&kernel.body, &mut |stmt| {
            if let Some(value) = stmt.value() {
                found.add(value, kernel, &weights);
            }
        });
        found
    }

    fn add(&mut self, value: &ScalarExpr, kernel: &Kernel, weights: &[BufferId]) {
        if let Some((buffer, dtype, _)) = joined(value, kernel)
            && weights.contains(&buffer)
        {
            let bytes = dtype.bytes().unwrap_or(1);
            *self.loads.entry(buffer).or_default() += bytes;
            *self.joined.entry((buffer, dtype)).or_default() += bytes;
            return;
        }
        if let ScalarExpr::Load { buffer, .. } = value {
            *self.loads.entry(*buffer).or_default() += 1;
        }
        value.operands().for_each(|operand| self.add(operand, kernel, weights));
    }
}

/// A buffer of bytes as one of longer elements, into which its rows can be cut.
fn longer(buffer: &Buffer, dtype: DType) -> Buffer {
    let bytes = Expr::constant(dtype.bytes().unwrap_or(1) as i64);
    let mut seen = Buffer { dtype, ..buffer.clone() };
    if let Some(last) = seen.shape.last_mut() {
        *last = last.floor_div(&bytes);
    }
    if let Some((_, outer)) = seen.strides.as_mut().and_then(|strides| strides.split_last_mut()) {
        outer.iter_mut().for_each(|stride| *stride = stride.floor_div(&bytes));
    }
    seen
}

/// The element that a value is, of bytes that lie side by side, the lowest first: their buffer, its
/// type, its index where the buffer is seen as such elements.
fn joined(value: &ScalarExpr, kernel: &Kernel) -> Option<(BufferId, DType, Vec<Expr>)> {
    let (dtype, integer) = match value {
        ScalarExpr::Apply { function: ScalarFunction::Bitcast, dtype, arguments } => {
            (*dtype, &arguments[0])
        }
        ScalarExpr::Apply { function: ScalarFunction::Or, dtype, .. } => (*dtype, value),
        _ => return None,
    };
    let mut bytes = vec![None; integer.dtype(kernel)?.bytes()?];
    let ScalarExpr::Apply { function: ScalarFunction::Or, .. } = integer else { return None };
    parts(integer, kernel, &mut bytes)?;
    let bytes: Vec<(BufferId, &[Expr])> = bytes.into_iter().collect::<Option<_>>()?;
    let (buffer, first) = bytes[0];
    let count = bytes.len() as i64;
    let data = &kernel.buffers[buffer];
    let (last, outer) = first.split_last()?;
    let follow = bytes.iter().zip(0..).all(|((other, index), at)| {
        let ends = |(end, before): (&Expr, &[Expr])| before == outer && *end == last + at;
        *other == buffer && index.split_last().is_some_and(ends)
    });
    let whole_rows = match &data.strides {
        None => data.shape.last()?.divisible_by(count),
        Some(strides) => {
            let (next, rows) = strides.split_last()?;
            next.is_one() && rows.iter().all(|stride| stride.divisible_by(count))
        }
    };
    let is_read = data.scope == Scope::Parameter(Access::Read) && data.dtype == DType::U8;
    let extent = data.shape.last()?;
    let fits = whole_rows && last.divisible_by(count) && extent.divisible_by(count);
    let index = || [outer, &[last.floor_div(&Expr::constant(count))]].concat();
    (follow && is_read && fits && dtype.bytes() == Some(bytes.len()) && dtype != DType::Bool)
        .then(|| (buffer, dtype, index()))
}

/// Puts the loads of bytes that an integer consists of at their places in it.
fn parts<'k>(
    value: &'k ScalarExpr,
    kernel: &Kernel,
    bytes: &mut [Option<(BufferId, &'k [Expr])>],
) -> Option<()> {
    let ScalarExpr::Apply { function, dtype, arguments } = value else { return None };
    let (part, up) = match function {
        ScalarFunction::Or => {
            return arguments.iter().try_for_each(|argument| parts(argument, kernel, bytes));
        }
        ScalarFunction::Shl => {
            let ScalarExpr::Constant(up) = arguments.get(1)? else { return None };
            (arguments.first()?, up.as_i64())
        }
        _ => (value, 0),
    };
    let ScalarExpr::Apply { function: ScalarFunction::Cast, dtype: own, arguments } = part else {
        return None;
    };
    let ScalarExpr::Load { buffer, index } = arguments.first()? else { return None };
    let at = usize::try_from(up).ok().filter(|up| up % 8 == 0)? / 8;
    let is_byte = kernel.buffers[*buffer].dtype == DType::U8;
    let place = bytes.get_mut(at)?;
    (own == dtype && dtype.is_integer() && is_byte && place.is_none())
        .then(|| *place = Some((*buffer, index)))
}

/// What is only written as the bits of another type's elements is of that type.
fn see_stores(kernel: &mut Kernel) {
    let mut kinds: BTreeMap<BufferId, Option<DType>> = BTreeMap::new();
    walk(&kernel.body, &mut |stmt| match stmt {
        Stmt::Store { buffer, value, .. } => {
            let bits = match value {
                ScalarExpr::Apply { function: ScalarFunction::Bitcast, arguments, .. } => {
                    arguments[0].dtype(kernel).filter(|dtype| dtype.is_integer())
                }
                _ => None,
            };
            let kind = kinds.entry(*buffer).or_insert(bits);
            *kind = kind.filter(|own| Some(*own) == bits);
        }
        Stmt::Reduce { buffer, .. } => _ = kinds.insert(*buffer, None),
        _ => {}
    });
    walk_values(&kernel.body, &mut |value| {
        if let ScalarExpr::Load { buffer, .. } | ScalarExpr::Fold { buffer, .. } = value {
            kinds.insert(*buffer, None);
        }
    });
    kinds.retain(|buffer, kind| {
        let is_written = kernel.buffers[*buffer].scope == Scope::Parameter(Access::Write);
        is_written && kind.is_some()
    });
    for (&buffer, kind) in &kinds {
        kernel.buffers[buffer].dtype = kind.unwrap_or(DType::U8);
    }
    walk_mut(&mut kernel.body, &mut |stmt| {
        if let Stmt::Store { buffer, value, .. } = stmt
            && kinds.contains_key(buffer)
            && let ScalarExpr::Apply { arguments, .. } = value
        {
            *value = arguments.swap_remove(0);
        }
    });
}
