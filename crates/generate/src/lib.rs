//! Texts by language models: a file's tokenizer, its model as an executable with a state, and what
//! chooses a token by its logits.
//!
//! - [`LanguageModel`] is a GGUF file or a safetensors folder, compiled: code for runs of few,
//!   fixed numbers of tokens (`model.rs`), so that neither a prompt's length nor a text's growth
//!   compiles anything.
//! - [`TextContext`] is a text that grows: its tokens, and the state that holds keys and values.
//! - [`TextTokenizer`] (`tokenizer/`): byte pairs and SentencePiece as GGUF files describe them;
//!   with the feature `tokenizer-json` what folders have.
//! - [`Sampler`] (`sample.rs`): greedy, or by chance with a seed that reproduces.
//! - Guesses (`guess.rs`), of repetitions or by a smaller model, let one run judge several tokens.
//! - `TextGrammar` (`grammar.rs`), with the feature `grammar`: texts that a JSON schema or a
//!   grammar allows.
//! - `written`, with the feature `chat`: messages by the template of a chat model (`chat.rs`).
//! - [`TextContext::generate`] (`text.rs`) puts them together, piece by piece; with
//!   [`TextGeneration`] several texts take turns.
//! - [`step_together`] (`together.rs`) runs a token of each of several texts at once.
//! - [`TextContext::save`] (`saved.rs`) keeps what a model knows of a text in a file, and
//!   [`TextContext::load`] begins with it.
//!
//! Invariants: what a file or a caller says never panics; a text that does not fit says so, and
//! nothing that was generated before is lost.

#[cfg(feature = "chat")]
mod chat;
mod evaluate;
#[cfg(feature = "grammar")]
mod grammar;
mod guess;
mod model;
mod sample;
mod saved;
mod text;
mod together;
mod tokenizer;

#[cfg(feature = "chat")]
pub use chat::{Message, written};
pub use evaluate::{TextLikelihood, likelihood};
#[cfg(feature = "grammar")]
pub use grammar::TextGrammar;
pub use model::{LanguageModel, TextContext};
pub use sample::{Sampler, SamplerOptions};
pub use text::{GenerateOptions, Generated, StopReason, TextGeneration};
pub use together::{TextTurn, step_together};
pub use tokenizer::TextTokenizer;
