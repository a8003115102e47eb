//! Texts to tokens by a `tokenizer.json`, as Hugging Face's crate reads it; and the bytes that each
//! token stands for, which texts are put together of piece by piece.

use std::sync::OnceLock;

use base::{Diagnostic, Result, codes};
use serde_json::Value;
use tokenizers::Tokenizer;

use super::{broken, pairs, pieces};

/// The most tokens that are read.
const MOST: u32 = 1 << 22;

/// A tokenizer of a file.
#[derive(Debug)]
pub(super) struct JsonTokenizer {
    /// Reads what looks like a token that stands for itself as text.
    plain: Tokenizer,
    /// Reads it as that token; made when it is first used.
    control: OnceLock<Tokenizer>,
    writing: Writing,
}

/// How texts of tokens stand for bytes.
#[derive(Clone, Copy, Debug)]
enum Writing {
    /// A character a byte.
    Bytes,
    /// Characters, with signs for spaces and for bytes. Whether the first space of a text is left
    /// out.
    Pieces { stripped: bool },
}

/// The texts of the tokens, and those that stand for themselves: whether they only control a model.
pub(super) type Vocabulary = (Vec<Vec<u8>>, Vec<(u32, bool)>);

impl JsonTokenizer {
    /// Reads the bytes of a file.
    pub(super) fn of(bytes: &[u8]) -> Result<(JsonTokenizer, Vocabulary)> {
        let refused = |found: String| broken(found).at("file \"tokenizer.json\"");
        let value: Value =
            serde_json::from_slice(bytes).map_err(|found| refused(found.to_string()))?;
        let writing = writing(&value["decoder"])?;
        drop(value);
        let mut plain = Tokenizer::from_bytes(bytes).map_err(|found| refused(found.to_string()))?;
        plain.with_truncation(None).map_err(|found| refused(found.to_string()))?;
        plain.with_padding(None);
        plain.set_encode_special_tokens(true);
        let tokens = plain.get_vocab(true);
        let count = tokens.values().max().map_or(0, |last| last.saturating_add(1));
        if count == 0 || count > MOST {
            return Err(broken(format!("it numbers its tokens up to {count}")).into());
        }
        let mut texts = vec![Vec::new(); count as usize];
        for (text, id) in tokens {
            texts[id as usize] = text.into_bytes();
        }
        let own = plain.get_added_tokens_decoder();
        let own = own.iter().map(|(&id, token)| (id, token.special)).collect();
        Ok((JsonTokenizer { plain, control: OnceLock::new(), writing }, (texts, own)))
    }

    /// The tokens of a text. One that a template wrote has what stands around it already.
    pub(super) fn encode(&self, text: &str, control: bool, around: bool) -> Vec<u32> {
        let tokenizer = if control {
            self.control.get_or_init(|| {
                let mut own = self.plain.clone();
                own.set_encode_special_tokens(false);
                own
            })
        } else {
            &self.plain
        };
        // Models in files fail for texts that they have no tokens for; those have none.
        let encoded = tokenizer.encode_fast(text, around);
        encoded.map_or_else(|_| Vec::new(), |encoded| encoded.get_ids().to_vec())
    }

    /// The bytes of a token's text.
    pub(super) fn bytes(&self, text: &[u8], is_first: bool) -> Vec<u8> {
        match self.writing {
            Writing::Bytes => pairs::bytes_of(text),
            Writing::Pieces { stripped } => match pieces::byte_of(text) {
                Some(byte) => vec![byte],
                None => pieces::characters_of(text, is_first && stripped),
            },
        }
    }
}

/// How the decoder of a file writes bytes.
fn writing(decoder: &Value) -> Result<Writing> {
    let steps = match decoder.get("decoders").and_then(Value::as_array) {
        Some(steps) => &steps[..],
        None => std::slice::from_ref(decoder),
    };
    let kind = |step: &Value| step.get("type").and_then(Value::as_str).map(str::to_owned);
    let find = |name: &str| steps.iter().find(|step| kind(step).as_deref() == Some(name));
    if find("ByteLevel").is_some() {
        return Ok(Writing::Bytes);
    }
    if let Some(step) = find("Metaspace") {
        let scheme = step.get("prepend_scheme").and_then(Value::as_str);
        return Ok(Writing::Pieces { stripped: scheme != Some("never") });
    }
    if find("Replace").is_some() || find("ByteFallback").is_some() {
        return Ok(Writing::Pieces { stripped: find("Strip").is_some() });
    }
    let kinds: Vec<String> = steps.iter().filter_map(kind).collect();
    let message = format!("texts of tokens decoded by {} are not supported", kinds.join(", "));
    Err(Diagnostic::error(codes::UNSUPPORTED_OPERATOR, message)
        .at("key \"decoder\" of tokenizer.json")
        .because("byte pairs (ByteLevel) and SentencePiece (Metaspace, Replace) are")
        .remedy("use a model with one of these")
        .into())
}
