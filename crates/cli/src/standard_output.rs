//! Standard output, whose reader may have gone.

use std::io::{BufWriter, ErrorKind, Result, StdoutLock, Write};
use std::process::exit;

use base::{Diagnostic, codes};

/// Writes text to standard output, as [`write_bytes`].
pub(crate) fn write(text: std::fmt::Arguments<'_>) {
    write_bytes(|output| output.write_fmt(text));
}

/// Writes to standard output. Where nobody reads it any more, as behind `| head`, the command ends
/// there and is good; where it cannot be written for another reason, it ends with status 1.
pub(crate) fn write_bytes(content: impl FnOnce(&mut BufWriter<StdoutLock<'_>>) -> Result<()>) {
    let mut output = BufWriter::new(std::io::stdout().lock());
    match content(&mut output).and_then(|()| output.flush()) {
        Ok(()) => {}
        Err(error) if error.kind() == ErrorKind::BrokenPipe => exit(0),
        Err(error) => {
            let diagnostic = Diagnostic::error(codes::CANNOT_WRITE_FILE, "cannot write the output")
                .at("standard output")
                .because(error.to_string())
                .remedy("free space, or send it elsewhere");
            crate::messages::print(&diagnostic.into());
            exit(1);
        }
    }
}

/// `print!`, by way of [`write`].
macro_rules! say {
    ($($text:tt)*) => { $crate::standard_output::write(format_args!($($text)*)) };
}

/// `println!`, by way of [`write`].
macro_rules! say_line {
    ($text:literal $($rest:tt)*) => {
        $crate::standard_output::write(format_args!(concat!($text, "\n") $($rest)*))
    };
}

pub(crate) use {say, say_line};
