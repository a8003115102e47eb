//! Types: tensors of numbers, complex numbers and quantised integers; tuples, tokens, functions.

use std::sync::Arc;

use tensor::DType;

use super::Parsed;
use super::cursor::Cursor;
use crate::syntax::{ElementType, Quantisation, TensorType, ValueType};

/// The row of a plain element type by MLIR's name.
pub(crate) fn plain(name: &str) -> Option<DType> {
    Some(match name {
        "f64" => DType::F64,
        "f32" => DType::F32,
        "f16" => DType::F16,
        "bf16" => DType::BF16,
        "f8E4M3FN" => DType::F8E4M3FN,
        "f8E4M3FNUZ" => DType::F8E4M3FNUZ,
        "f8E3M4" => DType::F8E3M4,
        "f8E4M3" => DType::F8E4M3,
        "f8E4M3B11FNUZ" => DType::F8E4M3B11FNUZ,
        "f8E5M2" => DType::F8E5M2,
        "f8E5M2FNUZ" => DType::F8E5M2FNUZ,
        "f8E8M0FNU" => DType::F8E8M0,
        "f6E2M3FN" => DType::F6E2M3,
        "f6E3M2FN" => DType::F6E3M2,
        "f4E2M1FN" => DType::F4E2M1,
        "i1" => DType::Bool,
        "i2" | "si2" => DType::I2,
        "i4" | "si4" => DType::I4,
        "i8" | "si8" => DType::I8,
        "i16" | "si16" => DType::I16,
        "i32" | "si32" => DType::I32,
        "i64" | "si64" | "index" => DType::I64,
        "ui2" => DType::U2,
        "ui4" => DType::U4,
        "ui8" | "u8" => DType::U8,
        "ui16" | "u16" => DType::U16,
        "ui32" | "u32" => DType::U32,
        "ui64" => DType::U64,
        _ => return None,
    })
}

/// Whether a word names an element type, supported or not.
pub(crate) fn names_type(word: &str) -> bool {
    let is_sized = |prefix: &str| {
        let rest = word.strip_prefix(prefix);
        rest.is_some_and(|rest| rest.starts_with(|it: char| it.is_ascii_digit()))
    };
    ["i", "ui", "si", "f", "bf", "tf"].into_iter().any(is_sized)
        || ["index", "none", "tensor", "tuple", "complex", "vector", "memref"].contains(&word)
}

impl<'t> Cursor<'t> {
    /// A type.
    pub(crate) fn value_type(&mut self) -> Parsed<ValueType> {
        self.open()?;
        let found = self.value_type_here();
        self.close();
        found
    }

    fn value_type_here(&mut self) -> Parsed<ValueType> {
        let begin = self.here();
        match self.peek() {
            b'(' => {
                let parameters = self.types_in_parentheses()?;
                self.expect("->")?;
                return Ok(ValueType::Function(parameters, self.types()?));
            }
            b'!' => {
                self.expect("!")?;
                let name = self.suffix()?;
                if self.byte() == b'<' {
                    self.expect("<")?;
                    self.skip_balanced()?;
                }
                return Ok(match name {
                    "stablehlo.token" | "mhlo.token" => ValueType::Token,
                    _ => ValueType::Other(self.text_between(begin, self.end()).to_owned()),
                });
            }
            _ => {}
        }
        let word = self.expect_word()?;
        match word {
            "tensor" => {
                self.expect("<")?;
                let tensor = self.tensor_type()?;
                self.expect(">")?;
                Ok(ValueType::Tensor(tensor))
            }
            "tuple" => {
                self.expect("<")?;
                let mut parts = Vec::new();
                while !self.sees(">") {
                    parts.push(self.value_type()?);
                    if !self.eat(",") {
                        break;
                    }
                }
                self.expect(">")?;
                Ok(ValueType::Tuple(parts))
            }
            _ if self.byte() == b'<' => {
                self.expect("<")?;
                self.skip_balanced()?;
                Ok(ValueType::Other(self.text_between(begin, self.end()).to_owned()))
            }
            _ => Ok(ValueType::Other(word.to_owned())),
        }
    }

    /// The inside of `tensor<...>`.
    fn tensor_type(&mut self) -> Parsed<TensorType> {
        let mut shape = Vec::new();
        loop {
            match self.peek() {
                b'?' => {
                    self.expect("?")?;
                    shape.push(None);
                }
                b'0'..=b'9' => {
                    let digits = self.take_while(|byte| byte.is_ascii_digit());
                    match digits.parse::<usize>() {
                        Ok(extent) if i64::try_from(extent).is_ok() => {
                            shape.push(Some(extent));
                        }
                        _ => return self.fault(format!("an extent of {digits} is too large")),
                    }
                }
                b'*' => return self.fault("the rank of a tensor is not known"),
                _ => break,
            }
            if self.byte() != b'x' {
                return self.fault("`x` is expected behind an extent");
            }
            self.take_one();
        }
        let element = self.element_type()?;
        if self.eat(",") {
            self.encoding(&shape)?;
        }
        Ok(TensorType { shape, element })
    }

    /// What stands behind an element type: the most that free extents may be, `?` for others. It is
    /// kept nowhere. What is of another form is skipped.
    fn encoding(&mut self, shape: &[Option<usize>]) -> Parsed<()> {
        let is_record = self.eat("#stablehlo.type_extensions<");
        if !is_record && !self.eat("#stablehlo.bounds<") {
            let mut depth = 0_usize;
            while !(depth == 0 && self.sees(">")) {
                match self.peek() {
                    0 => return self.fault("a type has no end"),
                    b'<' => depth += 1,
                    b'>' => depth -= 1,
                    _ => {}
                }
                self.take_one();
            }
            return Ok(());
        }
        if is_record {
            self.expect("bounds")?;
            self.expect("=")?;
            self.expect("[")?;
        }
        let mut count = 0;
        while !self.sees("]") && !self.sees(">") {
            if !self.eat("?") {
                self.integer()?;
                if shape.get(count).is_some_and(Option::is_some) {
                    return self.fault("a bound is told of an extent that is known");
                }
            }
            count += 1;
            if !self.eat(",") {
                break;
            }
        }
        if count != shape.len() {
            return self.fault(format!("{count} bounds are told of {} extents", shape.len()));
        }
        if is_record {
            self.expect("]")?;
        }
        self.expect(">")
    }

    fn element_type(&mut self) -> Parsed<ElementType> {
        let begin = self.here();
        if self.eat("!quant.uniform") {
            return Ok(ElementType::Quantised(Arc::new(self.quantisation()?)));
        }
        if self.peek() == b'!' {
            self.value_type()?;
            return Ok(ElementType::Other(self.text_between(begin, self.end()).to_owned()));
        }
        let word = self.expect_word()?;
        if word == "complex" {
            self.expect("<")?;
            let part = self.expect_word()?;
            self.expect(">")?;
            return match part {
                "f32" => Ok(ElementType::Complex(DType::F32)),
                "f64" => Ok(ElementType::Complex(DType::F64)),
                other => Ok(ElementType::Other(format!("complex<{other}>"))),
            };
        }
        if self.byte() == b'<' {
            self.expect("<")?;
            self.skip_balanced()?;
            return Ok(ElementType::Other(self.text_between(begin, self.end()).to_owned()));
        }
        Ok(plain(word).map_or_else(|| ElementType::Other(word.to_owned()), ElementType::Plain))
    }

    /// `<i8<-128:127>:f32:1, {0.1:3, 0.2}>`
    fn quantisation(&mut self) -> Parsed<Quantisation> {
        self.expect("<")?;
        let storage = self.expect_word()?;
        let is_storage = |dtype: &DType| dtype.is_integer() && !storage.starts_with("si");
        let Some(storage) = plain(storage).filter(is_storage) else {
            return self.fault(format!("quantised numbers are stored as {storage}"));
        };
        let whole = storage.integer_range().unwrap_or((0, 0));
        let mut range = (
            i64::try_from(whole.0).unwrap_or(i64::MIN),
            i64::try_from(whole.1).unwrap_or(i64::MAX),
        );
        if self.eat("<") {
            range.0 = self.integer()?;
            self.expect(":")?;
            range.1 = self.integer()?;
            self.expect(">")?;
        }
        self.expect(":")?;
        let expressed = self.expect_word()?;
        let Some(expressed) = plain(expressed).filter(|dtype| dtype.is_float()) else {
            return self.fault(format!("quantised numbers stand for {expressed}"));
        };
        let mut axis = None;
        if self.eat(":") {
            let number = self.integer()?;
            axis = usize::try_from(number).ok();
            if axis.is_none() {
                return self.fault(format!("there is no axis {number}"));
            }
        }
        self.expect(",")?;
        let (mut scales, mut zero_points) = (Vec::new(), Vec::new());
        let is_list = self.eat("{");
        loop {
            let scale = self.number()?;
            let Ok(scale) = scale.parse::<f64>() else {
                return self.fault(format!("`{scale}` is no scale"));
            };
            scales.push(scale);
            zero_points.push(if self.eat(":") { self.integer()? } else { 0 });
            if !(is_list && self.eat(",")) {
                break;
            }
        }
        if is_list {
            self.expect("}")?;
        }
        self.expect(">")?;
        let quantisation = Quantisation { storage, expressed, range, axis, scales, zero_points };
        quantisation.checked().or_else(|reason| self.fault(reason))
    }

    /// `(a, b)`
    pub(crate) fn types_in_parentheses(&mut self) -> Parsed<Vec<ValueType>> {
        self.expect("(")?;
        let mut types = Vec::new();
        while !self.sees(")") {
            types.push(self.value_type()?);
            if !self.eat(",") {
                break;
            }
        }
        self.expect(")")?;
        Ok(types)
    }

    /// One type, or several in parentheses.
    pub(crate) fn types(&mut self) -> Parsed<Vec<ValueType>> {
        if self.peek() == b'(' {
            return self.types_in_parentheses();
        }
        Ok(vec![self.value_type()?])
    }

    /// Moves over a byte that is no letter of several.
    pub(crate) fn take_one(&mut self) {
        let first = std::cell::Cell::new(true);
        self.take_while(|byte| first.replace(false) || !byte.is_ascii() && byte & 0xC0 == 0x80);
    }
}

impl<'t> Cursor<'t> {
    /// A type, a function type, or types in parentheses that no arrow follows.
    pub(crate) fn value_type_list(&mut self) -> Parsed<Vec<ValueType>> {
        if self.peek() != b'(' {
            return Ok(vec![self.value_type()?]);
        }
        let parameters = self.types_in_parentheses()?;
        if self.eat("->") {
            return Ok(vec![ValueType::Function(parameters, self.types()?)]);
        }
        Ok(parameters)
    }
}
