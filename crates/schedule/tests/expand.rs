//! The expansions of mathematical functions against the table of scalar functions: errors in units
//! in the last place over sweeps of operands, and the values at and beyond every end.
//!
//! `EXPAND_POINTS=10000000` sweeps longer; errors found are printed with `--nocapture`.

use eval::{KernelOptions, evaluate_kernel};
use loops::Kernel;
use schedule::{Schedule, ScheduleStep};
use tensor::random::Generator;
use tensor::{DType, Scalar, ScalarFunction, Tensor};

/// A kernel that applies a function to each element, expanded.
fn kernel(function: ScalarFunction, dtype: DType, result: DType, count: usize) -> Kernel {
    let name = function.name();
    let (second, arguments) = match function.arity() {
        1 => (String::new(), "%x[i]".to_owned()),
        _ => (format!(", %z: read {dtype}[{count}]"), "%x[i], %z[i]".to_owned()),
    };
    let text = format!(
        "kernel @f(%x: read {dtype}[{count}]{second}, %y: write {result}[{count}]) {{
          for i < {count} {{ %y[i] = {name}({arguments}) }}
        }}"
    );
    let kernel = loops::parse(&text).unwrap_or_else(|errors| panic!("{text}\n{errors}"));
    let mut schedule = Schedule::new(kernel);
    schedule.apply(ScheduleStep::ExpandFunctions).unwrap_or_else(|error| panic!("{error}"));
    loops::verify_scheduled(schedule.kernel()).unwrap_or_else(|errors| panic!("{errors}"));
    schedule.into_kernel()
}

/// The expansion's values.
fn values(function: ScalarFunction, dtype: DType, operands: &[Vec<Scalar>]) -> Vec<Scalar> {
    let result = function.result_dtype(&vec![dtype; operands.len()], None).unwrap();
    let count = operands[0].len();
    let kernel = kernel(function, dtype, result, count);
    let tensors = operands.iter().map(|all| Tensor::from_scalars(dtype, &[count], all));
    let mut buffers: Vec<Tensor> = tensors.chain([Tensor::zeros(result, &[count])]).collect();
    evaluate_kernel(&kernel, &mut buffers, &[], KernelOptions::default())
        .unwrap_or_else(|fault| panic!("{fault:?}\n{kernel}"));
    buffers.pop().unwrap().scalars().collect()
}

/// The distance of a value from the exact one in units in the last place of the exact one.
fn ulps(found: Scalar, exact: f64) -> f64 {
    let found_value = found.as_f64();
    if found_value.is_nan() || exact.is_nan() {
        return if found_value.is_nan() && exact.is_nan() { 0.0 } else { f64::INFINITY };
    }
    let (least, fraction) = match found.dtype() {
        DType::F32 => (-126, 23),
        DType::F16 => (-14, 10),
        DType::BF16 => (-126, 7),
        _ => (-1022, 52),
    };
    if found_value == exact {
        return 0.0;
    }
    // A result that rounds to an infinity is right if it is that infinity.
    let rounded = Scalar::from_f64(found.dtype(), exact);
    if !found_value.is_finite() || !rounded.as_f64().is_finite() {
        return if rounded.bits() == found.bits() { 0.0 } else { f64::INFINITY };
    }
    (found_value - exact).abs() / unit(exact, least, fraction)
}

fn unit(exact: f64, least: i32, fraction: i32) -> f64 {
    let exponent = ((exact.to_bits() >> 52 & 0x7ff) as i32 - 1023).max(least);
    match exponent - fraction {
        normal @ -1022.. => f64::from_bits(((normal + 1023) as u64) << 52),
        subnormal => f64::from_bits(1 << (subnormal + 1074)),
    }
}

/// Operands between bounds, evenly in value and evenly in exponent, and the bounds.
fn sweep(dtype: DType, low: f64, high: f64, count: usize, seed: u64) -> Vec<Scalar> {
    let mut generator = Generator::new(seed);
    let point = |generator: &mut Generator| {
        let t = generator.uniform();
        match generator.below(3) {
            0 => low + (high - low) * t,
            1 => {
                low.abs().max(high.abs())
                    * (-60.0 * t).exp2()
                    * if low < 0.0 && t > 0.5 { -1.0 } else { 1.0 }
            }
            _ => low + (high - low) * (-40.0 * t).exp2(),
        }
        .clamp(low, high)
    };
    let mut operands: Vec<f64> = (0..count).map(|_| point(&mut generator)).collect();
    operands.extend([low, high]);
    operands.into_iter().map(|value| Scalar::from_f64(dtype, value)).collect()
}

fn points() -> usize {
    std::env::var("EXPAND_POINTS").ok().and_then(|points| points.parse().ok()).unwrap_or(20_000)
}

/// Largest error of a function over a range, with the operand.
fn worst(function: ScalarFunction, dtype: DType, ranges: &[(f64, f64)]) -> (f64, Vec<Scalar>) {
    let mut worst = (0.0, Vec::new());
    let count = points() / 8;
    for round in 0..8u64 {
        let operands: Vec<Vec<Scalar>> = ranges
            .iter()
            .enumerate()
            .map(|(n, (low, high))| sweep(dtype, *low, *high, count, round * 10 + n as u64))
            .collect();
        let found = values(function, dtype, &operands);
        for (position, value) in found.iter().enumerate() {
            let arguments: Vec<Scalar> = operands.iter().map(|all| all[position]).collect();
            let reals: Vec<f64> = arguments.iter().map(|scalar| scalar.as_f64()).collect();
            let error = ulps(*value, function.evaluate_f64(&reals));
            if error > worst.0 {
                worst = (error, arguments);
            }
        }
    }
    worst
}

/// One function: the ranges of its operands, and the largest errors allowed in f32 and f64. The
/// exact values for f64 come from the platform and are up to an ULP off themselves.
type Row = (ScalarFunction, &'static [(f64, f64)], f64, f64);

#[rustfmt::skip]
const ROWS: &[Row] = &[
    (ScalarFunction::Exp,   &[(-110.0, 100.0)],  1.0, 1.5),
    (ScalarFunction::Exp2,  &[(-155.0, 130.0)],  1.0, 1.5),
    (ScalarFunction::Expm1, &[(-30.0, 90.0)],    2.0, 2.5),
    (ScalarFunction::Tanh,  &[(-12.0, 12.0)],    2.5, 3.0),
    (ScalarFunction::Sinh,  &[(-92.0, 92.0)],    3.0, 3.5),
    (ScalarFunction::Cosh,  &[(-92.0, 92.0)],    2.0, 2.5),
    (ScalarFunction::Log,   &[(0.0, 1e38)],      1.0, 1.5),
    (ScalarFunction::Log,   &[(0.5, 2.0)],       1.0, 1.5),
    (ScalarFunction::Log2,  &[(0.0, 1e38)],      2.5, 3.0),
    (ScalarFunction::Log2,  &[(0.5, 2.0)],       2.5, 3.0),
    (ScalarFunction::Log1p, &[(-1.0, 10.0)],     1.5, 2.0),
    (ScalarFunction::Log1p, &[(0.0, 1e38)],      1.5, 2.0),
    (ScalarFunction::Asinh, &[(-1e38, 1e38)],    3.0, 3.5),
    (ScalarFunction::Asinh, &[(-5.0, 5.0)],      3.0, 3.5),
    (ScalarFunction::Acosh, &[(1.0, 1e38)],      3.0, 3.5),
    (ScalarFunction::Acosh, &[(1.0, 3.0)],       3.0, 3.5),
    (ScalarFunction::Atanh, &[(-1.0, 1.0)],      3.0, 3.5),
    (ScalarFunction::Erf,   &[(-5.0, 5.0)],      1.5, 2.0),
    (ScalarFunction::Sin,   &[(-1000.0, 1000.0)], 2.0, 2.5),
    (ScalarFunction::Sin,   &[(-1e6, 1e6)],      2.0, 2.5),
    (ScalarFunction::Cos,   &[(-1000.0, 1000.0)], 2.0, 2.5),
    (ScalarFunction::Cos,   &[(-1e6, 1e6)],      2.0, 2.5),
    (ScalarFunction::Tan,   &[(-1000.0, 1000.0)], 1.0, 2.0),
    (ScalarFunction::Tan,   &[(-1e6, 1e6)],      1.0, 2.0),
    (ScalarFunction::Tan,   &[(1.5607, 1.5809)], 1.0, 2.0),
    (ScalarFunction::Asin,  &[(-1.0, 1.0)],      2.5, 3.0),
    (ScalarFunction::Acos,  &[(-1.0, 1.0)],      2.5, 3.0),
    (ScalarFunction::Atan,  &[(-10.0, 10.0)],    2.0, 2.5),
    (ScalarFunction::Atan,  &[(-1e30, 1e30)],    2.0, 2.5),
    (ScalarFunction::Atan2, &[(-5.0, 5.0), (-5.0, 5.0)],     3.0, 3.5),
    (ScalarFunction::Atan2, &[(-3e38, 3e38), (-3e38, 3e38)], 3.0, 3.5),
    (ScalarFunction::Pow,   &[(0.0, 20.0), (-30.0, 30.0)],   2.0, 12.0),
    (ScalarFunction::Pow,   &[(0.9, 1.1), (-900.0, 900.0)],  2.0, 12.0),
    (ScalarFunction::Rem,   &[(-1e5, 1e5), (0.01, 10.0)],    0.0, 0.0),
    (ScalarFunction::Mod,   &[(-1e5, 1e5), (0.1, 10.0)],     0.5, 0.5),
    (ScalarFunction::Reciprocal, &[(-10.0, 10.0)],           0.5, 0.5),
];

#[test]
fn errors_are_small() {
    let mut failures = String::new();
    for (function, ranges, f32_bound, f64_bound) in ROWS {
        for (dtype, bound) in [(DType::F32, f32_bound), (DType::F64, f64_bound)] {
            let (error, at) = worst(*function, dtype, ranges);
            println!("{function} {dtype} on {ranges:?}: {error:.2} ULP at {at:?}");
            if error > *bound {
                failures += &format!("{function} {dtype}: {error:.2} ULP at {at:?}\n");
            }
        }
    }
    assert!(failures.is_empty(), "{failures}");
}

/// The values of an expression of `%x[i]`, expanded.
fn values_of(expression: &str, dtype: DType, operands: &[Scalar]) -> Vec<Scalar> {
    let count = operands.len();
    let text = format!(
        "kernel @f(%x: read {dtype}[{count}], %y: write {dtype}[{count}]) {{
          for i < {count} {{ %y[i] = {expression} }}
        }}"
    );
    let kernel = loops::parse(&text).unwrap_or_else(|errors| panic!("{text}\n{errors}"));
    let mut schedule = Schedule::new(kernel);
    schedule.apply(ScheduleStep::ExpandFunctions).unwrap_or_else(|error| panic!("{error}"));
    let mut buffers =
        vec![Tensor::from_scalars(dtype, &[count], operands), Tensor::zeros(dtype, &[count])];
    evaluate_kernel(&schedule.into_kernel(), &mut buffers, &[], KernelOptions::default())
        .unwrap_or_else(|fault| panic!("{fault:?}"));
    buffers.pop().unwrap().scalars().collect()
}

#[test]
fn what_is_added_to_an_exponential_changes_no_bit() {
    for (dtype, bound) in [(DType::F32, 120.0), (DType::F64, 760.0)] {
        let mut operands = sweep(dtype, -bound, bound, points() / 4, 7);
        operands.extend(special(dtype));
        // Where the power of two is the largest, and where the result is infinite.
        operands.extend(sweep(dtype, bound * 0.72, bound * 0.75, points() / 4, 8));
        operands.extend(sweep(dtype, bound * 0.93, bound * 0.94, points() / 4, 9));
        let exponentials = values(ScalarFunction::Exp, dtype, &[operands.clone()]);
        for c in [1, -1, 1000].map(|c| format!("{c}.0{dtype}")) {
            let together = values_of(&format!("exp(%x[i]) + {c}"), dtype, &operands);
            let apart = values_of(&format!("%x[i] + {c}"), dtype, &exponentials);
            for ((one, two), x) in together.iter().zip(&apart).zip(&operands) {
                let same =
                    one.bits() == two.bits() || one.as_f64().is_nan() && two.as_f64().is_nan();
                assert!(same, "exp({x}) + {c}: {one}, {two} apart");
            }
        }
    }
}

#[test]
fn exponentials_beside_one_have_the_bits_of_others() {
    for (dtype, bound, least) in [(DType::F32, 120.0, -86.0), (DType::F64, 760.0, -700.0)] {
        let mut operands = sweep(dtype, -bound, bound, points() / 4, 12);
        operands.extend(special(dtype));
        operands.extend(sweep(dtype, least - 0.01, least + 0.01, points() / 4, 13));
        let exponentials = values(ScalarFunction::Exp, dtype, &[operands.clone()]);
        let formula = format!("select(lt(%x[i], {least:?}{dtype}), 0.0{dtype}, exp(%x[i]))");
        let beside_one = values_of(&formula, dtype, &operands);
        for ((found, exponential), x) in beside_one.iter().zip(&exponentials).zip(&operands) {
            let wanted = if x.as_f64() < least { Scalar::zero(dtype) } else { *exponential };
            let both_nan = found.as_f64().is_nan() && wanted.as_f64().is_nan();
            assert!(found.bits() == wanted.bits() || both_nan, "exp({x}): {found}, not {wanted}");
        }
    }
}

#[test]
fn one_and_an_error_function_are_right_together() {
    let exact = |x: f64| 1.0 + ScalarFunction::Erf.evaluate_f64(&[x]);
    let mut operands = sweep(DType::F32, -12.0, 12.0, points(), 11);
    operands.extend(special(DType::F32));
    let found = values_of("erf(%x[i]) + 1.0", DType::F32, &operands);
    for (value, x) in found.iter().zip(&operands) {
        let (value, x) = (value.as_f64(), x.as_f64());
        let right = exact(x);
        // In units of the last place of 1, and below zero of what is left besides.
        let off = (value - right).abs() / f64::from(f32::EPSILON);
        assert!(x.is_nan() && value.is_nan() || off <= 1.2, "erf({x}) + 1: {value}, not {right}");
        if (-3.0..0.0).contains(&x) {
            let relative = (value - right).abs() / right;
            assert!(relative < 1e-3, "erf({x}) + 1: {value}, not {right}");
        }
    }
}

/// Zeros, the smallest and largest numbers, ones, infinities, NaN and some between.
fn special(dtype: DType) -> Vec<Scalar> {
    let numbers =
        [0.0, 1e-45, 1.1754944e-38, 1e-20, 0.25, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 1e10, 3.4e38];
    let both = numbers.into_iter().chain([f64::INFINITY]).flat_map(|number| [number, -number]);
    both.chain([f64::NAN]).map(|number| Scalar::from_f64(dtype, number)).collect()
}

#[test]
fn short_floats_go_by_way_of_f32() {
    for dtype in [DType::F16, DType::BF16] {
        for function in [ScalarFunction::Exp, ScalarFunction::Tanh, ScalarFunction::Log] {
            let (error, at) = worst(function, dtype, &[(0.0, 5.0)]);
            assert!(error <= 0.501, "{function} {dtype}: {error:.3} ULP at {at:?}");
        }
    }
}

#[test]
fn ends_and_special_values() {
    let mut failures = String::new();
    for function in ScalarFunction::all().filter(|function| !function.is_machine()) {
        for dtype in [DType::F32, DType::F64] {
            if function.result_dtype(&vec![dtype; function.arity()], None).is_err() {
                continue;
            }
            let all = special(dtype);
            let operands: Vec<Vec<Scalar>> = match function.arity() {
                1 => vec![all],
                _ => {
                    let repeated = all.iter().flat_map(|a| std::iter::repeat_n(*a, all.len()));
                    vec![repeated.collect(), all.repeat(all.len())]
                }
            };
            let found = values(function, dtype, &operands);
            for (position, value) in found.iter().enumerate() {
                let arguments: Vec<Scalar> = operands.iter().map(|all| all[position]).collect();
                let reals: Vec<f64> = arguments.iter().map(|scalar| scalar.as_f64()).collect();
                if !is_right(function, *value, &reals) {
                    let exact = function.evaluate_f64(&reals);
                    failures += &format!("{function}{arguments:?} = {value}, not {exact}\n");
                }
            }
        }
    }
    assert!(failures.is_empty(), "{failures}");
}

fn is_right(function: ScalarFunction, value: Scalar, operands: &[f64]) -> bool {
    use ScalarFunction as F;
    let exact = function.evaluate_f64(operands);
    // Out of what the reductions are for.
    let far = operands.iter().any(|operand| operand.is_finite() && operand.abs() > 1e6);
    if far && matches!(function, F::Sin | F::Cos | F::Tan | F::Rem | F::Mod) {
        return true;
    }
    let quotient = operands.iter().copied().reduce(|a, b| a / b).unwrap_or(0.0).abs();
    if matches!(function, F::Rem | F::Mod) && quotient.is_finite() && quotient > 1e12 {
        return true;
    }
    if value.dtype() == DType::Bool {
        return value.as_bool() == (exact != 0.0);
    }
    let bound = if value.dtype() == DType::F64 { 40.0 } else { 4.0 };
    let rounded = Scalar::from_f64(value.dtype(), exact);
    let sign_right = rounded.as_f64() != 0.0
        || value.as_f64() != 0.0
        || value.as_f64().is_sign_negative() == rounded.as_f64().is_sign_negative();
    ulps(value, exact) <= bound && sign_right
}
