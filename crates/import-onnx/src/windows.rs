//! Windows that slide over spatial axes: the geometry that convolution and pooling share.

use std::ops::Range;

use graph::IterationSpace;
use sym::Expr;

use crate::graph_writer::{Graph, Result, shape_error};
use crate::node::{Node, attribute_error, unsupported};
use crate::value::Value;

/// Numbers beyond this make no sense as a kernel, stride, dilation or padding.
const LARGEST: i64 = 1 << 31;

/// How windows slide over the spatial axes, one entry an axis.
#[derive(Clone)]
pub(crate) struct Windows {
    /// Elements of a window.
    pub(crate) kernel: Vec<i64>,
    /// Distance between windows.
    pub(crate) strides: Vec<i64>,
    /// Distance between elements of a window.
    pub(crate) dilations: Vec<i64>,
    /// Elements added before each axis.
    pub(crate) low: Vec<Expr>,
    /// Elements added behind each axis, as the model says.
    pub(crate) high: Vec<Expr>,
    /// Elements added behind those, for windows that are only begun (`ceil_mode`).
    pub(crate) extra: Vec<Expr>,
    /// Number of windows.
    pub(crate) outputs: Vec<Expr>,
}

/// An attribute with an entry an axis, each within bounds; the same `default` where not given.
pub(crate) fn entries(
    node: &Node<'_>,
    name: &str,
    count: usize,
    least: i64,
    default: i64,
) -> Result<Vec<i64>> {
    let Some(entries) = node.ints(name)? else { return Ok(vec![default; count]) };
    if entries.len() != count {
        let given = entries.len();
        return Err(attribute_error(name, format!("it has {given} numbers, not {count}")));
    }
    match entries.iter().find(|entry| !(least..LARGEST).contains(*entry)) {
        Some(entry) => {
            Err(attribute_error(name, format!("{entry} is less than {least} or too large")))
        }
        None => Ok(entries),
    }
}

/// The attribute `auto_pad`.
pub(crate) fn auto_pad(node: &Node<'_>) -> Result<&'static str> {
    node.word("auto_pad", &["NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID"])
}

/// The extents of a window that spans `kernel` elements `dilation` apart.
pub(crate) fn reach(kernel: i64, dilation: i64) -> i64 {
    (kernel - 1).saturating_mul(dilation).saturating_add(1)
}

impl Windows {
    /// The windows over axes of these extents, as the node's attributes say.
    pub(crate) fn new(
        node: &Node<'_>,
        graph: &Graph,
        spatial: &[Expr],
        kernel: Vec<i64>,
    ) -> Result<Windows> {
        let count = spatial.len();
        if kernel.len() != count {
            let given = kernel.len();
            return Err(shape_error(format!("a kernel of {given} axes over {count} axes")));
        }
        let strides = entries(node, "strides", count, 1, 1)?;
        let dilations = entries(node, "dilations", count, 1, 1)?;
        let pads = entries(node, "pads", 2 * count, 0, 0)?;
        let (auto, ceil) = (auto_pad(node)?, node.flag("ceil_mode", false)?);
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
            let pads = (pads[axis], pads[count + axis]);
            windows.push_axis(graph, axis, extent, auto, pads, ceil)?;
        }
        Ok(windows)
    }

    fn push_axis(
        &mut self,
        graph: &Graph,
        axis: usize,
        extent: &Expr,
        auto: &str,
        pads: (i64, i64),
        ceil: bool,
    ) -> Result<()> {
        let ranges = |symbol| graph.range(symbol);
        let stride = self.strides[axis];
        let reach = reach(self.kernel[axis], self.dilations[axis]);
        let by = Expr::from(stride);
        let (mut low, mut high) = (Expr::from(pads.0), Expr::from(pads.1));
        let mut extra = Expr::ZERO;
        let mut output = None;
        match auto {
            "VALID" => (low, high) = (Expr::ZERO, Expr::ZERO),
            "SAME_UPPER" | "SAME_LOWER" => {
                let windows = extent.ceil_div(&by);
                let needed = (&windows - 1) * stride + reach - extent;
                let total = needed.max(&Expr::ZERO).simplify(&ranges);
                let half = total.floor_div(&Expr::from(2));
                (low, high) = (half.clone(), &total - &half);
                if auto == "SAME_LOWER" {
                    std::mem::swap(&mut low, &mut high);
                }
                output = Some(windows);
            }
            _ => {}
        }
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
        let (least, most) = graph.bounds(&output);
        if most < 1 || output.as_constant().is_some() && least < 1 {
            return Err(shape_error(format!(
                "a window of {reach} does not fit an axis of {} with padding {} and {}",
                graph.text(extent),
                graph.text(&low),
                graph.text(&high)
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
    pub(crate) fn trim(&mut self, spatial: &[Expr]) -> Vec<Range<i64>> {
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
    pub(crate) fn is_none(pads: &[Expr]) -> bool {
        pads.iter().all(Expr::is_zero)
    }

    /// A value whose last axes are the spatial ones, padded for the windows.
    pub(crate) fn pad(&self, graph: &mut Graph, value: &Value, fill: &Value) -> Result<Value> {
        let lead = value.rank() - self.kernel.len();
        let behind = |axis: usize| &self.high[axis] + &self.extra[axis];
        let zeros = std::iter::repeat_n(Expr::ZERO, lead);
        let low: Vec<Expr> = zeros.clone().chain(self.low.iter().cloned()).collect();
        let high: Vec<Expr> = zeros.chain((0..self.kernel.len()).map(behind)).collect();
        graph.pad(value, fill, &low, &high, &vec![0; value.rank()])
    }

    /// Where window elements are read on each axis: `output * stride + element * dilation`, for
    /// spaces in which the outputs start at one axis and the elements at another.
    pub(crate) fn index(&self, outputs: usize, elements: usize) -> Vec<Expr> {
        let at = |axis: usize| {
            IterationSpace::axis(outputs + axis) * self.strides[axis]
                + IterationSpace::axis(elements + axis) * self.dilations[axis]
        };
        (0..self.kernel.len()).map(at).collect()
    }
}

/// The kernel that an attribute gives.
pub(crate) fn kernel_shape(node: &Node<'_>, count: usize) -> Result<Vec<i64>> {
    if !node.has("kernel_shape") {
        return Err(attribute_error("kernel_shape", "it is missing"));
    }
    entries(node, "kernel_shape", count, 1, 1)
}

/// The spatial axes of a value `[batch, channels, spatial...]`.
pub(crate) fn spatial(value: &Value) -> Result<Vec<Expr>> {
    match value.shape() {
        [_, _, spatial @ ..] if !spatial.is_empty() => Ok(spatial.to_vec()),
        _ => Err(unsupported(format!("an input of rank {}", value.rank()))),
    }
}
