//! What the tests share: running a function before and after, on the same random inputs.

#![allow(dead_code, reason = "each test uses a part")]

use std::collections::BTreeMap;
use std::sync::Arc;

use base::{Arena, ConstantId, FunctionId};
use eval::EvaluationPrecision;
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
        self.run_in(EvaluationPrecision::Declared, function, &inputs)
    }

    /// As [`Self::run`], of a function that calls others.
    pub(crate) fn run_plan(
        &self,
        plan: &Function,
        called: &Arena<FunctionId, Arc<Function>>,
    ) -> Result<Vec<Tensor>, String> {
        let constant = |id: ConstantId| self.constants[&id].clone();
        let precision = EvaluationPrecision::Declared;
        eval::graph::evaluate_with(plan, called, &constant, &self.inputs, precision)
            .map_err(|fault| format!("{fault}\n{plan}"))
    }

    fn run_in(
        &self,
        precision: EvaluationPrecision,
        function: &Function,
        inputs: &[Tensor],
    ) -> Result<Vec<Tensor>, String> {
        let constant = |id: ConstantId| self.constants[&id].clone();
        eval::graph::evaluate(function, &constant, inputs, precision)
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

/// The plan of a function, whose parameters are inputs but for those that are called constants, and
/// what it calls; all of it verified.
pub(crate) fn plan(
    function: &Arc<Function>,
    constants: &BTreeMap<ConstantId, Tensor>,
) -> Result<(Function, Arena<FunctionId, Arc<Function>>), String> {
    let is_input = |name: &&String| !name.starts_with("constant");
    let inputs = function.parameter_names.iter().filter(is_input).count();
    let mut module = module::Module::default();
    for (id, tensor) in constants {
        module.constants.push(module::Constant { name: id.to_string(), tensor: tensor.clone() });
    }
    let mut called = |segment: Arc<Function>| module.functions.push(segment);
    let plan = tilewright_graph_opt::segments(function, inputs, &mut called)?;
    let id = module.functions.push(Arc::new(plan));
    module::verify(&module).map_err(|found| format!("{found}\n{module}"))?;
    let plan = Function::clone(&module.functions[id]);
    Ok((plan, module.functions))
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

/// Whether tensors agree but for the rounding of short sums.
fn close(a: &[Tensor], b: &[Tensor]) -> bool {
    a.iter().zip(b).all(|(a, b)| tensor::compare(b, a, 1e-4, 1e-4).passed())
}

/// What a change keeps of what a function computes, from most to least.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Keeps {
    /// Every bit.
    Bits,
    /// Every bit, were all floats of f64.
    BitsOfF64,
    /// All but the rounding of sums.
    Nearly,
}

impl Keeps {
    /// What the pass of a name keeps.
    pub(crate) fn of(pass: &str) -> Keeps {
        match pass {
            "accumulate" | "batch_norm" => Keeps::Nearly,
            "excess_precision" => Keeps::BitsOfF64,
            _ => Keeps::Bits,
        }
    }

    /// Checks it on random data; nearness on tame data alone.
    pub(crate) fn check(self, before: &Function, after: &Function) -> Result<(), String> {
        graph::verify(after).map_err(|found| found.to_string())?;
        (0..4).filter(|seed| self != Keeps::Nearly || seed % 2 == 0).try_for_each(|seed| {
            self.check_on(&Data::random(before, seed, seed % 2 == 1), before, after)
        })
    }

    /// Checks it on some data.
    pub(crate) fn check_on(
        self,
        data: &Data,
        before: &Function,
        after: &Function,
    ) -> Result<(), String> {
        let run = |function| match self {
            Keeps::Bits | Keeps::Nearly => data.run(function, &[]),
            Keeps::BitsOfF64 => data.run_in(EvaluationPrecision::F64, function, &data.inputs),
        };
        let types = |function: &Function| -> Vec<Option<DType>> {
            let ty = |&value: &_| function.ty(value).as_tensor().map(|ty| ty.dtype);
            function.results().iter().map(ty).collect()
        };
        if types(before) != types(after) {
            return Err(format!("other types:\n{before}\nbecame\n{after}"));
        }
        let (expected, found) = (run(before)?, run(after)?);
        let kept =
            same_bits(&expected, &found) || self == Keeps::Nearly && close(&expected, &found);
        match kept {
            true => Ok(()),
            false => Err(format!("other results: {expected:?}\nbecame {found:?}\n{after}")),
        }
    }
}
