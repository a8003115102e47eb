//! What stands between the programs of a plan: calls of them, branches, loops, symbols.
//!
//! A value is a `tw_value`: where its elements lie, how many bytes they take, its extents. Memory
//! is divided from both ends while the plan runs: values are made from below, the rows that loops
//! stack from above. What a turn of a loop makes is given back at its end, but for what the loop
//! carries, which moves down to where the turn began. Symbols are variables, checked as soon as
//! they have values.

use std::collections::{BTreeMap, BTreeSet};

use base::codes::{INTERNAL_ERROR, UNBOUND_DIMENSION, UNSUPPORTED_TYPE};
use base::text::Printer;
use base::{Diagnostic, Diagnostics, FunctionId, Id};
use graph::{Assumption, Function, NodeId, Op, RegionId, Type, ValueId};
use program::Fault;
use sym::{Atom, Expr, Range, SymbolId};
use tensor::DType;

use crate::helpers::Helpers;
use crate::index::{IndexContext, integer};
use crate::names::{Names, mentions};
use crate::{COptions, CPlan, CSegment, Interface, program::RESERVED};

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
    checks: Vec<(Expr, Expr)>,
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
        let (inputs, checks) = (segment.inputs, segment.checks.clone());
        Called { name, symbols, turns, arena, inputs, checks }
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

/// A free extent of inputs: an argument of the function that runs the plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FreeExtent {
    /// Its name in C.
    pub(crate) name: String,
    pub(crate) symbol: SymbolId,
}

/// A plan as C.
pub(crate) struct Written {
    /// The most axes of a value, at least one.
    pub(crate) axes: usize,
    pub(crate) arguments: Arguments,
    /// What runs it.
    pub(crate) body: String,
}

/// What the caller of a plan sees beyond its ports.
pub(crate) struct Arguments {
    pub(crate) free: Vec<FreeExtent>,
    /// For each input and axis, the number of the free extent that it is.
    pub(crate) inputs: Vec<Vec<Option<usize>>>,
    /// Shapes of inputs, then of outputs, as a reader of the header knows them.
    pub(crate) input_shapes: Vec<String>,
    pub(crate) output_shapes: Vec<String>,
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
    for taken in RESERVED.into_iter().chain(["operands", "results", "scratch"]) {
        names.fresh(taken);
    }
    let symbols = function.symbols.values().map(|symbol| names.fresh(&symbol.name)).collect();
    let values = function.values.ids().map(|value| names.fresh(&format!("v{}", value.index())));
    let values = values.collect();
    let (known, printer, most_turns) = (BTreeSet::new(), Printer::new(), options.most_turns);
    let count = interface.inputs.len();
    let mut writer = PlanWriter {
        function,
        segments,
        names,
        symbols,
        values,
        known,
        helpers,
        printer,
        most_turns,
    };
    let arguments = writer.arguments(count)?;
    let axes = function.values.values().map(|value| value.ty.exprs().len());
    let axes = axes.max().unwrap_or(0).max(1);
    writer.helpers.region(axes);
    writer.printer.indent();
    writer.head(&arguments, count)?;
    writer.nodes(function.body)?;
    for (number, &value) in function.results().iter().enumerate() {
        let name = writer.value(value);
        writer.line(format!("out[{number}].data = {name}.data;"));
        let rank = function.ty(value).exprs().len();
        for axis in 0..rank {
            writer.line(format!("out[{number}].extents[{axis}] = {name}.extents[{axis}];"));
        }
    }
    let code = writer.printer.finish();
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

struct PlanWriter<'a> {
    function: &'a Function,
    segments: &'a BTreeMap<FunctionId, Called>,
    names: Names,
    /// Names.
    symbols: Vec<String>,
    values: Vec<String>,
    /// The symbols that have values at the place at hand.
    known: BTreeSet<SymbolId>,
    helpers: &'a mut Helpers,
    printer: Printer,
    most_turns: u64,
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

    fn symbol(&self, symbol: SymbolId) -> String {
        self.symbols[symbol.index()].clone()
    }

    fn range(&self, symbol: SymbolId) -> Range {
        self.function.symbols[symbol].range
    }

    fn expression(&mut self, expr: &Expr) -> String {
        let context = IndexContext {
            name: &|symbol: SymbolId| self.symbols[symbol.index()].clone(),
            range: &|symbol: SymbolId| self.function.symbols[symbol].range,
        };
        context.text(self.helpers, expr, false)
    }

    // --- symbols ---

    /// The free extents of the inputs.
    fn arguments(&mut self, inputs: usize) -> base::Result<Arguments> {
        let function = self.function;
        let mut free: Vec<FreeExtent> = Vec::new();
        let mut found = Diagnostics::new();
        let (mut of_inputs, mut input_shapes) = (Vec::new(), Vec::new());
        for (&value, port) in
            function.parameters().iter().zip(&function.parameter_names).take(inputs)
        {
            let mut axes = Vec::new();
            for extent in function.ty(value).exprs() {
                let number = match (extent.as_symbol(), extent.as_constant()) {
                    (Some(symbol), _) => {
                        let known = free.iter().position(|free| free.symbol == symbol);
                        Some(known.unwrap_or_else(|| {
                            free.push(FreeExtent { name: self.symbol(symbol), symbol });
                            free.len() - 1
                        }))
                    }
                    (None, Some(_)) => None,
                    (None, None) => {
                        let names = |symbol| function.symbol_name(symbol);
                        let text = extent.display(&names);
                        let message = format!("the extent {text} is no argument of its own");
                        found.push(
                            Diagnostic::error(UNBOUND_DIMENSION, message)
                                .at(format!("input `{port}`"))
                                .because("free extents of C code are the named ones of inputs")
                                .remedy("give the input, or name the dimension otherwise"),
                        );
                        None
                    }
                };
                axes.push(number);
            }
            of_inputs.push(axes);
            input_shapes.push(self.shape_text(value));
        }
        found.or_ok(())?;
        let output_shapes =
            function.results().iter().map(|&value| self.shape_text(value)).collect();
        Ok(Arguments { free, inputs: of_inputs, input_shapes, output_shapes })
    }

    fn shape_text(&mut self, value: ValueId) -> String {
        let extents: Vec<Expr> = self.function.ty(value).exprs().to_vec();
        let texts: Vec<String> = extents
            .iter()
            .map(|extent| format!("{}", extent.display(&|symbol| self.symbol(symbol))))
            .collect();
        texts.join(", ")
    }

    /// Checks symbols that have got values, then what is assumed of them.
    fn check_symbols(&mut self, symbols: &[SymbolId]) {
        let fault = Fault::SizeOutOfRange.code();
        for &symbol in symbols {
            let (name, range) = (self.symbol(symbol), self.range(symbol));
            let mut wrong = Vec::new();
            if range.min != i64::MIN {
                wrong.push(format!("{name} < {}", integer(range.min, false)));
            }
            if range.max != i64::MAX {
                wrong.push(format!("{name} > {}", integer(range.max, false)));
            }
            if !wrong.is_empty() {
                self.line(format!("if ({}) return {fault};", wrong.join(" || ")));
            }
        }
        self.known.extend(symbols);
        let function = self.function;
        for assumption in &function.assumptions {
            let used: Vec<SymbolId> =
                assumption.exprs().into_iter().flat_map(Expr::symbols).collect();
            let is_new = used.iter().any(|symbol| symbols.contains(symbol));
            if !is_new || !used.iter().all(|symbol| self.known.contains(symbol)) {
                continue;
            }
            let test = match assumption {
                Assumption::Equal(a, b) => {
                    format!("{} != {}", self.expression(a), self.expression(b))
                }
                Assumption::Broadcastable(a, b) => {
                    let (a, b) = (self.expression(a), self.expression(b));
                    format!("{a} != {b} && {a} != 1 && {b} != 1")
                }
                Assumption::Divisible(a, by) => match by {
                    0 => "1".to_owned(),
                    by => format!("({}) % {by} != 0", self.expression(a)),
                },
            };
            self.line(format!("if ({test}) return {fault};"));
        }
    }

    /// Sets the symbols that a node defines as extents of these values.
    fn bind_extents(&mut self, node: NodeId, values: &[ValueId]) {
        let function = self.function;
        let defined = function.symbols_defined_by(node);
        let mut bound = Vec::new();
        for &value in values {
            for (axis, extent) in function.ty(value).exprs().iter().enumerate() {
                let Some(symbol) = extent.as_symbol().filter(|it| defined.contains(it)) else {
                    continue;
                };
                let (symbol_name, name) = (self.symbol(symbol), self.value(value));
                self.line(format!("{symbol_name} = {name}.extents[{axis}];"));
                bound.push(symbol);
            }
        }
        self.check_symbols(&bound);
    }

    // --- values ---

    fn dtype(&self, value: ValueId) -> DType {
        self.function.ty(value).as_tensor().map_or(DType::U8, |ty| ty.dtype)
    }

    fn tensor(&self, value: ValueId) -> base::Result<(DType, Vec<Expr>)> {
        match self.function.ty(value) {
            Type::Tensor(ty) if ty.dtype != DType::String => Ok((ty.dtype, ty.shape.to_vec())),
            _ => Err(Diagnostic::error(UNSUPPORTED_TYPE, format!("{value} is no numeric tensor"))
                .at("the plan of the model")
                .because("what is computed from strings, sequences and optional values is no C")
                .remedy("export the model without such values, or `run` it")
                .into()),
        }
    }

    /// Sets the extents of a value as its type says.
    fn set_extents(&mut self, value: ValueId) -> base::Result<(DType, usize)> {
        let (dtype, shape) = self.tensor(value)?;
        let name = self.value(value);
        for (axis, extent) in shape.iter().enumerate() {
            let text = self.expression(extent);
            self.line(format!("{name}.extents[{axis}] = {text};"));
        }
        Ok((dtype, shape.len()))
    }

    /// Makes memory for a value whose extents are set.
    fn make(&mut self, name: &str, dtype: DType, rank: usize) {
        let (bits, fault) = (dtype.bits(), Fault::TooLittleMemory.code());
        self.line(format!("if (!tw_make(&region, &{name}, {bits}, {rank})) return {fault};"));
    }

    /// Symbols of the inputs' shapes, and the inputs as values.
    fn head(&mut self, arguments: &Arguments, inputs: usize) -> base::Result<()> {
        self.line("tw_region region;");
        self.line("region.low = (unsigned char *)memory;");
        self.line("region.high = region.low + size;");
        let free: Vec<SymbolId> = arguments.free.iter().map(|free| free.symbol).collect();
        self.check_symbols(&free);
        let fault = Fault::SizeOutOfRange.code();
        for (number, &value) in self.function.parameters().iter().take(inputs).enumerate() {
            let (dtype, rank) = self.set_extents(value)?;
            let (name, bits) = (self.value(value), dtype.bits());
            // What is only read is held as what may be written; nothing writes it.
            self.line(format!("{name}.data = (unsigned char *)(uintptr_t)in[{number}];"));
            self.line(format!("{name}.bytes = tw_bytes({bits}, {rank}, {name}.extents);"));
            self.line(format!("if ({name}.bytes < 0) return {fault};"));
        }
        Ok(())
    }

    // --- nodes ---

    fn nodes(&mut self, region: RegionId) -> base::Result<()> {
        let function = self.function;
        function.regions[region].nodes.iter().try_for_each(|&node| self.node(node))
    }

    fn node(&mut self, id: NodeId) -> base::Result<()> {
        let function = self.function;
        let node = &function.nodes[id];
        match &node.op {
            Op::Call { function: called, .. } => self.call(*called, id),
            Op::Bind { symbol, .. } => {
                let (operand, result) = (self.value(node.operands[0]), self.value(node.results[0]));
                let name = self.symbol(*symbol);
                self.line(format!("{result} = {operand};"));
                self.line(format!("{name} = *(const int64_t *){operand}.data;"));
                self.check_symbols(&[*symbol]);
                Ok(())
            }
            Op::If { .. } => self.branch(id),
            Op::While { .. } | Op::Scan { .. } => self.looped(id),
            op => {
                let message = format!("`{}` stands in a plan", op.name());
                Err(Diagnostic::error(INTERNAL_ERROR, message).at("the plan of the model").into())
            }
        }
    }

    fn call(&mut self, called: FunctionId, id: NodeId) -> base::Result<()> {
        let segments = self.segments;
        let missing =
            || Diagnostics::internal(format!("the plan calls {called}, which is missing"));
        let segment = segments.get(&called).ok_or_else(missing)?;
        let node = &self.function.nodes[id];
        for (least, most) in &segment.checks {
            let (least, most) = (self.expression(least), self.expression(most));
            let fault = Fault::SizeOutOfRange.code();
            self.line(format!("if ({least} > {most}) return {fault};"));
        }
        for &result in &node.results {
            let (dtype, rank) = self.set_extents(result)?;
            let name = self.value(result);
            self.make(&name, dtype, rank);
        }
        let (arena, fault) = (self.expression(&segment.arena), Fault::TooLittleMemory.code());
        if segment.arena.as_constant().is_none() {
            let estimate = self.estimate(&segment.arena);
            self.line(format!("if ({estimate} > {MOST_BYTES}) return {fault};"));
        }
        let list = |writer: &Self, values: &[ValueId]| -> String {
            let texts = values.iter().map(|&value| format!("{}.data", writer.value(value)));
            let texts: Vec<String> = texts.collect();
            if texts.is_empty() { "NULL".to_owned() } else { texts.join(", ") }
        };
        let operands = list(self, &node.operands[..segment.inputs.min(node.operands.len())]);
        let results = list(self, &node.results);
        let mut arguments = vec!["constants", "scratch", "operands", "results"]
            .into_iter()
            .map(str::to_owned)
            .collect::<Vec<_>>();
        arguments.extend(segment.symbols.iter().map(|(symbol, _)| self.symbol(*symbol)));
        if segment.turns {
            arguments.push("&turns".to_owned());
        }
        let (name, arguments) = (&segment.name, arguments.join(", "));
        self.line("{");
        self.inside(|writer| {
            writer.line(format!("const void *operands[] = {{ {operands} }};"));
            writer.line(format!("void *results[] = {{ {results} }};"));
            writer.line(format!("unsigned char *scratch = tw_take(&region, {arena});"));
            writer.line(format!("if (scratch == NULL) return {fault};"));
            writer.line(format!("fault = {name}({arguments});"));
            writer.line("if (fault != 0) return fault;");
            writer.line("region.low = scratch;");
            Ok(())
        })?;
        self.line("}");
        Ok(())
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

    /// Copies what regions give to what the node gives.
    fn assign(&mut self, to: &[ValueId], from: &[ValueId]) {
        for (&to, &from) in to.iter().zip(from) {
            let (to, from) = (self.value(to), self.value(from));
            self.line(format!("{to} = {from};"));
        }
    }

    fn branch(&mut self, id: NodeId) -> base::Result<()> {
        let function = self.function;
        let node = &function.nodes[id];
        let condition = self.value(node.operands[0]);
        self.line(format!("if (*{condition}.data != 0) {{"));
        let before = self.known.clone();
        for (number, &region) in node.regions.iter().enumerate() {
            if number > 0 {
                self.line("} else {");
            }
            self.inside(|writer| {
                writer.nodes(region)?;
                writer.assign(&node.results, &function.regions[region].results);
                Ok(())
            })?;
            self.known.clone_from(&before);
        }
        self.line("}");
        self.bind_extents(id, &node.results);
        Ok(())
    }

    /// A loop: the values that it carries are an array, which every turn reads and sets.
    fn looped(&mut self, id: NodeId) -> base::Result<()> {
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
                .remedy("`run` the model, or widen the elements before the loop")
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
                let keep = writer.helpers.keep();
                writer.line(format!("{kept} = {keep}(&region, {mark}, {array}, {carried});"));
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
        let condition = self.value(function.regions[region].results[0]);
        self.line(format!("if (*{condition}.data == 0) break;"));
        self.line(format!("region.low = {};", names.kept));
        Ok(())
    }

    /// The number of a turn, and the rows that it reads.
    fn slices(&mut self, id: NodeId, carried: usize, count: &str, place: &str) -> base::Result<()> {
        let function = self.function;
        let parameters = &function.regions[function.nodes[id].regions[0]].parameters;
        let turn = self.value(parameters[0]);
        self.make(&turn, DType::I64, 0);
        self.line(format!("*(int64_t *){turn}.data = {count};"));
        let fault = Fault::TooLittleMemory.code();
        let operands = &function.nodes[id].operands[carried..];
        for (&operand, &row) in operands.iter().zip(&parameters[1 + carried..]) {
            let rank = function.ty(operand).exprs().len();
            let (operand, row) = (self.value(operand), self.value(row));
            let row_of = self.helpers.row();
            let arguments = format!("&region, &{row}, &{operand}, {place}, {rank}");
            self.line(format!("if (!{row_of}({arguments})) return {fault};"));
        }
        Ok(())
    }

    /// Keeps a row of a stack; all rows of one have the same shape.
    fn push_row(&mut self, number: usize, row: ValueId, Loop { rows, count, .. }: &Loop) {
        let rank = self.function.ty(row).exprs().len();
        let row = self.value(row);
        let push = self.helpers.push();
        self.line(format!("if ({count} == 0) {rows}[{number}] = {row};"));
        self.line(format!("fault = {push}(&region, &{rows}[{number}], &{row}, {rank});"));
        self.line("if (fault != 0) return fault;");
    }

    /// Puts the rows together.
    fn stacks(&mut self, stacks: &[ValueId], reverse: bool, names: &Loop) -> base::Result<()> {
        if stacks.is_empty() {
            return Ok(());
        }
        let stack = self.helpers.stack();
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
            self.line(format!("{stack}({name}.data, {top}, {arguments});"));
        }
        self.line(format!("region.high = {top};"));
        Ok(())
    }
}
