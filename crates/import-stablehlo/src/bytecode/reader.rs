//! A place in bytes that moves on as numbers, texts and sections are read.
//!
//! Source: "MLIR Bytecode Format" of MLIR's documentation.

use base::{Diagnostic, codes};
use front::Accepted;

/// The refusal of bytes that do not hold what they should.
#[cold]
#[inline(never)]
pub(super) fn damaged(reason: impl Into<String>) -> Diagnostic {
    Diagnostic::error(codes::NOT_BYTECODE, "the StableHLO bytecode cannot be read")
        .because(reason)
        .remedy("copy the file again, or write the program anew")
}

/// A place in bytes.
#[derive(Clone, Debug)]
pub(super) struct Reader<'b> {
    bytes: &'b [u8],
    at: usize,
}

/// A part of a file with a number that tells what it holds.
pub(super) struct Section<'b> {
    pub(super) id: u8,
    pub(super) bytes: &'b [u8],
}

impl<'b> Reader<'b> {
    pub(super) fn new(bytes: &'b [u8]) -> Reader<'b> {
        Reader { bytes, at: 0 }
    }

    /// How many bytes are left.
    pub(super) fn left(&self) -> usize {
        self.bytes.len() - self.at
    }

    pub(super) fn take(&mut self, count: usize) -> Accepted<&'b [u8]> {
        let end = self.at.checked_add(count);
        let Some(found) = end.and_then(|end| self.bytes.get(self.at..end)) else {
            let left = self.left();
            return Err(damaged(format!("{count} bytes are expected, where {left} are left")));
        };
        self.at += count;
        Ok(found)
    }

    pub(super) fn byte(&mut self) -> Accepted<u8> {
        Ok(self.take(1)?[0])
    }

    /// A number of one to nine bytes: the zeros at the low end of the first byte are the number of
    /// bytes that follow.
    pub(super) fn number(&mut self) -> Accepted<u64> {
        let first = self.byte()?;
        let more = first.trailing_zeros() as usize;
        let rest = self.take(more)?;
        let high = rest.iter().rev().fold(0_u64, |all, &byte| all << 8 | u64::from(byte));
        if more == 8 {
            return Ok(high);
        }
        // The first byte gives the low bits above the one that ends the zeros.
        let low = u64::from(first) >> (more + 1);
        Ok(high << (7 - more) | low)
    }

    /// A number with a sign, which is its lowest bit.
    pub(super) fn signed(&mut self) -> Accepted<i64> {
        let number = self.number()?;
        Ok((number >> 1) as i64 ^ -((number & 1) as i64))
    }

    /// A number and a flag, which is the lowest bit.
    pub(super) fn flagged(&mut self) -> Accepted<(u64, bool)> {
        let number = self.number()?;
        Ok((number >> 1, number & 1 == 1))
    }

    /// The number of things of which each takes a byte at least.
    pub(super) fn count(&mut self) -> Accepted<usize> {
        let number = self.number()?;
        self.checked_count(number)
    }

    pub(super) fn checked_count(&self, number: u64) -> Accepted<usize> {
        let left = self.left();
        let count = usize::try_from(number).ok().filter(|count| *count <= left);
        count.ok_or_else(|| damaged(format!("{number} things are listed in {left} bytes")))
    }

    pub(super) fn signed_list(&mut self) -> Accepted<Vec<i64>> {
        let count = self.count()?;
        (0..count).map(|_| self.signed()).collect()
    }

    /// Bytes behind their number.
    pub(super) fn blob(&mut self) -> Accepted<&'b [u8]> {
        let count = self.count()?;
        self.take(count)
    }

    /// A text up to a byte of zero.
    pub(super) fn text(&mut self) -> Accepted<&'b str> {
        let rest = &self.bytes[self.at..];
        let end = rest.iter().position(|&byte| byte == 0);
        let end = end.ok_or_else(|| damaged("a text has no end"))?;
        let text = self.take(end)?;
        self.at += 1;
        std::str::from_utf8(text).map_err(|_| damaged("a text is not UTF-8"))
    }

    /// The next section.
    pub(super) fn section(&mut self) -> Accepted<Section<'b>> {
        const ALIGNED: u8 = 0x80;
        const PADDING: u8 = 0xCB;
        let id = self.byte()?;
        let length = self.number()?;
        if id & ALIGNED != 0 {
            self.number()?;
            while self.bytes.get(self.at) == Some(&PADDING) {
                self.at += 1;
            }
        }
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        Ok(Section { id: id & !ALIGNED, bytes: self.take(length)? })
    }
}
