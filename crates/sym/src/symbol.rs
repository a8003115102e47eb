//! What a function or a program knows of a symbol of its expressions.

use crate::range::Range;

/// A symbol: an extent, or a number that only a run knows.
#[derive(Clone, Debug, PartialEq)]
pub struct Symbol {
    /// The user's name for it, or one made up; unique within the function or program.
    pub name: String,
    /// The values it can take.
    pub range: Range,
    /// The value by which choices are weighed, where a better one is known than what is usual in
    /// the range.
    pub usual: Option<i64>,
}

impl Symbol {
    /// A symbol of which nothing but its range is known.
    pub fn new(name: impl Into<String>, range: Range) -> Symbol {
        Symbol { name: name.into(), range, usual: None }
    }

    /// The value by which choices are weighed.
    pub fn usual(&self) -> i64 {
        self.usual.map_or(self.range.usual(), |usual| usual.clamp(self.range.min, self.range.max))
    }
}
