//! The element type in which operands of several types are computed.
//!
//! Source: PyTorch's documentation of type promotion (`torch.dtype`, "Tensor Attributes"): kinds
//! are ordered bool, integer, float; operands with axes decide, then those without, then numbers,
//! where an operand of a later rank counts only if its kind is higher.

use tensor::DType;

/// How much an operand has to say.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Rank {
    /// A number that stands in the trace.
    Number,
    /// A tensor without axes.
    Scalar,
    /// A tensor with axes.
    Tensor,
}

fn kind(dtype: DType) -> u8 {
    match dtype {
        DType::Bool => 0,
        _ if dtype.is_float() => 2,
        _ => 1,
    }
}

/// The common type of two, whatever their rank.
pub(crate) fn common(a: DType, b: DType) -> DType {
    let (kind_a, kind_b) = (kind(a), kind(b));
    if a == b || kind_a != kind_b {
        return if kind_a >= kind_b { a } else { b };
    }
    if a.bits() != b.bits() {
        let (wide, narrow) = if a.bits() > b.bits() { (a, b) } else { (b, a) };
        let loses_sign = wide.is_integer() && is_unsigned(wide) && !is_unsigned(narrow);
        return if loses_sign { next_signed(wide) } else { wide };
    }
    match kind_a {
        2 => DType::F32,
        _ => next_signed(a),
    }
}

fn is_unsigned(dtype: DType) -> bool {
    matches!(dtype, DType::U8 | DType::U16 | DType::U32 | DType::U64)
}

/// The signed type that holds all of an unsigned one, as far as there is one.
fn next_signed(dtype: DType) -> DType {
    match dtype.bits() {
        8 => DType::I16,
        16 => DType::I32,
        _ => DType::I64,
    }
}

/// The type in which operands are computed.
pub(crate) fn promoted(operands: &[(Rank, DType)]) -> Option<DType> {
    let mut found: Option<DType> = None;
    for rank in [Rank::Tensor, Rank::Scalar, Rank::Number] {
        let own = operands.iter().filter(|operand| operand.0 == rank).map(|operand| operand.1);
        let Some(own) = own.reduce(common) else { continue };
        found = Some(match found {
            Some(before) if kind(before) >= kind(own) => before,
            _ => own,
        });
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_come_before_widths() {
        assert_eq!(common(DType::I64, DType::F16), DType::F16);
        assert_eq!(common(DType::F16, DType::BF16), DType::F32);
        assert_eq!(common(DType::U8, DType::I8), DType::I16);
        assert_eq!(common(DType::U8, DType::I64), DType::I64);
        assert_eq!(common(DType::Bool, DType::U8), DType::U8);
    }

    #[test]
    fn numbers_count_where_their_kind_is_higher() {
        let tensor = |dtype| (Rank::Tensor, dtype);
        assert_eq!(promoted(&[tensor(DType::BF16), (Rank::Number, DType::F32)]), Some(DType::BF16));
        assert_eq!(promoted(&[tensor(DType::I32), (Rank::Number, DType::F32)]), Some(DType::F32));
        assert_eq!(promoted(&[tensor(DType::I32), (Rank::Scalar, DType::I64)]), Some(DType::I32));
        assert_eq!(promoted(&[tensor(DType::Bool), (Rank::Number, DType::I64)]), Some(DType::I64));
    }
}
