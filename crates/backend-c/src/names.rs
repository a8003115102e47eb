//! Names of the user's model as identifiers of C.
//!
//! Invariants: an identifier is made of letters, digits and `_`, begins with a letter, is no
//! keyword and no name of `<stdint.h>` and `<stddef.h>`, and does not begin with `tw_`, as the
//! helpers do. Identifiers of one [`Names`] are distinct.

use std::collections::BTreeSet;

/// Keywords of C, up to C23, and macros that compilers predefine outside of their strict modes.
const RESERVED: [&str; 56] = [
    "alignas",
    "alignof",
    "asm",
    "auto",
    "bool",
    "break",
    "case",
    "char",
    "const",
    "constexpr",
    "continue",
    "default",
    "do",
    "double",
    "else",
    "enum",
    "extern",
    "false",
    "far",
    "float",
    "for",
    "goto",
    "i386",
    "if",
    "inline",
    "int",
    "linux",
    "long",
    "main",
    "near",
    "nullptr",
    "offsetof",
    "register",
    "restrict",
    "return",
    "short",
    "signed",
    "sizeof",
    "static",
    "static_assert",
    "struct",
    "switch",
    "thread_local",
    "true",
    "typedef",
    "typeof",
    "typeof_unqual",
    "union",
    "unix",
    "unsigned",
    "void",
    "volatile",
    "while",
    "errno",
    "vector",
    "pixel",
];

/// How the names begin that macros of the headers may have, and helpers.
const RESERVED_PREFIXES: [&str; 9] =
    ["tw_", "TW_", "INT", "UINT", "SIZE_", "PTRDIFF_", "WCHAR_", "WINT_", "SIG_"];

/// A scope of identifiers.
#[derive(Clone, Debug, Default)]
pub(crate) struct Names {
    taken: BTreeSet<String>,
}

impl Names {
    /// An identifier that is not in the scope yet, as like the text as can be; it is now.
    pub(crate) fn fresh(&mut self, text: &str) -> String {
        let mut stem = identifier(text);
        if is_reserved(&stem) {
            stem.insert_str(0, "x_");
        }
        let mut name = stem.clone();
        let mut number = 2;
        while !self.taken.insert(name.clone()) {
            name = format!("{stem}_{number}");
            number += 1;
        }
        name
    }
}

/// The text with everything else replaced by `_`, and something in front if it begins with no
/// letter.
#[must_use]
pub fn identifier(text: &str) -> String {
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let name: String = text.chars().map(|c| if fits(c) { c } else { '_' }).collect();
    match name.starts_with(|c: char| c.is_ascii_alphabetic()) {
        true => name,
        false => format!("x{name}"),
    }
}

fn is_reserved(name: &str) -> bool {
    RESERVED.contains(&name)
        || name == "NULL"
        || name.ends_with("_t")
        || RESERVED_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

/// Whether an identifier stands in code.
pub(crate) fn mentions(code: &str, identifier: &str) -> bool {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    code.match_indices(identifier).any(|(at, _)| {
        !code[..at].ends_with(is_part) && !code[at + identifier.len()..].starts_with(is_part)
    })
}

/// A text as the inside of a comment.
pub(crate) fn comment(text: &str) -> String {
    let printable = |c: char| if c.is_control() { ' ' } else { c };
    let text: String = text.chars().map(printable).collect();
    text.replace("*/", "* /").replace("/*", "/ *").replace("??/", "?? /")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identifiers() {
        let mut names = Names::default();
        let mut fresh = |text: &str| names.fresh(text);
        assert_eq!(fresh("conv1/weight:0"), "conv1_weight_0");
        assert_eq!(fresh("conv1.weight.0"), "conv1_weight_0_2");
        assert_eq!(fresh("0"), "x0");
        assert_eq!(fresh(""), "x");
        assert_eq!(fresh("int"), "x_int");
        assert_eq!(fresh("int8_t"), "x_int8_t");
        assert_eq!(fresh("INT8_MAX"), "x_INT8_MAX");
        assert_eq!(fresh("tw_add_i32"), "x_tw_add_i32");
        assert_eq!(fresh("_Bool"), "x_Bool");
        assert_eq!(fresh("größe"), "gr__e");
    }

    #[test]
    fn identifiers_in_code() {
        assert!(mentions("y[i] = x[i];", "x"));
        assert!(!mentions("y[xi] = max(0);", "x"));
    }

    #[test]
    fn comments_stay_closed() {
        assert_eq!(comment("a*/b\n/*c"), "a* /b / *c");
    }
}
