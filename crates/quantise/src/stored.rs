//! Constants stored in fewer bits, and dequantised where they are read: those of products, and
//! tables that rows are looked up in.
//!
//! Neighbours along a sum, or in a row of a table, have a scale together; where their extent is no
//! whole number of blocks, the block is the greatest divisor that is no larger. Tables that are
//! small beside all constants are stored in bytes, where shorter integers are asked for: what they
//! lose reaches every layer, and bytes of them are few. Layers that lose too much have bytes, too,
//! with a scale a result: beside those, scales of blocks would take more than they give.

use std::cell::RefCell;
use std::collections::BTreeMap;

use base::Result;
use tensor::DType;
use tilewright::compiled::proto::{NodeProto, TensorProto};

use crate::LayerChoice;
use crate::compensate::{Moments, compensate, inverse_factor};
use crate::draft::{Draft, integer, integer_of, is_own, node};
use crate::operators::{Role, role};
use crate::plan::{Layer, name_of};
use crate::weights::{Grid, nearest, scale_of};

/// How many times a table is contained in all constants at least, to be stored in bytes.
const SMALL: usize = 64;

/// Scales and weights of layers that make up for each other, by the layer's name and the type: what
/// was found for one version of a model serves all.
pub(crate) type Compensated = RefCell<BTreeMap<(String, DType), (Vec<f32>, Vec<f32>)>>;

/// How constants are stored.
pub(crate) struct Storing<'a> {
    /// Which operand of a node can be stored, and its axis of results.
    pub(crate) operand: &'a dyn Fn(&NodeProto) -> Option<(usize, i64)>,
    /// The type of the integers.
    pub(crate) dtype: DType,
    /// How many neighbours have a scale together; none for one a result.
    pub(crate) block: Option<usize>,
    pub(crate) moments: &'a Moments,
    pub(crate) compensated: &'a Compensated,
}

/// Where the weights of a layer are of which each result is a sum of products.
pub(crate) struct Layout {
    pub(crate) results: usize,
    /// Weights of a result.
    pub(crate) terms: usize,
    /// Whether the weights of a result are neighbours.
    is_by_result: bool,
}

impl Layout {
    /// That of a layer whose results are all sums over the same values.
    pub(crate) fn of(node: &NodeProto, shape: &[usize]) -> Option<Layout> {
        let [first, second, ..] = *shape else { return None };
        let rows =
            || Layout { results: first, terms: shape[1..].iter().product(), is_by_result: true };
        let turned = || Layout { results: second, terms: first, is_by_result: false };
        let is_turned = |name: &str| integer_of(node, name, 0) != 0;
        Some(match node.op_type.as_str() {
            "Conv" if integer_of(node, "group", 1) == 1 => rows(),
            "Gemm" if is_turned("transA") => return None,
            "Gemm" if is_turned("transB") => rows(),
            "Gemm" | "MatMul" if shape.len() == 2 => turned(),
            _ => return None,
        })
    }

    /// The element that is a result's weight.
    fn element(&self, result: usize, term: usize) -> usize {
        match self.is_by_result {
            true => result * self.terms + term,
            false => term * self.results + result,
        }
    }
}

/// Stores the constants that are chosen but those of layers that stay float; gives the layers.
/// Weights make up for each other where moments are known of what they are multiplied by.
pub(crate) fn store(
    draft: &mut Draft,
    choice: &LayerChoice,
    how: &Storing<'_>,
) -> Result<Vec<Layer>> {
    let (mut layers, mut front) = (Vec::new(), Vec::new());
    let mut stored: BTreeMap<(String, usize, usize, DType, String), String> = BTreeMap::new();
    let elements =
        |it: &TensorProto| -> usize { it.dims.iter().map(|&it| it.max(0) as usize).product() };
    let all: usize = draft.proto.body().initializer.iter().map(elements).sum();
    for number in 0..draft.nodes().len() {
        let of = draft.nodes()[number].clone();
        if choice.float.contains(&name_of(&of)) {
            continue;
        }
        let Some((operand, results)) = (how.operand)(&of) else { continue };
        let Some(name) = of.input.get(operand).cloned() else { continue };
        let Some(constant) = draft.floats(&name)? else { continue };
        let rank = constant.shape().len();
        // A product whose constant has more axes than two sums along more than one of them.
        if rank < 2 || constant.is_empty() {
            continue;
        }
        let axis = (if results < 0 { results + rank as i64 } else { results }) as usize;
        let along = 1 - axis.min(1);
        let is_small = table_of(&of).is_some() && constant.len() * SMALL < all;
        let is_wide = choice.bytes.contains(&name_of(&of));
        let dtype = if is_small || is_wide { DType::I8 } else { how.dtype };
        let block = how.block.filter(|_| rank == 2 && !is_wide);
        let block = block.map(|it| whole_block(constant.shape()[along], it));
        // What makes up for itself does so for the values that one layer reads.
        let of_layer = how.moments.get(&name_of(&of));
        let reader = of_layer.map(|_| of.input[0].clone()).unwrap_or_default();
        let key = (name.clone(), axis, block.unwrap_or(0), dtype, reader);
        let back = match stored.get(&key) {
            Some(back) => back.clone(),
            None => {
                let grid = match block {
                    Some(block) => Grid::blocks(constant.shape(), along, block),
                    None => Grid::along(constant.shape(), axis),
                };
                let place = if block.is_some() { along } else { axis };
                let mut attributes = vec![integer("axis", place as i64)];
                attributes.extend(block.map(|block| integer("block_size", block as i64)));
                let layout = Layout::of(&of, constant.shape());
                let known = layout.as_ref().zip(of_layer.map(Vec::as_slice));
                let elements = constant.to_vec::<f32>()?;
                let found = known.and_then(|known| {
                    let key = (name_of(&of), dtype);
                    let held = how.compensated.borrow().get(&key).cloned();
                    held.or_else(|| {
                        let found = compensated(&elements, &grid, dtype, known)?;
                        how.compensated.borrow_mut().insert(key, found.clone());
                        Some(found)
                    })
                });
                let rounded = match found {
                    Some(rounded) => rounded,
                    None => (grid.scales(&elements, dtype), elements),
                };
                let back = add(draft, &name, (&grid, dtype, block.is_some()), rounded, &mut front);
                front.last_mut().into_iter().for_each(|it| it.attribute.append(&mut attributes));
                stored.insert(key, back.clone());
                back
            }
        };
        draft.proto.body_mut().node[number].input[operand] = back;
        let (operator, result) = (of.op_type.clone(), of.output[0].clone());
        layers.push(Layer { name: name_of(&of), operator, result });
    }
    let nodes = &mut draft.proto.body_mut().node;
    front.append(nodes);
    *nodes = front;
    draft.drop_unread();
    Ok(layers)
}

/// Every operand that can be stored.
pub(crate) fn constant_of(node: &NodeProto) -> Option<(usize, i64)> {
    match role(node) {
        Some(Role::Product { axis, .. }) => Some((1, axis)),
        _ => table_of(node),
    }
}

/// A table that rows are looked up in.
pub(crate) fn table_of(node: &NodeProto) -> Option<(usize, i64)> {
    let is_table = node.op_type == "Gather" && is_own(&node.domain);
    (is_table && integer_of(node, "axis", 0) == 0).then_some((0, 0))
}

/// The greatest divisor of an extent that is no larger than a block.
fn whole_block(extent: usize, block: usize) -> usize {
    (1..=block.min(extent).max(1)).rev().find(|it| extent.is_multiple_of(*it)).unwrap_or(1)
}

/// Scales and weights that lie on them, but for what rounding of floats is off; none where nothing
/// is known of the values.
fn compensated(
    elements: &[f32],
    grid: &Grid,
    dtype: DType,
    (layout, moments): (&Layout, &[f64]),
) -> Option<(Vec<f32>, Vec<f32>)> {
    let upper = inverse_factor(moments, layout.terms)?;
    let mut rounded = elements.to_vec();
    let mut scales = vec![1.0_f32; grid.shape_of_scales().iter().product()];
    for result in 0..layout.results {
        let places: Vec<usize> =
            (0..layout.terms).map(|term| layout.element(result, term)).collect();
        let numbers: Vec<usize> = places.iter().map(|&at| grid.scale_of(at)).collect();
        let mut weights: Vec<f64> = places.iter().map(|&at| f64::from(elements[at])).collect();
        let mut round = |at: usize, weights: &[f64]| {
            let number = numbers[at];
            if at == 0 || numbers[at - 1] != number {
                // A block's scale is for what its weights have become by then.
                let end = numbers[at..].iter().take_while(|it| **it == number).count() + at;
                let block: Vec<f32> = weights[at..end].iter().map(|&it| it as f32).collect();
                scales[number] = scale_of(&block, dtype);
            }
            let scale = scales[number];
            f64::from(nearest(weights[at] as f32, scale, dtype)) * f64::from(scale)
        };
        compensate(&mut weights, &upper, &mut round);
        places.iter().zip(&weights).for_each(|(&at, &weight)| rounded[at] = weight as f32);
    }
    Some((scales, rounded))
}

/// Adds a constant in integers, and the node that brings it back; gives the name of its result.
fn add(
    draft: &mut Draft,
    name: &str,
    (grid, dtype, is_blocked): (&Grid, DType, bool),
    (scales, elements): (Vec<f32>, Vec<f32>),
    front: &mut Vec<NodeProto>,
) -> String {
    // One scale a result is a vector; blocks have as many axes as the constant.
    let extents = grid.shape_of_scales();
    let vector = [scales.len()];
    let shape = if is_blocked { extents } else { &vector };
    let rounded = grid.round(&elements, scales, (dtype, shape));
    let integers = draft.add_constant(name, "quantised", &rounded.integers);
    let scale_name = draft.add_constant(name, "scale", &rounded.scales);
    let back = draft.fresh(name, "dequantised");
    front.push(node("DequantizeLinear", &[&integers, &scale_name], &back));
    back
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_divide_their_axis() {
        assert_eq!(whole_block(384, 32), 32);
        assert_eq!(whole_block(50, 32), 25);
        assert_eq!(whole_block(7, 32), 7);
        assert_eq!(whole_block(31, 16), 1);
    }
}
