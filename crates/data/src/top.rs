//! The best of many scores.

use std::cmp::Ordering;

use tensor::{Class, Tensor};

/// A score and its place among all.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scored {
    /// The place on the last axis.
    pub index: usize,
    /// The score.
    pub score: f64,
}

/// The places of scores from the largest to the least; equal ones in their order, and what is no
/// number behind all.
pub(crate) fn in_order(scores: &[f64]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..scores.len()).collect();
    order.sort_by(|&a, &b| match (scores[a].is_nan(), scores[b].is_nan()) {
        (false, false) => scores[b].partial_cmp(&scores[a]).unwrap_or(Ordering::Equal),
        (a, b) => a.cmp(&b),
    });
    order
}

/// The largest `count` along the last axis, for each row of it; through a softmax if the scores are
/// logits. None of a tensor without axes or numbers.
#[must_use]
pub fn top(tensor: &Tensor, count: usize, softmax: bool) -> Option<Vec<Vec<Scored>>> {
    let extent = tensor.shape().last().copied().filter(|extent| *extent > 0)?;
    if matches!(tensor.dtype().class(), Class::String | Class::Bool) {
        return None;
    }
    let row = |first: usize| {
        let mut scores: Vec<f64> =
            (first..first + extent).map(|index| tensor.get_f64(index)).collect();
        if softmax {
            to_probabilities(&mut scores);
        }
        let best = in_order(&scores).into_iter().take(count);
        best.map(|index| Scored { index, score: scores[index] }).collect()
    };
    Some((0..tensor.len()).step_by(extent).map(row).collect())
}

fn to_probabilities(scores: &mut [f64]) {
    let largest = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    scores.iter_mut().for_each(|score| *score = (*score - largest).exp());
    let sum: f64 = scores.iter().sum();
    scores.iter_mut().for_each(|score| *score /= sum);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_of_each_row() {
        let tensor = Tensor::from_slice(&[2, 3], &[1.0_f32, 3.0, 3.0, f32::NAN, -1.0, 0.0]);
        let rows = top(&tensor, 2, false).expect("scores");
        let indices = |row: &[Scored]| row.iter().map(|it| it.index).collect::<Vec<usize>>();
        assert_eq!([indices(&rows[0]), indices(&rows[1])], [[1, 2], [2, 1]]);
        let logits = Tensor::from_slice(&[2], &[0.0_f32, 3.0_f32.ln()]);
        let best = top(&logits, 9, true).expect("scores")[0].clone();
        assert_eq!(best.len(), 2);
        assert!((best[0].score - 0.75).abs() < 1e-6);
        assert!(top(&Tensor::scalar(tensor::Scalar::f32(1.0)), 1, false).is_none());
    }
}
