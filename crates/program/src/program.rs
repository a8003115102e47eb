//! The data of a program: slots, steps.
//!
//! Address only: a program knows sizes and offsets, not shapes or element types. Sizes and offsets
//! are in bytes and may depend on symbols.

use std::collections::BTreeSet;

use base::{Arena, ConstantId, KernelId, define_id};
use sym::{Expr, Symbol, SymbolId};

define_id!(pub SlotId, "s");

/// Host code that runs kernels over buffer slots.
#[derive(Clone, Debug, PartialEq)]
pub struct Program {
    /// Unique within its module.
    pub name: String,
    /// Symbols in the order of `Context::symbols`.
    pub symbols: Arena<SymbolId, Symbol>,
    /// The outputs whose memory holds a value when the run begins, which steps change there.
    pub updated: BTreeSet<u32>,
    /// Memory that steps refer to.
    pub slots: Arena<SlotId, Slot>,
    /// Bytes of the arena that the slots placed in it need. Aligned to 64 bytes.
    pub arena_bytes: Expr,
    /// Run from the first on.
    pub steps: Vec<Step>,
}

/// A piece of memory.
#[derive(Clone, Debug, PartialEq)]
pub struct Slot {
    /// Unique within the program.
    pub name: String,
    /// Its size.
    pub bytes: Expr,
    /// Where it is.
    pub place: Place,
}

/// Where a slot is.
#[derive(Clone, Debug, PartialEq)]
pub enum Place {
    /// The caller's input of this number.
    Input(u32),
    /// The caller's output of this number.
    Output(u32),
    /// A weight, used where it was mapped; read only.
    Weight(ConstantId),
    /// In the block of constants that `setup` fills and `main` reads, at this offset.
    Constants(Expr),
    /// In the arena, at this offset, a multiple of 64.
    Arena(Expr),
}

/// What to do next.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Runs a kernel for every index below its parallel extent.
    Run(Run),
    /// Later steps see the effects of earlier ones. Between two barriers, runs are independent.
    /// (The runtime may join workers at the end of each run; then a barrier costs nothing.)
    Barrier,
    /// Sets a symbol to the i64 at an address; outside the range it is a fault.
    Bind {
        /// The symbol.
        symbol: SymbolId,
        /// Where its value is.
        source: Address,
    },
    /// Copies bytes.
    Copy {
        /// From.
        source: Address,
        /// To; disjoint from the source.
        destination: Address,
        /// How many.
        bytes: Expr,
    },
    /// Copies elements, each from a place and to a place of its own.
    Move(Move),
    /// Runs one of two step lists by the byte (a bool) at an address.
    Branch {
        /// Where the bool is.
        condition: Address,
        /// Run if it is true.
        then: Vec<Step>,
        /// Run if it is false.
        otherwise: Vec<Step>,
    },
    /// Runs `setup`, then, while the bool at the address holds, `body` and `setup` again.
    While {
        /// Computes the condition.
        setup: Vec<Step>,
        /// Where the bool is.
        condition: Address,
        /// The loop's body.
        body: Vec<Step>,
    },
    /// Runs the body for each value of a symbol from 0 up to the count.
    Repeat {
        /// Counts; usable in the offsets of the body's addresses.
        symbol: SymbolId,
        /// How often.
        count: Expr,
        /// Run each time.
        body: Vec<Step>,
    },
}

/// One run of a kernel.
#[derive(Clone, Debug, PartialEq)]
pub struct Run {
    /// Which kernel.
    pub kernel: KernelId,
    /// One address a parameter of the kernel.
    pub arguments: Vec<Argument>,
    /// The kernel's parallel extent.
    pub extent: Expr,
    /// Scratch memory each worker needs, in bytes.
    pub scratch_bytes: Expr,
    /// The least number of iterations worth handing to a worker.
    pub grain: Expr,
}

/// A kernel's argument.
#[derive(Clone, Debug, PartialEq)]
pub struct Argument {
    /// Where.
    pub address: Address,
    /// Bytes which the kernel may touch from there on.
    pub bytes: Expr,
    /// Whether the kernel writes there.
    pub writes: bool,
    /// Whether the kernel reads there.
    pub reads: bool,
}

/// A place in a slot.
#[derive(Clone, Debug, PartialEq)]
pub struct Address {
    /// The slot.
    pub slot: SlotId,
    /// Bytes from its start.
    pub offset: Expr,
}

/// A copy of elements whose places move steadily along some axes: a transpose, a slice. It costs
/// nothing to compile, as a kernel would, and takes longer to run.
#[derive(Clone, Debug, PartialEq)]
pub struct Move {
    /// Of the first element.
    pub source: Address,
    /// Where the first element goes; what is written is disjoint from what is read.
    pub destination: Address,
    /// Bytes of an element.
    pub element: u32,
    /// Outermost first.
    pub axes: Vec<MoveAxis>,
}

/// One axis of a [`Move`]. No stride is negative.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MoveAxis {
    /// Elements along it, at least one.
    pub extent: u32,
    /// Elements from one to the next in the source.
    pub from: u32,
    /// Elements from one to the next in the destination.
    pub to: u32,
}

impl Move {
    /// Bytes from the first element that is read to behind the last.
    pub fn source_bytes(&self) -> Expr {
        self.span(|axis| axis.from)
    }

    /// Bytes from the first element that is written to behind the last.
    pub fn destination_bytes(&self) -> Expr {
        self.span(|axis| axis.to)
    }

    fn span(&self, stride: fn(&MoveAxis) -> u32) -> Expr {
        let of =
            |axis: &MoveAxis| i64::from(axis.extent - 1).saturating_mul(i64::from(stride(axis)));
        let last = self.axes.iter().fold(0_i64, |last, axis| last.saturating_add(of(axis)));
        last.saturating_add(1).saturating_mul(i64::from(self.element)).into()
    }
}
