//! Writing kernels in code: short names for the constructors, and fresh symbols and buffers.
//!
//! ```text
//! let mut kernel = Kernel::new("double");
//! let a = kernel.add_parameter("a", DType::F32, vec![8.into()], Access::Read);
//! let c = kernel.add_parameter("c", DType::F32, vec![8.into()], Access::Write);
//! let i = kernel.add_loop_variable("i");
//! let sum = kernel.apply(ScalarFunction::Add, vec![load(a, [i]), load(a, [i])]);
//! kernel.body = vec![for_loop(i, 8, LoopKind::Serial, vec![store(c, [i], sum)])];
//! ```
//!
//! Where an index is asked for, anything that becomes an expression will do: symbols, integers,
//! expressions.

use std::collections::BTreeSet;

use base::Arena;
use sym::{Expr, Range, SymbolId};
use tensor::{DType, Reduction, Scalar, ScalarFunction};

use crate::kernel::{
    Access, Buffer, BufferId, Comparison, Condition, Kernel, KernelSymbol, Loop, LoopKind,
    ScalarExpr, Scope, Stmt, SymbolKind,
};
use crate::parse::is_name;

impl Kernel {
    /// A kernel without buffers and statements.
    pub fn new(name: impl Into<String>) -> Kernel {
        Kernel {
            name: name.into(),
            symbols: Arena::new(),
            buffers: Arena::new(),
            parameters: Vec::new(),
            body: Vec::new(),
            origin: Vec::new(),
        }
    }

    /// A new dense parameter, behind those there are.
    pub fn add_parameter(
        &mut self,
        name: &str,
        dtype: DType,
        shape: Vec<Expr>,
        access: Access,
    ) -> BufferId {
        let id = self.add_buffer(name, dtype, shape, Scope::Parameter(access));
        self.parameters.push(id);
        id
    }

    /// A new dense buffer, called `name` or like it. A parameter must be listed in
    /// [`Kernel::parameters`] too; see [`Kernel::add_parameter`].
    pub fn add_buffer(
        &mut self,
        name: &str,
        dtype: DType,
        shape: Vec<Expr>,
        scope: Scope,
    ) -> BufferId {
        let name = self.fresh_buffer_name(name);
        self.buffers.push(Buffer { name, dtype, shape, strides: None, scope })
    }

    /// A new symbol for a loop, called `name` or like it.
    pub fn add_loop_variable(&mut self, name: &str) -> SymbolId {
        let name = self.fresh_symbol_name(name);
        self.symbols.push(KernelSymbol { name, kind: SymbolKind::Loop })
    }

    /// A new symbol for a `Let`, called `name` or like it.
    pub fn add_value(&mut self, name: &str, dtype: DType, range: Option<Range>) -> SymbolId {
        let name = self.fresh_symbol_name(name);
        self.symbols.push(KernelSymbol { name, kind: SymbolKind::Value { dtype, range } })
    }

    /// A new shape symbol, called `name` or like it, read from this position of the context.
    pub fn add_shape(&mut self, name: &str, position: u32, range: Range) -> SymbolId {
        self.add_usual_shape(name, position, range, range.usual())
    }

    /// As [`Self::add_shape`], with the value by which choices are weighed.
    pub fn add_usual_shape(
        &mut self,
        name: &str,
        position: u32,
        range: Range,
        usual: i64,
    ) -> SymbolId {
        let name = self.fresh_symbol_name(name);
        self.symbols.push(KernelSymbol { name, kind: SymbolKind::Shape { position, range, usual } })
    }

    /// `name` if no symbol is called so, else `name_1`, `name_2`, ...
    pub fn fresh_symbol_name(&self, name: &str) -> String {
        fresh_name(name, self.symbols.values().map(|symbol| &symbol.name[..]))
    }

    /// `name` if no buffer is called so, else `name_1`, `name_2`, ...
    pub fn fresh_buffer_name(&self, name: &str) -> String {
        fresh_name(name, self.buffers.values().map(|buffer| &buffer.name[..]))
    }

    /// A scalar function applied to values; the type of the result follows from theirs.
    ///
    /// # Panics
    /// When the types do not fit, or the function is a conversion (see [`cast`]).
    pub fn apply(&self, function: ScalarFunction, arguments: Vec<ScalarExpr>) -> ScalarExpr {
        let operands: Vec<DType> =
            arguments.iter().filter_map(|argument| argument.dtype(self)).collect();
        match function.result_dtype(&operands, None) {
            Ok(dtype) => ScalarExpr::Apply { function, dtype, arguments },
            Err(message) => panic!("kernel `{}`: {message}", self.name),
        }
    }
}

/// The first of `name`, `name_1`, `name_2`, ... that is a name and not taken. A number that `name`
/// already ends in is counted on, and what cannot stand in a name becomes `_`.
fn fresh_name<'a>(name: &str, taken: impl Iterator<Item = &'a str> + Clone) -> String {
    let good = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
    let mut clean: String = name.chars().map(good).collect();
    if clean.is_empty() || clean.as_bytes()[0].is_ascii_digit() {
        clean.insert(0, '_');
    }
    let stem = match clean.rsplit_once('_') {
        Some((stem, number)) if !stem.is_empty() && number.bytes().all(|b| b.is_ascii_digit()) => {
            stem
        }
        _ => &clean,
    };
    if is_name(&clean) && taken.clone().all(|other| other != clean) {
        return clean;
    }
    let mut numbers = BTreeSet::new();
    for other in taken {
        let number = other.strip_prefix(stem).and_then(|rest| rest.strip_prefix('_'));
        // A number with leading zeros is not of those that are given here.
        let plain = number.filter(|digits| !digits.starts_with(['0', '+']));
        numbers.extend(plain.and_then(|digits| digits.parse::<usize>().ok()));
    }
    let number = (1..).find(|number| !numbers.contains(number)).unwrap_or(0);
    format!("{stem}_{number}")
}

/// What can stand as an index along an axis, a loop's extent or a side of a condition: a symbol, an
/// integer, an expression.
pub trait IntoExpr {
    /// The expression.
    fn into_expr(self) -> Expr;
}

impl IntoExpr for Expr {
    fn into_expr(self) -> Expr {
        self
    }
}

impl IntoExpr for &Expr {
    fn into_expr(self) -> Expr {
        self.clone()
    }
}

impl IntoExpr for SymbolId {
    fn into_expr(self) -> Expr {
        Expr::symbol(self)
    }
}

impl IntoExpr for i64 {
    fn into_expr(self) -> Expr {
        Expr::constant(self)
    }
}

fn expressions<E: IntoExpr>(index: impl IntoIterator<Item = E>) -> Vec<Expr> {
    index.into_iter().map(IntoExpr::into_expr).collect()
}

/// `for variable < extent { body }`
pub fn for_loop(
    variable: SymbolId,
    extent: impl IntoExpr,
    kind: LoopKind,
    body: Vec<Stmt>,
) -> Stmt {
    Stmt::For(Box::new(Loop { variable, extent: extent.into_expr(), kind, body }))
}

/// `let symbol = value`
pub fn let_value(symbol: SymbolId, value: ScalarExpr) -> Stmt {
    Stmt::Let { symbol, value }
}

/// `buffer[index] = value`
pub fn store<E: IntoExpr>(
    buffer: BufferId,
    index: impl IntoIterator<Item = E>,
    value: ScalarExpr,
) -> Stmt {
    Stmt::Store { buffer, index: expressions(index), value }
}

/// `buffer[index] = reduction(buffer[index], value)`
pub fn reduce<E: IntoExpr>(
    buffer: BufferId,
    index: impl IntoIterator<Item = E>,
    reduction: Reduction,
    value: ScalarExpr,
) -> Stmt {
    Stmt::Reduce { buffer, index: expressions(index), reduction, value }
}

/// `if conditions { then }`
pub fn if_then(conditions: Vec<Condition>, then: Vec<Stmt>) -> Stmt {
    Stmt::If { conditions, then, otherwise: Vec::new() }
}

/// `if conditions { then } else { otherwise }`
pub fn if_else(conditions: Vec<Condition>, then: Vec<Stmt>, otherwise: Vec<Stmt>) -> Stmt {
    Stmt::If { conditions, then, otherwise }
}

/// `left < right`
pub fn less(left: impl IntoExpr, right: impl IntoExpr) -> Condition {
    compare(left, Comparison::Less, right)
}

/// `left <= right`
pub fn less_equal(left: impl IntoExpr, right: impl IntoExpr) -> Condition {
    compare(left, Comparison::LessEqual, right)
}

/// `left == right`
pub fn equal(left: impl IntoExpr, right: impl IntoExpr) -> Condition {
    compare(left, Comparison::Equal, right)
}

/// `left != right`
pub fn not_equal(left: impl IntoExpr, right: impl IntoExpr) -> Condition {
    compare(left, Comparison::NotEqual, right)
}

fn compare(left: impl IntoExpr, comparison: Comparison, right: impl IntoExpr) -> Condition {
    Condition { left: left.into_expr(), comparison, right: right.into_expr() }
}

/// `buffer[index]`
pub fn load<E: IntoExpr>(buffer: BufferId, index: impl IntoIterator<Item = E>) -> ScalarExpr {
    ScalarExpr::Load { buffer, index: expressions(index) }
}

/// A constant.
pub fn constant(scalar: Scalar) -> ScalarExpr {
    ScalarExpr::Constant(scalar)
}

/// An index expression, as an i64.
pub fn index(expr: impl IntoExpr) -> ScalarExpr {
    ScalarExpr::Index(expr.into_expr())
}

/// The value in another type.
pub fn cast(dtype: DType, value: ScalarExpr) -> ScalarExpr {
    ScalarExpr::Apply { function: ScalarFunction::Cast, dtype, arguments: vec![value] }
}

/// `value` where all conditions hold, `otherwise` elsewhere.
pub fn guard(conditions: Vec<Condition>, value: ScalarExpr, otherwise: ScalarExpr) -> ScalarExpr {
    ScalarExpr::Guard { conditions, value: Box::new(value), otherwise: Box::new(otherwise) }
}

/// The elements of `buffer[index, ..]` combined by a fixed tree.
pub fn fold<E: IntoExpr>(
    reduction: Reduction,
    buffer: BufferId,
    index: impl IntoIterator<Item = E>,
) -> ScalarExpr {
    ScalarExpr::Fold { reduction, buffer, index: expressions(index) }
}
