//! What may be asked of format choice.

/// What may be asked of format choice.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FormatOptions {
    /// When to use minimal filtering.
    pub winograd: Winograd,
    /// In which numbers products with weights in blocks take their data.
    pub activations: Activations,
}

/// In which numbers products with weights that stand for integers in blocks take their data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Activations {
    /// As the model has them; what is lost where that is cut into bytes is below what sums round.
    #[default]
    AsGiven,
    /// Rounded to 8 bits, each block of the weights' with a scale of its own: its largest by 127.
    Int8,
}

/// When windowed contractions become transforms and a product.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Winograd {
    /// Where it should be faster.
    #[default]
    WherePredicted,
    /// Never: every bit stays.
    Never,
    /// Wherever it is possible: for tests.
    Always,
}
