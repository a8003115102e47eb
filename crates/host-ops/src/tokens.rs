//! Texts cut into tokens.

use crate::Pattern;

/// How a text is cut.
#[derive(Clone, Debug)]
pub enum Tokenizer {
    /// Each letter is a token.
    Letters,
    /// Tokens are what matches a pattern.
    Matches(Pattern),
    /// Tokens are what stands between matches of patterns, cut at the first, then at the others.
    Between(Vec<Pattern>),
}

impl Tokenizer {
    /// The tokens of a text with so many letters at least. An empty match is passed by with the
    /// letter behind it.
    #[must_use]
    pub fn tokens(&self, text: &str, least: usize) -> Vec<String> {
        match self {
            Tokenizer::Letters => text.chars().map(String::from).collect(),
            Tokenizer::Matches(pattern) => {
                matches(pattern, text, least).into_iter().map(str::to_owned).collect()
            }
            Tokenizer::Between(patterns) => {
                let mut pieces = vec![text];
                for pattern in patterns {
                    let cut = pieces.into_iter().flat_map(|piece| between(pattern, piece, least));
                    pieces = cut.collect();
                }
                pieces.into_iter().map(str::to_owned).collect()
            }
        }
    }
}

fn is_long(piece: &str, least: usize) -> bool {
    piece.chars().take(least).count() == least
}

/// The first byte of the next letter, or behind the end.
fn behind_letter(text: &str, place: usize) -> usize {
    place + text[place..].chars().next().map_or(1, char::len_utf8)
}

/// What matches a pattern; behind a match that is too short its second letter may begin another.
fn matches<'t>(pattern: &Pattern, text: &'t str, least: usize) -> Vec<&'t str> {
    let mut found = Vec::new();
    let mut place = 0;
    while place <= text.len()
        && let Some((start, end)) = pattern.longest(text, place)
    {
        let is_token = start < end && is_long(&text[start..end], least);
        if is_token {
            found.push(&text[start..end]);
        }
        place = if is_token { end } else { behind_letter(text, start) };
    }
    found
}

/// What stands between matches of a pattern.
fn between<'t>(pattern: &Pattern, text: &'t str, least: usize) -> Vec<&'t str> {
    let mut pieces = Vec::new();
    let mut place = 0;
    while place <= text.len()
        && let Some((start, end)) = pattern.longest(text, place)
    {
        pieces.push(&text[place..start]);
        place = if start < end { end } else { behind_letter(text, start) };
    }
    pieces.push(text.get(place..).unwrap_or_default());
    pieces.retain(|piece| is_long(piece, least));
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(tokenizer: &Tokenizer, (text, least): (&str, usize), tokens: &[&str]) {
        assert_eq!(tokenizer.tokens(text, least), tokens);
    }

    fn matching(pattern: &str) -> Tokenizer {
        Tokenizer::Matches(Pattern::new(pattern).expect("a pattern"))
    }

    fn cut_at(patterns: &[&str]) -> Tokenizer {
        let read = |pattern: &&str| Pattern::new(pattern).expect("a pattern");
        Tokenizer::Between(patterns.iter().map(read).collect())
    }

    #[test]
    fn letters_are_tokens() {
        check(&Tokenizer::Letters, ("aé 犬", 1), &["a", "é", " ", "犬"]);
        check(&Tokenizer::Letters, ("", 1), &[]);
    }

    #[test]
    fn matches_are_tokens() {
        check(&matching("ab|abc"), ("abcab abc", 1), &["abc", "ab", "abc"]);
        check(&matching("b*"), ("xabyé", 1), &["b"]);
        check(&matching("[a-z]{1,2}"), ("abc de f", 2), &["ab", "de"]);
        check(&matching("a.?.?"), ("aba", 4), &[]);
        check(&matching("^a"), ("aa", 1), &["a"]);
        check(&matching(r"\b."), ("éab", 1), &["a"]);
    }

    #[test]
    fn what_stands_between_is_a_token() {
        check(&cut_at(&[" ", ","]), ("  a, bé c,", 1), &["a", "bé", "c"]);
        check(&cut_at(&[" ", ","]), ("a bb,c,ddd", 2), &["bb", "ddd"]);
        check(&cut_at(&["X+"]), ("aXbXXc", 1), &["a", "b", "c"]);
        check(&cut_at(&["X*"]), ("aéb", 1), &[]);
        // Each pattern sees a piece by itself.
        check(&cut_at(&[" ", "^a"]), ("ab ac", 1), &["b", "c"]);
        check(&cut_at(&[" "]), ("", 1), &[]);
    }
}
