//! Transposed loads and stores: strided vectors of neighbouring elements as rows of a block,
//! transposed in registers.
//!
//! ```text
//! for i < 16 unroll { for j < 16 vector { .. = in[j, i] } }
//! ```
//!
//! asks for column `i` of a block of 16 rows again and again. The first time, all rows are loaded,
//! each contiguous, and the block is transposed by unpacking elements, then pairs, then exchanging
//! parts of 128 bits; the others find their column done. Elements narrower than 32 bits are
//! transposed in the lanes in which they are computed.
//!
//! Only elements are loaded that the loop loads in any case: no condition in the body of the
//! written-out loop may depend on its turn. Columns are remembered as loaded values are.
//!
//! Stores to `out[j, i]` wait in the same way until a block's last column is there. Where the
//! columns are all that lies side by side in a row, and fill 32 bits (two of 16, four of 8), they
//! are shifted to their places in lanes of that width instead, which lie in memory as they are; two
//! columns of 32 bits are put into rows by turns. Only those wait that nothing in the loop's body
//! could see or overwrite: those of a buffer that it stores to once and does not load, of which no
//! two turns or lanes share an element.

use std::collections::{BTreeMap, BTreeSet};

use loops::visit::{walk, walk_values};
use loops::{BufferId, Condition, Loop, LoopKind, ScalarExpr, Stmt};
use sym::{Expr, SymbolId};
use tensor::DType;

use super::Selector;
use super::index::{Binding, Factors, Linear};
use super::memory::LaneBit;
use super::value::{Carrier, Evaluated, Item, Mask, Vector, all_lanes, carrier, register_type};
use crate::vcode::{Inst, Lane, Opcode, RegisterType, VRegId};

/// Fewest columns for which a block is worth transposing.
const LEAST_COLUMNS: i64 = 4;

/// Bytes of a lane that narrow elements side by side fill.
const TUPLE: i64 = 4;

/// A loop that is being written out, of which each turn does the same.
pub(super) struct WrittenOut {
    variable: SymbolId,
    extent: i64,
    /// Buffers of which stores may wait.
    waiting: BTreeSet<BufferId>,
    /// The scope around it.
    depth: u32,
}

/// Stores that wait for the other columns of their block.
pub(super) struct Waiting {
    buffer: BufferId,
    start: Linear,
    /// Lanes that are on: rows of the block.
    rows: Mask,
    lanes: usize,
    lane: Lane,
    columns: Vec<VRegId>,
}

/// A block that has been transposed.
pub(super) struct Block {
    pub(super) buffer: BufferId,
    constant: i64,
    terms: Factors,
    step: i64,
    lanes: usize,
    columns: Vec<VRegId>,
    lane: Lane,
}

impl Block {
    /// A value of the block, for its scope.
    pub(super) fn value(&self) -> VRegId {
        self.columns[0]
    }
}

/// A loop to be written out, if each turn does the same.
pub(super) fn written_out(inner: &Loop, extent: i64, depth: u32) -> Option<WrittenOut> {
    if extent < 2 {
        return None;
    }
    let mut conditional = false;
    let depends = |conditions: &[Condition]| {
        let mut sides = conditions.iter().flat_map(|own| [&own.left, &own.right]);
        sides.any(|side| side.contains(inner.variable))
    };
    walk(&inner.body, &mut |stmt| match stmt {
        Stmt::If { conditions, .. } => conditional |= depends(conditions),
        Stmt::While { .. } => conditional = true,
        _ => {}
    });
    walk_values(&inner.body, &mut |value| {
        if let ScalarExpr::Guard { conditions, .. } = value {
            conditional |= depends(conditions);
        }
    });
    let (variable, waiting) = (inner.variable, stored_once(&inner.body));
    (!conditional).then_some(WrittenOut { variable, extent, waiting, depth })
}

/// The buffers that a block of vector loops stores to in one statement and does not load.
pub(super) fn stored_once(block: &[Stmt]) -> BTreeSet<BufferId> {
    let mut stores: BTreeMap<BufferId, usize> = BTreeMap::new();
    let mut others = false;
    walk(block, &mut |stmt| match stmt {
        Stmt::Store { buffer, .. } => *stores.entry(*buffer).or_default() += 1,
        Stmt::Reduce { buffer, .. } => *stores.entry(*buffer).or_default() += 2,
        Stmt::For(inner) => others |= inner.kind != LoopKind::Vector,
        _ => {}
    });
    walk_values(block, &mut |value| {
        if let ScalarExpr::Load { buffer, .. } = value {
            *stores.entry(*buffer).or_default() += 2;
        }
    });
    let once = stores.into_iter().filter(|(_, count)| *count == 1 && !others);
    once.map(|(buffer, _)| buffer).collect()
}

impl Selector<'_> {
    /// A strided vector as a column of a transposed block, if a loop that is being written out
    /// walks its neighbours.
    pub(super) fn load_transposed(
        &mut self,
        buffer: BufferId,
        index: &[Expr],
        linear: &Linear,
        mask: Mask,
        lanes: usize,
    ) -> Option<Evaluated> {
        let dtype = self.kernel.buffers[buffer].dtype;
        // Booleans are transposed as the bytes that they are in memory.
        let lane = match carrier(dtype)? {
            Carrier::Lane(lane) => lane,
            Carrier::Mask => Lane::I32,
        };
        let ty = register_type(lane, lanes);
        let Mask::Constant(rows) = mask else { return None };
        if lane.bytes() * lanes != ty.vector_bytes() || lanes < 4 || linear.irregular {
            return None;
        }
        let (written, turn) = self.neighbours(buffer, index)?;
        let (extent, count) = (self.written_out[written].extent, lanes as i64);
        let first = turn - turn % count;
        let columns = (extent - first).min(count);
        let whole = dtype.bits() >= 32 || columns == count;
        if columns < LEAST_COLUMNS || !(whole || self.builder.has_masks()) {
            return None;
        }
        let constant = linear.constant - (turn - first) * self.element_bytes(buffer) as i64;
        let (terms, step) = (linear.terms.clone(), linear.lane_step);
        let known = self.blocks.iter().find(|block| {
            block.buffer == buffer
                && (block.constant, block.step, block.lanes) == (constant, step, lanes)
                && block.terms == terms
        });
        let (column, lane) = match known {
            Some(block) => (block.columns[(turn - first) as usize], block.lane),
            None => {
                let start = Linear { constant, lane_step: 0, ..linear.clone() };
                let shape = (rows, columns as usize);
                let (values, lane) = self.block_rows(buffer, &start, step, shape, lanes)?;
                let columns = self.transposed(values, lane.bytes());
                let column = columns[(turn - first) as usize];
                self.blocks.push(Block { buffer, constant, terms, step, lanes, columns, lane });
                (column, lane)
            }
        };
        let column = Vector { item: Item::Register(column), lane, lanes };
        Some(self.element_of_widened(column, dtype))
    }

    /// Keeps a strided vector as a column of a block that is stored row by row when it is whole;
    /// false if it has to be stored as it is.
    pub(super) fn store_transposed(
        &mut self,
        buffer: BufferId,
        index: &[Expr],
        linear: &Linear,
        value: Evaluated,
        mask: Mask,
    ) -> bool {
        let (lane, lanes) = match value {
            Evaluated::Vector(Vector { lane, lanes, .. }) => (lane, lanes),
            Evaluated::Mask(_, lanes) => (Lane::I32, lanes),
        };
        let full = lane.bytes() * lanes == register_type(lane, lanes).vector_bytes();
        let Some((written, turn)) = self.neighbours(buffer, index) else { return false };
        let written = &self.written_out[written];
        let (bytes, count) = (self.element_bytes(buffer) as i64, lanes as i64);
        let first = turn - turn % count;
        let columns = (written.extent - first).min(count);
        let apart = linear.lane_step.abs() >= written.extent * bytes;
        let may_wait = written.waiting.contains(&buffer) && written.depth == self.builder.depth();
        let dense = linear.lane_step == written.extent * bytes;
        let in_lanes = dense && bytes < TUPLE && linear.lane_step == TUPLE;
        let in_pairs = dense && bytes == TUPLE && written.extent == 2 && lanes >= 8;
        let fits = match (in_lanes, in_pairs) {
            (true, _) => self.builder.has_masks() || mask == Mask::Constant(all_lanes(lanes)),
            (_, true) => matches!(mask, Mask::Constant(_)),
            _ => {
                let whole = self.builder.has_masks() || bytes >= 4 || columns == count;
                whole && columns >= LEAST_COLUMNS
            }
        };
        if !(full && apart && may_wait && fits) || lanes < 4 || linear.irregular {
            return false;
        }
        let start = Linear { constant: linear.constant - (turn - first) * bytes, ..linear.clone() };
        let known = self.waiting.iter().position(|block| {
            (block.buffer, block.rows, block.lane, block.lanes) == (buffer, mask, lane, lanes)
                && block.start == start
                && block.columns.len() as i64 == turn - first
        });
        let vector = match value {
            Evaluated::Vector(vector) => vector,
            Evaluated::Mask(mask, lanes) => self.mask_as_ints(mask, lanes),
        };
        let column = self.register(vector);
        let at = match known {
            Some(at) => at,
            None if turn == first => {
                let columns = Vec::with_capacity(lanes);
                let rows = mask;
                self.waiting.push(Waiting { buffer, start, rows, lanes, lane, columns });
                self.waiting.len() - 1
            }
            None => return false,
        };
        self.waiting[at].columns.push(column);
        if self.waiting[at].columns.len() as i64 == columns {
            let block = self.waiting.remove(at);
            match (in_lanes, in_pairs) {
                (true, _) => self.store_in_lanes(block),
                (_, true) => self.store_in_pairs(block),
                _ => self.store_block(block),
            }
        }
        true
    }

    /// Stores the rows of a block.
    fn store_block(&mut self, block: Waiting) {
        let Waiting { buffer, start, rows, lanes, lane, mut columns } = block;
        let on = Mask::Constant(all_lanes(columns.len()));
        if columns.len() < lanes {
            let zero = Inst::new(Opcode::Zero, lane, &[]);
            let zero = self.builder.emit(zero, register_type(lane, lanes));
            columns.resize(lanes, zero);
        }
        let bits = self.lane_bits(rows, lanes);
        for (row, value) in self.transposed(columns, lane.bytes()).into_iter().enumerate() {
            let constant = start.constant + row as i64 * start.lane_step;
            let place = |selector: &mut Self| {
                selector.address(buffer, &Linear { constant, ..start.clone() })
            };
            let address = match bits.of(row) {
                LaneBit::Off => continue,
                LaneBit::On => place(self),
                LaneBit::Dynamic(bits) => {
                    let address = place(self);
                    let address = Inst::new(Opcode::Lea, Lane::I64, &[]).address(address);
                    let address = self.builder.emit(address, RegisterType::Int);
                    let bit = self.builder.int_imm(Opcode::IntAndImm, bits, 1 << row);
                    self.address_if(bit, address)
                }
            };
            let value = Vector { item: Item::Register(value), lane, lanes };
            self.store_contiguous(buffer, address, Evaluated::Vector(value), on, lanes);
        }
        self.forget(buffer);
    }

    /// Stores columns of narrow elements that lie side by side, a row a lane.
    fn store_in_lanes(&mut self, block: Waiting) {
        let Waiting { buffer, start, rows, lanes, lane, columns } = block;
        let dtype = self.kernel.buffers[buffer].dtype;
        let (all, bits) = (8 * TUPLE, 8 * self.element_bytes(buffer) as i64);
        let mut tuples: Option<Vector> = None;
        for (at, column) in columns.into_iter().enumerate() {
            let column = Vector { item: Item::Register(column), lane, lanes };
            let mut part = match dtype {
                DType::F16 => self.f16_bits(column),
                _ => Self::cast_lane(column, Lane::I32),
            };
            // A bfloat16 lies in the high half, above zeros; of others the rest is unknown.
            if dtype != DType::BF16 {
                part = self.unary(Opcode::ShlImm, part, all - bits);
            }
            let down = all - bits * (at as i64 + 1);
            if down > 0 {
                part = self.unary(Opcode::ShrImm, part, down);
            }
            tuples = Some(match tuples {
                Some(others) => self.binary(Opcode::Or, others, part),
                None => part,
            });
        }
        let Some(tuples) = tuples else { return };
        let address = self.address(buffer, &start);
        let mask = self.mask_operand(rows, lanes, tuples.lane.bytes());
        let value = self.register(tuples);
        let store = Inst::new(Opcode::Store, tuples.lane, &[value]).address(address).mask(mask);
        self.builder.effect(store);
        self.forget(buffer);
    }

    /// Stores two columns of elements of 32 bits that lie side by side, by turns.
    fn store_in_pairs(&mut self, block: Waiting) {
        let Waiting { buffer, start, rows, lanes, lane, columns } = block;
        let ([first, second], Mask::Constant(on)) = (&columns[..], rows) else { return };
        let (first, second) = (*first, *second);
        let halves = match self.builder.has_masks() {
            true => [0, lanes / 2].map(|begin| {
                let place = |at: usize| (begin + at / 2 + lanes * (at % 2)) as u64;
                let order =
                    self.lane_constants(&(0..lanes).map(place).collect::<Vec<_>>(), Lane::I32);
                let order = self.register(order);
                let inst = Inst::new(Opcode::PermuteTwo, lane, &[first, order, second]);
                self.builder.emit(inst, register_type(lane, lanes))
            }),
            false => {
                let (low, high) = self.unpacked(Lane::F32, first, second);
                [self.parts(low, high, 0b00), self.parts(low, high, 0b11)]
            }
        };
        for (half, value) in halves.into_iter().enumerate() {
            let own = (0..lanes).filter(|at| on >> ((half * lanes + at) / 2) & 1 == 1);
            let own = own.fold(0, |bits, at| bits | 1 << at);
            if own == 0 {
                continue;
            }
            let constant = start.constant + (half * lanes) as i64 * TUPLE;
            let address =
                self.address(buffer, &Linear { constant, lane_step: TUPLE, ..start.clone() });
            let value = Evaluated::Vector(Vector { item: Item::Register(value), lane, lanes });
            self.store_contiguous(buffer, address, value, Mask::Constant(own), lanes);
        }
        self.forget(buffer);
    }

    /// The written-out loop that walks a buffer's neighbouring elements, and its turn.
    fn neighbours(&self, buffer: BufferId, index: &[Expr]) -> Option<(usize, i64)> {
        let strides = self.plan.strides[buffer].as_constants()?;
        self.written_out.iter().enumerate().rev().find_map(|(number, written)| {
            let mut parts = index.iter().zip(strides);
            let step = parts.try_fold(0, |sum, (expr, stride)| {
                Some(sum + expr.linear_coefficient(written.variable)? * stride)
            })?;
            let Binding::Constant(turn) = self.bindings[written.variable] else { return None };
            (step == 1).then_some((number, turn))
        })
    }

    /// The rows of a block, a lane each, of so many columns; those that are off are zero.
    fn block_rows(
        &mut self,
        buffer: BufferId,
        start: &Linear,
        step: i64,
        (on, columns): (u32, usize),
        lanes: usize,
    ) -> Option<(Vec<VRegId>, Lane)> {
        let mut rows = Vec::with_capacity(lanes);
        let mut lane = None;
        for row in 0..lanes {
            if on & (1 << row) == 0 {
                rows.push(None);
                continue;
            }
            let place = Linear { constant: start.constant + row as i64 * step, ..start.clone() };
            let address = self.address(buffer, &place);
            let mask = Mask::Constant(all_lanes(columns));
            let widened = self.load_widened(buffer, address, mask, lanes);
            lane = Some(widened.lane);
            rows.push(Some(self.register(widened)));
        }
        let lane = lane?;
        let ty = register_type(lane, lanes);
        let zero =
            rows.contains(&None).then(|| self.builder.emit(Inst::new(Opcode::Zero, lane, &[]), ty));
        let rows: Option<Vec<VRegId>> = rows.into_iter().map(|row| row.or(zero)).collect();
        Some((rows?, lane))
    }

    /// The columns of a square block of rows, of elements of 4 or 8 bytes.
    fn transposed(&mut self, mut rows: Vec<VRegId>, bytes: usize) -> Vec<VRegId> {
        if bytes == 4 {
            for pair in (0..rows.len()).step_by(2) {
                let (low, high) = self.unpacked(Lane::F32, rows[pair], rows[pair + 1]);
                (rows[pair], rows[pair + 1]) = (low, high);
            }
            for group in (0..rows.len()).step_by(4) {
                let (first, second) = self.unpacked(Lane::F64, rows[group], rows[group + 2]);
                let (third, fourth) = self.unpacked(Lane::F64, rows[group + 1], rows[group + 3]);
                rows[group..group + 4].copy_from_slice(&[first, second, third, fourth]);
            }
        } else {
            for pair in (0..rows.len()).step_by(2) {
                let (low, high) = self.unpacked(Lane::F64, rows[pair], rows[pair + 1]);
                (rows[pair], rows[pair + 1]) = (low, high);
            }
        }
        // Part `p` of row `width * group + k` is now column `width * p + k` of the group's rows.
        let width = 16 / bytes;
        let mut columns = rows.clone();
        for k in 0..width {
            let groups: Vec<VRegId> = rows.iter().skip(k).step_by(width).copied().collect();
            for (part, column) in self.exchanged(&groups).into_iter().enumerate() {
                columns[width * part + k] = column;
            }
        }
        columns
    }

    /// Registers of two or four parts of 128 bits as a square of parts, transposed.
    fn exchanged(&mut self, rows: &[VRegId]) -> Vec<VRegId> {
        match *rows {
            [a, b] => vec![self.parts(a, b, 0b00), self.parts(a, b, 0b11)],
            [a, b, c, d] => {
                let halves = [0b01_00_01_00, 0b11_10_11_10]
                    .map(|half| (self.parts(a, b, half), self.parts(c, d, half)));
                let of = |selector: &mut Self, (left, right)| {
                    [0b10_00_10_00, 0b11_01_11_01].map(|part| selector.parts(left, right, part))
                };
                halves.into_iter().flat_map(|half| of(self, half)).collect()
            }
            _ => rows.to_vec(),
        }
    }

    /// The low and the high elements of each 128 bits of two registers, by turns.
    pub(super) fn unpacked(&mut self, lane: Lane, a: VRegId, b: VRegId) -> (VRegId, VRegId) {
        let ty = self.builder.type_of(a);
        let low = self.builder.emit(Inst::new(Opcode::UnpackLow, lane, &[a, b]), ty);
        let high = self.builder.emit(Inst::new(Opcode::UnpackHigh, lane, &[a, b]), ty);
        (low, high)
    }

    pub(super) fn parts(&mut self, a: VRegId, b: VRegId, which: u8) -> VRegId {
        let ty = self.builder.type_of(a);
        self.builder.emit(Inst::new(Opcode::Parts, Lane::F32, &[a, b]).imm(i64::from(which)), ty)
    }
}
