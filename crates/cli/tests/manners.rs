//! Colours, completions and suggestions, as the binary has them.

mod support;

use std::path::Path;
use std::process::Command;

use support::{succeed, tilewright};

/// What the binary says on standard error, which is no terminal, with these variables.
fn said(arguments: &[&str], variables: &[(&str, &str)]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_tilewright"))
        .args(arguments)
        .env_remove("NO_COLOR")
        .env_remove("CLICOLOR_FORCE")
        .envs(variables.iter().copied())
        .output()
        .expect("the binary starts");
    String::from_utf8(output.stderr).expect("text")
}

#[test]
fn colours_are_as_chosen() {
    let refused = ["info", "absent.onnx"];
    let never = said(&[&refused[..], &["--color", "never"]].concat(), &[("CLICOLOR_FORCE", "1")]);
    let plain = said(&refused, &[]);
    assert!(plain.starts_with("error[TW0302]: ") && !plain.contains('\u{1b}'), "{plain:?}");
    assert_eq!(never, plain);
    assert_eq!(said(&refused, &[("NO_COLOR", "1")]), plain);
    let always = said(&["--color=always", "info", "absent.onnx"], &[("NO_COLOR", "1")]);
    let forced = said(&refused, &[("CLICOLOR_FORCE", "1")]);
    assert_eq!(always, forced);
    let red_and_bold = "\u{1b}[1m\u{1b}[91merror[TW0302]\u{1b}[0m";
    assert!(always.starts_with(red_and_bold), "{always:?}");
}

#[test]
fn colours_of_a_wrong_command_line_are_as_chosen() {
    let wrong = |chosen: &str| said(&["run", "--color", chosen], &[]);
    assert!(wrong("always").contains('\u{1b}'));
    assert!(!wrong("never").contains('\u{1b}'));
}

#[test]
fn completions_know_commands_and_options() {
    for shell in ["bash", "zsh", "fish"] {
        let script = succeed(&["completions", shell]);
        for word in ["verify", "explain-error", "without-optimisation", "letterbox"] {
            assert!(script.contains(word), "{shell}: {word}");
        }
    }
}

#[test]
fn a_misspelt_command_is_suggested() {
    let output = tilewright(Path::new("."), &["rnu", "model.onnx"]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2));
    assert!(said.contains("tip: a similar subcommand exists: 'run'"), "{said}");
}

#[test]
fn a_misspelt_limit_is_suggested() {
    let output = tilewright(Path::new("."), &["info", "model.onnx", "--limit", "turn=3"]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2));
    assert!(said.contains("`turns` may be meant"), "{said}");
}
