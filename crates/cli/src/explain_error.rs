//! `tilewright explain-error`: what the code of a diagnostic means.

use base::{Diagnostic, codes};
use clap::Args;

use crate::Outcome;
use crate::help::examples;
use crate::standard_output::say_line;

/// Arguments of `tilewright explain-error`.
#[derive(Args)]
#[command(after_long_help = examples(&[
    ("tilewright explain-error TW0103", "what the code means"),
    ("tilewright explain-error", "all codes"),
]))]
pub(crate) struct Arguments {
    /// The code, as in `error[TW0103]`; all of them without it
    code: Option<String>,
}

/// Prints the row of the table of codes, or all of it.
pub(crate) fn run(arguments: &Arguments) -> base::Result<Outcome> {
    let Some(code) = &arguments.code else {
        for row in codes::CODES {
            say_line!("{}  {}", row.code, row.title);
        }
        return Ok(Outcome::Good);
    };
    let Some(row) = codes::explain(&code.to_uppercase()) else {
        return Err(Diagnostic::error(codes::UNKNOWN_CODE, format!("there is no code `{code}`"))
            .at(format!("explain-error {code}"))
            .because("codes are `TW` and four digits, and not all numbers are in use")
            .remedy("run `tilewright explain-error`, which lists all codes")
            .into());
    };
    say_line!("{}: {}\n\n{}", row.code, row.title, row.explanation);
    if row.code.starts_with("TW09") {
        say_line!("\nThis is an error of the compiler itself, not of your model (exit status 4).");
    }
    Ok(Outcome::Good)
}
