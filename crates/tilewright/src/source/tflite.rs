//! Models of TensorFlow Lite's as sources.

use base::Result;
use front::{Facts, ImportOptions, Imported, ModelInfo, Port};
use import_tflite::TfliteModel;

use super::SourceModel;

impl SourceModel for TfliteModel {
    fn info(&self) -> ModelInfo {
        let free = ImportOptions::default();
        let (inputs, outputs) = self.ports(&free).unwrap_or_default();
        let (parameters, parameter_bytes) = self.parameters();
        ModelInfo {
            name: self.name().to_owned(),
            producer: self.description().to_owned(),
            producer_name: "TensorFlow Lite".to_owned(),
            metadata: self.metadata(),
            ir_version: i64::from(self.version()),
            inputs,
            outputs,
            dimensions: self.dimensions(),
            parameters,
            parameter_bytes,
            operators: self.operators(),
            unsupported: self.unsupported(),
            ..ModelInfo::default()
        }
    }

    fn import(&self, options: &ImportOptions, _facts: &Facts) -> Result<Imported> {
        TfliteModel::import(self, options)
    }

    fn ports(&self, options: &ImportOptions) -> Result<(Vec<Port>, Vec<Port>)> {
        TfliteModel::ports(self, options)
    }
}
