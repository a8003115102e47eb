//! What a scheduled kernel should take: one model for the kernels of all strategies, so that they
//! can be compared, and for what `explain` predicts.
//!
//! A kernel is walked once. What stands in written-out and vector loops is straight code, of which
//! the [`Work`] is counted: multiply-adds, loads, stores, rearrangements, each over what a core can
//! start in a cycle. A serial loop costs its turns times the larger of that and of what its sums
//! wait for. What accesses bring from beyond the first-level cache follows from the [`Traffic`] of
//! the loops around them. Source of the former: the port model of static analysers (Laukemann et
//! al., "Automated Instruction Stream Throughput Prediction for Intel and AMD Microarchitectures",
//! 2018); of the latter: the layer conditions of the roofline's successors (Stengel et al.,
//! "Quantifying Performance Bottlenecks of Stencil Computations Using the Execution-Cache-Memory
//! Model", 2015).
//!
//! Nothing here decides what is legal, and nothing is exact: free dimensions count as their usual
//! values, a `While` as one turn, an `If` as its costlier branch.

mod accesses;
mod traffic;
mod work;

use backend::{Instruction, InstructionCost, Target};
use base::SecondaryMap;
use loops::{
    Buffer, BufferId, Comparison, Condition, Kernel, Loop, LoopKind, ScalarExpr, Scope, Stmt,
    SymbolKind,
};
use sym::{Expr, SymbolId};

use crate::structure::is_guard;
use traffic::Traffic;
use work::Work;

/// Cycles to enter and to leave a serial loop: its first addresses, its last branch.
const LOOP: f64 = 6.0;

/// Cycles of a turn of a serial loop besides its work.
const TURN: f64 = 0.5;

/// Instructions that such a turn takes besides its work.
const OF_A_TURN: f64 = 2.0;

/// Rearrangements that put narrow elements side by side where no instruction stores them so.
const PACKING: f64 = 3.0;

/// Of the smaller of arithmetic and traffic, the share that the larger does not hide.
const NOT_HIDDEN: f64 = 0.2;

/// Cycles to call a kernel, and to return.
const CALL: f64 = 60.0;

/// A run of a program, as one of its kernels sees it: what passes by before its turn comes again.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct WholeRun {
    /// Bytes that it touches.
    pub bytes: u64,
    /// How long it takes.
    pub nanoseconds: f64,
}

/// What a kernel should cost, in cycles of one core.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Cost {
    /// Of the instructions, all data being in the first-level cache.
    pub instructions: f64,
    /// Of bringing data there, and of taking results away, level by level.
    pub traffic: f64,
    /// The same where what is read ahead moves between all levels at once.
    pub ahead: f64,
    /// Bytes that are read.
    pub read: f64,
    /// Bytes that are written.
    pub written: f64,
    /// Turns that workers can share.
    pub shared: i64,
}

impl Cost {
    /// Of a kernel in the scheduled form.
    #[must_use]
    pub fn of(kernel: &Kernel, target: &Target) -> Cost {
        let mut walk = Walk {
            kernel,
            target,
            around: Vec::new(),
            loops: 0,
            depends: SecondaryMap::new(),
            masked: false,
            guarded: Vec::new(),
            packed: false,
            copied: false,
            stored: Vec::new(),
            drains: false,
            begun: SecondaryMap::new(),
            known: SecondaryMap::new(),
            held: SecondaryMap::new(),
            spilled: spilled(kernel, target),
            traffic: Traffic::default(),
        };
        let straight = walk.block(&kernel.body);
        let instructions = CALL + straight.alone(target) + straight.left;
        let [traffic, ahead] = walk.traffic.cycles(target);
        let shared = kernel.weight(&kernel.parallel_extent());
        let [read, written] = [false, true].map(|written| walk.traffic.of_kernel(written));
        Cost { instructions, traffic, ahead, read, written, shared }
    }

    /// The same where so many bytes that were there before the run have been driven out of the
    /// caches by such a run before. They come while the kernel's own accesses are under way, and
    /// what those bring from as far is not brought again.
    #[must_use]
    pub fn after(self, target: &Target, prior: u64, run: &WholeRun) -> Cost {
        let machine = &target.machine;
        let stream = machine.stream_bytes_per_ns / machine.cycles_per_ns;
        let a_byte = match run.bytes as f64 {
            bytes if machine.l2.keeps(bytes) => 0.0,
            bytes if machine.l3.keeps(bytes) => {
                let stays = (-run.nanoseconds / machine.l3_stays_ns).exp();
                stays / machine.l3.reads + (1.0 - stays) / stream
            }
            _ => 1.0 / stream,
        };
        let driven_out = ((prior as f64).min(self.read) + self.written) * a_byte;
        let [traffic, ahead] = [self.traffic, self.ahead].map(|own| own.max(driven_out));
        Cost { traffic, ahead, ..self }
    }

    /// Cycles of one core. Memory is read ahead as far as nothing else is waited for; beside
    /// instructions that take longer, what each level brings takes its share of them.
    #[must_use]
    pub fn cycles(&self) -> f64 {
        match self.instructions < self.ahead {
            true => self.ahead + NOT_HIDDEN * self.instructions,
            false => self.instructions + NOT_HIDDEN * self.traffic.min(self.instructions),
        }
    }

    /// Nanoseconds with so many workers, which share the turns of the parallel loop.
    #[must_use]
    pub fn nanoseconds(&self, target: &Target, workers: usize) -> f64 {
        let workers = (workers as i64).min(self.shared).max(1);
        let turns = self.shared.max(1);
        let longest = (turns + workers - 1) / workers;
        let share = longest as f64 / turns as f64;
        self.cycles() / target.machine.cycles_per_ns * share
    }
}

/// How a loop is run.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    /// One turn after the other.
    Turns,
    Vector,
    WrittenOut,
    /// All turns at once, by an instruction that takes so long.
    Instruction(InstructionCost),
}

/// A loop around what is being looked at.
#[derive(Clone, Copy, Debug)]
struct Around {
    variable: SymbolId,
    extent: i64,
    kind: Kind,
    /// Of a vector.
    lanes: i64,
    /// It is the so manieth loop of the kernel.
    number: usize,
    /// Conditions tell its turns, which are written out, apart.
    differs: bool,
}

impl Around {
    /// Whether its turns are written out or run at once.
    fn is_straight(&self) -> bool {
        self.kind != Kind::Turns
    }

    /// Whether the vectors of a vector loop are written out: of many a loop is made.
    fn is_written_out(&self) -> bool {
        self.extent <= backend::VECTORS_WRITTEN_OUT * self.lanes
    }
}

/// What a block costs.
#[derive(Clone, Copy, Debug, Default)]
struct Straight {
    /// Cycles of its serial loops, one after the other.
    cycles: f64,
    /// Of these the ones in which units are busy; in the others what comes behind may run.
    busy: f64,
    /// Instructions of its serial loops.
    instructions: f64,
    /// Of what stands between them. Its latency is that of what stands behind the last one.
    work: Work,
    /// Cycles of the longest rows of steps before the serial loops, one after the other.
    before: f64,
    /// Cycles that its serial loops take longer where nothing comes behind them: from the beginning
    /// of the last turn to its end, less those of any other turn.
    left: f64,
    /// Cycles that a sum waits for the one before it, at least, each time the block is run.
    wait: f64,
    /// Whether a load waits until what was stored just before has left the processor, and with it
    /// all that came before.
    drains: bool,
}

impl Straight {
    /// Of straight code alone.
    fn of(work: Work) -> Straight {
        Straight { work, ..Straight::default() }
    }

    /// With what stands behind it.
    fn add(&mut self, other: &Straight) {
        if other.cycles > 0.0 {
            self.before += std::mem::take(&mut self.work.latency);
        }
        self.cycles += other.cycles;
        self.busy += other.busy;
        self.instructions += other.instructions;
        self.work.add(&other.work);
        self.before += other.before;
        self.left = self.left.max(other.left);
        self.wait = self.wait.max(other.wait);
        self.drains |= other.drains;
    }

    /// What a share of it costs.
    fn scaled(self, share: f64) -> Straight {
        Straight {
            cycles: self.cycles * share,
            busy: self.busy * share,
            instructions: self.instructions * share,
            work: self.work.scaled(share),
            before: self.before * share,
            left: self.left * share,
            wait: self.wait * share,
            drains: self.drains && share > 0.5,
        }
    }

    /// Cycles of it where nothing runs beside it.
    fn alone(&self, target: &Target) -> f64 {
        self.cycles + self.work.cycles(target) + self.before + self.work.latency
    }

    /// Cycles of a serial loop with so many turns. Turns that do not wait for each other overlap,
    /// as far as the processor looks ahead.
    fn turns(&self, extent: f64, target: &Target) -> Straight {
        let busy = self.busy + self.work.cycles(target) + TURN;
        let instructions = self.instructions + self.work.count() + OF_A_TURN;
        let alone = self.alone(target) + TURN;
        let seen = match self.drains {
            true => 1.0,
            false => (instructions / target.machine.looks_ahead).min(1.0),
        };
        let turn = busy.max(alone * seen).max(self.wait + TURN);
        Straight {
            cycles: LOOP + extent * turn,
            busy: extent * busy,
            instructions: extent * instructions,
            left: self.left.max(alone - turn),
            ..Straight::default()
        }
    }
}

struct Walk<'a> {
    kernel: &'a Kernel,
    target: &'a Target,
    /// The loops around what is looked at, outermost first.
    around: Vec<Around>,
    /// Loops looked at so far.
    loops: usize,
    /// Loops of straight code, as bits, on which the value of a `Let` depends.
    depends: SecondaryMap<SymbolId, u64>,
    /// Whether what is looked at is for some lanes alone, which are known only while running.
    masked: bool,
    /// What the conditions of the guards around depend on.
    guarded: Vec<SymbolId>,
    /// Whether elements stay packed as they are in memory.
    packed: bool,
    /// Whether what is stored is what is loaded, as it is.
    copied: bool,
    /// Buffers in scratch memory that were stored to in this turn, in straight code, and where
    /// along the last axis vectors of them begin.
    stored: Vec<(BufferId, Expr)>,
    /// Whether one of them was loaded across where they begin.
    drains: bool,
    /// Buffers in registers, and the loops around, by number, where they were last stored to.
    begun: SecondaryMap<BufferId, Vec<usize>>,
    /// Cycles from where straight code begins until the value of a `Let` is there.
    known: SecondaryMap<SymbolId, f64>,
    /// Cycles until what was stored to a buffer in registers or scratch memory is there.
    held: SecondaryMap<BufferId, f64>,
    /// The share of what is kept in registers that they are too few for, which lies in memory.
    spilled: f64,
    traffic: Traffic,
}

/// How often a loop is run that stands where elements are looked at closer.
const SELDOM: f64 = 1.0 / 8.0;

/// Vector registers that hold what is on its way, where others are too few.
const ON_THE_WAY: f64 = 4.0;

/// The share of the vectors of a kernel's buffers in registers that are more than there are.
fn spilled(kernel: &Kernel, target: &Target) -> f64 {
    let vectors = |buffer: &Buffer| {
        let elements: i64 = buffer.shape.iter().filter_map(Expr::as_constant).product();
        let bytes = u64::from(buffer.dtype.bits()).max(32) / 8 * elements.unsigned_abs();
        bytes.div_ceil(u64::from(target.vector_bytes))
    };
    let kept = kernel.buffers.values().filter(|buffer| buffer.scope == Scope::Register);
    let kept = kept.map(vectors).sum::<u64>() as f64;
    let registers = f64::from(target.vector_registers);
    match kept > registers {
        true => (kept + ON_THE_WAY - registers) / kept,
        false => 0.0,
    }
}

impl Walk<'_> {
    fn block(&mut self, block: &[Stmt]) -> Straight {
        let mut all = Straight::default();
        for stmt in block {
            let mut found = self.statement(stmt);
            found.drains |= std::mem::take(&mut self.drains);
            all.add(&found);
        }
        all
    }

    fn statement(&mut self, stmt: &Stmt) -> Straight {
        match stmt {
            Stmt::For(found) => self.counted(found),
            Stmt::If { conditions, then, otherwise } => {
                let led = || self.is_led(conditions) && then.iter().any(has_serial_loop);
                let seldom = || (otherwise.is_empty() && led()).then_some(SELDOM);
                if let Some(share) = self.share(conditions).or_else(seldom) {
                    let mut both = self.block(then).scaled(share);
                    both.work.instructions += 2.0;
                    // What it accesses, the more frequent code does, as a rule.
                    let traffic = std::mem::take(&mut self.traffic);
                    both.add(&self.block(otherwise).scaled(1.0 - share));
                    self.traffic = traffic;
                    return both;
                }
                let (then, otherwise) = (self.block(then), self.block(otherwise));
                let total = |own: &Straight| own.cycles + own.work.cycles(self.target);
                let mut costlier = if total(&then) < total(&otherwise) { otherwise } else { then };
                costlier.work.instructions += 2.0;
                costlier
            }
            Stmt::While { setup, condition, body } => {
                let mut all = self.block(setup);
                all.work.add(&self.value(condition).0);
                all.add(&self.block(body));
                all
            }
            Stmt::Let { symbol, value } => {
                let (mut work, depends) = self.value(value);
                self.depends[*symbol] = depends.loops;
                if self.in_half_registers() {
                    work.of_half_registers();
                }
                self.known[*symbol] = work.latency;
                Straight::of(work)
            }
            Stmt::Store { buffer, index, value } => {
                let to = self.kernel.buffers[*buffer].dtype;
                // Narrow elements of which nothing but bits is computed stay as they are.
                self.packed = to.bits() < 32
                    && is_packed(self.kernel, value, to)
                    && self.tuples(*buffer, index).is_none();
                self.copied = matches!(value, ScalarExpr::Load { .. });
                let mut work = self.value(value).0;
                work.add(&self.store(*buffer, index));
                match value {
                    _ if self.packed => work.narrow(f64::from(to.bits()) / 32.0),
                    ScalarExpr::Apply { function: tensor::ScalarFunction::Cast, .. } => {}
                    _ if to.bits() < 32 => {
                        let packs = !self.target.masks_narrow() && !is_moved(value);
                        let packing = if packs { PACKING } else { 1.0 };
                        work.widen(packing * self.instances(u64::MAX));
                    }
                    _ => {}
                }
                self.packed = false;
                // Narrow elements are stored one vector a cycle, whatever it holds.
                if to.bits() >= 32 && self.in_half_registers() {
                    work.of_half_registers();
                }
                if let Scope::Register = self.kernel.buffers[*buffer].scope {
                    self.begun[*buffer] = self.around.iter().map(|around| around.number).collect();
                    self.held[*buffer] = work.latency;
                }
                if let Scope::Scratch = self.kernel.buffers[*buffer].scope {
                    // What is read next.
                    work.latency += self.target.machine.store_to_load;
                    self.held[*buffer] = work.latency;
                    self.stored.extend(self.beginning(index).map(|place| (*buffer, place)));
                }
                Straight::of(work)
            }
            Stmt::Reduce { buffer, index, reduction, value } => {
                self.reduce(*buffer, index, *reduction, value)
            }
            Stmt::Prefetch { .. } => Straight::of(Work::default()),
        }
    }

    /// Of the turns of a serial loop the share in which a condition holds on its number alone.
    fn share(&self, conditions: &[Condition]) -> Option<f64> {
        let [Condition { left, comparison: Comparison::Less, right }] = conditions else {
            return None;
        };
        let (variable, at) = (left.as_symbol()?, right.as_constant()?);
        let around = self.around.iter().find(|around| around.variable == variable)?;
        let share = at as f64 / around.extent.max(1) as f64;
        (!around.is_straight()).then_some(share.clamp(0.0, 1.0))
    }

    /// Whether conditions depend on what elements hold.
    fn is_led(&self, conditions: &[Condition]) -> bool {
        let is_value = |symbol: &SymbolId| {
            matches!(self.kernel.symbols[*symbol].kind, SymbolKind::Value { .. })
        };
        let sides = conditions.iter().flat_map(|own| [&own.left, &own.right]);
        sides.flat_map(Expr::symbols).any(|symbol| is_value(&symbol))
    }

    fn counted(&mut self, found: &Loop) -> Straight {
        let extent = self.kernel.weight(&found.extent).max(0);
        // What is not run brings nothing either: a tail where usual extents are whole tiles.
        if extent == 0 {
            return Straight { cycles: LOOP, ..Straight::default() };
        }
        // Straight code with a loop inside is a loop as any other.
        let nested = found.body.iter().any(has_serial_loop);
        let kind = if nested { Kind::Turns } else { self.kind(&found.kind) };
        let lanes = match kind {
            Kind::Vector => lanes_of(self.kernel, &found.body, self.target),
            _ => 1,
        };
        let (variable, number) = (found.variable, self.loops);
        let differs = kind == Kind::WrittenOut && is_guard(&found.body, variable);
        let around = Around { variable, extent, kind, lanes, number, differs };
        self.loops += 1;
        self.around.push(around);
        if !around.is_straight() {
            self.forget();
        }
        let body = self.block(&found.body);
        self.around.pop();
        if around.is_straight() {
            return body;
        }
        self.stored.clear();
        self.forget();
        body.turns(extent as f64, self.target)
    }

    /// Of all that was computed before: it is there when straight code begins.
    fn forget(&mut self) {
        self.known.clear();
        self.held.clear();
    }

    fn kind(&self, kind: &LoopKind) -> Kind {
        match kind {
            LoopKind::Serial | LoopKind::Parallel => Kind::Turns,
            LoopKind::Vector => Kind::Vector,
            LoopKind::Unroll => Kind::WrittenOut,
            LoopKind::Instruction(name) => {
                let row = Instruction::named(name);
                let cost = row.and_then(|row| self.target.cost_of(row));
                cost.map_or(Kind::WrittenOut, Kind::Instruction)
            }
        }
    }

    /// The work of a sum's step, and how long it waits for the one before.
    fn reduce(
        &mut self,
        buffer: BufferId,
        index: &[Expr],
        reduction: tensor::Reduction,
        value: &ScalarExpr,
    ) -> Straight {
        let machine = &self.target.machine;
        let (mut latency, to_load) = (f64::from(machine.fma_latency), machine.store_to_load);
        let dtype = self.kernel.buffers[buffer].dtype;
        let in_registers = self.kernel.buffers[buffer].scope == Scope::Register;
        let instances = self.instances(u64::MAX);
        let mut work = match (self.instruction(), fused(self.kernel, buffer, reduction, value)) {
            (Some((cost, _)), _) => {
                latency = f64::from(cost.latency);
                self.at_once(value, cost, instances)
            }
            (None, Some(factors)) => {
                let mut work = self.multiply_add(instances);
                factors.iter().for_each(|factor| work.add(&self.value(factor).0));
                work
            }
            (None, None) => {
                let mut work = self.combination(reduction, dtype, instances);
                work.add(&self.value(value).0);
                work
            }
        };
        if !in_registers {
            work.add(&self.load(buffer, index).0);
            work.add(&self.store(buffer, index));
        }
        if self.in_half_registers() {
            work.of_half_registers();
        }
        work.latency = work.latency.max(self.held[buffer] + latency);
        self.held[buffer] = work.latency;
        let step = latency + if in_registers { 0.0 } else { to_load };
        let innermost = self.around.iter().rposition(|around| !around.is_straight());
        let Some(at) = innermost else { return Straight::of(work) };
        let moves = |around: &Around| index.iter().any(|axis| axis.contains(around.variable));
        if moves(&self.around[at]) {
            return Straight::of(work);
        }
        // A sum that begins in this turn waits for none of the turn before.
        let same = |(around, begun): (&Around, &usize)| around.number == *begun;
        let shared = self.around.iter().zip(&self.begun[buffer]).take_while(|pair| same(*pair));
        let shared = shared.count();
        let at_once = |around: &&Around| matches!(around.kind, Kind::Instruction(_));
        let again = self.around[shared.max(at + 1)..]
            .iter()
            .filter(|around| !moves(around) && !at_once(around));
        let chain: i64 = again.map(|around| around.extent).product();
        let wait = chain as f64 * step;
        if in_registers && shared > at {
            work.latency += wait;
            self.held[buffer] = work.latency;
            return Straight::of(work);
        }
        Straight { wait, ..Straight::of(work) }
    }
}

/// Lanes of the vectors of a vector loop with such a body.
pub(crate) fn lanes_of(kernel: &Kernel, body: &[Stmt], target: &Target) -> i64 {
    (i64::from(target.vector_bytes) / work::widest(kernel, body)).max(1)
}

/// The factors of a product that is added up by multiply-adds.
fn fused<'v>(
    kernel: &Kernel,
    buffer: BufferId,
    reduction: tensor::Reduction,
    value: &'v ScalarExpr,
) -> Option<&'v [ScalarExpr]> {
    match value {
        ScalarExpr::Apply { function: tensor::ScalarFunction::Mul, arguments, .. }
            if reduction == tensor::Reduction::Sum && kernel.buffers[buffer].dtype.is_float() =>
        {
            Some(arguments)
        }
        _ => None,
    }
}

/// Whether a value is made of elements of a type by their bits alone.
fn is_packed(kernel: &Kernel, value: &ScalarExpr, dtype: tensor::DType) -> bool {
    match value {
        ScalarExpr::Load { buffer, .. } => kernel.buffers[*buffer].dtype == dtype,
        ScalarExpr::Apply { function, dtype: own, arguments } if function.is_bitwise() => {
            *own == dtype && arguments.iter().all(|argument| is_packed(kernel, argument, dtype))
        }
        _ => false,
    }
}

/// Whether a value is an element as it is, or what stands where there is none.
fn is_moved(value: &ScalarExpr) -> bool {
    match value {
        ScalarExpr::Load { .. } | ScalarExpr::Constant(_) => true,
        ScalarExpr::Guard { value, otherwise, .. } => is_moved(value) && is_moved(otherwise),
        _ => false,
    }
}

/// Whether a statement holds a loop that is neither written out nor run in vectors.
fn has_serial_loop(stmt: &Stmt) -> bool {
    match stmt {
        Stmt::For(found) => {
            matches!(found.kind, LoopKind::Serial | LoopKind::Parallel)
                || found.body.iter().any(has_serial_loop)
        }
        _ => stmt.blocks().flatten().any(has_serial_loop),
    }
}
