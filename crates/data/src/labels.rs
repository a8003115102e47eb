//! Labels of classes, from the files that models come with.

use std::path::Path;

use base::{Diagnostic, Limits, Result};
use serde_json::Value as Json;

use crate::content::{bounded, json, text};
use crate::sentences::malformed;

/// A label for each class, by its number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Labels(Vec<String>);

/// The most classes of an object whose keys are their numbers.
const MOST: usize = 1 << 22;

impl Labels {
    /// Reads a file: a label a line; or JSON, which is a list of labels, an object from numbers to
    /// labels (or to lists that end with one), an object from labels to numbers, or one with such
    /// an object as `id2label`.
    ///
    /// # Errors
    /// A file that cannot be read, or holds something else.
    pub fn read(path: impl AsRef<Path>, limits: &Limits) -> Result<Labels> {
        let path = path.as_ref();
        let place = path.display().to_string();
        let bytes = bounded(path, limits)?;
        let text = text(&bytes, &place)?;
        let labels = match text.trim_start().starts_with(['[', '{']) {
            true => of_json(&json(text, &place)?).map_err(|reason| refused(&place, reason))?,
            false => text.lines().map(|line| line.trim().to_owned()).collect(),
        };
        match labels.is_empty() {
            true => Err(refused(&place, "it is empty".to_owned()).into()),
            false => Ok(Labels(labels)),
        }
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The label of a class.
    #[must_use]
    pub fn get(&self, class: usize) -> Option<&str> {
        self.0.get(class).map(String::as_str)
    }
}

fn refused(place: &str, reason: String) -> Diagnostic {
    let remedy =
        "give a label a line, or JSON: a list of labels, or an object from numbers to them";
    malformed("a file of labels", place, reason).remedy(remedy)
}

fn of_json(json: &Json) -> std::result::Result<Vec<String>, String> {
    match json {
        Json::Array(items) => items.iter().map(label).collect(),
        Json::Object(object) => {
            if let Some(inner) = object.get("id2label") {
                return of_json(inner);
            }
            let is_numbered = object.keys().all(|key| key.parse::<usize>().is_ok());
            let mut pairs = Vec::with_capacity(object.len());
            for (key, value) in object {
                pairs.push(match is_numbered {
                    true => (class(key.parse().ok(), key)?, label(value)?),
                    false => {
                        let number = value.as_u64().and_then(|it| usize::try_from(it).ok());
                        (class(number, &value.to_string())?, key.clone())
                    }
                });
            }
            numbered(pairs)
        }
        _ => Err("it is neither a list nor an object".to_owned()),
    }
}

/// A string, or the last of a list of them.
fn label(json: &Json) -> std::result::Result<String, String> {
    let found = match json {
        Json::Array(items) => items.last().and_then(Json::as_str),
        _ => json.as_str(),
    };
    found.map(str::to_owned).ok_or_else(|| format!("{json} is no label"))
}

fn class(number: Option<usize>, text: &str) -> std::result::Result<usize, String> {
    let number = number.filter(|number| *number < MOST);
    number.ok_or_else(|| format!("{text} is not the number of a class"))
}

/// The labels in the order of their numbers; those that are missing are empty.
fn numbered(pairs: Vec<(usize, String)>) -> std::result::Result<Vec<String>, String> {
    let count = pairs.iter().map(|(number, _)| number + 1).max().unwrap_or(0);
    let mut labels: Vec<Option<String>> = vec![None; count];
    for (number, label) in pairs {
        if labels[number].replace(label).is_some() {
            return Err(format!("two labels have the number {number}"));
        }
    }
    Ok(labels.into_iter().map(Option::unwrap_or_default).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(json: &str) -> std::result::Result<Vec<String>, String> {
        of_json(&serde_json::from_str(json).expect("JSON"))
    }

    #[test]
    fn forms_of_json() {
        for json in [
            "[\"a\", \"b\"]",
            "{\"1\": \"b\", \"0\": \"a\"}",
            "{\"0\": [\"n1\", \"a\"], \"1\": [\"n2\", \"b\"]}",
            "{\"a\": 0, \"b\": 1}",
            "{\"id2label\": {\"0\": \"a\", \"1\": \"b\"}, \"rest\": 1}",
        ] {
            assert_eq!(read(json), Ok(vec!["a".to_owned(), "b".to_owned()]), "{json}");
        }
        for json in ["1", "[1]", "{\"a\": \"b\"}", "{\"a\": 0, \"b\": 0}", "{\"a\": 99999999}"] {
            assert!(read(json).is_err(), "{json}");
        }
    }
}
