//! Values in a line or some.

use std::fmt::Write as _;

use tensor::{Class, Keys, Tensor, Value};

use crate::top::in_order;

/// A tensor of so many elements is shown whole.
const WHOLE: usize = 16;
/// Elements that are shown of a larger one.
const FIRST: usize = 8;
/// Maps, and keys of a map, that are shown.
const MOST_MAPS: usize = 16;

/// What a value is and its elements, the first of them if there are many; of maps the keys with
/// their numbers, the largest first. No line break at the end.
///
/// ```text
/// name: f32[1, 1000] = 0.1, 2.5, …; least -3.0, largest 9.5
/// ```
#[must_use]
pub fn summary(name: &str, value: &Value) -> String {
    match value {
        Value::Tensor(tensor) => of_tensor(name, tensor),
        Value::Sequence(values) if values.is_empty() => format!("{name}: an empty sequence"),
        Value::Sequence(values) => {
            let lines = values.iter().enumerate();
            let lines = lines.map(|(index, inner)| summary(&format!("{name}[{index}]"), inner));
            lines.collect::<Vec<String>>().join("\n")
        }
        Value::Optional(None) => format!("{name}: absent"),
        Value::Optional(Some(value)) => summary(name, value),
        Value::Map(keys, tensor) => format!("{name}: map = {}", of_map(keys, tensor, 0)),
        Value::Maps(keys, tensor) => {
            let maps = tensor.shape().first().copied().unwrap_or(0);
            let mut text = format!("{name}: {maps} maps");
            for map in 0..maps.min(MOST_MAPS) {
                let _ = write!(text, "\n  {map}: {}", of_map(keys, tensor, map * keys.len()));
            }
            if maps > MOST_MAPS {
                let _ = write!(text, "\n  … and {} more", maps - MOST_MAPS);
            }
            text
        }
    }
}

fn element(tensor: &Tensor, index: usize) -> String {
    match tensor.strings() {
        Some(strings) => format!("{:?}", strings[index]),
        None => tensor.get_scalar(index).to_string(),
    }
}

fn of_tensor(name: &str, tensor: &Tensor) -> String {
    let mut text = format!("{name}: {}{:?} =", tensor.dtype(), tensor.shape());
    let shown = if tensor.len() <= WHOLE { tensor.len() } else { FIRST };
    for index in 0..shown {
        let separator = if index == 0 { "" } else { "," };
        let _ = write!(text, "{separator} {}", element(tensor, index));
    }
    if tensor.len() > shown {
        text.push_str(", …");
        text += &range(tensor).unwrap_or_default();
    }
    text
}

/// The least and the largest number, and how many are none.
fn range(tensor: &Tensor) -> Option<String> {
    if matches!(tensor.dtype().class(), Class::String | Class::Bool) {
        return None;
    }
    let numbers = || tensor.scalars().filter(|scalar| !scalar.is_nan());
    let by_value = |a: &tensor::Scalar, b: &tensor::Scalar| a.as_f64().total_cmp(&b.as_f64());
    let nans = tensor.len() - numbers().count();
    let mut text = match (numbers().min_by(by_value), numbers().max_by(by_value)) {
        (Some(least), Some(largest)) => format!("; least {least}, largest {largest}"),
        _ => String::new(),
    };
    if nans > 0 {
        let _ = write!(text, "; {nans} nan");
    }
    Some(text)
}

/// `"yes" 0.75, "no" 0.25`
fn of_map(keys: &Keys, tensor: &Tensor, first: usize) -> String {
    if tensor.strings().is_some() {
        return "strings".to_owned();
    }
    let scores: Vec<f64> = (0..keys.len()).map(|at| tensor.get_f64(first + at)).collect();
    let order = in_order(&scores);
    let pair = |at: &usize| {
        let key = match keys {
            Keys::Strings(texts) => format!("{:?}", texts[*at]),
            Keys::Integers(numbers) => numbers[*at].to_string(),
        };
        format!("{key} {}", element(tensor, first + at))
    };
    let shown: Vec<String> = order.iter().take(MOST_MAPS).map(pair).collect();
    let more = if order.len() > MOST_MAPS { ", …" } else { "" };
    shown.join(", ") + more
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines() {
        let small = Tensor::from_slice(&[2], &[0.5_f32, 2.0]);
        assert_eq!(summary("y", &small.clone().into()), "y: f32[2] = 0.5, 2.0");
        let large: Vec<i64> = (-10..10).collect();
        let large = Tensor::from_slice(&[4, 5], &large);
        assert_eq!(
            summary("y", &large.into()),
            "y: i64[4, 5] = -10, -9, -8, -7, -6, -5, -4, -3, …; least -10, largest 9"
        );
        let keys = Keys::Strings(vec!["a".to_owned(), "b".to_owned()]);
        assert_eq!(summary("m", &Value::Map(keys.clone(), small)), "m: map = \"b\" 2.0, \"a\" 0.5");
        let scores = Tensor::from_slice(&[1, 2], &[3.0_f32, f32::NAN]);
        assert_eq!(
            summary("m", &Value::Maps(keys, scores)),
            "m: 1 maps\n  0: \"a\" 3.0, \"b\" nan"
        );
        assert_eq!(summary("o", &Value::Optional(None)), "o: absent");
        let floats = Tensor::from_vec(&[20], vec![f32::NAN; 20]);
        assert!(summary("y", &floats.into()).ends_with("…; 20 nan"));
    }
}
