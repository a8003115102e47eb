//! A program as the body of a function of C.

use base::codes::{INTERNAL_ERROR, UNBOUND_DIMENSION};
use base::text::Printer;
use base::{ConstantId, Diagnostic, Diagnostics, Id, KernelId};
use loops::{Access, Kernel, Scope};
use module::Module;
use program::{Address, Fault, Move, MoveAxis, Place, Program, Run, Step};
use sym::{Expr, Range, SymbolId};

use crate::code::{Code, Strength};
use crate::dtype::storage_type;
use crate::helpers::Helpers;
use crate::index::{IndexContext, integer};
use crate::kernel::KernelCode;
use crate::names::Names;

/// The names of what the functions declare.
pub(crate) const RESERVED: [&str; 12] = [
    "weights",
    "constants",
    "arena",
    "in",
    "out",
    "fault",
    "file",
    "block",
    "memory",
    "turns",
    "size",
    "region",
];

/// Checks that a program can be written as C: no symbol but those that steps set.
pub(crate) fn check(program: &Program) -> base::Result<()> {
    let mut found = Diagnostics::new();
    let set = program.set_symbols();
    for (_, symbol) in program.symbols.iter().filter(|(id, _)| !set.contains(id)) {
        let name = &symbol.name;
        let message = format!("the dimension `{name}` has no value");
        let diagnostic = Diagnostic::error(UNBOUND_DIMENSION, message)
            .because("C code is written for known sizes")
            .remedy(base::remedies::give_dimension(name));
        found.push(diagnostic);
    }
    found.or_ok(())
}

/// Checks that a program has neither inputs nor outputs.
pub(crate) fn check_setup(program: &Program) -> base::Result<()> {
    let foreign = |place: &Place| matches!(place, Place::Input(_) | Place::Output(_));
    match program.slots.values().find(|slot| foreign(&slot.place)) {
        None => Ok(()),
        Some(slot) => {
            let message = format!("%{} of `setup` is an input or output", slot.name);
            let place = format!("program `{}`", program.name);
            Err(Diagnostic::error(INTERNAL_ERROR, message).at(place).into())
        }
    }
}

/// How a program's memory is called where it runs.
pub(crate) struct Bases<'a> {
    /// A weight.
    pub(crate) weight: &'a dyn Fn(ConstantId) -> (&'static str, u64),
    /// The block of constants, which is not written to unless it is `setup`'s.
    pub(crate) constants: (&'static str, u64),
    /// The arena.
    pub(crate) arena: (&'static str, u64),
    /// Scratch memory.
    pub(crate) scratch: (&'static str, Expr),
    /// The counter of turns.
    pub(crate) turns: &'static str,
}

/// The expression of an address: a pointer to bytes, or to `void` where it is an input or output
/// itself.
struct Pointer {
    code: Code,
    is_void: bool,
}

/// Writes the steps of programs.
pub(crate) struct ProgramWriter<'a> {
    pub(crate) module: &'a Module,
    pub(crate) program: &'a Program,
    pub(crate) kernels: &'a dyn Fn(KernelId) -> &'a KernelCode,
    pub(crate) bases: Bases<'a>,
    pub(crate) helpers: &'a mut Helpers,
    /// Turns of all loops that data end, in one run.
    pub(crate) most_turns: u64,
    /// Names of the symbols.
    symbols: Vec<String>,
}

impl<'a> ProgramWriter<'a> {
    pub(crate) fn new(
        module: &'a Module,
        program: &'a Program,
        kernels: &'a dyn Fn(KernelId) -> &'a KernelCode,
        bases: Bases<'a>,
        helpers: &'a mut Helpers,
        most_turns: u64,
    ) -> ProgramWriter<'a> {
        let mut names = Names::default();
        for taken in RESERVED {
            names.fresh(taken);
        }
        let symbols = program.symbols.values().map(|symbol| names.fresh(&symbol.name)).collect();
        ProgramWriter { module, program, kernels, bases, helpers, most_turns, symbols }
    }

    /// Writes declarations and steps.
    pub(crate) fn body(&mut self, printer: &mut Printer) -> base::Result<()> {
        for symbol in self.program.set_symbols() {
            printer.line(format_args!("int64_t {} = 0;", self.symbols[symbol.index()]));
        }
        let (mut faults, mut turns) = (false, false);
        program::walk(&self.program.steps, &mut |step| {
            faults |= matches!(step, Step::Run(run) if (self.kernels)(run.kernel).returns_fault);
            turns |= matches!(step, Step::While { .. });
        });
        if faults {
            printer.line("int fault;");
        }
        if turns && self.bases.turns == "turns" {
            printer.line("uint64_t turns = 0;");
        }
        self.block(&self.program.steps, printer)
    }

    fn block(&mut self, steps: &[Step], printer: &mut Printer) -> base::Result<()> {
        steps.iter().try_for_each(|step| self.step(step, printer))
    }

    fn inside(&mut self, steps: &[Step], printer: &mut Printer) -> base::Result<()> {
        printer.indent();
        self.block(steps, printer)?;
        printer.dedent();
        Ok(())
    }

    /// The symbols whose values the caller tells, and their names.
    pub(crate) fn free_symbols(&self) -> Vec<(SymbolId, String)> {
        let set = self.program.set_symbols();
        let free = self.program.symbols.ids().filter(|id| !set.contains(id));
        free.map(|id| (id, self.symbols[id.index()].clone())).collect()
    }

    fn step(&mut self, step: &Step, printer: &mut Printer) -> base::Result<()> {
        match step {
            Step::Run(run) => self.run(run, printer)?,
            // Runs come one after the other.
            Step::Barrier => {}
            Step::Bind { symbol, source } => {
                let name = self.symbols[symbol.index()].clone();
                let source = self.address(source)?.code;
                let source = Code::cast("const int64_t *", &source).text;
                printer.line(format_args!("{name} = *{source};"));
                self.check_range(&name, self.program.symbols[*symbol].range, printer);
            }
            Step::Copy { source, destination, bytes } => {
                let (to, from) = (self.address(destination)?.code, self.address(source)?.code);
                let bytes = Code::primary(self.index(bytes));
                let call = Code::call(&self.helpers.copy(), &[to, from, bytes]);
                printer.line(format_args!("{};", call.text));
            }
            Step::Move(moved) => self.moved(moved, printer)?,
            Step::Branch { condition, then, otherwise } => {
                let test = self.boolean(condition)?;
                printer.line(format_args!("if ({test}) {{"));
                self.inside(then, printer)?;
                if !otherwise.is_empty() {
                    printer.line("} else {");
                    self.inside(otherwise, printer)?;
                }
                printer.line("}");
            }
            Step::While { setup, condition, body } => {
                printer.line("for (;;) {");
                printer.indent();
                self.block(setup, printer)?;
                let test = self.boolean(condition)?;
                printer.line(format_args!("if (!({test})) break;"));
                let (most, fault) = (self.most_turns, Fault::TooManyTurns.code());
                let turns = self.bases.turns;
                printer.line(format_args!("if ({turns}++ == {most}u) return {fault};"));
                printer.dedent();
                self.inside(body, printer)?;
                printer.line("}");
            }
            Step::Repeat { symbol, count, body } => {
                let (name, count) = (self.symbols[symbol.index()].clone(), self.index(count));
                printer.line(format_args!("for ({name} = 0; {name} < {count}; {name}++) {{"));
                self.inside(body, printer)?;
                printer.line("}");
            }
        }
        Ok(())
    }

    /// Loops around a copy of one element.
    fn moved(&mut self, moved: &Move, printer: &mut Printer) -> base::Result<()> {
        for (number, MoveAxis { extent, .. }) in moved.axes.iter().enumerate() {
            let test = format!("int64_t m{number} = 0; m{number} < {extent}; ++m{number}");
            printer.line(format_args!("for ({test}) {{"));
            printer.indent();
        }
        let mut place = |start: &Address, ty: &str, stride: fn(&MoveAxis) -> u32| {
            let Pointer { code, is_void } = self.address(start)?;
            let start = if is_void { Code::cast(ty, &code) } else { code };
            let step = |axis| u64::from(stride(axis)) * u64::from(moved.element);
            let steps = moved.axes.iter().enumerate().filter(|(_, axis)| stride(axis) > 0);
            let terms = steps.map(|(number, axis)| format!(" + {} * m{number}", step(axis)));
            let text = start.at(Strength::Sum) + &terms.collect::<String>();
            Ok::<Code, Diagnostics>(Code::new(text, Strength::Sum))
        };
        let to = place(&moved.destination, "unsigned char *", |axis| axis.to)?;
        let from = place(&moved.source, "const unsigned char *", |axis| axis.from)?;
        let bytes = Code::primary(moved.element.to_string());
        let call = Code::call(&self.helpers.copy(), &[to, from, bytes]);
        printer.line(format_args!("{};", call.text));
        for _ in &moved.axes {
            printer.dedent();
            printer.line("}");
        }
        Ok(())
    }

    fn check_range(&self, name: &str, range: Range, printer: &mut Printer) {
        let mut wrong = Vec::new();
        if range.min != i64::MIN {
            wrong.push(format!("{name} < {}", integer(range.min, false)));
        }
        if range.max != i64::MAX {
            wrong.push(format!("{name} > {}", integer(range.max, false)));
        }
        if !wrong.is_empty() {
            let test = wrong.join(" || ");
            printer.line(format_args!("if ({test}) return {};", Fault::SizeOutOfRange.code()));
        }
    }

    fn boolean(&mut self, address: &Address) -> base::Result<String> {
        let pointer = Code::cast("const uint8_t *", &self.address(address)?.code);
        Ok(format!("*{} != 0", pointer.text))
    }

    fn run(&mut self, run: &Run, printer: &mut Printer) -> base::Result<()> {
        let code = (self.kernels)(run.kernel);
        let kernel: &Kernel = &self.module.kernels[run.kernel];
        let mut arguments = Vec::new();
        for (argument, id) in run.arguments.iter().zip(&kernel.parameters) {
            let buffer = &kernel.buffers[*id];
            let constant = match buffer.scope {
                Scope::Parameter(Access::Read) => "const ",
                _ => "",
            };
            let address = self.address(&argument.address)?;
            arguments.push(match address.is_void {
                true => address.code.text,
                false => {
                    let ty = format!("{constant}{} *", storage_type(buffer.dtype));
                    Code::cast(&ty, &address.code).text
                }
            });
        }
        for position in &code.symbols {
            let name = self.symbols.get(*position as usize);
            let name = name.ok_or_else(|| self.broken(format!("there is no symbol {position}")))?;
            arguments.push(name.clone());
        }
        if !code.scratch_bytes.is_zero() {
            let (base, offset) = self.bases.scratch.clone();
            arguments.push(format!("{base} + {}", self.expression(&offset, true)));
        }
        arguments.extend(code.constants.iter().map(u64::to_string));
        let call = format!("{}({})", code.name, arguments.join(", "));
        match code.returns_fault {
            true => {
                printer.line(format_args!("fault = {call};"));
                printer.line("if (fault != 0) return fault;");
            }
            false => printer.line(format_args!("{call};")),
        }
        Ok(())
    }

    fn address(&mut self, address: &Address) -> base::Result<Pointer> {
        let placed = |start: u64, offset: &Expr| Expr::constant(start.cast_signed()) + offset;
        let (base, offset) = match &self.program.slots[address.slot].place {
            Place::Input(number) | Place::Output(number) => {
                let is_input = matches!(self.program.slots[address.slot].place, Place::Input(_));
                let base = format!("{}[{number}]", if is_input { "in" } else { "out" });
                if address.offset.is_zero() {
                    return Ok(Pointer { code: Code::primary(base), is_void: true });
                }
                let constant = if is_input { "const " } else { "" };
                (format!("({constant}unsigned char *){base}"), Expr::ZERO)
            }
            Place::Weight(constant) => {
                let (base, start) = (self.bases.weight)(*constant);
                (base.to_owned(), placed(start, &Expr::ZERO))
            }
            Place::Constants(offset) => {
                let (base, start) = self.bases.constants;
                (base.to_owned(), placed(start, offset))
            }
            Place::Arena(offset) => {
                let (base, start) = self.bases.arena;
                (base.to_owned(), placed(start, offset))
            }
        };
        let offset = offset + &address.offset;
        let code = match offset.is_zero() {
            true => Code::primary(base),
            false => {
                let text = format!("{base} + {}", self.expression(&offset, true));
                Code::new(text, Strength::Sum)
            }
        };
        Ok(Pointer { code, is_void: false })
    }

    fn index(&mut self, expr: &Expr) -> String {
        self.expression(expr, false)
    }

    fn expression(&mut self, expr: &Expr, tight: bool) -> String {
        let context = IndexContext {
            name: &|symbol: SymbolId| self.symbols[symbol.index()].clone(),
            range: &|symbol: SymbolId| self.program.symbols[symbol].range,
            is_place: false,
            marks: false,
        };
        context.text(self.helpers, expr, tight)
    }

    /// A broken invariant, which the program's verifier would have shown.
    fn broken(&self, message: String) -> Diagnostics {
        let place = format!("program `{}`", self.program.name);
        Diagnostic::error(INTERNAL_ERROR, message).at(place).into()
    }
}
