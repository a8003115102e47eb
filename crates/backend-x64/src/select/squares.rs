//! Squares of narrow elements that are copied transposed, as they are in memory.
//!
//! ```text
//! for i < 16 unroll { for j < 16 vector { out[i, j] = in[j, i] } }
//! ```
//!
//! of bytes is a square: 16 rows of 128 bits, each loaded as it lies. Put side by side by turns,
//! the first half of the rows with the second, as many times as their number has bits, they are its
//! columns. Longer registers hold a square in each 128 bits. What a square is of may be runs of
//! elements, too, that lie side by side in both buffers and fill 32 bits:
//!
//! ```text
//! for i < 4 unroll { for j < 4 unroll { for k < 4 vector { out[i, j, k] = in[j, i, k] } } }
//! ```

use loops::{BufferId, Loop, LoopKind, ScalarExpr, Scope, Stmt};

use super::Selector;
use super::index::{Binding, Linear};
use super::value::carrier;
use crate::vcode::{Inst, Lane, MemoryOperand, Opcode, RegisterType, VRegId};

/// Bytes of a row of a square.
const ROW: i64 = 16;

/// Bytes of a run of elements.
const RUN: i64 = 4;

/// Elements, or runs of them, that are copied, each loop's variable the other's place.
struct Squares {
    from: Side,
    to: Side,
    /// Bytes of an element or a run.
    bytes: i64,
    /// Turns of the loop that is written out.
    turns: i64,
    /// Rows of what is read.
    rows: i64,
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

/// A place in a buffer.
type Place<'l> = (BufferId, &'l [sym::Expr]);

impl Selector<'_> {
    /// Writes a loop, to be written out so many times, that copies squares of narrow elements
    /// transposed, if it is one; whether it did.
    pub(super) fn transposed_squares(&mut self, inner: &Loop, extent: i64) -> bool {
        let found = self.squares_of(inner, extent).or_else(|| self.squares_of_runs(inner, extent));
        let Some(squares) = found else { return false };
        if let [Stmt::For(vector)] = &inner.body[..]
            && vector.kind == LoopKind::Vector
        {
            for turn in 0..extent {
                self.bindings[inner.variable] = Binding::Constant(turn);
                self.ask_for_each(vector, vector.extent.as_constant().unwrap_or(0), &vector.body);
            }
        }
        let Squares { from, to, bytes, turns, rows, parts, below } = &squares;
        let side = ROW / bytes;
        for (first, column) in (0..*rows).step_by((below * side) as usize).flat_map(|first| {
            (0..*turns).step_by((parts * side) as usize).map(move |column| (first, column))
        }) {
            // All that is read here is read before any of it is stored: the two may share memory.
            let blocks: Vec<Vec<VRegId>> = (0..*below)
                .map(|at| self.square(from, (first + at * side, column * bytes), *bytes, *parts))
                .collect();
            for at in 0..side {
                let columns: Vec<VRegId> = blocks.iter().map(|own| own[at as usize]).collect();
                let values = self.rows_of_columns(&columns, *parts);
                for (part, value) in values.into_iter().enumerate() {
                    let turn = column + part as i64 * side + at;
                    let place = self.at_bytes(to, turn * to.apart + first * bytes);
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
        let (source, buffer) = self.copied(vector)?;
        let elements = vector.extent.as_constant()?;
        let bytes = self.element_bytes(buffer.0) as i64;
        let side = ROW / bytes;
        let parts = if extent % (2 * side) == 0 { 2 } else { 1 };
        let below = elements / side;
        let whole = [1, 2].contains(&bytes)
            && extent % side == 0
            && elements % side == 0
            && (1..=parts).contains(&below);
        if !whole {
            return None;
        }
        let apart = self.stride_along(buffer.0, buffer.1, inner)?;
        let next = self.stride_along(source.0, source.1, inner)?;
        self.bindings[inner.variable] = Binding::Constant(0);
        let [start, end] = self
            .within(vector, 0, |selector| [source, buffer].map(|(id, at)| selector.linear(id, at)));
        let moves = !start.irregular && !end.irregular;
        (moves && next == bytes && end.lane_step == bytes).then(|| Squares {
            from: Side { buffer: source.0, apart: start.lane_step, start },
            to: Side { buffer: buffer.0, apart, start: end },
            bytes,
            turns: extent,
            rows: elements,
            parts,
            below,
        })
    }

    fn squares_of_runs(&mut self, inner: &Loop, extent: i64) -> Option<Squares> {
        let [Stmt::For(middle)] = &inner.body[..] else { return None };
        let [Stmt::For(vector)] = &middle.body[..] else { return None };
        let (source, buffer) = self.copied(vector)?;
        let (rows, run) = (middle.extent.as_constant()?, vector.extent.as_constant()?);
        let element = self.element_bytes(buffer.0) as i64;
        let side = ROW / RUN;
        let whole = run * element == RUN && extent % side == 0 && rows % side == 0;
        if middle.kind != LoopKind::Unroll || !whole {
            return None;
        }
        let parts = if extent % (2 * side) == 0 { 2 } else { 1 };
        let below = if rows % (parts * side) == 0 { parts } else { 1 };
        let apart = self.stride_along(source.0, source.1, middle)?;
        let next = self.stride_along(source.0, source.1, inner)?;
        let along = self.stride_along(buffer.0, buffer.1, middle)?;
        let between = self.stride_along(buffer.0, buffer.1, inner)?;
        self.bindings[inner.variable] = Binding::Constant(0);
        self.bindings[middle.variable] = Binding::Constant(0);
        let [start, end] = self
            .within(vector, 0, |selector| [source, buffer].map(|(id, at)| selector.linear(id, at)));
        self.bindings[middle.variable] = Binding::None;
        let are_runs = [&start, &end].iter().all(|it| !it.irregular && it.lane_step == element);
        (are_runs && next == RUN && along == RUN).then(|| Squares {
            from: Side { buffer: source.0, apart, start },
            to: Side { buffer: buffer.0, apart: between, start: end },
            bytes: RUN,
            turns: extent,
            rows,
            parts,
            below,
        })
    }

    /// What a vector loop copies from and to, if it does nothing else but ask for memory.
    fn copied<'l>(&self, vector: &'l Loop) -> Option<(Place<'l>, Place<'l>)> {
        let (Stmt::Store { buffer, index, value }, before) = vector.body.split_last()? else {
            return None;
        };
        let ScalarExpr::Load { buffer: source, index: source_index } = value else { return None };
        let data = [*source, *buffer].map(|id| &self.kernel.buffers[id]);
        let alike = data[0].dtype == data[1].dtype
            && carrier(data[1].dtype).is_some()
            && data.iter().all(|data| data.scope != Scope::Register)
            && before.iter().all(|stmt| matches!(stmt, Stmt::Prefetch { .. }));
        (vector.kind == LoopKind::Vector && self.exec.is_none() && alike)
            .then_some(((*source, source_index), (*buffer, index)))
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
        let side = ROW / bytes;
        let lane = match bytes {
            1 => Lane::U8,
            2 => Lane::U16,
            _ => Lane::F32,
        };
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
