//! Convolutions and their transposes: padding, then a contraction whose operands are read at affine
//! indices.
//!
//! Groups split the axis of channels of both operands, so grouped and depthwise convolutions are
//! contractions with one more axis, like any other.

use graph::IterationSpace;
use sym::Expr;
use tensor::DType;

use crate::value::Operand;
use crate::windows::{Windows, reach};
use crate::writer::{Accepted, Graph, shape_error};

/// The number of channels in each of `groups` groups.
fn per_group(channels: &Expr, groups: i64, what: &str) -> Accepted<Expr> {
    if !channels.divisible_by(groups) {
        return Err(shape_error(format!("the {what} do not fall into {groups} groups")));
    }
    Ok(channels.floor_div(&Expr::from(groups)))
}

/// Adds a number a channel.
pub fn add_bias(graph: &mut Graph, value: Operand, bias: Option<&Operand>) -> Accepted<Operand> {
    let Some(bias) = bias else { return Ok(value) };
    let bias = graph.broadcast_axis(bias, value.shape(), 1)?;
    graph.add(&value, &bias)
}

/// The contraction behind a convolution. Its axes are `n`, `g` where there are several groups, `m`,
/// the outputs, then `c` and the elements of the kernel; `m` and `c` count within a group.
struct Convolution {
    groups: i64,
    outputs_per_group: Expr,
    inputs_per_group: Expr,
    outputs: Vec<Expr>,
    kernel: Vec<i64>,
    /// Whether the weights' axes of channels are `c, m`, not `m, c`.
    inputs_first: bool,
    accumulator: DType,
    dtype: DType,
}

impl Convolution {
    /// The axes `n`, `g`, `m` come first.
    fn first_output(&self) -> usize {
        if self.groups > 1 { 3 } else { 2 }
    }

    /// The number of axes of the result. The axes of the window follow, then the channel: sums run
    /// over a window's places one after the other, over all channels at each, which is the order in
    /// which operands with channels last lie in memory.
    fn parallel(&self) -> usize {
        self.first_output() + self.outputs.len()
    }

    fn channel(&self) -> usize {
        self.parallel() + self.kernel.len()
    }

    /// The result `[n, channels, outputs...]`, where `x` is padded and read at `spatial`.
    fn contract(
        &self,
        graph: &mut Graph,
        x: &Operand,
        spatial: Vec<Expr>,
        w: &Operand,
    ) -> Accepted<Operand> {
        let (batch, groups) = (x.shape()[0].clone(), Expr::from(self.groups));
        let several = self.groups > 1;
        let group = |shape: &mut Vec<Expr>, axis: usize, extent: &Expr| {
            if several {
                shape.insert(axis, extent.clone());
            }
        };
        let (m, c) = (&self.outputs_per_group, &self.inputs_per_group);
        // Operands with their axis of channels split.
        let mut x_shape = x.shape().to_vec();
        x_shape[1] = c.clone();
        group(&mut x_shape, 1, &groups);
        let mut w_shape = if self.inputs_first { vec![c, m] } else { vec![m, c] };
        w_shape.extend(&w.shape()[2..]);
        let mut w_shape: Vec<Expr> = w_shape.into_iter().cloned().collect();
        group(&mut w_shape, 0, &groups);
        let (x, w) = (graph.reshape(x, &x_shape)?, graph.reshape(w, &w_shape)?);

        let mut extents = vec![batch.clone(), m.clone()];
        group(&mut extents, 1, &groups);
        extents.extend_from_slice(&self.outputs);
        extents.extend(self.kernel.iter().map(|&extent| Expr::from(extent)));
        extents.push(c.clone());

        let axis = IterationSpace::axis;
        let (output, channel) = (axis(self.first_output() - 1), axis(self.channel()));
        let mut read_x = vec![axis(0), channel.clone()];
        group(&mut read_x, 1, &axis(1));
        read_x.extend(spatial);
        let mut read_w =
            if self.inputs_first { vec![channel, output] } else { vec![output, channel] };
        group(&mut read_w, 0, &axis(1));
        read_w.extend((0..self.kernel.len()).map(|number| axis(self.parallel() + number)));

        let parallel = self.parallel();
        let space = IterationSpace { extents, parallel, operands: vec![read_x, read_w] };
        let result = graph.contract(space, &x, &w, self.accumulator, self.dtype)?;
        let mut shape = vec![batch, m * &groups];
        shape.extend_from_slice(&self.outputs);
        graph.reshape(&result, &shape)
    }
}

/// The input spread by the strides, and the kernel read from its end.
fn by_spreading(
    graph: &mut Graph,
    convolution: &Convolution,
    x: &Operand,
    w: &Operand,
    placed: &[TransposedAxis],
    (strides, dilations): (&[i64], &[i64]),
) -> Accepted<Operand> {
    let mut low = vec![Expr::ZERO; 2];
    let (mut high, mut interior) = (low.clone(), vec![0; 2]);
    for (axis, TransposedAxis { begin, output }) in placed.iter().enumerate() {
        let reach = reach(convolution.kernel[axis], dilations[axis]);
        let spread = (&x.shape()[2 + axis] - 1) * strides[axis] + 1;
        low.push(Expr::from(reach - 1) - begin);
        high.push(output + begin - spread);
        interior.push(strides[axis] - 1);
    }
    let zero = graph.number(x.dtype(), 0.0);
    let spread = graph.pad(x, &zero, &low, &high, &interior)?;
    let (output, element) = (convolution.first_output(), convolution.parallel());
    let read = |axis: usize| {
        let last = (convolution.kernel[axis] - 1) * dilations[axis];
        IterationSpace::axis(output + axis) - IterationSpace::axis(element + axis) * dilations[axis]
            + last
    };
    let spatial = (0..placed.len()).map(read).collect();
    convolution.contract(graph, &spread, spatial, w)
}

/// `[n, m, o...] = sum(k..., c) x[n, c, o * stride + k * dilation] * w[m, c, k...]`, where channels
/// fall into groups; sums are formed in `accumulator`.
pub fn convolve(
    graph: &mut Graph,
    x: &Operand,
    w: &Operand,
    mut windows: Windows,
    groups: i64,
    (accumulator, dtype): (DType, DType),
) -> Accepted<Operand> {
    let inputs_per_group = per_group(&x.shape()[1], groups, "channels of the input")?;
    let which = "axis 1 of the input, in each group, and axis 1 of the weights";
    graph.assume_equal_axes(&inputs_per_group, &w.shape()[1], which)?;
    let mut w = w.clone();
    for (axis, kept) in windows.trim(&x.shape()[2..]).into_iter().enumerate() {
        let extent = Expr::from(kept.end - kept.start);
        if extent != w.shape()[2 + axis] {
            w = graph.slice_axis(&w, 2 + axis, Expr::from(kept.start), 1, extent)?;
        }
    }
    let convolution = Convolution {
        groups,
        outputs_per_group: per_group(&w.shape()[0], groups, "channels of the output")?,
        inputs_per_group,
        outputs: windows.outputs.clone(),
        kernel: windows.kernel.clone(),
        inputs_first: false,
        accumulator,
        dtype,
    };
    let zero = graph.number(x.dtype(), 0.0);
    let padded = windows.pad(graph, x, &zero)?;
    let spatial = windows.index(convolution.first_output(), convolution.parallel());
    convolution.contract(graph, &padded, spatial, &w)
}

/// The transpose of a convolution, `[n, m, s * i + d * k - begin] += x[n, c, i] * w[c, m, k]`, for
/// a kernel of these extents.
pub fn convolve_transposed(
    graph: &mut Graph,
    x: &Operand,
    w: &Operand,
    kernel: Vec<i64>,
    (strides, dilations): (&[i64], &[i64]),
    placed: &[TransposedAxis],
    (groups, dtype): (i64, DType),
) -> Accepted<Operand> {
    let which = "axis 1 of the input, axis 0 of the weights";
    graph.assume_equal_axes(&x.shape()[1], &w.shape()[0], which)?;
    let convolution = Convolution {
        groups,
        outputs_per_group: w.shape()[1].clone(),
        inputs_per_group: per_group(&x.shape()[1], groups, "channels of the input")?,
        outputs: placed.iter().map(|axis| axis.output.clone()).collect(),
        kernel,
        inputs_first: true,
        accumulator: graph::accumulator_of(x.dtype()),
        dtype,
    };
    let phases: Vec<Option<Phases>> = (0..placed.len())
        .map(|axis| Phases::of(convolution.kernel[axis], strides[axis], dilations[axis]))
        .collect();
    match phases.iter().any(Option::is_some) {
        true => by_phases(graph, convolution, x, w, placed, (strides, dilations), &phases),
        false => by_spreading(graph, &convolution, x, w, placed, (strides, dilations)),
    }
}

/// How results along an axis fall into phases: result `stride * q + r` reads the elements
/// `r + stride * j` of a kernel without gaps, and of one whose gaps are whole strides all elements
/// for `r = 0`. It reads nothing for other `r`, which are no phases.
#[derive(Clone, Copy)]
struct Phases {
    stride: i64,
    /// The phases, `r` from 0 on.
    count: i64,
    /// The elements of the kernel that each has, and by how many turns they are apart.
    taps: i64,
    apart: i64,
}

impl Phases {
    /// None where neighbours of the kernel are in phases that do not follow each other.
    fn of(kernel: i64, stride: i64, dilation: i64) -> Option<Phases> {
        if dilation % stride == 0 {
            return Some(Phases { stride, count: 1, taps: kernel, apart: dilation / stride });
        }
        let (count, taps) = (kernel.min(stride), (kernel + stride - 1) / stride);
        (dilation == 1 || kernel == 1).then_some(Phases { stride, count, taps, apart: 1 })
    }
}

/// Results that lie `stride` apart read the same elements of the kernel: a convolution of the
/// input as it is for each phase, with `ceil(kernel / stride)` taps, whose results take turns along
/// the axis. They are one convolution with more channels: result `s * q + r` sums
/// `x[q - j] * w[r + s * j]` over the taps `j`. Along an axis that has no phases the input is
/// spread, which leaves a stride of 1.
fn by_phases(
    graph: &mut Graph,
    convolution: Convolution,
    x: &Operand,
    w: &Operand,
    placed: &[TransposedAxis],
    (strides, dilations): (&[i64], &[i64]),
    phases: &[Option<Phases>],
) -> Accepted<Operand> {
    // The input, with what the first and the last turn read beyond it.
    let (mut low, mut high) = (vec![Expr::ZERO; 2], vec![Expr::ZERO; 2]);
    let (mut first, mut turns) = (vec![Expr::ZERO; 2], Vec::new());
    let (mut interior, mut along) = (vec![0; 2], Vec::new());
    for (axis, TransposedAxis { begin, output }) in placed.iter().enumerate() {
        let (own, between) = match phases[axis] {
            Some(own) => (own, 0),
            None => {
                let taps = convolution.kernel[axis];
                let own = Phases { stride: 1, count: 1, taps, apart: dilations[axis] };
                (own, strides[axis] - 1)
            }
        };
        let stride = Expr::from(own.stride);
        let turn = begin.floor_div(&stride);
        let skipped = begin - &turn * own.stride;
        let count = (output + &skipped + (own.stride - 1)).floor_div(&stride);
        let length = (&x.shape()[2 + axis] - 1) * (between + 1) + 1;
        low.push(Expr::from((own.taps - 1) * own.apart) - &turn);
        high.push(&count + &turn - &length);
        interior.push(between);
        along.push(own);
        first.push(skipped);
        turns.push(count);
    }
    let zero = graph.number(x.dtype(), 0.0);
    let x = graph.pad(x, &zero, &low, &high, &interior)?;
    let w = weights_by_phase(graph, w, &along)?;

    let convolution = Convolution {
        outputs_per_group: w.shape()[1].clone(),
        outputs: turns,
        kernel: along.iter().map(|own| own.taps).collect(),
        ..convolution
    };
    let (output, element) = (convolution.first_output(), convolution.parallel());
    let axis = IterationSpace::axis;
    let read = |(at, own): (usize, &Phases)| axis(output + at) + axis(element + at) * own.apart;
    let spatial = along.iter().enumerate().map(read).collect();
    let result = convolution.contract(graph, &x, spatial, &w)?;
    let result = take_turns(graph, &result, &along)?;
    let mut shape = result.shape()[..2].to_vec();
    shape.extend(placed.iter().map(|axis| axis.output.clone()));
    graph.slice(&result, &first, &vec![1; first.len()], &shape)
}

/// The weights `[c, m, elements...]` as `[c, m phases..., taps...]`, the last tap first.
fn weights_by_phase(graph: &mut Graph, w: &Operand, along: &[Phases]) -> Accepted<Operand> {
    let axes = along.len();
    let channels = &w.shape()[..2];
    let (mut behind, mut split) = (vec![Expr::ZERO; 2], channels.to_vec());
    let (mut from, mut step) = (vec![Expr::ZERO; 2], vec![1; 2]);
    for (axis, own) in along.iter().enumerate() {
        behind.push(Expr::from(own.taps * own.count) - &w.shape()[2 + axis]);
        split.extend([own.taps, own.count].map(Expr::from));
        from.extend([own.taps - 1, 0].map(Expr::from));
        step.extend([-1, 1]);
    }
    let zero = graph.number(w.dtype(), 0.0);
    let whole = graph.pad(w, &zero, &vec![Expr::ZERO; axes + 2], &behind, &vec![0; axes + 2])?;
    let whole = graph.reshape(&whole, &split)?;
    let whole = graph.slice(&whole, &from, &step, &split)?;
    let phases = (0..axes).map(|axis| 3 + 2 * axis);
    let order: Vec<usize> =
        [0, 1].into_iter().chain(phases).chain((0..axes).map(|axis| 2 + 2 * axis)).collect();
    let whole = graph.transpose(&whole, &order)?;
    let mut shape = channels.to_vec();
    shape[1] = &shape[1] * along.iter().map(|own| own.count).product::<i64>();
    shape.extend(along.iter().map(|own| Expr::from(own.taps)));
    graph.reshape(&whole, &shape)
}

/// `[n, m phases..., turns...]` as `[n, m, (turns strides)...]`: zeros where there is no phase.
fn take_turns(graph: &mut Graph, x: &Operand, along: &[Phases]) -> Accepted<Operand> {
    let axes = along.len();
    let phases = Expr::from(along.iter().map(|own| own.count).product::<i64>());
    let mut shape = vec![x.shape()[0].clone(), x.shape()[1].floor_div(&phases)];
    let mut split = shape.clone();
    split.extend(along.iter().map(|own| Expr::from(own.count)));
    split.extend_from_slice(&x.shape()[2..]);
    let pairs = (0..axes).flat_map(|axis| [2 + axes + axis, 2 + axis]);
    let order: Vec<usize> = [0, 1].into_iter().chain(pairs).collect();
    let result = graph.reshape(x, &split)?;
    let mut result = graph.transpose(&result, &order)?;
    let mut behind = vec![Expr::ZERO; 2];
    behind.extend(along.iter().flat_map(|own| [Expr::ZERO, Expr::from(own.stride - own.count)]));
    if behind.iter().any(|none| !none.is_zero()) {
        let zero = graph.number(x.dtype(), 0.0);
        let none = vec![Expr::ZERO; behind.len()];
        result = graph.pad(&result, &zero, &none, &behind, &vec![0; behind.len()])?;
    }
    shape.extend(along.iter().zip(&x.shape()[2..]).map(|(own, turns)| turns * own.stride));
    graph.reshape(&result, &shape)
}

/// Along one axis: how many results at the beginning are left out, and how many remain.
pub struct TransposedAxis {
    /// Results left out at the beginning.
    pub begin: Expr,
    /// Results that remain.
    pub output: Expr,
}
