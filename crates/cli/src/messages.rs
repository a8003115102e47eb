//! What is said on standard error: diagnostics and notes, in colours where they are seen.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;

use anstyle::{AnsiColor, Style};
use base::{Diagnostics, Piece, Severity};
use clap::ColorChoice;

/// Has colours used or not, of clap's messages, too.
pub(crate) fn choose_color(choice: ColorChoice) {
    match choice {
        ColorChoice::Auto => anstream::ColorChoice::Auto,
        ColorChoice::Always => anstream::ColorChoice::Always,
        ColorChoice::Never => anstream::ColorChoice::Never,
    }
    .write_global();
}

/// Prints diagnostics.
pub(crate) fn print(diagnostics: &Diagnostics) {
    say(&(painted(diagnostics) + "\n"));
}

/// Says what is neither a result nor wrong.
pub(crate) fn note(text: &str) {
    let style = style(Piece::Severity(Severity::Note));
    say(&format!("{style}note{style:#}: {text}\n"));
}

/// With the model in the commands of remedies, where it is `MODEL` until then.
pub(crate) fn name_model(diagnostics: Diagnostics, model: &Path) -> Diagnostics {
    let model = model.display().to_string();
    let is_plain = |it: char| it.is_alphanumeric() || "/._-+,:@%".contains(it);
    let word = match model.chars().all(is_plain) {
        true => model,
        false => format!("'{}'", model.replace('\'', r"'\''")),
    };
    diagnostics.map(|mut diagnostic| {
        if let Some(remedy) = &mut diagnostic.remedy {
            *remedy = remedy.replace(" MODEL", &format!(" {word}"));
        }
        diagnostic
    })
}

fn say(text: &str) {
    // Nobody is left to be told if it cannot be written.
    let _ = anstream::stderr().write_all(text.as_bytes());
}

fn painted(diagnostics: &Diagnostics) -> String {
    let mut text = String::new();
    // Writing to a text does not fail.
    let _ = diagnostics.write_pieces(&mut |piece, piece_text| {
        let style = style(piece);
        write!(text, "{style}{piece_text}{style:#}")
    });
    text
}

/// The colours of rustc, which most readers know.
fn style(piece: Piece) -> Style {
    let bold = Style::new().bold();
    match piece {
        Piece::Severity(Severity::Error) => bold.fg_color(Some(AnsiColor::BrightRed.into())),
        Piece::Severity(Severity::Warning) => bold.fg_color(Some(AnsiColor::Yellow.into())),
        Piece::Severity(Severity::Note) => bold.fg_color(Some(AnsiColor::BrightGreen.into())),
        Piece::Mark => bold.fg_color(Some(AnsiColor::BrightBlue.into())),
        Piece::Message | Piece::Label => bold,
        Piece::Text => Style::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remedies_name_the_model() {
        let named = |remedy: &str, model: &str| {
            let found = base::Diagnostic::error(base::codes::GRAPH_CYCLE, "a").remedy(remedy);
            name_model(found.into(), Path::new(model))[0].remedy.clone().unwrap_or_default()
        };
        let remedy = "`tilewright info MODEL` shows it";
        assert_eq!(named(remedy, "a/b-1.onnx"), "`tilewright info a/b-1.onnx` shows it");
        assert_eq!(named(remedy, "a b.onnx"), "`tilewright info 'a b.onnx'` shows it");
        assert_eq!(named("do it", "m.onnx"), "do it");
    }

    #[test]
    fn colours_change_nothing_but_colours() {
        let found: Diagnostics = base::Diagnostic::error(base::codes::GRAPH_CYCLE, "a cycle")
            .at("here")
            .because("it is\nso")
            .remedy("do that")
            .into();
        let text = painted(&found);
        assert!(text.starts_with("\u{1b}[1m\u{1b}[91merror[TW0110]\u{1b}[0m"), "{text:?}");
        assert_eq!(anstream::adapter::strip_str(&text).to_string(), found.to_string());
    }
}
