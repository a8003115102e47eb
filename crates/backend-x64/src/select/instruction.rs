//! Loops that are instructions: what `backend` describes as loops, and how it is encoded here.
//!
//! The loop says which elements each lane takes and what it adds to. An operand's elements fill a
//! 32-bit lane, so they are loaded as one, and what functions of bits make of them, or tables, is
//! made of all at once.
//!
//! Products of bytes are summed in pairs of 16 bits and widened then. Where the bytes have few bits
//! the sums of several instructions fit 16 bits, so these are added up first and widened once.

use std::rc::Rc;

use backend::{Found, Isa, Tuple};
use base::Id;
use loops::{BufferId, Loop};
use tensor::ScalarFunction;

use super::Selector;
use super::index::Linear;
use super::lookup::TABLE;
use super::memory::Part;
use super::value::{Evaluated, Item, Vector, register_type};
use crate::vcode::{Inst, Lane, Opcode, VRegId};

/// How an instruction is encoded where it is had.
struct Encoding {
    /// Its name in `backend`'s table.
    name: &'static str,
    /// The instruction sets that this row is for.
    isas: &'static [Isa],
    /// Lanes of what it adds to.
    lane: Lane,
    /// Of its operands; the sum stands first if it is added to at once.
    op: Opcode,
    makes: Makes,
}

/// What the operation makes.
#[derive(Clone, Copy, PartialEq)]
enum Makes {
    /// The sum with what there was.
    Sum,
    /// What is to be added.
    Addend,
    /// Sums of pairs in 16 bits, which are added in pairs then. They fit where unsigned bytes have
    /// 7 bits; those of 8 are cut in two parts.
    Pairs,
}

/// A sum of 32 bits: what it was before and sums of pairs in 16 bits, which are added to that in
/// pairs.
#[derive(Clone, Copy)]
pub(super) struct Joined {
    /// What it was before; nothing is zero.
    before: Option<VRegId>,
    pairs: VRegId,
    /// None of the sums of pairs has a larger magnitude.
    most: u64,
}

/// The largest magnitude that sums of pairs may have.
const MOST_IN_PAIRS: u64 = i16::MAX as u64;

/// The largest magnitude of a signed byte.
const MOST_IN_BYTE: u64 = 128;

/// Parts of whole bytes of which two products with signed bytes fit 16 bits.
const PARTS_OF_BYTES: [u64; 2] = [127, 128];

/// The number 1 in each half of a lane.
const ONES: u64 = 0x0001_0001;

const ENCODINGS: &[Encoding] = &[
    Encoding {
        name: "dot_bf16_2",
        isas: &[Isa::X86Avx512Bf16],
        lane: Lane::F32,
        op: Opcode::DotPairs,
        makes: Makes::Sum,
    },
    Encoding {
        name: "dot_i16_2",
        isas: &[Isa::X86Avx512Bf16],
        lane: Lane::I32,
        op: Opcode::DotPairs,
        makes: Makes::Sum,
    },
    Encoding {
        name: "dot_i16_2",
        isas: &[Isa::X86Avx512, Isa::X86Avx2],
        lane: Lane::I32,
        op: Opcode::MulPairs,
        makes: Makes::Addend,
    },
    Encoding {
        name: "dot_u8_i8_4",
        isas: &[Isa::X86Avx512Bf16],
        lane: Lane::I32,
        op: Opcode::DotQuads,
        makes: Makes::Sum,
    },
    Encoding {
        name: "dot_u8_i8_4",
        isas: &[Isa::X86Avx2],
        lane: Lane::I32,
        op: Opcode::MulBytes,
        makes: Makes::Pairs,
    },
];

/// A loop that is an instruction.
pub(super) struct Use {
    found: Found,
    row: &'static Encoding,
}

impl Selector<'_> {
    /// One vector of a loop that is marked as an instruction.
    pub(super) fn instruction(&mut self, inner: &Loop, name: &str) -> base::Result<()> {
        let Use { found, row } = &*self.instruction_of(inner, name)?;
        let lanes = self.vector_lanes();
        let mut words = Vec::new();
        for tuple in &found.operands {
            words.push(self.words_of(tuple)?);
        }
        if base::fault::is_seeded("x64.tuple") {
            let last = words.len() - 1;
            words[0] = words[last].clone();
        }
        let parts = match (row.makes, &words[..]) {
            (Makes::Pairs, [bytes, _]) if bytes.most() > PARTS_OF_BYTES[0] => &PARTS_OF_BYTES[..],
            _ => &[u64::MAX],
        };
        let mut operands: Vec<(u64, Vec<VRegId>)> = Vec::new();
        for part in parts {
            let most = words[0].most() & part;
            let part = |number: usize| if number == 0 { *part } else { u64::MAX };
            let words = words.iter().enumerate();
            let own = words.map(|(at, own)| self.load_part(own, part(at), lanes)).collect();
            operands.push((most, own));
        }
        let before = self.load(found.buffer, &found.index, lanes)?;
        let Evaluated::Vector(before) = before else {
            return Err(self.refuse(format!("`{name}` adds to no numbers")));
        };
        let ty = register_type(row.lane, lanes);
        let is_zero = before.item == Item::Constant(0);
        let mut sum = self.register(before);
        for (at, (most, mut operands)) in operands.into_iter().enumerate() {
            if row.makes == Makes::Sum {
                operands.insert(0, sum);
                sum = self.builder.emit(Inst::new(row.op, row.lane, &operands), ty);
                continue;
            }
            let product = self.builder.emit(Inst::new(row.op, row.lane, &operands), ty);
            if row.makes == Makes::Pairs {
                let before = (at > 0 || !is_zero).then_some(sum);
                let now = Joined { before, pairs: product, most: 2 * most * MOST_IN_BYTE };
                sum = self.add_pairs(now, (row.lane, lanes));
                continue;
            }
            sum = self.builder.emit(Inst::new(Opcode::Add, row.lane, &[sum, product]), ty);
        }
        let result = Vector { item: Item::Register(sum), lane: row.lane, lanes };
        self.store(found.buffer, &found.index, Evaluated::Vector(result), lanes)
    }

    /// The sum of what it was before and sums of pairs. These join those that were added last,
    /// where all of them fit 16 bits; what was made of those alone is then unused.
    fn add_pairs(&mut self, mut now: Joined, (lane, lanes): (Lane, usize)) -> VRegId {
        let ty = register_type(lane, lanes);
        if let Some(last) = now.before.and_then(|sum| self.joined[sum])
            && last.most + now.most <= MOST_IN_PAIRS
        {
            let both = Inst::new(Opcode::Add, Lane::I16, &[last.pairs, now.pairs]);
            let pairs = self.builder.emit(both, ty);
            let before = match base::fault::is_seeded("x64.joined") {
                true => now.before,
                false => last.before,
            };
            now = Joined { before, pairs, most: last.most + now.most };
        }
        let vector = Vector { item: Item::Register(now.pairs), lane, lanes };
        let ones = self.constant(ONES, vector);
        let operands = [now.pairs, self.register(ones)];
        let mut sum = self.builder.emit(Inst::new(Opcode::MulPairs, lane, &operands), ty);
        if let Some(before) = now.before {
            sum = self.builder.emit(Inst::new(Opcode::Add, lane, &[before, sum]), ty);
        }
        self.joined[sum] = Some(now);
        sum
    }

    /// What a marked loop is, which is the same wherever it is written out.
    fn instruction_of(&mut self, inner: &Loop, name: &str) -> base::Result<Rc<Use>> {
        if let Some(known) = &self.instructions[inner.variable] {
            return Ok(known.clone());
        }
        let isa = self.builder.isa();
        let around = self.vector.as_ref().map(|vector| vector.symbol);
        let found = isa.instruction_of(self.kernel, inner, name, around);
        let found = found.map_err(|reason| self.refuse(reason))?;
        let row = ENCODINGS.iter().find(|row| row.name == name && row.isas.contains(&isa));
        let row = row.ok_or_else(|| self.refuse(format!("nothing encodes `{name}`")))?;
        let known = Rc::new(Use { found, row });
        self.instructions[inner.variable] = Some(known.clone());
        Ok(known)
    }

    /// The elements that each lane takes, as one 32-bit lane.
    fn words_of(&mut self, tuple: &Tuple) -> base::Result<Words> {
        let linear = self.linear(tuple.buffer, &tuple.index);
        let fills = self.element_bytes(tuple.buffer) as i64 * tuple.count == WORD;
        if !fills || linear.irregular || !matches!(linear.lane_step, 0 | WORD) {
            let name = &self.kernel.buffers[tuple.buffer].name;
            return Err(self.refuse(format!("the elements of `{name}` fill no lanes")));
        }
        let bits = 8 * self.element_bytes(tuple.buffer);
        let (mut field, mut turned) = (Field::whole(bits), 0_u64);
        let mut table: Option<[u8; TABLE]> = None;
        for (function, numbers) in &tuple.through {
            let known = numbers.iter().map(|number| self.known_integer(number));
            let known: Option<Vec<u64>> =
                known.map(|number| number.map(|number| number.as_f64() as u64)).collect();
            let known =
                known.ok_or_else(|| self.refuse("bits that are no constants".to_owned()))?;
            let by = known.first().copied().unwrap_or(0);
            if let (ScalarFunction::Lookup, &[a, b, c, d]) = (function, &known[..]) {
                let words = [a, b, c, d].map(|word| (word as u32).to_le_bytes());
                let of = words.as_flattened();
                // Each entry is what the places so far lead to.
                let entry = |place: usize| match &table {
                    Some(table) => of[usize::from(table[place]) % TABLE],
                    None => of[(place ^ turned as usize) % TABLE],
                };
                table = Some(std::array::from_fn(entry));
                continue;
            }
            if let Some(table) = &mut table {
                table.iter_mut().for_each(|entry| *entry = of_byte(*function, *entry, by));
                continue;
            }
            (field, turned) = match function {
                ScalarFunction::Shl => {
                    let moved = turned.checked_shl(by.min(64) as u32).unwrap_or(0);
                    (field.shifted_left(by), moved & Field::whole(bits).kept)
                }
                ScalarFunction::Shr => (field.shifted(by), turned >> by.min(63)),
                ScalarFunction::And => (field.masked(by), turned & by),
                // Bits that are set are left out first, and turned then.
                ScalarFunction::Or => (field.masked(!by), turned & !by | by),
                _ => (field, turned ^ by),
            };
        }
        if table.is_some() {
            (field, turned) = (field.masked(TABLE as u64 - 1), 0);
        }
        let joined = match &tuple.joined {
            Some(joined) => Some(Box::new(self.words_of(joined)?)),
            None => None,
        };
        let taken = Taken { field, turned, table };
        Ok(Words { buffer: tuple.buffer, linear, taken, joined })
    }

    /// Words in a register; of each element the bits of a part. What is joined of several places is
    /// remembered as loaded values are, so that rows share it, and what lies in each of them is
    /// not: it would push that out where registers are few.
    fn load_part(&mut self, words: &Words, part: u64, lanes: usize) -> VRegId {
        let Some(first) = &words.joined else { return self.load_one(words, part, lanes) };
        let ty = register_type(Lane::I32, lanes);
        let mut parts = Vec::new();
        let mut next = Some(words);
        while let Some(own) = next {
            let load = self.load_of_words(own.buffer, &own.linear, lanes);
            parts.push(Part { buffer: own.buffer, load, taken: own.taken });
            next = own.joined.as_deref();
        }
        let name = parts[0].load.clone();
        let name = Inst { op: Opcode::Or, ..name }.imm(part as i64);
        if let Some(known) = self.remembered_of(&name, ty, words.buffer, &parts) {
            return known;
        }
        let others = std::mem::take(&mut self.loaded);
        let mut value = self.load_one(words, part, lanes);
        let mut next = Some(first);
        while let Some(own) = next {
            let other = self.load_one(own, part, lanes);
            value = self.builder.emit(Inst::new(Opcode::Or, Lane::I32, &[value, other]), ty);
            next = own.joined.as_ref();
        }
        self.loaded = others;
        self.remember_of(name, value, words.buffer, parts);
        value
    }

    /// The same of what lies in one place.
    fn load_one(&mut self, words: &Words, part: u64, lanes: usize) -> VRegId {
        if let Some(table) = words.taken.table {
            return self.part_of_table(words, table.map(|entry| entry & part as u8), lanes);
        }
        let field = words.taken.field.masked(part);
        let loaded = self.field_of(words.buffer, &words.linear, field, lanes);
        let turned = self.constant(field.repeated(words.taken.turned & part), loaded);
        match turned.item {
            Item::Constant(0) => self.register(loaded),
            _ => {
                let loaded = self.binary(Opcode::Xor, loaded, turned);
                self.register(loaded)
            }
        }
    }

    /// What a table has at the place that each element's bits are. It is remembered as loaded
    /// values are.
    fn part_of_table(&mut self, words: &Words, table: [u8; TABLE], lanes: usize) -> VRegId {
        let ty = register_type(Lane::I32, lanes);
        let pool = self.table(&table, ty);
        let name = self.load_of_words(words.buffer, &words.linear, lanes);
        let name = Inst { op: Opcode::ShuffleBytes, ..name };
        let Field { begin, kept, .. } = words.taken.field;
        let name = name.imm((pool.index() as i64) << 16 | (begin & 0xff) << 8 | kept as i64);
        if let Some(known) = self.remembered(&name, ty, words.buffer) {
            return known;
        }
        let places = self.field_of(words.buffer, &words.linear, words.taken.field, lanes);
        let bytes = self.bytes_of_table(pool, places);
        let value = self.register(bytes);
        self.remember(name, value, words.buffer);
        value
    }

    /// A field of each element that lies in words. It is remembered as loaded values are, so that
    /// rows share it.
    fn field_of(
        &mut self,
        buffer: BufferId,
        linear: &Linear,
        field: Field,
        lanes: usize,
    ) -> Vector {
        let load = self.load_of_words(buffer, linear, lanes);
        let ty = register_type(Lane::I32, lanes);
        let vector = |value| Vector { item: Item::Register(value), lane: Lane::I32, lanes };
        let whole = Field::whole(field.bits);
        if (field.begin, field.kept) == (0, whole.kept) {
            return vector(self.load_inst(load, ty, buffer));
        }
        // It stands for what is made of the load.
        let name = Inst { op: Opcode::And, ..load.clone() };
        let name = name.imm(field.begin << 32 | field.kept as i64);
        if let Some(known) = self.remembered(&name, ty, buffer) {
            return vector(known);
        }
        let mut words = vector(self.load_inst(load, ty, buffer));
        if field.begin > 0 {
            words = self.unary(Opcode::ShrImm, words, field.begin.min(31));
        } else if field.begin < 0 {
            words = self.unary(Opcode::ShlImm, words, (-field.begin).min(31));
        }
        // What comes from the neighbour is cut off.
        let kept = self.constant(field.repeated(field.kept), words);
        let words = self.binary(Opcode::And, words, kept);
        let value = self.register(words);
        self.remember(name, value, buffer);
        vector(value)
    }
}

/// Elements of memory as 32-bit lanes.
#[derive(Clone)]
struct Words {
    buffer: BufferId,
    linear: Linear,
    taken: Taken,
    /// What the bits are joined with.
    joined: Option<Box<Words>>,
}

/// What is taken of elements.
#[derive(Clone, Copy, PartialEq)]
pub(super) struct Taken {
    /// The bits of each that are taken, and those that are turned over then.
    field: Field,
    turned: u64,
    /// What stands for the elements, by what has been taken of them so far.
    table: Option<[u8; TABLE]>,
}

/// A function of bits of a byte and a number.
fn of_byte(function: ScalarFunction, byte: u8, by: u64) -> u8 {
    match function {
        ScalarFunction::Shr => byte.checked_shr(by.min(8) as u32).unwrap_or(0),
        ScalarFunction::Shl => byte.checked_shl(by.min(8) as u32).unwrap_or(0),
        ScalarFunction::And => byte & by as u8,
        ScalarFunction::Or => byte | by as u8,
        _ => byte ^ by as u8,
    }
}

impl Words {
    /// No element is larger, as an unsigned number.
    fn most(&self) -> u64 {
        let own = match self.taken.table {
            Some(table) => table.into_iter().fold(0, |all, entry| all | entry).into(),
            None => {
                (self.taken.field.kept | self.taken.turned)
                    & Field::whole(self.taken.field.bits).kept
            }
        };
        own | self.joined.as_ref().map_or(0, |joined| joined.most())
    }
}

/// Bits of an element of so many: those from one on, of which some are kept. Below zero they have
/// moved up.
#[derive(Clone, Copy, PartialEq)]
struct Field {
    bits: usize,
    begin: i64,
    kept: u64,
}

impl Field {
    fn whole(bits: usize) -> Field {
        Field { bits, begin: 0, kept: u64::MAX >> (64 - bits) }
    }

    fn masked(self, by: u64) -> Field {
        Field { kept: self.kept & by, ..self }
    }

    fn shifted(self, by: u64) -> Field {
        let kept = if by < self.bits as u64 { self.kept >> by } else { 0 };
        Field { begin: self.begin + by.min(64) as i64, kept, ..self }
    }

    fn shifted_left(self, by: u64) -> Field {
        let kept = if by < self.bits as u64 { self.kept << by } else { 0 };
        Field { begin: self.begin - by.min(64) as i64, ..self }.with(kept)
    }

    fn with(self, kept: u64) -> Field {
        Field { kept: kept & Field::whole(self.bits).kept, ..self }
    }

    /// A number of the element's bits in each element of a 32-bit word.
    fn repeated(self, number: u64) -> u64 {
        let element = number & Field::whole(self.bits).kept;
        (0..32 / self.bits).map(|copy| element << (copy * self.bits)).sum()
    }
}

/// Bytes of a 32-bit lane.
const WORD: i64 = 4;

#[cfg(test)]
mod tests {
    use super::*;
    use backend::Instruction;

    #[test]
    fn what_an_instruction_set_has_is_encoded_once() {
        for isa in [Isa::X86Avx512Bf16, Isa::X86Avx512, Isa::X86Avx2] {
            for row in Instruction::all() {
                let own = |one: &&Encoding| one.name == row.name() && one.isas.contains(&isa);
                let count = ENCODINGS.iter().filter(own).count();
                let wanted = usize::from(row.cost(isa).is_some());
                assert_eq!(count, wanted, "{} on {isa:?}", row.name());
            }
        }
    }
}
