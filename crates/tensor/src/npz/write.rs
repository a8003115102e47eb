//! Writes archives: stored members, then the central folder.
//!
//! A member's header tells its size and checksum, so each array is encoded twice: once to find
//! them, once into the file. Sizes and offsets that 32 bits do not hold stand in extra fields
//! (APPNOTE 4.5.3), and the folder's then behind it (4.3.14).

use std::io::{self, Write};

use crate::npy;
use crate::tensor::Tensor;
use crate::zip::checksum_further;

/// What a field of 32 bits holds where the number stands elsewhere.
const ELSEWHERE: u64 = 0xffff_ffff;
/// 1 January 1980, the earliest day that a member can have.
const DAY: u64 = 0x21;

/// Writes arrays with their names (without `.npy`).
///
/// # Errors
/// Those of the writer; see [`npy::encode_to`], too.
pub fn encode_to(arrays: &[(String, Tensor)], file: &mut impl Write) -> io::Result<()> {
    let mut file = Counted { inner: file, bytes: 0, state: !0 };
    let mut folder = Vec::new();
    for (name, tensor) in arrays {
        let mut probe = Counted { inner: &mut io::sink(), bytes: 0, state: !0 };
        npy::encode_to(tensor, &mut probe)?;
        let member = Member {
            name: format!("{name}.npy"),
            size: probe.bytes,
            checksum: !probe.state,
            offset: file.bytes,
        };
        file.write_all(&member.header()?)?;
        npy::encode_to(tensor, &mut file)?;
        folder.extend(member.row()?);
    }
    let end = end(arrays.len() as u64, file.bytes, folder.len() as u64);
    file.write_all(&folder)?;
    file.write_all(&end)
}

/// A writer that knows how much went through it, and its checksum so far.
struct Counted<'w, W: Write> {
    inner: &'w mut W,
    bytes: u64,
    state: u32,
}

impl<W: Write> Write for Counted<'_, W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.inner.write(bytes)?;
        self.bytes += written as u64;
        self.state = checksum_further(self.state, &bytes[..written]);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

/// A member of the archive.
struct Member {
    name: String,
    size: u64,
    checksum: u32,
    offset: u64,
}

/// Little-endian numbers of so many bytes each, behind one another.
fn record(fields: &[(u64, usize)]) -> Vec<u8> {
    fields.iter().flat_map(|(value, width)| value.to_le_bytes().into_iter().take(*width)).collect()
}

/// An extra field with numbers that 32 bits do not hold; nothing where there are none.
fn extra(numbers: &[u64]) -> Vec<u8> {
    if numbers.is_empty() {
        return Vec::new();
    }
    let mut field = record(&[(1, 2), (8 * numbers.len() as u64, 2)]);
    numbers.iter().for_each(|number| field.extend(number.to_le_bytes()));
    field
}

impl Member {
    fn name_length(&self) -> io::Result<u64> {
        let length = self.name.len() as u64;
        match u16::try_from(length) {
            Ok(_) => Ok(length),
            Err(_) => Err(io::Error::other(format!("a name has {length} bytes"))),
        }
    }

    /// What stands before its content.
    fn header(&self) -> io::Result<Vec<u8>> {
        let is_wide = self.size >= ELSEWHERE;
        let short = self.size.min(ELSEWHERE);
        let wide = if is_wide { vec![self.size, self.size] } else { Vec::new() };
        let extra = extra(&wide);
        let version = if is_wide { 45 } else { 20 };
        // 0x800: the name is UTF-8.
        let mut header = record(&[(0x0403_4b50, 4), (version, 2), (0x800, 2), (0, 2), (0, 2)]);
        header.extend(record(&[(DAY, 2), (self.checksum.into(), 4), (short, 4), (short, 4)]));
        header.extend(record(&[(self.name_length()?, 2), (extra.len() as u64, 2)]));
        header.extend(self.name.as_bytes());
        header.extend(extra);
        Ok(header)
    }

    /// Its row of the central folder.
    fn row(&self) -> io::Result<Vec<u8>> {
        let (short, offset) = (self.size.min(ELSEWHERE), self.offset.min(ELSEWHERE));
        let mut wide = Vec::new();
        if short == ELSEWHERE {
            wide.extend([self.size, self.size]);
        }
        if offset == ELSEWHERE {
            wide.push(self.offset);
        }
        let (extra, version) = (extra(&wide), if wide.is_empty() { 20 } else { 45 });
        let mut row = record(&[(0x0201_4b50, 4), (version, 2), (version, 2), (0x800, 2), (0, 2)]);
        row.extend(record(&[(0, 2), (DAY, 2), (self.checksum.into(), 4), (short, 4), (short, 4)]));
        row.extend(record(&[(self.name_length()?, 2), (extra.len() as u64, 2), (0, 2), (0, 2)]));
        row.extend(record(&[(0, 2), (0, 4), (offset, 4)]));
        row.extend(self.name.as_bytes());
        row.extend(extra);
        Ok(row)
    }
}

/// The end of an archive of so many members, whose folder has so many bytes.
fn end(count: u64, offset: u64, length: u64) -> Vec<u8> {
    let mut end = Vec::new();
    if count >= 0xffff || offset >= ELSEWHERE || length >= ELSEWHERE {
        end.extend(record(&[(0x0606_4b50, 4), (44, 8), (45, 2), (45, 2), (0, 4), (0, 4)]));
        end.extend(record(&[(count, 8), (count, 8), (length, 8), (offset, 8)]));
        end.extend(record(&[(0x0706_4b50, 4), (0, 4), (offset.saturating_add(length), 8), (1, 4)]));
    }
    let count = count.min(0xffff);
    end.extend(record(&[(0x0605_4b50, 4), (0, 2), (0, 2), (count, 2), (count, 2)]));
    end.extend(record(&[(length.min(ELSEWHERE), 4), (offset.min(ELSEWHERE), 4), (0, 2)]));
    end
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::npz::decode_archive;

    #[test]
    fn what_is_written_is_read() {
        let arrays = [
            ("x".to_owned(), Tensor::from_vec(&[2], vec![1.5f32, -2.0])),
            ("ä/b".to_owned(), Tensor::from_strings(&[1], vec!["word".to_owned()])),
        ];
        for arrays in [&arrays[..], &arrays[..0]] {
            let mut file = Vec::new();
            encode_to(arrays, &mut file).expect("memory takes it");
            assert_eq!(decode_archive(file.into(), "x.npz").expect("read"), arrays);
        }
    }

    #[test]
    fn numbers_beyond_32_bits_stand_in_extra_fields() {
        let member = Member { name: "a".to_owned(), size: 1 << 33, checksum: 7, offset: 1 << 34 };
        let (header, row) = (member.header().expect("short"), member.row().expect("short"));
        assert_eq!((header.len(), row.len()), (30 + 1 + 20, 46 + 1 + 28));
        assert_eq!(row[row.len() - 8..], (1_u64 << 34).to_le_bytes());
        assert_eq!(end(1, 1 << 34, 60).len(), 56 + 20 + 22);
        assert_eq!(end(1, 1 << 20, 60).len(), 22);
    }
}
