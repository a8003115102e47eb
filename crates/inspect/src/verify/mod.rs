//! An executable against the reference evaluator: every kernel, and every output of the model.
//!
//! `kernels` feeds each kernel the evaluator's values; `outputs` judges what a run gives against
//! the imported model evaluated in f64. Where an output is wrong though each kernel is right,
//! `blame` compares the levels between the two, node by node of the model, and `memory` what the
//! kernels of a run read and write. Of a model that takes the evaluator too long `sample` says what
//! is compared.

mod blame;
mod kernels;
mod memory;
mod outputs;
mod sample;

use std::fmt;

use base::Result;
use tensor::Value;
use tilewright::compiled::{Source, Specialisation, compile_source};
use tilewright::{Executable, Options};

use kernels::Verifier;
use outputs::Runs;
pub(crate) use outputs::{Reference, wrong_beside};
pub use sample::Sample;

/// Operations of the evaluator (elements that nodes compute, and terms of their sums) that
/// `verify` takes if nothing else is said: half a minute of a core that does 1.4 * 10^8 of them
/// in a second.
pub const VERIFY_OPERATIONS: u64 = 1 << 32;

/// What became of each kernel and of each output.
#[derive(Clone, Debug, Default)]
pub struct VerifyReport {
    /// In the order of the programs, those of `setup` first.
    pub kernels: Vec<KernelVerdict>,
    /// Kernels of the programs that were not compared, and why.
    pub not_compared: Vec<KernelVerdict>,
    /// One for each tensor that the model's outputs are made of.
    pub outputs: Vec<OutputVerdict>,
    /// Of a model with wrong outputs whose kernels are all right, where they become wrong.
    pub blame: Vec<String>,
    /// Of a model that is too large for the evaluator, what was compared instead of all.
    pub sample: Option<Sample>,
}

/// What became of one run of a kernel.
#[derive(Clone, Debug)]
pub struct KernelVerdict {
    /// The kernel's name.
    pub kernel: String,
    /// The nodes of the model which it computes.
    pub nodes: Vec<String>,
    /// What differs, if something does; why it was not compared, if it was not.
    pub failure: Option<String>,
}

/// What became of an output.
#[derive(Clone, Debug)]
pub struct OutputVerdict {
    /// Its name.
    pub name: String,
    /// Its error against the imported model evaluated in f64, in a sample against the model
    /// compiled without passes over graphs: the norm of the difference over the norm of the
    /// reference.
    pub error: f64,
    /// The largest error that is allowed; infinite of integers, which are not judged by it.
    pub most: f64,
    /// What is wrong with it, if something is.
    pub failure: Option<String>,
}

impl VerifyReport {
    /// Whether every kernel that was compared, and every output, is right.
    #[must_use]
    pub fn passed(&self) -> bool {
        self.kernels.iter().all(|verdict| verdict.failure.is_none())
            && self.outputs.iter().all(|verdict| verdict.failure.is_none())
    }
}

impl fmt::Display for VerifyReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut say = |verdict: &KernelVerdict, what: &str| {
            let KernelVerdict { kernel, nodes, failure } = verdict;
            let nodes = if nodes.is_empty() { String::new() } else { nodes.join(", ") + ": " };
            match failure {
                Some(failure) => writeln!(f, "{what}{kernel}: {nodes}{failure}"),
                None => Ok(()),
            }
        };
        self.kernels.iter().try_for_each(|verdict| say(verdict, "wrong: "))?;
        self.not_compared.iter().try_for_each(|verdict| say(verdict, "not compared: "))?;
        let reference = match self.sample {
            None => "the model in f64",
            Some(_) => "the model without graph passes",
        };
        for OutputVerdict { name, error, most, failure } in &self.outputs {
            write!(f, "output {name}: error {error:.1e} against {reference}")?;
            if most.is_finite() {
                write!(f, ", at most {most:.1e}")?;
            }
            match failure {
                None => writeln!(f)?,
                Some(failure) => writeln!(f, ": wrong: {failure}")?,
            }
        }
        self.blame.iter().try_for_each(|blame| writeln!(f, "to blame: {blame}"))?;
        let wrong = |failures: &mut dyn Iterator<Item = &Option<String>>| {
            failures.filter(|failure| failure.is_some()).count()
        };
        let outputs = wrong(&mut self.outputs.iter().map(|verdict| &verdict.failure));
        let kernels = wrong(&mut self.kernels.iter().map(|verdict| &verdict.failure));
        writeln!(f, "{} outputs compared with the model, {outputs} differ", self.outputs.len())?;
        write!(f, "{} kernels compared with the evaluator, {kernels} differ", self.kernels.len())?;
        match self.not_compared.len() {
            0 => writeln!(f)?,
            count => writeln!(f, ", {count} not compared")?,
        }
        self.sample.iter().try_for_each(|sample| write!(f, "{sample}"))
    }
}

/// Compares every kernel of the code for these inputs, and the outputs; a sample of both where all
/// takes the evaluator more than `most` operations. `progress` hears how many kernels of how many
/// are done, and the name of the one at hand.
///
/// # Errors
/// Inputs that do not fit; faults of the evaluator.
pub fn verify(
    executable: &Executable,
    inputs: &[Value],
    most: u64,
    progress: &mut dyn FnMut(usize, usize, &str),
) -> Result<VerifyReport> {
    verify_against(executable, executable.source(), inputs, most, progress)
}

/// As [`verify`], outputs against the model of a source.
fn verify_against(
    executable: &Executable,
    source: &Source,
    inputs: &[Value],
    most: u64,
    progress: &mut dyn FnMut(usize, usize, &str),
) -> Result<VerifyReport> {
    let code = |half: &Specialisation| Ok(half.executable().code().clone());
    // What cannot be run need not be evaluated, which takes longer.
    let (first, again) = (executable.run_values(inputs)?, executable.run_values(inputs)?);
    let names = executable.outputs().iter().flat_map(|port| port.kind.component_names(&port.name));
    let (first, again) = (Value::components_of(&first), Value::components_of(&again));
    let names = names
        .zip(&first)
        .flat_map(|(name, component)| component.structure().names(&name))
        .collect();
    let (actual, again) = (Value::tensors_of(&first), Value::tensors_of(&again));
    let runs = Runs { names, actual, again };
    let (twin, many) = (for_extents_at_hand(executable)?, executable);
    let executable = twin.as_ref().unwrap_or(executable);
    let verifier = Verifier { executable, code: &code };
    let operations = sample::operations(executable, inputs)?;
    if operations > most {
        let mut report = verifier.sample(inputs, operations, most, progress)?;
        report.not_compared.extend(kernels_for_many(many));
        if report.sample.as_ref().is_some_and(|sample| sample.are_outputs_compared) {
            progress(report.kernels.len(), report.kernels.len(), "the model without graph passes");
            let plain = sample::plain_outputs(executable, source, inputs)?;
            report.outputs = runs.against(&plain, executable.options());
        }
        return Ok(report);
    }
    let mut report = verifier.kernels(inputs, progress)?;
    report.not_compared.extend(kernels_for_many(many));
    let reference = Reference::new(executable, source, inputs)?;
    report.outputs = reference.verdicts(&runs);
    let is_right = report.outputs.iter().all(|verdict| verdict.failure.is_none());
    let kernels_are_right = report.kernels.iter().all(|verdict| verdict.failure.is_none());
    if !is_right && kernels_are_right {
        let blame = blame::blame(executable, inputs, &reference);
        report.blame.push(blame.unwrap_or_else(|found| found.to_string()));
    }
    Ok(report)
}

/// Where an executable has code for many extents: the model compiled for those at hand, whose
/// kernels compute the same and can be given the evaluator's operands.
fn for_extents_at_hand(executable: &Executable) -> Result<Option<Executable>> {
    if !executable.options().symbolic {
        return Ok(None);
    }
    let options = Options { symbolic: false, ..executable.options().clone() };
    compile_source(executable.source().clone(), &options).map(Some)
}

/// The kernels of code for many extents, of which outputs alone are compared.
fn kernels_for_many(executable: &Executable) -> Option<KernelVerdict> {
    let reason = "outputs are theirs; the kernels above are those for the extents at hand";
    executable.options().symbolic.then(|| KernelVerdict {
        kernel: "kernels for many extents".to_owned(),
        nodes: Vec::new(),
        failure: Some(reason.to_owned()),
    })
}

/// What an executable should give for these inputs; why it is not known, where it is not: to find
/// it takes the evaluator more than `most` operations, or it stops.
pub(crate) fn reference(
    executable: &Executable,
    inputs: &[Value],
    most: u64,
) -> std::result::Result<Reference, String> {
    let said = |found: base::Diagnostics| found.to_string().replace('\n', " ");
    if sample::operations(executable, inputs).map_err(said)? > most {
        return Err("the model is too large for the evaluator".to_owned());
    }
    Reference::new(executable, executable.source(), inputs).map_err(said)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use base::Arena;
    use graph::{Function, Op};
    use module::Module;
    use tensor::{ScalarFunction, Tensor};

    use super::*;
    use tilewright::{Options, compile_module};

    const FUNCTION: &str = "function @f {
        parameter %x: f32[4] as \"x\"
        %a \"a\": f32[4] = map exp %x loc(\"first\", \"Exp\")
        %b \"b\": f32[4] = map tanh %a loc(\"second\", \"Tanh\")
        %c \"c\": f32[4] = map sqrt %b loc(\"third\", \"Sqrt\")
        return %c as \"c\" }";

    fn module_of(function: Function) -> Module {
        let mut functions = Arena::default();
        functions.push(Arc::new(function));
        Module { functions, ..Module::default() }
    }

    /// The report on a function whose compile took one scalar function for another: the
    /// model that it is compared with is another. `None` where this machine cannot run the code.
    fn report_of_mistaken(from: ScalarFunction, to: ScalarFunction) -> Option<VerifyReport> {
        if !std::arch::is_x86_feature_detected!("avx2") {
            eprintln!("skipped: this machine cannot run the JIT's code");
            return None;
        }
        let mut mistaken: Function = graph::parse(FUNCTION).expect("a function");
        let options = Options { threads: Some(1), ..Options::default() };
        let executable =
            compile_module(module_of(mistaken.clone()), &options).expect("it compiles");
        for (_, node) in mistaken.nodes.iter_mut() {
            if let Op::Map { function, .. } = &mut node.op
                && *function == from
            {
                *function = to;
            }
        }
        let source = Source::Module(Arc::new(module_of(mistaken)));
        let input = Tensor::from_slice(&[4], &[0.5_f32, -1.0, 0.25, 1.5]);
        let report =
            verify_against(&executable, &source, &[input.into()], u64::MAX, &mut |_, _, _| ());
        Some(report.expect("the evaluator runs"))
    }

    #[test]
    fn what_was_compiled_of_another_model_fails_and_is_blamed() {
        let right = ScalarFunction::Tanh;
        let Some(report) = report_of_mistaken(right, right) else { return };
        assert!(report.passed() && report.outputs.len() == 1, "{report}");
        let Some(report) = report_of_mistaken(right, ScalarFunction::Sin) else { return };
        assert!(!report.passed(), "{report}");
        assert!(report.kernels.iter().all(|kernel| kernel.failure.is_none()), "{report}");
        let blame = report.blame.join("");
        assert!(blame.starts_with("what is kept from an earlier compile: node \"second\" (Tanh)"));
    }

    #[test]
    fn a_large_model_is_compared_by_a_sample_which_says_so() {
        if !std::arch::is_x86_feature_detected!("avx2") {
            eprintln!("skipped: this machine cannot run the JIT's code");
            return;
        }
        let text = "function @f {
            parameter %x: f32[64, 64] as \"x\"
            %a: f32[64, 64] = contract [m: 64, n: 64 | k: 64] %x[m, k], %x[k, n] accumulate f32
            %b: f32[64, 64] = contract [m: 64, n: 64 | k: 64] %a[m, k], %x[k, n] accumulate f32
            %c: f32[64] = reduce max [m: 64 | n: 64] %b[m, n]
            return %c as \"c\" }";
        let function: Function = graph::parse(text).expect("a function");
        let options = Options { threads: Some(1), ..Options::default() };
        let executable = compile_module(module_of(function), &options).expect("it compiles");
        let inputs = [tensor::random::random(tensor::DType::F32, &[64, 64], 1).into()];
        let verify = |most| verify(&executable, &inputs, most, &mut |_, _, _| ()).expect("values");
        let all = verify(u64::MAX);
        assert!(all.sample.is_none() && all.passed() && all.kernels.len() == 2, "{all}");
        // One product of the two fits.
        let some = verify(2 * 300_000);
        let text = some.to_string();
        assert!(some.passed() && some.kernels.len() == 1 && some.outputs.len() == 1, "{text}");
        assert!(text.contains("1 of 2 kernels") && text.contains("without graph passes"));
    }

    #[test]
    fn a_number_in_the_place_of_none_fails() {
        // The root of a negative number is none; the hyperbolic tangent of one is one.
        let (is, should) = (ScalarFunction::Exp, ScalarFunction::Neg);
        let Some(report) = report_of_mistaken(is, should) else { return };
        assert!(!report.passed(), "{report}");
        let failure = report.outputs[0].failure.as_deref().unwrap_or_default().to_lowercase();
        assert!(failure.contains("instead of nan"), "{report}");
    }
}
