//! Float models to models of bytes.
//!
//! [`quantise`] takes a decoded model and gives another: the same file with `QuantizeLinear` and
//! `DequantizeLinear` where values become bytes, which every engine that reads ONNX runs; names,
//! metadata and what is not touched stay whole. Nothing here computes with bytes: the compiler
//! finds the products of bytes in the file, ours as in anybody's.
//!
//! Three files are the way of a model: `plan.rs` says what becomes bytes, `calibrate.rs` runs the
//! float model for the ranges of these values, `rewrite.rs` writes the nodes. With
//! [`Scheme::Dynamic`] scales of values are left to each run (`dynamic.rs`), with
//! [`Scheme::Weights`] constants alone are stored in fewer bits (`stored.rs`).
//!
//! Invariants: the model given is not changed; the same model, samples and settings give the same
//! bytes; layers that are to stay float are not touched.

mod calibrate;
mod compensate;
mod correct;
mod draft;
mod dynamic;
mod equalise;
mod fold;
mod loss;
mod operators;
mod opset;
mod plan;
mod ranges;
mod report;
mod rewrite;
mod stored;
mod weights;

use std::collections::{BTreeMap, BTreeSet};

use base::{Diagnostic, IntoTree, Result, codes};
use tensor::DType;
use tilewright::Options;
use tilewright::compiled::DecodedModel;

pub use calibrate::CalibrationSample;
pub use loss::{Loss, Metric};
pub use ranges::Method;
pub use report::{LayerError, OutputError, Report};

use crate::compensate::Moments;
use crate::correct::Corrections;
use crate::draft::Draft;
use crate::plan::{Layer, Plan};
use crate::ranges::Range;
use crate::stored::{Compensated, Storing};

/// How to quantise a model.
#[derive(Clone, Debug)]
pub struct QuantiseOptions {
    /// What becomes integers.
    pub scheme: Scheme,
    /// How ranges are chosen of the values that calibration meets.
    pub method: Method,
    /// Whether channels of values are made alike in reach first, so that one scale serves them.
    pub equalise: bool,
    /// Whether biases take up what layers are off by on average.
    pub correct_bias: bool,
    /// Whether weights that are stored in fewer bits make up for each other, on the values that
    /// samples show.
    pub compensate: bool,
    /// Layers that stay float, by name.
    pub keep_float: BTreeSet<String>,
    /// What may be lost at most: layers that lose most are stored in 8 bits instead of fewer, or
    /// stay float, until the samples show no more.
    pub most: Option<Loss>,
    /// How the models are compiled that calibrate and measure.
    pub options: Options,
}

impl Default for QuantiseOptions {
    /// Values and weights, by the range that values have, with channels made alike and biases
    /// corrected.
    fn default() -> QuantiseOptions {
        QuantiseOptions {
            scheme: Scheme::default(),
            method: Method::default(),
            equalise: true,
            correct_bias: true,
            compensate: true,
            keep_float: BTreeSet::new(),
            most: None,
            options: Options::default(),
        }
    }
}

/// What becomes integers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scheme {
    /// Values and weights: bytes, at scales that calibration finds.
    #[default]
    Static,
    /// Weights: bytes; what they multiply: bytes at scales that each run finds of the values that
    /// it meets. Tables are stored as bytes. No samples are needed.
    Dynamic,
    /// Constants of products and tables alone.
    Weights {
        /// `i8` or `i4`.
        dtype: DType,
        /// How many neighbours along a sum, or in a row of a table, have a scale together; none
        /// for one scale a result.
        block: Option<usize>,
    },
}

/// A quantised model, and what it took.
#[derive(Clone, Debug)]
pub struct Quantised {
    /// The model.
    pub model: DecodedModel,
    /// What each layer and the outputs lose on the samples.
    pub report: Report,
}

/// Quantises a model; the samples are values for all of its inputs, in order.
///
/// # Errors
/// `TW0215` for samples that are missing or not finite, `TW0216` for layers that there are not,
/// `TW0217` where nothing can be quantised; those of compiling and running the model.
pub fn quantise(
    model: &DecodedModel,
    samples: &[CalibrationSample],
    settings: &QuantiseOptions,
) -> Result<Quantised> {
    let mut float = Draft::of(model)?;
    plan::check_names(&float, &settings.keep_float)?;
    let is_blocked = matches!(settings.scheme, Scheme::Weights { .. });
    opset::raise(&mut float, if is_blocked { 21 } else { 13 })?;
    fold::fold_constants(&mut float, &settings.options)?;
    if !is_blocked {
        fold::fold_normalisations(&mut float)?;
    }
    let mut float = float.finish();
    if !is_blocked && settings.equalise && !samples.is_empty() {
        float = equalise::equalise(&float, (samples, &settings.options))?;
    }
    let maker = Maker::new(&float, samples, settings)?;
    let choice = LayerChoice { float: settings.keep_float.clone(), ..LayerChoice::default() };
    let made = maker.made(&choice)?;
    let report = maker.report(&made, &choice)?;
    let Some(most) = settings.most else { return Ok(Quantised { model: made.model, report }) };
    maker.within(most, Quantised { model: made.model, report })
}

/// A quantised model, with where to look for what its layers give.
pub(crate) struct Made {
    pub(crate) model: DecodedModel,
    /// The layers that compute with integers.
    pub(crate) layers: Vec<Layer>,
    /// What stands for a value behind its rounding.
    pub(crate) rounded: BTreeMap<String, String>,
}

/// The layers that are not as the scheme says, by name.
#[derive(Clone, Debug, Default)]
pub(crate) struct LayerChoice {
    /// Those that stay float.
    pub(crate) float: BTreeSet<String>,
    /// Those whose weights are stored in 8 bits, where others have fewer.
    pub(crate) bytes: BTreeSet<String>,
}

/// All that versions of a quantised model share.
pub(crate) struct Maker<'a> {
    pub(crate) float: &'a DecodedModel,
    pub(crate) samples: &'a [CalibrationSample],
    pub(crate) settings: &'a QuantiseOptions,
    ranges: BTreeMap<String, Range>,
    moments: Moments,
    compensated: Compensated,
}

impl<'a> Maker<'a> {
    fn new(
        float: &'a DecodedModel,
        samples: &'a [CalibrationSample],
        settings: &'a QuantiseOptions,
    ) -> Result<Maker<'a>> {
        let draft = Draft::of(float)?;
        let ranges = match settings.scheme {
            Scheme::Weights { .. } | Scheme::Dynamic => BTreeMap::new(),
            Scheme::Static => {
                let mut names = plan::candidates(&draft);
                let mut found = Ok(());
                names.retain(|name| match draft.constant(name) {
                    Ok(constant) => constant.is_none(),
                    Err(error) => {
                        found = Err(error);
                        false
                    }
                });
                found?;
                calibrate::ranges(float, &names, (samples, &settings.options), settings.method)?
            }
        };
        let is_weights = matches!(settings.scheme, Scheme::Weights { .. });
        let moments = match is_weights && settings.compensate && !samples.is_empty() {
            true => {
                let mut layers: BTreeSet<String> = plan::layers(&draft).into_iter().into_set();
                layers.retain(|name| !settings.keep_float.contains(name));
                compensate::moments(float, &layers, (samples, &settings.options))?
            }
            false => Moments::new(),
        };
        let compensated = Compensated::default();
        Ok(Maker { float, samples, settings, ranges, moments, compensated })
    }

    /// The model of a choice, and biases corrected where that is asked for.
    pub(crate) fn made(&self, choice: &LayerChoice) -> Result<Made> {
        let is_corrected = self.settings.scheme == Scheme::Static && self.settings.correct_bias;
        let corrections = match is_corrected {
            true => self.corrections(&self.plan(&choice.float)?.products, choice)?,
            false => Corrections::new(),
        };
        self.make(choice, &corrections)
    }

    /// What becomes bytes where these layers stay float.
    fn plan(&self, keep_float: &BTreeSet<String>) -> Result<Plan> {
        let floats: BTreeSet<String> = self.ranges.keys().cloned().into_set();
        plan::plan(&Draft::of(self.float)?, &floats, keep_float)
    }

    /// The model of a choice, with these corrections of biases.
    pub(crate) fn make(&self, choice: &LayerChoice, corrections: &Corrections) -> Result<Made> {
        let keep_float = &choice.float;
        let mut draft = Draft::of(self.float)?;
        let (layers, rounded): (Vec<Layer>, BTreeMap<String, String>) = match self.settings.scheme {
            Scheme::Weights { dtype, block } => {
                let how = Storing {
                    operand: &stored::constant_of,
                    dtype,
                    block,
                    moments: &self.moments,
                    compensated: &self.compensated,
                };
                (stored::store(&mut draft, choice, &how)?, BTreeMap::new())
            }
            Scheme::Dynamic => {
                let mut layers = dynamic::rewrite(&mut draft, keep_float)?;
                let how = Storing {
                    operand: &stored::table_of,
                    dtype: DType::I8,
                    block: None,
                    moments: &self.moments,
                    compensated: &self.compensated,
                };
                layers.extend(stored::store(&mut draft, choice, &how)?);
                (layers, BTreeMap::new())
            }
            Scheme::Static => {
                let plan = self.plan(keep_float)?;
                for product in &plan.products {
                    if let Some(by) = corrections.get(&product.layer.name) {
                        correct::add_to_bias(&mut draft, product, by)?;
                    }
                }
                let rounded = rewrite::rewrite(&mut draft, &plan, &self.ranges)?;
                (plan.products.into_iter().map(|it| it.layer).collect(), rounded)
            }
        };
        if layers.is_empty() && keep_float.is_empty() {
            let message = "the model has nothing that could be quantised";
            return Err(Diagnostic::error(codes::NOTHING_QUANTISED, message)
                .at("the model")
                .because("no node multiplies floats of 32 bits by a constant")
                .remedy("check that it is not quantised already, and that its elements are f32")
                .into());
        }
        Ok(Made { model: draft.finish(), layers, rounded })
    }
}
