//! Architectures: a function each, and a row a name that files use.

mod gemma;
mod llama;
mod phi;

use front::{Accepted, Operand};

use crate::decoder::Decoder;

/// Writes a model; its logits.
pub(crate) type Write = fn(&mut Decoder<'_>) -> Accepted<Operand>;

/// The architectures by their names in files.
pub(crate) const ARCHITECTURES: &[(&str, Write)] = &[
    // Models of Llama's, Mistral's, SmolLM and others.
    ("llama", llama::llama),
    ("granite", llama::llama),
    ("olmo", llama::olmo),
    ("qwen2", llama::qwen),
    ("qwen3", llama::qwen),
    ("gemma2", gemma::gemma2),
    ("phi3", phi::phi3),
];

/// The function of an architecture.
pub(crate) fn find(name: &str) -> Option<Write> {
    ARCHITECTURES.iter().find(|row| row.0 == name).map(|row| row.1)
}
