//! Sequences and optional values: their types, and what is done with them.
//!
//! What a list holds is of one element type, but for tensors of any extents: only a run knows them.
//! A tensor that is taken out of a list has symbols for its extents, which the node defines.

use base::text::Parser;
use tensor::{DType, Kind, Value};

use crate::function::Type;
use crate::infer::{Inferred, expect, expect_count};
use crate::text::{Names, type_text};

/// What a list holds.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ElementType {
    /// Nothing, so far as is known: the list is empty.
    Any,
    /// Tensors of any extents.
    Tensor {
        /// Element type of all of them.
        dtype: DType,
        /// The number of axes, where all have the same.
        rank: Option<usize>,
    },
    /// Sequences.
    Sequence(Box<ElementType>),
    /// Optional values.
    Optional(Box<ElementType>),
}

/// What is done with lists; none of it is arithmetic. Places count from the front, negative ones
/// from the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ListOperation {
    /// The sequence of the operands.
    Sequence,
    /// The sequence with a value inserted at a place, or at the end: sequence, value, perhaps
    /// place.
    Insert,
    /// The sequence without the value at a place, or without the last: sequence, perhaps place.
    Erase,
    /// The value at a place: sequence, place.
    At,
    /// How many values there are, an i64.
    Length,
    /// The tensors of a sequence put together along an axis.
    Concat {
        /// The axis of the result.
        axis: usize,
        /// Whether it is new.
        is_new: bool,
    },
    /// The optional value that holds the operand, or nothing.
    Optional,
    /// What an optional value holds.
    Element,
    /// Whether an optional value holds something.
    HasElement,
}

impl ElementType {
    /// The type of a value as an element.
    #[must_use]
    pub fn of(ty: &Type) -> ElementType {
        match ty {
            Type::Tensor(ty) => ElementType::Tensor { dtype: ty.dtype, rank: Some(ty.shape.len()) },
            Type::Sequence(inner) => ElementType::Sequence(inner.clone()),
            Type::Optional(inner) => ElementType::Optional(inner.clone()),
        }
    }

    /// The type of a value that a caller gives; none of values of two types, and of maps.
    #[must_use]
    pub fn of_value(value: &Value) -> Option<ElementType> {
        let join = |all: ElementType, it: &Value| all.join(&ElementType::of_value(it)?);
        Some(match value {
            Value::Tensor(tensor) => {
                ElementType::Tensor { dtype: tensor.dtype(), rank: Some(tensor.shape().len()) }
            }
            Value::Sequence(values) => {
                let held = values.iter().try_fold(ElementType::Any, join)?;
                ElementType::Sequence(held.into())
            }
            Value::Optional(value) => {
                let held = value.iter().try_fold(ElementType::Any, |all, it| join(all, it))?;
                ElementType::Optional(held.into())
            }
            Value::Maps(..) | Value::Map(..) => return None,
        })
    }

    /// The type of a list whose values are of such types.
    #[must_use]
    pub fn as_list(&self) -> Option<Type> {
        match self {
            ElementType::Sequence(held) => Some(Type::Sequence(held.clone())),
            ElementType::Optional(held) => Some(Type::Optional(held.clone())),
            ElementType::Any | ElementType::Tensor { .. } => None,
        }
    }

    /// What values of it are, and of the tensors that they are made of the element type and the
    /// number of axes, where all have the same.
    #[must_use]
    pub fn kind(&self) -> (Kind, Option<DType>, Option<usize>) {
        let held = |inner: &ElementType, list: fn(Box<Kind>) -> Kind| {
            let (kind, dtype, rank) = inner.kind();
            (list(Box::new(kind)), dtype, rank)
        };
        match self {
            ElementType::Any => (Kind::Tensor, None, None),
            ElementType::Tensor { dtype, rank } => (Kind::Tensor, Some(*dtype), *rank),
            ElementType::Sequence(inner) => held(inner, Kind::Sequence),
            ElementType::Optional(inner) => held(inner, Kind::Optional),
        }
    }

    /// Whether it says of all tensors how many axes they have.
    #[must_use]
    pub fn tells_ranks(&self) -> bool {
        match self {
            ElementType::Tensor { rank, .. } => rank.is_some(),
            ElementType::Sequence(held) | ElementType::Optional(held) => held.tells_ranks(),
            ElementType::Any => true,
        }
    }

    /// This type, with the numbers of axes that another tells.
    #[must_use]
    pub fn with_ranks_of(self, other: &ElementType) -> ElementType {
        match (self, other) {
            (ElementType::Tensor { dtype, rank }, ElementType::Tensor { rank: told, .. }) => {
                ElementType::Tensor { dtype, rank: rank.or(*told) }
            }
            (ElementType::Sequence(held), ElementType::Sequence(told)) => {
                ElementType::Sequence(held.with_ranks_of(told).into())
            }
            (ElementType::Optional(held), ElementType::Optional(told)) => {
                ElementType::Optional(held.with_ranks_of(told).into())
            }
            (own, _) => own,
        }
    }

    /// Whether what is of the other type is of this one.
    #[must_use]
    pub fn accepts(&self, other: &ElementType) -> bool {
        self.join(other).as_ref() == Some(self)
    }

    /// The narrowest type that accepts both; none where nothing is of both.
    #[must_use]
    pub fn join(&self, other: &ElementType) -> Option<ElementType> {
        Some(match (self, other) {
            (ElementType::Any, known) | (known, ElementType::Any) => known.clone(),
            (
                ElementType::Tensor { dtype, rank },
                ElementType::Tensor { dtype: other, rank: other_rank },
            ) if dtype == other => {
                ElementType::Tensor { dtype: *dtype, rank: rank.filter(|_| rank == other_rank) }
            }
            (ElementType::Sequence(a), ElementType::Sequence(b)) => {
                ElementType::Sequence(Box::new(a.join(b)?))
            }
            (ElementType::Optional(a), ElementType::Optional(b)) => {
                ElementType::Optional(Box::new(a.join(b)?))
            }
            _ => return None,
        })
    }

    /// `f32 rank 2`, `f32`, `any`, `sequence<i64 rank 1>`.
    pub(crate) fn text(&self) -> String {
        match self {
            ElementType::Any => "any".to_owned(),
            ElementType::Tensor { dtype, rank: Some(rank) } => format!("{dtype} rank {rank}"),
            ElementType::Tensor { dtype, rank: None } => dtype.to_string(),
            ElementType::Sequence(inner) => format!("sequence<{}>", inner.text()),
            ElementType::Optional(inner) => format!("optional<{}>", inner.text()),
        }
    }
}

impl Type {
    /// Whether what is of the other type is of this one: equal tensors, lists that may hold more.
    #[must_use]
    pub fn accepts(&self, other: &Type) -> bool {
        match (self, other) {
            (Type::Sequence(a), Type::Sequence(b)) | (Type::Optional(a), Type::Optional(b)) => {
                a.accepts(b)
            }
            _ => self == other,
        }
    }
}

impl ListOperation {
    /// Its text.
    pub(crate) fn text(self) -> String {
        match self {
            ListOperation::Sequence => "sequence".to_owned(),
            ListOperation::Insert => "insert".to_owned(),
            ListOperation::Erase => "erase".to_owned(),
            ListOperation::At => "at".to_owned(),
            ListOperation::Length => "length".to_owned(),
            ListOperation::Concat { axis, is_new: false } => format!("concat axis {axis}"),
            ListOperation::Concat { axis, is_new: true } => format!("stack axis {axis}"),
            ListOperation::Optional => "optional".to_owned(),
            ListOperation::Element => "element".to_owned(),
            ListOperation::HasElement => "has_element".to_owned(),
        }
    }

    /// The mirror of `text`.
    pub(crate) fn parse(parser: &mut Parser<'_>) -> Result<ListOperation, base::text::TextError> {
        for (word, operation) in [
            ("sequence", ListOperation::Sequence),
            ("insert", ListOperation::Insert),
            ("erase", ListOperation::Erase),
            ("at", ListOperation::At),
            ("length", ListOperation::Length),
            ("optional", ListOperation::Optional),
            ("element", ListOperation::Element),
            ("has_element", ListOperation::HasElement),
        ] {
            if parser.keyword(word) {
                return Ok(operation);
            }
        }
        for (word, is_new) in [("concat", false), ("stack", true)] {
            if parser.keyword(word) {
                parser.expect_keyword("axis")?;
                return Ok(ListOperation::Concat { axis: parser.unsigned()? as usize, is_new });
            }
        }
        Err(parser.unexpected("what is done with a list"))
    }
}

/// Checks the operands and the result of what is done with a list.
pub(crate) fn check_list(
    operation: ListOperation,
    operands: &[&Type],
    results: &[Type],
    names: Names<'_>,
) -> Inferred<()> {
    use ListOperation::{
        At, Concat, Element, Erase, HasElement, Insert, Length, Optional, Sequence,
    };
    expect_count("result", 1, results.len())?;
    let result = &results[0];
    let most = match operation {
        Sequence => usize::MAX,
        Insert => 3,
        Erase | At => 2,
        Length | Concat { .. } | Optional | Element | HasElement => 1,
    };
    let least = match operation {
        Sequence | Optional => 0,
        Insert | At => 2,
        Erase | Length | Concat { .. } | Element | HasElement => 1,
    };
    expect((least..=most).contains(&operands.len()), || {
        format!("`{}` does not take {} operands", operation.text(), operands.len())
    })?;
    let wrong = |what: &str, ty: &Type| format!("{what} has type {}", type_text(ty, names));
    let held = |number: usize| match (operation, operands[number]) {
        (Element | HasElement, Type::Optional(inner)) => Ok(&**inner),
        (Element | HasElement, ty) => Err(wrong("operand 0", ty)),
        (_, Type::Sequence(inner)) => Ok(&**inner),
        (_, ty) => Err(wrong("operand 0", ty)),
    };
    let place = |number: usize| match operands.get(number).map(|ty| ty.as_tensor()) {
        None => Ok(()),
        Some(Some(ty)) if ty.dtype == DType::I64 && ty.shape.is_empty() => Ok(()),
        Some(_) => Err(wrong("the place", operands[number])),
    };
    let gives = |element: &ElementType| match result {
        Type::Sequence(inner) if operation != Optional && inner.accepts(element) => Ok(()),
        Type::Optional(inner) if operation == Optional && inner.accepts(element) => Ok(()),
        ty => Err(wrong("the result", ty)),
    };
    let takes = |element: &ElementType| {
        let fits = match (element, result) {
            (ElementType::Tensor { dtype, rank }, Type::Tensor(ty)) => {
                *dtype == ty.dtype && rank.is_none_or(|rank| rank == ty.shape.len())
            }
            (element, _) => ElementType::of(result) == *element,
        };
        if fits { Ok(()) } else { Err(wrong("the result", result)) }
    };
    let scalar = |dtype: DType| match result.as_tensor() {
        Some(ty) if ty.dtype == dtype && ty.shape.is_empty() => Ok(()),
        _ => Err(wrong("the result", result)),
    };
    match operation {
        Sequence | Optional => {
            gives(&ElementType::Any)?;
            operands.iter().try_for_each(|ty| gives(&ElementType::of(ty)))
        }
        Insert => {
            place(2)?;
            gives(held(0)?)?;
            gives(&ElementType::of(operands[1]))
        }
        Erase => {
            place(1)?;
            gives(held(0)?)
        }
        At => {
            place(1)?;
            takes(held(0)?)
        }
        Element => takes(held(0)?),
        Length => held(0).and(scalar(DType::I64)),
        HasElement => held(0).and(scalar(DType::Bool)),
        Concat { axis, is_new } => match (held(0)?, result) {
            (ElementType::Tensor { dtype, rank }, Type::Tensor(ty))
                if *dtype == ty.dtype
                    && axis < ty.shape.len()
                    && rank.is_none_or(|rank| rank + usize::from(is_new) == ty.shape.len()) =>
            {
                Ok(())
            }
            _ => Err(wrong("the result", result)),
        },
    }
}
