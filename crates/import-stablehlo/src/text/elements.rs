//! Elements of constants: lists in lists, one number for all, or bytes in hexadecimal digits.

use tensor::{DType, Scalar, Tensor};

use super::Parsed;
use super::cursor::Cursor;
use crate::elements::{count_of, plain_type};
use crate::syntax::{Elements, TensorType, ValueType};

/// A number as it is written; of a complex one both parts.
#[derive(Clone, Copy)]
enum NumberText<'t> {
    Real(&'t str),
    Complex(&'t str, &'t str),
}

/// What stands between `dense<` and `>`.
enum LiteralText<'t> {
    Nothing,
    Numbers { shape: Vec<usize>, numbers: Vec<NumberText<'t>> },
    Bytes(&'t str),
}

impl<'t> Cursor<'t> {
    /// The constant behind the word `dense`, with its type.
    pub(crate) fn dense(&mut self) -> Parsed<Elements> {
        self.expect("<")?;
        let literal = match self.peek() {
            b'>' => LiteralText::Nothing,
            b'"' => LiteralText::Bytes(self.quoted()?),
            _ => {
                let (mut shape, mut numbers) = (Vec::new(), Vec::new());
                self.numbers(0, &mut shape, &mut numbers)?;
                LiteralText::Numbers { shape, numbers }
            }
        };
        self.expect(">")?;
        self.expect(":")?;
        let ValueType::Tensor(TensorType { shape, element }) = self.value_type()? else {
            return self.fault("the type of a constant is no tensor");
        };
        let Some(shape) = shape.into_iter().collect::<Option<Vec<usize>>>() else {
            return self.fault("a constant has free extents");
        };
        let count = count_of(&shape).or_else(|reason| self.fault(reason))?;
        let (dtype, is_complex) = plain_type(&element).or_else(|reason| self.fault(reason))?;
        let (values, imaginary) = match literal {
            LiteralText::Nothing if count == 0 => (Vec::new(), Vec::new()),
            LiteralText::Nothing => return self.fault("a constant has no elements"),
            LiteralText::Bytes(digits) => {
                let Some(bytes) = digits.strip_prefix("0x").and_then(bytes_of) else {
                    return self.fault("the elements of a constant are no hexadecimal digits");
                };
                let elements = Elements::of_bytes(element, shape, &bytes);
                return elements.or_else(|reason| self.fault(reason));
            }
            LiteralText::Numbers { shape: found, numbers } => {
                if !found.is_empty() && found != shape {
                    let reason = format!("a constant of shape {shape:?} is written as {found:?}");
                    return self.fault(reason);
                }
                self.of_numbers(&numbers, dtype, is_complex)?
            }
        };
        // One number may stand for all, of which memory may not hold so many.
        let tensor = |values: &[Scalar]| match values {
            [one] if count != 1 => Tensor::scalar(*one),
            values => Tensor::from_scalars(dtype, &shape, values),
        };
        let imaginary = is_complex.then(|| tensor(&imaginary));
        let values = tensor(&values);
        Ok(Elements { element, shape, values, imaginary })
    }

    /// A list of lists down to numbers. Every list of one depth has the same length.
    fn numbers(
        &mut self,
        depth: usize,
        shape: &mut Vec<usize>,
        numbers: &mut Vec<NumberText<'t>>,
    ) -> Parsed<()> {
        if self.peek() != b'[' {
            if depth != shape.len() {
                return self.fault("a number stands where a list is expected");
            }
            let number = match self.peek() {
                b'(' => {
                    self.expect("(")?;
                    let real = self.plain_number()?;
                    self.expect(",")?;
                    let imaginary = self.plain_number()?;
                    self.expect(")")?;
                    NumberText::Complex(real, imaginary)
                }
                _ => NumberText::Real(self.plain_number()?),
            };
            numbers.push(number);
            return Ok(());
        }
        self.expect("[")?;
        self.open()?;
        let is_first = depth == shape.len();
        if is_first {
            if !numbers.is_empty() {
                return self.fault("a list stands where a number is expected");
            }
            shape.push(usize::MAX);
        }
        let mut count = 0_usize;
        while !self.sees("]") {
            self.numbers(depth + 1, shape, numbers)?;
            count += 1;
            if !self.eat(",") {
                break;
            }
        }
        self.close();
        self.expect("]")?;
        match &mut shape[depth] {
            known if *known == usize::MAX => *known = count,
            known if *known != count => {
                return self.fault("the lists of a constant differ in length");
            }
            _ => {}
        }
        Ok(())
    }

    fn plain_number(&mut self) -> Parsed<&'t str> {
        match self.peek_word() {
            "" => self.number(),
            _ => self.expect_word(),
        }
    }

    fn of_numbers(
        &self,
        numbers: &[NumberText<'t>],
        dtype: DType,
        is_complex: bool,
    ) -> Parsed<(Vec<Scalar>, Vec<Scalar>)> {
        let mut parts = (Vec::with_capacity(numbers.len()), Vec::new());
        for number in numbers {
            match (*number, is_complex) {
                (NumberText::Real(text), false) => parts.0.push(self.scalar(dtype, text)?),
                (NumberText::Complex(real, imaginary), true) => {
                    parts.0.push(self.scalar(dtype, real)?);
                    parts.1.push(self.scalar(dtype, imaginary)?);
                }
                (NumberText::Real(text), true) => {
                    parts.0.push(self.scalar(dtype, text)?);
                    parts.1.push(Scalar::zero(dtype));
                }
                (NumberText::Complex(..), false) => {
                    return self.fault(format!("a pair of numbers in a constant of {dtype}"));
                }
            }
        }
        Ok(parts)
    }

    fn scalar(&self, dtype: DType, text: &str) -> Parsed<Scalar> {
        match scalar(dtype, text) {
            Some(scalar) => Ok(scalar),
            None => self.fault(format!("`{text}` is no element of type {dtype}")),
        }
    }
}

/// The bytes of pairs of hexadecimal digits.
fn bytes_of(digits: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| (byte as char).to_digit(16).map(|it| it as u8);
    let pairs = digits.as_bytes().chunks(2).map(|pair| match pair {
        [high, low] => Some(digit(*high)? << 4 | digit(*low)?),
        _ => None,
    });
    pairs.collect()
}

/// An element as it is written: a decimal number, `true`, `false`, or the bits of a float.
fn scalar(dtype: DType, text: &str) -> Option<Scalar> {
    match text {
        "true" if dtype == DType::Bool => return Some(Scalar::bool(true)),
        "false" if dtype == DType::Bool => return Some(Scalar::bool(false)),
        _ => {}
    }
    let (is_negative, digits) = match text.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, text),
    };
    if let Some(hex) = digits.strip_prefix("0x") {
        let bits = u64::from_str_radix(hex, 16).ok()?;
        if dtype.is_float() {
            let fits = bits <= u64::MAX >> (64 - dtype.bits()) && !is_negative;
            return fits.then(|| Scalar::from_bits(dtype, bits));
        }
        let value = if is_negative { -i128::from(bits) } else { i128::from(bits) };
        return Some(Scalar::from_i128(dtype, value));
    }
    if dtype == DType::F32 {
        return text.parse().ok().map(Scalar::f32);
    }
    if dtype.is_float() {
        return text.parse().ok().map(|value| Scalar::from_f64(dtype, value));
    }
    let value: i128 = text.parse().ok()?;
    if dtype == DType::Bool {
        return matches!(value, -1..=1).then(|| Scalar::bool(value != 0));
    }
    let (low, high) = dtype.integer_range()?;
    // A type without a sign may be written with one.
    let width = high - low + 1;
    (-(width / 2)..width).contains(&value).then(|| Scalar::from_i128(dtype, value))
}
