//! What went wrong, as the interface tells it: a code and a text.

use std::sync::Arc;

use tilewright::Diagnostics;

/// A result of the plugin.
pub(crate) type Outcome<T> = Result<T, Failure>;

/// The codes of the interface that the plugin uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum Code {
    InvalidArgument = 3,
    NotFound = 5,
    ResourceExhausted = 8,
    FailedPrecondition = 9,
    Unimplemented = 12,
    Internal = 13,
}

/// An error: what callers are told of it.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    pub(crate) code: Code,
    pub(crate) message: Arc<str>,
}

impl Failure {
    pub(crate) fn new(code: Code, message: impl Into<String>) -> Failure {
        Failure { code, message: message.into().into() }
    }
}

/// Diagnostics, by what their codes begin with, and what they are to the interface; the first row
/// that fits counts.
const CODES: [(&str, Code); 5] = [
    ("TW0103", Code::Unimplemented),
    ("TW0104", Code::Unimplemented),
    ("TW0112", Code::ResourceExhausted),
    ("TW04", Code::Unimplemented),
    ("TW09", Code::Internal),
];

impl From<Diagnostics> for Failure {
    fn from(found: Diagnostics) -> Failure {
        let first = found.iter().next().map_or("", |diagnostic| diagnostic.code);
        let row = CODES.iter().find(|(beginning, _)| first.starts_with(beginning));
        let code = row.map_or(Code::InvalidArgument, |(_, code)| *code);
        Failure::new(code, found.to_string())
    }
}
