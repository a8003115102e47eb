//! The operations of vcode: one row of [`OPS`] each.
//!
//! A row says what an operation is called, what it reads and writes, and what may be done with it.
//! Result and operand kinds are letters: `i` an integer register, `v` a vector register, `m` a mask
//! register, `x` a mask in whatever form the instruction set has (a mask register with AVX-512, a
//! vector register with AVX2).
//!
//! Invariant: the rows stand in the order of the enum's variants.

/// The result takes the register of the first operand.
pub(crate) const TIED: u8 = 1;
/// The last operand may be memory instead of a register.
pub(crate) const MEMORY: u8 = 2;
/// An address is part of the instruction.
pub(crate) const ADDRESS: u8 = 4;
/// The instruction only computes its result: it may be merged with its equal, moved up or dropped.
pub(crate) const PURE: u8 = 8;
/// The instruction reads memory and has no other effect: it may be dropped.
pub(crate) const READS: u8 = 16;

/// What an operation is called, reads and writes.
pub(crate) struct OpRow {
    /// The operation of this row.
    op: Opcode,
    /// The name in the text form.
    pub(crate) name: &'static str,
    /// `i`, `v`, `m`, `x`, or `-` for none.
    pub(crate) result: char,
    /// One letter an operand.
    pub(crate) arguments: &'static str,
    /// The constants above.
    pub(crate) flags: u8,
}

macro_rules! ops {
    ($(
        $(#[$meta:meta])*
        $op:ident $name:literal $result:literal $arguments:literal $flags:expr;
    )*) => {
        /// An operation.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Opcode { $($(#[$meta])* $op,)* }

        /// All operations, in the order of the enum.
        pub(crate) const OPS: &[OpRow] = &[$(OpRow {
            op: Opcode::$op, name: $name, result: $result, arguments: $arguments, flags: $flags,
        }),*];
    };
}

#[rustfmt::skip]
ops! {
    // Integer registers, 64 bits.
    /// The immediate.
    IntConst        "int.const"         'i' ""    PURE;
    /// The address itself.
    Lea             "lea"               'i' ""    PURE | ADDRESS;
    /// `a + b`.
    IntAdd          "int.add"           'i' "ii"  PURE;
    /// `a - b`.
    IntSub          "int.sub"           'i' "ii"  PURE | TIED;
    /// The low half of `a * b`.
    IntMul          "int.mul"           'i' "ii"  PURE | TIED;
    /// `a * immediate`.
    IntMulImm       "int.mul_imm"       'i' "i"   PURE;
    /// Bitwise conjunction.
    IntAnd          "int.and"           'i' "ii"  PURE | TIED;
    /// Bitwise disjunction.
    IntOr           "int.or"            'i' "ii"  PURE | TIED;
    /// Conjunction with a sign-extended immediate.
    IntAndImm       "int.and_imm"       'i' "i"   PURE | TIED;
    /// Shift left by the immediate.
    IntShlImm       "int.shl_imm"       'i' "i"   PURE | TIED;
    /// Logical shift right by the immediate.
    IntShrImm       "int.shr_imm"       'i' "i"   PURE | TIED;
    /// Arithmetic shift right by the immediate.
    IntSarImm       "int.sar_imm"       'i' "i"   PURE | TIED;
    /// The smaller, signed.
    IntMin          "int.min"           'i' "ii"  PURE | TIED;
    /// The larger, signed.
    IntMax          "int.max"           'i' "ii"  PURE | TIED;
    /// `c != 0 ? a : b`.
    IntSelect       "int.select"        'i' "iii" PURE | TIED;
    /// 1 where `a` and `b` compare as the immediate (a `Cond`) says, else 0.
    IntCompare      "int.compare"       'i' "ii"  PURE;
    /// The truncated quotient, signed; `b` is neither 0 nor -1.
    IntDivSigned    "int.div_signed"    'i' "ii"  PURE;
    /// The remainder of that.
    IntRemSigned    "int.rem_signed"    'i' "ii"  PURE;
    /// The quotient, unsigned; `b` is not 0.
    IntDivUnsigned  "int.div_unsigned"  'i' "ii"  PURE;
    /// The remainder of that.
    IntRemUnsigned  "int.rem_unsigned"  'i' "ii"  PURE;
    /// The low lane-sized part, extended to 64 bits by the lane's sign.
    IntExtend       "int.extend"        'i' "i"   PURE;
    /// Loads an element, extended to 64 bits by the lane's sign.
    IntLoad         "int.load"          'i' ""    ADDRESS | READS;
    /// Stores the low part.
    IntStore        "int.store"         '-' "i"   ADDRESS;
    /// Asks the second-level cache for the line at the address, which need not be mapped.
    Prefetch        "prefetch"          '-' ""    ADDRESS;

    // Between register classes.
    /// Lane 0 (32 bits zero-extended, or 64).
    IntFromVector   "int.from_vector"   'i' "v"   PURE;
    /// Lane 0 of 32 or 64 bits, zeros above.
    VectorFromInt   "vector.from_int"   'v' "i"   PURE;
    /// The bits of a mask, 16 of them.
    IntFromMask     "int.from_mask"     'i' "m"   PURE;
    /// A mask from 16 bits.
    MaskFromInt     "mask.from_int"     'm' "i"   PURE;
    /// The sign bit of each lane of 32 or 64 bits.
    IntFromSigns    "int.from_signs"    'i' "v"   PURE;
    /// Lane 0 of a double or float as a signed 64-bit integer, truncated.
    IntFromFloat    "int.from_float"    'i' "v"   PURE;
    /// A signed 64-bit integer as a double or float in lane 0.
    FloatFromInt    "float.from_int"    'v' "i"   PURE;

    // Mask registers.
    /// Conjunction.
    MaskAnd         "mask.and"          'm' "mm"  PURE;
    /// Disjunction.
    MaskOr          "mask.or"           'm' "mm"  PURE;
    /// Exclusive disjunction.
    MaskXor         "mask.xor"          'm' "mm"  PURE;
    /// Negation.
    MaskNot         "mask.not"          'm' "m"   PURE;

    // Vectors: constants and data movement.
    /// All bits zero.
    Zero            "zero"              'v' ""    PURE;
    /// All bits one.
    Ones            "ones"              'v' ""    PURE;
    /// Contiguous elements; narrow integers are extended to 32 bits, halves to f32. With a mask,
    /// lanes that are off are zero and their memory is not touched.
    Load            "load"              'v' ""    ADDRESS | READS;
    /// One element in lane 0, zeros above.
    LoadLane        "load_lane"         'v' ""    ADDRESS | READS;
    /// A narrow element in the lane that the immediate counts, the others as in the operand.
    InsertLane      "insert_lane"       'v' "v"   ADDRESS | READS;
    /// One element in all lanes.
    LoadBroadcast   "load_broadcast"    'v' ""    ADDRESS | READS;
    /// A constant in all lanes.
    Constant        "constant"          'v' ""    ADDRESS | PURE;
    /// Contiguous elements; 32-bit lanes are truncated to narrow integers, f32 rounded to f16. With
    /// a mask, memory of lanes that are off is not touched.
    Store           "store"             '-' "v"   ADDRESS;
    /// Lane 0.
    StoreLane       "store_lane"        '-' "v"   ADDRESS;
    /// Lane 0 in all lanes.
    Broadcast       "broadcast"         'v' "v"   PURE;
    /// An integer register in all lanes (AVX-512).
    BroadcastInt    "broadcast_int"     'v' "i"   PURE;
    /// The elements at base + index * scale in lanes whose mask is on, the first operand elsewhere;
    /// 32-bit indices; the immediate is the scale. The mask's register is lost.
    Gather          "gather"            'v' "vvx" ADDRESS | READS | TIED;
    /// Stores elements at base + index * scale, in lane order (AVX-512): index, value, mask.
    Scatter         "scatter"           '-' "vvm" ADDRESS;
    /// The same register, seen as a shorter vector.
    Low             "low"               'v' "v"   PURE | TIED;
    /// The upper half.
    High            "high"              'v' "v"   PURE;
    /// 32-bit lanes within each 128 bits, by the immediate.
    Shuffle         "shuffle"           'v' "v"   PURE | MEMORY;
    /// The low halves of each 128 bits of two registers, an element of each by turns.
    UnpackLow       "unpack_low"        'v' "vv"  PURE;
    /// The same of the high halves.
    UnpackHigh      "unpack_high"       'v' "vv"  PURE;
    /// Parts of 128 bits: the lower half of the result from the first, the upper from the second;
    /// the immediate holds their numbers, lowest first, in 2 bits of four and 1 bit of two parts.
    Parts           "parts"             'v' "vv"  PURE;
    /// Bytes of `a` within each 128 bits, by the bytes of `b`.
    ShuffleBytes    "shuffle_bytes"     'v' "vv"  PURE | MEMORY;
    /// 32-bit lanes of `b` by the indices in `a`; at least 256 bits.
    Permute         "permute"           'v' "vv"  PURE | MEMORY;
    /// Lanes of `a` and `c`, counted one behind the other, by the indices in `b` (AVX-512; bytes
    /// with VBMI).
    PermuteTwo      "permute_two"       'v' "vvv" PURE | MEMORY | TIED;
    /// `mask ? b : a`.
    Blend           "blend"             'v' "vvx" PURE;

    // Vectors: arithmetic.
    /// `a + b`.
    Add             "add"               'v' "vv"  PURE | MEMORY;
    /// `a - b`.
    Sub             "sub"               'v' "vv"  PURE | MEMORY;
    /// `a * b`, the low half for integers.
    Mul             "mul"               'v' "vv"  PURE | MEMORY;
    /// `a / b`.
    Div             "div"               'v' "vv"  PURE | MEMORY;
    /// The smaller, signed; for floats `b` if either is NaN.
    Min             "min"               'v' "vv"  PURE | MEMORY;
    /// The larger, signed; for floats `b` if either is NaN.
    Max             "max"               'v' "vv"  PURE | MEMORY;
    /// The smaller, unsigned.
    MinUnsigned     "min_unsigned"      'v' "vv"  PURE | MEMORY;
    /// The larger, unsigned.
    MaxUnsigned     "max_unsigned"      'v' "vv"  PURE | MEMORY;
    /// 64-bit products of the low 32 bits of 64-bit lanes, unsigned.
    MulWide         "mul_wide"          'v' "vv"  PURE | MEMORY;
    /// Bitwise conjunction.
    And             "and"               'v' "vv"  PURE | MEMORY;
    /// `!a & b`.
    AndNot          "and_not"           'v' "vv"  PURE | MEMORY;
    /// Bitwise disjunction.
    Or              "or"                'v' "vv"  PURE | MEMORY;
    /// Bitwise exclusive disjunction.
    Xor             "xor"               'v' "vv"  PURE | MEMORY;
    /// Shift left by lanes of `b`; 0 for amounts of at least the width.
    Shl             "shl"               'v' "vv"  PURE | MEMORY;
    /// Logical shift right by lanes of `b`; 0 for amounts of at least the width.
    Shr             "shr"               'v' "vv"  PURE | MEMORY;
    /// Arithmetic shift right by lanes of `b`.
    Sar             "sar"               'v' "vv"  PURE | MEMORY;
    /// Shift left by the immediate.
    ShlImm          "shl_imm"           'v' "v"   PURE;
    /// Logical shift right by the immediate.
    ShrImm          "shr_imm"           'v' "v"   PURE;
    /// Arithmetic shift right by the immediate.
    SarImm          "sar_imm"           'v' "v"   PURE;
    /// The absolute value of integers.
    Abs             "abs"               'v' "v"   PURE | MEMORY;
    /// The square root.
    Sqrt            "sqrt"              'v' "v"   PURE | MEMORY;
    /// A whole number: the immediate is the rounding mode of the ROUND instructions.
    Round           "round"             'v' "v"   PURE | MEMORY;
    /// `a + b * c`, rounded once.
    Fma231          "fma231"            'v' "vvv" PURE | MEMORY | TIED;
    /// `a * b + c`, rounded once.
    Fma213          "fma213"            'v' "vvv" PURE | MEMORY | TIED;
    /// `a + b1 * c1 + b0 * c0` in this order, each sum rounded, of pairs of bf16 in 32-bit lanes,
    /// the second in the high half (AVX512-BF16; numbers below the normal ones count as zero).
    /// Of pairs of i16, with i32 lanes, in any order (VNNI).
    DotPairs        "dot_pairs"         'v' "vvv" PURE | MEMORY | TIED;
    /// `a + b0 * c0 + .. + b3 * c3` of quads in 32-bit lanes, of u8 in `b` and of i8 in `c` (VNNI).
    DotQuads        "dot_quads"         'v' "vvv" PURE | MEMORY | TIED;
    /// `a1 * b1 + a0 * b0` of pairs of i16 in 32-bit lanes.
    MulPairs        "mul_pairs"         'v' "vv"  PURE | MEMORY;
    /// `a1 * b1 + a0 * b0` of pairs of u8 in `a` and of i8 in `b`, in i16, two in a 32-bit lane;
    /// sums beyond that are taken for its ends (AVX2).
    MulBytes        "mul_bytes"         'v' "vv"  PURE | MEMORY;
    /// Comparison by the predicate in the immediate (CMPPS or VPCMP numbering), signed.
    Compare         "compare"           'x' "vv"  PURE | MEMORY;
    /// The same for unsigned integers (AVX-512).
    CompareUnsigned "compare_unsigned"  'm' "vv"  PURE | MEMORY;
    /// All bits of each lane where equal (AVX2).
    CompareEqual    "compare_equal"     'v' "vv"  PURE | MEMORY;
    /// All bits of each lane where greater, signed (AVX2).
    CompareGreater  "compare_greater"   'v' "vv"  PURE | MEMORY;

    // Vectors: conversions. The lane is the narrower or older side's, as the name says.
    /// i32 to f32.
    I32ToF32        "i32_to_f32"        'v' "v"   PURE | MEMORY;
    /// f32 to i32, truncated.
    F32ToI32        "f32_to_i32"        'v' "v"   PURE | MEMORY;
    /// f32 to i32, to the nearest, the even one of two.
    F32ToNearI32    "f32_to_near_i32"   'v' "v"   PURE | MEMORY;
    /// f32 to f64.
    F32ToF64        "f32_to_f64"        'v' "v"   PURE;
    /// f64 to f32.
    F64ToF32        "f64_to_f32"        'v' "v"   PURE;
    /// i32 to f64.
    I32ToF64        "i32_to_f64"        'v' "v"   PURE;
    /// f64 to i32, truncated.
    F64ToI32        "f64_to_i32"        'v' "v"   PURE;
    /// u32 to f32 (AVX-512).
    U32ToF32        "u32_to_f32"        'v' "v"   PURE;
    /// f32 to u32, truncated (AVX-512).
    F32ToU32        "f32_to_u32"        'v' "v"   PURE;
    /// u32 to f64 (AVX-512).
    U32ToF64        "u32_to_f64"        'v' "v"   PURE;
    /// f64 to u32, truncated (AVX-512).
    F64ToU32        "f64_to_u32"        'v' "v"   PURE;
    /// i64 to f32 (AVX-512).
    I64ToF32        "i64_to_f32"        'v' "v"   PURE;
    /// i64 to f64 (AVX-512).
    I64ToF64        "i64_to_f64"        'v' "v"   PURE;
    /// u64 to f32 (AVX-512).
    U64ToF32        "u64_to_f32"        'v' "v"   PURE;
    /// u64 to f64 (AVX-512).
    U64ToF64        "u64_to_f64"        'v' "v"   PURE;
    /// f32 to i64, truncated (AVX-512).
    F32ToI64        "f32_to_i64"        'v' "v"   PURE;
    /// f32 to u64, truncated (AVX-512).
    F32ToU64        "f32_to_u64"        'v' "v"   PURE;
    /// f64 to i64, truncated (AVX-512).
    F64ToI64        "f64_to_i64"        'v' "v"   PURE;
    /// f64 to u64, truncated (AVX-512).
    F64ToU64        "f64_to_u64"        'v' "v"   PURE;
    /// i32 to i64.
    I32ToI64        "i32_to_i64"        'v' "v"   PURE;
    /// u32 to i64.
    U32ToI64        "u32_to_i64"        'v' "v"   PURE;
    /// The low half of 64-bit lanes (AVX-512).
    I64ToI32        "i64_to_i32"        'v' "v"   PURE;
    /// f16 in 16-bit lanes to f32.
    F16ToF32        "f16_to_f32"        'v' "v"   PURE;
    /// Narrow integers side by side, each extended to a lane of 32 bits.
    Widen           "widen"             'v' "v"   PURE;
    /// f32 to f16 in 16-bit lanes, to nearest even.
    F32ToF16        "f32_to_f16"        'v' "v"   PURE;
    /// f32 to bf16 in 16-bit lanes, to nearest even (AVX512-BF16; numbers below the normal ones
    /// count as zero).
    F32ToBf16       "f32_to_bf16"       'v' "v"   PURE;
}

impl Opcode {
    /// The operation's row.
    pub(crate) fn row(self) -> &'static OpRow {
        &OPS[self as usize]
    }

    /// Whether the operation has all of these flags.
    pub(crate) fn has(self, flags: u8) -> bool {
        self.row().flags & flags == flags
    }

    /// The operation with this name.
    pub(crate) fn parse(name: &str) -> Option<Opcode> {
        OPS.iter().find(|row| row.name == name).map(|row| row.op)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_stand_in_the_order_of_the_variants() {
        for (index, row) in OPS.iter().enumerate() {
            assert_eq!(row.op as usize, index, "{}", row.name);
            assert_eq!(Opcode::parse(row.name), Some(row.op));
        }
    }
}
