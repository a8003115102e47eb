//! Tests of the scalar function table.

use super::*;
use proptest::prelude::*;

fn f32_value(function: ScalarFunction, arguments: &[f32]) -> f32 {
    let arguments: Vec<Scalar> = arguments.iter().map(|&value| Scalar::f32(value)).collect();
    function.evaluate(DType::F32, &arguments).as_f32()
}

fn integer_value(function: ScalarFunction, dtype: DType, arguments: &[i64]) -> i64 {
    let arguments: Vec<Scalar> =
        arguments.iter().map(|&value| Scalar::from_i64(dtype, value)).collect();
    function.evaluate(dtype, &arguments).as_i64()
}

#[test]
fn rows_stand_in_the_order_of_the_variants() {
    for (index, function) in ScalarFunction::all().enumerate() {
        assert_eq!(function as usize, index);
        assert_eq!(ScalarFunction::from_name(function.name()), Some(function));
        assert!((1..=ScalarFunction::MOST_OPERANDS).contains(&function.arity()));
    }
}

/// Every function evaluates on every type that its rule accepts, to the type the rule says.
#[test]
fn rules_and_values_agree() {
    for function in ScalarFunction::all() {
        for dtype in DType::all().filter(|dtype| *dtype != DType::String) {
            let operands = function.operand_dtypes(dtype);
            let target = match function.type_rule() {
                TypeRule::Convert | TypeRule::Bitcast => Some(dtype),
                _ => None,
            };
            let Ok(result) = function.result_dtype(&operands, target) else { continue };
            for value in [0, 1, -1, 3] {
                let arguments: Vec<Scalar> =
                    operands.iter().map(|&dtype| Scalar::from_i64(dtype, value)).collect();
                assert_eq!(function.evaluate(result, &arguments).dtype(), result, "{function}");
            }
        }
    }
}

#[test]
fn refusals() {
    use ScalarFunction::*;
    let refused = |function: ScalarFunction, operands: &[DType], target| {
        function.result_dtype(operands, target).expect_err("refused")
    };
    assert_eq!(refused(Add, &[DType::F32], None), "`add` takes 2 operand(s), not 1");
    assert_eq!(
        refused(Add, &[DType::F32, DType::F64], None),
        "`add` takes operands of one type, not f32 and f64"
    );
    assert_eq!(refused(Exp, &[DType::I32], None), "`exp` takes a float type, not i32");
    assert_eq!(
        refused(Add, &[DType::Bool; 2], None),
        "`add` takes a float or integer type, not bool"
    );
    assert_eq!(refused(Cast, &[DType::I32], None), "`cast` needs a target type");
    assert_eq!(
        refused(Bitcast, &[DType::I32], Some(DType::F64)),
        "`bitcast` keeps the width: i32 does not become f64"
    );
    assert_eq!(refused(Select, &[DType::I32; 3], None), "`select` takes a bool condition, not i32");
    let table = [DType::U8, DType::U32, DType::U32, DType::U64, DType::U32];
    assert_eq!(refused(Lookup, &table, None), "`lookup` takes a table of u32, not u64");
    assert_eq!(
        refused(Lookup, &Lookup.operand_dtypes(DType::I8), None),
        "`lookup` takes u8, not i8"
    );
    assert_eq!(refused(Eq, &[DType::F32; 2], Some(DType::F32)), "`eq` of f32 gives bool, not f32");
}

#[test]
fn integer_edges() {
    use ScalarFunction::*;
    let i8 = |function, arguments: &[i64]| integer_value(function, DType::I8, arguments);
    assert_eq!(i8(Add, &[127, 1]), -128);
    assert_eq!(i8(Mul, &[100, 3]), 44);
    assert_eq!(i8(Neg, &[-128]), -128);
    assert_eq!(i8(Abs, &[-128]), -128);
    assert_eq!(i8(Div, &[-7, 2]), -3);
    assert_eq!(i8(Div, &[-128, -1]), -128);
    assert_eq!(i8(Div, &[5, 0]), -1);
    assert_eq!(i8(Rem, &[5, 0]), 5);
    assert_eq!(i8(Rem, &[-128, -1]), 0);
    assert_eq!(i8(Rem, &[-7, 3]), -1);
    assert_eq!(i8(Mod, &[-7, 3]), 2);
    assert_eq!(i8(Mod, &[7, -3]), -2);
    assert_eq!(i8(Pow, &[-2, 3]), -8);
    assert_eq!(i8(Pow, &[2, 7]), -128);
    assert_eq!(i8(Pow, &[2, -1]), 0);
    assert_eq!(i8(Pow, &[-1, -3]), -1);
    assert_eq!(i8(Shl, &[1, 7]), -128);
    assert_eq!(i8(Shl, &[1, 8]), 0);
    assert_eq!(i8(Shl, &[1, -1]), 0);
    assert_eq!(i8(Shr, &[-8, 1]), -4);
    assert_eq!(i8(Shr, &[-8, 100]), -1);
    assert_eq!(i8(Not, &[5]), -6);
    assert_eq!(i8(CountLeadingZeros, &[1]), 7);
    assert_eq!(i8(CountLeadingZeros, &[0]), 8);
    assert_eq!(i8(Popcount, &[-1]), 8);
    let u64 = |function, arguments: &[i64]| integer_value(function, DType::U64, arguments);
    assert_eq!(u64(Div, &[-1, 2]), i64::MAX);
    assert_eq!(u64(Div, &[3, 0]), -1);
    assert_eq!(u64(Mul, &[-1, -1]), 1);
    assert_eq!(u64(FusedMultiplyAdd, &[-1, -1, -2]), -1);
    assert_eq!(u64(Shr, &[-1, 63]), 1);
    assert_eq!(u64(Shl, &[-1, 63]), i64::MIN);
    assert_eq!(Not.evaluate(DType::Bool, &[Scalar::bool(true)]), Scalar::bool(false));
    let bools = [Scalar::bool(true), Scalar::bool(false)];
    assert_eq!(Max.evaluate(DType::Bool, &bools), Scalar::bool(true));
    assert_eq!(Lt.evaluate(DType::Bool, &bools), Scalar::bool(false));
}

#[test]
fn bytes_of_a_table() {
    let table = [0x0302_0100, 0x0706_0504, 0xf0fa_0908, 0xff0e_0d0c].map(Scalar::u32);
    let at = |place: u8| {
        let operands = [&[Scalar::u8(place)][..], &table[..]].concat();
        ScalarFunction::Lookup.evaluate(DType::U8, &operands).as_i64()
    };
    assert_eq!([0, 3, 4, 9, 10, 11, 15].map(at), [0, 3, 4, 9, 250, 240, 255]);
    assert_eq!([16, 0x8f].map(at), [0, 255]);
}

#[test]
fn float_edges() {
    use ScalarFunction::*;
    let (nan, inf) = (f32::NAN, f32::INFINITY);
    assert!(f32_value(Max, &[1.0, nan]).is_nan() && f32_value(Min, &[nan, 1.0]).is_nan());
    assert!(f32_value(Max, &[0.0, -0.0]).is_sign_positive());
    assert!(f32_value(Min, &[0.0, -0.0]).is_sign_negative());
    assert_eq!(f32_value(Div, &[1.0, 0.0]), inf);
    assert_eq!(f32_value(Rem, &[-5.5, 2.0]), -1.5);
    assert_eq!(f32_value(Mod, &[-5.5, 2.0]), 0.5);
    assert!(f32_value(Mod, &[4.0, -2.0]).is_sign_negative());
    assert!(f32_value(Mod, &[1.0, 0.0]).is_nan());
    assert_eq!(f32_value(Mod, &[-1.0, inf]), inf);
    assert_eq!(f32_value(Pow, &[1.0, nan]), 1.0);
    assert_eq!(f32_value(Sign, &[-3.0]), -1.0);
    assert!(f32_value(Sign, &[-0.0]).is_sign_negative());
    assert!(f32_value(Sign, &[nan]).is_nan());
    assert_eq!([0.5, 1.5, 2.5, -0.5].map(|x| f32_value(Round, &[x])), [0.0, 2.0, 2.0, 0.0]);
    assert!(f32_value(Sqrt, &[-1.0]).is_nan());
    assert_eq!(f32_value(Log, &[0.0]), -inf);
    assert_eq!(f32_value(Atanh, &[1.0]), inf);
    assert!(f32_value(Acosh, &[0.5]).is_nan() && f32_value(Acosh, &[-1e12]).is_nan());
    assert_eq!(f32_value(Asinh, &[-inf]), -inf);
    assert_eq!(f32_value(Acosh, &[inf]), inf);
    let test = |function: ScalarFunction, value| {
        function.evaluate(DType::Bool, &[Scalar::f32(value)]).as_bool()
    };
    assert!(test(IsNan, nan) && !test(IsNan, inf) && test(IsInf, -inf) && !test(IsInf, nan));
    let payload = Scalar::from_bits(DType::F32, 0xffc0_1234);
    let chosen = Select.evaluate(DType::F32, &[Scalar::bool(false), Scalar::f32(1.0), payload]);
    assert_eq!(chosen, payload);
    assert_eq!(Bitcast.evaluate(DType::I32, &[Scalar::f32(1.0)]), Scalar::i32(0x3f80_0000));
    let ne = |a, b| Ne.evaluate(DType::Bool, &[Scalar::f32(a), Scalar::f32(b)]).as_bool();
    assert!(ne(nan, nan) && !ne(0.0, -0.0));
}

#[test]
fn short_floats_compute_in_f32_and_round() {
    let f16 = |value| Scalar::from_f64(DType::F16, value);
    let sum = ScalarFunction::Add.evaluate(DType::F16, &[f16(2048.0), f16(1.0)]);
    assert_eq!(sum, f16(2048.0));
    let product = ScalarFunction::Mul.evaluate(DType::F16, &[f16(300.0), f16(300.0)]);
    assert_eq!(product.as_f64(), f64::INFINITY);
}

/// `(a, erf(a))`, rounded from 40 digits of an arbitrary-precision evaluation.
const ERF: [(f64, f64); 14] = [
    (1e-300, 1.1283791670955126e-300),
    (1e-08, 1.1283791670955126e-08),
    (0.1, 0.1124629160182849),
    (0.25, 0.27632639016823696),
    (0.46875, 0.49261347321793797),
    (0.5, 0.5204998778130465),
    (0.75, 0.7111556336535151),
    (1.0, 0.8427007929497149),
    (1.5, 0.9661051464753108),
    (2.0, 0.9953222650189527),
    (2.9, 0.9999589021219005),
    (3.99, 0.9999999832607886),
    (4.5, 0.9999999998033839),
    (5.5, 0.9999999999999927),
];

#[test]
fn erf_is_accurate() {
    for (x, expected) in ERF {
        for (x, expected) in [(x, expected), (-x, -expected)] {
            let error = (erf(x) - expected).abs() / (expected.next_up() - expected).abs();
            assert!(error <= 1.0, "erf({x}) is {error} ULP off");
        }
    }
    assert!(erf(f64::NAN).is_nan());
    assert_eq!(erf(f64::INFINITY), 1.0);
    assert!(erf(-0.0).is_sign_negative());
}

#[test]
fn monotone_functions_are() {
    for function in ScalarFunction::all() {
        let Some(direction) = function.monotone() else { continue };
        let mut previous = f64::NAN;
        for step in -400..=400 {
            let value = function.evaluate_f64(&[f64::from(step) / 64.0]);
            let ordered = match direction {
                Monotone::Increasing => previous <= value,
                Monotone::Decreasing => previous >= value,
            };
            assert!(ordered || previous.is_nan() || value.is_nan(), "{function} at {step}/64");
            previous = value;
        }
    }
}

proptest! {
    /// The f64 computation rounded once is the f32 computation, as the header claims.
    #[test]
    fn basic_operations_are_those_of_f32(a in any::<f32>(), b in any::<f32>(), c in any::<f32>()) {
        use ScalarFunction::*;
        let same = |x: f32, y: f32| x.to_bits() == y.to_bits() || x.is_nan() && y.is_nan();
        prop_assert!(same(f32_value(Add, &[a, b]), a + b));
        prop_assert!(same(f32_value(Sub, &[a, b]), a - b));
        prop_assert!(same(f32_value(Mul, &[a, b]), a * b));
        prop_assert!(same(f32_value(Div, &[a, b]), a / b));
        prop_assert!(same(f32_value(Rem, &[a, b]), a % b));
        prop_assert!(same(f32_value(Sqrt, &[a]), a.sqrt()));
        prop_assert!(same(f32_value(FusedMultiplyAdd, &[a, b, c]), a.mul_add(b, c)));
    }

    #[test]
    fn integers_are_those_of_rust(a in any::<i32>(), b in any::<i32>()) {
        use ScalarFunction::*;
        let value = |function| integer_value(function, DType::I32, &[a.into(), b.into()]) as i32;
        prop_assert_eq!(value(Add), a.wrapping_add(b));
        prop_assert_eq!(value(Sub), a.wrapping_sub(b));
        prop_assert_eq!(value(Mul), a.wrapping_mul(b));
        prop_assert_eq!(value(Min), a.min(b));
        prop_assert_eq!(value(Xor), a ^ b);
        prop_assert_eq!(value(Div).wrapping_mul(b).wrapping_add(value(Rem)), a);
        if b != 0 {
            prop_assert_eq!(value(Div), a.wrapping_div(b));
            prop_assert_eq!(value(Rem), a.wrapping_rem(b));
        }
        if b > 0 {
            prop_assert_eq!(value(Mod), a.rem_euclid(b));
        }
    }

    /// What the flags claim, on random elements.
    #[test]
    fn laws(bits in prop::array::uniform3(any::<u64>())) {
        for function in ScalarFunction::all() {
            for dtype in [DType::F32, DType::I8, DType::U64, DType::Bool, DType::BF16] {
                let [a, b, c] = bits.map(|bits| Scalar::from_bits(dtype, bits));
                if [a, b, c].iter().any(|value| value.is_nan()) {
                    continue;
                }
                let Ok(result) = function.result_dtype(&vec![dtype; function.arity()], None) else {
                    continue;
                };
                let f = |x: Scalar, y: Scalar| function.evaluate(result, &[x, y]);
                if function.is_commutative() {
                    prop_assert_eq!(f(a, b), f(b, a));
                }
                if function.is_associative(dtype) {
                    prop_assert_eq!(f(f(a, b), c), f(a, f(b, c)));
                }
                if function.is_idempotent() {
                    prop_assert_eq!(f(a, a), a);
                }
                if function.is_projection() {
                    let once = function.evaluate(result, &[a]);
                    prop_assert_eq!(function.evaluate(result, &[once]), once);
                }
                if let Some(identity) = function.right_identity(dtype) {
                    prop_assert_eq!(f(a, identity), a, "{} of {}", function, dtype);
                }
            }
        }
    }
}
