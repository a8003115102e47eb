//! How likely a model finds a text.

use base::Result;

use crate::model::LanguageModel;

/// How likely the tokens of a text are, each by those before it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TextLikelihood {
    /// Tokens that were judged: all but the first of each window.
    pub tokens: usize,
    /// The sum of the natural logarithms of their likelihoods.
    pub log_likelihood: f64,
}

impl TextLikelihood {
    /// The exponential of the mean negative log-likelihood: how many tokens the model hesitates
    /// between.
    #[must_use]
    pub fn perplexity(&self) -> f64 {
        (-self.log_likelihood / self.tokens as f64).exp()
    }
}

/// Judges tokens in windows of so many, each by itself: the first token of a window is given.
///
/// # Errors
/// Those of [`TextContext::feed`](crate::TextContext::feed); fewer than two tokens are no text.
pub fn likelihood(model: &LanguageModel, tokens: &[u32], window: usize) -> Result<TextLikelihood> {
    let window = window.max(2);
    let mut judged = TextLikelihood { tokens: 0, log_likelihood: 0.0 };
    let mut context = model.context(window)?;
    for part in tokens.chunks(window).filter(|part| part.len() > 1) {
        context.truncate(0);
        // The logits behind the last token say nothing of the text.
        for (first, own) in part[..part.len() - 1].chunks(ROWS).enumerate() {
            let rows = context.feed_all(own)?;
            for (row, &next) in rows.iter().zip(&part[first * ROWS + 1..]) {
                judged.log_likelihood += log_likelihood(row, next);
                judged.tokens += 1;
            }
        }
    }
    if judged.tokens == 0 {
        context.feed(&[])?;
    }
    Ok(judged)
}

/// Rows of logits that are kept at once.
const ROWS: usize = 128;

/// The logarithm of a token's share of the exponentials.
fn log_likelihood(logits: &[f32], token: u32) -> f64 {
    let most = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let sum: f64 = logits.iter().map(|&logit| f64::from(logit - most).exp()).sum();
    f64::from(logits[token as usize] - most) - sum.ln()
}
