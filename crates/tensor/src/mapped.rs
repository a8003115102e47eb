//! Mapped files: a file's content as shared bytes, read on demand by the system.
//!
//! A mapping relies on nobody shortening the file while it is in use, as every program that maps
//! its input does. Whoever writes files in this project writes them whole and renames them.
//!
//! What has been read counts as memory of this process until it is [released](release). The list of
//! mappings serves that alone: whether bytes lie in a file cannot be seen from them.

use std::fs::File;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use base::{Diagnostic, codes};
use bytes::Bytes;
use memmap2::Mmap;

/// The mappings that may be alive.
static MAPPINGS: Mutex<Vec<Weak<Mmap>>> = Mutex::new(Vec::new());

/// What keeps a mapping alive.
struct Holder(Arc<Mmap>);

impl AsRef<[u8]> for Holder {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

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
    let mapping = Arc::new(mapping);
    let mut known = MAPPINGS.lock().unwrap_or_else(PoisonError::into_inner);
    known.retain(|other| other.strong_count() > 0);
    known.push(Arc::downgrade(&mapping));
    Ok(Bytes::from_owner(Holder(mapping)))
}

/// Says that bytes will not be read for a while: if they lie in a mapped file, the system may take
/// their pages from this process. They stay what they are; reading them brings the pages back, as a
/// rule from the system's file cache. Other bytes are left alone.
pub fn release(bytes: &[u8]) {
    #[cfg(unix)]
    if let Some((mapping, start)) = mapping_of(bytes) {
        // SAFETY: the mapping is of a file, shared and never written, so that its pages hold what
        // the file holds whenever they are made. It is advice, and may be refused.
        let _ = unsafe {
            let advice = memmap2::UncheckedAdvice::DontNeed;
            mapping.unchecked_advise_range(advice, start, bytes.len())
        };
    }
}

/// Says that all of these bytes will be read: if they lie in a mapped file, a thread of its own has
/// the system map them, ahead of whoever reads them, who would meet page after page. Few bytes are
/// left alone.
pub fn populate(bytes: &Bytes) {
    /// A page is mapped in less than a microsecond, a thread started in some ten of them.
    const FEW: usize = 1 << 20;
    #[cfg(target_os = "linux")]
    if let Some((mapping, start)) = mapping_of(bytes).filter(|_| bytes.len() > FEW) {
        let end = start + bytes.len();
        // In parts, between which the mapping may end. No thread, or a refusal, costs time alone.
        let parts = move || {
            for part in (start..end).step_by(FEW) {
                let length = FEW.min(end - part);
                if mapping.advise_range(memmap2::Advice::PopulateRead, part, length).is_err() {
                    return;
                }
            }
        };
        let _ = std::thread::Builder::new().name("tilewright map".to_owned()).spawn(parts);
    }
    #[cfg(not(target_os = "linux"))]
    let _ = (bytes, FEW);
}

/// The mapping in which bytes lie, and where in it.
#[cfg(unix)]
fn mapping_of(bytes: &[u8]) -> Option<(Arc<Mmap>, usize)> {
    let known = MAPPINGS.lock().unwrap_or_else(PoisonError::into_inner);
    let (start, end) = (bytes.as_ptr().addr(), bytes.as_ptr().addr() + bytes.len());
    known.iter().filter_map(Weak::upgrade).find_map(|mapping| {
        let first = mapping.as_ptr().addr();
        let holds = first <= start && end <= first + mapping.len() && start < end;
        holds.then(|| (mapping, start - first))
    })
}

/// The bytes of a plain file: a device may have no end, and a pipe waits for its writer.
///
/// # Errors
/// A diagnostic with the file's name when it is something else or cannot be read.
pub fn read_plain(path: &Path) -> base::Result<Vec<u8>> {
    let failed = |error: std::io::Error| -> Diagnostic { cannot_read(path, &error) };
    if !path.metadata().map_err(failed)?.is_file() {
        return Err(cannot_read(path, &std::io::Error::other("it is not a plain file")).into());
    }
    Ok(std::fs::read(path).map_err(failed)?)
}

/// The diagnostic of a file that cannot be read.
pub fn cannot_read(path: &Path, error: &std::io::Error) -> Diagnostic {
    Diagnostic::error(codes::CANNOT_READ_FILE, "cannot read the file")
        .at(path.display().to_string())
        .because(error.to_string())
        .remedy("check that the path names a file that you may read")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plain_files_are_read() {
        for path in [std::env::temp_dir().as_path(), Path::new("/dev/zero")] {
            let found = read_plain(path).expect_err("no plain file");
            assert_eq!(found[0].code, codes::CANNOT_READ_FILE);
        }
    }

    #[test]
    fn released_bytes_read_the_same() {
        let path = std::env::temp_dir().join(format!("tilewright-gone-{}", std::process::id()));
        let content: Vec<u8> = (0..2_500_000_u32).map(|at| at as u8).collect();
        std::fs::write(&path, &content).expect("a writable temporary folder");
        let mapped = map_file(&path).expect("mapped");
        populate(&mapped);
        populate(&Bytes::from_static(b"not mapped"));
        for part in [&mapped[..], &mapped[5000..50_000], &mapped[7..7], &content[..]] {
            release(part);
            assert_eq!(&mapped[..], &content[..]);
        }
        std::fs::remove_file(&path).expect("removed");
    }

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
