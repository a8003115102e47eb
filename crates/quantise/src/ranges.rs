//! Ranges of values, and how many bits of them are worth keeping.
//!
//! A range is chosen of a histogram between the least and the greatest value that calibration has
//! met. Percentiles leave out the same share of elements everywhere. The other methods try ranges
//! that are shortened at the side that reaches further, and take the one that loses least: by the
//! mean squared error of rounding and clipping, or by the relative entropy of what is left to what
//! was there (Migacz, "8-bit Inference with TensorRT", GTC 2017).

/// How a range is chosen of the values that were met.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Method {
    /// From the least to the greatest.
    #[default]
    MinMax,
    /// Without this share of the elements at the far end, in parts of a hundred of what is kept:
    /// 99.99 leaves out one in ten thousand.
    Percentile(f64),
    /// The least relative entropy.
    Entropy,
    /// The least mean squared error.
    MeanSquaredError,
}

/// Bins of a histogram.
const BINS: usize = 2048;
/// Levels of a byte.
const LEVELS: usize = 256;
/// Ranges that are tried: shortened in steps of this part of the whole.
const STEPS: usize = 80;

/// The least and the greatest element, zero among them.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Range {
    pub(crate) low: f32,
    pub(crate) high: f32,
}

impl Range {
    /// With more elements.
    pub(crate) fn with(self, elements: &[f32]) -> Range {
        elements
            .iter()
            .fold(self, |range, &it| Range { low: range.low.min(it), high: range.high.max(it) })
    }
}

/// How many elements lie where in a range.
#[derive(Clone, Debug)]
pub(crate) struct Histogram {
    range: Range,
    counts: Vec<u64>,
}

impl Histogram {
    pub(crate) fn new(range: Range) -> Histogram {
        Histogram { range, counts: vec![0; BINS] }
    }

    fn width(&self) -> f64 {
        (f64::from(self.range.high) - f64::from(self.range.low)) / BINS as f64
    }

    pub(crate) fn add(&mut self, elements: &[f32]) {
        let width = self.width();
        if width <= 0.0 {
            return;
        }
        for &element in elements {
            let at = (f64::from(element) - f64::from(self.range.low)) / width;
            self.counts[(at as usize).min(BINS - 1)] += 1;
        }
    }

    /// The middle of a bin.
    fn middle(&self, bin: usize) -> f64 {
        f64::from(self.range.low) + (bin as f64 + 0.5) * self.width()
    }

    /// The range that a method chooses; it holds zero.
    pub(crate) fn choose(&self, method: Method) -> Range {
        let total: u64 = self.counts.iter().sum();
        if total == 0 || self.width() <= 0.0 {
            return self.range;
        }
        match method {
            Method::MinMax => self.range,
            Method::Percentile(kept) => self.percentile(kept / 100.0, total),
            Method::Entropy => self.least(&|range| self.divergence(range, total)),
            Method::MeanSquaredError => self.least(&|range| self.squared_error(range)),
        }
    }

    fn percentile(&self, kept: f64, total: u64) -> Range {
        let left_out = ((1.0 - kept) * total as f64 / 2.0).max(0.0);
        let beyond = |counts: &mut dyn Iterator<Item = &u64>| {
            let mut sum = 0.0;
            counts
                .take_while(|&&count| {
                    sum += count as f64;
                    sum <= left_out
                })
                .count()
        };
        let (below, above) =
            (beyond(&mut self.counts.iter()), beyond(&mut self.counts.iter().rev()));
        let low = f64::from(self.range.low) + below as f64 * self.width();
        let high = f64::from(self.range.high) - above as f64 * self.width();
        Range { low: (low as f32).min(0.0), high: (high as f32).max(0.0) }
    }

    /// The range of least loss among those that are shortened.
    fn least(&self, loss: &dyn Fn(Range) -> f64) -> Range {
        let reach = self.range.high.max(-self.range.low);
        let mut best = (self.range, loss(self.range));
        for step in 1..STEPS {
            let most = reach * (STEPS - step) as f32 / STEPS as f32;
            let range = Range { low: self.range.low.max(-most), high: self.range.high.min(most) };
            let lost = loss(range);
            if lost < best.1 {
                best = (range, lost);
            }
        }
        best.0
    }

    /// The sum of squares that rounding and clipping take.
    fn squared_error(&self, range: Range) -> f64 {
        let (low, high) = (f64::from(range.low), f64::from(range.high));
        let step = (high - low) / (LEVELS - 1) as f64;
        let error = |bin: usize| {
            let at = self.middle(bin);
            let outside = at - at.clamp(low, high);
            // An element that is not clipped is off by up to half a step, evenly.
            if outside == 0.0 { step * step / 12.0 } else { outside * outside }
        };
        self.counts.iter().enumerate().map(|(bin, &count)| count as f64 * error(bin)).sum()
    }

    /// The relative entropy of the elements, clipped, to what levels of the range keep of them.
    fn divergence(&self, range: Range, total: u64) -> f64 {
        let width = self.width();
        let bin_of = |at: f32| {
            let bin = (f64::from(at) - f64::from(self.range.low)) / width;
            (bin.round() as usize).min(BINS)
        };
        let (first, end) = (bin_of(range.low), bin_of(range.high));
        let count = end.saturating_sub(first);
        if count < LEVELS {
            return f64::INFINITY;
        }
        let inside = &self.counts[first..end];
        let mut clipped: Vec<f64> = inside.iter().map(|&it| it as f64).collect();
        clipped[0] += self.counts[..first].iter().sum::<u64>() as f64;
        clipped[count - 1] += self.counts[end..].iter().sum::<u64>() as f64;
        let mut lost = 0.0;
        for level in 0..LEVELS {
            let bins = level * count / LEVELS..(level + 1) * count / LEVELS;
            let kept: u64 = inside[bins.clone()].iter().sum();
            let filled = inside[bins.clone()].iter().filter(|&&it| it > 0).count();
            let each = kept as f64 / filled.max(1) as f64;
            for bin in bins {
                // Of bins that levels lose the share is as small as it can be told apart.
                let left = if inside[bin] > 0 { each } else { 1e-6 };
                if clipped[bin] > 0.0 {
                    lost += clipped[bin] / total as f64 * (clipped[bin] / left).ln();
                }
            }
        }
        lost
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Many elements near zero and few far off.
    fn outliers() -> Histogram {
        let near: Vec<f32> = (0..100_000_u64)
            .map(|at| (at as f32 * 0.618_034).fract() + (at as f32 * 0.414_214).fract() - 1.0)
            .collect();
        let far = [30.0_f32];
        let mut histogram = Histogram::new(Range::default().with(&near).with(&far));
        histogram.add(&near);
        histogram.add(&far);
        histogram
    }

    #[test]
    fn few_elements_far_off_are_left_out() {
        let histogram = outliers();
        assert_eq!(histogram.choose(Method::MinMax).high, 30.0);
        for method in [Method::Percentile(99.99), Method::Entropy, Method::MeanSquaredError] {
            let range = histogram.choose(method);
            assert!(range.high < 28.0, "{method:?} {range:?}");
            assert!(range.low < -0.9, "{method:?} {range:?}");
        }
    }

    #[test]
    fn nothing_met_is_the_range_of_zero() {
        for method in [Method::MinMax, Method::Percentile(99.0), Method::Entropy] {
            assert_eq!(Histogram::new(Range::default()).choose(method), Range::default());
        }
    }
}
