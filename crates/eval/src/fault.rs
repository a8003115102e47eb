//! What both evaluators share: why they stop, and in what precision they compute.

use std::fmt;

use base::limits::{exceeded, more_than};
use base::{Diagnostic, Limits, codes};
use tensor::DType;

/// Why an evaluation stopped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EvaluationFault {
    /// A code of [`base::codes`].
    pub code: &'static str,
    /// What happened, one line.
    pub message: String,
    /// Where, in the user's words; empty if it is nowhere in particular.
    pub place: String,
    /// Turns of loops that would be enough, as far as known, where there were too many.
    pub turns: u64,
}

impl EvaluationFault {
    /// The fault of loops that turn once more than they may.
    pub fn too_many_turns(most: u64) -> EvaluationFault {
        let message = format!("loops have turned {most} times");
        let fault = EvaluationFault::new(codes::LIMIT_EXCEEDED, message);
        EvaluationFault { turns: more_than(most), ..fault }
    }

    /// A fault that happened nowhere in particular yet.
    #[cold]
    #[inline(never)]
    pub fn new(code: &'static str, message: impl Into<String>) -> EvaluationFault {
        EvaluationFault { code, message: message.into(), place: String::new(), turns: 0 }
    }

    /// Says where, unless something inner has said so already.
    pub fn at(mut self, place: impl FnOnce() -> String) -> EvaluationFault {
        if self.place.is_empty() {
            self.place = place();
        }
        self
    }
}

impl fmt::Display for EvaluationFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        if self.place.is_empty() { Ok(()) } else { write!(f, " at {}", self.place) }
    }
}

impl std::error::Error for EvaluationFault {}

impl From<EvaluationFault> for Diagnostic {
    fn from(fault: EvaluationFault) -> Diagnostic {
        let place = if fault.place.is_empty() { "the evaluator".to_owned() } else { fault.place };
        // Turns are the one limit that the evaluators have.
        if fault.code == codes::LIMIT_EXCEEDED {
            return exceeded("turns", fault.turns, fault.message)
                .at(place)
                .because("the evaluator met it while computing the model's values");
        }
        Diagnostic::error(fault.code, fault.message)
            .at(place)
            .because("the evaluator met it while computing the model's values")
            .remedy("check the inputs, and the model where it is said to happen")
    }
}

/// In what precision floats are computed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EvaluationPrecision {
    /// Each in its declared type.
    #[default]
    Declared,
    /// All in f64; tensors of float type are f64 tensors whatever is declared.
    F64,
}

impl EvaluationPrecision {
    /// The type in which what is declared as `dtype` is computed and stored.
    pub fn dtype(self, dtype: DType) -> DType {
        match self {
            EvaluationPrecision::F64 if dtype.is_float() => DType::F64,
            EvaluationPrecision::F64 | EvaluationPrecision::Declared => dtype,
        }
    }
}

/// How a function is evaluated.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// In what precision.
    pub precision: EvaluationPrecision,
    /// How often its loops may turn, all together.
    pub most_turns: u64,
}

impl From<EvaluationPrecision> for Settings {
    fn from(precision: EvaluationPrecision) -> Settings {
        Settings { precision, most_turns: Limits::default().turns }
    }
}
