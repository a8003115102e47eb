//! Format choice: how the operands of each contraction of a function lie in memory.

use backend::Target;
use base::{Diagnostics, IdSet, Remark};
use graph::{Built, Function, NodeId, Op, Rewriter, ValueId, rebuild};

use crate::channels_last::{self, Ends};
use crate::contraction::Contraction;
use crate::options::{FormatOptions, Winograd};
use crate::winograd::PriceOfGrowth;
use crate::{along, borders, groups, merge, panels, tuples, winograd};

/// Chooses the formats of all contractions of a function for a target; what was done to each, and
/// why not more, goes to the remarks.
///
/// # Errors
/// An internal error if a rewritten node is ill-typed.
pub fn choose(
    function: Function,
    target: &Target,
    options: &FormatOptions,
    remarks: &mut Vec<Remark>,
) -> base::Result<Function> {
    if !function.nodes.values().any(|node| matches!(node.op, Op::Contract { .. })) {
        return Ok(function);
    }
    let function = match options.winograd {
        Winograd::Always => function,
        _ => borders::apart(function, target, remarks)?,
    };
    let constants = function.constant_values();
    let windows = channels_last::has_windows(&function);
    let ends = Ends::of(&function, &constants);
    let mut inner = IdSet::new();
    for region in function.regions_in_order().into_iter().filter(|&it| it != function.body) {
        inner.extend(&function.regions[region].nodes);
    }
    let price = winograd::price_of_growth(&function, target);
    let result = rebuild(&function, |rewriter, node| {
        let (constants, ends, inner) = (&constants, &ends, &inner);
        let chooser = Chooser { target, options, constants, windows, ends, inner, price, remarks };
        chooser.node(rewriter, node)
    });
    result.map_err(|reason| {
        Diagnostics::internal(format!("format choice made an ill-typed node: {reason}"))
    })
}

/// What the choice for one node reads and reports to.
struct Chooser<'a> {
    target: &'a Target,
    options: &'a FormatOptions,
    constants: &'a IdSet<ValueId>,
    /// Whether a contraction of the function reads windows, so that channels last pays.
    windows: bool,
    ends: &'a Ends,
    /// The nodes that may run several times: in regions other than the function's body.
    inner: &'a IdSet<NodeId>,
    /// Of the bytes that filters grow by.
    price: PriceOfGrowth,
    remarks: &'a mut Vec<Remark>,
}

impl Chooser<'_> {
    fn node(self, rewriter: &mut Rewriter<'_>, id: NodeId) -> Built<Option<Vec<ValueId>>> {
        let source = rewriter.source;
        let node = &source.nodes[id];
        let Op::Contract { space, accumulator, dtype } = &node.op else { return Ok(None) };
        if space.extents.iter().any(|extent| extent.is_zero()) {
            return Ok(None);
        }
        let operand = |number: usize| {
            let old = node.operands[number];
            (rewriter.get(old), self.constants.contains(old))
        };
        let operands = [operand(0), operand(1)];
        let mut contraction = Contraction::new(space, operands, *accumulator, *dtype);
        contraction.repeats = self.inner.contains(id);
        let builder = &mut rewriter.builder;
        let mut messages = Vec::new();
        let apart = self.ends.is_apart(id);
        if apart && channels_last::take_steps(&mut contraction, builder)? {
            messages.push("the data are copied without what lies between steps".to_owned());
        }
        let short = tuples::wanted(&contraction, builder)?.is_some();
        // All targets sum in tuples where one does.
        let stays = apart
            && !tuples::possible(&contraction, builder)?
            && along::stays(&mut contraction, builder, self.target, &mut messages)?;
        // What was said of its order, and what it is if minimal filtering does not make it another.
        let (mut placed, mut directly) = (None, None);
        if !stays && (self.windows || apart && !short) {
            let before = contraction.clone();
            let result = channels_last::put_result(&mut contraction);
            let lying = contraction.clone();
            let data = channels_last::put_data(&mut contraction, builder)?;
            placed = (result || data).then_some("channels last");
            let singly = !short && channels_last::meets_data_singly(&contraction);
            if result && apart && !short && !channels_last::pays_alone(&before, self.target) {
                directly = Some((before, "channels stay: vectors run along the data"));
            } else if data && self.ends.is_first(id) && singly {
                directly = Some((lying, "channels last in the result; the data stay as they lie"));
            }
        }
        let said = messages.len();
        let filtered = match self.options.winograd {
            Winograd::Never => None,
            // Transforms are in vectors of channels.
            Winograd::WherePredicted if stays => None,
            wanted => {
                let (target, price) = (self.target, self.price);
                winograd::apply(&contraction, builder, target, price, wanted, &mut messages)?
            }
        };
        if let (None, Some((other, reason))) = (filtered, directly) {
            (contraction, placed) = (other, Some(reason));
        }
        if let Some(placed) = placed {
            messages.insert(said, placed.to_owned());
        }
        let value = match filtered {
            Some(value) => contraction.restored(builder, value)?,
            None => {
                groups::apply(&mut contraction, builder, self.target, &mut messages)?;
                merge::apply(&mut contraction, builder, &mut messages)?;
                panels::apply(&mut contraction, builder, self.target, &mut messages)?;
                tuples::apply(&mut contraction, builder, &mut messages)?;
                contraction.finish(builder)?
            }
        };
        let location = node.location;
        self.remarks.extend(messages.into_iter().map(|message| Remark { location, message }));
        Ok(Some(vec![value]))
    }
}
