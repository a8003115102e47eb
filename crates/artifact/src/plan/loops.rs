//! Loops of plans: the values that a loop carries are an array, which every turn reads and sets;
//! rows of stacks lie above until the loop ends.

use backend::procedure::{Action, AreaId, LocalId, MemoryWidth, Word, WordOperator};
use base::codes::UNSUPPORTED_TYPE;
use base::{Diagnostic, Id};
use graph::{NodeId, Op, ValueId};
use program::Fault;
use tensor::DType;

use super::{HEAD, PlanWriter};

/// What belongs to a loop.
#[derive(Clone, Copy)]
struct LoopParts {
    /// The array of what it carries.
    carried: AreaId,
    /// The first row of each stack.
    rows: AreaId,
    /// Where its rows begin, from above.
    top: LocalId,
    /// Where it ends that is needed by the next turn.
    kept: LocalId,
    /// Turns so far.
    count: LocalId,
}

impl PlanWriter<'_> {
    pub(super) fn looped(&mut self, id: NodeId) -> base::Result<()> {
        let function = self.function;
        let node = &function.nodes[id];
        let (carried, first, body) = match &node.op {
            Op::Scan { carried, .. } => (*carried, 1, node.regions[0]),
            _ => (node.operands.len(), 0, node.regions[1]),
        };
        let stacks = &node.results[carried..];
        let rows = stacks.iter().chain(node.operands.iter().skip(carried));
        let mut rows = rows.filter(|&&value| self.dtype(value).bits() < 8);
        if let Some(&value) = rows.next() {
            let message = format!("a loop has rows of {}", self.dtype(value));
            return Err(Diagnostic::error(UNSUPPORTED_TYPE, message)
                .at(function.locations.describe(node.location))
                .because("elements that share bytes cannot be cut into rows in an artifact")
                .remedy("run the model in process, or widen the elements before the loop")
                .into());
        }
        let before = self.known.clone();
        let parameters = &function.regions[body].parameters;
        let each = self.each.cast_unsigned();
        let region = Word::from(self.region);
        let array = self.writer.procedure.area("carried", each * carried as u64);
        let rows = self.writer.procedure.area("rows", each * stacks.len() as u64);
        let top = self.writer.local("top", (region.clone() + 8).load());
        let mark = self.writer.local("mark", region.clone().load());
        let kept = self.writer.local("kept", mark);
        let count = self.writer.local("count", 0);
        let parts = LoopParts { carried: array, rows, top, kept, count };
        let place = |number: usize, each: i64| Word::from(array) + each * number as i64;
        for (number, &operand) in node.operands.iter().take(carried).enumerate() {
            let (to, from) = (place(number, self.each), self.value(operand));
            self.copy_value(to, from);
        }
        let trips = match &node.op {
            Op::Scan { trip_count, .. } => {
                let trips = self.expr(trip_count);
                Some(self.writer.local("trips", trips))
            }
            _ => None,
        };
        let turn = self.inside(|plans| {
            match trips {
                Some(trips) => {
                    let is_over =
                        Word::binary(WordOperator::GreaterEqual, count.into(), trips.into());
                    plans.writer.push(Action::If(is_over, vec![Action::Break], Vec::new()));
                }
                None => plans.condition(id, &parts)?,
            }
            let (turns, most) = (plans.turns.into(), plans.most_turns);
            plans.writer.count_turn(turns, most);
            plans.state(&parameters[first..first + carried], array);
            if let Op::Scan { reverse, .. } = node.op {
                let at = match (reverse, trips) {
                    (true, Some(trips)) => Word::from(trips) + -1 - count.into(),
                    _ => count.into(),
                };
                plans.slices(id, carried, count, at)?;
            }
            plans.bind_extents(id, parameters);
            plans.nodes(body)?;
            let results = &function.regions[body].results;
            for (number, &row) in results.iter().skip(carried).enumerate() {
                plans.push_row(number, row, &parts)?;
            }
            for (number, &value) in results.iter().take(carried).enumerate() {
                let (to, from) = (place(number, plans.each), plans.value(value));
                plans.copy_value(to, from);
            }
            let words = vec![
                plans.region.into(),
                mark.into(),
                array.into(),
                (carried as i64).into(),
                plans.each.into(),
            ];
            let end = plans.call_plain("keep", words);
            plans.writer.set(kept, end);
            plans.writer.set(count, Word::from(count) + 1);
            Ok(())
        })?;
        self.writer.push(Action::Loop(turn));
        self.writer.store(region, kept);
        self.known = before;
        for (number, &value) in node.results.iter().take(carried).enumerate() {
            let (to, from) = (self.value(value), place(number, self.each));
            self.copy_value(to, from);
        }
        if let Op::While { turns: Some(symbol) } = node.op {
            let local = self.symbols[symbol.index()];
            self.writer.set(local, count);
            self.check_symbols(&[symbol]);
        }
        self.bind_extents(id, &node.results[..carried]);
        let reverse = matches!(node.op, Op::Scan { reverse: true, .. });
        self.stacks(stacks, reverse, &parts)?;
        self.known.extend(function.symbols_known_behind(id));
        Ok(())
    }

    /// The parameters that a turn reads of what is carried.
    fn state(&mut self, parameters: &[ValueId], array: AreaId) {
        for (number, &value) in parameters.iter().enumerate() {
            let from = Word::from(array) + self.each * number as i64;
            let to = self.value(value);
            self.copy_value(to, from);
        }
    }

    /// Leaves the loop unless the condition holds; what computes it gives its memory back.
    fn condition(&mut self, id: NodeId, parts: &LoopParts) -> base::Result<()> {
        let function = self.function;
        let region = function.nodes[id].regions[0];
        let parameters = &function.regions[region].parameters;
        self.state(parameters, parts.carried);
        self.bind_extents(id, parameters);
        self.nodes(region)?;
        let condition = self.element(function.regions[region].results[0], MemoryWidth::One);
        self.writer.push(Action::If(condition, Vec::new(), vec![Action::Break]));
        let region = self.region.into();
        self.writer.store(region, parts.kept);
        Ok(())
    }

    /// The number of a turn, and the rows that it reads.
    fn slices(
        &mut self,
        id: NodeId,
        carried: usize,
        count: LocalId,
        place: Word,
    ) -> base::Result<()> {
        let function = self.function;
        let parameters = &function.regions[function.nodes[id].regions[0]].parameters;
        let turn = self.value(parameters[0]);
        self.make(turn.clone(), DType::I64, 0);
        self.writer.store(turn.load(), count);
        let operands = &function.nodes[id].operands[carried..];
        for (&operand, &row) in operands.iter().zip(&parameters[1 + carried..]) {
            let words =
                vec![self.region.into(), self.value(row), self.value(operand), place.clone()];
            let is_there = self.call_plain("row", words);
            self.writer.fault_if(is_there.equal(0), Fault::TooLittleMemory);
        }
        Ok(())
    }

    /// Keeps a row of a stack; all rows of one have the same shape.
    fn push_row(&mut self, number: usize, row: ValueId, parts: &LoopParts) -> base::Result<()> {
        let row = self.value(row);
        let first = Word::from(parts.rows) + self.each * number as i64;
        let kept = self.inside(|plans| {
            plans.copy_value(first.clone(), row.clone());
            Ok(())
        })?;
        self.writer.push(Action::If(Word::from(parts.count).equal(0), kept, Vec::new()));
        let region = self.region.into();
        self.checked("push", vec![region, first, row]);
        Ok(())
    }

    /// Puts the rows together.
    fn stacks(&mut self, stacks: &[ValueId], reverse: bool, parts: &LoopParts) -> base::Result<()> {
        if stacks.is_empty() {
            return Ok(());
        }
        let LoopParts { rows, top, count, .. } = *parts;
        for (number, &value) in stacks.iter().enumerate() {
            let rank = self.tensor(value)?.1.len();
            let place = self.value(value);
            let row = Word::from(rows) + self.each * number as i64;
            let of_rows = self.inside(|plans| {
                plans.writer.store(place.clone() + HEAD, count);
                for axis in 1..rank {
                    let extent = (row.clone() + (HEAD + 8 * (axis as i64 - 1))).load();
                    plans.writer.store(place.clone() + (HEAD + 8 * axis as i64), extent);
                }
                Ok(())
            })?;
            let of_type = self.inside(|plans| plans.set_extents(value).map(|_| ()))?;
            let has_rows = Word::binary(WordOperator::Greater, count.into(), 0.into());
            self.writer.push(Action::If(has_rows, of_rows, of_type));
            let dtype = self.dtype(value);
            self.make(place.clone(), dtype, rank);
            let numbers = [stacks.len() as i64, number as i64].map(Word::Number);
            let [all, number] = numbers;
            let reverse = i64::from(reverse).into();
            let words = vec![place, top.into(), rows.into(), all, number, count.into(), reverse];
            let words = words.into_iter().chain([Word::Number(self.each)]).collect();
            self.call_plain("stack", words);
        }
        let high = Word::from(self.region) + 8;
        self.writer.store(high, top);
        Ok(())
    }
}
