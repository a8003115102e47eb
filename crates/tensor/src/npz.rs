//! NumPy's `.npz` archives: `.npy` files in a zip file. Written without compression.
//!
//! Source: PKWARE's APPNOTE 6.3, sections 4.3 and 4.5.3 (the 64-bit sizes). The central folder at
//! the end of the file says what the members are; their checksums are verified. Members are stored,
//! as `numpy.savez` does, or deflated, as `numpy.savez_compressed` does; the size that the archive
//! states bounds the memory that inflating takes.

mod write;

use std::path::Path;

use bytes::Bytes;

pub use write::encode_to;

use crate::mapped::read_plain;
use crate::npy::{bad_file, decode};
use crate::tensor::Tensor;

/// Reads the arrays of an archive with their names (without `.npy`), in the archive's order.
///
/// # Errors
/// A diagnostic with the names of file and member when the file cannot be read, is not a
/// well-formed archive, or a member is not a supported `.npy` file.
pub fn read(path: impl AsRef<Path>) -> base::Result<Vec<(String, Tensor)>> {
    let path = path.as_ref();
    let bytes = read_plain(path)?;
    decode_archive(bytes.into(), &path.display().to_string())
}

/// Reads an archive's content, as [`read`]; `place` names it in diagnostics.
///
/// # Errors
/// As [`read`].
pub fn decode_archive(bytes: Bytes, place: &str) -> base::Result<Vec<(String, Tensor)>> {
    let members = members(&bytes).map_err(|reason| bad_file(place, &reason))?;
    let mut arrays = Vec::with_capacity(members.len());
    for member in members {
        let place = format!("{place}, member {}", member.name);
        let content = member.content(&bytes).map_err(|reason| bad_file(&place, &reason))?;
        let name = member.name.strip_suffix(".npy").unwrap_or(&member.name).to_owned();
        arrays.push((name, decode(content, &place)?));
    }
    Ok(arrays)
}

/// A member of the archive, by its row of the central folder.
struct Member {
    name: String,
    method: u16,
    checksum: u32,
    /// Bytes in the archive.
    stored: u64,
    /// Bytes of the content.
    size: u64,
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

/// The rows of the central folder.
fn members(bytes: &[u8]) -> Result<Vec<Member>, String> {
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

    /// The member's content, shared with the archive unless it is deflated.
    fn content(&self, archive: &Bytes) -> Result<Bytes, String> {
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

/// CRC-32 with the reflected polynomial 0xedb88320, a byte at a time.
fn checksum(bytes: &[u8]) -> u32 {
    !checksum_further(!0, bytes)
}

/// The state of a checksum after more bytes; it begins as `!0`, and the sum is its complement.
fn checksum_further(state: u32, bytes: &[u8]) -> u32 {
    const TABLE: [u32; 256] = {
        let mut table = [0; 256];
        let mut index = 0;
        while index < 256 {
            let mut value = index as u32;
            let mut bit = 0;
            while bit < 8 {
                value = (value >> 1) ^ if value & 1 == 1 { 0xedb8_8320 } else { 0 };
                bit += 1;
            }
            table[index] = value;
            index += 1;
        }
        table
    };
    let step = |sum: u32, byte: &u8| (sum >> 8) ^ TABLE[usize::from(sum as u8 ^ byte)];
    bytes.iter().fold(state, step)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::npy::encode;

    fn record(signature: u32, fields: &[(u64, usize)]) -> Vec<u8> {
        let mut record = signature.to_le_bytes().to_vec();
        for (value, width) in fields {
            record.extend(&value.to_le_bytes()[..*width]);
        }
        record
    }

    /// A zip archive with one member.
    fn archive(name: &str, content: &[u8], method: u64, wide: bool) -> Vec<u8> {
        let stored = match method {
            8 => miniz_oxide::deflate::compress_to_vec(content, 6),
            _ => content.to_vec(),
        };
        let (size, sum) = (content.len() as u64, u64::from(checksum(content)));
        let packed = stored.len() as u64;
        let name_length = name.len() as u64;
        let short = |size| if wide { 0xffff_ffff } else { size };
        let (short, packed_short) = (short(size), short(packed));
        let extra = if wide { record(0x0010_0001, &[(size, 8), (packed, 8)]) } else { Vec::new() };
        let extra_length = extra.len() as u64;
        let mut file = record(
            0x0403_4b50,
            &[(20, 2), (0, 2), (method, 2), (0, 4), (sum, 4), (packed_short, 4), (short, 4)],
        );
        file.extend(record(0, &[(name_length, 2), (0, 2)]).split_off(4));
        file.extend(name.as_bytes());
        file.extend(stored);
        let folder = file.len() as u64;
        file.extend(record(
            0x0201_4b50,
            &[
                (20, 2),
                (20, 2),
                (0, 2),
                (method, 2),
                (0, 4),
                (sum, 4),
                (packed_short, 4),
                (short, 4),
            ],
        ));
        let rest = [(name_length, 2), (extra_length, 2), (0, 2), (0, 2), (0, 2), (0, 4), (0, 4)];
        file.extend(record(0, &rest).split_off(4));
        file.extend(name.as_bytes());
        file.extend(extra);
        let length = file.len() as u64 - folder;
        file.extend(record(
            0x0605_4b50,
            &[(0, 2), (0, 2), (1, 2), (1, 2), (length, 4), (folder, 4), (0, 2)],
        ));
        file
    }

    #[test]
    fn stored_and_deflated_members() {
        let tensor = Tensor::from_vec(&[2], vec![1.5f32, -2.0]);
        for (wide, method) in [(false, 0), (true, 0), (false, 8), (true, 8)] {
            let bytes = archive("a.npy", &encode(&tensor), method, wide);
            let arrays = decode_archive(bytes.into(), "x.npz").expect("read");
            assert_eq!(arrays, [("a".to_owned(), tensor.clone())]);
        }
    }

    #[test]
    fn refusals() {
        let reason = |bytes: Vec<u8>| {
            decode_archive(bytes.into(), "x.npz").expect_err("refused")[0].reasons.join("; ")
        };
        let content = encode(&Tensor::from_vec(&[1], vec![1u8]));
        assert!(reason(archive("a.npy", &content, 12, false)).contains("method 12"));
        let mut damaged = archive("a.npy", &content, 8, false);
        damaged[40] ^= 0xff;
        assert!(!reason(damaged).is_empty());
        let mut damaged = archive("a.npy", &content, 0, false);
        damaged[40] ^= 1;
        assert!(reason(damaged).contains("checksum"));
        assert!(reason(Vec::new()).contains("not a zip archive"));
        let whole = archive("a.npy", &content, 0, false);
        for length in 0..whole.len() {
            assert!(decode_archive(whole[..length].to_vec().into(), "x").is_err());
        }
    }

    #[test]
    fn checksum_of_the_usual_text() {
        assert_eq!(checksum(b"123456789"), 0xcbf4_3926);
    }
}
