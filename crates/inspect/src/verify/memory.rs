//! What the kernels of a run find in memory, against what the evaluator says that they read.
//!
//! The program is run with copies between its steps: before each kernel what it reads, behind it
//! what it writes, into outputs of their own. A value that is right behind the kernel that writes
//! it and wrong before one that reads it was overwritten; a value that is wrong behind a kernel
//! that is right alone was computed in a wrong way of running it.

use std::collections::BTreeMap;
use std::sync::Arc;

use base::Result;
use graph::{Function, Type, ValueId};
use program::{Address, Argument, Place, Slot, Step};
use sym::Expr;
use tensor::{DType, Tensor, Tolerance};
use tilewright::Executable;
use tilewright::compiled::{SegmentRun, Variant, link};

use super::kernels::{Values, read};

/// Gross differences are meant: errors that add up over a run are no fault of memory.
const GROSS: Tolerance =
    Tolerance { relative: 1e-2, absolute: 0.0, of_largest: 1e-2, last_place: true };

/// The first result of `setup` that is not what the evaluator computes.
pub(super) fn constants(variant: &Variant, values: &Values) -> Option<String> {
    let lowered = variant.setup().lowered();
    let offsets = lowered.constants.offsets.iter().zip(lowered.function.results());
    offsets.zip(&values.results).find_map(|((&offset, &value), expected)| {
        let mut actual = Tensor::zeros(expected.dtype(), expected.shape());
        let bytes = actual.bytes_mut();
        bytes.copy_from_slice(variant.constant(offset as usize, bytes.len())?);
        let comparison = GROSS.compare(&actual, expected);
        let place = describe(&lowered.function, value);
        (!comparison.passed()).then(|| format!("{place}: {comparison}"))
    })
}

/// A value in memory at some point of a run.
pub(super) struct SeenValue {
    /// The kernel's number among the entries of `Lowered::kernels`, and its argument's.
    pub(super) kernel: usize,
    pub(super) argument: usize,
    is_before: bool,
}

/// What kernels of a stage find in memory before they run, and leave behind them, in the order of a
/// run: the arguments that are meant, by the kernel's number and their own.
///
/// # Errors
/// Faults while running.
pub(super) fn watch(
    executable: &Executable,
    variant: &Variant,
    stage: &SegmentRun,
    is_meant: &dyn Fn(usize, usize) -> bool,
) -> Result<Vec<(SeenValue, Tensor)>> {
    let half = &*stage.specialisation;
    let lowered = half.lowered();
    let mut program = half.program().clone();
    let mut outputs = half.new_outputs()?;
    let mut seen = Vec::new();
    let kernels = lowered.kernels.iter().enumerate();
    let mut kernels = kernels.filter(|(_, info)| info.source.region.is_none()).peekable();
    let mut copy = |slots: &mut base::Arena<_, Slot>, number, argument: &Argument| {
        let bytes = argument.bytes.as_constant().unwrap_or(0) as usize;
        let place = Place::Output(outputs.len() as u32);
        outputs.push(Tensor::zeros(DType::U8, &[bytes]));
        let name = format!("seen{number}");
        let slot = slots.push(Slot { name, bytes: Expr::from(bytes), place });
        let destination = Address { slot, offset: Expr::ZERO };
        let source = argument.address.clone();
        Step::Copy { source, destination, bytes: Expr::from(bytes) }
    };
    let mut steps = Vec::new();
    for step in std::mem::take(&mut program.steps) {
        let found = match &step {
            Step::Run(run) => kernels.next_if(|(_, info)| info.kernel == run.kernel),
            _ => None,
        };
        let (Step::Run(run), Some((kernel, _))) = (&step, found) else {
            steps.push(step);
            continue;
        };
        let arguments = run.arguments.clone();
        let mut step = Some(step);
        for is_before in [true, false] {
            for (argument, place) in arguments.iter().enumerate() {
                // What is updated in place holds something else before.
                let is_there = place.writes != is_before && is_meant(kernel, argument);
                let is_empty = place.bytes.as_constant() == Some(0);
                if is_there && !is_empty {
                    steps.push(Step::Barrier);
                    steps.push(copy(&mut program.slots, seen.len(), place));
                    seen.push(SeenValue { kernel, argument, is_before });
                }
            }
            steps.push(Step::Barrier);
            steps.extend(step.take());
        }
    }
    program.steps = steps;
    let code = half.executable().code().clone();
    let watched = link(&half.module().kernels, &program, code, &BTreeMap::new())?;
    let mut state = runtime::State::new(Arc::new(watched), executable.threads())?;
    variant.call(half, &mut state, &stage.operands, &mut outputs)?.run()?;
    let copies = outputs.split_off(half.outputs.len());
    let value = |(seen, bytes): (SeenValue, Tensor)| {
        let info = &lowered.kernels[seen.kernel];
        let code = &half.module().kernels[info.kernel];
        let places = code.buffers[code.parameters[seen.argument]].byte_places();
        let like = like(&lowered.function, info.source.arguments[seen.argument]);
        let value = read(bytes.bytes(), &places, &like);
        (seen, value)
    };
    Ok(seen.into_iter().zip(copies).map(value).collect())
}

/// Zeros of the type of a value whose extents are constants.
pub(super) fn like(function: &Function, value: ValueId) -> Tensor {
    let Type::Tensor(ty) = function.ty(value) else { return Tensor::zeros(DType::Bool, &[0]) };
    let extent = |extent: &Expr| extent.as_constant().unwrap_or(0) as usize;
    Tensor::zeros(ty.dtype, &ty.shape.iter().map(extent).collect::<Vec<_>>())
}

/// The first kernel of a stage that reads or writes something else, and what.
///
/// # Errors
/// Faults while running.
pub(super) fn first_difference(
    executable: &Executable,
    variant: &Variant,
    stage: &SegmentRun,
    values: &Values,
) -> Result<Option<String>> {
    let lowered = stage.specialisation.lowered();
    let function = &lowered.function;
    for (seen, actual) in watch(executable, variant, stage, &|_, _| true)? {
        let info = &lowered.kernels[seen.kernel];
        let value = info.source.arguments[seen.argument];
        let comparison = GROSS.compare(&actual, &values.of[&value]);
        if !comparison.passed() {
            let (value, nodes) = (describe(function, value), info.nodes.join(", "));
            return Ok(Some(match seen.is_before {
                true => format!(
                    "memory: {value} is wrong where kernel {} ({nodes}) reads it: {comparison}",
                    info.name
                ),
                false => format!(
                    "the run of kernel {} ({nodes}), which is right alone: {value}: {comparison}",
                    info.name
                ),
            }));
        }
    }
    Ok(None)
}

/// A value by its name and its place in the model.
fn describe(function: &Function, value: ValueId) -> String {
    let place = function.place_of(value).unwrap_or_else(|| "a parameter".to_owned());
    match &function.values[value].name {
        Some(name) => format!("value `{name}` of {place}"),
        None => format!("a value of {place}"),
    }
}
