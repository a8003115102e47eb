//! Patterns in the syntax of RE2, <https://github.com/google/re2/wiki/Syntax>.
//!
//! They are written anew in the syntax of `regex-automata`, which is close, but not the same: there
//! `\w`, `\d`, `\s` and `\b` are of all of Unicode, classes hold classes, and more can be escaped.
//! A search takes time linear in the text.

use std::fmt::Write;
use std::iter::Peekable;
use std::str::Chars;

use regex_automata::util::syntax;
use regex_automata::{Anchored, Input, MatchKind, meta};

/// The most repetitions that a pattern may ask for.
const REPETITIONS: u32 = 1000;

/// The most bytes that a pattern takes once it is read.
const BYTES: usize = 10 << 20;

/// The most open parentheses.
const NESTING: u32 = 250;

/// A pattern that texts are matched with.
#[derive(Clone, Debug)]
pub struct Pattern {
    /// Where the first match begins.
    first: meta::Regex,
    /// From there, how far the longest goes.
    longest: meta::Regex,
}

impl Pattern {
    /// Reads a pattern in the syntax of RE2.
    ///
    /// # Errors
    /// What is wrong with it, on one line.
    pub fn new(pattern: &str) -> Result<Pattern, String> {
        let pattern = Translation::of(pattern)?;
        Ok(Pattern {
            first: compiled(&pattern, MatchKind::LeftmostFirst)?,
            longest: compiled(&pattern, MatchKind::All)?,
        })
    }

    /// Whether it matches all of a text.
    #[must_use]
    pub fn matches(&self, text: &str) -> bool {
        self.longest_at(text, 0) == Some(text.len())
    }

    /// The first match at a place or behind it, and of those that begin where it does the longest:
    /// its first byte and the first behind it.
    #[must_use]
    pub fn longest(&self, text: &str, start: usize) -> Option<(usize, usize)> {
        let first = self.first.find(Input::new(text).range(start..))?.start();
        Some((first, self.longest_at(text, first)?))
    }

    /// The first byte behind the longest match that begins at a place.
    fn longest_at(&self, text: &str, start: usize) -> Option<usize> {
        let input = Input::new(text).range(start..).anchored(Anchored::Yes);
        Some(self.longest.search_half(&input)?.offset())
    }
}

fn compiled(pattern: &str, kind: MatchKind) -> Result<meta::Regex, String> {
    let limits = meta::Config::new().match_kind(kind).nfa_size_limit(Some(BYTES));
    let syntax = syntax::Config::new().nest_limit(NESTING);
    let built = meta::Regex::builder().configure(limits).syntax(syntax).build(pattern);
    built.map_err(|error| {
        let reason = error.syntax_error().map_or(error.to_string(), ToString::to_string);
        let line = reason.lines().last().unwrap_or("it cannot be read").trim().to_owned();
        line.trim_start_matches("error: ").to_owned()
    })
}

/// A pattern on its way from one syntax to the other.
struct Translation<'a> {
    rest: Peekable<Chars<'a>>,
    written: String,
}

/// What a repetition may stand behind.
#[derive(PartialEq)]
enum Behind {
    /// A beginning or another alternative.
    Nothing,
    /// Something that may be repeated.
    Atom,
    /// A repetition.
    Repetition,
}

impl Translation<'_> {
    fn of(pattern: &str) -> Result<String, String> {
        let rest = pattern.chars().peekable();
        let mut translation = Translation { rest, written: String::new() };
        translation.all()?;
        Ok(translation.written)
    }

    fn all(&mut self) -> Result<(), String> {
        let mut behind = Behind::Nothing;
        while let Some(letter) = self.rest.next() {
            behind = match letter {
                '\\' if self.rest.peek() == Some(&'Q') => self.quoted(behind),
                '\\' => self.escape()?,
                '[' => self.class()?,
                '(' => self.open()?,
                '|' => {
                    self.written.push('|');
                    Behind::Nothing
                }
                '*' | '+' | '?' => self.repetition(&behind, &letter.to_string())?,
                '{' => match self.counts()? {
                    Some(counts) => self.repetition(&behind, &counts)?,
                    None => self.letter('{'),
                },
                ')' | '.' | '^' | '$' => {
                    self.written.push(letter);
                    Behind::Atom
                }
                letter => self.letter(letter),
            };
        }
        Ok(())
    }

    /// One letter that stands for itself.
    fn letter(&mut self, letter: char) -> Behind {
        self.written.push_str(&itself(letter));
        Behind::Atom
    }

    /// `\Q`, and letters that stand for themselves up to `\E`.
    fn quoted(&mut self, mut behind: Behind) -> Behind {
        self.rest.next();
        while let Some(letter) = self.rest.next() {
            if letter == '\\' && self.rest.next_if_eq(&'E').is_some() {
                break;
            }
            behind = self.letter(letter);
        }
        behind
    }

    /// Behind a `\` outside of classes.
    fn escape(&mut self) -> Result<Behind, String> {
        let text = match self.rest.peek() {
            Some('b') => r"(?-u:\b)",
            Some('B') => r"(?-u:\B)",
            Some('A') => r"\A",
            Some('z') => r"\z",
            _ => {
                let text = match self.escaped()? {
                    Escaped::Letter(letter) => itself(letter),
                    Escaped::Class(class) => class,
                };
                self.written.push_str(&text);
                return Ok(Behind::Atom);
            }
        };
        self.rest.next();
        self.written.push_str(text);
        Ok(Behind::Atom)
    }

    /// Behind a `\`: a letter or a class.
    fn escaped(&mut self) -> Result<Escaped, String> {
        let Some(letter) = self.rest.next() else { return Err("a `\\` at the end".to_owned()) };
        let class = |text: &str| Ok(Escaped::Class(text.to_owned()));
        match letter {
            'd' => class("[0-9]"),
            'D' => class("[^0-9]"),
            's' => class(r"[\t\n\x0C\r ]"),
            'S' => class(r"[^\t\n\x0C\r ]"),
            'w' => class("[0-9A-Za-z_]"),
            'W' => class("[^0-9A-Za-z_]"),
            'p' | 'P' => self.property(letter == 'P').map(Escaped::Class),
            'a' => Ok(Escaped::Letter('\x07')),
            'f' => Ok(Escaped::Letter('\x0C')),
            't' => Ok(Escaped::Letter('\t')),
            'n' => Ok(Escaped::Letter('\n')),
            'r' => Ok(Escaped::Letter('\r')),
            'v' => Ok(Escaped::Letter('\x0B')),
            'x' => self.hexadecimal().map(Escaped::Letter),
            '0'..='7' => self.octal(letter).map(Escaped::Letter),
            _ if letter.is_ascii_punctuation() => Ok(Escaped::Letter(letter)),
            _ => Err(format!("there is no `\\{letter}`")),
        }
    }

    /// `\pN`, `\p{Name}` or `\p{^Name}`.
    fn property(&mut self, is_negated: bool) -> Result<String, String> {
        let mut name = match self.rest.next() {
            Some('{') => self.up_to('}')?,
            Some(letter) => letter.to_string(),
            None => return Err("a property without a name".to_owned()),
        };
        let is_inverse = name.starts_with('^');
        if is_inverse {
            name.remove(0);
        }
        if !name.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_') {
            return Err(format!("there is no property `{name}`"));
        }
        let kind = if is_negated == is_inverse { 'p' } else { 'P' };
        Ok(format!(r"\{kind}{{{name}}}"))
    }

    /// `\x7F` or `\x{10FFFF}`.
    fn hexadecimal(&mut self) -> Result<char, String> {
        let is_braced = self.rest.next_if_eq(&'{').is_some();
        let digits = match is_braced {
            true => self.up_to('}')?,
            false => self.rest.by_ref().take(2).collect(),
        };
        let is_whole = is_braced || digits.len() == 2;
        let number = u32::from_str_radix(&digits, 16).ok().filter(|_| is_whole);
        number.and_then(char::from_u32).ok_or_else(|| format!("there is no `\\x{digits}`"))
    }

    /// `\0`, or up to three octal digits.
    fn octal(&mut self, first: char) -> Result<char, String> {
        let mut digits = String::from(first);
        while digits.len() < 3 {
            let Some(digit) = self.rest.next_if(|it| ('0'..='7').contains(it)) else { break };
            digits.push(digit);
        }
        // One digit but 0 would be what a group has matched.
        let is_letter = digits.len() > 1 || first == '0';
        let number = u32::from_str_radix(&digits, 8).ok().filter(|_| is_letter);
        number.and_then(char::from_u32).ok_or_else(|| format!("there is no `\\{digits}`"))
    }

    fn up_to(&mut self, end: char) -> Result<String, String> {
        let mut text = String::new();
        for letter in self.rest.by_ref() {
            if letter == end {
                return Ok(text);
            }
            text.push(letter);
        }
        Err(format!("a `{end}` is missing"))
    }

    /// Behind a `(`: flags, a name or neither.
    fn open(&mut self) -> Result<Behind, String> {
        self.written.push('(');
        if self.rest.next_if_eq(&'?').is_none() {
            return Ok(Behind::Nothing);
        }
        let mut flags = String::new();
        while let Some(flag) = self.rest.next_if(|it| "imsU-".contains(*it)) {
            flags.push(flag);
        }
        let is_named = flags.is_empty() && matches!(self.rest.peek(), Some('P' | '<'));
        match self.rest.next() {
            Some(end @ (':' | ')')) => {
                let _ = write!(self.written, "?{flags}{end}");
            }
            Some(first) if is_named && (first == '<' || self.rest.next() == Some('<')) => {
                let name = self.up_to('>')?;
                let is_name = name.chars().all(|letter| letter.is_alphanumeric() || letter == '_');
                if name.is_empty() || !is_name {
                    return Err(format!("a group cannot be called `{name}`"));
                }
                let _ = write!(self.written, "?P<{name}>");
            }
            other => {
                flags.extend(other);
                return Err(format!("there is no group `(?{flags}`"));
            }
        }
        Ok(Behind::Nothing)
    }

    /// Behind a `{`: how often something is repeated; none where it is a letter.
    fn counts(&mut self) -> Result<Option<String>, String> {
        let mut ahead = self.rest.clone();
        let inner: String = ahead.by_ref().take_while(|letter| *letter != '}').collect();
        let (least, most) = inner.split_once(',').unwrap_or((&inner, &inner));
        let is_number = |text: &str| !text.is_empty() && text.bytes().all(|it| it.is_ascii_digit());
        let is_closed = self.rest.clone().any(|letter| letter == '}');
        if !is_closed || !is_number(least) || !(most.is_empty() || is_number(most)) {
            return Ok(None);
        }
        self.rest = ahead;
        let is_within = |text: &str| text.parse::<u32>().is_ok_and(|count| count <= REPETITIONS);
        match is_within(least) && (most.is_empty() || is_within(most)) {
            true => Ok(Some(format!("{{{inner}}}"))),
            false => Err(format!("`{{{inner}}}` asks for more than {REPETITIONS} repetitions")),
        }
    }

    fn repetition(&mut self, behind: &Behind, text: &str) -> Result<Behind, String> {
        match behind {
            Behind::Atom => {}
            Behind::Nothing => return Err(format!("`{text}` repeats nothing")),
            Behind::Repetition => return Err(format!("`{text}` repeats a repetition")),
        }
        self.written.push_str(text);
        if self.rest.next_if_eq(&'?').is_some() {
            self.written.push('?');
        }
        Ok(Behind::Repetition)
    }

    /// Behind a `[`: letters, ranges and classes up to the `]`, which may be the first letter.
    fn class(&mut self) -> Result<Behind, String> {
        self.written.push('[');
        if self.rest.next_if_eq(&'^').is_some() {
            self.written.push('^');
        }
        let mut is_first = true;
        loop {
            match self.rest.next() {
                None => return Err("a `]` is missing".to_owned()),
                Some(']') if !is_first => break,
                Some('[') if self.rest.peek() == Some(&':') => {
                    let name = self.up_to(']')?;
                    let _ = write!(self.written, "[{name}]");
                }
                Some(letter) => self.member(letter)?,
            }
            is_first = false;
        }
        self.written.push(']');
        Ok(Behind::Atom)
    }

    /// A letter, a range or an escaped class in a class.
    fn member(&mut self, letter: char) -> Result<(), String> {
        let low = match self.member_letter(letter)? {
            Escaped::Letter(letter) => letter,
            Escaped::Class(class) => {
                self.written.push_str(&class);
                return Ok(());
            }
        };
        let mut ahead = self.rest.clone();
        let is_range = ahead.next() == Some('-') && ahead.next().is_some_and(|it| it != ']');
        if !is_range {
            self.written.push_str(&itself(low));
            return Ok(());
        }
        self.rest.next();
        let high = self.rest.next().map(|letter| self.member_letter(letter)).transpose()?;
        match high {
            Some(Escaped::Letter(high)) if low <= high => {
                let _ = write!(self.written, "{}-{}", itself(low), itself(high));
                Ok(())
            }
            _ => Err(format!("a range from `{low}` has no end")),
        }
    }

    fn member_letter(&mut self, letter: char) -> Result<Escaped, String> {
        if letter == '\\' { self.escaped() } else { Ok(Escaped::Letter(letter)) }
    }
}

/// What is escaped.
enum Escaped {
    /// A letter.
    Letter(char),
    /// Any of several, as it is written.
    Class(String),
}

/// A letter that stands for itself wherever it stands.
fn itself(letter: char) -> String {
    match letter.is_alphanumeric() {
        true => letter.to_string(),
        false => format!(r"\x{{{:X}}}", u32::from(letter)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first match of a pattern in a text.
    #[track_caller]
    fn check(pattern: &str, text: &str, found: Option<&str>) {
        let pattern = Pattern::new(pattern).expect("a pattern");
        let found_here = pattern.longest(text, 0).map(|(start, end)| &text[start..end]);
        assert_eq!(found_here, found);
    }

    #[test]
    fn whole_texts_are_matched() {
        let pattern = Pattern::new("a|b+").expect("a pattern");
        assert!(pattern.matches("bbb") && pattern.matches("a"));
        assert!(!pattern.matches("ab") && !pattern.matches(""));
    }

    #[test]
    fn the_longest_of_the_first_matches_is_found() {
        check("ab|abc", "xabcab", Some("abc"));
        check("a+?", "aab", Some("aa"));
        check("(?i)É|x", "né", Some("é"));
        check("b*", "ab", Some(""));
        check("d$|^b", "abcd", Some("d"));
        check("^b", "ab", None);
        check("(?m)^b.*$", "a\nbc\nd", Some("bc"));
    }

    #[test]
    fn words_and_digits_are_of_ascii() {
        check(r"\w+", "éa bü", Some("a"));
        check(r"\bb", "éb", Some("b"));
        check(r"\Bb", "éb ab", Some("b"));
        check(r"\W+", "aéb", Some("é"));
        check(r"\d", "٣3", Some("3"));
        check(r"\S+", "\t\u{b}a b", Some("\u{b}a"));
        check(r"[^\W_]", "é_x", Some("x"));
        check(r"(?i)\w", "ſ", Some("ſ"));
        check(r"\pL+", "1аб2", Some("аб"));
        check(r"\p{^Cyrillic}", "аб2", Some("2"));
    }

    #[test]
    fn what_another_syntax_reads_otherwise_stands_for_itself() {
        check("[a&&b[]+", "xa[b&&c]", Some("a[b&&"));
        check("[a~~b]+", "a~b", Some("a~b"));
        check("[[a]]", "[a]", Some("a]"));
        check("[]a]+", "a]b", Some("a]"));
        check("[--/]+", "a./", Some("./"));
        check("[a-]+", "b-a", Some("-a"));
        check(r"[\w-]+", "+a-b_", Some("a-b_"));
        check("[[:alpha:]]+", "1éab2", Some("ab"));
        check("a{,2}", "aa{,2}", Some("a{,2}"));
        check("}{", "a}{", Some("}{"));
        check(r"\Q.b*\E+", "a.b**c", Some(".b**"));
        check(r"\x{61}\142\x63", "abc", Some("abc"));
        check(r"\<\#\ \-".replace(r"\ ", " ").as_str(), "<# -", Some("<# -"));
        check("(?P<n>a)(?<m>b)", "ab", Some("ab"));
    }

    #[test]
    fn what_is_no_pattern_is_refused() {
        for pattern in [
            "(",
            ")",
            "[",
            "a**",
            "*",
            "a|+",
            "{2}",
            "a{1001}",
            "[b-a]",
            "[a--]",
            "(?=a)",
            "(?u)a",
            "(?x)a",
            r"\1",
            r"\é",
            r"\u0061",
            r"\C",
            "\\",
            r"[\b]",
            r"\pX",
            r"\x{110000}",
            "(?P<>a)",
            r"\p{Latin",
        ] {
            let refusal = Pattern::new(pattern).expect_err(pattern);
            assert!(!refusal.is_empty() && !refusal.contains('\n'), "{pattern}: {refusal}");
        }
    }
}
