//! Files that are written whole or not at all, one or several together.
//!
//! Each is written beside its place under another name; [`StagedFiles::commit`] then moves all of
//! them. What is dropped before that leaves nothing behind, and files that were there stay.
//!
//! Files are handed to the system in pieces that begin and end at multiples of a huge page: it then
//! keeps them in such pages, and whoever maps the file at a multiple of one has them as they are,
//! rather than page by page as he reads.

use std::fs::{self, File};
use std::io::{self, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use base::{Diagnostic, codes};

/// Bytes of a huge page.
const HUGE_PAGE: usize = 2 << 20;

/// A file that is written from its beginning to its end, in pieces of huge pages.
#[derive(Debug)]
pub struct StagedFile {
    file: File,
    /// What has not been handed to the system: less than a huge page.
    piece: Vec<u8>,
    /// Bytes that have been.
    written: u64,
}

impl StagedFile {
    /// An empty file to be written.
    #[must_use]
    pub fn new(file: File) -> StagedFile {
        StagedFile { file, piece: Vec::new(), written: 0 }
    }

    /// The file, all of it handed to the system.
    ///
    /// # Errors
    /// Those of the system.
    pub fn finish(mut self) -> io::Result<File> {
        self.flush()?;
        Ok(self.file)
    }

    /// Writes over what has been written from an offset on; what is written next goes to the end.
    ///
    /// # Errors
    /// Those of the system.
    pub fn overwrite(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.flush()?;
        self.file.seek(SeekFrom::Start(offset))?;
        self.file.write_all(bytes)?;
        self.file.seek(SeekFrom::Start(self.written))?;
        Ok(())
    }

    fn hand_over(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all(bytes)?;
        self.written += bytes.len() as u64;
        Ok(())
    }
}

impl Write for StagedFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // How far it is to where a huge page begins.
        let room = HUGE_PAGE - (self.written % HUGE_PAGE as u64) as usize - self.piece.len();
        if self.piece.is_empty() && bytes.len() >= room {
            let whole = room + (bytes.len() - room) / HUGE_PAGE * HUGE_PAGE;
            self.hand_over(&bytes[..whole])?;
            return Ok(whole);
        }
        let some = room.min(bytes.len());
        self.piece.extend_from_slice(&bytes[..some]);
        if some == room {
            self.flush()?;
        }
        Ok(some)
    }

    fn flush(&mut self) -> io::Result<()> {
        let mut piece = std::mem::take(&mut self.piece);
        self.hand_over(&piece)?;
        piece.clear();
        self.piece = piece;
        Ok(())
    }
}

/// Files written but not yet in their places.
#[derive(Debug, Default)]
pub struct StagedFiles {
    /// Where each is, and where it goes.
    files: Vec<(PathBuf, PathBuf)>,
}

impl StagedFiles {
    /// No files.
    #[must_use]
    pub fn new() -> StagedFiles {
        StagedFiles::default()
    }

    /// No files, for a folder that is made if it is not there.
    ///
    /// # Errors
    /// `TW0301` when it cannot be made.
    pub fn in_folder(folder: &Path) -> base::Result<StagedFiles> {
        fs::create_dir_all(folder).map_err(|error| {
            Diagnostic::error(codes::CANNOT_WRITE_FILE, "cannot make the output folder")
                .at(folder.display().to_string())
                .because(error.to_string())
                .remedy("name a folder that can be written")
        })?;
        Ok(StagedFiles::new())
    }

    /// Writes one more file, for the place `path`.
    ///
    /// # Errors
    /// `TW0301` when the folder or the disk does not take it, or when a folder is in its place.
    pub fn write(
        &mut self,
        path: impl AsRef<Path>,
        content: impl FnOnce(&mut StagedFile) -> io::Result<()>,
    ) -> base::Result<()> {
        let path = path.as_ref();
        self.write_checked(path, |file| Ok(content(file).map_err(|it| cannot_write(path, &it))?))
    }

    /// Writes one more file, for the place `path`, by what fails for reasons of its own, too.
    ///
    /// # Errors
    /// As [`StagedFiles::write`], and those of `content`.
    pub fn write_checked(
        &mut self,
        path: &Path,
        content: impl FnOnce(&mut StagedFile) -> base::Result<()>,
    ) -> base::Result<()> {
        if path.is_dir() {
            return Err(cannot_write(path, &io::ErrorKind::IsADirectory.into()).into());
        }
        let temporary = temporary_beside(path);
        self.files.push((temporary.clone(), path.to_path_buf()));
        let made = File::create(&temporary).map_err(|error| cannot_write(path, &error))?;
        let mut file = StagedFile::new(made);
        content(&mut file)?;
        file.finish().map_err(|error| cannot_write(path, &error))?;
        Ok(())
    }

    /// Moves all files to their places; those that are there are replaced. All of them were written
    /// in full before, so that only the system's refusal to rename can still part them.
    ///
    /// # Errors
    /// `TW0301` when one cannot be moved; those before it are in their places then.
    pub fn commit(self) -> base::Result<()> {
        for (temporary, path) in &self.files {
            fs::rename(temporary, path).map_err(|error| cannot_write(path, &error))?;
        }
        Ok(())
    }
}

impl Drop for StagedFiles {
    fn drop(&mut self) {
        for (temporary, _) in &self.files {
            // Best effort: after a commit there is none, and a failure has been told.
            let _ = fs::remove_file(temporary);
        }
    }
}

fn temporary_beside(path: &Path) -> PathBuf {
    let name = path.file_name().map(|name| name.to_string_lossy()).unwrap_or_default();
    path.with_file_name(format!(".{name}.{}.tmp", std::process::id()))
}

/// Why a file is not written: `TW0301`.
#[must_use]
pub fn cannot_write(path: &Path, error: &io::Error) -> Diagnostic {
    Diagnostic::error(codes::CANNOT_WRITE_FILE, "cannot write the file")
        .at(path.display().to_string())
        .because(error.to_string())
        .remedy("check that the folder exists, that you may write to it, and the free space")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).expect("the folder is there").flatten();
        let mut names: Vec<String> =
            entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }

    #[test]
    fn pieces_are_what_was_written() {
        let number = |at: usize| (at * 7 + (at >> 12)) as u8;
        let content: Vec<u8> = (0..2 * HUGE_PAGE + 4321).map(number).collect();
        let path = std::env::temp_dir().join(format!("tilewright-pieces-{}", std::process::id()));
        for cuts in [vec![], vec![5], vec![4096, HUGE_PAGE], vec![1, 2, HUGE_PAGE + 7, 4 << 20]] {
            let mut file = StagedFile::new(File::create(&path).expect("a writable folder"));
            let mut start = 0;
            for end in cuts.into_iter().chain([content.len()]) {
                file.write_all(&content[start..end]).expect("written");
                start = end;
            }
            file.finish().expect("written");
            assert!(fs::read(&path).expect("it is there") == content);
        }
        fs::remove_file(&path).expect("removed");
    }

    #[test]
    fn what_has_been_written_is_written_over() {
        let name = format!("tilewright-over-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let mut files = StagedFiles::new();
        let written = files.write(&path, |file| {
            file.write_all(&[1; 4096])?;
            file.overwrite(4, &[3; 3])?;
            file.write_all(&[5; 2])
        });
        written.and_then(|()| files.commit()).expect("written");
        let own = fs::read(&path).expect("it is there");
        let parts = [(4, 1), (3, 3), (4089, 1), (2, 5)];
        let expected: Vec<u8> =
            parts.into_iter().flat_map(|(count, byte)| std::iter::repeat_n(byte, count)).collect();
        assert!(own == expected);
        fs::remove_file(&path).expect("removed");
    }

    #[test]
    fn all_files_appear_or_none() {
        let folder = std::env::temp_dir().join(format!("tilewright-staged-{}", std::process::id()));
        fs::create_dir_all(folder.join("taken")).expect("a writable temporary folder");
        let mut files = StagedFiles::new();
        files.write(folder.join("a"), |file| file.write_all(b"1")).expect("written");
        let refused = files.write(folder.join("taken"), |file| file.write_all(b"2"));
        assert_eq!(refused.expect_err("it is a folder")[0].code, codes::CANNOT_WRITE_FILE);
        drop(files);
        assert_eq!(names(&folder), ["taken"]);

        let mut files = StagedFiles::new();
        for name in ["a", "b"] {
            files.write(folder.join(name), |file| file.write_all(b"3")).expect("written");
        }
        assert!(!folder.join("a").exists(), "nothing is in its place before the commit");
        files.commit().expect("moved");
        assert_eq!(names(&folder), ["a", "b", "taken"]);
        fs::remove_dir_all(&folder).expect("removed");
    }
}
