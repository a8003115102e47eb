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

/// Code for two lanes of an instruction of which one operand lies side by side, from a whole word
/// on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PairHelper {
    /// The type of what is loaded of that operand.
    pub(crate) ty: &'static str,
    /// The function that loads it, of its address.
    pub(crate) load: &'static str,
    /// The function `(sums, other operand, what was loaded)`.
    pub(crate) add: &'static str,
}

/// Names of instructions, with the helpers for two of their lanes.
const PAIRS: &[(&str, PairHelper, &str)] = &[(
    "dot_i8_4",
    PairHelper { ty: "tw_i8_4_pair", load: "tw_load_i8_4_pair", add: "tw_dot_i8_4_pair" },
    include_str!("c/dot_i8_4_pair.c"),
)];

/// Names of instructions, with the helper for operands that both begin at a whole word, which are
/// vectors of the core's.
const ALIGNED: &[(&str, &str, &str)] =
    &[("dot_i8_16", "tw_dot_i8_16_aligned", include_str!("c/dot_i8_16_aligned.c"))];

impl Helpers {
    /// The helper for an instruction both operands of which begin at a whole word, if that makes a
    /// difference.
    pub(crate) fn aligned_instruction(&mut self, name: &str) -> Option<String> {
        let (_, helper, text) = ALIGNED.iter().find(|row| row.0 == name)?;
        self.helium();
        self.instruction(name)?;
        Some(self.define((*helper).to_owned(), |_, _| (*text).to_owned()))
    }

    /// The helpers for two lanes of an instruction, if there are some.
    pub(crate) fn instruction_pair(&mut self, name: &str) -> Option<PairHelper> {
        let helper = PAIRS.iter().find(|row| row.0 == name)?;
        self.instruction(name)?;
        self.define(helper.1.add.to_owned(), |_, _| helper.2.to_owned());
        Some(helper.1)
    }

    /// The helper for four sums of products of bytes, `(sums, bytes, bytes)`.
    pub(crate) fn multiply_add_bytes(&mut self) -> String {
        self.define("tw_multiply_add_i8_4".to_owned(), |_, _| {
            include_str!("c/multiply_add_i8_4.c").to_owned()
        })
    }

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
            for instruction in Instruction::all().iter().filter(|row| row.cost(isa).is_some()) {
                assert!(ROWS.iter().any(|row| row.name == instruction.name()));
            }
        }
        assert!(ROWS.iter().all(|row| Instruction::named(row.name).is_some()));
    }
}
