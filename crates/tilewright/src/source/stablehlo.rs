//! StableHLO programs as sources.

use base::Result;
use bytes::Bytes;
use front::{Facts, ImportOptions, Imported, ModelInfo, Port};
use import_stablehlo::{CheckedFunction, StablehloProgram};

use super::SourceModel;
use crate::options::Options;

impl SourceModel for StablehloProgram {
    fn info(&self) -> ModelInfo {
        let free = ImportOptions::default();
        let (inputs, outputs) = self.ports(&free).unwrap_or_default();
        let (parameters, parameter_bytes) = self.parameters();
        ModelInfo {
            name: self.name().to_owned(),
            producer: match self.producer() {
                "" => "StableHLO".to_owned(),
                producer => producer.to_owned(),
            },
            producer_name: "StableHLO".to_owned(),
            inputs,
            outputs,
            dimensions: self.dimensions(),
            parameters,
            parameter_bytes,
            operators: self.operations(),
            unsupported: self.unsupported(),
            ..ModelInfo::default()
        }
    }

    fn import(&self, options: &ImportOptions, _facts: &Facts) -> Result<Imported> {
        StablehloProgram::import(self, options)
    }

    fn ports(&self, options: &ImportOptions) -> Result<(Vec<Port>, Vec<Port>)> {
        StablehloProgram::ports(self, options)
    }
}

/// The functions of a StableHLO text that check their own values, each with its checks. A text may
/// hold several programs, lines `// -----` between them.
///
/// # Errors
/// A text that is not UTF-8. What a part or a function is refused for stands in its place.
pub fn checked_functions(
    bytes: &Bytes,
    options: &Options,
) -> Result<Vec<(String, Result<CheckedFunction>)>> {
    let import = options.for_import();
    let mut found = Vec::new();
    for part in import_stablehlo::parts(bytes)? {
        match StablehloProgram::read(&part, &options.limits) {
            Ok(program) => found.extend(program.checked_functions(&import)),
            Err(refused) => found.push((String::new(), Err(refused))),
        }
    }
    Ok(found)
}
