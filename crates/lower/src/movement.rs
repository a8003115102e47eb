//! Kernels that do nothing but put elements elsewhere, as steps of the program.
//!
//! ```text
//! for i < 64 { for j < 9 { %out[j, i] = %in[i, j] } }
//! move 4 from %in to %out over (64 by 9 to 1, 9 by 1 to 64)
//! ```
//!
//! Where a guard says which elements are moved and which are the same constant (`Pad`), both are
//! cut into boxes, each of which is a movement, the latter out of one element:
//!
//! ```text
//! for i < 9 { for j < 64 { %out[i, j] = guard(j <= 59 ? %in[j, i] : 0.0) } }
//! move 4 from %in to %out over (9 by 1 to 64, 60 by 9 to 1)
//! move 4 from %zero to %out + 240 over (9 by 0 to 64, 4 by 0 to 1)
//! ```
//!
//! What `setup` does with weights is mostly this, with other sizes each time. As a step it need not
//! be compiled.

use loops::{BufferId, Comparison, Condition, Kernel, ScalarExpr, Stmt};
use program::MoveAxis;
use sym::{Expr, SymbolId};
use tensor::Scalar;

use strategies::WORTH_CODE;

use crate::naive::index::dense_strides;

/// Boxes into which a guard may cut a movement.
const MOST_BOXES: usize = 12;

/// A kernel as movements, each parameter by its number.
pub(crate) struct Movement {
    /// What is written.
    pub(crate) destination: usize,
    /// Bytes of an element.
    pub(crate) element: u32,
    /// They write different elements.
    pub(crate) parts: Vec<Part>,
}

/// One movement, offsets in bytes.
pub(crate) struct Part {
    pub(crate) source: Source,
    pub(crate) destination_offset: i64,
    /// Outermost first.
    pub(crate) axes: Vec<MoveAxis>,
}

/// What a movement reads.
pub(crate) enum Source {
    /// A parameter from an offset on.
    Parameter(usize, i64),
    /// One element.
    Element(Scalar),
}

/// The values of a loop's variable, from the first one on.
#[derive(Clone)]
struct Span {
    variable: SymbolId,
    first: i64,
    extent: i64,
}

/// A box: a piece of the space of several loops, outermost first.
type Piece = Vec<Span>;

impl Movement {
    /// The kernel as movements, if it is that, of so few elements that code is not worth it.
    pub(crate) fn of(kernel: &Kernel) -> Option<Movement> {
        let mut spans: Piece = Vec::new();
        let mut block = &kernel.body[..];
        while let [Stmt::For(inner)] = block {
            let extent = inner.extent.as_constant().filter(|&extent| extent > 0)?;
            spans.push(Span { variable: inner.variable, first: 0, extent });
            block = &inner.body;
        }
        let few = spans.iter().try_fold(1_i64, |count, span| count.checked_mul(span.extent))?;
        let [Stmt::Store { buffer: to, index: written, value }] = block else { return None };
        let dtype = kernel.buffers[*to].dtype;
        if few >= WORTH_CODE {
            return None;
        }
        let element = dtype.bytes()? as i64;
        let written = place(kernel, *to, written)?;
        let parts = match value {
            ScalarExpr::Guard { conditions, value, otherwise } => {
                let (inside, outside) = divide_all(conditions, spans)?;
                let mut parts = parts(kernel, value, &written, &inside, element)?;
                parts.extend(self::parts(kernel, otherwise, &written, &outside, element)?);
                parts
            }
            value => parts(kernel, value, &written, &[spans], element)?,
        };
        let is_moved = parts.iter().any(|part| matches!(part.source, Source::Parameter(..)));
        let destination = parameter(kernel, *to)?;
        is_moved.then_some(Movement { destination, element: element as u32, parts })
    }
}

/// The movements that store a value in all boxes.
fn parts(
    kernel: &Kernel,
    value: &ScalarExpr,
    written: &Expr,
    boxes: &[Piece],
    element: i64,
) -> Option<Vec<Part>> {
    let (read, buffer) = match value {
        ScalarExpr::Load { buffer, index } => (place(kernel, *buffer, index)?, Some(*buffer)),
        ScalarExpr::Constant(_) => (Expr::ZERO, None),
        _ => return None,
    };
    let dtype = buffer.map(|buffer| kernel.buffers[buffer].dtype);
    if dtype.is_some_and(|dtype| dtype.bytes().map(|bytes| bytes as i64) != Some(element)) {
        return None;
    }
    let part = |spans: &Piece| {
        let (mut source, mut destination) = (read.clone(), written.clone());
        let mut axes = Vec::new();
        for span in spans {
            let stride = |place: &mut Expr| {
                let stride = place.linear_coefficient(span.variable)?;
                *place = place.without(span.variable);
                *place += &Expr::constant(stride.checked_mul(span.first)?);
                u32::try_from(stride).ok()
            };
            let (from, to) = (stride(&mut source)?, stride(&mut destination)?);
            axes.push(MoveAxis { extent: u32::try_from(span.extent).ok()?, from, to });
        }
        let offset = source.as_constant()? * element;
        let source = match (value, buffer) {
            (ScalarExpr::Constant(scalar), _) => Source::Element(*scalar),
            (_, buffer) => Source::Parameter(parameter(kernel, buffer?)?, offset),
        };
        Some(Part { source, destination_offset: destination.as_constant()? * element, axes })
    };
    boxes.iter().map(part).collect()
}

fn parameter(kernel: &Kernel, buffer: BufferId) -> Option<usize> {
    kernel.parameters.iter().position(|id| *id == buffer)
}

/// Elements from a buffer's start; none where its strides are not constant.
fn place(kernel: &Kernel, buffer: BufferId, index: &[Expr]) -> Option<Expr> {
    let buffer = &kernel.buffers[buffer];
    let constants =
        |exprs: &[Expr]| -> Option<Vec<i64>> { exprs.iter().map(Expr::as_constant).collect() };
    let strides = match &buffer.strides {
        Some(strides) => constants(strides)?,
        None => dense_strides(&constants(&buffer.shape)?),
    };
    if strides.len() != index.len() {
        return None;
    }
    let mut place = Expr::ZERO;
    index.iter().zip(strides).for_each(|(index, stride)| place.add_scaled(index, stride));
    Some(place)
}

// --- guards ---

/// Boxes in which all conditions hold, and boxes in which one does not; none where a condition is
/// not linear or cuts into too many.
fn divide_all(conditions: &[Condition], whole: Piece) -> Option<(Vec<Piece>, Vec<Piece>)> {
    let (mut inside, mut outside) = (vec![whole], Vec::new());
    for condition in conditions {
        let difference = condition.right.clone() - &condition.left;
        let slack = match condition.comparison {
            Comparison::LessEqual => difference,
            Comparison::Less => difference - &Expr::ONE,
            Comparison::Equal | Comparison::NotEqual => return None,
        };
        let mut holds = Vec::new();
        for spans in inside {
            divide(&slack, spans, &mut holds, &mut outside)?;
        }
        inside = holds;
    }
    Some((inside, outside))
}

/// Divides a box by whether an expression is at least 0. Along the axis that changes it most it is
/// so from some place on, or up to one; what is undecided in between is divided further.
fn divide(
    slack: &Expr,
    spans: Piece,
    inside: &mut Vec<Piece>,
    outside: &mut Vec<Piece>,
) -> Option<()> {
    let mut constant = slack.clone();
    let mut steps = Vec::with_capacity(spans.len());
    for span in &spans {
        let step = constant.linear_coefficient(span.variable)?;
        constant = constant.without(span.variable);
        steps.push(step);
    }
    let mut least = constant.as_constant()?;
    let mut most = least;
    for (span, step) in spans.iter().zip(&steps) {
        let ends = [span.first, span.first + span.extent - 1].map(|at| at.checked_mul(*step));
        let [first, last] = [ends[0]?, ends[1]?];
        (least, most) = (least + first.min(last), most + first.max(last));
    }
    if inside.len() + outside.len() > MOST_BOXES {
        return None;
    }
    if least >= 0 {
        inside.push(spans);
        return Some(());
    }
    if most < 0 {
        outside.push(spans);
        return Some(());
    }
    let axis = (0..spans.len()).max_by_key(|&axis| match spans[axis].extent {
        1 => 0,
        _ => steps[axis].abs(),
    })?;
    // Of a value in the axis, how little and how much the whole can be.
    let (span, step) = (spans[axis].clone(), steps[axis]);
    let [mut low, mut high] = [least, most];
    let (first, last) = (span.first * step, (span.first + span.extent - 1) * step);
    (low, high) = (low - first.min(last), high - first.max(last));
    let kind = |at: i64| (low + at * step >= 0, high + at * step < 0);
    let mut at = span.first;
    while at < span.first + span.extent {
        let here = kind(at);
        let end = (at..span.first + span.extent).find(|&next| kind(next) != here);
        let decided = here.0 || here.1;
        let end = if decided { end.unwrap_or(span.first + span.extent) } else { at + 1 };
        let mut piece = spans.clone();
        piece[axis] = Span { first: at, extent: end - at, ..span };
        divide(slack, piece, inside, outside)?;
        at = end;
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use base::Id;

    use super::*;

    /// Every point of the whole lies in one box, on the right side.
    #[track_caller]
    fn check(extents: &[i64], conditions: &[Condition], boxes: usize) {
        let variable = SymbolId::new;
        let whole: Piece = extents
            .iter()
            .enumerate()
            .map(|(axis, &extent)| Span { variable: variable(axis), first: 0, extent })
            .collect();
        let (inside, outside) = divide_all(conditions, whole).expect("boxes");
        assert_eq!(inside.len() + outside.len(), boxes);
        for number in 0..extents.iter().product::<i64>() {
            let mut rest = number;
            let mut point = vec![0; extents.len()];
            for axis in (0..extents.len()).rev() {
                point[axis] = rest % extents[axis];
                rest /= extents[axis];
            }
            let value =
                |expr: &Expr| expr.evaluate(&|symbol| Some(point[symbol.index()])).expect("known");
            let holds = conditions.iter().all(|condition| match condition.comparison {
                Comparison::Less => value(&condition.left) < value(&condition.right),
                _ => value(&condition.left) <= value(&condition.right),
            });
            let has = |spans: &&Piece| {
                let axes = spans.iter().zip(&point);
                axes.into_iter()
                    .all(|(span, at)| (span.first..span.first + span.extent).contains(at))
            };
            assert_eq!(inside.iter().filter(has).count(), usize::from(holds), "{point:?}");
            assert_eq!(outside.iter().filter(has).count(), usize::from(!holds), "{point:?}");
        }
    }

    fn axis(number: usize) -> Expr {
        Expr::from(SymbolId::new(number))
    }

    fn less_equal(left: Expr, right: i64) -> Condition {
        Condition { left, comparison: Comparison::LessEqual, right: Expr::constant(right) }
    }

    #[test]
    fn guards_cut_into_boxes() {
        check(&[5, 8], &[less_equal(axis(1), 5)], 2);
        // Panels of 8 columns, of which 21 are there.
        let column = axis(0) * &Expr::constant(8) + &axis(2);
        check(&[3, 4, 8], &[less_equal(column.clone(), 20)], 3);
        check(&[3, 4, 8], &[less_equal(column, 15)], 2);
        // A border on all sides.
        let least = |axis: Expr, least: i64| Condition {
            left: Expr::constant(least),
            comparison: Comparison::Less,
            right: axis,
        };
        let sides =
            [least(axis(0), 0), less_equal(axis(0), 4), least(axis(1), 1), less_equal(axis(1), 6)];
        check(&[6, 8], &sides, 5);
        check(&[6, 8], &[less_equal(-axis(0) - &axis(1), -20)], 1);
    }

    #[test]
    fn what_is_no_box_is_left() {
        let spans = |extent| {
            (0..2).map(|axis| Span { variable: SymbolId::new(axis), first: 0, extent }).collect()
        };
        let triangle = [less_equal(axis(0) - &axis(1), 0)];
        assert!(divide_all(&triangle, spans(50)).is_none());
        let odd = axis(0).modulo(&Expr::constant(2));
        assert!(divide_all(&[less_equal(odd, 0)], spans(4)).is_none());
    }
}
