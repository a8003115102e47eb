//! Values as JSON.
//!
//! A tensor is `{"dtype": .., "shape": .., "data": ..}` with nested lists, a sequence a list, an
//! absent value `null`, a map an object, maps a list of objects. Floats are the shortest texts that
//! read as the same; those that JSON has no numbers for stand in quotes, `"NaN"`, `"Infinity"`.

use std::io::{self, Write};

use tensor::{Class, DType, Keys, Scalar, Tensor, Value};

/// Writes an object by names.
pub(super) fn encode(outputs: &[(String, Value)], file: &mut impl Write) -> io::Result<()> {
    file.write_all(b"{")?;
    for (number, (name, value)) in outputs.iter().enumerate() {
        file.write_all(if number == 0 { b"\n  " } else { b",\n  " })?;
        write_string(name, file)?;
        file.write_all(b": ")?;
        write_value(value, file)?;
    }
    file.write_all(b"\n}\n")
}

fn write_string(text: &str, file: &mut impl Write) -> io::Result<()> {
    Ok(serde_json::to_writer(file, text)?)
}

/// Writes items between brackets.
fn write_list<W: Write, T>(
    items: impl IntoIterator<Item = T>,
    file: &mut W,
    mut write: impl FnMut(T, &mut W) -> io::Result<()>,
) -> io::Result<()> {
    file.write_all(b"[")?;
    for (number, item) in items.into_iter().enumerate() {
        if number > 0 {
            file.write_all(b", ")?;
        }
        write(item, file)?;
    }
    file.write_all(b"]")
}

fn write_value<W: Write>(value: &Value, file: &mut W) -> io::Result<()> {
    match value {
        Value::Tensor(tensor) => {
            let (dtype, shape) = (tensor.dtype(), tensor.shape());
            write!(file, "{{\"dtype\": \"{dtype}\", \"shape\": {shape:?}, \"data\": ")?;
            write_axis(tensor, shape, 0, file)?;
            file.write_all(b"}")
        }
        Value::Sequence(values) => write_list(values, file, write_value),
        Value::Optional(None) => file.write_all(b"null"),
        Value::Optional(Some(value)) => write_value(value, file),
        Value::Map(keys, tensor) => write_map(keys, tensor, 0, file),
        Value::Maps(keys, tensor) => {
            let maps = tensor.shape().first().copied().unwrap_or(0);
            write_list(0..maps, file, |map, file| write_map(keys, tensor, map * keys.len(), file))
        }
    }
}

/// The elements from `first` on as nested lists of the axes that are left.
fn write_axis<W: Write>(
    tensor: &Tensor,
    shape: &[usize],
    first: usize,
    file: &mut W,
) -> io::Result<()> {
    let [extent, inner @ ..] = shape else { return write_element(tensor, first, file) };
    let step: usize = inner.iter().product();
    write_list(0..*extent, file, |index, file| {
        write_axis(tensor, inner, first + index * step, file)
    })
}

/// A map whose numbers begin at `first`.
fn write_map<W: Write>(keys: &Keys, tensor: &Tensor, first: usize, file: &mut W) -> io::Result<()> {
    file.write_all(b"{")?;
    for index in 0..keys.len() {
        if index > 0 {
            file.write_all(b", ")?;
        }
        match keys {
            Keys::Strings(texts) => write_string(&texts[index], file)?,
            Keys::Integers(numbers) => write!(file, "\"{}\"", numbers[index])?,
        }
        file.write_all(b": ")?;
        write_element(tensor, first + index, file)?;
    }
    file.write_all(b"}")
}

fn write_element(tensor: &Tensor, index: usize, file: &mut impl Write) -> io::Result<()> {
    match tensor.strings() {
        Some(strings) => write_string(&strings[index], file),
        None => write_scalar(tensor.get_scalar(index), file),
    }
}

fn write_scalar(scalar: Scalar, file: &mut impl Write) -> io::Result<()> {
    let value = scalar.as_f64();
    if scalar.dtype().class() != Class::Float {
        return write!(file, "{scalar}");
    }
    match value {
        _ if value.is_nan() => file.write_all(b"\"NaN\""),
        f64::INFINITY => file.write_all(b"\"Infinity\""),
        f64::NEG_INFINITY => file.write_all(b"\"-Infinity\""),
        _ if scalar.dtype() == DType::F64 => write!(file, "{value:?}"),
        // Shorter floats are among those of 32 bits.
        _ => write!(file, "{:?}", scalar.as_f32()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(value: Value) -> String {
        let mut text = Vec::new();
        write_value(&value, &mut text).expect("memory takes it");
        let text = String::from_utf8(text).expect("UTF-8");
        serde_json::from_str::<serde_json::Value>(&text).expect("JSON");
        text
    }

    #[test]
    fn values() {
        let floats = Tensor::from_slice(&[2, 2], &[0.1_f32, 1e30, f32::NAN, f32::NEG_INFINITY]);
        assert_eq!(
            text(floats.clone().into()),
            "{\"dtype\": \"f32\", \"shape\": [2, 2], \
             \"data\": [[0.1, 1e30], [\"NaN\", \"-Infinity\"]]}"
        );
        assert!(text(Tensor::scalar(Scalar::i64(-3)).into()).ends_with("\"data\": -3}"));
        assert!(text(Tensor::zeros(DType::Bool, &[2, 0]).into()).ends_with("[[], []]}"));
        let strings = Tensor::from_strings(&[1], vec!["a\"b\n".to_owned()]);
        assert!(text(strings.into()).ends_with("[\"a\\\"b\\n\"]}"));
        let keys = Keys::Integers(vec![3, 4]);
        assert_eq!(
            text(Value::Maps(keys.clone(), floats)),
            "[{\"3\": 0.1, \"4\": 1e30}, {\"3\": \"NaN\", \"4\": \"-Infinity\"}]"
        );
        assert_eq!(
            text(Value::Map(keys, Tensor::from_slice(&[2], &[1_i64, 2]))),
            "{\"3\": 1, \"4\": 2}"
        );
        assert_eq!(text(Value::Sequence(vec![Value::Optional(None)])), "[null]");
    }
}
