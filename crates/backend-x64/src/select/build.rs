//! Writing vcode: where instructions go.
//!
//! The builder holds a stack of open scopes, the function's body outermost; each is a loop's body
//! or a branch's arm and has one open block, and all but the innermost wait for the scope inside to
//! close. A value's *depth* is the scope that defines it; from there on it is visible in every open
//! scope at least as deep. So a pure instruction goes to the deepest scope of its operands, which
//! moves it out of every loop it does not depend on, and is found again instead of repeated.
//!
//! Loops are closed by a latch block, so that no edge is critical. Their induction variables are
//! made when asked for.

use backend::Isa;
use base::{Arena, Id};
use rustc_hash::FxHashMap;

use super::constants::load_constants_once;
use super::fold::fold_loads;
use super::numbering::Numbering;
use super::products::products_first;
use super::tidy::{remove_unused, reorder};
use super::vector_registers;
use crate::vcode::op::PURE;
use crate::vcode::{
    Base, BasicBlock, BlockId, Cond, Inst, IntOperand, Lane, MadeFor, MemoryOperand, Opcode,
    PoolId, RegisterType, Terminator, VCode, VRegId,
};

/// Blocks have room for so many instructions before they grow.
const FEW: usize = 32;

/// A function under construction.
pub(crate) struct Builder {
    pub(crate) function: VCode,
    pub(crate) isa: Isa,
    /// Blocks in the order in which they will be laid out.
    order: Vec<BlockId>,
    scopes: Vec<Scope>,
    /// What is known of each value.
    known: Arena<VRegId, Known>,
    /// How many scopes have been opened.
    opened: u32,
    numbered: Numbering,
    pooled: FxHashMap<Vec<u8>, PoolId>,
    /// Whether vector constants live in registers for the whole kernel.
    pub(crate) keep_constants: bool,
    /// The least depth at which pure instructions are put.
    least_depth: u32,
    /// The statement that is being written.
    pub(crate) made_for: MadeFor,
}

/// What is known of a value.
struct Known {
    /// The depth of the scope that defines it, and the scope's number.
    depth: u32,
    scope: u32,
    /// Its number if it is an integer constant.
    integer: Option<i64>,
}

struct Scope {
    block: BlockId,
    /// Its number among all that have been opened.
    number: u32,
    looped: Option<LoopScope>,
}

/// A loop whose body is being written.
struct LoopScope {
    header: BlockId,
    /// Arguments that the preheader passes, one a parameter.
    entries: Vec<VRegId>,
    /// Arguments that the latch passes; those of inductions are added when the loop closes.
    inductions: Vec<Induction>,
    start: Bound,
    trips: Bound,
    step: i64,
    variable: Option<VRegId>,
    innermost: bool,
}

struct Induction {
    entry: VRegId,
    step: i64,
    param: VRegId,
}

/// A number known now or when running.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Bound {
    Constant(i64),
    Value(VRegId),
}

/// An If whose arms are being written.
pub(crate) struct Branching {
    otherwise: BlockId,
    ends: Vec<(BlockId, Vec<VRegId>)>,
}

impl Builder {
    pub(crate) fn new(name: &str, isa: Isa) -> Builder {
        let function = VCode::new(name);
        let entry = BlockId::new(0);
        let known = function.values.values().map(|_| Known { depth: 0, scope: 0, integer: None });
        let known = known.collect();
        Builder {
            function,
            isa,
            order: vec![entry],
            scopes: vec![Scope { block: entry, number: 0, looped: None }],
            known,
            opened: 0,
            numbered: Numbering::default(),
            pooled: FxHashMap::default(),
            keep_constants: false,
            least_depth: 0,
            made_for: MadeFor::default(),
        }
    }

    pub(crate) fn has_masks(&self) -> bool {
        self.isa.has_avx512()
    }

    /// Whether there is an instruction that rounds to bf16.
    pub(crate) fn has_bf16(&self) -> bool {
        self.isa == Isa::X86Avx512Bf16
    }

    /// Whether bytes of a register can be picked by bytes, from anywhere in it.
    pub(crate) fn permutes_bytes(&self) -> bool {
        self.isa == Isa::X86Avx512Bf16
    }

    /// The instruction set.
    pub(crate) fn isa(&self) -> Isa {
        self.isa
    }

    /// The depth of the innermost scope.
    pub(crate) fn depth(&self) -> u32 {
        self.scopes.len() as u32 - 1
    }

    pub(crate) fn depth_of(&self, value: VRegId) -> u32 {
        self.known[value].depth
    }

    pub(crate) fn type_of(&self, value: VRegId) -> RegisterType {
        self.function.values[value]
    }

    fn define(&mut self, ty: RegisterType, depth: u32) -> VRegId {
        let scope = self.scopes.get(depth as usize).map_or(0, |scope| scope.number);
        self.known.push(Known { depth, scope, integer: None });
        self.function.values.push(ty)
    }

    /// Whether the scope that defines a value is open.
    pub(super) fn is_visible(&self, value: VRegId) -> bool {
        let known = &self.known[value];
        let scope = self.scopes.get(known.depth as usize);
        scope.is_some_and(|scope| scope.number == known.scope)
    }

    /// Emits an instruction with a result. A pure one goes where its operands allow and is shared.
    pub(crate) fn emit(&mut self, inst: Inst, ty: RegisterType) -> VRegId {
        if !inst.op.has(PURE) {
            let depth = self.depth();
            return self.push(inst, Some(ty), depth);
        }
        let (mut depth, mut has_constants) = (0, false);
        inst.each_use(|value| {
            let known = &self.known[value];
            match known.integer {
                None => depth = depth.max(known.depth),
                Some(_) => has_constants = true,
            }
        });
        let inst = if has_constants { self.with_constants_at(inst, depth) } else { inst };
        let constant = matches!(inst.op, Opcode::Zero | Opcode::Ones | Opcode::Constant);
        if inst.op == Opcode::IntConst || constant && !self.keep_constants {
            depth = self.depth();
        }
        self.emit_at(inst, ty, depth.max(self.least_depth))
    }

    /// The instruction with its constant operands written where it goes itself, so that a constant
    /// made inside of a loop does not keep its reader there.
    fn with_constants_at(&mut self, mut inst: Inst, depth: u32) -> Inst {
        let mut moved = |value: &mut VRegId| {
            let known = &self.known[*value];
            if let Some(imm) = known.integer
                && known.depth > depth
            {
                let constant = Inst::new(Opcode::IntConst, Lane::I64, &[]).imm(imm);
                *value = self.emit_at(constant, RegisterType::Int, depth);
            }
        };
        inst.args.iter_mut().for_each(&mut moved);
        if let Some(address) = &mut inst.address {
            if let Base::Value(base) = &mut address.base {
                moved(base);
            }
            if let Some((index, _)) = &mut address.index {
                moved(index);
            }
        }
        inst
    }

    /// Emits a pure instruction in the scope of a depth, unless it is known there.
    pub(crate) fn emit_at(&mut self, inst: Inst, ty: RegisterType, depth: u32) -> VRegId {
        let known = self.numbered.find(&inst, |known| {
            self.known[known].depth <= depth
                && self.function.values[known] == ty
                && self.is_visible(known)
        });
        let missing = match known {
            Ok(known) => return known,
            Err(missing) => missing,
        };
        let value = self.push(inst.clone(), Some(ty), depth);
        if inst.op == Opcode::IntConst {
            self.known[value].integer = Some(inst.imm);
        }
        self.numbered.insert(missing, inst, value);
        value
    }

    /// Emits an instruction that shares its result with no other.
    pub(crate) fn emit_apart(&mut self, inst: Inst, ty: RegisterType) -> VRegId {
        let depth = self.depth();
        self.push(inst, Some(ty), depth)
    }

    /// Emits an instruction without a result.
    pub(crate) fn effect(&mut self, inst: Inst) {
        let depth = self.depth();
        self.push(inst, None, depth);
    }

    fn push(&mut self, mut inst: Inst, ty: Option<RegisterType>, depth: u32) -> VRegId {
        let result = ty.map(|ty| self.define(ty, depth));
        inst.result = result;
        inst.made_for = self.made_for;
        if matches!(inst.op, Opcode::Gather | Opcode::Scatter) {
            let mask =
                inst.args.iter().last().map_or(RegisterType::Mask, |mask| self.type_of(mask));
            inst.lost = Some(self.define(mask, depth));
        }
        let block = self.scopes[depth as usize].block;
        let insts = &mut self.function.blocks[block].insts;
        if insts.is_empty() {
            insts.reserve(FEW);
        }
        insts.push(inst);
        result.unwrap_or(VRegId::new(0))
    }

    /// A constant behind the code.
    pub(crate) fn pool(&mut self, bytes: Vec<u8>) -> PoolId {
        if let Some(known) = self.pooled.get(&bytes) {
            return *known;
        }
        let id = self.function.pool.push(bytes.clone());
        self.pooled.insert(bytes, id);
        id
    }

    // Integers.

    pub(crate) fn int_const(&mut self, value: i64) -> VRegId {
        self.emit(Inst::new(Opcode::IntConst, Lane::I64, &[]).imm(value), RegisterType::Int)
    }

    pub(crate) fn int(&mut self, op: Opcode, args: &[VRegId]) -> VRegId {
        self.emit(Inst::new(op, Lane::I64, args), RegisterType::Int)
    }

    pub(crate) fn int_imm(&mut self, op: Opcode, arg: VRegId, imm: i64) -> VRegId {
        self.emit(Inst::new(op, Lane::I64, &[arg]).imm(imm), RegisterType::Int)
    }

    pub(crate) fn add_imm(&mut self, value: VRegId, imm: i64) -> VRegId {
        if imm == 0 {
            return value;
        }
        match i32::try_from(imm) {
            Ok(imm) => {
                let address = MemoryOperand::new(value, imm);
                self.emit(
                    Inst::new(Opcode::Lea, Lane::I64, &[]).address(address),
                    RegisterType::Int,
                )
            }
            Err(_) => {
                let imm = self.int_const(imm);
                self.int(Opcode::IntAdd, &[value, imm])
            }
        }
    }

    pub(crate) fn mul_imm(&mut self, value: VRegId, factor: i64) -> VRegId {
        match factor {
            0 => self.int_const(0),
            1 => value,
            _ if factor > 0 && factor.count_ones() == 1 => {
                self.int_imm(Opcode::IntShlImm, value, i64::from(factor.trailing_zeros()))
            }
            _ if i32::try_from(factor).is_ok() => self.int_imm(Opcode::IntMulImm, value, factor),
            _ => {
                let factor = self.int_const(factor);
                self.int(Opcode::IntMul, &[value, factor])
            }
        }
    }

    /// `base + value * factor`, by one instruction where the machine can scale.
    pub(crate) fn add_scaled(&mut self, base: VRegId, value: VRegId, factor: i64) -> VRegId {
        if matches!(factor, 1 | 2 | 4 | 8) {
            let address =
                MemoryOperand { index: Some((value, factor as u8)), ..MemoryOperand::new(base, 0) };
            return self
                .emit(Inst::new(Opcode::Lea, Lane::I64, &[]).address(address), RegisterType::Int);
        }
        let scaled = self.mul_imm(value, factor);
        self.int(Opcode::IntAdd, &[base, scaled])
    }

    // Control flow.

    fn start_block(&mut self, block: BlockId) {
        self.order.push(block);
    }

    fn new_block(&mut self) -> BlockId {
        self.function.blocks.push(BasicBlock::default())
    }

    fn open_scope(&mut self, block: BlockId, looped: Option<LoopScope>) {
        self.opened += 1;
        self.scopes.push(Scope { block, number: self.opened, looped });
    }

    fn close_scope(&mut self) -> Scope {
        self.scopes.pop().unwrap_or_else(|| unreachable!("the body never closes"))
    }

    pub(super) fn current(&self) -> BlockId {
        self.scopes[self.scopes.len() - 1].block
    }

    fn end(&mut self, terminator: Terminator) {
        self.end_block(self.current(), terminator);
    }

    fn end_block(&mut self, block: BlockId, terminator: Terminator) {
        let block = &mut self.function.blocks[block];
        (block.end, block.end_for) = (terminator, self.made_for);
    }

    /// Opens a loop that runs at least once and returns its carried values: the parameters that
    /// start as `carried`. Its variable runs from `start` in steps of `step`.
    pub(crate) fn open_loop(
        &mut self,
        start: Bound,
        trips: Bound,
        step: i64,
        innermost: bool,
        carried: &[VRegId],
    ) -> Vec<VRegId> {
        let header = self.new_block();
        self.start_block(header);
        self.function.blocks[header].aligned = innermost;
        let depth = self.depth() + 1;
        let params: Vec<VRegId> = carried
            .iter()
            .map(|entry| {
                let ty = self.type_of(*entry);
                self.define(ty, depth)
            })
            .collect();
        self.function.blocks[header].params = params.clone();
        let looped = LoopScope {
            header,
            entries: carried.to_vec(),
            inductions: Vec::new(),
            start,
            trips,
            step,
            variable: None,
            innermost,
        };
        self.open_scope(header, Some(looped));
        params
    }

    fn loop_at(&self, depth: u32) -> &LoopScope {
        match &self.scopes[depth as usize].looped {
            Some(looped) => looped,
            None => unreachable!("the scope is a loop's"),
        }
    }

    fn looped(&mut self, depth: u32) -> &mut LoopScope {
        match &mut self.scopes[depth as usize].looped {
            Some(looped) => looped,
            None => unreachable!("the scope is a loop's"),
        }
    }

    /// Whether the scope of a depth is a loop without loops inside.
    pub(crate) fn is_innermost(&self, depth: u32) -> bool {
        self.loop_at(depth).innermost
    }

    /// The variable of the loop at a depth.
    pub(crate) fn loop_variable(&mut self, depth: u32) -> VRegId {
        if let Some(variable) = self.looped(depth).variable {
            return variable;
        }
        let entry = match self.looped(depth).start {
            Bound::Constant(value) => {
                let inst = Inst::new(Opcode::IntConst, Lane::I64, &[]).imm(value);
                self.emit_at(inst, RegisterType::Int, depth - 1)
            }
            Bound::Value(value) => value,
        };
        let step = self.looped(depth).step;
        let variable = self.induction(depth, entry, step);
        self.looped(depth).variable = Some(variable);
        variable
    }

    /// Where the loop's variable starts.
    pub(crate) fn loop_start(&self, depth: u32) -> Bound {
        self.loop_at(depth).start
    }

    /// How far the loop's variable goes in one turn.
    pub(crate) fn loop_step(&self, depth: u32) -> i64 {
        self.loop_at(depth).step
    }

    /// A value that starts as `entry`, of an outer scope, and grows by `step` each turn of the loop
    /// at a depth.
    pub(crate) fn induction(&mut self, depth: u32, entry: VRegId, step: i64) -> VRegId {
        let looped = self.looped(depth);
        let same = |known: &&Induction| known.entry == entry && known.step == step;
        if let Some(known) = looped.inductions.iter().find(same) {
            return known.param;
        }
        let header = looped.header;
        let param = self.define(RegisterType::Int, depth);
        self.function.blocks[header].params.push(param);
        let looped = self.looped(depth);
        looped.entries.push(entry);
        looped.inductions.push(Induction { entry, step, param });
        param
    }

    /// Closes the innermost loop. `carried` are the values that the next turn starts with, which
    /// are also what the values are after the loop.
    pub(crate) fn close_loop(&mut self, carried: &[VRegId]) {
        let depth = self.depth();
        let (trips, step, start) = {
            let looped = self.looped(depth);
            (looped.trips, looped.step, looped.start)
        };
        let variable = self.looped(depth).variable;
        // Count up where there is a variable anyway, else down to zero.
        let upper = match (start, trips) {
            (Bound::Constant(start), Bound::Constant(trips)) => {
                i32::try_from(start + trips * step).ok()
            }
            _ => None,
        };
        let counts_up = variable.filter(|_| upper.is_some());
        let counter = match counts_up {
            Some(variable) => variable,
            None => {
                let outer = depth - 1;
                let entry = match trips {
                    Bound::Constant(value) => {
                        let inst = Inst::new(Opcode::IntConst, Lane::I64, &[]).imm(value);
                        self.emit_at(inst, RegisterType::Int, outer)
                    }
                    Bound::Value(value) => value,
                };
                self.induction(depth, entry, -1)
            }
        };
        let mut args = carried.to_vec();
        let mut left = counter;
        let steps: Vec<(VRegId, i64)> =
            self.looped(depth).inductions.iter().map(|one| (one.param, one.step)).collect();
        for (param, step) in steps.into_iter().filter(|one| one.0 != counter) {
            args.push(self.advance(param, step, depth));
        }
        // The counter's step comes last, next to the branch on it.
        let position = self.looped(depth).inductions.iter().position(|one| one.param == counter);
        let counter_step = if counts_up.is_some() { step } else { -1 };
        left = self.advance(left, counter_step, depth);
        args.insert(carried.len() + position.unwrap_or(0), left);
        let (latch, exit) = (self.new_block(), self.new_block());
        let (cond, right) = match counts_up.and(upper) {
            Some(upper) => (Cond::Less, IntOperand::Imm(upper)),
            None => (Cond::NotEqual, IntOperand::Imm(0)),
        };
        self.end(Terminator::Branch { cond, left, right, then: latch, otherwise: exit });
        self.start_block(latch);
        self.start_block(exit);
        let scope = self.close_scope();
        let looped = scope.looped.unwrap_or_else(|| unreachable!("the scope is a loop's"));
        self.end_block(latch, Terminator::Jump(looped.header, args));
        self.end(Terminator::Jump(looped.header, looped.entries));
        let last = self.scopes.len() - 1;
        self.scopes[last].block = exit;
        for value in carried {
            let known = &mut self.known[*value];
            known.depth = known.depth.min(depth - 1);
        }
    }

    fn advance(&mut self, param: VRegId, step: i64, depth: u32) -> VRegId {
        match i32::try_from(step) {
            Ok(step) => {
                let inst =
                    Inst::new(Opcode::Lea, Lane::I64, &[]).address(MemoryOperand::new(param, step));
                self.push(inst, Some(RegisterType::Int), depth)
            }
            Err(_) => {
                let step = self.int_const(step);
                let inst = Inst::new(Opcode::IntAdd, Lane::I64, &[param, step]);
                self.push(inst, Some(RegisterType::Int), depth)
            }
        }
    }

    /// From here on pure instructions go no further out than the innermost scope, which is rarely
    /// run; what held before is returned, and is to be [restored](Self::restore) at its end.
    pub(crate) fn runs_rarely(&mut self) -> u32 {
        let depth = self.depth();
        std::mem::replace(&mut self.least_depth, depth)
    }

    /// Ends what [`Self::runs_rarely`] began.
    pub(crate) fn restore(&mut self, least_depth: u32) {
        self.least_depth = least_depth;
    }

    /// Goes into the first arm of an If.
    pub(crate) fn open_branch(&mut self, cond: Cond, left: VRegId, right: IntOperand) -> Branching {
        let (then, otherwise) = (self.new_block(), self.new_block());
        self.end(Terminator::Branch { cond, left, right, then, otherwise });
        self.start_block(then);
        self.open_scope(then, None);
        Branching { otherwise, ends: Vec::new() }
    }

    /// Ends the first arm, whose results are `results`, and goes into the second.
    pub(crate) fn next_arm(&mut self, branching: &mut Branching, results: Vec<VRegId>) {
        let scope = self.close_scope();
        branching.ends.push((scope.block, results));
        self.start_block(branching.otherwise);
        self.open_scope(branching.otherwise, None);
    }

    /// Ends the second arm and returns one value a result: that of the arm which ran.
    pub(crate) fn close_branch(
        &mut self,
        mut branching: Branching,
        results: Vec<VRegId>,
    ) -> Vec<VRegId> {
        let scope = self.close_scope();
        branching.ends.push((scope.block, results));
        let join = self.new_block();
        self.start_block(join);
        let depth = self.depth();
        let mut merged = Vec::new();
        let count = branching.ends[0].1.len();
        for index in 0..count {
            let ty = self.type_of(branching.ends[0].1[index]);
            merged.push(self.define(ty, depth));
        }
        self.function.blocks[join].params = merged.clone();
        for (block, results) in branching.ends {
            self.end_block(block, Terminator::Jump(join, results));
        }
        let last = self.scopes.len() - 1;
        self.scopes[last].block = join;
        merged
    }

    /// Returns a fault code where the comparison does not hold.
    pub(crate) fn require(&mut self, cond: Cond, left: VRegId, right: IntOperand, code: i32) {
        let (fine, fault) = (self.new_block(), self.new_block());
        self.end(Terminator::Branch { cond, left, right, then: fine, otherwise: fault });
        self.end_block(fault, Terminator::Return(code));
        self.start_block(fine);
        // Faults are laid out behind everything else.
        let last = self.scopes.len() - 1;
        self.scopes[last].block = fine;
    }

    /// Opens a While: the header that the condition's setup is written into.
    pub(crate) fn open_while(&mut self, carried: &[VRegId]) -> Vec<VRegId> {
        self.open_loop(Bound::Constant(0), Bound::Constant(0), 0, false, carried)
    }

    /// Leaves the loop of [`Self::open_while`] unless `condition` is nonzero. Returns where to.
    pub(crate) fn while_holds(&mut self, condition: VRegId) -> BlockId {
        let (body, exit) = (self.new_block(), self.new_block());
        self.end(Terminator::Branch {
            cond: Cond::NotEqual,
            left: condition,
            right: IntOperand::Imm(0),
            then: body,
            otherwise: exit,
        });
        self.start_block(body);
        let last = self.scopes.len() - 1;
        self.scopes[last].block = body;
        exit
    }

    /// Closes the loop of [`Self::open_while`]. `next` are the values that the next turn starts
    /// with, `last` those at the exit, which is where writing goes on.
    pub(crate) fn close_while(&mut self, exit: BlockId, next: Vec<VRegId>, last: &[VRegId]) {
        let depth = self.depth();
        let scope = self.close_scope();
        let looped = scope.looped.unwrap_or_else(|| unreachable!("the scope is a loop's"));
        self.end_block(scope.block, Terminator::Jump(looped.header, next));
        self.end(Terminator::Jump(looped.header, looped.entries));
        self.start_block(exit);
        let open = self.scopes.len() - 1;
        self.scopes[open].block = exit;
        for value in last {
            let known = &mut self.known[*value];
            known.depth = known.depth.min(depth - 1);
        }
    }

    /// Ends the kernel and returns the function, its blocks in layout order and without what
    /// nothing uses.
    pub(crate) fn finish(mut self) -> VCode {
        self.end(Terminator::Return(0));
        let mut order = std::mem::take(&mut self.order);
        let mut placed = vec![false; self.function.blocks.len()];
        order.iter().for_each(|block| placed[block.index()] = true);
        order.extend(self.function.blocks.ids().filter(|block| !placed[block.index()]));
        let mut function = reorder(self.function, &order);
        let has_avx512 = self.isa.has_avx512();
        fold_loads(&mut function, has_avx512);
        products_first(&mut function, vector_registers(self.isa));
        remove_unused(&mut function);
        load_constants_once(&mut function, vector_registers(self.isa));
        function
    }
}
