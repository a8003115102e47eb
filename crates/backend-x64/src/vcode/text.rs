//! The text form of vcode: printer and parser.
//!
//! ```text
//! vcode @name {
//!   pool c0 "0000803f"
//!   b0(v0: int, v1: int, v2: int):
//!     v3: int = int.load.i64 [v0]
//!     v4: v512 = load.f32 [v3 + v2*4 + 64] mask v9
//!     v5: v512 = add.f32 v4, broadcast [c0]
//!     branch less v1, v2, b1, b2
//!   b1 aligned(v6: int):
//!     jump b1(v6)
//!   b2:
//!     return 0
//! }
//! ```
//!
//! An operation's lane follows its name. An immediate stands first, as `#7`. The parser reads what
//! the printer prints; values and blocks must be numbered as they would be printed.

use std::fmt::Write as _;

use base::text::{Parser, Printer, Quoted, Separated, TextError, Token};
use base::{Arena, Id};

use super::{
    Args, Base, BasicBlock, BlockId, Cond, Inst, IntOperand, Lane, MemoryOperand, Opcode, PoolId,
    RegisterType, Terminator, VCode, VRegId,
};

fn name_of<T: Copy + PartialEq>(names: &[(T, &'static str)], item: T) -> &'static str {
    names.iter().find(|(known, _)| *known == item).map_or("?", |(_, name)| name)
}

fn named<T: Copy>(names: &[(T, &'static str)], name: &str) -> Option<T> {
    names.iter().find(|(_, known)| *known == name).map(|(item, _)| *item)
}

/// Prints a function.
pub fn print(function: &VCode) -> String {
    let mut printer = Printer::new();
    printer.block(format_args!("vcode @{}", function.name), |printer| {
        for (id, bytes) in function.pool.iter() {
            let hex = bytes.iter().fold(String::new(), |mut text, byte| {
                let _ = write!(text, "{byte:02x}");
                text
            });
            printer.line(format_args!("pool {id} {}", Quoted(&hex)));
        }
        for (id, block) in function.blocks.iter() {
            print_block(printer, function, id, block);
        }
    });
    printer.finish()
}

fn print_block(printer: &mut Printer, function: &VCode, id: BlockId, block: &BasicBlock) {
    let typed = |value: &VRegId| format!("{value}: {}", type_name(function, *value));
    let aligned = if block.aligned { " aligned" } else { "" };
    if block.params.is_empty() {
        printer.line(format_args!("{id}{aligned}:"));
    } else {
        let params: Vec<String> = block.params.iter().map(typed).collect();
        printer.line(format_args!("{id}{aligned}({}):", Separated(", ", &params)));
    }
    printer.indent();
    for inst in &block.insts {
        printer.line(inst_text(function, inst));
    }
    match &block.end {
        Terminator::Open => printer.line("open"),
        Terminator::Jump(to, args) if args.is_empty() => printer.line(format_args!("jump {to}")),
        Terminator::Jump(to, args) => {
            printer.line(format_args!("jump {to}({})", Separated(", ", args)));
        }
        Terminator::Branch { cond, left, right, then, otherwise } => {
            let cond = name_of(&Cond::NAMES, *cond);
            let right = match right {
                IntOperand::Value(value) => value.to_string(),
                IntOperand::Imm(imm) => format!("#{imm}"),
            };
            printer.line(format_args!("branch {cond} {left}, {right}, {then}, {otherwise}"));
        }
        Terminator::Return(code) => printer.line(format_args!("return #{code}")),
    }
    printer.dedent();
}

fn type_name(function: &VCode, value: VRegId) -> &'static str {
    function.values.get(value).map_or("?", |ty| name_of(&RegisterType::NAMES, *ty))
}

pub(super) fn inst_text(function: &VCode, inst: &Inst) -> String {
    let mut text = String::new();
    let defined: Vec<String> = inst
        .result
        .iter()
        .chain(&inst.lost)
        .map(|value| format!("{value}: {}", type_name(function, *value)))
        .collect();
    if !defined.is_empty() {
        let _ = write!(text, "{} = ", defined.join(", "));
    }
    let _ = write!(text, "{}.{}", inst.op.row().name, name_of(&Lane::NAMES, inst.lane));
    let mut operands: Vec<String> = Vec::new();
    if inst.imm != 0 {
        operands.push(format!("#{}", inst.imm));
    }
    operands.extend(inst.args.iter().map(|value| value.to_string()));
    operands.extend(inst.address.iter().map(address_text));
    if !operands.is_empty() {
        let _ = write!(text, " {}", operands.join(", "));
    }
    if let Some(mask) = inst.mask {
        let _ = write!(text, " mask {mask}");
    }
    text
}

fn address_text(address: &MemoryOperand) -> String {
    let mut text = String::from(if address.broadcast { "broadcast [" } else { "[" });
    let _ = match address.base {
        Base::Value(value) => write!(text, "{value}"),
        Base::Pool(id) => write!(text, "{id}"),
        Base::Frame => write!(text, "frame"),
    };
    if let Some((index, scale)) = address.index {
        let _ = write!(text, " + {index}*{scale}");
    }
    match address.displacement {
        0 => {}
        plus @ 1.. => _ = write!(text, " + {plus}"),
        minus => _ = write!(text, " - {}", minus.unsigned_abs()),
    }
    text.push(']');
    text
}

/// Keeps a stray number in a text from allocating without bound.
const MOST_VALUES: usize = 1 << 20;

type Parsed<T> = Result<T, TextError>;

/// Parses what [`print()`] prints. The result is not verified.
///
/// # Errors
/// Where the text goes wrong.
pub fn parse(text: &str) -> Parsed<VCode> {
    let mut parser = Parser::new(text);
    let parser = &mut parser;
    parser.expect_keyword("vcode")?;
    let name = match parser.next() {
        Token::Prefixed('@', name) => name.to_string(),
        _ => return Err(parser.error("expected `@name`")),
    };
    let mut reader = Reader { values: Vec::new(), blocks: Arena::new(), pool: Arena::new() };
    parser.expect("{")?;
    while !parser.eat("}") {
        if parser.keyword("pool") {
            reader.pool_entry(parser)?;
        } else {
            reader.block(parser)?;
        }
    }
    let values = reader.values.iter().map(|ty| ty.unwrap_or(RegisterType::Int)).collect();
    Ok(VCode { name, values, blocks: reader.blocks, pool: reader.pool })
}

struct Reader {
    values: Vec<Option<RegisterType>>,
    blocks: Arena<BlockId, BasicBlock>,
    pool: Arena<PoolId, Vec<u8>>,
}

fn id<I: Id>(parser: &mut Parser<'_>) -> Parsed<I> {
    let name = parser.identifier()?;
    I::parse(name).ok_or_else(|| parser.error(format!("expected `{}` and a number", I::PREFIX)))
}

impl Reader {
    fn pool_entry(&mut self, parser: &mut Parser<'_>) -> Parsed<()> {
        let expected = self.pool.next_id();
        if id::<PoolId>(parser)? != expected {
            return Err(parser.error(format!("expected `{expected}`")));
        }
        let hex = parser.string()?;
        let digits: Option<Vec<u8>> =
            hex.chars().map(|c| c.to_digit(16).map(|digit| digit as u8)).collect();
        let digits = digits.ok_or_else(|| parser.error("expected hexadecimal digits"))?;
        self.pool
            .push(digits.chunks(2).map(|pair| pair.iter().fold(0, |a, d| a << 4 | d)).collect());
        Ok(())
    }

    /// The rest of `v4: v512` after the value, recording the type.
    fn define(&mut self, value: VRegId, parser: &mut Parser<'_>) -> Parsed<VRegId> {
        parser.expect(":")?;
        let ty = named(&RegisterType::NAMES, parser.identifier()?)
            .ok_or_else(|| parser.error("expected a register type"))?;
        if value.index() > MOST_VALUES {
            return Err(parser.error("the value's number is too large"));
        }
        if value.index() >= self.values.len() {
            self.values.resize(value.index() + 1, None);
        }
        self.values[value.index()] = Some(ty);
        Ok(value)
    }

    fn block(&mut self, parser: &mut Parser<'_>) -> Parsed<()> {
        let expected = self.blocks.next_id();
        if id::<BlockId>(parser)? != expected {
            return Err(parser.error(format!("expected `{expected}`")));
        }
        let mut block = BasicBlock { aligned: parser.keyword("aligned"), ..BasicBlock::default() };
        if parser.eat("(") {
            while !parser.eat(")") {
                let value = id(parser)?;
                block.params.push(self.define(value, parser)?);
                parser.eat(",");
            }
        }
        parser.expect(":")?;
        loop {
            if parser.keyword("open") {
                break;
            } else if parser.keyword("return") {
                parser.expect("#")?;
                block.end = Terminator::Return(immediate(parser)?);
                break;
            } else if parser.keyword("jump") {
                block.end = jump(parser)?;
                break;
            } else if parser.keyword("branch") {
                block.end = branch(parser)?;
                break;
            }
            block.insts.push(self.inst(parser)?);
        }
        self.blocks.push(block);
        Ok(())
    }

    fn inst(&mut self, parser: &mut Parser<'_>) -> Parsed<Inst> {
        let mut defined = Vec::new();
        let mut name = parser.identifier()?;
        while let (Some(value), true) = (VRegId::parse(name), defined.len() < 2) {
            defined.push(self.define(value, parser)?);
            if !parser.eat(",") {
                parser.expect("=")?;
            }
            name = parser.identifier()?;
        }
        let (op, lane) = name.rsplit_once('.').unwrap_or((name, ""));
        let op = Opcode::parse(op).ok_or_else(|| parser.error("unknown operation"))?;
        let lane = named(&Lane::NAMES, lane).ok_or_else(|| parser.error("unknown lane"))?;
        let mut inst = Inst::new(op, lane, &[]);
        let mut defined = defined.into_iter();
        if op.row().result != '-' {
            inst.result = defined.next();
        }
        inst.lost = defined.next();
        let arity = op.row().arguments.len();
        let mut args = Vec::new();
        if parser.eat("#") {
            inst.imm = immediate(parser)?;
            parser.eat(",");
        }
        let at_address = |parser: &mut Parser<'_>| parser.at("[") || parser.at_keyword("broadcast");
        while inst.address.is_none() && (args.len() < arity || at_address(parser)) {
            if at_address(parser) {
                inst.address = Some(address(parser)?);
            } else {
                args.push(id::<VRegId>(parser)?);
            }
            if !parser.eat(",") {
                break;
            }
        }
        inst.args = Args::new(&args);
        if parser.keyword("mask") {
            inst.mask = Some(id(parser)?);
        }
        Ok(inst)
    }
}

fn immediate<T: TryFrom<i64>>(parser: &mut Parser<'_>) -> Parsed<T> {
    let negative = parser.eat("-");
    let Token::Integer(value) = parser.next() else {
        return Err(parser.error("expected a number"));
    };
    let value = if negative { (value as i64).wrapping_neg() } else { value as i64 };
    T::try_from(value).map_err(|_| parser.error("the number is too large"))
}

fn jump(parser: &mut Parser<'_>) -> Parsed<Terminator> {
    let to = id(parser)?;
    let mut args = Vec::new();
    if parser.eat("(") {
        while !parser.eat(")") {
            args.push(id(parser)?);
            parser.eat(",");
        }
    }
    Ok(Terminator::Jump(to, args))
}

fn branch(parser: &mut Parser<'_>) -> Parsed<Terminator> {
    let cond = named(&Cond::NAMES, parser.identifier()?)
        .ok_or_else(|| parser.error("expected a comparison"))?;
    let left = id(parser)?;
    parser.expect(",")?;
    let right = if parser.eat("#") {
        IntOperand::Imm(immediate(parser)?)
    } else {
        IntOperand::Value(id(parser)?)
    };
    parser.expect(",")?;
    let then = id(parser)?;
    parser.expect(",")?;
    Ok(Terminator::Branch { cond, left, right, then, otherwise: id(parser)? })
}

fn address(parser: &mut Parser<'_>) -> Parsed<MemoryOperand> {
    let broadcast = parser.keyword("broadcast");
    parser.expect("[")?;
    let name = parser.identifier()?;
    let base = match (VRegId::parse(name), PoolId::parse(name)) {
        _ if name == "frame" => Base::Frame,
        (Some(value), _) => Base::Value(value),
        (_, Some(pool)) => Base::Pool(pool),
        _ => return Err(parser.error("expected a value, a constant or `frame`")),
    };
    let mut address = MemoryOperand { base, index: None, displacement: 0, broadcast };
    while !parser.eat("]") {
        let negative = parser.eat("-");
        if !negative {
            parser.expect("+")?;
        }
        if let Token::Integer(_) = parser.peek() {
            let magnitude: i64 = immediate(parser)?;
            let signed = if negative { -magnitude } else { magnitude };
            address.displacement =
                i32::try_from(signed).map_err(|_| parser.error("the displacement is too large"))?;
        } else {
            let index = id(parser)?;
            parser.expect("*")?;
            address.index = Some((index, immediate(parser)?));
        }
    }
    Ok(address)
}
