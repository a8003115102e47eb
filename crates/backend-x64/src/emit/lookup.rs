//! Finding rows of the table: by code, and by what they do.

use iced_x86::Code::{self, INVALID};

use super::forms::{Form, Prefix};
use super::table::FORMS;
use crate::vcode::op::OPS;
use crate::vcode::{Lane, Opcode};

/// The forms that carry out an operation, of the shortest vectors.
#[derive(Clone, Copy)]
pub(super) struct Forms {
    /// In VEX encoding; in that of old where operands are integers.
    pub(super) vex: Code,
    /// In EVEX encoding.
    pub(super) evex: Code,
}

/// The row of a code, and the length that the code has.
pub(super) fn find(code: Code) -> Option<(&'static Form, u8)> {
    let row = *ROW_OF.get(code as usize)?;
    let form = FORMS.get(usize::from(row))?;
    Some((form, form.length + (code as usize - form.code as usize) as u8))
}

/// How many codes the rows reach.
const CODES: usize = {
    let (mut most, mut row) = (0, 0);
    while row < FORMS.len() {
        let end = FORMS[row].code as usize + FORMS[row].lengths as usize;
        most = if end > most { end } else { most };
        row += 1;
    }
    most
};

/// The row of each code; no row's number where there is none.
static ROW_OF: [u16; CODES] = {
    let mut rows = [u16::MAX; CODES];
    let mut row = 0;
    while row < FORMS.len() {
        let mut length = 0;
        while length < FORMS[row].lengths as usize {
            rows[FORMS[row].code as usize + length] = row as u16;
            length += 1;
        }
        row += 1;
    }
    rows
};

/// How many types of lanes there are.
const LANES: usize = Lane::NAMES.len();

/// The forms of each operation on lanes of each type.
static FORMS_OF: [[Forms; LANES]; OPS.len()] = {
    let mut found = [[Forms { vex: INVALID, evex: INVALID }; LANES]; OPS.len()];
    let mut row = 0;
    while row < FORMS.len() {
        let form = &FORMS[row];
        let mut at = 0;
        while at < form.operations.len() {
            if let Some((op, lane)) = form.operations[at] {
                let (mut first, mut end) = (0, LANES);
                if let Some(lane) = lane {
                    (first, end) = (lane as usize, lane as usize + 1);
                }
                while first < end {
                    let forms = &mut found[op as usize][first];
                    let place = match form.prefix {
                        Prefix::Evex { .. } => &mut forms.evex,
                        Prefix::Legacy | Prefix::Vex => &mut forms.vex,
                    };
                    assert!(matches!(*place, INVALID), "two forms for one operation");
                    *place = form.code;
                    first += 1;
                }
            }
            at += 1;
        }
        row += 1;
    }
    found
};

/// The forms of an operation for the shortest vectors; `INVALID` where there is none.
pub(super) fn forms(op: Opcode, lane: Lane) -> Forms {
    FORMS_OF[op as usize][lane as usize]
}

/// The form of a code's row for a vector width: the 128-, 256- or 512-bit one.
pub(super) fn widened(code: Code, bytes: usize) -> Code {
    if code == INVALID {
        return INVALID;
    }
    let step = bytes.trailing_zeros().saturating_sub(4) as usize;
    Code::try_from(code as usize + step).unwrap_or(INVALID)
}

/// All codes that have a row.
#[cfg(test)]
pub(super) fn codes() -> impl Iterator<Item = Code> {
    (0..CODES).filter(|&code| ROW_OF[code] != u16::MAX).filter_map(|code| Code::try_from(code).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `EVEX_Vaddps_xmm_k1z_..` as its encoding, its mnemonic and its widest register.
    fn parts(code: Code) -> (String, String, usize) {
        let name = format!("{code:?}");
        let mut words = name.split('_');
        let encoding = words.next().unwrap_or_default().to_string();
        let mnemonic = words.next().unwrap_or_default().to_string();
        let widths = [("zmm", 64), ("vm32z", 64), ("ymm", 32), ("xmm", 16), ("vm32x", 16)];
        let width = widths.iter().find(|(text, _)| name.contains(text));
        (encoding, mnemonic, width.map_or(0, |(_, bytes)| *bytes))
    }

    #[test]
    fn longer_forms_follow_in_the_code_table() {
        for form in FORMS.iter().filter(|form| form.lengths > 1) {
            let (encoding, mnemonic, shortest) = parts(form.code);
            for length in 0..form.lengths {
                let code =
                    Code::try_from(form.code as usize + usize::from(length)).expect("a code");
                assert_eq!(parts(code), (encoding.clone(), mnemonic.clone(), shortest << length));
            }
        }
    }

    /// A row that does nothing by itself is named where instructions are put together.
    #[test]
    fn every_row_is_used() {
        let emitters = [
            include_str!("../emit.rs"),
            include_str!("instruction.rs"),
            include_str!("procedure.rs"),
        ];
        for form in FORMS.iter().filter(|form| form.operations[0].is_none()) {
            let codes = form.code as usize..form.code as usize + usize::from(form.lengths);
            let mut names =
                codes.map(|code| format!("Code::{:?}", Code::try_from(code).expect("")));
            let is_named = |name: String| {
                emitters.iter().any(|text| {
                    text.match_indices(&name).any(|(at, _)| {
                        !text[at + name.len()..]
                            .starts_with(|c: char| c.is_alphanumeric() || c == '_')
                    })
                })
            };
            assert!(names.any(is_named), "{:?} is used nowhere", form.code);
        }
    }
}
