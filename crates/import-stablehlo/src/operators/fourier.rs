//! Fourier transforms.

use front::{Direction, fourier, fourier_of_real, fourier_to_real, shape_error, unsupported};
use sym::Expr;

use crate::importer::{Frame, Importer};
use crate::node::{Lowered, Node, one};

pub(crate) fn fft<'p>(importer: &mut Importer<'p>, node: &Node<'p>, _: &mut Frame) -> Lowered {
    let graph = &mut importer.graph;
    let lengths = node.required("fft_length")?;
    let value = node.value(0)?;
    let rank = value.rank();
    let Some(first) = rank.checked_sub(lengths.len()) else {
        return Err(shape_error("more axes are transformed than there are"));
    };
    let axes: Vec<usize> = (first..rank).collect();
    let Some((&last, others)) = axes.split_last() else { return Ok(vec![value.clone()]) };
    let mut lengths_found = Vec::new();
    for &length in &lengths {
        match usize::try_from(length).ok().filter(|length| *length > 0) {
            Some(length) => lengths_found.push(length),
            None => return Err(shape_error(format!("a transform of {length} elements"))),
        }
    }
    let own = value.shape().to_vec();
    let kind = node.word("fft_type")?.to_owned();
    let expected = |at: usize| match (kind.as_str(), at + 1 == lengths_found.len()) {
        ("IRFFT", true) => lengths_found[at] / 2 + 1,
        _ => lengths_found[at],
    };
    for (at, &axis) in axes.iter().enumerate() {
        if own[axis] != Expr::from(expected(at)) {
            return Err(shape_error("the extents are not those of the transform"));
        }
    }
    let length = lengths_found[lengths_found.len() - 1];
    match kind.as_str() {
        "FFT" | "IFFT" => {
            let backward = kind == "IFFT";
            let direction = if backward { Direction::Backward } else { Direction::Forward };
            let mut z = value.complex(graph)?;
            for (at, &axis) in axes.iter().enumerate() {
                z = fourier(graph, &z, axis, lengths_found[at], direction)?;
            }
            if backward {
                let count: usize = lengths_found.iter().product();
                z = z.each(|part| graph.mul_number(part, 1.0 / count as f64))?;
            }
            one(z)
        }
        "RFFT" => {
            let mut z = fourier_of_real(graph, value.real()?, length)?;
            for (at, &axis) in others.iter().enumerate() {
                z = fourier(graph, &z, axis, lengths_found[at], Direction::Forward)?;
            }
            one(z)
        }
        "IRFFT" => {
            let mut z = value.complex(graph)?;
            for (at, &axis) in others.iter().enumerate() {
                z = fourier(graph, &z, axis, lengths_found[at], Direction::Backward)?;
            }
            debug_assert_eq!(last + 1, rank);
            let x = fourier_to_real(graph, &z, length)?;
            let count: usize = lengths_found.iter().product();
            one(graph.mul_number(&x, 1.0 / count as f64)?)
        }
        other => Err(unsupported(format!("the transform {other}"))),
    }
}
