//! Texts to tokens and back, as a model's file or folder describes it.
//!
//! A GGUF file has one of two kinds of tokenizers: *byte pairs* (`pairs.rs`), which cuts a text
//! into words by patterns and puts the bytes of each together by a list of pairs; and
//! *SentencePiece* (`pieces.rs`), which puts characters together by the scores of what they
//! become. In front of both, tokens that stand for themselves (the beginning of a turn, a name)
//! are cut out. A folder has a `tokenizer.json` (`json.rs`, with the feature `tokenizer-json`).

#[cfg(feature = "tokenizer-json")]
mod json;
mod pairs;
mod patterns;
mod pieces;
mod vocabulary;

use std::collections::{BTreeSet, HashMap};

#[cfg(feature = "tokenizer-json")]
use base::IntoTree;
use base::{Diagnostic, Result, codes};
use tilewright::compiled::ModelFile;
#[cfg(feature = "tokenizer-json")]
use tilewright::compiled::{MetadataValue, TextList};

use pairs::Pairs;
use pieces::Pieces;
use vocabulary::TextIndex;

/// What a token is, by its number in files.
const UNKNOWN: u8 = 2;
const CONTROL: u8 = 3;
const USER_DEFINED: u8 = 4;
const UNUSED: u8 = 5;
const BYTE: u8 = 6;

/// The refusal of a tokenizer that contradicts itself.
#[cold]
#[inline(never)]
fn broken(reason: impl Into<String>) -> Diagnostic {
    Diagnostic::error(codes::NOT_LANGUAGE_MODEL, "the tokenizer of the file cannot be used")
        .because(reason)
        .remedy("convert the model anew")
}

/// The tokens of a model.
#[derive(Debug)]
pub struct TextTokenizer {
    /// Their texts as the file has them.
    ids: TextIndex,
    kinds: Vec<u8>,
    kind: Kind,
    /// Tokens that stand for themselves, by their first byte, longest first.
    own: HashMap<u8, Vec<u32>>,
    /// What stands in front of a text, and behind it, where the model wants that.
    first: Option<u32>,
    last: Option<u32>,
    /// The tokens that keys name as beginning and end.
    begin: Option<u32>,
    end: Option<u32>,
    /// Tokens that end what a model generates.
    ends: BTreeSet<u32>,
}

#[derive(Debug)]
enum Kind {
    Pairs(Box<Pairs>),
    Pieces(Box<Pieces>),
    #[cfg(feature = "tokenizer-json")]
    Json(Box<json::JsonTokenizer>),
}

/// The texts with which turns end, in tokens that need not be named as ends.
const TURNS: [&[u8]; 5] =
    [b"<|im_end|>", b"<|eot_id|>", b"<end_of_turn>", b"<|end|>", b"<|endoftext|>"];

impl TextTokenizer {
    /// The tokenizer that a file describes.
    ///
    /// # Errors
    /// `TW0103` for a kind that is not known; `TW0120` for one that contradicts itself.
    pub fn of(file: &ModelFile) -> Result<TextTokenizer> {
        let name = file.text("tokenizer.ggml.model")?;
        let Some(name) = name else { return Err(broken("the file has no tokenizer").into()) };
        if name == "huggingface" {
            return TextTokenizer::of_json(file);
        }
        let texts = file.texts("tokenizer.ggml.tokens")?.cloned().unwrap_or_default();
        if texts.is_empty() || u32::try_from(texts.len()).is_err() {
            return Err(broken(format!("it has {} tokens", texts.len())).into());
        }
        let numbers = |key: &str| -> Result<Option<Vec<f64>>> {
            let found = file.numbers(key)?;
            if found.as_ref().is_some_and(|found| found.len() != texts.len()) {
                return Err(broken(format!("\"{key}\" has not one number for each token")).into());
            }
            Ok(found)
        };
        let kinds = numbers("tokenizer.ggml.token_type")?;
        let kinds: Vec<u8> = match kinds {
            Some(kinds) => kinds.into_iter().map(|kind| kind as u8).collect(),
            None => vec![1; texts.len()],
        };
        let ids = TextIndex::of(texts.clone());
        let kind = match name {
            "gpt2" => Kind::Pairs(Box::new(Pairs::of(file, &ids)?)),
            "llama" => {
                let scores = numbers("tokenizer.ggml.scores")?;
                let scores = scores.ok_or_else(|| broken("its tokens have no scores"))?;
                let space = file.truth("tokenizer.ggml.add_space_prefix")?.unwrap_or(true);
                Kind::Pieces(Box::new(Pieces::of(&ids, &kinds, scores, space)))
            }
            other => {
                let message = format!("tokenizers of the kind \"{other}\" are not supported");
                return Err(Diagnostic::error(codes::UNSUPPORTED_OPERATOR, message)
                    .at("key \"tokenizer.ggml.model\"")
                    .because("byte pairs (\"gpt2\") and SentencePiece (\"llama\") are")
                    .remedy("use a model with one of these")
                    .into());
            }
        };
        let mut own: HashMap<u8, Vec<u32>> = HashMap::new();
        for (id, text) in (0_u32..).zip(texts.iter()) {
            if matches!(kinds[id as usize], CONTROL | USER_DEFINED)
                && let Some(&byte) = text.first()
            {
                own.entry(byte).or_default().push(id);
            }
        }
        for ids in own.values_mut() {
            ids.sort_by_key(|&id| std::cmp::Reverse(texts.get(id as usize).map_or(0, <[u8]>::len)));
        }
        let count = texts.len();
        let named = |key: &str| -> Result<Option<u32>> {
            let key = format!("tokenizer.ggml.{key}_token_id");
            match file.integer(&key)? {
                Some(id) if (0..count as i64).contains(&id) => Ok(Some(id as u32)),
                Some(id) => Err(broken(format!("\"{key}\" is {id}, of {count} tokens")).into()),
                None => Ok(None),
            }
        };
        let adds = |what: &str| file.truth(&format!("tokenizer.ggml.add_{what}_token"));
        let is_piece = matches!(kind, Kind::Pieces(_));
        let mut ends: BTreeSet<u32> = BTreeSet::new();
        for key in ["eos", "eot", "eom"] {
            ends.extend(named(key)?);
        }
        ends.extend(
            TURNS
                .iter()
                .filter_map(|turn| ids.find(turn))
                .filter(|&id| matches!(kinds[id as usize], CONTROL | USER_DEFINED)),
        );
        let implied = matches!(&kind, Kind::Pairs(pairs) if pairs.begins_texts());
        let first = adds("bos")?.unwrap_or(is_piece || implied);
        let (begin, end) = (named("bos")?, named("eos")?);
        let first = begin.filter(|_| first);
        let last = if adds("eos")?.unwrap_or(false) { end } else { None };
        Ok(TextTokenizer { ids, kinds, kind, own, first, last, begin, end, ends })
    }

    #[cfg(feature = "tokenizer-json")]
    fn of_json(file: &ModelFile) -> Result<TextTokenizer> {
        let Some(MetadataValue::Text(bytes)) = file.metadata.get("tokenizer.huggingface.json")
        else {
            return Err(broken("the file has no tokenizer").into());
        };
        let (json, (texts, own)) = json::JsonTokenizer::of(bytes)?;
        let mut kinds = vec![1; texts.len()];
        for (id, control) in own {
            if let Some(kind) = kinds.get_mut(id as usize) {
                *kind = if control { CONTROL } else { USER_DEFINED };
            }
        }
        let texts = TextList::of(texts).ok_or_else(|| broken("its tokens take 4 GiB and more"))?;
        let ids = TextIndex::of(texts);
        let id_of = |wanted: &[u8]| ids.find(wanted);
        let named = |name: &str| -> Result<Option<u32>> {
            let text = file.text(&format!("tokenizer.{name}_token"))?;
            Ok(text.and_then(|text| id_of(text.as_bytes())))
        };
        let (begin, end) = (named("bos")?, named("eos")?);
        let mut ends: BTreeSet<u32> = end.into_iter().into_set();
        let others = file.numbers("tokenizer.end_token_ids")?.unwrap_or_default();
        ends.extend(others.into_iter().map(|id| id as u32));
        let is_own = |id: &u32| matches!(kinds[*id as usize], CONTROL | USER_DEFINED);
        ends.extend(TURNS.iter().filter_map(|turn| id_of(turn)).filter(is_own));
        let (kind, own) = (Kind::Json(Box::new(json)), HashMap::new());
        Ok(TextTokenizer { ids, kinds, kind, own, first: None, last: None, begin, end, ends })
    }

    #[cfg(not(feature = "tokenizer-json"))]
    fn of_json(_: &ModelFile) -> Result<TextTokenizer> {
        let message = "tokenizers in `tokenizer.json` are not built in";
        Err(Diagnostic::error(codes::UNSUPPORTED_OPERATOR, message)
            .because("what reads them is behind the feature `tokenizer-json`")
            .remedy("build with the feature, or convert the model to GGUF")
            .into())
    }

    /// How many tokens there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ids.texts().len()
    }

    /// Whether there are none, which is never so.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ids.texts().is_empty()
    }

    /// Whether a token ends what a model generates.
    #[must_use]
    pub fn ends(&self, token: u32) -> bool {
        self.ends.contains(&token)
    }

    /// The token that ends what a model generates: the one that the file names, or the first.
    #[must_use]
    pub fn end(&self) -> Option<u32> {
        self.end.or_else(|| self.ends.first().copied())
    }

    /// The text of a token as the file has it.
    #[must_use]
    pub fn text_of(&self, token: u32) -> Option<&[u8]> {
        self.ids.text(token)
    }

    /// The text of the token that begins texts; empty if there is none.
    #[must_use]
    pub fn first_text(&self) -> String {
        let text = self.begin.and_then(|id| self.ids.text(id)).map(String::from_utf8_lossy);
        text.map_or_else(String::new, |text| text.into_owned())
    }

    /// The text of the token that ends texts; empty if there is none.
    #[must_use]
    pub fn last_text(&self) -> String {
        let text = self.end.and_then(|id| self.ids.text(id)).map(String::from_utf8_lossy);
        text.map_or_else(String::new, |text| text.into_owned())
    }

    /// The tokens of a text, with what the model wants around it. Where `control`, texts of tokens
    /// that stand for themselves become those tokens; in what others wrote they should not.
    #[must_use]
    pub fn encode(&self, text: &str, control: bool) -> Vec<u32> {
        #[cfg(feature = "tokenizer-json")]
        if let Kind::Json(json) = &self.kind {
            // A template writes what stands around a text.
            return json.encode(text, control, !control);
        }
        let mut tokens: Vec<u32> = self.first.into_iter().collect();
        self.encode_plain(text, control, &mut tokens);
        // A template may have written the first token already.
        if self.first.is_some() && tokens.len() > 1 && tokens[0] == tokens[1] && control {
            tokens.remove(0);
        }
        tokens.extend(self.last);
        tokens
    }

    /// The tokens of a text by itself: nothing stands around it, and what looks like a token that
    /// stands for itself is text.
    #[must_use]
    pub fn encode_plain_text(&self, text: &str) -> Vec<u32> {
        let mut tokens = Vec::new();
        self.encode_plain(text, false, &mut tokens);
        tokens
    }

    /// Adds the tokens of a text, without anything around it.
    fn encode_plain(&self, text: &str, control: bool, tokens: &mut Vec<u32>) {
        let bytes = text.as_bytes();
        let (mut from, mut at) = (0, 0);
        // Whether what comes next is a text's beginning, or follows a token that stands for itself.
        let mut is_first = true;
        while at < bytes.len() {
            let own = self.own.get(&bytes[at]).into_iter().flatten().copied().find(|&id| {
                (control || self.kinds[id as usize] == USER_DEFINED)
                    && self.ids.text(id).is_some_and(|own| bytes[at..].starts_with(own))
            });
            match own.zip(own.and_then(|id| self.ids.text(id))) {
                Some((id, own)) => {
                    self.encode_part(&text[from..at], is_first, tokens);
                    tokens.push(id);
                    at += own.len();
                    (from, is_first) = (at, true);
                }
                None => at += 1,
            }
        }
        self.encode_part(&text[from..], is_first, tokens);
    }

    fn encode_part(&self, text: &str, is_first: bool, tokens: &mut Vec<u32>) {
        if text.is_empty() {
            return;
        }
        match &self.kind {
            Kind::Pairs(pairs) => pairs.encode(text, &self.ids, tokens),
            Kind::Pieces(pieces) => pieces.encode(text, &self.ids, is_first, tokens),
            #[cfg(feature = "tokenizer-json")]
            Kind::Json(json) => tokens.extend(json.encode(text, false, false)),
        }
    }

    /// The bytes that a token stands for. Tokens that only control a model stand for none.
    #[must_use]
    pub fn bytes_of(&self, token: u32, is_first: bool) -> Vec<u8> {
        let number = token as usize;
        let Some(text) = self.ids.text(token) else { return Vec::new() };
        match (self.kinds[number], &self.kind) {
            (CONTROL | UNUSED, _) => Vec::new(),
            (USER_DEFINED, _) => text.to_vec(),
            (BYTE, _) => pieces::byte_of(text).into_iter().collect(),
            (_, Kind::Pairs(pairs)) => pairs.bytes(text),
            (_, Kind::Pieces(pieces)) => pieces.bytes(text, is_first),
            #[cfg(feature = "tokenizer-json")]
            (_, Kind::Json(json)) => json.bytes(text, is_first),
        }
    }

    /// The text of tokens; bytes that are no characters become a sign for that.
    #[must_use]
    pub fn decode(&self, tokens: &[u32]) -> String {
        let mut bytes = Vec::new();
        for &token in tokens {
            let own = self.bytes_of(token, bytes.is_empty());
            bytes.extend(own);
        }
        String::from_utf8_lossy(&bytes).into_owned()
    }
}
