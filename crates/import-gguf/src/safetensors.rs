//! Safetensors files as plain data: names of tensors, and where their elements lie.
//!
//! Source: the format's description in the repository `safetensors` of Hugging Face. A file is the
//! length of its head as a little-endian u64, the head as JSON (for each tensor its element type,
//! its extents, and from where to where its bytes lie behind the head), then the bytes.
//!
//! Invariants: nothing is read outside of the file, whatever it says; what is kept takes memory in
//! proportion to the head; no two tensors share bytes.

use std::collections::BTreeMap;

use base::{Diagnostic, Limits, codes};
use bytes::Bytes;
use front::Accepted;
use serde_json::Value;

use crate::file::{Described, TensorEntry, damaged, elements_of, placed};
use crate::formats;

/// The longest head that is read, as the format's own reader has it.
const LONGEST_HEAD: u64 = 100_000_000;

/// The entry of the head that is no tensor.
const METADATA: &str = "__metadata__";

/// The tensors of a file that `renamed` has names for, by those. Others are left where they are.
pub(crate) fn read(
    bytes: &Bytes,
    limits: &Limits,
    renamed: &dyn Fn(&str) -> Option<String>,
) -> Accepted<BTreeMap<String, TensorEntry>> {
    let whole = bytes.len() as u64;
    let Some(length) = bytes.first_chunk().map(|length| u64::from_le_bytes(*length)) else {
        return Err(damaged(format!("a safetensors file of {whole} bytes")));
    };
    if length > LONGEST_HEAD || length > whole - 8 {
        let reason = format!("its head should have {length} bytes, but the file has {whole}");
        return Err(damaged(reason));
    }
    let head = serde_json::from_slice(&bytes[8..8 + length as usize]);
    let head = head.map_err(|found| damaged(format!("its head is no JSON: {found}")))?;
    let Value::Object(head) = head else {
        return Err(damaged("its head is no JSON object"));
    };
    let mut entries = Vec::new();
    for (name, tensor) in head.iter().filter(|(name, _)| *name != METADATA) {
        let Some(renamed) = renamed(name) else { continue };
        let entry = described(tensor, renamed, limits);
        entries.push(entry.map_err(|found| found.or_at(|| format!("tensor \"{name}\"")))?);
    }
    placed(entries, 8 + length, 1, bytes)
}

/// What the head says of a tensor.
fn described(tensor: &Value, name: String, limits: &Limits) -> Accepted<Described> {
    let numbers = |key: &str| -> Accepted<Vec<u64>> {
        let numbers = tensor.get(key).and_then(Value::as_array);
        let numbers = numbers.map(|all| all.iter().map(Value::as_u64).collect::<Option<_>>());
        numbers.flatten().ok_or_else(|| damaged(format!("its \"{key}\" are no numbers")))
    };
    let dtype = tensor.get("dtype").and_then(Value::as_str);
    let dtype = dtype.ok_or_else(|| damaged("it has no element type"))?;
    let Some(format) = formats::find_plain(dtype) else {
        let message = format!("a tensor of the type {dtype}");
        return Err(Diagnostic::error(codes::UNSUPPORTED_TYPE, message)
            .because("F32, F16 and BF16 are read")
            .remedy("save the model in one of them, or quantise it as GGUF"));
    };
    let shape = numbers("shape")?.into_iter().map(usize::try_from).collect::<Result<Vec<_>, _>>();
    let shape = shape.map_err(|_| damaged("its shape has no memory"))?;
    let elements = elements_of(&shape, limits)?;
    let (offset, end) = match numbers("data_offsets")?[..] {
        [offset, end] if offset <= end => (offset, end),
        _ => return Err(damaged("its \"data_offsets\" are no beginning and end")),
    };
    let length = end - offset;
    if elements.checked_mul(format.bytes as u64) != Some(length) {
        let reason = format!("{elements} elements of the type {dtype} in {length} bytes");
        return Err(damaged(reason));
    }
    Ok(Described { name, shape, format, length, offset })
}
