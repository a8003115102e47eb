//! What a function or a program knows of a symbol of its expressions.

use crate::range::Range;

/// A symbol: an extent, or a number that only a run knows.
#[derive(Clone, Debug, PartialEq)]
pub struct Symbol {
    /// The user's name for it, or one made up; unique within the function or program.
    pub name: String,
    /// The values it can take.
    pub range: Range,
}
