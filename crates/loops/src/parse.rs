//! Text to kernels: reads what `print` writes; see there for the form.
//!
//! A name is known from where it is declared to the end of the text; that its use lies inside the
//! loop or block that binds it is the verifier's business. Ids are handed out in order of
//! declaration, as the printer has them.

use std::collections::BTreeMap;

use base::text::{Parser, TextError, Token};
use base::{Arena, Id, LocationId};
use sym::{Expr, SymbolId, parse_expr, parse_range};
use tensor::{DType, Reduction, Scalar, ScalarFunction};

use crate::kernel::{
    Access, Buffer, BufferId, Comparison, Condition, Kernel, KernelSymbol, Loop, LoopKind,
    ScalarExpr, Scope, Stmt, SymbolKind,
};
use crate::print::{comparison_sign, infix, update_sign};

type Parsed<T> = Result<T, TextError>;

/// Words that no symbol can be called, since they mean something in values and index expressions.
const RESERVED: [&str; 11] =
    ["div", "mod", "min", "max", "true", "false", "inf", "nan", "index", "guard", "fold"];

/// Whether a symbol or buffer can be called so: an identifier of C that is no word of the text
/// form.
pub fn is_name(name: &str) -> bool {
    let mut bytes = name.bytes();
    bytes.next().is_some_and(|byte| byte.is_ascii_alphabetic() || byte == b'_')
        && bytes.all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
        && !RESERVED.contains(&name)
        && DType::parse(name).is_none()
}

/// Reads one kernel and nothing else.
///
/// # Errors
/// A diagnostic that points at the first place that does not parse.
pub fn parse(text: &str) -> base::Result<Kernel> {
    let mut parser = Parser::new(text);
    let kernel = parse_kernel(&mut parser)?;
    parser.expect_end()?;
    Ok(kernel)
}

/// Reads one kernel, which may be followed by other text.
///
/// # Errors
/// The first place that does not parse.
pub fn parse_kernel(parser: &mut Parser<'_>) -> Parsed<Kernel> {
    let kernel = Kernel {
        name: String::new(),
        symbols: Arena::new(),
        buffers: Arena::new(),
        parameters: Vec::new(),
        body: Vec::new(),
        origin: Vec::new(),
    };
    let (symbols, buffers) = (BTreeMap::new(), BTreeMap::new());
    let mut reader = Reader { parser, kernel, symbols, buffers };
    reader.kernel()?;
    Ok(reader.kernel)
}

struct Reader<'p, 't> {
    parser: &'p mut Parser<'t>,
    kernel: Kernel,
    symbols: BTreeMap<String, SymbolId>,
    buffers: BTreeMap<String, BufferId>,
}

impl Reader<'_, '_> {
    fn kernel(&mut self) -> Parsed<()> {
        self.parser.expect_keyword("kernel")?;
        self.kernel.name = self.parser.prefixed('@')?.to_owned();
        self.parser.expect("(")?;
        while !self.parser.eat(")") {
            if matches!(self.parser.peek(), Token::Prefixed('%', _)) {
                let id = self.buffer()?;
                if !matches!(self.kernel.buffers[id].scope, Scope::Parameter(_)) {
                    return Err(self.parser.error("a parameter is `read`, `write` or `update`"));
                }
                self.kernel.parameters.push(id);
            } else {
                self.shape_symbol()?;
            }
            if !self.parser.at(")") {
                self.parser.expect(",")?;
            }
        }
        if self.parser.keyword("origin") {
            self.kernel.origin = self.parser.list("[", ",", "]", location)?;
        }
        self.parser.expect("{")?;
        while matches!(self.parser.peek(), Token::Prefixed('%', _))
            && *self.parser.peek_at(1) == Token::Punctuation(":")
        {
            let id = self.buffer()?;
            if matches!(self.kernel.buffers[id].scope, Scope::Parameter(_)) {
                return Err(self.parser.error("a buffer of the body is `scratch` or `register`"));
            }
        }
        self.kernel.body = self.rest_of_block()?;
        Ok(())
    }

    fn shape_symbol(&mut self) -> Parsed<()> {
        let position = self.parser.position();
        let name = self.parser.identifier()?.to_owned();
        self.parser.expect(":")?;
        self.parser.expect_keyword("shape")?;
        let number = self.parser.unsigned()?;
        let number = u32::try_from(number)
            .map_err(|_| self.parser.error_at(position, "this position is beyond 32 bits"))?;
        self.parser.expect_keyword("in")?;
        let range = parse_range(self.parser)?;
        let usual = match self.parser.keyword("usual") {
            true => self.parser.integer()?,
            false => range.usual(),
        };
        self.define(position, name, SymbolKind::Shape { position: number, range, usual })?;
        Ok(())
    }

    fn define(
        &mut self,
        position: base::text::Position,
        name: String,
        kind: SymbolKind,
    ) -> Parsed<SymbolId> {
        if !is_name(&name) {
            return Err(self.parser.error_at(position, format!("`{name}` cannot be a name")));
        }
        if self.symbols.contains_key(&name) {
            let message = format!("`{name}` is already defined in this kernel");
            return Err(self.parser.error_at(position, message));
        }
        let id = self.kernel.symbols.push(KernelSymbol { name: name.clone(), kind });
        self.symbols.insert(name, id);
        Ok(id)
    }

    /// `%name: scope dtype[shape] strides [...]`
    fn buffer(&mut self) -> Parsed<BufferId> {
        let position = self.parser.position();
        let name = self.parser.prefixed('%')?.to_owned();
        if !is_name(&name) {
            return Err(self.parser.error_at(position, format!("`{name}` cannot be a name")));
        }
        if self.buffers.contains_key(&name) {
            let message = format!("`%{name}` is already defined in this kernel");
            return Err(self.parser.error_at(position, message));
        }
        self.parser.expect(":")?;
        let scope = match *self.parser.peek() {
            Token::Identifier("read") => Scope::Parameter(Access::Read),
            Token::Identifier("write") => Scope::Parameter(Access::Write),
            Token::Identifier("update") => Scope::Parameter(Access::Update),
            Token::Identifier("scratch") => Scope::Scratch,
            Token::Identifier("register") => Scope::Register,
            _ => return Err(self.parser.unexpected("a scope")),
        };
        self.parser.next();
        let dtype = self.dtype()?;
        let shape = self.index()?;
        let strides = if self.parser.keyword("strides") { Some(self.index()?) } else { None };
        let buffer = Buffer { name: name.clone(), dtype, shape, strides, scope };
        let id = self.kernel.buffers.push(buffer);
        self.buffers.insert(name, id);
        Ok(id)
    }

    fn dtype(&mut self) -> Parsed<DType> {
        let position = self.parser.position();
        let name = self.parser.identifier()?;
        DType::parse(name)
            .ok_or_else(|| self.parser.error_at(position, format!("`{name}` is no element type")))
    }

    fn block(&mut self) -> Parsed<Vec<Stmt>> {
        self.parser.expect("{")?;
        self.rest_of_block()
    }

    fn rest_of_block(&mut self) -> Parsed<Vec<Stmt>> {
        let mut statements = Vec::new();
        while !self.parser.eat("}") {
            statements.push(self.statement()?);
        }
        Ok(statements)
    }

    fn statement(&mut self) -> Parsed<Stmt> {
        if self.parser.keyword("for") {
            return self.for_loop();
        }
        if self.parser.keyword("let") {
            return self.let_value();
        }
        if self.parser.keyword("if") {
            let conditions = self.conditions()?;
            let then = self.block()?;
            let otherwise = if self.parser.keyword("else") { self.block()? } else { Vec::new() };
            return Ok(Stmt::If { conditions, then, otherwise });
        }
        if self.parser.keyword("while") {
            let setup = self.block()?;
            self.parser.expect_keyword("holds")?;
            let condition = self.value()?;
            let body = self.block()?;
            return Ok(Stmt::While { setup, condition, body });
        }
        if self.parser.keyword("prefetch") {
            let (buffer, index) = self.element()?;
            return Ok(Stmt::Prefetch { buffer, index });
        }
        if !matches!(self.parser.peek(), Token::Prefixed('%', _)) {
            return Err(self.parser.unexpected("a statement"));
        }
        let (buffer, index) = self.element()?;
        if self.parser.eat("=") {
            return Ok(Stmt::Store { buffer, index, value: self.value()? });
        }
        let reduction = self.update()?;
        Ok(Stmt::Reduce { buffer, index, reduction, value: self.value()? })
    }

    fn for_loop(&mut self) -> Parsed<Stmt> {
        let position = self.parser.position();
        let name = self.parser.identifier()?.to_owned();
        self.parser.expect("<")?;
        let extent = self.expression()?;
        let variable = self.define(position, name, SymbolKind::Loop)?;
        let kind = if self.parser.keyword("parallel") {
            LoopKind::Parallel
        } else if self.parser.keyword("vector") {
            LoopKind::Vector
        } else if self.parser.keyword("unroll") {
            LoopKind::Unroll
        } else if self.parser.keyword("as") {
            LoopKind::Instruction(self.parser.identifier()?.into())
        } else {
            LoopKind::Serial
        };
        let body = self.block()?;
        Ok(Stmt::For(Box::new(Loop { variable, extent, kind, body })))
    }

    fn let_value(&mut self) -> Parsed<Stmt> {
        let position = self.parser.position();
        let name = self.parser.identifier()?.to_owned();
        self.parser.expect(":")?;
        let dtype = self.dtype()?;
        let range = if self.parser.keyword("in") { Some(parse_range(self.parser)?) } else { None };
        self.parser.expect("=")?;
        let value = self.value()?;
        let symbol = self.define(position, name, SymbolKind::Value { dtype, range })?;
        Ok(Stmt::Let { symbol, value })
    }

    /// `+=`, `*=`, `min=` and so on.
    fn update(&mut self) -> Parsed<Reduction> {
        if self.parser.eat("+=") {
            return Ok(Reduction::Sum);
        }
        for reduction in Reduction::all() {
            let Some(word) = update_sign(reduction).strip_suffix('=') else { continue };
            if (self.parser.at_keyword(word) || self.parser.at(word))
                && *self.parser.peek_at(1) == Token::Punctuation("=")
            {
                self.parser.next();
                self.parser.next();
                return Ok(reduction);
            }
        }
        Err(self.parser.unexpected("`=`, `+=`, `*=`, `min=`, `max=`, `and=` or `or=`"))
    }

    fn element(&mut self) -> Parsed<(BufferId, Vec<Expr>)> {
        let position = self.parser.position();
        let name = self.parser.prefixed('%')?;
        let Some(&buffer) = self.buffers.get(name) else {
            let message = format!("this kernel has no buffer `%{name}`");
            return Err(self.parser.error_at(position, message));
        };
        Ok((buffer, self.index()?))
    }

    fn index(&mut self) -> Parsed<Vec<Expr>> {
        self.parser.expect("[")?;
        let mut index = Vec::new();
        while !self.parser.eat("]") {
            index.push(self.expression()?);
            if !self.parser.at("]") {
                self.parser.expect(",")?;
            }
        }
        Ok(index)
    }

    fn expression(&mut self) -> Parsed<Expr> {
        let symbols = &self.symbols;
        parse_expr(self.parser, &mut |name| symbols.get(name).copied())
    }

    fn conditions(&mut self) -> Parsed<Vec<Condition>> {
        let mut conditions = vec![self.condition()?];
        while self.parser.eat(",") {
            conditions.push(self.condition()?);
        }
        Ok(conditions)
    }

    fn condition(&mut self) -> Parsed<Condition> {
        use Comparison::{Equal, Less, LessEqual, NotEqual};
        let left = self.expression()?;
        let all = [LessEqual, Less, Equal, NotEqual];
        let Some(comparison) = all.into_iter().find(|&c| self.parser.eat(comparison_sign(c)))
        else {
            return Err(self.parser.unexpected("`<`, `<=`, `==` or `!=`"));
        };
        let right = self.expression()?;
        Ok(Condition { left, comparison, right })
    }

    fn value(&mut self) -> Parsed<ScalarExpr> {
        self.infix_value(1)
    }

    /// A value made of operators that bind at least as strongly as `strength`.
    fn infix_value(&mut self, strength: u8) -> Parsed<ScalarExpr> {
        if strength > 2 {
            return self.primary();
        }
        let mut left = self.infix_value(strength + 1)?;
        loop {
            let here = |function: &ScalarFunction| {
                infix(*function).is_some_and(|(sign, own)| own == strength && self.parser.at(sign))
            };
            let Some(function) = ScalarFunction::all().find(here) else { return Ok(left) };
            self.parser.next();
            let right = self.infix_value(strength + 1)?;
            left = self.apply(function, None, vec![left, right])?;
        }
    }

    /// An application whose result type, where not given, follows from the operands.
    fn apply(
        &self,
        function: ScalarFunction,
        dtype: Option<DType>,
        arguments: Vec<ScalarExpr>,
    ) -> Parsed<ScalarExpr> {
        let dtype = match dtype {
            Some(dtype) => dtype,
            None => {
                let operands: Option<Vec<DType>> =
                    arguments.iter().map(|argument| argument.dtype(&self.kernel)).collect();
                let operands = operands
                    .ok_or_else(|| self.parser.error("an operand of this value has no type"))?;
                function.result_dtype(&operands, None).map_err(|e| self.parser.error(e))?
            }
        };
        Ok(ScalarExpr::Apply { function, dtype, arguments })
    }

    fn primary(&mut self) -> Parsed<ScalarExpr> {
        match *self.parser.peek() {
            Token::Punctuation("(") => {
                self.parser.next();
                let value = self.value()?;
                self.parser.expect(")")?;
                Ok(value)
            }
            Token::Prefixed('%', _) => {
                let (buffer, index) = self.element()?;
                Ok(ScalarExpr::Load { buffer, index })
            }
            Token::Punctuation("-") | Token::Integer(_) | Token::Float(_) => self.constant(),
            Token::Identifier("true" | "false" | "inf" | "nan") => self.constant(),
            Token::Identifier("index") => {
                self.parser.next();
                self.parser.expect("(")?;
                let expr = self.expression()?;
                self.parser.expect(")")?;
                Ok(ScalarExpr::Index(expr))
            }
            Token::Identifier("guard") => self.guard(),
            Token::Identifier("fold") => self.fold(),
            Token::Identifier(name) => self.named(name),
            _ => Err(self.parser.unexpected("a value")),
        }
    }

    /// A symbol, or the application of a function by name.
    fn named(&mut self, name: &str) -> Parsed<ScalarExpr> {
        let position = self.parser.position();
        self.parser.next();
        if !self.parser.at("(") && !self.parser.at("<") {
            let Some(&symbol) = self.symbols.get(name) else {
                let message = format!("no symbol `{name}` is defined above");
                return Err(self.parser.error_at(position, message));
            };
            return Ok(ScalarExpr::Symbol(symbol));
        }
        let Some(function) = ScalarFunction::from_name(name) else {
            let message = format!("`{name}` is no scalar function");
            return Err(self.parser.error_at(position, message));
        };
        let mut dtype = None;
        if self.parser.eat("<") {
            dtype = Some(self.dtype()?);
            self.parser.expect(">")?;
        }
        self.parser.expect("(")?;
        let mut arguments = Vec::new();
        while !self.parser.eat(")") {
            arguments.push(self.value()?);
            if !self.parser.at(")") {
                self.parser.expect(",")?;
            }
        }
        self.apply(function, dtype, arguments)
    }

    fn guard(&mut self) -> Parsed<ScalarExpr> {
        self.parser.next();
        self.parser.expect("(")?;
        let conditions = self.conditions()?;
        self.parser.expect("?")?;
        let value = Box::new(self.value()?);
        self.parser.expect(":")?;
        let otherwise = Box::new(self.value()?);
        self.parser.expect(")")?;
        Ok(ScalarExpr::Guard { conditions, value, otherwise })
    }

    fn fold(&mut self) -> Parsed<ScalarExpr> {
        self.parser.next();
        self.parser.expect("(")?;
        let position = self.parser.position();
        let name = self.parser.identifier()?;
        let Some(reduction) = Reduction::from_name(name) else {
            return Err(self.parser.error_at(position, format!("`{name}` is no reduction")));
        };
        self.parser.expect(",")?;
        let (buffer, index) = self.element()?;
        self.parser.expect(")")?;
        Ok(ScalarExpr::Fold { reduction, buffer, index })
    }

    /// `-1.5f16`: sign, number or word, and a type if it is not f32, i64 or bool.
    fn constant(&mut self) -> Parsed<ScalarExpr> {
        let position = self.parser.position();
        let mut text = String::new();
        if self.parser.eat("-") {
            text.push('-');
        }
        let plain = match self.parser.next() {
            Token::Integer(value) => {
                text.push_str(&value.to_string());
                DType::I64
            }
            Token::Float(number) => {
                text.push_str(number);
                DType::F32
            }
            Token::Identifier(word @ ("true" | "false")) => {
                text.push_str(word);
                DType::Bool
            }
            Token::Identifier("inf") => {
                text.push_str("inf");
                DType::F32
            }
            Token::Identifier("nan") => {
                text.push_str("nan");
                if self.parser.eat("(") {
                    text.push_str(&format!("({:#x})", self.parser.unsigned()?));
                    self.parser.expect(")")?;
                }
                DType::F32
            }
            _ => return Err(self.parser.error_at(position, "expected a number")),
        };
        let written = match *self.parser.peek() {
            Token::Identifier(name) => DType::parse(name),
            _ => None,
        };
        if written.is_some() {
            self.parser.next();
        }
        Scalar::parse(written.unwrap_or(plain), &text)
            .map(ScalarExpr::Constant)
            .map_err(|message| self.parser.error_at(position, message))
    }
}

fn location(parser: &mut Parser<'_>) -> Parsed<LocationId> {
    let position = parser.position();
    let name = parser.identifier()?;
    LocationId::parse(name)
        .ok_or_else(|| parser.error_at(position, format!("`{name}` is no location")))
}
