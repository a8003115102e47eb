//! What a caller gives for inputs: a source each, with or without the input's name.

use std::fmt;
use std::path::{Path, PathBuf};

use tilewright::Port;

/// A source of one input or more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GivenInput {
    /// The input that it is for; none where the source names its values itself, or where there is
    /// one input.
    pub name: Option<String>,
    /// Where the value comes from.
    pub source: InputSource,
}

/// Where a value comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InputSource {
    /// A file or a folder.
    File {
        /// Its path.
        path: PathBuf,
        /// Which array of an archive is meant.
        key: Option<String>,
    },
    /// Standard input, of a format that its first bytes tell where none is said.
    StandardInput(Option<FileFormat>),
    /// A string itself.
    Text(String),
}

/// How a file holds values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileFormat {
    /// An array of NumPy's.
    Npy,
    /// Several arrays with names.
    Npz,
    /// A value of ONNX's test data.
    Pb,
    /// An encoded picture.
    Picture,
    /// A table with commas.
    Csv,
    /// A table with tabulators.
    Tsv,
    /// Lines, or numbers between blanks.
    Text,
    /// Nested lists.
    Json,
}

/// Formats by the names that files end in.
const EXTENSIONS: &[(&str, FileFormat)] = &[
    ("npy", FileFormat::Npy),
    ("npz", FileFormat::Npz),
    ("pb", FileFormat::Pb),
    ("png", FileFormat::Picture),
    ("jpg", FileFormat::Picture),
    ("jpeg", FileFormat::Picture),
    ("bmp", FileFormat::Picture),
    ("webp", FileFormat::Picture),
    ("tif", FileFormat::Picture),
    ("tiff", FileFormat::Picture),
    ("csv", FileFormat::Csv),
    ("tsv", FileFormat::Tsv),
    ("txt", FileFormat::Text),
    ("json", FileFormat::Json),
];

impl FileFormat {
    /// The format of files with this ending, of any case.
    #[must_use]
    pub fn of_extension(extension: &str) -> Option<FileFormat> {
        let is = |row: &&(&str, FileFormat)| row.0.eq_ignore_ascii_case(extension);
        EXTENSIONS.iter().find(is).map(|row| row.1)
    }

    /// The format that the name of a file tells.
    #[must_use]
    pub fn of_path(path: &Path) -> Option<FileFormat> {
        FileFormat::of_extension(path.extension()?.to_str()?)
    }
}

/// `NAME=REST` taken apart where the name is one of those known, or no file has the whole name.
pub(crate) fn split_name<'t>(text: &'t str, known: &[Port]) -> (Option<&'t str>, &'t str) {
    // Names may hold the sign themselves: the longest that is known counts.
    let mut splits = text.match_indices('=').map(|(at, _)| (&text[..at], &text[at + 1..]));
    let is_known = |name: &str| known.iter().any(|port| port.name == name);
    if let Some((name, rest)) = splits.rfind(|(name, _)| is_known(name)) {
        return (Some(name), rest);
    }
    match text.split_once('=') {
        Some((name, rest)) if !Path::new(text).exists() => (Some(name), rest),
        _ => (None, text),
    }
}

impl GivenInput {
    /// Reads `FILE` or `NAME=FILE`: a file is also a folder, `FILE.npz:KEY`, or `-` for standard
    /// input and `-:csv` for standard input of a format.
    #[must_use]
    pub fn parse(text: &str, ports: &[Port]) -> GivenInput {
        let (name, rest) = split_name(text, ports);
        GivenInput { name: name.map(str::to_owned), source: InputSource::parse(rest) }
    }

    /// Reads `STRING` or `NAME=STRING`, the second only with the name of an input.
    #[must_use]
    pub fn parse_text(text: &str, ports: &[Port]) -> GivenInput {
        let is_only = ports.len() == 1;
        let (name, rest) = match text.split_once('=') {
            Some((name, rest)) if !is_only || ports[0].name == name => (Some(name), rest),
            _ => (None, text),
        };
        GivenInput { name: name.map(str::to_owned), source: InputSource::Text(rest.to_owned()) }
    }
}

impl InputSource {
    fn parse(text: &str) -> InputSource {
        if text == "-" {
            return InputSource::StandardInput(None);
        }
        if let Some(format) = text.strip_prefix("-:").and_then(FileFormat::of_extension) {
            return InputSource::StandardInput(Some(format));
        }
        let (path, key) = match text.rsplit_once(".npz:") {
            Some((stem, key)) if !Path::new(text).exists() => {
                (PathBuf::from(format!("{stem}.npz")), Some(key.to_owned()))
            }
            _ => (PathBuf::from(text), None),
        };
        InputSource::File { path, key }
    }
}

impl fmt::Display for InputSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            InputSource::File { path, key: None } => write!(f, "{}", path.display()),
            InputSource::File { path, key: Some(key) } => write!(f, "{}:{key}", path.display()),
            InputSource::StandardInput(_) => f.write_str("standard input"),
            InputSource::Text(text) => write!(f, "the text {text:?}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sentences::tests::port;

    #[test]
    fn names_are_told_from_paths() {
        let ports = [port("a=b: f32[2]"), port("x: f32[2]")];
        let named = |text: &str| GivenInput::parse(text, &ports);
        let file = |path: &str, key: Option<&str>| InputSource::File {
            path: path.into(),
            key: key.map(str::to_owned),
        };
        assert_eq!(named("a=b=c").name.as_deref(), Some("a=b"));
        assert_eq!(named("y=c.npy").name.as_deref(), Some("y"), "a name that is not known");
        assert_eq!(named("c.npy"), GivenInput { name: None, source: file("c.npy", None) });
        assert_eq!(named("x=c.npz:k").source, file("c.npz", Some("k")));
        assert_eq!(named("x=-").source, InputSource::StandardInput(None));
        assert_eq!(named("-:csv").source, InputSource::StandardInput(Some(FileFormat::Csv)));
    }

    #[test]
    fn a_text_may_hold_the_sign() {
        let one = [port("x: string[1]")];
        assert_eq!(GivenInput::parse_text("1+1=2", &one).name, None);
        assert_eq!(
            GivenInput::parse_text("x=a=b", &one).source,
            InputSource::Text("a=b".to_owned())
        );
    }
}
