//! Parts with windows that slide: convolutions of all kinds, pooling.

use super::is_float;
use crate::draw::Draw;
use crate::model::{ModelBuilder, Written, demand, int, ints};
use crate::outline::Part;

/// The settings of a window over the axes behind the first two.
struct Window {
    kernel: Vec<i64>,
    stride: Vec<i64>,
    dilation: Vec<i64>,
    /// Before each axis, then after each.
    pads: Vec<i64>,
}

impl Window {
    /// Draws one for a value: none where it has no such axes.
    fn draw(draw: &mut Draw, model: &ModelBuilder) -> Option<Window> {
        let axes = model.shape.len().checked_sub(2).filter(|axes| (1..=3).contains(axes))?;
        let same = draw.chance(60);
        let of_all = *draw.pick(&[1, 2, 3, 3, 3, 5, 7]);
        let kernel: Vec<i64> = model.shape[2..]
            .iter()
            .map(|&extent| {
                if same { of_all } else { *draw.pick(&[1, 2, 3, 4, 5, 9, 11]) }.min(extent)
            })
            .collect();
        let stride = (0..axes).map(|_| *draw.pick(&[1, 1, 1, 1, 2, 2, 3])).collect();
        let dilation: Vec<i64> = (0..axes).map(|_| *draw.pick(&[1, 1, 1, 1, 1, 2, 3])).collect();
        let is_padded = draw.chance(70);
        let half =
            |axis: usize| if is_padded { dilation[axis] * (kernel[axis] - 1) / 2 } else { 0 };
        let pads = (0..axes).chain(0..axes).map(half).collect();
        Some(Window { kernel, stride, dilation, pads })
    }

    fn settings(&self, part: Part) -> Part {
        let part = part.with("kernel", &self.kernel).with("stride", &self.stride);
        part.with("dilation", &self.dilation).with("pads", &self.pads)
    }

    fn of(part: &Part, model: &ModelBuilder) -> Result<Window, String> {
        let numbers = |name| part.numbers(name).map(<[i64]>::to_vec);
        let window = Window {
            kernel: numbers("kernel")?,
            stride: numbers("stride")?,
            dilation: numbers("dilation")?,
            pads: numbers("pads")?,
        };
        let axes = window.kernel.len();
        demand(axes >= 1 && model.shape.len() == axes + 2, "it has other axes")?;
        demand(window.pads.len() == 2 * axes, "the pads are of other axes")?;
        demand(window.stride.len() == axes && window.dilation.len() == axes, "of other axes")?;
        let positive = [&window.kernel, &window.stride, &window.dilation];
        demand(positive.into_iter().flatten().all(|&it| it >= 1), "it is not positive")?;
        demand(window.pads.iter().all(|&pad| (0..=64).contains(&pad)), "the pads are negative")?;
        Ok(window)
    }

    /// How far a window reaches along an axis.
    fn reach(&self, axis: usize) -> i64 {
        self.dilation[axis] * (self.kernel[axis] - 1) + 1
    }

    fn padding(&self, axis: usize) -> i64 {
        self.pads[axis] + self.pads[self.kernel.len() + axis]
    }

    /// The extents of the windows' results.
    fn results(&self, extents: &[i64]) -> Result<Vec<i64>, String> {
        let extent = |(axis, &extent): (usize, &i64)| {
            let room = extent + self.padding(axis) - self.reach(axis);
            demand(room >= 0, "a window is larger than the value")?;
            Ok(room / self.stride[axis] + 1)
        };
        extents.iter().enumerate().map(extent).collect()
    }

    fn attributes(&self, with_dilation: bool) -> Vec<import_onnx::proto::AttributeProto> {
        let mut all = vec![
            ints("kernel_shape", &self.kernel),
            ints("strides", &self.stride),
            ints("pads", &self.pads),
        ];
        if with_dilation {
            all.push(ints("dilations", &self.dilation));
        }
        all
    }

    fn area(&self) -> i64 {
        self.kernel.iter().fold(1, |area, &extent| area.saturating_mul(extent))
    }
}

pub(super) fn draw_conv(draw: &mut Draw, model: &ModelBuilder) -> Option<Part> {
    let out = draw.extent();
    with_groups(draw, model, "conv", out, 1)
}

pub(super) fn draw_depthwise(draw: &mut Draw, model: &ModelBuilder) -> Option<Part> {
    let channels = *model.shape.get(1)?;
    let times = if draw.chance(80) { 1 } else { 2 };
    with_groups(draw, model, "depthwise", times * channels, channels)
}

pub(super) fn draw_grouped(draw: &mut Draw, model: &ModelBuilder) -> Option<Part> {
    let channels = *model.shape.get(1)?;
    let groups: Vec<i64> = (2..channels).filter(|groups| channels % groups == 0).collect();
    if groups.is_empty() {
        return None;
    }
    let groups = *draw.pick(&groups);
    let out = groups * draw.between(1, 16);
    with_groups(draw, model, "grouped", out, groups)
}

fn with_groups(
    draw: &mut Draw,
    model: &ModelBuilder,
    name: &str,
    out: i64,
    groups: i64,
) -> Option<Part> {
    if !is_float(model.dtype) {
        return None;
    }
    let part = Part::new(name).with("out", &[out]).with("groups", &[groups]);
    Some(Window::draw(draw, model)?.settings(part).with("bias", &[i64::from(draw.chance(50))]))
}

/// A convolution, of one group or several; `groups=0` is as many as there are channels.
pub(super) fn conv(model: &mut ModelBuilder, part: &Part) -> Written {
    let weight =
        |model: &mut ModelBuilder, shape: &[i64], scale| model.weight(model.dtype, shape, scale);
    conv_with(model, part, weight)
}

/// A convolution with what is made as a weight of a shape and a standard deviation.
pub(super) fn conv_with(
    model: &mut ModelBuilder,
    part: &Part,
    weight: impl Fn(&mut ModelBuilder, &[i64], f64) -> String,
) -> Written {
    let window = Window::of(part, model)?;
    let (out, bias) = (part.number("out")?, part.number("bias")?);
    let channels = model.shape[1];
    let groups = match part.number("groups")? {
        0 => channels,
        groups => groups,
    };
    demand(groups >= 1 && channels % groups == 0 && out % groups == 0, "the groups do not divide")?;
    demand(out >= 1 && (0..=1).contains(&bias), "it has no such extent")?;
    let results = window.results(&model.shape[2..])?;
    let depth = (channels / groups).saturating_mul(window.area());
    let weight_shape = [&[out, channels / groups], &window.kernel[..]].concat();
    let mut inputs = vec![weight(model, &weight_shape, 1.0 / (depth as f64).sqrt())];
    if bias == 1 {
        inputs.push(model.weight(model.dtype, &[out], 1.0));
    }
    let mut attributes = window.attributes(true);
    attributes.push(int("group", groups));
    model.then("Conv", &inputs, attributes);
    model.shape = [&[model.shape[0], out], &results[..]].concat();
    model.operations += 2.0 * model.count() * depth as f64;
    Ok(())
}

pub(super) fn draw_transposed(draw: &mut Draw, model: &ModelBuilder) -> Option<Part> {
    let channels = *model.shape.get(1)?;
    let window = Window::draw(draw, model)?;
    let groups = if draw.chance(80) { 1 } else { channels };
    let each = if groups == 1 { draw.extent() } else { draw.between(1, 2) };
    let part = Part::new("transposed").with("each", &[each]).with("groups", &[groups]);
    is_float(model.dtype).then(|| window.settings(part))
}

/// A transposed convolution with so many results of each group.
pub(super) fn transposed(model: &mut ModelBuilder, part: &Part) -> Written {
    let window = Window::of(part, model)?;
    let (each, groups, channels) = (part.number("each")?, part.number("groups")?, model.shape[1]);
    demand(groups >= 1 && channels % groups == 0 && each >= 1, "the groups do not divide")?;
    let extent = |(axis, &extent): (usize, &i64)| {
        window.stride[axis] * (extent - 1) + window.reach(axis) - window.padding(axis)
    };
    let results: Vec<i64> = model.shape[2..].iter().enumerate().map(extent).collect();
    let weight_shape = [&[channels, each], &window.kernel[..]].concat();
    let scale = 1.0 / (channels as f64 / groups as f64).sqrt();
    let weight = model.weight(model.dtype, &weight_shape, scale);
    let (area, taken) = (window.area(), model.count());
    let mut attributes = window.attributes(true);
    attributes.push(int("group", groups));
    model.then("ConvTranspose", &[weight], attributes);
    model.shape = [&[model.shape[0], each * groups], &results[..]].concat();
    model.operations += 2.0 * taken * each as f64 * area as f64;
    Ok(())
}

pub(super) fn draw_pool(draw: &mut Draw, model: &ModelBuilder) -> Option<Part> {
    let name = *draw.pick(&["MaxPool", "AveragePool"]);
    let mut window = Window::draw(draw, model)?;
    window.dilation.fill(1);
    let axes = window.kernel.len();
    let half = |axis: usize| if window.pads[axis] > 0 { (window.kernel[axis] - 1) / 2 } else { 0 };
    window.pads = (0..axes).chain(0..axes).map(half).collect();
    is_float(model.dtype).then(|| window.settings(Part::new("pool").word("f", name)))
}

pub(super) fn pool(model: &mut ModelBuilder, part: &Part) -> Written {
    let (window, name) = (Window::of(part, model)?, part.text("f")?);
    demand(window.dilation.iter().all(|&dilation| dilation == 1), "it is dilated")?;
    let is_within = |axis| window.padding(axis) < window.kernel[axis];
    demand((0..window.kernel.len()).all(is_within), "a window is all padding")?;
    let results = window.results(&model.shape[2..])?;
    let attributes = window.attributes(false);
    model.then(name, &[], attributes);
    model.shape = [&model.shape[..2], &results[..]].concat();
    model.operations += model.count() * window.area() as f64;
    Ok(())
}
