//! Sizes and counts: scratch memory, operations, bytes of parameters.

use std::collections::BTreeMap;

use base::SecondaryMap;
use sym::{Expr, Range, SymbolId};
use tensor::{DType, ScalarFunction};

use crate::domain::{Ranges, walk_domains};
use crate::kernel::{Buffer, BufferId, Kernel, LoopKind, ScalarExpr, Scope, Stmt, SymbolKind};
use crate::visit::own_references;

/// Scratch buffers begin at multiples of this many bytes.
const ALIGNMENT: i64 = 64;

/// No value at all.
const EMPTY: Range = Range::new(i64::MAX, i64::MIN);

/// Where the buffers of scope `Scratch` lie in a worker's scratch memory.
#[derive(Clone, Debug, PartialEq)]
pub struct ScratchLayout {
    /// Bytes from the start of the scratch memory, a multiple of 64; in the order of the arena.
    pub offsets: BTreeMap<BufferId, Expr>,
    /// The size of it all, a multiple of 64.
    pub bytes: Expr,
}

/// Lays out the scratch buffers one behind the other, each rounded up to 64 bytes.
pub fn scratch_layout(kernel: &Kernel) -> ScratchLayout {
    let mut layout = ScratchLayout { offsets: BTreeMap::new(), bytes: Expr::ZERO };
    for (id, buffer) in kernel.buffers.iter().filter(|(_, b)| b.scope == Scope::Scratch) {
        layout.offsets.insert(id, layout.bytes.clone());
        let bytes = byte_size(buffer.dtype, &buffer.shape);
        layout.bytes += &(bytes.ceil_div(&ALIGNMENT.into()) * ALIGNMENT);
    }
    layout
}

impl Kernel {
    /// Iterations of the parallel loop; 1 where there is none.
    #[must_use]
    pub fn parallel_extent(&self) -> Expr {
        match &self.body[..] {
            [Stmt::For(only)] if only.kind == LoopKind::Parallel => only.extent.clone(),
            _ => Expr::ONE,
        }
    }

    /// The values of a dimension of the model; all, of any other symbol.
    #[must_use]
    pub fn shape_range(&self, symbol: SymbolId) -> Range {
        match self.symbols[symbol].kind {
            SymbolKind::Shape { range, .. } => range,
            SymbolKind::Loop | SymbolKind::Value { .. } => Range::ALL,
        }
    }

    /// The value of a symbol by which choices are weighed.
    #[must_use]
    pub fn usual(&self, symbol: SymbolId) -> i64 {
        match self.symbols[symbol].kind {
            SymbolKind::Shape { usual, .. } => usual,
            SymbolKind::Loop | SymbolKind::Value { .. } => Range::USUAL,
        }
    }

    /// Whether an expression is known before the kernel runs: it has no symbols but dimensions.
    #[must_use]
    pub fn is_of_dimensions(&self, expr: &Expr) -> bool {
        let other = |symbol| !matches!(self.symbols[symbol].kind, SymbolKind::Shape { .. });
        !expr.any_symbol(&mut { other })
    }

    /// An expression as a number to weigh choices by: where dimensions are free, with their usual
    /// values.
    #[must_use]
    pub fn weight(&self, expr: &Expr) -> i64 {
        let known = expr.as_constant();
        known.unwrap_or_else(|| expr.usual(&|symbol| self.usual(symbol)))
    }

    /// The kernel with these values for its dimensions, by their positions, as their only ones:
    /// what it weighs then is what it takes.
    #[must_use]
    pub fn with_dimensions(&self, value: &dyn Fn(u32) -> Option<i64>) -> Kernel {
        let mut kernel = self.clone();
        for (_, symbol) in kernel.symbols.iter_mut() {
            if let SymbolKind::Shape { position, range, usual } = &mut symbol.kind
                && let Some(value) = value(*position)
            {
                (*range, *usual) = (Range::constant(value), value);
            }
        }
        kernel
    }

    /// Bytes from the first element of a buffer to behind the last, as [`Buffer::span_bytes`], with
    /// usual values where dimensions are free.
    #[must_use]
    pub fn usual_span_bytes(&self, buffer: BufferId) -> i64 {
        let buffer = &self.buffers[buffer];
        let constant = |exprs: &Vec<Expr>| -> Vec<Expr> {
            exprs.iter().map(|expr| self.weight(expr).into()).collect()
        };
        let strides = buffer.strides.as_ref().map(constant);
        let usual = Buffer { shape: constant(&buffer.shape), strides, ..buffer.clone() };
        usual.span_bytes().unwrap_or(i64::MAX)
    }
}

impl Buffer {
    /// Bytes from the first element to behind the last, where extents and strides are constant. No
    /// stride is negative.
    pub fn span_bytes(&self) -> Option<i64> {
        let extents: Vec<i64> = self.shape.iter().map(Expr::as_constant).collect::<Option<_>>()?;
        if extents.contains(&0) {
            return Some(0);
        }
        let elements = match &self.strides {
            None => extents.iter().product::<i64>(),
            Some(strides) => {
                let mut last = 0;
                for (extent, stride) in extents.iter().zip(strides) {
                    last += (extent - 1) * stride.as_constant()?;
                }
                last + 1
            }
        };
        size(self.dtype, elements.into()).as_constant()
    }
}

/// The number of elements of a shape.
pub fn element_count(shape: &[Expr]) -> Expr {
    shape.iter().product()
}

/// The bytes of a dense tensor.
pub fn byte_size(dtype: DType, shape: &[Expr]) -> Expr {
    size(dtype, element_count(shape))
}

/// The bytes of so many elements.
fn size(dtype: DType, count: Expr) -> Expr {
    count.ceil_div(&dtype.per_byte().into()) * i64::from(dtype.bits().div_ceil(8))
}

/// The number of arithmetic operations that running the kernel takes at most: each scalar function
/// and each update of a reduction counts 1, a fused multiply-add 2, `select`, `cast` and `bitcast`
/// nothing. A `While` counts as one turn, an `If` as the costlier branch.
pub fn operations(kernel: &Kernel) -> Expr {
    block_operations(kernel, &kernel.body, &mut Ranges::new(kernel))
}

fn block_operations(kernel: &Kernel, block: &[Stmt], ranges: &mut Ranges) -> Expr {
    block.iter().map(|stmt| statement_operations(kernel, stmt, ranges)).sum()
}

fn statement_operations(kernel: &Kernel, stmt: &Stmt, ranges: &mut Ranges) -> Expr {
    let of_value = |value| {
        let mut count = Expr::ZERO;
        add_value_operations(kernel, value, &mut count);
        count
    };
    match stmt {
        Stmt::For(inner) => {
            // An extent in terms of variables outside counts as its largest value.
            let most = ranges.bounds(&inner.extent).max;
            let extent = match most == i64::MAX || kernel.is_of_dimensions(&inner.extent) {
                true => inner.extent.clone(),
                false => most.max(0).into(),
            };
            let outside = ranges.descend(inner);
            let once = block_operations(kernel, &inner.body, ranges);
            ranges.ascend(inner, outside);
            extent * &once
        }
        Stmt::Let { value, .. } | Stmt::Store { value, .. } => of_value(value),
        Stmt::Reduce { value, .. } => of_value(value) + 1,
        Stmt::Prefetch { .. } => Expr::ZERO,
        Stmt::If { then, otherwise, .. } => {
            let mut count = |block| block_operations(kernel, block, ranges);
            count(then).max(&count(otherwise))
        }
        Stmt::While { setup, condition, body } => {
            block_operations(kernel, setup, ranges)
                + &of_value(condition)
                + &block_operations(kernel, body, ranges)
        }
    }
}

fn add_value_operations(kernel: &Kernel, value: &ScalarExpr, count: &mut Expr) {
    match value {
        ScalarExpr::Apply { function, arguments, .. } => {
            match function {
                ScalarFunction::FusedMultiplyAdd => *count += 2,
                ScalarFunction::Select | ScalarFunction::Cast | ScalarFunction::Bitcast => {}
                _ => *count += 1,
            }
            arguments.iter().for_each(|value| add_value_operations(kernel, value, count));
        }
        ScalarExpr::Guard { value, otherwise, .. } => {
            let (mut one, mut other) = (Expr::ZERO, Expr::ZERO);
            add_value_operations(kernel, value, &mut one);
            add_value_operations(kernel, otherwise, &mut other);
            *count += &one.max(&other);
        }
        ScalarExpr::Fold { buffer, .. } => {
            if let Some(extent) = kernel.buffers[*buffer].shape.last() {
                *count += extent;
                *count -= 1;
            }
        }
        ScalarExpr::Constant(_)
        | ScalarExpr::Symbol(_)
        | ScalarExpr::Index(_)
        | ScalarExpr::Load { .. } => {}
    }
}

/// For each parameter, the bytes that running the kernel touches at most: the size of the smallest
/// box around all places where it is accessed; axes of symbolic extent count in full.
pub fn bytes_touched(kernel: &Kernel) -> BTreeMap<BufferId, Expr> {
    let mut boxes: SecondaryMap<BufferId, Option<Vec<Range>>> = SecondaryMap::new();
    walk_domains(kernel, &mut |stmt, domain| {
        own_references(stmt, &mut |reference| {
            let buffer = &kernel.buffers[reference.buffer];
            if !matches!(buffer.scope, Scope::Parameter(_)) {
                return;
            }
            let new = || vec![EMPTY; buffer.shape.len()];
            let all = boxes[reference.buffer].get_or_insert_with(new);
            let touched = reference.index.iter().map(|index| domain.ranges.bounds(index));
            let touched = touched.chain(std::iter::repeat(Range::ALL));
            all.iter_mut().zip(touched).for_each(|(all, one)| *all = all.union(one));
        });
    });
    let touched = |id: &BufferId| -> Expr {
        let buffer = &kernel.buffers[*id];
        let Some(axes) = &boxes[*id] else { return Expr::ZERO };
        let extent = |(extent, axis): (&Expr, &Range)| {
            let Some(constant) = extent.as_constant() else { return extent.clone() };
            let inside = axis.intersect(Range::extent(constant));
            (inside.max - inside.min + 1).max(0).into()
        };
        size(buffer.dtype, buffer.shape.iter().zip(axes).map(extent).product())
    };
    kernel.parameters.iter().map(|id| (*id, touched(id))).collect()
}
