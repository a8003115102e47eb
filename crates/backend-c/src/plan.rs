//! What stands between the programs of a plan: its actions (`graph::PlanActions`) as C.
//!
//! A value is a `tw_value`, the region of memory that is divided a `tw_region`; symbols are
//! variables.

use std::collections::BTreeMap;
use std::fmt::Display;

use base::text::Printer;
use base::{FunctionId, Id};
use graph::{
    Assumption, Function, ListOperation, PlanAction, PlanActions, PlanCondition, PlanLoop,
    PlanNumber, PlanPlace, ValueId,
};
use program::Fault;
use sym::{Atom, Expr, SymbolId};
use tensor::DType;

use crate::helpers::Helpers;
use crate::index::{IndexContext, integer};
use crate::names::{Names, identifier, mentions};
use crate::text::{Arguments, FreeExtent, list_letters};
use crate::{COptions, CPlan, CPort, CSegment, Interface, program::RESERVED};

/// Sizes above this many bytes are too large before they are computed exactly.
const MOST_BYTES: &str = "4e18";

/// A segment's program as a function of C.
pub(crate) struct Called {
    name: String,
    /// The symbols that it takes, and its names for them.
    symbols: Vec<(SymbolId, String)>,
    /// Whether it counts turns.
    turns: bool,
    arena: Expr,
    inputs: usize,
}

impl Called {
    /// The function with this body; `free` are the symbols that it may take.
    pub(crate) fn new(
        name: String,
        free: Vec<(SymbolId, String)>,
        body: &str,
        segment: &CSegment<'_>,
        arena: Expr,
    ) -> Called {
        let symbols = free.into_iter().filter(|(_, name)| mentions(body, name)).collect();
        let turns = mentions(body, "turns");
        Called { name, symbols, turns, arena, inputs: segment.inputs }
    }

    /// Its definition.
    pub(crate) fn definition(&self, body: &str) -> String {
        let mut parameters = vec![
            "const void *constants".to_owned(),
            "void *arena".to_owned(),
            "const void *const in[]".to_owned(),
            "void *const out[]".to_owned(),
        ];
        parameters.extend(self.symbols.iter().map(|(_, name)| format!("int64_t {name}")));
        if self.turns {
            parameters.push("uint64_t *turns".to_owned());
        }
        let (name, parameters) = (&self.name, parameters.join(", "));
        format!("static int {name}({parameters})\n{{\n{body}  return 0;\n}}\n\n")
    }
}

/// A plan as C.
pub(crate) struct Written {
    /// The most axes of a value, at least one.
    pub(crate) axes: usize,
    pub(crate) arguments: Arguments,
    /// What runs it.
    pub(crate) body: String,
}

/// Writes a plan.
///
/// # Errors
/// Those of [`crate::emit_plan`].
pub(crate) fn write(
    plan: &CPlan<'_>,
    segments: &BTreeMap<FunctionId, Called>,
    interface: &Interface,
    helpers: &mut Helpers,
    options: COptions,
) -> base::Result<Written> {
    let function = plan.function;
    let mut names = Names::default();
    for taken in RESERVED.into_iter().chain(["operands", "results", "scratch", "low", "held"]) {
        names.fresh(taken);
    }
    let symbols = function.symbols.values().map(|symbol| names.fresh(&symbol.name)).collect();
    let values = function.values.ids().map(|value| names.fresh(&format!("v{}", value.index())));
    let values = values.collect();
    let (inputs, printer, most_turns) = (&interface.inputs[..], Printer::new(), options.most_turns);
    let checks = plan.segments.iter().map(|(&id, segment)| (id, &segment.checks[..])).collect();
    let plan = PlanActions::of(function, inputs.len(), &checks)?;
    let (loops, axes) = (Vec::new(), plan.axes);
    let mut writer = PlanWriter {
        function,
        segments,
        inputs,
        names,
        symbols,
        values,
        loops,
        helpers,
        printer,
        most_turns,
    };
    let arguments = writer.arguments(&plan, inputs.len());
    writer.printer.indent();
    writer.line("tw_region region;");
    writer.line("region.low = (unsigned char *)memory;");
    writer.line("region.high = region.low + size;");
    writer.actions(&plan.actions)?;
    let code = writer.printer.finish();
    writer.helpers.values(&code, axes, &identifier(&interface.name));
    let (mut printer, mut body, mut unused) = (Printer::new(), String::new(), Vec::new());
    printer.indent();
    for (id, symbol) in function.symbols.ids().zip(&writer.symbols) {
        let is_argument = arguments.free.iter().any(|free| free.symbol == id);
        if !is_argument && mentions(&code, symbol) {
            printer.line(format_args!("int64_t {symbol} = 0;"));
            unused.push(symbol);
        }
    }
    for name in writer.values.iter().filter(|name| mentions(&code, name)) {
        printer.line(format_args!("tw_value {name};"));
        unused.push(name);
    }
    for (declaration, name) in [("int fault;", "fault"), ("uint64_t turns = 0;", "turns")] {
        if mentions(&code, name) {
            printer.line(declaration);
        }
    }
    body.push_str(&printer.finish());
    body.push_str(&code);
    let taken = ["constants", "in", "out"].into_iter();
    let taken = taken.chain(arguments.free.iter().map(|free| free.name.as_str()));
    for name in taken.chain(unused.into_iter().map(String::as_str)) {
        body.push_str(&format!("  (void){name};\n"));
    }
    Ok(Written { axes, arguments, body })
}

struct PlanWriter<'a> {
    function: &'a Function,
    segments: &'a BTreeMap<FunctionId, Called>,
    inputs: &'a [CPort],
    names: Names,
    /// Names.
    symbols: Vec<String>,
    values: Vec<String>,
    /// Those whose actions are being written, the innermost last.
    loops: Vec<Loop>,
    helpers: &'a mut Helpers,
    printer: Printer,
    most_turns: u64,
}

/// Names of what belongs to a loop, and what it is.
#[derive(Clone, Default)]
struct Loop {
    /// The array of what it carries.
    carried: String,
    /// The first row of each stack.
    rows: String,
    /// Where its rows begin, from above.
    top: String,
    /// Where it ends that is needed by the next turn.
    kept: String,
    /// Turns so far.
    count: String,
    /// How often it turns, where that is said before it begins.
    trips: String,
    /// The number of a turn's rows.
    place: String,
    stacks: usize,
    reverse: bool,
}

impl PlanWriter<'_> {
    fn line(&mut self, text: impl AsRef<str>) {
        self.printer.line(text.as_ref());
    }

    fn inside(&mut self, write: impl FnOnce(&mut Self) -> base::Result<()>) -> base::Result<()> {
        self.printer.indent();
        write(self)?;
        self.printer.dedent();
        Ok(())
    }

    fn value(&self, value: ValueId) -> String {
        self.values[value.index()].clone()
    }

    /// The element of a scalar.
    fn element(&self, value: ValueId, ty: &str) -> String {
        format!("*(const {ty} *){}.data", self.value(value))
    }

    fn symbol(&self, symbol: SymbolId) -> String {
        self.symbols[symbol.index()].clone()
    }

    fn expression(&mut self, expr: &Expr) -> String {
        let context = IndexContext {
            name: &|symbol: SymbolId| self.symbols[symbol.index()].clone(),
            range: &|symbol: SymbolId| self.function.symbols[symbol].range,
            is_place: false,
            marks: false,
        };
        context.text(self.helpers, expr, false)
    }

    /// About how large an expression is at most, computed so that nothing overflows.
    fn estimate(&self, expr: &Expr) -> String {
        let mut parts = vec![format!("{}.0", expr.constant_part().max(0))];
        for term in expr.terms().iter().filter(|term| term.coefficient() > 0) {
            let factors = term.factors().iter().map(|atom| match atom {
                Atom::Symbol(symbol) => format!("(double){}", self.symbols[symbol.index()]),
                Atom::FloorDiv(a, b) => match b.as_constant() {
                    Some(divisor) if divisor > 0 => format!("({} / {divisor})", self.estimate(a)),
                    _ => self.estimate(a),
                },
                Atom::Mod(_, b) => self.estimate(b),
                Atom::Min(a, _) => self.estimate(a),
                Atom::Max(a, b) => format!("({} + {})", self.estimate(a), self.estimate(b)),
            });
            let factors: Vec<String> = factors.collect();
            parts.push(format!("{}.0 * {}", term.coefficient(), factors.join(" * ")));
        }
        format!("({})", parts.join(" + "))
    }

    /// What the caller sees beyond the ports.
    fn arguments(&self, plan: &PlanActions<'_>, inputs: usize) -> Arguments {
        let function = self.function;
        let free = |&symbol: &SymbolId| FreeExtent { name: self.symbol(symbol), symbol };
        let shape = |&value: &ValueId| {
            let extents = function.ty(value).exprs().iter();
            let text = |extent: &Expr| extent.display(&|symbol| self.symbol(symbol)).to_string();
            extents.map(text).collect::<Vec<String>>().join(", ")
        };
        Arguments {
            free: plan.free.iter().map(free).collect(),
            inputs: plan.inputs.clone(),
            input_shapes: function.parameters()[..inputs].iter().map(shape).collect(),
            output_shapes: function.results().iter().map(shape).collect(),
        }
    }

    /// Leaves with a fault where a text of C is true.
    fn leave_if(&mut self, test: impl Display, fault: Fault) {
        self.line(format!("if ({test}) return {};", fault.code()));
    }

    /// Calls a helper that gives a fault, and leaves with it.
    fn checked(&mut self, call: impl Display) {
        self.line(format!("fault = {call};"));
        self.line("if (fault != 0) return fault;");
    }

    fn braced(&mut self, head: &str, actions: &[PlanAction<'_>]) -> base::Result<()> {
        self.line(head);
        self.inside(|writer| writer.actions(actions))
    }

    fn actions(&mut self, actions: &[PlanAction<'_>]) -> base::Result<()> {
        actions.iter().try_for_each(|action| self.action(action))
    }

    fn action(&mut self, action: &PlanAction<'_>) -> base::Result<()> {
        match action {
            PlanAction::Input(number, value) => {
                let (name, (dtype, rank)) = (self.value(*value), self.tensor(*value));
                let bits = dtype.bits();
                self.line(format!("{name}.data = in[{number}];"));
                self.line(format!("{name}.axes = {rank};"));
                self.line(format!("{name}.bytes = tw_bytes({bits}, {rank}, {name}.extents);"));
                self.leave_if(format!("{name}.bytes < 0"), Fault::SizeOutOfRange);
            }
            PlanAction::InputList(number, value, dtype, rank) => {
                let letters = list_letters(&self.inputs[*number].kind);
                let (name, bits) = (self.value(*value), dtype.bits());
                let given = format!("(const tw_value *)in[{number}], \"{letters}\"");
                self.checked(format!("tw_given(&region, &{name}, {given}, {bits}, {rank})"));
            }
            PlanAction::Refuse(condition) => {
                let test = self.test(condition);
                self.leave_if(test, Fault::SizeOutOfRange);
            }
            PlanAction::Set(symbol, number) => {
                let number = match number {
                    PlanNumber::Extent(value, axis) => {
                        format!("{}.extents[{axis}]", self.value(*value))
                    }
                    PlanNumber::Element(value) => self.element(*value, "int64_t"),
                    PlanNumber::Turns => self.innermost().count.clone(),
                };
                self.line(format!("{} = {number};", self.symbol(*symbol)));
            }
            PlanAction::Shape(value) => self.shape(*value),
            PlanAction::Make(value) => self.make(*value),
            PlanAction::Assign(to, from) => {
                self.line(format!("{} = {};", self.place(*to), self.place(*from)));
            }
            PlanAction::Call { segment, operands, results } => {
                self.call(*segment, operands, results)?;
            }
            PlanAction::If(condition, then, otherwise) => {
                let condition = self.element(*condition, "unsigned char");
                self.braced(&format!("if ({condition} != 0) {{"), then)?;
                self.braced("} else {", otherwise)?;
                self.line("}");
            }
            PlanAction::Loop(looped) => self.looped(looped)?,
            PlanAction::LeaveAtEnd => {
                let Loop { count, trips, .. } = self.innermost();
                self.line(format!("if ({count} >= {trips}) break;"));
            }
            PlanAction::LeaveUnless(value) => {
                let condition = self.element(*value, "unsigned char");
                self.line(format!("if ({condition} == 0) break;"));
                self.line(format!("region.low = {};", self.innermost().kept));
            }
            PlanAction::CountTurn => {
                let test = format!("turns++ == {}u", self.most_turns);
                self.leave_if(test, Fault::TooManyTurns);
            }
            PlanAction::StoreTurn(value) => {
                let (name, count) = (self.value(*value), self.innermost().count);
                self.line(format!("*(int64_t *)tw_memory(&{name}) = {count};"));
            }
            PlanAction::Row(operand, row) => {
                let (operand, row) = (self.value(*operand), self.value(*row));
                let place = self.innermost().place;
                let test = format!("!tw_row(&region, &{row}, &{operand}, {place})");
                self.leave_if(test, Fault::TooLittleMemory);
            }
            PlanAction::Push(number, row) => {
                let (row, Loop { rows, count, .. }) = (self.value(*row), self.innermost());
                self.line(format!("if ({count} == 0) {rows}[{number}] = {row};"));
                self.checked(format!("tw_push(&region, &{rows}[{number}], &{row})"));
            }
            PlanAction::Stack(number, value) => self.stack(*number, *value),
            PlanAction::List(operation, operands, result) => {
                self.list(*operation, operands, *result);
            }
        }
        Ok(())
    }

    // --- values and symbols ---

    fn test(&mut self, condition: &PlanCondition<'_>) -> String {
        match condition {
            PlanCondition::OutOfRange(symbol, range) => {
                let name = self.symbol(*symbol);
                let mut wrong = Vec::new();
                if range.min != i64::MIN {
                    wrong.push(format!("{name} < {}", integer(range.min, false)));
                }
                if range.max != i64::MAX {
                    wrong.push(format!("{name} > {}", integer(range.max, false)));
                }
                wrong.join(" || ")
            }
            PlanCondition::Broken(Assumption::Equal(a, b)) => {
                format!("{} != {}", self.expression(a), self.expression(b))
            }
            PlanCondition::Broken(Assumption::Broadcastable(a, b)) => {
                let (a, b) = (self.expression(a), self.expression(b));
                format!("{a} != {b} && {a} != 1 && {b} != 1")
            }
            PlanCondition::Broken(Assumption::Divisible(_, 0)) => "1".to_owned(),
            PlanCondition::Broken(Assumption::Divisible(a, by)) => {
                format!("({}) % {by} != 0", self.expression(a))
            }
            PlanCondition::Above(least, most) => {
                format!("{} > {}", self.expression(least), self.expression(most))
            }
            PlanCondition::OtherRank(value, axes) => {
                format!("{}.axes != {axes}", self.value(*value))
            }
            PlanCondition::OtherExtent(value, axis, extent) => {
                format!("{}.extents[{axis}] != {}", self.value(*value), self.expression(extent))
            }
        }
    }

    fn place(&self, place: PlanPlace) -> String {
        match place {
            PlanPlace::Value(value) => self.value(value),
            PlanPlace::Carried(number) => format!("{}[{number}]", self.innermost().carried),
            PlanPlace::Output(number) => format!("out[{number}]"),
        }
    }

    fn tensor(&self, value: ValueId) -> (DType, usize) {
        self.function.ty(value).as_tensor().map_or((DType::U8, 0), |ty| (ty.dtype, ty.shape.len()))
    }

    fn shape(&mut self, value: ValueId) {
        let (function, name) = (self.function, self.value(value));
        for (axis, extent) in function.ty(value).exprs().iter().enumerate() {
            let text = self.expression(extent);
            self.line(format!("{name}.extents[{axis}] = {text};"));
        }
    }

    fn make(&mut self, value: ValueId) {
        let (name, (dtype, rank)) = (self.value(value), self.tensor(value));
        let test = format!("tw_make(&region, &{name}, {}, {rank}) == NULL", dtype.bits());
        self.leave_if(test, Fault::TooLittleMemory);
    }

    fn call(
        &mut self,
        called: FunctionId,
        operands: &[ValueId],
        results: &[ValueId],
    ) -> base::Result<()> {
        // That no called segment is missing the actions have been checked for.
        let segment = &self.segments[&called];
        let arena = self.expression(&segment.arena);
        if segment.arena.as_constant().is_none() {
            let estimate = self.estimate(&segment.arena);
            self.leave_if(format!("{estimate} > {MOST_BYTES}"), Fault::TooLittleMemory);
        }
        let list = |values: &[ValueId], memory: &dyn Fn(String) -> String| -> String {
            let texts: Vec<String> =
                values.iter().map(|&value| memory(self.value(value))).collect();
            if texts.is_empty() { "NULL".to_owned() } else { texts.join(", ") }
        };
        let operands = &operands[..segment.inputs.min(operands.len())];
        let operands = list(operands, &|name| format!("{name}.data"));
        let results = list(results, &|name| format!("tw_memory(&{name})"));
        let mut arguments =
            ["constants", "scratch", "operands", "results"].map(str::to_owned).to_vec();
        arguments.extend(segment.symbols.iter().map(|(symbol, _)| self.symbol(*symbol)));
        if segment.turns {
            arguments.push("&turns".to_owned());
        }
        let (name, arguments) = (&segment.name, arguments.join(", "));
        self.line("{");
        self.inside(|writer| {
            writer.line(format!("const void *operands[] = {{ {operands} }};"));
            writer.line(format!("void *results[] = {{ {results} }};"));
            writer.line("unsigned char *const low = region.low;");
            writer.line(format!("unsigned char *const scratch = tw_take(&region, {arena});"));
            writer.leave_if("scratch == NULL", Fault::TooLittleMemory);
            writer.checked(format!("{name}({arguments})"));
            writer.line("region.low = low;");
            Ok(())
        })?;
        self.line("}");
        Ok(())
    }

    // --- loops ---

    /// The loop whose actions are being written.
    fn innermost(&self) -> Loop {
        self.loops.last().cloned().unwrap_or_default()
    }

    fn looped(&mut self, looped: &PlanLoop<'_>) -> base::Result<()> {
        let trips = looped.trips.map(|trips| self.expression(trips)).unwrap_or_default();
        let mut name = |word: &str| self.names.fresh(word);
        let (carried, rows, top) = (name("carried"), name("rows"), name("top"));
        let (mark, kept, count) = (name("mark"), name("kept"), name("count"));
        let place = match looped.reverse {
            true => format!("{trips} - 1 - {count}"),
            false => count.clone(),
        };
        let stacks = looped.stacks;
        self.line("{");
        self.inside(|writer| {
            writer.line(format!("tw_value {carried}[{}];", looped.carried.max(1)));
            if stacks > 0 {
                writer.line(format!("tw_value {rows}[{stacks}];"));
                writer.line(format!("unsigned char *const {top} = region.high;"));
            }
            writer.line(format!("unsigned char *const {mark} = region.low;"));
            writer.line(format!("unsigned char *{kept} = {mark};"));
            writer.line(format!("int64_t {count} = 0;"));
            let reverse = looped.reverse;
            let names = Loop { carried, rows, top, kept, count, trips, place, stacks, reverse };
            writer.loops.push(names.clone());
            let Loop { carried, top, kept, count, .. } = names;
            writer.actions(&looped.start)?;
            writer.line("for (;;) {");
            writer.inside(|writer| {
                writer.actions(&looped.turn)?;
                let array = format!("{carried}, {}", looped.carried);
                writer.line(format!("{kept} = tw_keep(&region, {mark}, {array});"));
                writer.line(format!("{count}++;"));
                Ok(())
            })?;
            writer.line("}");
            writer.line(format!("region.low = {kept};"));
            writer.line(format!("(void){carried};"));
            writer.actions(&looped.end)?;
            if stacks > 0 {
                writer.line(format!("region.high = {top};"));
            }
            writer.loops.pop();
            Ok(())
        })?;
        self.line("}");
        Ok(())
    }

    fn stack(&mut self, number: usize, value: ValueId) {
        let (name, rank) = (self.value(value), self.tensor(value).1);
        let Loop { rows, top, count, stacks, reverse, .. } = self.innermost();
        self.line(format!("if ({count} > 0) {{"));
        self.printer.indent();
        self.line(format!("{name}.extents[0] = {count};"));
        for axis in 1..rank {
            let from = format!("{rows}[{number}].extents[{}]", axis - 1);
            self.line(format!("{name}.extents[{axis}] = {from};"));
        }
        self.printer.dedent();
        self.line("} else {");
        self.printer.indent();
        self.shape(value);
        self.printer.dedent();
        self.line("}");
        self.make(value);
        let reverse = i32::from(reverse);
        let arguments = format!("{rows}, {stacks}, {number}, {count}, {reverse}");
        self.line(format!("tw_stack(&{name}, {top}, {arguments});"));
    }

    // --- lists ---

    fn list(&mut self, operation: ListOperation, operands: &[ValueId], result: ValueId) {
        let name = self.value(result);
        // Behind what makes a list of values come a list and what is done with it.
        let list = operands.first().map(|&list| self.value(list)).unwrap_or_default();
        let count = format!("{list}.extents[0]");
        let place = |operand: usize, end: &str, otherwise: String| match operands.get(operand) {
            Some(&place) => format!("tw_place(&{list}, &{}, {end})", self.value(place)),
            None => otherwise,
        };
        match operation {
            ListOperation::Sequence | ListOperation::Optional => self.list_of(&name, operands),
            ListOperation::Length => {
                self.make(result);
                self.line(format!("*(int64_t *)tw_memory(&{name}) = {count};"));
            }
            ListOperation::HasElement => {
                self.make(result);
                self.line(format!("*(unsigned char *)tw_memory(&{name}) = {count} > 0;"));
            }
            ListOperation::Insert => {
                let place = place(2, &format!("{count} + 1"), count.clone());
                let value = self.value(operands[1]);
                self.checked(format!("tw_insert(&region, &{name}, &{list}, &{value}, {place})"));
            }
            ListOperation::Erase => {
                let place = place(1, &count, format!("{count} - 1"));
                self.checked(format!("tw_erase(&region, &{name}, &{list}, {place})"));
            }
            ListOperation::At | ListOperation::Element => {
                let place = place(1, &count, format!("{count} - 1"));
                self.checked(format!("tw_at(&{name}, &{list}, {place})"));
            }
            ListOperation::Concat { axis, is_new } => {
                let (bits, is_new) = (self.tensor(result).0.bits(), i32::from(is_new));
                let how = format!("{axis}, {is_new}, {bits}");
                self.checked(format!("tw_join(&region, &{name}, &{list}, {how})"));
            }
        }
    }

    /// A list of values.
    fn list_of(&mut self, name: &str, values: &[ValueId]) {
        let count = values.len();
        self.line("{");
        self.printer.indent();
        self.line(format!("tw_value *const held = tw_list(&region, &{name}, {count});"));
        self.leave_if("held == NULL", Fault::TooLittleMemory);
        for (number, &value) in values.iter().enumerate() {
            self.line(format!("held[{number}] = {};", self.value(value)));
        }
        self.printer.dedent();
        self.line("}");
    }
}
