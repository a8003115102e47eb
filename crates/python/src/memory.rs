//! Memory that arrays and tensors share, so that neither side copies.
//!
//! Relied upon: who gives an array to a model does not write to it until the call returns, as with
//! every library that reads arrays without the interpreter lock. An array that a model gives is
//! the only holder of its tensor's elements, so it may be written to.

use std::ffi::c_int;

use bytes::Bytes;
use numpy::npyffi::{self, NpyTypes, npy_intp};
use numpy::{
    PY_ARRAY_API, PyArrayDescr, PyArrayDescrMethods, PyUntypedArray, PyUntypedArrayMethods,
};
use pyo3::prelude::*;
use tilewright::{DType, Tensor, Update};

/// What keeps the elements of an array alive that a model gave.
#[pyclass(frozen, module = "tilewright._native")]
pub(crate) struct Memory {
    _tensor: Tensor,
}

/// An array whose elements are storage of a tensor; they lie row-major and without gaps.
struct Lent {
    _array: Py<PyUntypedArray>,
    start: *const u8,
    bytes: usize,
}

// SAFETY: the elements belong to the array, which does not move them while it is referred to, and
// to which a reference may be held and dropped by any thread.
unsafe impl Send for Lent {}

impl AsRef<[u8]> for Lent {
    fn as_ref(&self) -> &[u8] {
        if self.bytes == 0 {
            return &[];
        }
        // SAFETY: `start` is the first of `bytes` bytes of the array's elements, which are
        // initialised and live as long as the array.
        unsafe { std::slice::from_raw_parts(self.start, self.bytes) }
    }
}

/// The element type of arrays of NumPy's own types; none of others, and of other byte orders.
pub(crate) fn native_dtype(dtype: &Bound<'_, PyArrayDescr>) -> Option<DType> {
    // Numbers from 24 on are of types that a package added.
    if dtype.num() >= 24 || dtype.is_native_byteorder() == Some(false) {
        return None;
    }
    Some(match (dtype.kind(), dtype.itemsize()) {
        (b'f', 8) => DType::F64,
        (b'f', 4) => DType::F32,
        (b'f', 2) => DType::F16,
        (b'i', 8) => DType::I64,
        (b'i', 4) => DType::I32,
        (b'i', 2) => DType::I16,
        (b'i', 1) => DType::I8,
        (b'u', 8) => DType::U64,
        (b'u', 4) => DType::U32,
        (b'u', 2) => DType::U16,
        (b'u', 1) => DType::U8,
        (b'b', 1) => DType::Bool,
        _ => return None,
    })
}

/// NumPy's type for elements of a type; for those that it does not have, unsigned integers as wide,
/// and bytes for those of less than one.
pub(crate) fn array_dtype(py: Python<'_>, dtype: DType) -> PyResult<Bound<'_, PyArrayDescr>> {
    Ok(match dtype {
        DType::F64 => numpy::dtype::<f64>(py),
        DType::F32 => numpy::dtype::<f32>(py),
        DType::F16 => PyArrayDescr::new(py, "float16")?,
        DType::I64 => numpy::dtype::<i64>(py),
        DType::I32 => numpy::dtype::<i32>(py),
        DType::I16 => numpy::dtype::<i16>(py),
        DType::I8 => numpy::dtype::<i8>(py),
        DType::U64 => numpy::dtype::<u64>(py),
        DType::U32 => numpy::dtype::<u32>(py),
        DType::U16 | DType::BF16 => numpy::dtype::<u16>(py),
        DType::Bool => numpy::dtype::<bool>(py),
        _ => numpy::dtype::<u8>(py),
    })
}

/// The elements of a row-major array without gaps, as storage of a tensor.
pub(crate) fn lend(array: &Bound<'_, PyUntypedArray>) -> Bytes {
    debug_assert!(array.is_c_contiguous());
    let bytes = array.len() * array.dtype().itemsize();
    // SAFETY: the pointer is that of a live array.
    let start = unsafe { (*array.as_array_ptr()).fields.data.cast_const().cast::<u8>() };
    Bytes::from_owner(Lent { _array: array.clone().unbind(), start, bytes })
}

/// Copies a tensor's elements into an array of the same shape, if it is row-major without gaps, may
/// be written to and has elements as wide; whether it did.
pub(crate) fn fill(array: &Bound<'_, PyUntypedArray>, tensor: &Tensor) -> bool {
    let elements = tensor.bytes();
    let bytes = array.len() * array.dtype().itemsize();
    let fits = array.shape() == tensor.shape() && bytes == elements.len();
    // SAFETY: the pointer is that of a live array.
    let writeable = unsafe { (*array.as_array_ptr()).fields.flags } & npyffi::NPY_ARRAY_WRITEABLE;
    if !fits || writeable == 0 || !array.is_c_contiguous() || array.dtype().has_object() {
        return false;
    }
    // SAFETY: the array's elements are as many bytes behind each other, may be written to, and
    // hold no references; `copy` allows for memory that overlaps.
    unsafe {
        let start = (*array.as_array_ptr()).fields.data.cast::<u8>();
        std::ptr::copy(elements.as_ptr(), start, bytes);
    }
    true
}

/// Where an array's elements lie: the first and the one behind the last byte.
fn span(array: &Bound<'_, PyUntypedArray>) -> (usize, usize) {
    // SAFETY: the pointer is that of a live array.
    let start = unsafe { (*array.as_array_ptr()).fields.data } as usize;
    (start, start + array.len() * array.dtype().itemsize())
}

/// Of these pairs, the first of each an array's number, those whose array may be written to, lies
/// row-major without gaps, is in no other pair, and shares no memory with another array.
fn alone(
    arrays: &[Bound<'_, PyUntypedArray>],
    pairs: Vec<(usize, Option<usize>)>,
) -> Vec<(usize, Option<usize>)> {
    let mut spans: Vec<(usize, usize, usize)> = Vec::new();
    for (number, array) in arrays.iter().enumerate() {
        let (start, end) = span(array);
        if start < end {
            spans.push((start, end, number));
        }
    }
    spans.sort_unstable();
    let mut shared = vec![false; arrays.len()];
    let (mut reach, mut farthest) = (0, 0);
    for &(start, end, number) in &spans {
        if start < reach {
            shared[number] = true;
            shared[farthest] = true;
        }
        if end > reach {
            (reach, farthest) = (end, number);
        }
    }
    let mut chosen: Vec<(usize, Option<usize>)> = Vec::new();
    for (input, output) in pairs {
        let Some(array) = arrays.get(input) else { continue };
        // SAFETY: the pointer is that of a live array.
        let flags = unsafe { (*array.as_array_ptr()).fields.flags };
        let is_writeable = flags & npyffi::NPY_ARRAY_WRITEABLE != 0;
        let is_new =
            (chosen.iter()).all(|pair| pair.0 != input && (output.is_none() || pair.1 != output));
        if is_writeable && array.is_c_contiguous() && !shared[input] && is_new {
            chosen.push((input, output));
        }
    }
    chosen
}

/// The outputs that take the place of arrays: of these pairs, an array's number and an output's, if
/// it has one, those whose array no other shares memory with, and which may be written to.
pub(crate) fn updates<'a>(
    arrays: &'a [Bound<'_, PyUntypedArray>],
    pairs: Vec<(usize, Option<usize>)>,
) -> Vec<Update<'a>> {
    let update = |(input, output): (usize, Option<usize>)| {
        // SAFETY: the memory is shared with no other array given, the tensor made of this one is
        // not read, and who gives an array to a model leaves it alone until the call returns.
        let memory = unsafe { elements_mut(&arrays[input]) };
        Update { input, output, memory }
    };
    alone(arrays, pairs).into_iter().map(update).collect()
}

/// The elements of a row-major array without gaps.
///
/// # Safety
/// Nobody else reads or writes them, and the array lives, as long as the slice does.
unsafe fn elements_mut<'a>(array: &Bound<'_, PyUntypedArray>) -> &'a mut [u8] {
    let (start, end) = span(array);
    if start == end {
        return &mut [];
    }
    // SAFETY: the bytes are those of a live array; the rest is what the caller promises.
    unsafe { std::slice::from_raw_parts_mut(start as *mut u8, end - start) }
}

/// An array over the elements of a tensor, which it keeps alive, of this shape and NumPy's type
/// for the tensor's elements. They are copied only where others hold them, too.
pub(crate) fn array_over<'py>(
    py: Python<'py>,
    mut tensor: Tensor,
    shape: &[usize],
) -> PyResult<Bound<'py, PyAny>> {
    let dtype = array_dtype(py, tensor.dtype())?;
    let elements: usize = shape.iter().product();
    assert!(elements * dtype.itemsize() <= tensor.bytes().len(), "an array within its tensor");
    let start = tensor.bytes_mut().as_mut_ptr();
    let owner = Py::new(py, Memory { _tensor: tensor })?;
    let mut extents: Vec<npy_intp> = shape.iter().map(|&extent| extent as npy_intp).collect();
    // SAFETY: `start` is the first of as many bytes as an array of this type and shape takes, as
    // was just checked; NumPy takes over the references to `dtype` and `owner`, and the owner
    // keeps the bytes where they are until the array is gone.
    unsafe {
        let array = PY_ARRAY_API.PyArray_NewFromDescr(
            py,
            npyffi::get_type_object(py, NpyTypes::PyArray_Type),
            dtype.into_dtype_ptr(),
            extents.len() as c_int,
            extents.as_mut_ptr(),
            std::ptr::null_mut(),
            start.cast(),
            npyffi::NPY_ARRAY_CARRAY,
            std::ptr::null_mut(),
        );
        let array = Bound::from_owned_ptr_or_err(py, array)?;
        let status =
            PY_ARRAY_API.PyArray_SetBaseObject(py, array.as_ptr().cast(), owner.into_ptr());
        if status != 0 {
            return Err(PyErr::fetch(py));
        }
        Ok(array)
    }
}
