//! Runs of narrow elements that are copied, or combined bit by bit: whole registers of them, as
//! they are in memory.
//!
//! ```text
//! for j < 20 vector { out[i, j] = in[i, j] }
//! for j < 20 vector { out[i, j] = and(not(in[i, j]), kept[i]) }
//! ```
//!
//! of bytes are a register of 16 and one of 4. Elements of 8 and 16 bits are computed with in
//! lanes of 32; where nothing is computed but bits, four or two of them take the room of one. What
//! is left at the end goes by shorter registers, not under a mask, so that no load waits for what a
//! mask left out. Where a condition leaves out the end of the last run alone, the others go without
//! it.

use loops::{BufferId, Comparison, Condition, Loop, ScalarExpr, Scope, Stmt};
use sym::Expr;
use tensor::{DType, ScalarFunction};

use super::guard::Holds;
use super::index::{Binding, Linear};
use super::value::{Item, Vector, all_lanes, carrier};
use super::{Selector, VectorLoop};
use crate::vcode::{Cond, Inst, IntOperand, Lane, MemoryOperand, Opcode, RegisterType, VRegId};

/// Bytes of a run, at most: it is written out.
const LONGEST: i64 = 512;

/// Registers that are computed before the first of them is stored.
const AT_ONCE: usize = 4;

/// Neighbouring elements as they are in memory.
enum Packed {
    /// They are read side by side, from an address on.
    Run(MemoryOperand),
    /// All are this one, repeated in 64 bits.
    Same(VRegId),
    /// They are these bits, repeated.
    Constant(u8),
    /// Bits of two values together.
    Both(ScalarFunction, Box<[Packed; 2]>),
}

/// Where a run is stored, what, and what comes before: values are bound, lines are asked for.
type Run<'b> = (BufferId, &'b [Expr], &'b ScalarExpr, &'b [Stmt]);

/// So many bytes of a run, in a register.
#[derive(Clone, Copy)]
enum Piece {
    Scalar(VRegId),
    Vector(Vector),
}

impl Selector<'_> {
    /// Writes a vector loop of so many turns that stores a run of packed elements, if it is one;
    /// whether it did.
    pub(super) fn packed_run(&mut self, inner: &Loop, extent: i64) -> base::Result<bool> {
        if self.exec.is_some() {
            return Ok(false);
        }
        if let Some(run) = self.run_of(inner, &inner.body, extent) {
            self.store_run(inner, run, extent)?;
            return Ok(true);
        }
        let [Stmt::If { conditions, then, otherwise }] = &inner.body[..] else {
            return Ok(false);
        };
        let ([condition], []) = (&conditions[..], &otherwise[..]) else { return Ok(false) };
        let Some(for_all) = for_all(condition, inner.variable, extent) else { return Ok(false) };
        let Some(run) = self.run_of(inner, then, extent) else { return Ok(false) };
        match self.holds(&[for_all], 1)? {
            Holds::Constant(true) => self.store_run(inner, run, extent)?,
            Holds::Uniform(condition) => {
                let mut branching =
                    self.builder.open_branch(Cond::NotEqual, condition, IntOperand::Imm(0));
                self.store_run(inner, run, extent)?;
                self.builder.next_arm(&mut branching, Vec::new());
                self.trim_loaded(self.builder.depth() - 1);
                self.vector_by_vector(inner, extent)?;
                self.builder.close_branch(branching, Vec::new());
                self.trim_loaded(self.builder.depth());
            }
            Holds::Constant(false) | Holds::Lanes(_) => return Ok(false),
        }
        Ok(true)
    }

    /// Stores a run, with what comes before.
    fn store_run(&mut self, inner: &Loop, run: Run<'_>, extent: i64) -> base::Result<()> {
        let (buffer, index, value, before) = run;
        let is_let = |stmt: &&Stmt| matches!(stmt, Stmt::Let { .. });
        before.iter().filter(is_let).try_for_each(|stmt| self.statement(stmt))?;
        self.ask_for_each(inner, extent, before);
        self.within(inner, 0, |selector| {
            let value = selector.packed(value);
            let linear = selector.linear(buffer, index);
            let to = selector.begin_address(buffer, &linear);
            let bytes = extent * selector.element_bytes(buffer) as i64;
            selector.store_bytes(&value, to, bytes);
            selector.forget(buffer);
        });
        Ok(())
    }

    /// What a block of a vector loop of so many turns stores, where, and what comes before, if it
    /// is a run of packed elements and what is bound is the same for all lanes.
    fn run_of<'b>(&mut self, inner: &Loop, body: &'b [Stmt], extent: i64) -> Option<Run<'b>> {
        let (Stmt::Store { buffer, index, value }, before) = body.split_last()? else {
            return None;
        };
        let target = &self.kernel.buffers[*buffer];
        let (dtype, bytes) = (target.dtype, self.element_bytes(*buffer) as i64);
        let short = (2..=LONGEST / bytes.max(1)).contains(&extent);
        let whole = dtype.bits() == 8 * bytes as u32 && carrier(dtype).is_some();
        if !whole || bytes > 2 || !short || target.scope == Scope::Register {
            return None;
        }
        self.within(inner, 0, |selector| {
            let same = |stmt: &Stmt| match stmt {
                Stmt::Let { value, .. } => !selector.differs_by_lane(value),
                Stmt::Prefetch { .. } => true,
                _ => false,
            };
            let fits = before.iter().all(same)
                && selector.is_run(*buffer, index)
                && selector.is_packed(value, dtype);
            fits.then_some((*buffer, &index[..], value, before))
        })
    }

    /// Does something as for the vector of a vector loop that begins with a turn.
    pub(super) fn within<T>(
        &mut self,
        inner: &Loop,
        first: i64,
        act: impl FnOnce(&mut Self) -> T,
    ) -> T {
        self.bindings[inner.variable] = Binding::Constant(first);
        let lanes = self.plan.lanes[inner.variable];
        let tail = all_lanes(lanes);
        self.vector = Some(VectorLoop { symbol: inner.variable, lanes, offset: 0, tail });
        let done = act(self);
        self.vector = None;
        self.bindings[inner.variable] = Binding::None;
        done
    }

    fn is_run(&mut self, buffer: BufferId, index: &[Expr]) -> bool {
        let linear = self.linear(buffer, index);
        !linear.irregular && linear.lane_step == self.element_bytes(buffer) as i64
    }

    /// Whether a value is made of elements of a type by their bits alone.
    fn is_packed(&mut self, value: &ScalarExpr, dtype: DType) -> bool {
        match value {
            ScalarExpr::Load { buffer, index } => {
                let from = &self.kernel.buffers[*buffer];
                let alike = from.dtype == dtype && from.scope != Scope::Register;
                let differs = self.differs_by_lane(value);
                alike && (!differs || self.is_run(*buffer, index))
            }
            ScalarExpr::Apply { function, dtype: own, arguments } => {
                function.is_bitwise()
                    && *own == dtype
                    && !dtype.is_float()
                    && arguments.iter().all(|argument| self.is_packed(argument, dtype))
            }
            _ => false,
        }
    }

    /// A value of which [`Selector::is_packed`] holds.
    fn packed(&mut self, value: &ScalarExpr) -> Packed {
        match value {
            ScalarExpr::Load { buffer, index } => {
                let linear = self.linear(*buffer, index);
                let address = self.begin_address(*buffer, &linear);
                if linear.lane_step != 0 {
                    return Packed::Run(address);
                }
                let (lane, copies) = match self.element_bytes(*buffer) {
                    1 => (Lane::U8, 0x0101_0101_0101_0101),
                    _ => (Lane::U16, 0x0001_0001_0001_0001),
                };
                let inst = Inst::new(Opcode::IntLoad, lane, &[]).address(address);
                let element = self.builder.emit(inst, RegisterType::Int);
                let copies = self.builder.int_const(copies);
                Packed::Same(self.builder.int(Opcode::IntMul, &[element, copies]))
            }
            ScalarExpr::Apply { function: ScalarFunction::Not, dtype, arguments } => {
                let ones = if *dtype == DType::Bool { 1 } else { 0xff };
                let both = [self.packed(&arguments[0]), Packed::Constant(ones)];
                Packed::Both(ScalarFunction::Xor, Box::new(both))
            }
            ScalarExpr::Apply { function, arguments, .. } => {
                let both = [0, 1].map(|at| self.packed(&arguments[at]));
                Packed::Both(*function, Box::new(both))
            }
            _ => unreachable!("it is made of loads and bits"),
        }
    }

    /// Where the first element of a run is.
    fn begin_address(&mut self, buffer: BufferId, linear: &Linear) -> MemoryOperand {
        self.address(buffer, &Linear { lane_step: 0, ..linear.clone() })
    }

    /// Stores so many bytes of a value from an address on.
    fn store_bytes(&mut self, value: &Packed, to: MemoryOperand, bytes: i64) {
        let widest: i64 = if self.builder.has_masks() { 64 } else { 32 };
        let (mut pieces, mut done) = (Vec::new(), 0);
        while done < bytes {
            let left = bytes - done;
            let size = if left >= widest { widest } else { 1 << left.ilog2() };
            pieces.push((done, size));
            done += size;
        }
        for pieces in pieces.chunks(AT_ONCE) {
            let made: Vec<Piece> =
                pieces.iter().map(|&(begin, size)| self.piece(value, begin, size)).collect();
            for (&(begin, size), piece) in pieces.iter().zip(made) {
                let (store, lane) = match size {
                    1 => (Opcode::IntStore, Lane::I8),
                    2 => (Opcode::IntStore, Lane::I16),
                    4 => (Opcode::StoreLane, Lane::I32),
                    8 => (Opcode::StoreLane, Lane::I64),
                    _ => (Opcode::Store, Lane::I32),
                };
                let value = match piece {
                    Piece::Scalar(value) => value,
                    Piece::Vector(vector) => self.register(vector),
                };
                self.builder.effect(Inst::new(store, lane, &[value]).address(moved(to, begin)));
            }
        }
    }

    /// So many bytes of a value, behind so many others.
    fn piece(&mut self, value: &Packed, begin: i64, size: i64) -> Piece {
        let lanes = size.max(16) as usize / 4;
        let vector = |item: Item| Piece::Vector(Vector { item, lane: Lane::I32, lanes });
        match value {
            Packed::Run(from) => {
                let (load, lane, ty) = match size {
                    1 => (Opcode::IntLoad, Lane::U8, RegisterType::Int),
                    2 => (Opcode::IntLoad, Lane::U16, RegisterType::Int),
                    4 => (Opcode::LoadLane, Lane::I32, RegisterType::V128),
                    8 => (Opcode::LoadLane, Lane::I64, RegisterType::V128),
                    _ => (Opcode::Load, Lane::I32, RegisterType::vector(size as usize)),
                };
                let inst = Inst::new(load, lane, &[]).address(moved(*from, begin));
                let value = self.builder.emit(inst, ty);
                if size < 4 { Piece::Scalar(value) } else { vector(Item::Register(value)) }
            }
            Packed::Same(element) if size < 4 => Piece::Scalar(*element),
            Packed::Same(element) => {
                let first = self.vector_of_int(*element, Lane::I64);
                let all = self.broadcast_vector(first, lanes / 2);
                vector(all.item)
            }
            Packed::Constant(bits) => {
                let bits = u64::from(u32::from_ne_bytes([*bits; 4]));
                match size < 4 {
                    true => Piece::Scalar(self.builder.int_const(bits as i64)),
                    false => vector(Item::Constant(bits)),
                }
            }
            Packed::Both(function, both) => {
                let [a, b] = [0, 1].map(|at| self.piece(&both[at], begin, size));
                match (a, b) {
                    (Piece::Vector(a), Piece::Vector(b)) => {
                        let op = match function {
                            ScalarFunction::And => Opcode::And,
                            ScalarFunction::Or => Opcode::Or,
                            _ => Opcode::Xor,
                        };
                        Piece::Vector(self.binary(op, a, b))
                    }
                    (Piece::Scalar(a), Piece::Scalar(b)) => {
                        Piece::Scalar(self.scalar_bits(*function, a, b))
                    }
                    _ => unreachable!("pieces of one size are alike"),
                }
            }
        }
    }

    fn scalar_bits(&mut self, function: ScalarFunction, a: VRegId, b: VRegId) -> VRegId {
        match function {
            ScalarFunction::And => self.builder.int(Opcode::IntAnd, &[a, b]),
            ScalarFunction::Or => self.builder.int(Opcode::IntOr, &[a, b]),
            _ => {
                let either = self.builder.int(Opcode::IntOr, &[a, b]);
                let both = self.builder.int(Opcode::IntAnd, &[a, b]);
                self.builder.int(Opcode::IntSub, &[either, both])
            }
        }
    }
}

/// The condition under which one holds in all turns of a loop, where the last turn tells.
fn for_all(condition: &Condition, variable: sym::SymbolId, extent: i64) -> Option<Condition> {
    let Condition { left, comparison, right } = condition;
    let tells = matches!(comparison, Comparison::Less | Comparison::LessEqual)
        && left.linear_coefficient(variable) == Some(1)
        && !right.contains(variable);
    let mut last = |symbol| (symbol == variable).then(|| Expr::constant(extent - 1));
    tells.then(|| Condition { left: left.substitute(&mut last), ..condition.clone() })
}

/// The address so many bytes behind another.
fn moved(address: MemoryOperand, bytes: i64) -> MemoryOperand {
    MemoryOperand { displacement: address.displacement + bytes as i32, ..address }
}
