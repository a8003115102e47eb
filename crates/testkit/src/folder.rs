//! Folders for the files of a test.

use std::path::Path;

use tensor::TemporaryFolder;

/// A folder of its own, removed at the end.
#[derive(Debug)]
pub struct Folder(TemporaryFolder);

impl Folder {
    /// An empty folder among the system's temporary files.
    ///
    /// # Panics
    /// If the system gives none.
    #[must_use]
    pub fn new() -> Folder {
        Folder(TemporaryFolder::new().expect("a writable temporary folder"))
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.0.path()
    }

    /// The path of a file in it, as an argument of a command.
    #[must_use]
    pub fn file(&self, name: &str) -> String {
        self.path().join(name).display().to_string()
    }
}

impl Default for Folder {
    fn default() -> Folder {
        Folder::new()
    }
}
