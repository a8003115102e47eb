//! Sampling of images at places that are data.

use front::{Graph, Interpolation, Surrounding, sample_grid, shape_error};
use graph::IterationSpace;
use sym::Expr;

use super::Lowered;
use crate::node::Node;

/// `GridSample`, see [`sample_grid`].
pub(super) fn grid_sample(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let (x, grid) = (node.input(0)?, node.input(1)?);
    let modes = ["linear", "bilinear", "nearest", "cubic", "bicubic"];
    let interpolation = match node.word("mode", &modes)? {
        "nearest" => Interpolation::Nearest,
        "cubic" | "bicubic" => Interpolation::Cubic,
        _ => Interpolation::Linear,
    };
    let surrounding = match node.word("padding_mode", &["zeros", "border", "reflection"])? {
        "zeros" => Surrounding::Zeros,
        "border" => Surrounding::Border,
        _ => Surrounding::Reflection,
    };
    let aligned = node.flag("align_corners", false)?;
    Ok(vec![sample_grid(graph, x, grid, interpolation, surrounding, aligned)?])
}

/// `AffineGrid`: `grid[n, p..., k] = sum(j) theta[n, k, j] * (x, y, ..., 1)[p..., j]`, where `x`
/// runs from -1 to 1 along the last axis of the image, `y` along the one before, and so on.
pub(super) fn affine_grid(node: &Node<'_>, graph: &mut Graph) -> Lowered {
    let theta = node.input(0)?;
    let size = node.sizes(1, "size of the image", graph)?;
    let [_, _, image @ ..] = &size[..] else {
        return Err(shape_error(format!("a size of {} axes", size.len())));
    };
    if theta.rank() != 3 || image.is_empty() {
        return Err(shape_error(format!("matrices of rank {}, not 3", theta.rank())));
    }
    graph.check_size(image)?;
    let (count, dtype) = (image.len(), theta.dtype());
    let aligned = node.flag("align_corners", false)?;
    let column = [image, &[Expr::ONE]].concat();
    let mut coordinates = Vec::new();
    for axis in (0..count).rev() {
        let place = graph.iota(dtype, &column, axis)?;
        let (offset, steps) = match aligned {
            true => (0.0, &image[axis] - 1),
            false => (0.5, image[axis].clone()),
        };
        let place = graph.add_number(&place, offset)?;
        let doubled = graph.mul_number(&place, 2.0)?;
        let steps = graph.dimension(steps);
        let steps = graph.cast(&steps, dtype)?;
        let scaled = graph.div(&doubled, &steps)?;
        coordinates.push(graph.add_number(&scaled, -1.0)?);
    }
    coordinates.push(graph.full(&column, tensor::Scalar::one(dtype))?);
    let base = graph.concat(count, &coordinates)?;
    let wanted = [theta.shape()[0].clone(), Expr::from(count), Expr::from(count + 1)];
    let theta = graph.refine(theta, &wanted)?;
    let axis = IterationSpace::axis;
    let mut extents = vec![wanted[0].clone()];
    extents.extend_from_slice(image);
    extents.extend_from_slice(&wanted[1..]);
    let read_base = (1..=count).chain([count + 2]).map(axis).collect();
    let operands = vec![vec![axis(0), axis(count + 1), axis(count + 2)], read_base];
    let space = IterationSpace { extents, parallel: count + 2, operands };
    Ok(vec![graph.contract(space, &theta, &base, graph::accumulator_of(dtype), dtype)?])
}
