//! Programs of one kernel.

use base::{Arena, KernelId};
use sym::Expr;

use crate::program::{Address, Argument, Place, Program, Run, Slot, Step};

/// An argument of a kernel that is run alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AloneArgument {
    /// How much memory it has.
    pub bytes: usize,
    /// Whether the kernel reads it.
    pub reads: bool,
    /// Whether the kernel writes it.
    pub writes: bool,
}

impl Program {
    /// A program that runs a kernel once over an extent, with so many bytes of scratch memory for
    /// each worker: argument `k` is input `k`; what it writes is an output, which begins as a copy
    /// of the input.
    #[must_use]
    pub fn of_kernel(
        kernel: KernelId,
        given: &[AloneArgument],
        (extent, scratch_bytes): (i64, usize),
    ) -> Program {
        let mut slots = Arena::default();
        let (mut steps, mut arguments, mut outputs) = (Vec::new(), Vec::new(), 0);
        for (number, &AloneArgument { bytes, reads, writes }) in given.iter().enumerate() {
            let bytes = Expr::from(bytes);
            let mut slot = |name: &str, place| {
                let name = format!("{name}{number}");
                let slot = slots.push(Slot { name, bytes: bytes.clone(), place });
                Address { slot, offset: Expr::ZERO }
            };
            let mut address = slot("input", Place::Input(number as u32));
            if writes {
                let output = slot("output", Place::Output(outputs));
                outputs += 1;
                let source = std::mem::replace(&mut address, output.clone());
                steps.push(Step::Copy { source, destination: output, bytes: bytes.clone() });
            }
            arguments.push(Argument { address, bytes, writes, reads });
        }
        let extent = Expr::constant(extent);
        steps.push(Step::Run(Run {
            kernel,
            arguments,
            grain: extent.clone(),
            extent,
            scratch_bytes: Expr::from(scratch_bytes),
        }));
        let (name, symbols) = ("kernel".to_owned(), Arena::default());
        Program { name, symbols, slots, arena_bytes: Expr::ZERO, steps }
    }
}
