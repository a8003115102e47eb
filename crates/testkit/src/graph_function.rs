//! Random small graph functions, well-typed and free of faults, with inputs and constants.
//!
//! Values are tame (no infinities, few elements), and primitives that jump (comparisons, sorting,
//! rounding to integers) read only values whose bits every correct compiler agrees on, so results
//! may be compared with a tolerance.

mod lists;
mod sample;
mod sizes;

use base::{ConstantId, Id};
use graph::{FunctionBuilder, IterationSpace, TensorType, Type, ValueId, accumulator_of};
use proptest::prelude::*;
use sym::{Expr, Range};
use tensor::random::Generator;
use tensor::{DType, Reduction, Scalar, ScalarFunction, Tensor};

use lists::KnownList;
pub use sample::{GraphOptions, GraphSample};

/// The most elements of a value.
const LARGEST: i64 = 600;

/// Samples of up to a number of nodes; they shrink to fewer.
pub fn graph_samples(options: GraphOptions) -> impl Strategy<Value = GraphSample> {
    (any::<u64>().no_shrink(), 1..=options.nodes)
        .prop_map(move |(seed, nodes)| random_graph(seed, GraphOptions { nodes, ..options }))
}

/// The sample of a seed.
pub fn random_graph(seed: u64, options: GraphOptions) -> GraphSample {
    let mut growth = Growth {
        random: Generator::new(seed),
        builder: FunctionBuilder::new("random"),
        values: Vec::new(),
        constants: Vec::new(),
        inputs: Vec::new(),
        lists: Vec::new(),
        few_bits: options.few_bits,
        extent: 1,
    };
    growth.sources(options);
    let mut added = 0;
    while added < options.nodes {
        // What does not fit the values at hand is not added, but counts, so that this ends.
        if let Some((value, stable)) =
            growth.node(options).filter(|&(value, _)| growth.is_small(value))
        {
            growth.values.push(Known { value, stable });
        }
        added += 1;
    }
    growth.finish()
}

/// A value that nodes may read.
#[derive(Clone, Copy)]
struct Known {
    value: ValueId,
    /// Whether every correct compiler gives it the same bits.
    stable: bool,
}

struct Growth {
    random: Generator,
    builder: FunctionBuilder,
    values: Vec<Known>,
    constants: Vec<Tensor>,
    inputs: Vec<Tensor>,
    lists: Vec<KnownList>,
    few_bits: bool,
    /// The extent that is free.
    extent: i64,
}

/// A new value, and whether its bits are sure.
type Grown = Option<(ValueId, bool)>;

impl Growth {
    fn below(&mut self, bound: usize) -> usize {
        self.random.below(bound as u64) as usize
    }

    fn pick<T: Copy>(&mut self, items: &[T]) -> T {
        items[self.below(items.len())]
    }

    fn ty(&self, value: ValueId) -> TensorType {
        let ty = self.builder.tensor_type(value);
        ty.cloned().unwrap_or(TensorType { dtype: DType::Bool, shape: Vec::new().into() })
    }

    fn is_small(&self, value: ValueId) -> bool {
        let count = graph::element_count(&self.ty(value).shape);
        count.bounds(&|_| Range::new(1, self.extent.max(4))).max <= LARGEST
    }

    // --- sources ---

    fn sources(&mut self, options: GraphOptions) {
        let symbol = self.builder.symbol("n", Range::new(1, 40));
        // Sums over so many elements are taken otherwise than those over few.
        self.extent = if self.below(4) == 0 { 17 } else { 3 };
        for number in 0..3 {
            let symbolic = options.symbolic && number < 2;
            let dtype = if number < 2 { DType::F32 } else { self.dtype() };
            let rank = 1 + self.below(3);
            let mut shape: Vec<Expr> = (0..rank).map(|_| self.extent()).collect();
            if symbolic {
                shape[0] = Expr::symbol(symbol);
            }
            let own = self.extent;
            let extents = shape.iter().map(|extent| extent.as_constant().unwrap_or(own) as usize);
            let input = self.tensor(dtype, &extents.collect::<Vec<usize>>());
            let ty = Type::Tensor(TensorType { dtype, shape: shape.into() });
            let value = self.builder.parameter(format!("input {number}"), ty);
            self.inputs.push(input);
            self.values.push(Known { value, stable: true });
        }
        for _ in 0..2 {
            let shape = [1 + self.below(4), 1 + self.below(4)];
            let tensor = self.tensor(DType::F32, &shape);
            let constant = ConstantId::new(self.constants.len());
            let shape = shape.iter().map(|&extent| Expr::from(extent)).collect();
            let ty = TensorType { dtype: DType::F32, shape };
            if let Ok(value) = self.builder.weight(constant, ty) {
                self.constants.push(tensor);
                self.values.push(Known { value, stable: true });
            }
        }
    }

    fn dtype(&mut self) -> DType {
        use DType::{BF16, Bool, F16, F32, F64, I8, I16, I32, I64, U8, U16, U32, U64};
        use DType::{F4E2M1, F8E4M3FN, F8E4M3FNUZ, F8E5M2, F8E5M2FNUZ, I2, I4, U2, U4};
        if self.few_bits && self.below(3) == 0 {
            return self.pick(&[F8E4M3FN, F8E4M3FNUZ, F8E5M2, F8E5M2FNUZ, F4E2M1, I4, I2, U4, U2]);
        }
        self.pick(&[F32, F64, F16, BF16, I64, I32, I16, I8, U64, U32, U16, U8, Bool])
    }

    /// Mostly small; sometimes nothing, or a vector and a bit.
    fn extent(&mut self) -> Expr {
        Expr::from(match self.below(12) {
            0 => self.pick(&[0, 7, 13, 17, 33, 49, 131]),
            _ => 1 + self.below(5),
        })
    }

    /// Normal floats, small integers.
    fn tensor(&mut self, dtype: DType, shape: &[usize]) -> Tensor {
        let scalars: Vec<Scalar> = (0..shape.iter().product())
            .map(|_| match dtype.is_float() {
                true => Scalar::from_f64(dtype, self.random.normal()),
                false => Scalar::from_i64(dtype, self.random.below(8) as i64),
            })
            .collect();
        Tensor::from_scalars(dtype, shape, &scalars)
    }

    fn any(&mut self) -> Known {
        let index = self.below(self.values.len());
        self.values[index]
    }

    /// A value for which `wanted` holds.
    fn any_where(&mut self, wanted: impl Fn(&Growth, Known) -> bool) -> Option<Known> {
        let fitting: Vec<Known> =
            self.values.iter().copied().filter(|&known| wanted(self, known)).collect();
        (!fitting.is_empty()).then(|| self.pick(&fitting))
    }

    fn any_float(&mut self) -> Option<Known> {
        self.any_where(|growth, known| growth.ty(known.value).dtype.is_float())
    }

    fn any_number(&mut self) -> Option<Known> {
        self.any_where(|growth, known| growth.ty(known.value).dtype.is_number())
    }

    /// An axis whose extent is constant and not 0, and that extent.
    fn constant_axis(&mut self, value: ValueId) -> Option<(usize, i64)> {
        let shape = self.ty(value).shape;
        let constant = |(axis, extent): (usize, &Expr)| Some((axis, extent.as_constant()?));
        let all = shape.iter().enumerate().filter_map(constant);
        let axes: Vec<(usize, i64)> = all.filter(|(_, extent)| *extent > 0).collect();
        (!axes.is_empty()).then(|| self.pick(&axes))
    }

    // --- nodes ---

    fn node(&mut self, options: GraphOptions) -> Grown {
        if options.sizes && self.below(8) == 0 {
            return self.sized();
        }
        if options.lists && self.below(4) == 0 {
            return self.listed();
        }
        match self.below(if options.control_flow { 25 } else { 22 }) {
            0..=3 => self.unary(),
            4..=6 => self.binary(),
            7 => self.compare_and_select(),
            8 => self.cast(),
            9 => self.transpose(),
            10 => self.reshape(),
            11 => self.broadcast(),
            12 => self.slice(),
            13 => self.pad(),
            14 => self.concat(),
            15 => self.gather(),
            16 => self.scatter(),
            17 => self.along_axis(),
            18 | 19 => self.contract(),
            20 | 21 => self.reduce(),
            22 => self.branch(),
            23 => self.scan(),
            _ => self.iterate(),
        }
    }

    fn unary(&mut self) -> Grown {
        use ScalarFunction::{Abs, Erf, Exp, Floor, Neg, Not, Sign, Sqrt, Tanh};
        let Known { value, stable } = self.any();
        let dtype = self.ty(value).dtype;
        if dtype == DType::Bool {
            return Some((self.builder.map(Not, &[value]).ok()?, stable));
        }
        let functions: &[ScalarFunction] = match (dtype.is_float(), stable) {
            (false, _) => &[Neg, Abs],
            (true, false) => &[Neg, Abs, Tanh, Erf, Sqrt, Exp],
            (true, true) => &[Neg, Abs, Tanh, Erf, Sqrt, Exp, Floor, Sign],
        };
        let function = self.pick(functions);
        let exact = !matches!(function, Tanh | Erf | Exp);
        // Roots of what is not negative, exponentials of what is not positive.
        let operand = match function {
            Sqrt => self.builder.map(Abs, &[value]).ok()?,
            Exp => {
                let positive = self.builder.map(Abs, &[value]).ok()?;
                self.builder.map(Neg, &[positive]).ok()?
            }
            _ => value,
        };
        Some((self.builder.map(function, &[operand]).ok()?, stable && exact))
    }

    /// Two values of one type that broadcast, or one twice.
    fn pair(&mut self) -> (Known, Known) {
        let first = self.any();
        let ty = self.ty(first.value);
        let fits = |growth: &Growth, other: Known| {
            let other = growth.ty(other.value);
            let shapes = [&ty.shape[..], &other.shape[..]];
            other.dtype == ty.dtype
                && graph::broadcast_shapes(&shapes, &|symbol| symbol.to_string()).is_ok()
        };
        let second = self.any_where(fits).unwrap_or(first);
        (first, second)
    }

    fn binary(&mut self) -> Grown {
        use ScalarFunction::{Add, And, Max, Min, Mul, Sub, Xor};
        let (first, second) = self.pair();
        let is_bool = self.ty(first.value).dtype == DType::Bool;
        let functions: &[ScalarFunction] =
            if is_bool { &[And, Xor] } else { &[Add, Sub, Mul, Max, Min] };
        let function = self.pick(functions);
        let result = self.builder.map_broadcast(function, &[first.value, second.value]).ok()?;
        Some((result, first.stable && second.stable))
    }

    fn compare_and_select(&mut self) -> Grown {
        use ScalarFunction::{Ge, Lt, Select};
        let (first, second) = self.pair();
        if !(first.stable && second.stable) {
            return None;
        }
        let function = self.pick(&[Lt, Ge]);
        let operands = [first.value, second.value];
        let condition = self.builder.map_broadcast(function, &operands).ok()?;
        let operands = [condition, first.value, second.value];
        Some((self.builder.map_broadcast(Select, &operands).ok()?, true))
    }

    fn cast(&mut self) -> Grown {
        let Known { value, stable } = self.any();
        let dtype = self.dtype();
        if !stable && !dtype.is_float() {
            return None;
        }
        Some((self.builder.cast(value, dtype).ok()?, stable))
    }

    fn permutation(&mut self, rank: usize) -> Vec<usize> {
        let mut rest: Vec<usize> = (0..rank).collect();
        (0..rank).map(|_| rest.remove(self.below(rest.len()))).collect()
    }

    fn transpose(&mut self) -> Grown {
        let Known { value, stable } = self.any();
        let permutation = self.permutation(self.ty(value).shape.len());
        Some((self.builder.transpose(value, &permutation).ok()?, stable))
    }

    /// Merges two neighbouring axes, or adds one of extent 1.
    fn reshape(&mut self) -> Grown {
        let Known { value, stable } = self.any();
        let mut shape = self.ty(value).shape.to_vec();
        if shape.len() >= 2 && self.below(3) > 0 {
            let axis = self.below(shape.len() - 1);
            let inner = shape.remove(axis + 1);
            shape[axis] = &shape[axis] * &inner;
        } else {
            let axis = self.below(shape.len() + 1);
            shape.insert(axis, Expr::ONE);
        }
        Some((self.builder.reshape(value, &shape).ok()?, stable))
    }

    /// Puts a new axis somewhere.
    fn broadcast(&mut self) -> Grown {
        let Known { value, stable } = self.any();
        let mut shape = self.ty(value).shape.to_vec();
        let axis = self.below(shape.len() + 1);
        let axes: Vec<usize> = (0..=shape.len()).filter(|&other| other != axis).collect();
        shape.insert(axis, self.extent());
        Some((self.builder.broadcast(value, &shape, &axes).ok()?, stable))
    }

    fn slice(&mut self) -> Grown {
        let Known { value, stable } = self.any();
        let (axis, extent) = self.constant_axis(value)?;
        let start = self.below(extent as usize) as i64;
        let step = self.pick(&[1, 2, -1, -2]);
        let reach = if step > 0 { extent - 1 - start } else { start };
        let count = 1 + self.below((reach / i64::abs(step) + 1) as usize) as i64;
        let (start, count) = (Expr::from(start), Expr::from(count));
        Some((self.builder.slice_axis(value, axis, start, step, count).ok()?, stable))
    }

    fn pad(&mut self) -> Grown {
        let Known { value, stable } = self.any();
        let TensorType { dtype, shape } = self.ty(value);
        if dtype.bits() < 8 {
            // Several elements share a byte, whose index under the guards of a padding is not
            // always proved to be in bounds.
            return None;
        }
        let mut pads = |choices: &[i64]| -> Vec<i64> {
            shape
                .iter()
                .map(|_| choices[self.random.below(choices.len() as u64) as usize])
                .collect()
        };
        let (low, high, between) = (pads(&[0, 0, 1, 2, -1]), pads(&[0, 1, 1]), pads(&[0, 0, 0, 1]));
        let exprs = |pads: &[i64]| pads.iter().map(|&pad| Expr::from(pad)).collect::<Vec<Expr>>();
        let fill = self.builder.scalar(dtype, 1.0);
        let padded = self.builder.pad(value, fill, &exprs(&low), &exprs(&high), &between).ok()?;
        Some((padded, stable))
    }

    fn concat(&mut self) -> Grown {
        let first = self.any();
        let ty = self.ty(first.value);
        if ty.shape.is_empty() {
            return None;
        }
        let axis = self.below(ty.shape.len());
        let fits = |growth: &Growth, other: Known| {
            let other = growth.ty(other.value);
            let same = |(index, (a, b)): (usize, (&Expr, &Expr))| index == axis || a == b;
            other.dtype == ty.dtype
                && other.shape.len() == ty.shape.len()
                && ty.shape.iter().zip(&other.shape).enumerate().all(same)
        };
        let second = self.any_where(fits)?;
        let result = self.builder.concat(axis, &[first.value, second.value]).ok()?;
        Some((result, first.stable && second.stable))
    }

    /// Indices of rank 0 to 2 for an axis.
    fn indices(&mut self, extent: i64) -> ValueId {
        let rank = self.below(3);
        let shape: Vec<usize> = (0..rank).map(|_| 1 + self.below(3)).collect();
        let values: Vec<i64> =
            (0..shape.iter().product()).map(|_| self.random.below(extent as u64) as i64).collect();
        self.builder.literal(Tensor::from_slice(&shape, &values))
    }

    fn gather(&mut self) -> Grown {
        let Known { value, stable } = self.any();
        let (axis, extent) = self.constant_axis(value)?;
        let indices = self.indices(extent);
        let position = self.below(self.ty(value).shape.len());
        Some((self.builder.gather(value, &[axis], &[indices], 0, position).ok()?, stable))
    }

    fn scatter(&mut self) -> Grown {
        let Known { value, stable } = self.any();
        let dtype = self.ty(value).dtype;
        let (axis, extent) = self.constant_axis(value)?;
        let indices = self.indices(extent);
        let place = self.builder.gather(value, &[axis], &[indices], 0, 0).ok()?;
        let updates = if dtype.is_number() {
            self.builder.map(ScalarFunction::Neg, &[place]).ok()?
        } else {
            place
        };
        let reductions = [None, Some(Reduction::Max), Some(Reduction::Sum)];
        let reduction = self.pick(if dtype.is_number() { &reductions } else { &reductions[..2] });
        let result = self.builder.scatter(value, updates, &[axis], &[indices], 0, 0, reduction);
        Some((result.ok()?, stable && reduction != Some(Reduction::Sum)))
    }

    fn along_axis(&mut self) -> Grown {
        let Known { value, stable } = self.any_number()?;
        let (axis, _) = self.constant_axis(value)?;
        let (first, second) = (self.below(2) == 0, self.below(2) == 0);
        match self.below(3) {
            0 => {
                let reduction = self.pick(&[Reduction::Sum, Reduction::Max]);
                let sure = stable && reduction == Reduction::Max && !first;
                // The identity of a maximum is not tame.
                let exclusive = first && reduction == Reduction::Sum;
                let result = self.builder.cumulate(value, axis, reduction, exclusive, second);
                Some((result.ok()?, sure))
            }
            1 if stable => Some((self.builder.arg_reduce(value, axis, first, second).ok()?, true)),
            2 if stable => {
                let extent = self.builder.shape(value).ok()?[axis].as_constant();
                let kept = extent
                    .filter(|_| self.below(2) == 0)
                    .map(|extent| 1 + self.below(extent.max(1) as usize));
                let (values, places) = self.builder.sort(value, axis, first, kept).ok()?;
                Some((if second { values } else { places }, true))
            }
            _ => None,
        }
    }

    /// Labels the axes of operands at random: equal extents may share an axis of the space, and a
    /// constant extent may be walked as a window by two. Each axis is the result's or reduced.
    fn space(&mut self, operands: &[ValueId]) -> IterationSpace {
        let mut extents: Vec<Expr> = Vec::new();
        let mut indices = Vec::new();
        for &operand in operands {
            let mut used = Vec::new();
            let mut index = Vec::new();
            for extent in &self.ty(operand).shape {
                let free = |&axis: &usize| extents[axis] == *extent && !used.contains(&axis);
                let shared: Vec<usize> = (0..extents.len()).filter(free).collect();
                let window = extent.as_constant().filter(|&extent| extent >= 3);
                if !shared.is_empty() && self.below(4) > 0 {
                    let axis = self.pick(&shared);
                    used.push(axis);
                    index.push(IterationSpace::axis(axis));
                } else if let Some(extent) = window.filter(|_| self.below(3) == 0) {
                    let axis = extents.len();
                    extents.extend([Expr::from(extent - 1), Expr::from(2)]);
                    used.extend([axis, axis + 1]);
                    index.push(IterationSpace::axis(axis) + IterationSpace::axis(axis + 1));
                } else {
                    used.push(extents.len());
                    index.push(IterationSpace::axis(extents.len()));
                    extents.push(extent.clone());
                }
            }
            indices.push(index);
        }
        self.arrange(extents, indices)
    }

    /// Chooses which axes are the result's, and an order.
    fn arrange(&mut self, extents: Vec<Expr>, indices: Vec<Vec<Expr>>) -> IterationSpace {
        let order = self.permutation(extents.len());
        let (result, reduced): (Vec<usize>, Vec<usize>) =
            order.into_iter().partition(|_| self.below(3) > 0);
        let order = [&result[..], &reduced].concat();
        let place = |axis: usize| order.iter().position(|&other| other == axis);
        let rename = |index: &Expr| {
            index.substitute(&mut |axis| place(axis.index()).map(IterationSpace::axis))
        };
        IterationSpace {
            extents: order.iter().map(|&axis| extents[axis].clone()).collect(),
            parallel: result.len(),
            operands: indices.iter().map(|index| index.iter().map(rename).collect()).collect(),
        }
    }

    fn is_cheap(&self, space: &IterationSpace) -> bool {
        graph::element_count(&space.extents).bounds(&|_| Range::new(1, 4)).max <= 20 * LARGEST
    }

    fn contract(&mut self) -> Grown {
        let first = self.any_float()?;
        let dtype = self.ty(first.value).dtype;
        let fits = |growth: &Growth, known: Known| growth.ty(known.value).dtype == dtype;
        let second = self.any_where(fits)?;
        let space = self.space(&[first.value, second.value]);
        if !self.is_cheap(&space) {
            return None;
        }
        let sum = accumulator_of(dtype);
        let result = self.builder.contract(space, first.value, second.value, sum, dtype).ok()?;
        Some((self.tame(result)?, false))
    }

    fn reduce(&mut self) -> Grown {
        let Known { value, stable } = self.any_number()?;
        let dtype = self.ty(value).dtype;
        let space = self.space(&[value]);
        let reduction = self.pick(&[Reduction::Sum, Reduction::Max, Reduction::Min]);
        let result = self.builder.reduce(space, value, reduction, accumulator_of(dtype)).ok()?;
        let sure = stable && (reduction != Reduction::Sum || !dtype.is_float());
        Some((if dtype.is_float() { self.tame(result)? } else { result }, sure))
    }

    /// Keeps sums of sums of products from growing beyond bounds.
    fn tame(&mut self, value: ValueId) -> Option<ValueId> {
        let dtype = self.ty(value).dtype;
        let (low, high) = (self.builder.scalar(dtype, -64.0), self.builder.scalar(dtype, 64.0));
        let value = self.builder.map_broadcast(ScalarFunction::Max, &[value, low]).ok()?;
        self.builder.map_broadcast(ScalarFunction::Min, &[value, high]).ok()
    }

    // --- regions ---

    fn branch(&mut self) -> Grown {
        let Known { value, stable } = self.any_number()?;
        let test = self.any_where(|growth, known| {
            known.stable && growth.ty(known.value).shape.iter().all(|e| e.as_constant().is_some())
        })?;
        let flag = self.builder.cast(test.value, DType::Bool).ok()?;
        let rank = self.ty(flag).shape.len();
        let axes: Vec<usize> = (0..rank).collect();
        let flag =
            self.builder.reduce_axes(flag, &axes, Reduction::And, DType::Bool, false).ok()?;
        self.builder.begin_region(&[]);
        let negative = self.builder.map(ScalarFunction::Neg, &[value]).ok()?;
        let first = self.builder.end_region(&[negative]);
        self.builder.begin_region(&[]);
        let second = self.builder.end_region(&[value]);
        let results = self.builder.branch(flag, &[first, second]);
        Some((results.ok()?[0], stable))
    }

    fn scan(&mut self) -> Grown {
        let Known { value, stable } = self.any_number()?;
        let TensorType { dtype, shape } = self.ty(value);
        let (trip_count, rest) = shape.split_first()?;
        let reverse = self.below(2) == 0;
        let start = self.builder.full(rest, Scalar::zero(dtype)).ok()?;
        let slice = Type::Tensor(TensorType { dtype, shape: rest.to_vec().into() });
        let counter = Type::Tensor(TensorType { dtype: DType::I64, shape: Vec::new().into() });
        let parameters = self.builder.begin_region(&[counter, slice.clone(), slice]);
        let step = self.builder.map(ScalarFunction::Max, &parameters[1..]).ok()?;
        let body = self.builder.end_region(&[step, step]);
        let op = graph::Op::Scan { trip_count: trip_count.clone(), carried: 1, reverse };
        let results = self.builder.add_with_regions(op, &[start, value], &[body]).ok()?;
        Some((results[self.below(2)], stable))
    }

    /// A loop over single elements, of too many turns to be written out.
    fn iterate(&mut self) -> Grown {
        let Known { value, stable } = self.any_number()?;
        let counter = Type::Tensor(TensorType { dtype: DType::I64, shape: Vec::new().into() });
        let own = Type::Tensor(self.ty(value));
        let parameters = self.builder.begin_region(&[counter, own]);
        let turned = self.builder.map(ScalarFunction::Neg, &parameters[1..]).ok()?;
        let step = self.builder.map(ScalarFunction::Max, &[turned, value]).ok()?;
        let number = self.builder.cast(parameters[0], self.ty(value).dtype).ok()?;
        let step = self.builder.map_broadcast(ScalarFunction::Min, &[step, number]).ok()?;
        let body = self.builder.end_region(&[step]);
        let (trip_count, reverse) = (Expr::from(16 + self.below(8)), self.below(2) == 0);
        let op = graph::Op::Scan { trip_count, carried: 1, reverse };
        let results = self.builder.add_with_regions(op, &[value], &[body]).ok()?;
        Some((results[0], stable))
    }

    /// The results are the values that nothing reads, parameters apart.
    fn finish(self) -> GraphSample {
        let users = self.builder.function().users();
        let unread = |value: &ValueId| users[*value].is_empty();
        let is_result = |value: &ValueId| self.builder.function().producer(*value).is_some();
        let tensors = self.values.iter().map(|known| known.value);
        let all = tensors.chain(self.lists.iter().map(|list| list.value));
        let mut results: Vec<ValueId> = all.filter(is_result).filter(unread).collect();
        results.sort();
        results.dedup();
        let names = (0..).map(|number| format!("result {number}"));
        let mut function = self.builder.finish(names.zip(results).collect());
        function.compact();
        GraphSample { function, constants: self.constants, inputs: self.inputs }
    }
}
