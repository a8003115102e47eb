//! NumPy's `.npy` files.
//!
//! Source: NumPy's `numpy.lib.format`, versions 1.0, 2.0 and 3.0. Read: booleans, integers and
//! floats of 8 to 64 bits and `U` strings, of either byte order, in C or Fortran order. Bytes after
//! the elements are ignored. Written: version 1.0, little-endian, C order. Types that NumPy lacks
//! are written as the narrowest one that holds all their values: `bf16` and shorter floats as
//! `f32`, `i4` and `i2` as `i8`, `u4` and `u2` as `u8`.
//!
//! A file is written whole or not at all.

use std::io::{self, Write};
use std::path::Path;

use base::{Diagnostic, codes};
use bytes::Bytes;

use crate::dtype::{Class, DType};
use crate::mapped::read_plain;
use crate::staged::StagedFiles;
use crate::tensor::{Tensor, element_count};

const MAGIC: &[u8] = b"\x93NUMPY";

/// Reads a file.
///
/// # Errors
/// A diagnostic with the file's name when it cannot be read or is not a well-formed `.npy` file of
/// a supported type.
pub fn read(path: impl AsRef<Path>) -> base::Result<Tensor> {
    let path = path.as_ref();
    let bytes = read_plain(path)?;
    decode(bytes.into(), &path.display().to_string())
}

/// Reads a file's content; little-endian elements in C order are shared with it. `place` names it
/// in diagnostics.
///
/// # Errors
/// As [`read`].
pub fn decode(bytes: Bytes, place: &str) -> base::Result<Tensor> {
    decode_or_reason(bytes).map_err(|reason| bad_file(place, &reason).into())
}

/// The diagnostic of a file that is not what it should be.
pub(crate) fn bad_file(place: &str, reason: &str) -> Diagnostic {
    Diagnostic::error(codes::BAD_NPY_FILE, "this is not an .npy file that can be read")
        .at(place)
        .because(reason)
        .remedy("save the array anew with numpy.save, as a boolean, integer or float array")
}

fn decode_or_reason(bytes: Bytes) -> Result<Tensor, String> {
    let (header, start) = split_header(&bytes)?;
    let header = Header::parse(header)?;
    let Some(count) = element_count(&header.shape) else {
        return Err(format!("the shape {:?} is too large", header.shape));
    };
    let size = count.checked_mul(header.element.size);
    let elements =
        size.and_then(|size| bytes.len().checked_sub(start).filter(|left| *left >= size));
    let (Some(size), Some(_)) = (size, elements) else {
        let left = bytes.len().saturating_sub(start);
        return Err(format!("the file ends early: {count} elements in {left} bytes"));
    };
    let mut elements = bytes.slice(start..start + size);
    if header.element.big_endian && header.element.swap_width() > 1 {
        let mut swapped = elements.to_vec();
        swapped.chunks_exact_mut(header.element.swap_width()).for_each(<[u8]>::reverse);
        elements = swapped.into();
    }
    if header.fortran_order {
        elements = transpose(&elements, &header.shape, header.element.size).into();
    }
    match header.element.dtype {
        DType::String => decode_strings(&header.shape, &elements, header.element.size),
        dtype => Tensor::from_bytes(dtype, &header.shape, elements),
    }
}

/// The header's text and where the elements begin.
fn split_header(bytes: &[u8]) -> Result<(&str, usize), String> {
    let rest = bytes.strip_prefix(MAGIC).ok_or("it does not begin with the magic of .npy files")?;
    let (length, start) = match rest {
        [1, _, a, b, ..] => (usize::from(u16::from_le_bytes([*a, *b])), 10),
        [2 | 3, _, a, b, c, d, ..] => (u32::from_le_bytes([*a, *b, *c, *d]) as usize, 12),
        [version @ (0 | 4..=255), ..] => return Err(format!("unknown version {version}")),
        _ => return Err("the file ends inside its header".to_owned()),
    };
    let end = start + length;
    let text = bytes.get(start..end).ok_or("the file ends inside its header")?;
    let text = std::str::from_utf8(text).map_err(|_| "the header is not text")?;
    Ok((text, end))
}

/// An element as the file has it.
#[derive(Clone, Copy, Debug, PartialEq)]
struct FileElement {
    dtype: DType,
    /// Bytes an element takes; of a string, 4 a character.
    size: usize,
    big_endian: bool,
}

impl FileElement {
    /// Reads NumPy's description, such as `<f4`, `|b1` or `>U12`.
    fn parse(text: &str) -> Result<FileElement, String> {
        let unknown = || format!("elements of type '{text}' are not supported");
        let (order, rest) = match text.as_bytes().first() {
            Some(b'<' | b'>' | b'|' | b'=') => text.split_at(1),
            _ => ("=", text),
        };
        let mut characters = rest.chars();
        let kind = characters.next().ok_or_else(unknown)?;
        let size: usize = characters.as_str().parse().map_err(|_| unknown())?;
        let dtype = match (kind, size) {
            ('b', 1) | ('?', 1) => DType::Bool,
            ('i', 1) => DType::I8,
            ('i', 2) => DType::I16,
            ('i', 4) => DType::I32,
            ('i', 8) => DType::I64,
            ('u', 1) => DType::U8,
            ('u', 2) => DType::U16,
            ('u', 4) => DType::U32,
            ('u', 8) => DType::U64,
            ('f', 2) => DType::F16,
            ('f', 4) => DType::F32,
            ('f', 8) => DType::F64,
            ('U', _) => DType::String,
            _ => return Err(unknown()),
        };
        let size = match dtype {
            DType::String => size.checked_mul(4).ok_or_else(unknown)?,
            _ => size,
        };
        Ok(FileElement { dtype, size, big_endian: order == ">" })
    }

    /// The bytes that change places between byte orders.
    fn swap_width(&self) -> usize {
        if self.dtype == DType::String { 4 } else { self.size }
    }
}

/// The header's dictionary.
#[derive(Debug, PartialEq)]
struct Header {
    element: FileElement,
    fortran_order: bool,
    shape: Vec<usize>,
}

impl Header {
    /// Reads `{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }`: the keys in any order,
    /// any white space, either quote, and Python 2's `2L`.
    fn parse(text: &str) -> Result<Header, String> {
        let mut reader = Reader { rest: text };
        let (mut element, mut fortran_order, mut shape) = (None, None, None);
        reader.expect('{')?;
        while !reader.accept('}') {
            let key = reader.quoted()?;
            reader.expect(':')?;
            match key {
                "descr" => element = Some(FileElement::parse(reader.description()?)?),
                "fortran_order" => fortran_order = Some(reader.boolean()?),
                "shape" => shape = Some(reader.shape()?),
                _ => return Err(format!("the header has an unknown key '{key}'")),
            }
            if !reader.accept(',') {
                reader.expect('}')?;
                break;
            }
        }
        let missing = |key| format!("the header lacks '{key}'");
        Ok(Header {
            element: element.ok_or_else(|| missing("descr"))?,
            fortran_order: fortran_order.ok_or_else(|| missing("fortran_order"))?,
            shape: shape.ok_or_else(|| missing("shape"))?,
        })
    }
}

/// Reads the few Python literals a header is made of.
struct Reader<'t> {
    rest: &'t str,
}

impl<'t> Reader<'t> {
    fn accept(&mut self, symbol: char) -> bool {
        self.rest = self.rest.trim_start();
        let after = self.rest.strip_prefix(symbol);
        self.rest = after.unwrap_or(self.rest);
        after.is_some()
    }

    fn expect(&mut self, symbol: char) -> Result<(), String> {
        if self.accept(symbol) { Ok(()) } else { Err(self.wanted(&format!("'{symbol}'"))) }
    }

    fn wanted(&self, what: &str) -> String {
        let found: String = self.rest.chars().take(16).collect();
        format!("the header has {found:?} where {what} should be")
    }

    fn quoted(&mut self) -> Result<&'t str, String> {
        let quote = if self.accept('"') { '"' } else { '\'' };
        if quote == '\'' {
            self.expect(quote)?;
        }
        let (text, rest) = self.rest.split_once(quote).ok_or_else(|| self.wanted("a string"))?;
        self.rest = rest;
        Ok(text)
    }

    fn description(&mut self) -> Result<&'t str, String> {
        if self.accept('[') {
            return Err("structured elements are not supported".to_owned());
        }
        self.quoted()
    }

    fn word(&mut self) -> &'t str {
        self.rest = self.rest.trim_start();
        let end = self.rest.find(|c: char| !c.is_alphanumeric()).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest;
        word
    }

    fn boolean(&mut self) -> Result<bool, String> {
        match self.word() {
            "True" => Ok(true),
            "False" => Ok(false),
            _ => Err(self.wanted("True or False")),
        }
    }

    fn shape(&mut self) -> Result<Vec<usize>, String> {
        let mut shape = Vec::new();
        self.expect('(')?;
        while !self.accept(')') {
            let extent = self.word();
            let digits = extent.strip_suffix('L').unwrap_or(extent);
            shape.push(digits.parse().map_err(|_| self.wanted("an extent"))?);
            if !self.accept(',') {
                self.expect(')')?;
                break;
            }
        }
        Ok(shape)
    }
}

/// Fortran order (first axis fastest) to C order (last axis fastest).
fn transpose(source: &[u8], shape: &[usize], size: usize) -> Vec<u8> {
    let mut result = Vec::with_capacity(source.len());
    if source.is_empty() {
        return result;
    }
    let mut strides = Vec::with_capacity(shape.len());
    let mut stride = 1;
    for extent in shape {
        strides.push(stride);
        stride *= extent;
    }
    let mut position = vec![0; shape.len()];
    let mut offset = 0;
    for _ in 0..source.len() / size {
        result.extend_from_slice(&source[offset * size..][..size]);
        for axis in (0..shape.len()).rev() {
            position[axis] += 1;
            offset += strides[axis];
            if position[axis] < shape[axis] {
                break;
            }
            offset -= strides[axis] * shape[axis];
            position[axis] = 0;
        }
    }
    result
}

/// Strings of 4-byte characters, padded with zeros at the end.
fn decode_strings(shape: &[usize], bytes: &[u8], size: usize) -> Result<Tensor, String> {
    let count = element_count(shape).unwrap_or(0);
    if size == 0 {
        return Ok(Tensor::from_strings(shape, vec![String::new(); count]));
    }
    let mut strings = Vec::with_capacity(count);
    for element in bytes.chunks_exact(size) {
        let mut text = String::new();
        for code in element.chunks_exact(4) {
            let code = u32::from_le_bytes([code[0], code[1], code[2], code[3]]);
            text.push(char::from_u32(code).ok_or("a string holds what is not a character")?);
        }
        text.truncate(text.trim_end_matches('\0').len());
        strings.push(text);
    }
    Ok(Tensor::from_strings(shape, strings))
}

/// The most bytes behind strings that are shorter than the longest.
const MOST_PADDED: usize = 1 << 30;

#[cfg(test)]
pub(crate) fn encode(tensor: &Tensor) -> Vec<u8> {
    let mut content = Vec::new();
    encode_to(tensor, &mut content).expect("memory takes it");
    content
}

/// Writes a file's content, version 1.0 (2.0 if the shape is too long for it).
///
/// # Errors
/// Those of the writer; for strings of which a long one would make all others far longer, as a file
/// gives each as much room as the longest.
pub fn encode_to(tensor: &Tensor, file: &mut impl Write) -> io::Result<()> {
    let tensor = tensor.cast(file_dtype(tensor.dtype()));
    let characters = tensor
        .strings()
        .map(|strings| strings.iter().map(|text| text.chars().count()).max().unwrap_or(0).max(1));
    if let (Some(strings), Some(characters)) = (tensor.strings(), characters) {
        let bytes = characters.saturating_mul(strings.len()).saturating_mul(4);
        let texts: usize = strings.iter().map(String::len).sum();
        if bytes > MOST_PADDED.saturating_add(texts.saturating_mul(4)) {
            let message = format!("each string would take the room of the longest, {bytes} bytes");
            return Err(io::Error::other(message));
        }
    }
    let mut header = format!(
        "{{'descr': '{}', 'fortran_order': False, 'shape': {}, }}",
        description(tensor.dtype(), characters),
        shape_text(tensor.shape())
    );
    // The elements begin at a multiple of 64; the line break is part of the header.
    let long = header.len() + 64 > usize::from(u16::MAX);
    let prefix = if long { 12 } else { 10 };
    while (prefix + header.len() + 1) % 64 != 0 {
        header.push(' ');
    }
    header.push('\n');
    file.write_all(MAGIC)?;
    if long {
        file.write_all(&[2, 0])?;
        file.write_all(&(header.len() as u32).to_le_bytes())?;
    } else {
        file.write_all(&[1, 0])?;
        file.write_all(&(header.len() as u16).to_le_bytes())?;
    }
    file.write_all(header.as_bytes())?;
    match (tensor.strings(), characters) {
        (Some(strings), Some(characters)) => {
            for text in strings {
                let codes = text.chars().map(u32::from).chain(std::iter::repeat(0));
                let mut codes = codes.take(characters).map(u32::to_le_bytes);
                codes.try_for_each(|code| file.write_all(&code))?;
            }
            Ok(())
        }
        _ => file.write_all(tensor.bytes()),
    }
}

/// The type that a type is written as.
fn file_dtype(dtype: DType) -> DType {
    match dtype.class() {
        Class::Float if dtype.bits() <= 8 || dtype == DType::BF16 => DType::F32,
        Class::Signed if dtype.bits() < 8 => DType::I8,
        Class::Unsigned if dtype.bits() < 8 => DType::U8,
        _ => dtype,
    }
}

fn description(dtype: DType, characters: Option<usize>) -> String {
    let kind = match dtype.class() {
        Class::Float => 'f',
        Class::Signed => 'i',
        Class::Unsigned => 'u',
        Class::Bool => 'b',
        Class::String => 'U',
    };
    let size = characters.unwrap_or(dtype.bits() as usize / 8);
    let order = if dtype.bits() == 8 { '|' } else { '<' };
    format!("{order}{kind}{size}")
}

/// A Python tuple; one extent needs its comma.
fn shape_text(shape: &[usize]) -> String {
    match shape {
        [extent] => format!("({extent},)"),
        _ => {
            let extents: Vec<String> = shape.iter().map(usize::to_string).collect();
            format!("({})", extents.join(", "))
        }
    }
}

/// Writes a file, whole or not at all; one that is there is replaced.
///
/// # Errors
/// A diagnostic with the file's name when the folder or the disk does not take it.
pub fn write(path: impl AsRef<Path>, tensor: &Tensor) -> base::Result<()> {
    let mut files = StagedFiles::new();
    files.write(path, |file| encode_to(tensor, file))?;
    files.commit()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::random;
    use proptest::prelude::*;

    fn file(header: &str, elements: &[u8]) -> Bytes {
        let mut file = b"\x93NUMPY\x01\x00".to_vec();
        file.extend((header.len() as u16).to_le_bytes());
        file.extend(header.as_bytes());
        file.extend(elements);
        file.into()
    }

    fn reason(bytes: Bytes) -> String {
        let diagnostics = decode(bytes, "x.npy").expect_err("refused");
        assert_eq!(diagnostics[0].code, codes::BAD_NPY_FILE);
        assert_eq!(diagnostics[0].place.as_deref(), Some("x.npy"));
        diagnostics[0].reasons.join("; ")
    }

    #[test]
    fn what_is_written() {
        let bytes = encode(&Tensor::from_vec(&[2], vec![1u8, 2]));
        let mut expected = b"\x93NUMPY\x01\x00\x76\x00".to_vec();
        expected.extend(b"{'descr': '|u1', 'fortran_order': False, 'shape': (2,), }");
        expected.resize(127, b' ');
        expected.extend(b"\n\x01\x02");
        assert_eq!(bytes, expected);
    }

    #[test]
    fn big_endian_fortran_and_loose_headers() {
        let header = "{ \"shape\":(2L,3),'fortran_order' : True,'descr':'>i2'}";
        let elements = [0, 1, 0, 4, 0, 2, 0, 5, 0, 3, 0, 6, 99];
        let tensor = decode(file(header, &elements), "x").expect("read");
        assert_eq!(tensor, Tensor::from_vec(&[2, 3], vec![1i16, 2, 3, 4, 5, 6]));
        let header = "{'descr': '<f8', 'fortran_order': False, 'shape': ()}\n";
        let tensor = decode(file(header, &1.5f64.to_le_bytes()), "x").expect("read");
        assert_eq!(tensor, Tensor::scalar(crate::Scalar::f64(1.5)));
    }

    #[test]
    fn later_versions_have_a_longer_length() {
        let one = encode(&Tensor::from_vec(&[2], vec![1u8, 2]));
        for version in [2, 3] {
            let mut file = MAGIC.to_vec();
            file.extend([version, 0, one[8], one[9], 0, 0]);
            file.extend(&one[10..]);
            assert_eq!(decode(file.into(), "x").expect("read").to_f64_vec(), [1.0, 2.0]);
        }
        let shape = [1; 30_000];
        let bytes = encode(&Tensor::zeros(DType::U8, &shape));
        assert_eq!(bytes[6], 2);
        assert_eq!(decode(bytes.into(), "x").expect("read").shape(), shape);
    }

    #[test]
    fn refusals() {
        let with = |descr: &str, shape: &str| {
            let header = format!("{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}}}");
            reason(file(&header, &[0; 8]))
        };
        assert_eq!(with("'<c8'", "(1,)"), "elements of type '<c8' are not supported");
        assert_eq!(with("'|O'", "(1,)"), "elements of type '|O' are not supported");
        assert_eq!(with("[('a', '<f4')]", "(1,)"), "structured elements are not supported");
        assert_eq!(with("'<f4'", "(3,)"), "the file ends early: 3 elements in 8 bytes");
        assert!(with("'<f4'", "(-1,)").starts_with("the header has"));
        let large = "(4611686018427387904, 8)";
        assert_eq!(with("'<f4'", large), "the shape [4611686018427387904, 8] is too large");
        assert_eq!(
            with("'<f4'", "(4611686018427387904,)"),
            "the file ends early: 4611686018427387904 elements in 8 bytes"
        );
        assert_eq!(reason(file("{}", &[])), "the header lacks 'descr'");
        assert_eq!(reason(Bytes::from_static(b"\x93NUMPY\x01")), "the file ends inside its header");
        assert_eq!(reason(Bytes::from_static(b"\x93NUMPY\x04\x00")), "unknown version 4");
        assert!(reason(Bytes::from_static(b"PK")).contains("magic"));
    }

    #[test]
    fn to_disk_and_back() {
        let folder = std::env::temp_dir().join(format!("tilewright-npy-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a writable temporary folder");
        let path = folder.join("a.npy");
        let tensor = random(DType::F32, &[3, 5], 1);
        for _ in 0..2 {
            write(&path, &tensor).expect("written");
        }
        assert_eq!(read(&path).expect("read"), tensor);
        assert_eq!(std::fs::read_dir(&folder).expect("listed").count(), 1);
        std::fs::remove_dir_all(&folder).expect("removed");
        let code = |result: base::Result<()>| result.expect_err("refused")[0].code;
        assert_eq!(code(write(&path, &tensor)), codes::CANNOT_WRITE_FILE);
        assert_eq!(code(read(&path).map(|_| ())), codes::CANNOT_READ_FILE);
    }

    #[test]
    fn types_numpy_lacks_are_widened() {
        let tensor = random(DType::BF16, &[4], 1);
        assert_eq!(decode(encode(&tensor).into(), "x").expect("read"), tensor.cast(DType::F32));
        let tensor =
            Tensor::from_scalars(DType::I4, &[1], &[crate::Scalar::from_i64(DType::I4, -3)]);
        assert_eq!(decode(encode(&tensor).into(), "x").expect("read").dtype(), DType::I8);
    }

    #[test]
    fn strings_that_one_would_make_huge_are_refused() {
        let mut texts = vec![String::new(); 3000];
        texts[7] = "a".repeat(200_000);
        let tensor = Tensor::from_strings(&[3000], texts);
        let error = encode_to(&tensor, &mut io::sink()).expect_err("2.4 GB");
        assert!(error.to_string().contains("2400000000 bytes"), "{error}");
    }

    #[test]
    fn strings_survive() {
        let texts = ["", "abc", "äöü€"].map(str::to_owned).to_vec();
        let tensor = Tensor::from_strings(&[3], texts);
        assert_eq!(decode(encode(&tensor).into(), "x").expect("read"), tensor);
    }

    proptest! {
        #[test]
        fn round_trips(
            dtype in prop::sample::select(vec![
                DType::F64, DType::F32, DType::F16, DType::I64, DType::I32, DType::I16, DType::I8,
                DType::U64, DType::U32, DType::U16, DType::U8, DType::Bool,
            ]),
            shape in prop::collection::vec(0usize..4, 0..5),
            seed in any::<u64>(),
        ) {
            let tensor = random(dtype, &shape, seed);
            let bytes = encode(&tensor);
            prop_assert_eq!((bytes.len() - tensor.bytes().len()) % 64, 0);
            prop_assert_eq!(decode(bytes.into(), "x").expect("read"), tensor);
        }

        #[test]
        fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            let mut file = b"\x93NUMPY".to_vec();
            file.extend(bytes);
            let _ = decode(file.into(), "x");
        }
    }
}
