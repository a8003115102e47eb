//! Channels of a value made alike in reach, so that one scale serves all of them.
//!
//! Where a value is a product's, or a normalisation's, and only products read it, a factor a
//! channel can go from one constant to the other: what gives the value is divided by it, and the
//! weights that read it are multiplied. `Relu`, pooling and their like let factors pass, since they
//! commute with scales that are positive. The model computes what it did.
//!
//! The transfer is that of Nagel et al., "Data-Free Quantization Through Weight Equalization and
//! Bias Correction" (2019), with factors of Xiao et al., "SmoothQuant" (2023): a power of how far a
//! channel's values reach, over one of how far its weights do. Which power, is found by the noise
//! that rounding both should bring. Weights have a scale a result here, which nothing that divides
//! a result changes; so those of a depthwise convolution lose nothing.
//!
//! Operands of matrix products to which nothing can give its factor, since others read them as
//! well, are divided by a node of their own, where that should pay.

use std::collections::{BTreeMap, BTreeSet};

use base::{InOrder, IntoTree, Result};
use tensor::Tensor;
use tilewright::Options;
use tilewright::compiled::DecodedModel;
use tilewright::compiled::proto::NodeProto;

use crate::CalibrationSample;
use crate::calibrate::watch;
use crate::draft::{Draft, integer_of, is_own, node};
use crate::operators::{Role, role};
use crate::weights::Grid;

/// The least share of the greatest reach that a channel is taken to have: what calibration met next
/// to nothing of is not blown up without bound.
const LEAST: f64 = 1.0 / 64.0;

/// Powers of how far values reach that are tried.
const POWERS: [f64; 4] = [0.25, 0.5, 0.75, 1.0];
/// The share of the noise that a node of its own must leave at most.
const PAYS: f64 = 0.6;

/// Which axis of a value its channels are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Channels {
    Second,
    Last,
}

/// A constant that gives a value: its node, its operand, and the axis of its channels.
type Divided = (usize, usize, usize);

/// A value whose channels may be scaled, from what gives it to what reads it.
#[derive(Default)]
struct Site {
    /// Constants that give the value.
    divided: Vec<Divided>,
    /// The value that a node of its own divides, where there is no such constant.
    inserted: Option<String>,
    /// Products that read it.
    readers: Vec<usize>,
    /// The values that they read.
    data: BTreeMap<String, Channels>,
}

/// The model with channels made alike, as its values reach on samples.
///
/// # Errors
/// Those of compiling and running it.
pub(crate) fn equalise(
    model: &DecodedModel,
    given: (&[CalibrationSample], &Options),
) -> Result<DecodedModel> {
    let mut draft = Draft::of(model)?;
    let sites =
        Finder { draft: &draft, readers: draft.readers(), outputs: draft.outputs() }.all()?;
    let axes: BTreeMap<String, Channels> = sites
        .iter()
        .flat_map(|site| site.data.iter().map(|(name, axis)| (name.clone(), *axis)))
        .into_map();
    let names: BTreeSet<String> = axes.keys().cloned().into_set();
    let mut reach: BTreeMap<String, Vec<Reach>> = BTreeMap::new();
    watch(model, &names, given, &mut |_, values| {
        for (name, tensor) in values {
            add_reach(reach.entry(name.clone()).or_default(), tensor, axes[name]);
        }
        Ok(())
    })?;
    // Sites go by the numbers of nodes, so that new ones come last first.
    let mut inserted: Vec<(usize, NodeProto)> = Vec::new();
    for site in sites {
        inserted.extend(apply(&mut draft, &site, &reach)?);
    }
    inserted.put_in_order_by_key(|(number, _)| std::cmp::Reverse(*number));
    for (number, divide) in inserted {
        draft.proto.body_mut().node.insert(number, divide);
    }
    draft.drop_unread();
    Ok(draft.finish())
}

/// How far values of a channel reach, zero among them, and their squares.
#[derive(Clone, Copy, Default)]
struct Reach {
    low: f64,
    high: f64,
    squares: f64,
    count: f64,
}

impl Reach {
    fn with(self, other: Reach) -> Reach {
        Reach {
            low: self.low.min(other.low),
            high: self.high.max(other.high),
            squares: self.squares + other.squares,
            count: self.count + other.count,
        }
    }

    fn magnitude(self) -> f64 {
        self.high.max(-self.low)
    }
}

/// Adds the elements of a value to its channels; what has another number of them has none.
fn add_reach(all: &mut Vec<Reach>, tensor: &Tensor, channels: Channels) {
    let shape = tensor.shape();
    let axis = match channels {
        Channels::Second => 1,
        Channels::Last => shape.len().saturating_sub(1),
    };
    let Some(elements) = tensor.as_slice::<f32>().filter(|_| axis < shape.len()) else { return };
    if all.is_empty() {
        all.resize(shape[axis], Reach::default());
    }
    if all.len() != shape[axis] {
        return;
    }
    let behind: usize = shape[axis + 1..].iter().product();
    for (at, element) in elements.iter().enumerate() {
        let it = f64::from(*element);
        let channel = &mut all[at / behind.max(1) % shape[axis]];
        *channel = channel.with(Reach { low: it, high: it, squares: it * it, count: 1.0 });
    }
}

/// Who reads what, for the search.
struct Finder<'a> {
    draft: &'a Draft,
    readers: BTreeMap<String, Vec<usize>>,
    outputs: BTreeSet<String>,
}

impl Finder<'_> {
    fn all(&self) -> Result<Vec<Site>> {
        let mut sites = Vec::new();
        for (number, node) in self.draft.nodes().iter().enumerate() {
            let Some((channels, divided)) = self.source(number, node)? else { continue };
            let mut site = Site { divided, ..Site::default() };
            if self.follow(&node.output[0], channels, &mut site)? && !site.readers.is_empty() {
                sites.push(site);
            }
        }
        let known: BTreeSet<usize> = sites.iter().flat_map(|site| site.readers.clone()).into_set();
        for (name, readers) in &self.readers {
            let mut of_name = Vec::new();
            for &reader in readers.iter().filter(|reader| !known.contains(reader)) {
                let node = &self.draft.nodes()[reader];
                let is_matrix = matches!(node.op_type.as_str(), "MatMul" | "Gemm")
                    && matches!(role(node), Some(Role::Product { .. }))
                    && node.input[0] == *name
                    && node.input[1..].iter().all(|it| it != name);
                let weight = if is_matrix { self.draft.floats(&node.input[1])? } else { None };
                let of = weight.and_then(|weight| channels_of(node, weight.shape().len()));
                if of == Some(Channels::Last) {
                    of_name.push(reader);
                }
            }
            if !of_name.is_empty()
                && self.draft.constant(name)?.is_none()
                && !self.is_of_bytes(name)
            {
                let data = [(name.clone(), Channels::Last)].into();
                let inserted = Some(name.clone());
                sites.push(Site { divided: Vec::new(), inserted, readers: of_name, data });
            }
        }
        Ok(sites)
    }

    /// Whether a value is what a convolution gives, or a map of bytes, at other places: a node that
    /// divides it would have the bytes of it brought back to floats.
    fn is_of_bytes(&self, name: &str) -> bool {
        let (mut name, mut steps) = (name, 0);
        loop {
            let gives = |node: &&NodeProto| node.output.first().is_some_and(|it| it == name);
            let Some(node) = self.draft.nodes().iter().find(gives) else { return false };
            match role(node) {
                Some(Role::Movement | Role::Clamp) => (name, steps) = (&node.input[0], steps + 1),
                Some(Role::Map) => return steps > 0,
                Some(Role::Product { .. }) => return node.op_type.starts_with("Conv"),
                None => return false,
            }
        }
    }

    /// The constants of a node that scale each channel of what it gives.
    fn source(&self, number: usize, node: &NodeProto) -> Result<Option<(Channels, Vec<Divided>)>> {
        let is_vector = |operand: usize| -> Result<bool> {
            let name = node.input.get(operand).filter(|name| !name.is_empty());
            let constant = name.map(|name| self.draft.floats(name)).transpose()?.flatten();
            Ok(constant.is_some_and(|it| it.shape().len() == 1 && it.len() > 1))
        };
        let has = |operand: usize| node.input.get(operand).is_some_and(|name| !name.is_empty());
        let is_alone = node.output.iter().skip(1).all(String::is_empty);
        let (channels, operands) = match role(node) {
            Some(Role::Product { axis, has_bias }) => {
                let Some(weight) = self.draft.floats(&node.input[1])? else { return Ok(None) };
                let rank = weight.shape().len();
                let channels = channels_of(node, rank);
                let axis = (if axis < 0 { axis + rank as i64 } else { axis }) as usize;
                let fits = has_bias || node.op_type == "MatMul";
                (channels.filter(|_| fits), vec![(1, axis), (2, 0)])
            }
            _ if !is_own(&node.domain) => (None, Vec::new()),
            _ => match node.op_type.as_str() {
                "LayerNormalization" if integer_of(node, "axis", -1) == -1 => {
                    (Some(Channels::Last).filter(|_| is_alone), vec![(1, 0), (2, 0)])
                }
                "BatchNormalization" => {
                    (Some(Channels::Second).filter(|_| is_alone), vec![(1, 0), (2, 0)])
                }
                _ => (None, Vec::new()),
            },
        };
        let Some(channels) = channels else { return Ok(None) };
        let mut divided = Vec::new();
        for (operand, axis) in operands.into_iter().filter(|(operand, _)| has(*operand)) {
            let is_weight = operand == 1 && role(node).is_some();
            if !is_weight && !is_vector(operand)? {
                return Ok(None);
            }
            divided.push((number, operand, axis));
        }
        Ok((!divided.is_empty()).then_some((channels, divided)))
    }

    /// Follows a value to all that read it; whether factors can pass everywhere.
    fn follow(&self, name: &str, channels: Channels, site: &mut Site) -> Result<bool> {
        let readers = self.readers.get(name).map_or(&[][..], Vec::as_slice);
        if self.outputs.contains(name) || readers.is_empty() {
            return Ok(false);
        }
        for &reader in readers {
            let node = &self.draft.nodes()[reader];
            let is_first = node.input.first().is_some_and(|it| it == name);
            let others = node.input.iter().skip(1).any(|it| it == name);
            let is_plain = is_own(&node.domain) && node.inner_graphs().next().is_none();
            let is_alone = node.output.iter().skip(1).all(String::is_empty);
            if !is_plain || !is_alone {
                return Ok(false);
            }
            if let Some(Role::Product { .. }) = role(node) {
                let weight = self.draft.floats(&node.input[1])?;
                let of = weight.and_then(|weight| channels_of(node, weight.shape().len()));
                if !is_first || others || of != Some(channels) {
                    return Ok(false);
                }
                site.readers.push(reader);
                site.data.insert(name.to_owned(), channels);
                continue;
            }
            let next = match node.op_type.as_str() {
                "Relu" | "LeakyRelu" | "PRelu" | "Identity" if is_first && !others => channels,
                "MaxPool" | "AveragePool" | "GlobalAveragePool" | "GlobalMaxPool"
                    if channels == Channels::Second =>
                {
                    channels
                }
                "Flatten" if channels == Channels::Second && integer_of(node, "axis", 1) == 1 => {
                    Channels::Last
                }
                "Add" if channels == Channels::Last => {
                    let place = usize::from(is_first);
                    let other = self.draft.floats(&node.input[place])?;
                    if other.is_none_or(|it| it.shape().len() != 1 || it.len() < 2) {
                        return Ok(false);
                    }
                    site.divided.push((reader, place, 0));
                    channels
                }
                _ => return Ok(false),
            };
            if !self.follow(&node.output[0], next, site)? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// Which axis of its operand and of its result a product takes for channels, if it is one that
/// factors can be moved into.
fn channels_of(node: &NodeProto, rank: usize) -> Option<Channels> {
    match node.op_type.as_str() {
        "Conv" | "ConvTranspose" => Some(Channels::Second),
        "Gemm" if integer_of(node, "transA", 0) == 0 => Some(Channels::Last),
        "MatMul" if rank == 2 => Some(Channels::Last),
        _ => None,
    }
}

/// Which channel of its operand an element of a product's weight is for, of how many in all; of a
/// flattened operand an element is a channel.
fn operand_channels(node: &NodeProto, shape: &[usize]) -> (Vec<usize>, usize) {
    let count: usize = shape.iter().product();
    let behind: usize = shape[2..].iter().product();
    let group = integer_of(node, "group", 1).max(1) as usize;
    let (rows, columns) = (shape[0], shape[1]);
    match node.op_type.as_str() {
        "Conv" => {
            let of = |at: usize| {
                let (result, inner) = (at / (columns * behind), at / behind % columns);
                result / (rows / group).max(1) * columns + inner
            };
            ((0..count).map(of).collect(), columns * group)
        }
        "Gemm" if integer_of(node, "transB", 0) != 0 => {
            ((0..count).map(|at| at % columns).collect(), columns)
        }
        _ => ((0..count).map(|at| at / (columns * behind)).collect(), rows),
    }
}

/// The weight of a product that reads a value, and what belongs to its elements.
struct Weight {
    number: usize,
    tensor: Tensor,
    elements: Vec<f32>,
    /// For each element the number of its result, and its channel of the value.
    places: Vec<(usize, usize)>,
    results: usize,
}

impl Weight {
    /// That of a product, of a value with so many channels.
    fn of(draft: &Draft, number: usize, count: usize) -> Result<Option<Weight>> {
        let node = &draft.nodes()[number];
        let Some(tensor) = draft.floats(&node.input[1])? else { return Ok(None) };
        let Some(Role::Product { axis, .. }) = role(node) else { return Ok(None) };
        let rank = tensor.shape().len() as i64;
        let axis = (if axis < 0 { axis + rank } else { axis }) as usize;
        let grid = Grid::along(tensor.shape(), axis);
        let (channels, total) = operand_channels(node, tensor.shape());
        // Channels that were flattened are so many neighbours each.
        let each = total / count.max(1);
        if each * count != total || each == 0 {
            return Ok(None);
        }
        let places = channels.iter().enumerate();
        let places = places.map(|(at, channel)| (grid.scale_of(at), channel / each)).collect();
        let (results, elements) = (tensor.shape()[axis], tensor.to_vec::<f32>()?);
        Ok(Some(Weight { number, tensor, elements, places, results }))
    }

    /// The greatest magnitude of each result's weights, times factors of their channels.
    fn magnitudes(&self, factors: &[f64]) -> Vec<f64> {
        let mut magnitudes = vec![0.0_f64; self.results];
        for (element, &(result, channel)) in self.elements.iter().zip(&self.places) {
            let magnitude = f64::from(element.abs()) * factors[channel];
            magnitudes[result] = magnitudes[result].max(magnitude);
        }
        magnitudes
    }

    /// The squares that rounding values and weights to bytes should add to all results.
    fn noise(&self, reach: &[Reach], factors: &[f64]) -> f64 {
        let divided = || reach.iter().zip(factors);
        let low = divided().map(|(it, factor)| it.low / factor).fold(0.0, f64::min);
        let high = divided().map(|(it, factor)| it.high / factor).fold(0.0, f64::max);
        let step = ((high - low) / 255.0).powi(2);
        let magnitudes = self.magnitudes(factors);
        let each = self.elements.iter().zip(&self.places).map(|(element, &(result, channel))| {
            let weight = f64::from(*element) * factors[channel];
            let square = reach[channel].squares / reach[channel].count.max(1.0);
            let value = square / (factors[channel] * factors[channel]);
            weight * weight * step + (magnitudes[result] / 127.0).powi(2) * value
        });
        each.sum()
    }
}

/// Moves factors of one site, if its extents fit; gives the node that divides its value, if there
/// must be one, and the number of that which it is to stand before.
fn apply(
    draft: &mut Draft,
    site: &Site,
    reach: &BTreeMap<String, Vec<Reach>>,
) -> Result<Option<(usize, NodeProto)>> {
    let constant = |draft: &Draft, (number, operand): (usize, usize)| -> Result<Option<Tensor>> {
        draft.floats(&draft.nodes()[number].input[operand])
    };
    let count = match site.divided.first() {
        Some(&(number, operand, axis)) => {
            constant(draft, (number, operand))?.map_or(0, |tensor| tensor.shape()[axis])
        }
        None => site.data.keys().next().and_then(|name| reach.get(name)).map_or(0, Vec::len),
    };
    let mut values = vec![Reach::default(); count];
    for name in site.data.keys() {
        let of = reach.get(name).map_or(&[][..], Vec::as_slice);
        let each = of.len() / count.max(1);
        if each == 0 || each * count != of.len() {
            return Ok(None);
        }
        for (at, it) in of.iter().enumerate() {
            values[at / each] = values[at / each].with(*it);
        }
    }
    let mut weights = Vec::new();
    for &number in &site.readers {
        let Some(weight) = Weight::of(draft, number, count)? else { return Ok(None) };
        weights.push(weight);
    }
    let Some(factors) = best_factors(&values, &weights, site.inserted.is_some()) else {
        return Ok(None);
    };
    let mut changed = Vec::new();
    for &(number, operand, axis) in &site.divided {
        let Some(tensor) = constant(draft, (number, operand))? else { return Ok(None) };
        if tensor.shape().get(axis) != Some(&count) {
            return Ok(None);
        }
        let grid = Grid::along(tensor.shape(), axis);
        let divided = scaled(&tensor, &|at| 1.0 / factors[grid.scale_of(at)])?;
        changed.push((number, operand, divided));
    }
    for weight in &weights {
        let times = scaled(&weight.tensor, &|at| factors[weight.places[at].1])?;
        changed.push((weight.number, 1, times));
    }
    for (number, operand, tensor) in changed {
        let name = draft.nodes()[number].input[operand].clone();
        let name = draft.add_constant(&name, "equalised", &tensor);
        draft.proto.body_mut().node[number].input[operand] = name;
    }
    let (Some(value), Some(&first)) = (&site.inserted, site.readers.iter().min()) else {
        return Ok(None);
    };
    let inverse: Vec<f32> = factors.iter().map(|factor| (1.0 / factor) as f32).collect();
    let by = draft.add_constant(value, "factors", &Tensor::from_vec(&[count], inverse));
    let divided = draft.fresh(value, "equalised");
    for &number in &site.readers {
        draft.proto.body_mut().node[number].input[0].clone_from(&divided);
    }
    Ok(Some((first, node("Mul", &[value, &by], &divided))))
}

/// The factors of the least noise; none where those of one are as good.
fn best_factors(values: &[Reach], weights: &[Weight], is_inserted: bool) -> Option<Vec<f64>> {
    let ones = vec![1.0; values.len()];
    let greatest = values.iter().map(|it| it.magnitude()).fold(0.0, f64::max);
    if !(greatest > 0.0 && greatest.is_finite()) {
        return None;
    }
    let mut shares = vec![0.0_f64; values.len()];
    for weight in weights {
        let magnitudes = weight.magnitudes(&ones);
        for (element, &(result, channel)) in weight.elements.iter().zip(&weight.places) {
            let share = f64::from(element.abs()) / magnitudes[result].max(1e-30);
            shares[channel] = shares[channel].max(share);
        }
    }
    let noise = |factors: &[f64]| weights.iter().map(|it| it.noise(values, factors)).sum::<f64>();
    let tried = POWERS.map(|power| -> Vec<f64> {
        let factor = |(value, share): (&Reach, &f64)| {
            let value = (value.magnitude() / greatest).max(LEAST);
            value.powf(power) / share.max(LEAST).powf(1.0 - power)
        };
        values.iter().zip(&shares).map(factor).collect()
    });
    let most = noise(&ones) * if is_inserted { PAYS } else { 1.0 };
    let best = tried.into_iter().map(|factors| (noise(&factors), factors));
    let best = best.min_by(|a, b| a.0.total_cmp(&b.0))?;
    (best.0 < most).then_some(best.1)
}

fn scaled(tensor: &Tensor, factor: &dyn Fn(usize) -> f64) -> Result<Tensor> {
    let elements = tensor.to_vec::<f32>()?;
    let times = |(at, element): (usize, f32)| (f64::from(element) * factor(at)) as f32;
    let elements: Vec<f32> = elements.into_iter().enumerate().map(times).collect();
    Ok(Tensor::from_vec(tensor.shape(), elements))
}
