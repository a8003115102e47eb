//! Outlines: models as a few lines of text, from which their bytes are made.
//!
//! ```text
//! input f32 1,17,31,31
//! transpose order=0,2,3,1
//! conv out=13 kernel=3,3 stride=1,1 dilation=1,1 group=1 pad=same
//! map f=Relu
//! ```
//!
//! A line is a part: a name and its settings. Each part takes the value of the one before it, so
//! that a part can be left out, or a number in it changed, without a thought for the others; what
//! then does not fit is refused when the model is made. Lines that begin with `#` say nothing.
//!
//! What is printed parses, to the same outline.

use std::fmt;
use std::ops::RangeInclusive;

use tensor::DType;

/// Numbers outside of it are no extents of small models, and their products no numbers.
const RANGE: RangeInclusive<i64> = -(1 << 18)..=1 << 18;

/// A model of one input, and of parts one behind the other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outline {
    /// The input's element type.
    pub dtype: DType,
    /// The input's extents.
    pub shape: Vec<i64>,
    /// What is done with it.
    pub parts: Vec<Part>,
}

/// A few operators of ONNX, by the name of a row of the table of parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// The row's name.
    pub name: String,
    /// What it leaves open, by name, in the order in which it prints.
    pub settings: Vec<(String, Setting)>,
}

/// What a part leaves open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Setting {
    /// Numbers: one, or one an axis.
    Numbers(Vec<i64>),
    /// A word.
    Word(String),
}

impl Outline {
    /// Reads what [`Outline`] prints.
    ///
    /// # Errors
    /// The line that is none.
    pub fn parse(text: &str) -> Result<Outline, String> {
        let mut lines =
            text.lines().map(str::trim).filter(|it| !it.is_empty() && !it.starts_with('#'));
        let first = lines.next().ok_or("there is no line")?;
        let no_input = || format!("`{first}` is no input: `input f32 1,3,8,8`");
        let (dtype, shape) = match first.split_whitespace().collect::<Vec<_>>()[..] {
            ["input", dtype, shape] => (DType::parse(dtype), numbers(shape)),
            _ => return Err(no_input()),
        };
        let (Some(dtype), Some(shape)) = (dtype, shape) else { return Err(no_input()) };
        let parts = lines.map(Part::parse).collect::<Result<_, _>>()?;
        Ok(Outline { dtype, shape, parts })
    }

    /// What remains without numbers: the element type and the parts with their words. Outlines of
    /// one kind tend to have one cause.
    #[must_use]
    pub fn kind(&self) -> String {
        let words = |part: &Part| {
            let word = |(_, setting): &(String, Setting)| match setting {
                Setting::Word(word) => Some(word.clone()),
                Setting::Numbers(_) => None,
            };
            let words: Vec<String> = part.settings.iter().filter_map(word).collect();
            let name = &part.name;
            if words.is_empty() { name.clone() } else { format!("{name}.{}", words.join(".")) }
        };
        let parts: Vec<String> = self.parts.iter().map(words).collect();
        format!("{} {}", self.dtype, parts.join(" "))
    }
}

impl Part {
    /// A part without settings.
    #[must_use]
    pub fn new(name: &str) -> Part {
        Part { name: name.to_owned(), settings: Vec::new() }
    }

    /// With one more setting of numbers.
    #[must_use]
    pub fn with(mut self, name: &str, numbers: &[i64]) -> Part {
        self.settings.push((name.to_owned(), Setting::Numbers(numbers.to_vec())));
        self
    }

    /// With one more setting that is a word.
    #[must_use]
    pub fn word(mut self, name: &str, word: &str) -> Part {
        self.settings.push((name.to_owned(), Setting::Word(word.to_owned())));
        self
    }

    fn setting(&self, name: &str) -> Option<&Setting> {
        self.settings.iter().find(|(other, _)| other == name).map(|(_, setting)| setting)
    }

    /// The numbers of a setting.
    ///
    /// # Errors
    /// A part that has none.
    pub fn numbers(&self, name: &str) -> Result<&[i64], String> {
        match self.setting(name) {
            Some(Setting::Numbers(numbers)) if numbers.iter().all(|it| RANGE.contains(it)) => {
                Ok(numbers)
            }
            Some(Setting::Numbers(_)) => Err(format!("a number of `{name}` is too large")),
            _ => Err(format!("`{}` has no numbers `{name}`", self.name)),
        }
    }

    /// The one number of a setting.
    ///
    /// # Errors
    /// A part that has none, or several.
    pub fn number(&self, name: &str) -> Result<i64, String> {
        match self.numbers(name)? {
            [number] => Ok(*number),
            _ => Err(format!("`{name}` of `{}` is one number", self.name)),
        }
    }

    /// The word of a setting.
    ///
    /// # Errors
    /// A part that has none.
    pub fn text(&self, name: &str) -> Result<&str, String> {
        match self.setting(name) {
            Some(Setting::Word(word)) => Ok(word),
            _ => Err(format!("`{}` has no word `{name}`", self.name)),
        }
    }

    fn parse(line: &str) -> Result<Part, String> {
        let mut words = line.split_whitespace();
        let name = words.next().unwrap_or_default().to_owned();
        let setting = |word: &str| {
            let (name, value) =
                word.split_once('=').ok_or(format!("`{word}` of `{line}` is no setting: `n=3`"))?;
            let setting = match numbers(value) {
                Some(numbers) => Setting::Numbers(numbers),
                None => Setting::Word(value.to_owned()),
            };
            Ok::<_, String>((name.to_owned(), setting))
        };
        Ok(Part { name, settings: words.map(setting).collect::<Result<_, _>>()? })
    }
}

fn numbers(text: &str) -> Option<Vec<i64>> {
    text.split(',').map(|number| number.parse().ok()).collect()
}

fn joined(numbers: &[i64]) -> String {
    let texts: Vec<String> = numbers.iter().map(i64::to_string).collect();
    texts.join(",")
}

impl fmt::Display for Outline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "input {} {}", self.dtype, joined(&self.shape))?;
        self.parts.iter().try_for_each(|part| writeln!(f, "{part}"))
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.name)?;
        for (name, setting) in &self.settings {
            match setting {
                Setting::Numbers(numbers) => write!(f, " {name}={}", joined(numbers))?,
                Setting::Word(word) => write!(f, " {name}={word}")?,
            }
        }
        Ok(())
    }
}
