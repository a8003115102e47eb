//! FlatBuffers as they lie in a file: tables, vectors and texts by their offsets.
//!
//! Source: "FlatBuffer Internals" of FlatBuffers' documentation. A table begins with the distance
//! back to its *vtable*, which has the place of each field in the table, 0 where the field has its
//! default. Vectors, texts and tables within tables are reached by offsets forward.
//!
//! Invariants: nothing is read outside of the file, whatever the offsets say, and nothing is
//! followed that was not asked for, so that offsets which lead in circles are met as often as they
//! are asked for and no more. What a reader takes out is counted against a budget, since a file can
//! have many offsets to one long vector.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::Accepted;
use base::limits::{exceeded, more_than};
use base::{Diagnostic, Limits};
use bytes::Bytes;

/// Bytes that precede the root's content: its offset; an identifier of the file's kind may follow.
const HEADER: usize = 4;

/// Bytes that a table takes when it is decoded, besides its vectors.
const DECODED: usize = 256;

/// A file of tables.
#[derive(Debug)]
pub struct FlatBuffer {
    bytes: Bytes,
    /// Bytes that may still be taken out.
    left: AtomicU64,
    most: u64,
    /// The refusal of a file that does not hold what it should.
    damaged: fn(String) -> Diagnostic,
}

impl FlatBuffer {
    /// A file from which at most so many bytes are taken as the limits allow for its size, and the
    /// refusal of one that is damaged, of which the reason is given.
    #[must_use]
    pub fn new(bytes: Bytes, limits: &Limits, damaged: fn(String) -> Diagnostic) -> FlatBuffer {
        let most = limits.decoded_bytes.saturating_add(4 * bytes.len() as u64);
        FlatBuffer { bytes, left: AtomicU64::new(most), most, damaged }
    }

    fn damaged(&self, reason: String) -> Diagnostic {
        (self.damaged)(reason)
    }

    /// The table that all others hang from.
    pub fn root(&self) -> Accepted<Table<'_>> {
        if self.bytes.len() < HEADER {
            return Err(self.damaged(format!("it ends after {} bytes", self.bytes.len())));
        }
        Table::at(self, self.offset(0)?)
    }

    fn array<const N: usize>(&self, at: usize) -> Accepted<[u8; N]> {
        let end = at.checked_add(N);
        let found = end.and_then(|end| self.bytes.get(at..end)).and_then(|it| it.try_into().ok());
        found.ok_or_else(|| {
            let length = self.bytes.len();
            self.damaged(format!("it should go on at byte {at}, but has {length} bytes"))
        })
    }

    fn u16(&self, at: usize) -> Accepted<u16> {
        self.array(at).map(u16::from_le_bytes)
    }

    fn u32(&self, at: usize) -> Accepted<u32> {
        self.array(at).map(u32::from_le_bytes)
    }

    /// Where the offset at a place leads to.
    fn offset(&self, at: usize) -> Accepted<usize> {
        let offset = self.u32(at)? as usize;
        let target = at.checked_add(offset).filter(|target| *target < self.bytes.len());
        target.ok_or_else(|| self.damaged(format!("the offset at byte {at} leads out of it")))
    }

    /// The bytes of the vector at a place, whose elements take so many bytes.
    fn elements(&self, at: usize, size: usize) -> Accepted<std::ops::Range<usize>> {
        let count = self.u32(at)? as usize;
        let start = at + 4;
        let end = count.checked_mul(size).and_then(|length| start.checked_add(length));
        let end = end.filter(|end| *end <= self.bytes.len());
        let end = end.ok_or_else(|| {
            self.damaged(format!("the vector at byte {at} of {count} elements is longer than it"))
        })?;
        Ok(start..end)
    }

    /// Takes so many bytes out.
    fn take(&self, bytes: usize) -> Accepted<()> {
        let left = self.left.load(Ordering::Relaxed);
        let Some(left) = left.checked_sub(bytes as u64) else {
            let most = self.most;
            let message = "the decoded model would take too much memory";
            return Err(exceeded("decoded-bytes", more_than(most), message)
                .because(format!("at most {most} bytes are accepted for a file of this size")));
        };
        self.left.store(left, Ordering::Relaxed);
        Ok(())
    }
}

/// A number that stands in a file.
pub trait Number: Copy {
    /// The bytes that it takes.
    const SIZE: usize;

    /// The number of these bytes, of which there are enough.
    fn of(bytes: &[u8]) -> Self;
}

macro_rules! numbers {
    ($($ty:ty),*) => {$(
        impl Number for $ty {
            const SIZE: usize = size_of::<$ty>();

            fn of(bytes: &[u8]) -> $ty {
                let mut own = [0; size_of::<$ty>()];
                own.copy_from_slice(&bytes[..size_of::<$ty>()]);
                <$ty>::from_le_bytes(own)
            }
        }
    )*};
}

numbers!(i8, u8, i32, u32, i64, u64, f32);

/// A table of a file. Its fields are asked for by their number in the schema.
#[derive(Clone, Copy, Debug)]
pub struct Table<'f> {
    file: &'f FlatBuffer,
    at: usize,
    vtable: usize,
    /// The bytes of the vtable.
    length: usize,
}

impl<'f> Table<'f> {
    /// The table at a place of the file ([`Self::position`]).
    pub fn at(file: &'f FlatBuffer, at: usize) -> Accepted<Table<'f>> {
        let back = i64::from(i32::from_le_bytes(file.array(at)?));
        let vtable = usize::try_from(at as i64 - back).ok().filter(|it| *it < file.bytes.len());
        let vtable = vtable
            .ok_or_else(|| file.damaged(format!("the table at byte {at} begins outside of it")))?;
        let length = usize::from(file.u16(vtable)?);
        Ok(Table { file, at, vtable, length })
    }

    /// Where it is.
    pub fn position(&self) -> usize {
        self.at
    }

    /// Where a field lies, unless it has its default.
    fn place(&self, field: usize) -> Accepted<Option<usize>> {
        let entry = 4 + 2 * field;
        if entry + 2 > self.length {
            return Ok(None);
        }
        let place = usize::from(self.file.u16(self.vtable + entry)?);
        Ok((place != 0).then_some(self.at + place))
    }

    /// A number, or its default.
    pub fn number<T: Number>(&self, field: usize, default: T) -> Accepted<T> {
        let Some(at) = self.place(field)? else { return Ok(default) };
        let bytes = at.checked_add(T::SIZE).and_then(|end| self.file.bytes.get(at..end));
        bytes
            .map(T::of)
            .ok_or_else(|| self.file.damaged(format!("the number at byte {at} is cut off")))
    }

    /// A flag, or its default.
    pub fn flag(&self, field: usize, default: bool) -> Accepted<bool> {
        Ok(self.number(field, u8::from(default))? != 0)
    }

    /// A table within this one.
    pub fn table(&self, field: usize) -> Accepted<Option<Table<'f>>> {
        let Some(at) = self.place(field)? else { return Ok(None) };
        let target = self.file.offset(at)?;
        Table::at(self.file, target).map(Some)
    }

    /// The tables of a vector; none of one that is not there.
    pub fn tables(&self, field: usize) -> Accepted<Vec<Table<'f>>> {
        let Some(at) = self.place(field)? else { return Ok(Vec::new()) };
        let elements = self.file.elements(self.file.offset(at)?, 4)?;
        self.file.take((elements.end - elements.start) / 4 * DECODED)?;
        let table = |at: usize| Table::at(self.file, self.file.offset(at)?);
        elements.step_by(4).map(table).collect()
    }

    /// The numbers of a vector; none of one that is not there.
    pub fn numbers<T: Number>(&self, field: usize) -> Accepted<Vec<T>> {
        let Some(at) = self.place(field)? else { return Ok(Vec::new()) };
        let elements = self.file.elements(self.file.offset(at)?, T::SIZE)?;
        self.file.take(elements.end - elements.start)?;
        Ok(self.file.bytes[elements].chunks_exact(T::SIZE).map(T::of).collect())
    }

    /// The bytes of a vector, which stay where they are.
    pub fn bytes(&self, field: usize) -> Accepted<Bytes> {
        let Some(at) = self.place(field)? else { return Ok(Bytes::new()) };
        let elements = self.file.elements(self.file.offset(at)?, 1)?;
        Ok(self.file.bytes.slice(elements))
    }

    /// A range of the file, which the table names by where it begins and how long it is.
    pub fn outside(&self, start: u64, length: u64) -> Accepted<Bytes> {
        let end = start.checked_add(length).filter(|end| *end <= self.file.bytes.len() as u64);
        match end {
            Some(end) => Ok(self.file.bytes.slice(start as usize..end as usize)),
            None => Err(self
                .file
                .damaged(format!("{length} bytes from byte {start} on are not all there"))),
        }
    }

    /// A text; what is no UTF-8 in it is replaced.
    pub fn text(&self, field: usize) -> Accepted<String> {
        let bytes = self.bytes(field)?;
        self.file.take(bytes.len())?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }
}
