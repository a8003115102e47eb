//! The types of what parts are given.

use tensor::{DType, Tensor, Value};

use crate::data_type::number_of;
use crate::excerpt;
use crate::proto::{TypeProto, ValueInfoProto, type_proto};

/// The type of an input of a part.
#[derive(Clone, Debug, PartialEq)]
pub enum InputType {
    /// A tensor; extents that are not given are free.
    Tensor(DType, Vec<Option<usize>>),
    /// A sequence or an optional value; none for what cannot be declared.
    List(Option<TypeProto>),
}

impl InputType {
    /// The type of a value, with its extents.
    #[must_use]
    pub fn of(value: &Value) -> InputType {
        match value {
            Value::Tensor(tensor) => {
                let extents = tensor.shape().iter().map(|&extent| Some(extent));
                InputType::Tensor(tensor.dtype(), extents.collect())
            }
            _ => InputType::List(declared_type(value)),
        }
    }

    /// Whether a value is of the type.
    #[must_use]
    pub fn holds_for(&self, value: &Value) -> bool {
        match (self, value) {
            (InputType::Tensor(dtype, extents), Value::Tensor(tensor)) => {
                let fits = |(extent, given): (&Option<usize>, &usize)| {
                    extent.is_none_or(|extent| extent == *given)
                };
                *dtype == tensor.dtype()
                    && extents.len() == tensor.shape().len()
                    && extents.iter().zip(tensor.shape()).all(fits)
            }
            (InputType::List(ty), Value::Sequence(_) | Value::Optional(_)) => {
                *ty == declared_type(value)
            }
            _ => false,
        }
    }

    /// The type with those extents free that a value has others of; none where the value differs
    /// in more.
    #[must_use]
    pub fn widened(&self, value: &Value) -> Option<InputType> {
        let mut wide = self.clone();
        if let (InputType::Tensor(_, extents), Value::Tensor(tensor)) = (&mut wide, value)
            && extents.len() == tensor.shape().len()
        {
            for (extent, &given) in extents.iter_mut().zip(tensor.shape()) {
                *extent = extent.filter(|extent| *extent == given);
            }
        }
        wide.holds_for(value).then_some(wide)
    }

    /// The declaration of an input of the type.
    pub(super) fn declaration(&self, name: &str) -> ValueInfoProto {
        match self {
            InputType::Tensor(dtype, extents) => {
                let extents = extents.iter().map(|extent| extent.map(|extent| extent as i64));
                excerpt::declared(name, *dtype, extents)
            }
            InputType::List(ty) => ValueInfoProto { name: name.to_owned(), r#type: ty.clone() },
        }
    }
}

fn declared_type(value: &Value) -> Option<TypeProto> {
    let element = |value: Option<&Value>| {
        // Of an empty list any type will do: nothing is of it.
        let empty = Value::Tensor(Tensor::zeros(DType::F32, &[]));
        let elem_type = declared_type(value.unwrap_or(&empty));
        Box::new(type_proto::Element { elem_type })
    };
    let value = match value {
        Value::Tensor(tensor) => type_proto::Value::Tensor(type_proto::Tensor {
            elem_type: number_of(tensor.dtype()),
            shape: None,
        }),
        Value::Sequence(values) => type_proto::Value::Sequence(element(values.first())),
        Value::Optional(inner) => type_proto::Value::Optional(element(inner.as_deref())),
        Value::Maps(..) | Value::Map(..) => return None,
    };
    Some(TypeProto { value: Some(value) })
}
