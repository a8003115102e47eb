//! Symbols that nodes define besides `Bind`: extents that change from turn to turn of a loop, that
//! differ between branches, and numbers of turns.
//!
//! A loop's region has a symbol as an extent of a parameter where the operand has another extent;
//! an `If` has a symbol as an extent of a result where its regions differ. Each such symbol is
//! defined there and nowhere else: inside of a loop it is the extent at the turn, behind the node
//! that of the result.

use sym::{Expr, SymbolId};

use crate::function::{Function, NodeId, RegionId, Type, ValueId};
use crate::infer::RegionType;
use crate::op::Op;

/// The symbols which a type has in the place of other extents of `special`; none unless it is that
/// type but for those.
pub(crate) fn generalised(general: &Type, special: &Type) -> Option<Vec<SymbolId>> {
    match (general, special) {
        (Type::Tensor(a), Type::Tensor(b)) => {
            let is_alike = a.dtype == b.dtype && a.shape.len() == b.shape.len();
            is_alike.then(|| replaced(&a.shape, &b.shape)).flatten()
        }
        _ => general.accepts(special).then(Vec::new),
    }
}

fn replaced(general: &[Expr], special: &[Expr]) -> Option<Vec<SymbolId>> {
    let differing = general.iter().zip(special).filter(|(general, special)| general != special);
    differing.map(|(general, _)| general.as_symbol()).collect()
}

/// As [`generalised`], of types one by one; none unless there are as many.
pub(crate) fn all_generalised(general: &[Type], special: &[Type]) -> Option<Vec<SymbolId>> {
    if general.len() != special.len() {
        return None;
    }
    let each = general.iter().zip(special).map(|(general, special)| generalised(general, special));
    let mut symbols: Vec<SymbolId> = each.collect::<Option<Vec<_>>>()?.concat();
    symbols.sort_unstable();
    symbols.dedup();
    Some(symbols)
}

/// The symbols that a node defines, each once; none of ill-typed nodes.
pub(crate) fn defined_by(op: &Op, operands: &[Type], regions: &[RegionType]) -> Vec<SymbolId> {
    let carried = |first: usize, count: usize| {
        let parameters = regions[0].parameters.get(first..first + count)?;
        all_generalised(parameters, operands.get(..count)?)
    };
    let found = match op {
        Op::Bind { symbol, .. } => Some(vec![*symbol]),
        Op::If { results } => regions.iter().try_fold(Vec::new(), |mut all, region| {
            all.extend(all_generalised(results, &region.results)?);
            Some(all)
        }),
        Op::While { turns } => {
            carried(0, operands.len()).map(|all| all.into_iter().chain(*turns).collect())
        }
        Op::Scan { carried: count, .. } => carried(1, *count),
        _ => None,
    };
    let mut symbols = found.unwrap_or_default();
    symbols.sort_unstable();
    symbols.dedup();
    symbols
}

impl Function {
    /// Whether a node is left to whoever runs a plan: it defines symbols, takes or gives lists or
    /// strings, or has regions with such nodes.
    pub fn is_interpreted(&self, id: NodeId) -> bool {
        let node = &self.nodes[id];
        let mut values = node.operands.iter().chain(&node.results);
        matches!(node.op, Op::List { .. } | Op::Host { .. })
            || values.any(|&value| !self.ty(value).is_compiled())
            || !self.symbols_defined_by(id).is_empty()
            || node.regions.iter().any(|&region| self.has_interpreted(region))
    }

    /// Whether nodes of a region are interpreted.
    pub fn has_interpreted(&self, region: RegionId) -> bool {
        self.regions[region].nodes.iter().any(|&id| self.is_interpreted(id))
    }

    /// The symbols that a node and all nodes in its regions define: what is known behind it.
    pub fn symbols_known_behind(&self, node: NodeId) -> Vec<SymbolId> {
        let mut symbols = self.symbols_defined_by(node);
        for &region in &self.nodes[node].regions {
            let inner = self.regions[region].nodes.iter();
            symbols.extend(inner.flat_map(|&id| self.symbols_known_behind(id)));
        }
        symbols
    }

    /// The symbols that a node defines: by itself, not by nodes of its regions.
    pub fn symbols_defined_by(&self, node: NodeId) -> Vec<SymbolId> {
        let node = &self.nodes[node];
        if let Op::Bind { symbol, .. } = node.op {
            return vec![symbol];
        }
        if matches!(node.op, Op::List { .. } | Op::Host { .. }) {
            let extents = |values: &[ValueId]| -> Vec<SymbolId> {
                let exprs = values.iter().flat_map(|&value| self.ty(value).exprs());
                exprs.flat_map(Expr::symbols).collect()
            };
            let known = extents(&node.operands);
            let mut found = extents(&node.results);
            found.retain(|symbol| !known.contains(symbol));
            found.sort_unstable();
            found.dedup();
            return found;
        }
        if node.regions.is_empty() {
            return Vec::new();
        }
        let operands: Vec<Type> = node.operands.iter().map(|&id| self.ty(id).clone()).collect();
        let regions: Vec<RegionType> =
            node.regions.iter().map(|&region| self.region_type(region)).collect();
        defined_by(&node.op, &operands, &regions)
    }
}
