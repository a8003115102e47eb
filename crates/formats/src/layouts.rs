//! Layouts: how the data and the result of a contraction lie, as a space of choices.
//!
//! Sums that follow each other agree on one order, channels last, where one of them reads windows:
//! what lies otherwise in front and behind is transposed once for all of them. Where few sums stand
//! between parameters and results layouts are weighed (`weighed`). No layout changes the order in
//! which a direct sum is written; what lies side by side decides which terms are added apart.

use graph::{Built, FunctionBuilder};

use crate::along::Along;
use crate::channels_last;
use crate::contraction::Contraction;

/// How the data and the result of a contraction lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Layout {
    /// The order of their axes.
    pub(crate) order: Order,
    /// Whether data that are met in steps are copied without what lies between.
    pub(crate) without_gaps: bool,
}

/// The order of the axes of the data and of the result of a contraction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Order {
    /// As the model has them.
    AsGiven,
    /// Channels last in both.
    ChannelsLast,
    /// Channels last in the result; the data as the model has them.
    ResultChannelsLast,
    /// This axis of the result last, and in the data, which have it alone; what is met in steps as
    /// phases.
    Along(usize),
}

impl Layout {
    /// What is as the model has it.
    pub(crate) const AS_GIVEN: Layout = Layout { order: Order::AsGiven, without_gaps: false };

    /// Channels last throughout.
    pub(crate) const CHANNELS_LAST: Layout =
        Layout { order: Order::ChannelsLast, without_gaps: false };

    /// Has a contraction lie so.
    pub(crate) fn apply(
        self,
        contraction: &mut Contraction,
        builder: &mut FunctionBuilder,
        messages: &mut Vec<String>,
    ) -> Built<()> {
        if self.without_gaps && channels_last::take_steps(contraction, builder)? {
            messages.push("the data are copied without what lies between steps".to_owned());
        }
        match self.order {
            Order::AsGiven => {}
            Order::ChannelsLast => {
                let result = channels_last::put_result(contraction);
                let data = channels_last::put_data(contraction, builder)?;
                if result || data {
                    messages.push("channels last".to_owned());
                }
            }
            Order::ResultChannelsLast => {
                channels_last::put_result(contraction);
                let said = "channels last in the result; the data stay as they lie";
                messages.push(said.to_owned());
            }
            Order::Along(axis) => {
                let Some(data) = channels_last::data_operand(contraction) else { return Ok(()) };
                if let Some(along) = Along::of(contraction, builder, data, axis)? {
                    along.apply(contraction, builder, messages)?;
                }
            }
        }
        Ok(())
    }

    /// All that a contraction can have, what is the same left out.
    pub(crate) fn all(contraction: &Contraction, builder: &FunctionBuilder) -> Built<Vec<Layout>> {
        let Some(data) = channels_last::data_operand(contraction) else {
            return Ok(vec![Layout::AS_GIVEN]);
        };
        let mut orders = vec![Order::AsGiven];
        let mut lying = contraction.clone();
        let result = channels_last::put_result(&mut lying);
        let moves_data = !channels_last::data_order(&lying, data).is_sorted();
        if result || moves_data {
            orders.push(Order::ChannelsLast);
        }
        if result && moves_data {
            orders.push(Order::ResultChannelsLast);
        }
        // Products of matrices have formats of their own.
        let space = &contraction.space;
        let is_product = space.extents[space.parallel..].iter().any(|extent| !extent.is_one())
            && !channels_last::is_windowed(space, &space.operands[data]);
        for axis in contraction.parallel().filter(|_| !is_product) {
            let along = Along::of(contraction, builder, data, axis)?;
            orders.extend(along.filter(Along::moves).map(|_| Order::Along(axis)));
        }
        let gaps: &[bool] = match contraction.has_steps(data) {
            true => &[false, true],
            false => &[false],
        };
        let with = |&order: &Order| gaps.iter().map(move |&without_gaps| (order, without_gaps));
        let layout = |(order, without_gaps)| Layout { order, without_gaps };
        Ok(orders.iter().flat_map(with).map(layout).collect())
    }
}
