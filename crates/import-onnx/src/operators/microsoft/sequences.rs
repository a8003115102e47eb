//! Operators that put elements elsewhere: older forms of ONNX's own, with inputs or defaults of
//! their own.

use front::{Accepted, Graph, Operand, shape_error};
use sym::Expr;
use tensor::{DType, Reduction, Scalar, ScalarFunction as F};

use super::Lowered;
use crate::node::{Node, attribute_error, unsupported};
use crate::operators::unique::distinct;
use crate::operators::{convolution, generator, linear_attention};

/// `SampleOp`: the input as it is.
pub(super) fn unchanged(node: &Node<'_>, _: &mut Graph) -> Lowered {
    Ok(vec![node.input(0)?.clone()])
}

/// `ExpandDims`: a new axis of extent 1.
pub(super) fn expand_dims(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let x = node.input(0)?;
    let axis = node.single_number(1, "axis")?.as_i64();
    let axis = front::normalize_axis(axis, x.rank() + 1)?;
    let mut shape = x.shape().to_vec();
    shape.insert(axis, Expr::ONE);
    Ok(vec![graph.reshape(x, &shape)?])
}

/// `Range`, whose step is 1 where it is left out.
pub(super) fn range(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let mut inputs = Vec::new();
    for index in 0..2 {
        inputs.push(Some(graph.reshape(node.input(index)?, &[])?));
    }
    inputs.push(Some(match node.optional(2) {
        Some(step) => graph.reshape(step, &[])?,
        None => Operand::of_scalar(Scalar::one(node.input(0)?.dtype())),
    }));
    generator::range(&node.with(inputs, 11), graph)
}

/// `Unique`: elements in the order in which they come, where each is among them, and how often.
pub(super) fn unique(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let results = distinct(node, graph, false)?;
    let [values, _, places, counts] = <[Operand; 4]>::try_from(results)
        .map_err(|_| shape_error("distinct elements are not four results"))?;
    Ok(vec![values, places, counts])
}

/// `UnfoldTensor`: all windows along an axis, each as a new last axis.
pub(super) fn unfold(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let x = node.input(0)?;
    let axis = node.axis("dim", -1, x.rank())?;
    let (size, step) = (node.int("size", 0)?, node.int("step", 1)?);
    let is_good = |number: i64| (1..1 << 31).contains(&number);
    if !is_good(size) || !is_good(step) {
        return Err(attribute_error("size", format!("windows of {size}, {step} apart")));
    }
    let count = (&x.shape()[axis] - size).floor_div(&Expr::from(step)) + 1;
    if graph.builder.bounds(&count).1 < 1 {
        return Err(shape_error(format!("a window of {size} does not fit axis {axis}")));
    }
    let places = [count, Expr::from(size)];
    let first = graph.iota(DType::I64, &places, 0)?;
    let first = graph.mul_number(&first, step as f64)?;
    let element = graph.iota(DType::I64, &places, 1)?;
    let index = graph.add(&first, &element)?;
    let windows = graph.gather(x, &[axis], &[index], 0, axis)?;
    let mut order: Vec<usize> = (0..windows.rank()).filter(|other| *other != axis + 1).collect();
    order.push(axis + 1);
    Ok(vec![graph.transpose(&windows, &order)?])
}

/// `ConvTransposeWithDynamicPads`: the padding is an input, which must be known.
pub(super) fn transposed_convolution(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let pads = match node.optional(2) {
        Some(_) => node.integers(2, "padding")?,
        None => Vec::new(),
    };
    let inputs = [0, 1, 3].map(|index| node.optional(index).cloned()).to_vec();
    let inner = node.with(inputs, 11);
    if pads.iter().all(|pad| *pad == 0) {
        return convolution::conv_transpose(&inner, graph);
    }
    let whole = convolution::conv_transpose(&inner, graph)?.swap_remove(0);
    let count = whole.rank() - 2;
    if pads.len() != 2 * count || pads.iter().any(|pad| *pad < 0) {
        return Err(shape_error(format!("padding {pads:?} for {count} axes")));
    }
    // What is padded is left out of the result.
    let (mut starts, mut shape) = (vec![Expr::ZERO; 2], whole.shape().to_vec());
    for axis in 0..count {
        starts.push(Expr::from(pads[axis]));
        shape[2 + axis] = &shape[2 + axis] - (pads[axis] + pads[count + axis]);
    }
    Ok(vec![graph.slice(&whole, &starts, &vec![1; count + 2], &shape)?])
}

/// `CropAndResize`: regions of images `[n, c, h, w]`, each sampled to one size, with the corners of
/// both on each other; what lies outside of an image is a number.
pub(super) fn crop(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let (x, regions) = (node.input(0)?, node.input(1)?);
    let size = node.sizes(3, "size of the crops", graph)?;
    let ([_, _, height, width], [count, _], [rows, columns]) =
        (x.shape(), regions.shape(), &size[..])
    else {
        return Err(shape_error("images need four axes, regions two, and crops two extents"));
    };
    let is_nearest = node.word("mode", &["bilinear", "nearest"])? == "nearest";
    let dtype = x.dtype();
    let shape = [count.clone(), rows.clone(), columns.clone()];
    let (mut places, mut inside) = (Vec::new(), None);
    for (number, (extent, steps)) in [(height, rows), (width, columns)].into_iter().enumerate() {
        let place = crop_places(graph, regions, number, extent, steps)?;
        let place = match number {
            0 => graph.reshape(&place, &[count.clone(), rows.clone(), Expr::ONE])?,
            _ => graph.reshape(&place, &[count.clone(), Expr::ONE, columns.clone()])?,
        };
        let last = graph.dimension(extent - 1);
        let last = graph.cast(&last, dtype)?;
        let zero = graph.number(dtype, 0.0);
        let (above, below) =
            (graph.greater_equal(&place, &zero)?, graph.less_equal(&place, &last)?);
        let own = graph.and(&above, &below)?;
        inside = Some(match inside {
            Some(other) => graph.and(&other, &own)?,
            None => own,
        });
        let bounded = graph.max(&place, &zero)?;
        places.push((graph.min(&bounded, &last)?, last));
    }
    let image = graph.cast(node.input(2)?, DType::I64)?;
    let image = graph.reshape(&image, &[count.clone(), Expr::ONE, Expr::ONE])?;
    let image = graph.broadcast_to(&image, shape.to_vec())?;
    // `[r, h, w, c]` of the elements at whole places.
    let read = |graph: &mut Graph, row: &Operand, column: &Operand| {
        let mut indices = vec![image.clone()];
        for place in [row, column] {
            let place = graph.cast(place, DType::I64)?;
            indices.push(graph.broadcast_to(&place, shape.to_vec())?);
        }
        graph.gather(x, &[0, 2, 3], &indices, 0, 0)
    };
    let (row, column) = (&places[0], &places[1]);
    let value = if is_nearest {
        let mut nearest = |place: &Operand| {
            let shifted = graph.add_number(place, 0.5)?;
            graph.floor(&shifted)
        };
        let (row, column) = (nearest(&row.0)?, nearest(&column.0)?);
        read(graph, &row, &column)?
    } else {
        let mut lines = Vec::new();
        let ends = |graph: &mut Graph, (place, last): &(Operand, Operand)| {
            let low = graph.floor(place)?;
            let next = graph.add_number(&low, 1.0)?;
            let high = graph.min(&next, last)?;
            let rest = graph.sub(place, &low)?;
            let rest = graph.reshape(&rest, &[rest.shape(), &[Expr::ONE]].concat())?;
            Accepted::Ok((low, high, rest))
        };
        let (left, right, along) = ends(graph, column)?;
        let (top, bottom, down) = ends(graph, row)?;
        for line in [&top, &bottom] {
            let (a, b) = (read(graph, line, &left)?, read(graph, line, &right)?);
            lines.push(between(graph, &a, &b, &along)?);
        }
        between(graph, &lines[0], &lines[1], &down)?
    };
    let Some(inside) = inside else { return Err(shape_error("images without axes")) };
    let inside = graph.broadcast_to(&inside, shape.to_vec())?;
    let inside = graph.reshape(&inside, &[&shape[..], &[Expr::ONE]].concat())?;
    let outside = graph.number(dtype, node.float("extrapolation_value", 0.0)?);
    let value = graph.select(&inside, &value, &outside)?;
    Ok(vec![graph.transpose(&value, &[0, 3, 1, 2])?])
}

/// `a + (b - a) * t`
fn between(graph: &mut Graph, a: &Operand, b: &Operand, t: &Operand) -> Accepted<Operand> {
    let difference = graph.sub(b, a)?;
    let part = graph.mul(&difference, t)?;
    graph.add(a, &part)
}

/// `[r, s]`: where the elements of crops lie along an axis of an image, from edges `number` and
/// `number + 2` of each region on; the middle of a region where a crop has one element.
fn crop_places(
    graph: &mut Graph,
    regions: &Operand,
    number: usize,
    extent: &Expr,
    steps: &Expr,
) -> Accepted<Operand> {
    let dtype = regions.dtype();
    let last = graph.dimension(extent - 1);
    let last = graph.cast(&last, dtype)?;
    let low = graph.slice_axis(regions, 1, Expr::from(number), 1, Expr::ONE)?;
    let high = graph.slice_axis(regions, 1, Expr::from(number + 2), 1, Expr::ONE)?;
    if steps.is_one() {
        let sum = graph.add(&low, &high)?;
        let half = graph.mul_number(&sum, 0.5)?;
        return graph.mul(&half, &last);
    }
    let span = graph.sub(&high, &low)?;
    let span = graph.mul(&span, &last)?;
    let count = graph.dimension(steps - 1);
    let count = graph.cast(&count, dtype)?;
    let step = graph.div(&span, &count)?;
    let place = graph.iota(dtype, std::slice::from_ref(steps), 0)?;
    let along = graph.mul(&place, &step)?;
    let first = graph.mul(&low, &last)?;
    graph.add(&first, &along)
}

/// `LinearAttention` without a window of states.
pub(super) fn linear(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    if node.int("state_window", 0)? != 0 {
        return Err(unsupported("states of several places"));
    }
    linear_attention::linear_attention(node, graph)
}

/// `CausalConvWithState` along one axis, without a window of states.
pub(super) fn causal(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let plain = [
        ("dilation", 1),
        ("ndim", 1),
        ("state_window", 0),
        ("state_update_capacity", 0),
        ("state_length", 0),
        ("input_channel_offset", 0),
        ("input_channels", 0),
    ];
    for (name, value) in plain {
        if node.int(name, value)? != value {
            return Err(unsupported(format!("`{name}` other than {value}")));
        }
    }
    if !node.flag("channels_last", false)? {
        return linear_attention::causal_convolution(node, graph);
    }
    let turn = |graph: &mut Graph, x: &Operand| -> Accepted<Operand> {
        match x.rank() {
            3 => graph.transpose(x, &[0, 2, 1]),
            rank => Err(shape_error(format!("an input of rank {rank}, not 3"))),
        }
    };
    let mut inputs = node.inputs.clone();
    for index in [0, 3] {
        if let Some(Some(x)) = inputs.get_mut(index) {
            *x = turn(graph, x)?;
        }
    }
    let inner = node.with(inputs, node.version);
    let results = linear_attention::causal_convolution(&inner, graph)?;
    results.iter().map(|result| turn(graph, result)).collect()
}

/// `NGramHashMapping`: of each token and up to so many before it, a hash for each number of them
/// and head: products with multipliers, combined by exclusive or, modulo a size of the head.
pub(super) fn hash_runs(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    if node.optional(5).is_some() || node.optional(6).is_some() {
        return Err(unsupported("runs that end where a sequence does"));
    }
    let ids = node.input(0)?;
    let [batch, steps] = ids.shape() else {
        return Err(shape_error(format!("tokens of rank {}, not 2", ids.rank())));
    };
    let (batch, steps) = (batch.clone(), steps.clone());
    let runs = Runs::of(node, [1, 2])?;
    let past = runs.past(node.optional(3), ids.dtype(), batch, graph)?;
    let all = graph.concat(1, &[past, ids.clone()])?;
    let present = graph.slice_axis(&all, 1, steps.clone(), 1, Expr::from(runs.most - 1))?;
    let token = |graph: &mut Graph, back: i64| {
        let start = Expr::from(runs.most - 1 - back);
        graph.slice_axis(&all, 1, start, 1, steps.clone())
    };
    let hashes = runs.hashes(node.optional(4), graph, token)?;
    Ok(vec![hashes, present])
}

/// `VarlenNGramHashMapping`: the same of sequences that lie one behind the other, given the places
/// where they begin and end. What stands before a sequence is its own past.
pub(super) fn hash_packed_runs(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    if (6..9).any(|index| node.optional(index).is_some()) {
        return Err(unsupported("runs that end where a sequence or a segment does"));
    }
    if node.optional(9).is_some() || node.int("state_update_capacity", 0)? != 0 {
        return Err(unsupported("the states behind the first tokens"));
    }
    let (ids, bounds) = (node.input(0)?, node.input(3)?);
    let ([total], [count]) = (ids.shape(), bounds.shape()) else {
        let ranks = (ids.rank(), bounds.rank());
        return Err(shape_error(format!("tokens and bounds of ranks {ranks:?}, not 1")));
    };
    let (total, batch) = (total.clone(), count.clone() - 1);
    let runs = Runs::of(node, [1, 2])?;
    let past = runs.past(node.optional(4), ids.dtype(), batch.clone(), graph)?;
    let past = graph.reshape(&past, &[batch.clone() * (runs.most - 1)])?;
    let bounds = graph.cast(bounds, DType::I64)?;
    let begins = graph.slice_axis(&bounds, 0, Expr::ZERO, 1, batch.clone())?;
    let ends = graph.slice_axis(&bounds, 0, Expr::ONE, 1, batch.clone())?;
    let packed = Packed { ids, past, begins, slots: runs.most - 1 };
    // A token's sequence has as many before it as end in front of the token.
    let place = graph.iota(DType::I64, std::slice::from_ref(&total), 0)?;
    let column = graph.reshape(&place, &[total, Expr::ONE])?;
    let is_behind = graph.less(&column, &ends)?;
    let is_behind = graph.map(F::Not, &[&is_behind])?;
    let is_behind = graph.cast(&is_behind, DType::I64)?;
    let sequence = graph.reduce_axes(&is_behind, &[1], Reduction::Sum, false)?;
    let token = |graph: &mut Graph, back: i64| packed.token(graph, &place, &sequence, back);
    let hashes = runs.hashes(node.optional(5), graph, token)?;
    // What the next call begins with: the last tokens of each sequence, the last one behind.
    let each = [batch.clone(), Expr::from(runs.most - 1)];
    let ends = graph.reshape(&ends, &[batch, Expr::ONE])?;
    let slot = graph.iota(DType::I64, &each, 1)?;
    let slot = graph.add_number(&slot, -(runs.most - 1) as f64)?;
    let (place, sequence) = (graph.add(&ends, &slot)?, graph.iota(DType::I64, &each, 0)?);
    let present = packed.token(graph, &place, &sequence, 0)?;
    Ok(vec![hashes, present])
}

/// What runs of tokens are hashed with.
struct Runs<'a> {
    node: &'a Node<'a>,
    multipliers: &'a Operand,
    sizes: &'a Operand,
    /// The most tokens of a run.
    most: i64,
    heads: i64,
}

impl<'a> Runs<'a> {
    /// Of a node with the multipliers and the sizes at these inputs.
    fn of(node: &'a Node<'a>, [multipliers, sizes]: [usize; 2]) -> Accepted<Runs<'a>> {
        let (most, heads) = (node.int("max_ngram_size", 0)?, node.int("n_head_per_ngram", 0)?);
        if !(2..=1 << 10).contains(&most) || !(1..=1 << 20).contains(&heads) {
            return Err(attribute_error("max_ngram_size", format!("{most} tokens, {heads} heads")));
        }
        let (multipliers, sizes) = (node.input(multipliers)?, node.input(sizes)?);
        Ok(Runs { node, multipliers, sizes, most, heads })
    }

    /// The tokens before the first ones, of so many sequences.
    fn past(
        &self,
        given: Option<&Operand>,
        dtype: DType,
        batch: Expr,
        graph: &mut Graph,
    ) -> Accepted<Operand> {
        let shape = [batch, Expr::from(self.most - 1)];
        match given {
            Some(past) => graph.refine(past, &shape),
            None => {
                let pad = Scalar::from_f64(dtype, self.node.int("pad_id", 0)? as f64);
                graph.full(&shape, pad)
            }
        }
    }

    /// The hashes along a last axis, given the tokens so many places before each.
    fn hashes(
        &self,
        offsets: Option<&Operand>,
        graph: &mut Graph,
        token: impl Fn(&mut Graph, i64) -> Accepted<Operand>,
    ) -> Accepted<Operand> {
        let part = |graph: &mut Graph, vector: &Operand, first: i64, count: i64| {
            graph.slice_axis(vector, 0, Expr::from(first), 1, Expr::from(count))
        };
        let (mut mix, mut results) = (None, Vec::new());
        for back in 0..self.most {
            let token = token(graph, back)?;
            let factor = part(graph, self.multipliers, back, 1)?;
            let product = graph.mul(&token, &factor)?;
            let mixed = match &mix {
                Some(mix) => graph.map(F::Xor, &[mix, &product])?,
                None => product,
            };
            if back > 0 {
                let shape = [mixed.shape(), &[Expr::ONE]].concat();
                let column = graph.reshape(&mixed, &shape)?;
                let size = part(graph, self.sizes, (back - 1) * self.heads, self.heads)?;
                let mut hash = graph.map(F::Mod, &[&column, &size])?;
                if let Some(offsets) = offsets {
                    let own = part(graph, offsets, (back - 1) * self.heads, self.heads)?;
                    hash = graph.add(&hash, &own)?;
                }
                results.push(hash);
            }
            mix = Some(mixed);
        }
        let last = results.first().map_or(0, |hash| hash.rank() - 1);
        graph.concat(last, &results)
    }
}

/// Tokens of sequences that lie one behind the other, each with a past of so many slots.
struct Packed<'a> {
    ids: &'a Operand,
    /// The slots of all sequences, of each the most recent one last.
    past: Operand,
    begins: Operand,
    slots: i64,
}

impl Packed<'_> {
    /// The tokens so many places before those at places of sequences.
    fn token(
        &self,
        graph: &mut Graph,
        place: &Operand,
        sequence: &Operand,
        back: i64,
    ) -> Accepted<Operand> {
        let begin = front::gather_axis(graph, &self.begins, 0, sequence)?;
        let place = graph.add_number(place, -back as f64)?;
        let is_before = graph.less(&place, &begin)?;
        let zero = graph.number(DType::I64, 0.0);
        let own = graph.map(F::Max, &[&place, &zero])?;
        let own = front::gather_axis(graph, self.ids, 0, &own)?;
        // Places before a sequence count its slots from the last one.
        let slot = graph.sub(&place, &begin)?;
        let slot = graph.add_number(&slot, self.slots as f64)?;
        let slot = graph.map(F::Max, &[&slot, &zero])?;
        let last = graph.number(DType::I64, (self.slots - 1) as f64);
        let slot = graph.map(F::Min, &[&slot, &last])?;
        let first = graph.mul_number(sequence, self.slots as f64)?;
        let slot = graph.add(&first, &slot)?;
        let past = front::gather_axis(graph, &self.past, 0, &slot)?;
        graph.select(&is_before, &past, &own)
    }
}
