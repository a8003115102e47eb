//! SentencePiece: of all neighbours that together are a token those with the greatest score become
//! one, the first of equal ones, until no two are; what is no token then is written as bytes.
//!
//! Source: Kudo and Richardson, "SentencePiece", 2018, and how the ggml project reads such models.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use super::vocabulary::TextIndex;
use super::{BYTE, UNKNOWN};

/// What stands for a space.
const SPACE: &str = "\u{2581}";

/// Tokens with their scores.
#[derive(Debug)]
pub(super) struct Pieces {
    scores: Vec<f64>,
    /// The token of each byte.
    bytes: [Option<u32>; 256],
    /// What stands for anything else.
    unknown: Option<u32>,
    /// Whether a text begins with a space.
    space: bool,
}

/// The byte that a token such as `<0x0A>` stands for.
pub(super) fn byte_of(text: &[u8]) -> Option<u8> {
    let digits = text.strip_prefix(b"<0x")?.strip_suffix(b">")?;
    u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
}

/// The characters that a token stands for, without its first space where that is left out.
pub(super) fn characters_of(text: &[u8], stripped: bool) -> Vec<u8> {
    let text = String::from_utf8_lossy(text).replace(SPACE, " ");
    let rest = text.strip_prefix(' ').filter(|_| stripped);
    rest.unwrap_or(&text).as_bytes().to_vec()
}

/// Two neighbours that together are a token.
struct Pair {
    score: f64,
    left: usize,
    right: usize,
    /// How many bytes both had when they were found.
    bytes: usize,
}

impl PartialEq for Pair {
    fn eq(&self, other: &Pair) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Pair {}

impl PartialOrd for Pair {
    fn partial_cmp(&self, other: &Pair) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Pair {
    fn cmp(&self, other: &Pair) -> Ordering {
        self.score.total_cmp(&other.score).then(other.left.cmp(&self.left))
    }
}

/// A part of a text, and its neighbours.
struct Part {
    from: usize,
    bytes: usize,
    before: Option<usize>,
    behind: Option<usize>,
}

impl Pieces {
    pub(super) fn of(ids: &TextIndex, kinds: &[u8], scores: Vec<f64>, space: bool) -> Pieces {
        let mut bytes = [None; 256];
        for (text, &kind) in ids.texts().iter().zip(kinds) {
            if kind == BYTE
                && let Some(byte) = byte_of(text)
            {
                bytes[usize::from(byte)] = ids.find(text);
            }
        }
        let unknown = (0..).zip(kinds).find(|(_, kind)| **kind == UNKNOWN).map(|(id, _)| id);
        Pieces { scores, bytes, unknown, space }
    }

    pub(super) fn bytes(&self, text: &[u8], is_first: bool) -> Vec<u8> {
        characters_of(text, is_first && self.space)
    }

    pub(super) fn encode(
        &self,
        text: &str,
        ids: &TextIndex,
        is_first: bool,
        tokens: &mut Vec<u32>,
    ) {
        let space = if self.space && is_first { " " } else { "" };
        let text = format!("{space}{text}").replace(' ', SPACE);
        let text = text.as_bytes();
        let whole = String::from_utf8_lossy(text);
        let mut parts: Vec<Part> = Vec::new();
        for (number, (from, character)) in whole.char_indices().enumerate() {
            let before = number.checked_sub(1);
            parts.push(Part {
                from,
                bytes: character.len_utf8(),
                before,
                behind: Some(number + 1),
            });
        }
        if let Some(last) = parts.last_mut() {
            last.behind = None;
        }
        let mut pairs = BinaryHeap::new();
        for right in 1..parts.len() {
            self.offer((text, ids), &parts, (right - 1, right), &mut pairs);
        }
        while let Some(Pair { left, right, bytes, .. }) = pairs.pop() {
            let (own, other) = (&parts[left], &parts[right]);
            if own.bytes == 0 || other.bytes == 0 || own.bytes + other.bytes != bytes {
                continue;
            }
            let behind = other.behind;
            (parts[left].bytes, parts[left].behind) = (bytes, behind);
            parts[right].bytes = 0;
            if let Some(behind) = behind {
                parts[behind].before = Some(left);
                self.offer((text, ids), &parts, (left, behind), &mut pairs);
            }
            if let Some(before) = parts[left].before {
                self.offer((text, ids), &parts, (before, left), &mut pairs);
            }
        }
        for part in parts.iter().filter(|part| part.bytes > 0) {
            let own = &text[part.from..part.from + part.bytes];
            match ids.find(own) {
                Some(id) => tokens.push(id),
                None => {
                    let of = |&byte: &u8| self.bytes[usize::from(byte)].or(self.unknown);
                    tokens.extend(own.iter().filter_map(of));
                }
            }
        }
    }

    fn offer(
        &self,
        (text, ids): (&[u8], &TextIndex),
        parts: &[Part],
        (left, right): (usize, usize),
        pairs: &mut BinaryHeap<Pair>,
    ) {
        let bytes = parts[left].bytes + parts[right].bytes;
        let from = parts[left].from;
        if let Some(id) = ids.find(&text[from..from + bytes]) {
            let score = self.scores[id as usize];
            pairs.push(Pair { score, left, right, bytes });
        }
    }
}
