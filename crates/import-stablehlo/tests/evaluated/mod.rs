//! Programs imported, and what the evaluator makes of them when they were printed and read again.

use front::ImportOptions;
use import_stablehlo::StablehloProgram;
use tensor::Tensor;

pub(crate) fn import(text: &[u8]) -> Result<front::Imported, String> {
    let options = ImportOptions::default();
    let program = StablehloProgram::read(&text.to_vec().into(), &options.limits);
    let imported = program.and_then(|program| {
        // What is told of a text is told of any.
        let told = (program.operations(), program.unsupported(), program.dimensions());
        assert!(told.0.values().all(|count| *count > 0), "{told:?} {:?}", program.parameters());
        program.import(&options)
    });
    imported.map_err(|found| found.to_string())
}

/// A module that is printed and read again, as which it prints, too.
fn read_back(module: &module::Module) -> Result<module::Module, String> {
    let (printed, file) = (module.to_string(), module::constants_file(module));
    let again = module::parse(&printed, &file.into()).map_err(|found| found.to_string())?;
    if again.to_string() == printed { Ok(again) } else { Err("it prints as another".to_owned()) }
}

/// What the evaluator makes of a module when it was printed and read again.
pub(crate) fn evaluated(
    imported: &front::Imported,
    inputs: &[Tensor],
) -> Result<Vec<Tensor>, String> {
    let module = read_back(&imported.module).map_err(|found| format!("its text: {found}"))?;
    let function = module.functions.values().next().expect("a function");
    graph::verify(function).map_err(|found| format!("{found:?}"))?;
    let constant = |id| module.constants[id].tensor.clone();
    let precision = eval::EvaluationPrecision::Declared;
    let results = eval::graph::evaluate(function, &constant, inputs, precision);
    results.map_err(|found| format!("{found:?}"))
}
