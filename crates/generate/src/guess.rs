//! Guesses of what follows, so that one run judges several tokens ("speculative decoding").
//!
//! Guesses come from the text itself, of what followed the same tokens before ("prompt lookup"), or
//! from a smaller model. A guess is one token, not a distribution, so that to choose a token as
//! without guesses and to go on where it is the guess is the rule of acceptance that keeps the
//! distribution (Leviathan, Kalman and Matias, "Fast Inference from Transformers via Speculative
//! Decoding", 2023, with proposals of one token): the same seed chooses the same tokens.
//!
//! Invariant: guesses decide how long a text takes, never what it is but for rounding: where
//! weights are floats, or activations are rounded to 8 bits, runs of several tokens add up in
//! another order than runs of one.

use base::{Diagnostic, Result, codes};

use crate::model::{RUNS_OF_ROWS, TextContext};
use crate::sample::greatest;

/// The longest front, in tokens, by which places of a text are found to be alike.
const LONGEST_FRONT: usize = 6;

/// The shortest.
const SHORTEST_FRONT: usize = 2;

/// How likely a guess is thought to be right at first.
const FIRST_CHANCE: f64 = 0.7;

/// How much of that the last guess decides.
const LAST_COUNTS: f64 = 0.1;

/// Guesses what follows.
pub(crate) struct Guesser<'m> {
    /// The most tokens at once.
    most: usize,
    /// What each further token adds to the time of a run, of what the first takes.
    further: f64,
    /// How likely a guess is right, by those that came before.
    chance: f64,
    /// What would have been guessed, where guesses did not seem to pay.
    unsaid: Option<u32>,
    /// The text of the model that guesses, if one does.
    other: Option<TextContext<'m>>,
}

impl<'m> Guesser<'m> {
    /// Guesses by what a text repeats, for runs to which each further token adds so much time.
    pub(crate) fn of_repeats(most: usize, further: f64) -> Guesser<'m> {
        Guesser { most, further, chance: FIRST_CHANCE, unsaid: None, other: None }
    }

    /// Guesses by another model for a text of this one.
    pub(crate) fn by(self, own: &TextContext<'_>, other: TextContext<'m>) -> Result<Guesser<'m>> {
        let (mine, theirs) = (own.model().tokenizer(), other.model().tokenizer());
        let count = mine.len().min(theirs.len());
        let differs = |token: &u32| mine.bytes_of(*token, false) != theirs.bytes_of(*token, false);
        let found = match mine.len() == theirs.len() {
            true => (0..count as u32).find(differs),
            false => Some(count as u32),
        };
        if let Some(token) = found {
            let message = "the model that guesses has other tokens";
            return Err(Diagnostic::error(codes::NOT_LANGUAGE_MODEL, message)
                .at(format!("token {token}"))
                .because("its guesses are taken as tokens of the model whose text it is")
                .remedy("guess with a smaller model of the same tokenizer, or by repetitions")
                .into());
        }
        Ok(Guesser { other: Some(other), ..self })
    }

    /// What may follow a text and its last token, at most so many tokens.
    ///
    /// # Errors
    /// Those of the model that guesses.
    pub(crate) fn guess(&mut self, text: &[u32], last: u32, most: usize) -> Result<Vec<u32>> {
        if let Some(unsaid) = self.unsaid.take() {
            self.learn_of_one(unsaid == last);
        }
        let reach = self.reach(most);
        let Some(other) = &mut self.other else {
            let mut guesses = repeated(text, last, reach.max(1).min(most));
            if reach == 0 {
                self.unsaid = guesses.pop();
            }
            return Ok(guesses);
        };
        let (mut guesses, most) = (Vec::new(), reach);
        // The smaller model may have less room.
        if most == 0 || text.len() + most >= other.tokens().len() + other.room() {
            return Ok(guesses);
        }
        let whole = [text, &[last]].concat();
        let rest = other.rest_of(&whole).to_vec();
        let mut logits = other.feed(&rest)?;
        while let Some(token) = greatest(&logits) {
            guesses.push(token);
            if guesses.len() == most {
                break;
            }
            logits = other.feed(&[token])?;
        }
        Ok(guesses)
    }

    /// How many guesses bring the most tokens in a time; none where a token alone does. A model
    /// that guesses is asked in any case.
    fn reach(&self, most: usize) -> usize {
        let most = most.min(self.most);
        let mut best = (if self.other.is_some() { 0.0 } else { 1.0 }, 0);
        for run in RUNS_OF_ROWS.into_iter().skip(1).take_while(|run| run / 2 <= most) {
            let guesses = most.min(run - 1);
            // The token itself, and each guess in front of which all are right.
            let tokens: f64 = (0..=guesses as i32).map(|right| self.chance.powi(right)).sum();
            let rate = tokens / (1.0 + self.further * (run - 1) as f64);
            if rate > best.0 {
                best = (rate, guesses);
            }
        }
        best.1
    }

    /// Learns how many guesses of a run were right, the first wrong one behind them.
    pub(crate) fn learn(&mut self, guessed: usize, right: usize) {
        for guess in 0..guessed.min(right + 1) {
            self.learn_of_one(guess < right);
        }
    }

    fn learn_of_one(&mut self, is_right: bool) {
        self.chance += LAST_COUNTS * (f64::from(u8::from(is_right)) - self.chance);
    }
}

/// What followed, the last time, the longest front that ends a text with its last token.
fn repeated(text: &[u32], last: u32, most: usize) -> Vec<u32> {
    if most == 0 {
        return Vec::new();
    }
    // How many tokens in front of a place are those in front of the end.
    let front = |end: usize| {
        let pairs = text[..end].iter().rev().zip(text.iter().rev());
        1 + pairs.take(LONGEST_FRONT - 1).take_while(|(a, b)| a == b).count()
    };
    let places = (0..text.len()).rev().filter(|&place| text[place] == last);
    let mut best: Option<(usize, usize)> = None;
    for place in places {
        let found = front(place);
        if found >= SHORTEST_FRONT && best.is_none_or(|(most, _)| found > most) {
            best = Some((found, place));
            if found == LONGEST_FRONT {
                break;
            }
        }
    }
    let Some((_, place)) = best else { return Vec::new() };
    // What repeats with a period shorter than the guesses goes on with it.
    let period = text.len() - place;
    let whole = |at: usize| if at == text.len() { last } else { text[at] };
    (0..most).map(|at| whole(place + 1 + at % period)).collect()
}

#[cfg(test)]
mod tests {
    use super::{Guesser, repeated};

    #[test]
    fn what_followed_is_guessed() {
        assert_eq!(repeated(&[1, 2, 3, 4, 1, 2], 3, 4), [4, 1, 2, 3]);
        assert_eq!(repeated(&[5, 1, 2, 7, 9, 1, 2, 8, 5, 1], 2, 2), [7, 9]);
        assert_eq!(repeated(&[1, 1, 1], 1, 3), [1, 1, 1]);
        assert_eq!(repeated(&[3, 2, 4, 1], 2, 3), [0; 0]);
        assert_eq!(repeated(&[], 2, 3), [0; 0]);
    }

    /// How many tokens of a text are guessed, and how many of those are right.
    fn guessed(guesser: &mut Guesser<'_>, next: impl Fn(usize) -> u32) -> (usize, usize) {
        let mut text: Vec<u32> = (0..12).map(&next).collect();
        let (mut guessed, mut right) = (0, 0);
        while text.len() < 300 {
            let last = text.pop().expect("a token");
            let guesses = guesser.guess(&text, last, 300).expect("no model to fail");
            text.push(last);
            let so_far = text.len();
            let are_right = guesses.iter().enumerate();
            let count = are_right.take_while(|(at, own)| next(so_far + at) == **own).count();
            text.extend((so_far..=so_far + count).map(&next));
            guesser.learn(guesses.len(), count);
            (guessed, right) = (guessed + guesses.len(), right + count);
        }
        (guessed, right)
    }

    #[test]
    fn only_what_pays_is_guessed() {
        let repeats = |at: usize| at as u32 % 4;
        // Two tokens repeat, and what follows them never does.
        let deceives = |at: usize| if at % 3 == 2 { at as u32 } else { at as u32 % 3 };
        // A token beside another is free, takes half the time of one, or all of it.
        let cases = [(0.0, 200, 300..=2100), (0.5, 200, 1..=10), (1.0, 0, 0..=0)];
        for (further, least_right, wrong_ones) in cases {
            let mut guesser = Guesser::of_repeats(7, further);
            let (all, right) = guessed(&mut guesser, repeats);
            assert!(right == all && right >= least_right, "{right} of {all}");
            let mut guesser = Guesser::of_repeats(7, further);
            let (wrong, _) = guessed(&mut guesser, deceives);
            assert!(wrong_ones.contains(&wrong), "{wrong} guesses for nothing");
        }
        // Guesses that do not seem to pay are thought of, so they are made again once they would.
        let mut guesser = Guesser::of_repeats(7, 0.5);
        guessed(&mut guesser, deceives);
        assert_eq!(guesser.reach(7), 0);
        let (_, right) = guessed(&mut guesser, repeats);
        assert!(right > 100, "{right}");
    }

    #[test]
    fn guesses_fill_runs() {
        let mut guesser = Guesser::of_repeats(5, 0.0);
        assert_eq!(guesser.reach(300), 5);
        assert_eq!([guesser.reach(0), guesser.reach(1), guesser.reach(2)], [0, 1, 2]);
        guesser.further = 0.45;
        assert_eq!(guesser.reach(5), 1);
        guesser.chance = 0.95;
        assert_eq!(guesser.reach(5), 3);
    }
}
