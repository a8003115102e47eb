//! Tensors from arrays of the crate `ndarray`, and as such arrays.

use std::borrow::Cow;

use base::Result;
use ndarray::{ArrayBase, ArrayD, CowArray, Data, Dimension, IxDyn};

use crate::storage::Element;
use crate::tensor::Tensor;
use crate::value::Value;

impl Tensor {
    /// The elements, which are of type `T`, as an array with the tensor's shape: in place, or
    /// copied if the bytes are not aligned.
    ///
    /// # Errors
    /// `TW0203` if they are of another type; [`Tensor::cast`] converts them.
    pub fn as_array<T: Element>(&self) -> Result<CowArray<'_, T, IxDyn>> {
        let elements = self.as_slice::<T>().ok_or_else(|| self.is_not(T::DTYPE))?;
        let shape = IxDyn(self.shape());
        let array = match elements {
            Cow::Borrowed(elements) => {
                ndarray::ArrayViewD::from_shape(shape, elements).map(CowArray::from)
            }
            Cow::Owned(elements) => ArrayD::from_shape_vec(shape, elements).map(CowArray::from),
        };
        Ok(array.expect("a tensor has as many elements as its shape says"))
    }

    /// A copy of the elements, which are of type `T`, as an array with the tensor's shape.
    ///
    /// # Errors
    /// As [`Tensor::as_array`].
    pub fn to_array<T: Element>(&self) -> Result<ArrayD<T>> {
        self.as_array().map(CowArray::into_owned)
    }
}

impl<T: Element, S: Data<Elem = T>, D: Dimension> From<&ArrayBase<S, D>> for Tensor {
    fn from(array: &ArrayBase<S, D>) -> Tensor {
        match array.as_slice() {
            Some(elements) => Tensor::from_slice(array.shape(), elements),
            None => Tensor::from_vec(array.shape(), array.iter().copied().collect()),
        }
    }
}

impl<T: Element, S: Data<Elem = T>, D: Dimension> From<ArrayBase<S, D>> for Tensor {
    fn from(array: ArrayBase<S, D>) -> Tensor {
        Tensor::from(&array)
    }
}

impl<T: Element, S: Data<Elem = T>, D: Dimension> From<&ArrayBase<S, D>> for Value {
    fn from(array: &ArrayBase<S, D>) -> Value {
        Tensor::from(array).into()
    }
}

impl<T: Element, S: Data<Elem = T>, D: Dimension> From<ArrayBase<S, D>> for Value {
    fn from(array: ArrayBase<S, D>) -> Value {
        Tensor::from(&array).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ndarray::array;

    #[test]
    fn arrays_become_tensors_and_arrays_again() {
        let array = array![[1.0_f32, 2.0, 3.0], [4.0, 5.0, 6.0]];
        let tensor = Tensor::from(&array);
        assert_eq!(tensor.shape(), [2, 3]);
        assert_eq!(tensor.to_array::<f32>().expect("f32"), array.clone().into_dyn());
        // Elements that do not lie in the order of the shape.
        let turned = Tensor::from(array.t());
        assert_eq!(turned.shape(), [3, 2]);
        assert_eq!(turned.to_f64_vec(), [1.0, 4.0, 2.0, 5.0, 3.0, 6.0]);
        assert!(turned.as_array::<f32>().expect("f32").is_view());
        assert!(turned.as_array::<i32>().is_err());
    }

    #[test]
    fn no_axes_and_no_elements() {
        let scalar = Tensor::from(ndarray::arr0(7_i64));
        assert!(scalar.shape().is_empty());
        assert_eq!(scalar.to_array::<i64>().expect("i64").into_raw_vec_and_offset().0, [7]);
        let none = Tensor::from(ndarray::Array2::<u8>::zeros((0, 3)));
        assert_eq!(none.to_array::<u8>().expect("u8").shape(), [0, 3]);
    }
}
