//! The text form: `4*i + j - 1`, `(i + 3) div 16`, `(i) mod 4`, `min(a, b)`, `max(a, b)`.
//!
//! ```text
//! expr   = term { ("+" | "-") term }
//! term   = factor { ("*" | "div" | "mod") factor }          grouped to the left
//! factor = "-" factor | integer | name | "(" expr ")" | ("min" | "max") "(" expr "," expr ")"
//! name   = identifier | "%" identifier | "@" ... | "^" ... | string
//! ```
//!
//! A name that is no identifier, or one of the words above, prints as a string.
//! Invariant: printing, parsing and printing again gives the same text.

use std::fmt;

use base::text::{Parser, Quoted, TextError, Token, is_identifier};

use crate::expr::{Atom, Expr, SymbolId, Term};
use crate::range::Range;

const WORDS: [&str; 4] = ["div", "mod", "min", "max"];

impl Expr {
    /// Prints the expression with the symbols' names: `expr.display(&|symbol| names[symbol])`.
    pub fn display<'a, N: fmt::Display>(
        &'a self,
        names: &'a dyn Fn(SymbolId) -> N,
    ) -> impl fmt::Display + 'a {
        fmt::from_fn(move |f| print_expr(f, self, &|f, symbol| print_name(f, &names(symbol))))
    }
}

/// Prints each symbol as its id: `4*s0 + 1`.
impl fmt::Debug for Expr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        print_expr(f, self, &|f, symbol| write!(f, "{symbol}"))
    }
}

/// Prints `1..=512`; an end without bound stays empty: `1..`, `..=512`, `..`.
impl fmt::Display for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.min != i64::MIN {
            write!(f, "{}", self.min)?;
        }
        f.write_str("..")?;
        if self.max == i64::MAX { Ok(()) } else { write!(f, "={}", self.max) }
    }
}

/// Reads a range as it prints.
pub fn parse_range(parser: &mut Parser<'_>) -> Result<Range, TextError> {
    let min = if parser.at("..") { i64::MIN } else { parser.integer()? };
    parser.expect("..")?;
    let max = if parser.eat("=") { parser.integer()? } else { i64::MAX };
    Ok(Range { min, max })
}

type PrintName<'a> = &'a dyn Fn(&mut fmt::Formatter<'_>, SymbolId) -> fmt::Result;

fn print_name(f: &mut fmt::Formatter<'_>, name: &dyn fmt::Display) -> fmt::Result {
    let name = name.to_string();
    let plain = name.strip_prefix(['%', '@', '^']);
    let quoted = match plain {
        // Behind a mark an identifier may start with a digit.
        Some(rest) => rest.is_empty() || !is_identifier(&format!("_{rest}")),
        None => !is_identifier(&name) || WORDS.contains(&name.as_str()),
    };
    if quoted { write!(f, "{}", Quoted(&name)) } else { f.write_str(&name) }
}

fn print_expr(f: &mut fmt::Formatter<'_>, expr: &Expr, names: PrintName<'_>) -> fmt::Result {
    let mut first = true;
    for term in &*expr.terms {
        // The negation of `i64::MIN` is no number, so it keeps its sign behind a `+`.
        let subtracted = term.coefficient < 0 && term.coefficient != i64::MIN;
        let sign = match (first, subtracted) {
            (true, true) => "-",
            (true, false) => "",
            (false, true) => " - ",
            (false, false) => " + ",
        };
        f.write_str(sign)?;
        let coefficient = if subtracted { -term.coefficient } else { term.coefficient };
        print_product(f, coefficient, term, first && subtracted, names)?;
        first = false;
    }
    match (first, expr.constant) {
        (true, constant) => write!(f, "{constant}"),
        (false, 0) => Ok(()),
        (false, i64::MIN) => write!(f, " + {}", i64::MIN),
        (false, constant) if constant < 0 => write!(f, " - {}", -constant),
        (false, constant) => write!(f, " + {constant}"),
    }
}

fn print_product(
    f: &mut fmt::Formatter<'_>,
    coefficient: i64,
    term: &Term,
    negated: bool,
    names: PrintName<'_>,
) -> fmt::Result {
    if coefficient != 1 {
        write!(f, "{coefficient}*")?;
    }
    let alone = coefficient == 1 && term.factors().len() == 1 && !negated;
    for (index, atom) in term.factors().iter().enumerate() {
        if index > 0 {
            f.write_str("*")?;
        }
        let is_division = matches!(atom, Atom::FloorDiv(..) | Atom::Mod(..));
        let (open, close) = if is_division && !alone { ("(", ")") } else { ("", "") };
        f.write_str(open)?;
        print_atom(f, atom, names)?;
        f.write_str(close)?;
    }
    Ok(())
}

fn print_atom(f: &mut fmt::Formatter<'_>, atom: &Atom, names: PrintName<'_>) -> fmt::Result {
    let (word, a, b) = match atom {
        Atom::Symbol(symbol) => return names(f, *symbol),
        Atom::FloorDiv(a, b) => ("div", a, b),
        Atom::Mod(a, b) => ("mod", a, b),
        Atom::Min(a, b) => ("min", a, b),
        Atom::Max(a, b) => ("max", a, b),
    };
    if matches!(atom, Atom::Min(..) | Atom::Max(..)) {
        write!(f, "{word}(")?;
        print_expr(f, a, names)?;
        f.write_str(", ")?;
        print_expr(f, b, names)?;
        return f.write_str(")");
    }
    f.write_str("(")?;
    print_expr(f, a, names)?;
    write!(f, ") {word} ")?;
    let bare = b.as_symbol().is_some() || b.as_constant().is_some_and(|value| value >= 0);
    let (open, close) = if bare { ("", "") } else { ("(", ")") };
    f.write_str(open)?;
    print_expr(f, b, names)?;
    f.write_str(close)
}

/// Reads an expression; `resolve` gives the symbol of a name, marked names with their mark, or
/// `None` if the name is unknown, which is an error.
pub fn parse_expr(
    parser: &mut Parser<'_>,
    resolve: &mut dyn FnMut(&str) -> Option<SymbolId>,
) -> Result<Expr, TextError> {
    let mut sum = parse_term(parser, resolve)?;
    loop {
        if parser.eat("+") {
            sum += &parse_term(parser, resolve)?;
        } else if parser.eat("-") {
            sum -= &parse_term(parser, resolve)?;
        } else {
            return Ok(sum);
        }
    }
}

fn parse_term(
    parser: &mut Parser<'_>,
    resolve: &mut dyn FnMut(&str) -> Option<SymbolId>,
) -> Result<Expr, TextError> {
    let mut product = parse_factor(parser, resolve)?;
    loop {
        if parser.eat("*") {
            product = product * &parse_factor(parser, resolve)?;
        } else if parser.keyword("div") {
            product = product.floor_div(&parse_factor(parser, resolve)?);
        } else if parser.keyword("mod") {
            product = product.modulo(&parse_factor(parser, resolve)?);
        } else {
            return Ok(product);
        }
    }
}

fn parse_factor(
    parser: &mut Parser<'_>,
    resolve: &mut dyn FnMut(&str) -> Option<SymbolId>,
) -> Result<Expr, TextError> {
    let before_number = matches!(parser.peek_at(1), Token::Integer(_));
    let name = match parser.peek() {
        Token::Punctuation("-") if before_number => return Ok(parser.integer()?.into()),
        Token::Integer(_) => return Ok(parser.integer()?.into()),
        Token::Punctuation("-") => {
            parser.next();
            return Ok(-parse_factor(parser, resolve)?);
        }
        Token::Punctuation("(") => {
            parser.next();
            let inner = parse_expr(parser, resolve)?;
            parser.expect(")")?;
            return Ok(inner);
        }
        Token::Identifier(word @ ("min" | "max")) => {
            let smaller = *word == "min";
            parser.next();
            parser.expect("(")?;
            let a = parse_expr(parser, resolve)?;
            parser.expect(",")?;
            let b = parse_expr(parser, resolve)?;
            parser.expect(")")?;
            return Ok(if smaller { Expr::min(&a, &b) } else { Expr::max(&a, &b) });
        }
        Token::Identifier(name) if !WORDS.contains(name) => (*name).to_owned(),
        Token::Prefixed(mark, name) => format!("{mark}{name}"),
        Token::String(name) => name.clone().into_owned(),
        _ => return Err(parser.unexpected("an expression")),
    };
    let symbol =
        resolve(&name).ok_or_else(|| parser.error(format!("unknown symbol {}", Quoted(&name))))?;
    parser.next();
    Ok(Expr::symbol(symbol))
}
