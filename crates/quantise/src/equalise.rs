//! Channels of a value made alike in reach, so that one scale serves all of them.
//!
//! Where a value is a product's, or a normalisation's, and only products read it, a factor a channel
//! can go from one constant to the other: what gives the value is divided by it, and the weights
//! that read it are multiplied. `Relu`, pooling and their like let factors pass, since they commute
//! with scales that are positive. The model computes what it did.
//!
//! The factors are those of Xiao et al., "SmoothQuant" (2023), for the transfer that Nagel et al.
//! describe, "Data-Free Quantization Through Weight Equalization and Bias Correction" (2019): the
//! root of how far a channel's values reach over how far its weights do. Weights have a scale a
//! result here, which nothing that divides a result changes; so those of a depthwise convolution
//! lose nothing, and the values are made alike entirely.

use std::collections::{BTreeMap, BTreeSet};

use base::Result;
use tensor::Tensor;
use tilewright::Options;
use tilewright::compiled::DecodedModel;
use tilewright::compiled::proto::NodeProto;

use crate::CalibrationSample;
use crate::calibrate::watch;
use crate::draft::{Draft, integer_of, is_own};
use crate::operators::{Role, role};
use crate::weights::Grid;

/// The least share of the greatest reach that a channel is taken to have: what calibration met next
/// to nothing of is not blown up without bound.
const LEAST: f64 = 1.0 / 64.0;

/// Which axis of a value its channels are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Channels {
    Second,
    Last,
}

/// A value whose channels may be scaled, from what gives it to what reads it.
#[derive(Default)]
struct Site {
    /// Constants that give the value: node, operand, and the axis of the constant.
    divided: Vec<(usize, usize, usize)>,
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
    let sites = Finder { draft: &draft, readers: draft.readers(), outputs: draft.outputs() }.all()?;
    let axes: BTreeMap<String, Channels> = sites
        .iter()
        .flat_map(|site| site.data.iter().map(|(name, axis)| (name.clone(), *axis)))
        .collect();
    let names: BTreeSet<String> = axes.keys().cloned().collect();
    let mut reach: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    watch(model, &names, given, &mut |_, values| {
        for (name, tensor) in values {
            let reached = reach_of(tensor, axes[name]);
            let all = reach.entry(name.clone()).or_insert_with(|| vec![0.0; reached.len()]);
            if all.len() != reached.len() {
                all.clear();
            }
            all.iter_mut().zip(reached).for_each(|(most, it)| *most = most.max(it));
        }
        Ok(())
    })?;
    for site in sites {
        apply(&mut draft, &site, &reach)?;
    }
    draft.drop_unread();
    Ok(draft.finish())
}

/// The greatest magnitude in each channel.
fn reach_of(tensor: &Tensor, channels: Channels) -> Vec<f64> {
    let shape = tensor.shape();
    let axis = match channels {
        Channels::Second => 1,
        Channels::Last => shape.len().saturating_sub(1),
    };
    let Some(elements) = tensor.as_slice::<f32>().filter(|_| axis < shape.len()) else {
        return Vec::new();
    };
    let grid = Grid::along(shape, axis);
    grid.magnitudes(&elements).into_iter().map(f64::from).collect()
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
        Ok(sites)
    }

    /// The constants of a node that scale each channel of what it gives.
    fn source(
        &self,
        number: usize,
        node: &NodeProto,
    ) -> Result<Option<(Channels, Vec<(usize, usize, usize)>)>> {
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

/// Moves factors of one site, if its extents fit.
fn apply(draft: &mut Draft, site: &Site, reach: &BTreeMap<String, Vec<f64>>) -> Result<()> {
    let nodes = draft.nodes().to_vec();
    let constant = |draft: &Draft, (number, operand): (usize, usize)| -> Result<Option<Tensor>> {
        draft.floats(&nodes[number].input[operand])
    };
    let Some(&(first, operand, axis)) = site.divided.first() else { return Ok(()) };
    let Some(source) = constant(draft, (first, operand))? else { return Ok(()) };
    let count = source.shape()[axis];
    // Channels that were flattened are so many neighbours each.
    let per_channel = |values: &[f64]| -> Option<Vec<f64>> {
        let each = values.len().checked_div(count).filter(|each| *each > 0)?;
        let greatest = |part: &[f64]| part.iter().copied().fold(0.0, f64::max);
        (each * count == values.len()).then(|| values.chunks(each).map(greatest).collect())
    };
    let mut values = vec![0.0_f64; count];
    for name in site.data.keys() {
        let Some(of) = reach.get(name).and_then(|it| per_channel(it)) else { return Ok(()) };
        values.iter_mut().zip(of).for_each(|(most, it)| *most = most.max(it));
    }
    let (mut weights, mut are_alone) = (vec![0.0_f64; count], true);
    for &number in &site.readers {
        let Some(weight) = constant(draft, (number, 1))? else { return Ok(()) };
        let Some(Role::Product { axis, .. }) = role(&nodes[number]) else { return Ok(()) };
        let rank = weight.shape().len() as i64;
        let axis = (if axis < 0 { axis + rank } else { axis }) as usize;
        let (elements, grid) = (weight.to_vec::<f32>()?, Grid::along(weight.shape(), axis));
        let magnitudes = grid.magnitudes(&elements);
        let (channels, total) = operand_channels(&nodes[number], weight.shape());
        let mut shares = vec![0.0_f64; total];
        for (at, element) in elements.iter().enumerate() {
            let share = f64::from(element.abs() / magnitudes[grid.scale_of(at)].max(1e-30));
            let most = &mut shares[channels[at]];
            *most = most.max(share);
        }
        // A result of a depthwise convolution is of one channel, whose factor its scale takes up.
        are_alone &= nodes[number].op_type == "Conv" && weight.shape()[1] == 1;
        let Some(of) = per_channel(&shares) else { return Ok(()) };
        weights.iter_mut().zip(of).for_each(|(most, it)| *most = most.max(it));
    }
    let greatest = values.iter().copied().fold(0.0, f64::max);
    if greatest <= 0.0 {
        return Ok(());
    }
    let factor = |(value, weight): (&f64, &f64)| {
        let value = (value / greatest).max(LEAST);
        if are_alone { value } else { (value / weight.max(LEAST)).sqrt() }
    };
    let factors: Vec<f64> = values.iter().zip(&weights).map(factor).collect();
    let mut changed = Vec::new();
    for &(number, operand, axis) in &site.divided {
        let Some(tensor) = constant(draft, (number, operand))? else { return Ok(()) };
        let grid = Grid::along(tensor.shape(), axis);
        let of = |at: usize| grid.scale_of(at);
        if tensor.shape().get(axis) != Some(&count) {
            return Ok(());
        }
        changed.push(((number, operand), scaled(&tensor, &|at| 1.0 / factors[of(at)])?));
    }
    for &number in &site.readers {
        let Some(tensor) = constant(draft, (number, 1))? else { return Ok(()) };
        let (channels, total) = operand_channels(&nodes[number], tensor.shape());
        let each = total / count;
        changed.push(((number, 1), scaled(&tensor, &|at| factors[channels[at] / each])?));
    }
    for ((number, operand), tensor) in changed {
        let name = draft.nodes()[number].input[operand].clone();
        let name = draft.add_constant(&name, "equalised", &tensor);
        draft.proto.body_mut().node[number].input[operand] = name;
    }
    Ok(())
}

fn scaled(tensor: &Tensor, factor: &dyn Fn(usize) -> f64) -> Result<Tensor> {
    let elements = tensor.to_vec::<f32>()?;
    let times = |(at, element): (usize, f32)| (f64::from(element) * factor(at)) as f32;
    let elements: Vec<f32> = elements.into_iter().enumerate().map(times).collect();
    Ok(Tensor::from_vec(tensor.shape(), elements))
}
