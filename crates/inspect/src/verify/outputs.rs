//! How far a value may be from what the model means.
//!
//! The reference is the function as imported, evaluated twice: in f64, and with the types that it
//! declares. Floats have an error, the norm of the difference over the norm of the reference, over
//! what is finite on both sides; it may be [`LEAST`], or a few times ([`TIMES`]) that of the second
//! evaluation, or a unit in the last place of a short float. What is not finite must be so in one
//! of the evaluations, and be the same there. The roundings of one evaluation may happen to cancel;
//! so a result that is found wrong is judged again by what the model gives in its own types for
//! inputs and weights that are off by a unit in their last place, which rounds otherwise.
//!
//! Other elements are equal to one of the two evaluations. Where the model computes floats, too, a
//! rounding may lie between: numbers of 8 bits are then off by one at most, and of all others all
//! but one of [`SHARE`] are equal.

use std::cell::OnceCell;
use std::sync::Arc;

use base::{ConstantId, Result};
use eval::{EvaluationPrecision, Settings};
use graph::{Function, Type};
use module::Module;
use tensor::compare::last_place;
use tensor::{DType, Tensor, Tolerance, Value};
use tilewright::compiled::{Facts, Imported, Source, attempt, read};
use tilewright::{Activations, Executable, Options, Precision};

use super::OutputVerdict;
use super::kernels::{Values, settings};

/// The error that is always allowed.
const LEAST: f64 = 1e-5;

/// How many times the error of the evaluator's own f32 is allowed.
const TIMES: f64 = 3.0;

/// One of so many integers may differ where a rounding of floats lies before it.
const SHARE: usize = 100;

/// What is allowed where operands of products are rounded to bf16 or to 8 bits a block, whose steps
/// are 2^-8 of a number and of the largest.
const OF_SHORT_PRODUCTS: f64 = 1.0 / 64.0;

/// What is allowed between two compiles, neither of which is the truth, for each that is allowed
/// between one of them and the truth.
const OF_TWO_COMPILES: f64 = 10.0;

/// Evaluations that round otherwise.
const OTHERS: u64 = 2;

/// The imported function, evaluated.
pub(crate) struct Reference {
    pub(super) function: Arc<Function>,
    pub(super) source: Source,
    /// What is known of the run.
    pub(super) facts: Facts,
    pub(super) declared: Values,
    /// In f64; none where it goes another way there, such as to a fault.
    exact: Option<Values>,
    /// Results of evaluations that round otherwise, made where they are first asked for.
    others: OnceCell<Vec<Vec<Tensor>>>,
    module: Module,
    components: Vec<Value>,
    settings: Settings,
    rule: Rule,
}

/// How values of a model are judged.
#[derive(Clone, Copy)]
struct Rule {
    /// Whether floats are computed on the way.
    of_floats: bool,
    /// The least error allowed of floats.
    least: f64,
}

/// An error, and how much of it is allowed.
struct Judgement {
    error: f64,
    most: f64,
    /// Whether elements are what no error excuses.
    is_wrong: bool,
}

impl Reference {
    /// Evaluates a source with the options of an executable, imported anew, so that nothing that
    /// the executable keeps is trusted.
    ///
    /// # Errors
    /// Faults of the evaluator.
    pub(super) fn new(
        executable: &Executable,
        source: &Source,
        inputs: &[Value],
    ) -> Result<Reference> {
        let mut options = executable.options().clone();
        let ports = executable.inputs().iter().zip(inputs);
        let named = ports.map(|(port, input)| (port.name.clone(), input.clone())).collect();
        options.bind_shapes(&named);
        let components = Value::components_of(inputs);
        let compute = |imported: &Imported, precision| -> Result<Values> {
            let settings = settings(executable, precision);
            Values::compute(imported.function(), &imported.module, &components, settings)
        };
        let (imported, facts, declared) = attempt(&|facts| {
            let (imported, facts) = read(source, &options, facts, &components)?;
            let declared = compute(&imported, EvaluationPrecision::Declared)?;
            Ok((imported, facts, declared))
        })?;
        let function = imported.function().clone();
        let exact = compute(&imported, EvaluationPrecision::F64).ok();
        let is_float = |ty: &Type| matches!(ty, Type::Tensor(ty) if ty.dtype.is_float());
        let least = least(executable.options());
        let of_floats = function.values.values().any(|value| is_float(&value.ty));
        let source = source.clone();
        Ok(Reference {
            function,
            source,
            facts,
            declared,
            exact,
            others: OnceCell::new(),
            module: imported.module,
            components,
            settings: settings(executable, EvaluationPrecision::Declared),
            rule: Rule { of_floats, least },
        })
    }

    /// What the model gives for inputs and weights that are off by a unit in their last place.
    fn others(&self) -> &[Vec<Tensor>] {
        let evaluate = |seed: u64| {
            let weights = |id: ConstantId| off_by_units(&self.module.constants[id].tensor, seed);
            let input = |value: &Value| match value.as_tensor() {
                Some(tensor) => off_by_units(tensor, seed).into(),
                None => value.clone(),
            };
            let inputs: Vec<Value> = self.components.iter().map(input).collect();
            let values = Values::with_weights(&self.function, &weights, &inputs, self.settings);
            values.ok().map(|values| values.results)
        };
        self.others.get_or_init(|| (1..=OTHERS).filter_map(evaluate).collect())
    }

    /// A verdict for each output of two runs.
    pub(super) fn verdicts(&self, runs: &Runs) -> Vec<OutputVerdict> {
        runs.verdicts(self.declared.results.len(), &|number, actual| self.result(number, actual))
    }

    /// The error of a result, the largest allowed, and what is wrong, if something is.
    pub(crate) fn result(&self, number: usize, actual: &Tensor) -> (f64, f64, Option<String>) {
        let Some(declared) = self.declared.results.get(number) else {
            return (f64::INFINITY, 0.0, Some("the model has no such tensor".to_owned()));
        };
        let exact = self.exact.as_ref().and_then(|values| values.results.get(number));
        let judged = self.rule.judge(actual, declared, exact);
        if judged.2.is_none() {
            return judged;
        }
        let exact = Some(exact.unwrap_or(declared));
        let others = self.others().iter().filter_map(|results| results.get(number));
        let mut again = others.map(|other| self.rule.judge(actual, other, exact));
        again.find(|judged| judged.2.is_none()).unwrap_or(judged)
    }

    /// What is wrong with a value of the function, if something is.
    pub(super) fn wrong(&self, value: graph::ValueId, actual: &Tensor) -> Option<String> {
        let exact = self.exact.as_ref().and_then(|values| values.of.get(&value));
        self.rule.judge(actual, self.declared.of.get(&value)?, exact).2
    }
}

/// The tensors of the outputs of two runs, and their names.
pub(super) struct Runs {
    pub(super) names: Vec<String>,
    pub(super) actual: Vec<Tensor>,
    pub(super) again: Vec<Tensor>,
}

/// The error of an output by its number, the largest allowed, and what is wrong, if something is.
type Judge<'a> = &'a dyn Fn(usize, &Tensor) -> (f64, f64, Option<String>);

impl Runs {
    /// A verdict for each output, of which there should be so many.
    fn verdicts(&self, count: usize, judge: Judge<'_>) -> Vec<OutputVerdict> {
        let counts = [self.actual.len(), self.again.len()];
        if counts != [count; 2] {
            let [first, again] = counts;
            let failure =
                Some(format!("{first}, in another run {again} tensors instead of {count}"));
            let name = "of all outputs".to_owned();
            return vec![OutputVerdict { name, error: f64::INFINITY, most: 0.0, failure }];
        }
        let runs = self.actual.iter().zip(&self.again).enumerate();
        let verdict = |(number, (actual, again)): (usize, (&Tensor, &Tensor))| {
            let (error, most, mut failure) = judge(number, actual);
            if failure.is_none() && actual != again {
                failure = Some("another run gives other bits".to_owned());
            }
            let name = self.names[number].clone();
            OutputVerdict { name, error, most, failure }
        };
        runs.map(verdict).collect()
    }

    /// A verdict for each output against those of another compile, whose roundings are its own.
    pub(super) fn against(&self, plain: &[Tensor], options: &Options) -> Vec<OutputVerdict> {
        let rule = Rule::of_two_compiles(options);
        self.verdicts(plain.len(), &|number, actual| rule.judge(actual, &plain[number], None))
    }
}

/// What is wrong with a value against that of another engine, which rounds otherwise, if something
/// is.
pub(crate) fn wrong_beside(other: &Tensor, actual: &Tensor, options: &Options) -> Option<String> {
    Rule::of_two_compiles(options).judge(actual, other, None).2
}

impl Rule {
    /// Of a value against that of another compile.
    fn of_two_compiles(options: &Options) -> Rule {
        Rule { of_floats: true, least: OF_TWO_COMPILES * least(options) }
    }

    fn judge(
        self,
        actual: &Tensor,
        declared: &Tensor,
        exact: Option<&Tensor>,
    ) -> (f64, f64, Option<String>) {
        let comparison = || Tolerance::default().compare(actual, declared).to_string();
        if actual.dtype() != declared.dtype() || actual.shape() != declared.shape() {
            return (f64::INFINITY, self.least, Some(comparison()));
        }
        // Sizes that data decide may differ.
        let exact = exact.filter(|exact| exact.shape() == declared.shape()).unwrap_or(declared);
        let Judgement { error, most, is_wrong } = match declared.dtype() {
            DType::String => of_strings(actual, declared),
            dtype if dtype.is_float() => of_floats(actual, declared, exact, self),
            _ => of_integers(actual, declared, exact, self),
        };
        (error, most, (is_wrong || error > most).then(comparison))
    }
}

/// The elements of an f32 tensor off by a unit in the last place, up, down or not at all; of any
/// other the tensor as it is.
fn off_by_units(tensor: &Tensor, seed: u64) -> Tensor {
    let Some(values) = tensor.as_slice::<f32>() else { return tensor.clone() };
    let off = |(number, &value): (usize, &f32)| {
        let drawn = (number as u64 ^ seed << 40).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 61;
        match drawn {
            0..=2 => value * (1.0 + f32::EPSILON),
            3..=5 => value * (1.0 - f32::EPSILON),
            _ => value,
        }
    };
    Tensor::from_vec(tensor.shape(), values.iter().enumerate().map(off).collect())
}

/// The error that is always allowed in a precision.
fn least(options: &Options) -> f64 {
    match (options.precision, options.activations) {
        (Precision::F32, Activations::AsGiven) => LEAST,
        (Precision::Bf16, _) | (_, Activations::Int8) => OF_SHORT_PRODUCTS,
    }
}

fn of_strings(actual: &Tensor, declared: &Tensor) -> Judgement {
    let is_wrong = actual.strings() != declared.strings();
    Judgement { error: f64::from(u8::from(is_wrong)), most: 0.0, is_wrong }
}

fn of_floats(actual: &Tensor, declared: &Tensor, exact: &Tensor, rule: Rule) -> Judgement {
    let dtype = declared.dtype();
    let rounded = exact.cast(dtype);
    // Squares: of our error, of the evaluator's, of the reference.
    let (mut ours, mut theirs, mut norm, mut is_wrong) = (0.0, 0.0, 0.0, false);
    for index in 0..actual.len() {
        let at = |tensor: &Tensor| tensor.get_scalar(index).as_f64();
        let (a, declared, rounded, exact) = (at(actual), at(declared), at(&rounded), at(exact));
        if !a.is_finite() {
            is_wrong |= ![declared, rounded].iter().any(|b| *b == a || b.is_nan() && a.is_nan());
            continue;
        }
        // A conversion that saturates makes a number of what is none in f64.
        let meant = if rounded.is_finite() && exact.is_finite() { exact } else { declared };
        if !meant.is_finite() {
            is_wrong = true;
            continue;
        }
        ours += (a - meant) * (a - meant);
        norm += meant * meant;
        if declared.is_finite() {
            theirs += (declared - meant) * (declared - meant);
        }
    }
    let relative = |square: f64| if square > 0.0 { (square / norm).sqrt() } else { 0.0 };
    let most = rule.least.max(last_place(dtype)).max(TIMES * relative(theirs));
    Judgement { error: relative(ours), most, is_wrong }
}

fn of_integers(actual: &Tensor, declared: &Tensor, exact: &Tensor, rule: Rule) -> Judgement {
    let is_short = declared.dtype() != DType::Bool && declared.dtype().bits() <= 8;
    let most_off = i128::from(rule.of_floats && is_short);
    let is_other = |&index: &usize| {
        let at = |tensor: &Tensor| tensor.get_scalar(index).as_i128();
        let a = at(actual);
        [declared, exact].iter().all(|expected| (a - at(expected)).abs() > most_off)
    };
    let others = (0..actual.len()).filter(is_other).count();
    let most = if rule.of_floats { actual.len() / SHARE } else { 0 };
    let error = tensor::compare(actual, exact, 0.0, 0.0).relative_l2;
    Judgement { error, most: f64::INFINITY, is_wrong: others > most }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judge(actual: &[f32], declared: &[f32], exact: &[f64]) -> bool {
        let floats = |values: &[f32]| Tensor::from_slice(&[values.len()], values);
        let exact = Tensor::from_slice(&[exact.len()], exact);
        let rule = Rule { of_floats: true, least: LEAST };
        let Judgement { error, most, is_wrong } =
            of_floats(&floats(actual), &floats(declared), &exact, rule);
        !is_wrong && error <= most
    }

    #[test]
    fn floats_are_judged_by_their_norm() {
        assert!(judge(&[1.0, 2.00001], &[1.0, 2.0], &[1.0, 2.0]));
        assert!(!judge(&[1.0, 2.001], &[1.0, 2.0], &[1.0, 2.0]));
        // The evaluator's own f32 is off by nearly as much.
        assert!(judge(&[1.0, 2.001], &[1.0, 2.0005], &[1.0, 2.0]));
        assert!(!judge(&[1.0, 2.001], &[1.0, 2.0001], &[1.0, 2.0]));
    }

    #[test]
    fn units_in_the_last_place_are_small_and_drawn_again() {
        let ones = Tensor::from_vec(&[64], vec![1.0_f32; 64]);
        let (first, second) = (off_by_units(&ones, 1), off_by_units(&ones, 2));
        assert!(first != ones && first != second);
        assert!(tensor::compare(&first, &ones, 0.0, 0.0).relative_l2 < 2e-7);
        let integers = Tensor::from_vec(&[2], vec![1_i64, 2]);
        assert_eq!(off_by_units(&integers, 1), integers);
    }

    #[test]
    fn what_is_not_finite_must_be_so_in_the_reference() {
        let (nan, inf) = (f32::NAN, f32::INFINITY);
        let (nan64, inf64) = (f64::NAN, f64::INFINITY);
        assert!(judge(&[nan, inf], &[nan, inf], &[nan64, inf64]));
        assert!(!judge(&[nan, 1.0], &[1.0, 1.0], &[1.0, 1.0]));
        assert!(!judge(&[1.0, 1.0], &[nan, 1.0], &[nan64, 1.0]));
        assert!(!judge(&[-inf, 1.0], &[inf, 1.0], &[inf64, 1.0]));
        // f32 overflows where f64 does not: in the middle, or in the result.
        assert!(judge(&[inf, 1.0], &[inf, 1.0], &[3.0, 1.0]));
        assert!(judge(&[inf, 1.0], &[inf, 1.0], &[1e300, 1.0]));
        assert!(judge(&[3.0, 1.0], &[inf, 1.0], &[3.0, 1.0]));
        assert!(judge(&[448.0, 1.0], &[448.0, 1.0], &[inf64, 1.0]));
    }

    #[test]
    fn a_unit_in_the_last_place_of_short_floats_is_allowed() {
        let judge = |off: f32| {
            let short = |value: f32| Tensor::from_slice(&[1], &[value]).cast(DType::BF16);
            let rule = Rule { of_floats: true, least: LEAST };
            let exact = Tensor::from_slice(&[1], &[1.0_f64]);
            let found = of_floats(&short(1.0 + off), &short(1.0), &exact, rule);
            !found.is_wrong && found.error <= found.most
        };
        assert!(judge(1.0 / 128.0) && !judge(2.0 / 128.0));
    }

    #[test]
    fn integers_are_equal_but_for_roundings() {
        let judge = |actual: &[i64], dtype, of_floats| {
            let integers = |values: &[i64]| Tensor::from_slice(&[values.len()], values).cast(dtype);
            let rule = Rule { of_floats, least: LEAST };
            let meant = integers(&vec![3; actual.len()]);
            !of_integers(&integers(actual), &meant, &meant, rule).is_wrong
        };
        assert!(judge(&[3, 3], DType::I64, false) && !judge(&[3, 4], DType::I64, false));
        assert!(judge(&[3, 4], DType::U8, true) && !judge(&[3, 5], DType::U8, true));
        assert!(!judge(&[3, 4], DType::U8, false) && !judge(&[3, 4], DType::I64, true));
        let mut many = vec![3; 200];
        many[7] = 9;
        many[70] = 9;
        assert!(judge(&many, DType::I64, true) && !judge(&many, DType::I64, false));
        many[71] = 9;
        assert!(!judge(&many, DType::I64, true));
    }
}
