//! An engine file before it is written.

use std::io::{self, Write};

use base::Diagnostics;
use tensor::StagedFile;
use xxhash_rust::xxh3::Xxh3;

use crate::file::EngineFile;
use crate::wire::Damage;
use crate::{
    ALIGNMENT, CONSTANTS_DIGEST, FORMAT, HEAD_DIGEST, HEADER, MAGIC, PAGE, ROW, head_digest,
};

/// Gives bytes, part by part, to whom it is told.
pub type Fill<'a> = dyn FnMut(&mut dyn FnMut(&[u8]) -> base::Result<()>) -> base::Result<()> + 'a;

/// So many bytes are written while caches keep them from their digest, at once: the more at a time,
/// the fewer of them are joined to whole pages.
const CHUNK: usize = 8 << 20;

/// Sections, and constants that are written from where they lie.
#[derive(Debug, Default)]
pub struct EngineDraft<'a> {
    sections: Vec<(u64, Vec<u8>)>,
    /// Each with its offset behind the head, in order.
    constants: Vec<(usize, Piece<'a>)>,
    /// Where the last of them ends.
    end: usize,
}

/// A piece of what lies behind the head.
#[derive(Clone, Copy, Debug)]
enum Piece<'a> {
    Bytes(&'a [u8]),
    /// So many bytes that are made when the file is written.
    Room(usize),
}

impl<'a> Piece<'a> {
    fn len(self) -> usize {
        match self {
            Piece::Bytes(bytes) => bytes.len(),
            Piece::Room(bytes) => bytes,
        }
    }

    /// What is ahead of an offset, and what is not.
    fn split_at(self, offset: usize) -> (Piece<'a>, Piece<'a>) {
        match self {
            Piece::Bytes(bytes) => {
                let (ahead, behind) = bytes.split_at(offset);
                (Piece::Bytes(ahead), Piece::Bytes(behind))
            }
            Piece::Room(bytes) => (Piece::Room(offset), Piece::Room(bytes - offset)),
        }
    }
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
        let (constants, end) = (vec![(0, Piece::Bytes(constants))], constants.len());
        EngineDraft { sections, constants, end }
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
        self.constants.push((offset, Piece::Bytes(bytes)));
        offset
    }

    /// Puts bytes in the place of as many that are there, at an offset behind the head.
    ///
    /// # Errors
    /// A place where nothing is, or a part of several constants.
    pub fn replace_constant(&mut self, offset: usize, bytes: &'a [u8]) -> Result<(), Damage> {
        self.replace(offset, Piece::Bytes(bytes))
    }

    /// Takes away so many bytes that are there, in whose place [`EngineDraft::write_filled`] has
    /// others given. There is one such room.
    ///
    /// # Errors
    /// As [`EngineDraft::replace_constant`].
    pub fn leave_room(&mut self, offset: usize, bytes: usize) -> Result<(), Damage> {
        self.replace(offset, Piece::Room(bytes))
    }

    fn replace(&mut self, offset: usize, with: Piece<'a>) -> Result<(), Damage> {
        let end = offset.saturating_add(with.len());
        let holds =
            |&(start, own): &(usize, Piece<'_>)| start <= offset && end <= start + own.len();
        let number = self.constants.iter().position(holds);
        let number = number.ok_or_else(|| Damage::new("constants lie in each other"))?;
        let (start, own) = self.constants[number];
        let (before, rest) = own.split_at(offset - start);
        let (_, behind) = rest.split_at(with.len());
        let parts = [(start, before), (offset, with), (end, behind)];
        let parts = parts.into_iter().filter(|(_, part)| part.len() > 0);
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
    /// Those of the writer; one of the kind `InvalidInput` where room is left.
    pub fn write(&self, file: &mut impl Write) -> io::Result<()> {
        let mut digest = Xxh3::new();
        let bytes = || {
            self.pieces().map(|piece| match piece {
                Piece::Bytes(bytes) => Ok(bytes),
                Piece::Room(_) => Err(io::Error::from(io::ErrorKind::InvalidInput)),
            })
        };
        bytes().try_for_each(|bytes| bytes.map(|bytes| digest.update(bytes)))?;
        file.write_all(&sealed(self.head(), &digest))?;
        bytes().try_for_each(|bytes| file.write_all(bytes?))
    }

    /// Writes the file, and has `fill` give all that belongs where room was left to whom it is
    /// told, part by part. What the system refuses `failed` tells.
    ///
    /// # Errors
    /// Those of the system, and of `fill`, which are internal ones where it gives too much or too
    /// little.
    pub fn write_filled(
        &self,
        file: &mut StagedFile,
        fill: &mut Fill<'_>,
        failed: &dyn Fn(io::Error) -> Diagnostics,
    ) -> base::Result<()> {
        let head = self.head();
        file.write_all(&head).map_err(failed)?;
        let mut digest = Xxh3::new();
        let mut write = |bytes: &[u8]| {
            bytes.chunks(CHUNK).try_for_each(|chunk| {
                digest.update(chunk);
                file.write_all(chunk).map_err(failed)
            })
        };
        for piece in self.pieces() {
            match piece {
                Piece::Bytes(bytes) => write(bytes)?,
                Piece::Room(bytes) => {
                    let mut left = bytes;
                    fill(&mut |part| {
                        left = left.checked_sub(part.len()).ok_or_else(does_not_fit)?;
                        write(part)
                    })?;
                    if left > 0 {
                        return Err(does_not_fit());
                    }
                }
            }
        }
        file.overwrite(0, &sealed(head, &digest)).map_err(failed)
    }

    /// All behind the head: the constants, and zeros in between.
    fn pieces(&self) -> impl Iterator<Item = Piece<'a>> {
        let mut end = 0;
        self.constants.iter().flat_map(move |&(offset, piece)| {
            let between = Piece::Bytes(&[0; PAGE][..offset - end]);
            end = offset + piece.len();
            [between, piece]
        })
    }

    /// The head, but for digests.
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
        let bytes = head.len();
        head[..8].copy_from_slice(&MAGIC);
        head[8..12].copy_from_slice(&FORMAT.to_le_bytes());
        head[12..16].copy_from_slice(&(self.sections.len() as u32).to_le_bytes());
        head[16..24].copy_from_slice(&(bytes as u64).to_le_bytes());
        head[24..32].copy_from_slice(&((bytes + self.end) as u64).to_le_bytes());
        head
    }
}

/// A head with its digest and that of the constants.
fn sealed(mut head: Vec<u8>, constants: &Xxh3) -> Vec<u8> {
    head[CONSTANTS_DIGEST].copy_from_slice(&constants.digest128().to_le_bytes());
    let digest = head_digest(&head);
    head[HEAD_DIGEST].copy_from_slice(&digest.to_le_bytes());
    head
}

#[cold]
fn does_not_fit() -> Diagnostics {
    Diagnostics::internal("constants do not fit the room that was left for them")
}
