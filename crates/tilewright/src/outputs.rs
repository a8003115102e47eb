//! The outputs of a run, by name.

use std::ops::Deref;
use std::vec;

use base::{Diagnostic, Result, codes};
use tensor::{Tensor, Value};

/// The outputs of a run with their names, in the order of the model: a slice of pairs.
#[derive(Clone, Debug)]
pub struct Outputs(Vec<(String, Value)>);

impl Outputs {
    pub(crate) fn new(outputs: Vec<(String, Value)>) -> Outputs {
        Outputs(outputs)
    }

    /// The output of a name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.0.iter().find(|(own, _)| own == name).map(|(_, value)| value)
    }

    /// The output of a name, which is a tensor.
    ///
    /// # Errors
    /// `TW0214` for a name that no output has, and for an output that is no tensor.
    pub fn tensor(&self, name: &str) -> Result<&Tensor> {
        let refuse = |message: String, reason: String, remedy: &str| {
            let found = Diagnostic::error(codes::UNSUITABLE_OUTPUT, message);
            found.at(format!("output `{name}`")).because(reason).remedy(remedy).into()
        };
        let Some(value) = self.get(name) else {
            let names: Vec<String> = self.0.iter().map(|(own, _)| format!("`{own}`")).collect();
            let reason = format!("its outputs are {}", names.join(", "));
            let message = format!("the model has no output `{name}`");
            return Err(refuse(message, reason, "use one of these names"));
        };
        value.as_tensor().ok_or_else(|| {
            let reason = "it is a sequence, an optional value or a map".to_owned();
            refuse(format!("output `{name}` is no tensor"), reason, "take it as a value")
        })
    }
}

impl Deref for Outputs {
    type Target = [(String, Value)];

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl IntoIterator for Outputs {
    type Item = (String, Value);
    type IntoIter = vec::IntoIter<(String, Value)>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}
