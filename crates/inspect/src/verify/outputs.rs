//! How far a value may be from what the model means.
//!
//! The reference is the function as imported, evaluated twice: in f64, and with the types that it
//! declares. Floats have an error, the norm of the difference over the norm of the reference, over
//! what is finite on both sides; it may be [`LEAST`], or a few times ([`TIMES`]) that of the second
//! evaluation, or a unit in the last place of a short float. What is not finite must be so in one
//! of the evaluations, and be the same there.
//!
//! Other elements are equal to one of the two evaluations. Where the model computes floats, too, a
//! rounding may lie between: numbers of 8 bits are then off by one at most, and of all others all
//! but one of [`SHARE`] are equal.

use std::sync::Arc;

use base::Result;
use eval::EvaluationPrecision;
use graph::{Function, Type};
use tensor::compare::last_place;
use tensor::{DType, Tensor, Tolerance, Value};
use tilewright::compiled::{Facts, Imported, Source, attempt, read};
use tilewright::{Executable, Precision};

use super::OutputVerdict;
use super::kernels::{Values, settings};

/// The error that is always allowed.
const LEAST: f64 = 1e-5;

/// How many times the error of the evaluator's own f32 is allowed.
const TIMES: f64 = 3.0;

/// One of so many integers may differ where a rounding of floats lies before it.
const SHARE: usize = 100;

/// What is allowed where operands of products are rounded to bf16, whose step is 2^-8.
const OF_SHORT_PRODUCTS: f64 = 1.0 / 64.0;

/// The imported function, evaluated.
pub(super) struct Reference {
    pub(super) function: Arc<Function>,
    pub(super) source: Source,
    /// What is known of the run.
    pub(super) facts: Facts,
    pub(super) declared: Values,
    /// In f64; none where it goes another way there, such as to a fault.
    exact: Option<Values>,
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
        let least = match executable.options().precision {
            Precision::F32 => LEAST,
            Precision::Bf16 => OF_SHORT_PRODUCTS,
        };
        let of_floats = function.values.values().any(|value| is_float(&value.ty));
        let source = source.clone();
        Ok(Reference { function, source, facts, declared, exact, rule: Rule { of_floats, least } })
    }

    /// A verdict for each output of two runs.
    pub(super) fn verdicts(
        &self,
        names: &[String],
        actual: &[Tensor],
        again: &[Tensor],
    ) -> Vec<OutputVerdict> {
        let counts = [self.declared.results.len(), actual.len(), again.len()];
        if counts.iter().any(|count| *count != counts[0]) {
            let failure = format!(
                "{}, in another run {} tensors instead of {}",
                counts[1], counts[2], counts[0]
            );
            let name = "of all outputs".to_owned();
            return vec![OutputVerdict {
                name,
                error: f64::INFINITY,
                most: 0.0,
                failure: Some(failure),
            }];
        }
        let runs = actual.iter().zip(again).enumerate();
        let verdict = |(number, (actual, again)): (usize, (&Tensor, &Tensor))| {
            let (error, most, mut failure) = self.result(number, actual);
            if failure.is_none() && actual != again {
                failure = Some("another run gives other bits".to_owned());
            }
            let name = names[number].clone();
            OutputVerdict { name, error, most, failure }
        };
        runs.map(verdict).collect()
    }

    /// The error of a result, the largest allowed, and what is wrong, if something is.
    pub(super) fn result(&self, number: usize, actual: &Tensor) -> (f64, f64, Option<String>) {
        let Some(declared) = self.declared.results.get(number) else {
            return (f64::INFINITY, 0.0, Some("the model has no such tensor".to_owned()));
        };
        let exact = self.exact.as_ref().and_then(|values| values.results.get(number));
        self.judge(actual, declared, exact)
    }

    /// What is wrong with a value of the function, if something is.
    pub(super) fn wrong(&self, value: graph::ValueId, actual: &Tensor) -> Option<String> {
        let exact = self.exact.as_ref().and_then(|values| values.of.get(&value));
        self.judge(actual, self.declared.of.get(&value)?, exact).2
    }

    fn judge(
        &self,
        actual: &Tensor,
        declared: &Tensor,
        exact: Option<&Tensor>,
    ) -> (f64, f64, Option<String>) {
        let comparison = || Tolerance::default().compare(actual, declared).to_string();
        if actual.dtype() != declared.dtype() || actual.shape() != declared.shape() {
            return (f64::INFINITY, self.rule.least, Some(comparison()));
        }
        // Sizes that data decide may differ.
        let exact = exact.filter(|exact| exact.shape() == declared.shape()).unwrap_or(declared);
        let Judgement { error, most, is_wrong } = match declared.dtype() {
            DType::String => of_strings(actual, declared),
            dtype if dtype.is_float() => of_floats(actual, declared, exact, self.rule),
            _ => of_integers(actual, declared, exact, self.rule),
        };
        (error, most, (is_wrong || error > most).then(comparison))
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
