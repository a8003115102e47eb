//! The register machine: its instructions, and what runs them.
//!
//! Memory is pieces of bytes; a buffer is a piece and a first byte in it. Elements of fewer than
//! eight bits lie behind one another from the low bits on. Relies on kernels that verify: they stay
//! inside of their buffers.

use tensor::{DType, Scalar, ScalarFunction};

/// The number of a register.
pub(crate) type Register = usize;

/// What the machine does at once.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum ToyInstruction {
    /// Puts a number into a register.
    Set(Register, Scalar),
    /// Puts the value of a scalar function of registers, which has this type, into one.
    Apply(Register, ScalarFunction, DType, Vec<Register>),
    /// Loads into a register, of this buffer, the element whose number the second one holds.
    Load(Register, usize, Register, DType),
    /// Stores into this buffer, at the number in the first register, what the second one holds.
    Store(usize, Register, Register),
    /// Goes on at another instruction, in any case or unless a register holds true.
    Jump(usize, Option<Register>),
    /// Ends with a fault code.
    Stop(i32),
}

/// A kernel as code.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct ToyCode {
    /// Run from the first on; behind the last it ends.
    pub(crate) instructions: Vec<ToyInstruction>,
    /// How many registers it uses; the first hold the symbols of the program.
    pub(crate) registers: usize,
    /// Bytes of the buffers behind its parameters, which are its own.
    pub(crate) own_bytes: Vec<usize>,
}

/// Where a buffer lies: the piece of memory, and its first byte there.
pub(crate) type BufferPlace = (usize, usize);

/// Runs code over memory; an error is the fault code of a stop.
pub(crate) fn run_code(
    code: &ToyCode,
    symbols: &[i64],
    buffers: &[BufferPlace],
    memory: &mut [Vec<u8>],
) -> Result<(), i32> {
    let mut registers = vec![Scalar::from_i64(DType::I64, 0); code.registers.max(symbols.len())];
    for (register, symbol) in registers.iter_mut().zip(symbols) {
        *register = Scalar::from_i64(DType::I64, *symbol);
    }
    let mut next = 0;
    while let Some(instruction) = code.instructions.get(next) {
        next += 1;
        match instruction {
            ToyInstruction::Set(to, value) => registers[*to] = *value,
            ToyInstruction::Apply(to, function, dtype, from) => {
                let operands: Vec<Scalar> = from.iter().map(|from| registers[*from]).collect();
                registers[*to] = function.evaluate(*dtype, &operands);
            }
            ToyInstruction::Load(to, buffer, at, dtype) => {
                let (piece, first) = buffers[*buffer];
                registers[*to] = load(&memory[piece], first, registers[*at], *dtype);
            }
            ToyInstruction::Store(buffer, at, from) => {
                let (piece, first) = buffers[*buffer];
                store(&mut memory[piece], first, registers[*at], registers[*from]);
            }
            ToyInstruction::Jump(to, unless) => {
                if unless.is_none_or(|register| !registers[register].as_bool()) {
                    next = *to;
                }
            }
            ToyInstruction::Stop(code) => return Err(*code),
        }
    }
    Ok(())
}

/// The bits of an element: their first byte, how far they are shifted in it, how many they are.
fn bits_of(start: usize, at: Scalar, dtype: DType) -> (usize, u32, u32) {
    let first = at.as_i64() as usize * dtype.bits() as usize;
    (start + first / 8, (first % 8) as u32, dtype.bits())
}

fn load(memory: &[u8], start: usize, at: Scalar, dtype: DType) -> Scalar {
    let (byte, shift, bits) = bits_of(start, at, dtype);
    let bytes = memory[byte..byte + bits.div_ceil(8) as usize].iter().rev();
    let word = bytes.fold(0, |word, byte| word << 8 | u64::from(*byte));
    Scalar::from_bits(dtype, word >> shift & u64::MAX >> (64 - bits))
}

fn store(memory: &mut [u8], start: usize, at: Scalar, value: Scalar) {
    let (byte, shift, bits) = bits_of(start, at, value.dtype());
    let mask = if bits < 8 { (u8::MAX >> (8 - bits)) << shift } else { u8::MAX };
    let bytes = &mut memory[byte..byte + bits.div_ceil(8) as usize];
    for (to, from) in bytes.iter_mut().zip((value.bits() << shift).to_le_bytes()) {
        *to = *to & !mask | from & mask;
    }
}
