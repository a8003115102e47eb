//! The data of a kernel: symbols, buffers, statements and values.
//!
//! Everything here is plain data. A kernel means what running its statements one after the other
//! means; loop kinds (`Parallel`, `Vector`, `Unroll`, `Instruction`) say how it may be run, never
//! what it computes. In particular the order of a reduction is the order in which the program as
//! written performs its updates, so a rewrite that keeps the meaning keeps the bits.
//!
//! Relies on `sym` for index arithmetic and on `tensor` for element types and scalar functions.

use std::sync::Arc;

use base::{Arena, LocationId, define_id};
use sym::{Expr, Range, SymbolId};
use tensor::{DType, Reduction, Scalar, ScalarFunction};

define_id!(pub BufferId, "b");

/// A unit of work: buffers in, buffers out, one nest of statements after another.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Kernel {
    /// Unique within its module; an identifier of C.
    pub name: String,
    /// Loop variables, bound values and shape symbols. Names are unique within the kernel.
    pub symbols: Arena<SymbolId, KernelSymbol>,
    /// Every buffer the kernel touches.
    pub buffers: Arena<BufferId, Buffer>,
    /// The buffers the caller passes, in the order of the kernel ABI.
    pub parameters: Vec<BufferId>,
    /// Run in order. A scheduled kernel holds at most one `Parallel` loop, and then as the body's
    /// only statement: its extent is the kernel's parallel extent.
    pub body: Vec<Stmt>,
    /// The nodes of the user's model which this kernel computes.
    pub origin: Vec<LocationId>,
}

/// A name in index expressions.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct KernelSymbol {
    /// Unique within the kernel.
    pub name: String,
    /// What binds it.
    pub kind: SymbolKind,
}

/// What binds a symbol.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum SymbolKind {
    /// A dimension of the model, read from `Context::symbols[position]`.
    Shape {
        /// Index into the context's symbols.
        position: u32,
        /// The values it can take.
        range: Range,
        /// That by which choices are weighed.
        usual: i64,
    },
    /// The variable of exactly one `For`, from 0 up to the loop's extent.
    Loop,
    /// Bound by exactly one `Let`. Only a value of type i64 with a range may stand in an index
    /// expression; running the `Let` with a value outside the range is a fault.
    Value {
        /// Type of the value.
        dtype: DType,
        /// The checked range of a value used as an index.
        range: Option<Range>,
    },
}

/// A dense array of elements.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Buffer {
    /// Unique within the kernel.
    pub name: String,
    /// Type of an element.
    pub dtype: DType,
    /// Extent of each axis. Index expressions have one entry an axis.
    pub shape: Vec<Expr>,
    /// Elements from one index to the next along each axis; `None` is dense row-major. A parameter
    /// with strides is a view into something larger.
    pub strides: Option<Vec<Expr>>,
    /// Where it lives.
    pub scope: Scope,
}

impl Buffer {
    /// For each element, in row-major order, the byte where it begins. Extents and strides are
    /// constant, and elements have whole bytes; what is not counts as 0, or as one byte.
    #[must_use]
    pub fn byte_places(&self) -> Vec<usize> {
        let extent = |expr: &Expr| expr.as_constant().unwrap_or(0) as usize;
        let shape: Vec<usize> = self.shape.iter().map(extent).collect();
        let strides = match &self.strides {
            Some(strides) => strides.iter().map(extent).collect(),
            None => tensor::dense_strides(&shape),
        };
        let width = self.dtype.bytes().unwrap_or(1);
        tensor::offsets(&shape, &strides).map(|offset| offset * width).collect()
    }
}

/// Where a buffer lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scope {
    /// Memory that the caller passes.
    Parameter(Access),
    /// Memory of the worker that runs the kernel. Its contents belong to one iteration of the
    /// parallel loop.
    Scratch,
    /// Registers: once `Unroll` loops are unrolled, every index but that of the last axis is
    /// constant, and the last axis is indexed by a constant or covered by a `Vector` loop.
    Register,
}

/// What a kernel does with a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Access {
    /// Only loaded from.
    Read,
    /// What it held before does not matter: the kernel stores to every element that it is
    /// responsible for, and to an element before it loads or reduces into it.
    Write,
    /// Loaded from and stored to, the former contents included (donated buffers, in-place updates).
    Update,
}

/// A statement.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Stmt {
    /// `for variable < extent { body }`
    For(Box<Loop>),
    /// Binds a symbol to a value for the statements that follow in the same block.
    Let {
        /// A symbol of kind `Value`.
        symbol: SymbolId,
        /// Its value; the type is the symbol's.
        value: ScalarExpr,
    },
    /// `buffer[index] = value`
    Store {
        /// Destination.
        buffer: BufferId,
        /// One expression an axis.
        index: Vec<Expr>,
        /// Of the buffer's element type.
        value: ScalarExpr,
    },
    /// `buffer[index] = reduction(buffer[index], value)`. Where the reduction is `Sum` and `value`
    /// is a floating-point product, product and sum are one fused multiply-add with one rounding.
    Reduce {
        /// Destination.
        buffer: BufferId,
        /// One expression an axis.
        index: Vec<Expr>,
        /// How to combine.
        reduction: Reduction,
        /// Of the buffer's element type.
        value: ScalarExpr,
    },
    /// A hint, for speed alone: an element of a parameter that is read will soon be wanted; in a
    /// vector loop those of all lanes, where they lie side by side. It may lie outside of the
    /// buffer.
    Prefetch {
        /// The parameter.
        buffer: BufferId,
        /// One expression an axis.
        index: Vec<Expr>,
    },
    /// Runs `then` if all conditions hold, else `otherwise`.
    If {
        /// A conjunction.
        conditions: Vec<Condition>,
        /// Run when all hold.
        then: Vec<Stmt>,
        /// Run when one does not.
        otherwise: Vec<Stmt>,
    },
    /// Runs `setup`, then, while `condition` (bool) holds, `body` and `setup` again.
    While {
        /// Computes what the condition reads.
        setup: Vec<Stmt>,
        /// A bool.
        condition: ScalarExpr,
        /// The loop's body.
        body: Vec<Stmt>,
    },
}

/// A counted loop: `variable` runs from 0 up to `extent`, exclusive.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Loop {
    /// A symbol of kind `Loop`, bound by this loop alone.
    pub variable: SymbolId,
    /// Number of iterations; in terms of symbols bound outside.
    pub extent: Expr,
    /// How it may be run.
    pub kind: LoopKind,
    /// What it runs.
    pub body: Vec<Stmt>,
}

/// How a loop may be run. The meaning is that of `Serial` in every case.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum LoopKind {
    /// One iteration after another.
    Serial,
    /// Iterations are shared among workers. They are independent: no two touch an element, one
    /// writing, unless all of them that do only store, and store equal bits.
    Parallel,
    /// Each statement of the body may be run for many iterations at once. The extent is a constant,
    /// the body holds no `For` loop other than `Unroll` and `Instruction` ones; a target cuts the
    /// extent into vectors of its own width and masks the rest. So iterations depend on each other
    /// only through accesses that keep their order when every statement is run for all iterations
    /// before the next one, its loads before its stores; no two of them store to one element by one
    /// statement.
    Vector,
    /// Iterations are written out one after the other. The extent is a constant.
    Unroll,
    /// The loop, with what it holds, is what an instruction of this name computes in a lane of the
    /// vector loop around it. The extent is a constant. Which instructions there are is not for
    /// this level to say: elsewhere such a loop is as one that is written out.
    Instruction(Arc<str>),
}

impl LoopKind {
    /// Whether a vector loop may hold such a loop: its iterations are so many statements.
    pub fn is_written_out(&self) -> bool {
        matches!(self, LoopKind::Unroll | LoopKind::Instruction(_))
    }
}

/// A comparison of index expressions.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Condition {
    /// Left-hand side.
    pub left: Expr,
    /// The comparison.
    pub comparison: Comparison,
    /// Right-hand side.
    pub right: Expr,
}

/// Comparisons of integers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Comparison {
    /// `<`
    Less,
    /// `<=`
    LessEqual,
    /// `==`
    Equal,
    /// `!=`
    NotEqual,
}

/// A scalar expression.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ScalarExpr {
    /// A constant.
    Constant(Scalar),
    /// The value of a symbol of kind `Value`.
    Symbol(SymbolId),
    /// An index expression, as an i64.
    Index(Expr),
    /// `buffer[index]`
    Load {
        /// Source.
        buffer: BufferId,
        /// One expression an axis.
        index: Vec<Expr>,
    },
    /// A row of the scalar function table applied to arguments.
    Apply {
        /// The function.
        function: ScalarFunction,
        /// Type of the result.
        dtype: DType,
        /// One value an operand.
        arguments: Vec<ScalarExpr>,
    },
    /// `value` where all conditions hold, `otherwise` elsewhere; the one not taken is not
    /// evaluated, so a guarded load may be out of bounds where the conditions fail.
    Guard {
        /// A conjunction.
        conditions: Vec<Condition>,
        /// Taken when all hold.
        value: Box<ScalarExpr>,
        /// Taken when one does not.
        otherwise: Box<ScalarExpr>,
    },
    /// The elements of `buffer[index, 0..n]`, n a power of two, combined by the fixed tree
    /// `while n > 1 { n /= 2; for p < n { x[p] = reduction(x[p], x[p + n]) } }`, on a copy.
    Fold {
        /// How to combine.
        reduction: Reduction,
        /// Source; its last axis has a constant extent that is a power of two.
        buffer: BufferId,
        /// One expression an axis but the last.
        index: Vec<Expr>,
    },
}

impl ScalarExpr {
    /// Whether it is a product, which a sum that adds it rounds together with itself.
    pub fn is_product(&self) -> bool {
        matches!(self, ScalarExpr::Apply { function: ScalarFunction::Mul, .. })
    }
}
