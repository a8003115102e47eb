//! A digest of bytes: tells contents apart, and resists accidents, not malice. It is FNV-1a of 128
//! bits (Fowler, Noll, Vo) over words of eight bytes, the last filled up with zeros, and the number
//! of bytes.

use std::fmt;
use std::io::{self, Write};

const START: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
const PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;

/// The digest of what has been added so far.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Digest {
    state: u128,
    /// What does not fill a word yet.
    rest: Vec<u8>,
    bytes: u64,
}

impl Default for Digest {
    fn default() -> Digest {
        Digest { state: START, rest: Vec::with_capacity(8), bytes: 0 }
    }
}

impl Digest {
    /// Adds bytes; how they are cut does not matter.
    pub fn add(&mut self, mut bytes: &[u8]) {
        self.bytes += bytes.len() as u64;
        if !self.rest.is_empty() {
            let taken = bytes.len().min(8 - self.rest.len());
            self.rest.extend_from_slice(&bytes[..taken]);
            bytes = &bytes[taken..];
            if self.rest.len() == 8 {
                let word = std::mem::take(&mut self.rest);
                self.words(&word);
            }
        }
        let whole = bytes.len() / 8 * 8;
        self.words(&bytes[..whole]);
        self.rest.extend_from_slice(&bytes[whole..]);
    }

    fn words(&mut self, bytes: &[u8]) {
        for word in bytes.chunks_exact(8) {
            let mut eight = [0; 8];
            eight.copy_from_slice(word);
            self.state ^= u128::from(u64::from_le_bytes(eight));
            self.state = self.state.wrapping_mul(PRIME);
        }
    }

    /// Its 16 bytes.
    #[must_use]
    pub fn value(&self) -> [u8; 16] {
        let mut ended = self.clone();
        let mut word = std::mem::take(&mut ended.rest);
        word.resize(8, 0);
        ended.words(&word);
        ended.words(&self.bytes.to_le_bytes());
        ended.state.to_be_bytes()
    }
}

impl fmt::Display for Digest {
    /// Its 32 digits.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.value().iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl Write for Digest {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.add(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn how_bytes_are_cut_does_not_matter() {
        let bytes: Vec<u8> = (0..100).collect();
        let mut whole = Digest::default();
        whole.add(&bytes);
        for cut in 0..100 {
            let mut parts = Digest::default();
            parts.add(&bytes[..cut]);
            parts.add(&bytes[cut..]);
            assert_eq!(parts.value(), whole.value());
        }
        let mut longer = whole.clone();
        longer.add(&[0]);
        assert_ne!(longer.value(), whole.value());
        assert_eq!(Digest::default().to_string().len(), 32);
    }
}
