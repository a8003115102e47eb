//! Constants stored in fewer bits, and dequantised where they are read: those of products, and
//! tables that rows are looked up in.
//!
//! Neighbours along a sum, or in a row of a table, have a scale together; where their extent is no
//! whole number of blocks, the block is the greatest divisor that is no larger.

use std::collections::{BTreeMap, BTreeSet};

use base::Result;
use tensor::DType;
use tilewright::compiled::proto::NodeProto;

use crate::draft::{Draft, integer, integer_of, is_own, node};
use crate::operators::{Role, role};
use crate::plan::{Layer, name_of};
use crate::weights::{Grid, scale_for};

/// Which operand of a node can be stored, and its axis of results.
pub(crate) type Choice = dyn Fn(&NodeProto) -> Option<(usize, i64)>;

/// Stores the constants that are chosen but those of layers that stay float; gives the layers.
pub(crate) fn store(
    draft: &mut Draft,
    keep_float: &BTreeSet<String>,
    (dtype, block): (DType, Option<usize>),
    choice: &Choice,
) -> Result<Vec<Layer>> {
    let (mut layers, mut front) = (Vec::new(), Vec::new());
    let mut stored: BTreeMap<(String, usize, usize), String> = BTreeMap::new();
    for number in 0..draft.nodes().len() {
        let of = draft.nodes()[number].clone();
        if keep_float.contains(&name_of(&of)) {
            continue;
        }
        let Some((operand, results)) = choice(&of) else { continue };
        let Some(name) = of.input.get(operand).cloned() else { continue };
        let Some(constant) = draft.floats(&name)? else { continue };
        let rank = constant.shape().len();
        // A product whose constant has more axes than two sums along more than one of them.
        if rank < 2 || constant.is_empty() {
            continue;
        }
        let axis = (if results < 0 { results + rank as i64 } else { results }) as usize;
        let along = 1 - axis.min(1);
        let block = block.filter(|_| rank == 2).map(|it| whole_block(constant.shape()[along], it));
        let key = (name.clone(), axis, block.unwrap_or(0));
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
                let back = round(draft, &name, (&grid, dtype, block.is_some()), &mut front)?;
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

fn round(
    draft: &mut Draft,
    name: &str,
    (grid, dtype, is_blocked): (&Grid, DType, bool),
    front: &mut Vec<NodeProto>,
) -> Result<String> {
    let Some(constant) = draft.floats(name)? else { return Ok(name.to_owned()) };
    let elements = constant.to_vec::<f32>()?;
    let magnitudes = grid.magnitudes(&elements).into_iter();
    let scales: Vec<f32> = magnitudes.map(|it| scale_for(it, dtype)).collect();
    // One scale a result is a vector; blocks have as many axes as the constant.
    let extents = grid.shape_of_scales();
    let vector = [scales.len()];
    let shape = if is_blocked { extents } else { &vector };
    let rounded = grid.round(&elements, scales.clone(), (dtype, shape));
    let integers = draft.add_constant(name, "quantised", &rounded.integers);
    let scale_name = draft.add_constant(name, "scale", &rounded.scales);
    let back = draft.fresh(name, "dequantised");
    front.push(node("DequantizeLinear", &[&integers, &scale_name], &back));
    Ok(back)
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
