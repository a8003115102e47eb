//! What values a model has between its inputs and outputs: found by running it.
//!
//! The model is compiled with those values as outputs, and run on each sample: once for the least
//! and greatest elements and, for methods that ask for more, once more for histograms between them.

use std::collections::{BTreeMap, BTreeSet};

use base::{Diagnostic, IntoTree, Result, codes};
use tensor::{Tensor, Value};
use tilewright::compiled::proto::ValueInfoProto;
use tilewright::compiled::{DecodedModel, Source, compile_source};
use tilewright::{Executable, Options};

use crate::plan::is_float;
use crate::ranges::{Histogram, Method, Range};

/// Values for all inputs of a model, in their order.
pub type CalibrationSample = Vec<Value>;

/// Values of a model by their names.
pub(crate) type Values = BTreeMap<String, Tensor>;

/// A model that is compiled to show some of its values.
pub(crate) struct Watched {
    inputs: Vec<String>,
    /// The names of what is shown, but for inputs.
    made: Vec<String>,
    shown: BTreeSet<String>,
    executable: Option<Executable>,
}

impl Watched {
    /// Compiles a model that shows the values of these names.
    ///
    /// # Errors
    /// Those of compiling it.
    pub(crate) fn new(
        model: &DecodedModel,
        names: &BTreeSet<String>,
        options: &Options,
    ) -> Result<Watched> {
        let inputs: Vec<String> = model.info().inputs.into_iter().map(|port| port.name).collect();
        // What is given needs no run, and one that nothing is asked of cannot be compiled.
        let made: Vec<String> = names.iter().filter(|it| !inputs.contains(it)).cloned().collect();
        let mut proto = model.proto().clone();
        proto.body_mut().output =
            made.iter().map(|name| ValueInfoProto::untyped(name.clone())).collect();
        let executable = match made.is_empty() {
            true => None,
            false => Some(compile_source(Source::from(model.with_proto(proto)), options)?),
        };
        Ok(Watched { inputs, made, shown: names.clone(), executable })
    }

    /// The values for a sample: all that are tensors.
    ///
    /// # Errors
    /// Those of running the model.
    pub(crate) fn values(&self, sample: &[Value]) -> Result<Values> {
        let given = self.inputs.iter().zip(sample).filter(|(name, _)| self.shown.contains(*name));
        let given = given.map(|(name, value)| (name, value.clone()));
        let run = self.executable.as_ref().map(|executable| executable.run_values(sample));
        let run = run.transpose()?.unwrap_or_default();
        let all = given.chain(self.made.iter().zip(run));
        let tensors = all.filter_map(|(name, value)| Some((name.clone(), value.into_tensor()?)));
        Ok(tensors.collect())
    }
}

/// Runs a model on samples and shows what the values of these names are: the number of the sample,
/// and all that are tensors.
///
/// # Errors
/// Those of compiling and running it, and of who looks.
pub(crate) fn watch(
    model: &DecodedModel,
    names: &BTreeSet<String>,
    (samples, options): (&[CalibrationSample], &Options),
    see: &mut dyn FnMut(usize, &Values) -> Result<()>,
) -> Result<()> {
    let watched = Watched::new(model, names, options)?;
    for (number, sample) in samples.iter().enumerate() {
        see(number, &watched.values(sample)?)?;
    }
    Ok(())
}

/// The ranges of those values that are floats, chosen by a method.
///
/// # Errors
/// No samples; values that are not finite; those of compiling and running the model.
pub(crate) fn ranges(
    model: &DecodedModel,
    names: &BTreeSet<String>,
    (samples, options): (&[CalibrationSample], &Options),
    method: Method,
) -> Result<BTreeMap<String, Range>> {
    if samples.is_empty() {
        return Err(Diagnostic::error(
            codes::BAD_CALIBRATION,
            "there is nothing to calibrate with",
        )
        .at("the calibration data")
        .because("it holds no sample")
        .remedy("give a folder of arrays or pictures, or `random`")
        .into());
    }
    let mut ranges: BTreeMap<String, Range> = BTreeMap::new();
    let mut has_elements = names.is_empty();
    watch(model, names, (samples, options), &mut |number, values| {
        for (name, tensor) in values.iter().filter(|(_, it)| is_float(it.dtype())) {
            let elements = tensor.as_slice::<f32>().unwrap_or_default();
            if let Some(bad) = elements.iter().find(|it| !it.is_finite()) {
                return Err(not_finite(number, name, *bad).into());
            }
            has_elements |= !elements.is_empty();
            let range = ranges.entry(name.clone()).or_default();
            *range = range.with(&elements);
        }
        Ok(())
    })?;
    if !has_elements {
        return Err(Diagnostic::error(codes::BAD_CALIBRATION, "the samples hold no elements")
            .at("the calibration data")
            .because("an extent of each is 0, so that no value has a range")
            .remedy("give samples of the shapes that the model is meant for")
            .into());
    }
    if method == Method::MinMax {
        return Ok(ranges);
    }
    let of_range = |(name, range): (&String, &Range)| (name.clone(), Histogram::new(*range));
    let mut histograms: BTreeMap<String, Histogram> = ranges.iter().map(of_range).into_map();
    watch(model, names, (samples, options), &mut |_, values| {
        for (name, histogram) in &mut histograms {
            let elements = values.get(name).and_then(Tensor::as_slice::<f32>);
            histogram.add(&elements.unwrap_or_default());
        }
        Ok(())
    })?;
    Ok(histograms.into_iter().map(|(name, it)| (name, it.choose(method))).collect())
}

fn not_finite(number: usize, name: &str, bad: f32) -> Diagnostic {
    let message = format!("value `{name}` is {bad} for a calibration sample");
    Diagnostic::error(codes::BAD_CALIBRATION, message)
        .at(format!("sample {number}"))
        .because("the range of a value that is not finite has no scale")
        .remedy("leave the sample out, or check how its inputs are prepared")
}
