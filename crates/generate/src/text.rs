//! A text that goes on until something ends it, piece by piece.

use std::ops::ControlFlow;

use base::Result;

use crate::model::TextContext;
use crate::sample::{Sampler, SamplerOptions};

/// How a text goes on.
#[derive(Clone, Debug)]
pub struct GenerateOptions {
    /// The most tokens.
    pub tokens: usize,
    /// How each is chosen.
    pub sampler: SamplerOptions,
    /// Texts at which it ends; they are not part of it.
    pub stops: Vec<String>,
}

impl Default for GenerateOptions {
    fn default() -> GenerateOptions {
        let sampler = SamplerOptions::default();
        GenerateOptions { tokens: 256, sampler, stops: Vec::new() }
    }
}

/// What ended a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StopReason {
    /// The model: a token that ends texts.
    End,
    /// One of the texts that were asked for.
    Stop(String),
    /// There are as many tokens as were asked for.
    Tokens,
    /// There is no room for more.
    Room,
    /// Whoever takes the pieces.
    Caller,
    /// No logit is a number.
    NoNumber,
}

/// What has been generated.
#[derive(Clone, Debug)]
pub struct Generated {
    /// The text behind the prompt.
    pub text: String,
    /// Its tokens, one that ended it included.
    pub tokens: Vec<u32>,
    /// What ended it.
    pub reason: StopReason,
}

impl TextContext<'_> {
    /// Takes the tokens of a prompt in and goes on from there. `piece` is given each part of the
    /// text as soon as it is settled, in whole characters, and may end it.
    ///
    /// # Errors
    /// As [`TextContext::feed`]; what was generated before is in the context.
    pub fn generate(
        &mut self,
        prompt: &[u32],
        options: &GenerateOptions,
        piece: &mut dyn FnMut(&str) -> ControlFlow<()>,
    ) -> Result<Generated> {
        let mut sampler = Sampler::new(options.sampler.clone());
        let mut logits = self.feed(prompt)?;
        let mut settled = Settled::new(&options.stops);
        let mut tokens = Vec::new();
        let mut reason = StopReason::Tokens;
        while tokens.len() < options.tokens {
            let Some(token) = sampler.choose(&logits, self.tokens()) else {
                reason = StopReason::NoNumber;
                break;
            };
            tokens.push(token);
            if self.model().tokenizer().ends(token) {
                reason = StopReason::End;
                break;
            }
            let bytes = self.model().tokenizer().bytes_of(token, self.tokens().is_empty());
            let found = settled.push(&bytes, piece);
            if let Some(found) = found {
                reason = found;
                break;
            }
            if tokens.len() == options.tokens {
                break;
            }
            if self.room() == 0 {
                reason = StopReason::Room;
                break;
            }
            logits = self.feed(&[token])?;
        }
        if !matches!(reason, StopReason::Stop(_) | StopReason::Caller) {
            settled.finish(piece);
        }
        Ok(Generated { text: settled.text, tokens, reason })
    }
}

/// Text that no stop can change any more, and bytes that wait.
struct Settled<'a> {
    stops: &'a [String],
    text: String,
    /// Bytes that are no whole character, or may be the front of a stop.
    waiting: Vec<u8>,
}

impl<'a> Settled<'a> {
    fn new(stops: &'a [String]) -> Settled<'a> {
        Settled { stops, text: String::new(), waiting: Vec::new() }
    }

    /// Adds bytes; why the text ends, if it does.
    fn push(
        &mut self,
        bytes: &[u8],
        piece: &mut dyn FnMut(&str) -> ControlFlow<()>,
    ) -> Option<StopReason> {
        self.waiting.extend_from_slice(bytes);
        let places = self.stops.iter().filter(|stop| !stop.is_empty()).filter_map(|stop| {
            let own = stop.as_bytes();
            let place = self.waiting.windows(own.len()).position(|window| window == own)?;
            Some((place, stop))
        });
        if let Some((place, stop)) = places.min_by_key(|(place, _)| *place) {
            let stop = stop.clone();
            _ = self.settle(place, true, piece);
            self.waiting.clear();
            return Some(StopReason::Stop(stop));
        }
        // What may be the front of a stop waits.
        let kept = self.stops.iter().filter_map(|stop| {
            let own = stop.as_bytes();
            let fronts = (1..own.len()).rev();
            fronts.into_iter().find(|&count| self.waiting.ends_with(&own[..count]))
        });
        let free = self.waiting.len() - kept.max().unwrap_or(0);
        self.settle(free, false, piece).is_break().then_some(StopReason::Caller)
    }

    /// Gives what does not fill a character as a sign for that.
    fn finish(&mut self, piece: &mut dyn FnMut(&str) -> ControlFlow<()>) {
        _ = self.settle(self.waiting.len(), true, piece);
    }

    /// Moves so many bytes to the text, but for the front of a character unless it is the end.
    fn settle(
        &mut self,
        count: usize,
        is_end: bool,
        piece: &mut dyn FnMut(&str) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let front = &self.waiting[..count];
        let whole = match std::str::from_utf8(front) {
            Err(found) if !is_end && found.error_len().is_none() => found.valid_up_to(),
            _ => count,
        };
        let added = String::from_utf8_lossy(&self.waiting[..whole]).into_owned();
        self.waiting.drain(..whole);
        if added.is_empty() {
            return ControlFlow::Continue(());
        }
        self.text += &added;
        piece(&added)
    }
}
