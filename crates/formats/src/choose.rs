//! Format choice: how the operands of each contraction of a function lie in memory.

use backend::Target;
use base::{Diagnostics, IdSet, Remark};
use graph::{Built, Function, FunctionBuilder, NodeId, Op, Rewriter, ValueId, rebuild};

use crate::contraction::Contraction;
use crate::layouts::{Layout, Order};
use crate::options::{FormatOptions, Winograd};
use crate::stored::Stored;
use crate::weighed::{self, Layouts, Weigh};
use crate::winograd::PriceOfGrowth;
use crate::{borders, channels_last, groups, merge, panels, tuples, wide, winograd};

/// Chooses the formats of all contractions of a function for a target; what was done to each, and
/// why not more, goes to the remarks. Layouts of sums that stand nearly alone are weighed, if
/// there is something to weigh with.
///
/// # Errors
/// An internal error if a rewritten node is ill-typed.
pub fn choose(
    function: Function,
    target: &Target,
    options: &FormatOptions,
    weigh: Option<Weigh<'_>>,
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
    let price = winograd::price_of_growth(&function, target);
    let layouts = match weigh {
        Some(weigh) => {
            let deciding = target.deciding();
            let choose = &|part: &Function, layouts: &Layouts| {
                let given = Given { target: &deciding, options, layouts, price };
                with_layouts(part, &part.constant_values(), &given, &mut Vec::new())
            };
            let chooser = weighed::Chooser { choose, flops_per_ns: deciding.flops_per_ns() };
            weighed::find(&function, &constants, weigh, &chooser, remarks)?
        }
        None => Layouts::new(),
    };
    let given = Given { target, options, layouts: &layouts, price };
    with_layouts(&function, &constants, &given, remarks)
}

/// What is given of the choice for all nodes.
struct Given<'a> {
    target: &'a Target,
    options: &'a FormatOptions,
    /// Those that were weighed.
    layouts: &'a Layouts,
    /// Of the bytes that filters grow by.
    price: PriceOfGrowth,
}

/// Chooses formats, some contractions having these layouts and others those of the rule.
fn with_layouts(
    function: &Function,
    constants: &IdSet<ValueId>,
    given: &Given<'_>,
    remarks: &mut Vec<Remark>,
) -> base::Result<Function> {
    let windows = channels_last::has_windows(function);
    let first = channels_last::first_sums(function, constants);
    let mut inner = IdSet::new();
    for region in function.regions_in_order().into_iter().filter(|&it| it != function.body) {
        inner.extend(&function.regions[region].nodes);
    }
    let result = rebuild(function, |rewriter, node| {
        let (first, inner) = (&first, &inner);
        let chooser = Chooser { given, constants, windows, first, inner, messages: Vec::new() };
        let location = rewriter.source.nodes[node].location;
        let (values, messages) = chooser.node(rewriter, node)?;
        remarks.extend(messages.into_iter().map(|message| Remark { location, message }));
        Ok(values)
    });
    result.map_err(|reason| {
        Diagnostics::internal(format!("format choice made an ill-typed node: {reason}"))
    })
}

/// What the choice for one node reads and says.
struct Chooser<'a> {
    given: &'a Given<'a>,
    constants: &'a IdSet<ValueId>,
    /// Whether a contraction of the function reads windows, so that channels last pays.
    windows: bool,
    /// The contractions that read no other's result.
    first: &'a IdSet<NodeId>,
    /// The nodes that may run several times: in regions other than the function's body.
    inner: &'a IdSet<NodeId>,
    messages: Vec<String>,
}

/// The values in place of a node's, if it is rewritten, and what is said of it.
type Chosen = (Option<Vec<ValueId>>, Vec<String>);

impl Chooser<'_> {
    fn node(mut self, rewriter: &mut Rewriter<'_>, id: NodeId) -> Built<Chosen> {
        let source = rewriter.source;
        let node = &source.nodes[id];
        let Op::Contract { space, accumulator, dtype } = &node.op else {
            return Ok((None, self.messages));
        };
        if space.extents.iter().any(|extent| extent.is_zero()) {
            return Ok((None, self.messages));
        }
        let Given { target, options, .. } = *self.given;
        if let Some(stored) = Stored::of(source, id, self.constants, options.activations, target) {
            rewriter.builder.set_location(node.location);
            let value = stored.product(rewriter, target, &mut self.messages)?;
            return Ok((Some(vec![value]), self.messages));
        }
        let operand = |number: usize| {
            let old = node.operands[number];
            (rewriter.get(old), self.constants.contains(old))
        };
        let operands = [operand(0), operand(1)];
        let mut contraction = Contraction::new(space, operands, *accumulator, *dtype);
        contraction.repeats = self.inner.contains(id);
        let builder = &mut rewriter.builder;
        let value = match self.given.layouts.get(&id) {
            Some(&layout) => {
                layout.apply(&mut contraction, builder, &mut self.messages)?;
                // Transforms are in vectors of channels.
                let is_filtered = layout.order == Order::ChannelsLast;
                match self.filtered(&contraction, builder, is_filtered)? {
                    Some(value) => value,
                    None => self.directly(contraction, builder)?,
                }
            }
            None => self.by_rule(contraction, builder, self.first.contains(id))?,
        };
        Ok((Some(vec![value]), self.messages))
    }

    /// A contraction in the layout that sums which follow each other agree on.
    fn by_rule(
        &mut self,
        contraction: Contraction,
        builder: &mut FunctionBuilder,
        is_first: bool,
    ) -> Built<ValueId> {
        let layout = if self.windows { Layout::CHANNELS_LAST } else { Layout::AS_GIVEN };
        let mut lying = contraction.clone();
        let mut said = Vec::new();
        layout.apply(&mut lying, builder, &mut said)?;
        let at = self.messages.len();
        if let Some(value) = self.filtered(&lying, builder, true)? {
            self.messages.splice(at..at, said);
            return Ok(value);
        }
        let is_singly = !said.is_empty()
            && is_first
            && tuples::wanted(&contraction, builder, self.given.target)?.is_none()
            && channels_last::meets_data_singly(&lying);
        if is_singly {
            (lying, said) = (contraction, Vec::new());
            let order = Order::ResultChannelsLast;
            Layout { order, ..Layout::AS_GIVEN }.apply(&mut lying, builder, &mut said)?;
        }
        self.messages.splice(at..at, said);
        self.directly(lying, builder)
    }

    /// A contraction by minimal filtering, where that is wanted.
    fn filtered(
        &mut self,
        contraction: &Contraction,
        builder: &mut FunctionBuilder,
        where_predicted: bool,
    ) -> Built<Option<ValueId>> {
        let Given { target, options, price, .. } = *self.given;
        let wanted = options.winograd;
        if wanted == Winograd::Never || wanted == Winograd::WherePredicted && !where_predicted {
            return Ok(None);
        }
        let messages = &mut self.messages;
        winograd::apply(contraction.clone(), builder, target, price, wanted, messages)
    }

    /// A contraction as a direct sum.
    fn directly(
        &mut self,
        mut contraction: Contraction,
        builder: &mut FunctionBuilder,
    ) -> Built<ValueId> {
        let (target, messages) = (self.given.target, &mut self.messages);
        wide::apply(&mut contraction, builder, target, messages)?;
        tuples::complete(&mut contraction, builder, target, messages)?;
        groups::apply(&mut contraction, builder, target, messages)?;
        merge::apply(&mut contraction, builder, messages)?;
        panels::apply(&mut contraction, builder, target, messages)?;
        tuples::apply(&mut contraction, builder, target, messages)?;
        contraction.finish(builder)
    }
}
