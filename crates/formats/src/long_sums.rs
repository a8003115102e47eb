//! Sums of many terms that lie apart are taken in two steps, so that errors of rounding are those
//! of short chains.
//!
//! ```text
//! before: s[c] = sum over n, h, w of x[n, h, w, c]
//! after:  t[n, h, c] = sum over w of x[n, h, w, c]
//!         s[c] = sum over n, h of t[n, h, c]
//! ```
//!
//! A sum along what lies side by side keeps partial results anyway. One that does not is a single
//! chain, whose error grows with the root of its terms: of the mean of a batch's pictures, which
//! all of a channel is then shifted by, it took a tenth of the digits. So does a sum of products
//! that has no operand read again (what backward passes sum of gradients and data); others, matrix
//! products and convolutions, stay as they are. The axes are divided where the two chains are
//! shortest together.
//!
//! Run behind format choice, which decides what lies side by side.

use base::{Diagnostics, Id, Remark};
use graph::{Built, Function, IterationSpace, Node, NodeId, Op, Rewriter, ValueId, rebuild};
use sym::{Expr, SymbolId};
use tensor::{DType, Reduction};

/// Terms of a chain from which on it is divided.
const LONG: i64 = 512;

/// Takes long sums in two steps; each is a remark. None if there are none.
///
/// # Errors
/// An internal error if a rewritten node is ill-typed.
pub fn long_sums(function: &Function, remarks: &mut Vec<Remark>) -> base::Result<Option<Function>> {
    let nodes = &function.regions[function.body].nodes;
    if !nodes.iter().any(|&id| Division::of(function, id).is_some()) {
        return Ok(None);
    }
    let divided = rebuild(function, |rewriter, id| {
        let Some(division) = Division::of(rewriter.source, id) else { return Ok(None) };
        let [inner, outer] = division.terms;
        let message = format!("summed in two steps, of {inner} and {outer} terms");
        remarks.push(Remark { location: rewriter.source.nodes[id].location, message });
        division.emit(rewriter, id).map(Some)
    });
    let ill_typed = |reason| Diagnostics::internal(format!("long sums are ill-typed: {reason}"));
    divided.map(Some).map_err(ill_typed)
}

/// Where the reduced axes of a sum are divided.
struct Division {
    /// Axes of the space up to the first that the first step sums.
    inner: usize,
    /// Terms of both chains.
    terms: [i64; 2],
}

impl Division {
    fn of(function: &Function, id: NodeId) -> Option<Division> {
        let node = &function.nodes[id];
        let space = long_space(node)?;
        let extents: Option<Vec<i64>> = space.extents.iter().map(Expr::as_constant).collect();
        let extents = extents?;
        let terms: i64 = extents[space.parallel..].iter().product();
        let apart = |index: &Vec<Expr>| {
            let last = index.last().and_then(Expr::as_symbol);
            last.is_some_and(|symbol| symbol.index() < space.parallel)
        };
        if terms < LONG || !space.operands.iter().all(apart) || !reads_once(space, &extents) {
            return None;
        }
        let divided = |inner: usize| {
            let terms = |axes: &[i64]| axes.iter().product::<i64>();
            let terms = [terms(&extents[inner..]), terms(&extents[space.parallel..inner])];
            Division { inner, terms }
        };
        let best = (space.parallel + 1..extents.len()).map(divided);
        let best = best.min_by_key(|own| own.terms.iter().sum::<i64>())?;
        best.terms.iter().all(|terms| *terms > 1).then_some(best)
    }

    /// The axes of the first step are those that the second sums, those of the result, and its own.
    fn emit(&self, rewriter: &mut Rewriter<'_>, id: NodeId) -> Built<Vec<ValueId>> {
        let node = &rewriter.source.nodes[id];
        let operands = rewriter.operands(id);
        let Some(space) = long_space(node) else { return Ok(Vec::new()) };
        let (parallel, outer) = (space.parallel, self.inner - space.parallel);
        let moved = |symbol: SymbolId| {
            IterationSpace::axis(match symbol.index() {
                axis if axis < parallel => outer + axis,
                axis if axis < self.inner => axis - parallel,
                axis => axis,
            })
        };
        let index = |index: &Vec<Expr>| {
            let own = index.iter().map(|own| own.as_symbol().map_or(own.clone(), moved));
            own.collect::<Vec<Expr>>()
        };
        let front = [&space.extents[parallel..self.inner], &space.extents[..parallel]].concat();
        let first = IterationSpace {
            extents: [&front[..], &space.extents[self.inner..]].concat(),
            parallel: self.inner,
            operands: space.operands.iter().map(index).collect(),
        };
        let mut op = node.op.clone();
        if let Op::Contract { space, .. } | Op::Reduce { space, .. } = &mut op {
            *space = first;
        }
        rewriter.builder.set_location(node.location);
        let parts = rewriter.builder.add(op, &operands)?[0];
        let axis = |at: usize| match at < outer {
            true => IterationSpace::axis(parallel + at),
            false => IterationSpace::axis(at - outer),
        };
        let second = IterationSpace {
            extents: space.extents[..self.inner].to_vec(),
            parallel,
            operands: vec![(0..self.inner).map(axis).collect()],
        };
        Ok(vec![rewriter.builder.reduce(second, parts, Reduction::Sum, DType::F32)?])
    }
}

/// The space of a sum in f32.
fn long_space(node: &Node) -> Option<&IterationSpace> {
    match &node.op {
        Op::Reduce { space, reduction: Reduction::Sum, accumulator: DType::F32 }
        | Op::Contract { space, accumulator: DType::F32, dtype: DType::F32 } => Some(space),
        _ => None,
    }
}

/// Whether each operand is read once at each point of the space, by axes alone.
fn reads_once(space: &IterationSpace, extents: &[i64]) -> bool {
    space.operands.iter().all(|index| {
        let plain = index.iter().all(|own| own.as_symbol().is_some() || own.is_zero());
        let mut long = (0..extents.len()).filter(|axis| extents[*axis] > 1);
        plain && long.all(|axis| index.contains(&IterationSpace::axis(axis)))
    })
}
