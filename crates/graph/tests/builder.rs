//! What the builder makes, as text, and what it refuses.

use graph::{Built, FunctionBuilder, TensorType, Type, ValueId, verify};
use sym::{Expr, Range};
use tensor::{DType, Reduction, ScalarFunction};

/// A function with the parameters `a: f32[n, 2, 3]`, `b: f32[3]`, `c: f32[1, 3, 4]` and the result
/// of `build`; its nodes as text, or what the builder says.
fn check(build: impl Fn(&mut FunctionBuilder, [ValueId; 3]) -> Built, expected: &str) {
    let mut builder = FunctionBuilder::new("f");
    let n = Expr::symbol(builder.symbol("n", Range::new(1, 8)));
    let mut parameter = |name: &str, shape: &[Expr]| {
        builder.parameter(name, Type::Tensor(TensorType { dtype: DType::F32, shape: shape.into() }))
    };
    let a = parameter("a", &[n, 2.into(), 3.into()]);
    let b = parameter("b", &[3.into()]);
    let c = parameter("c", &[1.into(), 3.into(), 4.into()]);
    let found = match build(&mut builder, [a, b, c]) {
        Err(reason) => format!("error: {reason}\n"),
        Ok(result) => {
            let function = builder.finish(vec![("y".to_owned(), result)]);
            verify(&function).unwrap_or_else(|found| panic!("{found}"));
            let text = function.to_string();
            let nodes = text.lines().skip(5).map(|line| line.trim_start());
            let nodes: Vec<&str> = nodes.collect();
            nodes[..nodes.len() - 1].iter().map(|line| format!("{line}\n")).collect()
        }
    };
    let expected: String = expected.lines().map(|line| format!("{}\n", line.trim())).collect();
    assert_eq!(found, expected);
}

#[test]
fn maps_broadcast() {
    check(
        |builder, [a, b, _]| builder.map_broadcast(ScalarFunction::Add, &[a, b]),
        "%v3: f32[n, 2, 3] = broadcast axes [2] %v1
         %v4: f32[n, 2, 3] = map add %v0, %v3
         return %v4 as \"y\"",
    );
    check(
        |builder, [a, b, _]| builder.map(ScalarFunction::Add, &[a, b]),
        "error: map: operand 0 has rank 3 and operand 1 rank 1",
    );
    check(
        |builder, [a, _, c]| builder.map_broadcast(ScalarFunction::Add, &[a, c]),
        "error: axis 1 of operand 1 has extent 3, which does not broadcast with 2",
    );
    check(
        |builder, [a, _, _]| {
            let one = builder.scalar(DType::F64, 1.0);
            builder.map_broadcast(ScalarFunction::Add, &[a, one])
        },
        "error: `add` takes operands of one type, not f32 and f64",
    );
}

/// A number takes the place of a name on its own axis, of however many axes the shapes are.
#[test]
fn shapes_have_a_common_one() {
    let mut builder = FunctionBuilder::new("f");
    let [n, m] = ["n", "m"].map(|name| Expr::symbol(builder.symbol(name, Range::new(1, 8))));
    let shape = vec![Expr::from(5), n, m.clone()];
    let ty = TensorType { dtype: DType::F32, shape: shape.as_slice().into() };
    builder.parameter("x", Type::Tensor(ty));
    let common = builder.common_shape(&[&shape, &[4.into(), 1.into()]]);
    assert_eq!(common.expect("they fit"), [5.into(), 4.into(), m.clone()]);
    let common = builder.common_shape(&[&[3.into()], &shape]);
    assert_eq!(common.expect("they fit")[..2], shape[..2]);
    let refused = builder.common_shape(&[&[5.into(), 4.into(), m], &[3.into(), 1.into()]]);
    assert!(refused.expect_err("4 is not 3").contains("axis 1 of the common shape"));
}

#[test]
fn what_moves_nothing_is_its_operand() {
    check(
        |builder, [a, _, _]| {
            let shape = builder.shape(a)?;
            let mut value = builder.reshape(a, &shape)?;
            value = builder.transpose(value, &[0, 1, 2])?;
            value = builder.broadcast_to(value, &shape)?;
            value = builder.cast(value, DType::F32)?;
            value = builder.concat(0, &[value])?;
            let zeros = vec![Expr::ZERO; 3];
            value = builder.slice(value, &zeros, &[1, 1, 1], &shape)?;
            let fill = builder.scalar(DType::F32, 0.0);
            builder.pad(value, fill, &zeros, &zeros, &[0, 0, 0])
        },
        "%v3: f32[] = literal {0.0}
         return %v0 as \"y\"",
    );
}

#[test]
fn matrix_products_are_numpys() {
    check(
        |builder, [a, _, c]| builder.matmul(a, c),
        "%v3: f32[n, 2, 4] = contract [a0: n, a1: 2, a2: 4 | r0: 3] %v0[a0, a1, r0], \
            %v2[0, r0, a2] accumulate f32
         return %v3 as \"y\"",
    );
    check(
        |builder, [a, b, _]| builder.matmul(a, b),
        "%v3: f32[n, 2] = contract [a0: n, a1: 2 | r0: 3] %v0[a0, a1, r0], %v1[r0] accumulate f32
         return %v3 as \"y\"",
    );
    check(
        |builder, [_, b, c]| builder.matmul(b, c),
        "%v3: f32[1, 4] = contract [a0: 1, a1: 4 | r0: 3] %v1[r0], %v2[a0, r0, a1] accumulate f32
         return %v3 as \"y\"",
    );
    check(
        |builder, [_, b, _]| builder.matmul(b, b),
        "%v3: f32[] = contract [| r0: 3] %v1[r0], %v1[r0] accumulate f32
         return %v3 as \"y\"",
    );
    check(
        |builder, [a, _, _]| builder.matmul(a, a),
        "error: the left operand has 3 columns, but the right one has 2 rows",
    );
}

#[test]
fn reductions_over_axes() {
    check(
        |builder, [a, _, _]| builder.reduce_axes(a, &[0, 2], Reduction::Sum, DType::F32, true),
        "%v3: f32[2] = reduce sum [a0: 2 | r0: n, r1: 3] %v0[r0, a0, r1]
         %v4: f32[1, 2, 1] = reshape %v3
         return %v4 as \"y\"",
    );
    check(
        |builder, [a, _, _]| builder.reduce_axes(a, &[3], Reduction::Sum, DType::F32, true),
        "error: there is no axis 3 in a tensor of rank 3",
    );
    check(
        |builder, [a, _, _]| builder.reduce_axes(a, &[0], Reduction::And, DType::F32, true),
        "error: reduce: elements of type f32 have no and",
    );
}

#[test]
fn regions() {
    check(
        |builder, [_, b, _]| {
            let flag = builder.scalar(DType::Bool, 1.0);
            builder.begin_region(&[]);
            let negative = builder.map(ScalarFunction::Neg, &[b])?;
            let first = builder.end_region(&[negative]);
            builder.begin_region(&[]);
            let second = builder.end_region(&[b]);
            Ok(builder.branch(flag, &[first, second])?[0])
        },
        "%v3: bool[] = literal {true}
         %v4: f32[3] = if %v3 then {
         %v5: f32[3] = map neg %v1
         yield %v5
         } else {
         yield %v1
         }
         return %v4 as \"y\"",
    );
}
