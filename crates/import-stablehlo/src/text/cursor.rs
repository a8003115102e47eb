//! A place in the text, and the words that can be read there.

use super::{MOST_NESTED, Parsed, TextFault};

/// A place in a text that moves on as words are read.
pub(crate) struct Cursor<'t> {
    text: &'t str,
    at: usize,
    nested: usize,
}

fn continues_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$' | b'.')
}

impl<'t> Cursor<'t> {
    pub(crate) fn new(text: &'t str) -> Cursor<'t> {
        Cursor { text, at: 0, nested: 0 }
    }

    /// Where the next word begins.
    pub(crate) fn here(&mut self) -> usize {
        self.skip_space();
        self.at
    }

    /// Where the last word ended.
    pub(crate) fn end(&self) -> usize {
        self.at
    }

    /// Returns to a place before.
    pub(crate) fn back_to(&mut self, at: usize) {
        self.at = at;
    }

    pub(crate) fn text_between(&self, from: usize, to: usize) -> &'t str {
        self.text.get(from..to).unwrap_or_default()
    }

    pub(crate) fn fault<T>(&self, reason: impl Into<String>) -> Parsed<T> {
        Err(TextFault { at: self.at, reason: reason.into() })
    }

    fn bytes(&self) -> &'t [u8] {
        self.text.as_bytes()
    }

    fn skip_space(&mut self) {
        let bytes = self.bytes();
        loop {
            match bytes.get(self.at) {
                Some(byte) if byte.is_ascii_whitespace() => self.at += 1,
                Some(b'/') if bytes.get(self.at + 1) == Some(&b'/') => {
                    let rest = &bytes[self.at..];
                    self.at += rest.iter().position(|&it| it == b'\n').unwrap_or(rest.len());
                }
                _ => return,
            }
        }
    }

    /// The next byte that is no space; 0 at the end.
    pub(crate) fn peek(&mut self) -> u8 {
        self.skip_space();
        self.bytes().get(self.at).copied().unwrap_or(0)
    }

    /// The byte here, spaces included.
    pub(crate) fn byte(&self) -> u8 {
        self.bytes().get(self.at).copied().unwrap_or(0)
    }

    /// Whether the text goes on with a word or sign.
    pub(crate) fn sees(&mut self, sign: &str) -> bool {
        self.skip_space();
        let rest = &self.bytes()[self.at..];
        let is_word = sign.bytes().next_back().is_some_and(continues_word);
        rest.starts_with(sign.as_bytes())
            && !(is_word && rest.get(sign.len()).copied().is_some_and(continues_word))
    }

    /// Reads a word or sign if it is next.
    pub(crate) fn eat(&mut self, sign: &str) -> bool {
        let is_there = self.sees(sign);
        if is_there {
            self.at += sign.len();
        }
        is_there
    }

    pub(crate) fn expect(&mut self, sign: &str) -> Parsed<()> {
        if self.eat(sign) {
            return Ok(());
        }
        let found = self.found();
        self.fault(format!("`{sign}` is expected, where {found} stands"))
    }

    /// What stands here, for messages.
    pub(crate) fn found(&mut self) -> String {
        self.skip_space();
        let rest = self.text.get(self.at..).unwrap_or_default();
        let word: String = rest.chars().take_while(|it| !it.is_whitespace()).take(24).collect();
        if word.is_empty() { "the end".to_owned() } else { format!("`{word}`") }
    }

    /// Bytes as long as they are of a kind.
    pub(crate) fn take_while(&mut self, is_one: impl Fn(u8) -> bool) -> &'t str {
        let begin = self.at;
        while self.bytes().get(self.at).copied().is_some_and(&is_one) {
            self.at += 1;
        }
        self.text_between(begin, self.at)
    }

    /// A word: letters, digits, `_`, `$` and dots, a letter first; empty if there is none.
    pub(crate) fn word(&mut self) -> &'t str {
        self.skip_space();
        match self.byte() {
            first if first.is_ascii_alphabetic() || first == b'_' => {
                self.take_while(continues_word)
            }
            _ => "",
        }
    }

    pub(crate) fn expect_word(&mut self) -> Parsed<&'t str> {
        match self.word() {
            "" => {
                let found = self.found();
                self.fault(format!("a name is expected, where {found} stands"))
            }
            word => Ok(word),
        }
    }

    /// The next word, which stays.
    pub(crate) fn peek_word(&mut self) -> &'t str {
        let begin = self.here();
        let word = self.word();
        self.at = begin;
        word
    }

    /// What follows a sign such as `%`: letters, digits and signs in any order.
    pub(crate) fn suffix(&mut self) -> Parsed<&'t str> {
        let word = self.take_while(|byte| continues_word(byte) || byte == b'-');
        if word.is_empty() { self.fault("a name is expected") } else { Ok(word) }
    }

    /// A decimal number, or `0x` and digits, with a sign.
    pub(crate) fn number(&mut self) -> Parsed<&'t str> {
        self.skip_space();
        let begin = self.at;
        if matches!(self.byte(), b'-' | b'+') {
            self.at += 1;
        }
        if self.bytes()[self.at..].starts_with(b"0x") {
            self.at += 2;
            self.take_while(|byte| byte.is_ascii_hexdigit());
            return Ok(self.text_between(begin, self.at));
        }
        let digits = self.take_while(|byte| byte.is_ascii_digit());
        if digits.is_empty() {
            let found = self.found();
            return self.fault(format!("a number is expected, where {found} stands"));
        }
        if self.byte() == b'.' {
            self.at += 1;
            self.take_while(|byte| byte.is_ascii_digit());
        }
        let exponent = matches!(self.byte(), b'e' | b'E');
        let next = self.bytes().get(self.at + 1).copied().unwrap_or(0);
        let behind = self.bytes().get(self.at + 2).copied().unwrap_or(0);
        let is_signed = matches!(next, b'+' | b'-') && behind.is_ascii_digit();
        if exponent && (next.is_ascii_digit() || is_signed) {
            self.at += 2;
            self.take_while(|byte| byte.is_ascii_digit());
        }
        Ok(self.text_between(begin, self.at))
    }

    pub(crate) fn integer(&mut self) -> Parsed<i64> {
        let text = self.number()?;
        match text.parse() {
            Ok(number) => Ok(number),
            Err(_) => self.fault(format!("`{text}` is no integer of 64 bits")),
        }
    }

    /// A text in quotes as it is written, without the quotes.
    pub(crate) fn quoted(&mut self) -> Parsed<&'t str> {
        self.expect("\"")?;
        let begin = self.at;
        loop {
            match self.byte() {
                b'"' => break,
                b'\\' => self.at = (self.at + 2).min(self.text.len()),
                0 if self.at >= self.text.len() => {
                    return self.fault("a text in quotes has no end");
                }
                _ => self.at += 1,
            }
        }
        let Some(text) = self.text.get(begin..self.at) else {
            return self.fault("a text in quotes is cut within a letter");
        };
        self.at += 1;
        Ok(text)
    }

    /// A text in quotes, escapes resolved; bytes that are no UTF-8 become replacements.
    pub(crate) fn string(&mut self) -> Parsed<String> {
        let text = self.quoted()?.as_bytes();
        let mut bytes = Vec::with_capacity(text.len());
        let mut at = 0;
        while at < text.len() {
            if text[at] != b'\\' {
                bytes.push(text[at]);
                at += 1;
                continue;
            }
            let pair = text.get(at + 1..at + 3).and_then(|it| std::str::from_utf8(it).ok());
            let hex = pair.and_then(|pair| u8::from_str_radix(pair, 16).ok());
            match (text.get(at + 1), hex) {
                (_, Some(byte)) => {
                    bytes.push(byte);
                    at += 3;
                }
                (Some(b'n'), _) => {
                    bytes.push(b'\n');
                    at += 2;
                }
                (Some(b't'), _) => {
                    bytes.push(b'\t');
                    at += 2;
                }
                (Some(other), _) => {
                    bytes.push(*other);
                    at += 2;
                }
                (None, _) => at += 1,
            }
        }
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Reads what stands between brackets.
    pub(crate) fn nested<T>(
        &mut self,
        read: impl FnOnce(&mut Cursor<'t>) -> Parsed<T>,
    ) -> Parsed<T> {
        self.open()?;
        let result = read(self);
        self.close();
        result
    }

    pub(crate) fn open(&mut self) -> Parsed<()> {
        self.nested += 1;
        if self.nested > MOST_NESTED {
            return self.fault(format!("brackets are nested more than {MOST_NESTED} deep"));
        }
        Ok(())
    }

    pub(crate) fn close(&mut self) {
        self.nested -= 1;
    }

    /// Skips to the bracket that closes one of which the inside begins here, and over it.
    pub(crate) fn skip_balanced(&mut self) -> Parsed<()> {
        let mut depth = 1_usize;
        while depth > 0 {
            match self.peek() {
                0 => return self.fault("a bracket is not closed"),
                b'"' => {
                    self.quoted()?;
                    continue;
                }
                b'-' if self.sees("->") => self.at += 1,
                b'<' | b'(' | b'[' | b'{' => depth += 1,
                b'>' | b')' | b']' | b'}' => depth -= 1,
                _ => {}
            }
            self.at += 1;
        }
        // No byte of a letter of several is a bracket, so that this is a place between letters.
        Ok(())
    }
}
