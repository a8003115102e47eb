//! Constants in few bits: the integers, and what they are multiplied by.
//!
//! A scale of bytes is the greatest magnitude of its elements over the greatest integer, so that
//! zero is zero and nothing is clipped; the least integer of two's complement is not used: products
//! of two bytes then fit 15 bits. Of shorter integers there are so few that clipping pays: the
//! scale is that of the least squared error. What is all zero has the scale 1.

use tensor::{DType, Scalar, Tensor};

/// Integers with their scales.
pub(crate) struct Rounded {
    pub(crate) integers: Tensor,
    pub(crate) scales: Tensor,
}

/// The greatest integer of a signed type.
pub(crate) fn greatest(dtype: DType) -> f32 {
    ((1_i32 << (dtype.bits() - 1)) - 1) as f32
}

/// The least integer of a signed type that is used.
fn least(dtype: DType) -> f32 {
    if dtype.bits() < 8 { -greatest(dtype) - 1.0 } else { -greatest(dtype) }
}

/// The integer nearest to an element over its scale.
pub(crate) fn nearest(element: f32, scale: f32, dtype: DType) -> f32 {
    (element / scale).round_ties_even().clamp(least(dtype), greatest(dtype))
}

/// Scales that are tried of short integers: shortened in steps of this part of the whole.
const STEPS: u16 = 32;

/// The scale of elements that have it together.
pub(crate) fn scale_of(elements: &[f32], dtype: DType) -> f32 {
    let magnitude = elements.iter().fold(0.0_f32, |most, it| most.max(it.abs()));
    let whole = scale_for(magnitude, dtype);
    if dtype.bits() >= 8 {
        return whole;
    }
    let error = |scale: f32| -> f32 {
        let off = |it: &f32| (nearest(*it, scale, dtype) * scale - it).powi(2);
        elements.iter().map(off).sum()
    };
    let tried = (0..STEPS / 2).map(|step| whole * f32::from(STEPS - step) / f32::from(STEPS));
    let with_errors = tried.map(|scale| (scale, error(scale)));
    let first = (whole, error(whole));
    with_errors.fold(first, |best, next| if next.1 < best.1 { next } else { best }).0
}

/// A scale under which elements up to this magnitude fit.
pub(crate) fn scale_for(magnitude: f32, dtype: DType) -> f32 {
    let scale = magnitude / greatest(dtype);
    // Below the normal numbers quotients are no longer exact enough to stay in range.
    if scale >= f32::MIN_POSITIVE { scale } else { 1.0 }
}

/// Rounds to the nearest integers, with a scale for each place along an axis and each block of so
/// many elements along another.
pub(crate) struct Grid {
    /// Extents of the tensor, and of the scales: as many, each a whole part.
    shape: Vec<usize>,
    scales: Vec<usize>,
}

impl Grid {
    /// A scale for each place along one axis.
    pub(crate) fn along(shape: &[usize], axis: usize) -> Grid {
        let own = |(other, &extent)| if other == axis { extent } else { 1 };
        Grid { shape: shape.to_vec(), scales: shape.iter().enumerate().map(own).collect() }
    }

    /// A scale for each block along one axis, and each place along the others.
    pub(crate) fn blocks(shape: &[usize], axis: usize, block: usize) -> Grid {
        let mut scales = shape.to_vec();
        scales[axis] /= block.max(1);
        Grid { shape: shape.to_vec(), scales }
    }

    /// The number of the scale of an element.
    pub(crate) fn scale_of(&self, element: usize) -> usize {
        let (mut rest, mut number, mut stride) = (element, 0, 1);
        for (&extent, &count) in self.shape.iter().zip(&self.scales).rev() {
            let at = rest % extent;
            rest /= extent;
            number += at / (extent / count) * stride;
            stride *= count;
        }
        number
    }

    /// The greatest magnitude of the elements of each scale.
    pub(crate) fn magnitudes(&self, elements: &[f32]) -> Vec<f32> {
        let mut magnitudes = vec![0.0_f32; self.scales.iter().product()];
        for (at, element) in elements.iter().enumerate() {
            let magnitude = &mut magnitudes[self.scale_of(at)];
            *magnitude = magnitude.max(element.abs());
        }
        magnitudes
    }

    /// A scale for the elements of each place and block.
    pub(crate) fn scales(&self, elements: &[f32], dtype: DType) -> Vec<f32> {
        let mut groups = vec![Vec::new(); self.scales.iter().product()];
        for (at, element) in elements.iter().enumerate() {
            groups[self.scale_of(at)].push(*element);
        }
        groups.iter().map(|group| scale_of(group, dtype)).collect()
    }

    /// The integers nearest to the elements over these scales, which become a tensor of this shape.
    pub(crate) fn round(
        &self,
        elements: &[f32],
        scales: Vec<f32>,
        (dtype, of_scales): (DType, &[usize]),
    ) -> Rounded {
        let integer =
            |(at, element): (usize, &f32)| nearest(*element, scales[self.scale_of(at)], dtype);
        let integers: Vec<f32> = elements.iter().enumerate().map(integer).collect();
        Rounded {
            integers: integers_of(dtype, &self.shape, &integers),
            scales: Tensor::from_vec(of_scales, scales),
        }
    }

    /// The extents of the scales.
    pub(crate) fn shape_of_scales(&self) -> &[usize] {
        &self.scales
    }
}

/// A tensor of whole numbers.
pub(crate) fn integers_of(dtype: DType, shape: &[usize], integers: &[f32]) -> Tensor {
    match dtype {
        DType::I8 => {
            Tensor::from_vec(shape, integers.iter().map(|&it| it as i8).collect::<Vec<i8>>())
        }
        _ => {
            let scalar = |&it: &f32| Scalar::from_i64(dtype, it as i64);
            let scalars: Vec<Scalar> = integers.iter().map(scalar).collect();
            Tensor::from_scalars(dtype, shape, &scalars)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_element_is_off_by_more_than_half_a_scale() {
        let elements: Vec<f32> = (0..96).map(|at| ((at * 37 % 96) as f32 - 50.0) / 7.0).collect();
        for (dtype, grid) in [
            (DType::I8, Grid::along(&[4, 24], 0)),
            (DType::I8, Grid::along(&[2, 3, 16], 1)),
            (DType::I4, Grid::blocks(&[4, 24], 1, 8)),
            (DType::I4, Grid::blocks(&[24, 4], 0, 12)),
        ] {
            let scales = grid.scales(&elements, dtype);
            let shape = grid.shape_of_scales().to_vec();
            let rounded = grid.round(&elements, scales.clone(), (dtype, &shape));
            assert_eq!(rounded.integers.dtype(), dtype);
            for (at, element) in elements.iter().enumerate() {
                let scale = scales[grid.scale_of(at)];
                let back = rounded.integers.get_f64(at) as f32 * scale;
                // Short integers clip what lies far off where that is better for the rest.
                let most = if dtype == DType::I8 { 0.5001 } else { 2.5 };
                assert!((back - element).abs() <= scale * most, "{at}: {element} {back}");
            }
        }
    }

    #[test]
    fn zeros_have_a_scale() {
        assert_eq!(scale_for(0.0, DType::I8), 1.0);
        assert_eq!(scale_for(1e-44, DType::I8), 1.0);
        assert_eq!(scale_for(254.0, DType::I8), 2.0);
    }
}
