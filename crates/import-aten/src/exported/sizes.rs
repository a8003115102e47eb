//! Sizes as the file has them: integers, and expressions of sympy as text.
//!
//! `Add(Integer(1), Mul(Integer(2), Symbol('s0', positive=True)))` is how PyTorch 2.6 and later
//! write them, `2*s0 + 1` how it was before; both are read by one grammar, a call being a factor.

use base::{Diagnostic, Id};
use front::Accepted;
use sym::{Expr, Range, SymbolId};

use super::schema::{Reader, refused, unsupported_type};
use crate::trace::TraceSymbol;

/// How deep expressions may be within each other.
const MOST_NESTED: usize = 64;

/// The symbols met so far.
#[derive(Default)]
pub(super) struct Sizes {
    pub(super) symbols: Vec<TraceSymbol>,
    /// The ranges that the program declares.
    ranges: Vec<(String, Range)>,
}

impl Sizes {
    /// With the program's declarations.
    pub(super) fn new(constraints: Option<Reader<'_>>) -> Accepted<Sizes> {
        let mut sizes = Sizes::default();
        let Some(constraints) = constraints else { return Ok(sizes) };
        for (name, row) in constraints.entries()? {
            let bound = |name| row.optional(name)?.map(|it| it.integer()).transpose();
            let (least, most) = (bound("min_val")?, bound("max_val")?);
            let range = Range::new(least.unwrap_or(0).max(0), most.unwrap_or(i64::MAX));
            sizes.ranges.push((name.to_owned(), range));
        }
        Ok(sizes)
    }

    /// A `SymInt` of the schema.
    pub(super) fn size(&mut self, json: &Reader<'_>) -> Accepted<Expr> {
        match json.case()? {
            ("as_int", number) => Ok(number.integer()?.into()),
            ("as_expr", expression) => self.expression(expression.field("expr_str")?.text()?),
            (case, _) => Err(refused(format!("a size is given by `{case}`"))),
        }
    }

    /// An expression as text.
    pub(super) fn expression(&mut self, text: &str) -> Accepted<Expr> {
        let mut parser = Parser { sizes: self, rest: text, depth: 0 };
        let found = parser.sum().and_then(|found| match parser.rest.trim_start() {
            "" => Ok(found),
            _ => Err(parser.unexpected()),
        });
        let number = found?.number();
        number.ok_or_else(|| refused(format!("the size `{text}` is no number")))
    }

    fn symbol(&mut self, name: &str) -> Accepted<Expr> {
        let place = self.symbols.iter().position(|symbol| symbol.name == name);
        let place = match place {
            Some(place) => place,
            // PyTorch calls sizes of inputs `s0`, `s1`, .., and those that data decide `u0`, ..
            None if name.starts_with('s') => {
                let declared = self.ranges.iter().find(|(own, _)| own == name);
                let range = declared.map_or(Range::new(0, i64::MAX), |(_, range)| *range);
                self.symbols.push(TraceSymbol { name: name.to_owned(), range, is_data: false });
                self.symbols.len() - 1
            }
            None => {
                return Err(unsupported_type(&format!("the size `{name}` depends on data")));
            }
        };
        Ok(Expr::symbol(<SymbolId as Id>::new(place)))
    }
}

/// What stands at a place of an expression.
enum Term {
    Number(Expr),
    /// The name of a symbol, in quotes.
    Name(String),
    /// What is said of a symbol besides.
    Remark,
}

impl Term {
    fn number(self) -> Option<Expr> {
        match self {
            Term::Number(number) => Some(number),
            Term::Name(_) | Term::Remark => None,
        }
    }
}

struct Parser<'t, 's> {
    sizes: &'s mut Sizes,
    rest: &'t str,
    depth: usize,
}

impl<'t> Parser<'t, '_> {
    fn unexpected(&self) -> Diagnostic {
        let rest: String = self.rest.chars().take(24).collect();
        refused(format!("a size is no formula of whole numbers at `{rest}`"))
    }

    fn eat(&mut self, word: &str) -> bool {
        self.rest = self.rest.trim_start();
        let rest = self.rest.strip_prefix(word);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    /// The longest start of these characters.
    fn word(&mut self, is_part: impl Fn(char) -> bool) -> &'t str {
        self.rest = self.rest.trim_start();
        let end = self.rest.find(|it| !is_part(it)).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest;
        word
    }

    fn checked(&self, found: Expr) -> Accepted<Expr> {
        match found.is_too_long() {
            true => Err(refused("a size is longer than any model needs")),
            false => Ok(found),
        }
    }

    fn expect_number(&self, term: Term) -> Accepted<Expr> {
        term.number().ok_or_else(|| self.unexpected())
    }

    fn sum(&mut self) -> Accepted<Term> {
        if self.depth == MOST_NESTED {
            return Err(refused("a size is nested too deeply"));
        }
        self.depth += 1;
        let mut first = self.product()?;
        loop {
            let negative = match () {
                () if self.eat("+") => false,
                () if self.eat("-") => true,
                () => break,
            };
            let (mut sum, next) = (self.expect_number(first)?, self.product()?);
            let next = self.expect_number(next)?;
            if negative {
                sum -= &next;
            } else {
                sum += &next;
            }
            first = Term::Number(self.checked(sum)?);
        }
        self.depth -= 1;
        Ok(first)
    }

    fn product(&mut self) -> Accepted<Term> {
        let mut first = self.power()?;
        loop {
            let operator = ["//", "*", "%"].into_iter().find(|word| self.eat(word));
            let Some(operator) = operator else { return Ok(first) };
            let (a, b) = (self.expect_number(first)?, self.power()?);
            let b = self.expect_number(b)?;
            let found = match operator {
                "*" => a * &b,
                "%" => a.modulo(&b),
                _ => a.floor_div(&b),
            };
            first = Term::Number(self.checked(found)?);
        }
    }

    fn power(&mut self) -> Accepted<Term> {
        let mut is_negative = false;
        while self.eat("-") {
            is_negative = !is_negative;
        }
        let mut found = self.factor()?;
        if self.eat("**") {
            let (base, exponent) = (self.expect_number(found)?, self.factor()?);
            let exponent = self.expect_number(exponent)?;
            found = Term::Number(self.raised(&base, &exponent)?);
        }
        match is_negative {
            true => Ok(Term::Number(-self.expect_number(found)?)),
            false => Ok(found),
        }
    }

    fn raised(&self, base: &Expr, exponent: &Expr) -> Accepted<Expr> {
        let exponent = exponent.as_constant().filter(|it| (0..=16).contains(it));
        let exponent = exponent.ok_or_else(|| refused("a size has a power that is no number"))?;
        (0..exponent).try_fold(Expr::from(1), |power, _| self.checked(power * base))
    }

    fn factor(&mut self) -> Accepted<Term> {
        if self.eat("(") {
            let inner = self.sum()?;
            return if self.eat(")") { Ok(inner) } else { Err(self.unexpected()) };
        }
        if self.eat("'") {
            let name = self.word(|it| it != '\'').to_owned();
            return if self.eat("'") { Ok(Term::Name(name)) } else { Err(self.unexpected()) };
        }
        let word = self.word(|it| it.is_ascii_alphanumeric() || it == '_' || it == '.');
        if word.starts_with(|it: char| it.is_ascii_digit()) {
            let number: Option<i64> = word.parse().ok();
            return number.map(|it| Term::Number(it.into())).ok_or_else(|| self.unexpected());
        }
        if word.is_empty() {
            return Err(self.unexpected());
        }
        if self.eat("(") {
            let arguments = self.arguments()?;
            return self.call(word, arguments).map(Term::Number);
        }
        if self.eat("=") {
            // What stands behind `positive=`.
            let value = self.word(|it| it.is_ascii_alphanumeric());
            return if value.is_empty() { Err(self.unexpected()) } else { Ok(Term::Remark) };
        }
        match word {
            "True" | "False" | "None" => Ok(Term::Remark),
            _ => self.sizes.symbol(word).map(Term::Number),
        }
    }

    fn arguments(&mut self) -> Accepted<Vec<Term>> {
        let mut arguments = Vec::new();
        while !self.eat(")") {
            arguments.push(self.sum()?);
            if !self.eat(",") && !self.rest.starts_with(')') {
                return Err(self.unexpected());
            }
        }
        Ok(arguments)
    }

    fn call(&mut self, word: &str, arguments: Vec<Term>) -> Accepted<Expr> {
        let function = word.rsplit('.').next().unwrap_or(word);
        if let ("Symbol", Some(Term::Name(name))) = (function, arguments.first()) {
            return self.sizes.symbol(name);
        }
        let numbers: Option<Vec<Expr>> = arguments.into_iter().map(Term::number).collect();
        let numbers = numbers.ok_or_else(|| self.unexpected())?;
        let found = match (function, &numbers[..]) {
            ("Integer", [number]) => number.clone(),
            ("Add", _) => numbers.iter().fold(Expr::from(0), |sum, it| sum + it),
            ("Mul", [first, rest @ ..]) => {
                let factor = |product: Expr, it| self.checked(product * it);
                rest.iter().try_fold(first.clone(), factor)?
            }
            ("Pow" | "PowByNatural", [base, exponent]) => self.raised(base, exponent)?,
            ("FloorDiv" | "CleanDiv", [a, b]) => a.floor_div(b),
            ("Mod" | "PythonMod", [a, b]) => a.modulo(b),
            ("ModularIndexing", [a, b, modulus]) => a.floor_div(b).modulo(modulus),
            ("Max", [first, rest @ ..]) => rest.iter().fold(first.clone(), |a, b| a.max(b)),
            ("Min", [first, rest @ ..]) => rest.iter().fold(first.clone(), |a, b| a.min(b)),
            _ => return Err(unsupported_type(&format!("a size is given by `{function}`"))),
        };
        self.checked(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<String, String> {
        let mut sizes = Sizes::default();
        let found = sizes.expression(text).map_err(|found| found.reasons.join("; "))?;
        let name = |id: SymbolId| sizes.symbols[id.index()].name.clone();
        Ok(found.display(&name).to_string())
    }

    #[test]
    fn both_forms_are_read() {
        for (text, wanted) in [
            ("Symbol('s33', positive=True, integer=True)", "s33"),
            ("Integer(-1)", "-1"),
            ("Add(Integer(1), Mul(Integer(2), Symbol('s0', integer=True)))", "2*s0 + 1"),
            ("Pow(Symbol('s0'), Integer(2))", "s0*s0"),
            ("FloorDiv(Symbol('s0'), Integer(2))", "(s0) div 2"),
            ("torch.utils.Mod(Symbol('s1'), Integer(4))", "(s1) mod 4"),
            ("Max(Integer(1), Symbol('s0'), Symbol('s1'))", "max(max(1, s0), s1)"),
            ("ModularIndexing(Symbol('s0'), Integer(2), Integer(3))", "((s0) div 2) mod 3"),
            ("2*s0 + 1", "2*s0 + 1"),
            ("-s0**2 - (s1 // 2) % 3", "-(((s1) div 2) mod 3) - s0*s0"),
            ("7", "7"),
        ] {
            assert_eq!(read(text).as_deref(), Ok(wanted), "{text}");
        }
    }

    #[test]
    fn what_is_no_size_is_refused() {
        let deep = format!("{}1{}", "(".repeat(100_000), ")".repeat(100_000));
        let minus = "-".repeat(100_000);
        let long = format!("Mul({})", "Add(s0, s1, s2, 1), ".repeat(500));
        for text in [
            "",
            "s0 +",
            "Symbol('s0",
            "Symbol(s0='x')",
            "1/2",
            "u0 + 1",
            "Rational(1, 2)",
            "'s0'",
            "sin(s0)",
            "99999999999999999999",
            "s0**s1",
            "s0**9999",
            "Add('s0')",
            "é",
            &deep,
            &minus,
            &long,
        ] {
            assert!(read(text).is_err(), "{}", &text[..text.len().min(40)]);
        }
    }
}
