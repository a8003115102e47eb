//! How far a quantised model is from the float one, and the layers that must have more bits, or
//! stay float, for less.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use base::{Diagnostic, InOrder, Result, codes};

use tensor::DType;

use crate::draft::Draft;
use crate::plan::name_of;
use crate::report::OutputError;
use crate::stored::constant_of;
use crate::{LayerChoice, Maker, Quantised, Scheme};

/// A loss that is not to be passed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Loss {
    /// What is measured.
    pub metric: Metric,
    /// The most that it may be.
    pub most: f64,
}

/// What of outputs is compared, on the samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Metric {
    /// One less the cosine of the angle between both, of the worst output of the worst sample.
    Cosine,
    /// The root of the noise over the signal, of the worst output.
    Error,
    /// The share of rows whose largest element is another, of the worst output.
    Class,
}

impl FromStr for Loss {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Loss, String> {
        let (name, most) = text.split_once('=').ok_or("expected METRIC=VALUE")?;
        let metric = match name {
            "cosine" => Metric::Cosine,
            "error" => Metric::Error,
            "class" => Metric::Class,
            _ => return Err(format!("`{name}` is none of cosine, error, class")),
        };
        let most: Option<f64> = most.parse().ok();
        let most = most.filter(|most| most.is_finite() && *most >= 0.0);
        Ok(Loss { metric, most: most.ok_or("the loss is a number that is not negative")? })
    }
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self.metric {
            Metric::Cosine => "cosine",
            Metric::Error => "error",
            Metric::Class => "class",
        };
        write!(f, "{name}={}", self.most)
    }
}

impl Loss {
    /// What outputs show of it: that of the worst.
    #[must_use]
    pub fn of(&self, outputs: &[OutputError]) -> f64 {
        let each = outputs.iter().map(|output| match self.metric {
            Metric::Cosine => 1.0 - output.least_cosine,
            Metric::Error => output.error,
            Metric::Class => output.other_classes,
        });
        each.fold(0.0, f64::max)
    }
}

impl Maker<'_> {
    /// A model within a loss: with the fewest layers in 8 bits, where weights are stored in fewer,
    /// or else with the fewest in float. These are taken in the order of the error that each brings
    /// by itself, those by that of its noise over the bytes that it would take. More of them are
    /// taken to lose no more; the model that is given was measured.
    pub(crate) fn within(&self, most: Loss, whole: Quantised) -> Result<Quantised> {
        if most.of(&whole.report.outputs) <= most.most {
            return Ok(whole);
        }
        let mut order: Vec<(f64, String)> =
            whole.report.layers.iter().map(|row| (row.own_error, row.name.clone())).collect();
        order.put_in_order_by(|a, b| b.0.total_cmp(&a.0));
        let order: Vec<String> = order.into_iter().map(|(_, name)| name).collect();
        let mut base =
            LayerChoice { float: self.settings.keep_float.clone(), ..LayerChoice::default() };
        let is_short = matches!(
            self.settings.scheme, Scheme::Weights { dtype, .. } if dtype.bits() < DType::I8.bits()
        );
        if is_short {
            let in_bytes = |names: &[String]| {
                let bytes = names.iter().cloned().collect();
                LayerChoice { bytes, ..base.clone() }
            };
            let sizes = self.sizes()?;
            let size = |name: &String| sizes.get(name).copied().unwrap_or(1).max(1) as f64;
            let rows = whole.report.layers.iter();
            let mut gains: Vec<(f64, String)> = rows
                .map(|row| (row.own_error.powi(2) / size(&row.name), row.name.clone()))
                .collect();
            gains.put_in_order_by(|a, b| b.0.total_cmp(&a.0));
            let gains: Vec<String> = gains.into_iter().map(|(_, name)| name).collect();
            if let Some(found) = self.fewest(most, &gains, &in_bytes)? {
                return Ok(found);
            }
            base = in_bytes(&order);
        }
        let in_float = |names: &[String]| {
            let mut choice = base.clone();
            choice.float.extend(names.iter().cloned());
            choice.bytes.retain(|name| !choice.float.contains(name));
            choice
        };
        self.fewest(most, &order, &in_float)?.ok_or_else(|| {
            Diagnostic::error(codes::BAD_CALIBRATION, format!("no model is within {most}"))
                .at("--max-loss")
                .because("even with all layers in float the samples show more")
                .remedy("allow more, or calibrate with more samples")
                .into()
        })
    }

    /// Elements of the constants that layers have stored, by the layer's name.
    fn sizes(&self) -> Result<BTreeMap<String, usize>> {
        let draft = Draft::of(self.float)?;
        let mut sizes = BTreeMap::new();
        for node in draft.nodes() {
            let name = constant_of(node).and_then(|(operand, _)| node.input.get(operand));
            let constant = name.map(|name| draft.constant(name)).transpose()?.flatten();
            sizes.extend(constant.map(|constant| (name_of(node), constant.len())));
        }
        Ok(sizes)
    }

    /// The model within a loss with the fewest of these layers chosen, the first ones; none where
    /// all of them are too few.
    fn fewest(
        &self,
        most: Loss,
        order: &[String],
        choice: &dyn Fn(&[String]) -> LayerChoice,
    ) -> Result<Option<Quantised>> {
        let (mut too_few, mut enough, mut best) = (0, order.len() + 1, None);
        while too_few + 1 < enough {
            let count = (too_few + enough) / 2;
            let made = self.made(&choice(&order[..count]))?;
            if most.of(&self.output_errors(&made)?) <= most.most {
                enough = count;
                best = Some(made);
            } else {
                too_few = count;
            }
        }
        let Some(made) = best else { return Ok(None) };
        let report = self.report(&made, &choice(&order[..enough]))?;
        Ok(Some(Quantised { model: made.model, report }))
    }
}
