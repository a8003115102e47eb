//! Tests of strategies: a naive kernel before, the remarks, the trace and the scheduled kernel after.
//! Every case is also run: the scheduled kernel computes the bits of the naive one, and the trace
//! replayed on the naive kernel gives the scheduled one.

use backend::Target;
use eval::{Options, Order, evaluate_kernel};
use filetest::Command;
use loops::{Kernel, Scope};
use tensor::Tensor;
use tilewright_lower::naive::{Naive, Stage, StageKind};
use tilewright_lower::strategies::{self, Scheduled, StrategyOptions};

const COMMANDS: &[(&str, Command)] = &[("strategy", strategy), ("check", check)];

#[test]
fn texts() {
    filetest::run(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/strategies"), COMMANDS);
}

/// `strategy TARGET`: remarks, trace, kernel.
fn strategy(text: &str, arguments: &[&str]) -> Result<String, String> {
    let (_, scheduled) = scheduled(text, arguments)?;
    let remarks: String = scheduled.remarks.iter().map(|remark| format!("// {remark}\n")).collect();
    Ok(format!("{remarks}{}{}", scheduled.trace, scheduled.kernel))
}

/// `check TARGET`: remarks and trace, after the scheduled kernel has been run beside the naive one.
fn check(text: &str, arguments: &[&str]) -> Result<String, String> {
    let (naive, scheduled) = scheduled(text, arguments)?;
    agree(&naive, &scheduled)?;
    let remarks: String = scheduled.remarks.iter().map(|remark| format!("// {remark}\n")).collect();
    Ok(format!("{remarks}{}", scheduled.trace))
}

fn scheduled(text: &str, arguments: &[&str]) -> Result<(Kernel, Scheduled), String> {
    let target = arguments.first().and_then(|name| Target::named(name));
    let target = target.ok_or("the argument is no target")?;
    let kernel = loops::parse(text).map_err(|error| error.to_string())?;
    let naive = naive(kernel.clone());
    let scheduled = strategies::schedule(naive, &target, &StrategyOptions::default())
        .map_err(|error| error.to_string())?;
    loops::verify_scheduled(&scheduled.kernel).map_err(|error| error.to_string())?;
    Ok((kernel, scheduled))
}

/// A kernel that is all one opaque stage if it is marked so by its name, else nests of maps and sums.
fn naive(kernel: Kernel) -> Naive {
    let kind = match kernel.name.starts_with("opaque") {
        true => StageKind::Opaque,
        false => StageKind::Pointwise,
    };
    let stages = vec![Stage { buffer: String::new(), kind, nests: Vec::new() }];
    Naive { kernel, stages, arguments: Vec::new() }
}

fn agree(naive: &Kernel, scheduled: &Scheduled) -> Result<(), String> {
    let trace = schedule::parse_trace(&scheduled.trace).map_err(|error| error.to_string())?;
    let replayed = schedule::replay(naive.clone(), &trace).map_err(|error| error.to_string())?;
    if replayed != scheduled.kernel {
        return Err("the trace replays to another kernel".into());
    }
    let expected = outputs(naive)?;
    let found = outputs(&scheduled.kernel)?;
    for (expected, found) in expected.iter().zip(&found) {
        let same = expected.scalars().zip(found.scalars()).all(|(a, b)| a.bits() == b.bits());
        if !same {
            return Err(format!("other bits:\n{}", scheduled.kernel));
        }
    }
    Ok(())
}

/// What the kernel makes of random inputs.
fn outputs(kernel: &Kernel) -> Result<Vec<Tensor>, String> {
    let mut buffers = Vec::new();
    for (position, id) in kernel.parameters.iter().enumerate() {
        let buffer = &kernel.buffers[*id];
        let extents = buffer.shape.iter().map(|extent| extent.as_constant().unwrap_or(1) as usize);
        let count: usize = match &buffer.strides {
            None => extents.product(),
            Some(strides) => {
                let strides = strides.iter().map(|stride| stride.as_constant().unwrap_or(1));
                1 + extents.zip(strides).map(|(e, s)| (e - 1) * s as usize).sum::<usize>()
            }
        };
        buffers.push(match buffer.scope {
            Scope::Parameter(loops::Access::Write) => Tensor::zeros(buffer.dtype, &[count]),
            _ => tensor::random::random(buffer.dtype, &[count], position as u64 + 1),
        });
    }
    let options = Options { order: Order::Shuffled(7), ..Options::default() };
    evaluate_kernel(kernel, &mut buffers, &[], options)
        .map_err(|fault| format!("{fault:?}\n{kernel}"))?;
    Ok(buffers)
}
