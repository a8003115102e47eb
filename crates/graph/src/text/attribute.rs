//! Attributes of primitives as text: a type each, and a form each.
//!
//! The table in `op.rs` says for each primitive which attributes stand in its text, in which order
//! and in which [`Form`]. An attribute type says once how its values print and parse and which
//! expressions are in them, so that a primitive made of known types needs no code here.

use base::text::{Parser, Quoted, Separated};
use base::{ConstantId, FunctionId, Id};
use sym::{Expr, Range, SymbolId, parse_expr, parse_range};
use tensor::{DType, Reduction, ScalarFunction, Tensor};

use super::parse::{Parsed, Reader, dtype, parse_literal};
use super::print::{Listing, literal_text};
use crate::function::{Type, ValueId};
use crate::lists::ListOperation;
use crate::op::{HostAttributes, IterationSpace, TensorType};
use crate::shape::Shape;

/// How an attribute of type `T` stands in the text of a primitive.
pub(crate) trait Form<T> {
    /// Writes it.
    fn print(&self, value: &T, writer: &mut AttributeWriter<'_>);

    /// Reads it.
    fn parse(&self, reader: &mut AttributeReader<'_, '_, '_>) -> Parsed<T>;
}

/// The value alone: `[1, 0]`.
pub(crate) struct Bare;

/// A word, then the value: `axis 1`.
pub(crate) struct After(pub &'static str);

/// The word if set, else nothing: `reverse`.
pub(crate) struct Flag(pub &'static str);

/// A word and the value if there is one, else nothing: `turns n`.
pub(crate) struct Optional(pub &'static str);

/// The first word if set, else the second: `greatest`, `least`.
pub(crate) struct Either(pub &'static str, pub &'static str);

/// Not written: the types of the results say it.
pub(crate) struct Implied;

/// The expressions over the function's symbols in an attribute.
pub(crate) trait Attribute {
    /// Visits them.
    fn each_expr<'a>(&'a self, _visit: &mut dyn FnMut(&'a Expr)) {}

    /// To change.
    fn exprs_mut(&mut self) -> Vec<&mut Expr> {
        Vec::new()
    }
}

/// An attribute that is written.
pub(crate) trait Written: Sized {
    /// Its text; see [`AttributeWriter`] for what that may refer to.
    fn print(&self, writer: &mut AttributeWriter<'_>) -> String;

    /// The mirror of `print`.
    fn parse(reader: &mut AttributeReader<'_, '_, '_>) -> Parsed<Self>;
}

/// An attribute that can follow from the types of the results.
pub(crate) trait OfResults: Sized {
    /// It, or a sentence about the results.
    fn of_results(types: &[Type]) -> Result<Self, &'static str>;
}

/// The text of a primitive under way.
pub(crate) struct AttributeWriter<'a> {
    listing: &'a Listing<'a>,
    operands: &'a [ValueId],
    words: Vec<String>,
    has_operands: bool,
}

impl<'a> AttributeWriter<'a> {
    /// Nothing so far.
    pub(crate) fn new(listing: &'a Listing<'a>, operands: &'a [ValueId]) -> AttributeWriter<'a> {
        AttributeWriter { listing, operands, words: Vec::new(), has_operands: false }
    }

    /// All that was written, and the operands if no attribute has placed them.
    pub(crate) fn finish(mut self) -> String {
        if !self.has_operands && !self.operands.is_empty() {
            self.words.push(self.listing.values(self.operands));
        }
        Separated(" ", &self.words).to_string()
    }
}

/// What the text of a primitive is read from.
pub(crate) struct AttributeReader<'r, 'a, 'b> {
    reader: &'r mut Reader<'a, 'b>,
    /// Types of the results, which stand before the primitive.
    types: &'r [Type],
    /// The operands, if an attribute has placed them.
    operands: Option<Vec<ValueId>>,
}

impl<'r, 'a, 'b> AttributeReader<'r, 'a, 'b> {
    /// Reads from here.
    pub(crate) fn new(
        reader: &'r mut Reader<'a, 'b>,
        types: &'r [Type],
    ) -> AttributeReader<'r, 'a, 'b> {
        AttributeReader { reader, types, operands: None }
    }

    /// The operands, read now if no attribute has placed them.
    pub(crate) fn operands(self) -> Parsed<Vec<ValueId>> {
        match self.operands {
            Some(operands) => Ok(operands),
            None => self.reader.value_list(),
        }
    }

    fn parser(&mut self) -> &mut Parser<'b> {
        self.reader.parser
    }
}

// --- forms ---

impl<T: Written> Form<T> for Bare {
    fn print(&self, value: &T, writer: &mut AttributeWriter<'_>) {
        let text = value.print(writer);
        writer.words.push(text);
    }

    fn parse(&self, reader: &mut AttributeReader<'_, '_, '_>) -> Parsed<T> {
        T::parse(reader)
    }
}

impl<T: Written> Form<T> for After {
    fn print(&self, value: &T, writer: &mut AttributeWriter<'_>) {
        let text = value.print(writer);
        writer.words.push(format!("{} {text}", self.0));
    }

    fn parse(&self, reader: &mut AttributeReader<'_, '_, '_>) -> Parsed<T> {
        reader.parser().expect_keyword(self.0)?;
        T::parse(reader)
    }
}

impl Form<bool> for Flag {
    fn print(&self, value: &bool, writer: &mut AttributeWriter<'_>) {
        writer.words.extend(value.then(|| self.0.to_owned()));
    }

    fn parse(&self, reader: &mut AttributeReader<'_, '_, '_>) -> Parsed<bool> {
        Ok(reader.parser().keyword(self.0))
    }
}

impl<T: Written> Form<Option<T>> for Optional {
    fn print(&self, value: &Option<T>, writer: &mut AttributeWriter<'_>) {
        if let Some(value) = value {
            After(self.0).print(value, writer);
        }
    }

    fn parse(&self, reader: &mut AttributeReader<'_, '_, '_>) -> Parsed<Option<T>> {
        let is_there = reader.parser().keyword(self.0);
        is_there.then(|| T::parse(reader)).transpose()
    }
}

impl Form<bool> for Either {
    fn print(&self, value: &bool, writer: &mut AttributeWriter<'_>) {
        writer.words.push(if *value { self.0 } else { self.1 }.to_owned());
    }

    fn parse(&self, reader: &mut AttributeReader<'_, '_, '_>) -> Parsed<bool> {
        let parser = reader.parser();
        let found = parser.keyword(self.0);
        if !found && !parser.keyword(self.1) {
            return Err(parser.unexpected(&format!("`{}` or `{}`", self.0, self.1)));
        }
        Ok(found)
    }
}

impl<T: OfResults> Form<T> for Implied {
    fn print(&self, _: &T, _: &mut AttributeWriter<'_>) {}

    fn parse(&self, reader: &mut AttributeReader<'_, '_, '_>) -> Parsed<T> {
        T::of_results(reader.types).map_err(|reason| reader.parser().error(reason))
    }
}

// --- what follows from the results ---

impl OfResults for TensorType {
    fn of_results(types: &[Type]) -> Result<TensorType, &'static str> {
        match types {
            [Type::Tensor(ty)] => Ok(ty.clone()),
            _ => Err("this primitive has one result, a tensor"),
        }
    }
}

impl OfResults for DType {
    fn of_results(types: &[Type]) -> Result<DType, &'static str> {
        TensorType::of_results(types).map(|ty| ty.dtype)
    }
}

/// The shape of the only result.
impl OfResults for Shape {
    fn of_results(types: &[Type]) -> Result<Shape, &'static str> {
        TensorType::of_results(types).map(|ty| ty.shape)
    }
}

impl OfResults for Vec<Type> {
    fn of_results(types: &[Type]) -> Result<Vec<Type>, &'static str> {
        Ok(types.to_vec())
    }
}

impl OfResults for Vec<TensorType> {
    fn of_results(types: &[Type]) -> Result<Vec<TensorType>, &'static str> {
        let tensor = |ty: &Type| ty.as_tensor().cloned().ok_or("the results are tensors");
        types.iter().map(tensor).collect()
    }
}

// --- types with expressions ---

impl Attribute for Expr {
    fn each_expr<'a>(&'a self, visit: &mut dyn FnMut(&'a Expr)) {
        visit(self);
    }

    fn exprs_mut(&mut self) -> Vec<&mut Expr> {
        vec![self]
    }
}

impl Written for Expr {
    fn print(&self, writer: &mut AttributeWriter<'_>) -> String {
        writer.listing.expr(self)
    }

    fn parse(reader: &mut AttributeReader<'_, '_, '_>) -> Parsed<Expr> {
        reader.reader.expr()
    }
}

impl Attribute for Vec<Expr> {
    fn each_expr<'a>(&'a self, visit: &mut dyn FnMut(&'a Expr)) {
        self.iter().for_each(visit);
    }

    fn exprs_mut(&mut self) -> Vec<&mut Expr> {
        self.iter_mut().collect()
    }
}

impl Written for Vec<Expr> {
    fn print(&self, writer: &mut AttributeWriter<'_>) -> String {
        writer.listing.exprs(self)
    }

    fn parse(reader: &mut AttributeReader<'_, '_, '_>) -> Parsed<Vec<Expr>> {
        reader.reader.exprs()
    }
}

impl Attribute for Shape {
    fn each_expr<'a>(&'a self, visit: &mut dyn FnMut(&'a Expr)) {
        self.iter().for_each(visit);
    }

    fn exprs_mut(&mut self) -> Vec<&mut Expr> {
        self.iter_mut().collect()
    }
}

impl Attribute for TensorType {
    fn each_expr<'a>(&'a self, visit: &mut dyn FnMut(&'a Expr)) {
        self.shape.iter().for_each(visit);
    }

    fn exprs_mut(&mut self) -> Vec<&mut Expr> {
        self.shape.iter_mut().collect()
    }
}

impl Attribute for Vec<Type> {
    fn each_expr<'a>(&'a self, visit: &mut dyn FnMut(&'a Expr)) {
        self.iter().flat_map(Type::exprs).for_each(visit);
    }

    fn exprs_mut(&mut self) -> Vec<&mut Expr> {
        self.iter_mut().flat_map(Type::exprs_mut).collect()
    }
}

impl Attribute for Vec<TensorType> {
    fn each_expr<'a>(&'a self, visit: &mut dyn FnMut(&'a Expr)) {
        self.iter().flat_map(|ty| &ty.shape).for_each(visit);
    }

    fn exprs_mut(&mut self) -> Vec<&mut Expr> {
        self.iter_mut().flat_map(|ty| &mut ty.shape).collect()
    }
}

/// The extents; index expressions are over the axes, not over symbols.
impl Attribute for IterationSpace {
    fn each_expr<'a>(&'a self, visit: &mut dyn FnMut(&'a Expr)) {
        self.extents.iter().for_each(visit);
    }

    fn exprs_mut(&mut self) -> Vec<&mut Expr> {
        self.extents.iter_mut().collect()
    }
}

/// With the operands, each at its index: `[a0: n, a1: 4 | r0: 8] %v0[a0, r0], %v1[r0, a1]`.
impl Written for IterationSpace {
    fn print(&self, writer: &mut AttributeWriter<'_>) -> String {
        writer.has_operands = true;
        let listing = writer.listing;
        let parallel = self.parallel.min(self.extents.len());
        let name = |axis: usize| match axis.checked_sub(parallel) {
            None => format!("a{axis}"),
            Some(reduced) => format!("r{reduced}"),
        };
        let axis = |axis: usize| format!("{}: {}", name(axis), listing.expr(&self.extents[axis]));
        let axes: Vec<String> = (0..self.extents.len()).map(axis).collect();
        let (result, reduced) = axes.split_at(parallel);
        let mut text = format!("[{}", Separated(", ", result));
        if !reduced.is_empty() {
            let space = if result.is_empty() { "" } else { " " };
            text.push_str(&format!("{space}| {}", Separated(", ", reduced)));
        }
        let index_names = |symbol: SymbolId| name(symbol.index());
        let read = |(&value, index): (&ValueId, &Vec<Expr>)| {
            let index: Vec<String> =
                index.iter().map(|expr| expr.display(&index_names).to_string()).collect();
            format!("{}[{}]", listing.value(value), Separated(", ", &index))
        };
        let reads: Vec<String> = writer.operands.iter().zip(&self.operands).map(read).collect();
        format!("{text}] {}", Separated(", ", &reads))
    }

    fn parse(reader: &mut AttributeReader<'_, '_, '_>) -> Parsed<IterationSpace> {
        let mut axes: Vec<String> = Vec::new();
        let mut extents = Vec::new();
        let mut parallel = None;
        let inner = &mut *reader.reader;
        inner.parser.expect("[")?;
        while !inner.parser.eat("]") {
            if parallel.is_none() && inner.parser.eat("|") {
                parallel = Some(extents.len());
            }
            axes.push(inner.parser.identifier()?.to_owned());
            inner.parser.expect(":")?;
            extents.push(inner.expr()?);
            if !inner.parser.at("|") && !inner.parser.at("]") {
                inner.parser.expect(",")?;
            }
        }
        let axis = |name: &str| axes.iter().position(|axis| axis == name).map(SymbolId::new);
        let (mut operands, mut values) = (Vec::new(), Vec::new());
        loop {
            values.push(inner.value()?);
            let index = |parser: &mut Parser<'_>| parse_expr(parser, &mut |name| axis(name));
            operands.push(inner.parser.list("[", ",", "]", index)?);
            if !inner.parser.eat(",") {
                break;
            }
        }
        reader.operands = Some(values);
        let parallel = parallel.unwrap_or(extents.len());
        Ok(IterationSpace { extents, parallel, operands })
    }
}

// --- types without expressions ---

impl Attribute for bool {}
impl Attribute for DType {}
impl Attribute for usize {}
impl Attribute for Vec<usize> {}
impl Attribute for Vec<i64> {}
impl Attribute for SymbolId {}
impl Attribute for Range {}
impl Attribute for ScalarFunction {}
impl Attribute for HostAttributes {}
impl Attribute for ListOperation {}
impl Attribute for Reduction {}
impl Attribute for Option<Reduction> {}
impl Attribute for Tensor {}
impl Attribute for ConstantId {}
impl Attribute for FunctionId {}
impl Attribute for Option<SymbolId> {}
impl Attribute for Option<usize> {}
impl Attribute for String {}

impl Written for DType {
    fn print(&self, _: &mut AttributeWriter<'_>) -> String {
        self.to_string()
    }

    fn parse(reader: &mut AttributeReader<'_, '_, '_>) -> Parsed<DType> {
        dtype(reader.parser())
    }
}

impl Written for usize {
    fn print(&self, _: &mut AttributeWriter<'_>) -> String {
        self.to_string()
    }

    fn parse(reader: &mut AttributeReader<'_, '_, '_>) -> Parsed<usize> {
        Ok(reader.parser().unsigned()? as usize)
    }
}

impl Written for Vec<usize> {
    fn print(&self, _: &mut AttributeWriter<'_>) -> String {
        format!("{self:?}")
    }

    fn parse(reader: &mut AttributeReader<'_, '_, '_>) -> Parsed<Vec<usize>> {
        let number = |parser: &mut Parser<'_>| Ok(parser.unsigned()? as usize);
        reader.parser().list("[", ",", "]", number)
    }
}

impl Written for Vec<i64> {
    fn print(&self, _: &mut AttributeWriter<'_>) -> String {
        format!("{self:?}")
    }

    fn parse(reader: &mut AttributeReader<'_, '_, '_>) -> Parsed<Vec<i64>> {
        reader.parser().list("[", ",", "]", Parser::integer)
    }
}

impl Written for SymbolId {
    fn print(&self, writer: &mut AttributeWriter<'_>) -> String {
        writer.listing.expr(&Expr::symbol(*self))
    }

    fn parse(reader: &mut AttributeReader<'_, '_, '_>) -> Parsed<SymbolId> {
        let position = reader.parser().position();
        let name = reader.reader.symbol_name()?;
        let unknown = || reader.reader.parser.error_at(position, format!("no symbol `{name}`"));
        reader.reader.function.symbol(&name).ok_or_else(unknown)
    }
}

impl Written for Range {
    fn print(&self, _: &mut AttributeWriter<'_>) -> String {
        self.to_string()
    }

    fn parse(reader: &mut AttributeReader<'_, '_, '_>) -> Parsed<Range> {
        parse_range(reader.parser())
    }
}

/// Reads a word that names something.
fn named<T>(parser: &mut Parser<'_>, what: &str, find: impl Fn(&str) -> Option<T>) -> Parsed<T> {
    let position = parser.position();
    let name = parser.identifier()?;
    find(name).ok_or_else(|| parser.error_at(position, format!("there is no {what} `{name}`")))
}

impl Written for ScalarFunction {
    fn print(&self, _: &mut AttributeWriter<'_>) -> String {
        self.to_string()
    }

    fn parse(reader: &mut AttributeReader<'_, '_, '_>) -> Parsed<ScalarFunction> {
        named(reader.parser(), "scalar function", ScalarFunction::from_name)
    }
}

/// `{case: "LOWER", words: "a"}`
impl Written for HostAttributes {
    fn print(&self, _: &mut AttributeWriter<'_>) -> String {
        let texts = self.0.iter().map(|(name, text)| format!("{}: {}", Quoted(name), Quoted(text)));
        format!("{{{}}}", Separated(", ", &texts.collect::<Vec<_>>()))
    }

    fn parse(reader: &mut AttributeReader<'_, '_, '_>) -> Parsed<HostAttributes> {
        let pair = |parser: &mut Parser<'_>| {
            let name = parser.string()?;
            parser.expect(":")?;
            Ok((name, parser.string()?))
        };
        reader.parser().list("{", ",", "}", pair).map(HostAttributes)
    }
}

impl Written for ListOperation {
    fn print(&self, _: &mut AttributeWriter<'_>) -> String {
        self.text()
    }

    fn parse(reader: &mut AttributeReader<'_, '_, '_>) -> Parsed<ListOperation> {
        ListOperation::parse(reader.parser())
    }
}

impl Written for Reduction {
    fn print(&self, _: &mut AttributeWriter<'_>) -> String {
        self.to_string()
    }

    fn parse(reader: &mut AttributeReader<'_, '_, '_>) -> Parsed<Reduction> {
        named(reader.parser(), "reduction", Reduction::from_name)
    }
}

/// `replace` if there is none.
impl Written for Option<Reduction> {
    fn print(&self, _: &mut AttributeWriter<'_>) -> String {
        self.map_or("replace", |reduction| reduction.name()).to_owned()
    }

    fn parse(reader: &mut AttributeReader<'_, '_, '_>) -> Parsed<Option<Reduction>> {
        match reader.parser().keyword("replace") {
            true => Ok(None),
            false => Reduction::parse(reader).map(Some),
        }
    }
}

/// The elements; type and shape are the result's.
impl Written for Tensor {
    fn print(&self, _: &mut AttributeWriter<'_>) -> String {
        literal_text(self)
    }

    fn parse(reader: &mut AttributeReader<'_, '_, '_>) -> Parsed<Tensor> {
        let TensorType { dtype, shape } = Implied.parse(reader)?;
        let constant = |extent: &Expr| extent.as_constant()?.try_into().ok();
        match shape.iter().map(constant).collect::<Option<Vec<usize>>>() {
            Some(shape) => parse_literal(reader.parser(), dtype, &shape),
            None => Err(reader.parser().error("a literal's shape is constant")),
        }
    }
}

impl Written for ConstantId {
    fn print(&self, _: &mut AttributeWriter<'_>) -> String {
        format!("@{self}")
    }

    fn parse(reader: &mut AttributeReader<'_, '_, '_>) -> Parsed<ConstantId> {
        let parser = reader.parser();
        let position = parser.position();
        let name = parser.prefixed('@')?;
        let bad = || parser.error_at(position, "a constant is written @c and a number");
        <ConstantId as Id>::parse(name).ok_or_else(bad)
    }
}

impl Written for FunctionId {
    fn print(&self, _: &mut AttributeWriter<'_>) -> String {
        format!("@{self}")
    }

    fn parse(reader: &mut AttributeReader<'_, '_, '_>) -> Parsed<FunctionId> {
        let parser = reader.parser();
        let position = parser.position();
        let name = parser.prefixed('@')?;
        let bad = || parser.error_at(position, "a function is written @f and a number");
        <FunctionId as Id>::parse(name).ok_or_else(bad)
    }
}

impl Written for String {
    fn print(&self, _: &mut AttributeWriter<'_>) -> String {
        Quoted(self).to_string()
    }

    fn parse(reader: &mut AttributeReader<'_, '_, '_>) -> Parsed<String> {
        reader.parser().string()
    }
}
