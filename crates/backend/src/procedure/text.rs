//! Procedures as text, and back.
//!
//! ```text
//! procedure take(region, bytes) {
//!   area pair: 16
//!   start = load8(region)
//!   if start < 0 {
//!     return 0
//!   }
//!   store8(region + 8, start + bytes)
//!   end = call room(bytes)
//!   copy(&pair, region, 16)
//!   return start + end
//! }
//! ```
//!
//! Locals are those that are set, and parameters. `@name` is where a symbol is, `&name` where an
//! area begins; `kernel name(..)` calls a kernel, `call [word](..)` what is at an address. An
//! exported procedure is an `export procedure`.

use std::collections::BTreeMap;

use base::Arena;
use base::text::{Parser, Printer, TextError, Token};

use super::{Action, AreaId, Callee, LocalId, MemoryWidth, Procedure, Word, WordOperator};

type Parsed<T> = Result<T, TextError>;

/// Operators that stand between their operands: how tightly they bind, and how they are written.
const INFIX: [(WordOperator, u8, &str); 9] = [
    (WordOperator::Equal, 1, "=="),
    (WordOperator::NotEqual, 1, "!="),
    (WordOperator::LessEqual, 1, "<="),
    (WordOperator::GreaterEqual, 1, ">="),
    (WordOperator::Less, 1, "<"),
    (WordOperator::Greater, 1, ">"),
    (WordOperator::Add, 2, "+"),
    (WordOperator::Subtract, 2, "-"),
    (WordOperator::Multiply, 3, "*"),
];

/// Those that are written as functions.
const FUNCTIONS: [(WordOperator, &str); 8] = [
    (WordOperator::SaturatingAdd, "saturating_add"),
    (WordOperator::SaturatingMultiply, "saturating_multiply"),
    (WordOperator::Quotient, "quotient"),
    (WordOperator::Remainder, "remainder"),
    (WordOperator::Minimum, "minimum"),
    (WordOperator::Maximum, "maximum"),
    (WordOperator::And, "and"),
    (WordOperator::Or, "or"),
];

/// A procedure as text.
#[must_use]
pub fn print_procedure(procedure: &Procedure) -> String {
    let mut printer = Printer::new();
    let parameters: Vec<&str> =
        procedure.locals.values().take(procedure.parameters).map(String::as_str).collect();
    let export = if procedure.is_exported { "export " } else { "" };
    let head = format!("{export}procedure {}({})", procedure.name, parameters.join(", "));
    printer.block(head, |printer| {
        for (name, bytes) in procedure.areas.values() {
            printer.line(format_args!("area {name}: {bytes}"));
        }
        let mut writer = ProcedurePrinter { procedure, printer };
        writer.actions(&procedure.body);
    });
    printer.finish()
}

struct ProcedurePrinter<'a> {
    procedure: &'a Procedure,
    printer: &'a mut Printer,
}

impl ProcedurePrinter<'_> {
    fn actions(&mut self, actions: &[Action]) {
        actions.iter().for_each(|action| self.action(action));
    }

    fn inside(&mut self, actions: &[Action]) {
        self.printer.indent();
        self.actions(actions);
        self.printer.dedent();
    }

    fn action(&mut self, action: &Action) {
        let line = match action {
            Action::Set(local, word) => {
                format!("{} = {}", self.procedure.locals[*local], self.word(word, 0))
            }
            Action::Store(width, address, value) => {
                let (address, value) = (self.word(address, 0), self.word(value, 0));
                format!("store{}({address}, {value})", width.bytes())
            }
            Action::If(condition, then, otherwise) => {
                self.printer.line(format_args!("if {} {{", self.word(condition, 0)));
                self.inside(then);
                if !otherwise.is_empty() {
                    self.printer.line("} else {");
                    self.inside(otherwise);
                }
                "}".to_owned()
            }
            Action::Loop(body) => {
                self.printer.line("loop {");
                self.inside(body);
                "}".to_owned()
            }
            Action::Break => "break".to_owned(),
            Action::Return(word) => format!("return {}", self.word(word, 0)),
            Action::Call(result, callee, arguments) => {
                let result = match result {
                    Some(local) => format!("{} = ", self.procedure.locals[*local]),
                    None => String::new(),
                };
                let callee = match callee {
                    Callee::Procedure(name) => format!("call {name}"),
                    Callee::Kernel(name) => format!("kernel {name}"),
                    Callee::Address(word) => format!("call [{}]", self.word(word, 0)),
                };
                let arguments: Vec<String> =
                    arguments.iter().map(|word| self.word(word, 0)).collect();
                format!("{result}{callee}({})", arguments.join(", "))
            }
            Action::Copy { destination, source, bytes } => {
                let [to, from, bytes] = [destination, source, bytes].map(|word| self.word(word, 0));
                format!("copy({to}, {from}, {bytes})")
            }
        };
        self.printer.line(line);
    }

    /// A word, in parentheses where its operator binds less than `level`.
    fn word(&self, word: &Word, level: u8) -> String {
        match word {
            Word::Number(number) => number.to_string(),
            Word::Local(local) => self.procedure.locals[*local].clone(),
            Word::Area(area) => format!("&{}", self.procedure.areas[*area].0),
            Word::Symbol(name) => format!("@{name}"),
            Word::Load(width, address) => {
                format!("load{}({})", width.bytes(), self.word(address, 0))
            }
            Word::Binary(operator, operands) => {
                let (a, b) = (&operands.0, &operands.1);
                let infix = INFIX.iter().find(|(known, ..)| known == operator);
                let Some((_, own, sign)) = infix else {
                    let function = FUNCTIONS.iter().find(|(known, _)| known == operator);
                    let name = function.map_or("", |(_, name)| name);
                    return format!("{name}({}, {})", self.word(a, 0), self.word(b, 0));
                };
                let text = format!("{} {sign} {}", self.word(a, *own), self.word(b, own + 1));
                if *own < level { format!("({text})") } else { text }
            }
        }
    }
}

/// Reads procedures and nothing else.
///
/// # Errors
/// A diagnostic that points at the first place that does not parse.
pub fn parse_procedures(text: &str) -> base::Result<Vec<Procedure>> {
    let mut parser = Parser::new(text);
    let mut procedures = Vec::new();
    while !parser.at_end() {
        procedures.push(parse_one(&mut parser)?);
    }
    Ok(procedures)
}

fn parse_one(parser: &mut Parser<'_>) -> Parsed<Procedure> {
    let is_exported = parser.keyword("export");
    parser.expect_keyword("procedure")?;
    let name = parser.identifier()?.to_owned();
    let parameters = parser.list("(", ",", ")", Parser::identifier)?;
    let mut procedure = Procedure { is_exported, ..Procedure::new(name, &[]) };
    procedure.parameters = parameters.len();
    let mut reader =
        ProcedureReader { parser, procedure, locals: BTreeMap::new(), areas: BTreeMap::new() };
    for parameter in parameters {
        reader.local(parameter);
    }
    let body = reader.block()?;
    Ok(Procedure { body, ..reader.procedure })
}

struct ProcedureReader<'p, 't> {
    parser: &'p mut Parser<'t>,
    procedure: Procedure,
    locals: BTreeMap<&'t str, LocalId>,
    areas: BTreeMap<&'t str, AreaId>,
}

impl<'t> ProcedureReader<'_, 't> {
    fn local(&mut self, name: &'t str) -> LocalId {
        let locals: &mut Arena<LocalId, String> = &mut self.procedure.locals;
        *self.locals.entry(name).or_insert_with(|| locals.push(name.to_owned()))
    }

    fn block(&mut self) -> Parsed<Vec<Action>> {
        self.parser.expect("{")?;
        let mut actions = Vec::new();
        while !self.parser.eat("}") {
            if self.parser.keyword("area") {
                let name = self.parser.identifier()?;
                self.parser.expect(":")?;
                let bytes = self.parser.unsigned()?;
                let area = self.procedure.areas.push((name.to_owned(), bytes));
                self.areas.insert(name, area);
                continue;
            }
            actions.push(self.action()?);
        }
        Ok(actions)
    }

    fn action(&mut self) -> Parsed<Action> {
        if self.parser.keyword("if") {
            let condition = self.word(1)?;
            let then = self.block()?;
            let otherwise = match self.parser.keyword("else") {
                true if self.parser.at_keyword("if") => vec![self.action()?],
                true => self.block()?,
                false => Vec::new(),
            };
            return Ok(Action::If(condition, then, otherwise));
        }
        if self.parser.keyword("loop") {
            return Ok(Action::Loop(self.block()?));
        }
        if self.parser.keyword("break") {
            return Ok(Action::Break);
        }
        if self.parser.keyword("return") {
            return Ok(Action::Return(self.word(1)?));
        }
        if self.parser.keyword("copy") {
            let [destination, source, bytes] = self.arguments("copy")?;
            return Ok(Action::Copy { destination, source, bytes });
        }
        if let Some(call) = self.call(None)? {
            return Ok(call);
        }
        let name = self.parser.identifier()?;
        if let Some(width) = width(name, "store") {
            let [address, value] = self.arguments("store")?;
            return Ok(Action::Store(width, address, value));
        }
        self.parser.expect("=")?;
        let local = self.local(name);
        if let Some(call) = self.call(Some(local))? {
            return Ok(call);
        }
        Ok(Action::Set(local, self.word(1)?))
    }

    fn call(&mut self, result: Option<LocalId>) -> Parsed<Option<Action>> {
        let callee = if self.parser.keyword("kernel") {
            Callee::Kernel(self.parser.identifier()?.to_owned())
        } else if !self.parser.keyword("call") {
            return Ok(None);
        } else if self.parser.eat("[") {
            let word = self.word(1)?;
            self.parser.expect("]")?;
            Callee::Address(word)
        } else {
            Callee::Procedure(self.parser.identifier()?.to_owned())
        };
        Ok(Some(Action::Call(result, callee, self.words()?)))
    }

    fn words(&mut self) -> Parsed<Vec<Word>> {
        self.parser.expect("(")?;
        let mut words = Vec::new();
        while !self.parser.eat(")") {
            words.push(self.word(1)?);
            if !self.parser.eat(",") {
                self.parser.expect(")")?;
                break;
            }
        }
        Ok(words)
    }

    fn arguments<const COUNT: usize>(&mut self, of: &str) -> Parsed<[Word; COUNT]> {
        let position = self.parser.position();
        let words = self.words()?;
        let wrong = |_| self.parser.error_at(position, format!("`{of}` takes {COUNT} words"));
        <[Word; COUNT]>::try_from(words).map_err(wrong)
    }

    /// A word whose operators bind at least as tightly as `level`.
    fn word(&mut self, level: u8) -> Parsed<Word> {
        let mut left = self.simple()?;
        loop {
            let infix = INFIX.iter().find(|(_, own, sign)| *own >= level && self.parser.at(sign));
            let Some((operator, own, sign)) = infix else { return Ok(left) };
            self.parser.expect(sign)?;
            let right = self.word(own + 1)?;
            left = Word::Binary(*operator, Box::new((left, right)));
        }
    }

    fn simple(&mut self) -> Parsed<Word> {
        if self.parser.eat("(") {
            let word = self.word(1)?;
            self.parser.expect(")")?;
            return Ok(word);
        }
        if self.parser.eat("&") {
            let name = self.parser.identifier()?;
            let unknown = || self.parser.error(format!("there is no area `{name}`"));
            return self.areas.get(name).map(|&area| Word::Area(area)).ok_or_else(unknown);
        }
        match *self.parser.peek() {
            Token::Prefixed('@', name) => {
                self.parser.next();
                Ok(Word::Symbol(name.to_owned()))
            }
            Token::Identifier(name) => {
                let position = self.parser.position();
                self.parser.next();
                if let Some(width) = width(name, "load") {
                    let [address] = self.arguments("load")?;
                    return Ok(Word::Load(width, Box::new(address)));
                }
                if let Some((operator, _)) = FUNCTIONS.iter().find(|(_, known)| *known == name) {
                    let [a, b] = self.arguments(name)?;
                    return Ok(Word::Binary(*operator, Box::new((a, b))));
                }
                let unknown =
                    || self.parser.error_at(position, format!("`{name}` has not been set"));
                self.locals.get(name).map(|&local| Word::Local(local)).ok_or_else(unknown)
            }
            _ => Ok(Word::Number(self.parser.integer()?)),
        }
    }
}

/// The width that a name says: `load4`.
fn width(name: &str, word: &str) -> Option<MemoryWidth> {
    MemoryWidth::of_bytes(name.strip_prefix(word)?.parse().ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_prints_parses() {
        let text = "export procedure take(region, bytes) {\n  area pair: 16\n  \
            start = load8(region + 8 * bytes)\n  if start < 0 {\n    return 0\n  } else {\n    \
            loop {\n      start = start - (bytes - 1) * 2\n      if start == 0 {\n        \
            break\n      \
            }\n    }\n  }\n  store4(&pair, quotient(start, bytes + 1))\n  \
            x = call room(@data, -3)\n  x = kernel k0(x)\n  call [load8(x)](1)\n  \
            copy(&pair, region, 16)\n  return saturating_add(x, maximum(x, 1))\n}\n";
        let parsed = parse_procedures(text).unwrap_or_else(|found| panic!("{found}"));
        assert_eq!(print_procedure(&parsed[0]), text);
        assert_eq!(parsed[0].symbols(), ["data", "room", "k0"]);
    }

    #[test]
    fn what_is_not_there_is_named() {
        let refused = |text: &str| match parse_procedures(text) {
            Err(found) => found.to_string(),
            Ok(_) => panic!("`{text}` parses"),
        };
        assert!(refused("procedure f() { return x }").contains("`x` has not been set"));
        assert!(refused("procedure f() { return &x }").contains("there is no area `x`"));
        assert!(refused("procedure f() { copy(1, 2) }").contains("`copy` takes 3 words"));
    }
}
