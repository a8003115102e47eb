//! Why a step is refused: a sentence, and the kernel with a mark at the loop or buffer meant.

use std::fmt;

use loops::Kernel;

use crate::step::ScheduleStep;

/// What a refusal is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// The kernel as a whole.
    Kernel,
    /// The loop with this name.
    Loop(String),
    /// The buffer with this name.
    Buffer(String),
}

/// A step's own refusal, before it knows the step's text and the listing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) place: Place,
    pub(crate) message: String,
}

/// What a step returns.
pub(crate) type Outcome<T = ()> = Result<T, Refusal>;

impl Refusal {
    pub(crate) fn at_loop(name: &str, message: impl Into<String>) -> Refusal {
        Refusal { place: Place::Loop(name.to_owned()), message: message.into() }
    }

    pub(crate) fn at_buffer(name: &str, message: impl Into<String>) -> Refusal {
        Refusal { place: Place::Buffer(name.to_owned()), message: message.into() }
    }

    pub(crate) fn in_kernel(message: impl Into<String>) -> Refusal {
        Refusal { place: Place::Kernel, message: message.into() }
    }
}

/// A step that is not legal for a kernel, which it left as it was.
#[derive(Clone, Debug, PartialEq)]
pub struct ScheduleError {
    /// The step.
    pub step: Box<ScheduleStep>,
    /// Why it is refused.
    pub message: String,
    /// What the refusal is about.
    place: Place,
    /// The kernel as the step left it.
    kernel: Box<Kernel>,
}

impl ScheduleError {
    pub(crate) fn new(kernel: &Kernel, step: ScheduleStep, refusal: Refusal) -> ScheduleError {
        let Refusal { place, message } = refusal;
        ScheduleError { step: Box::new(step), message, place, kernel: Box::new(kernel.clone()) }
    }

    /// The kernel, with a mark below the loop or buffer that the refusal is about.
    pub fn listing(&self) -> String {
        mark(&self.kernel.to_string(), &self.place, &self.message)
    }
}

impl fmt::Display for ScheduleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot `{}`: {}\n{}", self.step, self.message, self.listing())
    }
}

impl std::error::Error for ScheduleError {}

/// Puts `// ^ message` below the first line that declares the place. Names are unique and stand in
/// the text form as `for NAME <` and `%NAME:`.
fn mark(text: &str, place: &Place, message: &str) -> String {
    let declares = |line: &str| match place {
        Place::Kernel => line.starts_with("kernel "),
        Place::Loop(name) => line.trim_start().starts_with(&format!("for {name} <")),
        Place::Buffer(name) => line.contains(&format!("%{name}:")),
    };
    let mut marked = String::new();
    let mut found = false;
    for line in text.lines() {
        marked.push_str(line);
        marked.push('\n');
        if !found && declares(line) {
            found = true;
            let indent = &line[..line.len() - line.trim_start().len()];
            marked.push_str(&format!("{indent}// ^ {message}\n"));
        }
    }
    marked
}
