//! Windows that mostly meet the zeros around their data: each part of the result whose windows
//! reach into the data with the same taps is a sum by itself, over those taps.
//!
//! ```text
//! before: sum over ky of pad(data)[n, c, y + 12 * ky] * filter[o, c, ky], 12 zeros around 14 lines
//! after:  lines 0..2 with taps 1..3, lines 2..12 with tap 1, lines 12..14 with taps 0..2,
//!         put behind each other: sums over data[n, c, y + 12 * ky - 12]
//! ```
//!
//! What is left out are products with zero, so sums keep their order, and their bits unless the
//! filter has infinities. It is done where the parts together should take clearly less time.

use backend::Target;
use base::{Diagnostics, Id, Remark};
use graph::{Built, Function, IterationSpace, NodeId, Op, Rewriter, ValueId, rebuild};
use sym::{Expr, SymbolId};

use crate::panels::Products;

/// The share of the time up to which parts pay: each is a kernel, and all are put together.
const PAYS: f64 = 0.7;

/// The most parts.
const MOST_PARTS: usize = 16;

/// Results along an axis that meet the same taps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Part {
    start: i64,
    extent: i64,
    /// The taps that meet data.
    first: i64,
    taps: i64,
}

/// An axis of the data with zeros around it.
struct Window {
    /// The axis of the result, the reduced axis of the taps, the axis of the data.
    spatial: usize,
    tap: usize,
    axis: usize,
    /// Zeros in front.
    low: i64,
    parts: Vec<Part>,
}

/// A contraction whose data have zeros around them.
struct Bordered {
    /// Which operand is the data, and what lies within the zeros.
    data: usize,
    inner: ValueId,
    windows: Vec<Window>,
}

/// Takes the contractions apart for which it should pay; each is a remark.
///
/// # Errors
/// An internal error if a rewritten node is ill-typed.
pub(super) fn apart(
    function: Function,
    target: &Target,
    remarks: &mut Vec<Remark>,
) -> base::Result<Function> {
    let constants = function.constant_values();
    let found = |id: NodeId| {
        let [lhs, rhs] = function.nodes[id].operands[..] else { return None };
        let constant = [lhs, rhs].map(|operand| constants.contains(operand));
        bordered(&function, id, constant).filter(|it| it.pays(&function, id, target))
    };
    if !function.nodes_in_order().into_iter().any(|id| found(id).is_some()) {
        return Ok(function);
    }
    let result = rebuild(&function, |rewriter, id| {
        let Some(bordered) = found(id) else { return Ok(None) };
        let value = bordered.put_together(rewriter, id, 0, &mut Vec::new())?;
        let count: usize = bordered.windows.iter().map(|window| window.parts.len()).product();
        let message =
            format!("windows mostly meet zeros: {count} sums over what they meet of data");
        remarks.push(Remark { location: function.nodes[id].location, message });
        Ok(Some(vec![value]))
    });
    result.map_err(|reason| {
        Diagnostics::internal(format!("sums without borders are ill-typed: {reason}"))
    })
}

/// The form that this file rewrites.
fn bordered(function: &Function, id: NodeId, constant: [bool; 2]) -> Option<Bordered> {
    let node = &function.nodes[id];
    let Op::Contract { space, .. } = &node.op else { return None };
    let data = match constant {
        [false, true] => 0,
        [true, false] => 1,
        _ => return None,
    };
    let (pad, _) = function.producer(node.operands[data])?;
    let pad = &function.nodes[pad];
    let (Op::Pad { low, high, interior }, &[inner, fill]) = (&pad.op, &pad.operands[..]) else {
        return None;
    };
    let zero = function.literal(fill).is_some_and(|fill| {
        fill.scalars().all(|scalar| scalar == tensor::Scalar::zero(scalar.dtype()))
    });
    if !zero || interior.iter().any(|between| *between != 0) {
        return None;
    }
    let extents = &function.ty(inner).as_tensor()?.shape;
    let mut windows = Vec::new();
    for (axis, extent) in extents.iter().enumerate() {
        let (low, high) = (low[axis].as_constant()?, high[axis].as_constant()?);
        if (low, high) != (0, 0) {
            let index = &space.operands[data][axis];
            let data_only = |symbol: SymbolId| {
                let others = space.operands[data].iter().enumerate().filter(|(at, _)| *at != axis);
                !others.into_iter().any(|(_, index)| index.contains(symbol))
            };
            let window = window(space, index, [low, extent.as_constant()?])?;
            let (spatial, tap) = (SymbolId::new(window.0), SymbolId::new(window.1));
            let filter = &space.operands[1 - data];
            let taps = filter.iter().filter(|index| index.contains(tap));
            let plain = taps.eq([&IterationSpace::axis(window.1)]);
            let apart = filter.iter().all(|index| !index.contains(spatial));
            if !plain || !apart || !data_only(spatial) || !data_only(tap) {
                return None;
            }
            let (spatial, tap, parts) = window;
            windows.push(Window { spatial, tap, axis, low, parts });
        }
    }
    let count: usize = windows.iter().map(|window| window.parts.len()).product();
    (2..=MOST_PARTS).contains(&count).then_some(Bordered { data, inner, windows })
}

/// The axis of the result and that of the taps of an index of an axis with so many elements behind
/// so many zeros, and the parts of the result; none if a part meets nothing.
fn window(
    space: &IterationSpace,
    index: &Expr,
    [low, extent]: [i64; 2],
) -> Option<(usize, usize, Vec<Part>)> {
    let symbols = index.symbols();
    let &[one, two] = &symbols[..] else { return None };
    let (spatial, tap) = if one.index() < two.index() { (one, two) } else { (two, one) };
    if spatial.index() >= space.parallel || tap.index() < space.parallel {
        return None;
    }
    let step = index.linear_coefficient(spatial).filter(|step| *step > 0)?;
    let dilation = index.linear_coefficient(tap).filter(|dilation| *dilation > 0)?;
    let results = space.extents[spatial.index()].as_constant()?;
    let taps = space.extents[tap.index()].as_constant()?;
    let mut parts: Vec<Part> = Vec::new();
    for start in 0..results {
        let within = |tap: &i64| {
            let at = step * start + dilation * tap + index.constant_part() - low;
            (0..extent).contains(&at)
        };
        let first = (0..taps).find(within)?;
        let taps = (first..taps).take_while(within).count() as i64;
        match parts.last_mut() {
            Some(part) if (part.first, part.taps) == (first, taps) => part.extent += 1,
            _ => parts.push(Part { start, extent: 1, first, taps }),
        }
    }
    Some((spatial.index(), tap.index(), parts))
}

impl Bordered {
    /// Whether the parts together should take clearly less time than the whole.
    fn pays(&self, function: &Function, id: NodeId, target: &Target) -> bool {
        let Op::Contract { space, .. } = &function.nodes[id].op else { return false };
        let target = &target.deciding();
        let mut parts = 0.0;
        let mut chosen = vec![0; self.windows.len()];
        loop {
            let own = self.windows.iter().zip(&chosen).map(|(window, at)| window.parts[*at]);
            let own: Vec<Part> = own.collect();
            parts += nanoseconds(&self.space(space, &own), self.data, target);
            let next =
                (0..chosen.len()).rev().find(|at| chosen[*at] + 1 < self.windows[*at].parts.len());
            let Some(next) = next else { break };
            chosen[next] += 1;
            chosen[next + 1..].fill(0);
        }
        parts <= nanoseconds(space, self.data, target) * PAYS
    }

    /// The space of the sums of parts, one a window.
    fn space(&self, space: &IterationSpace, parts: &[Part]) -> IterationSpace {
        let mut space = space.clone();
        for (window, part) in self.windows.iter().zip(parts) {
            space.extents[window.spatial] = Expr::constant(part.extent);
            space.extents[window.tap] = Expr::constant(part.taps);
            let moved = |index: &Expr| {
                index.substitute(&mut |symbol| {
                    let by = match symbol.index() {
                        axis if axis == window.spatial => part.start,
                        axis if axis == window.tap => part.first,
                        _ => 0,
                    };
                    Some(Expr::symbol(symbol) + by)
                })
            };
            for index in space.operands.iter_mut().flatten() {
                *index = moved(index);
            }
            space.operands[self.data][window.axis] += &Expr::constant(-window.low);
        }
        space
    }

    /// The sums of all parts from a window on, of those chosen of the windows before, side by side.
    fn put_together(
        &self,
        rewriter: &mut Rewriter<'_>,
        id: NodeId,
        from: usize,
        chosen: &mut Vec<Part>,
    ) -> Built {
        let node = &rewriter.source.nodes[id];
        let Op::Contract { space, accumulator, dtype } = &node.op else {
            return Err("it is no contraction".to_owned());
        };
        let Some(window) = self.windows.get(from) else {
            let mut operands = [node.operands[0], node.operands[1]];
            operands[self.data] = self.inner;
            let [lhs, rhs] = operands.map(|operand| rewriter.get(operand));
            let space = self.space(space, chosen);
            return rewriter.builder.contract(space, lhs, rhs, *accumulator, *dtype);
        };
        let mut values = Vec::new();
        for part in &window.parts {
            chosen.push(*part);
            values.push(self.put_together(rewriter, id, from + 1, chosen)?);
            chosen.pop();
        }
        rewriter.builder.concat(window.spatial, &values)
    }
}

/// What a contraction of data and a filter should take: arithmetic, or the filter read from memory.
fn nanoseconds(space: &IterationSpace, data: usize, target: &Target) -> f64 {
    const UNKNOWN: i64 = 64;
    let extent = |axis: usize| space.extents[axis].as_constant().unwrap_or(UNKNOWN);
    let reads = |operand: usize, axis: usize| {
        space.operands[operand].iter().any(|index| index.contains(SymbolId::new(axis)))
    };
    let columns = (0..space.parallel).filter(|axis| !reads(data, *axis)).map(extent).product();
    let rows = (0..space.parallel).filter(|axis| !reads(1 - data, *axis)).map(extent).product();
    let shared = (0..space.parallel).filter(|&axis| reads(data, axis) && reads(1 - data, axis));
    let count: i64 = shared.map(extent).product();
    let depth: i64 = (space.parallel..space.extents.len()).map(extent).product();
    let products = Products { rows, columns, depth, count, bytes: 4, instruction: None };
    let cycles = products.cycles(target);
    let bytes = (count * depth * columns * 4) as f64;
    (cycles / target.machine.cycles_per_ns).max(bytes / target.machine.stream_bytes_per_ns)
}
