//! What stands between the programs of a plan: calls of them, branches, loops, symbols.
//!
//! A value is a `tw_value`: where its elements lie, how many bytes they take, its extents. A list
//! is a vector of such values: a sequence, or an optional value, which holds one or none. What it
//! holds is not copied, and nothing changes a list that is there.
//!
//! Memory is divided from both ends while the plan runs: values are made from below, the rows that
//! loops stack from above. What a turn of a loop makes is given back at its end, but for what the
//! loop carries and what that holds, which moves down to where the turn began. Symbols are
//! variables, checked as soon as they have values.

mod lists;
mod loops;

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
use crate::names::{Names, identifier, mentions};
use crate::text::{Arguments, FreeExtent};
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
    let axes = function.values.values().map(|value| lists::most_axes(&value.ty));
    let axes = axes.max().unwrap_or(0).max(1);
    writer.printer.indent();
    writer.head(&arguments, &interface.inputs)?;
    writer.nodes(function.body)?;
    for (number, &value) in function.results().iter().enumerate() {
        let name = writer.value(value);
        writer.line(format!("out[{number}] = {name};"));
    }
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

    /// The element of a scalar.
    fn element(&self, value: ValueId, ty: &str) -> String {
        format!("*(const {ty} *){}.data", self.value(value))
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
            is_place: false,
            marks: false,
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
                .remedy("export the model without such values, or run it in process")
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
        let test = format!("tw_make(&region, &{name}, {bits}, {rank}) == NULL");
        self.line(format!("if ({test}) return {fault};"));
    }

    /// Symbols of the inputs' shapes, and the inputs as values.
    fn head(&mut self, arguments: &Arguments, inputs: &[CPort]) -> base::Result<()> {
        self.line("tw_region region;");
        self.line("region.low = (unsigned char *)memory;");
        self.line("region.high = region.low + size;");
        let free: Vec<SymbolId> = arguments.free.iter().map(|free| free.symbol).collect();
        self.check_symbols(&free);
        let fault = Fault::SizeOutOfRange.code();
        let parameters = self.function.parameters();
        for (number, (&value, port)) in parameters.iter().zip(inputs).enumerate() {
            let name = self.value(value);
            if self.function.ty(value).as_tensor().is_none() {
                self.given_list(number, value, port)?;
                continue;
            }
            let (dtype, rank) = self.set_extents(value)?;
            let bits = dtype.bits();
            self.line(format!("{name}.data = in[{number}];"));
            self.line(format!("{name}.axes = {rank};"));
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
                let (name, bound) =
                    (self.symbol(*symbol), self.element(node.operands[0], "int64_t"));
                self.line(format!("{result} = {operand};"));
                self.line(format!("{name} = {bound};"));
                self.check_symbols(&[*symbol]);
                Ok(())
            }
            Op::If { .. } => self.branch(id),
            Op::While { .. } | Op::Scan { .. } => self.looped(id),
            Op::List { operation, .. } => self.list(*operation, id),
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
        let list = |values: &[ValueId], memory: &dyn Fn(String) -> String| -> String {
            let texts: Vec<String> =
                values.iter().map(|&value| memory(self.value(value))).collect();
            if texts.is_empty() { "NULL".to_owned() } else { texts.join(", ") }
        };
        let operands = &node.operands[..segment.inputs.min(node.operands.len())];
        let operands = list(operands, &|name| format!("{name}.data"));
        let results = list(&node.results, &|name| format!("tw_memory(&{name})"));
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
            writer.line("unsigned char *const low = region.low;");
            writer.line(format!("unsigned char *const scratch = tw_take(&region, {arena});"));
            writer.line(format!("if (scratch == NULL) return {fault};"));
            writer.line(format!("fault = {name}({arguments});"));
            writer.line("if (fault != 0) return fault;");
            writer.line("region.low = low;");
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
        let condition = self.element(node.operands[0], "unsigned char");
        self.line(format!("if ({condition} != 0) {{"));
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
}
