//! Values from JSON: nested lists, and objects as outputs are written.
//!
//! A tensor is a number, a string, a boolean or nested lists of them, or an object with its `data`
//! and perhaps its `shape`. A sequence is a list of values, an absent value `null`, a map an object
//! from keys to numbers. Floats that JSON has no numbers for stand in quotes.

use base::{Diagnostic, Result};
use serde_json::Value as Json;
use tensor::{DType, Keys, Kind, Scalar, Tensor, Value};
use tilewright::Port;

use crate::numbers::{dtype_of, number};
use crate::sentences::malformed;

/// The value of an input.
pub(crate) fn value_of(json: &Json, port: &Port, place: &str) -> Result<Value> {
    let reader = Reader { dtype: dtype_of(port, place)?, place };
    reader.value(json, &port.kind)
}

struct Reader<'r> {
    dtype: DType,
    place: &'r str,
}

impl Reader<'_> {
    fn refuse(&self, reason: String) -> Diagnostic {
        malformed("JSON", self.place, reason).remedy(format!(
            "give nested lists of type {}, as `json.dumps(array.tolist())` writes them",
            self.dtype
        ))
    }

    fn value(&self, json: &Json, kind: &Kind) -> Result<Value> {
        match (kind, json) {
            (Kind::Tensor, _) => Ok(self.tensor(json)?.into()),
            (Kind::Sequence(inner), Json::Array(items)) => {
                let values: Result<Vec<Value>> =
                    items.iter().map(|item| self.value(item, inner)).collect();
                Ok(Value::Sequence(values?))
            }
            (Kind::Optional(_), Json::Null) => Ok(Value::Optional(None)),
            (Kind::Optional(inner), _) => {
                Ok(Value::Optional(Some(Box::new(self.value(json, inner)?))))
            }
            (Kind::Map, Json::Object(object)) => self.map(object),
            (Kind::Sequence(_), _) => Err(self.refuse("a sequence is a list".to_owned()).into()),
            (Kind::Map, _) => Err(self.refuse("a map is an object".to_owned()).into()),
            (Kind::Maps, _) => {
                Err(self.refuse("a list of maps is no input that is read".to_owned()).into())
            }
        }
    }

    /// A map; its keys are integers where all of them are written as such.
    fn map(&self, object: &serde_json::Map<String, Json>) -> Result<Value> {
        let mut numbers = Vec::with_capacity(object.len());
        for item in object.values() {
            self.leaves(item, &mut Vec::new(), 0, &mut numbers)?;
        }
        if numbers.len() != object.len() {
            return Err(self.refuse("a map holds one number a key".to_owned()).into());
        }
        let integers: Option<Vec<i64>> = object.keys().map(|key| key.parse().ok()).collect();
        let keys = match integers {
            Some(integers) => Keys::Integers(integers),
            None => Keys::Strings(object.keys().cloned().collect()),
        };
        Ok(Value::Map(keys, self.gathered(&[numbers.len()], numbers)))
    }

    fn tensor(&self, json: &Json) -> Result<Tensor> {
        let (data, declared) = match json {
            Json::Object(object) => {
                let data = object.get("data");
                let data = data.ok_or_else(|| self.refuse("an object has no `data`".to_owned()))?;
                (data, object.get("shape").map(|shape| self.shape(shape)).transpose()?)
            }
            _ => (json, None),
        };
        let (mut shape, mut leaves) = (Vec::new(), Vec::new());
        self.leaves(data, &mut shape, 0, &mut leaves)?;
        if let Some(declared) = declared {
            if tensor::tensor::element_count(&declared) != Some(leaves.len()) {
                let reason = format!("{} elements do not fill shape {declared:?}", leaves.len());
                return Err(self.refuse(reason).into());
            }
            shape = declared;
        }
        Ok(self.gathered(&shape, leaves))
    }

    fn shape(&self, json: &Json) -> Result<Vec<usize>> {
        let extent = |json: &Json| json.as_u64().and_then(|extent| usize::try_from(extent).ok());
        let extents = json.as_array().and_then(|list| list.iter().map(extent).collect());
        extents.ok_or_else(|| self.refuse("`shape` is no list of extents".to_owned()).into())
    }

    fn gathered(&self, shape: &[usize], leaves: Vec<Leaf>) -> Tensor {
        let (mut scalars, mut texts) = (Vec::new(), Vec::new());
        for leaf in leaves {
            match leaf {
                Leaf::Scalar(scalar) => scalars.push(scalar),
                Leaf::Text(text) => texts.push(text),
            }
        }
        match self.dtype {
            DType::String => Tensor::from_strings(shape, texts),
            dtype => Tensor::from_scalars(dtype, shape, &scalars),
        }
    }

    /// Adds the elements of nested lists, of which all on a level have the same length. `shape` is
    /// what has been found of it: the first element fixes it.
    fn leaves(
        &self,
        json: &Json,
        shape: &mut Vec<usize>,
        depth: usize,
        leaves: &mut Vec<Leaf>,
    ) -> Result<()> {
        let is_first = leaves.is_empty() && shape.len() == depth;
        match json {
            Json::Array(items) => {
                if is_first {
                    shape.push(items.len());
                }
                if shape.get(depth) != Some(&items.len()) {
                    let wanted = shape
                        .get(depth)
                        .map_or("an element".to_owned(), |extent| format!("a list of {extent}"));
                    let found = items.len();
                    let reason = format!("a list of {found} stands where {wanted} should be");
                    return Err(self.refuse(reason).into());
                }
                items.iter().try_for_each(|item| self.leaves(item, shape, depth + 1, leaves))
            }
            _ if shape.len() != depth => {
                Err(self.refuse(format!("{json} stands where a list should be")).into())
            }
            _ => {
                leaves.push(self.leaf(json).map_err(|reason| self.refuse(reason))?);
                Ok(())
            }
        }
    }

    fn leaf(&self, json: &Json) -> std::result::Result<Leaf, String> {
        let is_float = self.dtype.class() == tensor::Class::Float;
        match json {
            Json::String(text) if self.dtype == DType::String => Ok(Leaf::Text(text.clone())),
            Json::String(text) if is_float => match text.as_str() {
                "NaN" | "Infinity" | "-Infinity" => number(self.dtype, text).map(Leaf::Scalar),
                _ => Err(format!("{json} is not a value of type {}", self.dtype)),
            },
            Json::Number(found) if self.dtype != DType::Bool => {
                number(self.dtype, &found.to_string()).map(Leaf::Scalar)
            }
            Json::Bool(found) if self.dtype == DType::Bool => {
                Ok(Leaf::Scalar(Scalar::bool(*found)))
            }
            _ => Err(format!("{json} is not a value of type {}", self.dtype)),
        }
    }
}

enum Leaf {
    Scalar(Scalar),
    Text(String),
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sentences::tests::port;

    fn read(json: &str, text: &str) -> std::result::Result<String, String> {
        let json = serde_json::from_str(json).expect("JSON");
        match value_of(&json, &port(text), "here") {
            Ok(value) => Ok(format!("{:?}", value.into_tensor().expect("a tensor"))),
            Err(found) => Err(found[0].reasons[0].clone()),
        }
    }

    #[test]
    fn nested_lists() {
        for (json, text, tensor) in [
            ("[[1, 2.5], [3, 4]]", "x: f32[2, 2]", "f32[2, 2] 1.0 2.5 3.0 4.0"),
            ("0.1", "x: f64[]", "f64[] 0.1"),
            ("[\"a\", \"b\"]", "x: string[2]", "string[2] \"a\" \"b\""),
            ("[true]", "x: bool[1]", "bool[1] true"),
            ("[\"NaN\", \"-Infinity\"]", "x: f32[2]", "f32[2] nan -inf"),
            ("[]", "x: f32[n]", "f32[0]"),
            ("[[], []]", "x: f32[2, n]", "f32[2, 0]"),
            ("{\"dtype\": \"f32\", \"shape\": [0, 3], \"data\": []}", "x: f32[n, 3]", "f32[0, 3]"),
            ("{\"shape\": [2, 1], \"data\": [1, 2]}", "x: i64[2, 1]", "i64[2, 1] 1 2"),
            ("[9007199254740993]", "x: i64[1]", "i64[1] 9007199254740993"),
        ] {
            assert_eq!(read(json, text).as_deref(), Ok(tensor), "{json}");
        }
    }

    #[test]
    fn what_is_no_tensor() {
        for (json, text, reason) in [
            ("[[1], [2, 3]]", "x: f32[2, 1]", "a list of 2 stands where a list of 1 should be"),
            ("[1, [2]]", "x: f32[2]", "a list of 1 stands where an element should be"),
            ("[[1], 2]", "x: f32[2, 1]", "2 stands where a list should be"),
            ("[[], [1]]", "x: f32[2, 1]", "a list of 1 stands where a list of 0 should be"),
            ("[[], 1]", "x: f32[2, 1]", "1 stands where a list should be"),
            ("[null]", "x: f32[1]", "null is not a value of type f32"),
            ("[true]", "x: f32[1]", "true is not a value of type f32"),
            ("[\"1\"]", "x: f32[1]", "\"1\" is not a value of type f32"),
            ("[1.5]", "x: i64[1]", "`1.5` is not a value of type i64"),
            ("[1]", "x: string[1]", "`1` is not a value of type string"),
            ("[1e40]", "x: f32[1]", "`1e+40` is beyond the range of f32"),
            ("{\"shape\": [3], \"data\": [1]}", "x: f32[3]", "1 elements do not fill shape [3]"),
            ("{}", "x: f32[3]", "an object has no `data`"),
        ] {
            assert_eq!(read(json, text).expect_err(json), reason, "{json}");
        }
    }

    #[test]
    fn other_kinds() {
        let mut port = port("m: f32[]");
        let of = |port: &Port, json: &str| {
            value_of(&serde_json::from_str(json).expect("JSON"), port, "here")
        };
        port.kind = Kind::Map;
        let map = of(&port, "{\"a\": 1, \"b\": 2}").expect("a map");
        assert_eq!(format!("{map:?}"), "Map(Strings([\"a\", \"b\"]), f32[2] 1.0 2.0)");
        port.kind = Kind::Sequence(Box::new(Kind::Tensor));
        let sequence = of(&port, "[[1], [2, 3]]").expect("a sequence");
        assert_eq!(
            format!("{sequence:?}"),
            "Sequence([Tensor(f32[1] 1.0), Tensor(f32[2] 2.0 3.0)])"
        );
        assert!(of(&port, "1").is_err());
        port.kind = Kind::Optional(Box::new(Kind::Tensor));
        assert_eq!(format!("{:?}", of(&port, "null").expect("absent")), "Optional(None)");
    }
}
