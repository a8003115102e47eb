//! Values in a folder, as two programs hand them to each other.
//!
//! The forms are those that `run_onnxruntime.py` lists: arrays of NumPy, and folders of them for
//! all that is made of tensors. Unlike the test data of ONNX they need no reader of their own on
//! the side of Python.

use std::fs;
use std::path::Path;

use base::{Diagnostic, Result, codes};
use tensor::{DType, Keys, Tensor, Value, npy};

/// Writes the value of a name.
///
/// # Errors
/// `TW0301` if a file cannot be written.
pub(super) fn write(folder: &Path, name: &str, value: &Value) -> Result<()> {
    let folder_of = |kind: &str| {
        let path = folder.join(format!("{name}.{kind}"));
        fs::create_dir(&path).map_err(|error| not_written(&path, &error))?;
        Ok::<_, Diagnostic>(path)
    };
    let write_map = |kind: &str, keys: &Keys, numbers: &Tensor| -> Result<()> {
        let path = folder_of(kind)?;
        npy::write(path.join("keys.npy"), &keys.clone().into_tensor())?;
        npy::write(path.join("values.npy"), numbers)
    };
    match value {
        Value::Tensor(tensor) => match holder(tensor.dtype()) {
            None => npy::write(folder.join(format!("{name}.npy")), tensor),
            Some(holder) => {
                let path = folder.join(format!("{name}.{}.npy", tensor.dtype()));
                let mut bits = Tensor::zeros(holder, tensor.shape());
                bits.bytes_mut()[..tensor.bytes().len()].copy_from_slice(tensor.bytes());
                npy::write(path, &bits)
            }
        },
        Value::Sequence(values) => {
            let path = folder_of("list")?;
            let mut values = values.iter().enumerate();
            values.try_for_each(|(number, value)| write(&path, &number.to_string(), value))
        }
        Value::Optional(Some(value)) => write(folder, name, value),
        Value::Optional(None) => {
            let path = folder.join(format!("{name}.none"));
            Ok(fs::write(&path, "").map_err(|error| not_written(&path, &error))?)
        }
        Value::Map(keys, numbers) => write_map("map", keys, numbers),
        Value::Maps(keys, numbers) => write_map("maps", keys, numbers),
    }
}

/// Reads the value of a name; none if there is none. An optional value that is there is what it
/// holds.
///
/// # Errors
/// Files that are no arrays.
pub(super) fn read(folder: &Path, name: &str) -> Result<Option<Value>> {
    let path = |kind: &str| folder.join(format!("{name}.{kind}"));
    if path("npy").exists() {
        return Ok(Some(npy::read(path("npy"))?.into()));
    }
    if path("none").exists() {
        return Ok(Some(Value::Optional(None)));
    }
    if path("list").exists() {
        let mut values = Vec::new();
        while let Some(value) = read(&path("list"), &values.len().to_string())? {
            values.push(value);
        }
        return Ok(Some(Value::Sequence(values)));
    }
    if let Some(kind) = ["map", "maps"].into_iter().find(|kind| path(kind).exists()) {
        return read_map(&path(kind), kind == "maps").map(Some);
    }
    for dtype in DType::all() {
        let path = path(&format!("{dtype}.npy"));
        let Some(holder) = holder(dtype).filter(|_| path.exists()) else { continue };
        let bits = npy::read(&path)?;
        let mut tensor = Tensor::zeros(dtype, bits.shape());
        let size = tensor.bytes().len();
        let Some(bytes) = bits.bytes().get(..size).filter(|_| bits.dtype() == holder) else {
            return Err(no_value(&path, format!("its elements are {}", bits.dtype())).into());
        };
        tensor.bytes_mut().copy_from_slice(bytes);
        return Ok(Some(tensor.into()));
    }
    Ok(None)
}

/// Reads a map, or a list of maps with the same keys.
fn read_map(folder: &Path, is_list: bool) -> Result<Value> {
    let keys = Keys::of(&npy::read(folder.join("keys.npy"))?);
    let numbers = npy::read(folder.join("values.npy"))?;
    let rank = if is_list { 2 } else { 1 };
    if numbers.shape().len() != rank || numbers.shape().last() != Some(&keys.len()) {
        let reason = format!("{} keys for numbers of shape {:?}", keys.len(), numbers.shape());
        return Err(no_value(folder, reason).into());
    }
    Ok(if is_list { Value::Maps(keys, numbers) } else { Value::Map(keys, numbers) })
}

/// For a type that NumPy lacks, the one that holds its bits.
fn holder(dtype: DType) -> Option<DType> {
    match dtype {
        DType::BF16 => Some(DType::U16),
        DType::F8E4M3FN | DType::F8E4M3FNUZ | DType::F8E5M2 | DType::F8E5M2FNUZ => Some(DType::U8),
        DType::F8E3M4 | DType::F8E4M3 | DType::F8E4M3B11FNUZ => Some(DType::U8),
        DType::F8E8M0 | DType::F6E2M3 | DType::F6E3M2 | DType::F4E2M1 => Some(DType::U8),
        DType::I4 | DType::I2 | DType::U4 | DType::U2 => Some(DType::U8),
        DType::F64 | DType::F32 | DType::F16 | DType::Bool | DType::String => None,
        DType::I64 | DType::I32 | DType::I16 | DType::I8 => None,
        DType::U64 | DType::U32 | DType::U16 | DType::U8 => None,
    }
}

pub(crate) fn not_written(path: &Path, error: &std::io::Error) -> Diagnostic {
    Diagnostic::error(codes::CANNOT_WRITE_FILE, "cannot write a file for onnxruntime")
        .at(path.display().to_string())
        .because(error.to_string())
        .remedy("free space, or let TMPDIR name a folder with more of it")
}

fn no_value(path: &Path, reason: String) -> Diagnostic {
    Diagnostic::error(codes::PEER_FAILED, "onnxruntime gave what is no value")
        .at(path.display().to_string())
        .because(reason)
        .remedy("report this with the model and the version of onnxruntime")
}

#[cfg(test)]
mod tests {
    use super::*;
    use tensor::random::random;

    #[test]
    fn values_are_read_as_they_were_written() {
        let folder = testkit::Folder::new();
        let texts = ["", "ä"].map(str::to_owned).to_vec();
        let strings = Tensor::from_strings(&[2], texts.clone());
        let matrix = Tensor::from_slice(&[1, 2], &[0.5_f32, 1.5]);
        let mut values: Vec<Value> = DType::all()
            .filter(|dtype| *dtype != DType::String)
            .map(|dtype| random(dtype, &[3, 1], 1).into())
            .collect();
        values.push(strings.clone().into());
        values.push(Value::Sequence(vec![strings.into(), Value::Sequence(Vec::new())]));
        values.push(Value::Optional(None));
        values.push(Value::Map(Keys::Integers(vec![7, -1]), matrix.reshape(&[2])));
        values.push(Value::Maps(Keys::Strings(texts), matrix));
        for (number, value) in values.iter().enumerate() {
            let name = format!("value_{number}");
            write(folder.path(), &name, value).expect("written");
            let again = read(folder.path(), &name).expect("read").expect("there");
            assert_eq!(again.structure(), value.structure());
            assert_eq!(again.into_tensors(), value.clone().into_tensors());
        }
        assert!(read(folder.path(), "value_99").expect("no error").is_none());
    }
}
