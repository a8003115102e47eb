//! The thread that generates: texts take a step each, those that take in one token together.

use std::ops::ControlFlow;
use std::sync::mpsc::{Receiver, TryRecvError};
use std::time::{Duration, Instant};

use base::{Diagnostics, Result};
use generate::{
    GenerateOptions, LanguageModel, StopReason, TextContext, TextGeneration, TextTurn,
    step_together,
};
use tokio::sync::mpsc::Sender;

use crate::ServeOptions;

/// The most events of one step: two pieces, and the end.
const EVENTS_OF_A_STEP: usize = 3;

/// How long nothing is looked at where all texts wait for their readers.
const PAUSE: Duration = Duration::from_millis(2);

/// What is asked of a model.
pub(crate) enum Task {
    /// To go on with a prompt.
    Generate(GenerateOptions),
    /// The vector of a text.
    Embed,
}

/// A text that waits for its turn.
pub(crate) struct Queued {
    /// Which of its request's texts it is.
    pub(crate) number: usize,
    pub(crate) prompt: Vec<u32>,
    pub(crate) task: Task,
    pub(crate) events: Sender<(usize, TextEvent)>,
}

/// What becomes of a text.
pub(crate) enum TextEvent {
    /// It goes on so.
    Piece(String),
    /// It has ended, after so many tokens.
    End(StopReason, usize),
    /// The vector of a text.
    Vector(Vec<f32>),
    /// The model could not go on.
    Failed(Diagnostics),
}

/// A text that is being generated.
struct Active<'m> {
    number: usize,
    context: TextContext<'m>,
    generation: TextGeneration<'m>,
    events: Sender<(usize, TextEvent)>,
    /// Since when its reader has not taken what there is.
    stalled: Option<Instant>,
    state: ActiveState,
}

/// What becomes of a text in a turn.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ActiveState {
    Step,
    Wait,
    End,
}

/// Takes texts from the queue, and turns with them, until nobody can queue any more.
pub(crate) fn take(model: &LanguageModel, options: &ServeOptions, queue: &Receiver<Queued>) {
    let mut active: Vec<Active<'_>> = Vec::new();
    loop {
        while active.len() < options.parallel.max(1) {
            let next = if active.is_empty() {
                match queue.recv() {
                    Ok(next) => next,
                    Err(_) => return,
                }
            } else {
                match queue.try_recv() {
                    Ok(next) => next,
                    Err(TryRecvError::Empty | TryRecvError::Disconnected) => break,
                }
            };
            active.extend(begin(model, options, next));
        }
        for text in &mut active {
            text.state = text.state_now(options.patience);
        }
        let is_idle = !active.iter().any(|text| text.state == ActiveState::Step);
        step(model, &mut active);
        active.retain(|text| text.state != ActiveState::End);
        if is_idle && !active.is_empty() {
            std::thread::sleep(PAUSE);
        }
    }
}

/// A step of all texts whose state allows it, together.
fn step(model: &LanguageModel, active: &mut [Active<'_>]) {
    let ready = || |text: &&mut Active<'_>| text.state == ActiveState::Step;
    let mut pieces: Vec<_> = Vec::new();
    let mut parts: Vec<_> = Vec::new();
    let mut ends: Vec<_> = Vec::new();
    for text in active.iter_mut().filter(ready()) {
        let Active { number, context, generation, events, state, .. } = text;
        let (number, events) = (*number, &*events);
        pieces.push(move |piece: &str| {
            match events.try_send((number, TextEvent::Piece(piece.to_owned()))) {
                Ok(()) => ControlFlow::Continue(()),
                Err(_) => ControlFlow::Break(()),
            }
        });
        parts.push((context, generation));
        ends.push((events, number, state));
    }
    let turns = parts.into_iter().zip(&mut pieces);
    let mut turns: Vec<TextTurn<'_, '_>> = turns
        .map(|((context, generation), piece)| TextTurn { generation, context, piece })
        .collect();
    let outcome = tilewright::catch_internal_errors(|| Ok(step_together(model, &mut turns)));
    let outcomes = outcome.unwrap_or_else(|found| {
        let failed = ends.iter().map(|_| Err(found.clone()));
        failed.collect()
    });
    let counts: Vec<usize> = turns.iter().map(|turn| turn.generation.len()).collect();
    for (((events, number, state), outcome), count) in ends.into_iter().zip(outcomes).zip(counts) {
        let end = match outcome {
            Ok(None) => continue,
            Ok(Some(reason)) => TextEvent::End(reason, count),
            Err(found) => TextEvent::Failed(found),
        };
        _ = events.try_send((number, end));
        *state = ActiveState::End;
    }
}

/// Begins a text; none if nobody waits for it, or it is done.
fn begin<'m>(
    model: &'m LanguageModel,
    options: &ServeOptions,
    queued: Queued,
) -> Option<Active<'m>> {
    let Queued { number, prompt, task, events } = queued;
    if events.is_closed() {
        return None;
    }
    let most = options.context.unwrap_or_else(|| model.trained_places());
    let begun = tilewright::catch_internal_errors(|| match task {
        Task::Embed => {
            let mut context = model.context(most)?;
            Ok(Err(vector(&mut context, &prompt)?))
        }
        Task::Generate(own) => {
            // Memory that is not used takes no room, and texts with room for as much are run
            // together, however long they are.
            let needed = prompt.len().saturating_add(own.tokens).min(most);
            let mut context = model.context(most)?;
            context.limit(needed.max(1));
            let generation = TextGeneration::new(&context, &prompt, &own)?;
            Ok(Ok((context, generation)))
        }
    });
    // One place of the channel is kept for each text of a request.
    match begun {
        Ok(Ok((context, generation))) => {
            let (stalled, state) = (None, ActiveState::Step);
            Some(Active { number, context, generation, events, stalled, state })
        }
        Ok(Err(vector)) => {
            _ = events.try_send((number, TextEvent::Vector(vector)));
            None
        }
        Err(found) => {
            _ = events.try_send((number, TextEvent::Failed(found)));
            None
        }
    }
}

/// The mean of what logits are computed of, over all tokens of a text, with the length 1.
fn vector(context: &mut TextContext<'_>, tokens: &[u32]) -> Result<Vec<f32>> {
    let rows = context.feed_hidden(tokens)?;
    let width = rows.first().map_or(0, Vec::len);
    let sum = |column: usize| rows.iter().map(|row| f64::from(row[column])).sum::<f64>();
    let sums: Vec<f64> = (0..width).map(sum).collect();
    let length = sums.iter().map(|own| own * own).sum::<f64>().sqrt();
    let factor = if length > 0.0 { 1.0 / length } else { 0.0 };
    Ok(sums.into_iter().map(|own| (own * factor) as f32).collect())
}

impl Active<'_> {
    /// Whether it can take a step, has to wait for its reader, or has none.
    fn state_now(&mut self, patience: Duration) -> ActiveState {
        if self.events.is_closed() {
            return ActiveState::End;
        }
        if self.events.capacity() < EVENTS_OF_A_STEP {
            let since = *self.stalled.get_or_insert_with(Instant::now);
            let is_over = since.elapsed() > patience;
            return if is_over { ActiveState::End } else { ActiveState::Wait };
        }
        self.stalled = None;
        ActiveState::Step
    }
}
