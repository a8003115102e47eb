//! Programs as text; `parse` reads it back. For instance:
//!
//! ```text
//! program @main(n in 1..=8, i in 0..=11) arena 4096*n + 64 {
//!   %x: 4096*n at input 0
//!   %y: 40*n at output 0
//!   %w: 1024 at weight c3
//!   %bias: 64 at constants 128
//!   %t: 4096*n at arena 0
//!   %go: 1 at arena 4096*n
//!   run k0(read 4096*n at %x, read 1024 at %w, write 4096*n at %t) extent n grain 2 scratch 256
//!   barrier
//!   bind n = %t[8]
//!   copy 40 from %t to %y[40*i]
//!   move 4 from %x to %t over (64 by 9 to 1, 9 by 1 to 64)
//!   if %go { ... } else { ... }
//!   while { ... } holds %go { ... }
//!   repeat i < 12 { ... }
//! }
//! ```
//!
//! Sizes and offsets are in bytes. A `move` is of elements of so many bytes; along each axis it has
//! an extent and the elements that one step takes in the source and in the destination. An address
//! is a slot and, in brackets, an offset other than 0. A `grain` of 1 and a `scratch` of 0 are not
//! printed. An output that is `updated` holds a value when the run begins. An argument is `read`,
//! `write`, `update` (both) or `unused`. Symbols that are no
//! identifiers print as strings.
//!
//! Printing never fails: what a broken program names but does not have prints as its bare id.

use std::collections::BTreeMap;
use std::fmt::{self, Display};

use base::text::{Printer, Quoted, is_identifier};
use sym::{Expr, SymbolId};

use crate::program::{Address, Argument, MoveAxis, Place, Program, Run, SlotId, Step};

/// The text's lines are broken where they would grow longer than this.
const WIDTH: usize = 100;

/// Words that mean something in expressions or behind them.
pub(crate) const RESERVED: [&str; 4] = ["div", "mod", "min", "max"];

/// Where a remark stands in the listing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Remarked {
    /// Below the program's first line.
    Head,
    /// Below the declaration of a slot.
    Slot(SlotId),
    /// Below the step of this number, counted as `walk` counts, from 0.
    Step(usize),
}

/// Remarks to print as comments, so that the text still parses.
pub(crate) type Remarks = BTreeMap<Remarked, Vec<String>>;

impl Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut printer = Printer::new();
        print(self, &mut printer);
        f.write_str(&printer.finish())
    }
}

/// Prints a program at the printer's present depth.
pub fn print(program: &Program, printer: &mut Printer) {
    print_with_remarks(program, printer, &Remarks::new());
}

/// Prints a program with remarks.
pub(crate) fn print_with_remarks(program: &Program, printer: &mut Printer, remarks: &Remarks) {
    Listing { program, printer, remarks, steps: 0 }.program();
}

/// An expression of `program` as text.
pub fn print_expression(program: &Program, expr: &Expr) -> String {
    expr.display(&|symbol| program.symbol_name(symbol)).to_string()
}

/// An address of `program` as text.
pub fn print_address(program: &Program, address: &Address) -> String {
    let slot = program.slot_name(address.slot);
    if address.offset.is_zero() {
        return slot;
    }
    format!("{slot}[{}]", print_expression(program, &address.offset))
}

impl Program {
    /// The symbol's name, or its id if there is no such symbol.
    pub(crate) fn symbol_name(&self, symbol: SymbolId) -> String {
        self.symbols.get(symbol).map_or_else(|| symbol.to_string(), |known| known.name.clone())
    }

    /// The slot's name with its mark, or its id if there is no such slot.
    pub(crate) fn slot_name(&self, slot: SlotId) -> String {
        self.slots.get(slot).map_or_else(|| slot.to_string(), |known| format!("%{}", known.name))
    }
}

/// A symbol's name where it is declared or set; in expressions `sym` prints the same.
fn name_text(name: &str) -> String {
    let plain = is_identifier(name) && !RESERVED.contains(&name);
    if plain { name.to_owned() } else { Quoted(name).to_string() }
}

struct Listing<'a> {
    program: &'a Program,
    printer: &'a mut Printer,
    remarks: &'a Remarks,
    /// Steps printed so far.
    steps: usize,
}

impl Listing<'_> {
    fn program(&mut self) {
        let program = self.program;
        let symbols = program.symbols.values();
        let symbols: Vec<String> = symbols
            .map(|symbol| {
                let usual = symbol.usual.map(|usual| format!(" usual {usual}")).unwrap_or_default();
                format!("{} in {}{usual}", name_text(&symbol.name), symbol.range)
            })
            .collect();
        let arena = self.expr(&program.arena_bytes);
        self.call(&format!("program @{}", program.name), &symbols, &format!(" arena {arena} {{"));
        self.printer.indent();
        self.print_remarks(Remarked::Head);
        for (id, slot) in program.slots.iter() {
            let place = match &slot.place {
                Place::Input(number) => format!("input {number}"),
                Place::Output(number) if program.updated.contains(number) => {
                    format!("output {number} updated")
                }
                Place::Output(number) => format!("output {number}"),
                Place::Weight(constant) => format!("weight {constant}"),
                Place::Constants(offset) => format!("constants {}", self.expr(offset)),
                Place::Arena(offset) => format!("arena {}", self.expr(offset)),
            };
            let line = format!("%{}: {} at {place}", slot.name, self.expr(&slot.bytes));
            self.printer.line(line);
            self.print_remarks(Remarked::Slot(id));
        }
        self.block(&program.steps);
        self.printer.dedent();
        self.printer.line("}");
    }

    fn expr(&self, expr: &Expr) -> String {
        print_expression(self.program, expr)
    }

    fn address(&self, address: &Address) -> String {
        print_address(self.program, address)
    }

    fn print_remarks(&mut self, place: Remarked) {
        for remark in self.remarks.get(&place).into_iter().flatten() {
            remark.lines().for_each(|line| self.printer.line(format_args!("// ^ {line}")));
        }
    }

    /// `before(item, item)after`, on several lines where it is long.
    fn call(&mut self, before: &str, items: &[String], after: &str) {
        let one_line = format!("{before}({}){after}", items.join(", "));
        if one_line.len() <= WIDTH {
            self.printer.line(one_line);
            return;
        }
        self.printer.line(format_args!("{before}("));
        self.printer.indent();
        items.iter().for_each(|item| self.printer.line(format_args!("{item},")));
        self.printer.dedent();
        self.printer.line(format_args!("){after}"));
    }

    fn block(&mut self, steps: &[Step]) {
        steps.iter().for_each(|step| self.step(step));
    }

    fn inside(&mut self, steps: &[Step]) {
        self.printer.indent();
        self.block(steps);
        self.printer.dedent();
    }

    /// Writes a line that opens a block, the remarks on its step, and the block.
    fn open(&mut self, number: usize, line: impl Display, steps: &[Step]) {
        self.printer.line(line);
        self.printer.indent();
        self.print_remarks(Remarked::Step(number));
        self.block(steps);
        self.printer.dedent();
    }

    fn step(&mut self, step: &Step) {
        let number = self.steps;
        self.steps += 1;
        match step {
            Step::Run(run) => self.run(run),
            Step::Barrier => self.printer.line("barrier"),
            Step::Bind { symbol, source } => {
                let name = name_text(&self.program.symbol_name(*symbol));
                self.printer.line(format!("bind {name} = {}", self.address(source)));
            }
            Step::Copy { source, destination, bytes } => {
                let (from, to) = (self.address(source), self.address(destination));
                self.printer.line(format!("copy {} from {from} to {to}", self.expr(bytes)));
            }
            Step::Move(moved) => {
                let (from, to) = (self.address(&moved.source), self.address(&moved.destination));
                let axis =
                    |axis: &MoveAxis| format!("{} by {} to {}", axis.extent, axis.from, axis.to);
                let axes: Vec<String> = moved.axes.iter().map(axis).collect();
                self.call(&format!("move {} from {from} to {to} over ", moved.element), &axes, "");
            }
            Step::Branch { condition, then, otherwise } => {
                self.open(number, format!("if {} {{", self.address(condition)), then);
                if !otherwise.is_empty() {
                    self.printer.line("} else {");
                    self.inside(otherwise);
                }
                return self.printer.line("}");
            }
            Step::While { setup, condition, body } => {
                self.open(number, "while {", setup);
                self.printer.line(format!("}} holds {} {{", self.address(condition)));
                self.inside(body);
                return self.printer.line("}");
            }
            Step::Repeat { symbol, count, body } => {
                let name = name_text(&self.program.symbol_name(*symbol));
                self.open(number, format!("repeat {name} < {} {{", self.expr(count)), body);
                return self.printer.line("}");
            }
        }
        self.print_remarks(Remarked::Step(number));
    }

    fn run(&mut self, run: &Run) {
        let arguments: Vec<String> = run.arguments.iter().map(|a| self.argument(a)).collect();
        let mut after = format!(" extent {}", self.expr(&run.extent));
        if !run.grain.is_one() {
            after += &format!(" grain {}", self.expr(&run.grain));
        }
        if !run.scratch_bytes.is_zero() {
            after += &format!(" scratch {}", self.expr(&run.scratch_bytes));
        }
        self.call(&format!("run {}", run.kernel), &arguments, &after);
    }

    fn argument(&self, argument: &Argument) -> String {
        let access = match (argument.reads, argument.writes) {
            (true, false) => "read",
            (false, true) => "write",
            (true, true) => "update",
            (false, false) => "unused",
        };
        format!("{access} {} at {}", self.expr(&argument.bytes), self.address(&argument.address))
    }
}
