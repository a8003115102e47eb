//! Byte pairs: a text is cut into words, and the bytes of each word are put together, pair by pair
//! in the order of a list.
//!
//! Source: Sennrich, Haddow and Birch, "Neural Machine Translation of Rare Words with Subword
//! Units", 2016; over bytes as GPT-2 has it, in whose files a byte is written as a character.

use std::collections::{BinaryHeap, HashMap};
#[cfg(feature = "tokenizer-json")]
use std::sync::LazyLock;

use std::cmp::Reverse;

use base::{Diagnostic, Result, codes};
use tilewright::compiled::ModelFile;

use super::broken;
use super::patterns::{Cutter, Style};
use super::vocabulary::TextIndex;

/// Pairs of tokens, and what they become.
#[derive(Debug)]
pub(super) struct Pairs {
    cutter: Cutter,
    style: &'static Style,
    /// The list: the texts of two tokens with a space between them.
    merges: TextIndex,
    /// The token of each byte.
    bytes: [Option<u32>; 256],
    /// The byte of a character.
    of_character: HashMap<char, u8>,
}

/// The character that a byte is written as: itself where that can be seen, else one behind 255.
fn character(byte: u8) -> char {
    let seen = |byte: u8| matches!(byte, 33..=126 | 161..=172 | 174..=255);
    if seen(byte) {
        return char::from(byte);
    }
    let before = (0..byte).filter(|&other| !seen(other)).count() as u32;
    char::from_u32(256 + before).unwrap_or(char::REPLACEMENT_CHARACTER)
}

/// The bytes that characters of a token stand for.
#[cfg(feature = "tokenizer-json")]
pub(super) fn bytes_of(text: &[u8]) -> Vec<u8> {
    static BYTES: LazyLock<HashMap<char, u8>> = LazyLock::new(of_character);
    written_bytes(&BYTES, text)
}

/// The byte of each character that one is written as.
fn of_character() -> HashMap<char, u8> {
    (0..=255).map(|byte| (character(byte), byte)).collect()
}

fn written_bytes(of_character: &HashMap<char, u8>, text: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for character in String::from_utf8_lossy(text).chars() {
        match of_character.get(&character) {
            Some(&byte) => bytes.push(byte),
            None => bytes.extend(character.to_string().as_bytes()),
        }
    }
    bytes
}

/// Where the space between the two texts of a pair is, which is not its first byte.
fn space_in(merge: &[u8]) -> Option<usize> {
    merge.iter().skip(1).position(|&byte| byte == b' ').map(|at| at + 1)
}

impl Pairs {
    pub(super) fn of(file: &ModelFile, ids: &TextIndex) -> Result<Pairs> {
        let name = file.text("tokenizer.ggml.pre")?.unwrap_or("gpt-2");
        let style = Style::find(name).ok_or_else(|| {
            let message = format!("texts cut into words as \"{name}\" are not supported");
            Diagnostic::error(codes::UNSUPPORTED_OPERATOR, message)
                .at("key \"tokenizer.ggml.pre\"")
                .because(format!("these are known: {}", Style::names().join(", ")))
                .remedy("use a model with one of these")
        })?;
        let cutter = Cutter::new(style)?;
        let merges = file.texts("tokenizer.ggml.merges")?;
        let merges = merges.ok_or_else(|| broken("it has no list of pairs"))?;
        if let Some(rank) = merges.iter().position(|merge| space_in(merge).is_none()) {
            return Err(broken(format!("pair {rank} of its list is no pair")).into());
        }
        if u32::try_from(merges.len()).is_err() {
            return Err(broken(format!("its list has {} pairs", merges.len())).into());
        }
        let merges = TextIndex::of(merges.clone());
        let mut bytes = [None; 256];
        for byte in 0..=255_u8 {
            let text = character(byte).to_string();
            bytes[usize::from(byte)] = ids.find(text.as_bytes());
        }
        let of_character = of_character();
        Ok(Pairs { cutter, style, merges, bytes, of_character })
    }

    /// Whether texts begin with a token where the file does not say.
    pub(super) fn begins_texts(&self) -> bool {
        self.style.begins_texts
    }

    pub(super) fn bytes(&self, text: &[u8]) -> Vec<u8> {
        written_bytes(&self.of_character, text)
    }

    pub(super) fn encode(&self, text: &str, ids: &TextIndex, tokens: &mut Vec<u32>) {
        for word in self.cutter.words(text) {
            // Whole words are tokens whatever their pairs are, where the style says so.
            if self.style.whole_words {
                let written: String = word.bytes().map(character).collect();
                if let Some(id) = ids.find(written.as_bytes()) {
                    tokens.push(id);
                    continue;
                }
            }
            self.encode_word(word, ids, tokens);
        }
    }

    /// What two tokens become, and its place in the list. What is no token is never made.
    fn joined(&self, (left, right): (u32, u32), ids: &TextIndex) -> Option<(u32, u32)> {
        let (left, right) = (ids.text(left)?, ids.text(right)?);
        let rank = self.merges.find(&[left, b" ", right].concat())?;
        let is_cut_so = space_in(self.merges.text(rank)?) == Some(left.len());
        let whole = if is_cut_so { ids.find(&[left, right].concat())? } else { return None };
        Some((rank, whole))
    }

    fn encode_word(&self, word: &str, ids: &TextIndex, tokens: &mut Vec<u32>) {
        let bytes = word.bytes().filter_map(|byte| self.bytes[usize::from(byte)]);
        let mut parts: Vec<Option<u32>> = bytes.map(Some).collect();
        let count = parts.len();
        let mut behind: Vec<usize> = (1..=count).collect();
        let mut before: Vec<Option<usize>> = (0..count).map(|at| at.checked_sub(1)).collect();
        let mut pairs = BinaryHeap::new();
        let offer =
            |parts: &[Option<u32>], left: usize, right: usize, pairs: &mut BinaryHeap<_>| {
                let pair = parts[left].zip(parts.get(right).copied().flatten());
                if let Some(pair) = pair
                    && let Some((rank, whole)) = self.joined(pair, ids)
                {
                    pairs.push(Reverse((rank, left, right, pair, whole)));
                }
            };
        for right in 1..count {
            offer(&parts, right - 1, right, &mut pairs);
        }
        while let Some(Reverse((_, left, right, pair, whole))) = pairs.pop() {
            if parts[left] != Some(pair.0) || parts[right] != Some(pair.1) || behind[left] != right
            {
                continue;
            }
            (parts[left], parts[right]) = (Some(whole), None);
            behind[left] = behind[right];
            if let Some(own) = before.get_mut(behind[left]) {
                *own = Some(left);
            }
            offer(&parts, left, behind[left], &mut pairs);
            if let Some(first) = before[left] {
                offer(&parts, first, left, &mut pairs);
            }
        }
        tokens.extend(parts.into_iter().flatten());
    }
}
