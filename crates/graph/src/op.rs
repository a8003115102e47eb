//! The primitives: at most 40, one variant each.
//!
//! A variant holds everything that the result types depend on besides the operand types, so that
//! types are a function of (op, operand types) alone; see `infer`. Scalar functions are rows of
//! `tensor::ScalarFunction` under the single primitive `Map`.
//!
//! Broadcasting is explicit: operands of `Map` have equal shapes.

use base::{ConstantId, Id, KernelId};
use sym::{Expr, Range, SymbolId};
use tensor::{DType, Reduction, ScalarFunction, Tensor};

/// A graph primitive.
#[derive(Clone, Debug, PartialEq)]
pub enum Op {
    // --- sources: no operands ---
    /// A constant whose value passes may read: an attribute, or at most 64 integers or bools.
    Literal(Tensor),
    /// A constant of which passes may read type and shape only.
    Weight {
        /// Its place in the module's constants.
        constant: ConstantId,
        /// Its type.
        result: TensorType,
    },
    /// `result[i] = i[axis]`, of an integer or float type.
    Iota {
        /// Type of the result.
        result: TensorType,
        /// The axis that counts.
        axis: usize,
    },
    /// The value of a symbolic expression, an i64 of rank 0.
    Dimension(Expr),

    // --- symbols ---
    /// Defines a symbol as the value of an i64 scalar operand; fails at run time outside the range.
    /// Its result is the operand.
    Bind {
        /// Defined here and nowhere else.
        symbol: SymbolId,
        /// The values it may take.
        range: Range,
    },

    // --- elementwise ---
    /// `result[i] = function(operands[0][i], ...)`
    Map {
        /// The row of the scalar function table.
        function: ScalarFunction,
        /// Element type of the result.
        dtype: DType,
    },

    // --- movement: each result element is an operand element (or a fill value) ---
    /// Operand axis `k` becomes result axis `axes[k]` (increasing); an operand extent of 1 is
    /// repeated, any other equals the result's.
    Broadcast {
        /// Shape of the result.
        shape: Vec<Expr>,
        /// Result axis of each operand axis.
        axes: Vec<usize>,
    },
    /// The same elements in row-major order under another shape.
    Reshape {
        /// Shape of the result.
        shape: Vec<Expr>,
    },
    /// Result axis `k` is operand axis `permutation[k]`.
    Transpose {
        /// A permutation of the axes.
        permutation: Vec<usize>,
    },
    /// `result[i] = operand[starts + i * steps]`; steps may be negative, not zero. One entry an
    /// axis.
    Slice {
        /// First index along each axis.
        starts: Vec<Expr>,
        /// Distance between indices.
        steps: Vec<i64>,
        /// Shape of the result.
        shape: Vec<Expr>,
    },
    /// Operand 0 surrounded, and interspersed, with the rank-0 operand 1. `low` and `high` may be
    /// negative (they crop).
    Pad {
        /// Elements before each axis.
        low: Vec<Expr>,
        /// Elements behind each axis.
        high: Vec<Expr>,
        /// Elements between neighbours.
        interior: Vec<i64>,
    },
    /// Operands behind each other along an axis.
    Concat {
        /// The axis.
        axis: usize,
    },
    /// Operand 0 indexed by the other operands, i64 tensors of one common shape `I`. The result's
    /// axes are the unindexed ("kept") axes of the data with `I`'s axes inserted before kept axis
    /// `position`. Result element: `data[..]` with each indexed axis at its index operand's value.
    /// `batch` leading data axes are shared: they are the leading axes of `I` and of the result,
    /// and count as neither indexed nor kept. An index outside its axis is a run-time fault.
    Gather {
        /// The indexed axes of the data, increasing; one index operand each.
        axes: Vec<usize>,
        /// Number of leading axes that data and indices share.
        batch: usize,
        /// Number of kept axes that come before the axes of the indices.
        position: usize,
    },
    /// The mirror of `Gather`: operands are data, updates (of the shape that the gather would
    /// produce), then the indices. Result: data, with each update combined into its place, in
    /// row-major order of the updates; without a reduction the later update replaces the earlier.
    Scatter {
        /// As in `Gather`.
        axes: Vec<usize>,
        /// As in `Gather`.
        batch: usize,
        /// As in `Gather`.
        position: usize,
        /// How an update combines with what is there.
        reduction: Option<Reduction>,
    },

    // --- arithmetic along axes ---
    /// A sum of products over an iteration space: `result[p] = sum over r of lhs[..] * rhs[..]`.
    /// Matrix products, convolutions, attention scores, einsum.
    Contract {
        /// The iteration space and where each operand is read.
        space: IterationSpace,
        /// Type in which products are formed and summed.
        accumulator: DType,
        /// Element type of the result.
        dtype: DType,
    },
    /// `result[p] = reduction over r of operand[..]`: sums, maxima, pooling windows.
    Reduce {
        /// The iteration space and where the operand is read.
        space: IterationSpace,
        /// How to combine.
        reduction: Reduction,
        /// Type in which to combine; also the element type of the result.
        accumulator: DType,
    },
    /// Index (i64) of the greatest or least element along an axis, which disappears. NaN wins.
    ArgReduce {
        /// The axis.
        axis: usize,
        /// Greatest, or least.
        greatest: bool,
        /// Of equal elements the last, or the first.
        last: bool,
    },
    /// Running reduction along an axis.
    Cumulate {
        /// The axis.
        axis: usize,
        /// How to combine.
        reduction: Reduction,
        /// Leave the element itself out.
        exclusive: bool,
        /// From the end to the front.
        reverse: bool,
    },
    /// Stable sort along an axis. Results: values, and their indices (i64). NaN counts as greatest.
    Sort {
        /// The axis.
        axis: usize,
        /// Greatest first.
        descending: bool,
    },

    // --- representation ---
    /// The same bits as another type of the same width.
    Bitcast {
        /// The other type.
        dtype: DType,
    },

    // --- data-dependent sizes ---
    /// Row-major indices of the true elements of a bool tensor: results are i64 `[n, rank]` at its
    /// upper bound (rows beyond the count are zero) and the count, an i64 of rank 0.
    NonZero,
    /// 64 random bits an element from an explicit u64 key (rank 0) and a counter `i`, the row-major
    /// index: splitmix64's mixing of `key + (i + 1) * 0x9e3779b97f4a7c15` (Steele, Lea and Flood,
    /// "Fast splittable pseudorandom number generators", 2014).
    RandomBits {
        /// Shape of the result (u64).
        shape: Vec<Expr>,
    },

    // --- control flow: regions; operands and results as stated ---
    /// Operand 0 is a bool; two regions without parameters; results are those of the one taken.
    If,
    /// Operands are the initial carried values. Region 0 (condition): carried → bool; region 1
    /// (body): carried → carried. Results: carried at the end.
    While,
    /// A counted loop. Operands: `carried` initial values, then scanned inputs (sliced along axis
    /// 0). The region's parameters: iteration number (i64), carried, slices; its results: carried,
    /// then elements stacked along axis 0. Results: carried at the end, stacks.
    Scan {
        /// Number of iterations.
        trip_count: Expr,
        /// How many of the operands are carried.
        carried: usize,
        /// Run from the last slice to the first, stacking likewise.
        reverse: bool,
    },

    // --- leaving the graph ---
    /// Runs a kernel of the module.
    Call {
        /// Which.
        kernel: KernelId,
        /// Types of the results.
        results: Vec<TensorType>,
    },
    /// What is not tensor arithmetic (strings, images), by name.
    Host {
        /// The function's name in the crate `host-ops`.
        name: String,
        /// Types of the results.
        results: Vec<TensorType>,
    },
}

/// Element type and shape.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TensorType {
    /// Element type.
    pub dtype: DType,
    /// Extent of each axis.
    pub shape: Vec<Expr>,
}

/// The axes over which a contraction or reduction runs, and where each operand is read.
///
/// Index expressions are over axes: `SymbolId::new(k)` stands for axis `k` of this space, not for
/// a symbol of the function. They are affine where importers make them; format choice adds `div`
/// and `mod` by constants for blocked operands.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct IterationSpace {
    /// Extents of the axes: first those of the result, in order, then the reduced ones, outermost
    /// first. The reduced axes are run in this order.
    pub extents: Vec<Expr>,
    /// How many of them are axes of the result.
    pub parallel: usize,
    /// For each operand, an index expression for each of its axes. Every index is within bounds for
    /// every point of the space (padding is a `Pad` in front).
    pub operands: Vec<Vec<Expr>>,
}

impl Op {
    /// The word it has in text forms and messages.
    pub fn name(&self) -> &'static str {
        match self {
            Op::Literal(_) => "literal",
            Op::Weight { .. } => "weight",
            Op::Iota { .. } => "iota",
            Op::Dimension(_) => "dimension",
            Op::Bind { .. } => "bind",
            Op::Map { .. } => "map",
            Op::Broadcast { .. } => "broadcast",
            Op::Reshape { .. } => "reshape",
            Op::Transpose { .. } => "transpose",
            Op::Slice { .. } => "slice",
            Op::Pad { .. } => "pad",
            Op::Concat { .. } => "concat",
            Op::Gather { .. } => "gather",
            Op::Scatter { .. } => "scatter",
            Op::Contract { .. } => "contract",
            Op::Reduce { .. } => "reduce",
            Op::ArgReduce { .. } => "arg_reduce",
            Op::Cumulate { .. } => "cumulate",
            Op::Sort { .. } => "sort",
            Op::Bitcast { .. } => "bitcast",
            Op::NonZero => "non_zero",
            Op::RandomBits { .. } => "random_bits",
            Op::If => "if",
            Op::While => "while",
            Op::Scan { .. } => "scan",
            Op::Call { .. } => "call",
            Op::Host { .. } => "host",
        }
    }

    /// The number of operands, where the primitive fixes it.
    pub fn operand_count(&self) -> Option<usize> {
        match self {
            Op::Literal(_) | Op::Weight { .. } | Op::Iota { .. } | Op::Dimension(_) => Some(0),
            Op::Bind { .. }
            | Op::Broadcast { .. }
            | Op::Reshape { .. }
            | Op::Transpose { .. }
            | Op::Slice { .. }
            | Op::Reduce { .. }
            | Op::ArgReduce { .. }
            | Op::Cumulate { .. }
            | Op::Sort { .. }
            | Op::Bitcast { .. }
            | Op::NonZero
            | Op::RandomBits { .. }
            | Op::If => Some(1),
            Op::Pad { .. } | Op::Contract { .. } => Some(2),
            Op::Map { function, .. } => Some(function.arity()),
            Op::Gather { axes, .. } => Some(1 + axes.len()),
            Op::Scatter { axes, .. } => Some(2 + axes.len()),
            Op::Concat { .. } | Op::While | Op::Scan { .. } | Op::Call { .. } | Op::Host { .. } => {
                None
            }
        }
    }

    /// Whether its results follow from its operands and attributes alone: it neither reads nor
    /// defines symbols as values, has no regions and leaves the graph nowhere.
    pub fn is_pure(&self) -> bool {
        !matches!(
            self,
            Op::Bind { .. }
                | Op::Dimension(_)
                | Op::If
                | Op::While
                | Op::Scan { .. }
                | Op::Call { .. }
                | Op::Host { .. }
        )
    }

    /// What each of its regions is called in text forms; none but for control flow.
    pub fn region_labels(&self) -> &'static [&'static str] {
        match self {
            Op::If => &["then", "else"],
            Op::While => &["condition", "body"],
            Op::Scan { .. } => &["body"],
            _ => &[],
        }
    }

    /// The expressions over the function's symbols in it; not the index expressions of a space,
    /// which are over its axes.
    pub fn exprs(&self) -> Vec<&Expr> {
        match self {
            Op::Weight { result, .. } | Op::Iota { result, .. } => result.shape.iter().collect(),
            Op::Dimension(expr) | Op::Scan { trip_count: expr, .. } => vec![expr],
            Op::Broadcast { shape, .. } | Op::Reshape { shape } | Op::RandomBits { shape } => {
                shape.iter().collect()
            }
            Op::Slice { starts, shape, .. } => starts.iter().chain(shape).collect(),
            Op::Pad { low, high, .. } => low.iter().chain(high).collect(),
            Op::Contract { space, .. } | Op::Reduce { space, .. } => space.extents.iter().collect(),
            Op::Call { results, .. } | Op::Host { results, .. } => {
                results.iter().flat_map(|ty| &ty.shape).collect()
            }
            Op::Literal(_)
            | Op::Bind { .. }
            | Op::Map { .. }
            | Op::Transpose { .. }
            | Op::Concat { .. }
            | Op::Gather { .. }
            | Op::Scatter { .. }
            | Op::ArgReduce { .. }
            | Op::Cumulate { .. }
            | Op::Sort { .. }
            | Op::Bitcast { .. }
            | Op::NonZero
            | Op::If
            | Op::While => Vec::new(),
        }
    }

    /// As [`Self::exprs`], to change them.
    pub fn exprs_mut(&mut self) -> Vec<&mut Expr> {
        match self {
            Op::Weight { result, .. } | Op::Iota { result, .. } => {
                result.shape.iter_mut().collect()
            }
            Op::Dimension(expr) | Op::Scan { trip_count: expr, .. } => vec![expr],
            Op::Broadcast { shape, .. } | Op::Reshape { shape } | Op::RandomBits { shape } => {
                shape.iter_mut().collect()
            }
            Op::Slice { starts, shape, .. } => starts.iter_mut().chain(shape).collect(),
            Op::Pad { low, high, .. } => low.iter_mut().chain(high).collect(),
            Op::Contract { space, .. } | Op::Reduce { space, .. } => {
                space.extents.iter_mut().collect()
            }
            Op::Call { results, .. } | Op::Host { results, .. } => {
                results.iter_mut().flat_map(|ty| &mut ty.shape).collect()
            }
            Op::Literal(_)
            | Op::Bind { .. }
            | Op::Map { .. }
            | Op::Transpose { .. }
            | Op::Concat { .. }
            | Op::Gather { .. }
            | Op::Scatter { .. }
            | Op::ArgReduce { .. }
            | Op::Cumulate { .. }
            | Op::Sort { .. }
            | Op::Bitcast { .. }
            | Op::NonZero
            | Op::If
            | Op::While => Vec::new(),
        }
    }
}

impl IterationSpace {
    /// Axis `k` of the space, as an index expression.
    pub fn axis(k: usize) -> Expr {
        Expr::symbol(SymbolId::new(k))
    }
}
