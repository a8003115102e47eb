//! An engine file that is opened: its head checked, its constants mapped.

use std::path::Path;

use base::{Diagnostic, codes};
use bytes::Bytes;
use tensor::map_file;

use crate::{CONSTANTS_DIGEST, Damage, FORMAT, HEAD_DIGEST, HEADER, MAGIC, ROW, head_digest};

/// A file whose head is as it was written. Of its constants nothing is read before it is used.
#[derive(Clone, Debug)]
pub struct EngineFile {
    bytes: Bytes,
    head: usize,
    /// Kind, offset, bytes.
    sections: Vec<(u64, usize, usize)>,
}

impl EngineFile {
    /// Whether a file begins as one.
    #[must_use]
    pub fn is_one(bytes: &[u8]) -> bool {
        bytes.starts_with(&MAGIC)
    }

    /// Maps a file and checks its head.
    ///
    /// # Errors
    /// As [`Self::of`], and a file that cannot be read.
    pub fn open(path: impl AsRef<Path>) -> base::Result<EngineFile> {
        let path = path.as_ref();
        EngineFile::of(map_file(path)?).map_err(|found| found.at(path.display().to_string()).into())
    }

    /// Checks the head of a file.
    ///
    /// # Errors
    /// `TW0303` for what is not as it was written, `TW0304` for another version of the format.
    pub fn of(bytes: Bytes) -> Result<EngineFile, Diagnostic> {
        if !EngineFile::is_one(&bytes) {
            return Err(damaged("it does not begin as an engine file"));
        }
        if bytes.len() < HEADER {
            return Err(damaged("it ends in its header"));
        }
        let format = u32::from_le_bytes([bytes[8], bytes[9], bytes[10], bytes[11]]);
        let number = |at: usize| {
            let mut field = [0; 8];
            field.copy_from_slice(&bytes[at..at + 8]);
            u64::from_le_bytes(field)
        };
        let (head, whole) = (number(16), number(24));
        // A length that is a mistake shows in the digest, or here.
        let fits = head >= HEADER as u64 && head <= bytes.len() as u64;
        let is_sound =
            fits && digest_at(&bytes, HEAD_DIGEST) == head_digest(&bytes[..head as usize]);
        if format != FORMAT {
            let message = format!("the engine file is of format {format}, not {FORMAT}");
            return Err(Diagnostic::error(codes::FOREIGN_ENGINE, message)
                .because("another version of the compiler wrote it, or it is damaged")
                .remedy("compile the model again"));
        }
        if !is_sound {
            return Err(damaged("its head does not match its digest"));
        }
        if whole != bytes.len() as u64 {
            let reason = format!("it has {} bytes where {whole} were written", bytes.len());
            return Err(damaged(reason));
        }
        let head = head as usize;
        let count = u32::from_le_bytes([bytes[12], bytes[13], bytes[14], bytes[15]]) as usize;
        let end = count.checked_mul(ROW).and_then(|rows| rows.checked_add(HEADER));
        if end.is_none_or(|end| end > head) {
            return Err(damaged("it has more sections than fit its head"));
        }
        let row = |row: usize| {
            let at = HEADER + row * ROW;
            let (offset, length) = (number(at + 8), number(at + 16));
            let end = offset.checked_add(length).filter(|&end| end <= head as u64);
            let _ = end.ok_or_else(|| damaged("a section ends behind its head"))?;
            Ok((number(at), offset as usize, length as usize))
        };
        let sections = (0..count).map(row).collect::<Result<_, Diagnostic>>()?;
        Ok(EngineFile { bytes, head, sections })
    }

    /// The section of this kind.
    ///
    /// # Errors
    /// `TW0303` if there is none.
    pub fn section(&self, kind: u64) -> Result<Bytes, Diagnostic> {
        self.optional_section(kind)
            .ok_or_else(|| damaged(format!("it has no section of kind {kind}")))
    }

    /// The section of this kind, if there is one.
    #[must_use]
    pub fn optional_section(&self, kind: u64) -> Option<Bytes> {
        let found = self.sections.iter().find(|(its, ..)| *its == kind)?;
        Some(self.bytes.slice(found.1..found.1 + found.2))
    }

    /// All sections, in order.
    pub(crate) fn sections(&self) -> impl Iterator<Item = (u64, &[u8])> {
        let content =
            |&(kind, at, bytes): &(u64, usize, usize)| (kind, &self.bytes[at..at + bytes]);
        self.sections.iter().map(content)
    }

    /// All constants.
    pub(crate) fn constants(&self) -> &[u8] {
        &self.bytes[self.head..]
    }

    /// So many bytes of the constants, from an offset behind the head on, as they are mapped.
    ///
    /// # Errors
    /// Bytes that are not in the file.
    pub fn constant(&self, offset: usize, bytes: usize) -> Result<Bytes, Damage> {
        let start = self.head.checked_add(offset);
        let end = start.and_then(|start| start.checked_add(bytes));
        match (start, end) {
            (Some(start), Some(end)) if end <= self.bytes.len() => Ok(self.bytes.slice(start..end)),
            _ => Err(Damage::new("a constant lies behind the end of the file")),
        }
    }

    /// The digest of all constants, as it was when they were written.
    #[must_use]
    pub fn constants_digest(&self) -> u128 {
        digest_at(&self.bytes, CONSTANTS_DIGEST)
    }

    /// Bytes of the file.
    #[must_use]
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Whether it has no bytes, which none has.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Reads all constants and compares them with their digest.
    ///
    /// # Errors
    /// `TW0303` if they are not as they were written.
    pub fn check_constants(&self) -> Result<(), Diagnostic> {
        let found = crate::digest(&self.bytes[self.head..]);
        match self.constants_digest() == found {
            true => Ok(()),
            false => Err(damaged("its constants do not match their digest")),
        }
    }
}

impl From<Damage> for Diagnostic {
    fn from(Damage(reason): Damage) -> Diagnostic {
        damaged(reason)
    }
}

impl From<Damage> for base::Diagnostics {
    fn from(damage: Damage) -> base::Diagnostics {
        Diagnostic::from(damage).into()
    }
}

#[cold]
#[inline(never)]
fn damaged(reason: impl Into<String>) -> Diagnostic {
    Diagnostic::error(codes::DAMAGED_ENGINE, "the engine file is not as it was written")
        .because(reason.into())
        .remedy("copy it again, or compile the model again")
}

fn digest_at(bytes: &[u8], place: std::ops::Range<usize>) -> u128 {
    let mut field = [0; 16];
    field.copy_from_slice(&bytes[place]);
    u128::from_le_bytes(field)
}
