//! Squares of narrow elements that are copied transposed, as they are in memory.
//!
//! ```text
//! for i < 16 unroll { for j < 16 vector { out[i, j] = in[j, i] } }
//! ```
//!
//! of bytes is a square: 16 rows of 128 bits, each loaded as it lies. Put side by side by turns,
//! the first half of the rows with the second, as many times as their number has bits, they are its
//! columns. Longer registers hold a square in each 128 bits.

use loops::{BufferId, Loop, LoopKind, ScalarExpr, Scope, Stmt};

use super::Selector;
use super::index::{Binding, Linear};
use super::value::carrier;
use crate::vcode::{Inst, Lane, MemoryOperand, Opcode, RegisterType, VRegId};

/// Bytes of a row of a square.
const ROW: i64 = 16;

/// Elements that are copied, each loop's variable the other's place.
struct Squares {
    from: Side,
    to: Side,
    /// Bytes of an element.
    bytes: i64,
    /// Turns of the loop that is written out.
    turns: i64,
    /// Squares side by side in a register, and one below the other, which give longer rows.
    parts: i64,
    below: i64,
}

/// One of the two buffers.
struct Side {
    buffer: BufferId,
    start: Linear,
    /// Bytes between two rows.
    apart: i64,
}

impl Selector<'_> {
    /// Writes a loop, to be written out so many times, that copies squares of narrow elements
    /// transposed, if it is one; whether it did.
    pub(super) fn transposed_squares(&mut self, inner: &Loop, extent: i64) -> bool {
        let Some(squares) = self.squares_of(inner, extent) else { return false };
        if let [Stmt::For(vector)] = &inner.body[..] {
            for turn in 0..extent {
                self.bindings[inner.variable] = Binding::Constant(turn);
                self.ask_for_each(vector, vector.extent.as_constant().unwrap_or(0), &vector.body);
            }
        }
        let Squares { from, to, bytes, turns, parts, below } = &squares;
        let side = ROW / bytes;
        for column in (0..*turns).step_by((parts * side) as usize) {
            // All that is read here is read before any of it is stored: the two may share memory.
            let blocks: Vec<Vec<VRegId>> = (0..*below)
                .map(|at| self.square(from, (at * side, column * bytes), *bytes, *parts))
                .collect();
            for at in 0..side {
                let columns: Vec<VRegId> = blocks.iter().map(|own| own[at as usize]).collect();
                let rows = self.rows_of_columns(&columns, *parts);
                for (part, value) in rows.into_iter().enumerate() {
                    let turn = column + part as i64 * side + at;
                    let place = self.at_bytes(to, turn * to.apart);
                    let store = Inst::new(Opcode::Store, Lane::I32, &[value]).address(place);
                    self.builder.effect(store);
                }
            }
        }
        self.forget(to.buffer);
        true
    }

    fn squares_of(&mut self, inner: &Loop, extent: i64) -> Option<Squares> {
        let [Stmt::For(vector)] = &inner.body[..] else { return None };
        let (Stmt::Store { buffer, index, value }, before) = vector.body.split_last()? else {
            return None;
        };
        let ScalarExpr::Load { buffer: source, index: source_index } = value else { return None };
        let elements = vector.extent.as_constant()?;
        let data = [*source, *buffer].map(|id| &self.kernel.buffers[id]);
        let bytes = self.element_bytes(*buffer) as i64;
        let alike = data[0].dtype == data[1].dtype
            && data.iter().all(|data| data.scope != Scope::Register)
            && before.iter().all(|stmt| matches!(stmt, Stmt::Prefetch { .. }));
        let side = ROW / bytes;
        let parts = if extent % (2 * side) == 0 { 2 } else { 1 };
        let below = elements / side;
        let whole = [1, 2].contains(&bytes)
            && carrier(data[1].dtype).is_some()
            && extent % side == 0
            && elements % side == 0
            && (1..=parts).contains(&below);
        if vector.kind != LoopKind::Vector || self.exec.is_some() || !alike || !whole {
            return None;
        }
        let apart = self.stride_along(*buffer, index, inner)?;
        let next = self.stride_along(*source, source_index, inner)?;
        self.bindings[inner.variable] = Binding::Constant(0);
        let [start, end] = self.within(vector, 0, |selector| {
            [(*source, source_index), (*buffer, index)].map(|(id, at)| selector.linear(id, at))
        });
        let moves = !start.irregular && !end.irregular;
        (moves && next == bytes && end.lane_step == bytes).then(|| Squares {
            from: Side { buffer: *source, apart: start.lane_step, start },
            to: Side { buffer: *buffer, apart, start: end },
            bytes,
            turns: extent,
            parts,
            below,
        })
    }

    /// Bytes between the elements that neighbouring turns of a loop read or write.
    fn stride_along(&self, buffer: BufferId, index: &[sym::Expr], inner: &Loop) -> Option<i64> {
        let strides = self.plan.strides[buffer].as_constants()?;
        let elements = index.iter().zip(strides).try_fold(0, |sum, (expr, stride)| {
            Some(sum + expr.linear_coefficient(inner.variable)? * stride)
        })?;
        Some(elements * self.element_bytes(buffer) as i64)
    }

    fn at_bytes(&mut self, side: &Side, bytes: i64) -> MemoryOperand {
        let constant = side.start.constant + bytes;
        self.address(side.buffer, &Linear { constant, lane_step: 0, ..side.start.clone() })
    }

    /// The columns of as many squares side by side as a register has parts.
    fn square(
        &mut self,
        from: &Side,
        (row, offset): (i64, i64),
        bytes: i64,
        parts: i64,
    ) -> Vec<VRegId> {
        let (side, lane) = (ROW / bytes, if bytes == 1 { Lane::U8 } else { Lane::U16 });
        let ty = RegisterType::vector((parts * ROW) as usize);
        let mut rows: Vec<VRegId> = (row..row + side)
            .map(|row| {
                let place = self.at_bytes(from, row * from.apart + offset);
                self.builder.emit(Inst::new(Opcode::Load, Lane::I32, &[]).address(place), ty)
            })
            .collect();
        for _ in 0..side.ilog2() {
            let (first, second) = rows.split_at(rows.len() / 2);
            let pairs: Vec<_> = first.iter().copied().zip(second.iter().copied()).collect();
            rows = pairs
                .into_iter()
                .flat_map(|(a, b)| <[VRegId; 2]>::from(self.unpacked(lane, a, b)))
                .collect();
        }
        rows
    }

    /// What is stored of a column of one square, or of two, one below the other: a register for
    /// each part.
    fn rows_of_columns(&mut self, columns: &[VRegId], parts: i64) -> Vec<VRegId> {
        match (columns, parts) {
            (&[above, below], _) => {
                [0b00, 0b11].map(|which| self.parts(above, below, which)).to_vec()
            }
            (&[both], 2) => [Opcode::Low, Opcode::High]
                .map(|half| {
                    self.builder.emit(Inst::new(half, Lane::I32, &[both]), RegisterType::V128)
                })
                .to_vec(),
            _ => columns.to_vec(),
        }
    }
}
