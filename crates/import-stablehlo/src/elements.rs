//! Elements of constants as they lie in memory.

use bytes::Bytes;
use tensor::{DType, Scalar, Tensor};

use crate::syntax::{ElementType, Elements};

impl Elements {
    /// Elements whose bytes are given, the least byte of each first, the imaginary part of complex
    /// ones behind the real one; those of types of less than 8 bits take a byte each. One element
    /// may stand for all. Truth values may be bits.
    ///
    /// # Errors
    /// What is wrong, as half a sentence.
    pub(crate) fn of_bytes(
        element: ElementType,
        shape: Vec<usize>,
        bytes: &[u8],
    ) -> Result<Elements, String> {
        let count = count_of(&shape)?;
        let (dtype, is_complex) = plain_type(&element)?;
        let width = (dtype.bits() as usize).div_ceil(8);
        let parts = if is_complex { 2 } else { 1 };
        let is_bits = dtype == DType::Bool && bytes.len() != count;
        let is_one = bytes.len() == width * parts && count != 1 && !is_bits;
        if !is_bits && !is_one && Some(bytes.len()) != count.checked_mul(width * parts) {
            return Err(format!("{} bytes for {count} elements of {dtype}", bytes.len()));
        }
        let of_scalars = |values: &[Scalar]| match values {
            [one] if count != 1 => Tensor::scalar(*one),
            values => Tensor::from_scalars(dtype, &shape, values),
        };
        if is_bits {
            let values = of_scalars(&bits(bytes, count)?);
            return Ok(Elements { element, shape, values, imaginary: None });
        }
        if !is_complex && !is_one && dtype.bits() >= 8 {
            let values = Tensor::from_bytes(dtype, &shape, Bytes::copy_from_slice(bytes))?;
            return Ok(Elements { element, shape, values, imaginary: None });
        }
        let number = |bytes: &[u8]| {
            let bits = bytes.iter().rev().fold(0_u64, |all, &it| all << 8 | u64::from(it));
            match dtype {
                DType::Bool => Scalar::bool(bits != 0),
                _ => Scalar::from_bits(dtype, bits & u64::MAX >> (64 - dtype.bits())),
            }
        };
        let part = |first: usize| {
            let numbers = bytes.chunks_exact(width).skip(first).step_by(parts).map(number);
            of_scalars(&numbers.collect::<Vec<Scalar>>())
        };
        let (values, imaginary) = (part(0), is_complex.then(|| part(1)));
        Ok(Elements { element, shape, values, imaginary })
    }
}

/// A bit an element; one byte stands for all where all of its bits are the same, or where it is 1
/// and there are more elements than it has bits.
fn bits(bytes: &[u8], count: usize) -> Result<Vec<Scalar>, String> {
    let all = match bytes {
        [one @ (0 | 0xFF)] => Some(*one != 0),
        [1] if count > 8 => Some(true),
        _ => None,
    };
    if let Some(all) = all {
        return Ok(vec![Scalar::bool(all)]);
    }
    if bytes.len() != count.div_ceil(8) {
        return Err("a constant has too few bytes, or too many".to_owned());
    }
    let bit = |at: usize| Scalar::bool(bytes[at / 8] >> (at % 8) & 1 == 1);
    Ok((0..count).map(bit).collect())
}

/// How many elements a constant of a shape has.
pub(crate) fn count_of(shape: &[usize]) -> Result<usize, String> {
    let count = shape.iter().try_fold(1_usize, |all, &extent| all.checked_mul(extent));
    let count = count.filter(|count| *count <= isize::MAX as usize / 16);
    count.ok_or_else(|| "a constant has too many elements".to_owned())
}

/// The type of the numbers of a constant, and whether an element is a pair of them.
pub(crate) fn plain_type(element: &ElementType) -> Result<(DType, bool), String> {
    match element {
        ElementType::Plain(dtype) => Ok((*dtype, false)),
        ElementType::Complex(dtype) => Ok((*dtype, true)),
        ElementType::Quantised(quantisation) => Ok((quantisation.storage, false)),
        ElementType::Other(name) => Err(format!("there are no constants of type {name}")),
    }
}
