//! Rust text with comments and literals blanked out, and the lines that only tests compile.
//!
//! Not a parser: it knows comments, string and character literals, attributes and brackets. That
//! is enough to ask "does this word stand in code" without being fooled by prose.

/// `text` with every comment and every string or character literal replaced by spaces. Lines stay
/// where they were.
pub(super) fn only_code(text: &str) -> String {
    let chars: Vec<char> = text.chars().collect();
    let mut out = String::with_capacity(text.len());
    let mut at = 0;
    while at < chars.len() {
        let end = match chars[at] {
            '/' if chars.get(at + 1) == Some(&'/') => end_of_line(&chars, at),
            '/' if chars.get(at + 1) == Some(&'*') => end_of_block_comment(&chars, at),
            '"' => end_of_string(&chars, at),
            'r' if starts_word(&chars, at) => end_of_raw_string(&chars, at).unwrap_or(at),
            '\'' => end_of_char(&chars, at).unwrap_or(at),
            _ => at,
        };
        if end == at {
            out.push(chars[at]);
            at += 1;
        } else {
            out.extend(chars[at..end].iter().map(|&c| if c == '\n' { '\n' } else { ' ' }));
            at = end;
        }
    }
    out
}

/// No letter stands before `at`, except the `b` or `c` of a byte or C string.
fn starts_word(chars: &[char], at: usize) -> bool {
    let is_word = |index: usize| chars[index].is_alphanumeric() || chars[index] == '_';
    match at {
        0 => true,
        _ if !is_word(at - 1) => true,
        _ => matches!(chars[at - 1], 'b' | 'c') && (at == 1 || !is_word(at - 2)),
    }
}

fn end_of_line(chars: &[char], at: usize) -> usize {
    chars[at..].iter().position(|&c| c == '\n').map_or(chars.len(), |offset| at + offset)
}

fn end_of_block_comment(chars: &[char], start: usize) -> usize {
    let (mut at, mut depth) = (start, 0);
    while at < chars.len() {
        match (chars[at], chars.get(at + 1)) {
            ('/', Some('*')) => (depth, at) = (depth + 1, at + 2),
            ('*', Some('/')) => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
        if depth == 0 {
            return at;
        }
    }
    chars.len()
}

fn end_of_string(chars: &[char], start: usize) -> usize {
    let mut at = start + 1;
    while at < chars.len() {
        match chars[at] {
            '\\' => at += 2,
            '"' => return at + 1,
            _ => at += 1,
        }
    }
    chars.len()
}

/// The end of `r"..."` or `r#"..."#`, if one starts at `start`.
fn end_of_raw_string(chars: &[char], start: usize) -> Option<usize> {
    let hashes = chars[start + 1..].iter().take_while(|&&c| c == '#').count();
    let mut at = start + 1 + hashes;
    if chars.get(at) != Some(&'"') {
        return None;
    }
    at += 1;
    while at < chars.len() {
        let closing = chars[at + 1..].iter().take(hashes).filter(|&&c| c == '#').count();
        if chars[at] == '"' && closing == hashes {
            return Some(at + 1 + hashes);
        }
        at += 1;
    }
    Some(chars.len())
}

/// The end of a character literal, or `None` where the quote opens a lifetime.
fn end_of_char(chars: &[char], start: usize) -> Option<usize> {
    if chars.get(start + 1) == Some(&'\\') {
        let rest = chars.get(start + 3..)?;
        return rest.iter().position(|&c| c == '\'').map(|offset| start + 4 + offset);
    }
    (chars.get(start + 2) == Some(&'\'')).then_some(start + 3)
}

/// For each line of `code` (as [`only_code`] returns it), whether it belongs to an item under
/// `#[cfg(test)]`.
pub(super) fn test_lines(code: &str) -> Vec<bool> {
    let mut lines = vec![false; code.lines().count() + 1];
    let line_of = |offset: usize| code[..offset].matches('\n').count();
    let mut from = 0;
    while let Some(found) = code[from..].find("#[cfg(") {
        let start = from + found;
        let after = start + code[start..].find(']').map_or(code.len() - start, |end| end + 1);
        from = after;
        let condition = &code[start..after];
        if has_word(condition, "test") && !condition.contains("not(test") {
            let end = end_of_item(code, after);
            lines[line_of(start)..=line_of(end)].fill(true);
            from = end;
        }
    }
    lines
}

/// For each line of `code`, whether it belongs to a module that stands inside of the file.
pub(super) fn module_lines(code: &str) -> Vec<bool> {
    let mut lines = vec![false; code.lines().count() + 1];
    let mut starts = vec![0];
    starts.extend(code.match_indices('\n').map(|(at, _)| at + 1));
    let mut from = 0;
    for (index, line) in code.lines().enumerate() {
        let opens = line.trim_end().ends_with('{') && has_word(line, "mod");
        if starts[index] < from || !opens {
            continue;
        }
        from = end_of_item(code, starts[index]);
        let last = starts.partition_point(|&start| start <= from) - 1;
        lines[index..=last].fill(true);
    }
    lines
}

/// The offset behind the item that starts at `from`: its closing brace, or its semicolon.
fn end_of_item(code: &str, from: usize) -> usize {
    let mut depth = 0;
    for (offset, c) in code[from..].char_indices() {
        match c {
            '{' | '(' | '[' => depth += 1,
            '}' | ')' | ']' => depth -= 1,
            _ => {}
        }
        if depth <= 0 && (c == '}' || c == ';') {
            return from + offset;
        }
    }
    code.len()
}

/// Whether `word` stands in `line`, not as a part of a longer word.
pub(super) fn has_word(line: &str, word: &str) -> bool {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    line.match_indices(word).any(|(at, _)| {
        !line[..at].ends_with(is_word) && !line[at + word.len()..].starts_with(is_word)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_literals_are_blanked() {
        let text =
            "a // b\nc /* d /* e */ f\n*/ g \"h \\\" i\" j r#\"k \" l\"# m 'n' 'o: br\"p\" q";
        let words: Vec<String> =
            only_code(text).lines().map(|l| l.split_whitespace().collect()).collect();
        assert_eq!(words, ["a", "c", "gjm'o:bq"]);
    }

    #[test]
    fn escaped_quotes_do_not_end_a_literal() {
        assert_eq!(only_code("('\\'', '\\u{1F}', \"\\\\\", x)").replace(' ', ""), "(,,,x)");
        assert_eq!(only_code("for_r\"s\"").trim(), "for_r");
    }

    #[test]
    fn test_items_are_known() {
        let code = "fn a() {}\n#[cfg(test)]\nmod t {\n fn b() {}\n}\nfn c() {}\n#[cfg(test)]\n\
                    use d;\n#[cfg(not(test))]\nfn e() {}\n";
        let lines: Vec<usize> =
            test_lines(code).iter().enumerate().filter(|l| *l.1).map(|l| l.0 + 1).collect();
        assert_eq!(lines, [2, 3, 4, 5, 7, 8]);
    }

    #[test]
    fn words_are_whole() {
        assert!(has_word("an unsafe block", "unsafe"));
        assert!(!has_word("unsafe_op_in_unsafe_fn", "unsafe"));
    }
}
