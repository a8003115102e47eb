//! Fault codes: what a kernel returns when data was out of range.
//!
//! Back ends emit the numbers, whoever runs kernels turns them into diagnostics. 0 is success.

/// Why a kernel did not finish its work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub enum Fault {
    /// A value that is used as an index left its range.
    IndexOutOfRange = 1,
}

impl Fault {
    /// The number that a kernel returns.
    #[must_use]
    pub const fn code(self) -> i32 {
        self as i32
    }

    /// The fault of a number; `None` for 0 and for numbers that no back end emits.
    #[must_use]
    pub const fn of_code(code: i32) -> Option<Fault> {
        match code {
            1 => Some(Fault::IndexOutOfRange),
            _ => None,
        }
    }
}
