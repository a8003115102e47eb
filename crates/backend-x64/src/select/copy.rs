//! Runs of narrow elements that are copied: whole registers of them, as they are in memory.
//!
//! ```text
//! for j < 20 vector { out[i, j] = in[i, j] }
//! ```
//!
//! of bytes is a register of 16 and one of 4. Elements of 8 and 16 bits are computed with in lanes
//! of 32; where nothing is computed, four or two of them take the room of one. What is left at the
//! end goes by shorter registers, not under a mask, so that no load waits for what a mask left out.

use loops::{BufferId, Loop, ScalarExpr, Scope, Stmt};
use sym::Expr;

use super::index::{Binding, Linear};
use super::value::{all_lanes, carrier};
use super::{Selector, VectorLoop};
use crate::vcode::{Inst, Lane, MemoryOperand, Opcode, RegisterType};

/// Bytes of a run, at most: it is written out.
const LONGEST: i64 = 512;

/// Registers that are loaded before the first of them is stored.
const AT_ONCE: usize = 4;

/// One end of a copy.
type End = (BufferId, Linear);

impl Selector<'_> {
    /// Writes a vector loop of so many turns that copies a run, if it is one; whether it did.
    pub(super) fn copied_run(&mut self, inner: &Loop, extent: i64) -> base::Result<bool> {
        let Some((Stmt::Store { buffer, index, value }, lets)) = inner.body.split_last() else {
            return Ok(false);
        };
        let ScalarExpr::Load { buffer: from, index: at } = value else { return Ok(false) };
        let (source, target) = (&self.kernel.buffers[*from], &self.kernel.buffers[*buffer]);
        let bytes = self.element_bytes(*buffer) as i64;
        let alike = source.dtype == target.dtype && source.dtype.bits() == 8 * bytes as u32;
        let in_memory = [source, target].iter().all(|end| end.scope != Scope::Register);
        let short = (2..=LONGEST / bytes.max(1)).contains(&extent);
        if !alike || bytes > 2 || !in_memory || !short || self.exec.is_some() {
            return Ok(false);
        }
        if source.ahead > 0 || carrier(source.dtype).is_none() {
            return Ok(false);
        }
        self.bindings[inner.variable] = Binding::Constant(0);
        let lanes = self.plan.lanes[inner.variable];
        let tail = all_lanes(lanes);
        self.vector = Some(VectorLoop { symbol: inner.variable, lanes, offset: 0, tail });
        let is_run = self.copied_between((*from, at), (*buffer, index), lets, extent * bytes);
        self.vector = None;
        self.bindings[inner.variable] = Binding::None;
        is_run
    }

    /// Copies so many bytes from one place to the other, if both are runs along the vector variable
    /// and what is bound before is the same for all lanes; whether it did.
    fn copied_between(
        &mut self,
        (from, at): (BufferId, &[Expr]),
        (to, index): (BufferId, &[Expr]),
        lets: &[Stmt],
        bytes: i64,
    ) -> base::Result<bool> {
        for stmt in lets {
            match stmt {
                Stmt::Let { value, .. } if !self.differs_by_lane(value) => {
                    self.block(std::slice::from_ref(stmt))?;
                }
                _ => return Ok(false),
            }
        }
        let step = self.element_bytes(to) as i64;
        let ends = [(from, self.linear(from, at)), (to, self.linear(to, index))];
        let is_run = ends.iter().all(|end| !end.1.irregular && end.1.lane_step == step);
        if is_run {
            self.copy_bytes(&ends, bytes);
        }
        Ok(is_run)
    }

    /// Copies so many bytes from the first end to the second.
    fn copy_bytes(&mut self, ends: &[End; 2], bytes: i64) {
        let [from, to] = [&ends[0], &ends[1]].map(|(buffer, linear)| {
            let linear = Linear { lane_step: 0, ..linear.clone() };
            self.address(*buffer, &linear)
        });
        let widest: i64 = if self.builder.has_masks() { 64 } else { 32 };
        let (mut pieces, mut done) = (Vec::new(), 0);
        while done < bytes {
            let left = bytes - done;
            let size = if left >= widest { widest } else { 1 << left.ilog2() };
            pieces.push((done, size));
            done += size;
        }
        for pieces in pieces.chunks(AT_ONCE) {
            let mut loaded = Vec::new();
            for &(begin, size) in pieces {
                let (load, lane, ty) = match size {
                    1 => (Opcode::IntLoad, Lane::U8, RegisterType::Int),
                    2 => (Opcode::IntLoad, Lane::U16, RegisterType::Int),
                    4 => (Opcode::LoadLane, Lane::I32, RegisterType::V128),
                    8 => (Opcode::LoadLane, Lane::I64, RegisterType::V128),
                    _ => (Opcode::Load, Lane::I32, RegisterType::vector(size as usize)),
                };
                let inst = Inst::new(load, lane, &[]).address(moved(from, begin));
                loaded.push(self.builder.emit(inst, ty));
            }
            for (&(begin, size), value) in pieces.iter().zip(loaded) {
                let (store, lane) = match size {
                    1 => (Opcode::IntStore, Lane::I8),
                    2 => (Opcode::IntStore, Lane::I16),
                    4 => (Opcode::StoreLane, Lane::I32),
                    8 => (Opcode::StoreLane, Lane::I64),
                    _ => (Opcode::Store, Lane::I32),
                };
                self.builder.effect(Inst::new(store, lane, &[value]).address(moved(to, begin)));
            }
        }
        self.forget(ends[1].0);
    }
}

/// The address so many bytes behind another.
fn moved(address: MemoryOperand, bytes: i64) -> MemoryOperand {
    MemoryOperand { displacement: address.displacement + bytes as i32, ..address }
}
