//! Reductions of windows, and their transposes.

use front::{Accepted, Operand, Windows, reduce_windows, shape_error, unsupported};
use graph::Op;
use sym::Expr;
use tensor::{DType, Reduction, Scalar};

use super::body::{folded, lifted, reduction_of};
use super::movement::pad_value;
use super::reductions::region;
use crate::importer::{Frame, Importer};
use crate::node::{Lowered, Node, Value, one};

/// Windows over all axes of an operand, which is spread and padded first.
struct Frames {
    sizes: Vec<i64>,
    strides: Vec<i64>,
    dilations: Vec<i64>,
    spread: Vec<i64>,
    low: Vec<i64>,
    high: Vec<i64>,
    outputs: Vec<Expr>,
}

impl Frames {
    fn of(node: &Node<'_>, operand: &[Expr]) -> Accepted<Frames> {
        let rank = operand.len();
        let sizes = node.each_axis("window_dimensions", rank, 1)?;
        let strides = node.each_axis("window_strides", rank, 1)?;
        let dilations = node.each_axis("window_dilations", rank, 1)?;
        let spread = node.each_axis("base_dilations", rank, 1)?;
        let padding = node.integers("padding")?.unwrap_or_else(|| vec![0; 2 * rank]);
        if padding.len() != 2 * rank {
            return Err(shape_error("not as many paddings as axes"));
        }
        let positive = [&sizes, &strides, &dilations, &spread];
        if positive.into_iter().flatten().any(|number| *number < 1) {
            return Err(shape_error("a window has an extent or step below 1"));
        }
        let low: Vec<i64> = padding.iter().step_by(2).copied().collect();
        let high: Vec<i64> = padding.iter().skip(1).step_by(2).copied().collect();
        let mut outputs = Vec::new();
        for axis in 0..rank {
            let extent = &operand[axis];
            let own = match extent.is_zero() {
                true => Expr::ZERO,
                false => (extent - 1) * spread[axis] + 1,
            };
            let padded = own + (low[axis] + high[axis]);
            let reach = front::reach(sizes[axis], dilations[axis]);
            let count = (padded - reach).floor_div(&Expr::from(strides[axis])) + 1;
            let is_none = count.as_constant().is_some_and(|count| count < 1);
            outputs.push(if is_none { Expr::ZERO } else { count });
        }
        Ok(Frames { sizes, strides, dilations, spread, low, high, outputs })
    }

    fn padded(
        &self,
        importer: &mut Importer<'_>,
        value: &Operand,
        fill: &Operand,
    ) -> Accepted<Operand> {
        let exprs = |numbers: &[i64]| numbers.iter().map(|&it| Expr::from(it)).collect::<Vec<_>>();
        let interior: Vec<i64> = self.spread.iter().map(|spread| spread - 1).collect();
        let graph = &mut importer.graph;
        let fill = graph.reshape(fill, &[])?;
        pad_value(graph, value, &fill, &exprs(&self.low), &exprs(&self.high), &interior)
    }

    /// The number of elements of a window.
    fn count(&self) -> i64 {
        self.sizes.iter().product()
    }

    /// The place of an element of a window along each axis.
    fn place(&self, mut number: i64) -> Vec<i64> {
        let mut place = vec![0; self.sizes.len()];
        for (at, size) in place.iter_mut().zip(&self.sizes).rev() {
            *at = number % size;
            number /= size;
        }
        place
    }

    /// One element of all windows.
    fn element(
        &self,
        importer: &mut Importer<'_>,
        value: &Operand,
        number: i64,
    ) -> Accepted<Operand> {
        let place = self.place(number);
        let starts: Vec<Expr> =
            place.iter().zip(&self.dilations).map(|(at, by)| Expr::from(at * by)).collect();
        importer.graph.slice(value, &starts, &self.strides, &self.outputs)
    }
}

/// Windows of more elements than this are not written out.
const MOST_WRITTEN_OUT: i64 = 4096;

/// All elements of all windows, along a new first axis.
fn laid_out(importer: &mut Importer<'_>, frames: &Frames, padded: &Operand) -> Accepted<Operand> {
    if frames.count() > MOST_WRITTEN_OUT {
        let (count, most) = (frames.count(), MOST_WRITTEN_OUT);
        return Err(unsupported(format!(
            "a body of its own over windows of {count} elements, of at most {most}"
        )));
    }
    let mut elements = Vec::new();
    for number in 0..frames.count() {
        let element = frames.element(importer, padded, number)?;
        let shape = [&[Expr::ONE], element.shape()].concat();
        elements.push(importer.graph.reshape(&element, &shape)?);
    }
    importer.graph.concat(0, &elements)
}

pub(crate) fn reduce_window<'p>(
    importer: &mut Importer<'p>,
    node: &Node<'p>,
    frame: &mut Frame,
) -> Lowered {
    let count = node.operands.len() / 2;
    let (values, initial) = node.operands.split_at(count);
    if count == 0 || initial.len() != count {
        return Err(shape_error("a reduction has not as many initial values as operands"));
    }
    let frames = Frames::of(node, values[0].shape())?;
    let block = region(node, 0)?;
    let mut padded = Vec::new();
    for (value, fill) in values.iter().zip(initial) {
        let mut fills = fill.parts().into_iter();
        padded.push(value.each(|part| {
            let fill = fills.next().ok_or_else(|| shape_error("complex and real are mixed"))?;
            frames.padded(importer, part, fill)
        })?);
    }
    if frames.outputs.iter().any(Expr::is_zero) {
        let empty = initial.iter().map(|value| {
            value.each(|part| importer.graph.broadcast_to(part, frames.outputs.clone()))
        });
        return empty.collect();
    }
    if let ([padded], [initial], Some(reduction)) =
        (&padded[..], initial, reduction_of(node, block, &values[0]))
    {
        let mut starts = initial.parts().into_iter();
        return one(padded.each(|part| {
            let start = starts.next().ok_or_else(|| shape_error("complex and real are mixed"))?;
            let reduced = plain_windows(importer, &frames, part, reduction)?;
            let graph = &mut importer.graph;
            let start = graph.reshape(start, &[])?;
            graph.map(reduction.as_function(), &[&start, &reduced])
        })?);
    }
    let shape = frames.outputs.clone();
    let mut elements = Vec::new();
    for value in &padded {
        elements.push(value.each(|part| laid_out(importer, &frames, part))?);
    }
    let total = folded(importer, node, block, frame, elements, frames.count())?;
    let spread = initial.iter().map(|value| {
        value.each(|part| {
            let part = importer.graph.reshape(part, &[])?;
            importer.graph.broadcast_to(&part, &shape[..])
        })
    });
    let spread = spread.collect::<Accepted<Vec<Value>>>()?;
    lifted(importer, node.function, block, frame, [spread, total].concat())
}

fn plain_windows(
    importer: &mut Importer<'_>,
    frames: &Frames,
    padded: &Operand,
    reduction: Reduction,
) -> Accepted<Operand> {
    let rank = padded.rank();
    let windows = Windows {
        kernel: frames.sizes.clone(),
        strides: frames.strides.clone(),
        dilations: frames.dilations.clone(),
        low: vec![Expr::ZERO; rank],
        high: vec![Expr::ZERO; rank],
        extra: vec![Expr::ZERO; rank],
        outputs: frames.outputs.clone(),
    };
    reduce_windows(&mut importer.graph, &windows, padded, reduction)
}

/// Of each window the element that the first region selects gets the source added by the second.
pub(crate) fn select_and_scatter<'p>(
    importer: &mut Importer<'p>,
    node: &Node<'p>,
    frame: &mut Frame,
) -> Lowered {
    let (value, source, initial) = (node.value(0)?, node.value(1)?, node.value(2)?);
    let operand = value.shape().to_vec();
    let frames = Frames::of(node, &operand)?;
    if frames.spread.iter().chain(&frames.dilations).any(|by| *by != 1) {
        return Err(unsupported("windows with gaps"));
    }
    let (select, combine) = (region(node, 0)?, region(node, 1)?);
    let Some(reduction) = reduction_of(node, combine, source) else {
        return Err(unsupported("a way of its own to combine what is scattered"));
    };
    let shape = frames.outputs.clone();
    // Where each element of the operand lies in row-major order; those of the padding lie nowhere.
    let graph = &mut importer.graph;
    let total: Expr = operand.iter().product();
    let places = graph.iota(DType::I64, std::slice::from_ref(&total), 0)?;
    let places = graph.reshape(&places, &operand)?;
    let nowhere = graph.dimension(total.clone());
    let places = frames.padded(importer, &places, &nowhere)?;
    let padded = value.each(|part| {
        let fill = Operand::of_scalar(Scalar::zero(part.dtype()));
        frames.padded(importer, part, &fill)
    })?;
    if frames.count() > MOST_WRITTEN_OUT {
        return Err(unsupported(format!("windows of more than {MOST_WRITTEN_OUT} elements")));
    }
    let mut best: Option<(Value, Operand)> = None;
    for number in 0..frames.count() {
        let element = padded.each(|part| frames.element(importer, part, number))?;
        let place = frames.element(importer, &places, number)?;
        best = Some(match best {
            None => (element, place),
            Some((before, chosen)) => {
                let arguments = vec![before.clone(), element.clone()];
                let stays = lifted(importer, node.function, select, frame, arguments)?;
                let stays = stays.first().ok_or_else(|| shape_error("nothing is selected"))?;
                let stays = stays.real()?.clone();
                let graph = &mut importer.graph;
                // What lies in the padding is never chosen, and gives way to all else.
                let (is_none, is_padding) =
                    (graph.equal(&chosen, &nowhere)?, graph.equal(&place, &nowhere)?);
                let yields = graph.map(tensor::ScalarFunction::Not, &[&is_none])?;
                let stays = graph.and(&stays, &yields)?;
                let stays = graph.or(&stays, &is_padding)?;
                let mut elements = element.parts().into_iter();
                let value = before.each(|part| {
                    let other = elements.next().ok_or_else(|| shape_error("a part is missing"))?;
                    graph.select(&stays, part, other)
                })?;
                (value, graph.select(&stays, &chosen, &place)?)
            }
        });
    }
    let Some((_, chosen)) = best else { return Err(shape_error("windows have no elements")) };
    let graph = &mut importer.graph;
    let count: Expr = shape.iter().product();
    let chosen = graph.reshape(&chosen, std::slice::from_ref(&count))?;
    let mut starts = initial.parts().into_iter();
    one(source.each(|part| {
        let start = starts.next().ok_or_else(|| shape_error("complex and real are mixed"))?;
        let start = graph.reshape(start, &[])?;
        // One place more, for windows that lie in the padding whole.
        let state = graph.broadcast_to(&start, vec![&total + 1])?;
        let rows = graph.reshape(part, std::slice::from_ref(&count))?;
        let reduction = Some(reduction);
        let op = Op::Scatter { axes: vec![0], batch: 0, position: 0, reduction };
        let state = graph.scatter(&state, &rows, std::slice::from_ref(&chosen), op)?;
        let state = graph.slice_axis(&state, 0, Expr::ZERO, 1, total.clone())?;
        graph.reshape(&state, &operand)
    })?)
}
