//! What of an outline it takes to show a finding.
//!
//! Parts are left out, the element type becomes f32, numbers become smaller, as long as what is
//! left still shows it. What does not fit any more is no model, and shows nothing.

use tensor::DType;

use crate::outline::{Outline, Setting};

/// The smallest outline that is found with so many tries; `shows` holds for it, too.
pub(crate) fn reduce(
    outline: &Outline,
    tries: usize,
    shows: &mut dyn FnMut(&Outline) -> bool,
) -> Outline {
    let mut search = Search { best: outline.clone(), left: tries, shows };
    search.fewer_parts();
    let simple = Outline { dtype: DType::F32, ..search.best.clone() };
    search.keep_if_it_shows(simple);
    // Smaller numbers may make parts superfluous, and fewer parts others.
    loop {
        let before = search.best.clone();
        search.smaller_numbers();
        search.fewer_parts();
        if search.best == before || search.left == 0 {
            return search.best;
        }
    }
}

struct Search<'a> {
    best: Outline,
    left: usize,
    shows: &'a mut dyn FnMut(&Outline) -> bool,
}

impl Search<'_> {
    fn keep_if_it_shows(&mut self, candidate: Outline) -> bool {
        // What is no model costs no try.
        if candidate == self.best || crate::model::bytes(&candidate).is_err() || self.left == 0 {
            return false;
        }
        self.left -= 1;
        let found = (self.shows)(&candidate);
        if found {
            self.best = candidate;
        }
        found
    }

    /// One part alone, or all but one.
    fn fewer_parts(&mut self) {
        let count = self.best.parts.len();
        if count > 2 {
            for number in 0..count {
                let parts = vec![self.best.parts[number].clone()];
                if self.keep_if_it_shows(Outline { parts, ..self.best.clone() }) {
                    return;
                }
            }
        }
        let mut number = 0;
        while self.best.parts.len() > 1 && number < self.best.parts.len() {
            let mut fewer = self.best.clone();
            fewer.parts.remove(number);
            if !self.keep_if_it_shows(fewer) {
                number += 1;
            }
        }
    }

    /// Each number at its smallest, or halfway there.
    fn smaller_numbers(&mut self) {
        let count = numbers_of(&mut self.best.clone()).len();
        for place in 0..count {
            loop {
                let now = *numbers_of(&mut self.best.clone())[place];
                let smaller = [0, 1, now / 4, now / 2, now / 8 * 8, now - 1];
                let mut smaller: Vec<i64> =
                    smaller.into_iter().filter(|&it| 0 <= it && it < now).collect();
                smaller.sort_unstable();
                smaller.dedup();
                let mut try_it = |&number: &i64| {
                    let mut candidate = self.best.clone();
                    *numbers_of(&mut candidate)[place] = number;
                    self.keep_if_it_shows(candidate)
                };
                // One step less is worth a try only where it may be a border.
                if !smaller.iter().any(&mut try_it) || now <= 2 {
                    break;
                }
            }
        }
    }
}

/// All numbers, the input's extents first.
fn numbers_of(outline: &mut Outline) -> Vec<&mut i64> {
    let settings = outline.parts.iter_mut().flat_map(|part| &mut part.settings);
    let of_settings = settings.flat_map(|(_, setting)| match setting {
        Setting::Numbers(numbers) => numbers.as_mut_slice(),
        Setting::Word(_) => &mut [],
    });
    outline.shape.iter_mut().chain(of_settings).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_it_takes_is_left() {
        let text =
            "input f16 3,40,33\ntranspose order=0,2,1\nsoftmax f=Softmax axis=2\nmap f=Relu\n";
        let outline = Outline::parse(text).expect("an outline");
        let mut shows =
            |it: &Outline| it.parts.iter().any(|part| part.name == "softmax") && it.shape[1] >= 19;
        let found = reduce(&outline, 200, &mut shows);
        assert_eq!(found.to_string(), "input f32 1,19,1\nsoftmax f=Softmax axis=0\n");
    }

    #[test]
    fn tries_are_counted() {
        let outline = Outline::parse("input f32 64,64\nsoftmax f=Softmax axis=1\n");
        let mut count = 0;
        reduce(&outline.expect("an outline"), 7, &mut |_| {
            count += 1;
            true
        });
        assert!(count <= 7, "{count}");
    }
}
