//! Folders for files that nobody is to find later.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use base::{Diagnostic, codes};

/// A folder of its own among the system's temporary files, removed with all in it when dropped.
#[derive(Debug)]
pub struct TemporaryFolder(PathBuf);

impl TemporaryFolder {
    /// An empty folder that no other has.
    ///
    /// # Errors
    /// `TW0301` if the system gives none.
    pub fn new() -> base::Result<TemporaryFolder> {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        loop {
            let number = COUNT.fetch_add(1, Ordering::Relaxed);
            let name = format!("tilewright-{}-{number}", std::process::id());
            let path = std::env::temp_dir().join(name);
            match fs::create_dir(&path) {
                Ok(()) => return Ok(TemporaryFolder(path)),
                // Left behind by a process of the same number.
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                Err(error) => {
                    return Err(Diagnostic::error(
                        codes::CANNOT_WRITE_FILE,
                        "cannot make a temporary folder",
                    )
                    .at(path.display().to_string())
                    .because(error.to_string())
                    .remedy("let TMPDIR name a folder that can be written")
                    .into());
                }
            }
        }
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for TemporaryFolder {
    fn drop(&mut self) {
        // Best effort: the system clears its temporary files sooner or later.
        let _ = fs::remove_dir_all(&self.0);
    }
}
