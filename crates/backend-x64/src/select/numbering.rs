//! Numbering of values: equal instructions, and the values that they made.

use base::Id;

use crate::vcode::{Base, Inst, VRegId};

/// Instructions with their values, by what they are.
pub(super) struct Numbering {
    /// The newest entry of each bucket.
    buckets: Vec<Option<u32>>,
    entries: Vec<Entry>,
}

struct Entry {
    hash: u64,
    inst: Inst,
    value: VRegId,
    /// The entry before it in its bucket.
    next: Option<u32>,
}

/// Where an instruction goes that has not been found.
pub(super) struct Missing {
    hash: u64,
}

/// Buckets at first.
const BUCKETS: usize = 256;

impl Default for Numbering {
    fn default() -> Numbering {
        Numbering { buckets: vec![None; BUCKETS], entries: Vec::with_capacity(BUCKETS / 2) }
    }
}

impl Numbering {
    /// The newest value of an equal instruction that can be used, or where to put one.
    pub(super) fn find(
        &self,
        inst: &Inst,
        is_usable: impl Fn(VRegId) -> bool,
    ) -> Result<VRegId, Missing> {
        let hash = hash(inst);
        let mut next = self.buckets[self.bucket(hash)];
        while let Some(entry) = next.map(|at| &self.entries[at as usize]) {
            if entry.hash == hash && entry.inst == *inst && is_usable(entry.value) {
                return Ok(entry.value);
            }
            next = entry.next;
        }
        Err(Missing { hash })
    }

    pub(super) fn insert(&mut self, Missing { hash }: Missing, inst: Inst, value: VRegId) {
        if self.entries.len() == 4 * self.buckets.len() {
            self.buckets = vec![None; 4 * self.buckets.len()];
            for at in 0..self.entries.len() {
                let bucket = self.bucket(self.entries[at].hash);
                self.entries[at].next = self.buckets[bucket].replace(at as u32);
            }
        }
        let bucket = self.bucket(hash);
        let next = self.buckets[bucket].replace(self.entries.len() as u32);
        self.entries.push(Entry { hash, inst, value, next });
    }

    fn bucket(&self, hash: u64) -> usize {
        (hash >> 32) as usize & (self.buckets.len() - 1)
    }
}

/// A number that equal instructions without results share.
fn hash(inst: &Inst) -> u64 {
    const FACTOR: u64 = 0xf135_7aea_2e62_a9c5;
    let id = |value: Option<VRegId>| value.map_or(0, |value| value.index() as u64 + 1);
    let mut hash = inst.op as u64 | (inst.lane as u64) << 8 | id(inst.mask) << 16;
    let mut add = |word: u64| hash = (hash.rotate_left(26) ^ word).wrapping_mul(FACTOR);
    inst.args.iter().for_each(|value| add(value.index() as u64));
    add(inst.imm as u64);
    if let Some(address) = &inst.address {
        let (kind, base) = match address.base {
            Base::Value(value) => (0, value.index() as u64),
            Base::Pool(constant) => (1, constant.index() as u64),
            Base::Frame => (2, 0),
        };
        let (index, scale) =
            address.index.map_or((0, 0), |(index, scale)| (id(Some(index)), scale));
        add(base | index << 32);
        add(u64::from(address.displacement as u32) | kind << 32 | u64::from(scale) << 40);
    }
    hash
}
