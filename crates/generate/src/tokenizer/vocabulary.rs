//! The texts of tokens, and which token a text is: a table of places in the list of texts, so that
//! hundreds of thousands of them are there at once when a model starts, and take a few bytes each.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;

use tilewright::compiled::TextList;

/// Which of many texts one is.
#[derive(Debug)]
pub(super) struct TextIndex {
    texts: TextList,
    /// Places in the list, each behind the slot that its text's digest names, in the first that was
    /// free. At least half of them are free.
    slots: Vec<u32>,
    hasher: RandomState,
}

/// No place.
const FREE: u32 = u32::MAX;

impl TextIndex {
    /// Of texts, fewer than 2^32; of equal ones the first is found.
    pub(super) fn of(texts: TextList) -> TextIndex {
        let slots = vec![FREE; (2 * texts.len()).next_power_of_two()];
        let mut index = TextIndex { texts, slots, hasher: RandomState::new() };
        for place in 0..index.texts.len() {
            let Some(text) = index.texts.get(place) else { break };
            let slot = index.slot(text);
            if index.slots[slot] == FREE {
                index.slots[slot] = place as u32;
            }
        }
        index
    }

    /// The slot of a text, or the one that it would have.
    fn slot(&self, text: &[u8]) -> usize {
        let last = self.slots.len() - 1;
        let mut slot = self.hasher.hash_one(text) as usize & last;
        while self.slots[slot] != FREE && self.text(self.slots[slot]) != Some(text) {
            slot = (slot + 1) & last;
        }
        slot
    }

    /// The place of a text.
    pub(super) fn find(&self, text: &[u8]) -> Option<u32> {
        Some(self.slots[self.slot(text)]).filter(|&place| place != FREE)
    }

    /// The text at a place.
    pub(super) fn text(&self, place: u32) -> Option<&[u8]> {
        self.texts.get(place as usize)
    }

    /// The texts in their order.
    pub(super) fn texts(&self) -> &TextList {
        &self.texts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_found() {
        let texts: Vec<String> = (0..1000).map(|number| (number % 700).to_string()).collect();
        let index = TextIndex::of(TextList::of(&texts).expect("a list"));
        for (place, text) in texts.iter().enumerate() {
            assert_eq!(index.find(text.as_bytes()), Some(place as u32 % 700), "{text}");
        }
        for other in ["", "700", "00"] {
            assert_eq!(index.find(other.as_bytes()), None, "{other}");
        }
        let none = TextIndex::of(TextList::default());
        assert_eq!((none.find(b""), none.text(0)), (None, None));
    }
}
