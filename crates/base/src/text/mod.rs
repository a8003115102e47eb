//! The kit of which every IR's text form is made: a lexer, a parser helper, a printer.
//!
//! Text is for people and for tests, and what prints also parses. The tokens are the same in every
//! form: identifiers, `%names`, `@names`, `^names`, numbers, strings, punctuation, and `//`
//! comments to the end of the line. White space only separates.

mod lexer;
mod number;
mod parser;
mod printer;

pub use lexer::{Lexer, Position, Token, is_identifier};
pub use number::{FloatText, print_f32, print_f64};
pub use parser::{Parser, TextError};
pub use printer::{Printer, Quoted, Separated};
