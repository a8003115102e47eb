//! The inputs of a model: types, and symbols for extents that are not fixed.
//!
//! A symbolic extent ranges from 1 to the limit, that of a map from 0; other extents of 0 must be
//! declared or given.

use std::collections::BTreeSet;

use base::{Diagnostic, Diagnostics, IntoTree, codes};
use front::{
    Accepted, FactKind, Graph, ImportOptions, List, Operand, Port, PortExtent, with_shapes,
};
use graph::{ElementType, TensorType, Type};
use sym::{Expr, Range};
use tensor::{Kind, Tensor};

use crate::data_type::data_type;
use crate::proto::{
    DimensionProto, DimensionValue, ElementTypeProto, GraphProto, MapTypeProto, TypeValue,
    ValueInfoProto,
};

/// The inputs of a graph that must be given: those without a default among its constants.
pub(crate) fn without_default(graph: &GraphProto) -> Vec<&ValueInfoProto> {
    let defaults: BTreeSet<&str> =
        graph.initializer.iter().map(|tensor| tensor.name.as_str()).into_set();
    graph.input.iter().filter(|input| !defaults.contains(input.name.as_str())).collect()
}

/// An input or output as the model declares it. Extents without a name have an empty one.
pub(crate) fn declared(value: &ValueInfoProto) -> Port {
    let extent = |dim: &DimensionProto| match &dim.value {
        Some(DimensionValue::DimValue(extent)) if *extent >= 0 => {
            PortExtent::Fixed(usize::try_from(*extent).unwrap_or(usize::MAX))
        }
        Some(DimensionValue::DimParam(name)) if !is_placeholder(name) => {
            PortExtent::Symbolic(name.clone())
        }
        _ => PortExtent::Symbolic(String::new()),
    };
    let ty = value.r#type.as_ref().and_then(|ty| ty.value.as_ref());
    let (kind, dtype, shape) = match ty {
        Some(TypeValue::Tensor(tensor)) => {
            let shape = tensor.shape.as_ref().map(|it| it.dim.iter().map(extent).collect());
            (Kind::Tensor, data_type(tensor.elem_type.into()).ok(), shape)
        }
        // There are as many keys.
        Some(TypeValue::Map(map)) => {
            let shape = Some(vec![PortExtent::Symbolic(format!("{}.count", value.name))]);
            (Kind::Map, values_type(map).and_then(|it| data_type(it.into()).ok()), shape)
        }
        Some(ty) if is_list_of_maps(ty) => (Kind::Maps, None, None),
        ty => {
            let ty = ty.and_then(element_type).unwrap_or(ElementType::Any);
            let (kind, dtype, _) = ty.kind();
            (kind, dtype, None)
        }
    };
    let shape = shape.unwrap_or_else(|| vec![PortExtent::Any]);
    Port { name: value.name.clone(), dtype, shape, kind }
}

/// Whether what stands in the place of a name says only that an extent is unknown: exporters write
/// `?`, `-1` or `None`, for extents that have nothing to do with each other.
fn is_placeholder(name: &str) -> bool {
    const WORDS: [&str; 6] = ["any", "dynamic", "none", "null", "unk", "unknown"];
    !name.contains(char::is_alphabetic) || WORDS.contains(&name.to_ascii_lowercase().as_str())
}

/// ONNX's number of the element type of the values of a map.
fn values_type(map: &MapTypeProto) -> Option<i32> {
    match map.value_type.as_ref()?.value.as_ref()? {
        TypeValue::Tensor(values) => Some(values.elem_type),
        _ => None,
    }
}

fn is_list_of_maps(ty: &TypeValue) -> bool {
    let TypeValue::Sequence(inner) = ty else { return false };
    inner.elem_type.as_ref().is_some_and(|ty| matches!(ty.value, Some(TypeValue::Map(_))))
}

/// Gives each extent without a name one of its own.
pub(crate) fn name_extents(ports: &mut [Port]) {
    let mut names: BTreeSet<String> =
        ports.iter().flat_map(Port::free_extents).map(str::to_owned).into_set();
    for Port { name: value, shape, .. } in ports {
        for (axis, extent) in shape.iter_mut().enumerate() {
            let PortExtent::Symbolic(name) = extent else { continue };
            if name.is_empty() {
                *name = format!("{value}_{axis}");
                while !names.insert(name.clone()) {
                    name.push('_');
                }
            }
        }
    }
}

/// The type of what is made of tensors.
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

/// Adds the parameters of the function; the value of each input.
pub(crate) fn add_parameters(
    inputs: &[&ValueInfoProto],
    options: &ImportOptions,
    graph: &mut Graph,
) -> base::Result<Vec<Operand>> {
    let mut ports: Vec<Port> = inputs.iter().map(|input| declared(input)).collect();
    name_extents(&mut ports);
    let ports = with_shapes(ports, options, &graph.facts.shapes)?;
    let mut values = Vec::new();
    let mut found = Diagnostics::new();
    for (input, port) in inputs.iter().zip(&ports) {
        match add_input(input, port, graph) {
            Ok(value) => values.push(value),
            Err(unfit) => found.push(unfit.or_at(|| format!("input \"{}\"", port.name))),
        }
    }
    found.or_ok(values)
}

fn add_input(input: &ValueInfoProto, port: &Port, graph: &mut Graph) -> Accepted<Operand> {
    match input.r#type.as_ref().and_then(|ty| ty.value.as_ref()) {
        None => Err(unknown("the model does not say what it is").remedy("export the model again")),
        Some(TypeValue::Tensor(ty)) => add_tensor(&port.name, ty.elem_type, port, graph),
        Some(TypeValue::Map(ty)) => {
            let values = values_type(ty).ok_or_else(not_dense)?;
            let names = port.kind.component_names(&port.name);
            let keys = add_tensor(&names[0], ty.key_type, port, graph)?;
            let values = add_tensor(&names[1], values, port, graph)?;
            Ok(Operand::of_list(List::Map(keys, values)))
        }
        Some(ty) => {
            let list = element_type(ty).ok_or_else(not_dense)?;
            let list = list_type(list, port, graph)?.ok_or_else(not_dense)?;
            let id = graph.builder.parameter(port.name.clone(), list.clone());
            graph.builder.set_name(id, port.name.clone());
            Ok(Operand::of_value(id, &list))
        }
    }
}

/// Adds a parameter that is a tensor in the shape of a port.
fn add_tensor(name: &str, number: i32, port: &Port, graph: &mut Graph) -> Accepted<Operand> {
    let dtype = data_type(number.into())?;
    let is_any = port.shape.contains(&PortExtent::Any);
    if is_any || graph.facts.sizes && port.fixed_shape().is_none() {
        let (message, reason, remedy) = match is_any {
            true => (
                "the number of axes of the input is not known",
                "the model declares the input without a shape",
                "give the input, whose shape then counts, or export the model with its rank",
            ),
            false => (
                "the shape of the input is not known",
                "the model is not right for all shapes",
                "give the input itself",
            ),
        };
        let reason = Diagnostic::error(codes::UNBOUND_DIMENSION, message).because(reason);
        let reason = reason.at(format!("input \"{name}\"")).remedy(remedy);
        graph.need_input(name, FactKind::Shape, &reason);
        return Err(reason);
    }
    // A map may be empty.
    let range = Range::new(i64::from(port.kind != Kind::Map), graph.limits.dimension);
    let extent = |extent: &PortExtent| match extent {
        PortExtent::Fixed(extent) => Expr::from(*extent),
        named => Expr::symbol(graph.builder.symbol(&named.to_string(), range)),
    };
    let shape: Vec<Expr> = port.shape.iter().map(extent).collect();
    graph.check_size(&shape)?;
    let ty = TensorType { dtype, shape: shape.into() };
    let id = graph.builder.parameter(name, Type::Tensor(ty.clone()));
    graph.builder.set_name(id, name);
    let value = Operand::of_node(id, ty);
    match graph.facts.values.get(name).cloned() {
        Some(tensor) => specialized(graph, value, &tensor),
        None => Ok(value),
    }
}

/// The type of a list, which says how many axes the tensors have that it holds.
fn list_type(declared: ElementType, port: &Port, graph: &mut Graph) -> Accepted<Option<Type>> {
    if declared.tells_ranks() {
        return Ok(declared.as_list());
    }
    let Some(told) = graph.facts.types.get(&port.name) else {
        let message = "the number of axes of what the input holds must be known to compile";
        let reason = Diagnostic::error(codes::UNKNOWN_CONTENTS, message)
            .at(format!("input \"{}\"", port.name))
            .because("the model declares a list of tensors without shapes")
            .remedy("run the model with the input given");
        graph.need_input(&port.name, FactKind::Type, &reason);
        return Err(reason);
    };
    Ok(declared.with_ranks_of(told).as_list())
}

fn unknown(reason: &str) -> Diagnostic {
    let message = "the type of this input or output is unknown";
    Diagnostic::error(codes::UNSUPPORTED_TYPE, message).because(reason)
}

fn not_dense() -> Diagnostic {
    unknown("it is not a dense tensor")
        .remedy("export the model without sparse tensors, and without maps in other values")
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
        .remedy("give the value with the type and rank that `tilewright info MODEL` shows"));
    }
    for (axis, (declared, given)) in value.shape().iter().zip(&shape).enumerate() {
        graph.assume_equal_axes(declared, given, &format!("axis {axis}"))?;
    }
    Ok(value.knowing(tensor))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::{TensorShapeProto, TensorTypeProto, TypeProto};

    #[test]
    fn placeholders_are_no_names() {
        let extent =
            |name: &str| DimensionProto { value: Some(DimensionValue::DimParam(name.to_owned())) };
        let dim = ["x_0", "?", "?", "None", "-1", "n"].map(extent).to_vec();
        let tensor = TensorTypeProto { elem_type: 1, shape: Some(TensorShapeProto { dim }) };
        let ty = TypeProto { value: Some(TypeValue::Tensor(tensor)) };
        let value = ValueInfoProto { r#type: Some(ty), ..ValueInfoProto::untyped("x") };
        let mut ports = [declared(&value)];
        name_extents(&mut ports);
        assert_eq!(ports[0].to_string(), "x: f32[x_0, x_1, x_2, x_3, x_4, n]");
    }
}
