//! ONNX models as sources.

use std::collections::{BTreeMap, BTreeSet};

use base::Result;
use front::{Facts, ImportOptions, Imported, ModelInfo, Port, with_shapes};
use import_onnx::DecodedModel;

use super::{Source, SourceModel};

impl From<DecodedModel> for Source {
    fn from(model: DecodedModel) -> Source {
        Source::Model(std::sync::Arc::new(model))
    }
}

impl SourceModel for DecodedModel {
    fn info(&self) -> ModelInfo {
        DecodedModel::info(self)
    }

    fn import(&self, options: &ImportOptions, facts: &Facts) -> Result<Imported> {
        DecodedModel::import(self, options, facts)
    }

    fn ports(&self, options: &ImportOptions) -> Result<(Vec<Port>, Vec<Port>)> {
        let ModelInfo { inputs, outputs, .. } = DecodedModel::info(self);
        let bound = |port: Port| port.with_extents(&options.dims);
        let inputs = with_shapes(inputs, options, &BTreeMap::new())?;
        Ok((inputs, outputs.into_iter().map(bound).collect()))
    }

    fn external_files(&self) -> BTreeSet<String> {
        DecodedModel::external_files(self)
    }

    fn self_contained(&self) -> Result<Option<Vec<u8>>> {
        Ok(Some(DecodedModel::self_contained(self)?.encode()))
    }
}
