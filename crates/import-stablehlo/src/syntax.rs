//! What a program says, as plain data: functions of operations on values with types.
//!
//! Names of values are numbers by now, one count a function; places are bytes of the text.

use std::collections::BTreeMap;
use std::sync::Arc;

use tensor::{DType, Tensor};

/// A program: its functions by name.
#[derive(Debug, Default)]
pub(crate) struct Program {
    /// The module's name.
    pub(crate) name: String,
    pub(crate) functions: Vec<Function>,
    /// Places among the functions.
    pub(crate) by_name: BTreeMap<String, usize>,
    /// Arrangements of devices by name, each as its text: `<["x"=2, "y"=4]>`.
    pub(crate) meshes: BTreeMap<String, String>,
    /// Where each line begins, to tell places.
    pub(crate) lines: Vec<usize>,
}

/// A function.
#[derive(Debug)]
pub(crate) struct Function {
    pub(crate) name: String,
    pub(crate) is_private: bool,
    pub(crate) parameters: Vec<usize>,
    /// Of each parameter, as far as they are given.
    pub(crate) parameter_attributes: Vec<Attributes>,
    pub(crate) results: Vec<ValueType>,
    pub(crate) result_attributes: Vec<Attributes>,
    pub(crate) body: Block,
    /// The types of its values, by number.
    pub(crate) values: Vec<ValueType>,
    /// What the text calls its parameters.
    pub(crate) parameter_names: Vec<String>,
    pub(crate) place: usize,
}

/// Operations with parameters; the last one returns.
#[derive(Debug, Default)]
pub(crate) struct Block {
    pub(crate) parameters: Vec<usize>,
    pub(crate) operations: Vec<Operation>,
}

/// Attributes by name.
pub(crate) type Attributes = Vec<(String, Attribute)>;

/// An operation.
#[derive(Debug)]
pub(crate) struct Operation {
    pub(crate) name: String,
    pub(crate) operands: Vec<usize>,
    pub(crate) results: Vec<usize>,
    pub(crate) attributes: Attributes,
    pub(crate) regions: Vec<Block>,
    pub(crate) place: usize,
    /// Where it comes from, as the text has it.
    pub(crate) location: Option<String>,
}

/// The type of a value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum ValueType {
    Tensor(TensorType),
    Tuple(Vec<ValueType>),
    Token,
    Function(Vec<ValueType>, Vec<ValueType>),
    /// A type of another kind, by its text.
    Other(String),
}

/// The type of a tensor.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct TensorType {
    /// None for an extent that the program leaves free.
    pub(crate) shape: Vec<Option<usize>>,
    pub(crate) element: ElementType,
}

/// What an element is.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum ElementType {
    Plain(DType),
    /// A pair of numbers of this type.
    Complex(DType),
    Quantised(Arc<Quantisation>),
    /// A type that there is no row for, by its text.
    Other(String),
}

/// Integers that stand for numbers: `scale * (integer - zero_point)`.
#[derive(Debug, PartialEq)]
pub(crate) struct Quantisation {
    pub(crate) storage: DType,
    pub(crate) expressed: DType,
    /// The least and the greatest integer.
    pub(crate) range: (i64, i64),
    /// The axis along which there are several scales.
    pub(crate) axis: Option<usize>,
    pub(crate) scales: Vec<f64>,
    pub(crate) zero_points: Vec<i64>,
}

/// What an operation is told besides its operands.
#[derive(Clone, Debug)]
pub(crate) enum Attribute {
    Unit,
    Bool(bool),
    Integer(i128),
    Float(f64),
    Text(String),
    /// A function by its name.
    Symbol(String),
    List(Vec<Attribute>),
    Record(Attributes),
    Type(ValueType),
    Elements(Arc<Elements>),
    /// A word of a list of choices.
    Word(String),
}

/// The elements of a constant.
#[derive(Debug)]
pub(crate) struct Elements {
    pub(crate) element: ElementType,
    pub(crate) shape: Vec<usize>,
    /// The numbers, or the real parts; of a constant of one number throughout that alone, a scalar.
    pub(crate) values: Tensor,
    /// The imaginary parts, of complex numbers.
    pub(crate) imaginary: Option<Tensor>,
}

/// The most integers that an attribute lists by one number for all.
const MOST_INTEGERS: usize = 1 << 16;

impl Elements {
    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        self.shape.iter().product()
    }
}

impl Attribute {
    pub(crate) fn of<'a>(attributes: &'a Attributes, name: &str) -> Option<&'a Attribute> {
        attributes.iter().find(|(other, _)| other == name).map(|(_, attribute)| attribute)
    }

    /// Integers: a list of them, of lists of them in order, or the elements of a constant in
    /// row-major order.
    pub(crate) fn integers(&self) -> Option<Vec<i64>> {
        match self {
            Attribute::List(list) => {
                let mut integers = Vec::new();
                for attribute in list {
                    match attribute {
                        Attribute::List(_) => integers.extend(attribute.integers()?),
                        one => integers.push(one.integer()?),
                    }
                }
                Some(integers)
            }
            Attribute::Elements(elements) => {
                let (values, count) = (&elements.values, elements.count());
                if values.dtype().is_float() || count > MOST_INTEGERS {
                    return None;
                }
                let numbers: Vec<i64> = values.scalars().map(|it| it.as_i64()).collect();
                match numbers[..] {
                    [one] => Some(vec![one; count]),
                    _ => Some(numbers),
                }
            }
            _ => None,
        }
    }

    pub(crate) fn integer(&self) -> Option<i64> {
        match self {
            Attribute::Integer(number) => i64::try_from(*number).ok(),
            Attribute::Bool(flag) => Some(i64::from(*flag)),
            Attribute::Elements(elements) if elements.values.len() == 1 => {
                Some(elements.values.get_scalar(0).as_i64())
            }
            _ => None,
        }
    }

    pub(crate) fn flag(&self) -> Option<bool> {
        match self {
            Attribute::Unit => Some(true),
            Attribute::Bool(flag) => Some(*flag),
            Attribute::Integer(number) => Some(*number != 0),
            Attribute::Elements(elements) if elements.values.len() == 1 => {
                Some(elements.values.get_scalar(0).as_bool())
            }
            _ => None,
        }
    }

    pub(crate) fn word(&self) -> Option<&str> {
        match self {
            Attribute::Word(text) | Attribute::Text(text) | Attribute::Symbol(text) => Some(text),
            _ => None,
        }
    }
}

impl Program {
    /// The number of the line in which a place is, from 1 on.
    pub(crate) fn line(&self, at: usize) -> usize {
        self.lines.partition_point(|&begin| begin <= at).max(1)
    }

    /// A place of the text in words.
    pub(crate) fn place(&self, at: usize) -> String {
        let line = self.line(at);
        let begin = self.lines.get(line - 1).copied().unwrap_or(0);
        format!("line {line}, column {}", at.saturating_sub(begin) + 1)
    }

    pub(crate) fn function(&self, name: &str) -> Option<&Function> {
        self.by_name.get(name).map(|&number| &self.functions[number])
    }

    /// All operations, those of regions included.
    pub(crate) fn operations(&self) -> Vec<&Operation> {
        let mut found = Vec::new();
        let mut blocks: Vec<&Block> = self.functions.iter().map(|it| &it.body).collect();
        while let Some(block) = blocks.pop() {
            for operation in &block.operations {
                found.push(operation);
                blocks.extend(&operation.regions);
            }
        }
        found
    }
}
