//! Bytes out of tables of sixteen.
//!
//! A table that is known is a constant of 128 bits, from which an instruction takes a byte for
//! each byte of a register. One that is not is words, of which a place picks one.

use loops::Comparison;

use super::Selector;
use super::value::{Evaluated, Item, Vector, register_type};
use crate::vcode::{Inst, MemoryOperand, Opcode, PoolId, RegisterType};

/// Bytes of a table.
pub(super) const TABLE: usize = 16;

/// What tells a place of a table.
const PLACE: u64 = 15;

impl Selector<'_> {
    /// The byte at a place of the table that four words hold; all are integers in lanes of 32 bits.
    pub(super) fn looked_up(&mut self, values: &[Evaluated]) -> Option<Vector> {
        let mut vectors = Vec::new();
        for value in values {
            let Evaluated::Vector(vector) = value else { return None };
            vectors.push(*vector);
        }
        let [place, words @ ..] = &vectors[..] else { return None };
        let place = self.binary(Opcode::And, *place, self.constant(PLACE, *place));
        let byte = self.constant(0xff, place);
        let known = words.iter().map(|word| match word.item {
            Item::Constant(bits) => Some(bits as u32),
            Item::Register(_) => None,
        });
        let known: Option<Vec<u32>> = known.collect();
        if let Some(known) = known {
            let table: Vec<u8> = known.iter().flat_map(|word| word.to_le_bytes()).collect();
            let pool = self.table(&table, register_type(place.lane, place.lanes));
            let bytes = self.bytes_of_table(pool, place);
            return Some(self.binary(Opcode::And, bytes, byte));
        }
        let [first, second, third, fourth] = words else { return None };
        let bit = |selector: &mut Self, bit: u64| {
            let own = selector.binary(Opcode::And, place, selector.constant(bit, place));
            let zero = selector.constant(0, place);
            selector.compare_ints(Comparison::Equal, own, zero, true)
        };
        let (in_low, in_first_half) = (bit(self, 4), bit(self, 8));
        let low = self.blend_vectors(in_low, *second, *first);
        let high = self.blend_vectors(in_low, *fourth, *third);
        let word = self.blend_vectors(in_first_half, high, low);
        let number = self.binary(Opcode::And, place, self.constant(3, place));
        let bits = self.unary(Opcode::ShlImm, number, 3);
        let moved = self.binary(Opcode::Shr, word, bits);
        Some(self.binary(Opcode::And, moved, byte))
    }

    /// A table behind the code, in each 128 bits of a register.
    pub(super) fn table(&mut self, table: &[u8], ty: RegisterType) -> PoolId {
        self.builder.pool(table.repeat(ty.vector_bytes().max(TABLE) / TABLE))
    }

    /// For each byte, which is a place, what the table holds there.
    pub(super) fn bytes_of_table(&mut self, table: PoolId, places: Vector) -> Vector {
        let ty = register_type(places.lane, places.lanes);
        let address = MemoryOperand::pool(table, false);
        let load = Inst::new(Opcode::Constant, places.lane, &[]).address(address);
        let table = self.builder.emit(load, ty);
        let operands = [table, self.register(places)];
        let inst = Inst::new(Opcode::ShuffleBytes, places.lane, &operands);
        Vector { item: Item::Register(self.builder.emit(inst, ty)), ..places }
    }
}
