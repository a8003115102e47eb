//! Text to tokens.
//!
//! Invariants: tokens borrow from the text; lexing never fails, but what is no token becomes
//! [`Token::Invalid`], which the parser reports when it gets there. A `.` belongs to an identifier
//! only where a letter, digit or `_` follows, so that `0..n` and `i..n` are three tokens.

use std::borrow::Cow;
use std::fmt;

use super::printer::Quoted;

/// A line and a column, both counted from 1; columns count characters.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Position {
    /// The line, from 1.
    pub line: u32,
    /// The column in characters, from 1.
    pub column: u32,
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.line, self.column)
    }
}

/// One token.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Token<'a> {
    /// Letters, digits, `_` and inner `.`, not starting with a digit.
    Identifier(&'a str),
    /// `%`, `@` or `^`, then letters, digits, `_` and inner `.`; the name is without the mark.
    Prefixed(char, &'a str),
    /// A whole number without sign, decimal or `0x` hexadecimal.
    Integer(u64),
    /// A number with a fraction or an exponent, without sign, as written.
    Float(&'a str),
    /// A string, its escapes undone.
    String(Cow<'a, str>),
    /// A punctuation character, or one of the pairs `-> .. <= == != >= += =>`.
    Punctuation(&'a str),
    /// No token; the reason.
    Invalid(&'static str),
    /// The end of the text.
    End,
}

impl fmt::Display for Token<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Token::Identifier(text) | Token::Float(text) | Token::Punctuation(text) => {
                write!(f, "`{text}`")
            }
            Token::Prefixed(mark, name) => write!(f, "`{mark}{name}`"),
            Token::Integer(value) => write!(f, "`{value}`"),
            Token::String(text) => write!(f, "{}", Quoted(text)),
            Token::Invalid(reason) => f.write_str(reason),
            Token::End => f.write_str("the end of the text"),
        }
    }
}

const PAIRS: [&str; 8] = ["->", "..", "<=", "==", "!=", ">=", "+=", "=>"];

/// Whether `text` lexes as one identifier.
pub fn is_identifier(text: &str) -> bool {
    text.bytes().next().is_some_and(|byte| !byte.is_ascii_digit())
        && name_length(text) == text.len()
}

/// The length of the longest name at the start of `text`, which may start with a digit.
fn name_length(text: &str) -> usize {
    let bytes = text.as_bytes();
    let is_word = |index: usize| {
        bytes.get(index).is_some_and(|byte| byte.is_ascii_alphanumeric() || *byte == b'_')
    };
    let mut length = 0;
    while is_word(length) || (length > 0 && bytes.get(length) == Some(&b'.') && is_word(length + 1))
    {
        length += 1;
    }
    length
}

/// The state of lexing: a text and how far it has been read.
#[derive(Clone, Debug)]
pub struct Lexer<'a> {
    text: &'a str,
    offset: usize,
}

impl<'a> Lexer<'a> {
    /// A lexer at the start of `text`.
    pub fn new(text: &'a str) -> Self {
        Lexer { text, offset: 0 }
    }

    /// The next token and the byte offset it starts at; [`Token::End`] again and again at the end.
    pub fn next_token(&mut self) -> (usize, Token<'a>) {
        self.skip_space();
        let start = self.offset;
        let rest = &self.text[start..];
        let Some(first) = rest.chars().next() else {
            return (start, Token::End);
        };
        let token = match first {
            '"' => self.string(),
            '0'..='9' => self.number(rest),
            'a'..='z' | 'A'..='Z' | '_' => {
                let name = &rest[..name_length(rest)];
                self.offset += name.len();
                Token::Identifier(name)
            }
            '%' | '@' | '^' if name_length(&rest[1..]) > 0 => {
                let name = &rest[1..1 + name_length(&rest[1..])];
                self.offset += 1 + name.len();
                Token::Prefixed(first, name)
            }
            _ if first.is_ascii_punctuation() => {
                let length = if PAIRS.iter().any(|pair| rest.starts_with(pair)) { 2 } else { 1 };
                self.offset += length;
                Token::Punctuation(&rest[..length])
            }
            _ => {
                self.offset += first.len_utf8();
                Token::Invalid("a character that starts no token")
            }
        };
        (start, token)
    }

    fn skip_space(&mut self) {
        loop {
            let rest = &self.text[self.offset..];
            let trimmed = rest.trim_start();
            self.offset += rest.len() - trimmed.len();
            if !trimmed.starts_with("//") {
                return;
            }
            self.offset += trimmed.find('\n').unwrap_or(trimmed.len());
        }
    }

    fn number(&mut self, rest: &'a str) -> Token<'a> {
        let bytes = rest.as_bytes();
        if let Some(hexadecimal) = rest.strip_prefix("0x") {
            let length = hexadecimal.bytes().take_while(u8::is_ascii_hexdigit).count();
            self.offset += 2 + length;
            return match u64::from_str_radix(&hexadecimal[..length], 16) {
                Ok(value) => Token::Integer(value),
                Err(_) => Token::Invalid("a hexadecimal number beyond 64 bits or without digits"),
            };
        }
        let digits_from = |from: usize| {
            from + bytes[from.min(bytes.len())..].iter().take_while(|b| b.is_ascii_digit()).count()
        };
        let is_digit = |index: usize| bytes.get(index).is_some_and(u8::is_ascii_digit);
        let whole = digits_from(0);
        let mut end = whole;
        if bytes.get(end) == Some(&b'.') && is_digit(end + 1) {
            end = digits_from(end + 1);
        }
        if matches!(bytes.get(end), Some(b'e' | b'E')) {
            let sign = usize::from(matches!(bytes.get(end + 1), Some(b'+' | b'-')));
            if is_digit(end + 1 + sign) {
                end = digits_from(end + 1 + sign);
            }
        }
        self.offset += end;
        if end > whole {
            return Token::Float(&rest[..end]);
        }
        match rest[..end].parse() {
            Ok(value) => Token::Integer(value),
            Err(_) => Token::Invalid("a whole number beyond 64 bits"),
        }
    }

    fn string(&mut self) -> Token<'a> {
        let body = &self.text[self.offset + 1..];
        let plain = body.find(['"', '\\', '\n']).unwrap_or(body.len());
        if body[plain..].starts_with('"') {
            self.offset += plain + 2;
            return Token::String(Cow::Borrowed(&body[..plain]));
        }
        let mut value = String::new();
        let mut characters = body.char_indices();
        while let Some((index, character)) = characters.next() {
            match character {
                '"' => {
                    self.offset += index + 2;
                    return Token::String(Cow::Owned(value));
                }
                '\n' => break,
                '\\' => match escape(&mut characters) {
                    Some(character) => value.push(character),
                    None => {
                        self.offset = self.text.len();
                        return Token::Invalid("a string with an unknown escape");
                    }
                },
                _ => value.push(character),
            }
        }
        self.offset = self.text.len();
        Token::Invalid("a string that is not closed on its line")
    }
}

/// The character that the escape after a `\` stands for.
fn escape(characters: &mut std::str::CharIndices<'_>) -> Option<char> {
    match characters.next()?.1 {
        'n' => Some('\n'),
        't' => Some('\t'),
        'r' => Some('\r'),
        '\\' => Some('\\'),
        '"' => Some('"'),
        'u' => {
            characters.next().filter(|(_, open)| *open == '{')?;
            let mut value = 0u32;
            loop {
                match characters.next()?.1 {
                    '}' => return char::from_u32(value),
                    digit => value = value.checked_mul(16)?.checked_add(digit.to_digit(16)?)?,
                }
            }
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lexes `text` and compares the tokens, one a word, with `expected`.
    fn check(text: &str, expected: &str) {
        let mut lexer = Lexer::new(text);
        let mut words = Vec::new();
        loop {
            match lexer.next_token().1 {
                Token::End => break,
                Token::Float(text) => words.push(format!("float:{text}")),
                Token::Integer(value) => words.push(format!("int:{value}")),
                Token::Identifier(name) => words.push(name.to_owned()),
                token => words.push(token.to_string()),
            }
        }
        assert_eq!(words.join(" "), expected);
    }

    #[test]
    fn tokens() {
        check("a.b _c d1 // gone\n e", "a.b _c d1 e");
        check("0..n i..n a. b", "int:0 `..` n i `..` n a `.` b");
        check("%a.0 %12 @w ^b % x", "`%a.0` `%12` `@w` `^b` `%` x");
        check(
            "1 1.5 1e9 2.5e-3 1else 1.x",
            "int:1 float:1.5 float:1e9 float:2.5e-3 int:1 else int:1 `.` x",
        );
        check("0x7f 18446744073709551615", "int:127 int:18446744073709551615");
        check("a->b<=c==-1", "a `->` b `<=` c `==` `-` int:1");
        check(r#""plain" "a\"\n\u{e9}""#, r#""plain" "a\"\né""#);
        check("[f32; 4x8]", "`[` f32 `;` int:4 x8 `]`");
    }

    #[test]
    fn what_is_no_token_is_invalid() {
        check("é", "a character that starts no token");
        check("\"open\nnext", "a string that is not closed on its line");
        check(r#""\q""#, "a string with an unknown escape");
        check("99999999999999999999", "a whole number beyond 64 bits");
        check("0xg", "a hexadecimal number beyond 64 bits or without digits g");
    }
}
