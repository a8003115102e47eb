//! What is decided about a kernel before its code is written.
//!
//! - How many lanes the vectors of each `Vector` loop have. They are as many as the widest element
//!   of the loop's body allows, fewer if the loop is short and stores no part of a row in scratch
//!   memory, and the same for all loops that write a register buffer; loops that read it alone may
//!   have fewer.
//! - Where each register buffer's elements are: a slot is one value of vcode, a vector of them
//!   along the last axis where a `Vector` loop covers that.
//! - Which indices that are values have lanes of 32 bits, though they are of 64: those that are
//!   made of shorter integers, and are nothing but indices.
//! - Strides and scratch offsets.

use std::collections::{BTreeMap, BTreeSet};

use base::SecondaryMap;
use loops::{BufferId, Kernel, LoopKind, Ranges, ScalarExpr, Scope, Stmt, SymbolKind};
use sym::{Expr, SymbolId};
use tensor::{DType, ScalarFunction};

use super::value::{Carrier, carrier};

/// Bytes of which each buffer in scratch memory takes a multiple.
pub(super) const SCRATCH_UNIT: u64 = 64;

/// Decisions about a kernel.
pub(crate) struct Plan {
    /// Lanes of the vectors of a `Vector` loop, by its variable.
    pub(crate) lanes: SecondaryMap<SymbolId, usize>,
    /// Elements from one index to the next along each axis.
    pub(crate) strides: SecondaryMap<BufferId, Strides>,
    /// Bytes from the start of scratch memory.
    pub(crate) scratch_offsets: SecondaryMap<BufferId, i64>,
    /// All scratch memory, in bytes.
    pub(crate) scratch_bytes: u64,
    /// Where the slots of register buffers are.
    pub(crate) registers: SecondaryMap<BufferId, Option<Registers>>,
    /// How many slots there are.
    pub(crate) slots: usize,
    /// How many vector registers the slots that are in use at once take at most.
    pub(crate) slot_vectors: usize,
    /// The values whose integers of at most 32 bits are indices as they are.
    pub(crate) short_indices: BTreeSet<SymbolId>,
}

/// Elements from one index to the next along each axis.
#[derive(Clone, Debug, Default)]
pub(crate) struct Strides {
    expressions: Vec<Expr>,
    constants: Option<Vec<i64>>,
}

impl Strides {
    fn new(expressions: Vec<Expr>) -> Strides {
        let constants = expressions.iter().map(Expr::as_constant).collect();
        Strides { expressions, constants }
    }

    pub(crate) fn expressions(&self) -> &[Expr] {
        &self.expressions
    }

    pub(crate) fn as_constants(&self) -> Option<&[i64]> {
        self.constants.as_deref()
    }
}

/// Where the elements of a register buffer are.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Registers {
    /// Slot of the first element.
    pub(crate) first: usize,
    /// Lanes in a slot.
    pub(crate) lanes: usize,
    /// Slots along the last axis.
    pub(crate) slots_per_row: usize,
    /// Slots in all.
    pub(crate) count: usize,
}

impl Plan {
    /// # Errors
    /// A scratch buffer without a bound on its size.
    pub(crate) fn new(kernel: &Kernel, vector_bytes: usize) -> Result<Plan, BufferId> {
        let ranges = Ranges::new(kernel);
        let mut plan = Plan {
            lanes: SecondaryMap::with_default(1),
            strides: SecondaryMap::new(),
            scratch_offsets: SecondaryMap::new(),
            scratch_bytes: 0,
            registers: SecondaryMap::new(),
            slots: 0,
            slot_vectors: 0,
            short_indices: short_indices(kernel),
        };
        let lanes = decide_lanes(kernel, vector_bytes, &plan.short_indices);
        for (symbol, count) in &lanes.loops {
            plan.lanes[*symbol] = *count;
        }
        for (id, buffer) in kernel.buffers.iter() {
            plan.strides[id] = Strides::new(match &buffer.strides {
                Some(strides) => strides.clone(),
                None => dense(&buffer.shape),
            });
            match buffer.scope {
                Scope::Scratch => {
                    plan.scratch_offsets[id] = plan.scratch_bytes as i64;
                    let size = byte_size(&buffer.shape, buffer.dtype, &ranges).ok_or(id)?;
                    plan.scratch_bytes += size.next_multiple_of(SCRATCH_UNIT);
                }
                Scope::Register => {
                    let lanes = lanes.buffers.get(&id).copied().unwrap_or(1);
                    plan.place_register(id, &buffer.shape, lanes);
                }
                Scope::Parameter(_) => {}
            }
        }
        plan.slot_vectors = plan.most_at_once(kernel);
        Ok(plan)
    }

    /// How many vectors the register buffers that are in use at once take at most.
    fn most_at_once(&self, kernel: &Kernel) -> usize {
        let mut spans = BTreeMap::new();
        add_spans(&kernel.body, &mut 0, &mut spans);
        let vectors = |buffer: &BufferId| match self.registers[*buffer] {
            Some(registers) if carrier(kernel.buffers[*buffer].dtype) != Some(Carrier::Mask) => {
                registers.count
            }
            _ => 0,
        };
        let at = |place: usize| -> usize {
            let used = spans.iter().filter(|(_, span)| (span.first..=span.last).contains(&place));
            used.map(|(buffer, _)| vectors(buffer)).sum()
        };
        spans.values().map(|span| at(span.first)).max().unwrap_or(0)
    }

    fn place_register(&mut self, id: BufferId, shape: &[Expr], lanes: usize) {
        let extents: Vec<usize> = shape
            .iter()
            .map(|extent| extent.as_constant().and_then(|n| usize::try_from(n).ok()).unwrap_or(0))
            .collect();
        let (last, outer) =
            extents.split_last().map_or((1, &[][..]), |(last, outer)| (*last, outer));
        let slots_per_row = last.div_ceil(lanes);
        let count = outer.iter().product::<usize>() * slots_per_row;
        self.registers[id] = Some(Registers { first: self.slots, lanes, slots_per_row, count });
        self.slots += count;
    }
}

/// The statements, counted as they are written, between which a buffer is in use.
struct Span {
    first: usize,
    last: usize,
    /// Where the statement of the block begins that has the first of them.
    begin: usize,
}

/// Adds the spans of what a block uses. What two statements of a block use is in use throughout
/// both, whatever loops they are.
fn add_spans(block: &[Stmt], count: &mut usize, spans: &mut BTreeMap<BufferId, Span>) {
    for stmt in block {
        let begin = *count;
        *count += 1;
        let mut own = BTreeMap::new();
        loops::visit::own_references(stmt, &mut |reference| {
            own.insert(reference.buffer, Span { first: begin, last: begin, begin });
        });
        stmt.blocks().for_each(|inner| add_spans(inner, count, &mut own));
        for (buffer, Span { first, last, .. }) in own {
            match spans.get_mut(&buffer) {
                Some(known) => *known = Span { first: known.begin, last: *count - 1, ..*known },
                None => _ = spans.insert(buffer, Span { first, last, begin }),
            }
        }
    }
}

fn dense(shape: &[Expr]) -> Vec<Expr> {
    let mut strides = vec![Expr::ONE; shape.len()];
    for axis in (1..shape.len()).rev() {
        strides[axis - 1] = &strides[axis] * &shape[axis];
    }
    strides
}

/// Bytes of a buffer at its largest; `None` if there is no bound.
fn byte_size(shape: &[Expr], dtype: DType, ranges: &Ranges) -> Option<u64> {
    let count = ranges.bounds(&loops::element_count(shape)).max;
    let bytes = u64::try_from(count.max(0)).ok()?.checked_mul(dtype.bytes()? as u64)?;
    (bytes <= MOST_SCRATCH).then_some(bytes)
}

/// Displacements reach no further.
const MOST_SCRATCH: u64 = i32::MAX as u64;

/// Lanes of loops and of the register buffers they cover.
struct Lanes {
    loops: BTreeMap<SymbolId, usize>,
    buffers: BTreeMap<BufferId, usize>,
}

fn decide_lanes(kernel: &Kernel, vector_bytes: usize, short: &BTreeSet<SymbolId>) -> Lanes {
    let mut lanes = Lanes { loops: BTreeMap::new(), buffers: BTreeMap::new() };
    let mut covers: BTreeSet<(SymbolId, BufferId, bool)> = BTreeSet::new();
    loops::visit::walk(&kernel.body, &mut |stmt| {
        let Stmt::For(inner) = stmt else { return };
        if inner.kind != LoopKind::Vector {
            return;
        }
        let extent = inner.extent.as_constant().unwrap_or(0).max(1) as usize;
        let most = vector_bytes / widest(kernel, inner, short);
        // What is met again in whole vectors is stored as such.
        let is_part = vector_bytes == 64 && stores_part(kernel, &inner.body, extent);
        let least = if is_part { most } else { 4 };
        lanes.loops.insert(inner.variable, most.min(extent.next_power_of_two().max(least)));
        each_register(kernel, &inner.body, &mut |buffer, index, writes| {
            if index.last().is_some_and(|last| last.contains(inner.variable)) {
                covers.insert((inner.variable, buffer, writes));
            }
        });
    });
    let written: BTreeSet<BufferId> =
        covers.iter().filter(|(_, _, writes)| *writes).map(|(_, buffer, _)| *buffer).collect();
    let mut changed = true;
    while changed {
        changed = false;
        for (variable, buffer, writes) in &covers {
            let of_loop = lanes.loops[variable];
            let of_buffer = *lanes.buffers.get(buffer).unwrap_or(&usize::MAX);
            let least = of_loop.min(of_buffer);
            changed |= lanes.loops.insert(*variable, least) != Some(least);
            if *writes || !written.contains(buffer) {
                changed |= lanes.buffers.insert(*buffer, least) != Some(least);
            }
        }
    }
    lanes
}

/// The integer of at most 32 bits that a value is, converted to an index.
pub(crate) fn short_integer<'a>(kernel: &Kernel, value: &'a ScalarExpr) -> Option<&'a ScalarExpr> {
    let ScalarExpr::Apply { function: ScalarFunction::Cast, dtype: DType::I64, arguments } = value
    else {
        return None;
    };
    let from = arguments[0].dtype(kernel)?;
    let fits = from.is_integer() && from != DType::U32 && from.bits() <= 32;
    (fits && carrier(from).is_some()).then(|| &arguments[0])
}

/// The values that are short integers, and are read in the places of elements alone.
fn short_indices(kernel: &Kernel) -> BTreeSet<SymbolId> {
    let mut found = BTreeSet::new();
    loops::visit::walk(&kernel.body, &mut |stmt| {
        let Stmt::Let { symbol, value } = stmt else { return };
        let SymbolKind::Value { dtype: DType::I64, range: Some(range) } =
            kernel.symbols[*symbol].kind
        else {
            return;
        };
        let fits = range.min >= i64::from(i32::MIN) && range.max <= i64::from(i32::MAX);
        if fits && short_integer(kernel, value).is_some() {
            found.insert(*symbol);
        }
    });
    if found.is_empty() {
        return found;
    }
    let mut as_number = |expr: &Expr| found.retain(|symbol| !expr.contains(*symbol));
    let mut conditions = |all: &[loops::Condition]| {
        for condition in all {
            as_number(&condition.left);
            as_number(&condition.right);
        }
    };
    loops::visit::walk(&kernel.body, &mut |stmt| {
        if let Stmt::If { conditions: all, .. } = stmt {
            conditions(all);
        }
    });
    loops::visit::walk_values(&kernel.body, &mut |value| {
        if let ScalarExpr::Guard { conditions: all, .. } = value {
            conditions(all);
        }
    });
    loops::visit::walk_values(&kernel.body, &mut |value| match value {
        ScalarExpr::Symbol(symbol) => _ = found.remove(symbol),
        ScalarExpr::Index(expr) => found.retain(|symbol| !expr.contains(*symbol)),
        _ => {}
    });
    found
}

/// Bytes of the widest lane that a vector loop computes with, at least 4. Indices that are the same
/// for all lanes are no lanes.
fn widest(kernel: &Kernel, vector: &loops::Loop, short: &BTreeSet<SymbolId>) -> usize {
    let (block, mut bytes) = (&vector.body, 4);
    let mut indices = BTreeSet::new();
    loops::visit::walk(block, &mut |stmt| {
        if let Stmt::Let { symbol, value } = stmt
            && short.contains(symbol)
        {
            indices.insert(std::ptr::from_ref(value));
        }
    });
    // What a `Let` inside of the loop makes may differ by lane, too.
    let mut lets = BTreeSet::new();
    loops::visit::walk(block, &mut |stmt| {
        if let Stmt::Let { symbol, .. } = stmt {
            lets.insert(*symbol);
        }
    });
    let made_inside = |expr: &Expr| expr.any_symbol(&mut |symbol| lets.contains(&symbol));
    let mut see = |dtype: Option<DType>| {
        if matches!(dtype, Some(DType::F64 | DType::I64 | DType::U64)) {
            bytes = 8;
        }
    };
    loops::visit::walk(block, &mut |stmt| match stmt {
        Stmt::Store { buffer, .. } | Stmt::Reduce { buffer, .. } => {
            see(kernel.buffers.get(*buffer).map(|buffer| buffer.dtype));
        }
        _ => {}
    });
    loops::visit::walk_values(block, &mut |value| match value {
        ScalarExpr::Index(expr) if !expr.contains(vector.variable) && !made_inside(expr) => {}
        value if indices.contains(&std::ptr::from_ref(value)) => {}
        value => see(value.dtype(kernel)),
    });
    bytes
}

/// The elements of a buffer in scratch memory that lie side by side; none if they do not.
pub(super) fn scratch_elements(data: &loops::Buffer) -> Option<i64> {
    let is_whole = data.scope == Scope::Scratch && data.strides.is_none();
    is_whole.then(|| data.shape.iter().map(Expr::as_constant).product()).flatten()
}

/// Whether so many elements are stored of a longer row in scratch memory.
fn stores_part(kernel: &Kernel, block: &[Stmt], extent: usize) -> bool {
    let mut found = false;
    loops::visit::walk(block, &mut |stmt| {
        if let Stmt::Store { buffer, .. } = stmt {
            let data = &kernel.buffers[*buffer];
            let row = data.shape.last().and_then(Expr::as_constant);
            found |= data.scope == Scope::Scratch && row.is_some_and(|row| row > extent as i64);
        }
    });
    found
}

/// Where register buffers are touched, and whether they are written there.
fn each_register<'a>(
    kernel: &Kernel,
    block: &'a [Stmt],
    visit: &mut impl FnMut(BufferId, &'a [Expr], bool),
) {
    let is_register = |buffer: BufferId| kernel.buffers[buffer].scope == Scope::Register;
    loops::visit::walk(block, &mut |stmt| match stmt {
        Stmt::Store { buffer, index, .. } | Stmt::Reduce { buffer, index, .. }
            if is_register(*buffer) =>
        {
            visit(*buffer, index, true);
        }
        _ => {}
    });
    loops::visit::walk_values(block, &mut |value| {
        if let ScalarExpr::Load { buffer, index } = value
            && is_register(*buffer)
        {
            visit(*buffer, index, false);
        }
    });
}
