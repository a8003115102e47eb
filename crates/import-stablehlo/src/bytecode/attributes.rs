//! Attributes and types of a bytecode file, which are read when they are first asked for.
//!
//! Source: MLIR's `BuiltinDialectBytecode.td` and StableHLO's `VhloBytecode.cpp` for the codes and
//! what follows each.
//!
//! Invariants: what is taken out is counted, since an attribute may list another twice, that one a
//! third twice, and so on; attributes that hold themselves are as deep as any others may be, and no
//! deeper.

use std::sync::Arc;

use base::limits::{exceeded, more_than};
use front::Accepted;
use tensor::{DType, Scalar};

use super::container::{Container, Entry, at};
use super::reader::{Reader, damaged};
use super::vhlo;
use crate::syntax::{
    Attribute, Attributes, ElementType, Elements, Quantisation, TensorType, ValueType,
};
use crate::text::{self, plain};

/// Bytes that an attribute or a type takes, besides what it holds.
const DECODED: usize = 64;

/// The most bytes that one attribute takes with all that it holds, constants aside.
const MOST_HELD: usize = 1 << 24;

/// How deep attributes and types may stand inside each other: each level takes up to 20 kB of the
/// stack, of which threads have 2 MB.
const MOST_NESTED: usize = 64;

/// The most letters of a location.
const MOST_LETTERS: usize = 200;

/// The most integers of a list that is no constant.
const MOST_LISTED: usize = 1 << 20;

/// A type: that of a value, and that of elements where it is one.
#[derive(Clone, Debug)]
struct TypeEntry {
    value: ValueType,
    element: Option<ElementType>,
}

impl TypeEntry {
    fn of_value(value: ValueType) -> TypeEntry {
        TypeEntry { value, element: None }
    }

    /// A type of elements, which stands by its name where a value's could.
    fn of_element(element: ElementType, name: impl Into<String>) -> TypeEntry {
        TypeEntry { value: ValueType::Other(name.into()), element: Some(element) }
    }

    fn named(name: &str) -> TypeEntry {
        let element =
            plain(name).map_or_else(|| ElementType::Other(name.to_owned()), ElementType::Plain);
        TypeEntry::of_element(element, name)
    }

    fn element(self) -> Accepted<ElementType> {
        self.element.ok_or_else(|| damaged("a type that is no element's stands for elements"))
    }

    /// The type of numbers.
    fn dtype(self) -> Accepted<DType> {
        match self.element()? {
            ElementType::Plain(dtype) => Ok(dtype),
            other => Err(damaged(format!("there are no single numbers of type {other:?}"))),
        }
    }
}

/// What was read, with the bytes that it takes.
type Kept<T> = Vec<Option<(T, usize)>>;

/// The attributes and types of a file.
pub(super) struct Pool<'b> {
    container: &'b Container<'b>,
    attributes: Kept<Attribute>,
    types: Kept<TypeEntry>,
    depth: usize,
    /// The bytes that what is being read takes.
    weight: usize,
    /// The bytes that may still be taken out.
    left: usize,
    most: usize,
}

impl<'b> Pool<'b> {
    /// The attributes and types of a container, of which at most so many bytes are taken out.
    pub(super) fn new(container: &'b Container<'b>, most: u64) -> Pool<'b> {
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        Pool {
            container,
            attributes: vec![None; container.attributes.len()],
            types: vec![None; container.types.len()],
            depth: 0,
            weight: 0,
            left: most,
            most,
        }
    }

    fn take(&mut self, weight: usize) -> Accepted<()> {
        if self.depth > 0 {
            self.weight = self.weight.saturating_add(weight);
        }
        let left = self.left.checked_sub(weight).filter(|_| self.weight <= MOST_HELD);
        let Some(left) = left else {
            let message = "the attributes of the program would take too much memory";
            let most = self.most.min(MOST_HELD) as u64;
            return Err(exceeded("decoded-bytes", more_than(most), message)
                .because("they hold one another many times over"));
        };
        self.left = left;
        Ok(())
    }

    /// Reads an entry that was not read before; what it is, and the bytes that it takes.
    fn entry<T>(
        &mut self,
        entry: Entry<'b>,
        read: impl FnOnce(&mut Pool<'b>, Entry<'b>) -> Accepted<T>,
    ) -> Accepted<(T, usize)> {
        self.depth += 1;
        if self.depth > MOST_NESTED {
            return Err(damaged(format!("attributes are nested more than {MOST_NESTED} deep")));
        }
        let outer = std::mem::take(&mut self.weight);
        self.take(DECODED)?;
        let found = read(self, entry)?;
        self.depth -= 1;
        let weight = std::mem::replace(&mut self.weight, outer);
        if self.depth > 0 {
            self.weight = self.weight.saturating_add(weight);
        }
        Ok((found, weight))
    }

    /// The attribute of a number.
    pub(super) fn attribute(&mut self, number: u64) -> Accepted<Attribute> {
        let entry = *at(&self.container.attributes, number, "attribute")?;
        let place = number as usize;
        if let Some(&(_, weight)) = self.attributes[place].as_ref() {
            self.take(weight)?;
        }
        if let Some((found, _)) = &self.attributes[place] {
            return Ok(found.clone());
        }
        let kept = self.entry(entry, Pool::read_attribute)?;
        let found = kept.0.clone();
        self.attributes[place] = Some(kept);
        Ok(found)
    }

    fn type_entry(&mut self, number: u64) -> Accepted<TypeEntry> {
        let entry = *at(&self.container.types, number, "type")?;
        let place = number as usize;
        if let Some(&(_, weight)) = self.types[place].as_ref() {
            self.take(weight)?;
        }
        if let Some((found, _)) = &self.types[place] {
            return Ok(found.clone());
        }
        let kept = self.entry(entry, Pool::read_type)?;
        let found = kept.0.clone();
        self.types[place] = Some(kept);
        Ok(found)
    }

    /// The type of values of a number.
    pub(super) fn value_type(&mut self, number: u64) -> Accepted<ValueType> {
        Ok(self.type_entry(number)?.value)
    }

    /// A location in words, unless it is unknown.
    pub(super) fn location(&mut self, number: u64) -> Accepted<Option<String>> {
        at(&self.container.attributes, number, "location")?;
        let (depth, weight) = (self.depth, self.weight);
        // Programs mean the same wherever they come from.
        let found = self.attribute(number).ok();
        (self.depth, self.weight) = (depth, weight);
        Ok(match found {
            Some(Attribute::Word(text)) if !text.is_empty() => Some(text),
            _ => None,
        })
    }

    // --- what entries hold ---

    fn read_attribute(&mut self, entry: Entry<'b>) -> Accepted<Attribute> {
        let mut reader = Reader::new(entry.bytes);
        if !entry.is_encoded {
            let written = reader.text()?;
            self.take(written.len())?;
            return Ok(text::attribute_of(written));
        }
        let code = reader.number()?;
        match entry.dialect {
            "builtin" => self.builtin_attribute(code, &mut reader),
            "vhlo" => self.vhlo_attribute(code, &mut reader),
            "sdy" => self.sdy_attribute(code, &mut reader),
            // What others say, such as which devices an operation is for, means nothing here.
            other => Ok(Attribute::Word(format!("of {other}"))),
        }
    }

    fn read_type(&mut self, entry: Entry<'b>) -> Accepted<TypeEntry> {
        let mut reader = Reader::new(entry.bytes);
        if !entry.is_encoded {
            let written = reader.text()?;
            self.take(written.len())?;
            return Ok(TypeEntry::of_value(text::type_of(written)));
        }
        let code = reader.number()?;
        match entry.dialect {
            "builtin" => self.builtin_type(code, &mut reader),
            "vhlo" => self.vhlo_type(code, &mut reader),
            other => Ok(TypeEntry::of_value(ValueType::Other(format!("a type of {other}")))),
        }
    }

    pub(super) fn text(&mut self, reader: &mut Reader<'b>) -> Accepted<String> {
        let text = *at(&self.container.texts, reader.number()?, "text")?;
        self.take(text.len())?;
        Ok(text.to_owned())
    }

    pub(super) fn child(&mut self, reader: &mut Reader<'b>) -> Accepted<Attribute> {
        let number = reader.number()?;
        self.attribute(number)
    }

    /// An attribute that may be left out.
    pub(super) fn optional(&mut self, reader: &mut Reader<'b>) -> Accepted<Option<Attribute>> {
        match reader.flagged()? {
            (number, true) => self.attribute(number).map(Some),
            (_, false) => Ok(None),
        }
    }

    pub(super) fn children(&mut self, reader: &mut Reader<'b>) -> Accepted<Vec<Attribute>> {
        let count = reader.count()?;
        (0..count).map(|_| self.child(reader)).collect()
    }

    /// Names with values; a name is an attribute, too.
    fn record(&mut self, reader: &mut Reader<'b>) -> Accepted<Attribute> {
        let count = reader.count()?;
        let mut record = Attributes::new();
        for _ in 0..count {
            let name = self.name(reader)?;
            record.push((name, self.child(reader)?));
        }
        Ok(Attribute::Record(record))
    }

    fn name(&mut self, reader: &mut Reader<'b>) -> Accepted<String> {
        match self.child(reader)? {
            Attribute::Text(name) => Ok(name),
            _ => Err(damaged("a name is no text")),
        }
    }

    fn child_type(&mut self, reader: &mut Reader<'b>) -> Accepted<TypeEntry> {
        let number = reader.number()?;
        self.type_entry(number)
    }

    fn child_types(&mut self, reader: &mut Reader<'b>) -> Accepted<Vec<ValueType>> {
        let count = reader.count()?;
        (0..count).map(|_| Ok(self.child_type(reader)?.value)).collect()
    }

    // --- attributes ---

    fn builtin_attribute(&mut self, code: u64, reader: &mut Reader<'b>) -> Accepted<Attribute> {
        Ok(match code {
            0 => Attribute::List(self.children(reader)?),
            1 => self.record(reader)?,
            2 | 3 => Attribute::Text(self.text(reader)?),
            4 => Attribute::Symbol(self.name(reader)?),
            5 => {
                let mut name = self.name(reader)?;
                for part in self.children(reader)? {
                    name = format!("{name}::{}", part.word().unwrap_or_default());
                }
                Attribute::Symbol(name)
            }
            6 => Attribute::Type(self.child_type(reader)?.value),
            7 => Attribute::Unit,
            8 => self.integer(reader)?,
            9 => self.float(reader)?,
            10 => {
                let (callee, caller) = (self.child_location(reader)?, self.child_location(reader)?);
                located(format!("callsite({callee} at {caller})"))
            }
            11 => {
                let file = self.name(reader)?;
                located(format!("\"{file}\":{}:{}", reader.number()?, reader.number()?))
            }
            12 | 13 => {
                let count = reader.count()?;
                let mut parts = String::new();
                for number in 0..count {
                    let part = self.child_location(reader)?;
                    if parts.len() <= MOST_LETTERS {
                        parts += if number > 0 { ", " } else { "" };
                        parts += &part;
                    }
                }
                located(format!("fused[{parts}]"))
            }
            14 => {
                let name = self.name(reader)?;
                match self.child_location(reader)? {
                    inside if inside.is_empty() => located(format!("\"{name}\"")),
                    inside => located(format!("\"{name}\"({inside})")),
                }
            }
            15 => Attribute::Word(String::new()),
            17 => {
                let dtype = self.child_type(reader)?.dtype()?;
                let count = reader.number()?;
                let count = usize::try_from(count).ok().filter(|it| *it <= MOST_LISTED);
                let count = count.ok_or_else(|| damaged("a list is too long"))?;
                let element = ElementType::Plain(dtype);
                let elements = Elements::of_bytes(element, vec![count], reader.blob()?);
                let elements = elements.map_err(damaged)?;
                self.take(elements.values.len() * DECODED)?;
                let number = |scalar: Scalar| match dtype {
                    DType::Bool => Attribute::Bool(scalar.as_bool()),
                    _ if dtype.is_float() => Attribute::Float(scalar.as_f64()),
                    _ => Attribute::Integer(scalar.as_i64().into()),
                };
                Attribute::List(elements.values.scalars().map(number).collect())
            }
            18 => self.elements(reader)?,
            // What has no meaning here keeps the place of what it is.
            16 => Attribute::Word("dense_resource".to_owned()),
            19 => Attribute::Word("strings".to_owned()),
            20 => Attribute::Word("sparse".to_owned()),
            21 => Attribute::Word("distinct".to_owned()),
            code => return Err(damaged(format!("there is no attribute of code {code}"))),
        })
    }

    fn vhlo_attribute(&mut self, code: u64, reader: &mut Reader<'b>) -> Accepted<Attribute> {
        let integer = |number: i64| Attribute::Integer(number.into());
        let list = |numbers: Vec<i64>| Attribute::List(numbers.into_iter().map(integer).collect());
        Ok(match code {
            1 => Attribute::List(self.children(reader)?),
            2 => Attribute::Bool(reader.number()? != 0),
            6 => self.record(reader)?,
            8 => self.float(reader)?,
            9 => self.integer(reader)?,
            10 => record([
                ("output_tuple_indices", Some(list(reader.signed_list()?))),
                ("operand_index", Some(integer(reader.signed()?))),
                ("operand_tuple_indices", Some(list(reader.signed_list()?))),
            ]),
            14 => Attribute::Text(self.text(reader)?),
            15 => self.elements(reader)?,
            17 => Attribute::Type(self.child_type(reader)?.value),
            18 => list(reader.signed_list()?),
            20 => record([
                ("atol", Some(Attribute::Float(number(reader, DType::F64)?.as_f64()))),
                ("rtol", Some(Attribute::Float(number(reader, DType::F64)?.as_f64()))),
                ("ulps", Some(integer(reader.signed()?))),
                ("mode", Some(self.child(reader)?)),
            ]),
            21 => record([
                ("pre_size", Some(integer(reader.signed()?))),
                ("size", Some(integer(reader.signed()?))),
            ]),
            22 => record([
                ("name", Some(self.child(reader)?)),
                ("sub_axis_info", self.optional(reader)?),
            ]),
            23 => {
                record([("mesh", Some(self.child(reader)?)), ("axes", Some(self.child(reader)?))])
            }
            24 => record([
                ("name", Some(self.child(reader)?)),
                ("size", Some(integer(reader.signed()?))),
            ]),
            25 => record([
                ("axes", Some(self.child(reader)?)),
                ("device_ids", self.optional(reader)?),
            ]),
            code => {
                let number = reader.number()?;
                let word = vhlo::word(code, number).ok_or_else(|| {
                    damaged(format!("there is no attribute of VHLO of code {code}, {number}"))
                })?;
                Attribute::Word(word.to_owned())
            }
        })
    }

    /// The text of a location within another.
    fn child_location(&mut self, reader: &mut Reader<'b>) -> Accepted<String> {
        match self.child(reader)? {
            Attribute::Word(text) => Ok(text),
            _ => Err(damaged("a location is of another kind")),
        }
    }

    fn integer(&mut self, reader: &mut Reader<'b>) -> Accepted<Attribute> {
        let dtype = self.child_type(reader)?.dtype()?;
        if dtype.is_float() {
            return Err(damaged("the type of an integer is a float's"));
        }
        let number = number(reader, dtype)?;
        Ok(match dtype {
            DType::Bool => Attribute::Bool(number.as_bool()),
            _ => Attribute::Integer(number.as_i128()),
        })
    }

    fn float(&mut self, reader: &mut Reader<'b>) -> Accepted<Attribute> {
        let dtype = self.child_type(reader)?.dtype()?;
        if !dtype.is_float() {
            return Err(damaged("the type of a float is an integer's"));
        }
        Ok(Attribute::Float(number(reader, dtype)?.as_f64()))
    }

    /// A constant. One of elements that there is no type for keeps the name of the type.
    fn elements(&mut self, reader: &mut Reader<'b>) -> Accepted<Attribute> {
        let ValueType::Tensor(TensorType { shape, element }) = self.child_type(reader)?.value
        else {
            return Err(damaged("the type of a constant is no tensor"));
        };
        let bytes = reader.blob()?;
        if let ElementType::Other(name) = element {
            return Ok(Attribute::Word(format!("dense of {name}")));
        }
        let Some(shape) = shape.into_iter().collect::<Option<Vec<usize>>>() else {
            return Err(damaged("a constant has free extents"));
        };
        let elements = Elements::of_bytes(element, shape, bytes).map_err(damaged)?;
        Ok(Attribute::Elements(Arc::new(elements)))
    }

    // --- types ---

    fn builtin_type(&mut self, code: u64, reader: &mut Reader<'b>) -> Accepted<TypeEntry> {
        Ok(match code {
            0 => {
                let number = reader.number()?;
                let sign = ["i", "si", "ui"].get((number & 3) as usize);
                let sign = sign.ok_or_else(|| damaged("an integer has no such sign"))?;
                TypeEntry::named(&format!("{sign}{}", number >> 2))
            }
            1 => TypeEntry::named("index"),
            2 => self.function_type(reader)?,
            3 => TypeEntry::named("bf16"),
            4 => TypeEntry::named("f16"),
            5 => TypeEntry::named("f32"),
            6 => TypeEntry::named("f64"),
            7 => TypeEntry::named("f80"),
            8 => TypeEntry::named("f128"),
            9 => self.complex_type(reader)?,
            12 => TypeEntry::named("none"),
            13 => self.tensor_type(reader)?,
            14 => {
                self.child(reader)?;
                self.tensor_type(reader)?
            }
            15 => TypeEntry::of_value(ValueType::Tuple(self.child_types(reader)?)),
            code => return Err(damaged(format!("there is no type of code {code}"))),
        })
    }

    fn vhlo_type(&mut self, code: u64, reader: &mut Reader<'b>) -> Accepted<TypeEntry> {
        let name = match code {
            0 => "i1",
            2 => "bf16",
            3 => "f16",
            4 => "f32",
            5 => "f64",
            6 => "f8E4M3FN",
            7 => "f8E5M2",
            9 => "index",
            10 => "i4",
            11 => "i8",
            12 => "i16",
            13 => "i32",
            14 => "i64",
            15 => "ui4",
            16 => "ui8",
            17 => "ui16",
            18 => "ui32",
            19 => "ui64",
            26 => "witness",
            27 => "f8E4M3FNUZ",
            28 => "f8E5M2FNUZ",
            29 => "f8E4M3B11FNUZ",
            31 => "i2",
            32 => "ui2",
            33 => "none",
            34 => "tf32",
            35 => "f8E4M3",
            36 => "f8E3M4",
            37 => "f4E2M1FN",
            38 => "f6E2M3FN",
            39 => "f6E3M2FN",
            40 => "f8E8M0FNU",
            _ => "",
        };
        if !name.is_empty() {
            return Ok(TypeEntry::named(name));
        }
        Ok(match code {
            1 => self.complex_type(reader)?,
            8 => self.function_type(reader)?,
            20 => self.tensor_type(reader)?,
            21 => {
                self.child(reader)?;
                self.tensor_type(reader)?
            }
            22 => TypeEntry::of_value(ValueType::Token),
            23 => TypeEntry::of_value(ValueType::Tuple(self.child_types(reader)?)),
            24 => {
                reader.number()?;
                let storage = self.child_type(reader)?.dtype()?;
                let expressed = self.child_type(reader)?.dtype()?;
                let scales = vec![number(reader, DType::F64)?.as_f64()];
                let zero_points = vec![reader.signed()?];
                let range = (reader.signed()?, reader.signed()?);
                quantised(Quantisation {
                    storage,
                    expressed,
                    range,
                    axis: None,
                    scales,
                    zero_points,
                })?
            }
            25 => TypeEntry::of_value(ValueType::Other("tensor of any rank".to_owned())),
            30 => {
                reader.number()?;
                let storage = self.child_type(reader)?.dtype()?;
                let expressed = self.child_type(reader)?.dtype()?;
                let axis = usize::try_from(reader.number()?).ok();
                let range = (reader.signed()?, reader.signed()?);
                let count = reader.count()?;
                let scales = (0..count).map(|_| Ok(number(reader, DType::F64)?.as_f64()));
                let scales = scales.collect::<Accepted<Vec<f64>>>()?;
                let zero_points = reader.signed_list()?;
                quantised(Quantisation { storage, expressed, range, axis, scales, zero_points })?
            }
            41 => {
                reader.signed_list()?;
                self.child_type(reader)?;
                TypeEntry::of_value(ValueType::Other("buffer".to_owned()))
            }
            42 => {
                self.child_types(reader)?;
                TypeEntry::of_value(ValueType::Other("future".to_owned()))
            }
            code => return Err(damaged(format!("there is no type of VHLO of code {code}"))),
        })
    }

    fn function_type(&mut self, reader: &mut Reader<'b>) -> Accepted<TypeEntry> {
        let (parameters, results) = (self.child_types(reader)?, self.child_types(reader)?);
        Ok(TypeEntry::of_value(ValueType::Function(parameters, results)))
    }

    fn complex_type(&mut self, reader: &mut Reader<'b>) -> Accepted<TypeEntry> {
        let part = self.child_type(reader)?;
        let ValueType::Other(part_name) = &part.value else {
            return Err(damaged("the parts of complex numbers are no numbers"));
        };
        let name = format!("complex<{part_name}>");
        let element = match part.element {
            Some(ElementType::Plain(dtype @ (DType::F32 | DType::F64))) => {
                ElementType::Complex(dtype)
            }
            _ => ElementType::Other(name.clone()),
        };
        Ok(TypeEntry::of_element(element, name))
    }

    /// Extents, of which negative ones are free, and the type of elements.
    fn tensor_type(&mut self, reader: &mut Reader<'b>) -> Accepted<TypeEntry> {
        let extents = reader.signed_list()?;
        self.take(extents.len() * size_of::<Option<usize>>())?;
        let shape = extents.into_iter().map(|extent| usize::try_from(extent).ok()).collect();
        let element = self.child_type(reader)?.element()?;
        Ok(TypeEntry::of_value(ValueType::Tensor(TensorType { shape, element })))
    }
}

/// A number of a type, whose bits lie in a byte or are written as an integer with a sign.
fn number(reader: &mut Reader<'_>, dtype: DType) -> Accepted<Scalar> {
    let bits = match dtype.bits() <= 8 {
        true => u64::from(reader.byte()?),
        false => reader.signed()? as u64,
    };
    Ok(match dtype {
        DType::Bool => Scalar::bool(bits & 1 != 0),
        _ => Scalar::from_bits(dtype, bits & u64::MAX >> (64 - dtype.bits())),
    })
}

fn quantised(quantisation: Quantisation) -> Accepted<TypeEntry> {
    let quantisation = quantisation.checked().map_err(damaged)?;
    let element = ElementType::Quantised(Arc::new(quantisation));
    Ok(TypeEntry::of_element(element, "quantised"))
}

fn record<const N: usize>(entries: [(&str, Option<Attribute>); N]) -> Attribute {
    let entries = entries.into_iter();
    let entries = entries.filter_map(|(name, value)| value.map(|value| (name.to_owned(), value)));
    Attribute::Record(entries.collect())
}

/// A location, cut where it is long.
fn located(text: String) -> Attribute {
    Attribute::Word(text.chars().take(MOST_LETTERS).collect())
}
