//! Procedures: host code of artifacts, where nothing interprets programs and plans.
//!
//! A procedure computes with words: integers of 64 bits, which are sizes, extents and addresses
//! alike. It has locals, areas of memory of its own while it runs, and calls other procedures,
//! kernels, or what its caller gives the address of. What it names (other procedures, kernels,
//! data) are symbols of the artifact, reached relative to the code: no address stands in data.
//!
//! Arithmetic wraps, but for what saturates by name. Quotients round down, remainders have the sign
//! of the divisor, and both are 0 where the divisor is. A comparison is 1 or 0.

mod text;

use base::{Arena, Id, define_id};

pub use text::{parse_procedures, print_procedure};

define_id!(pub LocalId, "v");
define_id!(pub AreaId, "a");

/// A piece of host code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Procedure {
    /// Its symbol.
    pub name: String,
    /// Whether it can be called from outside of the artifact.
    pub is_exported: bool,
    /// Names of its locals, which are set before they are read; the first are its parameters.
    pub locals: Arena<LocalId, String>,
    /// How many parameters it has.
    pub parameters: usize,
    /// Its memory: names and sizes in bytes, each aligned to 16.
    pub areas: Arena<AreaId, (String, u64)>,
    /// Done from the first on; behind the last the result is 0.
    pub body: Vec<Action>,
}

/// Something that a procedure does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Sets a local.
    Set(LocalId, Word),
    /// Stores the low bytes of a word.
    Store(MemoryWidth, Word, Word),
    /// Does the first if the word is not 0, else the second.
    If(Word, Vec<Action>, Vec<Action>),
    /// Does the actions again and again, until one leaves the loop or the procedure.
    Loop(Vec<Action>),
    /// Leaves the innermost loop.
    Break,
    /// Leaves the procedure with a result.
    Return(Word),
    /// Calls something; the result goes to a local.
    Call(Option<LocalId>, Callee, Vec<Word>),
    /// Copies bytes, the first first.
    Copy {
        /// To where.
        destination: Word,
        /// From where.
        source: Word,
        /// How many; none where it is negative.
        bytes: Word,
    },
}

/// What is called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Callee {
    /// A symbol whose result is a word: a procedure.
    Procedure(String),
    /// A symbol whose result is an integer of 32 bits with a sign: a kernel.
    Kernel(String),
    /// The code at an address, whose result, if it has one, is an integer of 32 bits with a sign.
    Address(Word),
}

/// How many bytes are read or written; what is read of fewer than eight has no sign, but for four.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum MemoryWidth {
    /// One byte.
    One,
    /// Two bytes.
    Two,
    /// Four bytes, with a sign.
    Four,
    /// A word.
    Eight,
}

/// A word, computed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Word {
    /// A number.
    Number(i64),
    /// What a local holds.
    Local(LocalId),
    /// Where an area begins.
    Area(AreaId),
    /// Where a symbol is.
    Symbol(String),
    /// What lies at an address.
    Load(MemoryWidth, Box<Word>),
    /// Of two words.
    Binary(WordOperator, Box<(Word, Word)>),
}

/// What is computed of two words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum WordOperator {
    /// Their sum.
    Add,
    /// Their difference.
    Subtract,
    /// Their product.
    Multiply,
    /// Their sum, or the greatest or least number beyond it.
    SaturatingAdd,
    /// Their product if both are at least 0, or the greatest number.
    SaturatingMultiply,
    /// Their quotient, rounded down.
    Quotient,
    /// The remainder of that.
    Remainder,
    /// The lesser.
    Minimum,
    /// The greater.
    Maximum,
    /// Bits that both have.
    And,
    /// Bits that either has.
    Or,
    /// Whether they are equal.
    Equal,
    /// Whether they are not.
    NotEqual,
    /// Whether the first is less, with signs.
    Less,
    /// Whether the first is at most the second.
    LessEqual,
    /// Whether the first is greater.
    Greater,
    /// Whether the first is at least the second.
    GreaterEqual,
}

impl MemoryWidth {
    /// All, narrowest first.
    pub const ALL: [MemoryWidth; 4] =
        [MemoryWidth::One, MemoryWidth::Two, MemoryWidth::Four, MemoryWidth::Eight];

    /// In bytes.
    #[must_use]
    pub const fn bytes(self) -> u64 {
        1 << self as u32
    }

    /// The width of so many bytes.
    #[must_use]
    pub fn of_bytes(bytes: u64) -> Option<MemoryWidth> {
        MemoryWidth::ALL.into_iter().find(|width| width.bytes() == bytes)
    }
}

impl WordOperator {
    /// What it gives.
    #[must_use]
    pub fn apply(self, a: i64, b: i64) -> i64 {
        let quotient = |a: i64, b: i64| {
            let rounded = a.wrapping_div(b);
            let is_above = a.wrapping_rem(b) != 0 && (a < 0) != (b < 0);
            rounded.wrapping_sub(i64::from(is_above))
        };
        match self {
            WordOperator::Add => a.wrapping_add(b),
            WordOperator::Subtract => a.wrapping_sub(b),
            WordOperator::Multiply => a.wrapping_mul(b),
            WordOperator::SaturatingAdd => a.saturating_add(b),
            WordOperator::SaturatingMultiply => a.checked_mul(b).unwrap_or(i64::MAX),
            WordOperator::Quotient if b == 0 => 0,
            WordOperator::Remainder if b == 0 => 0,
            WordOperator::Quotient => quotient(a, b),
            WordOperator::Remainder => a.wrapping_sub(quotient(a, b).wrapping_mul(b)),
            WordOperator::Minimum => a.min(b),
            WordOperator::Maximum => a.max(b),
            WordOperator::And => a & b,
            WordOperator::Or => a | b,
            WordOperator::Equal => i64::from(a == b),
            WordOperator::NotEqual => i64::from(a != b),
            WordOperator::Less => i64::from(a < b),
            WordOperator::LessEqual => i64::from(a <= b),
            WordOperator::Greater => i64::from(a > b),
            WordOperator::GreaterEqual => i64::from(a >= b),
        }
    }
}

impl Word {
    /// The word at an address.
    #[must_use]
    pub fn load(self) -> Word {
        Word::Load(MemoryWidth::Eight, Box::new(self))
    }

    /// An operator applied; of numbers it is computed at once.
    #[must_use]
    pub fn binary(operator: WordOperator, a: Word, b: Word) -> Word {
        use WordOperator::{Add, Multiply, SaturatingAdd, SaturatingMultiply, Subtract};
        match (operator, &a, &b) {
            (_, Word::Number(a), Word::Number(b)) => Word::Number(operator.apply(*a, *b)),
            (Add | Subtract | SaturatingAdd, _, Word::Number(0)) => a,
            (Add | SaturatingAdd, Word::Number(0), _) => b,
            (Multiply | SaturatingMultiply, _, Word::Number(1)) => a,
            (Multiply | SaturatingMultiply, Word::Number(1), _) => b,
            // Numbers stand on the right, where instructions take them.
            (Add | Multiply | SaturatingAdd | SaturatingMultiply, Word::Number(_), _) => {
                Word::Binary(operator, Box::new((b, a)))
            }
            _ => Word::Binary(operator, Box::new((a, b))),
        }
    }

    /// Whether it is less than another.
    #[must_use]
    pub fn less(self, other: impl Into<Word>) -> Word {
        Word::binary(WordOperator::Less, self, other.into())
    }

    /// Whether it is another.
    #[must_use]
    pub fn equal(self, other: impl Into<Word>) -> Word {
        Word::binary(WordOperator::Equal, self, other.into())
    }

    /// Whether it is not another.
    #[must_use]
    pub fn not_equal(self, other: impl Into<Word>) -> Word {
        Word::binary(WordOperator::NotEqual, self, other.into())
    }

    /// Whether it or another is not 0; both are 0 or 1.
    #[must_use]
    pub fn or(self, other: impl Into<Word>) -> Word {
        Word::binary(WordOperator::Or, self, other.into())
    }

    /// Whether it and another are not 0; both are 0 or 1.
    #[must_use]
    pub fn and(self, other: impl Into<Word>) -> Word {
        Word::binary(WordOperator::And, self, other.into())
    }
}

impl From<i64> for Word {
    fn from(number: i64) -> Word {
        Word::Number(number)
    }
}

impl From<LocalId> for Word {
    fn from(local: LocalId) -> Word {
        Word::Local(local)
    }
}

impl From<AreaId> for Word {
    fn from(area: AreaId) -> Word {
        Word::Area(area)
    }
}

impl std::ops::Add for Word {
    type Output = Word;

    fn add(self, other: Word) -> Word {
        Word::binary(WordOperator::Add, self, other)
    }
}

impl std::ops::Add<i64> for Word {
    type Output = Word;

    fn add(self, other: i64) -> Word {
        self + Word::Number(other)
    }
}

impl std::ops::Sub for Word {
    type Output = Word;

    fn sub(self, other: Word) -> Word {
        Word::binary(WordOperator::Subtract, self, other)
    }
}

impl std::ops::Mul for Word {
    type Output = Word;

    fn mul(self, other: Word) -> Word {
        Word::binary(WordOperator::Multiply, self, other)
    }
}

impl Procedure {
    /// One that does nothing yet.
    #[must_use]
    pub fn new(name: impl Into<String>, parameters: &[&str]) -> Procedure {
        let mut locals = Arena::new();
        for &parameter in parameters {
            locals.push(parameter.to_owned());
        }
        Procedure {
            name: name.into(),
            is_exported: false,
            locals,
            parameters: parameters.len(),
            areas: Arena::new(),
            body: Vec::new(),
        }
    }

    /// A new local, called so, or with a number behind if there is one of that name.
    pub fn local(&mut self, name: &str) -> LocalId {
        let name = fresh(name, |name| self.locals.values().any(|known| known == name));
        self.locals.push(name)
    }

    /// New memory of so many bytes, called so, or with a number behind.
    pub fn area(&mut self, name: &str, bytes: u64) -> AreaId {
        let name = fresh(name, |name| self.areas.values().any(|(known, _)| known == name));
        self.areas.push((name, bytes))
    }

    /// The parameter of this number.
    #[must_use]
    pub fn parameter(&self, number: usize) -> LocalId {
        LocalId::new(number)
    }

    /// The symbols that it names, each as often as it does.
    #[must_use]
    pub fn symbols(&self) -> Vec<&str> {
        let mut found = Vec::new();
        symbols_of(&self.body, &mut found);
        found
    }
}

fn fresh(name: &str, is_taken: impl Fn(&str) -> bool) -> String {
    let mut taken = name.to_owned();
    let mut number = 2;
    while is_taken(&taken) {
        taken = format!("{name}_{number}");
        number += 1;
    }
    taken
}

fn symbols_of<'a>(actions: &'a [Action], found: &mut Vec<&'a str>) {
    for action in actions {
        action.words(&mut |word| {
            word.walk(&mut |word| {
                if let Word::Symbol(name) = word {
                    found.push(name);
                }
            })
        });
        match action {
            Action::Call(_, Callee::Procedure(name) | Callee::Kernel(name), _) => found.push(name),
            Action::If(_, then, otherwise) => {
                symbols_of(then, found);
                symbols_of(otherwise, found);
            }
            Action::Loop(body) => symbols_of(body, found),
            _ => {}
        }
    }
}

impl Action {
    /// Visits the words that it computes itself, not those of actions in it.
    pub fn words<'a>(&'a self, visit: &mut dyn FnMut(&'a Word)) {
        match self {
            Action::Set(_, word) | Action::Return(word) | Action::If(word, ..) => visit(word),
            Action::Store(_, address, value) => {
                visit(address);
                visit(value);
            }
            Action::Loop(_) | Action::Break => {}
            Action::Call(_, callee, arguments) => {
                if let Callee::Address(address) = callee {
                    visit(address);
                }
                arguments.iter().for_each(visit);
            }
            Action::Copy { destination, source, bytes } => {
                visit(destination);
                visit(source);
                visit(bytes);
            }
        }
    }
}

impl Word {
    /// Visits it and all words in it.
    pub fn walk<'a>(&'a self, visit: &mut dyn FnMut(&'a Word)) {
        visit(self);
        match self {
            Word::Load(_, address) => address.walk(visit),
            Word::Binary(_, operands) => {
                operands.0.walk(visit);
                operands.1.walk(visit);
            }
            Word::Number(_) | Word::Local(_) | Word::Area(_) | Word::Symbol(_) => {}
        }
    }
}
