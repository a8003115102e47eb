//! Writing text: an indented writer, quoted strings, separated lists.
//!
//! Invariants: a line is indented when its first character is written, so that empty lines stay
//! empty; what [`Quoted`] prints, the lexer reads back.

use std::fmt::{self, Write};

/// A string under construction, indented by two spaces a level. It implements [`fmt::Write`], so
/// `write!(printer, ...)` works and indents every line it starts.
#[derive(Clone, Debug, Default)]
pub struct Printer {
    out: String,
    depth: usize,
    lines: usize,
}

impl Printer {
    /// An empty text at depth 0.
    pub fn new() -> Self {
        Self::default()
    }

    /// The lines that follow stand one level deeper.
    pub fn indent(&mut self) {
        self.depth += 1;
    }

    /// The lines that follow stand one level less deep.
    pub fn dedent(&mut self) {
        self.depth = self.depth.saturating_sub(1);
    }

    /// Writes one line: `printer.line(format_args!("return {value}"))`.
    pub fn line(&mut self, content: impl fmt::Display) {
        self.put(content);
        self.end_line();
    }

    /// Writes a part of a line.
    pub fn put(&mut self, content: impl fmt::Display) {
        // Writing into a string cannot fail; only a broken `Display` can say so, and it is ignored.
        let _ = write!(self, "{content}");
    }

    /// Writes an empty line.
    pub fn blank(&mut self) {
        self.end_line();
    }

    fn end_line(&mut self) {
        self.out.push('\n');
        self.lines += 1;
    }

    /// Writes `content {`, the body one level deeper, and `}`.
    pub fn block(&mut self, content: impl fmt::Display, body: impl FnOnce(&mut Self)) {
        self.line(format_args!("{content} {{"));
        self.indent();
        body(self);
        self.dedent();
        self.line("}");
    }

    /// How many lines have been ended.
    pub fn lines(&self) -> usize {
        self.lines
    }

    /// The text.
    pub fn finish(self) -> String {
        self.out
    }
}

impl Write for Printer {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for part in text.split_inclusive('\n') {
            if part != "\n" && (self.out.is_empty() || self.out.ends_with('\n')) {
                (0..self.depth).for_each(|_| self.out.push_str("  "));
            }
            self.out.push_str(part);
            self.lines += usize::from(part.ends_with('\n'));
        }
        Ok(())
    }
}

/// Prints a string in quotes, with escapes.
#[derive(Clone, Copy, Debug)]
pub struct Quoted<'a>(pub &'a str);

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_char('"')?;
        for character in self.0.chars() {
            match character {
                '"' => f.write_str("\\\"")?,
                '\\' => f.write_str("\\\\")?,
                '\n' => f.write_str("\\n")?,
                '\t' => f.write_str("\\t")?,
                '\r' => f.write_str("\\r")?,
                _ if character.is_control() => write!(f, "\\u{{{:x}}}", character as u32)?,
                _ => f.write_char(character)?,
            }
        }
        f.write_char('"')
    }
}

/// Prints items with a separator between them: `Separated(", ", &items)`.
#[derive(Clone, Copy, Debug)]
pub struct Separated<'a, T>(pub &'a str, pub &'a [T]);

impl<T: fmt::Display> fmt::Display for Separated<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, item) in self.1.iter().enumerate() {
            if index > 0 {
                f.write_str(self.0)?;
            }
            item.fmt(f)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indents_lines_that_have_content() {
        let mut printer = Printer::new();
        printer.block("func @f", |printer| {
            printer.put("a");
            printer.line(format_args!(" {}", Separated(", ", &[1, 2])));
            printer.blank();
            printer.block("loop", |printer| printer.line("x\ny"));
        });
        let expected = "func @f {\n  a 1, 2\n\n  loop {\n    x\n    y\n  }\n}\n";
        assert_eq!(printer.finish(), expected);
    }

    #[test]
    fn quotes() {
        assert_eq!(Quoted("a\"\\\n\u{1}é").to_string(), "\"a\\\"\\\\\\n\\u{1}é\"");
    }
}
