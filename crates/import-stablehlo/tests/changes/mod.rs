//! Files with a few bytes changed, always the same ones.
//!
//! `MUTATIONS=25000 cargo test --release -p tilewright-import-stablehlo changed` reads a million of
//! the kept programs' changes, half of them texts and half bytecode; `ulimit -v` bounds its memory.

/// Changes of one file after the other.
pub(crate) struct Changes {
    state: u64,
}

impl Changes {
    pub(crate) fn new() -> Changes {
        Changes { state: 0x5EED }
    }

    /// How many changed files are read for each program: what the environment says, or these.
    pub(crate) fn count(usual: usize) -> usize {
        let told = std::env::var("MUTATIONS").ok();
        told.map_or(usual, |told| told.parse().expect("MUTATIONS is a number"))
    }

    pub(crate) fn below(&mut self, below: usize) -> usize {
        self.state = self
            .state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.state >> 33) as usize % below.max(1)
    }

    /// A file of one to three changes: a byte made by `byte`, a bit, a byte left out or added, or
    /// bytes from elsewhere put in.
    pub(crate) fn changed(&mut self, bytes: &[u8], byte: impl Fn(&mut Changes) -> u8) -> Vec<u8> {
        let mut changed = bytes.to_vec();
        for _ in 0..1 + self.below(3) {
            let at = self.below(changed.len());
            match self.below(5) {
                0 => changed[at] = byte(self),
                1 => changed[at] ^= 1 << self.below(7),
                2 => drop(changed.remove(at)),
                3 => changed.insert(at, byte(self)),
                _ => {
                    let from = self.below(bytes.len());
                    let end = (from + self.below(40)).min(bytes.len());
                    changed.splice(at..at, bytes[from..end].iter().copied());
                }
            }
        }
        changed
    }
}
