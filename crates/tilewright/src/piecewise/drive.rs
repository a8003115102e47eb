//! Driven nodes: loops turn by turn, branches, calls.

use std::borrow::Cow;

use base::Result;
use import_onnx::pieces::{Along, Driven, ListWork, Stacked, Work};
use tensor::{DType, Scalar, Tensor, Value};

use super::values::{bytes_of, entries, list, misfit, missing, number, place};
use super::{Common, Made, Session, Turn, Values, value};

/// The results of a driven node, whose bodies read values around it.
pub(super) fn drive(
    node: &Driven,
    bodies: &[Turn],
    mut operands: Vec<Option<Cow<'_, Value>>>,
    values: &Values<'_>,
    common: &Common,
    session: &mut Session<'_>,
) -> Result<Vec<Value>> {
    let operand = |at: usize| operands.get(at).and_then(Option::as_deref).map(number).transpose();
    match &node.work {
        Work::Loop { stacked } => {
            let count = operand(0)?;
            let goes_on = operand(1)?.is_none_or(|holds| holds != 0);
            let carried = operands.split_off(operands.len().min(2));
            let carried = all_from(2, carried, common, session)?;
            let asks = true;
            Turns { count, goes_on, asks, carried, scanned: Vec::new() }
                .run(&bodies[0], values, stacked, session)
        }
        Work::Scan { scanned, stacked } => {
            let carried = operands.len() - scanned.len();
            let rows = all_from(carried, operands.split_off(carried), common, session)?;
            let rows = rows.iter().zip(scanned).map(|(value, along)| Rows::of(value, *along));
            let scanned = rows.collect::<Result<Vec<Rows>>>()?;
            let carried = all_from(0, operands, common, session)?;
            let count = scanned.first().map(|rows| rows.count as i64);
            if scanned.iter().any(|rows| Some(rows.count as i64) != count) {
                return Err(misfit("what is scanned has different extents"));
            }
            let (goes_on, asks) = (true, false);
            Turns { count, goes_on, asks, carried, scanned }
                .run(&bodies[0], values, stacked, session)
        }
        Work::Call => {
            let operands = all_from(0, operands, common, session)?;
            bodies[0].run(operands, values, session)
        }
        Work::If => {
            let condition = operand(0)?.ok_or_else(|| missing(0))?;
            bodies[usize::from(condition == 0)].run(Vec::new(), values, session)
        }
        Work::List(work) => {
            if let ListWork::Concat { .. } = work {
                let bytes = operands.iter().flatten().map(|value| bytes_of(value)).sum();
                common.check_bytes(bytes, "the concatenation would take")?;
            }
            let copy = &mut |value: Cow<'_, Value>| session.own(value, common);
            Ok(vec![list(*work, operands, copy)?])
        }
    }
}

/// Operands from one number on, none of which may be left out.
fn all_from(
    first: usize,
    operands: Vec<Option<Cow<'_, Value>>>,
    common: &Common,
    session: &mut Session<'_>,
) -> Result<Vec<Value>> {
    let operands = operands.into_iter().zip(first..);
    let own = |(operand, number): (Option<Cow<'_, Value>>, usize)| {
        session.own(operand.ok_or_else(|| missing(number))?, common)
    };
    operands.map(own).collect()
}

/// A loop about to run.
struct Turns {
    count: Option<i64>,
    goes_on: bool,
    /// Whether a turn is given its number and a condition, and says whether another follows.
    asks: bool,
    carried: Vec<Value>,
    scanned: Vec<Rows>,
}

impl Turns {
    /// What is carried in the end, and the stacks.
    fn run(
        mut self,
        body: &Turn,
        around: &Values<'_>,
        stacked: &[Stacked],
        session: &mut Session<'_>,
    ) -> Result<Vec<Value>> {
        let common = &body.unit.common;
        let mut stacked_bytes = 0;
        let mut stacks: Vec<Vec<Tensor>> = vec![Vec::new(); stacked.len()];
        let mut turn = 0;
        while self.goes_on && self.count.is_none_or(|count| turn < count) {
            session.count_turn(self.carried.iter().map(entries).sum(), common)?;
            let carried = std::mem::take(&mut self.carried);
            let carries = carried.len();
            let mut results = body.run(self.own(turn, carried), around, session)?.into_iter();
            if self.asks {
                self.goes_on = results.next().map_or(Ok(0), |holds| number(&holds))? != 0;
            }
            self.carried = results.by_ref().take(carries).collect();
            for (stack, row) in stacks.iter_mut().zip(results) {
                stacked_bytes += bytes_of(&row);
                match row {
                    Value::Tensor(row) => stack.push(row),
                    _ => return Err(misfit("only tensors can be stacked")),
                }
            }
            // Rows are there twice when they are put together.
            let kept = 2 * stacked_bytes + self.carried.iter().map(bytes_of).sum::<u64>();
            turn += 1;
            common.check_bytes(kept, &format!("after {turn} turns a loop keeps"))?;
        }
        let mut rows = Vec::with_capacity(stacks.len());
        for (number, (mut stack, info)) in stacks.into_iter().zip(stacked).enumerate() {
            if info.along.is_reversed {
                stack.reverse();
            }
            let axis = |rank: usize| place(info.along.axis, rank + 1, rank + 1);
            rows.push(Value::from(match stack.first() {
                None => {
                    let (dtype, mut shape) = self.row_of_none(body, around, number, info)?;
                    shape.insert(axis(shape.len())?, 0);
                    Tensor::zeros(dtype, &shape)
                }
                Some(row) => {
                    Tensor::joined(&stack, axis(row.shape().len())?, true).map_err(misfit)?
                }
            }));
        }
        let mut results = self.carried;
        results.extend(rows);
        Ok(results)
    }

    /// The inputs of a turn that are the body's own.
    fn own(&self, turn: i64, carried: Vec<Value>) -> Vec<Value> {
        let first = [Tensor::scalar(Scalar::i64(turn)), Tensor::scalar(Scalar::bool(true))];
        let first = first.into_iter().filter(|_| self.asks).map(Value::from);
        let rows = self.scanned.iter().map(|rows| Value::from(rows.row(turn as usize)));
        first.chain(carried).chain(rows).collect()
    }

    /// The type of a row of a stack of a loop that does not run: that of the body's result for what
    /// is carried, with extents that data decide 0.
    fn row_of_none(
        &self,
        body: &Turn,
        around: &Values<'_>,
        number: usize,
        info: &Stacked,
    ) -> Result<(DType, Vec<usize>)> {
        if self.scanned.is_empty() {
            let mut inputs = self.own(0, self.carried.clone());
            for name in &body.unit.part.inputs[inputs.len()..] {
                inputs.push(value(around, name)?.clone());
            }
            let name = &body.outputs[usize::from(self.asks) + self.carried.len() + number];
            if let Ok(made) = body.unit.made_for(&inputs)
                && let Made::Whole(executable) = &*made
                && let Some(found) = executable.output_type(name, &inputs)
            {
                return Ok(found);
            }
        }
        let Some(dtype) = info.dtype else {
            return Err(misfit("the type of what is stacked is not known where there is none"));
        };
        let shape: Vec<usize> = info.shape.iter().map(|extent| extent.unwrap_or(0)).collect();
        Ok((dtype, shape))
    }
}

/// A tensor that is taken apart along an axis.
struct Rows {
    tensor: Tensor,
    axis: usize,
    is_reversed: bool,
    count: usize,
}

impl Rows {
    fn of(value: &Value, along: Along) -> Result<Rows> {
        let Value::Tensor(tensor) = value else { return Err(misfit("only tensors are scanned")) };
        let rank = tensor.shape().len();
        let axis = place(along.axis, rank, rank)?;
        let count = tensor.shape()[axis];
        Ok(Rows { tensor: tensor.clone(), axis, is_reversed: along.is_reversed, count })
    }

    /// The row of a turn.
    fn row(&self, turn: usize) -> Tensor {
        let at = if self.is_reversed { self.count - 1 - turn } else { turn };
        self.tensor.row(self.axis, at)
    }
}
