//! How texts are cut into words in front of byte pairs: patterns, by the names that files use.
//!
//! The patterns are those that the models were trained with. Where one has `\s+(?!\S)`, white space
//! up to what is in front of a word, it stands here as `\s+`, marked as the last of a list:
//! the last character of what it finds is left to the word behind, if one follows.

use base::{Diagnostic, Result, codes};
use regex_automata::meta::Regex;

/// A way to cut texts.
#[derive(Debug)]
pub(super) struct Style {
    /// What files call it.
    names: &'static [&'static str],
    /// Each cuts the pieces that those before have left. Of each the first pattern that fits
    /// counts.
    stages: &'static [&'static [&'static str]],
    /// Whether a word that is a token stays whole, whatever its pairs are.
    pub(super) whole_words: bool,
    /// Whether texts begin with a token where the file does not say.
    pub(super) begins_texts: bool,
}

/// White space, of which the last character may belong to a word.
const SPACE: &str = r"\s+";

const GPT2: &[&str] =
    &[r"'s|'t|'re|'ve|'m|'ll|'d", r" ?\p{L}+", r" ?\p{N}+", r" ?[^\s\p{L}\p{N}]+", SPACE];

const LLAMA3: &[&str] = &[
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)",
    r"[^\r\n\p{L}\p{N}]?\p{L}+",
    r"\p{N}{1,3}",
    r" ?[^\s\p{L}\p{N}]+[\r\n]*",
    r"\s*[\r\n]+",
    SPACE,
];

const QWEN2: &[&str] = &[
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)",
    r"[^\r\n\p{L}\p{N}]?\p{L}+",
    r"\p{N}",
    r" ?[^\s\p{L}\p{N}]+[\r\n]*",
    r"\s*[\r\n]+",
    SPACE,
];

const QWEN35: &[&str] = &[
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)",
    r"[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+",
    r"\p{N}",
    r" ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*",
    r"\s*[\r\n]+",
    SPACE,
];

const MARKS: &[&str] = &[r"[\p{P}\$\+<=>\^~\|`]+"];

const THREE_DIGITS: &[&str] = &["[0-9][0-9][0-9]"];

const DIGITS: &[&str] = &[r"\p{N}"];

const STYLES: &[Style] = &[
    Style {
        names: &["gpt-2", "phi-2", "jina-es", "jina-de", "gigachat", "default", "olmo", "mpt"],
        stages: &[GPT2],
        whole_words: false,
        begins_texts: false,
    },
    Style {
        names: &["llama-bpe", "llama3", "llama-v3", "falcon3", "pixtral"],
        stages: &[LLAMA3],
        whole_words: true,
        begins_texts: true,
    },
    Style {
        names: &["dbrx", "smaug-bpe"],
        stages: &[LLAMA3],
        whole_words: false,
        begins_texts: false,
    },
    Style {
        names: &["qwen2", "deepseek-r1-qwen", "stablelm2", "megrez"],
        stages: &[QWEN2],
        whole_words: false,
        begins_texts: false,
    },
    Style { names: &["qwen35"], stages: &[QWEN35], whole_words: false, begins_texts: false },
    Style {
        names: &["falcon"],
        stages: &[MARKS, GPT2, THREE_DIGITS],
        whole_words: false,
        begins_texts: false,
    },
    Style {
        names: &["deepseek-coder"],
        stages: &[
            &[r"[\r\n]"],
            &[r"\s?\p{L}+"],
            &[r"\s?\p{P}+"],
            &[r"[\x{4E00}-\x{9FA5}\x{800}-\x{4E00}\x{AC00}-\x{D7FF}]+"],
            DIGITS,
        ],
        whole_words: false,
        begins_texts: false,
    },
    Style {
        names: &["smollm", "starcoder", "refact", "command-r", "codeshell", "exaone"],
        stages: &[DIGITS, GPT2],
        whole_words: false,
        begins_texts: false,
    },
];

impl Style {
    pub(super) fn find(name: &str) -> Option<&'static Style> {
        STYLES.iter().find(|style| style.names.contains(&name))
    }

    pub(super) fn names() -> Vec<&'static str> {
        STYLES.iter().flat_map(|style| style.names).copied().collect()
    }
}

/// Patterns, ready to cut.
#[derive(Debug)]
pub(super) struct Cutter {
    /// Of each stage the patterns, and the number of that for white space.
    stages: Vec<(Regex, Option<usize>)>,
}

impl Cutter {
    pub(super) fn new(style: &Style) -> Result<Cutter> {
        let stage = |patterns: &&[&str]| {
            let space = patterns.iter().position(|pattern| *pattern == SPACE);
            let regex = Regex::new_many(patterns).map_err(|found| found.to_string())?;
            Ok::<_, String>((regex, space))
        };
        let stages = style.stages.iter().map(stage).collect::<std::result::Result<_, _>>();
        let stages = stages.map_err(|found| {
            Diagnostic::error(codes::INTERNAL_ERROR, "a pattern of words cannot be read")
                .because(found)
        })?;
        Ok(Cutter { stages })
    }

    /// The words of a text, all of it.
    pub(super) fn words<'t>(&self, text: &'t str) -> Vec<&'t str> {
        let mut words = vec![text];
        for (regex, space) in &self.stages {
            words = words.into_iter().flat_map(|word| cut(word, regex, *space)).collect();
        }
        words
    }
}

/// What patterns find, and what lies between.
fn cut<'t>(text: &'t str, regex: &Regex, space: Option<usize>) -> Vec<&'t str> {
    let (mut words, mut from, mut at) = (Vec::new(), 0, 0);
    while let Some(found) = regex.find(regex_automata::Input::new(text).span(at..text.len())) {
        let (start, mut end) = (found.start(), found.end());
        if space == Some(found.pattern().as_usize()) && end < text.len() {
            // A word follows: it has the last character, if that is not all.
            let last = text[start..end].chars().next_back().map_or(0, char::len_utf8);
            if end - start > last {
                end -= last;
            }
        }
        if start > from {
            words.push(&text[from..start]);
        }
        if end == start {
            break;
        }
        words.push(&text[start..end]);
        (from, at) = (end, end);
    }
    if from < text.len() {
        words.push(&text[from..]);
    }
    words
}
