//! Tables in text: rows of fields between commas or tabulators.
//!
//! Source: RFC 4180. A field in quotes may hold separators, line breaks and, doubled, quotes. Lines
//! end with or without a carriage return; empty lines are left out.

use base::Result;

use crate::sentences::malformed;

/// Rows of fields, all of the same number.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Table {
    /// The fields.
    pub(crate) rows: Vec<Vec<String>>,
    /// The line in which each row begins, from 1.
    pub(crate) lines: Vec<usize>,
}

impl Table {
    /// Reads a table.
    pub(crate) fn parse(text: &str, separator: char, place: &str) -> Result<Table> {
        let mut reader = Reader { rest: text, line: 1, separator };
        let mut table = Table { rows: Vec::new(), lines: Vec::new() };
        while !reader.rest.is_empty() {
            if let Some(rest) = after_break(reader.rest) {
                reader = Reader { rest, line: reader.line + 1, ..reader };
                continue;
            }
            let line = reader.line;
            let at = |line: usize| format!("{place}, line {line}");
            let row = reader.row().map_err(|(line, reason)| {
                let remedy =
                    "close each quote, and double those inside of a field: \"a \"\"b\"\"\"";
                malformed("a table", &at(line), reason).remedy(remedy)
            })?;
            let wanted = table.rows.first().map_or(row.len(), Vec::len);
            if row.len() != wanted {
                let reason = format!("it has {} fields, the first row {wanted}", row.len());
                let remedy = "give each row as many fields; quote those that hold the separator";
                return Err(malformed("a table", &at(line), reason).remedy(remedy).into());
            }
            table.rows.push(row);
            table.lines.push(line);
        }
        if table.rows.is_empty() {
            let refused = malformed("a table", place, "it has no rows");
            return Err(refused.remedy("give at least one row").into());
        }
        Ok(table)
    }
}

/// What follows a line break.
fn after_break(text: &str) -> Option<&str> {
    text.strip_prefix("\r\n").or_else(|| text.strip_prefix('\n'))
}

/// A text, read from its front.
struct Reader<'t> {
    rest: &'t str,
    line: usize,
    separator: char,
}

/// The line in which something is wrong, and what.
type Wrong = (usize, &'static str);

impl Reader<'_> {
    fn row(&mut self) -> std::result::Result<Vec<String>, Wrong> {
        let mut fields = Vec::new();
        loop {
            fields.push(self.field()?);
            if let Some(rest) = self.rest.strip_prefix(self.separator) {
                self.rest = rest;
                continue;
            }
            self.rest = after_break(self.rest).unwrap_or(self.rest.trim_start_matches('\r'));
            self.line += 1;
            return Ok(fields);
        }
    }

    fn field(&mut self) -> std::result::Result<String, Wrong> {
        if let Some(rest) = self.rest.strip_prefix('"') {
            self.rest = rest;
            return self.quoted();
        }
        let ends = [self.separator, '\n'];
        let end = self.rest.find(ends).unwrap_or(self.rest.len());
        let (field, rest) = self.rest.split_at(end);
        self.rest = rest;
        Ok(field.strip_suffix('\r').unwrap_or(field).to_owned())
    }

    /// A field whose opening quote has been read.
    fn quoted(&mut self) -> std::result::Result<String, Wrong> {
        let first = self.line;
        let mut field = String::new();
        loop {
            let (text, rest) = self.rest.split_once('"').ok_or((first, "a quote is not closed"))?;
            self.line += text.matches('\n').count();
            field += text;
            self.rest = rest;
            match self.rest.strip_prefix('"') {
                Some(rest) => {
                    field.push('"');
                    self.rest = rest;
                }
                None => break,
            }
        }
        let is_end = matches!(self.rest, "" | "\r") || after_break(self.rest).is_some();
        match is_end || self.rest.starts_with(self.separator) {
            true => Ok(field),
            false => Err((self.line, "text stands behind a closing quote")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(text: &str) -> Vec<Vec<String>> {
        Table::parse(text, ',', "t.csv").expect("a table").rows
    }

    #[test]
    fn fields_as_the_standard_has_them() {
        assert_eq!(rows("a,b\r\n1,2"), [["a", "b"], ["1", "2"]]);
        assert_eq!(rows("\"a,\"\"b\"\"\",\n\n,\"x\ny\"\n"), [["a,\"b\"", ""], ["", "x\ny"]]);
        assert_eq!(rows("\"\"\n1\n"), [[""], ["1"]], "no empty line");
    }

    #[test]
    fn faults_have_their_line() {
        for (text, place, reason) in [
            ("1,2\n\n3\n", "t.csv, line 3", "it has 1 fields, the first row 2"),
            ("1\n\"2\n", "t.csv, line 2", "a quote is not closed"),
            ("\"1\n\"2", "t.csv, line 2", "text stands behind a closing quote"),
            ("\n", "t.csv", "it has no rows"),
        ] {
            let found = Table::parse(text, ',', "t.csv").expect_err("refused");
            assert_eq!(found[0].place.as_deref(), Some(place), "{text:?}");
            assert_eq!(found[0].reasons, [reason], "{text:?}");
        }
    }
}
