//! Language models in GGUF files and safetensors folders as sources.

use base::Result;
use front::{Facts, ImportOptions, Imported, ModelInfo, Port};
use import_gguf::DecoderModel;

use super::SourceModel;

impl SourceModel for DecoderModel {
    fn info(&self) -> ModelInfo {
        let (inputs, outputs) = self.ports(&ImportOptions::default()).unwrap_or_default();
        let (parameters, parameter_bytes) = self.parameters();
        let metadata = self.metadata();
        let text = |key: &str| metadata.get(key).cloned().unwrap_or_default();
        ModelInfo {
            name: text("general.name"),
            producer: format!("{}, architecture {}", self.file().origin, self.architecture()),
            producer_name: self.file().origin.to_string(),
            description: text("general.description"),
            ir_version: i64::from(self.file().version),
            inputs,
            outputs,
            dimensions: self.dimensions(),
            parameters,
            parameter_bytes,
            operators: self.formats(),
            metadata,
            ..ModelInfo::default()
        }
    }

    fn import(&self, options: &ImportOptions, _facts: &Facts) -> Result<Imported> {
        DecoderModel::import(self, options)
    }

    fn ports(&self, options: &ImportOptions) -> Result<(Vec<Port>, Vec<Port>)> {
        DecoderModel::ports(self, options)
    }
}
