//! Text to functions.
//!
//! The parser checks names only; whether types and regions are right is the verifier's business, so
//! that tests can write functions that are wrong.

use std::collections::BTreeMap;
use std::sync::Arc;

use base::Locations;
use base::text::{Parser, Position, TextError, Token};
use sym::{Expr, Symbol, parse_expr, parse_range};
use tensor::{DType, Scalar, Tensor};

use super::attribute::AttributeReader;
use crate::function::{Assumption, Function, Node, RegionId, Type, ValueId, Values};
use crate::lists::ElementType;
use crate::op::{Op, TensorType};

pub(crate) type Parsed<T> = Result<T, TextError>;

/// Reads the text of one function, and nothing behind it.
///
/// # Errors
/// The first place that does not parse.
pub fn parse(text: &str) -> base::Result<Function> {
    let mut parser = Parser::new(text);
    let function = parse_function(&mut parser, Locations::new())?;
    parser.expect_end()?;
    Ok(function)
}

/// Reads one function out of a longer text. Its locations are added to those given, so that ids
/// that are known elsewhere keep their meaning.
///
/// # Errors
/// The first place that does not parse.
pub fn parse_function(
    parser: &mut Parser<'_>,
    locations: Locations,
) -> Result<Function, TextError> {
    parser.expect_keyword("function")?;
    let mut function = Function::new(marked_name(parser, '@')?);
    function.locations = locations;
    let mut reader = Reader { parser, function, values: BTreeMap::new() };
    reader.parser.expect("{")?;
    reader.head()?;
    let body = reader.function.body;
    reader.nodes(body)?;
    reader.results()?;
    reader.parser.expect("}")?;
    Ok(reader.function)
}

/// Reads `@name` or `@"any name"`.
pub(crate) fn marked_name(parser: &mut Parser<'_>, mark: char) -> Parsed<String> {
    if parser.eat(&mark.to_string()) {
        parser.string()
    } else {
        parser.prefixed(mark).map(str::to_owned)
    }
}

/// Reads elements as `{1.0, 2.0}`.
///
/// # Errors
/// Where an element is not of the type, or their number is not that of the shape.
pub fn parse_literal(
    parser: &mut Parser<'_>,
    dtype: DType,
    shape: &[usize],
) -> Result<Tensor, TextError> {
    let start = parser.position();
    let elements =
        parser.list("{", ",", "}", |parser| Ok((parser.position(), element(parser)?)))?;
    let expected = tensor::tensor::element_count(shape);
    if expected != Some(elements.len()) {
        let message = format!("{} elements for the shape {shape:?}", elements.len());
        return Err(parser.error_at(start, message));
    }
    if dtype == DType::String {
        let strings = elements.into_iter().map(|(_, text)| text).collect();
        return Ok(Tensor::from_strings(shape, strings));
    }
    let scalar = |(position, text): &(Position, String)| {
        Scalar::parse(dtype, text).map_err(|reason| parser.error_at(*position, reason))
    };
    let scalars = elements.iter().map(scalar).collect::<Parsed<Vec<Scalar>>>()?;
    Ok(Tensor::from_scalars(dtype, shape, &scalars))
}

/// One element of a literal, as text: `1.5`, `-inf`, `nan(0x7fc00001)`, `true`; a string's value.
fn element(parser: &mut Parser<'_>) -> Parsed<String> {
    let sign = if parser.eat("-") { "-" } else { "" };
    let text = match parser.peek().clone() {
        Token::String(text) => text.into_owned(),
        Token::Integer(value) => value.to_string(),
        Token::Float(text) | Token::Identifier(text) => text.to_owned(),
        _ => return Err(parser.unexpected("an element")),
    };
    parser.next();
    if text == "nan" && parser.eat("(") {
        let bits = parser.unsigned()?;
        parser.expect(")")?;
        return Ok(format!("{sign}nan({bits:#x})"));
    }
    Ok(format!("{sign}{text}"))
}

/// Reads the name of an element type.
pub(crate) fn dtype(parser: &mut Parser<'_>) -> Parsed<DType> {
    let position = parser.position();
    let name = parser.identifier()?;
    DType::parse(name)
        .ok_or_else(|| parser.error_at(position, format!("there is no element type `{name}`")))
}

/// The text, what is made of it, and what its values are called.
pub(crate) struct Reader<'a, 'b> {
    pub(crate) parser: &'a mut Parser<'b>,
    pub(crate) function: Function,
    values: BTreeMap<String, ValueId>,
}

/// The name, user's name and type of a value about to be defined.
struct Head {
    position: Position,
    name: String,
    user_name: Option<String>,
    ty: Type,
}

impl Reader<'_, '_> {
    fn head(&mut self) -> Parsed<()> {
        loop {
            if self.parser.keyword("symbol") {
                let name = self.symbol_name()?;
                self.parser.expect_keyword("in")?;
                let range = parse_range(self.parser)?;
                let usual = match self.parser.keyword("usual") {
                    true => Some(self.parser.integer()?),
                    false => None,
                };
                let symbol = self.function.symbols.push(Symbol { name, range, usual });
                if self.parser.keyword("given") {
                    self.function.given.insert(symbol);
                }
            } else if self.parser.keyword("assume") {
                let assumption = self.assumption()?;
                self.function.assumptions.push(assumption);
            } else if self.parser.keyword("parameter") {
                let head = self.definition()?;
                let body = self.function.body;
                self.define_parameter(body, head)?;
                self.parser.expect_keyword("as")?;
                self.function.parameter_names.push(self.parser.string()?);
            } else {
                return Ok(());
            }
        }
    }

    pub(crate) fn symbol_name(&mut self) -> Parsed<String> {
        match self.parser.peek() {
            Token::String(_) => self.parser.string(),
            _ => self.parser.identifier().map(str::to_owned),
        }
    }

    fn assumption(&mut self) -> Parsed<Assumption> {
        let kind = self.parser.identifier()?;
        self.parser.expect("(")?;
        let first = self.expr()?;
        let assumption = match kind {
            "divisible" => {
                self.parser.expect(",")?;
                Assumption::Divisible(first, self.parser.integer()?)
            }
            "equal" | "broadcastable" => {
                self.parser.expect(",")?;
                let second = self.expr()?;
                let equal = kind == "equal";
                let make = if equal { Assumption::Equal } else { Assumption::Broadcastable };
                make(first, second)
            }
            _ => return Err(self.parser.error(format!("there is no assumption `{kind}`"))),
        };
        self.parser.expect(")")?;
        Ok(assumption)
    }

    fn results(&mut self) -> Parsed<()> {
        self.parser.expect_keyword("return")?;
        let mut results = Vec::new();
        while !self.parser.at("}") {
            if !results.is_empty() {
                self.parser.expect(",")?;
            }
            results.push(self.value()?);
            self.parser.expect_keyword("as")?;
            self.function.result_names.push(self.parser.string()?);
        }
        let body = self.function.body;
        self.function.regions[body].results = results;
        Ok(())
    }

    // --- expressions, types, values ---

    pub(crate) fn expr(&mut self) -> Parsed<Expr> {
        let function = &self.function;
        parse_expr(self.parser, &mut |name| function.symbol(name))
    }

    pub(crate) fn exprs(&mut self) -> Parsed<Vec<Expr>> {
        let function = &self.function;
        let expr = |parser: &mut Parser<'_>| parse_expr(parser, &mut |name| function.symbol(name));
        self.parser.list("[", ",", "]", expr)
    }

    fn ty(&mut self) -> Parsed<Type> {
        match self.list_type()? {
            Some(ElementType::Sequence(inner)) => return Ok(Type::Sequence(inner)),
            Some(ElementType::Optional(inner)) => return Ok(Type::Optional(inner)),
            _ => {}
        }
        let dtype = dtype(self.parser)?;
        Ok(Type::Tensor(TensorType { dtype, shape: self.exprs()?.into() }))
    }

    fn list_type(&mut self) -> Parsed<Option<ElementType>> {
        for (word, wrap) in [
            ("sequence", ElementType::Sequence as fn(Box<ElementType>) -> ElementType),
            ("optional", ElementType::Optional as fn(Box<ElementType>) -> ElementType),
        ] {
            if self.parser.keyword(word) {
                self.parser.expect("<")?;
                let inner = self.element_type()?;
                self.parser.expect(">")?;
                return Ok(Some(wrap(Box::new(inner))));
            }
        }
        Ok(None)
    }

    fn element_type(&mut self) -> Parsed<ElementType> {
        if self.parser.keyword("any") {
            return Ok(ElementType::Any);
        }
        if let Some(list) = self.list_type()? {
            return Ok(list);
        }
        let dtype = dtype(self.parser)?;
        let has_rank = self.parser.keyword("rank");
        let rank = has_rank.then(|| self.parser.unsigned()).transpose()?;
        Ok(ElementType::Tensor { dtype, rank: rank.map(|rank| rank as usize) })
    }

    pub(crate) fn value(&mut self) -> Parsed<ValueId> {
        let position = self.parser.position();
        let name = self.parser.prefixed('%')?;
        let unknown = || self.parser.error_at(position, format!("%{name} is not defined here"));
        self.values.get(name).copied().ok_or_else(unknown)
    }

    /// Values separated by commas, possibly none; the definition that starts the next line is not
    /// one of them.
    pub(crate) fn value_list(&mut self) -> Parsed<Vec<ValueId>> {
        let mut values = Vec::new();
        let defines = matches!(self.parser.peek_at(1), Token::Punctuation(":") | Token::String(_));
        if matches!(self.parser.peek(), Token::Prefixed('%', _)) && !defines {
            values.push(self.value()?);
            while self.parser.eat(",") {
                values.push(self.value()?);
            }
        }
        Ok(values)
    }

    /// `%v3 "name": f32[2]`
    fn definition(&mut self) -> Parsed<Head> {
        let position = self.parser.position();
        let name = self.parser.prefixed('%')?.to_owned();
        let named = matches!(self.parser.peek(), Token::String(_));
        let user_name = if named { Some(self.parser.string()?) } else { None };
        self.parser.expect(":")?;
        Ok(Head { position, name, user_name, ty: self.ty()? })
    }

    fn define_parameter(&mut self, region: RegionId, head: Head) -> Parsed<()> {
        let value = self.function.add_parameter(region, head.ty.clone());
        self.define(head, value)
    }

    fn define(&mut self, head: Head, value: ValueId) -> Parsed<()> {
        self.function.values[value].name = head.user_name.map(Arc::from);
        let message = format!("%{} is defined twice", head.name);
        match self.values.insert(head.name, value) {
            None => Ok(()),
            Some(_) => Err(self.parser.error_at(head.position, message)),
        }
    }

    // --- nodes ---

    fn nodes(&mut self, region: RegionId) -> Parsed<()> {
        while !self.parser.at_keyword("return") && !self.parser.at_keyword("yield") {
            self.node(region)?;
        }
        Ok(())
    }

    fn node(&mut self, region: RegionId) -> Parsed<()> {
        let mut heads = Vec::new();
        if matches!(self.parser.peek(), Token::Prefixed('%', _)) {
            heads.push(self.definition()?);
            while self.parser.eat(",") {
                heads.push(self.definition()?);
            }
            self.parser.expect("=")?;
        }
        let types: Vec<Type> = heads.iter().map(|head| head.ty.clone()).collect();
        let (op, operands) = self.op(&types)?;
        let regions = op
            .region_labels()
            .iter()
            .map(|label| self.region(label))
            .collect::<Parsed<Vec<RegionId>>>()?;
        let location = if self.parser.at_keyword("loc") {
            self.function.locations.parse(self.parser)?
        } else {
            Locations::UNKNOWN
        };
        let (operands, results) = (Values::from(operands), Values::new());
        let node = Node { op, operands, results, regions, location };
        let node = self.function.add_node(region, node, types);
        for (head, value) in heads.into_iter().zip(self.function.nodes[node].results.clone()) {
            self.define(head, value)?;
        }
        Ok(())
    }

    fn region(&mut self, label: &str) -> Parsed<RegionId> {
        self.parser.expect_keyword(label)?;
        let region = self.function.regions.push(Default::default());
        if self.parser.eat("(") {
            while !self.parser.eat(")") {
                let head = self.definition()?;
                self.define_parameter(region, head)?;
                if !self.parser.at(")") {
                    self.parser.expect(",")?;
                }
            }
        }
        self.parser.expect("{")?;
        self.nodes(region)?;
        self.parser.expect_keyword("yield")?;
        self.function.regions[region].results = self.value_list()?;
        self.parser.expect("}")?;
        Ok(region)
    }

    /// A primitive and its operands, given the types of its results.
    fn op(&mut self, types: &[Type]) -> Parsed<(Op, Vec<ValueId>)> {
        let position = self.parser.position();
        let name = self.parser.identifier()?;
        let mut attributes = AttributeReader::new(self, types);
        match Op::parse_attributes(name, &mut attributes)? {
            Some(op) => Ok((op, attributes.operands()?)),
            None => {
                let message = format!("there is no primitive `{name}`");
                Err(self.parser.error_at(position, message))
            }
        }
    }
}
