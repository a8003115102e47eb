//! The bytes behind a tensor, and the element types that can be read from them in place.
//!
//! Owned bytes start at a multiple of [`ALIGNMENT`] and are zero at first. Shared bytes (a slice of
//! a mapped file) lie where they lie, so typed views of them may have to copy. Copies of a storage
//! are cheap; writing to one that is shared makes it unique first.
//!
//! With `mapped` and `fused`, this is the only file of the crate with `unsafe` in it.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::borrow::Cow;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::sync::Arc;

use bytes::Bytes;

use crate::dtype::DType;

/// Owned storage starts at a multiple of this many bytes: a cache line, and a widest vector.
pub const ALIGNMENT: usize = 64;

/// What a tensor's elements lie in.
#[derive(Clone)]
pub(crate) enum Storage {
    Owned(Arc<AlignedBytes>),
    Shared(Bytes),
    Strings(Arc<Vec<String>>),
}

impl Storage {
    pub(crate) fn zeros(size: usize) -> Storage {
        Storage::Owned(Arc::new(AlignedBytes::zeros(size)))
    }

    /// The bytes; none for strings.
    pub(crate) fn bytes(&self) -> &[u8] {
        match self {
            Storage::Owned(bytes) => bytes,
            Storage::Shared(bytes) => bytes,
            Storage::Strings(_) => &[],
        }
    }

    /// Whether nobody else holds the bytes.
    pub(crate) fn is_unique(&mut self) -> bool {
        match self {
            Storage::Owned(bytes) => Arc::get_mut(bytes).is_some(),
            Storage::Shared(_) | Storage::Strings(_) => false,
        }
    }

    /// The bytes to write to, copied first if anyone else holds them.
    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        if let Storage::Shared(bytes) = self {
            *self = Storage::Owned(Arc::new(AlignedBytes::copy(bytes)));
        }
        match self {
            Storage::Owned(bytes) => Arc::<AlignedBytes>::make_mut(bytes),
            Storage::Shared(_) | Storage::Strings(_) => &mut [],
        }
    }
}

/// Something that is aligned so.
#[repr(align(64))]
struct Line;

const _: () = assert!(align_of::<Line>() == ALIGNMENT);

/// What any allocation is aligned to on the systems that we run on.
const NATURAL: usize = 16;

/// Owned bytes at a multiple of [`ALIGNMENT`].
pub(crate) struct AlignedBytes {
    /// Dangling when `size` is 0, else an allocation of `layout(size)`, all initialised.
    ///
    /// It is a little longer than the bytes, which begin at its first multiple of [`ALIGNMENT`]:
    /// where more than their natural alignment is asked for, allocators leave holes that they do
    /// not fill again, and write zeros where the system gives pages of them.
    allocation: NonNull<u8>,
    size: usize,
}

// SAFETY: an `AlignedBytes` alone owns its allocation, as a `Vec<u8>` does.
unsafe impl Send for AlignedBytes {}
// SAFETY: shared references only read.
unsafe impl Sync for AlignedBytes {}

impl AlignedBytes {
    fn layout(size: usize) -> Layout {
        let size_with_room = size.saturating_add(ALIGNMENT - NATURAL);
        match Layout::from_size_align(size_with_room, NATURAL) {
            Ok(layout) => layout,
            Err(_) => panic!("a tensor of {size} bytes does not fit the address space"),
        }
    }

    pub(crate) fn zeros(size: usize) -> AlignedBytes {
        if size == 0 {
            return AlignedBytes { allocation: NonNull::dangling(), size };
        }
        let layout = AlignedBytes::layout(size);
        AlignedBytes::try_zeros(size).unwrap_or_else(|| handle_alloc_error(layout))
    }

    /// As [`AlignedBytes::zeros`]; none if the system does not give the memory.
    pub(crate) fn try_zeros(size: usize) -> Option<AlignedBytes> {
        if size == 0 {
            return Some(AlignedBytes::zeros(0));
        }
        // SAFETY: the layout's size is not zero.
        let allocation = unsafe { alloc_zeroed(AlignedBytes::layout(size)) };
        NonNull::new(allocation).map(|allocation| AlignedBytes { allocation, size })
    }

    /// The first byte.
    fn start(&self) -> NonNull<u8> {
        let address = self.allocation.addr().get();
        let before = address.next_multiple_of(ALIGNMENT) - address;
        match self.size {
            0 => NonNull::<Line>::dangling().cast(),
            // SAFETY: the allocation is at a multiple of `NATURAL` and longer than the bytes by the
            // rest of `ALIGNMENT`.
            _ => unsafe { self.allocation.add(before) },
        }
    }

    pub(crate) fn copy(source: &[u8]) -> AlignedBytes {
        let mut bytes = AlignedBytes::zeros(source.len());
        bytes.copy_from_slice(source);
        bytes
    }
}

impl Clone for AlignedBytes {
    fn clone(&self) -> Self {
        AlignedBytes::copy(self)
    }
}

impl Drop for AlignedBytes {
    fn drop(&mut self) {
        if self.size != 0 {
            // SAFETY: the pointer came from the allocator with this very layout.
            unsafe { dealloc(self.allocation.as_ptr(), AlignedBytes::layout(self.size)) }
        }
    }
}

impl Deref for AlignedBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: `size` initialised bytes follow; with none, dangling will do.
        unsafe { std::slice::from_raw_parts(self.start().as_ptr(), self.size) }
    }
}

impl DerefMut for AlignedBytes {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `deref`, and the reference is unique.
        unsafe { std::slice::from_raw_parts_mut(self.start().as_ptr(), self.size) }
    }
}

/// A Rust type that is an element type's representation in memory.
///
/// # Safety
/// The type is plain data without padding, of `DTYPE.bytes()` bytes, and every element whose bytes
/// [`Element::is_valid`] accepts is a value of the type.
pub unsafe trait Element: Copy + PartialEq + Send + Sync + 'static {
    /// The element type.
    const DTYPE: DType;

    /// Whether all of these elements' bytes are values of the type.
    fn is_valid(_bytes: &[u8]) -> bool {
        true
    }

    /// The value of one element's bytes, which need be neither aligned nor valid.
    fn from_bytes(bytes: &[u8]) -> Self;
}

macro_rules! elements {
    ($($type:ty: $dtype:ident),* $(,)?) => {$(
        // SAFETY: a number without padding, of any bit pattern.
        unsafe impl Element for $type {
            const DTYPE: DType = DType::$dtype;

            fn from_bytes(bytes: &[u8]) -> Self {
                let mut own = [0; size_of::<$type>()];
                own.copy_from_slice(bytes);
                <$type>::from_le_bytes(own)
            }
        }
    )*};
}

elements! {
    f64: F64, f32: F32,
    i64: I64, i32: I32, i16: I16, i8: I8, u64: U64, u32: U32, u16: U16, u8: U8,
}

#[cfg(any(feature = "half", test))]
elements! { half::f16: F16, half::bf16: BF16 }

// SAFETY: a byte, accepted only if it is 0 or 1.
unsafe impl Element for bool {
    const DTYPE: DType = DType::Bool;

    fn is_valid(bytes: &[u8]) -> bool {
        bytes.iter().all(|&byte| byte <= 1)
    }

    fn from_bytes(bytes: &[u8]) -> Self {
        bytes.iter().any(|&byte| byte != 0)
    }
}

/// The elements in these bytes: in place if they are aligned and valid, else a copy.
pub(crate) fn view<T: Element>(bytes: &[u8]) -> Cow<'_, [T]> {
    let size = size_of::<T>();
    if bytes.as_ptr().addr().is_multiple_of(align_of::<T>()) && T::is_valid(bytes) {
        // SAFETY: aligned and valid, as just checked; `len / size` elements lie within the bytes,
        // and no byte of an element is uninitialised.
        return Cow::Borrowed(unsafe {
            std::slice::from_raw_parts(bytes.as_ptr().cast::<T>(), bytes.len() / size)
        });
    }
    Cow::Owned(bytes.chunks_exact(size).map(T::from_bytes).collect())
}

/// The elements in these bytes, to write to; bytes that are not valid are made so.
///
/// # Panics
/// When the bytes are not aligned, which owned ones are.
pub(crate) fn view_mut<T: Element>(bytes: &mut [u8]) -> &mut [T] {
    let size = size_of::<T>();
    assert!(bytes.as_ptr().addr().is_multiple_of(align_of::<T>()), "owned bytes are aligned");
    if !T::is_valid(bytes) {
        for element in bytes.chunks_exact_mut(size) {
            let value = T::from_bytes(element);
            element.copy_from_slice(bytes_of(&[value]));
        }
    }
    // SAFETY: aligned as just checked, valid as just made, and the reference is unique.
    unsafe { std::slice::from_raw_parts_mut(bytes.as_mut_ptr().cast::<T>(), bytes.len() / size) }
}

/// The bytes of elements.
pub(crate) fn bytes_of<T: Element>(elements: &[T]) -> &[u8] {
    // SAFETY: an element has no padding, so all its bytes are initialised.
    unsafe {
        std::slice::from_raw_parts(elements.as_ptr().cast::<u8>(), std::mem::size_of_val(elements))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn owned_bytes_are_aligned_and_zero() {
        for size in [0, 1, 63, 64, 1000] {
            let bytes = AlignedBytes::zeros(size);
            assert_eq!(bytes.len(), size);
            assert!(bytes.iter().all(|&byte| byte == 0));
            assert!(bytes.as_ptr().addr().is_multiple_of(ALIGNMENT));
        }
    }

    #[test]
    fn writing_leaves_the_other_holder_alone() {
        let mut first = Storage::Shared(Bytes::from_static(&[1, 2, 3]));
        let mut second = first.clone();
        first.bytes_mut()[0] = 9;
        let third = first.clone();
        first.bytes_mut()[1] = 9;
        assert_eq!(first.bytes(), [9, 9, 3]);
        assert_eq!(second.bytes_mut(), [1, 2, 3]);
        assert_eq!(third.bytes(), [9, 2, 3]);
    }

    #[test]
    fn misaligned_views_copy() {
        let bytes = AlignedBytes::copy(&[0, 1, 0, 0, 0, 2, 0, 0, 0]);
        assert!(matches!(view::<i32>(&bytes[1..]), Cow::Owned(values) if values == [1, 2]));
        assert!(matches!(view::<i32>(&bytes[..4]), Cow::Borrowed([256])));
    }

    #[test]
    fn odd_booleans_read_as_true() {
        let mut bytes = AlignedBytes::copy(&[0, 1, 7]);
        assert_eq!(&view::<bool>(&bytes)[..], [false, true, true]);
        assert_eq!(view_mut::<bool>(&mut bytes), [false, true, true]);
        assert_eq!(&bytes[..], [0, 1, 1]);
    }
}
