//! Resizing by interpolation, one axis after another.
//!
//! Each result along an axis reads a few neighbours ("taps") of a coordinate in the input. Indices
//! and weights of the taps are computed from counters, so they depend on shapes only, which may be
//! symbolic. Source of the formulas: the specification of Resize and its reference implementation.

use front::{
    Accepted, Graph, Operand, cubic_weight, interpolation_order, normalize_axes, shape_error,
};
use graph::IterationSpace;
use sym::Expr;
use tensor::{DType, Scalar};

use super::Lowered;
use crate::node::{Node, attribute_error, unsupported};

/// How values between elements are made.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    Nearest,
    Linear,
    Cubic,
}

/// What the attributes say.
struct Settings {
    mode: Mode,
    coordinates: &'static str,
    nearest: &'static str,
    cubic_coefficient: f64,
    excludes_outside: bool,
    extrapolation: f64,
    antialias: bool,
}

/// One axis to be resized.
struct Axis {
    axis: usize,
    from: Expr,
    to: Expr,
    /// The factor, where it is a number.
    factor: Option<f64>,
    /// Start and end of the region of interest, as fractions of the axis.
    region: (f64, f64),
}

const COORDINATES: [&str; 7] = [
    "half_pixel",
    "half_pixel_symmetric",
    "pytorch_half_pixel",
    "align_corners",
    "asymmetric",
    "tf_crop_and_resize",
    "tf_half_pixel_for_nn",
];

fn settings(node: &Node<'_>) -> Accepted<Settings> {
    let is_plain = node.version < 11;
    let mode = match node.word("mode", &["nearest", "linear", "cubic", "bilinear"])? {
        "nearest" => Mode::Nearest,
        "cubic" => Mode::Cubic,
        _ => Mode::Linear,
    };
    let nearest = ["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"];
    Ok(Settings {
        mode,
        // The first version knew one way only.
        coordinates: match is_plain {
            true => "asymmetric",
            false => node.word("coordinate_transformation_mode", &COORDINATES)?,
        },
        nearest: if is_plain { "floor" } else { node.word("nearest_mode", &nearest)? },
        cubic_coefficient: node.float("cubic_coeff_a", -0.75)?,
        excludes_outside: node.flag("exclude_outside", false)?,
        extrapolation: node.float("extrapolation_value", 0.0)?,
        antialias: node.flag("antialias", false)?,
    })
}

/// `Resize`: factors or sizes are inputs.
pub(super) fn resize(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let x = node.input(0)?;
    let settings = settings(node)?;
    let axes = match node.ints("axes")? {
        Some(axes) => normalize_axes(&axes, x.rank())?,
        None => (0..x.rank()).collect(),
    };
    let factors = if node.version < 11 { 1 } else { 2 };
    let is_given = |index: usize| {
        let is_empty = |value: &Operand| value.shape().iter().any(Expr::is_zero);
        node.optional(index).is_some_and(|value| !is_empty(value))
    };
    let mut plans = if is_given(3) {
        let sizes = node.sizes(3, "sizes", graph)?;
        axes_by_size(node, graph, x, &axes, sizes)?
    } else if is_given(factors) {
        let factors = node.numbers(factors, "factors")?;
        axes_by_factor(graph, x, &axes, &factors.iter().map(|f| f.as_f64()).collect::<Vec<_>>())?
    } else {
        return Err(shape_error("neither factors nor sizes are given"));
    };
    if settings.coordinates == "tf_crop_and_resize" {
        let region = node.numbers(1, "region of interest")?;
        if region.len() != 2 * axes.len() {
            return Err(shape_error(format!("a region of {} numbers", region.len())));
        }
        for (number, plan) in plans.iter_mut().enumerate() {
            plan.region = (region[number].as_f64(), region[axes.len() + number].as_f64());
        }
    }
    resize_axes(graph, x, &settings, &plans)
}

/// `Upsample`: factors are an attribute, since version 9 an input.
pub(super) fn upsample(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let x = node.input(0)?;
    let mode = match node.word("mode", &["nearest", "linear", "bilinear"])? {
        "nearest" => Mode::Nearest,
        _ => Mode::Linear,
    };
    let settings = Settings {
        mode,
        coordinates: "asymmetric",
        nearest: "floor",
        cubic_coefficient: 0.0,
        excludes_outside: false,
        extrapolation: 0.0,
        antialias: false,
    };
    let factors: Vec<f64> = match node.floats("scales")? {
        Some(factors) => factors.into_iter().map(f64::from).collect(),
        None if node.version >= 9 => {
            node.numbers(1, "factors")?.into_iter().map(Scalar::as_f64).collect()
        }
        None if node.version < 7 => {
            let factor = |name: &'static str| match node.has(name) {
                true => node.float(name, 1.0),
                false => Err(attribute_error(name, "it is missing")),
            };
            vec![1.0, 1.0, factor("height_scale")?, factor("width_scale")?]
        }
        None => return Err(attribute_error("scales", "it is missing")),
    };
    by_factors(graph, x, &settings, &factors)
}

/// Every axis by a factor of its own.
fn by_factors(graph: &mut Graph, x: &Operand, settings: &Settings, factors: &[f64]) -> Lowered {
    let axes: Vec<usize> = (0..x.rank()).collect();
    let plans = axes_by_factor(graph, x, &axes, factors)?;
    resize_axes(graph, x, settings, &plans)
}

/// Resizing by factors that are given, with the ways to map places of `Resize`, where the nearest
/// element is that before a place.
pub(super) fn upsample_by(node: &Node<'_>, graph: &mut Graph, factors: &[f64]) -> Lowered {
    let mut settings = settings(&node.with(Vec::new(), 11))?;
    settings.nearest = "floor";
    if settings.mode == Mode::Nearest || !node.has("coordinate_transformation_mode") {
        settings.coordinates = "asymmetric";
    }
    by_factors(graph, node.input(0)?, &settings, factors)
}

fn axes_by_factor(
    graph: &Graph,
    x: &Operand,
    axes: &[usize],
    factors: &[f64],
) -> Accepted<Vec<Axis>> {
    if factors.len() != axes.len() {
        return Err(shape_error(format!("{} factors for {} axes", factors.len(), axes.len())));
    }
    let plan = |(&axis, &factor): (&usize, &f64)| {
        if !(factor.is_finite() && factor > 0.0) {
            return Err(shape_error(format!("a factor of {factor}")));
        }
        let from = x.shape()[axis].clone();
        let to = scaled_extent(&from, factor);
        let to = to.filter(|to| to.as_constant().unwrap_or(0) as u64 <= graph.limits.elements);
        let Some(to) = to else {
            let extent = graph.builder.text(&from);
            return Err(shape_error(format!("an extent of {extent} times {factor}")));
        };
        Ok(Axis { axis, from, to, factor: Some(factor), region: (0.0, 1.0) })
    };
    axes.iter().zip(factors).map(plan).collect()
}

/// An extent times a factor, rounded down. Every float is a whole number times a power of two.
fn scaled_extent(extent: &Expr, factor: f64) -> Option<Expr> {
    let shift = (0..32).find(|shift| (factor * f64::from(1u32 << shift)).fract() == 0.0);
    let shift = shift.unwrap_or(31);
    let numerator = factor * f64::from(1u32 << shift);
    let divisor = Expr::from(1i64 << shift);
    (numerator < 2f64.powi(30)).then(|| (extent * numerator as i64).floor_div(&divisor))
}

fn axes_by_size(
    node: &Node<'_>,
    graph: &Graph,
    x: &Operand,
    axes: &[usize],
    mut sizes: Vec<Expr>,
) -> Accepted<Vec<Axis>> {
    if sizes.len() != axes.len() {
        return Err(shape_error(format!("{} sizes for {} axes", sizes.len(), axes.len())));
    }
    let quotient = |from: &Expr, to: &Expr| {
        let (from, to) = (from.as_constant()? as f64, to.as_constant()? as f64);
        (from > 0.0).then_some(to / from)
    };
    let policies = ["stretch", "not_larger", "not_smaller"];
    let policy = node.word("keep_aspect_ratio_policy", &policies)?;
    let mut common = None;
    if policy != "stretch" {
        let factors: Option<Vec<f64>> =
            axes.iter().zip(&sizes).map(|(&axis, to)| quotient(&x.shape()[axis], to)).collect();
        let factors = factors.ok_or_else(|| unsupported("the extents to keep are symbolic"))?;
        let pick = if policy == "not_larger" { f64::min } else { f64::max };
        let factor = factors.into_iter().reduce(pick).unwrap_or(1.0);
        for (&axis, size) in axes.iter().zip(&mut sizes) {
            let extent = x.shape()[axis].as_constant().unwrap_or(0) as f64;
            *size = Expr::from((extent * factor + 0.5).floor() as i64);
        }
        common = Some(factor);
    }
    let plan = |(&axis, to): (&usize, Expr)| {
        let from = x.shape()[axis].clone();
        if graph.builder.bounds(&to).1 < 1 || from.is_zero() {
            let (from, to) = (graph.builder.text(&from), graph.builder.text(&to));
            return Err(shape_error(format!("an axis of extent {from} resized to {to}")));
        }
        let factor = common.or_else(|| quotient(&from, &to));
        Ok(Axis { axis, from, to, factor, region: (0.0, 1.0) })
    };
    axes.iter().zip(sizes).map(plan).collect()
}

fn resize_axes(graph: &mut Graph, x: &Operand, settings: &Settings, plans: &[Axis]) -> Lowered {
    let dtype = x.dtype();
    let interpolates = settings.mode != Mode::Nearest;
    let mut value = x.clone();
    if interpolates && !dtype.is_float() {
        value = graph.cast(&value, DType::F32)?;
    }
    let order = match interpolates {
        true => interpolation_order(
            &plans.iter().map(|plan| (plan.axis, plan.factor)).collect::<Vec<_>>(),
        ),
        false => (0..plans.len()).collect(),
    };
    for plan in order.into_iter().map(|place| &plans[place]) {
        let crops = settings.coordinates == "tf_crop_and_resize" && plan.region != (0.0, 1.0);
        if plan.from == plan.to && plan.factor.is_none_or(|factor| factor == 1.0) && !crops {
            continue;
        }
        graph.check_size(std::slice::from_ref(&plan.to))?;
        value = resize_axis(graph, &value, settings, plan)?;
    }
    Ok(vec![graph.cast(&value, dtype)?])
}

/// Whether result `i` reads element `i div factor`, and by which factor.
fn repeats(settings: &Settings, plan: &Axis) -> Option<i64> {
    let factor = plan.factor.filter(|factor| factor.fract() == 0.0 && *factor < 1e6)?;
    let is_centred = matches!(settings.coordinates, "half_pixel" | "pytorch_half_pixel")
        && settings.nearest.starts_with("round");
    let is_cornered = settings.coordinates == "asymmetric" && settings.nearest == "floor";
    let is_whole = plan.to == &plan.from * factor as i64;
    let fits = settings.mode == Mode::Nearest && (is_centred || is_cornered) && is_whole;
    // One result for one element is centred differently by PyTorch's rule.
    (fits && !plan.from.is_one()).then_some(factor as i64)
}

fn resize_axis(
    graph: &mut Graph,
    x: &Operand,
    settings: &Settings,
    plan: &Axis,
) -> Accepted<Operand> {
    let axis = plan.axis;
    if let Some(factor) = repeats(settings, plan) {
        let mut shape = x.shape().to_vec();
        shape.insert(axis + 1, Expr::ONE);
        let value = graph.reshape(x, &shape)?;
        shape[axis + 1] = Expr::from(factor);
        let value = graph.broadcast_to(&value, &shape)?;
        shape.remove(axis + 1);
        shape[axis] = plan.to.clone();
        return graph.reshape(&value, &shape);
    }
    let coordinate = coordinates(graph, settings, plan)?;
    let value = match settings.mode {
        Mode::Nearest => {
            let index = nearest(graph, settings.nearest, &coordinate)?;
            let index = clamped_index(graph, &index, &plan.from)?;
            graph.gather(x, &[axis], &[index], 0, axis)?
        }
        _ => interpolate(graph, x, settings, plan, &coordinate)?,
    };
    if settings.coordinates != "tf_crop_and_resize" {
        return Ok(value);
    }
    let zero = graph.number(DType::F64, 0.0);
    let last = float_dimension(graph, &plan.from - 1)?;
    let (before, behind) = (graph.less(&coordinate, &zero)?, graph.greater(&coordinate, &last)?);
    let outside = graph.or(&before, &behind)?;
    let outside = graph.broadcast_axis(&outside, value.shape(), axis)?;
    let extrapolation = graph.number(value.dtype(), settings.extrapolation);
    graph.select(&outside, &extrapolation, &value)
}

fn float_dimension(graph: &mut Graph, expr: Expr) -> Accepted<Operand> {
    let value = graph.dimension(expr);
    graph.cast(&value, DType::F64)
}

/// Where in the input each result lies, in elements. By some rules a result that is alone lies
/// elsewhere than the others' formula has it.
fn coordinates(graph: &mut Graph, settings: &Settings, plan: &Axis) -> Accepted<Operand> {
    let alone = coordinate_alone(graph, settings, plan)?;
    let alone = alone.filter(|_| graph.builder.bounds(&plan.to).0 <= 1);
    let Some(alone) = alone else { return coordinates_of_many(graph, settings, plan) };
    if plan.to.is_one() {
        return graph.broadcast_to(&alone, std::slice::from_ref(&plan.to));
    }
    let many = coordinates_of_many(graph, settings, plan)?;
    let count = graph.dimension(plan.to.clone());
    let is_alone = graph.equal(&count, &Operand::of_scalar(Scalar::i64(1)))?;
    graph.select(&is_alone, &alone, &many)
}

/// Where a result that is alone on its axis lies, if that is a rule of its own.
fn coordinate_alone(
    graph: &mut Graph,
    settings: &Settings,
    plan: &Axis,
) -> Accepted<Option<Operand>> {
    Ok(match settings.coordinates {
        "pytorch_half_pixel" | "align_corners" => Some(graph.number(DType::F64, 0.0)),
        "tf_crop_and_resize" => {
            let (start, end) = plan.region;
            let last = float_dimension(graph, &plan.from - 1)?;
            Some(graph.mul_number(&last, 0.5 * (start + end))?)
        }
        _ => None,
    })
}

fn coordinates_of_many(graph: &mut Graph, settings: &Settings, plan: &Axis) -> Accepted<Operand> {
    let place = graph.iota(DType::F64, std::slice::from_ref(&plan.to), 0)?;
    let (from, to) =
        (float_dimension(graph, plan.from.clone())?, float_dimension(graph, plan.to.clone())?);
    let factor = match plan.factor {
        Some(factor) => graph.number(DType::F64, factor),
        None => graph.div(&to, &from)?,
    };
    match settings.coordinates {
        "asymmetric" => graph.div(&place, &factor),
        "half_pixel" | "pytorch_half_pixel" => half_pixel(graph, &place, &factor),
        "half_pixel_symmetric" => {
            let exact = graph.mul(&factor, &from)?;
            let adjustment = graph.div(&to, &exact)?;
            let negated = graph.neg(&adjustment)?;
            let rest = graph.add_number(&negated, 1.0)?;
            let centre = graph.mul_number(&from, 0.5)?;
            let offset = graph.mul(&centre, &rest)?;
            let coordinate = half_pixel(graph, &place, &factor)?;
            graph.add(&coordinate, &offset)
        }
        "tf_half_pixel_for_nn" => {
            let shifted = graph.add_number(&place, 0.5)?;
            graph.div(&shifted, &factor)
        }
        "align_corners" => {
            // The last place is that of the exact extent, which is then rounded down.
            let exact = plan.factor.zip(plan.from.as_constant());
            let exact = exact.map(|(factor, from)| factor * from as f64);
            let is_whole = exact.is_some_and(|exact| (exact - exact.round()).abs() <= 1e-6);
            if is_whole || plan.factor.is_none() {
                return stretch(graph, &place, plan, (0.0, 1.0));
            }
            let last = float_dimension(graph, &plan.from - 1)?;
            let exact = graph.mul(&factor, &from)?;
            let steps = graph.add_number(&exact, -1.0)?;
            let step = graph.div(&last, &steps)?;
            graph.mul(&place, &step)
        }
        _ => stretch(graph, &place, plan, plan.region),
    }
}

/// `(place + 0.5) / factor - 0.5`
fn half_pixel(graph: &mut Graph, place: &Operand, factor: &Operand) -> Accepted<Operand> {
    let shifted = graph.add_number(place, 0.5)?;
    let scaled = graph.div(&shifted, factor)?;
    graph.add_number(&scaled, -0.5)
}

/// `start * last + place * (end - start) * last / (to - 1)`, where `last` is the last index.
fn stretch(
    graph: &mut Graph,
    place: &Operand,
    plan: &Axis,
    (start, end): (f64, f64),
) -> Accepted<Operand> {
    let last = float_dimension(graph, &plan.from - 1)?;
    let steps = float_dimension(graph, &plan.to - 1)?;
    let span = graph.mul_number(&last, end - start)?;
    let scaled = graph.mul(place, &span)?;
    let scaled = graph.div(&scaled, &steps)?;
    let offset = graph.mul_number(&last, start)?;
    graph.add(&scaled, &offset)
}

/// The whole number that a coordinate is nearest to, by the given rule.
fn nearest(graph: &mut Graph, rule: &str, coordinate: &Operand) -> Accepted<Operand> {
    match rule {
        "floor" => graph.floor(coordinate),
        "ceil" => graph.ceil(coordinate),
        "round_prefer_ceil" => {
            let shifted = graph.add_number(coordinate, 0.5)?;
            graph.floor(&shifted)
        }
        _ => {
            let shifted = graph.add_number(coordinate, -0.5)?;
            graph.ceil(&shifted)
        }
    }
}

/// A whole number as an index within an axis.
fn clamped_index(graph: &mut Graph, number: &Operand, extent: &Expr) -> Accepted<Operand> {
    let index = graph.cast(number, DType::I64)?;
    let (zero, last) = (graph.number(DType::I64, 0.0), graph.dimension(extent - 1));
    let index = graph.max(&index, &zero)?;
    graph.min(&index, &last)
}

/// A weighted sum of the taps around each coordinate.
fn interpolate(
    graph: &mut Graph,
    x: &Operand,
    settings: &Settings,
    plan: &Axis,
    coordinate: &Operand,
) -> Accepted<Operand> {
    let reach = if settings.mode == Mode::Linear { 1.0 } else { 2.0 };
    // Without antialiasing the taps are neighbours; with it, a shrunk axis reads further.
    let zoom = match plan.factor {
        _ if !settings.antialias => 1.0,
        Some(factor) if factor > 1e-6 => factor.min(1.0),
        _ => return Err(unsupported("antialiasing by a factor that is symbolic or too small")),
    };
    let first = (-reach / zoom).floor() + 1.0;
    let count = 2.0 - 2.0 * first;
    // Beyond the border both neighbours are the same element, which is then taken as it is.
    let clamped = match settings.mode {
        Mode::Linear if !settings.antialias => {
            let zero = graph.number(DType::F64, 0.0);
            let last = float_dimension(graph, &plan.from - 1)?;
            let coordinate = graph.max(coordinate, &zero)?;
            graph.min(&coordinate, &last)?
        }
        _ => coordinate.clone(),
    };
    let whole = graph.floor(&clamped)?;
    let part = graph.sub(&clamped, &whole)?;
    let kernel = Taps { settings, plan, zoom, whole: &whole, part: &part };
    match count <= FEW_TAPS {
        true => kernel.one_by_one(graph, x, (first as i64..).take(count as usize)),
        false => kernel.together(graph, x, first, count),
    }
}

/// Up to so many taps are read one by one.
const FEW_TAPS: f64 = 8.0;

/// What the taps of an axis have in common.
struct Taps<'a> {
    settings: &'a Settings,
    plan: &'a Axis,
    /// Distances count so much.
    zoom: f64,
    /// Where each result lies: the element before it, and the way from there.
    whole: &'a Operand,
    part: &'a Operand,
}

impl Taps<'_> {
    /// Elementwise arithmetic on a gathered value for each tap, which fuses with what surrounds it.
    fn one_by_one(
        &self,
        graph: &mut Graph,
        x: &Operand,
        offsets: impl Iterator<Item = i64>,
    ) -> Accepted<Operand> {
        let (mut taps, mut sum) = (Vec::new(), None);
        for offset in offsets {
            let offset = graph.number(DType::F64, offset as f64);
            let (weights, index) = self.at(graph, self.whole, self.part, &offset)?;
            sum = Some(match sum {
                Some(sum) => graph.add(&sum, &weights)?,
                None => weights.clone(),
            });
            taps.push((weights, index));
        }
        let accumulator = graph::accumulator_of(x.dtype());
        let axis = self.plan.axis;
        let mut result = None;
        for (weights, index) in taps {
            let weights = match &sum {
                Some(sum) if self.normalizes() => graph.div(&weights, sum)?,
                _ => weights,
            };
            let weights = graph.cast(&weights, x.dtype())?;
            let read = graph.gather(x, &[axis], &[index], 0, axis)?;
            let weights = graph.broadcast_axis(&weights, read.shape(), axis)?;
            let [read, weights] = [&read, &weights].map(|value| graph.cast(value, accumulator));
            let term = graph.mul(&read?, &weights?)?;
            result = Some(match result {
                Some(sum) => graph.add(&sum, &term)?,
                None => term,
            });
        }
        let result = result.ok_or_else(|| shape_error("there are no taps"))?;
        graph.cast(&result, x.dtype())
    }

    /// One contraction over all taps.
    fn together(
        &self,
        graph: &mut Graph,
        x: &Operand,
        first: f64,
        count: f64,
    ) -> Accepted<Operand> {
        let taps = [self.plan.to.clone(), Expr::from(count as i64)];
        graph.check_size(&taps)?;
        let offset = graph.iota(DType::F64, &taps, 1)?;
        let offset = graph.add_number(&offset, first)?;
        let whole = graph.broadcast_axis(self.whole, &taps, 0)?;
        let part = graph.broadcast_axis(self.part, &taps, 0)?;
        let (mut weights, index) = self.at(graph, &whole, &part, &offset)?;
        if self.normalizes() {
            let sum = graph.reduce_axes(&weights, &[1], tensor::Reduction::Sum, true)?;
            weights = graph.div(&weights, &sum)?;
        }
        let weights = graph.cast(&weights, x.dtype())?;
        weighted_sum(graph, x, self.plan.axis, &index, &weights)
    }

    fn normalizes(&self) -> bool {
        self.settings.excludes_outside || self.settings.antialias
    }

    /// Weight, before it is normalized, and index of the tap at an offset from `whole`.
    fn at(
        &self,
        graph: &mut Graph,
        whole: &Operand,
        part: &Operand,
        offset: &Operand,
    ) -> Accepted<(Operand, Operand)> {
        let distance = graph.sub(offset, part)?;
        let distance = graph.mul_number(&distance, self.zoom)?;
        let distance = graph.abs(&distance)?;
        let mut weights = match self.settings.mode {
            Mode::Cubic => cubic_weight(graph, &distance, self.settings.cubic_coefficient)?,
            _ => {
                let negated = graph.neg(&distance)?;
                let slope = graph.add_number(&negated, 1.0)?;
                let zero = graph.number(DType::F64, 0.0);
                graph.max(&slope, &zero)?
            }
        };
        let place = graph.add(whole, offset)?;
        if self.settings.excludes_outside {
            let zero = graph.number(DType::F64, 0.0);
            let extent = float_dimension(graph, self.plan.from.clone())?;
            let (low, high) = (graph.greater_equal(&place, &zero)?, graph.less(&place, &extent)?);
            let inside = graph.and(&low, &high)?;
            weights = graph.select(&inside, &weights, &zero)?;
        }
        Ok((weights, clamped_index(graph, &place, &self.plan.from)?))
    }
}

/// `result[.., o, ..] = sum(t) x[.., index[o, t], ..] * weights[o, t]`
fn weighted_sum(
    graph: &mut Graph,
    x: &Operand,
    axis: usize,
    index: &Operand,
    weights: &Operand,
) -> Accepted<Operand> {
    let read = graph.gather(x, &[axis], std::slice::from_ref(index), 0, axis)?;
    let rank = x.rank();
    let mut extents = read.shape().to_vec();
    let taps = extents.remove(axis + 1);
    extents.push(taps);
    let mut place: Vec<Expr> = (0..rank).map(IterationSpace::axis).collect();
    place.insert(axis + 1, IterationSpace::axis(rank));
    let weight = vec![IterationSpace::axis(axis), IterationSpace::axis(rank)];
    let space = IterationSpace { extents, parallel: rank, operands: vec![place, weight] };
    let accumulator = graph::accumulator_of(x.dtype());
    graph.contract(space, &read, weights, accumulator, x.dtype())
}
