//! Folders for the files of a test.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

/// A folder of its own, removed at the end.
#[derive(Debug)]
pub struct Folder(PathBuf);

impl Folder {
    /// An empty folder among the system's temporary files.
    ///
    /// # Panics
    /// If the system gives none.
    #[must_use]
    pub fn new() -> Folder {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("tilewright-test-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).expect("a writable temporary folder");
        Folder(path)
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// The path of a file in it, as an argument of a command.
    #[must_use]
    pub fn file(&self, name: &str) -> String {
        self.0.join(name).display().to_string()
    }
}

impl Default for Folder {
    fn default() -> Folder {
        Folder::new()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // Best effort: the system clears its temporary files sooner or later.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
