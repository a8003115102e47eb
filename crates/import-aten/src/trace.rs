//! A trace as data, and its text.
//!
//! ```text
//! trace {
//!   symbol s0: 2..=4096
//!   symbol u0: 0.. data
//!   input %x: f32[s0, 3]
//!   weight %w: f32[4, 3]
//!   %t: f32[3, 4] = aten.t.default(%w)
//!   %y: f32[s0, 4] = aten.mm.default(%x, %t)
//!   %best: (f32[s0], i64[s0]) = aten.max.dim(%y, -1, keepdim = false)
//!   %v: f32[s0] = getitem(%best, 0)
//!   return %v as "scores"
//! }
//! ```
//!
//! An argument is `none`, `true`, `false`, a float, a string, an element type, an expression over
//! symbols, a value or a list of arguments. A type may say `strides [1, 4]` behind it. A result
//! that a node does not give has type `none`. A symbol marked `data` stands for a size that data
//! decide: the first node with a result that has it for an extent defines it. A result of the trace
//! may have a name. The element types `c64` and `c128` are complex numbers of two f32 or f64;
//! `complex(1.0, -2.0)` is an argument of such a type. Names of values are free of meaning; the
//! order of inputs and weights is that of the values given for them.

use std::collections::BTreeMap;

use base::Id;
use base::text::{Parser, TextError, Token};
use sym::{Expr, Range, SymbolId};
use tensor::DType;

/// A trace.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AtenTrace {
    /// Sizes that are not fixed; symbol `n` of the expressions is the one at place `n`.
    pub symbols: Vec<TraceSymbol>,
    /// What a run is given.
    pub inputs: Vec<(String, Declared)>,
    /// What is given once.
    pub weights: Vec<(String, Declared)>,
    /// The nodes, each behind those that it reads.
    pub calls: Vec<TraceNode>,
    /// The results.
    pub results: Vec<TraceResult>,
}

/// A result of a trace.
#[derive(Clone, Debug, PartialEq)]
pub struct TraceResult {
    /// Which value it is.
    pub value: String,
    /// What who runs it calls the result; `result0`, `result1`, .. where nothing is said.
    pub name: Option<String>,
}

/// A size that is not fixed.
#[derive(Clone, Debug, PartialEq)]
pub struct TraceSymbol {
    /// What it is called.
    pub name: String,
    /// The values that it may take.
    pub range: Range,
    /// Whether data decide it, by the first node that has it for an extent of a result.
    pub is_data: bool,
}

/// The type of a value.
#[derive(Clone, Debug, PartialEq)]
pub struct Declared {
    /// The element type; of complex numbers that of their parts.
    pub dtype: DType,
    /// Whether the elements are complex numbers.
    pub is_complex: bool,
    /// The extents.
    pub shape: Vec<Expr>,
    /// How far apart neighbours along each axis lie in memory, where PyTorch does not have the
    /// elements row-major. It is of consequence to what reads memory as it lies, alone.
    pub strides: Option<Vec<i64>>,
}

/// A node: an operator called with arguments.
#[derive(Clone, Debug, PartialEq)]
pub struct TraceNode {
    /// What its result is called.
    pub name: String,
    /// The types of its results; none of one that it does not give.
    pub types: Vec<Option<Declared>>,
    /// Whether the value is a list of results, of which others take one by `getitem`.
    pub is_list: bool,
    /// The operator with its overload.
    pub operator: String,
    /// Arguments by place.
    pub arguments: Vec<TraceArgument>,
    /// Arguments by name.
    pub named: Vec<(String, TraceArgument)>,
}

/// An argument.
#[derive(Clone, Debug, PartialEq)]
pub enum TraceArgument {
    /// What stands for an argument that is left out.
    None,
    /// A flag.
    Bool(bool),
    /// An integer.
    Integer(Expr),
    /// A number that is not whole by type.
    Float(f64),
    /// A complex number: its parts.
    Complex(f64, f64),
    /// A word.
    Text(String),
    /// An element type; of complex numbers that of their parts.
    DType(DType),
    /// The value of an input, a weight or a node.
    Value(String),
    /// Several.
    List(Vec<TraceArgument>),
}

type Parsed<T> = Result<T, TextError>;

impl Declared {
    /// The type with each extent replaced.
    pub(crate) fn map(&self, replaced: &mut dyn FnMut(&Expr) -> Expr) -> Declared {
        Declared { shape: self.shape.iter().map(replaced).collect(), ..self.clone() }
    }

    /// The extents of the tensor that holds the elements: the parts of complex numbers lie side by
    /// side.
    #[must_use]
    pub fn stored_shape(&self) -> Vec<Expr> {
        let mut shape = self.shape.clone();
        shape.extend(self.is_complex.then_some(Expr::from(2)));
        shape
    }
}

impl TraceArgument {
    /// The argument with each integer replaced.
    pub(crate) fn map(&self, replaced: &mut dyn FnMut(&Expr) -> Expr) -> TraceArgument {
        match self {
            TraceArgument::Integer(number) => TraceArgument::Integer(replaced(number)),
            TraceArgument::List(items) => {
                TraceArgument::List(items.iter().map(|item| item.map(replaced)).collect())
            }
            other => other.clone(),
        }
    }
}

impl AtenTrace {
    /// Reads a trace.
    ///
    /// # Errors
    /// Where the text is none, and what was expected there.
    pub fn parse(text: &str) -> Parsed<AtenTrace> {
        let (mut parser, mut trace) = (Parser::new(text), AtenTrace::default());
        parser.expect_keyword("trace")?;
        parser.expect("{")?;
        while !parser.keyword("return") {
            trace.parse_line(&mut parser)?;
        }
        if !parser.at("}") {
            trace.results.push(parse_result(&mut parser)?);
            while parser.eat(",") {
                trace.results.push(parse_result(&mut parser)?);
            }
        }
        parser.expect("}")?;
        parser.expect_end()?;
        Ok(trace)
    }

    /// What the result at a place is called.
    pub(crate) fn result_name(&self, place: usize) -> String {
        self.results[place].name.clone().unwrap_or_else(|| format!("result{place}"))
    }

    /// The trace for these values of symbols by name. The symbols stay; nothing reads them.
    pub(crate) fn with_values(&self, values: &BTreeMap<String, i64>) -> AtenTrace {
        let value = |id: SymbolId| values.get(&self.symbols[id.index()].name).copied();
        let bind = &|expr: &mut Expr| *expr = expr.substitute(&mut |id| value(id).map(Expr::from));
        let mut trace = self.clone();
        let given = trace.inputs.iter_mut().chain(&mut trace.weights).map(|(_, declared)| declared);
        given.for_each(|declared| declared.shape.iter_mut().for_each(bind));
        for call in &mut trace.calls {
            let types = call.types.iter_mut().flatten();
            types.for_each(|declared| declared.shape.iter_mut().for_each(bind));
            let arguments = call.arguments.iter_mut();
            let arguments = arguments.chain(call.named.iter_mut().map(|(_, argument)| argument));
            arguments.for_each(|argument| argument.for_each_expr(bind));
        }
        trace
    }

    fn parse_line(&mut self, parser: &mut Parser<'_>) -> Parsed<()> {
        if parser.keyword("symbol") {
            let name = parser.identifier()?.to_owned();
            parser.expect(":")?;
            let range = sym::parse_range(parser)?;
            let is_data = parser.keyword("data");
            self.symbols.push(TraceSymbol { name, range, is_data });
        } else if parser.keyword("input") {
            let declared = self.parse_declaration(parser)?;
            self.inputs.push(declared);
        } else if parser.keyword("weight") {
            let declared = self.parse_declaration(parser)?;
            self.weights.push(declared);
        } else {
            let call = self.parse_call(parser)?;
            self.calls.push(call);
        }
        Ok(())
    }

    fn parse_declaration(&self, parser: &mut Parser<'_>) -> Parsed<(String, Declared)> {
        let name = parser.prefixed('%')?.to_owned();
        parser.expect(":")?;
        Ok((name, self.parse_type(parser)?))
    }

    fn parse_type(&self, parser: &mut Parser<'_>) -> Parsed<Declared> {
        let (dtype, is_complex) = parse_element(parser)?;
        let shape = parser.list("[", ",", "]", |parser| self.parse_expr(parser))?;
        let is_strided = parser.keyword("strides");
        let strides =
            is_strided.then(|| parser.list("[", ",", "]", Parser::integer)).transpose()?;
        Ok(Declared { dtype, is_complex, shape, strides })
    }

    fn parse_expr(&self, parser: &mut Parser<'_>) -> Parsed<Expr> {
        let resolve = &mut |name: &str| {
            let place = self.symbols.iter().position(|symbol| symbol.name == name);
            place.map(<SymbolId as Id>::new)
        };
        sym::parse_expr(parser, resolve)
    }

    fn parse_call(&self, parser: &mut Parser<'_>) -> Parsed<TraceNode> {
        let name = parser.prefixed('%')?.to_owned();
        parser.expect(":")?;
        let optional = |parser: &mut Parser<'_>| match parser.keyword("none") {
            true => Ok(None),
            false => self.parse_type(parser).map(Some),
        };
        let is_list = parser.at("(");
        let types = match is_list {
            true => parser.list("(", ",", ")", optional)?,
            false => vec![optional(parser)?],
        };
        parser.expect("=")?;
        let operator = parser.identifier()?.to_owned();
        let (mut arguments, mut named) = (Vec::new(), Vec::new());
        parser.list("(", ",", ")", |parser| {
            let is_named = *parser.peek_at(1) == Token::Punctuation("=");
            if is_named {
                let name = parser.identifier()?.to_owned();
                parser.expect("=")?;
                named.push((name, self.parse_argument(parser)?));
            } else {
                arguments.push(self.parse_argument(parser)?);
            }
            Ok(())
        })?;
        Ok(TraceNode { name, types, is_list, operator, arguments, named })
    }

    fn parse_argument(&self, parser: &mut Parser<'_>) -> Parsed<TraceArgument> {
        let negative = usize::from(parser.at("-"));
        let token = parser.peek_at(negative).clone();
        Ok(match token {
            Token::Float(_) | Token::Identifier("inf" | "nan") => {
                TraceArgument::Float(parser.float()?)
            }
            Token::Identifier("none") => {
                parser.next();
                TraceArgument::None
            }
            Token::Identifier(word @ ("true" | "false")) => {
                parser.next();
                TraceArgument::Bool(word == "true")
            }
            Token::Identifier("complex") => {
                parser.next();
                match parser.list("(", ",", ")", Parser::float)?[..] {
                    [re, im] => TraceArgument::Complex(re, im),
                    _ => return Err(parser.unexpected("two parts of a complex number")),
                }
            }
            Token::Identifier(word) if element(word).is_some() => {
                TraceArgument::DType(parse_element(parser)?.0)
            }
            Token::String(_) => TraceArgument::Text(parser.string()?),
            Token::Prefixed('%', _) => TraceArgument::Value(parser.prefixed('%')?.to_owned()),
            Token::Punctuation("[") => {
                let item = |parser: &mut Parser<'_>| self.parse_argument(parser);
                TraceArgument::List(parser.list("[", ",", "]", item)?)
            }
            _ => TraceArgument::Integer(self.parse_expr(parser)?),
        })
    }
}

impl TraceArgument {
    fn for_each_expr(&mut self, visit: &dyn Fn(&mut Expr)) {
        match self {
            TraceArgument::Integer(expr) => visit(expr),
            TraceArgument::List(items) => items.iter_mut().for_each(|it| it.for_each_expr(visit)),
            _ => {}
        }
    }
}

fn parse_result(parser: &mut Parser<'_>) -> Parsed<TraceResult> {
    let value = parser.prefixed('%')?.to_owned();
    let name = if parser.keyword("as") { Some(parser.string()?) } else { None };
    Ok(TraceResult { value, name })
}

/// The element type of this name, and whether the elements are complex numbers of such parts.
fn element(word: &str) -> Option<(DType, bool)> {
    match word {
        "c64" => Some((DType::F32, true)),
        "c128" => Some((DType::F64, true)),
        _ => Some((DType::all().find(|dtype| dtype.name() == word)?, false)),
    }
}

fn parse_element(parser: &mut Parser<'_>) -> Parsed<(DType, bool)> {
    let found = match *parser.peek() {
        Token::Identifier(word) => element(word),
        _ => None,
    };
    let found = found.ok_or_else(|| parser.unexpected("an element type"))?;
    parser.next();
    Ok(found)
}
