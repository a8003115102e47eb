//! Selection: a scheduled kernel to vcode.
//!
//! Statements are walked in order. Register buffers are values, carried by the loops that write
//! them; `Unroll` loops are written out; `Vector` loops are cut in vectors, all of a loop's
//! statements for one vector before the next vector, with a mask for the rest.
//!
//! - `plan`: what is decided before: lanes of vectors, places of register buffers;
//! - `build`: where instructions go; hoisting; `numbering` of values; `fold`, `products`,
//!   `constants`, `tidy`: what comes after;
//! - `index`: index expressions and addresses; `guard`: conditions and masks;
//! - `value`, `arithmetic`, `convert`: elements and scalar functions;
//! - `gather`: indices that are values;
//! - `memory`, `registers`: loads, stores, register buffers, folds;
//! - `instruction`: loops that are instructions.

mod arithmetic;
mod build;
mod constants;
mod convert;
mod fold;
mod gather;
mod guard;
mod index;
mod instruction;
mod interleave;
mod lookup;
mod memory;
mod neighbours;
mod numbering;
mod packed;
mod pairs;
mod parts;
mod plan;
mod products;
mod registers;
mod scattered;
mod squares;
mod statement;
mod stores;
mod strided;
mod tidy;
mod transpose;
mod turns;
mod value;
mod wrapped;

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;

use backend::Isa;
use base::{Diagnostic, Diagnostics, SecondaryMap, codes};
use loops::{BufferId, Kernel, Ranges, ScalarExpr, Stmt};
use rustc_hash::FxHashMap;
use sym::SymbolId;
use tensor::DType;

use crate::vcode::{Base, VCode, VRegId};
use build::Builder;
use guard::LanesOn;
use index::{Binding, Pointer, Simplified};
use instruction::{Joined, Use};
use memory::Loaded;
use plan::Plan;
use transpose::{Block, Waiting, WrittenOut};
use turns::Turns;
use value::{Evaluated, Held};

/// A selected kernel.
pub(crate) struct Selected {
    /// The code.
    pub(crate) function: VCode,
    /// Scratch memory of one worker, in bytes.
    pub(crate) scratch_bytes: u64,
}

/// Writes a scheduled kernel as vcode; where it is asked for, instructions tell the statements that
/// they were made for, and are otherwise the same.
///
/// # Errors
/// A diagnostic where the kernel is not in the scheduled form or needs a type that kernels do not
/// compute with.
pub(crate) fn select(kernel: &Kernel, isa: Isa, want_statements: bool) -> base::Result<Selected> {
    let vector_bytes = if isa.has_avx512() { 64 } else { 32 };
    let registers = vector_registers(isa);
    let plan = Plan::new(kernel, vector_bytes).map_err(|buffer| {
        let name = &kernel.buffers[buffer].name;
        refusal(kernel, format!("the scratch buffer `{name}` has no bound on its size"))
    })?;
    let mut builder = Builder::new(&kernel.name, isa);
    let constants = constants(kernel);
    builder.keep_constants = plan.slot_vectors + constants + 6 <= registers;
    let in_registers = if builder.keep_constants { constants } else { 0 };
    let most_loaded = registers.saturating_sub(plan.slot_vectors + in_registers).clamp(4, 16);
    let mut selector = Selector {
        kernel,
        builder,
        slots: vec![None; plan.slots],
        plan,
        ranges: Ranges::new(kernel),
        simplified: RefCell::default(),
        pointers: Vec::new(),
        bindings: SecondaryMap::new(),
        lets: SecondaryMap::new(),
        bases: SecondaryMap::new(),
        vector: None,
        exec: None,
        lane: 0,
        instructions: SecondaryMap::new(),
        rounded: SecondaryMap::new(),
        uncut: SecondaryMap::new(),
        joined: SecondaryMap::new(),
        short: SecondaryMap::new(),
        loaded: Vec::new(),
        blocks: Vec::new(),
        asked: Vec::new(),
        written_out: Vec::new(),
        waiting: Vec::new(),
        turns: Turns::default(),
        most_loaded,
        statements: if want_statements { numbered(kernel) } else { FxHashMap::default() },
    };
    selector.block(&kernel.body)?;
    let scratch_bytes = selector.plan.scratch_bytes;
    Ok(Selected { function: selector.builder.finish(), scratch_bytes })
}

/// How many vector registers the instruction set has.
fn vector_registers(isa: Isa) -> usize {
    if isa.has_avx512() { 32 } else { 16 }
}

/// The statements of a kernel, which stay where they are, by their numbers in a walk.
fn numbered(kernel: &Kernel) -> FxHashMap<*const Stmt, u32> {
    let mut numbers = FxHashMap::default();
    loops::visit::walk(&kernel.body, &mut |stmt| {
        numbers.insert(std::ptr::from_ref(stmt), numbers.len() as u32);
    });
    numbers
}

fn refusal(kernel: &Kernel, message: String) -> Diagnostics {
    Diagnostic::error(codes::INTERNAL_ERROR, message)
        .at(format!("kernel `{}`", kernel.name))
        .because(format!(
            "the x86-64 back end takes kernels in the scheduled form only, not\n{kernel}"
        ))
        .into()
}

/// How many different constants the kernel's values hold.
fn constants(kernel: &Kernel) -> usize {
    let mut seen = BTreeSet::new();
    loops::visit::walk_values(&kernel.body, &mut |value| {
        if let ScalarExpr::Constant(scalar) = value
            && scalar.bits() != 0
            && scalar.dtype() != DType::Bool
        {
            seen.insert(*scalar);
        }
    });
    seen.len()
}

/// A kernel being selected.
struct Selector<'a> {
    kernel: &'a Kernel,
    plan: Plan,
    builder: Builder,
    ranges: Ranges,
    simplified: RefCell<Simplified>,
    /// Pointers into buffers that may be asked for again.
    pointers: Vec<Pointer>,
    /// What symbols stand for in index expressions.
    bindings: SecondaryMap<SymbolId, Binding>,
    /// What symbols are bound to by `Let`.
    lets: SecondaryMap<SymbolId, Option<Held>>,
    /// Pointers to buffers.
    bases: SecondaryMap<BufferId, Option<VRegId>>,
    /// What the slots of register buffers hold.
    slots: Vec<Option<Evaluated>>,
    /// The vector loop around, if any.
    vector: Option<VectorLoop>,
    /// The lanes that guards leave on.
    exec: Option<LanesOn>,
    /// The lane being computed, where lanes are computed one by one.
    lane: usize,
    /// Loops that are instructions, by their variables.
    instructions: SecondaryMap<SymbolId, Option<Rc<Use>>>,
    /// What was rounded to bf16 to make a value; the f16 numbers that it was made of.
    rounded: SecondaryMap<VRegId, Option<VRegId>>,
    /// A number of bf16 with what was to be cut off still below it.
    uncut: SecondaryMap<VRegId, Option<VRegId>>,
    /// Sums of integers, of what they were made where more can join it.
    joined: SecondaryMap<VRegId, Option<Joined>>,
    /// The short type of which all numbers in the lanes of a value are.
    short: SecondaryMap<VRegId, Option<DType>>,
    /// Loaded values that may be asked for again, the least recently used first.
    loaded: Vec<Loaded>,
    /// Blocks that were loaded and transposed.
    blocks: Vec<Block>,
    /// The lines that were asked for: a pointer, and how many lines from there.
    asked: Vec<(Base, i32)>,
    /// The loops around that are being written out, of which each turn does the same.
    written_out: Vec<WrittenOut>,
    /// Stores that wait for the other columns of their block.
    waiting: Vec<Waiting>,
    /// The turns of the loops around that are being written out.
    turns: Turns,
    most_loaded: usize,
    /// The numbers of statements, where they are asked for.
    statements: FxHashMap<*const Stmt, u32>,
}

/// The vector of a `Vector` loop that is being written.
struct VectorLoop {
    symbol: SymbolId,
    lanes: usize,
    /// Iterations from what the variable is bound to up to lane 0.
    offset: i64,
    /// The lanes within the loop's extent.
    tail: u32,
}

impl Selector<'_> {
    /// A refusal of this kernel.
    fn refuse(&self, message: String) -> Diagnostics {
        refusal(self.kernel, message)
    }

    fn unsupported_type(&self, dtype: DType) -> Diagnostics {
        let mut diagnostics = Diagnostics::new();
        diagnostics.push(
            Diagnostic::error(
                codes::UNSUPPORTED_TYPE,
                format!("kernels do not compute with elements of type {dtype}"),
            )
            .at(format!("kernel `{}`", self.kernel.name))
            .because("this target has no instructions for it")
            .remedy("export the model with other element types"),
        );
        diagnostics
    }
}
