//! Host tensors: an element type, a shape, and dense row-major elements.
//!
//! Invariants: the storage holds exactly the elements of the shape; a shape with a zero is empty,
//! an empty shape has one element; unused bits of the last byte of sub-byte elements mean nothing.
//! Clones share their storage until one of them is written to.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use base::{Diagnostic, Result, codes};
use bytes::Bytes;

use crate::dtype::DType;
use crate::minifloat;
use crate::scalar::Scalar;
use crate::storage::{AlignedBytes, Element, Storage, bytes_of, view, view_mut};

/// A dense row-major tensor in host memory.
#[derive(Clone)]
pub struct Tensor {
    dtype: DType,
    shape: Vec<usize>,
    count: usize,
    storage: Storage,
}

/// The number of elements of a shape, or `None` on overflow.
pub fn element_count(shape: &[usize]) -> Option<usize> {
    if shape.contains(&0) {
        return Some(0);
    }
    shape.iter().try_fold(1usize, |count, &extent| count.checked_mul(extent))
}

/// The bytes that a dense tensor takes, or `None` on overflow.
pub fn byte_size(dtype: DType, shape: &[usize]) -> Option<usize> {
    dtype.size_of_elements(element_count(shape)?)
}

fn checked_count(dtype: DType, shape: &[usize]) -> usize {
    let fits = |count: &usize| dtype.size_of_elements(*count).is_some();
    match element_count(shape).filter(fits) {
        Some(count) => count,
        None => panic!("a tensor {dtype}{shape:?} does not fit the address space"),
    }
}

impl Tensor {
    /// A tensor of zeros, of `false`, or of empty strings.
    ///
    /// # Panics
    /// When the tensor does not fit the address space; see [`byte_size`].
    pub fn zeros(dtype: DType, shape: &[usize]) -> Tensor {
        let count = checked_count(dtype, shape);
        let storage = match dtype.size_of_elements(count) {
            _ if dtype == DType::String => Storage::Strings(Arc::new(vec![String::new(); count])),
            size => Storage::zeros(size.unwrap_or(0)),
        };
        Tensor { dtype, shape: shape.to_vec(), count, storage }
    }

    /// As [`Tensor::zeros`]; none if the system does not give the memory.
    ///
    /// # Panics
    /// As [`Tensor::zeros`].
    pub fn try_zeros(dtype: DType, shape: &[usize]) -> Option<Tensor> {
        let count = checked_count(dtype, shape);
        let Some(size) = dtype.size_of_elements(count).filter(|_| dtype != DType::String) else {
            return Some(Tensor::zeros(dtype, shape));
        };
        let storage = Storage::Owned(Arc::new(AlignedBytes::try_zeros(size)?));
        Some(Tensor { dtype, shape: shape.to_vec(), count, storage })
    }

    /// A tensor whose elements are all `value`.
    ///
    /// # Panics
    /// As [`Tensor::zeros`].
    pub fn splat(shape: &[usize], value: Scalar) -> Tensor {
        let mut tensor = Tensor::zeros(value.dtype(), shape);
        if value.bits() != 0 {
            for index in 0..tensor.len() {
                tensor.set_scalar(index, value);
            }
        }
        tensor
    }

    /// A tensor without axes.
    pub fn scalar(value: Scalar) -> Tensor {
        Tensor::splat(&[], value)
    }

    /// A tensor of these elements.
    ///
    /// # Panics
    /// When their number is not that of the shape.
    pub fn from_vec<T: Element>(shape: &[usize], values: Vec<T>) -> Tensor {
        Tensor::from_slice(shape, &values)
    }

    /// A tensor of these elements.
    ///
    /// # Panics
    /// When their number is not that of the shape.
    pub fn from_slice<T: Element>(shape: &[usize], values: &[T]) -> Tensor {
        let count = checked_count(T::DTYPE, shape);
        assert_eq!(values.len(), count, "elements of a tensor of shape {shape:?}");
        let storage = Storage::Owned(Arc::new(AlignedBytes::copy(bytes_of(values))));
        Tensor { dtype: T::DTYPE, shape: shape.to_vec(), count, storage }
    }

    /// A tensor of these elements, each of type `dtype`.
    ///
    /// # Panics
    /// When their number is not that of the shape, or one is of another type.
    pub fn from_scalars(dtype: DType, shape: &[usize], values: &[Scalar]) -> Tensor {
        let mut tensor = Tensor::zeros(dtype, shape);
        assert_eq!(values.len(), tensor.len(), "elements of a tensor of shape {shape:?}");
        for (index, value) in values.iter().enumerate() {
            tensor.set_scalar(index, *value);
        }
        tensor
    }

    /// A tensor of strings.
    ///
    /// # Panics
    /// When their number is not that of the shape.
    pub fn from_strings(shape: &[usize], values: Vec<String>) -> Tensor {
        let count = checked_count(DType::String, shape);
        assert_eq!(values.len(), count, "elements of a tensor of shape {shape:?}");
        let storage = Storage::Strings(Arc::new(values));
        Tensor { dtype: DType::String, shape: shape.to_vec(), count, storage }
    }

    /// A tensor over shared bytes, which are not copied. A truth value is a byte of 0 or 1; bytes
    /// of truth values among which others are become ones of the tensor's own, in which all but 0
    /// are 1: code combines their bits.
    ///
    /// # Errors
    /// A sentence when the shape overflows, the type is string, or the number of bytes is not that
    /// of the shape.
    pub fn from_bytes(
        dtype: DType,
        shape: &[usize],
        bytes: Bytes,
    ) -> std::result::Result<Tensor, String> {
        if dtype == DType::String {
            return Err("a tensor of strings cannot be made of bytes".to_owned());
        }
        let (Some(count), Some(size)) = (element_count(shape), byte_size(dtype, shape)) else {
            return Err(format!("a tensor {dtype}{shape:?} does not fit the address space"));
        };
        if bytes.len() != size {
            let given = bytes.len();
            return Err(format!("a tensor {dtype}{shape:?} takes {size} bytes, not {given}"));
        }
        let bytes = match dtype == DType::Bool && bytes.iter().any(|&byte| byte > 1) {
            true => bytes.iter().map(|&byte| u8::from(byte != 0)).collect::<Vec<u8>>().into(),
            false => bytes,
        };
        Ok(Tensor { dtype, shape: shape.to_vec(), count, storage: Storage::Shared(bytes) })
    }

    /// The element type.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// The extent of each axis, outermost first.
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// The number of elements.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The same elements under another shape; nothing is copied.
    ///
    /// # Panics
    /// When the number of elements differs.
    pub fn reshape(&self, shape: &[usize]) -> Tensor {
        let same = element_count(shape) == Some(self.count);
        assert!(same, "{:?} does not reshape to {shape:?}", self.shape);
        Tensor { shape: shape.to_vec(), ..self.clone() }
    }

    /// The bytes of the elements, little-endian and packed; none for strings.
    pub fn bytes(&self) -> &[u8] {
        self.storage.bytes()
    }

    /// The bytes as a tensor of rank 1, sharing the storage.
    pub fn packed_bytes(&self) -> Tensor {
        let count = self.bytes().len();
        Tensor { dtype: DType::U8, shape: vec![count], count, storage: self.storage.clone() }
    }

    /// The bytes to write to, aligned to [`crate::storage::ALIGNMENT`]; copied first if shared.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        self.storage.bytes_mut()
    }

    /// Whether it can be written to without a copy: no other tensor has its elements.
    pub fn owns_elements(&mut self) -> bool {
        self.storage.is_unique()
    }

    /// The elements, if `T` is their type: in place, or copied if the bytes are not aligned.
    pub fn as_slice<T: Element>(&self) -> Option<Cow<'_, [T]>> {
        (T::DTYPE == self.dtype).then(|| view(self.bytes()))
    }

    /// A copy of the elements, which are of type `T`.
    ///
    /// # Errors
    /// `TW0203` if they are of another; [`Tensor::cast`] converts them.
    pub fn to_vec<T: Element>(&self) -> Result<Vec<T>> {
        self.as_slice().map(Cow::into_owned).ok_or_else(|| self.is_not(T::DTYPE).into())
    }

    /// The refusal of elements of another type than those that are asked for.
    pub(crate) fn is_not(&self, wanted: DType) -> Diagnostic {
        let own = self.dtype;
        Diagnostic::error(codes::WRONG_DTYPE, format!("the tensor's elements are of type {own}"))
            .because(format!("elements of type {wanted} are asked for"))
            .remedy(format!("ask for {own}, or convert the tensor to {wanted} first"))
    }

    /// The elements to write to, if `T` is their type; copied first if shared.
    pub fn as_mut_slice<T: Element>(&mut self) -> Option<&mut [T]> {
        (T::DTYPE == self.dtype).then(|| view_mut(self.bytes_mut()))
    }

    /// The elements of a tensor of strings, to change; copied first if shared.
    pub(crate) fn strings_mut(&mut self) -> Option<&mut [String]> {
        match &mut self.storage {
            Storage::Strings(strings) => Some(Arc::<Vec<String>>::make_mut(strings)),
            Storage::Owned(_) | Storage::Shared(_) => None,
        }
    }

    /// The elements of a tensor of strings.
    pub fn strings(&self) -> Option<&[String]> {
        match &self.storage {
            Storage::Strings(strings) => Some(strings),
            Storage::Owned(_) | Storage::Shared(_) => None,
        }
    }

    /// The element at a row-major index.
    ///
    /// # Panics
    /// When the index is out of range or the elements are strings.
    pub fn get_scalar(&self, index: usize) -> Scalar {
        self.check_index(index);
        let bits = self.dtype.bits() as usize;
        let bytes = self.bytes();
        if bits < 8 {
            let per_byte = self.dtype.per_byte();
            let byte = bytes[index / per_byte];
            return Scalar::from_bits(self.dtype, u64::from(byte >> (index % per_byte * bits)));
        }
        let size = bits / 8;
        let mut element = [0; 8];
        element[..size].copy_from_slice(&bytes[index * size..][..size]);
        Scalar::from_bits(self.dtype, u64::from_le_bytes(element))
    }

    /// Writes the element at a row-major index.
    ///
    /// # Panics
    /// When the index is out of range or the scalar is of another type.
    pub fn set_scalar(&mut self, index: usize, value: Scalar) {
        self.check_index(index);
        assert_eq!(value.dtype(), self.dtype, "the type of a tensor's element");
        let bits = self.dtype.bits() as usize;
        let bytes = self.storage.bytes_mut();
        if bits < 8 {
            let per_byte = self.dtype.per_byte();
            let shift = index % per_byte * bits;
            let mask = ((1u8 << bits) - 1) << shift;
            let byte = &mut bytes[index / per_byte];
            *byte = *byte & !mask | (value.bits() as u8) << shift;
            return;
        }
        let size = bits / 8;
        bytes[index * size..][..size].copy_from_slice(&value.bits().to_le_bytes()[..size]);
    }

    fn check_index(&self, index: usize) {
        let (count, shape) = (self.count, &self.shape);
        assert!(index < count, "element {index} of {count} of a tensor of shape {shape:?}");
        assert!(self.dtype != DType::String, "a string is not a scalar");
    }

    /// The value of the element at a row-major index; see [`Scalar::as_f64`].
    ///
    /// # Panics
    /// As [`Tensor::get_scalar`].
    pub fn get_f64(&self, index: usize) -> f64 {
        self.get_scalar(index).as_f64()
    }

    /// The elements in row-major order.
    ///
    /// # Panics
    /// When taken from a tensor of strings.
    pub fn scalars(&self) -> impl ExactSizeIterator<Item = Scalar> + '_ {
        (0..self.count).map(|index| self.get_scalar(index))
    }

    /// The values of all elements; see [`Scalar::as_f64`].
    ///
    /// # Panics
    /// When the elements are strings.
    pub fn to_f64_vec(&self) -> Vec<f64> {
        match self.dtype {
            DType::F64 => view::<f64>(self.bytes()).into_owned(),
            DType::F32 => view::<f32>(self.bytes()).iter().map(|&value| value.into()).collect(),
            _ => self.scalars().map(Scalar::as_f64).collect(),
        }
    }

    /// The elements in another type, each as [`Scalar::cast`] has it.
    ///
    /// # Panics
    /// When one of the types is string and the other is not.
    pub fn cast(&self, dtype: DType) -> Tensor {
        if dtype == self.dtype {
            return self.clone();
        }
        // The usual conversions of weights in one loop; the rest one scalar at a time.
        match (self.dtype, dtype) {
            (DType::F16, DType::F32) => return self.widened(minifloat::f16_to_f32),
            (DType::BF16, DType::F32) => return self.widened(minifloat::bf16_to_f32),
            (DType::F64, DType::F32) => return self.convert(|value: f64| value as f32),
            (DType::F32, DType::F64) => return self.convert(|value: f32| f64::from(value)),
            (DType::I64, DType::I32) => return self.convert(|value: i64| value as i32),
            _ => {}
        }
        let mut tensor = Tensor::zeros(dtype, &self.shape);
        for (index, value) in self.scalars().enumerate() {
            tensor.set_scalar(index, value.cast(dtype));
        }
        tensor
    }

    /// The elements, 16 bits each, as their values.
    fn widened(&self, value: impl Fn(u16) -> f32) -> Tensor {
        let bits = |element: &[u8]| u16::from_le_bytes([element[0], element[1]]);
        let values = self.bytes().chunks_exact(2).map(|element| value(bits(element))).collect();
        Tensor::from_vec(&self.shape, values)
    }

    fn convert<S: Element, T: Element>(&self, convert: impl Fn(S) -> T) -> Tensor {
        let values = view::<S>(self.bytes()).iter().map(|&value| convert(value)).collect();
        Tensor::from_vec(&self.shape, values)
    }
}

/// Same type, same shape, same bits: NaN equals itself, and -0.0 is not 0.0.
impl PartialEq for Tensor {
    fn eq(&self, other: &Tensor) -> bool {
        if self.dtype != other.dtype || self.shape != other.shape {
            return false;
        }
        if self.dtype == DType::String {
            return self.strings() == other.strings();
        }
        let plain = self.dtype.bits() >= 8 && self.dtype != DType::Bool;
        if plain { self.bytes() == other.bytes() } else { self.scalars().eq(other.scalars()) }
    }
}

impl Eq for Tensor {}

/// `f32[2, 3] 1.0 2.0 ...`: the type, the shape and the first elements.
impl fmt::Debug for Tensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SHOWN: usize = 8;
        write!(f, "{}{:?}", self.dtype, self.shape)?;
        for index in 0..self.count.min(SHOWN) {
            match self.strings() {
                Some(strings) => write!(f, " {:?}", strings[index])?,
                None => write!(f, " {}", self.get_scalar(index))?,
            }
        }
        if self.count > SHOWN { f.write_str(" ...") } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn elements_in_and_out() {
        let tensor = Tensor::from_vec(&[2, 2], vec![1.0f32, -2.5, f32::NAN, 0.0]);
        assert_eq!(format!("{tensor:?}"), "f32[2, 2] 1.0 -2.5 nan 0.0");
        assert_eq!(tensor.get_f64(1), -2.5);
        assert_eq!(tensor.as_slice::<f32>().expect("f32")[1], -2.5);
        assert!(tensor.as_slice::<i32>().is_none());
        assert_eq!(tensor.to_vec::<f32>().expect("f32")[1], -2.5);
        let said = tensor.to_vec::<i64>().expect_err("f32").to_string();
        assert!(said.contains("TW0203") && said.contains("f32") && said.contains("i64"), "{said}");
        assert_eq!(tensor.cast(DType::I8).to_f64_vec(), [1.0, -2.0, 0.0, 0.0]);
        assert_eq!(tensor.reshape(&[4]).shape(), [4]);
    }

    #[test]
    fn writing_makes_unique() {
        let first = Tensor::from_vec(&[2], vec![1i64, 2]);
        let mut second = first.clone();
        second.as_mut_slice::<i64>().expect("i64")[0] = 7;
        assert_eq!(first.to_f64_vec(), [1.0, 2.0]);
        assert_eq!(second.to_f64_vec(), [7.0, 2.0]);
    }

    #[test]
    fn truth_values_are_bytes_of_0_or_1() {
        const GIVEN: [u8; 4] = [0, 1, 2, 0xff];
        let made = Tensor::from_bytes(DType::Bool, &[4], Bytes::from_static(&GIVEN));
        assert_eq!(made.expect("a tensor").bytes(), [0, 1, 1, 1]);
        let made = Tensor::from_bytes(DType::U8, &[4], Bytes::from_static(&GIVEN));
        assert_eq!(made.expect("a tensor").bytes(), GIVEN, "numbers stay");
    }

    #[test]
    fn sizes_never_overflow() {
        assert_eq!(element_count(&[]), Some(1));
        assert_eq!(element_count(&[usize::MAX, 2, 0]), Some(0));
        assert_eq!(byte_size(DType::F32, &[usize::MAX / 2]), None);
        assert!(Tensor::from_bytes(DType::F32, &[usize::MAX, 2], Bytes::new()).is_err());
        assert!(Tensor::from_bytes(DType::F32, &[2], Bytes::from_static(&[0; 7])).is_err());
    }

    #[test]
    fn strings() {
        let tensor = Tensor::from_strings(&[1], vec!["a".to_owned()]);
        assert_eq!(tensor.strings().map(<[String]>::len), Some(1));
        assert_eq!(format!("{tensor:?}"), "string[1] \"a\"");
        assert!(tensor.bytes().is_empty());
    }

    proptest! {
        #[test]
        fn packed_elements_do_not_disturb_each_other(
            dtype in prop::sample::select(vec![DType::I4, DType::U2, DType::F4E2M1, DType::Bool]),
            bits in prop::collection::vec(any::<u64>(), 0..20),
        ) {
            let values: Vec<Scalar> =
                bits.iter().map(|&bits| Scalar::from_bits(dtype, bits)).collect();
            let tensor = Tensor::from_scalars(dtype, &[values.len()], &values);
            prop_assert_eq!(tensor.scalars().collect::<Vec<_>>(), values);
        }

        #[test]
        fn loops_cast_as_scalars_do(bits in prop::collection::vec(any::<u16>(), 0..20)) {
            let values: Vec<half::f16> = bits.into_iter().map(half::f16::from_bits).collect();
            let tensor = Tensor::from_vec(&[values.len()], values);
            for (index, value) in tensor.cast(DType::F32).scalars().enumerate() {
                let expected = tensor.get_scalar(index).cast(DType::F32);
                prop_assert!(value == expected || value.is_nan() && expected.is_nan());
            }
        }
    }
}
