//! A text that goes on until something ends it, step by step and piece by piece.

use std::ops::ControlFlow;

use base::Result;

use crate::guess::Guesser;
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
    /// The most tokens that are guessed and run with the one before them, at once; 0 is none. What
    /// is generated is the same but for rounding: each token is chosen as it is without, and
    /// guesses behind the first that is wrong are forgotten.
    pub guesses: usize,
    /// What the text has to be.
    #[cfg(feature = "grammar")]
    pub grammar: Option<crate::grammar::TextGrammar>,
}

impl Default for GenerateOptions {
    fn default() -> GenerateOptions {
        let sampler = SamplerOptions::default();
        GenerateOptions {
            tokens: 256,
            sampler,
            stops: Vec::new(),
            guesses: 0,
            #[cfg(feature = "grammar")]
            grammar: None,
        }
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
    /// How many tokens were guessed.
    pub guessed: usize,
    /// How many guesses were right.
    pub right: usize,
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
        TextGeneration::new(self, prompt, options)?.finish(self, piece)
    }
}

/// A text that goes on step by step, so that several can take turns.
pub struct TextGeneration<'m> {
    most: usize,
    sampler: Sampler,
    /// What is not taken in yet: the rest of the prompt, or the last token.
    waiting: Vec<u32>,
    guesser: Option<Guesser<'m>>,
    #[cfg(feature = "grammar")]
    grammar: Option<crate::grammar::FollowedGrammar>,
    settled: Settled,
    tokens: Vec<u32>,
    ended: Option<StopReason>,
    guessed: usize,
    right: usize,
}

/// What a step of a generation runs.
pub(crate) struct StepTokens {
    /// The tokens, guesses last.
    pub(crate) tokens: Vec<u32>,
    /// How many of them are guesses.
    pub(crate) guesses: usize,
}

impl<'m> TextGeneration<'m> {
    /// Begins behind what a context holds. Each step is given that context.
    ///
    /// # Errors
    /// A prompt that [`TextContext::feed`] refuses.
    pub fn new(
        context: &TextContext<'_>,
        prompt: &[u32],
        options: &GenerateOptions,
    ) -> Result<TextGeneration<'m>> {
        context.check(prompt)?;
        Ok(TextGeneration {
            most: options.tokens,
            sampler: Sampler::new(options.sampler.clone()),
            waiting: prompt.to_vec(),
            guesser: (options.guesses > 0)
                .then(|| Guesser::of_repeats(options.guesses, context.model().further_token())),
            #[cfg(feature = "grammar")]
            grammar: options.grammar.as_ref().map(|grammar| grammar.begin()),
            settled: Settled::new(&options.stops),
            tokens: Vec::new(),
            ended: None,
            guessed: 0,
            right: 0,
        })
    }

    /// Guesses by another model, which has the same tokens: in a text of its own, by the likeliest
    /// tokens there. As many at once as [`GenerateOptions::guesses`] has it.
    ///
    /// # Errors
    /// `TW0103` for a model of other tokens.
    pub fn guessing_by(
        mut self,
        context: &TextContext<'_>,
        other: TextContext<'m>,
    ) -> Result<TextGeneration<'m>> {
        if let Some(guesser) = self.guesser.take() {
            self.guesser = Some(guesser.by(context, other)?);
        }
        Ok(self)
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

    /// What has been generated, one token that ended it included.
    #[must_use]
    pub fn tokens(&self) -> &[u32] {
        &self.tokens
    }

    /// Goes on until the text ends.
    ///
    /// # Errors
    /// As [`TextContext::feed`]; what was generated before is in the context.
    pub fn finish(
        mut self,
        context: &mut TextContext<'_>,
        piece: &mut dyn FnMut(&str) -> ControlFlow<()>,
    ) -> Result<Generated> {
        loop {
            if let Some(reason) = self.step(context, piece)? {
                return Ok(self.into_generated(reason));
            }
        }
    }

    /// Runs the model once, for a part of the prompt or a token with what is guessed to follow it;
    /// what ended the text, if something did. A step takes no longer than a run of the most tokens
    /// that runs take. Behind its end a text stays as it is.
    ///
    /// # Errors
    /// As [`TextContext::feed`].
    pub fn step(
        &mut self,
        context: &mut TextContext<'_>,
        piece: &mut dyn FnMut(&str) -> ControlFlow<()>,
    ) -> Result<Option<StopReason>> {
        let asked = self.asked(context)?;
        self.step_of(context, asked, None, piece)
    }

    /// The step that runs what was asked for, or whose one row of logits is there already.
    pub(crate) fn step_of(
        &mut self,
        context: &mut TextContext<'_>,
        asked: StepTokens,
        row: Option<Vec<f32>>,
        piece: &mut dyn FnMut(&str) -> ControlFlow<()>,
    ) -> Result<Option<StopReason>> {
        if self.ended.is_some() {
            return Ok(self.ended.clone());
        }
        let rows = match row {
            Some(row) => vec![row],
            None if asked.guesses == 0 => vec![context.feed(&asked.tokens)?],
            None => context.feed_all(&asked.tokens)?,
        };
        self.take(context, &asked, rows, piece)
    }

    /// What the next step runs.
    ///
    /// # Errors
    /// Those of the model that guesses.
    pub(crate) fn asked(&mut self, context: &TextContext<'_>) -> Result<StepTokens> {
        let count = match self.ended {
            None => self.waiting.len().min(TextContext::LONGEST_RUN),
            Some(_) => 0,
        };
        let mut tokens = self.waiting[..count].to_vec();
        let mut guesses = 0;
        // Guesses follow the last token of a text; what takes a prompt in is long enough.
        if let (Some(guesser), [last]) = (&mut self.guesser, &tokens[..]) {
            let left = self.most.saturating_sub(self.tokens.len() + 1);
            let room = context.room().saturating_sub(1);
            let found = guesser.guess(context.tokens(), *last, left.min(room))?;
            guesses = found.len();
            tokens.extend(found);
        }
        Ok(StepTokens { tokens, guesses })
    }

    /// Takes in what a run of what was asked for has given: the logits behind the last of what is
    /// no guess, and behind each guess.
    fn take(
        &mut self,
        context: &mut TextContext<'_>,
        asked: &StepTokens,
        rows: Vec<Vec<f32>>,
        piece: &mut dyn FnMut(&str) -> ControlFlow<()>,
    ) -> Result<Option<StopReason>> {
        let guesses = &asked.tokens[asked.tokens.len() - asked.guesses..];
        self.waiting.drain(..asked.tokens.len() - asked.guesses);
        if !self.waiting.is_empty() {
            return Ok(None);
        }
        let known = context.tokens().len() - guesses.len();
        let mut right = 0;
        for (row, logits) in rows.into_iter().enumerate() {
            right = row;
            let before = &context.tokens()[..known + row];
            self.ended = self.next(context, before, logits, piece)?;
            if self.ended.is_some() || self.tokens.last() != guesses.get(row) {
                break;
            }
        }
        context.truncate(known + right);
        if let Some(guesser) = &mut self.guesser {
            guesser.learn(guesses.len(), right);
        }
        self.guessed += guesses.len();
        self.right += right;
        if self.ended.is_none() {
            self.waiting.extend(self.tokens.last());
            self.ended = (context.room() == 0).then_some(StopReason::Room);
        }
        let is_cut = matches!(self.ended, Some(StopReason::Stop(_) | StopReason::Caller));
        if self.ended.is_some() && !is_cut {
            self.settled.finish(piece);
        }
        Ok(self.ended.clone())
    }

    /// Chooses a token by the logits behind the tokens before; why the text ends with it, if it
    /// does.
    fn next(
        &mut self,
        context: &TextContext<'_>,
        before: &[u32],
        #[cfg_attr(not(feature = "grammar"), expect(unused_mut, reason = "a grammar masks them"))]
        mut logits: Vec<f32>,
        piece: &mut dyn FnMut(&str) -> ControlFlow<()>,
    ) -> Result<Option<StopReason>> {
        if self.tokens.len() >= self.most {
            return Ok(Some(StopReason::Tokens));
        }
        #[cfg(feature = "grammar")]
        if let Some(grammar) = &mut self.grammar {
            grammar.mask(&mut logits)?;
        }
        let Some(token) = self.sampler.choose(logits, before) else {
            return Ok(Some(StopReason::NoNumber));
        };
        self.tokens.push(token);
        let tokenizer = context.model().tokenizer();
        if tokenizer.ends(token) {
            return Ok(Some(StopReason::End));
        }
        #[cfg(feature = "grammar")]
        if let Some(grammar) = &mut self.grammar {
            grammar.take(token)?;
        }
        let bytes = tokenizer.bytes_of(token, before.is_empty());
        if let Some(found) = self.settled.push(&bytes, piece) {
            return Ok(Some(found));
        }
        Ok((self.tokens.len() == self.most).then_some(StopReason::Tokens))
    }

    /// What has been generated, with what ended it.
    #[must_use]
    pub fn into_generated(self, reason: StopReason) -> Generated {
        let TextGeneration { settled, tokens, guessed, right, .. } = self;
        Generated { text: settled.text, tokens, reason, guessed, right }
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
