//! One kernel as a function of C.
//!
//! Every loop, whatever its kind, becomes a plain loop that counts up: a C compiler finds vectors
//! by itself. For cores on which it does not, loops that are to be written out are, short vectors
//! among them, and those that are instructions become calls of what stands for these. Buffers that
//! the kernel owns are local arrays, or lie in scratch memory where they are large. Parameters
//! that no other argument of the kernel's runs overlaps are `restrict`.

use std::collections::{BTreeMap, BTreeSet};

use backend::{Isa, Tuple};
use base::text::Printer;
use base::{Id, Locations};
use loops::substitute::substitute;
use loops::visit;
use loops::{
    Access, BufferId, Kernel, Loop, LoopKind, Ranges, ScalarExpr, Scope, Stmt, SymbolKind,
};
use sym::{Expr, Range, SymbolId};
use tensor::{DType, Reduction, ScalarFunction};

use crate::code::{Code, Strength};
use crate::dtype::{storage_type, value_type};
use crate::helpers::Helpers;
use crate::index::integer;
use crate::names::{Names, comment, mentions};
use crate::overlap::ParameterPlaces;
use crate::scalar::apply;
use crate::value::ValueContext;
use crate::vector::{self, VectorContext};
use crate::words::{WORD, WordContext};

/// Buffers of more bytes than this lie in scratch memory, not on the stack.
const LOCAL_BYTES: i64 = 4096;

/// Vectors of at most this many elements are written out where loops are.
const SHORT_VECTOR: i64 = 16;

/// Pieces of scratch memory begin at multiples of this many bytes.
const ALIGNMENT: i64 = 64;

/// A kernel as C.
#[derive(Clone, Debug)]
pub(crate) struct KernelCode {
    /// The function's name.
    pub(crate) name: String,
    /// Its definition; nothing where it is a function that stands with another kernel.
    pub(crate) text: String,
    /// Whether it returns a fault code, or nothing.
    pub(crate) returns_fault: bool,
    /// Positions in the program's symbols of the values that it takes behind its buffers.
    pub(crate) symbols: Vec<u32>,
    /// Bytes of scratch memory that it takes behind those, if any, over the program's symbols.
    pub(crate) scratch_bytes: Expr,
    /// What it takes behind all else: constants in which the kernels differ that it stands for.
    pub(crate) constants: Vec<u64>,
}

/// A parameter of a function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Parameter {
    /// Its type, and a space where it needs one in front of a name.
    pub(crate) ty: String,
    pub(crate) name: String,
    /// Whether no other argument overlaps it.
    pub(crate) is_unshared: bool,
}

impl Parameter {
    fn value(ty: &str, name: String) -> Parameter {
        Parameter { ty: format!("{ty} "), name, is_unshared: false }
    }

    /// As it is declared.
    pub(crate) fn text(&self) -> String {
        let restrict = if self.is_unshared { "restrict " } else { "" };
        format!("{}{restrict}{}", self.ty, self.name)
    }
}

/// A kernel as a function whose constants are marked (`alike`).
#[derive(Clone, Debug)]
pub(crate) struct KernelText {
    /// The function's name.
    pub(crate) name: String,
    /// What it computes, for a comment.
    pub(crate) headline: String,
    pub(crate) parameters: Vec<Parameter>,
    /// The inside of the function.
    pub(crate) body: String,
    /// As in [`KernelCode`].
    pub(crate) returns_fault: bool,
    /// As in [`KernelCode`].
    pub(crate) symbols: Vec<u32>,
    /// As in [`KernelCode`].
    pub(crate) scratch_bytes: Expr,
}

/// Bytes of the local arrays of a kernel's function, where all of its extents are known.
#[must_use]
pub fn local_bytes(kernel: &Kernel) -> u64 {
    let (reads, writes) = visit::touched(&kernel.body);
    let own = kernel.buffers.iter().filter(|(id, buffer)| {
        let is_touched = reads.contains(id) || writes.contains(id);
        is_touched && !matches!(buffer.scope, Scope::Parameter(_))
    });
    let bytes = own.map(|(_, buffer)| loops::byte_size(buffer.dtype, &buffer.shape).as_constant());
    let local = bytes.flatten().filter(|bytes| *bytes <= LOCAL_BYTES);
    local.map(i64::unsigned_abs).sum()
}

/// Writes a kernel. `name` is an identifier; `places` says what is known of where its arguments
/// lie; `isa` says which instructions a C compiler is to be told of, `is_short` whether loops are
/// written out only where elements are in registers for it.
pub(crate) fn write(
    kernel: &Kernel,
    locations: &Locations,
    name: String,
    places: &ParameterPlaces,
    (isa, is_short): (Isa, bool),
    helpers: &mut Helpers,
) -> KernelText {
    let mut names = Names::default();
    let scratch = names.fresh("scratch");
    let buffers = kernel.buffers.values().map(|buffer| names.fresh(&buffer.name)).collect();
    let symbols = kernel.symbols.values().map(|symbol| names.fresh(&symbol.name)).collect();
    let mut writer = Writer {
        kernel,
        buffers,
        symbols,
        used: BTreeSet::new(),
        ranges: Ranges::new(kernel),
        isa,
        is_short,
        places,
        single_sums: single_sums(kernel),
        lanes: None,
        helpers,
        printer: Printer::new(),
        scratch_bytes: Expr::ZERO,
    };
    writer.used = writer.used_symbols();
    writer.function(locations, name, &scratch)
}

/// The range that a kernel checks of a symbol when it is bound, if it checks any.
fn checked_range(kernel: &Kernel, symbol: SymbolId) -> Option<Range> {
    match kernel.symbols[symbol].kind {
        SymbolKind::Value { range, .. } => range.filter(|range| *range != Range::ALL),
        SymbolKind::Shape { .. } | SymbolKind::Loop => None,
    }
}

/// Whether a run of a kernel may end in a fault: it binds a value of a range.
#[must_use]
pub fn can_fault(kernel: &Kernel) -> bool {
    let mut found = false;
    visit::walk(&kernel.body, &mut |stmt| {
        found |= matches!(stmt, Stmt::Let { symbol, .. }
            if checked_range(kernel, *symbol).is_some());
    });
    found
}

/// The buffers to which loops add that are marked as instructions.
fn single_sums(kernel: &Kernel) -> BTreeSet<BufferId> {
    let mut found = BTreeSet::new();
    visit::walk(&kernel.body, &mut |stmt| {
        if let Stmt::For(inner) = stmt
            && matches!(inner.kind, LoopKind::Instruction(_))
        {
            found.extend(visit::touched(&inner.body).1);
        }
    });
    found
}

struct Writer<'a> {
    kernel: &'a Kernel,
    /// Names of the buffers.
    buffers: Vec<String>,
    /// Names of the symbols.
    symbols: Vec<String>,
    /// Symbols that something reads.
    used: BTreeSet<SymbolId>,
    /// What is known at the present place.
    ranges: Ranges,
    isa: Isa,
    /// Whether loops are written out only where elements are in registers for it.
    is_short: bool,
    /// Where the arguments lie.
    places: &'a ParameterPlaces,
    /// Buffers that instructions add to.
    single_sums: BTreeSet<BufferId>,
    /// The variable of the vector loop around the present place, where it is a loop of C, too.
    lanes: Option<SymbolId>,
    helpers: &'a mut Helpers,
    printer: Printer,
    scratch_bytes: Expr,
}

impl Writer<'_> {
    fn function(mut self, locations: &Locations, name: String, scratch: &str) -> KernelText {
        let kernel = self.kernel;
        let returns_fault = can_fault(self.kernel);
        self.printer.indent();
        self.own_buffers(scratch);
        self.block(&kernel.body);
        if returns_fault {
            self.printer.line("return 0;");
        }
        let body = std::mem::take(&mut self.printer).finish();
        for id in &kernel.parameters {
            self.unused(&body, &self.buffers[id.index()].clone());
        }
        let mut parameters: Vec<Parameter> =
            kernel.parameters.iter().map(|id| self.parameter(*id)).collect();
        let mut symbols = Vec::new();
        for (id, symbol) in kernel.symbols.iter() {
            if let SymbolKind::Shape { position, .. } = symbol.kind {
                symbols.push(position);
                let name = self.symbols[id.index()].clone();
                self.unused(&body, &name);
                parameters.push(Parameter::value("int64_t", name));
            }
        }
        if !self.scratch_bytes.is_zero() {
            parameters.push(Parameter {
                ty: "unsigned char *".to_owned(),
                ..Parameter::value("", scratch.to_owned())
            });
        }
        let unused = std::mem::take(&mut self.printer).finish();
        KernelText {
            headline: comment(&self.headline(locations)),
            name,
            parameters,
            body: unused + &body,
            returns_fault,
            symbols,
            scratch_bytes: self.scratch_bytes.substitute(
                &mut |symbol| match kernel.symbols[symbol].kind {
                    SymbolKind::Shape { position, .. } => {
                        Some(Expr::symbol(SymbolId::new(position as usize)))
                    }
                    SymbolKind::Value { .. } | SymbolKind::Loop => None,
                },
            ),
        }
    }

    /// Says that a parameter is of no use, as one is that a sum of nothing was made of.
    fn unused(&mut self, body: &str, name: &str) {
        if !mentions(body, name) {
            self.printer.indent();
            self.printer.line(format_args!("(void){name};"));
            self.printer.dedent();
        }
    }

    /// The kernel's name and the nodes of the model that it computes.
    fn headline(&self, locations: &Locations) -> String {
        let known = self.kernel.origin.iter().filter(|id| locations.ids().len() > id.index());
        let nodes: Vec<String> = known.map(|id| locations.describe(*id)).collect();
        match nodes.is_empty() {
            true => self.kernel.name.clone(),
            false => format!("{}: {}", self.kernel.name, nodes.join(", ")),
        }
    }

    fn parameter(&self, id: BufferId) -> Parameter {
        let buffer = &self.kernel.buffers[id];
        let constant = match buffer.scope {
            Scope::Parameter(Access::Read) => "const ",
            _ => "",
        };
        Parameter {
            ty: format!("{constant}{} *", storage_type(buffer.dtype)),
            name: self.buffers[id.index()].clone(),
            is_unshared: self.places.unshared.contains(&id),
        }
    }

    /// Symbols in expressions and values, but for those in the values of `Let`s that nothing reads.
    fn used_symbols(&self) -> BTreeSet<SymbolId> {
        let mut used = BTreeSet::new();
        loop {
            let mut found = BTreeSet::new();
            visit::walk(&self.kernel.body, &mut |stmt| {
                let dead = matches!(stmt, Stmt::Let { symbol, .. }
                    if !used.contains(symbol) && self.checked_range(*symbol).is_none());
                if !dead {
                    found.extend(visit::statement_symbols(stmt));
                }
            });
            if found == used {
                return used;
            }
            used = found;
        }
    }

    /// The range that running a `Let` checks, if there is anything to check.
    fn checked_range(&self, symbol: SymbolId) -> Option<Range> {
        checked_range(self.kernel, symbol)
    }

    fn own_buffers(&mut self, scratch: &str) {
        let (reads, writes) = visit::touched(&self.kernel.body);
        for (id, buffer) in self.kernel.buffers.iter() {
            let is_parameter = matches!(buffer.scope, Scope::Parameter(_));
            if is_parameter || !(reads.contains(&id) || writes.contains(&id)) {
                continue;
            }
            let bytes = loops::byte_size(buffer.dtype, &buffer.shape);
            let most = self.ranges.bounds(&bytes).max;
            let (ty, name) = (storage_type(buffer.dtype), self.buffers[id.index()].clone());
            if most <= LOCAL_BYTES {
                let elements = most.max(1) / i64::from(buffer.dtype.bits().div_ceil(8));
                self.printer.line(format_args!("{ty} {name}[{}];", elements.max(1)));
            } else {
                let offset = self.scratch_bytes.clone();
                let text = self.index(&offset);
                self.printer.line(format_args!("{ty} *{name} = ({ty} *)({scratch} + {text});"));
                let bytes = if bytes.as_constant().is_some() { most.into() } else { bytes };
                self.scratch_bytes = offset + &(bytes.ceil_div(&ALIGNMENT.into()) * ALIGNMENT);
            }
        }
    }

    fn context(&mut self) -> (ValueContext<'_>, &mut Helpers) {
        let context = ValueContext {
            kernel: self.kernel,
            symbols: &self.symbols,
            buffers: &self.buffers,
            ranges: &self.ranges,
        };
        (context, self.helpers)
    }

    fn index(&mut self, expr: &Expr) -> String {
        let (context, helpers) = self.context();
        context.index(helpers, expr, false)
    }

    fn value(&mut self, value: &ScalarExpr) -> Code {
        let (context, helpers) = self.context();
        context.value(helpers, value)
    }

    fn block(&mut self, block: &[Stmt]) {
        block.iter().for_each(|stmt| self.statement(stmt));
    }

    fn inside(&mut self, block: &[Stmt]) {
        self.printer.indent();
        self.block(block);
        self.printer.dedent();
    }

    fn statement(&mut self, stmt: &Stmt) {
        match stmt {
            Stmt::For(inner) => self.count(inner),
            Stmt::Let { symbol, value } => self.bind(*symbol, value),
            Stmt::Store { buffer, index, value } => {
                let value = self.value(value);
                self.store(*buffer, index, &value);
            }
            Stmt::Reduce { buffer, index, reduction, value } => {
                self.reduce(*buffer, index, *reduction, value);
            }
            // C99 has no word for it.
            Stmt::Prefetch { .. } => {}
            Stmt::If { conditions, then, otherwise } => {
                let (context, helpers) = self.context();
                let test = context.conditions(helpers, conditions);
                self.printer.line(format_args!("if ({test}) {{"));
                let outside = self.ranges.clone();
                self.ranges.assume(conditions);
                self.inside(then);
                self.ranges = outside;
                if !otherwise.is_empty() {
                    self.printer.line("} else {");
                    self.inside(otherwise);
                }
                self.printer.line("}");
            }
            Stmt::While { setup, condition, body } => {
                self.printer.line("for (;;) {");
                self.printer.indent();
                self.block(setup);
                let condition = self.value(condition).at(Strength::Primary);
                self.printer.line(format_args!("if (!{condition}) break;"));
                self.block(body);
                self.printer.dedent();
                self.printer.line("}");
            }
        }
    }

    fn count(&mut self, inner: &Loop) {
        if let LoopKind::Instruction(name) = &inner.kind
            && self.instruction(inner, name)
        {
            return;
        }
        if self.isa == Isa::ArmHelium && inner.kind == LoopKind::Vector {
            return match self.vectors(inner) {
                Some(lines) => {
                    self.printer.line("#if defined(TW_HELIUM)");
                    lines.iter().for_each(|line| self.printer.line(line));
                    self.printer.line("#else");
                    self.scalars(inner);
                    self.printer.line("#endif");
                }
                None => self.scalars(inner),
            };
        }
        self.scalars(inner);
    }

    /// A vector loop by intrinsics, if it has such a form.
    fn vectors(&mut self, inner: &Loop) -> Option<Vec<String>> {
        let extent = inner.extent.as_constant().filter(|_| vector::is_suited(inner))?;
        // Sums that instructions add to stay in registers of their own.
        let is_single = |stmt: &Stmt| {
            matches!(stmt, Stmt::Store { buffer, .. } | Stmt::Reduce { buffer, .. }
                if self.single_sums.contains(buffer))
        };
        if inner.body.iter().any(is_single) {
            return None;
        }
        self.helpers.helium();
        let outside = self.ranges.clone();
        self.ranges.enter(inner);
        let kernel = self.kernel;
        let single_sums = &self.single_sums.clone();
        let (scalar, helpers) = self.context();
        let name = scalar.symbols[inner.variable.index()].clone();
        let mut lines = Vec::new();
        let mut at = |first: Option<i64>| {
            let variable = inner.variable;
            let context = VectorContext { scalar: &scalar, kernel, variable, single_sums, first };
            inner
                .body
                .iter()
                .map(|stmt| context.statement(helpers, stmt))
                .collect::<Option<Vec<_>>>()
        };
        let found = match extent <= SHORT_VECTOR {
            true => (0..extent / vector::LANES).try_for_each(|group| {
                lines.extend(at(Some(group * vector::LANES))?);
                Some(())
            }),
            false => at(None).map(|own| {
                let lanes = vector::LANES;
                lines.push(format!(
                    "for (ptrdiff_t {name} = 0; {name} < {extent}; {name} += {lanes}) {{"
                ));
                lines.extend(own.into_iter().map(|line| format!("  {line}")));
                lines.push("}".to_owned());
            }),
        };
        self.ranges = outside;
        found.map(|()| lines)
    }

    /// A loop without vectors.
    fn scalars(&mut self, inner: &Loop) {
        if let Some(turns) = self.written_out(inner) {
            if self.isa == Isa::ArmDsp
                && let Some(lines) = self.words(inner)
            {
                return lines.iter().for_each(|line| self.printer.line(line));
            }
            return self.turns(inner, turns);
        }
        let outer = self.lanes;
        if inner.kind == LoopKind::Vector {
            self.lanes = Some(inner.variable);
        }
        self.counted(inner);
        self.lanes = outer;
    }

    /// A vector loop, or one in loops that are written out, by words, if it has such a form.
    fn words(&mut self, inner: &Loop) -> Option<Vec<String>> {
        let (kernel, isa, places) = (self.kernel, self.isa, self.places);
        let outside = self.ranges.clone();
        self.ranges.enter(inner);
        let (scalar, helpers) = self.context();
        let is_aligned = &|buffer| places.aligned.contains(&buffer);
        let context = WordContext { scalar: &scalar, kernel, isa, is_aligned };
        let lines = context.lines(helpers, inner);
        self.ranges = outside;
        lines
    }

    /// How many turns a loop takes that is to be written out.
    fn written_out(&self, inner: &Loop) -> Option<i64> {
        let most = match (self.isa, &inner.kind) {
            (Isa::ArmDsp | Isa::ArmHelium, LoopKind::Unroll) => i64::MAX,
            (Isa::ArmDsp | Isa::ArmHelium, LoopKind::Vector) => SHORT_VECTOR,
            _ => return None,
        };
        let turns = inner.extent.as_constant().filter(|turns| *turns <= most)?;
        (!self.is_short || self.takes_registers(inner)).then_some(turns)
    }

    /// Whether a loop's turns take different elements of buffers of the kernel's own.
    fn takes_registers(&self, inner: &Loop) -> bool {
        let mut found = false;
        visit::walk_references(&inner.body, &mut |reference| {
            let scope = self.kernel.buffers[reference.buffer].scope;
            let is_own = !matches!(scope, Scope::Parameter(_));
            let varies = |index: &Expr| index.contains(inner.variable);
            found |= is_own && reference.index.iter().any(varies);
        });
        found
    }

    /// The turns of a loop, one behind the other.
    fn turns(&mut self, inner: &Loop, turns: i64) {
        let mut binds = false;
        visit::walk(&inner.body, &mut |stmt| binds |= stmt.binds().is_some());
        let outside = self.ranges.clone();
        for turn in 0..turns {
            let mut body = inner.body.clone();
            substitute(&mut body, &BTreeMap::from([(inner.variable, Expr::constant(turn))]));
            if binds {
                self.printer.line("{");
                self.inside(&body);
                self.printer.line("}");
            } else {
                self.block(&body);
            }
        }
        self.ranges = outside;
    }

    /// Writes a loop as the instruction that it is marked as; whether there is such code.
    fn instruction(&mut self, inner: &Loop, name: &str) -> bool {
        // Where no vector loop is left around it the lane is the only one.
        let lanes = self.lanes.unwrap_or(inner.variable);
        let Some(mut helper) = self.helpers.instruction(name) else { return false };
        let Ok(found) = self.isa.instruction_of(self.kernel, inner, name, Some(lanes)) else {
            return false;
        };
        if !found.operands.iter().all(Tuple::is_plain) {
            return false;
        }
        let places = self.places;
        let (context, helpers) = self.context();
        let is_aligned = |operand: &Tuple| {
            places.aligned.contains(&operand.buffer)
                && context.number(operand.buffer, &operand.index).divisible_by(WORD)
        };
        if found.operands.iter().all(is_aligned)
            && let Some(aligned) = helpers.aligned_instruction(name)
        {
            helper = aligned;
        }
        let (array, number) = context.element(helpers, found.buffer, &found.index);
        let mut arguments = vec![format!("{array}[{number}]")];
        for operand in &found.operands {
            let (array, number) = context.element(helpers, operand.buffer, &operand.index);
            arguments.push(format!("&{array}[{number}]"));
        }
        let line = format!("{} = {helper}({});", arguments[0], arguments.join(", "));
        self.printer.line(line);
        true
    }

    fn counted(&mut self, inner: &Loop) {
        let extent = self.index(&inner.extent);
        let name = self.symbols[inner.variable.index()].clone();
        let remark = match &inner.kind {
            LoopKind::Serial => String::new(),
            LoopKind::Parallel => " /* parallel */".to_owned(),
            LoopKind::Vector => " /* vector */".to_owned(),
            LoopKind::Unroll => " /* unroll */".to_owned(),
            LoopKind::Instruction(name) => format!(" /* {name} */"),
        };
        self.printer.line(format_args!(
            "for (ptrdiff_t {name} = 0; {name} < {extent}; {name}++) {{{remark}"
        ));
        let outside = self.ranges.clone();
        self.ranges.enter(inner);
        self.inside(&inner.body);
        self.ranges = outside;
        self.printer.line("}");
    }

    fn bind(&mut self, symbol: SymbolId, value: &ScalarExpr) {
        let range = self.checked_range(symbol);
        if range.is_none() && !self.used.contains(&symbol) {
            return;
        }
        let SymbolKind::Value { dtype, .. } = self.kernel.symbols[symbol].kind else { return };
        let (ty, name) = (value_type(dtype), self.symbols[symbol.index()].clone());
        let value = self.value(value).text;
        self.printer.line(format_args!("const {ty} {name} = {value};"));
        let Some(range) = range else { return };
        let mut wrong = Vec::new();
        if range.min != i64::MIN {
            wrong.push(format!("{name} < {}", integer(range.min, false)));
        }
        if range.max != i64::MAX {
            wrong.push(format!("{name} > {}", integer(range.max, false)));
        }
        let fault = program::Fault::IndexOutOfRange.code();
        self.printer.line(format_args!("if ({}) return {fault};", wrong.join(" || ")));
    }

    fn store(&mut self, buffer: BufferId, index: &[Expr], value: &Code) {
        let dtype = self.kernel.buffers[buffer].dtype;
        let (context, helpers) = self.context();
        let (array, number) = context.element(helpers, buffer, index);
        let line = helpers.store(dtype, &array, &number, &value.text);
        self.printer.line(line);
    }

    fn reduce(
        &mut self,
        buffer: BufferId,
        index: &[Expr],
        reduction: Reduction,
        value: &ScalarExpr,
    ) {
        let dtype = self.kernel.buffers[buffer].dtype;
        let (context, helpers) = self.context();
        let (array, number) = context.element(helpers, buffer, index);
        let old = Code::primary(helpers.load(dtype, &array, &number));
        let new = match factors(reduction, dtype, value) {
            Some([a, b]) => {
                let [a, b] = [a, b].map(|factor| context.value(helpers, factor));
                match dtype {
                    DType::F32 | DType::F64 => {
                        Code::call(&helpers.multiply_add(dtype), &[a, b, old])
                    }
                    _ => {
                        let function = ScalarFunction::FusedMultiplyAdd;
                        apply(helpers, function, dtype, &[dtype; 3], &[a, b, old])
                    }
                }
            }
            None => {
                let value = context.value(helpers, value);
                apply(helpers, reduction.as_function(), dtype, &[dtype; 2], &[old, value])
            }
        };
        self.store(buffer, index, &new);
    }
}

/// The factors, where sum and product are one operation.
fn factors(reduction: Reduction, dtype: DType, value: &ScalarExpr) -> Option<[&ScalarExpr; 2]> {
    match value {
        ScalarExpr::Apply { function: ScalarFunction::Mul, arguments, .. }
            if reduction == Reduction::Sum && dtype.is_float() =>
        {
            <&[ScalarExpr; 2]>::try_from(&arguments[..]).ok().map(|pair| pair.each_ref())
        }
        _ => None,
    }
}
