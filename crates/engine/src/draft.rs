//! An engine file before it is written.

use std::io::{self, Write};

use xxhash_rust::xxh3::Xxh3;

use crate::file::EngineFile;
use crate::wire::Damage;
use crate::{
    ALIGNMENT, CONSTANTS_DIGEST, FORMAT, HEAD_DIGEST, HEADER, MAGIC, PAGE, ROW, head_digest,
};

/// Sections, and constants that are written from where they lie.
#[derive(Debug, Default)]
pub struct EngineDraft<'a> {
    sections: Vec<(u64, Vec<u8>)>,
    /// Each with its offset behind the head, in order.
    constants: Vec<(usize, &'a [u8])>,
    /// Where the last of them ends.
    end: usize,
}

impl<'a> EngineDraft<'a> {
    /// Nothing yet.
    #[must_use]
    pub fn new() -> EngineDraft<'a> {
        EngineDraft::default()
    }

    /// A file as it is.
    #[must_use]
    pub fn of(file: &'a EngineFile) -> EngineDraft<'a> {
        let sections = file.sections().map(|(kind, content)| (kind, content.to_vec())).collect();
        let constants = file.constants();
        EngineDraft { sections, constants: vec![(0, constants)], end: constants.len() }
    }

    /// Adds a section, or puts it in the place of that of its kind: there is one of each.
    pub fn section(&mut self, kind: u64, content: Vec<u8>) {
        match self.sections.iter_mut().find(|(its, _)| *its == kind) {
            Some((_, own)) => *own = content,
            None => self.sections.push((kind, content)),
        }
    }

    /// Removes the section of a kind, if there is one.
    pub fn remove_section(&mut self, kind: u64) {
        self.sections.retain(|(its, _)| *its != kind);
    }

    /// Adds a constant; gives where it lies behind the head.
    pub fn constant(&mut self, bytes: &'a [u8]) -> usize {
        let alignment = if bytes.len() >= PAGE { PAGE } else { ALIGNMENT };
        let offset = self.end.next_multiple_of(alignment);
        self.end = offset + bytes.len();
        self.constants.push((offset, bytes));
        offset
    }

    /// Puts bytes in the place of as many that are there, at an offset behind the head.
    ///
    /// # Errors
    /// A place where nothing is, or a part of several constants.
    pub fn replace_constant(&mut self, offset: usize, bytes: &'a [u8]) -> Result<(), Damage> {
        let end = offset.saturating_add(bytes.len());
        let holds = |&(start, own): &(usize, &[u8])| start <= offset && end <= start + own.len();
        let number = self.constants.iter().position(holds);
        let number = number.ok_or_else(|| Damage::new("constants lie in each other"))?;
        let (start, own) = self.constants[number];
        let (before, rest) = own.split_at(offset - start);
        let (_, behind) = rest.split_at(bytes.len());
        let parts = [(start, before), (offset, bytes), (end, behind)];
        let parts = parts.into_iter().filter(|(_, part)| !part.is_empty());
        self.constants.splice(number..=number, parts);
        Ok(())
    }

    /// Bytes of the constants.
    #[must_use]
    pub fn constant_bytes(&self) -> usize {
        self.end
    }

    /// Writes the file.
    ///
    /// # Errors
    /// Those of the writer.
    pub fn write(&self, file: &mut impl Write) -> io::Result<()> {
        file.write_all(&self.head())?;
        self.with_constants(&mut |bytes| file.write_all(bytes))
    }

    fn with_constants(&self, each: &mut dyn FnMut(&[u8]) -> io::Result<()>) -> io::Result<()> {
        let mut end = 0;
        for &(offset, bytes) in &self.constants {
            each(&[0; PAGE][..offset - end])?;
            each(bytes)?;
            end = offset + bytes.len();
        }
        Ok(())
    }

    fn head(&self) -> Vec<u8> {
        let mut head = vec![0; HEADER + self.sections.len() * ROW];
        for (number, (kind, content)) in self.sections.iter().enumerate() {
            head.resize(head.len().next_multiple_of(ALIGNMENT), 0);
            let fields = [*kind, head.len() as u64, content.len() as u64];
            for (at, field) in fields.into_iter().enumerate() {
                let start = HEADER + number * ROW + at * 8;
                head[start..start + 8].copy_from_slice(&field.to_le_bytes());
            }
            head.extend_from_slice(content);
        }
        head.resize(head.len().next_multiple_of(PAGE), 0);
        let mut constants = Xxh3::new();
        // A digest takes all that it is given.
        let _ = self.with_constants(&mut |bytes| {
            constants.update(bytes);
            Ok(())
        });
        let bytes = head.len();
        head[..8].copy_from_slice(&MAGIC);
        head[8..12].copy_from_slice(&FORMAT.to_le_bytes());
        head[12..16].copy_from_slice(&(self.sections.len() as u32).to_le_bytes());
        head[16..24].copy_from_slice(&(bytes as u64).to_le_bytes());
        head[24..32].copy_from_slice(&((bytes + self.end) as u64).to_le_bytes());
        head[CONSTANTS_DIGEST].copy_from_slice(&constants.digest128().to_le_bytes());
        let digest = head_digest(&head);
        head[HEAD_DIGEST].copy_from_slice(&digest.to_le_bytes());
        head
    }
}
