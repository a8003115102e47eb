//! What a source holds, before it is known which input it is for.

use std::io::Read;
use std::path::{Path, PathBuf};

use base::limits::{exceeded, more_than};
use base::{Diagnostic, InOrder, Limits, Result, codes};
use bytes::Bytes;
use tensor::Tensor;
use tensor::mapped::{cannot_read, read_plain};

use crate::given::{FileFormat, InputSource};
use crate::sentences::malformed;
use crate::table::Table;

/// What a source holds.
pub(crate) enum Content {
    /// An array.
    Array(Tensor),
    /// Arrays by name.
    Archive(Vec<(String, Tensor)>),
    /// A file with a value of the kind that its input declares.
    Recorded(PathBuf),
    /// A folder with the inputs of a case.
    Case(PathBuf),
    /// Pictures, in order.
    Pictures(Vec<Encoded>),
    /// Rows of fields.
    Table(Table),
    /// Text in a file.
    Text(String),
    /// One string.
    Word(String),
    /// Nested lists, or an object.
    Json(serde_json::Value),
}

/// An encoded picture.
pub(crate) struct Encoded {
    /// Its file.
    pub(crate) place: String,
    /// Its bytes.
    #[cfg_attr(not(feature = "images"), expect(dead_code, reason = "nothing decodes them"))]
    pub(crate) bytes: Bytes,
}

/// Opens a source.
pub(crate) fn open(source: &InputSource, limits: &Limits) -> Result<Content> {
    match source {
        InputSource::Text(text) => Ok(Content::Word(text.clone())),
        InputSource::StandardInput(format) => {
            decode(from_standard_input(limits)?, *format, &source.to_string())
        }
        InputSource::File { path, .. } if path.is_dir() => open_folder(path, limits),
        InputSource::File { path, .. } => open_file(path, limits),
    }
}

fn open_file(path: &Path, limits: &Limits) -> Result<Content> {
    let place = path.display().to_string();
    let format = FileFormat::of_path(path);
    match format {
        Some(FileFormat::Pb) => Ok(Content::Recorded(path.to_owned())),
        Some(FileFormat::Npy) => Ok(Content::Array(tensor::npy::read(path)?)),
        Some(FileFormat::Npz) => Ok(Content::Archive(tensor::npz::read(path)?)),
        _ => decode(bounded(path, limits)?, format, &place),
    }
}

/// The bytes of a plain file of a size that is accepted.
pub(crate) fn bounded(path: &Path, limits: &Limits) -> Result<Bytes> {
    let size = path.metadata().map_err(|error| cannot_read(path, &error))?.len();
    if size > limits.input_bytes {
        let place = path.display().to_string();
        return Err(too_large(&place, &format!("{size} bytes"), size, limits).into());
    }
    Ok(read_plain(path)?.into())
}

fn too_large(place: &str, size: &str, needed: u64, limits: &Limits) -> Diagnostic {
    exceeded("input-bytes", needed, format!("the file has {size}"))
        .at(place)
        .because(format!("at most {} are read", limits.input_bytes))
}

fn from_standard_input(limits: &Limits) -> Result<Bytes> {
    let mut bytes = Vec::new();
    let most = limits.input_bytes;
    let read = std::io::stdin().lock().take(most.saturating_add(1)).read_to_end(&mut bytes);
    read.map_err(|error| cannot_read(Path::new("standard input"), &error))?;
    if bytes.len() as u64 > most {
        let needed = more_than(most);
        return Err(too_large("standard input", "more bytes than are read", needed, limits).into());
    }
    Ok(bytes.into())
}

/// The format that the first bytes tell; of a text with a comma or a tabulator in its first line a
/// table.
fn sniffed(bytes: &[u8]) -> FileFormat {
    if bytes.starts_with(b"\x93NUMPY") {
        return FileFormat::Npy;
    }
    if bytes.starts_with(b"PK\x03\x04") || bytes.starts_with(b"PK\x05\x06") {
        return FileFormat::Npz;
    }
    if crate::picture::is_picture(bytes) {
        return FileFormat::Picture;
    }
    let line = bytes.split(|byte| *byte == b'\n').next().unwrap_or_default();
    match bytes.iter().find(|byte| !byte.is_ascii_whitespace()) {
        Some(b'[' | b'{') => FileFormat::Json,
        _ if line.contains(&b'\t') => FileFormat::Tsv,
        _ if line.contains(&b',') => FileFormat::Csv,
        _ => FileFormat::Text,
    }
}

fn decode(bytes: Bytes, format: Option<FileFormat>, place: &str) -> Result<Content> {
    let format = format.unwrap_or_else(|| sniffed(&bytes));
    Ok(match format {
        FileFormat::Npy => Content::Array(tensor::npy::decode(bytes, place)?),
        FileFormat::Npz => Content::Archive(tensor::npz::decode_archive(bytes, place)?),
        FileFormat::Picture => Content::Pictures(vec![Encoded { place: place.to_owned(), bytes }]),
        FileFormat::Csv => Content::Table(Table::parse(text(&bytes, place)?, ',', place)?),
        FileFormat::Tsv => Content::Table(Table::parse(text(&bytes, place)?, '\t', place)?),
        FileFormat::Text => Content::Text(text(&bytes, place)?.to_owned()),
        FileFormat::Json => Content::Json(json(text(&bytes, place)?, place)?),
        FileFormat::Pb => {
            let refused = malformed("ONNX test data", place, "it is read from files only");
            return Err(refused.remedy("write it to a file, and give `--input FILE.pb`").into());
        }
    })
}

/// UTF-8, a mark at its beginning left out.
pub(crate) fn text<'b>(bytes: &'b [u8], place: &str) -> Result<&'b str> {
    let text = std::str::from_utf8(bytes).map_err(|error| {
        let reason = format!("byte {} is not UTF-8", error.valid_up_to());
        malformed("a text", place, reason).remedy("save it as UTF-8, or give it its own extension")
    })?;
    Ok(text.strip_prefix('\u{feff}').unwrap_or(text))
}

/// JSON of any form.
pub(crate) fn json(text: &str, place: &str) -> Result<serde_json::Value> {
    serde_json::from_str(text).map_err(|error| {
        let remedy = "give nested lists of numbers or strings; \"NaN\" and \"Infinity\" are quoted";
        malformed("JSON", place, error.to_string()).remedy(remedy).into()
    })
}

/// The inputs of a case, or pictures in the order of their names.
fn open_folder(folder: &Path, limits: &Limits) -> Result<Content> {
    if folder.join("input_0.pb").is_file() {
        return Ok(Content::Case(folder.to_owned()));
    }
    let entries = folder.read_dir().map_err(|error| cannot_read(folder, &error))?;
    let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    paths.retain(|path| FileFormat::of_path(path) == Some(FileFormat::Picture) && path.is_file());
    paths.put_in_order();
    if paths.is_empty() {
        let refused = Diagnostic::error(codes::CANNOT_READ_FILE, "the folder holds no inputs");
        return Err(refused
            .at(folder.display().to_string())
            .because("there is no `input_0.pb` in it, and no picture")
            .remedy("give a folder of ONNX test data or of pictures, or a file")
            .into());
    }
    let read = |path: &PathBuf| {
        let bytes = bounded(path, limits)?;
        Ok(Encoded { place: path.display().to_string(), bytes })
    };
    Ok(Content::Pictures(paths.iter().map(read).collect::<Result<Vec<Encoded>>>()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_bytes_tell_the_format() {
        for (bytes, format) in [
            (&b"\x93NUMPY\x01"[..], FileFormat::Npy),
            (b"PK\x03\x04", FileFormat::Npz),
            (b" [1]", FileFormat::Json),
            (b"{}", FileFormat::Json),
            (b"1,2\n3,4", FileFormat::Csv),
            (b"1\t2", FileFormat::Tsv),
            (b"1 2\n3,4", FileFormat::Text),
            (b"", FileFormat::Text),
        ] {
            assert_eq!(sniffed(bytes), format, "{bytes:?}");
        }
    }
}
