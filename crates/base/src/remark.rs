//! What a step of the compiler did with a place in the user's model, and why it did no more, in a
//! sentence a reader of the model understands.

use crate::location::LocationId;

/// A sentence about a place in the user's model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remark {
    /// The place, in the locations of the function at hand.
    pub location: LocationId,
    /// The sentence.
    pub message: String,
}
