//! Elements of few bits, widened, compute what they did before: to the bit, by the evaluator.

use base::Arena;
use formats::widen;
use graph::{Function, FunctionBuilder, IterationSpace, Op, TensorType, Type};
use proptest::prelude::*;
use sym::Expr;
use tensor::{DType, Reduction, Scalar, ScalarFunction, Tensor};

const NARROW: [DType; 15] = [
    DType::F8E4M3FN,
    DType::F8E4M3FNUZ,
    DType::F8E3M4,
    DType::F8E4M3,
    DType::F8E4M3B11FNUZ,
    DType::F8E5M2,
    DType::F8E5M2FNUZ,
    DType::F8E8M0,
    DType::F6E2M3,
    DType::F6E3M2,
    DType::F4E2M1,
    DType::I4,
    DType::U4,
    DType::I2,
    DType::U2,
];

fn evaluate(function: &Function, inputs: &[Tensor]) -> Vec<Tensor> {
    let weights = |_| unreachable!("there are no weights");
    eval::graph::evaluate(function, &weights, inputs, eval::EvaluationPrecision::Declared)
        .expect("the function runs")
}

/// `x` of one type through casts to another, some movement, and back out as it is.
fn cast(from: DType, to: DType, count: usize) -> Function {
    let mut builder = FunctionBuilder::new("f");
    let ty = |dtype| Type::Tensor(TensorType { dtype, shape: vec![Expr::from(count)].into() });
    let x = builder.parameter("x", ty(from));
    let y = builder.cast(x, to).expect("a cast");
    let op = Op::Slice {
        starts: vec![Expr::from(count as i64 - 1)],
        steps: vec![-1],
        shape: vec![Expr::from(count)].into(),
    };
    let z = builder.add(op, &[x]).expect("reversed")[0];
    builder.finish(vec![("y".to_owned(), y), ("z".to_owned(), z)])
}

/// What the caller has in memory.
fn stored(tensor: &Tensor) -> Vec<u8> {
    tensor.packed_bytes().bytes().to_vec()
}

fn check(function: &Function, inputs: &[Tensor]) {
    let expected = evaluate(function, inputs);
    let wide = widen(function, &mut Arena::new()).expect("widened");
    graph::verify(&wide).expect("well-formed");
    for (_, value) in wide.values.iter() {
        let dtype = value.ty.as_tensor().expect("a tensor").dtype;
        assert!(!NARROW.contains(&dtype), "{dtype} is left in {wide}");
    }
    let same = |(input, &value): (&Tensor, &graph::ValueId)| {
        let ty = wide.ty(value).as_tensor().expect("a tensor");
        if ty.dtype == input.dtype() {
            return input.clone();
        }
        let extent = |extent: &Expr| extent.as_constant().expect("constant") as usize;
        let shape: Vec<usize> = ty.shape.iter().map(extent).collect();
        input.packed_bytes().reshape(&shape)
    };
    let given: Vec<Tensor> = inputs.iter().zip(wide.parameters()).map(same).collect();
    let found = evaluate(&wide, &given);
    for (expected, found) in expected.iter().zip(&found) {
        for index in 0..expected.len() {
            let bits = expected.get_scalar(index);
            let packed =
                Tensor::from_bytes(expected.dtype(), expected.shape(), stored(found).into())
                    .expect("as many bytes");
            let found = packed.get_scalar(index);
            let same = bits.bits() == found.bits() || bits.is_nan() && found.is_nan();
            assert!(same, "{bits} became {found} in\n{function}");
        }
    }
}

/// Every code to every type.
#[test]
fn every_code_is_read() {
    for from in NARROW {
        let codes: Vec<Scalar> =
            (0..1u64 << from.bits()).map(|code| Scalar::from_bits(from, code)).collect();
        let codes = [&codes[..], &codes[..1]].concat();
        let x = Tensor::from_scalars(from, &[codes.len()], &codes);
        let wide = [DType::F32, DType::F64, DType::F16, DType::I32, DType::U8, DType::Bool];
        for to in NARROW.into_iter().chain(wide) {
            check(&cast(from, to, codes.len()), std::slice::from_ref(&x));
        }
    }
}

/// Sums of narrow elements are rounded to their type again.
#[test]
fn arithmetic_is_rounded() {
    for dtype in NARROW {
        let codes: Vec<Scalar> =
            (0..1u64 << dtype.bits()).map(|code| Scalar::from_bits(dtype, code)).collect();
        let mut builder = FunctionBuilder::new("f");
        let shape = vec![Expr::from(codes.len())];
        let x = builder.parameter("x", Type::Tensor(TensorType { dtype, shape: shape.into() }));
        let y = builder.map(ScalarFunction::Add, &[x, x]).expect("a sum");
        let z = builder.map(ScalarFunction::Lt, &[x, y]).expect("a comparison");
        let function = builder.finish(vec![("y".to_owned(), y), ("z".to_owned(), z)]);
        check(&function, &[Tensor::from_scalars(dtype, &[codes.len()], &codes)]);
    }
}

/// Functions of a number's bits see as many bits as its type has.
#[test]
fn bits_of_integers() {
    use ScalarFunction as F;
    for dtype in NARROW.into_iter().filter(|dtype| dtype.is_integer()) {
        let codes: Vec<Scalar> =
            (0..1u64 << dtype.bits()).map(|code| Scalar::from_bits(dtype, code)).collect();
        let mut builder = FunctionBuilder::new("f");
        let shape = vec![Expr::from(codes.len())];
        let x = builder.parameter("x", Type::Tensor(TensorType { dtype, shape: shape.into() }));
        let mut results = Vec::new();
        for function in [F::CountLeadingZeros, F::Popcount, F::Not] {
            let y = builder.map(function, &[x]).expect("a function of bits");
            results.push((function.name().to_owned(), y));
        }
        let function = builder.finish(results);
        check(&function, &[Tensor::from_scalars(dtype, &[codes.len()], &codes)]);
    }
}

/// Nothing reduces to the least or greatest element of the type.
#[test]
fn extremes_of_nothing() {
    for dtype in NARROW {
        let shape = vec![Expr::from(3i64), Expr::from(0i64)];
        let mut builder = FunctionBuilder::new("f");
        let x =
            builder.parameter("x", Type::Tensor(TensorType { dtype, shape: shape.clone().into() }));
        let mut results = Vec::new();
        for (name, reduction) in [("most", Reduction::Max), ("least", Reduction::Min)] {
            let operands = vec![vec![IterationSpace::axis(0), IterationSpace::axis(1)]];
            let space = IterationSpace { extents: shape.clone(), parallel: 1, operands };
            let accumulator = graph::accumulator_of(dtype);
            let extreme = builder.reduce(space, x, reduction, accumulator).expect("an extreme");
            results.push((name.to_owned(), extreme));
        }
        check(&builder.finish(results), &[Tensor::zeros(dtype, &[3, 0])]);
    }
}

/// Sums of products, and of elements, that are beyond the largest value become it, as by a cast.
#[test]
fn sums_beyond_the_largest_value() {
    let floats = NARROW.into_iter().filter(|dtype| dtype.is_float());
    for dtype in floats {
        let axis = IterationSpace::axis;
        let extents = vec![Expr::from(40i64), Expr::from(2i64)];
        let (x_at, y_at) = (vec![axis(0), axis(1)], vec![axis(1)]);
        let operands = vec![x_at.clone(), y_at];
        let products = IterationSpace { extents: extents.clone(), parallel: 1, operands };
        let sums = IterationSpace { extents, parallel: 1, operands: vec![x_at] };
        let codes: Vec<Scalar> = (0..80u64)
            .map(|number| Scalar::from_bits(dtype, number * 37 % (1 << dtype.bits())))
            .map(|scalar| if scalar.is_nan() { Scalar::one(dtype) } else { scalar })
            .collect();
        let largest = Scalar::from_f64(dtype, 1e9);
        let mut builder = FunctionBuilder::new("f");
        let ty = |shape: &[i64]| {
            let shape = shape.iter().map(|&extent| Expr::from(extent)).collect();
            Type::Tensor(TensorType { dtype, shape })
        };
        let (x, y) = (builder.parameter("x", ty(&[40, 2])), builder.parameter("y", ty(&[2])));
        let product = builder.contract(products, x, y, DType::F32, dtype).expect("a product");
        let sum = builder.reduce(sums, x, Reduction::Sum, DType::F32).expect("a sum");
        let results = vec![("product".to_owned(), product), ("sum".to_owned(), sum)];
        let inputs = [
            Tensor::from_scalars(dtype, &[40, 2], &codes),
            Tensor::from_scalars(dtype, &[2], &[largest, largest]),
        ];
        check(&builder.finish(results), &inputs);
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        ..ProptestConfig::with_cases(60)
    })]

    /// Numbers near the codes and anywhere are rounded as they are by definition.
    #[test]
    fn numbers_are_rounded(bits in proptest::collection::vec(any::<u64>(), 7), to in 0usize..10) {
        let to = NARROW[to];
        let near = |&bits: &u64| {
            let code = Scalar::from_bits(to, bits & ((1 << to.bits()) - 1)).as_f64();
            let next = Scalar::from_bits(to, (bits + 1) & ((1 << to.bits()) - 1)).as_f64();
            match bits % 4 {
                0 => (code + next) / 2.0,
                1 => ((code + next) / 2.0).next_up(),
                2 => ((code + next) / 2.0).next_down(),
                _ => f64::from_bits(bits),
            }
        };
        let doubles: Vec<f64> = bits.iter().map(near).collect();
        let floats: Vec<f32> = doubles.iter().map(|&double| double as f32).collect();
        let integers: Vec<i64> = bits.iter().map(|&bits| (bits as i64) >> (bits % 61)).collect();
        let inputs = [
            Tensor::from_slice(&[7], &doubles),
            Tensor::from_slice(&[7], &floats),
            Tensor::from_slice(&[7], &integers),
        ];
        for input in inputs {
            check(&cast(input.dtype(), to, 7), &[input]);
        }
    }
}
