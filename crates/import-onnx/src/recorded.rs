//! Values as test cases record them: a file a value, which is a tensor, a sequence, an optional
//! value, a map or a list of maps by what the model declares.

use std::fmt;
use std::path::Path;

use base::{Diagnostic, Limits, codes};
use bytes::Bytes;
use prost::Message;
use tensor::{DType, Keys, Kind, Scalar, Tensor, Value};

use crate::data_type::number_of;
use crate::external::ExternalData;
use crate::proto::{ListProto, MapProto, TensorProto};
use crate::tensors;

/// Reads a value of this kind from a file: a tensor from `.npy`, any from the test data of ONNX,
/// `.pb`. Also the name that is recorded with it, empty where there is none.
///
/// # Errors
/// Files that cannot be read, or hold something else.
pub fn read_value(path: &Path, kind: &Kind) -> base::Result<(String, Value)> {
    if path.extension().is_none_or(|extension| extension != "pb") {
        return Ok((String::new(), tensor::npy::read(path)?.into()));
    }
    let in_file = |found: Diagnostic| {
        let inner = found.place.as_ref().map(|place| format!(": {place}"));
        let place = format!("{}{}", path.display(), inner.unwrap_or_default());
        found.at(place)
    };
    decode_value(tensor::map_file(path)?, kind).map_err(|found| found.map(in_file))
}

/// Reads the values `<stem>_0.pb`, `<stem>_1.pb` and so on of a folder, with the names recorded in
/// them; those beyond the given kinds as tensors.
///
/// # Errors
/// As [`read_value`].
pub fn read_values(
    folder: &Path,
    stem: &str,
    kinds: &[Kind],
) -> base::Result<Vec<(String, Value)>> {
    let mut values = Vec::new();
    loop {
        let path = folder.join(format!("{stem}_{}.pb", values.len()));
        if !path.is_file() {
            return Ok(values);
        }
        values.push(read_value(&path, kinds.get(values.len()).unwrap_or(&Kind::Tensor))?);
    }
}

/// Decodes the bytes of a file of test data.
fn decode_value(bytes: Bytes, kind: &Kind) -> base::Result<(String, Value)> {
    let read = |error: prost::DecodeError| no_value(&error);
    Ok(match kind {
        Kind::Tensor => {
            let proto = TensorProto::decode(bytes).map_err(read)?;
            let tensor = plain(&proto)?;
            (proto.name, tensor.into())
        }
        Kind::Map => {
            let proto = MapProto::decode(bytes).map_err(read)?;
            let (keys, numbers) = map(&proto)?;
            (proto.name, Value::Map(keys, numbers))
        }
        Kind::Maps | Kind::Sequence(_) | Kind::Optional(_) => {
            let proto = ListProto::decode(bytes).map_err(read)?;
            let value = match kind {
                Kind::Maps => maps(&proto.maps)?,
                Kind::Optional(_) => optional(&proto)?,
                _ => sequence(&proto)?,
            };
            (proto.name, value)
        }
    })
}

fn no_value(reason: &dyn fmt::Display) -> Diagnostic {
    Diagnostic::error(codes::NOT_ONNX, "the file holds no value of the kind that is declared")
        .because(reason.to_string())
        .remedy("give a tensor, a sequence, an optional value or a map, as the model declares it")
}

/// A map's keys and its numbers, a vector.
fn map(proto: &MapProto) -> base::Result<(Keys, Tensor)> {
    let keys = match proto.key_type == number_of(DType::String) {
        true => {
            let text = |text: &Bytes| String::from_utf8(text.to_vec());
            let texts: Result<Vec<String>, _> = proto.string_keys.iter().map(text).collect();
            Keys::Strings(texts.map_err(|error| no_value(&error))?)
        }
        false => Keys::Integers(proto.keys.clone()),
    };
    let tensors = proto.values.iter().flat_map(|list| &list.tensors).map(plain);
    let tensors = tensors.collect::<base::Result<Vec<Tensor>>>()?;
    let dtype = tensors.first().map_or(DType::F32, Tensor::dtype);
    let is_number = |it: &Tensor| it.len() == 1 && it.dtype() == dtype && dtype != DType::String;
    if tensors.len() != keys.len() || !tensors.iter().all(is_number) {
        return Err(no_value(&"a map has not a number of one type for each key").into());
    }
    let numbers: Vec<Scalar> = tensors.iter().map(|tensor| tensor.get_scalar(0)).collect();
    Ok((keys, Tensor::from_scalars(dtype, &[numbers.len()], &numbers)))
}

/// A list of maps: the keys of the first, and a row of numbers each.
fn maps(protos: &[MapProto]) -> base::Result<Value> {
    let Some(first) = protos.first() else {
        let none = Tensor::from_scalars(DType::F32, &[0, 0], &[]);
        return Ok(Value::Maps(Keys::Integers(Vec::new()), none));
    };
    let (keys, first) = map(first)?;
    let mut rows: Vec<Scalar> = Vec::new();
    for proto in protos {
        let (own, numbers) = map(proto)?;
        let (own, numbers) = own.in_order_of(&keys, numbers);
        if own != keys || numbers.dtype() != first.dtype() {
            return Err(no_value(&"the maps of a list have other keys, or other numbers").into());
        }
        rows.extend(numbers.scalars());
    }
    Ok(Value::Maps(
        keys.clone(),
        Tensor::from_scalars(first.dtype(), &[protos.len(), keys.len()], &rows),
    ))
}

fn values(proto: &ListProto) -> base::Result<Vec<Value>> {
    let tensors = proto.tensors.iter().map(|it| plain(it).map(Value::from));
    let lists = proto.sequences.iter().map(sequence).chain(proto.optionals.iter().map(optional));
    tensors.chain(lists).collect()
}

fn sequence(proto: &ListProto) -> base::Result<Value> {
    values(proto).map(Value::Sequence)
}

fn optional(proto: &ListProto) -> base::Result<Value> {
    Ok(Value::Optional(values(proto)?.pop().map(Box::new)))
}

fn plain(proto: &TensorProto) -> base::Result<Tensor> {
    Ok(tensors::decode(proto, &ExternalData::new(None), &Limits::default())?)
}

/// The file of a value, as [`read_value`] reads it.
#[must_use]
pub fn encode_value(name: &str, value: &Value) -> Vec<u8> {
    match value {
        Value::Tensor(tensor) => tensor_proto(name, tensor).encode_to_vec(),
        Value::Map(keys, numbers) => {
            let numbers: Vec<Scalar> = numbers.scalars().collect();
            map_proto(name, keys, &numbers).encode_to_vec()
        }
        _ => list_proto(name, value).encode_to_vec(),
    }
}

fn list_proto(name: &str, value: &Value) -> ListProto {
    let mut proto = ListProto { name: name.to_owned(), ..ListProto::default() };
    let values: Vec<&Value> = match value {
        Value::Sequence(values) => values.iter().collect(),
        Value::Optional(value) => value.iter().map(|value| &**value).collect(),
        Value::Maps(keys, numbers) => {
            let numbers: Vec<Scalar> = numbers.scalars().collect();
            let rows = numbers.chunks(keys.len().max(1));
            proto.maps = rows.map(|row| map_proto("", keys, row)).collect();
            Vec::new()
        }
        Value::Tensor(_) | Value::Map(..) => vec![value],
    };
    for value in values {
        match value {
            Value::Tensor(tensor) => proto.tensors.push(tensor_proto("", tensor)),
            Value::Map(keys, numbers) => {
                let numbers: Vec<Scalar> = numbers.scalars().collect();
                proto.maps.push(map_proto("", keys, &numbers));
            }
            Value::Sequence(_) | Value::Maps(..) => proto.sequences.push(list_proto("", value)),
            Value::Optional(_) => proto.optionals.push(list_proto("", value)),
        }
    }
    proto
}

fn map_proto(name: &str, keys: &Keys, numbers: &[Scalar]) -> MapProto {
    let number = |&number: &Scalar| tensor_proto("", &Tensor::scalar(number));
    let tensors = numbers.iter().map(number).collect();
    let values = Some(ListProto { tensors, ..ListProto::default() });
    let mut proto = MapProto { name: name.to_owned(), values, ..MapProto::default() };
    match keys {
        Keys::Integers(keys) => {
            proto.key_type = number_of(DType::I64);
            proto.keys.clone_from(keys);
        }
        Keys::Strings(texts) => {
            let bytes = |text: &String| Bytes::copy_from_slice(text.as_bytes());
            proto.key_type = number_of(DType::String);
            proto.string_keys = texts.iter().map(bytes).collect();
        }
    }
    proto
}

/// A tensor as files hold it.
#[must_use]
pub fn tensor_proto(name: &str, tensor: &Tensor) -> TensorProto {
    let mut proto = TensorProto {
        name: name.to_owned(),
        dims: tensor.shape().iter().map(|&extent| extent as i64).collect(),
        data_type: number_of(tensor.dtype()),
        ..TensorProto::default()
    };
    match tensor.strings() {
        Some(strings) => {
            let bytes = |text: &String| Bytes::copy_from_slice(text.as_bytes());
            proto.string_data = strings.iter().map(bytes).collect();
        }
        None => proto.raw_data = Some(tensor.bytes().to_vec().into()),
    }
    proto
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn maps_are_read_as_they_were_written() {
        let keys = || Keys::Strings(vec!["no".to_owned(), "ja".to_owned()]);
        let maps = Value::Maps(keys(), Tensor::from_slice(&[2, 2], &[0.25_f32, 0.75, 0.5, 0.5]));
        let numbers = Tensor::from_slice(&[2], &[3_i64, 4]);
        let map = Value::Map(Keys::Integers(vec![-1, 9]), numbers);
        for (kind, value) in [(Kind::Maps, maps), (Kind::Map, map)] {
            let (name, read) = decode_value(encode_value("z", &value).into(), &kind).expect("read");
            assert_eq!(name, "z");
            for (name, read, written) in read.pairs(&value, "z").expect("the same keys") {
                assert_eq!((read.dtype(), read.shape()), (written.dtype(), written.shape()));
                assert!(read.scalars().eq(written.scalars()), "{name}");
            }
        }
    }

    #[test]
    fn maps_of_other_keys_are_no_list() {
        let map = |key| map_proto("", &Keys::Integers(vec![key]), &[Scalar::f32(1.0)]);
        assert!(maps(&[map(1), map(1)]).is_ok());
        assert!(maps(&[map(1), map(2)]).is_err());
        let without = map_proto("", &Keys::Integers(vec![1, 2]), &[Scalar::f32(1.0)]);
        assert!(maps(&[without]).is_err());
    }
}
