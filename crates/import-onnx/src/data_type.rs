//! ONNX's numbers for element types (`TensorProto.DataType`).

use base::{Diagnostic, codes};
use tensor::DType;

/// Number, ONNX's name, and our type; types without one are known but not supported.
struct Row(i32, &'static str, Option<DType>);

const TABLE: [Row; 28] = [
    Row(1, "float", Some(DType::F32)),
    Row(2, "uint8", Some(DType::U8)),
    Row(3, "int8", Some(DType::I8)),
    Row(4, "uint16", Some(DType::U16)),
    Row(5, "int16", Some(DType::I16)),
    Row(6, "int32", Some(DType::I32)),
    Row(7, "int64", Some(DType::I64)),
    Row(8, "string", Some(DType::String)),
    Row(9, "bool", Some(DType::Bool)),
    Row(10, "float16", Some(DType::F16)),
    Row(11, "double", Some(DType::F64)),
    Row(12, "uint32", Some(DType::U32)),
    Row(13, "uint64", Some(DType::U64)),
    Row(14, "complex64", None),
    Row(15, "complex128", None),
    Row(16, "bfloat16", Some(DType::BF16)),
    Row(17, "float8e4m3fn", Some(DType::F8E4M3FN)),
    Row(18, "float8e4m3fnuz", Some(DType::F8E4M3FNUZ)),
    Row(19, "float8e5m2", Some(DType::F8E5M2)),
    Row(20, "float8e5m2fnuz", Some(DType::F8E5M2FNUZ)),
    Row(21, "uint4", Some(DType::U4)),
    Row(22, "int4", Some(DType::I4)),
    Row(23, "float4e2m1", Some(DType::F4E2M1)),
    Row(24, "float8e8m0", Some(DType::F8E8M0)),
    Row(25, "uint2", Some(DType::U2)),
    Row(26, "int2", Some(DType::I2)),
    Row(27, "float6e2m3", None),
    Row(28, "float6e3m2", None),
];

/// The element type with this number.
///
/// # Errors
/// A diagnostic when there is none, or it is not supported.
pub fn data_type(number: i64) -> std::result::Result<DType, Diagnostic> {
    let row = TABLE.iter().find(|row| i64::from(row.0) == number);
    let problem = match row {
        Some(Row(_, _, Some(dtype))) => return Ok(*dtype),
        Some(Row(_, name, None)) => format!("it is {name}"),
        None => format!("{number} is not an element type of ONNX"),
    };
    Err(Diagnostic::error(codes::UNSUPPORTED_TYPE, "the element type is not supported")
        .because(problem)
        .remedy("export the model with another element type"))
}

/// The element type with this name, as attributes had it before they had numbers: `FLOAT16`.
///
/// # Errors
/// A diagnostic when there is none, or it is not supported.
pub fn data_type_of_name(name: &str) -> std::result::Result<DType, Diagnostic> {
    let row = TABLE.iter().find(|row| row.1.eq_ignore_ascii_case(name));
    data_type(row.map_or(0, |row| row.0.into()))
}

/// The number of an element type; 0 of one that no ONNX model has.
pub fn number_of(dtype: DType) -> i32 {
    TABLE.iter().find(|row| row.2 == Some(dtype)).map_or(0, |row| row.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_type_has_one_number() {
        use DType::{F6E2M3, F6E3M2, F8E3M4, F8E4M3, F8E4M3B11FNUZ};
        for dtype in DType::all() {
            let number = number_of(dtype);
            match dtype {
                F6E2M3 | F6E3M2 | F8E3M4 | F8E4M3 | F8E4M3B11FNUZ => assert_eq!(number, 0),
                _ => assert_eq!(data_type(number.into()), Ok(dtype)),
            }
        }
        assert!(data_type(0).is_err());
        assert!(data_type(14).is_err());
        assert!(data_type(99).is_err());
    }
}
