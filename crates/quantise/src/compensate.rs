//! Rounding of weights that makes up for itself: what rounding one weight of a sum takes is given
//! to those that are not rounded yet, as far as the values that they are multiplied by go together.
//!
//! Frantar et al., "GPTQ" (2023). The values are known by the sums of products of all pairs over
//! the samples, which the float model computes along with its results: for a matrix product of its
//! operand, for a convolution of the patches that its window sees, which a convolution by filters
//! of a single one gives.

use std::collections::{BTreeMap, BTreeSet};

use base::Result;
use tensor::Tensor;
use tilewright::Options;
use tilewright::compiled::DecodedModel;
use tilewright::compiled::proto::NodeProto;

use crate::CalibrationSample;
use crate::calibrate::watch;
use crate::draft::{Draft, node};
use crate::plan::name_of;
use crate::stored::Layout;

/// Sums of products of all pairs of the values that a layer's weights are multiplied by: square, as
/// many as a result has weights.
pub(crate) type Moments = BTreeMap<String, Vec<f64>>;

/// The part of the mean square that is added to all squares, for what samples show nothing of.
const DAMPING: f64 = 0.01;

/// The sums for all layers whose weights are laid out so that they can be made up for, by the
/// layer's name.
///
/// # Errors
/// Those of compiling and running the model.
pub(crate) fn moments(
    model: &DecodedModel,
    layers: &BTreeSet<String>,
    given: (&[CalibrationSample], &Options),
) -> Result<Moments> {
    let mut draft = Draft::of(model)?;
    let mut shown: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut known: BTreeMap<String, String> = BTreeMap::new();
    for of in draft.nodes().to_vec() {
        if !layers.contains(&name_of(&of)) {
            continue;
        }
        let Some(weight) = draft.floats(&of.input[1])? else { continue };
        let Some(layout) = Layout::of(&of, weight.shape()) else { continue };
        // Products of one value share their sums.
        let key = match of.op_type.as_str() {
            "Conv" => name_of(&of),
            _ => of.input[0].clone(),
        };
        let name = match known.get(&key) {
            Some(name) => name.clone(),
            None => {
                let name = add_moments(&mut draft, &of, weight.shape(), layout.terms);
                known.insert(key, name.clone());
                name
            }
        };
        shown.entry(name).or_default().push(name_of(&of));
    }
    let mut sums: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    let names = shown.keys().cloned().collect();
    watch(&draft.finish(), &names, given, &mut |_, values| {
        for (name, value) in values {
            let sum = sums.entry(name.clone()).or_insert_with(|| vec![0.0; value.len()]);
            let elements = value.as_slice::<f32>().unwrap_or_default();
            sum.iter_mut().zip(elements.iter()).for_each(|(sum, &it)| *sum += f64::from(it));
        }
        Ok(())
    })?;
    let of_layers = |(name, sum): (String, Vec<f64>)| {
        let layers = shown.get(&name).cloned().unwrap_or_default();
        layers.into_iter().map(move |layer| (layer, sum.clone()))
    };
    Ok(sums.into_iter().flat_map(of_layers).collect())
}

/// Adds nodes that compute the sums of products of a layer's operand; gives the name of these.
fn add_moments(draft: &mut Draft, of: &NodeProto, weight: &[usize], terms: usize) -> String {
    let mut nodes = Vec::new();
    let mut rows = of.input[0].clone();
    if of.op_type == "Conv" {
        let mut one = vec![0.0_f32; terms * terms];
        (0..terms).for_each(|at| one[at * terms + at] = 1.0);
        let shape: Vec<usize> = [terms].iter().chain(&weight[1..]).copied().collect();
        let filter = draft.add_constant(&rows, "each", &Tensor::from_vec(&shape, one));
        let mut patches = of.clone();
        patches.input = vec![rows.clone(), filter];
        let seen = draft.fresh(&rows, "patches");
        patches.name.clone_from(&seen);
        patches.output = vec![seen.clone()];
        nodes.push(patches);
        // Batch and channels first: [n, terms, places] to [n, places, terms].
        let flat = draft.fresh(&rows, "flat");
        let shape = Tensor::from_vec(&[3], vec![0_i64, terms as i64, -1]);
        let shape = draft.add_constant(&rows, "shape", &shape);
        nodes.push(node("Reshape", &[&seen, &shape], &flat));
        let turned = draft.fresh(&rows, "turned");
        let mut turn = node("Transpose", &[&flat], &turned);
        turn.attribute.push(crate::draft::integers("perm", &[0, 2, 1]));
        nodes.push(turn);
        rows = turned;
    }
    let shape = Tensor::from_vec(&[2], vec![-1_i64, terms as i64]);
    let shape = draft.add_constant(&rows, "shape", &shape);
    let [matrix, other, sums] =
        ["rows", "columns", "moments"].map(|suffix| draft.fresh(&rows, suffix));
    nodes.push(node("Reshape", &[&rows, &shape], &matrix));
    let mut turn = node("Transpose", &[&matrix], &other);
    turn.attribute.push(crate::draft::integers("perm", &[1, 0]));
    nodes.push(turn);
    nodes.push(node("MatMul", &[&other, &matrix], &sums));
    draft.proto.body_mut().node.extend(nodes);
    sums
}

/// The upper triangle `u` with `uᵀ u` the inverse of the sums, damped; none where they hold
/// nothing.
pub(crate) fn inverse_factor(moments: &[f64], terms: usize) -> Option<Vec<f64>> {
    let mut matrix = moments.to_vec();
    let diagonal = || (0..terms).map(|at| at * terms + at);
    let mean = diagonal().map(|at| moments[at]).sum::<f64>() / terms.max(1) as f64;
    if !(mean.is_finite() && mean > 0.0) {
        return None;
    }
    diagonal().for_each(|at| matrix[at] += DAMPING * mean);
    let lower = cholesky(&matrix, terms)?;
    // The inverse of the triangle by columns, as rows of its transpose.
    let mut inverse = vec![0.0; terms * terms];
    for column in 0..terms {
        let solved = &mut inverse[column * terms..(column + 1) * terms];
        solved[column] = 1.0 / lower[column * terms + column];
        for row in column + 1..terms {
            let line = &lower[row * terms..row * terms + terms];
            let sum = dot(&line[column..row], &solved[column..row]);
            solved[row] = -sum / line[row];
        }
    }
    // inverse[c][r] is l⁻¹[r][c]; the inverse of the sums is their product over r.
    let mut whole = vec![0.0; terms * terms];
    for a in 0..terms {
        for b in a..terms {
            let sum = dot(
                &inverse[a * terms + b..(a + 1) * terms],
                &inverse[b * terms + b..(b + 1) * terms],
            );
            whole[a * terms + b] = sum;
            whole[b * terms + a] = sum;
        }
    }
    let lower = cholesky(&whole, terms)?;
    let mut upper = vec![0.0; terms * terms];
    for row in 0..terms {
        for column in 0..=row {
            upper[column * terms + row] = lower[row * terms + column];
        }
    }
    Some(upper)
}

/// The lower triangle `l` with `l lᵀ` a matrix, if that is positive.
fn cholesky(matrix: &[f64], count: usize) -> Option<Vec<f64>> {
    let mut lower = vec![0.0; count * count];
    for row in 0..count {
        let (above, own) = lower.split_at_mut(row * count);
        for column in 0..row {
            let other = &above[column * count..column * count + count];
            let sum = matrix[row * count + column] - dot(&own[..column], &other[..column]);
            own[column] = sum / other[column];
        }
        let square = matrix[row * count + row] - dot(&own[..row], &own[..row]);
        if !(square.is_finite() && square > 0.0) {
            return None;
        }
        own[row] = square.sqrt();
    }
    Some(lower)
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    // Eight sums at once, which the machine adds side by side.
    let mut sums = [0.0_f64; 8];
    let (a_parts, b_parts) = (a.chunks_exact(8), b.chunks_exact(8));
    let rest = a_parts.remainder().iter().zip(b_parts.remainder());
    let rest: f64 = rest.map(|(a, b)| a * b).sum();
    for (a, b) in a_parts.zip(b_parts) {
        for lane in 0..8 {
            sums[lane] += a[lane] * b[lane];
        }
    }
    sums.iter().sum::<f64>() + rest
}

/// Rounds the weights of one result: `round` gives what the weight of a place becomes, of one that
/// has taken up what those before it lost.
pub(crate) fn compensate(
    weights: &mut [f64],
    upper: &[f64],
    round: &mut dyn FnMut(usize, &[f64]) -> f64,
) {
    let terms = weights.len();
    for at in 0..terms {
        let rounded = round(at, weights);
        let row = &upper[at * terms..(at + 1) * terms];
        let error = (weights[at] - rounded) / row[at];
        weights[at] = rounded;
        let later = weights[at + 1..].iter_mut().zip(&row[at + 1..]);
        later.for_each(|(weight, factor)| *weight -= error * factor);
    }
}
