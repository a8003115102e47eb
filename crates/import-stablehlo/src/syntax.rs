//! What a program says, as plain data: functions of operations on values with types.
//!
//! Names of values are numbers by now, one count a function; places are bytes of the text, or
//! numbers of operations.

use std::collections::BTreeMap;
use std::sync::Arc;

use tensor::{DType, Scalar, Tensor};

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
    pub(crate) places: Places,
    /// Who wrote it, with a version, where that is told.
    pub(crate) producer: String,
}

/// What places of operations count.
#[derive(Debug)]
pub(crate) enum Places {
    /// Bytes of a text, whose lines begin here.
    Lines(Vec<usize>),
    /// Operations of a file, from 1 on.
    Operations,
}

impl Default for Places {
    fn default() -> Places {
        Places::Lines(Vec::new())
    }
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
    /// Keeps an arrangement of devices that has these attributes.
    pub(crate) fn add_mesh(&mut self, attributes: &Attributes) {
        let word = |name: &str| Attribute::of(attributes, name).and_then(Attribute::word);
        if let (Some(mesh), Some(name)) = (word("mesh"), word("sym_name")) {
            self.meshes.insert(name.to_owned(), mesh.to_owned());
        }
    }

    /// The line in which a place is, from 1 on, or the operation.
    pub(crate) fn line(&self, at: usize) -> String {
        match &self.places {
            Places::Lines(lines) => format!("line {}", line_of(lines, at)),
            Places::Operations => format!("operation {at}"),
        }
    }

    /// A place of the program in words.
    pub(crate) fn place(&self, at: usize) -> String {
        match &self.places {
            Places::Lines(lines) => {
                let line = line_of(lines, at);
                let begin = lines.get(line - 1).copied().unwrap_or(0);
                format!("line {line}, column {}", at.saturating_sub(begin) + 1)
            }
            Places::Operations => self.line(at),
        }
    }

    /// Takes a function up.
    ///
    /// # Errors
    /// What is wrong, as half a sentence.
    pub(crate) fn push(&mut self, function: Function) -> Result<(), String> {
        let number = self.functions.len();
        if self.by_name.insert(function.name.clone(), number).is_some() {
            return Err(format!("there are two functions `{}`", function.name));
        }
        self.functions.push(function);
        Ok(())
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

fn line_of(lines: &[usize], at: usize) -> usize {
    lines.partition_point(|&begin| begin <= at).max(1)
}

impl Function {
    /// A function of a body and attributes as the generic form has them. Its values have no types
    /// yet.
    ///
    /// # Errors
    /// What is wrong, as half a sentence.
    pub(crate) fn of_attributes(
        attributes: &Attributes,
        body: Block,
        place: usize,
    ) -> Result<Function, String> {
        let text = |name: &str| match Attribute::of(attributes, name) {
            Some(Attribute::Text(text) | Attribute::Word(text)) => text.clone(),
            _ => String::new(),
        };
        let results = match Attribute::of(attributes, "function_type") {
            Some(Attribute::Type(ValueType::Function(_, results))) => results.clone(),
            _ => return Err("a function has no type".to_owned()),
        };
        let record = |attribute: &Attribute| match attribute {
            Attribute::Record(record) => record.clone(),
            _ => Attributes::new(),
        };
        let records = |name: &str| match Attribute::of(attributes, name) {
            Some(Attribute::List(list)) => list.iter().map(record).collect(),
            _ => Vec::new(),
        };
        Ok(Function {
            name: text("sym_name"),
            is_private: text("sym_visibility") == "private",
            parameter_names: (0..body.parameters.len()).map(|it| format!("arg{it}")).collect(),
            parameters: body.parameters.clone(),
            parameter_attributes: records("arg_attrs"),
            results,
            result_attributes: records("res_attrs"),
            body,
            values: Vec::new(),
            place,
        })
    }
}

impl Quantisation {
    /// Itself, if it is one.
    ///
    /// # Errors
    /// What is wrong, as half a sentence.
    pub(crate) fn checked(self) -> Result<Quantisation, String> {
        if !self.storage.is_integer() {
            return Err(format!("quantised numbers are stored as {}", self.storage));
        }
        if !self.expressed.is_float() {
            return Err(format!("quantised numbers stand for {}", self.expressed));
        }
        if let Some(scale) = self.scales.iter().find(|it| !(it.is_finite() && **it > 0.0)) {
            return Err(format!("`{scale}` is no scale"));
        }
        let least = Scalar::from_bits(self.expressed, 1).as_f64();
        let is_kept = |scale: &f64| {
            *scale >= least && Scalar::from_f64(self.expressed, *scale).as_f64().is_finite()
        };
        if let Some(scale) = self.scales.iter().find(|scale| !is_kept(scale)) {
            return Err(format!("`{scale}` is no scale of {}", self.expressed));
        }
        let range = self.range.0..=self.range.1;
        if let Some(point) = self.zero_points.iter().find(|point| !range.contains(point)) {
            return Err(format!("the zero point {point} is not within the range"));
        }
        if self.scales.is_empty() || self.scales.len() != self.zero_points.len() {
            return Err("quantised numbers have as many scales as zero points".to_owned());
        }
        Ok(self)
    }
}
