//! How far a quantised model is from the float one, and the layers that must stay float for less.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use base::{Diagnostic, Result, codes};

use crate::{Maker, Quantised, Report};

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
    /// What a report shows of it: that of the worst output.
    #[must_use]
    pub fn of(&self, report: &Report) -> f64 {
        let each = report.outputs.iter().map(|output| match self.metric {
            Metric::Cosine => 1.0 - output.least_cosine,
            Metric::Error => output.error,
            Metric::Class => output.other_classes,
        });
        each.fold(0.0, f64::max)
    }
}

impl Maker<'_> {
    /// A model within a loss: with the fewest layers in float, taken in the order of the error
    /// that each brings by itself. More layers in float are taken to lose no more; the model that
    /// is given was measured.
    pub(crate) fn within(&self, most: Loss, whole: Quantised) -> Result<Quantised> {
        if most.of(&whole.report) <= most.most {
            return Ok(whole);
        }
        let mut order: Vec<(f64, String)> =
            whole.report.layers.iter().map(|row| (row.own_error, row.name.clone())).collect();
        order.sort_by(|a, b| b.0.total_cmp(&a.0));
        let (mut too_few, mut enough, mut best) = (0, order.len() + 1, None);
        while too_few + 1 < enough {
            let count = (too_few + enough) / 2;
            let mut keep: BTreeSet<String> = self.settings.keep_float.clone();
            keep.extend(order[..count].iter().map(|(_, name)| name.clone()));
            let made = self.made(&keep)?;
            let report = self.report(&made, &keep)?;
            if most.of(&report) <= most.most {
                enough = count;
                best = Some(Quantised { model: made.model, report });
            } else {
                too_few = count;
            }
        }
        best.ok_or_else(|| {
            Diagnostic::error(codes::BAD_CALIBRATION, format!("no model is within {most}"))
                .at("--max-loss")
                .because("even with all layers in float the samples show more")
                .remedy("allow more, or calibrate with more samples")
                .into()
        })
    }
}
