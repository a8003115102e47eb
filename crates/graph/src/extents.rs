//! Extents under construction: their ranges and texts, and those that differ as expressions but may
//! be equal, which an assumption makes equal, to be checked at entry.

use std::collections::BTreeSet;

use base::IntoTree;
use sym::{Expr, Range, SymbolId};

use crate::builder::{Assumed, Built, FunctionBuilder};
use crate::function::Assumption;

impl FunctionBuilder {
    /// The range of a symbol.
    pub fn range(&self, symbol: SymbolId) -> Range {
        self.function().symbols[symbol].range
    }

    /// The least and the greatest value of an expression.
    pub fn bounds(&self, expr: &Expr) -> (i64, i64) {
        let bounds = expr.bounds(&|symbol| self.range(symbol));
        (bounds.min, bounds.max)
    }

    /// An expression with the user's names for the symbols.
    pub fn text(&self, expr: &Expr) -> String {
        expr.display(&|symbol| self.function().symbols[symbol].name.clone()).to_string()
    }

    /// A shape with the user's names for the symbols.
    pub fn shape_text(&self, shape: &[Expr]) -> String {
        let extents: Vec<String> = shape.iter().map(|extent| self.text(extent)).collect();
        format!("[{}]", extents.join(", "))
    }

    /// Assumes two extents to be equal; refuses if they cannot be.
    pub fn assume_equal(&mut self, a: &Expr, b: &Expr) -> Built<()> {
        if self.equate(a, b) {
            return Ok(());
        }
        let reason = format!("extents {} and {} differ", self.text(a), self.text(b));
        Err(reason + &self.settled_text(&[a, b]))
    }

    /// Assumes two expressions to be equal; false if they cannot be with what is assumed so far.
    pub fn equate(&mut self, a: &Expr, b: &Expr) -> bool {
        if a == b {
            return true;
        }
        let difference = (a - b).substitute(&mut |symbol| {
            self.assumed.settled.get(&symbol).map(|&value| Expr::from(value))
        });
        let (low, high) = self.bounds(&difference);
        if low > 0 || high < 0 {
            return false;
        }
        if let [symbol] = difference.symbols()[..]
            && let Some(coefficient @ ..=-1 | coefficient @ 1..) =
                difference.linear_coefficient(symbol)
        {
            let constant = difference.constant_part();
            let value = constant.checked_div(coefficient).and_then(i64::checked_neg);
            let Some(value) = value.filter(|_| constant % coefficient == 0) else { return false };
            self.assumed.settled.insert(symbol, value);
        }
        let mirrored = Assumption::Equal(b.clone(), a.clone());
        if !self.function().assumptions.contains(&mirrored) {
            self.assume(Assumption::Equal(a.clone(), b.clone()));
        }
        true
    }

    /// What is assumed so far, for [`Self::forget_since`].
    #[must_use]
    pub fn assumed(&self) -> Assumed {
        Assumed { count: self.function().assumptions.len(), ..self.assumed.clone() }
    }

    /// Forgets what was assumed for nodes that are left out.
    pub fn forget_since(&mut self, before: Assumed) {
        self.truncate_assumptions(before.count);
        self.assumed = before;
    }

    /// What assumptions have made of the symbols in expressions, to end a reason with.
    pub fn settled_text(&self, exprs: &[&Expr]) -> String {
        let symbols: BTreeSet<SymbolId> = exprs.iter().flat_map(|expr| expr.symbols()).into_set();
        let settled = symbols.iter().filter_map(|symbol| {
            let value = self.assumed.settled.get(symbol)?;
            Some(format!("; {} is {value} for nodes before", self.text(&Expr::symbol(*symbol))))
        });
        settled.collect()
    }

    /// The shape to which shapes broadcast as NumPy does.
    pub fn common_shape(&mut self, shapes: &[&[Expr]]) -> Built<Vec<Expr>> {
        let rank = shapes.iter().map(|shape| shape.len()).max().unwrap_or(0);
        let mut result = vec![Expr::from(1); rank];
        for shape in shapes {
            // The last axes of all stand above each other.
            for (axis, extent) in (rank - shape.len()..).zip(shape.iter()) {
                let common = result[axis].clone();
                let is_one = |extent: &Expr| extent.as_constant() == Some(1);
                if is_one(&common) {
                    result[axis] = extent.clone();
                } else if !is_one(extent) && *extent != common {
                    self.assume_equal(&common, extent)
                        .map_err(|reason| format!("axis {axis} of the common shape: {reason}"))?;
                    if extent.as_constant().is_some() {
                        result[axis] = extent.clone();
                    }
                }
            }
        }
        Ok(result)
    }
}
