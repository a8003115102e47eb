//! The text form of programs: MLIR's generic form, which any operation may have, and the forms
//! that StableHLO's and CHLO's printers prefer.
//!
//! The text is read once, from front to back, in time and memory linear in its size; brackets may
//! be nested as deep as [`MOST_NESTED`] allows.

mod attribute;
mod cursor;
mod elements;
mod operation;
mod pretty;
mod types;

use base::{Diagnostic, codes};

use crate::syntax::{Attribute, Places, Program, ValueType};
pub(crate) use cursor::Cursor;
use operation::Parser;

pub(crate) use types::plain;

/// How many brackets of all kinds may be open at once.
pub(crate) const MOST_NESTED: usize = 200;

/// Where a text is wrong, and why.
#[derive(Debug)]
pub(crate) struct TextFault {
    pub(crate) at: usize,
    pub(crate) reason: String,
}

pub(crate) type Parsed<T> = Result<T, TextFault>;

/// Reads a program.
pub(crate) fn parse(text: &str) -> Result<Program, Diagnostic> {
    let lines: Vec<usize> =
        std::iter::once(0).chain(text.match_indices('\n').map(|(at, _)| at + 1)).collect();
    let mut parser = Parser::new(Cursor::new(text));
    match parser.program() {
        Ok(mut program) => {
            program.places = Places::Lines(lines);
            Ok(program)
        }
        Err(TextFault { at, reason }) => {
            let program = Program { places: Places::Lines(lines), ..Program::default() };
            Err(Diagnostic::error(codes::TEXT_SYNTAX, "the StableHLO text cannot be read")
                .at(program.place(at))
                .because(reason)
                .remedy("write the program anew, as `jax.jit(f).lower(x).as_text()` does"))
        }
    }
}

/// An attribute that stands alone; one of a form that is not known is a word.
pub(crate) fn attribute_of(text: &str) -> Attribute {
    Cursor::new(text).attribute().unwrap_or_else(|_| Attribute::Word(text.to_owned()))
}

/// A type that stands alone; one of a form that is not known is another's.
pub(crate) fn type_of(text: &str) -> ValueType {
    Cursor::new(text).value_type().unwrap_or_else(|_| ValueType::Other(text.to_owned()))
}
