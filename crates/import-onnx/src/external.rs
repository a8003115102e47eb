//! External data: tensors whose bytes lie in files beside the model.
//!
//! A file is read only if, with all symbolic links followed, it is a plain file inside the model's
//! folder; it is mapped once and shared by the tensors in it, never copied.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};

use base::{Diagnostic, codes};
use bytes::Bytes;

use crate::proto::TensorProto;

/// The files beside a model.
#[derive(Debug)]
pub(crate) struct ExternalData {
    /// The model's folder; none for a model that is not a file.
    folder: Option<PathBuf>,
    /// The files mapped so far, by the location that the model gives.
    files: RefCell<BTreeMap<String, Bytes>>,
}

type Result<T> = std::result::Result<T, Diagnostic>;

impl ExternalData {
    /// The files in `folder`.
    pub(crate) fn new(folder: Option<&Path>) -> ExternalData {
        let folder = folder.map(|folder| {
            // The parent of a bare file name is the empty path.
            if folder.as_os_str().is_empty() { PathBuf::from(".") } else { folder.to_owned() }
        });
        ExternalData { folder, files: RefCell::default() }
    }

    /// The bytes of a tensor that `needs` so many of them.
    pub(crate) fn bytes(&self, tensor: &TensorProto, needs: usize) -> Result<Bytes> {
        let mut keys = BTreeSet::new();
        if let Some(twice) = tensor.external_data.iter().find(|entry| !keys.insert(&entry.key)) {
            let message = format!("the {} of external data is given twice", twice.key);
            return Err(Diagnostic::error(codes::DUPLICATE_NAME, message)
                .because("nothing says which of them counts")
                .remedy("keep one of them, or export the model again"));
        }
        let entry = |key: &str| {
            tensor.external_data.iter().find(|entry| entry.key == key).map(|entry| &entry.value)
        };
        let Some(location) = entry("location").filter(|location| !location.is_empty()) else {
            let message = "a tensor with external data does not say in which file".to_owned();
            return Err(malformed(message, "its entry `location` is missing or empty".to_owned()));
        };
        let offset = entry("offset").map_or(Ok(0), |text| number("offset", text))?;
        let length = entry("length").map_or(Ok(needs), |text| number("length", text))?;
        if length != needs {
            let message =
                format!("external data of {length} bytes for a tensor that takes {needs}");
            let reason = "the length given differs from that of the type and shape".to_owned();
            return Err(malformed(message, reason));
        }
        let file = self.file(location)?;
        match offset.checked_add(length).filter(|end| *end <= file.len()) {
            Some(end) => Ok(file.slice(offset..end)),
            None => {
                let message = format!("external data beyond the end of `{location}`");
                let (end, has) = (format!("{length} bytes at {offset}"), file.len());
                Err(Diagnostic::error(codes::EXTERNAL_DATA_MISSING, message)
                    .because(format!("the tensor wants {end}, the file has {has}"))
                    .remedy("copy or download the file again"))
            }
        }
    }

    fn file(&self, location: &str) -> Result<Bytes> {
        if let Some(bytes) = self.files.borrow().get(location) {
            return Ok(bytes.clone());
        }
        let path = self.resolve(location)?;
        let bytes = tensor::map_file(&path).map_err(|found| {
            let first = found.into_iter().next();
            first.unwrap_or_else(|| missing(location, "it cannot be mapped"))
        })?;
        self.files.borrow_mut().insert(location.to_owned(), bytes.clone());
        Ok(bytes)
    }

    /// The path of a plain file inside the folder.
    fn resolve(&self, location: &str) -> Result<PathBuf> {
        let Some(folder) = &self.folder else {
            return Err(missing(location, "the model was not read from a file")
                .remedy("give the model as a file with its data beside it"));
        };
        let relative = Path::new(location);
        let plain = |part: Component<'_>| matches!(part, Component::Normal(_) | Component::CurDir);
        if location.contains('\0') || !relative.components().all(plain) {
            return Err(escapes(location, "the path is absolute or contains `..`"));
        }
        let canonical = |path: &Path| {
            path.canonicalize().map_err(|error| missing(location, &error.to_string()))
        };
        let (inside, path) = (canonical(folder)?, canonical(&folder.join(relative))?);
        if !path.starts_with(&inside) {
            return Err(escapes(location, "a symbolic link leads out of the folder"));
        }
        // Asked before opening: opening a pipe would wait for a writer.
        match path.metadata() {
            Ok(metadata) if metadata.is_file() => Ok(path),
            Ok(_) => Err(escapes(location, "it is not a plain file")),
            Err(error) => Err(missing(location, &error.to_string())),
        }
    }
}

fn number(key: &str, text: &str) -> Result<usize> {
    text.parse().map_err(|_| {
        let message = format!("the {key} of external data cannot be used");
        malformed(message, format!("it is `{text}`, not a number of bytes"))
    })
}

fn malformed(message: String, reason: String) -> Diagnostic {
    Diagnostic::error(codes::EXTERNAL_DATA_MISSING, message)
        .because(reason)
        .remedy("export the model again")
}

fn missing(location: &str, reason: &str) -> Diagnostic {
    Diagnostic::error(
        codes::EXTERNAL_DATA_MISSING,
        format!("cannot read external data `{location}`"),
    )
    .because(reason)
    .remedy("keep the file beside the model")
}

fn escapes(location: &str, reason: &str) -> Diagnostic {
    Diagnostic::error(
        codes::EXTERNAL_DATA_ESCAPES,
        format!("external data `{location}` is outside of the model's folder"),
    )
    .because(reason)
    .remedy("copy the file into the model's folder and name it by a relative path")
}
