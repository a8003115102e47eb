//! `tilewright completions`: what makes a shell complete the names of commands and options.

use clap::{Args, ValueEnum};
use clap_complete::{Shell, generate};

use crate::help::examples;
use crate::standard_output::write_bytes;
use crate::{Outcome, command};

/// Arguments of `tilewright completions`.
#[derive(Args)]
#[command(after_long_help = examples(&[
    (
        "tilewright completions bash > ~/.local/share/bash-completion/completions/tilewright",
        "for bash; new shells have it",
    ),
    (
        "tilewright completions fish > ~/.config/fish/completions/tilewright.fish",
        "for fish",
    ),
    (
        "tilewright completions zsh > ~/.zfunc/_tilewright",
        "for zsh, where `fpath` has that folder",
    ),
]))]
pub(crate) struct Arguments {
    /// The shell
    shell: ShellArgument,
}

/// Shells by name.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum ShellArgument {
    Bash,
    Zsh,
    Fish,
}

/// Prints the script that the shell reads.
pub(crate) fn run(arguments: &Arguments) -> base::Result<Outcome> {
    let shell = match arguments.shell {
        ShellArgument::Bash => Shell::Bash,
        ShellArgument::Zsh => Shell::Zsh,
        ShellArgument::Fish => Shell::Fish,
    };
    let mut script = Vec::new();
    generate(shell, &mut command(), "tilewright", &mut script);
    write_bytes(|output| std::io::Write::write_all(output, &script));
    Ok(Outcome::Good)
}
