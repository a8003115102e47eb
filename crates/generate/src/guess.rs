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

use crate::model::TextContext;
use crate::sample::greatest;

/// The longest front, in tokens, by which places of a text are found to be alike.
const LONGEST_FRONT: usize = 6;

/// The shortest.
const SHORTEST_FRONT: usize = 2;

/// Guesses what follows.
pub(crate) struct Guesser<'m> {
    /// The most tokens at once.
    most: usize,
    /// How many are guessed next: more where guesses are right, fewer where they are wrong.
    reach: usize,
    /// The text of the model that guesses, if one does.
    other: Option<TextContext<'m>>,
}

impl<'m> Guesser<'m> {
    /// Guesses by what a text repeats.
    pub(crate) fn of_repeats(most: usize) -> Guesser<'m> {
        Guesser { most, reach: most, other: None }
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
        let most = most.min(self.reach);
        let Some(other) = &mut self.other else { return Ok(repeated(text, last, most)) };
        let mut guesses = Vec::new();
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

    /// Learns how many guesses of a run were right. Runs that are one token longer than guesses
    /// are a power of two, so the reach is one less than that.
    pub(crate) fn learn(&mut self, guessed: usize, right: usize) {
        let next = match guessed {
            0 => return,
            _ if right == guessed => 2 * self.reach + 1,
            _ if 2 * right < guessed => self.reach / 2,
            _ => self.reach,
        };
        self.reach = next.clamp(1, self.most);
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
    use super::repeated;

    #[test]
    fn what_followed_is_guessed() {
        assert_eq!(repeated(&[1, 2, 3, 4, 1, 2], 3, 4), [4, 1, 2, 3]);
        assert_eq!(repeated(&[5, 1, 2, 7, 9, 1, 2, 8, 5, 1], 2, 2), [7, 9]);
        assert_eq!(repeated(&[1, 1, 1], 1, 3), [1, 1, 1]);
        assert_eq!(repeated(&[3, 2, 4, 1], 2, 3), [0; 0]);
        assert_eq!(repeated(&[], 2, 3), [0; 0]);
    }
}
