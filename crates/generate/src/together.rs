//! Several texts of one model at once: a run takes a token of each, reads weights once for all of
//! them, and writes to the state of each.
//!
//! Runs are for few, fixed numbers of texts, and see as many pages of each text as the longest of
//! them needs; texts that have no room for so many are not run with it. A run of fewer texts is
//! filled up with states of no text.
//!
//! Invariant: what a text says does not depend on those that it is run with, but for rounding.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, PoisonError};

use base::{Diagnostics, InOrder, Result};
use tensor::Tensor;
use tilewright::compiled::{DecoderModel, Source, compile_source};
use tilewright::{Executable, ModelState, Options};

use crate::model::{LanguageModel, TextContext, rows_of, updates};
use crate::text::{StepTokens, StopReason, TextGeneration};

/// How many texts a run is of, least first.
const TEXTS: [usize; 3] = [2, 4, 8];

/// What runs of several texts need.
#[derive(Default)]
pub(crate) struct Together {
    /// Executables by how many texts they are for.
    executables: Mutex<BTreeMap<usize, Arc<Executable>>>,
    /// States that runs are filled up with, while none uses them.
    spare: Mutex<Vec<SpareState>>,
}

/// A state of no text.
struct SpareState {
    state: ModelState,
    /// How many pages it has room for.
    reserved: usize,
}

impl Together {
    /// How many times code has been made so far.
    pub(crate) fn compiles(&self) -> usize {
        let executables = self.executables.lock().unwrap_or_else(PoisonError::into_inner);
        executables.values().map(|executable| executable.statistics().compiles).sum()
    }

    fn executable(&self, model: &LanguageModel, texts: usize) -> Result<Arc<Executable>> {
        let mut executables = self.executables.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(made) = executables.get(&texts) {
            return Ok(made.clone());
        }
        let (decoder, options) = model.parts();
        let source = Source::Decoder(Arc::new(decoder.of_texts(texts)));
        let mut options = Options::clone(options).with_dim("rows", texts as i64);
        options.updates = updates(&source, &options)?;
        let made = Arc::new(compile_source(source, &options)?);
        executables.insert(texts, made.clone());
        Ok(made)
    }

    /// States of no text with room for so many pages.
    fn spare(&self, model: &LanguageModel, count: usize, pages: usize) -> Result<Vec<SpareState>> {
        let mut spare = self.spare.lock().unwrap_or_else(PoisonError::into_inner);
        spare.retain(|own| own.reserved >= pages);
        let kept = spare.len().saturating_sub(count);
        let mut taken = spare.split_off(kept);
        while taken.len() < count {
            taken.push(SpareState { state: model.state(pages)?, reserved: pages });
        }
        Ok(taken)
    }

    /// Runs a token of each of several texts; the logits behind each.
    fn run(
        &self,
        model: &LanguageModel,
        texts: &mut [(&mut TextContext<'_>, u32)],
    ) -> Result<Vec<Vec<f32>>> {
        let Some(count) = TEXTS.into_iter().find(|&count| count >= texts.len()) else {
            return Err(Diagnostics::internal("more texts than a run is of"));
        };
        let executable = self.executable(model, count)?;
        let pages = texts.iter().map(|(context, _)| context.pages(1)).max().unwrap_or(1);
        let mut spare = self.spare(model, count - texts.len(), pages)?;
        let padded = |mut values: Vec<i64>| {
            values.resize(count, 0);
            Tensor::from_slice(&[count], &values)
        };
        let tokens = padded(texts.iter().map(|(_, token)| i64::from(*token)).collect());
        let places = texts.iter().map(|(context, _)| context.tokens().len() as i64);
        let position = padded(places.collect());
        let rows: Vec<i64> = (0..count as i64).collect();
        let rows = Tensor::from_slice(&[count], &rows);
        let prefixes: Vec<String> = (0..count).map(DecoderModel::text_prefix).collect();
        let own = texts.iter_mut().map(|(context, _)| &mut context.state);
        let states = own.chain(spare.iter_mut().map(|spare| &mut spare.state));
        let mut states: Vec<(&str, &mut ModelState)> =
            prefixes.iter().map(String::as_str).zip(states).collect();
        for (_, state) in &mut states {
            state.set_extent("pages", pages)?;
        }
        let inputs = [("tokens", &tokens), ("position", &position), ("rows", &rows)];
        let outputs = executable.run_with_states(&inputs, &mut states)?;
        let mut rows = rows_of(outputs.tensor("logits")?, count, model.parts().0.vocabulary())?;
        rows.truncate(texts.len());
        for (context, token) in texts {
            context.tokens.push(*token);
        }
        self.spare.lock().unwrap_or_else(PoisonError::into_inner).append(&mut spare);
        Ok(rows)
    }
}

impl LanguageModel {
    /// Takes a token of each of several texts of this model in, at once as far as their room
    /// allows; the logits of what follows each.
    ///
    /// # Errors
    /// As [`TextContext::feed`], of any of the texts, and for a text of another model: then some
    /// have taken their token in, and others not.
    pub fn feed_together(
        &self,
        texts: &mut [(&mut TextContext<'_>, u32)],
    ) -> Result<Vec<Vec<f32>>> {
        for (context, token) in texts.iter() {
            context.check(&[*token])?;
            if !std::ptr::eq(context.model(), self) {
                return Err(Diagnostics::internal("texts of several models at once"));
            }
        }
        // Texts that need as many pages are run together.
        let mut order: Vec<usize> = (0..texts.len()).collect();
        order.put_in_order_by_key(|&text| texts[text].0.pages(1));
        let mut left: Vec<Option<&mut (&mut TextContext<'_>, u32)>> =
            texts.iter_mut().map(Some).collect();
        let mut results = vec![Vec::new(); left.len()];
        let mut rest = &order[..];
        while !rest.is_empty() {
            let needed = |own: &usize| left[*own].as_ref().map_or(0, |text| text.0.pages(1));
            let room = |own: &usize| left[*own].as_ref().map_or(0, |text| text.0.reserved);
            let fits = |count: &usize| {
                let own = &rest[..*count];
                own.iter().map(needed).max() <= own.iter().map(room).min()
            };
            // Of an engine's model nothing is there that code for several texts could be made of.
            let together = if self.engine_digest().is_some() { 1 } else { TEXTS[TEXTS.len() - 1] };
            let most = rest.len().min(together);
            let count = (1..=most).rev().find(fits).unwrap_or(1);
            let (now, behind) = rest.split_at(count);
            let mut own: Vec<(&mut TextContext<'_>, u32)> = now
                .iter()
                .filter_map(|&text| left[text].take())
                .map(|(context, token)| (&mut **context, *token))
                .collect();
            let rows = match &mut own[..] {
                [(context, token)] => vec![context.feed(&[*token])?],
                own => self.together().run(self, own)?,
            };
            for (&text, row) in now.iter().zip(rows) {
                results[text] = row;
            }
            rest = behind;
        }
        Ok(results)
    }
}

/// A text whose turn it is.
pub struct TextTurn<'t, 'm> {
    /// How it goes on.
    pub generation: &'t mut TextGeneration<'m>,
    /// What is known of it.
    pub context: &'t mut TextContext<'m>,
    /// Who takes its pieces.
    pub piece: &'t mut dyn FnMut(&str) -> ControlFlow<()>,
}

/// A step of each of several texts of a model, as [`TextGeneration::step`]: what ended each, if
/// something did. Those that take one token in are run together; those that take in a part of a
/// prompt, or guesses, one by one.
///
/// # Errors
/// For each text those of its own step; the others go on.
pub fn step_together(
    model: &LanguageModel,
    turns: &mut [TextTurn<'_, '_>],
) -> Vec<Result<Option<StopReason>>> {
    let mut asked: Vec<Result<StepTokens>> =
        turns.iter_mut().map(|turn| turn.generation.asked(turn.context)).collect();
    let single = |asked: &Result<StepTokens>| match asked {
        Ok(StepTokens { tokens, .. }) if tokens.len() == 1 => tokens.first().copied(),
        _ => None,
    };
    let mut singles: Vec<(&mut TextContext<'_>, u32)> = Vec::new();
    for (turn, asked) in turns.iter_mut().zip(&asked) {
        if let Some(token) = single(asked) {
            singles.push((&mut *turn.context, token));
        }
    }
    let before: Vec<usize> = singles.iter().map(|(context, _)| context.tokens().len()).collect();
    let rows = if singles.len() > 1 { model.feed_together(&mut singles).ok() } else { None };
    if rows.is_none() {
        // Each is run alone, and says itself what is wrong with it.
        for ((context, _), before) in singles.iter_mut().zip(before) {
            context.truncate(before);
        }
    }
    let mut rows = rows.into_iter().flatten();
    turns
        .iter_mut()
        .zip(asked.drain(..))
        .map(|(turn, asked)| {
            let row = single(&asked).and_then(|_| rows.next());
            turn.generation.step_of(turn.context, asked?, row, turn.piece)
        })
        .collect()
}
