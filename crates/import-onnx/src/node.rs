//! One node as its operator's lowering sees it: inputs, attributes, version; and ways to refuse.

use std::cell::Cell;
use std::rc::Rc;

use base::{Diagnostic, codes};
pub(crate) use front::unsupported;
use front::{
    Accepted, FactKind, Graph, KNOWN_ELEMENTS, Known, Operand, normalize_axes, normalize_axis,
    shape_error, type_error,
};
use sym::Expr;
use tensor::{DType, Scalar, Tensor};

use crate::external::ExternalData;
use crate::proto::{AttributeProto, GraphProto, NodeProto, attribute_type as kind};
use crate::tensors;

/// What a lowering gives: the values of the node's first outputs.
pub(crate) type Lowered = Accepted<Vec<Operand>>;

/// A node about to be lowered.
pub(crate) struct Node<'a> {
    /// The node in the file, with the attributes of its function's caller filled in.
    pub(crate) proto: &'a NodeProto,
    /// The values of the inputs; none for one left out.
    pub(crate) inputs: Vec<Option<Operand>>,
    /// The files beside the model.
    pub(crate) external: Rc<ExternalData>,
    /// Channels of a block where filters lie in blocks.
    pub(crate) filter_block: i64,
    /// The version of the operator set that the node belongs to.
    pub(crate) version: i64,
    /// The last input of which something must be known that is not, and what.
    pub(crate) needed: Cell<Option<(usize, FactKind)>>,
}

/// A refusal of an attribute.
#[cold]
#[inline(never)]
pub(crate) fn attribute_error(name: &str, reason: impl Into<String>) -> Diagnostic {
    Diagnostic::error(codes::BAD_ATTRIBUTE, format!("attribute `{name}` cannot be used"))
        .because(reason)
        .remedy("check the model with the tool that exported it, or export it again")
}

impl<'a> Node<'a> {
    // --- inputs and outputs ---

    /// The same node, as if it had no inputs.
    pub(crate) fn of(node: &Node<'a>) -> Node<'a> {
        let (external, needed) = (node.external.clone(), Cell::new(None));
        let (filter_block, version) = (node.filter_block, node.version);
        Node { proto: node.proto, inputs: Vec::new(), external, filter_block, version, needed }
    }

    /// The same attributes on other inputs, read as of another version.
    pub(crate) fn with(&self, inputs: Vec<Option<Operand>>, version: i64) -> Node<'a> {
        Node { inputs, version, ..Node::of(self) }
    }

    /// An input that must be given.
    pub(crate) fn input(&self, index: usize) -> Accepted<&Operand> {
        self.optional(index).ok_or_else(|| {
            Diagnostic::error(codes::WRONG_ARITY, format!("input {index} is missing"))
                .because(format!("`{}` needs it", self.proto.op_type))
                .remedy("check the model with the tool that exported it, or export it again")
        })
    }

    /// An input that may be left out.
    pub(crate) fn optional(&self, index: usize) -> Option<&Operand> {
        self.inputs.get(index).and_then(Option::as_ref)
    }

    /// All inputs, none of which may be left out.
    pub(crate) fn all_inputs(&self) -> Accepted<Vec<Operand>> {
        (0..self.inputs.len()).map(|index| self.input(index).cloned()).collect()
    }

    /// The name of the first output.
    pub(crate) fn output(&self) -> &str {
        self.proto.output.first().map_or("", String::as_str)
    }

    /// Whether output `index` is wanted.
    pub(crate) fn wants(&self, index: usize) -> bool {
        self.proto.output.get(index).is_some_and(|name| !name.is_empty())
    }

    // --- attributes ---

    /// The attribute of a name, which must be of a kind.
    fn attribute(&self, name: &str, wanted: i32) -> Accepted<Option<&AttributeProto>> {
        let Some(found) = self.proto.attribute_of(name) else { return Ok(None) };
        // Files of the first IR versions do not say the kind.
        if found.r#type != wanted && found.r#type != kind::UNDEFINED {
            let (given, wanted) = (kind::name(found.r#type), kind::name(wanted));
            return Err(attribute_error(name, format!("it is {given}, not {wanted}")));
        }
        Ok(Some(found))
    }

    /// Whether the attribute is given.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.proto.attribute_of(name).is_some()
    }

    /// An integer, or its default.
    pub(crate) fn int(&self, name: &str, default: i64) -> Accepted<i64> {
        Ok(self.attribute(name, kind::INT)?.map_or(default, |attribute| attribute.i))
    }

    /// An integer that says yes or no.
    pub(crate) fn flag(&self, name: &str, default: bool) -> Accepted<bool> {
        Ok(self.int(name, default.into())? != 0)
    }

    /// A float, or its default.
    pub(crate) fn float(&self, name: &str, default: f32) -> Accepted<f64> {
        let found = self.attribute(name, kind::FLOAT)?;
        Ok(f64::from(found.map_or(default, |attribute| attribute.f)))
    }

    /// A string, or its default.
    pub(crate) fn string(&self, name: &str, default: &'static str) -> Accepted<&str> {
        match self.attribute(name, kind::STRING)? {
            None => Ok(default),
            Some(found) => std::str::from_utf8(&found.s)
                .map_err(|_| attribute_error(name, "it is not valid UTF-8")),
        }
    }

    /// One of several words, or the first of them.
    pub(crate) fn word(&self, name: &str, words: &[&'static str]) -> Accepted<&'static str> {
        let given = self.string(name, words[0])?;
        words.iter().find(|word| **word == given).copied().ok_or_else(|| {
            attribute_error(name, format!("`{given}` is none of {}", words.join(", ")))
        })
    }

    /// A list of integers.
    pub(crate) fn ints(&self, name: &str) -> Accepted<Option<Vec<i64>>> {
        Ok(self.attribute(name, kind::INTS)?.map(|attribute| attribute.ints.clone()))
    }

    /// A list of floats.
    pub(crate) fn floats(&self, name: &str) -> Accepted<Option<Vec<f32>>> {
        Ok(self.attribute(name, kind::FLOATS)?.map(|attribute| attribute.floats.clone()))
    }

    /// A tensor.
    pub(crate) fn tensor(&self, name: &str, graph: &Graph) -> Accepted<Option<Tensor>> {
        match self.attribute(name, kind::TENSOR)?.and_then(|attribute| attribute.t.as_deref()) {
            Some(tensor) => tensors::decode(tensor, &self.external, &graph.limits).map(Some),
            None => Ok(None),
        }
    }

    /// A sparse tensor.
    pub(crate) fn sparse_tensor(&self, name: &str, graph: &mut Graph) -> Accepted<Option<Tensor>> {
        let found = self.attribute(name, kind::SPARSE_TENSOR)?;
        match found.and_then(|attribute| attribute.sparse_tensor.as_deref()) {
            Some(tensor) => tensors::decode_sparse(tensor, &self.external, graph).map(Some),
            None => Ok(None),
        }
    }

    /// A list of strings.
    pub(crate) fn strings(&self, name: &str) -> Accepted<Option<Vec<String>>> {
        let Some(found) = self.attribute(name, kind::STRINGS)? else { return Ok(None) };
        let read = |bytes: &bytes::Bytes| String::from_utf8(bytes.to_vec());
        let strings: std::result::Result<_, _> = found.strings.iter().map(read).collect();
        strings.map(Some).map_err(|_| attribute_error(name, "it is not valid UTF-8"))
    }

    /// A graph.
    pub(crate) fn graph(&self, name: &str) -> Accepted<&GraphProto> {
        self.attribute(name, kind::GRAPH)?
            .and_then(|attribute| attribute.g.as_deref())
            .ok_or_else(|| attribute_error(name, "it is missing"))
    }

    /// An element type, or its default.
    pub(crate) fn dtype(&self, name: &str, default: DType) -> Accepted<DType> {
        match self.int(name, 0)? {
            0 if !self.has(name) => Ok(default),
            number => match crate::data_type::data_type(number)? {
                DType::String => Err(type_error("strings are not supported")),
                dtype => Ok(dtype),
            },
        }
    }

    /// An axis; negative ones count from the end. `ends` more than the rank are allowed.
    pub(crate) fn axis(&self, name: &str, default: i64, rank: usize) -> Accepted<usize> {
        normalize_axis(self.int(name, default)?, rank)
    }

    // --- inputs that must be known ---

    /// The elements of an input on which shapes depend.
    pub(crate) fn known(&self, index: usize, what: &str) -> Accepted<&[Known]> {
        let value = self.input(index)?;
        value.known().ok_or_else(|| self.not_known(index, what))
    }

    /// The refusal of an input whose elements must be known and are not.
    pub(crate) fn not_known(&self, index: usize, what: &str) -> Diagnostic {
        self.not_known_as(index, what, FactKind::Value)
    }

    /// As [`Self::not_known`], of a kind of fact.
    pub(crate) fn not_known_as(&self, index: usize, what: &str, kind: FactKind) -> Diagnostic {
        self.needed.set(Some((index, kind)));
        let name = self.proto.input.get(index).map_or("", String::as_str);
        Diagnostic::error(codes::UNKNOWN_CONTENTS, format!("the {what} must be known to compile"))
            .because(format!("input `{name}` is computed from data, not from constants and shapes"))
            .remedy("export the model with this input as a constant, or with fixed shapes")
    }

    /// The refusal of an input whose extents must be numbers and are not.
    pub(crate) fn not_fixed(&self, index: usize, what: &str) -> Diagnostic {
        self.needed.set(Some((index, FactKind::Shape)));
        Diagnostic::error(codes::UNKNOWN_CONTENTS, format!("the {what} must be known to compile"))
            .because("it is a symbolic dimension of the model, or depends on data")
            .remedy("give the named dimensions values, or export the model with fixed shapes")
    }

    /// The integers of an input, each constant or symbolic.
    pub(crate) fn exprs(&self, index: usize, what: &str) -> Accepted<Vec<Expr>> {
        let value = self.input(index)?;
        if value.dtype().is_float() || value.dtype() == DType::String {
            return Err(type_error(format!("the {what} must be integers, not {}", value.dtype())));
        }
        if value.weight().is_some() {
            let numbers = self.numbers(index, what)?;
            return Ok(numbers.iter().map(|number| Expr::from(number.as_i64())).collect());
        }
        let known = self.known(index, what)?;
        let exprs: Option<Vec<Expr>> = known.iter().map(Known::expr).collect();
        exprs.ok_or_else(|| shape_error(format!("the {what} are too large")))
    }

    /// Whether the elements of an input are data: neither known nor constants.
    pub(crate) fn is_data(&self, index: usize) -> bool {
        let is_data = |value: &Operand| value.known().is_none() && value.weight().is_none();
        self.optional(index).is_some_and(is_data)
    }

    /// The sizes that an input gives; those that data decide become symbols.
    pub(crate) fn sizes(&self, index: usize, what: &str, graph: &mut Graph) -> Accepted<Vec<Expr>> {
        match self.data_integers(index, what, graph)? {
            None => self.exprs(index, what),
            Some(numbers) => {
                let most = Expr::from(graph.limits.dimension);
                numbers.iter().map(|number| graph.bind(number, &most)).collect()
            }
        }
    }

    /// The integers of an input that are data, one by one; none where they are known.
    pub(crate) fn data_integers(
        &self,
        index: usize,
        what: &str,
        graph: &mut Graph,
    ) -> Accepted<Option<Vec<Operand>>> {
        let value = self.input(index)?;
        if !self.is_data(index) || !value.dtype().is_integer() {
            return Ok(None);
        }
        let shape = value.constant_shape().ok_or_else(|| self.not_known(index, what))?;
        let count: usize = shape.iter().product();
        if count > KNOWN_ELEMENTS {
            return Err(shape_error(format!("the {what} are {count} numbers")));
        }
        let row = graph.reshape(value, &[Expr::from(count)])?;
        let row = graph.cast(&row, DType::I64)?;
        let number = |place: usize| {
            let one = graph.slice_axis(&row, 0, Expr::from(place), 1, Expr::ONE)?;
            graph.reshape(&one, &[])
        };
        (0..count).map(number).collect::<Accepted<_>>().map(Some)
    }

    /// The integers of an input, all constant.
    pub(crate) fn integers(&self, index: usize, what: &str) -> Accepted<Vec<i64>> {
        let exprs = self.exprs(index, what)?;
        let integers: Option<Vec<i64>> = exprs.iter().map(Expr::as_constant).collect();
        integers.ok_or_else(|| self.not_known(index, what))
    }

    /// The numbers of a constant input.
    pub(crate) fn numbers(&self, index: usize, what: &str) -> Accepted<Vec<Scalar>> {
        self.input(index)?.numbers().ok_or_else(|| self.not_known(index, what))
    }

    /// The one number of a constant input.
    pub(crate) fn single_number(&self, index: usize, what: &str) -> Accepted<Scalar> {
        match self.numbers(index, what)?[..] {
            [number] => Ok(number),
            ref numbers => {
                Err(shape_error(format!("the {what} must be one number, not {}", numbers.len())))
            }
        }
    }

    /// Axes as an attribute in old versions and an input since `version`; none if not given.
    pub(crate) fn axes_since(&self, version: i64, rank: usize) -> Accepted<Option<Vec<usize>>> {
        let axes = if self.version < version {
            self.ints("axes")?
        } else if self.optional(1).is_some() {
            Some(self.integers(1, "axes")?)
        } else {
            None
        };
        axes.map(|axes| normalize_axes(&axes, rank)).transpose()
    }
}
