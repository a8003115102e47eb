//! Values as test cases record them: a file a value, which is a tensor, a sequence or an optional
//! value by what the model declares.

use std::path::Path;

use base::{Diagnostic, Limits, codes};
use bytes::Bytes;
use prost::{DecodeError, Message};
use tensor::{Kind, Tensor, Value};

use crate::data_type::number_of;
use crate::external::ExternalData;
use crate::proto::{ListProto, TensorProto};
use crate::tensors;

/// Reads a value of this kind from a file: a tensor from `.npy`, any but maps from the test data
/// of ONNX, `.pb`. Also the name that is recorded with it, empty where there is none.
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

/// Decodes the bytes of a file of test data.
fn decode_value(bytes: Bytes, kind: &Kind) -> base::Result<(String, Value)> {
    let mut innermost = kind;
    while let Kind::Sequence(inner) | Kind::Optional(inner) = innermost {
        innermost = inner;
    }
    if *innermost != Kind::Tensor {
        return Err(Diagnostic::error(codes::UNSUPPORTED_TYPE, "maps are not read from files")
            .at("a recorded value")
            .because("the model declares maps")
            .remedy("record the numbers in front of `ZipMap` or behind `DictVectorizer`")
            .into());
    }
    if *kind == Kind::Tensor {
        let proto = TensorProto::decode(bytes).map_err(|error| no_value(&error))?;
        let tensor = plain(&proto)?;
        return Ok((proto.name, tensor.into()));
    }
    let proto = ListProto::decode(bytes).map_err(|error| no_value(&error))?;
    let value =
        if matches!(kind, Kind::Sequence(_)) { sequence(&proto)? } else { optional(&proto)? };
    Ok((proto.name, value))
}

fn no_value(error: &DecodeError) -> Diagnostic {
    Diagnostic::error(codes::NOT_ONNX, "the file holds no value of the kind that is declared")
        .because(error.to_string())
        .remedy("give a tensor, a sequence or an optional value, as the model declares it")
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

/// The file of a value, as [`read_value`] reads it; none of maps.
#[must_use]
pub fn encode_value(name: &str, value: &Value) -> Option<Vec<u8>> {
    match value {
        Value::Tensor(tensor) => Some(tensor_proto(name, tensor).encode_to_vec()),
        _ => Some(list_proto(name, value)?.encode_to_vec()),
    }
}

fn list_proto(name: &str, value: &Value) -> Option<ListProto> {
    let values: Vec<&Value> = match value {
        Value::Sequence(values) => values.iter().collect(),
        Value::Optional(value) => value.iter().map(|value| &**value).collect(),
        _ => return None,
    };
    let mut proto = ListProto { name: name.to_owned(), ..ListProto::default() };
    for value in values {
        match value {
            Value::Tensor(tensor) => proto.tensors.push(tensor_proto("", tensor)),
            Value::Sequence(_) => proto.sequences.push(list_proto("", value)?),
            _ => proto.optionals.push(list_proto("", value)?),
        }
    }
    Some(proto)
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
