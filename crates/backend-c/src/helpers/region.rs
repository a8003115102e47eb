//! Values of plans, and the memory that they lie in: functions of `c/values.c`, where empty lines
//! stand between the definitions, the first of which are the types.

use program::Fault;

use super::Helpers;
use crate::names::mentions;

const VALUES: &str = include_str!("../c/values.c");

impl Helpers {
    /// The types of values with at most so many axes and what the code calls that works on them.
    /// `name` is the model's.
    pub(crate) fn values(&mut self, code: &str, axes: usize, name: &str) {
        let types = VALUES.split("\n\n").next().unwrap_or_default();
        self.define("tw_value".to_owned(), |_, _| {
            types.replace("@AXES@", &axes.to_string()).replace("@NAME@", name)
        });
        self.functions_in(code);
    }

    /// Defines the functions that a text mentions.
    fn functions_in(&mut self, text: &str) {
        if mentions(text, "tw_copy") {
            self.copy();
        }
        for definition in VALUES.split("\n\n").skip(1) {
            let name = defined(definition);
            if mentions(text, name) {
                self.define(name.to_owned(), |helpers, _| {
                    helpers.functions_in(definition);
                    definition
                        .replace("@INDEX@", &Fault::IndexOutOfRange.code().to_string())
                        .replace("@SIZE@", &Fault::SizeOutOfRange.code().to_string())
                        .replace("@MEMORY@", &Fault::TooLittleMemory.code().to_string())
                });
            }
        }
    }
}

/// The function that a text defines.
fn defined(definition: &str) -> &str {
    let head = definition.lines().find(|line| line.starts_with("static ")).unwrap_or_default();
    let head = head.split('(').next().unwrap_or_default();
    head.rsplit([' ', '*']).next().unwrap_or_default()
}
