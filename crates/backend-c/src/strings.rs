//! Strings, which C sources do not hold: those that are known, or that data choose from a known
//! list, are left to whoever runs the program; all others are refused.

use std::collections::BTreeMap;

use base::{Diagnostic, Diagnostics, Result, codes};
use graph::{Function, Op, ValueId};
use tensor::{DType, Scalar, Tensor, Value};

/// The strings among what a function gives.
#[derive(Clone, Debug, Default)]
pub struct CTexts {
    /// Results that are known, by their numbers among all.
    known: BTreeMap<usize, Tensor>,
    /// For each of the other results the list of strings in which it gives places; empty of others.
    coded: Vec<Vec<String>>,
}

impl CTexts {
    /// Takes strings out of a function's results: those that are known and, of those that data
    /// choose from a known list, all but their places in it.
    #[must_use]
    pub fn take_out_of(function: &Function) -> (Function, CTexts) {
        let mut texts = CTexts::default();
        let (mut results, mut names) = (Vec::new(), Vec::new());
        let named = function.results().iter().zip(&function.result_names).enumerate();
        for (number, (&value, name)) in named {
            if let Some(known) = strings(function, value) {
                texts.known.insert(number, known.clone());
                continue;
            }
            let (value, list) = places(function, value).unwrap_or((value, Vec::new()));
            results.push(value);
            texts.coded.push(list);
            names.push(name.clone());
        }
        let mut without = function.clone();
        without.regions[function.body].results = results;
        without.result_names = names;
        without.compact();
        (without, texts)
    }

    /// The strings in which a result of the program gives places; empty where it does not.
    #[must_use]
    pub fn list(&self, result: usize) -> &[String] {
        self.coded.get(result).map_or(&[], Vec::as_slice)
    }

    /// Puts strings into what the program gives.
    pub fn put_into(&self, results: &mut Vec<Value>) {
        for (result, list) in results.iter_mut().zip(&self.coded) {
            if let (Value::Tensor(places), false) = (&*result, list.is_empty()) {
                let text = |place: Scalar| {
                    usize::try_from(place.as_i64()).ok().and_then(|place| list.get(place).cloned())
                };
                let texts = places.scalars().map(|place| text(place).unwrap_or_default());
                *result = Tensor::from_strings(places.shape(), texts.collect()).into();
            }
        }
        for (&number, texts) in &self.known {
            results.insert(number, texts.clone().into());
        }
    }
}

/// The strings that a value is known to be.
fn strings(function: &Function, value: ValueId) -> Option<&Tensor> {
    function.literal(value).filter(|tensor| tensor.dtype() == DType::String)
}

/// The places of strings in a known list, and the list.
fn places(function: &Function, value: ValueId) -> Option<(ValueId, Vec<String>)> {
    let (node, _) = function.producer(value)?;
    let node = &function.nodes[node];
    match (&node.op, &node.operands[..]) {
        (Op::Host { name, .. }, &[places, list]) if name == "take" => {
            Some((places, strings(function, list)?.strings()?.to_vec()))
        }
        _ => None,
    }
}

/// Refuses a function that takes strings, or calls host functions.
///
/// # Errors
/// `TW0104` for each parameter that is strings, `TW0103` for each call.
pub fn refuse_strings(function: &Function) -> Result<()> {
    let is_strings = |(value, _): &(&ValueId, &String)| {
        function.ty(**value).as_tensor().is_some_and(|ty| ty.dtype == DType::String)
    };
    let named = function.parameters().iter().zip(&function.parameter_names);
    let strings = named.filter(is_strings).map(|(_, name)| {
        Diagnostic::error(codes::UNSUPPORTED_TYPE, format!("input `{name}` is strings"))
            .at(format!("input \"{name}\""))
            .because("what is computed from strings is no C code")
            .remedy("export the model without its work on strings, or run it in process")
    });
    strings.collect::<Diagnostics>().or_ok(())?;
    let called = function.nodes.values().filter_map(|node| match &node.op {
        Op::Host { name, .. } => Some((name, node.location)),
        _ => None,
    });
    let refusal = |(name, location)| {
        let message = format!("the host function `{name}` does not exist in C");
        Diagnostic::error(codes::UNSUPPORTED_OPERATOR, message)
            .at(function.locations.describe(location))
            .because("strings and encoded images are read by functions of the host, not by kernels")
            .remedy("leave that part out of the model, or run it in process")
    };
    called.map(refusal).collect::<Diagnostics>().or_ok(())
}
