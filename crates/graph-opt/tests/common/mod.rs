//! What the tests share: running a function before and after, on the same random inputs.

#![allow(dead_code, reason = "each test uses a part")]

use std::collections::BTreeMap;

use base::ConstantId;
use eval::Precision;
use graph::{Function, Op, Type};
use tensor::random::Generator;
use tensor::{DType, Scalar, Tensor};

/// The value of every symbol.
const SYMBOL: i64 = 3;

/// Inputs of a function's types and constants of its weights'.
pub(crate) struct Data {
    pub(crate) inputs: Vec<Tensor>,
    pub(crate) constants: BTreeMap<ConstantId, Tensor>,
}

impl Data {
    /// Random data; with `special` also zeros of both signs, infinities and NaN.
    pub(crate) fn random(function: &Function, seed: u64, special: bool) -> Data {
        let mut random = Generator::new(seed);
        let mut tensor = |dtype: DType, shape: &[sym::Expr]| {
            let extent = |extent: &sym::Expr| extent.evaluate(&|_| Some(SYMBOL));
            let shape: Vec<usize> =
                shape.iter().map(|e| extent(e).expect("small") as usize).collect();
            let count = shape.iter().product();
            let scalars: Vec<Scalar> =
                (0..count).map(|_| element(&mut random, dtype, special)).collect();
            Tensor::from_scalars(dtype, &shape, &scalars)
        };
        let mut inputs = Vec::new();
        for &value in function.parameters() {
            if let Type::Tensor(ty) = function.ty(value) {
                inputs.push(tensor(ty.dtype, &ty.shape));
            }
        }
        let mut constants = BTreeMap::new();
        for id in function.nodes_in_order() {
            if let Op::Weight { constant, result } = &function.nodes[id].op {
                constants.entry(*constant).or_insert_with(|| tensor(result.dtype, &result.shape));
            }
        }
        Data { inputs, constants }
    }

    pub(crate) fn run(&self, function: &Function, more: &[Tensor]) -> Result<Vec<Tensor>, String> {
        let inputs = [&self.inputs[..], more].concat();
        let constant = |id: ConstantId| self.constants[&id].clone();
        eval::graph::evaluate(function, &constant, &inputs, Precision::Declared)
            .map_err(|fault| format!("{fault}\n{function}"))
    }
}

fn element(random: &mut Generator, dtype: DType, special: bool) -> Scalar {
    if !dtype.is_float() {
        return Scalar::from_i64(dtype, random.below(4) as i64);
    }
    let value = match random.below(if special { 12 } else { 4 }) {
        4 => 0.0,
        5 => -0.0,
        6 => f64::INFINITY,
        7 => f64::NEG_INFINITY,
        8 => f64::NAN,
        _ => random.normal(),
    };
    Scalar::from_f64(dtype, value)
}

/// Whether tensors have the same bits, NaN being NaN.
pub(crate) fn same_bits(a: &[Tensor], b: &[Tensor]) -> bool {
    let same = |a: Scalar, b: Scalar| a == b || a.is_nan() && b.is_nan();
    a.len() == b.len()
        && a.iter().zip(b).all(|(a, b)| {
            a.dtype() == b.dtype()
                && a.shape() == b.shape()
                && a.scalars().zip(b.scalars()).all(|(a, b)| same(a, b))
        })
}

/// Checks that two functions compute the same bits, of any data.
pub(crate) fn check_same(before: &Function, after: &Function) -> Result<(), String> {
    graph::verify(after).map_err(|found| found.to_string())?;
    for seed in 0..4 {
        let data = Data::random(before, seed, seed % 2 == 1);
        let (expected, found) = (data.run(before, &[])?, data.run(after, &[])?);
        if !same_bits(&expected, &found) {
            return Err(format!("other results: {expected:?}\nbecame {found:?}\n{after}"));
        }
    }
    Ok(())
}

/// Checks that two functions compute nearly the same, of tame data.
pub(crate) fn check_close(before: &Function, after: &Function) -> Result<(), String> {
    graph::verify(after).map_err(|found| found.to_string())?;
    let data = Data::random(before, 1, false);
    let (expected, found) = (data.run(before, &[])?, data.run(after, &[])?);
    if close(&expected, &found) {
        return Ok(());
    }
    Err(format!("other results: {expected:?}\nbecame {found:?}\n{after}"))
}

/// Whether tensors agree but for the rounding of short sums.
pub(crate) fn close(a: &[Tensor], b: &[Tensor]) -> bool {
    a.iter().zip(b).all(|(a, b)| tensor::compare(b, a, 1e-4, 1e-4).passed())
}
