//! Whether a kernel that reads and writes in one place would wait for its own stores.
//!
//! Where rows lie one behind the other and are no whole number of vectors long, the last vector of
//! a row is stored under a mask and the first of the next row, which begins within it, is loaded
//! right behind. A processor takes the whole vector for what is stored, and the load waits until
//! the store has reached the cache, some forty cycles a row. Two places cost less.

use loops::{BufferId, Kernel, LoopKind, Stmt, constant_strides};
use sym::{Expr, SymbolId};

/// Elements of 32 bits, and of fewer, in the longest vector of any target; of longer ones half as
/// many.
const LANES: i64 = 16;

/// The fewest elements that are handled as a vector.
const LEAST: i64 = 4;

/// Whether stores to a parameter, if another that the kernel reads lay in the same place, would
/// have the loads of the next row wait for them.
pub(crate) fn waits_for_stores(kernel: &Kernel, written: BufferId) -> bool {
    let mut search = Search { kernel, written, around: Vec::new(), waits: false };
    search.block(&kernel.body);
    search.waits
}

struct Search<'k> {
    kernel: &'k Kernel,
    written: BufferId,
    /// Variables of the loops around, of a vector with its extent.
    around: Vec<(SymbolId, Option<i64>)>,
    waits: bool,
}

impl Search<'_> {
    fn block(&mut self, block: &[Stmt]) {
        for stmt in block {
            match stmt {
                Stmt::For(found) => {
                    let extent = found.extent.as_constant();
                    let vector = extent.filter(|_| found.kind == LoopKind::Vector);
                    self.around.push((found.variable, vector));
                    self.block(&found.body);
                    self.around.pop();
                }
                Stmt::Store { buffer, index, .. } if *buffer == self.written => {
                    self.waits |= self.is_met(index);
                }
                _ => stmt.blocks().for_each(|inner| self.block(inner)),
            }
        }
    }

    /// Whether the next row begins within the last vector of the one that is stored.
    fn is_met(&self, index: &[Expr]) -> bool {
        let buffer = &self.kernel.buffers[self.written];
        let Some(strides) = constant_strides(self.kernel, self.written) else { return false };
        let place: Expr = index.iter().zip(&strides).map(|(index, step)| index * *step).sum();
        let Some(&(variable, Some(extent))) = self.around.last() else { return false };
        let most = if buffer.dtype.bits() > 32 { LANES / 2 } else { LANES };
        let lanes = (extent.max(1) as u64).next_power_of_two() as i64;
        let lanes = lanes.clamp(LEAST, most);
        let stored = (extent + lanes - 1) / lanes * lanes;
        let is_masked = place.linear_coefficient(variable) == Some(1) && stored > extent;
        is_masked
            && self.around.iter().any(|(row, _)| {
                *row != variable
                    && place.linear_coefficient(*row).is_some_and(|step| 0 < step && step < stored)
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether a map of rows of some length, so many elements apart, would wait.
    fn waits(dtype: &str, length: i64, apart: i64) -> bool {
        let kernel = loops::parse(&format!(
            "kernel @rows(%x: read {dtype}[40, {length}] strides [{apart}, 1],
               %y: write {dtype}[40, {length}] strides [{apart}, 1]) {{
               for r < 40 parallel {{
                 for c < {length} vector {{ %y[r, c] = abs(%x[r, c]) }}
               }}
             }}"
        ));
        let kernel = kernel.expect("parses");
        waits_for_stores(&kernel, kernel.parameters[1])
    }

    #[test]
    fn rows_that_end_within_a_vector_are_met_by_the_next() {
        assert!(waits("f32", 9, 9) && waits("f32", 35, 35) && waits("f16", 3, 3));
        assert!(waits("f64", 13, 13));
    }

    #[test]
    fn whole_vectors_and_rows_apart_are_not() {
        assert!(!waits("f32", 16, 16) && !waits("f32", 8, 8) && !waits("f64", 24, 24));
        assert!(!waits("f32", 9, 16) && !waits("f32", 35, 48));
    }
}
