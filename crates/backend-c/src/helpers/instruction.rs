//! Instructions that take several turns of a loop: for each a helper that is the machine's own
//! where the C compiler says that it has it, and the loop elsewhere or where `TILEWRIGHT_STRICT`
//! asks for nothing but C99.

use super::Helpers;

/// An instruction as C: its name, the machine's own code under the macro that says that it is
/// there, and the same in C.
struct Row {
    name: &'static str,
    text: &'static str,
}

const ROWS: &[Row] = &[
    Row { name: "dot_i8_4", text: include_str!("c/dot_i8_4.c") },
    Row { name: "dot_i8_16", text: include_str!("c/dot_i8_16.c") },
];

impl Helpers {
    /// What vector loops need where `TW_HELIUM` is defined.
    pub(crate) fn helium(&mut self) {
        self.define("TW_HELIUM".to_owned(), |_, _| include_str!("c/helium.c").to_owned());
    }

    /// The helper for an instruction, `(sum, first operand, second operand)`, if there is one.
    pub(crate) fn instruction(&mut self, name: &str) -> Option<String> {
        let row = ROWS.iter().find(|row| row.name == name)?;
        Some(self.define(format!("tw_{name}"), |_, _| row.text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use backend::{Instruction, Isa};

    use super::ROWS;

    #[test]
    fn there_is_code_for_what_the_cores_have() {
        for isa in [Isa::ArmDsp, Isa::ArmHelium] {
            for (instruction, _) in isa.instructions() {
                assert!(ROWS.iter().any(|row| row.name == instruction.name()));
            }
        }
        assert!(ROWS.iter().all(|row| Instruction::named(row.name).is_some()));
    }
}
