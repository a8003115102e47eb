//! Inputs and outputs as the caller sees them.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use base::{Diagnostic, Diagnostics, Result, codes};
use graph::{ElementType, Function, Type};
use import_onnx::ValueInfo;
use tensor::{DType, Kind, Tensor, Value};

use crate::options::Options;

/// Seed of the first random input; the n-th adds n.
const RANDOM_SEED: u64 = 0x5EED;

/// An input or output of a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Port {
    /// The user's name for it.
    pub name: String,
    /// Element type.
    pub dtype: DType,
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
        let shape = self.fixed_shape().ok_or_else(|| self.unbound())?;
        Ok(tensor::random::random(self.dtype, &shape, RANDOM_SEED + number))
    }

    /// The bytes of its tensor, extents that are not known counted as 1.
    #[must_use]
    pub fn least_bytes(&self) -> u64 {
        let extents = self.shape.iter().map(|extent| match extent {
            PortExtent::Fixed(extent) => *extent as u64,
            PortExtent::Symbolic(_) | PortExtent::Any => 1,
        });
        let elements = extents.fold(1, u64::saturating_mul);
        self.dtype.size_of_elements(elements as usize).map_or(u64::MAX, |bytes| bytes as u64)
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
        let names: Vec<&str> = self
            .shape
            .iter()
            .filter_map(|extent| match extent {
                PortExtent::Symbolic(name) => Some(name.as_str()),
                PortExtent::Fixed(_) | PortExtent::Any => None,
            })
            .collect();
        if self.shape.contains(&PortExtent::Any) {
            return Diagnostic::error(
                codes::UNBOUND_DIMENSION,
                format!("the shape of input `{}` is not known", self.name),
            )
            .at(self.to_string())
            .because("the model does not declare how many axes it has")
            .remedy("give the input itself");
        }
        let options: Vec<String> = names.iter().map(|name| format!("--dim {name}=N")).collect();
        Diagnostic::error(
            codes::UNBOUND_DIMENSION,
            format!("the shape of input `{}` is not known", self.name),
        )
        .at(self.to_string())
        .because(format!("no value is given for {}", names.join(", ")))
        .remedy(format!("give `{}`, or the input itself", options.join(" ")))
    }

    /// Checks a value against the port: what it is, and of a tensor what [`Self::check`] does.
    ///
    /// # Errors
    /// `TW0203` and `TW0204`.
    pub fn check_value(&self, value: &Value) -> Result<()> {
        match (&self.kind, value) {
            (Kind::Tensor, Value::Tensor(tensor)) => self.check(tensor),
            (Kind::Sequence(_), Value::Sequence(_))
            | (Kind::Optional(_), Value::Optional(_))
            | (Kind::Maps, Value::Maps(..)) => Ok(()),
            (Kind::Map, Value::Map(keys, values)) if values.shape() == [keys.len()] => Ok(()),
            _ => Err(Diagnostic::error(
                codes::WRONG_DTYPE,
                format!("input `{}` is of another kind", self.name),
            )
            .at(self.to_string())
            .because(
                "tensors, sequences, optional values and maps do not stand for each other, and a \
                 map has a vector of as many values as keys",
            )
            .remedy("give a value of the kind that the model declares")
            .into()),
        }
    }

    /// Checks a tensor against the port: element type, rank, and the extents that are known.
    ///
    /// # Errors
    /// `TW0203` and `TW0204`.
    pub fn check(&self, tensor: &Tensor) -> Result<()> {
        if tensor.dtype() != self.dtype {
            return Err(Diagnostic::error(
                codes::WRONG_DTYPE,
                format!("input `{}` has elements of type {}", self.name, tensor.dtype()),
            )
            .at(self.to_string())
            .because(format!("the model declares {}", self.dtype))
            .remedy(format!("convert it to {}", self.dtype))
            .into());
        }
        if self.shape.contains(&PortExtent::Any) {
            return Ok(());
        }
        let fits = tensor.shape().len() == self.shape.len()
            && self.shape.iter().zip(tensor.shape()).all(|(extent, &given)| match extent {
                PortExtent::Fixed(extent) => *extent == given,
                PortExtent::Symbolic(_) | PortExtent::Any => true,
            });
        if fits {
            return Ok(());
        }
        Err(Diagnostic::error(
            codes::WRONG_SHAPE,
            format!("input `{}` has shape {:?}", self.name, tensor.shape()),
        )
        .at(self.to_string())
        .because(match tensor.shape().len() == self.shape.len() {
            true => "the model declares other extents".to_owned(),
            false => format!("the model declares {} axes", self.shape.len()),
        })
        .remedy("give a tensor of the declared shape")
        .into())
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
        write!(f, "{}[", self.dtype)?;
        for (axis, extent) in self.shape.iter().enumerate() {
            if axis > 0 {
                f.write_str(", ")?;
            }
            match extent {
                PortExtent::Fixed(extent) => write!(f, "{extent}")?,
                PortExtent::Symbolic(text) => f.write_str(text)?,
                PortExtent::Any => f.write_str("...")?,
            }
        }
        f.write_str("]")
    }
}

/// Reads a value of this kind from a file: a tensor from `.npy`, any but maps from the test data
/// of ONNX, `.pb`. Also the name that is recorded with it, empty where there is none.
///
/// # Errors
/// Files that cannot be read, or hold something else.
pub fn read_value(path: &Path, kind: &Kind) -> Result<(String, Value)> {
    if path.extension().is_none_or(|extension| extension != "pb") {
        return Ok((String::new(), tensor::npy::read(path)?.into()));
    }
    let bytes = tensor::map_file(path)?;
    let in_file = |found: Diagnostic| {
        let inner = found.place.as_ref().map(|place| format!(": {place}"));
        let place = format!("{}{}", path.display(), inner.unwrap_or_default());
        found.at(place)
    };
    let place = |found: Diagnostics| found.map(in_file);
    import_onnx::read_value(bytes, kind).map_err(place)
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
    let names: Vec<String> = inputs.iter().map(|port| format!("`{}`", port.name)).collect();
    for name in given.keys() {
        found.push(
            Diagnostic::error(codes::UNKNOWN_INPUT, format!("the model has no input `{name}`"))
                .at(format!("the value given for `{name}`"))
                .because(format!("its inputs are {}", names.join(", ")))
                .remedy("use one of these names"),
        );
    }
    found.or_ok(values)
}

/// The parameters, or the results, of a function as ports.
pub(crate) fn ports(function: &Function, parameters: bool) -> Vec<Port> {
    let (values, names) = if parameters {
        (function.parameters(), &function.parameter_names)
    } else {
        (function.results(), &function.result_names)
    };
    let extent = |expr: &sym::Expr| match expr.as_constant() {
        Some(extent) => PortExtent::Fixed(extent as usize),
        None => PortExtent::Symbolic(expr.display(&|id| function.symbol_name(id)).to_string()),
    };
    let port = |(&value, name): (&graph::ValueId, &String)| {
        let ((kind, dtype, _), name) = (kind_of(function.ty(value)), name.clone());
        let shape = match function.ty(value).as_tensor() {
            Some(ty) => ty.shape.iter().map(extent).collect(),
            None => vec![PortExtent::Any],
        };
        Port { name, dtype, shape, kind }
    };
    values.iter().zip(names).map(port).collect()
}

/// What values of a type are, and of the tensors that they are made of the element type and the
/// number of axes, where all have the same. A list that never holds a tensor has an element type
/// all the same.
pub(crate) fn kind_of(ty: &Type) -> (Kind, DType, Option<usize>) {
    kind_of_element(&ElementType::of(ty))
}

fn kind_of_element(element: &ElementType) -> (Kind, DType, Option<usize>) {
    let held = |inner: &ElementType, list: fn(Box<Kind>) -> Kind| {
        let (kind, dtype, rank) = kind_of_element(inner);
        (list(Box::new(kind)), dtype, rank)
    };
    match element {
        ElementType::Any => (Kind::Tensor, DType::U8, None),
        ElementType::Tensor { dtype, rank } => (Kind::Tensor, *dtype, *rank),
        ElementType::Sequence(inner) => held(inner, Kind::Sequence),
        ElementType::Optional(inner) => held(inner, Kind::Optional),
    }
}

/// Inputs or outputs as the model declares them.
pub(crate) fn declared_ports(infos: &[ValueInfo], options: &Options) -> Vec<Port> {
    let extent = |text: &String| {
        let bound = options.dims.get(text).and_then(|&extent| usize::try_from(extent).ok());
        match bound.or_else(|| text.parse().ok()) {
            Some(extent) => PortExtent::Fixed(extent),
            None => PortExtent::Symbolic(text.clone()),
        }
    };
    let port = |info: &ValueInfo| Port {
        name: info.name.clone(),
        dtype: info.dtype.unwrap_or(DType::String),
        shape: match &info.shape {
            Some(shape) => shape.iter().map(extent).collect(),
            None => vec![PortExtent::Any],
        },
        kind: info.kind.clone().unwrap_or(Kind::Tensor),
    };
    infos.iter().map(port).collect()
}
