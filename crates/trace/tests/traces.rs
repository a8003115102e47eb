//! Functions traced, differentiated and evaluated, beside what is known of them; and mistakes.

use base::Id;
use eval::EvaluationPrecision;
use tensor::{DType, Tensor};
use trace::{
    TracedValue, ValueTree, grad, hessian, if_else, jacobian, jvp, repeat, scan, trace,
    value_and_grad, vmap, while_loop,
};

/// What a function of f64 inputs gives.
fn results<R: ValueTree>(
    inputs: &[Tensor],
    function: impl FnOnce(&[TracedValue]) -> R,
) -> Vec<Tensor> {
    let names: Vec<String> = (0..inputs.len()).map(|number| format!("x{number}")).collect();
    let types: Vec<(&str, DType, &[usize])> = names
        .iter()
        .zip(inputs)
        .map(|(name, input)| (&name[..], input.dtype(), input.shape()))
        .collect();
    let traced = match trace("f", &types, function) {
        Ok(traced) => traced,
        Err(found) => panic!("{found}"),
    };
    let module = traced.module();
    let constants = |id: base::ConstantId| module.constants[id].tensor.clone();
    let function = module.functions.values().next().expect("a function");
    match eval::graph::evaluate(function, &constants, inputs, EvaluationPrecision::Declared) {
        Ok(results) => results,
        Err(fault) => panic!("{fault}\n{traced}"),
    }
}

fn vector(elements: &[f64]) -> Tensor {
    Tensor::from_vec(&[elements.len()], elements.to_vec())
}

fn number(element: f64) -> Tensor {
    Tensor::from_vec(&[], vec![element])
}

#[track_caller]
fn check(found: &Tensor, expected: &[f64]) {
    let found = found.to_f64_vec();
    assert_eq!(found.len(), expected.len(), "{found:?}");
    for (found, expected) in found.iter().zip(expected) {
        assert!((found - expected).abs() <= 1e-9 * expected.abs().max(1.0), "{found} {expected}");
    }
}

/// What is said of a function of a vector of three.
fn refusal<R: ValueTree>(function: impl FnOnce(&TracedValue) -> R) -> String {
    let traced = trace("f", &[("x", DType::F64, &[3])], |inputs| function(&inputs[0]));
    traced.expect_err("a mistake").to_string()
}

#[test]
fn derivatives_nest() {
    let x: f64 = 0.7;
    let cube = |x: &TracedValue| x * x * x;
    let found = results(&[number(x)], |inputs| {
        let x = &inputs[0];
        let third = grad(grad(grad(cube)));
        let forwards = |x: &TracedValue| jvp(|x: &TracedValue| x.sin())(x, &x.number(1.0)).1;
        (grad(cube)(x), grad(grad(cube))(x), third(x), grad(forwards)(x))
    });
    check(&found[0], &[3.0 * x * x]);
    check(&found[1], &[6.0 * x]);
    check(&found[2], &[6.0]);
    check(&found[3], &[-x.sin()]);
}

#[test]
fn what_is_read_from_around_is_constant() {
    let found = results(&[number(3.0)], |inputs| {
        let x = &inputs[0];
        // d/dx (x * d/dy (x * y)) = 2 x, though y is x.
        let outer = |x: &TracedValue| x * grad(|y: &TracedValue| x * y)(x);
        (grad(outer)(x), grad(|y: &TracedValue| x * y)(x))
    });
    check(&found[0], &[6.0]);
    check(&found[1], &[3.0]);
}

#[test]
fn jacobians_and_hessians() {
    let x = [0.3, -0.8, 1.1];
    let found = results(&[vector(&x)], |inputs| {
        let x = &inputs[0];
        let sums = |x: &TracedValue| {
            let rest = x.slice(0, 1..3);
            (x.slice(0, 0..2) * &rest).sin()
        };
        let wide = |x: &TracedValue| x.concat(0, &[x.exp()]);
        let product = |x: &TracedValue| x.product_axes(&[0]);
        (jacobian(sums)(x), jacobian(wide)(x), hessian(product)(x))
    });
    let [a, b, c] = x;
    let (p, q) = ((a * b).cos(), (b * c).cos());
    check(&found[0], &[b * p, a * p, 0.0, 0.0, c * q, b * q]);
    let diagonal = |of: [f64; 3]| -> Vec<f64> {
        (0..9).map(|place| if place % 4 == 0 { of[place / 4] } else { 0.0 }).collect()
    };
    check(&found[1], &[diagonal([1.0; 3]), diagonal(x.map(f64::exp))].concat());
    check(&found[2], &[0.0, c, b, c, 0.0, a, b, a, 0.0]);
}

#[test]
fn gradients_of_trees() {
    let inputs = [vector(&[1.0, 2.0]), number(0.5), Tensor::from_vec(&[], vec![3_i64])];
    let found = results(&inputs, |inputs| {
        let tree = (inputs[0].clone(), [inputs[1].clone()], vec![inputs[2].clone()]);
        type Tree = (TracedValue, [TracedValue; 1], Vec<TracedValue>);
        let loss = |(x, [y], n): &Tree| (x * y).exp().sum() * n[0].cast(DType::F64);
        value_and_grad(loss)(&tree)
    });
    let (e, ee) = (0.5_f64.exp(), 1.0_f64.exp());
    check(&found[0], &[3.0 * (e + ee)]);
    check(&found[1], &[1.5 * e, 1.5 * ee]);
    check(&found[2], &[3.0 * (e + 2.0 * ee)]);
    check(&found[3], &[0.0]);
}

#[test]
fn loops_and_branches() {
    // x squared until it passes 100, at most 10 times: x^8 for 2.
    let power = |x: &TracedValue| {
        let small = |x: &TracedValue| x.less(&x.number(100.0));
        while_loop(x, Some(10), small, |x| x * x)
    };
    let folded = |x: &TracedValue| {
        let (sum, rows) = scan(&x.number(1.0), x, |state, row| {
            let next = state * row;
            (next.clone(), next)
        });
        sum + rows.sum()
    };
    let chosen = |x: &TracedValue| if_else(&x.greater(&x.number(0.0)), || x * 3.0, || x.exp());
    let inputs = [number(2.0), vector(&[2.0, 3.0]), vector(&[2.0, 3.0, -1.0])];
    let found = results(&inputs, |inputs| {
        let [x, pair, many] = inputs else { panic!("three inputs") };
        let fixed = |x: &TracedValue| repeat(3, x, |_, x| x * x);
        let each = vmap(grad(power))(pair);
        let many_powers = grad(|pair: &TracedValue| vmap(power)(pair).sum())(pair);
        let rates = jvp(power)(x, &x.number(1.0)).1;
        let sides = vmap(value_and_grad(chosen))(many);
        let twice = grad(grad(power))(x);
        (
            (grad(power)(x), grad(fixed)(x)),
            (each, many_powers),
            rates,
            grad(folded)(pair),
            sides,
            twice,
        )
    });
    check(&found[0], &[8.0 * 2.0_f64.powi(7)]);
    check(&found[1], &[8.0 * 2.0_f64.powi(7)]);
    check(&found[2], &[8.0 * 2.0_f64.powi(7), 8.0 * 3.0_f64.powi(7)]);
    check(&found[3], &[8.0 * 2.0_f64.powi(7), 8.0 * 3.0_f64.powi(7)]);
    check(&found[4], &[8.0 * 2.0_f64.powi(7)]);
    // x0 x1 + x0 + x0 x1
    check(&found[5], &[7.0, 4.0]);
    check(&found[6], &[6.0, 9.0, (-1.0_f64).exp()]);
    check(&found[7], &[3.0, 3.0, (-1.0_f64).exp()]);
    check(&found[8], &[56.0 * 2.0_f64.powi(6)]);
}

#[test]
fn constants_are_weights() {
    let matrix = Tensor::from_vec(&[2, 2], vec![1.0, 2.0, 3.0, 4.0]);
    let found = results(&[vector(&[1.0, -1.0])], |inputs| {
        let x = &inputs[0];
        let quadratic = |x: &TracedValue| (x * x.constant(&matrix).matmul(x)).sum();
        (grad(quadratic)(x), hessian(quadratic)(x), x.identity(2))
    });
    check(&found[0], &[-3.0, -3.0]);
    check(&found[1], &[2.0, 5.0, 5.0, 8.0]);
    check(&found[2], &[1.0, 0.0, 0.0, 1.0]);
}

#[test]
fn results_have_names() {
    let inputs: [(&str, DType, &[usize]); 1] = [("x", DType::F32, &[2])];
    let traced = trace("f", &inputs, |inputs| {
        (inputs[0].sum().named("loss"), inputs[0].exp(), inputs[0].sum().named("loss"))
    });
    let traced = traced.expect("no mistakes");
    let function = traced.module().functions[base::FunctionId::new(0)].clone();
    assert_eq!(function.result_names, ["loss", "result 1", "result 2"]);
}

#[test]
fn mistakes_are_told_with_their_place() {
    let line = line!() + 1;
    let said = refusal(|x| x + x.full(&[4], 1.0) * 2.0);
    assert!(said.contains("error[TW0105]: `add` does not take f64[3] and f64[4]"), "{said}");
    assert!(said.contains(&format!("traces.rs:{line}:")), "{said}");
    assert!(said.contains("does not broadcast"), "{said}");

    let said = refusal(|x| x.reshape(&[2, 2]));
    assert!(said.contains("`reshape` does not take f64[3]"), "{said}");
    let said = refusal(|x| x.transpose(&[1]));
    assert!(said.contains("`transpose` does not take f64[3]"), "{said}");
    let said = refusal(|x| x.slice(0, 2..5).slice(1, 0..1));
    assert!(said.contains("`slice` does not take f64[3]"), "{said}");
    let said = refusal(|x| x + x.cast(DType::F32));
    assert!(said.contains("`add` does not take f64[3] and f32[3]"), "{said}");
    let said = refusal(|x| x.argmax(4));
    assert!(said.contains("`argmax` does not take f64[3]"), "{said}");
    let said = refusal(|x| x.take(x));
    assert!(said.contains("places are integers"), "{said}");
}

#[test]
fn mistakes_of_control_flow() {
    let said = refusal(|x| repeat(3, x, |_, x| x.slice(0, 0..2)));
    assert!(said.contains("the body of a loop gives (f64[2]), where (f64[3]) is wanted"), "{said}");
    let said = refusal(|x| if_else(&x.sum().less(&x.sum()), || x.sum(), || x.clone()));
    assert!(said.contains("the other branch gives (f64[3]), where (f64[]) is wanted"), "{said}");
    let said = refusal(|x| if_else(&x.less(x), || x.sum(), || x.sum()));
    assert!(said.contains("`if_else` does not take bool[3]"), "{said}");
    let said = refusal(|x| {
        let mut kept = x.clone();
        repeat(3, x, |_, x| {
            kept = x.sin();
            x + 1.0
        });
        kept.exp()
    });
    assert!(
        said.contains("error[TW0109]: `exp` reads a value that is not to be had here"),
        "{said}"
    );
}

#[test]
fn mistakes_of_derivatives() {
    let said = refusal(grad(|x: &TracedValue| x.sin()));
    assert!(said.contains("it gives f64[3], where one float is wanted"), "{said}");
    let said = refusal(|x| jvp(|x: &TracedValue| x.sin())(x, &x.sum()).1);
    assert!(said.contains("the tangents are not of the arguments' types"), "{said}");
    let said =
        refusal(|x| vmap(|(x, y): &(TracedValue, TracedValue)| x + y)(&(x.clone(), x.sum())));
    assert!(said.contains("its arguments are [f64[3], f64[]]"), "{said}");
    let said = refusal(grad(|x: &TracedValue| {
        let large = |x: &TracedValue| x.sum().less(&x.number(9.0));
        while_loop(x, None, large, |x| x + 1.0).sum()
    }));
    assert!(said.contains("error[TW0116]"), "{said}");
    assert!(said.contains("nothing bounds how often it runs"), "{said}");
}

#[test]
fn a_value_that_outlives_its_trace_says_nothing() {
    let mut kept = None;
    let inputs: [(&str, DType, &[usize]); 1] = [("x", DType::F32, &[2])];
    let traced = trace("f", &inputs, |inputs| {
        kept = Some(inputs[0].clone());
        inputs[0].exp()
    });
    assert!(traced.is_ok());
    let kept = kept.expect("a value");
    assert_eq!((&kept + 1.0).shape(), Vec::<usize>::new());
    let other = trace("g", &inputs, |inputs| &inputs[0] + &kept);
    let said = other.expect_err("a mistake").to_string();
    assert!(said.contains("reads a value that is not to be had here"), "{said}");
}
