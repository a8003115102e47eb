//! A node as its operator's lowering sees it: its inputs, what they stand for, its options.

use base::{Diagnostic, codes};
use front::{Accepted, Graph, Number, Operand, Table, normalize_axes, normalize_axis, unsupported};
use tensor::DType;

use crate::schema::{OperatorEntry, Schema, SubGraph, TensorEntry};

/// What a lowering gives: the values of the node's results.
pub(crate) type Lowered = Accepted<Vec<Operand>>;

/// Integers as numbers: `scale * (integer - zero_point)`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Affine {
    pub(crate) scale: f32,
    pub(crate) zero_point: i32,
}

impl Affine {
    /// The scale in the type in which scales are multiplied.
    pub(crate) fn wide(self) -> f64 {
        f64::from(self.scale)
    }
}

/// A node about to be lowered.
pub(crate) struct Node<'a> {
    pub(crate) schema: &'a Schema,
    pub(crate) graph: &'a SubGraph,
    pub(crate) entry: &'a OperatorEntry,
    /// The values of the graph's tensors, as far as they are computed.
    pub(crate) values: &'a [Option<Operand>],
}

impl<'a> Node<'a> {
    // --- values ---

    /// How many inputs it has, those that are left out included.
    pub(crate) fn count(&self) -> usize {
        self.entry.inputs.len()
    }

    /// An input that may be left out.
    pub(crate) fn optional(&self, number: usize) -> Accepted<Option<Operand>> {
        let Some(tensor) = self.entry.inputs.get(number).copied().flatten() else {
            return Ok(None);
        };
        match &self.values[tensor] {
            Some(value) => Ok(Some(value.clone())),
            None => {
                let name = &self.graph.tensors[tensor].name;
                let message = format!("tensor {tensor} (\"{name}\") has no value");
                Err(Diagnostic::error(codes::UNDEFINED_NAME, message)
                    .because("no operator before this one computes it, and it has no data")
                    .remedy("convert the model anew"))
            }
        }
    }

    /// An input that must be given.
    pub(crate) fn input(&self, number: usize) -> Accepted<Operand> {
        self.optional(number)?.ok_or_else(|| self.wrong_arity(format!("input {number} is missing")))
    }

    /// All inputs.
    pub(crate) fn inputs(&self) -> Accepted<Vec<Operand>> {
        (0..self.count()).map(|number| self.input(number)).collect()
    }

    fn wrong_arity(&self, reason: String) -> Diagnostic {
        let message = "an operator has too few inputs or outputs";
        Diagnostic::error(codes::WRONG_ARITY, message)
            .because(reason)
            .remedy("convert the model anew")
    }

    /// What the file says of an input.
    pub(crate) fn tensor(&self, number: usize) -> Accepted<&'a TensorEntry> {
        let tensor = self.entry.inputs.get(number).copied().flatten();
        let tensor =
            tensor.ok_or_else(|| self.wrong_arity(format!("input {number} is missing")))?;
        Ok(&self.graph.tensors[tensor])
    }

    /// What the file says of an output.
    pub(crate) fn output(&self, number: usize) -> Accepted<&'a TensorEntry> {
        let tensor = self.entry.outputs.get(number);
        let tensor =
            tensor.ok_or_else(|| self.wrong_arity(format!("output {number} is missing")))?;
        Ok(&self.graph.tensors[*tensor])
    }

    /// The element type of the first output.
    pub(crate) fn dtype(&self) -> Accepted<DType> {
        self.output(0)?.dtype()
    }

    // --- quantisation ---

    /// Whether an input's integers stand for other numbers.
    pub(crate) fn is_quantised(&self, number: usize) -> Accepted<bool> {
        let tensor = self.tensor(number)?;
        Ok(tensor.is_quantised()? && tensor.dtype()? != DType::I32)
    }

    /// What the integers of an input stand for, which has one scale.
    pub(crate) fn affine(&self, number: usize) -> Accepted<Affine> {
        self.tensor(number)?.affine()
    }

    /// As [`Self::affine`], of the first output.
    pub(crate) fn result_affine(&self) -> Accepted<Affine> {
        self.output(0)?.affine()
    }

    // --- options ---

    /// The table of options, if the file has one.
    pub(crate) fn options(&self) -> Accepted<Options<'a>> {
        let file = &self.schema.file;
        let table = self.entry.options.map(|at| Table::at(file, at)).transpose()?;
        Ok(Options { table })
    }

    /// Integers that an input must have as constants.
    pub(crate) fn integers(&self, number: usize, name: &str) -> Accepted<Vec<i64>> {
        let value = self.input(number)?;
        let numbers = value.numbers().filter(|_| value.dtype().is_integer());
        let numbers = numbers.ok_or_else(|| unsupported(format!("`{name}` is no constant")))?;
        Ok(numbers.into_iter().map(tensor::Scalar::as_i64).collect())
    }

    /// One integer that an input must have as a constant.
    pub(crate) fn integer(&self, number: usize, name: &str) -> Accepted<i64> {
        match self.integers(number, name)?[..] {
            [one] => Ok(one),
            _ => Err(unsupported(format!("`{name}` is not one number"))),
        }
    }

    /// Axes that an input has, counted from the front, each once.
    pub(crate) fn axes(&self, number: usize, rank: usize) -> Accepted<Vec<usize>> {
        let mut axes = self.integers(number, "axes")?;
        axes.iter_mut().for_each(|axis| *axis += if *axis < 0 { rank as i64 } else { 0 });
        axes.sort_unstable();
        axes.dedup();
        normalize_axes(&axes, rank)
    }

    /// An axis of the options.
    pub(crate) fn axis(&self, axis: i32, rank: usize) -> Accepted<usize> {
        normalize_axis(i64::from(axis), rank)
    }

    /// A value of the type that the file says of an output.
    pub(crate) fn as_declared(&self, graph: &mut Graph, value: &Operand) -> Accepted<Operand> {
        graph.cast(value, self.dtype()?)
    }
}

/// The options of an operator, by the numbers of their fields.
#[derive(Clone, Copy)]
pub(crate) struct Options<'a> {
    table: Option<Table<'a>>,
}

impl Options<'_> {
    /// A number, or its default.
    pub(crate) fn number<T: Number>(&self, field: usize, default: T) -> Accepted<T> {
        self.table.map_or(Ok(default), |table| table.number(field, default))
    }

    /// An integer; 0 by default.
    pub(crate) fn int(&self, field: usize) -> Accepted<i32> {
        self.number(field, 0)
    }

    /// A flag.
    pub(crate) fn flag(&self, field: usize, default: bool) -> Accepted<bool> {
        self.table.map_or(Ok(default), |table| table.flag(field, default))
    }

    /// Integers.
    pub(crate) fn ints(&self, field: usize) -> Accepted<Vec<i32>> {
        self.table.map_or(Ok(Vec::new()), |table| table.numbers(field))
    }

    /// What follows the operator's own arithmetic.
    pub(crate) fn activation(&self, field: usize) -> Accepted<Activation> {
        Ok(match self.number(field, 0_i8)? {
            0 => Activation::None,
            1 => Activation::Relu,
            2 => Activation::ReluN1To1,
            3 => Activation::Relu6,
            4 => Activation::Tanh,
            other => {
                let name =
                    if other == 5 { "SIGN_BIT".to_owned() } else { format!("number {other}") };
                return Err(unsupported(format!("its fused activation is {name}")));
            }
        })
    }
}

/// A function that follows an operator's own arithmetic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Activation {
    None,
    Relu,
    ReluN1To1,
    Relu6,
    Tanh,
}

impl Activation {
    /// The least and the greatest number that it lets through, where it is no more than that.
    pub(crate) fn range(self) -> Option<(Option<f32>, Option<f32>)> {
        match self {
            Activation::None => Some((None, None)),
            Activation::Relu => Some((Some(0.0), None)),
            Activation::ReluN1To1 => Some((Some(-1.0), Some(1.0))),
            Activation::Relu6 => Some((Some(0.0), Some(6.0))),
            Activation::Tanh => None,
        }
    }

    /// The function of a value that is not quantised.
    pub(crate) fn of(self, graph: &mut Graph, value: &Operand) -> Accepted<Operand> {
        let Some((low, high)) = self.range() else { return graph.tanh(value) };
        let mut value = value.clone();
        if let Some(low) = low {
            let low = graph.number(value.dtype(), f64::from(low));
            value = graph.max(&value, &low)?;
        }
        if let Some(high) = high {
            let high = graph.number(value.dtype(), f64::from(high));
            value = graph.min(&value, &high)?;
        }
        Ok(value)
    }

    /// The least and the greatest integer of a type that it lets through.
    pub(crate) fn integers(self, affine: Affine, dtype: DType) -> Accepted<(i32, i32)> {
        let Some((low, high)) = self.range() else {
            return Err(unsupported("its fused activation TANH of integers"));
        };
        let (least, most) = integer_range(dtype);
        let of = |bound: f32| {
            let steps = (bound / affine.scale).round();
            affine.zero_point.saturating_add(steps as i32)
        };
        Ok((
            low.map_or(least, |low| of(low).max(least)),
            high.map_or(most, |high| of(high).min(most)),
        ))
    }
}

/// The least and the greatest integer of a type of at most 32 bits.
pub(crate) fn integer_range(dtype: DType) -> (i32, i32) {
    let (low, high) = dtype.integer_range().unwrap_or((0, 0));
    (i32::try_from(low).unwrap_or(i32::MIN), i32::try_from(high).unwrap_or(i32::MAX))
}

impl TensorEntry {
    /// Whether its integers stand for other numbers.
    pub(crate) fn is_quantised(&self) -> Accepted<bool> {
        Ok(self.dtype()?.is_integer() && !self.quantisation.scales.is_empty())
    }

    /// What its integers stand for, which has one scale.
    pub(crate) fn affine(&self) -> Accepted<Affine> {
        let scales = self.scales()?;
        let zero_points = self.zero_points()?;
        match (scales, &zero_points[..]) {
            ([scale], [zero_point]) => Ok(Affine { scale: *scale, zero_point: *zero_point }),
            _ => Err(self.refused("it has scales along an axis, where one is needed")),
        }
    }

    /// The scales, all of them positive numbers.
    pub(crate) fn scales(&self) -> Accepted<&[f32]> {
        let scales = &self.quantisation.scales;
        if self.quantisation.is_custom {
            return Err(self.refused("how it is quantised is none of the schema's own ways"));
        }
        if scales.is_empty() {
            return Err(self.refused("it has no scale"));
        }
        match scales.iter().find(|scale| !(scale.is_finite() && **scale > 0.0)) {
            Some(scale) => Err(self.refused(format!("its scale is {scale}"))),
            None => Ok(scales),
        }
    }

    /// The zero points, as many as scales, or one.
    pub(crate) fn zero_points(&self) -> Accepted<Vec<i32>> {
        let own = &self.quantisation.zero_points;
        let (low, high) = integer_range(self.dtype()?);
        let within = |zero: &i64| {
            let found = i32::try_from(*zero).ok().filter(|zero| (low..=high).contains(zero));
            found.ok_or_else(|| self.refused(format!("its zero point is {zero}")))
        };
        if own.is_empty() {
            return Ok(vec![0]);
        }
        if own.len() != 1 && own.len() != self.quantisation.scales.len() {
            return Err(self.refused("it has not as many zero points as scales"));
        }
        own.iter().map(within).collect()
    }

    /// The refusal of what its integers stand for.
    #[cold]
    #[inline(never)]
    pub(crate) fn refused(&self, reason: impl Into<String>) -> Diagnostic {
        let message = format!("tensor \"{}\" is not quantised as the operator needs it", self.name);
        Diagnostic::error(codes::UNSUPPORTED_TYPE, message)
            .because(reason)
            .remedy("convert the model anew, with other types or a representative data set")
    }
}
