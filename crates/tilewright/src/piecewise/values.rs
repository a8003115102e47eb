//! What is computed of values in hand: places, numbers, sequences and optional values.

use std::borrow::Cow;

use base::{Diagnostic, Diagnostics, Result, codes};
use import_onnx::pieces::ListWork;
use tensor::{DType, Scalar, Tensor, Value};

/// What an operator on sequences and optional values gives; `own` copies what is borrowed.
pub(super) fn list(
    work: ListWork,
    mut operands: Vec<Option<Cow<'_, Value>>>,
    own: &mut dyn FnMut(Cow<'_, Value>) -> Result<Value>,
) -> Result<Value> {
    let no_sequence = || misfit("input 0 is no sequence");
    let owned = match work {
        ListWork::Insert | ListWork::Erase | ListWork::Element | ListWork::Same => {
            let first = operands.first_mut().and_then(Option::take);
            Some(own(first.ok_or_else(|| missing(0))?)?)
        }
        _ => None,
    };
    let operand = |number: usize| {
        operands.get(number).and_then(Option::as_deref).ok_or_else(|| missing(number))
    };
    let sequence = || match operand(0)? {
        Value::Sequence(values) => Ok(values),
        _ => Err(no_sequence()),
    };
    let given = |number_of: usize, otherwise: usize, count: usize, end: usize| match operands
        .get(number_of)
        .and_then(Option::as_deref)
    {
        Some(given) => place(number(given)?, count, end),
        None => place(otherwise as i64, count, end),
    };
    Ok(match work {
        ListWork::Sequence => {
            let values = operands.into_iter().zip(0..);
            let values = values.map(|(value, number)| own(value.ok_or_else(|| missing(number))?));
            Value::Sequence(values.collect::<Result<_>>()?)
        }
        ListWork::Insert => {
            let Some(Value::Sequence(mut values)) = owned else { return Err(no_sequence()) };
            let count = values.len();
            let at = given(2, count, count, count + 1)?;
            operand(1)?;
            let inserted = operands.swap_remove(1).ok_or_else(|| missing(1))?;
            values.insert(at, own(inserted)?);
            Value::Sequence(values)
        }
        ListWork::Erase => {
            let Some(Value::Sequence(mut values)) = owned else { return Err(no_sequence()) };
            let count = values.len();
            values.remove(given(1, count.saturating_sub(1), count, count)?);
            Value::Sequence(values)
        }
        ListWork::At => {
            let values = sequence()?;
            let at = place(number(operand(1)?)?, values.len(), values.len())?;
            own(Cow::Borrowed(&values[at]))?
        }
        ListWork::Length => Tensor::scalar(Scalar::i64(sequence()?.len() as i64)).into(),
        ListWork::Concat { axis, is_new } => {
            let tensor = |value: &Value| match value {
                Value::Tensor(tensor) => Ok(tensor.clone()),
                _ => Err(misfit("the sequence holds other values than tensors")),
            };
            let tensors = sequence()?.iter().map(tensor).collect::<Result<Vec<_>>>()?;
            let Some(first) = tensors.first() else { return Err(misfit("the sequence is empty")) };
            let rank = first.shape().len() + usize::from(is_new);
            let axis = place(axis, rank, rank)?;
            Tensor::joined(&tensors, axis, is_new).map_err(misfit)?.into()
        }
        ListWork::Optional => {
            let held = operands.into_iter().next().flatten().map(own).transpose()?;
            Value::Optional(held.map(Box::new))
        }
        ListWork::Element => match owned.ok_or_else(|| missing(0))? {
            Value::Optional(Some(value)) => *value,
            Value::Optional(None) => return Err(misfit("the optional value is empty")),
            value => value,
        },
        ListWork::HasElement => {
            let has = match operands.first().and_then(Option::as_deref) {
                None | Some(Value::Optional(None)) => false,
                Some(_) => true,
            };
            Tensor::scalar(Scalar::bool(has)).into()
        }
        ListWork::Same => owned.ok_or_else(|| missing(0))?,
    })
}

/// A place among values, where `end` is the first that is not one; negative ones count from the
/// end.
pub(super) fn place(given: i64, count: usize, end: usize) -> Result<usize> {
    let counted = if given < 0 { given.saturating_add(count as i64) } else { given };
    let found = usize::try_from(counted).ok().filter(|&at| at < end);
    found.ok_or_else(|| misfit(format!("there is no place {given} in {count} values")))
}

/// The number that a tensor of one element holds.
pub(super) fn number(value: &Value) -> Result<i64> {
    match value {
        Value::Tensor(tensor)
            if tensor.len() == 1
                && (tensor.dtype().is_integer() || tensor.dtype() == DType::Bool) =>
        {
            Ok(tensor.get_scalar(0).as_i64())
        }
        _ => Err(misfit("a count, a place or a condition must be one integer or boolean")),
    }
}

/// Bytes of the elements of a value.
pub(super) fn bytes_of(value: &Value) -> u64 {
    match value {
        Value::Tensor(tensor) | Value::Maps(_, tensor) | Value::Map(_, tensor) => {
            tensor.dtype().size_of_elements(tensor.len()).unwrap_or(0) as u64
        }
        Value::Sequence(values) => values.iter().map(bytes_of).sum(),
        Value::Optional(value) => value.as_deref().map_or(0, bytes_of),
    }
}

/// How many values are in a sequence, and in those in it.
pub(super) fn entries(value: &Value) -> u64 {
    match value {
        Value::Sequence(values) => values.iter().map(|value| 1 + entries(value)).sum(),
        Value::Optional(value) => value.as_deref().map_or(0, entries),
        Value::Tensor(_) | Value::Maps(..) | Value::Map(..) => 0,
    }
}

pub(super) fn missing(number: usize) -> Diagnostics {
    Diagnostic::error(codes::WRONG_ARITY, format!("input {number} is missing"))
        .because("the operator needs it")
        .remedy("check the model with the tool that exported it, or export it again")
        .into()
}

pub(super) fn misfit(reason: impl Into<String>) -> Diagnostics {
    Diagnostic::error(codes::INCONSISTENT_SHAPES, "the inputs do not fit the operator")
        .because(reason)
        .remedy("check the model with the tool that exported it, and its inputs")
        .into()
}
