//! Where elements of several axes lie one behind the other.

/// Elements from one index to the next along each axis of a dense tensor, the last axis innermost.
pub fn dense_strides(shape: &[usize]) -> Vec<usize> {
    let mut strides = vec![1; shape.len()];
    for axis in (1..shape.len()).rev() {
        strides[axis - 1] = strides[axis] * shape[axis];
    }
    strides
}

/// For each element of a shape, in row-major order, where it lies under these strides.
pub fn offsets(shape: &[usize], strides: &[usize]) -> impl Iterator<Item = usize> {
    (0..shape.iter().product()).map(move |mut element: usize| {
        let mut offset = 0;
        for (extent, stride) in shape.iter().zip(strides).rev() {
            offset += element % extent * stride;
            element /= extent;
        }
        offset
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dense_elements_lie_one_behind_the_other() {
        let shape = [2, 1, 3];
        assert_eq!(dense_strides(&shape), [3, 3, 1]);
        assert!(offsets(&shape, &dense_strides(&shape)).eq(0..6));
        assert!(offsets(&shape, &[1, 9, 2]).eq([0, 2, 4, 1, 3, 5]));
        assert_eq!(offsets(&[0, 2], &[2, 1]).count(), 0);
    }
}
