//! What a kernel takes at least: the larger of its arithmetic at peak and its bytes at bandwidth.

use backend::Target;
use loops::{Kernel, bytes_touched, operations};
use sym::Expr;

/// The least that a kernel takes on one core.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Roofline {
    /// Arithmetic operations; a fused multiply-add counts 2.
    pub operations: f64,
    /// Bytes of parameters that are touched.
    pub bytes: f64,
    /// The larger of operations over peak and bytes over bandwidth.
    pub nanoseconds: f64,
}

impl Roofline {
    /// That of a kernel, free dimensions having their usual values.
    pub fn of(kernel: &Kernel, target: &Target) -> Roofline {
        let number = |expr: &Expr| kernel.weight(expr) as f64;
        let operations = number(&operations(kernel));
        let bytes = bytes_touched(kernel).values().map(number).sum::<f64>();
        let arithmetic = operations / target.flops_per_ns();
        let nanoseconds = arithmetic.max(bytes / target.machine.stream_bytes_per_ns);
        Roofline { operations, bytes, nanoseconds }
    }
}
