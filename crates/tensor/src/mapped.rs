//! Mapped files: a file's content as shared bytes, read on demand by the system.
//!
//! A mapping relies on nobody shortening the file while it is in use, as every program that maps
//! its input does. Whoever writes files in this project writes them whole and renames them.

use std::fs::File;
use std::path::Path;

use base::{Diagnostic, codes};
use bytes::Bytes;
use memmap2::Mmap;

/// Maps a file. The slices of the result share the mapping, which ends with the last of them.
///
/// # Errors
/// A diagnostic with the file's name when it cannot be opened, is a folder, or cannot be mapped.
pub fn map_file(path: impl AsRef<Path>) -> base::Result<Bytes> {
    let path = path.as_ref();
    let failed = |error: std::io::Error| -> Diagnostic { cannot_read(path, &error) };
    let file = File::open(path).map_err(failed)?;
    let metadata = file.metadata().map_err(failed)?;
    if metadata.is_dir() {
        return Err(cannot_read(path, &std::io::ErrorKind::IsADirectory.into()).into());
    }
    if metadata.len() == 0 {
        return Ok(Bytes::new());
    }
    // SAFETY: the mapping is read-only and private to this process; that the file is not shortened
    // meanwhile is the assumption stated in this file's header.
    let mapping = unsafe { Mmap::map(&file) }.map_err(failed)?;
    Ok(Bytes::from_owner(mapping))
}

/// The diagnostic of a file that cannot be read.
pub(crate) fn cannot_read(path: &Path, error: &std::io::Error) -> Diagnostic {
    Diagnostic::error(codes::CANNOT_READ_FILE, "cannot read the file")
        .at(path.display().to_string())
        .because(error.to_string())
        .remedy("check that the path names a file that you may read")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn maps_and_refuses() {
        let path = std::env::temp_dir().join(format!("tilewright-map-{}", std::process::id()));
        std::fs::write(&path, b"abc").expect("a writable temporary folder");
        assert_eq!(&map_file(&path).expect("mapped")[..], b"abc");
        std::fs::write(&path, b"").expect("a writable temporary folder");
        assert!(map_file(&path).expect("mapped").is_empty());
        std::fs::remove_file(&path).expect("removed");
        assert!(map_file(&path).is_err());
        assert!(map_file(std::env::temp_dir()).is_err());
    }
}
