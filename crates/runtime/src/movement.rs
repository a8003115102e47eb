//! Copies of elements along axes: what `Step::Move` does.
//!
//! Where one axis is contiguous in what is read and another one in what is written, blocks of
//! [`ROWS`] cache lines are transposed square by square:
//!
//! ```text
//! read    c0 c1 c2 ...        written   r0c0 r1c0 r2c0 ...
//!   r0    ------------>                 r0c1 r1c1 r2c1 ...
//!   r1    ------------>                 r0c2 r1c2 r2c2 ...
//! ```

use program::MoveAxis;

use crate::square::transpose;

/// Bytes of a cache line: so many are read of each row of a block at once.
const LINE: usize = 64;

/// Rows of a block. What is written of their lines stays in a first-level cache until lines are
/// whole.
const ROWS: usize = 256;

/// A [`MoveAxis`] in the machine's word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Axis {
    extent: usize,
    from: usize,
    to: usize,
}

impl From<&MoveAxis> for Axis {
    fn from(axis: &MoveAxis) -> Axis {
        Axis { extent: axis.extent as usize, from: axis.from as usize, to: axis.to as usize }
    }
}

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
    let mut axes: Vec<Axis> = axes.iter().map(Axis::from).collect();
    // SAFETY: as the caller promises; the types have `element` bytes.
    unsafe {
        match element {
            1 => move_all::<u8, 16>(from, to, axes),
            2 => move_all::<u16, 8>(from, to, axes),
            4 => move_all::<u32, 4>(from, to, axes),
            8 => move_all::<u64, 2>(from, to, axes),
            _ => {
                let bytes = Axis { extent: element, from: 1, to: 1 };
                axes.iter_mut().for_each(|axis| {
                    axis.from *= element;
                    axis.to *= element;
                });
                axes.push(bytes);
                move_all::<u8, 16>(from, to, axes);
            }
        }
    }
}

/// Copies elements of a type, which need not be aligned, and of which 16 bytes hold `SIDE`.
///
/// # Safety
/// As for [`move_elements`].
unsafe fn move_all<T: Copy, const SIDE: usize>(from: *const u8, to: *mut u8, axes: Vec<Axis>) {
    let (from, to) = (from.cast::<T>(), to.cast::<T>());
    let axes = merged(axes);
    // SAFETY: as the caller promises; merged axes lead to the same elements.
    unsafe {
        match Blocks::of(&axes) {
            Some(blocks) => blocks.move_outer::<T, SIDE>(&blocks.outer, from, to),
            None => along(&axes, from, to),
        }
    }
}

/// The same axes without those of one element, and with one in the place of two of which the
/// inner one ends where the outer one goes on.
fn merged(axes: Vec<Axis>) -> Vec<Axis> {
    let mut merged: Vec<Axis> = Vec::with_capacity(axes.len());
    for axis in axes.into_iter().filter(|axis| axis.extent != 1) {
        let goes_on = |outer: &&mut Axis| {
            outer.from == axis.from * axis.extent && outer.to == axis.to * axis.extent
        };
        match merged.last_mut().filter(goes_on) {
            Some(outer) => *outer = Axis { extent: outer.extent * axis.extent, ..axis },
            None => merged.push(axis),
        }
    }
    merged
}

/// Copies element by element, or run by run where the innermost axis is contiguous on both sides.
///
/// # Safety
/// As for [`move_elements`].
unsafe fn along<T: Copy>(axes: &[Axis], from: *const T, to: *mut T) {
    let Some((axis, inner)) = axes.split_first() else {
        // SAFETY: the element is readable and writable.
        unsafe { to.write_unaligned(from.read_unaligned()) };
        return;
    };
    // SAFETY: no element lies behind the last one of all.
    unsafe {
        match (inner, axis.from, axis.to) {
            ([], 1, 1) => {
                let bytes = axis.extent * size_of::<T>();
                std::ptr::copy_nonoverlapping(from.cast::<u8>(), to.cast::<u8>(), bytes);
            }
            ([], 0, 1) => {
                let element = from.read_unaligned();
                for index in 0..axis.extent {
                    to.add(index).write_unaligned(element);
                }
            }
            ([], ..) => runs::<T, T>(*axis, from, to),
            // A run of few bytes is one element, wherever it lies.
            ([Axis { extent, from: 1, to: 1 }], ..)
                if [2, 4, 8, 16].contains(&(extent * size_of::<T>())) =>
            {
                match extent * size_of::<T>() {
                    2 => runs::<T, u16>(*axis, from, to),
                    4 => runs::<T, u32>(*axis, from, to),
                    8 => runs::<T, u64>(*axis, from, to),
                    _ => runs::<T, u128>(*axis, from, to),
                }
            }
            _ => {
                for index in 0..axis.extent {
                    let (from, to) = (from.add(index * axis.from), to.add(index * axis.to));
                    along(inner, from, to);
                }
            }
        }
    }
}

/// Copies runs along an axis, each of as many bytes as an `R` has.
///
/// # Safety
/// As for [`move_elements`].
unsafe fn runs<T, R: Copy>(axis: Axis, from: *const T, to: *mut T) {
    for index in 0..axis.extent {
        // SAFETY: the run is within what is moved.
        unsafe {
            let run = from.add(index * axis.from).cast::<R>().read_unaligned();
            to.add(index * axis.to).cast::<R>().write_unaligned(run);
        }
    }
}

/// A movement in blocks: rows are contiguous where they are read, columns where they are written.
struct Blocks {
    /// Where each element of a row goes, in elements from where the first one goes.
    places: Vec<usize>,
    /// The rows: how many, and how far apart they are read. They are written side by side.
    rows: Axis,
    /// All other axes, outermost first.
    outer: Vec<Axis>,
}

impl Blocks {
    /// The movement in blocks, if some axes are contiguous where they are read and another one
    /// where it is written.
    fn of(axes: &[Axis]) -> Option<Blocks> {
        let rows = *axes.iter().find(|axis| axis.to == 1 && axis.from != 1)?;
        let mut outer: Vec<Axis> = axes.iter().copied().filter(|axis| *axis != rows).collect();
        let mut places = vec![0];
        // Each axis that begins where the row read so far ends makes it longer.
        while let Some(next) = outer.iter().position(|axis| axis.from == places.len()) {
            let axis = outer.remove(next);
            let starts = (0..axis.extent).map(|index| index * axis.to);
            places =
                starts.flat_map(|start| places.iter().map(move |place| start + place)).collect();
        }
        (places.len() > 1).then_some(Blocks { places, rows, outer })
    }

    /// # Safety
    /// As for [`move_elements`].
    unsafe fn move_outer<T: Copy, const SIDE: usize>(
        &self,
        outer: &[Axis],
        from: *const T,
        to: *mut T,
    ) {
        let Some((axis, inner)) = outer.split_first() else {
            // SAFETY: as the caller promises.
            unsafe { self.move_rows::<T, SIDE>(from, to) };
            return;
        };
        for index in 0..axis.extent {
            // SAFETY: no element lies behind the last one of all.
            unsafe {
                let (from, to) = (from.add(index * axis.from), to.add(index * axis.to));
                self.move_outer::<T, SIDE>(inner, from, to);
            }
        }
    }

    /// # Safety
    /// As for [`move_elements`].
    unsafe fn move_rows<T: Copy, const SIDE: usize>(&self, from: *const T, to: *mut T) {
        let (count, apart) = (self.rows.extent, self.rows.from);
        let line = LINE / size_of::<T>();
        for first in (0..count).step_by(ROWS) {
            let rows = ROWS.min(count - first);
            let (from, to) = (from.wrapping_add(first * apart), to.wrapping_add(first));
            // Along the rows, which the processor then fetches ahead.
            for (number, places) in self.places.chunks(line).enumerate() {
                let from = from.wrapping_add(number * line);
                // SAFETY: the block's elements are among those of the movement.
                unsafe { move_block::<T, SIDE>(places, (rows, apart), from, to) };
            }
        }
    }
}

/// Transposes a block of so many rows, so far apart where they are read: squares, and element by
/// element what these leave.
///
/// # Safety
/// Its elements are readable and writable, and what is written is not read.
unsafe fn move_block<T: Copy, const SIDE: usize>(
    places: &[usize],
    (rows, apart): (usize, usize),
    from: *const T,
    to: *mut T,
) {
    let (squares, rest) = places.as_chunks::<SIDE>();
    let whole = rows / SIDE * SIDE;
    for row in (0..whole).step_by(SIDE) {
        let (from, to) = (from.wrapping_add(row * apart), to.wrapping_add(row));
        for (number, places) in squares.iter().enumerate() {
            // SAFETY: the square is a part of the block.
            unsafe { transpose(places, apart, from.add(number * SIDE), to) };
        }
    }
    let first = if rest.is_empty() { whole } else { 0 };
    for row in first..rows {
        let done = if row < whole { places.len() - rest.len() } else { 0 };
        for (number, &place) in places.iter().enumerate().skip(done) {
            // SAFETY: the element is one of the block.
            unsafe {
                let element = from.add(row * apart + number).read_unaligned();
                to.add(place + row).write_unaligned(element);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Moves as the axes say, one element after the other.
    fn slowly(from: &[u8], to: &mut [u8], element: usize, axes: &[MoveAxis]) {
        let Some((axis, inner)) = axes.split_first() else {
            to[..element].copy_from_slice(&from[..element]);
            return;
        };
        for index in 0..axis.extent as usize {
            let (read, written) = (index * axis.from as usize, index * axis.to as usize);
            slowly(&from[read * element..], &mut to[written * element..], element, inner);
        }
    }

    fn check(axes: &[MoveAxis]) {
        let last = |step: fn(&MoveAxis) -> u32| -> usize {
            axes.iter().map(|axis| (axis.extent as usize - 1) * step(axis) as usize).sum()
        };
        let (read, written) = (last(|axis| axis.from) + 1, last(|axis| axis.to) + 1);
        for element in [1, 2, 3, 4, 8] {
            let from: Vec<u8> = (0..read * element).map(|byte| (byte % 251) as u8 + 1).collect();
            let (mut to, mut wanted) = (vec![0; written * element], vec![0; written * element]);
            // SAFETY: both have room for the last element.
            unsafe { move_elements(from.as_ptr(), to.as_mut_ptr(), element, axes) };
            slowly(&from, &mut wanted, element, axes);
            assert_eq!(to, wanted, "elements of {element} bytes over {axes:?}");
        }
    }

    fn axes<const RANK: usize>(axes: [(u32, u32, u32); RANK]) -> [MoveAxis; RANK] {
        axes.map(|(extent, from, to)| MoveAxis { extent, from, to })
    }

    #[test]
    fn elements_go_where_the_axes_say() {
        check(&axes([(3, 1, 4), (2, 3, 1)]));
        check(&[]);
        check(&axes([(5, 2, 3)]));
        check(&axes([(4, 10, 8), (2, 5, 4), (4, 1, 1)]));
    }

    #[test]
    fn short_runs_are_elements() {
        for extent in [2, 4, 5, 8, 16] {
            // Blocks of quantised weights to panels, and rows that lie closer than they are long.
            check(&axes([(3, 400, 90), (5, 18, extent), (extent, 1, 1)]));
            check(&axes([(7, 3, extent), (extent, 1, 1)]));
        }
    }

    #[test]
    fn blocks_and_their_remainders() {
        // Panels of 32 columns, the last of 8; kernels of 3 by 3 to channels innermost.
        check(&axes([(2, 32 * 37, 32 * 37), (37, 1, 32), (32, 37, 1)]));
        check(&axes([(37, 1, 32), (8, 37, 1)]));
        check(&axes([(3, 3, 3 * 20 * 40), (3, 1, 20 * 40), (20, 9, 40), (40, 180, 1)]));
        check(&axes([(9, 1, 50), (50, 9, 1)]));
        // A gap between the rows that are read, and another axis around both.
        check(&axes([(20, 1, 33), (33, 25, 1)]));
        check(&axes([(3, 1000, 700), (20, 1, 33), (33, 25, 1)]));
        // More rows than a block has, of more than a line.
        check(&axes([(70, 1, 530), (517, 71, 1)]));
        check(&axes([(11, 1, 300), (2, 11, 11 * 300), (300, 22, 1)]));
    }

    #[test]
    fn one_element_fills() {
        check(&axes([(4, 0, 20), (17, 0, 1)]));
        check(&axes([(4, 1, 20), (17, 0, 1)]));
    }
}
