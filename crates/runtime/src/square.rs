//! Squares of elements, whose rows have 16 bytes, transposed in registers.
//!
//! Rows that lie half of the square apart are interleaved, element by element, as often as the side
//! can be halved: each time a bit of an element's row and one of its column change places.

#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::{
    __m128i, _mm_unpackhi_epi8, _mm_unpackhi_epi16, _mm_unpackhi_epi32, _mm_unpackhi_epi64,
    _mm_unpacklo_epi8, _mm_unpacklo_epi16, _mm_unpacklo_epi32, _mm_unpacklo_epi64,
};

/// Bytes of a row.
const BYTES: usize = 16;

/// A row.
#[cfg(target_arch = "x86_64")]
type Row = __m128i;
#[cfg(not(target_arch = "x86_64"))]
type Row = [u8; BYTES];

/// Copies a square of elements of a type: rows lie `apart` elements from each other where they are
/// read, columns where `places` says where they are written.
///
/// # Safety
/// All elements are readable and writable, and what is written is not read.
#[inline(always)]
pub(crate) unsafe fn transpose<T: Copy, const SIDE: usize>(
    places: &[usize; SIDE],
    apart: usize,
    from: *const T,
    to: *mut T,
) {
    const { assert!(SIDE * size_of::<T>() == BYTES) };
    // SAFETY: the rows are readable; any bytes are a row.
    let row = |number: usize| unsafe { from.add(number * apart).cast::<Row>().read_unaligned() };
    let mut rows: [Row; SIDE] = std::array::from_fn(row);
    for _ in 0..SIDE.ilog2() {
        let before = rows;
        for pair in 0..SIDE / 2 {
            let both = interleaved::<T>(before[pair], before[pair + SIDE / 2]);
            [rows[2 * pair], rows[2 * pair + 1]] = both;
        }
    }
    for (column, &place) in rows.into_iter().zip(places) {
        // SAFETY: the column is writable.
        unsafe { to.add(place).cast::<Row>().write_unaligned(column) };
    }
}

/// The elements of two rows by turns.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn interleaved<T>(a: Row, b: Row) -> [Row; 2] {
    // SAFETY: every processor of this architecture has these instructions.
    unsafe {
        match size_of::<T>() {
            1 => [_mm_unpacklo_epi8(a, b), _mm_unpackhi_epi8(a, b)],
            2 => [_mm_unpacklo_epi16(a, b), _mm_unpackhi_epi16(a, b)],
            4 => [_mm_unpacklo_epi32(a, b), _mm_unpackhi_epi32(a, b)],
            _ => [_mm_unpacklo_epi64(a, b), _mm_unpackhi_epi64(a, b)],
        }
    }
}

/// The elements of two rows by turns.
#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
fn interleaved<T>(a: Row, b: Row) -> [Row; 2] {
    let byte = |at: usize| {
        let (element, byte) = (at / size_of::<T>(), at % size_of::<T>());
        let of = if element % 2 == 0 { a } else { b };
        of[element / 2 * size_of::<T>() + byte]
    };
    [0, BYTES].map(|start| std::array::from_fn(|at| byte(start + at)))
}
