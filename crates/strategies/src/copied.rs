//! Operands of a sum whose panels are copied as they are met.
//!
//! ```text
//! for i, j, k { acc[i, j] += a[i, k] * b[j, k] }
//! ```
//!
//! No operand is contiguous along the vectors, but `b` is along the terms. Where each of its
//! elements is met by many rows, the tiles of a panel share a transposed copy of it in a cache:
//!
//! ```text
//! for j_o {
//!   for k, j { panel[k, j] = b[j_o, j, k] }
//!   for i_o { for k, i, j { acc[i, j] += a[i, k] * panel[k, j] } }
//! }
//! ```
//!
//! So are the strips of an operand that lies along the vectors, where the pieces of a strip lie as
//! far apart as pages do. To the choice of a tile such an operand lies as its copy does.

use backend::Target;
use backend::tile::copies_panels;
use loops::{Access as Use, BufferId, Kernel, Scope};

use crate::problem::{Problem, tuple};
use crate::structure::{Access, LoopInfo, Motion};

/// An operand whose panels are copied.
#[derive(Clone, Debug)]
pub(super) struct Copied {
    pub(super) buffer: BufferId,
    /// The axes of the buffer in the order of the copy's; empty if that is the same.
    pub(super) order: Vec<usize>,
    /// The axis of the copy along which the buffer is contiguous, where it is not the last.
    pub(super) terms: Option<usize>,
}

impl Problem {
    /// Finds the operands whose panels are to be copied, which from here on lie as their copies do.
    pub(super) fn copy_panels(&mut self, kernel: &Kernel, target: &Target) {
        let [reduced] = &self.reduced[..] else { return };
        let Some(vector) = self.axes.iter().find(|axis| axis.place == self.contiguous) else {
            return;
        };
        let Some(along) = vector.update.clone() else { return };
        let free = self.update.loops.iter().any(LoopInfo::is_free);
        if free || tuple(self, kernel).is_some() {
            return;
        }
        let reduced = reduced.clone();
        let carriers = self.update.loads().filter(|access| access.motion(&along) != Motion::Still);
        if carriers.count() != 1 {
            return;
        }
        let of = |access: &Access| self.copied_operand(kernel, target, access, [&along, &reduced]);
        let Some(copied) = self.update.loads().find_map(of) else { return };
        if !copied.order.is_empty() {
            self.update.reorder_axes(kernel, copied.buffer, &copied.order);
        }
        self.copied.push(copied);
    }

    /// The operand of a load, if its panels along the first of two loops are to be copied; the
    /// second one goes over the terms.
    fn copied_operand(
        &self,
        kernel: &Kernel,
        target: &Target,
        access: &Access,
        [along, terms]: [&LoopInfo; 2],
    ) -> Option<Copied> {
        let buffer = &kernel.buffers[access.buffer];
        let alone = [&self.update, &self.last].into_iter().flat_map(|nest| nest.loads());
        let is_met_here = alone.filter(|other| other.buffer == access.buffer).count() == 1;
        let width = i64::from(buffer.dtype.bits()) / 8;
        let is_plain = access
            .index
            .iter()
            .all(|index| index.as_symbol().is_some() || index.as_constant().is_some());
        let elements = buffer.shape.iter().map(|extent| extent.as_constant());
        let bytes = elements.product::<Option<i64>>()? * width;
        let still = self.update.loops.iter().filter(|by| access.motion(by) == Motion::Still);
        let reads: i64 = still.map(|by| by.extent).product();
        if buffer.scope != Scope::Parameter(Use::Read)
            || !is_met_here
            || !is_plain
            || width != self.bytes
            || !copies_panels(reads, bytes)
        {
            return None;
        }
        let stride = |by: &LoopInfo| match access.motion(by) {
            Motion::Steady { stride, block: None } => Some(stride),
            _ => None,
        };
        match (stride(along)?, stride(terms)?) {
            (1, apart) if apart * width >= target.machine.near_bytes => {
                Some(Copied { buffer: access.buffer, order: Vec::new(), terms: None })
            }
            (2.., 1) => {
                let at = |by: &LoopInfo| {
                    let is_it = |index: &sym::Expr| index.as_symbol() == Some(by.variable);
                    access.index.iter().position(is_it)
                };
                let (last, summed) = (at(along)?, at(terms)?);
                let mut order: Vec<usize> = (0..buffer.shape.len()).collect();
                order.remove(last);
                order.push(last);
                let terms = order.iter().position(|axis| *axis == summed);
                Some(Copied { buffer: access.buffer, order, terms })
            }
            _ => None,
        }
    }

    /// Whether panels of an operand are copied into another order: without the copy no tile fits.
    pub(super) fn is_turned(&self) -> bool {
        self.copied.iter().any(|copied| copied.terms.is_some())
    }
}
