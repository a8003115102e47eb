//! Any stage of a compile as text.

use std::fmt::Write as _;
use std::path::Path;

use base::remedies::use_instead;
use base::{Diagnostic, KernelId, Result, codes};
use module::Module;

use tensor::Value;
use tilewright::compiled::{
    Facts, FrontHalf, Source, Specialisation, disassembly, front, vcode_text,
};
use tilewright::{Executable, Options, Port, compile};

/// A stage of a compile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// The graph as imported.
    Imported,
    /// `setup` and the plan's segments, after optimisation, format choice and the cut.
    Optimized,
    /// The plan: what stands between segments, and in which order.
    Plan,
    /// Kernels as their definitions say them.
    Kernels,
    /// Kernels after scheduling, each behind its trace.
    Scheduled,
    /// The programs.
    Program,
    /// Kernels between instruction selection and register allocation.
    Vcode,
    /// Machine code, disassembled.
    Asm,
}

impl Stage {
    /// Whether what is printed depends on the extents of inputs.
    #[must_use]
    pub fn is_compiled(self) -> bool {
        !matches!(self, Stage::Imported | Stage::Optimized | Stage::Plan)
    }

    /// All stages, in their order.
    pub const ALL: [Stage; 8] = [
        Stage::Imported,
        Stage::Optimized,
        Stage::Plan,
        Stage::Kernels,
        Stage::Scheduled,
        Stage::Program,
        Stage::Vcode,
        Stage::Asm,
    ];
}

/// Compiles as far as the stage needs and prints it; of kernels, only the one named, if one is.
///
/// What is compiled depends on the inputs where the model needs facts, and so does the code of
/// segments where extents are free or computed: then it is that of a run with these, one value for
/// each of the model's inputs, in order. Without them it is what all runs share, or, where they
/// share nothing, that of a run with random inputs.
///
/// # Errors
/// Those of the compile and of the run; a kernel that is not there.
pub fn dump(
    model: &Path,
    options: &Options,
    stage: Stage,
    inputs: Option<&[Value]>,
    kernel: Option<&str>,
) -> Result<String> {
    if !stage.is_compiled() && inputs.is_none() {
        let target = options.target.resolve()?;
        let source = Source::read(model, &options.limits)?;
        return Ok(functions(&front(&source, options, &target, &Facts::default())?, stage));
    }
    let executable = compile(model, options)?;
    let fixed = if inputs.is_some() { None } else { executable.fixed_code() };
    let (variant, segments, others) = match fixed {
        Some(fixed) => fixed,
        None => {
            let inputs =
                inputs.map_or_else(|| random(executable.inputs()), |it| Ok(it.to_vec()))?;
            let (variant, runs) = executable.met(&inputs)?;
            (variant, runs.into_iter().map(|run| run.specialisation).collect(), 0)
        }
    };
    let halves: Vec<&Specialisation> =
        std::iter::once(variant.setup()).chain(segments.iter().map(|it| &**it)).collect();
    let text = match stage {
        Stage::Imported | Stage::Optimized | Stage::Plan => functions(variant.front(), stage),
        Stage::Program => {
            let program = |half: &&Specialisation| half.program().to_string();
            halves.iter().map(program).collect::<Vec<String>>().join("\n")
        }
        _ => kernels(&executable, &halves, stage, kernel)?,
    };
    Ok(match others {
        0 => text,
        _ => format!("// segments left out, whose sizes a run decides: {others}\n{text}"),
    })
}

fn random(ports: &[Port]) -> Result<Vec<Value>> {
    let numbered = ports.iter().enumerate();
    numbered.map(|(number, port)| port.random(number as u64).map(Value::from)).collect()
}

/// The functions of a front half at a stage.
fn functions(front: &FrontHalf, stage: Stage) -> String {
    match stage {
        Stage::Imported => front.imported.to_string(),
        Stage::Plan => front.module.functions[front.plan].to_string(),
        _ => {
            let functions = front.module.functions.iter();
            let functions = functions.filter(|(id, _)| *id != front.plan);
            functions.map(|(_, function)| format!("{function}\n")).collect()
        }
    }
}

fn kernels(
    executable: &Executable,
    halves: &[&Specialisation],
    stage: Stage,
    only: Option<&str>,
) -> Result<String> {
    let mut text = String::new();
    let mut names = Vec::new();
    for half in halves {
        for id in half.kernels() {
            let name = &half.module().kernels[id].name;
            names.push(name.clone());
            if only.is_none_or(|only| only == name) {
                text.push_str(&kernel_text(executable, half, id, stage)?);
                text.push('\n');
            }
        }
    }
    if let Some(only) = only.filter(|_| text.is_empty()) {
        return Err(Diagnostic::error(
            codes::UNKNOWN_KERNEL,
            format!("no kernel is called `{only}`"),
        )
        .at(format!("--kernel {only}"))
        .because(format!("the kernels are {}", names.join(", ")))
        .remedy(use_instead(only, names.iter().map(String::as_str), |near| {
            format!("--kernel {near}")
        }))
        .into());
    }
    Ok(text)
}

fn kernel_text(
    executable: &Executable,
    half: &Specialisation,
    id: KernelId,
    stage: Stage,
) -> Result<String> {
    let module: &Module = half.module();
    let kernel = &module.kernels[id];
    let info = half.lowered().kernels.iter().find(|info| info.kernel == id);
    Ok(match stage {
        Stage::Kernels => info.map(|info| info.naive.kernel.to_string()).unwrap_or_default(),
        Stage::Scheduled => {
            let mut text = String::new();
            for step in info.into_iter().flat_map(|info| info.trace.iter()) {
                let _ = writeln!(text, "// {step}");
            }
            let _ = write!(text, "{kernel}");
            text
        }
        Stage::Vcode => vcode_text(kernel, executable.target())?,
        _ => format!("{}:\n{}", kernel.name, disassembly(kernel, executable.target())?),
    })
}
