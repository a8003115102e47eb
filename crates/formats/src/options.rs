//! What may be asked of format choice.

/// What may be asked of format choice.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FormatOptions {
    /// When to use minimal filtering.
    pub winograd: Winograd,
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
