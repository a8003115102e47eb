//! Every scalar function of the machine on every type, every cast, every reduction: compiled code
//! against the evaluator, in vectors with a tail and in single lanes, on special values and random
//! bits.

mod support;

use loops::build::{for_loop, load, store};
use loops::{Access, Kernel, LoopKind, ScalarExpr, Stmt};
use support::{Exact, agree};
use sym::Expr;
use tensor::random::Generator;
use tensor::{DType, Reduction, Scalar, ScalarFunction, Tensor};

const TYPES: [DType; 13] = [
    DType::F64,
    DType::F32,
    DType::F16,
    DType::BF16,
    DType::I64,
    DType::I32,
    DType::I16,
    DType::I8,
    DType::U64,
    DType::U32,
    DType::U16,
    DType::U8,
    DType::Bool,
];

/// Elements of each test: whole vectors and a tail for every width.
const COUNT: usize = 77;

/// Numbers at which something changes, then random bits and random small numbers.
fn values(dtype: DType, count: usize, seed: u64) -> Vec<Scalar> {
    let mut generator = Generator::new(seed);
    let mut values: Vec<Scalar> = Vec::new();
    if dtype.is_float() {
        for number in [
            0.0,
            -0.0,
            1.0,
            -1.0,
            0.5,
            1.5,
            2.5,
            -2.5,
            f64::INFINITY,
            f64::NEG_INFINITY,
            f64::NAN,
            127.0,
            128.0,
            -128.5,
            255.5,
            65504.0,
            65536.0,
            2147483648.0,
            -2147483648.0,
            4294967296.0,
            9.3e18,
            -9.3e18,
            1.9e19,
            1e-40,
            1e-7,
            3.4e38,
        ] {
            values.push(Scalar::from_f64(dtype, number));
        }
    } else if let Some((low, high)) = dtype.integer_range() {
        for number in [0, 1, 2, 3, 7, 8, 15, 16, 31, 32, 33, 63, 64, low, low + 1, high, high - 1] {
            values.push(Scalar::from_i128(dtype, number.clamp(low, high)));
        }
        values.push(Scalar::from_i64(dtype, -1));
        values.push(Scalar::from_i64(dtype, (1 << 53) + 1));
        values.push(Scalar::from_i64(dtype, (1 << 60) + (1 << 36) + 1));
        values.push(Scalar::from_i64(dtype, (1 << 24) + (1 << 15) + 1));
    }
    while values.len() < count {
        let bits = generator.bits();
        values.push(match bits % 3 {
            0 => Scalar::from_bits(dtype, generator.bits()),
            1 => Scalar::from_i64(dtype, generator.below(41) as i64 - 20),
            _ => Scalar::from_f64(dtype, generator.normal() * 10.0),
        });
    }
    // Every value meets others: the order depends on the seed.
    for index in (1..values.len()).rev() {
        values.swap(index, generator.below(index as u64 + 1) as usize);
    }
    values.truncate(count);
    values
}

/// A kernel that applies a function to operands of these types, element by element.
fn kernel(
    function: ScalarFunction,
    operands: &[DType],
    result: DType,
    kind: LoopKind,
    constant: Option<Scalar>,
) -> Kernel {
    let mut kernel = Kernel::new(format!("test_{function}"));
    let i = kernel.add_loop_variable("i");
    let shape = || vec![Expr::from(COUNT)];
    let mut arguments: Vec<ScalarExpr> = operands
        .iter()
        .enumerate()
        .map(|(index, dtype)| {
            let name = format!("x{index}");
            load(kernel.add_parameter(&name, *dtype, shape(), Access::Read), [i])
        })
        .collect();
    if let (Some(constant), Some(last)) = (constant, arguments.last_mut()) {
        *last = ScalarExpr::Constant(constant);
    }
    let out = kernel.add_parameter("out", result, shape(), Access::Write);
    let value = ScalarExpr::Apply { function, dtype: result, arguments };
    kernel.body = vec![for_loop(i, COUNT as i64, kind, vec![store(out, [i], value)])];
    kernel
}

fn check(function: ScalarFunction, operands: &[DType], result: DType, seed: u64) {
    let exact = match function {
        ScalarFunction::Min | ScalarFunction::Max => Exact::ZeroSign,
        _ => Exact::Bits,
    };
    let mut buffers: Vec<Tensor> = operands
        .iter()
        .enumerate()
        .map(|(index, dtype)| {
            let values = values(*dtype, COUNT, seed * 8 + index as u64);
            Tensor::from_scalars(*dtype, &[COUNT], &values)
        })
        .collect();
    buffers.push(Tensor::zeros(result, &[COUNT]));
    for kind in [LoopKind::Vector, LoopKind::Serial] {
        agree(&kernel(function, operands, result, kind.clone(), None), &buffers, &[], exact);
        let last = operands[operands.len() - 1];
        if operands.len() > 1 {
            for constant in values(last, COUNT, seed).into_iter().take(3) {
                let kernel = kernel(function, operands, result, kind.clone(), Some(constant));
                agree(&kernel, &buffers, &[], exact);
            }
        }
    }
}

fn check_functions(types: &[DType]) {
    for function in ScalarFunction::all().filter(|function| function.is_machine()) {
        if matches!(function, ScalarFunction::Cast | ScalarFunction::Bitcast) {
            continue;
        }
        for dtype in types {
            let operands = function.operand_dtypes(*dtype);
            if let Ok(result) = function.result_dtype(&operands, None) {
                for seed in 1..3 {
                    check(function, &operands, result, seed);
                }
            }
        }
    }
}

#[test]
fn functions_of_floats() {
    check_functions(&TYPES[..4]);
}

#[test]
fn functions_of_integers() {
    check_functions(&TYPES[4..]);
}

#[test]
fn casts() {
    for from in TYPES {
        for to in TYPES {
            for seed in 1..3 {
                check(ScalarFunction::Cast, &[from], to, seed);
            }
        }
    }
}

/// A rounded number, with an integer added or not, becomes an integer in one conversion.
#[test]
fn casts_of_rounded_numbers() {
    for to in TYPES.into_iter().filter(|to| to.is_integer()) {
        for (seed, shift) in [(1, 0.0), (2, 100.0), (3, -128.0), (4, 255.0), (5, 0.5)] {
            for kind in [LoopKind::Vector, LoopKind::Serial] {
                let mut kernel = kernel(ScalarFunction::Cast, &[DType::F32], to, kind, None);
                let Stmt::For(around) = &mut kernel.body[0] else { panic!("a loop") };
                let Stmt::Store { value: ScalarExpr::Apply { arguments, .. }, .. } =
                    &mut around.body[0]
                else {
                    panic!("a store of a cast")
                };
                let apply = |function, arguments| ScalarExpr::Apply {
                    function,
                    dtype: DType::F32,
                    arguments,
                };
                let mut value = apply(ScalarFunction::Round, vec![arguments.remove(0)]);
                if shift != 0.0 {
                    let shift = ScalarExpr::Constant(Scalar::from_f64(DType::F32, shift));
                    value = apply(ScalarFunction::Add, vec![value, shift]);
                }
                arguments.push(value);
                let values = values(DType::F32, COUNT, seed);
                let x = Tensor::from_scalars(DType::F32, &[COUNT], &values);
                agree(&kernel, &[x, Tensor::zeros(to, &[COUNT])], &[], Exact::Bits);
            }
        }
    }
}

#[test]
fn bitcasts() {
    for from in TYPES {
        for to in TYPES.into_iter().filter(|to| to.bits() == from.bits() && *to != from) {
            check(ScalarFunction::Bitcast, &[from], to, 1);
        }
    }
}

#[test]
fn reductions_and_folds() {
    for reduction in Reduction::all() {
        for dtype in TYPES.into_iter().filter(|dtype| reduction.accepts(*dtype)) {
            for partials in [2usize, 8, 32] {
                fold(reduction, dtype, partials);
                folds_side_by_side(reduction, dtype, partials);
            }
        }
    }
}

/// P partial results along a vector, updated in a loop, then folded.
fn fold(reduction: Reduction, dtype: DType, partials: usize) {
    let identity = reduction.identity(dtype);
    let suffix = match dtype {
        DType::F32 | DType::I64 | DType::Bool => String::new(),
        _ if identity.to_string().ends_with(|c: char| c.is_ascii_digit()) => dtype.to_string(),
        _ => format!(" {dtype}"),
    };
    let text = format!(
        "kernel @folded(%x: read {dtype}[5, {partials}], %y: write {dtype}[2]) {{
           %p: register {dtype}[{partials}]
           for a < {partials} vector {{ %p[a] = {identity}{suffix} }}
           for i < 5 {{ for b < {partials} vector {{ %p[b] {} %x[i, b] }} }}
           let t: {dtype} = fold({reduction}, %p[])
           %y[0] = t
           %y[1] = %p[{}]
         }}",
        match reduction {
            Reduction::Sum => "+=".to_string(),
            Reduction::Product => "*=".to_string(),
            other => format!("{other}="),
        },
        partials - 1
    );
    let kernel = loops::parse(&text).unwrap_or_else(|errors| panic!("{text}\n{errors}"));
    let x = Tensor::from_scalars(dtype, &[5 * partials], &values(dtype, 5 * partials, 3));
    agree(&kernel, &[x, Tensor::zeros(dtype, &[2])], &[], Exact::ZeroSign);
}

/// P partial results of each of 21 rows, in memory, folded for several rows at once.
fn folds_side_by_side(reduction: Reduction, dtype: DType, partials: usize) {
    let text = format!(
        "kernel @folded(%x: read {dtype}[21, {partials}], %y: write {dtype}[21]) {{
           for a < 21 vector {{ %y[a] = fold({reduction}, %x[a]) }}
         }}"
    );
    let kernel = loops::parse(&text).unwrap_or_else(|errors| panic!("{text}\n{errors}"));
    let x = Tensor::from_scalars(dtype, &[21 * partials], &values(dtype, 21 * partials, 3));
    agree(&kernel, &[x, Tensor::zeros(dtype, &[21])], &[], Exact::ZeroSign);
}

/// Tails of vectors, of every length: what lies behind them must not be touched.
#[test]
fn tails_of_every_length() {
    for dtype in [DType::F32, DType::F64, DType::I32, DType::I64] {
        for count in 1..=17 {
            let text = format!(
                "kernel @copied(%x: read {dtype}[{count}], %y: write {dtype}[{count}]) {{
                   for a < {count} vector {{ %y[a] = %x[a] }}
                 }}"
            );
            let kernel = loops::parse(&text).unwrap_or_else(|errors| panic!("{text}\n{errors}"));
            let x = Tensor::from_scalars(dtype, &[count], &values(dtype, count, 1));
            agree(&kernel, &[x, Tensor::zeros(dtype, &[count])], &[], Exact::ZeroSign);
        }
    }
}

/// Tables of sixteen bytes that are known, at places that are and are not.
#[test]
fn bytes_of_known_tables() {
    let function = ScalarFunction::Lookup;
    let operands = function.operand_dtypes(DType::U8);
    let places = Tensor::from_scalars(DType::U8, &[COUNT], &values(DType::U8, COUNT, 1));
    let mut generator = Generator::new(2);
    for kind in [LoopKind::Vector, LoopKind::Serial] {
        let mut kernel = kernel(function, &operands, DType::U8, kind, None);
        let mut known = || ScalarExpr::Constant(Scalar::from_bits(DType::U32, generator.bits()));
        let words: Vec<ScalarExpr> = (0..4).map(|_| known()).collect();
        loops::visit::walk_values_mut(&mut kernel.body, &mut |value| {
            if let ScalarExpr::Apply { arguments, .. } = value {
                arguments.splice(1.., words.iter().cloned());
            }
        });
        let mut buffers = vec![places.clone()];
        buffers.extend((0..4).map(|_| Tensor::zeros(DType::U32, &[COUNT])));
        buffers.push(Tensor::zeros(DType::U8, &[COUNT]));
        agree(&kernel, &buffers, &[], Exact::Bits);
    }
}
