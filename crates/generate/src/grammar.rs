//! Texts that a JSON schema or a grammar allows: which tokens may come next, by `llguidance`.
//!
//! A grammar is compiled once for the tokens of a model, and each text follows a copy of it. What
//! it does not allow is as good as impossible: its logits are minus infinity before a token is
//! chosen, whatever way that is done. Where nothing more is allowed, the token that ends texts is.
//!
//! Invariant: what a grammar's text says never panics here, and takes bounded time and memory; what
//! the library thinks of it is said in a diagnostic.

use std::fmt;
use std::sync::{Arc, OnceLock};

use base::{Diagnostic, Diagnostics, Result, codes};
use llguidance::api::TopLevelGrammar;
use llguidance::toktrie::{ApproximateTokEnv, TokRxInfo, TokTrie};
use llguidance::{Matcher, ParserFactory};

use crate::model::LanguageModel;
use crate::tokenizer::TextTokenizer;

/// A grammar for the texts of a model.
#[derive(Clone)]
pub struct TextGrammar {
    /// At the beginning of a text.
    start: Arc<Matcher>,
}

impl fmt::Debug for TextGrammar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TextGrammar")
    }
}

/// What grammars of a model share, made with the first of them.
#[derive(Default)]
pub(crate) struct GrammarTokens(OnceLock<std::result::Result<ParserFactory, String>>);

impl GrammarTokens {
    fn factory(
        &self,
        tokenizer: &TextTokenizer,
    ) -> std::result::Result<&ParserFactory, Diagnostics> {
        let made = self.0.get_or_init(|| {
            let Some(end) = tokenizer.end() else {
                return Err("the tokenizer has no token that ends texts".to_owned());
            };
            let count = tokenizer.len() as u32;
            let word = |token: u32| {
                let bytes = tokenizer.bytes_of(token, false);
                if !bytes.is_empty() && !tokenizer.ends(token) {
                    return bytes;
                }
                // What stands for no text is allowed where a grammar names it, or nowhere.
                let name = tokenizer.text_of(token).unwrap_or_default();
                if name.is_empty() { Vec::new() } else { [b"\xff", name].concat() }
            };
            let words: Vec<Vec<u8>> = (0..count).map(word).collect();
            let trie = TokTrie::from(&TokRxInfo::new(count, end), &words);
            let tokens: Arc<ApproximateTokEnv> = Arc::new(ApproximateTokEnv::new(trie));
            let factory = ParserFactory::new_simple(&(tokens as _));
            let mut factory = factory.map_err(|found| found.to_string())?;
            factory.quiet();
            Ok(factory)
        });
        made.as_ref().map_err(|reason| refused(reason))
    }
}

fn refused(reason: &str) -> Diagnostics {
    Diagnostic::error(codes::BAD_INPUT_FILE, "the grammar cannot be used")
        .at("the grammar")
        .because(reason)
        .remedy("change what it names, or generate without it")
        .into()
}

impl TextGrammar {
    /// The texts that a JSON schema allows: JSON, of a subset of draft 2020-12, in which objects
    /// have their properties in the order of the schema.
    ///
    /// # Errors
    /// `TW0212` for what is no JSON, and for keywords that are not supported.
    pub fn of_schema(model: &LanguageModel, schema: &str) -> Result<TextGrammar> {
        let schema = serde_json::from_str(schema);
        let schema = schema.map_err(|found| refused(&format!("the schema is no JSON: {found}")))?;
        TextGrammar::of(model, TopLevelGrammar::from_json_schema(schema))
    }

    /// The texts that a grammar in the notation of Lark allows; `start` is what a text is.
    ///
    /// # Errors
    /// `TW0212` for what is no such grammar.
    pub fn of_grammar(model: &LanguageModel, grammar: &str) -> Result<TextGrammar> {
        TextGrammar::of(model, TopLevelGrammar::from_lark(grammar.to_owned()))
    }

    fn of(model: &LanguageModel, grammar: TopLevelGrammar) -> Result<TextGrammar> {
        let factory = model.grammar_tokens().factory(model.tokenizer())?;
        let start = Matcher::new(factory.create_parser(grammar));
        match start.get_error() {
            Some(reason) => Err(refused(&reason)),
            None => Ok(TextGrammar { start: Arc::new(start) }),
        }
    }

    /// What a text follows.
    pub(crate) fn begin(&self) -> FollowedGrammar {
        FollowedGrammar { matcher: self.start.deep_clone() }
    }
}

/// The bits of a word, the lowest first.
const BITS: [u32; 32] = {
    let mut bits = [0; 32];
    let mut bit = 0;
    while bit < 32 {
        bits[bit] = 1 << bit;
        bit += 1;
    }
    bits
};

/// A grammar, and how far a text is in it.
pub(crate) struct FollowedGrammar {
    matcher: Matcher,
}

impl FollowedGrammar {
    /// Makes the logits of tokens that may not come next minus infinity.
    ///
    /// # Errors
    /// What the library could not go on with.
    pub(crate) fn mask(&mut self, logits: &mut [f32]) -> Result<()> {
        let allowed = self.matcher.compute_mask_or_eos();
        let allowed = allowed.map_err(|found| refused(&found.to_string()))?;
        let words = allowed.as_slice();
        for (part, word) in logits.chunks_mut(32).zip(words.iter().chain(std::iter::repeat(&0))) {
            match *word {
                u32::MAX => {}
                0 => part.fill(f32::NEG_INFINITY),
                // Without branches, so in vectors.
                word => part.iter_mut().zip(BITS).for_each(|(logit, bit)| {
                    *logit = if word & bit == 0 { f32::NEG_INFINITY } else { *logit };
                }),
            }
        }
        Ok(())
    }

    /// Goes on behind a token that was allowed.
    ///
    /// # Errors
    /// What the library could not go on with.
    pub(crate) fn take(&mut self, token: u32) -> Result<()> {
        self.matcher.consume_token(token).map_err(|found| refused(&found.to_string()))
    }
}
