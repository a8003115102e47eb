//! MurmurHash3 by Austin Appleby, the variant of 32 bits for x86 (`MurmurHash3_x86_32`).

/// The hash of some bytes.
#[must_use]
pub fn murmur3(bytes: &[u8], seed: u32) -> u32 {
    let mixed =
        |word: u32| word.wrapping_mul(0xcc9e_2d51).rotate_left(15).wrapping_mul(0x1b87_3593);
    let mut hash = seed;
    let mut words = bytes.chunks_exact(4);
    for word in &mut words {
        let word = word.iter().rev().fold(0, |word, &byte| word << 8 | u32::from(byte));
        hash = (hash ^ mixed(word)).rotate_left(13).wrapping_mul(5).wrapping_add(0xe654_6b64);
    }
    let rest = words.remainder().iter().rev().fold(0, |word, &byte| word << 8 | u32::from(byte));
    hash ^= mixed(rest) ^ bytes.len() as u32;
    hash = (hash ^ hash >> 16).wrapping_mul(0x85eb_ca6b);
    hash = (hash ^ hash >> 13).wrapping_mul(0xc2b2_ae35);
    hash ^ hash >> 16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_those_of_the_original() {
        assert_eq!(murmur3(b"", 0), 0);
        assert_eq!(murmur3(b"", 1), 0x514e_28b7);
        assert_eq!(murmur3(b"test", 0), 0xba6b_d213);
        assert_eq!(murmur3(b"Hello, world!", 0), 0xc036_3e43);
        assert_eq!(murmur3(b"aaa", 0x9747_b28c), 0x283e_0130);
    }
}
