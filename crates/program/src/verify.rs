//! What must hold of every program.
//!
//! - Names are valid and unique; slots and symbols that are used exist.
//! - Sizes and places of slots depend only on symbols that are known before the program runs.
//!   A symbol that a step sets is set by that step alone and used behind a `Bind`, or inside a
//!   `Repeat`.
//! - Offsets in the arena and in the constants are multiples of 64; slots lie inside the arena.
//! - Addresses lie inside their slots, as far as ranges of symbols tell: what depends on symbols
//!   of the model alone is wrong only if it is wrong for every value.
//! - Inputs and weights are not written. What a step reads from the arena or an output has been
//!   written before, at least in part, on some path there.
//! - A `Copy` does not overlap itself; grains are at least 1, extents and scratch at least 0.
//!
//! Which slots may share memory is not checked here: that is the memory plan's own checker's task.
//! What is broken is shown in the program's listing, below the step at fault.

use std::collections::{BTreeMap, BTreeSet};

use base::codes::VERIFIER_FAILED;
use base::text::Printer;
use base::{Diagnostic, SecondaryMap};
use sym::{Expr, Range, SymbolId};

use crate::parse::is_marked_name;
use crate::print::{Remarked, Remarks, print_expression, print_with_remarks};
use crate::program::{Address, Place, Program, Run, Slot, Step};
use crate::spans::{Region, Span, Spans};

/// Slots of the arena and the block of constants begin at multiples of this many bytes.
const ALIGNMENT: i64 = 64;

/// Checks everything the head of this file lists.
///
/// # Errors
/// One diagnostic with the program's listing, in which each broken invariant stands below the
/// step that breaks it.
pub fn verify(program: &Program) -> base::Result<()> {
    let mut verifier = Verifier {
        program,
        remarks: Remarks::new(),
        place: Remarked::Head,
        steps: 0,
        known: SecondaryMap::new(),
        set: BTreeSet::new(),
        ranges: BTreeMap::new(),
        written: Spans::default(),
    };
    verifier.head();
    verifier.block(&program.steps);
    if verifier.remarks.is_empty() {
        return Ok(());
    }
    let remarks = verifier.remarks;
    let count: usize = remarks.values().map(Vec::len).sum();
    let mut printer = Printer::new();
    print_with_remarks(program, &mut printer, &remarks);
    let message = format!("program `{}` breaks {count} rule(s) of the program IR", program.name);
    Err(Diagnostic::error(VERIFIER_FAILED, message)
        .at(format!("program `{}`", program.name))
        .because(printer.finish())
        .into())
}

struct Verifier<'a> {
    program: &'a Program,
    remarks: Remarks,
    /// What is looked at.
    place: Remarked,
    /// Steps looked at so far.
    steps: usize,
    /// Symbols that have a value here.
    known: SecondaryMap<SymbolId, bool>,
    /// Symbols that steps looked at so far have set.
    set: BTreeSet<SymbolId>,
    /// What `Repeat`s around are known to keep their symbols in.
    ranges: BTreeMap<SymbolId, Range>,
    written: Spans,
}

impl Verifier<'_> {
    #[cold]
    #[inline(never)]
    fn wrong(&mut self, message: impl Into<String>) {
        self.remarks.entry(self.place).or_default().push(message.into());
    }

    fn text(&self, expr: &Expr) -> String {
        print_expression(self.program, expr)
    }

    fn head(&mut self) {
        let program = self.program;
        if !is_marked_name(&program.name) {
            self.wrong(format!("`{}` cannot be a program's name", program.name));
        }
        let mut names = BTreeSet::new();
        for symbol in program.symbols.values() {
            if !names.insert(&symbol.name) {
                self.wrong(format!("two symbols are called `{}`", symbol.name));
            }
            if symbol.range.is_empty() {
                self.wrong(format!("`{}` has an empty range", symbol.name));
            }
        }
        let set = program.set_symbols();
        for id in program.symbols.ids() {
            self.known[id] = !set.contains(&id);
        }
        self.expr("the size of the arena", &program.arena_bytes, 0);
        let mut names = BTreeSet::new();
        for (id, slot) in program.slots.iter() {
            self.place = Remarked::Slot(id);
            if !is_marked_name(&slot.name) {
                self.wrong(format!("`{}` cannot be a slot's name", slot.name));
            }
            if !names.insert(&slot.name) {
                self.wrong(format!("two slots are called `{}`", slot.name));
            }
            self.slot(slot);
        }
    }

    fn slot(&mut self, slot: &Slot) {
        self.expr("the size", &slot.bytes, 0);
        let (Place::Constants(offset) | Place::Arena(offset)) = &slot.place else { return };
        self.expr("the offset", offset, 0);
        if !offset.divisible_by(ALIGNMENT) {
            let offset = self.text(offset);
            self.wrong(format!("the offset {offset} is no multiple of {ALIGNMENT}"));
        }
        if let Place::Arena(offset) = &slot.place {
            let arena = &self.program.arena_bytes;
            self.inside("the slot", &(offset + &slot.bytes), arena, "the arena");
        }
    }

    fn range(&self, symbol: SymbolId) -> Range {
        let declared = self.program.symbols.get(symbol).map_or(Range::ALL, |known| known.range);
        self.ranges.get(&symbol).map_or(declared, |range| range.intersect(declared))
    }

    fn bounds(&self, expr: &Expr) -> Range {
        expr.bounds(&|symbol| self.range(symbol))
    }

    /// An expression of known symbols that can be as large as `least`.
    fn expr(&mut self, what: &str, expr: &Expr, least: i64) {
        for symbol in expr.symbols() {
            if !self.known[symbol] {
                let name = self.program.symbol_name(symbol);
                self.wrong(format!("{what} depends on `{name}`, which has no value here"));
            }
        }
        if self.bounds(expr).max < least {
            let text = self.text(expr);
            self.wrong(format!("{what} is {text}, which is less than {least}"));
        }
    }

    /// `end <= limit`, as the head of this file says.
    fn inside(&mut self, what: &str, end: &Expr, limit: &Expr, of: &str) {
        let room = limit - end;
        let ranges = |symbol| self.range(symbol);
        if sym::proves_less_equal(end, limit, &ranges) {
            return;
        }
        let exact = room.symbols().iter().all(|symbol| self.ranges.contains_key(symbol));
        if exact || self.bounds(&room).max < 0 {
            let (end, limit) = (self.text(end), self.text(limit));
            self.wrong(format!("{what} ends at {end}, beyond {of}, which ends at {limit}"));
        }
    }

    /// Checks that the bytes lie in their slot; where they are, unless there is no such slot.
    fn span(&mut self, what: &str, address: &Address, bytes: &Expr) -> Option<Span> {
        self.expr(&format!("the offset of {what}"), &address.offset, 0);
        let program = self.program;
        let Some(slot) = program.slots.get(address.slot) else {
            self.wrong(format!("{what} is in the slot {}, which does not exist", address.slot));
            return None;
        };
        let offset = &address.offset;
        if offset.symbols().iter().all(|symbol| self.ranges.contains_key(symbol))
            && self.bounds(offset).min < 0
            && self.bounds(offset).max >= 0
        {
            let offset = self.text(offset);
            self.wrong(format!("{what} begins at {offset}, which may lie before the slot"));
        }
        let name = program.slot_name(address.slot);
        self.inside(what, &(offset + bytes), &slot.bytes, &name);
        let (region, base) = match &slot.place {
            Place::Input(number) => (Region::Input(*number), &Expr::ZERO),
            Place::Output(number) => (Region::Output(*number), &Expr::ZERO),
            Place::Weight(constant) => (Region::Weight(*constant), &Expr::ZERO),
            Place::Constants(offset) => (Region::Constants, offset),
            Place::Arena(offset) => (Region::Arena, offset),
        };
        let start = base + offset;
        let end = &start + bytes;
        Some(Span { region, start, end })
    }

    fn read(&mut self, what: &str, span: Option<&Span>) {
        let Some(span) = span.filter(|span| span.start != span.end) else { return };
        let is_empty = match span.region {
            Region::Arena => true,
            Region::Output(number) => !self.program.updated.contains(&number),
            Region::Input(_) | Region::Weight(_) | Region::Constants => false,
        };
        if is_empty && !self.written.may_meet(span, &|symbol| self.range(symbol)) {
            self.wrong(format!("{what} is read, but nothing has been written there"));
        }
    }

    fn write(&mut self, what: &str, span: Option<Span>) {
        let Some(span) = span else { return };
        match span.region {
            Region::Input(_) => self.wrong(format!("{what} is in an input, but written")),
            Region::Weight(_) => self.wrong(format!("{what} is in a weight, but written")),
            Region::Output(_) | Region::Constants | Region::Arena => self.written.insert(span),
        }
    }

    fn block(&mut self, steps: &[Step]) {
        for step in steps {
            self.place = Remarked::Step(self.steps);
            self.steps += 1;
            self.step(step);
        }
    }

    fn step(&mut self, step: &Step) {
        match step {
            Step::Run(run) => self.run(run),
            Step::Barrier => {}
            Step::Bind { symbol, source } => {
                let span = self.span("the value", source, &Expr::constant(8));
                self.read("the value", span.as_ref());
                if self.set(*symbol) {
                    self.known[*symbol] = true;
                }
            }
            Step::Copy { source, destination, bytes } => {
                self.expr("the number of bytes", bytes, 0);
                self.copy((source, bytes), (destination, bytes));
            }
            Step::Move(moved) => self.copy(
                (&moved.source, &moved.source_bytes()),
                (&moved.destination, &moved.destination_bytes()),
            ),
            Step::Branch { condition, then, otherwise } => {
                self.condition(condition);
                self.block(then);
                self.block(otherwise);
            }
            Step::While { setup, condition, body } => {
                let place = self.place;
                self.block(setup);
                self.place = place;
                self.condition(condition);
                self.block(body);
            }
            Step::Repeat { symbol, count, body } => {
                self.expr("the count", count, 0);
                let last = self.bounds(count).max.saturating_sub(1).max(0);
                let exists = self.set(*symbol);
                if exists {
                    self.known[*symbol] = true;
                    self.ranges.insert(*symbol, Range::new(0, last));
                }
                self.block(body);
                if exists {
                    self.known[*symbol] = false;
                    self.ranges.remove(symbol);
                }
            }
        }
    }

    /// Notes that a step sets the symbol; whether there is such a symbol.
    fn set(&mut self, symbol: SymbolId) -> bool {
        if !self.program.symbols.contains(symbol) {
            self.wrong(format!("the symbol {symbol} does not exist"));
            return false;
        }
        if !self.set.insert(symbol) {
            let name = self.program.symbol_name(symbol);
            self.wrong(format!("`{name}` is set by another step, too"));
        }
        true
    }

    fn condition(&mut self, condition: &Address) {
        let span = self.span("the condition", condition, &Expr::ONE);
        self.read("the condition", span.as_ref());
    }

    /// Addresses with the bytes behind them.
    fn copy(&mut self, source: (&Address, &Expr), destination: (&Address, &Expr)) {
        let from = self.span("the source", source.0, source.1);
        let to = self.span("the destination", destination.0, destination.1);
        self.read("the source", from.as_ref());
        if let (Some(from), Some(to)) = (&from, &to) {
            let ranges = |symbol| self.range(symbol);
            let overlap = from.region == to.region
                && sym::proves_less_than(&from.start, &to.end, &ranges)
                && sym::proves_less_than(&to.start, &from.end, &ranges);
            if overlap {
                self.wrong("the destination overlaps the source");
            }
        }
        self.write("the destination", to);
    }

    fn run(&mut self, run: &Run) {
        self.expr("the extent", &run.extent, 0);
        self.expr("the grain", &run.grain, 1);
        self.expr("the scratch memory", &run.scratch_bytes, 0);
        let mut spans = Vec::new();
        for (index, argument) in run.arguments.iter().enumerate() {
            let what = format!("argument {index}");
            self.expr(&format!("the size of {what}"), &argument.bytes, 0);
            let span = self.span(&what, &argument.address, &argument.bytes);
            if argument.reads {
                self.read(&what, span.as_ref());
            }
            spans.push(span);
        }
        for (index, (argument, span)) in run.arguments.iter().zip(spans).enumerate() {
            if argument.writes {
                self.write(&format!("argument {index}"), span);
            }
        }
    }
}
