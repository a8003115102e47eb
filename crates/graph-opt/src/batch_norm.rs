//! Affine folding: factors and terms that are constants behind a contraction move into its constant
//! operand and one bias.
//!
//! before: `(contract(x, w) + b) * s + t`
//! after:  `contract(x, w * s) + (b * s + t)`
//!
//! before: `x * a * s`, `(x * a + y * b) * s`
//! after:  `x * (a * s)`, `fma(x, a * s, y * (b * s))`
//!
//! So batch normalisation behind a convolution disappears: what is left to do at run time is the
//! convolution and a bias; the products of weights fold into `setup`. A factor may vary only along
//! axes of the result that the constant operand reads one for one, such as its output channels, and
//! two factors become one only where that varies along no more axes than one of them does. The
//! contraction and what stands between must have no other reader. A sum of two quantised tensors
//! that is quantised again is divided no more. Sums round differently, within the usual error of
//! the contraction, or of products and sums of two terms.

use std::collections::BTreeSet;
use std::sync::Arc;

use base::{Id, InOrder, PassContext, Result, SecondaryMap};
use graph::{Built, Function, Node, Op, ValueId, axis_groups, rebuild};
use sym::Expr;
use tensor::ScalarFunction::{Add, Cast, Div, FusedMultiplyAdd, Mul, Neg, Sub};
use tensor::{DType, ScalarFunction};

use crate::maker::{Maker, Session};
use crate::{ill_typed, permutation, rules};

/// Folds constant factors and terms into contractions.
pub(crate) fn run(function: &mut Arc<Function>, context: &mut PassContext) -> Result<()> {
    if !may_fold(function) {
        return Ok(());
    }
    let rules = rules::enabled(context);
    let mut session = Session::new(&rules, true);
    let readers = function.users();
    // Values of the new function that have several readers. What the pass makes in between has one.
    let mut shared: SecondaryMap<ValueId, bool> = SecondaryMap::new();
    let folded = rebuild(function, |rewriter, id| {
        let node = &rewriter.source.nodes[id];
        if !node.regions.is_empty() {
            return Ok(None);
        }
        let operands = rewriter.operands(id);
        let mut folding =
            Folding { maker: session.maker(rewriter, node.location), shared: &shared };
        let results = match folding.node(&node.op, &operands)? {
            Some(value) => vec![value],
            None => folding.maker.make(&node.op, &operands)?,
        };
        for (&old, &new) in node.results.iter().zip(&results) {
            shared[new] |= readers[old].len() > 1;
        }
        Ok(Some(results))
    });
    *function = folded.map(Arc::new).map_err(|reason| ill_typed("batch_norm", reason))?;
    Ok(())
}

/// Whether a contraction has a constant factor or two constant terms behind it that alone read it:
/// many functions have none such, and need not be made anew.
fn may_fold(function: &Function) -> bool {
    let operand = |value: ValueId, number: usize| {
        let (node, _) = function.producer(value)?;
        function.nodes[node].operands.get(number).copied()
    };
    let is_contraction = |value: ValueId| {
        let inner = match function.op(value) {
            Some(Op::Reshape { .. }) => operand(value, 0),
            _ => Some(value),
        };
        matches!(inner.and_then(|inner| function.op(inner)), Some(Op::Contract { .. }))
    };
    let is_sum = |op: &Op| matches!(op, Op::Map { function: Add | Sub, .. });
    let behind = |value: ValueId| {
        let sum = function.op(value).is_some_and(is_sum);
        sum && operand(value, 0).is_some_and(is_contraction)
    };
    let is_product =
        |value: ValueId| matches!(function.op(value), Some(Op::Map { function: Mul, .. }));
    let of_products = |value: ValueId| {
        let products = |number: usize| operand(value, number).is_some_and(is_product);
        function.op(value).is_some_and(is_sum) && products(0) && products(1)
    };
    // Products and sums behind contractions, and of products: what they read of these, and the
    // other operand.
    let decisive = |node: &Node| match (&node.op, &node.operands[..]) {
        (Op::Map { function: Mul | Div, .. }, &[value, constant])
            if is_contraction(value)
                || behind(value)
                || is_product(value)
                || of_products(value) =>
        {
            Some((value, constant))
        }
        (op, &[value, constant]) if is_sum(op) && behind(value) => Some((value, constant)),
        _ => None,
    };
    let mut decisive = function.nodes.values().filter_map(decisive).peekable();
    if decisive.peek().is_none() {
        return false;
    }
    let (constants, readers) = (function.constant_values(), function.users());
    let is_constant = |value: ValueId| {
        let repeated = matches!(function.op(value), Some(Op::Broadcast { .. }));
        constants.contains(operand(value, 0).filter(|_| repeated).unwrap_or(value))
    };
    let factors =
        |value: ValueId| [0, 1].map(|number| operand(value, number)).into_iter().flatten();
    // Factors become one where each product, or both of a sum, has one that is constant.
    let has_constants = |value: ValueId| {
        if is_product(value) {
            return factors(value).any(is_constant);
        }
        !of_products(value) || factors(value).all(|product| factors(product).any(is_constant))
    };
    decisive.any(|(value, constant)| {
        readers[value].len() == 1 && is_constant(constant) && has_constants(value)
    })
}

struct Folding<'a, 'm, 's> {
    maker: Maker<'m, 's>,
    shared: &'a SecondaryMap<ValueId, bool>,
}

impl Folding<'_, '_, '_> {
    /// What stands for a product or sum with a constant.
    fn node(&mut self, op: &Op, operands: &[ValueId]) -> Built<Option<ValueId>> {
        let (Op::Map { function, dtype }, &[value, constant]) = (op, operands) else {
            return Ok(None);
        };
        let usual = dtype.is_float() && self.maker.is_fixed(constant);
        if !usual || self.maker.is_fixed(value) || self.is_shared(value) {
            return Ok(None);
        }
        match function {
            Mul | Div => match self.factor(*function, value, constant, *dtype)? {
                None => self.factor_of_products(*function, value, constant),
                found => Ok(found),
            },
            Add | Sub => self.term(*function, value, constant),
            _ => Ok(None),
        }
    }

    fn is_shared(&self, value: ValueId) -> bool {
        self.shared[value]
    }

    /// The function and operands of a value that is a sum with a constant.
    fn as_sum(&mut self, value: ValueId) -> Option<(ScalarFunction, ValueId, ValueId)> {
        let function = self.maker.function();
        let (id, _) = function.producer(value)?;
        let node = &function.nodes[id];
        match (&node.op, &node.operands[..]) {
            (Op::Map { function: function @ (Add | Sub), .. }, &[x, b]) => {
                let function = *function;
                self.maker.is_fixed(b).then_some((function, x, b))
            }
            _ => None,
        }
    }

    /// `(contract(x, w) + b) * s`
    fn factor(
        &mut self,
        function: ScalarFunction,
        value: ValueId,
        s: ValueId,
        dtype: DType,
    ) -> Built<Option<ValueId>> {
        let sum = self.as_sum(value).filter(|&(_, x, _)| !self.is_shared(x));
        let core = sum.map_or(value, |(_, x, _)| x);
        let Some(scaled) = self.scale(function, core, s, dtype)? else { return Ok(None) };
        let Some((sign, _, b)) = sum else { return Ok(Some(scaled)) };
        self.maker.definition(value);
        let is_wrong = base::fault::is_seeded("graph-opt.batch_norm");
        let bias = if is_wrong { b } else { self.maker.map(function, &[b, s])? };
        self.maker.map(sign, &[scaled, bias]).map(Some)
    }

    /// `x * a * s`, `(x * a + y * b) * s`
    fn factor_of_products(
        &mut self,
        function: ScalarFunction,
        value: ValueId,
        s: ValueId,
    ) -> Built<Option<ValueId>> {
        let mark = self.maker.mark();
        let (sign, terms) = match self.maker.definition(value) {
            Some((Op::Map { function: sign @ (Add | Sub), .. }, terms)) => (Some(sign), terms),
            _ => (None, vec![value]),
        };
        let products: Option<Vec<_>> =
            terms.into_iter().map(|term| self.as_product(term)).collect();
        let Some(products) = products else {
            self.maker.forget(mark);
            return Ok(None);
        };
        for &(_, a) in &products {
            let (own, other) = (self.axes_of(a)?, self.axes_of(s)?);
            if !own.is_subset(&other) && !other.is_subset(&own) {
                self.maker.forget(mark);
                return Ok(None);
            }
        }
        let mut scaled = Vec::new();
        for (x, a) in products {
            scaled.push((x, self.maker.map(function, &[a, s])?));
        }
        let [(x, a), (y, b)] = scaled[..] else {
            let (x, a) = scaled[0];
            return self.maker.map(Mul, &[x, a]).map(Some);
        };
        let b = if sign == Some(Sub) { self.maker.map(Neg, &[b])? } else { b };
        let (x, from_x) = self.without_zero_point(x, a)?;
        let (y, from_y) = self.without_zero_point(y, b)?;
        let second = match (from_x, from_y) {
            (None, None) => self.maker.map(Mul, &[y, b])?,
            (Some(one), None) | (None, Some(one)) => {
                self.maker.map(FusedMultiplyAdd, &[y, b, one])?
            }
            (Some(one), Some(other)) => {
                let both = self.maker.map(Add, &[one, other])?;
                self.maker.map(FusedMultiplyAdd, &[y, b, both])?
            }
        };
        self.maker.map(FusedMultiplyAdd, &[x, a, second]).map(Some)
    }

    /// The axes along which a value may vary.
    fn axes_of(&mut self, value: ValueId) -> Built<BTreeSet<usize>> {
        let mark = self.maker.mark();
        let (small, axes) = match self.maker.definition(value) {
            Some((Op::Broadcast { axes, .. }, x)) => (x[0], axes),
            _ => (value, permutation::identity(self.maker.shape(value)?.len())),
        };
        self.maker.forget(mark);
        let extents = self.maker.shape(small)?;
        let varies = axes.iter().zip(&extents).filter(|(_, extent)| !extent.is_one());
        Ok(varies.map(|(&axis, _)| axis).collect())
    }

    /// Of a value that is to be multiplied, an integer of 8 bits less a zero point: the integer,
    /// and what the zero point adds to the product. Others stay: `x * a - c * a` may cancel where
    /// `(x - c) * a` does not.
    fn without_zero_point(&mut self, x: ValueId, a: ValueId) -> Built<(ValueId, Option<ValueId>)> {
        let Some((Op::Map { function: Sub, .. }, operands)) = self.maker.definition(x) else {
            return Ok((x, None));
        };
        let [integer, zero] = operands[..] else { return Ok((x, None)) };
        let byte = match self.maker.definition(integer) {
            Some((Op::Map { function: Cast, .. }, of)) => self.maker.dtype(of[0])?.bits() == 8,
            _ => false,
        };
        if !byte || !self.maker.is_fixed(zero) {
            return Ok((x, None));
        }
        let less = self.maker.map(Mul, &[zero, a])?;
        Ok((integer, Some(self.maker.map(Neg, &[less])?)))
    }

    /// The operands of a value that is a product with a constant.
    fn as_product(&mut self, value: ValueId) -> Option<(ValueId, ValueId)> {
        match self.maker.definition(value) {
            Some((Op::Map { function: Mul, .. }, operands)) => {
                let (x, a) = (operands[0], operands[1]);
                (self.maker.is_fixed(a) && !self.maker.is_fixed(x)).then_some((x, a))
            }
            _ => None,
        }
    }

    /// `(contract(x, w) + b) + t`
    fn term(
        &mut self,
        function: ScalarFunction,
        value: ValueId,
        t: ValueId,
    ) -> Built<Option<ValueId>> {
        let Some((sign, x, b)) = self.as_sum(value) else { return Ok(None) };
        if self.contraction(x).is_none() {
            return Ok(None);
        }
        self.maker.definition(value);
        let b = if sign == Sub { self.maker.map(Neg, &[b])? } else { b };
        let bias = self.maker.map(function, &[b, t])?;
        self.maker.map(Add, &[x, bias]).map(Some)
    }

    /// The contraction that a value is, or is a reshape of.
    fn contraction(&self, value: ValueId) -> Option<ValueId> {
        let function = self.maker.function();
        match function.op(value)? {
            Op::Contract { .. } => Some(value),
            Op::Reshape { .. } => {
                let (id, _) = function.producer(value)?;
                let inner = function.nodes[id].operands[0];
                let fits = matches!(function.op(inner), Some(Op::Contract { .. }));
                (fits && !self.is_shared(inner)).then_some(inner)
            }
            _ => None,
        }
    }

    /// A contraction, or a reshape of one, with a factor in its constant operand.
    fn scale(
        &mut self,
        function: ScalarFunction,
        core: ValueId,
        s: ValueId,
        dtype: DType,
    ) -> Built<Option<ValueId>> {
        let Some(value) = self.contraction(core) else { return Ok(None) };
        let mark = self.maker.mark();
        let Some((op, mut operands)) = self.maker.definition(value) else { return Ok(None) };
        let constant = [0, 1].map(|number| self.maker.is_constant(operands[number]));
        let number = usize::from(constant[1]);
        let w = operands[number];
        let exact = self.maker.dtype(w)? == dtype && self.maker.dtype(value)? == dtype;
        let factor = match constant[0] != constant[1] && exact {
            true => self.factor_of_operand(&op, number, w, core, s)?,
            false => None,
        };
        let Some(factor) = factor else {
            self.maker.forget(mark);
            return Ok(None);
        };
        operands[number] = self.maker.map(function, &[w, factor])?;
        let scaled = self.maker.one(&op, &operands)?;
        let shape = self.maker.shape(core)?;
        self.maker.reshape(scaled, &shape).map(Some)
    }

    /// The factor `s` of a contraction's result, or of a reshape of it, as one of its operand `w`.
    fn factor_of_operand(
        &mut self,
        op: &Op,
        number: usize,
        w: ValueId,
        core: ValueId,
        s: ValueId,
    ) -> Built<Option<ValueId>> {
        let Op::Contract { space, .. } = op else { return Ok(None) };
        let (small, axes) = match self.maker.definition(s) {
            Some((Op::Broadcast { axes, .. }, x)) => (x[0], axes),
            _ => (s, permutation::identity(self.maker.shape(s)?.len())),
        };
        let result = self.maker.shape(core)?;
        let extents = self.maker.shape(small)?;
        let (w_shape, index) = (self.maker.shape(w)?, &space.operands[number]);
        let Some(groups) = axis_groups(&space.extents[..space.parallel], &result) else {
            return Ok(None);
        };
        // Where the operand reads each axis along which the factor varies.
        let mut places: Vec<usize> = Vec::new();
        for (&axis, _) in axes.iter().zip(&extents).filter(|(_, extent)| !extent.is_one()) {
            let group = groups.iter().find(|group| group.1 == [axis]);
            let Some((of_space, _)) = group else { return Ok(None) };
            for &axis in of_space {
                let own = |index: &Expr| index.as_symbol().is_some_and(|s| s.index() == axis);
                let Some(place) = index.iter().position(own) else { return Ok(None) };
                if w_shape[place] != space.extents[axis] {
                    return Ok(None);
                }
                places.push(place);
            }
        }
        let split = self.maker.reshape(small, permutation::apply(&places, &w_shape))?;
        let mut order = permutation::identity(places.len());
        order.put_in_order_by_key(|&axis| places[axis]);
        let split = self.maker.transpose(split, &order)?;
        places.sort_unstable();
        self.maker.broadcast(split, &w_shape, &places).map(Some)
    }
}
