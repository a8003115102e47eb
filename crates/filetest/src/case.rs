//! The form of a test file: parsing it into cases and printing it back.
//!
//! Printing keeps every byte of heads and inputs; only expectations are laid out anew. So blessing
//! a file whose outputs did not change leaves it as it was.

const RUN: &str = "// run:";
const EXPECT: &str = "// ----";
const NEXT: &str = "// ====";

/// A test file: its cases in order.
pub(crate) struct File {
    pub(crate) cases: Vec<Case>,
}

/// One case of a test file.
pub(crate) struct Case {
    /// The line of its header, counted from 1.
    pub(crate) line: usize,
    /// The command's name and arguments; empty if the header is missing.
    pub(crate) command: Vec<String>,
    /// The text between the header and the expectation.
    pub(crate) input: String,
    /// The expected output without blank lines at its end; `None` if there is no such part yet.
    pub(crate) expected: Option<String>,
    /// Everything up to and without the `// ----` line, as written.
    source: String,
}

impl File {
    pub(crate) fn parse(text: &str) -> File {
        let mut cases = Vec::new();
        let mut first_line = 1;
        let mut block = String::new();
        for (index, line) in text.split_inclusive('\n').enumerate() {
            if line.trim_end() == NEXT {
                cases.push(Case::parse(first_line, &block));
                block.clear();
                first_line = index + 2;
            } else {
                block.push_str(line);
            }
        }
        if cases.is_empty() || !block.trim().is_empty() {
            cases.push(Case::parse(first_line, &block));
        }
        File { cases }
    }

    pub(crate) fn render(&self) -> String {
        let cases: Vec<String> = self.cases.iter().map(Case::render).collect();
        cases.join(&format!("{NEXT}\n"))
    }
}

impl Case {
    fn parse(first_line: usize, block: &str) -> Case {
        let separator = |line: &&str| line.trim_end() == EXPECT;
        let lines: Vec<&str> = block.split_inclusive('\n').collect();
        let end = lines.iter().position(separator).unwrap_or(lines.len());
        let expected =
            lines.get(end + 1..).map(|rest| without_blank_end(&rest.concat()).to_owned());
        let is_head = |line: &str| line.trim().is_empty() || line.starts_with("//");
        let head = lines[..end].iter().take_while(|line| is_head(line));
        let header = head.clone().position(|line| line.starts_with(RUN));
        let words = header.map_or("", |index| &lines[index][RUN.len()..]);
        let body = header.map_or(0, |index| index + 1);
        Case {
            line: first_line + header.unwrap_or(0),
            command: words.split_whitespace().map(str::to_owned).collect(),
            input: lines[body..end].concat(),
            expected,
            source: lines[..end].concat(),
        }
    }

    fn render(&self) -> String {
        let mut text = self.source.clone();
        if let Some(expected) = &self.expected {
            if !text.ends_with('\n') {
                text.push('\n');
            }
            text.push_str(EXPECT);
            text.push('\n');
            if !expected.is_empty() {
                text.push_str(expected);
                text.push('\n');
            }
        }
        text
    }
}

/// Whether a line would end an expectation when read back.
pub(crate) fn is_separator(line: &str) -> bool {
    line.trim_end() == NEXT
}

pub(crate) fn without_blank_end(text: &str) -> &str {
    text.trim_end_matches(['\n', '\r', ' '])
}

#[cfg(test)]
mod tests {
    use super::*;

    const TWO: &str = "// why\n// run: first a b\nin\n\n// ----\nout\n// ====\n// run: second\n";

    #[test]
    fn parts_are_found() {
        let file = File::parse(TWO);
        let [first, second] = file.cases.as_slice() else { panic!("two cases") };
        assert_eq!((first.line, first.input.as_str()), (2, "in\n\n"));
        assert_eq!(first.command, ["first", "a", "b"]);
        assert_eq!(first.expected.as_deref(), Some("out"));
        assert_eq!((second.line, second.input.as_str(), &second.expected), (8, "", &None));
    }

    #[test]
    fn printing_keeps_the_text() {
        assert_eq!(File::parse(TWO).render(), TWO);
        assert_eq!(File::parse("// run: x\nin\n// ----\n").render(), "// run: x\nin\n// ----\n");
    }

    #[test]
    fn the_header_stands_above_the_input() {
        assert!(File::parse("input\n// run: late\n").cases[0].command.is_empty());
        assert!(File::parse("").cases[0].command.is_empty());
    }
}
