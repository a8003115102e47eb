//! Tensors taken apart along an axis and put together again, copied as bytes.

use crate::dtype::DType;
use crate::tensor::Tensor;

impl Tensor {
    /// The elements at one place of an axis, which disappears.
    ///
    /// # Panics
    /// When there is no such axis or place.
    #[must_use]
    pub fn row(&self, axis: usize, place: usize) -> Tensor {
        let whole = self.shape();
        let count = whole[axis];
        assert!(place < count, "place {place} of an axis of {count}");
        let shape = [&whole[..axis], &whole[axis + 1..]].concat();
        let outer: usize = whole[..axis].iter().product();
        let width: usize = whole[axis + 1..].iter().product();
        let mut result = Tensor::zeros(self.dtype(), &shape);
        for row in 0..outer {
            result.copy_elements(row * width, self, (row * count + place) * width, width);
        }
        result
    }

    /// Tensors of one type behind each other along an axis, which is a new one of theirs where
    /// `is_new`: then they have one shape.
    ///
    /// # Errors
    /// What does not fit, as a sentence; that there are none.
    pub fn joined(tensors: &[Tensor], axis: usize, is_new: bool) -> Result<Tensor, String> {
        let Some(first) = tensors.first() else { return Err("there are no tensors".to_owned()) };
        let mut shape = first.shape().to_vec();
        if is_new {
            shape.insert(axis, 1);
        }
        let (outer, inner) = (shape[..axis].to_vec(), shape[axis + 1..].to_vec());
        let extent = |tensor: &Tensor| if is_new { 1 } else { tensor.shape()[axis] };
        for tensor in tensors {
            let own = tensor.shape();
            let fits = match is_new {
                true => own == first.shape(),
                false => {
                    own.len() == shape.len() && own[..axis] == outer && own[axis + 1..] == inner
                }
            };
            if !fits || tensor.dtype() != first.dtype() {
                return Err(format!(
                    "{}{:?} and {}{own:?} are put together",
                    first.dtype(),
                    first.shape(),
                    tensor.dtype(),
                ));
            }
        }
        shape[axis] = tensors.iter().map(extent).sum();
        let width: usize = inner.iter().product();
        let mut result = Tensor::zeros(first.dtype(), &shape);
        let mut at = 0;
        for row in 0..outer.iter().product() {
            for tensor in tensors {
                let length = extent(tensor) * width;
                result.copy_elements(at, tensor, row * length, length);
                at += length;
            }
        }
        Ok(result)
    }

    /// Copies neighbouring elements of a tensor of the same type to a place of this one.
    fn copy_elements(&mut self, to: usize, source: &Tensor, from: usize, count: usize) {
        match self.dtype().bytes() {
            Some(size) if self.dtype() != DType::String => {
                let bytes = &source.bytes()[from * size..][..count * size];
                self.bytes_mut()[to * size..][..count * size].copy_from_slice(bytes);
            }
            _ => self.copy_one_by_one(to, source, from, count),
        }
    }

    /// As [`Self::copy_elements`], of strings and of elements that share bytes.
    fn copy_one_by_one(&mut self, to: usize, source: &Tensor, from: usize, count: usize) {
        if let (Some(texts), Some(strings)) = (self.strings_mut(), source.strings()) {
            texts[to..][..count].clone_from_slice(&strings[from..][..count]);
            return;
        }
        for element in 0..count {
            self.set_scalar(to + element, source.get_scalar(from + element));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(shape: &[usize]) -> Tensor {
        let count = shape.iter().product::<usize>();
        Tensor::from_vec(shape, (0..count as i64).collect())
    }

    #[test]
    fn rows_put_together_are_the_whole() {
        for dtype in [DType::I64, DType::I4, DType::Bool, DType::F16] {
            let whole = counted(&[2, 3, 4]).cast(dtype);
            for axis in 0..3 {
                let rows: Vec<Tensor> =
                    (0..whole.shape()[axis]).map(|place| whole.row(axis, place)).collect();
                let again = Tensor::joined(&rows, axis, true).expect("rows of one shape");
                assert_eq!(again.shape(), whole.shape());
                assert!(again.scalars().eq(whole.scalars()), "{dtype} along {axis}");
            }
        }
        let texts = ["a", "b", "c", "d"].map(str::to_owned).to_vec();
        let whole = Tensor::from_strings(&[2, 2], texts.clone());
        let rows = [whole.row(1, 0), whole.row(1, 1)];
        let again = Tensor::joined(&rows, 1, true).expect("rows of one shape");
        assert_eq!(again.strings(), Some(&texts[..]));
    }

    #[test]
    fn what_does_not_fit_is_not_put_together() {
        let (a, b) = (counted(&[2, 3]), counted(&[1, 3]));
        assert_eq!(Tensor::joined(&[a.clone(), b.clone()], 0, false).map(|it| it.len()), Ok(9));
        assert!(Tensor::joined(&[a.clone(), b], 1, false).is_err());
        assert!(Tensor::joined(&[a.clone(), a.cast(DType::F32)], 0, false).is_err());
        assert!(Tensor::joined(&[], 0, true).is_err());
    }
}
