//! The parser helper: one token ahead, or as many as asked for, and errors that point.
//!
//! A text form's parser is functions over `&mut Parser` returning `Result<_, TextError>`.
//! The methods named after a thing read it or fail; `eat` and `keyword` read it if it is there.

use std::fmt;

use super::lexer::{Lexer, Position, Token};
use super::number::FloatText;
use crate::codes;
use crate::diagnostic::{Diagnostic, Diagnostics};

/// A text that does not parse: where, and what was expected.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TextError {
    /// The line, from 1.
    pub line: u32,
    /// The column in characters, from 1.
    pub column: u32,
    /// What is wrong.
    pub message: String,
    /// The whole line of text, for the caret to point into.
    pub source_line: String,
}

/// Prints the message, the line and a caret under the column.
impl fmt::Display for TextError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let number = self.line.to_string();
        let margin = " ".repeat(number.len());
        // Tabs stay tabs, so that the caret stands under its column whatever their width.
        let blank = |c: char| if c == '\t' { '\t' } else { ' ' };
        let before = self.column.saturating_sub(1) as usize;
        let space: String = self.source_line.chars().map(blank).take(before).collect();
        writeln!(f, "{}:{}: {}", self.line, self.column, self.message)?;
        writeln!(f, "{margin} |")?;
        writeln!(f, "{number} | {}", self.source_line)?;
        write!(f, "{margin} | {space}^")
    }
}

impl std::error::Error for TextError {}

impl From<TextError> for Diagnostic {
    fn from(error: TextError) -> Self {
        Diagnostic::error(codes::TEXT_SYNTAX, error.message.clone())
            .at(format!("line {}, column {}", error.line, error.column))
            .because(format!("the line is\n{}", error.source_line))
    }
}

impl From<TextError> for Diagnostics {
    fn from(error: TextError) -> Self {
        Diagnostic::from(error).into()
    }
}

/// A text and how far it has been parsed.
#[derive(Clone, Debug)]
pub struct Parser<'a> {
    text: &'a str,
    /// Every token with its byte offset; the last is [`Token::End`].
    tokens: Vec<(usize, Token<'a>)>,
    next: usize,
    /// The byte offset at which each line starts.
    lines: Vec<usize>,
}

type Parsed<T> = Result<T, TextError>;

impl<'a> Parser<'a> {
    /// A parser at the start of `text`.
    pub fn new(text: &'a str) -> Self {
        let mut lexer = Lexer::new(text);
        let mut tokens = Vec::with_capacity(text.len() / 4 + 1);
        loop {
            let token = lexer.next_token();
            let end = token.1 == Token::End;
            tokens.push(token);
            if end {
                let newlines = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n');
                let lines = std::iter::once(0).chain(newlines.map(|(at, _)| at + 1)).collect();
                return Parser { text, tokens, next: 0, lines };
            }
        }
    }

    /// The next token, not yet read.
    pub fn peek(&self) -> &Token<'a> {
        self.peek_at(0)
    }

    /// The token `ahead` places behind the next one, not yet read.
    pub fn peek_at(&self, ahead: usize) -> &Token<'a> {
        &self.tokens[(self.next + ahead).min(self.tokens.len() - 1)].1
    }

    /// Reads one token; [`Token::End`] again and again at the end.
    #[allow(clippy::should_implement_trait)]
    pub fn next(&mut self) -> Token<'a> {
        let token = self.peek().clone();
        self.next = (self.next + 1).min(self.tokens.len() - 1);
        token
    }

    /// Where the next token starts.
    pub fn position(&self) -> Position {
        let offset = self.tokens[self.next].0;
        let line = self.lines.partition_point(|&start| start <= offset);
        let before = &self.text[self.lines[line - 1]..offset];
        Position { line: line as u32, column: before.chars().count() as u32 + 1 }
    }

    /// Whether the whole text has been read.
    pub fn at_end(&self) -> bool {
        *self.peek() == Token::End
    }

    /// Fails unless the whole text has been read.
    pub fn expect_end(&self) -> Parsed<()> {
        if self.at_end() { Ok(()) } else { Err(self.unexpected("the end of the text")) }
    }

    /// An error at the next token.
    #[cold]
    #[inline(never)]
    pub fn error(&self, message: impl Into<String>) -> TextError {
        self.error_at(self.position(), message)
    }

    /// An error at a place remembered with [`position`](Self::position).
    #[cold]
    #[inline(never)]
    pub fn error_at(&self, position: Position, message: impl Into<String>) -> TextError {
        let source_line = self.text.lines().nth(position.line as usize - 1).unwrap_or("");
        TextError {
            line: position.line,
            column: position.column,
            message: message.into(),
            source_line: source_line.to_owned(),
        }
    }

    /// The error `expected X, found Y` at the next token.
    pub fn unexpected(&self, expected: &str) -> TextError {
        self.error(format!("expected {expected}, found {}", self.peek()))
    }

    /// Whether the next token is this punctuation.
    pub fn at(&self, punctuation: &str) -> bool {
        matches!(self.peek(), Token::Punctuation(text) if *text == punctuation)
    }

    /// Whether the next token is this identifier.
    pub fn at_keyword(&self, word: &str) -> bool {
        matches!(self.peek(), Token::Identifier(text) if *text == word)
    }

    /// Reads this punctuation if it is next.
    pub fn eat(&mut self, punctuation: &str) -> bool {
        let found = self.at(punctuation);
        self.next += usize::from(found);
        found
    }

    /// Reads this identifier if it is next.
    pub fn keyword(&mut self, word: &str) -> bool {
        let found = self.at_keyword(word);
        self.next += usize::from(found);
        found
    }

    /// Reads this punctuation.
    pub fn expect(&mut self, punctuation: &str) -> Parsed<()> {
        if self.eat(punctuation) {
            return Ok(());
        }
        Err(self.unexpected(&format!("`{punctuation}`")))
    }

    /// Reads this identifier.
    pub fn expect_keyword(&mut self, word: &str) -> Parsed<()> {
        if self.keyword(word) { Ok(()) } else { Err(self.unexpected(&format!("`{word}`"))) }
    }

    /// Reads an identifier.
    pub fn identifier(&mut self) -> Parsed<&'a str> {
        let Token::Identifier(name) = *self.peek() else {
            return Err(self.unexpected("a name"));
        };
        self.next += 1;
        Ok(name)
    }

    /// Reads a name marked with `%`, `@` or `^` and returns it without the mark.
    pub fn prefixed(&mut self, mark: char) -> Parsed<&'a str> {
        match *self.peek() {
            Token::Prefixed(found, name) if found == mark => {
                self.next += 1;
                Ok(name)
            }
            _ => Err(self.unexpected(&format!("a name that starts with `{mark}`"))),
        }
    }

    /// Reads a string.
    pub fn string(&mut self) -> Parsed<String> {
        let Token::String(text) = self.peek() else {
            return Err(self.unexpected("a string"));
        };
        let text = text.clone().into_owned();
        self.next += 1;
        Ok(text)
    }

    /// Reads a whole number, with or without `-`.
    pub fn integer(&mut self) -> Parsed<i64> {
        let negative = self.at("-");
        let Token::Integer(magnitude) = *self.peek_at(usize::from(negative)) else {
            return Err(self.unexpected("a whole number"));
        };
        let value =
            if negative { 0i64.checked_sub_unsigned(magnitude) } else { magnitude.try_into().ok() };
        let value = value.ok_or_else(|| self.error("this number does not fit into 64 bits"))?;
        self.next += 1 + usize::from(negative);
        Ok(value)
    }

    /// Reads a whole number without sign.
    pub fn unsigned(&mut self) -> Parsed<u64> {
        let Token::Integer(value) = *self.peek() else {
            return Err(self.unexpected("a whole number without sign"));
        };
        self.next += 1;
        Ok(value)
    }

    /// Reads a number of either float type: `1.5`, `-2`, `1e-7`, `inf`, `-nan`, `nan(0x7fc00001)`.
    pub fn float<F: FloatText>(&mut self) -> Parsed<F> {
        let position = self.position();
        let negative = self.eat("-");
        let value = match self.peek().clone() {
            Token::Float(text) => F::parse_finite(text),
            Token::Integer(value) => F::parse_finite(&value.to_string()),
            Token::Identifier("inf") => Some(F::infinity()),
            Token::Identifier("nan") => {
                let bits = if *self.peek_at(1) == Token::Punctuation("(") {
                    self.next += 2;
                    let bits = self.unsigned()?;
                    if !self.at(")") {
                        return Err(self.unexpected("`)`"));
                    }
                    Some(bits)
                } else {
                    None
                };
                F::nan(bits)
            }
            _ => return Err(self.unexpected("a number")),
        };
        let value = value.ok_or_else(|| self.error_at(position, "this type has no such number"))?;
        self.next += 1;
        Ok(if negative { value.negated() } else { value })
    }

    /// Reads `open item sep item ... close`, possibly empty, with or without a last separator.
    pub fn list<T>(
        &mut self,
        open: &str,
        separator: &str,
        close: &str,
        mut item: impl FnMut(&mut Self) -> Parsed<T>,
    ) -> Parsed<Vec<T>> {
        self.expect(open)?;
        let mut items = Vec::new();
        while !self.eat(close) {
            items.push(item(self)?);
            if !self.eat(separator) {
                if self.eat(close) {
                    break;
                }
                return Err(self.unexpected(&format!("`{separator}` or `{close}`")));
            }
        }
        Ok(items)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{print_f32, print_f64};
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn reads_the_small_things() {
        let mut parser = Parser::new("for %i in [1, -2, 3,] { \"a\\tb\" } 7 x");
        assert!(parser.keyword("for") && !parser.keyword("while"));
        assert_eq!(parser.prefixed('%'), Ok("i"));
        assert_eq!(parser.identifier(), Ok("in"));
        assert_eq!(parser.list("[", ",", "]", Parser::integer), Ok(vec![1, -2, 3]));
        assert_eq!(parser.list("{", ",", "}", Parser::string), Ok(vec!["a\tb".to_owned()]));
        assert_eq!(*parser.peek_at(1), Token::Identifier("x"));
        assert_eq!(parser.unsigned(), Ok(7));
        assert!(parser.expect_end().is_err());
        assert_eq!(parser.next(), Token::Identifier("x"));
        assert_eq!((parser.next(), parser.next()), (Token::End, Token::End));
        assert_eq!(parser.expect_end(), Ok(()));
    }

    #[test]
    fn integers_at_the_edges() {
        for value in [i64::MIN, -1, 0, i64::MAX] {
            assert_eq!(Parser::new(&value.to_string()).integer(), Ok(value));
        }
        assert!(Parser::new("9223372036854775808").integer().is_err());
        assert!(Parser::new("-9223372036854775809").integer().is_err());
    }

    #[test]
    fn errors_point() {
        let text = "a\n\tb + é )";
        let mut parser = Parser::new(text);
        parser.next();
        parser.next();
        assert_eq!(
            parser.expect("-").unwrap_err().to_string(),
            "2:4: expected `-`, found `+`\n  |\n2 | \tb + é )\n  | \t  ^"
        );
        parser.next();
        let error = parser.identifier().unwrap_err();
        assert_eq!(error.message, "expected a name, found a character that starts no token");
        parser.next();
        assert_eq!(parser.position(), Position { line: 2, column: 8 });
        let diagnostics = Diagnostics::from(parser.error("no"));
        assert!(diagnostics.to_string().starts_with("error[TW0701]: no\n  --> line 2, column 8"));
        assert_eq!(Parser::new("").identifier().unwrap_err().source_line, "");
    }

    #[test]
    fn floats_that_are_not_finite() {
        for bits in
            [0x7fc0_0000u32, 0xffc0_0000, 0x7f80_0001, 0xff80_0001, 0x7f80_0000, 0xff80_0000]
        {
            let text = print_f32(f32::from_bits(bits)).to_string();
            let read: f32 = Parser::new(&text).float().unwrap();
            assert_eq!(read.to_bits(), bits, "{text}");
        }
        assert!(Parser::new("nan(0x1)").float::<f32>().is_err());
        assert!(Parser::new("1e39").float::<f32>().is_err());
        assert_eq!(Parser::new("-0").float::<f32>().map(f32::to_bits), Ok((-0.0f32).to_bits()));
    }

    proptest! {
        #[test]
        fn floats_round_trip(narrow in any::<u32>(), wide in any::<u64>()) {
            let (narrow, wide) = (f32::from_bits(narrow), f64::from_bits(wide));
            let text = format!("{} {}", print_f32(narrow), print_f64(wide));
            let mut parser = Parser::new(&text);
            prop_assert_eq!(parser.float::<f32>().unwrap().to_bits(), narrow.to_bits());
            prop_assert_eq!(parser.float::<f64>().unwrap().to_bits(), wide.to_bits());
            prop_assert!(parser.at_end());
        }

        #[test]
        fn strings_round_trip(text in any::<String>()) {
            let quoted = super::super::Quoted(&text).to_string();
            prop_assert_eq!(Parser::new(&quoted).string(), Ok(text));
        }

        #[test]
        fn any_text_lexes(text in any::<String>()) {
            let mut parser = Parser::new(&text);
            while parser.next() != Token::End {
                let _ = parser.position();
            }
        }
    }
}
