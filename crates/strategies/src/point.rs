//! Points: what is chosen where a sketch leaves a choice.
//!
//! A point names a sketch and the values of some of its choices, as text
//! `tile(along=a2, rows=6, vectors=2)`. Choices that it does not name are left to the sketch, so
//! the sketch's default is the point that names none, and a default, what a search found, and what
//! a person wants are the same kind of thing.

use std::fmt;
use std::str::FromStr;

/// What a choice is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Chosen {
    /// A count.
    Number(i64),
    /// A loop, or a way of doing it.
    Name(String),
}

/// See the head of this file.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Point {
    /// The sketch's name.
    pub sketch: String,
    /// Values of choices by their names.
    pub choices: Vec<(String, Chosen)>,
}

impl Point {
    /// The point of a sketch that leaves all choices to it.
    #[must_use]
    pub fn of(sketch: &str) -> Point {
        Point { sketch: sketch.to_owned(), choices: Vec::new() }
    }

    /// The same with one more choice made.
    #[must_use]
    pub(crate) fn with_number(mut self, name: &str, value: i64) -> Point {
        self.choices.push((name.to_owned(), Chosen::Number(value)));
        self
    }

    /// The same with one more choice made.
    #[must_use]
    pub(crate) fn with_name(mut self, name: &str, value: &str) -> Point {
        self.choices.push((name.to_owned(), Chosen::Name(value.to_owned())));
        self
    }

    fn value(&self, name: &str) -> Option<&Chosen> {
        self.choices.iter().find(|(own, _)| own == name).map(|(_, value)| value)
    }

    /// Whether a choice is left open, or this is its value.
    pub(crate) fn allows(&self, name: &str, value: i64) -> bool {
        self.value(name).is_none_or(|own| *own == Chosen::Number(value))
    }

    /// Whether a choice is left open, or this is its value.
    pub(crate) fn allows_name(&self, name: &str, value: &str) -> bool {
        self.value(name).is_none_or(|own| matches!(own, Chosen::Name(own) if own == value))
    }

    /// The number that a choice is to be, if it is made.
    pub(crate) fn number(&self, name: &str) -> Option<i64> {
        match self.value(name)? {
            Chosen::Number(number) => Some(*number),
            Chosen::Name(_) => None,
        }
    }
}

impl fmt::Display for Point {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.sketch)?;
        for (number, (name, value)) in self.choices.iter().enumerate() {
            write!(f, "{}{name}=", if number == 0 { "(" } else { ", " })?;
            match value {
                Chosen::Number(value) => write!(f, "{value}")?,
                Chosen::Name(value) => write!(f, "{value}")?,
            }
        }
        if self.choices.is_empty() { Ok(()) } else { write!(f, ")") }
    }
}

impl FromStr for Point {
    /// What is wrong, as a sentence without a full stop.
    type Err = String;

    fn from_str(text: &str) -> Result<Point, String> {
        let Some((sketch, rest)) = text.trim().split_once('(') else {
            return Ok(Point::of(text.trim()));
        };
        let inside = rest.strip_suffix(')').ok_or("`)` is missing at the end of a point")?;
        let mut point = Point::of(sketch);
        for choice in inside.split(',') {
            let (name, value) =
                choice.split_once('=').ok_or_else(|| format!("`{choice}` chooses nothing"))?;
            let (name, value) = (name.trim(), value.trim());
            point = match value.parse() {
                Ok(number) => point.with_number(name, number),
                Err(_) => point.with_name(name, value),
            };
        }
        Ok(point)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_print_and_parse() {
        for text in ["map", "tile(along=a2, rows=6, vectors=2, blocks=1)", "dots(rows=3)"] {
            let point: Point = text.parse().expect("a point");
            assert_eq!(point.to_string(), text);
        }
        assert!("tile(rows=6".parse::<Point>().is_err());
        assert!("tile(rows)".parse::<Point>().is_err());
    }
}
