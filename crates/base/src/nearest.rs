//! The name that may have been meant by one that is not known.

/// The known name that fewest mistakes lead to the given one from; none where that takes more than
/// a mistake for every three letters. Of equals the first.
#[must_use]
pub fn nearest<'n>(name: &str, known: impl IntoIterator<Item = &'n str>) -> Option<&'n str> {
    let letters = |text: &str| text.to_lowercase().chars().take(MOST).collect::<Vec<char>>();
    let given = letters(name);
    let near = known.into_iter().filter_map(|candidate| {
        let letters = letters(candidate);
        let most = given.len().max(letters.len()).div_ceil(3);
        // Prefixes are often all that somebody remembers.
        let begins = given.len() >= 3 && letters.starts_with(&given);
        let mistakes = if begins { 1 } else { mistakes(&given, &letters) };
        (mistakes <= most && mistakes < given.len()).then_some((mistakes, candidate))
    });
    near.min_by_key(|(mistakes, _)| *mistakes).map(|(_, candidate)| candidate)
}

/// Letters of a name that are looked at: names come from files, too, and can be of any length.
const MOST: usize = 64;

/// How many letters are added, left out, exchanged for others or with their neighbour: the distance
/// of Damerau and Levenshtein between texts of which no part is changed twice.
fn mistakes(a: &[char], b: &[char]) -> usize {
    // Rows for the prefixes of `a`, two before the one at hand.
    let mut rows = [vec![0; b.len() + 1], Vec::new(), (0..=b.len()).collect::<Vec<usize>>()];
    for (i, left) in a.iter().enumerate() {
        rows.rotate_left(1);
        let [before, last, row] = &mut rows;
        row.clear();
        row.push(i + 1);
        for (j, right) in b.iter().enumerate() {
            let mut least = (last[j] + usize::from(left != right)).min(last[j + 1] + 1);
            least = least.min(row[j] + 1);
            if i > 0 && j > 0 && *left == b[j - 1] && a[i - 1] == *right {
                least = least.min(before[j - 1] + 1);
            }
            row.push(least);
        }
    }
    let [_, _, row] = rows;
    row.last().copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mistakes_are_counted() {
        let count = |a: &str, b: &str| {
            mistakes(&a.chars().collect::<Vec<char>>(), &b.chars().collect::<Vec<char>>())
        };
        for (a, b, expected) in [
            ("", "", 0),
            ("", "abc", 3),
            ("abc", "", 3),
            ("run", "run", 0),
            ("rnu", "run", 1),
            ("kitten", "sitting", 3),
            ("ca", "abc", 3),
            ("mask", "msk", 1),
        ] {
            assert_eq!(count(a, b), expected, "{a} {b}");
            assert_eq!(count(b, a), expected, "{b} {a}");
        }
    }

    #[test]
    fn near_names_are_found_and_far_ones_are_not() {
        let known = ["native", "x86-64-v4", "x86-64-v3", "c99"];
        let near = |name| nearest(name, known);
        assert_eq!(near("nativ"), Some("native"));
        assert_eq!(near("x86-64-v2"), Some("x86-64-v4"));
        assert_eq!(near("X86_64_v3"), Some("x86-64-v3"));
        assert_eq!(near("C99"), Some("c99"));
        assert_eq!(near("c98"), Some("c99"));
        assert_eq!(near("pdp-11"), None);
        assert_eq!(near(""), None);
        assert_eq!(near(&"x".repeat(1 << 20)), None);
        assert_eq!(nearest("batch", ["batch_size", "n"]), Some("batch_size"));
        assert_eq!(nearest("x", ["y"]), None);
        assert_eq!(nearest("x", ["X", "y"]), Some("X"));
        assert_eq!(nearest("x", []), None);
    }
}
