//! A node as its operator's lowering sees it: arguments by place or name, and what results are to
//! be.

use base::{Diagnostic, codes};
use front::{
    Accepted, Graph, Known, Operand, normalize_axes, normalize_axis, shape_error, unsupported,
};
use sym::{Expr, Range};
use tensor::{DType, Scalar};

use crate::importer::{Values, value_of};
use crate::promotion::{Rank, promoted};
use crate::trace::{Declared, TraceArgument, TraceNode};

/// What a lowering gives: the values of the node's results.
pub(crate) type Lowered = Accepted<Vec<Operand>>;

/// A node about to be lowered. Arguments go by their place in the operator's signature and by the
/// name that they have there, since a trace may use either.
pub(crate) struct Node<'a> {
    pub(crate) call: &'a TraceNode,
    pub(crate) values: &'a Values,
    /// The range of the size that the node is to define, if any; the trace does not know the
    /// results' shapes then.
    pub(crate) defined: Option<Range>,
}

impl Node<'_> {
    /// An argument, unless it is left out or `none`.
    pub(crate) fn argument(&self, place: usize, name: &str) -> Option<&TraceArgument> {
        let by_name = || self.call.named.iter().find(|(own, _)| own == name).map(|(_, it)| it);
        let found = self.call.arguments.get(place).or_else(by_name)?;
        (*found != TraceArgument::None).then_some(found)
    }

    fn refused(&self, name: &str, wanted: &str) -> Diagnostic {
        Diagnostic::error(codes::BAD_ATTRIBUTE, format!("argument `{name}` cannot be used"))
            .because(format!("it is not {wanted}"))
            .remedy("leave the node to PyTorch")
    }

    // --- values ---

    /// A tensor that must be given.
    pub(crate) fn tensor(&self, place: usize, name: &str) -> Accepted<Operand> {
        self.optional_tensor(place, name)?.ok_or_else(|| self.refused(name, "given"))
    }

    /// How the elements of the tensor at a place lie in memory, where that is not row-major.
    pub(crate) fn strides(&self, place: usize) -> Option<Vec<i64>> {
        match self.call.arguments.get(place) {
            Some(TraceArgument::Value(name)) => self.values.strides(name).map(<[i64]>::to_vec),
            _ => None,
        }
    }

    /// A tensor that may be left out.
    pub(crate) fn optional_tensor(&self, place: usize, name: &str) -> Accepted<Option<Operand>> {
        match self.argument(place, name) {
            None => Ok(None),
            Some(TraceArgument::Value(value)) => value_of(self.values, value).map(Some),
            Some(_) => Err(self.refused(name, "a tensor")),
        }
    }

    /// A list of tensors, some of which may be left out.
    pub(crate) fn tensors(&self, place: usize, name: &str) -> Accepted<Vec<Option<Operand>>> {
        let read = |it: &TraceArgument| match it {
            TraceArgument::None => Ok(None),
            TraceArgument::Value(value) => value_of(self.values, value).map(Some),
            _ => Err(self.refused(name, "a list of tensors")),
        };
        match self.argument(place, name) {
            Some(TraceArgument::List(items)) => items.iter().map(read).collect(),
            // All results of a node.
            Some(TraceArgument::Value(value)) => {
                Ok(self.values.get(value).cloned().unwrap_or_default())
            }
            _ => Err(self.refused(name, "a list of tensors")),
        }
    }

    /// A tensor or a number, as a value of its own type; numbers as Python has them.
    pub(crate) fn operand(&self, graph: &Graph, place: usize, name: &str) -> Accepted<Operand> {
        Ok(match self.argument(place, name) {
            Some(TraceArgument::Value(value)) => value_of(self.values, value)?,
            Some(TraceArgument::Float(number)) => graph.number(DType::F64, *number),
            Some(TraceArgument::Integer(number)) => graph.dimension(number.clone()),
            Some(TraceArgument::Bool(flag)) => Operand::of_scalar(Scalar::bool(*flag)),
            _ => return Err(self.refused(name, "a tensor or a number")),
        })
    }

    /// As [`Self::operand`], in an element type.
    pub(crate) fn operand_as(
        &self,
        graph: &mut Graph,
        (place, name): (usize, &str),
        dtype: DType,
    ) -> Accepted<Operand> {
        let value = self.operand(graph, place, name)?;
        graph.cast(&value, dtype)
    }

    /// The element type in which operands are computed together.
    pub(crate) fn common_dtype(&self, operands: &[(usize, &str)]) -> Accepted<DType> {
        let mut ranks = Vec::new();
        for &(place, name) in operands {
            ranks.push(match self.argument(place, name) {
                Some(TraceArgument::Value(value)) => {
                    let value = value_of(self.values, value)?;
                    let rank = if value.rank() == 0 { Rank::Scalar } else { Rank::Tensor };
                    (rank, value.dtype())
                }
                Some(TraceArgument::Float(_)) => (Rank::Number, DType::F32),
                Some(TraceArgument::Integer(_)) => (Rank::Number, DType::I64),
                Some(TraceArgument::Bool(_)) => (Rank::Number, DType::Bool),
                _ => return Err(self.refused(name, "a tensor or a number")),
            });
        }
        promoted(&ranks).ok_or_else(|| shape_error("there are no operands"))
    }

    // --- results ---

    /// What the trace says of a result.
    pub(crate) fn result(&self, number: usize) -> Accepted<&Declared> {
        if self.defined.is_some() {
            return Err(unsupported("a result whose size data decide"));
        }
        self.declared(number)
    }

    fn declared(&self, number: usize) -> Accepted<&Declared> {
        let found = self.call.types.get(number).and_then(Option::as_ref);
        found.ok_or_else(|| shape_error(format!("the trace has no result {number}")))
    }

    /// The shape of the first result.
    pub(crate) fn shape(&self) -> Accepted<&[Expr]> {
        self.result(0).map(|declared| &declared.shape[..])
    }

    /// The element type of the first result.
    pub(crate) fn dtype(&self) -> Accepted<DType> {
        self.declared(0).map(|declared| declared.dtype)
    }

    // --- numbers ---

    /// An integer over symbols, where it is given.
    pub(crate) fn expr(&self, place: usize, name: &str) -> Accepted<Option<Expr>> {
        match self.argument(place, name) {
            None => Ok(None),
            Some(TraceArgument::Integer(number)) => Ok(Some(number.clone())),
            Some(TraceArgument::Bool(flag)) => Ok(Some(Expr::from(i64::from(*flag)))),
            Some(TraceArgument::Value(_)) => {
                let value = self.tensor(place, name)?;
                let known = value.known().and_then(|known| known.first()).and_then(Known::expr);
                known.map(Some).ok_or_else(|| self.refused(name, "known"))
            }
            Some(_) => Err(self.refused(name, "an integer")),
        }
    }

    /// An integer, or its default.
    pub(crate) fn int(&self, place: usize, name: &str, default: i64) -> Accepted<i64> {
        match self.expr(place, name)? {
            None => Ok(default),
            Some(number) => number.as_constant().ok_or_else(|| self.refused(name, "a constant")),
        }
    }

    /// Integers over symbols, where they are given; one integer counts as a list.
    pub(crate) fn exprs(&self, place: usize, name: &str) -> Accepted<Option<Vec<Expr>>> {
        let read = |it: &TraceArgument| match it {
            TraceArgument::Integer(number) => Ok(number.clone()),
            _ => Err(self.refused(name, "a list of integers")),
        };
        match self.argument(place, name) {
            None => Ok(None),
            Some(TraceArgument::List(items)) => {
                items.iter().map(read).collect::<Accepted<_>>().map(Some)
            }
            Some(_) => Ok(self.expr(place, name)?.map(|number| vec![number])),
        }
    }

    /// Integers, where they are given.
    pub(crate) fn ints(&self, place: usize, name: &str) -> Accepted<Option<Vec<i64>>> {
        let Some(exprs) = self.exprs(place, name)? else { return Ok(None) };
        let constant = |it: &Expr| it.as_constant().ok_or_else(|| self.refused(name, "constant"));
        exprs.iter().map(constant).collect::<Accepted<_>>().map(Some)
    }

    /// An entry an axis: as many as given, or one for all; the default where none is given.
    pub(crate) fn entries(
        &self,
        (place, name): (usize, &str),
        count: usize,
        default: i64,
    ) -> Accepted<Vec<i64>> {
        match self.ints(place, name)? {
            None => Ok(vec![default; count]),
            Some(given) if given.is_empty() => Ok(vec![default; count]),
            Some(given) if given.len() == count => Ok(given),
            Some(given) if given.len() == 1 => Ok(vec![given[0]; count]),
            Some(_) => Err(self.refused(name, &format!("{count} integers"))),
        }
    }

    /// A flag, or its default.
    pub(crate) fn flag(&self, place: usize, name: &str, default: bool) -> Accepted<bool> {
        match self.argument(place, name) {
            None => Ok(default),
            Some(TraceArgument::Bool(flag)) => Ok(*flag),
            Some(_) => Ok(self.int(place, name, 0)? != 0),
        }
    }

    /// A number, where it is given.
    pub(crate) fn number(&self, place: usize, name: &str) -> Accepted<Option<f64>> {
        match self.argument(place, name) {
            None => Ok(None),
            Some(TraceArgument::Float(number)) => Ok(Some(*number)),
            Some(_) => Ok(Some(self.int(place, name, 0)? as f64)),
        }
    }

    /// One of `count` numbers that are given one by one from a place on, or there as a list: the
    /// overload `vec` of an operator has the list, the others have numbers; none may be given.
    pub(crate) fn factor(
        &self,
        place: usize,
        number: usize,
        count: usize,
    ) -> Accepted<Option<f64>> {
        let wrong = || self.refused("scale_factors", &format!("{count} numbers"));
        let read = |it: &TraceArgument| match it {
            TraceArgument::None => Ok(None),
            TraceArgument::Float(factor) => Ok(Some(*factor)),
            TraceArgument::Integer(factor) => {
                factor.as_constant().map(|factor| Some(factor as f64)).ok_or_else(wrong)
            }
            _ => Err(wrong()),
        };
        // One by one they go by place alone.
        let is_scale = |(name, it): &(String, TraceArgument)| {
            name.starts_with("scales") && *it != TraceArgument::None
        };
        if self.call.named.iter().any(is_scale) {
            return Err(wrong());
        }
        match self.argument(place, "scale_factors") {
            Some(TraceArgument::List(items)) if items.len() == count => read(&items[number]),
            Some(TraceArgument::List(items)) if !items.is_empty() => Err(wrong()),
            _ => self.call.arguments.get(place + number).map_or(Ok(None), read),
        }
    }

    /// A word, or its default.
    pub(crate) fn text(&self, place: usize, name: &str, default: &'static str) -> Accepted<&str> {
        match self.argument(place, name) {
            None => Ok(default),
            Some(TraceArgument::Text(text)) => Ok(text),
            Some(_) => Err(self.refused(name, "a string")),
        }
    }

    // --- axes ---

    /// An axis, counted from the front; of a tensor without axes 0 and -1 are none.
    pub(crate) fn axis(
        &self,
        (place, name): (usize, &str),
        default: i64,
        rank: usize,
    ) -> Accepted<usize> {
        normalize_axis(self.int(place, name, default)?, rank)
    }

    /// Axes counted from the front; all where none are given.
    pub(crate) fn axes(&self, place: usize, name: &str, rank: usize) -> Accepted<Vec<usize>> {
        match self.ints(place, name)? {
            Some(axes) if rank == 0 && axes.iter().all(|axis| matches!(axis, 0 | -1)) => {
                Ok(Vec::new())
            }
            Some(axes) if !axes.is_empty() => normalize_axes(&axes, rank),
            _ => Ok((0..rank).collect()),
        }
    }
}
