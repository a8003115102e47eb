//! Programs of PyTorch's as sources.

use base::Result;
use front::{Facts, ImportOptions, Imported, ModelInfo, Port};
use import_aten::ExportedProgram;

use super::SourceModel;

impl SourceModel for ExportedProgram {
    fn info(&self) -> ModelInfo {
        let free = ImportOptions::default();
        let (inputs, outputs) = self.ports(&free).unwrap_or_default();
        let weights = self.weights();
        ModelInfo {
            name: "exported program".to_owned(),
            producer: format!("PyTorch {}", self.torch_version()).trim_end().to_owned(),
            producer_name: "PyTorch".to_owned(),
            ir_version: self.schema().0,
            opsets: self.opsets().to_vec(),
            inputs,
            outputs,
            dimensions: self.dimensions(),
            parameters: weights.iter().map(|weight| weight.len() as u64).sum(),
            parameter_bytes: weights.iter().map(|weight| weight.bytes().len() as u64).sum(),
            operators: self.operators(),
            unsupported: self.unsupported(),
            ..ModelInfo::default()
        }
    }

    fn import(&self, options: &ImportOptions, _facts: &Facts) -> Result<Imported> {
        ExportedProgram::import(self, options)
    }

    fn ports(&self, options: &ImportOptions) -> Result<(Vec<Port>, Vec<Port>)> {
        ExportedProgram::ports(self, options)
    }
}
