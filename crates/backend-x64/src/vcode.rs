//! Vcode: SSA over integer, vector and mask registers, one instruction about one of the machine's.
//!
//! A [`VCode`] is blocks with parameters. Values are defined once; a use stands below its
//! definition in a block that the definition's block dominates. Selection builds it, the allocator
//! gives every value a register, and emission writes the machine's instructions.
//!
//! Invariants, checked by [`verify()`]: instructions have the operands that the table of operations
//! states; jumps pass one argument a parameter; a branch goes to blocks without parameters and with
//! no other predecessor (critical edges are split by construction).

pub(crate) mod op;
mod text;
mod verify;

use base::{Arena, define_id};

pub use op::Opcode;
pub use text::{parse, print};
pub use verify::verify;

define_id!(
    /// A value: the result of an instruction or a block's parameter.
    pub VRegId,
    "v"
);
define_id!(
    /// A block.
    pub BlockId,
    "b"
);
define_id!(
    /// A constant behind the code.
    pub PoolId,
    "c"
);

/// One kernel between selection and emission.
#[derive(Clone, Debug, PartialEq)]
pub struct VCode {
    /// The kernel's name.
    pub name: String,
    /// The type of each value.
    pub values: Arena<VRegId, RegisterType>,
    /// The blocks, in the order in which they will be laid out. The first is the entry; its
    /// parameters are the kernel ABI's arguments (context, first, last).
    pub blocks: Arena<BlockId, BasicBlock>,
    /// The bytes of each constant.
    pub pool: Arena<PoolId, Vec<u8>>,
}

/// The register that holds a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum RegisterType {
    /// An integer register, 64 bits.
    Int,
    /// A mask register.
    Mask,
    /// A vector register of 128 bits.
    V128,
    /// A vector register of 256 bits.
    V256,
    /// A vector register of 512 bits.
    V512,
}

impl RegisterType {
    /// All types with the names they print as.
    pub(crate) const NAMES: [(RegisterType, &'static str); 5] = [
        (RegisterType::Int, "int"),
        (RegisterType::Mask, "mask"),
        (RegisterType::V128, "v128"),
        (RegisterType::V256, "v256"),
        (RegisterType::V512, "v512"),
    ];

    /// The shortest vector register that holds so many bytes.
    pub(crate) fn vector(bytes: usize) -> RegisterType {
        match bytes {
            0..=16 => RegisterType::V128,
            17..=32 => RegisterType::V256,
            _ => RegisterType::V512,
        }
    }

    /// Bytes of a vector register; 0 for the others.
    pub(crate) fn vector_bytes(self) -> usize {
        match self {
            RegisterType::Int | RegisterType::Mask => 0,
            RegisterType::V128 => 16,
            RegisterType::V256 => 32,
            RegisterType::V512 => 64,
        }
    }
}

/// An element in a vector's lane or in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[allow(missing_docs)]
pub enum Lane {
    F64,
    F32,
    F16,
    I64,
    I32,
    I16,
    I8,
    U32,
    U16,
    U8,
}

impl Lane {
    /// All lanes with the names they print as.
    pub(crate) const NAMES: [(Lane, &'static str); 10] = [
        (Lane::F64, "f64"),
        (Lane::F32, "f32"),
        (Lane::F16, "f16"),
        (Lane::I64, "i64"),
        (Lane::I32, "i32"),
        (Lane::I16, "i16"),
        (Lane::I8, "i8"),
        (Lane::U32, "u32"),
        (Lane::U16, "u16"),
        (Lane::U8, "u8"),
    ];

    /// Bytes of an element.
    pub(crate) fn bytes(self) -> usize {
        match self {
            Lane::F64 | Lane::I64 => 8,
            Lane::F32 | Lane::I32 | Lane::U32 => 4,
            Lane::F16 | Lane::I16 | Lane::U16 => 2,
            Lane::I8 | Lane::U8 => 1,
        }
    }

    /// Whether lanes are floating-point numbers.
    pub(crate) fn is_float(self) -> bool {
        matches!(self, Lane::F64 | Lane::F32 | Lane::F16)
    }
}

/// A block: parameters, instructions, an end.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BasicBlock {
    /// Values that every jump here passes.
    pub params: Vec<VRegId>,
    /// Run in order.
    pub insts: Vec<Inst>,
    /// Where it goes from here.
    pub end: Terminator,
    /// What its end was made for.
    pub end_for: MadeFor,
    /// Whether the block heads an innermost loop, and so is worth aligning.
    pub aligned: bool,
}

/// How a block ends.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Terminator {
    /// Still under construction.
    #[default]
    Open,
    /// To a block, with an argument for each of its parameters.
    Jump(BlockId, Vec<VRegId>),
    /// To `then` if the comparison holds, else to `otherwise`.
    Branch {
        /// The comparison.
        cond: Cond,
        /// Its left-hand side, an integer.
        left: VRegId,
        /// Its right-hand side.
        right: IntOperand,
        /// Taken when it holds.
        then: BlockId,
        /// Taken when it does not.
        otherwise: BlockId,
    },
    /// Returns a code from the kernel, 0 for success.
    Return(i32),
}

/// An integer register or a constant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum IntOperand {
    /// A register.
    Value(VRegId),
    /// A constant that fits the instruction.
    Imm(i32),
}

/// A comparison of integers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum Cond {
    Equal,
    NotEqual,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
}

impl Cond {
    /// All comparisons with the names they print as; the position is the immediate of
    /// `int.compare`.
    pub(crate) const NAMES: [(Cond, &'static str); 6] = [
        (Cond::Equal, "equal"),
        (Cond::NotEqual, "not_equal"),
        (Cond::Less, "less"),
        (Cond::LessEqual, "less_equal"),
        (Cond::Greater, "greater"),
        (Cond::GreaterEqual, "greater_equal"),
    ];

    /// The comparison that holds where this one does not.
    pub(crate) fn negated(self) -> Cond {
        match self {
            Cond::Equal => Cond::NotEqual,
            Cond::NotEqual => Cond::Equal,
            Cond::Less => Cond::GreaterEqual,
            Cond::LessEqual => Cond::Greater,
            Cond::Greater => Cond::LessEqual,
            Cond::GreaterEqual => Cond::Less,
        }
    }
}

/// An instruction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inst {
    /// What it does.
    pub op: Opcode,
    /// The lane it does it to; `I64` for operations on integer registers.
    pub lane: Lane,
    /// The value it defines.
    pub result: Option<VRegId>,
    /// A value that holds nothing of use afterwards (a gather's mask).
    pub lost: Option<VRegId>,
    /// Operands, one a letter of the operation's row, but for one that is memory.
    pub args: Args,
    /// Lanes to load or store.
    pub mask: Option<VRegId>,
    /// Memory.
    pub address: Option<MemoryOperand>,
    /// A constant, by the operation.
    pub imm: i64,
    /// What it was made for.
    pub made_for: MadeFor,
}

/// The statement of the kernel that an instruction was made for, by its number in a walk; none
/// where statements are not counted, and for what the kernel needs as a whole.
///
/// It says nothing of what an instruction does: all are equal, so that instructions are.
#[derive(Clone, Copy, Debug, Default)]
pub struct MadeFor(pub Option<u32>);

impl PartialEq for MadeFor {
    fn eq(&self, _: &MadeFor) -> bool {
        true
    }
}

impl Eq for MadeFor {}

/// Up to three operands, without an allocation.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct Args {
    items: [Option<VRegId>; 3],
}

impl Args {
    /// These operands.
    pub fn new(values: &[VRegId]) -> Args {
        let mut args = Args::default();
        for (item, value) in args.items.iter_mut().zip(values) {
            *item = Some(*value);
        }
        args
    }

    /// The operands in order.
    pub fn iter(&self) -> impl Iterator<Item = VRegId> + '_ {
        self.items.iter().flatten().copied()
    }

    /// The operands, to change them.
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut VRegId> {
        self.items.iter_mut().flatten()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.iter().count()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl std::fmt::Debug for Args {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

/// Memory: base + index * scale + displacement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MemoryOperand {
    /// Where it starts.
    pub base: Base,
    /// An integer register and its factor: 1, 2, 4 or 8.
    pub index: Option<(VRegId, u8)>,
    /// Bytes.
    pub displacement: i32,
    /// One element in all lanes of an arithmetic instruction's last operand (AVX-512).
    pub broadcast: bool,
}

/// Where an address starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Base {
    /// An integer register.
    Value(VRegId),
    /// A constant behind the code.
    Pool(PoolId),
    /// The frame's area for values that change register class by way of memory.
    Frame,
}

/// Bytes of the frame's area.
pub(crate) const FRAME_BYTES: usize = 256;

impl MemoryOperand {
    /// `[base + displacement]`.
    pub fn new(base: VRegId, displacement: i32) -> MemoryOperand {
        MemoryOperand { base: Base::Value(base), index: None, displacement, broadcast: false }
    }

    /// A constant behind the code.
    pub fn pool(id: PoolId, broadcast: bool) -> MemoryOperand {
        MemoryOperand { base: Base::Pool(id), index: None, displacement: 0, broadcast }
    }

    /// A place in the frame's area.
    pub fn frame(displacement: i32) -> MemoryOperand {
        MemoryOperand { base: Base::Frame, index: None, displacement, broadcast: false }
    }
}

impl Inst {
    /// An instruction without memory, mask or immediate.
    pub fn new(op: Opcode, lane: Lane, args: &[VRegId]) -> Inst {
        Inst {
            op,
            lane,
            result: None,
            lost: None,
            args: Args::new(args),
            mask: None,
            address: None,
            imm: 0,
            made_for: MadeFor::default(),
        }
    }

    /// The same with an immediate.
    pub fn imm(mut self, imm: i64) -> Inst {
        self.imm = imm;
        self
    }

    /// The same with an address.
    pub fn address(mut self, address: MemoryOperand) -> Inst {
        self.address = Some(address);
        self
    }

    /// The same under a mask.
    pub fn mask(mut self, mask: Option<VRegId>) -> Inst {
        self.mask = mask;
        self
    }

    /// Calls `visit` on every value that the instruction reads.
    pub fn each_use(&self, mut visit: impl FnMut(VRegId)) {
        self.args.iter().for_each(&mut visit);
        self.mask.iter().copied().for_each(&mut visit);
        if let Some(address) = &self.address {
            if let Base::Value(base) = address.base {
                visit(base);
            }
            if let Some((index, _)) = address.index {
                visit(index);
            }
        }
    }
}

impl VCode {
    /// A function with an entry block whose parameters are the three arguments.
    pub fn new(name: &str) -> VCode {
        let mut function = VCode {
            name: name.to_string(),
            values: Arena::new(),
            blocks: Arena::new(),
            pool: Arena::new(),
        };
        let params = (0..3).map(|_| function.values.push(RegisterType::Int)).collect();
        function.blocks.push(BasicBlock { params, ..BasicBlock::default() });
        function
    }
}

impl Terminator {
    /// The blocks it goes to.
    pub fn successors(&self) -> impl Iterator<Item = BlockId> {
        let (first, second) = match *self {
            Terminator::Jump(block, _) => (Some(block), None),
            Terminator::Branch { then, otherwise, .. } => (Some(then), Some(otherwise)),
            Terminator::Open | Terminator::Return(_) => (None, None),
        };
        first.into_iter().chain(second)
    }

    /// Calls `visit` on every value that it reads.
    pub fn each_use(&self, mut visit: impl FnMut(VRegId)) {
        match self {
            Terminator::Jump(_, args) => args.iter().copied().for_each(visit),
            Terminator::Branch { left, right, .. } => {
                visit(*left);
                if let IntOperand::Value(right) = right {
                    visit(*right);
                }
            }
            Terminator::Open | Terminator::Return(_) => {}
        }
    }
}
