//! Models as C on the machine at hand: their sources and what becomes of the outputs.

use std::time::Duration;

use base::Result;
use tensor::Value;
use tilewright::compiled::{CModel, CRun, DeploymentRequest, Source, compile_to_c, run_models};
use tilewright::{Options, TargetChoice};

/// Whether options choose sources rather than machine code.
pub(crate) fn is_chosen(options: &Options) -> bool {
    options.target != TargetChoice::Native
        && options.target.resolve().is_ok_and(|target| !target.isa.is_machine_code())
}

/// Runs a model as C, one value an input.
///
/// # Errors
/// What is wrong with the model, its inputs or the options; `TW0404` without a C compiler; `TW0405`
/// if the program stops.
pub fn run_as_c(source: &Source, options: &Options, inputs: &[Value]) -> Result<Vec<Value>> {
    let model = compile_for(source, options, 0, inputs)?;
    let run = CRun { model: 0, inputs: Value::components_of(inputs) };
    let mut results = run_all(&[model], &[run], None)?;
    results.pop().unwrap_or_else(|| Ok(Vec::new()))
}

/// Compiles a model for these inputs, to be one of several: its number among them names it.
///
/// # Errors
/// What is wrong with the model, its inputs or the options.
pub(crate) fn compile_for(
    source: &Source,
    options: &Options,
    number: usize,
    inputs: &[Value],
) -> Result<CModel> {
    let known: Vec<Option<Value>> = inputs.iter().cloned().map(Some).collect();
    let name = &format!("model{number}");
    compile_to_c(DeploymentRequest { source, options, name, inputs: &known }, false)
}

/// Does runs of models; gives the outputs of each run, or why it was not done, as [`run_models`]
/// says.
///
/// # Errors
/// As there.
pub(crate) fn run_all(
    models: &[CModel],
    runs: &[CRun],
    limit: Option<Duration>,
) -> Result<Vec<Result<Vec<Value>>>> {
    let written: Vec<_> = models.iter().map(CModel::for_runner).collect();
    let results = runs.iter().zip(run_models(&written, runs, limit)?);
    Ok(results.map(|(run, results)| Ok(models[run.model].outputs(results?))).collect())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tensor::Tensor;

    use super::*;

    /// A model that doubles its input, with something else in its first statement.
    fn model(number: usize, statement: &str) -> CModel {
        let text = "function @main {\n  parameter %x: f32[1] as \"x\"\n  \
            %y: f32[1] = map add %x, %x\n  return %y as \"y\"\n}\n";
        let module =
            module::parse(text, &Default::default()).unwrap_or_else(|found| panic!("{found}"));
        let (source, options) = (Source::Module(Arc::new(module)), Options::default());
        let model = compile_for(&source, &options, number, &[]);
        let mut model = model.unwrap_or_else(|found| panic!("{found}"));
        let code = &mut model.code.model_c;
        let start = code.rfind("\n{\n").map_or(0, |at| at + 3);
        code.insert_str(start, statement);
        model
    }

    #[test]
    fn a_run_that_stops_leaves_the_others_alone() {
        if !testkit::has_c_compiler() {
            return;
        }
        let crash = "  *(volatile int *)0 = 0;\n";
        let models = [model(0, ""), model(1, crash), model(2, "  return 7;\n"), model(3, "")];
        let input = |number: u8| vec![Tensor::from_vec(&[1], vec![f32::from(number)]).into()];
        let run = |(number, model)| CRun { model, inputs: input(number) };
        let runs: Vec<CRun> = [(1, 0), (2, 1), (3, 2), (4, 3), (5, 1), (6, 0)].map(run).into();
        let results = run_all(&models, &runs, None).unwrap_or_else(|found| panic!("{found}"));
        let said: Vec<String> = results
            .into_iter()
            .map(|result| match result {
                Ok(values) => {
                    values[0].as_tensor().map_or(f64::NAN, |it| it.get_f64(0)).to_string()
                }
                Err(found) => found.iter().flat_map(|it| it.reasons.clone()).collect(),
            })
            .collect();
        assert!(said[1].contains("signal") && said[4].contains("signal"), "{said:?}");
        assert_eq!(said[2], "exit status: 1: fault 7");
        assert_eq!([&said[0], &said[3], &said[5]], ["2", "8", "12"]);
    }
}
