//! Windows that slide over spatial axes: the geometry that convolution and pooling share.

use std::ops::Range;

use graph::IterationSpace;
use sym::Expr;

use crate::value::Operand;
use crate::writer::{Accepted, Graph, shape_error};

/// How windows slide over the spatial axes, one entry an axis.
#[derive(Clone)]
pub struct Windows {
    /// Elements of a window.
    pub kernel: Vec<i64>,
    /// Distance between windows.
    pub strides: Vec<i64>,
    /// Distance between elements of a window.
    pub dilations: Vec<i64>,
    /// Elements added before each axis.
    pub low: Vec<Expr>,
    /// Elements added behind each axis, as the model says.
    pub high: Vec<Expr>,
    /// Elements added behind those, for windows that are only begun.
    pub extra: Vec<Expr>,
    /// Number of windows.
    pub outputs: Vec<Expr>,
}

/// What is added around a spatial axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Padding {
    /// So many elements before and behind.
    Given(i64, i64),
    /// As many as give a window for each stride that begins within the axis, as many before as
    /// behind; of an odd number one more behind.
    SameUpper,
    /// As `SameUpper`; of an odd number one more before.
    SameLower,
}

/// The extents of a window that spans `kernel` elements `dilation` apart.
pub fn reach(kernel: i64, dilation: i64) -> i64 {
    (kernel - 1).saturating_mul(dilation).saturating_add(1)
}

impl Windows {
    /// The windows over axes of these extents. With `ceil` there may be one more an axis, which is
    /// only begun.
    ///
    /// # Errors
    /// Windows that do not fit an axis.
    ///
    /// # Panics
    /// Where there are not as many entries as axes.
    pub fn new(
        graph: &Graph,
        spatial: &[Expr],
        kernel: Vec<i64>,
        (strides, dilations): (Vec<i64>, Vec<i64>),
        padding: &[Padding],
        ceil: bool,
    ) -> Accepted<Windows> {
        let mut windows = Windows {
            low: Vec::new(),
            high: Vec::new(),
            extra: Vec::new(),
            outputs: Vec::new(),
            kernel,
            strides,
            dilations,
        };
        for (axis, extent) in spatial.iter().enumerate() {
            windows.push_axis(graph, axis, extent, padding[axis], ceil)?;
        }
        Ok(windows)
    }

    fn push_axis(
        &mut self,
        graph: &Graph,
        axis: usize,
        extent: &Expr,
        padding: Padding,
        ceil: bool,
    ) -> Accepted<()> {
        let ranges = |symbol| graph.builder.range(symbol);
        let stride = self.strides[axis];
        let reach = reach(self.kernel[axis], self.dilations[axis]);
        let by = Expr::from(stride);
        let mut extra = Expr::ZERO;
        let (low, high, output) = match padding {
            Padding::Given(low, high) => (Expr::from(low), Expr::from(high), None),
            Padding::SameUpper | Padding::SameLower => {
                let windows = extent.ceil_div(&by);
                let needed = (&windows - 1) * stride + reach - extent;
                let total = needed.max(&Expr::ZERO).simplify(&ranges);
                let half = total.floor_div(&Expr::from(2));
                let rest = &total - &half;
                match padding == Padding::SameLower {
                    true => (rest, half, Some(windows)),
                    false => (half, rest, Some(windows)),
                }
            }
        };
        let padded = extent + &low + &high;
        let output = match output {
            Some(windows) => windows,
            None if ceil => {
                // A window begins within the axis or the padding before it.
                let windows = (&padded - reach).ceil_div(&by) + 1;
                let begun = (extent + &low).ceil_div(&by);
                let windows = windows.min(&begun).simplify(&ranges);
                let needed = (&windows - 1) * stride + reach - &padded;
                extra = needed.max(&Expr::ZERO).simplify(&ranges);
                windows
            }
            None => (&padded - reach).floor_div(&by) + 1,
        };
        let (least, most) = graph.builder.bounds(&output);
        if most < 1 || output.as_constant().is_some() && least < 1 {
            return Err(shape_error(format!(
                "a window of {reach} does not fit an axis of {} with padding {} and {}",
                graph.builder.text(extent),
                graph.builder.text(&low),
                graph.builder.text(&high)
            )));
        }
        self.low.push(low);
        self.high.push(high);
        self.extra.push(extra);
        self.outputs.push(output);
        Ok(())
    }

    /// Leaves out the elements that lie in the padding in every window, for reductions that the
    /// padding does not change; the elements kept, an entry an axis.
    pub fn trim(&mut self, spatial: &[Expr]) -> Vec<Range<i64>> {
        (0..self.kernel.len()).map(|axis| self.trim_axis(axis, &spatial[axis])).collect()
    }

    fn trim_axis(&mut self, axis: usize, extent: &Expr) -> Range<i64> {
        let whole = 0..self.kernel[axis];
        let known = [extent, &self.low[axis], &self.outputs[axis]].map(Expr::as_constant);
        let [Some(extent), Some(low), Some(outputs)] = known else { return whole };
        let dilation = self.dilations[axis];
        // Where the first element of the last window is, and the last element of the axis.
        let Some(begin) = (outputs - 1).checked_mul(self.strides[axis]) else { return whole };
        let Some(end) = (low - 1).checked_add(extent) else { return whole };
        let first = ((low - begin).max(0) as u64).div_ceil(dilation as u64) as i64;
        let first = first.min(low / dilation).min(whole.end - 1);
        let behind = end.div_euclid(dilation) + 1;
        let kept = first..behind.clamp(first + 1, whole.end);
        if kept != whole {
            self.kernel[axis] = kept.end - kept.start;
            let low = low - kept.start * dilation;
            let reach = begin.saturating_add(reach(self.kernel[axis], dilation));
            let high = reach.saturating_sub(low).saturating_sub(extent).max(0);
            (self.low[axis], self.high[axis]) = (Expr::from(low), Expr::from(high));
            self.extra[axis] = Expr::ZERO;
        }
        kept
    }

    /// Whether a list of paddings adds nothing.
    pub fn is_none(pads: &[Expr]) -> bool {
        pads.iter().all(Expr::is_zero)
    }

    /// A value whose last axes are the spatial ones, padded for the windows.
    pub fn pad(&self, graph: &mut Graph, value: &Operand, fill: &Operand) -> Accepted<Operand> {
        let lead = value.rank() - self.kernel.len();
        let behind = |axis: usize| &self.high[axis] + &self.extra[axis];
        let zeros = std::iter::repeat_n(Expr::ZERO, lead);
        let low: Vec<Expr> = zeros.clone().chain(self.low.iter().cloned()).collect();
        let high: Vec<Expr> = zeros.chain((0..self.kernel.len()).map(behind)).collect();
        graph.pad(value, fill, &low, &high, &vec![0; value.rank()])
    }

    /// Where window elements are read on each axis: `output * stride + element * dilation`, for
    /// spaces in which the outputs start at one axis and the elements at another.
    pub fn index(&self, outputs: usize, elements: usize) -> Vec<Expr> {
        let at = |axis: usize| {
            IterationSpace::axis(outputs + axis) * self.strides[axis]
                + IterationSpace::axis(elements + axis) * self.dilations[axis]
        };
        (0..self.kernel.len()).map(at).collect()
    }
}
