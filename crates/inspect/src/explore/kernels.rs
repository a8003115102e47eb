//! Kernels: what ties the rows of an explanation to nodes, memory and code; loops after each step
//! of a schedule; instructions.

use std::collections::BTreeMap;

use base::{KernelId, Result};
use loops::{Access, Scope};
use program::{Address, Move, SlotId, Step};
use serde_json::{Value, json};
use tilewright::Executable;
use tilewright::compiled::{KernelInfo, SegmentRun, Specialisation, instructions};

use super::graph::{LineTable, ModelNodes};
use crate::explain::Explanation;

/// The kernels of a run, each once.
pub(super) struct Kernels<'a> {
    kernels: Vec<(&'a Specialisation, &'a KernelInfo)>,
    /// The number of the kernel of each row of the explanation.
    of_row: Vec<Option<usize>>,
    /// The nodes of the model that each row computes.
    nodes: Vec<Vec<usize>>,
}

impl<'a> Kernels<'a> {
    /// Those of the explanation's rows, whose segments are these.
    pub(super) fn of(
        explanation: &'a Explanation,
        met: &'a [SegmentRun],
        nodes: &mut ModelNodes,
    ) -> Kernels<'a> {
        let mut numbers: BTreeMap<(usize, KernelId), usize> = BTreeMap::new();
        let mut found = Kernels { kernels: Vec::new(), of_row: Vec::new(), nodes: Vec::new() };
        for row in &explanation.rows {
            let specialisation = &*met[row.segment].specialisation;
            let Some(info) = &row.info else {
                found.of_row.push(None);
                found.nodes.push(Vec::new());
                continue;
            };
            let number = *numbers.entry((row.segment, info.kernel)).or_insert_with(|| {
                found.kernels.push((specialisation, info));
                found.kernels.len() - 1
            });
            found.of_row.push(Some(number));
            found.nodes.push(model_nodes(specialisation, info, nodes));
        }
        found
    }

    /// For each row of the explanation its kernel, the nodes of the model, the slots that it reads
    /// and writes, and the types of elements that go in and out.
    pub(super) fn rows(&self, explanation: &Explanation, met: &[SegmentRun]) -> Value {
        let touched: Vec<Vec<Touched>> =
            met.iter().map(|run| touched(&run.specialisation)).collect();
        let rows = explanation.rows.iter().zip(&self.of_row).zip(&self.nodes);
        let row = |((row, kernel), nodes): ((&crate::ExplanationRow, &Option<usize>), _)| {
            let touched = touched[row.segment].get(row.step);
            let numbers = |slots: &[SlotId]| -> Vec<usize> {
                slots.iter().map(|slot| base::Id::index(*slot)).collect()
            };
            let (reads, writes) = touched
                .map_or_else(Default::default, |it| (numbers(&it.reads), numbers(&it.writes)));
            json!({
                "kernel": kernel,
                "nodes_of_model": nodes,
                "reads": reads,
                "writes": writes,
                "types": row.info.as_ref().map(types),
            })
        };
        rows.map(row).collect()
    }

    /// Each kernel as its definitions say it and after each step of its schedule. Of the last of
    /// these, lines tell their statements.
    pub(super) fn loops(&self) -> Result<Value> {
        let (mut lines, mut kernels) = (LineTable::default(), Vec::new());
        for (specialisation, info) in &self.kernels {
            let name = &specialisation.module().kernels[info.kernel].name;
            let (mut stages, mut statements) = (Vec::new(), Vec::new());
            for (step, mut kernel) in info.scheduling()? {
                kernel.name.clone_from(name);
                kernel.origin.clear();
                let (texts, of): (Vec<String>, Vec<Option<u32>>) =
                    loops::print_lines(&kernel).into_iter().unzip();
                let texts = texts.into_iter().map(|text| lines.number(text, Vec::new()));
                stages.push(json!({ "step": step, "lines": texts.collect::<Vec<usize>>() }));
                statements = of;
            }
            kernels.push(json!({ "name": name, "stages": stages, "statements": statements }));
        }
        Ok(json!({ "lines": lines.lines(), "kernels": kernels }))
    }

    /// The instructions of each kernel.
    pub(super) fn code(&self, executable: &Executable) -> Result<Value> {
        let code = |(specialisation, info): &(&Specialisation, &KernelInfo)| {
            let kernel = &specialisation.module().kernels[info.kernel];
            let found = instructions(kernel, executable.target())?;
            let texts: Vec<&str> = found.iter().map(|it| it.text.as_str()).collect();
            let offsets: Vec<usize> = found.iter().map(|it| it.offset).collect();
            let statements: Vec<Option<u32>> = found.iter().map(|it| it.statement).collect();
            Ok(json!({ "text": texts, "offsets": offsets, "statements": statements }))
        };
        self.kernels.iter().map(code).collect()
    }
}

/// The nodes of the model that a kernel's run computes.
fn model_nodes(
    specialisation: &Specialisation,
    info: &KernelInfo,
    nodes: &mut ModelNodes,
) -> Vec<usize> {
    let lowered = specialisation.lowered();
    let function = match info.source.region {
        Some(region) => &lowered.regions[region].function,
        None => &lowered.function,
    };
    let mut numbers: Vec<usize> = Vec::new();
    for &node in &info.source.nodes {
        numbers.extend(nodes.of_place(&function.locations, function.nodes[node].location));
    }
    numbers.sort_unstable();
    numbers.dedup();
    numbers
}

/// The types of elements that a kernel reads, and those that it writes.
fn types(info: &KernelInfo) -> String {
    let kernel = &info.naive.kernel;
    let (mut read, mut written) = (Vec::new(), Vec::new());
    for &parameter in &kernel.parameters {
        let buffer = &kernel.buffers[parameter];
        let list = match buffer.scope {
            Scope::Parameter(Access::Read) => &mut read,
            _ => &mut written,
        };
        let dtype = buffer.dtype.to_string();
        if !list.contains(&dtype) {
            list.push(dtype);
        }
    }
    format!("{} → {}", read.join(" "), written.join(" "))
}

/// The slots that a step touches itself.
#[derive(Default)]
struct Touched {
    reads: Vec<SlotId>,
    writes: Vec<SlotId>,
}

/// What each step touches, as `program::walk` counts them.
fn touched(specialisation: &Specialisation) -> Vec<Touched> {
    let mut found = Vec::new();
    let program = specialisation.program();
    program::walk(&program.steps, &mut |step| {
        let mut own = Touched::default();
        match step {
            Step::Run(run) => {
                for argument in &run.arguments {
                    let slot = argument.address.slot;
                    own.reads.extend(argument.reads.then_some(slot));
                    own.writes.extend(argument.writes.then_some(slot));
                }
            }
            Step::Bind { source, .. } => own.reads.push(source.slot),
            Step::Branch { condition: Address { slot, .. }, .. }
            | Step::While { condition: Address { slot, .. }, .. } => own.reads.push(*slot),
            Step::Copy { source, destination, .. }
            | Step::Move(Move { source, destination, .. }) => {
                own.reads.push(source.slot);
                own.writes.push(destination.slot);
            }
            Step::Barrier | Step::Repeat { .. } => {}
        }
        found.push(own);
    });
    found
}
