//! Values that were recorded: in the folders and archives of test cases.

use std::collections::BTreeMap;
use std::path::Path;

use base::Result;
use tensor::{Kind, Value};
use tilewright::{ModelInfo, Options, Port};

/// A value with its name.
pub(crate) type NamedValue = (String, Value);

/// The inputs in a folder, and the outputs with the names recorded in them.
pub(crate) fn recorded(folder: &Path, info: &ModelInfo) -> Result<(Vec<Value>, Vec<NamedValue>)> {
    let inputs = values(folder, "input", &info.inputs)?.into_iter().map(|(_, value)| value);
    Ok((inputs.collect(), values(folder, "output", &info.outputs)?))
}

fn values(folder: &Path, stem: &str, ports: &[Port]) -> Result<Vec<NamedValue>> {
    let kinds: Vec<Kind> = ports.iter().map(|port| port.kind.clone()).collect();
    tilewright::read_values(folder, stem, &kinds)
}

/// Inputs in order, and outputs and other values by name.
pub type RecordedCase = (Vec<Value>, BTreeMap<String, Value>);

/// Values that were recorded: of a folder `test_data_set_<i>` the outputs, of an archive `.npz` the
/// arrays by name. Of a folder also the inputs, in order.
///
/// # Errors
/// Files that cannot be read.
pub fn read_recorded(model: &Path, place: &Path, options: &Options) -> Result<RecordedCase> {
    if !place.is_dir() {
        let arrays = tensor::npz::read(place)?.into_iter();
        return Ok((Vec::new(), arrays.map(|(name, array)| (name, array.into())).collect()));
    }
    let info = tilewright::model_info(model, &options.limits)?;
    let (inputs, outputs) = recorded(place, &info)?;
    let named = |(number, (name, value)): (usize, (String, Value))| {
        let declared = info.outputs.get(number).map(|port| port.name.clone());
        (if name.is_empty() { declared.unwrap_or_default() } else { name }, value)
    };
    Ok((inputs, outputs.into_iter().enumerate().map(named).collect()))
}
