//! Rules on the names of types, so that a reader who knows a name knows what it means everywhere:
//! the name of a public type is one type in all library crates, and the nouns of the driver, which
//! newcomers read first, stand in the lexicon.

use super::Finding;
use super::code::{module_lines, only_code};
use std::collections::{BTreeMap, BTreeSet};

/// The public types that a file defines, with their lines: what `pub struct`, `enum`, `union`,
/// `trait` and `type` name, and typed ids. Those of a module inside of the file bear that module's
/// name as well, and do not count.
pub(super) fn public_types(text: &str) -> Vec<(usize, String)> {
    let code = only_code(text);
    let inner = module_lines(&code);
    let mut types = Vec::new();
    let mut defines_id = false;
    for (index, line) in code.lines().enumerate().filter(|(index, _)| !inner[*index]) {
        let mut words = line.split(|c: char| !c.is_alphanumeric() && !"_$!".contains(c));
        defines_id |= words.any(|word| word == "define_id!");
        let Some((_, rest)) = line.split_once("pub ") else { continue };
        let mut words = rest.split(|c: char| !c.is_alphanumeric() && c != '_');
        let first = words.next().unwrap_or_default();
        let name = match first {
            "struct" | "enum" | "union" | "trait" | "type" => words.next(),
            _ if defines_id && first.starts_with(char::is_uppercase) => Some(first),
            _ => None,
        };
        defines_id = false;
        types.extend(name.filter(|name| !name.is_empty()).map(|name| (index + 1, name.to_owned())));
    }
    types
}

/// No two of these types, each with its file, have one name; the later ones are found.
pub(super) fn names_are_unique(types: &[(String, usize, String)]) -> Vec<(String, Finding)> {
    let mut first: BTreeMap<&str, &str> = BTreeMap::new();
    let mut findings = Vec::new();
    for (file, line, name) in types {
        match first.get(name.as_str()) {
            Some(other) => {
                let message = format!("`{name}` is the name of a public type in {other}, too");
                findings.push((file.clone(), Finding::new(*line, message)));
            }
            None => {
                first.insert(name, file);
            }
        }
    }
    findings
}

/// The words that the tables of the lexicon define: what stands in first columns, in lower case.
pub(super) fn defined_words(lexicon: &str) -> BTreeSet<String> {
    let rows = lexicon.lines().filter_map(|line| line.strip_prefix('|')?.split('|').next());
    rows.flat_map(|words| words.split(',')).map(|word| word.trim().to_lowercase()).collect()
}

/// The types that a file of the driver defines for other files must be called by a word of the
/// lexicon: their names end in one, in singular or plural.
pub(super) fn nouns_are_defined(text: &str, defined: &BTreeSet<String>) -> Vec<Finding> {
    let for_others = text.replace("pub(crate) ", "pub ").replace("pub(super) ", "pub ");
    let is_defined = |name: &str| {
        let words = in_words(name);
        let ends = words.char_indices().filter(|(at, c)| *at == 0 || *c == ' ');
        let mut ends = ends.map(|(at, _)| words[at..].trim_start());
        ends.any(|end| {
            let singular = end.strip_suffix('s').unwrap_or(end);
            defined.contains(end) || defined.contains(singular)
        })
    };
    let types = public_types(&for_others).into_iter().filter(|(_, name)| !is_defined(name));
    let finding = |(line, name): (usize, String)| {
        let words = in_words(&name);
        let message = format!(
            "`{name}`: docs/lexicon.md defines no word in which `{words}` ends; use one that it \
             defines, or add a row"
        );
        Finding::new(line, message)
    };
    types.map(finding).collect()
}

/// The words of a type's name, in lower case.
fn in_words(name: &str) -> String {
    let mut words = String::new();
    for letter in name.chars() {
        if letter.is_uppercase() && !words.is_empty() {
            words.push(' ');
        }
        words.extend(letter.to_lowercase());
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nouns_of_the_lexicon_end_names() {
        let lexicon =
            "| word | meaning | not |\n|---|---|---|\n| input, back end | what | Thing |\n";
        let defined = defined_words(lexicon);
        let found = |text: &str| nouns_are_defined(text, &defined);
        assert_eq!(found("pub(crate) struct ModelInputs;\npub enum BackEnd {}\nstruct Mine;"), []);
        let lines = |text: &str| found(text).iter().map(|it| it.line).collect::<Vec<_>>();
        assert_eq!(lines("struct A;\npub(super) struct InputThing;\npub struct Thing;"), [2, 3]);
    }

    fn names(text: &str) -> Vec<String> {
        public_types(text).into_iter().map(|(_, name)| name).collect()
    }

    #[test]
    fn what_is_public_and_a_type_counts() {
        let text = "pub struct A<T>(T);\npub enum B { C }\n  pub trait D: E {}\npub type F = u8;\n\
                    pub(crate) struct G;\nstruct H;\npub fn i() {}\n// pub struct J;\n\
                    pub struct $name;\npub const K: &str = \"pub struct L;\";\n";
        assert_eq!(names(text), ["A", "B", "D", "F"]);
    }

    #[test]
    fn ids_count() {
        let text = "define_id!(pub AId, \"a\");\nbase::define_id!(\n    /// It.\n    pub BId,\n\
                    \"b\"\n);\ndefine_id!(pub(crate) CId, \"c\");\npub fn d() {}\n";
        assert_eq!(names(text), ["AId", "BId"]);
    }

    #[test]
    fn modules_inside_of_files_have_names_of_their_own() {
        let text = "pub mod a {\n  pub struct B;\n}\n#[cfg(test)]\nmod tests {\n pub enum C {}\n}\n\
                    pub mod d;\npub struct E;\n";
        assert_eq!(names(text), ["E"]);
    }

    #[test]
    fn a_name_twice_is_found() {
        let of = |file: &str, name: &str| (file.to_owned(), 7, name.to_owned());
        let found = names_are_unique(&[of("a.rs", "A"), of("a.rs", "B"), of("b.rs", "A")]);
        let wanted = Finding::new(7, "`A` is the name of a public type in a.rs, too");
        assert_eq!(found, [("b.rs".to_owned(), wanted)]);
    }
}
