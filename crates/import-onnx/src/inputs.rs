//! The inputs of a model: types, and symbols for extents that are not fixed.
//!
//! A symbolic extent ranges from 1 to the limit, that of a map from 0; other extents of 0 must be
//! declared or given.

use std::collections::{BTreeMap, BTreeSet};

use base::{Diagnostic, Diagnostics, codes};
use front::{Accepted, FactKind, Graph, Operand};
use graph::{ElementType, TensorType, Type};
use sym::{Expr, Range};
use tensor::{Kind, Structure, Tensor};

use crate::data_type::data_type;
use crate::options::ImportOptions;
use crate::proto::{
    DimensionProto, DimensionValue, ElementTypeProto, GraphProto, TypeProto, TypeValue,
    ValueInfoProto,
};

/// The inputs of a graph that must be given: those without a default among its constants.
pub(crate) fn without_default(graph: &GraphProto) -> Vec<&ValueInfoProto> {
    let defaults: BTreeSet<&str> =
        graph.initializer.iter().map(|tensor| tensor.name.as_str()).collect();
    graph.input.iter().filter(|input| !defaults.contains(input.name.as_str())).collect()
}

/// An extent as the model declares it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Extent {
    /// A number.
    Fixed(i64),
    /// A name: the model's, or one made of the input's name and the axis.
    Named(String),
}

/// A declared tensor: a value, or a part of one.
#[derive(Clone, Debug)]
pub(crate) struct Declared {
    /// The name of the tensor.
    pub(crate) name: String,
    /// ONNX's number of the element type.
    pub(crate) data_type: i32,
    /// The shape, where even the rank is known.
    pub(crate) shape: Option<Vec<Extent>>,
    /// The type of a sequence or an optional value that a run tells all of.
    pub(crate) list: Option<Type>,
    /// The least that an extent which is not fixed may be.
    least: i64,
}

/// The tensors that a value of a structure is made of, as they are declared. Extents without a name
/// have an empty one.
///
/// # Errors
/// For a value that is not declared so.
pub(crate) fn parts(value: &ValueInfoProto, structure: &Structure) -> Accepted<Vec<Declared>> {
    let refuse = |message: &str, reason: &str| {
        let place = format!("value \"{}\"", value.name);
        Diagnostic::error(codes::UNSUPPORTED_TYPE, message).at(place).because(reason)
    };
    let unknown = "the type of this input or output is unknown";
    let Some(ty) = value.r#type.as_ref().and_then(|ty| ty.value.as_ref()) else {
        let reason = "the model does not say what it is";
        return Err(refuse(unknown, reason).remedy("export the model again"));
    };
    let mut all = Vec::new();
    match (push_parts(&value.name, ty, structure, &mut all), structure) {
        (Some(()), _) => Ok(all),
        (None, Structure::Tensor) => Err(refuse(unknown, "it is not a dense tensor")
            .remedy("export the model without sequences, maps and optional values")),
        (None, _) => {
            Err(refuse("the input is not so declared", "it is made of other kinds of values")
                .remedy("give a value of the kind that `info` shows"))
        }
    }
}

fn push_parts(
    name: &str,
    ty: &TypeValue,
    structure: &Structure,
    all: &mut Vec<Declared>,
) -> Option<()> {
    match (structure, ty) {
        (Structure::Tensor, TypeValue::Tensor(tensor)) => {
            let extent = |dim: &DimensionProto| match &dim.value {
                Some(DimensionValue::DimValue(extent)) if *extent >= 0 => Extent::Fixed(*extent),
                Some(DimensionValue::DimParam(name)) => Extent::Named(name.clone()),
                _ => Extent::Named(String::new()),
            };
            let shape = tensor.shape.as_ref().map(|it| it.dim.iter().map(extent).collect());
            let (name, data_type) = (name.to_owned(), tensor.elem_type);
            all.push(Declared { name, data_type, shape, list: None, least: 1 });
        }
        (Structure::Sequence(elements), TypeValue::Sequence(ty)) => {
            let (first, ty) = (all.len(), ty.elem_type.as_ref()?.value.as_ref()?);
            for (index, element) in elements.iter().enumerate() {
                push_parts(&format!("{name}[{index}]"), ty, element, all)?;
            }
            // Each element has extents of its own, whatever they are called.
            for extent in all[first..].iter_mut().filter_map(|it| it.shape.as_mut()).flatten() {
                if let Extent::Named(name) = extent {
                    name.clear();
                }
            }
        }
        (Structure::Map, TypeValue::Map(ty)) => {
            let Some(TypeValue::Tensor(value)) = &ty.value_type.as_ref()?.value else {
                return None;
            };
            // There are as many of both.
            let shape = Some(vec![Extent::Named(format!("{name}.count"))]);
            let names = Structure::Map.names(name).into_iter();
            all.extend(names.zip([ty.key_type, value.elem_type]).map(|(name, data_type)| {
                Declared { name, data_type, shape: shape.clone(), list: None, least: 0 }
            }));
        }
        (Structure::Tensor, ty) => {
            let (name, list) = (name.to_owned(), Some(list_type(ty)?));
            all.push(Declared { name, data_type: 0, shape: None, list, least: 1 });
        }
        (Structure::Optional(None), TypeValue::Optional(_)) => {}
        (Structure::Optional(Some(element)), TypeValue::Optional(ty)) => {
            push_parts(name, ty.elem_type.as_ref()?.value.as_ref()?, element, all)?;
        }
        _ => return None,
    }
    Some(())
}

/// Gives each extent without a name one of its own.
pub(crate) fn name_extents<'a>(values: impl IntoIterator<Item = &'a mut Declared>) {
    let mut values: Vec<&mut Declared> = values.into_iter().collect();
    let extents = values.iter().filter_map(|value| value.shape.as_ref()).flatten();
    let mut names: BTreeSet<String> = extents
        .filter_map(|extent| match extent {
            Extent::Named(name) => Some(name.clone()),
            Extent::Fixed(_) => None,
        })
        .collect();
    for Declared { name: value, shape, .. } in &mut values {
        for (axis, extent) in shape.iter_mut().flatten().enumerate() {
            let Extent::Named(name) = extent else { continue };
            if name.is_empty() {
                *name = format!("{value}_{axis}");
                while !names.insert(name.clone()) {
                    name.push('_');
                }
            }
        }
    }
}

/// The type of a sequence or an optional value of tensors.
fn list_type(ty: &TypeValue) -> Option<Type> {
    match element_type(ty)? {
        ElementType::Sequence(held) => Some(Type::Sequence(held)),
        ElementType::Optional(held) => Some(Type::Optional(held)),
        ElementType::Any | ElementType::Tensor { .. } => None,
    }
}

fn element_type(ty: &TypeValue) -> Option<ElementType> {
    let held = |inner: &ElementTypeProto| {
        element_type(inner.elem_type.as_ref()?.value.as_ref()?).map(Box::new)
    };
    match ty {
        TypeValue::Tensor(tensor) => {
            let dtype = data_type(tensor.elem_type.into()).ok()?;
            Some(ElementType::Tensor { dtype, rank: tensor.shape.as_ref().map(|it| it.dim.len()) })
        }
        TypeValue::Sequence(inner) => Some(ElementType::Sequence(held(inner)?)),
        TypeValue::Optional(inner) => Some(ElementType::Optional(held(inner)?)),
        _ => None,
    }
}

/// What a model declares a value to be; none for what is made of no tensors.
pub(crate) fn kind_of(value: &ValueInfoProto) -> Option<Kind> {
    kind(value.r#type.as_ref()?)
}

fn is_map(ty: &TypeProto) -> bool {
    matches!(ty.value, Some(TypeValue::Map(_)))
}

fn kind(ty: &TypeProto) -> Option<Kind> {
    match ty.value.as_ref()? {
        TypeValue::Tensor(_) => Some(Kind::Tensor),
        TypeValue::Map(_) => Some(Kind::Map),
        TypeValue::Sequence(inner) if is_map(inner.elem_type.as_ref()?) => Some(Kind::Maps),
        TypeValue::Sequence(inner) => {
            Some(Kind::Sequence(Box::new(kind(inner.elem_type.as_ref()?)?)))
        }
        TypeValue::Optional(inner) => {
            Some(Kind::Optional(Box::new(kind(inner.elem_type.as_ref()?)?)))
        }
        _ => None,
    }
}

/// Adds the parameters of the function. The model's inputs with a default value are not among them.
pub(crate) fn add_parameters(
    inputs: &[Declared],
    options: &ImportOptions,
    graph: &mut Graph,
) -> base::Result<Vec<Operand>> {
    let bound = bindings(inputs, options, &graph.facts.shapes)?;
    let mut values = Vec::new();
    let mut found = Diagnostics::new();
    for input in inputs {
        match add_parameter(input, options, &bound, graph) {
            Ok(value) => values.push(value),
            Err(unfit) => found.push(unfit.or_at(|| format!("input \"{}\"", input.name))),
        }
    }
    found.or_ok(values)
}

fn add_parameter(
    input: &Declared,
    options: &ImportOptions,
    bound: &BTreeMap<String, i64>,
    graph: &mut Graph,
) -> Accepted<Operand> {
    if let Some(list) = &input.list {
        let id = graph.builder.parameter(input.name.clone(), list.clone());
        graph.builder.set_name(id, input.name.clone());
        return Ok(Operand::of_value(id, list));
    }
    let dtype = data_type(input.data_type.into())?;
    let given = graph.facts.shapes.get(&input.name).or(options.input_shapes.get(&input.name));
    let shape: Vec<Expr> = match (&input.shape, given.cloned()) {
        (Some(shape), _) => shape
            .iter()
            .map(|extent| match extent {
                Extent::Fixed(extent) => Expr::from(*extent),
                Extent::Named(name) => match bound.get(name) {
                    Some(extent) => Expr::from(*extent),
                    None => {
                        let range = Range::new(input.least, options.limits.dimension);
                        Expr::symbol(graph.builder.symbol(name, range))
                    }
                },
            })
            .collect(),
        (None, Some(shape)) => shape.into_iter().map(Expr::from).collect(),
        (None, None) => {
            let reason = Diagnostic::error(
                codes::UNBOUND_DIMENSION,
                "the number of axes of the input is not known",
            )
            .because("the model declares the input without a shape")
            .remedy("give the input, whose shape then counts, or export the model with its rank");
            let reason = reason.at(format!("input \"{}\"", input.name));
            graph.need_input(&input.name, FactKind::Shape, &reason);
            return Err(reason);
        }
    };
    if graph.facts.sizes && shape.iter().any(|extent| extent.as_constant().is_none()) {
        let reason =
            Diagnostic::error(codes::UNBOUND_DIMENSION, "the shape of the input is not known")
                .at(format!("input \"{}\"", input.name))
                .because("the model is not right for all shapes")
                .remedy("give the input itself");
        graph.need_input(&input.name, FactKind::Shape, &reason);
        return Err(reason);
    }
    graph.check_size(&shape)?;
    let ty = TensorType { dtype, shape: shape.into() };
    let id = graph.builder.parameter(input.name.clone(), Type::Tensor(ty.clone()));
    graph.builder.set_name(id, input.name.clone());
    let value = Operand::of_node(id, ty);
    match graph.facts.values.get(&input.name).cloned() {
        Some(tensor) => specialized(graph, value, &tensor),
        None => Ok(value),
    }
}

/// An input whose elements are known.
fn specialized(graph: &mut Graph, value: Operand, tensor: &Tensor) -> Accepted<Operand> {
    let shape: Vec<Expr> = tensor.shape().iter().map(|&extent| Expr::from(extent)).collect();
    if tensor.dtype() != value.dtype() || shape.len() != value.rank() {
        return Err(Diagnostic::error(
            codes::WRONG_DTYPE,
            "a given value is not of the input's type",
        )
        .because(format!("it is {}{:?}", tensor.dtype(), tensor.shape()))
        .remedy("give the value with the type and rank that `info` shows"));
    }
    for (declared, given) in value.shape().iter().zip(&shape) {
        graph.assume_equal(declared, given)?;
    }
    Ok(value.knowing(tensor))
}

/// Values of names: those that the user gives, and those that follow from given input shapes.
fn bindings(
    inputs: &[Declared],
    options: &ImportOptions,
    known: &BTreeMap<String, Vec<i64>>,
) -> base::Result<BTreeMap<String, i64>> {
    let mut bound = options.dims.clone();
    let mut found = Diagnostics::new();
    let mut names: BTreeSet<&str> = BTreeSet::new();
    for extent in inputs.iter().filter_map(|input| input.shape.as_ref()).flatten() {
        if let Extent::Named(name) = extent {
            names.insert(name);
        }
    }
    for name in options.dims.keys().filter(|name| !names.contains(name.as_str())) {
        let known: Vec<&str> = names.iter().copied().collect();
        found.push(
            Diagnostic::error(codes::UNKNOWN_DIMENSION, format!("no dimension is named `{name}`"))
                .at(format!("--dim {name}={}", options.dims[name]))
                .because(match known.is_empty() {
                    true => "all dimensions of the model are fixed".to_owned(),
                    false => format!("the model's named dimensions are: {}", known.join(", ")),
                })
                .remedy("use one of these names, or leave it out"),
        );
    }
    for name in options.input_shapes.keys() {
        if !inputs.iter().any(|input| input.name == *name) {
            let known: Vec<&str> = inputs.iter().map(|input| input.name.as_str()).collect();
            found.push(
                Diagnostic::error(codes::UNKNOWN_INPUT, format!("no input is named `{name}`"))
                    .at(format!("--input {name}=…"))
                    .because(format!("the model's inputs are: {}", known.join(", ")))
                    .remedy("use one of these names"),
            );
        }
    }
    for input in inputs {
        let Some(shape) = &input.shape else { continue };
        let given = [options.input_shapes.get(&input.name), known.get(&input.name)];
        for given in given.into_iter().flatten() {
            if let Err(reason) = bind_shape(shape, given, &mut bound) {
                let message = "an input's shape is not the declared one";
                found.push(
                    Diagnostic::error(codes::WRONG_SHAPE, message)
                        .at(format!("input \"{}\"", input.name))
                        .because(reason)
                        .remedy("give the input in the shape that `info` shows"),
                );
            }
        }
    }
    for (name, extent) in bound.iter().filter(|(_, extent)| **extent < 0) {
        found.push(
            Diagnostic::error(codes::WRONG_SHAPE, format!("dimension `{name}` cannot be {extent}"))
                .at(format!("--dim {name}={extent}"))
                .because("an extent is not negative")
                .remedy("give 0 or more"),
        );
    }
    found.or_ok(bound)
}

fn bind_shape(
    shape: &[Extent],
    given: &[i64],
    bound: &mut BTreeMap<String, i64>,
) -> std::result::Result<(), String> {
    if shape.len() != given.len() {
        return Err(format!("it has {} axes, not {}", shape.len(), given.len()));
    }
    for (axis, (extent, &given)) in shape.iter().zip(given).enumerate() {
        let expected = match extent {
            Extent::Fixed(extent) => *extent,
            Extent::Named(name) => *bound.entry(name.clone()).or_insert(given),
        };
        if expected != given {
            return Err(format!("axis {axis} has extent {expected}, not {given}"));
        }
    }
    Ok(())
}
