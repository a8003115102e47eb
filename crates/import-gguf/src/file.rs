//! A language model as plain data, in the words of GGUF: keys with their values, and where tensors
//! lie; and how that is read of GGUF files (of folders: `folder.rs`).
//!
//! Source: `docs/gguf.md` of the ggml project. A file is little-endian: a header, keys, entries of
//! tensors, then the tensors' data, each at a multiple of the alignment. Nothing is copied but
//! names: values of arrays and tensors are slices of the mapped file.
//!
//! Invariants: nothing is read outside of the file, whatever it says; what is kept takes memory in
//! proportion to the bytes that say it; arrays are nested no deeper than the limit.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use base::limits::{exceeded, more_than};
use base::{Diagnostic, Limits, codes};
use bytes::Bytes;
use front::Accepted;

use crate::formats::{self, BlockFormat};
use crate::texts::TextList;

/// What a file begins with.
const IDENTIFIER: &[u8] = b"GGUF";

/// Versions that are read: they differ in nothing that is used here.
const VERSIONS: std::ops::RangeInclusive<u32> = 2..=3;

/// Where tensors begin at multiples of, if the file does not say.
const ALIGNMENT: u64 = 32;

/// The most axes that a tensor has in the format.
const MOST_AXES: u32 = 4;

/// The refusal of a file that does not hold what it should.
#[cold]
#[inline(never)]
pub(crate) fn damaged(reason: impl Into<String>) -> Diagnostic {
    Diagnostic::error(codes::NOT_LANGUAGE_MODEL, "the language model cannot be read")
        .because(reason)
        .remedy("copy the model again, or convert it anew")
}

/// The value of a key.
#[derive(Clone, Debug, PartialEq)]
pub enum MetadataValue {
    /// An integer of any width.
    Integer(i128),
    /// A float of 32 or 64 bits.
    Float(f64),
    /// A truth value.
    Bool(bool),
    /// A text; bytes that are no UTF-8 are kept as they are.
    Text(Bytes),
    /// Values of one type.
    Array(MetadataArray),
}

/// Values of one type behind each other.
#[derive(Clone, Debug, PartialEq)]
pub enum MetadataArray {
    /// Numbers or truth values of a type of the format, as they lie in the file.
    Numbers {
        /// Which type.
        kind: u32,
        /// The elements.
        bytes: Bytes,
    },
    /// Texts, which lie in the file.
    Texts(TextList),
    /// Arrays.
    Arrays(Vec<MetadataArray>),
}

/// A tensor of the file.
#[derive(Clone, Debug)]
pub struct TensorEntry {
    /// Its name.
    pub name: String,
    /// The extents, outermost first (the file has them innermost first).
    pub shape: Vec<usize>,
    /// How its elements are stored.
    pub(crate) format: &'static BlockFormat,
    /// The data.
    pub(crate) bytes: Bytes,
}

impl TensorEntry {
    /// The name of the format of its blocks.
    #[must_use]
    pub fn format_name(&self) -> &'static str {
        self.format.name
    }

    /// Its data.
    #[must_use]
    pub fn data(&self) -> &[u8] {
        &self.bytes
    }

    /// Whether it is of a model whose data was left out.
    pub(crate) fn lacks_data(&self) -> bool {
        self.bytes.is_empty() && !self.shape.contains(&0)
    }

    /// The bytes of its data.
    #[must_use]
    pub fn byte_count(&self) -> usize {
        self.bytes.len()
    }
}

/// What a language model was read of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ModelOrigin {
    /// A GGUF file.
    Gguf,
    /// A folder of safetensors files.
    Safetensors,
}

impl fmt::Display for ModelOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ModelOrigin::Gguf => "GGUF",
            ModelOrigin::Safetensors => "safetensors",
        })
    }
}

/// A language model that has been read.
#[derive(Debug)]
pub struct ModelFile {
    /// What it was read of: the same numbers are written in two ways (`decoder.rs`).
    pub origin: ModelOrigin,
    /// The version of the format.
    pub version: u32,
    /// Keys and their values.
    pub metadata: BTreeMap<String, MetadataValue>,
    /// Tensors by name.
    pub tensors: BTreeMap<String, TensorEntry>,
}

impl ModelFile {
    /// Whether a file begins as one.
    #[must_use]
    pub fn is_one(bytes: &[u8]) -> bool {
        bytes.starts_with(IDENTIFIER)
    }

    /// Reads the bytes of a file.
    ///
    /// # Errors
    /// `TW0120` for what is damaged, cut off or of a version or format that is not known; limits.
    pub fn read(bytes: Bytes, limits: &Limits) -> Accepted<ModelFile> {
        let DescribedFile { version, metadata, entries, data, alignment } =
            ModelFile::described(&bytes, limits)?;
        let tensors = placed(entries, data, alignment, &bytes)?;
        Ok(ModelFile { origin: ModelOrigin::Gguf, version, metadata, tensors })
    }

    /// What the bytes of a file say before the data of tensors.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub(crate) fn described(bytes: &Bytes, limits: &Limits) -> Accepted<DescribedFile> {
        let mut reader = Reader { bytes, at: 0, nesting: limits.nesting };
        if reader.take(IDENTIFIER.len() as u64)?[..] != *IDENTIFIER {
            return Err(damaged("it does not begin with the identifier `GGUF`"));
        }
        let version = reader.u32()?;
        if !VERSIONS.contains(&version) {
            let (first, last) = (VERSIONS.start(), VERSIONS.end());
            let reason = format!("it is of version {version}; {first} to {last} are read");
            return Err(damaged(reason));
        }
        let (tensor_count, key_count) = (reader.u64()?, reader.u64()?);
        // A key takes 8 bytes for its name's length, 4 for its type and at least one for a value;
        // a tensor 8, 4, 4 and 8.
        reader.fits(key_count, 13, "keys")?;
        let mut metadata = BTreeMap::new();
        for _ in 0..key_count {
            let name = reader.name()?;
            let kind = reader.u32()?;
            let value = reader.value(kind);
            let value = value.map_err(|found| found.or_at(|| format!("key \"{name}\"")))?;
            if metadata.insert(name.clone(), value).is_some() {
                return Err(damaged(format!("the key \"{name}\" stands twice")));
            }
        }
        reader.fits(tensor_count, 24, "tensors")?;
        let alignment = match metadata.get("general.alignment") {
            None => ALIGNMENT,
            Some(MetadataValue::Integer(alignment)) => u64::try_from(*alignment)
                .ok()
                .filter(|it| it.is_power_of_two() && *it <= 1 << 20)
                .ok_or_else(|| damaged(format!("an alignment of {alignment}")))?,
            Some(_) => return Err(damaged("an alignment that is no integer")),
        };
        let mut entries = Vec::new();
        for _ in 0..tensor_count {
            entries.push(reader.entry(limits)?);
        }
        let data = (reader.at as u64).next_multiple_of(alignment);
        Ok(DescribedFile { version, metadata, entries, data, alignment })
    }

    /// The bytes of a number or a truth value of a type of the format.
    pub(crate) fn number_bytes(kind: u32) -> Option<usize> {
        match kind {
            0 | 1 | 7 => Some(1),
            2 | 3 => Some(2),
            4..=6 => Some(4),
            10..=12 => Some(8),
            _ => None,
        }
    }

    /// The value of a key that is an integer.
    ///
    /// # Errors
    /// It is of another type.
    pub fn integer(&self, key: &str) -> Accepted<Option<i64>> {
        match self.metadata.get(key) {
            None => Ok(None),
            Some(MetadataValue::Integer(value)) => match i64::try_from(*value) {
                Ok(value) => Ok(Some(value)),
                Err(_) => Err(damaged(format!("the key \"{key}\" is {value}"))),
            },
            Some(_) => Err(damaged(format!("the key \"{key}\" is no integer"))),
        }
    }

    /// The value of a key that is a float; integers count.
    ///
    /// # Errors
    /// It is of another type.
    pub fn float(&self, key: &str) -> Accepted<Option<f64>> {
        match self.metadata.get(key) {
            None => Ok(None),
            Some(MetadataValue::Float(value)) => Ok(Some(*value)),
            Some(MetadataValue::Integer(value)) => Ok(Some(*value as f64)),
            Some(_) => Err(damaged(format!("the key \"{key}\" is no number"))),
        }
    }

    /// The value of a key that is a truth value.
    ///
    /// # Errors
    /// It is of another type.
    pub fn truth(&self, key: &str) -> Accepted<Option<bool>> {
        match self.metadata.get(key) {
            None => Ok(None),
            Some(MetadataValue::Bool(value)) => Ok(Some(*value)),
            Some(_) => Err(damaged(format!("the key \"{key}\" is no truth value"))),
        }
    }

    /// The value of a key that is a text in UTF-8.
    ///
    /// # Errors
    /// It is of another type, or other bytes.
    pub fn text(&self, key: &str) -> Accepted<Option<&str>> {
        match self.metadata.get(key) {
            None => Ok(None),
            Some(MetadataValue::Text(bytes)) => match std::str::from_utf8(bytes) {
                Ok(text) => Ok(Some(text)),
                Err(_) => Err(damaged(format!("the key \"{key}\" is no text in UTF-8"))),
            },
            Some(_) => Err(damaged(format!("the key \"{key}\" is no text"))),
        }
    }

    /// The value of a key that is an array of texts.
    ///
    /// # Errors
    /// It is of another type.
    pub fn texts(&self, key: &str) -> Accepted<Option<&TextList>> {
        match self.metadata.get(key) {
            None => Ok(None),
            Some(MetadataValue::Array(MetadataArray::Texts(texts))) => Ok(Some(texts)),
            Some(_) => Err(damaged(format!("the key \"{key}\" is no array of texts"))),
        }
    }

    /// The value of a key that is an array of numbers, as floats.
    ///
    /// # Errors
    /// It is of another type.
    pub fn numbers(&self, key: &str) -> Accepted<Option<Vec<f64>>> {
        match self.metadata.get(key) {
            None => Ok(None),
            Some(MetadataValue::Array(MetadataArray::Numbers { kind, bytes })) => {
                let mut reader = Reader { bytes, at: 0, nesting: 0 };
                let mut numbers = Vec::new();
                while reader.at < bytes.len() {
                    numbers.push(match reader.value(*kind)? {
                        MetadataValue::Integer(value) => value as f64,
                        MetadataValue::Float(value) => value,
                        MetadataValue::Bool(value) => f64::from(u8::from(value)),
                        _ => return Err(damaged(format!("the key \"{key}\" has no numbers"))),
                    });
                }
                Ok(Some(numbers))
            }
            Some(_) => Err(damaged(format!("the key \"{key}\" is no array of numbers"))),
        }
    }
}

/// What a file says before the data of tensors.
pub(crate) struct DescribedFile {
    pub(crate) version: u32,
    pub(crate) metadata: BTreeMap<String, MetadataValue>,
    pub(crate) entries: Vec<Described>,
    /// Where the data begins, and at multiples of what tensors do.
    data: u64,
    alignment: u64,
}

/// What the file says of a tensor before its data.
pub(crate) struct Described {
    pub(crate) name: String,
    pub(crate) shape: Vec<usize>,
    pub(crate) format: &'static BlockFormat,
    pub(crate) length: u64,
    pub(crate) offset: u64,
}

/// Tensors with their data, none of which lies in another's.
pub(crate) fn placed(
    entries: Vec<Described>,
    data: u64,
    alignment: u64,
    bytes: &Bytes,
) -> Accepted<BTreeMap<String, TensorEntry>> {
    let mut spans: BTreeSet<(u64, u64)> = BTreeSet::new();
    let mut tensors = BTreeMap::new();
    for Described { name, shape, format, length, offset } in entries {
        let wrong = |reason: String| Err(damaged(reason).at(format!("tensor \"{name}\"")));
        if offset % alignment != 0 {
            return wrong(format!("it begins at {offset}, which is no multiple of {alignment}"));
        }
        let start = data.checked_add(offset);
        let end = start.and_then(|start| start.checked_add(length));
        let (Some(start), Some(end)) = (start, end.filter(|end| *end <= bytes.len() as u64)) else {
            let whole = bytes.len();
            return wrong(format!(
                "its {length} bytes from {offset} on lie beyond the file, which has {whole}"
            ));
        };
        let before = spans.range(..(end, 0)).next_back();
        if length > 0 && before.is_some_and(|before| before.1 > start) {
            return wrong("its data is part of another tensor's".to_owned());
        }
        if length > 0 {
            spans.insert((start, end));
        }
        let bytes = bytes.slice(start as usize..end as usize);
        let entry = TensorEntry { name: name.clone(), shape, format, bytes };
        if tensors.insert(name.clone(), entry).is_some() {
            return wrong("its name stands twice".to_owned());
        }
    }
    Ok(tensors)
}

/// How many elements a tensor of a shape has, if that is not too many.
pub(crate) fn elements_of(shape: &[usize], limits: &Limits) -> Accepted<u64> {
    let elements = shape.iter().try_fold(1_u64, |all, &extent| all.checked_mul(extent as u64));
    let elements = elements.ok_or_else(|| damaged(format!("its shape is {shape:?}")))?;
    if elements > limits.elements {
        let (most, message) = (limits.elements, format!("a tensor of {elements} elements"));
        return Err(
            exceeded("elements", elements, message).because(format!("at most {most} are accepted"))
        );
    }
    Ok(elements)
}

/// What is left of a file.
struct Reader<'a> {
    bytes: &'a Bytes,
    at: usize,
    /// How deep arrays may be nested from here on.
    nesting: usize,
}

impl Reader<'_> {
    fn take(&mut self, count: u64) -> Accepted<Bytes> {
        let from = self.advance(count)?;
        Ok(self.bytes.slice(from..self.at))
    }

    /// Goes on behind so many bytes; where they begin.
    fn advance(&mut self, count: u64) -> Accepted<usize> {
        let left = (self.bytes.len() - self.at) as u64;
        if count > left {
            let (at, whole) = (self.at, self.bytes.len());
            let reason = format!("{count} bytes should follow byte {at}, but it has {whole}");
            return Err(damaged(reason));
        }
        let from = self.at;
        self.at += count as usize;
        Ok(from)
    }

    fn array<const N: usize>(&mut self) -> Accepted<[u8; N]> {
        let mut array = [0; N];
        let from = self.advance(N as u64)?;
        array.copy_from_slice(&self.bytes[from..self.at]);
        Ok(array)
    }

    fn u32(&mut self) -> Accepted<u32> {
        self.array().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Accepted<u64> {
        self.array().map(u64::from_le_bytes)
    }

    /// Refuses a count of things that take at least so many bytes each, where fewer are left.
    fn fits(&self, count: u64, least: u64, what: &str) -> Accepted<()> {
        let left = (self.bytes.len() - self.at) as u64;
        if count.checked_mul(least).is_none_or(|bytes| bytes > left) {
            return Err(damaged(format!("it has {left} bytes for {count} {what}")));
        }
        Ok(())
    }

    fn text(&mut self) -> Accepted<Bytes> {
        let length = self.u64()?;
        self.take(length)
    }

    fn name(&mut self) -> Accepted<String> {
        let bytes = self.text()?;
        let name = String::from_utf8(bytes.to_vec());
        name.map_err(|_| damaged("a name is no text in UTF-8"))
    }

    /// The value of a type of the format.
    fn value(&mut self, kind: u32) -> Accepted<MetadataValue> {
        Ok(match kind {
            0 => MetadataValue::Integer(u8::from_le_bytes(self.array()?).into()),
            1 => MetadataValue::Integer(i8::from_le_bytes(self.array()?).into()),
            2 => MetadataValue::Integer(u16::from_le_bytes(self.array()?).into()),
            3 => MetadataValue::Integer(i16::from_le_bytes(self.array()?).into()),
            4 => MetadataValue::Integer(self.u32()?.into()),
            5 => MetadataValue::Integer(i32::from_le_bytes(self.array()?).into()),
            6 => MetadataValue::Float(f32::from_le_bytes(self.array()?).into()),
            7 => match u8::from_le_bytes(self.array()?) {
                truth @ (0 | 1) => MetadataValue::Bool(truth == 1),
                other => return Err(damaged(format!("a truth value of {other}"))),
            },
            8 => MetadataValue::Text(self.text()?),
            9 => MetadataValue::Array(self.values()?),
            10 => MetadataValue::Integer(self.u64()?.into()),
            11 => MetadataValue::Integer(i64::from_le_bytes(self.array()?).into()),
            12 => MetadataValue::Float(f64::from_le_bytes(self.array()?)),
            other => return Err(damaged(format!("a value of the unknown type {other}"))),
        })
    }

    /// The values of an array.
    fn values(&mut self) -> Accepted<MetadataArray> {
        let kind = self.u32()?;
        let count = self.u64()?;
        let size = match kind {
            8 => {
                self.fits(count, 8, "texts")?;
                let rest = self.bytes.slice(self.at..);
                let texts = TextList::read(&rest, count as usize);
                let texts = texts.ok_or_else(|| {
                    damaged(format!("it has {} bytes for {count} texts", rest.len()))
                })?;
                self.at += texts.written().len();
                return Ok(MetadataArray::Texts(texts));
            }
            9 => {
                self.fits(count, 12, "arrays")?;
                let Some(nesting) = self.nesting.checked_sub(1) else {
                    let message = "arrays are nested too deep";
                    return Err(exceeded("nesting", more_than(self.nesting as u64), message)
                        .because("their depth is limited, so that no file exhausts the stack"));
                };
                self.nesting = nesting;
                let arrays = (0..count).map(|_| self.values());
                let arrays = arrays.collect::<Accepted<Vec<MetadataArray>>>()?;
                self.nesting += 1;
                return Ok(MetadataArray::Arrays(arrays));
            }
            other => {
                let unknown = || damaged(format!("an array of the unknown type {other}"));
                ModelFile::number_bytes(other).ok_or_else(unknown)? as u64
            }
        };
        self.fits(count, size, "numbers")?;
        Ok(MetadataArray::Numbers { kind, bytes: self.take(count * size)? })
    }

    /// What is said of a tensor.
    fn entry(&mut self, limits: &Limits) -> Accepted<Described> {
        let name = self.name()?;
        let wrong = |reason: String| damaged(reason).at(format!("tensor \"{name}\""));
        let rank = self.u32()?;
        if rank > MOST_AXES {
            return Err(wrong(format!("{rank} axes, where the format has {MOST_AXES}")));
        }
        let mut shape = Vec::new();
        for _ in 0..rank {
            let extent = self.u64()?;
            shape.push(usize::try_from(extent).map_err(|_| wrong(format!("extent {extent}")))?);
        }
        shape.reverse();
        let elements = elements_of(&shape, limits);
        let elements = elements.map_err(|found| found.at(format!("tensor \"{name}\"")))?;
        let code = self.u32()?;
        let offset = self.u64()?;
        let format = formats::find(code).ok_or_else(|| {
            let known: Vec<&str> = formats::FORMATS.iter().map(|format| format.name).collect();
            Diagnostic::error(codes::UNSUPPORTED_TYPE, format!("a tensor of the format {code}"))
                .at(format!("tensor \"{name}\""))
                .because(format!("these formats are read: {}", known.join(", ")))
                .remedy("quantise the model to one of them")
        })?;
        let row = shape.last().copied().unwrap_or(1);
        if row % format.elements != 0 {
            let (each, name) = (format.elements, format.name);
            return Err(wrong(format!("rows of {row} elements are no blocks of {each} ({name})")));
        }
        let length = elements / format.elements as u64 * format.bytes as u64;
        Ok(Described { name, shape, format, length, offset })
    }
}
