//! The meaning of kernels.
//!
//! A kernel is first resolved (`resolve`): names become positions, each value knows its type; then
//! its statements are run one after the other (`run`) over memory that checks every access
//! (`memory`). What a well-formed and honest kernel never does is a [`EvaluationFault`]:
//!
//! - an index outside of a buffer, or a `Let` outside of its range;
//! - a load of an element that nothing stored to, in scratch or register memory (which starts anew
//!   in each iteration of a parallel loop) or in a `Write` parameter;
//! - iterations of a `Parallel` loop that are not independent, or a `Vector` loop in which running
//!   each statement for all iterations at once would differ from running them in turn. This is
//!   checked on the elements really accessed, exactly, not by comparing results.

mod memory;
mod resolve;
mod run;

use loops::Kernel;
use tensor::Tensor;

use crate::{EvaluationFault, EvaluationPrecision};

/// How a kernel is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KernelOptions {
    /// The types in which floats are computed.
    pub precision: EvaluationPrecision,
    /// The order of a parallel loop's iterations.
    pub order: Order,
    /// Whether `Parallel` and `Vector` loops are checked to be such. It costs time and, for each
    /// element written in such loops, some tens of bytes.
    pub check_loops: bool,
}

impl Default for KernelOptions {
    fn default() -> KernelOptions {
        KernelOptions {
            precision: EvaluationPrecision::Declared,
            order: Order::Forward,
            check_loops: true,
        }
    }
}

impl From<EvaluationPrecision> for KernelOptions {
    fn from(precision: EvaluationPrecision) -> KernelOptions {
        KernelOptions { precision, ..KernelOptions::default() }
    }
}

/// The order in which the iterations of a parallel loop are run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// From the first to the last.
    Forward,
    /// From the last to the first.
    Reverse,
    /// In an order fixed by this seed.
    Shuffled(u64),
}

/// Runs a kernel once: all iterations of its parallel loop, if it has one.
///
/// `buffers` are the parameters in the order of the kernel ABI, each of the parameter's type (f64
/// for floats in [`EvaluationPrecision::F64`]) and with as many elements as its shape says, or,
/// where it has strides, at least as many as these reach; of the tensor's own shape only the number
/// of elements counts. `symbols` are the values of shape symbols by position.
///
/// # Errors
/// The first fault, `INDEX_OUT_OF_RANGE` where the data is at fault (a `Let` outside of its range),
/// `VERIFIER_FAILED` where the kernel breaks a rule of `loops::verify` or cannot be run in f64,
/// `INTERNAL_ERROR` where it is not honest, others where the arguments do not fit. After a fault
/// the contents of the buffers are not to be used.
pub fn evaluate_kernel(
    kernel: &Kernel,
    buffers: &mut [Tensor],
    symbols: &[i64],
    options: impl Into<KernelOptions>,
) -> Result<(), EvaluationFault> {
    run::run(kernel, buffers, symbols, options.into()).map_err(|fault| *fault)
}
