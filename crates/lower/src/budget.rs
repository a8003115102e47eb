//! What one run may take, checked when its shapes are known, before anything is allocated.
//!
//! A few bytes of a file can ask for any amount of memory and work. Models do not: what they take
//! is in proportion to their weights and inputs.

use std::collections::{BTreeMap, BTreeSet};

use base::limits::exceeded;
use base::{KernelId, Limits, Result};
use graph::{Function, ValueId};
use module::Module;
use program::{Program, Step};
use sym::{Expr, SymbolId};

use crate::{KernelInfo, Lowered};

/// Operations that any run may take for each byte of its weights and inputs. Networks that enlarge
/// images may take tens of millions for a pixel, whose colours are three bytes.
const OPERATIONS_A_BYTE: u64 = 1 << 26;

/// Refuses values with more elements than the limit, of extents that are known.
///
/// # Errors
/// `TW0112` with the place of the value in the model.
pub fn check_elements(function: &Function, limits: &Limits) -> Result<()> {
    for (id, value) in function.values.iter() {
        let graph::Type::Tensor(ty) = &value.ty else { continue };
        let extents = ty.shape.iter().filter_map(sym::Expr::as_constant);
        let count = extents.fold(1u64, |count, extent| count.saturating_mul(extent.max(1) as u64));
        if count > limits.elements {
            let message = format!("a value has {count} elements or more");
            let refusal = exceeded("elements", count, message)
                .because(format!("at most {} are accepted", limits.elements));
            return Err(match function.place_of(id) {
                Some(place) => refusal.at(place),
                None => refusal,
            }
            .into());
        }
    }
    Ok(())
}

/// Bytes of the constants.
pub fn constant_bytes(module: &Module) -> u64 {
    module.constants.values().map(|constant| constant.tensor.bytes().len() as u64).sum()
}

/// Bytes of the parameters; none where extents are free, or a parameter is a list.
pub fn parameter_bytes(function: &Function) -> Option<u64> {
    let of_parameter = |&value: &ValueId| {
        let ty = function.ty(value).as_tensor()?;
        let extents = ty.shape.iter().map(|extent| Some(extent.as_constant()? as u64));
        let elements =
            extents.collect::<Option<Vec<u64>>>()?.into_iter().fold(1, u64::saturating_mul);
        let bytes = ty.dtype.size_of_elements(elements as usize);
        Some(bytes.map_or(u64::MAX, |bytes| bytes as u64))
    };
    let all = function.parameters().iter().map(of_parameter).collect::<Option<Vec<u64>>>()?;
    Some(all.into_iter().fold(0, u64::saturating_add))
}

/// Refuses a program whose run would take more memory or operations than the limits. `given` are
/// the bytes of the model's weights and inputs, none where those are the function's own.
pub fn check_program(
    (module, function): (&Module, &Function),
    lowered: &Lowered,
    given: Option<u64>,
    (limits, threads): (&Limits, usize),
) -> Result<()> {
    let program = &module.programs[lowered.program];
    let own = parameter_bytes(function).unwrap_or(0);
    let given = given.unwrap_or_else(|| own.saturating_add(constant_bytes(module)));
    RunBytes::of(program, lowered, own, threads).check(&program.name, given, limits)?;
    let of_kernel = |info: &KernelInfo| (info.kernel, Expr::constant(info.flops as i64));
    let of_kernels = lowered.kernels.iter().map(of_kernel).collect();
    let total = operations(&program.set_symbols(), &program.steps, &of_kernels);
    // What no number says is refused as too much.
    let total = total.as_constant().map_or(u64::MAX, |count| count.max(0) as u64);
    let free = limits.operations;
    if total <= most_operations(given, limits) {
        return Ok(());
    }
    Err(exceeded("operations", total, format!("`{}` would take {total} operations", program.name))
        .at("a run of the model")
        .because(format!(
            "at most {free} are accepted, and {OPERATIONS_A_BYTE} for each byte of weights and \
             inputs, of which there are {given}"
        ))
        .into())
}

/// Operations that a run may take where the model's weights and inputs have so many bytes.
#[must_use]
pub fn most_operations(given: u64, limits: &Limits) -> u64 {
    limits.operations.saturating_add(given.saturating_mul(OPERATIONS_A_BYTE))
}

/// The operations of a run of a program with free extents.
#[must_use]
pub fn free_operations(module: &Module, lowered: &Lowered) -> Expr {
    let of_kernel = |info: &KernelInfo| (info.kernel, loops::operations(&info.naive.kernel));
    let of_kernels = lowered.kernels.iter().map(of_kernel).collect();
    let program = &module.programs[lowered.program];
    operations(&program.set_symbols(), &program.steps, &of_kernels)
}

/// What must hold of free extents so that no value has more elements than the limit: in each pair
/// the first is at most the second.
#[must_use]
pub fn element_checks(function: &Function, limits: &Limits) -> Vec<(Expr, Expr)> {
    let most = Expr::constant(i64::try_from(limits.elements).unwrap_or(i64::MAX));
    let mut checks: Vec<(Expr, Expr)> = Vec::new();
    for value in function.values.values() {
        let graph::Type::Tensor(ty) = &value.ty else { continue };
        let check = (ty.shape.iter().product::<Expr>(), most.clone());
        if check.0.as_constant().is_none() && !checks.contains(&check) {
            checks.push(check);
        }
    }
    checks
}

/// The operations of steps of a program that sets these symbols; loops whose turns these decide
/// count as one turn.
fn operations(
    set: &BTreeSet<SymbolId>,
    steps: &[Step],
    of_kernels: &BTreeMap<KernelId, Expr>,
) -> Expr {
    let of = |block: &[Step]| operations(set, block, of_kernels);
    let of_step = |step: &Step| match step {
        Step::Run(run) => of_kernels.get(&run.kernel).cloned().unwrap_or(Expr::ZERO),
        Step::Repeat { count, body, .. } => {
            match count.any_symbol(&mut |symbol| set.contains(&symbol)) {
                true => of(body),
                false => of(body) * &count.max(&Expr::ZERO),
            }
        }
        Step::Branch { then, otherwise, .. } => of(then).max(&of(otherwise)),
        Step::While { setup, body, .. } => of(setup) + &of(body),
        _ => Expr::ZERO,
    };
    steps.iter().map(of_step).sum()
}

/// Bytes that a run of a program takes.
#[derive(Clone, Copy, Debug)]
pub struct RunBytes {
    /// Of its inputs.
    pub inputs: u64,
    /// Of intermediate results.
    pub arena: u64,
    /// Of all workers' scratch memory.
    pub scratch: u64,
    /// Of its results.
    pub outputs: u64,
}

impl RunBytes {
    fn of(program: &Program, lowered: &Lowered, inputs: u64, threads: usize) -> RunBytes {
        let mut scratch = 0;
        program::walk(&program.steps, &mut |step| {
            if let Step::Run(run) = step {
                scratch = scratch.max(run.scratch_bytes.as_constant().unwrap_or(0) as u64);
            }
        });
        let scratch = scratch.saturating_mul(threads as u64);
        let outputs = lowered.outputs.iter().map(|it| it.bytes as u64);
        let outputs = outputs.fold(0, u64::saturating_add);
        RunBytes { inputs, arena: lowered.arena_bytes, scratch, outputs }
    }

    /// Refuses what is more than the limits where the model's weights and inputs have so many
    /// bytes.
    ///
    /// # Errors
    /// A diagnostic that names the limit.
    pub fn check(&self, program: &str, given: u64, limits: &Limits) -> Result<()> {
        let RunBytes { inputs, arena, scratch, outputs } = *self;
        let total = [inputs, arena, scratch, outputs].into_iter().fold(0, u64::saturating_add);
        limits.check_memory(total, given, &format!("`{program}` would take")).map_err(|refusal| {
            let parts = format!(
                "{inputs} of inputs, {arena} of intermediate results, {scratch} of workers, \
                 {outputs} of results"
            );
            refusal.at("a run of the model").because(parts).into()
        })
    }
}
