//! Remedies that several levels give.
//!
//! A remedy holds for who writes Rust and for who has the command line; a command in it, between
//! backticks, is right as it is printed. What only its reader knows is written `FILE`, and the
//! model is `MODEL` until the command line prints it.

use crate::nearest::nearest;

/// Code that needs no machine of ours.
pub const WRITE_C: &str = "use `tilewright compile MODEL -o c-sources --emit c`";

/// For a named dimension that has no value.
#[must_use]
pub fn give_dimension(name: &str) -> String {
    format!("give it one, such as `--dim {name}=1`, or an input whose shape tells it")
}

/// What is said to whoever gave an unknown name: the name that may have been meant, or that one of
/// those named beside it will do; `spelled` is how it is given, such as `--target NAME`.
#[must_use]
pub fn use_instead<'n>(
    name: &str,
    known: impl IntoIterator<Item = &'n str>,
    spelled: impl FnOnce(&str) -> String,
) -> String {
    match nearest(name, known) {
        Some(near) => format!("use `{}`, or another of these names", spelled(near)),
        None => "use one of these names".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_remedy_names_the_near_one() {
        let spelled = |near: &str| format!("--target {near}");
        let text = use_instead("c98", ["native", "c99"], spelled);
        assert_eq!(text, "use `--target c99`, or another of these names");
        assert_eq!(use_instead("pdp", ["native"], str::to_owned), "use one of these names");
    }
}
