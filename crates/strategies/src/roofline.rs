//! What a kernel takes at least: the larger of its arithmetic at peak and its bytes at bandwidth.
//! The peak is that of multiply-adds, or of an instruction that takes what the kernel sums.

use backend::Target;
use loops::visit::walk;
use loops::{Kernel, ScalarExpr, Stmt, bytes_touched, operations};
use sym::Expr;

/// The least that a kernel takes on one core.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Roofline {
    /// Arithmetic operations; a fused multiply-add counts 2.
    pub operations: f64,
    /// Bytes of parameters that are touched.
    pub bytes: f64,
    /// Nanoseconds of the operations at peak.
    pub arithmetic: f64,
    /// The larger of operations over peak and bytes over the bandwidth of memory.
    pub nanoseconds: f64,
}

impl Roofline {
    /// That of a kernel, free dimensions having their usual values.
    pub fn of(kernel: &Kernel, target: &Target) -> Roofline {
        let number = |expr: &Expr| kernel.weight(expr) as f64;
        let operations = number(&operations(kernel));
        let bytes = bytes_touched(kernel).values().map(number).sum::<f64>();
        let arithmetic = operations / (target.flops_per_ns() * at_once(kernel, target));
        let nanoseconds = arithmetic.max(bytes / target.machine.stream_bytes_per_ns);
        Roofline { operations, bytes, arithmetic, nanoseconds }
    }

    /// The least of cycles that a kernel takes whose data are in the caches, as far as these keep
    /// them.
    #[must_use]
    pub fn cycles(&self, target: &Target) -> f64 {
        let machine = &target.machine;
        (self.arithmetic * machine.cycles_per_ns).max(machine.cycles_to_move(self.bytes))
    }
}

/// How many times as many terms as a multiply-add of f32 the best of the target's instructions adds
/// in a cycle, of those that take what the kernel's sums read.
#[must_use]
pub fn at_once(kernel: &Kernel, target: &Target) -> f64 {
    let mut best = 1.0f64;
    walk(&kernel.body, &mut |stmt| {
        let Stmt::Reduce { value, .. } = stmt else { return };
        let mut dtypes = Vec::new();
        value.walk(&mut |part| {
            if let ScalarExpr::Load { buffer, .. } = part {
                dtypes.push(kernel.buffers[*buffer].dtype);
            }
        });
        let fits = target.instructions().filter(|(row, _)| row.takes(&dtypes, row.count()));
        for (row, cost) in fits {
            let cycles = target.machine.multiply_add().cycles;
            best = best.max(row.count() as f64 * cycles / cost.cycles);
        }
    });
    best
}
