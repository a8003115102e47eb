//! NumPy's `.npz` archives: `.npy` files in a zip file ([`crate::zip`]), stored, as `numpy.savez`
//! does, or deflated, as `numpy.savez_compressed` does. Written without compression.

mod write;

use std::path::Path;

use bytes::Bytes;

pub use write::encode_to;

use crate::mapped::read_plain;
use crate::npy::{bad_file, decode};
use crate::tensor::Tensor;
use crate::zip::members;

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::npy::encode;
    use crate::zip::checksum;

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
}
