//! How help texts are laid out: examples, headings, and what the short form leaves out.
//!
//! Invariants (tested): each subcommand has examples, and each of them is a command line that
//! parses; each option stands under one of the headings below.

use std::fmt::Write as _;

use base::nearest::nearest;
use clap::builder::{StyledStr, Styles};
use clap::error::{ContextKind, ContextValue, ErrorKind};

/// What is compiled, and how.
pub(crate) const MODEL: &str = "Model";
/// What the code is made for.
pub(crate) const TARGET: &str = "Target";
/// Which optimisations there are.
pub(crate) const OPTIMISATIONS: &str = "Optimisations";
/// What is refused as too large.
pub(crate) const LIMITS: &str = "Limits";
/// Where inputs come from.
pub(crate) const INPUTS: &str = "Inputs";
/// How pictures become inputs.
pub(crate) const PICTURES: &str = "Pictures";
/// Where outputs go, and in which form.
pub(crate) const OUTPUTS: &str = "Outputs";
/// What a subcommand does of its own.
pub(crate) const WORK: &str = "What is done";
/// The other configuration that `diff` compares with.
pub(crate) const OTHER: &str = "What it is compared with";
/// What every subcommand takes.
pub(crate) const GENERAL: &str = "General";

/// The headings whose options `-h` leaves out.
const SELDOM: [&str; 3] = [OPTIMISATIONS, LIMITS, PICTURES];

/// The last lines of a help text: command lines, and what each does.
pub(crate) fn examples(rows: &[(&str, &str)]) -> StyledStr {
    let header = Styles::styled().get_header().to_owned();
    let mut text = format!("{header}Examples:{header:#}");
    for (line, what) in rows {
        // Writing to a text does not fail.
        let _ = write!(text, "\n  {line}\n      {what}");
    }
    text.into()
}

/// The commands with what holds of all of them.
pub(crate) fn complete(command: clap::Command) -> clap::Command {
    command.mut_subcommands(|subcommand| {
        let is_seldom =
            |arg: &clap::Arg| arg.get_help_heading().is_some_and(|it| SELDOM.contains(&it));
        let has_more = subcommand.get_arguments().any(is_seldom);
        let subcommand = subcommand.mut_args(|arg| match is_seldom(&arg) {
            true => arg.hide_short_help(true),
            // Headings are for options.
            false if arg.is_positional() => arg.help_heading(None::<&'static str>),
            false => arg,
        });
        match has_more {
            true => subcommand.after_help("All options, and examples: `--help`"),
            false => subcommand.after_help("Examples: `--help`"),
        }
    })
}

/// Adds the subcommand that may have been meant, where clap has seen none: it takes short names for
/// too different.
pub(crate) fn suggest(mut error: clap::Error, command: &clap::Command) -> clap::Error {
    let is_subcommand = error.kind() == ErrorKind::InvalidSubcommand;
    if is_subcommand
        && error.get(ContextKind::SuggestedSubcommand).is_none()
        && let Some(ContextValue::String(name)) = error.get(ContextKind::InvalidSubcommand)
        && let Some(near) = nearest(name, command.get_subcommands().map(clap::Command::get_name))
    {
        let near = ContextValue::Strings(vec![near.to_owned()]);
        error.insert(ContextKind::SuggestedSubcommand, near);
    }
    error
}

#[cfg(test)]
mod tests {
    use clap::Command;

    use super::*;

    fn subcommands() -> Vec<Command> {
        let mut command = crate::command();
        command.build();
        let all = command.get_subcommands().filter(|it| it.get_name() != "help");
        all.cloned().collect()
    }

    /// The lines of a help text that are command lines.
    fn lines(subcommand: &Command) -> Vec<String> {
        let text = subcommand.get_after_long_help().map(StyledStr::to_string).unwrap_or_default();
        let (_, examples) = text.split_once("Examples:").unwrap_or_default();
        let lines = examples.lines().filter_map(|line| line.strip_prefix("  tilewright "));
        lines.map(|line| format!("tilewright {line}")).collect()
    }

    /// The words of a line, as a shell splits it: quotes keep blanks, and redirections end it.
    fn words(line: &str) -> Vec<String> {
        let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, false);
        for character in line.chars() {
            match character {
                '\'' => {
                    quote = !quote;
                    word.get_or_insert_default();
                }
                '<' | '>' | '|' if !quote => return words,
                ' ' if !quote => words.extend(word.take()),
                _ => word.get_or_insert_default().push(character),
            }
        }
        words.extend(word);
        words
    }

    #[test]
    fn every_subcommand_has_examples_that_parse() {
        for subcommand in subcommands() {
            let name = subcommand.get_name();
            let lines = lines(&subcommand);
            assert!(!lines.is_empty(), "`{name}` has no examples");
            for line in lines {
                let words = words(&line);
                assert_eq!(words[1], name, "{line}");
                if let Err(error) = crate::command().try_get_matches_from(words) {
                    panic!("{line}: {error}");
                }
            }
        }
    }

    #[test]
    fn every_option_stands_under_a_heading() {
        for subcommand in subcommands() {
            let options = subcommand.get_arguments();
            for option in options.filter(|it| !it.is_positional() && !it.is_hide_set()) {
                let name = subcommand.get_name();
                assert!(option.get_help_heading().is_some(), "{name}: {option}");
            }
        }
    }

    #[test]
    fn the_short_help_is_short() {
        for mut subcommand in subcommands() {
            let short = subcommand.render_help().to_string();
            let name = subcommand.get_name();
            assert!(short.lines().count() <= 50, "{name}: {short}");
            assert!(!short.contains("  tilewright "), "{name}: {short}");
        }
    }

    #[test]
    fn what_is_misspelt_is_suggested() {
        let cases: [(&[&str], &str); 6] = [
            (&["rnu", "m.onnx"], "run"),
            (&["diff-models"], "diff"),
            (&["verfy", "m.onnx"], "verify"),
            (&["run", "m.onnx", "--inptu", "x.npy"], "--input"),
            (&["run", "m.onnx", "--thread", "1"], "--threads"),
            (&["dump", "m.onnx", "--stage", "shceduled"], "scheduled"),
        ];
        for (words, near) in cases {
            let command = crate::command();
            let words = [&["tilewright"], words].concat();
            let error = command.clone().try_get_matches_from(words).expect_err("it is misspelt");
            let text = suggest(error, &command).to_string();
            assert!(
                text.contains("tip: a similar ") && text.contains(&format!("'{near}'")),
                "{text}"
            );
        }
    }

    #[test]
    fn the_table_of_commands_is_consistent() {
        crate::command().debug_assert();
    }
}
