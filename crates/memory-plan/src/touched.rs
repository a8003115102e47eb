//! Sets of bytes: which were touched, in time that does not grow with how many pieces there were.

use std::collections::BTreeMap;

/// Intervals that neither meet nor touch: the first byte of each, and the byte behind its last.
#[derive(Clone, Debug, Default)]
pub(crate) struct Touched {
    intervals: BTreeMap<i64, i64>,
}

impl Touched {
    /// Adds the bytes from `start` up to `end`.
    pub(crate) fn insert(&mut self, mut start: i64, mut end: i64) {
        if start >= end {
            return;
        }
        while let Some((&first, &last)) = self.intervals.range(..=end).next_back() {
            if last < start {
                break;
            }
            (start, end) = (start.min(first), end.max(last));
            self.intervals.remove(&first);
        }
        self.intervals.insert(start, end);
    }

    /// Whether one of the bytes from `start` up to `end` is in it.
    pub(crate) fn meets(&self, start: i64, end: i64) -> bool {
        let before = self.intervals.range(..end).next_back();
        start < end && before.is_some_and(|(_, &last)| last > start)
    }
}

#[cfg(test)]
mod tests {
    use super::Touched;

    #[test]
    fn pieces_become_one() {
        let mut touched = Touched::default();
        for (start, end) in [(10, 20), (30, 40), (50, 60), (20, 30), (5, 5), (39, 55)] {
            touched.insert(start, end);
        }
        assert_eq!(touched.intervals.into_iter().collect::<Vec<_>>(), [(10, 60)]);
    }

    #[test]
    fn it_is_the_set_of_its_pieces() {
        let mut touched = Touched::default();
        let mut bytes = [false; 64];
        let mut state = 1u64;
        for _ in 0..200 {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let (start, length) = ((state >> 33) as usize % 60, (state >> 40) as usize % 4);
            let range = start..start + length;
            let expected = bytes[range.clone()].iter().any(|&byte| byte);
            assert_eq!(touched.meets(range.start as i64, range.end as i64), expected);
            if state >> 60 == 0 {
                bytes[range.clone()].fill(true);
                touched.insert(range.start as i64, range.end as i64);
            }
        }
    }
}
