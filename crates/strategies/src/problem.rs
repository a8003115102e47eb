//! A sum of products or of a window, as the strategies `tile`, `deep` and `stream` see it: the
//! nests that initialise, sum and end, and how their loops correspond.

use backend::tile::Window;
use backend::{Instruction, InstructionCost, Target};
use loops::visit::Effect;
use loops::{BufferId, Kernel, Scope};
use sym::Expr;
use tensor::DType;

use crate::copied::Copied;
use crate::given::Refused;
use crate::structure::{Access, LoopInfo, Motion, Nest, axis_loops};

/// A kernel of three nests, with what is known of its axes.
pub(super) struct Problem {
    /// Name of the accumulators.
    pub(super) acc: String,
    /// Of a lane that holds one of them: machines sum in 32 bits at least.
    pub(super) bytes: i64,
    /// The axis along which they lie side by side.
    pub(super) contiguous: Option<usize>,
    /// The nest that sums.
    pub(super) update: Nest,
    pub(super) last: Nest,
    /// Loops of the last nest with their counterparts.
    pub(super) axes: Vec<Axis>,
    /// Names of the update's reduced loops, outermost first.
    pub(super) reduced: Vec<LoopInfo>,
    /// Names of the loops that initialise, by the axis of the accumulators.
    pub(super) init: Vec<Option<String>>,
    /// Operands whose panels are copied as they are met.
    pub(super) copied: Vec<Copied>,
}

/// A loop of the last nest, and the loops over the axis of the accumulators that it walks.
#[derive(Clone)]
pub(super) struct Axis {
    pub(super) last: LoopInfo,
    /// None where the loop does not walk an axis by ones.
    pub(super) update: Option<LoopInfo>,
    /// The axis of the accumulators it moves along, by ones or not.
    pub(super) place: Option<usize>,
}

impl Problem {
    /// Finds the three nests and their axes, or says what is missing.
    pub(super) fn find(kernel: &Kernel, nests: Vec<Nest>) -> Result<Problem, Refused> {
        let [init, update, last] = nests.try_into().map_err(|nests: Vec<Nest>| {
            format!(
                "it has {} nests, not one that initialises, one that sums, one that ends",
                nests.len()
            )
        })?;
        let folds = |access: &Access| matches!(access.effect, Effect::Fold(_));
        if last.accesses.iter().any(folds) {
            return Err("its sums are interleaved".into());
        }
        let writes: Vec<&Access> = update.writes().collect();
        let [write] = writes[..] else {
            return Err("the sum writes several buffers".into());
        };
        let buffer = &kernel.buffers[write.buffer];
        if matches!(buffer.scope, Scope::Parameter(_))
            || !init.writes().all(|w| w.buffer == write.buffer)
        {
            return Err("its accumulators are not its own".into());
        }
        let read = only_read(&last, write.buffer)?;
        let update_loops = axis_loops(&update, write);
        let moves = |index: &Expr| index.as_constant().is_none();
        if write.index.iter().zip(&update_loops).any(|(at, by)| moves(at) && by.is_none()) {
            return Err("the accumulators are not walked axis by axis".into());
        }
        let axes: Vec<Axis> =
            last.loops.iter().map(|found| axis(found, &read, &update_loops)).collect();
        if let Some(apart) = axes.iter().find(|axis| axis.place.is_none()) {
            return Err(format!("the sum would be computed again along `{}`", apart.last.name));
        }
        let is_parallel =
            |found: &LoopInfo| update_loops.iter().flatten().any(|own| own.name == found.name);
        let reduced = update.loops.iter().filter(|found| !is_parallel(found)).cloned().collect();
        let init_loops = init.writes().next().map(|write| axis_loops(&init, write));
        let name = |found: Option<&LoopInfo>| found.map(|found| found.name.clone());
        let init = init_loops.into_iter().flatten().map(name).collect();
        let (acc, bytes) = (buffer.name.clone(), i64::from(buffer.dtype.bits()).max(32) / 8);
        let contiguous = buffer.shape.len().checked_sub(1);
        let copied = Vec::new();
        Ok(Problem { acc, bytes, contiguous, axes, reduced, init, update, last, copied })
    }

    /// The most bytes by which an operand moves on from term to term, of those that stay near.
    pub(super) fn bytes_a_term(&self, kernel: &Kernel, target: &Target) -> i64 {
        let tuple = tuple(self, kernel);
        let mut terms = self.reduced.iter().rev();
        let Some(innermost) = terms.find(|found| Some(*found) != tuple.as_ref()) else {
            return 1;
        };
        let moves = self.update.loads().filter_map(|access| match access.motion(innermost) {
            Motion::Steady { stride, .. } => {
                let bits = i64::from(kernel.buffers[access.buffer].dtype.bits()).max(8);
                Some(stride.abs() * bits / 8)
            }
            Motion::Still | Motion::Irregular => None,
        });
        moves.filter(|bytes| *bytes < target.machine.near_bytes).max().unwrap_or(1).max(1)
    }

    /// Whether the terms of a loop lie side by side in rows of an operand of which several fill a
    /// vector, so that one load serves all of them.
    pub(super) fn shares_vectors(&self, terms: &str) -> bool {
        let along = self.axes.iter().find(|axis| axis.place == self.contiguous);
        let along = along.and_then(|axis| axis.update.as_ref());
        let terms = self.reduced.iter().find(|found| found.name == terms);
        along.zip(terms).is_some_and(|(along, terms)| {
            self.update.loads().any(|access| {
                matches!(access.motion(along), Motion::Steady { stride: 0, block: Some(_) })
                    && access.motion(terms).is_unit()
                    && access.index.last().and_then(Expr::as_symbol) == Some(terms.variable)
            })
        })
    }

    /// Of a lane of a vector: what holds a sum and the neighbours that one takes at once.
    pub(super) fn lane_bytes(&self, kernel: &Kernel) -> i64 {
        let Some(tuple) = tuple(self, kernel) else { return self.bytes };
        let bits = self.update.loads().map(|it| i64::from(kernel.buffers[it.buffer].dtype.bits()));
        self.bytes.max(bits.max().unwrap_or(0) / 8 * tuple.extent)
    }

    /// Terms of each sum.
    pub(super) fn depth(&self) -> i64 {
        self.reduced.iter().map(|found| found.extent).product()
    }
}

/// The place where a nest reads the accumulators.
fn only_read(nest: &Nest, buffer: BufferId) -> Result<Vec<Expr>, Refused> {
    let mut reads = nest.loads().filter(|access| access.buffer == buffer);
    let first = reads.next().ok_or("the last nest does not read the sum")?;
    match reads.all(|read| read.index == first.index) {
        true => Ok(first.index.clone()),
        false => Err("the last nest reads several sums at once".into()),
    }
}

fn axis(found: &LoopInfo, read: &[Expr], update: &[Option<&LoopInfo>]) -> Axis {
    let place = read.iter().position(|index| index.contains(found.variable));
    let by_ones = place.filter(|&at| read[at].linear_coefficient(found.variable) == Some(1));
    Axis { last: found.clone(), update: by_ones.and_then(|at| update[at].cloned()), place }
}

/// The target's instructions that take neighbours of these types at once, with what they cost:
/// those that take no longer than a multiply-add for each.
pub(super) fn instructions(
    problem: &Problem,
    kernel: &Kernel,
    target: &Target,
) -> Vec<(&'static Instruction, InstructionCost)> {
    fitting_instructions(problem, kernel, target).filter_map(Result::ok).collect()
}

/// The same, with the names of those that take longer.
pub(super) fn fitting_instructions(
    problem: &Problem,
    kernel: &Kernel,
    target: &Target,
) -> impl Iterator<Item = Result<(&'static Instruction, InstructionCost), &'static str>> {
    let tuple = tuple(problem, kernel);
    let extent = tuple.map_or(0, |found| found.extent);
    let loads = problem.update.loads();
    let dtypes: Vec<DType> = loads.map(|access| kernel.buffers[access.buffer].dtype).collect();
    let apart = extent as f64 * target.machine.multiply_add().cycles;
    let taken = target.instructions().filter(move |(row, _)| row.takes(&dtypes, extent));
    taken.map(
        move |(row, cost)| if cost.cycles <= apart { Ok((row, cost)) } else { Err(row.name()) },
    )
}

/// The innermost reduced loop, where it goes over neighbours in operands so short that those fill
/// one sum: pairs of bf16, quads of bytes; or as many as an instruction takes.
pub(super) fn tuple(problem: &Problem, kernel: &Kernel) -> Option<LoopInfo> {
    let innermost = problem.reduced.last().filter(|found| found.extent > 1 && !found.is_free())?;
    let loads = problem.update.loads();
    let dtypes: Vec<DType> = loads.map(|access| kernel.buffers[access.buffer].dtype).collect();
    let is_taken = Instruction::all().iter().any(|row| row.takes(&dtypes, innermost.extent));
    let short = problem.update.loads().all(|access| {
        let bytes = i64::from(kernel.buffers[access.buffer].dtype.bits()) / 8;
        let motion = access.motion(innermost);
        (is_taken || bytes * innermost.extent == problem.bytes)
            && matches!(motion, Motion::Steady { stride: -1 | 1, .. })
    });
    short.then(|| innermost.clone())
}

/// The window in which an operand is converted as it is loaded, and the innermost reduced loop
/// where that meets elements again that the rows along another loop have met: written out inside
/// of the rows, each is converted once.
pub(super) fn window(
    problem: &Problem,
    kernel: &Kernel,
    row: &LoopInfo,
) -> Option<(Option<LoopInfo>, Window)> {
    let is_converted = |access: &&Access| {
        i64::from(kernel.buffers[access.buffer].dtype.bits()) < 8 * problem.bytes
    };
    let moves = |access: &&Access| access.motion(row) != Motion::Still;
    let access = problem.update.loads().filter(is_converted).find(moves)?;
    if tuple(problem, kernel).is_some() {
        return None;
    }
    let stride = |found: &LoopInfo| match access.motion(found) {
        Motion::Steady { stride: stride @ 1.., block: None } => Some(stride),
        _ => None,
    };
    let shared = problem.reduced.last().filter(|found| !found.is_free()).and_then(|innermost| {
        let (next, tap) = (stride(row)?, stride(innermost)?);
        let window = Window { taps: innermost.extent, step: next / tap };
        let meets_again = next % tap == 0 && window.step < window.taps;
        (meets_again && window.taps <= MOST_TAPS).then(|| (Some(innermost.clone()), window))
    });
    Some(shared.unwrap_or((None, Window { taps: 1, step: 1 })))
}

/// Taps beyond which a window is not held in registers.
pub(super) const MOST_TAPS: i64 = 7;
