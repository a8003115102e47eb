//! What is rounded to integers is what is multiplied: operands of products that nodes compute of
//! constants become constants, and batch normalisation behind a convolution becomes part of its
//! filter and bias.

use std::collections::{BTreeMap, BTreeSet};

use base::{IntoTree, Result};
use tensor::Tensor;
use tilewright::Options;
use tilewright::compiled::{Source, compile_source, tensor_proto};

use crate::draft::{Draft, float_of, is_own};
use crate::operators::{Role, role};

/// Computes the operands of products that no input has a part in.
pub(crate) fn fold_constants(draft: &mut Draft, options: &Options) -> Result<()> {
    let mut known: BTreeSet<String> =
        draft.proto.body().initializer.iter().map(|tensor| tensor.name.clone()).into_set();
    let mut makers: BTreeMap<String, BTreeSet<usize>> = BTreeMap::new();
    let mut wanted: BTreeSet<String> = BTreeSet::new();
    for (number, node) in draft.nodes().iter().enumerate() {
        let is_product = matches!(role(node), Some(Role::Product { .. }));
        if is_product && !draft.is_dequantised(&node.input[0]) {
            let of_nodes = node.input[1..].iter().filter(|name| makers.contains_key(*name));
            wanted.extend(of_nodes.cloned());
        }
        // What has no operands may be random, but for constants.
        let is_plain = !node.input.is_empty() || node.op_type == "Constant";
        let reads = node.reads();
        if is_plain && is_own(&node.domain) && reads.iter().all(|name| known.contains(*name)) {
            let before = reads.iter().filter_map(|name| makers.get(*name)).flatten().copied();
            let all: BTreeSet<usize> = before.chain([number]).into_set();
            for name in &node.output {
                known.insert(name.clone());
                makers.insert(name.clone(), all.clone());
            }
        }
    }
    // A node `Constant` is one already.
    wanted.retain(|name| {
        makers[name].len() > 1 || {
            let first = makers[name].first().copied().unwrap_or_default();
            draft.nodes()[first].op_type != "Constant"
        }
    });
    if wanted.is_empty() {
        return Ok(());
    }
    let nodes: BTreeSet<usize> =
        wanted.iter().flat_map(|name| makers[name].iter().copied()).into_set();
    let wanted: Vec<String> = wanted.into_iter().collect();
    let part = draft.model().excerpt(&nodes, &[], &wanted)?;
    let values = compile_source(Source::from(part), options)?.run(&[])?;
    let graph = draft.proto.body_mut();
    for (name, value) in wanted.iter().zip(&values) {
        for node in &mut graph.node {
            for output in node.output.iter_mut().filter(|output| *output == name) {
                output.clear();
            }
        }
        graph.initializer.push(tensor_proto(name, value));
    }
    // Last first: what only nodes read that are left out is left out, too.
    for &number in nodes.iter().rev() {
        let read: BTreeSet<String> = draft.readers().into_keys().chain(draft.outputs()).into_set();
        let node = &mut draft.proto.body_mut().node[number];
        if !node.output.iter().any(|name| read.contains(name)) {
            node.input.clear();
            node.output.clear();
        }
    }
    draft.proto.body_mut().node.retain(|node| !node.output.is_empty());
    draft.drop_unread();
    Ok(())
}

/// Folds each normalisation by constants that alone reads a convolution by a constant filter.
pub(crate) fn fold_normalisations(draft: &mut Draft) -> Result<()> {
    let (readers, outputs) = (draft.readers(), draft.outputs());
    let mut folded = Vec::new();
    for convolution in 0..draft.nodes().len() {
        let node = &draft.nodes()[convolution];
        if node.op_type != "Conv" || !is_own(&node.domain) || outputs.contains(&node.output[0]) {
            continue;
        }
        let Some([normalisation]) = readers.get(&node.output[0]).map(Vec::as_slice) else {
            continue;
        };
        if fold(draft, convolution, *normalisation)?.is_some() {
            folded.push(*normalisation);
        }
    }
    let mut number = 0;
    draft.proto.body_mut().node.retain(|_| {
        number += 1;
        !folded.contains(&(number - 1))
    });
    draft.drop_unread();
    Ok(())
}

/// Folds one, if it is one.
fn fold(draft: &mut Draft, convolution: usize, normalisation: usize) -> Result<Option<()>> {
    let (node, after) = (&draft.nodes()[convolution], &draft.nodes()[normalisation]);
    if after.op_type != "BatchNormalization"
        || !is_own(&after.domain)
        || after.input.len() != 5
        || after.input[0] != node.output[0]
        || after.output.iter().skip(1).any(|name| !name.is_empty())
    {
        return Ok(None);
    }
    let names: Vec<String> = after.input[1..].to_vec();
    let (filter_name, result) = (node.input[1].clone(), after.output[0].clone());
    let bias_name = node.input.get(2).filter(|name| !name.is_empty()).cloned();
    let epsilon = f64::from(float_of(after, "epsilon", 1e-5));
    let Some(filter) = draft.floats(&filter_name)? else { return Ok(None) };
    let channels = filter.shape().first().copied().unwrap_or(0);
    let mut rows = Vec::new();
    for name in &names {
        let Some(row) = draft.floats(name)?.filter(|row| row.len() == channels) else {
            return Ok(None);
        };
        rows.push(row.to_f64_vec());
    }
    let bias = match &bias_name {
        None => vec![0.0; channels],
        Some(name) => match draft.floats(name)?.filter(|bias| bias.len() == channels) {
            Some(bias) => bias.to_f64_vec(),
            None => return Ok(None),
        },
    };
    let [scale, shift, mean, variance] = &rows[..] else { return Ok(None) };
    let factor: Vec<f64> =
        (0..channels).map(|at| scale[at] / (variance[at] + epsilon).sqrt()).collect();
    let each = filter.len().checked_div(channels).unwrap_or(0).max(1);
    let elements = filter.to_f64_vec().into_iter().enumerate();
    let filter_elements: Vec<f32> =
        elements.map(|(at, element)| (element * factor[at / each]) as f32).collect();
    let moved = |at: usize| ((bias[at] - mean[at]) * factor[at] + shift[at]) as f32;
    let new_filter = Tensor::from_vec(filter.shape(), filter_elements);
    let new_bias = Tensor::from_vec(&[channels], (0..channels).map(moved).collect::<Vec<f32>>());
    let filter_name = draft.add_constant(&filter_name, "folded", &new_filter);
    let bias_name = draft.add_constant(&result, "bias", &new_bias);
    let node = &mut draft.proto.body_mut().node[convolution];
    node.input.truncate(2);
    node.input[1] = filter_name;
    node.input.push(bias_name);
    node.output[0] = result;
    Ok(Some(()))
}
