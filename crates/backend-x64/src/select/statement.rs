//! Statements: loops, branches, stores.

use backend::VECTORS_WRITTEN_OUT;
use loops::{
    Access, BufferId, Condition, Kernel, Loop, LoopKind, ScalarExpr, Scope, Stmt, SymbolKind,
};
use std::rc::Rc;
use sym::{Expr, Range, SymbolId};
use tensor::{DType, Reduction, ScalarFunction};

use super::build::Bound;
use super::guard::Holds;
use super::index::Binding;
use super::interleave::{VECTORS, is_one_store};
use super::memory::{APART, memory_lane};
use super::plan::short_integer;
use super::transpose::{stored_once, written_out};
use super::value::{
    Carrier, Evaluated, Held, Item, Mask, Vector, all_lanes, carrier, register_type,
};
use super::{Selector, VectorLoop};
use crate::vcode::{Cond, Inst, IntOperand, Lane, MadeFor, Opcode, RegisterType, VRegId};

impl Selector<'_> {
    pub(super) fn block(&mut self, block: &[Stmt]) -> base::Result<()> {
        block.iter().try_for_each(|stmt| self.statement(stmt))
    }

    pub(super) fn statement(&mut self, stmt: &Stmt) -> base::Result<()> {
        if self.statements.is_empty() {
            return self.any_statement(stmt);
        }
        let number = self.statements.get(&std::ptr::from_ref(stmt)).copied();
        let around = std::mem::replace(&mut self.builder.made_for, MadeFor(number));
        let done = self.any_statement(stmt);
        self.builder.made_for = around;
        done
    }

    fn any_statement(&mut self, stmt: &Stmt) -> base::Result<()> {
        match stmt {
            Stmt::For(inner) => self.any_loop(inner),
            Stmt::Let { symbol, value } => self.bind(*symbol, value),
            Stmt::Store { buffer, index, value } => {
                let lanes = self.vector_lanes();
                let value = self.evaluate(value, lanes)?;
                self.store(*buffer, index, value, lanes)
            }
            Stmt::Reduce { buffer, index, reduction, value } => {
                self.reduce(*buffer, index, *reduction, value)
            }
            Stmt::Prefetch { buffer, index } => {
                self.ask_for(*buffer, index);
                Ok(())
            }
            Stmt::If { conditions, then, otherwise } => self.branch(conditions, then, otherwise),
            Stmt::While { setup, condition, body } => self.while_loop(setup, condition, body),
        }
    }

    // Loops.

    fn any_loop(&mut self, inner: &Loop) -> base::Result<()> {
        // Inside, all is known that holds where the loop runs; of how often it does, nothing.
        let extent = self.constant_extent(inner);
        let trips = match (&inner.kind, extent) {
            (LoopKind::Serial, None) => Some(self.int(&inner.extent)),
            _ => None,
        };
        let outside = self.ranges.descend(inner);
        self.forget_simplified(inner);
        let done = match &inner.kind {
            LoopKind::Unroll => self.unrolled(inner, extent),
            LoopKind::Instruction(name) => self.instruction(inner, name),
            LoopKind::Vector => self.vectors(inner, extent),
            LoopKind::Serial => self.serial(inner, extent, trips),
            LoopKind::Parallel => self.parallel(inner),
        };
        self.ranges.ascend(inner, outside);
        self.forget_simplified(inner);
        done
    }

    /// That a loop of free extent runs says something of other symbols, too, inside of it alone.
    fn forget_simplified(&mut self, inner: &Loop) {
        if inner.extent.as_constant().is_none() {
            self.simplified.get_mut().clear();
        }
    }

    fn constant_extent(&self, inner: &Loop) -> Option<i64> {
        let extent = inner.extent.substitute(&mut |symbol| match self.bindings[symbol] {
            Binding::Constant(value) => Some(Expr::constant(value)),
            _ => None,
        });
        self.ranges.simplify(&extent).as_constant()
    }

    fn unrolled(&mut self, inner: &Loop, extent: Option<i64>) -> base::Result<()> {
        let Some(extent) = extent else {
            return Err(self.refuse("an unrolled loop has no constant extent".to_string()));
        };
        if self.transposed_squares(inner, extent) {
            return Ok(());
        }
        let depth = self.written_out.len();
        self.written_out.extend(written_out(inner, extent, self.builder.depth()));
        let side_by_side = self.is_one_vector(&inner.body);
        let mut starts = Vec::new();
        self.turns.begin();
        for turn in 0..extent {
            self.turns.turn();
            self.bindings[inner.variable] = Binding::Constant(turn);
            starts.push(self.builder.position());
            self.block(&inner.body)?;
            if starts.len() == VECTORS || turn + 1 == extent {
                if side_by_side {
                    self.builder.interleave(&starts);
                }
                starts.clear();
            }
        }
        self.turns.end();
        self.written_out.truncate(depth);
        assert!(self.waiting.is_empty(), "a block of stores is not whole");
        Ok(())
    }

    /// Whether a block computes one vector and stores it to a buffer that it does not load.
    fn is_one_vector(&self, block: &[Stmt]) -> bool {
        let [Stmt::For(inner)] = block else { return false };
        let lanes = self.plan.lanes[inner.variable] as i64;
        inner.kind == LoopKind::Vector
            && inner.extent.as_constant().is_some_and(|extent| extent <= lanes)
            && is_one_store(&inner.body)
            && !stored_once(&inner.body).is_empty()
    }

    /// A loop of so many turns: a number, or a value.
    fn serial(
        &mut self,
        inner: &Loop,
        extent: Option<i64>,
        trips: Option<VRegId>,
    ) -> base::Result<()> {
        if self.vector.is_some() {
            return Err(self.refuse("a vector loop holds a serial loop".to_string()));
        }
        match (extent, trips) {
            (Some(1), _) => self.unrolled(inner, extent),
            (Some(extent @ 2..), _) => {
                self.counted(inner, Bound::Constant(0), Bound::Constant(extent))
            }
            (None, Some(trips)) => self.if_runs(inner, trips, |selector| {
                selector.counted(inner, Bound::Constant(0), Bound::Value(trips))
            }),
            _ => Ok(()),
        }
    }

    fn parallel(&mut self, inner: &Loop) -> base::Result<()> {
        let [_, first, last] = self.arguments();
        let trips = self.builder.int(Opcode::IntSub, &[last, first]);
        self.if_runs(inner, trips, |selector| {
            selector.counted(inner, Bound::Value(first), Bound::Value(trips))
        })
    }

    fn arguments(&self) -> [VRegId; 3] {
        let params = &self.builder.function.blocks[base::Id::new(0)].params;
        [params[0], params[1], params[2]]
    }

    /// Runs a loop if it has a turn at all.
    fn if_runs(
        &mut self,
        inner: &Loop,
        trips: VRegId,
        run: impl FnOnce(&mut Self) -> base::Result<()>,
    ) -> base::Result<()> {
        let before = self.slots.clone();
        let carried = self.written_slots(&inner.body);
        let mut branching = self.builder.open_branch(Cond::Greater, trips, IntOperand::Imm(0));
        run(self)?;
        let results = self.slot_values(&carried);
        self.builder.next_arm(&mut branching, results);
        self.trim_loaded(self.builder.depth() - 1);
        self.slots = before;
        let results = self.slot_values(&carried);
        let merged = self.builder.close_branch(branching, results);
        self.trim_loaded(self.builder.depth());
        self.set_slots(&carried, &merged);
        Ok(())
    }

    /// A loop that has at least one turn.
    fn counted(&mut self, inner: &Loop, start: Bound, trips: Bound) -> base::Result<()> {
        let innermost = !self.has_loops(&inner.body);
        let carried = self.written_slots(&inner.body);
        let entries = self.entries(&carried);
        let params = self.builder.open_loop(start, trips, 1, innermost, &entries);
        self.forget_all();
        self.set_slots(&carried, &params);
        self.bindings[inner.variable] = Binding::Loop(self.builder.depth());
        self.block(&inner.body)?;
        let next = self.slot_values(&carried);
        self.builder.close_loop(&next);
        self.forget_all();
        self.bindings[inner.variable] = Binding::None;
        self.set_slots(&carried, &next);
        Ok(())
    }

    /// Whether a block will hold loops when it is written.
    fn has_loops(&self, block: &[Stmt]) -> bool {
        let mut found = false;
        loops::visit::walk(block, &mut |stmt| match stmt {
            Stmt::While { .. } => found = true,
            Stmt::For(inner) => match &inner.kind {
                LoopKind::Serial | LoopKind::Parallel => {
                    found |= inner.extent.as_constant().is_none_or(|extent| extent > 1);
                }
                LoopKind::Vector => {
                    let extent = inner.extent.as_constant().unwrap_or(0);
                    let lanes = self.plan.lanes[inner.variable] as i64;
                    found |= self.becomes_loop(inner, extent / lanes);
                }
                LoopKind::Unroll | LoopKind::Instruction(_) => {}
            },
            _ => {}
        });
        found
    }

    // Vector loops.

    fn becomes_loop(&self, inner: &Loop, vectors: i64) -> bool {
        if vectors <= VECTORS_WRITTEN_OUT {
            return false;
        }
        let mut covers_registers = false;
        let mut see = |buffer: BufferId, index: &[Expr]| {
            covers_registers |= self.kernel.buffers[buffer].scope == Scope::Register
                && index.iter().any(|expr| expr.contains(inner.variable));
        };
        loops::visit::walk(&inner.body, &mut |stmt| match stmt {
            Stmt::Store { buffer, index, .. } | Stmt::Reduce { buffer, index, .. } => {
                see(*buffer, index);
            }
            _ => {}
        });
        loops::visit::walk_values(&inner.body, &mut |value| {
            if let ScalarExpr::Load { buffer, index } = value {
                see(*buffer, index);
            }
        });
        !covers_registers
    }

    fn vectors(&mut self, inner: &Loop, extent: Option<i64>) -> base::Result<()> {
        let Some(extent) = extent.filter(|_| self.vector.is_none()) else {
            let reason = "a vector loop has no constant extent or stands in another";
            return Err(self.refuse(reason.to_string()));
        };
        if self.packed_run(inner, extent)? {
            return Ok(());
        }
        self.vector_by_vector(inner, extent)
    }

    /// A vector loop of so many turns, each in a lane of its own: one vector after the other.
    pub(super) fn vector_by_vector(&mut self, inner: &Loop, extent: i64) -> base::Result<()> {
        let lanes = self.plan.lanes[inner.variable];
        let step = lanes as i64;
        let whole = extent.max(0) / step;
        let one_store = is_one_store(&inner.body);
        let mut vector = 0;
        if self.becomes_loop(inner, whole) {
            let unrolled = [4, 2].into_iter().find(|n| whole % n == 0).unwrap_or(1);
            let (start, trips) = (Bound::Constant(0), Bound::Constant(whole / unrolled));
            self.builder.open_loop(start, trips, step * unrolled, true, &[]);
            self.forget_all();
            let mut starts = Vec::new();
            for turn in 0..unrolled {
                let place = Binding::Loop(self.builder.depth());
                starts.push(self.builder.position());
                self.one_vector(inner, place, turn * step, all_lanes(lanes))?;
            }
            if one_store {
                self.builder.interleave(&starts);
            }
            self.builder.close_loop(&[]);
            self.forget_all();
            vector = whole;
        }
        let mut starts = Vec::new();
        self.turns.begin();
        while vector * step < extent {
            self.turns.turn();
            starts.push(self.builder.position());
            let left = (extent - vector * step).min(step);
            let lost = usize::from(base::fault::is_seeded("x64.mask") && left > 1);
            let tail = all_lanes(left as usize - lost);
            self.one_vector(inner, Binding::Constant(vector * step), 0, tail)?;
            vector += 1;
            if starts.len() == VECTORS || vector * step >= extent {
                if one_store {
                    self.builder.interleave(&starts);
                }
                starts.clear();
            }
        }
        self.turns.end();
        self.bindings[inner.variable] = Binding::None;
        Ok(())
    }

    fn one_vector(
        &mut self,
        inner: &Loop,
        place: Binding,
        offset: i64,
        tail: u32,
    ) -> base::Result<()> {
        let (symbol, lanes) = (inner.variable, self.plan.lanes[inner.variable]);
        self.bindings[symbol] = place;
        self.vector = Some(VectorLoop { symbol, lanes, offset, tail });
        let result = self.block(&inner.body);
        self.vector = None;
        result
    }

    // Register buffers across control flow.

    /// The slots of the register buffers that a block writes, with a value of each one's form.
    fn written_slots(&mut self, block: &[Stmt]) -> Vec<(usize, Evaluated)> {
        let mut buffers = std::collections::BTreeSet::new();
        let kernel: &Kernel = self.kernel;
        loops::visit::walk(block, &mut |stmt| match stmt {
            Stmt::Store { buffer, .. } | Stmt::Reduce { buffer, .. }
                if kernel.buffers[*buffer].scope == Scope::Register =>
            {
                buffers.insert(*buffer);
            }
            _ => {}
        });
        let mut slots = Vec::new();
        for buffer in buffers {
            let Some(registers) = self.plan.registers[buffer] else { continue };
            let form = match carrier(kernel.buffers[buffer].dtype) {
                Some(Carrier::Lane(lane)) => {
                    let lanes = registers.lanes;
                    Evaluated::Vector(Vector { item: Item::Constant(0), lane, lanes })
                }
                _ => Evaluated::Mask(Mask::Constant(0), registers.lanes),
            };
            slots.extend((0..registers.count).map(|index| (registers.first + index, form)));
        }
        slots
    }

    /// The values of slots, in registers.
    fn slot_values(&mut self, slots: &[(usize, Evaluated)]) -> Vec<VRegId> {
        let mut values = Vec::with_capacity(slots.len());
        for (slot, form) in slots {
            let value = self.slots[*slot].unwrap_or(*form);
            values.push(self.in_register(value, form.lanes()));
        }
        values
    }

    /// What a loop's carried slots begin with. Zeros are each made where they are wanted: copies of
    /// one would keep it in a register all along, and take as long.
    fn entries(&mut self, slots: &[(usize, Evaluated)]) -> Vec<VRegId> {
        let mut values = Vec::with_capacity(slots.len());
        for (slot, form) in slots {
            let value = self.slots[*slot].unwrap_or(*form);
            values.push(match value {
                Evaluated::Vector(Vector { item: Item::Constant(0), lane, lanes }) => {
                    let zero = Inst::new(Opcode::Zero, lane, &[]);
                    self.builder.emit_apart(zero, register_type(lane, lanes))
                }
                value => self.in_register(value, form.lanes()),
            });
        }
        values
    }

    fn set_slots(&mut self, slots: &[(usize, Evaluated)], values: &[VRegId]) {
        for ((slot, form), value) in slots.iter().zip(values) {
            self.slots[*slot] = Some(self.register_as(*form, *value));
        }
    }

    /// Forgets loaded values but those of scopes up to a depth.
    pub(super) fn trim_loaded(&mut self, depth: u32) {
        let builder = &self.builder;
        self.loaded.retain(|loaded| builder.depth_of(loaded.value) <= depth);
        self.blocks.retain(|block| builder.depth_of(block.value()) <= depth);
        self.asked.clear();
    }

    // Branches.

    fn branch(
        &mut self,
        conditions: &[Condition],
        then: &[Stmt],
        otherwise: &[Stmt],
    ) -> base::Result<()> {
        let lanes = self.vector_lanes();
        match self.holds(conditions, lanes)? {
            Holds::Constant(true) => self.block(then),
            Holds::Constant(false) => self.block(otherwise),
            Holds::Lanes(on) => {
                self.under(on, |selector| selector.block(then))?;
                if otherwise.is_empty() {
                    return Ok(());
                }
                let not = self.mask_not(on.mask, lanes);
                self.under(not.into(), |selector| selector.block(otherwise))
            }
            Holds::Uniform(condition) => {
                let mut carried = self.written_slots(then);
                carried.extend(self.written_slots(otherwise));
                carried.sort_by_key(|(slot, _)| *slot);
                carried.dedup_by_key(|(slot, _)| *slot);
                let before = self.slots.clone();
                let mut branching =
                    self.builder.open_branch(Cond::NotEqual, condition, IntOperand::Imm(0));
                self.block(then)?;
                let results = self.slot_values(&carried);
                self.builder.next_arm(&mut branching, results);
                self.trim_loaded(self.builder.depth() - 1);
                self.slots = before;
                self.block(otherwise)?;
                let results = self.slot_values(&carried);
                let merged = self.builder.close_branch(branching, results);
                self.trim_loaded(self.builder.depth());
                self.set_slots(&carried, &merged);
                Ok(())
            }
        }
    }

    fn while_loop(
        &mut self,
        setup: &[Stmt],
        condition: &ScalarExpr,
        body: &[Stmt],
    ) -> base::Result<()> {
        if self.vector.is_some() {
            return Err(self.refuse("a vector loop holds a while loop".to_string()));
        }
        let mut carried = self.written_slots(setup);
        carried.extend(self.written_slots(body));
        carried.sort_by_key(|(slot, _)| *slot);
        carried.dedup_by_key(|(slot, _)| *slot);
        let entries = self.slot_values(&carried);
        let params = self.builder.open_while(&entries);
        self.forget_all();
        self.set_slots(&carried, &params);
        self.block(setup)?;
        let holds = match self.evaluate(condition, 1)? {
            Evaluated::Mask(mask, lanes) => self.mask_as_bits(mask, lanes),
            Evaluated::Vector(_) => {
                return Err(self.refuse("the condition of a while loop is no bool".to_string()));
            }
        };
        let holds = self.builder.int_imm(Opcode::IntAndImm, holds, 1);
        let last = self.slot_values(&carried);
        let exit = self.builder.while_holds(holds);
        self.block(body)?;
        let next = self.slot_values(&carried);
        self.builder.close_while(exit, next, &last);
        self.forget_all();
        self.set_slots(&carried, &last);
        Ok(())
    }

    // Single statements.

    fn reduce(
        &mut self,
        buffer: BufferId,
        index: &[Expr],
        reduction: Reduction,
        value: &ScalarExpr,
    ) -> base::Result<()> {
        let lanes = self.vector_lanes();
        let dtype = self.kernel.buffers[buffer].dtype;
        if lanes > 1 && !index.iter().any(|expr| self.expr_differs_by_lane(expr)) {
            let name = &self.kernel.buffers[buffer].name;
            return Err(self.refuse(format!("a vector loop reduces to one element of `{name}`")));
        }
        let result = match value {
            ScalarExpr::Apply { function: ScalarFunction::Mul, arguments, .. }
                if reduction == Reduction::Sum && dtype.is_float() && arguments.len() == 2 =>
            {
                let a = self.evaluate(&arguments[0], lanes)?;
                let b = self.evaluate(&arguments[1], lanes)?;
                let before = self.load(buffer, index, lanes)?;
                self.function(ScalarFunction::FusedMultiplyAdd, dtype, &[a, b, before], lanes)?
            }
            _ => {
                let value = self.evaluate(value, lanes)?;
                let before = self.load(buffer, index, lanes)?;
                self.combine(reduction, dtype, before, value, lanes)?
            }
        };
        self.store(buffer, index, result, lanes)
    }

    /// Whether a value is an element that does not change and is read in no loop that this is not
    /// in: a vector's statements hold none. What is gathered is better kept.
    fn may_load_later(&self, value: &ScalarExpr) -> bool {
        let ScalarExpr::Load { buffer, index } = value else { return false };
        let scope = self.kernel.buffers[*buffer].scope;
        let gathers = index.iter().any(|expr| {
            expr.any_symbol(&mut |symbol| matches!(self.bindings[symbol], Binding::Lanes(_)))
        });
        self.vector.is_some() && scope == Scope::Parameter(Access::Read) && !gathers
    }

    fn bind(&mut self, symbol: SymbolId, value: &ScalarExpr) -> base::Result<()> {
        let SymbolKind::Value { dtype, range } = &self.kernel.symbols[symbol].kind else {
            let name = &self.kernel.symbols[symbol].name;
            return Err(self.refuse(format!("`{name}` is bound but is no value")));
        };
        let lanes = if self.differs_by_lane(value) { self.vector_lanes() } else { 1 };
        let Some(range) = range.filter(|_| *dtype == DType::I64) else {
            self.lets[symbol] = Some(match self.may_load_later(value) {
                true => Held::Load(Rc::new(value.clone())),
                false => Held::Value(self.evaluate(value, lanes)?),
            });
            return Ok(());
        };
        if lanes == 1 {
            let int = self.int_value(value)?;
            let any = self.any_lane();
            self.check_range(int, range, any);
            self.bindings[symbol] = Binding::Int(int);
            let value = Evaluated::Vector(self.vector_of_int(int, Lane::I64));
            self.lets[symbol] = Some(Held::Value(value));
            return Ok(());
        }
        // A short index is read nowhere but in places of elements, which take its lanes.
        let integer = match self.plan.short_indices.contains(&symbol) {
            true => short_integer(self.kernel, value),
            false => None,
        };
        let evaluated = self.evaluate(integer.unwrap_or(value), lanes)?;
        if integer.is_none() {
            self.lets[symbol] = Some(Held::Value(evaluated));
        }
        let Evaluated::Vector(vector) = evaluated else {
            return Err(self.refuse("an index is no integer".to_string()));
        };
        let dtype = integer.and_then(|integer| integer.dtype(self.kernel));
        self.bind_lanes(symbol, vector, range, dtype);
        Ok(())
    }

    /// Returns a fault if an integer is outside a range, and `active` is nonzero.
    pub(super) fn check_range(&mut self, value: VRegId, range: Range, active: Option<VRegId>) {
        let code = program::Fault::IndexOutOfRange.code();
        let value = match active {
            None => value,
            Some(active) => {
                let fine = self.builder.int_const(range.min);
                self.builder.int(Opcode::IntSelect, &[value, fine, active])
            }
        };
        for (cond, limit) in [(Cond::GreaterEqual, range.min), (Cond::LessEqual, range.max)] {
            if limit == i64::MIN || limit == i64::MAX {
                continue;
            }
            let right = match i32::try_from(limit) {
                Ok(limit) => IntOperand::Imm(limit),
                Err(_) => IntOperand::Value(self.builder.int_const(limit)),
            };
            self.builder.require(cond, value, right, code);
        }
    }

    /// A value of an integer type as an integer, extended as its type says.
    fn int_value(&mut self, value: &ScalarExpr) -> base::Result<VRegId> {
        let dtype = value.dtype(self.kernel).unwrap_or(DType::I64);
        match value {
            ScalarExpr::Index(expr) => return Ok(self.int(expr)),
            ScalarExpr::Load { buffer, index }
                if dtype.is_integer()
                    && carrier(dtype).is_some()
                    && self.exec.is_none()
                    && self.kernel.buffers[*buffer].scope != Scope::Register =>
            {
                let linear = self.linear(*buffer, index);
                let address = self.address(*buffer, &linear);
                let lane = match dtype {
                    DType::U32 => Lane::U32,
                    _ => memory_lane(dtype),
                };
                let inst = Inst::new(Opcode::IntLoad, lane, &[]).address(address);
                return Ok(self.builder.emit(inst, RegisterType::Int));
            }
            ScalarExpr::Apply { function: ScalarFunction::Cast, dtype: DType::I64, arguments } => {
                let from = arguments[0].dtype(self.kernel);
                if from.is_some_and(|from| from.is_integer() && carrier(from).is_some()) {
                    return self.int_value(&arguments[0]);
                }
            }
            _ => {}
        }
        match self.evaluate(value, 1)? {
            Evaluated::Vector(vector) => Ok(self.integers(dtype, vector, APART)[0]),
            Evaluated::Mask(..) => Err(self.refuse("an index is no integer".to_string())),
        }
    }
}
