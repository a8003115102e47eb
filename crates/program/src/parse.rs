//! Text to programs: reads what `print` writes; see there for the form.
//!
//! Symbols and slots are declared before the steps, so a name is known wherever it is used. Ids are
//! handed out in order of declaration, so print → parse → print is the identity.

use std::collections::{BTreeMap, BTreeSet};

use base::text::{Parser, TextError, Token};
use base::{Arena, ConstantId, Id, KernelId};
use sym::{Expr, Symbol, SymbolId, parse_expr, parse_range};

use crate::program::{Address, Argument, Move, MoveAxis, Place, Program, Run, Slot, SlotId, Step};

type Parsed<T> = Result<T, TextError>;

/// Whether a program or slot can be called so: letters, digits, `_` and inner `.`.
pub(crate) fn is_marked_name(name: &str) -> bool {
    let mut parser = Parser::new(name);
    match parser.next() {
        Token::Identifier(word) => word == name && parser.at_end(),
        // Behind a mark a name may start with a digit.
        _ => {
            let marked = format!("%{name}");
            let mut parser = Parser::new(&marked);
            matches!(parser.next(), Token::Prefixed(_, word) if word == name) && parser.at_end()
        }
    }
}

/// Reads one program and nothing else.
///
/// # Errors
/// A diagnostic that points at the first place that does not parse.
pub fn parse(text: &str) -> base::Result<Program> {
    let mut parser = Parser::new(text);
    let program = parse_program(&mut parser)?;
    parser.expect_end()?;
    Ok(program)
}

/// Reads one program, which may be followed by other text.
///
/// # Errors
/// The first place that does not parse.
pub fn parse_program(parser: &mut Parser<'_>) -> Parsed<Program> {
    let program = Program {
        name: String::new(),
        symbols: Arena::new(),
        updated: BTreeSet::new(),
        slots: Arena::new(),
        arena_bytes: Expr::ZERO,
        steps: Vec::new(),
    };
    let (symbols, slots) = (BTreeMap::new(), BTreeMap::new());
    let mut reader = Reader { parser, program, symbols, slots };
    reader.program()?;
    Ok(reader.program)
}

struct Reader<'p, 't> {
    parser: &'p mut Parser<'t>,
    program: Program,
    symbols: BTreeMap<String, SymbolId>,
    slots: BTreeMap<String, SlotId>,
}

impl Reader<'_, '_> {
    fn program(&mut self) -> Parsed<()> {
        self.parser.expect_keyword("program")?;
        self.program.name = self.parser.prefixed('@')?.to_owned();
        self.comma_list(Self::symbol)?;
        self.parser.expect_keyword("arena")?;
        self.program.arena_bytes = self.expr()?;
        self.parser.expect("{")?;
        while matches!(self.parser.peek(), Token::Prefixed('%', _)) {
            self.slot()?;
        }
        self.program.steps = self.rest_of_block()?;
        Ok(())
    }

    /// `(item, item)`, possibly empty, with or without a last comma.
    fn comma_list<T>(&mut self, mut item: impl FnMut(&mut Self) -> Parsed<T>) -> Parsed<Vec<T>> {
        self.parser.expect("(")?;
        let mut items = Vec::new();
        while !self.parser.eat(")") {
            items.push(item(self)?);
            if !self.parser.at(")") {
                self.parser.expect(",")?;
            }
        }
        Ok(items)
    }

    fn symbol(&mut self) -> Parsed<()> {
        let position = self.parser.position();
        let name = self.name()?;
        self.parser.expect_keyword("in")?;
        let range = parse_range(self.parser)?;
        let usual = match self.parser.keyword("usual") {
            true => Some(self.parser.integer()?),
            false => None,
        };
        let id = self.program.symbols.push(Symbol { name: name.clone(), range, usual });
        if self.symbols.insert(name.clone(), id).is_some() {
            let message = format!("`{name}` is already a symbol of this program");
            return Err(self.parser.error_at(position, message));
        }
        Ok(())
    }

    /// A symbol's name: an identifier or a string.
    fn name(&mut self) -> Parsed<String> {
        match self.parser.peek() {
            Token::String(_) => self.parser.string(),
            _ => self.parser.identifier().map(str::to_owned),
        }
    }

    fn expr(&mut self) -> Parsed<Expr> {
        parse_expr(self.parser, &mut |name| self.symbols.get(name).copied())
    }

    fn slot(&mut self) -> Parsed<()> {
        let position = self.parser.position();
        let name = self.parser.prefixed('%')?.to_owned();
        self.parser.expect(":")?;
        let bytes = self.expr()?;
        self.parser.expect_keyword("at")?;
        let place = match self.parser.identifier()? {
            "input" => Place::Input(self.number()?),
            "output" => {
                let number = self.number()?;
                if self.parser.keyword("updated") {
                    self.program.updated.insert(number);
                }
                Place::Output(number)
            }
            "weight" => Place::Weight(self.id::<ConstantId>("a constant, such as `c3`")?),
            "constants" => Place::Constants(self.expr()?),
            "arena" => Place::Arena(self.expr()?),
            _ => {
                let known = "expected `input`, `output`, `weight`, `constants` or `arena`";
                return Err(self.parser.error_at(position, known));
            }
        };
        let id = self.program.slots.push(Slot { name: name.clone(), bytes, place });
        if self.slots.insert(name.clone(), id).is_some() {
            let message = format!("`%{name}` is already a slot of this program");
            return Err(self.parser.error_at(position, message));
        }
        Ok(())
    }

    fn number(&mut self) -> Parsed<u32> {
        let position = self.parser.position();
        let number = self.parser.unsigned()?;
        u32::try_from(number)
            .map_err(|_| self.parser.error_at(position, "this number is beyond 32 bits"))
    }

    fn id<I: Id>(&mut self, what: &str) -> Parsed<I> {
        let found = match self.parser.peek() {
            Token::Identifier(word) => I::parse(word),
            _ => None,
        };
        let id = found.ok_or_else(|| self.parser.unexpected(what))?;
        self.parser.next();
        Ok(id)
    }

    fn rest_of_block(&mut self) -> Parsed<Vec<Step>> {
        let mut steps = Vec::new();
        while !self.parser.eat("}") {
            steps.push(self.step()?);
        }
        Ok(steps)
    }

    fn block(&mut self) -> Parsed<Vec<Step>> {
        self.parser.expect("{")?;
        self.rest_of_block()
    }

    fn step(&mut self) -> Parsed<Step> {
        if self.parser.keyword("run") {
            return self.run().map(Step::Run);
        }
        if self.parser.keyword("barrier") {
            return Ok(Step::Barrier);
        }
        if self.parser.keyword("bind") {
            let symbol = self.known_symbol()?;
            self.parser.expect("=")?;
            return Ok(Step::Bind { symbol, source: self.address()? });
        }
        if self.parser.keyword("copy") {
            let bytes = self.expr()?;
            self.parser.expect_keyword("from")?;
            let source = self.address()?;
            self.parser.expect_keyword("to")?;
            return Ok(Step::Copy { source, destination: self.address()?, bytes });
        }
        if self.parser.keyword("move") {
            return self.moved().map(Step::Move);
        }
        if self.parser.keyword("if") {
            let condition = self.address()?;
            let then = self.block()?;
            let otherwise = if self.parser.keyword("else") { self.block()? } else { Vec::new() };
            return Ok(Step::Branch { condition, then, otherwise });
        }
        if self.parser.keyword("while") {
            let setup = self.block()?;
            self.parser.expect_keyword("holds")?;
            let condition = self.address()?;
            return Ok(Step::While { setup, condition, body: self.block()? });
        }
        if self.parser.keyword("repeat") {
            let symbol = self.known_symbol()?;
            self.parser.expect("<")?;
            let count = self.expr()?;
            return Ok(Step::Repeat { symbol, count, body: self.block()? });
        }
        Err(self.parser.unexpected("a step"))
    }

    fn known_symbol(&mut self) -> Parsed<SymbolId> {
        let position = self.parser.position();
        let name = self.name()?;
        let known = self.symbols.get(&name).copied();
        known.ok_or_else(|| {
            self.parser.error_at(position, format!("this program has no symbol `{name}`"))
        })
    }

    fn address(&mut self) -> Parsed<Address> {
        let position = self.parser.position();
        let name = self.parser.prefixed('%')?;
        let slot = self.slots.get(name).copied().ok_or_else(|| {
            self.parser.error_at(position, format!("this program has no slot `%{name}`"))
        })?;
        let mut offset = Expr::ZERO;
        if self.parser.eat("[") {
            offset = self.expr()?;
            self.parser.expect("]")?;
        }
        Ok(Address { slot, offset })
    }

    fn run(&mut self) -> Parsed<Run> {
        let kernel = self.id::<KernelId>("a kernel, such as `k3`")?;
        let arguments = self.comma_list(Self::argument)?;
        self.parser.expect_keyword("extent")?;
        let extent = self.expr()?;
        let grain = if self.parser.keyword("grain") { self.expr()? } else { Expr::ONE };
        let scratch_bytes = if self.parser.keyword("scratch") { self.expr()? } else { Expr::ZERO };
        Ok(Run { kernel, arguments, extent, scratch_bytes, grain })
    }

    fn moved(&mut self) -> Parsed<Move> {
        let element = self.positive()?;
        self.parser.expect_keyword("from")?;
        let source = self.address()?;
        self.parser.expect_keyword("to")?;
        let destination = self.address()?;
        self.parser.expect_keyword("over")?;
        Ok(Move { source, destination, element, axes: self.comma_list(Self::move_axis)? })
    }

    fn move_axis(&mut self) -> Parsed<MoveAxis> {
        let extent = self.positive()?;
        self.parser.expect_keyword("by")?;
        let from = self.number()?;
        self.parser.expect_keyword("to")?;
        Ok(MoveAxis { extent, from, to: self.number()? })
    }

    fn positive(&mut self) -> Parsed<u32> {
        let position = self.parser.position();
        match self.number()? {
            0 => Err(self.parser.error_at(position, "expected a number above 0")),
            number => Ok(number),
        }
    }

    fn argument(&mut self) -> Parsed<Argument> {
        let position = self.parser.position();
        let (reads, writes) = match self.parser.identifier()? {
            "read" => (true, false),
            "write" => (false, true),
            "update" => (true, true),
            "unused" => (false, false),
            _ => {
                let known = "expected `read`, `write`, `update` or `unused`";
                return Err(self.parser.error_at(position, known));
            }
        };
        let bytes = self.expr()?;
        self.parser.expect_keyword("at")?;
        Ok(Argument { address: self.address()?, bytes, writes, reads })
    }
}
