//! Loops that are instructions: what `backend` describes as loops, and how it is encoded here.
//!
//! The loop says which elements each lane takes and what it adds to. An operand's elements fill a
//! 32-bit lane, so they are loaded as one.

use std::rc::Rc;

use backend::{Found, Isa, Tuple};
use loops::Loop;

use super::Selector;
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
    /// Whether it only makes what is to be added.
    then_adds: bool,
}

const ENCODINGS: &[Encoding] = &[
    Encoding {
        name: "dot_bf16_2",
        isas: &[Isa::X86Avx512Bf16],
        lane: Lane::F32,
        op: Opcode::DotPairs,
        then_adds: false,
    },
    Encoding {
        name: "dot_i16_2",
        isas: &[Isa::X86Avx512Bf16],
        lane: Lane::I32,
        op: Opcode::DotPairs,
        then_adds: false,
    },
    Encoding {
        name: "dot_i16_2",
        isas: &[Isa::X86Avx512, Isa::X86Avx2],
        lane: Lane::I32,
        op: Opcode::MulPairs,
        then_adds: true,
    },
    Encoding {
        name: "dot_u8_i8_4",
        isas: &[Isa::X86Avx512Bf16],
        lane: Lane::I32,
        op: Opcode::DotQuads,
        then_adds: false,
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
        let mut operands = Vec::new();
        for tuple in &found.operands {
            operands.push(self.load_tuple(tuple, lanes)?);
        }
        if base::fault::is_seeded("x64.tuple") {
            let last = operands.len() - 1;
            operands[0] = operands[last];
        }
        let before = self.load(found.buffer, &found.index, lanes)?;
        let Evaluated::Vector(before) = before else {
            return Err(self.refuse(format!("`{name}` adds to no numbers")));
        };
        let ty = register_type(row.lane, lanes);
        let sum = self.register(before);
        let value = if row.then_adds {
            let product = self.builder.emit(Inst::new(row.op, row.lane, &operands), ty);
            self.builder.emit(Inst::new(Opcode::Add, row.lane, &[sum, product]), ty)
        } else {
            operands.insert(0, sum);
            self.builder.emit(Inst::new(row.op, row.lane, &operands), ty)
        };
        let result = Vector { item: Item::Register(value), lane: row.lane, lanes };
        self.store(found.buffer, &found.index, Evaluated::Vector(result), lanes)
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
    fn load_tuple(&mut self, tuple: &Tuple, lanes: usize) -> base::Result<VRegId> {
        let linear = self.linear(tuple.buffer, &tuple.index);
        let fills = self.element_bytes(tuple.buffer) as i64 * tuple.count == WORD;
        if !fills || linear.irregular || !matches!(linear.lane_step, 0 | WORD) {
            let name = &self.kernel.buffers[tuple.buffer].name;
            return Err(self.refuse(format!("the elements of `{name}` fill no lanes")));
        }
        let words = self.load_words(tuple.buffer, &linear, lanes);
        Ok(self.register(words))
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
