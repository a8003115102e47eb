//! Engine files: what has been compiled of a model, and its constants, in one file that is mapped.
//!
//! A file has a *head*, which is read and checked whole whenever the file is opened, and behind it
//! the *constants*, which are used where they are mapped. All numbers are little-endian.
//!
//! | bytes | what |
//! |---|---|
//! | 0..8 | [`MAGIC`] |
//! | 8..12 | [`FORMAT`] |
//! | 12..16 | how many sections there are |
//! | 16..24 | bytes of the head, a multiple of 4096 |
//! | 24..32 | bytes of the file |
//! | 32..48 | digest of the head, these bytes taken as zeros |
//! | 48..64 | digest of the constants |
//! | 64.. | a row a section: kind (8), offset (8), bytes (8) |
//!
//! Sections begin at multiples of 64 bytes, constants at multiples of 64 and large ones at
//! multiples of 4096; zeros lie between. The digests are XXH3 of 128 bits, for accidents, not
//! against forgers: an engine file is a program, to be taken from where programs are.
//!
//! - [`EngineFile`]: a file that has been opened; [`EngineDraft`]: one to be written;
//! - [`Encoder`], [`Decoder`]: numbers, texts and lists in a section.
//!
//! This crate does not know what sections hold.

mod draft;
mod file;
mod wire;

pub use draft::{EngineDraft, Fill};
pub use file::EngineFile;
pub use wire::{Damage, Decoder, Encoder};

/// What every engine file begins with: no text, and not the same once it has been copied as one.
pub const MAGIC: [u8; 8] = *b"\x89TWE\r\n\x1a\n";

/// The version of the format: of this header and of all sections.
pub const FORMAT: u32 = 2;

/// Bytes ahead of the rows of sections.
const HEADER: usize = 64;

/// Bytes of a section's row.
const ROW: usize = 24;

/// Where the digest of the head lies.
const HEAD_DIGEST: std::ops::Range<usize> = 32..48;

/// Where the digest of the constants lies.
const CONSTANTS_DIGEST: std::ops::Range<usize> = 48..64;

/// Sections and constants begin at multiples of this many bytes.
const ALIGNMENT: usize = 64;

/// The head and large constants end and begin at multiples of this many bytes.
const PAGE: usize = 4096;

/// The digest of a head: of its bytes, zeros in the place of the digest itself.
fn head_digest(head: &[u8]) -> u128 {
    let mut hasher = xxhash_rust::xxh3::Xxh3::new();
    hasher.update(&head[..HEAD_DIGEST.start]);
    hasher.update(&[0; HEAD_DIGEST.end - HEAD_DIGEST.start]);
    hasher.update(&head[HEAD_DIGEST.end..]);
    hasher.digest128()
}

/// Gives a file the digest of the head that it has, whatever that holds: for tests of what is
/// behind the digest.
pub fn seal(file: &mut [u8]) {
    let mut field = [0; 8];
    field.copy_from_slice(&file[16..24]);
    let head = usize::try_from(u64::from_le_bytes(field)).unwrap_or(usize::MAX).min(file.len());
    if head >= HEADER {
        let digest = head_digest(&file[..head]);
        file[HEAD_DIGEST].copy_from_slice(&digest.to_le_bytes());
    }
}

/// A digest of bytes, by which contents are told apart.
#[must_use]
pub fn digest(bytes: &[u8]) -> u128 {
    xxhash_rust::xxh3::xxh3_128(bytes)
}
