//! Zip archives, read: the members' names, and their contents.
//!
//! Source: PKWARE's APPNOTE 6.3, sections 4.3 and 4.5.3 (the 64-bit sizes). The central folder at
//! the end of the file says what the members are; their checksums are verified. Members are stored
//! or deflated; the size that the archive states bounds the memory that inflating takes.

use bytes::Bytes;

/// A member of an archive, by its row of the central folder.
#[derive(Clone, Debug)]
pub struct Member {
    /// What it is called, folders included.
    pub name: String,
    /// Bytes of the content, as the archive states them.
    pub size: u64,
    method: u16,
    checksum: u32,
    /// Bytes in the archive.
    stored: u64,
    header: u64,
}

/// A little-endian number of 2, 4 or 8 bytes at an offset.
fn number(bytes: &[u8], offset: u64, width: usize) -> Result<u64, String> {
    let start = usize::try_from(offset).ok();
    let field = start.and_then(|start| bytes.get(start..start.checked_add(width)?));
    let mut value = [0; 8];
    value[..width].copy_from_slice(field.ok_or("the archive ends early")?);
    Ok(u64::from_le_bytes(value))
}

/// Whether a file begins as an archive with members does.
#[must_use]
pub fn is_archive(bytes: &[u8]) -> bool {
    bytes.starts_with(b"PK\x03\x04")
}

/// The rows of the central folder.
///
/// # Errors
/// Half a sentence: what is broken.
pub fn members(bytes: &[u8]) -> Result<Vec<Member>, String> {
    // The end record has 22 bytes and a comment of at most 65535.
    let from = bytes.len().saturating_sub(22 + 65535);
    let end = bytes[from..].windows(4).rposition(|window| window == b"PK\x05\x06");
    let end = (from + end.ok_or("it is not a zip archive")?) as u64;
    let comment = number(bytes, end + 20, 2)?;
    slice(bytes, end + 22, comment)?;
    let mut count = number(bytes, end + 10, 2)?;
    let mut row = number(bytes, end + 16, 4)?;
    if count == 0xffff || row == 0xffff_ffff {
        // The 64-bit end record, found through its locator, which stands before the end record.
        let locator = end.checked_sub(20).ok_or("the archive ends early")?;
        if number(bytes, locator, 4)? == 0x0706_4b50 {
            let end = number(bytes, locator + 8, 8)?;
            count = number(bytes, end.saturating_add(32), 8)?;
            row = number(bytes, end.saturating_add(48), 8)?;
        }
    }
    let mut members = Vec::new();
    for _ in 0..count {
        if number(bytes, row, 4)? != 0x0201_4b50 {
            return Err("the archive's table of members is broken".to_owned());
        }
        let lengths = [28, 30, 32].map(|offset| number(bytes, row + offset, 2));
        let [name, extra, comment] = lengths;
        let (name, extra, comment) = (name?, extra?, comment?);
        let text = slice(bytes, row + 46, name)?;
        let mut member = Member {
            name: String::from_utf8_lossy(text).into_owned(),
            method: number(bytes, row + 10, 2)? as u16,
            checksum: number(bytes, row + 16, 4)? as u32,
            stored: number(bytes, row + 20, 4)?,
            size: number(bytes, row + 24, 4)?,
            header: number(bytes, row + 42, 4)?,
        };
        member.widen(slice(bytes, row + 46 + name, extra)?)?;
        members.push(member);
        row += 46 + name + extra + comment;
    }
    Ok(members)
}

fn slice(bytes: &[u8], start: u64, length: u64) -> Result<&[u8], String> {
    let end = start.checked_add(length).and_then(|end| usize::try_from(end).ok());
    let range = usize::try_from(start).ok().zip(end);
    let found = range.and_then(|(start, end)| bytes.get(start..end));
    found.ok_or_else(|| "the archive ends early".to_owned())
}

impl Member {
    /// Takes the 64-bit sizes and offset from the extra field, for those that do not fit 32 bits.
    /// They stand in the order size, compressed size, offset, each only if its 32-bit field is
    /// full.
    fn widen(&mut self, extra: &[u8]) -> Result<(), String> {
        let mut field = 0;
        while field + 4 <= extra.len() as u64 {
            let (tag, length) = (number(extra, field, 2)?, number(extra, field + 2, 2)?);
            if tag == 1 {
                let mut next = field + 4;
                for value in [&mut self.size, &mut self.stored, &mut self.header] {
                    if *value == 0xffff_ffff {
                        *value = number(extra, next, 8)?;
                        next += 8;
                    }
                }
            }
            field += 4 + length;
        }
        Ok(())
    }

    /// Whether its content takes memory of its own, [`Self::size`] bytes.
    #[must_use]
    pub fn is_deflated(&self) -> bool {
        self.method != 0
    }

    /// The member's content, shared with the archive unless it is deflated.
    ///
    /// # Errors
    /// Half a sentence: what is broken.
    pub fn content(&self, archive: &Bytes) -> Result<Bytes, String> {
        if number(archive, self.header, 4)? != 0x0403_4b50 {
            return Err("the member's header is broken".to_owned());
        }
        let name = number(archive, self.header.saturating_add(26), 2)?;
        let extra = number(archive, self.header.saturating_add(28), 2)?;
        let start = self.header.saturating_add(30 + name + extra);
        let stored = archive.slice_ref(slice(archive, start, self.stored)?);
        let content = match self.method {
            0 => stored,
            8 => inflated(&stored, self.size)?.into(),
            method => return Err(format!("it is compressed by method {method}, not deflated")),
        };
        if checksum(&content) != self.checksum {
            return Err("the member's checksum is wrong: the archive is damaged".to_owned());
        }
        Ok(content)
    }
}

/// The content of deflated bytes; the format allows a ratio of 1032 at most.
fn inflated(stored: &[u8], size: u64) -> Result<Vec<u8>, String> {
    let most = usize::try_from(size.min(1032 * stored.len() as u64)).unwrap_or(usize::MAX);
    let content = miniz_oxide::inflate::decompress_to_vec_with_limit(stored, most)
        .map_err(|error| format!("it does not inflate: {error}"))?;
    match content.len() as u64 == size {
        true => Ok(content),
        false => Err(format!("it inflates to {} bytes instead of {size}", content.len())),
    }
}

/// CRC-32 with the reflected polynomial 0xedb88320.
pub(crate) fn checksum(bytes: &[u8]) -> u32 {
    !checksum_further(!0, bytes)
}

/// What a byte makes of a state of zeros, and that followed by 1 to 7 bytes of zeros: eight bytes
/// are one step then, since checksums of sums are sums of checksums.
const TABLES: [[u32; 256]; 8] = {
    let mut tables = [[0; 256]; 8];
    let mut index = 0;
    while index < 256 {
        let mut value = index as u32;
        let mut bit = 0;
        while bit < 8 {
            value = (value >> 1) ^ if value & 1 == 1 { 0xedb8_8320 } else { 0 };
            bit += 1;
        }
        tables[0][index] = value;
        index += 1;
    }
    let mut more = 1;
    while more < 8 {
        let mut index = 0;
        while index < 256 {
            let before = tables[more - 1][index];
            tables[more][index] = (before >> 8) ^ tables[0][(before & 0xff) as usize];
            index += 1;
        }
        more += 1;
    }
    tables
};

/// The state of a checksum after more bytes; it begins as `!0`, and the sum is its complement.
pub(crate) fn checksum_further(state: u32, bytes: &[u8]) -> u32 {
    let (eights, rest) = bytes.as_chunks::<8>();
    let step = |state: u32, bytes: &[u8; 8]| {
        let mixed = u64::from_le_bytes(*bytes) ^ u64::from(state);
        let part = |at: usize| TABLES[7 - at][usize::from((mixed >> (8 * at)) as u8)];
        (0..8).fold(0, |sum, at| sum ^ part(at))
    };
    let state = eights.iter().fold(state, step);
    let step = |sum: u32, byte: &u8| (sum >> 8) ^ TABLES[0][usize::from(sum as u8 ^ byte)];
    rest.iter().fold(state, step)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksum_of_the_usual_text() {
        assert_eq!(checksum(b"123456789"), 0xcbf4_3926);
    }

    #[test]
    fn checksums_are_the_same_however_bytes_are_parted() {
        let bytes: Vec<u8> = (0..100_u8).map(|at| at.wrapping_mul(37)).collect();
        for part in 0..bytes.len() {
            let (first, second) = bytes.split_at(part);
            let state = checksum_further(checksum_further(!0, first), second);
            assert_eq!(!state, checksum(&bytes));
        }
    }
}
