//! Attributes: numbers, texts, lists, records, types, constants, words.

use std::sync::Arc;

use super::Parsed;
use super::cursor::Cursor;
use super::types::names_type;
use crate::syntax::{Attribute, Attributes};

impl<'t> Cursor<'t> {
    /// `{name = attribute, name}`, the opening bracket read already.
    pub(crate) fn attributes_until(&mut self, end: &str) -> Parsed<Attributes> {
        let mut attributes = Attributes::new();
        while !self.sees(end) {
            let name = match self.peek() {
                b'"' => self.string()?,
                _ => self.expect_word()?.to_owned(),
            };
            let value = if self.eat("=") { self.attribute()? } else { Attribute::Unit };
            attributes.push((name, value));
            if !self.eat(",") {
                break;
            }
        }
        self.expect(end)?;
        let mut names: Vec<&str> = attributes.iter().map(|(name, _)| name.as_str()).collect();
        names.sort_unstable();
        match names.windows(2).find(|pair| pair[0] == pair[1]) {
            Some(pair) => self.fault(format!("`{}` is given twice", pair[0])),
            None => Ok(attributes),
        }
    }

    /// An attribute.
    pub(crate) fn attribute(&mut self) -> Parsed<Attribute> {
        self.nested(Cursor::attribute_here)
    }

    fn attribute_here(&mut self) -> Parsed<Attribute> {
        match self.peek() {
            b'"' => {
                let text = self.string()?;
                self.scalar_type()?;
                Ok(Attribute::Text(text))
            }
            b'@' => Ok(Attribute::Symbol(self.symbol()?)),
            b'[' => {
                self.expect("[")?;
                let mut list = Vec::new();
                while !self.sees("]") {
                    list.push(self.attribute()?);
                    if !self.eat(",") {
                        break;
                    }
                }
                self.expect("]")?;
                Ok(Attribute::List(list))
            }
            b'{' => {
                self.expect("{")?;
                Ok(Attribute::Record(self.attributes_until("}")?))
            }
            b'<' => {
                self.expect("<")?;
                Ok(Attribute::Record(self.attributes_until(">")?))
            }
            b'#' => self.dialect_attribute(),
            b'!' | b'(' => Ok(Attribute::Type(self.value_type()?)),
            b'-' | b'+' | b'0'..=b'9' => self.numeric(),
            _ => self.named(),
        }
    }

    /// `@name`, `@"name"`, `@outer::@inner`
    pub(crate) fn symbol(&mut self) -> Parsed<String> {
        self.expect("@")?;
        let mut name = if self.byte() == b'"' { self.string()? } else { self.suffix()?.to_owned() };
        while self.eat("::") {
            name = format!("{name}::{}", self.symbol()?);
        }
        Ok(name)
    }

    /// The type behind a number or text, if there is one; the types of an operation's values, which
    /// may stand there, too, are tensors and lists.
    fn scalar_type(&mut self) -> Parsed<&'t str> {
        let before = self.here();
        if !self.sees("::") && self.eat(":") {
            let word = self.peek_word();
            if names_type(word) && !["tensor", "tuple"].contains(&word) {
                let begin = self.here();
                self.value_type()?;
                return Ok(self.text_between(begin, self.end()));
            }
            self.back_to(before);
        }
        Ok("")
    }

    fn numeric(&mut self) -> Parsed<Attribute> {
        let text = self.number()?;
        let is_float = text.contains(['.', 'e', 'E']) && !text.contains('x');
        let type_name = self.scalar_type()?;
        if is_float {
            return match text.parse() {
                Ok(number) => Ok(Attribute::Float(number)),
                Err(_) => self.fault(format!("`{text}` is no number")),
            };
        }
        let (sign, digits) = match text.strip_prefix('-') {
            Some(digits) => (-1, digits),
            None => (1, text.strip_prefix('+').unwrap_or(text)),
        };
        let number = match digits.strip_prefix("0x") {
            Some(hex) => i128::from_str_radix(hex, 16),
            None => digits.parse::<i128>(),
        };
        match (number, type_name) {
            (Ok(bits), "f64") => Ok(Attribute::Float(f64::from_bits(bits as u64))),
            (Ok(bits), "f32") => Ok(Attribute::Float(f64::from(f32::from_bits(bits as u32)))),
            (Ok(number), _) => Ok(Attribute::Integer(sign * number)),
            (Err(_), _) => self.fault(format!("`{text}` is too large")),
        }
    }

    /// What begins with a letter.
    fn named(&mut self) -> Parsed<Attribute> {
        let word = self.peek_word();
        if names_type(word) {
            return Ok(Attribute::Type(self.value_type()?));
        }
        let word = self.expect_word()?;
        Ok(match word {
            "true" => Attribute::Bool(true),
            "false" => Attribute::Bool(false),
            "unit" => Attribute::Unit,
            "dense" => Attribute::Elements(Arc::new(self.dense()?)),
            "array" => self.array()?,
            _ => {
                if self.byte() == b'<' || self.byte() == b'(' {
                    self.take_one();
                    self.skip_balanced()?;
                }
                Attribute::Word(word.to_owned())
            }
        })
    }

    /// `<i64: 1, 2>`
    fn array(&mut self) -> Parsed<Attribute> {
        self.expect("<")?;
        self.expect_word()?;
        let mut list = Vec::new();
        if self.eat(":") {
            while !self.sees(">") {
                list.push(self.attribute()?);
                if !self.eat(",") {
                    break;
                }
            }
        }
        self.expect(">")?;
        Ok(Attribute::List(list))
    }

    /// `#stablehlo.gather<offset_dims = [0]>`, `#stablehlo<precision HIGH>`, or another's name.
    fn dialect_attribute(&mut self) -> Parsed<Attribute> {
        let begin = self.here();
        self.expect("#")?;
        let name = self.suffix()?;
        if self.byte() != b'<' {
            return Ok(Attribute::Word(name.to_owned()));
        }
        self.expect("<")?;
        if name.ends_with(".conv") {
            let record = self.convolution_axes()?;
            self.expect(">")?;
            return Ok(Attribute::Record(record));
        }
        let inside = self.here();
        if self.eat(">") {
            return Ok(Attribute::Record(Attributes::new()));
        }
        // What is not of the forms that are known is skipped.
        let first = self.word();
        if !first.is_empty() && self.sees("=") {
            self.back_to(inside);
            return Ok(Attribute::Record(self.attributes_until(">")?));
        }
        let second = self.word();
        if !first.is_empty() && self.eat(">") {
            let word = if second.is_empty() { first } else { second };
            return Ok(Attribute::Word(word.to_owned()));
        }
        self.skip_balanced()?;
        Ok(Attribute::Word(self.text_between(begin, self.end()).to_owned()))
    }

    /// `[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]`: which axes are batches, features and spatial.
    pub(crate) fn convolution_axes(&mut self) -> Parsed<Attributes> {
        let mut record = Attributes::new();
        let sides = [
            ("input", [("b", "batch"), ("f", "feature")]),
            ("kernel", [("i", "input_feature"), ("o", "output_feature")]),
            ("output", [("b", "batch"), ("f", "feature")]),
        ];
        for (number, (side, letters)) in sides.into_iter().enumerate() {
            if number > 0 {
                self.expect(["", "x", "->"][number])?;
            }
            self.expect("[")?;
            let (mut spatial, mut axis) = (Vec::new(), 0_i128);
            while !self.sees("]") {
                let letter = self.word();
                if let Some((_, name)) = letters.iter().find(|(it, _)| *it == letter) {
                    record.push((format!("{side}_{name}_dimension"), Attribute::Integer(axis)));
                } else if letter.is_empty() && self.peek() != b'?' {
                    spatial.push((self.integer()?, axis));
                } else {
                    return self.fault("an axis is `b`, `f`, `i`, `o` or a number");
                }
                axis += 1;
                if !self.eat(",") {
                    break;
                }
            }
            self.expect("]")?;
            spatial.sort_unstable();
            let spatial = spatial.into_iter().map(|(_, axis)| Attribute::Integer(axis)).collect();
            record.push((format!("{side}_spatial_dimensions"), Attribute::List(spatial)));
        }
        Ok(record)
    }

    /// `loc(...)`, if it is next: its text.
    pub(crate) fn location(&mut self) -> Parsed<Option<String>> {
        if !self.eat("loc") {
            return Ok(None);
        }
        self.expect("(")?;
        let begin = self.here();
        self.skip_balanced()?;
        let text = self.text_between(begin, self.end().saturating_sub(1));
        Ok(Some(text.chars().take(200).collect()))
    }
}
