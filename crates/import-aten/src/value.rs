//! What a name of a trace stands for: a tensor, or the two parts of complex numbers.
//!
//! In memory the parts of complex numbers lie side by side, as a last axis of two elements: inputs,
//! weights and results of a trace have them so.

use front::{Accepted, Complex, Graph, Operand, unsupported};
use sym::Expr;
use tensor::DType;

/// A value.
#[derive(Clone, Debug)]
pub(crate) enum Value {
    Real(Operand),
    Complex(Complex),
}

/// The real or the imaginary part of complex numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Real,
    Imaginary,
}

impl From<Operand> for Value {
    fn from(value: Operand) -> Value {
        Value::Real(value)
    }
}

impl From<Complex> for Value {
    fn from(value: Complex) -> Value {
        Value::Complex(value)
    }
}

impl Value {
    /// A tensor of real numbers.
    pub(crate) fn real(&self) -> Accepted<&Operand> {
        match self {
            Value::Real(value) => Ok(value),
            Value::Complex(_) => Err(unsupported("complex numbers here")),
        }
    }

    /// A tensor of complex numbers; real ones have no imaginary part.
    pub(crate) fn complex(&self, graph: &mut Graph) -> Accepted<Complex> {
        match self {
            Value::Real(value) => graph.complex_of_real(value),
            Value::Complex(value) => Ok(value.clone()),
        }
    }

    pub(crate) fn is_complex(&self) -> bool {
        matches!(self, Value::Complex(_))
    }

    /// The real tensors that it is made of.
    pub(crate) fn parts(&self) -> Vec<&Operand> {
        match self {
            Value::Real(value) => vec![value],
            Value::Complex(value) => vec![&value.re, &value.im],
        }
    }

    pub(crate) fn shape(&self) -> &[Expr] {
        self.parts()[0].shape()
    }

    /// The element type; of complex numbers that of their parts.
    pub(crate) fn dtype(&self) -> DType {
        self.parts()[0].dtype()
    }

    /// What a change makes of it, or of both parts.
    pub(crate) fn each(
        &self,
        mut change: impl FnMut(&Operand) -> Accepted<Operand>,
    ) -> Accepted<Value> {
        Ok(match self {
            Value::Real(value) => change(value)?.into(),
            Value::Complex(value) => value.each(change)?.into(),
        })
    }

    /// The tensor that lies in memory for it.
    pub(crate) fn stored(&self, graph: &mut Graph) -> Accepted<Operand> {
        match self {
            Value::Real(value) => Ok(value.clone()),
            Value::Complex(value) => side_by_side(graph, value),
        }
    }
}

/// The complex numbers whose parts lie side by side along the last axis.
pub(crate) fn of_pairs(graph: &mut Graph, pairs: &Operand) -> Accepted<Complex> {
    let (last, shape) = match pairs.shape().split_last() {
        Some((two, shape)) if *two == Expr::from(2) => (shape.len(), shape.to_vec()),
        _ => return Err(front::shape_error("complex numbers are pairs along the last axis")),
    };
    let mut part = |at: i64| {
        let part = graph.slice_axis(pairs, last, Expr::from(at), 1, Expr::ONE)?;
        graph.reshape(&part, &shape)
    };
    Ok(Complex { re: part(0)?, im: part(1)? })
}

/// The parts of complex numbers side by side along a last axis.
pub(crate) fn side_by_side(graph: &mut Graph, value: &Complex) -> Accepted<Operand> {
    let shape = [value.re.shape(), &[Expr::ONE]].concat();
    let parts = value.each(|part| graph.reshape(part, &shape))?;
    graph.concat(shape.len() - 1, &[parts.re, parts.im])
}
