//! Values that are made of tensors: sequences and optional values of them, maps and lists of maps.

use std::borrow::Cow;
use std::collections::BTreeMap;

use crate::Scalar;
use crate::tensor::Tensor;
use base::IntoTree;

/// A tensor, a list of values, a value that may be absent, a map or a list of maps.
#[derive(Clone, Debug)]
pub enum Value {
    /// A tensor.
    Tensor(Tensor),
    /// Values of one kind behind each other.
    Sequence(Vec<Value>),
    /// A value or none.
    Optional(Option<Box<Value>>),
    /// A list of maps from the same keys to numbers: row `i` of the matrix is map `i`.
    Maps(Keys, Tensor),
    /// A map from keys to the elements of a vector of the same length.
    Map(Keys, Tensor),
}

/// The keys of maps.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Keys {
    /// Integers.
    Integers(Vec<i64>),
    /// Strings.
    Strings(Vec<String>),
}

/// What values a model declares: of a sequence not how many, of an optional value not whether.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Tensors.
    Tensor,
    /// Lists of values of a kind.
    Sequence(Box<Kind>),
    /// Values of a kind, or none.
    Optional(Box<Kind>),
    /// Lists of maps from labels to numbers.
    Maps,
    /// Maps from labels to numbers.
    Map,
}

/// How a value is made of tensors.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Structure {
    /// It is one.
    Tensor,
    /// Behind each other.
    Sequence(Vec<Structure>),
    /// One or none.
    Optional(Option<Box<Structure>>),
    /// A matrix with a row a map.
    Maps(Keys),
    /// A vector of keys and one of values.
    Map,
}

impl Value {
    /// How it is made of tensors.
    pub fn structure(&self) -> Structure {
        match self {
            Value::Tensor(_) => Structure::Tensor,
            Value::Sequence(values) => {
                Structure::Sequence(values.iter().map(Value::structure).collect())
            }
            Value::Optional(value) => {
                Structure::Optional(value.as_ref().map(|value| Box::new(value.structure())))
            }
            Value::Maps(keys, _) => Structure::Maps(keys.clone()),
            Value::Map(..) => Structure::Map,
        }
    }

    /// The tensors of two values that are made of tensors alike, with names made of theirs. The
    /// order of a map's keys does not count.
    ///
    /// # Errors
    /// How the values are made otherwise.
    pub fn pairs(
        &self,
        other: &Value,
        name: &str,
    ) -> Result<Vec<(String, Tensor, Tensor)>, String> {
        let other = other.clone().in_order_of(self);
        let (is, should) = (self.structure(), other.structure());
        if is != should {
            return Err(format!("it is {is:?} instead of {should:?}"));
        }
        let tensors = self.clone().into_tensors().into_iter().zip(other.into_tensors());
        let named = is.names(name).into_iter().zip(tensors);
        Ok(named.map(|(name, (own, other))| (name, own, other)).collect())
    }

    /// The same value, the keys of maps in the order of another's, where both have the same. A list
    /// of no maps has any keys.
    fn in_order_of(self, other: &Value) -> Value {
        match (self, other) {
            (Value::Maps(own, numbers), Value::Maps(keys, _)) => {
                if numbers.shape()[0] == 0 {
                    let none = Tensor::from_scalars(numbers.dtype(), &[0, keys.len()], &[]);
                    return Value::Maps(keys.clone(), none);
                }
                let (own, numbers) = own.in_order_of(keys, numbers);
                Value::Maps(own, numbers)
            }
            (Value::Map(own, numbers), Value::Map(keys, _)) => {
                let (own, numbers) = own.in_order_of(keys, numbers);
                Value::Map(own, numbers)
            }
            (value, _) => value,
        }
    }

    /// Its tensors, in order.
    pub fn into_tensors(self) -> Vec<Tensor> {
        match self {
            Value::Tensor(tensor) | Value::Maps(_, tensor) => vec![tensor],
            Value::Map(keys, tensor) => vec![keys.into_tensor(), tensor],
            Value::Sequence(values) => values.into_iter().flat_map(Value::into_tensors).collect(),
            Value::Optional(value) => value.map(|value| value.into_tensors()).unwrap_or_default(),
        }
    }

    /// What it is in a graph: of maps the keys and the numbers, of all else the value itself.
    pub fn into_components(self) -> Vec<Value> {
        match self {
            Value::Maps(keys, tensor) | Value::Map(keys, tensor) => {
                vec![keys.into_tensor().into(), tensor.into()]
            }
            other => vec![other],
        }
    }

    /// The tensors of some values, in order.
    pub fn tensors_of(values: &[Value]) -> Vec<Tensor> {
        values.iter().cloned().flat_map(Value::into_tensors).collect()
    }

    /// The components of some values, in order.
    pub fn components_of(values: &[Value]) -> Vec<Value> {
        values.iter().cloned().flat_map(Value::into_components).collect()
    }

    /// A value of a kind, of the next of its components; none if there are too few.
    pub fn from_components(
        kind: &Kind,
        components: &mut impl Iterator<Item = Value>,
    ) -> Option<Value> {
        let first = components.next()?;
        Some(match kind {
            Kind::Maps => {
                Value::Maps(Keys::of(first.as_tensor()?), components.next()?.into_tensor()?)
            }
            Kind::Map => {
                Value::Map(Keys::of(first.as_tensor()?), components.next()?.into_tensor()?)
            }
            Kind::Tensor | Kind::Sequence(_) | Kind::Optional(_) => first,
        })
    }

    /// Values of these kinds, of their components behind each other.
    pub fn all_from_components<'a>(
        kinds: impl IntoIterator<Item = &'a Kind>,
        components: Vec<Value>,
    ) -> Vec<Value> {
        let mut components = components.into_iter();
        kinds.into_iter().filter_map(|kind| Value::from_components(kind, &mut components)).collect()
    }

    /// The tensor, if it is one.
    pub fn into_tensor(self) -> Option<Tensor> {
        match self {
            Value::Tensor(tensor) => Some(tensor),
            _ => None,
        }
    }

    /// The tensor, if it is one.
    pub fn as_tensor(&self) -> Option<&Tensor> {
        match self {
            Value::Tensor(tensor) => Some(tensor),
            Value::Sequence(_) | Value::Optional(_) | Value::Maps(..) | Value::Map(..) => None,
        }
    }
}

impl Kind {
    /// What the components of a value of a name are called; see [`Value::into_components`].
    pub fn component_names(&self, name: &str) -> Vec<String> {
        match self {
            Kind::Maps | Kind::Map => vec![format!("{name}.keys"), name.to_owned()],
            Kind::Tensor | Kind::Sequence(_) | Kind::Optional(_) => vec![name.to_owned()],
        }
    }
}

/// What stands for an input: a tensor where all are some, or any value.
pub trait Given: Clone + Into<Value> {
    /// The tensor, if it is one.
    fn as_tensor(&self) -> Option<&Tensor>;

    /// All of them, if they are tensors.
    fn tensors(given: &[Self]) -> Option<Cow<'_, [Tensor]>>;

    /// Bytes of its elements.
    fn byte_count(&self) -> u64;
}

impl Given for Tensor {
    fn as_tensor(&self) -> Option<&Tensor> {
        Some(self)
    }

    fn tensors(given: &[Tensor]) -> Option<Cow<'_, [Tensor]>> {
        Some(Cow::Borrowed(given))
    }

    fn byte_count(&self) -> u64 {
        self.bytes().len() as u64
    }
}

impl Given for Value {
    fn as_tensor(&self) -> Option<&Tensor> {
        self.as_tensor()
    }

    fn tensors(given: &[Value]) -> Option<Cow<'_, [Tensor]>> {
        let tensors = given.iter().map(|value| value.as_tensor().cloned());
        tensors.collect::<Option<Vec<Tensor>>>().map(Cow::Owned)
    }

    fn byte_count(&self) -> u64 {
        self.clone().into_tensors().iter().map(Given::byte_count).sum()
    }
}

impl Keys {
    /// The keys that a vector of strings or integers holds.
    pub fn of(tensor: &Tensor) -> Keys {
        match tensor.strings() {
            Some(texts) => Keys::Strings(texts.to_vec()),
            None => Keys::Integers(tensor.scalars().map(Scalar::as_i64).collect()),
        }
    }

    /// As a vector.
    pub fn into_tensor(self) -> Tensor {
        match self {
            Keys::Integers(numbers) => Tensor::from_slice(&[numbers.len()], &numbers),
            Keys::Strings(texts) => Tensor::from_strings(&[texts.len()], texts),
        }
    }

    /// These keys and their numbers, along the last axis, in the order of other keys; as they are
    /// where those are not the same.
    pub fn in_order_of(self, other: &Keys, numbers: Tensor) -> (Keys, Tensor) {
        let places = match (&self, other) {
            (Keys::Integers(own), Keys::Integers(other)) => places_of(other, own),
            (Keys::Strings(own), Keys::Strings(other)) => places_of(other, own),
            _ => None,
        };
        let Some(places) = places.filter(|_| self != *other) else { return (self, numbers) };
        let rows = numbers.len().checked_div(places.len()).unwrap_or(0);
        let moved = (0..rows).flat_map(|row| {
            let (start, numbers) = (row * places.len(), &numbers);
            places.iter().map(move |place| numbers.get_scalar(start + place))
        });
        let moved: Vec<Scalar> = moved.collect();
        (other.clone(), Tensor::from_scalars(numbers.dtype(), numbers.shape(), &moved))
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        match self {
            Keys::Integers(numbers) => numbers.len(),
            Keys::Strings(texts) => texts.len(),
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// The place of each of some keys among others; none if those are not the same keys.
fn places_of<T: Ord>(keys: &[T], among: &[T]) -> Option<Vec<usize>> {
    let places: BTreeMap<&T, usize> = among.iter().zip(0..).into_map();
    let found: Option<Vec<usize>> = keys.iter().map(|key| places.get(key).copied()).collect();
    found.filter(|found| found.len() == among.len() && places.len() == among.len())
}

impl Structure {
    /// The names of the tensors of a value: `x`, or `x[0]`, `x[1]` and so on; of a map `x.keys`,
    /// `x`.
    pub fn names(&self, name: &str) -> Vec<String> {
        match self {
            Structure::Tensor | Structure::Maps(_) => vec![name.to_owned()],
            Structure::Map => vec![format!("{name}.keys"), name.to_owned()],
            Structure::Sequence(structures) => {
                let inner = structures.iter().enumerate();
                inner.flat_map(|(index, inner)| inner.names(&format!("{name}[{index}]"))).collect()
            }
            Structure::Optional(inner) => {
                inner.as_ref().map(|inner| inner.names(name)).unwrap_or_default()
            }
        }
    }
}

impl From<Tensor> for Value {
    fn from(tensor: Tensor) -> Value {
        Value::Tensor(tensor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_of_keys_does_not_count() {
        let keys = |texts: [&str; 2]| Keys::Strings(texts.map(str::to_owned).to_vec());
        let numbers = |numbers: &[f32]| Tensor::from_slice(&[numbers.len() / 2, 2], numbers);
        let maps = Value::Maps(keys(["b", "a"]), numbers(&[1.0, 2.0, 3.0, 4.0]));
        let sorted = Value::Maps(keys(["a", "b"]), numbers(&[2.0, 1.0, 4.0, 3.0]));
        let pairs = maps.pairs(&sorted, "z").expect("the same keys");
        assert_eq!(pairs[0].1.bytes(), pairs[0].2.bytes());
        assert!(maps.pairs(&Value::Maps(keys(["a", "c"]), numbers(&[1.0; 4])), "z").is_err());
        assert!(maps.pairs(&Value::Maps(keys(["a", "a"]), numbers(&[1.0; 4])), "z").is_err());
        let none = Value::Maps(Keys::Integers(Vec::new()), Tensor::from_slice::<f32>(&[0, 0], &[]));
        assert_eq!(none.clone().in_order_of(&maps).structure(), maps.structure());
    }

    #[test]
    fn taken_apart_and_put_together() {
        let tensor = |number: i64| Tensor::from_slice(&[1], &[number]);
        let sequence = Value::Sequence(vec![
            tensor(1).into(),
            Value::Optional(Some(Box::new(tensor(2).into()))),
            Value::Optional(None),
        ]);
        assert_eq!(sequence.structure().names("x"), ["x[0]", "x[1]"]);
        let map = Value::Map(Keys::Integers(vec![7]), tensor(3));
        let kinds = [Kind::Map, Kind::Sequence(Box::new(Kind::Tensor))];
        let components = [map.clone(), sequence].into_iter().flat_map(Value::into_components);
        let components: Vec<Value> = components.collect();
        assert_eq!(components.len(), 3);
        let mut components = components.into_iter();
        let again = Value::from_components(&kinds[0], &mut components).expect("as many components");
        assert_eq!(again.structure(), map.structure());
        assert!(Value::from_components(&kinds[1], &mut components).is_some());
        assert!(Value::from_components(&kinds[1], &mut components).is_none());
    }
}
