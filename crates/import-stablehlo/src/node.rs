//! An operation as its lowering sees it: its operands, attributes and types.

use base::{Diagnostic, codes};
use front::{Accepted, Complex, Graph, Operand, shape_error, type_error, unsupported};
use sym::Expr;
use tensor::DType;

use crate::syntax::{Attribute, ElementType, Function, Operation, TensorType, ValueType};

/// What a name of a program stands for.
#[derive(Clone, Debug)]
pub(crate) enum Value {
    Tensor(Operand),
    Complex(Complex),
    Tuple(Vec<Value>),
    /// One for each of several devices.
    Each(Vec<Value>),
    /// What orders effects, of which there are none.
    Token,
}

/// The greatest integer of a list: more elements than a tensor may have, far from overflow.
const MOST: u64 = 1 << 40;

/// What a lowering gives: the values of the results.
pub(crate) type Lowered = Accepted<Vec<Value>>;

/// An operation about to be lowered.
pub(crate) struct Node<'p> {
    pub(crate) function: &'p Function,
    pub(crate) operation: &'p Operation,
    pub(crate) operands: Vec<Value>,
}

impl From<Operand> for Value {
    fn from(value: Operand) -> Value {
        Value::Tensor(value)
    }
}

impl From<Complex> for Value {
    fn from(value: Complex) -> Value {
        Value::Complex(value)
    }
}

/// One result.
pub(crate) fn one(value: impl Into<Value>) -> Lowered {
    Ok(vec![value.into()])
}

impl Value {
    /// A real tensor.
    pub(crate) fn real(&self) -> Accepted<&Operand> {
        match self {
            Value::Tensor(value) => Ok(value),
            Value::Complex(_) => Err(type_error("complex numbers stand where real ones must")),
            _ => Err(type_error("a tuple or token stands where a tensor must")),
        }
    }

    /// A complex tensor; a real one has no imaginary part.
    pub(crate) fn complex(&self, graph: &mut Graph) -> Accepted<Complex> {
        match self {
            Value::Complex(value) => Ok(value.clone()),
            Value::Tensor(value) => {
                let im = graph.full(value.shape(), tensor::Scalar::zero(value.dtype()))?;
                Ok(Complex { re: value.clone(), im })
            }
            _ => Err(type_error("a tuple or token stands where a tensor must")),
        }
    }

    /// The tensors that it is made of.
    pub(crate) fn parts(&self) -> Vec<&Operand> {
        match self {
            Value::Tensor(value) => vec![value],
            Value::Complex(value) => vec![&value.re, &value.im],
            Value::Tuple(values) | Value::Each(values) => {
                values.iter().flat_map(Value::parts).collect()
            }
            Value::Token => Vec::new(),
        }
    }

    /// A value made alike of other tensors, in the order of [`Value::parts`].
    pub(crate) fn with_parts(&self, parts: &mut impl Iterator<Item = Operand>) -> Accepted<Value> {
        let mut next = || parts.next().ok_or_else(|| shape_error("a value has too few parts"));
        Ok(match self {
            Value::Tensor(_) => Value::Tensor(next()?),
            Value::Complex(_) => Value::Complex(Complex { re: next()?, im: next()? }),
            Value::Tuple(values) => {
                let values = values.iter().map(|it| it.with_parts(parts));
                Value::Tuple(values.collect::<Accepted<_>>()?)
            }
            Value::Each(values) => {
                let values = values.iter().map(|it| it.with_parts(parts));
                Value::Each(values.collect::<Accepted<_>>()?)
            }
            Value::Token => Value::Token,
        })
    }

    /// What it is to one of several devices.
    pub(crate) fn on(&self, device: usize) -> Value {
        match self {
            Value::Each(values) => values[device].clone(),
            value => value.clone(),
        }
    }

    /// A value for each of so many devices.
    pub(crate) fn on_each(&self, devices: usize) -> Value {
        Value::Each((0..devices).map(|device| self.on(device)).collect())
    }

    /// Each of its tensors changed alike: a movement.
    pub(crate) fn each(
        &self,
        mut change: impl FnMut(&Operand) -> Accepted<Operand>,
    ) -> Accepted<Value> {
        let parts = self.parts().into_iter().map(&mut change).collect::<Accepted<Vec<_>>>()?;
        self.with_parts(&mut parts.into_iter())
    }

    pub(crate) fn shape(&self) -> &[Expr] {
        self.parts().first().map_or(&[], |part| part.shape())
    }

    pub(crate) fn rank(&self) -> usize {
        self.shape().len()
    }
}

/// The type of parts of an element.
pub(crate) fn part_type(element: &ElementType) -> Accepted<DType> {
    match element {
        ElementType::Plain(dtype) | ElementType::Complex(dtype) => Ok(*dtype),
        ElementType::Quantised(quantisation) => Ok(quantisation.storage),
        ElementType::Other(name) => Err(Diagnostic::error(
            codes::UNSUPPORTED_TYPE,
            format!("the element type {name} is not supported"),
        )
        .because("there is no element type of this form in the compiler")
        .remedy("convert the values to another type in the program")),
    }
}

impl Node<'_> {
    pub(crate) fn value(&self, number: usize) -> Accepted<&Value> {
        self.operands.get(number).ok_or_else(|| {
            let count = self.operands.len();
            Diagnostic::error(codes::WRONG_ARITY, "an operation has too few operands")
                .because(format!("it has {count}, and operand {number} is needed"))
                .remedy("write the program anew")
        })
    }

    /// A real operand.
    pub(crate) fn real(&self, number: usize) -> Accepted<&Operand> {
        self.value(number)?.real()
    }

    pub(crate) fn has_complex(&self) -> bool {
        self.operands.iter().any(|value| matches!(value, Value::Complex(_)))
    }

    pub(crate) fn attribute(&self, name: &str) -> Option<&Attribute> {
        Attribute::of(&self.operation.attributes, name)
    }

    fn missing(&self, name: &str) -> Diagnostic {
        Diagnostic::error(codes::BAD_ATTRIBUTE, format!("attribute `{name}` is not as it must be"))
            .because("the operation has none of this name, or one of another kind or too large")
            .remedy("write the program anew")
    }

    /// Integers; none where the attribute is not there.
    pub(crate) fn integers(&self, name: &str) -> Accepted<Option<Vec<i64>>> {
        match self.attribute(name) {
            None => Ok(None),
            Some(attribute) => match attribute.integers() {
                Some(integers) if integers.iter().all(|it| it.unsigned_abs() <= MOST) => {
                    Ok(Some(integers))
                }
                _ => Err(self.missing(name)),
            },
        }
    }

    /// Integers, one for each axis; a default for all where the attribute is not there.
    pub(crate) fn each_axis(&self, name: &str, rank: usize, default: i64) -> Accepted<Vec<i64>> {
        let integers = self.integers(name)?.unwrap_or_else(|| vec![default; rank]);
        if integers.len() != rank {
            let found = integers.len();
            return Err(shape_error(format!("`{name}` has {found} numbers for {rank} axes")));
        }
        Ok(integers)
    }

    pub(crate) fn required(&self, name: &str) -> Accepted<Vec<i64>> {
        self.integers(name)?.ok_or_else(|| self.missing(name))
    }

    pub(crate) fn integer(&self, name: &str) -> Accepted<i64> {
        self.attribute(name).and_then(Attribute::integer).ok_or_else(|| self.missing(name))
    }

    pub(crate) fn integer_or(&self, name: &str, default: i64) -> Accepted<i64> {
        if self.attribute(name).is_some() { self.integer(name) } else { Ok(default) }
    }

    pub(crate) fn flag(&self, name: &str) -> bool {
        self.attribute(name).and_then(Attribute::flag).unwrap_or(false)
    }

    pub(crate) fn word(&self, name: &str) -> Accepted<&str> {
        self.attribute(name).and_then(Attribute::word).ok_or_else(|| self.missing(name))
    }

    /// Axes of a record of axes; none where it has no such entry.
    pub(crate) fn axes_of(&self, record: &str, name: &str, rank: usize) -> Accepted<Vec<usize>> {
        let entries = match self.attribute(record) {
            Some(Attribute::Record(entries)) => entries,
            _ => return Err(self.missing(record)),
        };
        match Attribute::of(entries, name) {
            None => Ok(Vec::new()),
            Some(attribute) => {
                let axes = attribute.integers().ok_or_else(|| self.missing(name))?;
                axes_within(&axes, rank)
            }
        }
    }

    /// An axis of a record of axes.
    pub(crate) fn axis_of(&self, record: &str, name: &str) -> Accepted<Option<usize>> {
        let entry = match self.attribute(record) {
            Some(Attribute::Record(entries)) => Attribute::of(entries, name),
            _ => return Err(self.missing(record)),
        };
        let axis = entry.map(|it| it.integer().and_then(|it| usize::try_from(it).ok()));
        axis.map(|axis| axis.ok_or_else(|| self.missing(name))).transpose()
    }

    /// Axes that an attribute names.
    pub(crate) fn axes(&self, name: &str, rank: usize) -> Accepted<Vec<usize>> {
        axes_within(&self.required(name)?, rank)
    }

    /// An axis that an attribute names.
    pub(crate) fn axis(&self, name: &str, rank: usize) -> Accepted<usize> {
        Ok(axes_within(&[self.integer(name)?], rank)?[0])
    }

    // --- types ---

    pub(crate) fn operand_type(&self, number: usize) -> Accepted<&TensorType> {
        tensor_type(self.function, self.operation.operands.get(number))
    }

    pub(crate) fn result_type(&self, number: usize) -> Accepted<&TensorType> {
        tensor_type(self.function, self.operation.results.get(number))
    }

    /// The element type of the parts of a result.
    pub(crate) fn dtype(&self) -> Accepted<DType> {
        crate::operators::computed_type(&self.result_type(0)?.element)
    }

    /// The shape of a result, which the text tells.
    pub(crate) fn fixed_shape(&self, number: usize) -> Accepted<Vec<Expr>> {
        let extents = self.result_type(number)?.shape.iter();
        let shape = extents.map(|extent| extent.map(Expr::from)).collect::<Option<Vec<_>>>();
        shape.ok_or_else(|| unsupported("the shape of its result is not known"))
    }
}

fn tensor_type<'p>(function: &'p Function, value: Option<&usize>) -> Accepted<&'p TensorType> {
    match value.map(|&value| &function.values[value]) {
        Some(ValueType::Tensor(ty)) => Ok(ty),
        _ => Err(type_error("an operand or result is no tensor")),
    }
}

/// Distinct axes of a tensor of a rank, in the order in which they are given.
pub(crate) fn axes_within(axes: &[i64], rank: usize) -> Accepted<Vec<usize>> {
    let mut found = Vec::with_capacity(axes.len());
    for &axis in axes {
        match usize::try_from(axis).ok().filter(|axis| *axis < rank && !found.contains(axis)) {
            Some(axis) => found.push(axis),
            None => {
                let reason =
                    format!("axis {axis} of {axes:?} is not one of {rank}, or named twice");
                return Err(shape_error(reason));
            }
        }
    }
    Ok(found)
}
