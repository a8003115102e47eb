//! Inputs and outputs as the caller sees them.

use std::collections::BTreeMap;
use std::fmt;

use base::remedies::use_instead;
use base::{Diagnostic, Diagnostics, Result, codes};
use graph::{ElementType, Function, ValueId};
use tensor::{DType, Given, Kind, Tensor, Value};

use crate::shapes::bind_shape;

/// Seed of the first random input; the n-th adds n.
const RANDOM_SEED: u64 = 0x5EED;

/// An input or output of a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Port {
    /// The user's name for it.
    pub name: String,
    /// Element type; none where the model does not tell it, or it is none of ours.
    pub dtype: Option<DType>,
    /// Its extents, outermost first.
    pub shape: Vec<PortExtent>,
    /// What it is: a tensor, or made of tensors of this type.
    pub kind: Kind,
}

/// An extent of a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PortExtent {
    /// Known.
    Fixed(usize),
    /// An expression over named dimensions that no option fixes.
    Symbolic(String),
    /// Any number of axes of any extents: the model does not declare them.
    Any,
}

impl Port {
    /// The shape, where all of it is known.
    #[must_use]
    pub fn fixed_shape(&self) -> Option<Vec<usize>> {
        self.shape
            .iter()
            .map(|extent| match extent {
                PortExtent::Fixed(extent) => Some(*extent),
                PortExtent::Symbolic(_) | PortExtent::Any => None,
            })
            .collect()
    }

    /// A random tensor for the input of this number: floats standard normal, integers 0 or 1.
    ///
    /// # Errors
    /// `TW0205` if an extent is not known.
    pub fn random(&self, number: u64) -> Result<Tensor> {
        match (self.dtype, self.fixed_shape()) {
            (Some(dtype), Some(shape)) => {
                Ok(tensor::random::random(dtype, &shape, RANDOM_SEED + number))
            }
            _ => Err(self.unbound().into()),
        }
    }

    /// The bytes of its tensor, extents that are not known counted as 1.
    #[must_use]
    pub fn least_bytes(&self) -> u64 {
        let extents = self.shape.iter().map(|extent| match extent {
            PortExtent::Fixed(extent) => *extent as u64,
            PortExtent::Symbolic(_) | PortExtent::Any => 1,
        });
        let elements = extents.fold(1, u64::saturating_mul);
        let bytes = self.dtype.and_then(|dtype| dtype.size_of_elements(elements as usize));
        bytes.map_or(u64::MAX, |bytes| bytes as u64)
    }

    /// The refusal of a run without a value for it.
    #[must_use]
    pub fn missing(&self) -> Diagnostic {
        Diagnostic::error(codes::MISSING_INPUT, format!("input `{}` is not given", self.name))
            .at(self.to_string())
            .because("the model declares no default value for it")
            .remedy("give a value of this name")
    }

    fn unbound(&self) -> Diagnostic {
        let message = format!("the shape of input `{}` is not known", self.name);
        let found = Diagnostic::error(codes::UNBOUND_DIMENSION, message).at(self.to_string());
        let names: Vec<&str> = self.free_extents().collect();
        if names.is_empty() {
            return found
                .because("the model does not declare how many axes it has")
                .remedy("give the input itself");
        }
        let options: Vec<String> = names.iter().map(|name| format!("--dim {name}=1")).collect();
        found
            .because(format!("no value is given for {}", names.join(", ")))
            .remedy(format!("give them, such as `{}`, or the input itself", options.join(" ")))
    }

    /// The names of extents that are not known.
    pub fn free_extents(&self) -> impl Iterator<Item = &str> {
        self.shape.iter().filter_map(|extent| match extent {
            PortExtent::Symbolic(name) => Some(name.as_str()),
            PortExtent::Fixed(_) | PortExtent::Any => None,
        })
    }

    /// The port with these values for named extents.
    #[must_use]
    pub fn with_extents(mut self, values: &BTreeMap<String, i64>) -> Port {
        for extent in &mut self.shape {
            if let PortExtent::Symbolic(name) = extent
                && let Some(&value) = values.get(name)
                && let Ok(value) = usize::try_from(value)
            {
                *extent = PortExtent::Fixed(value);
            }
        }
        self
    }

    /// Checks a value against the port: what it is and what it holds, and of a tensor the element
    /// type, the rank, and the extents that are known.
    ///
    /// # Errors
    /// `TW0203` and `TW0204`.
    pub fn check<G: Given>(&self, value: &G) -> Result<()> {
        if let (Kind::Tensor, Some(tensor)) = (&self.kind, value.as_tensor()) {
            return self.check_tensor(tensor);
        }
        if self.is_of(&self.kind, &value.clone().into()) {
            return Ok(());
        }
        let message = format!("input `{}` is of another kind", self.name);
        Err(Diagnostic::error(codes::WRONG_DTYPE, message)
            .at(self.to_string())
            .because(
                "tensors, sequences, optional values and maps do not stand for each other, lists \
                 hold tensors of the type that the model declares, and a map has a vector of as \
                 many values as keys",
            )
            .remedy("give a value of the kind that the model declares")
            .into())
    }

    /// Whether a value is of a kind, and made of tensors of the port's type.
    fn is_of(&self, kind: &Kind, value: &Value) -> bool {
        match (kind, value) {
            (Kind::Tensor, Value::Tensor(tensor)) => {
                self.dtype.is_none_or(|dtype| dtype == tensor.dtype())
            }
            (Kind::Sequence(held), Value::Sequence(values)) => {
                values.iter().all(|value| self.is_of(held, value))
            }
            (Kind::Optional(held), Value::Optional(value)) => {
                value.as_ref().is_none_or(|value| self.is_of(held, value))
            }
            (Kind::Maps, Value::Maps(..)) => true,
            (Kind::Map, Value::Map(keys, values)) => values.shape() == [keys.len()],
            _ => false,
        }
    }

    fn check_tensor(&self, tensor: &Tensor) -> Result<()> {
        let (given, shape) = (tensor.dtype(), tensor.shape());
        if let Some(dtype) = self.dtype.filter(|dtype| *dtype != given) {
            let message = format!("input `{}` has elements of type {given}", self.name);
            return Err(Diagnostic::error(codes::WRONG_DTYPE, message)
                .at(self.to_string())
                .because(format!("the model declares {dtype}"))
                .remedy(format!("convert it to {dtype}"))
                .into());
        }
        if self.shape.contains(&PortExtent::Any) || self.fits(shape) {
            return Ok(());
        }
        let shape: Vec<i64> = shape.iter().map(|&extent| extent as i64).collect();
        bind_shape(&self.shape, &shape, &mut BTreeMap::new())
            .map_err(|reason| self.wrong_shape(&shape, reason).into())
    }

    /// Whether a shape is the declared one, extents of the same name being equal. Every run asks
    /// it, so nothing is allocated.
    fn fits(&self, shape: &[usize]) -> bool {
        let axes = || self.shape.iter().zip(shape);
        shape.len() == self.shape.len()
            && axes().enumerate().all(|(axis, (extent, given))| match extent {
                PortExtent::Fixed(expected) => expected == given,
                PortExtent::Symbolic(_) => {
                    axes().take(axis).all(|(before, other)| before != extent || other == given)
                }
                PortExtent::Any => true,
            })
    }

    /// The refusal of a value of this shape.
    pub(crate) fn wrong_shape(&self, shape: &[i64], reason: String) -> Diagnostic {
        let message = format!("input `{}` has shape {shape:?}", self.name);
        Diagnostic::error(codes::WRONG_SHAPE, message)
            .at(self.to_string())
            .because(reason)
            .remedy("give a tensor of the declared shape")
    }
}

impl fmt::Display for Port {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.name)?;
        let mut kind = &self.kind;
        while let Kind::Sequence(inner) | Kind::Optional(inner) = kind {
            let is_sequence = matches!(kind, Kind::Sequence(_));
            f.write_str(if is_sequence { "sequence of " } else { "optional " })?;
            kind = inner;
        }
        if self.kind == Kind::Maps {
            return f.write_str("sequence of maps");
        }
        if self.kind == Kind::Map {
            return f.write_str("map");
        }
        let dtype = self.dtype.map_or("?".to_owned(), |dtype| dtype.to_string());
        let extents: Vec<String> = self.shape.iter().map(PortExtent::to_string).collect();
        write!(f, "{dtype}[{}]", extents.join(", "))
    }
}

impl fmt::Display for PortExtent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PortExtent::Fixed(extent) => write!(f, "{extent}"),
            PortExtent::Symbolic(text) => f.write_str(text),
            PortExtent::Any => f.write_str("..."),
        }
    }
}

/// Values by name in the order of inputs; `missing` gives what stands for one that is not given.
///
/// # Errors
/// `TW0202` for each name that is none of the inputs', and those of `missing`.
pub fn in_order<T>(
    inputs: &[Port],
    mut given: BTreeMap<String, T>,
    missing: &mut dyn FnMut(usize, &Port) -> Result<T>,
) -> Result<Vec<T>> {
    let (mut values, mut found) = (Vec::new(), Diagnostics::new());
    for (number, port) in inputs.iter().enumerate() {
        match given.remove(&port.name).map_or_else(|| missing(number, port), Ok) {
            Ok(value) => values.push(value),
            Err(refused) => found.append(refused),
        }
    }
    given.keys().for_each(|name| found.push(unknown_input(name, inputs)));
    found.or_ok(values)
}

/// The refusal of a value for an input that a model does not have.
#[must_use]
pub fn unknown_input(name: &str, inputs: &[Port]) -> Diagnostic {
    let names: Vec<String> = inputs.iter().map(|port| format!("`{}`", port.name)).collect();
    Diagnostic::error(codes::UNKNOWN_INPUT, format!("the model has no input `{name}`"))
        .at(format!("the value given for `{name}`"))
        .because(format!("its inputs are {}", names.join(", ")))
        .remedy(use_instead(name, inputs.iter().map(|port| port.name.as_str()), str::to_owned))
}

/// What values of a function are called and declared as; those of maps are two each.
#[must_use]
pub fn ports(
    function: &Function,
    (values, names): (&[ValueId], &[String]),
    kinds: &[Kind],
) -> Vec<Port> {
    let extent = |expr: &sym::Expr| match expr.as_constant() {
        Some(extent) => PortExtent::Fixed(extent as usize),
        None => PortExtent::Symbolic(expr.display(&|id| function.symbol_name(id)).to_string()),
    };
    let mut components = values.iter().zip(names);
    let port = |kind: &Kind| {
        // The last component has the value's name.
        let (&value, name) = components.nth(kind.component_names("").len() - 1)?;
        let (_, dtype, _) = ElementType::of(function.ty(value)).kind();
        let shape = match function.ty(value).as_tensor() {
            Some(ty) => ty.shape.iter().map(extent).collect(),
            None => vec![PortExtent::Any],
        };
        Some(Port { name: name.clone(), dtype, shape, kind: kind.clone() })
    };
    kinds.iter().filter_map(port).collect()
}
