//! Sequences and optional values while a function runs.
//!
//! A list is shared by all that hold it and copied only where one of several changes it, which
//! whoever runs a plan hears of: what grows turn by turn is not copied each turn.

use std::rc::Rc;

use base::codes;
use graph::ListOperation;
use tensor::{Scalar, Tensor, Value};

use crate::EvaluationFault;

/// A value while a function runs.
#[derive(Clone, Debug)]
pub(super) enum Held {
    Tensor(Tensor),
    Sequence(Rc<Sequence>),
    Optional(Option<Rc<Held>>),
}

/// Values behind each other, and the bytes of their elements.
#[derive(Clone, Debug, Default)]
pub(super) struct Sequence {
    values: Vec<Held>,
    bytes: u64,
}

impl Held {
    /// Bytes of its elements.
    pub(super) fn bytes(&self) -> u64 {
        match self {
            Held::Tensor(tensor) => tensor.bytes().len() as u64,
            Held::Sequence(sequence) => sequence.bytes,
            Held::Optional(value) => value.as_ref().map_or(0, |value| value.bytes()),
        }
    }

    /// The tensor that it is.
    pub(super) fn tensor(self) -> Result<Tensor, EvaluationFault> {
        match self {
            Held::Tensor(tensor) => Ok(tensor),
            _ => Err(EvaluationFault::new(codes::VERIFIER_FAILED, "a list stands for a tensor")),
        }
    }

    pub(super) fn as_tensor(&self) -> Option<&Tensor> {
        match self {
            Held::Tensor(tensor) => Some(tensor),
            _ => None,
        }
    }

    /// As callers have it.
    pub(super) fn into_value(self) -> Value {
        match self {
            Held::Tensor(tensor) => Value::Tensor(tensor),
            Held::Sequence(sequence) => {
                let values = sequence.values.iter().cloned();
                Value::Sequence(values.map(Held::into_value).collect())
            }
            Held::Optional(value) => {
                Value::Optional(value.map(|value| Box::new(Held::clone(&value).into_value())))
            }
        }
    }
}

impl Sequence {
    pub(super) fn of(values: Vec<Held>) -> Sequence {
        let bytes = values.iter().map(Held::bytes).sum();
        Sequence { values, bytes }
    }
}

/// What is done with lists. Hears how many values are copied.
pub(super) fn list(
    operation: ListOperation,
    operands: Vec<Held>,
    copied: &mut dyn FnMut(u64) -> Result<(), EvaluationFault>,
) -> Result<Held, EvaluationFault> {
    let mut operands = operands.into_iter();
    let mut next = || operands.next();
    let missing = || EvaluationFault::new(codes::VERIFIER_FAILED, "an operand is missing");
    match operation {
        ListOperation::Sequence => {
            return Ok(Held::Sequence(Rc::new(Sequence::of(operands.collect()))));
        }
        ListOperation::Optional => return Ok(Held::Optional(next().map(Rc::new))),
        ListOperation::Element | ListOperation::HasElement => {
            let Some(Held::Optional(value)) = next() else { return Err(missing()) };
            return match (operation, value) {
                (ListOperation::HasElement, value) => {
                    Ok(Held::Tensor(Tensor::scalar(Scalar::bool(value.is_some()))))
                }
                (_, Some(value)) => Ok(Rc::unwrap_or_clone(value)),
                (_, None) => Err(misfit("the optional value is empty")),
            };
        }
        _ => {}
    }
    let Some(Held::Sequence(mut sequence)) = next() else { return Err(missing()) };
    let count = sequence.values.len();
    let mut change = |sequence: &mut Rc<Sequence>| match Rc::strong_count(sequence) {
        1 => Ok(()),
        _ => copied(count as u64),
    };
    match operation {
        ListOperation::Insert => {
            let value = next().ok_or_else(missing)?;
            let at = next().map_or(Ok(count), |at| place(at, count, count + 1))?;
            change(&mut sequence)?;
            let changed = Rc::make_mut(&mut sequence);
            changed.bytes += value.bytes();
            changed.values.insert(at, value);
            Ok(Held::Sequence(sequence))
        }
        ListOperation::Erase => {
            let last = || count.checked_sub(1).ok_or_else(|| misfit("the sequence is empty"));
            let at = next().map_or_else(last, |at| place(at, count, count))?;
            change(&mut sequence)?;
            let changed = Rc::make_mut(&mut sequence);
            let erased = changed.values.remove(at);
            changed.bytes -= erased.bytes();
            Ok(Held::Sequence(sequence))
        }
        ListOperation::At => {
            let at = place(next().ok_or_else(missing)?, count, count)?;
            Ok(sequence.values[at].clone())
        }
        ListOperation::Concat { axis, is_new } => {
            if sequence.values.is_empty() {
                return Err(misfit("the sequence is empty"));
            }
            let tensors = sequence.values.iter().cloned().map(Held::tensor);
            let tensors = tensors.collect::<Result<Vec<Tensor>, _>>()?;
            Ok(Held::Tensor(Tensor::joined(&tensors, axis, is_new).map_err(misfit)?))
        }
        _ => Ok(Held::Tensor(Tensor::scalar(Scalar::i64(count as i64)))),
    }
}

/// A place among values, where `end` is the first that is not one; negative ones count from the
/// end.
fn place(given: Held, count: usize, end: usize) -> Result<usize, EvaluationFault> {
    let given = given.tensor()?.get_scalar(0).as_i64();
    let counted = if given < 0 { given.saturating_add(count as i64) } else { given };
    let found = usize::try_from(counted).ok().filter(|&at| at < end);
    found.ok_or_else(|| {
        let message = format!("there is no place {given} in {count} values");
        EvaluationFault::new(codes::INDEX_OUT_OF_RANGE, message)
    })
}

#[cold]
#[inline(never)]
fn misfit(reason: impl Into<String>) -> EvaluationFault {
    EvaluationFault::new(codes::INCONSISTENT_SHAPES, reason)
}
