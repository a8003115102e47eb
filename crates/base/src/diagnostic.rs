//! What a user is told when something is wrong.
//!
//! A [`Diagnostic`] says what is wrong (a code and a message), where in what the user wrote, why,
//! and what to do about it. Broken invariants are not diagnostics but assertions; the driver's edge
//! turns those into one with [`codes::INTERNAL_ERROR`].

use std::fmt;
use std::ops::{Deref, DerefMut, Index};

use crate::codes;

/// The result of anything that can be refused.
pub type Result<T> = std::result::Result<T, Diagnostics>;

/// How bad it is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Severity {
    /// Worth knowing; nothing is wrong.
    Note,
    /// The work goes on, but the result may not be what was meant.
    Warning,
    /// The work stops.
    Error,
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Severity::Note => "note",
            Severity::Warning => "warning",
            Severity::Error => "error",
        })
    }
}

/// Bytes of a text that are kept: parts of a file end up in it, which can be of any length.
const MOST_BYTES: usize = 8192;

/// The text, or the front of it, and how long it is.
#[inline(never)]
fn shortened(mut text: String) -> String {
    if text.len() > MOST_BYTES {
        let bytes = text.len();
        text.truncate(text.floor_char_boundary(MOST_BYTES / 2));
        text += &format!("… ({bytes} bytes)");
    }
    text
}

/// One message to the user. Prints as
///
/// ```text
/// error[TW0103]: operator `Foo` is not supported
///   --> node "encoder/foo_1"
///   = because: ...
///   = remedy: ...
/// ```
///
/// It is a pointer to its [`Content`]: functions that may refuse hand on results that are small,
/// and hold little code for those that are refused.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Diagnostic(Box<Content>);

/// What a diagnostic says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Content {
    /// How bad it is.
    pub severity: Severity,
    /// A code of [`codes::CODES`], such as `TW0103`.
    pub code: &'static str,
    /// What is wrong, one line, without a full stop.
    pub message: String,
    /// What the user wrote that is meant: a node's name, a file, an argument.
    pub place: Option<String>,
    /// Why it is wrong, one fact each.
    pub reasons: Vec<String>,
    /// What to do about it.
    pub remedy: Option<String>,
}

impl Deref for Diagnostic {
    type Target = Content;
    fn deref(&self) -> &Content {
        &self.0
    }
}

impl DerefMut for Diagnostic {
    fn deref_mut(&mut self) -> &mut Content {
        &mut self.0
    }
}

/// None of these is inlined where it is called: a refusal is rare, and there are thousands.
impl Diagnostic {
    /// A diagnostic of any severity.
    #[cold]
    #[inline(never)]
    pub fn new(severity: Severity, code: &'static str, message: impl Into<String>) -> Self {
        let (message, place, reasons) = (shortened(message.into()), None, Vec::new());
        let content = Content { severity, code, message, place, reasons, remedy: None };
        Diagnostic(Box::new(content))
    }

    /// An error with a code of [`codes`].
    #[cold]
    #[inline(never)]
    pub fn error(code: &'static str, message: impl Into<String>) -> Self {
        Self::new(Severity::Error, code, message)
    }

    /// A warning with a code of [`codes`].
    pub fn warning(code: &'static str, message: impl Into<String>) -> Self {
        Self::new(Severity::Warning, code, message)
    }

    /// A note with a code of [`codes`].
    pub fn note(code: &'static str, message: impl Into<String>) -> Self {
        Self::new(Severity::Note, code, message)
    }

    /// Says where, in the user's words.
    #[cold]
    #[inline(never)]
    #[must_use]
    pub fn at(mut self, place: impl Into<String>) -> Self {
        self.place = Some(shortened(place.into()));
        self
    }

    /// Says where, unless that has been said: who notices knows the place better than who asked.
    #[must_use]
    pub fn or_at(self, place: impl FnOnce() -> String) -> Self {
        match self.place {
            Some(_) => self,
            None => self.at(place()),
        }
    }

    /// Adds a reason.
    #[cold]
    #[inline(never)]
    #[must_use]
    pub fn because(mut self, reason: impl Into<String>) -> Self {
        self.reasons.push(shortened(reason.into()));
        self
    }

    /// Says what to do.
    #[cold]
    #[inline(never)]
    #[must_use]
    pub fn remedy(mut self, remedy: impl Into<String>) -> Self {
        self.remedy = Some(shortened(remedy.into()));
        self
    }
}

/// What a piece of a printed diagnostic is: who prints in colours chooses by it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Piece {
    /// The severity and the code, `error[TW0103]`.
    Severity(Severity),
    /// What is wrong.
    Message,
    /// What a line begins with, `-->` or `=`.
    Mark,
    /// What the rest of a line is, `because` or `remedy`.
    Label,
    /// A place, a reason, a remedy, and what stands between pieces.
    Text,
}

/// Takes the pieces of what is printed, one after the other.
type Write<'w> = dyn FnMut(Piece, &str) -> fmt::Result + 'w;

/// Continuation lines are indented under the first, so that one diagnostic stays one block.
fn write_indented(write: &mut Write<'_>, mark: &str, label: &str, text: &str) -> fmt::Result {
    write(Piece::Text, "\n  ")?;
    write(Piece::Mark, mark)?;
    if !label.is_empty() {
        write(Piece::Text, " ")?;
        write(Piece::Label, label)?;
    }
    let mut lines = text.lines();
    write(Piece::Text, " ")?;
    write(Piece::Text, lines.next().unwrap_or(""))?;
    lines.try_for_each(|line| write(Piece::Text, &format!("\n      {line}")))
}

impl Diagnostic {
    /// Writes it, piece by piece: put together, they are what it prints as.
    ///
    /// # Errors
    /// Those of `write`.
    pub fn write_pieces(&self, write: &mut Write<'_>) -> fmt::Result {
        write(Piece::Severity(self.severity), &format!("{}[{}]", self.severity, self.code))?;
        write(Piece::Message, &format!(": {}", self.message))?;
        if let Some(place) = &self.place {
            write_indented(write, "-->", "", place)?;
        }
        for reason in &self.reasons {
            write_indented(write, "=", "because:", reason)?;
        }
        if let Some(remedy) = &self.remedy {
            write_indented(write, "=", "remedy:", remedy)?;
        }
        Ok(())
    }
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write_pieces(&mut |_, text| f.write_str(text))
    }
}

impl std::error::Error for Diagnostic {}

/// Several diagnostics: a refusal tells everything it found at once, and of a file with any number
/// of faults the first [`MOST`](Diagnostics::MOST).
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Diagnostics {
    kept: Vec<Diagnostic>,
    /// How many more there were.
    more: usize,
}

impl Diagnostics {
    /// The most that are kept; the others are counted.
    pub const MOST: usize = 256;

    /// None yet.
    pub const fn new() -> Self {
        Diagnostics { kept: Vec::new(), more: 0 }
    }

    /// A broken invariant of the compiler, in a sentence: [`codes::INTERNAL_ERROR`].
    #[cold]
    #[inline(never)]
    #[must_use]
    pub fn internal(reason: impl Into<String>) -> Self {
        Diagnostic::error(codes::INTERNAL_ERROR, reason).into()
    }

    /// Adds one.
    pub fn push(&mut self, diagnostic: Diagnostic) {
        if self.kept.len() < Self::MOST {
            self.kept.push(diagnostic);
            return;
        }
        self.more += 1;
        // What stops the work is not lost among warnings.
        if diagnostic.severity == Severity::Error && !self.has_errors() {
            self.kept.pop();
            self.kept.push(diagnostic);
        }
    }

    /// Adds all of `other`.
    pub fn append(&mut self, other: Diagnostics) {
        self.more += other.more;
        other.kept.into_iter().for_each(|diagnostic| self.push(diagnostic));
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.kept.is_empty()
    }

    /// How many are kept.
    pub fn len(&self) -> usize {
        self.kept.len()
    }

    /// Those that are kept, in the order found.
    pub fn iter(&self) -> std::slice::Iter<'_, Diagnostic> {
        self.kept.iter()
    }

    /// Each as `change` makes it.
    #[must_use]
    pub fn map(self, change: impl FnMut(Diagnostic) -> Diagnostic) -> Diagnostics {
        Diagnostics { kept: self.kept.into_iter().map(change).collect(), more: self.more }
    }

    /// Whether one of them stops the work.
    pub fn has_errors(&self) -> bool {
        self.kept.iter().any(|diagnostic| diagnostic.severity == Severity::Error)
    }

    /// `Err(self)` where there is an error, else `Ok(value)`: the end of a collecting loop.
    /// Warnings without an error are dropped; take them out first where they matter.
    pub fn or_ok<T>(self, value: T) -> Result<T> {
        if self.has_errors() { Err(self) } else { Ok(value) }
    }
}

impl From<Diagnostic> for Diagnostics {
    #[cold]
    #[inline(never)]
    fn from(diagnostic: Diagnostic) -> Self {
        Diagnostics { kept: vec![diagnostic], more: 0 }
    }
}

impl Index<usize> for Diagnostics {
    type Output = Diagnostic;
    fn index(&self, number: usize) -> &Diagnostic {
        &self.kept[number]
    }
}

impl FromIterator<Diagnostic> for Diagnostics {
    fn from_iter<S: IntoIterator<Item = Diagnostic>>(items: S) -> Self {
        let mut found = Diagnostics::new();
        items.into_iter().for_each(|diagnostic| found.push(diagnostic));
        found
    }
}

impl IntoIterator for Diagnostics {
    type Item = Diagnostic;
    type IntoIter = std::vec::IntoIter<Diagnostic>;
    fn into_iter(self) -> Self::IntoIter {
        self.kept.into_iter()
    }
}

impl Diagnostics {
    /// Writes them, piece by piece: put together, they are what they print as.
    ///
    /// # Errors
    /// Those of `write`.
    pub fn write_pieces(&self, write: &mut Write<'_>) -> fmt::Result {
        for (index, diagnostic) in self.kept.iter().enumerate() {
            if index > 0 {
                write(Piece::Text, "\n")?;
            }
            diagnostic.write_pieces(write)?;
        }
        match self.more {
            0 => Ok(()),
            more => write(Piece::Text, &format!("\nand {more} more")),
        }
    }
}

impl fmt::Display for Diagnostics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write_pieces(&mut |_, text| f.write_str(text))
    }
}

/// As they are printed, on lines of their own: what `main` and `unwrap` show of an error.
impl fmt::Debug for Diagnostics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\n{self}")
    }
}

impl std::error::Error for Diagnostics {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codes;

    #[test]
    fn prints_every_part() {
        let diagnostic =
            Diagnostic::error(codes::UNSUPPORTED_OPERATOR, "operator `Foo` is not supported")
                .at("node \"a/foo\"")
                .because("it is not in the table\nof operators")
                .remedy("export without it");
        let expected = "error[TW0103]: operator `Foo` is not supported
  --> node \"a/foo\"
  = because: it is not in the table
      of operators
  = remedy: export without it";
        assert_eq!(diagnostic.to_string(), expected);
        let both: Diagnostics = [diagnostic.clone(), diagnostic].into_iter().collect();
        assert_eq!(both.to_string(), format!("{expected}\n{expected}"));
    }

    #[test]
    fn of_very_many_the_first_are_kept_and_an_error() {
        let warning =
            |number: usize| Diagnostic::warning(codes::UNKNOWN_OPSET, format!("opset {number}"));
        let mut found: Diagnostics = (0..1000).map(warning).collect();
        found.push(Diagnostic::error(codes::GRAPH_CYCLE, "a cycle"));
        found.append((0..10).map(warning).collect());
        assert_eq!(found.len(), Diagnostics::MOST);
        let text = found.to_string();
        assert!(
            text.starts_with("warning[TW0108]: opset 0\n") && text.contains("a cycle"),
            "{text}"
        );
        assert!(text.ends_with(&format!("and {} more", 1011 - Diagnostics::MOST)), "{text}");
        assert!(found.has_errors());
        let placed = found.map(|diagnostic| diagnostic.at("here")).to_string();
        assert!(placed.contains("--> here") && placed.ends_with("more"), "{placed}");
    }

    #[test]
    fn long_texts_are_cut() {
        let text = "ä".repeat(100_000);
        let diagnostic = Diagnostic::error(codes::GRAPH_CYCLE, text.clone()).at(text.clone());
        let said = diagnostic.because(text.clone()).remedy(text).to_string();
        assert!(said.len() < 20_000 && said.contains("ä… (200000 bytes)"), "{said}");
    }

    #[test]
    fn only_errors_stop_the_work() {
        let mut found = Diagnostics::new();
        found.push(Diagnostic::warning(codes::UNKNOWN_OPSET, "opset 99"));
        assert_eq!(found.clone().or_ok(1), Ok(1));
        found.push(Diagnostic::error(codes::GRAPH_CYCLE, "a cycle"));
        assert!(found.or_ok(1).is_err());
    }
}
