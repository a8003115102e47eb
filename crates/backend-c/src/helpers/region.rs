//! Values of plans, and the memory that they lie in.

use program::Fault;

use super::Helpers;

impl Helpers {
    /// Values with at most so many axes, and the memory in which they are made.
    pub(crate) fn region(&mut self, axes: usize) {
        self.define("tw_region".to_owned(), |_, _| {
            include_str!("../c/region.c").replace("@AXES@", &axes.to_string())
        });
    }

    /// Keeps values of a turn: `(region, mark, values, count)`; where free memory begins.
    pub(crate) fn keep(&mut self) -> String {
        self.define("tw_keep".to_owned(), |_, _| include_str!("../c/keep.c").to_owned())
    }

    /// A copy of a row: `(region, row, operand, place, rank of the operand)`; whether there was
    /// memory.
    pub(crate) fn row(&mut self) -> String {
        let copy = self.copy();
        self.define("tw_row".to_owned(), |_, _| include_str!("../c/row.c").replace("@COPY@", &copy))
    }

    /// Keeps a row above: `(region, first row, row, rank)`; a fault.
    pub(crate) fn push(&mut self) -> String {
        let copy = self.copy();
        self.define("tw_push".to_owned(), |_, _| {
            include_str!("../c/push.c")
                .replace("@COPY@", &copy)
                .replace("@SHAPE@", &Fault::SizeOutOfRange.code().to_string())
                .replace("@MEMORY@", &Fault::TooLittleMemory.code().to_string())
        })
    }

    /// Puts rows together: `(to, top, first rows, number of stacks, stack, rows, in reverse)`.
    pub(crate) fn stack(&mut self) -> String {
        let copy = self.copy();
        self.define("tw_stack".to_owned(), |_, _| {
            include_str!("../c/stack.c").replace("@COPY@", &copy)
        })
    }
}
