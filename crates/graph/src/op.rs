//! The primitives: at most 40, one variant and one row of a table each.
//!
//! A variant holds everything that the result types depend on besides the operand types, so that
//! types are a function of (op, operand types) alone; see `infer`. The row says how its text reads
//! and what it is; name, text form and the walk over its expressions follow from that. Scalar
//! functions are rows of `tensor::ScalarFunction` under the single primitive `Map`.
//!
//! Broadcasting is explicit: operands of `Map` have equal shapes.

use base::text::TextError;
use base::{ConstantId, FunctionId, Id};
use sym::{Expr, Range, SymbolId};
use tensor::{DType, Reduction, ScalarFunction, Tensor};

use crate::function::Type;
use crate::lists::ListOperation;
use crate::shape::Shape;
use crate::text::attribute::{
    After, Attribute, AttributeReader, AttributeWriter, Bare, Either, Flag, Form, Implied, Optional,
};

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
        shape: Shape,
        /// Result axis of each operand axis.
        axes: Vec<usize>,
    },
    /// The same elements in row-major order under another shape.
    Reshape {
        /// Shape of the result.
        shape: Shape,
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
        shape: Shape,
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
    /// Floats of at most 8 bits are combined in f32.
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
    /// Running reduction along an axis; floats of at most 8 bits are combined in f32.
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
        /// How many elements the results have along the axis, the first ones in order; none is
        /// all of them.
        kept: Option<usize>,
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
        shape: Shape,
    },

    // --- control flow: regions; operands and results as stated ---
    /// Operand 0 is a bool; two regions without parameters; results are those of the one taken. An
    /// extent that differs between the regions is a symbol in the results' types, which this node
    /// defines.
    If {
        /// Types of the results.
        results: Vec<Type>,
    },
    /// Operands are the initial carried values. Region 0 (condition): carried → bool; region 1
    /// (body): carried → carried, then the rows of stacks. Results: carried at the end, then the
    /// stacks: the rows of all turns along a new first axis. See [`Op::Scan`] for extents that
    /// change.
    While {
        /// Defined as the number of turns, where there are stacks: their first extent.
        turns: Option<SymbolId>,
    },
    /// A counted loop. Operands: `carried` initial values, then scanned inputs (sliced along axis
    /// 0). The region's parameters: iteration number (i64), carried, slices; its results: carried,
    /// then elements stacked along axis 0. Results: carried at the end, stacks.
    ///
    /// Where a parameter of the region has a symbol in the place of the operand's extent, the loop
    /// defines the symbol: it is the extent of what is carried, from turn to turn, and behind the
    /// loop that of the result.
    Scan {
        /// Number of iterations.
        trip_count: Expr,
        /// How many of the operands are carried.
        carried: usize,
        /// Run from the last slice to the first, stacking likewise.
        reverse: bool,
    },

    /// What is done with sequences and optional values. A tensor that is taken out of one has
    /// symbols for extents that are not known, which this node defines. Interpreted: nothing of it
    /// is compiled.
    List {
        /// What.
        operation: ListOperation,
        /// Types of the results.
        results: Vec<Type>,
    },

    // --- leaving the graph ---
    /// Runs a function of the module, whose symbols are this one's: a *segment* of a plan.
    Call {
        /// Which.
        function: FunctionId,
        /// Types of the results.
        results: Vec<Type>,
    },
    /// What is not tensor arithmetic (strings, images), by name. An extent of a result that is a
    /// symbol of no operand's extents is not known before: this node defines it. Interpreted.
    Host {
        /// The function's name (`eval::host`).
        name: String,
        /// What it is told besides, by name.
        attributes: HostAttributes,
        /// Types of the results.
        results: Vec<TensorType>,
    },
}

/// What a host function is told besides its operands: texts by name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct HostAttributes(pub Vec<(String, String)>);

impl HostAttributes {
    /// The text of a name; empty if there is none.
    #[must_use]
    pub fn text(&self, name: &str) -> &str {
        self.0.iter().find(|(other, _)| other == name).map_or("", |(_, text)| text)
    }
}

/// Element type and shape.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TensorType {
    /// Element type.
    pub dtype: DType,
    /// Extent of each axis.
    pub shape: Shape,
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

/// What a primitive is besides a function of its operands and attributes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Nature {
    /// Nothing: its results follow from them.
    Pure,
    /// It reads or defines symbols as values.
    Symbols,
    /// It runs regions, which text forms call so.
    Regions(&'static [&'static str]),
    /// It leaves the graph.
    Outside,
}

/// Makes what follows from the table of primitives below. A row is
///
/// ```text
/// Variant { attributes } => name, number of operands, nature, [attribute: form, ..];
/// ```
///
/// with the attributes twice: first as the variant has them, which serves as a pattern and as an
/// expression, then each with the form in which text gives it, in the order of the text.
macro_rules! primitives {
    ($($variant:ident $fields:tt =>
       $name:literal, $operands:expr, $nature:expr, [$($attribute:ident: $form:expr),*];)*) => {
        impl Op {
            /// The word it has in text forms and messages.
            pub fn name(&self) -> &'static str {
                match self {
                    $(Op::$variant { .. } => $name,)*
                }
            }

            /// The number of operands, where the primitive fixes it.
            #[allow(unused_variables, reason = "few numbers depend on attributes")]
            pub fn operand_count(&self) -> Option<usize> {
                match self {
                    $(Op::$variant $fields => $operands,)*
                }
            }

            fn nature(&self) -> Nature {
                match self {
                    $(Op::$variant { .. } => $nature,)*
                }
            }

            /// The expressions over the function's symbols in it; not the index expressions of a
            /// space, which are over its axes.
            pub fn exprs(&self) -> Vec<&Expr> {
                let mut exprs = Vec::new();
                self.each_expr(&mut |expr| exprs.push(expr));
                exprs
            }

            /// Visits the expressions that [`Self::exprs`] lists.
            #[allow(unused_variables, reason = "few primitives have expressions")]
            pub fn each_expr<'a>(&'a self, visit: &mut dyn FnMut(&'a Expr)) {
                match self {
                    $(Op::$variant $fields => { $(Attribute::each_expr($attribute, visit);)* })*
                }
            }

            /// Whether they are all constants.
            pub fn has_constant_exprs(&self) -> bool {
                let mut constant = true;
                self.each_expr(&mut |expr| constant &= expr.as_constant().is_some());
                constant
            }

            /// As [`Self::exprs`], to change them.
            pub fn exprs_mut(&mut self) -> Vec<&mut Expr> {
                let mut exprs = Vec::new();
                match self {
                    $(Op::$variant $fields => {
                        $(exprs.extend(Attribute::exprs_mut($attribute));)*
                    })*
                }
                exprs
            }

            /// Writes the attributes.
            pub(crate) fn print_attributes(&self, writer: &mut AttributeWriter<'_>) {
                match self {
                    $(Op::$variant $fields => { $(Form::print(&$form, $attribute, writer);)* })*
                }
            }

            /// Reads the attributes of the primitive of this name; none if there is no such one.
            pub(crate) fn parse_attributes(
                name: &str,
                reader: &mut AttributeReader<'_, '_, '_>,
            ) -> Result<Option<Op>, TextError> {
                Ok(Some(match name {
                    $($name => {
                        $(let $attribute = Form::parse(&$form, reader)?;)*
                        Op::$variant $fields
                    })*
                    _ => return Ok(None),
                }))
            }
        }
    };
}

primitives! {
    Literal(elements) => "literal", Some(0), Nature::Pure, [elements: Bare];
    Weight { constant, result } => "weight", Some(0), Nature::Pure,
        [constant: Bare, result: Implied];
    Iota { result, axis } => "iota", Some(0), Nature::Pure, [axis: After("axis"), result: Implied];
    Dimension(value) => "dimension", Some(0), Nature::Symbols, [value: Bare];

    Bind { symbol, range } => "bind", Some(1), Nature::Symbols, [symbol: Bare, range: After("in")];

    Map { function, dtype } => "map", Some(function.arity()), Nature::Pure,
        [function: Bare, dtype: Implied];

    Broadcast { shape, axes } => "broadcast", Some(1), Nature::Pure,
        [axes: After("axes"), shape: Implied];
    Reshape { shape } => "reshape", Some(1), Nature::Pure, [shape: Implied];
    Transpose { permutation } => "transpose", Some(1), Nature::Pure, [permutation: Bare];
    Slice { starts, steps, shape } => "slice", Some(1), Nature::Pure,
        [starts: After("starts"), steps: After("steps"), shape: Implied];
    Pad { low, high, interior } => "pad", Some(2), Nature::Pure,
        [low: After("low"), high: After("high"), interior: After("interior")];
    Concat { axis } => "concat", None, Nature::Pure, [axis: After("axis")];
    Gather { axes, batch, position } => "gather", Some(1 + axes.len()), Nature::Pure,
        [axes: After("axes"), batch: After("batch"), position: After("position")];
    Scatter { axes, batch, position, reduction } => "scatter", Some(2 + axes.len()), Nature::Pure,
        [reduction: Bare, axes: After("axes"), batch: After("batch"), position: After("position")];

    Contract { space, accumulator, dtype } => "contract", Some(2), Nature::Pure,
        [space: Bare, accumulator: After("accumulate"), dtype: Implied];
    Reduce { space, reduction, accumulator } => "reduce", Some(1), Nature::Pure,
        [reduction: Bare, space: Bare, accumulator: Implied];
    ArgReduce { axis, greatest, last } => "arg_reduce", Some(1), Nature::Pure,
        [last: Either("last", "first"), greatest: Either("greatest", "least"), axis: After("axis")];
    Cumulate { axis, reduction, exclusive, reverse } => "cumulate", Some(1), Nature::Pure,
        [reduction: Bare, exclusive: Flag("exclusive"), reverse: Flag("reverse"),
         axis: After("axis")];
    Sort { axis, descending, kept } => "sort", Some(1), Nature::Pure,
        [descending: Either("descending", "ascending"), axis: After("axis"),
         kept: Optional("kept")];

    Bitcast { dtype } => "bitcast", Some(1), Nature::Pure, [dtype: Implied];

    NonZero {} => "non_zero", Some(1), Nature::Pure, [];
    RandomBits { shape } => "random_bits", Some(1), Nature::Pure, [shape: Implied];

    If { results } => "if", Some(1), Nature::Regions(&["then", "else"]), [results: Implied];
    While { turns } => "while", None, Nature::Regions(&["condition", "body"]),
        [turns: Optional("turns")];
    Scan { trip_count, carried, reverse } => "scan", None, Nature::Regions(&["body"]),
        [trip_count: After("trips"), carried: After("carried"), reverse: Flag("reverse")];

    List { operation, results } => "list", None, Nature::Symbols,
        [operation: Bare, results: Implied];

    Call { function, results } => "call", None, Nature::Outside,
        [function: Bare, results: Implied];
    Host { name, attributes, results } => "host", None, Nature::Symbols,
        [name: Bare, attributes: Bare, results: Implied];
}

impl Op {
    /// Whether its results follow from its operands and attributes alone: it neither reads nor
    /// defines symbols as values, has no regions and leaves the graph nowhere.
    pub fn is_pure(&self) -> bool {
        self.nature() == Nature::Pure
    }

    /// Whether it takes some of the bits of unsigned bytes, joins such, or takes what a table has
    /// in their place: machines have that of whole vectors of bytes at once, where products of
    /// bytes meet them.
    pub fn is_field(&self) -> bool {
        use ScalarFunction::{And, Lookup, Or, Shl, Shr};
        let Op::Map { function, dtype } = self else { return false };
        *dtype == DType::U8 && matches!(function, And | Or | Shl | Shr | Lookup)
    }

    /// The axes of operand 0 that it looks up at indices, and the first of the operands that hold
    /// them, one an axis; none if it does not.
    pub fn indexed_axes(&self) -> Option<(&[usize], usize)> {
        match self {
            Op::Gather { axes, .. } => Some((axes, 1)),
            Op::Scatter { axes, .. } => Some((axes, 2)),
            _ => None,
        }
    }

    /// What each of its regions is called in text forms; none but for control flow.
    pub fn region_labels(&self) -> &'static [&'static str] {
        match self.nature() {
            Nature::Regions(labels) => labels,
            Nature::Pure | Nature::Symbols | Nature::Outside => &[],
        }
    }
}

impl IterationSpace {
    /// Axis `k` of the space, as an index expression.
    pub fn axis(k: usize) -> Expr {
        Expr::symbol(SymbolId::new(k))
    }

    /// The last reduced axis whose extent is not 1.
    pub fn innermost_reduced(&self) -> Option<usize> {
        self.innermost_reduced_by(&Expr::is_one)
    }

    /// As [`Self::innermost_reduced`], by what is known of extents that are 1.
    pub fn innermost_reduced_by(&self, is_one: &dyn Fn(&Expr) -> bool) -> Option<usize> {
        (self.parallel..self.extents.len()).rev().find(|&axis| !is_one(&self.extents[axis]))
    }

    /// Whether an operand of this shape walks two axes as one over all their iterations: they are
    /// neighbouring axes of it, others of extent 1 left aside, and it reads the inner one whole.
    pub fn steps_as_one(&self, operand: usize, shape: &[Expr], outer: usize, inner: usize) -> bool {
        self.steps_as_one_by(operand, shape, [outer, inner], &Expr::is_one, &Expr::eq)
    }

    /// As [`Self::steps_as_one`], by what is known of extents that are 1, and of extents that are
    /// the same.
    pub fn steps_as_one_by(
        &self,
        operand: usize,
        shape: &[Expr],
        [outer, inner]: [usize; 2],
        is_one: &dyn Fn(&Expr) -> bool,
        is_same: &dyn Fn(&Expr, &Expr) -> bool,
    ) -> bool {
        let index = &self.operands[operand];
        let place = |axis: usize| index.iter().position(|own| *own == Self::axis(axis));
        let (Some(first), Some(second)) = (place(outer), place(inner)) else { return false };
        let moves = |symbol| symbol == SymbolId::new(outer) || symbol == SymbolId::new(inner);
        let reads = |at: usize| index[at].any_symbol(&mut |symbol| moves(symbol));
        let elsewhere = (0..index.len()).any(|at| at != first && at != second && reads(at));
        first < second
            && !elsewhere
            && shape[first + 1..second].iter().all(is_one)
            && is_same(&shape[second], &self.extents[inner])
    }

    /// Whether an operand of this shape moves by one element with an axis: its index is the axis,
    /// and none but axes of extent 1 follow.
    pub fn is_contiguous(&self, operand: usize, shape: &[Expr], axis: usize) -> bool {
        let is_axis = |(own, extent): (&Expr, &Expr)| *own == Self::axis(axis) && !extent.is_one();
        self.operands[operand].iter().zip(shape).any(is_axis)
            && self.is_contiguous_by(operand, shape, axis, &Expr::is_one)
    }

    /// As [`Self::is_contiguous`], of an axis that is not of extent 1, by what is known of others
    /// that are.
    pub fn is_contiguous_by(
        &self,
        operand: usize,
        shape: &[Expr],
        axis: usize,
        is_one: &dyn Fn(&Expr) -> bool,
    ) -> bool {
        let place = self.operands[operand].iter().rposition(|own| *own == Self::axis(axis));
        place.is_some_and(|place| shape[place + 1..].iter().all(is_one))
    }

    /// How often each element of an operand is read that all results read.
    pub fn reads(&self, operand: usize) -> Expr {
        let moves = |&axis: &usize| {
            let axis = SymbolId::new(axis);
            self.operands[operand].iter().any(|index| index.contains(axis))
        };
        let still = (0..self.parallel).filter(|axis| !moves(axis));
        still.map(|axis| &self.extents[axis]).product()
    }

    /// Whether the elements of an operand of this shape are met so few times, on average, that a
    /// kernel had better make them of less memory than read them.
    pub fn meets_seldom(&self, shape: &[Expr]) -> bool {
        let count = |extents: &[Expr]| extents.iter().product::<Expr>().as_constant();
        let counts = count(&self.extents).zip(count(shape));
        counts.is_some_and(|(met, elements)| met <= MOST_MET.saturating_mul(elements))
    }
}

/// How often each element of an operand is to be read for a transposed copy of it to pay.
pub const READS_PER_COPY: i64 = 8;

/// How often a product meets each element of an operand at most that it makes where it reads it:
/// more rows are not in registers beside what is added up of them.
const MOST_MET: i64 = 4;
