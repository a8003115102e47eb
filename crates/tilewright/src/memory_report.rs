//! What a model takes as C sources: constants, memory, operations; whether that fits a machine, and
//! what is in the way where it does not.
//!
//! Memory is what the caller declares: the arena, the inputs and the outputs, and the local arrays
//! of the kernel that has most of them. What a C compiler adds is not known here: what functions
//! save on the stack, two of which are active at once, and the code, of which there is an estimate
//! for the cores for which one has been measured.
//!
//! Plans take the least memory that was found in any case. What costs time, less code, is done only
//! where limits ask for it.

use std::collections::BTreeMap;
use std::fmt;

use backend_c::{CSources, Interface, port_bytes};
use base::{Diagnostic, Result, codes};
use memory_plan::TurnOrder;
use program::{Place, Step};

use crate::deployment::LoweredMain;
use crate::specialisation::LoweredFunction;

/// What sources may take, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryLimits {
    /// For constants, which lie in read-only memory, and code.
    pub flash: Option<u64>,
    /// For arena, inputs, outputs and local arrays.
    pub ram: Option<u64>,
}

/// What sources of one program of fixed sizes take, in bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemoryReport {
    /// The block of constants, and whether it lies in the code, so in read-only memory.
    pub constants: u64,
    pub are_constants_inside: bool,
    /// The code, about; 0 where there is no estimate.
    pub code: u64,
    /// The arena of a run.
    pub arena: u64,
    /// All inputs.
    pub inputs: u64,
    /// All outputs.
    pub outputs: u64,
    /// The local arrays of the kernel that has most.
    pub local_arrays: u64,
    /// Kernels in the order of the run.
    pub kernels: Vec<KernelRow>,
    /// What was done to take less.
    pub means: Vec<String>,
}

/// A run of a kernel, as a row of the report.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KernelRow {
    /// The kernel's name in the sources.
    pub name: String,
    /// The nodes of the model that it computes.
    pub nodes: Vec<String>,
    /// Additions, multiplications and all else that it does to elements.
    pub operations: u64,
    /// Bytes of the arena that it reads or writes: while it runs all of them are taken.
    pub arena: u64,
    /// The same in any plan, at least.
    pub least: u64,
    /// Whether it writes over what it reads.
    pub is_in_place: bool,
}

impl MemoryReport {
    /// The report of a program; none of a plan, whose memory depends on its inputs.
    pub(crate) fn of(
        main: &LoweredMain,
        interface: &Interface,
        code: &CSources,
    ) -> Option<MemoryReport> {
        let LoweredMain::Program(main) = main else { return None };
        let (constants, arena) = (code.sizes.0, code.sizes.1?);
        let bytes = |ports: &[backend_c::CPort]| ports.iter().map(port_bytes).sum();
        let local = main.module.kernels.values().map(backend_c::local_bytes);
        let kernels = kernels(main);
        let in_place = kernels.iter().filter(|kernel| kernel.is_in_place).count();
        let mut means = Vec::new();
        if in_place > 0 {
            means.push(format!("runs of kernels that write over what they read: {in_place}"));
        }
        if main.lowered.is_reordered {
            means.push("kernels in another order than the model's nodes".to_owned());
        }
        if code.shared_kernels > 0 {
            means.push(format!("kernels that are functions of others: {}", code.shared_kernels));
        }
        Some(MemoryReport {
            constants,
            are_constants_inside: code.are_weights_inside,
            code: code.code_bytes.unwrap_or(0),
            arena,
            inputs: bytes(&interface.inputs),
            outputs: bytes(&interface.outputs),
            local_arrays: local.max().unwrap_or(0),
            kernels,
            means,
        })
    }

    /// Memory that is written: constants too, where they do not lie in the code.
    #[must_use]
    pub fn ram(&self) -> u64 {
        let constants = if self.are_constants_inside { 0 } else { self.constants };
        constants + self.arena + self.inputs + self.outputs + self.local_arrays
    }

    /// Read-only memory: constants that lie in the code, and the code as it is estimated.
    #[must_use]
    pub fn flash(&self) -> u64 {
        self.constants_in_flash() + self.code
    }

    fn constants_in_flash(&self) -> u64 {
        if self.are_constants_inside { self.constants } else { 0 }
    }

    /// The kernel that takes most of the arena in any plan.
    fn widest(&self) -> Option<&KernelRow> {
        self.kernels.iter().max_by_key(|kernel| kernel.least)
    }

    /// Checks that the sources fit.
    ///
    /// # Errors
    /// `TW0409` with the kernel that is in the way, and how much it takes at least.
    pub fn check(&self, limits: MemoryLimits) -> Result<()> {
        if let Some(most) = limits.flash.filter(|most| self.flash() > *most) {
            let (constants, flash) = (self.constants_in_flash(), self.flash());
            let (taken, proof) = match constants > most {
                true => (format!("the constants take {constants} bytes"), "the code comes on top"),
                false => (
                    format!("constants and code take about {flash} bytes"),
                    "no shorter code is known",
                ),
            };
            return Err(does_not_fit(format!("{taken} of flash"))
                .because(format!("at most {most} are there, and {proof}"))
                .remedy(give("flash", flash))
                .into());
        }
        let Some(most) = limits.ram.filter(|most| self.ram() > *most) else { return Ok(()) };
        let diagnostic = does_not_fit(format!("a run takes {} bytes of RAM", self.ram()));
        let Some(widest) = self.widest() else {
            return Err(diagnostic.because(format!("at most {most} are there")).into());
        };
        let around = self.ram() - self.arena - self.local_arrays;
        let least = around + widest.least;
        let nodes = widest.nodes.join(", ");
        let proof = format!(
            "inputs and outputs take {around} bytes, and while `{}` ({nodes}) runs, what it reads \
             and writes takes {} bytes of the arena in any plan: {least} together",
            widest.name, widest.least
        );
        let reason = match least > most {
            true => format!("at most {most} are there; {proof}"),
            false => format!(
                "at most {most} are there; {proof}; with what later kernels need of earlier ones \
                 the arena takes {} bytes",
                self.arena
            ),
        };
        let needed = self.ram();
        Err(diagnostic.because(reason).remedy(give("ram", needed)).into())
    }
}

/// What fits, if there is so much memory.
fn give(name: &str, bytes: u64) -> String {
    format!("use `--memory {name}={bytes}`, if there is so much")
}

fn does_not_fit(message: String) -> Diagnostic {
    Diagnostic::error(codes::DOES_NOT_FIT, message).at("--memory")
}

/// The runs of kernels of a program.
fn kernels(main: &LoweredFunction) -> Vec<KernelRow> {
    let (program, kernels) = (main.program(), &main.module.kernels);
    // As long as a memory plan may have kernels write over what they read, it may.
    let turns = TurnOrder::Sequential;
    let mut runs = Vec::new();
    ::program::walk(&program.steps, &mut |step| {
        let Step::Run(run) = step else { return };
        // What is written over what is read counts once.
        let mut places = BTreeMap::new();
        for argument in &run.arguments {
            let slot = &program.slots[argument.address.slot];
            if let Place::Arena(offset) = &slot.place {
                let of = |expr: &sym::Expr| expr.as_constant().map_or(0, i64::unsigned_abs);
                places.insert(argument.address.slot, (of(offset), of(offset) + of(&slot.bytes)));
            }
        }
        let mut places: Vec<(u64, u64)> = places.into_values().collect();
        places.sort_unstable();
        let (mut bytes, mut last, mut is_in_place) = (0, 0, false);
        for (start, end) in places {
            is_in_place |= start < last;
            bytes += end.saturating_sub(start.max(last));
            last = last.max(end);
        }
        let least = memory_plan::least_bytes(program, kernels, run, turns);
        runs.push((bytes, least.unsigned_abs().min(bytes), is_in_place));
    });
    let infos = main.lowered.kernels.iter().zip(runs);
    let kernel = |(info, (arena, least, is_in_place)): (&lower::KernelInfo, _)| KernelRow {
        name: info.name.clone(),
        nodes: info.nodes.clone(),
        operations: info.flops,
        arena,
        least,
        is_in_place,
    };
    infos.map(kernel).collect()
}

impl fmt::Display for MemoryReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{:>12}  bytes of", "")?;
        let rows = [
            ("flash, of which", self.flash()),
            ("  constants", self.constants_in_flash()),
            ("  code, about", self.code),
            ("RAM, of which", self.ram()),
            ("  arena", self.arena),
            ("  inputs", self.inputs),
            ("  outputs", self.outputs),
            (
                "  constants",
                self.ram() - self.arena - self.inputs - self.outputs - self.local_arrays,
            ),
            ("  local arrays, on the stack", self.local_arrays),
        ];
        for (what, bytes) in rows {
            writeln!(f, "{bytes:>12}  {what}")?;
        }
        writeln!(f, "\n{:>12}  {:>12}  kernel", "operations", "arena bytes")?;
        for kernel in &self.kernels {
            let KernelRow { name, operations, arena, .. } = kernel;
            writeln!(f, "{operations:>12}  {arena:>12}  {name}")?;
        }
        if !self.means.is_empty() {
            writeln!(f, "\nto take less: {}", self.means.join("; "))?;
        }
        Ok(())
    }
}
