//! Copies of elements along axes: what `Step::Move` does.

use program::MoveAxis;

/// Copies elements of so many bytes, each at the sum of its steps along the axes.
///
/// # Safety
/// All elements from the first to the last are readable and writable, and what is written is not
/// read.
pub(crate) unsafe fn move_elements(
    from: *const u8,
    to: *mut u8,
    element: usize,
    axes: &[MoveAxis],
) {
    // SAFETY: as the caller promises; sizes that are known while compiling are equal to `element`.
    unsafe {
        match element {
            1 => along::<1>(from, to, element, axes),
            2 => along::<2>(from, to, element, axes),
            4 => along::<4>(from, to, element, axes),
            8 => along::<8>(from, to, element, axes),
            _ => along::<0>(from, to, element, axes),
        }
    }
}

/// Copies elements of `SIZE` bytes, or of `element` where that is 0.
///
/// # Safety
/// As for [`move_elements`].
unsafe fn along<const SIZE: usize>(
    from: *const u8,
    to: *mut u8,
    element: usize,
    axes: &[MoveAxis],
) {
    let bytes = if SIZE == 0 { element } else { SIZE };
    let Some((axis, inner)) = axes.split_first() else {
        // SAFETY: the element is readable and writable, and they are apart.
        unsafe { std::ptr::copy_nonoverlapping(from, to, bytes) };
        return;
    };
    let steps = (axis.from as usize * bytes, axis.to as usize * bytes);
    // SAFETY: no element lies behind the last one of all.
    unsafe {
        match inner {
            [] if steps == (bytes, bytes) => {
                std::ptr::copy_nonoverlapping(from, to, axis.extent as usize * bytes);
            }
            [] => {
                for index in 0..axis.extent as usize {
                    let (from, to) = (from.add(index * steps.0), to.add(index * steps.1));
                    std::ptr::copy_nonoverlapping(from, to, bytes);
                }
            }
            inner => {
                for index in 0..axis.extent as usize {
                    let (from, to) = (from.add(index * steps.0), to.add(index * steps.1));
                    along::<SIZE>(from, to, element, inner);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_go_where_the_axes_say() {
        let axes = [MoveAxis { extent: 3, from: 1, to: 4 }, MoveAxis { extent: 2, from: 3, to: 1 }];
        for element in [1, 2, 3, 4, 8] {
            let from: Vec<u8> = (0..6 * element).map(|byte| byte as u8 + 1).collect();
            let mut to = vec![0; 10 * element];
            // SAFETY: places 0 to 5 are read, 0 to 9 written.
            unsafe { move_elements(from.as_ptr(), to.as_mut_ptr(), element, &axes) };
            let mut wanted = vec![0; 10 * element];
            for (row, column) in (0..3).flat_map(|row| (0..2).map(move |column| (row, column))) {
                let (read, written) = (row + 3 * column, 4 * row + column);
                wanted[written * element..][..element]
                    .copy_from_slice(&from[read * element..][..element]);
            }
            assert_eq!(to, wanted);
        }
    }
}
