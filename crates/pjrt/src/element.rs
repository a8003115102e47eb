//! Element types of the interface, and ours.

use tilewright::DType;

use crate::failure::{Code, Failure, Outcome};

/// How the elements of a buffer are stored: pairs of numbers are complex ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ElementForm {
    /// The type of an element, or of both parts of a complex one.
    pub(crate) dtype: DType,
    /// Whether an element is a pair, which is a last axis of extent 2 to programs.
    pub(crate) is_complex: bool,
}

/// Numbers of the interface, what they are called, and what they stand for.
#[rustfmt::skip]
const TABLE: [(u32, DType, bool); 30] = [
    (1, DType::Bool, false),
    (2, DType::I8, false), (3, DType::I16, false), (4, DType::I32, false), (5, DType::I64, false),
    (6, DType::U8, false), (7, DType::U16, false), (8, DType::U32, false), (9, DType::U64, false),
    (10, DType::F16, false), (11, DType::F32, false), (12, DType::F64, false),
    (13, DType::BF16, false),
    (14, DType::F32, true), (15, DType::F64, true),
    (16, DType::F8E5M2, false), (17, DType::F8E4M3FN, false), (18, DType::F8E4M3B11FNUZ, false),
    (19, DType::F8E5M2FNUZ, false), (20, DType::F8E4M3FNUZ, false),
    (21, DType::I4, false), (22, DType::U4, false),
    (24, DType::I2, false), (25, DType::U2, false),
    (26, DType::F8E4M3, false), (27, DType::F8E3M4, false),
    (28, DType::F8E8M0, false), (29, DType::F4E2M1, false),
    // Programs have parts of other types nowhere.
    (0, DType::F16, true), (0, DType::BF16, true),
];

impl ElementForm {
    /// What a number of the interface stands for.
    ///
    /// # Errors
    /// Types that there are no tensors of.
    pub(crate) fn of(number: u32) -> Outcome<ElementForm> {
        let row = TABLE.iter().find(|row| row.0 == number && number != 0);
        row.map(|&(_, dtype, is_complex)| ElementForm { dtype, is_complex }).ok_or_else(|| {
            let message = format!("there are no buffers of the element type {number}");
            Failure::new(Code::Unimplemented, message)
        })
    }

    /// The number of the interface; 0 where it has none.
    pub(crate) fn number(self) -> u32 {
        let row = TABLE.iter().find(|row| (row.1, row.2) == (self.dtype, self.is_complex));
        row.map_or(0, |row| row.0)
    }

    /// Bytes of an element in memory of callers, in which each has bytes of its own.
    pub(crate) fn host_bytes(self) -> usize {
        let bytes = self.dtype.bits().div_ceil(8) as usize;
        if self.is_complex { 2 * bytes } else { bytes }
    }

    /// Whether several elements share a byte in tensors.
    pub(crate) fn is_packed(self) -> bool {
        self.dtype.bits() < 8
    }

    /// The shape of a tensor of so many elements.
    pub(crate) fn tensor_shape(self, extents: &[i64]) -> Vec<usize> {
        let mut shape: Vec<usize> = extents.iter().map(|&extent| extent as usize).collect();
        shape.extend(self.is_complex.then_some(2));
        shape
    }

    /// Elements of a byte each, as tensors have them: several to a byte, the first lowest.
    pub(crate) fn pack(self, bytes: &[u8]) -> Vec<u8> {
        let bits = self.dtype.bits();
        let (per_byte, mask) = ((8 / bits) as usize, (1_u16 << bits) as u8 - 1);
        let join =
            |all: u8, (place, &byte): (usize, &u8)| all | ((byte & mask) << (place as u32 * bits));
        bytes.chunks(per_byte).map(|chunk| chunk.iter().enumerate().fold(0, join)).collect()
    }

    /// So many elements with bytes of their own, signed ones with their signs.
    pub(crate) fn unpack(self, bytes: &[u8], count: usize) -> Vec<u8> {
        let bits = self.dtype.bits();
        let per_byte = (8 / bits) as usize;
        let element = |index: usize| {
            let raw = bytes[index / per_byte] >> ((index % per_byte) as u32 * bits);
            let high = raw << (8 - bits);
            match self.dtype.is_signed_integer() {
                true => ((high as i8) >> (8 - bits)) as u8,
                false => high >> (8 - bits),
            }
        };
        (0..count).map(element).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_elements_are_packed_and_unpacked() {
        for dtype in [DType::I4, DType::U4, DType::I2, DType::U2] {
            let form = ElementForm { dtype, is_complex: false };
            let (least, greatest) = dtype.integer_range().expect("it is an integer");
            let all: Vec<u8> = (least..=greatest).chain([0]).map(|it| it as u8).collect();
            assert_eq!(form.unpack(&form.pack(&all), all.len()), all, "{dtype}");
        }
    }

    #[test]
    fn every_number_has_one_meaning() {
        for number in 1..32 {
            if let Ok(form) = ElementForm::of(number) {
                assert_eq!(form.number(), number);
            }
        }
    }
}
