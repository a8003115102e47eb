//! The inputs of a model: types, and symbols for extents that are not fixed.
//!
//! A symbolic extent ranges from 1 to the limit, that of a map from 0; other extents of 0 must be
//! declared or given.

use std::collections::{BTreeMap, BTreeSet};

use base::{Diagnostic, Diagnostics, codes};
use front::{Accepted, FactKind, Graph, Operand};
use graph::{ElementType, TensorType, Type};
use sym::{Expr, Range};
use tensor::{DType, Kind, Structure, Tensor};

use crate::data_type::{data_type, number_of};
use crate::options::ImportOptions;
use crate::proto::{
    DimensionProto, DimensionValue, ElementTypeProto, GraphProto, MapTypeProto, TensorShapeProto,
    TensorTypeProto, TypeProto, TypeValue, ValueInfoProto,
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

/// A declared tensor type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Declared {
    /// The name of the value.
    pub(crate) name: String,
    /// ONNX's number of the element type.
    pub(crate) data_type: i32,
    /// The shape, where even the rank is known.
    pub(crate) shape: Option<Vec<Extent>>,
    /// The type of a sequence or an optional value, which is no tensor.
    pub(crate) list: Option<Type>,
}

/// Reads the declared types of inputs or outputs. Extents without a name get one of their own.
pub(crate) fn declared(
    values: &[ValueInfoProto],
) -> Vec<std::result::Result<Declared, Diagnostic>> {
    let mut names: BTreeSet<String> = BTreeSet::new();
    for value in values {
        for extent in shape_of(value).into_iter().flatten() {
            if let Extent::Named(name) = extent {
                names.insert(name);
            }
        }
    }
    values.iter().map(|value| declared_one(value, &mut names)).collect()
}

fn shape_of(value: &ValueInfoProto) -> Option<Vec<Extent>> {
    let Some(TypeValue::Tensor(tensor)) = value.r#type.as_ref()?.value.as_ref() else {
        return None;
    };
    let extents = tensor.shape.as_ref()?.dim.iter().map(|dim| match &dim.value {
        Some(DimensionValue::DimValue(extent)) if *extent >= 0 => Extent::Fixed(*extent),
        Some(DimensionValue::DimParam(name)) => Extent::Named(name.clone()),
        _ => Extent::Named(String::new()),
    });
    Some(extents.collect())
}

fn declared_one(value: &ValueInfoProto, names: &mut BTreeSet<String>) -> Accepted<Declared> {
    let refuse = |reason: &str| {
        Diagnostic::error(codes::UNSUPPORTED_TYPE, "the type of this input or output is unknown")
            .at(format!("value \"{}\"", value.name))
            .because(reason)
    };
    let kind = value.r#type.as_ref().and_then(|ty| ty.value.as_ref());
    let tensor = match kind {
        Some(TypeValue::Tensor(tensor)) => tensor,
        Some(_) => {
            return Err(refuse("it is not a dense tensor")
                .remedy("export the model without sequences, maps and optional values"));
        }
        None => {
            return Err(
                refuse("the model does not say what it is").remedy("export the model again")
            );
        }
    };
    let mut shape = shape_of(value);
    for (axis, extent) in shape.iter_mut().flatten().enumerate() {
        if *extent == Extent::Named(String::new()) {
            let mut name = format!("{}_{axis}", value.name);
            while !names.insert(name.clone()) {
                name.push('_');
            }
            *extent = Extent::Named(name);
        }
    }
    Ok(Declared { name: value.name.clone(), data_type: tensor.elem_type, shape, list: None })
}

/// As [`declared`], with lists that a run tells all of.
pub(crate) fn declared_with_lists(
    values: &[ValueInfoProto],
) -> Vec<std::result::Result<Declared, Diagnostic>> {
    let with_lists = |(value, declared): (&ValueInfoProto, _)| match list_type(value) {
        Some(list) => {
            let (name, list) = (value.name.clone(), Some(list));
            Ok(Declared { name, data_type: 0, shape: Some(Vec::new()), list })
        }
        None => declared,
    };
    values.iter().zip(declared(values)).map(with_lists).collect()
}

/// The type of a sequence or an optional value of tensors.
fn list_type(value: &ValueInfoProto) -> Option<Type> {
    match element_type(value.r#type.as_ref()?)? {
        ElementType::Sequence(held) => Some(Type::Sequence(held)),
        ElementType::Optional(held) => Some(Type::Optional(held)),
        ElementType::Any | ElementType::Tensor { .. } => None,
    }
}

fn element_type(ty: &TypeProto) -> Option<ElementType> {
    let held = |inner: &ElementTypeProto| element_type(inner.elem_type.as_ref()?).map(Box::new);
    match ty.value.as_ref()? {
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

/// The declarations of the tensors that a value of a structure is made of; none where the value is
/// not declared so.
pub(crate) fn parts(value: &ValueInfoProto, structure: &Structure) -> Option<Vec<ValueInfoProto>> {
    let inner = |name: String, ty: &TypeProto| ValueInfoProto { name, r#type: Some(ty.clone()) };
    match (structure, value.r#type.as_ref()?.value.as_ref()?) {
        (Structure::Tensor, TypeValue::Tensor(_)) => Some(vec![value.clone()]),
        (Structure::Sequence(elements), TypeValue::Sequence(ty)) => {
            // Each element has extents of its own, whatever they are called.
            let ty = without_names(ty.elem_type.as_ref()?);
            let mut all = Vec::new();
            for (index, element) in elements.iter().enumerate() {
                all.extend(parts(&inner(format!("{}[{index}]", value.name), &ty), element)?);
            }
            Some(all)
        }
        (Structure::Map, TypeValue::Map(ty)) => of_map(value, ty),
        (Structure::Optional(None), TypeValue::Optional(_)) => Some(Vec::new()),
        (Structure::Optional(Some(element)), TypeValue::Optional(ty)) => {
            parts(&inner(value.name.clone(), ty.elem_type.as_ref()?), element)
        }
        _ => None,
    }
}

/// The declarations of the vectors of a map's keys and values; none if these are no tensors.
fn of_map(value: &ValueInfoProto, ty: &MapTypeProto) -> Option<Vec<ValueInfoProto>> {
    let Some(TypeValue::Tensor(element)) = &ty.value_type.as_ref()?.value else {
        return None;
    };
    let names = Structure::Map.names(&value.name);
    let types = [data_type(ty.key_type.into()).ok()?, data_type(element.elem_type.into()).ok()?];
    // There are as many of both.
    let count = DimensionValue::DimParam(format!("{}.count", value.name));
    let vector =
        |(name, dtype): (&String, DType)| declaration(name, dtype, std::iter::once(count.clone()));
    Some(names.iter().zip(types).map(vector).collect())
}

/// The declaration of an input.
pub(crate) fn declaration(
    name: &str,
    dtype: DType,
    extents: impl Iterator<Item = DimensionValue>,
) -> ValueInfoProto {
    let extent = |extent| DimensionProto { value: Some(extent) };
    let shape = Some(TensorShapeProto { dim: extents.map(extent).collect() });
    let ty = TensorTypeProto { elem_type: number_of(dtype), shape };
    let value = Some(TypeValue::Tensor(ty));
    ValueInfoProto { name: name.to_owned(), r#type: Some(TypeProto { value }) }
}

fn without_names(ty: &TypeProto) -> TypeProto {
    let mut ty = ty.clone();
    if let Some(TypeValue::Tensor(tensor)) = &mut ty.value {
        for dim in tensor.shape.iter_mut().flat_map(|shape| &mut shape.dim) {
            if matches!(dim.value, Some(DimensionValue::DimParam(_))) {
                dim.value = None;
            }
        }
    }
    ty
}

/// Adds the parameters of the function. The model's inputs with a default value are not among them;
/// those of these names are parts of maps.
pub(crate) fn add_parameters(
    inputs: &[Declared],
    maps: &BTreeSet<String>,
    options: &ImportOptions,
    graph: &mut Graph,
) -> base::Result<Vec<(String, Operand)>> {
    let bound = bindings(inputs, options, &graph.facts.shapes)?;
    let mut values = Vec::new();
    let mut found = Diagnostics::new();
    for input in inputs {
        let least = i64::from(!maps.contains(&input.name));
        match add_parameter(input, least, options, &bound, graph) {
            Ok(value) => values.push((input.name.clone(), value)),
            Err(unfit) => found.push(unfit.or_at(|| format!("input \"{}\"", input.name))),
        }
    }
    found.or_ok(values)
}

fn add_parameter(
    input: &Declared,
    least: i64,
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
                        let range = Range::new(least, options.limits.dimension);
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
