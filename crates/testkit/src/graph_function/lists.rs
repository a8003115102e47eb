//! Nodes on sequences and optional values: made, changed, carried by loops, chosen by branches. A
//! tensor that is taken out of one is reduced, so that no other node meets its extents.

use graph::{ElementType, ListOperation, Op, RegionId, TensorType, Type, ValueId};
use sym::{Expr, Range};
use tensor::{DType, Scalar, ScalarFunction, Tensor};

use super::{Grown, Growth, LARGEST};

/// A list grows no longer than this by what is inserted one by one.
const LONGEST: usize = 6;

/// A list that nodes may read.
#[derive(Clone)]
pub(super) struct KnownList {
    pub(super) value: ValueId,
    /// Of the tensors in it.
    dtype: DType,
    rank: usize,
    /// Their shape, where all have the same.
    shape: Option<Vec<Expr>>,
    /// How many values it surely holds, and how many at most.
    least: usize,
    most: usize,
    /// Whether every correct compiler gives it the same bits.
    stable: bool,
    /// Whether it is a list of lists, which hold tensors and at least one each.
    is_nested: bool,
}

impl Growth {
    /// One of the above. Lists are kept apart from tensors; what is no tensor gives none.
    pub(super) fn listed(&mut self) -> Grown {
        match self.below(12) {
            0 | 1 => self.made_list().and(None),
            2 => self.longer_list().and(None),
            3 => self.shorter_list().and(None),
            4 | 5 => self.taken(),
            6 => self.length(),
            7 => self.joined(),
            8 => self.carried_list().and(None),
            9 => self.waited_list().and(None),
            10 => self.chosen_list().and(None),
            _ => self.optional(),
        }
    }

    fn list_node(
        &mut self,
        operation: ListOperation,
        operands: &[ValueId],
        result: Type,
    ) -> Option<ValueId> {
        let op = Op::List { operation, results: vec![result] };
        Some(self.builder.add(op, operands).ok()?[0])
    }

    /// A tensor type whose extents a node defines.
    fn unknown(&mut self, dtype: DType, rank: usize) -> Type {
        let range = Range::new(0, LARGEST * LONGEST as i64);
        let mut extent = |_| Expr::symbol(self.builder.new_symbol("taken", range));
        Type::Tensor(TensorType { dtype, shape: (0..rank).map(&mut extent).collect() })
    }

    /// The type of a list.
    fn list_type(list: &KnownList) -> Type {
        let tensor = ElementType::Tensor { dtype: list.dtype, rank: Some(list.rank) };
        Type::Sequence(Box::new(match list.is_nested {
            true => ElementType::Sequence(Box::new(tensor)),
            false => tensor,
        }))
    }

    fn any_list(&mut self, wanted: impl Fn(&KnownList) -> bool) -> Option<KnownList> {
        let fitting: Vec<KnownList> = self.lists.iter().filter(|it| wanted(it)).cloned().collect();
        (!fitting.is_empty()).then(|| fitting[self.below(fitting.len())].clone())
    }

    /// A tensor that a list may hold besides what it holds.
    fn fitting(&mut self, list: &KnownList) -> Option<(ValueId, bool)> {
        let (dtype, rank) = (list.dtype, list.rank);
        let known = self.any_where(|growth, known| {
            let ty = growth.ty(known.value);
            ty.dtype == dtype && ty.shape.len() == rank
        })?;
        Some((known.value, known.stable))
    }

    /// A place among so many values; some are counted from the end.
    fn place(&mut self, places: usize, count: usize) -> ValueId {
        let place = self.below(places) as i64;
        let from_end = place < count as i64 && self.below(2) == 0;
        let place = if from_end { place - count as i64 } else { place };
        self.builder.literal(Tensor::scalar(Scalar::i64(place)))
    }

    /// A region that ends with what a function gives; none where that is nothing.
    fn region(
        &mut self,
        parameters: &[Type],
        body: impl FnOnce(&mut Growth, &[ValueId]) -> Option<Vec<ValueId>>,
    ) -> Option<RegionId> {
        let parameters = self.builder.begin_region(parameters);
        let results = body(self, &parameters);
        let region = self.builder.end_region(results.as_deref().unwrap_or_default());
        results.map(|_| region)
    }

    // --- lists ---

    /// A sequence of tensors, or of lists.
    fn made_list(&mut self) -> Option<()> {
        if self.below(3) == 0 && self.nested_list().is_some() {
            return Some(());
        }
        let first = self.any_number()?;
        let TensorType { dtype, shape } = self.ty(first.value);
        let mut list = KnownList {
            value: first.value,
            dtype,
            rank: shape.len(),
            shape: Some(shape.to_vec()),
            least: 1,
            most: 1,
            stable: first.stable,
            is_nested: false,
        };
        let mut values = vec![first.value];
        for _ in 0..self.below(3) {
            let (value, stable) = self.fitting(&list)?;
            list.stable &= stable;
            self.narrow(&mut list, value);
            values.push(value);
        }
        (list.least, list.most) = (values.len(), values.len());
        list.value = self.list_node(ListOperation::Sequence, &values, Self::list_type(&list))?;
        self.lists.push(list);
        Some(())
    }

    /// A sequence of lists that hold something.
    fn nested_list(&mut self) -> Option<()> {
        let first = self.any_list(|list| !list.is_nested && list.least > 0)?;
        let like = |other: &KnownList| {
            let is_alike = (other.dtype, other.rank) == (first.dtype, first.rank);
            is_alike && !other.is_nested && other.least > 0
        };
        let second = self.any_list(like)?;
        let stable = first.stable && second.stable;
        let shape = first.shape.clone().filter(|shape| second.shape.as_ref() == Some(shape));
        let mut list = KnownList { is_nested: true, least: 2, most: 2, stable, shape, ..first };
        let values = [first.value, second.value];
        list.value = self.list_node(ListOperation::Sequence, &values, Self::list_type(&list))?;
        self.lists.push(list);
        Some(())
    }

    /// What a list with a tensor more has of its shape.
    fn narrow(&self, list: &mut KnownList, value: ValueId) {
        let shape = self.ty(value).shape.to_vec();
        list.shape = list.shape.take().filter(|known| *known == shape);
    }

    fn longer_list(&mut self) -> Option<()> {
        let list = self.any_list(|list| !list.is_nested && list.most < LONGEST)?;
        let (value, stable) = self.fitting(&list)?;
        let mut longer = self.with_inserted(&list, value)?;
        longer.stable &= stable;
        self.lists.push(longer);
        Some(())
    }

    /// The list with a value at some place.
    fn with_inserted(&mut self, list: &KnownList, value: ValueId) -> Option<KnownList> {
        let mut longer = KnownList { least: list.least + 1, most: list.most + 1, ..list.clone() };
        self.narrow(&mut longer, value);
        let mut operands = vec![list.value, value];
        if self.below(3) > 0 {
            operands.push(self.place(list.least + 1, list.least));
        }
        longer.value = self.list_node(ListOperation::Insert, &operands, Self::list_type(list))?;
        Some(longer)
    }

    fn shorter_list(&mut self) -> Option<()> {
        let list = self.any_list(|list| list.least > 0)?;
        let mut operands = vec![list.value];
        if self.below(3) > 0 {
            operands.push(self.place(list.least, list.least));
        }
        let value = self.list_node(ListOperation::Erase, &operands, Self::list_type(&list))?;
        self.lists.push(KnownList { value, least: list.least - 1, most: list.most - 1, ..list });
        Some(())
    }

    /// A counted loop that carries a list, and perhaps a list of what it was at each turn.
    fn carried_list(&mut self) -> Option<()> {
        let list = self.any_list(|list| !list.is_nested && list.most + 2 < LONGEST)?;
        let (value, stable) = self.fitting(&list)?;
        let (turns, keeps_all) = (1 + self.below(3), self.below(2) == 0);
        let ty = Self::list_type(&list);
        let mut all = KnownList { is_nested: true, ..list.clone() };
        let all_type = Self::list_type(&all);
        let mut operands = vec![list.value];
        let counter = Type::Tensor(TensorType { dtype: DType::I64, shape: Vec::new().into() });
        let mut types = vec![counter, ty];
        if keeps_all {
            operands.push(self.list_node(ListOperation::Sequence, &[], all_type.clone())?);
            types.push(all_type.clone());
        }
        let mut longer = list.clone();
        let body = self.region(&types, |growth, parameters| {
            let item = growth.builder.map(ScalarFunction::Neg, &[value]).ok()?;
            longer =
                growth.with_inserted(&KnownList { value: parameters[1], ..list.clone() }, item)?;
            let mut results = vec![longer.value];
            if keeps_all {
                let operands = [parameters[2], longer.value];
                results.push(growth.list_node(ListOperation::Insert, &operands, all_type)?);
            }
            Some(results)
        })?;
        let op = Op::Scan {
            trip_count: Expr::from(turns),
            carried: operands.len(),
            reverse: self.below(2) == 0,
        };
        let results = self.builder.add_with_regions(op, &operands, &[body]).ok()?;
        longer.stable &= stable;
        (longer.least, longer.most) = (list.least + turns, list.most + turns);
        longer.value = results[0];
        if keeps_all {
            (all.least, all.most, all.stable) = (turns, turns, longer.stable);
            (all.shape, all.value) = (longer.shape.clone(), results[1]);
            self.lists.push(all);
        }
        self.lists.push(longer);
        Some(())
    }

    /// A loop that inserts into a list until it is long enough.
    fn waited_list(&mut self) -> Option<()> {
        let list = self.any_list(|list| !list.is_nested && list.most < LONGEST)?;
        let (value, stable) = self.fitting(&list)?;
        let (length, ty) = (1 + self.below(LONGEST), Self::list_type(&list));
        let scalar = Type::Tensor(TensorType { dtype: DType::I64, shape: Vec::new().into() });
        let condition = self.region(std::slice::from_ref(&ty), |growth, parameters| {
            let count = growth.list_node(ListOperation::Length, parameters, scalar)?;
            let limit = growth.builder.literal(Tensor::scalar(Scalar::i64(length as i64)));
            Some(vec![growth.builder.map(ScalarFunction::Lt, &[count, limit]).ok()?])
        })?;
        let mut longer = list.clone();
        let body = self.region(&[ty], |growth, parameters| {
            let item = growth.builder.map(ScalarFunction::Neg, &[value]).ok()?;
            longer =
                growth.with_inserted(&KnownList { value: parameters[0], ..list.clone() }, item)?;
            Some(vec![longer.value])
        })?;
        let op = Op::While { turns: None };
        let results = self.builder.add_with_regions(op, &[list.value], &[condition, body]).ok()?;
        longer.stable &= stable;
        (longer.least, longer.most) = (list.least.max(length), list.most.max(length));
        longer.value = results[0];
        self.lists.push(longer);
        Some(())
    }

    /// A flag that data decide.
    fn flag(&mut self) -> Option<ValueId> {
        let number = |growth: &Growth, it: super::Known| {
            let ty = growth.ty(it.value);
            it.stable && ty.dtype.is_number() && ty.shape.iter().all(|e| e.as_constant().is_some())
        };
        let test = self.any_where(number)?.value;
        let sum = self.reduced(test)?;
        self.builder.cast(sum, DType::Bool).ok()
    }

    /// A list, or the same with a value more.
    fn chosen_list(&mut self) -> Option<()> {
        let list = self.any_list(|list| !list.is_nested && list.most < LONGEST)?;
        let (value, stable) = self.fitting(&list)?;
        let flag = self.flag()?;
        let mut longer = list.clone();
        let first = self.region(&[], |growth, _| {
            longer = growth.with_inserted(&list, value)?;
            Some(vec![longer.value])
        })?;
        let second = self.region(&[], |_, _| Some(vec![list.value]))?;
        let chosen = self.builder.branch(flag, &[first, second]).ok()?[0];
        longer.stable &= stable;
        self.lists.push(KnownList { value: chosen, least: list.least, ..longer });
        Some(())
    }

    // --- tensors ---

    /// A tensor out of a list, or out of a list in it.
    fn taken(&mut self) -> Grown {
        let mut list = self.any_list(|list| list.least > 0)?;
        if list.is_nested {
            let place = self.place(list.least, list.least);
            let inner = KnownList { is_nested: false, least: 1, ..list.clone() };
            let operands = [list.value, place];
            let value = self.list_node(ListOperation::At, &operands, Self::list_type(&inner))?;
            list = KnownList { value, ..inner };
        }
        let ty = self.unknown(list.dtype, list.rank);
        // Of a list of any length the first and the last are there.
        let place =
            self.builder.literal(Tensor::scalar(Scalar::i64(-(self.random.below(2) as i64))));
        let place = if list.least > 1 { self.place(list.least, list.least) } else { place };
        let value = self.list_node(ListOperation::At, &[list.value, place], ty)?;
        Some((self.reduced(value)?, list.stable))
    }

    fn length(&mut self) -> Grown {
        let list = self.any_list(|_| true)?;
        let scalar = Type::Tensor(TensorType { dtype: DType::I64, shape: Vec::new().into() });
        Some((self.list_node(ListOperation::Length, &[list.value], scalar)?, true))
    }

    fn joined(&mut self) -> Grown {
        let fits = |list: &KnownList| !list.is_nested && list.shape.is_some() && list.least > 0;
        let list = self.any_list(fits)?;
        let is_new = list.rank == 0 || self.below(2) == 0;
        let rank = list.rank + usize::from(is_new);
        let axis = self.below(rank);
        let ty = self.unknown(list.dtype, rank);
        let operation = ListOperation::Concat { axis, is_new };
        let value = self.list_node(operation, &[list.value], ty)?;
        Some((self.reduced(value)?, list.stable))
    }

    /// What an optional value holds, or whether it does.
    fn optional(&mut self) -> Grown {
        let super::Known { value, stable } = self.any_number()?;
        let TensorType { dtype, shape } = self.ty(value);
        let held = ElementType::Tensor { dtype, rank: Some(shape.len()) };
        let ty = Type::Optional(Box::new(held));
        if self.below(2) == 0 {
            let optional = self.list_node(ListOperation::Optional, &[value], ty)?;
            let unknown = self.unknown(dtype, shape.len());
            let held = self.list_node(ListOperation::Element, &[optional], unknown)?;
            return Some((self.reduced(held)?, stable));
        }
        let flag = self.flag()?;
        let mut of = |values: &[ValueId]| {
            let ty = ty.clone();
            self.region(&[], |growth, _| {
                Some(vec![growth.list_node(ListOperation::Optional, values, ty)?])
            })
        };
        let regions = [of(&[value])?, of(&[])?];
        let chosen = self.builder.branch(flag, &regions).ok()?[0];
        let scalar = Type::Tensor(TensorType { dtype: DType::Bool, shape: Vec::new().into() });
        Some((self.list_node(ListOperation::HasElement, &[chosen], scalar)?, true))
    }
}
