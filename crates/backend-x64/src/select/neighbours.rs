//! Loads of elements that lie within one vector, in another order: a contiguous load and a
//! permutation instead of a gather, which takes as long as a load for each lane.
//!
//! ```text
//! for j < 16 vector { .. = in[4 * (j div 4)] }
//! ```
//!
//! loads `in[0..13]`, of that what is asked for, and puts each into its lanes.

use loops::BufferId;
use sym::Expr;

use super::Selector;
use super::index::Binding;
use super::value::{Evaluated, Item, Mask, Vector, all_lanes, register_type};
use crate::vcode::{Inst, Lane, MemoryOperand, Opcode};

impl Selector<'_> {
    /// The address of the first lane, of an irregular place.
    pub(super) fn first_address(&mut self, buffer: BufferId, index: &[Expr]) -> MemoryOperand {
        let begins = self.vector.as_ref().map(|vector| &self.bindings[vector.symbol]);
        if let Some(Binding::Constant(_)) = begins {
            let first: Option<Vec<Expr>> = index.iter().map(|expr| self.in_lane(expr, 0)).collect();
            let linear = first.map(|first| self.linear(buffer, &first));
            if let Some(linear) = linear.filter(|linear| !linear.irregular) {
                return self.address(buffer, &linear);
            }
        }
        MemoryOperand::new(self.lane_address(buffer, index), 0)
    }

    /// Elements of 32 bits, or widened to that, at these distances in bytes from the first lane's,
    /// in the lanes of a whole register, of which it is known whether they are on: the element of a
    /// lane that is on may lie at the place of one that is not.
    pub(super) fn load_neighbours(
        &mut self,
        buffer: BufferId,
        address: MemoryOperand,
        offsets: &[i64],
        mask: Mask,
    ) -> Option<Evaluated> {
        let lanes = offsets.len();
        let dtype = self.kernel.buffers[buffer].dtype;
        let ty = register_type(Lane::I32, lanes);
        let fits = dtype.bits() == 32 || dtype.bits() < 32 && self.builder.has_masks();
        if !fits || lanes < 8 || ty.vector_bytes() != 4 * lanes {
            return None;
        }
        let bytes = self.element_bytes(buffer) as i64;
        let Mask::Constant(on) = mask else { return None };
        let on = on & all_lanes(lanes);
        let (mut wanted, mut places) = (0, vec![0; lanes]);
        for at in (0..lanes).filter(|at| on & 1 << at != 0) {
            let place = usize::try_from(offsets[at] / bytes).ok().filter(|place| *place < lanes)?;
            wanted |= 1 << place;
            places[at] = place as u64;
        }
        let widened = self.load_widened(buffer, address, Mask::Constant(wanted), lanes);
        let loaded = self.register(widened);
        let order = self.lane_constants(&places, Lane::I32);
        let order = self.register(order);
        let inst = Inst::new(Opcode::Permute, Lane::I32, &[order, loaded]);
        let value = self.builder.emit(inst, ty);
        Some(self.element_of_widened(Vector { item: Item::Register(value), ..widened }, dtype))
    }
}
