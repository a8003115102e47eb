//! A text that goes on until something ends it, step by step and piece by piece.

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
        let mut generation = TextGeneration::new(self, prompt, options)?;
        loop {
            if let Some(reason) = generation.step(self, piece)? {
                return Ok(generation.into_generated(reason));
            }
        }
    }
}

/// A text that goes on step by step, so that several can take turns.
pub struct TextGeneration {
    most: usize,
    sampler: Sampler,
    /// What is not taken in yet: the rest of the prompt, or the last token.
    waiting: Vec<u32>,
    logits: Vec<f32>,
    settled: Settled,
    tokens: Vec<u32>,
}

impl TextGeneration {
    /// Begins behind what a context holds. Each step is given that context.
    ///
    /// # Errors
    /// A prompt that [`TextContext::feed`] refuses.
    pub fn new(
        context: &TextContext<'_>,
        prompt: &[u32],
        options: &GenerateOptions,
    ) -> Result<TextGeneration> {
        context.check(prompt)?;
        Ok(TextGeneration {
            most: options.tokens,
            sampler: Sampler::new(options.sampler.clone()),
            waiting: prompt.to_vec(),
            logits: Vec::new(),
            settled: Settled::new(&options.stops),
            tokens: Vec::new(),
        })
    }

    /// How many tokens have been generated.
    #[must_use]
    pub fn len(&self) -> usize {
        self.tokens.len()
    }

    /// Whether none has been generated.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.tokens.is_empty()
    }

    /// Runs the model once, for a part of the prompt or a token; what ended the text, if something
    /// did. A step takes no longer than a run of the most tokens that runs take.
    ///
    /// # Errors
    /// As [`TextContext::feed`].
    pub fn step(
        &mut self,
        context: &mut TextContext<'_>,
        piece: &mut dyn FnMut(&str) -> ControlFlow<()>,
    ) -> Result<Option<StopReason>> {
        if !self.waiting.is_empty() {
            let count = self.waiting.len().min(TextContext::LONGEST_RUN);
            self.logits = context.feed(&self.waiting[..count])?;
            self.waiting.drain(..count);
            if !self.waiting.is_empty() {
                return Ok(None);
            }
        }
        let reason = self.next(context, piece);
        let is_cut = matches!(reason, Some(StopReason::Stop(_) | StopReason::Caller));
        if reason.is_some() && !is_cut {
            self.settled.finish(piece);
        }
        Ok(reason)
    }

    /// Chooses a token by the logits.
    fn next(
        &mut self,
        context: &TextContext<'_>,
        piece: &mut dyn FnMut(&str) -> ControlFlow<()>,
    ) -> Option<StopReason> {
        if self.tokens.len() >= self.most {
            return Some(StopReason::Tokens);
        }
        let Some(token) = self.sampler.choose(&self.logits, context.tokens()) else {
            return Some(StopReason::NoNumber);
        };
        self.tokens.push(token);
        let tokenizer = context.model().tokenizer();
        if tokenizer.ends(token) {
            return Some(StopReason::End);
        }
        let bytes = tokenizer.bytes_of(token, context.tokens().is_empty());
        if let Some(found) = self.settled.push(&bytes, piece) {
            return Some(found);
        }
        if self.tokens.len() == self.most {
            return Some(StopReason::Tokens);
        }
        self.waiting.push(token);
        (context.room() == 0).then_some(StopReason::Room)
    }

    /// What has been generated, with what ended it.
    #[must_use]
    pub fn into_generated(self, reason: StopReason) -> Generated {
        Generated { text: self.settled.text, tokens: self.tokens, reason }
    }
}

/// Text that no stop can change any more, and bytes that wait.
struct Settled {
    stops: Vec<String>,
    text: String,
    /// Bytes that are no whole character, or may be the front of a stop.
    waiting: Vec<u8>,
}

impl Settled {
    fn new(stops: &[String]) -> Settled {
        Settled { stops: stops.to_vec(), text: String::new(), waiting: Vec::new() }
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
