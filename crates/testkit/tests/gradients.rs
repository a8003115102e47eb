//! Gradients against finite differences: of random functions, and of every scalar function.
//!
//! All floats are computed in f64. Inputs are moved a little along a random direction, by what
//! their types can hold, and the change of the result's sum is compared with the gradient's share
//! of the move. Where the two sides of a step disagree the function has a kink or a jump nearby,
//! which a difference cannot see through, and the case says nothing.
//!
//! Tangents are compared with gradients, which must agree on how a result's sum changes; what is
//! vectorised with one row after the other.

use base::Id;
use eval::EvaluationPrecision;
use graph::{Function, FunctionBuilder, TensorType, Type};
use proptest::prelude::*;
use tensor::random::Generator;
use tensor::{DType, Scalar, ScalarFunction, Tensor};
use testkit::{GraphOptions, counted, graph_samples};

const OPTIONS: GraphOptions = GraphOptions {
    nodes: 16,
    symbolic: true,
    control_flow: true,
    few_bits: false,
    sizes: false,
    lists: false,
};

/// How far inputs are moved.
const STEP: f64 = 1.0 / 1024.0;

fn run(function: &Function, constants: &[Tensor], inputs: &[Tensor]) -> Vec<Tensor> {
    let constant = |id: base::ConstantId| constants[id.index()].clone();
    match eval::graph::evaluate(function, &constant, inputs, EvaluationPrecision::F64) {
        Ok(results) => results,
        Err(fault) => panic!("{fault}\n{function}"),
    }
}

fn sum(tensor: &Tensor) -> f64 {
    tensor.scalars().map(|scalar| scalar.as_f64()).sum()
}

fn is_float(function: &Function, value: graph::ValueId) -> bool {
    matches!(function.ty(value), Type::Tensor(ty) if ty.dtype.is_float())
}

/// Checks the gradients of a result by all float parameters; whether the case said anything, or how
/// the two differ.
fn check(
    function: &Function,
    result: usize,
    constants: &[Tensor],
    inputs: &[Tensor],
    seed: u64,
) -> Result<bool, String> {
    let parameters = function.parameters();
    let floats: Vec<usize> =
        (0..parameters.len()).filter(|&n| is_float(function, parameters[n])).collect();
    let derived = match autodiff::gradient(function, result, &floats) {
        Ok(derived) => derived,
        Err(_) => return Ok(false),
    };
    graph::verify(&derived).map_err(|found| format!("{found}\n{derived}"))?;
    let results = run(&derived, constants, inputs);
    let gradients = &results[function.results().len()..];
    let moves =
        |step: f64| moved(function, constants, inputs, (result, &floats, gradients), (seed, step));
    let (whole, half) = (moves(STEP), moves(STEP / 2.0));
    if !whole.is_smooth() || !half.is_smooth() {
        return Ok(false);
    }
    // A bend grows with the square of the step. One that grows with the step is a kink right here,
    // of which any slope between both sides is right.
    let kink = (whole.bend() - 4.0 * half.bend()).abs();
    let here = sum(&results[result]).abs();
    if !has_short_floats(function) && kink > 5e-4 * whole.size() + 1e-9 * here {
        return Ok(false);
    }
    // Where half a step says otherwise, differences have not converged to a slope.
    if (whole.error() - 2.0 * half.error()).abs() > 5e-4 * whole.size() + 1e-9 * here {
        return Ok(false);
    }
    check_tangent(function, (result, &floats, gradients), constants, inputs, seed)?;
    let tolerance = if has_short_floats(&derived) { 1e-1 } else { 1e-3 };
    // Below the least f32 there is nothing to compare.
    let least = 1e-9 * here + f64::from(f32::MIN_POSITIVE);
    match half.error().abs() <= tolerance * half.size() + least {
        true => Ok(half.size() > 1e-6),
        false => Err(format!("{half:?}\n{derived}")),
    }
}

/// Whether some literals are of short types, whatever is computed in f64: 2/sqrt(pi) is 1.125 in
/// bf16.
fn has_short_floats(function: &Function) -> bool {
    function.values.values().any(|value| match &value.ty {
        Type::Tensor(ty) => ty.dtype.is_float() && ty.dtype.bits() < 32,
        _ => false,
    })
}

/// A tensor of its type with elements that a function gives.
fn filled(like: &Tensor, mut element: impl FnMut(f64) -> f64) -> Tensor {
    let elements: Vec<Scalar> = like
        .scalars()
        .map(|scalar| Scalar::from_f64(like.dtype(), element(scalar.as_f64())))
        .collect();
    Tensor::from_scalars(like.dtype(), like.shape(), &elements)
}

/// Checks that a result's tangent and the gradients say the same of a random direction.
fn check_tangent(
    function: &Function,
    (result, floats, gradients): (usize, &[usize], &[Tensor]),
    constants: &[Tensor],
    inputs: &[Tensor],
    seed: u64,
) -> Result<(), String> {
    let derived = autodiff::tangent(function, floats).map_err(|found| found.to_string())?;
    graph::verify(&derived).map_err(|found| format!("{found}\n{derived}"))?;
    let mut random = Generator::new(seed);
    let mut all = inputs.to_vec();
    let (mut expected, mut size) = (0.0, 0.0);
    for (&number, gradient) in floats.iter().zip(gradients) {
        let tangent = filled(&inputs[number], |_| random.normal());
        for (slope, by) in gradient.scalars().zip(tangent.scalars()) {
            let part = slope.as_f64() * by.as_f64();
            (expected, size) = (expected + part, f64::max(size, part.abs()));
        }
        all.push(tangent);
    }
    let results = run(&derived, constants, &all);
    let is_earlier = |number: &usize| is_float(function, function.results()[*number]);
    let place = function.results().len() + (0..result).filter(is_earlier).count();
    let found = sum(&results[place]);
    let tolerance = if has_short_floats(&derived) { 1e-1 } else { 1e-5 };
    // A slope that is a difference of numbers of the result's size, as that of a saturated `tanh`
    // is, has their rounding, which each way multiplies and adds up in its own order.
    let rounding = 1e-14 * results[result].scalars().map(|it| it.as_f64().abs()).sum::<f64>();
    // Behind an infinite slope, a value that does not move has no tangent (`0 * inf`), where the
    // way back may end before it.
    let least = tolerance * size + rounding + f64::from(f32::MIN_POSITIVE);
    if !found.is_finite() || (found - expected).abs() <= least {
        return Ok(());
    }
    Err(format!("the tangent is {found}, gradients say {expected}\n{derived}"))
}

/// Rows of each input: the float inputs of each row are others.
const ROWS: usize = 3;

/// Checks what is vectorised against row by row; whether it could be.
fn check_rows(
    function: &Function,
    constants: &[Tensor],
    inputs: &[Tensor],
    shared: usize,
) -> Result<bool, String> {
    let parameters: Vec<usize> = (0..inputs.len()).filter(|number| *number != shared).collect();
    let Ok(many) = autodiff::vectorise(function, &ROWS.into(), &parameters) else {
        return Ok(false);
    };
    graph::verify(&many).map_err(|found| format!("{found}\n{many}"))?;
    let row = |number: usize, row: usize| match inputs[number].dtype().is_float() {
        true if number != shared => filled(&inputs[number], |it| it * (1.0 - 0.4 * row as f64)),
        _ => inputs[number].clone(),
    };
    let rows: Vec<Vec<Tensor>> =
        (0..ROWS).map(|at| (0..inputs.len()).map(|number| row(number, at)).collect()).collect();
    let stack = |number: usize| {
        let elements: Vec<Scalar> = rows.iter().flat_map(|row| row[number].scalars()).collect();
        let shape = [&[ROWS], inputs[number].shape()].concat();
        Tensor::from_scalars(inputs[number].dtype(), &shape, &elements)
    };
    let stacks: Vec<Tensor> = (0..inputs.len())
        .map(|number| if number == shared { inputs[number].clone() } else { stack(number) })
        .collect();
    let found = run(&many, constants, &stacks);
    let expected: Vec<Vec<Tensor>> = rows.iter().map(|row| run(function, constants, row)).collect();
    for (number, found) in found.iter().enumerate() {
        let expected = expected.iter().flat_map(|row| row[number].scalars());
        for (expected, found) in expected.zip(found.scalars()) {
            let (expected, found) = (expected.as_f64(), found.as_f64());
            let is_close = (expected - found).abs() <= 1e-6 * expected.abs().max(1.0);
            if !is_close && expected.to_bits() != found.to_bits() && !expected.is_nan() {
                return Err(format!(
                    "result {number}: {found}, not {expected}\n{function}\n{many}"
                ));
            }
        }
    }
    Ok(true)
}

/// How a result's sum changes by a step ahead and by one behind, and how much of it the gradient
/// expects.
#[derive(Clone, Copy, Debug)]
struct Moves {
    found: [f64; 2],
    expected: [f64; 2],
}

impl Moves {
    fn size(&self) -> f64 {
        self.found.iter().chain(&self.expected).fold(0.0, |size, change| size.max(change.abs()))
    }

    /// How far both sides together are from a straight line.
    fn bend(&self) -> f64 {
        self.found.iter().sum::<f64>() - self.expected.iter().sum::<f64>()
    }

    /// With curvature alone the sides differ by a share of the step.
    fn is_smooth(&self) -> bool {
        self.size().is_finite() && self.bend().abs() <= 0.03 * self.size()
    }

    fn error(&self) -> f64 {
        (self.found[0] - self.found[1]) - (self.expected[0] - self.expected[1])
    }
}

/// Moves all float inputs along a random direction.
fn moved(
    function: &Function,
    constants: &[Tensor],
    inputs: &[Tensor],
    (result, floats, gradients): (usize, &[usize], &[Tensor]),
    (seed, step): (u64, f64),
) -> Moves {
    let mut random = Generator::new(seed);
    let mut sides = [inputs.to_vec(), inputs.to_vec()];
    let mut expected = [0.0; 2];
    for (&number, gradient) in floats.iter().zip(gradients) {
        let mut elements = [Vec::new(), Vec::new()];
        for (element, slope) in inputs[number].scalars().zip(gradient.scalars()) {
            let (here, by) = (element.as_f64(), step * random.normal());
            for (side, by) in [by, -by].into_iter().enumerate() {
                let there = Scalar::from_f64(element.dtype(), here + by);
                expected[side] += slope.as_f64() * (there.as_f64() - here);
                elements[side].push(there);
            }
        }
        let (dtype, shape) = (inputs[number].dtype(), inputs[number].shape());
        for (side, elements) in sides.iter_mut().zip(&elements) {
            side[number] = Tensor::from_scalars(dtype, shape, elements);
        }
    }
    let value = |inputs: &[Tensor]| sum(&run(function, constants, inputs)[result]);
    let here = value(inputs);
    Moves { found: [0, 1].map(|side| value(&sides[side]) - here), expected }
}

/// Of random functions so many are differentiated, smooth where they are tried, and not flat.
const LEAST_SHARE: f64 = 0.6;

#[test]
fn random_functions() {
    let cases = (graph_samples(OPTIONS), any::<u64>());
    counted(ProptestConfig::with_cases(250), LEAST_SHARE, cases, |(sample, seed)| {
        let function = &sample.function;
        let mut has_said = false;
        for (number, &value) in function.results().iter().enumerate() {
            if is_float(function, value) {
                has_said |= check(function, number, &sample.constants, &sample.inputs, seed)
                    .map_err(TestCaseError::fail)?;
            }
        }
        Ok(has_said)
    });
}

#[test]
fn many_at_once() {
    let cases = (graph_samples(OPTIONS), 0..6_usize);
    counted(ProptestConfig::with_cases(250), LEAST_SHARE, cases, |(sample, shared)| {
        check_rows(&sample.function, &sample.constants, &sample.inputs, shared)
            .map_err(TestCaseError::fail)
    });
}

/// What random functions seldom or never have: products, loops that multiply, strides, groups.
const FUNCTIONS: &[&str] = &[
    "parameter %x: f32[3, 4] as \"x\"
     %y: f32[3] = reduce product [a0: 3 | r0: 4] %x[a0, r0]",
    "parameter %x: f32[6] as \"x\"
     %y: f32[4] = reduce product [a0: 4 | r0: 3] %x[a0 + r0]",
    "parameter %x: f32[6] as \"x\"
     %y: f32[2] = reduce max [a0: 2 | r0: 3] %x[2*a0 + r0]",
    "parameter %x: f32[2, 9] as \"x\"
     parameter %w: f32[3, 2, 3] as \"w\"
     %y: f32[3, 3] = contract [a0: 3, a1: 3 | r0: 2, r1: 3] %x[r0, 2*a1 + 2*r1], %w[a0, r0, r1] \
     accumulate f32",
    "parameter %x: f32[4, 5] as \"x\"
     parameter %w: f32[4, 2, 3] as \"w\"
     %y: f32[2, 2, 3] = contract [a0: 2, a1: 2, a2: 3 | r0: 2, r1: 3] %x[2*a0 + r0, a2 + r1], \
     %w[2*a0 + a1, r0, r1] accumulate f32",
    "parameter %x: f32[3, 3] as \"x\"
     %y: f32[3] = contract [a0: 3 | r0: 3] %x[a0, a0], %x[r0, a0] accumulate f32",
    "parameter %s: f32[] as \"s\"
     parameter %x: f32[4] as \"x\"
     parameter %f: f32[] as \"f\"
     %end: f32[], %y: f32[4] = scan trips 4 carried 1 reverse %s, %x \
       body (%i: i64[], %c: f32[], %e: f32[]) {
       %p: f32[] = map mul %c, %e
       %q: f32[] = map add %p, %f
       %n: f32[] = map cast %i
       %r: f32[] = map mul %q, %n
       yield %q, %r
     }",
    // Running products and maxima, backwards and without the element itself.
    "parameter %x: f32[2, 5] as \"x\"
     %y: f32[2, 5] = cumulate product axis 1 %x",
    "parameter %x: f32[5, 2] as \"x\"
     %p: f32[5, 2] = cumulate product exclusive reverse axis 0 %x
     %m: f32[5, 2] = cumulate max axis 1 %x
     %y: f32[5, 2] = map mul %p, %m",
    // Several factors of one element.
    "parameter %x: f32[3] as \"x\"
     parameter %u: f32[4] as \"u\"
     %i: i64[4] = literal {0, 2, 2, 0}
     %y: f32[3] = scatter product axes [0] batch 0 position 0 %x, %u, %i",
    // Elements that are written, added to and compared several times.
    "parameter %x: f32[3, 2] as \"x\"
     parameter %u: f32[5, 2] as \"u\"
     %i: i64[5] = literal {0, 2, 2, 0, 2}
     %w: f32[3, 2] = scatter replace axes [0] batch 0 position 0 %x, %u, %i
     %y: f32[3, 2] = map mul %w, %w",
    "parameter %x: f32[2, 3] as \"x\"
     parameter %u: f32[2, 5] as \"u\"
     %i: i64[5] = literal {0, 2, 2, 0, 2}
     %s: f32[2, 3] = scatter sum axes [1] batch 0 position 1 %x, %u, %i
     %y: f32[2, 3] = map mul %s, %s",
    "parameter %x: f32[3] as \"x\"
     parameter %u: f32[6] as \"u\"
     %i: i64[6] = literal {0, 2, 2, 0, 2, 1}
     %m: f32[3] = scatter max axes [0] batch 0 position 0 %x, %u, %i
     %l: f32[3] = scatter min axes [0] batch 0 position 0 %m, %u, %i
     %y: f32[3] = map mul %m, %l",
    // As many turns as the data says, but 9 at most; and always 4.
    "parameter %x: f32[2] as \"x\"
     %o: i64[] = literal {0}
     %end: i64[], %y: f32[2] = while %o, %x condition (%i: i64[], %c: f32[2]) {
       %n: i64[] = literal {9}
       %a: bool[] = map lt %i, %n
       %s: f32[] = reduce sum [ | r0: 2] %c[r0]
       %l: f32[] = literal {4.0}
       %t: f32[] = map abs %s
       %b: bool[] = map lt %t, %l
       %g: bool[] = map and %a, %b
       yield %g
     } body (%j: i64[], %d: f32[2]) {
       %one: i64[] = literal {1}
       %k: i64[] = map add %j, %one
       %e: f32[2] = map sin %d
       %f: f32[2] = map add %d, %e
       %h: f32[2] = map mul %f, %x
       %m: f32[2] = map sub %f, %h
       yield %k, %m
     }",
    "parameter %x: f32[2] as \"x\"
     %o: i64[] = literal {8}
     %end: i64[], %y: f32[2] = while %o, %x condition (%i: i64[], %c: f32[2]) {
       %n: i64[] = literal {0}
       %a: bool[] = map gt %i, %n
       yield %a
     } body (%j: i64[], %d: f32[2]) {
       %two: i64[] = literal {2}
       %k: i64[] = map sub %j, %two
       %e: f32[2] = map sin %d
       %f: f32[2] = map mul %e, %x
       yield %k, %f
     }",
];

/// Of elements that are written several times and are all the largest each has the same share of a
/// gradient. That is a slope of the kink there, but not the one half way, which differences find.
#[test]
fn a_kink_right_here_says_nothing() {
    let text = "function @f {
         parameter %x: f32[2] as \"x\"
         %i: i64[2] = literal {0, 0}
         %e: f32[2] = gather axes [0] batch 0 position 0 %x, %i
         %n: f32[2] = map neg %e
         %m: f32[2] = scatter max axes [0] batch 0 position 0 %x, %n, %i
         %l: f32[] = literal {100.0}
         %h: f32[2] = broadcast axes [] %l
         %b: f32[2] = map mul %x, %h
         %y: f32[2] = map add %m, %b
         return %y as \"y\"
         }";
    let function = graph::parse(text).expect("a function");
    graph::verify(&function).expect("well-formed");
    for seed in 0..8 {
        let said = |first: f32| {
            check(&function, 0, &[], &[Tensor::from_vec(&[2], vec![first, 1.0])], seed)
        };
        assert_eq!(said(0.0), Ok(false), "seed {seed}");
        assert_eq!([said(-0.5), said(0.5)], [Ok(true), Ok(true)], "seed {seed}");
    }
}

#[test]
fn chosen_functions() {
    for (number, body) in FUNCTIONS.iter().enumerate() {
        let body = body.replace("\\\n", " ");
        let text = format!("function @f {{\n{body}\nreturn %y as \"y\"\n}}\n");
        let function = graph::parse(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
        if let Err(found) = graph::verify(&function) {
            panic!("{found}\n{text}");
        }
        let mut said = 0;
        for seed in 0..8 {
            let mut random = Generator::new(seed);
            let mut tensor = |&value: &graph::ValueId| {
                let Type::Tensor(ty) = function.ty(value) else { unreachable!("a tensor") };
                let extent = |extent: &sym::Expr| extent.as_constant().unwrap_or(1) as usize;
                let shape: Vec<usize> = ty.shape.iter().map(extent).collect();
                let count = shape.iter().product();
                Tensor::from_vec(&shape, (0..count).map(|_| random.normal() as f32).collect())
            };
            let inputs: Vec<Tensor> = function.parameters().iter().map(&mut tensor).collect();
            match check(&function, 0, &[], &inputs, seed) {
                Ok(something) => said += usize::from(something),
                Err(reason) => panic!("{number}: {reason}"),
            }
            let shared = seed as usize % (inputs.len() + 1);
            match check_rows(&function, &[], &inputs, shared) {
                Ok(could) => assert!(could, "{number} is not vectorised"),
                Err(reason) => panic!("{number}: {reason}"),
            }
        }
        assert!(said > 2, "{number}: {said} cases");
    }
}

/// Operands within the domain of all functions: between 0.15 and 0.85, or 1 more.
fn operands(function: ScalarFunction, seed: u64) -> Vec<Tensor> {
    let mut random = Generator::new(seed);
    let above = if function == ScalarFunction::Acosh { 1.0 } else { 0.0 };
    let mut tensor = || {
        let element = |random: &mut Generator| above + 0.15 + 0.7 * random.uniform();
        Tensor::from_vec(&[5], (0..5).map(|_| element(&mut random)).collect::<Vec<f64>>())
    };
    (0..function.arity()).map(|_| tensor()).collect()
}

/// A function of operands of f64.
fn of_f64(function: ScalarFunction) -> Option<Function> {
    let mut builder = FunctionBuilder::new("one");
    let ty = Type::Tensor(TensorType { dtype: DType::F64, shape: vec![5.into()].into() });
    let mut operands: Vec<graph::ValueId> = (0..function.arity())
        .map(|number| builder.parameter(format!("x{number}"), ty.clone()))
        .collect();
    if function == ScalarFunction::Select {
        let half = builder.full(&[5.into()], Scalar::from_f64(DType::F64, 0.5)).ok()?;
        operands[0] = builder.map(ScalarFunction::Lt, &[operands[0], half]).ok()?;
    }
    let result = match function {
        ScalarFunction::Cast => builder.cast(operands[0], DType::F32).ok()?,
        _ => builder.map(function, &operands).ok()?,
    };
    let is_float = builder.tensor_type(result).ok()?.dtype.is_float();
    is_float.then(|| builder.finish(vec![("y".to_owned(), result)]))
}

#[test]
fn scalar_functions() {
    let mut seen = 0;
    for function in ScalarFunction::all() {
        let Some(program) = of_f64(function) else { continue };
        let mut said = 0;
        for seed in 0..8 {
            match check(&program, 0, &[], &operands(function, seed), seed) {
                Ok(something) => said += usize::from(something),
                Err(reason) => panic!("{function}: {reason}"),
            }
        }
        use ScalarFunction::{Bitcast, Ceil, Floor, Round, Sign, Trunc};
        let is_flat = matches!(function, Bitcast | Ceil | Floor | Round | Sign | Trunc);
        assert_eq!(said > 0, !is_flat, "{function}: {said} cases");
        seen += usize::from(said > 0);
    }
    assert!(seen > 30, "{seen} functions");
}
