//! Kernels as text; `parse` reads it back. For instance:
//!
//! ```text
//! kernel @row(n: shape 0 in 1..=512, %a: read f32[n, 8], %c: write f32[n]) origin [l3, l5] {
//!   %acc: register f32[8]
//!   for i < n parallel {
//!     for j < 8 vector {
//!       %acc[j] = exp(%a[i, j]) * 2.0
//!       %acc[j] max= guard(i < 4, j + 1 < 8 ? %a[i, j + 1] : -inf)
//!     }
//!     let t: f32 = fold(sum, %acc[])
//!     %c[i] += t - cast<f32>(index(i * 2)) / 3.0
//!   }
//! }
//! ```
//!
//! A loop that is an instruction prints as `for e < 2 as dot_bf16_2 { .. }`.
//!
//! Symbols print by name, buffers as `%name`. Buffers that are not parameters stand first in the
//! body, in the order of the arena. A constant is f32, i64 or bool as it stands; any other type is
//! written behind it: `1.5f16`, `-3i32`, `inf f64`. `+ - * /` are the four functions of those
//! names; every other function is applied by name, with its result type in `<>` where operands do
//! not fix it.
//!
//! The terms of an index expression stand in the order in which the text declares their symbols, so
//! print → parse → print is the identity whatever the order of ids.
//!
//! Printing never fails: what a broken kernel names but does not have prints as its bare id.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Display};

use base::Arena;
use base::text::{Printer, Separated};
use sym::{Expr, SymbolId};
use tensor::{DType, Reduction, Scalar, ScalarFunction};

use crate::kernel::{
    Access, Buffer, BufferId, Comparison, Condition, Kernel, LoopKind, ScalarExpr, Scope, Stmt,
    SymbolKind,
};
use crate::substitute::rename;
use crate::visit::walk;

/// The text's lines are broken where they would grow longer than this.
const WIDTH: usize = 100;

/// Statements by their number in a walk over the kernel (outermost first, from 0), with remarks to
/// print below them; those of `None` stand below the kernel's head.
pub(crate) type Remarks = BTreeMap<Option<usize>, Vec<String>>;

impl Display for Kernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut printer = Printer::new();
        print(self, &mut printer);
        f.write_str(&printer.finish())
    }
}

/// Prints a kernel at the printer's present depth.
pub fn print(kernel: &Kernel, printer: &mut Printer) {
    print_with_remarks(kernel, printer, &Remarks::new());
}

/// Prints a kernel with remarks as comments, so that the text still parses.
pub(crate) fn print_with_remarks(kernel: &Kernel, printer: &mut Printer, remarks: &Remarks) {
    let kernel = in_text_order(kernel);
    Listing { kernel: &kernel, printer, remarks, statements: 0, begun: Vec::new() }.kernel();
}

/// The lines of a kernel's text, each with the statement that it is of: its number in a walk over
/// the kernel; none of the kernel's head and its last brace.
pub fn print_lines(kernel: &Kernel) -> Vec<(String, Option<u32>)> {
    let (kernel, remarks) = (in_text_order(kernel), Remarks::new());
    let mut printer = Printer::new();
    let mut listing = Listing {
        kernel: &kernel,
        printer: &mut printer,
        remarks: &remarks,
        statements: 0,
        begun: Vec::new(),
    };
    listing.kernel();
    let begun = listing.begun;
    let text = printer.finish();
    let line = |(number, line): (usize, &str)| {
        let known = begun.partition_point(|(first, _)| *first <= number);
        (line.to_owned(), known.checked_sub(1).and_then(|last| begun[last].1))
    };
    text.lines().enumerate().map(line).collect()
}

/// The kernel with its symbols' ids in the order in which the text declares them. The order of an
/// expression's terms follows that of ids.
fn in_text_order(kernel: &Kernel) -> Cow<'_, Kernel> {
    let is_shape = |id: &SymbolId| matches!(kernel.symbols[*id].kind, SymbolKind::Shape { .. });
    let mut order: Vec<SymbolId> = kernel.symbols.ids().filter(is_shape).collect();
    walk(&kernel.body, &mut |stmt| order.extend(stmt.binds()));
    let mut declared = BTreeSet::new();
    order.retain(|&id| kernel.symbols.get(id).is_some() && declared.insert(id));
    order.extend(kernel.symbols.ids().filter(|id| !declared.contains(id)));
    if order.is_sorted() {
        return Cow::Borrowed(kernel);
    }
    let mut ordered = Kernel { symbols: Arena::new(), ..kernel.clone() };
    let mut names = BTreeMap::new();
    for id in order {
        names.insert(id, ordered.symbols.push(kernel.symbols[id].clone()));
    }
    let name = |symbol: SymbolId| names.get(&symbol).copied().unwrap_or(symbol);
    rename(&mut ordered.body, &name);
    for (_, buffer) in ordered.buffers.iter_mut() {
        let strides = buffer.strides.iter_mut().flatten();
        buffer.shape.iter_mut().chain(strides).for_each(|expr| expr.rename(&name));
    }
    Cow::Owned(ordered)
}

/// A statement of `kernel` as text, blocks included.
pub fn print_statement(kernel: &Kernel, stmt: &Stmt) -> String {
    let (mut printer, remarks) = (Printer::new(), Remarks::new());
    let mut listing = Listing {
        kernel,
        printer: &mut printer,
        remarks: &remarks,
        statements: 0,
        begun: Vec::new(),
    };
    listing.statement(stmt);
    printer.finish()
}

/// A value of `kernel` as text.
pub fn print_value(kernel: &Kernel, value: &ScalarExpr) -> String {
    kernel.value_text(value, 0).to_string()
}

/// An index expression of `kernel` as text.
pub fn print_expression(kernel: &Kernel, expr: &Expr) -> String {
    kernel.expression(expr).to_string()
}

struct Listing<'a> {
    kernel: &'a Kernel,
    printer: &'a mut Printer,
    remarks: &'a Remarks,
    /// Statements printed so far.
    statements: usize,
    /// What the lines from one on, up to the next, are of.
    begun: Vec<(usize, Option<u32>)>,
}

impl Listing<'_> {
    fn kernel(&mut self) {
        let kernel = self.kernel;
        let mut parameters = Vec::new();
        for (_, symbol) in kernel.symbols.iter() {
            if let SymbolKind::Shape { position, range, usual } = &symbol.kind {
                let usual = match *usual == range.usual() {
                    true => String::new(),
                    false => format!(" usual {usual}"),
                };
                parameters.push(format!("{}: shape {position} in {range}{usual}", symbol.name));
            }
        }
        for &id in &kernel.parameters {
            parameters.push(kernel.declaration(id).to_string());
        }
        let origin = match &kernel.origin[..] {
            [] => String::new(),
            locations => format!(" origin [{}]", Separated(", ", locations)),
        };
        let name = &kernel.name;
        let one_line = format!("kernel @{name}({}){origin} {{", parameters.join(", "));
        if one_line.len() <= WIDTH {
            self.printer.line(one_line);
        } else {
            self.printer.line(format_args!("kernel @{name}("));
            self.printer.indent();
            parameters.iter().for_each(|parameter| self.printer.line(format_args!("{parameter},")));
            self.printer.dedent();
            self.printer.line(format_args!("){origin} {{"));
        }
        self.printer.indent();
        self.print_remarks(None);
        for (id, _) in kernel.buffers.iter() {
            if !kernel.parameters.contains(&id) {
                self.printer.line(kernel.declaration(id));
            }
        }
        self.block(&kernel.body);
        self.printer.dedent();
        self.begin(None);
        self.printer.line("}");
    }

    /// The lines that follow are of a statement, or of the kernel.
    fn begin(&mut self, statement: Option<usize>) {
        self.begun.push((self.printer.lines(), statement.map(|number| number as u32)));
    }

    fn print_remarks(&mut self, place: Option<usize>) {
        for remark in self.remarks.get(&place).into_iter().flatten() {
            remark.lines().for_each(|line| self.printer.line(format_args!("// ^ {line}")));
        }
    }

    fn block(&mut self, block: &[Stmt]) {
        block.iter().for_each(|stmt| self.statement(stmt));
    }

    fn statement(&mut self, stmt: &Stmt) {
        let number = self.statements;
        self.statements += 1;
        self.begin(Some(number));
        let kernel = self.kernel;
        match stmt {
            Stmt::For(inner) => {
                let variable = kernel.symbol_name(inner.variable);
                let extent = kernel.expression(&inner.extent);
                let kind = kind_suffix(&inner.kind);
                self.open(number, format_args!("for {variable} < {extent}{kind} {{"), &inner.body);
                self.close(number, "}");
            }
            Stmt::Let { symbol, value } => {
                let ty = kernel.let_type(*symbol);
                let (name, value) = (kernel.symbol_name(*symbol), kernel.value_text(value, 0));
                self.simple(number, format_args!("let {name}: {ty} = {value}"));
            }
            Stmt::Store { buffer, index, value } => {
                let value = kernel.value_text(value, 0);
                let element = kernel.element(*buffer, index);
                self.simple(number, format_args!("{element} = {value}"));
            }
            Stmt::Reduce { buffer, index, reduction, value } => {
                let value = kernel.value_text(value, 0);
                let (element, sign) = (kernel.element(*buffer, index), update_sign(*reduction));
                self.simple(number, format_args!("{element} {sign} {value}"));
            }
            Stmt::Prefetch { buffer, index } => {
                let element = kernel.element(*buffer, index);
                self.simple(number, format_args!("prefetch {element}"));
            }
            Stmt::If { conditions, then, otherwise } => {
                let conditions = kernel.conditions(conditions);
                self.open(number, format_args!("if {conditions} {{"), then);
                if !otherwise.is_empty() {
                    self.close(number, "} else {");
                    self.inside(otherwise);
                }
                self.close(number, "}");
            }
            Stmt::While { setup, condition, body } => {
                self.open(number, "while {", setup);
                let condition = kernel.value_text(condition, 0);
                self.close(number, format_args!("}} holds {condition} {{"));
                self.inside(body);
                self.close(number, "}");
            }
        }
    }

    fn simple(&mut self, number: usize, line: impl Display) {
        self.printer.line(line);
        self.print_remarks(Some(number));
    }

    /// Writes a line that opens a block, the remarks on its statement, and the block.
    fn open(&mut self, number: usize, line: impl Display, block: &[Stmt]) {
        self.printer.line(line);
        self.printer.indent();
        self.print_remarks(Some(number));
        self.block(block);
        self.printer.dedent();
    }

    /// Writes a line that ends a block of a statement.
    fn close(&mut self, number: usize, line: impl Display) {
        self.begin(Some(number));
        self.printer.line(line);
    }

    fn inside(&mut self, block: &[Stmt]) {
        self.printer.indent();
        self.block(block);
        self.printer.dedent();
    }
}

fn kind_suffix(kind: &LoopKind) -> impl Display + '_ {
    fmt::from_fn(move |f| match kind {
        LoopKind::Serial => Ok(()),
        LoopKind::Parallel => f.write_str(" parallel"),
        LoopKind::Vector => f.write_str(" vector"),
        LoopKind::Unroll => f.write_str(" unroll"),
        LoopKind::Instruction(name) => write!(f, " as {name}"),
    })
}

/// How `Stmt::Reduce` is written.
pub(crate) fn update_sign(reduction: Reduction) -> &'static str {
    match reduction {
        Reduction::Sum => "+=",
        Reduction::Product => "*=",
        Reduction::Min => "min=",
        Reduction::Max => "max=",
        Reduction::And => "and=",
        Reduction::Or => "or=",
    }
}

/// How a comparison is written.
pub(crate) fn comparison_sign(comparison: Comparison) -> &'static str {
    match comparison {
        Comparison::Less => "<",
        Comparison::LessEqual => "<=",
        Comparison::Equal => "==",
        Comparison::NotEqual => "!=",
    }
}

/// The word before a buffer's type.
fn scope_word(scope: Scope) -> &'static str {
    match scope {
        Scope::Parameter(Access::Read) => "read",
        Scope::Parameter(Access::Write) => "write",
        Scope::Parameter(Access::Update) => "update",
        Scope::Scratch => "scratch",
        Scope::Register => "register",
    }
}

/// The functions written between their operands, with how strongly they bind.
pub(crate) fn infix(function: ScalarFunction) -> Option<(&'static str, u8)> {
    match function {
        ScalarFunction::Add => Some(("+", 1)),
        ScalarFunction::Sub => Some(("-", 1)),
        ScalarFunction::Mul => Some(("*", 2)),
        ScalarFunction::Div => Some(("/", 2)),
        _ => None,
    }
}

impl Kernel {
    /// The symbol's name, or its id where the kernel has no such symbol.
    pub fn symbol_name(&self, symbol: SymbolId) -> impl Display + '_ {
        fmt::from_fn(move |f| match self.symbols.get(symbol) {
            Some(symbol) => f.write_str(&symbol.name),
            None => write!(f, "{symbol}"),
        })
    }

    /// The buffer's name with its `%`, or its id where the kernel has no such buffer.
    pub fn buffer_name(&self, buffer: BufferId) -> impl Display + '_ {
        fmt::from_fn(move |f| match self.buffers.get(buffer) {
            Some(buffer) => write!(f, "%{}", buffer.name),
            None => write!(f, "%{buffer}"),
        })
    }

    pub(crate) fn expression<'a>(&'a self, expr: &'a Expr) -> impl Display + 'a {
        fmt::from_fn(move |f| expr.display(&|symbol| self.symbol_name(symbol)).fmt(f))
    }

    fn expressions<'a>(&'a self, list: &'a [Expr]) -> impl Display + 'a {
        fmt::from_fn(move |f| {
            let texts: Vec<_> = list.iter().map(|expr| self.expression(expr)).collect();
            write!(f, "[{}]", Separated(", ", &texts))
        })
    }

    pub(crate) fn element<'a>(&'a self, buffer: BufferId, index: &'a [Expr]) -> impl Display + 'a {
        fmt::from_fn(move |f| write!(f, "{}{}", self.buffer_name(buffer), self.expressions(index)))
    }

    pub(crate) fn condition<'a>(&'a self, condition: &'a Condition) -> impl Display + 'a {
        fmt::from_fn(move |f| {
            let (left, right) = (&condition.left, &condition.right);
            let sign = comparison_sign(condition.comparison);
            write!(f, "{} {sign} {}", self.expression(left), self.expression(right))
        })
    }

    fn conditions<'a>(&'a self, conditions: &'a [Condition]) -> impl Display + 'a {
        fmt::from_fn(move |f| {
            let texts: Vec<_> = conditions.iter().map(|each| self.condition(each)).collect();
            Separated(", ", &texts).fmt(f)
        })
    }

    fn declaration(&self, id: BufferId) -> impl Display + '_ {
        fmt::from_fn(move |f| {
            let Some(Buffer { dtype, shape, strides, scope, .. }) = self.buffers.get(id) else {
                return self.buffer_name(id).fmt(f);
            };
            let (name, scope) = (self.buffer_name(id), scope_word(*scope));
            write!(f, "{name}: {scope} {dtype}{}", self.expressions(shape))?;
            if let Some(strides) = strides {
                write!(f, " strides {}", self.expressions(strides))?;
            }
            Ok(())
        })
    }

    fn let_type(&self, symbol: SymbolId) -> impl Display + '_ {
        fmt::from_fn(move |f| match self.symbols.get(symbol).map(|symbol| &symbol.kind) {
            Some(SymbolKind::Value { dtype, range: None }) => dtype.fmt(f),
            Some(SymbolKind::Value { dtype, range: Some(range) }) => {
                write!(f, "{dtype} in {range}")
            }
            Some(SymbolKind::Loop) => f.write_str("loop"),
            Some(SymbolKind::Shape { .. }) => f.write_str("shape"),
            None => f.write_str("unknown"),
        })
    }

    pub(crate) fn value_text<'a>(&'a self, value: &'a ScalarExpr, strength: u8) -> ValueText<'a> {
        ValueText { kernel: self, value, strength }
    }

    /// Whether the type of the result follows from the operands.
    fn follows(&self, function: ScalarFunction, dtype: DType, arguments: &[ScalarExpr]) -> bool {
        let operands: Option<Vec<_>> = arguments.iter().map(|value| value.dtype(self)).collect();
        operands.is_some_and(|operands| function.result_dtype(&operands, None) == Ok(dtype))
    }
}

/// A value, in parentheses if it binds less than `strength`.
pub(crate) struct ValueText<'a> {
    kernel: &'a Kernel,
    value: &'a ScalarExpr,
    strength: u8,
}

impl Display for ValueText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kernel = self.kernel;
        match self.value {
            ScalarExpr::Constant(scalar) => constant(*scalar).fmt(f),
            ScalarExpr::Symbol(symbol) => kernel.symbol_name(*symbol).fmt(f),
            ScalarExpr::Index(expr) => write!(f, "index({})", kernel.expression(expr)),
            ScalarExpr::Load { buffer, index } => kernel.element(*buffer, index).fmt(f),
            ScalarExpr::Apply { function, dtype, arguments } => {
                self.application(f, *function, *dtype, arguments)
            }
            ScalarExpr::Guard { conditions, value, otherwise } => {
                let (conditions, value) =
                    (kernel.conditions(conditions), kernel.value_text(value, 0));
                write!(f, "guard({conditions} ? {value} : {})", kernel.value_text(otherwise, 0))
            }
            ScalarExpr::Fold { reduction, buffer, index } => {
                write!(f, "fold({reduction}, {})", kernel.element(*buffer, index))
            }
        }
    }
}

impl ValueText<'_> {
    fn application(
        &self,
        f: &mut fmt::Formatter<'_>,
        function: ScalarFunction,
        dtype: DType,
        arguments: &[ScalarExpr],
    ) -> fmt::Result {
        let kernel = self.kernel;
        let fixed = kernel.follows(function, dtype, arguments);
        if let (Some((sign, own)), [left, right], true) = (infix(function), arguments, fixed) {
            let (left, right) = (kernel.value_text(left, own), kernel.value_text(right, own + 1));
            return match own < self.strength {
                true => write!(f, "({left} {sign} {right})"),
                false => write!(f, "{left} {sign} {right}"),
            };
        }
        let ty = if fixed { String::new() } else { format!("<{dtype}>") };
        let texts: Vec<_> =
            arguments.iter().map(|argument| kernel.value_text(argument, 0)).collect();
        write!(f, "{function}{ty}({})", Separated(", ", &texts))
    }
}

/// A constant, with its type where that is not what the text stands for by itself.
fn constant(scalar: Scalar) -> impl Display {
    fmt::from_fn(move |f| {
        scalar.fmt(f)?;
        match scalar.dtype() {
            DType::F32 | DType::I64 | DType::Bool => Ok(()),
            // Words need a space before the type, numbers do not.
            dtype if scalar.to_string().ends_with(|c: char| c.is_ascii_alphabetic()) => {
                write!(f, " {dtype}")
            }
            dtype => dtype.fmt(f),
        }
    })
}
