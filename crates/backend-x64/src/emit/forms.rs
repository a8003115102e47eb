//! What a form of an instruction is: how it is encoded, in the manual's terms, and which operations
//! it carries out.

use iced_x86::Code;

use crate::vcode::{Lane, Opcode};

/// A form: what stands where in its bytes, and what it does.
#[derive(Clone, Copy)]
pub(super) struct Form {
    pub(super) code: Code,
    pub(super) prefix: Prefix,
    pub(super) pp: u8,
    pub(super) map: u8,
    pub(super) w: bool,
    pub(super) opcode: u8,
    pub(super) layout: Layout,
    /// What stands in the place of the register in ModRM where no operand does.
    pub(super) digit: u8,
    /// The length of its vectors: 0, 1, 2 for 128, 256, 512 bits.
    pub(super) length: u8,
    /// How many lengths there are from this one on. In `iced_x86::Code` the forms for longer
    /// vectors follow that for the shortest; one row stands for all of them.
    pub(super) lengths: u8,
    /// The operations that it alone carries out, each on lanes of one type, or whatever the lanes.
    pub(super) operations: [Option<(Opcode, Option<Lane>)>; 4],
}

/// The kind of prefix.
#[derive(Clone, Copy)]
pub(super) enum Prefix {
    Legacy,
    Vex,
    /// What a short displacement counts in.
    Evex {
        unit: Unit,
    },
}

/// What a short displacement counts in: bytes of memory, and of an element that is broadcast.
#[derive(Clone, Copy)]
pub(super) enum Unit {
    /// The same for all lengths.
    Fixed(u8, u8),
    /// Of the shortest; longer vectors take more.
    Grows(u8, u8),
}

/// The position of the operand that stands in each field, or [`NOWHERE`].
#[derive(Clone, Copy)]
pub(super) struct Layout {
    /// The register of ModRM.
    pub(super) reg: u8,
    /// The register or memory of ModRM.
    pub(super) rm: u8,
    /// The register in the prefix.
    pub(super) vvvv: u8,
    /// The register in the last byte.
    pub(super) is4: u8,
    /// The register in the opcode.
    pub(super) opcode: u8,
    /// Bytes of the immediate, which is the last operand.
    pub(super) imm_bytes: u8,
}

/// No operand's position.
pub(super) const NOWHERE: u8 = u8::MAX;

/// Operands in order: R and M in ModRM, V in the prefix, S in the last byte, O in the opcode.
pub(super) const NONE: Layout = Layout {
    reg: NOWHERE,
    rm: NOWHERE,
    vvvv: NOWHERE,
    is4: NOWHERE,
    opcode: NOWHERE,
    imm_bytes: 0,
};
pub(super) const M: Layout = Layout { rm: 0, ..NONE };
pub(super) const M_I: Layout = M.imm(1);
pub(super) const M_I4: Layout = M.imm(4);
pub(super) const MR: Layout = Layout { rm: 0, reg: 1, ..NONE };
pub(super) const MR_I: Layout = MR.imm(1);
pub(super) const MVR: Layout = Layout { rm: 0, vvvv: 1, reg: 2, ..NONE };
pub(super) const O: Layout = Layout { opcode: 0, ..NONE };
pub(super) const O_I4: Layout = O.imm(4);
pub(super) const O_I8: Layout = O.imm(8);
pub(super) const RM: Layout = Layout { reg: 0, rm: 1, ..NONE };
pub(super) const RM_I: Layout = RM.imm(1);
pub(super) const RM_I4: Layout = RM.imm(4);
pub(super) const RMV: Layout = Layout { reg: 0, rm: 1, vvvv: 2, ..NONE };
pub(super) const RVM: Layout = Layout { reg: 0, vvvv: 1, rm: 2, ..NONE };
pub(super) const RVM_I: Layout = RVM.imm(1);
pub(super) const RVMS: Layout = Layout { is4: 3, ..RVM };
pub(super) const VM_I: Layout = Layout { vvvv: 0, rm: 1, imm_bytes: 1, ..NONE };

impl Layout {
    const fn imm(self, imm_bytes: u8) -> Layout {
        Layout { imm_bytes, ..self }
    }
}

pub(super) const NP: u8 = 0;
pub(super) const P66: u8 = 1;
pub(super) const PF3: u8 = 2;
pub(super) const PF2: u8 = 3;

pub(super) const ONE: u8 = 0;
pub(super) const M0F: u8 = 1;
pub(super) const M38: u8 = 2;
pub(super) const M3A: u8 = 3;

pub(super) const W0: bool = false;
pub(super) const W1: bool = true;

pub(super) const fn legacy(
    code: Code,
    pp: u8,
    map: u8,
    w: bool,
    opcode: u8,
    layout: Layout,
) -> Form {
    let prefix = Prefix::Legacy;
    Form {
        code,
        prefix,
        pp,
        map,
        w,
        opcode,
        layout,
        digit: 0,
        length: 0,
        lengths: 1,
        operations: [None; 4],
    }
}

pub(super) const fn vex(code: Code, pp: u8, map: u8, w: bool, opcode: u8, layout: Layout) -> Form {
    Form { prefix: Prefix::Vex, ..legacy(code, pp, map, w, opcode, layout) }
}

pub(super) const fn evex(
    code: Code,
    pp: u8,
    map: u8,
    w: bool,
    opcode: u8,
    layout: Layout,
    unit: Unit,
) -> Form {
    Form { prefix: Prefix::Evex { unit }, ..legacy(code, pp, map, w, opcode, layout) }
}

impl Form {
    pub(super) const fn digit(self, digit: u8) -> Form {
        Form { digit, ..self }
    }

    pub(super) const fn longer(self, length: u8) -> Form {
        Form { length, ..self }
    }

    pub(super) const fn lengths(self, lengths: u8) -> Form {
        Form { lengths, ..self }
    }

    /// It carries out an operation, whatever the lanes.
    pub(super) const fn does(self, op: Opcode) -> Form {
        self.with((op, None))
    }

    /// It carries out an operation on lanes of this type.
    pub(super) const fn on(self, op: Opcode, lane: Lane) -> Form {
        self.with((op, Some(lane)))
    }

    const fn with(mut self, operation: (Opcode, Option<Lane>)) -> Form {
        let mut at = 0;
        while self.operations[at].is_some() {
            at += 1;
        }
        self.operations[at] = Some(operation);
        self
    }

    /// The bytes that a short displacement counts in, of the form of a length.
    pub(super) fn unit(&self, length: u8, broadcast: bool) -> i32 {
        let Prefix::Evex { unit } = self.prefix else { return 1 };
        let (Unit::Fixed(bytes, element) | Unit::Grows(bytes, element)) = unit;
        match unit {
            _ if broadcast => element.into(),
            Unit::Fixed(..) => bytes.into(),
            Unit::Grows(..) => i32::from(bytes) << (length - self.length),
        }
    }
}
