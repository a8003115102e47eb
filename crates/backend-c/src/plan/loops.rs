//! Loops of plans: the values that a loop carries are an array, which every turn reads and sets;
//! rows of stacks lie above until the loop ends.

use base::Diagnostic;
use base::codes::UNSUPPORTED_TYPE;
use graph::{NodeId, Op, ValueId};
use program::Fault;
use tensor::DType;

use super::PlanWriter;

/// Names of what belongs to a loop.
struct Loop {
    /// The array of what it carries.
    carried: String,
    /// The first row of each stack.
    rows: String,
    /// Where its rows begin, from above.
    top: String,
    /// Where the memory of its turns begins.
    mark: String,
    /// Where it ends that is needed by the next turn.
    kept: String,
    /// Turns so far.
    count: String,
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
        if let Some(&value) = stacks
            .iter()
            .chain(node.operands.iter().skip(carried))
            .find(|&&value| self.dtype(value).bits() < 8)
        {
            let message = format!("a loop has rows of {}", self.dtype(value));
            return Err(Diagnostic::error(UNSUPPORTED_TYPE, message)
                .at(function.locations.describe(node.location))
                .because("elements that share bytes cannot be cut into rows in C")
                .remedy("run the model in process, or widen the elements before the loop")
                .into());
        }
        let before = self.known.clone();
        let parameters = &function.regions[body].parameters;
        let mut name = |word: &str| self.names.fresh(word);
        let names = Loop {
            carried: name("carried"),
            rows: name("rows"),
            top: name("top"),
            mark: name("mark"),
            kept: name("kept"),
            count: name("count"),
        };
        let Loop { carried: array, rows, top, mark, kept, count } = &names;
        self.line("{");
        self.inside(|writer| {
            writer.line(format!("tw_value {array}[{}];", carried.max(1)));
            if !stacks.is_empty() {
                writer.line(format!("tw_value {rows}[{}];", stacks.len()));
                writer.line(format!("unsigned char *const {top} = region.high;"));
            }
            writer.line(format!("unsigned char *const {mark} = region.low;"));
            writer.line(format!("unsigned char *{kept} = {mark};"));
            writer.line(format!("int64_t {count} = 0;"));
            for (number, &operand) in node.operands.iter().take(carried).enumerate() {
                let operand = writer.value(operand);
                writer.line(format!("{array}[{number}] = {operand};"));
            }
            let trips = match &node.op {
                Op::Scan { trip_count, .. } => Some(writer.expression(trip_count)),
                _ => None,
            };
            writer.line("for (;;) {");
            writer.inside(|writer| {
                match &trips {
                    Some(trips) => writer.line(format!("if ({count} >= {trips}) break;")),
                    None => writer.condition(id, &names)?,
                }
                let (most, fault) = (writer.most_turns, Fault::TooManyTurns.code());
                writer.line(format!("if (turns++ == {most}u) return {fault};"));
                let state = &parameters[first..first + carried];
                writer.state(state, array);
                if let Op::Scan { reverse, .. } = node.op {
                    let place = match (reverse, &trips) {
                        (true, Some(trips)) => format!("{trips} - 1 - {count}"),
                        _ => count.clone(),
                    };
                    writer.slices(id, carried, count, &place)?;
                }
                writer.bind_extents(id, parameters);
                writer.nodes(body)?;
                let results = &function.regions[body].results;
                for (number, &row) in results.iter().skip(carried).enumerate() {
                    writer.push_row(number, row, &names);
                }
                for (number, &value) in results.iter().take(carried).enumerate() {
                    let value = writer.value(value);
                    writer.line(format!("{array}[{number}] = {value};"));
                }
                writer.line(format!("{kept} = tw_keep(&region, {mark}, {array}, {carried});"));
                writer.line(format!("{count}++;"));
                Ok(())
            })?;
            writer.line("}");
            writer.line(format!("region.low = {kept};"));
            writer.known = before;
            for (number, &value) in node.results.iter().take(carried).enumerate() {
                let value = writer.value(value);
                writer.line(format!("{value} = {array}[{number}];"));
            }
            writer.line(format!("(void){array};"));
            if let Op::While { turns: Some(symbol) } = node.op {
                let name = writer.symbol(symbol);
                writer.line(format!("{name} = {count};"));
                writer.check_symbols(&[symbol]);
            }
            writer.bind_extents(id, &node.results[..carried]);
            let reverse = matches!(node.op, Op::Scan { reverse: true, .. });
            writer.stacks(stacks, reverse, &names)
        })?;
        self.line("}");
        self.known.extend(function.symbols_known_behind(id));
        Ok(())
    }

    /// The parameters that a turn reads of what is carried.
    fn state(&mut self, parameters: &[ValueId], array: &str) {
        for (number, &value) in parameters.iter().enumerate() {
            let value = self.value(value);
            self.line(format!("{value} = {array}[{number}];"));
        }
    }

    /// Leaves the loop unless the condition holds; what computes it gives its memory back.
    fn condition(&mut self, id: NodeId, names: &Loop) -> base::Result<()> {
        let function = self.function;
        let region = function.nodes[id].regions[0];
        let parameters = &function.regions[region].parameters;
        self.state(parameters, &names.carried);
        self.bind_extents(id, parameters);
        self.nodes(region)?;
        let condition = self.element(function.regions[region].results[0], "unsigned char");
        self.line(format!("if ({condition} == 0) break;"));
        self.line(format!("region.low = {};", names.kept));
        Ok(())
    }

    /// The number of a turn, and the rows that it reads.
    fn slices(&mut self, id: NodeId, carried: usize, count: &str, place: &str) -> base::Result<()> {
        let function = self.function;
        let parameters = &function.regions[function.nodes[id].regions[0]].parameters;
        let turn = self.value(parameters[0]);
        self.make(&turn, DType::I64, 0);
        self.line(format!("*(int64_t *)tw_memory(&{turn}) = {count};"));
        let fault = Fault::TooLittleMemory.code();
        let operands = &function.nodes[id].operands[carried..];
        for (&operand, &row) in operands.iter().zip(&parameters[1 + carried..]) {
            let (operand, row) = (self.value(operand), self.value(row));
            let arguments = format!("&region, &{row}, &{operand}, {place}");
            self.line(format!("if (!tw_row({arguments})) return {fault};"));
        }
        Ok(())
    }

    /// Keeps a row of a stack; all rows of one have the same shape.
    fn push_row(&mut self, number: usize, row: ValueId, Loop { rows, count, .. }: &Loop) {
        let row = self.value(row);
        self.line(format!("if ({count} == 0) {rows}[{number}] = {row};"));
        self.line(format!("fault = tw_push(&region, &{rows}[{number}], &{row});"));
        self.line("if (fault != 0) return fault;");
    }

    /// Puts the rows together.
    fn stacks(&mut self, stacks: &[ValueId], reverse: bool, names: &Loop) -> base::Result<()> {
        if stacks.is_empty() {
            return Ok(());
        }
        let Loop { rows, top, count, .. } = names;
        for (number, &value) in stacks.iter().enumerate() {
            let name = self.value(value);
            self.line(format!("if ({count} > 0) {{"));
            let rank = self.tensor(value)?.1.len();
            self.inside(|writer| {
                writer.line(format!("{name}.extents[0] = {count};"));
                for axis in 1..rank {
                    let from = format!("{rows}[{number}].extents[{}]", axis - 1);
                    writer.line(format!("{name}.extents[{axis}] = {from};"));
                }
                Ok(())
            })?;
            self.line("} else {");
            self.inside(|writer| writer.set_extents(value).map(|_| ()))?;
            self.line("}");
            let dtype = self.dtype(value);
            self.make(&name, dtype, rank);
            let (all, reverse) = (stacks.len(), i32::from(reverse));
            let arguments = format!("{rows}, {all}, {number}, {count}, {reverse}");
            self.line(format!("tw_stack(&{name}, {top}, {arguments});"));
        }
        self.line(format!("region.high = {top};"));
        Ok(())
    }
}
