//! What a program expects of its own values, and whether they are so.

use tensor::minifloat::Format;
use tensor::{Scalar, Tensor};

/// What a program expects of two of its values, the outputs of these numbers.
#[derive(Clone, Debug)]
pub struct Check {
    /// How they are compared.
    pub kind: CheckKind,
    /// Where the program says so.
    pub place: String,
    /// The outputs that hold what was computed: a tensor, or the parts of a complex one.
    pub computed: Vec<usize>,
    /// The outputs that hold what is expected.
    pub expected: Vec<usize>,
}

/// How what was computed is compared with what is expected.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum CheckKind {
    /// The same numbers; NaN equals NaN.
    Equal,
    /// No farther than this, absolutely.
    Almost(f64),
    /// No more steps between neighbouring floats than the greatest, and no fewer than the least.
    Close {
        /// The least distance.
        least: u64,
        /// The greatest distance.
        most: u64,
    },
}

impl Check {
    /// Compares the outputs of a run.
    ///
    /// # Errors
    /// A sentence on the first element that is not as expected, and on how many there are.
    ///
    /// # Panics
    /// Where there are not as many outputs as the check names.
    pub fn compare(&self, outputs: &[Tensor]) -> Result<(), String> {
        let mut farthest = 0;
        for (&computed, &expected) in self.computed.iter().zip(&self.expected) {
            let (computed, expected) = (&outputs[computed], &outputs[expected]);
            if (computed.dtype(), computed.shape()) != (expected.dtype(), expected.shape()) {
                return Err(format!(
                    "{}: {}{:?} where {}{:?} is expected",
                    self.place,
                    computed.dtype(),
                    computed.shape(),
                    expected.dtype(),
                    expected.shape()
                ));
            }
            let pairs = || computed.scalars().zip(expected.scalars());
            let mut wrong = pairs().enumerate().filter(|(_, pair)| !self.kind.holds(*pair));
            if let Some((at, (found, wanted))) = wrong.next() {
                let more = wrong.count();
                let (count, place) = (computed.len(), &self.place);
                let (found, wanted) = (found.as_f64(), wanted.as_f64());
                return Err(format!(
                    "{place}: element {at} is {found:e} where {wanted:e} is expected, and {more} \
                     more of {count} are wrong"
                ));
            }
            farthest = pairs().map(|pair| distance(pair.0, pair.1)).fold(farthest, u64::max);
        }
        match self.kind {
            CheckKind::Close { least, .. } if farthest < least => {
                Err(format!("{}: the greatest distance is {farthest}, not {least}", self.place))
            }
            _ => Ok(()),
        }
    }
}

impl CheckKind {
    fn holds(self, (found, wanted): (Scalar, Scalar)) -> bool {
        if found.is_nan() || wanted.is_nan() {
            return found.is_nan() && wanted.is_nan();
        }
        if found.bits() == wanted.bits() || found.as_f64() == wanted.as_f64() {
            return found.as_i128() == wanted.as_i128();
        }
        match self {
            CheckKind::Equal => false,
            CheckKind::Almost(most) => (found.as_f64() - wanted.as_f64()).abs() <= most,
            CheckKind::Close { most, .. } => distance(found, wanted) <= most,
        }
    }
}

/// How many steps between neighbouring numbers of their type lie between two.
fn distance(a: Scalar, b: Scalar) -> u64 {
    if a.is_nan() || b.is_nan() {
        return if a.is_nan() && b.is_nan() { 0 } else { u64::MAX };
    }
    if !a.dtype().is_float() {
        let distance = (a.as_i128() - b.as_i128()).unsigned_abs();
        return u64::try_from(distance).unwrap_or(u64::MAX);
    }
    // Bits in the order of the numbers.
    let place = |scalar: Scalar| {
        let whole = 1_u64 << (scalar.dtype().bits() - 1);
        let (sign, most) = Format::of(scalar.dtype())
            .map_or((whole, whole - 1), |format| (format.sign_bit(), format.magnitude_mask()));
        let size = i128::from(scalar.bits() & most);
        if scalar.bits() & sign == 0 { size } else { -size }
    };
    u64::try_from((place(a) - place(b)).unsigned_abs()).unwrap_or(u64::MAX)
}
