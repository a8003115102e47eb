//! Fault codes: what a kernel returns when data was out of range, and what a run of C sources does.
//!
//! Back ends emit the numbers, whoever runs kernels turns them into diagnostics. 0 is success.

/// Why a kernel, or a program that is written as a function of C, did not finish its work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub enum Fault {
    /// A value that is used as an index left its range.
    IndexOutOfRange = 1,
    /// A size that is computed while running left the range it was compiled for. No kernel's.
    SizeOutOfRange = 2,
    /// Loops that data end turned more often than is allowed. No kernel's.
    TooManyTurns = 3,
    /// An input has another value than the code is for. No kernel's.
    OtherValue = 4,
    /// The memory that the caller gave does not hold what a plan computes. No kernel's.
    TooLittleMemory = 5,
}

impl Fault {
    /// The number that is returned.
    #[must_use]
    pub const fn code(self) -> i32 {
        self as i32
    }

    /// The fault of a number that a kernel returned; `None` for 0 and for numbers that none does.
    #[must_use]
    pub const fn of_code(code: i32) -> Option<Fault> {
        match code {
            1 => Some(Fault::IndexOutOfRange),
            _ => None,
        }
    }
}
