//! One element of a value as a scalar expression over the elements of stored values: what
//! `definitions` says of elementwise primitives. Substituting one into another is what fusion is.

use graph::{NodeId, Op, ValueId};
use loops::build::{cast, equal, guard, less_equal, load};
use loops::{Access, Condition, ScalarExpr};
use sym::Expr;
use tensor::{DType, Scalar, ScalarFunction, Tensor};

use super::index::{extents, linear_index};
use super::write::Writer;
use crate::combination::Term;
use crate::definitions::operand_index;

/// The value that all elements of a tensor have, if they have one.
pub(crate) fn splat(tensor: &Tensor) -> Option<Scalar> {
    if tensor.is_empty() || tensor.dtype() == DType::String {
        return None;
    }
    let first = tensor.get_scalar(0);
    tensor.scalars().all(|scalar| scalar.bits() == first.bits()).then_some(first)
}

impl Writer<'_> {
    /// The element of a value at an index: read where it has memory, else computed.
    pub(crate) fn element(&mut self, value: ValueId, mut index: Vec<Expr>) -> ScalarExpr {
        index.iter_mut().for_each(|expr| self.simplify_in_place(expr));
        self.simple_element(value, index)
    }

    /// As [`Writer::element`], at an index in simplest form.
    fn simple_element(&mut self, value: ValueId, index: Vec<Expr>) -> ScalarExpr {
        // Of no elements none is read, which the checks of free extents alone tell.
        let is_empty = extents(self.function, value).iter().any(Expr::is_zero);
        if is_empty && self.grouping.free_extents {
            return ScalarExpr::Constant(Scalar::zero(self.dtype(value)));
        }
        if let Some(known) = self.literal_element(value, &index) {
            return ScalarExpr::Constant(known);
        }
        let known = self.known.get(&value).and_then(|places| places.get(&index));
        if let Some(known) = known {
            return known.clone();
        }
        let (name, element) = match self.simple_place(value, &index, Access::Read) {
            Some((buffer, place)) => {
                let stored = self.kernel.buffers[buffer].dtype;
                let loaded = convert(load(buffer, place), stored, self.dtype(value));
                // Other points of the nest may read it, too.
                let shared = self.written_out && matches!(loaded, ScalarExpr::Load { .. });
                (shared.then_some("e"), loaded)
            }
            None => {
                let Some((node, _)) = self.function.producer(value) else {
                    panic!("{value} is a parameter without memory");
                };
                let computed = self.define(node, &index);
                let op = &self.function.nodes[node].op;
                let many = matches!(op, Op::Contract { .. }) || self.users[value].len() > 1;
                // What is looked up costs its index, too.
                let looked_up =
                    matches!((op, &computed), (Op::Gather { .. }, ScalarExpr::Load { .. }));
                let shared = many && (looked_up || matches!(computed, ScalarExpr::Apply { .. }));
                (shared.then_some("x"), computed)
            }
        };
        let Some(name) = name.filter(|_| self.guards == 0) else { return element };
        let shared = self.share(name, element, self.dtype(value));
        self.known.entry(value).or_default().insert(index, shared.clone());
        shared
    }

    /// An element of a literal, if it is the same everywhere.
    fn literal_element(&self, value: ValueId, index: &[Expr]) -> Option<Scalar> {
        let (node, _) = self.function.producer(value)?;
        let Op::Literal(tensor) = &self.function.nodes[node].op else { return None };
        let mut place = 0;
        for (at, &extent) in index.iter().zip(tensor.shape()) {
            let at = usize::try_from(at.as_constant()?).ok().filter(|&at| at < extent)?;
            place = place * extent + at;
        }
        (tensor.dtype() != DType::String).then(|| tensor.get_scalar(place))
    }

    /// The element of an operand that a node reads for its result's element at an index.
    pub(crate) fn operand(&mut self, node: NodeId, operand: usize, index: &[Expr]) -> ScalarExpr {
        let value = self.function.nodes[node].operands[operand];
        let ranges = |symbol| self.range(symbol);
        match operand_index(self.function, node, operand, index, &ranges) {
            Some(index) => self.element(value, index),
            None => panic!("{node}: no index of operand {operand}"),
        }
    }

    /// A sum with a literal, written out.
    pub(crate) fn combined(&mut self, node: NodeId, index: &[Expr]) -> ScalarExpr {
        let expansion = self.expansion(node);
        let ranges = |symbol| self.range(symbol);
        let terms =
            expansion.and_then(|it| Some((it.combination.value, it.terms(index, &ranges)?)));
        let Some((value, terms)) = terms else {
            panic!("{node}: a sum has no index expression and no memory");
        };
        let dtype = self.dtype(value);
        let number = |factor: f64| ScalarExpr::Constant(Scalar::from_f64(dtype, factor));
        let apply = |function, arguments| ScalarExpr::Apply { function, dtype, arguments };
        let mut terms = terms.into_iter().peekable();
        let mut sum: Option<ScalarExpr> = None;
        while let Some(Term { factor, index }) = terms.next() {
            let element = self.simple_element(value, index);
            let begins = sum.is_none() && factor == -1.0;
            if let Some(next) = terms.next_if(|next| begins && next.factor == 1.0) {
                let next = self.simple_element(value, next.index);
                sum = Some(apply(ScalarFunction::Sub, vec![next, element]));
                continue;
            }
            sum = Some(match sum {
                None if factor == 1.0 => element,
                None => apply(ScalarFunction::Mul, vec![element, number(factor)]),
                Some(sum) if factor == 1.0 => apply(ScalarFunction::Add, vec![sum, element]),
                Some(sum) if factor == -1.0 => apply(ScalarFunction::Sub, vec![sum, element]),
                Some(sum) if dtype.is_integer() => {
                    let product = apply(ScalarFunction::Mul, vec![element, number(factor)]);
                    apply(ScalarFunction::Add, vec![sum, product])
                }
                Some(sum) => {
                    let arguments = vec![element, number(factor), sum];
                    apply(ScalarFunction::FusedMultiplyAdd, arguments)
                }
            });
        }
        sum.unwrap_or(number(0.0))
    }

    /// A scalar function of the operands' elements. Short floats are computed in f32 and rounded
    /// again, which is what they mean.
    pub(crate) fn mapped(
        &mut self,
        node: NodeId,
        function: ScalarFunction,
        dtype: DType,
        index: &[Expr],
    ) -> ScalarExpr {
        let operands = &self.function.nodes[node].operands;
        let keeps_bits = matches!(
            function,
            ScalarFunction::Select | ScalarFunction::Cast | ScalarFunction::Bitcast
        );
        let wide = |dtype: DType| match dtype.is_float() && dtype.bits() < 32 && !keeps_bits {
            true => DType::F32,
            false => dtype,
        };
        let mut arguments = Vec::new();
        for (number, &operand) in operands.iter().enumerate() {
            let (value, own) = (self.operand(node, number, index), self.dtype(operand));
            arguments.push(convert(value, own, wide(own)));
        }
        convert(ScalarExpr::Apply { function, dtype: wide(dtype), arguments }, wide(dtype), dtype)
    }

    /// The operand's element where there is one, else the filling.
    pub(crate) fn padded(&mut self, node: NodeId, index: &[Expr]) -> ScalarExpr {
        let conditions = self.padding_conditions(node, index);
        if conditions.is_empty() {
            return self.operand(node, 0, index);
        }
        self.guards += 1;
        let (inside, outside) = (self.operand(node, 0, index), self.operand(node, 1, index));
        self.guards -= 1;
        guard(conditions, inside, outside)
    }

    /// What holds of the indices at which a `Pad` shows its operand; what always holds is left out.
    fn padding_conditions(&self, node: NodeId, index: &[Expr]) -> Vec<Condition> {
        let data = &self.function.nodes[node];
        let Op::Pad { low, interior, .. } = &data.op else { return Vec::new() };
        let shape = extents(self.function, data.operands[0]);
        let ranges = |symbol| self.range(symbol);
        let mut conditions = Vec::new();
        for axis in 0..index.len() {
            let step = interior[axis] + 1;
            let past = self.simplify(&(index[axis].clone() - &low[axis]));
            let wrong = i64::from(base::fault::is_seeded("lower.pad"));
            let last = (shape[axis].clone() - (1 + wrong)) * step;
            if !sym::proves_less_equal(&Expr::ZERO, &past, &ranges) {
                conditions.push(less_equal(0, past.clone()));
            }
            if !sym::proves_less_equal(&past, &last, &ranges) {
                conditions.push(less_equal(past.clone(), last));
            }
            if step > 1 {
                conditions.push(equal(past.modulo(&step.into()), 0));
            }
        }
        conditions
    }

    pub(crate) fn gathered(
        &mut self,
        node: NodeId,
        axes: &[usize],
        batch: usize,
        position: usize,
        index: &[Expr],
    ) -> ScalarExpr {
        let data = self.function.nodes[node].operands[0];
        let indices = &self.function.nodes[node].operands[1..];
        let read = self.indexed_place(data, indices, axes, batch, position, index);
        self.element(data, read)
    }

    /// The index into `data` that a `Gather` reads for the element at `index` of its result, and a
    /// `Scatter` writes for the element at `index` of its updates. Indices become checked `Let`s.
    pub(crate) fn indexed_place(
        &mut self,
        data: ValueId,
        indices: &[ValueId],
        axes: &[usize],
        batch: usize,
        position: usize,
        index: &[Expr],
    ) -> Vec<Expr> {
        let shape = extents(self.function, data);
        let own = match indices.first() {
            Some(&first) => extents(self.function, first).len() - batch,
            None => 0,
        };
        let (before, inside) = (batch + position, batch + position + own);
        let place: Vec<Expr> = [&index[..batch], &index[before..inside]].concat();
        let mut kept = index[batch..before].iter().chain(&index[inside..]);
        let mut read = index[..batch].to_vec();
        for (axis, extent) in shape.iter().enumerate().skip(batch) {
            match axes.iter().position(|&indexed| indexed == axis) {
                Some(number) => {
                    let value = self.element(indices[number], place.clone());
                    assert_eq!(self.guards, 0, "an index is checked outside of guards");
                    let at = self.checked_index(value, extent);
                    let is_wrong = base::fault::is_seeded("lower.gather");
                    read.push(if is_wrong { extent.clone() - 1 - &at } else { at });
                }
                None => read.push(kept.next().cloned().unwrap_or(Expr::ZERO)),
            }
        }
        read
    }

    /// The generator splitmix64 (Steele, Lea and Flood, 2014), its state the key and the element's
    /// row-major position.
    pub(crate) fn random_bits(&mut self, node: NodeId, index: &[Expr]) -> ScalarExpr {
        let shape = extents(self.function, self.function.nodes[node].results[0]);
        let position = linear_index(shape, index, &|symbol| self.range(symbol)) + 1;
        let number = |bits: u64| ScalarExpr::Constant(Scalar::u64(bits));
        let apply = |writer: &Self, function, a, b| writer.kernel.apply(function, vec![a, b]);
        let key = self.operand(node, 0, index);
        let position = cast(DType::U64, ScalarExpr::Index(position));
        let step = apply(self, ScalarFunction::Mul, position, number(0x9e37_79b9_7f4a_7c15));
        let mut bits = apply(self, ScalarFunction::Add, key, step);
        let rounds = [(30, 0xbf58_476d_1ce4_e5b9), (27, 0x94d0_49bb_1331_11eb), (31, 1)];
        for (shift, factor) in rounds {
            bits = self.share("bits", bits, DType::U64);
            let shifted = apply(self, ScalarFunction::Shr, bits.clone(), number(shift));
            bits = apply(self, ScalarFunction::Xor, bits, shifted);
            if factor != 1 {
                bits = apply(self, ScalarFunction::Mul, bits, number(factor));
            }
        }
        bits
    }

    /// The element type of a tensor.
    pub(crate) fn dtype(&self, value: ValueId) -> DType {
        match self.function.ty(value).as_tensor() {
            Some(ty) => ty.dtype,
            None => panic!("{value} is not a tensor"),
        }
    }
}

/// A value of one type in another.
pub(crate) fn convert(value: ScalarExpr, from: DType, to: DType) -> ScalarExpr {
    if from == to { value } else { cast(to, value) }
}
