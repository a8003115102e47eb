//! A line diff for failure messages: the longest common subsequence, with three lines of context.

use std::fmt::Write as _;

const CONTEXT: usize = 3;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Edit<'a> {
    Keep(&'a str),
    Remove(&'a str),
    Add(&'a str),
}

/// Lines only in `expected` marked `-`, lines only in `actual` marked `+`, `...` for what is left
/// out. Quadratic in the lines between the first and the last difference.
pub(crate) fn lines(expected: &str, actual: &str) -> String {
    let old: Vec<&str> = expected.lines().collect();
    let new: Vec<&str> = actual.lines().collect();
    let edits = edits(&old, &new);
    let changed: Vec<usize> =
        (0..edits.len()).filter(|&i| !matches!(edits[i], Edit::Keep(_))).collect();
    let is_near = |i: usize| changed.iter().any(|&c| c.abs_diff(i) <= CONTEXT);
    let mut out = String::new();
    let mut skipped = false;
    for (index, edit) in edits.iter().enumerate() {
        if !is_near(index) {
            skipped = true;
            continue;
        }
        if std::mem::take(&mut skipped) {
            out.push_str("    ...\n");
        }
        _ = match edit {
            Edit::Keep(line) => writeln!(out, "    {line}"),
            Edit::Remove(line) => writeln!(out, "  - {line}"),
            Edit::Add(line) => writeln!(out, "  + {line}"),
        };
    }
    if skipped {
        out.push_str("    ...\n");
    }
    out
}

fn edits<'a>(old: &[&'a str], new: &[&'a str]) -> Vec<Edit<'a>> {
    let head = old.iter().zip(new).take_while(|(a, b)| a == b).count();
    let (old_rest, new_rest) = (&old[head..], &new[head..]);
    let tail = old_rest.iter().rev().zip(new_rest.iter().rev()).take_while(|(a, b)| a == b).count();
    let (old_mid, new_mid) =
        (&old_rest[..old_rest.len() - tail], &new_rest[..new_rest.len() - tail]);
    let mut out: Vec<Edit> = old[..head].iter().map(|line| Edit::Keep(line)).collect();
    middle(old_mid, new_mid, &mut out);
    out.extend(old[old.len() - tail..].iter().map(|line| Edit::Keep(line)));
    out
}

/// `common[i][j]` is the length of the longest common subsequence of `old[i..]` and `new[j..]`.
fn middle<'a>(old: &[&'a str], new: &[&'a str], out: &mut Vec<Edit<'a>>) {
    let mut common = vec![vec![0_u32; new.len() + 1]; old.len() + 1];
    for i in (0..old.len()).rev() {
        for j in (0..new.len()).rev() {
            common[i][j] = if old[i] == new[j] {
                common[i + 1][j + 1] + 1
            } else {
                common[i + 1][j].max(common[i][j + 1])
            };
        }
    }
    let (mut i, mut j) = (0, 0);
    while i < old.len() || j < new.len() {
        if i < old.len() && j < new.len() && old[i] == new[j] {
            out.push(Edit::Keep(old[i]));
            (i, j) = (i + 1, j + 1);
        } else if i < old.len() && (j == new.len() || common[i + 1][j] >= common[i][j + 1]) {
            out.push(Edit::Remove(old[i]));
            i += 1;
        } else {
            out.push(Edit::Add(new[j]));
            j += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::lines;

    #[test]
    fn shows_what_changed_and_a_little_around() {
        let old = "1\n2\n3\n4\n5\nsix\n7\n8\n9\n10\n11";
        let new = "1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n11";
        let expected =
            "    ...\n    3\n    4\n    5\n  - six\n  + 6\n    7\n    8\n    9\n    ...\n";
        assert_eq!(lines(old, new), expected);
    }

    #[test]
    fn finds_insertions_between_equal_lines() {
        assert_eq!(lines("a\nb\nc", "a\nx\nb\nc\ny"), "    a\n  + x\n    b\n    c\n  + y\n");
        assert_eq!(lines("", "a"), "  + a\n");
        assert_eq!(lines("a", ""), "  - a\n");
    }
}
